"""Input and output of the functions that read published files: a file, and its content."""

import csv
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, Literal

from report.core.errors import RecordError
from report.core.records.files import unpacked
from report.core.records.quantities import LARGEST
from report.core.records.record import Case, ImportedEnvironment, Level, Sample

#: Remedy, in error messages, for a published file that cannot be used.
FETCH_AGAIN: Final = "fetch the published file again"


@dataclass(frozen=True)
class ImportSource:
    """Published file, and facts from the user that the file does not state.

    ``raw`` are the bytes of the file, which may be gzipped.  ``user_facts`` maps names to facts:
    conditions such as the precision, and the full name of the device under ``device``.
    """

    name: str
    raw: bytes
    user_facts: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def content(self) -> bytes:
        """Bytes of the uncompressed file; raises ``RecordError`` if the file is damaged."""
        return unpacked(self.raw, self.name, "fetch it again, or cut it")

    @cached_property
    def text(self) -> str:
        """Content as text; raises ``RecordError`` if it is not UTF-8."""
        try:
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self.error(f"byte {error.start} is no UTF-8 text; fetch it again") from error

    def table(self) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
        """Return the header of a table, and its non-empty rows as (line number, cell by heading).

        Raises ``RecordError`` for a table without rows, with two columns of one name, with a row
        of too few or too many cells, or without an end of line after the last row.
        """
        if not self.text.endswith("\n"):
            raise self.error("it ends in the middle of a line; fetch it again")
        reader = csv.reader(self.text.splitlines())
        header = [name.strip() for name in next(reader)]
        rows = [(reader.line_num, row) for row in reader if row]
        if len(set(header)) < len(header):
            raise self.error("two columns have one name; rename one")
        if not rows:
            raise self.error("found a header and no row; fetch it again")
        for line, row in rows:
            if len(row) != len(header):
                counts = f"{len(row)} cells of {len(header)}"
                raise self.error(f"line {line}: found {counts}; fetch it again")
        return header, [(line, dict(zip(header, row, strict=True))) for line, row in rows]

    def resolve_condition(self, name: str, by_file: str | None = None) -> str:
        """Return a condition that the user or the file (``by_file``) states.

        Raises ``RecordError`` if neither states it, or if they contradict each other.
        """
        by_user = self.user_facts.get(name)
        option = "--device " if name == "device" else f"--set {name}="
        if by_file and by_user and by_file != by_user:
            raise self.error(f"{option}{by_user}: the file says {by_file}; drop the option")
        value = by_user or by_file
        if value:
            return value
        raise self.error(f"it does not say the {name}; give it with {option}…")

    def conditions_except(self, names: Collection[str]) -> dict[str, Level]:
        """Return the facts that the user states, except those in ``names``."""
        return {name: value for name, value in self.user_facts.items() if name not in names}

    def refuse_unknown_conditions(self, possible: Collection[str]) -> None:
        """Raise ``RecordError`` if a stated fact is neither ``possible`` nor the device."""
        for name in self.conditions_except(("device", *possible)):
            raise self.error(f"--set {name}: possible are {', '.join(possible)}; fix it")

    def error(self, reason: str) -> RecordError:
        """Return an error with the name of this file; ``reason`` ends with a remedy."""
        return RecordError(f"{self.name}: {reason}.")


@dataclass(frozen=True)
class Imported:
    """Content of a published file, in the project's units.

    ``instrument`` names the program that measured.  ``conditions`` hold for all ``cases``.
    ``rounding`` maps a quantity to the step to which the file rounds it, in the quantity's unit.
    ``missing`` maps facts that the file lacks to reasons.  ``unstated`` is the reason for all other
    null fields of the record.
    """

    instrument: str
    environment: ImportedEnvironment
    cases: tuple[Case, ...]
    unstated: str
    conditions: Mapping[str, Level] = field(default_factory=dict)
    rounding: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


def environment(device: Literal["cpu", "cuda"], model: str, **known: Any) -> ImportedEnvironment:
    """Return an environment with the ``known`` facts, and a key derived from ``model``."""
    key = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-") or "unnamed"
    return ImportedEnvironment(device=device, key=key, model=model, **known)


def scaled(text: str, factor: str, *, whole: bool = False) -> Sample | None:
    """Multiply a printed number by ``factor`` in decimal arithmetic, without binary rounding.

    Returns None unless the result is finite, at least 0, and (if ``whole``) a whole number.
    """
    try:
        number = Decimal(text.strip()) * Decimal(factor)
    except ArithmeticError:
        return None
    if not number.is_finite() or not 0 <= number <= LARGEST:
        return None
    if whole and number != number.to_integral_value():
        return None
    return int(number) if whole else float(number)
