"""Replication reports: counted claims, predicted effects, and messages to readers.

A report tests the claims of a paper on other records.  A replica is such a record with its
findings; the original has the findings of the paper.
"""

import hashlib
import math
import random
import re
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import pytest

from figures.panels import Dots, Grid
from figures.render import render
from report.core.records.pooling import without_option
from report.core.records.record import Record
from report.core.statistics.estimates import next_effect, student_quantile
from report.engine.steps import ROOT, commit_of_program
from report.engine.writing import render_document
from report.evaluation import replicate
from report.evaluation.gather import compute_usable
from report.instruments.gates import CopyDetector
from report.paper.claims import judge, on_common_cases
from report.paper.findings import Findings, Inputs
from report.paper.replicas import Replica, Row, summary, without_copies
from report.paper.replication import report
from report.paper.tables import table_of
from report.quantity.evaluation import point_estimate
from report.quantity.expression import (
    MeasuredSeries,
    Quantity,
    Statement,
    exact_number,
    measured_series,
    missing_number,
)
from report.quantity.intervals import Process
from report.quantity.operations import describe_terms, geometric_mean, restrict_to_common_terms
from report.quantity.ranges import Range
from report.quantity.verdicts import Verdict
from report.studies import STUDIES
from tests import factory

MEASURED_STUDIES = [study for study in STUDIES if any((ROOT / "data" / study).glob("*.json"))]
every_study = pytest.mark.parametrize("study", MEASURED_STUDIES)

original = cache(replicate.read_original)


@cache
def inputs_of(study: str) -> Inputs:
    """Return the inputs of a report on all committed records of a study."""
    return replicate.choose_for_report(study, ROOT / "data").inputs


@cache
def replicas(study: str) -> list[Replica]:
    """Return the replicas of all committed records of a study."""
    compared, refused = replicate.replicas_of(study, inputs_of(study))
    assert refused == {}
    return compared


def replica(study: str, digits: str) -> Replica:
    """Return the replica of the record whose name contains these digits of a digest."""
    (match,) = (one for one in replicas(study) if digits in one.stored.file)
    return match


def xeon() -> Replica:
    """Return the replica of a Xeon with two threads, whose run was ended early."""
    return replica("conv_scaling", "aac85b")


# -------------------------------------------------------------------------------- the next machine


def test_the_predicted_effect_by_hand() -> None:
    """The half width is t · s · √(1 + 1/5) of logarithms.

    Of −2 … 2, the mean is 0 and s = √2.5; t = 2.7764 for 4 degrees of freedom.
    """
    for freedom, quantile in ((4, 2.776), (7, 2.365), (27, 2.052)):
        assert student_quantile(0.975, freedom) == pytest.approx(quantile, abs=6e-4)
    interval = next_effect([math.exp(n) for n in (-2, -1, 0, 1, 2)])
    assert interval is not None
    half = 2.7764 * math.sqrt(2.5) * math.sqrt(1.2)
    assert [math.log(end) for end in interval] == pytest.approx([-half, half], rel=1e-3)
    assert next_effect([1.0] * 4) is None and next_effect([1.0, 2.0, 3.0, 4.0, 0.0]) is None


@pytest.mark.parametrize("count", [5, 8, 28])
@pytest.mark.parametrize("kind", ["normal", "skewed", "two groups"])
def test_prediction_intervals_reach_their_level(kind: str, count: int) -> None:
    """docs/how-numbers-are-made.md has the shares of 2,000 trials.

    Here the share of few trials may be three standard errors below the smallest share, 92 %.
    """
    numbers, trials, hits = random.Random(f"{kind} {count}"), 400, 0
    draws = {
        "normal": lambda: numbers.gauss(0.5, 0.2),
        "skewed": lambda: 0.3 * numbers.expovariate(1.0),
        "two groups": lambda: numbers.choice((0.0, 0.7)) + numbers.gauss(0, 0.05),
    }
    for _ in range(trials):
        *effects, further = (math.exp(draws[kind]()) for _ in range(count + 1))
        low, high = next_effect(effects) or (1.0, 0.0)
        hits += low <= further <= high
    assert hits / trials >= 0.92 - 3 * math.sqrt(0.95 * 0.05 / trials)


