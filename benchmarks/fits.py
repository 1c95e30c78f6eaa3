"""Run what ``--fits`` predicts: ``python -m benchmarks.fits`` (an hour on one processor).

The largest batch that is predicted must run, and the next one must fail.  Adds what is missing to
``docs/fits.csv`` and writes ``docs/fits.md``.  The limit is real: a library between PyTorch and
glibc (``fits.c``) refuses a tensor beyond it.
"""

from __future__ import annotations

import csv
import ctypes
import gc
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import product
from multiprocessing import RawArray, RawValue, get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from experiments.harness.operators import Call, Input, Policy, Step
from experiments.theory.checked import checked
from experiments.theory.networks import import_timm, network
from report.theory.fits import BATCH, PROBE, scaled, searched

HERE: Final = Path(__file__)
PAGE: Final = HERE.resolve().parent.parent / "docs" / "fits.md"
TABLE: Final = PAGE.with_suffix(".csv")
SIDE: Final = 64
#: Beyond the peak of two images (B), so that some batch fits into each.
ROOM: Final = (8_000_000, 24_000_000, 72_000_000)
#: After this time a call is given up (s).
PATIENCE: Final = 120


class Row(NamedTuple):
    """One network under one limit (B): the largest batch that was predicted, and that which ran.

    ``failed`` is the operator in which the next batch failed, and ``refused`` what it asked for
    (B); ``told`` says that the prediction names it as one that may take more.
    """

    network: str
    mode: str
    limit: int
    predicted: int
    verdict: str
    ran: int
    failed: str
    refused: int
    told: bool


class Watched(TorchDispatchMode):
    """Writes down which operator is called."""

    def __init__(self, name: Any) -> None:
        super().__init__()
        self.name = name

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.name.value = str(func).removeprefix("aten.").encode()
        return func(*args, **(kwargs or {}))


def held(step: Call | Step) -> int:
    """The bytes that are there before a call."""
    kept = (*step.module.parameters(), *step.module.buffers(), *step.state())
    storages = (each.untyped_storage() for each in kept)
    return sum({each.data_ptr(): each.nbytes() for each in storages}.values())


def runs(step: Call | Step, channels: int, limit: int, batch: int, failed: Any = None) -> bool:
    """Whether a call has room, in a process of its own, since a refusal may leave PyTorch broken.

    A call before has no limit, as kernels are generated and gradients are there after it.  Where
    ``failed`` is given, it tells the operator and what was refused.
    """
    if (child := os.fork()) == 0:
        signal.alarm(PATIENCE)
        try:
            _call(step, (batch, channels, SIDE, SIDE), limit, failed)
        except Exception:
            os._exit(1)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended == -signal.SIGALRM:
        raise TimeoutError(f"batch {batch} took more than {PATIENCE} s")
    return ended == 0


def _call(step: Call | Step, shape: tuple[int, ...], limit: int, failed: Any) -> None:
    """Raises where the limit is too small."""
    library = ctypes.CDLL(None)
    alive, most, refused = (
        ctypes.c_long.in_dll(library, f"tensors_{n}") for n in ("alive", "limit", "refused")
    )
    phases: Any = SimpleNamespace(phase="", writes=True)
    step.prepare((torch.randn(shape),), phases)
    gc.collect()
    most.value = alive.value - held(step) + limit
    try:
        with Watched(failed[0]) if failed else nullcontext():
            step.run((torch.randn(shape),), phases)
    finally:
        if failed:
            failed[1].value = refused.value


def frontier(fits: Callable[[int], bool], guess: int) -> int:
    """The largest batch that fits, looked for around a guess."""
    low, high, far = 0, 2**20, 1
    while high - low > 1:
        low, high = (guess, high) if fits(guess) else (low, guess)
        half = (low + high) // 2
        guess, far = min(low + far, half) if low else max(high - far, half), 2 * far
    return low


def tried(name: str, mode: str) -> Iterator[Row]:
    """One network under each limit."""
    named, train = network(name), mode == "training"
    images, channels = Input((BATCH, named.image[0], SIDE, SIDE)), named.image[0]
    whole = checked(named.build, [images], train=train, probe=PROBE)
    if not whole.scales or (two := scaled(whole, 2).peak) is None:
        raise ValueError("its operators do not grow with the batch alone")
    module = named.build().train(train)
    step = Step(module, Policy(), gpu=False) if train else Call(module, Policy())
    for room in ROOM:
        limit = two.total + room
        found = searched(partial(scaled, whole), limit)
        ran = frontier(partial(runs, step, channels, limit), found.largest)
        failed = RawArray("c", 100), RawValue("l")
        runs(step, channels, limit, ran + 1, failed)
        operator, told = failed[0].value.decode(), failed[0].value.decode() in whole.may_take_more
        verdict = found.verdict(found.largest)
        yield Row(name, mode, limit, found.largest, verdict, ran, operator, failed[1].value, told)


def try_one(name: str, mode: str) -> None:
    """Add the rows of one network."""
    try:
        rows = list(tried(name, mode))
    except Exception as error:  # one that fails must not end the others
        print(f"{name}, {mode}: {type(error).__name__}: {error}", flush=True)
        return
    with TABLE.open("a", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)


def main() -> None:
    """Try every network in a process of its own, behind the library that refuses tensors."""
    if "fits.so" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "fits.so"
            source = HERE.with_suffix(".c")
            subprocess.run(("cc", "-O2", "-shared", "-fPIC", "-o", library, source), check=True)
            environment = os.environ | {"LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"}
            subprocess.run((sys.executable, "-m", "benchmarks.fits"), check=True, env=environment)
        return
    import_timm()
    if not TABLE.exists():
        TABLE.write_text(",".join(Row._fields) + "\n", encoding="utf-8")
    with TABLE.open(encoding="utf-8", newline="") as stream:
        known = {(row["network"], row["mode"]) for row in csv.DictReader(stream)}
    names = HERE.with_suffix(".txt").read_text(encoding="utf-8").split()
    for each in product(names, ("inference", "training")):
        if each not in known:
            process = get_context("fork").Process(target=try_one, args=each)
            process.start()
            process.join()


if __name__ == "__main__":
    main()
