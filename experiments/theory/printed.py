"""A network's theory as text: tables and sums, or one JSON object."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from report.theory.fits import Fits
from report.theory.network import Row, Theory

#: With more modules the table shows those with most multiply-adds.
_MODULES: Final = 40
#: Characters of a line below the tables.
_WIDTH: Final = 100


def as_json(found: Theory) -> str:
    """One object; numbers that are not known are null."""
    content: dict[str, Any] = {
        "inputs": _inputs(found),
        "parameters": found.parameters,
        "unused_parameters": list(found.network.unused),
        "multiply_adds": found.multiply_adds,
        "effective_multiply_adds": found.effective,
        "bytes": found.bytes,
        **_memory(found),
        "refused": [*found.refused, *found.unlike_gpu],
        "kinds": [_fields(row) for row in found.by_kind],
        "modules": [
            {"class": found.classes.get(row.name), **_fields(row)} for row in found.by_module
        ],
    }
    if roof := found.roof:
        content["roof"] = {
            "device": roof.device,
            "source": roof.source,
            "flops_per_s": roof.peak.value,
            "bytes_per_s": roof.bandwidth.value,
        }
        content["least_time_s"] = found.seconds
    return json.dumps(content, ensure_ascii=False, indent=1)


def _inputs(found: Theory) -> list[dict[str, Any]]:
    return [{"dtype": t.dtype, "shape": t.shape} for t in found.network.inputs]


def _memory(found: Theory) -> dict[str, Any]:
    peak = found.peak
    cuda = found.cuda
    return {
        "peak_bytes": peak and peak.total,
        "peak_operator": peak and peak.operator.name,
        "peak_module": peak and peak.operator.module,
        "peak_phase": peak and peak.operator.phase,
        "peak_categories": peak and peak.alive,
        "complete": found.complete,
        "may_take_more": list(found.may_take_more),
        "compiled": list(found.compiled),
        **({"allocator": {f"{of}_bytes": size for of, size in cuda.items()}} if cuda else {}),
    }


def fits_as_json(found: Fits, limit: str) -> str:
    """One object: the limit, the largest batch that may fit, and what is predicted around it."""
    batches = [
        {"batch": batch, "inputs": _inputs(theory), "verdict": found.verdict(batch)}
        | _memory(theory)
        for batch, theory in found.bracket.items()
    ]
    content = {
        "limit": limit, "limit_bytes": found.limit, "largest_batch": found.largest,
        "largest_certain_batch": found.certain, "batches": batches,
    }  # fmt: skip
    return json.dumps(content, ensure_ascii=False, indent=1)


def fits_as_text(found: Fits, limit: str) -> str:
    """Batches by their verdicts, and those at the borders with their peak and what holds it."""
    certain, largest = found.certain, found.largest
    known = f"batch {certain:,}" if certain else "no batch is known to"
    lines = [f"Limit: {limit}, {found.limit:,} B of tensors", f"Certainly fits: {known}"]
    if certain < largest:
        lines.append(f"Undecided: from batch {certain + 1:,} to {largest:,}")
    for batch, theory in found.bracket.items():
        lines.append(f"Batch {batch:,}: {found.verdict(batch)}")
        alive = theory.peak.alive.items() if theory.peak else ()
        held = ", ".join(f"{name} {size:,} B" for name, size in alive if size)
        sums_of = (("Input", theory.inputs), *theory.memory_sums(), ("Held by", held))
        sums = (f"  {name}: {value}" for name, value in sums_of)
        lines += (textwrap.fill(line, _WIDTH, subsequent_indent="    ") for line in sums)
    if not found.largest:
        lines.append("No batch fits.")
    return "\n".join(lines)


def _fields(row: Row) -> dict[str, object]:
    """A row with what follows from it; its time and rate only under a roof."""
    timed = {"attainable_flops_per_s": row.rate} if row.seconds is not None else {}
    found = {**asdict(row), "intensity": row.intensity, **timed}
    return found if timed else {name: value for name, value in found.items() if name != "seconds"}


def as_tables(found: Theory) -> str:
    """Two tables and the sums."""
    modules = sorted(found.by_module, key=lambda row: -row.multiply_adds)[:_MODULES]
    shown = [row for row in found.by_module if row in modules]
    shown = [replace(row, name=found.title(row.name)) for row in shown]
    parts = [_table("Module", shown), _table("Operators", found.by_kind)]
    sums = [f"{name}: {value}" for name, value in found.sums]
    if roof := found.roof:
        rates = f"{roof.peak.value / 1e12:.4g} TFLOP/s and {roof.bandwidth.value / 1e9:.4g} GB/s"
        sums.append(f"Roof: {roof.device} ({roof.source}), {rates}")
    wrapped = (textwrap.fill(line, _WIDTH, subsequent_indent="  ") for line in sums)
    return "\n\n".join([*parts, "\n".join(wrapped)])


def _table(first: str, rows: Sequence[Row]) -> str:
    """Rows in columns, numbers to the right."""
    cells = [{first: row.name} | row.cells for row in rows]
    lines = [tuple(cells[0]) if cells else (first,), *(tuple(row.values()) for row in cells)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
