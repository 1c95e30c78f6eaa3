"""A network's theory, refused where torch's own counter of FLOPs says something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from experiments.theory.operators import DEFAULT, Build, Captured, Input, Policy, capture
from report.errors import MeasurementError
from report.records.operations import Operator
from report.theory.allocator import Options
from report.theory.conditions import Conditions, vector_block
from report.theory.network import Theory
from report.theory.networks import scales
from report.theory.roofline import Roof


def checked(
    build: Build,
    inputs: Sequence[Input],
    batch: int | None = None,
    probe: int | None = None,
    *,
    train: bool = False,
    allocator: Options | None = None,
    roof: Roof | None = None,
    policy: Policy = DEFAULT,
) -> Theory:
    """The theory of a network; on a GPU whose ``allocator`` has these options, or on this machine.

    The inputs are those of another ``batch`` where one is given.  With a ``roof`` it tells the
    least time too.  At the batch ``probe`` the forward pass is tried, to see whether its operators
    are these, scaled.

    Raises ``MeasurementError`` with the operator that is in doubt.
    """
    again = partial(
        checked, build, inputs, train=train, allocator=allocator, roof=roof, policy=policy
    )
    captured = capture(
        build, at_batch(inputs, batch), train=train, gpu=allocator is not None, policy=policy,
        probe=() if probe is None else at_batch(inputs, probe),
    )  # fmt: skip
    like = probe is None or scales(captured.network, captured.probe, probe)
    return replace(of_capture(captured, allocator), roof=roof, captured=again, scales=like)


def at_batch(inputs: Sequence[Input], batch: int | None) -> Sequence[Input]:
    """The inputs at another batch: the axes that grow, where they are as large as the first one."""
    if batch is None:
        return inputs
    extents = (each.shape[axis] for each in inputs for axis in each.grows if each.shape)
    own = next(extents, None)

    def extent(each: Input, axis: int) -> int:
        return batch if axis in each.grows and each.shape[axis] == own else each.shape[axis]

    return [
        replace(each, shape=tuple(extent(each, axis) for axis in range(len(each.shape))))
        for each in inputs
    ]


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
    theory = Theory(
        captured.network,
        conditions,
        captured.history,
        captured.other_on_gpu,
        compiled=captured.compiled,
        classes=captured.classes,
    )
    _refuse_complex(theory)
    for number, flops in captured.flops.items():
        operator, found = captured.network.operators[number], theory.loads[number]
        if found is not None and found.flops not in _counted(operator, flops):
            raise MeasurementError(
                f"Operator {operator.name} of {operator.module or 'the network'}: theory has "
                f"{found.flops:,} FLOPs and torch's counter {flops:,}; one of them is wrong, so "
                "that nothing is printed."
            )
    return theory


def _refuse_complex(theory: Theory) -> None:
    """Raise ``MeasurementError`` for products of complex numbers, which nobody counts alike.

    PyTorch computes a complex convolution as three real ones, and a complex product as one.
    """
    numbers: set[int] = set()
    for operator, load in zip(theory.network.operators, theory.loads, strict=True):
        numbers |= {t.storage for t in operator.read if t.dtype.startswith("complex")}
        storages = {tensor.storage for tensor in operator.read}
        if load and load.multiply_adds and numbers & storages:
            raise MeasurementError(
                f"Operator {operator.name} of {operator.module or 'the network'} multiplies "
                "complex numbers: PyTorch does so by one, three or four real products, so that "
                "there is no one count; give the network in real numbers."
            )


def _counted(operator: Operator, flops: int) -> tuple[int, ...]:
    """What torch's counter may mean.

    Of a grouped convolution it takes the gradient of the weight for that of one without groups
    (torch 2.13, ``conv_backward_flop``), until that is fixed (pytorch#183405).
    """
    groups = operator.settings.get("groups", 1)
    if operator.base != "convolution_backward" or not isinstance(groups, int) or groups == 1:
        return (flops,)
    mask = operator.settings["output_mask"]
    assert isinstance(mask, tuple)
    parts = (1 if mask[0] else 0) + (groups if mask[1] else 0)
    return flops, flops * sum(map(bool, mask[:2])) // parts if parts else flops
