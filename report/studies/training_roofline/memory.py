"""Memory of a training step by category: theory beside what the allocator and a trace say."""

from __future__ import annotations

from dataclasses import dataclass

from figures.bars import Bars, BarSeries
from figures.canvas import Drawing
from report.evidence.runs import difference
from report.instruments.trace import Trace, read_trace
from report.missing import Missing
from report.paper.findings import Figure, Inputs
from report.paper.tables import Cell, Column, Table
from report.quantity.expression import Quantity, exact
from report.studies.training_roofline.batches import sweep
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.subject import IMAGE, NETWORKS, Step
from report.studies.training_roofline.theory import SOURCE_BATCH, Complexity
from report.theory.roofline import at_batch
from report.theory.training_memory import Categories, categories

MEGA = 1e6
#: The marks that end the forward pass in a trace, the later one first.
_FORWARD_ENDS = ("ridgepoint.loss", "ridgepoint.forward")


@dataclass(frozen=True)
class StepMemory:
    """Theory's categories of a step, and what was measured around it (B)."""

    step: Step
    theory: Categories
    before: int | Missing
    peak: int | Missing

    @property
    def residual(self) -> int | Missing:
        """What is alive before the step beyond theory."""
        return difference(self.before, self.theory.between_steps)

    @property
    def beyond(self) -> int | Missing:
        """The peak beyond what theory has alive at the end of the forward pass.

        Workspace, copies in other layouts, gradients that are alive with activations.
        """
        return difference(self.peak, self.theory.before_backward)


def step_memory(run: Run, step: Step) -> StepMemory | Missing:
    """The memory of a step in float32; missing where nothing ran or another precision did."""
    layers = run.layers(step.factors)
    if isinstance(layers, Missing):
        return layers
    if step.precision == "bfloat16":
        return Missing("theory is of float32 alone")
    kind = "requested" if run.on_gpu else "allocated"
    return StepMemory(
        step,
        categories(layers, on_host=not run.on_gpu),
        run.fixed(f"{kind}_before", step.factors),
        run.fixed(f"{kind}_peak", step.factors),
    )


def sweep_memory(run: Run) -> tuple[StepMemory, ...]:
    """The memory of every batch of the sweeps that ran."""
    found = (step_memory(run, step) for network in NETWORKS for step in sweep(run, network))
    return tuple(item for item in found if not isinstance(item, Missing))


def residuals(run: Run) -> tuple[Quantity, ...]:
    """What is alive before each step of the sweeps beyond theory (B)."""
    return tuple(
        _beyond(m.before, m.theory.between_steps, run)
        for m in sweep_memory(run)
        if not isinstance(m.before, Missing)
    )


def _beyond(measured: int, theory: int, run: Run) -> Quantity:
    return exact("measured", "B", measured, run.file) - exact("theory", "B", theory)


def peak_ratios(run: Run) -> tuple[Quantity, ...]:
    """The peak of each step of the sweeps over what theory has alive before the backward pass."""
    return tuple(
        exact("peak", "B", m.peak, run.file) / exact("theory", "B", m.theory.before_backward)
        for m in sweep_memory(run)
        if not isinstance(m.peak, Missing)
    )


def resident_table(run: Run) -> Table:
    """What is alive between steps, by category."""
    return Table(
        f"tbl-resident-{run.key}",
        f"Memory between two training steps on {run.label}, by category from shapes, beside what "
        "the allocator holds, with the residual. Images stand with their labels.",
        (
            *(Column("Network"), Column("Batch", "1"), Column("Parameters", "B", "MB")),
            *(Column("Gradients", "B", "MB"), Column("Momentum", "B", "MB")),
            *(Column("Statistics", "B", "kB"), Column("Images", "B", "MB")),
            *(Column("Sum", "B"), Column("Measured", "B"), Column("Residual", "B")),
        ),
        tuple(
            (
                *(m.step.network, m.step.batch, m.theory.parameters, m.theory.gradients),
                *(m.theory.momentum, m.theory.statistics, m.theory.batch),
                *(m.theory.between_steps, m.before, m.residual),
            )
            for m in sweep_memory(run)
        ),
        sources=(run.file,),
        wide=True,
    )


def peak_table(run: Run) -> Table:
    """What the forward pass keeps, and the peak of the step."""
    return Table(
        f"tbl-peak-{run.key}",
        f"Memory within a training step on {run.label}: what the forward pass keeps for the "
        "backward pass and what is then alive, both from shapes, the measured peak, and the peak "
        "over theory.",
        (
            *(Column("Network"), Column("Batch", "1"), Column("Kept", "B", "MB")),
            *(Column("Kept an image", "B", "MB"), Column("End of forward", "B", "MB")),
            *(Column("Peak", "B", "MB"), Column("Beyond theory", "B", "MB")),
            Column("Peak / theory", "1"),
        ),
        tuple(_peak_row(m) for m in sweep_memory(run)),
        sources=(run.file,),
        wide=True,
    )


def _peak_row(m: StepMemory) -> tuple[Cell, ...]:
    alive = m.theory.before_backward
    over = m.peak if isinstance(m.peak, Missing) else m.peak / alive
    kept = m.theory.kept
    return (
        *(m.step.network, m.step.batch, kept, kept / m.step.batch, alive, m.peak, m.beyond, over),
    )


