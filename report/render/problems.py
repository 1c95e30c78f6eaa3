"""Trace errors of pandoc, TeX and Typst back to the template, bibliography or table to fix.

These programs read files in a temporary folder, which is gone when a user reads their messages.
So messages name a place in the project's own files, or the document if it has no template.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath
from typing import Final

from report.core.errors import LONGEST, RenderError

#: Folder of the papers' templates.
PAPERS: Final = Path(__file__).resolve().parents[2] / "templates" / "papers"
BIBLIOGRAPHY: Final = "references.bib"

#: Fewest characters that related lines have in common.
_RELATED: Final = 6
#: Number of lines before an error that are compared with the template.
_WINDOW: Final = 6
_PRINTED: Final = re.compile(r"""\{\{ *(?:tables|figures)\[["']([\w-]+)["']\] *\}\}""")
_ENTRY: Final = re.compile(r"@\w+\s*[{(]\s*([^\s,{}()]+)")
_LINE: Final = re.compile(r" at line (\d+) column \d+")
_MATH: Final = re.compile(r"TeX math (.*?),?\s*rendering as TeX:\s*(.*)$", re.DOTALL)


def name_of(document: Path) -> str:
    """Return the name of the template of ``document``, or of the document without template."""
    return _origin(document)[0]


def place_of_line(document: Path, line: int) -> str:
    """Trace a line of ``document`` to its template, as in ``templates/papers/x.qmd.j2:12``."""
    name, lines = _origin(document)
    written = _lines(document)
    for _, i1, i2, j1, j2 in SequenceMatcher(None, lines, written, autojunk=False).get_opcodes():
        if not j1 < line <= j2:
            continue
        # Lines that differ have printed something; equal numbers of lines correspond one to one.
        if i2 - i1 == j2 - j1:
            return _place(name, lines, i1 + line - 1 - j1)
        if i1 < i2:
            common = [_longest_common_length(own, written[line - 1]) for own in lines[i1:i2]]
            return _place(name, lines, i1 + common.index(max(common)))
    return name


def place_of_text(document: Path, *needles: str) -> str:
    """Return the place of the first of ``needles`` in the template, or else in the document."""
    name, lines = _origin(document)
    if line := _first(lines, needles):
        return _place(name, lines, line - 1)
    line = _first(_lines(document), needles)
    return place_of_line(document, line) if line else name


def place_like(document: Path, read: Sequence[str]) -> str:
    """Return the place in the template behind the last line that TeX or Typst ``read``.

    The place is the line with the longest common text.  If no line is similar enough, the lines
    read before the last are tried, up to ``_WINDOW``.
    """
    name, lines = _origin(document)
    for line in list(filter(str.strip, read))[: -_WINDOW - 1 : -1]:
        common = [_longest_common_length(own, line) for own in lines]
        longest = max(common, default=0)
        if common.count(longest) == 1 and longest >= min(_RELATED, len(line.strip())):
            return _place(name, lines, common.index(longest))
    return name


def place_of_key(bibliography: Path, key: str) -> str:
    """Return the place of the entry ``key`` in the bibliography."""
    lines = enumerate(_lines(bibliography), 1)
    line = next((number for number, line in lines if key in _ENTRY.findall(line)), 1)
    return f"data/{BIBLIOGRAPHY}:{line}: entry {key}"


def refusal(place: str, program: str, words: str) -> RenderError:
    """Return an error of limited length: ``place``, ``words`` of ``program``, and what to do."""
    reason = " ".join(words.split()).rstrip(".")
    space = LONGEST - len(f"{place}: {program} refused it (); fix that place.")
    short = reason if len(reason) <= space else f"{reason[: max(space - 1, 0)].rstrip()}…"
    return RenderError(f"{place}: {program} refused it ({short}); fix that place.")


def pandoc_refusal(document: Path, words: str) -> RenderError:
    """Return an error for a document, from the ``words`` that pandoc printed."""
    text = " ".join(words.split())
    line, math = _LINE.search(text), _MATH.search(words)
    place, reason = name_of(document), text
    if line:
        place, reason = place_of_line(document, int(line[1])), _LINE.sub("", text)
    elif math:
        formula = sorted(math[1].strip().splitlines(), key=len, reverse=True)
        why = math[2].partition("unexpected")[2].partition("expecting")[0]
        place = place_of_text(document, *map(str.strip, formula))
        reason = f"the formula {math[1].strip()}: unexpected {why}"
    return refusal(place, "pandoc", reason)


def filter_problem(document: Path, needle: str, message: str) -> str:
    """Return one problem that the project's filter reported, with its place."""
    key = needle.removeprefix("#")
    figure = f"fig-{PurePosixPath(needle).stem}"
    names = (f"[{quote}{name}{quote}]" for name in (key, figure) for quote in "\"'")
    return f"{place_of_text(document, needle, *names)}: {message}."


def _origin(document: Path) -> tuple[str, list[str]]:
    """Return name and lines of a paper's template, or of the document without template."""
    name = f"{document.stem}.qmd.j2"
    lines = _lines(PAPERS / name)
    return (f"templates/papers/{name}", lines) if lines else (str(document), _lines(document))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _first(lines: Sequence[str], needles: Sequence[str]) -> int | None:
    """Return the number, from 1, of the first line where a needle (tried in turn) ends a word."""
    for needle in needles:
        pattern = re.compile(re.escape(needle) + r"(?![\w-])")
        for number, line in enumerate(lines, 1):
            if pattern.search(line):
                return number
    return None


def _place(name: str, lines: Sequence[str], index: int) -> str:
    """Name a line of a template, with the table or figure that the line prints."""
    printed = _PRINTED.search(lines[index])
    return f"{name}:{index + 1}" + (f": {printed[1]}" if printed else "")


def _longest_common_length(one: str, other: str) -> int:
    return SequenceMatcher(None, one, other, autojunk=False).find_longest_match().size
