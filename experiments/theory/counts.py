"""What theory counts of the networks of timm: ``data/networks-of-timm.csv``, one row a network.

``python -m experiments.theory.survey`` writes it, from networks that were captured
operator by operator on tensors without memory.  Nothing is measured: all follows from shapes.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import msgspec

from report.errors import RecordError
from report.records.files import read_file
from report.records.strict import place_of, repeated

COUNTS: Final = "networks-of-timm.csv"
_REMEDY: Final = "restore the file with git"
#: An element as it was captured (B).
_ELEMENT: Final = 4
#: How the last line begins, without which a file that is cut short would be read as a whole one.
_TOTAL: Final = "total"

Count = Annotated[int, msgspec.Meta(ge=0)]


class Counts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What theory counts of one network on one image, or why it ``refused``.

    ``own_parameters`` are those of the module, ``torch_multiply_adds`` half of what torch's
    ``FlopCounterMode`` says of the same call.  It does not know some operators (``uncounted``),
    whose multiply-adds are ``uncounted_multiply_adds``.  ``bytes`` are compulsory traffic.
    ``outputs`` are elements that convolutions and products make; attention stands apart:
    its multiply-adds, its results and its scores, which are in memory only where it is not fused.
    """

    network: str
    family: str
    image: str
    refused: str = ""
    parameters: Count = 0
    own_parameters: Count = 0
    multiply_adds: Count = 0
    torch_multiply_adds: Count = 0
    uncounted_multiply_adds: Count = 0
    uncounted: str = ""
    bytes: Count = 0
    outputs: Count = 0
    attention_multiply_adds: Count = 0
    attention_outputs: Count = 0
    attention_scores: Count = 0

    @property
    def exact(self) -> bool:
        """Whether parameters and multiply-adds are those of the module and of torch's counter."""
        counted = self.multiply_adds - self.uncounted_multiply_adds
        return self.parameters == self.own_parameters and counted == self.torch_multiply_adds

    @property
    def side(self) -> int:
        """Pixels a side of the image."""
        return int(self.image.rpartition("x")[2])

    @property
    def moved(self) -> float:
        """Elements that operators read and write of one image, one operator after another.

        Each operator reads each operand once and writes its result; parameters are left out.
        """
        return self.bytes / _ELEMENT - self.parameters


def write_counts(path: Path, found: Iterable[Counts]) -> None:
    """One row a network, in the order of their names; the last line says how many they are."""
    ordered = sorted(found, key=lambda one: one.network)
    with path.open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(Counts.__struct_fields__)
        rows.writerows(map(msgspec.structs.astuple, ordered))
        rows.writerow((_TOTAL, len(ordered)))


def read_counts(path: Path) -> tuple[Counts, ...]:
    """What ``write_counts`` wrote; none without a file.  Raises ``RecordError``."""
    if not path.exists() and not path.is_symlink():
        return ()
    place = place_of(path)
    text = read_file(path, place, _REMEDY, path.parent).decode("utf-8", "replace")
    *lines, last = text.splitlines() or [""]
    if not text.endswith("\n") or last != f"{_TOTAL},{len(lines) - 1}":
        raise RecordError(
            f"{place}: line {len(lines) + 1}: expected {_TOTAL},{len(lines) - 1}, found {last!r}, "
            f"so that rows are missing; {_REMEDY}."
        )
    found = []
    for line, row in enumerate(csv.DictReader(lines, restkey=""), start=2):
        try:
            each = msgspec.convert(row, Counts, strict=False)
            assert each.side > 0 and row.keys() <= set(Counts.__struct_fields__)
        except (msgspec.ValidationError, ValueError, AssertionError) as error:
            why = str(error) or "found another number or other names of columns"
            raise RecordError(f"{place}: line {line}: {why}; {_REMEDY}.") from error
        found.append(each)
    if twice := repeated(each.network for each in found):
        raise RecordError(f"{place}: the network {twice!r} stands twice; {_REMEDY}.")
    return tuple(found)
