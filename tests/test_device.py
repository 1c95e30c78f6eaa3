"""Counted work of a GPU explained by theory, on artificial records."""

from typing import Any

import pytest

from report.core.missing import Missing
from report.studies.conv_scaling.study import findings
from report.theory.reconciliation import Reconciliation
from tests import factory
from tests.factory import FLOPS_AN_IMAGE, OUTPUT_BYTES
from tests.papers import inputs_of

STUDY = "conv_scaling"
OUTPUTS = OUTPUT_BYTES // 4
BATCH = 64


def counted(*, padding: int = 0, additions: int = 0, tensor: int = 0) -> dict[str, Any]:
    """Return counters: theory plus one addition and one multiplication per output element."""
    fused = (FLOPS_AN_IMAGE * BATCH - tensor) // 2 + padding
    adds, multiplies = OUTPUTS * BATCH + additions, OUTPUTS * BATCH
    counts = {
        "ncu_fp32_additions": adds,
        "ncu_fp32_multiplications": multiplies,
        "ncu_fp32_multiply_adds": fused,
        "ncu_cuda_core_flops": adds + multiplies + 2 * fused,
        "ncu_tensor_core_flops": tensor,
    }
    return {name: [count] * 2 for name, count in counts.items()}


def device_work(**counters: Any) -> Reconciliation:
    """Return the reconciliation of the work of a GPU's only case."""
    times, memory = factory.scattered(1e-5 * BATCH), {**counted(), **counters}
    case = factory.case(BATCH, time=times, memory=memory)
    gpu = factory.record([case], factory.environment("example-100", factory.GPU))
    work = findings(inputs_of(STUDY, gpu, factory.record())).reconciliations.items()
    (match,) = (item for id_, item in work if id_.startswith("device-work"))
    return match


ALL = FLOPS_AN_IMAGE * BATCH
TENSOR = counted(tensor=ALL)


@pytest.mark.parametrize(("counters", "amounts", "residual"), [
    # One extra addition is not attributed to the bias and stays as a residual.
    (counted(additions=1), (0, 1, 0, 0), OUTPUTS * BATCH + 1),
    # A separate kernel for the bias, as on an H100: one more multiply-add per output.
    (counted(padding=OUTPUTS * BATCH), (1, 1, 2, 0), 0),
    # Copies in half precision are no work.
    ({"ncu_cuda_core_flops": [10**12] * 2}, (1, 1, 0, 0), 0),
    # Work of tensor cores is not in the fp32 counters.
    (TENSOR, (1, 1, 0, -ALL // (OUTPUTS * BATCH)), 0),
    ({**TENSOR, "ncu_tensor_core_flops": ()}, (1, 1, 0, 0), -ALL),
    # Padding of a kernel is not explained.
    (counted(padding=500), (1, 1, 0, 0), 1000),
])  # fmt: skip
def test_counter_terms(counters: dict[str, Any], amounts: tuple[int, ...], residual: int) -> None:
    """``amounts`` are the expected terms, in multiples of the layer's outputs."""
    work = device_work(**counters)
    assert work.start.amount == ALL and not isinstance(work.measured, Missing)
    assert work.measured.amount - work.end == residual
    assert [term.amount / (OUTPUTS * BATCH) for term in work.terms] == [*amounts]
    assert work.explained == (residual == 0)
