"""What a run keeps of the operators that its cases ran, and how many bytes that takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from experiments import conv_scaling, inference_memory, training_roofline  # noqa: E402
from experiments.harness import captures  # noqa: E402
from experiments.harness.operators import Input, capture  # noqa: E402
from experiments.harness.study import Factors, NetworkCall, Study  # noqa: E402
from experiments.inference_sweeps import inference  # noqa: E402
from experiments.theory.survey import laid_out  # noqa: E402
from experiments.training_cases import PLAIN  # noqa: E402
from report.records.compaction import canonical  # noqa: E402
from report.records.filed import encode, parse  # noqa: E402
from report.records.record import Case, Record  # noqa: E402
from report.theory.network import Theory  # noqa: E402
from report.theory.recorded import operator_faults, theory_of_case  # noqa: E402
from tests import factory  # noqa: E402


class Quiet:
    """Hears how far capturing is."""

    def __init__(self) -> None:
        self.heard: list[tuple[str | None, float]] = []

    def note(self, text: str) -> None:
        pass

    def progressed(self, text: str | None, done: float, left: str) -> None:
        self.heard.append((text, done))


def ran(study: Study, *cases: Factors) -> Record:
    """A record of these cases with their layers and operators, written and read again."""
    plain = [
        Case(factors=c, status="ok", reason=None, layers=study.layers(c), series=()) for c in cases
    ]
    found = captures.kept(study, plain, "cpu", Quiet())
    assert not found.missing
    whole = msgspec.structs.replace(factory.record(found.cases), operations=found.captures)
    return parse(encode(whole), "r.json")


def training(batch: int, layout: str = "contiguous", **other: str) -> Factors:
    way = {**PLAIN, "layout": layout, **other, "dataset": "synthetic"}
    return {"subject": "training", "network": "ResNet-18", "image": 32, "batch": batch, **way}


def test_an_inference_keeps_the_operators_of_its_network_once() -> None:
    batches, layouts = (1, 8, 64), ("contiguous", "channels_last")
    cases = [inference("ResNet-20", n, layout) for n in batches for layout in layouts]
    other = inference("ResNet-20", 8, precision="bfloat16")
    record = ran(inference_memory.STUDY, *cases, other)
    assert [case.operations is None for case in record.cases] == [False] * 6 + [True]
    assert len(record.operations.networks) == 2  # slices of a map have strides of a layout
    assert len(record.operations.residents) == 1
    assert list(operator_faults(record)) == []
    found = theory_of_case(record, record.cases[4])
    assert isinstance(found, Theory)
    assert (found.parameters, found.multiply_adds) == (269_722, 64 * 40_551_040)
    assert len(msgspec.json.encode(record.operations)) < 25_000  # of six cases


def test_a_training_keeps_its_step_forward_backward_and_update() -> None:
    cases = [training(2), training(8), training(2, optimizer="fused")]
    record = ran(training_roofline.STUDY, *cases)
    assert [case.operations is None for case in record.cases] == [False, False, True]
    assert list(operator_faults(record)) == []
    found = theory_of_case(record, record.cases[1])
    assert isinstance(found, Theory)
    assert {operator.phase for operator in found.network.operators} == {
        "forward", "backward", "update",
    }  # fmt: skip
    updates = [o for o in found.network.operators if o.phase == "update"]
    assert len(updates) == 4 * len(found.network.parameters)  # decay, momentum twice, the step
    assert len(msgspec.json.encode(record.operations)) < 100_000


def test_what_is_kept_is_what_was_captured() -> None:
    case = inference("AlexNet", 8, "channels_last")
    record = ran(inference_memory.STUDY, case)
    call = inference_memory.operations(case)
    assert call is not None
    found = theory_of_case(record, record.cases[0])
    build = partial(laid_out, call.build(), "channels_last")
    direct = capture(build, [Input(call.shape, channels_last=True)]).network
    assert isinstance(found, Theory)
    assert found.network == canonical(direct)


def test_a_layer_keeps_its_operators_too() -> None:
    layer = {"subject": "layer", "batch": 4, "pass": "forward", "layout": "contiguous"}
    backward = {**layer, "pass": "forward_backward"}
    record = ran(conv_scaling.STUDY, layer, backward)
    assert [case.operations is None for case in record.cases] == [False, True]
    assert list(operator_faults(record)) == []


class Asking(nn.Module):
    """Needs the values of its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum().item() > 0 else -x


def test_what_cannot_be_captured_has_its_reason_and_the_run_its_record() -> None:
    def operations(factors: Factors) -> NetworkCall:
        build: Callable[[], nn.Module] = (
            Asking if factors["batch"] == 1 else partial(nn.Linear, 4, 4)
        )
        return NetworkCall(f"{factors['batch']}", build, (int(factors["batch"]), 4))

    study = replace(conv_scaling.STUDY, operations=operations)
    cases = [factory.case(batch) for batch in (1, 2)]
    heard = Quiet()
    found = captures.kept(study, cases, "cpu", heard)
    assert [case.operations is None for case in found.cases] == [True, False]
    assert "The network cannot be captured" in found.missing["operations"]
    assert heard.heard[-1] == ("2, batch 2, contiguous", 1.0)
