"""One case in the process that measures it, which imports one array library and nothing else.

No library's threads or allocator disturb another's; a fresh process also makes the first call of
every case a cold one, and repetitions in several processes show what one draws by chance and keeps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from experiments.backends import perceptron
from experiments.backends.operations import Array, Operations
from experiments.backends.perceptron import CLASSES, Parameters, iteration
from experiments.harness.study import SEED, CaseFile, Factors, Session
from experiments.harness.text import text_of
from report.records.record import Measured

if TYPE_CHECKING:
    from experiments.backends.libraries import Library

#: Pixels as NumPy's uint8 ``(N, 784)`` and labels ``(N,)``.
Images: TypeAlias = tuple[Any, Any]
#: From parameters to the next ones.
Step: TypeAlias = Callable[[Parameters], Parameters]

#: What the libraries are imported by; importing starts no thread of theirs.
_IMPORTED: Final = {
    "numpy": ("array_api_compat.numpy",),
    "torch": ("array_api_compat.torch",),
    "torch_cuda": ("array_api_compat.torch",),
    "cupy": ("array_api_compat.cupy",),
}


def imports(factors: Factors, session: Session) -> tuple[str, ...]:
    """The library of a case, which a process that times has imported before the first."""
    return _IMPORTED[str(factors["backend"])] if session.process else ()


class Part(NamedTuple):
    """Images ``(784, m)`` in [0, 1] and one-hot targets ``(10, m)``."""

    images: Array
    targets: Array


@dataclass(frozen=True)
class Case:
    """The arrays, the network and its iteration; ``train`` are the images to train on."""

    library: Library
    factors: Factors
    train: Images

    @property
    def dtype(self) -> str:
        """The type of all arrays."""
        return str(self.factors["dtype"])

    @property
    def ops(self) -> Operations:
        """The operations of its library."""
        return Operations(self.library.xp)

    def placed(self) -> Part:
        """The training images and targets on the device; those on the host are made anew."""
        return self.on_device(repeated(self.train, int(self.factors["samples"])))

    def on_device(self, images: Images) -> Part:
        """Copies of images and their targets on the device."""
        place = partial(self.library.place, dtype=self.dtype)
        return Part(*map(place, prepared(images, self.dtype)))

    def parameters(self) -> Parameters:
        """The initial parameters on the device, the same values in every library."""
        values = perceptron.initial(int(self.factors["hidden"]), SEED)
        return Parameters(*(self.library.place(value, self.dtype) for value in values))

    def step(self, part: Part) -> Step:
        """One iteration on ``part`` that has ended when it returns."""
        ops, wait = self.ops, self.library.wait
        return lambda parameters: wait(iteration(ops, parameters, *part))


def repeated(images: Images, samples: int) -> Images:
    """The first ``samples`` images; where there are fewer, they begin again from the first."""
    import numpy as np

    pixels, labels = images
    chosen = np.arange(samples) % len(labels)
    return pixels[chosen], labels[chosen]


def prepared(images: Images, dtype: str) -> Part:
    """Pixels from 0 to 1 with a column an image, and one-hot targets, as arrays of NumPy."""
    import numpy as np

    pixels, labels = images
    kind = np.dtype(dtype)
    columns = np.ascontiguousarray(pixels.T, dtype=kind) / kind.type(255)
    return Part(columns, np.eye(CLASSES, dtype=kind)[:, labels])


def started(factors: Factors, threads: int) -> tuple[Library, Measured]:
    """The library, and what the process holds before it, after it, and after a first use (B).

    Nothing of the library, nor NumPy, may have been imported before; images come after this.
    """
    held = {"resident_start": _resident()}
    from experiments.backends import libraries

    library = libraries.load(str(factors["backend"]), threads)
    held["resident_import"] = _resident()
    import numpy as np

    # A product of small matrices starts threads and loads kernels.
    values = library.place(np.ones((64, 64)), str(factors["dtype"]))
    library.wait(library.xp.matmul(values, values))
    held["resident_first_use"] = _resident()
    return library, {name: (level,) for name, level in held.items() if level is not None}


def _resident() -> int | None:
    """Resident memory of this process (B), mapped files included; None where it cannot be read."""
    found = re.search(r"^VmRSS:\s+(\d+) kB$", text_of(Path("/proc/self/status")), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def description(backend: str, threads: int) -> CaseFile:
    """Which version of a library computes, and on what, in its own words."""
    from experiments.backends import libraries

    library = libraries.load(backend, threads)
    told = {"name": library.name, "version": library.version, "device": library.device_name}
    return CaseFile(
        name=f"backend.{library.name}.json",
        meaning=f"version and device of {library.name}",
        content=msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n",
    )
