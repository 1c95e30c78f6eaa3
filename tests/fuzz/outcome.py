"""What came of one attack on the input of a build."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Outcome(Enum):
    """What a build may make of damaged input; all but the last are right."""

    REFUSED = "refused in one sentence"
    UNCHANGED = "accepted unchanged"
    MARKED = "accepted and marked"
    WRONG = "wrong"


class Report(NamedTuple):
    """The kind of one attack, what came of it, and what to know of it."""

    kind: str
    outcome: Outcome
    detail: str
