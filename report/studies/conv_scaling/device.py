"""What a GPU executed and allocated, led back to theory; there is nothing without a GPU's record.

Work comes from Nsight Compute, memory from the caching allocator's own history, replayed.
"""

from __future__ import annotations

from dataclasses import replace

from report.evidence.allocator_replay import CallReplay, reconciled, reconciliations, replayed
from report.missing import Missing
from report.records.passes import PASSES, Pass
from report.records.record import Case
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.subject import LAYOUTS, multiply_adds, subject
from report.theory.allocator import Allocate, Free
from report.theory.reconciliation import Reconciliation, Term
from report.theory.terms import (
    allocator_rounding,
    as_flops,
    bias_additions,
    output_scaling,
    theory_macs,
    theory_output,
)

# -------------------------------------------------------------------------------------- work


def device_work(run: Run, pass_: Pass = "forward") -> dict[int, Reconciliation]:
    """What the CUDA cores' counters saw, by the batch sizes that were counted, from theory."""
    counted = {batch: run.constant("ncu_cuda_core_flops", batch, pass_) for batch in run.batches}
    return {
        batch: _work(run, batch, pass_, flops)
        for batch, flops in counted.items()
        if isinstance(flops, int)
    }


def _work(run: Run, batch: int, pass_: Pass, counted: int) -> Reconciliation:
    adds = run.constant("ncu_fp32_additions", batch, pass_)
    multiplies = run.constant("ncu_fp32_multiplications", batch, pass_)
    theory = replace(theory_macs(subject(batch)), amount=multiply_adds(batch, pass_))
    return Reconciliation(
        f"device-work-{run.key}-{run.layout}-{pass_}-{batch}",
        f"Operations of the CUDA cores on {run.label} at batch {batch}",
        "FLOP",
        as_flops(theory),
        (
            _if_seen(bias_additions(subject(batch), ""), adds, "additions"),
            _if_seen(output_scaling(subject(batch), ""), multiplies, "multiplications"),
            _tensor_work(run, batch, pass_),
        ),
        Term("Counted", counted, "add + multiply + 2 · multiply-add", "ncu_cuda_core_flops"),
    )


def _if_seen(term: Term, counted: int | Missing, what: str) -> Term:
    """A term of single operations if the counter of that kind shows just it, else 0."""
    if counted == term.amount:
        return replace(term, evidence=f"equal to the counted {what}")
    return replace(term, amount=0, evidence=f"0: not equal to the counted {what}")


def _tensor_work(run: Run, batch: int, pass_: Pass) -> Term:
    """What the tensor cores did instead, which the CUDA cores' counters do not hold."""
    flops = run.constant("ncu_tensor_core_flops", batch, pass_)
    found = isinstance(flops, int)
    return Term(
        "Tensor-core work, not in these counters",
        -flops if isinstance(flops, int) else 0,
        "−operations of the tensor cores",
        "ncu_tensor_core_flops" if found else "0: not counted on this GPU",
    )


def all_device_work(run: Run) -> dict[str, Reconciliation]:
    """The same for both layouts and both kinds of call, by id."""
    groups = (device_work(run.in_layout(layout), p) for layout in LAYOUTS for p in PASSES)
    return {found.id: found for group in groups for found in group.values()}


# ------------------------------------------------------------------------------------ memory


def device_memory(run: Run) -> dict[str, dict[int, Reconciliation]]:
    """``requested``, ``allocated`` and ``reserved`` bytes of the forward call by batch size.

    The first two grow by the call; what is reserved is a sum, since the warm-up call has taken the
    segments.  Only of cases whose record tells every request.
    """
    told: dict[str, dict[int, Reconciliation]] = {"requested": {}, "allocated": {}, "reserved": {}}
    for batch in run.batches:
        case = run.case(run.factors(batch, "forward"))
        if isinstance(case, Missing) or isinstance(call := replayed(case), Missing):
            continue
        told["requested"][batch] = _requested(run, batch, call)
        told["allocated"][batch] = _allocated(run, batch, call)
        told["reserved"][batch] = reconciled(
            call,
            case,
            "reserved",
            "after",
            f"device-{run.key}-{batch}",
            f"Bytes that the allocator holds on {run.label} after the call at batch {batch}",
        )
    return told


def _requested(run: Run, batch: int, call: CallReplay) -> Reconciliation:
    peak = call.highest("requested")
    freed = {request.id for request in call.requests if isinstance(request, Free)}
    own = [request for request in call.requests if isinstance(request, Allocate)]
    live = {block.owner for segment in peak.segments for block in segment.blocks}
    temporary = [r for r in own if r.id in freed and r.id in live]
    waiting = [r for r in own if r.id not in freed and r.id not in live]
    return _memory(
        run,
        batch,
        "requested",
        (
            Term(
                "Temporary requests",
                sum(request.bytes for request in temporary),
                "requests that the call frees itself, live at the peak",
                "history of the allocator",
            ),
            Term(
                "Output not yet requested",
                -sum(request.bytes for request in waiting),
                "−requests that outlive the call, not yet live at the peak",
                "history of the allocator",
            ),
        ),
        run.grown("requested_peak", run.factors(batch, "forward"), since="requested_before"),
        "highest − before",
    )


def _allocated(run: Run, batch: int, call: CallReplay) -> Reconciliation:
    terms = (allocator_rounding(call.before, call.after, "replay of the requests"),)
    return _memory(
        run,
        batch,
        "allocated",
        terms,
        run.grown("allocated_after", run.factors(batch, "forward"), since="allocated_before"),
        "after − before",
    )


def _memory(
    run: Run,
    batch: int,
    of: str,
    terms: tuple[Term, ...],
    measured: int | Missing,
    formula: str,
) -> Reconciliation:
    source = "the allocator's statistics"
    return Reconciliation(
        f"device-{of}-{run.key}-{batch}",
        f"{of.capitalize()} bytes on {run.label} at batch {batch}",
        "B",
        theory_output(subject(batch)),
        terms,
        measured
        if isinstance(measured, Missing)
        else Term(of.capitalize(), measured, formula, source),
    )


def replays(run: Run) -> dict[str, Reconciliation]:
    """Every sum of the allocator at every moment of every case, replayed from its requests."""
    return {
        found.id: found
        for index, case in enumerate(run.stored.record.cases)
        if case.status == "ok"
        for found in reconciliations(case, f"replay-{run.key}-{index}", _told(run, case))
    }


def _told(run: Run, case: Case) -> str:
    return f"{', '.join(f'{name} {level}' for name, level in case.factors.items())} on {run.label}"
