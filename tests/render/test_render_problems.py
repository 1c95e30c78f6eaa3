"""Errors of rendering: one sentence each, with the project's file and line to fix."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from report.core.errors import RenderError
from report.core.system import programs
from report.render import pandoc
from report.render.latex import compile_latex
from tests import factory
from tests.render.conftest import FRONT_MATTER, LACKING, WritePaper, tex_of
from tests.render.conftest import html_of as html

TEMPLATE, BIB = "templates/papers/p.qmd.j2", "data/references.bib"
#: Line of the template in which the text of a test begins, after "Words." and an empty line.
FIRST = FRONT_MATTER.count("\n") + 3
ENTRY = "@article{knuth84,\n  title = {X},\n  author = {Knuth, D},\n  year = 1984\n}\n"
#: A table that the build prints for one line of the template, with a reference to nothing.
PRINTED_TABLE = "::: {#tbl-x}\n\n| a |\n|---|\n| @nobody |\n\nCaption.\n:::"


def latex(folder: Path) -> object:
    """Compile the paper in a folder; skip the test without LaTeX."""
    main = tex_of(folder)
    if LACKING:
        pytest.skip(LACKING)
    return compile_latex(main.parent, "p")


#: A table of fourteen columns (quarto-cli#6417).
WIDE = "\n".join(
    "|" + "|".join(cells) + "|"
    for cells in ([f"Column{n}" for n in range(14)], ["--"] * 14, ["aixxxxxx"] * 14)
)

#: Text in the template, number of lines from ``FIRST`` to the error, and words of the error.
PROBLEMS: tuple[tuple[str, int, str], ...] = (
    ("Text [@nobody].", 0, "@nobody is not in"),
    ('{{ tables["tbl-x"] }}', 0, "@nobody is not in"),
    ("$$\na = b\n\nText.", 1, "no end"),
    ("Let $\\frac{a}{$ be.", 0, "\\frac"),
    ("Let $\\nosuch{a}$.", 0, "control sequence"),
    (f"Let $\\nosuch{{{'a+' * 400}a}}$.", 0, "…); fix that place."),
    ("$$\n\\begin{aligned} a &= b\n$$", 1, ""),
    ("::: {.note}\n\nText.", 0, "unclosed"),
    ("```{=latex}\n\\emph{x}\n```", 1, "raw LaTeX"),
    ("\\newcommand{\\x}{y}", 0, "raw LaTeX"),
    ("A std::vector<float> is it.", 0, "raw HTML"),
    ("$\\text{\\'\\input{/etc/passwd}}$", 0, "\\input"),
    ("$^^5cinput{a}$", 0, "^^"),
    ("{{< include /etc/passwd >}}", 0, "shortcode"),
    ("$$\na = b \\label{eq-x}\n$$ {#eq-y}", 1, "{#eq-"),
    ("$$\n\\begin{align}\na &= b\n\\end{align}\n$$", 1, "aligned"),
    ("It is.[^no]", 0, "[^no]"),
    ('![C](/etc/x.png){#fig-x fig-alt="x"}', 0, "pictures/"),
    ('![C](figures/time.svg){#fig-x fig-alt="x"}', 0, "ending"),
    ("+---+---+\n| a | b |\n+===+===+\n| c | d |\n|   +---+\n|   | e |\n+---+---+\n\n: S. {#tbl-s}",
     8, "merged"),
    ("+----+---+\n| a  | b |\n+====+===+\n| - c| d |\n| - e|   |\n+----+---+\n\n: S. {#tbl-s}",
     7, "paragraph"),
    ("+---+---+\n| a | b |\n+===+===+\n| c | d |\n+===+===+\n| e | f |\n+===+===+\n\n: S. {#tbl-s}",
     8, "foot"),
    ("| a |\n|---|\n| 1 |\n\n: Lost words.", 4, "{#tbl-name}"),
    (f"{WIDE}\n\n: S. {{#tbl-s}}", 4, "14 columns"),
    ("![C](figures/time){#fig-time}", 0, "fig-time has no alt"),
    ("# A {#sec-a}\n\n# B {#sec-a}", 0, "sec-a is"),
    ("See @eq-none.", 0, "@eq-none refers to nothing"),
    ("# A {.unnumbered #sec-a}\n\nSee @sec-a.", 2, "at a numbered heading"),
    ("Known [@knuth84; @fig-x].", 0, "mixes citations and cross references"),
    ('![C](figures/none){#fig-n fig-alt="x"}', 0, "figures/none.svg does not exist"),
    ('![C](figures/time){fig-alt="x"}', 0, "figures/time has no id"),
    ("::: {#tbl-x}\nOnly a caption\n:::", 0, "tbl-x holds no table"),
    ("::: {#tbl-x}\n\n| a |\n|---|\n| 1 |\n\n:::", 0, "tbl-x has no caption"),
    ("# A {#sec-a_b}", 0, "sec-a_b has an underscore"),
    ("A [value](#v-none){.value}.", 0, "#v-none leads nowhere"),
    ("Take [the numbers](tables/none.csv).", 0, "the link leads to tables/none.csv"),
    ('::: {.content-visible when-format="epub"}\nA\n:::', 0, "format epub is not known"),
    ("See [x](JavaScript:alert(1)).", 0, "leads to JavaScript:"),
    ("Let $\\href{javascript:x}{y}$.", 0, "holds \\href"),
    ("| a |\n|---|\n| 1 |\n\n: S.[^c] {#tbl-s}\n\n[^c]: Gamma.", 4, "a note stands in a caption"),
    ('![C^[n]](figures/time){#fig-x fig-alt="x"}', 0, "a note stands in a caption"),
    ("::: {#tbl-x}\n\n| a |\n|---|\n| 1 |\n\nC.^[n]\n:::", 0, "a note stands in a caption"),
    ("# Heading^[n]", 0, "a note stands in a heading"),
    ("Term^[n]\n:   Text.", 0, "a note stands in a term"),
    ("It is.[^c]\n\n[^c]: Code:\n\n        x = 1", 2, "a note holds a CodeBlock"),
    ("| a |\n|---|\n| noted[^c] |\n\n[^c]: One.\n\n    Two.", 2, "no single paragraph"),
    ("\n".join("    " * n + f"- level {n}" for n in range(7)), 4, "more than 4 levels"),
    ('::: {#fig-x}\n\n![](figures/time){fig-alt="x"}\n\n| a |\n|---|\n| 1 |\n\nCaption.\n:::', 0,
     "more than images"),
    ("| a |\n|---|\n" + "| 1 |\n" * 501, 0, "more than 500 rows"),
    ("+---+\n| a |\n+===+\n" + "| 1 |\n+---+\n" * 501, 0, "more than 500 rows"),
)  # fmt: skip


@pytest.fixture
def write_broken(
    write: WritePaper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """Return a function that writes a paper with ``text``, and the template of the paper.

    ``entries`` are added to the bibliography.
    """

    def make(text: str, entries: str = "") -> Path:
        text = f"Words.\n\n{text}\n"
        folder = write(text.replace('{{ tables["tbl-x"] }}', PRINTED_TABLE))
        papers = tmp_path / "templates" / "papers"
        papers.mkdir(parents=True)
        (papers / "p.qmd.j2").write_text(FRONT_MATTER + text, "utf-8")
        (folder / "references.bib").write_text(ENTRY + entries, "utf-8")
        monkeypatch.setattr("report.render.problems.PAPERS", papers, raising=False)
        return folder

    return make


def error_of(folder: Path, render: Callable[[Path], object] = html) -> str:
    """Return the error of rendering, which must be one sentence without the rendered folder."""
    with pytest.raises(RenderError) as caught:
        render(folder)
    sentence = str(caught.value)
    assert "\n" not in sentence and len(sentence) <= 300 and sentence.endswith(".")
    assert "/tmp" not in sentence
    return sentence


@pytest.mark.parametrize(("text", "line", "words"), PROBLEMS)
def test_a_problem_is_reported_with_its_line_in_the_template(
    write_broken: Callable[..., Path], text: str, line: int, words: str
) -> None:
    sentence = error_of(write_broken(text))
    assert sentence.startswith(f"{TEMPLATE}:{FIRST + line}: ") and words in sentence


def test_an_entry_that_latex_refuses_is_named(write_broken: Callable[..., Path]) -> None:
    entry = "@book{odd,\n  title = {X & Y},\n  author = {A, B},\n  year = 1\n}\n"
    sentence = error_of(write_broken("By [@knuth84; @odd].", entry), latex)
    assert sentence.startswith(f"{BIB}:6: entry odd: ") and "alignment" in sentence


def test_another_version_of_pandoc_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "PANDOC_VERSION", "3.1")
    with pytest.raises(RenderError, match=r"found pandoc 3\.9, but papers need 3\.1"):
        programs.pandoc_path.__wrapped__()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits another process")
def test_memory_of_programs_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program allocates 512 MiB of 256 MiB; it first waits until the limit is set."""
    monkeypatch.setattr(programs, "_MEMORY_LIMIT_B", 256 * 2**20, raising=False)
    code = "import time; time.sleep(0.5); len(bytearray(512 * 2**20))"
    finished = programs.run([sys.executable, "-c", code], tmp_path, 60)
    assert finished.returncode == 1 and "MemoryError" in finished.stderr


def test_a_program_that_exceeds_the_time_limit_is_named_with_the_paper(
    write_broken: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = factory.write_program(tmp_path / "slow", "#!/bin/sh\nsleep 60\n")
    monkeypatch.setattr(pandoc, "_TIME_LIMIT_S", 0.2)
    monkeypatch.setattr(pandoc, "pandoc_path", lambda: slow)
    assert error_of(write_broken("Text.")).startswith(f"{TEMPLATE}: slow was not done after 0.2 s")
