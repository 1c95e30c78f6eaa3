"""Run what ``--fits`` predicts: ``python -m benchmarks.fits`` (half an hour on one processor).

The largest batch that is predicted must run, and the next one must fail.  Adds what is missing to
``data/inference_memory/limits-avx2.csv``, or to the table of another vector extension, and writes
``benchmarks/fits.md``.  The limit is real: a library between PyTorch and glibc (``fits.c``) refuses
a tensor beyond it.  Each row names its machine by the key of its records, and its code.  The rules
of workspaces are for AVX2, which a processor with more computes with if both
``ATEN_CPU_CAPABILITY=avx2`` and ``ONEDNN_MAX_CPU_ISA=AVX2`` are set.  With ``--sample`` a third of
the networks of others is tried in inference, and the page stays as it is.
"""

import csv
import ctypes
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from itertools import product
from multiprocessing import RawArray, get_context
from pathlib import Path
from typing import Any, Final

import pandas as pd
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from experiments.machine.environment import gather
from experiments.machine.text import program_output
from experiments.theory.captures import capture_theory
from experiments.theory.networks import import_timm, network
from experiments.theory.operators import DEFAULT, CapturePolicy, Input, ReplayedStep
from report.studies.inference_memory.subject import ROOM_FOR_TENSORS, SIDE
from report.theory.allocator import Options
from report.theory.network import PROBE, Theory, least, search
from report.theory.networks import BATCH, CapturedNetwork

HERE: Final = Path(__file__).resolve()
#: Tables are data of a paper.
DATA: Final = HERE.parents[1] / "data" / "inference_memory"
CAPABILITY: Final = torch.backends.cpu.get_cpu_capability().lower()
TABLE: Final = DATA / f"limits-{CAPABILITY}.csv"
COLUMNS: Final = (
    "network", "mode", "limit", "predicted", "verdict", "left", "ran", "failed", "told",
    "machine", "torch", "commit",
)  # fmt: skip
MODES: Final = ("inference", "training")
#: The most bytes that oneDNN's descriptions of kernels take.
DESCRIPTIONS: Final = 34_000
#: The networks of others that ``--sample`` selects: every third from the second on.
SAMPLE: Final = slice(1, 54, 3)


class Watched(TorchDispatchMode):
    """Mode that stores the name of each called operator in ``name``."""

    def __init__(self, name: Any) -> None:
        super().__init__()
        self.name = name

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Store the name, and call the operator."""
        self.name.value = str(func).removeprefix("aten.").encode()
        return func(*args, **(kwargs or {}))


def runs(step: ReplayedStep, channels: int, limit: int, batch: int, failed: Any = None) -> bool:
    """Try a call in a process of its own, since a refusal may leave PyTorch broken.

    Returns whether it succeeds; ``failed`` receives the name of the last operator.
    """
    if (child := os.fork()) == 0:
        try:
            call(step, (batch, channels, SIDE, SIDE), limit, failed)
        except Exception:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def held(step: ReplayedStep) -> tuple[int, ...]:
    """Return the bytes of each storage that lives from step to step."""
    state = (*step.module.parameters(), *step.module.buffers(), *step.state())
    storages = (tensor.untyped_storage() for tensor in state if tensor.device == state[0].device)
    return tuple({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def call(step: ReplayedStep, shape: tuple[int, ...], limit: int, failed: Any) -> None:
    """Call under a limit; raises if it is too small.  A first call without limit builds kernels."""
    library = ctypes.CDLL(None)
    alive, most = (ctypes.c_long.in_dll(library, f"tensors_{n}") for n in ("alive", "limit"))
    step.prepare((torch.randn(shape),))
    if not step.trains:
        step.run((torch.randn(shape),))
    gc.collect()
    most.value = alive.value - sum(held(step)) + limit  # the step frees gradients
    with Watched(failed) if failed else nullcontext():
        step.run((torch.randn(shape),))


def prepared(
    name: str, mode: str, policy: CapturePolicy = DEFAULT, allocator: Options | None = None
) -> tuple[ReplayedStep, int, Theory, Callable[[int], Theory]]:
    """Return a network's step, the channels of its images, its theory, and theory by batch."""
    named, train = network(name), mode == "training"
    whole = capture_theory(
        named.build, [Input((BATCH, named.image[0], SIDE, SIDE))],
        train=train, allocator=allocator, policy=policy, probe=PROBE,
    )  # fmt: skip
    gpu = allocator is not None
    module = named.build().train(train).to("cuda" if gpu else "cpu")
    step = ReplayedStep(module, policy, gpu=gpu, trains=train)
    return step, named.image[0], whole, partial(whole.at_batch, CapturedNetwork(whole.network))


