"""The bytes of a normalization, and the least time of networks by a roofline of each operator.

An operator takes the longer of the times of its work and of its bytes (Williams et al. 2009).
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
from report.quantity.expression import Leaf, exact_number

#: Size of an element in half precision (B).
ELEMENT_BYTES: Final = 2
#: Operators that normalize, from the most frequent kind to the rarest.
GROUP_NORM: Final = "native_group_norm"
NORMS: Final = ("native_batch_norm", "native_layer_norm", GROUP_NORM)

#: Precisions of a normalization under autocast to float16: float16 or float32.
Precision: TypeAlias = Literal["half", "single"]
Vector: TypeAlias = npt.NDArray[np.float64]

#: Step → bytes read and written per element of a feature map between two convolutions, under
#: autocast to float16: with batch normalization, with group normalization in float16, in float32.
BETWEEN_CONVOLUTIONS: Final = {
    "Cast to float32": (0, 0, 2 + 4),
    "Statistics": (0, 2, 4),
    "Normalization": (2 + 2, 2 + 2, 4 + 4),
    "Activation": (2 + 2, 2 + 2, 4 + 4),
    "Cast to float16": (0, 0, 4 + 2),
}


class Card(NamedTuple):
    """A card by its data sheet: peak in half precision (FLOP/s) and bandwidth (B/s)."""

    device: str
    peak: float
    bandwidth: float

    def quantity(self, name: Literal["peak", "bandwidth"]) -> Leaf:
        """Return one number of the data sheet."""
        unit = {"peak": "FLOP/s", "bandwidth": "B/s"}[name]
        return exact_number(f"{name}({self.device})", unit, getattr(self, name), "devices.yaml")


def cards(devices: Devices, names: Collection[str]) -> dict[str, Card]:
    """Return the cards whose peak and bandwidth are listed, by their names."""
    known: dict[str, Card] = {}
    for name in names:
        device = devices.find(name)
        rates = {peak.operation: peak.rate for peak in device.peaks} if device else {}
        if "float16" in rates and "memory" in rates:
            known[name] = Card(name, rates["float16"], rates["memory"])
    return known


class Networks:
    """Frames of ``captured`` networks and of their ``operators``.

    The index of an operator is the position (column ``place``) of its network.  ``reads``: elements
    that an operator reads besides its weights.
    """

    def __init__(self, networks: Sequence[NetworkOperators]) -> None:
        counts = dict.fromkeys(("multiply_adds", "weights", "reads", "writes"), float)
        self.operators = _make_frame([n.operators for n in networks], {"name": str, **counts})
        counts = dict.fromkeys(("parameters", "half_bytes", "single_bytes"), float)
        fields = {"network": str, "side": int, **counts}
        captured = _make_frame([[network] for network in networks], fields)
        captured["norm"] = None
        for norm in NORMS:  # of several kinds the rarest, which is the last, remains
            holders = self.operators.index[self.operators["name"] == norm]
            captured.loc[captured.index.isin(holders), "norm"] = norm
        # Elements that group normalizations write, for one image.
        grouped = self.operators["writes"].where(self.operators["name"] == GROUP_NORM, 0.0)
        captured["grouped"] = self._sums(grouped.to_numpy(), len(captured))
        columns = {"side": "image", "parameters": "counted"}
        self.captured = captured.rename(columns=columns).reset_index(names="place")

    def seconds(self, batches: Vector, card: Card) -> Vector:
        """Return the least time (s) of a batch of each network, whose weights are read once."""
        operators = self.operators
        batch = batches[operators.index]
        elements = operators["weights"] + batch * (operators["reads"] + operators["writes"])
        arithmetic_seconds = 2 * batch * operators["multiply_adds"] / card.peak
        seconds = np.maximum(arithmetic_seconds, ELEMENT_BYTES * elements / card.bandwidth)
        return self._sums(seconds.to_numpy(), len(self.captured))

    def _sums(self, numbers: Vector, count: int) -> Vector:
        """Sum numbers of operators for each of ``count`` networks, in a fixed order."""
        return np.bincount(self.operators.index, numbers, count).astype(float)


def _make_frame(groups: Sequence[Sequence[object]], types: Mapping[str, type]) -> pd.DataFrame:
    """Return fields of all items, a row each, indexed by the position of their group."""
    rows = map(attrgetter(*types), chain.from_iterable(groups))
    positions = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    return pd.DataFrame(rows, positions, list(types)).astype(types)
