"""Which calls of a run belong together: over the batch size, in pairs of settings, in tiles."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from report.evidence.remembered import remembered
from report.quantity.expression import Quantity
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import (
    REDUCED,
    RESNETS,
    TRAINED,
    Call,
    Precision,
)
from report.theory.conditions import Layout

#: A batch size is large enough when its rate is at least this share of the best one.
ENOUGH: Final = 0.9


def plain(call: Call) -> Call:
    """The same call in one piece, contiguous, in float32, eager."""
    return Call(call.network, call.image, call.batch)


# ---------------------------------------------------------------------------- over the batch size


@remembered
def sweep(run: Run, network: str, layout: Layout = "contiguous") -> tuple[Call, ...]:
    """The plain float32 calls of a network over the batch sizes, on its smallest images."""
    found = run.chosen(network=network, layout=layout, precision="float32", execution="eager")
    image = min((call.image for call in found), default=0)
    return tuple(call for call in found if call.image == image)


@remembered
def swept(run: Run) -> tuple[str, ...]:
    """The networks that were timed at more than one batch size."""
    return tuple(n for n in run.networks() if len(run.timed(sweep(run, n))) > 1)


@remembered
def resnets(run: Run) -> tuple[str, ...]:
    """Those of them that the source varies, by depth."""
    return tuple(network for network in swept(run) if network in RESNETS)


def ends(run: Run, which: int = -1, layout: Layout = "contiguous") -> tuple[Call, ...]:
    """The timed calls of the deepest (or the first) ResNet over the batch sizes."""
    names = resnets(run)
    return run.timed(sweep(run, names[which], layout)) if names else ()


def rates(run: Run, network: str, layout: Layout = "contiguous") -> dict[int, Quantity]:
    """Images a second by batch size, of the timed calls of a network."""
    return {c.batch: run.image_rate(c) for c in run.timed(sweep(run, network, layout))}


# -------------------------------------------------------------------------- precision and layout


def scored_network(run: Run) -> str:
    """The network that was trained and scored; the plan's where there is none."""
    cases = run.stored.record.cases
    found = (str(c.factors["network"]) for c in cases if c.factors.get("subject") == "accuracy")
    return next(found, TRAINED)


@remembered
def pairs(run: Run) -> tuple[tuple[Call, Call], ...]:
    """Each contiguous eager call of that network in reduced precision with its float32 one."""
    found = run.chosen(network=scored_network(run), layout="contiguous", execution="eager")
    reduced = (call for p in REDUCED for call in found if call.precision == p)
    return tuple((call, plain(call)) for call in reduced)


def amp_precision(run: Run) -> Precision:
    """The reduced precision that was timed together with channels last; else the first."""
    tried = [
        precision
        for precision in REDUCED
        if run.timed(run.chosen(precision=precision, layout="channels_last", execution="eager"))
    ]
    # The source's is float16: where the device has it, as a GPU does, it comes first.
    return tried[-1] if tried else REDUCED[0]


def other_precision(run: Run) -> Precision:
    """The other reduced precision."""
    return next(precision for precision in REDUCED if precision != amp_precision(run))


def amp_pairs(run: Run) -> tuple[tuple[Call, Call], ...]:
    """Those pairs in the precision that the device is made for, as AMP would use it."""
    return tuple(pair for pair in pairs(run) if pair[0].precision == amp_precision(run))


@remembered
def both_bases(run: Run) -> tuple[Call, ...]:
    """Each ResNet's plain call at the largest batch at which AMP with channels last ran too."""
    found = []
    for network in RESNETS:
        how = {"precision": amp_precision(run), "layout": "channels_last", "execution": "eager"}
        together = run.timed(run.chosen(network=network, **how))
        ran = [plain(call) for call in together if run.timed((plain(call),))]
        found += ran[-1:]
    return tuple(found)


def with_amp(run: Run, base: Call) -> Call:
    """``base`` in the reduced precision."""
    return replace(base, precision=amp_precision(run))


def with_layout(run: Run, base: Call) -> Call:
    """``base`` in channels last."""
    return replace(base, layout="channels_last")


def with_both(run: Run, base: Call) -> Call:
    """``base`` in both."""
    return with_layout(run, with_amp(run, base))


# ----------------------------------------------------------------- tiles, fusion, limited memory


@remembered
def tiled_calls(run: Run) -> tuple[Call, ...]:
    """Every tiled call."""
    return tuple(call for call in run.chosen() if call.tile is not None)


def limited_calls(run: Run) -> tuple[Call, ...]:
    """The calls whose process may take only so much memory."""
    return tuple(call for call in run.calls if call.memory_limit is not None)


@remembered
def failed_calls(run: Run) -> tuple[Call, ...]:
    """The calls that ran out of memory without a limit."""
    return tuple(call for call in run.chosen() if run.ran_out(call))