# ------------------------------------------------------------------------------------- comparisons


def series(*medians: float, disturbed: bool = False) -> MeasuredSeries:
    """Return a measured number with one sample per process."""
    processes = [Process("run", str(n), (m,), disturbed) for n, m in enumerate(medians)]
    quantity = measured_series("time", "1", processes, "file")
    assert isinstance(quantity, MeasuredSeries)
    return quantity


SPREAD, FOUR = (0.9, 1.1, 1.2, 1.2, 1.3, 1.5), (1.2, 1.3, 1.3, 1.4)
ONE_PROCESS, DISTURBED = series(1.2) > 1.1, series(*SPREAD, disturbed=True) > 1.1


@pytest.mark.parametrize(("statement", "short", "long"), [
    # The interval of six processes reaches 0.3 below the median 1.2.  It would reach only 0.1
    # below, to the bound 1.1, with 6 · 3² = 54 processes.
    (series(*SPREAD) > 1.1, "interval spans 1.1",
     "of 6 processes contains the bound 1.1; at this scatter about 54 would decide"),
    (series(*SPREAD) > 1.2, "interval spans 1.2", "not even 1,000"),
    (series(*FOUR) > 1.1, "level below 95 %", "of 4 processes holds at 88"),
    (series(*FOUR) > 1.1, "level below 95 %", "about 6 would decide"),
    (ONE_PROCESS, "one process", "only one process measured it; at least 6 decide"),
    (DISTURBED, "disturbed", "quiet machine"),
])  # fmt: skip
def test_an_undecided_claim_says_why_and_how_many_processes_would_decide(
    statement: Statement, short: str, long: str
) -> None:
    """A paper prints the short reason, a report the long one."""
    claim = judge("id", [statement])
    assert claim.because.replace("\N{NO-BREAK SPACE}", " ").endswith(f"; {short}")
    assert len(claim.reasons) == 1 and long in claim.reasons[0]


def test_an_undecided_claim_of_several_comparisons_lists_the_reasons() -> None:
    above_one = series(*(2 + n / 20 for n in range(8))) > 1
    claim = judge("id", [series(*SPREAD) > 1.1, ONE_PROCESS, above_one, DISTURBED])
    assert claim.because.endswith("; interval spans 1.1; one process; disturbed")
    missing = judge("id", [above_one, missing_number("gain", "1", "no GPU") > 1])
    assert missing.because.endswith("; not measured")
    assert judge("id", [exact_number("x", "1", 2) > -1]).because.endswith(
        "expected above \N{MINUS SIGN}1"
    )


def test_claims_of_several_comparisons_name_those_that_fail() -> None:
    pages = [
        exact_number(f"pages at {n}", "1", share, "file") for n, share in ((8, 1.0), (16, 0.9785))
    ]
    claim = judge("id", [p.near(1, 0.02) for p in pages for _ in range(2)])
    assert (claim.measured, claim.expected) == (
        "2 of 4 comparisons hold, 2 fail: all 4 numbers are 0.9785 (pages at 16) to 1 (pages at 8)",
        "0.98 to 1.02",
    )
    undecided = judge("id", [series(1.2 + n) > 1 for n in range(4)])
    assert undecided.measured.startswith("0 of 4 comparisons hold, 4 undecided: all 4 nu")
    failing = "pages at 16: 0.9785, expected 0.98 to 1.02"
    assert claim.reasons == (f"refuted ({failing}; {failing})",)
    assert claim.files == ("file",) and claim.effect is None
    missing = Statement(missing_number("faults", "1", "not counted"), Range())
    assert judge("id", [pages[0] > 0, missing]).reasons == ("not counted (faults)",)
    assert judge("id", [missing]).reasons == ("not counted",)


