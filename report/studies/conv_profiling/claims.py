"""What is claimed of the layer, by the source and by this paper; the template has the words.

What the source claims of a GPU is judged on GPUs alone: a processor's counts cannot decide it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from report.evidence.executed import residual
from report.paper.claims import judge
from report.paper.findings import Claim, Inputs
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_least, furthest_from_zero
from report.quantity.verdicts import Several, Statement, all_of, any_of, equals, exactly, expect
from report.records.passes import Pass
from report.studies.conv_profiling import theory
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.reconciled import (
    changed,
    changed_peaks,
    reported_estimate,
    reported_self_size,
)
from report.studies.conv_profiling.run_values import NO_RECORD, all_executed
from report.studies.conv_profiling.source import CONVOLUTION, WORKSPACE, operator_bytes
from report.studies.conv_profiling.values import executed_shares
from report.theory.reconciliation import Reconciliation

#: How many times theory is «far more».
FAR_MORE: Final = 1.5
#: How far from one work is still the same at every batch size.
_SAME: Final = 0.05


def all_claims(
    inputs: Inputs,
    runs: Sequence[Run],
    shapes: Mapping[str, Mapping[str, Reconciliation]],
) -> Iterator[Claim]:
    """Every claim that numbers can decide.

    ``shapes`` are what GPUs executed, by their keys.
    """
    yield from (judge(name, claimed) for name, claimed in _of_source(inputs).items())
    for run in runs:
        if run.on_gpu:
            yield from _of_source_elsewhere(run)
            for name, claim in _of_gpu(run, shapes.get(run.key, {})).items():
                yield judge(f"{name}-{run.key}", claim, name=name, label=run.label)
    if cpus := [run for run in runs if not run.on_gpu]:
        yield from (judge(name, claim) for name, claim in _of_cpus(cpus).items())
    if not runs:
        nothing = Statement(absent("anything", "1", NO_RECORD.reason), exactly(0))
        yield judge("counts-explained", nothing)


def _of_source(inputs: Inputs) -> dict[str, Statement]:
    """Those that the source's own numbers decide."""
    reported, file = inputs.reported, inputs.reported_file
    batch, printed = reported.count("profiled_batch"), reported.count("printed_batch")

    def bytes_of(operator: str, column: str) -> Quantity:
        size = operator_bytes(reported, operator, column)
        return exact(column.replace("_", " "), "B", size, file)

    kept = bytes_of(CONVOLUTION, "size_increase")
    work = exact("printed result", "FLOP", reported.count("flops"), file)
    without = bytes_of(CONVOLUTION, "allocation_size") - bytes_of(WORKSPACE, "self_allocation_size")
    residuals = [
        residual([r], "B", file) for r in (reported_self_size(inputs), reported_estimate(inputs))
    ]
    return {
        "batch-in-product": Statement(work / theory.work(1), exactly(printed)),
        "table-of-one-image": Statement(kept / theory.OUTPUT_BYTES, exactly(1)),
        "parameters-per-image": Statement(without / theory.for_every_image(batch), exactly(1)),
        "temporary-storage": Statement(furthest_from_zero(*residuals), exactly(0)),
        "recovery": Statement(kept / (batch * theory.OUTPUT_BYTES), expect("> 1")),
    }


def _of_cpus(runs: Sequence[Run]) -> dict[str, Several]:
    """What this paper claims of all processors, each count once."""
    counted = {
        r.id: r for run in runs for r in (*all_executed(run).values(), *changed(run).values())
    }
    needed = (r for run in runs for r in changed_peaks(run).values())
    return {
        "counts-explained": _all_explained(counted.values(), "MAC"),
        "peaks-explained": _all_explained(needed, "B"),
    }


def _all_explained(found: Iterable[Reconciliation], unit: str) -> Several:
    """That nothing is left of any of them."""
    left = [residual([each], unit) for each in found]
    nothing = absent("residual", unit, "nothing was counted")
    return all_of(*(Statement(each, exactly(0)) for each in left or [nothing]))


def _of_source_elsewhere(run: Run) -> Iterator[Claim]:
    """What the source claims of its GPU: another GPU, with other arithmetic, cannot decide it."""
    forward = _shares(run, "forward")
    asked: dict[str, Statement | Several] = {
        "saved-forward": any_of(*(Statement(share, expect("< 1")) for share in forward)),
        "small-batches": Statement(at_least(*forward), expect(f"> {FAR_MORE}")),
    }
    for name, statement in asked.items():
        claim = judge(f"{name}-{run.key}", statement, name=name, label=run.label)
        missing = claim.verdict == "not measured"
        yield claim if missing else replace(claim, verdict="not comparable")


def _of_gpu(run: Run, shapes: Mapping[str, Reconciliation]) -> dict[str, Statement | Several]:
    """What this paper claims of a GPU."""
    same = equals(1, within=_SAME)
    backward = _shares(run, "forward_backward")
    return {
        "forward-work": all_of(*(Statement(each, same) for each in _shares(run, "forward"))),
        "saved-backward": any_of(*(Statement(share, expect("< 1")) for share in backward)),
        "tiles-explain": _all_explained(shapes.values(), "MAC"),
    }


def _shares(run: Run, pass_: Pass) -> tuple[Quantity, ...]:
    """What was executed over theory by batch size, or why nothing is known."""
    nothing = absent("multiply-adds executed", "1", f"nothing was counted on {run.label}")
    return executed_shares(run, pass_) or (nothing,)
