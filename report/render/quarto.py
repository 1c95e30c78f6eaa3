"""Papers for Quarto: settings of one paper, a project of all papers, and calls of Quarto."""

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
#: Files named in the settings of a paper; they are copied into a folder beside its document.
_FILES: Final = (
    "quarto/ridgepoint.lua", "quarto/ridgepoint.tex", "filter/tabular.lua", "numeric.csl"
)  # fmt: skip
_DECLARED_CHARACTER: Final = re.compile(r"^\\DeclareUnicodeCharacter.*\n", re.MULTILINE)
_PAPER_SETTINGS: Final = "_quarto.yml"
#: Oldest supported version, the first that treats all cross references alike.
_OLDEST: Final = (1, 4)
_REMEDY: Final = (
    "install Quarto 1.4 or newer from https://quarto.org, set QUARTO_PATH to its command, or run: "
    "python -m pip install -e '.[quarto]'"
)
_TIME_LIMIT_S: Final = 900.0
#: Text of the line at which LaTeX or Typst stopped.
_STOPPED: Final = re.compile(r"^l\.\d+ (.+)$|^ *\d+ │ (.+)$", re.MULTILINE)
#: Number of the line that Quarto names.
_LINE_NUMBER: Final = re.compile(r"\bline (\d+)")
#: Parts of Quarto's output that report an error or a warning.
_ERROR: Final = re.compile(
    r"\berror: (\S.*)|^compilation failed.*\n(.+)|^ERROR: (?!error: ) *(\S.*)", re.MULTILINE
)
_WARNING: Final = re.compile(r"^(?:WARNING|WARN|warning)\b:? *(.+)$", re.MULTILINE)
#: Path of a document: folder (optional) and name.
_DOCUMENT: Final = re.compile(r"([\w-]+/)?([\w-]+)\.qmd")


def write_settings(paper: PaperSource) -> None:
    """Write the files that Quarto needs to render the document of a paper in every format."""
    folder = paper.folder / "quarto"
    folder.mkdir(exist_ok=True)
    for name in _FILES:
        shutil.copyfile(TEMPLATES / name, folder / Path(name).name)
    style = (TEMPLATES / "latex" / "ridgepoint.sty").read_text("utf-8")
    with (folder / "ridgepoint.tex").open("a", encoding="utf-8") as preamble:
        preamble.writelines(_DECLARED_CHARACTER.findall(style))
    settings = _read("paper.yml")
    # Name the document: Quarto finds none in folders whose names begin with a full stop.
    settings["project"]["render"] = [paper.document.name]
    settings["format"]["html"]["toc"] = paper.has_toc(page=True)
    settings["format"]["pdf"] |= _read("styles.yml")[paper.style]
    if paper.one_column:
        settings["format"]["pdf"]["toc"] = paper.has_toc(page=False)
    _write(paper.folder / _PAPER_SETTINGS, settings)


def write_project(
    sources: Mapping[str, Path], target: Path, entries: Mapping[str, Mapping[str, str]]
) -> Path:
    """Write the Quarto project of all papers into ``target``; return the path of ``_quarto.yml``.

    ``sources`` maps studies to source folders, and ``entries`` maps studies to the ``title`` and
    the ``abstract`` of the paper.
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
        ignored = shutil.ignore_patterns("values.json", _PAPER_SETTINGS)
        shutil.copytree(folder, target / study, ignore=ignored, dirs_exist_ok=True)
        settings = yaml.safe_load((folder / _PAPER_SETTINGS).read_text("utf-8"))
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

    Raises ``RenderError`` if no command is found, or ``QUARTO_PATH`` is no program.
    """
    if requested := os.environ.get("QUARTO_PATH"):
        if program := shutil.which(requested):
            return Path(program)
        raise RenderError(f"QUARTO_PATH={requested}: is no program; {_REMEDY}.")
    package = find_spec("quarto_cli")
    folders = package.submodule_search_locations if package else None
    paths = [str(Path(folder, "bin")) for folder in folders or ()]
    program = shutil.which("quarto") or shutil.which("quarto", path=os.pathsep.join(paths))
    if program is None:
        raise RenderError(f"--engine quarto: no quarto command was found; {_REMEDY}.")
    return Path(program)


@functools.cache
def quarto_version() -> str:
    """Return the version of the ``quarto`` command; raises ``RenderError`` if it is too old."""
    path = find_quarto()
    printed = run([path, "--version"], path.parent, 60.0).stdout.strip()
    version = re.match(r"(\d+)\.(\d+)", printed)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        raise RenderError(f"{path}: found version {printed or 'none'!r}; {_REMEDY}.")
    return printed


def render_paper(paper: PaperSource, to: str) -> tuple[bytes, tuple[str, ...]]:
    """Return the PDF of one paper, by LaTeX (``to`` "pdf") or Typst, and Quarto's warnings.

    Renders a copy, since Quarto writes beside the document.  Raises ``RenderError``.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        folder = shutil.copytree(paper.folder, Path(scratch) / "paper")
        if to == "pdf":
            for path in (folder / paper.document.name, folder / BIBLIOGRAPHY):
                path.write_text(latex_source(path.read_text("utf-8")), "utf-8")
        warnings = _render(folder, paper.document.name, to)
        return (folder / f"{paper.study}.pdf").read_bytes(), warnings


def render_site(project: Path) -> tuple[str, ...]:
    """Write the website of a project to its folder ``_site``; return Quarto's warnings.

    Renders a copy, since Quarto writes into the project.  Raises ``RenderError``.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        folder = shutil.copytree(project, Path(scratch) / "project")
        warnings = _render(folder, ".", "html")
        shutil.copytree(folder / "_site", project / "_site")
        return warnings


def _render(folder: Path, source: str, to: str) -> tuple[str, ...]:
    """Let Quarto render a document in ``folder``, or "." for all; return Quarto's warnings."""
    command = (find_quarto(), "render", source, "--to", to)
    finished = run(command, folder, _TIME_LIMIT_S, place="out/quarto")
    output = finished.stderr + finished.stdout
    if finished.returncode == 0:
        place = "site" if source == "." else name_of(folder / source)
        warnings = dict.fromkeys(_WARNING.findall(output))
        return tuple(f"{place}: Quarto warns: {warning}" for warning in warnings)
    name = source
    if source == ".":  # Of all documents, Quarto names the failed one last.
        names = ["".join(parts) for parts in _DOCUMENT.findall(output)]
        name = f"{names[-1]}.qmd" if names else "index.qmd"
    raise _quarto_error(folder / name, finished.returncode, output)


def _quarto_error(document: Path, code: int, output: str) -> RenderError:
    """Describe Quarto's first error, with the place in the template."""
    stopped, line = _STOPPED.search(output), _LINE_NUMBER.search(output)
    place = name_of(document)
    if stopped:
        place = place_like(document, [stopped[1] or stopped[2]])
    elif line:
        place = place_of_line(document, int(line[1]))
    if error := _ERROR.search(output):
        return refusal(place, "Quarto", error[error.lastindex or 0])
    if code < 0 or code > 128:
        return refusal(place, "Quarto", "it was killed, probably for lack of memory")
    return refusal(place, "Quarto", output.strip().rpartition("\n")[2] or "no reason given")
