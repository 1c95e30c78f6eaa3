"""Memory of a training step by category: theory beside what the allocator and a trace say."""

from __future__ import annotations

from dataclasses import dataclass

from report.instruments.trace import Trace, read_trace
from report.missing import Missing
from report.paper.findings import Inputs
from report.quantity.expression import Quantity, exact
from report.studies.training_roofline.batches import sweep
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.subject import NETWORKS, Step, step_of
from report.studies.training_roofline.theory import Complexity
from report.theory.networks import Captured
from report.theory.training_memory import Categories, categories

#: The marks that end the forward pass in a trace, the later one first.
_FORWARD_ENDS = ("ridgepoint.loss", "ridgepoint.forward")


@dataclass(frozen=True)
class StepMemory:
    """Theory's categories of a step, and what was measured around it (B)."""

    step: Step
    theory: Categories
    before: int | Missing
    peak: int | Missing


def step_memory(run: Run, step: Step) -> StepMemory | Missing:
    """The memory of a step in float32; missing where nothing ran or another precision did."""
    layers = run.layers(step.factors)
    if isinstance(layers, Missing):
        return layers
    network = run.captured(step.network, step.image)
    if isinstance(network, Missing):
        return network
    if step.precision == "bfloat16":
        return Missing("theory is of float32 alone")
    kind = "requested" if run.on_gpu else "allocated"
    return StepMemory(
        step,
        categories(network, step.batch, on_host=not run.on_gpu),
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


def source_need(found: Complexity, batch: int) -> Quantity:
    """Bytes that a GPU must hold at the end of a forward pass of ``batch`` images, by shapes."""
    of = found.memory(batch)
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
                where = f"data/{run.file}/{name}"
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


@dataclass(frozen=True)
class Kept:
    """What the forward pass of a watched step keeps, by shapes and by its trace (B)."""

    step: Step
    theory: int
    traced: int | Missing


def kept(inputs: Inputs, run: Run) -> tuple[Kept, ...]:
    """Kept bytes of the watched steps in float32 that were traced."""
    watched = {c.factors["network"]: c for c in run.profiles if c.factors["precision"] == "float32"}
    found = []
    for network, trace in traces(inputs, run).items():
        step = step_of(watched[network]) if network in watched else None
        operators = run.captured(network, step.image) if step else None
        if step is not None and isinstance(operators, Captured):
            theory = categories(operators, step.batch, on_host=not run.on_gpu).kept
            found.append(Kept(step, theory, traced_kept(trace, not run.on_gpu)))
    return tuple(found)


def kept_residuals(inputs: Inputs, run: Run) -> tuple[Quantity, ...]:
    """The residuals (B) of all traced steps of a run."""
    found = kept(inputs, run)
    return tuple(_beyond(k.traced, k.theory, run) for k in found if isinstance(k.traced, int))
