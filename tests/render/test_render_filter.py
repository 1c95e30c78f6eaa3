"""Output of the pandoc filter, which converts a paper's Markdown, for each feature and format."""

import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

from report.core.errors import RenderError
from report.paper.manuscript import provenance
from report.paper.values import Value
from tests.render.conftest import FRONT_MATTER, WritePaper, html_of, tex_of, typst_of, typst_pdf


def latex_of(folder: Path) -> str:
    return tex_of(folder).read_text("utf-8")


#: Format → function that converts the paper in a folder.
FORMATS = {"html": html_of, "latex": latex_of, "typst": typst_of}

#: Feature → texts that HTML, LaTeX and Typst must contain; their line breaks count as spaces.
TEXTS_BY_FEATURE: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "references": (
        ('<a href="#fig-time" class="reference">Figure 3</a>, and', 'as in <a href="#fig-time" '
         'class="reference">3</a>', ">Figure 4(b)</a>", ">Section 2</a>", ">Equation (1)</a>"),
        (r"time in Figure~\ref{fig-time}", r"as in \ref{fig-time}", r"Section~\ref{sec-model}",
         r"Equation~(\ref{eq-work})"),
        ("#ref(<fig-time>);", "#ref(<fig-time>, supplement: none);",
         "#link(<fig-parts-memory>)[Figure~4(b)];", "#ref(<sec-model>)"),
    ),
    "lists of references": (
        ('1</a> and <a href="#fig-joined"', '1</a>, <a href="#fig-joined"', ">Figure 1</a>."),
        (), (),
    ),
    "sections": (
        ('<h2 class="unnumbered">Thanks</h2>', '<span class="section-number">1.1</span> Questions'),
        (r"\section*{Thanks}", r"\subsection{Questions}\label{sec-questions}"), ("= Model",),
    ),
    "equations": (
        ('<div id="eq-work" class="equation">', '<math display="inline"', '<math display="block"'),
        (r"\begin{equation}\label{eq-work} W = 2", r"\[ I_\text{ridge}", r"\(I = W / Q\)"),
        ('numbering: "(1)", alt: "W = 2 B', ") <eq-work> where", r'alt: "\\text{\"x\"}"'),
    ),
    "alternative text": (
        ('alt="Time &amp; &lt;batch&gt;, 100 %"', 'src="figures/time.svg"'),
        (r"{figures/time.pdf}{Time \& \textless batch\textgreater, 100 \%}",),
        ('alt: "Time & <batch>, 100 %"', 'image("figures/time.svg"'),
    ),
    "wide": (
        ('class="figure wide"', 'class="table wide"'), (r"\begin{figure*}", r"\end{table*}"),
        ('scope: "parent", kind: image', 'scope: "parent", kind: table'),
    ),
    "parts of a figure": (
        ('<figure class="subfigure" id="fig-parts-memory">', 'id="fig-joined-r"'),
        (r"\begin{ridgepointsubfigure}{2}", r"\ridgepointsubcaption{Right}\label{fig-joined-r}"),
        ("<fig-joined-l>",),
    ),
    "tables": (
        ('<figure id="tbl-named" class="table" aria-labelledby="tbl-named-caption">',
         '<td class="right">1,000</td>', 'class="long">a sentence', ">Table 1</a>"),
        (r"\begin{tabular}{lr} \toprule a\_b \& c & B \\ \midrule", r"\input{tables/tbl-work.tex}",
         r"\caption{The \emph{caption}}\label{tbl-named}",
         r"\begin{ridgepointnotes} A dash: the counter"),
        ("table(columns: 2, align: (left, right,)", "notes: [A dash:", ") <tbl-named>"),
    ),
    "values": (
        ('<a href="#v-layer-flops" class="value">21,233,664 FLOP</a>',),
        ("does 21,233,664 FLOP per",), ("does 21,233,664 FLOP per",),
    ),
    "hidden figures have no number": (
        ('<span class="label">Figure 1.</span> C',), (r"\label{fig-hidden}",), (),
    ),
    "citations": (
        ("Williams et al. ", ">References</h2>"),
        (r"layers \cite{krizhevsky2012}", r"Williams et al.~\cite{williams2009} bounds",
         r"\cite[sec.~3]{paszke2019}", r"\bibliography{ridgepoint,references}"),
        ("Williams et al.",),
    ),
    "notes of cells": (
        ("again<sup>a</sup></td>", '<p><sup>a</sup> Noted <em>alpha</em>.</p>'),
        (r"broken\textsuperscript{a} & 1,000 \\ again\textsuperscript{a} & 2",
         r"\begin{ridgepointnotes} \textsuperscript{a} Noted \emph{alpha}. \end{ridgepointnotes}"),
        ("notes: [#super[a] Noted #emph[alpha].]",),
    ),
    "footnotes": (
        ('role="doc-endnotes"',), (r"\footnote{A footnote with",), ("#footnote[A footnote with",),
    ),
    "callouts": (
        tuple(f'<div class="admonition {kind}" role="note">'
              for kind in ("note", "tip", "warning", "important", "caution")),
        (r"\begin{ridgepointcallout}{Units}", "{Tip}", "{Not the same clock}"),
        ('#callout("note", [Units])[', '#callout("tip", [Tip])'),
    ),
}  # fmt: skip
#: Text of the sample → the formats whose output contains the text.
FORMATS_BY_TEXT = {
    "Only the page": ["html"],
    "Only print": ["latex", "typst"],
    "Off the page": ["latex", "typst"],
    "Only LaTeX": ["latex"],
    "By LaTeX into the PDF": ["latex"],
    "Only Typst": ["typst"],
    "section{References}": [],
}


