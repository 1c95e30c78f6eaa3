"""Parts of the build engine: digests, dependencies of steps, plans and the manifest.

A step, such as ``study`` or ``pdf``, writes a part of the output.  The manifest lists inputs and
outputs of all steps; the index stores digests of files, so that they are not read again.
"""

import ast
import inspect
import os
import shutil
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import ANY, Mock

import grimp
import pytest

from figures.panels import Bars, BarSeries, Drawing
from report.core.records import OPERATORS
from report.core.system.exchange import write_pickle
from report.engine import actions, cache, run, steps
from report.engine.cache import INDEX, MANIFEST, Index, StepEntry, file_digest
from report.engine.place import install
from report.engine.plan import BuildPlan, changes, files_below, lines_of_edition
from report.engine.plan import plan as make_plan
from report.engine.steps import READ_BY_SITE, ROOT, SITE, BuildRequest, BuildStep, make_step
from report.studies import STUDIES, module_of
from tests.factory import output_of

STUDY = "conv_profiling"
REQUEST = BuildRequest((STUDY,), ("html", "pdf"), ROOT / "out", "typst")


def all_steps() -> list[BuildStep]:
    """Return the steps of one study, and the steps that all studies share."""
    plan = BuildPlan(REQUEST)
    shared = [make_step(SITE, kind, [STUDY], plan.files, {}) for kind in ("quarto", "index")]
    return [*plan.study_steps(STUDY), *shared]


def test_changed_files_are_hashed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests of new files are not stored, since files may change again within one clock tick."""
    file = tmp_path / "a"
    file.write_text("one")
    status = file.stat()
    for changed_field in (None, 0, 1, 2, 3):
        stored_status = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        if changed_field is not None:
            stored_status[changed_field] += 1
        index = Index(str(tmp_path))
        index.files[str(file)] = [*stored_status, "stored digest"]
        is_current = changed_field is None
        expected = "stored digest" if is_current else file_digest(str(file))
        assert index.digest(str(file)) == expected
        assert index.is_changed is not is_current
    fine, coarse = [3, 10**18 + 1, 10**18, 1], [3, 10**18, 10**18, 1]
    for status, age_s, is_stored in (
        (fine, 0, False), (fine, 0.019, False), (fine, 0.021, True),
        (coarse, 1.9, False), (coarse, 2.1, True),
    ):  # fmt: skip
        now = status[1] + int(age_s * 1e9)
        monkeypatch.setattr(cache.time, "time_ns", lambda now=now: now)
        monkeypatch.setattr(cache, "_status", lambda path, status=status: status)
        index = Index(str(tmp_path))
        assert index.digest(str(file)) and (str(file) in index.files) is is_stored


def test_placed_files_are_not_hashed_again_unless_they_change(tmp_path: Path) -> None:
    """A new link to a file changes its status, but not its content."""
    index, old = Index(str(tmp_path)), time.time_ns() - 10**9
    for name in ("kept", "edited", "replaced", "gone"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, ns=(old, old))
        index.place(str(tmp_path / name), f"digest of {name}")
    index.place(str(tmp_path / "removed"), "digest of a file that is gone")
    assert index.digest(str(tmp_path / "removed")) is None
    (tmp_path / "link").hardlink_to(tmp_path / "kept")
    (tmp_path / "edited").write_text("EDITED")
    (tmp_path / "new").write_text("REPLACED")
    os.utime(tmp_path / "new", ns=(old, old))
    (tmp_path / "new").replace(tmp_path / "replaced")
    (tmp_path / "gone").unlink()
    index.save()
    assert [*Index(str(tmp_path)).files] == [str(tmp_path / "kept")]
    assert Index(str(tmp_path)).digest(str(tmp_path / "kept")) == "digest of kept"


def test_manifest_and_index_are_read_back_or_empty_if_damaged(tmp_path: Path) -> None:
    """The index drops files that no longer exist."""
    out = str(tmp_path)
    inputs, outputs = {"data/a": "1", "style": ""}, {"qmd/a": "3"}
    entry = StepEntry(inputs, outputs, notices=("a note",))
    cache.write_manifest({"s/study": entry}, out)
    index = Index(out)
    index.files, index.is_changed = {out: [1, 2, 3, 4, "5"], "/not/there": [0]}, True
    index.save()
    assert cache.read_manifest(out) == {"s/study": entry}
    assert Index(out).files == {out: [1, 2, 3, 4, "5"]}
    for content in ("", "{", "[]", "null", '{"version": 0}'):
        for file in (tmp_path / MANIFEST, tmp_path / INDEX):
            file.write_text(content)
        assert cache.read_manifest(out) == Index(out).files == {}
    (tmp_path / MANIFEST).unlink()
    (tmp_path / MANIFEST).mkdir()
    assert cache.read_manifest(out) == {}
    cache.write_manifest({"s/study": entry}, out)
    assert cache.read_manifest(out) == {"s/study": entry}


def test_folders_and_hidden_files_are_not_inputs(tmp_path: Path) -> None:
    for name in ("b.lua", ".a.lua.swp", "c/d.lua", "__pycache__/x.lua", ".git/y.lua"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert files_below(str(tmp_path)) == ["b.lua", "c/d.lua"]
    assert file_digest(str(tmp_path / "missing")) is file_digest(str(tmp_path)) is None


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    """Return the imports of all modules except ``actions``.

    Each function of ``actions`` runs one kind of step and imports only what this step needs.
    """
    graph = grimp.build_graph(
        "report", "figures", exclude_type_checking_imports=True, cache_dir=None
    )
    graph.remove_module(actions.__name__)
    return graph


def imported_by(function: str) -> set[str]:
    """Return the modules that a function of ``actions`` and its private callees import or use."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(getattr(actions, function)))):
        if isinstance(node, ast.ImportFrom):
            modules.add(str(node.module))
        elif isinstance(node, ast.Name):
            value = getattr(actions, node.id, None)
            modules.add(getattr(value, "__module__", ""))
            if node.id.startswith("_") and inspect.isfunction(value):
                modules |= imported_by(node.id)
    return modules


