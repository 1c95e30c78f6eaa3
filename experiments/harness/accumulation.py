"""Sums of gradients, written down as the real engine makes them: in place where it can; pure.

Where several gradients of one tensor meet, the engine of automatic differentiation adds the next to
the first in place, if nothing else holds the first (``torch/csrc/autograd/input_buffer.cpp``,
``can_accumulate_inplace``), but never for fake tensors, so that a capture shows a result of its
own.  An addition whose operand is let go right after it is taken for such a sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final

import msgspec

from report.records.operations import Operator, Tensor

_SUM: Final = "add.Tensor"


def in_place(operators: Sequence[Operator]) -> tuple[tuple[Operator, ...], dict[int, int]]:
    """The operators with such sums in place, and the storage that stands for each that is gone."""
    renamed: dict[int, int] = {}
    lasting: set[int] = set()
    born: set[int] = set()
    found = []
    for operator, following in zip_longest(operators, operators[1:]):
        freed = tuple(renamed.get(s, s) for s in operator.freed if s not in lasting)
        target = None if following is None else _target(operator, born & set(following.freed))
        if target is not None:
            (made,) = operator.made
            lasting.add(target)
            renamed[made] = renamed.get(target, target)
        if operator.phase == "backward":
            born |= set(operator.made)
        found.append(_renamed(operator, freed, renamed) if renamed else operator)
    return tuple(found), renamed


def _target(operator: Operator, stealable: Iterable[int]) -> int | None:
    """The storage of the operand that a sum of gradients is added to; None of all else."""
    if operator.phase != "backward" or operator.name != _SUM or len(operator.made) != 1:
        return None
    operands = [operator.tensor(name) for name in ("self", "other")]
    (result,) = operator.writes
    for operand in operands:
        if operand is not None and operand.storage in stealable and _like(operand, result):
            return operand.storage
    return None


def _like(operand: Tensor, result: Tensor) -> bool:
    """Whether the operand can hold the result: as large, and without repeated elements."""
    same = (operand.shape, operand.dtype) == (result.shape, result.dtype)
    return same and operand.distinct == operand.elements


def _renamed(operator: Operator, freed: tuple[int, ...], names: dict[int, int]) -> Operator:
    return msgspec.structs.replace(
        operator,
        freed=freed,
        made=tuple(storage for storage in operator.made if storage not in names),
        reads={name: renamed(tensors, names) for name, tensors in operator.reads.items()},
        writes=renamed(operator.writes, names),
    )


def renamed(tensors: Iterable[Tensor], names: dict[int, int]) -> tuple[Tensor, ...]:
    """The tensors in the storages that stand for their own."""
    return tuple(
        msgspec.structs.replace(tensor, storage=names.get(tensor.storage, tensor.storage))
        for tensor in tensors
    )
