"""The records that the user pinned: ``data/pins.yaml``."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from report.records.strict import read_strictly, refuse_first

#: dict[str, tuple[str, ...]] | None, which a type checker takes for no class.
_PINS: Final[Any] = dict[str, tuple[str, ...]] | None
_REMEDY: Final = "write it as «conv_scaling: [conv_scaling/<file>.json]»"


def read_pins(data: Path, studies: Collection[str] | None = None) -> dict[str, tuple[str, ...]]:
    """The records that the user pinned: study → files relative to ``data``; none without a file.

    Raises ``RecordError`` for a file that says something else, or names none of ``studies`` where
    they are given.
    """
    path = data / "pins.yaml"
    if not path.exists():
        return {}
    # A file in which all lines are comments holds nothing.
    pins: dict[str, tuple[str, ...]] = read_strictly(path, _PINS, "YAML", _REMEDY, data) or {}
    if studies is None:
        return pins
    unknown = (f"{name}: found a name that is no study" for name in pins if name not in studies)
    refuse_first(unknown, path, f"the studies are {', '.join(studies)}")
    return pins
