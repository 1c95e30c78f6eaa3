"""What a GPU's run adds to the paper: its tables, values and reconciliations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.kernels import kernel_table, kernels_of
from report.paper.reconciliations import series_table
from report.paper.tables import Table
from report.paper.values import Value
from report.studies.conv_scaling.device import (
    all_device_work,
    device_memory,
    device_work,
    replays,
)
from report.studies.conv_scaling.measured import Run
from report.theory.reconciliation import Reconciliation, largest_residual, without_idle_terms

#: The batch size whose kernels are listed one by one.
SHOWN_BATCH: Final = 64


def device_reconciliations(run: Run | None) -> dict[str, Reconciliation]:
    """All reconciliations of a GPU's run by their ids; of the replays those that do not agree."""
    if run is None:
        return {}
    memory = [r for found in device_memory(run).values() for r in found.values()]
    odd = [found for found in replays(run).values() if not found.explained]
    return {**all_device_work(run), **{r.id: r for r in (*memory, *odd)}}


def device_tables(inputs: Inputs, run: Run | None) -> tuple[Table, ...]:
    """The tables that lead theory to a GPU's counters and bytes, those that have rows."""
    return tuple(_tables(inputs, run)) if run is not None else ()


_CAPTIONS: Final = {
    "requested": "From the output to the most bytes that the forward call asked for at a time",
    "allocated": "From the output to the bytes that the forward call left allocated",
    "reserved": "From the live requests to what the allocator holds after the forward call",
}


def _tables(inputs: Inputs, run: Run) -> Iterator[Table]:
    work = device_work(run)
    if work:
        yield series_table(
            without_idle_terms(work),
            "tbl-device-work",
            f"From theory to the operations of the CUDA cores on {run.label}, forward.",
            sources=(run.file,),
        )
    listed = kernels_of(inputs, run, run.factors(SHOWN_BATCH, "forward"))
    if listed:
        yield kernel_table(run, SHOWN_BATCH, listed)
    for of, found in device_memory(run).items():
        if found:
            yield series_table(
                without_idle_terms(found),
                f"tbl-device-{of}",
                f"{_CAPTIONS[of]} on {run.label}.",
                sources=(run.file,),
            )


def device_values(run: Run | None) -> tuple[Value, ...]:
    """The residuals furthest from 0 of a GPU's run; none without one."""
    if run is None:
        return ()
    memory = device_memory(run)
    checked = replays(run)
    return (
        _residual(run, "device_work", "of a GPU's work in forward calls", device_work(run), "FLOP"),
        _residual(
            run, "device_calls", "of a GPU's work in all calls", all_device_work(run), "FLOP"
        ),
        *(
            _residual(run, f"device_{of}", f"of the {of} bytes on a GPU", found, "B")
            for of, found in memory.items()
        ),
        _residual(run, "replay", "of the replayed allocator", checked, "B"),
        Value(
            "replays",
            "Sums of the allocator that were replayed",
            len(checked) or Missing("the record tells no requests"),
            "1",
            "cases · sums · moments",
            (run.file,),
            "exact",
        ),
    )


def _residual(
    run: Run,
    id_: str,
    what: str,
    found: dict[int, Reconciliation] | dict[str, Reconciliation],
    unit: str,
) -> Value:
    largest = largest_residual(list(found.values()))
    name = f"Residual {what} furthest from zero"
    formula = "measured − sum of terms"
    return Value(f"residual_{id_}", name, largest, unit, formula, (run.file,), "exact")
