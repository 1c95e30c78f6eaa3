"""What the filter makes of each feature in each format."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from report.errors import RenderError
from report.render.html import PageLinks, render_html, write_page
from report.render.latex import write_latex
from report.render.quarto import write_project
from report.render.typst import render_typst, write_typst

Write = Callable[..., Path]

FIGURE = '![A *caption*.](figures/time){#fig-time fig-alt="Time & <batch>, 100 %"}\n\n'


def html(folder: Path) -> str:
    return render_html(folder, "p", PageLinks())


def latex(folder: Path) -> str:
    return write_latex(folder, "p", folder / "tex").read_text("utf-8")


def typst(folder: Path) -> str:
    return write_typst(folder, "p", folder / "typ").read_text("utf-8")


def body(text: str) -> str:
    """Without line breaks, which no format cares about."""
    return " ".join(text.split())


def test_references_to_figures(write: Write) -> None:
    folder = write(FIGURE + "See @fig-time and -@fig-time.\n")
    page = body(html(folder))
    assert 'See <a href="#fig-time" class="reference">Figure 1</a> and' in page
    assert '<a href="#fig-time" class="reference">1</a>.' in page
    assert r"See Figure~\ref{fig-time} and \ref{fig-time}." in body(latex(folder))
    assert "See #ref(<fig-time>); and #ref(<fig-time>, supplement: none);." in body(typst(folder))


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ("@fig-a; @fig-b", "Figure 1 and Figure 2"),
        ("@fig-a; @fig-b; @fig-c", "Figure 1, Figure 2 and Figure 3"),
        ("@Fig-a", "Figure 1"),
    ],
)
def test_lists_of_references(write: Write, ids: str, words: str) -> None:
    figures = "".join(f'![C](figures/time){{#fig-{letter} fig-alt="alt"}}\n\n' for letter in "abc")
    page = html(write(figures + f"In [{ids}] it is.\n"))
    text = re.sub(r"<[^>]+>", "", page).replace("\u00a0", " ")
    assert f"In {words} it is." in body(text)


def test_sections_are_numbered_in_order_and_unnumbered_ones_are_not(write: Write) -> None:
    folder = write(
        "# One {#sec-one}\n\nSee @sec-deep.\n\n# Thanks {.unnumbered}\n\n# Two {#sec-two}\n\n"
        "## Deep {#sec-deep}\n\nText.\n"
    )
    page = html(folder)
    assert '<span class="section-number">2.1</span> Deep' in page
    assert ">Section\u00a02.1</a>" in page
    assert '<h2 class="unnumbered">Thanks</h2>' in page
    assert r"Section~\ref{sec-deep}" in latex(folder)
    assert r"\section*{Thanks}" in latex(folder)


def test_equations_keep_their_numbers_and_the_text_around_them(write: Write) -> None:
    folder = write("Before\n$$\na = b\n$$ {#eq-one}\nafter.\n\n$$c$$ {#eq-two}\n\nBy @eq-two.\n")
    page = html(folder)
    assert page.count('class="equation-number"') == 2
    assert ">Equation\u00a0(2)</a>" in page
    assert "<p>Before</p>" in page
    assert "<p>after.</p>" in page
    tex = latex(folder)
    assert "\\begin{equation}\\label{eq-one}\na = b\n\\end{equation}" in tex
    assert r"Equation~(\ref{eq-two})" in tex
    typ = typst(folder)
    assert 'numbering: "(1)", alt: "a = b", $ a = b $) <eq-one>' in typ


def test_formulas_in_paragraphs_of_their_own_join_the_sentence_in_latex(write: Write) -> None:
    folder = write("It is\n\n$$a$$ {#eq-a}\n\nor else\n\n$$b$$\n\nEnd.\n")
    tex = latex(folder)
    assert "It is\n\n\\begin" in tex.replace("\n\n\n", "\n\n")
    assert "\\end{equation}\nor else\n\\[b\\]\n\nEnd." in tex


def test_sentences_in_cells_may_break_and_numbers_stay_whole(write: Write) -> None:
    sentence = "a sentence that is long enough to be broken"
    page = html(write(f"| a | b |\n|:--|--:|\n| {sentence} | 1,000 |\n"))
    assert f'class="long">{sentence}' in body(page)
    assert page.count('class="long"') == 1


def test_every_formula_has_alternative_text_in_typst(write: Write) -> None:
    typ = typst(write('Inline $\\frac{a}{b}$ and "quoted" $$\\text{"x"}$$\n'))
    assert r'alt: "\\frac{a}{b}"' in typ
    assert r'alt: "\\text{\"x\"}"' in typ


def test_alternative_text_is_escaped_for_each_format(write: Write) -> None:
    folder = write(FIGURE)
    assert 'alt="Time &amp; &lt;batch&gt;, 100 %"' in html(folder)
    assert r"{figures/time.pdf}{Time \& \textless batch\textgreater, 100 \%}" in latex(folder)
    assert 'alt: "Time & <batch>, 100 %"' in typst(folder)


def test_each_format_takes_its_own_figure_file(write: Write) -> None:
    folder = write(FIGURE)
    assert 'src="figures/time.svg"' in html(folder)
    assert "figures/time.pdf" in latex(folder)
    assert 'image("figures/time.svg"' in typst(folder)
    assert (folder / "tex" / "figures" / "time.pdf").is_file()
    assert not (folder / "tex" / "figures" / "memory.pdf").exists()


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
    assert render_typst(folder, "p").startswith(b"%PDF")
    write_latex(folder, "p", folder / "tex")
    write_page(folder, "p", folder / "page", PageLinks())
    write_project({"p": folder}, folder / "quarto")
    printed = {path.name for path in (folder / "tex" / "pictures").iterdir()}
    assert printed == {"photo.png", "plan.pdf"}
    for place in (folder / "page", folder / "quarto" / "p"):
        assert (place / "pictures" / "photo.png").is_file()
        assert (place / "pictures" / "plan.svg").is_file()


def test_a_paper_may_have_an_empty_bibliography(write: Write) -> None:
    folder = write("Nothing is cited.\n")
    (folder / "references.bib").write_text("")
    assert "Nothing is cited." in html(folder)


def test_wide_floats_span_both_columns(write: Write) -> None:
    folder = write(
        '![C](figures/time){#fig-w .wide fig-alt="alt"}\n\n'
        "::: {#tbl-w .wide}\n\n| a |\n|---|\n| 1 |\n\nC\n:::\n"
    )
    tex = latex(folder)
    assert r"\begin{figure*}" in tex
    assert r"\end{table*}" in tex
    assert typst(folder).count('scope: "parent"') == 2
    assert html(folder).count(' wide"') == 2


def test_subfigures(write: Write) -> None:
    folder = write(
        "::: {#fig-x layout-ncol=2}\n\n"
        '![Left](figures/time){#fig-x-l fig-alt="one"}\n\n'
        '![Right](figures/memory){#fig-x-r fig-alt="two"}\n\nBoth\n:::\n\n'
        "See @fig-x-r of @fig-x.\n"
    )
    page = html(folder)
    assert '<figure class="subfigure" id="fig-x-r">' in page
    assert ">Figure\u00a01(b)</a>" in page
    tex = latex(folder)
    assert tex.count(r"\begin{ridgepointsubfigure}{2}") == 2
    assert r"\ridgepointsubcaption{Right}\label{fig-x-r}" in tex
    assert "#link(<fig-x-r>)[Figure~1(b)];" in typst(folder)


def test_images_of_a_figure_may_share_a_paragraph(write: Write) -> None:
    page = html(
        write(
            "::: {#fig-x layout-ncol=2}\n"
            '![Left](figures/time){#fig-x-l fig-alt="one"}\n'
            '![Right](figures/memory){#fig-x-r fig-alt="two"}\n\nBoth\n:::\n'
        )
    )
    assert page.count('class="subfigure"') == 2


TABLE = (
    "::: {#tbl-x}\n\n| Name | Value |\n|:-----|------:|\n| a_b & c | 1,000 |\n\n"
    "::: {.table-notes}\nA note with 5 %.\n:::\n\nThe *caption*\n:::\n\nSee @tbl-x.\n"
)


def test_a_table_without_a_file_is_built_from_its_cells(write: Write) -> None:
    folder = write(TABLE)
    tex = body(latex(folder))
    assert r"\begin{tabular}{lr} \toprule Name & Value \\ \midrule a\_b \& c & 1,000 \\" in tex
    assert r"\caption{The \emph{caption}}\label{tbl-x}" in tex
    assert r"\begin{ridgepointnotes} A note with 5 \%. \end{ridgepointnotes}" in tex
    assert "longtable" not in tex


def test_a_finished_tabular_is_taken_and_travels_along(write: Write) -> None:
    folder = write(TABLE)
    (folder / "tables").mkdir()
    (folder / "tables" / "tbl-x.tex").write_text("\\begin{tabular}{l}X\\\\\\end{tabular}\n")
    tex = latex(folder)
    assert r"\input{tables/tbl-x.tex}" in tex
    assert r"\begin{tabular}" not in tex
    assert (folder / "tex" / "tables" / "tbl-x.tex").is_file()


def test_a_table_on_the_page_and_in_typst(write: Write) -> None:
    folder = write(TABLE)
    page = html(folder)
    assert '<figure id="tbl-x" class="table" aria-labelledby="tbl-x-caption">' in page
    assert '<td class="right">1,000</td>' in page
    assert '<table aria-labelledby="tbl-x-caption"' in page
    typ = body(typst(folder))
    assert "table(columns: 2, align: (left, right,)" in typ
    assert "notes: [A note with 5 %.]" in typ
    assert ") <tbl-x>" in typ


def test_a_table_may_carry_its_id_in_the_caption_line(write: Write) -> None:
    folder = write("| a |\n|---|\n| 1 |\n\n: The caption {#tbl-y}\n\nSee @tbl-y.\n")
    assert r"\caption{The caption}\label{tbl-y}" in latex(folder)
    assert ">Table\u00a01</a>" in html(folder)


@pytest.mark.parametrize("kind", ["note", "tip", "warning", "important", "caution"])
def test_callouts(write: Write, kind: str) -> None:
    folder = write(f"::: {{.callout-{kind}}}\n## A title\n\nThe text.\n:::\n")
    assert f'<div class="admonition {kind}" role="note">' in html(folder)
    assert "callout-title" in html(folder)
    assert r"\begin{ridgepointcallout}{A title}" in latex(folder)
    assert f'#callout("{kind}", [A title])[' in typst(folder)


def test_callouts_without_a_title_and_with_an_attribute(write: Write) -> None:
    folder = write(
        '::: {.callout-tip}\nA.\n:::\n\n::: {.callout-note title="Mind this"}\nB.\n:::\n'
    )
    tex = latex(folder)
    assert r"\begin{ridgepointcallout}{Tip}" in tex
    assert r"\begin{ridgepointcallout}{Mind this}" in tex


def test_the_output_of_the_filter_is_no_callout_again(write: Write) -> None:
    page = html(write("::: {.callout-note .callout-title}\nText.\n:::\n"))
    assert page.count('class="admonition note"') == 1


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ('.content-visible when-format="html"', {"html"}),
        ('.content-visible when-format="latex"', {"latex"}),
        ('.content-visible when-format="pdf"', {"latex"}),
        ('.content-visible when-format="typst"', {"typst"}),
        ('.content-visible unless-format="html"', {"latex", "typst"}),
        ('.content-hidden when-format="html"', {"latex", "typst"}),
        ('.content-hidden unless-format="typst"', {"typst"}),
    ],
)
def test_content_for_one_format(write: Write, condition: str, shown: set[str]) -> None:
    folder = write(f"Always.\n\n::: {{{condition}}}\nSometimes.\n:::\n")
    texts = {"html": html(folder), "latex": latex(folder), "typst": typst(folder)}
    assert {name for name, text in texts.items() if "Sometimes." in text} == shown
    assert all("Always." in text for text in texts.values())


def test_what_a_format_hides_takes_no_number(write: Write) -> None:
    folder = write(
        '::: {.content-visible when-format="latex"}\n' + FIGURE + ":::\n\n"
        '![B](figures/memory){#fig-m fig-alt="alt"}\n\nSee @fig-m.\n'
    )
    assert ">Figure\u00a01</a>" in html(folder)


def test_values_are_links_on_the_page_and_plain_text_in_print(write: Write) -> None:
    folder = write(
        "It does [21,233 FLOP](#v-work){.value}.\n\n"
        '::: {.content-visible when-format="html"}\n[here]{#v-work}\n:::\n'
    )
    assert '<a href="#v-work" class="value">21,233 FLOP</a>' in html(folder)
    assert "It does 21,233 FLOP." in latex(folder)
    assert "It does 21,233 FLOP." in typst(folder)


def test_files_are_downloads_on_the_page_and_named_in_print(write: Write) -> None:
    folder = write("Take [the *trace*](files/a_b.gz) or [a_b.gz](files/a_b.gz).\n")
    (folder / "files").mkdir()
    (folder / "files" / "a_b.gz").write_bytes(b"x")
    page = body(html(folder))
    assert 'Take <a href="files/a_b.gz" class="download" download="">the <em>trace</em></a>' in page
    assert r"Take the \emph{trace} (\texttt{a\_b.gz}) or a\_b.gz." in body(latex(folder))
    assert "Take the #emph[trace] (`a_b.gz`) or a\\_b.gz." in body(typst(folder))


@pytest.mark.parametrize("form", [html, latex, typst])
def test_a_download_without_a_file_is_named(write: Write, form: Callable[[Path], str]) -> None:
    with pytest.raises(RenderError, match=r"p\.qmd:\d+: the link leads to tables/none\.csv, which"):
        form(write("Take [the numbers](tables/none.csv).\n"))


def test_citations(write: Write) -> None:
    folder = write(
        "Known [@williams2009; @paszke2019]. As @williams2009 say, and @krizhevsky2012 [p. 3].\n"
    )
    tex = latex(folder)
    assert r"Known \cite{williams2009,paszke2019}." in tex
    assert r"As Williams et al.~\cite{williams2009} say" in tex
    assert r"Krizhevsky et al.~\cite[p.~3]{krizhevsky2012}" in tex
    assert tex.count(r"\bibliography{references}") == 1
    page = html(folder)
    assert "Williams et al.\u00a0" in page
    assert page.count('class="csl-entry"') == 3
    assert ">References</h2>" in page


def test_the_list_of_references_has_one_heading(write: Write) -> None:
    folder = write("Known [@williams2009].\n\n# References {.unnumbered}\n\n::: {#refs}\n:::\n")
    assert "References" not in latex(folder)
    assert html(folder).count(">References</h2>") == 1
    assert typst(folder).count("References") == 1


def test_a_paper_that_cites_nothing_has_no_list(write: Write) -> None:
    folder = write("Nothing.\n")
    assert "bibliography" not in latex(folder)
    assert "References" not in html(folder)


def test_footnotes(write: Write) -> None:
    folder = write("Text.[^a]\n\n[^a]: The note.\n")
    assert r"Text.\footnote{The note.}" in latex(folder)
    assert 'role="doc-endnotes"' in html(folder)
    assert "#footnote[The note.]" in body(typst(folder))


def problem(write: Write, text: str) -> str:
    with pytest.raises(RenderError) as caught:
        html(write(text))
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See @fig-none.\n", "p.qmd:9: @fig-none refers to nothing; define #fig-none"),
        ("See @eq-none.\n", "@eq-none refers to nothing"),
        ("# A {.unnumbered #sec-a}\n\nSee @sec-a.\n", "at a numbered heading"),
        ("Known [@nobody2000].\n", "@nobody2000 is not in the bibliography; add the entry"),
        ("Known [@williams2009; @fig-x].\n", "mixes citations and cross references"),
        ('![C](figures/none){#fig-n fig-alt="x"}\n', "figures/none.svg does not exist"),
        ("![C](figures/time){#fig-n}\n", "fig-n has no alternative text; add fig-alt"),
        ('![C](figures/time){fig-alt="x"}\n', "figures/time has no id; add {#fig-...}"),
        ("::: {#tbl-x}\nOnly a caption\n:::\n", "tbl-x holds no table; add one"),
        ("::: {#tbl-x}\n\n| a |\n|---|\n| 1 |\n\n:::\n", "tbl-x has no caption"),
        ("::: {#fig-x}\nOnly a caption\n:::\n", "fig-x holds no image; add one"),
        (FIGURE + FIGURE, "fig-time is defined twice"),
        ("# A {#sec-a_b}\n", "sec-a_b has an underscore; use hyphens"),
        ("A [value](#v-none){.value}.\n", "#v-none leads nowhere"),
        ('::: {.content-visible when-format="docx"}\nA\n:::\n', "format docx is not known"),
        ("::: {.content-visible}\nA\n:::\n", "has no format"),
        ("::: {.callout-note}\nNever closed.\n", "unclosed"),
        ("$$ \\frac{a $$\n", "pandoc refused it (the formula \\frac{a: unexpected"),
    ],
)
def test_what_is_wrong_is_named(write: Write, text: str, expected: str) -> None:
    assert expected in problem(write, text)


def test_all_problems_are_named_at_once(write: Write) -> None:
    message = problem(write, "See @fig-one.\n\nSee @tbl-two and [@nobody].\n")
    assert [line.split(":", 2)[1] for line in message.split("\n")] == ["9", "11", "11"]


def test_print_formats_refuse_the_same(write: Write) -> None:
    folder = write("See @fig-none and [@nobody].\n")
    for render in (latex, typst):
        with pytest.raises(RenderError, match=r"@fig-none[\s\S]*@nobody"):
            render(folder)
    assert not (folder / "tex").exists()


def test_letters_of_figures_are_outlines_for_typst(write: Write) -> None:
    folder = write(FIGURE)
    svg = folder / "figures" / "time.svg"
    svg.write_text(svg.read_text("utf-8").replace("</svg>", "<text>A</text></svg>"), "utf-8")
    with pytest.raises(RenderError, match="holds text instead of outlines"):
        typst(folder)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("No front matter.\n", "has no front matter"),
        ("---\ntitle: [\n---\n", "not valid YAML"),
        ("---\ntitle: A\n---\n", "author: missing"),
        ("---\ntitle: A\nauthor: [B]\nbibliography: b\n---\n", "a mapping with a name"),
        ("---\nprint-style: poster\n---\n", "print-style: found 'poster'; use one of ieee"),
    ],
)
def test_front_matter_is_checked(write: Write, head: str, expected: str) -> None:
    with pytest.raises(RenderError, match=re.escape(expected)):
        html(write("Text.\n", head=head))
