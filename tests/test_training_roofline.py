"""training_roofline on its source, and on one made-up record whose times are closed forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from report.missing import Missing
from report.paper.findings import Findings
from report.records.record import Record
from report.studies.training_roofline.subject import NETWORKS, Step
from tests import factory, training
from tests.papers import assert_whole, found_in, manuscript, number, rows, value
from tests.training import COPY, FASTER, OUTSIDE, PEAK, REACHED, case, layer_seconds, record

STUDY = "training_roofline"
SMALL, HEAVY, LIGHT = NETWORKS
GIB = 2**30

#: One step of oneDNN: a convolution of 3 ms between copies of 1 ms.
LOG = "onednn_verbose,v1,info,cpu,isa:AVX2\n" + "".join(
    f"onednn_verbose,v1,primitive,exec,cpu,{kind},jit:avx2,undef,src:f32::blocked:abcd::f0,,,"
    f"mb1ic1oc1,{milliseconds}\n"
    for kind, milliseconds in (("reorder", 1), ("convolution", 3), ("reorder", 1))
)
FILES = {f"onednn.profile-{network.lower()}-8.native.txt": LOG.encode() for network in NETWORKS}


def swept(batch: int) -> float:
    """Seconds of a step of ResNet-50 at a batch; half as much an image from 16 images on."""
    return 0.01 * batch / (1 + (batch >= 16))


def on_cpu(**change: Any) -> Record:
    plain = training.cases()
    steps = [Step(HEAVY, 64, batch) for batch in (4, 8, 16)]
    plain += [case(s, p, lambda step: swept(step.batch)) for s in steps for p in training.PROCESSES]
    return record(plain, **change)


def on_gpu(heavy: float = 13.0, light: float = 11.0) -> Record:
    """A GPU that trains 3 times as many images of ResNet-18 as of ResNet-50, and 2 of MobileNetV2.

    At the source's batch ResNet-50 reserves ``heavy`` GiB and MobileNetV2 ``light``.
    """
    seconds = {SMALL: 1 / 3, HEAVY: 1.0, LIGHT: 1 / 2}
    memory = {SMALL: 4.0, HEAVY: heavy, LIGHT: light}
    steps = [Step(n, 224, 128, p) for n in NETWORKS for p in ("float32", "tfloat32")]
    steps += [Step(n, 224, 64) for n in NETWORKS]
    made = [
        case(
            step,
            process,
            lambda step: seconds[step.network] * step.batch,
            reserved_peak=[int(memory[step.network] * step.batch / 128 * GIB)] * 2,
        )
        for step in steps
        for process in training.PROCESSES
    ]
    return record(made, factory.environment(key="example-gpu", gpu=factory.GPU))


def found(*records: Record) -> Findings:
    return found_in(STUDY, *records, files=FILES)


SECOND = factory.environment(key="other-2t")
FULL = found(on_cpu(), record(machine=SECOND), on_gpu())


def efficiency(network: str) -> float:
    step = Step(network, 224, 8)
    loads = training.training_loads(training.layers_of(network, 8))
    return sum(load.flops for load in loads) / sum(layer_seconds(step)) / OUTSIDE / PEAK


#: What the source and theory give, by hand where it is short.
OF_SOURCE: Mapping[str, float] = {
    "audited": 56,
    "differing": 16,
    "paradox_printed": 2.9,
    "laptop_peak": 2 * 7424 * 1.665e9,
    "work_ratio": 10.65 / 5.46,
    "laptop_mix": 1107 / 366,
    "t4_mix": 650 / 120,
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
    "ridge": PEAK / COPY,
    "watched_batch": 8,
    "small_efficiency": efficiency(SMALL),
    "light_efficiency": efficiency(LIGHT),
    "heavy_wide": REACHED,
    "depthwise_memory": REACHED,
    "light_copies": 2 / 5,
    "gain_before": 1,
    "gain_jump": 2,
    "reduced_light": FASTER,
    "gpu_mix": 3,
    "gpu_mix_fast": 3,
    "reserved": 13 * GIB,
    "half_reserved": 13 * GIB / 2,
}


@pytest.mark.parametrize("id_", [*OF_SOURCE, *OF_RECORDS])
def test_values_are_those_of_closed_forms(id_: str) -> None:
    assert value(FULL, id_) == pytest.approx({**OF_SOURCE, **OF_RECORDS}[id_], rel=3e-3)


VERDICTS = {
    "mostly-arithmetic": "supported",
    "laptop-ahead": "supported",
    "small-ahead": "supported",
    "outside-roofline": "supported",
    "inside-roofline": "supported",
    "hardware": "supported",
    "compute-bound": "refuted",
    "compute-bound-cached": "supported",
    "light-memory": "supported",
    "heavy-arithmetic": "refuted",
    "diminishing": "supported",
    "collapse-is-memory": "supported",
}


def test_verdicts() -> None:
    assert {id_: claim.verdict for id_, claim in FULL.claims.items()} == VERDICTS


def test_full_records_give_a_whole_paper() -> None:
    assert_whole(STUDY, FULL)
    assert {*FULL.figures} == {"fig-source-roofline", "fig-mix", "fig-memory", "fig-layers"}
    # Each layer reaches so much of the ceiling that theory gives it.
    for row in rows(FULL, "tbl-layers"):
        shares = [getattr(row[f"Of {what}"], "value", 0) for what in ("arithmetic", "memory")]
        assert max(shares) <= REACHED * 1.01


def test_the_paradox_shrinks_with_each_correction() -> None:
    ratios = [getattr(row["Ratio"], "value", row["Ratio"]) for row in rows(FULL, "tbl-paradox")]
    printed, rates, operations, chip, mean, nearest, *_ = ratios
    assert printed == pytest.approx(21 / 7.3, rel=2e-3) and operations == pytest.approx(
        rates, rel=0.01
    )
    # The peak of the chip moves the ratio by the ratio of the peaks, and nothing else.
    assert chip / operations == pytest.approx(2 * 7424 * 1.665e9 / 48.7e12, rel=2e-3)
    assert rates > chip > mean > 1 > nearest


#: Records, a claim, and what becomes of it.
OTHER: Mapping[str, tuple[Callable[[], list[Record]], str, str]] = {
    "no record": (list, "mostly-arithmetic", "supported"),
    "no GPU": (lambda: [on_cpu()], "collapse-is-memory", "not measured"),
    "memory that suffices": (lambda: [on_gpu(heavy=11.5)], "collapse-is-memory", "refuted"),
    "both networks too large": (lambda: [on_gpu(light=12.5)], "collapse-is-memory", "refuted"),
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
    for id_ in ("small_efficiency", "depthwise_memory", "gain_jump", "gpu_mix", "reduced_small"):
        content = number(result, id_)
        assert isinstance(content, Missing) and content.reason, id_


def test_a_rate_above_the_ceiling_has_no_efficiency() -> None:
    result = found(on_cpu(peaks=factory.ceilings(PEAK / 100, COPY)))
    assert isinstance(number(result, "small_efficiency"), Missing)
