"""A recorded network on other images, or more of them: the same layers, the shapes that follow."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from report.records.layers import Layer, Linear, Pooling
from report.theory.dataflow import NETWORK_INPUT, sources
from report.theory.shapes import check, output_shape


def with_batch(layer: Layer, batch: int) -> Layer:
    """A layer as it is with ``batch`` images."""
    return msgspec.structs.replace(
        layer,
        input_shape=(batch, *layer.input_shape[1:]),
        output_shape=(batch, *layer.output_shape[1:]),
    )


def at_image(layers: Sequence[Layer], side: int) -> tuple[Layer, ...]:
    """The layers on square images of ``side`` pixels, as fully convolutional networks take them.

    Average pooling over a whole map stays that, so that linear layers see the features that they
    were made for.  Raises ``StudyError`` where names do not tell which layer reads which, or where
    the shapes do not fit.
    """
    read = sources(layers)
    made: list[Layer] = []
    for number, layer in enumerate(layers):
        source = read[number][0]
        shape = (
            (*layer.input_shape[:2], side, side)
            if source == NETWORK_INPUT
            else made[source].output_shape
        )
        made.append(_reading(layer, shape))
    for layer in made:
        check(layer)
    return tuple(made)


def _reading(layer: Layer, shape: tuple[int, ...]) -> Layer:
    """The layer on an input of another shape, with the output that follows from its geometry."""
    if isinstance(layer, Linear):
        # Its features are fixed by its weights; a check finds a map that does not fit.
        return layer
    changed = msgspec.structs.replace(layer, input_shape=shape)
    if isinstance(layer, Pooling) and _whole(layer):
        window = (shape[2], shape[3])
        changed = msgspec.structs.replace(changed, kernel=window, stride=window)
    return msgspec.structs.replace(changed, output_shape=output_shape(changed))


def _whole(layer: Pooling) -> bool:
    return layer.mode == "average" and layer.kernel == layer.input_shape[2:]