# ------------------------------------------------------------------------------- committed records


def document_of(study: str, findings: Findings) -> str:
    """Render the document of a report; typed numbers and missing values are errors."""
    name, papers = f"{study}-replication", ROOT / "templates" / "papers"
    commit = commit_of_program()
    return render_document(name, ROOT / "data", papers, findings, {}, commit=commit).text


@every_study
def test_the_report_of_a_record_counts_its_claims_and_uses_no_other_record(study: str) -> None:
    paper, rendered = original(study), set[tuple[str, int]]()
    for replica in replicas(study):
        findings = report(paper, [replica], [])
        _, _, counts = findings.facts["summary"].rpartition(f"On {replica.label}: ")
        numbers = re.findall(r"(?:^|; )(\d+) (?:ha|is|are|was|were)", counts)
        assert sum(map(int, numbers)) == len(findings.claims)
        assert all(claim.about == replica.about for claim in replica.claims.values())
        # A verdict of numbers without a file would not be counted.
        assert replica.claims.keys() == replica.findings.claims.keys()
        assert all(claim.title for claim in replica.claims.values())
        sources = set[str]()
        for value in replica.findings.values.values():
            sources |= {*value.sources}
        for claim in replica.claims.values():
            sources |= {*claim.files}
        own = {file for run in replica.stored.runs for file in run.files}
        assert {file for file in sources if file.startswith(f"{study}/")} <= own
        # Writing and drawing take long, so one report of each number of claims is rendered.
        if (replica.about, len(findings.claims)) not in rendered:
            rendered.add((replica.about, len(findings.claims)))
            text = document_of(study, findings)
            assert "ridgepoint project" not in text and "nothing is measured" not in text
            assert replica.stored.file[-13:-5] in text
            for figure in findings.figures.values():
                panels = figure.drawing.panels
                assert len({panel.title for panel in panels}) == len(panels)
                assert render(figure.drawing, salt=figure.id).svg.startswith(b"<?xml")


@pytest.mark.parametrize(("verdict", "in_paper", "count"), [
    ("supported", "supported", "1 has the same verdict as in the paper"),
    ("supported", "refuted", "1 has the opposite verdict (It grows)"),
    ("undecided", "supported", "1 is undecided"),
    ("not measured", "supported", "1 was not measured"),
    ("refuted", "undecided", "1 is undecided in the paper, but decided here"),
])  # fmt: skip
def test_the_summary_counts_the_claims(verdict: Verdict, in_paper: Verdict, count: str) -> None:
    """A claim is the same by construction if the paper decides it with the same record."""
    claim = judge("grows", [exact_number("size", "1", 2, xeon().stored.file) > 1])
    claim = replace(claim, title="It grows", about="a CPU", verdict=verdict)
    row = Row(replace(claim, verdict=in_paper, files=("other",)), {xeon().label: claim})
    start = f"1 of the paper's claims is about a CPU. On {xeon().label}: "
    texts = summary([row], [xeon()]).removeprefix(start).split("; ")
    assert [text for text in texts if not text.startswith("none ")] == [count]
    line = summary([replace(row, paper=claim)], [xeon()])
    assert ("; 1 is decided in the paper" in line) == (verdict in ("supported", "refuted"))


@cache
def xeon_report() -> tuple[Findings, str]:
    """Return the findings and the document of a report on the Xeon's record."""
    findings = report(original("conv_scaling"), [xeon()])
    return findings, document_of("conv_scaling", findings)


def test_a_report_says_whether_the_paper_uses_its_records() -> None:
    _, text = xeon_report()
    assert "*, tested on a record that the paper uses" in text.partition("subtitle")[0]
    assert "This is no replication, since the paper uses this record, and no main claim was" in text
    assert "claims, stated in its title or abstract, a record of a CPU can test 4." in text
    assert "paper's numbers are of AMD EPYC (Zen 3), 1 thread, unless another" in plain(text)
    many = report(original("conv_scaling"), [*original("conv_scaling").machines])
    assert "tested on 11 records that the paper uses" in document_of("conv_scaling", many)


