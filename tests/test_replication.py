"""Replication reports: counted claims, predicted effects, and messages to readers."""

import hashlib
import math
import random
import re
from dataclasses import replace
from functools import cache

import msgspec
import pytest

from figures.panels import Dots, Grid
from figures.render import render
from report.core.records.pooling import without_option
from report.core.records.record import Record
from report.core.statistics.estimates import next_effect, student_quantile
from report.engine.steps import ROOT, commit_of_program
from report.engine.writing import render_document
from report.evaluation.gather import compute_usable
from report.evaluation.replicate import (
    atlas_of,
    choose_for_report,
    distinct_labels,
    read_original,
    replicas_of,
)
from report.instruments.gates import CopyDetector
from report.paper.claims import judge, on_common_cases
from report.paper.findings import Findings, Inputs
from report.paper.replicas import Replica, Row, compare, summary, without_copies
from report.paper.replication import report
from report.paper.tables import table_of
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, Sampled, Statement, absent, exact, measured
from report.quantity.intervals import Process
from report.quantity.operations import geometric_mean, over_common_terms, range_of_terms
from report.quantity.ranges import Range
from report.quantity.verdicts import Verdict
from report.studies import STUDIES
from tests import factory
from tests.degraded import on_every_series

MEASURED = [study for study in STUDIES if any((ROOT / "data" / study).glob("*.json"))]
every_study = pytest.mark.parametrize("study", MEASURED)

original = cache(read_original)


@cache
def inputs_of(study: str) -> Inputs:
    return choose_for_report(study, ROOT / "data").inputs


@cache
def replicas(study: str) -> list[Replica]:
    compared, refused = replicas_of(study, inputs_of(study))
    assert refused == {}
    return compared


def xeon() -> Replica:
    (replica,) = (r for r in replicas("conv_scaling") if "aac85b" in r.stored.file)
    return replica


# -------------------------------------------------------------------------------- the next machine


def test_the_predicted_effect_by_hand() -> None:
    """Logarithms −2 … 2: mean 0, s = √2.5, √(1 + 1/5) and t = 2.7764 of 4 degrees of freedom."""
    for freedom, quantile in ((4, 2.776), (7, 2.365), (27, 2.052)):
        assert student_quantile(0.975, freedom) == pytest.approx(quantile, abs=6e-4)
    found = next_effect([math.exp(n) for n in (-2, -1, 0, 1, 2)])
    assert found is not None
    half = 2.7764 * math.sqrt(2.5) * math.sqrt(1.2)
    assert [math.log(end) for end in found] == pytest.approx([-half, half], rel=1e-3)
    assert next_effect([1.0] * 4) is None and next_effect([1.0, 2.0, 3.0, 4.0, 0.0]) is None


@pytest.mark.parametrize("count", [5, 8, 28])
@pytest.mark.parametrize("kind", ["normal", "skewed", "two groups"])
def test_prediction_intervals_reach_their_level(kind: str, count: int) -> None:
    """docs/how-numbers-are-made.md has the shares of 2,000 trials; these few allow three errors."""
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


def series(*medians: float, disturbed: bool = False) -> Sampled:
    processes = [Process("run", str(n), (m,), disturbed) for n, m in enumerate(medians)]
    found = measured("time", "1", processes, "file")
    assert isinstance(found, Sampled)
    return found


def reason(statement: Statement) -> str:
    (found,) = judge("id", [statement]).reasons
    return found


def test_an_undecided_claim_says_how_many_processes_would_decide() -> None:
    """Six medians 0.9 to 1.5 around 1.2 reach 0.3 below it; a bound 0.1 below needs 6 · 3² = 54."""
    spread = (0.9, 1.1, 1.2, 1.2, 1.3, 1.5)
    text = reason(series(*spread) > 1.1)
    assert "of 6 processes contains the bound 1.1; at this scatter about 54 would decide" in text
    assert "not even 1,000" in reason(series(*spread) > 1.2)
    assert "of 4 processes holds at 88" in reason(series(1.2, 1.3, 1.3, 1.4) > 1.1)
    assert "about 6 would decide" in reason(series(1.2, 1.3, 1.3, 1.4) > 1.1)
    assert "only one process measured it; at least 6 decide" in reason(series(1.2) > 1.1)
    assert "quiet machine" in reason(series(*spread, disturbed=True) > 1.1)


