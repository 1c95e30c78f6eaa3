"""Replication reports: what is counted, what is predicted, and what a reader is told."""

import math
import random
import re
from dataclasses import replace
from functools import cache

import msgspec
import pytest

from figures.panels import Dots, Grid
from figures.render import render
from report.core.statistics.estimates import Estimate
from report.core.statistics.prediction import next_effect, student_quantile
from report.engine.gather import compute_usable
from report.engine.replicate import (
    atlas_of,
    choose_for_report,
    labels_by_day,
    read_original,
    replicas_of,
)
from report.engine.steps import ROOT
from report.engine.writing import render_document
from report.paper.claims import judge
from report.paper.findings import Findings, Inputs
from report.paper.replicas import Replica, Row, compare, main_claims, summary, without_copies
from report.paper.replication import report
from report.paper.tables import table_of
from report.paper.values import Value
from report.quantity.expression import Sampled, Statement, exact, measured
from report.quantity.intervals import Process
from report.quantity.verdicts import Verdict, all_of
from report.studies import STUDIES
from tests import factory
from tests.degraded import of_series

MEASURED = [study for study in STUDIES if any((ROOT / "data" / study).glob("*.json"))]
every_study = pytest.mark.parametrize("study", MEASURED)

original = cache(read_original)


@cache
def inputs_of(study: str) -> Inputs:
    return choose_for_report(study, ROOT / "data").inputs


@cache
def machines(study: str) -> list[Replica]:
    replicas, refused = replicas_of(study, inputs_of(study))
    assert refused == {}
    return replicas


# -------------------------------------------------------------------------------- the next machine


def test_the_next_effect_is_the_one_by_hand() -> None:
    """Logarithms −2 … 2: mean 0, s = √2.5, √(1 + 1/5) and t = 2.7764 of 4 degrees of freedom."""
    for freedom, quantile in ((4, 2.776), (7, 2.365), (27, 2.052)):
        assert student_quantile(0.975, freedom) == pytest.approx(quantile, abs=6e-4)
    found = next_effect([math.exp(n) for n in (-2, -1, 0, 1, 2)])
    assert found is not None
    half = 2.7764 * math.sqrt(2.5) * math.sqrt(1.2)
    assert [math.log(end) for end in found] == pytest.approx([-half, half], rel=1e-3)
    assert next_effect([1.0] * 4) is None and next_effect([1.0, 2.0, 3.0, 4.0, 0.0]) is None


def coverage(kind: str, count: int, trials: int) -> float:
    """The share of trials in which the effect on a further machine lies in the interval."""
    numbers = random.Random(f"{kind} {count}")
    draws = {
        "normal": lambda: numbers.gauss(0.5, 0.2),
        "skewed": lambda: 0.3 * numbers.expovariate(1.0),
        "two groups": lambda: numbers.choice((0.0, 0.7)) + numbers.gauss(0, 0.05),
    }
    hits = 0
    for _ in range(trials):
        *effects, further = (math.exp(draws[kind]()) for _ in range(count + 1))
        interval = next_effect(effects)
        assert interval is not None
        hits += interval[0] <= further <= interval[1]
    return hits / trials


@pytest.mark.parametrize("count", [5, 8, 28])
@pytest.mark.parametrize("kind", ["normal", "skewed", "two groups"])
def test_the_interval_covers_at_least_what_it_says(kind: str, count: int) -> None:
    """docs/how-numbers-are-made.md has the shares of 2,000 trials; these few allow three errors."""
    trials = 400
    least = 0.92 - 3 * math.sqrt(0.95 * 0.05 / trials)
    assert coverage(kind, count, trials) >= least


# ------------------------------------------------------------------------------------- comparisons


def series(*medians: float, disturbed: bool = False) -> Sampled:
    processes = [Process("run", str(n), (m,), disturbed) for n, m in enumerate(medians)]
    found = measured("time", "1", processes, "file")
    assert isinstance(found, Sampled)
    return found


def reason(statement: Statement) -> str:
    (found,) = judge("id", statement).reasons
    return found


