"""The parts of the build engine: digests, what a step depends on, plans and the manifest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from report.engine import cache
from report.engine.cache import INDEX, MANIFEST, Contents, Entry, file_digest, files_below
from report.engine.pipeline import ROOT, Request
from report.engine.plan import World, inputs_of, list_files, reasons
from report.engine.programs import installed
from report.engine.steps import Step, formats, shared_steps, study_steps
from report.engine.task import load, save
from report.records import OPERATORS
from report.studies import STUDIES
from report.system.outputs import install

STUDY = "conv_profiling"
REQUEST = Request((STUDY,), ("html", "pdf"), ROOT / "out", "typst")
NAMES = list_files(str(ROOT), REQUEST)


def all_steps(study: str = STUDY) -> list[Step]:
    steps = study_steps(study, REQUEST, NAMES, "html latex typst")
    return [*steps, *shared_steps((study,), {study: True}, REQUEST, NAMES)]


# ------------------------------------------------------------------------------------- contents


@pytest.mark.parametrize("part", [*range(4), None])
def test_a_file_is_read_again_only_when_the_system_says_that_it_was_touched(
    tmp_path: Path, part: int | None
) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    found = file.stat()
    seen = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, "as known"]
    if part is not None:
        seen[part] = int(seen[part]) + 1
    contents = Contents({str(file): seen})
    assert contents.digest(str(file)) == ("as known" if part is None else file_digest(str(file)))
    assert contents.learned is (part is not None)
    file.write_text("two")
    contents.forget(str(file))
    assert contents.digest(str(file)) == file_digest(str(file)), "it was written by us"


@pytest.mark.parametrize(
    ("age_ns", "kept"),
    [(0, False), (29_000_000, False), (31_000_000, True), (1_999_999_999, True)],
)
def test_a_file_written_just_now_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_ns: int, kept: bool
) -> None:
    """It may change once more within the same tick of the file system's clock."""
    file = tmp_path / "a"
    file.write_text("one")
    os.utime(file, ns=(1, 1_000_000_007))
    now = file.stat().st_ctime_ns + age_ns
    monkeypatch.setattr("report.engine.cache.time.time_ns", lambda: now)
    contents = Contents()
    assert contents.digest(str(file))
    assert (str(file) in contents.memory) is kept


def test_what_is_not_there_has_no_digest(tmp_path: Path) -> None:
    assert Contents().digest(str(tmp_path / "none")) is None
    assert Contents().digest(str(tmp_path)) is None, "a folder is no file"


def test_hidden_files_are_no_inputs(tmp_path: Path) -> None:
    for name in ("b.lua", ".a.lua.swp", "c/d.lua", "__pycache__/x.lua", ".git/y.lua"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert files_below(str(tmp_path)) == ["b.lua", "c/d.lua"]


# ----------------------------------------------------------------------------------------- code

#: What each step imports beside the study's own modules, as its function says.
_DOES = """
import sys
from report.engine import actions, task
class Stop(Exception): pass
def importing(step):
    import ast, inspect, textwrap
    source = textwrap.dedent(inspect.getsource(getattr(actions, step)))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            exec(ast.unparse(node))
importing(sys.argv[1])
if sys.argv[1] == "study":
    from pathlib import Path
    from report.engine.computing import compute_usable
    compute_usable(sys.argv[2], Path("data").resolve())
if sys.argv[1] in ("document", "pdf"):
    importing("_write_page"), importing("_publication")
names = (name for name in sys.modules if name.split(".")[0] in ("report", "figures"))
print(*(sys.modules[name].__file__ for name in names))
"""


@pytest.mark.parametrize("step", all_steps(), ids=lambda step: step.action)
def test_a_step_depends_on_whatever_code_it_imports(step: Step) -> None:
    command = [sys.executable, "-c", _DOES, step.action, STUDY]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {Path(line).resolve().relative_to(ROOT).as_posix() for line in run.stdout.split()}
    assert "report/engine/actions.py" in loaded
    assert loaded <= set(step.files)


def test_a_module_of_a_study_makes_its_own_paper_anew_and_drawing_no_values() -> None:
    for step in all_steps():
        of_studies = {n.split("/")[2] for n in step.files if n.startswith("report/studies/")}
        assert of_studies <= {"__init__.py", STUDY}
        assert (STUDY in of_studies) is (step.action in ("study", "document"))
        drawn = "figures/render.py" in step.files
        assert drawn is (step.action in ("figures", "document", "pdf"))


def test_what_finds_nothing_to_do_imports_little() -> None:
    """Each of these takes longer to import than the look at all files."""
    slow = {"dataclasses", "inspect", "msgspec", "yaml", "jinja2", "numpy", "matplotlib"}
    code = "import sys, report.commands.arguments, report.engine.pipeline; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not slow & set(run.stdout.split())


def test_the_versions_are_those_that_python_tells() -> None:
    from importlib.metadata import version

    found = installed()
    for step in all_steps():
        for name in step.packages:
            assert found[name] == version(name.replace("_", "-"))


# ---------------------------------------------------------------------------------------- steps


def test_every_step_reads_steps_that_come_before_it() -> None:
    before: set[str] = set()
    for step in all_steps():
        assert {id for id, _ in step.reads} <= before, step.id
        before.add(step.id)


@pytest.mark.parametrize(
    ("outputs", "engine", "before", "paper", "expected"),
    [
        (("html",), "latex", "", False, "html"),
        (("html",), "latex", "", True, "html latex"),
        (("html",), "latex", "html latex typst", True, "html latex typst"),
        (("html",), "latex", "html latex typst", False, "html"),
        (("pdf",), "latex", "html", False, "html latex"),
        (("html", "pdf"), "typst", "", False, "html latex typst"),
        (("pdf",), "typst", "", False, "latex typst"),
    ],
)
def test_a_document_keeps_its_formats_but_those_of_print_without_a_pdf(
    outputs: tuple[str, ...], engine: str, before: str, paper: bool, expected: str
) -> None:
    request = REQUEST._replace(outputs=outputs, engine=engine)  # type: ignore[arg-type]
    assert formats(request, before, has_paper=paper) == expected


# ------------------------------------------------------------------------------------- manifest

ENTRY = Entry({"data/a": "1"}, {"python": "3"}, {"s/read": "2"}, {"name": "x"}, {"qmd/a": "3"})


def test_the_manifest_comes_back_as_it_was_written_and_not_otherwise(tmp_path: Path) -> None:
    steps, out = {"s/study": ENTRY._replace(notices=("a note",))}, str(tmp_path)
    cache.write_manifest(steps, out)
    assert cache.read_manifest(out) == steps
    text = (tmp_path / MANIFEST).read_bytes()
    for place in range(0, len(text), 7):
        (tmp_path / MANIFEST).write_bytes(text[:place] + b"!" + text[place + 1 :])
        assert cache.read_manifest(out) in ({}, steps if text[place] == ord("!") else {})
    (tmp_path / MANIFEST).write_bytes(text)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "qmd").symlink_to("elsewhere")
    assert cache.read_manifest(out) == {}, "an output lies behind a link"


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"version": 0}', None])
def test_a_damaged_manifest_is_none(tmp_path: Path, damage: str | None) -> None:
    for name in (MANIFEST, INDEX):
        (tmp_path / name).mkdir() if damage is None else (tmp_path / name).write_text(damage)
    assert cache.read_manifest(str(tmp_path)) == {}
    assert cache.read_index(str(tmp_path)) == {}


