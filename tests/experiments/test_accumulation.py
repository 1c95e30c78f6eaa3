"""Sums of gradients in a capture: in place, as the engine makes them of real tensors."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from torch import nn

from experiments.harness import memory
from experiments.harness.operator_recorder import in_place
from experiments.harness.operators import Input, capture
from experiments.harness.timing import Workload
from report.records.operations import Operator


class Branching(nn.Module):
    """Three branches read one tensor, whose gradient is the sum of theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64, bias=False)

    def forward(self, source: Any) -> Any:
        made = self.first(source)
        return made.sigmoid() + made.tanh() + made.relu()


def captured() -> tuple[Operator, ...]:
    return capture(Branching, [Input((512, 64))], train=True).network.operators


def test_the_second_gradient_is_added_to_the_first() -> None:
    sums = [o for o in captured() if o.phase == "backward" and o.name == "add.Tensor"]
    assert len(sums) == 2
    for operator in sums:
        assert operator.made == ()
        (result,) = operator.writes
        assert result.storage in {t.storage for found in operator.reads.values() for t in found}


def test_no_storage_is_let_go_that_still_is_read_and_each_once() -> None:
    gone: set[int] = set()
    for operator in captured():
        assert not gone & set(operator.freed)
        gone |= set(operator.freed)
        assert not gone & {t.storage for found in operator.reads.values() for t in found}


def test_a_real_backward_pass_allocates_what_the_capture_says() -> None:
    """The bytes of all tensors as large as the batch, forward and backward."""
    import torch

    size = 512 * 64 * 4

    def workload() -> Workload:
        module, source = Branching(), torch.randn(512, 64)
        labels = torch.zeros(512, dtype=torch.int64)

        def call() -> None:
            nn.functional.cross_entropy(module(source), labels).backward()
            module.zero_grad()

        return Workload(call, module.zero_grad)

    events = memory.profiled(workload).call
    operators = captured()
    sizes = capture(Branching, [Input((512, 64))], train=True).network.storages
    made = [sizes[storage] for operator in operators for storage in operator.made]
    assert sum(event == size for event in events) == made.count(size)


def test_no_operators_no_sums() -> None:
    assert in_place(()) == ((), {})
