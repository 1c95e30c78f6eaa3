"""The study: the audit of its source, theory against closed forms, verdicts, what is missing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from figures.roofline import Roofline
from report.engine.pipeline import ROOT
from report.evidence.audit import Check
from report.evidence.reported import Reported
from report.instruments.trace import MemoryEvent, Operator, Trace
from report.missing import Missing
from report.paper.findings import Findings
from report.quantity.evaluation import estimate, point, to_digits
from report.quantity.expression import Quantity, exact
from report.records.store import read_record
from report.statistics.estimates import Estimate
from report.studies.training_roofline.batches import (
    by_doubling,
    fit,
    own_batches,
    slow_singles,
    sweep,
    times,
)
from report.studies.training_roofline.declared import chosen, median, whole
from report.studies.training_roofline.ladder import ladder
from report.studies.training_roofline.ladder import top as ladder_top
from report.studies.training_roofline.measured import Run, primary_run, runs
from report.studies.training_roofline.memory import step_memory, traced_kept
from report.studies.training_roofline.paging import FEW, steps_panel
from report.studies.training_roofline.profiled import THRESHOLDS, main_profiles, profiles
from report.studies.training_roofline.source import image_traffic
from report.studies.training_roofline.source_audit import audit
from report.studies.training_roofline.subject import NETWORKS, Step
from report.theory.training_memory import categories
from tests import factory, training
from tests.papers import column, devices, found_in, manuscript, number, reported, value, value_of
from tests.training import (
    COPY,
    PEAK,
    SHORT_PEAK,
    case,
    cases,
    layers_of,
    record,
    steps_of,
)
from tests.training import product as product_case
from tests.training import profile as profile_case

STUDY = "training_roofline"
REPORTED = reported(STUDY)
SHAPES = {name: layers_of(name) for name in NETWORKS}
SMALL = "ResNet-18"
#: So many processes bear a claim on several comparisons at 95 %.
MANY = tuple(range(1, 11))


@pytest.fixture(scope="module")
def full() -> Findings:
    return found_in(STUDY, record())


@pytest.fixture(scope="module")
def empty() -> Findings:
    return found_in(STUDY)


# --------------------------------------------------------------------------------------- audit


def checks(source: Reported = REPORTED) -> tuple[Check, ...]:
    return audit(source, SHAPES, devices())


def of_formula(words: str, source: Reported = REPORTED) -> list[Check]:
    found = [c for c in checks(source) if words in c.formula]
    assert found
    return found


def test_the_audit_finds_that_operations_are_multiply_adds() -> None:
    found = of_formula("FLOP by shapes")
    assert len(found) == len(NETWORKS)
    assert {c.verdict for c in found} == {"differs"}
    assert all(c.known and "multiply-adds counted as one" in c.known.reason for c in found)


def test_the_audit_finds_that_no_rate_follows_from_images_a_second() -> None:
    found = of_formula("images/s")
    assert [c.verdict for c in found] == ["differs"] * 8
    assert all(c.factor is not None and 0.75 < c.factor < 1 for c in found)
    assert float(found[0].recomputed) == pytest.approx(6.044, abs=1e-3)


def test_the_audit_finds_that_the_peak_is_not_that_of_a_laptop() -> None:
    (found,) = of_formula("2 · cores · clock")
    assert (found.verdict, float(found.recomputed)) == ("differs", pytest.approx(24.72, abs=0.01))


def test_the_audit_finds_the_bandwidth_of_the_t4_and_the_ranges() -> None:
    sheet = {c.derived.unit: c.verdict for c in of_formula("data sheet")}
    assert sheet == {"TFLOP/s": "agrees", "GB/s": "differs"}
    ranges = [c.verdict for c in of_formula("speedup above 1")]
    assert ranges == ["differs", "differs", "agrees", "agrees"]


def test_the_audit_takes_a_number_of_one_digit_for_what_it_is() -> None:
    (found,) = (c for c in checks() if c.derived.number == 107)
    assert found.verdict == "rounds"
    assert found.possible.high - found.possible.low > 10


def test_efficiencies_gains_and_averages_follow_from_what_stands_beside_them() -> None:
    words = ("rate / peak", "gain in", "mean of", "ratio of the average", "3 · forward", "peak / b")
    for formula in words:
        assert {c.verdict for c in of_formula(formula)} <= {"agrees", "rounds"}, formula


def test_all_intensities_of_one_network_share_a_traffic_an_image() -> None:
    found = image_traffic(REPORTED)
    assert found is not None
    assert 50e6 < float(found.low) < float(found.high) < 51e6


def test_other_intensities_share_none() -> None:
    assert image_traffic(changed("intensity", 2, intensity=400)) is None


def changed(table: str, row: int, source: Reported = REPORTED, **cells: float) -> Reported:
    """The source with other numbers in one row."""
    content = json.loads(msgspec.json.encode(source))
    for item in content["tables"]:
        if item["id"] == table:
            keys = [c["key"] for c in item["columns"]]
            for key, number_ in cells.items():
                item["rows"][row][keys.index(key)] = number_
    return msgspec.convert(content, Reported)


# ---------------------------------------------------------------------------- without a record


def test_without_records_theory_comes_from_published_shapes(
    empty: Findings, full: Findings
) -> None:
    for id_ in ("heavy_training", "light_intensity", "rtx_average", "collapse_need", "factored"):
        assert value(empty, id_) == value(full, id_), id_
    assert value(empty, "factored") == 3


def test_without_records_the_audit_and_the_fit_of_the_source_are_there(empty: Findings) -> None:
    assert value(empty, "audited") > 40
    assert value(empty, "desktop_peak") == pytest.approx(48.74e12, rel=1e-3)
    assert value(empty, "collapse_fastest") > 2
    assert empty.claims["diminishing-source"].verdict == "supported"
    assert empty.claims["collapse-source"].verdict == "supported"
    assert empty.claims["throttling"].verdict == "not measured"


# ------------------------------------------------------------------------------- with a record


def test_theory_is_that_of_the_shapes(full: Findings) -> None:
    assert value(full, "small_forward") == 2 * 1_814_073_344
    assert value(full, "heavy_training") == pytest.approx(24.299e9, rel=1e-4)
    assert value(full, "light_training") == pytest.approx(1.783e9, rel=1e-3)
    assert value(full, "heavy_times") == 2.97
    parameters = column(full, "tbl-complexity", "Parameters")
    assert parameters == [11_689_512, 25_557_032, 3_504_872]


def test_the_light_network_lies_below_the_ridge_of_the_t4(full: Findings) -> None:
    assert value(full, "light_intensity") < value(full, "t4_ridge") < value(full, "heavy_intensity")
    assert full.claims["compute-bound"].verdict == "refuted"
    assert full.claims["compute-bound-cached"].verdict == "supported"
    assert full.claims["counted-once"].verdict == "refuted"


def test_corrected_efficiencies_are_of_the_right_peaks(full: Findings) -> None:
    shares = column(full, "tbl-corrected", "Of arithmetic")
    work = 1107 * value(full, "small_training")
    assert shares[0] == pytest.approx(work / value(full, "laptop_peak"), rel=2e-3)
    assert all(0 < share < 1 for share in shares)
    assert column(full, "tbl-corrected", "Printed")[:2] == ["5.5", "4.1"], "digits of the source"


def test_the_paradox_shrinks_step_by_step_over_the_same_cases(full: Findings) -> None:
    """The mean of the cases left, from the table of all of them."""
    shares = column(full, "tbl-corrected", "Of arithmetic")
    steps = column(full, "tbl-paradox", "Ratio")
    assert (steps[0], column(full, "tbl-paradox", "Cases")) == ("2.9", [4, 4, 4, 4, 3, 2, 1, 1])
    # Rows of the laptop's GPU first: ResNet-18, ResNet-50 at three batches, MobileNetV2.
    for step, own in ((3, (0, 1, 2, 3)), (4, (0, 1, 2)), (5, (1, 2)), (6, (0,)), (7, (4,))):
        ratio = sum(shares[5 + i] for i in own) / sum(shares[i] for i in own)
        assert steps[step].value == pytest.approx(ratio), step
        assert steps[step].low < ratio < steps[step].high, "the clock of the laptop is not known"
    assert full.claims["paradox"].verdict == "refuted"
    assert full.claims["paradox-left"].verdict == "undecided"
    assert full.claims["paradox-others"].verdict == "supported"


def test_the_source_decides_both_hypotheses_without_the_collapsed_case(full: Findings) -> None:
    verdicts = {name: full.claims[name].verdict for name in ("hardware", "light-memory")}
    assert verdicts == {"hardware": "supported", "light-memory": "supported"}
    assert full.claims["heavy-arithmetic"].verdict == "refuted"
    light = 752 * value(full, "light_traffic") / 384e9
    assert column(full, "tbl-corrected", "Of bandwidth")[4] == pytest.approx(light, rel=2e-3)
    assert light == pytest.approx(0.925, abs=1e-3)


def test_time_near_a_roof_falls_with_the_threshold() -> None:
    """In the factory every layer reaches 60 % of its roof; each of its steps is a dot."""
    (run,) = runs((factory.stored(record()),))
    panel = steps_panel(main_profiles(run), THRESHOLDS)
    assert panel is not None
    shares = [
        [sum(steps) for steps in zip(*row, strict=True)]
        for row in zip(*(series.x for series in panel.series[:2]), strict=True)  # type: ignore[arg-type]
    ]
    neither = panel.series[2]
    assert neither.label == "neither"
    for row, near in zip(neither.x, shares, strict=True):
        assert list(row) == pytest.approx([100 - share for share in near])  # type: ignore[arg-type]
    for loose, middle, strict in zip(shares[::3], shares[1::3], shares[2::3], strict=True):
        assert len(loose) == 8
        assert loose == middle == pytest.approx([100] * 8)
        assert strict == [0] * 8


def test_profiled_steps_are_told_apart_by_policy_and_faults() -> None:
    step = Step(SMALL, 64, 2)
    watched = profile_case(step, 2)
    few, many = factory.series("page_faults", [3, 5]), factory.series("page_faults", [FEW, 2 * FEW])
    times = {series.quantity: list(series.samples) for series in watched.series}
    slow = {name: [2 * each for each in found] for name, found in times.items()}
    both = msgspec.structs.replace(
        watched,
        series=(),
        rounds=(
            factory.round_(1, times | {"page_faults": list(few.samples)}, policy="retained"),
            factory.round_(1, slow | {"page_faults": list(many.samples)}, policy="default"),
        ),
    )
    found = found_in(STUDY, record([both, case(step, 1)]))
    assert value(found, "small_default") == pytest.approx(
        2 * value(found, "small_retained"), rel=0.01
    )
    assert value(found, "small_default_faults") > FEW
    (panel,) = found.figures["fig-paging"].drawing.panels
    mapping, calm = (series.x for series in panel.series)
    assert [len(row) for row in calm] == [0, 2]
    assert mapping[0] == pytest.approx((2, 2))


def test_no_efficiency_is_above_one(full: Findings) -> None:
    found = [
        cell
        for table in full.tables.values()
        for i, c in enumerate(table.columns)
        if c.name in ("Efficiency", "Utilisation", "Of arithmetic", "Of bandwidth")
        for cell in (row[i] for row in table.rows)
    ]
    numbers = [
        c.high if isinstance(c, Estimate) else c for c in found if isinstance(c, Estimate | float)
    ]
    assert len(numbers) > 20
    assert max(numbers) <= 1


def test_a_rate_above_the_ceiling_has_no_efficiency() -> None:
    fast = record(cases((SMALL,), lambda step, layers: 1e-4))
    found = found_in(STUDY, fast)
    assert {type(cell) for cell in column(found, "tbl-batches-example-2t", "Efficiency")} == {
        Missing
    }
    assert any("error" in note for _, note in found.tables["tbl-batches-example-2t"].note_texts())


def marks(found: Findings, table: str) -> list[str]:
    return [note for note in found.tables[table].notes if "moved" in note]


def test_a_matrix_product_that_moved_marks_efficiencies() -> None:
    quiet = factory.ceilings(PEAK, COPY)
    moved = (*quiet[:2], factory.ceiling("matrix_product", "after", 0.8 * PEAK), quiet[3])
    found = found_in(STUDY, record(peaks=moved))
    assert found.facts["product_moved"]
    assert not found.facts["copy_moved"]
    assert marks(found, "tbl-batches-example-2t")
    assert not marks(found, "tbl-ridges")


def test_a_copy_that_moved_marks_roofs_and_leaves_efficiencies() -> None:
    quiet = factory.ceilings(PEAK, COPY)
    moved = (*quiet[:3], factory.ceiling("copy", "after", 0.5 * COPY))
    found = found_in(STUDY, record(peaks=moved))
    assert found.facts["copy_moved"]
    assert not found.facts["product_moved"]
    assert marks(found, "tbl-ridges")
    assert not marks(found, "tbl-batches-example-2t")
    assert "Copy bandwidth fell to" in manuscript(STUDY, found)


def test_ceilings_that_stayed_mark_nothing(full: Findings) -> None:
    assert not full.facts["product_moved"] + full.facts["copy_moved"]
    assert not [note for table in full.tables.values() for note in table.notes if "moved" in note]


# -------------------------------------------------------------------------------- over processes


def of_one_step(*times: list[float]) -> Quantity:
    """The time of a step that so many processes measured."""
    step = Step(SMALL, 64, 2)
    made = [case(step, i, lambda s, layers: 1.0, steps=t) for i, t in enumerate(times, start=1)]
    (run,) = runs((factory.stored(record(made)),))
    return run.time(step)


def test_processes_are_the_units_of_an_interval() -> None:
    found = estimate(of_one_step(*(factory.scattered(t, 0.01, 21) for t in (1.0, 1.1, 1.2))))
    assert isinstance(found, Estimate)
    assert (found.value, found.low, found.high) == pytest.approx((1.1, 1.0, 1.2), rel=0.01)
    assert (found.n, found.confidence) == (63, 0.75)


def test_a_process_that_failed_leaves_the_others() -> None:
    step = Step(SMALL, 64, 2)
    made = [
        case(step, 1),
        case(step, 2),
        case(step, 3, status="failed", reason="The machine slept."),
    ]
    (run,) = runs((factory.stored(record(made)),))
    assert run.processes(step) == 2
    assert isinstance(estimate(run.time(step)), Estimate)


def test_a_step_that_never_ended_well_says_why() -> None:
    step = Step(SMALL, 64, 128)
    bad = [case(step, p, status="out_of_memory", reason="No room was left.") for p in (1, 2, 3)]
    (run,) = runs((factory.stored(record([case(Step(SMALL, 64, 2), 1), *bad])),))
    found = run.time(step).missing
    assert found is not None
    assert "out of memory" in found.reason
    assert manuscript(STUDY, found_in(STUDY, record([case(Step(SMALL, 64, 2), 1), *bad])))


# --------------------------------------------------------------------------------------- batches


def line(fixed: float, image: float) -> training.Seconds:
    return lambda step, layers: fixed + image * step.batch


def test_the_fit_gives_back_what_made_the_times() -> None:
    (run,) = runs((factory.stored(record(cases((SMALL,), line(0.08, 0.01)))),))
    found = fit(run, SMALL)
    assert not isinstance(found, Missing)
    assert found.limit.value == pytest.approx(100, rel=0.01)
    assert isinstance(found.half, Estimate)
    assert found.half.value == pytest.approx(8, rel=0.01)
    result = found_in(STUDY, record(cases((SMALL,), line(0.08, 0.01))))
    assert result.claims["diminishing-example-2t"].verdict == "supported"


def test_a_rate_that_falls_with_the_batch_refutes_saturation() -> None:
    result = found_in(STUDY, record(cases((SMALL,), line(-0.01, 0.01), MANY)))
    assert result.claims["diminishing-example-2t"].verdict == "refuted"
    assert result.claims["collapse-example-2t"].verdict == "refuted"


def test_one_batch_size_alone_tells_nothing_of_a_collapse() -> None:
    result = found_in(STUDY, record([case(Step(SMALL, 64, 2), p) for p in (1, 2, 3)]))
    assert result.claims["collapse-example-2t"].verdict == "not measured"


def test_a_batch_that_falls_and_scatters_is_an_anomaly() -> None:
    made = cases((SMALL,), line(0.08, 0.01), MANY)
    slow = Step(SMALL, 64, 128)
    wild = [5.0, 30.0] * 10
    bad = [case(slow, p, line(0.1, 0.1), steps=wild) for p in MANY]
    others = [c for c in made if c.factors.get("batch") != 128]
    result = found_in(STUDY, record([*others, *bad]))
    assert result.claims["collapse-example-2t"].verdict == "supported"
    (run,) = runs((factory.stored(record([*others, *bad])),))
    assert [b.batch for b in own_batches(run, SMALL) if b.anomalous] == [128]


# ---------------------------------------------------------------------------------------- layers


def test_layers_near_the_arithmetic_and_near_the_copy_are_told_apart() -> None:
    """In the factory every layer reaches 60 % of the ceiling that theory gives it."""
    (run,) = runs((factory.stored(record()),))
    for profile in main_profiles(run):
        shares = [profile.side_share(side) for side in ("arithmetic", "traffic", "neither")]
        found = [value_of(share) for share in shares]
        below = value_of(profile.below_ridge())
        assert sum(found) == pytest.approx(1)
        assert found[1] == pytest.approx(below, abs=1e-6)
        assert value_of(profile.inside) == pytest.approx(1 / 1.1)


def test_one_profiled_process_does_not_decide_the_second_hypothesis(full: Findings) -> None:
    assert full.claims["memory-bound-example-2t"].verdict == "undecided"
    assert value(full, "heavy_arithmetic") > 0.5
    assert value(full, "light_traffic_time") > 0.5


def test_processes_are_the_unit_of_what_was_watched() -> None:
    """Steps of one process do not bound what another one would find."""
    made = cases(processes=MANY)
    for slow, verdict in ((1.0, "supported"), (5.0, "undecided")):
        found = found_in(STUDY, record([in_rounds(case, slow) for case in made]))
        assert value(found, "light_traffic_time") > 0.5
        assert found.claims["memory-bound-example-2t"].verdict == verdict


def in_rounds(case: Any, slow: float) -> Any:
    """A watched step in eight processes; in the last its layers take longer."""
    if case.factors.get("subject") != "profile":
        return case
    rounds = []
    for process in range(1, 9):
        times = {s.quantity: list(s.samples) for s in case.series}
        if process == 8:
            times = {
                name: [slow * t for t in found] if name.startswith("layer_") else found
                for name, found in times.items()
            }
        rounds.append(factory.round_(process, times))
    return msgspec.structs.replace(case, series=(), rounds=tuple(rounds))


# ---------------------------------------------------------------------------------------- ladder


def test_the_ladder_changes_one_thing_at_a_time() -> None:
    (run,) = runs((factory.stored(record()),))
    rungs = ladder(run, "ResNet-50")
    assert [r.name for r in rungs] == [
        "float32", "bfloat16", "channels last", "compiled", "fused update",
    ]  # fmt: skip
    names = ("precision", "layout", "execution", "optimizer")
    for before, after in pairwise(rungs):
        assert sum(getattr(before.step, n) != getattr(after.step, n) for n in names) == 1


def test_the_gain_of_the_ladder_is_a_ratio_with_its_interval(full: Findings) -> None:
    found = number(full, "heavy_gain_bfloat16")
    assert isinstance(found, Estimate)
    assert found.low <= found.value <= found.high
    assert found.value > 1.3


def test_published_anchors_become_utilisation(full: Findings) -> None:
    shares = column(full, "tbl-anchors", "Utilisation")
    assert shares[0] == pytest.approx(367 * value(full, "heavy_training") / 15.7e12)
    assert all(0.1 < share < 0.6 for share in shares)


# ---------------------------------------------------------------------------------------- memory


def test_memory_between_steps_is_the_sum_of_its_categories(full: Findings) -> None:
    assert value(full, "residual_between") == 0


def test_the_peak_beyond_theory_is_what_is_left() -> None:
    (run,) = runs((factory.stored(record()),))
    found = step_memory(run, Step("MobileNetV2", 64, 8))
    assert not isinstance(found, Missing)
    assert found.beyond == 1_000_000


def trace_of(*changes: int) -> Trace:
    """A forward pass with these events, and one more event after it."""
    end = len(changes)
    mark = Operator("ridgepoint.forward", 1, 0, end, None, None, 0, True)
    events = [MemoryEvent(i, c, True, None) for i, c in enumerate(changes)]
    return Trace((mark,), (*events, MemoryEvent(end + 1, 50, True, None)), ())


def test_what_a_trace_keeps_starts_where_gradients_are_gone() -> None:
    assert traced_kept(trace_of(100, -30, 20)) == 90
    assert traced_kept(trace_of(-500, 100, 20)) == 120


def test_a_trace_without_marks_tells_nothing() -> None:
    assert isinstance(traced_kept(Trace((), (), ())), Missing)


# ------------------------------------------------------------------------------------ the others


def test_the_prose_speaks_of_the_run_with_more_threads() -> None:
    one = record(machine=factory.environment(key="example-1t", threads=1))
    chosen = primary_run(runs(tuple(map(factory.stored, (one, record())))))
    assert chosen is not None
    assert chosen.key == "example-2t"


def test_the_prose_speaks_of_the_run_whose_steps_more_processes_profiled() -> None:
    step = Step(SMALL, 64, 2)
    watched = profile_case(step, 2)
    times = {series.quantity: list(series.samples) for series in watched.series}
    twice = msgspec.structs.replace(
        watched,
        series=(),
        rounds=tuple(factory.round_(n, times, policy="retained") for n in (1, 2)),
    )
    one_thread = factory.environment(key="example-1t", threads=1)
    records = (record([twice, case(step, 1)], machine=one_thread), record([watched, case(step, 1)]))
    profiled, threaded = runs(tuple(map(factory.stored, records)))
    assert (profiled.profiling_processes, threaded.profiling_processes) == ((2,), (1,))
    assert primary_run((threaded, profiled)) is profiled


def test_sweeps_are_plain_and_at_one_image_size() -> None:
    (run,) = runs((factory.stored(record()),))
    for network in NETWORKS:
        steps = sweep(run, network)
        assert [s.batch for s in steps] == [2, 8, 32, 128]
        assert {s.image for s in steps} == {64}


# -------------------------------------------------------------------------------- what is clear


def scaled(slower: float, of: Callable[[Step], bool]) -> training.Seconds:
    """Times of the factory, those ``of`` some steps longer by a factor."""
    return lambda step, layers: training.seconds(step, layers) * (slower if of(step) else 1.0)


def test_more_threads_are_compared_with_fewer_on_the_same_processor() -> None:
    few = record(
        cases(time=scaled(2.0, lambda step: True), processes=MANY),
        factory.environment(key="example-1t", threads=1),
        peaks=factory.ceilings(PEAK / 2, COPY),
    )
    found = found_in(STUDY, record(cases(processes=MANY)), few)
    assert number(found, "thread_product").value == pytest.approx(2)
    assert found.claims["threads"].verdict == "supported"
    assert "the matrix product becomes" in manuscript(STUDY, found)


def test_one_run_alone_has_no_fewer_threads(full: Findings) -> None:
    assert "threads" not in full.claims


def test_a_rung_whose_gain_is_not_clear_is_no_top() -> None:
    flat = scaled(1.0, lambda step: False)
    (run,) = runs((factory.stored(record(cases((SMALL,), flat))),))
    assert ladder_top(run, SMALL) is not None
    even = cases((SMALL,), lambda step, layers: 0.01 * step.batch)
    (run,) = runs((factory.stored(record(even)),))
    assert ladder_top(run, SMALL) is None


def test_a_step_that_shorter_numbers_slow_down_refutes_that_they_always_help() -> None:
    slow = scaled(3.0, lambda s: s.precision == "bfloat16" and s.layout == "contiguous")
    for processes, verdict in ((MANY, "refuted"), ((1, 2, 3), "undecided")):
        found = found_in(STUDY, record(cases((SMALL,), slow, processes)))
        claim = found.claims["shorter-example-2t"]
        assert claim.verdict == verdict


def test_a_device_without_sensors_says_why_and_has_no_table(full: Findings) -> None:
    assert "tbl-sensors" not in full.tables
    assert "The system shows no clock" in full.facts["silent"]
    assert "expose no temperature, clock or power data" in manuscript(STUDY, full)


def test_a_smallest_batch_that_takes_longer_than_the_next_is_told() -> None:
    odd = scaled(50.0, lambda step: step.batch == 2)
    (run,) = runs((factory.stored(record(cases((SMALL,), odd))),))
    assert [each["network"] for each in slow_singles(run)] == [SMALL]
    (run,) = runs((factory.stored(record()),))
    assert slow_singles(run) == []


def test_a_last_doubling_that_gains_more_than_the_first_is_told() -> None:
    (run,) = runs((factory.stored(record(cases((SMALL,)))),))
    assert by_doubling(run) == {}
    largest = sweep(run, SMALL)[-1].batch
    (run,) = runs(
        (factory.stored(record(cases((SMALL,), scaled(0.25, lambda s: s.batch == largest)))),)
    )
    rates = {
        b: b / t for b, time in times(run, SMALL).items() if isinstance(t := point(time), float)
    }
    (before, old), (after, new) = list(rates.items())[-2:]
    last = (new / old) ** (1 / math.log2(after / before))
    (_, (_, found)) = by_doubling(run).items()
    assert point(found) == pytest.approx(last, rel=5e-3)


# ---------------------------------------------------------------------------------------- on a GPU


def gpu_record(made: list[Any], **change: Any) -> Any:
    return record(made, factory.environment(key="example-gpu", gpu=factory.GPU), **change)


def ended_early(extra: Sequence[Any] = ()) -> Any:
    """A run on a GPU that ended after its first process, without ceilings after its cases."""
    first, *others = MANY[:3]
    steps = [step for step in steps_of(SMALL) if step.image == 64]
    made = [product_case("before"), *extra, *(case(step, first) for step in steps)]
    lost = {"status": "unavailable", "reason": "The run was ended before this was measured."}
    made += [case(step, p, **lost) for p in others for step in steps]
    return gpu_record(made, peaks=factory.ceilings(PEAK, COPY)[:2])


def test_a_ceiling_of_one_end_of_the_run_has_not_moved() -> None:
    found = found_in(STUDY, ended_early([profile_case(Step(SMALL, 224, 8))]))
    assert not found.facts["product_moved"] + found.facts["copy_moved"]
    assert found.facts["one_end"] == [found.facts["gpu"]["label"]]
    for table in ("tbl-batches-example-gpu", "tbl-ridges"):
        assert any("one end of the run" in note for note in found.tables[table].notes), table
    assert not any("moved by" in note for t in found.tables.values() for note in t.notes)
    paper = manuscript(STUDY, found)
    assert "changed too much on" not in paper
    assert "measured at one end of the run only" in paper


def test_a_ceiling_that_was_never_measured_marks_nothing() -> None:
    found = found_in(STUDY, gpu_record([case(Step(SMALL, 64, 2), 1)], peaks=()))
    assert not found.facts["one_end"] + found.facts["copy_moved"] + found.facts["product_moved"]


def test_one_process_decides_nothing_where_several_would() -> None:
    """Its steps reach the full level, which three processes cannot."""
    alone, several = found_in(STUDY, ended_early()), found_in(STUDY, record(cases((SMALL,))))
    for claim in ("shorter", "diminishing", "collapse"):
        assert alone.claims[f"{claim}-example-gpu"].verdict == "undecided", claim
    assert several.claims["diminishing-example-2t"].verdict == "supported"
    (run,) = runs((factory.stored(ended_early()),))
    time = estimate(run.time(Step(SMALL, 64, 2)))
    assert isinstance(time, Estimate)
    assert time.confidence == 0.95
    notes = " ".join(alone.tables["tbl-batches-example-gpu"].notes)
    assert "this process alone" in notes
    assert "decides no claim" in manuscript(STUDY, alone)
    assert not several.facts["one_process"]


def test_a_statement_of_many_processes_is_decided_beside_one_of_a_single_one() -> None:
    slow = scaled(3.0, lambda s: s.precision == "bfloat16" and s.layout == "contiguous")
    made = cases((SMALL,), slow, MANY)
    made.append(case(Step(SMALL, 128, 2), 1, slow))
    made.append(case(Step(SMALL, 128, 2, "bfloat16", "channels_last"), 1, slow))
    assert found_in(STUDY, record(made)).claims["shorter-example-2t"].verdict == "refuted"


def test_tfloat32_is_no_mixed_precision() -> None:
    plain = Step(SMALL, 64, 8)
    made = [case(s, p) for p in MANY for s in (plain, plain.with_(precision="tfloat32"))]
    found = found_in(STUDY, gpu_record(made))
    assert found.claims["shorter-example-gpu"].verdict == "not measured"


def test_a_gpu_is_compared_with_the_processor_of_most_threads_by_a_ratio() -> None:
    steps = [s for s in steps_of(SMALL) if s.image == 64]
    gpu = gpu_record([case(s, p, scaled(0.1, lambda s: True)) for s in steps for p in MANY])
    one = record(cases((SMALL,), processes=MANY), factory.environment(key="1t", threads=1))
    claim = found_in(STUDY, gpu, one, record(cases((SMALL,), processes=MANY))).claims[
        "gpu-over-cpu"
    ]
    assert claim.verdict == "supported"


def test_layers_of_a_step_that_watching_slows_have_no_shares() -> None:
    plain = Step(SMALL, 224, 8)
    quick = plain.with_(precision="bfloat16", layout="channels_last")
    made = [product_case("before"), profile_case(plain), profile_case(quick), case(plain, 1)]
    for share, shown in ((1.0, True), (0.3, False)):
        found_record = record([*made, case(quick, 1, scaled(share, lambda s: True))])
        (run,) = runs((factory.stored(found_record),))
        shares = [profile.side_share("arithmetic") for profile in profiles(run)]
        assert [share.missing is not None for share in shares] == [False, not shown]
    assert shares[1].missing is not None
    assert "times as long as unwatched" in shares[1].missing.reason


def test_a_disturbed_step_decides_nothing_about_its_layers() -> None:
    made = [
        c for n in NETWORKS for c in (profile_case(Step(n, 224, 8)), case(Step(n, 224, 8), 1, fast))
    ]
    found = found_in(STUDY, record(made))
    assert found.claims["memory-bound-example-2t"].verdict == "not measured"
    assert "fig-layers-example-2t" not in found.figures
    assert "fig-steps-example-2t" not in found.figures
    assert manuscript(STUDY, found)


def fast(step: Step, layers: Sequence[Any]) -> float:
    return 0.3 * training.seconds(step, layers)


def test_layers_above_the_roof_are_counted_and_explained() -> None:
    slow_product = factory.ceilings(PEAK / 3, COPY)
    made = [profile_case(Step(SMALL, 224, 8)), case(Step(SMALL, 224, 8), 1)]
    found = found_in(STUDY, gpu_record(made, peaks=slow_product))
    assert value(found, "gpu_above") > 0
    assert value(found, "gpu_above_rate") > PEAK / 3
    assert "no rate of executed work" in manuscript(STUDY, found)
    calm = found_in(STUDY, gpu_record(made))
    assert value(calm, "gpu_above") == 0
    assert "No layer lies above the measured" in manuscript(STUDY, calm)


def test_a_step_whose_host_hardly_waits_is_bound_by_it() -> None:
    small, large = Step(SMALL, 64, 2), Step(SMALL, 64, 128)
    made = [case(small, 1, wait_time=[1e-6] * 9), case(large, 1, wait_time=[0.05] * 9)]
    found = found_in(STUDY, gpu_record(made))
    assert value(found, "gpu_hosted") == 1
    assert "ResNet-18 at a batch of 2 in float32" in manuscript(STUDY, found)
    busy = found_in(STUDY, gpu_record(made[1:]))
    assert value(busy, "gpu_hosted") == 0
    assert "the device waits for the host" not in manuscript(STUDY, busy)


def test_a_constant_residual_of_memory_is_told_as_unexplained() -> None:
    def held(step: Step, extra: int) -> Any:
        before = categories(layers_of(SMALL, step.batch, 64), on_host=False).between_steps + extra
        return case(step, 1, requested_before=[before], requested_peak=[3 * before])

    small, large = Step(SMALL, 64, 2), Step(SMALL, 64, 8)
    constant = found_in(STUDY, gpu_record([held(small, 4096), held(large, 4096)]))
    assert value(constant, "gpu_residual") == 4096
    assert "the same at all" in manuscript(STUDY, constant)
    growing = found_in(STUDY, gpu_record([held(small, 4096), held(large, 8192)]))
    assert isinstance(number(growing, "gpu_residual"), Missing)
    assert "the same at all" not in manuscript(STUDY, growing)


def test_efficiency_on_the_ladder_is_over_the_measured_product_also_beside_a_data_sheet() -> None:
    h100 = msgspec.structs.replace(factory.GPU, model="NVIDIA H100 80GB HBM3")
    made = [product_case("before"), *(case(s, 1) for s in steps_of(SMALL) if s.image == 64)]
    machine = factory.environment(key="example-gpu", gpu=h100)
    (run,) = runs((factory.stored(record(made, machine)),))
    found = found_in(STUDY, record(made, machine))
    expected = [value_of(run.efficiency(rung.step)) for rung in ladder(run, SMALL)]
    shares = column(found, "tbl-ladder-example-gpu", "Efficiency")
    assert [share.value for share in shares] == expected
    assert expected[1] == pytest.approx(
        value_of(run.rate(ladder(run, SMALL)[1].step)) / SHORT_PEAK, rel=0.02
    )


def test_without_a_gpu_there_is_no_section_on_one(full: Findings) -> None:
    assert "On a GPU" not in manuscript(STUDY, full)
    assert "On a GPU" in manuscript(STUDY, found_in(STUDY, ended_early()))


# ------------------------------------------------------------------------------------- formulas


def test_what_is_declared_tells_how_it_was_computed() -> None:
    parts = [
        exact("a step", "s", time, "one.json") / exact("another", "s", 3) for time in (4, 2, 7)
    ]
    found = {
        "a step / another, to 2 digits": (to_digits(parts[0], 2), 1.3),
        "a step / another, to a whole number": (whole(parts[1]), 1),
        "the median of a step / another (3 times)": (median(*parts), 4 / 3),
    }
    for formula, (quantity, expected) in found.items():
        assert quantity.formula == formula
        assert quantity.sources == ("one.json",)
        assert value_of(quantity) == pytest.approx(expected)
    none = Missing("nothing was timed")
    assert to_digits(chosen(median, [], none), 2).missing == none


def test_only_settings_are_typed(full: Findings) -> None:
    typed = [v.id for v in full.values.values() if v.formula == "setting of this study"]
    chosen_ones = ["confidence", "near", "near_wide", "moved", "enough"]
    chosen_ones += ["source_batch", "few_faults"]
    assert typed == chosen_ones


# ------------------------------------------------------------------------- a roof for each cache


def known_record(fast: Callable[[Step], float] = lambda step: 1.0, **change: Any) -> Any:
    """A record that knows its instruments and caches; ``fast`` divides the time of a step."""
    machine = factory.environment(host=factory.known_host())
    made = cases((SMALL,), lambda step, layers: training.seconds(step, layers) / fast(step))
    change.setdefault("peaks", factory.known_ceilings(PEAK, COPY))
    return record(made, machine, **change)


def rooflines(found: Findings, id_: str) -> list[Roofline]:
    return [p for p in found.figures[id_].drawing.panels if isinstance(p, Roofline)]


def test_each_cache_has_a_slope_where_the_record_has_one() -> None:
    found = found_in(STUDY, known_record())
    for panel in rooflines(found, "fig-layers-example-2t"):
        assert [slope.label for slope in panel.slopes] == ["memory", "L3", "L2", "L1"]
        assert panel.span[0] < panel.roofs[0].peak.middle / panel.slopes[-1].bandwidth.middle
    assert value(found, "bandwidth_L2") == pytest.approx(2e11, rel=0.02)
    text = manuscript(STUDY, found)
    assert "best by torch.nn.Conv2d" in text
    assert "No layer lies above the slope of memory." in text


def test_an_older_record_has_the_roof_of_memory_alone(full: Findings) -> None:
    for panel in rooflines(full, "fig-layers-example-2t"):
        assert panel.slopes == ()
    assert not {id_ for id_ in full.values if id_.startswith(("bandwidth_", "steps_above"))}
    text = manuscript(STUDY, full)
    assert "slope of memory" not in text


def test_a_step_above_its_ceiling_is_told_as_an_instrument_that_fails() -> None:
    ordinary = found_in(STUDY, known_record())
    fast = found_in(STUDY, known_record(lambda step: 3.0 if step.batch == 32 else 1.0))
    assert value(ordinary, "steps_above") == 0
    assert "instruments of the ceiling fail" not in manuscript(STUDY, ordinary)
    assert value(fast, "steps_above") > 0
    assert "instruments of the ceiling fail there" in manuscript(STUDY, fast)


def test_layers_that_a_cache_fed_are_counted_under_its_slope() -> None:
    slow_memory = found_in(STUDY, known_record(peaks=factory.known_ceilings(PEAK, COPY / 3)))
    above, beyond = (value(slow_memory, f"layers_above_{n}") for n in ("memory", "caches"))
    assert above > 0 == beyond
    text = manuscript(STUDY, slow_memory)
    assert "which a cache must have fed" in text
    assert "instruments of bandwidth fail" not in text


def test_a_precision_with_a_ceiling_of_its_own_needs_no_case_for_it() -> None:
    short = msgspec.structs.replace(
        factory.known_ceilings(5 * PEAK, COPY)[1], dtype="bfloat16", moment="before"
    )
    (run,) = runs((factory.stored(known_record(peaks=(*factory.known_ceilings(), short))),))
    assert value_of(run.product("bfloat16", "before")) == pytest.approx(5 * PEAK, rel=0.02)
    assert value_of(run.product("bfloat16", "after")) == pytest.approx(SHORT_PEAK, rel=0.05)


def test_the_processes_of_both_pooled_runs_profile_a_step() -> None:
    """Counted by hand in the files of two runs of a machine, process by process."""
    files = (
        "training_roofline/20261123T223101Z-intel-xeon-emerald-rapids-1t-84557d-d5670335.json",
        "training_roofline/20261124T014801Z-intel-xeon-emerald-rapids-1t-84557d-d9ea9624.json",
    )
    counted: dict[str, list[str]] = {}
    for file in files:
        for measured in json.loads((ROOT / "data" / file).read_text())["cases"]:
            factors = measured["factors"]
            if (factors["subject"], factors.get("precision")) == ("profile", "float32"):
                kept = [r for r in measured["rounds"] if r["policy"] == "retained"]
                watched = [r for r in kept if any(s["quantity"] == "time" for s in r["series"])]
                watched = [r for r in watched if not r["disturbance"]] or watched
                counted.setdefault(factors["network"], []).extend([file] * len(watched))
    first, second = (read_record(ROOT / "data" / file, ROOT / "data") for file in files)
    run = Run(replace(first, others=(second,)), "Xeon")
    found = {profile.step.network: profile for profile in main_profiles(run)}
    assert {network: list(profile.files) for network, profile in found.items()} == counted
    for profile in found.values():
        assert len(profile.whole) == len(profile.faults) == len(profile.files)
        assert {p.run for p in profile.seconds.leaves[0].processes} <= set(files)  # type: ignore
