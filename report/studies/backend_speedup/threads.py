"""What more threads of one processor gain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from report.paper.declared import Field, table
from report.paper.tables import Table
from report.quantity.expression import Quantity
from report.records.pooling import same_processor
from report.studies.backend_speedup.getters import nothing
from report.studies.backend_speedup.measured import NUMPY, TORCH, Run, Variant
from report.studies.backend_speedup.subject import Setting

#: Two runs of one processor, that with fewer threads first.
Pair: TypeAlias = tuple[Run, Run]


def thread_pair(all_runs: Sequence[Run]) -> Pair | None:
    """Two runs of one processor with fewest and most threads, None where there are none."""
    timed = [run for run in all_runs if not run.on_gpu and run.variants(run.training())]
    for run in timed:
        environment = run.stored.record.environment
        alike = [o for o in timed if same_processor(environment, o.stored.record.environment)]
        few, many = (end(alike, key=lambda each: each.threads) for end in (min, max))
        if few.threads < many.threads:
            return few, many
    return None


def thread_table(pair: Pair) -> Table:
    """The gain of every library, at the smallest and the largest sizes."""
    few, many = pair
    settings = dict.fromkeys([*few.sizes()[:1], *few.sizes()[-1:], *few.widths()[-1:]])
    rows = [
        (setting, variant)
        for setting in settings
        for variant in few.variants(setting)
        if variant in many.variants(setting)
    ]
    return table(
        "tbl-threads",
        rows,
        [
            Field("Width", "1", lambda row: row[0].hidden),
            Field("Images", "1", lambda row: row[0].samples),
            Field("Library", "", lambda row: row[1].name),
            Field("Fewer threads", "s", lambda row: few.time(*row), "ms"),
            Field("More threads", "s", lambda row: many.time(*row), "ms"),
            Field("Speed-up", "1", lambda row: few.time(*row) / many.time(*row)),
        ],
        sources=(few.file, many.file),
        wide=True,
    )


def _gain(
    place: Callable[[Run], tuple[Setting, ...]], which: int, variant: Variant = NUMPY
) -> Callable[[Pair], Quantity]:
    """What a library gains at one size."""

    def found(pair: Pair) -> Quantity:
        few, many = pair
        settings = place(few)
        if not settings:
            return nothing("1")
        return few.time(settings[which], variant) / many.time(settings[which], variant)

    return found


THREAD_VALUES: Final[dict[str, Callable[[Pair], Quantity]]] = {
    "threads_small": _gain(Run.sizes, 0),
    "threads_large": _gain(Run.sizes, -1),
    "threads_large_torch": _gain(Run.sizes, -1, TORCH),
    "threads_wide": _gain(Run.widths, -1),
}
