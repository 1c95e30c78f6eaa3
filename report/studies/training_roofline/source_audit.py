"""The audit of the source of training_roofline: every derived number, computed again.

The rules hold for any study of this kind, each applied to every row that has
the numbers for it: a rate is images a second times the work of an image, an efficiency a rate over
a peak, a ridge point a peak over a bandwidth, and so on.  No rule knows what it will find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, pairwise
from typing import Final

from report.errors import StudyError
from report.evidence.audit import (
    Check,
    Printed,
    check,
    exact,
    gain,
    mean,
    printed_value,
    ratio,
    share,
    times,
)
from report.evidence.devices import Devices
from report.evidence.reported import Reported
from report.records.layers import Layer
from report.studies.training_roofline.source import (
    CPU,
    LAPTOP,
    RTX,
    T4,
    environment,
    row,
    rows,
    throughput,
)
from report.theory.shapes import parameter_count
from report.theory.work import flops, forward_macs

#: The kinds of numbers that are audited by shapes and data sheets, not by what stands beside them.
OUTSIDE: Final = ("Peaks, bandwidths", "Parameters, work")


def audit_by_kind(
    reported: Reported, layers: dict[str, tuple[Layer, ...]], devices: Devices
) -> dict[str, tuple[Check, ...]]:
    """The checks of every derived number of the source, by what it is.

    ``layers`` are those of the networks on one image of the source's size, as far as records hold
    them: what they give is compared with the printed complexity.  ``devices`` are the data sheets.
    """
    found = {
        "Peaks, bandwidths": _sheets(reported, devices),
        "Parameters, work": _theory(reported, layers),
        "Work of training": _training(reported),
        "Ridge points": _ridges(reported),
        "Achieved rates": _rates(reported),
        "Efficiencies": _efficiencies(reported),
        "Speed-ups, gains": chain(_speedups(reported), _gains(reported)),
        "Averages": _averages(reported),
        "Ratios, ranges in the text": _texts(reported),
    }
    return {kind: tuple(checks) for kind, checks in found.items()}


def telling(by_kind: Mapping[str, Sequence[Check]]) -> tuple[Check, ...]:
    """The numbers that differ; of the achieved rates, which all do, the nearest and furthest."""
    found: list[Check] = []
    for kind, checks in by_kind.items():
        differing = [each for each in checks if each.verdict == "differs"]
        if kind == "Achieved rates" and len(differing) > 2:
            ordered = sorted(differing, key=lambda each: each.factor or 0.0)
            differing = [each for each in differing if each in (ordered[0], ordered[-1])]
        found += differing
    return tuple(found)


def _sheets(reported: Reported, devices: Devices) -> Iterator[Check]:
    """Printed peaks against data sheets, or against cores and clocks where no sheet prints one."""
    machines = {name: environment(reported, name) for name in (RTX, T4)}
    for name, machine in machines.items():
        sheet = devices.find(f"NVIDIA {name}")
        for key, operation in (("peak", "float32"), ("bandwidth", "memory")):
            peak = sheet.peak(operation) if sheet else None  # type: ignore[arg-type]
            if peak is not None:
                printed = machine.number_of(key)
                known = exact(peak.value, printed.unit, f"data sheet of the {name}")
                yield check(printed, "the same on the data sheet", mean, known)
    for item in rows(reported, "cores"):
        if LAPTOP in item.text("device"):
            cores, clock = item.number_of("cores"), item.number_of("nominal")
            formula = f"2 · cores · clock of {item.text('device')}"
            yield check(machines[RTX].number_of("peak"), formula, _core_peak, cores, clock)
    performance, _ = rows(reported, "cpu_cores")
    inputs = (performance.number_of(key) for key in ("cores", "lanes", "high"))
    formula = "2 · performance cores · multiply-adds a cycle · highest clock"
    yield check(environment(reported, CPU).number_of("peak"), formula, _cpu_peak, *inputs)


def _core_peak(cores: Fraction, clock: Fraction) -> Fraction:
    """2 FLOP · cores · MHz in TFLOP/s."""
    return 2 * cores * clock / 10**6


def _cpu_peak(cores: Fraction, lanes: Fraction, clock: Fraction) -> Fraction:
    """2 FLOP · cores · multiply-adds a cycle · MHz in TFLOP/s."""
    return lanes * _core_peak(cores, clock)


def _theory(reported: Reported, layers: dict[str, tuple[Layer, ...]]) -> Iterator[Check]:
    """Parameters and operations against the shapes."""
    for item in rows(reported, "complexity"):
        chain = layers.get(item.text("network"), ())
        if not chain:
            continue
        count = exact(sum(map(parameter_count, chain)), "1", "shapes in the record")
        yield check(item.number_of("parameters"), "parameters by shapes, in millions", _mega, count)
        forward = exact(flops(forward_macs(chain)), "FLOP", "shapes in the record")
        yield check(item.number_of("forward"), "FLOP by shapes, in GFLOP", _giga, forward)


def _training(reported: Reported) -> Iterator[Check]:
    three = exact(3, "1", "rule")
    for item in rows(reported, "complexity"):
        forward = item.number_of("forward")
        yield check(item.number_of("training"), "3 · forward", times, three, forward)


def _ridges(reported: Reported) -> Iterator[Check]:
    printed = {RTX: printed_value(reported, "rtx_ridge"), T4: printed_value(reported, "t4_ridge")}
    for name, ridge in printed.items():
        machine = environment(reported, name)
        peak, bandwidth = machine.number_of("peak"), machine.number_of("bandwidth")
        yield check(ridge, "peak / bandwidth", _ridge, peak, bandwidth)


def _rates(reported: Reported) -> Iterator[Check]:
    """Achieved rate = images a second · work of an image."""
    for item in rows(reported, "achieved"):
        network, batch = item.text("network"), int(item.number_of("batch").number)
        images = throughput(reported, item.text("environment"), network, batch)
        work = row(reported, "complexity", network=network)
        if images is not None and work is not None:
            training = work.number_of("training")
            yield check(
                item.number_of("rate"), "images/s · work of an image", _tera, images, training
            )


def _efficiencies(reported: Reported) -> Iterator[Check]:
    for item in rows(reported, "achieved"):
        peak = environment(reported, item.text("environment")).number_of("peak")
        rate = item.number_of("rate")
        yield check(item.number_of("efficiency"), "rate / peak", share, rate, peak)


def _speedups(reported: Reported) -> Iterator[Check]:
    for item in rows(reported, "throughput"):
        decimals = int(item.number_of("speedup_decimals").number)
        whole = item.number_of("speedup")
        printed = Printed(whole.number, decimals, whole.unit, whole.place)
        fast, slow = item.number_of("rtx4080"), item.number_of("t4")
        yield check(printed, "ratio of the throughputs", ratio, fast, slow)
    slow = printed_value(reported, "cpu_throughput")
    for id_, key in (("rtx_over_cpu", "rtx4080"), ("t4_over_cpu", "t4")):
        fast_row = row(reported, "throughput", network="ResNet-18", batch=128)
        if fast_row is not None:
            fast = fast_row.number_of(key)
            yield check(printed_value(reported, id_), "ratio of the throughputs", ratio, fast, slow)


def _gains(reported: Reported) -> Iterator[Check]:
    table = rows(reported, "batches")
    for before, after in pairwise(table):
        printed = after.printed("gain")
        if printed is not None:
            new, old = after.number_of("throughput"), before.number_of("throughput")
            yield check(printed, "gain in throughput over the row before", gain, new, old)


def _averages(reported: Reported) -> Iterator[Check]:
    by_device = {RTX: ["rtx_efficiency", "summary_rtx_efficiency"], T4: ["t4_efficiency"]}
    by_device[T4].append("summary_t4_efficiency")
    for device, ids in by_device.items():
        cells = efficiencies(reported, device)
        for id_ in ids:
            printed = printed_value(reported, id_)
            yield check(printed, f"mean of the {len(cells)} efficiencies", mean, *cells)


def efficiencies(reported: Reported, device: str) -> tuple[Printed, ...]:
    """The printed efficiencies of a device."""
    return tuple(
        item.number_of("efficiency")
        for item in rows(reported, "achieved")
        if item.text("environment") == device
    )


def _texts(reported: Reported) -> Iterator[Check]:
    """Ratios and ranges that the text draws from the tables."""

    def of(id_: str) -> Printed:
        return printed_value(reported, id_)

    rtx, t4 = (environment(reported, name).number_of("peak") for name in (RTX, T4))
    yield check(of("peak_ratio"), "ratio of the peaks", ratio, rtx, t4)
    yield check(
        of("paradox"), "ratio of the average efficiencies", ratio, of("t4_efficiency"),
        of("rtx_efficiency"),
    )  # fmt: skip
    first = rows(reported, "intensity")[0].number_of("intensity")
    yield check(of("above_ridge"), "intensity / ridge point", ratio, first, of("t4_ridge"))
    best, worst = _collapse(reported)
    yield check(of("collapse_factor"), "ratio of the throughputs", ratio, best, worst)
    other = throughput(reported, T4, "ResNet-50", 128)
    if other is not None:
        yield check(of("collapse_to_t4"), "ratio of the throughputs", ratio, other, worst)
    seen = [item.number_of("speedup") for item in rows(reported, "throughput")]
    gains = [item for item in seen if item.number > 1]
    for id_, name, choose in (
        ("summary_speedup_low", "least", min),
        ("summary_speedup_high", "largest", max),
        ("range_low", "least", min),
        ("range_high", "largest", max),
    ):
        yield check(of(id_), f"{name} speedup above 1", choose, *gains)
    cells = [item for device in (RTX, T4) for item in efficiencies(reported, device)]
    worst_row = row(reported, "achieved", environment=RTX, network="ResNet-50", batch=128)
    if worst_row is not None:
        rate = worst_row.number_of("rate")
        yield check(of("collapse_efficiency"), "rate / peak", share, rate, rtx)
    yield check(of("efficiency_low"), "lowest efficiency of the tables", min, *cells)
    yield check(of("efficiency_high"), "highest efficiency of the tables", max, *cells)


def _collapse(reported: Reported) -> tuple[Printed, Printed]:
    """ResNet-50 on the RTX 4080 at batch 64 and at batch 128."""
    found = [throughput(reported, RTX, "ResNet-50", batch) for batch in (64, 128)]
    best, worst = found
    if best is None or worst is None:
        raise StudyError(
            f"data/reported/{reported.study}.json: throughput of ResNet-50 at batch 64 and 128 is "
            "missing; restore the file with git."
        )
    return best, worst


def _mega(count: Fraction) -> Fraction:
    return count / 10**6


def _giga(count: Fraction) -> Fraction:
    return count / 10**9


def _tera(images: Fraction, giga: Fraction) -> Fraction:
    return images * giga / 1000


def _ridge(tera: Fraction, giga: Fraction) -> Fraction:
    return 1000 * tera / giga
