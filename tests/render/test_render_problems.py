"""A complaint names the file and the line to mend, as the project names them, in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from report.errors import RenderError
from report.missing import Missing
from report.render import pandoc, quarto
from report.render.html import PageLinks, render_html
from report.render.latex import compile_latex, find_latex, write_latex
from report.render.site import Entry
from report.render.typst import render_typst
from tests.render.conftest import HEAD

TEMPLATE, BIB = "templates/papers/p.qmd.j2", "data/references.bib"
#: Where the line after the front matter stands, and the first one that a test brings.
FIRST = HEAD.count("\n") + 3
ENTRY = "@article{knuth84,\n  title = {X},\n  author = {Knuth, D},\n  year = 1984\n}\n"
PRINTED = "::: {#tbl-x}\n\n| a |\n|---|\n| TEXT |\n\nCaption.\n:::"


def html(folder: Path) -> object:
    return render_html(folder, "p", PageLinks())


def latex(folder: Path) -> object:
    write_latex(folder, "p", folder / "tex")
    if isinstance(find_latex(), Missing):
        pytest.skip("LaTeX is not complete here")
    return compile_latex(folder / "tex", "p").pdf


def typst(folder: Path) -> object:
    return render_typst(folder, "p")


Render = Callable[[Path], object]
ALL: tuple[Render, ...] = (html, latex, typst)

#: Fourteen columns, as the case of quarto-cli#6417.
WIDE = "\n".join(
    "|" + "|".join(cells) + "|"
    for cells in ([f"Column{n}" for n in range(14)], ["--"] * 14, ["aixxxxxx"] * 14)
)

#: What is wrong → the template's text, the bibliography, who notices, the place and some words.
CASES: dict[str, tuple[str, str, tuple[Render, ...], str, str]] = {
    "unknown citation": ("Text [@nobody].", "", ALL, f"{TEMPLATE}:{FIRST}", "@nobody is not in"),
    "citation in a table": (
        '{{ tables["tbl-x"] }}', "", ALL, f"{TEMPLATE}:{FIRST}: tbl-x", "@nobody is not in",
    ),
    "unknown figure": ("By @fig-none.", "", ALL, f"{TEMPLATE}:{FIRST}", "@fig-none refers to"),
    "formula without end": ("$$\na = b\n\nText.", "", ALL, f"{TEMPLATE}:{FIRST + 1}", "no end"),
    "brace without end": ("Let $\\frac{a}{$ be.", "", ALL, f"{TEMPLATE}:{FIRST}", r"\frac"),
    "unknown command": ("Let $\\nosuch{a}$.", "", ALL, f"{TEMPLATE}:{FIRST}", "control sequence"),
    "environment without end": (
        "$$\n\\begin{aligned} a &= b\n$$", "", ALL, f"{TEMPLATE}:{FIRST + 1}", "",
    ),
    "div without end": ("::: {.note}\n\nText.", "", ALL, f"{TEMPLATE}:{FIRST}", "unclosed"),
    "raw LaTeX": ("```{=latex}\n\\emph{x}\n```", "", ALL, f"{TEMPLATE}:{FIRST + 1}", "raw LaTeX"),
    "raw Typst": ("```{=typst}\n#emph[x]\n```", "", ALL, f"{TEMPLATE}:{FIRST + 1}", "raw Typst"),
    "raw citation": ("By \\cite{knuth84}.", "", ALL, f"{TEMPLATE}:{FIRST}", "raw LaTeX"),
    "raw footnote": ("It\\footnote{A note.}", "", ALL, f"{TEMPLATE}:{FIRST}", "raw LaTeX"),
    "raw table": (
        "\\begin{tabular}{l}\nleft\n\\end{tabular}", "", ALL, f"{TEMPLATE}:{FIRST}", "raw LaTeX",
    ),
    "macro": ("\\newcommand{\\x}{y}", "", ALL, f"{TEMPLATE}:{FIRST}", "raw LaTeX"),
    "argument of a C++ template": (
        "A std::vector<float> is it.", "", ALL, f"{TEMPLATE}:{FIRST}", "raw HTML",
    ),
    "file in a formula": (
        "$\\text{\\'\\input{/etc/passwd}}$", "", ALL, f"{TEMPLATE}:{FIRST}", "\\input",
    ),
    "disguised backslash": ("$^^5cinput{a}$", "", ALL, f"{TEMPLATE}:{FIRST}", "^^"),
    "shortcode": ("{{< include /etc/passwd >}}", "", ALL, f"{TEMPLATE}:{FIRST}", "shortcode"),
    "label in a formula": (
        "$$\na = b \\label{eq-x}\n$$ {#eq-y}", "", ALL, f"{TEMPLATE}:{FIRST + 1}", "{#eq-",
    ),
    "tag in a formula": ("$$a \\tag{1}$$", "", ALL, f"{TEMPLATE}:{FIRST}", "{#eq-"),
    "align in a formula": (
        "$$\n\\begin{align}\na &= b\n\\end{align}\n$$", "", ALL,
        f"{TEMPLATE}:{FIRST + 1}", "aligned",
    ),
    "note without text": ("It is.[^no]", "", ALL, f"{TEMPLATE}:{FIRST}", "[^no]"),
    "image from elsewhere": (
        '![C](/etc/x.png){#fig-x fig-alt="x"}', "", ALL, f"{TEMPLATE}:{FIRST}", "pictures/",
    ),
    "image from above": (
        '![C](figures/../x.png){#fig-x fig-alt="x"}', "", ALL, f"{TEMPLATE}:{FIRST}", "pictures/",
    ),
    "image of one format": (
        '![C](figures/time.svg){#fig-x fig-alt="x"}', "", ALL, f"{TEMPLATE}:{FIRST}", "ending",
    ),
    "merged columns": (
        "+---+---+\n| a | b |\n+===+===+\n| c     |\n+---+---+\n\n: S. {#tbl-s}", "", ALL,
        f"{TEMPLATE}:{FIRST + 6}", "merged",
    ),
    "merged rows": (
        "+---+---+\n| a | b |\n+===+===+\n| c | d |\n|   +---+\n|   | e |\n+---+---+\n"
        "\n: S. {#tbl-s}",
        "", ALL, f"{TEMPLATE}:{FIRST + 8}", "merged",
    ),
    "list in a cell": (
        "+-----+---+\n| a   | b |\n+=====+===+\n| - c | d |\n| - e |   |\n+-----+---+\n"
        "\n: S. {#tbl-s}",
        "", ALL, f"{TEMPLATE}:{FIRST + 7}", "paragraph",
    ),
    "foot of a table": (
        "+---+---+\n| a | b |\n+===+===+\n| c | d |\n+===+===+\n| e | f |\n+===+===+\n"
        "\n: S. {#tbl-s}",
        "", ALL, f"{TEMPLATE}:{FIRST + 8}", "foot",
    ),
    "caption without id": (
        "| a |\n|---|\n| 1 |\n\n: Lost words.", "", ALL, f"{TEMPLATE}:{FIRST + 4}", "{#tbl-name}",
    ),
    "columns over each other": (
        f"{WIDE}\n\n: S. {{#tbl-s}}", "", ALL, f"{TEMPLATE}:{FIRST + 4}", "14 columns",
    ),
    "no alternative text": (
        "![C](figures/time){#fig-time}", "", ALL, f"{TEMPLATE}:{FIRST}", "fig-time has no alt",
    ),
    "id twice": ("# A {#sec-a}\n\n# B {#sec-a}", "", ALL, f"{TEMPLATE}:{FIRST}", "sec-a is"),
    "entry without end": (
        "By [@knuth84].", "@book{bad,\n  title = {X,\n}\n", ALL, f"{BIB}:9: entry bad", "",
    ),
    "entry without comma": (
        "By [@knuth84].", "@book{bad,\n  year = 1\n  title = {X}\n}\n", ALL,
        f"{BIB}:8: entry bad", "unexpected",
    ),
    "entry twice": ("By [@knuth84].", ENTRY, (latex,), f"{BIB}:6: entry knuth84", "Repeated"),
    "entry with TeX": (
        "By [@odd].", "@book{odd,\n  title = {X & Y},\n  author = {A, B},\n  year = 1\n}\n",
        (latex,), f"{BIB}:6: entry odd", "alignment",
    ),
}  # fmt: skip


@pytest.fixture
def broken(
    write: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], Path]:
    """Writes a paper from a template that is known as the project's; its folder."""

    def make(text: str, entries: str) -> Path:
        text = f"Words.\n\n{text}\n"
        folder = write(text.replace('{{ tables["tbl-x"] }}', PRINTED.replace("TEXT", "@nobody")))
        papers = tmp_path / "templates" / "papers"
        papers.mkdir(parents=True)
        (papers / "p.qmd.j2").write_text(HEAD + text, "utf-8")
        (folder / "references.bib").write_text(ENTRY + entries, "utf-8")
        monkeypatch.setattr("report.render.problems.PAPERS", papers, raising=False)
        return folder

    return make


