"""The study on a made-up record whose peaks are those of theory: values, verdicts, refusals."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from report.missing import Missing
from report.paper.findings import Findings
from report.quantity.evaluation import point
from report.records.layers import Layer
from report.records.record import Case, Record
from report.studies.inference_memory.measured import Run, runs
from report.studies.inference_memory.peaks import at_least
from report.studies.inference_memory.source import checks
from report.studies.inference_memory.subject import RESNETS, Call
from report.theory.shapes import parameter_count
from tests import factory
from tests import inference as inf
from tests.degraded import committed
from tests.papers import assert_whole, found_in, inputs_of, reported, rows, value, value_of

STUDY = "inference_memory"
MIB = 2**20
SMALL = (("LeNet-5", (1, 8, 64)),)
KEY = "example-2t"
GPU_KEY = "example-100"
GPU = factory.environment(GPU_KEY, factory.GPU)


def found(*records: Record) -> Findings:
    return found_in(STUDY, *records)


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


def case(batch: int, **how: Any) -> Case:
    return inf.case(inf.call(batch=batch), layers=layers, **how)


def small(*extra: Case, **how: Any) -> Record:
    """One network over three batch sizes in both layouts, and ``extra``."""
    calls = [inf.call(batch=b, layout=y) for b in (1, 8, 64) for y in inf.LAYOUTS]
    return inf.record([*(inf.case(call, layers=layers, **how) for call in calls), *extra])


def verdicts(result: Findings, key: str = KEY) -> dict[str, str]:
    ending = f"-{key}"
    return {i.removesuffix(ending): c.verdict for i, c in result.claims.items() if ending in i}


# ----------------------------------------------------------------------------------- the whole


def test_values_of_the_whole_record_are_the_closed_forms() -> None:
    """Peaks are those of theory, times the factory's: 0.6 in bfloat16, 0.8 in channels last."""
    result = whole()
    assert_whole(STUDY, result)
    expected = {
        "ceiling": 2e11, "ceiling_reduced": 3e11, "compared_all": 22, "exact_all": 22,
        "residual_share": 0, "residual_all": 0, "residual_reduced": 0, "deep_batch": 256,
        "limited": 5, "limited_out": 1, "limit": 128 * MIB, "smallest": 1, "largest": 256,
        "half_batch_first": 1, "half_batch_last": 256, "both_batch": 256,
        "both_time_least": 0.48, "both_time_most": 0.48,
        "tile_best": 1 + 8 / 64, "tile_worst": 2, "accuracy": 0.75, "loss_change": -0.0225,
        "accuracy_change": 0, "test_images": 100, "other_reduced_slower": 20,
        "reported_amc_batch": 1024, "saving_low": 45, "speedup_larger": 2, "from_batch": 8,
    }  # fmt: skip
    assert {id_: value(result, id_) for id_ in expected} == {
        id_: pytest.approx(each, rel=0.05, abs=1e-6) for id_, each in expected.items()
    }
    missing = {i for i, v in result.values.items() if isinstance(v.number, Missing)}
    assert missing == {
        "limited_wrong", "limited_excess", "failed_peak", "compared_new",
        "exact_new",
    }  # fmt: skip


def test_verdicts_of_the_whole_record() -> None:
    assert verdicts(whole()) == {
        "peak-theory": "supported", "held-out": "supported", "reduced-bound": "supported",
        "limit-theory": "supported", "memory-monotone": "supported", "falls-first": "refuted",
        "time-falls": "supported", "time-rises": "refuted", "time-large": "not measured",
        "use-plateau": "not measured", "use-depth": "supported", "largest-slower": "refuted",
        "half-time": "refuted", "half-memory": "refuted", "half-grows": "supported",
        "accuracy": "undecided", "loss": "supported", "amc-time": "refuted",
        "amc-memory": "supported", "amc-theory": "refuted", "tile-time": "supported",
        "tile-memory": "refuted", "tile-pays": "refuted", "no-one-wins": "undecided",
    }  # fmt: skip


def test_the_parts_of_a_peak_are_all_of_it() -> None:
    for row in rows(whole(), "tbl-peaks"):
        assert row["Measured"] == row["Before"] + row["Maps"] + row["Workspace"]
    assert all(row["Cases"] == row["Exact"] for row in rows(whole(), "tbl-agreement"))
    assert all(r.explained for r in whole().reconciliations.values())
    run = run_of(full())
    for call in run.chosen(execution="eager"):
        at, needed = run.predicted(call), point(run.needed(call))
        assert not isinstance(at, Missing)
        assert at.before + at.maps + at.workspace == at.total
        assert min(at.before, at.maps, at.workspace) >= 0
        assert isinstance(needed, float) and needed <= at.total


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


# ------------------------------------------------------------------------------------- verdicts


Seconds = Callable[[Call, Any], float]


def over(times: dict[int, float]) -> Callable[[], Record]:
    """The times (s) of one network over the batch size."""
    return lambda: inf.record([case(b, seconds=lambda *_, t=t: t) for b, t in times.items()])


def timed(seconds: Seconds) -> Callable[[], Record]:
    return lambda: small(seconds=seconds)


def peaks(*sizes: tuple[int, int]) -> Callable[[], Record]:
    return lambda: inf.record([case(b, allocated_peak=[size] * 3) for b, size in sizes])


