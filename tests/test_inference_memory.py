"""inference_memory on made-up records: peaks are those of theory, times are formulas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
import pytest

from report.errors import StudyError
from report.missing import Missing
from report.paper.findings import Findings
from report.records.record import Case, Environment, Record
from report.studies.inference_memory import theory
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.source import checks
from report.studies.inference_memory.subject import LAYOUTS, PRECISIONS, RESNETS, TILED, Call, Limit
from report.theory import networks, peaks
from report.theory.conditions import conditions_of
from report.theory.networks import Captured
from tests import factory, papers
from tests.papers import found_in, reported, rows

STUDY = "inference_memory"
MIB = 2**20
GPU = factory.environment("example-100", factory.GPU)
BATCHES = (1, 2, 64, 128, 256, 1024)
#: Images, layers and bytes set the time of a call; what cuBLAS keeps.
CALL_S, IMAGE_S, KEPT = 1e-2, 1e-3, 34_603_008
#: What a convolution of the GPU takes in float32 at this batch, and in half precision at that one.
SPIKE, SPIKES = 256, {"float32": 80_000_000, "bfloat16": 0, "float16": 0}
DEAR, DEARER = 128, {"float32": 0, "bfloat16": 40_000_000, "float16": 80_000_000}


def call(network: str = "ResNet-20", batch: int = 8, **how: Any) -> Call:
    side = 224 if network in ("AlexNet", "VGG-16") else 32
    return Call(network, how.pop("image", side), batch, **how)


def captured(of: Call) -> Captured:
    found = theory.network(of)
    assert isinstance(found, Captured)
    return found


def seconds(of: Call) -> float:
    speed = 1 + 8 / of.tile if of.tile else 1.0
    size = (of.image / 32) ** 2
    return size * (CALL_S + IMAGE_S * of.batch) * speed * {"float16": 2.0}.get(of.precision, 1.0)


def on_cpu(of: Call, machine: Environment) -> dict[str, list[int]]:
    """What the allocator says by theory; tiles take an eighth of their side off the peak."""
    at = peaks.peak(captured(of), of.batch, conditions_of(machine))
    less = 10 - of.tile // 8 if of.tile else 0
    return {
        "allocated_before": [at.before] * 2,
        "allocated_peak": [at.total - less * (at.total - at.before) // 20] * 2,
    }


def on_gpu(of: Call) -> dict[str, list[int]]:
    """The allocator's history: tensors, and copies around each convolution in half precision."""
    network = captured(of)
    sizes, events, owners = network.sizes(of.batch), [], []
    numbers: dict[int, int] = {}

    def ask(size: int) -> int:
        events.append(size)
        owners.append((owners and max(owners) + 1) or 1)
        return owners[-1]

    for index, operator in enumerate(network.network.operators):
        for storage in filter(numbers.__contains__, operator.freed):
            events.append(-sizes[storage])
            owners.append(numbers.pop(storage))
        numbers |= {storage: ask(sizes[storage]) for storage in operator.made if sizes[storage]}
        if operator.base == "convolution" and (size := workspace(of, network, index)):
            owner = ask(size)
            events.append(-size)
            owners.append(owner)
    before = peaks.before(network, of.batch) + KEPT
    peak = max(sum(events[: n + 1]) for n in range(len(events)))
    return {
        "memory_events": events,
        "memory_events_before": [before],
        "memory_owners": [0, *owners],
        "allocated_before": [before],
        "allocated_peak": [before + peak],
        "requested_before": [before],
        "requested_peak": [before + peak],
    }


def workspace(of: Call, network: Captured, index: int) -> int:
    operator = network.operator(index, of.batch)
    maps = [t for each in operator.reads.values() for t in each] + list(operator.writes)
    copies = sum(t.bytes for t in maps if len(t.shape) == 4) + 16
    special = {SPIKE: SPIKES, DEAR: DEARER}.get(of.batch, {}).get(of.precision, 0)
    wanted = "contiguous" if of.precision == "float32" else "channels_last"
    return special or (0 if of.layout == wanted else copies)


#: Processes differ by thousandths; the one in the middle is that of the formula.
PROCESSES = [1 + 1e-3 * n for n in range(-3, 4)]


def case(of: Call, machine: Environment, **change: Any) -> Case:
    """A call that was measured; ``change`` are other samples by their quantity."""
    found = on_gpu(of) if machine.gpu else on_cpu(of, machine)
    return Case(
        factors=of.factors,
        status="ok",
        reason=None,
        layers=networks.layers_of(of.network, of.image, of.batch),
        series=factory.measured({**found, **change}),
        rounds=factory.rounds(
            factory.scattered(factor * seconds(of), 1e-3) for factor in PROCESSES
        ),
    )


def limit(network: str, mebibytes: int, more: int = 0, layout: Any = "contiguous") -> Case:
    """A search that ends ``more`` images above the prediction."""
    asked = Limit(network, call(network).image, layout, mebibytes, 0, 0)
    fits = theory.fits(asked, conditions_of(factory.environment()))
    assert not isinstance(fits, Missing)
    ran = fits.largest + more
    return Case(
        factors={"subject": "limit", "network": network, "image": asked.image, "layout": layout,
                 "memory_limit": mebibytes},
        status="ok", reason=None, layers=(),
        series={"batch_tried": (ran, ran + 1), "batch_ran": (1, 0)},
    )  # fmt: skip


