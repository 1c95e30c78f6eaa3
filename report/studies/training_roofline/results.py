"""Derived results of training_roofline: efficiencies, shares of roofs, clocks and predictions."""

from collections.abc import Sequence
from functools import partial
from typing import Final, Literal, TypeAlias

from report.core.missing import Missing
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity, exact_number
from report.quantity.operations import range_over
from report.studies.training_roofline import source, subject, theory
from report.studies.training_roofline.source import CLOCKS, GPUS, RTX, T4, T4_CLOCK, Source
from report.studies.training_roofline.subject import MARGIN, MOBILENET, RESNET18, RESNET50
from report.studies.training_roofline.theory import least_time, value_of

#: Speed of a case: the throughput that its printed efficiency implies, or the printed throughput.
Speed: TypeAlias = Literal["efficiency", "throughput"]
#: Networks over whose cases the source averages efficiencies.
AVERAGED: Final = (RESNET18, RESNET50)
#: Name of a ratio of efficiencies → networks, and whether the collapsed run counts.
CASES: Final = {
    "Mean, run kept": (AVERAGED, True),
    "Mean, run left out": (AVERAGED, False),
    RESNET18: ((RESNET18,), False),
    f"{RESNET50}, run kept": ((RESNET50,), True),
    f"{RESNET50}, run left out": ((RESNET50,), False),
    MOBILENET: ((MOBILENET,), False),
}


def _throughput(case: source.PrintedCase, speed: Speed) -> Quantity:
    """Return the throughput (1/s) of a case by one of its two speeds."""
    return case.implied if speed == "efficiency" else case.throughput


def ratio(
    s: Source,
    *networks: str,
    clocks: Sequence[str] = CLOCKS,
    collapsed: bool = False,
    speed: Speed | None = None,
) -> Quantity:
    """Divide the T4's mean efficiency over ``networks`` by the laptop's.

    The value is for the laptop's peak at the first of ``clocks``, and the bounds span all clocks.
    ``collapsed``: also count the collapsed run.  ``speed``: by default the printed efficiency, for
    MobileNetV2, of which none is printed, the throughput.
    """
    rates = []
    speed = speed or ("throughput" if MOBILENET in networks else "efficiency")
    for device in GPUS:
        select_cases = s.cases_of if collapsed else s.steady_cases
        cases = [case for network in networks for case in select_cases(device, network)]
        first, *others = (_throughput(case, speed) * s.printed_work(case.network) for case in cases)
        rates.append(sum(others, first) / len(cases))
    laptop_rate, t4_rate = rates
    return range_over(
        *(t4_rate / s.peak(T4) * s.peak(RTX, clock) / laptop_rate for clock in clocks)
    )


def run_factor(s: Source) -> Quantity:
    """Divide the source's mean ratio with the collapsed run by the ratio without the run."""
    mean_ratio = partial(ratio, s, *AVERAGED, clocks=["nominal"])
    return mean_ratio(collapsed=True) / mean_ratio()


def equal_clock(s: Source, ratio: Quantity) -> Quantity:
    """Return the laptop's clock (MHz) at which a ratio of efficiencies would be one."""
    return s.first_cell("cores", "nominal") / ratio


def printed_clock(s: Source) -> Quantity:
    """Return the clock (MHz) that the laptop's chip would need for the printed peak."""
    return s.first_cell("cores", "nominal") * s.printed_peak(RTX) / s.peak(RTX)


def share_of_roofs(
    s: Source, device: str, network: str, *clocks: Quantity | float, speed: Speed = "throughput"
) -> Quantity:
    """Divide a GPU's throughput by the throughput at the nearer roof of each layer.

    The bounds span the laptop's rated clocks, or the T4's ``clocks`` (shares of its highest).
    """
    case, shares = s.largest_steady_case(device, network), []
    peaks = [s.peak(T4) * clock for clock in clocks] or [s.peak(T4)]
    for peak in [s.peak(RTX, clock) for clock in CLOCKS] if device == RTX else peaks:
        seconds, _ = least_time(network, case.batch, peak, s.bandwidth(device))
        shares.append(_throughput(case, speed) * seconds / case.batch)
    return range_over(*shares)


def roofs_ratio(s: Source, network: str, speed: Speed) -> Quantity:
    """Divide the laptop's share of its roofs by the T4's, over the clocks of both.

    The T4's clocks end where arithmetic alone allows its printed efficiency on ResNet-18.
    """
    t4 = share_of_roofs(s, T4, network, 1, share_of_peak(s, T4, RESNET18), speed=speed)
    return share_of_roofs(s, RTX, network, speed=speed) / t4


def clock_by_roofs(s: Source) -> int:
    """Return the least clock (MHz) at which the T4's roofs allow its efficiency on ResNet-18."""
    clock = T4_CLOCK
    share_at = partial(share_of_roofs, s, T4, RESNET18, speed="efficiency")
    while value_of(share_at((clock - 1) / T4_CLOCK)) <= 1:
        clock -= 1
    return clock


def leader(ratio: Quantity) -> str | Missing:
    """Name the GPU that leads by over a tenth in the whole range of a ratio, T4 over laptop."""
    bounds = estimate(ratio)
    if isinstance(bounds, Missing):
        return bounds
    if bounds.high < 1 / (1 + MARGIN):
        return "laptop leads"
    if bounds.low < 1 / (1 + MARGIN):
        return "clocks decide"
    return "T4 leads" if bounds.low > 1 + MARGIN else "T4 leads or ties"


def memory_share(s: Source, device: str, network: str) -> Quantity:
    """Return the share of a step's least time in which memory limits it, at the nominal clock."""
    _, near_memory = least_time(network, subject.SOURCE_BATCH, s.peak(device), s.bandwidth(device))
    return exact_number(f"{network} near memory, {device}", "1", near_memory, s.file)


def collapsed_steps(s: Source) -> tuple[Quantity, Quantity, Quantity, Quantity]:
    """Return mean (by the printed efficiency), deviation and range (s) of the collapsed steps."""
    names = ("collapse_deviation", "collapse_fastest", "collapse_slowest")
    deviation, fastest, slowest = (s.value(name, "s", 1e-3) for name in names)
    return subject.SOURCE_BATCH / s.cases_of(RTX, RESNET50)[-1].implied, deviation, fastest, slowest


def collapsed_excess(s: Source) -> tuple[Quantity, Quantity, Quantity]:
    """Return the least, the largest and the waiting excess of the collapsed run's steps.

    In the third, one step in four (of ``WORKERS``) waits for images, and the others are equal.
    """
    mean, deviation, fastest, slowest = collapsed_steps(s)
    ready_step = mean - deviation / (subject.WORKERS - 1) ** 0.5
    excess_of = partial(theory.two_point_excess, mean, deviation)
    return excess_of(slowest), excess_of(fastest), excess_of(ready_step)


def share_of_peak(s: Source, device: str, network: str) -> Quantity:
    """Return the share of the peak that the printed efficiency implies, with our work and peak."""
    return s.largest_steady_case(device, network).implied * theory.work(network) / s.peak(device)


def fixed_time(s: Source, device: str) -> tuple[Quantity, Quantity]:
    """Return ResNet-50's time (s) that does not grow with the batch, and its share of a step."""
    half_step, step = (case.batch / case.throughput for case in s.cases_of(device, RESNET50)[:2])
    return 2 * half_step - step, 2 - step / half_step
