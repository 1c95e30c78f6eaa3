"""Conditions besides shapes on which the memory of a call depends."""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from report.core.records.record import Environment
from report.theory.allocator import Options
from report.theory.reconciliation import Term

Layout: TypeAlias = Literal["contiguous", "channels_last"]


@dataclass(frozen=True)
class Conditions:
    """Conditions of a call.  On a GPU only ``allocator`` matters.

    - ``threads``: number of PyTorch's threads;
    - ``channels_per_block``: float32 channels in a vector, and so in each of oneDNN's blocks;
    - ``has_tiles``: whether the CPU multiplies bfloat16 matrices in tiles (AMX);
    - ``allocator``: options of the GPU's caching allocator, None on a CPU.
    """

    threads: int = 1
    channels_per_block: int = 16
    has_tiles: bool = False
    allocator: Options | None = None


class Workspace(NamedTuple):
    """Largest number of bytes that an operator allocates besides its results while it runs.

    A term is negative if a result is not yet allocated at that moment.  A workspace that is not
    ``complete`` is a lower bound.
    """

    terms: tuple[Term, ...] = ()
    complete: bool = True

    @property
    def amount(self) -> int:
        """Bytes of all terms."""
        return sum(term.amount for term in self.terms)


NO_WORKSPACE: Final = Workspace()
#: Workspace of an operator for which no formula is known: at least 0 B.
UNKNOWN_WORKSPACE: Final = Workspace(complete=False)


def vector_channels(cpu_capability: str) -> int:
    """Return the float32 channels in a vector, for PyTorch's name of the instruction set."""
    return 16 if "AVX512" in cpu_capability else 8


def conditions_of(environment: Environment) -> Conditions:
    """Return the conditions under which PyTorch ran on the CPU of a record."""
    host = environment.host.flags if environment.host else ()
    return Conditions(
        threads=environment.threads,
        channels_per_block=vector_channels(environment.torch.cpu_capability),
        has_tiles="amx_bf16" in (*environment.cpu.vector_extensions, *host),
    )
