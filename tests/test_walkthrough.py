"""All commands of the tutorial, the README, and the pages for a class and for publishing.

The commands run one after another, with an empty home folder, in a copy of this project with a
small replacement of conv_scaling as the only study.  Nothing is installed.  Two commands measure
one case and no peak rates.  Slow commands with tests elsewhere are only parsed (``_PARSED``).
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

from report.commands.new import NEXT_COMMANDS
from report.core.records.store import write_record
from report.engine.steps import ROOT
from report.studies import STUDIES
from tests import factory, tiny
from tests.factory import commit_all, output_of
from tests.test_documents import code_blocks

#: The study that a reader creates, and the study of the repository that the pages use.
EXAMPLE, OTHER = "layer_width", "conv_scaling"
PAGES = ("docs/tutorial.md", "docs/class.md", "README.md", "docs/publishing.md")
README = (ROOT / "README.md").read_text("utf-8")
TUTORIAL = (ROOT / PAGES[0]).read_text("utf-8")
#: The home folder of a reader; records must not contain the reader's name.
HOME = "home-of-gwendolyn"
_STUDY_FOLDERS = "report/studies|templates/papers"
#: Files left out of the copy: records, editions, all studies, and other files of the two studies.
_LEFT_OUT = re.compile(
    rf"data/([^/]+/|editions)|({_STUDY_FOLDERS})/[a-z]|.*({EXAMPLE}|/(test_)?{OTHER}\.)"
)
#: Commands that measure: the reader's study, and a study for a class, which is handed in.
_MEASURED = re.compile(rf" run {EXAMPLE} .*--label | run .*--label .*--records ")
#: Commands that are only parsed, unless they measure.
_PARSED = re.compile(r" (run|doctor|theory) | --(use|diff|verify|verify-against|artifact) ")
#: Program → the program that parses its command line and does nothing.
_PARSERS = {
    "-m experiments": "-m tests.stand_ins parse_experiments",
    "build.py": "-m tests.stand_ins parse_build",
}


def commands(text: str = README) -> list[str]:
    """Return the lines of a page's shell blocks without comments; by default the README's."""
    lines = "".join(code_blocks(text, "sh")).splitlines()
    without_comments = [line.partition("#")[0].strip() for line in lines]
    return [line for line in without_comments if line]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the project as if cloned, with a replacement of conv_scaling and one record."""
    pytest.importorskip("torch")
    target = tmp_path_factory.mktemp("walk") / "ridgepoint"
    (target.parent / HOME).mkdir()
    files = output_of(["git", "ls-files", "-co", "--exclude-standard"]).splitlines()
    copied = ["report/studies/__init__.py", *(file for file in files if not _LEFT_OUT.match(file))]
    for file in copied:
        if (ROOT / file).is_file():
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, target / file)
    run(f'python build.py --new {OTHER} "How the time of a convolution grows"', target)
    write_record(factory.record([tiny.case(64), tiny.case(256)], study=OTHER), target / "data")
    run(f"python build.py {OTHER} --html --use latest --accept", target)
    commit_all(target)
    return target


def run(command: str, folder: Path) -> str:
    """Run a command with the interpreter of the tests; return the output."""
    home = folder.parent / HOME
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    git_names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    environment = {
        **os.environ, **dict.fromkeys(git_names, "g@x.org"),
        "HOME": str(home), "USER": "gwendolyn", "PATH": path, "PYTHONPATH": "",
    }  # fmt: skip
    process = subprocess.run(
        ["bash", "-c", command], cwd=folder, text=True, check=False, timeout=900,
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert process.returncode == 0, f"{command}\n{process.stdout}"
    return process.stdout


def adapted_commands(page: str) -> Iterator[str]:
    """Yield the commands of a page, with a value and a folder that exist in the copy."""
    for command in commands((ROOT / page).read_text("utf-8")):
        yield command.replace("share_kept", "best_rate").replace("/var/www/courses/perf", "../perf")


def run_or_replace(command: str, checkout: Path) -> str:
    """Run a command of a page, or run a faster command in its place; return the output.

    Commands that install packages or start Quarto are not run; their output is empty.
    """
    if command.startswith("make "):
        command = command.replace("make ", "make --dry-run ")
    elif re.match("source |quarto |python -m (pip|tests.render.site_checks) ", command):
        return ""  # the environment exists; tests/render/test_{render_quarto,site}.py
    elif re.search(_MEASURED, command) and "--dry-run" not in command:
        command = command.replace("-m experiments", "-m tests.stand_ins measure")
    elif _PARSED.search(f"{command} "):
        for program, reader in _PARSERS.items():
            command = command.replace(program, reader)
    # Parallel steps run in processes, which would spend two seconds of each build on imports.
    return run(command.replace("python build.py", "python build.py --jobs 1"), checkout)


def test_every_command_of_the_pages_works(checkout: Path) -> None:
    outputs: dict[str, str] = {}
    for page in PAGES:
        for command in adapted_commands(page):
            if command not in outputs:
                outputs[command] = run_or_replace(command, checkout)
    ((file, message),) = re.findall(r"^error: (\S+):\d+: (.*)$", TUTORIAL, re.MULTILINE)
    error = re.compile(rf"^error: {re.escape(file)}:\d+: {re.escape(message)}$", re.MULTILINE)
    assert any(error.search(output) for output in outputs.values()), "the tutorial's error"
    page = (checkout / "public" / OTHER / "index.html").read_text("utf-8")
    # A number, or a range if the processes fall into two groups.
    assert re.search(r"A call reaches\s+<[^>]+>\d[^<]*FLOP/s", page)
    assert (checkout / "out" / "pdf" / f"{EXAMPLE}.pdf").is_file()
    assert "wider-is-faster" in (checkout / f"data/expected/{EXAMPLE}.json").read_text("utf-8")
    assert (checkout.parent / "perf" / "index.html").exists()
    assert_no_name_is_published(checkout)
    (program,) = code_blocks(TUTORIAL, "python")
    output = run(f"python - <<'END'\n{program}END", checkout)
    assert re.search(r"^ *Width +Rate \(FLOP/s\)", output, re.MULTILINE)


def assert_no_name_is_published(checkout: Path) -> None:
    """Assert that record and site lack the names of the user, the folder and the computer."""
    (record,) = (checkout / "data" / EXAMPLE).glob("*my-laptop*.json")
    files = [path.read_bytes() for path in (checkout / "out" / "html" / EXAMPLE).glob("*.*s*")]
    assert any(b"my laptop" in content for content in files)
    names = ["gwendolyn", str(checkout)]
    host = socket.gethostname()
    if len(host) > len("localhost"):  # shorter names may be part of other words
        names.append(host)
    for name in names:
        assert not any(name.encode() in content for content in (record.read_bytes(), *files)), name


def test_guides_name_the_first_commands_and_all_measured_studies() -> None:
    assert commands()[:2] == ["make papers", "make test"]
    guide = (ROOT / "docs" / "adding-a-study.md").read_text("utf-8")
    assert all(command.replace("SLUG", EXAMPLE) in guide for command in NEXT_COMMANDS)
    measured = [study for study in STUDIES if any((ROOT / "data" / study).glob("*.json"))]
    assert all(f"`{study}`" in README for study in measured)
