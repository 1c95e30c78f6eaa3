"""Calls the pandoc that ``pypandoc_binary`` carries, once for all formats of a paper."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from figures.characters import visible, visible_in
from report.core.errors import RenderError
from report.core.system.programs import pandoc_path, run
from report.paper.bibliography import cited_entries
from report.render.problems import filter_problem, name_of, pandoc_refusal
from report.render.source import Source

#: What pandoc calls the formats of a paper; in that of Typst, pandoc writes the citations.
Writer: TypeAlias = Literal["html", "latex", "typst-citations", "docx"]

#: The shells, styles and filters of all formats.
TEMPLATES: Final = Path(__file__).resolve().parents[2] / "templates"

#: How the templates are named where pandoc works, beside the files of the paper.
_OURS: Final = ".ridgepoint"

#: The document and its bibliography.
_TEXTS: Final = (".qmd", ".bib")
_TAB: Final = 4
_TIME_LIMIT_S: Final = 60.0
_WARNING = re.compile(r"^\[WARNING\] (.*(?:\n  .*)*)", re.MULTILINE)


@dataclass(frozen=True)
class Edition:
    """One format of a paper: the pandoc template it is written by, if any, and with which options.

    ``options`` are those of pandoc's writer (https://pandoc.org/lua-filters.html#type-writeroptions)
    and ``variables`` are set in the template as they are, so that text in them has to be escaped.
    ``cites`` says that pandoc writes the list of references.  ``printable`` shows what the format
    cannot print, in the document and its bibliography.
    """

    to: Writer
    template: Path | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    variables: Mapping[str, object] = field(default_factory=dict)
    cites: bool = True
    printable: Callable[[str], str] = visible


def convert(
    source: Source,
    editions: Sequence[Edition],
    plain: Sequence[str] = (),
    drawn_elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[Writer, str], list[str]]:
    """The text of a paper in all ``editions``, and the pieces of markdown ``plain`` as plain words.

    ``drawn_elsewhere`` are files that stand in for the figures, by their places.

    One process does all: what it has parsed for one edition serves the others whose text is the
    same.  Every warning of pandoc is an error here, and so is every reference, citation, figure or
    alternative text that is missing.  Raises ``RenderError``.
    """
    job = {"editions": [_job(edition) for edition in editions], "plain": plain}
    with _working_folder(source, editions) as folder:
        for name, text in drawn_elsewhere.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, "utf-8")
        finished = run(
            [pandoc_path(), "lua", f"{_OURS}/ridgepoint.lua"],
            folder,
            _TIME_LIMIT_S,
            place=name_of(source.document),
            stdin=json.dumps(visible_in(job)),
        )
    if finished.returncode != 0 or _WARNING.search(finished.stderr):
        raise _refusal(source.document, finished.stderr)
    made = json.loads(finished.stdout)
    texts = {each.to: text for each, text in zip(editions, made["editions"], strict=True)}
    return texts, [" ".join(words.split()) for words in made["plain"]]


def _job(edition: Edition) -> dict[str, Any]:
    """An edition as the program reads it; files are named as they lie where pandoc works."""
    template = edition.template and edition.template.relative_to(TEMPLATES).as_posix()
    return {
        "to": edition.to,
        "document": f"{edition.to}.qmd",
        "bibliography": f"{edition.to}-references.bib",
        "template": f"{_OURS}/{template}",
        "csl": f"{_OURS}/numeric.csl",
        "cites": edition.cites,
        "options": {"wrap_text": "preserve", **edition.options},
        "variables": dict(edition.variables),
    }


@contextmanager
def _working_folder(source: Source, editions: Sequence[Edition]) -> Iterator[Path]:
    """A folder that holds the files of a paper and the templates, each under a name of ours.

    pandoc and Lua read some characters of a path as those of an address or of a pattern, so that
    they are given no name that is the user's.  What pandoc reads as text is there once for each
    edition, as that can print it.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        folder = Path(scratch)
        for path in source.folder.resolve().iterdir():
            if path.suffix not in _TEXTS:
                _link(path, folder / path.name)
        _link(TEMPLATES, folder / _OURS)
        document = source.document.read_text("utf-8").expandtabs(_TAB)
        entries = _bibliography(source.folder / "references.bib", document)
        for edition in editions:
            named = _job(edition)
            (folder / named["document"]).write_text(edition.printable(document), "utf-8")
            if entries is not None:
                (folder / named["bibliography"]).write_text(edition.printable(entries), "utf-8")
        yield folder


def _bibliography(path: Path, document: str) -> str | None:
    """What a document may cite, since to read all entries takes a third of a short paper's time."""
    if not path.is_file():
        return None
    entries = path.read_text("utf-8")
    return cited_entries(entries, lambda key: f"@{key}" in document)


def _link(path: Path, link: Path) -> None:
    """Make ``link`` lead to ``path``, or be a copy of it where the system has no such links."""
    try:
        link.symlink_to(path)
    except OSError:
        if path.is_dir():
            shutil.copytree(path, link)
        else:
            shutil.copyfile(path, link)


def _refusal(document: Path, said: str) -> RenderError:
    """One line for each problem; the program's own messages come first, then pandoc's."""
    problems = [line for line in said.split("\n") if line.startswith("RIDGEPOINT\t")]
    if problems:
        parts = (line.split("\t", 2)[1:] for line in dict.fromkeys(problems))
        return RenderError("\n".join(filter_problem(document, *part) for part in parts))
    warnings = _WARNING.findall(said)
    return pandoc_refusal(document, warnings[0] if warnings else said)
