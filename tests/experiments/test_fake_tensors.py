"""What operators give on tensors without elements, against the same operators with elements."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils._pytree import tree_map_only  # noqa: E402

from experiments.theory.fake_tensors import RULES, DispatchMode, FakeMode, tensors_in  # noqa: E402

CPU = torch.device("cpu")


def faked(func: Any, args: Any, given: Any = None, by_rule: bool = False) -> Any:
    """What an operator gives for fake tensors in the place of real ones."""
    mode = FakeMode()
    fake = tree_map_only(torch.Tensor, lambda t: mode.like(t, CPU), (args, given or {}))
    if by_rule:
        return mode._inferred(func, *fake)
    with mode:
        return func(*fake[0], **fake[1])


def forms(made: Any) -> list[object]:
    """Of each tensor its shape and type, and the strides of the extents that have one."""
    return [
        (tuple(t.shape), [s for s, n in zip(t.stride(), t.shape, strict=True) if n != 1], t.dtype)
        for t in tensors_in(made)
    ]


class Compared(DispatchMode):
    """Compares what each operator gives that runs with what its rule gives."""

    def __init__(self) -> None:
        super().__init__()
        self.tried = set[Any]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = faked(func, args, kwargs, by_rule=True) if func in RULES else NotImplemented
        expected = None if found is NotImplemented else forms(found)
        result = func(*args, **(kwargs or {}))
        if expected is not None:
            self.tried.add(func)
            assert expected == forms(result), func
        return result


def network() -> nn.Module:
    """Every operator that has a rule, forward or backward, with strides, paddings and groups."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, padding=2, dilation=2), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1, groups=4, bias=False), nn.ReLU6(), nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(8, 16, 1), nn.Dropout(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip


def test_rules_give_what_operators_do() -> None:
    compared = Compared()
    for layout in (torch.contiguous_format, torch.channels_last):
        module = network().to(memory_format=layout)
        source = torch.randn(2, 3, 29, 30).to(memory_format=layout)
        for optimizer in (torch.optim.Adam, torch.optim.SGD):
            stepped = optimizer(module.parameters(), lr=0.1, weight_decay=0.1)
            with compared:
                loss = nn.functional.cross_entropy(module(source), torch.tensor([0, 1]))
                loss.backward()
                stepped.step()
        with compared:
            module.eval()(source)
            _ = torch.empty_like(loss) + loss.clone(), torch.zeros(2, 3, dtype=torch.float64)
            nn.functional.relu6(torch.relu_(torch.zeros(2, 3)), inplace=True)
    assert compared.tried == set(RULES)