def test_a_report_says_what_the_record_lacks_and_how_to_repeat_its_run() -> None:
    """The run was ended before it measured peak rates again and counted executed work."""
    findings, text = xeon_report()
    facts, stored = findings.facts, xeon().stored
    (missing,) = (reason for reason in facts["missing"] if "the run was ended" in reason)
    assert missing.startswith("peak rates after the run, counts of executed work (lackey): the run")
    (lines,) = (block.splitlines() for block in facts["commands"])
    assert lines == [
        f"# {stored.file.removeprefix('conv_scaling/')}, 27 min",
        f"# {hashlib.sha256((ROOT / 'data' / stored.file).read_bytes()).hexdigest()}",
        f"git checkout {stored.record.code.commit}",
        "python -m experiments run conv_scaling --device cpu --threads 2",
    ]
    assert f"by commit `{commit_of_program()[:12]}`" in text
    assert "\npython build.py conv_scaling --replicate --data FOLDER" in text
    captions = re.findall(r"^::: \{#tbl-", text, re.MULTILINE)
    assert len(captions) == len(findings.tables)
    assert without_option(("run", "--label=a b", "--quick"), "--label") == ("run", "--quick")


def test_a_report_compares_each_claim_with_the_papers() -> None:
    """Two of ten counts of work agree, and two of six counts of pages.

    Where the paper's machine mapped the weights' pages too, this one met the other prediction.  The
    ratio's interval 1.25 to 2.17 is rounded outward.
    """
    findings, text = xeon_report()
    text, rows = plain(text), {}
    for row in findings.tables["tbl-claims"].rows:
        rows[str(row[0]).partition(". ")[2]] = row
    theory = "A CPU executes exactly the multiply-adds of theory, forward and backward"
    assert rows[f"{theory} (expected: 0)"][1] == "same in part"
    assert "(claim 2): 2 of the paper’s 10 comparisons; the others: forward of" in text
    assert "1): 2 of the paper’s 6 comparisons; the others: batch 16: 1,476 pages" in text
    pages = "A call maps the pages of its blocks less the reserve, to within a page"
    assert "batch 16: 1,458 pages without" in str(rows[f"{pages} (expected: −1 to 1)"][2])
    slower = "Returning freed memory slows a call by more than a tenth"
    _, agreement, ratio, _ = rows[f"{slower} (expected: above 1.1)"]
    assert agreement == "same" and "[1.2, 2.2] over 7 cases, batch 8 to 512" in str(ratio)
    assert f"![{slower}: 1.7 [1.2, 2.2] here; 1.80 [1.65, 2.09] in the paper on AMD" in text
    untested = findings.facts["untested"]
    pair = "about a pair of runs, which no record here can test"
    for reason in ("with --set subject=top at commit ", "with --set subject=cliff at ", pair):
        assert any(reason in words for words in untested)
    assert not any(title in rows for titles in untested.values() for title in titles)


def test_a_verdict_from_disturbed_processes_alone_says_so() -> None:
    """A ratio in pairs of processes decides although one series was disturbed, a time does not."""
    times = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5)
    quiet, disturbed = series(*(2 * t for t in times)), series(*times, disturbed=True)
    disturbed = replace(disturbed, name="busy")
    claim = replace(judge("id", [disturbed / quiet < 1]), title="It shrinks", about="a CPU")
    paper = original("conv_scaling")
    paper = replace(paper, findings=replace(paper.findings, claims={"id": claim}))
    for statement, ending, count in (
        (disturbed / quiet < 1, ", some cases on a busy machine", "in the paper (1 on a busy mach"),
        (disturbed > 0, ", on a busy machine", "; 1 is undecided (1 on a busy machine)"),
    ):
        own = judge("id", [statement])
        own = replace(own, title=claim.title, about=claim.about, files=(xeon().stored.file,))
        one = replace(xeon(), findings=replace(xeon().findings, claims={"id": own}))
        findings = report(paper, [one])
        ((_, _, result, _),) = findings.tables["tbl-claims"].rows
        assert str(result).endswith(ending) and count in findings.facts["summary"]
    assert "`--wait-quiet MINUTES`" in document_of("conv_scaling", findings)


