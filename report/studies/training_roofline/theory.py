"""Theory of training steps: work, traffic, least times, and predictions."""

from collections.abc import Iterator, Sequence
from functools import cache

from report.core.missing import Missing
from report.core.records.layers import Layer, at_batch
from report.quantity.evaluation import point_estimate
from report.quantity.expression import Quantity, exact_number
from report.quantity.operations import largest
from report.studies.training_roofline.subject import IMAGE_SIDE, SOURCE_BATCH, WORKERS
from report.theory import work as theory
from report.theory.networks import layers_of
from report.theory.roofline import Load, load, total_load, update_load


@cache
def shapes(network: str, batch: int = 1) -> tuple[Layer, ...]:
    """Return the layers of a network on images of the source's size."""
    return at_batch(layers_of(network, IMAGE_SIDE), batch)


def layer_loads(layers: Sequence[Layer]) -> Iterator[Load]:
    """Yield each layer's work and traffic in a training step, without products with padding."""
    for layer, passes in zip(layers, theory.training_passes(layers), strict=True):
        flops = round(2 * theory.valid_tap_macs(layer) * len(passes))
        yield Load(flops, load(layer, passes).bytes)


@cache
def loads(network: str, batch: int) -> tuple[Load, ...]:
    """Return the loads of a network's layers and, last, of the update of its parameters."""
    layers = shapes(network, batch)
    return (*layer_loads(layers), update_load(layers))


@cache
def work(network: str) -> Quantity:
    """Compute the work of a training step on one image (FLOP), without padded zeros."""
    return exact_number(f"work of {network}", "FLOP", total_load(loads(network, 1)).flops)


def intensity(network: str) -> Quantity:
    """Divide work by the bytes that layers move (FLOP/B), at the source's batch size."""
    moved = total_load(loads(network, SOURCE_BATCH)).bytes
    return SOURCE_BATCH * work(network) / exact_number(f"traffic of {network}", "B", moved)


def value_of(quantity: Quantity) -> float:
    """Return the value of a quantity of the source or of theory, which is never missing."""
    value = point_estimate(quantity)
    assert not isinstance(value, Missing), value.reason
    return float(value)


def least_time(
    network: str, batch: int, peak: Quantity, bandwidth: Quantity
) -> tuple[Quantity, float]:
    """Return the least time (s) of a training step, and the share in which memory limits it.

    The time of a layer is the longer of work ÷ ``peak`` (FLOP/s) and traffic ÷ ``bandwidth`` (B/s).
    """
    peak_rate, bandwidth_rate = value_of(peak), value_of(bandwidth)
    seconds, memory_seconds = 0.0, 0.0
    for cost in loads(network, batch):
        arithmetic, moving = cost.flops / peak_rate, cost.bytes / bandwidth_rate
        seconds += max(arithmetic, moving)
        memory_seconds += moving if moving > arithmetic else 0
    time = exact_number(f"least time of {network} at batch {batch}", "s", seconds)
    return time, memory_seconds / seconds


def two_point_excess(mean: Quantity, deviation: Quantity, step: Quantity) -> Quantity:
    """Return the excess (see ``excess``) of steps with two durations (s), one of them ``step``.

    Among distributions with this mean and standard deviation, the excess is largest if ``step`` is
    the shortest step, and smallest if it is the longest; the paper's supplement proves it.
    """
    other_step = mean + deviation * deviation / (mean - step)
    return deviation * deviation / (step * other_step)


def excess(loader: Quantity, step: Quantity) -> Quantity:
    """Predict the excess: mean throughput of steps ÷ throughput of all steps together, minus 1.

    ``loader``: time (s) per batch of all workers together.  ``step``: time (s) of a step on images
    in memory.  If the loader is slower, workers that share a core finish together.  One step then
    waits for the workers, and the other steps find their batches ready.
    """
    waiting_step = largest(WORKERS * loader - (WORKERS - 1) * step, step)
    waiting = waiting_step - step
    return waiting * waiting / (waiting_step * step) * (WORKERS - 1) / WORKERS**2
