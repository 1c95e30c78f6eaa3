"""Names for devices of one label: what distinguishes them, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from report.records.record import Environment


def _gib(size: int) -> str:
    return f"{round(size / 2**30)} GiB"


#: Properties in words, the clearest first; None where a device has none.
_PROPERTIES: Final[tuple[Callable[[Environment], str | None], ...]] = (
    lambda one: one.gpu.model if one.gpu and one.name else None,
    lambda one: one.cpu.model if one.name else None,
    lambda one: _gib(one.gpu.memory_bytes) if one.gpu else None,
    lambda one: f"beside {one.cpu.model}" if one.gpu else None,
    lambda one: f"{_gib(one.memory_bytes)} of memory",
    lambda one: f"{one.cpu.cores_available} cores available",
    lambda one: one.key,
)


def names(environments: Sequence[Environment]) -> tuple[str, ...]:
    """The label of each device; those of one label with the first property that differs for all.

    The key stands where no other does.
    """
    labels = [environment.label for environment in environments]
    return tuple(
        label
        if labels.count(label) == 1
        else f"{label} ({_own(one, [e for e in environments if e.label == label])})"
        for one, label in zip(environments, labels, strict=True)
    )


def _own(one: Environment, others: Sequence[Environment]) -> str:
    """What only ``one`` of ``others``, which include it, has."""
    for words in _PROPERTIES:
        known = [words(each) for each in others]
        if None not in known and len(set(known)) == len(known):
            return str(words(one))
    return one.key
