"""Derived results of training_roofline: efficiencies, shares of roofs, clocks and predictions."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, exact
from report.quantity.operations import largest, spanning
from report.studies.training_roofline import theory
from report.studies.training_roofline.runs import Run
from report.studies.training_roofline.source import (
    CLOCKS,
    GPUS,
    RTX,
    T4,
    T4_CLOCK,
    PrintedCase,
    Source,
)
from report.studies.training_roofline.subject import (
    HEAVY,
    NETWORKS,
    SMALL,
    SOURCE_BATCH,
    VECTOR_BATCH,
    VECTOR_IMAGE,
)
from report.studies.training_roofline.theory import least_time, value_of

# ------------------------------------------------------------------------------------- by peak


def _speed(case: PrintedCase, by_rate: bool) -> Quantity:
    """Return the throughput (1/s) that the printed rate implies, or else the printed one."""
    return case.implied if by_rate else case.images


def ratio(
    s: Source,
    *networks: str,
    peaks: tuple[Quantity, ...] = (),
    collapsed: bool = False,
    by_rate: bool = True,
) -> Quantity:
    """Divide the T4's mean efficiency by the laptop's, over ``peaks`` of the laptop.

    The value is that of the first peak, and its bounds span all; by default those of the rated
    clocks.  ``collapsed`` cases count too, or else are left out on both GPUs.  Efficiencies are the
    printed ones, or without ``by_rate`` those of the printed throughputs.
    """
    rates = []
    for device in GPUS:
        choose = s.of if collapsed else s.steady
        cases = [case for network in networks for case in choose(device, network)]
        first, *others = (_speed(case, by_rate) * s.printed_work(case.network) for case in cases)
        rates.append(sum(others, first) / len(cases))
    laptop, t4 = rates
    peaks = peaks or tuple(s.peak(RTX, clock) for clock in CLOCKS)
    return spanning(*(t4 / s.peak(T4) * peak / laptop for peak in peaks))


def needed_clock(s: Source, by_rate: bool = True) -> Quantity:
    """Return the least clock for the T4's rates or throughputs, by arithmetic, over its highest."""
    needed = []
    for case in s.cases:
        if case.device == T4 and not case.implied.missing:
            needed.append(_speed(case, by_rate) * theory.work(case.network) / s.peak(T4))
    return largest(*needed)


def efficiency_ratios(s: Source) -> dict[str, dict[str, Quantity]]:
    """Compute the T4's number over the laptop's for every way to compare them, by network.

    ``mean`` is the mean over cases, as the source averages, of those with a printed rate.
    """
    printed, averages = (s.printed_peak(RTX),), {"mean": (SMALL, HEAVY)}
    rows: dict[str, dict[str, Quantity]] = {}
    for name, networks in (averages | {network: (network,) for network in NETWORKS}).items():
        last = ratio(s, *networks)
        rows[name] = {
            "printed": to_digits(ratio(s, *networks, peaks=printed, collapsed=True), 3),
            "peak": ratio(s, *networks, collapsed=True),
            "steady": last,
            "slow": last / needed_clock(s),
            "throughput": ratio(s, *networks, by_rate=False),
        }
    for network in NETWORKS:
        laptop, t4 = (s.compared(device, network) for device in GPUS)
        t4_share, laptop_share = (of_roof(s, gpu, network, slow=False) for gpu in (T4, RTX))
        rows[network]["roofs"] = to_digits(t4_share / laptop_share, 3)
        rows[network]["speed"] = to_digits(t4.images / laptop.images, 3)
    return rows


def even_clock(s: Source, network: str, by_rate: bool = True) -> Quantity:
    """Return the laptop's clock (MHz) at which both GPUs are as efficient, at the T4's highest."""
    return to_digits(s.first_row("cores", "nominal") / ratio(s, network, by_rate=by_rate), 3)


def always_below(s: Source, network: str) -> Quantity:
    """Return the T4's clock (MHz) below which it leads at every rated clock of the laptop."""
    return to_digits(T4_CLOCK * ratio(s, network, peaks=(s.peak(RTX, "low"),)), 3)


def printed_clock(s: Source) -> Quantity:
    """Return the clock (MHz) at which the laptop's chip would have the printed peak."""
    return to_digits(s.first_row("cores", "nominal") * s.printed_peak(RTX) / s.peak(RTX), 3)


def collapsed_case(s: Source) -> PrintedCase:
    """Return ResNet-50 at its largest batch on the laptop, by the efficiency in the text."""
    case = s.of(RTX, HEAVY)[-1]
    efficiency = s.value("collapse_efficiency", "1", 0.01)
    return case._replace(implied=efficiency * s.printed_peak(RTX) / s.printed_work(HEAVY))


# ------------------------------------------------------------------------------------ by roofs


def peaks(s: Source, device: str, *, by_rate: bool = True, slow: bool = True) -> list[Quantity]:
    """Return the peaks of a GPU's clocks, the nominal first; the T4's down to the least needed."""
    if device == RTX:
        return [s.peak(RTX, clock) for clock in CLOCKS]
    highest = s.peak(device)
    return [highest, highest * needed_clock(s, by_rate)] if slow and device == T4 else [highest]


