"""inference_memory: made-up records of CPUs with theory's peaks, and the committed GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import msgspec

from report.core.missing import Missing
from report.core.records.record import Case, Environment, Record
from report.paper.findings import Findings, Inputs
from report.studies.inference_memory import rules, theory
from report.studies.inference_memory.rules import (
    BASELINES,
    CPU_TABLE,
    GPU_TABLE,
    Baseline,
    LimitOfNetwork,
)
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.study import findings
from report.studies.inference_memory.subject import (
    CHANGES,
    LAYOUTS,
    PRECISIONS,
    RESNETS,
    TILED,
    Call,
    Limit,
    call_of,
)
from report.theory import networks, peaks
from report.theory.conditions import Conditions, conditions_of
from report.theory.networks import CapturedNetwork
from tests import factory, papers
from tests.degraded import committed, of_cases
from tests.papers import reported, rows

STUDY = "inference_memory"
on = partial(papers.inputs_of, STUDY)
BATCHES = (1, 2, 64, 128, 256, 1024)
#: Images and layers set the time of a call.
CALL_S, IMAGE_S = 1e-2, 1e-3


def call(network: str = "ResNet-20", batch: int = 8, **how: Any) -> Call:
    side = 224 if network in ("AlexNet", "VGG-16") else 32
    return Call(network, how.pop("image", side), batch, **how)


#: Form of tiling → numbers that set the time and the peak of tiles in ``slower`` and ``on_cpu``.
TILES: Mapping[str, tuple[float, int]] = {
    "tiled_layers": (18, 20), "tiled_blocks": (14, 24), "tiled_stages": (12, 28)
}  # fmt: skip


def slower(of: Call) -> float:
    """Factor by which tiles lengthen a call."""
    return 1 + TILES[of.execution][0] / of.tile if of.tile else 1.0


def seconds(of: Call) -> float:
    size = (of.image / 32) ** 2
    return size * (CALL_S + IMAGE_S * of.batch) * {"float16": 2.0}.get(of.precision, 1.0)


def on_cpu(of: Call, machine: Environment) -> dict[str, list[int]]:
    """Readings of the allocator by theory; tiles lower the peak, small tiles more."""
    network = theory.network(of)
    assert isinstance(network, CapturedNetwork)
    at = peaks.peak(network, of.batch, conditions_of(machine))
    saved, parts = (10 - of.tile // 8, TILES[of.execution][1]) if of.tile else (0, 1)
    return {
        "allocated_before": [at.before] * 2,
        "allocated_peak": [at.total - saved * (at.total - at.before) // parts] * 2,
    }


def case(
    of: Call,
    machine: Environment,
    more: int = 0,
    share: float = 1,
    slower: Callable[[Call], float] = slower,
) -> Case:
    """Case of a call whose peak is a ``share`` of theory's peak, and ``more`` bytes."""
    # Processes differ by thousandths; the median process has the time of the formula.
    centres = factory.scattered(slower(of) * seconds(of), 3e-3, 7)
    times = (factory.scattered(centre, 1e-3) for centre in centres)
    peak = {
        "allocated_peak": [int(share * n) + more for n in on_cpu(of, machine)["allocated_peak"]]
    }
    return Case(
        factors=of.factors,
        status="ok",
        reason=None,
        layers=networks.layers_of(of.network, of.image, of.batch),
        series=factory.measured({**on_cpu(of, machine), **peak}),
        rounds=factory.rounds(times),
    )


def limit(
    network: str, mebibytes: int, more: int = 0, layout: Any = "contiguous", change: str = ""
) -> Case:
    """Case of a search that ends ``more`` images above the prediction."""
    asked = Limit(network, call(network).image, layout, mebibytes, 0, 0, change)
    fits = theory.fits(asked, conditions_of(factory.environment()))
    assert not isinstance(fits, Missing)
    ran = fits.largest + more
    return Case(
        factors={"subject": "limit", "network": network, "image": asked.image, "layout": layout,
                 "memory_limit": mebibytes} | ({"change": change} if change else {}),
        status="ok", reason=None, layers=(),
        series={"batch_tried": (ran, ran + 1), "batch_ran": (1, 0)},
    )  # fmt: skip


