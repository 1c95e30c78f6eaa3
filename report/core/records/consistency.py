"""Find faults in a record: facts that are recorded twice and differ, and impossible samples."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Final

import msgspec

from report.core.records.quantities import QUANTITIES
from report.core.records.record import (
    Case,
    Ceiling,
    ImportedRecord,
    Level,
    PeakOperation,
    Record,
    Round,
    Sample,
    SeriesByQuantity,
)
from report.core.records.strict import repeated

#: Time by which samples may last longer than the run, whose start and end are whole seconds.
_ROUNDING_S: Final = 1.0
#: Forms of ``Ceiling.size`` (a ceiling is a measured peak); the size determines the work of one
#: repetition.
_PRODUCT: Final = re.compile(r"([0-9]+)x([0-9]+)x([0-9]+)(?: by oneDNN)?")
_CONVOLUTION: Final = re.compile(
    r"([0-9]+)x([0-9]+)x([0-9]+)x([0-9]+), ([0-9]+)x([0-9]+) to ([0-9]+) channels"
)
_ELEMENTS: Final = re.compile(r"([0-9]+) elements( a thread)?")
_PAGES: Final = re.compile(r"([0-9]+) pages of ([0-9]+) B")
#: Operation → bytes moved per element, in float32: two arrays for copy and read, three for triad.
_BYTES_PER_ELEMENT: Final[Mapping[PeakOperation, int]] = {"copy": 8, "read": 8, "triad": 12}
#: Quantity in bytes → quantities that it cannot exceed in the same call, such as
#: ``allocated_before`` → ``allocated_peak`` and ``reserved_before``.
_LIMITS: Final = defaultdict[str, list[str]](list)
for _kind in ("requested", "allocated", "reserved", "resident"):
    for _moment in ("before", "after"):
        _LIMITS[f"{_kind}_{_moment}"].append(f"{_kind}_peak")
for _moment in ("before", "after", "peak"):
    _LIMITS[f"requested_{_moment}"].append(f"allocated_{_moment}")
    _LIMITS[f"allocated_{_moment}"].append(f"reserved_{_moment}")
#: Factors at all levels of which a network runs the same layers.
_SAME_LAYER_FACTORS: Final = {"batch", "layout", "precision", "memory_limit", "execution", "tile"}
#: Groups of quantities that have equally many samples (one per call, step, epoch, image or moment).
_SAME_COUNT: Final = (
    ("time", "cpu_time", "page_faults", "voluntary_switches", "involuntary_switches", "wait_time"),
    ("forward_time", "backward_time"),
    ("bias_time", "relu_time", "softmax_time", "gradient_time", "matrix_product_time",
     "unfold_time", "pooling_time"),
    ("train_loss", "train_accuracy", "test_loss", "test_accuracy", "epoch_time"),
    ("image_loss", "image_correct"), ("batch_tried", "batch_ran"),
    ("block_bytes", "block_changes"), ("return_time", "result_return_time"),
    ("device_temperature", "device_clock", "device_power", "throttle_reasons"),
    ("energy", "energy_calls"),
    tuple(name for name in QUANTITIES if name.startswith("ncu_")),
    tuple(name for name in QUANTITIES if name.startswith("lackey_")),
)  # fmt: skip
#: Quantity → its group in ``_SAME_COUNT``.
_GROUP_OF_QUANTITY: Final[dict[str, tuple[str, ...]]] = {}
for _group in _SAME_COUNT:
    _GROUP_OF_QUANTITY.update(dict.fromkeys(_group, _group))


def faults(record: Record | ImportedRecord) -> Iterator[str]:
    """Yield faults that the types of a record's fields cannot exclude, as «field: fault»."""
    if isinstance(record, ImportedRecord):
        yield from _import_faults(record)
        conditions = record.conditions
    else:
        yield from _run_faults(record)
        conditions = {}
    if duplicate := repeated(attachment.name for attachment in record.attachments):
        yield f"attachments: found the name {duplicate} twice"
    samples = _samples_by_quantity(record.cases)
    out_of_range = {name for name in samples if not QUANTITIES[name].admits(samples[name])}
    first_case: dict[frozenset[tuple[str, Level]], int] = {}
    for index, case in enumerate(record.cases):
        place = f"cases[{index}]"
        yield from _outcome_faults(case, place, out_of_range)
        for number, round_ in enumerate(case.rounds):
            yield from _outcome_faults(round_, f"{place}.rounds[{number}]", out_of_range)
        processes = {(round_.policy, round_.process) for round_ in case.rounds}
        if len(processes) < len(case.rounds):
            yield f"{place}.rounds: found the same process twice under one policy"
        # 1 and 1.0 are the same level, since both look up the same case.
        first = first_case.setdefault(frozenset(case.factors.items()), index)
        if first != index:
            yield f"{place}.factors: found the same combination as in cases[{first}]"
        for name in sorted(case.factors.keys() & conditions.keys()):
            yield f"{place}.factors.{name}: found a name that is a condition of all cases too"
    if isinstance(record, Record):
        yield from _sample_faults(record, samples)


