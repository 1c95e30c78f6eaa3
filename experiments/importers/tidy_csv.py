"""A table of one's own: columns of factors, and measured ones with their unit, ``time [ms]``."""

from __future__ import annotations

import re
from typing import Final, Literal

from experiments.importers.imported import Imported, Source, environment, scaled
from report.records.quantities import QUANTITIES
from report.records.record import Case, Factor, Sample

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
    return any(map(_MEASURED.fullmatch, source.columns))


def read(source: Source) -> Imported:
    """Rows of equal factors are samples of one case, in their order."""
    header, rows = source.table()
    columns = {name: _column(source, name) for name in header}
    found: dict[tuple[tuple[str, Factor], ...], dict[str, list[Sample]]] = {}
    for line, row in rows:
        levels = tuple((name, _level(cell)) for name, cell in row.items() if not columns[name])
        measured = found.setdefault(levels, {})
        for name, column in columns.items():
            if column and row[name]:
                quantity, factor = column
                number = scaled(row[name], factor, whole=QUANTITIES[quantity].whole)
                if number is None:
                    raise source.refused(f"line {line}, {name}: found {row[name]!r}; fix it")
                measured.setdefault(quantity, []).append(number)
    kind = source.said("kind")
    if kind not in _KINDS:
        raise source.refused(f"--set kind={kind}: possible are {', '.join(_KINDS)}")
    return Imported(
        instrument=source.said("instrument"),
        environment=environment(_KINDS[kind], source.said("device")),
        cases=tuple(
            Case(factors=dict(levels), series={name: tuple(s) for name, s in measured.items()})
            for levels, measured in found.items()
        ),
        unstated="the table does not say it",
        conditions=source.others(("instrument", "kind", "device")),
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