#: Predicted largest batch by network, layout and limit (MiB): unchanged, with ReLU in place, and
#: with stages nested; committed before any changed network ran.
FRONTIERS: Mapping[tuple[str, Any, int], tuple[int, ...]] = {
    ("ResNet-20", "contiguous", 16): (57, 57, 46),
    ("ResNet-20", "contiguous", 48): (179, 179, 144),
    ("ResNet-20", "channels_last", 16): (75, 75, 57),
    ("ResNet-20", "channels_last", 48): (235, 235, 179),
    ("ResNet-110", "contiguous", 16): (35, 35, 28),
    ("ResNet-110", "contiguous", 48): (158, 158, 127),
    ("ResNet-110", "channels_last", 16): (46, 46, 35),
    ("ResNet-110", "channels_last", 48): (207, 207, 158),
    ("AlexNet", "contiguous", 256): (11, 11),
    ("AlexNet", "contiguous", 384): (73, 73),
    ("AlexNet", "channels_last", 256): (11, 12),
    ("AlexNet", "channels_last", 384): (73, 81),
    ("VGG-16", "contiguous", 640): (3, 3),
    ("VGG-16", "contiguous", 800): (7, 7),
    ("VGG-16", "channels_last", 640): (4, 4),
    ("VGG-16", "channels_last", 800): (10, 10),
}


def test_a_changed_allocation_moves_the_predicted_frontier_where_it_is_alive_at_the_peak() -> None:
    avx512 = Conditions(threads=1, block=16)
    for (network, layout, mebibytes), expected in FRONTIERS.items():
        for change, batch in zip(("", *CHANGES), expected, strict=False):
            asked = Limit(network, call(network).image, layout, mebibytes, 0, 0, change)
            fits = theory.fits(asked, avx512)
            assert not isinstance(fits, Missing)
            assert fits.largest == batch


TILING: dict[str, Any] = {"network": "ResNet-20", "image": 224, "batch": 5}
TILED_CALLS = [Call(**TILING, execution=way, tile=t) for way in TILED for t in (8, 16, 32, 64)]
CPU_CALLS = (
    *(call(n, b, layout=y) for n in ("ResNet-20", "ResNet-110") for b in BATCHES for y in LAYOUTS),
    *(call("VGG-16", 8, layout=y) for y in LAYOUTS),
)
HALVED = tuple(
    call(n, 256, layout=y, precision=p) for n in RESNETS for y in LAYOUTS for p in PRECISIONS[:2]
)


def record(cases: Iterable[Case], machine: Environment | None = None) -> Record:
    return factory.record(cases, machine or factory.environment(), study=STUDY)


FIRST, SECOND = factory.environment(), factory.environment("other-2t", memory_bytes=2**36)
#: A call whose peak is above theory's bound, and one without a bound, for which a rule is missing.
BOUND, STRANGE = call("VGG-16", 8, layout="channels_last"), Call(**TILING)


def first(more: int = 1_000, limits: Iterable[Case] = ()) -> Record:
    calls = [case(asked, FIRST, more * (asked == BOUND)) for asked in CPU_CALLS]
    return record([*calls, case(call(batch=32, layout="channels_last"), FIRST), *limits])


def second(share: float = 1, slower: Callable[[Call], float] = slower) -> Record:
    """Layouts, precisions and tiles, where both settings together need a ``share`` of the peak."""
    both = {"layout": "channels_last", "precision": "bfloat16"}
    cases = [
        case(asked, SECOND, share=share if both.items() <= vars(asked).items() else 1)
        for asked in HALVED
    ]
    cases += [case(asked, SECOND, slower=slower) for asked in TILED_CALLS]
    cases += [
        case(call("LeNet-5", batch, layout=layout), SECOND, slower=lambda of, by=by: by)
        for layout, by in zip(LAYOUTS, (1.25, 1), strict=True)
        for batch in (2, 4, 8, 16)
    ]
    return record([*cases, case(STRANGE, SECOND, 4)], SECOND)