@pytest.mark.parametrize("step", all_steps(), ids=lambda step: step.id)
def test_a_step_depends_on_all_imported_code(step: BuildStep, imports: grimp.ImportGraph) -> None:
    """Only the steps ``study`` and ``document`` depend on code of a study, and on one study's."""
    kind = step.id.partition("/")[2]
    modules = {"figures.characters", "report.engine.steps", "report.core.records.files"}
    modules |= imported_by(kind)
    if kind == "study":
        modules |= {f"report.studies.{STUDY}.{name}" for name in ("study", "runs", "theory")}
    modules &= imports.modules
    for module in list(modules):
        modules |= imports.find_upstream_modules(module)
    paths = [ROOT / module.replace(".", "/") for module in modules]
    files = [path / "__init__.py" if path.is_dir() else path.with_suffix(".py") for path in paths]
    assert {file.relative_to(ROOT).as_posix() for file in files} <= set(step.files)
    studies = {name.split("/")[2] for name in step.files if name.startswith("report/studies/")}
    assert studies - {"__init__.py"} == ({STUDY} if kind in ("study", "document") else set())


def imported_modules(code: str) -> set[str]:
    """Return the modules that a new interpreter has imported after ``import code``."""
    return {*output_of([sys.executable, "-c", f"import sys, {code}; print(*sys.modules)"]).split()}


def test_slow_packages_are_imported_only_where_needed() -> None:
    """Parsing arguments needs no slow package, and only gpu_survey needs pandas."""
    slow = {"dataclasses", "hashlib", "inspect", "msgspec", "numpy", "shutil", "yaml"}
    assert not slow & imported_modules("build; build.parse([])")
    studies = [module_of(study) for study in STUDIES if study != "gpu_survey"]
    modules_of_steps = [", ".join(modules) for modules in run._MODULES_BY_KIND.values()]
    assert "pandas" not in imported_modules(", ".join(studies + modules_of_steps))


