"""Verifying: what is compared, how a difference is told, and real builds, one of which differs."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from report.commands.compare_files import (
    MANIFEST,
    differing,
    explain,
    files_of,
    first_difference,
    sums,
)
from report.commands.environments import (
    Clock,
    Environment,
    differing_environments,
    foreign_locale,
    prepare_environment,
    shifted_clock,
)
from report.commands.verify import Verified, project_files, verify
from report.engine.pipeline import ROOT, Request
from report.errors import OutputError, RenderError
from report.missing import Missing
from tests.folders import write_files

STUDY = "conv_scaling"
#: What of a build is copied and changed by the tests.
COPIED = ("build.py", "pyproject.toml", "report", "figures", "templates", "data")


def silent(words: str, share: float) -> None:
    """No progress."""


# The comparison


def test_every_built_file_is_compared_and_nothing_else(tmp_path: Path) -> None:
    built = {"manifest.json": b"{}", "html/a/index.html": b"a", ".steps/a/x.drawing": b"x"}
    others = {
        ".index.json": b"times",
        ".lock": b"",
        ".scratch-1/a": b"half",
        MANIFEST: b"old",
        "diff/index.html": b"of another command",
    }
    found = files_of(write_files(tmp_path, {**built, **others}))
    assert found == {n: hashlib.sha256(c).hexdigest() for n, c in sorted(built.items())}
    assert list(found) == sorted(built)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is not installed")
def test_the_manifest_is_what_sha256sum_checks(tmp_path: Path) -> None:
    write_files(tmp_path, {"pdf/a.pdf": b"%PDF", "html/a b/ü.html": b"a"})
    (tmp_path / MANIFEST).write_text(sums(files_of(tmp_path)), "utf-8")
    check = ["sha256sum", "--check", "--strict", MANIFEST]
    assert subprocess.run(check, cwd=tmp_path, check=False, capture_output=True).returncode == 0
    (tmp_path / "pdf" / "a.pdf").write_bytes(b"%PDF-")
    assert subprocess.run(check, cwd=tmp_path, check=False, capture_output=True).returncode == 1


def test_files_that_only_one_build_made_differ(tmp_path: Path) -> None:
    one = write_files(tmp_path / "one", {"same": b"s", "changed": b"a\nb", "gone": b""})
    two = write_files(tmp_path / "two", {"same": b"s", "changed": b"a\nc", "new": b""})
    names = differing(files_of(one), files_of(two))
    assert [(item.name, item.where) for item in explain(names, one, two)] == [
        ("changed", "line 2, column 1: 'b' and 'c'"),
        ("gone", "only the first build made it"),
        ("new", "only the second build made it"),
    ]


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        (b"a\nb\n", b"a\nb\nc\n", "line 3, column 1: '' and 'c'"),
        (b"a\nb", b"a\nb\nc", "the first ends after line 2"),
        (b"a\r\n", b"a\n", "line 1, column 2: 'a\\r' and 'a'"),
        (
            b"x" * 100 + b"1",
            b"x" * 100 + b"2",
            f"line 1, column 101: '{'x' * 30}1' and '{'x' * 30}2'",
        ),
        (b"\0ab", b"\0ac", "byte 3 of 3 and 3: '.ab' and '.ac'"),
        (b"\xff(D:2026)", b"\xff(D:2034)", "byte 7 of 9 and 9: '.(D:2026)' and '.(D:2034)'"),
        (b"\xffa", b"\xffab", "the first ends after byte 2"),
        (b"\xffab", b"\xffa", "the second ends after byte 2"),
    ],
)
def test_where_contents_differ(one: bytes, other: bytes, where: str) -> None:
    assert first_difference(one, other) == where


@given(st.binary(max_size=30), st.binary(max_size=30))
def test_any_two_contents_can_be_told_apart(one: bytes, other: bytes) -> None:
    assume(one != other)
    assert first_difference(one, other)


@given(
    st.dictionaries(st.text(max_size=3), st.text(max_size=2)), st.dictionaries(st.text(), st.text())
)
def test_a_comparison_is_the_same_from_both_sides(one: dict[str, str], two: dict[str, str]) -> None:
    assert differing(one, one) == ()
    assert differing(one, two) == differing(two, one)
    assert set(differing(one, two)) == {name for name, _ in one.items() ^ two.items()}


# The environments


def test_the_two_environments_differ_in_everything() -> None:
    first, second = differing_environments(jobs=2)
    may_be_the_same = {"clock", "locale"}
    for each in dataclasses.fields(Environment):
        if each.name not in may_be_the_same:
            assert getattr(first, each.name) != getattr(second, each.name), each.name


@pytest.mark.parametrize(
    ("installed", "chosen"),
    [
        ((), "C"),
        (("C", "POSIX"), "C"),
        (("C", "C.utf8", "POSIX"), "C.utf8"),
        (("C", "C.utf8", "en_GB.utf8", "de_DE.utf8"), "de_DE.utf8"),
        (("C.utf8", "de_DE.UTF-8", "tr_TR.UTF-8"), "tr_TR.UTF-8"),
    ],
)
def test_the_most_foreign_locale_is_chosen(installed: tuple[str, ...], chosen: str) -> None:
    assert foreign_locale(installed) == chosen


def test_without_faketime_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    clock = shifted_clock(1)
    assert isinstance(clock, Missing)
    assert "apt-get install faketime" in clock.reason


@pytest.mark.skipif(shutil.which("faketime") is None, reason="faketime is not installed")
def test_a_shifted_clock_shifts_dates_but_no_waiting(tmp_path: Path) -> None:
    clock = shifted_clock(2987)
    assert isinstance(clock, Clock)
    environment = dataclasses.replace(differing_environments(2)[1], clock=clock)
    variables = prepare_environment(environment, tmp_path)
    program = (
        "import subprocess, sys, threading, time\n"
        "print(time.time())\n"
        "before = time.monotonic()\n"
        "time.sleep(0.01)\n"
        "done = threading.Condition()\n"
        "with done: done.wait(0.01)\n"
        "subprocess.run([sys.executable, '-c', ''], timeout=60, capture_output=True)\n"
        "print(time.monotonic() - before)\n"
    )
    python = [sys.executable, "-c", program]
    finished = subprocess.run(
        python, env=variables, capture_output=True, text=True, check=True, timeout=300
    )
    plain = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time())"],
        capture_output=True,
        text=True,
        check=True,
    )
    date, waited = map(float, finished.stdout.split())
    assert 2986 < (date - float(plain.stdout)) / 86400 < 2988
    assert waited < 300


def test_what_the_user_has_set_does_not_reach_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MPLCONFIGDIR", "LC_NUMERIC", "XDG_CONFIG_HOME", "LANGUAGE"):
        monkeypatch.setenv(name, "mine")
    for environment in differing_environments(2):
        variables = prepare_environment(environment, tmp_path)
        assert "mine" not in variables.values()
        assert variables["HOME"] == str(tmp_path / environment.home)
        assert variables["LC_ALL"] == environment.locale


# The builds


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project that a test may change, without git."""
    target = tmp_path / "project"
    ignored = shutil.ignore_patterns("__pycache__", "conv_profiling", "inference_memory")
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignore = ignored if name == "data" else shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, target / name, ignore=ignore)
        else:
            target.mkdir(exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)
    return target


