"""What authors write: templates, their numbers, captions and claims, and the bibliography."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.panels import Drawing
from report.commands.check import review
from report.engine.actions import copy_bibliography
from report.engine.pipeline import ROOT, Request
from report.errors import RecordError, TemplateError
from report.missing import Missing
from report.paper.claims import judge
from report.paper.findings import Claim, Figure, Findings
from report.paper.manuscript import Manuscript, render_manuscript
from report.paper.prose import typed_results
from report.paper.tables import Column, Table
from report.paper.values import Value
from report.quantity.expression import Quantity, absent, measured
from report.quantity.intervals import Process
from report.quantity.verdicts import all_of
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
KNEE = "[8](#v-knee){.value}"


def written(folder: Path, text: str) -> Manuscript:
    return written_paper(folder, text, FINDINGS)


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
        ('{% holds "linear" %}Yes.{% else %}No.{% endholds %}', "Yes."),
        ('{% holds "grows" %}Yes.{% undecided %}No.{% endholds %}', "No."),
        ('{% holds "grows" %}Yes.{% else %}No.{% undecided %}Open.{% endholds %}', "No."),
        ('{% holds "grows-2t" %}Yes.{% undecided %}Open.{% else %}No.{% endholds %}', "Open."),
        ('{% holds "linear", "refuted" %}No.{% else %}Yes.{% endholds %}', "Yes."),
        ('{% holds "grows", "refuted" %}It falls.{% endholds %}', "It falls."),
    ],
)  # fmt: skip
def test_what_a_template_prints(text: str, expected: str, tmp_path: Path) -> None:
    paper = written(tmp_path, f"First.\n{text}\nLast.\n")
    assert paper.text == f"First.\n{expected}\nLast.\n"
    assert paper.unsupported == ()


def test_captions_and_claims_are_in_the_words_of_the_author(tmp_path: Path) -> None:
    """Lines stay lines, and what is stored of a caption is plain text."""
    paper = written(
        tmp_path,
        'One.\n\n{% table "tbl-a" %}The *knee* is {{ v.knee }}.{% endtable %}\n\nTwo.\n\n'
        '{% figure "fig-a" %}Drawn.{% alt %}At {{ v.knee }} it bends.{% endfigure %}\n\nThree.\n'
        '{% claims "tbl-claims" %}\nlinear: Work is linear.\ngrows: It grows.\n{% endclaims %}\n'
        '{% table "tbl-claims" %}All.{% endtable %}\n',
    )
    assert f"The *knee* is {KNEE}.\n:::\n\nTwo.\n\n![Drawn.]" in paper.text
    assert 'fig-alt="At 8 it bends."}\n\nThree.\n' in paper.text
    found = paper.findings
    assert found.tables["tbl-a"].caption == "The *knee* is 8."
    assert found.figures["fig-a"].alt == "At 8 it bends."
    assert found.claims["grows"].sentence == "It grows."
    assert found.tables["tbl-claims"].rows == (
        ("Work is linear.", "supported", "1; expected 1"),
        ("It grows.", "refuted", "0.9; expected above 1"),
    )


def test_a_sentence_that_no_longer_holds_is_marked_with_its_line(tmp_path: Path) -> None:
    paper = written(tmp_path, 'One.\n\n{% holds "grows" %}It grows.{% endholds %}\n')
    mark = "[**[No longer supported by these data (refuted: 0.9; expected above 1):]**]"
    assert mark in paper.text.replace("\\", "") and paper.text.endswith(" It grows.\n")
    (found,) = paper.unsupported
    assert found.startswith(f"{PLACE}:3: ") and "grows, which is refuted" in found


def test_the_check_names_a_sentence_that_no_longer_holds(tmp_path: Path) -> None:
    """Without a record nothing of a run holds, so that a sentence without «else» is marked."""
    papers = shutil.copytree(ROOT / "templates" / "papers", tmp_path / "papers")
    template = papers / "conv_scaling.qmd.j2"
    head, tail = template.read_text("utf-8").split("# Method {#sec-method}")
    tag = '{% holds "both-slower" %}Returned memory costs time.{% endholds %}'
    template.write_text(f"{head}{tag}\n\n# Method {{#sec-method}}{tail}", "utf-8")
    data, out = data_folder(tmp_path), tmp_path / "out"
    request = Request(("conv_scaling",), ("html",), out, data=data, papers=papers)
    first, *_ = review(request).faults
    place = f"templates/papers/conv_scaling.qmd.j2:{head.count(chr(10)) + 1}: "
    assert first.startswith(place) and "both-slower, which is not measured; " in first


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("{{ facts.nope }}\n", 1, "nope"),
        ("a\n{% if facts.measured %}\nb\n", 3, "endif"),
        ("a\n{{ v. }}\n", 2, "expected"),
        ("a\n{% include 'nope.j2' %}\n", 2, "nope.j2"),
        # A misspelt name is answered by those that are near.
        ("a\n{{ v.kne }}\n", 2, "knee"),
        ("a\n{{ v.knee.mth }}\n", 2, "math"),
        ("a\n{{ facts.sizes.larg }}\n", 2, "near it: large"),
        # What a tag cannot mean.
        ('a\n{% holds "nothing" %}x{% endholds %}', 2, "nothing is no claim"),
        ('a\n{% table "tbl-b" %}B.{% endtable %}', 2, "tbl-b is no table"),
        ('{% claims "tbl-c" %}no colon{% endclaims %}', 1, "a claim is «id: sentence»"),
        ('{% figure "fig-a" %}x{% endfigure %}', 1, "has no alternative text"),
        ('{% holds "linear" %}x', 1, "end"),
        ('{% holds "linear" %}a{% else %}\nb{% else %}c{% endholds %}', 2, "else stands twice"),
        # A number that no study has computed.
        ("a\n{{ v.knee + v.copy }}\n", 2, "computes with +"),
        ("a\n\nIt takes 12 ms.\n", 3, "12"),
        # A template is no program.
        ("a\n{{ cycler.__init__.__globals__.os.popen('id').read() }}\n", 2, "unsafe"),
        ("a\n{{ '{x.__class__}'.format(x=v) }}\n", 2, "not safely callable"),
        ("a\n{{ facts.sizes }}\n", 2, "dict is no text"),
        ("a\n{{ facts.devices.append(v) }}\n", 2, "append"),
        # Nor does it print other digits than those that a study has chosen, or others each time.
        ("a\n{{ v.knee.as_json() }}\n", 2, "not safely callable"),
        ("a\n{{ '{:f}'.format(v.knee.number) }}\n", 2, "not safely callable"),
        ("a\n{{ '%f' | format(v.knee.number) }}\n", 2, "format"),
        ("a\n{{ -v.knee.number }}\n", 2, "computes with -"),
        ("a\n{{ lipsum() }}\n", 2, "'lipsum' is undefined"),
        ("a\n{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}\n", 2, "itself"),
    ],
)
def test_an_author_reads_the_line_and_what_to_do(
    text: str, line: int, word: str, tmp_path: Path
) -> None:
    with pytest.raises(TemplateError) as caught:
        written(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"{PLACE}:{line}: ") and "; " in message and "\n" not in message
    assert word in message


def test_a_template_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "study.qmd.j2"
    path.write_bytes(b"caf\xe9")
    with pytest.raises(TemplateError, match=rf"^{PLACE}: .*0xe9.*; "):
        render_manuscript(path, FINDINGS)


# ------------------------------------------------------------------------ numbers typed by hand

FRONT = """---
title: "Twice 2 as fast"
abstract: |
  It takes 12 ms
  {% if facts.measured %}
  {% endif %}
