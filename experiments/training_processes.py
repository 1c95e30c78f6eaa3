"""What the processes of the study of training do, each one case; imports torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TypeAlias, cast

import torch

from experiments.harness import timing
from experiments.harness.profiling import trace_file
from experiments.harness.study import SEED, CaseFile, Device, Factors, Layout, Precision, Session
from experiments.harness.timing import Workload, seconds
from experiments.harness.training_step import Batch, LayerClock, Trainer, trainer, watched
from experiments.networks.blocks import CLASSES
from experiments.networks.catalogue import network
from report.records.record import Series

#: One step on a batch; returns the loss.
Step: TypeAlias = Callable[[Batch], torch.Tensor]

_WARMUP: int = 2


def train(factors: Factors, session: Session) -> tuple[Series, ...]:
    """Steps of training, timed; on photographs also the wait for each batch (s)."""
    made, batch = _made(factors, session.device)
    step = _step(factors, made, batch)
    if factors["dataset"] == "folder":
        return _on_photographs(factors, session, made)
    call = Workload(lambda: step(batch), partial(_relabel, batch))
    return timing.warmed_and_repeated(call, session.protocol, session.device)


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
    count, size = int(factors["batch"]), int(factors["image"])
    # As normalised images are.
    return made, made.placed((torch.randn(count, 3, size, size), torch.randint(CLASSES, (count,))))


def _relabel(batch: Batch) -> None:
    """Put new random labels into the same memory.

    A network learns one batch by heart within a few steps; its gradients vanish then, and a device
    computes with zeros faster than with numbers.
    """
    batch[1].random_(CLASSES)


def _step(factors: Factors, made: Trainer, batch: Batch) -> Step:
    if factors["execution"] == "eager":
        return made.step
    from experiments.networks.variants import compiled

    fast = replace(made, module=compiled(made.module))
    return fast.step if factors["execution"] == "compiled" else _graphed(fast, batch)


def _graphed(made: Trainer, batch: Batch) -> Step:
    """The step as a CUDA graph, which one call launches whole, on this batch.

    As torch's manual asks, the warm-up runs on a stream of its own, and the gradients are dropped
    before the capture, so that they lie in the graph's memory.
    """
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARMUP):
            made.step(batch)
    torch.cuda.current_stream().wait_stream(side)
    made.optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = made.step(batch)

    def replay(batch: Batch) -> torch.Tensor:
        graph.replay()
        return loss

    return replay


def _on_photographs(factors: Factors, session: Session, made: Trainer) -> tuple[Series, ...]:
    from experiments.datasets.image_folder import batches, photographs

    assert session.images is not None
    loader = batches(
        photographs(session.images),
        int(factors["batch"]),
        int(factors["image"]),
        workers=int(factors["workers"]),
        seed=SEED,
        pinned=session.device == "cuda",
    )
    waits, batch = list[float](), made.placed(next(loader))

    def feed() -> None:
        nonlocal batch
        began = time.perf_counter()
        batch = made.placed(next(loader))
        waits.append(time.perf_counter() - began)

    call = Workload(lambda: made.step(batch), feed)
    times = timing.warmed_and_repeated(call, session.protocol, session.device)
    return (*times, seconds("loader_wait_time", waits[-len(times[0].samples) :]))


def profile(factors: Factors, session: Session, names: Sequence[str]) -> tuple[Series, ...]:
    """Steps with the layers ``names`` timed; by the host's clock or the device's."""
    made, batch = _made(factors, session.device)
    for _ in range(_WARMUP):
        _relabel(batch)
        made.step(batch)
    clock, layers, durations = timing.clock_of(session.device), LayerClock(session.device), []
    with watched(made.module, layers.mark), timing.collector_off():
        for _ in range(session.protocol.minimum_samples):
            _relabel(batch)
            durations.append(clock(Workload(lambda: made.step(batch))))
    return (*timing.series_of(durations), *layers.series(names))


def trace(factors: Factors, session: Session) -> CaseFile:
    """A Chrome trace of one step, with marks around its phases and around each layer."""
    words = (factors[name] for name in ("network", "image", "batch", "precision", "layout"))
    name = "-".join(str(word).lower().replace("_", "-") for word in words)
    of = f"{factors['network']} in training at batch {factors['batch']}, each layer marked"
    return trace_file(name, of, partial(_marked_step, factors, session.device), session.device)


def _marked_step(factors: Factors, device: Device) -> Workload:
    made, batch = _made(factors, device)
    made.step(batch)

    def call() -> object:
        with watched(made.module, torch.profiler.record_function):
            return made.step(batch, _phase)

    return Workload(call)


def _phase(name: str) -> AbstractContextManager[object]:
    return torch.profiler.record_function(f"ridgepoint.{name}")
