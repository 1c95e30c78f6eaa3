"""The tables of memory; their captions stand in the template."""

from __future__ import annotations

from collections.abc import Callable

from report.missing import Missing
from report.paper.declared import Field, table
from report.paper.findings import Inputs
from report.paper.tables import Cell, Table
from report.studies.training_roofline import memory
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.memory import StepMemory, sweep_memory
from report.studies.training_roofline.theory import SOURCE_BATCH, Complexity
from report.theory.roofline import at_batch
from report.theory.training_memory import Categories, categories


def kept_in_theory_table(complexities: dict[str, Complexity]) -> Table:
    """The categories of every network at the source's image and largest batch, by shapes."""

    def of(get: Callable[[Categories], float]) -> Callable[[str], Cell]:
        def found(network: str) -> Cell:
            layers = at_batch(complexities[network].layers, SOURCE_BATCH)
            return get(categories(layers, on_host=False))

        return found

    return table(
        "tbl-kept",
        complexities,
        [
            Field("Network", "", lambda network: network),
            Field("Parameters", "B", of(lambda c: c.parameters), "MB"),
            Field("Gradients", "B", of(lambda c: c.gradients), "MB"),
            Field("Momentum", "B", of(lambda c: c.momentum), "MB"),
            Field("Images", "B", of(lambda c: c.batch), "MB"),
            Field("Kept an image", "B", of(lambda c: c.kept / SOURCE_BATCH), "MB"),
            Field("Kept", "B", of(lambda c: c.kept), "GB"),
            Field("End of forward", "B", of(lambda c: c.before_backward), "GB"),
        ],
        wide=True,
    )


def resident_table(run: Run) -> Table:
    """What is alive between steps, by category."""
    return table(
        f"tbl-resident-{run.key}",
        sweep_memory(run),
        [
            Field("Network", "", lambda m: m.step.network),
            Field("Batch", "1", lambda m: m.step.batch),
            Field("Parameters", "B", lambda m: m.theory.parameters, "MB"),
            Field("Gradients", "B", lambda m: m.theory.gradients, "MB"),
            Field("Momentum", "B", lambda m: m.theory.momentum, "MB"),
            Field("Statistics", "B", lambda m: m.theory.statistics, "kB"),
            Field("Images", "B", lambda m: m.theory.batch, "MB"),
            Field("Sum", "B", lambda m: m.theory.between_steps),
            Field("Measured", "B", lambda m: m.before),
            Field("Residual", "B", lambda m: m.residual),
        ],
        sources=(run.file,),
        wide=True,
    )


def peak_table(run: Run) -> Table:
    """What the forward pass keeps, and the peak of the step."""

    def over(m: StepMemory) -> Cell:
        return m.peak if isinstance(m.peak, Missing) else m.peak / m.theory.before_backward

    return table(
        f"tbl-peak-{run.key}",
        sweep_memory(run),
        [
            Field("Network", "", lambda m: m.step.network),
            Field("Batch", "1", lambda m: m.step.batch),
            Field("Kept", "B", lambda m: m.theory.kept, "MB"),
            Field("Kept an image", "B", lambda m: m.theory.kept / m.step.batch, "MB"),
            Field("End of forward", "B", lambda m: m.theory.before_backward, "MB"),
            Field("Peak", "B", lambda m: m.peak, "MB"),
            Field("Beyond theory", "B", lambda m: m.beyond, "MB"),
            Field("Peak / theory", "1", over),
        ],
        sources=(run.file,),
        wide=True,
    )


def kept_table(inputs: Inputs, run: Run) -> Table:
    """Kept bytes by shapes beside those of the trace."""
    return table(
        f"tbl-kept-{run.key}",
        memory.kept(inputs, run),
        [
            Field("Network", "", lambda found: found.step.network),
            Field("Image", "1", lambda found: found.step.image),
            Field("Batch", "1", lambda found: found.step.batch),
            Field("By shapes", "B", lambda found: found.theory),
            Field("By the trace", "B", lambda found: found.traced),
            Field("Residual", "B", lambda found: found.residual),
        ],
        sources=(run.file,),
    )
