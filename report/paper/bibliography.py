"""The bibliography: whole entries, each with a key of its own.

A damaged entry would swallow the next one without a word, in pandoc as in BibTeX.
"""

from __future__ import annotations

import re
from typing import Final

from report.errors import RecordError
from report.records.strict import byte_at

_REMEDY: Final = "fix the entry, or restore the file with git"
_START: Final = re.compile(r"^(?=@)", re.MULTILINE)
_HEAD: Final = re.compile(r"@[A-Za-z]+\{\s*([A-Za-z0-9][\w:./+-]*)\s*,")


def check_bibliography(content: bytes, place: str) -> None:
    """Raise ``RecordError`` for the first fault; ``place`` names the file."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RecordError(f"{place}: line {line}: found {byte_at(error)}; {_REMEDY}.") from error
    before, *entries = _START.split(text)
    line, keys = 1 + before.count("\n"), set[str]()
    for entry in entries:
        head = _HEAD.match(entry)
        key = head[1] if head else entry[:30].partition("\n")[0]
        fault = None
        if head is None:
            fault = "expected @type{key, with a key of letters and digits"
        elif entry.count("{") != entry.count("}"):
            fault = "its braces do not close"
        elif key.lower() in keys:
            fault = "found this key twice"
        if fault:
            raise RecordError(f"{place}: line {line}, entry {key}: {fault}; {_REMEDY}.")
        keys.add(key.lower())
        line += entry.count("\n")
