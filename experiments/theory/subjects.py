"""Capture the operators that a measured case or a user's function calls, with their tensors.

Records of most studies describe layers instead; studies without described layers need operators.
"""

import sys
from collections.abc import Callable
from typing import Any

import msgspec

from experiments.harness.journal import CaseResult
from experiments.harness.measure import build_subject
from experiments.harness.study import CaseFile, Experiment
from experiments.theory.captures import CapturePolicy, Input
from experiments.theory.checked import capture_theory
from experiments.theory.networks import with_layout
from report.core.errors import MeasurementError, words_of
from report.core.records.operations import Network
from report.core.records.record import Factors
from report.instruments import case_operators
from report.instruments.case_operators import NO_TENSORS, CaseOperators


def with_operators(study: Experiment, result: CaseResult) -> CaseResult:
    """Add a file with the operators of a case to its result, if the case was measured."""
    if result.outcome.status != "ok":
        return result
    content = case_operators.pack(capture_case(study, result.outcome.factors))
    name = case_operators.file_name(result.case)
    file = CaseFile(name, case_operators.FILE_MEANING, content)
    return msgspec.structs.replace(result, files=(*result.files, file))


def capture_case(study: Experiment, factors: Factors) -> CaseOperators:
    """Capture the operators of one call of a case, or note why they cannot be captured."""
    import torch

    subject = build_subject(study, factors, "meta")
    channels_last = subject.layout == "channels_last"
    network, reason = None, None
    policy = CapturePolicy(
        autocast=subject.precision if subject.precision in ("bfloat16", "float16") else None,
        gradients_only=subject.mode == "forward_backward",
    )
    try:
        if not isinstance(subject.mode, str):
            raise MeasurementError("the study calls a function of its own, not the module")

        def build() -> Any:
            return build_subject(study, factors, "meta").module

        train = subject.mode != "forward"
        inputs = [_input(subject.inputs, channels_last)]
        build_in_layout = with_layout(build, "float32", channels_last)
        network = capture_theory(build_in_layout, inputs, train=train, policy=policy).network
    except MeasurementError as error:
        reason = str(error)
    version = str(torch.__version__)
    return CaseOperators(factors=factors, torch=version, network=network, reason=reason)


def _input(tensor: Any, channels_last: bool) -> Input:
    return Input(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), channels_last)


def capture_function(factors: Factors, load: Callable[[str], Callable[..., Any]]) -> CaseOperators:
    """Capture the operators of a user's function, or note why they cannot be captured.

    ``factors["function"]`` names the function; ``factors["inputs"]`` names a second function, which
    returns the arguments of the first for a seed.  ``load`` imports a function by name.
    """
    torch: Any = sys.modules.get("torch")  # missing unless the user's files import it
    if torch is None:
        return CaseOperators(factors=factors, torch="", reason=NO_TENSORS)
    # In inference mode PyTorch would not decompose operators; no_grad does the same work.
    vars(torch)["inference_mode"] = torch.no_grad
    network: Network | None = None
    reason = None
    try:
        arguments = load(str(factors["inputs"]))(0)
        inputs = []
        tensors = arguments if isinstance(arguments, tuple | list) else (arguments,)
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor):
                raise MeasurementError(NO_TENSORS)
            channels_last = False
            if tensor.ndim == 4 and not tensor.is_contiguous():
                channels_last = tensor.is_contiguous(memory_format=torch.channels_last)
            inputs.append(_input(tensor, channels_last))
        module: Any = torch.nn.Module()
        module.forward = load(str(factors["function"]))
        network = capture_theory(lambda: module, inputs).network
    except BaseException as error:  # users' code may raise anything
        reason = words_of(error)
    version = str(torch.__version__)
    return CaseOperators(factors=factors, torch=version, network=network, reason=reason)
