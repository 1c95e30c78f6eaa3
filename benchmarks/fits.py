"""Test ``theory --fits`` on a CPU: ``python -m benchmarks.fits``.

For a limit of memory, the command predicts the largest batch that fits.  This batch must run, and
the next batch must fail.  Takes half an hour on one core.
Adds missing rows to ``data/inference_memory/limits-avx2.csv``, or to the table of another vector
extension, and writes ``benchmarks/fits.md``.  A library between PyTorch and glibc (``fits.c``)
enforces the limit: it refuses tensors beyond the limit.  A row names the machine (by the key of
records) and the commit.

The rules of workspaces hold for AVX2.  On a processor with AVX-512, set
``ATEN_CPU_CAPABILITY=avx2`` and ``ONEDNN_MAX_CPU_ISA=AVX2``.  ``--sample`` tries a third of the
networks, in inference only, and does not write the page.
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
from experiments.theory.checked import capture_theory
from experiments.theory.networks import find_network, import_timm
from experiments.theory.operators import DEFAULT_POLICY, CapturePolicy, Input, ReplayedStep
from report.studies.inference_memory.subject import IMAGE_SIDE, ROOM_FOR_TENSORS
from report.theory.allocator import Options
from report.theory.network import PROBE_BATCH, Theory, least_bytes
from report.theory.networks import CAPTURED_BATCH, CapturedNetwork

HERE: Final = Path(__file__).resolve()
#: Folder of the tables, which are data of a paper.
DATA: Final = HERE.parents[1] / "data" / "inference_memory"
#: Vector extension that PyTorch uses, such as ``avx2``.
CAPABILITY: Final = torch.backends.cpu.get_cpu_capability().lower()
TABLE: Final = DATA / f"limits-{CAPABILITY}.csv"
#: ``predicted``: largest batch that fits; ``left``: bytes between its predicted peak and the limit.
#: ``ran``: largest batch that ran; ``failed``: operator in which the next batch stopped.  ``told``:
#: whether the prediction names this operator as one that may allocate more.
COLUMNS: Final = (
    "network", "mode", "limit", "predicted", "verdict", "left", "ran", "failed", "told",
    "machine", "torch", "commit",
)  # fmt: skip
MODES: Final = ("inference", "training")
#: Largest number of bytes that oneDNN allocated, as observed, to describe its kernels.
DESCRIPTIONS_B: Final = 34_000
#: Networks that ``--sample`` selects: every third of the list, from the second on.
SAMPLE: Final = slice(1, 54, 3)


class LastOperator(TorchDispatchMode):
    """Mode that stores the name of the last called operator in memory shared with a parent."""

    def __init__(self, shared_name: Any) -> None:
        super().__init__()
        self.shared_name = shared_name

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Store the name, and call the operator."""
        self.shared_name.value = str(func).removeprefix("aten.").encode()
        return func(*args, **(kwargs or {}))


def succeeds(
    step: ReplayedStep, channels: int, limit: int, batch: int, last_operator: Any = None
) -> bool:
    """Return whether a call with ``batch`` images succeeds under ``limit`` (B).

    ``last_operator`` is shared memory for the name of the last operator.  The call runs in a child
    process, since a refused tensor may leave PyTorch broken.
    """
    if (child := os.fork()) == 0:
        try:
            call(step, (batch, channels, IMAGE_SIDE, IMAGE_SIDE), limit, last_operator)
        except Exception:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return status == 0


