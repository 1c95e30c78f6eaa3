"""conv_profiling on one made-up record whose counts and bytes are closed forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from report.records.record import Case, Environment, Record
from report.studies.conv_profiling.source import ACCOUNT, audit
from report.studies.conv_profiling.study import findings
from report.studies.conv_profiling.subject import BASE, Dimensions
from report.theory.terms import LIBRARY
from report.theory.work import output_bytes
from tests import factory, papers
from tests.degraded import committed
from tests.factory import OUTPUT_BYTES
from tests.papers import found_in, reported

STUDY = "conv_profiling"
found = partial(found_in, STUDY)

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


def machine(**change: Any) -> Environment:
    """The tests' machine with the library whose kernels are known."""
    plain = factory.environment(**change)
    return msgspec.structs.replace(plain, torch=msgspec.structs.replace(plain.torch, build=BUILD))


def layer_case(call: Known, pass_: Any = "forward", **series: Iterable[Any]) -> Case:
    """A call of the layer; the backward pass doubles its work again."""
    layer, passes = call.shape.layer(call.batch), 1 if pass_ == "forward" else 3
    memory = factory.memory(output_bytes(layer), call.peak)
    counted = {"lackey_multiply_adds": [call.macs * passes]}
    return Case(
        factors=call.shape.factors(call.batch, pass_, call.subject),
        layers=(layer,),
        series=factory.measured({**memory, **counted, **series}),
    )


def layer_cases() -> list[Case]:
    """All calls, and the example's with its backward pass."""
    return [*map(layer_case, CALLS), *(layer_case(call, "forward_backward") for call in CALLS[:3])]


def record(cases: Iterable[Case] | None = None, on: Environment | None = None) -> Record:
    """A whole record of the study."""
    made = layer_cases() if cases is None else cases
    return factory.record(made, on or machine(), study=STUDY)


#: The source's memory, its kernels and theory: numbers that need no run.
OF_SOURCE: Mapping[str, float] = {
    "macs": 10_616_832, "parameters": 18_496, "source_workspace": 31_392 * 1024,
    "source_allocated": 40_608 * 1024,
    "source_kept": 64 * OUTPUT_BYTES, "table_batch": 64,
    "copies": 5_611_520, "winograd_products": 36 / 144,
    "partitions": 18_432 / 42.67, "bias_images": 80, "bias_share": 1.25,
    "source_measured": 40_600_000,
}  # fmt: skip
OF_RUN: Mapping[str, float] = {
    "known_shapes": 3, "held_shapes": 2, "held_calls": 2, "held_tests": 2, "all_calls": 7,
    "ratio_least": 182_017 / (625 * 12 * 26), "ratio_most": 16 * 24 / (9 * 19),
    "peak_most": (405_504 / 73_728), "block": 8,
}  # fmt: skip
#: Of the H100 and the A100, as Nsight Compute and CUPTI printed them.
OF_GPUS: Mapping[str, float] = {
    "forward_cases": 30, "tiled_cases": 27, "tiled_shapes": 10, "padded_cases": 8,
    "untiled_cases": 3, "tile_channels": 32,
    "fourier_fused": 15_444_992 / 24_780_800, "beside_copies": 16,
    "seen_most": (1_384_448 + 18_432 + 36_864 * 64 * 6) / (64 * 21_233_664), "own_seen": 0.0079768,
}  # fmt: skip
FULL = found(record())


REFUTED = {"batch-in-product", "table-of-one-image", "parameters-per-image"}
#: A processor judges nothing of a GPU.
OF_GPU = {
    "counters-blind", "copies-multiply", "seen-as-predicted", "tensor-cores-are-theory",
    "small-batches-seen", "workspace-is-copies", "tiles-explain", "nothing-saved-forward",
    "saved-backward", "only-output", "scaled-otherwise",
}  # fmt: skip


def test_values_and_verdicts_are_those_of_closed_forms_and_the_source_needs_no_run() -> None:
    papers.assert_values(FULL, OF_RUN, rel=1e-9)
    papers.assert_values(found(), OF_SOURCE, rel=1e-6)
    papers.assert_values(findings(committed(STUDY)), OF_GPUS, rel=1e-3)
    papers.assert_verdicts(FULL, REFUTED, OF_GPU)


def changed(place: int, **series: Any) -> Record:
    """The record in which one of the calls has other series."""
    cases = layer_cases()
    cases[place] = layer_case(CALLS[place], **series)
    return record(cases)


OUTPUT = 4 * 8 * 19 * 17 * 17
PLAIN = machine()
LONGER = msgspec.structs.replace(
    PLAIN, torch=msgspec.structs.replace(PLAIN.torch, cpu_capability="AVX512")
)
#: A made-up record, a claim, and what becomes of it.
OTHER: papers.Other[Record] = {
    "a count beside theory": (changed(0, lackey_multiply_adds=[7]), "example-is-theory", "refuted"),
    "a count beside a rule": (changed(3, lackey_multiply_adds=[7]), "counts-explained", "refuted"),
    "a count beside a prediction": (changed(5, lackey_multiply_adds=[7]), "predicted", "refuted"),
    "a peak beside a prediction": (
        changed(5, **factory.memory(OUTPUT, OUTPUT + 4)), "predicted", "refuted",
    ),
    "a first call, which makes the kernel": (
        changed(2, lackey_multiply_adds=(), lackey_multiply_adds_first=[679_477_248]),
        "example-is-theory", "supported",
    ),
    "longer vectors": (record(on=LONGER), "peaks-explained", "refuted"),
    "no calls": (record([]), "predicted", "not measured"),
}  # fmt: skip


def test_verdicts_follow_the_data() -> None:
    papers.assert_changes(found, OTHER)


def test_every_number_that_is_audited_stands_in_the_account() -> None:
    places = tuple(place for _, place, _ in ACCOUNT if place)
    audited = {check.derived.place for check in audit(reported(STUDY))}
    assert all(place.startswith(places) for place in audited)
