"""The array libraries: how each makes an array, waits for one, and says what it is.

Each is imported only when it is loaded, so that a process holds no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, TypeAlias

from experiments.harness.study import UnavailableError
from experiments.machine.text import first_line

#: An array of any library; the array API standard has no type that checkers know.
Array: TypeAlias = Any
#: A namespace of the array API standard.
Namespace: TypeAlias = Any

#: Where the cases of a run on a CPU are measured, and those that need a GPU.
ON_CPU: Final = ("numpy", "torch")
ON_GPU: Final = ("torch_cuda", "cupy")

#: The package of each library, and what pip installs it from.
_PACKAGES: Final = {"numpy": "numpy", "torch": "torch", "torch_cuda": "torch", "cupy": "cupy"}
_INSTALL: Final = {"numpy": "numpy", "torch": "-e '.[experiments]'", "cupy": "cupy-cuda12x"}


@dataclass(frozen=True)
class Library:
    """An array library on its device.

    ``xp`` is its namespace; ``wait`` returns what it is given once that is computed.  ``version``
    and ``device_name`` are in its own words.
    """

    name: str
    xp: Namespace
    version: str
    device: Any = "cpu"
    device_name: str = "cpu"
    wait: Callable[[Any], Any] = lambda value: value

    def place(self, values: Any, dtype: str) -> Array:
        """A copy of an array of NumPy on the device, never a view of it."""
        xp = self.xp
        return xp.asarray(values, dtype=getattr(xp, dtype), device=self.device, copy=True)


def namespace(name: str) -> str:
    """The module by which a library is imported; importing starts no thread of its own."""
    return f"array_api_compat.{_PACKAGES[name]}"


def load(name: str, threads: int) -> Library:
    """The library called ``name``; raises ``UnavailableError`` with what would make it available.

    The environment of the process says how many threads to use; torch is told as well, and that
    float32 means IEEE single precision on every device.
    """
    try:
        xp, own = import_module(namespace(name)), import_module(_PACKAGES[name])
    except ImportError as error:
        install = f"python -m pip install {_INSTALL[_PACKAGES[name]]}"
        raise UnavailableError(
            f"{name} cannot be imported ({first_line(str(error))}); install it with: {install}"
        ) from error
    if own.__name__ == "torch":
        own.set_num_threads(threads)
        own.backends.cuda.matmul.allow_tf32 = False
    if name in ON_CPU:
        return Library(name, xp, str(own.__version__))
    if not own.cuda.is_available():
        raise UnavailableError(f"{name} finds no CUDA device here; measure it with --device cuda.")
    if own.__name__ == "torch":
        device, named, synchronize = "cuda", own.cuda.get_device_name(), own.cuda.synchronize
    else:
        device = own.cuda.Device()
        named = own.cuda.runtime.getDeviceProperties(device.id)["name"].decode()
        synchronize = device.synchronize

    def wait(value: Any) -> Any:
        synchronize()
        return value

    return Library(name, xp, str(own.__version__), device, named, wait)
