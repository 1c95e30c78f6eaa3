"""Derived results of training_roofline: efficiencies, shares of roofs, clocks and predictions.

The efficiency of a case is the rate of its work divided by the GPU's peak.  The roofs of a layer
are the rates that peak and bandwidth allow.  The collapsed run is one slow run on the laptop.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Final, Literal, TypeAlias

from report.core.missing import Missing
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity, exact_number
from report.quantity.operations import range_over
from report.studies.training_roofline import subject, theory
from report.studies.training_roofline.source import CLOCKS, GPUS, LAPTOP, T4, PrintedCase, Source
from report.studies.training_roofline.subject import MARGIN, MOBILENET, RESNET18, RESNET50
from report.studies.training_roofline.theory import least_time, value_of

#: How a case's throughput is known: implied by the printed efficiency, or printed itself.
Speed: TypeAlias = Literal["efficiency", "throughput"]
#: Networks over whose cases the source averages efficiencies.
AVERAGED: Final = (RESNET18, RESNET50)
#: Name of a ratio of efficiencies → networks, and whether the collapsed run is included.
RATIO_CASES: Final = {
    "Mean, run kept": (AVERAGED, True),
    "Mean, run left out": (AVERAGED, False),
    RESNET18: ((RESNET18,), False),
    f"{RESNET50}, run kept": ((RESNET50,), True),
    f"{RESNET50}, run left out": ((RESNET50,), False),
    MOBILENET: ((MOBILENET,), False),
}


def _throughput(case: PrintedCase, speed: Speed) -> Quantity:
    """Return the implied or the printed throughput (1/s) of a case."""
    return case.implied if speed == "efficiency" else case.throughput


def efficiency_ratio(
    source: Source,
    *networks: str,
    clocks: Sequence[str] = CLOCKS,
    with_collapsed_run: bool = False,
    speed: Speed | None = None,
) -> Quantity:
    """Divide the T4's mean efficiency for ``networks`` by the laptop's.

    The value is for the laptop's peak at the first of ``clocks``, and the bounds span all clocks.
    By default ``speed`` is the efficiency, or for MobileNetV2, for which the source prints no
    efficiency, the throughput.
    """
    rates = []
    speed = speed or ("throughput" if MOBILENET in networks else "efficiency")
    for device in GPUS:
        select_cases = source.cases_of if with_collapsed_run else source.steady_cases
        cases = [case for network in networks for case in select_cases(device, network)]
        work_of = source.printed_work
        first, *others = (_throughput(case, speed) * work_of(case.network) for case in cases)
        rates.append(sum(others, first) / len(cases))
    laptop_rate, t4_rate = rates
    t4_efficiency, peaks = t4_rate / source.peak(T4), [source.peak(LAPTOP, c) for c in clocks]
    return range_over(*(t4_efficiency * peak / laptop_rate for peak in peaks))


def collapsed_run_factor(source: Source) -> Quantity:
    """Divide the source's mean ratio with the collapsed run by the ratio without the run."""
    mean_ratio = partial(efficiency_ratio, source, *AVERAGED, clocks=["nominal"])
    return mean_ratio(with_collapsed_run=True) / mean_ratio()


def clock_for_equality(source: Source, ratio: Quantity) -> Quantity:
    """Return the laptop's clock (MHz) at which a ratio of efficiencies (T4 ÷ laptop) would be 1."""
    return source.first_cell("cores", "nominal") / ratio


def printed_clock(source: Source) -> Quantity:
    """Return the clock (MHz) that the laptop's chip would need for the printed peak."""
    return source.first_cell("cores", "nominal") * source.printed_peak(LAPTOP) / source.peak(LAPTOP)


def share_of_roofs(
    source: Source,
    device: str,
    network: str,
    *clocks: Quantity | float,
    speed: Speed = "throughput",
) -> Quantity:
    """Divide a GPU's throughput by its throughput if each layer reached its nearer roof.

    The bounds span the laptop's rated clocks, or the T4's ``clocks`` (÷ its highest clock).
    """
    case, shares = source.largest_steady_case(device, network), []
    peaks = [source.peak(T4) * clock for clock in clocks] or [source.peak(T4)]
    for peak in [source.peak(LAPTOP, clock) for clock in CLOCKS] if device == LAPTOP else peaks:
        seconds, _ = least_time(network, case.batch, peak, source.bandwidth(device))
        shares.append(_throughput(case, speed) * seconds / case.batch)
    return range_over(*shares)