@pytest.fixture
def plan(tmp_path: Path) -> BuildPlan:
    """Return the plan of a project with one record, one module and one output."""
    for name in (f"data/{STUDY}/a.json", "report/engine/run.py", "out/html/a"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(name)
    request = REQUEST._replace(out=tmp_path / "out", data=tmp_path / "data")
    return BuildPlan(request, root=str(tmp_path))


def test_reasons_describe_changes(plan: BuildPlan) -> None:
    step = plan.study_steps(STUDY)[0]
    inputs = plan.inputs(step, {})
    assert {f"data/{STUDY}/a.json", "report/engine/run.py", "msgspec", "use"} <= inputs.keys()
    assert plan.reasons(step, inputs) == "not built yet"
    digest = str(file_digest(plan.output("html/a")))
    for digests, reason in (
        ({"html/a": digest, "html/b": "1"}, "html/b is missing"),
        ({"html/a": "another digest"}, "was altered"),
    ):
        plan.built[step.id] = StepEntry(inputs, digests)
        assert plan.reasons(step, inputs).endswith(reason)
    old = {"a/changed": "1", "a/gone": "1", "msgspec": "0.1", "formats": "page", "use": ""}
    new = {"a/changed": "2", "a/new": "1", "msgspec": "0.2", "formats": "page print", "use": "x"}
    assert list(changes(old, new)) == [
        "a/changed changed",
        "a/gone is gone",
        "a/new is new",
        "the formats changed from page to page, print",
        "msgspec changed from 0.1 to 0.2",
        "the records of --use changed from none to x",
    ]


def test_a_paper_depends_only_on_its_own_lines_of_the_editions(tmp_path: Path) -> None:
    """Comments before the first study, and text that is no study, may concern all papers."""
    path, own = tmp_path / "editions.yaml", "conv_scaling:\n  # c\n  date: 1\n"
    path.write_text(f"# All.\ngpu_survey: {{date: 1}}\n# Own.\n{own}wrong:\n  date: 1\n")
    assert lines_of_edition(str(path), "conv_scaling") == f"# All.\n{own}wrong:\n  date: 1\n"
    assert lines_of_edition(str(tmp_path / "missing"), "conv_scaling") == ""


def test_checks_keep_the_engine_of_a_pdf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check keeps Typst if LaTeX was installed after the build."""
    monkeypatch.setattr(Index, "find_tex", lambda index: index.tex.update(version="1", lacking=""))
    cache.write_manifest({f"{STUDY}/pdf": StepEntry({"engine": "typst"}, {})}, str(tmp_path))
    request = BuildRequest((STUDY,), ("pdf",), tmp_path)
    for changed_request, as_built, engine in (
        (request, True, "typst"),
        (request, False, "latex"),
        (request._replace(engine="latex"), True, "latex"),
    ):
        *_, step = make_plan(changed_request, as_built=as_built).study_steps(STUDY)
        assert step.settings["engine"] == engine


def test_steps_of_the_site_need_one_completely_built_study(plan: BuildPlan) -> None:
    for missing in (None, *READ_BY_SITE):
        built = [f"{STUDY}/{kind}" for kind in READ_BY_SITE if kind != missing]
        plan.built = dict.fromkeys(built, StepEntry({"formats": "page"}, {}, ()))
        assert bool(plan.shared_steps()) is (missing is None)


def test_unreadable_outputs_fail_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind of step ``link`` exists only in this test."""
    monkeypatch.setattr(
        actions, "link", lambda task: (task.stage / "a").write_text(""), raising=False
    )
    monkeypatch.setattr(run, "file_digest", lambda path: None)
    task = actions.StepTask(f"{STUDY}/link", tmp_path / STUDY / "link", tmp_path, tmp_path, {})
    with pytest.raises(run.FailedStepError, match="out/a: cannot be read back"):
        run.run_step(task)


def test_only_changed_panels_are_redrawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drawing of bars does not depend on the code that draws dots."""
    drawing = Drawing((Bars(("a",), (BarSeries("b", (1.0,)),), "x"),))
    names = ("figures/bars.py", "figures/dots.py", "figures/style.py", "matplotlib")
    inputs = dict.fromkeys(names, "1")
    task = actions.StepTask(f"{STUDY}/figures", tmp_path / "new", tmp_path, tmp_path, inputs)

    def draw_again() -> dict[str, bytes]:
        """Run the step with its previous output beside it; return the files of figures."""
        shutil.copytree(task.stage, tmp_path / steps.PREVIOUS_BUILD)
        (tmp_path / steps.PREVIOUS_BUILD).rename(task.stage / steps.PREVIOUS_BUILD)
        actions.figures(task)
        return {path.name: path.read_bytes() for path in (task.source / "figures").iterdir()}

    task.artifacts().mkdir(parents=True)
    write_pickle({"x": drawing}, task.artifacts() / steps.DRAWINGS)
    actions.figures(task)
    files = draw_again()
    assert {*files} == {f"x.{ending}" for ending in ("pdf", "svg", "csv")}
    monkeypatch.setattr("figures.render.render", Mock(side_effect=KeyError))
    for name, is_redrawn in zip(names, (True, False, True, True), strict=True):
        inputs[name] = "2"
        with pytest.raises(KeyError) if is_redrawn else nullcontext():
            assert draw_again() == files
        inputs[name] = "1"
        shutil.rmtree(task.stage / steps.PREVIOUS_BUILD, ignore_errors=True)
    monkeypatch.undo()
    (task.artifacts() / steps.FIGURE_DIGESTS).unlink()
    assert draw_again() == files, "the list of drawn panels is missing"
    inputs["formats"] = "word"  # Word documents need PNG files
    assert draw_again() == {**files, "x.png": ANY}


def test_files_missing_in_a_data_folder_come_from_the_project(plan: BuildPlan) -> None:
    """Editions name the records of a data folder, so that the project's do not apply to another."""
    for file in ("devices.yaml", OPERATORS, f"reported/{STUDY}.json"):
        assert plan.paths[f"data/{file}"] == f"{plan.root}/data/{file}"
    assert plan.paths["data/editions.yaml"] == f"{plan.request.data}/editions.yaml"


def test_install_replaces_a_folder_with_and_without_an_atomic_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method in ("exchanged", "moved"):
        for name in ("old", "new"):
            (tmp_path / method / name).mkdir(parents=True)
            (tmp_path / method / name / "file").write_text(name)
        install(tmp_path / method / "new", tmp_path / method / "old")
        assert (tmp_path / method / "old" / "file").read_text() == "new"
        monkeypatch.setattr("report.engine.place._exchange", lambda new, old: False)