date-format: 2026
---
"""


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("It takes 12 ms.", ["1: 12"]),
        ("It is 5 % slower, or 10% or 7\N{NO-BREAK SPACE}%.", ["1: 5 %", "1: 10%", "1: 7 %"]),
        ("ResNet-50 and VGG-16 on AVX-512, batch-10.", ["1: 10"]),
        ("It is (3) or -4 or +5 or ×6 or 7×.", [f"1: {n}" for n in "34567"]),
        ("It is _5_ or __6__ or *7* or **8** or ~9~.", [f"1: {n}" for n in "56789"]),
        ("![Rate at 64 images](figures/rate2){#fig-rate}", ["1: 64"]),
        ('![Rate](f){#fig-r fig-alt="up to 64 images"}', ["1: 64"]),
        ('::: {.callout-note title="5 rules"}\nx\n:::', ["1: 5"]),
        ("::: {#tbl-a}\n| a | 7 |\n\nCaption with 8.\n:::", ["2: 7", "4: 8"]),
        ("It costs $1 to $2.", ["1: 1", "1: 2"]),
        (r"$t = 12\,\mathrm{ms}$ and $5 \cdot 64$", ["1: 12", "1: 5", "1: 64"]),
        ("$B = 147x$ and $n^{147}$ and $12 ms$", ["1: 147", "1: 12"]),
        ("{{ 42 }} and {{ '5 ms' }} and {{- 6.5 }} {{ -7 }}", [f"1: {n}" for n in (42, 5, 6.5, 7)]),
        ('{#f fig-alt="{{ f["a"] }} 5 {{ 6 }}" width=50%}', ["1: 5", "1: 6"]),
        ("~~~\n5\n~~~\n6", ["4: 6"]),
        (FRONT, ["2: 2", "4: 12"]),
        # What looks like a number and is none.
        ("The type float32 and Conv2d and conv_2 and x86_64.", []),
        ("Run `Conv2d(32, 64, 3, 1)` on `26x26`.\n\n```python\nx = 42\n```", []),
        ("A study [@goyal2024conv; @hahn1991intervals, @10.1145/1234] says.", []),
        ("See @fig-time2, @tbl-memory-amd-7763-4t and @sec-2.\n\n# Method {#sec-2 .x3 k=4}", []),
        ('{#f fig-alt="{{ v.n }}" {% if a %}width=50%{% endif %}} and $2x = {{ v.n }}$', []),
        ("[text](https://example.org/2024/5) and https://example.org/7.", []),
        ("{{ v.time_2 }}{{ tables['tbl-2'] }}{% for i in range(3) %}x{% endfor %}", []),
        (r"$F(B) = 2 M(B) = B_1 + 0$ and $2n^3$ and $x_{12} = 3 \cdot B$", []),
        ("$$ V = s (N + B A) $$ {#eq-2}\n\nm² and k\N{SUPERSCRIPT THREE}", []),
    ],
)
def test_a_typed_number_is_found_with_its_line(template: str, found: list[str]) -> None:
    shown = [f"{line}: {number}" for line, number in typed_results(template)]
    # A no-break space may stand between number and sign.
    assert [each.replace("\N{NO-BREAK SPACE}", " ") for each in shown] == found


WORDS = st.text(st.sampled_from("abcdefgh .,;:!?()-–×±\"'/%&=+"), max_size=30)
LINES = st.lists(st.text(st.sampled_from("abc ."), max_size=20), max_size=5)


@given(LINES, WORDS, st.integers(0, 10**9) | st.decimals(0, 10**6, places=3), WORDS)
def test_a_number_anywhere_in_a_paragraph_is_found(
    above: list[str], before: str, number: object, after: str
) -> None:
    # A letter right before a digit makes a name of it, such as float32.
    apart = before + " " if before[-1:].isalpha() else before
    found = typed_results("\n".join([*above, f"a {apart}{number}{after}"]))
    assert any(line == len(above) + 1 and str(number).startswith(n[:1]) for line, n in found)


# ---------------------------------------------------------------------------------- claims


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
    statements = [part > 1 for part in parts]
    claim = judge("x", statements[0] if len(parts) == 1 else all_of(*statements))
    _, _, why = claim.because.partition("; expected ")
    assert (claim.verdict == "undecided") == bool(reasons)
    assert why.rpartition("expected ")[2].partition("; ")[2] == reasons


# ---------------------------------------------------------------------------- bibliography

GOOD = rb"""% a comment

