"""Missing numbers, which have a reason and are never represented as zero."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Missing:
    """A number that does not exist; ``reason`` states why."""

    reason: str
