"""Papers for Quarto: settings of one paper, a project of all, and rendering of both."""

import functools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import yaml

from report.core.errors import RenderError
from report.core.system.programs import run
from report.core.text.escape import latex_source
from report.render.pandoc import TEMPLATES
from report.render.problems import BIBLIOGRAPHY, name_of, place_like, place_of_line, refusal
from report.render.shell import Settings
from report.render.source import PaperSource

_TEMPLATES: Final = TEMPLATES / "quarto"
#: Files that the settings of a paper refer to, copied into a folder beside its document.
_FILES: Final = (
    *("quarto/ridgepoint.lua", "quarto/ridgepoint.tex", "filter/tabular.lua", "numeric.csl"),
)
_DECLARED: Final = re.compile(r"^\\DeclareUnicodeCharacter.*\n", re.MULTILINE)
_PAPER: Final = "_quarto.yml"
#: The first version with one model for all cross references.
_OLDEST: Final = (1, 4)
_HOW: Final = (
    "install Quarto 1.4 or newer from https://quarto.org or by 'pip install .[quarto]', or set "
    "QUARTO_PATH to its command"
)
_TIME_LIMIT_S: Final = 900.0
#: The line at which LaTeX or Typst stopped, or that Quarto names; their error messages.
_STOPPED: Final = re.compile(r"^l\.\d+ (.+)$|^ *\d+ │ (.+)$", re.MULTILINE)
_NUMBER: Final = re.compile(r"\bline (\d+)")
_ERROR: Final = re.compile(
    r"\berror: (\S.*)|^compilation failed.*\n(.+)|^ERROR: (?!error: ) *(\S.*)", re.MULTILINE
)
_WARNING: Final = re.compile(r"^(?:WARNING|WARN|warning)\b:? *(.+)$", re.MULTILINE)
_DOCUMENT: Final = re.compile(r"([\w-]+/)?([\w-]+)\.qmd")


def write_settings(paper: PaperSource) -> None:
    """Write the files with which Quarto can render the document alone, in every format."""
    folder = paper.folder / "quarto"
    folder.mkdir(exist_ok=True)
    for name in _FILES:
        shutil.copyfile(TEMPLATES / name, folder / Path(name).name)
    style = (TEMPLATES / "latex" / "ridgepoint.sty").read_text("utf-8")
    with (folder / "ridgepoint.tex").open("a", encoding="utf-8") as preamble:
        preamble.writelines(_DECLARED.findall(style))
    settings = _read("paper.yml")
    # Quarto does not search for documents in folders whose names begin with a full stop.
    settings["project"]["render"] = [paper.document.name]
    settings["format"]["html"]["toc"] = paper.has_toc(page=True)
    settings["format"]["pdf"] |= _read("styles.yml")[paper.style]
    if paper.one_column:
        settings["format"]["pdf"]["toc"] = paper.has_toc(page=False)
    _write(paper.folder / _PAPER, settings)


def write_project(
    sources: Mapping[str, Path], target: Path, entries: Mapping[str, Mapping[str, str]]
) -> Path:
    """Write the Quarto project of the papers ``study -> source folder`` into ``target``.

    ``entries`` have the ``title`` and the ``abstract`` of each paper.  Returns the path of the
    project's ``_quarto.yml``; raises ``RenderError``.
    """
    project = _read("_quarto.yml")
    pages = {f"{study}/{study}.qmd": entry for study, entry in entries.items()}
    project["project"]["render"] += pages
    project["website"]["title"] = Settings().title
    project["website"]["sidebar"]["contents"] = [
        {"href": page, "text": entry["title"]} for page, entry in pages.items()
    ]
    project["format"] = {"html": _read("paper.yml")["format"]["html"]}
    for study, folder in sources.items():
        ignored = shutil.ignore_patterns("values.json", _PAPER)
        shutil.copytree(folder, target / study, ignore=ignored, dirs_exist_ok=True)
        settings = yaml.safe_load((folder / _PAPER).read_text("utf-8"))
        del settings["project"]
        _write(target / study / "_metadata.yml", settings)
    index = f"---\ntitle: {json.dumps(Settings().title)}\n---\n\n{Settings().lead}\n\n"
    for page, entry in pages.items():
        index += f"## [{entry['title']}]({page})\n\n{entry['abstract']}\n\n"
    (target / "index.qmd").write_text(index, "utf-8", newline="\n")
    return _write(target / "_quarto.yml", project)


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((_TEMPLATES / name).read_text("utf-8"))
    return content


