"""Verifying: what is compared, how a difference is told, and builds that depend on one thing each.

The builds are those of a made-up project; ``test_walkthrough`` verifies this one.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from report.commands.verify import (
    MANIFEST,
    unlike_environments,
    verify,
    where_unlike,
)
from report.engine.pipeline import Request
from report.errors import OutputError, RenderError
from tests import tiny
from tests.folders import write_files
from tests.latex import needs_latex

#: A build that writes what a line of Python gives it, and its data.
BUILD = """
import argparse, locale, os, sys, time
from pathlib import Path
parser = argparse.ArgumentParser()
for name in ("--engine", "--jobs", "--out", "--data"):
    parser.add_argument(name)
for name in ("--html", "--quiet"):
    parser.add_argument(name, action="store_true")
parser.add_argument("study")
options = parser.parse_args()
out = Path(options.out)
(out / "html").mkdir(parents=True)
(out / "manifest.json").write_text("{}")
(out / ".index.json").write_text(os.getcwd())
(out / "html" / "data").write_bytes(Path(options.data, "record").read_bytes())
(out / "html" / "page").write_bytes(b"first line\\n" + repr(EXPRESSION).encode())
"""


def project_of(folder: Path, expression: str) -> Path:
    program = BUILD.replace("EXPRESSION", expression).encode()
    return write_files(folder, {"build.py": program, "data/record": b"measured"})


def requested(tmp_path: Path, data: Path) -> Request:
    return Request(("study",), ("html",), tmp_path / "out", "typst", 1, data)


def silent(words: str, share: float) -> None:
    """No progress."""


@pytest.mark.parametrize(
    "expression",
    ["os.getcwd()", "time.tzname", "os.environ['LC_ALL']", "hash('a')", "os.umask(0)"],
    ids=["folder", "time zone", "locale", "hash seed", "umask"],
)
def test_a_build_that_depends_on_its_environment_is_caught(tmp_path: Path, expression: str) -> None:
    project = project_of(tmp_path / "project", expression)
    done = verify(requested(tmp_path, project / "data"), project, silent)
    assert list(done.differences) == ["html/page"]
    assert "line 2" in done.differences["html/page"]
    assert any("html/page" in line for line in done.lines())
    assert not (tmp_path / "out" / MANIFEST).exists()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {".lock", done.kept.name}
    for each in unlike_environments():
        assert (done.kept / each.folder / "out" / "html" / "page").is_file(), "can be looked at"


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is not installed")
def test_two_builds_of_the_same_bytes_give_a_manifest_that_sha256sum_checks(
    tmp_path: Path,
) -> None:
    project = project_of(tmp_path / "project", "'the same'")
    elsewhere = (project / "data").rename(tmp_path / "records of mine")
    request, told = requested(tmp_path, elsewhere), list[float]()
    done = verify(request, project, lambda words, share: told.append(share))
    assert done.differences == {} and 0 <= min(told) <= max(told) <= 1
    assert {path.name for path in request.out.iterdir()} == {".lock", MANIFEST}
    assert list(done.files) == ["html/data", "html/page", "manifest.json"], "and nothing else"
    write_files(request.out, {"html/data": b"measured", "manifest.json": b"{}"})
    for page, code in ((b"first line\n'the same'", 0), (b"of other papers", 1)):
        write_files(request.out, {"html/page": page})
        check = ["sha256sum", "--check", "--strict", MANIFEST]
        assert subprocess.run(check, cwd=request.out, check=False).returncode == code


@needs_latex
def test_a_paper_gives_the_same_bytes_in_both_environments(tmp_path: Path) -> None:
    project, out = tiny.write_project(tmp_path / "project"), tmp_path / "out"
    request = Request((tiny.STUDY,), ("html", "pdf"), out, "latex", 1, project / "data")
    assert verify(request, project, silent).differences == {}


def test_a_folder_of_records_alone_is_built_beside_the_project_s_data(tmp_path: Path) -> None:
    seen = "[p.name for p in Path(options.data).parent.glob('*data/*')]"
    project = project_of(tmp_path / "project", f"sorted({seen})")
    write_files(project, {"data/devices.yaml": b""})
    alone = write_files(tmp_path / "alone", {"record": b"of mine"})
    done = verify(requested(tmp_path, alone), project, silent)
    found = b"first line\n['devices.yaml', 'record', 'record']"
    assert done.files["html/page"] == hashlib.sha256(found).hexdigest()
    assert done.files["html/data"] == hashlib.sha256(b"of mine").hexdigest()


def test_a_file_that_cannot_be_copied_is_named(tmp_path: Path) -> None:
    project = project_of(tmp_path / "project", "''")
    lost = project / "data" / "lost"
    lost.symlink_to("nowhere")
    with pytest.raises(OutputError, match=rf"^{lost}: .*\(No such file or directory\)"):
        verify(requested(tmp_path, project / "data"), project, silent)


def test_a_build_that_fails_is_a_sentence(tmp_path: Path) -> None:
    project = project_of(tmp_path / "project", "sys.exit('error: x.bib: not there')")
    with pytest.raises(RenderError, match=r"the first build failed: x\.bib"):
        verify(requested(tmp_path, project / "data"), project, silent)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        (b"a\nb\n", b"a\nb\nc\n", "byte 5, line 3: "),
        (b"a\nb", b"a\nb\nc", "byte 4, line 2: "),
        (b"x" * 100 + b"1", b"x" * 100 + b"2", f"{'x' * 30}1' and '{'x' * 30}2'"),
        (b"\xff(D:2026)", b"\xff(D:2034)", "byte 7, line 1: "),
        (None, b"", "only the second build has it"),
        (b"", None, "only the first build has it"),
    ],
)
def test_where_contents_differ(
    tmp_path: Path, one: bytes | None, other: bytes | None, where: str
) -> None:
    for name, content in (("one", one), ("other", other)):
        write_files(tmp_path, {} if content is None else {name: content})
    assert where in where_unlike(tmp_path / "one", tmp_path / "other")


def test_the_environments_differ_and_the_user_s_own_reaches_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = unlike_environments()
    assert first.folder != second.folder and first.umask != second.umask
    assert not first.variables.items() & second.variables.items()
    for name in ("PYTHONINSPECT", "LC_NUMERIC", "LANGUAGE"):
        monkeypatch.setenv(name, "mine")
    project = project_of(tmp_path / "project", "'mine' in os.environ.values()")
    verify(requested(tmp_path, project / "data"), project, silent)
    (line,) = (tmp_path / "out" / MANIFEST).read_text().splitlines()[1:2]
    assert line.startswith(hashlib.sha256(b"first line\nFalse").hexdigest())
