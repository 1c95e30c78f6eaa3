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

    The batch is the first extent, or that which ``"N"`` stands for, here one.

    ``build`` makes the module; it is called where parameters take no memory.  The options are those
    of the command: ``train`` asks for a whole training step, ``device`` for the memory on a GPU
    (``cuda``) whose ``allocator`` has these options (those of the environment unless given), and
    ``device_peaks`` for the least time on a device of ``data/devices.yaml`` or on the roofs that a
    record measured.  The ``policy`` is how a step is made: ``optimizer``, ``update``,
    ``accumulate``, ``checkpoint`` (names of modules) and ``autocast``.

    Raises ``MeasurementError`` for a network that cannot be captured, ``UsageError`` for an option
    that is not possible, ``StudyError`` for one of the allocator that is not modelled.
    """
    from experiments.theory.captures import CapturePolicy, capture_theory
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
