"""Find contradictions in a record: repeated facts that differ, and impossible samples."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Any, Final

import msgspec

from report.core.records.quantities import QUANTITIES
from report.core.records.record import (
    Case,
    Ceiling,
    Level,
    Moment,
    PeakOperation,
    Record,
    SeriesByQuantity,
)

#: Start and end are whole seconds, so a run may last this much longer (s).
_ROUNDING: Final = 1.0
#: Forms of a ceiling's size, from which the work of one run follows.
_PRODUCT: Final = re.compile(r"([0-9]+)x([0-9]+)x([0-9]+)(?: by oneDNN)?")
_CONVOLUTION: Final = re.compile(
    r"([0-9]+)x([0-9]+)x([0-9]+)x([0-9]+), ([0-9]+)x([0-9]+) to ([0-9]+) channels"
)
_ELEMENTS: Final = re.compile(r"([0-9]+) elements( a thread)?")
_PAGES: Final = re.compile(r"([0-9]+) pages of ([0-9]+) B")
#: Bytes that one run moves for each element of its size, in float32.
_MOVED: Final[Mapping[PeakOperation, int]] = {"copy": 8, "read": 8, "triad": 12}
_MOMENTS: Final[tuple[Moment, ...]] = ("before", "after")
#: (part, whole): bytes of one call, of which the part cannot exceed the whole.
_PART_OF: Final = (
    *((f"{kind}_{moment}", f"{kind}_peak")
      for kind in ("requested", "allocated", "reserved", "resident") for moment in _MOMENTS),
    *((f"{part}_{moment}", f"{whole}_{moment}")
      for part, whole in (("requested", "allocated"), ("allocated", "reserved"))
      for moment in (*_MOMENTS, "peak")),
)  # fmt: skip
#: Factors on which the layers of a network do not depend.
_SAME_LAYERS: Final = {"batch", "layout", "precision", "memory_limit", "execution", "tile"}
#: Groups of quantities with one sample per call, step, epoch, image or moment: equal counts.
_SAME_COUNT: Final = (
    ("time", "cpu_time", "page_faults", "voluntary_switches", "involuntary_switches", "wait_time"),
    ("forward_time", "backward_time"),
    ("bias_time", "relu_time", "softmax_time", "gradient_time", "matrix_product_time",
     "unfold_time", "pooling_time"),
    ("train_loss", "train_accuracy", "test_loss", "test_accuracy", "epoch_time"),
    ("image_loss", "image_correct"), ("batch_tried", "batch_ran"),
    ("block_bytes", "block_changes"), ("return_time", "result_return_time"),
    ("device_temperature", "device_clock", "device_power", "throttle_reasons"),
    tuple(name for name in QUANTITIES if name.startswith("ncu_")),
    tuple(name for name in QUANTITIES if name.startswith("lackey_")),
    *_PART_OF,
)  # fmt: skip


def time_faults(**moments: str | None) -> Iterator[str]:
    """Yield moments that are on no day of the calendar, and an end before the start."""
    for name, moment in moments.items():
        try:
            datetime.fromisoformat(moment or "2000-01-01")
        except ValueError:
            yield f"{name}: found {moment}, which is on no day of the calendar"
    started, finished = moments.get("started"), moments.get("finished")
    if started and finished and finished < started:
        yield f"finished: found {finished}, before the run started ({started})"


def contradictions(record: Record) -> Iterator[str]:
    """Yield faults of samples, durations, ceilings, and nulls without a reason."""
    for index, case in enumerate(record.cases):
        for series in case.all_series:
            for fault in _series_faults(series, len(case.layers)):
                yield f"cases[{index}].series: {fault}"
    yield from _command_faults(record)
    yield from _layers_faults(record.cases)
    yield from _durations_faults(record)
    yield from _ceilings_faults(record)
    yield from _faults_of_null(record)


def _series_faults(series: SeriesByQuantity, layers: int) -> Iterator[str]:
    """Yield quantities of the same calls with different counts, and parts above their whole."""
    for names in _SAME_COUNT:
        counts = {name: len(series[name]) for name in names if name in series}
        for first, second in pairwise(counts):
            if counts[first] != counts[second]:
                yield f"found {counts[first]} samples of {first}, {counts[second]} of {second}"
    for name in ("layer_forward_time", "layer_backward_time"):
        steps = len(series.get("time", ()))
        if name in series and len(series[name]) != steps * layers:
            of = f"{steps} steps of {layers} layers"
            yield f"found {len(series[name])} samples of {name}, of {of}"
    for part, whole in _PART_OF:
        for lesser, greater in zip(series.get(part, ()), series.get(whole, ()), strict=False):
            if lesser > greater:
                yield f"found {lesser:,} B of {part}, more than the {greater:,} B of {whole}"


def _command_faults(record: Record) -> Iterator[str]:
    """Yield options of the command that contradict the environment."""
    machine = record.environment
    facts = {"--threads": str(machine.threads), "--device": machine.device}
    for option, value in pairwise(record.command):
        if value != facts.get(option, value):
            yield f"command: found {option} {value}, but the machine says {facts[option]}"


def _layers_faults(cases: Iterable[Case]) -> Iterator[str]:
    """Yield cases whose layers differ from those of the first case of the same network."""
    first: dict[frozenset[tuple[str, Level]], tuple[int, list[str]]] = {}
    for index, case in enumerate(cases):
        if not case.layers or "network" not in case.factors:
            continue
        names = [layer.name for layer in case.layers]
        network = frozenset(item for item in case.factors.items() if item[0] not in _SAME_LAYERS)
        other, known = first.setdefault(network, (index, names))
        if names != known:
            yield f"cases[{index}].layers: found others than in cases[{other}], of the same network"


def _durations_faults(record: Record) -> Iterator[str]:
    """Yield quantities whose samples together last longer than the run."""
    begin, end = map(datetime.fromisoformat, (record.started, record.finished))
    longest = (end - begin).total_seconds() + _ROUNDING
    for name, seconds in _durations(record.cases, record.ceilings).items():
        cores = record.environment.cpu.cores_available if name == "cpu_time" else 1
        if seconds > longest * cores:
            yield (
                f"finished: found a run of {longest - _ROUNDING:,.0f} s, but its samples of {name} "
                f"last {seconds:,.0f} s"
            )


def _durations(cases: Iterable[Case], ceilings: Iterable[Ceiling]) -> Mapping[str, float]:
    """Sum the samples (s) of each quantity that is a duration."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for ceiling in ceilings:
        seconds["ceilings"] += sum(ceiling.samples)
    for case in cases:
        for series in case.all_series:
            for name, values in series.items():
                if QUANTITIES[name].unit == "s":
                    seconds[name] += sum(values)
    return seconds


