"""A network as the sequence of its operators: tensors read and written, settings, storages freed.

The operators are those of ATen, PyTorch's tensor library, recorded below automatic differentiation.
They contain all computation, also outside modules (``F.relu``, ``+``, a parameter used directly).
A tensor refers to its storage by number; views, in-place results and shared parameters have the
same storage.  A storage that Python frees is listed with the next operator.
"""

from collections.abc import Iterable
from itertools import chain
from math import prod
from typing import Final, Literal, TypeAlias

import msgspec

#: Phase of a training step; a call without gradients has only the phase ``forward``.
Phase: TypeAlias = Literal["forward", "backward", "update"]
#: Argument of an operator that is no tensor: a number, name, switch or None, or a list of these.
OperatorSetting: TypeAlias = (
    int | float | bool | str | tuple["int | float | bool | str | None", ...] | None
)

#: Name of an element type → bytes of one element.
ITEM_BYTES: Final[dict[str, int]] = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "complex64": 8, "complex128": 16, "complex32": 4,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip


#: Values of ``Operator.module`` for operators outside all modules.
LOSS: Final = "(the loss)"
OPTIMISER: Final = "(the optimiser)"


class Tensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A tensor, with the number of its storage.

    ``strides``: distances in memory between neighbours along each axis.  ``offset``: position of
    the first element in the storage.  Both count elements.
    """

    storage: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    offset: int = 0

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def distinct_elements(self) -> int:
        """The number of elements, those repeated along axes with stride 0 counted once."""
        elements = 1
        for extent, stride in zip(self.shape, self.strides, strict=True):
            if stride != 0 or extent == 0:
                elements *= extent
        return elements

    @property
    def bytes(self) -> int:
        """The bytes of the distinct elements."""
        return self.distinct_elements * ITEM_BYTES[self.dtype]


def occupied_bytes(tensors: Iterable[Tensor]) -> int:
    """Count the bytes in memory that tensors occupy.

    Equal views of a storage count once.  The bytes of different views are added, so that elements
    in two views count twice; the sum is limited to the bytes from the first element to the last.
    """
    views: dict[int, set[Tensor]] = {}
    for tensor in tensors:
        if tensor.elements:
            views.setdefault(tensor.storage, set()).add(tensor)
    total = 0
    for views_of_storage in views.values():
        begin = min(ITEM_BYTES[view.dtype] * view.offset for view in views_of_storage)
        end = max(_end_offset(view) for view in views_of_storage)
        sum_of_views = sum(view.bytes for view in views_of_storage)
        total += min(sum_of_views, end - begin)
    return total


def _end_offset(tensor: Tensor) -> int:
    """Return the offset (B) in the storage of the end of a tensor's last element."""
    last_element = tensor.offset
    for extent, stride in zip(tensor.shape, tensor.strides, strict=True):
        last_element += (extent - 1) * stride
    return ITEM_BYTES[tensor.dtype] * (last_element + 1)


class Operator(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One call of an operator.

    ``name``: ATen's name with the overload (``convolution.default``).  ``module``: the innermost
    module that called the operator, ``LOSS`` or ``OPTIMISER``; a backward operator has the module
    of its forward operator.  ``reads``: tensor arguments by name; a list of tensors is one argument
    with several tensors.  ``settings``: all other arguments.  ``writes``: results, including
    in-place results.  ``updates``: names of the arguments that are written to.  ``allocated``: new
    storages (``made`` in files).  ``freed``: storages freed since the previous operator.
    """

    name: str
    module: str
    phase: Phase
    reads: dict[str, tuple[Tensor, ...]]
    settings: dict[str, OperatorSetting]
    writes: tuple[Tensor, ...]
    updates: tuple[str, ...] = ()
    allocated: tuple[int, ...] = msgspec.field(default=(), name="made")
    freed: tuple[int, ...] = ()

    @property
    def base_name(self) -> str:
        """The name without its overload."""
        return self.name.partition(".")[0]

    @property
    def read_tensors(self) -> tuple[Tensor, ...]:
        """The tensors of all arguments."""
        return tuple(chain.from_iterable(self.reads.values()))

    def tensor(self, name: str) -> Tensor | None:
        """Return the only tensor of an argument, or None if there are none or several."""
        tensors = self.reads.get(name, ())
        return tensors[0] if len(tensors) == 1 else None


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The operators of a call or of a training step, in order.

    ``storages``: size (B) of each storage; a storage's number is its index.  ``parameters``,
    ``buffers``: tensors by name; tied weights share a storage.  ``inputs``: tensors that the caller
    passes.  ``state``: state of the optimiser, and gradients from before the step.
    """

    storages: tuple[int, ...]
    parameters: dict[str, Tensor]
    buffers: dict[str, Tensor]
    inputs: tuple[Tensor, ...]
    state: tuple[Tensor, ...] = ()
    operators: tuple[Operator, ...]

    @property
    def parameter_count(self) -> int:
        """The number of elements of all parameters; tied weights count once."""
        elements_by_storage = {t.storage: t.elements for t in self.parameters.values()}
        return sum(elements_by_storage.values())

    @property
    def unused_parameters(self) -> tuple[str, ...]:
        """The names of the parameters that no operator reads."""
        read_storages = set[int]()
        for operator in self.operators:
            read_storages.update(tensor.storage for tensor in operator.read_tensors)
        return tuple(name for name, t in self.parameters.items() if t.storage not in read_storages)