def test_failed_comparisons_are_named_with_numbers() -> None:
    pages = [exact(f"pages at {n}", "1", share, "file") for n, share in ((8, 1.0), (16, 0.9785))]
    claim = judge("id", [p.near(1, 0.02) for p in pages for _ in range(2)])
    assert (claim.measured, claim.expected) == (
        "2 of 4 hold, 2 fail: all 4 are 0.9785 (pages at 16) to 1 (pages at 8)",
        "0.98 to 1.02",
    )
    undecided = judge("id", [series(1.2 + n) > 1 for n in range(4)])
    assert undecided.measured.startswith("0 of 4 hold, 4 undecided: all 4 are 1.2")
    failing = "pages at 16: 0.9785, expected 0.98 to 1.02"
    assert claim.reasons == (f"refuted ({failing}; {failing})",)
    assert claim.files == ("file",) and claim.effect is None
    missing = Statement(absent("faults", "1", "not counted"), Range())
    assert judge("id", [pages[0] > 0, missing]).reasons == ("not counted (faults)",)
    assert judge("id", [missing]).reasons == ("not counted",)


# ------------------------------------------------------------------------------- committed records


def printed(study: str, found: Findings) -> str:
    """Render the document of a report; typed numbers and missing values are errors."""
    room, papers = f"{study}-replication", ROOT / "templates" / "papers"
    commit = commit_of_program()
    return render_document(room, ROOT / "data", papers, found, {}, commit=commit).text


@every_study
def test_the_report_of_a_record_counts_its_claims_and_holds_nothing_of_another(study: str) -> None:
    paper, shown = original(study), set[tuple[str, int]]()
    for replica in replicas(study):
        found = report(paper, [replica], [])
        line = found.facts["summary"]
        counted = r"(\d+) (?:of \d+ claims|by con|same in part|contrary|undecided|not measured)"
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
            assert replica.stored.file[-13:-5] in text
            for figure in found.figures.values():
                assert render(figure.drawing, salt=figure.id).svg.startswith(b"<?xml")


@pytest.mark.parametrize(("verdict", "of_paper", "counts"), [
    ("supported", "supported", "1 of 1 claims, 0 contrary, 0 undecided, 0 not measured"),
    ("supported", "refuted", "0 of 1 claims, 1 contrary (It grows), 0 undecided, 0 not measured"),
    ("undecided", "supported", "0 of 1 claims, 0 contrary, 1 undecided, 0 not measured"),
    ("not measured", "supported", "0 of 1 claims, 0 contrary, 0 undecided, 1 not measured"),
    ("refuted", "undecided", "0 of 1 claims, 0 contrary, 0 undecided, 0 not measured, "
     "1 undecided in the paper"),
])  # fmt: skip
def test_the_first_line_counts_the_claims(verdict: Verdict, of_paper: Verdict, counts: str) -> None:
    claim = judge("grows", [exact("size", "1", 2, xeon().stored.file) > 1])
    claim = replace(claim, title="It grows", about="a CPU", verdict=verdict)
    row = Row(replace(claim, verdict=of_paper, files=("other",)), {xeon().label: claim})
    about = f" that a record of a CPU tests: same verdict as the paper on {xeon().label}"
    line = summary([row], [xeon()])
    assert {*line.replace(about, "").split("; ")} == {*counts.split(", ")}
    decides = verdict in ("supported", "refuted")
    by_construction = summary([replace(row, paper=claim)], [xeon()])
    assert ("; 1 by construction" in by_construction) == decides


