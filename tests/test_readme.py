"""Every command in the README, run as a reader would: in a fresh copy, with an empty home."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from report.engine.pipeline import ROOT
from report.studies import STUDIES

#: A reader who clones has a history; who commits there does not matter.
AUTHOR = ["-c", "user.name=Reader", "-c", "user.email=reader@example.org"]
#: The study that README and tutorial write.
EXAMPLE = "layer_width"
README = (ROOT / "README.md").read_text("utf-8")


def commands(text: str = README) -> list[str]:
    """The lines of the shell blocks of a page, the README, without their remarks."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy, in which the commands of the README and of the class follow each other."""
    return fresh_copy(tmp_path_factory.mktemp("readme") / "ridgepoint")


def fresh_copy(target: Path) -> Path:
    """The files that git tracks or would, committed in the new folder ``target``.

    The study that the pages write is none of them, also where a reader has written it already.
    """
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file() and EXAMPLE not in name:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)
    for arguments in (
        ["init", "--quiet"],
        ["add", "--all"],
        [*AUTHOR, "commit", "--quiet", "-m", "x"],
    ):
        subprocess.run(["git", *arguments], cwd=target, check=True)
    return target


def run(command: str, folder: Path, home: Path, tolerated: str = "") -> str:
    """Run a command of a page; ``python`` is the interpreter of the tests.

    It must exit with 0, or print what is ``tolerated``.
    """
    home.mkdir(exist_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    finished = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "HOME": str(home), "USER": home.name, "PATH": path, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    well = finished.returncode == 0 or (tolerated and tolerated in finished.stdout)
    assert well, f"{command}\n{finished.stdout}\n{finished.stderr}"
    return finished.stdout


def test_the_readme_opens_with_the_two_commands() -> None:
    assert commands()[:2] == ["make papers", "make test"]


def test_every_command_works(copy: Path, tmp_path: Path) -> None:
    """In their order; ``make test`` is only expanded, because it is what runs this test."""
    home = tmp_path / "home"
    for command in commands():
        if command == "make test":
            assert "pytest" in run("make --dry-run test", copy, home)
        elif command.startswith("source "):
            assert (copy / command.removeprefix("source ")).exists(), "make papers makes it"
        else:
            run(command, copy, home)
    for study in set(STUDIES) - {EXAMPLE}:
        assert (copy / "out" / "pdf" / f"{study}.pdf").exists()
    assert list((copy / "data" / "conv_scaling").glob("*.json")), "the quick run left a record"


def test_every_command_for_a_class_works_and_nobody_is_named(copy: Path, tmp_path: Path) -> None:
    """With fewer cases than a student measures, and on a machine that may be loud."""
    home = tmp_path / "home-of-gwendolyn"
    for command in commands((ROOT / "docs" / "class.md").read_text("utf-8")):
        few = " --set batch=1,4" if " run " in command else ""
        run(command + few, copy, home, "problem  ceilings" if " check " in command else "")
        if "--into" in command:
            shutil.copytree(copy / "handed-in", copy / "data", dirs_exist_ok=True)
    (path,) = (copy / "data" / "conv_scaling").glob("*classroom-laptop-7-*.json")
    record = path.read_bytes()
    assert b"classroom laptop 7" in record
    pages = [p.read_bytes() for p in (copy / "out" / "html" / "conv_scaling").glob("*.*s*")]
    assert any(b"classroom laptop 7" in page for page in pages)
    host = socket.gethostname()
    for name in ("gwendolyn", str(copy), *([host] if len(host) > len("localhost") else [])):
        assert not any(name.encode() in text for text in (record, *pages)), name


def test_the_readme_names_every_study_and_every_room() -> None:
    measured = [study for study in STUDIES if any((ROOT / "data" / study).glob("*.json"))]
    assert all(f"`{study}`" in README for study in measured)
    for room in ("experiments", "data", "report", "figures", "templates", "tests"):
        assert f"`{room}/`" in README


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