def test_an_undecided_claim_says_how_many_processes_would_decide() -> None:
    """Six medians 0.9 to 1.5 around 1.2 reach 0.3 below it; a bound 0.1 below needs 6 · 3² = 54."""
    spread = (0.9, 1.1, 1.2, 1.2, 1.3, 1.5)
    text = reason(series(*spread) > 1.1)
    assert "of 6 processes contains the bound 1.1; at this scatter about 54 would decide" in text
    assert "not even 1,000" in reason(series(*spread) > 1.2)
    assert "4 processes reach a level of 88" in reason(series(1.2, 1.3, 1.3, 1.4) > 1.1)
    assert "about 6 would decide" in reason(series(1.2, 1.3, 1.3, 1.4) > 1.1)
    assert "one process measured it; at least 6 decide" in reason(series(1.2) > 1.1)
    assert "quiet machine" in reason(series(*spread, disturbed=True) > 1.1)


def test_of_several_comparisons_those_that_fail_are_named_with_their_numbers() -> None:
    pages = [exact(f"pages at {n}", "1", share, "file") for n, share in ((8, 1.0), (16, 0.9785))]
    claim = judge("id", all_of(*(p.near(1, 0.02) for p in pages for _ in range(2))))
    assert (claim.measured, claim.expected) == (
        "2 of 4 hold, 2 fail",
        "0.98 to 1.02 in all comparisons",
    )
    undecided = judge("id", all_of(*(series(1.2 + n) > 1 for n in range(4))))
    assert undecided.measured == "4 of 4 undecided: one process"
    difference = exact("peak", "B", 120, "file") - exact("predicted peak", "B", 100, "file")
    text = reason(difference.exactly(0)).replace("\N{NO-BREAK SPACE}", " ")
    assert text.endswith(": measured minus predicted: +20 B, expected 0")
    assert claim.reasons == ("pages at 16 is 0.9785, expected 0.98 to 1.02 (0.0015 too low)",)
    assert claim.files == ("file",) and claim.effect is None


# ------------------------------------------------------------------------------- committed records


def printed(study: str, found: Findings) -> str:
    """The document of a report; rendering refuses whatever is typed by hand or missing."""
    room, papers = f"{study}-replication", ROOT / "templates" / "papers"
    return render_document(room, ROOT / "data", papers, found, {}).text


@every_study
def test_the_report_of_a_record_counts_its_claims_and_holds_nothing_of_another(study: str) -> None:
    paper, shown = original(study), set[tuple[str, int]]()
    for replica in machines(study):
        found = report(paper, [replica], [])
        line = found.facts["summary"]
        counted = r"(\d+) (?:of \d+ claims|same in part|contrary|undecided|not measured)"
        assert sum(map(int, re.findall(counted, line))) == len(found.claims)
        assert all(claim.about == replica.about for claim in replica.claims.values())
        # A verdict of numbers without a file would not be counted.
        assert replica.claims.keys() == replica.findings.claims.keys()
        own = {file for run in replica.stored.runs for file in run.files}
        numbers = replica.findings.values.values()
        files = [number.sources for number in numbers] + [c.files for c in replica.claims.values()]
        assert {file for each in files for file in each if file.startswith(f"{study}/")} <= own
        assert all(claim.title for claim in replica.claims.values())
        # To write and draw takes long, so one report is made for each number of claims.
        if (replica.about, len(found.claims)) not in shown:
            shown.add((replica.about, len(found.claims)))
            text = printed(study, found)
            assert "ridgepoint project" not in text
            assert replica.stored.file.partition("/")[2] in text
            for figure in found.figures.values():
                assert render(figure.drawing, salt=figure.id).svg.startswith(b"<?xml")


@pytest.mark.parametrize(("verdict", "of_paper", "counts"), [
    ("supported", "supported", "1 of 1 {}; 0 contrary; 0 undecided; 0 not measured"),
    ("supported", "refuted", "0 of 1 {}; 1 contrary (It grows); 0 undecided; 0 not measured"),
    ("undecided", "supported", "0 of 1 {}; 0 contrary; 1 undecided; 0 not measured"),
    ("not measured", "supported", "0 of 1 {}; 0 contrary; 0 undecided; 1 not measured"),
    (
        "supported",
        "undecided",
        "The paper decides no claim about a CPU that one run can test; 1 of 1 decided here",
    ),
])  # fmt: skip
def test_one_sentence_counts_the_claims_and_names_the_contrary(
    verdict: Verdict, of_paper: Verdict, counts: str
) -> None:
    (xeon,) = (r for r in machines("conv_scaling") if "aac85b" in r.stored.file)
    claim = judge("grows", exact("size", "1", 2, xeon.stored.file) > 1)
    claim = replace(claim, title="It grows", verdict=verdict)
    paper = replace(original("conv_scaling").findings, claims={
        "grows": replace(claim, verdict=of_paper)})  # fmt: skip
    replica = replace(xeon, findings=replace(xeon.findings, claims={"grows": claim}))
    middle = "claims about a CPU have the paper's verdict on Intel Xeon, 2 threads"
    assert summary([replica], paper) == counts.format(middle)