def ratio_of_roof_shares(source: Source, network: str, speed: Speed) -> Quantity:
    """Divide the laptop's share of its roofs by the T4's; the bounds span the clocks of both.

    The T4's lowest clock is the one whose peak alone allows its printed efficiency on ResNet-18.
    """
    t4 = share_of_roofs(source, T4, network, 1, share_of_peak(source, T4, RESNET18), speed=speed)
    return share_of_roofs(source, LAPTOP, network, speed=speed) / t4


@lru_cache(maxsize=1)
def lowest_clock_by_roofs(source: Source) -> int:
    """Return the lowest clock (MHz) at which the T4's roofs allow its efficiency on ResNet-18."""

    def is_allowed(clock: int) -> bool:
        share = clock / subject.T4_CLOCK
        return value_of(share_of_roofs(source, T4, RESNET18, share, speed="efficiency")) <= 1

    # The roofs rise with the clock, so that all clocks above the lowest are allowed, too.
    return 1 + bisect_left(range(1, subject.T4_CLOCK), True, key=is_allowed)


def leading_gpu(ratio: Quantity) -> str | Missing:
    """Name the GPU that leads, by more than 10 %, in the whole range of a ratio (T4 ÷ laptop).

    Returns "clocks decide" if the laptop leads in a part of the range only.
    """
    bounds = estimate(ratio)
    if isinstance(bounds, Missing):
        return bounds
    if bounds.high < 1 / (1 + MARGIN):
        return "laptop leads"
    if bounds.low < 1 / (1 + MARGIN):
        return "clocks decide"
    return "T4 leads" if bounds.low > 1 + MARGIN else "T4 leads or ties"


def memory_share(source: Source, device: str, network: str) -> Quantity:
    """Return the share of a step's least time in which memory limits the step (nominal clock)."""
    peak, bandwidth = source.peak(device), source.bandwidth(device)
    _, near_memory = least_time(network, subject.SOURCE_BATCH, peak, bandwidth)
    return exact_number(f"{network} near memory, {device}", "1", near_memory, source.file)


def collapsed_steps(source: Source) -> tuple[Quantity, Quantity, Quantity, Quantity]:
    """Return mean, standard deviation, minimum and maximum (s) of the collapsed run's steps.

    The printed efficiency implies the mean; the source prints the other numbers.
    """
    names = ("collapse_deviation", "collapse_fastest", "collapse_slowest")
    deviation, fastest, slowest = (source.value(name, "s", 1e-3) for name in names)
    collapsed_run = source.cases_of(LAPTOP, RESNET50)[-1]
    return subject.SOURCE_BATCH / collapsed_run.implied, deviation, fastest, slowest


def collapsed_excess(source: Source) -> tuple[Quantity, Quantity, Quantity]:
    """Return the least and the largest excess of the collapsed run's steps, and a third excess.

    For the third, one step in ``WORKERS`` waits for images, and the other steps are equally long.
    """
    mean, deviation, fastest, slowest = collapsed_steps(source)
    ready_step = mean - deviation / (subject.WORKERS - 1) ** 0.5
    excess_of = partial(theory.two_point_excess, mean, deviation)
    return excess_of(slowest), excess_of(fastest), excess_of(ready_step)


def share_of_peak(source: Source, device: str, network: str) -> Quantity:
    """Return the share of the peak that the printed efficiency implies, with our work and peak."""
    implied_throughput = source.largest_steady_case(device, network).implied
    return implied_throughput * theory.work(network) / source.peak(device)


def fixed_time(source: Source, device: str) -> tuple[Quantity, Quantity]:
    """Return the part (s) of ResNet-50's step that does not grow with the batch, and its share."""
    half_batch, whole_batch, *_ = source.cases_of(device, RESNET50)
    half_step, step = (case.batch / case.throughput for case in (half_batch, whole_batch))
    return 2 * half_step - step, 2 - step / half_step