@pytest.fixture(scope="module")
def texts(featured: Path) -> dict[str, str]:
    """Convert the sample with all features to each format; turn line breaks into spaces."""
    return {name: " ".join(convert(featured).split()) for name, convert in FORMATS.items()}


@pytest.mark.parametrize("feature", TEXTS_BY_FEATURE)
def test_each_format_contains_the_texts_of_a_feature(texts: dict[str, str], feature: str) -> None:
    for (form, text), expected in zip(texts.items(), TEXTS_BY_FEATURE[feature], strict=True):
        assert [words for words in expected if words not in text] == [], form


def test_text_for_some_formats_is_in_no_other_format(texts: dict[str, str]) -> None:
    for words, formats in FORMATS_BY_TEXT.items():
        assert [form for form, text in texts.items() if words in text] == formats, words


def test_authors_may_add_pictures(write: WritePaper) -> None:
    """A photograph is one file; a drawing has a file per format."""
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
    html_of(folder)
    printed = {path.name for path in (folder / "tex" / "pictures").iterdir()}
    assert printed == {"photo.png", "plan.pdf"}
    assert (folder / "page" / "pictures" / "photo.png").is_file()
    assert (folder / "page" / "pictures" / "plan.svg").is_file()


def test_all_problems_are_named_at_once_in_every_format(write: WritePaper) -> None:
    """Each problem is a line of the message, ``p.qmd:LINE: …``; the body begins in line 9."""
    folder = write("See @fig-one.\n\nSee @tbl-two and [@nobody].\n")
    for convert in FORMATS.values():
        with pytest.raises(RenderError) as caught:
            convert(folder)
        line_numbers = [line.split(":", 2)[1] for line in str(caught.value).split("\n")]
        assert line_numbers == ["9", "11", "11"]
    assert not (folder / "tex").exists()


def test_the_list_of_values_equals_pandocs(write: WritePaper) -> None:
    """The renderer converts the list itself, since pandoc refuses a list of 501 lines.

    If the condition has no quotes, pandoc converts the list.
    """
    names = ("Less | <than>", "a_b*c*", "\\ & [x]{#y}", '"CuPy\'s" -- 2^10^ ... |')
    values = [Value(f"n_{number}", name, 0.5, "s", name) for number, name in enumerate(names)]

    def page(condition: str, values: list[Value]) -> str:
        fence = f"::: {{.content-visible {condition}}}"
        return html_of(write(f"{fence}\n\n{provenance(values)}\n\n:::\n"))

    own_page = page('when-format="html"', values)
    assert "Less | &lt;than&gt;<" in own_page and own_page == page("when-format=html", values)
    assert page('when-format="html"', 126 * values).count('<span id="v-') == 126 * len(values)


