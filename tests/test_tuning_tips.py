"""tuning_tips: the study on artificial records.

The study compares calls of networks with a tip for faster code and without (the baseline), under
two policies: freed memory is returned or kept.
"""

from itertools import product

import msgspec
import pytest

from report.core.missing import Missing
from report.core.records.layers import Layer
from report.core.records.record import Case, Ceiling, Factors
from report.quantity.evaluation import point_estimate
from report.studies.tuning_tips import results, theory
from report.studies.tuning_tips.runs import Run
from report.studies.tuning_tips.source import TIPS
from report.studies.tuning_tips.subject import BATCH, NETWORKS, Trial
from report.theory import heap, work
from report.theory.networks import layers_of
from tests import factory
from tests.factory import record, round_, scattered
from tests.networks import convolution, mnist_example
from tests.papers import assert_values, assert_whole, findings_of, rows

STUDY = "tuning_tips"
#: Made-up speed-ups of tips with freed memory returned and with freed memory kept; others are 1.
GAINS = {
    "allocator": (1.25, 1.0), "compiled": (2.0, 1.5), "fused": (1.2, 1.2),
    "in_place": (0.8, 1.0), "no_grad": (0.8, 1.1),
}  # fmt: skip
#: Tips that are measured also with freed memory kept; ``control`` compares two equal calls.
TIPS_WITH_KEPT_MEMORY = ("control", "no_grad", "in_place", "fused", "compiled")
#: Rate of copying (B/s), and time to map a page.
COPY, PAGE_S = 3e10, 1e-6
#: Pages that a call maps without and with the tip, if freed memory is returned.
PAGES = {"compiled": (10_000, 0), "no_grad": (0, 10_000), "allocator": (10_000, 0)}


def layers(network: str, batch: int) -> tuple[Layer, ...]:
    if network == "MNIST CNN":
        return tuple(mnist_example(batch))
    return layers_of(network, {"ResNet-20": 32, "MobileNetV2": 64}[network], batch)


def case(tip: str, network: str, gain: float, memory: str = "returned", batch: int = BATCH) -> Case:
    """Return a case of eight pairs of processes; a call of the baseline lasts 0.1 s."""
    rounds = []
    baseline_pages, pages = PAGES.get(tip, (0, 0)) if memory == "returned" else (0, 0)
    for process in range(1, 9):
        series = {
            "time": scattered(0.1 / gain),
            "baseline_time": scattered(0.1 * (1 + 1e-4 * (process - 4.5))),
            "page_faults": (pages,) * 3,
            "baseline_page_faults": (baseline_pages,) * 3,
            "round_trip_time": [1e-4] * 3,
            "call_bytes": [1000],
        }
        rounds.append(round_(process, series, policy="default"))
    factors: Factors = {"tip": tip, "network": network, "batch": batch, "memory": memory}
    return Case(factors=factors, layers=layers(network, batch), rounds=tuple(rounds))


def ceilings() -> tuple[Ceiling, ...]:
    """Return the ceilings of a record; mapping a page lasts a microsecond."""
    pages = Ceiling(
        operation="page_mapping",
        moment="before",
        dtype="uint8",
        size="1000 pages of 4096 B",
        work=1000,
        work_unit="1",
        samples=tuple(scattered(1000 * PAGE_S)),
    )
    return (*factory.ceilings(), pages, msgspec.structs.replace(pages, moment="after"))


def comparisons(control: float = 1.0) -> list[Case]:
    """Return the cases of all comparisons; ``control``: gain of the control if memory is returned.

    The MNIST CNN has no batch norms that could be fused.
    """
    cases = []
    for tip, network in product(TIPS, NETWORKS):
        if (tip, network) != ("fused", "MNIST CNN"):
            gain, gain_if_kept = GAINS.get(tip, (1.0, 1.0)) if tip != "control" else (control, 1.0)
            cases.append(case(tip, network, gain))
            if tip in TIPS_WITH_KEPT_MEMORY:
                cases.append(case(tip, network, gain_if_kept, "kept"))
    return cases


def test_verdicts_are_counted_under_both_policies() -> None:
    """Expected counts are products of tips and three networks."""
    paper = findings_of(STUDY, record(comparisons(), peaks=ceilings(), study=STUDY))
    assert_whole(STUDY, paper)
    assert_values(paper, {
        # Thirteen tips, of which four have kept memory; one network has no batch norms to fuse.
        "comparisons_returned": 13 * 3 - 1, "comparisons_kept": 4 * 3 - 1,
        # Compiled networks and kept memory on three networks, fused batch norms on two.
        "faster_returned": 8, "slower_returned": 6, "faster_kept": 3 + 2 + 3,
        # Compiled networks, in-place activations and no gradients.
        "changed_gains": 9,
        "controls": 9, "controls_at_one": 9, "compiled_most": 2.0, "compiled_least": 2.0,
        "compiled_further": 1.5 / 2.0,
    })  # fmt: skip
    scores = {row["Prediction"]: row for row in rows(paper, "tbl-scores")}
    assert scores["No gain"]["Tips within"] == 3 + 3
    assert scores["Unchanged gain"]["Controls"] == pytest.approx(0, abs=1e-3)
    assert scores["Equation"]["Controls within"] == 3
    assert "torch.compile on ResNet-20" in paper.facts["changed"]
    # Kept memory saves two microseconds a page, twice the price.
    for id in ("compiled-pays", "compiled-pays-kept", "reversal", "more-pages-without-gradients",
               "allocator-pays", "more-than-pages"):  # fmt: skip
        assert paper.claims[id].verdict == "supported", id
    assert paper.claims["compiled-gains-by-keeping"].verdict == "refuted"
    times = {(row["Setting"], row["Memory"]): row["ResNet-20"] for row in rows(paper, "tbl-times")}
    assert times["torch.compile", "kept"].value == pytest.approx(0.1 / 1.5, rel=5e-3)
    assert times["gradients on", "returned"].value == pytest.approx(0.1, rel=5e-3)
    advice = {row["Tip"]: row for row in rows(paper, "tbl-advice")}
    assert advice["no gradients"]["Faster, memory kept"] == "all"
    verdict = {row["Verdict"] for row in rows(paper, "tbl-numbers") if row["Tip"] == "bfloat16"}
    assert verdict == {"undecided"}


