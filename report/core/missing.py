"""Missing numbers: each has a reason and is never represented as zero."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Missing:
    """A number that does not exist; ``reason`` says why in words."""

    reason: str