def state_bytes(step: ReplayedStep) -> tuple[int, ...]:
    """Return the bytes of each storage that stays allocated between steps on the same device."""
    state = (*step.module.parameters(), *step.module.buffers(), *step.state())
    storages = (tensor.untyped_storage() for tensor in state if tensor.device == state[0].device)
    return tuple({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def call(step: ReplayedStep, shape: tuple[int, ...], limit: int, last_operator: Any) -> None:
    """Call a network under a limit (B), after one without; raise if a tensor is refused."""
    library = ctypes.CDLL(None)
    tensors_alive = ctypes.c_long.in_dll(library, "tensors_alive")
    tensors_limit = ctypes.c_long.in_dll(library, "tensors_limit")
    step.prepare((torch.randn(shape),))
    if not step.trains:
        step.run((torch.randn(shape),))
    gc.collect()
    # The limit includes the state between steps, which is allocated already.
    tensors_limit.value = tensors_alive.value - sum(state_bytes(step)) + limit
    with LastOperator(last_operator) if last_operator else nullcontext():
        step.run((torch.randn(shape),))


def prepare(
    name: str, mode: str, policy: CapturePolicy = DEFAULT_POLICY, allocator: Options | None = None
) -> tuple[ReplayedStep, int, Theory, Callable[[int], Theory]]:
    """Return a network's step, the channels of its images, its theory, and the theory at a batch.

    The last item is a function of the batch.  With ``allocator`` options, the step runs on a GPU.
    """
    (build, image), train = find_network(name), mode == "training"
    channels = image[0]
    theory = capture_theory(
        build, [Input((CAPTURED_BATCH, channels, IMAGE_SIDE, IMAGE_SIDE))],
        train=train, allocator=allocator, policy=policy, probe=PROBE_BATCH,
    )  # fmt: skip
    gpu = allocator is not None
    module = build().train(train).to("cuda" if gpu else "cpu")
    step = ReplayedStep(module, policy, gpu=gpu, trains=train)
    return step, channels, theory, partial(theory.at_batch, CapturedNetwork(theory.network))


def add_rows(name: str, mode: str) -> None:
    """Try one network under every limit, and append the results to the table."""
    step, channels, theory, theory_at = prepare(name, mode)
    rows, row_origin = [], origin()
    for room in ROOM_FOR_TENSORS:  # bytes beyond the peak of two images
        limit = least_bytes(theory_at(2)) + room
        frontier = theory.fits(limit)
        predicted = frontier.largest
        # Search down from the prediction to a batch that runs, or up while larger batches run.
        largest_ran, runs = predicted, partial(succeeds, step, channels, limit)
        while largest_ran and not runs(largest_ran):
            largest_ran -= 1
        while largest_ran >= predicted and runs(largest_ran + 1):
            largest_ran += 1
        last_operator = RawArray("c", 100)
        runs(largest_ran + 1, last_operator)
        operator = last_operator.value.decode()
        left = limit - least_bytes(frontier.predicted[predicted])
        is_named = operator in theory.may_take_more
        outcome = (limit, predicted, frontier.verdict(predicted), left, largest_ran)
        rows.append((name, mode, *outcome, operator, is_named, *row_origin))
    with TABLE.open("a", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)


def line_through(batches: tuple[int, int], sizes: tuple[int, int]) -> tuple[int, int]:
    """Return the fixed bytes and the bytes per image, from the bytes at two batches."""
    per_image = (sizes[1] - sizes[0]) // (batches[1] - batches[0])
    return sizes[0] - per_image * batches[0], per_image


def origin() -> tuple[str, str, str]:
    """Return the machine's key, the version of PyTorch, and the commit of the code."""
    commit = program_output("git", "rev-parse", "HEAD", folder=HERE.parent)
    return gather(torch, "cpu", torch.get_num_threads()).key, torch.__version__, commit or ""


def write_page() -> None:
    """Write ``benchmarks/fits.md``: shares of exact predictions, and every miss with its cause."""
    rows = pd.read_csv(TABLE)
    rows["is_exact"] = rows["ran"] == rows["predicted"]
    shares = [
        f"| {mode} | *{verdict}* | {len(exact)} | {exact.sum()} | {exact.mean():.0%} |"
        for (mode, verdict), exact in rows.groupby(["mode", "verdict"])["is_exact"]
    ]
    misses = [
        f"| `{row.network}` | {row.mode} | {row.limit / 1e6:.1f} | {row.predicted} | {row.ran} "
        f"| {row.left:,} | `{row.failed}` | {cause(row)} |"
        for row in rows[~rows["is_exact"]].itertuples()
    ]
    fill_page(
        HERE, rows, misses="\n".join(misses), shares="\n".join(shares), table=TABLE.name,
        room=", ".join(f"{room / 1e6:.0f}" for room in ROOM_FOR_TENSORS), torch=torch.__version__,
        machine=torch.backends.cpu.get_cpu_capability(),
    )  # fmt: skip


def fill_page(script: Path, rows: pd.DataFrame, **texts: str) -> None:
    """Write the page of a benchmark script from the script's template, with further ``texts``."""
    text = script.with_suffix(".md.in").read_text(encoding="utf-8").format(
        side=IMAGE_SIDE, networks=rows["network"].nunique(), limits=len(rows),
        above=(rows["ran"] > rows["predicted"]).sum(), **texts,
    )  # fmt: skip
    script.with_suffix(".md").write_text(text, encoding="utf-8")


def cause(row: Any) -> str:
    """Explain why a prediction was missed, as in ``fits.md``; raises ``ValueError`` if unknown."""
    if row.told:
        return "its workspace"
    if row.failed.startswith("convolution.") and 0 <= row.left < DESCRIPTIONS_B:
        return "oneDNN's descriptions"
    if row.failed.startswith("add.") and row.mode == "training":
        return "watched"
    raise ValueError(f"{row}: not explained")


def write_table(
    path: Path, columns: Iterable[str], rows_of: Callable[[str], Iterable[Iterable[Any]]]
) -> None:
    """Write a table with the rows of every network; write each network's rows at once."""
    torch.set_num_threads(1)
    import_timm()
    with path.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(columns)
        for name in names():
            table.writerows(rows_of(name))
            stream.flush()


def names() -> list[str]:
    """List all networks, or the networks that ``--sample`` selects."""
    all_names = HERE.with_suffix(".txt").read_text(encoding="utf-8").split()
    return all_names[SAMPLE] if "--sample" in sys.argv else all_names


def main() -> None:
    """Try each network that the table lacks, with ``fits.c`` loaded; then write the page."""
    if "fits.so" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory() as folder:
            library, source = Path(folder) / "fits.so", HERE.with_suffix(".c")
            subprocess.run(("cc", "-O2", "-shared", "-fPIC", "-o", library, source), check=True)
            environment = os.environ | {"LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"}
            command = (sys.executable, "-m", "benchmarks.fits", *sys.argv[1:])
            subprocess.run(command, check=True, env=environment)
        return
    is_sample = "--sample" in sys.argv
    import_timm()
    if not TABLE.exists():
        TABLE.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    rows = pd.read_csv(TABLE)
    existing = {*zip(rows["network"], rows["mode"], strict=True)}
    for case in product(names(), ("inference",) if is_sample else MODES):
        if case not in existing:
            process = get_context("fork").Process(target=add_rows, args=case)
            process.start()
            process.join()
    if not is_sample:
        write_page()


if __name__ == "__main__":
    main()
