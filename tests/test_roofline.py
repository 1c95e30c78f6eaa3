"""The roofline: roofs, loads of a training step, and operator classes."""

from __future__ import annotations

import pytest

from report.theory.roofline import (
    Load,
    cached_step_load,
    load,
    step_load,
    total,
    update_load,
)
from report.theory.work import training_passes
from tests.networks import Chain

#: 2 rows of 5 features to 10 and an activation: 60 parameters, 20 results, in float32.
SMALL = Chain(2, 5).linear(10).act().layers
FORWARD = 4 * (10 + 60 + 20)


@pytest.mark.parametrize(
    ("found", "work", "moved"),
    [
        (load(SMALL[0]), 200, FORWARD),
        (load(SMALL[1]), 0, 4 * 40),
        (load(SMALL[0], ("forward", "weight_gradient")), 400, 2 * FORWARD),
        (update_load(SMALL), 0, 5 * 240),
        # Of the activation nothing is trained; its gradient reads what it kept and that of it.
        (step_load(SMALL), 400, 2 * FORWARD + 4 * 40 + 4 * 60 + 5 * 240),
        # Images, and parameters and momentum, each read and written.
        (cached_step_load(SMALL), 400, 4 * 10 + 4 * 240),
        (cached_step_load([]), 0, 0),
        (total([Load(1, 2), Load(3, 5)]), 4, 7),
    ],
)
def test_loads(found: Load, work: int, moved: int) -> None:
    assert (found.flops, found.bytes) == (work, moved)
    assert found.intensity == (work / moved if moved else 0)


def test_the_first_layer_with_parameters_needs_no_input_gradient() -> None:
    layers = Chain(2, 3, 8, 8).act().conv(4, 3, 1, 1).act().flatten().linear(2).layers
    gradients = [passes[-1] == "input_gradient" for passes in training_passes(layers)]
    assert gradients == [False, False, True, True, True]
    assert all(each[0] == "forward" for each in training_passes(layers))
