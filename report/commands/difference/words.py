"""What a reader reads of a manuscript: its title and its sentences, without markup.

The markdown is read by pandoc; here its syntax tree becomes plain words.  Tables and figures are
left out, for they are compared as what they are.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from report.errors import RenderError
from report.render.command import run
from report.render.pandoc import pandoc_path

_TIME_LIMIT_S: Final = 60.0

#: A block or an inline of pandoc's syntax tree: ``{"t": <its kind>, "c": <its content>}``.
Node: TypeAlias = dict[str, Any]

_END: Final = re.compile(r"(?<=[.!?])(?<!\bal\.)(?<!e\.g\.)(?<!i\.e\.)\s+(?=[\"'‘“(\[]?[A-Z0-9])")
#: Papers refer to what is numbered by these words; a number is known to the output alone.
_NUMBERED: Final = {"tbl": "Table", "fig": "Figure", "eq": "Equation", "sec": "Section"}
#: The label of a displayed formula, which pandoc takes for text.
_LABEL: Final = re.compile(r"\s*\{#eq-[\w-]+\}")
#: Kinds of inlines whose content is a list of inlines; or has one behind its attributes.
_WRAPPED: Final = ("Emph", "Strong", "Underline", "Strikeout", "SmallCaps")
_WITH_ATTRIBUTES: Final = ("Link", "Span")
_RAISED: Final = {"Superscript": "^", "Subscript": "_"}
#: What TeX writes and a reader does not see, and what stands for it.
_TEX: Final = (
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,;:! ]"), " "),
    (re.compile(r"\\(?:text|mathrm|mathit|operatorname)\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\\(?:begin|end)\{[a-z*]+\}"), " "),
    (re.compile(r"\\\\|&"), " "),
    (re.compile(r"\\cdot\b"), "·"),
    (re.compile(r"\\times\b"), "×"),
)


@dataclass(frozen=True, order=True)
class Sentence:
    """A sentence or a displayed formula, and the heading it stands under."""

    section: str
    text: str


@dataclass(frozen=True)
class Document:
    """The words of a paper."""

    title: str
    sentences: tuple[Sentence, ...]


def read_document(manuscript: str) -> Document:
    """The words of a manuscript in Quarto markdown; raises ``RenderError``."""
    command = [str(pandoc_path()), "--from=markdown", "--to=json"]
    finished = run(command, Path(tempfile.gettempdir()), _TIME_LIMIT_S, stdin=manuscript)
    if finished.code != 0:
        raise RenderError(
            f"pandoc cannot read the manuscript ({' '.join(finished.stderr.split())}); "
            "mend its template."
        )
    return document_of(json.loads(finished.stdout))


def document_of(tree: Node) -> Document:
    """The words of pandoc's syntax tree of a whole document."""
    meta = tree["meta"]
    found = [
        *_sentences(_meta_blocks(meta.get("abstract")), "Abstract"),
        *_sentences(tree["blocks"], ""),
    ]
    title = meta.get("title", {"c": []})
    return Document(_text(title["c"]), tuple(found))


def _meta_blocks(value: Node | None) -> list[Node]:
    if value is None:
        return []
    content: list[Node] = value["c"]
    return [{"t": "Para", "c": content}] if value["t"] == "MetaInlines" else content


def _sentences(blocks: Iterable[Node], section: str) -> Iterator[Sentence]:
    for heading, paragraph in _paragraphs(blocks, [section]):
        for text in _END.split(_LABEL.sub("", _text(paragraph))):
            if text:
                yield Sentence(heading, text)


def _paragraphs(blocks: Iterable[Node], heading: list[str]) -> Iterator[tuple[str, list[Node]]]:
    """Each paragraph with its heading; ``heading`` holds the last one that was met."""
    for block in blocks:
        match block["t"]:
            case "Header":
                heading[0] = _text(block["c"][2])
            case "Para" | "Plain":
                yield heading[0], block["c"]
            case "Div" if not block["c"][0][0].startswith("tbl-"):
                yield from _paragraphs(block["c"][1], heading)
            case "BlockQuote":
                yield from _paragraphs(block["c"], heading)
            case "BulletList" | "OrderedList" | "DefinitionList":
                for item in _items(block):
                    yield from _paragraphs(item, heading)


def _items(block: Node) -> Iterator[list[Node]]:
    """The items of a list, each a list of blocks; a term is a paragraph of its own."""
    match block["t"]:
        case "OrderedList":
            yield from block["c"][1]
        case "DefinitionList":
            for term, definitions in block["c"]:
                yield [{"t": "Para", "c": term}]
                yield from definitions
        case _:
            yield from block["c"]


def _text(inlines: Iterable[Node]) -> str:
    """Plain words in one line."""
    return " ".join("".join(map(_word, inlines)).split())


def _word(inline: Node) -> str:  # noqa: PLR0911 - one line a kind
    kind, content = inline["t"], inline.get("c", "")
    match kind:
        case "Str":
            return str(content)
        case "Space" | "SoftBreak" | "LineBreak":
            return " "
        case "Code":
            return str(content[1])
        case "Math":
            return _formula(content[1])
        case "Cite":
            return _citations([item["citationId"] for item in content[0]])
        case _ if kind in _WRAPPED:
            return _text(content)
        case _ if kind in _WITH_ATTRIBUTES:
            return _text(content[1])
        case "Quoted":
            return f"“{_text(content[1])}”"
        case _ if kind in _RAISED:
            return _RAISED[kind] + _text(content)
        case _:
            # Images are compared as figures; raw markup says nothing to every reader.
            return ""


def _formula(tex: str) -> str:
    for pattern, plain in _TEX:
        tex = pattern.sub(plain, tex)
    return " ".join(tex.split())


def _citations(keys: list[str]) -> str:
    """«Table work» for ``tbl-work``; keys of works in brackets, for their numbers are not known."""
    kind, _, name = keys[0].partition("-")
    return f"{_NUMBERED[kind]} {name}" if kind in _NUMBERED else f"[{', '.join(keys)}]"
