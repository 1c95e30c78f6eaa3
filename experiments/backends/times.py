"""The times of a case: whole iterations, their phases, their operations, copies to a device."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from experiments.backends.learning import Parameters, accuracy, iteration, loss, update
from experiments.backends.operations import timed
from experiments.backends.subject import Images, Part, Step, Subject, prepared
from experiments.harness.timing import (
    Duration,
    Workload,
    collector_off,
    cpu_clock,
    repeated,
    series_of,
)
from report.records.quantities import QUANTITIES
from report.records.record import Protocol, Series

#: The passes over phases and over operations take this share of a case's time budget each, and at
#: least so many samples.
SHARE: Final = 0.3
FEWEST: Final = 5
#: Calls in a sample of what one costs.
_CALLS: Final = 100


def trained(step: Step, parameters: Parameters, count: int) -> tuple[Series, ...]:
    """``count`` iterations of a training, every one of them a sample; the first call apart."""
    first = cpu_clock(_repeating(step, parameters))

    def advance() -> None:
        nonlocal parameters
        parameters = step(parameters)

    workload = Workload(advance, reset=lambda: None)
    with collector_off():
        durations = [cpu_clock(workload) for _ in range(count)]
    return (_first(first), *series_of(durations))


def repeatedly(step: Step, parameters: Parameters, protocol: Protocol) -> tuple[Series, ...]:
    """The same iteration again and again, as ``protocol`` says; the first call apart."""
    workload = _repeating(step, parameters)
    first = cpu_clock(workload)
    for _ in range(protocol.warmup_calls):
        cpu_clock(workload)
    with collector_off():
        durations = repeated(workload, protocol, cpu_clock)
    return (_first(first), *series_of(durations))


def _repeating(step: Step, parameters: Parameters) -> Workload:
    return Workload(lambda: step(parameters), reset=lambda: None)


def _first(duration: Duration) -> Series:
    return _seconds("first_call_time", [duration.wall])


def _seconds(quantity: str, samples: Sequence[float]) -> Series:
    return Series(quantity=quantity, unit="s", samples=tuple(samples))


def phases(case: Subject, part: Part, protocol: Protocol) -> tuple[Series, ...]:
    """``forward_time`` and ``backward_time``, each phase finished before the next begins."""
    parameters = case.parameters()
    found: dict[str, list[float]] = defaultdict(list)

    def once() -> None:
        wait, now = case.library.wait, time.perf_counter
        start = now()
        activations = wait(case.network.forward(case.ops, parameters, part.images))
        middle = now()
        gradients = wait(
            case.network.backward(case.ops, parameters, activations, part.images, part.targets)
        )
        end = now()
        wait(update(case.ops, parameters, gradients, case.network.rate))
        found["forward_time"].append(middle - start)
        found["backward_time"].append(end - middle)

    _again(once, protocol)
    return tuple(_seconds(name, found[name][1:]) for name in found)


def operations(case: Subject, part: Part, protocol: Protocol) -> tuple[Series, ...]:
    """The time of each kind of operation in one iteration, each finished before the next begins.

    A sample is the sum over the operations of that kind in one iteration.
    """
    parameters = case.parameters()
    sums: dict[str, float] = defaultdict(float)
    found: dict[str, list[float]] = defaultdict(list)

    def tell(quantity: str, seconds: float) -> None:
        sums[quantity] += seconds

    watched = timed(case.ops, case.library.wait, time.perf_counter, tell)

    def once() -> None:
        sums.clear()
        iteration(case.network, watched, parameters, part.images, part.targets)
        for quantity, seconds in sums.items():
            found[quantity].append(seconds)

    _again(once, protocol)
    # By the order of the table, not by that of the calls; the first is a warm-up.
    return tuple(_seconds(name, found[name][1:]) for name in QUANTITIES if name in found)


def alone(case: Subject, part: Part, protocol: Protocol) -> tuple[Series, ...]:
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

    brief = _brief(protocol)
    return (
        _by_itself("call_time", calls, brief, _CALLS),
        _by_itself("product_alone_time", product, brief),
    )


def _again(once: Callable[[], None], protocol: Protocol) -> None:
    """Once to warm up, then within a share of the case's budget."""
    once()
    with collector_off():
        repeated(Workload(once, reset=lambda: None), _brief(protocol), cpu_clock)


def _brief(protocol: Protocol) -> Protocol:
    """A share of a case's budget."""
    return msgspec.structs.replace(
        protocol,
        minimum_samples=min(FEWEST, protocol.minimum_samples),
        case_budget_s=SHARE * protocol.case_budget_s,
    )


def course(case: Subject, part: Part, test: Images, count: int) -> tuple[Series, ...]:
    """Loss (nats a sample) and accuracy of both parts before the first and after each iteration."""
    host = prepared(test, case.dtype)
    held_out = case.on_device(host)
    step, parameters = case.step(part), case.parameters()
    found: dict[str, list[float]] = defaultdict(list)
    for index in range(count + 1):
        if index:
            parameters = step(parameters)
        for name, images in {"train": part, "test": held_out}.items():
            for quantity, value in _scores(case, parameters, images).items():
                found[f"{name}_{quantity}"].append(value)
    return tuple(Series(quantity=name, unit="1", samples=tuple(found[name])) for name in found)


def _scores(case: Subject, parameters: Parameters, part: Part) -> Mapping[str, float]:
    sums = case.network.forward(case.ops, parameters, part.images).z2
    xp = case.library.xp
    return {"loss": loss(xp, sums, part.targets), "accuracy": accuracy(xp, sums, part.targets)}


def transfers(case: Subject, part: Part, protocol: Protocol) -> tuple[Series, ...]:
    """``to_device_time`` of the input, ``from_device_time`` of the probabilities, one copy each."""
    library, host = case.library, case.host()
    result = case.network.forward(case.ops, case.parameters(), part.images).a2
    return (
        _by_itself("to_device_time", lambda: library.wait(case.on_device(host)), protocol),
        _by_itself("from_device_time", lambda: library.to_host(result), protocol),
    )


def _by_itself(
    quantity: str, call: Callable[[], object], protocol: Protocol, times: int = 1
) -> Series:
    """The time of a call again and again, over the ``times`` that it does the same."""
    workload = Workload(call, reset=lambda: None)
    cpu_clock(workload)
    with collector_off():
        durations = repeated(workload, protocol, cpu_clock)
    return _seconds(quantity, [duration.wall / times for duration in durations])
