"""What is wrong in ``out/`` never stops a build, never hangs it, and never leads it elsewhere.

Uses the small project of ``test_freshness``.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from report.engine.manifest import (
    EMPTY,
    INDEX,
    MANIFEST,
    Entry,
    Manifest,
    read_index,
    read_manifest,
    write_index,
    write_manifest,
)
from report.engine.place import only_build
from tests.damage import KINDS, NAMES, at_most, damage, remove
from tests.test_engine import INPUTS
from tests.test_freshness import ONE, build, built, digests, project, slower
from tests.test_robust_build import after

__all__ = ["after", "built", "project"]

ENTRY = Entry(INPUTS, {"qmd/s/a": "3"}, ("a note",))
SEEN = [1, 2, 3, 4, "0" * 64]
WHOLE: dict[str, Any] = {
    "files": {"/a": SEEN},
    "imports": {"report.a 0": ["report.b"]},
    "programs": {},
    "seconds": {"s/read": 0.25},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_that_names_what_no_build_writes_is_none(tmp_path: Path, name: str) -> None:
    write_manifest(Manifest({"s/html": ENTRY._replace(outputs={name: "3"})}, {}), str(tmp_path))
    assert read_manifest(str(tmp_path)) == EMPTY


@pytest.mark.parametrize("id", ["../s", "/s/html", "s//html", "s/\ud800"])
def test_a_manifest_with_an_odd_step_is_none(tmp_path: Path, id: str) -> None:
    write_manifest(Manifest({id: ENTRY}, {}), str(tmp_path))
    assert read_manifest(str(tmp_path)) == EMPTY


def test_a_manifest_that_leads_through_a_link_is_none(tmp_path: Path) -> None:
    write_manifest(Manifest({"s/manuscript": ENTRY}, {}), str(tmp_path))
    assert read_manifest(str(tmp_path)).steps == {"s/manuscript": ENTRY}
    (tmp_path / "qmd").symlink_to(tmp_path.parent)
    assert read_manifest(str(tmp_path)) == EMPTY


@pytest.mark.parametrize(
    "entry",
    [
        ENTRY._replace(outputs={"qmd/s/a": 3}),
        ENTRY._replace(inputs=INPUTS._replace(files={"data/a": None})),
        ENTRY._replace(inputs=INPUTS._replace(upstream={"s/read": ["2"]})),
        ENTRY._replace(notices=(1,)),
        ENTRY._replace(notices=("\ud800",)),
    ],
)
def test_wrong_kinds_in_a_manifest_make_it_none(tmp_path: Path, entry: Any) -> None:
    write_manifest(Manifest({"s/manuscript": entry}, {}), str(tmp_path))
    assert read_manifest(str(tmp_path)) == EMPTY


@pytest.mark.parametrize(
    "change",
    [
        {"files": {"/a": [*SEEN[:4], None]}},
        {"files": {"/a": SEEN[:3]}},
        {"files": {"/a": [*SEEN[:4], "\ud800" * 64]}},
        {"files": {"/a": []}},
        {"files": []},
        {"imports": {"report.a 0": [1]}},
        {"imports": {"report.a 0": "report.b"}},
        {"seconds": {"s/read": "long"}},
        {"seconds": {"s/read": float("nan")}},
        {"seconds": {"s/read": 10**4000}},
        {"programs": []},
    ],
)
def test_wrong_kinds_in_the_memory_make_it_none(tmp_path: Path, change: dict[str, Any]) -> None:
    write_index(WHOLE, str(tmp_path))
    assert WHOLE.items() <= read_index(str(tmp_path)).items()
    write_index({**WHOLE, **change}, str(tmp_path))
    assert read_index(str(tmp_path)) == {}


def test_no_damage_raises_or_hangs_or_is_believed(tmp_path: Path) -> None:
    chance = random.Random(5)
    for _ in range(400):
        write_manifest(
            Manifest({"s/manuscript": ENTRY}, {"c": {"report/a.py": "4"}}), str(tmp_path)
        )
        write_index(WHOLE, str(tmp_path))
        before = (read_manifest(str(tmp_path)), read_index(str(tmp_path)))
        way = damage(chance, tmp_path / chance.choice((MANIFEST, INDEX)))
        with at_most(20):
            now = (read_manifest(str(tmp_path)), read_index(str(tmp_path)))
        none = (EMPTY, {})
        assert way == "sealed node" or all(
            part in either for part, *either in zip(now, before, none, strict=True)
        ), way
        for name in (MANIFEST, INDEX):
            remove(tmp_path / name)


def test_a_name_that_leads_elsewhere_removes_nothing(project: Path, after: dict[str, str]) -> None:
    victim = project.parent / "victim.txt"
    victim.write_text("mine")
    found = read_manifest(str(project / "out"))
    entry = found.steps[f"{ONE}/html"]
    hostile = entry._replace(outputs={**entry.outputs, "../../victim.txt": "0" * 64})
    steps = {**found.steps, f"{ONE}/html": hostile}
    write_manifest(found._replace(steps=steps), str(project / "out"))
    slower(project)
    build(project)
    assert victim.read_text() == "mine"
    assert digests(project) == after


def test_what_is_behind_a_link_is_not_touched(project: Path, after: dict[str, str]) -> None:
    """The link itself is replaced by a folder."""
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    folders = [project / "out" / name for name in ("html", f"qmd/{ONE}/figures", "pdf", ".steps")]
    for folder in folders:
        folder.rename(elsewhere / folder.name)
        folder.symlink_to(elsewhere / folder.name)
    before = digests(project.parent, "elsewhere")
    slower(project)
    build(project)
    assert digests(project.parent, "elsewhere") == before
    assert digests(project) == after
    assert not any(folder.is_symlink() for folder in folders)


def test_the_folder_itself_may_be_a_link(project: Path, after: dict[str, str]) -> None:
    (project / "out").rename(project.parent / "elsewhere")
    (project / "out").symlink_to(project.parent / "elsewhere")
    slower(project)
    build(project)
    assert digests(project) == after
    assert (project / "out").is_symlink()


@pytest.mark.parametrize("turn", [0, 1])
def test_what_is_no_file_is_replaced(project: Path, built: Path, turn: int) -> None:
    names = (MANIFEST, INDEX, ".lock", ".steps", "values", "html/index.html", f"tex/{ONE}")
    kinds = [*KINDS.values()][turn:]
    for number, name in enumerate(names):
        remove(project / "out" / name)
        kinds[number % len(kinds)](project / "out" / name)
    build(project)
    assert digests(project) == digests(built)
    assert not list((project / "out").glob(".scratch-*"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_lock_that_is_no_file_locks(tmp_path: Path, kind: str) -> None:
    KINDS[kind](tmp_path / ".lock")
    with at_most(20), only_build(tmp_path, lambda: pytest.fail("nobody else builds")):
        assert (tmp_path / ".lock").is_file()
    assert not (tmp_path / ".lock").is_symlink()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_what_a_killed_build_has_left_may_be_of_any_kind(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    for number, make in enumerate(KINDS.values()):
        make(tmp_path / f".scratch-{number}")
    (tmp_path / ".scratch-link").symlink_to(victim)
    (tmp_path / ".scratch-file").write_text("half a manifest")
    with at_most(20), only_build(tmp_path, lambda: pytest.fail("nobody else builds")):
        assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "victim"]
