"""Templates: values, captions, sentences that rest on claims, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from figures.panels import Drawing
from report.commands.check import faults
from report.engine.pipeline import ROOT, Request
from report.errors import RidgepointError, TemplateError
from report.missing import Missing
from report.paper.claims import judge
from report.paper.findings import Claim, Figure, Findings
from report.paper.manuscript import Manuscript, render_manuscript
from report.paper.tables import Column, Table
from report.paper.values import Value
from report.quantity.expression import Quantity, absent, measured
from report.quantity.intervals import Process
from report.quantity.verdicts import Statement, all_of, expect
from tests.factory import data_folder
from tests.papers import written_paper

FINDINGS = Findings(
    values={
        "knee": Value("knee", "Knee", 8, "1", "level", style="exact"),
        "copy": Value("copy", "Copy", Missing("no ceiling was measured"), "B/s", "bytes / time"),
    },
    tables={"tbl-a": Table("tbl-a", (Column("B"),), (("c",),))},
    figures={"fig-a": Figure("fig-a", Drawing(()))},
    claims={
        "linear": Claim("linear", "supported", "1; expected 1"),
        "grows": Claim("grows", "refuted", "0.9; expected above 1"),
        "grows-2t": Claim("grows-2t", "undecided", "1; expected above 1"),
    },
    facts={"measured": True, "devices": ["x", "y"], "sizes": {1: "a", "large": "b"}},
)
PLACE = "templates/papers/study.qmd.j2"


def written(folder: Path, text: str) -> Manuscript:
    return written_paper(folder, text, FINDINGS)


KNEE = "[8](#v-knee){.value}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Head {#sec-head}\n{## comment ##}\n{{ v.knee }}", f"# Head {{#sec-head}}\n{KNEE}"),
        ("{{ v.copy }}", "[not measured](#v-copy){.value}"),
        ("{% if not facts.measured %}\nNever.\n{% endif %}\n{{ tables | join }}", "tbl-a"),
        ("{{ claims['grows'].because | md }} {{ facts.devices | join('; ') }}",
         "0.9; expected above 1 x; y"),
        ("{% known %}It is {{ v.knee }}.{% endknown %}", f"It is {KNEE}."),
        ("{% known %}It is {{ v.copy }}.{% endknown %}", ""),
        ('{% known %}{% table "tbl-b" %}B.{% endtable %}{% endknown %}', ""),
        ('{% known %}{% holds "grows" %}{{ v.copy }}{% endholds %}{% endknown %}', ""),
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
)  # fmt: skip
def test_what_a_template_prints(text: str, expected: str, tmp_path: Path) -> None:
    paper = written(tmp_path, f"First.\n{text}\nLast.\n")
    assert paper.text == f"First.\n{expected}\nLast.\n"
    assert paper.unsupported == ()


def test_captions_hold_values_and_lines_stay_lines(tmp_path: Path) -> None:
    paper = written(
        tmp_path,
        'One.\n\n{% table "tbl-a" %}The *knee* is {{ v.knee }}.{% endtable %}\n\nTwo.\n\n'
        '{% figure "fig-a" %}Drawn.{% alt %}At {{ v.knee }} it bends.{% endfigure %}\n\nThree.\n',
    )
    assert f"The *knee* is {KNEE}.\n:::\n\nTwo.\n\n![Drawn.]" in paper.text
    assert 'fig-alt="At 8 it bends."}\n\nThree.\n' in paper.text
    assert paper.findings.tables["tbl-a"].caption == "The *knee* is 8."
    assert paper.findings.figures["fig-a"].alt == "At 8 it bends."


def test_a_sentence_that_no_longer_holds_is_marked_with_its_line(tmp_path: Path) -> None:
    paper = written(tmp_path, 'One.\n\n{% holds "grows" %}It grows.{% endholds %}\n')
    mark = "[**[No longer supported by these data (refuted: 0.9; expected above 1):]**]"
    assert mark in paper.text.replace("\\", "") and paper.text.endswith(" It grows.\n")
    (found,) = paper.unsupported
    assert found.startswith(f"{PLACE}:3: ") and "grows, which is refuted" in found


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
    ("text", "line", "word"),
    [
        ("{{ facts.nope }}\n", 1, "nope"),
        ("a\n{% for x in facts.nope %}\n{{ x }}\n{% endfor %}\n", 2, "nope"),
        ("a\n{% if facts.measured %}\nb\n", 3, "endif"),
        ("a\n{{ v.knee | nope }}\n", 2, "nope"),
        ("a\n{{ v. }}\n", 2, "expected"),
        ("a\n{% include 'nope.j2' %}\n", 2, "nope.j2"),
        # A misspelt name is answered by those that are near.
        ("a\n{{ v.kne }}\n", 2, "knee"),
        ("a\n{{ v.knee.mth }}\n", 2, "math"),
        ("a\n{{ facts.sizes.larg }}\n", 2, "near it: large"),
        # What a tag cannot mean.
        ('a\n{% holds "nothing" %}x{% endholds %}', 2, "nothing is no claim"),
        ('a\n{% table "tbl-b" %}B.{% endtable %}', 2, "tbl-b is no table"),
        ('{% figure "fig-b" %}B.{% alt %}C.{% endfigure %}', 1, "fig-b is no figure"),
        ('{% claims "tbl-c" %}no colon{% endclaims %}', 1, "a claim is «id: sentence»"),
        ('{% figure "fig-a" %}x{% endfigure %}', 1, "has no alternative text"),
        ('{% holds "linear" %}x', 1, "end"),
        # A number that no study has computed.
        ("a\n{{ v.knee + v.copy }}\n", 2, "computes with +"),
        ("a\n{{ v.knee.number * v.knee.number }}\n", 2, "computes with *"),
        ("a\n\nIt takes 12 ms.\n", 3, "12"),
        ('{% table "tbl-a" %}up to 64 images{% endtable %}', 1, "64"),
        ('{% holds "linear" %}It takes 5 s.{% endholds %}', 1, "5"),
        # A template is no program.
        ("a\n{{ cycler.__init__.__globals__.os.popen('id').read() }}\n", 2, "unsafe"),
        ("a\n{{ self.__init__.__globals__ }}\n", 2, "unsafe"),
        ("a\n{{ v.knee | attr('__class__') }}\n", 2, "unsafe"),
        ("a\n{{ '{x.__class__}'.format(x=v) }}\n", 2, "format"),
        ("a\n{{ v.knee.as_json() }}\n", 2, "as_json"),
        ("a\n{{ facts.devices.append(v) }}\n", 2, "append"),
        ("a\n{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}\n", 2, "itself"),
        ("a\n{% include 'study.qmd.j2' %}{% include 'study.qmd.j2' %}\n", 2, "itself"),
    ],
)
def test_an_author_is_told_the_line_and_what_to_do(
    text: str, line: int, word: str, tmp_path: Path
) -> None:
    with pytest.raises(TemplateError) as caught:
        written(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"{PLACE}:{line}: ") and "; " in message and "\n" not in message
    assert word in message


@pytest.mark.parametrize(("content", "word"), [(None, "cannot be read"), (b"caf\xe9", "0xe9")])
def test_a_template_that_cannot_be_read_is_named(
    content: bytes | None, word: str, tmp_path: Path
) -> None:
    path = tmp_path / "study.qmd.j2"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RidgepointError, match=rf"^{PLACE}: .*{word}.*; "):
        render_manuscript(path, FINDINGS)


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


CLEAR, AROUND = (spread(*(low + n / 20 for n in range(8))) for low in (2, 0.9))
FEW, ALONE = spread(2, 2.1, 2.2), measured("gain", "1", [Process("r", "0", (2.0, 2.1, 2.2))], "f")
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
