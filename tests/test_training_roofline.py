"""training_roofline on its source, and on one made-up record whose times are closed forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from report.missing import Missing
from report.paper.findings import Findings
from report.records.record import Record
from report.studies.training_roofline.subject import NETWORKS, Step
from report.theory.roofline import training_loads
from report.theory.shapes import parameter_count
from tests import factory, training
from tests.papers import assert_whole, found_in, manuscript, number, rows, value
from tests.training import COPY, FASTER, OUTSIDE, PEAK, REACHED, case, record

STUDY = "training_roofline"
SMALL, HEAVY, LIGHT = NETWORKS
GIB = 2**30


def swept(batch: int) -> float:
    """Seconds of a step of ResNet-50 at a batch; half as much an image from 16 images on."""
    return 0.01 * batch / (1 + (batch >= 16))


def on_cpu(**change: Any) -> Record:
    plain = training.cases()
    steps = [Step(HEAVY, 64, batch) for batch in (4, 8, 16)]
    plain += [case(s, p, lambda step: swept(step.batch)) for s in steps for p in training.PROCESSES]
    return record(plain, **change)


def on_gpu(heavy: float = 13.0, light: float = 11.0) -> Record:
    """A GPU on which ResNet-50 reserves ``heavy`` GiB at the source's batch with TF32.

    ResNet-18 reserves a third of that, and MobileNetV2 ``light``.
    """
    memory = {SMALL: heavy / 3, HEAVY: heavy, LIGHT: light}
    steps = [Step(n, 224, 128, p) for n in NETWORKS for p in ("float32", "tfloat32")]
    steps += [Step(n, 224, 64) for n in NETWORKS]

    def reserved(step: Step) -> list[int]:
        return [int(memory[step.network] * step.batch / 128 * GIB)] * 2

    made = [
        case(step, p, lambda step: step.batch / 1000, reserved_peak=reserved(step))
        for step in steps
        for p in training.PROCESSES
    ]
    return record(made, factory.environment(key="example-gpu", gpu=factory.GPU))


def found(*records: Record) -> Findings:
    return found_in(STUDY, *records)


SECOND = factory.environment(key="other-2t")
FULL = found(on_cpu(), record(machine=SECOND), on_gpu())


def by_hand(network: str, peak: float, bandwidth: float, batch: int = 128) -> float:
    """Seconds of a step whose layers run at the nearer of their roofs."""
    layers = training.layers_of(network, batch)
    parameters = sum(map(parameter_count, layers))
    loads = training_loads(layers)
    inside = sum(max(load.flops / peak, load.bytes / bandwidth) for load in loads)
    return inside + 5 * 4 * parameters / bandwidth


#: What the source and theory give, by hand where it is short.
OF_SOURCE: Mapping[str, float] = {
    "audited": 56,
    "differing": 16,
    "paradox_printed": 2.9,
    "laptop_peak": 2 * 7424 * 1.665e9,
    "work_ratio": 10.65 / 5.46,
    "usual_step": 128 / 366,
    "t4_small_roof": 650 / 128 * by_hand(SMALL, 8.1e12, 320e9),
    "t4_small_rate": 0.362 * 8.1e12 / 5.46e9 / 128 * by_hand(SMALL, 8.1e12, 320e9),
    "rtx_light_roof": 752 / 128 * by_hand(LIGHT, 2 * 7424 * 1.665e9, 432e9),
    "lead_small": 1107 / 650,
    "first_gain": 117 / 111 - 1,
    "last_gain": 120 / 117 - 1,
    "t4_ridge": 8.1e12 / 320e9,
    "laptop_memory": 12 * GIB,
    "alive": 11_201_811_184,
    "fits": 147,
    "rtx_light_bandwidth": 752 * 472_256_970.75 / 432e9,
}
OF_RECORDS: Mapping[str, float] = {
    "ceiling": PEAK,
    "copy": COPY,
    "watched_batch": 8,
    # Every layer reaches so much of its nearer roof, and a step takes longer than its layers.
    "cpu_heavy_roof": REACHED / OUTSIDE,
    "cpu_light_roof": REACHED / OUTSIDE,
    "heavy_wide": REACHED,
    "depthwise_memory": REACHED,
    "gain_before": 1,
    "gain_jump": 2,
    "reduced_light": FASTER,
    "reserved": 13 * GIB,
    "half_reserved": 13 * GIB / 2,
}


@pytest.mark.parametrize("id_", [*OF_SOURCE, *OF_RECORDS])
def test_values_are_those_of_closed_forms(id_: str) -> None:
    assert value(FULL, id_) == pytest.approx({**OF_SOURCE, **OF_RECORDS}[id_], rel=3e-3)


VERDICTS = {
    "mostly-explained": "supported",
    "laptop-ahead": "supported",
    "above-roof": "supported",
    "hardware": "supported",
    "compute-bound": "refuted",
    "compute-bound-cached": "supported",
    "light-memory": "supported",
    "heavy-arithmetic": "refuted",
    "one-exceeds": "supported",
}


def test_verdicts() -> None:
    assert {id_: claim.verdict for id_, claim in FULL.claims.items()} == VERDICTS


def test_full_records_give_a_whole_paper() -> None:
    assert_whole(STUDY, FULL)
    assert {*FULL.figures} == {"fig-source-roofline", "fig-shares", "fig-memory", "fig-layers"}
    # Each layer reaches so much of the ceiling that theory gives it.
    for row in rows(FULL, "tbl-layers"):
        shares = [getattr(row[f"Of {what}"], "value", 0) for what in ("arithmetic", "memory")]
        assert max(shares) <= REACHED * 1.01


def test_the_paradox_shrinks_with_each_correction() -> None:
    ratios = [getattr(row["Ratio"], "value", row["Ratio"]) for row in rows(FULL, "tbl-paradox")]
    printed, rates, operations, chip, mean, heavy, light, small = ratios
    assert printed == pytest.approx(21 / 7.3, rel=2e-3) and operations == pytest.approx(
        rates, rel=0.01
    )
    # The peak of the chip moves the ratio by the ratio of the peaks, and nothing else.
    assert chip / operations == pytest.approx(2 * 7424 * 1.665e9 / 48.7e12, rel=2e-3)
    assert rates > chip > mean > 1 and small > 1 > heavy > light


#: Records, a claim, and what becomes of it.
OTHER: Mapping[str, tuple[Callable[[], list[Record]], str, str]] = {
    "no record": (list, "mostly-explained", "supported"),
    "no GPU": (lambda: [on_cpu()], "one-exceeds", "not measured"),
    "memory that suffices": (lambda: [on_gpu(heavy=11.5)], "one-exceeds", "refuted"),
    "both networks too large": (lambda: [on_gpu(light=12.5)], "one-exceeds", "refuted"),
    "no ceilings": (lambda: [on_cpu(peaks=())], "light-memory", "supported"),
}


@pytest.mark.parametrize("kind", OTHER)
def test_verdicts_follow_the_data(kind: str) -> None:
    make, name, expected = OTHER[kind]
    result = found(*make())
    assert result.claims[name].verdict == expected
    assert manuscript(STUDY, result)


def test_what_was_not_measured_has_a_reason() -> None:
    result = found(record([case(Step(SMALL, 64, 8), 1)]))
    for id_ in ("cpu_light_roof", "depthwise_memory", "gain_jump", "reserved", "reduced_small"):
        content = number(result, id_)
        assert isinstance(content, Missing) and content.reason, id_