def scores(lost: int) -> Callable[[], Record]:
    """A trained network that loses so many of 360 images in reduced precision."""
    right = [0] * lost + [1] * (360 - lost)
    return lambda: small(
        inf.accuracy("float32", [0.1, 0.2] * 180, [1] * 360),
        inf.accuracy("bfloat16", [0.1, 0.2] * 180, right),
    )


def few_settings(*more: dict[str, Any]) -> Callable[[], Record]:
    calls = [inf.call(n, 64, layout=y) for n in ("LeNet-5", "ResNet-20") for y in inf.LAYOUTS]
    calls += [inf.call("LeNet-5", 64, **how) for how in more]
    return lambda: inf.record([inf.case(call, layers=layers) for call in calls])


#: A claim, the record, and the verdict on it.
JUDGED: dict[str, tuple[str, Callable[[], Record], str]] = {
    "an image gets faster": ("time-falls", timed(lambda c, _: 1e-2 + 1e-4 * c.batch), "supported"),
    "an image takes as long": ("time-falls", timed(lambda c, _: 1e-4 * c.batch), "undecided"),
    "an image gets slower": ("time-falls", timed(lambda c, _: 1e-4 * c.batch**1.5), "refuted"),
    "a rate that stays": ("use-plateau", over({1: 0.1, 64: 0.64, 512: 5.12}), "supported"),
    "a rate that falls": ("use-plateau", over({1: 0.1, 64: 0.64, 512: 10.0}), "refuted"),
    "a knee behind the middle": (
        "use-plateau", over({1: 0.1, 64: 0.1, 256: 0.1, 512: 0.1, 1024: 0.19}), "supported"),
    "a knee at the end": (
        "use-plateau", over({1: 0.1, 64: 0.1, 256: 0.1, 512: 0.1, 1024: 0.12}), "refuted"),
    "a peak that falls": ("memory-monotone", peaks((1, 500), (8, 400), (64, 900)), "refuted"),
    "a small batch off theory": ("peak-theory", lambda: inf.record(
        [case(1, allocated_peak=[1] * 3), case(8)]), "supported"),
    "a large batch off theory": ("peak-theory", peaks((8, 1)), "refuted"),
    "a limit that was not foretold": ("limit-theory", lambda: small(
        inf.out_of_memory(inf.call(batch=8, memory_limit=128))), "refuted"),
    "one side of a limit": ("limit-theory", lambda: small(
        inf.case(inf.call(batch=8, memory_limit=128), layers=layers)), "not measured"),
    "no image lost": ("accuracy", scores(0), "supported"),
    "one image lost": ("accuracy", scores(1), "undecided"),
    "thirty images lost": ("accuracy", scores(30), "refuted"),
    "few settings": ("no-one-wins", few_settings(), "not measured"),
    "all kinds of settings": ("no-one-wins", few_settings(
        {"precision": "bfloat16"}, {"execution": "compiled"}), "undecided"),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
def test_claims_are_judged_by_the_record(name: str) -> None:
    claim, made, verdict = JUDGED[name]
    result = found(made())
    assert verdicts(result)[claim] == verdict
    assert_whole(STUDY, result)


def test_a_peak_off_the_theory_is_its_residual() -> None:
    right = int(value_of(run_of(small()).peak(inf.call(batch=64))))
    more = right // 20
    result = found(inf.record([case(8), case(16), case(64, allocated_peak=[right + more] * 3)]))
    assert value(result, "residual_share") == pytest.approx(more / (right + more))
    assert value(result, "exact_peaks") == 2
    assert result.reconciliations[f"peak-{KEY}-ResNet-20-64-contiguous-float32"].residual == more


def test_memory_that_ran_out_is_a_word() -> None:
    outcomes = {
        (row["Network"], row["Setting"], row["Batch"]): (row["Outcome"], row["As predicted"])
        for row in rows(whole(), "tbl-limit")
    }
    plain = "contiguous, float32, eager"
    assert outcomes["ResNet-20", plain, 1024] == ("out of memory", "yes")
    assert outcomes["ResNet-20", plain, 64] == ("ran", "yes")
    alone = found(small(inf.out_of_memory(inf.call(batch=512))))
    assert alone.facts["failed"] == "ResNet-20 at 512"
    assert value(alone, "failed_peak") > 16 * MIB


# ------------------------------------------------------------------------------ time, networks


def test_networks_are_those_that_were_published() -> None:
    shown = {row["Network"]: (row["Parameters"], row["Multiply-adds"])
             for row in rows(whole(), "tbl-networks")}  # fmt: skip
    assert shown["ResNet-20"] == (269_722, 40_551_040)
    assert shown["ResNet-110"] == (1_727_962, 252_887_680)
    table = reported(STUDY).table("networks")
    published = dict(zip(table.column("network"), table.column("parameters"), strict=True))
    for name in RESNETS:
        own = sum(map(parameter_count, layers(name, 1, 32))) / 1e6
        assert round(own, 1 if name == "ResNet-110" else 2) == published[name]


# ----------------------------------------------------------------------------- source, refusals


def test_the_audit_of_the_source() -> None:
    found_ = [check.verdict for check in checks(reported(STUDY))]
    assert found_ == ["agrees", "differs", "differs", "differs"]
