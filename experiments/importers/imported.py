"""What an importer is given and what it gives back."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, Literal

from report.core.errors import RecordError
from report.core.records.files import unpacked
from report.core.records.imported import ImportedEnvironment
from report.core.records.quantities import LARGEST
from report.core.records.record import Case, Factor, Sample

#: What to do about a published file that cannot be used.
FETCH_AGAIN: Final = "fetch the published file again"


@dataclass(frozen=True)
class Source:
    """A published file, and what its user says of it where the file does not.

    ``given`` are conditions such as the precision, and under ``device`` the full name of the
    machine's device.  The content is read once; a gzipped file is unpacked.
    """

    name: str
    raw: bytes
    given: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def content(self) -> bytes:
        """The file without its compression; raises ``RecordError`` for a damaged one."""
        return unpacked(self.raw, self.name, "fetch it again, or cut it")

    @cached_property
    def text(self) -> str:
        """The content as UTF-8; raises ``RecordError`` for anything else."""
        try:
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self.refused(f"byte {error.start} is no UTF-8 text; fetch it again") from error

    @property
    def columns(self) -> list[str]:
        """What stands between the commas of the first line, which heads a table."""
        first = self.content.partition(b"\n")[0].decode("utf-8", "replace")
        return [cell.strip('" ') for cell in first.strip().removeprefix("\ufeff").split(",")]

    def table(self) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
        """The header of a table, and its rows but empty ones, each with the number of its line.

        Raises ``RecordError`` for a table without rows, or with a damaged one.
        """
        if not self.text.endswith("\n"):
            raise self.refused("it ends in the middle of a line; fetch it again")
        reader = csv.reader(self.text.splitlines())
        header = [name.strip() for name in next(reader)]
        rows = [(reader.line_num, row) for row in reader if row]
        if len(set(header)) < len(header):
            raise self.refused("two columns have one name; rename one")
        if not rows:
            raise self.refused("found a header and no row; fetch it again")
        for line, row in rows:
            if len(row) != len(header):
                counts = f"{len(row)} cells of {len(header)}"
                raise self.refused(f"line {line}: found {counts}; fetch it again")
        return header, [(line, dict(zip(header, row, strict=True))) for line, row in rows]

    def said(self, name: str, by_file: str | None = None) -> str:
        """The condition ``name`` as the file or its user tells it; refuses none and two."""
        given = self.given.get(name)
        option = "--device " if name == "device" else f"--set {name}="
        if by_file and given and by_file != given:
            raise self.refused(f"{option}{given}: the file says {by_file}; drop the option")
        if found := given or by_file:
            return found
        raise self.refused(f"it does not say the {name}; give it with {option}…")

    def others(self, known: Collection[str]) -> dict[str, Factor]:
        """The conditions that the user gave, but for those ``known``."""
        return {name: value for name, value in self.given.items() if name not in known}

    def refuse_others(self, possible: Collection[str]) -> None:
        """Refuse conditions that are none of the ``possible`` ones, nor the device."""
        for name in self.others(("device", *possible)):
            raise self.refused(f"--set {name}: possible are {', '.join(possible)}; fix it")

    def refused(self, what: str) -> RecordError:
        """An error that names this file, ``what`` was found and what to do."""
        return RecordError(f"{self.name}: {what}.")


@dataclass(frozen=True)
class Imported:
    """All that a published file says, in the project's units.

    ``conditions`` hold for all ``cases``.  ``rounding`` is the step to which the file rounds a
    quantity, in its unit.  ``missing`` gives reasons by the names of
    the fields of a record and for more that a reader would ask for; whatever is null
    and not named there is missing because of ``unstated``.
    """

    instrument: str
    environment: ImportedEnvironment
    cases: tuple[Case, ...]
    unstated: str
    conditions: Mapping[str, Factor] = field(default_factory=dict)
    rounding: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


def environment(device: Literal["cpu", "cuda"], model: str, **known: Any) -> ImportedEnvironment:
    """The machine with what is ``known`` of it; its key comes from the name of the device."""
    key = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-") or "unnamed"
    return ImportedEnvironment(device=device, key=key, model=model, **known)


def scaled(text: str, factor: str, *, whole: bool = False) -> Sample | None:
    """The printed number times ``factor``, without the errors of binary fractions.

    None for what is no finite number of at least 0, or no whole one where that is asked for.
    """
    try:
        number = Decimal(text.strip()) * Decimal(factor)
    except ArithmeticError:
        return None
    if not (number.is_finite() and 0 <= number <= LARGEST) or (
        whole and number != number.to_integral_value()
    ):
        return None
    return int(number) if whole else float(number)
