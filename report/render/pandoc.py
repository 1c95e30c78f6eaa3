"""Calls the pandoc that ``pypandoc_binary`` carries, with the project's filter."""

from __future__ import annotations

import functools
import json
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from figures.characters import visible
from report.errors import RenderError
from report.render.command import Finished, run
from report.render.source import Source, line_of

#: The shells, styles and filters of all formats.
TEMPLATES: Final = Path(__file__).resolve().parents[2] / "templates"

#: Writers drift between versions, and with them the bytes of a paper.
PANDOC_VERSION: Final = "3.9"

#: Files of a user's own, such as a list of abbreviations, would change what pandoc writes.
_NOT_THE_USERS: Final = f"--data-dir={TEMPLATES}"

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
        _NOT_THE_USERS,
        "--from=markdown",
        f"--to={to}",
        "--wrap=preserve",
        "--fail-if-warnings",
        f"--template={template}",
        f"--lua-filter={TEMPLATES / 'ridgepoint.lua'}",
        *options,
        *(f"--variable-json={key}:{json.dumps(value)}" for key, value in (variables or {}).items()),
    ]
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        command += _bibliography(source, printable, Path(scratch))
        text = printable(source.document.read_text("utf-8"))
        finished = run(command, source.folder, _TIME_LIMIT_S, stdin=text)
    if finished.code != 0:
        raise RenderError(_explain(source, finished))
    return finished.stdout


def _bibliography(source: Source, printable: Callable[[str], str], folder: Path) -> list[str]:
    """Options that put a printable copy in the place of a bibliography that is not."""
    named = source.front["bibliography"]
    files = [source.folder / name for name in ([named] if isinstance(named, str) else named)]
    texts = [file.read_text("utf-8") if file.is_file() else "" for file in files]
    if all(printable(text) == text for text in texts):
        return []
    copies = [folder / f"{number}-{file.name}" for number, file in enumerate(files)]
    for copy, text in zip(copies, texts, strict=True):
        copy.write_text(printable(text), "utf-8")
    return [f"--bibliography={copy}" for copy in copies]


def plain_text(markdown: str) -> str:
    """The words of a piece of markdown without its markup, in one line; raises ``RenderError``."""
    options = ("--from=markdown", "--to=plain", "--wrap=none")
    command = [str(pandoc_path()), _NOT_THE_USERS, *options]
    finished = run(command, Path(tempfile.gettempdir()), _TIME_LIMIT_S, stdin=markdown)
    if finished.code != 0:
        raise RenderError(f"pandoc: cannot read {markdown[:60]!r} ({finished.stderr.strip()}).")
    return " ".join(finished.stdout.split())


def _explain(source: Source, finished: Finished) -> str:
    """One line for each problem; the filter's own messages come first, then pandoc's."""
    problems = [line for line in finished.stderr.split("\n") if line.startswith("RIDGEPOINT\t")]
    if problems:
        return "\n".join(_problem(source, line) for line in dict.fromkeys(problems))
    warnings = _WARNING.findall(finished.stderr)
    text = warnings[0] if warnings else finished.stderr
    return f"{source.document}: pandoc refused it ({' '.join(text.split())}); mend that place."


def _problem(source: Source, line: str) -> str:
    _, needle, message = line.split("\t", 2)
    number = line_of(source.document, needle)
    place = f"{source.document}:{number}" if number else f"{source.document}"
    return f"{place}: {message}."
