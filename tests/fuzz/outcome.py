"""What an attack on the build came to."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Outcome(Enum):
    """What the build made of bad input; only ``WRONG`` is a fault."""

    REFUSED = "refused in one sentence"
    UNCHANGED = "accepted unchanged"
    MARKED = "accepted and marked"
    WRONG = "wrong"


class Report(NamedTuple):
    """The kind of an attack, its outcome, and what exactly was done or went wrong."""

    kind: str
    outcome: Outcome
    detail: str
