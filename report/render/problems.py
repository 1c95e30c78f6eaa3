"""Where to fix what a program complains of: in the template, the bibliography or a table's study.

pandoc, TeX and Typst read files that a build has written into a folder of its own, which is gone
when their complaint is read.  The functions here lead back to the files that a person edits, which
are named as the project names them.  A document that was written from no template is named itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath
from typing import Final

from report.core.errors import LONGEST, RenderError

#: Where the templates of the papers lie.
PAPERS: Final = Path(__file__).resolve().parents[2] / "templates" / "papers"
BIBLIOGRAPHY: Final = "references.bib"

#: Fewer characters that two lines have in common are no sign that one was made from the other.
_ALIKE: Final = 6
_BEFORE: Final = 6
_PRINTED: Final = re.compile(r"""\{\{ *(?:tables|figures)\[["']([\w-]+)["']\] *\}\}""")
_ENTRY: Final = re.compile(r"@\w+\s*[{(]\s*([^\s,{}()]+)")
_LINE: Final = re.compile(r" at line (\d+) column \d+")
_MATH: Final = re.compile(r"TeX math (.*?),?\s*rendering as TeX:\s*(.*)$", re.DOTALL)


def name_of(document: Path) -> str:
    """The file from which a document was written; ``document`` has the name of its study."""
    return _origin(document)[0]


def place_of_line(document: Path, line: int) -> str:
    """Where a line of ``document`` comes from, such as ``templates/papers/x.qmd.j2:12``."""
    name, lines = _origin(document)
    written = _lines(document)
    for _, i1, i2, j1, j2 in SequenceMatcher(None, lines, written, autojunk=False).get_opcodes():
        if not j1 < line <= j2:
            continue
        # Lines that differ print something; where they are as many, each stands for one.
        if i2 - i1 == j2 - j1:
            return _place(name, lines, i1 + line - 1 - j1)
        if i1 < i2:
            near = max(range(i1, i2), key=lambda i: _common(lines[i], written[line - 1]))
            return _place(name, lines, near)
    return name


def place_of_text(document: Path, *needles: str) -> str:
    """Where the first of ``needles`` stands, in the template or in what the template prints."""
    name, lines = _origin(document)
    if found := _first(lines, needles):
        return _place(name, lines, found - 1)
    found = _first(_lines(document), needles)
    return place_of_line(document, found) if found else name


def place_like(document: Path, read: Sequence[str]) -> str:
    """Where the last of the lines was made from that TeX or Typst ``read``.

    That is the line which has most in common with it, or with one of those just before, where it is
    no line that anybody wrote.
    """
    name, lines = _origin(document)
    for line in list(filter(str.strip, read))[: -_BEFORE - 1 : -1]:
        common = [_common(own, line) for own in lines]
        best = max(common, default=0)
        if common.count(best) == 1 and best >= min(_ALIKE, len(line.strip())):
            return _place(name, lines, common.index(best))
    return name


def place_of_key(bibliography: Path, key: str) -> str:
    """The line of the entry ``key`` of the bibliography."""
    lines = enumerate(_lines(bibliography), 1)
    line = next((number for number, line in lines if key in _ENTRY.findall(line)), 1)
    return f"data/{BIBLIOGRAPHY}:{line}: entry {key}"


def refusal(place: str, program: str, words: str) -> RenderError:
    """One sentence that is not too long: ``place``, what ``program`` said of it, what to do."""
    said = " ".join(words.split()).rstrip(".")
    room = LONGEST - len(f"{place}: {program} refused it (); fix that place.")
    short = said if len(said) <= room else f"{said[: max(room - 1, 0)].rstrip()}…"
    return RenderError(f"{place}: {program} refused it ({short}); fix that place.")


def pandoc_refusal(document: Path, words: str) -> RenderError:
    """What pandoc said of a document."""
    text = " ".join(words.split())
    line, math = _LINE.search(text), _MATH.search(words)
    place, said = name_of(document), text
    if line:
        place, said = place_of_line(document, int(line[1])), _LINE.sub("", text)
    elif math:
        formula = sorted(math[1].strip().splitlines(), key=len, reverse=True)
        why = math[2].partition("unexpected")[2].partition("expecting")[0]
        place = place_of_text(document, *map(str.strip, formula))
        said = f"the formula {math[1].strip()}: unexpected {why}"
    return refusal(place, "pandoc", said)


def filter_problem(document: Path, needle: str, message: str) -> str:
    """One of the sentences of the project's own filter."""
    key = needle.removeprefix("#")
    figure = f"fig-{PurePosixPath(needle).stem}"
    names = (f"[{quote}{name}{quote}]" for name in (key, figure) for quote in "\"'")
    return f"{place_of_text(document, needle, *names)}: {message}."


def _origin(document: Path) -> tuple[str, list[str]]:
    """The name and the lines of a paper's template, or of the document that has none."""
    name = f"{document.stem}.qmd.j2"
    lines = _lines(PAPERS / name)
    return (f"templates/papers/{name}", lines) if lines else (str(document), _lines(document))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _first(lines: Sequence[str], needles: Sequence[str]) -> int | None:
    """The line, counted from 1, of the first of ``needles`` that stands in one as a whole."""
    for needle in needles:
        pattern = re.compile(re.escape(needle) + r"(?![\w-])")
        for number, line in enumerate(lines, 1):
            if pattern.search(line):
                return number
    return None


def _place(name: str, lines: Sequence[str], index: int) -> str:
    """A line, with the table or figure that it prints."""
    printed = _PRINTED.search(lines[index])
    return f"{name}:{index + 1}" + (f": {printed[1]}" if printed else "")


def _common(one: str, other: str) -> int:
    return SequenceMatcher(None, one, other, autojunk=False).find_longest_match().size