TILING: dict[str, Any] = {"network": "ResNet-20", "image": 224, "batch": 2}
TILED_CALLS = [Call(**TILING, execution=way, tile=t) for way in TILED for t in (8, 16, 32, 64)]
CPU_CALLS = (
    *(call(n, b, layout=y) for n in ("ResNet-20", "ResNet-110") for b in BATCHES for y in LAYOUTS),
    *(call("VGG-16", 8, layout=y) for y in LAYOUTS),
)
HALVED = tuple(
    call(n, 256, layout=y, precision=p) for n in RESNETS for y in LAYOUTS for p in PRECISIONS[:2]
)
GPU_CALLS = (
    *(call(batch=b, precision=p) for b in (*BATCHES, 512) for p in PRECISIONS),
    call(batch=64, layout="channels_last"),
)


def record(made: Iterable[Case], machine: Environment | None = None) -> Record:
    return factory.record(made, machine or factory.environment(), study=STUDY)


@cache
def cpu_record() -> Record:
    limits = [limit("ResNet-20", 16), limit("AlexNet", 256, layout="channels_last")]
    return record([*(case(each, factory.environment()) for each in CPU_CALLS), *limits])


@cache
def gpu_record() -> Record:
    return record((case(each, GPU) for each in GPU_CALLS), GPU)


@cache
def full() -> Findings:
    second = factory.environment("other-2t")
    timed = [case(each, second) for each in (*HALVED, Call(**TILING), *TILED_CALLS)]
    return found(cpu_record(), record(timed, second), gpu_record())


def found(*records: Record) -> Findings:
    return found_in(STUDY, *records)


def of_peak(batch: int, precision: str = "float32") -> float:
    return on_gpu(call(batch=batch, precision=precision))["allocated_peak"][0]


def saved(batch: int, precision: str = "bfloat16") -> float:
    return 1 - of_peak(batch, precision) / of_peak(batch)


def by_tile(tile: int) -> float:
    whole = on_cpu(Call(**TILING), factory.environment())
    tiled = on_cpu(Call(**TILING, tile=tile), factory.environment())
    return tiled["allocated_peak"][0] / whole["allocated_peak"][0]


COMPARED = 2 * len(BATCHES) * 2 + 2
VALUES: Mapping[str, float] = {
    "exact": COMPARED, "compared": COMPARED, "held_exact": 2 * len(BATCHES) + 2, "vgg_exact": 2,
    "vgg_compared": 2, "split": 0, "second_exact": 11,
    "limits": 2, "limits_met": 2, "kept": KEPT,
    "saved_512": saved(512), "saved_1024": saved(1024), "saved_256": saved(256),
    "more_128": 1 - saved(128), "most_128": 1 - saved(128, "float16"),
    "spike": of_peak(256) / of_peak(128), "copies": 19 * 2 * len(BATCHES),
    "tile_small_time": 2, "tile_layer_time": 2, "tile_large_time": 1 + 8 / 64, "tile_batch": 2,
    "tile_small_peak": by_tile(8), "tile_large_peak": by_tile(64),
    "layers_least": 1 - by_tile(64), "layers_most": 1 - by_tile(8),
}  # fmt: skip


#: Nothing is known of what bfloat16 copies, and the made-up peaks are those of theory.
REFUTED = {"both-save", "memory-monotone", "tile-pays"}


def test_values_and_verdicts_of_full_records_are_those_of_closed_forms() -> None:
    papers.assert_values(full(), VALUES)
    papers.assert_verdicts(full(), REFUTED, {"batch-split"})
    assert {"fig-peaks", "fig-workspace", "fig-tiling"} <= set(full().figures)
    assert all(each.explained for each in full().reconciliations.values())
    for row in rows(full(), "tbl-limits"):
        assert row["Predicted"] == row["Ran"] == row["Refused"] - 1
        assert row["Left"] >= 0 and row["Next above by"] > 0


#: More records, a claim, and what becomes of it.
OTHER: papers.Other[list[Case]] = {
    "an image more within the room": ([limit("ResNet-20", 48, 1, "channels_last")],
                                      "limits-within", "supported"),
    "an image more beyond the room": ([limit("AlexNet", 256, 1)], "limits-within", "refuted"),
    "an image less": ([limit("AlexNet", 256, -1)], "limits-within", "refuted"),
    "a peak beside theory": ([case(call(), factory.environment(), allocated_peak=[10**9] * 2)],
                             "peaks-exact", "refuted"),
    "no tiles": ([case(call(), factory.environment())], "tile-pays", "not measured"),
}  # fmt: skip


def test_verdicts_follow_the_data() -> None:
    papers.assert_changes(lambda made: found(record(made)), OTHER)


def test_the_account_of_a_call_adds_up() -> None:
    run = Run(factory.stored(gpu_record()), "here").as_measured()
    for each in GPU_CALLS:
        history, parts = run.history(each), on_gpu(each)
        assert not isinstance(history, Missing)
        grown = parts["allocated_peak"][0] - parts["allocated_before"][0]
        assert history.tensors + history.workspace == grown


def test_the_source_and_published_networks() -> None:
    verdicts = [check.verdict for check in checks(reported(STUDY))]
    assert verdicts == ["agrees", "differs", "differs", "differs"]
    table = reported(STUDY).table("networks")
    numbers = dict(zip(table.column("network"), table.column("parameters"), strict=True))
    for row in rows(full(), "tbl-networks"):
        digits = 1 if row["Network"] == "ResNet-110" else 2
        assert round(row["Parameters"] / 1e6, digits) == numbers[row["Network"]]


def test_a_case_of_which_another_batch_ran_is_refused() -> None:
    wrong = msgspec.structs.replace(
        case(call(), factory.environment()), layers=networks.layers_of("ResNet-20", 32, 9)
    )
    with pytest.raises(StudyError, match=r"^data/.*cases\[0\]\.layers: found images .*run the exp"):
        found(record([wrong]))
