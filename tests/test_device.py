"""A GPU's run led back to theory, on a made-up record: its counters."""

from __future__ import annotations

from typing import Any

import pytest

from report.missing import Missing
from report.paper.findings import Findings
from report.records.record import Case
from report.studies.conv_scaling.study import findings
from report.theory.reconciliation import Reconciliation
from tests import factory, papers
from tests.factory import FLOPS_AN_IMAGE, OUTPUT_BYTES
from tests.papers import inputs_of

STUDY = "conv_scaling"
OUTPUTS = OUTPUT_BYTES // 4
BATCHES = (1, 16, 64, 256)


def counted(batch: int, *, padding: int = 0, additions: int = 0, tensor: int = 0) -> dict[str, Any]:
    """Counters that add to theory one addition and one multiplication an output element."""
    fused = (FLOPS_AN_IMAGE * batch - tensor) // 2 + padding
    adds, multiplies = OUTPUTS * batch + additions, OUTPUTS * batch
    counts = {
        "ncu_fp32_additions": adds,
        "ncu_fp32_multiplications": multiplies,
        "ncu_fp32_multiply_adds": fused,
        "ncu_cuda_core_flops": adds + multiplies + 2 * fused,
        "ncu_tensor_core_flops": tensor,
    }
    return {name: [count] * 2 for name, count in counts.items()}


def gpu_case(batch: int, **counters: Any) -> Case:
    memory = {**counted(batch), **counters}
    return factory.case(batch, time=factory.scattered(1e-5 * batch), memory=memory)


def of(*cases: Case) -> tuple[Findings, list[Reconciliation]]:
    """What the study finds of a GPU's run of these cases, and how their work is explained."""
    gpu = factory.record(cases, factory.environment("example-100", factory.GPU))
    result = findings(inputs_of(STUDY, gpu, factory.record()))
    work = result.reconciliations.items()
    return result, [each for id_, each in work if id_.startswith("device-work")]


def test_counters_of_a_gpu_are_led_back_to_theory() -> None:
    result, work = of(*map(gpu_case, BATCHES))
    papers.assert_whole(STUDY, result)
    for batch, found in zip(BATCHES, work, strict=True):
        assert found.start.amount == FLOPS_AN_IMAGE * batch
        assert [term.amount for term in found.terms] == [OUTPUTS * batch, OUTPUTS * batch, 0, 0]
        assert found.explained
    (sixteen,) = (row for row in result.tables["tbl-work"].rows if row[0] == 16)
    assert sixteen[-3:] == (FLOPS_AN_IMAGE * 16 // 2, OUTPUTS * 16, OUTPUTS * 16)
    assert result.claims["device-work-explained"].verdict == "supported"
    uncounted, _ = of(factory.case(64, time=factory.scattered(1e-3), memory=factory.memory(1, 2)))
    assert uncounted.claims["device-work-explained"].verdict == "not measured"


ALL = FLOPS_AN_IMAGE * 64
TENSOR = counted(64, tensor=ALL)


@pytest.mark.parametrize(
    ("counters", "amounts", "residual"),
    [
        # One addition too many: the bias is not taken for it, and nothing hides the difference.
        (counted(64, additions=1), (0, 1, 0, 0), OUTPUTS * 64 + 1),
        # A bias in a kernel of its own, as an H100 has it: one multiply-add more an output.
        (counted(64, padding=OUTPUTS * 64), (1, 1, 2, 0), 0),
        # Moves in half precision are no work.
        ({"ncu_cuda_core_flops": [10**12] * 2}, (1, 1, 0, 0), 0),
        # Work of tensor cores is missing from the counters, where they are counted.
        (TENSOR, (1, 1, 0, -ALL // (OUTPUTS * 64)), 0),
        ({**TENSOR, "ncu_tensor_core_flops": ()}, (1, 1, 0, 0), -ALL),
        # What a kernel pads is not explained.
        (counted(64, padding=500), (1, 1, 0, 0), 1000),
    ],
)
def test_terms_are_what_counters_and_theory_say(
    counters: dict[str, Any], amounts: tuple[int, ...], residual: int
) -> None:
    """``amounts`` are those of the terms, in outputs of the layer."""
    _, (found,) = of(gpu_case(64, **counters))
    assert not isinstance(found.measured, Missing)
    assert found.measured.amount - found.end == residual
    assert tuple(term.amount for term in found.terms) == tuple(n * OUTPUTS * 64 for n in amounts)
    assert found.explained == (residual == 0)
