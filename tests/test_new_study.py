"""``--new``: a study that measures, builds, and leaves all other papers alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from report.commands.new import new_study, next_commands
from report.engine.pipeline import ROOT
from report.errors import StudyError
from tests.test_readme import EXAMPLE

SLUG, TITLE = EXAMPLE, "How the rate of a layer grows with its width"
_PARTS = ("report", "experiments", "figures", "templates", "tests", "data")
_LEFT_OUT = shutil.ignore_patterns("*.json.gz", f"*{EXAMPLE}*")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with a new study in it."""
    root = tmp_path_factory.mktemp("checkout")
    for part in _PARTS:
        shutil.copytree(ROOT / part, root / part, ignore=_LEFT_OUT)
    for file in ("build.py", "pyproject.toml"):
        shutil.copyfile(ROOT / file, root / file)
    run(root, "build.py", "--new", SLUG, TITLE)
    return root


def run(root: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=root,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_measured_built_and_tested_at_once(checkout: Path) -> None:
    run(checkout, "-m", "pytest", "-q", f"tests/test_{SLUG}.py", "-p", "no:cacheprovider")
    run(checkout, "build.py", SLUG, "--html")
    values = checkout / "out" / "values" / f"{SLUG}.json"
    before = json.loads(values.read_text("utf-8"))
    assert before["claims"]["wider-is-faster"]["verdict"] == "not measured"
    run(checkout, "-m", "experiments", "run", SLUG, "--quick", "--set", "width=64,128")
    run(checkout, "build.py", SLUG, "--html", "--pdf", "--engine", "typst")
    after = json.loads(values.read_text("utf-8"))
    assert after["values"]["best_rate"]["number"] > 0
    assert after["values"]["best_rate"]["formula"].startswith("the largest of work(64)")
    assert (checkout / "out" / "pdf" / f"{SLUG}.pdf").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("slug", "title"),
    [("a", "A"), ("a" * 40, "w" * 72), (SLUG, TITLE)],
    ids=["short", "long", "ours"],
)
def test_it_passes_the_lint_untouched(slug: str, title: str, tmp_path: Path) -> None:
    for folder in ("experiments", "report/studies", "templates/papers", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copytree(ROOT / "templates" / "study", tmp_path / "templates" / "study")
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    made = new_study(slug, title, root=tmp_path)
    files = [str(path.relative_to(tmp_path)) for path in made if path.suffix == ".py"]
    for words in (
        ("format", "--check"),
        ("check", "--ignore", "I001"),
    ):  # what is ours is not there
        run(tmp_path, "-m", "ruff", *words, *files)


def test_it_makes_no_other_study_stale(checkout: Path) -> None:
    """The steps of the other studies depend on no file that was written."""
    planned = run(checkout, "build.py", "--dry-run", "conv_scaling", "--html")
    assert SLUG not in planned
    listed = run(checkout, "-c", _CLOSURE)
    assert listed.strip() and SLUG not in listed


#: The code on which the computing of a study depends.
_CLOSURE = """
from report.engine.code import Code
from report.engine.contents import Contents
from report.studies import module_of
roots = ("report.engine.actions.study", module_of("conv_scaling"))
print(*Code(".", Contents()).closure(roots))
"""


@pytest.mark.parametrize(
    ("file", "right", "wrong", "complaint"),
    [
        ("study.py", 'exact(f"work({width:,})", "FLOP"', 'exact(f"work({width:,})", "B"', "FLOP"),
        ("study.py", "self.work(width) / self.time", "self.work(width) + self.time", "the sum of"),
    ],
    ids=["another unit of a leaf", "FLOP added to s"],
)
def test_a_wrong_unit_is_refused_with_file_and_line(
    checkout: Path, tmp_path: Path, file: str, right: str, wrong: str, complaint: str
) -> None:
    root = tmp_path / "copy"
    shutil.copytree(checkout, root, ignore=shutil.ignore_patterns("out", "conv_*", "*_memory"))
    study = root / "report" / "studies" / SLUG / file
    study.write_text(study.read_text("utf-8").replace(right, wrong), "utf-8")
    test = [sys.executable, "-m", "pytest", "-q", f"tests/test_{SLUG}.py"]
    done = subprocess.run(test, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"UnitError: studies/{SLUG}/study.py:" in done.stdout
    assert complaint in done.stdout


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


def test_nothing_is_left_where_not_all_can_be_written(tmp_path: Path) -> None:
    for part in ("experiments", "report/studies", "templates/papers"):
        (tmp_path / part).mkdir(parents=True)
    shutil.copytree(ROOT / "templates" / "study", tmp_path / "templates" / "study")
    (tmp_path / "tests").write_text("in the way")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Exception, match="cannot be written"):
        new_study(SLUG, TITLE, root=tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_next_commands_are_those_of_the_guide() -> None:
    guide = (ROOT / "docs" / "adding-a-study.md").read_text("utf-8")
    assert all(command in guide for command in next_commands(SLUG))
