"""The prose check: no result is typed by hand.

A template may print numbers only through values, tables and figures.  What looks like a number and
is none is left alone: names such as ``float32`` or ``Conv2d``, inline code, citations, labels,
links, and inside formulas the digits 0, 1 and 2, exponents, indices and coefficients (2n³ is a law
and no result).  A number that Jinja prints as it was typed,
``{{ 42 }}``, is typed too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from report.errors import TemplateError

_CODE: Final = re.compile(r"^(```|~~~).*?^\1|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_JINJA: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{##.*?##\}", re.DOTALL)
#: What Jinja prints without computing it.
_LITERAL: Final = re.compile(r"(?<=\{\{)[-+]?\s*(?:\"[^\"]*\"|'[^']*'|\d[\d.]*)")
#: As pandoc reads it: no space inside the dollars, no digit behind the last one.
_MATH: Final = re.compile(
    r"\$\$.*?\$\$|(?<![\\$])\$(?=[^\s$])[^$\n]*?(?<=[^\s\\])\$(?!\d)", re.DOTALL
)
_FRONT: Final = re.compile(r"\A---\n.*?^---$", re.DOTALL | re.MULTILINE)
_MARKUP: Final = (
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"\]\([^)]*\)"),  # link targets
    re.compile(r"https?://\S+"),
    re.compile(r"@[\w:./+-]*\w"),  # citations and cross references
    re.compile(r"\b[A-Z]\w*[A-Z]\w*-\d+\b"),  # names with two capitals, such as ResNet-50
)
#: Attributes of a heading, a link, a figure, a formula or a div: ids, classes and key=value.
_ATTRIBUTES: Final = re.compile(r"\{(?:[#.=-]|[\w-]+=)[^{}\n]*\}|^:::.*$", re.MULTILINE)
#: Attributes that a reader reads.
_SHOWN: Final = re.compile(r"(?<=[\w-](?:alt|cap)=\")[^\"]*(?=\")|(?<=title=\")[^\"]*(?=\")")
_FRONT_TEXT: Final = re.compile(
    r"^(?:title|subtitle|abstract|description|keywords):.*?(?=^\w|^---)", re.DOTALL | re.MULTILINE
)
#: Not within a word (float32, conv_2) and not the second part of a number that was skipped.
_TYPED: Final = re.compile(r"(?<![^\W_])(?<![^\W_]_)(?<!\d[.,])\d[\d.,]*(?:\s?%)?")
_TYPED_IN_MATH: Final = re.compile(r"(?<![\w.])(?:\d+[.,]\d+|\d{2,}|[3-9])")
#: Exponents and indices, and coefficients right before a variable: they belong to a formula.
_OF_FORMULA: Final = re.compile(
    r"[\^_]\s*(?:\d{1,2}(?!\d)|\{[^{}]*\})"
    r"|(?<![\w.,])\d{1,2}(?=(?:\s*\\cdot\s+)?(?:[A-Za-z](?![A-Za-z])|\())"
)


def typed_results(template: str) -> tuple[tuple[int, str], ...]:
    """The numbers typed into the prose of ``template`` as (line, number), in their order."""
    code = _masked(template, _CODE)
    literals = _only(_only(code, _JINJA), _LITERAL)
    text = _masked(code, _JINJA)
    math = _masked(_only(text, _MATH), _OF_FORMULA)
    prose = _masked(text, _MATH)
    for pattern in _MARKUP:
        prose = _masked(prose, pattern)
    front = _FRONT.match(prose)
    shown = _only(front.group(), _FRONT_TEXT) if front else ""
    prose = _masked(prose, _FRONT)
    read = _only(_only(prose, _ATTRIBUTES), _SHOWN)
    prose = _masked(prose, _ATTRIBUTES)
    found = [
        *_found(math, _TYPED_IN_MATH),
        *(hit for part in (shown, read, literals, prose) for hit in _found(part, _TYPED)),
    ]
    return tuple((text.count("\n", 0, at) + 1, number) for at, number in sorted(found))


def check_prose(path: Path, template: str) -> None:
    """Raise ``TemplateError`` naming the first number that is typed into ``template``.

    ``path`` is the file in which it stands.
    """
    found = typed_results(template)
    if found:
        line, number = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise TemplateError(
            f"templates/papers/{path.name}:{line}: the number {number} is typed into the "
            f"prose{more}; print a computed value instead, or put a name into `code`."
        )


def _found(text: str, pattern: re.Pattern[str]) -> list[tuple[int, str]]:
    """Every match as (position, number)."""
    return [(match.start(), match.group().rstrip(".,")) for match in pattern.finditer(text)]


def _blank(text: str) -> str:
    """Spaces in place of ``text``; lines stay lines, and every position stays what it was."""
    return re.sub(r"[^\n]", " ", text)


def _masked(text: str, pattern: re.Pattern[str]) -> str:
    """``text`` with everything blanked that ``pattern`` matches."""
    return pattern.sub(lambda match: _blank(match.group()), text)


def _only(text: str, pattern: re.Pattern[str]) -> str:
    """``text`` with everything blanked that ``pattern`` does not match."""
    pieces: list[str] = []
    end = 0
    for match in pattern.finditer(text):
        pieces += [_blank(text[end : match.start()]), match.group()]
        end = match.end()
    return "".join([*pieces, _blank(text[end:])])
