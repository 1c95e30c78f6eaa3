"""A study of modules that records cannot describe as layers: a GRU, and a module of the user."""

from typing import Any

import msgspec

from experiments.harness import study
from experiments.harness.study import Experiment, Factor, Levels, Plan, Subject
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

    class CustomModule(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 3))

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return Doubling.apply(values @ self.weight)  # type: ignore[no-any-return]

    module: nn.Module = CustomModule()
    shape: tuple[int, ...] = (2, 4)
    if factors["module"] == "gru":
        module, shape = nn.GRU(4, 8, batch_first=True), (2, 5, 4)
    mode: Any = factors["pass"]
    return Subject(module.eval(), torch.randn(shape), mode=mode)


def cases(levels: Levels) -> tuple[Factors, ...]:
    """Return all cases except the backward pass of the GRU, because its result is a tuple."""
    pairs = study.all_combinations(levels)
    return tuple(case for case in pairs if case != {"module": "gru", "pass": "forward_backward"})


QUICKER = msgspec.structs.replace(study.QUICK, processes={"retained": 1}, case_budget_s=0.01)
STUDY = Experiment(
    subject=subject,
    factors=(
        Factor("module", levels=("gru", "own")),
        Factor("pass", levels=("forward", "forward_backward")),
    ),
    cases=cases,
    name="any_module",
    question="Can any module be measured?",
    plan=Plan(quick=QUICKER, ceilings="none"),
)
