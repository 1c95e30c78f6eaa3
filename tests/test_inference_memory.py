"""The study: predictions and choices against known answers, and what it says of what is missing."""

from __future__ import annotations

import gzip
import json
import re
import statistics
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import pytest

from figures.scaling import Scaling
from report.errors import StudyError
from report.missing import Missing
from report.paper.findings import Findings
from report.quantity.evaluation import estimate
from report.quantity.expression import exact
from report.records.layers import Layer
from report.records.record import Case, Record, Series
from report.statistics.estimates import Estimate
from report.studies.inference_memory.batches import knee
from report.studies.inference_memory.choices import decision
from report.studies.inference_memory.faults import pages
from report.studies.inference_memory.measured import centre, runs
from report.studies.inference_memory.memory import parts
from report.studies.inference_memory.operators import kind_of, trace_name
from report.studies.inference_memory.processor import clock_step, off_processor
from report.studies.inference_memory.source import checks
from report.studies.inference_memory.subject import RESNETS, Call
from report.studies.inference_memory.tilings import cost, groups
from report.theory.shapes import parameter_count
from report.theory.work import forward_macs
from tests import factory
from tests import inference as inf
from tests.papers import assert_whole, found_in, inputs_of, reported, rows

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


def small(*extra: Case, **how: Any) -> Record:
    """One network over three batch sizes in both layouts, and ``extra``."""
    calls = [inf.call(batch=b, layout=y) for b in (1, 8, 64) for y in inf.LAYOUTS]
    return inf.record([*(inf.case(call, layers=layers, **how) for call in calls), *extra])


def verdicts(result: Findings, key: str = KEY) -> dict[str, str]:
    ending = f"-{key}"
    return {i.removesuffix(ending): c.verdict for i, c in result.claims.items() if ending in i}


def on_gpu(*calls: Call, extra: tuple[Case, ...] = (), **how: Any) -> Record:
    """A record of a GPU whose host waits for a thousandth of each call."""
    made = [gpu_case(call, **how) for call in calls]
    return inf.record([*made, *extra], GPU)


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


def scattering(record: Record, factor: float) -> Record:
    """The same record with ``factor`` times the scatter of all times around their medians.

    Without processor times, which have no scatter of their own here.
    """

    def wider(series: Series) -> Series:
        if series.quantity != "time":
            return series
        middle = statistics.median(series.samples)
        samples = tuple(max(middle + factor * (s - middle), middle / 99) for s in series.samples)
        return msgspec.structs.replace(series, samples=samples)

    cases = tuple(
        msgspec.structs.replace(
            case, series=tuple(wider(s) for s in case.series if s.quantity != "cpu_time")
        )
        for case in record.cases
    )
    return msgspec.structs.replace(record, cases=cases)


@pytest.mark.parametrize("factor", [2, 8, 40])
def test_noise_only_ever_leaves_a_verdict_undecided(factor: float) -> None:
    calm, noisy = (verdicts(found(scattering(full(), f))) for f in (1, factor))
    assert {id_: v for id_, v in noisy.items() if v not in (calm[id_], "undecided")} == {}
    assert factor < 40 or noisy["time-falls"] == "undecided" != calm["time-falls"]


# ----------------------------------------------------------------------------------- the whole


def test_a_whole_record_gives_a_whole_paper() -> None:
    text = assert_whole(STUDY, whole())
    assert "not measured in this edition" not in text
    missing = {i for i, v in whole().values.items() if isinstance(v.number, Missing)}
    # The allocator's events and memory policies are told in tests of their own.
    events = {"block_batch", "fault_calls", "fault_exact", "fault_near", "fault_off"}
    assert missing == events | {"policy_gain", "policy_batch", "policy_lost", "mapping_time"}


def test_without_records_nothing_is_measured() -> None:
    result = found()
    assert {claim.verdict for claim in result.claims.values()} == {"not measured"}
    assert not result.figures


# --------------------------------------------------------------------------------------- memory