aten = torch.ops.aten
zeros, long = torch.zeros, torch.zeros(4, dtype=torch.int64)
image, last = zeros(1, 3, 8, 8), torch.channels_last
kernel, usual = zeros(6, 3, 3, 3), ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
REFUSED = {
    "repeated axis": (aten.sum.dim_IntList, zeros(2, 3), [0, -2]),
    "axis out of range": (aten.mean.dim, zeros(2, 3), [2]),
    "axis below the range": (aten.mean.dim, zeros(2, 3), [-3]),
    "axis of softmax": (aten._log_softmax.default, zeros(2, 3), 2, False),
    "no window fits": (aten.max_pool2d_with_indices.default, zeros(1, 3, 2, 2), [3, 3], [2, 2]),
    "padding of half": (aten.max_pool2d_with_indices.default, image, [2, 2], [2, 2], [2, 2]),
    "stride of pooling": (aten.max_pool2d_with_indices.default, image, [2, 2], [0, 0]),
    "three axes": (aten.mm.default, zeros(2, 4, 7), zeros(4, 5)),
    "one axis": (aten.mm.default, zeros(2), zeros(2)),
    "product of two types": (aten.mm.default, zeros(2, 3), zeros(3, 4).double()),
    "bias of another type": (aten.addmm.default, zeros(4).double(), zeros(2, 3), zeros(3, 4)),
    "linear of ints": (aten.addmm.default, zeros(4), zeros(2, 3).long(), zeros(3, 4)),
    "convolution of ints": (aten.convolution.default, image.long(), kernel, None, *usual),
    "normalised ints": (
        aten.native_batch_norm.default, image.long(), *[zeros(3)] * 4, True, 0.1, 1e-5,
    ),
    "softmax of ints": (aten._log_softmax.default, zeros(2, 3).long(), 1, False),
    "relu of bool": (aten.relu_.default, zeros(4).bool()),
    "relu of complex": (aten.relu_.default, zeros(4, dtype=torch.complex64)),
    "short bias": (aten.convolution.default, image, kernel, zeros(5), *usual),
    "stride 0": (aten.convolution.default, image, kernel, None, [0, 0], *usual[1:]),
    "padding below 0": (aten.convolution.default, image, kernel, None, [1, 1], [-1, 0], *usual[2:]),
    "small image": (aten.convolution.default, zeros(1, 3, 2, 2), kernel, None, *usual),
    "groups": (aten.convolution.default, zeros(1, 6, 8, 8), kernel[:5], None, *usual[:-1], 2),
    "labels of floats": (aten.nll_loss_forward.default, zeros(4, 5), zeros(4), None, 1, -100),
    "labels too few": (aten.nll_loss_forward.default, zeros(4, 5), long[:3], None, 1, -100),
    "sum in place of bool": (aten.add_.Tensor, zeros(4).bool(), 1),
    "sum in place of int": (aten.add_.Tensor, zeros(4).int(), 1.5),
    "quotient in place of int": (aten.div_.Scalar, long, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    func, *args = REFUSED[name]
    for call in (lambda: func(*args), lambda: faked(func, args)):
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            call()


def test_tensors_of_two_devices_do_not_meet() -> None:
    mode = FakeMode()
    here, there = (mode.like(zeros(4), torch.device(name)) for name in ("cpu", "cuda:0"))
    with mode, pytest.raises(RuntimeError):
        there.add_(here)


def test_an_import_that_fails_prints_nothing_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    monkeypatch.setattr(threading, "excepthook", said.append)
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)
    with suppress(ImportError):
        faked(aten.sin.default, [zeros(4)])
    assert not said


LAYOUTS = {
    "last": zeros(2, 8, 5, 5).to(memory_format=last),
    "last of volumes": zeros(2, 8, 5, 5, 5).to(memory_format=torch.channels_last_3d),
    "slice of last": zeros(2, 8, 5, 5).to(memory_format=last)[:, :4],
    "slice": zeros(2, 8, 5, 5)[:, :4],
    "empty": zeros(0, 8, 5, 5).to(memory_format=last),
    "one place": zeros(2, 8, 1, 1).to(memory_format=last),
    "one channel": zeros(2, 1, 5, 5).to(memory_format=last),
    "permuted": zeros(5, 8, 2, 5).permute(2, 1, 0, 3),
    "permuted sequence": zeros(2, 5, 8).transpose(1, 2),
    "transposed": zeros(8, 4).t(),
    "extent of one": zeros(10).as_strided((2, 1, 3), (3, 7, 1)),
    "overlapping": zeros(10).unfold(0, 8, 1),
    "expanded": zeros(1, 4, 1).expand(3, 4, 5),
    "scalar": zeros(()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_orders_are_the_real_ones(layout: str) -> None:
    """Of all results, in the order in which an operator on a CPU writes them."""
    source = LAYOUTS[layout]
    calls: list[tuple[Any, ...]] = [(aten.relu.default, source), (aten.sum.default, source)]
    if source.dim() == 0:
        calls.append((aten.sum.dim_IntList, source, [0]))
    calls.append((aten.mul.Tensor, source, 2))
    if layout not in ("overlapping", "empty") and source.dim() > 1:
        one = torch.ones(source.shape[1])
        calls.append((aten.native_batch_norm.default, source, one, one, one, one, True, 0.1, 1e-5))
    if source.dim() == 4 and not {0, 1} & {*source.shape}:
        calls.append((aten.max_pool2d_with_indices.default, source, [2, 2]))
    for func, *args in calls:
        assert forms(faked(func, args)) == forms(func(*args)), func


ASK = """
import sys
from functools import partial
from experiments.__main__ import main
from experiments.theory.operators import Input, capture
from experiments.networks.catalogue import network
words = "theory study:ResNet-50 --image 64 --train --optimizer adamw --fits 1GB"
assert main(words.split()) == 0
assert not [name for name in ("torch._dynamo", "sympy", "pandas") if name in sys.modules]
first, second = (capture(partial(network, "LeNet-5"), [Input((4, 1, 32, 32))]) for _ in range(2))
assert "torch._dynamo" in sys.modules and first == second
"""


def test_a_network_of_convolutions_needs_no_compiler_and_its_import_holds_no_tensor() -> None:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
