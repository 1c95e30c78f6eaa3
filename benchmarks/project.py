"""ridgepoint itself as a participant: the real papers, built in a copy of the project."""

from __future__ import annotations

import json
import shutil
import subprocess
from enum import StrEnum
from pathlib import Path
from typing import Final

from benchmarks.commands import ROOT, Sample, run_python

EDITED_STUDY: Final = "conv_scaling"
EDITED_PAPER: Final = "conv_profiling"
#: Another background of bars.
_WRAPPED: Final = """

_draw_before_{turn} = draw


def draw(panel: Bars, axes: Axes) -> Drawn:
    axes.set_facecolor((1, 1, 0.9{turn}))
    return _draw_before_{turn}(panel, axes)
"""


class Scenario(StrEnum):
    """What was changed since the last build, in the words of the tables."""

    COLD = "cold"
    NOOP = "nothing changed"
    RECORD = "one value of data changed"
    PROSE = "one word changed"
    DRAWING = "one drawing function changed"


def copy_project(target: Path) -> None:
    """Copy what is committed into a new folder."""
    subprocess.run(("git", "clone", "-q", str(ROOT), str(target)), check=True)


class Project:
    """A copy of the project, built by one engine (``typst`` or ``latex``) for its PDFs."""

    def __init__(self, engine: str, folder: Path) -> None:
        """``folder`` does not exist yet; it is filled and built once."""
        self.engine, self._folder = engine, folder
        copy_project(folder)
        self.build()

    def change(self, scenario: Scenario, turn: int) -> None:
        """Make the change of ``scenario``, another one in every turn (0, 1, …)."""
        match scenario:
            case Scenario.COLD:
                shutil.rmtree(self._folder / "out")
            case Scenario.RECORD:
                change_record(self._folder)
            case Scenario.PROSE:
                change_word(self._folder, turn)
            case Scenario.DRAWING:
                with (self._folder / "figures" / "bars.py").open("a", encoding="utf-8") as stream:
                    stream.write(_WRAPPED.format(turn=turn))

    def build(self) -> Sample:
        """Build all papers; raises ``RuntimeError`` if that fails."""
        return run_python(self._folder, "build.py", "--pdf", "--html", "--engine", self.engine)[0]


def change_record(folder: Path) -> None:
    """Move a sample: the smallest time of the largest forward case becomes the largest.

    It is in the first record that the paper uses, which gets the name of its new content, as if the
    machine had measured this: one that was edited is left out of every paper.
    """
    from report.engine.gather import choose
    from report.records.store import digest, packed, read_attachments, text_of

    data = folder / "data"
    stored = choose(EDITED_STUDY, data).inputs.records[0]
    path = data / stored.file
    content = json.loads(text_of(path.read_bytes(), path.name))
    forward = [case for case in content["cases"] if case["factors"].get("pass") == "forward"]
    case = max(forward, key=lambda case: case["factors"]["batch"])
    good = (r for r in case["rounds"] if "status" not in r and "disturbance" not in r)
    samples = next(good)["series"]["time"]
    samples[samples.index(min(samples))] = 2 * max(samples)
    text = json.dumps(content, indent=1).encode()
    name = f"{path.stem.rpartition('-')[0]}-{digest(text)[:8]}{path.suffix}"
    path.with_name(name).write_bytes(packed(text, read_attachments(stored, ("*",), data)))
    path.unlink()


def change_word(folder: Path, turn: int) -> None:
    """Add a word to the first line of a paper's prose, below the front matter."""
    path = folder / "templates" / "papers" / f"{EDITED_PAPER}.qmd.j2"
    lines = path.read_text("utf-8").split("\n")
    start = lines.index("---", 1) + 1
    first = next(n for n in range(start, len(lines)) if lines[n][:1].isalpha())
    lines[first] = f"Turn{turn} {lines[first]}"
    path.write_text("\n".join(lines), "utf-8")
