"""Whether runs of a machine, and two processors, tell the same of conv_scaling."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import msgspec
import pytest

from report.engine.pipeline import ROOT
from report.evidence.repetition import hours_between, repetitions
from report.quantity.evaluation import point
from report.records.record import Record
from report.records.store import read_record
from report.studies.conv_scaling.measured import Run, primary_run, runs
from report.studies.conv_scaling.replication import (
    differences,
    far_by_pages,
    moves_as_a_whole,
    repeated,
)
from report.studies.conv_scaling.run_values import RUN_VALUES
from tests.papers import assert_whole, found_in, inputs_of, value
from tests.test_policies import record_of, verdict

STUDY = "conv_scaling"
DATA = ROOT / "data"
#: Full runs of one machine: how many hours apart the first and the last began, and their files.
RUNS: dict[str, tuple[Any, ...]] = {
    "Intel Xeon": (
        1,
        "conv_scaling/20261122T173825Z-intel-xeon-1t-10bc99-50be89e7.json",
        "conv_scaling/20261122T183824Z-intel-xeon-1t-10bc99-f9523684.json",
    ),
    "Zen 5": (
        3,
        "conv_scaling/20261124T232125Z-amd-epyc-1t-1a97a6-6f4ebbe2.json",
        "conv_scaling/20261125T023044Z-amd-epyc-1t-1a97a6-b26727ab.json",
    ),
    "Zen 5, next day": (
        3,
        "conv_scaling/20261125T112943Z-amd-epyc-1t-1a97a6-371bb53f.json",
        "conv_scaling/20261125T125539Z-amd-epyc-1t-1a97a6-3cc816e3.json",
        "conv_scaling/20261125T142233Z-amd-epyc-1t-1a97a6-30a5f0b6.json",
    ),
}


def medians(case: Mapping[str, Any], policy: str) -> list[float]:
    """What each process of a case took in the median, those that were disturbed left out."""
    of_policy = [r for r in case.get("rounds", []) if r["policy"] == policy and r["status"] == "ok"]
    calm = [r for r in of_policy if not r["disturbance"]] or of_policy
    found = (s["samples"] for r in calm for s in r["series"] if s["quantity"] == "time")
    return sorted(map(statistics.median, found))


def interval(values: list[float]) -> tuple[float, float] | None:
    """The innermost order statistics that hold the median at 95 %, or the extremes; not of two."""
    n = len(values)
    ranks = range(1, n // 2 + 1)
    outside = {k: sum(math.comb(n, i) for i in range(k)) / 2 ** (n - 1) for k in ranks}
    rank = max((k for k in ranks if outside[k] <= 0.05), default=1)
    return (values[rank - 1], values[-rank]) if n > 2 else None


def pooled_of(files: Sequence[str], label: str) -> Run:
    """The newest run speaks for all; the oldest is the first all the same."""
    *older, newest = (read_record(DATA / name, DATA) for name in files)
    return Run(replace(newest, others=tuple(older)), label)


@pytest.mark.parametrize("machine", RUNS)
def test_runs_of_a_machine_agree_as_often_as_the_records_say(machine: str) -> None:
    """By hand from the files: medians of processes, binomial ranks, and who holds whom."""
    hours, *files = RUNS[machine]
    every = [
        {json.dumps(c["factors"], sort_keys=True): c for c in json.loads(text)["cases"]}
        for text in ((DATA / name).read_text() for name in files)
    ]
    compared = agreeing = overlapping = without = 0
    shifts, beside = [], []
    for first, second in combinations(every, 2):
        ratios = []
        for key in first.keys() & second.keys():
            for policy in ("retained", "default", "jemalloc"):
                a, b = (medians(case[key], policy) for case in (first, second))
                if not (a and b):
                    continue
                one, other = interval(a), interval(b)
                if one is None or other is None:
                    without += 1
                    continue
                x, y = statistics.median(a), statistics.median(b)
                compared += 1
                agreeing += one[0] <= y <= one[1] and other[0] <= x <= other[1]
                overlapping += one[0] <= other[1] and other[0] <= one[1]
                ratios.append(y / x)
        shifts.append(statistics.median(ratios))
        beside += [abs(ratio / shifts[-1] - 1) for ratio in ratios]
    pooled = pooled_of(files, machine)
    assert [alone.file for alone in pooled.alone()] == files
    assert hours_between(pooled) == hours
    found = repeated(pooled)
    assert (len(found), len(list(repetitions(pooled))) - len(found)) == (compared, without)
    assert sum(each.agrees for each in found) == agreeing
    assert sum(each.overlaps for each in found) == overlapping
    whole, rest = differences(found)
    assert whole == pytest.approx(max(max(shift, 1 / shift) for shift in shifts))
    assert rest == pytest.approx(statistics.quantiles(beside, n=10)[-1])


def test_runs_that_differ_as_wholes_or_by_pages_are_told_from_runs_whose_times_scatter() -> None:
    moved, scattered = (
        pooled_of(RUNS[name][1:], name) for name in ("Zen 5, next day", "Intel Xeon")
    )
    assert moves_as_a_whole(moved)
    assert far_by_pages(moved)
    assert not moves_as_a_whole(scattered)
    assert not far_by_pages(scattered)


def elsewhere(record: Record, factor: float) -> Record:
    """The same measurements on another processor, on which memory that is kept is slower."""
    environment = msgspec.structs.replace(record.environment, key="other-2t", name="Other")

    def slowed(round_: Any) -> Any:
        series = tuple(
            msgspec.structs.replace(s, samples=tuple(factor * x for x in s.samples))
            if s.quantity == "time" and round_.policy == "retained"
            else s
            for s in round_.series
        )
        return msgspec.structs.replace(round_, series=series)

    cases = tuple(
        msgspec.structs.replace(case, rounds=tuple(map(slowed, case.rounds)))
        for case in record.cases
    )
    return msgspec.structs.replace(record, environment=environment, cases=cases)


def test_a_second_processor_is_compared_with_the_first() -> None:
    record = record_of()
    found = found_in(STUDY, record, elsewhere(record, 1.1))
    text = assert_whole(STUDY, found)
    assert "slows a convolution on two virtualized processors" in text
    gain, second = (value(found, id_) for id_ in ("policy_gain", "second_policy_gain"))
    assert math.isclose(gain / second, 1.1, rel_tol=1e-3)
    assert verdict(found, "both-pay") == "supported"
    # Six processes on each side bound no ratio of two machines at the level of the paper.
    assert verdict(found, "first-pays-more") == "undecided"
    assert "runs-agree" not in found.claims


def test_a_slowdown_on_one_processor_alone_is_not_called_one_on_both() -> None:
    record = record_of()
    found = found_in(STUDY, record, elsewhere(record, 4.0))
    assert verdict(found, "both-pay") != "supported"
    assert "not established as a finding on both" in assert_whole(STUDY, found)


def test_the_machine_that_was_measured_most_often_comes_first_unless_another_is_named() -> None:
    once, twice = (
        inputs_of(STUDY, record).records[0] for record in (record_of(), elsewhere(record_of(), 1.1))
    )
    pooled = replace(twice, others=(replace(twice, file="conv_scaling/older.json"),))
    assert primary_run(runs((once, pooled))).stored is pooled  # type: ignore[union-attr]
    named = replace(once, named=True)
    assert primary_run(runs((pooled, named))).stored is named  # type: ignore[union-attr]


def test_the_fall_behind_the_best_batch_is_that_of_the_records_medians() -> None:
    """By hand from the file: images a second of each batch, by the median of its processes."""
    _, _, file = RUNS["Zen 5"]
    rates = {}
    for case in json.loads((DATA / file).read_text())["cases"]:
        factors = case["factors"]
        plain = (factors["subject"], factors.get("pass"), factors.get("layout"))
        if plain == ("layer", "forward", "contiguous"):
            rates[factors["batch"]] = factors["batch"] / statistics.median(
                medians(case, "retained")
            )
    best = max(rates, key=rates.__getitem__)
    slowest = min((batch for batch in rates if batch > best), key=rates.__getitem__)
    run = Run(read_record(DATA / file, DATA), "Zen 5")
    assert point(RUN_VALUES["fallen_batch"](run)) == slowest
    fall = point(RUN_VALUES["fall"](run))
    assert math.isclose(fall, 1 - rates[slowest] / rates[best], abs_tol=0.01)  # type: ignore[arg-type]
