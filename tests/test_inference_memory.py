"""The study: predictions and choices against known answers, and what it says of what is missing."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import pytest

from figures.scaling import Scaling
from report.engine.computing import compute
from report.errors import StudyError
from report.missing import Missing
from report.paper.findings import Findings
from report.quantity.evaluation import point
from report.records.layers import Layer
from report.records.record import Case, Record
from report.studies.inference_memory.faults import pages
from report.studies.inference_memory.measured import Run, runs
from report.studies.inference_memory.peaks import at_least, parts, reconciled
from report.studies.inference_memory.rules import rule_table
from report.studies.inference_memory.source import checks
from report.studies.inference_memory.subject import LAYOUT_NAMES, RESNETS, Call
from report.studies.inference_memory.tilings import cost, groups
from report.studies.inference_memory.timing import drift, one_process
from report.studies.inference_memory.traces import kind_of, trace_name
from report.theory.shapes import parameter_count
from report.theory.work import forward_macs
from report.theory.workspaces import WORKSPACES
from tests import factory
from tests import inference as inf
from tests.degraded import committed
from tests.papers import assert_whole, found_in, inputs_of, reported, rows, value

STUDY = "inference_memory"
MIB = 2**20
SMALL = (("LeNet-5", (1, 8, 64)),)
KEY = "example-2t"
GPU_KEY = "example-100"
GPU = factory.environment(GPU_KEY, factory.GPU)


def found(*records: Record, **how: Any) -> Findings:
    return found_in(STUDY, *records, **how)


@cache
def layers(network: str, batch: int, image: int) -> tuple[Layer, ...]:
    return inf.layers_of(network, batch, image)


@cache
def full() -> Record:
    calls = inf.plan(("ResNet-20", "ResNet-110"), (1, 8, 64, 256), SMALL)
    return inf.record(inf.cases(None, calls, layers=layers))


@cache
def whole() -> Findings:
    return found(full())


def run_of(record: Record) -> Run:
    return runs(inputs_of(STUDY, record).records)[0]


def small(*extra: Case, **how: Any) -> Record:
    """One network over three batch sizes in both layouts, and ``extra``."""
    calls = [inf.call(batch=b, layout=y) for b in (1, 8, 64) for y in inf.LAYOUTS]
    return inf.record([*(inf.case(call, layers=layers, **how) for call in calls), *extra])


def verdicts(result: Findings, key: str = KEY) -> dict[str, str]:
    ending = f"-{key}"
    return {i.removesuffix(ending): c.verdict for i, c in result.claims.items() if ending in i}


def on_gpu(*calls: Call, extra: tuple[Case, ...] = (), **how: Any) -> Record:
    """A record of a GPU whose host waits for a thousandth of each call."""
    return inf.record([*(gpu_case(call, **how) for call in calls), *extra], GPU)


def gpu_case(call: Call, wait: float = 1e-3, **how: Any) -> Case:
    """One call on a GPU, with the share of it that the host waits."""
    made = inf.case(call, GPU, layers, page_faults=None, cpu_time=None, **how)
    series = [
        factory.series("wait_time", [wait * s for s in one.samples])
        for one in made.series
        if one.quantity == "time"
    ]
    kept = [s for s in made.series if not s.quantity.startswith("resident")]
    return msgspec.structs.replace(made, series=(*kept, *series))


# ----------------------------------------------------------------------------------- the whole


def test_a_whole_record_gives_a_whole_paper() -> None:
    text = assert_whole(STUDY, whole())
    assert "not measured in this edition" not in text
    missing = {i for i, v in whole().values.items() if isinstance(v.number, Missing)}
    # The allocator's events, wrong predictions and failures are told in tests of their own.
    assert missing == {
        *("block_batch", "fault_calls", "fault_near", "drift_reduced", "runs_median", "runs_most"),
        *("limited_wrong", "limited_excess", "failed_peak", "compared_new", "exact_new"),
    }


# --------------------------------------------------------------------------------------- memory


def test_peaks_that_follow_the_theory_leave_no_residual() -> None:
    result = whole()
    assert verdicts(result)["peak-theory"] == "supported"
    assert result.values["residual_share"].number == 0
    for row in rows(result, "tbl-peaks"):
        assert row["Measured"] == row["Before"] + row["Maps"] + row["Workspace"]
    assert all(row["Cases"] == row["Exact"] for row in rows(result, "tbl-agreement"))
    assert all(r.explained for r in result.reconciliations.values())


def test_a_peak_off_the_theory_is_told() -> None:
    at_64 = inf.call(batch=64)
    right = point(run_of(small()).peak(at_64))
    assert isinstance(right, float)
    more = int(right) // 20
    calls = [inf.call(batch=8), inf.call(batch=16)]
    wrong = inf.case(at_64, layers=layers, allocated_peak=[int(right) + more] * 3)
    result = found(inf.record([*(inf.case(c, layers=layers) for c in calls), wrong]))
    assert_whole(STUDY, result)
    assert verdicts(result)["peak-theory"] == "refuted"
    assert value(result, "residual_share") == pytest.approx(more / (right + more))
    assert result.values["exact_peaks"].number == 2
    this = result.reconciliations[f"peak-{KEY}-ResNet-20-64-contiguous-float32"]
    assert this.residual == more


def test_no_prediction_is_above_a_measured_peak_and_complete_ones_are_met() -> None:
    """In every precision, on every processor that was measured."""
    judged = 0
    for run in runs(committed(STUDY).records):
        for call in run.calls:
            at, size = run.predicted(call), run.fixed("allocated_peak", call.factors)
            if isinstance(at, Missing) or isinstance(size, Missing):
                continue
            judged += 1
            met = at.total <= size if at_least(run, call) else at.total == size
            assert met, (run.label, call, at.total, size)
    assert judged > 300


def test_the_parts_of_a_peak_are_all_of_it() -> None:
    run = run_of(full())
    for call in run.chosen(execution="eager"):
        at, needed = run.predicted(call), point(run.needed(call))
        assert not isinstance(at, Missing)
        assert sum(parts(at)) == at.total
        assert min(parts(at)) >= 0
        assert isinstance(needed, float) and needed <= at.total


def test_the_table_of_rules_names_every_workspace_of_a_predicted_peak() -> None:
    run = run_of(full())
    rules = rule_table(run)
    columns = [column.name for column in rules.columns]
    told = {
        (row[columns.index("Layout")], row[columns.index("Block")]): row[columns.index("Size")]
        for row in sorted(rules.rows, key=lambda row: row[columns.index("Size")])
    }
    for call in reconciled(run):
        at = run.predicted(call)
        assert not isinstance(at, Missing)
        for name in WORKSPACES:
            if at.amount(name):
                assert told[LAYOUT_NAMES[call.layout], name] >= at.amount(name)


def test_the_rule_does_not_judge_small_batches() -> None:
    wrong = inf.case(inf.call(batch=1), layers=layers, allocated_peak=[1] * 3)
    result = found(inf.record([wrong, inf.case(inf.call(batch=8), layers=layers)]))
    assert verdicts(result)["peak-theory"] == "supported"


def test_memory_that_ran_out_is_a_word() -> None:
    result = whole()
    outcomes = {
        (row["Network"], row["Setting"], row["Batch"]): (row["Outcome"], row["As predicted"])
        for row in rows(result, "tbl-limit")
    }
    plain = "contiguous, float32, eager"
    assert outcomes["ResNet-20", plain, 1024] == ("out of memory", "yes")
    assert outcomes["ResNet-20", plain, 64] == ("ran", "yes")
    assert verdicts(result)["limit-theory"] == "supported"


def test_a_limit_that_theory_does_not_foretell_is_named() -> None:
    result = found(small(inf.out_of_memory(inf.call(batch=8, memory_limit=128))))
    assert verdicts(result)["limit-theory"] == "refuted"
    assert [row["As predicted"] for row in rows(result, "tbl-limit")] == ["no"]


def test_limits_that_no_call_exceeds_decide_nothing() -> None:
    result = found(small(inf.case(inf.call(batch=8, memory_limit=128), layers=layers)))
    assert verdicts(result)["limit-theory"] == "not measured"
    assert "test one side of the limit only" in assert_whole(STUDY, result)


def test_an_unlimited_call_that_ran_out_is_named() -> None:
    result = found(small(inf.out_of_memory(inf.call(batch=512))))
    text = plain_text(assert_whole(STUDY, result))
    assert "one call on Example Processor, 2 threads, ResNet-20 at 512, ran out of memory" in text
    assert value(result, "failed_peak") > 16 * MIB


def test_predicted_lines_meet_measured_peaks_and_residuals_are_drawn_over_batches() -> None:
    peaks, residuals = whole().figures["fig-agreement"].drawing.panels
    assert isinstance(peaks, Scaling) and isinstance(residuals, Scaling)
    assert [each.label for each in peaks.points] == ["LeNet-5", "ResNet-110"]
    for measured, line in zip(peaks.points, peaks.curves, strict=True):
        assert (measured.x, measured.y) == (line.x, line.y)
    float32, *reduced = residuals.points
    assert float32.label == "float32" and set(float32.y) == {0.0}
    assert {each.label for each in reduced} <= {"bfloat16", "float16"}


def test_times_of_one_process_and_a_drift_are_told() -> None:
    run = run_of(full())
    single = point(one_process(run))
    assert single == sum(len(run.time(c).processes) == 1 for c in run.timed(run.calls))  # type: ignore[attr-defined]
    ceilings = [
        factory.ceiling("matrix_product", moment, rate)
        for moment, rate in (("before", 1e11), ("after", 2e11))
    ]
    drifted = msgspec.structs.replace(full(), ceilings=tuple(ceilings))
    assert point(drift(run_of(drifted), "float32")) == pytest.approx(2)


# ------------------------------------------------------------------------------------------ GPU


def plain_text(text: str) -> str:
    """The paper without the links of its numbers."""
    plain = re.sub(r"\[((?:\\.|[^\]\\])*)\]\(#v-[\w-]*\)\{\.value\}", r"\1", text)
    return plain.replace("\N{NO-BREAK SPACE}", " ")


def test_a_gpu_has_no_predicted_peaks_and_comes_second() -> None:
    record = on_gpu(*(inf.call(batch=b) for b in (1, 8)))
    result = found(record, small())
    assert_whole(STUDY, result)
    judged = verdicts(result, GPU_KEY)
    assert not {"peak-theory", "limit-theory", "large-blocks", "waits"} & set(judged)
    assert result.facts["primary"] == "Example Processor, 2 threads"
    assert [column.name for column in result.tables["tbl-setup"].columns[1:3]] == [
        "Example Processor, 2 threads",
        GPU.label,
    ]
    assert_whole(STUDY, found(record))


def test_a_host_that_hardly_waits_sets_the_time() -> None:
    times = {1: 1e-3, 8: 2e-3, 64: 2.5e-3}
    cases = [gpu_case(inf.call(batch=b), seconds=lambda *_, t=t: t) for b, t in times.items()]
    last = gpu_case(inf.call(batch=256), wait=0.6, seconds=lambda *_: 6e-3)
    result = found(inf.record([*cases, last], GPU), full())
    text = plain_text(assert_whole(STUDY, result))
    assert "in calls of ResNet-20 up to a batch of 64." in text
    assert "the work grows 64 times, the longest median is 2.5 times the shortest." in text
    falling = [gpu_case(inf.call(batch=b), seconds=lambda *_, t=1 / b: t) for b in (1, 8)]
    text = plain_text(assert_whole(STUDY, found(inf.record([*falling, last], GPU), full())))
    assert "a call of more images is at times the shorter one" in text
    waiting = found(inf.record([gpu_case(inf.call(batch=b), wait=0.6) for b in (1, 8)], GPU))
    assert "seems to wait for the host" not in assert_whole(STUDY, waiting)


def test_memory_that_a_gpu_keeps_is_told() -> None:
    kept = {"allocated_before": [34 * MIB] * 3, "allocated_peak": [36 * MIB] * 3}
    cases = [gpu_case(inf.call(batch=1), **kept), gpu_case(inf.call(batch=256))]
    text = plain_text(assert_whole(STUDY, found(inf.record(cases, GPU), full())))
    assert "of the 37.75 MB of ResNet-20 at a batch of 1, 34.5" in text


# ----------------------------------------------------------------------------------- networks


@pytest.mark.parametrize(
    ("network", "parameters", "macs"),
    [("ResNet-20", 269_722, 40_551_040), ("ResNet-110", 1_727_962, 252_887_680)],
)
def test_the_layers_of_these_tests_are_the_networks(
    network: str, parameters: int, macs: int
) -> None:
    here = layers(network, 1, 32)
    assert (sum(map(parameter_count, here)), forward_macs(here)) == (parameters, macs)
    (row,) = [r for r in rows(whole(), "tbl-networks") if r["Network"] == network]
    assert (row["Parameters"], row["Multiply-adds"]) == (parameters, macs)


def test_published_parameters_agree_with_the_shapes() -> None:
    table = reported(STUDY).table("networks")
    published = dict(zip(table.column("network"), table.column("parameters"), strict=True))
    for name in RESNETS:
        decimals = 1 if name == "ResNet-110" else 2
        own = sum(map(parameter_count, layers(name, 1, 32))) / 1e6
        assert round(own, decimals) == published[name]


def test_work_of_one_image_whatever_the_batch() -> None:
    result = found(inf.record([inf.case(inf.call(batch=64), layers=layers)]))
    (row,) = [r for r in rows(result, "tbl-networks") if r["Network"] == "ResNet-20"]
    assert row["Multiply-adds"] == 40_551_040


# -------------------------------------------------------------------------------- batch sizes


def test_rates_and_utilisation() -> None:
    run = run_of(small(seconds=lambda call, _: 1e-3 * call.batch))
    call = inf.call(batch=64)
    assert point(run.image_rate(call)) == pytest.approx(1000)
    assert point(run.utilisation(call)) == pytest.approx(2 * 40_551_040 * 1000 / 2e11)
    assert point(run.image_time_ratio(call, inf.call(batch=1))) == pytest.approx(1)


def test_reduced_precision_stands_under_its_own_ceiling() -> None:
    run = run_of(full())
    assert point(run.ceiling_of("bfloat16")) == pytest.approx(3e11)
    assert run.ceiling_of("float16").missing


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (lambda call, _: 1e-2 + 1e-4 * call.batch, "supported"),
        (lambda call, _: 1e-4 * call.batch, "undecided"),
        (lambda call, _: 1e-4 * call.batch**1.5, "refuted"),
    ],
    ids=["better", "same", "worse"],
)
def test_verdicts_on_the_batch_size_follow_the_times(seconds: Any, expected: str) -> None:
    assert verdicts(found(small(seconds=seconds)))["time-falls"] == expected


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({1: 0.1, 64: 0.64, 512: 5.12}, "supported"),
        ({1: 0.1, 64: 0.64, 512: 10.0}, "refuted"),
        # A knee behind the middle range: the plateau begins there.
        ({1: 0.1, 64: 0.1, 256: 0.1, 512: 0.1, 1024: 0.19}, "supported"),
        # A knee at the largest batch is none of a plateau.
        ({1: 0.1, 64: 0.1, 256: 0.1, 512: 0.1, 1024: 0.12}, "refuted"),
    ],
)
def test_a_plateau_is_a_rate_that_stays(times: dict[int, float], expected: str) -> None:
    cases = [faulting(batch, seconds, [], 0) for batch, seconds in times.items()]
    assert verdicts(found(inf.record(cases)))["use-plateau"] == expected


def test_a_peak_that_falls_refutes_that_it_grows() -> None:
    cases = [
        inf.case(inf.call(batch=b), layers=layers, allocated_peak=[size] * 3)
        for b, size in ((1, 500), (8, 400), (64, 900))
    ]
    assert verdicts(found(inf.record(cases)))["memory-monotone"] == "refuted"


def test_time_off_the_processor_is_told_of_one_thread_alone() -> None:
    calls = [inf.call(batch=8)]
    machine = factory.environment("example-1t", threads=1)
    share = {"time": [0.1] * 9, "cpu_time": [0.09] * 9}
    one, two = (
        run_of(inf.record([inf.case(c, m, layers, **share) for c in calls], m))
        for m in (machine, factory.environment())
    )
    assert point(one.off_processor(calls[0])) == pytest.approx(0.1)
    missing = two.off_processor(calls[0]).missing
    assert missing is not None and "too coarse" in missing.reason


# ---------------------------------------------------------------------------------- page faults


def faulting(batch: int, seconds: float, blocks: list[int], faults: int) -> Case:
    events = [change for block in blocks for change in (block, -block)]
    how = {"memory_events": events or [64], "page_faults": [faults] * 15}
    return inf.case(inf.call(batch=batch), layers=layers, seconds=lambda *_: seconds, **how)


def test_page_faults_follow_from_large_blocks() -> None:
    assert pages(32 * MIB) == 8193
    cases = [
        faulting(64, 0.64, [MIB] * 9, 3),
        faulting(512, 15.36, [32 * MIB] * 4 + [MIB], 4 * 8193),
        faulting(1024, 30.72, [64 * MIB] * 2 + [16 * MIB] * 7, 2 * 16385 - 10),
    ]
    result = found(inf.record(cases))
    assert_whole(STUDY, result)
    first, second = rows(result, "tbl-faults")
    assert (first["Blocks"], first["Predicted"]) == (4, 32772)
    assert first["Counted ÷ predicted"] == 1
    assert second["Counted ÷ predicted"].value == pytest.approx(32760 / 32770)
    assert first["Time of an image"].value == pytest.approx(3)
    assert result.values["block_batch"].number == 512
    assert result.values["fault_near"].number == 2
    assert value(result, "page_cost") == pytest.approx((30.72 - 10.24) / 32760)
    assert verdicts(result)["large-blocks"] == "supported"


def test_without_large_blocks_there_is_nothing_to_explain() -> None:
    result = found(small())
    assert "tbl-faults" not in result.tables
    assert verdicts(result)["large-blocks"] == "not measured"


# ---------------------------------------------------------------------- precision and layout


def test_precision_is_paired_with_float32() -> None:
    result = whole()
    table = rows(result, "tbl-precision")
    assert {row["Precision"] for row in table} == {"bfloat16", "float16"}
    assert table[0]["Time"].value == pytest.approx(0.6 * table[0]["Time in float32"].value)
    # At a batch of one image it takes more memory, not less.
    assert table[0]["Saved"] < 0
    assert verdicts(result)["half-memory"] == "refuted"
    assert verdicts(result)["half-grows"] == "supported"
    assert verdicts(result)["half-time"] == "refuted"


def test_accuracy_and_loss_are_paired_over_images() -> None:
    (base, half, missing) = rows(whole(), "tbl-accuracy")
    assert base["Accuracy"] == half["Accuracy"] == 0.75
    assert half["Change of accuracy"].value == 0
    assert half["Change of loss"].value == pytest.approx(-0.0225)
    assert isinstance(missing["Accuracy"], Missing)
    # A hundred images cannot tell whether one in a hundred is lost.
    assert (verdicts(whole())["accuracy"], verdicts(whole())["loss"]) == ("undecided", "supported")


@pytest.mark.parametrize(("lost", "verdict"), [(0, "supported"), (1, "undecided"), (30, "refuted")])
def test_one_image_does_not_decide_about_the_accuracy(lost: int, verdict: str) -> None:
    cases = [
        inf.accuracy("float32", [0.1, 0.2] * 180, [1] * 360),
        inf.accuracy("bfloat16", [0.1, 0.2] * 180, [0] * lost + [1] * (360 - lost)),
    ]
    assert verdicts(found(small(*cases)))["accuracy"] == verdict


def test_both_settings_save_what_theory_says_and_more() -> None:
    result = whole()
    for row in rows(result, "tbl-amp"):
        assert row["Saved, theory"] < 0.5
        assert row["Saved, both"] > row["Saved, AMP"] > row["Saved, layout"] > 0
        assert row["Time, both"].value == pytest.approx(0.48 * row["Base time"].value)
    assert verdicts(result)["amc-time"] == "refuted"


# --------------------------------------------------------------------------------------- tiles


def test_layers_that_go_through_patches_together() -> None:
    here = layers("ResNet-20", 8, 224)
    assert len(groups(here, "tiled_layers")) == 19
    blocks = groups(here, "tiled_blocks")
    assert len(blocks) == 10
    assert [layer.name for layer in blocks[0]] == ["conv", "bn", "relu"]
    stages = groups(here, "tiled_stages")
    assert len(stages) == 3
    assert (stages[0][0].name, stages[0][-1].name) == ("conv", "stage1_block3.relu2")
    tiled = {layer.name for group in stages for layer in group}
    assert tiled == {layer.name for layer in here} - {"pool", "flatten", "fc"}


def test_halos_cost_more_in_smaller_tiles_and_larger_groups() -> None:
    here = layers("ResNet-20", 8, 224)
    alive = run_of(full()).held(Call("ResNet-20", 224, 8))
    assert not isinstance(alive, Missing)
    work = {
        (form, tile): cost(here, form, tile, alive).work  # type: ignore[arg-type]
        for form in ("tiled_layers", "tiled_blocks", "tiled_stages")
        for tile in (8, 32, 224)
    }
    assert {work["tiled_layers", tile] for tile in (8, 32, 224)} == {1}
    for form in ("tiled_blocks", "tiled_stages"):
        assert work[form, 8] > work[form, 32] > work[form, 224] == 1
    assert work["tiled_stages", 8] > work["tiled_blocks", 8]


def test_tiles_are_judged_against_whole_maps() -> None:
    result = whole()
    judged = verdicts(result)
    assert (judged["tile-time"], judged["tile-pays"]) == ("supported", "refuted")
    base, *tiles = rows(result, "tbl-tiling")
    assert base["Patches through"] == "whole maps"
    assert len(tiles) == 12
    assert all(row["Time"].low > base["Time"].high for row in tiles)
    assert all(row["Work"] == 1 for row in tiles if row["Patches through"] == "each layer")


# ------------------------------------------------------------------------------------- choices


def test_a_published_speedup_has_a_base_that_no_run_has() -> None:
    calls = [inf.call("LeNet-5", 64, layout=layout) for layout in inf.LAYOUTS]
    cpu = inf.record([inf.case(call, layers=layers) for call in calls])
    result = found(on_gpu(*calls), cpu)
    assert verdicts(result, GPU_KEY)["published"] == "not comparable"
    assert verdicts(result)["published"] == "not comparable"


def test_a_best_setting_is_not_looked_for_among_few() -> None:
    calls = [inf.call(n, 64, layout=y) for n in ("LeNet-5", "ResNet-20") for y in inf.LAYOUTS]
    cases = [inf.case(call, layers=layers) for call in calls]
    tried = [{"precision": "bfloat16"}, {"execution": "compiled"}]
    more = [inf.case(inf.call("LeNet-5", 64, **how), layers=layers) for how in tried]
    few, enough = found(inf.record(cases)), found(inf.record([*cases, *more]))
    assert verdicts(few)["no-one-wins"] == "not measured"
    assert verdicts(enough)["no-one-wins"] in ("supported", "refuted", "undecided")


# -------------------------------------------------------------------------------------- traces


def trace(*operators: tuple[str, float]) -> bytes:
    """A trace of operators one after another; durations in µs."""
    events, start = [], 0.0
    for name, duration in operators:
        events.append(
            {"ph": "X", "cat": "cpu_op", "name": name, "tid": 1, "ts": start, "dur": duration}
        )
        start += duration + 1
    return gzip.compress(json.dumps({"traceEvents": events}).encode(), mtime=0)


def test_time_by_kind_of_operator() -> None:
    name = trace_name(inf.call(batch=64))
    assert name == "trace.resnet-20-64-contiguous.json.gz"
    assert trace_name(inf.call(layout="channels_last")).endswith("-channels-last.json.gz")
    content = trace(("aten::conv2d", 60), ("aten::batch_norm", 30), ("aten::relu", 10))
    result = found(small(), files={name: content})
    assert_whole(STUDY, result)
    (row,) = rows(result, "tbl-operators")
    assert (row["Convolution"], row["Batch norm"], row["Activation"]) == (0.6, 0.3, 0.1)
    assert row["Operators"] == pytest.approx(1e-4)
    assert result.downloads[name].content == content


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("aten::conv2d", "Convolution"),
        ("aten::tanh", "Activation"),
        ("aten::adaptive_avg_pool2d", "Pooling"),
        ("aten::add", "Addition"),
        ("aten::linear", "Linear"),
        ("aten::pad", "Other"),
        ("aten::flatten", "Other"),
    ],
)
def test_kinds_of_operators(operator: str, kind: str) -> None:
    assert kind_of(operator) == kind


# -------------------------------------------------------------------------------------- source


def test_the_audit_of_the_source() -> None:
    found_ = [check.verdict for check in checks(reported(STUDY))]
    assert found_ == ["agrees", "differs", "differs", "differs"]


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tile": 8}, "a tile belongs to a tiled execution"),
        ({"colour": "red"}, "expected network, image, batch"),
    ],
)
def test_foreign_factors_are_refused(change: dict[str, Any], words: str) -> None:
    case = inf.case(inf.call(batch=8), layers=layers)
    strange = msgspec.structs.replace(case, factors={**case.factors, **change})
    with pytest.raises(StudyError, match=re.escape(words)) as caught:
        found(inf.record([strange]))
    assert str(caught.value).startswith("data/inference_memory/")
    assert str(caught.value).endswith("run the experiment of this version again.")


# ------------------------------------------------------------------------------ rates of others


def test_imported_rates_judge_layout_and_not_what_the_source_compares() -> None:
    theirs = committed(STUDY).imported
    result = compute(STUDY, replace(inputs_of(STUDY, full()), imported=theirs))
    assert_whole(STUDY, result)
    judged = verdicts(result, "imported")
    assert judged == {
        "last-pays": "supported",
        "compiled-pays": "supported",
        "half-time": "not measured",
        "amc-time": "not comparable",
        "amc-memory": "not measured",
    }
    # VGG-16 at 224 pixels and a batch of 1,024, as a reader finds it in the files.
    old, later, compiled = rows(result, "tbl-rates")
    assert old["VGG-16"] == pytest.approx(1717.44 / 1475.59, rel=5e-3)
    assert later["VGG-16"] == pytest.approx(1729.39 / 1021.7, rel=5e-3)
    assert compiled["VGG-16"] == pytest.approx(3852.37 / 2235.61, rel=5e-3)
    for row in (old, later, compiled):
        assert row["5 %"] < row["25 %"] < row["Median"].value < row["75 %"] < row["95 %"]
    plain, last = (value(result, f"rates_version_{name}_vgg") for name in ("plain", "last"))
    assert later["VGG-16"] / old["VGG-16"] == pytest.approx(last / plain, rel=1e-2)
