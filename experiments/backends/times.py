"""The times of a case: whole iterations, their passes, their operations, and a call by itself."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from experiments.backends.case import Case, Images, Part, Step
from experiments.backends.operations import timed
from experiments.backends.perceptron import (
    Parameters,
    accuracy,
    backward,
    forward,
    iteration,
    loss,
    update,
)
from experiments.harness.timing import Workload, collector_off, cpu_clock, repeated, series_of
from report.records.quantities import QUANTITIES
from report.records.record import Protocol, Series

#: The passes over passes and over operations take this share of a case's time budget each, and at
#: least so many samples.
SHARE: Final = 0.3
FEWEST: Final = 5
#: Calls in a sample of what one costs.
_CALLS: Final = 100


def times(case: Case, protocol: Protocol, iterations: int) -> tuple[Series, ...]:
    """The times of ``iterations`` of a training, or of the first one repeated where that is 0."""
    part, parameters = case.placed(), case.parameters()
    step = case.step(part)
    found = (
        trained(step, parameters, iterations)
        if iterations
        else repeatedly(step, parameters, protocol)
    )
    if case.is_eager:
        brief = msgspec.structs.replace(
            protocol,
            minimum_samples=min(FEWEST, protocol.minimum_samples),
            case_budget_s=SHARE * protocol.case_budget_s,
        )
        found += (*passes(case, part, brief), *operations(case, part, brief))
        found += alone(case, part, brief)
    return found


def trained(step: Step, parameters: Parameters, count: int) -> tuple[Series, ...]:
    """``count`` iterations of a training, every one of them a sample; the first call apart."""
    first = cpu_clock(_workload(lambda: step(parameters)))

    def advance() -> None:
        nonlocal parameters
        parameters = step(parameters)

    workload = _workload(advance)
    with collector_off():
        durations = [cpu_clock(workload) for _ in range(count)]
    return (_seconds("first_call_time", [first.wall]), *series_of(durations))


def repeatedly(step: Step, parameters: Parameters, protocol: Protocol) -> tuple[Series, ...]:
    """The same iteration again and again, as ``protocol`` says; the first call apart."""
    workload = _workload(lambda: step(parameters))
    first = cpu_clock(workload)
    for _ in range(protocol.warmup_calls):
        cpu_clock(workload)
    with collector_off():
        durations = repeated(workload, protocol, cpu_clock)
    return (_seconds("first_call_time", [first.wall]), *series_of(durations))


def _workload(call: Callable[[], object]) -> Workload:
    return Workload(call, reset=lambda: None)


def _seconds(quantity: str, samples: Sequence[float]) -> Series:
    return Series(quantity=quantity, unit="s", samples=tuple(samples))


def passes(case: Case, part: Part, protocol: Protocol) -> tuple[Series, ...]:
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
    return tuple(_seconds(name, found[name][1:]) for name in found)


def operations(case: Case, part: Part, protocol: Protocol) -> tuple[Series, ...]:
    """The time of each kind of operation in one iteration, each finished before the next begins.

    A sample is the sum over the operations of that kind in one iteration.
    """
    parameters = case.parameters()
    sums: dict[str, float] = defaultdict(float)
    found: dict[str, list[float]] = defaultdict(list)

    def tell(quantity: str, seconds: float) -> None:
        sums[quantity] += seconds

    watched = timed(case.library.xp, case.library.wait, time.perf_counter, tell)

    def once() -> None:
        sums.clear()
        iteration(watched, parameters, *part)
        for quantity, seconds in sums.items():
            found[quantity].append(seconds)

    _again(once, protocol)
    # By the order of the table, not by that of the calls; the first is a warm-up.
    return tuple(_seconds(name, found[name][1:]) for name in QUANTITIES if name in found)


def alone(case: Case, part: Part, protocol: Protocol) -> tuple[Series, ...]:
    """What a call costs, and the first layer's product by itself: what explains an iteration.

    A sample of ``call_time`` is the mean over so many calls that the clock matters little.
    """
    wait, ops, weights = case.library.wait, case.ops, case.parameters().w1
    one = weights[:1, :1]

    def calls() -> None:
        for _ in range(_CALLS):
            wait(ops.add_bias(one, one))

    def product() -> None:
        wait(ops.product(weights, part.images))

    return (
        _seconds("call_time", [wall / _CALLS for wall in _again(calls, protocol)]),
        _seconds("product_alone_time", _again(product, protocol)),
    )


def _again(once: Callable[[], None], protocol: Protocol) -> list[float]:
    """Once to warm up, then within the case's budget: each time (s)."""
    once()
    with collector_off():
        return [each.wall for each in repeated(_workload(once), protocol, cpu_clock)]


def course(case: Case, test: Images, count: int) -> tuple[Series, ...]:
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
    return tuple(Series(quantity=name, unit="1", samples=tuple(found[name])) for name in found)
