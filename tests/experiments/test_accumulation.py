"""Sums of gradients in a capture: in place, as the engine makes them of real tensors."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from torch import nn

from experiments.harness import memory
from experiments.harness.operators import Input, capture
from experiments.harness.timing import Workload


class Branching(nn.Module):
    """Three branches read one tensor, whose gradient is the sum of theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64, bias=False)

    def forward(self, source: Any) -> Any:
        made = self.first(source)
        return made.sigmoid() + made.tanh() + made.relu()


def test_gradients_of_one_tensor_are_added_in_place_as_a_real_backward_pass_does() -> None:
    import torch

    found = capture(Branching, [Input((512, 64))], train=True).network
    sums = [o for o in found.operators if o.phase == "backward" and o.name == "add.Tensor"]
    assert len(sums) == 2
    for operator in sums:
        (result,) = operator.writes
        assert operator.made == ()
        assert result.storage in {t.storage for read in operator.reads.values() for t in read}
    gone: set[int] = set()
    for operator in found.operators:
        assert not gone & set(operator.freed)
        gone |= set(operator.freed)
        assert not gone & {t.storage for read in operator.reads.values() for t in read}

    def workload() -> Workload:
        module, source = Branching(), torch.randn(512, 64)
        labels = torch.zeros(512, dtype=torch.int64)

        def call() -> None:
            nn.functional.cross_entropy(module(source), labels).backward()
            module.zero_grad()

        return Workload(call, module.zero_grad)

    # The bytes of all tensors as large as the batch, forward and backward.
    size, events = 512 * 64 * 4, memory.profiled(workload).call
    made = [found.storages[storage] for operator in found.operators for storage in operator.made]
    assert events.count(size) == made.count(size)
