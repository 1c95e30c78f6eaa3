"""The settings of a call that are compared, and the published speed-ups."""

from __future__ import annotations

from collections.abc import Iterable

from report.paper.findings import Inputs
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import FUSED, REDUCED, Call
from report.studies.inference_memory.sweeps import plain


def compared_base(run: Run, network: str) -> Call | None:
    """The plain call of a network with most other settings beside it, the largest such batch."""
    bases = [c for c in run.timed(run.chosen(network=network)) if c == plain(c)]
    return max(bases, key=lambda base: (len(settings(run, base)), base.batch), default=None)


def settings(run: Run, base: Call) -> tuple[Call, ...]:
    """The timed calls of the same network, image and batch in other settings, without tiles."""
    found = run.chosen(network=base.network, image=base.image, batch=base.batch, tile=None)
    return tuple(call for call in run.timed(found) if call != base)


def all_tried(calls: Iterable[Call]) -> bool:
    """Whether reduced precision and fusion are among ``calls``.

    Not every network has something to fold, so that compiling alone tries fusion too.
    """
    found = list(calls)
    reduced = any(call.precision in REDUCED for call in found)
    return reduced and any(call.execution in FUSED for call in found)


def reported_speedups(inputs: Inputs) -> dict[str, float]:
    """The published speed-ups by network."""
    table = inputs.reported.table("speedups")
    pairs = zip(table.column("network"), table.column("speedup"), strict=True)
    return {str(name): float(cell) for name, cell in pairs if isinstance(cell, int | float)}
