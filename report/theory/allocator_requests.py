"""The requests of CUDA memory that layers of a record, or captured operators, make; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from report.errors import StudyError
from report.records.layers import Dropout, Flatten, Layer
from report.theory.allocator import Allocate, Free, Snapshot, after, replay
from report.theory.memory import element_bytes, input_bytes, output_bytes
from report.theory.shapes import bias_count, weight_count


def parameter_requests(layers: Iterable[Layer]) -> tuple[Allocate, ...]:
    """Weights and biases in the order in which ``Module.to`` moves them.

    Statistics of batch normalisation, which are not parameters, are left out.
    """
    return tuple(
        Allocate(f"{layer.name}.{part}", count * element_bytes(layer))
        for layer in layers
        for part, count in (("weight", weight_count(layer)), ("bias", bias_count(layer)))
        if count
    )


def activation_requests(layers: Sequence[Layer]) -> tuple[Allocate | Free, ...]:
    """The tensors of a forward pass in inference through a chain of ``layers``, eager PyTorch.

    Each output is allocated while its input is still there, and the input is freed afterwards,
    except that of the network, which the caller holds.  A flatten is a view and dropout does
    nothing in inference, so that neither allocates.  Workspaces are not tensors and not among them.
    """
    requests: list[Allocate | Free] = [Allocate("input", input_bytes(layers[0]))] if layers else []
    held = None
    for layer in layers:
        if isinstance(layer, Flatten | Dropout):
            continue
        requests.append(Allocate(layer.name, output_bytes(layer)))
        requests += [Free(held)] if held else []
        held = layer.name
    return tuple(requests)


def around(layers: Sequence[Layer], name: str) -> tuple[Snapshot, Snapshot]:
    """The allocator's states right before and after it gives the output of the layer ``name``.

    Raises ``StudyError`` if no layer of that name allocates one.
    """
    state = replay(parameter_requests(layers))[-1]
    for request in activation_requests(layers):
        following = after(state, request)
        if isinstance(request, Allocate) and request.id == name:
            return state, following
        state = following
    raise StudyError(f"layer {name}: no layer of that name allocates its output.")
