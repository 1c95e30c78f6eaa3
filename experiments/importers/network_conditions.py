"""What profilers do not say of the network that they watched; the user must."""

from __future__ import annotations

from typing import Final

from experiments.importers.imported import Source, scaled
from report.records.record import Factor

#: Conditions that a profile needs, and others that it may have.
_NEEDED: Final = ("network", "batch", "precision", "direction")
_COUNTS: Final = ("batch", "image")
_KNOWN: Final = (*_NEEDED, "image", "layout", "optimizer")


def conditions(source: Source) -> dict[str, Factor]:
    """The conditions that the user gave; raises ``RefusedError`` for a missing or unknown one."""
    for name in source.given:
        if name not in _KNOWN:
            raise source.refused(f"--set {name}: possible are {', '.join(_KNOWN)}; mend the name")
    for name in _NEEDED:
        if name not in source.given:
            raise source.refused(f"it does not say the {name}; give it with --set {name}=…")
    return {name: _level(source, name, text) for name, text in source.given.items()}


def _level(source: Source, name: str, text: str) -> Factor:
    if name not in _COUNTS:
        return text
    number = scaled(text, "1", whole=True)
    if not number:
        raise source.refused(f"--set {name}={text}: expected a whole number from 1 on; mend it")
    return number