@pytest.mark.parametrize(("id", "plan", "reason"), [
    ("cliff-predicted", "quick", "needs a run without --quick"),
    ("pages-announced", "quick", "needs a run with --set subject=top"),
    ("cliff-predicted", "full", "the record lacks cases or counts that the claim"),
])  # fmt: skip
def test_the_reason_of_an_unmeasured_claim_fits_the_record(id: str, plan: str, reason: str) -> None:
    """``plan``: plan of the run; a quick run measures fewer cases than a full one."""
    own, record, with_fields = xeon(), xeon().stored.record, msgspec.structs.replace
    record = with_fields(record, protocol=with_fields(record.protocol, plan=plan))
    claim = own.findings.claims["pages-announced"]
    findings = replace(own.findings, claims={id: replace(claim, id=id)})
    one = replace(own, stored=replace(own.stored, record=record), findings=findings)
    title = original("conv_scaling").findings.claims[id].title
    untested = report(original("conv_scaling"), [one]).facts["untested"]
    (titles,) = (titles for text, titles in untested.items() if text.startswith(reason))
    assert any(text.startswith(title) for text in titles)


def test_a_claim_that_is_undecided_in_the_paper_is_marked() -> None:
    paper = original("conv_scaling")
    claims = {**paper.findings.claims}
    claims["slower"] = replace(claims["slower"], verdict="undecided", statements=())
    paper = replace(paper, findings=replace(paper.findings, claims=claims))
    rows = report(paper, [xeon()]).tables["tbl-claims"].rows
    (agreement,) = (row[1] for row in rows if claims["slower"].title in str(row[0]))
    assert agreement == "undecided in the paper"


def test_claims_that_too_few_processes_leave_undecided_are_explained() -> None:
    """The first record has claims about four pairs of processes, and about single processes."""
    one = replica("inference_memory", "b17cc837")
    assert "far too long'" in str(report(original("inference_memory"), [one]).facts["untested"])
    reasons = reasons_of("inference_memory", one)
    interval = "undecided: the interval of 4 pairs of processes holds at 88"
    assert f"\n- Reason 1 (claim 1): {interval}" in reasons
    assert "expected above 1); undecided: only one process measured all series; " in reasons
    number = "time, tile 8 over tile 64: 11.5 in one process, expected above 1"
    assert f"at least 6 decide ({number})\n" in reasons
    reasons = reasons_of("backend_speedup", replica("backend_speedup", "8ee3ddb7"))
    assert "few processes measured it for an interval (samples 1438: 1.039 (1.017 to" in reasons
    assert ", expected below 1.25; and 6 more)\n- Reason" in reasons


def plain(text: str) -> str:
    """Replace all white space of a document by single blanks, and drop its escapes."""
    return " ".join(text.replace("\\", "").split())


def reasons_of(study: str, replica: Replica) -> str:
    """Print why claims of a record are contrary or undecided, with plain spaces."""
    text = document_of(study, report(original(study), [replica]))
    text = text.replace("\N{NO-BREAK SPACE}", " ")
    return text.partition("## Why claims are contrary")[2].partition("\n#")[0]