@pytest.mark.parametrize(
    ("problem", "render"),
    [(problem, render) for problem, case in CASES.items() for render in case[2]],
)
def test_a_complaint_names_what_to_mend(
    broken: Callable[[str, str], Path], problem: str, render: Render
) -> None:
    text, entries, _, place, words = CASES[problem]
    with pytest.raises(RenderError) as caught:
        render(broken(text, entries))
    (sentence, *others) = str(caught.value).split("\n")
    assert sentence.startswith(f"{place}: ")
    assert words in sentence
    assert others == []
    assert len(sentence) <= 300
    assert sentence.endswith(".")
    assert "/tmp" not in sentence


def test_a_long_complaint_is_cut(broken: Callable[[str, str], Path]) -> None:
    with pytest.raises(RenderError) as caught:
        html(broken(f"Let $\\nosuch{{{'a+' * 400}a}}$.", ""))
    assert str(caught.value).endswith("…); mend that place.")
    assert len(str(caught.value)) == 300


def test_a_program_that_takes_too_long_is_told_of_the_paper(
    broken: Callable[[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nsleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(pandoc, "_TIME_LIMIT_S", 0.2)
    monkeypatch.setattr(pandoc, "pandoc_path", lambda: slow)
    with pytest.raises(RenderError, match=rf"^{TEMPLATE}: slow was not done after 0.2 s"):
        html(broken("Text.", ""))


def test_quarto_is_passed_on_in_one_sentence(
    broken: Callable[[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, project = broken("Text.", ""), tmp_path / "quarto"
    quarto.write_project({"p": folder}, project, {"p": Entry("p", "A", "", "")})
    command = tmp_path / "quarto-command"
    command.write_text(
        '#!/bin/sh\ntest "$1" = --version && echo 1.6 && exit\n'
        f"echo 'ERROR: {project}/p/p.qmd:11' >&2; echo '  no such shortcode' >&2; exit 1\n"
    )
    command.chmod(0o755)
    monkeypatch.setenv("QUARTO_PATH", str(command))
    with pytest.raises(RenderError) as caught:
        quarto.render_quarto(project)
    said = "ERROR: p/p.qmd:11 no such shortcode"
    assert str(caught.value) == f"{TEMPLATE}:11: Quarto refused it ({said}); mend that place."


def test_floats_go_elsewhere_where_typst_loses_its_own_tags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from report.render import typst as room

    tried: list[str] = []

    def compiled(main: Path, *how: str) -> bytes:
        tried.append(main.read_text("utf-8"))
        if len(tried) < 4:
            raise room.TypstRefusalError("internal error: parent group", "")
        return b"%PDF"

    monkeypatch.setattr(room, "_compiled", compiled)
    main = tmp_path / "p.typ"
    places = [("auto", "auto"), ("none", "auto"), ("auto", "none"), ("none", "none")]
    said = "#figure(placement: {}, kind: image) #figure(placement: {}, kind: table)"
    main.write_text(said.format("auto", "auto"), "utf-8")
    assert room.compile_typst(main) == b"%PDF"
    assert tried == [said.format(*place) for place in places]
