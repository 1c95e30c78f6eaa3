"""The array libraries: how each makes an array, waits for one, and says what it is.

Each is imported only when it is loaded, so that a process holds no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from experiments.backends.operations import Array, Namespace
from experiments.harness.study import UnavailableError
from experiments.harness.text import first_line

#: Where the cases of a run on a CPU are measured, and those that need a GPU.
ON_CPU: Final = ("numpy", "torch")
ON_GPU: Final = ("torch_cuda", "cupy")

_INSTALL: Final = {
    "numpy": "python -m pip install numpy",
    "torch": "python -m pip install -e '.[experiments]'",
    "torch_cuda": "python -m pip install -e '.[experiments]'",
    "cupy": "python -m pip install cupy-cuda12x",
}


@dataclass(frozen=True)
class Library:
    """An array library on its device.

    ``xp`` is its namespace; ``wait`` returns what it is given once that is computed.  ``version``
    and ``device_name`` are in its own words.
    """

    name: str
    xp: Namespace
    device: Any
    wait: Callable[[Any], Any]
    version: str
    device_name: str

    def place(self, values: Any, dtype: str) -> Array:
        """A copy of an array of NumPy on the device, never a view of it."""
        xp = self.xp
        return xp.asarray(values, dtype=getattr(xp, dtype), device=self.device, copy=True)


def load(name: str, threads: int) -> Library:
    """The library called ``name``; raises ``UnavailableError`` with what would make it available.

    The environment of the process says how many threads to use; torch is told as well.
    """
    try:
        return _LOADERS[name](threads)
    except ImportError as error:
        raise UnavailableError(
            f"{name} cannot be imported ({first_line(str(error))}); install it with: "
            f"{_INSTALL[name]}"
        ) from error


def _numpy(threads: int) -> Library:
    import array_api_compat.numpy as xp
    import numpy

    return Library("numpy", xp, "cpu", _as_is, numpy.__version__, "cpu")


def _as_is(value: Any) -> Any:
    """Nothing to wait for."""
    return value


def _torch(threads: int) -> Library:
    import torch

    torch.set_num_threads(threads)
    import array_api_compat.torch as xp

    return Library("torch", xp, "cpu", _as_is, str(torch.__version__), "cpu")


def _torch_cuda(threads: int) -> Library:
    import torch

    if not torch.cuda.is_available():
        raise UnavailableError("PyTorch finds no CUDA device here; measure it with --device cuda.")
    torch.set_num_threads(threads)
    # float32 means IEEE single precision on every device.
    torch.backends.cuda.matmul.allow_tf32 = False
    import array_api_compat.torch as xp

    def wait(value: Any) -> Any:
        torch.cuda.synchronize()
        return value

    version = str(torch.__version__)
    return Library("torch_cuda", xp, "cuda", wait, version, torch.cuda.get_device_name())


def _cupy(threads: int) -> Library:
    import cupy  # type: ignore[import-not-found]

    if not cupy.cuda.is_available():
        raise UnavailableError("CuPy finds no CUDA device here; measure it with --device cuda.")
    import array_api_compat.cupy as xp

    def wait(value: Any) -> Any:
        cupy.cuda.Device().synchronize()
        return value

    device = cupy.cuda.Device()
    name = cupy.cuda.runtime.getDeviceProperties(device.id)["name"].decode()
    return Library("cupy", xp, device, wait, cupy.__version__, name)


_LOADERS: Final[dict[str, Callable[[int], Library]]] = {
    "numpy": _numpy,
    "torch": _torch,
    "torch_cuda": _torch_cuda,
    "cupy": _cupy,
}
