"""Capture a network's operators, and compute its theory, checked by torch's own FLOP counter.

A theory is the work, traffic, memory and least time that follow from the captured operators.  If
torch's counter disagrees, an error is raised.  Importing this module imports no torch.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from experiments.theory.captures import (
    DEFAULT_POLICY,
    Build,
    Capture,
    CapturePolicy,
    Input,
    inputs_at_batch,
)
from report.core.errors import MeasurementError
from report.core.records.operations import Operator
from report.theory.allocator import Options
from report.theory.network import Theory
from report.theory.networks import scales_to
from report.theory.roofline import Roof


def capture_theory(
    build: Build,
    inputs: Sequence[Input],
    batch: int | None = None,
    probe: int | None = None,
    *,
    train: bool = False,
    allocator: Options | None = None,
    roof: Roof | None = None,
    policy: CapturePolicy = DEFAULT_POLICY,
) -> Theory:
    """Capture a network and return its theory on this CPU, or on a GPU with ``allocator`` options.

    ``batch`` replaces the batch size of the inputs.  With a ``roof`` (peak rates of a device) the
    theory includes the least time.  If ``probe`` is a batch size, a forward pass at this size shows
    whether the operators scale with the batch.

    Raises ``MeasurementError`` for a network that cannot be captured, or whose work is in doubt.
    """
    from experiments.theory.operators import capture

    options: Any = {"train": train, "allocator": allocator, "policy": policy}
    probe_inputs = () if probe is None else inputs_at_batch(inputs, probe)
    captured = capture(build, inputs_at_batch(inputs, batch), probe=probe_inputs, **options)
    theory = agreed_theory(captured)
    is_scalable = probe is None or scales_to(theory.network, captured.probe, probe)
    capture_again = partial(capture_theory, build, inputs, roof=roof, **options)
    return replace(theory, roof=roof, captured=capture_again, scales=is_scalable)


def agreed_theory(captured: Capture) -> Theory:
    """Return the theory of a capture, checked by torch's own FLOP counter.

    Raises ``MeasurementError`` for the first operator whose FLOPs differ from torch's count, and
    for products of complex numbers.
    """
    theory = captured.theory
    _refuse_complex(theory)
    for number, flops in captured.flops.items():
        operator, work = theory.network.operators[number], theory.work[number]
        if work is not None and work.flops not in _possible_flops(operator, flops):
            counts = f"theory counts {work.flops:,} FLOPs and torch's counter {flops:,}"
            place = f"Operator {operator.name} of {operator.module or 'the network'}"
            raise MeasurementError(f"{place}: {counts}; one is wrong, so nothing is printed.")
    return theory


def _refuse_complex(theory: Theory) -> None:
    """Raise ``MeasurementError`` for products of complex numbers, whose FLOPs are not defined.

    PyTorch computes a complex convolution as three real convolutions, but a complex matrix product
    as one operation.
    """
    complex_storages: set[int] = set()
    for operator, work in zip(theory.network.operators, theory.work, strict=True):
        storages = set()
        for tensor in operator.read_tensors:
            storages.add(tensor.storage)
            if tensor.dtype.startswith("complex"):
                complex_storages.add(tensor.storage)
        if work and work.multiply_adds and complex_storages & storages:
            raise MeasurementError(
                f"Operator {operator.name} of {operator.module or 'the network'} multiplies "
                "complex numbers: PyTorch does so by one, three or four real products, so that "
                "there is no one count; give the network in real numbers."
            )


def _possible_flops(operator: Operator, flops: int) -> tuple[int, ...]:
    """Return the FLOPs that an operator may have if torch's counter returns ``flops``.

    Until pytorch#183405 is fixed, the counter (``conv_backward_flop`` of torch 2.13) ignores the
    groups of a convolution in the weight gradient.  It then counts the FLOPs ``groups`` times.
    """
    groups = operator.settings.get("groups", 1)
    if operator.base_name != "convolution_backward" or not isinstance(groups, int) or groups == 1:
        return (flops,)
    mask = operator.settings["output_mask"]
    assert isinstance(mask, tuple)
    has_input_gradient, has_weight_gradient = map(bool, mask[:2])
    # Counted and true FLOPs of both gradients, as multiples of the true FLOPs of one gradient.
    counted = has_input_gradient + has_weight_gradient * groups
    true = has_input_gradient + has_weight_gradient
    return flops, flops * true // counted if counted else flops
