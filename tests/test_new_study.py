"""``--new``: what cannot be a study is refused, and what is written passes the lint untouched.

``test_walkthrough`` measures, builds and tests the study that is written.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from report.commands.new import new_study
from report.engine.pipeline import ROOT
from report.errors import StudyError

SLUG, TITLE = "layer_height", "How the rate of a layer grows with its width"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folders of a project that a study is written into."""
    for folder in ("experiments", "report/studies", "templates/papers", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copytree(ROOT / "templates" / "study", tmp_path / "templates" / "study")
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    return tmp_path


@pytest.mark.parametrize(
    ("slug", "title"), [("a", "A"), ("a" * 40, "w" * 72), (SLUG, TITLE)], ids=len
)
def test_it_passes_the_lint_untouched(slug: str, title: str, root: Path) -> None:
    files = [path for path in new_study(slug, title, root=root) if path.suffix == ".py"]
    # What is ours is not there, so that the order of imports cannot be told.
    for words in (("format", "--check"), ("check", "--ignore", "I001")):
        command = [sys.executable, "-m", "ruff", *words, *map(str, files)]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("slug", "title", "complaint"),
    [
        ("Layer", TITLE, "cannot be the name of a study"),
        ("../victim", TITLE, "cannot be the name of a study"),
        ("a__b", TITLE, "cannot be the name of a study"),
        ("a" * 41, TITLE, "cannot be the name of a study"),
        ("layer", 'a "quoted" title', "without quotes"),
        ("layer", "two\nlines", "one line"),
        ("layer", "{% raw %}", "braces"),
        ("layer", " ", "one line"),
        ("conv_scaling", TITLE, "is there already"),
    ],
)
def test_what_cannot_be_a_study_is_refused(slug: str, title: str, complaint: str) -> None:
    with pytest.raises(StudyError, match=complaint):
        new_study(slug, title)