def test_means_are_compared_over_the_cases_that_all_runs_have() -> None:
    """The mean of 2, 4, 8 is 4; over batches 2 and 4, which the other run has, √8."""

    def mean(**ratios: float) -> Quantity:
        terms = [exact_number(f"time({name}) / time", "1", r, "f") for name, r in ratios.items()]
        return geometric_mean(*terms)

    long, short = mean(b2=2.0, b4=4.0, b8=8.0), mean(b4=4.0, b2=2.0, b1=1.0)
    for own in restrict_to_common_terms([long, short]):
        assert point_estimate(own) == pytest.approx(math.sqrt(8))
        assert describe_terms(own) == "2 cases, b2 to b4"
    assert restrict_to_common_terms([long, mean(b1=1.0)])[0] is long
    claims = [judge("grows", [quantity > 3]) for quantity in (long, short)]
    assert [claim.verdict for claim in on_common_cases(claims)] == ["refuted"] * 2


@pytest.mark.parametrize(("comparisons", "letter"), [(4, "A"), (3, "P"), (5, "A")])
def test_a_verdict_on_fewer_comparisons_agrees_in_part(comparisons: int, letter: str) -> None:
    """Letters: A agrees, P agrees in part, B is the same by construction, C is contrary.

    The paper compares four numbers.
    """
    statements = [exact_number("size", "1", 2, "file") > 1] * 5
    paper = judge("grows", statements[:4])
    laptop = replace(judge("grows", statements[:comparisons]), files=("other",))
    whole = replace(paper, files=("other",))
    row = Row(paper, {"laptop": laptop, "whole": whole, "own": paper})
    assert row.letters == {"laptop": letter, "whole": "A", "own": "B"} and row.outcome == letter
    of_other_numbers = judge("grows", [exact_number("mass", "1", 2, "other") > 1] * 4)
    assert Row(paper, {"laptop": of_other_numbers}).outcome == "P"
    contrary = Row(paper, {"laptop": replace(paper, verdict="refuted", measured_count=comparisons)})
    assert contrary.outcome == "C"


def test_a_table_of_the_study_may_have_the_name_of_a_table_of_the_report() -> None:
    names = ("setup", "claims", "machines", "records", "open")
    tables = {f"tbl-{name}": table_of(f"tbl-{name}", [{"Setting": "one"}]) for name in names}
    one = replace(xeon(), findings=replace(xeon().findings, tables=tables))
    findings = report(original("conv_scaling"), [one], [])
    assert {f"tbl-paper-{name}" for name in names} < {*findings.tables}
    text = document_of("conv_scaling", findings)
    assert all(text.count(f"{{#{id}") == 1 for id in findings.tables)


def test_labels_of_machines_with_equal_names_contain_the_digest_of_the_record() -> None:
    first = replicas("conv_scaling")[0].stored
    second = replace(first, file=f"{first.file[:-13]}12345678.json")
    label, digest = first.record.environment.label, first.file[-13:-5]
    assert replicate.distinct_labels([first]) == [label]
    labels = [f"{label}, record {digest}", f"{label}, record 12345678"]
    assert replicate.distinct_labels([first, second]) == labels


def test_copied_records_count_once() -> None:
    unique, copies = without_copies([xeon(), replace(xeon(), label="Copied")])
    assert unique == [xeon()]
    reason = f"Copied is not counted: it has the same samples as {xeon().label}"
    assert copies == {xeon().stored.file: reason}
    for study in MEASURED_STUDIES:
        assert without_copies(replicas(study))[1] == {}


