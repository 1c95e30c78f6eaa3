"""The parts of the build engine: digests, what a step depends on, plans and the manifest."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from report.engine import actions, cache
from report.engine.cache import INDEX, MANIFEST, Contents, Entry, file_digest, files_below
from report.engine.pipeline import ROOT, Request
from report.engine.place import install
from report.engine.plan import World, changes
from report.engine.programs import installed
from report.engine.run import run, side_by_side
from report.engine.steps import SITE, Step, shared_steps, study_steps
from report.records import OPERATORS
from report.studies import STUDIES

STUDY = "conv_profiling"
REQUEST = Request((STUDY,), ("html", "pdf"), ROOT / "out", "typst")


def all_steps() -> list[Step]:
    files = World(REQUEST).files
    steps = study_steps(STUDY, REQUEST, files, "page print")
    return [*steps, *shared_steps((STUDY,), {STUDY: True}, REQUEST, files)]


def test_a_file_is_read_again_when_the_system_says_that_it_was_touched_or_it_is_too_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is new may change once more within the same tick of the file system's clock."""
    file = tmp_path / "a"
    file.write_text("one")
    os.utime(file, ns=(1, 1_000_000_007))
    found = file.stat()
    seen = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
    contents = Contents({str(file): [*seen, "as known"]})
    assert contents.digest(str(file)) == "as known" and not contents.learned
    for part in range(4):
        other = [value + (place == part) for place, value in enumerate(seen)]
        contents = Contents({str(file): [*other, "as known"]})
        assert contents.digest(str(file)) == file_digest(str(file)) and contents.learned
    for age_ns, kept in {0: False, 29_000_000: False, 31_000_000: True}.items():
        monkeypatch.setattr(cache.time, "time_ns", lambda age=age_ns: found.st_ctime_ns + age)
        contents = Contents()
        assert contents.digest(str(file)) and (str(file) in contents.memory) is kept
    file.write_text("two")
    contents.forget(str(file))
    assert contents.digest(str(file)) == file_digest(str(file)), "it was written by us"


