"""Memory policies in conv_scaling: made-up runs whose time is exactly a sum of known terms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from report.paper.findings import Findings
from report.quantity.evaluation import point
from report.records.record import Case, Ceiling, Policy, Record
from report.statistics.estimates import Estimate
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.policies import foreseen
from tests import factory
from tests.factory import FLOPS_AN_IMAGE, OUTPUT_BYTES, round_, scattered
from tests.papers import assert_whole, found_in, rows, value

STUDY = "conv_scaling"
PEAK, COPY, PAGE_S, CALL_S = 2e11, 3e10, 2e-6, 1e-4
#: An image's tensors in the library's own layout, which are copied there and back.
REORDERED = 100_000
PAGES: Mapping[int, int] = {1: 0, 64: 6_000, 256: 24_000}


def time_of(batch: int, policy: Policy) -> float:
    """What the terms add up to."""
    arithmetic = batch * FLOPS_AN_IMAGE / PEAK
    copies = 2 * batch * REORDERED / COPY
    return arithmetic + copies + CALL_S + (PAGES[batch] * PAGE_S if policy == "default" else 0)


def case(batch: int) -> Case:
    found = factory.case(batch, memory=factory.memory(batch * OUTPUT_BYTES, batch * OUTPUT_BYTES))
    events = factory.series("memory_events", (batch * REORDERED, batch * OUTPUT_BYTES))
    rounds = tuple(
        round_(
            process,
            {
                "time": scattered(time_of(batch, policy) * (1 + 1e-4 * (process - 3.5)), 1e-4),
                "page_faults": [PAGES[batch] if policy == "default" else 0] * 15,
            },
            policy=policy,
        )
        for policy in ("retained", "default")
        for process in range(1, 7)
    )
    return msgspec.structs.replace(found, series=(*found.series, events), rounds=rounds)


def pages(moment: str) -> Ceiling:
    plain = factory.ceiling("copy", moment, COPY)
    samples = tuple(scattered(2**14 * PAGE_S, 1e-4))
    return msgspec.structs.replace(
        plain,
        operation="page_mapping",
        work=2**14,
        work_unit="1",
        samples=samples,
        working_set=2**26,
    )


def middle(cell: Any) -> float:
    return cell.value if isinstance(cell, Estimate) else cell


def verdict(found: Findings, name: str) -> str:
    """Of the first machine that a claim is judged on; nothing where it is judged on none."""
    return next((c.verdict for c in found.claims.values() if name in (c.id, c.name)), "")


@pytest.fixture(scope="module")
def record() -> Record:
    return record_of()


def record_of() -> Record:
    peaks = (*factory.ceilings(PEAK, COPY), pages("before"), pages("after"))
    plain = factory.record([case(batch) for batch in PAGES], peaks=peaks)
    protocol = msgspec.structs.replace(
        plain.protocol, processes={"retained": 6, "default": 6}, budget_s=60.0
    )
    return msgspec.structs.replace(plain, protocol=protocol)


def test_the_terms_of_a_time_leave_no_rest(record: Record) -> None:
    found = found_in(STUDY, record)
    assert_whole(STUDY, found)
    assert {"fig-policies", "fig-priced"} <= set(found.figures)
    for row in rows(found, "tbl-time-terms"):
        call = value(found, "call_cost")
        kept = call + sum(middle(row[name]) for name in ("Work", "Reordering", "Rest"))
        assert middle(row["Kept"]) == pytest.approx(kept)
        assert call == pytest.approx(CALL_S, rel=0.01)
        assert abs(middle(row["Rest"])) < 0.01 * kept
        assert middle(row["Slowdown"]) == pytest.approx(
            middle(row["Pages"]) + middle(row["Left"]), abs=0.01 * kept
        )


def test_pages_are_what_giving_memory_back_costs(record: Record) -> None:
    found = found_in(STUDY, record)
    assert value(found, "policy_batch") == 64
    assert value(found, "fault_price") == pytest.approx(PAGE_S, rel=1e-3)
    assert value(found, "mapping_time") == pytest.approx(value(found, "policy_lost"), rel=0.01)
    ratios = [time_of(b, "default") / time_of(b, "retained") for b in (64, 256)]
    assert value(found, "policy_gain") == pytest.approx(math.prod(ratios) ** 0.5, rel=1e-3)
    assert verdict(found, "policy-pays") == "supported"
    assert value(found, "priced_least") == pytest.approx(1, rel=0.01)
    assert value(found, "policy_gain_planned") == value(found, "policy_gain")


@pytest.mark.parametrize(("batch", "blocks"), [(128, 381_440), (256, 294_912), (512, 381_440)])
def test_the_pages_of_returned_blocks_are_foreseen(batch: int, blocks: int) -> None:
    """By hand: two outputs and the input; outputs alone where only they exceed 32 MiB."""
    run = Run(factory.stored(record_of()), "example")
    assert point(foreseen(run, batch)) == batch * blocks / 4096


def test_pages_that_blocks_do_not_foresee_refute_it(record: Record) -> None:
    """24,000 pages at 256 images are 93.75 an image, where the outputs alone are 72."""
    assert verdict(found_in(STUDY, record), "pages-foreseen") == "refuted"


def test_the_paper_speaks_of_times_with_memory_kept(record: Record) -> None:
    found = found_in(STUDY, record)
    assert value(found, "time_largest") == pytest.approx(time_of(256, "retained"), rel=1e-3)
    assert value(found, "processes_kept") == value(found, "processes_returned") == 6


def test_one_policy_alone_is_not_compared(record: Record) -> None:
    kept = tuple(
        msgspec.structs.replace(
            case, rounds=tuple(r for r in case.rounds if r.policy == "retained")
        )
        for case in record.cases
    )
    found = found_in(STUDY, msgspec.structs.replace(record, cases=kept))
    assert_whole(STUDY, found)
    assert "fig-policies" not in found.figures and not verdict(found, "policy-pays")
