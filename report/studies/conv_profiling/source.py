"""Numbers of conv_profiling's source, and their audit."""

import re
from collections.abc import Iterator
from typing import Final

from report.core.records.reported import Reported
from report.evidence.audit import (
    Check,
    Printed,
    check,
    check_formula,
    difference,
    printed_column,
    printed_value,
    total,
)

#: TensorBoard's «KB», and a true MB.
KIB: Final = 1024
MB: Final = 10**6

#: Rows of the source's profile; cuDNN's workspace is allocated by ``aten::empty``.
WORKSPACE: Final = "aten::empty"
CONVOLUTION: Final = "aten::cudnn_convolution"

#: MiB of the layers' outputs and their gradients; {} is the bytes of one hidden feature.
_OUTPUTS: Final = (
    "8 * first_channels * first_extent * first_extent / 1048576 "
    "+ 8 * output_channels * output_extent * output_extent / 1048576 "
    "+ {} * hidden_features / 1048576 + 8 * output_features / 1048576"
)
#: Derived number of the source → its formula of numbers that are printed beside it.
FORMULAS: Final = {
    "flops": "2 * kernel * kernel * input_channels * output_extent * output_extent "
    "* output_channels",
    "parameters": "kernel * kernel * input_channels * output_channels + output_channels",
    "bytes": "element_bytes * output_extent * output_extent * output_channels "
    "+ element_bytes * parameters",
    "memory_mb": "bytes / 1000000",
    "estimated_memory": "profiled_batch * memory_mb",
    "linear_features": "new_pooled_extent * new_pooled_extent * output_channels",
    "new_linear_features": "new_pooled_extent * new_pooled_extent * new_output_channels",
    "multiply_adds": "kernel * kernel * first_channels * first_extent * first_extent / 1000000 "
    "+ kernel * kernel * first_channels * output_extent * output_extent * output_channels "
    "/ 1000000 "
    "+ linear_features * hidden_features / 1000000 + hidden_features * output_features / 1000000",
    "parameter_size": "4 * total_parameters / 1048576",
    "pass_size": _OUTPUTS.format(8),
    # The same with the outputs of both dropouts.
    "pass_size_plain": f"{_OUTPUTS.format(16)} + 8 * linear_features / 1048576",
    "total_size": "input_size + pass_size + parameter_size",
    "total_size_plain": "input_size_plain + pass_size_plain + parameter_size_plain",
}


def operator_cell(reported: Reported, operator: str, column: str) -> int:
    """Return a whole number of the source's operator table; its sizes are in KiB.

    Raises ``StudyError`` if there is no such operator or no such number.
    """
    table = reported.table("operators")
    for name, cell in zip(table.column("operator"), table.column(column), strict=True):
        if name == operator and isinstance(cell, int):
            return cell
    raise reported.fault(f"{table.place}: no whole number for {operator}, {column}")


def audit(reported: Reported) -> Iterator[Check]:
    """Recompute every derived number of the source from the numbers printed beside it."""
    for id, formula in FORMULAS.items():
        names = dict.fromkeys(re.findall(r"[a-z][a-z_]*", formula))
        inputs = {name: printed_value(reported, name) for name in names}
        yield check_formula(printed_value(reported, id), formula, **inputs)
    rows = [cell for cell in printed_column(reported.table("summary"), "parameters") if cell]
    parameters = printed_value(reported, "total_parameters")
    yield check(parameters, "sum of the layers", total, *rows)
    yield from _memory(reported)


def _memory(reported: Reported) -> Iterator[Check]:
    own = _cell(reported, CONVOLUTION, "self_allocation_size")
    inside = _cell(reported, WORKSPACE, "self_allocation_size")
    names = ("profiled_batch", "output_channels", "output_extent")
    shape = {name: printed_value(reported, name) for name in names}
    formula = "4 * profiled_batch * output_channels * output_extent * output_extent / 1024"
    yield check_formula(own, formula, **shape)
    whole = _cell(reported, CONVOLUTION, "allocation_size")
    yield check(whole, "own allocation + workspace", total, own, inside)
    freed = _cell(reported, CONVOLUTION, "self_size_increase")
    yield check(freed, "own allocation − workspace", difference, own, inside)
    measured = printed_value(reported, "measured_memory")
    yield check_formula(measured, "1024 * allocation_size / 1000000", allocation_size=whole)


def _cell(reported: Reported, operator: str, column: str) -> Printed:
    place = f"{reported.table('operators').place}, {operator}, {column.replace('_', ' ')}"
    return Printed(operator_cell(reported, operator, column), 0, "KiB", place)