def _write(path: Path, content: Mapping[str, Any]) -> Path:
    text = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True, width=1000)
    path.write_text(text, "utf-8", newline="\n")
    return path


def find_quarto() -> Path:
    """Find the ``quarto`` command: ``QUARTO_PATH``, on the PATH, or in the package quarto-cli.

    Raises ``RenderError`` if there is none.
    """
    if named := os.environ.get("QUARTO_PATH"):
        if program := shutil.which(named):
            return Path(program)
        raise RenderError(f"QUARTO_PATH={named}: is no program; {_HOW}.")
    package = find_spec("quarto_cli")
    folders = package.submodule_search_locations if package else None
    paths = [str(Path(folder, "bin")) for folder in folders or ()]
    program = shutil.which("quarto") or shutil.which("quarto", path=os.pathsep.join(paths))
    if program is None:
        raise RenderError(f"--engine quarto: no quarto command was found; {_HOW}.")
    return Path(program)


@functools.cache
def quarto_version() -> str:
    """Return the version of the ``quarto`` command; raises ``RenderError`` if it is too old."""
    path = find_quarto()
    printed = run([path, "--version"], path.parent, 60.0).stdout.strip()
    version = re.match(r"(\d+)\.(\d+)", printed)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        raise RenderError(f"{path}: found version {printed or 'none'!r}; {_HOW}.")
    return printed


def render_paper(paper: PaperSource, to: str) -> tuple[bytes, tuple[str, ...]]:
    """Make the PDF of one paper by LaTeX (``to`` "pdf") or Typst; return it with warnings.

    Works on a copy, since Quarto writes beside the document.  Raises ``RenderError``.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        folder = shutil.copytree(paper.folder, Path(scratch) / "paper")
        if to == "pdf":
            for path in (folder / paper.document.name, folder / BIBLIOGRAPHY):
                path.write_text(latex_source(path.read_text("utf-8")), "utf-8")
        warnings = _render(folder, paper.document.name, to)
        return (folder / f"{paper.study}.pdf").read_bytes(), warnings


def render_site(project: Path, target: Path) -> tuple[str, ...]:
    """Make the website of a project that ``write_project`` wrote; return Quarto's warnings.

    Works on a copy, since Quarto writes into the project.  Raises ``RenderError``.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        folder = shutil.copytree(project, Path(scratch) / "project")
        warnings = _render(folder, ".", "html")
        shutil.copytree(folder / "_site", target)
        return warnings


def _render(folder: Path, what: str, to: str) -> tuple[str, ...]:
    """Let Quarto render ``what`` in ``folder``, a document or "."; return its warnings."""
    command = (find_quarto(), "render", what, "--to", to)
    finished = run(command, folder, _TIME_LIMIT_S, place="out/quarto")
    words = finished.stderr + finished.stdout
    if finished.returncode == 0:
        shown = "site" if what == "." else name_of(folder / what)
        warnings = dict.fromkeys(_WARNING.findall(words))
        return tuple(f"{shown}: Quarto warns: {warning}" for warning in warnings)
    # In a project, the document named last is the one that failed.
    names = ["".join(name) for name in _DOCUMENT.findall(words)]
    name = what if to != "html" else f"{names[-1]}.qmd" if names else "index.qmd"
    raise _refusal(folder / name, finished.returncode, words)


def _refusal(document: Path, code: int, words: str) -> RenderError:
    """Describe Quarto's first error, with its place in the template."""
    stopped, number = _STOPPED.search(words), _NUMBER.search(words)
    place = name_of(document)
    if stopped:
        place = place_like(document, [stopped[1] or stopped[2]])
    elif number:
        place = place_of_line(document, int(number[1]))
    if error := _ERROR.search(words):
        return refusal(place, "Quarto", error[error.lastindex or 0])
    if code < 0 or code > 128:
        return refusal(place, "Quarto", "it was killed, probably for lack of memory")
    return refusal(place, "Quarto", words.strip().rpartition("\n")[2] or "no reason given")
