"""The tags of a template: captions beside tables and figures, sentences that rest on claims."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from figures.canvas import Drawing
from report.commands.check import faults
from report.engine.pipeline import ROOT, Request
from report.errors import TemplateError
from report.paper.claims import judge
from report.paper.findings import Claim, Figure, Findings
from report.paper.manuscript import Manuscript
from report.paper.tables import Column, Table
from report.paper.values import Value
from report.quantity.expression import Quantity, absent, measured
from report.quantity.process import Process
from report.quantity.verdicts import Statement, all_of, expect
from tests.factory import data_folder
from tests.papers import written_paper

FINDINGS = Findings(
    values={"knee": Value("knee", "Knee", 8, "1", "level", style="exact")},
    tables={"tbl-a": Table("tbl-a", (Column("B"),), (("c",),))},
    figures={"fig-a": Figure("fig-a", Drawing(()))},
    claims={
        "linear": Claim("linear", "supported", "1; expected 1"),
        "grows": Claim("grows", "refuted", "0.9; expected above 1"),
        "grows-2t": Claim("grows-2t", "undecided", "1; expected above 1"),
    },
)


def written(folder: Path, text: str) -> Manuscript:
    return written_paper(folder, text, FINDINGS)


def test_captions_hold_values_and_lines_stay_lines(tmp_path: Path) -> None:
    paper = written(
        tmp_path,
        'One.\n\n{% table "tbl-a" %}The *knee* is {{ v.knee }}.{% endtable %}\n\nTwo.\n\n'
        '{% figure "fig-a" %}Drawn.{% alt %}At {{ v.knee }} it bends.{% endfigure %}\n\nThree.\n',
    )
    assert "The *knee* is [8](#v-knee){.value}.\n:::\n\nTwo.\n\n![Drawn.]" in paper.text
    assert 'fig-alt="At 8 it bends."}\n\nThree.\n' in paper.text
    assert paper.findings.tables["tbl-a"].caption == "The *knee* is 8."
    assert paper.findings.figures["fig-a"].alt == "At 8 it bends."


@pytest.mark.parametrize(
    ("tag", "printed"),
    [
        ('{% holds "linear" %}Yes.{% endholds %}', "Yes."),
        ('{% holds "linear" %}Yes.{% else %}No.{% endholds %}', "Yes."),
        ('{% holds "grows" %}Yes.{% undecided %}No.{% endholds %}', "No."),
        ('{% holds "grows" %}Yes.{% else %}No.{% undecided %}Open.{% endholds %}', "No."),
        ('{% holds "grows-2t" %}Yes.{% else %}No.{% undecided %}Open.{% endholds %}', "Open."),
        ('{% holds "grows-2t" %}Yes.{% undecided %}Open.{% else %}No.{% endholds %}', "Open."),
        ('{% holds "linear", "refuted" %}No.{% else %}Yes.{% endholds %}', "Yes."),
        ('{% holds "grows-2t", "undecided" %}Perhaps.{% endholds %}', "Perhaps."),
        ('{% holds "grows", "refuted" %}It falls.{% endholds %}', "It falls."),
    ],
)
def test_a_sentence_is_printed_as_its_claim_allows(tag: str, printed: str, tmp_path: Path) -> None:
    paper = written(tmp_path, f"First.\n{tag}\nLast.\n")
    assert paper.text == f"First.\n{printed}\nLast.\n"
    assert paper.unsupported == ()


def test_a_sentence_that_no_longer_holds_is_marked_with_its_line(tmp_path: Path) -> None:
    paper = written(tmp_path, 'One.\n\n{% holds "grows" %}It grows.{% endholds %}\n')
    assert "[**[No longer supported by these data (refuted: 0.9; expected above 1):]**]" in (
        paper.text.replace("\\", "")
    )
    assert paper.text.endswith(" It grows.\n")
    (found,) = paper.unsupported
    assert (
        found.startswith("templates/papers/study.qmd.j2:3: ") and "grows, which is refuted" in found
    )


def test_claims_are_a_table_in_the_words_of_the_author(tmp_path: Path) -> None:
    paper = written(
        tmp_path,
        '{% claims "tbl-claims" %}\nlinear: Work is linear.\ngrows: It grows.\n{% endclaims %}\n'
        '{% table "tbl-claims" %}All.{% endtable %}\n',
    )
    assert paper.findings.tables["tbl-claims"].rows == (
        ("Work is linear.", "supported", "1; expected 1"),
        ("It grows.", "refuted", "0.9; expected above 1"),
    )
    assert paper.findings.claims["grows"].sentence == "It grows."


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('a\n{% holds "nothing" %}x{% endholds %}', "study.qmd.j2:2: nothing is no claim"),
        ('a\n{% table "tbl-b" %}B.{% endtable %}', "study.qmd.j2:2: tbl-b is no table"),
        ('{% figure "fig-b" %}B.{% alt %}C.{% endfigure %}', "fig-b is no figure"),
        ('{% claims "tbl-c" %}no colon{% endclaims %}', "a claim is «id: sentence»"),
        ('{% figure "fig-a" %}x{% endfigure %}', "has no alternative text"),
        ('{% holds "linear" %}x', "study.qmd.j2:1:"),
        ('{% table "tbl-a" %}up to 64 images{% endtable %}', "the number 64 is typed"),
        ('{% holds "linear" %}It takes 5 s.{% endholds %}', "the number 5 is typed"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(
    text: str, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(TemplateError) as caught:
        written(tmp_path, text)
    assert complaint in str(caught.value)


def test_the_check_names_a_sentence_that_no_longer_holds(tmp_path: Path) -> None:
    """Without a record nothing of a run holds, so that a sentence without «else» is marked."""
    papers = shutil.copytree(ROOT / "templates" / "papers", tmp_path / "papers")
    template = papers / "conv_scaling.qmd.j2"
    head, tail = template.read_text("utf-8").split("# Method {#sec-method}")
    tag = '{% holds "both-slower" %}Returned memory costs time.{% endholds %}'
    template.write_text(f"{head}{tag}\n\n# Method {{#sec-method}}{tail}", "utf-8")
    data, out = data_folder(tmp_path), tmp_path / "out"
    first, *_ = faults(Request(("conv_scaling",), ("html",), out, data=data, papers=papers))
    place = f"templates/papers/conv_scaling.qmd.j2:{head.count(chr(10)) + 1}: "
    assert first.startswith(place) and "both-slower, which is not measured; " in first


def spread(*medians: float, disturbed: bool = False) -> Quantity:
    processes = [Process("r", str(n), (m,), disturbed) for n, m in enumerate(medians)]
    return measured("gain", "1", processes, "f")


CLEAR, AROUND, FEW, ALONE = (
    spread(*(2 + n / 100 for n in range(8))),
    spread(*(0.9 + n / 20 for n in range(8))),
    spread(2, 2.1, 2.2),
    measured("gain", "1", [Process("r", "0", (2.0, 2.1, 2.2))], "f"),
)
DISTURBED = spread(*(2 + n / 100 for n in range(8)), disturbed=True)


@pytest.mark.parametrize(
    ("parts", "reasons"),
    [
        ((CLEAR,), ""),
        ((AROUND,), "interval spans 1"),
        ((FEW,), "level below 95\N{NO-BREAK SPACE}%"),
        ((ALONE,), "one process"),
        ((DISTURBED,), "disturbed"),
        ((CLEAR, ALONE), "one process"),
        ((AROUND, ALONE, CLEAR, DISTURBED), "interval spans 1; one process; disturbed"),
        ((CLEAR, absent("gain", "1", "no GPU")), "not measured"),
    ],
)
def test_every_undecided_claim_says_why(parts: tuple[Quantity, ...], reasons: str) -> None:
    statements = [Statement(part, expect("> 1")) for part in parts]
    claim = judge("x", statements[0] if len(parts) == 1 else all_of(*statements))
    _, _, why = claim.because.partition("; expected ")
    assert (claim.verdict == "undecided") == bool(reasons)
    assert why.rpartition("expected ")[2].partition("; ")[2] == reasons
