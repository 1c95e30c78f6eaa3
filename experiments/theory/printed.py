"""A network's theory as text: tables and sums, or one JSON object."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from experiments.harness.isolated import ROOT
from experiments.harness.study import UsageError
from report.evidence.devices import Operation, read_devices
from report.theory.network import HEADINGS, Row, Theory
from report.theory.roofline import Roof, sheet_roof

#: With more modules the table shows those with most multiply-adds.
_MODULES: Final = 40


def sheet(name: str, dtype: str) -> Roof:
    """The data-sheet roof of a device; raises ``UsageError`` for one that is not there."""
    devices = read_devices(ROOT / "data" / "devices.yaml")
    begins = (d for d in devices.devices if d.key.startswith(name.casefold()))
    device = devices.find(name) or next(begins, None)
    operation: Operation = dtype  # type: ignore[assignment]
    arithmetic = device.peak(operation) if device else None
    memory = device.peak("memory") if device else None
    if device is None or arithmetic is None or memory is None:
        known = ", ".join(d.key for d in devices.devices if d.peak(operation) and d.peak("memory"))
        raise UsageError(f"--device-peaks {name}: no peaks in {dtype}; known are {known}.")
    return sheet_roof(arithmetic.rate, memory.rate)


def least_time(found: Theory, roof: Roof) -> float:
    """Seconds that the operators take at least, one by one, each at the nearer ceiling."""
    return sum(
        max(each.flops / roof.peak.value, each.bytes / roof.bandwidth.value)
        for each in found.loads
        if each is not None
    )


def as_json(found: Theory, roof: Roof | None) -> str:
    content: dict[str, Any] = {
        "parameters": found.parameters,
        "unused_parameters": list(found.network.unused),
        "multiply_adds": found.multiply_adds,
        "bytes": found.bytes,
        "peak_bytes": found.peak.total if found.peak else None,
        "complete": found.complete,
        "may_take_more": list(found.may_take_more),
        "refused": list(found.refused),
        "kinds": [asdict(row) for row in found.by_kind],
        "modules": [asdict(row) for row in found.by_module],
    }
    if roof is not None and not found.refused:
        content["least_time_s"] = least_time(found, roof)
    return json.dumps(content, ensure_ascii=False, indent=1)


def as_tables(found: Theory, roof: Roof | None) -> str:
    """Two tables and the sums."""
    modules = sorted(found.by_module, key=lambda row: -row.multiply_adds)[:_MODULES]
    shown = [row for row in found.by_module if row in modules]
    parts = [_table("Module", shown), _table("Operators", found.by_kind), _sums(found)]
    if roof is not None and not found.refused:
        parts.append(f"Least time on this roof: {1e3 * least_time(found, roof):.4g} ms")
    return "\n\n".join(parts)


def _sums(found: Theory) -> str:
    lines = [f"Parameters: {found.parameters:,}"]
    if unused := found.network.unused:
        lines.append(f"Never read: {', '.join(unused)}")
    if not found.refused:
        lines.append(f"Multiply-adds: {found.multiply_adds:,}")
        lines.append(f"Compulsory traffic: {found.bytes:,} B, operator by operator")
    if found.peak is not None:
        least = "" if found.complete else "at least "
        at = found.peak.operator
        where = f"{at.name} of {at.module or 'the network'}"
        lines.append(f"Peak memory: {least}{found.peak.total:,} B, in {where}")
    return "\n".join(lines)


def _table(first: str, rows: Sequence[Row]) -> str:
    """Rows in columns, numbers to the right."""
    lines = [(first, *HEADINGS), *((row.name, *row.cells) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
