"""Array libraries: allocation of arrays, waiting for results, version and device.

A library is imported when it is loaded, so that a process holds no other one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, TypeAlias

from experiments.harness.study import UnavailableError
from experiments.machine.text import first_line

#: An array of any library; the array API standard has no type that checkers know.
LibraryArray: TypeAlias = Any
#: A namespace of the array API standard.
Namespace: TypeAlias = Any

#: Libraries that compute on a CPU, and on a GPU.
ON_CPU: Final = ("numpy", "torch")
ON_GPU: Final = ("torch_cuda", "cupy")

#: The package of each library, and pip's name for it.
_PACKAGES: Final = {"numpy": "numpy", "torch": "torch", "torch_cuda": "torch", "cupy": "cupy"}
_INSTALL: Final = {"numpy": "numpy", "torch": "-e '.[experiments]'", "cupy": "cupy-cuda12x"}


def _identity(value: Any) -> Any:
    """Return the argument, which a library on the CPU has computed already."""
    return value


@dataclass(frozen=True)
class Library:
    """An array library on its device.

    ``xp`` is its namespace; ``wait`` returns its argument after it is computed.  ``version`` and
    ``device_name`` are texts of the library.
    """

    name: str
    xp: Namespace
    version: str
    device: Any = "cpu"
    device_name: str = "cpu"
    wait: Callable[[Any], Any] = _identity

    def place(self, values: Any, dtype: str) -> LibraryArray:
        """Copy an array of NumPy to the device; never return a view of it."""
        xp = self.xp
        return xp.asarray(values, dtype=getattr(xp, dtype), device=self.device, copy=True)


def namespace(name: str) -> str:
    """Return the module that provides a library's namespace; its import starts no thread."""
    return f"array_api_compat.{_PACKAGES[name]}"


def load(name: str, threads: int) -> Library:
    """Load the library ``name``; raises ``UnavailableError`` with a remedy.

    The environment of the process sets the number of threads.  PyTorch needs it again, and is set
    to compute float32 in IEEE single precision on every device.
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
        raise UnavailableError(f"{name} finds no CUDA device; measure it with --device cuda.")
    if own.__name__ == "torch":
        device, device_name, synchronize = "cuda", own.cuda.get_device_name(), own.cuda.synchronize
    else:
        device = own.cuda.Device()
        device_name = own.cuda.runtime.getDeviceProperties(device.id)["name"].decode()
        synchronize = device.synchronize

    def wait(value: Any) -> Any:
        synchronize()
        return value

    return Library(name, xp, str(own.__version__), device, device_name, wait)