def _samples_by_quantity(cases: Iterable[Case]) -> dict[str, list[Sample]]:
    """Join all series of each quantity, since one long series is checked faster than many short."""
    samples_by_quantity: defaultdict[str, list[Sample]] = defaultdict(list)
    for case in cases:
        for series in case.all_series:
            for name, samples in series.items():
                samples_by_quantity[name].extend(samples)
    return samples_by_quantity


def _time_faults(**moments: str | None) -> Iterator[str]:
    """Yield dates that do not exist, and an end before the start.

    ``moments``: times in ISO format by field name; ``started`` and ``finished`` are required.
    """
    for name, moment in moments.items():
        try:
            datetime.fromisoformat(moment or "2000-01-01")  # any valid date if null
        except ValueError:
            yield f"{name}: found {moment}, which is on no day of the calendar"
    started, finished = moments["started"], moments["finished"]
    if started and finished and finished < started:
        yield f"finished: found {finished}, before the run started ({started})"


def _import_faults(record: ImportedRecord) -> Iterator[str]:
    """Yield faults of times, and nulls without a reason."""
    imported = record.origin.imported
    yield from _time_faults(started=record.started, finished=record.finished, imported=imported)
    for part in (record, record.origin, record.environment):
        for name, value in msgspec.structs.asdict(part).items():
            if value is None and name not in (*record.missing, "converted_from"):
                yield f"missing: found no reason why {name} is null"


def _run_faults(record: Record) -> Iterator[str]:
    """Yield faults of times, machine, shard, command, ceilings, and nulls without a reason."""
    yield from _time_faults(started=record.started, finished=record.finished)
    machine, shard = record.environment, record.shard
    if (machine.gpu is None) != (machine.device == "cpu"):
        model = machine.gpu.model if machine.gpu else "null"
        yield f"environment.gpu: found {model}, which does not fit device {machine.device!r}"
    if shard and shard.number > shard.of:
        yield f"shard.number: expected at most {shard.of}, found {shard.number}"
    recorded_values = {"--threads": str(machine.threads), "--device": machine.device}
    for option, value in pairwise(record.command):
        if value != recorded_values.get(option, value):
            yield f"command: found {option} {value}, but the machine says {recorded_values[option]}"
    for path in (*null_fields(machine), *null_fields(record.code, "code.")):
        if path not in machine.missing:
            yield f"environment.missing: found no reason why {path} is null"
    counts = Counter(msgspec.structs.replace(ceiling, samples=()) for ceiling in record.ceilings)
    for ceiling, count in counts.items():
        name = f"{ceiling.operation} of {ceiling.size}"
        if count > 1:
            yield f"ceilings: found {name} {ceiling.moment} the run {count} times"
        if not _is_work_of_size(ceiling, machine.threads):
            yield f"ceilings: found the work {ceiling.work:,} for {name}, which means another work"


def _outcome_faults(outcome: Case | Round, place: str, out_of_range: set[str]) -> Iterator[str]:
    """Yield a reason that does not fit the status, and one impossible sample of each series.

    ``out_of_range`` are the quantities that have an impossible sample anywhere in the record.
    """
    if outcome.status == "ok" and outcome.reason is not None:
        yield f"{place}.reason: found {outcome.reason!r}, but a status ok needs no reason"
    if outcome.status != "ok" and outcome.reason is None:
        yield f"{place}.reason: found null, but a status {outcome.status} needs a reason"
    for name, samples in outcome.series.items():
        if name not in out_of_range:
            continue
        quantity = QUANTITIES[name]
        for index, sample in enumerate(samples):
            if not quantity.admits((sample,)):
                fault = f"{name} is {quantity.range}, found {sample}"
                yield f"{place}.series.{name}[{index}]: {fault}"
                break


