"""The study on a made-up record of closed forms: values, verdicts, and the audit of its source."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from report.instruments.trace import MemoryEvent, Operator, Trace
from report.missing import Missing
from report.paper.findings import Findings
from report.quantity.evaluation import point
from report.records.record import Case, Record
from report.studies.training_roofline.batches import by_doubling, times
from report.studies.training_roofline.figures import steps_panel
from report.studies.training_roofline.measured import Run, runs
from report.studies.training_roofline.memory import traced_kept
from report.studies.training_roofline.profiled import THRESHOLDS, main_profiles
from report.studies.training_roofline.source_audit import audit_by_kind
from report.studies.training_roofline.subject import NETWORKS, Step
from tests import factory, training
from tests.papers import column, devices, found_in, manuscript, number, reported, value, value_of
from tests.training import (
    COPY,
    PEAK,
    SHORT_PEAK,
    case,
    cases,
    layers_of,
    memory_of,
    record,
    steps_of,
)
from tests.training import profile as profile_case

STUDY = "training_roofline"
REPORTED = reported(STUDY)
SHAPES = {name: layers_of(name) for name in NETWORKS}
SMALL, HEAVY, LIGHT = NETWORKS
CHECKS = [c for found in audit_by_kind(REPORTED, SHAPES, devices()).values() for c in found]
#: So many processes bear a claim on several comparisons at 95 %.
MANY = tuple(range(1, 11))


@pytest.fixture(scope="module")
def full() -> Findings:
    return found_in(STUDY, record())


def run_of(of: Record) -> Run:
    (run,) = runs((factory.stored(of),))
    return run


def scaled(slower: float, of: Callable[[Step], bool]) -> training.Seconds:
    """Times of the factory, those ``of`` some steps longer by a factor."""
    return lambda step, layers: training.seconds(step, layers) * (slower if of(step) else 1.0)


def line(fixed: float, image: float) -> training.Seconds:
    return lambda step, layers: fixed + image * step.batch


# --------------------------------------------------------------------------------------- audit


def test_the_audit_computes_what_follows_by_hand() -> None:
    found = {c.formula: float(c.recomputed) for c in CHECKS}
    (laptop,) = (number for formula, number in found.items() if "2 · cores · clock" in formula)
    assert laptop == pytest.approx(24.72, abs=0.01)
    first = next(c for c in CHECKS if "images/s" in c.formula)
    assert float(first.recomputed) == pytest.approx(6.044, abs=1e-3)


# ------------------------------------------------------------------------------ the whole record


#: What theory and the source alone give; with a record and without one.
OF_SOURCE = {
    "heavy_ratio": pytest.approx(2, rel=0.03), "heavy_times": 2.97, "factored": 3,
    "desktop_peak": pytest.approx(48.74e12, rel=1e-3), "paradox_printed": 2.9,
    "rtx_light_bandwidth": pytest.approx(0.925, abs=6e-3), "source_batch": 128,
    "lowest_tabled": 0.006, "rate_lowest": 0.789, "nearest_least": 0.33, "collapse_fastest": 2.64,
    "t4_half": pytest.approx(3.568, abs=1e-3),
}  # fmt: skip
SOURCE_CLAIMS = {
    "hardware": "supported", "counted-once": "refuted", "compute-bound": "refuted",
    "compute-bound-cached": "supported", "light-memory": "supported",
    "heavy-arithmetic": "refuted", "diminishing-source": "supported", "paradox": "refuted",
    "paradox-left": "undecided", "paradox-others": "supported", "collapse-source": "supported",
    "throttling": "not measured",
}  # fmt: skip


@pytest.mark.parametrize("measured", [False, True])
def test_the_source_is_judged_by_theory_with_and_without_a_record(measured: bool) -> None:
    found = found_in(STUDY, *([record()] if measured else []))
    assert {id_: value(found, id_) for id_ in OF_SOURCE} == OF_SOURCE
    assert {id_: found.claims[id_].verdict for id_ in SOURCE_CLAIMS} == SOURCE_CLAIMS


def efficiency(network: str, batch: int) -> float:
    """The work of a step by shapes over its closed-form time and the peak."""
    step = Step(network, 64, batch)
    layers = layers_of(network, batch, 64)
    work = sum(load.flops for load in training.training_loads(layers))
    return work / training.seconds(step, layers) / PEAK


def test_values_and_verdicts_of_the_run_are_the_closed_forms(full: Findings) -> None:
    """Every layer of the factory reaches 60 % of its nearer ceiling."""
    expected = {
        "f32_peak": PEAK, "copy": COPY, "ridge": PEAK / COPY, "bf16_peak": SHORT_PEAK,
        "swept_image": 64, "watched_batch": 8, "watched_image": 224, "heavy_inside": 1 / 1.1,
        "small_best": max(efficiency(SMALL, b) for b in (2, 8, 32, 128)),
        "light_neither_high": 0, "heavy_arithmetic_low": value(full, "heavy_arithmetic"),
        "light_pointwise_near": 0.6, "memory_cases": 12, "residual_between": 0,

    }  # fmt: skip
    found = {id_: value(full, id_) for id_ in expected}
    assert found == {id_: pytest.approx(each, rel=0.03) for id_, each in expected.items()}
    verdicts = {"memory-bound": "undecided", "diminishing": "supported",
                "shorter": "supported"}  # fmt: skip
    of_run = {id_: full.claims[f"{id_}-example-2t"].verdict for id_ in verdicts}
    assert of_run == verdicts, "one profiled process decides nothing"
    gain = number(full, "heavy_gain_bfloat16")
    assert gain.low <= gain.value <= gain.high


def test_the_paradox_shrinks_step_by_step_over_the_same_cases(full: Findings) -> None:
    """The mean of the cases left, from the table of all of them."""
    shares = column(full, "tbl-corrected", "Of arithmetic")
    steps = column(full, "tbl-paradox", "Ratio")
    assert (steps[0], column(full, "tbl-paradox", "Cases")) == ("2.9", [4, 4, 4, 4, 3, 2, 1, 1])
    # Rows of the laptop's GPU first: ResNet-18, ResNet-50 at three batches, MobileNetV2.
    for step, own in ((3, (0, 1, 2, 3)), (4, (0, 1, 2)), (5, (1, 2)), (6, (0,)), (7, (4,))):
        ratio = sum(shares[5 + i] for i in own) / sum(shares[i] for i in own)
        assert steps[step].value == pytest.approx(ratio), step
        assert steps[step].low < ratio < steps[step].high, "the clock of the laptop is not known"


# ------------------------------------------------------------------------------------- verdicts


SHORT = scaled(3.0, lambda s: s.precision == "bfloat16" and s.layout == "contiguous")
#: A claim, the cases of the record, and the verdict on it.
JUDGED: dict[str, tuple[str, Callable[[], list[Case]], str]] = {
    "a line": ("diminishing", lambda: cases((SMALL,), line(0.08, 0.01)), "supported"),
    "a falling rate": ("diminishing", lambda: cases((SMALL,), line(-0.01, 0.01), MANY), "refuted"),
    "slower in bfloat16": ("shorter", lambda: cases((SMALL,), SHORT, MANY), "refuted"),
    "so in few processes": ("shorter", lambda: cases((SMALL,), SHORT, (1, 2, 3)), "undecided"),
    "beside one process": ("shorter", lambda: [
        *cases((SMALL,), SHORT, MANY), case(Step(SMALL, 224, 2), 1, SHORT),
        case(Step(SMALL, 224, 2, "bfloat16", "channels_last"), 1, SHORT)], "refuted"),
    "TF32 mixes nothing": ("shorter", lambda: [
        case(s, p) for p in MANY for s in (Step(SMALL, 64, 8), Step(SMALL, 64, 8, "tfloat32"))],
        "not measured"),
    "profiled by many": ("memory-bound", lambda: [
        in_rounds(c, 1.0) for c in cases(processes=MANY)], "supported"),
    "one of them slow": ("memory-bound", lambda: [
        in_rounds(c, 5.0) for c in cases(processes=MANY)], "undecided"),
    "slowed by watching": ("memory-bound", lambda: [
        c for n in NETWORKS for c in (profile_case(Step(n, 224, 8)), case(
            Step(n, 224, 8), 1, scaled(0.3, lambda step: True)))], "not measured"),
}  # fmt: skip


def in_rounds(measured: Case, slow: float) -> Case:
    """A watched step in eight processes; in the last its layers take longer."""
    if measured.factors.get("subject") != "profile":
        return measured
    rounds = []
    for process in range(1, 9):
        times = {s.quantity: list(s.samples) for s in measured.series}
        if process == 8:
            times = {
                name: [slow * t for t in found] if name.startswith("layer_") else found
                for name, found in times.items()
            }
        rounds.append(factory.round_(process, times))
    return msgspec.structs.replace(measured, series=(), rounds=tuple(rounds))


@pytest.mark.parametrize("name", JUDGED)
def test_claims_of_a_run_are_judged_by_its_times(name: str) -> None:
    claim, made, verdict = JUDGED[name]
    found = found_in(STUDY, record(made()))
    assert found.claims[f"{claim}-example-2t"].verdict == verdict
    assert manuscript(STUDY, found)


def test_a_gpu_is_compared_with_the_processor_of_most_threads_by_a_ratio() -> None:
    steps = [s for s in steps_of(SMALL) if s.image == 64]
    gpu = gpu_record([case(s, p, scaled(0.1, lambda s: True)) for s in steps for p in MANY])
    one = record(cases((SMALL,), processes=MANY), factory.environment(key="1t", threads=1))
    found = found_in(STUDY, gpu, one, record(cases((SMALL,), processes=MANY)))
    assert found.claims["gpu-over-cpu"].verdict == "supported"


# ------------------------------------------------------------------------- processes and layers


def test_layers_near_the_arithmetic_and_near_the_copy_are_told_apart() -> None:
    """Every layer reaches 60 % of the ceiling that theory gives it, at each step and threshold."""
    watched = main_profiles(run_of(record()))
    for profile in watched:
        sides = [value_of(profile.side_share(s)) for s in ("arithmetic", "traffic", "neither")]
        assert sum(sides) == pytest.approx(1)
        assert sides[1] == pytest.approx(value_of(profile.below_ridge()), abs=1e-6)
    panel = steps_panel(watched, THRESHOLDS)
    assert panel is not None
    neither = [list(row) for row in panel.series[2].x]  # type: ignore[call-overload]
    assert neither == [[0] * 8, [0] * 8, [100] * 8] * 3


# ------------------------------------------------------------------------------------- ceilings


def test_a_rate_above_the_ceiling_has_no_efficiency() -> None:
    found = found_in(STUDY, record(cases((SMALL,), lambda step, layers: 1e-4)))
    best = number(found, "small_best")
    assert isinstance(best, Missing)


# ------------------------------------------------------------------------------ ladder, batches


def test_a_last_doubling_that_gains_more_than_the_first_is_told() -> None:
    assert by_doubling(run_of(record(cases((SMALL,))))) == {}
    run = run_of(record(cases((SMALL,), scaled(0.25, lambda s: s.batch == 128))))
    rates = {b: b / point(time) for b, time in times(run, SMALL).items()}  # type: ignore[operator]
    (_, (_, found)) = by_doubling(run).items()
    last = (rates[128] / rates[32]) ** (1 / math.log2(128 / 32))
    assert point(found) == pytest.approx(last, rel=5e-3)


# ---------------------------------------------------------------------------------------- memory


def trace_of(*changes: int) -> Trace:
    """A forward pass with these events, and one more event after it."""
    end = len(changes)
    mark = Operator("ridgepoint.forward", 1, 0, end, None, None, 0, True)
    events = [MemoryEvent(i, c, True, None) for i, c in enumerate(changes)]
    return Trace((mark,), (*events, MemoryEvent(end + 1, 50, True, None)), ())


def test_what_a_trace_keeps_starts_where_gradients_are_gone() -> None:
    assert traced_kept(trace_of(100, -30, 20)) == 90
    assert traced_kept(trace_of(-500, 100, 20)) == 120
    assert isinstance(traced_kept(Trace((), (), ())), Missing)


def gpu_record(made: Sequence[Case], **change: Any) -> Record:
    return record(made, factory.environment(key="example-gpu", gpu=factory.GPU), **change)


def held(step: Step, extra: int) -> Case:
    before = memory_of(step, on_host=False).between_steps + extra
    return case(step, 1, requested_before=[before], requested_peak=[3 * before])


TWO, EIGHT, LAST = (Step(SMALL, 64, batch) for batch in (2, 8, 128))
WATCHED = Step(SMALL, 224, 8)
#: Cases of a record on a GPU, its peak, and a value of the section on it; None where it is missing.
ON_GPU: dict[str, tuple[list[Case], float, str, float | None]] = {
    "host-bound": ([case(TWO, 1, wait_time=[1e-6] * 9), case(LAST, 1, wait_time=[0.05] * 9)],
                   PEAK, "gpu_hosted", 1),
    "busy": ([case(LAST, 1, wait_time=[0.05] * 9)], PEAK, "gpu_hosted", 0),
    "constant residual": ([held(TWO, 4096), held(EIGHT, 4096)], PEAK, "gpu_residual", 4096),
    "growing residual": ([held(TWO, 4096), held(EIGHT, 8192)], PEAK, "gpu_residual", None),
    "none above": ([profile_case(WATCHED), case(WATCHED, 1)], PEAK, "gpu_above", 0),
}  # fmt: skip


@pytest.mark.parametrize("kind", ON_GPU)
def test_the_section_on_a_gpu_is_computed_from_its_record(kind: str) -> None:
    made, peak, id_, expected = ON_GPU[kind]
    found = found_in(STUDY, gpu_record(made, peaks=factory.ceilings(peak, COPY)))
    assert isinstance(number(found, id_), Missing) == (expected is None)
    assert expected is None or value(found, id_) == expected
    assert "{#sec-gpu}" in manuscript(STUDY, found)
