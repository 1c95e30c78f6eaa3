"""Records of the study conv_profiling with chosen cases, for its tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from report.records.record import Case, Environment, Record
from report.studies.conv_profiling.subject import BASE, Dimensions
from report.theory.terms import LIBRARY
from report.theory.work import output_bytes
from tests import factory

BUILD = f"built for tests with {LIBRARY}"


class Known(NamedTuple):
    """A forward call with the multiply-adds and the peak (B) that were worked out by hand."""

    shape: Dimensions
    batch: int
    macs: int
    peak: int
    subject: str = "layer"


#: On vectors of eight: no padding; both channels padded; unfolded; two shapes that are held out.
CALLS = (
    Known(BASE, 1, 10_616_832, 307_712),
    Known(BASE, 8, 84_934_656, 2_359_296),
    Known(BASE, 64, 679_477_248, 18_874_368),
    Known(Dimensions(33, 65, 3, 28), 8, 119_439_360, 2_525_184),
    Known(Dimensions(16, 32, 3, 28), 1, 2_488_321, 405_504),
    Known(Dimensions(9, 19, 3, 21), 8, 7_990_272, 420_832, "held_out"),
    Known(Dimensions(12, 26, 1, 27), 1, 182_017, 65_000, "held_out"),
)


def environment(**change: Any) -> Environment:
    """The tests' machine with the library whose kernels are known."""
    plain = factory.environment(**change)
    return msgspec.structs.replace(plain, torch=msgspec.structs.replace(plain.torch, build=BUILD))


def layer_case(call: Known, pass_: Any = "forward", **series: Iterable[Any]) -> Case:
    """A call of the layer; the backward pass doubles its work again."""
    layer = call.shape.layer(call.batch)
    found: dict[str, Iterable[Any]] = {
        **factory.memory(output_bytes(layer), call.peak),
        "lackey_multiply_adds": [call.macs * (1 if pass_ == "forward" else 3)],
        **series,
    }
    return Case(
        factors=call.shape.factors(call.batch, pass_, call.subject),
        status="ok",
        reason=None,
        layers=(layer,),
        series=factory.measured(found),
    )


def layer_cases() -> list[Case]:
    """All calls, and the example's with its backward pass."""
    return [
        *map(layer_case, CALLS),
        *(layer_case(call, "forward_backward") for call in CALLS[:3]),
    ]


def record(cases: Iterable[Case] | None = None, machine: Environment | None = None) -> Record:
    """A whole record of the study."""
    made = layer_cases() if cases is None else cases
    return factory.record(made, machine or environment(), study="conv_profiling")
