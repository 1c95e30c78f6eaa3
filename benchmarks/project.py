"""ridgepoint itself as a participant: the five real papers, built in a copy of the project."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.install import cores
from benchmarks.results import Sample, Tool
from benchmarks.scenarios import Scenario
from benchmarks.timing import Command, plain_environment, run

ROOT: Final = Path(__file__).resolve().parent.parent
#: The rooms of ``out/`` that a reader takes something from.
_PRODUCTS: Final = ("html", "pdf", "tex", "values", "qmd")
EDITED_STUDY: Final = "conv_scaling"
EDITED_PAPER: Final = "conv_profiling"
EDITED_DRAWING: Final = "figures/drawing/bars.py"
#: Article and what stands in its place after each turn; no two follow each other in the prose.
_ARTICLES: Final = ("the", "that very", "this one", "just this", "one such", "our own", "such a")

_WRAPPED: Final = """

_plain_draw = draw


def draw(figure: Bars, axes: Axes) -> None:
    _plain_draw(figure, axes)
    axes.set_facecolor((1, 1, 0.9))
"""
_FACE: Final = re.compile(r"(axes\.set_facecolor\(\(1, 1, 0\.9)\d*")

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


def build_command(folder: Path, *arguments: str) -> Command:
    """``python build.py`` in a copy of the project, with this interpreter."""
    command = (sys.executable, "build.py", *arguments)
    return Command(command, folder, plain_environment())


class Project:
    """See ``benchmarks.subject.Subject``; one for each engine that makes the PDFs."""

    def __init__(self, engine: str, folder: Path) -> None:
        """``engine`` is ``typst`` or ``latex``; ``folder`` does not exist yet."""
        self._engine, self._folder = engine, folder
        self._before: Products = {}
        #: Figures of the edited study whose bytes the last changed record changed.
        self.redrawn: tuple[str, ...] = ()
        title = {"typst": "Typst", "latex": "LaTeX"}[engine]
        self.tool: Final = Tool(
            name=f"ridgepoint_{engine}",
            title=f"ridgepoint ({title})",
            makes=f"HTML and PDF ({title}), LaTeX source, values",
            caching="its manifest in `out`",
            missing=None,
        )

    @property
    def scenarios(self) -> frozenset[Scenario]:
        """All; the LaTeX style only matters where LaTeX runs."""
        every = frozenset(Scenario)
        return every if self._engine == "latex" else every - {Scenario.STYLE}

    def prepare(self) -> dict[str, str]:
        """See ``Subject``."""
        copy_project(self._folder)
        self.measure(Scenario.COLD)
        self._before = products(self._out)
        return package_versions(("matplotlib", "pandas", "pypandoc_binary", "typst", "msgspec"))

    def change(self, scenario: Scenario, turn: int) -> None:
        """See ``Subject``."""
        self._before = products(self._out)
        changes: dict[Scenario, Callable[[], None]] = {
            Scenario.COLD: lambda: shutil.rmtree(self._out, ignore_errors=True),
            Scenario.RECORD: lambda: change_record(self._folder),
            Scenario.PROSE: lambda: change_article(self._folder, turn),
            Scenario.DRAWING: lambda: change_bars(self._folder, turn),
            Scenario.TOUCH: lambda: touch(self._folder),
            Scenario.STYLE: lambda: change_style(self._folder, turn),
        }
        changes.get(scenario, lambda: None)()

    def measure(self, scenario: Scenario) -> Sample:
        """See ``Subject``."""
        return run(self._command(self._out))[0]

    def faults(self, scenario: Scenario, last: bool) -> tuple[str, ...]:
        """See ``Subject``; the last time the outputs are compared with a build from nothing."""
        after = products(self._out)
        if scenario in (Scenario.COLD, Scenario.NOOP, Scenario.TOUCH):
            return differences(after, self._before, "before the build")
        found = list(_unchanged(self._before, after, _MUST_CHANGE[scenario]))
        if scenario is Scenario.RECORD:
            self.redrawn = redrawn(self._before, after)
        if last:
            found += differences(after, self._built_from_nothing(), "in a build from nothing")
        return tuple(found)

    def _built_from_nothing(self) -> Products:
        other = self._folder.with_name(f"{self._folder.name}-anew")
        shutil.rmtree(other, ignore_errors=True)
        run(self._command(other))
        return products(other)

    @property
    def _out(self) -> Path:
        return self._folder / "out"

    def _command(self, out: Path) -> Command:
        formats = ("--pdf", "--html", "--engine", self._engine, "--jobs", f"{cores()}")
        return build_command(self._folder, *formats, "--out", str(out))


#: What of the papers has to be another file after each change.
_MUST_CHANGE: Final[Mapping[Scenario, tuple[str, ...]]] = {
    Scenario.RECORD: (
        f"html/{EDITED_STUDY}/index.html",
        f"pdf/{EDITED_STUDY}.pdf",
        f"values/{EDITED_STUDY}.json",
        f"html/{EDITED_STUDY}/figures/",
    ),
    Scenario.PROSE: (f"html/{EDITED_PAPER}/index.html", f"pdf/{EDITED_PAPER}.pdf"),
    Scenario.DRAWING: ("html/",),
    Scenario.STYLE: (f"tex/{EDITED_STUDY}/ridgepoint.sty",),
}


def differences(found: Products, wanted: Products, when: str) -> tuple[str, ...]:
    """One sentence on the files that are other than ``when``, or none."""
    wrong = sorted(name for name in found.keys() | wanted.keys()
                   if found.get(name) != wanted.get(name))  # fmt: skip
    if not wrong:
        return ()
    return (f"{len(wrong)} files are other than {when}, such as {wrong[0]}",)


def redrawn(before: Products, after: Products) -> tuple[str, ...]:
    """The names of the edited study's figures whose bytes changed."""
    folder = f"html/{EDITED_STUDY}/figures/"
    names = (name for name in after if name.startswith(folder) and after[name] != before.get(name))
    return tuple(sorted(Path(name).stem for name in names))