def test_controls_with_a_gain_are_counted() -> None:
    """Three of nine controls have a gain of 1.3."""
    paper = findings_of(STUDY, record(comparisons(control=1.3), study=STUDY))
    assert_values(paper, {"controls_at_one": 6, "faster_returned": 8, "control_most": 1.3})


def test_a_wrong_result_is_no_speed_up() -> None:
    wrong = case("bfloat16", "ResNet-20", 2.0)
    reason = "wrong result (call 3 of process 9, seed 1): it changed its arguments"
    failed = round_(9, {}, policy="default", status="unavailable", reason=reason)
    cases = (
        case("control", "ResNet-20", 1.0),
        case("fused", "ResNet-20", 1.0),
        msgspec.structs.replace(wrong, rounds=(*wrong.rounds, failed)),
    )
    paper = findings_of(STUDY, record(cases, study=STUDY))
    assert_whole(STUDY, paper)
    assert_values(paper, {"comparisons_returned": 1, "faster_returned": 0})
    assert paper.claims["right-in-bfloat16"].verdict == "refuted"


def test_predictions_follow_from_shapes_ceilings_and_pages() -> None:
    content = record(comparisons(), peaks=ceilings(), study=STUDY)
    run = Run(factory.stored(content), "machine")
    norms = [layer for layer in layers("ResNet-20", BATCH) if type(layer).__name__ == "BatchNorm"]
    saved = sum(map(work.compulsory_traffic, norms)) / COPY
    expected = {
        Trial("fused", "ResNet-20"): 0.1 / (0.1 - saved),
        Trial("in_place", "MNIST CNN"): 1.0,
        # Eight convolutions free more than 4 MB: 1120 + 6 * 1536 + 1024 pages of a microsecond.
        Trial("allocator", "ResNet-20"): 0.1 / (0.1 - 0.01136),
        # Ten thousand pages of a microsecond are a tenth of the baseline's call.
        Trial("compiled", "MNIST CNN", memory="kept"): (0.1 - 0.01) / 0.05,
        Trial("no_grad", "MNIST CNN", memory="kept"): 0.1 / (0.125 - 0.01),
        Trial("in_place", "MNIST CNN", memory="kept"): 0.8,
    }
    for trial, speedup in expected.items():
        assert point_estimate(run.predicted(trial)) == pytest.approx(speedup, rel=0.02)
    # With gradients a call maps no page, so that the time stays; without, ten thousand pages less.
    trial = Trial("no_grad", "ResNet-20")
    assert point_estimate(run.time_where_kept(trial, "baseline_time")) == pytest.approx(
        0.1, rel=5e-3
    )
    assert point_estimate(run.time_where_kept(trial, "time")) == pytest.approx(
        0.125 - 0.01, rel=5e-3
    )
    # Only fused batch norms gain as predicted; the others miss.
    assert len(results.well_predicted(run)) == 2
    # Errors of unchanged gains: no gradients, in-place activations, compiled; none of fused norms.
    errors = 3 * (1 - 0.8 / 1.1) + 3 * 0.2 + 3 * (2.0 / 1.5 - 1)
    mean_error = point_estimate(results.mean_error(run, results.unchanged_gain))
    assert mean_error == pytest.approx(errors / 11, rel=0.02)
    assert len(results.comparisons(run, words=["slower"], tips=["in_place"])) == 3
    assert "no gradients on MNIST CNN" in results.names_of(run, results.badly_predicted)
    # Made-up records have no ceiling in bfloat16.
    assert isinstance(point_estimate(run.predicted(Trial("bfloat16", "ResNet-20"))), Missing)


def test_amounts_that_tips_save_by_hand() -> None:
    first = convolution((2, 1, 8, 8), 4, (3, 3))
    second = convolution((2, 4, 6, 6), 4, (3, 3), name="conv2")
    sizes = [work.output_bytes(first), work.input_bytes(second), work.output_bytes(second)]
    assert theory.layout_copies((first, second)) == 2 * sum(sizes)
    assert theory.chain_traffic(layers("MNIST CNN", 1)) == 0
    # At most 2 * 2304 + 1152 B are freed at once, less than the threshold of two pages.
    assert heap.returned_pages((first, second)) == 0
