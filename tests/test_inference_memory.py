"""inference_memory: made-up CPUs, whose peaks are those of theory, and the committed GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import Any

from report.missing import Missing
from report.paper.findings import Findings
from report.records.record import Case, Environment, Record
from report.studies.inference_memory import theory
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.study import findings
from report.studies.inference_memory.subject import LAYOUTS, PRECISIONS, RESNETS, TILED, Call, Limit
from report.theory import networks, peaks
from report.theory.conditions import conditions_of
from report.theory.networks import Captured
from tests import factory, papers
from tests.degraded import committed
from tests.papers import found_in, reported, rows

STUDY = "inference_memory"
found = partial(found_in, STUDY)
BATCHES = (1, 2, 64, 128, 256, 1024)
#: Images and layers set the time of a call.
CALL_S, IMAGE_S = 1e-2, 1e-3


def call(network: str = "ResNet-20", batch: int = 8, **how: Any) -> Call:
    side = 224 if network in ("AlexNet", "VGG-16") else 32
    return Call(network, how.pop("image", side), batch, **how)


def seconds(of: Call) -> float:
    speed = 1 + 8 / of.tile if of.tile else 1.0
    size = (of.image / 32) ** 2
    return size * (CALL_S + IMAGE_S * of.batch) * speed * {"float16": 2.0}.get(of.precision, 1.0)


def on_cpu(of: Call, machine: Environment) -> dict[str, list[int]]:
    """What the allocator says by theory; tiles take an eighth of their side off the peak."""
    network = theory.network(of)
    assert isinstance(network, Captured)
    at = peaks.peak(network, of.batch, conditions_of(machine))
    less = 10 - of.tile // 8 if of.tile else 0
    return {
        "allocated_before": [at.before] * 2,
        "allocated_peak": [at.total - less * (at.total - at.before) // 20] * 2,
    }


def case(of: Call, machine: Environment, **change: Any) -> Case:
    """A call that was measured; ``change`` are other samples by their quantity."""
    # Processes differ by thousandths; the one in the middle is that of the formula.
    times = (factory.scattered((1 + n / 1000) * seconds(of), 1e-3) for n in range(-3, 4))
    return Case(
        factors=of.factors,
        status="ok",
        reason=None,
        layers=networks.layers_of(of.network, of.image, of.batch),
        series=factory.measured({**on_cpu(of, machine), **change}),
        rounds=factory.rounds(times),
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


def record(made: Iterable[Case], machine: Environment | None = None) -> Record:
    return factory.record(made, machine or factory.environment(), study=STUDY)


@cache
def full() -> Findings:
    first, second = factory.environment(), factory.environment("other-2t")
    limits = [limit("ResNet-20", 16), limit("AlexNet", 256, layout="channels_last")]
    timed = [case(each, second) for each in (*HALVED, Call(**TILING), *TILED_CALLS)]
    return found(
        record([*(case(each, first) for each in CPU_CALLS), *limits]), record(timed, second)
    )


def by_tile(tile: int) -> float:
    whole = on_cpu(Call(**TILING), factory.environment())
    tiled = on_cpu(Call(**TILING, tile=tile), factory.environment())
    return tiled["allocated_peak"][0] / whole["allocated_peak"][0]


COMPARED = 2 * len(BATCHES) * 2 + 2
VALUES: Mapping[str, float] = {
    "exact": COMPARED, "compared": COMPARED, "held_exact": 2 * len(BATCHES) + 2, "vgg_exact": 2,
    "vgg_compared": 2, "second_exact": 11, "limits": 2, "limits_met": 2,
    "tile_small_time": 2, "tile_layer_time": 2, "tile_large_time": 1 + 8 / 64, "tile_batch": 2,
    "tile_small_peak": by_tile(8), "tile_large_peak": by_tile(64),
    "layers_least": 1 - by_tile(64), "layers_most": 1 - by_tile(8),
}  # fmt: skip


#: Nothing is known of what bfloat16 copies, and the made-up peaks are those of theory.
REFUTED = {"both-save", "tile-pays"}
OF_GPU = {
    "batch-split", "layout-copies", "memory-monotone", "precision-costs", "tensors-requested",
}  # fmt: skip


def test_values_and_verdicts_of_full_records_are_those_of_closed_forms() -> None:
    papers.assert_values(full(), VALUES)
    papers.assert_verdicts(full(), REFUTED, OF_GPU)
    assert all(each.explained for each in full().reconciliations.values())
    for row in rows(full(), "tbl-limits"):
        assert row["Predicted"] == row["Ran"] == row["Refused"] - 1
        assert row["Left"] >= 0 and row["Next above by"] > 0
    published = reported(STUDY).table("networks")
    parameters = dict(zip(published.column("network"), published.column("parameters"), strict=True))
    for row in rows(full(), "tbl-networks"):
        digits = 1 if row["Network"] == "ResNet-110" else 2
        assert round(row["Parameters"] / 1e6, digits) == parameters[row["Network"]]


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


def test_gpus_take_what_their_allocators_were_asked_for() -> None:
    """Tensors and workspaces are all that grew; numbers are ratios of the recorded peaks."""
    peak: dict[Call, int] = {}
    for role in ("gpu", "third"):
        run = Run(committed(STUDY).cast[role], role).as_measured()
        for each in run.chosen(tile=None):
            grown = run.grown("requested_peak", each.factors, "requested_before")
            if not isinstance(grown, Missing):
                history = run.history(each)
                assert not isinstance(history, Missing)
                assert history.tensors + history.workspace == grown
                peak.setdefault(each, run.fixed("requested_peak", each.factors))

    def over(n: int, precision: Any = "bfloat16", of: int = 0, network: str = "ResNet-20") -> float:
        return peak[call(network, n, precision=precision)] / peak[call(network, of or n)]

    expected = {f"saved_{n}": 1 - over(n) for n in (256, 512, 1024, 4096, 16_384)} | {
        "saved_vgg": 1 - over(2048, network="VGG-16"),
        "more_128": over(128), "most_128": over(128, "float16"),
        "spike": over(256, "float32", of=128), "spike_most": over(16_384, "float32", of=4096),
        "last_peak": peak[call(batch=64, layout="channels_last")] / peak[call(batch=64)],
        # As cuBLAS keeps it, and as the paper counts them.
        "kept": 33 * 2**20, "workspaces": 1846, "copies": 1694, "last_workspaces": 217,
        "last_copies": 189, "split": 10,
    }  # fmt: skip
    papers.assert_values(findings(committed(STUDY)), expected, rel=1e-9)
