"""Pinned numbers of a paper: the content of ``data/expected/<study>.json``.

A pinned number has nine significant digits, because ``exp``, ``log``, sines and NumPy's sums differ
between systems in the last of 16 digits.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from figures.characters import escape_invisible_in
from report.core.missing import Missing
from report.core.statistics.estimates import Estimate
from report.paper.claims import Claim
from report.paper.findings import Figure, Findings
from report.paper.tables import Table
from report.paper.values import Evaluated

#: Pinned fields of one claim, value, cell, series, table or text.
Item: TypeAlias = dict[str, Any]

_SIGNIFICANT_DIGITS: Final = 9
#: Relative difference up to which two numbers of nine digits count as equal.
TOLERANCE: Final = 2e-8
#: Limit on the numbers of a claim that are pinned one by one.  Of more numbers, only the count, the
#: extremes and the sum are pinned.
_LISTED_NUMBERS: Final = 3
#: Kind of items → name in sentences, in the order in which differences are listed.
KINDS: Final[Mapping[str, str]] = {
    "claims": "claim",
    "values": "value",
    "cells": "cell",
    "series": "series",
    "tables": "table",
    "texts": "text",
}


class Pins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pinned numbers of a paper.

    ``records``: names of the records behind the numbers (time, device, hash of the content).
    ``audits``: reported values that are known to fail their audit.  The other fields map the name
    of an item to the item.
    """

    records: tuple[str, ...] = ()
    audits: tuple[str, ...] = ()
    claims: dict[str, Item] = {}
    values: dict[str, Item] = {}
    cells: dict[str, Item] = {}
    series: dict[str, Item] = {}
    tables: dict[str, Item] = {}
    texts: dict[str, Item] = {}

    def as_text(self) -> str:
        """Write sorted JSON with one item per line, so that version control shows changed items."""
        sections = []
        for field, items in sorted(msgspec.to_builtins(self).items()):
            if isinstance(items, dict):
                opening, closing = "{}"
                lines = [f" {_json(name)}: {_json(items[name])}" for name in sorted(items)]
            else:
                opening, closing = "[]"
                lines = [f" {_json(name)}" for name in sorted(items)]
            body = "\n".join([opening, ",\n".join(lines), closing]) if lines else opening + closing
            sections.append(f"{_json(field)}: {body}")
        return "{\n" + ",\n".join(sections) + "\n}\n"


class ChangedItem(NamedTuple):
    """An item whose ``pinned`` content differs from its content ``now``; None for no content."""

    kind: str
    name: str
    pinned: Item | None
    now: Item | None

    @property
    def is_outside(self) -> bool:
        """True if the number left its pinned interval, or changed and has no pinned interval.

        Also true if the item or its number is new or gone; false for items without a number.
        """
        if self.pinned is None or self.now is None:
            return True
        old, new = self.pinned.get("number"), self.now.get("number")
        low, high = self.pinned.get("interval") or (old, old)
        if old is None or new is None:
            return old is not new
        return not (low <= new <= high or _same(old, new))

    @property
    def changed_fields(self) -> tuple[str, str]:
        """Changed fields as pinned, and changed fields as they are now; "" for a missing item."""
        old, new = self.pinned or {}, self.now or {}
        changed = [field for field in {**new, **old} if not _same(old.get(field), new.get(field))]
        texts = []
        for item in (old, new):
            contents = [f"{field} {_json(item[field])}" for field in changed if field in item]
            texts.append(", ".join(contents))
        return texts[0], texts[1]

    @property
    def sentence(self) -> str:
        """Description of the item, with the new and the pinned content of its changed fields."""
        item, (pinned, now) = f"{KINDS[self.kind]} {self.name}", self.changed_fields
        if self.pinned is None or self.now is None:
            return f"{item} is {'new' if self.pinned is None else 'gone'}: {pinned or now}."
        return f"{item}: {now} (pinned: {pinned})."


def pins_of(findings: Findings, records: Iterable[str]) -> Pins:
    """Pin the findings of a study, computed from the records named ``records``."""
    tables = {}
    for id, table in findings.tables.items():
        headings = [column.heading for column in table.columns]
        tables[id] = {"headings": headings, "rows": len(table.rows), "wide": table.wide}
    content: dict[str, Any] = {
        "records": sorted(records),
        "audits": sorted(
            f"{check.derived.place}: {check.formula}"
            for check in findings.audits
            if check.verdict == "differs"
        ),
        "claims": {id: _claim(claim) for id, claim in findings.claims.items()},
        "values": {id: _item(v.number, v.unit, v.plain) for id, v in findings.values.items()},
        "cells": dict(_all_cells(findings.tables.values())),
        "series": dict(_all_series(findings.figures.values())),
        "tables": tables,
        "texts": {id: {"text": t} for id, t in findings.facts.items() if isinstance(t, str)},
    }
    return msgspec.convert(escape_invisible_in(content), Pins)