def _ceilings_faults(record: Record) -> Iterator[str]:
    """Yield ceilings that appear twice, and ceilings whose work does not follow from the size."""
    counts = Counter(msgspec.structs.replace(ceiling, samples=()) for ceiling in record.ceilings)
    for ceiling, count in counts.items():
        name = f"{ceiling.operation} of {ceiling.size}"
        if count > 1:
            yield f"ceilings: found {name} {ceiling.moment} the run {count} times"
        if not _is_work_of_size(ceiling, record.environment.threads):
            yield f"ceilings: found the work {ceiling.work:,} for {name}, whose size means another"


def _is_work_of_size(ceiling: Ceiling, threads: int) -> bool:
    if match := _PRODUCT.fullmatch(ceiling.size):
        rows, inner, columns = map(int, match.groups())
        return ceiling.work == 2 * rows * inner * columns
    if match := _CONVOLUTION.fullmatch(ceiling.size):
        batch, inputs, height, width, kernel, other, outputs = map(int, match.groups())
        results = batch * outputs * (height - kernel + 1) * (width - other + 1)
        return ceiling.work == 2 * results * inputs * kernel * other
    if match := _PAGES.fullmatch(ceiling.size):
        pages, size = map(int, match.groups())
        return (ceiling.work, ceiling.working_set) == (pages, pages * size)
    if match := _ELEMENTS.fullmatch(ceiling.size):
        moved = int(match[1]) * (threads if match[2] else 1) * _MOVED.get(ceiling.operation, 0)
        # A small working set is moved several times in one run.
        return moved > 0 and ceiling.work % moved == 0 and ceiling.working_set in (None, moved)
    return False


def _faults_of_null(record: Record) -> Iterator[str]:
    """Yield required fields that are null without a reason."""
    parts = {"": record.environment, "code.": record.code}
    for prefix, part in parts.items():
        for name in null_fields(part):
            if prefix + name not in record.environment.missing:
                yield f"environment.missing: found no reason why {prefix}{name} is null"


def null_fields(part: Any, prefix: str = "") -> Iterator[str]:
    """Yield the paths of null required fields in a part of a record and its nested parts."""
    kind: type = type(part)
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if value is None and name in _required(kind):
            yield prefix + name
        elif isinstance(value, msgspec.Struct):
            yield from null_fields(value, f"{prefix}{name}.")


@cache
def _required(kind: type) -> frozenset[str]:
    """Return the names of fields without default; cached, since msgspec is slow to answer."""
    return frozenset(field.name for field in msgspec.structs.fields(kind) if field.required)
