"""A network as the operators that ran: what each read, wrote and was told, and what died before it.

An operator is one of ATen's, below automatic differentiation, as PyTorch's dispatcher calls them:
what a module computes is there however it is written (``F.relu``, ``+``, an own parameter).
Tensors name the storage that they lie in, so that views, in-place results and shared parameters
are told by number; storages are freed when Python lets go of them, which stands with the operator
that came next.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd, prod
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
    """The bytes in memory that tensors show, each once however many of them show it.

    Where more than ``_CELLS`` places would have to be compared, at most that many bytes.
    """
    found: dict[int, set[_View]] = {}
    for tensor in tensors:
        if tensor.elements:
            found.setdefault(tensor.storage, set()).add(_view(tensor))
    return sum(map(_union, found.values()))


#: A tensor in bytes: where it begins, and strides with extents, the largest stride first.
_View: TypeAlias = tuple[int, tuple[tuple[int, int], ...]]
_CELLS: Final = 2**18


def _view(tensor: Tensor) -> _View:
    """Extents that follow one another are one, so that a transposed tensor is the same view."""
    size = ITEM_BYTES[tensor.dtype]
    dims = [(size * s, n) for n, s in zip(tensor.shape, tensor.strides, strict=True) if s and n > 1]
    merged: list[tuple[int, int]] = []
    for stride, extent in sorted((*dims, (1, size)), reverse=True):
        if merged and merged[-1][0] == stride * extent:
            merged[-1] = (stride, merged[-1][1] * extent)
        else:
            merged.append((stride, extent))
    return size * tensor.offset, tuple(merged)


def _union(views: set[_View]) -> int:
    start = min(offset for offset, _ in views)
    steps = sorted({stride for _, dims in views for stride, _ in dims})
    views = {(offset - start, _split(dims, steps)) for offset, dims in views}
    factor = 1
    # An outer extent that all share repeats what stands in it.
    while len({dims[:1] for _, dims in views}) == 1 and all(dims for _, dims in views):
        (stride, extent), *_ = next(iter(views))[1]
        if stride < max(offset + _reach(dims[1:]) for offset, dims in views):
            break
        factor, views = factor * extent, {(offset, dims[1:]) for offset, dims in views}
    ends = [(offset, offset + _reach(dims)) for offset, dims in views]
    # The inner bytes that all hold together count as one.
    together = gcd(
        *(offset for offset, _ in views),
        *(n if s == 1 else s for _, dims in views for s, n in dims),
    )
    total = sum(prod(n for _, n in dims) for _, dims in views)
    if len(views) == 1 and not next(iter(views))[1]:
        return factor
    if total > _CELLS * together:
        return factor * min(total, max(end for _, end in ends))
    cells: set[int] = set()
    for offset, dims in views:
        own = [offset // together]
        for stride, extent in dims:
            step, count = (1, extent // together) if stride == 1 else (stride // together, extent)
            own = [cell + step * k for cell in own for k in range(count)]
        cells.update(own)
    return factor * together * len(cells)


def _split(dims: tuple[tuple[int, int], ...], steps: list[int]) -> tuple[tuple[int, int], ...]:
    """The same places with extents that end where other views' strides do."""
    found = []
    for stride, extent in dims:
        inner = stride
        for step in steps:
            if inner < step < stride * extent and step % inner == 0 == stride * extent % step:
                found.append((inner, step // inner))
                inner = step
        found.append((inner, stride * extent // inner))
    return tuple(sorted(found, reverse=True))


def _reach(dims: tuple[tuple[int, int], ...]) -> int:
    return 1 + sum(stride * (extent - 1) for stride, extent in dims)


class Operator(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One call of an operator.

    ``name`` is ATen's with its overload (``convolution.default``); ``module`` the innermost module
    that called it, of a backward pass the one whose tensors it reads.  ``reads`` are the arguments
    that hold tensors, by their names, a list of tensors as several; ``settings`` the others;
    ``writes`` the results, those in place among them; ``updates`` are the arguments that it writes
    to.  ``freed`` are the storages that were let go after the operator before it, ``made`` those
    that it allocated.
    """

    name: str
    module: str
    phase: Phase
    reads: dict[str, tuple[Tensor, ...]]
    settings: dict[str, Setting]
    writes: tuple[Tensor, ...]
    updates: tuple[str, ...] = ()
    made: tuple[int, ...] = ()
    freed: tuple[int, ...] = ()

    @property
    def base(self) -> str:
        """The name without its overload."""
        return self.name.partition(".")[0]

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
        return sum(tensor.elements for tensor in _once(self.parameters))

    @property
    def parameter_bytes(self) -> int:
        """Their bytes."""
        return sum(tensor.bytes for tensor in _once(self.parameters))

    @property
    def unused(self) -> tuple[str, ...]:
        """The parameters that no operator reads."""
        read = {t.storage for o in self.operators for found in o.reads.values() for t in found}
        return tuple(name for name, t in self.parameters.items() if t.storage not in read)


def _once(tensors: dict[str, Tensor]) -> tuple[Tensor, ...]:
    return tuple({tensor.storage: tensor for tensor in tensors.values()}.values())
