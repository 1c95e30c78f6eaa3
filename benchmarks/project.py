"""Build the real papers in a copy of the project, and time every command once."""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from experiments.machine.processor import cpu
from experiments.machine.text import program_output

ROOT: Final = Path(__file__).resolve().parent.parent
#: Study whose record is changed.
EDITED_STUDY: Final = "conv_scaling"
#: Paper in which a word is changed.
EDITED_PAPER: Final = "conv_profiling"
#: Code to append to figures/bars.py; it changes the background of bars, to another in each turn.
_DRAW_WRAPPER: Final = """

_draw_before_{turn} = draw


def draw(panel: Bars, axes: Axes) -> DrawnSeries:
    axes.set_facecolor((1, 1, 0.9{turn}))
    return _draw_before_{turn}(panel, axes)
"""


class Sample(NamedTuple):
    """Time of a command, and peak memory of its largest process (0: not measured)."""

    wall_s: float
    peak_bytes: int = 0


def environment() -> str:
    """Describe the machine, the version of the code, the date and the load, for README.md."""
    processor = cpu()
    version = program_output("git", "describe", "--always", "--dirty", folder=ROOT)
    return (
        f"{processor.model}, {processor.cores_available} cores, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}; commit "
        f"{version or 'unknown'}; {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}, load average "
        f"{os.getloadavg()[0]:.2f}"
    )


def run_python(folder: Path, *arguments: str) -> tuple[Sample, str]:
    """Run Python in ``folder`` and wait for the end; return the sample and the output.

    Raises ``RuntimeError`` with the output for an exit code other than 0.
    """
    variables = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with tempfile.TemporaryFile() as log:
        start = time.perf_counter()
        process = subprocess.Popen(
            (sys.executable, *arguments),
            cwd=folder,
            env={**variables, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        output = log.read().decode("utf-8", "replace")
    if process.returncode != 0:
        words = " ".join(arguments)
        raise RuntimeError(f"{words}: exit code {process.returncode} in {folder}\n{output}")
    return Sample(wall_s, usage.ru_maxrss * 1024), output  # Linux counts KiB


class Scenario(StrEnum):
    """Change since the last build; the values are headings of tables."""

    COLD = "cold"
    NOOP = "nothing changed"
    RECORD = "one value of data changed"
    PROSE = "one word changed"
    DRAWING = "one drawing function changed"


def copy_project(target: Path) -> None:
    """Clone the committed project into a new folder."""
    subprocess.run(("git", "clone", "-q", str(ROOT), str(target)), check=True)


class Project:
    """A copy of the project; ``engine`` (``Typst`` or ``LaTeX``) builds its PDFs."""

    def __init__(self, engine: str, folder: Path) -> None:
        """Create ``folder``, copy the project into it, and build once."""
        self.engine, self._folder = engine, folder
        copy_project(folder)
        self.build()

    def change(self, scenario: Scenario, turn: int) -> None:
        """Make the change of ``scenario``; the change differs for every ``turn`` (0, 1, …)."""
        match scenario:
            case Scenario.COLD:
                shutil.rmtree(self._folder / "out")
            case Scenario.RECORD:
                change_record(self._folder)
            case Scenario.PROSE:
                change_word(self._folder, turn)
            case Scenario.DRAWING:
                with (self._folder / "figures" / "bars.py").open("a", encoding="utf-8") as stream:
                    stream.write(_DRAW_WRAPPER.format(turn=turn))

    def build(self) -> Sample:
        """Build all papers; raise ``RuntimeError`` if the build fails."""
        options = ("--pdf", "--html", "--engine", self.engine.lower())
        sample, _ = run_python(self._folder, "build.py", *options)
        return sample


def change_record(folder: Path) -> None:
    """Double the first time in the first record that the paper of ``EDITED_STUDY`` uses.

    The file is renamed after the new content, since papers leave out records whose name does not
    match; ``editions.yaml``, which lists the records of papers, then names the new file.
    """
    from report.core.records.store import attachments_folder, digest
    from report.evaluation.gather import choose_records

    data = folder / "data"
    stored = choose_records(EDITED_STUDY, data).inputs.records[0]
    path = data / stored.file
    content = json.loads(path.read_bytes())
    rounds = next(case["rounds"] for case in content["cases"] if case.get("rounds"))
    rounds[0]["series"]["time"][0] *= 2
    text = json.dumps(content, indent=1).encode()
    name = f"{path.stem.rpartition('-')[0]}-{digest(text)[:8]}{path.suffix}"
    new_path, attachments = path.with_name(name), attachments_folder(path)
    new_path.write_bytes(text)
    if attachments.exists():
        attachments.rename(attachments_folder(new_path))
    path.unlink()
    editions = data / "editions.yaml"
    editions.write_text(editions.read_text("utf-8").replace(path.name, name), "utf-8")


def change_word(folder: Path, turn: int) -> None:
    """Add a word to the first line of a paper's prose, below the front matter."""
    path = folder / "templates" / "papers" / f"{EDITED_PAPER}.qmd.j2"
    lines = path.read_text("utf-8").split("\n")
    start = lines.index("---", 1) + 1
    first_prose_line = next(n for n in range(start, len(lines)) if lines[n][:1].isalpha())
    word = "Turn" + "abcdefg"[turn]  # prose may contain no typed digit
    lines[first_prose_line] = f"{word} {lines[first_prose_line]}"
    path.write_text("\n".join(lines), "utf-8")
