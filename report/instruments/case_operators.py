"""Operators of a case whose module has no description by layers, in a file beside the record.

The file holds the operators of one forward call, captured on tensors without memory, or the reason
why there are none.  Theory follows from them as for any network (``report.theory.network``).
"""

from __future__ import annotations

import gzip
from typing import Final

import msgspec

from report.core.records.files import unpacked
from report.core.records.operations import Network
from report.core.records.record import Environment, Factor
from report.core.records.strict import parse_json
from report.theory.conditions import conditions_of
from report.theory.network import Theory

#: Names of the files.
PATTERN: Final = "operators-*.json.gz"
MEANING: Final = "operators of one forward call, captured on tensors without memory"
_REMEDY: Final = "restore the file with git, or measure again"


class CaseOperators(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Operators of a case, or the ``reason`` why they could not be captured."""

    factors: dict[str, Factor]
    torch: str
    network: Network | None = None
    reason: str | None = None

    def theory(self, environment: Environment) -> Theory | None:
        """Return the theory of the call on the machine of a record; None without operators."""
        return Theory(self.network, conditions_of(environment)) if self.network else None


def file_name(case: int) -> str:
    """Name the file of the case with this number."""
    return PATTERN.replace("*", str(case))


def pack(operators: CaseOperators) -> bytes:
    """Encode the operators of a case, with the arguments of each in their order."""
    return gzip.compress(msgspec.json.encode(operators), mtime=0)


def unpack(content: bytes, place: str) -> CaseOperators:
    """Decode a file of ``pack``; raises ``RecordError`` if it is damaged."""
    return parse_json(unpacked(content, place, _REMEDY), CaseOperators, place, _REMEDY)
