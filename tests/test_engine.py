"""The parts of the build engine: digests, the code that a step depends on, plans and manifests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from report.engine.code import Code
from report.engine.contents import Contents, file_digest, files_below
from report.engine.graph import (
    shared_steps,
    study_steps,
)
from report.engine.manifest import (
    EMPTY,
    INDEX,
    MANIFEST,
    Entry,
    Inputs,
    Manifest,
    read_index,
    read_manifest,
    write_manifest,
)
from report.engine.pipeline import ROOT
from report.engine.plan import Places, World, inputs_of, reasons
from report.engine.programs import installed
from report.engine.step import Files, Wanted
from report.engine.task import load, save
from report.system.outputs import install

STUDY = "conv_scaling"
FILES = Files({STUDY: (f"data/{STUDY}/a.zip",)}, ("templates/ridgepoint.lua",))
BOTH = Wanted(html=True, pdf=True, engine="typst")


# ------------------------------------------------------------------------------------- contents


def test_a_file_is_read_again_only_when_it_was_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    os.utime(file, ns=(1, 1_000_000_007))
    long_ago = file.stat()
    first = Contents()
    digest = first.digest(str(file))
    assert digest == file_digest(str(file))
    seen = [long_ago.st_size, long_ago.st_mtime_ns, long_ago.st_ctime_ns, long_ago.st_ino, digest]
    again = Contents({str(file): seen})
    monkeypatch.setattr("report.engine.contents.file_digest", lambda path: pytest.fail("read"))
    assert again.digest(str(file)) == digest
    assert not again.learned


@pytest.mark.parametrize("part", range(4))
def test_any_difference_in_what_the_system_says_is_looked_into(tmp_path: Path, part: int) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    found = file.stat()
    seen = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, "wrong"]
    assert Contents({str(file): seen}).digest(str(file)) == "wrong", "it is believed as it is"
    seen[part] = int(seen[part]) + 1
    assert Contents({str(file): seen}).digest(str(file)) == file_digest(str(file))


def test_a_file_written_just_now_is_not_remembered(tmp_path: Path) -> None:
    """It may change once more within the same tick of the file system's clock."""
    file = tmp_path / "a"
    file.write_text("one")
    contents = Contents()
    assert contents.digest(str(file))
    assert contents.memory() == {}


def test_what_is_not_there_has_no_digest(tmp_path: Path) -> None:
    assert Contents().digest(str(tmp_path / "none")) is None
    assert Contents().digest(str(tmp_path)) is None, "a folder is no file"


