"""Results of operators on fake tensors, compared with those of the same operators on real ones."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._pytree import tree_map_only  # noqa: E402

from experiments.theory.fake_tensors import FakeMode, tensors_in  # noqa: E402

CPU = torch.device("cpu")


def faked(func: Any, args: Any) -> Any:
    """Call an operator on fake tensors in place of real ones."""
    mode = FakeMode()
    fake = tree_map_only(torch.Tensor, lambda tensor: mode.like(tensor, CPU), args)
    with mode:
        return func(*fake)


def layouts(result: Any) -> list[object]:
    """Shape, strides and type of all tensors of a result."""
    return [(tensor.shape, tensor.stride(), tensor.dtype) for tensor in tensors_in(result)]


aten = torch.ops.aten
zeros, image = torch.zeros, torch.zeros(1, 3, 8, 8)
REFUSED = {
    "product of two types": (aten.mm.default, zeros(2, 3), zeros(3, 4).double()),
    "bias of another type": (aten.addmm.default, zeros(4).double(), zeros(2, 3), zeros(3, 4)),
    "linear of ints": (aten.addmm.default, zeros(4), zeros(2, 3).long(), zeros(3, 4)),
    "convolution of ints": (
        aten.convolution.default, image.long(), zeros(6, 3, 3, 3), None, [1, 1], [0, 0], [1, 1],
        False, [0, 0], 1,
    ),
    "normalised ints": (
        aten.native_batch_norm.default, image.long(), *[zeros(3)] * 4, True, 0.1, 1e-5,
    ),
    "softmax of ints": (aten._log_softmax.default, zeros(2, 3).long(), 1, False),
    "relu of bool": (aten.relu_.default, zeros(4).bool()),
    "relu of complex": (aten.relu_.default, zeros(4, dtype=torch.complex64)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_types_that_a_kernel_refuses_are_refused(name: str) -> None:
    func, *args = REFUSED[name]
    for call in (lambda: func(*args), lambda: faked(func, args)):
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            call()


SOURCES = {
    "permuted": zeros(5, 8, 2, 5).permute(2, 1, 0, 3),
    "sequence": zeros(2, 5, 8).transpose(1, 2),
    "transposed": zeros(8, 4).t(),
    "last": zeros(2, 8, 5, 5).to(memory_format=torch.channels_last),
    "slice": zeros(2, 8, 5, 5)[:, :4],
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_batch_norm_writes_in_the_order_of_the_kernel(source: Any) -> None:
    ones = torch.ones(source.shape[1])
    for training in (True, False):
        args = (source, ones, ones, ones, ones, training, 0.1, 1e-5)
        func = aten.native_batch_norm.default
        assert layouts(faked(func, args)) == layouts(func(*args))