def test_a_reader_learns_what_is_missing_and_what_differs_from_the_paper() -> None:
    """A run with two threads to 1,024 images, cut off before its ceilings and its counters."""
    found = report(original("conv_scaling"), [xeon()])
    facts, text = found.facts, printed("conv_scaling", found)
    (missing,) = (text for text in facts["missing"] if "the run was ended" in text)
    assert missing.startswith("peak rates after the run, counts of executed work (lackey): the run")
    assert "*, tested on a record that the paper uses" in text.partition("subtitle")[0]
    many = report(original("conv_scaling"), [*original("conv_scaling").machines])
    assert "tested on 11 records that the paper uses" in printed("conv_scaling", many)
    assert "This is no replication, since the paper uses this record; no main claim of the" in text
    assert "main* claims, in its title or abstract, a record can test: 4; tested: none." in text
    stored, command = (
        xeon().stored,
        "python -m experiments run conv_scaling --device cpu --threads 2",
    )
    (lines,) = (block.splitlines() for block in facts["commands"])
    assert lines[0] == f"# {stored.file.removeprefix('conv_scaling/')}, 27 min"
    assert lines[1] == f"# {hashlib.sha256((ROOT / 'data' / stored.file).read_bytes()).hexdigest()}"
    assert lines[2:] == [f"git checkout {stored.record.code.commit}", command]
    assert f"by commit `{commit_of_program()[:12]}`" in text
    assert "\npython build.py conv_scaling --replicate --data FOLDER" in text
    pair = "about a pair of runs, which no single record tests"
    for needs in ("needs --set subject=top at commit ", "needs --set subject=cliff at ", pair):
        assert any(text.startswith(needs) for text in facts["untested"])
    rows = {str(row[0]).partition(". ")[2]: row for row in found.tables["tbl-claims"].rows}
    theory = "A CPU executes exactly the multiply-adds of theory, forward and backward"
    assert rows[f"{theory} (expected: 0)"][1] == "same in part"
    assert "(claim 2): 2 of the paper's 10 comparisons; the others: forward of" in plain(text)
    # Where the paper's machine mapped the weights' pages too, this one met the other prediction.
    assert "1): 2 of the paper's 6 comparisons; the others: batch 16: 1,476 with" in plain(text)
    title = (
        "A call maps the pages of its blocks less the reserve, to within a page (expected: −1 to 1)"
    )
    assert "batch 16: 1,458 without the weights' copy" in str(rows[title][2])
    title = "Returning freed memory slows a call by more than a tenth"
    slower = rows[f"{title} (expected: above 1.1)"]
    assert slower[1] == "same"
    assert "[1.2, 2.2] over 7 cases, batch 8 to 512" in str(slower[2]), "1.25 to 2.17, outward"
    cases = "7 cases, batch 8 to 512, 8 processes a case; in the paper supported"
    assert f" {title}: here supported: 1.7 [1.2, 2.2] over {cases}: 1.80" in plain(text)
    assert without_option(("run", "--label=a b", "--quick"), "--label") == ("run", "--quick")
    assert "paper's numbers are of AMD EPYC (Zen 3), 1 thread, unless another" in plain(text)
    assert not any(rows.get(title) for titles in facts["untested"].values() for title in titles)
    captions = re.findall(r"^::: \{#tbl-", text, re.MULTILINE)
    assert len(captions) == len(found.tables)


def test_a_verdict_from_disturbed_processes_alone_says_so() -> None:
    """A ratio in pairs of processes decides although one series was disturbed, a time does not."""
    times = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5)
    quiet, noisy = series(*(2 * t for t in times)), series(*times, disturbed=True)
    noisy = replace(noisy, name="busy")
    claim = replace(judge("id", [noisy / quiet < 1]), title="It shrinks", about="a CPU")
    paper = original("conv_scaling")
    changed = replace(paper, findings=replace(paper.findings, claims={"id": claim}))
    for statement, ending, line in (
        (
            noisy / quiet < 1,
            ", some cases on a busy machine",
            " 2 threads (1 on a busy machine)",
        ),
        (noisy > 0, ", on a busy machine", "1 undecided (1 on a busy machine)"),
    ):
        own = judge("id", [statement])
        own = replace(own, title=claim.title, about=claim.about, files=(xeon().stored.file,))
        one = replace(xeon(), findings=replace(xeon().findings, claims={"id": own}))
        found = report(changed, [one])
        ((_, _, in_table, _),) = found.tables["tbl-claims"].rows
        assert str(in_table).endswith(ending) and line in found.facts["summary"]


