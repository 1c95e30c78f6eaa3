"""The theory of any network: ``python -m experiments theory``, or ``theory_of`` from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from report.theory.network import Theory


def theory_of(
    build: Callable[[], nn.Module],
    *shapes: tuple[int | str, ...],
    dtype: str = "float32",
    channels_last: bool = False,
    train: bool = False,
    device: str = "cpu",
    allocator: str | None = None,
    device_peaks: str | None = None,
    **policy: Any,
) -> Theory:
    """Return the theory of a network called on tensors of these ``shapes``.

    ``"N"`` in a shape stands for the batch, which is 1.  If no shape has an ``"N"``, the first
    extent of each shape is the batch.  ``build`` returns the module; it runs on PyTorch's meta
    device, without memory for parameters.  The other arguments are options of the command:
    ``train`` (a whole training step), ``device`` (``cuda`` for the memory on a GPU), ``allocator``
    (options of the GPU's allocator, by default from the environment) and ``device_peaks`` (a
    device, or a record's file, for the least time).  ``policy`` are the fields of
    ``CapturePolicy``.

    Raises ``MeasurementError`` for a network that cannot be captured, ``UsageError`` for an
    impossible option, and ``StudyError`` for an option of the allocator that is not modelled.
    """
    from experiments.theory.captures import CapturePolicy
    from experiments.theory.checked import capture_theory
    from experiments.theory.command import allocator_options, inputs_of_shapes
    from experiments.theory.networks import named_roof, with_layout

    return capture_theory(
        with_layout(build, dtype, channels_last),
        inputs_of_shapes(shapes, [dtype] * len(shapes), channels_last),
        train=train,
        allocator=allocator_options(device, allocator),
        roof=named_roof(device_peaks, dtype) if device_peaks else None,
        policy=CapturePolicy(**policy),
    )
