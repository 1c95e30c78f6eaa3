"""A table of one's own: columns of factors, and measured ones with their unit, ``time [ms]``."""

from __future__ import annotations

import csv
import re
from typing import Final, Literal

from experiments.importers.imported import Imported, Source, case, environment, scaled
from report.records.quantities import QUANTITIES
from report.records.record import Factor, Sample

_MEASURED: Final = re.compile(r"(?P<quantity>\w+) \[(?P<unit>[^\]]+)\]")
#: Unit of a column → unit of a quantity and the factor to it.
_UNITS: Final[dict[str, tuple[str, str]]] = {
    **{unit: (unit, "1") for unit in ("s", "B", "MAC", "FLOP", "1", "1/s", "Hz", "W", "°C")},
    "ms": ("s", "1e-3"),
    "us": ("s", "1e-6"),
    "µs": ("s", "1e-6"),
    "ns": ("s", "1e-9"),
    **{f"{p}B": ("B", f) for p, f in (("k", "1e3"), ("M", "1e6"), ("G", "1e9"))},
    **{f"{p}iB": ("B", str(2**n)) for p, n in (("K", 10), ("M", 20), ("G", 30))},
    **{f"{p}{u}": (u, f) for u in ("MAC", "FLOP") for p, f in (("M", "1e6"), ("G", "1e9"))},
    **{f"{p}Hz": ("Hz", f) for p, f in (("M", "1e6"), ("G", "1e9"))},
}
_KINDS: Final[dict[str, Literal["cpu", "cuda"]]] = {"cpu": "cpu", "gpu": "cuda"}


def detects(source: Source) -> bool:
    """Whether a column of the first line names a unit in brackets."""
    cells = source.first_line.split(",")
    return any(_MEASURED.fullmatch(cell.strip('" ')) for cell in cells)


def read(source: Source) -> Imported:
    """Rows of equal factors are samples of one case, in their order."""
    rows = list(csv.reader(source.lines))
    columns = [_column(source, name) for name in rows[0]]
    if len(set(rows[0])) < len(rows[0]):
        raise source.refused("two columns have one name; rename one")
    found: dict[tuple[tuple[str, Factor], ...], dict[str, list[Sample]]] = {}
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(columns):
            raise source.refused(f"line {line}: found {len(row)} cells of {len(columns)}; fix it")
        cells = dict(zip(rows[0], row, strict=True))
        levels = tuple(
            (n, _level(cells[n])) for n, c in zip(rows[0], columns, strict=True) if not c
        )
        measured = found.setdefault(levels, {})
        for name, column in zip(rows[0], columns, strict=True):
            if column and cells[name]:
                quantity, factor = column
                number = scaled(cells[name], factor, whole=QUANTITIES[quantity].whole)
                if number is None:
                    raise source.refused(f"line {line}, {name}: found {cells[name]!r}; fix it")
                measured.setdefault(quantity, []).append(number)
    if not found:
        raise source.refused("found a header and no row; fetch the file again")
    return Imported(
        instrument=source.said("instrument"),
        environment=environment(_kind(source), source.device_or(None)),
        cases=tuple(case(dict(levels), measured) for levels, measured in found.items()),
        unstated="the table does not say it",
        conditions={n: v for n, v in source.given.items() if n not in ("instrument", "kind")},
    )


def _column(source: Source, name: str) -> tuple[str, str] | None:
    """The quantity of a measured column and the factor to its unit; None for a factor."""
    matched = _MEASURED.fullmatch(name)
    if matched is None:
        return None
    quantity, unit = matched["quantity"], matched["unit"]
    if quantity not in QUANTITIES:
        raise source.refused(
            f"column {name}: {quantity} is no quantity of report/records/quantities.py; rename it"
        )
    wanted, factor = _UNITS.get(unit, ("", ""))
    if wanted != QUANTITIES[quantity].unit:
        raise source.refused(
            f"column {name}: {quantity} is measured in {QUANTITIES[quantity].unit}; fix the unit"
        )
    return quantity, factor


def _level(text: str) -> Factor:
    """A whole number where it is one as written, else text."""
    return int(text) if re.fullmatch(r"0|[1-9]\d{0,17}", text) else text


def _kind(source: Source) -> Literal["cpu", "cuda"]:
    kind = source.said("kind")
    if kind not in _KINDS:
        raise source.refused(f"--set kind={kind}: possible are {', '.join(_KINDS)}")
    return _KINDS[kind]
