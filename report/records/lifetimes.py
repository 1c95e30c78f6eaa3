"""When a network makes and frees its storages, without what its operators compute."""

from __future__ import annotations

import msgspec

from report.records.operations import Network, Operator, Phase, Tensor


class Lifetimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a training step makes and frees its storages, without what its operators compute.

    ``storages`` are sizes (B) by number; ``parameters``, ``buffers``, ``inputs`` and ``state`` are
    those that are there before it; each operator has its phase, what it makes and what was freed
    before it.
    """

    storages: tuple[int, ...]
    parameters: tuple[int, ...]
    buffers: tuple[int, ...]
    inputs: tuple[int, ...]
    state: tuple[int, ...]
    operators: tuple[tuple[Phase, tuple[int, ...], tuple[int, ...]], ...]

    @classmethod
    def of(cls, network: Network) -> Lifetimes:
        """Those of captured operators."""
        return cls(
            network.storages,
            tuple(tensor.storage for tensor in network.parameters.values()),
            tuple(tensor.storage for tensor in network.buffers.values()),
            tuple(tensor.storage for tensor in network.inputs),
            tuple(tensor.storage for tensor in network.state),
            tuple((each.phase, each.made, each.freed) for each in network.operators),
        )

    @property
    def network(self) -> Network:
        """A network of nameless operators with these lifetimes."""
        return Network(
            storages=self.storages,
            parameters={f"{storage}": _tensor(storage) for storage in self.parameters},
            buffers={f"{storage}": _tensor(storage) for storage in self.buffers},
            inputs=tuple(map(_tensor, self.inputs)),
            state=tuple(map(_tensor, self.state)),
            operators=tuple(
                Operator(
                    name="", module="", phase=phase, reads={}, settings={}, writes=(),
                    made=made, freed=freed,
                )
                for phase, made, freed in self.operators
            ),
        )  # fmt: skip


def _tensor(storage: int) -> Tensor:
    return Tensor(storage, (), (), "float32")
