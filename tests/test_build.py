"""Builds as processes: messages, errors, signals, streams, folders and links."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from report.commands.new import new_study
from report.core.errors import RenderError
from report.core.records.store import write_record
from report.engine import cache
from report.engine.cache import Index, StepEntry
from report.engine.plan import choose_engine
from report.engine.steps import ROOT
from report.evaluation.gather import choose_records
from tests import factory, tiny
from tests.factory import wait_until
from tests.test_builds import toggle_double_times
from tests.tiny import STUDY, TEMPLATE, exchange_text


def test_an_edited_record_is_noted_and_an_invalid_one_stops_only_its_paper(project: Path) -> None:
    """The printed lines have no progress, because the output is a pipe."""
    path = tiny.record_of(project)
    factory.replace_text(path, '"seed": 0', '"seed": 1')
    new_study("second", "A second paper", root=project)
    note = f"note: data/{STUDY}/{path.name}: its content does not match the hash in its name, so "
    result = tiny.build(project, TEMPLATE, "second", "--html")
    output_line, *record_lines, note_line, summary = result.output.splitlines()
    assert result.code == 0 and "Wrote " in output_line and "index.html" in output_line
    assert note_line.startswith(note)
    used = f"{STUDY}: 1 of 1 record used (see --explain)"
    assert record_lines == [used, "second: 0 of 0 records used"]
    assert "2 papers: 2 built, 0 unchanged, 0 errors, 1 note" in summary
    assert note in tiny.build(project, "--html").output, "also printed if there is nothing to do"
    assert f"data/{STUDY}/{path.name}: used" in tiny.build(project, "--explain").output
    assert tiny.build(project, "-q").output == ""
    heading = "Records that were changed after measurement"
    for page in (f"html/{STUDY}/index.html", f"quarto/{STUDY}/{STUDY}.qmd"):
        assert heading in (project / "out" / page).read_text("utf-8")
    before = tiny.digests(project, f"out/html/{STUDY}")
    factory.replace_text(path, '"time": "s"', '"time": "ms"')
    change_second = exchange_text(
        "templates/papers/second.qmd.j2", "How does the", "How much does the"
    )
    change_second(project)
    result = tiny.build(project, STUDY, "second", "--html")
    error = f"error: data/{STUDY}/{path.name}: units.time: measured in s, found 'ms'"
    assert result.code == 1 and error in result.output and "Traceback" not in result.output
    assert "2 papers: 1 built, 0 unchanged, 1 error" in result.output
    assert tiny.digests(project, f"out/html/{STUDY}") == before


@pytest.mark.parametrize(("started", "old", "new"), [
    ("2026-12-01T00:00:00Z", '"seed": 0', '"seed": 1'),
    ("2020-01-01T00:00:00Z", "2020-01-01", "2026-12-01"),
    ("2020-01-01T00:00:00Z", '"plan": "quick"', '"plan": "full"'),
], ids=["newest", "newest by its edited start", "best by its edited plan"])  # fmt: skip
def test_edited_records_must_be_named(started: str, old: str, new: str, tmp_path: Path) -> None:
    """The edit may change the fields that decide which record is used."""
    study, data = "conv_scaling", factory.data_folder(tmp_path)
    unedited = write_record(factory.record(started="2026-11-01T10:00:00Z", plan="quick"), data)
    edited = write_record(factory.record(started=started, plan="quick"), data)
    factory.replace_text(edited, old, new)
    chosen = choose_records(study, data)
    assert chosen.origin["records"] == [f"{study}/{unedited.name}"]
    notice = f"left out: data/{study}/{edited.name}: its content does not"
    assert chosen.notices[0].startswith(notice)
    edition = f"{study}: {{roles: {{cpu: [{study}/{edited.name}]}}}}\n"
    (data / "editions.yaml").write_text(edition, "utf-8")
    assert choose_records(study, data).origin["records"] == [f"{study}/{edited.name}"]


@pytest.mark.parametrize(
    ("file", "line"),
    [("actions", "return chosen.notices"), ("run", "finished: dict[str, StepEntry] = {}")],
    ids=["in a step", "between steps"],
)
def test_an_internal_error_is_one_sentence(file: str, line: str, project: Path) -> None:
    exchange_text(f"report/engine/{file}.py", line, "raise OverflowError(4)")(project)
    result = tiny.build(project)
    assert result.code == 1 and f"error: {STUDY}: OverflowError: 4; run " in result.output
    assert "Traceback" not in result.output
    assert "Traceback" in tiny.build(project, "--debug").output


def test_typst_is_chosen_without_tex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    index = Index(str(tmp_path))
    index.find_tex()
    missing = index.tex["lacking"]
    engine, note = choose_engine("auto", missing)
    assert engine == "typst" and "apt-get install" in note
    with pytest.raises(RenderError, match="apt-get install"):
        choose_engine("latex", missing)


def processes(mark: str, command_start: str = "") -> list[psutil.Process]:
    """Return processes with ``mark`` in the environment and a command with this beginning."""
    matches = []
    for process in psutil.process_iter(["environ", "cmdline"]):
        command = " ".join(process.info["cmdline"] or ())
        if mark in str(process.info["environ"]) and command.startswith(command_start):
            matches.append(process)
    return matches


def start_two_papers(project: Path, *wrapper: str) -> subprocess.Popen[str]:
    """Start ``build.py`` for two studies with two workers; TMPDIR identifies the processes.

    ``wrapper``: a program that runs the build, such as nohup.
    """
    toggle_double_times(project)
    new_study("second", "A second paper", root=project)
    return subprocess.Popen(
        [*wrapper, sys.executable, "build.py", "--html", "--jobs=2"],
        cwd=project,
        env={**os.environ, "TMPDIR": str(project)},
        # Background processes of a shell inherit an ignored SIGINT.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_a_build_and_a_killed_worker_is_reported(project: Path, number: int) -> None:
    """SIGKILL is sent to the workers, SIGINT to the build itself."""
    process = start_two_papers(project)
    parent = psutil.Process(process.pid)
    wait_until(parent.children)
    for target in parent.children() if number == signal.SIGKILL else [parent]:
        with suppress(psutil.NoSuchProcess):  # a worker's death ends the other worker
            target.send_signal(number)
    _, errors = process.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert process.returncode == 1 and "was killed" in errors and "--jobs" in errors
    else:
        assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert not list((project / "out").glob(".scratch-*"))
    wait_until(lambda: not processes(str(project)))


def test_a_build_under_nohup_continues_after_hangup(project: Path) -> None:
    process = start_two_papers(project, "nohup")
    wait_until(lambda: list((project / "out").glob(".scratch-*/*/study")))
    parent = psutil.Process(process.pid)
    for target in (parent, *parent.children()):
        with suppress(psutil.NoSuchProcess):  # a worker may end meanwhile
            target.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


#: A program that starts a shell, which starts two more programs.
_PROGRAM = """
from pathlib import Path
from report.core.system.programs import run
from report.core.system.programs import leave_on_signals
with leave_on_signals(list):  # no files to remove
    run(["sh", "-c", "(sleep 600 &); sleep 600"], Path("/"), 600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_programs_end_with_their_parent_process(tmp_path: Path, number: int) -> None:
    """Programs that a program has started end too, as pdflatex does, which latexmk starts."""
    environment = {**os.environ, "HOME": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM], cwd=ROOT, env=environment)
    wait_until(lambda: len(processes(str(tmp_path), "sleep 600")) == 2)
    process.send_signal(number)
    assert process.wait() == (128 + number if number == signal.SIGTERM else -number)
    wait_until(lambda: not processes(str(tmp_path), "sleep"))


