"""A network as the operators that ran: what each read, wrote and was told, and what died before it.

An operator is one of ATen's, below automatic differentiation, as PyTorch's dispatcher calls them:
what a module computes is there however it is written (``F.relu``, ``+``, an own parameter).
Tensors name the storage that they lie in, so that views, in-place results and shared parameters
are told by number; storages are freed when Python lets go of them, which stands with the operator
that came next.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from math import prod
from typing import Final, Literal, TypeAlias

import msgspec

#: Where an operator belongs in a training step; a call without gradients is all forward.
Phase: TypeAlias = Literal["forward", "backward", "update"]
#: What an operator is told beside tensors: numbers, names, switches, and lists of them.
Setting: TypeAlias = int | float | bool | str | tuple["int | float | bool | str | None", ...] | None

#: Bytes of one element by the name of its type.
ITEM_BYTES: Final[dict[str, int]] = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "complex64": 8, "complex128": 16, "complex32": 4,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip


#: What operators outside of all modules belong to.
LOSS: Final = "(the loss)"
OPTIMISER: Final = "(the optimiser)"


class Tensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One tensor: its storage, its extents, its strides in elements and their type.

    ``offset`` is the place of the first element in the storage, in elements.
    """

    storage: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    offset: int = 0

    @property
    def elements(self) -> int:
        """How many elements it shows."""
        return prod(self.shape)

    @property
    def distinct(self) -> int:
        """How many places in memory it shows: an expanded extent shows the same ones again."""
        return prod(n for n, s in zip(self.shape, self.strides, strict=True) if s or n == 0)

    @property
    def bytes(self) -> int:
        """The bytes of those places."""
        return self.distinct * ITEM_BYTES[self.dtype]


def places(tensors: Iterable[Tensor]) -> int:
    """The bytes in memory that tensors show: views of one storage no more than it has between them.

    Equal views count once, views that lie in each other's gaps each; what views share beside that
    is counted for each of them, up to the bytes from the first place to the last.
    """
    views: dict[int, set[Tensor]] = {}
    for tensor in tensors:
        if tensor.elements:
            views.setdefault(tensor.storage, set()).add(tensor)
    total = 0
    for found in views.values():
        first = min(ITEM_BYTES[each.dtype] * each.offset for each in found)
        total += min(sum(each.bytes for each in found), max(map(_end, found)) - first)
    return total


def _end(tensor: Tensor) -> int:
    """The byte of the storage behind the last place that a tensor shows."""
    steps = zip(tensor.shape, tensor.strides, strict=True)
    return ITEM_BYTES[tensor.dtype] * (
        tensor.offset + 1 + sum((extent - 1) * stride for extent, stride in steps)
    )


class Operator(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One call of an operator.

    ``name`` is ATen's with its overload (``convolution.default``); ``module`` the innermost module
    that called it, in a backward pass the one that called what it is the gradient of; the loss and
    the optimiser (``LOSS``, ``OPTIMISER``) stand beside modules.  ``reads`` are the arguments that
    hold tensors, by their names, a list of tensors as several; ``settings`` the others;
    ``writes`` the results, those in place among them; ``updates`` are the arguments that it writes
    to.  ``freed`` are the storages that were let go after the operator before it,
    ``allocated`` those that it allocated (``made`` in files).
    """

    name: str
    module: str
    phase: Phase
    reads: dict[str, tuple[Tensor, ...]]
    settings: dict[str, Setting]
    writes: tuple[Tensor, ...]
    updates: tuple[str, ...] = ()
    allocated: tuple[int, ...] = msgspec.field(default=(), name="made")
    freed: tuple[int, ...] = ()

    @property
    def base(self) -> str:
        """The name without its overload."""
        return self.name.partition(".")[0]

    @property
    def read(self) -> tuple[Tensor, ...]:
        """The tensors of all arguments."""
        return tuple(chain.from_iterable(self.reads.values()))

    def tensor(self, name: str) -> Tensor | None:
        """The one tensor of an argument, or None where it was given none."""
        found = self.reads.get(name, ())
        return found[0] if len(found) == 1 else None


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The operators of a call or of a training step, in order.

    ``storages`` are sizes in bytes, by number.  Parameters and buffers stand by their names; those
    that share a storage are one (tied weights).  ``inputs`` are the caller's tensors, ``state`` is
    what the optimiser keeps, with the gradients of the step before.
    """

    storages: tuple[int, ...]
    parameters: dict[str, Tensor]
    buffers: dict[str, Tensor]
    inputs: tuple[Tensor, ...]
    state: tuple[Tensor, ...] = ()
    operators: tuple[Operator, ...]

    @property
    def parameter_count(self) -> int:
        """Elements of all parameters, shared ones once."""
        return sum({t.storage: t.elements for t in self.parameters.values()}.values())

    @property
    def unused(self) -> tuple[str, ...]:
        """The parameters that no operator reads."""
        read = {t.storage for o in self.operators for t in o.read}
        return tuple(name for name, t in self.parameters.items() if t.storage not in read)
