"""The tables of backend_speedup; their captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from report.paper.audit_table import audit_table
from report.paper.declared import Content, Field, table
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.tables import Table
from report.quantity.expression import Quantity
from report.studies.backend_speedup.measured import NUMPY, VARIANTS, Run, Variant, brief
from report.studies.backend_speedup.model import (
    Model,
    models,
)
from report.studies.backend_speedup.source import audit
from report.studies.backend_speedup.source_tables import (
    source_performance_table,
)
from report.studies.backend_speedup.subject import Setting


def all_tables(
    inputs: Inputs,
    runs: Sequence[Run],
    primary: Run | None,
    gpu: Run | None,
) -> Iterator[Table]:
    """Every table that the data have; of a run those without a row are left out."""
    yield source_performance_table(inputs)
    yield audit_table("tbl-audit", "", audit(inputs.reported), (inputs.reported_file,))
    yield setup(inputs, runs)
    found = [] if primary is None else [_performance(primary, "tbl-performance"), _models(primary)]
    if gpu is not None and gpu is not primary:
        found.append(_performance(gpu, f"tbl-performance-{gpu.key}"))
    yield from (each for each in found if each is not None and each.rows)


def _host_note(run: Run, shown: Sequence[Variant]) -> tuple[str, ...]:
    """Where the libraries of a GPU's run compute that use no GPU."""
    names = [variant.name for variant in shown if not variant.on_gpu]
    if not run.on_gpu or not names:
        return ()
    environment = run.stored.record.environment
    return (
        f"{', '.join(names)}: on {environment.threads} threads of the processor beside the GPU, "
        f"{environment.cpu.model}.",
    )


# --------------------------------------------------------------------------------- performance


def _performance(run: Run, id: str) -> Table | None:
    """Times of the training and of its passes with every library, and speed-ups over NumPy."""
    setting = run.training()
    if setting is None:
        return None
    shown = [v for v in VARIANTS if not _elsewhere(run, setting, v)]

    def timed(quantity: str) -> Callable[[Variant], Quantity]:
        return lambda v: brief(run.measured(quantity, setting, v))

    def speedup(v: Variant) -> Content:
        return 1 if v == NUMPY else brief(run.speedup(setting, v))

    return table(
        id,
        shown,
        [
            Field("Library", "", lambda v: v.name),
            Field("Processes", "1", lambda v: run.processes(setting, v)),
            Field("First call", "s", timed("first_call_time"), "ms"),
            Field("Forward", "s", timed("forward_time"), "ms"),
            Field("Backward", "s", timed("backward_time"), "ms"),
            Field("Iteration", "s", timed("time"), "ms"),
            Field("Speed-up", "1", speedup),
        ],
        notes=(
            "First call: the first iteration of a fresh process, thrown away. A time of one "
            "process has no interval.",
            *_host_note(run, shown),
        ),
        sources=(run.file,),
        wide=True,
    )


def _elsewhere(run: Run, setting: Setting, variant: Variant) -> bool:
    """Whether a library is no part of the run, or computes on a device that it does not have."""
    found = run.time(setting, variant).missing
    return found is not None and found.reason.startswith(("not part of", "unavailable"))


def _models(run: Run) -> Table:
    """What a call and a product alone cost with each library."""

    def rate(place: int) -> Callable[[Model], Quantity]:
        return lambda made: brief(made.rate(made.widths[place].hidden))

    return table(
        "tbl-models",
        models(run),
        [
            Field("Library", "", lambda made: made.variant.name),
            Field("A call", "s", lambda made: brief(made.call), "µs"),
            Field("Narrowest product", "FLOP/s", rate(0), "GFLOP/s"),
            Field("Widest product", "FLOP/s", rate(-1), "GFLOP/s"),
        ],
        sources=(run.file,),
    )
