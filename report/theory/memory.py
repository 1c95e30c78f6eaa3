"""The bytes of a layer's tensors, the traffic no implementation can avoid, and intensity.

Every size is in bytes, computed from shapes and element types; what an allocator rounds up or an
algorithm takes as workspace is measured, never assumed here.
"""

from __future__ import annotations

from report.records.layers import (
    ELEMENT_BYTES,
    Activation,
    Addition,
    BatchNorm,
    Dropout,
    Flatten,
    Layer,
    PaddedShortcut,
    Pooling,
    Softmax,
)
from report.theory.shapes import elements, parameter_count, weight_count
from report.theory.work import Pass


def element_bytes(layer: Layer) -> int:
    """Bytes of one element of the layer's tensors."""
    return ELEMENT_BYTES[layer.dtype]


def input_bytes(layer: Layer) -> int:
    """Bytes of one input tensor (an addition reads two of them)."""
    return elements(layer.input_shape) * element_bytes(layer)


def output_bytes(layer: Layer) -> int:
    """Bytes of the output tensor."""
    return elements(layer.output_shape) * element_bytes(layer)


def parameter_bytes(layer: Layer) -> int:
    """Bytes of weights and biases, independent of the batch size."""
    return parameter_count(layer) * element_bytes(layer)


def compulsory_traffic(layer: Layer, pass_: Pass = "forward") -> int:
    """Bytes that a pass must read and write if every tensor crosses the memory bus exactly once.

    This is the traffic of compulsory cache misses (Hill and Smith 1989), a lower bound for a layer
    that runs alone; layers that are fused can do with less.  Dropout is taken as in training.

    - Forward: parameters and input (for an addition, both) read, output written; a flatten is a
      view and moves nothing, and of a padded shortcut only what is kept of the input is read.
    - Weight gradient: input and output gradient read, parameter gradient written; 0 without
      parameters.
    - Input gradient: output gradient, weights, and what the forward pass kept are read, the input
      gradient is written.  Batch norm, activations and maximum pooling keep their input, softmax
      its output, dropout a mask of one byte an element.  The gradient of an addition is the output
      gradient itself and moves nothing.
    """
    if isinstance(layer, Flatten):
        return 0
    parameters, inputs, outputs = (of(layer) for of in (parameter_bytes, input_bytes, output_bytes))
    if pass_ == "forward":
        return parameters + _read_bytes(layer) + outputs
    if pass_ == "weight_gradient":
        return parameters + inputs + outputs if parameters else 0
    if isinstance(layer, Addition):
        return 0
    if isinstance(layer, PaddedShortcut):
        return _read_bytes(layer) + inputs
    weights = weight_count(layer) * element_bytes(layer)
    return outputs + weights + _kept_bytes(layer) + inputs


def _read_bytes(layer: Layer) -> int:
    """Bytes of inputs that a forward pass uses: both of an addition, what a shortcut keeps."""
    match layer:
        case Addition():
            return 2 * input_bytes(layer)
        case PaddedShortcut():
            kept = (*layer.input_shape[:2], *layer.output_shape[2:])
            return elements(kept) * element_bytes(layer)
        case _:
            return input_bytes(layer)


def _kept_bytes(layer: Layer) -> int:
    match layer:
        case BatchNorm() | Activation():
            return input_bytes(layer)
        case Pooling() if layer.mode == "max":
            return input_bytes(layer)
        case Softmax():
            return output_bytes(layer)
        case Dropout():
            return elements(layer.input_shape)
        case _:
            return 0
