"""Every command of the tutorial, the README, and the pages for a class and for publishing.

They are run as a reader would: one after another, with an empty home, in a copy of this project
that has no study but the tutorial's.  Nothing is installed, and one run measures, without ceilings.
What takes long and has tests of its own is read only, as ``_READ`` says.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from report.commands.new import NEXT
from report.engine.steps import ROOT
from report.studies import STUDIES
from tests.factory import commit, printed

#: The study that the pages write, and the one in its place where they need records.
EXAMPLE, OTHER = "layer_width", "conv_scaling"
PAGES = ("docs/tutorial.md", "README.md", "docs/publishing.md")
README = (ROOT / "README.md").read_text("utf-8")
TUTORIAL = (ROOT / PAGES[0]).read_text("utf-8")
#: The home of a reader whose name no record may hold.
HOME = "home-of-gwendolyn"
#: What the copy has not: records, what is said of them, and any study.
_ROOMS = "report/studies|templates/papers"
_LEFT_OUT = re.compile(rf"data/([^/]+/|editions)|({_ROOMS})/[a-z]|.*{EXAMPLE}")
#: Commands of which the words are read, by the program that is then run in the place of theirs.
_READ = re.compile(r" (run|doctor|theory) | --(use|diff|verify|artifact) ")
_READERS = {
    "-m experiments": "-m tests.stand_ins read_experiments",
    "build.py": "-m tests.stand_ins read_build",
}


def commands(text: str = README) -> list[str]:
    """The lines of the shell blocks of a page, the README, without their remarks."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader has cloned."""
    target = tmp_path_factory.mktemp("walk") / "ridgepoint"
    (target.parent / HOME).mkdir()
    listed = printed(["git", "ls-files", "-co", "--exclude-standard"]).splitlines()
    kept = ("report/studies/__init__.py", *(f for f in listed if not _LEFT_OUT.match(f)))
    for name in (name for name in kept if (ROOT / name).is_file()):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target / name)
    commit(target)
    return target


def run(command: str, folder: Path) -> str:
    """What a command of a page says; ``python`` is the interpreter of the tests."""
    home = folder.parent / HOME
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    finished = subprocess.run(
        ["bash", "-c", command], cwd=folder, text=True, check=False, timeout=900,
        env={**os.environ, "HOME": str(home), "USER": "gwendolyn", "PATH": path, "PYTHONPATH": ""},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert finished.returncode == 0, f"{command}\n{finished.stdout}"
    return finished.stdout


def adapted(page: str) -> Iterator[str]:
    """The commands of a page for the copy: of the tutorial's study, and into no folder outside."""
    for command in commands((ROOT / page).read_text("utf-8")):
        yield command.replace(OTHER, EXAMPLE).replace("/var/www/courses/perf", "../perf")


def take(command: str, checkout: Path, *, measure: bool) -> str:
    """What a command of a page says; see the module for what is not run as it stands."""
    if command.startswith("make "):
        command = command.replace("make ", "make --dry-run ")
    elif re.match("source |quarto |python -m (pip|tests.render.site_checks) ", command):
        return ""  # the environment that is there; tests/render/test_{render_quarto,site}.py
    elif measure:
        command = command.replace("-m experiments", "-m tests.stand_ins measure")
    elif _READ.search(f"{command} "):
        for program, reader in _READERS.items():
            command = command.replace(program, reader)
    if "handed-in" in command and " run " in command:
        shutil.copytree(checkout / "data" / EXAMPLE, checkout / "handed-in" / EXAMPLE)
    return run(command, checkout)


def test_every_command_of_the_pages_works(checkout: Path) -> None:
    pytest.importorskip("torch")
    said: dict[str, str] = {}
    for page in PAGES:
        for command in adapted(page):
            # Builds depend on what was done before.
            if command not in said or ("build.py" in command and "--new" not in command):
                first = not any(" experiments run " in earlier for earlier in said)
                measure = first and " experiments run " in command
                said[command] = take(command, checkout, measure=measure)
    (error,) = re.findall(r"^error: .*$", TUTORIAL, re.MULTILINE)
    assert any(error in text for text in said.values()), "the refusal is the tutorial's"
    page = (checkout / "public" / EXAMPLE / "index.html").read_text("utf-8")
    # A number, or a range where other tests made the processes fall into two groups.
    assert re.search(r"The widest layer reaches\s+<[^>]+>\d[^<]*FLOP/s", page)
    assert (checkout / "out" / "pdf" / f"{EXAMPLE}.pdf").is_file()
    assert "wider-is-faster" in (checkout / f"data/expected/{EXAMPLE}.json").read_text("utf-8")
    assert (checkout.parent / "perf" / "index.html").exists()
    assert_nobody_is_named(checkout)
    (program,) = re.findall(r"^```python\n(.*?)^```", TUTORIAL, re.DOTALL | re.MULTILINE)
    shown = run(f"python - <<'END'\n{program}END", checkout)
    assert re.search(r"^ *Width +Rate \(FLOP/s\)", shown, re.MULTILINE)


def assert_nobody_is_named(checkout: Path) -> None:
    (record,) = (checkout / "data" / EXAMPLE).glob("*my-laptop*.json")
    pages = [p.read_bytes() for p in (checkout / "out" / "html" / EXAMPLE).glob("*.*s*")]
    assert any(b"my laptop" in page for page in pages)
    host = socket.gethostname()
    for name in ("gwendolyn", str(checkout), *([host] if len(host) > len("localhost") else [])):
        assert not any(name.encode() in text for text in (record.read_bytes(), *pages)), name


def test_the_guides_name_the_commands_and_the_studies() -> None:
    assert commands()[:2] == ["make papers", "make test"]
    guide = (ROOT / "docs" / "adding-a-study.md").read_text("utf-8")
    assert all(command.replace("SLUG", EXAMPLE) in guide for command in NEXT)
    measured = [study for study in STUDIES if any((ROOT / "data" / study).glob("*.json"))]
    assert all(f"`{study}`" in README for study in measured)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
