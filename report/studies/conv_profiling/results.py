"""Reconciliations of theory with counts, term by term, for the source and for our runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from report.core.missing import Missing
from report.core.records.reported import Reported
from report.evidence import executed as counted_work
from report.paper.findings import Inputs
from report.quantity.evaluation import number
from report.quantity.expression import Quantity, absent, exact, recorded
from report.studies.conv_profiling import theory
from report.studies.conv_profiling.runs import (
    UNNAMED,
    UNNAMED_TILE,
    ProfiledCall,
    Run,
    kernels_of,
    tile_of,
)
from report.studies.conv_profiling.source import CONVOLUTION, MB, operator_bytes
from report.studies.conv_profiling.subject import BASE
from report.theory.conditions import Workspace, conditions_of
from report.theory.convolution_workspaces import computed_by_pytorch, convolution_workspace
from report.theory.reconciliation import Reconciliation, Term
from report.theory.terms import (
    COUNTED_WIDTH,
    SHAPES,
    as_flops,
    bias_kernel,
    executed_terms,
    for_each_output,
    theory_macs,
    theory_output,
    tile_epilogue,
    tile_padding,
)
from report.theory.work import output_bytes, parameter_bytes

#: lackey serialises all threads, so that the counted process has one.
_COUNTED_THREADS = 1
#: The term of a call that is not padded: one conversion an image.
_CONVERTED = "Factors converted"
#: Arrays that Winograd's algorithm keeps between its steps.
_TRANSFORMED = ("input", "weights", "output")
_FORMULAS = ("4 · (m + k − 1)² · B · T · C_in", "4 · (m + k − 1)² · C_in · C_out",
             "4 · (m + k − 1)² · B · T · C_out")  # fmt: skip

# -------------------------------------------------------------------------------- the source


def source_estimate(reported: Reported) -> Reconciliation:
    """From the source's estimate for its batch to the bytes that its profiler saw allocated.

    All terms follow from shapes; the size of the workspace reveals the algorithm of its terms.
    """
    batch = reported.count("profiled_batch")
    layer = BASE.layer(1)
    parameters, workspace = parameter_bytes(layer), theory.winograd(batch, theory.SQUARE)
    estimate, image = reported.value("estimated_memory"), reported.value("memory_mb")
    printed = Fraction(str(estimate.number)) * MB
    return Reconciliation(
        "reported-estimate",
        f"Memory of the source's call at batch {batch}",
        "B",
        Term("Estimate, printed", int(printed), f"batch · {image.number} MB", estimate.place),
        (
            Term(
                "Rounding of the factor",
                batch * (parameters + output_bytes(layer)) - int(printed),
                f"batch · (bytes of an image − {image.number} MB)",
                "the same product with the exact bytes",
            ),
            Term(
                "Parameters counted once",
                -(batch - 1) * parameters,
                "−(batch − 1) · parameters",
                SHAPES,
            ),
            Term(
                "Parameters not allocated by the call",
                -parameters,
                "−parameters",
                "they are there before the call",
            ),
            *(
                Term(f"Winograd's {name}", amount, formula, "the workspace by Winograd's algorithm")
                for name, formula, amount in zip(_TRANSFORMED, _FORMULAS, workspace, strict=True)
            ),
        ),
        Term(
            "Allocated, printed",
            operator_bytes(reported, CONVOLUTION, "allocation_size"),
            "allocation size · 1,024",
            f"row {CONVOLUTION}",
        ),
    )


# -------------------------------------------------------------------------------- on a CPU


def executed(run: Run) -> dict[ProfiledCall, Reconciliation]:
    """The forward calls whose multiply-adds lackey counted, by the rules of its processor."""
    build = run.stored.record.environment.torch.build
    calls = {call.name: call for call in run.calls}
    counted = counted_work.counts(run, {name: call.factors() for name, call in calls.items()})
    results: dict[ProfiledCall, Reconciliation] = {}
    for name, count in counted.items():
        call = calls[name]
        results[call] = counted_work.executed(
            f"executed-{run.key}-{call.shape.key}-{call.batch}",
            f"Executed multiply-adds of {name} on {run.label}",
            theory_macs(call.layer),
            *count,
            *executed_terms(call.layer, _COUNTED_THREADS, build, COUNTED_WIDTH),
        )
    return results


def backward(run: Run) -> Iterator[Reconciliation]:
    """Reconcile the example's calls with backward pass; theory alone predicts their counts."""
    cases = {batch: BASE.factors(batch, "forward_backward") for batch in run.batches}
    for batch, count in counted_work.counts(run, cases).items():
        theory = theory_macs(BASE.layer(batch))
        yield counted_work.executed(
            f"executed-{run.key}-backward-{batch}",
            f"Executed multiply-adds with the backward pass on {run.label} at batch {batch}",
            replace(theory, amount=BASE.multiply_adds(batch, "forward_backward")),
            *count,
        )


