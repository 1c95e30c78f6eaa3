"""The folder of one paper: its ``.qmd``, figures, tables and bibliography."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from report.errors import RenderError

#: The styles that a paper may ask for in ``print-style``.
STYLES: Final = ("ieee", "report", "article")

_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n(?:---|\.\.\.)\n", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """A paper that can be rendered: ``folder / f"{study}.qmd"`` and what it needs beside it."""

    folder: Path
    study: str
    style: str

    @property
    def document(self) -> Path:
        """The Quarto markdown document."""
        return self.folder / f"{self.study}.qmd"


def read_source(folder: Path, study: str) -> Source:
    """Read the front matter of a paper.

    Raises ``RenderError`` if the document is missing or its front matter does not say what the
    styles need.
    """
    document = folder / f"{study}.qmd"
    meta = front_matter(document)
    style = meta.get("print-style", "article")
    if style not in STYLES:
        raise RenderError(
            f"{document}: print-style: found {style!r}; use one of {', '.join(STYLES)}."
        )
    for key in ("title", "author", "bibliography"):
        if not meta.get(key):
            raise RenderError(f"{document}: {key}: missing in the front matter; add it.")
    if not all(isinstance(item, dict) and item.get("name") for item in meta["author"]):
        raise RenderError(
            f"{document}: author: each author is a mapping with a name; write '- name: ...'."
        )
    return Source(folder, study, style)


def front_matter(document: Path) -> dict[str, Any]:
    """The YAML block at the head of a ``.qmd``; raises ``RenderError``."""
    try:
        text = document.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RenderError(f"{document}: cannot be read ({error}).") from error
    match = _FRONT_MATTER.match(text)
    if match is None:
        raise RenderError(f"{document}: has no front matter; begin it with a block between ---.")
    try:
        meta = yaml.safe_load(match[1])
    except yaml.YAMLError as error:
        place = " ".join(str(error).split())
        raise RenderError(f"{document}: the front matter is not valid YAML ({place}).") from error
    if not isinstance(meta, dict):
        raise RenderError(f"{document}: the front matter is not a mapping; write 'title: ...'.")
    return meta


def line_of(document: Path, needle: str) -> int | None:
    """The first line of ``document`` that holds ``needle`` as a whole, counted from 1."""
    pattern = re.compile(re.escape(needle) + r"(?![\w-])")
    for number, line in enumerate(document.read_text("utf-8").splitlines(), start=1):
        if pattern.search(line):
            return number
    return None
