"""A network's theory, refused where torch's own counter of FLOPs says something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import torch

from experiments.harness.operators import Build, Captured, Input, capture
from experiments.harness.study import Device
from report.errors import MeasurementError
from report.records.operations import Operator
from report.theory.allocator_options import Options
from report.theory.conditions import Conditions, vector_block
from report.theory.network import Theory
from report.theory.roofline import Roof

_GROUPED: Final = "convolution_backward"


def checked(
    build: Build,
    inputs: Sequence[Input],
    *,
    train: bool = False,
    allocator: Options | None = None,
    roof: Roof | None = None,
) -> Theory:
    """The theory of a network; on a GPU whose ``allocator`` has these options, or on this machine.

    With a ``roof`` it tells the least time too.

    Raises ``MeasurementError`` with the operator that is in doubt.
    """
    on_gpu = allocator is not None
    # Without CUDA, PyTorch cannot run backward on fake tensors of a GPU, nor take slices of them.
    device: Device = "cuda" if on_gpu and torch.cuda.is_available() else "cpu"
    captured = capture(build, inputs, train=train, device=device, history=on_gpu)
    return replace(of_capture(captured, allocator), roof=roof)


def of_capture(captured: Captured, allocator: Options | None = None) -> Theory:
    """The theory of what was captured, as PyTorch would run it on this machine or on a GPU.

    Raises ``MeasurementError`` for the first operator whose work torch counts otherwise.
    """
    capability = torch.backends.cpu.get_cpu_capability()
    conditions = Conditions(
        threads=torch.get_num_threads(),
        block=vector_block(capability),
        tiles=torch.cpu._is_amx_tile_supported(),
        allocator=allocator,
    )
    theory = Theory(captured.network, conditions, captured.history, captured.other_on_gpu)
    for number, flops in captured.flops.items():
        operator, found = captured.network.operators[number], theory.loads[number]
        counted = _corrected(operator, flops)
        if found is not None and found.flops != counted:
            raise MeasurementError(
                f"Operator {operator.name} of {operator.module or 'the network'}: theory has "
                f"{found.flops:,} FLOPs and torch's counter {counted:,}; one of them is wrong, so "
                "that nothing is printed."
            )
    return theory


def _corrected(operator: Operator, flops: int) -> int:
    """What torch's counter means.

    Of a grouped convolution it takes the gradient of the weight for that of one without groups
    (torch 2.13, ``conv_backward_flop``).
    """
    groups = operator.settings.get("groups", 1)
    if operator.base != _GROUPED or not isinstance(groups, int) or groups == 1:
        return flops
    mask = operator.settings["output_mask"]
    assert isinstance(mask, tuple)
    parts = (1 if mask[0] else 0) + (groups if mask[1] else 0)
    return flops * sum(map(bool, mask[:2])) // parts if parts else flops