def changes(in_place: int = 0, idle: int = 0, nested: int = 0) -> Record:
    """Limits of networks as written and changed, which end these images above the prediction."""
    last = {"layout": "channels_last"}
    return record([
        limit("AlexNet", 256, **last), limit("AlexNet", 256, in_place, change="in_place", **last),
        limit("ResNet-20", 16), limit("ResNet-20", 16, idle, change="in_place"),
        limit("ResNet-20", 16, nested, change="nested"),
        limit("ResNet-20", 16, **last), limit("ResNet-20", 16, change="nested", **last),
        limit("ResNet-110", 16, 1, **last), limit("ResNet-110", 16, 1, change="in_place", **last),
        *(limit("VGG-16", n, change=how) for n in (640, 800) for how in ("", "in_place")),
    ], factory.environment("third-2t", memory_bytes=2**37))  # fmt: skip


def tables(ran: Mapping[str, Iterable[int]], *baselines: Baseline, gpu: Any) -> Mapping[str, Any]:
    """Batches that ran where 10 were predicted under 1,000 B, and on a GPU 100, by network."""
    on_gpu = [(net, batch) for net, batches in gpu.items() for batch in batches]
    on_cpu = [(net, batch) for net, batches in ran.items() for batch in batches]
    return {
        CPU_TABLE: (
            *(LimitOfNetwork(net, "inference", 1_000, 10, batch) for net, batch in on_cpu),
            LimitOfNetwork("high", "training", 1_000, 10, 1),
        ),
        GPU_TABLE: [LimitOfNetwork(net, "inference", 1_000, 100, batch) for net, batch in on_gpu],
        BASELINES: baselines,
    }


#: By hand: the line 2 + 800 / 20 = 42, the sum 900 / 300 = 3, the estimator 1,000 / 50 = 20.
HIGH = Baseline("high", 200, 240, 100, 300, 0, 50)
#: Every rule predicts 10.
GOOD = Baseline("good", 280, 460, 0, 100, 0, 100)
#: The line and the estimate are right; one network has no estimate, and another one's peak falls.
RULES = tables(
    {
        "high": [10] * 45 + [9] * 10, "fair": [10] * 33, "bare": [10] * 7, "falls": [10] * 3,
        **{key: [10] for key in "abcde"},
    },
    HIGH, Baseline("fair", 280, 460, 0, 400, 0, 100), Baseline("bare", 280, 460, 0, 400),
    Baseline("falls", 9, 5, 0, 500, 0, 90),
    *(Baseline(name, 9, 5, 0, 500) for name in "abcde"),
    gpu={"high": [80] * 40, **{f"net{n}": [97] for n in range(31)}},
)  # fmt: skip


def with_tables(of: Mapping[str, Any], *records: Record) -> Inputs:
    return replace(on(*records), table=lambda name, row: of[name])


@cache
def of_committed() -> Findings:
    return findings(committed(STUDY))


@cache
def full() -> Findings:
    limits = [limit("ResNet-20", 16), limit("AlexNet", 256, layout="channels_last")]
    limits += [limit("AlexNet", 512), limit("ResNet-20", 48, 1, "channels_last")]
    return findings(with_tables(RULES, first(limits=limits), second(), changes()))


def by_tile(tile: int, execution: str = "tiled_stages") -> float:
    tiled = on_cpu(Call(**TILING, tile=tile, execution=execution), SECOND)["allocated_peak"][0]
    return tiled / (on_cpu(STRANGE, SECOND)["allocated_peak"][0] + 4)


