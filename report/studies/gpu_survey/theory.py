"""The time of networks by rooflines, and the bytes of a normalization in two precisions.

The time of some work is the longer of its operations at the peak rate and its bytes at the
bandwidth (Williams, Waterman and Patterson 2009).  Applied operator by operator it adds the longer
times; applied to a whole network it takes the longer of the sums, which is never more: what one
operator lacks in arithmetic another cannot make up for.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from report.core.records.network_operators import NetworkOperators
from report.core.records.reported import Devices
from report.quantity.expression import Leaf, exact

#: An element in half precision (B).
ELEMENT: Final = 2
#: Operators that normalize, from the most frequent kind to the rarest.
GROUP_NORM: Final = "native_group_norm"
NORMS: Final = ("native_batch_norm", "native_layer_norm", GROUP_NORM)

#: Rooflines that predict a time: of each operator, of each with the last cache, or of the network.
ByteModel: TypeAlias = Literal["operators", "cached", "network"]
#: Precisions of a normalization under autocast to float16.
Precision: TypeAlias = Literal["half", "single"]
Vector: TypeAlias = npt.NDArray[np.float64]
Batches: TypeAlias = Sequence[int] | Vector


#: What an element of a feature map moves (B) between two convolutions under autocast to float16, in
#: reads and writes of 2 or 4 bytes: with batch normalization, and with group normalization in
#: float16 and in float32.
BETWEEN_CONVOLUTIONS: Final = {
    "Cast to float32": (0, 0, 2 + 4),
    "Statistics": (0, 2, 4),
    "Normalization": (2 + 2, 2 + 2, 4 + 4),
    "Activation, in place": (2 + 2, 2 + 2, 4 + 4),
    "Cast for the convolution": (0, 0, 4 + 2),
}


class Card(NamedTuple):
    """A card by its data sheet: peak in half precision (FLOP/s), bandwidth (B/s), L2 cache (B)."""

    device: str
    peak: float
    bandwidth: float
    cache: float = 0.0

    def quantity(self, name: Literal["peak", "bandwidth"]) -> Leaf:
        """One number of the data sheet."""
        unit = {"peak": "FLOP/s", "bandwidth": "B/s"}[name]
        return exact(f"{name}({self.device})", unit, getattr(self, name), "devices.yaml")


def cards(devices: Devices, names: Collection[str]) -> dict[str, Card]:
    """Return the cards whose peak and bandwidth are listed, by their names."""
    known: dict[str, Card] = {}
    for name in names:
        device = devices.find(name)
        rates = {peak.operation: peak.rate for peak in device.peaks} if device else {}
        if "float16" in rates and "memory" in rates:
            known[name] = Card(name, rates["float16"], rates["memory"], rates.get("cache", 0.0))
    return known


class Networks:
    """Captured networks, their operators and what these read, each in a frame.

    Operators are indexed by the place of their network, reads by that of their operator.  Each
    network has a batch size of its own; ``batches`` are in the order of ``networks``.
    """

    def __init__(self, networks: Sequence[NetworkOperators]) -> None:
        operators = [operator for network in networks for operator in network.operators]
        counts = dict.fromkeys(("multiply_adds", "weights", "writes"), float)
        self.operators = _frame([n.operators for n in networks], {"name": str, **counts})
        self.reads = _frame([o.reads for o in operators], {"elements": float, "distance": float})
        counts = dict.fromkeys(("parameters", "half_bytes", "single_bytes"), float)
        fields = {"network": str, "side": int, **counts}
        captured = _frame([[network] for network in networks], fields)
        captured["norm"] = None
        for norm in NORMS:  # the rarest kind of several names the network
            holders = self.operators.index[self.operators["name"] == norm]
            captured.loc[captured.index.isin(holders), "norm"] = norm
        #: Elements that group normalizations of an image write.
        grouped = self.operators["writes"].where(self.operators["name"] == GROUP_NORM, 0.0)
        captured["grouped"] = self._sums(grouped.to_numpy(), len(captured))
        columns = {"side": "image", "parameters": "counted"}
        self.captured = captured.rename(columns=columns).reset_index(names="place")

    def limits(self, batches: Batches, card: Card, cache: float) -> tuple[Vector, Vector]:
        """The time of each operator (s) by the peak of ``card``, and by its bandwidth.

        An operator moves its weights once, and each tensor that it reads or writes, but for reads
        of a tensor where all that was touched since its last use fits into the ``cache`` (B).
        """
        operators = self.operators
        batch = np.array(batches, float)[operators.index]
        distance = ELEMENT * batch[self.reads.index] * self.reads["distance"]
        reads = self.reads[(distance < 0) | (distance > cache)]
        read = np.bincount(reads.index, reads["elements"], len(operators))
        moved = ELEMENT * (operators["weights"] + batch * (read + operators["writes"]))
        work = 2 * batch * operators["multiply_adds"]
        return (work / card.peak).to_numpy(), (moved / card.bandwidth).to_numpy()

    def seconds(self, batches: Batches, card: Card, way: ByteModel) -> Vector:
        """The time of one batch of each network (s) that the roofline of ``card`` allows."""
        limits = self.limits(batches, card, card.cache if way == "cached" else 0.0)
        count = len(self.captured)
        if way == "network":
            return np.maximum(*(self._sums(limit, count) for limit in limits))
        return self._sums(np.maximum(*limits), count)

    def _sums(self, numbers: Vector, count: int) -> Vector:
        """Sum over the operators of each of ``count`` networks, one after the other.

        So it is the same everywhere: ``groupby`` makes up for what is rounded, and numpy's ``sum``
        adds in an order of the processor's.
        """
        return np.bincount(self.operators.index, numbers, count).astype(float)


def _frame(groups: Sequence[Sequence[object]], types: Mapping[str, type]) -> pd.DataFrame:
    """Some fields of all items, a row each, indexed by the place of their group."""
    rows = map(attrgetter(*types), chain.from_iterable(groups))
    places = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    return pd.DataFrame(rows, places, list(types)).astype(types)