@pytest.mark.parametrize(
    ("id", "plan", "reason"),
    [
        ("cliff-predicted", "quick", "needs a full run, without --quick"),
        ("pages-announced", "quick", "needs --set subject=top"),
        ("cliff-predicted", "full", "the record lacks cases or counts that the claim"),
    ],
)
def test_the_reason_why_a_claim_is_not_measured_is_true_of_the_record(
    id: str, plan: str, reason: str
) -> None:
    own, record, changed = xeon(), xeon().stored.record, msgspec.structs.replace
    record = changed(record, protocol=changed(record.protocol, plan=plan))
    claim = own.findings.claims["pages-announced"]
    findings = replace(own.findings, claims={id: replace(claim, id=id)})
    one = replace(own, stored=replace(own.stored, record=record), findings=findings)
    title = original("conv_scaling").findings.claims[id].title
    untested = report(original("conv_scaling"), [one]).facts["untested"]
    (titles,) = (titles for text, titles in untested.items() if text.startswith(reason))
    assert any(text.startswith(title) for text in titles)


def test_what_the_paper_leaves_undecided_and_what_one_process_cannot_decide_is_explained() -> None:
    paper = original("conv_scaling")
    claims = {**paper.findings.claims}
    claims["slower"] = replace(claims["slower"], verdict="undecided", statements=())
    paper = replace(paper, findings=replace(paper.findings, claims=claims))
    rows = report(paper, [xeon()]).tables["tbl-claims"].rows
    (agreement,) = (row[1] for row in rows if claims["slower"].title + " (" in str(row[0]))
    assert agreement == "undecided in the paper"
    (epyc,) = (r for r in replicas("inference_memory") if "b17cc837" in r.stored.file)
    reasons = reasons_of("inference_memory", epyc)
    interval = "undecided: the interval of 4 pairs of processes holds at 88"
    assert f"\n- Reason 1 (claim 1): {interval}" in reasons
    assert "expected above 1); undecided: only one process measured all series; " in reasons
    assert (
        "at least 6 decide (time, tile 8 over tile 64: 11.5 in one process, expected above 1)\n"
        in reasons
    )
    (gpu,) = (r for r in replicas("backend_speedup") if "8ee3ddb7" in r.stored.file)
    reasons = reasons_of("backend_speedup", gpu)
    assert "would decide (samples 1438: 1.039 (1.017 to 1.060), expected below 1.25; " in reasons
    assert ", expected below 1.25; and 6 more)\n- Reason" in reasons


def plain(text: str) -> str:
    """Replace all white space of a document by single blanks, and drop its escapes."""
    return " ".join(text.replace("\\", "").split())


def reasons_of(study: str, replica: Replica) -> str:
    """Print why claims of a record are contrary or undecided, with plain spaces."""
    text = printed(study, report(original(study), [replica])).replace("\N{NO-BREAK SPACE}", " ")
    return text.partition("## Why claims are contrary")[2].partition("\n#")[0]


def test_means_are_compared_over_the_cases_that_all_runs_have() -> None:
    """The mean of 2, 4, 8 is 4; over batches 2 and 4, which the other run has, √8."""

    def mean(**ratios: float) -> Quantity:
        terms = [exact(f"time({name}) / time", "1", r, "f") for name, r in ratios.items()]
        return geometric_mean(*terms)

    long, short = mean(b2=2.0, b4=4.0, b8=8.0), mean(b4=4.0, b2=2.0, b1=1.0)
    for own in over_common_terms([long, short]):
        assert point(own) == pytest.approx(math.sqrt(8))
        assert range_of_terms(own) == "2 cases, b2 to b4"
    assert over_common_terms([long, mean(b1=1.0)])[0] is long
    claims = [judge("grows", [quantity > 3]) for quantity in (long, short)]
    assert [claim.verdict for claim in on_common_cases(claims)] == ["refuted"] * 2


