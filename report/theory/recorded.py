"""The theory of a record's cases, from the operators that it keeps; no PyTorch is needed.

::

    stored = read_record(Path("data/inference_memory/….json"), Path("data"))
    found = theory_of_case(stored.record, stored.record.cases[0])
    found.multiply_adds, found.bytes, found.peak.total
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from report.errors import StudyError
from report.missing import Missing
from report.records.captures import CaptureRef, expanded
from report.records.record import Case, Environment, Record
from report.theory.allocator_options import Options, options_of
from report.theory.network import Theory
from report.theory.work import forward_macs, training_macs
from report.theory.workspaces import Conditions, vector_block

_NOT_KEPT: Final = "the record keeps no operators of this case"


def theory_of_case(record: Record, case: Case) -> Theory | Missing:
    """Work, traffic and peak memory of what a case ran, on the machine of its record.

    ``Missing`` where the record keeps no operators of it: an old record, or a case whose network
    ran compiled, in tiles or in reduced precision.
    """
    if case.operations is None:
        return Missing(record.environment.missing.get("operations", _NOT_KEPT))
    try:
        allocator = _allocator(record.environment)
    except StudyError as error:
        return Missing(str(error))
    conditions = replace(conditions_of(record.environment), allocator=allocator)
    return Theory(expanded(record.operations, case.operations), conditions)


def conditions_of(environment: Environment) -> Conditions:
    """How PyTorch ran on the processor of a record, in the default layout and precision."""
    flags = {
        *environment.cpu.vector_extensions,
        *(environment.host.flags if environment.host else ()),
    }
    return Conditions(
        threads=environment.threads,
        block=vector_block(environment.torch.cpu_capability),
        tiles="amx_bf16" in flags,
    )


def _allocator(environment: Environment) -> Options | None:
    if environment.device == "cpu":
        return None
    variables = environment.variables
    older = variables.get("PYTORCH_CUDA_ALLOC_CONF", "")
    return options_of(variables.get("PYTORCH_ALLOC_CONF", older))


def operator_faults(record: Record) -> Iterator[str]:
    """Where operators are not known, or multiply otherwise than the layers of their case."""
    checked: set[CaptureRef] = set()
    for index, case in enumerate(record.cases):
        theory = theory_of_case(record, case) if case.operations not in checked else None
        if isinstance(theory, Theory) and case.operations is not None:
            checked.add(case.operations)
            yield from (f"cases[{index}]: {fault}" for fault in _faults(theory, case))


def _faults(theory: Theory, case: Case) -> Iterator[str]:
    if theory.refused:
        yield f"the work of {theory.refused[0]} is not known"
        return
    steps = {operator.phase for operator in theory.network.operators}
    expected = (training_macs if "backward" in steps else forward_macs)(case.layers)
    if theory.multiply_adds != expected:
        yield (
            f"its operators have {theory.multiply_adds:,} multiply-adds, its layers {expected:,}"
        )
