"""Calls pandoc from the package ``pypandoc_binary``, once for all formats of a paper."""

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
from report.render.source import PaperSource

#: pandoc's names of a paper's formats; in Typst's, pandoc writes the citations.
Writer: TypeAlias = Literal["html", "latex", "typst-citations", "docx"]

#: Folder of the templates, styles and filters of all formats.
TEMPLATES: Final = Path(__file__).resolve().parents[2] / "templates"

#: Name of the templates' folder in pandoc's working folder, beside the files of the paper.
_OURS: Final = ".ridgepoint"

#: The document and its bibliography.
_TEXTS: Final = (".qmd", ".bib")
_TAB: Final = 4
_TIME_LIMIT_S: Final = 60.0
_WARNING = re.compile(r"^\[WARNING\] (.*(?:\n  .*)*)", re.MULTILINE)


@dataclass(frozen=True)
class OutputFormat:
    """One format of a paper: pandoc's template, if any, and options.

    ``options`` are those of pandoc's writer (https://pandoc.org/lua-filters.html#type-writeroptions).
    ``variables`` of the template are not escaped by pandoc.  If ``cites``, pandoc writes the list
    of references.  ``printable`` replaces characters of the document and its bibliography that the
    format cannot print.
    """

    to: Writer
    template: Path | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    variables: Mapping[str, object] = field(default_factory=dict)
    cites: bool = True
    printable: Callable[[str], str] = visible


def convert(
    source: PaperSource,
    formats: Sequence[OutputFormat],
    plain: Sequence[str] = (),
    drawn_elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[Writer, str], list[str]]:
    """Write a paper in all ``formats``, and the pieces of markdown ``plain`` as plain words.

    ``drawn_elsewhere`` are placeholders of the figures: file name → content.

    One process does all, so that formats with equal text are parsed once.  Raises ``RenderError``
    for every warning of pandoc, and for every missing reference, citation, figure or alternative
    text.
    """
    job = {"formats": list(map(_job, formats)), "plain": plain}
    with _working_folder(source, formats) as folder:
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
    written = json.loads(finished.stdout)
    names = (output.to for output in formats)
    texts = dict(zip(names, written["formats"], strict=True))
    return texts, [" ".join(words.split()) for words in written["plain"]]


def _job(output: OutputFormat) -> dict[str, Any]:
    """Describe a format for the Lua program; files are relative to pandoc's working folder."""
    template = output.template and output.template.relative_to(TEMPLATES).as_posix()
    return {
        "to": output.to,
        "document": f"{output.to}.qmd",
        "bibliography": f"{output.to}-references.bib",
        "template": f"{_OURS}/{template}",
        "csl": f"{_OURS}/numeric.csl",
        "cites": output.cites,
        "options": {"wrap_text": "preserve", **output.options},
        "variables": dict(output.variables),
    }


@contextmanager
def _working_folder(source: PaperSource, formats: Sequence[OutputFormat]) -> Iterator[Path]:
    """Make a folder with the files of a paper and the templates under names of our own.

    pandoc and Lua treat some characters of a path as an address or a pattern, so they never see
    the user's paths.  Texts are written once per format, with the characters that it can print.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-") as scratch:
        folder = Path(scratch)
        for path in source.folder.resolve().iterdir():
            if path.suffix not in _TEXTS:
                _link(path, folder / path.name)
        _link(TEMPLATES, folder / _OURS)
        document = source.document.read_text("utf-8").expandtabs(_TAB)
        entries = _bibliography(source.folder / "references.bib", document)
        for output in formats:
            names = _job(output)
            (folder / names["document"]).write_text(output.printable(document), "utf-8")
            if entries is not None:
                (folder / names["bibliography"]).write_text(output.printable(entries), "utf-8")
        yield folder


def _bibliography(path: Path, document: str) -> str | None:
    """Keep only cited entries, since reading all takes a third of a short paper's time."""
    if not path.is_file():
        return None
    entries = path.read_text("utf-8")
    return cited_entries(entries, lambda key: f"@{key}" in document)


def _link(path: Path, link: Path) -> None:
    """Link to ``path`` from ``link``, or copy it if the system cannot make links."""
    try:
        link.symlink_to(path)
    except OSError:
        if path.is_dir():
            shutil.copytree(path, link)
        else:
            shutil.copyfile(path, link)


def _refusal(document: Path, messages: str) -> RenderError:
    """Describe each problem that our filter reports on a line, or else pandoc's first warning."""
    lines = [line for line in messages.split("\n") if line.startswith("RIDGEPOINT\t")]
    if lines:
        parts = (line.split("\t", 2)[1:] for line in dict.fromkeys(lines))
        return RenderError("\n".join(filter_problem(document, *part) for part in parts))
    warnings = _WARNING.findall(messages)
    return pandoc_refusal(document, warnings[0] if warnings else messages)
