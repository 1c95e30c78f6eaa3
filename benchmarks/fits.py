"""Run what ``--fits`` predicts: ``python -m benchmarks.fits`` (a quarter of an hour).

Sixty networks, inference and training, three limits of memory: the largest batch that is predicted
must run and the next one must fail.  Writes ``docs/fits.csv``, goes on where that ends, and writes
``docs/fits.md``.  The limit is real: a library between PyTorch and glibc (``fits.c``) refuses a
tensor beyond it.  ``RLIMIT_AS`` and control groups limit pages instead, of which a process holds
some that no tensor needs.
"""

from __future__ import annotations

import csv
import ctypes
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Literal, NamedTuple, get_args

ROOT: Final = Path(__file__).resolve().parent.parent
TABLE: Final = ROOT / "docs" / "fits.csv"
PAGE: Final = TABLE.with_suffix(".md")
SOURCE: Final = Path(__file__).with_suffix(".c")
TEMPLATE: Final = Path(__file__).with_suffix(".md.in")
SIDE: Final = 64
#: Beyond the peak of a single image (B), so that some batch fits into each.
ROOM: Final = (8_000_000, 24_000_000, 72_000_000)
NETWORKS: Final = {
    "timm": """
        lcnet_050 resnet10t mobilenetv3_small_050 tinynet_e mnasnet_small ghostnet_050
        mobilenetv2_050 lcnet_100 tinynet_d regnetx_002 regnety_002 mobilenetv3_small_100
        semnasnet_075 spnasnet_100 efficientnet_lite0 hardcorenas_a fbnetc_100 mobilenetv2_100
        regnetx_004 dla46_c convnext_atto convnextv2_atto edgenext_xx_small repvgg_a0
        efficientnet_b0 rexnet_100 ghostnet_100 resnet14t mobileone_s0 poolformer_s12
        mobilenetv4_conv_small convnext_femto hardcorenas_b tf_efficientnetv2_b0 resnet18d
        seresnet18 skresnet18 hrnet_w18_small resnet26
    """,
    "torchvision": """
        squeezenet1_1 shufflenet_v2_x0_5 mobilenet_v3_small mnasnet0_5 resnet18 squeezenet1_0
        mobilenet_v2 shufflenet_v2_x1_0 mobilenet_v3_large mnasnet1_0 regnet_y_400mf
        regnet_x_400mf efficientnet_b0 vgg11 densenet121
    """,
    "study": "ResNet-20 ResNet-32 ResNet-44 ResNet-56 ResNet-18 MobileNetV2",
}

Mode = Literal["inference", "training"]


class Row(NamedTuple):
    """One network under one limit (B), and what was predicted and run.

    ``predicted`` is the largest batch, with its ``verdict``, and ``actual`` the largest that ran;
    ``failed`` is the operator in which the next one failed, and ``refused`` what it asked for (B).
    """

    network: str
    mode: str
    limit: int
    predicted: int
    verdict: str
    actual: int
    failed: str
    refused: int


class Limited:
    """A network whose calls may have so many bytes of tensors, its own among them."""

    def __init__(self, name: str, mode: Mode) -> None:
        import torch

        from experiments.harness.operators import Policy, Step
        from experiments.theory.networks import network

        self._train = mode == "training"
        self._torch, self._channels = torch, network(name).image[0]
        self._module = network(name).build().train(self._train)
        self._step = Step(self._module, Policy(), gpu=False)
        self._phases: Any = SimpleNamespace(phase="", writes=True)
        library = ctypes.CDLL(None)
        self._alive, self._limit, self._refused = (
            ctypes.c_long.in_dll(library, f"tensors_{what}")
            for what in ("alive", "limit", "refused")
        )
        if self._train:
            self._step.prepare((self._images(2),), self._phases)

    def _images(self, batch: int) -> Any:
        return self._torch.randn(batch, self._channels, SIDE, SIDE)

    def _call(self, batch: int) -> None:
        source = (self._images(batch),)
        if self._train:
            self._step.run(source, self._phases)
        else:
            with self._torch.no_grad():
                self._module(*source)

    def runs(self, batch: int, limit: int) -> bool:
        """Whether a call succeeds; it was made before without a limit, as kernels are generated."""
        self._call(batch)
        gc.collect()
        kept = [*self._module.parameters(), *self._module.buffers()]
        kept += self._step.state() if self._train else ()
        own = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in kept}
        self._limit.value = self._alive.value - sum(own.values()) + limit
        try:
            self._call(batch)
        except (RuntimeError, MemoryError):
            return False
        finally:
            self._limit.value = 2**62
        return True

    def failure(self, batch: int, limit: int) -> tuple[str, int]:
        """The operator in which a call fails, and the bytes that it asked for."""
        from torch.utils._python_dispatch import TorchDispatchMode

        called = [""]

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(
                self, func: Any, types: object, args: Any = (), kwargs: Any = None
            ) -> Any:
                called[0] = str(func).removeprefix("aten.").partition(".")[0]
                return func(*args, **(kwargs or {}))

        with Watch():
            ran = self.runs(batch, limit)
        return ("", 0) if ran else (called[0], self._refused.value)


