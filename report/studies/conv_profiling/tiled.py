"""What a GPU executed of each shape of the layer, led from theory by the tiles of its kernels."""

from __future__ import annotations

from collections.abc import Sequence

from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.kernels import Kernel, kernels_of, tile_of
from report.records.layers import Convolution
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.reconciled import shared_batches
from report.theory.reconciliation import Reconciliation, Term
from report.theory.shapes import elements
from report.theory.terms import theory_macs, tile_padding


def tiled(inputs: Inputs, run: Run) -> dict[str, Reconciliation]:
    """All dimensions whose forward calls were counted kernel by kernel, at the batches they share.

    A term is stated only where a kernel's name tells its tile, or where the count of a kernel of
    its own is that of the bias; what other kernels do stays in the residual.
    """
    found = {}
    for dimensions in run.dimensions:
        for batch in shared_batches(run, dimensions):
            factors = dimensions.factors(batch, "forward")
            counted = run.fixed("ncu_fp32_multiply_adds", factors)
            listed = kernels_of(inputs, run, factors)
            if listed and not isinstance(counted, Missing):
                found[f"{dimensions.name}, {batch}"] = _reconciled(
                    f"tiled-{run.key}-{dimensions.key}-{batch}",
                    f"Executed multiply-adds of {dimensions.name} on {run.label} at batch {batch}",
                    dimensions.layer(batch),
                    listed,
                    counted,
                )
    return found


def takes_fourier_transforms(inputs: Inputs, run: Run) -> bool:
    """Whether a forward call of some shape runs through kernels named after the fast one."""
    calls = (
        dimensions.factors(batch, "forward")
        for dimensions in run.dimensions
        for batch in run.batches(dimensions)
    )
    return any("fft" in k.work.name for factors in calls for k in kernels_of(inputs, run, factors))


def _reconciled(
    id: str, subject: str, layer: Convolution, kernels: Sequence[Kernel], counted: int
) -> Reconciliation:
    tiles = [tile for kernel in kernels if (tile := tile_of(kernel.work.name))]
    filled = (
        tile_padding(layer, tiles[0], "the tile in the kernel's name")
        if len(tiles) == 1
        else Term("Filling up tiles", 0, "0: no tile is named", "names of the kernels")
    )
    terms = (filled, _bias(layer, kernels))
    measured = Term("Executed", counted, "float32 multiply-adds", "ncu_fp32_multiply_adds")
    return Reconciliation(id, subject, "MAC", theory_macs(layer), terms, measured)


def _bias(layer: Convolution, kernels: Sequence[Kernel]) -> Term:
    """One multiply-add an output element, where a kernel counts just these."""
    outputs = elements(layer.output_shape)
    seen = any(kernel.multiply_adds == outputs for kernel in kernels)
    formula = "N · C_out · H_out · W_out" if seen else "0: no kernel counts just these"
    return Term("Bias in its own kernel", outputs if seen else 0, formula, "count of that kernel")
