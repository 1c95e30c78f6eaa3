"""A network's theory, refused where torch's own counter of FLOPs says something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from experiments.theory.captures import (
    DEFAULT,
    Build,
    Capture,
    CaptureAt,
    CapturePolicy,
    Input,
    at_batch,
)
from report.core.errors import MeasurementError
from report.core.records.operations import Operator
from report.theory.allocator import Options
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
    policy: CapturePolicy = DEFAULT,
) -> Theory:
    """Capture a network and return its theory, as ``theory_at`` does."""
    capture_at = capturing(build, inputs, train=train, gpu=allocator is not None, policy=policy)
    return theory_at(capture_at, allocator, roof, batch, probe)


def capturing(
    build: Build, inputs: Sequence[Input], *, train: bool, gpu: bool, policy: CapturePolicy
) -> CaptureAt:
    """Return a function that captures a network at a batch, and tries it at a second one."""

    def capture_at(batch: int | None, probe: int | None) -> Capture:
        from experiments.theory.operators import capture

        trial = () if probe is None else at_batch(inputs, probe)
        whole = at_batch(inputs, batch)
        return capture(build, whole, train=train, gpu=gpu, policy=policy, probe=trial)

    return capture_at


def theory_at(
    capture_at: CaptureAt,
    allocator: Options | None,
    roof: Roof | None,
    batch: int | None = None,
    probe: int | None = None,
) -> Theory:
    """Return the theory of a network on this machine, or on a GPU with these allocator options.

    ``batch`` replaces the batch of the inputs.  With a ``roof`` the theory has the least time too.
    The forward pass at the batch ``probe`` decides whether the operators grow with the batch.

    Raises ``MeasurementError`` with the operator that is in doubt.
    """
    captured = capture_at(batch, probe)
    grows = probe is None or scales(captured.network, captured.probe, probe)
    again = partial(theory_at, capture_at, allocator, roof)
    return replace(of_capture(captured, allocator), roof=roof, captured=again, scales=grows)


def of_capture(captured: Capture, allocator: Options | None = None) -> Theory:
    """Return the theory of a capture, as PyTorch would run it on this machine or on a GPU.

    Raises ``MeasurementError`` for the first operator whose work torch counts otherwise.
    """
    theory = Theory(
        captured.network,
        replace(captured.conditions, allocator=allocator),
        captured.history,
        captured.other_on_gpu,
        compiled=captured.compiled,
        classes=captured.classes,
    )
    _refuse_complex(theory)
    for number, flops in captured.flops.items():
        operator, work = captured.network.operators[number], theory.work[number]
        if work is not None and work.flops not in _counted(operator, flops):
            raise MeasurementError(
                f"Operator {operator.name} of {operator.module or 'the network'}: theory has "
                f"{work.flops:,} FLOPs and torch's counter {flops:,}; one of them is wrong, so "
                "that nothing is printed."
            )
    return theory


def _refuse_complex(theory: Theory) -> None:
    """Raise ``MeasurementError`` for products of complex numbers, which have no agreed count.

    PyTorch computes a complex convolution as three real ones, and a complex product as one.
    """
    numbers: set[int] = set()
    for operator, work in zip(theory.network.operators, theory.work, strict=True):
        numbers |= {t.storage for t in operator.read if t.dtype.startswith("complex")}
        storages = {tensor.storage for tensor in operator.read}
        if work and work.multiply_adds and numbers & storages:
            raise MeasurementError(
                f"Operator {operator.name} of {operator.module or 'the network'} multiplies "
                "complex numbers: PyTorch does so by one, three or four real products, so that "
                "there is no one count; give the network in real numbers."
            )


def _counted(operator: Operator, flops: int) -> tuple[int, ...]:
    """Return the FLOPs that torch's counter may mean.

    The counter takes the weight gradient of a grouped convolution for one without groups
    (torch 2.13, ``conv_backward_flop``), until that is fixed (pytorch#183405).
    """
    groups = operator.settings.get("groups", 1)
    if operator.base != "convolution_backward" or not isinstance(groups, int) or groups == 1:
        return (flops,)
    mask = operator.settings["output_mask"]
    assert isinstance(mask, tuple)
    parts = (1 if mask[0] else 0) + (groups if mask[1] else 0)
    return flops, flops * sum(map(bool, mask[:2])) // parts if parts else flops
