"""Call pandoc from the package ``pypandoc_binary``, once for all formats of a paper."""

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

from figures.characters import escape_invisible, escape_invisible_in
from report.core.errors import RenderError
from report.core.system.programs import pandoc_path, run
from report.paper.bibliography import cited_entries
from report.render.problems import BIBLIOGRAPHY, filter_problem, name_of, pandoc_refusal
from report.render.source import PaperSource

#: pandoc's names of the formats; in ``typst-citations``, pandoc itself writes the citations.
Writer: TypeAlias = Literal["html", "latex", "typst-citations", "docx"]

#: Folder of the templates, styles and filters of all formats.
TEMPLATES: Final = Path(__file__).resolve().parents[2] / "templates"

#: Name of a link to the templates in pandoc's working folder, beside the files of the paper.
_LINK_NAME: Final = ".ridgepoint"

#: Suffixes of the document and the bibliography, which are written once per format.
_TEXT_SUFFIXES: Final = (".qmd", ".bib")
#: Columns between tab stops.
_TAB: Final = 4
_TIME_LIMIT_S: Final = 60.0
_WARNING = re.compile(r"^\[WARNING\] (.*(?:\n  .*)*)", re.MULTILINE)


@dataclass(frozen=True)
class OutputFormat:
    """One format of a paper: pandoc's ``template``, if any, and options.

    ``options``: pandoc's WriterOptions (https://pandoc.org/lua-filters.html#type-writeroptions).
    ``variables``: variables of the template, not escaped by pandoc.  ``cites``: true if pandoc
    writes the list of references.  ``printable``: replaces characters that the format cannot print.
    """

    to: Writer
    template: Path | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    variables: Mapping[str, object] = field(default_factory=dict)
    cites: bool = True
    printable: Callable[[str], str] = escape_invisible


def convert(
    source: PaperSource,
    formats: Sequence[OutputFormat],
    plain: Sequence[str] = (),
    drawn_elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[Writer, str], list[str]]:
    """Write a paper in all ``formats``, and the pieces of markdown ``plain`` as plain words.

    ``drawn_elsewhere`` are placeholders of figures that the folder lacks: file name → content.
    One process writes all formats, so that equal texts are parsed once.  Returns the text by
    format, and the plain words.

    Raises ``RenderError`` for errors and warnings of pandoc, and for a missing reference, citation,
    figure or alternative text.
    """
    job = {"formats": list(map(_job, formats)), "plain": plain}
    with _working_folder(source, formats) as folder:
        for name, text in drawn_elsewhere.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, "utf-8")
        finished = run(
            [pandoc_path(), "lua", f"{_LINK_NAME}/ridgepoint.lua"],
            folder,
            _TIME_LIMIT_S,
            place=name_of(source.document),
            stdin=json.dumps(escape_invisible_in(job)),
        )
    if finished.returncode != 0 or _WARNING.search(finished.stderr):
        raise _conversion_error(source.document, finished.stderr)
    written = json.loads(finished.stdout)
    names = (output.to for output in formats)
    texts = dict(zip(names, written["formats"], strict=True))
    return texts, [" ".join(words.split()) for words in written["plain"]]


def _job(output: OutputFormat) -> dict[str, Any]:
    """Describe a format for the Lua program, with paths relative to pandoc's working folder."""
    template = output.template and output.template.relative_to(TEMPLATES).as_posix()
    return {
        "to": output.to,
        "document": f"{output.to}.qmd",
        "bibliography": f"{output.to}-references.bib",
        "template": f"{_LINK_NAME}/{template}",
        "csl": f"{_LINK_NAME}/numeric.csl",
        "cites": output.cites,
        "options": {"wrap_text": "preserve", **output.options},
        "variables": dict(output.variables),
    }


@contextmanager
def _working_folder(source: PaperSource, formats: Sequence[OutputFormat]) -> Iterator[Path]:
    """Make a folder with the files of a paper and the templates, under fixed names.

    pandoc and Lua take some characters of a path for an address or a pattern, so they never see the
    user's paths.  Texts are written once per format, with characters that the format can print.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        folder = Path(scratch)
        for path in source.folder.resolve().iterdir():
            if path.suffix not in _TEXT_SUFFIXES:
                _link(path, folder / path.name)
        _link(TEMPLATES, folder / _LINK_NAME)
        document = source.document.read_text("utf-8").expandtabs(_TAB)
        bibliography = (source.folder / BIBLIOGRAPHY).read_text("utf-8")
        # Of a short paper, pandoc would spend a third of its time on entries that are not cited.
        entries = cited_entries(bibliography, lambda key: f"@{key}" in document)
        for output in formats:
            names = _job(output)
            (folder / names["document"]).write_text(output.printable(document), "utf-8")
            (folder / names["bibliography"]).write_text(output.printable(entries), "utf-8")
        yield folder


def _link(path: Path, link: Path) -> None:
    """Make ``link`` a link to ``path``, or a copy if the system cannot make links."""
    try:
        link.symlink_to(path)
    except OSError:
        if path.is_dir():
            shutil.copytree(path, link)
        else:
            shutil.copyfile(path, link)


def _conversion_error(document: Path, messages: str) -> RenderError:
    """Describe the problems that the project's filter reported, or else pandoc's first warning."""
    lines = [line for line in messages.split("\n") if line.startswith("RIDGEPOINT\t")]
    if lines:
        parts = (line.split("\t", 2)[1:] for line in dict.fromkeys(lines))
        return RenderError("\n".join(filter_problem(document, *part) for part in parts))
    warnings = _WARNING.findall(messages)
    return pandoc_refusal(document, warnings[0] if warnings else messages)
