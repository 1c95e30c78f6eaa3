"""What a study finds in its inputs, whatever the number of machines."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace

from report.errors import StudyError
from report.evidence.runs import Run
from report.paper.findings import Findings, Inputs
from report.paper.machine_comparison import Comparison, detailed, with_all_machines
from report.records.strict import no_cycles
from report.studies import find_study, module_of


@no_cycles()
def compute(study: str, inputs: Inputs) -> Findings:
    """What ``study`` finds in its inputs; raises ``StudyError`` that names the file at fault.

    Of many machines it tells a few in detail, and compares all of them.
    """
    findings, everything = find_study(study), inputs
    compared = getattr(importlib.import_module(module_of(study)), "COMPARED", Comparison(Run))
    inputs = detailed(everything, compared.evidence)
    try:
        found = findings(inputs).of_all_runs(inputs)
        if inputs is everything:
            return found
        return with_all_machines(found, everything, inputs, compared)
    except StudyError as error:
        files = (*inputs.files, inputs.reported_file)
        if any(file in str(error) for file in files):
            raise
        raise StudyError(f"data/{_at_fault(findings, inputs)}: {error}") from error


def _at_fault(findings: Callable[[Inputs], Findings], inputs: Inputs) -> str:
    """The file with which alone the study fails too, else the newest record.

    What computes on layers and numbers does not know from which file they came.
    """
    for records in ((), *((item,) for item in inputs.records)):
        try:
            findings(replace(inputs, records=records))
        except StudyError:
            return records[0].file if records else inputs.reported_file
    return inputs.records[0].file