def test_long_words_of_code_may_break(write: WritePaper) -> None:
    token = "nounbreakablewords" * 7 + "END"
    folder = write(f"```\nshort {token}\n```\n\n`run --wait-quiet 10`\n")
    broken = "\u200b".join(token[i : i + 12] for i in range(0, len(token), 12))
    assert f"short {broken}\n" in latex_of(folder) and f"short {broken}\n" in typst_of(folder)
    page = html_of(folder)
    assert token in page and '<code>run <span class="option">--wait-quiet</span> 10<' in page


def test_a_table_whose_cells_break_goes_over_pages(write: WritePaper) -> None:
    """Both tables are wider than a line; one with short cells alone is made smaller."""
    for cell, columns, long in (("ab " * 12, 3, True), ("ab " * 6, 5, False)):
        row, rule = columns * f"| {cell}" + "|\n", columns * "|---" + "|\n"
        table = f"::: {{#tbl-t}}\n{row}{rule}{30 * row}\nC\n:::\n"
        folder = write(table, FRONT_MATTER.replace("ieee", "article"))
        assert ("longtable" in latex_of(folder)) is ("#over-pages[" in typst_of(folder)) is long


def test_bibliography_entries_keep_dois_and_formulas_in_latex(write: WritePaper) -> None:
    """IEEEtran.bst drops the field ``doi`` and lowercases letters outside braces."""
    folder = write("Known [@a].\n")
    entry = "@misc{a, title={On $O(n^2)$ and $K_{A}L$}, note={Undated}, doi={10.1/x_%12#}}\n"
    (folder / "references.bib").write_text(entry, "utf-8")
    tex_of(folder)
    assert (folder / "tex" / "references.bib").read_text("utf-8") == (
        "@misc{a, title={On {$O(n^2)$} and {$K_{A}L$}}, "
        r"note={Undated; doi: \href{https://doi.org/10.1/x_\%12\#}{\nolinkurl{10.1/x_\%12\#}}}, "
        "doi={10.1/x_%12#}}\n"
    )
    assert typst_pdf(folder).startswith(b"%PDF")


def test_figures_with_text_are_refused_for_typst(write: WritePaper) -> None:
    folder = write('![C](figures/time){#fig-time fig-alt="alt"}\n')
    svg = folder / "figures" / "time.svg"
    svg.write_text(svg.read_text("utf-8").replace("</svg>", "<text>A</text></svg>"), "utf-8")
    with pytest.raises(RenderError, match="holds text instead of outlines"):
        typst_of(folder)


#: Front matter without its last line.
KEYS = "---\ntitle: A\nauthor: [{name: A}]\nbibliography: references.bib\n"


@pytest.mark.parametrize(("head", "expected"), [
    ("No front matter.\n", "has no front matter"),
    ("---\ntitle: [\n---\n", "not valid YAML"),
    ("---\ntitle: A\n---\n", "missing required field `author`"),
    (f"{KEYS}abstrakt: A\n---\n", "unknown field `abstrakt`; known are title, author, "),
    (KEYS.replace("name: A", "name: A, orcid: 0000") + "---\n", "author[0].orcid"),
    (KEYS.replace("name: A", "name: A, mail: x") + "---\n", "known are name, affiliation, orcid"),
    (KEYS.replace("name: A", "name: A, email: a--b@x.org") + "---\n", "author[0].email"),
])  # fmt: skip
def test_front_matter_is_checked(write: WritePaper, head: str, expected: str) -> None:
    with pytest.raises(RenderError, match=re.escape(expected)):
        html_of(write("Text.\n", head=head))


def test_authors_may_have_an_address_and_roles(write: WritePaper) -> None:
    fields = "\n    email: a_b@x.org\n    corresponding: true\n    equal-contribution: true"
    with_fields = FRONT_MATTER.replace("Ada Example", f"Ada Example{fields}")
    links = ('href="mailto:a_b@x.org"', r"\href{mailto:a_b@x.org}", '#link("mailto:a_b@x.org")')
    for (form, convert), link in zip(FORMATS.items(), links, strict=True):
        for style in ("ieee",) if form == "html" else ("ieee", "acm", "article", "report"):
            text = convert(write("Text.\n", with_fields.replace("ieee", style)))
            assert link in text and "corresponding author, equal contribution" in text
        assert "mailto" not in convert(write("Text.\n"))
