"""Requirements of every study, also with incomplete records."""

import re
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import combinations
from typing import Any

import msgspec
import pypandoc
import pytest

from figures.render import render
from report.commands.check import read_pins, record_names
from report.core.errors import StudyError
from report.core.records.layers import at_batch
from report.core.records.store import Stored
from report.core.statistics.estimates import Estimate
from report.engine.steps import ROOT
from report.evaluation.gather import compute, compute_usable
from report.paper.findings import Findings, Inputs
from report.paper.manuscript import Manuscript
from report.paper.pins import changed_items, pins_of
from report.studies import STUDIES
from tests import degraded
from tests.papers import assert_whole, render_paper, verdicts

#: Studies with records of this project, and studies with any records; a new study has none.
WITH_OWN_RECORDS = [study for study in STUDIES if any((ROOT / "data" / study).glob("*.json"))]
WITH_RECORDS = [study for study in STUDIES if any((ROOT / "data" / study).rglob("*.json"))]
every_study = pytest.mark.parametrize("study", STUDIES)
every_measured_study = pytest.mark.parametrize("study", WITH_RECORDS)
every_study_of_own_records = pytest.mark.parametrize("study", WITH_OWN_RECORDS)

VERDICTS = ("supported", "refuted")
#: Claims that may be decided although times are noise: claims about bytes, pages and blocks; a
#: claim about the scatter of times; and a claim about theory divided by time.
DECIDED_WITHOUT_TIME = {
    "pages-follow", "cliff-predicted", "peaks-exact",
    "precision-costs", "limits-within", "both-save", "right-in-bfloat16",
    "bunches-predict", "more-pages-without-gradients", "gains-as-predicted", "gains-change",
}  # fmt: skip
#: Claims about ceilings or wrong results, which need no samples of a record.
DECIDED_WITHOUT_SAMPLES = {"right-in-bfloat16", "gains-as-predicted"}


@cache
def findings(study: str, fault: str | None = None) -> Findings:
    """Compute a study from a part of its committed records, with a fault of ``DEGRADED``."""
    inputs = degraded.thinned_inputs(degraded.committed_inputs(study))
    return compute(study, degraded.DEGRADED[fault](inputs) if fault else inputs)


@cache
def paper(study: str, fault: str | None = None) -> Manuscript:
    return render_paper(study, findings(study, fault))


def assert_described(study: str, fault: str | None) -> None:
    """Assert that values, tables and claims are described.

    Only with a fault may a claim name a value that the paper lacks.
    """
    content = paper(study, fault).findings
    for value in content.values.values():
        assert value.name and value.unit and value.formula, value.id
        if isinstance(value.number, Estimate):
            assert value.number.low <= value.number.value <= value.number.high, value.id
    for table in content.tables.values():
        assert {len(row) for row in table.rows} <= {len(table.columns)}, table.id
    for claim in content.claims.values():
        assert claim.because.strip() and claim.title, claim.id
        assert {*claim.numbers} <= content.values.keys() or fault, claim.id


def decided_claims(content: Findings) -> set[str]:
    return {id for id, claim in content.claims.items() if claim.verdict in VERDICTS}


@every_study
def test_the_package_of_a_study_declares_only_attachments(study: str) -> None:
    package = import_module(f"report.studies.{study}")
    constants = {name for name in vars(package) if name.isupper()}
    assert constants <= {"ATTACHMENTS"}, "a misspelt name would read no file"


@every_study
def test_the_folder_of_a_study_has_one_module_or_seven(study: str) -> None:
    """A new study is one module; all larger studies have the same seven modules."""
    files = {"subject", "runs", "theory", "results", "figures", "source"}
    folder = ROOT / "report" / "studies" / study
    names = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert names in ({"study"}, {"study", *files})


@every_study
def test_a_paper_without_records_is_complete_and_says_so(study: str) -> None:
    assert_described(study, "no record")
    text = assert_whole(study, paper(study, "no record"))
    content = findings(study, "no record")
    assert not content.facts["measured"]
    assert "not measured" in {claim.verdict for claim in content.claims.values()}
    reasons = [c.because for c in content.claims.values() if c.because.startswith("no run of")]
    assert not any("expected" in reason for reason in reasons), "the reason contains a bound"
    assert "No run of the experiment is in the data directory" in text


@every_measured_study
def test_numbers_equal_the_pins(study: str) -> None:
    """After a change that is understood, ``build.py --accept`` pins the new numbers."""
    chosen, content = compute_usable(study, ROOT / "data")
    new, pinned = pins_of(content, record_names(chosen.origin)), read_pins(study, ROOT / "data")
    assert pinned, f"pin its numbers: python build.py {study} --accept"
    assert new.records == pinned.records and new.audits == pinned.audits
    assert [item.sentence for item in changed_items(pinned, new)] == []


@every_measured_study
@pytest.mark.parametrize("fault", [None, *degraded.DEGRADED])
def test_a_paper_of_faulty_records_is_complete(study: str, fault: str | None) -> None:
    assert_described(study, fault)
    assert_whole(study, paper(study, fault))


