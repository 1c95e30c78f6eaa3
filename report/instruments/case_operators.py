"""Operators of a case whose module has no description by layers, in a file beside the record.

The file holds the operators of one call, captured on tensors without memory, or the reason why
there are none: each distinct operator with its shapes once, the number of its calls, and the order
of all calls with their storages.  Theory follows from them as for any network
(``report.theory.network``).
"""

import gzip
from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from report.core.errors import RecordError
from report.core.records.files import unpacked
from report.core.records.operations import Network, Operator, Tensor
from report.core.records.record import Environment, Level
from report.core.records.strict import parse_json
from report.theory.conditions import conditions_of
from report.theory.network import Theory

#: Names of the files.
PATTERN: Final = "operators-*.json.gz"
MEANING: Final = "operators of one call, captured on tensors without memory"
#: Reason of functions that have no theory, such as NumPy's.
NO_TENSORS: Final = "theory needs a function of PyTorch's tensors"
_REMEDY: Final = "restore the file with git, or measure again"


class CaseOperators(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Operators of a case, or the ``reason`` why they could not be captured.

    ``torch`` is the version of PyTorch that captured them.
    """

    factors: dict[str, Level]
    torch: str
    network: Network | None = None
    reason: str | None = None

    def theory(self, environment: Environment) -> Theory | None:
        """Return the theory of the call on the machine of a record; None without operators."""
        return Theory(self.network, conditions_of(environment)) if self.network else None


class _Distinct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operator without module and storages, and the number of its calls."""

    calls: int
    operator: Operator


class _Call(msgspec.Struct, frozen=True, array_like=True):
    """One call: number of its operator, module, and storages read, written, allocated and freed."""

    operator: int
    module: str
    storages: tuple[int, ...]
    allocated: tuple[int, ...]
    freed: tuple[int, ...]


class _OperatorFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    case: CaseOperators
    operators: tuple[_Distinct, ...] = ()
    order: tuple[_Call, ...] = ()


def file_name(case: int) -> str:
    """Name the file of the case with this number."""
    return PATTERN.replace("*", str(case))


def pack(case: CaseOperators) -> bytes:
    """Encode the operators of a case, with the arguments of each in their order."""
    distinct: dict[bytes, Operator] = {}
    numbers: dict[bytes, int] = {}
    order = []
    for operator in case.network.operators if case.network else ():
        storages = tuple(t.storage for t in (*operator.read, *operator.writes))
        plain = _with_storages(operator, (0 for _ in storages))
        key = msgspec.json.encode(plain)
        distinct.setdefault(key, plain)
        number = numbers.setdefault(key, len(numbers))
        order.append(_Call(number, operator.module, storages, operator.allocated, operator.freed))
    calls = Counter(call.operator for call in order)
    bare = msgspec.structs.replace(case.network, operators=()) if case.network else None
    file = _OperatorFile(
        case=msgspec.structs.replace(case, network=bare),
        operators=tuple(_Distinct(calls[n], plain) for n, plain in enumerate(distinct.values())),
        order=tuple(order),
    )
    return gzip.compress(msgspec.json.encode(file), mtime=0)


def unpack(content: bytes, place: str) -> CaseOperators:
    """Decode a file of ``pack``; raises ``RecordError`` if it is damaged."""
    file = parse_json(unpacked(content, place, _REMEDY), _OperatorFile, place, _REMEDY)
    if file.case.network is None:
        return file.case
    try:
        operators = tuple(_called(file.operators[call.operator], call) for call in file.order)
    except (IndexError, RuntimeError) as error:
        raise RecordError(f"{place}: a call names no operator of the file; {_REMEDY}.") from error
    network = msgspec.structs.replace(file.case.network, operators=operators)
    return msgspec.structs.replace(file.case, network=network)


def _called(distinct: _Distinct, call: _Call) -> Operator:
    operator = _with_storages(distinct.operator, call.storages)
    return msgspec.structs.replace(
        operator, module=call.module, allocated=call.allocated, freed=call.freed
    )


def _with_storages(operator: Operator, storages: Iterable[int]) -> Operator:
    """Give all tensors of an operator new storages, and the operator no module."""
    numbers = iter(storages)

    def renumbered(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return tuple(msgspec.structs.replace(t, storage=next(numbers)) for t in tensors)

    reads = {name: renumbered(group) for name, group in operator.reads.items()}
    writes = renumbered(operator.writes)
    return msgspec.structs.replace(
        operator, module="", reads=reads, writes=writes, allocated=(), freed=()
    )
