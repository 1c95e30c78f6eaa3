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

#: Smallest number of characters that a line of the template must have in common with a line read.
_FEWEST_COMMON: Final = 6
#: Largest number of lines before the last one that are compared with the template.
_EARLIER_LINES: Final = 6
#: Expression that prints a table or figure.
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
    matcher = SequenceMatcher(None, lines, written, autojunk=False)
    for _, first, end, first_written, end_written in matcher.get_opcodes():
        if not first_written < line <= end_written:
            continue
        # Blocks with equal numbers of lines correspond line by line, even if lines print values.
        if end - first == end_written - first_written:
            return _place(name, lines, first + line - 1 - first_written)
        if first < end:
            block = lines[first:end]
            common = [_longest_common_length(own, written[line - 1]) for own in block]
            return _place(name, lines, first + common.index(max(common)))
    return name


def place_of_text(document: Path, *needles: str) -> str:
    """Return the place of the first of ``needles`` in the template, or else in the document."""
    name, lines = _origin(document)
    if line := _first_line_with(needles, lines):
        return _place(name, lines, line - 1)
    line = _first_line_with(needles, _lines(document))
    return place_of_line(document, line) if line else name


def place_like(document: Path, read: Sequence[str]) -> str:
    """Return the place in the template behind the last line that TeX or Typst ``read``.

    The place is the only line with the longest common text.  If there is none, or the text is too
    short, up to ``_EARLIER_LINES`` lines that were read before are tried.
    """
    name, lines = _origin(document)
    for line in list(filter(str.strip, read))[: -_EARLIER_LINES - 1 : -1]:
        common = [_longest_common_length(own, line) for own in lines]
        longest = max(common, default=0)
        if common.count(longest) == 1 and longest >= min(_FEWEST_COMMON, len(line.strip())):
            return _place(name, lines, common.index(longest))
    return name


def place_of_key(bibliography: Path, key: str) -> str:
    """Return the place of the entry ``key`` in the bibliography, or of its first line."""
    lines = enumerate(_lines(bibliography), 1)
    line = next((number for number, line in lines if key in _ENTRY.findall(line)), 1)
    return f"data/{BIBLIOGRAPHY}:{line}: entry {key}"


def refusal(place: str, program: str, words: str) -> RenderError:
    """Return an error that quotes the ``words`` of a ``program``, cut to ``LONGEST`` characters."""
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
    """Return a filter's message with the place of its ``needle``, an id or a file."""
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
    """Read the lines of a text; return none if the file cannot be read."""
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _first_line_with(needles: Sequence[str], lines: Sequence[str]) -> int | None:
    """Return the number, from 1, of the first line with the first needle that occurs.

    No letter, digit or hyphen may follow, so that ``fig-1`` is not found in ``fig-12``.
    """
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
