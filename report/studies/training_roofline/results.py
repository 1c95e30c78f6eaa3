"""Derived results of training_roofline: efficiencies, shares of roofs, clocks and predictions."""

from typing import Final

from report.core.missing import Missing
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity, exact
from report.quantity.operations import spanning
from report.studies.training_roofline import source, subject, theory
from report.studies.training_roofline.source import CLOCKS, GPUS, RTX, T4, T4_CLOCK, Source
from report.studies.training_roofline.subject import HEAVY, LIGHT, MARGIN, SMALL, SOURCE_BATCH
from report.studies.training_roofline.theory import least_time, value_of

#: Networks over whose cases the source averages efficiencies.
MEAN: Final = (SMALL, HEAVY)
#: Case of a ratio → its networks, and whether the collapsed run counts.
CASES: Final = {
    "Mean, run kept": (MEAN, True),
    "Mean, run left out": (MEAN, False),
    SMALL: ((SMALL,), False),
    f"{HEAVY}, run kept": ((HEAVY,), True),
    f"{HEAVY}, run left out": ((HEAVY,), False),
    LIGHT: ((LIGHT,), False),
}


def _speed(case: source.PrintedCase, by_rate: bool) -> Quantity:
    """Return the throughput (1/s) that the printed efficiency implies, or the printed one."""
    return case.implied if by_rate else case.images


def ratio(
    s: Source,
    *networks: str,
    peaks: tuple[Quantity, ...] = (),
    collapsed: bool = False,
    by_rate: bool | None = None,
) -> Quantity:
    """Divide the T4's mean efficiency by the laptop's, over ``peaks`` of the laptop.

    The value is that of the first peak, and its bounds span all; by default those of the rated
    clocks.  ``collapsed`` cases count too, or else are left out on both GPUs.  Efficiencies are the
    printed ones, or without ``by_rate`` those of the printed throughputs; ``None`` prefers printed.
    """
    rates = []
    by_rate = LIGHT not in networks if by_rate is None else by_rate
    for device in GPUS:
        choose = s.cases_of if collapsed else s.steady_cases
        cases = [case for network in networks for case in choose(device, network)]
        first, *others = (_speed(case, by_rate) * s.printed_work(case.network) for case in cases)
        rates.append(sum(others, first) / len(cases))
    laptop, t4 = rates
    peaks = peaks or tuple(s.peak(RTX, clock) for clock in CLOCKS)
    return spanning(*(t4 / s.peak(T4) * peak / laptop for peak in peaks))


def run_factor(s: Source) -> Quantity:
    """Divide the source's mean ratio with the collapsed run by the ratio without the run."""
    chip = (s.peak(RTX),)
    return ratio(s, *MEAN, peaks=chip, collapsed=True) / ratio(s, *MEAN, peaks=chip)


def even_clock(s: Source, of: Quantity) -> Quantity:
    """Return the laptop's clock (MHz) at which the ratio ``of`` is one."""
    return s.first_row("cores", "nominal") / of


def printed_clock(s: Source) -> Quantity:
    """Return the clock (MHz) that the laptop's chip would need for the printed peak."""
    return s.first_row("cores", "nominal") * s.printed_peak(RTX) / s.peak(RTX)


def share_of_roofs(
    s: Source, device: str, network: str, *clocks: Quantity | float, by_rate: bool = False
) -> Quantity:
    """Divide a GPU's speed by its speed at the nearer roof of each layer, over the laptop's clocks.

    The speed is the printed throughput, or with ``by_rate`` the one that the printed efficiency
    implies.  ``clocks`` are of the T4, divided by its highest one, which is the default.
    """
    case, shares = s.largest_steady_case(device, network), []
    peaks = [s.peak(T4) * clock for clock in clocks] or [s.peak(T4)]
    for peak in [s.peak(RTX, clock) for clock in CLOCKS] if device == RTX else peaks:
        seconds, _ = least_time(network, case.batch, peak, s.bandwidth(device))
        shares.append(_speed(case, by_rate) * seconds / case.batch)
    return spanning(*shares)


def roofs_ratio(s: Source, network: str, by_rate: bool = False) -> Quantity:
    """Divide the laptop's share of its roofs by the T4's, over the clocks of both.

    The T4's clocks end where arithmetic alone allows its printed efficiency on ResNet-18.
    """
    t4 = share_of_roofs(s, T4, network, 1, of_peak(s, T4, SMALL), by_rate=by_rate)
    return share_of_roofs(s, RTX, network, by_rate=by_rate) / t4


def clock_by_roofs(s: Source) -> int:
    """Return the T4's least clock (MHz) for its efficiency on ResNet-18, by its roofs."""
    clock = T4_CLOCK
    while value_of(share_of_roofs(s, T4, SMALL, (clock - 1) / T4_CLOCK, by_rate=True)) <= 1:
        clock -= 1
    return clock


def leader(ratio: Quantity) -> str | Missing:
    """Name the GPU that leads, by over a tenth, in the whole range of ``ratio``, T4 to laptop."""
    bounds = estimate(ratio)
    if isinstance(bounds, Missing):
        return bounds
    if bounds.high < 1 / (1 + MARGIN):
        return "laptop leads"
    if bounds.low < 1 / (1 + MARGIN):
        return "clocks decide"
    return "T4 leads" if bounds.low > 1 + MARGIN else "T4 leads or ties"


def memory_share(s: Source, device: str, network: str) -> Quantity:
    """Return the share of a step's least time near memory's roof, at the nominal clock."""
    _, near_memory = least_time(network, SOURCE_BATCH, s.peak(device), s.bandwidth(device))
    return exact(f"{network} near memory, {device}", "1", near_memory, s.file)


def collapsed_steps(s: Source) -> tuple[Quantity, Quantity, Quantity, Quantity]:
    """Return mean (if the efficiency is by total time), deviation and range (s) of the steps."""
    names = ("collapse_deviation", "collapse_fastest", "collapse_slowest")
    deviation, fastest, slowest = (s.value(name, "s", 1e-3) for name in names)
    return SOURCE_BATCH / s.cases_of(RTX, HEAVY)[-1].implied, deviation, fastest, slowest


def collapsed_excess(s: Source) -> tuple[Quantity, Quantity, Quantity]:
    """Return the collapsed run's least and largest excess, and with one waiting step in four."""
    mean, deviation, fastest, slowest = collapsed_steps(s)
    ready = mean - deviation / (subject.WORKERS - 1) ** 0.5
    least, most = (theory.two_point_excess(mean, deviation, end) for end in (slowest, fastest))
    return least, most, theory.two_point_excess(mean, deviation, ready)


def of_peak(s: Source, device: str, network: str) -> Quantity:
    """Return the printed efficiency with our work and the device's own peak."""
    return s.largest_steady_case(device, network).implied * theory.work(network) / s.peak(device)


def fixed_part(s: Source, device: str) -> tuple[Quantity, Quantity]:
    """Return ResNet-50's time (s) that does not double with the batch, and its least share."""
    half, whole = (case.batch / case.images for case in s.cases_of(device, HEAVY)[:2])
    return 2 * half - whole, 2 - whole / half
