"""The file beside a record with the output of a counting program for every case.

The file is gzipped JSON.  The counts in the record can be computed again from the file.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

import msgspec

from report.core.errors import RecordError
from report.core.records import strict
from report.core.records.files import gzipped, unpacked

REMEDY: Final = "restore the file with git, or run the experiment again"


class CaseLogs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Printed texts of one case; ``case`` is its index in the record.

    ``logs``: name of a text, such as ``table`` or a run of the program → text.
    """

    case: int
    logs: dict[str, str]


class _LogFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of the file; ``tool`` is the counting program."""

    tool: str
    cases: tuple[CaseLogs, ...]


def attachment_name(tool: str) -> str:
    """Return the name of the file beside the record."""
    return f"{tool}.json.gz"


def pack(tool: str, cases: Iterable[CaseLogs]) -> bytes:
    """Encode the file as gzipped JSON, with the cases in the order of the record."""
    content = _LogFile(tool=tool, cases=tuple(sorted(cases, key=attrgetter("case"))))
    text = msgspec.json.encode(content, order="deterministic")
    return gzipped(msgspec.json.format(text, indent=1))


def join_logs(one: bytes, other: bytes, place: str) -> bytes:
    """Join the files of two shards (parts of one run); raise ``RecordError`` as ``unpack`` does."""
    if one == other:
        return one
    file = _read(one, place)
    other_cases = unpack(other, file.tool, place)
    return pack(file.tool, (*file.cases, *other_cases))


def unpack(content: bytes, tool: str, place: str) -> tuple[CaseLogs, ...]:
    """Read the logs in a file of ``tool``; messages of ``RecordError`` begin with ``place``."""
    file = _read(content, place)
    if file.tool != tool:
        raise RecordError(f"{place}: tool: expected {tool}, found {file.tool}; {REMEDY}.")
    return file.cases


def _read(content: bytes, place: str) -> _LogFile:
    """Parse a file of ``pack``, whose digest the record contains."""
    text = unpacked(content, place, REMEDY)
    return strict.parse_json(text, _LogFile, place, REMEDY, unaltered=True)