def test_peaks_that_follow_the_theory_leave_no_residual() -> None:
    result = whole()
    assert verdicts(result)["peak-theory"] == "supported"
    assert result.values["residual_peak"].number == 0
    assert result.values["residual_share"].number == 0
    assert {row["Residual"] for row in rows(result, "tbl-peaks")} == {0}
    assert all(row["Cases"] == row["Exact"] for row in rows(result, "tbl-agreement"))
    assert all(r.explained for r in result.reconciliations.values())


def test_a_peak_off_the_theory_is_told() -> None:
    at_64 = inf.call(batch=64)
    right = int(centre(runs(inputs_of(STUDY, small()).records)[0].peak(at_64)))
    calls = [inf.call(batch=8), inf.call(batch=16)]
    wrong = inf.case(at_64, layers=layers, allocated_peak=[right + right // 20] * 3)
    record = inf.record([*(inf.case(c, layers=layers) for c in calls), wrong])
    result = found(record)
    assert_whole(STUDY, result)
    assert verdicts(result)["peak-theory"] == "refuted"
    assert result.values["residual_peak"].number == right // 20
    assert result.values["exact_peaks"].number == 2
    this = result.reconciliations[f"peak-{KEY}-ResNet-20-64-contiguous-float32"]
    assert this.residual == right // 20


def test_the_parts_of_a_peak_are_all_of_it() -> None:
    run = runs(inputs_of(STUDY, full()).records)[0]
    for call in run.chosen(execution="eager"):
        at = run.predicted(call)
        assert not isinstance(at, Missing)
        assert sum(parts(at)) == at.total
        assert min(parts(at)) >= 0
        assert centre(run.needed(call)) <= at.total


def test_the_rule_does_not_judge_small_batches() -> None:
    wrong = inf.case(inf.call(batch=1), layers=layers, allocated_peak=[1] * 3)
    result = found(inf.record([wrong, inf.case(inf.call(batch=8), layers=layers)]))
    assert verdicts(result)["peak-theory"] == "supported"


def test_memory_that_ran_out_is_a_dash_and_a_cross() -> None:
    result = whole()
    limited, reduced = (r for r in rows(result, "tbl-limit") if r["Network"] == "ResNet-20")
    assert isinstance(limited["Batch 1,024"], Missing)
    assert "out of memory" in limited["Batch 1,024"].reason
    assert isinstance(limited["Batch 64"], int)
    assert isinstance(reduced["Batch 1,024"], int)
    panel, _ = result.figures["fig-limit"].drawing.panels
    assert isinstance(panel, Scaling)
    assert [absent.x for absent in panel.absent] == [(1024.0,)]
    assert all(1024.0 not in p.x for p in panel.points if p.label == "ResNet-20")
    assert verdicts(result)["limit-theory"] == "supported"


def test_a_limit_that_theory_does_not_foretell_is_named() -> None:
    fits = inf.call(batch=8)
    cases = [inf.case(fits, layers=layers), inf.out_of_memory(replace(fits, memory_limit=128))]
    result = found(inf.record(cases))
    assert verdicts(result)["limit-theory"] == "refuted"
    assert "not of ResNet-20 at batch 8" in result.claims[f"limit-theory-{KEY}"].because


def test_bytes_of_a_reason_are_grouped() -> None:
    failed = inf.out_of_memory(inf.call(batch=512))
    reason = "Memory ran out when 8220835840 B more were asked for."
    result = found(small(msgspec.structs.replace(failed, reason=reason)))
    assert "8,220,835,840 B" in rows(result, "tbl-failures")[0]["Outcome"]


def test_an_unlimited_call_that_ran_out_is_listed() -> None:
    result = found(small(inf.out_of_memory(inf.call(batch=512))))
    assert_whole(STUDY, result)
    (row,) = rows(result, "tbl-failures")
    assert row["Batch"] == 512
    assert row["Outcome"].startswith("Memory ran out")
    assert row["Memory"] == 16 * 2**30
    assert row["Predicted peak"] > 16 * MIB
    (panel,) = result.figures["fig-limit"].drawing.panels
    assert isinstance(panel, Scaling)
    assert panel.absent[0].x == (512.0,)
    assert panel.points[0].x == (1, 8, 64)
    assert panel.bands[0].middle == pytest.approx(16 * 2**30 / 1e6)
    left, _ = result.figures["fig-memory"].drawing.panels
    assert isinstance(left, Scaling)
    assert left.absent[0].x == (512.0,)


def test_a_gpu_has_no_predicted_peaks() -> None:
    machine = factory.environment("example-100", factory.GPU)
    record = inf.record(
        [inf.case(inf.call(batch=b), machine, layers, wait_time=[1e-4] * 15) for b in (1, 8)],
        machine,
    )
    result = found(record, small())
    assert_whole(STUDY, result)
    assert verdicts(result, "example-100")["peak-theory"] == "not measured"
    assert rows(result, "tbl-waits-example-100")[0]["Host waits"].value == pytest.approx(1e-4)
    assert result.facts["primary"] == "Example Processor, 2 threads"
    assert_whole(STUDY, found(record))


# ------------------------------------------------------------------------------- other devices


def paper_of(gpu: Record, cpu: Record | None = None) -> str:
    """The part of the paper on other devices, without the links of its numbers."""
    text = assert_whole(STUDY, found(gpu, cpu or full()))
    part = text[text.index("## Other devices") : text.index("# Where the numbers come from")]
    plain = re.sub(r"\[((?:\\.|[^\]\\])*)\]\(#v-[\w-]*\)\{\.value\}", r"\1", part)
    return plain.replace("\N{NO-BREAK SPACE}", " ")


def test_the_run_that_the_prose_speaks_of_comes_first() -> None:
    result = found(on_gpu(inf.call(batch=8)), small())
    keys = [id_.rpartition("peak-theory-")[2] for id_ in result.claims if "peak-theory" in id_]
    assert keys == [KEY, GPU_KEY]
    assert result.facts["claim_tables"][0] == f"tbl-claims-{KEY}"
    assert [column.name for column in result.tables["tbl-setup"].columns[1:3]] == [
        "Example Processor, 2 threads",
        GPU.label,
    ]


def test_what_another_device_ran_is_told() -> None:
    calls = [inf.call(batch=b) for b in (1, 8)] + [inf.call("LeNet-5", 8)]
    gpu = on_gpu(*calls)
    text = paper_of(gpu)
    assert "a part of the calls ran, 3 by a full plan: those of `LeNet-5` and `ResNet-20`" in text
    assert "There is no call of `ResNet-110` or `AlexNet`." in text
    assert "No call ran in reduced precision, on a trained network," in text
    assert "the same calls ran" not in text
    again = [inf.call(batch=b, layout=y) for b in (1, 8, 64) for y in inf.LAYOUTS]
    assert "the same calls ran" in paper_of(on_gpu(*again), small())


def test_another_processor_is_told_of_without_what_a_gpu_is_asked() -> None:
    other = factory.environment("example-1t", threads=1)
    calls = [inf.call(batch=b) for b in (1, 8)]
    # The first of two runs on processors is the one that the prose speaks of.
    text = paper_of(small(), inf.record([inf.case(c, other, layers) for c in calls], other))
    assert "@tbl-waits-example-1t shows what the system does meanwhile" in text
    assert "*Who waits for whom?*" not in text


def test_a_network_of_which_only_memory_was_measured_is_named() -> None:
    bare = gpu_case(inf.call("LeNet-5", 8), time=[], wait=0)
    text = paper_of(on_gpu(inf.call(batch=1), inf.call(batch=8), extra=(bare,)))
    assert "Of `LeNet-5` only memory was measured." in text


def test_a_host_that_hardly_waits_sets_the_time() -> None:
    def record(first: float, *, wait: float) -> Record:
        times = {1: first, 8: 2e-3, 64: 2.5e-3}
        cases = [gpu_case(inf.call(batch=b), seconds=lambda *_, t=t: t) for b, t in times.items()]
        last = gpu_case(inf.call(batch=256), wait=wait, seconds=lambda *_: 6e-3)
        return inf.record([*cases, last], GPU)

    text = paper_of(record(3.5e-3, wait=0.6))
    assert "So it is for `ResNet-20` up to a batch of 64." in text
    assert "the work grows 64 times, while the longest median is 1.75 times the shortest" in text
    assert "One image even takes longer than 8: 3.5" in text
    assert "does not rest on that" in text
    always = paper_of(record(1e-3, wait=0.01))
    assert "So it is for `ResNet-20` at every batch size." in always
    assert "One image even" not in always
    cases = [gpu_case(inf.call(batch=b), wait=0.6) for b in (1, 8)]
    assert "the device waits for the host" not in paper_of(inf.record(cases, GPU))


def test_memory_that_only_a_gpu_takes_is_told() -> None:
    def case(batch: int, layout: str, peak: int, block: int, **how: Any) -> Case:
        call = inf.call(batch=batch, layout=layout)
        series = {"allocated_before": [34 * MIB] * 3, "allocated_peak": [peak * MIB] * 3}
        return gpu_case(call, memory_events=[block * MIB, -block * MIB], **series, **how)

    def record(slow: float, drop: int) -> Record:
        return inf.record(
            [
                case(1, "contiguous", 36, 1),
                case(64, "contiguous", 152, 80),
                case(256, "contiguous", drop, 33),
                case(256, "channels_last", 946, 696, seconds=lambda *_: slow),
            ],
            GPU,
        )

    text = paper_of(record(9.0, 142))
    assert "of the 37.75 MB of `ResNet-20` at a batch of 1, 34.5" in text
    assert "The channels-last layout costs time and memory: at a batch of 256" in text
    assert "The largest block that it asks for has 729.8 MB instead of 34.6 MB." in text
    assert "falls from 159.4 MB at a batch of 64 to 148.9 MB at 256" in text
    otherwise = paper_of(record(1e-6, 200))
    assert "costs time and memory" not in otherwise
    assert "A larger batch can also take less" not in otherwise


def test_tiles_on_a_gpu_are_set_against_its_own_whole_maps() -> None:
    whole_maps = Call("ResNet-20", 224, 8)
    tiled = [replace(whole_maps, execution="tiled_blocks", tile=t) for t in (8, 64)]

    def seconds(call: Call, _: object) -> float:
        return {None: 1e-3, 8: 0.7, 64: 0.012}[call.tile]

    calls = [inf.call(batch=b) for b in (1, 8)]
    cases = tuple(gpu_case(call, seconds=seconds) for call in (whole_maps, *tiled))
    text = paper_of(on_gpu(*calls, extra=cases))
    assert "tiles take from 12.00 to 700 times as long, in up to 3,871 pieces." in text
    assert "it is the device that waits" in text


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
    published = dict(
        zip(
            reported(STUDY).table("networks").column("network"),
            reported(STUDY).table("networks").column("parameters"),
            strict=True,
        )
    )
    for name in RESNETS:
        decimals = 1 if name == "ResNet-110" else 2
        own = sum(map(parameter_count, layers(name, 1, 32))) / 1e6
        assert round(own, decimals) == published[name]


def test_work_of_one_image_whatever_the_batch() -> None:
    result = found(inf.record([inf.case(inf.call(batch=64), layers=layers)]))
    (row,) = [r for r in rows(result, "tbl-networks") if r["Network"] == "ResNet-20"]
    assert row["Multiply-adds"] == 40_551_040


# -------------------------------------------------------------------------------- batch sizes


def test_the_knee() -> None:
    rates = {1: 10.0, 2: 19.0, 4: 36.0, 8: 40.0, 16: 39.0}
    assert knee({b: exact("rate", "image/s", rate) for b, rate in rates.items()}) == 4
    assert knee({1: exact("rate", "image/s", 5)}) == 1
    assert knee({b: exact("rate", "image/s", rate) for b, rate in ((1, 9), (2, 10))}) == 1


def test_rates_and_utilisation() -> None:
    run = runs(inputs_of(STUDY, small(seconds=lambda call, _: 1e-3 * call.batch)).records)[0]
    call = inf.call(batch=64)
    rate, use = run.image_rate(call), run.utilisation(call)
    assert centre(rate) == pytest.approx(1000)
    assert centre(use) == pytest.approx(2 * 40_551_040 * 1000 / 2e11)
    assert centre(run.image_time_ratio(call, inf.call(batch=1))) == pytest.approx(1)


def test_reduced_precision_stands_under_its_own_ceiling() -> None:
    run = runs(inputs_of(STUDY, full()).records)[0]
    assert centre(run.ceiling_of("bfloat16")) == pytest.approx(3e11)
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


def test_a_rate_that_falls_behind_the_knee_is_no_plateau() -> None:
    def cases(last: float) -> list[Case]:
        return [faulting(b, s, [], 0) for b, s in ((1, 0.1), (64, 0.64), (512, last))]

    level, fallen = (found(inf.record(cases(last))) for last in (5.12, 10.0))
    assert verdicts(level)["use-plateau"] == "supported"
    assert verdicts(fallen)["use-plateau"] == "refuted"
    assert "knees: ResNet-20 64" in fallen.claims[f"use-plateau-{KEY}"].because


def test_a_plateau_begins_at_the_knee_where_that_lies_behind_the_middle_range() -> None:
    def cases(last: float) -> list[Case]:
        times = ((1, 0.1), (64, 0.1), (256, 0.1), (512, 0.1), (1024, last))
        return [faulting(b, s, [], 0) for b, s in times]

    level, rising = (found(inf.record(cases(last))) for last in (0.19, 0.12))
    assert verdicts(level)["use-plateau"] == "supported"
    because = level.claims[f"use-plateau-{KEY}"].because
    assert because.startswith("rate at batch 1,024 over that at batch 512")
    assert because.endswith("knees: ResNet-20 512")
    # A knee at the largest batch is none of a plateau.
    assert verdicts(rising)["use-plateau"] == "refuted"
    assert "knees: ResNet-20 1,024" in rising.claims[f"use-plateau-{KEY}"].because


def test_of_how_many_ratios_lie_on_which_side_is_told_in_words() -> None:
    because = found(small(seconds=lambda *_: 1e-2)).claims[f"time-falls-{KEY}"].because
    assert because.endswith("; 1 of 1 clearly below 1, 0 clearly above")


def test_a_peak_alone_is_a_note_and_no_row() -> None:
    def asked(**series: Any) -> Findings:
        silent = {"time": [], "cpu_time": None, "page_faults": None}
        return found(small(inf.case(inf.call("LeNet-5", 8), layers=layers, **silent, **series)))

    bare = asked(resident_peak=None, resident_before=None)
    table = bare.tables[f"tbl-batches-{KEY}"]
    assert {row[0] for row in table.rows} == {"ResNet-20"}
    assert table.notes[0].startswith("Peaks alone: LeNet-5 at batch 8, ")
    known = asked().tables[f"tbl-batches-{KEY}"]
    assert (known.notes, {row[0] for row in known.rows}) == ((), {"LeNet-5", "ResNet-20"})


def test_a_peak_that_falls_is_told_with_its_step() -> None:
    cases = [
        inf.case(inf.call(batch=b), layers=layers, allocated_peak=[size] * 3)
        for b, size in ((1, 500), (8, 400), (64, 900))
    ]
    result = found(inf.record(cases))
    assert verdicts(result)["memory-monotone"] == "refuted"
    assert "from batch 1 to 8" in result.claims[f"memory-monotone-{KEY}"].because


def waiting(time: list[float], busy: list[float], *others: Case) -> Estimate | Missing:
    """The share of time off the processor of a call on two threads; ``others`` are in the run."""
    case = inf.case(inf.call(batch=8), layers=layers, time=time, cpu_time=busy)
    run = runs(inputs_of(STUDY, inf.record([case, *others])).records)[0]
    return estimate(off_processor(run, inf.call(batch=8)))


def test_time_off_the_processor() -> None:
    run = runs(inputs_of(STUDY, small()).records)[0]
    assert clock_step(run) == 0
    assert centre(off_processor(run, inf.call(batch=8))) == pytest.approx(0.05)


def test_processor_time_that_comes_in_steps_is_summed_before_it_is_shared() -> None:
    # Every second call of 3 ms is given the 4 ms of a tick, the others none: no thread ever waits,
    # and the shares of single calls are −1/6 and 1/2.
    steps = [0.007, 0.003, 0.003, 0.007] * 25
    share = waiting([0.0025] * 100, steps)
    assert isinstance(share, Estimate)
    assert share.value == pytest.approx(0)
    assert share.low < 0 < share.high


def test_shares_that_the_clock_cannot_tell_are_missing() -> None:
    assert isinstance(waiting([0.1] * 9, [0.18] * 9), Estimate)
    coarse = inf.case(inf.call(batch=1), layers=layers, time=[0.001] * 9, cpu_time=[0.022] * 9)
    found = waiting([0.1] * 9, [0.18] * 9, coarse)
    assert isinstance(found, Missing)
    assert "1 % of the threads' time" in found.reason
    assert "not recorded" in str(waiting([0.1] * 9, []))


def test_more_processor_time_than_there_is_is_no_share() -> None:
    found = waiting([10.0] * 9, [20.01] * 9)
    assert isinstance(found, Missing)
    assert "more processor time" in found.reason


# ---------------------------------------------------------------------------------- page faults


def faulting(batch: int, seconds: float, blocks: list[int], faults: int) -> Case:
    events = [change for block in blocks for change in (block, -block)]
    n = 15
    how = {"memory_events": events or [64], "page_faults": [faults] * n}
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
    assert (first["Blocks"], first["Predicted"], first["Counted"]) == (4, 32772, 32772)
    assert first["Counted ÷ predicted"] == 1
    assert second["Counted ÷ predicted"] == pytest.approx(32760 / 32770)
    assert first["Time of an image"].value == pytest.approx(3)
    assert result.values["block_batch"].number == 512
    assert result.values["fault_exact"].number == 1
    assert result.values["fault_near"].number == 2
    assert result.values["fault_off"].number == 10
    because = result.claims[f"large-blocks-{KEY}"].because
    assert "within 0.1 % in 2 of 2 calls, to the unit in 1" in because.replace(
        "\N{NO-BREAK SPACE}", " "
    )
    cost = result.values["page_cost"].number
    assert isinstance(cost, Estimate)
    assert cost.value == pytest.approx((30.72 - 10.24) / 32760)
    assert cost.low < cost.value < cost.high
    assert verdicts(result)["large-blocks"] == "supported"


def test_a_gpu_is_not_asked_for_page_faults() -> None:
    blocks = {8: [64], 64: [64], 512: [64 * MIB, -64 * MIB]}
    calls = [gpu_case(inf.call(batch=b), memory_events=block) for b, block in blocks.items()]
    result = found(inf.record(calls, GPU), small())
    assert verdicts(result, GPU_KEY)["large-blocks"] == "not comparable"
    assert "0 of 0" not in result.claims[f"large-blocks-{GPU_KEY}"].because


def test_page_faults_that_were_not_counted_are_not_compared() -> None:
    def case(batch: int, seconds: float, blocks: list[int]) -> Case:
        made = faulting(batch, seconds, blocks, 0)
        kept = tuple(s for s in made.series if s.quantity != "page_faults")
        return msgspec.structs.replace(made, series=kept)

    result = found(inf.record([case(64, 0.64, []), case(512, 15.36, [32 * MIB])]))
    assert verdicts(result)["large-blocks"] == "supported"
    because = result.claims[f"large-blocks-{KEY}"].because
    assert because.endswith("page faults were not counted")


def test_without_large_blocks_there_is_nothing_to_explain() -> None:
    result = found(small())
    assert "tbl-faults" not in result.tables
    assert verdicts(result)["large-blocks"] == "not measured"


def test_a_slow_large_batch_without_large_blocks_is_said_to_be_unexplained() -> None:
    slow = {1: 0.01, 64: 0.64, 512: 20.0}
    cases = [faulting(batch, seconds, [], 0) for batch, seconds in slow.items()]
    assert "has no explanation for it" in assert_whole(STUDY, found(inf.record(cases)))


# ---------------------------------------------------------------------- precision and layout


def test_precision_is_paired_with_float32() -> None:
    result = whole()
    table = rows(result, "tbl-precision")
    assert {row["Precision"] for row in table} == {"bfloat16", "float16"}
    assert table[0]["Time ratio"].value == pytest.approx(0.6)
    # At a batch of one image it takes more memory, not less.
    assert table[0]["Saved"] < 0
    assert verdicts(result)["half-memory"] == "refuted"
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


def test_lost_accuracy_is_told() -> None:
    right, wrong = [1] * 100, [1] * 60 + [0] * 40
    cases = [
        inf.accuracy("float32", [0.1, 0.2] * 50, right),
        inf.accuracy("bfloat16", [0.9, 1.1] * 50, wrong),
    ]
    judged = verdicts(found(small(*cases)))
    assert (judged["accuracy"], judged["loss"]) == ("refuted", "refuted")


def test_both_settings_save_what_theory_says_and_more() -> None:
    result = whole()
    for row in rows(result, "tbl-amp"):
        assert row["Saved, theory"] < 0.5
        assert row["Saved, both"] > row["Saved, AMP"] > row["Saved, layout"] > 0
        assert row["Time, both"].value == pytest.approx(0.48)
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
    assert stages[0][0].name == "conv"
    assert stages[0][-1].name == "stage1_block3.relu2"
    tiled = {layer.name for group in stages for layer in group}
    assert tiled == {layer.name for layer in here} - {"pool", "flatten", "fc"}


def test_halos_cost_more_in_smaller_tiles_and_larger_groups() -> None:
    here = layers("ResNet-20", 8, 224)
    run = runs(inputs_of(STUDY, full()).records)[0]
    alive = run.held(Call("ResNet-20", 224, 8))
    assert not isinstance(alive, Missing)
    factor = {
        (form, tile): (c := cost(here, form, tile, alive)).macs / c.macs_untiled  # type: ignore[arg-type]
        for form in ("tiled_layers", "tiled_blocks", "tiled_stages")
        for tile in (8, 32, 224)
    }
    assert {factor["tiled_layers", tile] for tile in (8, 32, 224)} == {1}
    for form in ("tiled_blocks", "tiled_stages"):
        assert factor[form, 8] > factor[form, 32] > factor[form, 224] == 1
    assert factor["tiled_stages", 8] > factor["tiled_blocks", 8]


def test_tiles_are_judged_against_whole_maps() -> None:
    result = whole()
    judged = verdicts(result)
    assert (judged["tile-time"], judged["tile-pays"]) == ("supported", "refuted")
    base, *tiles = rows(result, "tbl-tiling")
    assert base["Patches through"] == "whole maps"
    assert len(tiles) == 12
    assert all(row["Time ratio"].low > 1 for row in tiles)
    assert all(row["Work"] == 1 for row in tiles if row["Patches through"] == "each layer")


# ------------------------------------------------------------------------------------- choices


def test_the_best_setting_is_found_and_named() -> None:
    (row,) = [r for r in rows(whole(), "tbl-published") if r["Network"] == "LeNet-5"]
    assert row["In float32"].value == pytest.approx(1 / 0.7)
    assert row["By"] == "contiguous, float32, compiled"
    assert row["Published"] == 5.6
    assert verdicts(whole())["speedup-lenet"] == "not comparable"
    assert verdicts(whole())["speedup-vgg"] == "not measured"


@pytest.mark.parametrize(
    ("factor", "tried", "verdict"),
    [
        (10, True, "supported"),
        (2, True, "refuted"),
        (10, False, "supported"),
        (2, False, "not measured"),
    ],
)
def test_a_published_speedup_is_reached_or_not(factor: float, tried: bool, verdict: str) -> None:
    def seconds(call: Call, _: object) -> float:
        return 1e-3 if call == inf.call("LeNet-5", 64) else 1e-3 / factor

    calls = [inf.call("LeNet-5", 64, layout=layout) for layout in inf.LAYOUTS]
    if tried:
        calls += [
            inf.call("LeNet-5", 64, precision="bfloat16"),
            inf.call("LeNet-5", 64, execution="compiled"),
        ]
    gpu = on_gpu(*calls, seconds=seconds)
    cpu = inf.record([inf.case(call, layers=layers, seconds=seconds) for call in calls])
    result = found(gpu, cpu)
    assert verdicts(result, GPU_KEY)["speedup-lenet"] == verdict
    # What a GPU reaches is not for a CPU to say.
    assert verdicts(result)["speedup-lenet"] == "not comparable"


def test_a_best_setting_is_not_looked_for_among_few() -> None:
    calls = [inf.call(n, 64, layout=y) for n in ("LeNet-5", "ResNet-20") for y in inf.LAYOUTS]
    cases = [inf.case(call, layers=layers) for call in calls]
    tried = [{"precision": "bfloat16"}, {"execution": "compiled"}]
    more = [inf.case(inf.call("LeNet-5", 64, **how), layers=layers) for how in tried]
    few, enough = found(inf.record(cases)), found(inf.record([*cases, *more]))
    assert verdicts(few)["no-one-wins"] == "not measured"
    assert "folded or compiled" in few.claims[f"no-one-wins-{KEY}"].because
    assert verdicts(enough)["no-one-wins"] in ("supported", "refuted", "undecided")


def test_a_choice_is_made_by_its_goal() -> None:
    run = runs(inputs_of(STUDY, small()).records)[0]
    latency, memory, throughput = (
        decision(run, "ResNet-20", goal) for goal in ("latency", "memory", "throughput")
    )
    assert not isinstance(latency, Missing)
    assert not isinstance(memory, Missing)
    assert not isinstance(throughput, Missing)
    assert (latency.call.batch, latency.call.layout) == (1, "channels_last")
    assert memory.call.batch == 1
    assert (throughput.call.batch, throughput.base.batch) == (64, 64)


@pytest.mark.parametrize(("factor", "clear"), [(0.5, True), (0.999, False), (1.5, False)])
def test_a_gain_is_clear_if_its_interval_excludes_one(factor: float, clear: bool) -> None:
    def seconds(call: Call, _: object) -> float:
        return 1e-3 * (factor if call.layout == "channels_last" else 1)

    made = decision(
        runs(inputs_of(STUDY, small(seconds=seconds)).records)[0], "ResNet-20", "latency"
    )
    assert not isinstance(made, Missing)
    assert made.clear == clear


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
    call = inf.call(batch=64)
    name = trace_name(call)
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
        ({"layout": "diagonal"}, "factors.layout: expected one of contiguous, channels_last"),
        ({"precision": "int8"}, "factors.precision: expected one of"),
        ({"execution": "guessed"}, "factors.execution: expected one of"),
        ({"batch": 0}, "factors.batch: expected a whole number from 1 on, found 0"),
        ({"batch": True}, "found True"),
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
