"""The absence of a number, which always has a reason and is never a zero."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Missing:
    """Stands where a number would; ``reason`` says in words why there is none."""

    reason: str