def peaks(run: Run) -> dict[ProfiledCall, Reconciliation]:
    """The forward calls whose peak a CPU recorded and whose code has a rule for its workspace."""
    conditions = conditions_of(run.stored.record.environment)
    results: dict[ProfiledCall, Reconciliation] = {}
    for call in () if run.on_gpu else run.calls:
        peak, taken = run.peak(call), convolution_workspace(call.layer, False, conditions)
        unfolded = computed_by_pytorch(call.layer, conditions)
        if unfolded and call.shape.kernel == 1:  # its input is the matrix already
            taken = Workspace(())
        if taken.complete and not isinstance(peak, Missing):
            results[call] = Reconciliation(
                f"peak-{run.key}-{call.shape.key}-{call.batch}",
                f"Peak memory of one forward call of {call.name} on {run.label}",
                "B",
                theory_output(call.layer),
                taken.terms,
                Term("Peak", peak, "highest − before", "the profiler's memory events"),
            )
    return results


# -------------------------------------------------------------------------------- on a GPU


def tiled(inputs: Inputs, run: Run, named: bool = True) -> dict[ProfiledCall, Reconciliation]:
    """The forward calls whose kernel names its tile, or those of the one kernel that names none.

    The grid in which that kernel is launched shows its tile; it scales an output by one operation,
    and does not scale the padding.
    """
    results: dict[ProfiledCall, Reconciliation] = {}
    for call in run.calls:
        kernels = kernels_of(inputs, run, call.factors())
        if isinstance(kernels, Missing):
            continue
        tiles = [tile for kernel in kernels if (tile := tile_of(kernel))]
        if not named:
            unnamed = not tiles and any(UNNAMED in kernel for kernel in kernels)
            tiles = [UNNAMED_TILE] if unnamed else []
        counted = number(run.on_cuda_cores(call.factors()))
        if len(tiles) != 1 or isinstance(counted, Missing):
            continue
        layer = call.layer
        evidence = "the tile in the kernel's name" if named else "the grid of the launch"
        scaling = tile_epilogue(layer, tiles[0], evidence)
        results[call] = Reconciliation(
            f"tiled-{run.key}-{call.shape.key}-{call.batch}",
            f"Operations of {call.name} on {run.label}",
            "FLOP",
            as_flops(theory_macs(layer)),
            (
                as_flops(tile_padding(layer, tiles[0], evidence)),
                scaling if named else for_each_output("scaling", layer),
                bias_kernel(layer, "the kernel that adds the bias"),
            ),
            Term(
                "Counted",
                int(counted),  # type: ignore[arg-type]
                "additions + multiplications + 2 · fused",
                "Nsight Compute",
            ),
        )
    return results


def calls_of(
    subject: str, calls: Mapping[ProfiledCall, Reconciliation]
) -> dict[ProfiledCall, Reconciliation]:
    """Select the calls in shapes of a subject: ``layer``, ``held_out`` or ``changed``."""
    return {call: result for call, result in calls.items() if call.subject == subject}


def pads_tiles(r: Reconciliation) -> bool:
    """Return True if the first term of a call by tiles, their padding, is not zero."""
    return r.terms[0].amount > 0


def differs_from_theory(r: Reconciliation) -> bool:
    """Return True if terms other than theory and a conversion per image are not zero."""
    return any(term.amount for term in r.terms if term.name != _CONVERTED)


def recorded_in(run: Run, r: Reconciliation) -> Quantity:
    """Count or peak that a run recorded for a reconciliation."""
    amount = r.measured if isinstance(r.measured, Missing) else r.measured.amount
    return recorded("recorded", r.unit, amount, run.file)


def ratios(run: Run | None, calls: Mapping[ProfiledCall, Reconciliation]) -> list[Quantity]:
    """Divide what was recorded by theory's start, call by call."""
    shares: list[Quantity] = [
        recorded_in(run, r) / exact("theory", r.unit, r.start.amount) for r in calls.values() if run
    ]
    return shares or [absent("recorded ÷ theory", "1", "nothing was counted")]
