"""The times of a case: whole iterations, a call and a product by themselves, and the parts."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from experiments.backends.case import Case, Images, Part
from experiments.backends.operations import timed
from experiments.backends.perceptron import accuracy, backward, forward, iteration, loss, update
from experiments.harness.timing import Workload, collector_off, cpu_clock, repeated, series_of
from report.records.quantities import QUANTITIES
from report.records.record import Measured, Protocol

#: Calls in a sample of what one costs.
_CALLS: Final = 100


def times(case: Case, protocol: Protocol, *, apart: bool) -> Measured:
    """The first iteration repeated, a call and a product alone; ``apart`` its parts too.

    The first call of a process stands apart: it loads kernels and starts threads.
    """
    part, parameters = case.placed(), case.parameters()
    step = case.step(part)
    workload = Workload(lambda: step(parameters))
    first = cpu_clock(workload)
    for _ in range(protocol.warmup_calls):
        cpu_clock(workload)
    with collector_off():
        durations = repeated(workload, protocol, cpu_clock)
    found = {"first_call_time": (first.wall,)} | series_of(durations)
    found |= _alone(case, part, protocol)
    if apart:
        found |= _passes(case, part, protocol)
        found |= _operations(case, part, protocol)
    return found


def _passes(case: Case, part: Part, protocol: Protocol) -> Measured:
    """``forward_time`` and ``backward_time``, each pass finished before the next begins."""
    parameters, ops = case.parameters(), case.ops
    found: dict[str, list[float]] = defaultdict(list)

    def once() -> None:
        wait, now = case.library.wait, time.perf_counter
        start = now()
        activations = wait(forward(ops, parameters, part.images))
        middle = now()
        gradients = wait(backward(ops, parameters, activations, *part))
        end = now()
        wait(update(ops, parameters, gradients))
        found["forward_time"].append(middle - start)
        found["backward_time"].append(end - middle)

    _again(once, protocol)
    return {name: tuple(samples[1:]) for name, samples in found.items()}


def _operations(case: Case, part: Part, protocol: Protocol) -> Measured:
    """The time of each kind of operation in one iteration, each finished before the next begins.

    A sample is the sum over the operations of that kind in one iteration.
    """
    parameters = case.parameters()
    sums: dict[str, float] = defaultdict(float)
    found: dict[str, list[float]] = defaultdict(list)

    def tell(quantity: str, duration: float) -> None:
        sums[quantity] += duration

    watched = timed(case.library.xp, case.library.wait, time.perf_counter, tell)

    def once() -> None:
        sums.clear()
        iteration(watched, parameters, *part)
        for quantity, total in sums.items():
            found[quantity].append(total)

    _again(once, protocol)
    # By the order of the table, not by that of the calls; the first is a warm-up.
    return {name: tuple(found[name][1:]) for name in QUANTITIES if name in found}


def _alone(case: Case, part: Part, protocol: Protocol) -> Measured:
    """What a call on one element costs, and the first layer's product by itself.

    A sample of ``call_time`` is the mean over so many calls that the clock matters little.
    """
    wait, ops, weights = case.library.wait, case.ops, case.parameters().w1
    one = weights[:1, :1]

    def calls() -> None:
        for _ in range(_CALLS):
            wait(ops.add_bias(one, one))

    return {
        "call_time": tuple(wall / _CALLS for wall in _again(calls, protocol)),
        "product_alone_time": tuple(
            _again(lambda: wait(ops.product(weights, part.images)), protocol)
        ),
    }


def _again(once: Callable[[], object], protocol: Protocol) -> list[float]:
    """Once to warm up, then within the case's budget: each time (s)."""
    once()
    with collector_off():
        return [each.wall for each in repeated(Workload(once), protocol, cpu_clock)]


def course(case: Case, test: Images, count: int) -> Measured:
    """Loss (nats a sample) and accuracy of both parts before the first and after each iteration."""
    parts = {"train": case.placed(), "test": case.on_device(test)}
    step, parameters, xp = case.step(parts["train"]), case.parameters(), case.library.xp
    found: dict[str, list[float]] = defaultdict(list)
    for index in range(count + 1):
        if index:
            parameters = step(parameters)
        for name, part in parts.items():
            sums = forward(case.ops, parameters, part.images).z2
            found[f"{name}_loss"].append(loss(xp, sums, part.targets))
            found[f"{name}_accuracy"].append(accuracy(xp, sums, part.targets))
    return {name: tuple(samples) for name, samples in found.items()}
