"""Numbers of conv_profiling's source, and their audit."""

import re
from collections.abc import Iterator
from typing import Final

from report.core.records.reported import Reported
from report.evidence import audit as checks

#: TensorBoard's «KB», and a true MB.
KIB: Final = 1024
MB: Final = 10**6
#: Rows of the source's profile; cuDNN's workspace is allocated by ``aten::empty``.
WORKSPACE: Final = "aten::empty"
CONVOLUTION: Final = "aten::cudnn_convolution"
#: Sides of the tile in the name of the source's product: positions, channels, products.
TILE: Final = "tile_positions", "tile_channels", "tile_products"
#: Derived number of the source about the layer → its formula of numbers that are printed beside it.
FORMULAS: Final = {
    "flops": "2 * kernel * kernel * input_channels * output_extent * output_extent "
    "* output_channels",
    "parameters": "kernel * kernel * input_channels * output_channels + output_channels",
    "bytes": "element_bytes * output_extent * output_extent * output_channels "
    "+ element_bytes * parameters",
    "memory_mb": "bytes / 1000000",
    "estimated_memory": "profiled_batch * memory_mb",
}


def operator_cell(reported: Reported, operator: str, column: str) -> int:
    """Return a whole number of the source's operator table; its sizes are in KiB.

    Raises ``StudyError`` if it is no whole number.
    """
    table = reported.table("operators")
    row = table.column("operator").index(operator)
    return reported.whole(table.column(column)[row], f"{table.place}: {operator}, {column}")


def audit(reported: Reported) -> Iterator[checks.Check]:
    """Recompute the numbers that the source derives about the layer from numbers beside them."""
    for id, formula in FORMULAS.items():
        names = dict.fromkeys(re.findall(r"[a-z][a-z_]*", formula))
        inputs = {name: checks.printed_value(reported, name) for name in names}
        yield checks.check_formula(checks.printed_value(reported, id), formula, **inputs)
    own = _cell(reported, CONVOLUTION, "self_allocation_size")
    inside = _cell(reported, WORKSPACE, "self_allocation_size")
    sides = ("profiled_batch", "output_channels", "output_extent")
    shape = {name: checks.printed_value(reported, name) for name in sides}
    formula = "4 * profiled_batch * output_channels * output_extent * output_extent / 1024"
    yield checks.check_formula(own, formula, **shape)
    whole = _cell(reported, CONVOLUTION, "allocation_size")
    yield checks.check(whole, "own allocation + workspace", checks.total, own, inside)
    freed = _cell(reported, CONVOLUTION, "self_size_increase")
    yield checks.check(freed, "own allocation − workspace", checks.difference, own, inside)
    measured = checks.printed_value(reported, "measured_memory")
    yield checks.check_formula(measured, "1024 * allocation_size / 1000000", allocation_size=whole)


def _cell(reported: Reported, operator: str, column: str) -> checks.Printed:
    place = f"{reported.table('operators').place}, {operator}, {column.replace('_', ' ')}"
    return checks.Printed(operator_cell(reported, operator, column), 0, "KiB", place)
