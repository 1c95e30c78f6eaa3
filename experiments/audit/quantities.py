"""Quantities of a table: which heading is which, and the number, digits and unit of each cell."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from experiments.audit.definitions import (
    PREFIXES,
    QUANTITIES,
    SMALL_PREFIXES,
    UNITS,
    WHOLE_UNITS,
)
from experiments.audit.tables import TextTable
from report.core.errors import UsageError
from report.theory.rounding import Rounded

_NUMBER: Final = re.compile(
    r"[~≈]?\s*((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)"
    r"(?:\s*(?:e|[×x]\s*10\s*\^?)\s*([+-]?\d{1,2}))?\s*([^\d.,].*|)",
    re.IGNORECASE,
)
_PER_DEVICE: Final = re.compile(r"(?:/|per[ -])\s*(?:gpu|device|chip|card|accelerator)s?", re.I)


class AuditedCell(NamedTuple):
    """A number in units without prefix; ``scale`` is the printed unit in such units."""

    number: Rounded
    scale: Fraction
    text: str


def columns(table: TextTable, named: Mapping[str, str]) -> dict[str, int]:
    """Return the position of each quantity's column; ``named`` maps quantities to headings.

    Raises ``UsageError`` for a heading with two meanings, or two headings with one.
    """
    headings = table.headings
    for name, heading in named.items():
        require_known(name, "--column", name, "quantity", tuple(QUANTITIES))
        require_known(heading, "--column", name, "heading", headings)
    result = {name: headings.index(heading) for name, heading in named.items()}
    for index, heading in enumerate(headings):
        if heading in named.values():
            continue
        meanings = [name for name in _meanings(heading) if name not in named]
        if len(meanings) > 1:
            options = " or ".join(f'--column {name}="{heading}"' for name in meanings)
            raise UsageError(f"The heading {heading!r} has several meanings; give {options}.")
        for name in meanings:
            if name in result:
                raise UsageError(
                    f"The headings {headings[result[name]]!r} and {heading!r} both mean {name}; "
                    f'give --column {name}="{heading}" or the other one.'
                )
            result[name] = index
    return result


def require_known(word: str, option: str, name: str, kind: str, known: tuple[str, ...]) -> None:
    """Raise ``UsageError`` with the nearest known words if ``word`` is none of them."""
    if word not in known:
        near = difflib.get_close_matches(word, known, cutoff=0.5) or known
        raise UsageError(f"{option} {name}: no such {kind}; possible are {', '.join(near)}.")


def _meanings(heading: str) -> list[str]:
    """Return the quantities that a heading names, by its words outside brackets."""
    bare = _PER_DEVICE.sub("", re.sub(r"\(.*?\)|\[.*?\]|%", "", heading))
    words = " ".join(re.findall(r"[a-z]+", bare.casefold()))
    names = [name for name, (_, headings) in QUANTITIES.items() if words in headings]
    if len(names) < 2:
        return names
    by_unit = [name for name in names if _unit_of_heading(heading, QUANTITIES[name][0])]
    return by_unit if len(by_unit) == 1 else names


def read_cell(
    name: str, text: str, heading: str = "", devices: Fraction = Fraction(1)
) -> AuditedCell | None:
    """Read a number with its unit, from the heading if the cell has none; None without either.

    A number per device is multiplied by the number of ``devices``.
    """
    matched = _NUMBER.fullmatch(text.strip())
    if matched is None:
        return None
    digits, exponent, unit = matched.groups()
    kind = QUANTITIES[name][0]
    number = Rounded.printed(digits.replace(",", ""))
    own = _PER_DEVICE.sub("", unit).strip()
    scale = _scale(own, kind) if own else _unit_of_heading(heading, kind)
    default = UNITS[kind][1]
    if scale is None and not own and default is not None:
        is_percent = name in ("mfu", "bandwidth_use") and number.value > 2
        scale = Fraction(default, 100 if is_percent else 1)
    if scale is None or not number.value:
        return None
    if kind == "count" and not own and scale == 1 and number.value.denominator == 1:
        number = Rounded.exact(number.value)
    if _PER_DEVICE.search(heading + unit):
        scale *= devices
    return AuditedCell(number.scaled(scale * Fraction(10) ** int(exponent or 0)), scale, text)


def _unit_of_heading(heading: str, kind: str) -> Fraction | None:
    """Return the scale of a heading's unit: in brackets or, except for counts, as a word."""
    bracketed = re.findall(r"[(\[](.*?)[)\]]", heading)
    words = [] if kind == "count" else [heading, *heading.split()]
    for text in (*bracketed, *words):
        unit = _PER_DEVICE.sub("", text).strip()
        scale = _scale(unit, kind) if unit else None
        if scale is not None:
            return scale
    return None


def _scale(unit: str, kind: str) -> Fraction | None:
    """Return the scale of a unit in units without prefix; None for a unit of another kind."""
    whole = WHOLE_UNITS.get(kind, {})
    if unit in whole or kind == "share":
        return whole.get(unit)
    small = SMALL_PREFIXES if kind in ("time", "power", "energy") else {}
    for prefix, factor in {**PREFIXES, **small}.items():
        base = unit.removeprefix(prefix).strip()
        if unit.startswith(prefix) and re.fullmatch(UNITS[kind][0], base):
            return factor * {"mac": 2, "macs": 2, "wh": 3600}.get(base.casefold(), 1)
    return None
