"""How PyTorch ran, as far as it decides about memory and stands in no shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from report.core.records.record import Environment
from report.theory.allocator import Options
from report.theory.reconciliation import Term

Layout: TypeAlias = Literal["contiguous", "channels_last"]


@dataclass(frozen=True)
class Conditions:
    """The conditions of a call.

    ``block`` are the channels of a float32 vector, which oneDNN's blocks have (``vector_block``);
    ``threads`` those of PyTorch.  ``tiles`` says that the processor multiplies bfloat16 in tiles
    (AMX).  On a GPU only ``allocator`` decides, the options of its caching allocator.
    """

    threads: int = 1
    block: int = 16
    tiles: bool = False
    allocator: Options | None = None


class Workspace(NamedTuple):
    """What an operator takes beside its results at its largest moment (B).

    One of the terms is negative where a result is not allocated yet.  Where it is not ``complete``,
    it takes at least this.
    """

    terms: tuple[Term, ...] = ()
    complete: bool = True

    @property
    def amount(self) -> int:
        """The bytes of all terms."""
        return sum(term.amount for term in self.terms)


NOTHING = Workspace()
UNKNOWN = Workspace(complete=False)


def vector_block(cpu_capability: str) -> int:
    """Channels in a block by what a record's ``environment.torch.cpu_capability`` says."""
    return 16 if "AVX512" in cpu_capability else 8


def conditions_of(environment: Environment) -> Conditions:
    """How PyTorch ran on the processor of a record."""
    host = environment.host.flags if environment.host else ()
    return Conditions(
        threads=environment.threads,
        block=vector_block(environment.torch.cpu_capability),
        tiles="amx_bf16" in (*environment.cpu.vector_extensions, *host),
    )