@pytest.mark.parametrize(("known", "letter"), [(4, "A"), (3, "P"), (5, "A")])
def test_a_verdict_on_fewer_comparisons_than_the_papers_agrees_in_part(
    known: int, letter: str
) -> None:
    statements = [exact("size", "1", 2, "file") > 1] * 5
    paper = judge("grows", statements[:4])
    others, laptop = replace(paper, files=("other",)), judge("grows", statements[:known])
    laptop = replace(laptop, files=("other",))
    row = Row(paper, {"laptop": laptop, "whole": others, "own": paper})
    assert row.letters == {"laptop": letter, "whole": "A", "own": "B"} and row.outcome == letter
    different = replace(judge("grows", [exact("mass", "1", 2, "other") > 1] * 4))
    assert Row(paper, {"laptop": different}).outcome == "P"
    contrary = Row(paper, {"laptop": replace(paper, verdict="refuted", measured_count=known)})
    assert contrary.outcome == "C"


def test_a_table_of_the_study_may_have_the_name_of_a_table_of_the_report() -> None:
    names = ("setup", "claims", "machines", "records", "open")
    ids = [f"tbl-{name}" for name in names]
    tables = {id: table_of(id, [{"Setting": "one"}]) for id in ids}
    one = replace(xeon(), findings=replace(xeon().findings, tables=tables))
    found = report(original("conv_scaling"), [one], [])
    assert {f"tbl-paper-{name}" for name in names} < {*found.tables}
    text = printed("conv_scaling", found)
    assert all(text.count(f"{{#{id}") == 1 for id in found.tables)


def test_equal_names_of_machines_are_told_apart_by_their_records() -> None:
    first = replicas("conv_scaling")[0].stored
    label = first.record.environment.label
    same = [first, replace(first, file=f"{first.file[:-13]}12345678.json")]
    assert distinct_labels(same[:1]) == [label]
    ends = (first.file[-13:-5], "12345678")
    assert distinct_labels(same) == [f"{label}, record {end}" for end in ends]


def test_copied_records_count_once() -> None:
    unique, copies = without_copies([xeon(), replace(xeon(), label="Copied")])
    assert unique == [xeon()]
    reason = f"Copied is not counted: it has the same samples as {xeon().label}"
    assert copies == {xeon().stored.file: reason}
    for study in MEASURED:
        assert without_copies(replicas(study))[1] == {}


@pytest.mark.parametrize(("factors", "fields", "reason"), [
    ([1.0] * 6, {}, "the same times up to a factor as A"),
    ([1.02] * 6, {}, "the same times up to a factor as A"),
    ([1.02, 1.02, 1.02, 1.02, 1.5, 1.02], {}, "the same times up to a factor as A"),
    ([1.02, 1.021, 1.022, 1.02, 1.5, 1.023], {}, ""),
    ([1.02] * 4, {}, ""),
    ([1.02] * 4, {"key": "other", "finished": "2026-12-01T00:00:01Z"}, "the same end time as A"),
    ([1.02] * 4, {"hash": "0"}, "a commit or code hash of zeros, which no program has"),
])  # fmt: skip
def test_a_copy_has_the_samples_of_another_record_or_times_in_one_ratio(
    factors: list[float], fields: dict[str, str], reason: str
) -> None:
    """A sixth of the cases may differ; four cases are too few to tell."""

    def record(
        scale: list[float], finished: str = "2026-12-01T00:00:02Z", key: str = "", hash: str = "a"
    ) -> Record:
        old, changed = xeon().stored.record, msgspec.structs.replace
        return changed(
            old,
            ceilings=(),
            finished=finished,
            code=changed(old.code, commit=hash * 40),
            environment=changed(old.environment, key=key or old.environment.key),
            cases=tuple(factory.case(n, time=[n * s]) for n, s in enumerate(scale, start=1)),
        )

    detector = CopyDetector()
    end = "2026-12-01T00:00:01Z"
    assert detector.reason("A", record([1.0, 1.0, 1.0, 1.0, 1.0, 1.01], end)) == ""
    assert detector.reason("Second", record(factors, **fields)) == (reason and f"has {reason}")


