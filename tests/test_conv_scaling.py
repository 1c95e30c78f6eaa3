"""The study: values against closed forms, and what it says where something is missing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import msgspec
import pytest

from figures.scaling import Scaling
from report.errors import StudyError
from report.evidence.reported import Unreported
from report.missing import Missing
from report.paper.findings import Figure, Findings
from report.records.record import Case, Record
from report.studies import STUDIES, find_study
from report.studies.conv_scaling.study import findings
from tests import factory, papers
from tests.factory import FLOPS_AN_IMAGE, OUTPUT_BYTES, PARAMETER_BYTES
from tests.papers import found_in, inputs_of, number, reported, value

STUDY = "conv_scaling"
REPORTED = reported(STUDY)
BATCHES = (1, 4, 16, 64)


def found(*records: Record) -> Findings:
    return found_in(STUDY, *records)


def with_network(cases: Sequence[Case]) -> list[Case]:
    linear = msgspec.convert(
        {
            "type": "linear",
            "name": "fc2",
            "input_shape": [1, 128],
            "output_shape": [1, 10],
            "dtype": "float32",
            "bias": True,
        },
        factory.Layer,
    )
    return [*cases, factory.case(1, layers=(factory.layer(1), linear), subject="network")]


def verdict(result: Findings, id_: str) -> str:
    return result.claims[id_].verdict


def scalings(figure: Figure) -> list[Scaling]:
    """The panels of a figure that draw something over the batch size."""
    return [panel for panel in figure.drawing.panels if isinstance(panel, Scaling)]


def assert_whole(result: Findings) -> str:
    """Also every point of a figure that draws something over the batch size is one."""
    for figure in result.figures.values():
        for points in (points for panel in scalings(figure) for points in panel.points):
            assert len(points.x) == len(points.y) > 0
            assert all(math.isfinite(y) and y != 0 for y in points.y)
    return papers.assert_whole(STUDY, result)


# ------------------------------------------------------------------------------ closed forms


FULL = found(factory.record(with_network(factory.layer_cases(BATCHES))))


@pytest.mark.parametrize(
    ("id_", "expected"),
    [
        ("macs", 10_616_832),
        ("flops", FLOPS_AN_IMAGE),
        ("weights", 18_432),
        ("biases", 64),
        ("parameters", 18_496),
        ("parameter_bytes", PARAMETER_BYTES),
        ("outputs", 36_864),
        ("output_bytes", OUTPUT_BYTES),
        ("input_bytes", 4 * 32 * 26 * 26),
        ("out_extent", 24),
        ("training_ratio", 3),
        ("intensity_one", FLOPS_AN_IMAGE / (86_528 + PARAMETER_BYTES + OUTPUT_BYTES)),
        (
            "intensity_many",
            1024 * FLOPS_AN_IMAGE / (1024 * (86_528 + OUTPUT_BYTES) + PARAMETER_BYTES),
        ),
        ("work_share", 10_616_832 / (10_616_832 + 1_280)),
        ("parameter_share", 18_496 / (18_496 + 1_290)),
        ("excess_per_output", 2),
        ("adds_per_output", 1),
        ("multiplies_per_output", 1),
        ("fused_per_mac", 1),
        ("memory_gap", PARAMETER_BYTES),
        ("smallest", 1),
        ("largest", 64),
        ("time_smallest", 3e-4),
        ("time_largest", 1e-4 + 2e-4 * 64),
        ("batch_gain", 3e-4 / ((1e-4 + 2e-4 * 64) / 64)),
        ("best_batch", 64),
        ("best_rate", 64 * FLOPS_AN_IMAGE / (1e-4 + 2e-4 * 64)),
        ("ceiling", 2e11),
        ("copy", 3e10),
        ("ridge", 2e11 / 3e10),
        ("time_bound", FLOPS_AN_IMAGE / 2e11),
        ("backward_ratio", 3),
        ("peak_over_output", 2),
        ("saturated", 16),
    ],
)
def test_values_are_those_of_closed_forms(id_: str, expected: float) -> None:
    assert value(FULL, id_) == pytest.approx(expected, rel=1e-9)


def test_shares_are_rates_over_the_ceiling() -> None:
    assert value(FULL, "best_share") == pytest.approx(value(FULL, "best_rate") / 2e11)


def test_a_full_record_gives_a_whole_paper() -> None:
    text = assert_whole(FULL)
    assert "[not measured](#v-" not in text
    assert set(FULL.figures) == {
        "fig-memory",
        "fig-rate",
    }


# ---------------------------------------------------------------------------- what is missing


def out_of_memory_at_64() -> Record:
    cases = [case for case in factory.layer_cases(BATCHES) if case.factors["batch"] != 64]
    lost = [
        factory.case(64, pass_, status="out_of_memory", reason="Memory ran out.")
        for pass_ in ("forward", "forward_backward")
    ]
    return factory.record([*cases, *lost])


def test_out_of_memory_is_a_note_and_no_point() -> None:
    result = found(out_of_memory_at_64())
    assert_whole(result)
    table = result.tables["tbl-time-example-2t"]
    last = table.rows[-1]
    assert last[0] == 64
    assert all(isinstance(cell, Missing) for cell in last[1:])
    assert any("out of memory on Example Processor" in reason for reason in table.reasons)
    assert isinstance(result.tables["tbl-memory-example-2t"].rows[-1][3], Missing)
    for panel in result.figures["fig-rate"].drawing.panels:
        assert all(max(points.x) == 16 for points in panel.points)
    assert value(result, "largest") == 16


def test_the_source_is_explained_to_the_last_unit() -> None:
    """One addition and one multiplication an output element; the parameters."""
    result = found(factory.record())
    told = result.reconciliations
    for batch in (16, 32, 64, 128, 256):
        work = told[f"reported-work-{batch}"]
        assert [term.amount for term in work.terms] == [36_864 * batch] * 2
        assert work.explained
    assert verdict(result, "memory-explained") == verdict(result, "source-theory") == "supported"


def test_a_changed_count_of_the_source_is_called_unexplained() -> None:
    this = inputs_of(STUDY)
    table = this.reported.table("III")
    *first, last = table.rows
    rows = (*first, (*last[:-1], int(str(last[-1])) + 5))
    tables = tuple(
        msgspec.structs.replace(t, rows=rows) if t.id == "III" else t for t in this.reported.tables
    )
    changed = msgspec.structs.replace(this.reported, tables=tables)
    result = findings(dataclasses.replace(this, reported=changed))
    assert result.reconciliations["reported-work-256"].residual == 5
    assert value(result, "residual_work") == 5
    assert not result.reconciliations["reported-work-256"].explained
    assert verdict(result, "work-explained") != "supported"


def test_samples_of_a_failed_case_are_not_used() -> None:
    cases = factory.layer_cases((1, 2, 4))
    cases.append(factory.case(8, time=[1e-9] * 9, status="failed", reason="It broke.", memory=None))
    result = found(factory.record(cases))
    assert value(result, "largest") == 4
    row = result.tables["tbl-time-example-2t"].rows[-1]
    assert isinstance(row[1], Missing)
    assert "It broke." in row[1].reason


def test_a_clock_that_stood_still_measures_nothing() -> None:
    cases = [*factory.layer_cases((2, 4, 8)), factory.case(1, time=[0, 0, 1e-6])]
    result = found(factory.record(cases))
    assert_whole(result)
    assert value(result, "smallest") == 2


def test_two_batch_sizes_give_no_line() -> None:
    result = found(factory.record(factory.layer_cases((1, 4))))
    assert_whole(result)
    assert value(result, "batch_gain") > 1
    assert isinstance(number(result, "source_gain"), Missing)
    assert verdict(result, "linear-time-example-2t") == "not measured"


def test_without_ceilings_nothing_is_a_share() -> None:
    result = found(factory.record(peaks=()))
    assert_whole(result)
    for id_ in ("ceiling", "copy", "ridge", "best_share", "time_bound"):
        assert isinstance(number(result, id_), Missing)
    assert value(result, "best_rate") > 0
    assert verdict(result, "above-ridge-example-2t") == "not measured"
    assert not [band for p in result.figures["fig-rate"].drawing.panels for band in p.bands]


def test_without_memory_there_is_still_time() -> None:
    cases = [factory.case(b, time=factory.scattered(1e-3 * b)) for b in BATCHES]
    result = found(factory.record(cases))
    assert_whole(result)
    assert isinstance(number(result, "peak_over_output"), Missing)
    assert isinstance(number(result, "backward_ratio"), Missing)
    labels = [p.label for p in result.figures["fig-memory"].drawing.panels[0].points]
    assert labels == ["Source, allocated"]
    assert verdict(result, "peak-bounded-example-2t") == "not measured"


def test_bytes_that_differ_are_no_number() -> None:
    cases = factory.layer_cases(BATCHES)
    memory = {**factory.memory(64 * OUTPUT_BYTES, 999), "allocated_peak": [1, 2, 3]}
    cases[3] = factory.case(64, "forward", factory.scattered(1e-2), memory)
    result = found(factory.record(cases))
    assert_whole(result)
    cell = result.tables["tbl-memory-example-2t"].rows[-1][3]
    assert isinstance(cell, Missing)
    assert "differed between repetitions" in cell.reason


# -------------------------------------------------------------------------- several machines


def test_equal_labels_are_told_apart_by_their_keys() -> None:
    machines = [factory.environment(key) for key in ("example-2t", "example-2t-b")]
    result = found(*(factory.record(machine=machine) for machine in machines))
    assert_whole(result)
    assert len(set(result.facts["devices"])) == 2
    assert len(result.facts["time_tables"]) == len(set(result.facts["time_tables"])) == 2
    assert [id_ for id_, _ in result.facts["memory_tables"]] == ["tbl-memory-example-2t"]


def test_the_prose_speaks_of_a_run_that_was_timed() -> None:
    broken = factory.record(
        [factory.case(1, status="failed", reason="It broke.")], factory.environment("new")
    )
    result = found(broken, factory.record())
    assert result.facts["measured"]
    assert value(result, "largest") == 64


def gpu_record() -> Record:
    cases = [
        factory.case(
            batch,
            pass_,
            factory.scattered(1e-5 * batch),
            {
                **factory.memory(batch * OUTPUT_BYTES, batch * OUTPUT_BYTES),
                "reserved_before": [2**21] * 3,
                "reserved_after": [2**21 + 20_971_520 * (batch > 4)] * 3,
            },
        )
        for pass_ in ("forward", "forward_backward")
        for batch in BATCHES
    ]
    return factory.record(cases, factory.environment("example-100", factory.GPU))


def test_a_gpu_stands_beside_a_processor() -> None:
    result = found(gpu_record(), factory.record())
    assert_whole(result)
    assert result.facts["primary"] == "Example Processor, 2 threads"
    assert result.facts["gpu"] == "NVIDIA Example 100"
    assert found(gpu_record()).facts["primary"] == "NVIDIA Example 100"
    setup = {row[0]: row[1:] for row in result.tables["tbl-setup"].rows}
    assert setup["Driver, CUDA, cuDNN"][0] == "575.57.08, 12.9, 9.10"
    assert isinstance(setup["Driver, CUDA, cuDNN"][1], Missing)
    assert setup["Memory"][0] == "80.0 GiB"


def test_equal_memory_of_a_gpu_and_a_processor_is_printed_once() -> None:
    same = factory.layer_cases(BATCHES, peak=lambda batch: batch * OUTPUT_BYTES)
    gpu = factory.record(same, factory.environment("gpu", factory.GPU))
    result = found(gpu, factory.record(same))
    tables = [id_ for id_, _ in result.facts["memory_tables"]]
    assert tables == ["tbl-memory-gpu"]


# -------------------------------------------------------------------------------- refusals


def test_another_layer_is_refused() -> None:
    other = msgspec.structs.replace(factory.layer(4), stride=(2, 2))
    record = factory.record([factory.case(4, time=[1e-3] * 5, layers=(other,))])
    with pytest.raises(StudyError) as caught:
        found(record)
    message = str(caught.value)
    assert message.startswith(f"data/{factory.stored(record).file}: cases[0].layers: found ")
    assert message.endswith("run the experiment of this version again.")


def test_the_name_of_the_layer_does_not_matter() -> None:
    named = factory.layer(4, "features.0")
    result = found(factory.record([factory.case(4, time=[1e-3] * 5, layers=(named,))]))
    assert result.facts["measured"]


def test_cases_of_another_subject_are_left_alone() -> None:
    other = msgspec.structs.replace(factory.case(1), factors={"subject": "other", "size": 3})
    result = found(factory.record([*factory.layer_cases(BATCHES), other]))
    assert value(result, "largest") == 64


def test_a_source_without_a_number_is_refused() -> None:
    table = REPORTED.table("III")
    rows = ((*table.rows[0][:-1], Unreported(missing="smudged")), *table.rows[1:])
    tables = tuple(
        msgspec.structs.replace(t, rows=rows) if t.id == "III" else t for t in REPORTED.tables
    )
    smudged = inputs_of(STUDY, source=msgspec.structs.replace(REPORTED, tables=tables))
    with pytest.raises(StudyError, match=r"row 1, total_flops: expected a whole number, found"):
        findings(smudged)


def test_an_unknown_study_is_refused() -> None:
    with pytest.raises(StudyError, match=r"no such study; the studies are .*conv_scaling"):
        find_study("nope")
    assert find_study("conv_scaling") is findings
    assert "conv_scaling" in STUDIES


# ---------------------------------------------------------------------------------- claims


def slower_when_larger(batch: int) -> float:
    return 1e-4 * batch * (1 if batch < 64 else 4)


def kept(time: Callable[[int], float]) -> Record:
    """A record whose calls six processes measured while the C library kept freed memory."""
    cases = [
        msgspec.structs.replace(
            factory.case(batch),
            rounds=factory.rounds(
                factory.scattered(time(batch) * (1 + 1e-4 * process)) for process in range(6)
            ),
        )
        for batch in (16, 32, 64, 128, 256)
    ]
    plain = factory.record(cases)
    protocol = msgspec.structs.replace(plain.protocol, processes={"retained": 6}, budget_s=60.0)
    return msgspec.structs.replace(plain, protocol=protocol)


def test_verdicts_follow_the_data() -> None:
    times = (lambda b: 1e-2 + 1e-4 * b, slower_when_larger, lambda b: 1e-4 * b)
    better, worse, same = (found(kept(time)) for time in times)
    id_ = "better-use-example-2t"
    assert [verdict(r, id_) for r in (better, worse, same)] == ["supported", "refuted", "refuted"]
    linear = "linear-time-example-2t"
    assert verdict(same, linear) == "supported"
    assert verdict(better, linear) == "refuted"


def test_times_without_a_memory_policy_are_not_judged() -> None:
    """A GPU's are: PyTorch keeps its memory itself."""
    cases = factory.layer_cases((16, 32, 64, 128, 256), lambda b: 1e-2 + 1e-4 * b)
    result = found(factory.record(cases))
    for name in ("better-use", "linear-time", "layout-pays"):
        claim = result.claims[f"{name}-example-2t"]
        assert claim.verdict == "not measured"
        assert "names no memory policy" in claim.because
    gpu = factory.environment("gpu", factory.GPU)
    several, alone = (found(factory.record(c, gpu)) for c in (factory.by_processes(cases), cases))
    assert verdict(several, "better-use-gpu") == "supported"
    assert verdict(alone, "better-use-gpu") == "undecided"


