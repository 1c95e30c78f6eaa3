"""Build papers from records; ``open_paper`` opens a paper in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from report.notebook import open_paper

__all__ = ["open_paper"]


def __getattr__(name: str) -> Any:
    """Import ``open_paper`` at its first use, since builds do not need its imports."""
    if name != "open_paper":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from report.notebook import open_paper

    return open_paper
