"""Numbers of conv_profiling's source, and their audit."""

from collections.abc import Callable, Iterator
from typing import Final

from report.core.records.reported import Reported
from report.evidence.audit import (
    Check,
    Printed,
    check,
    difference,
    printed_column,
    printed_value,
    times,
    total,
)

#: TensorBoard's «KB», the «MB» of programs that summarize a network, and a true MB.
KIB: Final = 1024
MIB: Final = 1024**2
MB: Final = 10**6

WORKSPACE: Final = "aten::empty"
CONVOLUTION: Final = "aten::cudnn_convolution"


def operator_cell(reported: Reported, operator: str, column: str) -> int:
    """Return a whole number of the source's operator table; its sizes are in KiB.

    Raises ``StudyError`` if there is no such operator or no such number.
    """
    table = reported.table("operators")
    for name, cell in zip(table.column("operator"), table.column(column), strict=True):
        if name == operator and isinstance(cell, int):
            return cell
    raise reported.fault(f"{table.place}: no whole number for {operator}, {column}")


def operator_bytes(reported: Reported, operator: str, column: str) -> int:
    """Return a size of the source's operator table in B."""
    return KIB * operator_cell(reported, operator, column)


# ------------------------------------------------------------------------------------- audit


def audit(reported: Reported) -> tuple[Check, ...]:
    """Recompute every derived number of the source from the numbers printed beside it."""
    return (*_theory(reported), *_summaries(reported), *_memory(reported))


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


# ----------------------------------------------------------------------------------- account

#: Every table, figure and claim of the source: its name, the place where its audited numbers are
#: printed, and the outcome of our study.
ACCOUNT: Final[tuple[tuple[str, str, str], ...]] = (
    ("Background, shapes of both convolutions", "", "reproduced: the shapes of our records"),
    ("Time complexity", "Time Complexity", "reproduced: counted on a CPU and on a GPU"),
    ("Space complexity", "Space Complexity", "audited: its bytes of one image are right"),
    ("Figs. 2 and 3, the network", "Fig. 2", "reproduced: the network of our experiments"),
    ("Fig. 4, summary by torch-summary", "Fig. 4", "audited"),
    ("Summary by torchsummary", "Phase 2, step 1", "audited"),
    ("Counters of four kernels", "", "compared with our own GPU; three numbers are legible"),
    ("Claim: fewer operations by caching", "", "not decided: its counters are not legible"),
    ("Claim: many operations at small batches", "", "not legible; a hypothesis is given"),
    ("Operator table of TensorBoard", "Memory Calculation, step 3", "audited; its rows add up"),
    ("Measured and estimated memory", "Memory Calculation", "audited; taken apart"),
    ("Claims: temporary storage, recovery", "", "see the claims above; recovery cannot be tested"),
    ("Changed channels", "Changing the Conv", "reproduced: counts of that shape"),
    ("Fig. 1, graphs over the batch size", "", "images of MNIST; graphs that are not legible"),
    ("Logs of training, set-up of the cluster", "", "not repeated: outside our question"),
)


def account(reported: Reported) -> Iterator[tuple[str, str, str]]:
    """Yield for each part of the source its outcome and, in words, the audit of its numbers."""
    unassigned = list(audit(reported))
    for name, place, outcome in ACCOUNT:
        own = [item for item in unassigned if place and item.derived.place.startswith(place)]
        unassigned = [item for item in unassigned if item not in own]
        yield name, outcome, _audited(own)


def _audited(checks: list[Check]) -> str:
    """Say how many numbers agree, and describe the others."""
    wrong = [item for item in checks if item.verdict == "differs"]
    agreeing = [f"{len(checks) - len(wrong)} agree"] if len(checks) > len(wrong) else []
    differing = (f"{item.derived.text} {item.finding} (by {item.formula})" for item in wrong)
    return "; ".join((*agreeing, *differing)) or "–"
