"""conv_profiling on one made-up record whose counts and bytes are closed forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from report.errors import StudyError
from report.paper.findings import Findings
from report.records.record import Record
from report.studies.conv_profiling.source import ACCOUNT, audit
from report.studies.conv_profiling.study import findings
from tests import factory, profiling
from tests.degraded import committed
from tests.factory import OUTPUT_BYTES
from tests.papers import assert_whole, found_in, reported, value

STUDY = "conv_profiling"


def found(*records: Record) -> Findings:
    return found_in(STUDY, *records)


#: The source's memory, its kernels and theory: numbers that need no run.
OF_SOURCE: Mapping[str, float] = {
    "macs": 10_616_832, "parameters": 18_496, "source_workspace": 31_392 * 1024,
    "source_allocated": 40_608 * 1024,
    "source_kept": 64 * OUTPUT_BYTES, "table_batch": 64,
    "copies": 5_611_520, "nameless": 26_000_000,
    "partitions": 18_432 / 42.67, "bias_images": 80, "bias_share": 1.25, "input_number": 2816,
    "input_average": 64 * 26**2 * 32 * 42.67 / 18_432,
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
FULL = found(profiling.record())


def test_values_are_those_of_closed_forms_and_the_source_needs_no_run() -> None:
    assert_whole(STUDY, FULL)
    assert {id_: value(FULL, id_) for id_ in OF_RUN} == pytest.approx(OF_RUN, rel=1e-9)
    without = found()
    assert {id_: value(without, id_) for id_ in OF_SOURCE} == pytest.approx(OF_SOURCE)


def test_values_of_gpus_are_those_of_their_counters() -> None:
    published = findings(committed(STUDY))
    assert {id_: value(published, id_) for id_ in OF_GPUS} == pytest.approx(OF_GPUS, rel=1e-3)


SUPPORTED = {"temporary-storage", "keeps-its-output", "example-is-theory", "counts-explained",
             "predicted", "peaks-explained"}  # fmt: skip
REFUTED = {"batch-in-product", "table-of-one-image", "parameters-per-image"}


def test_verdicts_and_no_judgement_of_a_gpu_by_a_processor() -> None:
    verdicts = {id_: claim.verdict for id_, claim in FULL.claims.items()}
    assert {id_ for id_, each in verdicts.items() if each == "supported"} == SUPPORTED
    assert {id_ for id_, each in verdicts.items() if each == "refuted"} == REFUTED
    assert {verdicts[id_] for id_ in verdicts.keys() - SUPPORTED - REFUTED} == {"not measured"}


def changed(place: int, **series: Any) -> Record:
    """The record in which one of the calls has other series."""
    cases = profiling.layer_cases()
    cases[place] = profiling.layer_case(profiling.CALLS[place], **series)
    return profiling.record(cases)


OUTPUT = 4 * 8 * 19 * 17 * 17
PLAIN = profiling.environment()
LONGER = msgspec.structs.replace(
    PLAIN, torch=msgspec.structs.replace(PLAIN.torch, cpu_capability="AVX512")
)
#: A made-up record, a claim, and what becomes of it.
OTHER: Mapping[str, tuple[Record, str, str]] = {
    "a count beside theory": (changed(0, lackey_multiply_adds=[7]), "example-is-theory", "refuted"),
    "a count beside a rule": (changed(3, lackey_multiply_adds=[7]), "counts-explained", "refuted"),
    "a count beside a prediction": (changed(5, lackey_multiply_adds=[7]), "predicted", "refuted"),
    "a peak beside a prediction": (
        changed(5, **factory.memory(OUTPUT, OUTPUT + 4)), "predicted", "refuted",
    ),
    "a first call, which makes the kernel": (
        changed(
            2, lackey_multiply_adds=(), lackey_multiply_adds_first=[679_477_248],
        ),
        "example-is-theory", "supported",
    ),
    "longer vectors": (profiling.record(machine=LONGER), "peaks-explained", "refuted"),
    "no calls": (profiling.record([]), "predicted", "not measured"),
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHER)
def test_verdicts_follow_the_data(kind: str) -> None:
    made, name, expected = OTHER[kind]
    assert found(made).claims[name].verdict == expected


# ------------------------------------------------------------------------------ the source


def test_all_printed_numbers_follow_but_one_and_each_stands_in_the_account() -> None:
    checks = audit(reported(STUDY))
    differing = [check for check in checks if check.verdict == "differs"]
    assert [check.derived.number for check in differing] == [40.6]
    assert differing[0].finding.endswith("a prefix of 1,024 written as one of 1,000")
    places = [place for _, place, _ in ACCOUNT if place]
    assert {
        c.derived.place for c in checks if not c.derived.place.startswith(tuple(places))
    } == set()


# ------------------------------------------------------------------------------ what is refused


def test_another_layer_is_refused() -> None:
    case = msgspec.structs.replace(
        profiling.layer_case(profiling.CALLS[0]), layers=(factory.layer(2),)
    )
    with pytest.raises(StudyError, match="is not the layer that this study is about"):
        found(profiling.record([case]))