def test_a_reader_learns_what_is_missing_and_what_differs_from_the_paper() -> None:
    """A run with two threads to 1,024 images, cut off before its ceilings and its counters."""
    paper = original("conv_scaling")
    (xeon,) = (r for r in machines("conv_scaling") if "aac85b" in r.stored.file)
    report_of_run = report(paper, [xeon], [])
    facts, text = report_of_run.facts, printed("conv_scaling", report_of_run)
    assert facts["missing"][0].startswith("ceilings after, lackey multiply adds: the run was ended")
    assert {"Device", "Cores and threads", "Caches"} <= {*facts["differing"]}
    assert "Operating system" not in facts["differing"]
    assert "Main claim that such a machine cannot test: “Returning freed memory" in text
    title = (
        "One record of the paper *A batch-size cliff begins where freed memory reaches "
        "glibc\\'s threshold*, alone"
    )
    assert title in text.partition("subtitle")[0]
    assert facts["commits"][0] == "1da1aa4158b0" != facts["commits"][1]
    assert facts["again"][0] == f"git checkout {facts['commits'][1]}"
    command = "python -m experiments run conv_scaling --device cpu --threads 2"
    assert facts["again"][-2:] == ["# 27 min:", command]
    assert facts["record"].startswith("data/conv_scaling/*-") and len(facts["record"]) < 40
    assert any("subject=cliff" in command for command in facts["further"])
    (group,) = facts["unmeasured"]
    assert group["texts"] == ("Not measured: the record holds no such cases",)
    table = report_of_run.tables["tbl-claims"]
    agreements = {str(row[0]).partition(" (expected")[0]: row[1] for row in table.rows}
    theory = "A CPU executes exactly the multiply-adds of theory, forward and backward"
    assert agreements[theory] == "same in part: 2 of the paper's 10 comparisons"
    slower = agreements["Returning freed memory slows a call by more than a tenth"]
    assert slower == "same, by partly other cases (batch 1,024 here; batch 512 there)"
    assert not {*agreements} & {*group["titles"]}
    assert table.notes == ("Machines of the paper: P1: AMD EPYC (Zen 3), 1 thread.",)
    assert "Theory is an upper bound of the memory that the source\\'s allocator reports" in text
    captions = re.findall(r"^::: \{#tbl-", text, re.MULTILINE)
    assert len(captions) == len(report_of_run.tables)


@pytest.mark.parametrize(("known", "letter"), [(4, "A"), (3, "P"), (5, "A")])
def test_a_verdict_on_fewer_comparisons_than_the_papers_agrees_in_part(
    known: int, letter: str
) -> None:
    paper = judge("grows", all_of(*(exact("size", "1", 2, "file") > 1 for _ in range(4))))
    row = Row(paper, {"laptop": replace(paper, known=known)})
    assert row.letters == {"laptop": letter} and row.outcome == letter
    contrary = Row(paper, {"laptop": replace(paper, verdict="refuted", known=known)})
    assert contrary.outcome == "C"


def test_machines_are_counted_once_and_deciding_ones_are_said() -> None:
    paper, (first, *others) = original("conv_scaling"), machines("conv_scaling")
    twice = [first, replace(first, label="Again"), *others]
    found = report(paper, twice, [])
    assert found.facts["where"] == f"{len(twice) - 1} machines, {len(twice)} records"
    assert re.search(
        r"every machine that decides them \(\d+ to \d+ of \d+\)", found.facts["summary"]
    )