@pytest.mark.parametrize(("factors", "fields", "reason"), [
    ([1.0] * 6, {}, "the same times up to a factor as A"),
    ([1.02] * 6, {}, "the same times up to a factor as A"),
    ([1.02, 1.02, 1.02, 1.02, 1.5, 1.02], {}, "the same times up to a factor as A"),
    ([1.02, 1.021, 1.022, 1.02, 1.5, 1.023], {}, ""),
    ([1.02] * 4, {}, ""),
    ([1.02] * 4, {"key": "other", "second": 1}, "the same end time as A"),
    ([1.02] * 4, {"hash": "0"}, "a commit or code hash of zeros, which no program has"),
])  # fmt: skip
def test_a_copy_has_the_samples_of_another_record_or_times_in_one_ratio(
    factors: list[float], fields: Any, reason: str
) -> None:
    """A sixth of the cases may differ; four cases are too few to tell."""

    def record(scale: list[float], second: int = 2, key: str = "a", hash: str = "a") -> Record:
        """Return a record whose case ``n`` lasts ``n`` s times its scale."""
        cases = [factory.case(n, time=[n * s]) for n, s in enumerate(scale, start=1)]
        plain = factory.record(cases, factory.environment(key), peaks=())
        code = msgspec.structs.replace(plain.code, commit=hash * 40, measuring_code="a" * 64)
        finished = f"2026-12-01T00:00:0{second}Z"
        return msgspec.structs.replace(plain, code=code, finished=finished)

    detector = CopyDetector()
    assert detector.reason("A", record([1.0, 1.0, 1.0, 1.0, 1.0, 1.01], second=1)) == ""
    assert detector.reason("Second", record(factors, **fields)) == (reason and f"has {reason}")


def test_the_atlas_has_every_machine_and_counts_those_that_the_paper_does_not_describe() -> None:
    """The atlas is the site's table of claims by machines."""
    chosen, findings = compute_usable("training_roofline", ROOT / "data")
    # Without its role in the paper, a record is of a machine that the paper does not describe.
    *roles, (_, file) = chosen.inputs.roles.items()
    assert file.endswith("893e6327.json")
    chosen = replace(chosen, inputs=replace(chosen.inputs, roles=dict(roles)))
    atlas = replicate.atlas_of("training_roofline", ROOT / "data", chosen, findings)
    line = "Measured on 1 further machine. 1 of the paper's claims is about a GPU. On "
    assert atlas["line"].startswith(line)
    letters = set[str]()
    for claim in atlas["claims"]:
        assert len(claim["letters"]) == len(atlas["machines"])
        letters |= {*claim["letters"]}
    # report.paper.replicas explains the letters; empty: the claim is not about this machine.
    assert letters <= {"", "A", "B", "P", "C", "U", "N", "D"} and {"", "B"} <= letters, letters


def test_a_report_and_its_study_may_have_no_records() -> None:
    paper = original("conv_scaling")
    findings = report(paper, [], ["data/a.json: it is cut off."])
    assert findings.facts["summary"].startswith("No claim was tested")
    assert "it is cut off" in document_of("conv_scaling", findings)
    new = replace(paper, records={}, machines=[], headline=())
    assert "Replication of" in document_of("conv_scaling", report(new, [xeon()]))


@every_study
def test_the_map_of_many_machines_has_a_letter_in_each_cell(study: str) -> None:
    findings = report(original(study), replicas(study), [])
    text = document_of(study, findings)
    assert "tbl-machines" in text and "\ngit checkout " in text
    (grid,) = findings.figures["fig-map"].drawing.panels
    assert isinstance(grid, Grid) and len({*grid.names}) == len(grid.names) == len(replicas(study))
    assert render(findings.figures["fig-map"].drawing, salt="map").svg.startswith(b"<?xml")
    cells = [cell for row in grid.cells for cell in row if cell]
    counts = "; ".join(str(row[1]) for row in findings.tables["tbl-claims"].rows)
    assert sum(map(int, re.findall(r"(\d+) [ABPCUND]", counts))) == len(cells)
    if study == "conv_scaling":
        assert "B: is decided in the paper from this same record" in text
        assert re.fullmatch(r"\d+ records of \d+ machines", findings.facts["where"])
        # The number of the reason follows the letter.
        reasons = {int(cell[1:]) for cell in cells if cell[1:]}
        assert reasons == {*range(1, len(findings.facts["reasons"]) + 1)}
        assert "since several records are of one host" in text
        assert "the geometric mean of times" in text and "batch 8 to 512" in text
        (dots,) = findings.figures["fig-effects"].drawing.panels
        assert isinstance(dots, Dots)
        effects = [x for x in dots.series[0].x if x is not None]
        assert effects == sorted(effects, reverse=True) and len(effects) == 6
