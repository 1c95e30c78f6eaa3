"""Verifying: what is compared, how a difference is told, and builds that depend on one thing each.

The builds are those of a made-up project, but for the last.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from report.commands.console import announcer
from report.commands.verify import ENVIRONMENTS, build_twice, first_difference
from report.core.errors import OutputError, RenderError
from report.engine.cache import DIGESTS
from report.engine.steps import BuildRequest
from tests import tiny
from tests.factory import write_files
from tests.render.conftest import needs_latex

#: A build that writes what a line of Python gives it, and its data.
BUILD = """
import argparse, locale, os, sys, time
from pathlib import Path
parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path)
parser.add_argument("--data", type=Path)
(out, data) = vars(parser.parse_known_args()[0]).values()
(out / "html").mkdir(parents=True)
(out / "manifest.json").write_text("{}")
(out / ".index.json").write_text(os.getcwd())
(out / "html" / "data").write_bytes((data / "record").read_bytes())
(out / "html" / "page").write_bytes(b"first line\\n" + repr((EXPRESSION)).encode())
"""


def project_of(folder: Path, expression: str) -> Path:
    """A project whose page holds the value of an expression of Python."""
    program = BUILD.replace("EXPRESSION", expression).encode()
    rooms = dict.fromkeys((f"{room}/file" for room in ("report", "figures", "templates")), b"")
    data = {"data/record": b"measured", "data/devices.yaml": b""}
    return write_files(folder / "project", {"build.py": program, **data, **rooms})


def verified(folder: Path, data: Path | None = None) -> tuple[dict[str, str], dict[str, str]]:
    """What two builds of the project in ``folder`` give."""
    project = folder / "project"
    request = BuildRequest(("study",), ("html",), folder / "out", data=data or project / "data")
    return build_twice(request, project, announcer(quiet=True))


@pytest.mark.parametrize(
    "expression", ["os.getcwd()", "time.tzname", "os.environ['LC_ALL']", "hash('a')", "os.umask(0)"]
)
def test_a_build_that_depends_on_its_environment_is_caught(tmp_path: Path, expression: str) -> None:
    project_of(tmp_path, expression)
    _, differences = verified(tmp_path)
    assert list(differences) == ["html/page"] and differences["html/page"].startswith("byte ")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {".lock", "verify"}
    for folder, *_ in ENVIRONMENTS.values():
        assert (tmp_path / "out/verify" / folder / "out/html/page").is_file(), "to be read"


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is not installed")
def test_manifest_of_equal_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here of records alone, beside the project's data; nothing that the user has set is seen."""
    for name in ("PYTHONINSPECT", "LC_NUMERIC", "LANGUAGE"):
        monkeypatch.setenv(name, "mine")
    seen = "[p.name for p in data.parent.glob('*data/*')]"
    project_of(tmp_path, f"sorted({seen}), 'mine' in os.environ.values()")
    alone = write_files(tmp_path / "alone", {"record": b"of mine"})
    (alone / "lost").symlink_to("nowhere")
    files, differences = verified(tmp_path, alone)
    page = b"first line\n(['devices.yaml', 'record', 'record'], False)"
    made = {"html/data": b"of mine", "html/page": page, "manifest.json": b"{}"}
    assert not differences
    assert files == {name: hashlib.sha256(text).hexdigest() for name, text in made.items()}
    out = write_files(tmp_path / "out", made)
    for content, code in ((page, 0), (b"of other papers", 1)):
        write_files(out, {"html/page": content})
        check = ["sha256sum", "--check", "--strict", DIGESTS]
        assert subprocess.run(check, cwd=out, check=False).returncode == code


def test_what_cannot_be_built_or_copied_is_a_sentence(tmp_path: Path) -> None:
    project = project_of(tmp_path, "sys.exit('error: x.bib: not there')")
    with pytest.raises(RenderError, match=r"the first build failed: x\.bib"):
        verified(tmp_path)
    os.mkfifo(pipe := project / "data" / "pipe")
    said = rf"^{pipe}: cannot be copied \(it is a named pipe\); make"
    with pytest.raises(OutputError, match=said):
        verified(tmp_path)
    (project / "build.py").unlink()
    with pytest.raises(OutputError, match=r"/build\.py: cannot be copied \(No such file or direc"):
        verified(tmp_path)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]


def test_where_contents_differ(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for one, other, where in (
        (b"a\nb\n", b"a\nb\nc\n", r"byte 5: 'a\nb\n' and 'a\nb\nc\n'"),
        (b"x" * 100 + b"1", b"x" * 100 + b"2", f"byte 101: '{'x' * 30}1' and '{'x' * 30}2'"),
        (b"\xff(D:2026)", b"\xff(D:2034)", "byte 7: '\ufffd(D:2026)' and '\ufffd(D:2034)'"),
    ):
        write_files(tmp_path, {"first": one, "second": other})
        assert first_difference(first, second) == where
    assert first_difference(first, tmp_path / "none") == "only the first build has it"


@needs_latex
def test_a_paper_gives_the_same_bytes_in_both_environments(tmp_path: Path) -> None:
    project, out = tiny.write_project(tmp_path / "project"), tmp_path / "out"
    request = BuildRequest((tiny.STUDY,), ("html", "pdf"), out, "latex", 1, project / "data")
    files, differences = build_twice(request, project, announcer(quiet=True))
    assert files and not differences
