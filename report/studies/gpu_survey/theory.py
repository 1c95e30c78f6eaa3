"""The bytes of a normalization, and the least time of networks by a roofline of each operator.

An operator takes the longer of two times: of its arithmetic at the peak rate, and of its bytes at
the bandwidth (Williams et al. 2009).
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
from report.studies.gpu_survey.source import make_frame

#: Size of an element in float16 (B).
ELEMENT_BYTES: Final = 2
#: Operators that normalize, from the most frequent kind to the rarest.
GROUP_NORM: Final = "native_group_norm"
NORMS: Final = ("native_batch_norm", "native_layer_norm", GROUP_NORM)

#: Precisions of a normalization under autocast to float16, by the words in printed formulas.
Precision: TypeAlias = Literal["half", "single"]
FLOAT16: Final = "half"
FLOAT32: Final = "single"
Vector: TypeAlias = npt.NDArray[np.float64]

#: Step → bytes per element of a feature map that a step between two convolutions reads (+ writes)
#: under autocast to float16: with batch norm, with group norm in float16, with it in float32.
BETWEEN_CONVOLUTIONS: Final = {
    "Cast to float32": (0, 0, 2 + 4),
    "Statistics": (0, 2, 4),
    "Normalization": (2 + 2, 2 + 2, 4 + 4),
    "Activation": (2 + 2, 2 + 2, 4 + 4),
    "Cast to float16": (0, 0, 4 + 2),
}


class GpuSheet(NamedTuple):
    """The limits of a GPU by its data sheet: peak in float16 (FLOP/s) and bandwidth (B/s)."""

    device: str
    peak: float
    bandwidth: float

    def quantity(self, name: Literal["peak", "bandwidth"]) -> Leaf:
        """Return one number of the data sheet."""
        unit = {"peak": "FLOP/s", "bandwidth": "B/s"}[name]
        return exact_number(f"{name}({self.device})", unit, getattr(self, name), "devices.yaml")


def find_data_sheets(devices: Devices, names: Collection[str]) -> dict[str, GpuSheet]:
    """Return name → data sheet, for the GPUs whose peak and bandwidth are listed."""
    sheets: dict[str, GpuSheet] = {}
    for name in names:
        device = devices.find(name)
        rates = {peak.operation: peak.rate for peak in device.peaks} if device else {}
        if "float16" in rates and "memory" in rates:
            sheets[name] = GpuSheet(name, rates["float16"], rates["memory"])
    return sheets


class Networks:
    """Frames of networks whose operators were ``traced`` without a GPU, and of the ``operators``.

    The index of an operator is the ``position`` of its network in ``traced``.  ``reads``: elements
    that an operator reads besides its weights.  ``half_bytes``, ``single_bytes``: bytes per image
    with normalizations in float16 and in float32.  ``norms``: the rarest operator of ``NORMS`` by
    network.
    """

    def __init__(self, networks: Sequence[NetworkOperators]) -> None:
        counts = dict.fromkeys(("multiply_adds", "weights", "reads", "writes"), float)
        self.operators = _make_frame([n.operators for n in networks], {"name": str, **counts})
        counts = dict.fromkeys(("parameters", "half_bytes", "single_bytes"), float)
        traced = _make_frame([[n] for n in networks], {"network": str, "side": int, **counts})
        traced["norm"] = None
        norms = self.operators[self.operators["name"].isin(NORMS)]
        for norm in NORMS:  # the rarest kind comes last and replaces more frequent kinds
            traced.loc[traced.index.isin(norms.index[norms["name"] == norm]), "norm"] = norm
        # Elements that group normalizations write for one image.
        written = norms["writes"].where(norms["name"] == GROUP_NORM, 0.0)
        traced["group_norm_elements"] = np.bincount(norms.index, written, len(traced))
        columns = {"side": "traced_image", "parameters": "traced_parameters"}
        self.traced = traced.rename(columns=columns).reset_index(names="position")
        self.norms = dict(zip(traced["network"], traced["norm"], strict=True))

    def seconds(self, batches: Vector, limits: GpuSheet) -> Vector:
        """Return the least time (s) of a batch of each network; weights are read once per batch."""
        operators = self.operators
        batch = batches[operators.index]
        elements = operators["weights"] + batch * (operators["reads"] + operators["writes"])
        arithmetic_seconds = 2 * batch * operators["multiply_adds"] / limits.peak
        seconds = np.maximum(arithmetic_seconds, ELEMENT_BYTES * elements / limits.bandwidth)
        return np.bincount(operators.index, seconds, len(self.traced)).astype(float)


def _make_frame(groups: Sequence[Sequence[object]], types: Mapping[str, type]) -> pd.DataFrame:
    """Return the fields ``types`` of all items, a row each, indexed by their group's position."""
    rows = map(attrgetter(*types), chain.from_iterable(groups))
    positions = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    return make_frame(rows, types, positions)
