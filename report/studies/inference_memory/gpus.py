"""Declarations about GPUs: what precision and layout take in memory and in time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Final

from report.core.missing import Missing
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.operations import largest, smallest
from report.quantity.verdicts import Several, trend
from report.studies.inference_memory import figures, theory
from report.studies.inference_memory.paper import MARGIN, Paper, allocated, gpu, on_gpu, study
from report.studies.inference_memory.results import NO_BYTES
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import (
    COALESCED,
    LAYOUTS,
    PRECISIONS,
    REDUCED,
    SHOWN,
    InferencePrecision,
    small,
)
from report.theory.conditions import Layout

#: The batches at which channels last takes most on the GPU.
SWELLING: Final = (128, 512, 1024)
#: The batches of sentences; the source's lie among the first five.
PRINTED: Final = (64, 128, 256, 512, 1024, 4096, 16_384)
#: Most are more than this share.
_MOST: Final = 0.5

study.constants(**{f"at_{batch}": exact("batch size", "1", batch) for batch in PRINTED})


# ------------------------------------------------------------------------------- requested bytes


@on_gpu.mapping("percent")
def _saved(p: Paper) -> dict[str, Quantity]:
    return {f"saved_{batch}": p.allocated.saved(batch) for batch in (256, 512, 4096, 16_384)}


@on_gpu.mapping()
def _copy_counts(p: Paper) -> dict[str, Quantity]:
    """Count workspaces, and how many have the size of copies to a layout that kernels need."""
    counts: dict[str, Quantity] = {}
    for prefix, halved, layout in (("", True, LAYOUTS[0]), ("last_", False, COALESCED)):
        copies = p.allocated.copies(halved, layout)
        for id, count in (("workspaces", copies.taken), ("copies", copies.copies)):
            counts[f"{prefix}{id}"] = (
                exact("workspaces", "1", count, p.allocated.file)
                if copies.convolutions
                else absent("workspaces", "1", "no history of a GPU's allocator was recorded")
            )
    return counts


@on_gpu.mapping()
def _ratios(p: Paper) -> dict[str, Quantity]:
    """Compare peaks by layout, by precision, and from batch to batch."""
    peak, ratio = p.allocated.peak, p.allocated.ratio
    return {
        "last_peak": ratio(64, layout=COALESCED),
        **{f"last_{batch}": ratio(batch, layout=COALESCED) for batch in SWELLING},
        "last_most": _most(p, "float32", COALESCED),
        "half_most": _most(p, "float16", LAYOUTS[0]),
        "more_128": ratio(128, REDUCED),
        "most_128": ratio(128, "float16"),
        "weights_alexnet": ratio(1, REDUCED, network="AlexNet"),
        "weights_alexnet_16": ratio(16, REDUCED, network="AlexNet"),
        "weights_vgg": ratio(1, REDUCED, network="VGG-16"),
        "spike": peak(256) / peak(128),
        "spike_most": peak(16_384) / peak(4096),
    }


def _most(p: Paper, precision: InferencePrecision, layout: Layout) -> Quantity:
    """Divide the largest peak by the peak of the contiguous call in float32."""
    return largest(*p.allocated.ratios(precision, layout) or [NO_BYTES])


def _repeated(p: Paper) -> Quantity:
    return exact("peaks measured on two GPUs", "1", len(p.allocated.repeated()))


on_gpu.values(repeated=_repeated)


@on_gpu.claim("Every allocator history of a GPU holds the tensors of theory, in order")
def tensors_requested(p: Paper) -> Iterator[Statement]:
    for history in p.allocated.histories():
        holds = not isinstance(history, Missing)
        yield exact("history of tensors", "1", holds, p.allocated.file).exactly(1)


@on_gpu.claim(
    "Most workspaces of a GPU copy tensors into its layout, and none do where they lie so"
)
def layout_copies(p: Paper) -> Iterator[Statement]:
    copied = (p.allocated.copies(True, LAYOUTS[0]), p.allocated.copies(False, COALESCED))
    plain = p.allocated.copies(False, LAYOUTS[0])
    if not plain.convolutions or not all(copies.taken for copies in copied):
        return
    for copies in copied:
        share = copies.copies / copies.taken
        yield exact("share of copies", "1", share, p.allocated.file) > _MOST
    yield exact("copies", "1", plain.copies, p.allocated.file).exactly(0)


@on_gpu.claim("Half precision costs more than a tenth of memory at batch 128 on a GPU")
def precision_costs(p: Paper) -> Iterator[Statement]:
    for precision in (REDUCED, "float16"):
        yield p.allocated.ratio(128, precision) > 1 + MARGIN


@on_gpu.claim("Half precision can triple the peak on a GPU")
def precision_triples(p: Paper) -> Iterator[Statement]:
    yield _most(p, "float16", LAYOUTS[0]).near(3, MARGIN)


@on_gpu.claim(
    "Channels last more than doubles ResNet-20's peak on a GPU at three batch sizes",
    numbers=("last_most",),
)
def layout_costs(p: Paper) -> Iterator[Statement]:
    for batch in SWELLING:
        yield p.allocated.ratio(batch, layout=COALESCED) > 2


@on_gpu.claim("For one image half precision takes a third more memory, for copies of weights")
def weights_cost(p: Paper) -> Iterator[Statement]:
    """The growth is the parameters' half, within a tenth of it."""
    for network in ("AlexNet", "VGG-16"):
        captured = theory.network(small(network, 1))
        assert not isinstance(captured, Missing)
        halves = exact("half of the parameters", "B", 2 * captured.network.parameter_count)
        grown = p.allocated.peak(1, REDUCED, network) - p.allocated.peak(1, network=network)
        yield p.allocated.ratio(1, REDUCED, network=network) > 1 + 1 / 3
        yield (grown / halves).near(1, MARGIN)