def changed_items(pinned: Pins, now: Pins) -> list[ChangedItem]:
    """List the items that differ; items with ``is_outside`` come first."""
    changed: list[ChangedItem] = []
    for kind in KINDS:
        old, new = getattr(pinned, kind), getattr(now, kind)
        for name in {**new, **old}:
            if not _same(old.get(name), new.get(name)):
                changed.append(ChangedItem(kind, name, old.get(name), new.get(name)))
    return sorted(changed, key=attrgetter("is_outside"), reverse=True)


def _same(old: Any, new: Any) -> bool:
    """Return whether contents are equal; floating-point numbers may differ by ``TOLERANCE``."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_same(old[key], new[key]) for key in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_same, old, new))
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=TOLERANCE)
    return bool(old == new)


def _item(content: Evaluated | str, unit: str, printed: str) -> Item:
    """Pin a number with unit, interval and ``printed`` text; or a text; or a gap's reason."""
    if isinstance(content, str):
        return {"text": printed}
    if isinstance(content, Missing):
        return {"missing": content.reason}
    if not isinstance(content, Estimate):
        return {"number": _round(content), "unit": unit, "printed": printed}
    ends = [_round(content.low), _round(content.high)]
    item: Item = {"number": _round(content.value), "unit": unit}
    if content.level is None:
        return item | {"range": ends, "printed": printed}
    return item | {"interval": ends, "level": _round(content.level), "printed": printed}


def _claim(claim: Claim) -> Item:
    """Pin the verdict, the compared numbers, and the bounds of the ranges in which it holds."""
    numbers, lows, highs = list[float](), list[float](), list[float]()
    for result, low, high in claim.compared:
        if not isinstance(result, Missing):
            numbers.append(_round(result.value if isinstance(result, Estimate) else result))
        lows += [low] if math.isfinite(low) else []
        highs += [high] if math.isfinite(high) else []
    return {
        "verdict": claim.verdict,
        "because": claim.because,
        "numbers": _list_or_summary(numbers),
        "above": _list_or_summary(lows),
        "below": _list_or_summary(highs),
    }


def _all_cells(tables: Iterable[Table]) -> Iterator[tuple[str, Item]]:
    """Yield the cells of all tables, named by table, first cell of the row, and heading."""
    for table in tables:
        row_names = _distinct(row[0][0] for row in table.texts())
        for row_name, cells in zip(row_names, table.rows, strict=True):
            for column, cell in zip(table.columns, cells, strict=True):
                name = f"{table.id}, {row_name}, {column.heading}"
                yield name, _item(cell, column.unit, column.text(cell))


def _all_series(figures: Iterable[Figure]) -> Iterator[tuple[str, Item]]:
    """Yield the series of all figures, named by figure, panel and label."""
    for figure in figures:
        series: dict[tuple[Any, ...], list[Sequence[Any]]] = defaultdict(list)
        for panel, label, *point in figure.drawing.data():
            _, x_label, _, y_label, *_ = point
            series[panel, label, x_label, y_label].append(point)
        names = [", ".join(filter(None, (figure.id, *key[:2]))) for key in series]
        for name, points in zip(_distinct(names), series.values(), strict=True):
            yield name, _series(points)


def _series(points: Sequence[Sequence[Any]]) -> Item:
    """Pin one series; a point has the columns of ``figures.panels.COLUMNS`` from ``name`` on."""
    names, x_label, xs, y_label, ys, lows, highs = zip(*points, strict=True)
    item: Item = {"unit": y_label[0]}
    if x_label[0]:
        item["over"] = x_label[0]
    known = _rounded_numbers(ys)
    item |= _summary(known)
    if known:
        item |= {"first": known[0], "last": known[-1]}
    for kind, column in {"places": xs, "lows": lows, "highs": highs}.items():
        if numbers := _rounded_numbers(column):
            item[f"sum of {kind}"] = _summary(numbers)["sum"]
    if any(names):
        item["names"] = list(dict.fromkeys(filter(None, names)))
    return item


def _rounded_numbers(column: Iterable[float | None]) -> list[float | int]:
    """Round the numbers of a column, and drop its missing numbers."""
    return [_round(number) for number in column if number is not None]


def _distinct(names: Iterable[str]) -> Iterator[str]:
    """Make names distinct: append (2), (3) and so on to the repetitions of a name."""
    seen: Counter[str] = Counter()
    for name in names:
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name} ({seen[name]})"


def _list_or_summary(numbers: Sequence[float]) -> list[float | int] | Item:
    """Pin up to ``_LISTED_NUMBERS`` numbers one by one, and more numbers by their summary."""
    return [*map(_round, numbers)] if len(numbers) <= _LISTED_NUMBERS else _summary(numbers)


def _summary(numbers: Sequence[float]) -> Item:
    """Pin the count, the extremes and the sum of numbers."""
    if not numbers:
        return {"count": 0}
    return {
        "count": len(numbers),
        "smallest": _round(min(numbers)),
        "largest": _round(max(numbers)),
        "sum": _round(math.fsum(numbers)),
    }


def _round(number: float) -> float | int:
    """Round to ``_SIGNIFICANT_DIGITS``; leave integers as they are."""
    return number if isinstance(number, int) else float(f"{number:.{_SIGNIFICANT_DIGITS}g}")


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False)
