"""A study of modules that records do not describe by layers."""

from typing import Any

import msgspec

from experiments.harness.study import (
    QUICK,
    Experiment,
    Factor,
    Levels,
    Plan,
    Subject,
    all_combinations,
)
from report.core.records.record import Factors


def subject(factors: Factors) -> Subject:
    import torch
    from torch import nn

    class Doubling(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
            return 2 * values

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return 2 * gradients[0]

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 3))

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return Doubling.apply(values @ self.weight)  # type: ignore[no-any-return]

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.inner = nn.LayerNorm(8), nn.Linear(8, 16)
            self.query = nn.Linear(8, 24)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            query, key, value = self.query(self.norm(values)).chunk(3, dim=-1)
            seen = nn.functional.scaled_dot_product_attention(query, key, value)
            return nn.functional.gelu(self.inner(values + seen))

    modules = {
        "gru": (nn.GRU(4, 8, batch_first=True), (2, 5, 4)),
        "conv1d": (nn.Sequential(nn.Conv1d(3, 6, 3), nn.ReLU(), nn.Conv1d(6, 2, 1)), (2, 3, 10)),
        "block": (Block(), (2, 1, 5, 8)),
        "own": (Own(), (2, 4)),
    }
    module, shape = modules[str(factors["module"])]
    mode: Any = factors["pass"]
    return Subject(module.eval(), torch.randn(shape), mode=mode)


def cases(levels: Levels) -> tuple[Factors, ...]:
    """All but the GRU backward, whose result is no tensor."""
    every = all_combinations(levels)
    return tuple(case for case in every if case != {"module": "gru", "pass": "forward_backward"})


QUICKER = msgspec.structs.replace(QUICK, processes={"retained": 1}, case_budget_s=0.01)
STUDY = Experiment(
    subject=subject,
    factors=(
        Factor("module", levels=("gru", "conv1d", "block", "own")),
        Factor("pass", levels=("forward", "forward_backward")),
    ),
    cases=cases,
    name="any_module",
    question="Can any module be measured?",
    plan=Plan(quick=QUICKER, ceilings="none"),
)