COMPARED = 2 * len(BATCHES) * 2 + 2 + 1
VALUES: Mapping[str, float] = {
    "exact": COMPARED - 1, "compared": COMPARED, "bounds": 12, "held_compared": 14,
    "held_exact": 13, "vgg_exact": 1, "vgg_compared": 2, "second_exact": 18,
    "second_compared": 19, "lenet_gain": 1.25, "source_lenet": 5.6,
    "limits": 4, "limits_met": 3, "tile_side": 224, "tile_batch": 5,
    "tile_small_time": 1 + 12 / 8, "tile_layer_time": 1 + 18 / 8, "tile_large_time": 1 + 12 / 64,
    "tile_small_peak": by_tile(8), "tile_large_peak": by_tile(64),
    "rule_limits": 103, "rule_networks": 9, "tensors_right": 93, "tensors_over": 10,
    "line_answers": 95, "line_right": 40, "line_over": 55, "line_most": 42 / 9, "sum_most": 3 / 9,
    "estimator_answers": 91, "estimator_over": 58, "estimator_most": 20 / 9,
    "gpu_limits": 71, "gpu_limit_networks": 32, "gpu_limit_least": 0.8,
    "changes": 7, "changes_met": 6,
    "nested_least": 1 - 46 / 57, "nested_most": 1 - 57 / 75,
    "layers_least": 1 - by_tile(64, "tiled_layers"), "layers_most": 1 - by_tile(8, "tiled_layers"),
}  # fmt: skip


def test_values_of_full_records_are_those_of_closed_forms() -> None:
    papers.assert_values(full(), VALUES)


def test_tables_have_their_rows() -> None:
    # From the sums that torchinfo 1.8.0 prints for these networks.
    assert [row["torchinfo"] for row in rows(full(), "tbl-limits")] == [16, 5, 5, 64]
    lenet = dict.fromkeys(rows(full(), "tbl-networks")[0].values())
    # Five by five kernels at 28² and 10² places, then 400 inputs to 120, 84 and 10.
    multiply_adds = 28**2 * 25 * 6 + 10**2 * 25 * 6 * 16 + 400 * 120 + 120 * 84 + 84 * 10
    assert [*lenet] == ["LeNet-5", 32, 1, 61_706, multiply_adds, "yes"]
    published = reported(STUDY).table("networks")
    parameters = dict(zip(published.column("network"), published.column("parameters"), strict=True))
    for row in rows(full(), "tbl-networks"):
        digits = 1 if row["Network"] == "ResNet-110" else 2
        assert round(row["Parameters"] / 1e6, digits) == parameters[row["Network"]]


def test_a_line_through_two_peaks_meets_the_limit_unless_it_falls() -> None:
    assert rules.line(200, 240, 1_000) == 42
    assert rules.line(200, 240, 1_019) == 42
    assert rules.line(240, 200, 1_000) is None


def on_gpus(change: Callable[[int, Case], Case]) -> Inputs:
    """The committed records after a ``change`` of each case."""
    return of_cases(change)(committed(STUDY))


def with_rising_peaks(place: int, old: Case) -> Case:
    """Let the peak rise with the batch; half precision halves it."""
    if not {"requested_peak", "batch"} <= old.series.keys() | old.factors.keys():
        return old
    halved = old.factors.get("precision") != "float32"
    peak = int(old.factors["batch"]) * 2**20 // (1 + halved)
    return msgspec.structs.replace(old, series={**old.series, "requested_peak": (peak,)})


