"""Products and convolutions that keep all arithmetic units of a device at work.

A ceiling must not lie below what a network reaches.  On a CPU PyTorch computes matrix products by
one library (MKL on x86) and convolutions by another (oneDNN), which may use wider vectors: on an
AMD processor with AVX-512 the first reached half the rate of the second, and a 3 × 3 convolution of
256 channels 217 GFLOP/s where oneDNN's own product reached 193.  Which of them is best, and at
which size, differs between processors: on an Intel processor with AMX MKL's product was 10 % faster
than both.  All are measured, and the best one is the ceiling.

A convolution is given its images channels last, the layout that both oneDNN and cuDNN take without
reordering them; on one thread it was the fastest of three layouts (93 against 77 GFLOP/s).  On a
GPU cuDNN may choose an algorithm with fewer multiplications than theory counts, so that the rate by
the work of theory may lie above the device's peak, as that of a network's convolutions may.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from experiments.harness import machine
from experiments.harness.instruments import Instrument
from experiments.harness.study import CeilingSize, Device

#: Sides of the square matrices.  Their products make more than 80 FLOP/B, above any CPU's ridge.
SIDES: Final[dict[tuple[Device, CeilingSize], tuple[int, ...]]] = {
    ("cpu", "large"): (512, 1024, 2048),
    ("cpu", "small"): (1024,),
    ("cuda", "large"): (4096, 8192),
    ("cuda", "small"): (4096,),
}
#: Images of the convolution; a GPU needs more of them until all its units have work.
BATCH: Final[dict[Device, int]] = {"cpu": 8, "cuda": 256}
CHANNELS: Final = 256
IMAGE: Final = 28
KERNEL: Final = 3
#: Vector extensions that multiply bfloat16 by themselves; others are slower than float32.
_BFLOAT16: Final = frozenset({"avx512_bf16", "amx_bf16"})
#: The generation of NVIDIA's devices (Ampere) from which on there are bfloat16 and TF32.
_AMPERE: Final = (8, 0)


def instruments(torch: Any, device: Device, size: CeilingSize) -> Iterator[Instrument]:
    """Every product and convolution of a plan; each is to be sampled before the next is taken."""
    for dtype in dtypes(torch, device):
        with _tensor_float(torch, dtype == "tfloat32"):
            kind = torch.float32 if dtype == "tfloat32" else getattr(torch, dtype)
            for side in SIDES[device, size]:
                yield from _products(torch, kind, dtype, device, side)
            yield _convolution(torch, kind, dtype, device)


def dtypes(torch: Any, device: Device) -> tuple[str, ...]:
    """float32, and what the device multiplies by units of its own."""
    if device == "cuda":
        newer = torch.cuda.get_device_capability() >= _AMPERE
        return ("float32", "bfloat16", "tfloat32") if newer else ("float32",)
    native = _BFLOAT16 & set(machine.cpu()[0].vector_extensions)
    return ("float32", "bfloat16") if native else ("float32",)


def product_work(side: int) -> int:
    """FLOP of a product of square matrices: two for each of ``side`` cubed multiply-adds."""
    return 2 * side**3


def convolution_work(batch: int) -> int:
    """FLOP of the convolution; without padding every tap meets a pixel."""
    extent = IMAGE - KERNEL + 1
    return 2 * batch * CHANNELS**2 * KERNEL**2 * extent**2


def _products(torch: Any, kind: Any, dtype: str, device: Device, side: int) -> Iterator[Instrument]:
    left, right = torch.randn(side, side).to(kind), torch.randn(side, side).to(kind)
    out = torch.empty(side, side, dtype=kind)
    size, work = f"{side}x{side}x{side}", product_work(side)
    yield Instrument(
        operation="matrix_product",
        name="torch.mm",
        dtype=dtype,
        size=size,
        work=work,
        unit="FLOP",
        call=lambda: torch.mm(left, right, out=out),
    )
    if device == "cpu" and torch.backends.mkldnn.is_available():
        from torch.utils import mkldnn

        linear = mkldnn.to_mkldnn(torch.nn.Linear(side, side, bias=False), kind)
        blocked = left.float().to_mkldnn(kind)
        yield Instrument(
            operation="matrix_product",
            name="oneDNN product",
            dtype=dtype,
            size=size,
            work=work,
            unit="FLOP",
            call=lambda: linear(blocked),
        )


def _convolution(torch: Any, kind: Any, dtype: str, device: Device) -> Instrument:
    batch, last = BATCH[device], torch.channels_last
    layer = torch.nn.Conv2d(CHANNELS, CHANNELS, KERNEL, bias=False).to(kind)
    layer = layer.to(memory_format=last)
    images = torch.randn(batch, CHANNELS, IMAGE, IMAGE).to(kind).to(memory_format=last)
    return Instrument(
        operation="convolution",
        name="torch.nn.Conv2d",
        dtype=dtype,
        size=f"{batch}x{CHANNELS}x{IMAGE}x{IMAGE}, {KERNEL}x{KERNEL} to {CHANNELS} channels",
        work=convolution_work(batch),
        unit="FLOP",
        call=lambda: layer(images),
    )


@contextmanager
def _tensor_float(torch: Any, wanted: bool) -> Iterator[None]:
    """TF32 in products and convolutions of float32 on a GPU, for as long as it is ``wanted``."""
    before = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
    if wanted:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