def test_numbers_apart_from_the_paper_are_listed_and_reversed_ones_named() -> None:
    """Of four numbers one overlaps the paper's, one is of other cases, and two lie apart."""
    paper = original("conv_scaling")
    (xeon,) = (r for r in machines("conv_scaling") if "aac85b" in r.stored.file)
    value = next(v for v in xeon.findings.values.values() if isinstance(v.number, Estimate))

    def values(numbers: dict[str, tuple[float, float, float]]) -> dict[str, Value]:
        declared = {}
        for id, (low, middle, high) in numbers.items():
            estimate = Estimate(middle, low, high, 8, 0.95)
            formula = "of case a" if id != "other" or middle > 2 else "of case b"
            declared[id] = replace(
                value, id=id, name=id, number=estimate, unit="1", formula=formula
            )
        return declared

    here = values(
        {"same": (1, 2, 3), "half": (0.7, 0.8, 0.9), "far": (8, 9, 10), "other": (8, 9, 10)}
    )
    there = values(
        {"same": (2, 3, 4), "half": (1.5, 1.6, 1.7), "far": (2, 3, 4), "other": (1, 1, 1)}
    )
    replica = replace(xeon, findings=replace(xeon.findings, values=here))
    published = replace(paper, findings=replace(paper.findings, values=there))
    result = report(published, [replica], [])
    rows = [(str(row[0]).partition(":")[0], row[3]) for row in result.tables["tbl-numbers"].rows]
    assert rows == [("far", "3.00"), ("half", "0.500")]
    assert (result.facts["overlapping"], result.facts["different"]) == ("1", "2")
    (reversed_number,) = result.facts["reversed"]
    assert reversed_number.startswith("half")


def test_a_table_of_the_study_may_have_the_name_of_a_table_of_the_report() -> None:
    (xeon,) = (r for r in machines("conv_scaling") if "aac85b" in r.stored.file)
    names = ("setup", "claims", "machines", "records", "numbers")
    ids = [f"tbl-{name}" for name in names]
    tables = {id: table_of(id, [{"Setting": "one"}]) for id in ids}
    findings = replace(xeon.findings, tables=tables)
    found = report(original("conv_scaling"), [replace(xeon, findings=findings)], [])
    assert {f"tbl-paper-{name}" for name in names} < {*found.tables}
    text = printed("conv_scaling", found)
    assert all(text.count(f"{{#{id}") == 1 for id in found.tables)


def test_equal_names_of_machines_are_told_apart_by_the_day_of_their_records() -> None:
    first = machines("conv_scaling")[0].stored
    label = first.record.environment.label
    times = ("2026-11-26T16:37:08Z", "2026-11-26T16:37:09Z", "2026-11-25T00:00:00Z")
    same = [replace(first, record=msgspec.structs.replace(first.record, started=t)) for t in times]
    assert labels_by_day(same[:1]) == [label]
    ends = ("26 Nov 2026, 16:37:08 UTC", "26 Nov 2026, 16:37:09 UTC", "25 Nov 2026")
    assert labels_by_day(same) == [f"{label}, {end}" for end in ends]


def test_copied_records_count_once() -> None:
    """Two machines never share samples, ceilings or an end to the second."""
    (xeon,) = (r for r in machines("conv_scaling") if "aac85b" in r.stored.file)
    copy = replace(xeon, label="Copied")
    unique, copies = without_copies([xeon, copy])
    assert unique == [xeon]
    assert copies == {
        "Copied": "the same samples and ceilings and end time as Intel Xeon, 2 threads"
    }
    found = report(original("conv_scaling"), unique, [], copies)
    text = printed("conv_scaling", found)
    assert found.facts["single"] and "records were probably copied" in text
    assert "no machine of its own measured it: 1 record (@sec-copies)" in text
    for study in MEASURED:
        assert without_copies(machines(study))[1] == {}


