"""What a training step must hold, by category, from captured operators: float32, eager PyTorch.

Between steps parameters, running statistics, gradients, momentum and the batch are alive.  A step
drops the gradients first; its forward pass then keeps what the backward pass will read.  Workspaces
and copies in other layouts belong to the algorithms and are not theory: they are the residual.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from report.theory.networks import Captured
from report.theory.timeline import living

_LABEL_BYTES: Final = 8
#: A dropout keeps its mask in float32 on a CPU (``bernoulli_``) and in bytes on a GPU.
_MASK: Final = "bernoulli_"
_ON_GPU: Final = 4


@dataclass(frozen=True)
class Categories:
    """Bytes by category; ``kept`` is what a forward pass keeps for the backward pass."""

    parameters: int
    statistics: int
    gradients: int
    momentum: int
    batch: int
    kept: int

    @property
    def between_steps(self) -> int:
        """What is alive before a step that is not the first."""
        return self.parameters + self.statistics + self.gradients + self.momentum + self.batch

    @property
    def before_backward(self) -> int:
        """What is alive when the forward pass has ended: all but the gradients, and what is kept.

        With the activations this is what no step in eager mode can do without.
        """
        return self.between_steps - self.gradients + self.kept


@lru_cache(maxsize=512)
def categories(captured: Captured, batch: int, *, on_host: bool = True) -> Categories:
    """The categories of a step of SGD with momentum.

    ``on_host`` says that the step runs on a CPU.
    """
    network, sizes = captured.network, captured.sizes(batch)
    *_, alive = living(network, sizes)
    drops = (each for each in network.operators if each.base == _MASK)
    masks = 0 if on_host else sum(sizes[each.writes[0].storage] for each in drops)
    labels = _LABEL_BYTES * batch
    return Categories(
        parameters=alive["parameters"],
        statistics=alive["buffers"],
        gradients=alive["parameters"],
        momentum=alive["parameters"],
        batch=alive["inputs"] + labels,
        kept=alive["activations"] - labels - masks + masks // _ON_GPU,
    )
