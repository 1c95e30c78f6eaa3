"""inference_memory: predictions by hand, and both verdicts of every claim.

The study predicts the largest batch that runs under a limit of memory.  The count is a rule that
adds the bytes of all tensors and workspaces.  Other rules extrapolate measured peaks by a line.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest

from report.core.missing import Missing
from report.engine.steps import ROOT
from report.paper.findings import Inputs
from report.studies.inference_memory import subject, theory
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import Baseline, OperatorBytes, TableLimit
from report.theory.conditions import Conditions
from tests import papers
from tests.degraded import altered_inputs, committed_inputs
from tests.papers import inputs_of

STUDY = "inference_memory"


#: Network, layout and limit (MiB) → predicted largest batch of the unchanged network, with ReLU in
#: place, and with nested stages.  The predictions were committed before any changed network ran.
LARGEST_BATCHES: Mapping[tuple[str, Any, int], tuple[int, ...]] = {
    ("ResNet-20", "contiguous", 16): (57, 57, 46),
    ("ResNet-20", "contiguous", 48): (179, 179, 144),
    ("ResNet-20", "channels_last", 16): (75, 75, 57),
    ("ResNet-20", "channels_last", 48): (235, 235, 179),
    ("ResNet-110", "contiguous", 16): (35, 35, 28),
    ("ResNet-110", "contiguous", 48): (158, 158, 127),
    ("ResNet-110", "channels_last", 16): (46, 46, 35),
    ("ResNet-110", "channels_last", 48): (207, 207, 158),
    ("AlexNet", "contiguous", 256): (11, 11),
    ("AlexNet", "contiguous", 384): (73, 73),
    ("AlexNet", "channels_last", 256): (11, 12),
    ("AlexNet", "channels_last", 384): (73, 81),
    ("VGG-16", "contiguous", 640): (3, 3),
    ("VGG-16", "contiguous", 800): (7, 7),
    ("VGG-16", "channels_last", 640): (4, 4),
    ("VGG-16", "channels_last", 800): (10, 10),
}


def test_an_allocation_alive_at_the_peak_changes_the_largest_batch() -> None:
    """Networks with two predictions have no stages, so that only ReLU can change."""
    avx512 = Conditions(threads=1, channels_per_block=16)
    for (network, layout, mebibytes), expected in LARGEST_BATCHES.items():
        image = subject.untiled_call(network, 1).image
        outcome = subject.LimitOutcome(network, image, layout, mebibytes, largest_batch=0)
        for change, batch in zip(("", *subject.CHANGE_LABELS), expected, strict=False):
            prediction = theory.predict_batch(outcome._replace(change=change), avx512)
            assert not isinstance(prediction, Missing)
            assert prediction.largest == batch


#: Peaks of a network at 2, 4, 8, … 256 images, which are on a line, then fixed bytes and bytes per
#: image by torchinfo and by torch-kitsune.  Under 1,000 B every rule predicts 10 images, but the
#: rule of tensors alone predicts 12.
BASELINE = Baseline("net", *(100 + 90 * 2**n for n in range(1, 9)), 0, 100, 0, 100)


def with_limits(cpu_batch: int, *gpu_batches: int) -> Inputs:
    """Return inputs without records, with tables of predictions of one network.

    The count predicts that 10 images fit into 1,000 B, and on a GPU 100.  ``cpu_batch`` is the
    largest batch that ran.  ``gpu_batches`` are the largest batches under one limit each.
    """
    limit, gpu_limits = TableLimit("net", "inference", 1_000, 10, cpu_batch, "fits"), []
    sizes = {"reserved_bytes": 1_100, "least_bytes": 900, "peak_bytes": 905}
    for batch in gpu_batches:
        on_gpu = TableLimit("net", "inference", 1_000, predicted_batch=100, largest_batch=batch)
        gpu_limits.append(msgspec.structs.replace(on_gpu, **sizes))
    # The numbers are fixed bytes and bytes per image, first of tensors alone and then in total.
    # One or two images have their peak at the first operator, larger batches at the second.
    operators = [OperatorBytes("net", 20, 40, 200, 40), OperatorBytes("net", 10, 80, 100, 90)]
    tables: dict[str, Any] = {subject.GPU_TABLES.limits: gpu_limits}
    tables[subject.REPEATED_LIMITS] = [limit]
    for cpu in (subject.AVX2_TABLES, subject.AVX512_TABLES):
        tables |= {cpu.limits: [limit], cpu.baselines: [BASELINE], cpu.operators: operators}
    return replace(inputs_of(STUDY), table=lambda name, row: tables[name])


def test_the_supplement_names_the_networks_compared_in_order() -> None:
    """With AVX-512, every third network is compared."""
    inputs = committed_inputs(STUDY)
    template = (ROOT / "templates" / "papers" / f"{STUDY}.qmd.j2").read_text("utf-8")
    section = template.partition("The networks compared, in")[2].partition("The source")[0]
    limits = inputs.table(subject.AVX2_TABLES.limits, TableLimit)
    names = [row.network for row in limits if not row.network.startswith("study:")]
    compared = [*dict.fromkeys(names)]
    assert re.findall(r"`(.+?)`", section) == [name.partition(":")[2] for name in compared]
    avx512_limits = inputs.table(subject.AVX512_TABLES.limits, TableLimit)
    assert [*dict.fromkeys(row.network for row in avx512_limits)] == compared[1::3]


def test_limits_of_networks_without_a_capture_are_left_out() -> None:
    for stored in committed_inputs(STUDY).records:
        limited = [case for case in stored.record.cases if subject.limit_outcome_of(case)]
        if limited:
            break
    other = msgspec.structs.replace(limited[0], factors={**limited[0].factors, "network": "other"})
    record = msgspec.structs.replace(stored.record, cases=(other, *limited[:2]))
    outcomes = [outcome for outcome, _ in Run(replace(stored, record=record), label="CPU").limits]
    assert {outcome.network for outcome in outcomes} <= {*subject.NETWORKS} and len(outcomes) == 2


# ``predicted``: batches of the count, of the line through 2 and 4 images, of the line through 8 and
# 16 images, and of the line near the limit.  ``runs``: of the searches from them, and of bisection.
@pytest.mark.parametrize(("largest", "predicted", "runs"), [
    # The searches try 8, 4, 6, 5, then 2, 4, 5, 6, then 8, 16, 7, 3, 5, 6, then 2, 4, 8, 5, 6, and
    # bisection tries 2, 4, 8, 6, 5.
    (5, (8, 5, 7, 5), (4, 4, 6, 5, 5)),
    # The line through 2 and 4 images predicts too much, so that its search tries 2, 4, 7, 5, 6.
    (5, (5, 7, 5, 6), (2, 5, 4, 5, 5)),
    (1, (8, 9, 3, 1), (4, 3, 5, 2, 2)),
    (9, (10, 30, 20, 10), (5, 8, 5, 6, 7)),
    # This line predicts too little: its search tries 2, 4, 20, 21, 23, 27, 35, 31, 29, 30.
    (30, (30, 20, 31, 40), (2, 10, 7, 9, 9)),
])  # fmt: skip
def test_searches_end_when_a_batch_ran_and_the_next_failed(
    largest: int, predicted: tuple[int, int, int, int], runs: tuple[int, ...]
) -> None:
    assert tuple(theory.runs_of_searches(largest, *predicted).values()) == runs


def test_a_line_through_two_peaks_meets_the_limit_unless_it_falls() -> None:
    """By hand: 2 + (1,000 − 200) // 20 = 42 images, and 8 + (1,000 − 400) // 50 = 20 images."""
    assert theory.batch_on_line({2: 200, 4: 240}, 2, 4, 1_000) == 42
    assert theory.batch_on_line({2: 200, 4: 240}, 2, 4, 1_019) == 42
    assert theory.batch_on_line({2: 240, 4: 200}, 2, 4, 1_000) is None
    assert theory.batch_on_last_line({2: 200, 4: 240, 8: 400, 16: 800, 32: 1_600}, 1_000) == 20
    assert theory.batch_on_last_line({2: 200, 4: 240}, 220) is None


