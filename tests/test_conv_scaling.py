"""conv_scaling on one made-up record whose times, pages, blocks and counts are closed forms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
import pytest

from report.records.record import Case, Ceiling, Policy, Record, Round
from tests import factory, papers
from tests.factory import FLOPS_AN_IMAGE, OUTPUT_BYTES, PARAMETER_BYTES
from tests.papers import found_in, rows

found = partial(found_in, "conv_scaling")
MACS = 10_616_832
INPUT_BYTES = 4 * 32 * 26 * 26
PEAK, COPY, PAGE_S, CALL_S, IMAGE_S, UNMAP_S = 2e11, 3e10, 2e-6, 1e-4, 2e-4, 1e-5
#: By hand: two outputs and an input fill 93.125 pages an image; at 256 images the outputs exceed
#: the 32 MiB that glibc's heap takes and the input does not, so that the outputs' 72 are mapped.
PAGES = {1: 0, 16: 1_490, 64: 5_960, 256: 18_432}
#: What making the kernel takes in the first call, in multiply-adds.
MAKING = 5_295
#: The largest mapped block that was freed before the first call.
LEFT_BEHIND = 1_000_000
SLOWER: Mapping[Policy, float] = {"mmap_threshold": 2.0, "trim_threshold": 3.0}


def time_of(batch: int, policy: Policy) -> float:
    pages = PAGES[batch] * PAGE_S * (policy == "default")
    return (CALL_S + IMAGE_S * batch) * SLOWER.get(policy, 1) + pages


def rounds(batch: int, slower: float) -> Iterable[Any]:
    """Six processes of each policy; ``slower`` where memory is kept."""
    for policy in ("retained", "default", "mmap_threshold", "trim_threshold", "thresholds"):
        for process in range(1, 7):
            centre = time_of(batch, policy) * (slower if policy == "retained" else 1)
            times = factory.scattered(centre * (1 + 1e-4 * (process - 3.5)), 1e-4)
            pages = [PAGES[batch] if policy == "default" else 0] * 15
            yield factory.round_(process, {"time": times, "page_faults": pages}, policy=policy)
    output, taken = batch * OUTPUT_BYTES, batch * INPUT_BYTES
    yield factory.round_(
        1,
        {
            "block_bytes": [taken, 73_728, output, -73_728, -taken, output, -output, -output],
            "block_changes": [taken, 0, output, 0, 0, output, 0, -2 * output - taken],
            "return_time": factory.scattered(UNMAP_S, 1e-4),
            "result_return_time": factory.scattered(batch * UNMAP_S, 1e-4),
            "mmap_threshold": [max(output, LEFT_BEHIND)],
        },
        policy="traced",
    )


def layer_case(batch: int, slower: float = 1, **series: Any) -> Case:
    """A forward call; the first calls of 1 and 64 images also make a kernel."""
    output = batch * OUTPUT_BYTES
    counts = {
        "lackey_multiply_adds": [batch * MACS],
        "lackey_multiply_adds_first": [batch * MACS + MAKING],
    }
    if batch == 64:
        counts.pop("lackey_multiply_adds")
    memory = {**factory.memory(output, 2 * output), **counts, **series}
    plain = factory.case(batch, "forward", memory=memory)
    return msgspec.structs.replace(plain, rounds=tuple(rounds(batch, slower)))


def page_price(moment: Any) -> Ceiling:
    samples = tuple(factory.scattered(2**14 * PAGE_S, 1e-4))
    return Ceiling(
        operation="page_mapping", moment=moment, dtype="float32", size="64 MiB", work=2**14,
        work_unit="1", working_set=2**26, samples=samples,
    )  # fmt: skip


def record(slower: float = 1, key: str = "example-2t", cases: Any = None) -> Record:
    made = [layer_case(batch, slower) for batch in PAGES] if cases is None else cases
    peaks = (*factory.ceilings(PEAK, COPY), page_price("before"), page_price("after"))
    return factory.record(made, factory.environment(key), peaks=peaks)


FULL = found(record(), record(slower=1.25, key="other-2t"))
MAPPING = [batch for batch, pages in PAGES.items() if pages]


def gain(policy: Policy = "default", slower: float = 1) -> float:
    ratios = [time_of(b, policy) / time_of(b, "retained") / slower for b in MAPPING]
    return math.prod(ratios) ** (1 / len(ratios))


def explained(batch: int) -> float:
    pages = PAGES[batch] * PAGE_S
    return (pages + UNMAP_S) / pages


VALUES: Mapping[str, float] = {
    "macs": MACS, "parameters": 18_496, "outputs": 36_864, "out_extent": 24, "adds": 1,
    "multiplies": 1, "excess_share": 2 * 36_864 / FLOPS_AN_IMAGE, "memory_gap": PARAMETER_BYTES,
    "first": 16, "gain": gain(), "second_gain": gain(slower=1.25),
    "mmap_alone": gain("mmap_threshold"), "trim_alone": gain("trim_threshold"),
    "batch_gain": time_of(1, "retained") / (time_of(256, "retained") / 256),
    "measurements": 5 * 6 * len(PAGES), "disturbed": 0,
    "share_kept": 64 * FLOPS_AN_IMAGE / time_of(64, "retained") / PEAK,
    "page_price": PAGE_S, "threshold": 2 * LEFT_BEHIND,
    "from": (2 * LEFT_BEHIND - 2**17) / (2 * OUTPUT_BYTES + INPUT_BYTES),
    "always": (2 * LEFT_BEHIND - 2**17) / (2 * OUTPUT_BYTES),
    "both_raised": 1, "flat_to": 1, "unmapping": UNMAP_S, "added": PAGES[64] * PAGE_S / 64,
    "explained_least": explained(256), "explained_most": explained(16),
}  # fmt: skip


REFUTED = {"tensor-cores", "profiler-overhead", "compressed-memory"}
#: What only a GPU's counters tell.
OF_GPU = {"device-work-explained", "epilogue", "replays-exact"}


def test_values_and_verdicts_of_a_full_record_are_those_of_closed_forms() -> None:
    papers.assert_values(FULL, VALUES, rel=2e-3)
    papers.assert_verdicts(FULL, REFUTED, OF_GPU)
    blocks = [row["Block"] for row in rows(FULL, "tbl-blocks")]
    assert blocks[:3] == [64 * INPUT_BYTES, 73_728, 64 * OUTPUT_BYTES]


def without(*policies: Policy, pages: int | None = None) -> Record:
    """The record without these policies; so many ``pages`` are mapped where memory is returned."""

    def changed(each: Round) -> Round:
        crowded = {} if pages is None else {"page_faults": (pages,) * 15}
        returned = crowded if each.policy == "default" else {}
        return msgspec.structs.replace(each, series={**each.series, **returned})

    cases = []
    for case in record().cases:
        rounds = tuple(changed(each) for each in case.rounds if each.policy not in policies)
        cases.append(msgspec.structs.replace(case, rounds=rounds))
    return record(cases=cases)


#: A made-up record, a claim, and what becomes of it.
OTHER: papers.Other[Record] = {
    "pages that blocks do not fill": (without(pages=24_000), "pages-follow", "refuted"),
    "one policy alone": (without("default"), "both-slower", "not measured"),
    "no trace": (without("traced"), "cliff-predicted", "not measured"),
    "no thresholds": (
        without("mmap_threshold", "trim_threshold"), "one-threshold-fails", "not measured",
    ),
    "a slowdown on no processor": (record(slower=4.0), "both-slower", "refuted"),
    "a count beside theory": (
        record(cases=[layer_case(1, lackey_multiply_adds=[MACS + 7]), layer_case(16)]),
        "executed-exactly", "refuted",
    ),
}  # fmt: skip


def test_verdicts_follow_the_data() -> None:
    papers.assert_changes(found, OTHER)


def test_a_cliff_at_a_whole_number_of_images_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "LEFT_BEHIND", 7 * OUTPUT_BYTES + 2**16)
    assert found(record()).claims["cliff-predicted"].verdict == "supported"
