"""Calls the pandoc that ``pypandoc_binary`` carries, with the project's filter."""

from __future__ import annotations

import functools
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from figures.characters import visible
from report.errors import RenderError
from report.render.command import run
from report.render.problems import filter_problem, naming, pandoc_refusal
from report.render.source import Source

#: The shells, styles and filters of all formats.
TEMPLATES: Final = Path(__file__).resolve().parents[2] / "templates"

#: Writers drift between versions, and with them the bytes of a paper.
PANDOC_VERSION: Final = "3.9"

#: How the templates are named where pandoc works, beside the files of the paper.
_OURS: Final = ".ridgepoint"
#: Numbered citations, for the formats in which pandoc writes the list of references.
CITATIONS: Final = ("--citeproc", f"--csl={_OURS}/numeric.csl", "--metadata=link-citations")

#: The document and its bibliography.
_TEXTS: Final = (".qmd", ".bib")
_TIME_LIMIT_S: Final = 60.0
_WARNING = re.compile(r"^\[WARNING\] (.*(?:\n  .*)*)", re.MULTILINE)


@functools.cache
def pandoc_path() -> Path:
    """The pandoc of the installed wheel; raises ``RenderError`` for another version than pinned."""
    try:
        import pypandoc
    except ImportError as error:
        raise RenderError(
            "pandoc: the package pypandoc_binary is not installed; run 'pip install -e .'."
        ) from error
    path = Path(pypandoc.__file__).parent / "files" / "pandoc"
    found = run([path, "--version"], path.parent, _TIME_LIMIT_S).stdout.split("\n")[0].split()[-1]
    if found != PANDOC_VERSION:
        raise RenderError(
            f"{path}: found pandoc {found} where {PANDOC_VERSION} is needed, since writers differ; "
            "install the pinned pypandoc_binary."
        )
    return path


def convert(
    source: Source,
    to: str,
    template: Path,
    options: tuple[str, ...] = (),
    variables: Mapping[str, Any] | None = None,
    printable: Callable[[str], str] = visible,
) -> str:
    """Convert a paper to ``html5``, ``latex`` or ``typst`` by a pandoc template.

    ``variables`` are set in the template as they are, so text in them has to be escaped.
    ``printable`` shows what the format cannot print, in the document and its bibliography.  Every
    warning of pandoc is an error here, and so is every reference, citation, figure or alternative
    text that is missing.  Raises ``RenderError``.
    """
    command = [
        str(pandoc_path()),
        # Files of a user's own, such as a list of abbreviations, would change what pandoc writes.
        f"--data-dir={_OURS}",
        "--from=markdown",
        f"--to={to}",
        "--wrap=preserve",
        "--fail-if-warnings",
        f"--template={_OURS}/{template.relative_to(TEMPLATES).as_posix()}",
        f"--lua-filter={_OURS}/ridgepoint.lua",
        *options,
        *(f"--variable-json={key}:{json.dumps(value)}" for key, value in (variables or {}).items()),
        source.document.name,
    ]
    with (
        _working_folder(source.folder, printable) as folder,
        naming(source.document, folder),
    ):
        finished = run(command, folder, _TIME_LIMIT_S)
    if finished.code != 0:
        raise _refusal(source.document, finished.stderr)
    return finished.stdout


@contextmanager
def _working_folder(source: Path, printable: Callable[[str], str]) -> Iterator[Path]:
    """A folder that holds the files of a paper and the templates, each under a name of ours.

    pandoc and Lua read some characters of a path as those of an address or of a pattern, so that
    they are given no name that is the user's.  What pandoc reads as text is made ``printable``.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        folder = Path(scratch)
        for path in source.resolve().iterdir():
            if path.suffix in _TEXTS:
                (folder / path.name).write_text(printable(path.read_text("utf-8")), "utf-8")
            else:
                _link(path, folder / path.name)
        _link(TEMPLATES, folder / _OURS)
        yield folder


def _link(path: Path, link: Path) -> None:
    """Make ``link`` lead to ``path``, or be a copy of it where the system has no such links."""
    try:
        link.symlink_to(path)
    except OSError:
        if path.is_dir():
            shutil.copytree(path, link)
        else:
            shutil.copyfile(path, link)


def plain_text(markdown: str) -> str:
    """The words of a piece of markdown without its markup, in one line; raises ``RenderError``."""
    options = ("--data-dir=.", "--from=markdown", "--to=plain", "--wrap=none")
    finished = run([pandoc_path(), *options], TEMPLATES, _TIME_LIMIT_S, stdin=markdown)
    if finished.code != 0:
        raise RenderError(f"pandoc: cannot read {markdown[:60]!r} ({finished.stderr.strip()}).")
    return " ".join(finished.stdout.split())


def _refusal(document: Path, said: str) -> RenderError:
    """One line for each problem; the filter's own messages come first, then pandoc's."""
    problems = [line for line in said.split("\n") if line.startswith("RIDGEPOINT\t")]
    if problems:
        parts = (line.split("\t", 2)[1:] for line in dict.fromkeys(problems))
        return RenderError("\n".join(filter_problem(document, *part) for part in parts))
    warnings = _WARNING.findall(said)
    return pandoc_refusal(document, warnings[0] if warnings else said)
