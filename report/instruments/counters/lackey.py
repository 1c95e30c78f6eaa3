"""What valgrind's lackey prints, read strictly, and the multiply-adds that it means; pure.

``--detailed-counts=yes`` counts operations of valgrind's intermediate language by the type of
their result.  A fused multiply-add of 4 or 8 float32 lanes is lowered to one operation a lane, with
a result of type F32, and a scalar one to one; that column is what is read here.  More facts of that
language decide what the figure is (``lk_main.c`` and ``guest_amd64_toIR.c`` of valgrind 3.19):

- Loads, stores and moves between registers stand in other columns; a conversion to float32 and a
  choice between two float32 values stand in this one.  PyTorch converts two factors for every
  matrix product (``c10::Scalar::toFloat``), so that a linear layer counts two more.
- A separate vector addition or multiplication has a result of type V128 or V256, as logic and
  shuffles have, so that it cannot be told from them and is not counted.  MKL multiplies some small
  matrices so, and then next to nothing is counted.
- The first call of a case also makes its kernel.  For a convolution in channels_last oneDNN weighs
  block sizes with float32 figures, made by 5,295 conversions (``brg_blocking_t::est_eff``,
  ``brgemm_blocking_vmm`` and four more: callgrind's count of those instructions, oneDNN 3.12).
  Hence the difference of a second and a first call, made by processes that are alike up to there:
  it leaves the call alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from report.errors import RecordError
from report.instruments.counters.logs import REMEDY
from report.records.record import Series

TOOL: Final = "lackey"
MULTIPLY_ADDS: Final = "lackey_multiply_adds"
FIRST: Final = "lackey_multiply_adds_first"
BASE: Final = "lackey_multiply_adds_base"

_BANNER: Final = "Lackey, an example Valgrind tool"
_HEADER: Final = ["Type", "Loads", "Stores", "AluOps"]
_NEEDED: Final = ("F32", "F64", "V128", "V256")
_LAST: Final = "D128"
_PREFIX: Final = re.compile(r"^==\d+== ?")
_NUMBER: Final = re.compile(r"\d{1,3}(,\d{3})*")


@dataclass(frozen=True)
class Operations:
    """Operations with a result of one type."""

    loads: int
    stores: int
    alu: int


def parse_log(text: str, place: str) -> dict[str, Operations]:
    """The operations of one process by type (``F32``, ``V256``), from its whole log.

    Raises ``RecordError`` that says what is wrong with a log that is empty, cut off, of another
    program, or written with other separators than valgrind's.
    """
    lines = [_PREFIX.sub("", line).strip() for line in text.splitlines()]
    said = [line for line in lines if line]
    if not said:
        raise RecordError(f"{place}: the log is empty: valgrind ended before it wrote; {REMEDY}.")
    if said[0] != _BANNER:
        raise RecordError(f"{place}: expected lackey's log, found {said[0][:80]!r}; {REMEDY}.")
    start = next((i for i, line in enumerate(lines) if line.split() == _HEADER), None)
    if start is None:
        raise RecordError(f"{place}: the log ends before its table of counts; {REMEDY}.")
    found = dict(
        _row(line, f"{place}: line {number}")
        for number, line in enumerate(lines[start + 2 :], start + 3)
        if line
    )
    lacking = [name for name in (*_NEEDED, _LAST) if name not in found]
    if lacking or not text.endswith("\n"):
        raise RecordError(
            f"{place}: the table of counts is cut off before {lacking[0] if lacking else 'its end'}"
            f"; {REMEDY}."
        )
    return found


def _row(line: str, place: str) -> tuple[str, Operations]:
    name, *numbers = line.split()
    if len(numbers) != 3:
        raise RecordError(f"{place}: expected a type and three counts, found {line!r}; {REMEDY}.")
    return name, Operations(*(_number(number, place) for number in numbers))


def _number(text: str, place: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise RecordError(
            f"{place}: expected a count such as 1,234,567, found {text!r}, which may be cut off or "
            f"written for another locale; {REMEDY}."
        )
    return int(text.replace(",", ""))


def series_of(logs: Mapping[str, str], place: str) -> tuple[Series, ...]:
    """The series of a case from its logs ``base``, ``first`` and, where there is one, ``second``.

    ``lackey_multiply_adds`` is there only if the case was called twice.  Raises ``RecordError``.
    """
    base, first = (_float32(logs, role, place) for role in ("base", "first"))
    counts = {BASE: base, FIRST: first - base}
    if "second" in logs:
        counts[MULTIPLY_ADDS] = _float32(logs, "second", place) - first
    for name, count in counts.items():
        if count < 0:
            raise RecordError(f"{place}: {name}: found {count}, fewer than none; {REMEDY}.")
    return tuple(Series(quantity=n, unit="MAC", samples=(c,)) for n, c in counts.items())


def _float32(logs: Mapping[str, str], role: str, place: str) -> int:
    if role not in logs:
        raise RecordError(f"{place}: there is no log of the {role} process; {REMEDY}.")
    return parse_log(logs[role], f"{place}, {role}")["F32"].alu