def tried(name: str, mode: Mode) -> list[Row]:
    """One network in one mode under each limit; raises as ``checked`` does."""
    from experiments.harness.operators import Input
    from experiments.theory.checked import checked
    from experiments.theory.networks import network
    from report.theory.fits import BATCH, PROBE, scaled, searched

    named = network(name)
    images = Input((BATCH, named.image[0], SIDE, SIDE))
    whole = checked(named.build, [images], train=mode == "training", probe=PROBE)
    if not whole.scales:
        raise ValueError("its operators do not grow with the batch alone")
    single = scaled(whole, 2).peak
    assert single is not None
    call, rows = Limited(name, mode), []
    for room in ROOM:
        limit = single.total + room
        found = searched(partial(scaled, whole), limit)
        actual = found.largest
        while actual and not call.runs(actual, limit):
            actual -= 1
        while actual >= found.largest and call.runs(actual + 1, limit):
            actual += 1
        failed, refused = call.failure(actual + 1, limit)
        verdict = found.verdict(found.largest)
        rows.append(Row(name, mode, limit, found.largest, verdict, actual, failed, refused))
    return rows


def page(rows: Sequence[Row], machine: str) -> str:
    """``docs/fits.md``."""
    shares, misses = [], []
    for mode in get_args(Mode):
        for verdict in ("fits", "undecided"):
            own = [row for row in rows if (row.mode, row.verdict) == (mode, verdict)]
            if own:
                met = [row for row in own if row.actual == row.predicted]
                cells = (mode, f"*{verdict}*", len(own), len(met), f"{len(met) / len(own):.0%}")
                shares.append("| " + " | ".join(map(str, cells)) + " |")
                misses += [row for row in own if row not in met]
    return TEMPLATE.read_text(encoding="utf-8").format(
        side=SIDE,
        machine=machine,
        room=", ".join(f"{room / 1e6:.0f}" for room in ROOM),
        networks=len({row.network for row in rows}),
        planned=sum(len(names.split()) for names in NETWORKS.values()),
        above=sum(row.actual > row.predicted for row in rows),
        shares="\n".join(shares),
        misses="\n".join(
            f"| `{row.network}` | {row.mode} | {row.limit / 1e6:.1f} | {row.predicted} "
            f"| {row.actual} | `{row.failed}` | {row.refused:,} |"
            for row in misses
        ),
    )


def read_rows() -> list[Row]:
    """What was tried before."""
    if not TABLE.exists():
        return []
    with TABLE.open(encoding="utf-8", newline="") as stream:
        _, *lines = csv.reader(stream)
    return [
        Row(network, mode, int(limit), int(predicted), verdict, int(actual), failed, int(refused))
        for network, mode, limit, predicted, verdict, actual, failed, refused in lines
    ]


def _both(name: str) -> list[Row]:
    try:
        return [row for mode in get_args(Mode) for row in tried(name, mode)]
    except Exception as error:  # one network that fails must not end the others
        print(f"{name}: {type(error).__name__}: {error}", flush=True)
        return []


def _limited() -> None:
    """Begin again behind the library that refuses tensors."""
    with tempfile.TemporaryDirectory(prefix="ridgepoint-fits-") as folder:
        library = Path(folder) / "fits.so"
        subprocess.run(("cc", "-O2", "-shared", "-fPIC", "-o", library, SOURCE), check=True)
        environment = os.environ | {"LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"}
        subprocess.run((sys.executable, "-m", "benchmarks.fits"), check=True, env=environment)


def main() -> None:
    """Try every network in a process of its own, which begins with all libraries imported."""
    if "fits.so" not in os.environ.get("LD_PRELOAD", ""):
        _limited()
        return
    import torch._dynamo

    from experiments.theory.networks import import_timm

    import_timm()
    machine = f"{torch.backends.cpu.get_cpu_capability()}, PyTorch {torch.__version__}"
    found = read_rows()
    known = {row.network for row in found}
    names = [f"{source}:{name}" for source, many in NETWORKS.items() for name in many.split()]
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for rows in pool.imap(_both, [name for name in names if name not in known]):
            found += rows
            with TABLE.open("w", encoding="utf-8", newline="") as stream:
                csv.writer(stream, lineterminator="\n").writerows([Row._fields, *found])
            PAGE.write_text(page(found, machine), encoding="utf-8")


if __name__ == "__main__":
    main()
