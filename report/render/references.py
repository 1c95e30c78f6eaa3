"""The entries of a bibliography that a paper cites."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

#: Where an entry of a bibliography begins: its kind and its key.
_ENTRY = re.compile(r"^[ \t]*@(\w+)\s*[{(]\s*([^,\s]*)", re.MULTILINE)
_PARENT = re.compile(r"\b(?:crossref|xdata)\s*=\s*[{\"]?\s*([^}\",\s]+)", re.IGNORECASE)
#: Kinds of entries that nobody cites and others need.
_FOR_OTHERS: Final = ("string", "preamble")


def cited_entries(
    bibliography: str, cites: Callable[[str], bool], *, keep_lines: bool = False
) -> str:
    """The entries of a BibTeX file whose keys a paper ``cites``, and those that they build on.

    With ``keep_lines`` each stands in the same line as before, after lines that are empty.
    """
    starts = list(_ENTRY.finditer(bibliography))
    if not starts:
        return bibliography
    ends = [each.start() for each in starts[1:]] + [len(bibliography)]
    entries = [
        (each, bibliography[each.start() : end]) for each, end in zip(starts, ends, strict=True)
    ]
    parents = {each[2]: set(_PARENT.findall(text)) for each, text in entries}
    wanted = {key for key in parents if cites(key)}
    while more := {parent for key in wanted for parent in parents.get(key, ())} - wanted:
        wanted |= more
    before = bibliography[: starts[0].start()]
    pieces = [(False, before)] + [
        (each[2] in wanted or each[1].lower() in _FOR_OTHERS, text) for each, text in entries
    ]
    return "".join(
        text if kept else "\n" * text.count("\n") if keep_lines else "" for kept, text in pieces
    )
