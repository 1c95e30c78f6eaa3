"""A network's theory as text: tables and sums, or one JSON object."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from experiments.theory.roofs import NamedRoof
from report.theory.network import Row, Theory

#: With more modules the table shows those with most multiply-adds.
_MODULES: Final = 40
#: Characters of a line below the tables.
_WIDTH: Final = 100


def as_json(found: Theory, roof: NamedRoof | None) -> str:
    """One object; numbers that are not known are null."""
    peak, cuda = found.peak, found.cuda
    content: dict[str, Any] = {
        "parameters": found.parameters,
        "unused_parameters": list(found.network.unused),
        "multiply_adds": found.multiply_adds,
        "bytes": found.bytes,
        "peak_bytes": peak.total if peak else None,
        "peak_operator": peak and peak.operator.name,
        "peak_module": peak and peak.operator.module,
        "peak_phase": peak and peak.operator.phase,
        "peak_categories": peak and peak.alive,
        "complete": found.complete,
        "may_take_more": list(found.may_take_more),
        "refused": [*found.refused, *found.unlike_gpu],
        "kinds": [_fields(row) for row in found.by_kind],
        "modules": [_fields(row) for row in found.by_module],
    }
    if cuda is not None:
        content["allocator"] = {
            "requested_bytes": cuda.requested_peak,
            "allocated_bytes": cuda.allocated_peak,
            "reserved_bytes": cuda.reserved_peak,
        }
    if roof is not None:
        content["roof"] = {
            "device": roof.name,
            "source": "data sheet" if roof.look == "sheet" else "measured",
            "flops_per_s": roof.roof.peak.value,
            "bytes_per_s": roof.roof.bandwidth.value,
        }
        content["least_time_s"] = found.seconds
    return json.dumps(content, ensure_ascii=False, indent=1)


def _fields(row: Row) -> dict[str, object]:
    """A row with what follows from it; its time and rate only under a roof."""
    timed = {"attainable_flops_per_s": row.rate} if row.seconds is not None else {}
    found = {**asdict(row), "intensity": row.intensity, **timed}
    return found if timed else {name: value for name, value in found.items() if name != "seconds"}


def as_tables(found: Theory, roof: NamedRoof | None) -> str:
    """Two tables and the sums."""
    modules = sorted(found.by_module, key=lambda row: -row.multiply_adds)[:_MODULES]
    shown = [row for row in found.by_module if row in modules]
    parts = [_table("Module", found, shown), _table("Operators", found, found.by_kind)]
    sums = [f"{name}: {value}" for name, value in found.sums]
    if roof is not None:
        source = "data sheet" if roof.look == "sheet" else "measured"
        peak, bandwidth = roof.roof.peak.value / 1e12, roof.roof.bandwidth.value / 1e9
        sums.append(f"Roof: {roof.name} ({source}), {peak:.4g} TFLOP/s and {bandwidth:.4g} GB/s")
    wrapped = (textwrap.fill(line, _WIDTH, subsequent_indent="  ") for line in sums)
    return "\n\n".join([*parts, "\n".join(wrapped)])


def _table(first: str, found: Theory, rows: Sequence[Row]) -> str:
    """Rows in columns, numbers to the right; a row without a rate ends before it."""
    lines = [(first, *found.headings), *((row.name, *row.cells) for row in rows)]
    padded = [(*line, *[""] * (len(lines[0]) - len(line))) for line in lines]
    widths = [max(map(len, column)) for column in zip(*padded, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in padded
    )
