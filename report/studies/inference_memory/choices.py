"""The best of layout, precision and execution, and what to choose for which goal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from report.missing import Missing
from report.paper.findings import Inputs
from report.quantity.expression import Quantity, absent
from report.quantity.operations import at_least
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import FUSED, REDUCED, Call
from report.studies.inference_memory.sweeps import plain

_NO_CHOICE: Final = Missing("no other setting of this network was timed at this batch")


def speedup(run: Run, call: Call) -> Quantity:
    """How many times as fast a call is as the plain one."""
    return run.time_ratio(plain(call), call)


# ---------------------------------------------------------------------- published speed-ups


@dataclass(frozen=True)
class Best:
    """The fastest of the timed settings of a network at one batch, by medians.

    ``gain`` is how many times as fast as the plain call the fastest of all settings is, whichever
    that may be.
    """

    call: Call
    gain: Quantity


def compared_base(run: Run, network: str) -> Call | None:
    """The plain call of a network with most other settings beside it, the largest such batch."""
    bases = [c for c in run.timed(run.chosen(network=network)) if c == plain(c)]
    return max(bases, key=lambda base: (len(settings(run, base)), base.batch), default=None)


def settings(run: Run, base: Call, *, same_precision: bool = False) -> tuple[Call, ...]:
    """The timed calls of the same network, image and batch in other settings, without tiles."""
    found = run.chosen(network=base.network, image=base.image, batch=base.batch, tile=None)
    return tuple(
        call
        for call in run.timed(found)
        if call != base and (call.precision == base.precision or not same_precision)
    )


def all_tried(calls: Iterable[Call]) -> bool:
    """Whether reduced precision and fusion are among ``calls``.

    Not every network has something to fold, so that compiling alone tries fusion too.
    """
    found = list(calls)
    reduced = any(call.precision in REDUCED for call in found)
    return reduced and any(call.execution in FUSED for call in found)


def best(run: Run, network: str, *, same_precision: bool = False) -> Best | Missing:
    """The fastest setting of a network by its median time."""
    base = compared_base(run, network)
    if base is None:
        return Missing(f"no call of {network} was timed on {run.label}")
    found = settings(run, base, same_precision=same_precision)
    if not found:
        return _NO_CHOICE
    gain = at_least(*(speedup(run, call) for call in found))
    return Best(min(found, key=run.seconds), gain)


def best_speedup(run: Run, network: str, *, same_precision: bool = False) -> Quantity:
    """The speed-up of the fastest setting."""
    found = best(run, network, same_precision=same_precision)
    return absent("speed-up", "1", found.reason) if isinstance(found, Missing) else found.gain


def reported_speedups(inputs: Inputs) -> dict[str, float]:
    """The published speed-ups by network."""
    table = inputs.reported.table("speedups")
    pairs = zip(table.column("network"), table.column("speedup"), strict=True)
    return {str(name): float(cell) for name, cell in pairs if isinstance(cell, int | float)}
