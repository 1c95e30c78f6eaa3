"""Conditions besides shapes on which the memory of a call depends."""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from report.core.records.record import Environment
from report.theory.allocator import Options
from report.theory.reconciliation import Term

Layout: TypeAlias = Literal["contiguous", "channels_last"]


@dataclass(frozen=True)
class Conditions:
    """Conditions of a call.  On a GPU only ``allocator`` matters, which is None on a CPU.

    - ``threads``: PyTorch's threads;
    - ``block``: float32 channels in a vector, and so in oneDNN's blocks (``vector_block``);
    - ``tiles``: whether the CPU multiplies bfloat16 in tiles (AMX);
    - ``allocator``: options of the GPU's caching allocator.
    """

    threads: int = 1
    block: int = 16
    tiles: bool = False
    allocator: Options | None = None


class Workspace(NamedTuple):
    """Most bytes that an operator allocates while it runs, besides the results (B).

    A term is negative if a result is not allocated yet when most bytes are in use.  A workspace
    that is not ``complete`` is a lower bound.
    """

    terms: tuple[Term, ...] = ()
    complete: bool = True

    @property
    def amount(self) -> int:
        """Bytes of all terms."""
        return sum(term.amount for term in self.terms)


NO_WORKSPACE: Final = Workspace()
#: Workspace of an operator without a rule: at least 0 B.
UNKNOWN_WORKSPACE: Final = Workspace(complete=False)


def vector_block(cpu_capability: str) -> int:
    """Return the float32 channels in a vector, for PyTorch's name of the instruction set."""
    return 16 if "AVX512" in cpu_capability else 8


def conditions_of(environment: Environment) -> Conditions:
    """Return the conditions under which PyTorch ran on the CPU of a record."""
    host = environment.host.flags if environment.host else ()
    return Conditions(
        threads=environment.threads,
        block=vector_block(environment.torch.cpu_capability),
        tiles="amx_bf16" in (*environment.cpu.vector_extensions, *host),
    )
