"""training_roofline on its source, and on one made-up record of a GPU's memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from report.missing import Missing
from report.paper.findings import Findings
from report.records.record import Record
from report.studies.training_roofline.subject import NETWORKS, Step
from report.theory.roofline import training_loads
from report.theory.shapes import parameter_count
from tests import factory, training
from tests.papers import assert_whole, found_in, number, rendered, rows, value
from tests.training import case, record

STUDY = "training_roofline"
SMALL, HEAVY, LIGHT = NETWORKS
GIB = 2**30
#: The peak of the laptop's chip at its nominal clock, and its bandwidth.
CHIP, BUS = 2 * 7424 * 1.665e9, 432e9


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


FULL = found(on_gpu())


def by_hand(network: str, peak: float, bandwidth: float, batch: int = 128) -> float:
    """Seconds of a step whose layers run at the nearer of their roofs."""
    return sum(map(max, *both_roofs(network, peak, bandwidth, batch)))


def near_memory(network: str, peak: float, bandwidth: float) -> float:
    """The share of these seconds in which that roof is memory."""
    both = zip(*both_roofs(network, peak, bandwidth, 128), strict=True)
    memory = sum(moving for arithmetic, moving in both if moving > arithmetic)
    return memory / by_hand(network, peak, bandwidth)


def both_roofs(
    network: str, peak: float, bandwidth: float, batch: int
) -> tuple[list[float], list[float]]:
    """The seconds of each layer, and of the update, under either roof."""
    layers = training.layers_of(network, batch)
    loads = training_loads(layers)
    moved = [load.bytes for load in loads] + [5 * 4 * sum(map(parameter_count, layers))]
    return [load.flops / peak for load in loads] + [0.0], [b / bandwidth for b in moved]


def ratio(laptop: Mapping[int, float], t4: Mapping[int, float], peak: float) -> float:
    """The T4's mean efficiency over the laptop's, of throughputs times work by batch."""
    return sum(t4.values()) / 8.1e12 / (sum(laptop[b] for b in t4) / peak)


#: ResNet-18's work, and both networks' throughputs times work, by the batch (1 for ResNet-18).
WORK = {SMALL: 10.65e9, HEAVY: 24.3e9}
LAPTOP = {1: 1107 * WORK[SMALL], 32: 359 * WORK[HEAVY], 64: 366 * WORK[HEAVY]}
CLOUD = {1: 650 * WORK[SMALL], 32: 111 * WORK[HEAVY], 64: 117 * WORK[HEAVY]}

#: ResNet-18 on the T4: throughput by the printed rate, and that which is printed over its roofs.
BY_RATE = 0.362 * 8.1e12 / 5.46e9
ABOVE = 650 / 128 * by_hand(SMALL, 8.1e12, 320e9)

#: What the source and theory give, by hand where it is short.
EXPECTED: Mapping[str, float] = {
    "audited": 58,
    "differing": 18,
    "images": 9469,
    "paradox_printed": 2.9,
    "paradox": ratio(LAPTOP, CLOUD, CHIP),
    "paradox_by_print": (36.2 + 15.5 + 16.1) / (11.4 + 8.5 + 8.6) * CHIP / 48.7e12,
    "paradox_heavy": (111 + 117) / (359 + 366) * CHIP / 8.1e12,
    "laptop_peak": CHIP,
    "laptop_bandwidth": BUS,
    "usual_step": 128 / 366,
    "t4_small_by_throughput": ABOVE,
    "t4_small_by_print": BY_RATE / 128 * by_hand(SMALL, 8.1e12, 320e9),
    "t4_heavy_roof": 117 / 64 * by_hand(HEAVY, 8.1e12, 320e9, 64),
    "rtx_light_roof": 752 / 128 * by_hand(LIGHT, CHIP, BUS),
    "rtx_light_bandwidth": 752 * 472_256_970.75 / BUS,
    "lead_small": 1107 / 650,
    "lead_heavy": 366 / 117,
    "laptop_memory": 12 * GIB,
    "alive": 11_201_811_184,
    # Of the T4: what its printed rates need of its highest clock, and the ratio there.
    "t4_clock": 0.362 * WORK[SMALL] / 5.46e9,
    "paradox_slow": ratio(LAPTOP, CLOUD, CHIP) / (0.362 * WORK[SMALL] / 5.46e9),
    "t4_small_arithmetic": 650 * WORK[SMALL] / 8.1e12,
    "t4_small_spared": (1 - 1 / ABOVE) / near_memory(SMALL, 8.1e12, 320e9),
    "largest_map": 4 * 128 * 64 * 112 * 112,
    # What either reading of the rates takes.
    "scatter_small": (650 / BY_RATE - 1) ** 0.5,
    "scatter_fell": 1.731 / 128 * 0.0061 * 48.7e12 / 12.27e9,
    "scatter_fell_needed": (31 / (0.0061 * 48.7e12 / 12.27e9) - 1) ** 0.5,
    "startup": 100 * 128 * (1 / BY_RATE - 1 / 650),
    # The made-up record.
    "reserved": 13 * GIB,
    "light_reserved": 11 * GIB,
    "small_reserved": 13 / 3 * GIB,
    "half_reserved": 13 / 2 * GIB,
}


def test_values_are_those_of_closed_forms() -> None:
    seen = {id_: value(FULL, id_) for id_ in EXPECTED}
    assert seen == pytest.approx(EXPECTED, rel=4e-3)


VERDICTS = {
    "mostly-explained": "supported",
    "laptop-ahead": "supported",
    "readings-differ": "supported",
    "hardware": "supported",
    "compute-bound": "refuted",
    "light-memory": "supported",
    "heavy-arithmetic": "refuted",
    "one-exceeds": "supported",
}


def test_verdicts() -> None:
    assert {id_: claim.verdict for id_, claim in FULL.claims.items()} == VERDICTS


def test_full_records_give_a_whole_paper() -> None:
    assert_whole(STUDY, FULL)
    assert {*FULL.figures} == {"fig-source-roofline", "fig-shares", "fig-memory"}


def test_only_the_peak_and_the_failed_run_move_the_ratio() -> None:
    for heading, printed in (("Ratio", 3.07), ("By rates", 21 / 7.28)):
        cells = [row[heading] for row in rows(FULL, "tbl-paradox")]
        first, operations, chip, mean, heavy, slow = (getattr(c, "value", c) for c in cells)
        assert first == pytest.approx(printed, rel=3e-3)
        assert operations == pytest.approx(first, rel=0.01)
        assert chip / operations == pytest.approx(CHIP / 48.7e12, rel=2e-3)
        assert chip > mean > 1 > heavy and slow > chip


def test_every_printed_rate_is_below_its_throughput() -> None:
    assert pytest.approx(
        [
            getattr(c, "value", c)
            for c in (row["Rate ÷ throughput"] for row in rows(FULL, "tbl-readings"))
        ],
        abs=6e-3,
    ) == [0.92, 0.94, 0.93, 0.78, 0.83, 0.92, 0.91, 0.89]


#: Records, a claim, and what becomes of it.
OTHER: Mapping[str, tuple[Callable[[], list[Record]], str, str]] = {
    "no record": (list, "mostly-explained", "supported"),
    "no GPU": (lambda: [record()], "one-exceeds", "not measured"),
    "memory that suffices": (lambda: [on_gpu(heavy=11.5)], "one-exceeds", "refuted"),
    "both networks too large": (lambda: [on_gpu(light=12.5)], "one-exceeds", "refuted"),
}


@pytest.mark.parametrize("kind", OTHER)
def test_verdicts_follow_the_data(kind: str) -> None:
    make, name, expected = OTHER[kind]
    result = found(*make())
    assert result.claims[name].verdict == expected
    assert rendered(STUDY, result).text


def test_what_was_not_measured_has_a_reason() -> None:
    content = number(found(record([case(Step(SMALL, 64, 8), 1)])), "reserved")
    assert isinstance(content, Missing) and content.reason
