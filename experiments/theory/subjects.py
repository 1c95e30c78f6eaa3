"""Operators of a study's case, captured for its record where layers have no description."""

import msgspec

from experiments.harness.journal import CaseResult
from experiments.harness.measure import build_subject
from experiments.harness.study import CaseFile, Experiment
from experiments.theory.captures import CapturePolicy, Input, capture_theory
from experiments.theory.networks import with_layout
from report.core.errors import MeasurementError
from report.core.records.record import Factors
from report.instruments.case_operators import MEANING, CaseOperators, file_name, pack


def with_operators(study: Experiment, result: CaseResult) -> CaseResult:
    """Add the operators of a case whose layers have no description, as a file of the record."""
    if result.outcome.status != "ok":
        return result
    content = pack(capture_case(study, result.outcome.factors))
    file = CaseFile(file_name(result.case), MEANING, content)
    return msgspec.structs.replace(result, files=(*result.files, file))


def capture_case(study: Experiment, factors: Factors) -> CaseOperators:
    """Capture the operators of one call of a case, or the reason why that is impossible."""
    import torch

    subject = build_subject(study, factors, "meta")
    last = subject.layout == "channels_last"
    source = Input(
        tuple(subject.inputs.shape), str(subject.inputs.dtype).removeprefix("torch."), last
    )
    network, reason = None, None
    policy = CapturePolicy(
        autocast=subject.precision if subject.precision in ("bfloat16", "float16") else None,
        gradients_only=subject.mode == "forward_backward",
    )
    try:
        if not isinstance(subject.mode, str):
            raise MeasurementError("the study calls a function of its own, not the module")
        build = with_layout(lambda: build_subject(study, factors, "meta").module, "float32", last)
        network = capture_theory(
            build, [source], train=subject.mode != "forward", policy=policy
        ).network
    except MeasurementError as error:
        reason = str(error)
    return CaseOperators(
        factors=factors, torch=str(torch.__version__), network=network, reason=reason
    )
