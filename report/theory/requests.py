"""Requests to an allocator of CUDA memory in inference through a chain of layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from report.core.errors import StudyError
from report.core.records.layers import Dropout, Flatten, Layer
from report.theory.allocator import NOTHING, Allocate, Free, Snapshot, after
from report.theory.work import bias_count, element_bytes, input_bytes, output_bytes, weight_count


def requests(layers: Sequence[Layer]) -> Iterator[Allocate | Free]:
    """Yield the requests of inference through a chain of ``layers`` in a new, eager process.

    First weights and biases in the order in which ``Module.to`` moves them, without statistics of
    batch normalisation, which are not parameters.  Then each output is allocated while its input is
    still there, and the input is freed afterwards, except that of the network, which the caller
    holds.  A flatten is a view and dropout does nothing in inference, so that neither allocates.
    Workspaces are not tensors and not among them.
    """
    for layer in layers:
        for part, count in (("weight", weight_count(layer)), ("bias", bias_count(layer))):
            if count:
                yield Allocate(f"{layer.name}.{part}", count * element_bytes(layer))
    held = None
    for layer in layers:
        if layer is layers[0]:
            yield Allocate("input", input_bytes(layer))
        if isinstance(layer, Flatten | Dropout):
            continue
        yield Allocate(layer.name, output_bytes(layer))
        if held:
            yield Free(held)
        held = layer.name


def around(layers: Sequence[Layer], name: str) -> tuple[Snapshot, Snapshot]:
    """The allocator's states right before and after it gives the output of the layer ``name``.

    Raises ``StudyError`` if no layer of that name allocates one.
    """
    state = NOTHING
    for request in requests(layers):
        following = after(state, request)
        if isinstance(request, Allocate) and request.id == name:
            return state, following
        state = following
    raise StudyError(f"layer {name}: no layer of that name allocates its output.")