@article{first,
  author = {Ren{\'e} M{\"u}ller and \O{}. {\AA}s},
  title  = "A {"quoted"} title with \emph{type} & 5 \% $\times$ \texttt{x}",
  year   = 2001
}

@misc{second, title = {Other},}

% @misc{old,
%   title = {A}, title = {\input{x}},
% }
@stringent{third,}
"""


@pytest.mark.parametrize("content", [GOOD, GOOD.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + GOOD])
def test_whole_entries_are_accepted(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "references.bib").write_bytes(content)
    (tmp_path / "paper").mkdir()
    copy_bibliography(tmp_path, tmp_path / "paper")
    copied = (tmp_path / "paper" / "references.bib").read_bytes()
    assert copied == content.removeprefix(b"\xef\xbb\xbf")


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (b"year   = 2001", b"note = {x", "line 3, entry first: expected name = {text} for"),
        (b"2001\n}", b"2001\n}}", "line 3, entry first: expected name = {text}"),
        (b"{second, ", b"{", "line 9, entry @misc{title = {Other},}: expected @type{key,"),
        (b"second", b"First", "line 9, entry First: found this key twice"),
        (b"Other", b"Oth\xe9r", "line 9: found the byte 0xe9, which is not UTF-8"),
        (b"Other", rb"\input{/etc/passwd}", r"entry second: title: found \input, where only"),
        (b"Other", b"^^5cinput{x}", "entry second: title: found ^^"),
        (b"Other}", b"Other}, Title = {x}", "entry second: found the field title twice"),
        (b"{Other}", b'"open', "entry second: expected name = {text}"),
        (b"Other", b"{" * 99 + b"}" * 99, "and a brace that closes it"),
        (b"% a comment", b"no comment", "line 1, between entries: found text"),
        (b"@misc{second", b"@string{s", "entry @string{s, title = {Other},}: expected"),
    ],
)
def test_a_damaged_entry_is_refused_by_name(
    old: bytes, new: bytes, found: str, tmp_path: Path
) -> None:
    assert old in GOOD
    (tmp_path / "references.bib").write_bytes(GOOD.replace(old, new, 1))
    remedy = "; fix the entry, or restore the file with git."
    expected = rf"^data/references\.bib: .*{re.escape(found)}.*{re.escape(remedy)}$"
    with pytest.raises(RecordError, match=expected):
        copy_bibliography(tmp_path, tmp_path / "paper")
    assert not (tmp_path / "paper").exists()
