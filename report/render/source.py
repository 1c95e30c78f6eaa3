"""Source folder of one paper: ``.qmd`` document, figures, tables and bibliography."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from report.core.errors import RenderError
from report.core.records.strict import SyntaxFaultError, parse_yaml
from report.render import DEFAULT_STYLE, ONE_COLUMN
from report.render.problems import name_of, place_of_line

_FRONT_MATTER = re.compile(r"\A\ufeff?---\n(.*?)\n(?:---|\.\.\.)\n", re.DOTALL)

#: An email address that markdown prints as typed.
_EMAIL = r"^[A-Za-z0-9]+([._+-][A-Za-z0-9]+)*@([A-Za-z0-9]+[.-])+[A-Za-z]{2,}$"


class _Author(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    affiliation: str = ""
    orcid: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{4}-\d{4}-\d{3}[\dX]$")] | None = None
    email: Annotated[str, msgspec.Meta(pattern=_EMAIL)] | None = None
    corresponding: bool = False
    equal_contribution: bool = False


class _Front(msgspec.Struct, forbid_unknown_fields=True, rename="kebab", kw_only=True):
    """Fields of a front matter; unknown keys are errors, since no format would print them."""

    title: Annotated[str, msgspec.Meta(min_length=1)]
    author: Annotated[list[_Author], msgspec.Meta(min_length=1)]
    bibliography: Literal["references.bib"]
    subtitle: str = ""
    abstract: str = ""
    keywords: list[str] = []
    doi: Annotated[str, msgspec.Meta(pattern=r"^10\.\d+/\S+$")] = ""  # of the artifact
    names: list[str] = []  # names such as ResNet-20, whose digits may be typed in the prose
    lang: str = ""
    number_sections: bool = True
    print_style: Literal["ieee", "acm", "report", "article"] = DEFAULT_STYLE
    question: str = ""
    headline: list[str] = []
    toc: bool = True


@dataclass(frozen=True)
class PaperSource:
    """A paper to render: the ``folder`` of its document, its ``study`` and its front matter."""

    folder: Path
    study: str
    front: Mapping[str, Any]

    @property
    def document(self) -> Path:
        """Path of the Quarto markdown document."""
        return self.folder / f"{self.study}.qmd"

    @property
    def style(self) -> str:
        """Print style of the paper."""
        return str(self.front.get("print-style", DEFAULT_STYLE))

    @property
    def one_column(self) -> bool:
        """True if the print style has one column of text instead of two."""
        return self.style in ONE_COLUMN

    def has_toc(self, *, page: bool) -> bool:
        """Return True if the paper has a table of contents, on its web ``page`` or in print.

        Without ``toc`` in the front matter, only web pages and reports in print have one.
        """
        return bool(self.front.get("toc", page or self.style == "report"))

    def print_variables(self) -> dict[str, object]:
        """Return the variables of print templates; styles with two columns have none."""
        contents = self.has_toc(page=False)
        return {"one-column": True, "contents": contents} if self.one_column else {}


def read_source(folder: Path, study: str) -> PaperSource:
    """Read the front matter of a paper, the YAML block at the head of its document.

    Raises ``RenderError`` if the document cannot be read, or its front matter is missing, is no
    YAML, or lacks a field, has an unknown field or an invalid value.
    """
    document = folder / f"{study}.qmd"
    name = name_of(document)
    try:
        text = document.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RenderError(f"{name}: cannot be read ({error}).") from error
    match = _FRONT_MATTER.match(text)
    if match is None:
        raise RenderError(f"{name}: has no front matter; begin it with a block between ---.")
    try:
        meta, _ = parse_yaml(match[1])
        msgspec.convert(meta, _Front)
    except SyntaxFaultError as error:
        place = place_of_line(document, error.line + 1)
        raise RenderError(f"{place}: {error.fault}; fix the front matter.") from error
    except msgspec.ValidationError as error:
        fault, _, field = str(error).partition(" - at `$.")
        if "unknown field" in fault:
            kind = _Author if field.startswith("author") else _Front
            fault += f"; known are {', '.join(kind.__struct_encode_fields__)}"
        place = f"{name}: {field.rstrip('`') or 'front matter'}"
        raise RenderError(f"{place}: {fault}; fix the front matter.") from error
    return PaperSource(folder, study, meta)


def in_style(document: str, style: str) -> str:
    """Return the text of a ``.qmd`` with another ``print-style``."""
    head = _FRONT_MATTER.match(document)
    if head is None:
        return document
    lines = [line for line in head[1].split("\n") if not line.startswith("print-style:")]
    front = "\n".join((*lines, f"print-style: {style}"))
    return document[: head.start(1)] + front + document[head.end(1) :]
