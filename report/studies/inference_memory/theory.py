"""Theory of a call: its operators, and the batch that fits a limit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from report.core.missing import Missing
from report.core.records.layers import Layer
from report.studies.inference_memory.subject import Call, Limit
from report.theory.conditions import Conditions
from report.theory.fits import Fits, scaled_fits
from report.theory.network import Theory
from report.theory.networks import CapturedNetwork, Variant, captured

#: Bytes by which the experiment lets a call exceed a limit, for the ends of pages.
ROOM: Final = 131_072
#: Blocks of this size (B) and more have pages of their own under a limit.
MAPPED: Final = 16_384


def network(call: Call, like: Sequence[Layer] = ()) -> CapturedNetwork | Missing:
    """Return the operators of an eager call; missing where other layers ran than were captured."""
    return captured(call.network, call.image, Variant(call.layout, call.precision), like=like)


@cache
def fits(limit: Limit, conditions: Conditions) -> Fits | Missing:
    """Search as ``--fits`` does for the batch of a network in float32 that fits a limit."""
    operators = captured(limit.network, limit.image, Variant(limit.layout, change=limit.change))
    if isinstance(operators, Missing):
        return operators
    return scaled_fits(operators, Theory(operators.network, conditions), limit.bytes)