def of_roof(
    s: Source,
    device: str,
    network: str,
    *,
    by_rate: bool = False,
    slow: bool = True,
    **model: Any,
) -> Quantity:
    """Divide the speed by that of layers at the nearer of their roofs, over the GPU's clocks.

    The speed is the printed throughput, or the one that the printed rate implies.  With options of
    the ``model``, or without ``slow``, the T4 is at its highest clock.
    """
    case, shares = s.compared(device, network), []
    for peak in peaks(s, device, by_rate=by_rate, slow=slow and not model):
        seconds, _ = least_time(network, case.batch, peak, s.bandwidth(device), **model)
        shares.append(_speed(case, by_rate) * seconds / case.batch)
    return spanning(*shares)


def saved_traffic(s: Source, network: str) -> Quantity:
    """Compute the share of traffic, in whole percent, without which the laptop ties the T4."""
    laptop, reached = s.compared(RTX, network), of_roof(s, T4, network, slow=False)
    seconds = value_of(reached * laptop.batch / laptop.images)
    for percent in range(100):
        moving = s.bandwidth(RTX) / (1 - percent / 100)
        if value_of(least_time(network, laptop.batch, s.peak(RTX), moving)[0]) <= seconds:
            break
    return exact(f"traffic of {network} to save", "1", percent / 100, s.file)


def memory_shares(s: Source, device: str, network: str) -> Iterator[Quantity]:
    """Yield the share of a step's least time near memory's roof, at the clocks of a GPU."""
    for peak in peaks(s, device):
        near_memory = least_time(network, SOURCE_BATCH, peak, s.bandwidth(device))[1]
        yield exact(f"{network} near memory, {device}", "1", near_memory, s.file)


# -------------------------------------------------------------------------------- a fixed time


def fixed_time(s: Source, device: str) -> Quantity:
    """Compute the part (s) of a step of ResNet-50 that its two smaller batches share.

    A batch of twice the size takes twice the rest of the time.
    """
    half, whole = (case.batch / case.images for case in s.steady(device, HEAVY)[:2])
    return 2 * half - whole


def fixed_share(s: Source, device: str) -> Quantity:
    """Divide this part by the step of the smallest batch."""
    smallest = s.steady(device, HEAVY)[0]
    return fixed_time(s, device) * smallest.images / smallest.batch


def last_throughput(s: Source) -> tuple[Quantity, Quantity]:
    """Predict the T4's throughput (1/s) at the source's batch, and return the printed one.

    Steps have one fixed part, and the rest doubles with the batch.
    """
    half, whole, last = s.of(T4, HEAVY)
    step = 3 * (whole.batch / whole.images) - 2 * (half.batch / half.images)
    return SOURCE_BATCH / step, last.images


# ------------------------------------------------------------------------------ own machines


class Vectors(NamedTuple):
    """Runs on one core whose library may use vectors of 256 bits, and of 512."""

    narrow: Run
    wide: Run


def rate_ratio(runs: Vectors, network: str) -> Quantity:
    """Divide the rate of a step with narrow vectors by that with wide ones."""
    narrow, wide = (run.step(network, VECTOR_BATCH, image=VECTOR_IMAGE) for run in runs)
    return wide / narrow


def measured_peak(runs: Vectors, width: str) -> Quantity:
    """Return the measured peak of a convolution (FLOP/s) with vectors of a width."""
    run: Run = getattr(runs, width)
    return to_digits(run.peak_rate("convolution"), 3)


def by_measured_peak(runs: Vectors, network: str) -> Quantity:
    """Divide efficiencies with narrow and wide vectors, by measured peaks of a convolution."""
    peaks = measured_peak(runs, "wide") / measured_peak(runs, "narrow")
    return rate_ratio(runs, network) * peaks


def by_lanes(runs: Vectors, network: str) -> Quantity:
    """Divide efficiencies with narrow and wide vectors, by peaks that the lanes suggest."""
    return 2 * rate_ratio(runs, network)


def of_sheet(pair: tuple[Run, Source], operation: str) -> Quantity:
    """Divide a measured ceiling of our GPU in float32 by the peak of its data sheet."""
    run, s = pair
    return run.peak_rate(operation) / s.peak(run.model)


def of_our_roof(pair: tuple[Run, Source], network: str) -> Quantity:
    """Compute the share that our GPU reaches of the roofs of a network's layers."""
    run, s = pair
    peak, bandwidth = s.peak(run.model), s.bandwidth(run.model)
    seconds = peak if peak.missing else least_time(network, SOURCE_BATCH, peak, bandwidth)[0]
    return seconds / run.step(network)


def narrow_gain(run: Run, network: str) -> Quantity:
    """Divide the time of a step with TF32 by that in bfloat16."""
    wide, narrow = (run.step(network, precision=name) for name in ("tfloat32", "bfloat16"))
    return to_digits(wide / narrow, 3)
