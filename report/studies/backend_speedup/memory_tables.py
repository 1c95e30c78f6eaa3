"""The tables of memory; their captions stand in the template."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from report.missing import Missing
from report.paper.declared import Content, Field, table
from report.paper.reconciliations import series_table
from report.paper.tables import Cell, Column, Table
from report.studies.backend_speedup import memory
from report.studies.backend_speedup.measured import Case, Run, Variant
from report.theory.reconciliation import Reconciliation

#: How many terms of a peak, with its start, are kept through the iteration.
_KEPT: Final = 3


def memory_table(run: Run, id: str) -> Table | None:
    """The components of an iteration with every library, each with theory beside it."""
    setting = run.training()
    shown = memory.variants(run, setting)
    if setting is None or not shown:
        return None
    none = Missing("theory says nothing of it")
    whole: dict[str, Callable[[Variant], Content]] = {
        "Peak of an iteration": lambda v: memory.highest(run, setting, v),
        "Framework overhead": lambda v: memory.framework(run, setting, v),
        "Grown until the iteration": lambda v: memory.grown(run, setting, v),
        "Resident, in all": lambda v: memory.resident(run, setting, v),
    }

    def theory_of(row: str) -> Cell:
        return memory.theory(setting, row) if row in memory.COMPONENTS else none

    def of(variant: Variant) -> Callable[[str], Content]:
        def found(row: str) -> Content:
            return (
                whole[row](variant)
                if row in whole
                else memory.component(run, setting, variant, row)
            )

        return found

    return table(
        id,
        [*memory.COMPONENTS, *whole],
        [
            Field("Component", "", lambda row: memory.COMPONENTS.get(row, row)),
            Field("Theory", "B", theory_of, "kB"),
            *(Field(v.name, "B", of(v), "kB") for v in shown),
        ],
        notes=(
            "Framework overhead: resident memory after the first operation less that of the fresh "
            "process. Grown: resident memory before the iteration less that after the first "
            "operation; the components are part of it. Resident: highest of an iteration less that "
            "of the fresh process.",
        ),
        sources=(run.file,),
        wide=True,
    )


def resident_table(run: Run) -> Table | None:
    """From overhead and components to the resident memory, a row a library."""
    found = {v.name: told for v, told in memory.wholes(run).items()}
    if not found:
        return None
    return series_table(found, "tbl-resident", "", Column("Library"), sources=(run.file,))


def peak_table(run: Run) -> Table:
    """From the arrays of theory to the peak of an iteration, a row a case."""
    found = memory.peaks(run)

    def amounts(told: Reconciliation) -> list[int]:
        return [term.amount for term in (told.start, *told.terms)]

    def measured(row: Case) -> Cell:
        told = found[row].measured
        return told if isinstance(told, Missing) else told.amount

    return table(
        "tbl-peaks",
        found,
        [
            Field("Library", "", lambda row: row[1].name),
            Field("Width", "1", lambda row: row[0].hidden),
            Field("Images", "1", lambda row: row[0].samples),
            Field("Kept", "B", lambda row: sum(amounts(found[row])[:_KEPT])),
            Field("Beside them", "B", lambda row: sum(amounts(found[row])[_KEPT:])),
            Field("Peak", "B", measured),
            Field("Unexplained", "B", lambda row: found[row].residual),
        ],
        notes=(
            "Kept: parameters, input and targets, activations. Beside them: what else is alive "
            "when ReLU's gradient is taken.",
        ),
        sources=(run.file,),
        wide=True,
    )
