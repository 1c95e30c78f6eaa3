"""What theory says of a call: its peak, and the batch that fits a limit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from report.core.missing import Missing
from report.core.records.layers import Layer
from report.studies.inference_memory.subject import Call, Limit
from report.theory.conditions import Conditions
from report.theory.fits import Fits
from report.theory.network import Theory, scaled_fits
from report.theory.networks import CapturedNetwork, Way, captured

#: What cuBLAS keeps from its first product on, on an H100: 32 MiB, and 1 MiB of cuBLASLt's.
KEPT: Final = (2**25, 2**20)
#: By how much a call may exceed a limit (B), for the ends of pages: what the experiment allows.
ROOM: Final = 131_072


def network(call: Call, like: Sequence[Layer] = ()) -> CapturedNetwork | Missing:
    """The operators of an eager call; missing where other layers ran than were captured."""
    return captured(call.network, call.image, Way(call.layout, call.precision), like=like)


@cache
def fits(limit: Limit, conditions: Conditions) -> Fits[Theory] | Missing:
    """What ``--fits`` says of a network in float32 under a limit, on a processor."""
    found = network(Call(limit.network, limit.image, 1, limit.layout))
    if isinstance(found, Missing):
        return found
    return scaled_fits(found, Theory(found.network, conditions), limit.bytes)
