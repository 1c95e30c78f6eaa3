"""The absence of a number, which always has a reason and is never a zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

Found = TypeVar("Found")


@dataclass(frozen=True)
class Missing:
    """Stands where a number would; ``reason`` says in words why there is none."""

    reason: str


def present(items: dict[int, Found | Missing]) -> dict[int, Found]:
    """The entries of ``items`` that are there."""
    return {key: item for key, item in items.items() if not isinstance(item, Missing)}
