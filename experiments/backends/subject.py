"""One case inside the process that measures it: the arrays, the network and its iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from experiments.backends import convnet, perceptron
from experiments.backends.learning import CLASSES, Network, Parameters, iteration
from experiments.backends.libraries import Library
from experiments.backends.operations import Array, Operations, operations
from experiments.harness.study import SEED, Factors

#: Pixels as NumPy's uint8 ``(N, 784)`` and labels ``(N,)``.
Images: TypeAlias = tuple[Any, Any]
#: From parameters to the next ones.
Step: TypeAlias = Callable[[Parameters], Parameters]


@dataclass(frozen=True)
class Part:
    """Images ``(784, m)`` in [0, 1] and one-hot targets ``(10, m)``."""

    images: Array
    targets: Array


@dataclass(frozen=True)
class Subject:
    """What a case measures.

    ``host`` makes the training images and targets as arrays of NumPy, anew each time, so that none
    of them lives beside those on the device.
    """

    library: Library
    network: Network
    ops: Operations
    dtype: str
    execution: str
    host: Callable[[], Part]

    def placed(self) -> Part:
        """The training images and targets on the device."""
        return self.on_device(self.host())

    def on_device(self, part: Part) -> Part:
        """Copies of images and targets on the device."""
        place = self.library.place
        return Part(place(part.images, self.dtype), place(part.targets, self.dtype))

    def parameters(self) -> Parameters:
        """The initial parameters on the device, the same values in every library."""
        values = self.network.initial(SEED)
        return Parameters(*(self.library.place(value, self.dtype) for value in values))

    def step(self, part: Part) -> Step:
        """One iteration on ``part`` that has ended when it returns."""
        whole: Callable[..., Parameters] = partial(iteration, self.network, self.ops)
        if self.execution != "eager":
            assert self.library.compiled is not None
            whole = self.library.compiled(whole)
        wait = self.library.wait
        return lambda parameters: wait(whole(parameters, part.images, part.targets))


def subject(library: Library, factors: Factors, images: Images) -> Subject:
    """The case that ``factors`` name, on as many ``images`` as they say; see ``repeated``."""
    dtype = str(factors["dtype"])
    return Subject(
        library,
        network_of(factors),
        operations(library.xp),
        dtype,
        str(factors["execution"]),
        lambda: prepared(repeated(images, int(factors["samples"])), dtype),
    )


def network_of(factors: Factors) -> Network:
    """The network that ``factors`` name."""
    if factors["network"] == "convnet":
        return convnet.network()
    return perceptron.network(int(factors["hidden"]))


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