def shell(project: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command line with redirections in a shell; ``python`` is this interpreter."""
    return subprocess.run(
        ["bash", "-c", command.replace("python", '"$0"'), sys.executable],
        cwd=project, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "redirection", ["<&- >&- 2>&-", ">/dev/full 2>&1"], ids=["closed streams", "full disk"]
)
def test_a_build_succeeds_without_writable_output(project: Path, redirection: str) -> None:
    exchange_text("templates/html/page.html", "<main", '<main data-new="1"')(project)
    command = "python build.py --html --engine typst"
    result = shell(project, f"{command} {redirection}")
    assert (result.returncode, result.stderr) == (0, "")
    assert tiny.steps_run(project, "--html") == set(), "all steps had run"


@pytest.mark.parametrize("command", ["build.py --list", "-m experiments list"])
def test_an_unwritable_result_and_a_missing_environment_are_errors(command: str) -> None:
    (line,) = shell(ROOT, f"python -S {command}").stderr.splitlines()  # -S hides all packages
    assert "activate" in line
    result = shell(ROOT, f"python {command} >/dev/full")
    assert result.returncode == 1
    assert "standard output: cannot be written" in result.stderr


def test_closed_standard_streams_are_opened_for_programs() -> None:
    """A shell that copies streams 0 and 1 fails if either is closed."""
    opened = "from report.core.system import streams; streams.open_streams(); import os"
    code = f"{opened}; os._exit(os.system('exec 3<&0 4>&1') > 0 or not os.get_inheritable(0))"
    assert shell(ROOT, f'python -c "{code}" <&- >&-').returncode == 0


def test_folders_may_have_any_name_and_be_links(built: Path, tmp_path: Path) -> None:
    parent = tmp_path / "%20 ~a?b#c&d;e'f\"g$h -k*l[m]\n\\n研究 ü"
    parent.mkdir()
    project = shutil.copytree(built, parent / "project", ignore=shutil.ignore_patterns("out"))
    (project / "data").rename(parent / "data")
    (parent / "elsewhere").mkdir()
    (parent / "out").symlink_to(parent / "elsewhere")
    result = tiny.build(project, "--out", str(parent / "out"), "--data", str(parent / "data"))
    assert result.code == 0, result.output
    assert (parent / "out").is_symlink()
    digests, original_digests = tiny.digests(parent, "elsewhere"), tiny.digests(built)
    assert digests.keys() == original_digests.keys()
    equal = {name for name in digests if digests[name] == original_digests[name]}
    figures = {name for name in digests if "figures/" in name}
    assert equal > figures and "manifest.json" not in equal
    # The papers differ only in a note that the records are not those of the edition.
    source = (parent / "out" / "qmd" / STUDY / f"{STUDY}.qmd").read_text("utf-8")
    original = (built / "out" / "qmd" / STUDY / f"{STUDY}.qmd").read_text("utf-8")
    note = "subtitle: Built with records that are not those of the paper's edition\n"
    assert source.count(note) == 1 and source.replace(note, "") == original


def test_a_build_changes_no_file_outside_of_out(project: Path) -> None:
    """Links inside ``out`` to folders outside are replaced by folders."""
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    links = [project / "out" / name for name in ("html", f"qmd/{STUDY}/figures", "pdf", ".steps")]
    for link in links:
        link.rename(elsewhere / link.name)
        link.symlink_to(elsewhere / link.name)
    toggle_double_times(project)
    before = factory.digests(project)
    assert tiny.build(project).code == 0
    after = factory.digests(project)
    outside = {name for name in before if not name.startswith("out/")}
    assert {name: after[name] for name in outside} == {name: before[name] for name in outside}
    assert not any(link.is_symlink() for link in links)
    assert tiny.build(project, "--out", "cold").code == 0
    assert tiny.digests(project) == tiny.digests(project, "cold")


def test_files_that_no_build_wrote_stay_unchanged(built: Path, project: Path) -> None:
    """Such files stay in folders of a deleted study, and when ``--diff`` replaces its pages.

    The manifest lists outputs of the deleted studies ``gone`` and ``lost``, and of a step that
    only an older version had; these are removed.
    """
    out = project / "out"
    foreign = {"html/CNAME": b"example.org"}
    for folder in ("quarto", "quarto/_site", "diff/old", f"html/{STUDY}", "html/gone"):
        foreign[f"{folder}/own.txt"] = b"mine"
    factory.write_files(out, foreign)
    (out / "quarto/link").symlink_to("nowhere")
    gone_outputs = dict.fromkeys(("html/gone/index.html", "pdf/gone.pdf", "values/gone.json"), "")
    lost_outputs, old_outputs = {"pdf/lost.pdf": ""}, {f"html/{STUDY}/old.svg": ""}
    removed = (*gone_outputs, *lost_outputs, *old_outputs)
    factory.write_files(out, dict.fromkeys(removed, b""))
    obsolete = {
        "gone/pdf": StepEntry({}, gone_outputs),
        "lost/pdf": StepEntry({}, lost_outputs),
        f"{STUDY}/old": StepEntry({}, old_outputs),
    }
    cache.write_manifest({**cache.read_manifest(str(out)), **obsolete}, str(out))
    toggle_double_times(project)
    stale = "\ngone is stale: no step makes some of its files"
    assert stale in tiny.build(project, "--check").output
    for arguments in ([], ["--diff", "data"], ["--diff", str(built / "data")]):
        result = tiny.build(project, *arguments)
        assert result.code == 0 and "gone" not in result.output, result.output
    assert (out / "quarto/link").is_symlink()
    assert {name: (out / name).read_bytes() for name in foreign} == foreign
    assert not [name for name in removed if (out / name).exists()]


@pytest.mark.parametrize("file", ["quarto", f"pdf/{STUDY}.pdf", "manifest.json", ".lock/notes"])
def test_a_file_that_no_build_wrote_is_never_replaced(file: str, project: Path) -> None:
    """The output folder ``own`` exists before the first build."""
    factory.write_files(project / "own", {file: b"mine", "quarto.txt": b"mine"})
    result = tiny.build(project, "--out", "own")
    assert result.code == 1
    path = file.removesuffix("/notes")
    assert f"own/{path}: no build wrote this file, and this build would replace" in result.output
    assert (project / "own" / file).read_bytes() == b"mine"


@pytest.mark.parametrize(("file", "old", "new", "arguments"), [
    (TEMPLATE, "\n# Machines", "\n```{=typst}\n#nosuch()\n```\n\n# Machines", "--pdf"),
    (TEMPLATE, "number-sections: true", "number-sections: [[", "--html"),
    (TEMPLATE, "\n# Machines", "\n{{ v.no_such_value }}\n\n# Machines", "--html"),
    (TEMPLATE, "\n# Machines", '\n![x](figures/none){#fig-none fig-alt="x"}\n', "--html"),
    ("data/references.bib", "@", "@book{bad,\n  year = 1\n  title = {X}\n}\n\n@", "--html"),
])  # fmt: skip
def test_errors_name_the_file(project: Path, file: str, old: str, new: str, arguments: str) -> None:
    before = tiny.digests(project)
    exchange_text(file, old, new)(project)
    result = tiny.build(project, arguments)
    assert result.code == 1
    lines = [line for line in result.output.splitlines() if f"{file}:" in line]
    assert lines, result.output
    assert not any(".scratch-" in line for line in lines)
    assert tiny.digests(project) == before
