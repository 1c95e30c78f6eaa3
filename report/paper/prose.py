"""The prose check: no result is typed by hand.

A template may print numbers only through values, tables and figures.  What looks like a number and
is none is left alone: names such as ``float32`` or ``Conv2d``, inline code, citations, labels,
links, and inside formulas the digits 0, 1 and 2, exponents, indices and coefficients (2n³ is a law
and no result).  A number that Jinja prints as it was typed,
``{{ 42 }}``, is typed too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

#: Not within a word (float32, conv_2) and not the second part of a number that was skipped.
_NUMBER: Final = r"(?P<number>(?<![^\W_])(?<![^\W_]_)(?<!\d[.,])\d[\d.,]*(?:\s?%)?)"
_JINJA: Final = r"\{\{.*?\}\}|\{%.*?%\}|\{\#\#.*?\#\#\}"
#: What Jinja prints as it was typed.
_LITERAL: Final = r"""\{\{(?P<literal>[-+\s]*(?:"[^"]*"|'[^']*'|\d[\d.]*)).*?\}\}"""
#: What prose is made of, each as far as it goes; what is matched first is not looked into, but for
#: the parts that have a name.
_PROSE: Final = re.compile(
    rf"""
    ^(?P<fence>```|~~~).*?^(?P=fence) | `[^`\n]+`
    | {_LITERAL} | {_JINJA}
    | (?P<math> \$\$.*?\$\$
      # As pandoc reads it: no space inside the dollars, no digit behind the last one.
      | (?<![\\$])\$(?=[^\s$])[^$\n]*?(?<=[^\s\\])\$(?!\d) )
    | <!--.*?--> | \]\([^)]*\) | https?://\S+
    | @[\w:./+-]*\w                 # citations and cross references
    | \b[A-Z]\w*[A-Z]\w*-\d+\b      # names with two capitals, such as ResNet-50
    # The attributes of a heading, a link, a figure, a formula or a div: ids, classes, key=value.
    | (?P<attributes> \{{(?:[#.=-]|[\w-]+=)(?:{_JINJA}|[^{{}}\n])*+\}} | ^:::.*?$ )
    | {_NUMBER}
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_IN_LITERAL: Final = re.compile(_NUMBER)
#: Exponents and indices, and coefficients right before a variable, belong to a formula.
_IN_MATH: Final = re.compile(
    rf"{_LITERAL}|{_JINJA}"
    r"|[\^_]\s*(?:\d{1,2}(?!\d)|\{[^{}]*\})"
    r"|(?<![\w.,])\d{1,2}(?=(?:\s*\\cdot\s+)?(?:[A-Za-z](?![A-Za-z])|\())"
    r"|(?P<number>(?<![\w.])(?:\d+[.,]\d+|\d{2,}|[3-9]))",
    re.DOTALL,
)
#: Attributes that a reader reads.
_SHOWN: Final = re.compile(
    rf'(?:(?<=[\w-](?:alt|cap)=")|(?<=title="))(?:{_JINJA}|[^"])*+(?=")', re.DOTALL
)
_FRONT: Final = re.compile(r"\A---\n.*?^---$", re.DOTALL | re.MULTILINE)
_FRONT_TEXT: Final = re.compile(
    r"^(?:title|subtitle|abstract|description|keywords):.*?(?=^\w|^---)", re.DOTALL | re.MULTILINE
)


def typed_results(template: str) -> tuple[tuple[int, str], ...]:
    """The numbers typed into the prose of ``template`` as (line, number), in their order."""
    front = _FRONT.match(template)
    end = front.end() if front else 0
    shown = [match.span() for match in _FRONT_TEXT.finditer(template, 0, end)]
    return tuple(
        (template.count("\n", 0, at) + 1, number)
        for part in (*shown, (end, len(template)))
        for at, number in _typed(template, part, _PROSE)
    )


def _typed(
    template: str, part: tuple[int, int], pattern: re.Pattern[str]
) -> Iterator[tuple[int, str]]:
    """The numbers of a part of ``template``, each with its place."""
    for match in pattern.finditer(template, *part):
        found = match.groupdict()
        if found.get("number"):
            yield match.start(), match["number"].rstrip(".,")
        elif found.get("literal"):
            yield from _typed(template, match.span("literal"), _IN_LITERAL)
        elif found.get("math"):
            yield from _typed(template, match.span(), _IN_MATH)
        elif found.get("attributes"):
            for shown in _SHOWN.finditer(template, *match.span()):
                yield from _typed(template, shown.span(), _PROSE)