def with_larger_workspaces(place: int, old: Case) -> Case:
    """Enlarge workspaces by a fiftieth, and let the peaks of equal cases differ."""
    peak = tuple(int(size) + place for size in old.samples("requested_peak"))
    old = msgspec.structs.replace(old, series={**old.series, "requested_peak": peak})
    asked, events = call_of(old), old.samples("memory_events")
    network = theory.network(asked) if asked and asked.precision != "float32" and events else None
    if not isinstance(network, CapturedNetwork) or asked is None:
        return old
    tensors = {*network.sizes(asked.batch)}
    enlarged = tuple(n if abs(n) in tensors else n + n // 50 for n in events)
    return msgspec.structs.replace(old, series={**old.series, "memory_events": enlarged})


def with_half_histories(place: int, old: Case) -> Case:
    """Remove the last half of the history of memory."""
    names, removed = ("memory_events", "memory_owners"), len(old.samples("memory_events")) // 2
    shortened = {name: old.samples(name)[:-removed] for name in names if removed}
    return msgspec.structs.replace(old, series={**old.series, **shortened})


def other() -> dict[str, dict[str, Inputs]]:
    """Inputs for which a claim has the opposite verdict of ``full``, by that verdict and claim."""
    rising, halved = on_gpus(with_rising_peaks), on(first(), second(share=0.5))
    mispredicted = on(record([case(call(), FIRST, 4), limit("AlexNet", 256, 1)]))
    cheap_tiles = on(first(), second(slower=lambda of: 1.05))
    good = tables({"good": [12]}, GOOD, gpu={"good": [50]})
    refuted = with_tables(good, first())
    return {
        "supported": {
            "both-save": halved,
            "tile-pays": on(first(), second(slower=lambda of: 0.89)),
            "memory-monotone": rising,
        },
        "refuted": {
            "layout-predicted": halved,
            "rules-ours": refuted,
            "rules-line": refuted,
            "rules-sum": refuted,
            "rules-estimator": refuted,
            "rules-gpu": refuted,
            "changes-within": on(first(), changes(nested=-1)),
            "in-place-gains": on(first(), changes(in_place=-1)),
            "in-place-idle": on(first(), changes(idle=2)),
            "nested-costs": on(first(), changes(nested=11)),
            "layout-costs": rising,
            "weights-cost": rising,
            "peaks-exact": mispredicted,
            "limits-within": mispredicted,
            "bounds-hold": on(first(more=-4)),
            "tile-time": on(first(), second(slower=lambda of: 2 + (of.tile or 0) / 64)),
            "tile-trades": cheap_tiles,
            "precision-costs": rising,
            "tensors-requested": on_gpus(with_half_histories),
            "layout-copies": (enlarged := on_gpus(with_larger_workspaces)),
            "batch-split": enlarged,
            "peaks-repeat": enlarged,
        },
    }


def test_each_claim_has_two_sides() -> None:
    of_gpus = of_committed().claims
    judged = {k: claim for k, claim in full().claims.items() if claim.verdict != "not measured"}
    papers.assert_both_sides(STUDY, replace(full(), claims={**of_gpus, **judged}), other())
    for changed, claim, verdict in (
        (limit("AlexNet", 256, -1), "limits-within", "refuted"),
        (case(call(), FIRST), "tile-pays", "not measured"),
    ):
        assert papers.verdicts(STUDY, on(record([changed])), claim) == {claim: verdict}


def test_gpus_take_what_their_allocators_were_asked_for() -> None:
    """Peaks grow by tensors and workspaces alone; expected values are ratios of recorded peaks."""
    peak: dict[Call, int] = {}
    for role in ("gpu", "third", "fourth"):
        run = Run(committed(STUDY).record_by_role[role], role).under_main_policy()
        for asked in run.chosen(tile=None):
            grown = run.grown("requested_peak", asked.factors, "requested_before")
            if not isinstance(grown, Missing):
                history = run.history(asked)
                assert not isinstance(history, Missing)
                assert history.tensors + history.workspace == grown
                peak.setdefault(asked, run.fixed("requested_peak", asked.factors))

    def over(n: int, precision: Any = "bfloat16", of: int = 0, network: str = "ResNet-20") -> float:
        return peak[call(network, n, precision=precision)] / peak[call(network, of or n)]

    expected = {f"saved_{n}": 1 - over(n) for n in (256, 512, 1024, 4096, 16_384)} | {
        "saved_vgg": 1 - over(2048, network="VGG-16"),
        "more_128": over(128), "most_128": over(128, "float16"),
        "spike": over(256, "float32", of=128), "spike_most": over(16_384, "float32", of=4096),
        "last_peak": peak[call(batch=64, layout="channels_last")] / peak[call(batch=64)],
        # As cuBLAS keeps it, and as the paper counts them.
        "kept": 33 * 2**20, "workspaces": 2846, "copies": 2615, "last_workspaces": 707,
        "last_copies": 583, "split": 12, "split_met": 11, "repeated": 130,
        "weights_vgg": over(1, network="VGG-16"),
        "last_512": peak[call(batch=512, layout="channels_last")] / peak[call(batch=512)],
    }  # fmt: skip
    papers.assert_values(of_committed(), expected, rel=1e-9)