@pytest.mark.parametrize("study", ["backend_speedup", "conv_profiling"])
def test_papers_state_that_an_attachment_is_missing(study: str) -> None:
    content = compute(study, degraded.without_attachments(degraded.committed_inputs(study)))
    text = f"{assert_whole(study, content)} {content.as_json(study, ())}"
    assert "a file is not beside the record" in text


@every_study
@pytest.mark.parametrize("fault", ["no cases", "no samples", "all out of memory"])
def test_a_record_without_samples_decides_no_further_claim(study: str, fault: str) -> None:
    claims = decided_claims(findings(study, fault)) - DECIDED_WITHOUT_SAMPLES
    assert claims <= decided_claims(findings(study, "no record"))


@every_study
def test_terms_explain_all_differences_and_all_tables_and_figures_are_printed(study: str) -> None:
    content, text = findings(study), paper(study).text
    assert [item.id for item in content.reconciliations.values() if not item.explained] == []
    assert [id_ for id_ in (*content.tables, *content.figures) if f"{{#{id_}" not in text] == []
    for figure in content.figures.values():
        assert render(figure.drawing, salt=figure.id).svg.startswith(b"<?xml"), figure.id


@every_study_of_own_records
def test_unknown_factors_and_levels_are_refused_or_harmless(study: str) -> None:
    """Factors describe a case, such as its batch size; their values are levels."""
    inputs = degraded.thinned_inputs(degraded.committed_inputs(study))
    inputs = replace(inputs, imported=(), table=lambda name, row: ())  # no record's factors
    stored = inputs.records[0]
    cases = stored.record.cases
    first_cases = [cases[index] for index in degraded.first_of_each_subject(cases)]
    refusals = 0
    for first in first_cases:
        variants: list[dict[str, Any]] = [{**first.factors, "colour": "red"}]
        for name in first.factors:
            variants += [{**first.factors, name: level} for level in ("🚀", -1.5)]
            variants.append({other: first.factors[other] for other in {*first.factors} - {name}})
        for factors in variants:
            case = msgspec.structs.replace(first, factors=factors)
            # If no study reads the factor, the whole paper is computed; few cases make this fast.
            record = msgspec.structs.replace(stored.record, cases=(case, *cases[::50]))
            try:
                compute(study, replace(inputs, records=(replace(stored, record=record),)))
            except StudyError as error:
                refusals += 1
                pattern = rf"data/{stored.file}: cases\[0\]\.factors\.\w+: (this|expected|found)"
                assert re.match(pattern, str(error)) and re.search("; (run|measure) ", str(error))
    assert refusals > len(first_cases)


@pytest.mark.parametrize("study", sorted({*WITH_OWN_RECORDS} - {"training_roofline"}))
def test_a_case_whose_layers_contradict_its_factors_is_refused(study: str) -> None:
    inputs = degraded.thinned_inputs(degraded.committed_inputs(study))
    stored = inputs.records[-1]
    case = next(case for case in stored.record.cases if case.layers)
    wrong = msgspec.structs.replace(case, layers=at_batch(case.layers, 7))
    record = msgspec.structs.replace(stored.record, cases=(wrong,))
    with pytest.raises(StudyError, match=r"^data/.*cases\[0\]\.layers: .*; run the experiment"):
        compute(study, replace(inputs, records=(replace(stored, record=record),)))


@every_study_of_own_records
def test_a_paper_is_complete_with_one_record_and_without_the_first(study: str) -> None:
    """Of records with the same device and subjects, one is tested."""
    inputs = degraded.committed_inputs(study)
    records = tuple(degraded.thinned(stored, 8) for stored in inputs.records)
    tested: dict[tuple[str, frozenset[object]], Stored] = {}
    for stored in records:
        subjects = frozenset(case.factors.get("subject") for case in stored.record.cases)
        tested.setdefault((stored.record.environment.device, subjects), stored)
    for stored in tested.values():
        assert_whole(study, compute(study, replace(inputs, records=(stored,))))
    assert_whole(study, compute(study, replace(inputs, records=records[1:])))


@every_study_of_own_records
def test_markup_in_data_is_printed_as_text(study: str) -> None:
    text = paper(study, "hostile text").text
    unwrapped = ["--wrap=none", "--columns=10000"]
    shown = pypandoc.convert_text(text, "plain", format="markdown-smart", extra_args=unwrapped)
    shown = " ".join(shown.replace("\u00a0", " ").split())
    assert degraded.HOSTILE in shown
    assert shown.count("عربي") == shown.count(degraded.HOSTILE), "a text was split or changed"


@every_study_of_own_records
def test_noise_decides_no_claim_twice(study: str) -> None:
    """At a level of 95 %, noise decides one claim in twenty, but not the same claim twice."""

    def decided_with(inputs: Inputs) -> set[str]:
        verdict_by_claim = verdicts(study, inputs, *findings(study).claims)
        return {id for id, verdict in verdict_by_claim.items() if verdict in VERDICTS}

    inputs = degraded.committed_inputs(study)
    without_time = decided_with(degraded.DEGRADED["no time"](inputs))
    claims_by_seed = [decided_with(degraded.with_noise(inputs, seed)) for seed in (5, 6, 7, 8)]
    for first, second in combinations(claims_by_seed, 2):
        assert (first & second) - without_time <= DECIDED_WITHOUT_TIME
