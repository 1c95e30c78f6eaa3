"""conv_scaling on one made-up record whose times, pages, bytes and counts are closed forms."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from report.errors import StudyError
from report.evidence.reported import Unreported
from report.missing import Missing
from report.paper.findings import Findings
from report.records.layers import Convolution
from report.records.record import Case, Policy, Record
from report.studies import STUDIES, find_study
from report.studies.conv_scaling.study import findings
from tests import factory
from tests.factory import FLOPS_AN_IMAGE, OUTPUT_BYTES, PARAMETER_BYTES
from tests.papers import assert_whole, found_in, inputs_of, number, reported, value

STUDY = "conv_scaling"
MACHINE = "example-2t"
MACS = 10_616_832
INPUT_BYTES = 4 * 32 * 26 * 26
PEAK, COPY, PAGE_S, CALL_S, IMAGE_S = 2e11, 3e10, 2e-6, 1e-4, 2e-4
#: By hand: two outputs and an input fill 93.125 pages an image; at 256 images the outputs exceed
#: the 32 MiB that glibc's heap takes and the input does not, so that the outputs' 72 are mapped.
PAGES = {1: 0, 16: 1_000, 64: 5_960, 256: 18_432}
#: What making the kernel takes in the first call, in multiply-adds.
MAKING = 5_295


def time_of(batch: int, policy: Policy, pass_: str = "forward") -> float:
    pages = PAGES[batch] * PAGE_S * (policy == "default")
    return (1 if pass_ == "forward" else 3) * (CALL_S + IMAGE_S * batch) + pages


def rounds(batch: int, pass_: str, slower: float) -> Iterable[Any]:
    """Six processes of each policy; ``slower`` where memory is kept."""
    for policy in ("retained", "default"):
        for process in range(1, 7):
            centre = time_of(batch, policy, pass_) * (slower if policy == "retained" else 1)
            times = factory.scattered(centre * (1 + 1e-4 * (process - 3.5)), 1e-4)
            pages = [PAGES[batch] if policy == "default" else 0] * 15
            yield factory.round_(process, {"time": times, "page_faults": pages}, policy=policy)


def layer_case(batch: int, pass_: str = "forward", slower: float = 1, **series: Any) -> Case:
    """A call that needs two outputs; the first calls of 1 and 64 images also make a kernel."""
    output = batch * OUTPUT_BYTES
    work = batch * MACS * (1 if pass_ == "forward" else 3)
    memory = {**factory.memory(output, 2 * output), "memory_events": [output, output, -output]}
    counts = {"lackey_multiply_adds": [work], "lackey_multiply_adds_first": [work + MAKING]}
    if batch == 64:
        counts.pop("lackey_multiply_adds")
    plain = factory.case(batch, pass_, memory={**memory, **counts, **series})
    return msgspec.structs.replace(plain, rounds=tuple(rounds(batch, pass_, slower)))


def variant(name: str, layer: Convolution, macs: int) -> Case:
    counted = {"lackey_multiply_adds": [macs]}
    plain = factory.case(1, memory=counted, layers=(layer,), subject="variant")
    return msgspec.structs.replace(plain, factors={**plain.factors, "variant": name})


def variants(excess: int = 0) -> list[Case]:
    """33 output channels run as 40, and taps on padding are skipped; and ``excess``."""
    uneven = msgspec.structs.replace(factory.layer(1), output_shape=(1, 33, 24, 24))
    padded = msgspec.structs.replace(factory.layer(1), padding=(1, 1), output_shape=(1, 64, 26, 26))
    return [
        variant("33 channels", uneven, 40 * 24 * 24 * 32 * 9 + excess),
        variant("padding 1", padded, (3 * 26 - 2) ** 2 * 64 * 32),
    ]


def page_prices() -> tuple[Any, ...]:
    plain = factory.ceiling("copy", "before", COPY)
    found = msgspec.structs.replace(
        plain, operation="page_mapping", work=2**14, work_unit="1", working_set=2**26,
        samples=tuple(factory.scattered(2**14 * PAGE_S, 1e-4)),
    )  # fmt: skip
    return found, msgspec.structs.replace(found, moment="after")


def record(*more: Case, slower: float = 1, key: str = MACHINE, **change: Any) -> Record:
    passes = ("forward", "forward_backward")
    cases = change.pop("cases", [layer_case(b, p, slower) for p in passes for b in PAGES])
    peaks = change.pop("peaks", (*factory.ceilings(PEAK, COPY), *page_prices()))
    plain = factory.record([*cases, *more], factory.environment(key), peaks=peaks)
    processes: dict[Policy, int] = {"retained": 6, "default": 6}
    protocol = msgspec.structs.replace(plain.protocol, processes=processes, budget_s=60.0)
    return msgspec.structs.replace(plain, protocol=protocol, **change)


def found(*records: Record) -> Findings:
    return found_in(STUDY, *records)


def verdict(result: Findings, id_: str) -> str:
    return result.claims[id_].verdict


FULL = found(record(*variants()), record(slower=1.25, key="other-2t"))


def gain(slower: float = 1, pass_: str = "forward") -> float:
    mapping = [batch for batch, pages in PAGES.items() if pages]
    ratios = [
        time_of(b, "default", pass_) / time_of(b, "retained", pass_) / slower for b in mapping
    ]
    return math.prod(ratios) ** (1 / len(ratios))


VALUES: Mapping[str, float] = {
    "macs": MACS,
    "flops": FLOPS_AN_IMAGE,
    "weights": 18_432,
    "biases": 64,
    "parameters": 18_496,
    "outputs": 36_864,
    "output_bytes": OUTPUT_BYTES,
    "input_bytes": INPUT_BYTES,
    "out_extent": 24,
    "excess_per_output": 2,
    "adds_per_output": 1,
    "multiplies_per_output": 1,
    "excess_share": 0.0035,
    "memory_gap": PARAMETER_BYTES,
    "smallest": 1,
    "largest": 256,
    "batch_gain": time_of(1, "retained") / (time_of(256, "retained") / 256),
    "source_gain": (time_of(16, "retained") / 16) / (time_of(256, "retained") / 256),
    "best_batch": 256,
    "best_rate": 256 * FLOPS_AN_IMAGE / time_of(256, "retained"),
    "best_share": 256 * FLOPS_AN_IMAGE / time_of(256, "retained") / PEAK,
    "ceiling": PEAK,
    "copy": COPY,
    "ridge": PEAK / COPY,
    "peak_one": 2,
    "peak_over_output": 2,
    "residual_executed": 0,
    "residual_variants": 0,
    "variants_counted": 2,
    "variants_explained": 2,
    "measurements": 2 * 2 * 6 * len(PAGES),
    "disturbed": 0,
    "processes_kept": 6,
    "processes_returned": 6,
    "policy_batch": 64,
    "policy_gain": gain(),
    "policy_batches": 3,
    "second_policy_gain": gain(1.25),
    "training_gain": gain(pass_="forward_backward"),
    "slowdown_least": round(time_of(16, "default") / time_of(16, "retained"), 2),
    "below_batch": 1,
    "gain_below": 1,
    "mapping_first": 16,
    "page": 4096,
    "pages_foreseen": 93.125,
    "pages_outputs": 72,
    "pages_least": 72,
    "pages_most": 93.125,
    "fault_price": PAGE_S,
    "policy_lost": 5_960 * PAGE_S,
    "mapping_time": 5_960 * PAGE_S,
    "priced_least": 1,
    "priced_most": 1,
}


@pytest.mark.parametrize("id_", VALUES)
def test_values_are_those_of_closed_forms(id_: str) -> None:
    assert value(FULL, id_) == pytest.approx(VALUES[id_], rel=1e-3)


VERDICTS: Mapping[str, str] = {
    "source-theory": "supported",
    "linear-work": "supported",
    "tensor-cores": "refuted",
    "profiler-overhead": "refuted",
    "compressed-memory": "refuted",
    "memory-explained": "supported",
    "work-explained": "supported",
    "variants-explained": "supported",
    f"peak-bounded-{MACHINE}": "refuted",
    f"better-use-{MACHINE}": "refuted",
    f"linear-time-{MACHINE}": "supported",
    f"policy-pays-{MACHINE}": "supported",
    f"pages-foreseen-{MACHINE}": "supported",
    f"more-than-pages-{MACHINE}": "undecided",
    "both-pay": "supported",
}


@pytest.mark.parametrize("id_", VERDICTS)
def test_verdicts(id_: str) -> None:
    assert verdict(FULL, id_) == VERDICTS[id_]


def test_a_full_record_gives_a_whole_paper() -> None:
    missing = set(re.findall(r"\[not measured\]\(#v-([\w-]+)\)", assert_whole(STUDY, FULL)))
    assert missing == {"processes-jemalloc", "jemalloc-gain"}
    assert set(FULL.figures) == {"fig-memory", "fig-rate", "fig-policies", "fig-priced"}


def test_the_source_is_explained_to_the_last_unit() -> None:
    for batch in (16, 32, 64, 128, 256):
        work = FULL.reconciliations[f"reported-work-{batch}"]
        assert [term.amount for term in work.terms] == [36_864 * batch] * 2 and work.explained


# -------------------------------------------------------------------------------- other data


def changed_pages(pages: int) -> Record:
    case = layer_case(256)
    rounds_ = tuple(
        msgspec.structs.replace(
            each,
            series=tuple(
                msgspec.structs.replace(s, samples=(pages,) * 15)
                if s.quantity == "page_faults" and each.policy == "default"
                else s
                for s in each.series
            ),
        )
        for each in case.rounds
    )
    changed = msgspec.structs.replace(case, rounds=rounds_)
    return record(cases=[layer_case(16), changed])


def timed(time: Any) -> Record:
    """Six processes that kept memory measured every batch of the source."""
    cases = [
        msgspec.structs.replace(
            factory.case(batch),
            rounds=factory.rounds(
                factory.scattered(time(batch) * (1 + 1e-4 * process)) for process in range(6)
            ),
        )
        for batch in (16, 32, 64, 128, 256)
    ]
    return record(cases=cases)


def one_policy() -> Record:
    kept = [
        msgspec.structs.replace(c, rounds=tuple(r for r in c.rounds if r.policy == "retained"))
        for c in record().cases
    ]
    return record(cases=kept)


#: A made-up record, a claim, and what becomes of it; nothing for a claim that is not made.
OTHER: Mapping[str, tuple[Record, str, str]] = {
    "pages that blocks do not fill": (changed_pages(24_000), "pages-foreseen", "refuted"),
    "larger batches pay": (timed(lambda b: 1e-2 + 1e-4 * b), "better-use", "supported"),
    "and their images take less": (timed(lambda b: 1e-2 + 1e-4 * b), "linear-time", "refuted"),
    "larger batches cost": (
        timed(lambda b: 1e-4 * b * (1 if b < 64 else 4)), "better-use", "refuted",
    ),
    "policy not named": (
        factory.record(factory.layer_cases((16, 32, 64, 128, 256))), "better-use", "not measured",
    ),
    "a peak of one output": (
        factory.record(factory.layer_cases((1, 4), peak=lambda batch: batch * OUTPUT_BYTES)),
        "peak-bounded", "supported",
    ),
    "no memory": (
        factory.record([factory.case(4, time=factory.scattered(1e-3))]), "peak-bounded",
        "not measured",
    ),
    "one policy alone": (one_policy(), "policy-pays", ""),
    "too few batches": (
        factory.record(factory.layer_cases((1, 4))), "linear-time", "not measured",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHER)
def test_verdicts_follow_the_data(kind: str) -> None:
    made, name, expected = OTHER[kind]
    result = found(made)
    assert_whole(STUDY, result)
    found_claim = result.claims.get(f"{name}-{MACHINE}")
    assert (found_claim.verdict if found_claim else "") == expected


def test_a_count_beside_theory_is_printed_as_it_is() -> None:
    cases = [layer_case(1, lackey_multiply_adds=[MACS + 7]), layer_case(16)]
    result = found(record(*variants(excess=-5), cases=cases))
    assert value(result, "residual_executed") == 7
    assert value(result, "residual_variants") == -5
    assert verdict(result, "variants-explained") != "supported"
    assert result.tables["tbl-variants"].columns[-1].name == "Residual, unexplained"


def test_a_changed_count_of_the_source_is_called_unexplained() -> None:
    this = inputs_of(STUDY)
    *first, last = this.reported.table("III").rows
    source = changed_table((*first, (*last[:-1], int(str(last[-1])) + 5)))
    result = findings(replace(this, reported=source))
    assert value(result, "residual_work") == 5
    assert verdict(result, "work-explained") != "supported"


def changed_table(rows: tuple[Any, ...]) -> Any:
    """The source with other rows in its Table III."""
    source = reported(STUDY)
    tables = tuple(
        msgspec.structs.replace(t, rows=rows) if t.id == "III" else t for t in source.tables
    )
    return msgspec.structs.replace(source, tables=tables)


@pytest.mark.parametrize(
    ("made", "missing", "known"),
    [
        (factory.record(peaks=()), ("ceiling", "copy", "ridge", "best_share"), "best_rate"),
        (factory.record(factory.layer_cases((1, 4))), ("source_gain",), "batch_gain"),
        (
            factory.record([factory.case(4, time=factory.scattered(1e-3))]),
            ("peak_over_output", "residual_executed", "residual_variants", "layout_gain"),
            "best_rate",
        ),
    ],
    ids=["no ceilings", "two batches", "no memory, no counts"],
)
def test_what_was_not_measured_has_a_reason(
    made: Record, missing: tuple[str, ...], known: str
) -> None:
    result = found(made)
    assert value(result, known) > 0
    for id_ in missing:
        content = number(result, id_)
        assert isinstance(content, Missing) and content.reason, id_


@pytest.mark.parametrize(
    "lost",
    [
        factory.case(8, time=[1e-9] * 9, status="failed", reason="It broke.", memory=None),
        factory.case(8, status="out_of_memory", reason="Memory ran out."),
        factory.case(8, time=[0, 0, 1e-6]),
    ],
    ids=["failed", "out of memory", "the clock stood still"],
)
def test_a_case_without_a_time_is_no_point(lost: Case) -> None:
    result = found(factory.record([*factory.layer_cases((1, 2, 4)), lost]))
    assert value(result, "largest") == 4
    for panel in result.figures["fig-rate"].drawing.panels:
        assert all(max(points.x) == 4 for points in panel.points)  # type: ignore[union-attr]


def test_bytes_that_differ_are_no_number() -> None:
    memory = {**factory.memory(64 * OUTPUT_BYTES, 999), "allocated_peak": [1, 2, 3]}
    cases = factory.layer_cases((1, 4))
    cases[1] = factory.case(4, "forward", factory.scattered(1e-2), memory)
    content = number(found(factory.record(cases)), "peak_over_output")
    assert isinstance(content, Missing) and "differed between repetitions" in content.reason


# ---------------------------------------------------------------------- machines and refusals


def test_the_prose_speaks_of_the_first_processor_beside_others() -> None:
    gpu = factory.record(
        factory.layer_cases((1, 4, 16)), factory.environment("example-100", factory.GPU)
    )
    result = found(gpu, record(slower=1.25, key="other-2t"), record())
    assert_whole(STUDY, result)
    assert result.facts["primary"] != result.facts["second"] != ""
    assert result.facts["gpu"] == "NVIDIA Example 100"
    assert found(gpu).facts["primary"] == "NVIDIA Example 100"
    assert f"policy-pays-{MACHINE}" in result.claims
    assert "better-use-example-100" not in result.claims


def test_a_slowdown_on_one_processor_alone_is_not_one_on_both() -> None:
    result = found(record(), record(slower=4.0, key="other-2t"))
    assert verdict(result, "both-pay") != "supported"


def test_another_layer_is_refused_and_another_name_is_not() -> None:
    other = msgspec.structs.replace(factory.layer(4), stride=(2, 2))
    with pytest.raises(StudyError, match=r"^data/.*cases\[0\]\.layers: found .*run the exp"):
        found(factory.record([factory.case(4, time=[1e-3] * 5, layers=(other,))]))
    named = factory.layer(4, "features.0")
    assert found(factory.record([factory.case(4, time=[1e-3] * 5, layers=(named,))]))


def test_a_source_without_a_number_is_refused() -> None:
    first, *rest = reported(STUDY).table("III").rows
    smudged = changed_table(((*first[:-1], Unreported(missing="smudged")), *rest))
    with pytest.raises(StudyError, match=r"row 1, total_flops: expected a whole number, found"):
        findings(inputs_of(STUDY, source=smudged))


def test_an_unknown_study_is_refused() -> None:
    with pytest.raises(StudyError, match=r"no such study; the studies are .*conv_scaling"):
        find_study("nope")
    assert find_study(STUDY) is findings and STUDY in STUDIES
