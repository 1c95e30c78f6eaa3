"""What the filter makes of each feature in each format."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from report.errors import RenderError
from report.render.quarto import write_project
from tests.render.conftest import page_of as html
from tests.render.conftest import tex_of, typst_pdf
from tests.render.conftest import typst_of as typst

Write = Callable[..., Path]


def latex(folder: Path) -> str:
    return tex_of(folder).read_text("utf-8")


FORMATS = {"html": html, "latex": latex, "typst": typst}


def body(text: str) -> str:
    """Without line breaks, which no format cares about."""
    return " ".join(text.split())


FIGURE = '![A *caption*.](figures/time){#fig-time fig-alt="Time & <batch>, 100 %"}\n\n'
FIGURES = "".join(f'![C](figures/time){{#fig-{letter} fig-alt="alt"}}\n\n' for letter in "abc")
PARTS = (
    "::: {#fig-x layout-ncol=2}\n\n"
    '![Left](figures/time){#fig-x-l fig-alt="one"}\n\n'
    '![Right](figures/memory){#fig-x-r fig-alt="two"}\n\nBoth\n:::\n\n'
    "See @fig-x-r of @fig-x.\n"
)
TABLE = (
    "::: {#tbl-x}\n\n| Name | Value |\n|:-----|------:|\n| a_b & c | 1,000 |\n\n"
    "::: {.table-notes}\nA note with 5 %.\n:::\n\nThe *caption*\n:::\n\nSee @tbl-x.\n"
)
SECTIONS = (
    "# One {#sec-one}\n\nSee @sec-deep.\n\n# Thanks {.unnumbered}\n\n# Two {#sec-two}\n\n"
    "## Deep {#sec-deep}\n\nText.\n"
)
EQUATIONS = "Before\n$$\na = b\n$$ {#eq-one}\nafter.\n\n$$c$$ {#eq-two}\n\nBy @eq-two.\n"
CITED = "Known [@williams2009; @paszke2019]. As @williams2009 say, and @krizhevsky2012 [p. 3].\n"
LIMITED = (
    '::: {.content-visible when-format="latex"}\n' + FIGURE + ":::\n\n"
    '![B](figures/memory){#fig-m fig-alt="alt"}\n\nSee @fig-m.\n'
)

#: A document, and what each format has of it once its lines are joined.
WRITTEN: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "references": (
        FIGURE + "See @fig-time and -@fig-time.\n",
        ('See <a href="#fig-time" class="reference">Figure 1</a> and', 'class="reference">1</a>.'),
        (r"See Figure~\ref{fig-time} and \ref{fig-time}.",),
        ("See #ref(<fig-time>); and #ref(<fig-time>, supplement: none);.",),
    ),
    "sections": (
        SECTIONS,
        ('<span class="section-number">2.1</span> Deep', ">Section 2.1</a>",
         '<h2 class="unnumbered">Thanks</h2>'),
        (r"Section~\ref{sec-deep}", r"\section*{Thanks}"),
        ("#ref(<sec-deep>)",),
    ),
    "equations": (
        EQUATIONS,
        (">Equation (2)</a>", "<p>Before</p>", "<p>after.</p>"),
        (r"\begin{equation}\label{eq-one} a = b \end{equation}", r"Equation~(\ref{eq-two})"),
        ('numbering: "(1)", alt: "a = b", $ a = b $) <eq-one>',),
    ),
    "alternative text": (
        FIGURE,
        ('alt="Time &amp; &lt;batch&gt;, 100 %"', 'src="figures/time.svg"'),
        (r"{figures/time.pdf}{Time \& \textless batch\textgreater, 100 \%}",),
        ('alt: "Time & <batch>, 100 %"', 'image("figures/time.svg"'),
    ),
    "formulas": (
        'Inline $\\frac{a}{b}$ and $$\\text{"x"}$$\n',
        ('<math display="inline"', '<math display="block"'),
        (r"\(\frac{a}{b}\)",),
        (r'alt: "\\frac{a}{b}"', r'alt: "\\text{\"x\"}"'),
    ),
    "wide": (
        '![C](figures/time){#fig-w .wide fig-alt="alt"}\n\n'
        "::: {#tbl-w .wide}\n\n| a |\n|---|\n| 1 |\n\nC\n:::\n",
        ('class="figure wide"', 'class="table wide"'),
        (r"\begin{figure*}", r"\end{table*}"),
        ('scope: "parent", kind: image', 'scope: "parent", kind: table'),
    ),
    "parts of a figure": (
        PARTS,
        ('<figure class="subfigure" id="fig-x-r">', ">Figure 1(b)</a>"),
        (r"\begin{ridgepointsubfigure}{2}", r"\ridgepointsubcaption{Right}\label{fig-x-r}"),
        ("#link(<fig-x-r>)[Figure~1(b)];",),
    ),
    "parts in one paragraph": (
        PARTS.replace('"one"}\n\n', '"one"}\n'),
        ('id="fig-x-l"', 'id="fig-x-r"'), (r"\label{fig-x-l}",), ("<fig-x-l>",),
    ),
    "table": (
        TABLE,
        ('<figure id="tbl-x" class="table" aria-labelledby="tbl-x-caption">',
         '<td class="right">1,000</td>'),
        (r"\begin{tabular}{lr} \toprule Name & Value \\ \midrule a\_b \& c & 1,000 \\",
         r"\caption{The \emph{caption}}\label{tbl-x}",
         r"\begin{ridgepointnotes} A note with 5 \%. \end{ridgepointnotes}"),
        ("table(columns: 2, align: (left, right,)", "notes: [A note with 5 %.]", ") <tbl-x>"),
    ),
    "id in the caption line": (
        "| a |\n|---|\n| 1 |\n\n: The caption {#tbl-y}\n\nSee @tbl-y.\n",
        (">Table 1</a>",), (r"\caption{The caption}\label{tbl-y}",), ("<tbl-y>",),
    ),
    "values": (
        "It does [21,233 FLOP](#v-work){.value}.\n\n"
        '::: {.content-visible when-format="html"}\n[here]{#v-work}\n:::\n',
        ('<a href="#v-work" class="value">21,233 FLOP</a>',),
        ("It does 21,233 FLOP.",), ("It does 21,233 FLOP.",),
    ),
    "hidden figures take no number": (LIMITED, (">Figure 1</a>",), ("figures/time.pdf",), ()),
    "citations": (
        CITED,
        ("Williams et al. ", ">References</h2>"),
        (r"Known \cite{williams2009,paszke2019}.", r"As Williams et al.~\cite{williams2009} say",
         r"Krizhevsky et al.~\cite[p.~3]{krizhevsky2012}", r"\bibliography{references}"),
        ("Williams et al.",),
    ),
    "footnotes": (
        "Text.[^a]\n\n[^a]: The note.\n",
        ('role="doc-endnotes"',), (r"Text.\footnote{The note.}",), ("#footnote[The note.]",),
    ),
    "long cells": (
        "| a | b |\n|:--|--:|\n| a sentence that is long enough to be broken | 1,000 |\n",
        ('class="long">a sentence',), (), (),
    ),
    "title of a callout": (
        '::: {.callout-tip}\nA.\n:::\n\n::: {.callout-note title="Mind this"}\nB.\n:::\n',
        ('class="admonition tip"',), (r"{Tip}", r"{Mind this}"), ('#callout("tip", [Tip])',),
    ),
    **{
        f"callout {kind}": (
            f"::: {{.callout-{kind}}}\n## A title\n\nThe text.\n:::\n",
            (f'<div class="admonition {kind}" role="note">',),
            (r"\begin{ridgepointcallout}{A title}",), (f'#callout("{kind}", [A title])[',),
        )
        for kind in ("note", "warning", "important", "caution")
    },
    **{
        f"list {ids}": (FIGURES + f"In [{ids}] it is.\n", (words,), (), ())
        for ids, words in (
            ("@fig-a; @fig-b", "1</a> and <a"), ("@fig-a; @fig-b; @fig-c", "1</a>, <a"),
            ("@Fig-a", ">Figure 1</a> it is"),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("feature", WRITTEN)
def test_each_format_has_its_own_form(write: Write, feature: str) -> None:
    document, *expected = WRITTEN[feature]
    folder = write(document)
    for form, words in zip(FORMATS.values(), expected, strict=True):
        text = body(form(folder)) if words else ""
        assert [each for each in words if each not in text] == [], form


def test_what_a_feature_must_not_leave(write: Write) -> None:
    page = html(write("::: {.callout-note .callout-title}\nText.\n:::\n"))
    assert page.count('class="admonition note"') == 1, "the filter's own output is no callout"
    folder = write("Known [@williams2009].\n\n# References {.unnumbered}\n\n::: {#refs}\n:::\n")
    assert "References" not in latex(folder)
    assert html(folder).count(">References</h2>") == typst(folder).count("References") == 1
    folder = write("Nothing is cited.\n")
    (folder / "references.bib").write_text("")
    assert "bibliography" not in latex(folder) and "References" not in html(folder)


@pytest.mark.parametrize(
    ("attributes", "shown"),
    [
        ('.content-visible when-format="html"', {"html"}),
        ('.content-visible when-format="pdf"', {"latex"}),
        ('.content-visible unless-format="html"', {"latex", "typst"}),
        ('.content-hidden when-format="typst"', {"html", "latex"}),
    ],
)
def test_content_for_some_formats(write: Write, attributes: str, shown: set[str]) -> None:
    folder = write(f"Always.\n\n::: {{{attributes}}}\nSometimes.\n:::\n")
    texts = {name: form(folder) for name, form in FORMATS.items()}
    assert {name for name, text in texts.items() if "Sometimes." in text} == shown
    assert all("Always." in text for text in texts.values())


def test_formulas_in_paragraphs_of_their_own_join_the_sentence_in_latex(write: Write) -> None:
    tex = latex(write("It is\n\n$$a$$ {#eq-a}\n\nor else\n\n$$b$$\n\nEnd.\n"))
    assert "\\end{equation}\nor else\n\\[b\\]\n\nEnd." in tex


def test_a_finished_tabular_is_taken_and_travels_along(write: Write) -> None:
    folder = write(TABLE)
    (folder / "tables").mkdir()
    (folder / "tables" / "tbl-x.tex").write_text("\\begin{tabular}{l}X\\\\\\end{tabular}\n")
    assert r"\input{tables/tbl-x.tex}" in latex(folder)
    assert (folder / "tex" / "tables" / "tbl-x.tex").is_file()


def test_an_author_may_bring_pictures(write: Write) -> None:
    """A photograph as it is, and a drawing of which each format takes its own file."""
    folder = write(
        '![A](pictures/photo.png){#fig-a fig-alt="alt"}\n\n'
        '![B](pictures/plan){#fig-b fig-alt="alt"}\n'
    )
    (folder / "pictures").mkdir()
    Image.new("RGB", (8, 8)).save(folder / "pictures" / "photo.png")
    for ending in ("svg", "pdf"):
        shutil.copyfile(folder / f"figures/time.{ending}", folder / f"pictures/plan.{ending}")
    assert typst_pdf(folder).startswith(b"%PDF")
    tex_of(folder)
    html(folder)
    write_project({"p": folder}, folder / "quarto", {"p": {"title": "A", "abstract": ""}})
    printed = {path.name for path in (folder / "tex" / "pictures").iterdir()}
    assert printed == {"photo.png", "plan.pdf"}
    for place in (folder / "page", folder / "quarto" / "p"):
        assert (place / "pictures" / "photo.png").is_file()
        assert (place / "pictures" / "plan.svg").is_file()


def test_all_problems_are_named_at_once_in_every_format(write: Write) -> None:
    folder = write("See @fig-one.\n\nSee @tbl-two and [@nobody].\n")
    for form in FORMATS.values():
        with pytest.raises(RenderError) as caught:
            form(folder)
        assert [line.split(":", 2)[1] for line in str(caught.value).split("\n")] == [
            "9",
            "11",
            "11",
        ]
    assert not (folder / "tex").exists()


def test_letters_of_figures_are_outlines_for_typst(write: Write) -> None:
    folder = write(FIGURE)
    svg = folder / "figures" / "time.svg"
    svg.write_text(svg.read_text("utf-8").replace("</svg>", "<text>A</text></svg>"), "utf-8")
    with pytest.raises(RenderError, match="holds text instead of outlines"):
        typst(folder)


KEYS = "---\ntitle: A\nauthor: [{name: A}]\nbibliography: references.bib\n"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("No front matter.\n", "has no front matter"),
        ("---\ntitle: [\n---\n", "not valid YAML"),
        ("---\n- title\n---\n", "Expected `object`, got `array`"),
        ("---\ntitle: A\n---\n", "missing required field `author`"),
        ("---\ntitle: A\nauthor: [B]\nbibliography: b\n---\n", "author[0]: Expected `object`"),
        (f"{KEYS}abstrakt: A\n---\n", "unknown field `abstrakt`"),
        (KEYS.replace("name: A", "name: A, mail: b") + "---\n", "author[0]: Object contains"),
        (KEYS.replace("name: A", "name: A, orcid: 0000") + "---\n", "author[0].orcid"),
        (f"{KEYS}toc: 'yes'\n---\n", "toc: Expected `bool`"),
        (f"{KEYS}toc-depth: 4\n---\n", "toc-depth: Expected `int` <= 3"),
        (f"{KEYS}toc-depth: true\n---\n", "toc-depth: Expected `int`"),
        (f"{KEYS}print-style: ieee\nlot: true\n---\n", "lot: the style ieee has no such list"),
        (f"{KEYS}print-style: poster\n---\n", "print-style: Invalid enum value 'poster'"),
    ],
)
def test_front_matter_is_checked(write: Write, head: str, expected: str) -> None:
    with pytest.raises(RenderError, match=re.escape(expected)):
        html(write("Text.\n", head=head))
