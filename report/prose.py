"""The prose check: no result is typed by hand.

A template may print numbers only through values, tables and figures.  What looks like a number and
is none is left alone: names such as ``float32`` or ``Conv2d``, inline code, citations, labels,
links, and the digits 0, 1 and 2 inside formulas.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from report.errors import TemplateError

_CODE: Final = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_JINJA: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{##.*?##\}", re.DOTALL)
_MATH: Final = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.DOTALL)
_MARKUP: Final = (
    re.compile(r"\A---\n.*?^---$", re.DOTALL | re.MULTILINE),  # front matter, checked apart
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"\]\([^)]*\)"),  # link targets
    re.compile(r"\{[^{}\n]*\}"),  # attributes
    re.compile(r"@[\w:.-]+"),  # citations and cross references
    re.compile(r"https?://\S+"),
    re.compile(r"^:::.*$", re.MULTILINE),
)
_FRONT_TEXT: Final = re.compile(
    r"^(?:title|subtitle|abstract|description|keywords):.*?(?=^\w|^---)", re.DOTALL | re.MULTILINE
)
_TYPED: Final = re.compile(r"(?<![\w.,])\d[\d.,]*(?:\s?%)?")
_TYPED_IN_MATH: Final = re.compile(r"(?<![\w.])(?:\d{2,}|[3-9]|\d+[.,]\d+)")


def typed_results(template: str) -> tuple[tuple[int, str], ...]:
    """The numbers typed into the prose of ``template`` as (line, number)."""
    masked = _masked(_masked(template, _CODE), _JINJA)
    math = "".join(_kept(masked, _MATH))
    prose = _masked(masked, _MATH)
    front = _MARKUP[0].match(prose)
    found = _found(math, _TYPED_IN_MATH)
    if front:
        found += _found("".join(_kept(front.group(), _FRONT_TEXT)), _TYPED)
    for pattern in _MARKUP:
        prose = _masked(prose, pattern)
    return tuple(sorted(found + _found(prose, _TYPED)))


def check_prose(path: Path) -> None:
    """Raise ``TemplateError`` naming the first number that is typed into the prose of ``path``."""
    found = typed_results(path.read_text(encoding="utf-8"))
    if found:
        line, number = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise TemplateError(
            f"templates/papers/{path.name}:{line}: the number {number} is typed into the "
            f"prose{more}; print a computed value instead, or put a name into `code`."
        )


def _found(text: str, pattern: re.Pattern[str]) -> list[tuple[int, str]]:
    return [
        (text.count("\n", 0, match.start()) + 1, match.group().rstrip(".,"))
        for match in pattern.finditer(text)
    ]


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def _masked(text: str, pattern: re.Pattern[str]) -> str:
    return pattern.sub(_blank, text)


def _kept(text: str, pattern: re.Pattern[str]) -> list[str]:
    """``text`` with everything blanked that ``pattern`` does not match; lines stay lines."""
    blank: Callable[[str], str] = lambda part: re.sub(r"[^\n]", " ", part)  # noqa: E731
    pieces: list[str] = []
    end = 0
    for match in pattern.finditer(text):
        pieces += [blank(text[end : match.start()]), match.group()]
        end = match.end()
    return [*pieces, blank(text[end:])]
