"""Array libraries: allocation of arrays, waiting for results, version and device.

A library is imported when it is loaded, so that a process imports no other library.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, TypeAlias

from experiments.harness.study import UnavailableError
from experiments.machine.text import first_line

#: An array of any library; the array API standard has no type for type checkers.
LibraryArray: TypeAlias = Any
#: A namespace of the array API standard.
Namespace: TypeAlias = Any

#: Libraries that compute on a CPU.
ON_CPU: Final = ("numpy", "torch")
#: Libraries that compute on a GPU.
ON_GPU: Final = ("torch_cuda", "cupy")

#: Library → package.
_PACKAGES: Final = {"numpy": "numpy", "torch": "torch", "torch_cuda": "torch", "cupy": "cupy"}
#: Package → argument of ``pip install``.
_INSTALL: Final = {"numpy": "numpy", "torch": "-e '.[experiments]'", "cupy": "cupy-cuda12x"}


@dataclass(frozen=True)
class Library:
    """Array library on a device.

    ``xp`` is the library's namespace.  ``wait`` returns its argument once the argument is computed.
    ``version`` and ``device_name`` are in the library's own words.
    """

    name: str
    xp: Namespace
    version: str
    device: Any = "cpu"
    device_name: str = "cpu"
    wait: Callable[[Any], Any] = lambda value: value  # on a CPU, the argument is computed already

    def copy_to_device(self, values: Any, dtype: str) -> LibraryArray:
        """Copy an array of NumPy to the device; on a CPU the result is a copy too, not a view."""
        xp = self.xp
        return xp.asarray(values, dtype=getattr(xp, dtype), device=self.device, copy=True)


def namespace(name: str) -> str:
    """Return the module that contains a library's namespace; its import starts no thread."""
    return f"array_api_compat.{_PACKAGES[name]}"


def load(name: str, threads: int) -> Library:
    """Load a library; raises ``UnavailableError`` if its package or its device is missing.

    ``threads`` is set for PyTorch; other libraries read environment variables.  TF32 is switched
    off in PyTorch, so that float32 is IEEE single precision on every device.
    """
    try:
        xp, package = import_module(namespace(name)), import_module(_PACKAGES[name])
    except ImportError as error:
        install = f"python -m pip install {_INSTALL[_PACKAGES[name]]}"
        raise UnavailableError(
            f"{name} cannot be imported ({first_line(str(error))}); install it with: {install}"
        ) from error
    if package.__name__ == "torch":
        package.set_num_threads(threads)
        package.backends.cuda.matmul.allow_tf32 = False
    if name in ON_CPU:
        return Library(name, xp, str(package.__version__))
    cuda = package.cuda
    if not cuda.is_available():
        raise UnavailableError(f"{name} finds no CUDA device; measure it with --device cuda.")
    if package.__name__ == "torch":
        device, device_name, synchronize = "cuda", cuda.get_device_name(), cuda.synchronize
    else:
        device = cuda.Device()
        device_name = cuda.runtime.getDeviceProperties(device.id)["name"].decode()
        synchronize = device.synchronize

    def wait(value: Any) -> Any:
        synchronize()
        return value

    return Library(name, xp, str(package.__version__), device, device_name, wait)
