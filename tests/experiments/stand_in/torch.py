"""Stands in for torch where only its switches are set: importing it takes no time."""

from contextlib import nullcontext
from types import SimpleNamespace

backends = SimpleNamespace(
    cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True)),
    cudnn=SimpleNamespace(allow_tf32=True, benchmark=True),
)


def set_num_threads(count: int) -> None:
    """Nothing."""


def set_num_interop_threads(count: int) -> None:
    """Nothing."""


def manual_seed(seed: int) -> None:
    """Nothing."""


def device(name: str) -> nullcontext[None]:
    """Nothing is on a device."""
    return nullcontext()