def requested(tmp_path: Path, data: Path, jobs: int = 2) -> Request:
    return Request((STUDY,), ("html",), tmp_path / "out", "typst", jobs, data)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the builds are made, so that it can be seen what is left of them."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_git_says_what_belongs_to_the_project(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"build.py": b"", "report/new.py": b"", "out/a": b"", ".gitignore": b"/out/\n"}
    )
    (tmp_path / "report" / "__pycache__").mkdir()
    without = project_files(tmp_path)
    assert without == ("build.py", "report/new.py"), "without git, what a build needs"
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    write_files(tmp_path, {"notes.txt": b""})
    assert project_files(tmp_path) == (".gitignore", "build.py", "notes.txt", "report/new.py")
    subprocess.run(["git", "add", "notes.txt"], cwd=tmp_path, check=True)
    (tmp_path / "notes.txt").unlink()
    assert "notes.txt" not in project_files(tmp_path)


def test_two_builds_from_nothing_give_the_same_bytes(
    tmp_path: Path, project: Path, scratch: Path
) -> None:
    """And the manifest fits what the command itself builds, from data that lie elsewhere too."""
    records = (project / "data").rename(tmp_path / "records of mine")
    request = requested(tmp_path, records)
    told: list[float] = []
    done = verify(request, project, lambda words, share: told.append(share))
    assert done.differences == ()
    assert done.code == 0
    assert f"html/{STUDY}/index.html" in done.files
    assert "manifest.json" in done.files
    assert (request.out / MANIFEST).read_text("utf-8") == sums(done.files)
    assert any("has not been built" in line for line in done.lines())
    assert 0 <= min(told) <= max(told) <= 1
    assert list(scratch.iterdir()) == [], "nothing is left behind"
    subprocess.run(
        [sys.executable, project / "build.py", STUDY, "--html", "--engine=typst",
         f"--data={records}", f"--out={request.out}"],
        cwd=project, env={**os.environ, "PYTHONPATH": str(project)},
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert files_of(request.out) == done.files


def test_a_seeded_difference_is_found_and_told(
    tmp_path: Path, project: Path, scratch: Path
) -> None:
    with (project / "report" / "render" / "shell.py").open("a", encoding="utf-8") as module:
        module.write(
            "\n_whole = stylesheet\n\ndef stylesheet():\n"
            "    import time\n    return _whole() + f'/* {time.tzname[0]} */'\n"
        )
    done = verify(requested(tmp_path, project / "data", jobs=1), project, silent)
    assert done.code == 1
    where = {item.name: item.where for item in done.differences}
    assert set(where) == {"html/assets/style.css", "manifest.json"}
    assert where["html/assets/style.css"].endswith("'/* UTC */' and '/* FAR */'")
    lines = list(done.lines())
    assert "2 files differ:" in lines
    assert any(line.startswith("  html/assets/style.css: line ") for line in lines)
    assert not (tmp_path / "out" / MANIFEST).exists()
    assert done.kept is not None
    assert (done.kept / done.environments[0].out / "html" / "assets" / "style.css").is_file(), (
        "both can be looked at"
    )


def test_a_build_that_fails_is_a_sentence(tmp_path: Path, project: Path, scratch: Path) -> None:
    (project / "data" / "references.bib").unlink()
    with pytest.raises(RenderError, match=r"--verify: the first build failed: .*references\.bib"):
        verify(requested(tmp_path, project / "data"), project, silent)
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "out").exists()


def test_what_was_built_before_is_compared_too(tmp_path: Path) -> None:
    done = Verified(
        differing_environments(2), {}, (), (), ("pdf/a.pdf",), tmp_path / MANIFEST, None
    )
    lines = list(done.lines())
    assert f"note: 1 file is not like this in {tmp_path}; build the same papers there:" in lines
    assert "  pdf/a.pdf" in lines


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    from report.commands.verify import _write

    (tmp_path / "out").write_text("a file", "utf-8")
    with pytest.raises(OutputError, match="cannot be written"):
        _write("", tmp_path / "out" / MANIFEST)


def test_no_room_for_the_copies_is_a_sentence(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.raises(OutputError, match="No space left on device"):
        verify(requested(tmp_path, ROOT / "data"), ROOT, silent)
    assert list(scratch.iterdir()) == []
