"""tuning_tips: the study on made-up records."""

from itertools import product

import msgspec
import pytest

from report.core.missing import Missing
from report.core.records.layers import Layer
from report.core.records.record import Case
from report.quantity.evaluation import point
from report.studies.tuning_tips import study as tips
from report.studies.tuning_tips.study import TIPS, Run, Trial
from report.theory import work
from report.theory.networks import layers_of
from tests import factory
from tests.factory import record, round_, scattered
from tests.networks import convolution, mnist_example
from tests.papers import assert_values, assert_whole, findings_of, rows

STUDY = "tuning_tips"
BATCHES = (4, 32)
#: Made-up speed-ups by tip; all others are 1.
GAINS = {"threads": 1.8, "fused": 1.2, "workers": 0.8, "no_grad": 1.1}
COPY = 3e10


def layers(network: str, batch: int) -> tuple[Layer, ...]:
    if network == "MNIST CNN":
        return tuple(mnist_example(batch))
    name, image = {"ResNet-20": ("ResNet-20", 32), "MobileNetV2": ("MobileNetV2", 64)}[network]
    return layers_of(name, image, batch)


def case(tip: str, network: str, batch: int, gain: float, memory: str = "returned") -> Case:
    """Make a case of eight pairs whose baseline takes a tenth of a second."""
    rounds = []
    for process in range(1, 9):
        series = {
            "time": scattered(0.1 / gain),
            "baseline_time": scattered(0.1 * (1 + 1e-4 * (process - 4.5))),
            "round_trip_time": [1e-4] * 3,
            "call_bytes": [1000],
        }
        rounds.append(round_(process, series, policy="default"))
    factors = {"tip": tip, "network": network, "batch": batch, "memory": memory}
    return Case(factors=factors, layers=layers(network, batch), rounds=tuple(rounds))


def comparisons(kept: float = 1.0, control: float = 1.0) -> list[Case]:
    """Make every comparison."""
    cases = []
    gains = GAINS | {"control": control}
    for tip, network, batch in product(TIPS, tips.NETWORKS, BATCHES):
        if (tip, network) != ("fused", "MNIST CNN"):
            cases.append(case(tip, network, batch, gains.get(tip, 1.0)))
        if tip in ("no_grad", "in_place"):
            cases.append(case(tip, network, batch, kept, "kept"))
    return cases


def test_verdicts_are_counted_and_tips_listed() -> None:
    paper = findings_of(STUDY, record(comparisons(), study=STUDY))
    assert_whole(STUDY, paper)
    assert_values(paper, {"comparisons": 13 * 6 - 2, "faster": 6 + 4 + 6})
    assert_values(paper, {"pairs": 6 * 8, "threads_most": 1.8})
    verdicts = {id for id, claim in paper.claims.items() if claim.verdict == "supported"}
    assert {"threads-pays", "fused-pays", "kept-memory-suffices"} <= verdicts
    assert paper.claims["workers-pays"].verdict == "refuted"
    verdict = {
        row["Verdict"] for row in rows(paper, "tbl-numbers") if row["Tip"] == "loader worker"
    }
    assert verdict == {"slower"}
    worse = findings_of(STUDY, record(comparisons(kept=1.2, control=1.1), study=STUDY))
    assert_values(worse, {"faster": 6 + 4, "pairs_above": 6 * 8})  # without no_grad
    assert worse.claims["control-is-biased"].verdict == "supported"
    assert worse.claims["reversal"].verdict == "supported"
    assert worse.claims["kept-memory-suffices"].verdict == "refuted"


def test_a_wrong_result_is_no_speed_up() -> None:
    wrong = case("fused", "ResNet-20", 4, 2.0)
    reason = "wrong result (call 3 of process 9, seed 1): it changed its arguments"
    failed = round_(9, {}, policy="default", status="unavailable", reason=reason)
    cases = (
        case("control", "ResNet-20", 4, 1.0),
        msgspec.structs.replace(wrong, rounds=(*wrong.rounds, failed)),
    )
    paper = findings_of(STUDY, record(cases, study=STUDY))
    assert_whole(STUDY, paper)
    assert_values(paper, {"comparisons": 1, "faster": 0})
    assert paper.claims["fused-pays"].verdict == "refuted"


def test_predictions_follow_from_shapes_and_ceilings() -> None:
    run = Run(factory.stored(record(comparisons(), study=STUDY)), "machine")
    norms = [layer for layer in layers("ResNet-20", 32) if type(layer).__name__ == "BatchNorm"]
    saved = sum(map(work.compulsory_traffic, norms)) / COPY
    expected = {
        Trial("fused", "ResNet-20", 32): 0.1 / (0.1 - saved),
        Trial("threads", "ResNet-20", 4): 2.0,
        Trial("in_place", "MNIST CNN", 4): 1.0,
    }
    for trial, speedup in expected.items():
        assert point(run.predicted(trial)) == pytest.approx(speedup, rel=0.02)
    # Made-up records have no ceiling in bfloat16.
    assert isinstance(point(run.predicted(Trial("bfloat16", "ResNet-20", 4))), Missing)


def test_amounts_that_tips_save_by_hand() -> None:
    first = convolution((2, 1, 8, 8), 4, (3, 3))
    second = convolution((2, 4, 6, 6), 4, (3, 3), name="conv2")
    sizes = [work.output_bytes(first), work.input_bytes(second), work.output_bytes(second)]
    assert tips.reordered((first, second)) == 2 * sum(sizes)
    assert tips.of_chains(layers("MNIST CNN", 1)) == 0
    assert tips.of_gradients((first,)) == 4 * work.parameter_bytes(first)
    assert tips.returned_pages((first, second)) == 0