def test_folders_and_hidden_files_are_no_inputs(tmp_path: Path) -> None:
    for name in ("b.lua", ".a.lua.swp", "c/d.lua", "__pycache__/x.lua", ".git/y.lua"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert files_below(str(tmp_path)) == ["b.lua", "c/d.lua"]
    assert Contents().digest(str(tmp_path / "none")) is None
    assert Contents().digest(str(tmp_path)) is None


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    """Which module imports which, wherever in it; a step has its own way into ``actions``."""
    graph = grimp.build_graph(
        "report", "figures", exclude_type_checking_imports=True, cache_dir=None
    )
    graph.remove_module(actions.__name__)
    return graph


def imported_by(function: str) -> set[str]:
    """What a function of ``actions`` imports, and those that it calls."""
    nodes = [*ast.walk(ast.parse(inspect.getsource(getattr(actions, function))))]
    own = {node.id for node in nodes if isinstance(node, ast.Name) and node.id[0] == "_"}
    called = [name for name in own if inspect.isfunction(getattr(actions, name, None))]
    imported = {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    return imported.union(*map(imported_by, called))


@pytest.mark.parametrize("step", all_steps(), ids=lambda step: step.id)
def test_a_step_depends_on_whatever_code_it_imports(step: Step, imports: grimp.ImportGraph) -> None:
    action = step.id.partition("/")[2]
    found = {"report.engine.task", "report.records.files", *imported_by(action)}
    if action == "study":
        found |= {f"report.studies.{STUDY}.{name}" for name in ("study", "runs", "theory")}
    found &= imports.modules
    found = found.union(*map(imports.find_upstream_modules, found))
    paths = [ROOT / module.replace(".", "/") for module in found]
    files = [path / "__init__.py" if path.is_dir() else path.with_suffix(".py") for path in paths]
    assert {file.relative_to(ROOT).as_posix() for file in files} <= set(step.files)


def test_a_module_of_a_study_makes_its_own_paper_anew_and_drawing_no_values() -> None:
    versions, before = installed(), set[str]()
    for step in all_steps():
        assert {id for id, _ in step.reads} <= before, "of steps that come before it"
        assert set(step.packages) <= versions.keys()
        before.add(step.id)
        action = step.id.partition("/")[2]
        of_studies = {n.split("/")[2] for n in step.files if n.startswith("report/studies/")}
        assert of_studies <= {"__init__.py", STUDY}
        assert (STUDY in of_studies) is (action in ("study", "document"))
        drawn = "figures/bars.py" in step.files
        assert drawn is (action == "figures")


@pytest.mark.parametrize(
    ("stale", "jobs"),
    [
        ("", 0),
        ("site/quarto site/index", 0),
        ("a/pdf b/pdf c/editions site/index", 3),
        ("a/figures a/document a/pdf", 2),
        ("a/figures b/pdf c/pdf", 3),
    ],
)
def test_as_many_jobs_are_of_use_as_steps_can_run_at_a_time(stale: str, jobs: int) -> None:
    assert side_by_side(stale.split()) == jobs


def test_what_all_share_needs_every_step_that_it_reads(world: World) -> None:
    read = {id for step in all_steps() if step.study == SITE for id, _ in step.reads}
    for missing in (None, *read):
        world.made = {id: Entry({"formats": "page"}) for id in read if id != missing}
        assert bool(world.shared_steps()) is (missing is None)


def test_a_step_whose_inputs_nothing_makes_ends_the_build(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = world.study_steps(STUDY)[1]
    monkeypatch.setattr(world, "study_steps", lambda study: [figures])
    paper, site = run(world, {}, lambda *_: None)
    assert str(paper.failure).startswith(f"{STUDY}/figures: no step") and not site.failure


def test_what_finds_nothing_to_do_imports_little() -> None:
    """Each of these takes longer to import than the look at all files."""
    slow = {"dataclasses", "hashlib", "inspect", "msgspec", "numpy", "shutil", "yaml"}
    code = "import sys, build; build.parse([]); print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not slow & set(run.stdout.split())


def test_what_is_remembered_comes_back_and_is_nothing_if_it_is_damaged(tmp_path: Path) -> None:
    out, entry = str(tmp_path), Entry({"data/a": "1", "style": ""}, {"qmd/a": "3"}, ("a note",))
    cache.write_manifest({"s/study": entry}, out)
    contents = Contents({out: [1, 2, 3, 4, "5"], "/not/there": [0]})
    cache.write_index(contents, {"version": "1"}, out)
    assert cache.read_manifest(out) == {"s/study": entry}
    files = {out: [1, 2, 3, 4, "5"]}
    assert cache.read_index(out) == {"files": files, "tex": {"version": "1"}}
    for damage in ("", "{", "[]", "null", '{"version": 0}', None):
        for file in (tmp_path / MANIFEST, tmp_path / INDEX):
            file.unlink()
            file.write_text(damage) if damage is not None else file.mkdir()
        assert cache.read_manifest(out) == {}
        assert cache.read_index(out) == {"files": {}, "tex": {}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A project with one record; ``data`` and ``out`` lie below it."""
    for name in (f"data/{STUDY}/a.zip", "report/engine/run.py", "out/html/a"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(name)
    request = REQUEST._replace(out=tmp_path / "out", data=tmp_path / "data")
    return World(request, root=str(tmp_path))


def test_reasons_name_what_changed(world: World) -> None:
    step = world.study_steps(STUDY)[0]
    now = world.inputs(step, {})
    assert {f"data/{STUDY}/a.zip", "report/engine/run.py", "msgspec", "use"} <= now.keys()
    assert "data/editions.yaml" not in now and "report/engine/run.py" in step.files
    assert world.reasons(step, now) == "it has not been made yet"
    made = {"html/a": str(file_digest(world.output("html/a"))), "html/b": "1"}
    world.made[step.id] = Entry(now, made)
    assert world.reasons(step, now) == "html/b is missing"
    world.made[step.id] = Entry(now, {"html/a": "1"})
    assert world.reasons(step, now) == "html/a was altered"
    old = {"a/changed": "1", "a/gone": "1", "msgspec": "0.1", "use": "", "same": "1"}
    new = {"a/changed": "2", "a/new": "1", "msgspec": "0.2", "use": "x.zip", "same": "1"}
    assert list(changes(old, new)) == [
        "a/changed changed",
        "a/gone is gone",
        "a/new is new",
        "msgspec changed from 0.1 to 0.2",
        "what --use names changed from none to x.zip",
    ]
    formats = changes({"formats": "page"}, {"formats": "page print"})
    assert list(formats) == ["the formats changed from page to page, print"]


def test_what_a_folder_of_records_lacks_is_the_project_s_own(world: World) -> None:
    for shared in ("devices.yaml", OPERATORS, f"reported/{STUDY}.json"):
        assert world.source(f"data/{shared}") == f"{world.root}/data/{shared}"
    assert world.source("data/editions.yaml") == f"{world.request.data}/editions.yaml"
    assert not any(study in step.id for study in STUDIES[1:] for step in world.shared_steps())


def test_a_document_keeps_its_page_and_what_is_printed_while_there_is_a_pdf(world: World) -> None:
    def formats(*outputs: str) -> str:
        world.request = world.request._replace(outputs=outputs)  # type: ignore[arg-type]
        (step,) = (each for each in world.study_steps(STUDY) if each.id.endswith("/document"))
        return step.settings["formats"]

    found = [formats("html"), formats("pdf"), formats("html", "pdf")]
    assert found == ["page", "print", "page print"]
    world.made[f"{STUDY}/document"] = Entry({"formats": "page print"})
    assert [formats("html"), formats("pdf")] == ["page", "page print"]
    paper = world.request.out / "html" / STUDY / f"{STUDY}.pdf"
    paper.parent.mkdir()
    paper.touch()
    assert formats("html") == "page print"


def test_two_folders_are_exchanged_or_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for turn in ("exchanged", "moved"):
        for name in ("old", "new"):
            (tmp_path / turn / name).mkdir(parents=True)
            (tmp_path / turn / name / "file").write_text(name)
        install(tmp_path / turn / "new", tmp_path / turn / "old")
        assert (tmp_path / turn / "old" / "file").read_text() == "new"
        monkeypatch.setattr("report.engine.place._exchange", lambda one, other: False)