@pytest.mark.parametrize(("factors", "same"), [
    ([1.0] * 6, "times but for one factor"),
    ([1.02] * 6, "times but for one factor"),
    ([1.02, 1.02, 1.02, 1.02, 1.5, 1.02], "times but for one factor"),
    ([1.02, 1.021, 1.022, 1.02, 1.5, 1.023], ""),
    ([1.02] * 4, ""),
])  # fmt: skip
def test_times_of_a_copy_are_those_of_another_record_but_for_one_factor(
    factors: list[float], same: str
) -> None:
    """A sixth of the cases may differ; four cases are too few to tell."""
    (xeon,) = (r for r in machines("conv_scaling") if "aac85b" in r.stored.file)

    def replica(label: str, scale: list[float], hash: str = "a") -> Replica:
        code = msgspec.structs.replace(xeon.stored.record.code, commit=hash * 40)
        record = msgspec.structs.replace(
            xeon.stored.record,
            ceilings=(),
            finished=f"2026-12-01T00:00:{len(label):02}Z",
            code=code,
            cases=tuple(factory.case(n, time=[n * s]) for n, s in enumerate(scale, start=1)),
        )
        return replace(xeon, label=label, stored=replace(xeon.stored, record=record, others=()))

    pair = [replica("A", [1.0, 1.0, 1.0, 1.0, 1.0, 1.01]), replica("Second", factors)]
    assert without_copies(pair)[1] == ({"Second": f"the same {same} as A"} if same else {})
    zeros = [replica("A", [1.0], "0"), replica("Second", [1.5], "0")]
    unique, copies = without_copies(zeros)
    assert unique == [] and "zeros" in copies["A"] == copies["Second"]


def test_the_main_claims_are_said_to_be_tested_or_not() -> None:
    rows = compare([original("conv_scaling").machines["a CPU"]], original("conv_scaling").findings)
    found = main_claims(rows, original("conv_scaling").findings, ["slower", "both-slower"])
    assert found["tested"] == ["“Returning freed memory slows a call by more than a tenth”"]
    assert found["untestable"][0].endswith("on both CPUs”")


def test_the_atlas_has_every_machine_and_counts_those_that_the_paper_does_not_describe() -> None:
    chosen, findings = compute_usable("conv_scaling", ROOT / "data")
    atlas = atlas_of("conv_scaling", ROOT / "data", chosen, findings)
    rows = {claim["title"]: claim["letters"] for claim in atlas["claims"]}
    assert {len(row) for row in rows.values()} == {len(atlas["machines"])}
    letters = [letter for row in rows.values() for letter in row]
    assert set(letters) <= {"", "A", "P", "C", "U", "N", "D"} and {"", "A"} <= set(letters)
    assert re.match(r"Replicated on \d+ further machines\. ", atlas["line"])
    assert re.search(r"\d+ the same as in the paper, .*\d+ not measured\.$", atlas["line"])


def test_scrambled_samples_lower_the_count() -> None:
    """Each series gets the samples of others: what still agrees has no samples behind it."""
    numbers = random.Random(1)

    def scrambled(name: str, samples: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(sample * 10 ** numbers.uniform(-2, 2) for sample in samples)

    paper, inputs = original("conv_scaling"), inputs_of("conv_scaling")
    (own,) = (item for item in inputs.records if item.file == paper.machines["a CPU"].stored.file)
    wrong = of_series(scrambled)(replace(inputs, records=(replace(own, others=()),)))
    (replica,), _ = replicas_of("conv_scaling", wrong)
    count = int(summary([replica], paper.findings).partition(" ")[0])
    assert count <= 1


def test_a_report_of_no_record_says_0_of_0() -> None:
    found = report(original("conv_scaling"), [], ["data/a.json: it is cut off."])
    assert found.facts["summary"].startswith("0 of 0 claims")
    assert "it is cut off" in printed("conv_scaling", found)


@every_study
def test_many_machines_have_a_map_that_reads_without_colour(study: str) -> None:
    found = report(original(study), machines(study), [])
    text = printed(study, found)
    assert "tbl-machines" in text and "\ngit checkout " in text
    (grid,) = found.figures["fig-map"].drawing.panels
    assert isinstance(grid, Grid) and len(grid.names) == len(machines(study)) == len(
        set(grid.names)
    )
    assert render(found.figures["fig-map"].drawing, salt="map").svg.startswith(b"<?xml")
    letters = [letter for row in grid.cells for letter in row if letter]
    counted = [sum(row[3:8]) for row in found.tables["tbl-claims"].rows]
    assert sum(counted) == len(letters) - letters.count("D")
    if study == "conv_scaling":
        (dots,) = found.figures["fig-effects"].drawing.panels
        assert isinstance(dots, Dots)
        drawn = [x for x in dots.series[0].x if x is not None]
        assert drawn == sorted(drawn, reverse=True) and len(drawn) == 6
