"""Numbers printed in the source of conv_profiling (a tutorial), and their audit."""

import re
from collections.abc import Iterator
from typing import Final

from report.core.records.reported import Reported
from report.evidence import audit as checks

#: Bytes in the unit that TensorBoard prints as «KB».
KIB: Final = 1024
MB: Final = 10**6
#: Rows of the source's operator table for cuDNN's workspace and for the convolution.
WORKSPACE, CONVOLUTION = "aten::empty", "aten::cudnn_convolution"
#: Ids of numbers: the tile in the name of the source's kernel (positions, channels, products).
TILE_IDS: Final = "tile_positions", "tile_channels", "tile_products"
#: Derived number of the source → its formula with other numbers that the source prints.
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
    """Return a whole number of the source's operator table (KiB) or raise ``StudyError``."""
    table = reported.table("operators")
    row = table.column("operator").index(operator)
    return reported.whole(table.column(column)[row], f"{table.place}: {operator}, {column}")


def audit(reported: Reported) -> Iterator[checks.Check]:
    """Recompute the numbers that the source derives from other numbers that it prints."""
    for id, formula in FORMULAS.items():
        names = dict.fromkeys(re.findall(r"[a-z][a-z_]*", formula))
        inputs = {name: checks.printed_value(reported, name) for name in names}
        yield checks.check_formula(checks.printed_value(reported, id), formula, **inputs)
    own_bytes = _printed_cell(reported, CONVOLUTION, "self_allocation_size")
    workspace = _printed_cell(reported, WORKSPACE, "self_allocation_size")
    output_names = ("profiled_batch", "output_channels", "output_extent")
    output_shape = {name: checks.printed_value(reported, name) for name in output_names}
    formula = "4 * profiled_batch * output_channels * output_extent * output_extent / 1024"
    yield checks.check_formula(own_bytes, formula, **output_shape)
    total = _printed_cell(reported, CONVOLUTION, "allocation_size")
    terms = own_bytes, workspace
    yield checks.check(total, "own allocation + workspace", checks.total, *terms)
    increase = _printed_cell(reported, CONVOLUTION, "self_size_increase")
    yield checks.check(increase, "own allocation − workspace", checks.difference, *terms)
    measured = checks.printed_value(reported, "measured_memory")
    yield checks.check_formula(measured, "1024 * allocation_size / 1000000", allocation_size=total)


def _printed_cell(reported: Reported, operator: str, column: str) -> checks.Printed:
    place = f"{reported.table('operators').place}, {operator}, {column.replace('_', ' ')}"
    return checks.Printed(operator_cell(reported, operator, column), 0, "KiB", place)