def _sample_faults(record: Record, samples: Mapping[str, Sequence[Sample]]) -> Iterator[str]:
    """Yield contradictory series and layers, and ``samples`` that last longer than the run.

    ``samples``: quantity → its samples of all cases.
    """
    first_layers: dict[frozenset[tuple[str, Level]], tuple[int, list[str]]] = {}
    for index, case in enumerate(record.cases):
        for series in case.all_series:
            for fault in _series_faults(series, len(case.layers)):
                yield f"cases[{index}].series: {fault}"
        if case.layers and "network" in case.factors:
            items = case.factors.items()
            network = frozenset(item for item in items if item[0] not in _SAME_LAYER_FACTORS)
            names = [layer.name for layer in case.layers]
            first_index, first_names = first_layers.setdefault(network, (index, names))
            if names != first_names:
                difference = f"found others than in cases[{first_index}], of the same network"
                yield f"cases[{index}].layers: {difference}"
    seconds = {name: sum(samples[name]) for name in samples if QUANTITIES[name].unit == "s"}
    seconds["ceilings"] = sum(sum(ceiling.samples) for ceiling in record.ceilings)
    started = datetime.fromisoformat(record.started)
    finished = datetime.fromisoformat(record.finished)
    run_seconds = (finished - started).total_seconds()
    for name, duration in seconds.items():
        # The processor time of a call is the sum over its threads.
        cores = record.environment.cpu.cores_available if name == "cpu_time" else 1
        if duration > (run_seconds + _ROUNDING_S) * cores:
            yield (
                f"finished: found a run of {run_seconds:,.0f} s, but its samples of {name} "
                f"last {duration:,.0f} s"
            )


def _series_faults(series: SeriesByQuantity, layers: int) -> Iterator[str]:
    """Yield unequal numbers of samples within a group, and bytes that exceed their limit.

    ``layers`` is the number of layers that ran.
    """
    same_counts, limits = _comparable(tuple(series))
    for first, name in same_counts:
        if len(series[first]) != len(series[name]):
            yield f"found {len(series[first])} samples of {first}, {len(series[name])} of {name}"
    for name, limit in limits:
        if len(series[limit]) != len(series[name]):
            yield f"found {len(series[name])} samples of {name}, {len(series[limit])} of {limit}"
        for sample, most in zip(series[name], series[limit], strict=False):
            if sample > most:
                yield f"found {sample:,} B of {name}, more than the {most:,} B of {limit}"
    steps = len(series.get("time", ()))
    for name in ("layer_forward_time", "layer_backward_time"):
        if name in series and len(series[name]) != steps * layers:
            expected = f"{steps} steps of {layers} layers"
            yield f"found {len(series[name])} samples of {name}, of {expected}"


@lru_cache
def _comparable(names: tuple[str, ...]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Pair ``names`` of quantities whose numbers of samples are equal, and names with limits.

    Cached, since most series of a record have the same quantities.
    """
    same_counts: list[tuple[str, str]] = []
    limits: list[tuple[str, str]] = []
    first_of_group: dict[tuple[str, ...], str] = {}
    for name in names:
        if group := _GROUP_OF_QUANTITY.get(name):
            same_counts.append((first_of_group.setdefault(group, name), name))
        limits += [(name, limit) for limit in _LIMITS.get(name, ()) if limit in names]
    return same_counts, limits


def _is_work_of_size(ceiling: Ceiling, threads: int) -> bool:
    """Tell whether a ceiling has the work that its size implies; false for unknown sizes.

    A multiply-add counts as 2 operations.  Convolutions have stride 1 and no padding.
    """
    if match := _PRODUCT.fullmatch(ceiling.size):
        rows, inner, columns = (int(number) for number in match.groups())
        return ceiling.work == 2 * rows * inner * columns
    if match := _CONVOLUTION.fullmatch(ceiling.size):
        numbers = (int(number) for number in match.groups())
        batch, channels_in, height, width, kernel_height, kernel_width, channels_out = numbers
        positions = (height - kernel_height + 1) * (width - kernel_width + 1)
        outputs = batch * channels_out * positions
        return ceiling.work == 2 * outputs * channels_in * kernel_height * kernel_width
    if match := _PAGES.fullmatch(ceiling.size):
        pages, page_bytes = (int(number) for number in match.groups())
        return ceiling.work == pages and ceiling.working_set == pages * page_bytes
    if match := _ELEMENTS.fullmatch(ceiling.size):
        elements, per_thread = match.groups()
        arrays = threads if per_thread else 1
        moved_bytes = int(elements) * arrays * _BYTES_PER_ELEMENT.get(ceiling.operation, 0)
        if moved_bytes == 0 or ceiling.working_set not in (None, moved_bytes):
            return False
        # A small working set is moved several times in one repetition.
        return ceiling.work % moved_bytes == 0
    return False


def null_fields(part: Any, prefix: str = "") -> Iterator[str]:
    """Yield the paths of required fields that are null, in a struct and the structs in it."""
    required = _required_fields(part.__class__)
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if value is None and name in required:
            yield prefix + name
        elif isinstance(value, msgspec.Struct):
            yield from null_fields(value, f"{prefix}{name}.")


@cache
def _required_fields(kind: type) -> frozenset[str]:
    """Return the names of fields without default; cached, since msgspec computes them slowly."""
    return frozenset(field.name for field in msgspec.structs.fields(kind) if field.required)
