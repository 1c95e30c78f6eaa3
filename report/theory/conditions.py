"""Settings of PyTorch that decide about memory and are part of no shape."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from report.core.records.record import Environment
from report.theory.allocator import Options
from report.theory.reconciliation import Term

Layout: TypeAlias = Literal["contiguous", "channels_last"]


@dataclass(frozen=True)
class Conditions:
    """The conditions of a call.

    ``threads`` is the number of PyTorch's threads; ``block`` the number of float32 channels in a
    vector, and so in oneDNN's blocks (``vector_block``); ``tiles`` whether the processor multiplies
    bfloat16 in tiles (AMX).  On a GPU only ``allocator`` matters, the options of its caching
    allocator.
    """

    threads: int = 1
    block: int = 16
    tiles: bool = False
    allocator: Options | None = None


class Workspace(NamedTuple):
    """Most bytes that an operator allocates beside its results while it runs (B).

    A term is negative where a result is not allocated yet.  A workspace that is not ``complete`` is
    a lower bound.
    """

    terms: tuple[Term, ...] = ()
    complete: bool = True

    @property
    def amount(self) -> int:
        """Bytes of all terms."""
        return sum(term.amount for term in self.terms)


NOTHING = Workspace()
UNKNOWN = Workspace(complete=False)


def vector_block(cpu_capability: str) -> int:
    """Return the channels in a block for a record's ``environment.torch.cpu_capability``."""
    return 16 if "AVX512" in cpu_capability else 8


def conditions_of(environment: Environment) -> Conditions:
    """Return the conditions under which PyTorch ran on the processor of a record."""
    host = environment.host.flags if environment.host else ()
    return Conditions(
        threads=environment.threads,
        block=vector_block(environment.torch.cpu_capability),
        tiles="amx_bf16" in (*environment.cpu.vector_extensions, *host),
    )