def _unchanged(before: Products, after: Products, wanted: Sequence[str]) -> Iterator[str]:
    """A sentence for each output, or folder (with a slash), in which nothing changed."""
    for place in wanted:
        names = [name for name in after if name == place or name.startswith(place)]
        if all(before.get(name) == after[name] for name in names):
            yield f"{place} is stale"


def package_versions(names: Sequence[str]) -> dict[str, str]:
    """The versions of installed packages."""
    from importlib.metadata import version

    return {name: version(name) for name in names}


def change_record(folder: Path) -> None:
    """Move one sample: the smallest time of the largest forward case becomes the largest.

    The record and the folder beside it get the name of their new content, as if the machine had
    measured this: one that was edited is left out of every paper.
    """
    from report.records.filed import content_hash
    from report.records.store import read_anywhere

    path = used_record(folder)
    content = json.loads(path.read_text("utf-8"))
    samples = _largest_forward(content)["samples"]
    samples[samples.index(min(samples))] = 1.01 * max(samples)
    path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    changed = content_hash(read_anywhere(path, folder / "data").record)
    name = f"{path.stem.rpartition('-')[0]}-{changed}"
    if path.with_suffix("").is_dir():
        path.with_suffix("").rename(path.with_name(name))
    path.rename(path.with_name(f"{name}.json"))


def used_record(folder: Path) -> Path:
    """The newest record of the edited study that its paper uses."""
    from report.records.choice import choose_records
    from report.records.store import read_study

    data = folder / "data"
    return data / choose_records(read_study(EDITED_STUDY, data))[0].primary.file


def _largest_forward(content: dict[str, Any]) -> dict[str, Any]:
    """The times of one process of the largest forward case; of older records, those of the case."""
    timed = [
        (case["factors"]["batch"], series)
        for case in content["cases"]
        if case["factors"].get("pass") == "forward"
        for part in (case, *_undisturbed(case))
        for series in part["series"]
        if series["quantity"] == "time"
    ]
    _, largest = max(timed, key=lambda each: each[0])
    return largest


def _undisturbed(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The processes of a case that went well."""
    found = case.get("rounds", [])
    return [each for each in found if each["status"] == "ok" and not each.get("disturbance")]


def change_article(folder: Path, turn: int) -> None:
    """Change a word in the first paragraph of a paper's prose in which an article stands."""
    path = folder / "templates" / "papers" / f"{EDITED_PAPER}.qmd.j2"
    path.write_text(changed_prose(path.read_text("utf-8"), turn), "utf-8")


def changed_prose(text: str, turn: int) -> str:
    """``text`` with the article of ``turn`` replaced by the next, below the front matter.

    Raises ``ValueError`` where no such paragraph is found.
    """
    old, new = f" {_ARTICLES[turn]} ", f" {_ARTICLES[turn + 1]} "
    lines = text.split("\n")
    start = lines.index("---", 1) + 1
    for index in range(start, len(lines)):
        if lines[index][:1].isalpha() and old in lines[index]:
            lines[index] = lines[index].replace(old, new, 1)
            return "\n".join(lines)
    raise ValueError(f"no line of prose holds{old}below the front matter")


def change_bars(folder: Path, turn: int) -> None:
    """Give figures with bars another background, by code in the module that draws them."""
    path = folder / EDITED_DRAWING
    text = path.read_text("utf-8")
    whole = text if _FACE.search(text) else text + _WRAPPED
    path.write_text(_FACE.sub(rf"\g<1>{turn + 1}", whole), "utf-8")


def change_style(folder: Path, turn: int) -> None:
    """A remark in the style of all LaTeX sources: every PDF is compiled again, none may differ."""
    path = folder / "templates" / "latex" / "ridgepoint.sty"
    path.write_text(path.read_text("utf-8") + f"% turn {turn}\n", "utf-8")


def touch(folder: Path) -> None:
    """Give all inputs a new time: data, templates and code."""
    for room in ("data", "templates", "report", "figures"):
        for path in (folder / room).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                os.utime(path)