# ----------------------------------------------------------------------------------------- plan


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A project with one record; ``data`` and ``out`` lie below it."""
    for name in (f"data/{STUDY}/a.zip", "report/engine/run.py", "out/html/a"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(name)
    request = REQUEST._replace(out=tmp_path / "out", data=tmp_path / "data")
    names = list_files(str(tmp_path), request)
    yield World(str(tmp_path), request, names, Contents(), {"msgspec": "1"}, {}, {})


def test_reasons_name_what_changed(world: World) -> None:
    step = world.study_steps(STUDY)[0]
    now = inputs_of(step, world, {})
    assert list(reasons(step.id, now, world)) == ["it has not been made yet"]
    made = {"html/a": str(file_digest(world.made("html/a"))), "html/b": "1"}
    old = {
        **now.files,
        f"data/{STUDY}/a.zip": "another",
        f"data/{STUDY}/old.zip": "1",
        "report/engine/run.py": "another",
    }
    before = now._replace(files=old, versions={**now.versions, "msgspec": "0"}, outputs=made)
    del old["data/editions.yaml"]
    world.entries[step.id] = before._replace(parameters={"use": "x"}, upstream={"s/x": "1"})
    changed = now._replace(files={**now.files, "data/editions.yaml": "1"})
    assert list(reasons(step.id, changed, world)) == [
        f"data/{STUDY}/a.zip changed",
        f"data/{STUDY}/old.zip is gone",
        "data/editions.yaml is new",
        "report/engine/run.py changed",
        "msgspec is 1 and was 0",
        "what it reads of s/x is gone",
        "other records are wanted",
        "html/b is missing",
    ]
    world.entries[step.id] = now
    assert list(reasons(step.id, now, world)) == []


def test_what_a_folder_of_records_lacks_is_the_project_s_own(world: World) -> None:
    for shared in ("devices.yaml", OPERATORS, f"reported/{STUDY}.json"):
        assert world.source(f"data/{shared}") == f"{world.root}/data/{shared}"
    other = world._replace(request=world.request._replace(data=Path("/elsewhere")))
    assert other.source("data/devices.yaml") == f"{world.root}/data/devices.yaml"
    assert other.source("data/editions.yaml") == "/elsewhere/editions.yaml"
    assert not any(study in step.id for study in STUDIES[1:] for step in other.shared_steps())


# ------------------------------------------------------------------------------- its own files


def test_two_folders_are_exchanged_or_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for turn in ("exchanged", "moved"):
        for name in ("old", "new"):
            (tmp_path / turn / name).mkdir(parents=True)
            (tmp_path / turn / name / "file").write_text(name)
        install(tmp_path / turn / "new", tmp_path / turn / "old")
        assert (tmp_path / turn / "old" / "file").read_text() == "new"
        monkeypatch.setattr("report.system.outputs._exchange", lambda one, other: False)


def test_equal_values_are_kept_as_equal_bytes(tmp_path: Path) -> None:
    text = "".join(["a", "b"])
    shared, equal = (text, text), ("".join(["a", "b"]), "".join(["a", "b"]))
    save(shared, tmp_path / "one")
    save(equal, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert load(tmp_path / "one") == shared
