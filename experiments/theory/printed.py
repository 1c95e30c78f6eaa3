"""A network's theory as text: tables and sums, or one JSON object."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, replace
from operator import attrgetter
from typing import Any, Final

from report.theory.fits import Fits
from report.theory.network import Row, Theory

#: With more modules the table shows those with most multiply-adds.
_MODULES: Final = 40
#: Characters of a line below the tables.
_WIDTH: Final = 100


def as_json(theory: Theory) -> str:
    """Write a theory as one JSON object; unknown numbers are null."""
    content: dict[str, Any] = {
        "inputs": _inputs(theory),
        "parameters": theory.parameters,
        "unused_parameters": list(theory.network.unused),
        "multiply_adds": theory.multiply_adds,
        "effective_multiply_adds": theory.effective,
        "bytes": theory.bytes,
        **_memory(theory),
        "refused": [*theory.refused, *theory.unlike_gpu],
        "kinds": [_fields(row) for row in theory.by_kind],
        "modules": [
            {"class": theory.classes.get(row.name), **_fields(row)} for row in theory.by_module
        ],
    }
    if roof := theory.roof:
        content["roof"] = {
            "device": roof.device,
            "source": roof.source,
            "flops_per_s": roof.peak.value,
            "bytes_per_s": roof.bandwidth.value,
        }
        content["least_time_s"] = theory.seconds
    return json.dumps(content, ensure_ascii=False, indent=1)


def _inputs(theory: Theory) -> list[dict[str, Any]]:
    return [{"dtype": t.dtype, "shape": t.shape} for t in theory.network.inputs]


def _memory(theory: Theory) -> dict[str, Any]:
    peak = theory.peak
    cuda = theory.cuda
    return {
        "peak_bytes": peak and peak.total,
        "peak_operator": peak and peak.operator.name,
        "peak_module": peak and peak.operator.module,
        "peak_phase": peak and peak.operator.phase,
        "peak_categories": peak and peak.alive,
        "complete": theory.complete,
        "may_take_more": list(theory.may_take_more),
        "compiled": list(theory.compiled),
        **({"allocator": {f"{of}_bytes": size for of, size in cuda.items()}} if cuda else {}),
    }


def fits_as_json(frontier: Fits, limit: str) -> str:
    """Write one JSON object: limit, largest batches, and predictions around them."""
    batches = [
        {"batch": batch, "inputs": _inputs(theory), "verdict": frontier.verdict(batch)}
        | _memory(theory)
        for batch, theory in frontier.bracket.items()
    ]
    content = {
        "limit": limit, "limit_bytes": frontier.limit, "largest_batch": frontier.largest,
        "largest_certain_batch": frontier.certain, "batches": batches,
    }  # fmt: skip
    return json.dumps(content, ensure_ascii=False, indent=1)


def fits_as_text(frontier: Fits, limit: str) -> str:
    """Write batches by verdict, with the peak memory at the borders and what holds it."""
    certain, largest = frontier.certain, frontier.largest
    known = f"batch {certain:,}" if certain else "no batch is known to"
    lines = [f"Limit: {limit}, {frontier.limit:,} B of tensors", f"Certainly fits: {known}"]
    if certain < largest:
        lines.append(f"Undecided: from batch {certain + 1:,} to {largest:,}")
    for batch, theory in frontier.bracket.items():
        lines.append(f"Batch {batch:,}: {frontier.verdict(batch)}")
        alive = theory.peak.alive.items() if theory.peak else ()
        held = ", ".join(f"{name} {size:,} B" for name, size in alive if size)
        sums_of = (("Input", theory.inputs), *theory.memory_sums(), ("Held by", held))
        sums = (f"  {name}: {value}" for name, value in sums_of)
        lines += (textwrap.fill(line, _WIDTH, subsequent_indent="    ") for line in sums)
    if not frontier.largest:
        lines.append("No batch fits.")
    return "\n".join(lines)


def _fields(row: Row) -> dict[str, object]:
    """Return a row with its intensity; time and rate only under a roof."""
    timed = {"attainable_flops_per_s": row.rate} if row.seconds is not None else {}
    fields = {**asdict(row), "intensity": row.intensity, **timed}
    fields["made"] = fields.pop("allocated")  # the key that scripts read
    return fields if timed else {name: value for name, value in fields.items() if name != "seconds"}


def as_tables(theory: Theory) -> str:
    """Write a table of modules, a table of operators, and the sums."""
    by_work = sorted(theory.by_module, key=attrgetter("multiply_adds"), reverse=True)
    modules = by_work[:_MODULES]
    shown = [row for row in theory.by_module if row in modules]
    shown = [replace(row, name=theory.title(row.name)) for row in shown]
    parts = [_table("Module", shown), _table("Operators", theory.by_kind)]
    sums = [f"{name}: {value}" for name, value in theory.sums]
    if roof := theory.roof:
        rates = f"{roof.peak.value / 1e12:.4g} TFLOP/s and {roof.bandwidth.value / 1e9:.4g} GB/s"
        sums.append(f"Roof: {roof.device} ({roof.source}), {rates}")
    wrapped = (textwrap.fill(line, _WIDTH, subsequent_indent="  ") for line in sums)
    return "\n\n".join([*parts, "\n".join(wrapped)])


def _table(first: str, rows: Sequence[Row]) -> str:
    """Align rows in columns, numbers to the right."""
    cells = [{first: row.name} | row.cells for row in rows]
    lines = [tuple(cells[0]) if cells else (first,), *(tuple(row.values()) for row in cells)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_aligned(line, widths) for line in lines)


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers = line
    cells = [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
    return "  ".join([name.ljust(widths[0]), *cells]).rstrip()
