"""What the processes of the study of training do, each one case; imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import torch

from experiments.harness import layer_times, sensors, steps, timing
from experiments.harness.images import photographs_in
from experiments.harness.profiling import trace_of_call
from experiments.harness.study import SEED, CaseFile, Device, Factors, Session
from experiments.harness.training_step import (
    Batch,
    Layout,
    Mark,
    Precision,
    Trainer,
    captured,
    marked,
    relabelled,
    synthetic,
    trainer,
)
from experiments.harness.workload import Workload
from experiments.networks.blocks import CLASSES
from experiments.networks.catalogue import network
from report.records.record import Series


def train(factors: Factors, session: Session) -> tuple[Series, ...]:
    """Steps of training, timed."""
    made, batch = _made(factors, session.device)
    loads = factors["dataset"] == "folder"
    feed = _loader(factors, session, made) if loads else partial(relabelled, batch, CLASSES)
    log = sensors.Log(sensors.available(session.device))
    step = _step(factors, made)
    return steps.measured(step, feed, session.protocol, session.device, log, loads=loads)


def _made(factors: Factors, device: Device) -> tuple[Trainer, Batch]:
    """The network and one random batch, with the same values in every process."""
    torch.manual_seed(SEED)
    made = trainer(
        network(str(factors["network"]), in_place=True),
        device,
        cast(Precision, factors["precision"]),
        cast(Layout, factors["layout"]),
        fused=factors.get("optimizer") == "fused",
    )
    return made, made.placed(synthetic(int(factors["batch"]), int(factors["image"]), CLASSES))


def _step(factors: Factors, made: Trainer) -> steps.Step:
    if factors["execution"] == "eager":
        return made.step
    from experiments.networks.variants import compiled

    fast = replace(made, module=compiled(made.module))
    return fast.step if factors["execution"] == "compiled" else _Graphed(fast)


class _Graphed:
    """A step that is captured as a CUDA graph when it is first called; it has no phases."""

    def __init__(self, made: Trainer) -> None:
        self._made = made
        self._graph: Workload | None = None

    def __call__(self, batch: Batch, mark: Mark) -> torch.Tensor:
        if self._graph is None:
            self._graph = captured(self._made, batch, steps.LEAST_WARMUP)
        return cast(torch.Tensor, self._graph.call())


def _loader(factors: Factors, session: Session, made: Trainer) -> steps.Feed:
    from experiments.harness.loading import batches

    assert session.images is not None
    found: Iterator[Batch] = batches(
        photographs_in(session.images),
        int(factors["batch"]),
        int(factors["image"]),
        count=1 + session.protocol.warmup_calls + session.protocol.maximum_samples,
        workers=int(factors["workers"]),
        seed=SEED,
        pinned=session.device == "cuda",
    )
    return lambda: made.placed(next(found))


def profile(factors: Factors, session: Session, names: Sequence[str]) -> tuple[Series, ...]:
    """Steps with the layers ``names`` timed; by the host's clock or the device's."""
    made, batch = _made(factors, session.device)
    for _ in range(steps.LEAST_WARMUP):
        made.step(relabelled(batch, CLASSES))
    clock = timing.cpu_clock if session.device == "cpu" else timing.cuda_clock
    phases, durations = steps.PhaseClock(session.device), []
    call = Workload(lambda: made.step(batch), _nothing)
    with layer_times.watched(made.module, layer_times.clock_mark(phases)), timing.collector_off():
        for _ in range(session.protocol.minimum_samples):
            relabelled(batch, CLASSES)
            durations.append(clock(call))
    return (*timing.series_of(durations), *layer_times.series_of(phases, names))


def _nothing() -> None:
    """A step needs no reset: it drops the gradients itself."""


def trace(factors: Factors, session: Session) -> CaseFile:
    """A Chrome trace of one step, with marks around its phases and around each layer."""
    words = (factors[name] for name in ("network", "image", "batch", "precision", "layout"))
    name = "-".join(str(word).lower().replace("_", "-") for word in words)
    content = trace_of_call(partial(_watched_step, factors, session.device), session.device)
    meaning = (
        f"a Chrome trace of one training step of {factors['network']} at batch {factors['batch']}, "
        f"{factors['image']} pixels, each layer marked; Perfetto and chrome://tracing open it"
    )
    return CaseFile(f"trace.{name}.json.gz", meaning, content)


def _watched_step(factors: Factors, device: Device) -> Workload:
    made, batch = _made(factors, device)
    made.step(batch)

    def call() -> object:
        with layer_times.watched(made.module, layer_times.profile_mark):
            return made.step(batch, marked)

    return Workload(call, _nothing)


def multiply(factors: Factors, session: Session) -> tuple[Series, ...]:
    """The product of two random square matrices."""
    torch.manual_seed(SEED)
    side, precision = int(factors["side"]), factors["precision"]
    torch.backends.cuda.matmul.allow_tf32 = precision == "tfloat32"
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    with torch.device(session.device):
        left, right = (torch.randn(side, side).to(dtype) for _ in range(2))
        out = torch.empty(side, side, dtype=dtype)
    call: Callable[[], object] = partial(torch.mm, left, right, out=out)
    workload = Workload(call, _nothing)
    return timing.first_and_repeated(workload, session.protocol, session.device)