def test_the_upper_bound_is_judged_by_the_peak() -> None:
    high = found(factory.record(factory.layer_cases(BATCHES)))
    low = found(
        factory.record(factory.layer_cases(BATCHES, peak=lambda batch: batch * OUTPUT_BYTES))
    )
    assert verdict(high, "peak-bounded-example-2t") == "refuted"
    assert verdict(low, "peak-bounded-example-2t") == "supported"


def test_the_claims_of_the_source_are_judged_by_its_own_numbers() -> None:
    assert verdict(FULL, "linear-work") == "supported"
    assert verdict(FULL, "profiler-overhead") == "refuted"
    assert verdict(FULL, "compressed-memory") == "refuted"
    assert verdict(FULL, "tensor-cores") == "refuted"


@pytest.mark.parametrize(
    ("product", "copy", "expected"),
    [(2e11, 3e10, "supported"), (2e12, 1e10, "refuted"), (8e11, 1e10, "refuted")],
    ids=["above", "below", "on both sides"],
)
def test_the_side_of_the_ridge(product: float, copy: float, expected: str) -> None:
    machine = factory.environment(host=factory.known_host())
    result = found(factory.record(machine=machine, peaks=factory.known_ceilings(product, copy)))
    assert verdict(result, "above-ridge-example-2t") == expected


def test_the_paper_names_what_gave_its_ceilings_where_the_record_knows_it() -> None:
    machine = factory.environment(host=factory.known_host())
    new = found(factory.record(machine=machine, peaks=factory.known_ceilings(2e11, 3e10)))
    text = assert_whole(new)
    assert "(torch.nn.Conv2d, 8 × 256 × 28 × 28, 3 × 3 to 256 channels)" in text
    assert "(torch.copy\\_, 64 MiB of working set)" in text
    assert value(new, "ceiling") == pytest.approx(2e11, rel=0.02)
    assert value(new, "copy") == pytest.approx(3e10, rel=0.02)
    old = assert_whole(FULL)
    assert "is the rate of a large matrix product" in old
    assert "a large copy moves" in old
