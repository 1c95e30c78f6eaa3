"""The audit of the source: every number that others, shapes or data sheets determine, once.

Each rule is applied to every row that has the numbers for it: a rate is images a second times the
work of an image, an efficiency a rate over a peak, a ridge point a peak over a bandwidth, and so
on.  No rule knows what it will find.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import ceil
from typing import Final

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
from report.studies.training_roofline import theory
from report.studies.training_roofline.source import CPU, GPUS, RTX, T4, ResultRow, Source
from report.studies.training_roofline.subject import HEAVY, SMALL
from report.theory.work import flops, forward_macs, parameter_count

#: The formula of a printed rate.
RATE: Final = "images/s · work of an image"


def audit(source: Source) -> dict[str, tuple[Check, ...]]:
    """The checks by the table of the source that their numbers stand in, or by its text."""
    rules = {
        "environments": _environments,
        "complexity": _complexity,
        "achieved": _achieved,
        "throughput": _throughput,
        "batches": _gains,
        "iterations": _iterations,
        "text": _text,
    }
    return {kind: tuple(rule(source)) for kind, rule in rules.items()}


def _environments(source: Source) -> Iterator[Check]:
    """Peaks and bandwidths against data sheets, or against cores and clocks."""
    for device in GPUS:
        row = source.one("environments", environment=device)
        sheet = source.devices.find(f"NVIDIA {device}")
        for key, operation in (("peak", "float32"), ("bandwidth", "memory")):
            peak = sheet.peak(operation) if sheet else None  # type: ignore[arg-type]
            if peak is not None:
                known = exact(peak.value, row.printed(key).unit, f"data sheet of the {device}")
                yield check(row.printed(key), "the same on the data sheet", mean, known)
    laptop, _ = source.rows("cores")
    inputs = [laptop.printed(key) for key in ("cores", "nominal")]
    peak_of_laptop = source.one("environments", environment=RTX).printed("peak")
    yield check(
        peak_of_laptop, f"2 · cores · clock of {laptop.text('device')}", _core_peak, *inputs
    )
    (bus,) = source.rows("bus")
    printed = source.one("environments", environment=RTX).printed("bandwidth")
    inputs = [bus.printed("width"), bus.printed("rate")]
    yield check(printed, "width of the bus · data rate / 8", _bus_bandwidth, *inputs)
    performance, _ = source.rows("cpu_cores")
    inputs = [performance.printed(key) for key in ("cores", "high", "lanes")]
    formula = "2 · performance cores · multiply-adds a cycle · highest clock"
    printed = source.one("environments", environment=CPU).printed("peak")
    yield check(printed, formula, _core_peak, *inputs)


def _core_peak(cores: Fraction, clock: Fraction, lanes: Fraction = Fraction(1)) -> Fraction:
    """Multiply 2 FLOP · cores · MHz · multiply-adds a cycle in TFLOP/s."""
    return 2 * cores * clock * lanes / 10**6


def _bus_bandwidth(bits: Fraction, rate: Fraction) -> Fraction:
    """Divide bits of the bus · Gbit/s of a line by 8: GB/s."""
    return bits * rate / 8


def _complexity(source: Source) -> Iterator[Check]:
    """Parameters and operations against the shapes, and training against a forward pass."""
    place, three = "shapes of the published network", exact(3, "1", "rule")
    for item in source.rows("complexity"):
        network, forward = item.text("network"), item.printed("forward")
        layers = theory.shapes(network)
        count = exact(sum(map(parameter_count, layers)) / 1e6, "M", place)
        yield check(item.printed("parameters"), "parameters by shapes, in millions", mean, count)
        operations = exact(flops(forward_macs(layers)) / 1e9, "GFLOP", place)
        yield check(forward, "FLOP by shapes, in GFLOP", mean, operations)
        yield check(item.printed("training"), "3 · forward", times, three, forward)


def _achieved(source: Source) -> Iterator[Check]:
    """Rates, and efficiencies."""
    for item in source.rows("achieved"):
        device, network = item.text("environment"), item.text("network")
        images = _images(source, device, network, item.batch)
        training = source.one("complexity", network=network).printed("training")
        peak = source.one("environments", environment=device).printed("peak")
        rate = item.printed("rate")
        yield check(rate, RATE, lambda n, work: n * work / 1000, images, training)
        yield check(item.printed("efficiency"), "rate / peak", share, rate, peak)


def _images(source: Source, device: str, network: str, batch: int) -> Printed:
    row = source.one("throughput", network=network, batch=batch)
    return row.printed("rtx4080" if device == RTX else "t4")


def _throughput(source: Source) -> Iterator[Check]:
    for item in source.rows("throughput"):
        printed = item.printed("speedup")
        decimals = int(item.printed("speedup_decimals").number)
        derived = Printed(printed.number, decimals, printed.unit, printed.place)
        yield check(
            derived, "ratio of the throughputs", ratio, item.printed("rtx4080"), item.printed("t4")
        )


def _gains(source: Source) -> Iterator[Check]:
    for before, after in pairwise(source.rows("batches")):
        new, old = after.printed("throughput"), before.printed("throughput")
        yield check(after.printed("gain"), "gain over the row before", gain, new, old)


def _iterations(source: Source) -> Iterator[Check]:
    """The measured steps against the images of the data set, of which a run sees one epoch."""
    (data,) = source.rows("dataset")
    batch = exact(theory.SOURCE_BATCH, "1", "batch")
    warmup = printed_value(source.reported, "warmup")
    printed = printed_value(source.reported, "iterations")
    formula = f"images of an epoch / {theory.SOURCE_BATCH}, less warm-up"
    # The last step of an epoch takes what images are left.
    yield check(
        printed, formula, lambda n, b, w: ceil(n / b) - w, data.printed("images"), batch, warmup
    )


def _text(source: Source) -> Iterator[Check]:
    """Averages, ratios and ranges that the text draws from the tables."""
    of = partial(printed_value, source.reported)
    efficiencies: dict[str, list[Printed]] = {device: [] for device in GPUS}
    for item in source.rows("achieved"):
        efficiencies[item.text("environment")].append(item.printed("efficiency"))
    machines = {name: source.one("environments", environment=name) for name in GPUS}
    for device, word in ((RTX, "rtx"), (T4, "t4")):
        cells = efficiencies[device]
        for id_ in (f"{word}_efficiency", f"summary_{word}_efficiency"):
            yield check(of(id_), f"mean of the {len(cells)} efficiencies", mean, *cells)
        both = (machines[device].printed(key) for key in ("peak", "bandwidth"))
        yield check(of(f"{word}_ridge"), "peak / bandwidth", lambda p, b: 1000 * p / b, *both)
        fast = _images(source, device, SMALL, theory.SOURCE_BATCH)
        slow = of("cpu_throughput")
        yield check(of(f"{word}_over_cpu"), "ratio of the throughputs", ratio, fast, slow)
    rtx, t4 = (row.printed("peak") for row in machines.values())
    yield check(of("peak_ratio"), "ratio of the peaks", ratio, rtx, t4)
    means = of("t4_efficiency"), of("rtx_efficiency")
    yield check(of("paradox"), "ratio of the average efficiencies", ratio, *means)
    first: ResultRow = source.rows("intensity")[0]
    inputs = first.printed("intensity"), of("t4_ridge")
    yield check(of("above_ridge"), "intensity / ridge point", ratio, *inputs)
    best, worst = (_images(source, RTX, HEAVY, batch) for batch in (64, 128))
    yield check(of("collapse_factor"), "ratio of the throughputs", ratio, best, worst)
    other = _images(source, T4, HEAVY, 128)
    yield check(of("collapse_to_t4"), "ratio of the throughputs", ratio, other, worst)
    seen = [item.printed("speedup") for item in source.rows("throughput")]
    gains = [item for item in seen if item.number > 1]
    for id_ in ("summary_speedup_low", "range_low"):
        yield check(of(id_), "smallest speed-up above 1", min, *gains)
    for id_ in ("summary_speedup_high", "range_high"):
        yield check(of(id_), "largest speed-up", max, *gains)
    fell = source.one("achieved", environment=RTX, network=HEAVY, batch=128).printed("rate")
    yield check(of("collapse_efficiency"), "rate / peak", share, fell, rtx)
    cells = [*efficiencies[RTX], *efficiencies[T4]]
    yield check(of("efficiency_low"), "lowest efficiency of the tables", min, *cells)
    yield check(of("efficiency_high"), "highest efficiency of the tables", max, *cells)
