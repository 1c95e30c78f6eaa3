"""The file beside a record with the operators of a case, for a case whose record lists no layers.

The operators of one call are captured on tensors that have shapes but no memory.  The file contains
each distinct operator once, with shapes and number of calls, then all calls in order with their
storages.  If no operators were captured, the file contains the reason.  ``report.theory.network``
computes theory from operators.
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

#: Pattern of the files' names.
FILE_PATTERN: Final = "operators-*.json.gz"
#: Description of the file in the record.
FILE_MEANING: Final = "operators of one call, captured on tensors without memory"
#: Reason why functions of other packages, such as NumPy, have no theory.
NO_TENSORS: Final = "theory needs a function of PyTorch's tensors"
_REMEDY: Final = "restore the file with git, or measure again"


class CaseOperators(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Operators of a case's call, or a ``reason`` why there are none; ``torch``: its version."""

    factors: dict[str, Level]
    torch: str
    network: Network | None = None
    reason: str | None = None

    def theory(self, environment: Environment) -> Theory | None:
        """Return the theory of the call on a machine, or None if no operators were captured."""
        if self.network is None:
            return None
        return Theory(self.network, conditions_of(environment))


class _DistinctOperator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operator without module and storages, and the number of its calls."""

    calls: int
    operator: Operator


class _Call(msgspec.Struct, frozen=True, array_like=True):
    """A call: index of the operator, calling module, and numbers of storages.

    ``storages``: storage of each tensor read, then of each tensor written.  ``allocated``,
    ``freed``: storages that the call allocates, and that are freed before the call.
    """

    operator: int
    module: str
    storages: tuple[int, ...]
    allocated: tuple[int, ...]
    freed: tuple[int, ...]


class _OperatorFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file; ``order`` contains the calls in order."""

    case: CaseOperators
    operators: tuple[_DistinctOperator, ...] = ()
    order: tuple[_Call, ...] = ()


def file_name(case: int) -> str:
    """Return the name of the file for the case with this index."""
    return FILE_PATTERN.replace("*", str(case))


def pack(case: CaseOperators) -> bytes:
    """Encode the operators of a case as gzipped JSON; arguments of operators stay in order."""
    if case.network is None:
        return gzip.compress(msgspec.json.encode(_OperatorFile(case)), mtime=0)
    distinct: list[Operator] = []
    indices: dict[bytes, int] = {}
    calls: list[_Call] = []
    for operator in case.network.operators:
        storages = tuple(tensor.storage for tensor in (*operator.read_tensors, *operator.writes))
        without_storages = _with_storages(operator, [0] * len(storages))
        # Operators contain dictionaries and cannot be hashed, so the JSON is the key.
        key = msgspec.json.encode(without_storages)
        if key not in indices:
            indices[key] = len(distinct)
            distinct.append(without_storages)
        index = indices[key]
        calls.append(_Call(index, operator.module, storages, operator.allocated, operator.freed))
    counts = Counter(call.operator for call in calls)
    operators = tuple(_DistinctOperator(counts[n], item) for n, item in enumerate(distinct))
    network = msgspec.structs.replace(case.network, operators=())
    file = _OperatorFile(msgspec.structs.replace(case, network=network), operators, tuple(calls))
    return gzip.compress(msgspec.json.encode(file), mtime=0)


def unpack(content: bytes, place: str) -> CaseOperators:
    """Decode a file that ``pack`` wrote; raise ``RecordError`` if the file is damaged."""
    file = parse_json(unpacked(content, place, _REMEDY), _OperatorFile, place, _REMEDY)
    if file.case.network is None:
        return file.case
    try:
        operators = tuple(_restore_call(file.operators[call.operator], call) for call in file.order)
    except (IndexError, RuntimeError) as error:  # no such operator, or too few storages
        raise RecordError(f"{place}: a call fits no operator of the file; {_REMEDY}.") from error
    network = msgspec.structs.replace(file.case.network, operators=operators)
    return msgspec.structs.replace(file.case, network=network)


def _restore_call(distinct: _DistinctOperator, call: _Call) -> Operator:
    """Return the operator of a call, with the module and storages of the call."""
    operator = _with_storages(distinct.operator, call.storages)
    return msgspec.structs.replace(
        operator, module=call.module, allocated=call.allocated, freed=call.freed
    )


def _with_storages(operator: Operator, storages: Iterable[int]) -> Operator:
    """Remove the module, and assign ``storages`` to the tensors read, then to those written."""
    remaining = iter(storages)

    def renumber(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return tuple(msgspec.structs.replace(tensor, storage=next(remaining)) for tensor in tensors)

    reads = {name: renumber(group) for name, group in operator.reads.items()}
    writes = renumber(operator.writes)
    return msgspec.structs.replace(
        operator, module="", reads=reads, writes=writes, allocated=(), freed=()
    )
