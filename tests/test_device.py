"""A GPU's run led back to theory: counters of a made-up record."""

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
    """Counters that add to theory one addition and one multiplication an output element."""
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
    """How the work of a GPU's only case is led back to theory."""
    times, memory = factory.scattered(1e-5 * BATCH), {**counted(), **counters}
    only = factory.case(BATCH, time=times, memory=memory)
    gpu = factory.record([only], factory.environment("example-100", factory.GPU))
    work = findings(inputs_of(STUDY, gpu, factory.record())).reconciliations.items()
    (found,) = (each for id_, each in work if id_.startswith("device-work"))
    return found


ALL = FLOPS_AN_IMAGE * BATCH
TENSOR = counted(tensor=ALL)


@pytest.mark.parametrize(("counters", "amounts", "residual"), [
    # One addition too many: the bias is not taken for it, and nothing hides the difference.
    (counted(additions=1), (0, 1, 0, 0), OUTPUTS * BATCH + 1),
    # A bias in a kernel of its own, as an H100 has it: one multiply-add more an output.
    (counted(padding=OUTPUTS * BATCH), (1, 1, 2, 0), 0),
    # Moves in half precision are no work.
    ({"ncu_cuda_core_flops": [10**12] * 2}, (1, 1, 0, 0), 0),
    # Work of tensor cores is missing from the counters, where they are counted.
    (TENSOR, (1, 1, 0, -ALL // (OUTPUTS * BATCH)), 0),
    ({**TENSOR, "ncu_tensor_core_flops": ()}, (1, 1, 0, 0), -ALL),
    # What a kernel pads is not explained.
    (counted(padding=500), (1, 1, 0, 0), 1000),
])  # fmt: skip
def test_counter_terms(counters: dict[str, Any], amounts: tuple[int, ...], residual: int) -> None:
    """``amounts`` are those of the terms, in outputs of the layer."""
    found = device_work(**counters)
    assert found.start.amount == ALL and not isinstance(found.measured, Missing)
    assert found.measured.amount - found.end == residual
    assert tuple(term.amount for term in found.terms) == tuple(n * OUTPUTS * BATCH for n in amounts)
    assert found.explained == (residual == 0)