def test_hidden_files_are_no_inputs(tmp_path: Path) -> None:
    for name in ("b.lua", ".a.lua.swp", "c/d.lua", "__pycache__/x.lua", ".git/y.lua", "e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert files_below(str(tmp_path), (".lua",)) == ["b.lua", "c/d.lua"]


# ----------------------------------------------------------------------------------------- code


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project: a imports b lazily, b imports c only for type checkers, d imports nobody."""
    files = {
        "report/__init__.py": "",
        "report/a.py": "import json\n\ndef f():\n    from report.b import g\n    return g\n",
        "report/b.py": "from typing import TYPE_CHECKING\nfrom report.rooms import e\n"
        "if TYPE_CHECKING:\n    from report import c\ng = e\n",
        "report/c.py": "",
        "report/d.py": "",
        "report/rooms/__init__.py": "from figures.style import INK\n",
        "report/rooms/e.py": "",
        "report/rooms/data.json.gz": "",
        "report/others/__init__.py": "",
        "report/others/data.json.gz": "",
        "figures/__init__.py": "",
        "figures/style.py": "INK = 'black'\n",
        "figures/other.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_code_of_a_step_is_all_that_its_imports_lead_to(project: Path) -> None:
    closure = Code(str(project), Contents()).closure(("report.a",))
    assert set(closure) == {
        "report/__init__.py",
        "report/a.py",
        "report/b.py",
        "report/rooms/__init__.py",
        "report/rooms/data.json.gz",
        "report/rooms/e.py",
        "figures/__init__.py",
        "figures/style.py",
    }


def test_the_closure_holds_whatever_running_imports() -> None:
    """The modules that Python has loaded after a study was computed, by its own account."""
    roots = ("report.engine.actions.study", "report.studies.conv_profiling.study")
    closure = Code(str(ROOT), Contents()).closure(roots)
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "import report.engine.actions.study\n"
        "from report.engine.gather import gather\n"
        "from report.studies import find_study\n"
        "find_study('conv_profiling')(gather('conv_profiling', Path('data')))\n"
        "print('\\n'.join(m.__file__ for n, m in sys.modules.items()"
        " if n.split('.')[0] in ('report', 'figures') and getattr(m, '__file__', None)))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = {Path(line).resolve().relative_to(ROOT).as_posix() for line in run.stdout.split()}
    assert len(loaded) > 40
    assert loaded <= set(closure)


def test_what_finds_nothing_to_do_imports_little() -> None:
    """Each of these takes longer to import than the look at all files."""
    slow = {"dataclasses", "inspect", "msgspec", "yaml", "jinja2", "numpy", "matplotlib"}
    code = "import sys, report.commands.arguments, report.engine.pipeline; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not slow & set(run.stdout.split())


# ------------------------------------------------------------------------------------- packages


def test_the_versions_are_those_that_python_tells() -> None:
    from importlib.metadata import version

    found = installed()
    for name in ("matplotlib", "jinja2", "typst", "pypandoc_binary", "python_dateutil"):
        assert found[name] == version(name.replace("_", "-"))


# ---------------------------------------------------------------------------------------- graph


def all_steps(study: str = STUDY) -> dict[str, object]:
    steps = study_steps(study, FILES, BOTH, links_pdf=True)
    shared = shared_steps((study,), {study: True}, FILES, BOTH)
    return {step.id: step for step in (*steps, *shared)}


def test_every_step_reads_steps_that_come_before_it() -> None:
    before: set[str] = set()
    for id, step in all_steps().items():
        assert {read.id for read in step.reads} <= before, id  # type: ignore[attr-defined]
        before.add(id)


# ------------------------------------------------------------------------------------- manifest

INPUTS = Inputs({"data/a": "1"}, "c", {"python": "3"}, {"s/read": "2"}, {"name": "x"})
ENTRY = Entry(INPUTS, {"qmd/a": "3"}, ("a note",))


def test_the_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    manifest = Manifest({"s/study": ENTRY}, {"c": {"report/a.py": "4"}, "unused": {}})
    write_manifest(manifest, str(tmp_path))
    found = read_manifest(str(tmp_path))
    assert found.steps == manifest.steps
    assert found.closures == {"c": {"report/a.py": "4"}}
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", "null", '{"version": 0}', '{"version": 1, "steps": {"a": {}}, "closures": {}}'],
)
def test_a_damaged_manifest_is_none(tmp_path: Path, damage: str) -> None:
    (tmp_path / MANIFEST).write_text(damage)
    (tmp_path / INDEX).write_text(damage)
    assert read_manifest(str(tmp_path)) == EMPTY
    assert read_index(str(tmp_path)) == {}


# ----------------------------------------------------------------------------------------- plan


@pytest.fixture
def world(tmp_path: Path, project: Path) -> World:
    """A world with the files of ``project``; ``data`` and ``out`` lie below it."""
    (project / "data" / STUDY).mkdir(parents=True)
    (project / "data" / STUDY / "a.zip").write_text("{}")
    (project / "report" / "engine" / "actions").mkdir(parents=True)
    (project / "report" / "engine" / "actions" / "study.py").touch()
    study = project / "report" / "studies" / STUDY
    study.mkdir(parents=True)
    for name in ("__init__", "study", "subject"):
        (study / f"{name}.py").touch()
    root = str(project)
    places = Places(root, f"{root}/data", f"{root}/templates/papers", f"{root}/out")
    return World(places, Contents(), Code(root, Contents()), {"msgspec": "1"})


def test_reasons_name_what_changed(world: World) -> None:
    step = study_steps(STUDY, FILES, BOTH, links_pdf=True)[0]
    now = inputs_of(step, world, {})
    assert list(reasons(step, now, EMPTY, world)) == ["it has not been made yet"]
    closure = world.code.closure(step.roots)
    before = Manifest({step.id: Entry(now, {})}, {now.code: closure})
    assert list(reasons(step, now, before, world)) == []
    record = f"data/{STUDY}/a.zip"
    changed = now._replace(
        files={**now.files, record: "other", "data/editions.yaml": "new"},
        versions={**now.versions, "msgspec": "2"},
    )
    assert list(reasons(step, changed, before, world)) == [
        f"{record} changed",
        "data/editions.yaml is new",
        "msgspec is 2 and was 1",
    ]
    other = Manifest(before.steps, {now.code: {**closure, "report/__init__.py": "old"}})
    recoded = now._replace(code="another")
    assert list(reasons(step, recoded, other, world)) == ["report/__init__.py changed"]


# ---------------------------------------------------------------------------------------- place


def test_two_folders_are_exchanged(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    install(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old" / "file").read_text() == "new"


def test_where_folders_cannot_be_exchanged_they_are_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("report.system.outputs._exchange", lambda one, other: False)
    test_two_folders_are_exchanged(tmp_path)


# ----------------------------------------------------------------------------------------- task


def test_equal_values_are_kept_as_equal_bytes(tmp_path: Path) -> None:
    text = "".join(["a", "b"])
    shared, equal = (text, text), ("".join(["a", "b"]), "".join(["a", "b"]))
    save(shared, tmp_path / "one")
    save(equal, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert load(tmp_path / "one") == shared