def test_the_atlas_has_every_machine_and_counts_those_that_the_paper_does_not_describe() -> None:
    chosen, findings = compute_usable("conv_scaling", ROOT / "data")
    atlas = atlas_of("conv_scaling", ROOT / "data", chosen, findings)
    rows = {claim["title"]: claim["letters"] for claim in atlas["claims"]}
    assert {len(row) for row in rows.values()} == {len(atlas["machines"])}
    letters = [letter for row in rows.values() for letter in row]
    # report.paper.replicas explains the letters; empty: the claim is not about this machine.
    assert set(letters) <= {"", "A", "B", "P", "C", "U", "N", "D"} and {"", "A"} <= set(letters)
    line = r"\w+ on \d+ further machines\. \d+ of \d+ claims .*\. \d+ further records"
    assert re.match(line, atlas["line"])
    chosen, findings = compute_usable("training_roofline", ROOT / "data")
    # Without its last role, that record is of a machine that the paper does not describe.
    *roles, (_, undecided) = chosen.inputs.roles.items()
    assert undecided.endswith("893e6327.json")
    chosen = replace(chosen, inputs=replace(chosen.inputs, roles=dict(roles)))
    line = atlas_of("training_roofline", ROOT / "data", chosen, findings)["line"]
    assert line.startswith("Measured on 1 further machine. 0 of 1 claims that a record of a GPU")


def test_scrambled_samples_lower_the_number_of_agreeing_claims() -> None:
    """Each series gets the samples of others: what still agrees has no samples behind it."""
    numbers = random.Random(1)

    def scrambled(name: str, samples: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(sample * 10 ** numbers.uniform(-2, 2) for sample in samples)

    paper, inputs = original("conv_scaling"), inputs_of("conv_scaling")
    (own,) = (item for item in inputs.records if item.file == paper.machines[0].stored.file)
    wrong = on_every_series(scrambled)(replace(inputs, records=(replace(own, others=()),)))
    replicas, _ = replicas_of("conv_scaling", wrong)
    rows = compare(replicas, paper.findings).values()
    assert int(summary(rows, replicas).partition(" ")[0]) <= 1


def test_a_report_of_no_record_says_0_of_0_and_a_new_study_has_a_report() -> None:
    paper = original("conv_scaling")
    found = report(paper, [], ["data/a.json: it is cut off."])
    assert found.facts["summary"].startswith("0 of 0 claims")
    assert "it is cut off" in printed("conv_scaling", found)
    new = replace(paper, records={}, machines=[], headline=())
    assert "Replication of" in printed("conv_scaling", report(new, [xeon()]))


@every_study
def test_the_map_of_many_machines_is_readable_without_colour(study: str) -> None:
    found = report(original(study), replicas(study), [])
    text = printed(study, found)
    assert "tbl-machines" in text and "\ngit checkout " in text
    (grid,) = found.figures["fig-map"].drawing.panels
    assert isinstance(grid, Grid) and len({*grid.names}) == len(grid.names) == len(replicas(study))
    assert render(found.figures["fig-map"].drawing, salt="map").svg.startswith(b"<?xml")
    letters = [letter for row in grid.cells for letter in row if letter]
    cells = "; ".join(str(cell) for row in found.tables["tbl-claims"].rows for cell in row[1:2])
    assert sum(map(int, re.findall(r"(\d+) [ABPCUND]", cells))) == len(letters)
    if study == "conv_scaling":
        assert "B: the same by construction" in text
        assert re.fullmatch(r"\d+ records of \d+ machines", found.facts["where"])
        reasons = {int(cell[1:]) for row in grid.cells for cell in row if cell[1:]}
        assert reasons == {*range(1, len(found.facts["reasons"]) + 1)}
        assert "since several records are of one host" in text
        assert "the geometric mean of a call" in text and "batch 8 to 512" in text
        (dots,) = found.figures["fig-effects"].drawing.panels
        assert isinstance(dots, Dots)
        drawn = [x for x in dots.series[0].x if x is not None]
        assert drawn == sorted(drawn, reverse=True) and len(drawn) == 6