def peak_figure(run: Run) -> Figure | None:
    """The peak of the largest batch of each network as a sum of categories."""
    largest: dict[str, StepMemory] = {}
    for item in sweep_memory(run):
        if not isinstance(item.beyond, Missing):
            largest[item.step.network] = item
    if not largest:
        return None
    items = tuple(largest.values())
    parts = {
        "Parameters": [m.theory.parameters for m in items],
        "Momentum": [m.theory.momentum for m in items],
        "Images, statistics": [m.theory.batch + m.theory.statistics for m in items],
        "Kept for backward": [m.theory.kept for m in items],
        "Beyond theory": [0 if isinstance(m.beyond, Missing) else m.beyond for m in items],
    }
    chart = Bars(
        tuple(f"{m.step.network}, batch {m.step.batch}" for m in items),
        tuple(
            BarSeries(name, tuple(amount / MEGA for amount in amounts), series=number)
            for number, (name, amounts) in enumerate(parts.items())
        ),
        "Memory at the peak of a step (MB)",
        stacked=True,
    )
    told = "; ".join(
        f"{m.step.network} at batch {m.step.batch}: {_mega(m.theory.kept)} kept of a peak of "
        f"{_mega(m.peak)}"
        for m in items
    )
    return Figure(
        f"fig-peak-{run.key}",
        f"The peak of a training step on {run.label} at the largest batch of each network, by "
        "category from shapes; what is beyond theory is workspace and copies.",
        f"Stacked bars. {told}.",
        Drawing((chart,), wide=True, height=chart.height),
        sources=(run.file,),
    )


def _mega(amount: int | Missing) -> str:
    return "not measured" if isinstance(amount, Missing) else f"{amount / MEGA:.4g} MB"


def source_need(found: Complexity, batch: int) -> Quantity:
    """Bytes that a GPU must hold at the end of a forward pass of ``batch`` images, by shapes."""
    of = categories(at_batch(found.layers, batch), on_host=False)
    resident = exact("parameters", "B", of.parameters) + exact("momentum", "B", of.momentum)
    images = exact("statistics", "B", of.statistics) + exact("images", "B", of.batch)
    return resident + images + exact("what the forward pass keeps", "B", of.kept)


# -------------------------------------------------------------------------------------- trace


def traces(inputs: Inputs, run: Run) -> dict[str, Trace]:
    """The traces beside a record by the network that they show."""
    found: dict[str, Trace] = {}
    attached = inputs.attachments.get(run.file, {})
    for network in NETWORKS:
        for name, content in sorted(attached.items()):
            if name.startswith(f"trace.{network.lower()}-"):
                where = f"data/{run.file.removesuffix('.json')}/{name}"
                found[network] = read_trace(content, where)
    return found


def traced_kept(trace: Trace, on_host: bool = True) -> int | Missing:
    """Bytes that the forward pass of a traced step left alive, by the allocator's events.

    A step drops its gradients before anything else.  A trace shows that where the profiler saw them
    come, so that the level from which the forward pass starts is the lowest one, or zero.
    """
    ends = {operator.name: operator.end for operator in trace.operators if operator.mark}
    end = next((ends[name] for name in _FORWARD_ENDS if name in ends), None)
    if end is None:
        return Missing("the trace has no mark at the end of the forward pass")
    live = [level for moment, level in trace.live(on_host=on_host) if moment <= end]
    if not live:
        return Missing("the trace has no events of the allocator")
    return live[-1] - min(0, *live)


def theory_table(known: dict[str, Complexity]) -> Table:
    """The categories of every network at the source's image and largest batch, by shapes."""
    made: list[tuple[Cell, ...]] = []
    for network, of in known.items():
        found = categories(at_batch(of.layers, SOURCE_BATCH), on_host=False)
        made.append(
            (
                *(network, found.parameters, found.gradients, found.momentum, found.batch),
                *(found.kept / SOURCE_BATCH, found.kept, found.before_backward),
            )
        )
    return Table(
        "tbl-kept",
        f"Memory of a training step by category, from shapes: a batch of {SOURCE_BATCH} images of "
        f"{IMAGE} pixels in float32 on a GPU. The last column is alive when the forward pass ends; "
        "gradients are not among it. Images stand with their "
        "labels.",
        (
            *(Column("Network"), Column("Parameters", "B", "MB"), Column("Gradients", "B", "MB")),
            *(Column("Momentum", "B", "MB"), Column("Images", "B", "MB")),
            *(Column("Kept an image", "B", "MB"), Column("Kept", "B", "GB")),
            Column("End of forward", "B", "GB"),
        ),
        tuple(made),
        wide=True,
    )


def kept_table(inputs: Inputs, run: Run) -> Table | None:
    """Kept bytes by shapes beside those of the trace; None without traces."""
    made: list[tuple[Cell, ...]] = []
    for network, trace in traces(inputs, run).items():
        case = next(
            (
                c
                for c in run.profiles
                if (c.factors["network"], c.factors["precision"]) == (network, "float32")
            ),
            None,
        )
        if case is None:
            continue
        kept = categories(case.layers, on_host=not run.on_gpu).kept
        seen = traced_kept(trace, not run.on_gpu)
        batch, image = int(case.factors["batch"]), int(case.factors["image"])
        made.append((network, image, batch, kept, seen, difference(seen, kept)))
    if not made:
        return None
    return Table(
        f"tbl-kept-{run.key}",
        f"What the forward pass of the watched step keeps on {run.label}: by shapes and the rules "
        "of the derivatives, and by the events of the allocator in the trace.",
        (
            *(Column("Network"), Column("Image", "1"), Column("Batch", "1")),
            *(Column("By shapes", "B"), Column("By the trace", "B"), Column("Residual", "B")),
        ),
        tuple(made),
        sources=(run.file,),
    )


def kept_residuals(inputs: Inputs, run: Run) -> tuple[Quantity, ...]:
    """The residuals (B) of all traced steps of a run."""
    table = kept_table(inputs, run)
    found = (row[-3:-1] for row in (table.rows if table else ()))
    return tuple(_beyond(s, k, run) for k, s in found if isinstance(k, int) and isinstance(s, int))