@on_gpu.claim("Three GPUs of one model request the same peaks, to the byte")
def peaks_repeat(p: Paper) -> Iterator[Statement]:
    for difference in p.allocated.repeated():
        yield difference.exactly(0)


@on_gpu.claim("A GPU's peak of memory grows with every batch size of the source")
def memory_monotone(p: Paper) -> Several:
    return trend({batch: p.allocated.peak(batch) for batch in PRINTED[:5]}, rising=True)


# ------------------------------------------------------------------------ time and accuracy


def _extreme_time(run: Run, most: bool) -> Quantity:
    """Return the extreme ratio of times."""
    return (largest if most else smallest)(*_times(run))


def _times(run: Run) -> list[Quantity]:
    """Divide times of ResNet-20 in half precision by those in float32, over the batch."""
    times = []
    for exponent, precision in product(range(11), PRECISIONS[1:]):
        half, single = small(SHOWN, 2**exponent, precision), small(SHOWN, 2**exponent)
        times.append(run.time(half) / run.time(single))
    return times


def _faster(run: Run) -> Quantity:
    """Count the calls in half precision that are faster by more than a tenth."""
    ratios = [point(ratio) for ratio in _times(run)]
    known = [ratio for ratio in ratios if not isinstance(ratio, Missing)]
    return exact("faster calls", "1", sum(ratio < 1 - MARGIN for ratio in known), run.file)


def _right(run: Run, precision: InferencePrecision) -> Quantity:
    """Count the digits that ResNet-20 recognizes; absent for a run that scored none."""
    scores = run.correct(precision)
    counted = exact("recognized", "1", sum(scores), run.file)
    return counted if scores else absent("recognized", "1", "no digits were scored")


gpu.values(half_faster=_faster, **{f"right_{p}": partial(_right, precision=p) for p in PRECISIONS})
gpu.values(half_fastest=partial(_extreme_time, most=False))
gpu.values(half_slowest=partial(_extreme_time, most=True))
allocated.figure(height=2.2, wide=True, same_axes=True)(figures.cost)
