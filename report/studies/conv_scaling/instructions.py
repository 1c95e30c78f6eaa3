"""Which code executes the layer, and with which instructions it was counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from report.evidence.primitives import Logged
from report.instruments.onednn import AVX2, NATIVE
from report.quantity.expression import Quantity, absent, exact

#: The variant whose channels do not fill the blocks.
UNEVEN: Final = "33 channels"


def name(logged: Logged) -> str:
    """What of the layer is changed in a case."""
    return str(logged.case.factors.get("variant", "the layer"))


def _uneven(get: Callable[[Logged], Quantity]) -> Callable[[Sequence[Logged]], Quantity]:
    def value(found: Sequence[Logged]) -> Quantity:
        case = next((each for each in found if name(each) == UNEVEN), None)
        return get(case) if case else absent(UNEVEN, "1", "it was not logged")

    return value


#: The numbers of the prose that rest on the logs.
VALUES: Final[dict[str, Callable[[Sequence[Logged]], Quantity]]] = {
    "uneven_channels": _uneven(
        lambda case: exact("C_out", "1", case.case.layers[0].output_shape[1])
    ),
    "uneven_native": _uneven(lambda case: case.executed(NATIVE)),
    "uneven_avx2": _uneven(lambda case: case.executed(AVX2)),
    "uneven_counted": _uneven(Logged.counted),
}
