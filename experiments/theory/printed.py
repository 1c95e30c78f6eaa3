"""Print a network's theory (its work, traffic and memory) as text or JSON, and draw figures."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from json import dumps
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from figures.panels import Band, Drawing, DrawnRoof, Points, Roofline, Scaling
from report.theory.network import BatchSearch, Row, Theory, least_bytes
from report.theory.roofline import Roof

#: Limit on the rows of the table of modules; the modules with the most multiply-adds are shown.
_MODULE_LIMIT: Final = 40
#: Characters per line of the text below the tables.
_WIDTH: Final = 100
_MEGA: Final = 1e6
_GIGA: Final = 1e9


def as_text(result: Theory | BatchSearch, limit_name: str, *, json: bool) -> str:
    """Write a theory, or the predicted batches that fit into a memory limit, as JSON or text."""
    if isinstance(result, Theory):
        return _theory_as_json(result) if json else _theory_as_tables(result)
    return _fits_as_json(result, limit_name) if json else _fits_as_text(result, limit_name)


def _theory_as_json(theory: Theory) -> str:
    content: dict[str, Any] = {
        "inputs": _inputs(theory),
        "parameters": theory.parameters,
        "unused_parameters": list(theory.network.unused_parameters),
        "multiply_adds": theory.multiply_adds,
        "effective_multiply_adds": theory.effective_multiply_adds,
        "bytes": theory.bytes,
        **_memory(theory),
        "refused": [*theory.unknown_operators, *theory.names_replaced_on_gpu],
        "kinds": [_fields(row) for row in theory.by_kind],
        "modules": [
            {"class": theory.classes.get(row.name), **_fields(row)} for row in theory.by_module
        ],
    }
    if roof := theory.roof:
        rates = {"flops_per_s": roof.peak.value, "bytes_per_s": roof.bandwidth.value}
        content["roof"] = {"device": roof.device, "source": roof.source, **rates}
        content["least_time_s"] = theory.seconds
    return dumps(content, ensure_ascii=False, indent=1)


def _inputs(theory: Theory) -> list[dict[str, Any]]:
    return [{"dtype": t.dtype, "shape": t.shape} for t in theory.network.inputs]


def _memory(theory: Theory) -> dict[str, Any]:
    """Return the JSON entries about memory; entries about an unknown peak are None."""
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
        **({"allocator": {f"{name}_bytes": size for name, size in cuda.items()}} if cuda else {}),
    }


def _fits_as_json(search: BatchSearch, limit_name: str) -> str:
    """Write one JSON object: the limit, the largest batches, and predictions near them."""
    batches = [
        {"batch": batch, "inputs": _inputs(theory), "verdict": search.verdict(batch)}
        | _memory(theory)
        for batch, theory in search.bracket.items()
    ]
    content = {
        "limit": limit_name, "limit_bytes": search.limit, "largest_batch": search.largest,
        "largest_certain_batch": search.certain, "batches": batches,
    }  # fmt: skip
    return dumps(content, ensure_ascii=False, indent=1)


def _fits_as_text(search: BatchSearch, limit_name: str) -> str:
    """Write the largest batch that fits, the largest that may fit, and peaks near both batches."""
    certain, largest = search.certain, search.largest
    largest_certain = f"batch {certain:,}" if certain else "no batch is known to"
    lines = [f"Limit: {limit_name}, {search.limit:,} B of tensors"]
    lines.append(f"Fits by the rules: {largest_certain}")
    if certain < largest:
        lines.append(f"Undecided: from batch {certain + 1:,} to {largest:,}")
    for batch, theory in search.bracket.items():
        lines.append(f"Batch {batch:,}: {search.verdict(batch)}")
        alive = theory.peak.alive.items() if theory.peak else ()
        categories = ", ".join(f"{name} {size:,} B" for name, size in alive if size)
        sums = (("Input", theory.inputs), *theory.memory_sums(), ("Held by", categories))
        for name, value in sums:
            lines.append(textwrap.fill(f"  {name}: {value}", _WIDTH, subsequent_indent="    "))
    if not search.largest:
        lines.append("No batch fits.")
    return "\n".join(lines)


def _fields(row: Row) -> dict[str, object]:
    """Return the fields and the intensity of a row; time and rate only if a roof is known."""
    fields = {**asdict(row), "intensity": row.intensity}
    if row.seconds is None:
        del fields["seconds"]
    else:
        fields["attainable_flops_per_s"] = row.rate
    fields["made"] = fields.pop("allocated")  # users' scripts read this key
    return fields


def _theory_as_tables(theory: Theory) -> str:
    """Write a table of the modules with the most work, a table of operators, and the sums."""
    by_work = sorted(theory.by_module, key=attrgetter("multiply_adds"), reverse=True)
    largest = by_work[:_MODULE_LIMIT]
    modules = []
    for row in theory.by_module:  # in the order of execution
        if row in largest:
            modules.append(replace(row, name=theory.title(row.name)))
    tables = [_table("Module", modules), _table("Operators", theory.by_kind)]
    sums = [f"{name}: {value}" for name, value in theory.sums]
    if roof := theory.roof:
        rates = f"{roof.peak.value / 1e12:.4g} TFLOP/s and {roof.bandwidth.value / 1e9:.4g} GB/s"
        sums.append(f"Roof: {roof.device} ({roof.source}), {rates}")
    wrapped = (textwrap.fill(line, _WIDTH, subsequent_indent="  ") for line in sums)
    return "\n\n".join([*tables, "\n".join(wrapped)])


def _table(name_heading: str, rows: Sequence[Row]) -> str:
    """Write a heading and a line per row; ``name_heading`` is above the column of names."""
    cells = [{name_heading: row.name} | row.cells for row in rows]
    columns = []
    for heading in cells[0] if cells else (name_heading,):
        column = [heading, *(row[heading] for row in cells)]
        width = max(map(len, column))
        is_name = heading == name_heading  # names are aligned to the left, numbers to the right
        columns.append([cell.ljust(width) if is_name else cell.rjust(width) for cell in column])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def write(folder: Path, drawings: Mapping[str, Drawing]) -> None:
    """Write each drawing as SVG and PDF under its name."""
    from figures.render import render  # imports matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in drawings.items():
        rendered = render(drawing, name)
        (folder / f"{name}.svg").write_bytes(rendered.svg)
        (folder / f"{name}.pdf").write_bytes(rendered.pdf)


def drawings(result: Theory | BatchSearch, limit_name: str) -> dict[str, Drawing]:
    """Return drawings by name.

    A theory has its memory at each operator and, if the peak rates (roof) are known, a roofline.
    """
    if isinstance(result, BatchSearch):
        return {"fits": _draw_peaks(result, limit_name)}
    drawing_by_name = {"memory": _draw_memory(result)}
    if result.roof:
        drawing_by_name["roofline"] = _draw_roofline(result, result.roof)
    return drawing_by_name


def _draw_peaks(search: BatchSearch, limit_name: str) -> Drawing:
    """Draw the lower bound on the peak at each predicted batch, and a line at the memory limit."""
    batches = sorted(search.predicted)
    sizes_mb = tuple(least_bytes(search.predicted[batch]) / _MEGA for batch in batches)
    limit_mb = search.limit / _MEGA
    line = Band(limit_name, limit_mb, limit_mb, limit_mb, style_number=1)
    x = tuple(float(batch) for batch in batches)
    peaks = Points("Peak at least", x, sizes_mb, joined=True)
    return Drawing((Scaling("Batch size", "Memory (MB)", (peaks,), bands=(line,)),))


def _draw_memory(theory: Theory) -> Drawing:
    """Draw the live bytes at each operator, in one colour per phase."""
    phases = []
    for number, phase in enumerate(("forward", "backward", "update")):
        x, alive = [], []
        for position, moment in enumerate(theory.moments):
            if moment.operator.phase == phase:
                x.append(float(position))
                alive.append(moment.total / _MEGA)
        if alive:
            phases.append(Points(phase, tuple(x), tuple(alive), style_number=number, small=True))
    panel = Scaling(
        "Operators", "Alive (MB)", tuple(phases),
        x_scale="linear", y_scale="linear", y_from_zero=True,
    )  # fmt: skip
    return Drawing((panel,), wide=True)


def _draw_roofline(theory: Theory, roof: Roof) -> Drawing:
    """Draw attainable rate against intensity, a point per kind of operator with multiply-adds."""
    counted = [row for row in theory.by_kind if row.multiply_adds]
    marks = tuple(
        Points(row.name, (row.intensity,), ((row.rate or 0.0) / _GIGA,), style_number=number)
        for number, row in enumerate(counted)
    )
    peak, bandwidth = roof.peak.value / _GIGA, roof.bandwidth.value / _GIGA
    # Low, typical and high rate are equal, because only the bounding rates are used.
    line = DrawnRoof(roof.device, (peak, peak, peak), (bandwidth, bandwidth, bandwidth))
    panel = Roofline("Intensity (FLOP/B)", "Attainable rate (GFLOP/s)", (line,), marks)
    return Drawing((panel,), height=2.9)