def test_rules_without_an_answer_predict_no_batch() -> None:
    """The peaks fall, no operator's tensors grow, and the network has no estimate."""
    falling = Baseline("net", 9, 5, 4, 3, 2, 1, 1, 1, torchinfo_fixed=0, torchinfo_per_image=500)
    constant = OperatorBytes("net", 10, 0, 10, 0)
    batches = theory.batches_by_rule(falling, [constant], limit_bytes=1_000, counted_batch=7)
    assert batches == {"count": 7, "sum": 1_000 // 500}


def test_changed_records_change_the_verdict_of_each_claim() -> None:
    # More images run than the count predicts (but for a limit on the GPU), or fewer images run.
    low_count, high_count = with_limits(12, 50, 120), with_limits(5, 1)
    allocated = partial(altered_inputs, STUDY, "allocated_peak")
    requested = partial(altered_inputs, STUDY, "requested_peak")
    batch = partial(altered_inputs, STUDY, "batch_tried")
    # Three times the peak in float32, and the 33 MiB that cuBLAS keeps.
    tripled = requested(lambda _: 3 * 374_278_056 + 33 * 2**20,
                        network="CIFAR", batch=1024, precision="float16")  # fmt: skip
    refuted = "refuted"
    papers.assert_other_verdicts(
        STUDY,
        (refuted, low_count,
         "rules-ours", "rules-line", "rules-gpu", "rules-wide", "rules-smaller"),
        (refuted, high_count, "rules-search"),
        (refuted, allocated(lambda size: size + 4), "peaks-exact"),
        (refuted, allocated(lambda size: 2 * size, layout="channels_last", precision="bfloat16"),
         "both-save"),
        (refuted, allocated(lambda size: 100 * size, tile=64), "tiles-save"),
        (refuted, batch(lambda tried: tried - 1, subject="limit"), "limits-within"),
        (refuted, batch(lambda tried: tried // 2, change="in_place"), "in-place"),
        (refuted, batch(lambda tried: tried // 2, change="nested"), "nested-costs"),
        (refuted, requested(lambda _: 2**30), "layout-costs", "precision-costs", "spikes"),
        ("supported", tripled, "float16-triples"),
        (refuted, requested(lambda size: size + 1, roles=("gpu",)), "peaks-repeat"),
    )  # fmt: skip
