"""The results of a paper: as built in ``out/`` if they are current, else computed now."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from report.core.records.coverage import covered_cases
from report.core.records.frames import read_samples, sample_frame
from report.engine.actions import load
from report.engine.replicate import compute_output
from report.engine.steps import ARTIFACTS, FINDINGS, RECORDS, SAMPLES, BuildRequest, is_report
from report.engine.writing import render_room
from report.paper.findings import Findings

if TYPE_CHECKING:
    import pandas as pd


class PaperResults(NamedTuple):
    """The results of a paper for the present data.

    ``content`` has the fields of ``out/values/<study>.json``, ``records`` describes every record of
    the study, used or not, and ``source`` tells a reader where the results were read.
    """

    findings: Findings
    content: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    source: str
    samples: Callable[[], pd.DataFrame]


def present_results(study: str, request: BuildRequest, stale: Collection[str]) -> PaperResults:
    """Read the results of ``study`` from ``out/``; compute them if their steps are ``stale``.

    Writes nothing.  Raises ``RidgepointError`` for a study that cannot be computed.
    """
    if f"{study}/study" in stale or f"{study}/document" in stale:
        chosen, findings = compute_output(study, request.data, request.use.get(study, ()))
        origin = chosen.origin if is_report(study) else {}
        coverage = covered_cases(chosen.usable)
        manuscript = render_room(study, request.data, request.papers, findings, origin, coverage)
        content = manuscript.findings.as_json(study, chosen.inputs.files)
        return PaperResults(
            findings,
            {**content, **chosen.origin, "unsupported": manuscript.unsupported},
            chosen.listing,
            f"computed from {request.data}",
            partial(sample_frame, chosen.files),
        )
    folder = request.out / ARTIFACTS / study
    return PaperResults(
        load(folder / FINDINGS),
        json.loads((request.out / "values" / f"{study}.json").read_text("utf-8")),
        json.loads((folder / RECORDS).read_text("utf-8")),
        f"as built in {request.out}",
        partial(read_samples, folder / SAMPLES),
    )
