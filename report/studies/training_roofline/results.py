"""Derived results of training_roofline: efficiencies, shares of roofs, clocks and predictions."""

from typing import Final

from report.core.missing import Missing
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity, exact
from report.quantity.operations import largest, spanning
from report.studies.training_roofline import subject, theory
from report.studies.training_roofline.source import CLOCKS, GPUS, RTX, T4, PrintedCase, Source
from report.studies.training_roofline.subject import HEAVY, LIGHT, MARGIN, SMALL, SOURCE_BATCH
from report.studies.training_roofline.theory import least_time

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


def _speed(case: PrintedCase, by_rate: bool) -> Quantity:
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


def needed_clock(s: Source, by_rate: bool = True) -> Quantity:
    """Divide the least clock that the T4 needs for its speeds, by arithmetic, by its highest."""
    cases = [case for case in s.cases if case.device == T4 and not case.implied.missing]
    rates = [_speed(case, by_rate) * theory.work(case.network) for case in cases]
    return largest(*rates) / s.peak(T4)


def even_clock(s: Source, of: Quantity) -> Quantity:
    """Return the laptop's clock (MHz) at which the ratio ``of`` is one."""
    return s.first_row("cores", "nominal") / of


def printed_clock(s: Source) -> Quantity:
    """Return the clock (MHz) that the laptop's chip would need for the printed peak."""
    return s.first_row("cores", "nominal") * s.printed_peak(RTX) / s.peak(RTX)


def share_of_roofs(
    s: Source, device: str, network: str, *, by_rate: bool = False, slow: bool = False
) -> Quantity:
    """Divide a GPU's speed by its speed at the nearer roof of each layer, over the laptop's clocks.

    The speed is the printed throughput, or with ``by_rate`` the one that the printed efficiency
    implies.  The T4 is at its highest clock; with ``slow`` also at the least clock that it needs.
    """
    case, highest = s.largest_steady_case(device, network), s.peak(device)
    peaks = [s.peak(RTX, clock) for clock in CLOCKS] if device == RTX else [highest]
    if slow and device == T4:
        peaks.append(highest * needed_clock(s, by_rate))
    shares = []
    for peak in peaks:
        seconds, _ = least_time(network, case.batch, peak, s.bandwidth(device))
        shares.append(_speed(case, by_rate) * seconds / case.batch)
    return spanning(*shares)


def leader(ratio: Quantity) -> str | Missing:
    """Name the GPU that leads over the whole range of the T4's ratio to the laptop's."""
    bounds = estimate(ratio)
    if isinstance(bounds, Missing):
        return bounds
    if bounds.high < 1 / (1 + MARGIN):
        return "laptop leads"
    if bounds.low < 1 - MARGIN:
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