def add_rows(name: str, mode: str) -> None:
    """Try one network under each limit, and add the results to the table."""
    step, channels, whole, at = prepared(name, mode)
    rows, traced = [], origin()
    for room in ROOM_FOR_TENSORS:
        limit = least(at(2)) + room
        best = search(at, limit)
        ran, fits = best.largest, partial(runs, step, channels, limit)
        while ran and not fits(ran):
            ran -= 1
        while ran >= best.largest and fits(ran + 1):
            ran += 1
        failed = RawArray("c", 100)
        fits(ran + 1, failed)
        operator, left = failed.value.decode(), limit - least(best.predicted[best.largest])
        verdict, explained = best.verdict(best.largest), operator in whole.may_take_more
        outcome = (name, mode, limit, best.largest, verdict, left, ran, operator, explained)
        rows.append((*outcome, *traced))
    with TABLE.open("a", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)


def origin() -> tuple[str, str, str]:
    """Return the machine's key, the version of PyTorch, and the commit of the code."""
    commit = program_output("git", "rev-parse", "HEAD", folder=HERE.parent)
    return gather(torch, "cpu", torch.get_num_threads()).key, torch.__version__, commit or ""


def write_page() -> None:
    """Write ``benchmarks/fits.md``."""
    rows = pd.read_csv(TABLE)
    rows["met"] = rows["ran"] == rows["predicted"]
    shares = [
        f"| {mode} | *{verdict}* | {len(met)} | {met.sum()} | {met.mean():.0%} |"
        for (mode, verdict), met in rows.groupby(["mode", "verdict"])["met"]
    ]
    misses = [
        f"| `{row.network}` | {row.mode} | {row.limit / 1e6:.1f} | {row.predicted} | {row.ran} "
        f"| {row.left:,} | `{row.failed}` | {cause(row)} |"
        for row in rows[~rows["met"]].itertuples()
    ]
    filled(
        HERE, rows, misses="\n".join(misses), shares="\n".join(shares),
        room=", ".join(f"{room / 1e6:.0f}" for room in ROOM_FOR_TENSORS), torch=torch.__version__,
        machine=torch.backends.cpu.get_cpu_capability(),
    )  # fmt: skip


def filled(script: Path, rows: pd.DataFrame, **parts: str) -> None:
    """Write the page of a script from its template."""
    text = script.with_suffix(".md.in").read_text(encoding="utf-8").format(
        side=SIDE, networks=rows["network"].nunique(), limits=len(rows),
        above=(rows["ran"] > rows["predicted"]).sum(), **parts,
    )  # fmt: skip
    script.with_suffix(".md").write_text(text, encoding="utf-8")


def cause(row: Any) -> str:
    """Explain why a prediction was missed; raises ``ValueError`` if no cause is known."""
    if row.told:
        return "its workspace"
    if row.failed.startswith("convolution.") and 0 <= row.left < DESCRIPTIONS:
        return "oneDNN's descriptions"
    if row.failed.startswith("add.") and row.mode == "training":
        return "watched"
    raise ValueError(f"{row}: not explained")


def write_table(
    path: Path, columns: Iterable[str], rows_of: Callable[[str], Iterable[Iterable[Any]]]
) -> None:
    """Write the rows of each network of ``names`` as soon as they are computed."""
    torch.set_num_threads(1)
    import_timm()
    with path.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(columns)
        for name in names():
            table.writerows(rows_of(name))
            stream.flush()


def names() -> list[str]:
    """List the networks: all, or those of ``--sample``."""
    listed = HERE.with_suffix(".txt").read_text(encoding="utf-8").split()
    return listed[SAMPLE] if "--sample" in sys.argv else listed


def main() -> None:
    """Try every network in a process of its own, behind the library that refuses tensors."""
    sampled = [argument for argument in sys.argv if argument == "--sample"]
    if "fits.so" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory() as folder:
            library, source = Path(folder) / "fits.so", HERE.with_suffix(".c")
            subprocess.run(("cc", "-O2", "-shared", "-fPIC", "-o", library, source), check=True)
            environment = os.environ | {"LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"}
            command = (sys.executable, "-m", "benchmarks.fits", *sampled)
            subprocess.run(command, check=True, env=environment)
        return
    import_timm()
    if not TABLE.exists():
        TABLE.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    rows = pd.read_csv(TABLE)
    known = {*zip(rows["network"], rows["mode"], strict=True)}
    for case in product(names(), MODES[:1] if sampled else MODES):
        if case not in known:
            process = get_context("fork").Process(target=add_rows, args=case)
            process.start()
            process.join()
    if not sampled:
        write_page()


if __name__ == "__main__":
    main()
