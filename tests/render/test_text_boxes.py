"""No word of a paper's PDF is printed over another or out of the page, whatever the data."""

from __future__ import annotations

from pathlib import Path

import pytest

import build
from report.studies import STUDIES
from tests.boxes import Word, body_pages, misplaced, needs_pdftotext
from tests.latex import needs_latex

ENGINES = ("typst", pytest.param("latex", marks=needs_latex))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for both engines, so that everything but the PDFs is made once."""
    return tmp_path_factory.mktemp("out")


@needs_pdftotext
@pytest.mark.parametrize("engine", ENGINES)
def test_words_of_all_papers_stand_clear_of_each_other(out: Path, engine: str) -> None:
    assert build.main(["--pdf", "--engine", engine, "--out", str(out)]) == 0
    found = [(study, word) for study in STUDIES for word in misplaced(out / f"pdf/{study}.pdf")]
    assert found == []


#: Pages and tables before the list of references, of the papers that keep to a journal's limits.
LIMITS = {
    "conv_scaling": (6, 6),
    "conv_profiling": (10, 8),
    "inference_memory": (8, 8),
    "training_roofline": (12, 8),
    "backend_speedup": (12, 9),
    "gpu_survey": (6, 5),
}


@needs_pdftotext
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("study", LIMITS)
def test_the_body_keeps_to_its_limits(out: Path, engine: str, study: str) -> None:
    pages, tables = LIMITS[study]
    assert build.main(["--pdf", "--engine", engine, "--out", str(out), study]) == 0
    assert body_pages(out / f"pdf/{study}.pdf") <= pages
    body, references, _ = (
        (out / f"qmd/{study}/{study}.qmd").read_text("utf-8").partition("\n# References")
    )
    assert references
    assert body.count("{#tbl-") <= tables


WORD = Word(100, 100, 140, 110, "word")


@pytest.mark.parametrize(
    ("other", "covers"),
    [
        (Word(141, 100, 180, 110, "next"), False),
        (Word(100, 109, 140, 119, "below"), False),
        (Word(139, 104, 145, 111, "index"), False),
        (Word(138, 100, 180, 110, "run-in"), True),
        (Word(100, 104, 140, 114, "overprint"), True),
    ],
)
def test_a_word_covers_another(other: Word, covers: bool) -> None:
    assert WORD.covers(other) is other.covers(WORD) is covers


@pytest.mark.parametrize(
    ("word", "outside"),
    [
        (WORD, False),
        (Word(500, 100, 540, 110, "margin"), True),
        (Word(60, 100, 80, 110, "margin"), True),
        (Word(100, 770, 140, 780, "foot"), True),
        (Word(295, 780, 300, 790, "7"), False),
    ],
)
def test_a_word_outside_the_text(word: Word, outside: bool) -> None:
    assert word.is_outside(595.28, 841.89) is outside
