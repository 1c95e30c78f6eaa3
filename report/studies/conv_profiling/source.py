"""What the source of conv_profiling printed, as numbers and as an audit of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Final

from report.evidence.audit import (
    Check,
    Printed,
    check,
    difference,
    exact,
    printed_column,
    printed_value,
    share,
    times,
    total,
)
from report.evidence.reported import Reported

#: TensorBoard's KB, and the MB of the programs that print a network's summary.
KIB: Final = 1024
MIB: Final = 1024**2
MB: Final = 10**6

WORKSPACE: Final = "aten::empty"
CONVOLUTION: Final = "aten::cudnn_convolution"


def operator_cell(reported: Reported, operator: str, column: str) -> int:
    """A whole number of the source's operator table (its KB are 1,024 B).

    Raises ``StudyError`` if there is no such operator or no such number.
    """
    table = reported.table("operators")
    for name, cell in zip(table.column("operator"), table.column(column), strict=True):
        if name == operator and isinstance(cell, int):
            return cell
    raise reported.fault(f"{table.place}: no whole number for {operator}, {column}")


def operator_bytes(reported: Reported, operator: str, column: str) -> int:
    """A size of the source's operator table in B."""
    return KIB * operator_cell(reported, operator, column)


def legible(reported: Reported) -> tuple[float | None, ...]:
    """The one number that is legible of each of the four kernels' counters, None where none is."""
    cells = reported.table("kernels").exactly(4).column("legible")
    return tuple(float(cell) if isinstance(cell, int | float) else None for cell in cells)


# ------------------------------------------------------------------------------------- audit


def audit(reported: Reported) -> tuple[Check, ...]:
    """Every derived number of the source, computed again from what is printed beside it."""
    return (*_theory(reported), *_summaries(reported), *_memory(reported), *_accuracies(reported))


def _printed(reported: Reported) -> Callable[[str], Printed]:
    return lambda id: printed_value(reported, id)


def _theory(reported: Reported) -> Iterator[Check]:
    of = _printed(reported)
    kernel, inputs, outputs = of("kernel"), of("input_channels"), of("output_channels")
    extent = of("output_extent")
    yield check(
        of("flops"),
        "2 · k² · C_in · H_out² · C_out",
        lambda k, i, h, o: 2 * k**2 * i * h**2 * o,
        *(kernel, inputs, extent, outputs),
    )
    yield check(
        of("parameters"), "(k² · C_in + 1) · C_out", lambda k, i, o: (k**2 * i + 1) * o,
        *(kernel, inputs, outputs),
    )  # fmt: skip
    yield check(
        of("bytes"), "(H_out² · C_out + parameters) · 4", lambda h, o, p, s: (h**2 * o + p) * s,
        *(extent, outputs, of("parameters"), of("element_bytes")),
    )  # fmt: skip
    yield check(of("memory_mb"), "bytes / 10⁶", lambda b: b / MB, of("bytes"))
    pooled = of("new_pooled_extent")
    for features, channels in (
        ("linear_features", "output_channels"),
        ("new_linear_features", "new_output_channels"),
    ):
        yield check(of(features), "H_pool² · C_out", lambda h, c: h**2 * c, pooled, of(channels))


def _summaries(reported: Reported) -> Iterator[Check]:
    of = _printed(reported)
    rows = [cell for cell in printed_column(reported.table("summary"), "parameters") if cell]
    yield check(of("total_parameters"), "sum of the layers", total, *rows)
    size = of("parameter_size")
    yield check(size, "4 B · parameters / 1,024²", lambda p: 4 * p / MIB, of("total_parameters"))
    first, second = of("first_channels"), of("output_channels")
    features, hidden, classes = of("linear_features"), of("hidden_features"), of("output_features")
    wide, narrow = of("first_extent"), of("output_extent")
    yield check(
        of("multiply_adds"),
        "multiply-adds of both convolutions and both linear layers / 10⁶",
        lambda k, c1, c2, w, n, f, h, o: (
            (k**2 * c1 * w**2 + k**2 * c1 * c2 * n**2 + f * h + h * o) / MB
        ),
        *(of("kernel"), first, second, wide, narrow, features, hidden, classes),
    )
    yield check(
        of("pass_size"),
        "2 · 4 B · outputs of layers with parameters / 1,024²",
        lambda c1, c2, w, n, h, o: 8 * (c1 * w**2 + c2 * n**2 + h + o) / MIB,
        *(first, second, wide, narrow, hidden, classes),
    )
    yield check(
        of("pass_size_plain"),
        "the same with the outputs of both dropouts",
        lambda c1, c2, w, n, h, o, f: 8 * (c1 * w**2 + c2 * n**2 + 2 * h + o + f) / MIB,
        *(first, second, wide, narrow, hidden, classes, features),
    )
    for suffix in ("", "_plain"):
        parts = (of(f"{name}_size{suffix}") for name in ("input", "pass", "parameter"))
        yield check(of(f"total_size{suffix}"), "input + pass + parameters", total, *parts)


def _cell(reported: Reported, operator: str, column: str) -> Printed:
    place = f"{reported.table('operators').place}, {operator}, {column.replace('_', ' ')}"
    return Printed(operator_cell(reported, operator, column), 0, "KiB", place)


def _memory(reported: Reported) -> Iterator[Check]:
    of = _printed(reported)
    own = _cell(reported, CONVOLUTION, "self_allocation_size")
    inside = _cell(reported, WORKSPACE, "self_allocation_size")
    yield check(
        own,
        "4 B · batch · H_out² · C_out / 1,024",
        lambda b, h, c: 4 * b * h**2 * c / KIB,
        *(of("profiled_batch"), of("output_extent"), of("output_channels")),
    )
    whole = _cell(reported, CONVOLUTION, "allocation_size")
    yield check(whole, "own allocation + workspace", total, own, inside)
    freed = _cell(reported, CONVOLUTION, "self_size_increase")
    yield check(freed, "own allocation − workspace", difference, own, inside)
    yield check(
        of("measured_memory"), "allocation size · 1,024 / 10⁶", lambda k: k * KIB / MB, whole
    )
    batch, image = of("profiled_batch"), of("memory_mb")
    yield check(of("estimated_memory"), "batch · memory of an image", times, batch, image)
    yield check(
        of("estimated_memory"),
        "4 B · (batch · outputs + parameters) / 10⁶",
        lambda b, h, c, p: 4 * (b * h**2 * c + p) / MB,
        *(batch, of("output_extent"), of("output_channels"), of("parameters")),
    )


def _accuracies(reported: Reported) -> Iterator[Check]:
    images = exact(reported.value("test_images").number, "image", "test images")
    for id in ("plain_log", "counted_log"):
        table = reported.table(id)
        right = printed_column(table, "correct")
        for printed, correct in zip(printed_column(table, "accuracy"), right, strict=True):
            if printed is not None and correct is not None:
                yield check(printed, "100 · correct / test images", _percent, correct, images)


def _percent(part: Fraction, whole: Fraction) -> Fraction:
    return share(part, whole)
