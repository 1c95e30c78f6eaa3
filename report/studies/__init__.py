"""The studies: one room each, named by one word that every other room uses too."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from report.errors import StudyError

if TYPE_CHECKING:
    from report.paper.findings import Findings, Inputs

#: Study → module with a function ``findings(inputs)``, in the order in which they are listed.
STUDIES: Final[dict[str, str]] = {
    "conv_scaling": "report.studies.conv_scaling",
    "conv_profiling": "report.studies.conv_profiling",
    "inference_memory": "report.studies.inference_memory",
    "training_roofline": "report.studies.training_roofline",
    "backend_speedup": "report.studies.backend_speedup",
}

#: Study → patterns of the names of attachments that its paper is computed from.
ATTACHMENTS: Final[dict[str, tuple[str, ...]]] = {
    "conv_scaling": ("ncu.json.gz",),
    "conv_profiling": ("trace.*.json.gz", "images.json", "sample.json", "ncu.json.gz"),
    "inference_memory": ("trace.*.json.gz",),
    "training_roofline": ("trace.*.json.gz",),
    "backend_speedup": ("images.json", "sample.json", "backend.*.json"),
}


def find_study(study: str) -> Callable[[Inputs], Findings]:
    """The function that computes a study; imports only that study's module.

    Raises ``StudyError`` for a name that is no study.
    """
    if study not in STUDIES:
        known = ", ".join(STUDIES)
        raise StudyError(f"{study}: no such study; the studies are {known}.")
    compute: Callable[[Inputs], Findings] = importlib.import_module(STUDIES[study]).findings
    return compute


def compute(study: str, inputs: Inputs) -> Findings:
    """What ``study`` finds in its inputs; raises ``StudyError`` that names the file at fault."""
    findings = find_study(study)
    try:
        return findings(inputs)
    except StudyError as error:
        files = (*(item.file for item in inputs.records), inputs.reported_file)
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
