"""ridgepoint itself as a participant: the real papers, built in a copy of the project."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.results import CORES, ROOT, Sample, Scenario
from benchmarks.timing import run_python

#: The rooms of ``out/`` that a reader takes something from.
_PRODUCTS: Final = ("html", "pdf", "tex", "values", "qmd")
EDITED_STUDY: Final = "conv_scaling"
EDITED_PAPER: Final = "conv_profiling"
EDITED_DRAWING: Final = "figures/bars.py"
_WRAPPED: Final = """

_draw_before_{turn} = draw


def draw(figure: Bars, axes: Axes) -> None:
    _draw_before_{turn}(figure, axes)
    axes.set_facecolor((1, 1, 0.9{turn}))
"""

#: Path below ``out`` → digest.
Products = Mapping[str, str]


def copy_project(target: Path) -> None:
    """Copy the files that git tracks, or would, into a new folder."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def products(out: Path) -> dict[str, str]:
    """The digests of all that a build made for a reader."""
    files = (path for room in _PRODUCTS for path in sorted((out / room).rglob("*")))
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(out).parts)
    }


class Project:
    """A copy of the project, built by one engine (``typst`` or ``latex``) for its PDFs."""

    def __init__(self, engine: str, folder: Path) -> None:
        """``folder`` does not exist yet; it is filled and built once."""
        self.engine, self._folder, self._out = engine, folder, folder / "out"
        copy_project(folder)
        self.build(self._out)
        self._before: Products = products(self._out)

    def change(self, scenario: Scenario, turn: int) -> None:
        """Make the change of ``scenario``, another one in every turn (0, 1, …)."""
        self._before = products(self._out)
        match scenario:
            case Scenario.COLD:
                shutil.rmtree(self._out)
            case Scenario.RECORD:
                change_record(self._folder)
            case Scenario.PROSE:
                change_word(self._folder, turn)
            case Scenario.DRAWING:
                drawing = self._folder / EDITED_DRAWING
                drawing.write_text(drawing.read_text("utf-8") + _WRAPPED.format(turn=turn), "utf-8")
            case Scenario.TOUCH:
                for room in ("data", "templates", "report", "figures"):
                    for path in (self._folder / room).rglob("*"):
                        os.utime(path)
            case Scenario.STYLE:
                # A remark: every PDF is compiled again, none may differ.
                style = self._folder / "templates" / "latex" / "ridgepoint.sty"
                style.write_text(style.read_text("utf-8") + f"% turn {turn}\n", "utf-8")

    def build(self, out: Path | None = None) -> Sample:
        """Build all papers; raises ``CommandError`` if that fails."""
        words = ("--pdf", "--html", "--engine", self.engine, "--jobs", f"{CORES}")
        return run_python(self._folder, "build.py", *words, "--out", str(out or self._out))[0]

    def faults(self, scenario: Scenario, last: bool) -> tuple[str, ...]:
        """What is wrong with the outputs; the last time they are compared with a cold build."""
        after = products(self._out)
        if scenario in (Scenario.COLD, Scenario.NOOP, Scenario.TOUCH):
            return differences(after, self._before, "before the build")
        new = {name for name, digest in after.items() if self._before.get(name) != digest}
        must = _MUST_CHANGE[scenario]
        stale = [place for place in must if not any(name.startswith(place) for name in new)]
        found = tuple(f"{place} is stale" for place in stale)
        if last:
            other = self._folder.with_name(f"{self._folder.name}-anew")
            shutil.rmtree(other, ignore_errors=True)
            self.build(other)
            found += differences(after, products(other), "in a build from nothing")
        return found


#: What of the papers has to be another file after each change.
_MUST_CHANGE: Final[Mapping[Scenario, tuple[str, ...]]] = {
    Scenario.RECORD: (f"html/{EDITED_STUDY}/figures/", f"values/{EDITED_STUDY}.json"),
    Scenario.PROSE: (f"html/{EDITED_PAPER}/index.html", f"pdf/{EDITED_PAPER}.pdf"),
    Scenario.DRAWING: ("html/",),
    Scenario.STYLE: (f"tex/{EDITED_STUDY}/ridgepoint.sty",),
}


def differences(found: Products, wanted: Products, when: str) -> tuple[str, ...]:
    """One sentence on the files that are other than ``when``, or none."""
    wrong = sorted(name for name, _ in found.items() ^ wanted.items())
    if not wrong:
        return ()
    return (f"{len(wrong)} files are other than {when}, such as {wrong[0]}",)


def change_record(folder: Path) -> None:
    """Move one sample: the smallest time of the largest forward case becomes the largest.

    The record gets the name of its new content, as if the machine had measured this: one that was
    edited is left out of every paper.
    """
    from report.records.choice import choose_records
    from report.records.store import digest, packed, read_attachments, read_study, text_of

    data = folder / "data"
    stored = choose_records(read_study(EDITED_STUDY, data))[0].primary
    path = data / stored.file
    content = json.loads(text_of(path.read_bytes(), path.name, ""))
    samples = _largest_forward(content)
    samples[samples.index(min(samples))] = 2 * max(samples)
    text = json.dumps(content, indent=1).encode()
    name = f"{path.stem.rpartition('-')[0]}-{digest(text)[:8]}{path.suffix}"
    path.with_name(name).write_bytes(packed(text, read_attachments(stored, ("*",), data)))
    path.unlink()


def _largest_forward(content: dict[str, Any]) -> list[int]:
    """The times of the first undisturbed process of the largest forward case."""
    forward = [case for case in content["cases"] if case["factors"].get("pass") == "forward"]
    case = max(forward, key=lambda case: case["factors"]["batch"])
    good = (r for r in case["rounds"] if "status" not in r and "disturbance" not in r)
    times: list[int] = next(good)["series"]["time"]
    return times


def change_word(folder: Path, turn: int) -> None:
    """Add a word to the first line of a paper's prose, below the front matter."""
    path = folder / "templates" / "papers" / f"{EDITED_PAPER}.qmd.j2"
    lines = path.read_text("utf-8").split("\n")
    start = lines.index("---", 1) + 1
    first = next(n for n in range(start, len(lines)) if lines[n][:1].isalpha())
    lines[first] = f"Turn{turn} {lines[first]}"
    path.write_text("\n".join(lines), "utf-8")
