"""Declarations about CPUs: predicted peaks, rules under limits, and one allocation changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Final

from report.core.missing import Missing
from report.paper.study import Content
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, exact
from report.quantity.operations import largest, smallest
from report.studies.inference_memory import figures, theory
from report.studies.inference_memory.paper import (
    SHOWN_BATCH,
    Paper,
    changed,
    compared,
    cpu,
    limited,
    second,
    study,
)
from report.studies.inference_memory.results import (
    NO_BYTES,
    NO_RATIO,
    Peaks,
    beyond,
    frontier_ratios,
    limits,
    line_batch,
    peaks_of,
)
from report.studies.inference_memory.rules import (
    DESCRIPTIONS,
    GPU_TABLE,
    ROOM,
    ROOM_ON_GPU,
    RULES,
    SIDE,
    RuleComparison,
)
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import CHANGES, COALESCED, SHOWN, Limit, small
from report.theory.conditions import Layout

#: Ends of claims in words.
_HALF, _QUARTER, _SIXTH = 0.5, 0.25, 1 / 6
_NOT_RUN: Final = Missing("the time on the GPU was over")


# ------------------------------------------------------------------------------- predicted peaks


def _peaks(
    run: Run, count: Callable[[Peaks], Quantity], subset: Callable[[Peaks], Peaks] | None = None
) -> Quantity:
    """Count the float32 peaks of a CPU, of all networks or of a subset."""
    peaks = peaks_of(run)
    return count(subset(peaks) if subset else peaks)


def _missed(run: Run) -> str:
    """List the networks, layouts and batches whose peak exceeds its bound."""
    batches: dict[str, list[str]] = {}
    for call in peaks_of(run).misses:
        name = f"{call.network} in {call.layout.replace('_', ' ')}"
        batches.setdefault(name, []).append(str(call.batch))
    return "; ".join(f"{name} (batch {', '.join(own)})" for name, own in batches.items())


def _fall(run: Run) -> Quantity:
    """Divide the peak of one image by the peak of two images."""
    return run.peak(small(SHOWN, 1)) / run.peak(small(SHOWN, 2))


def _layout_saved(run: Run) -> Quantity:
    call = small(SHOWN, SHOWN_BATCH, layout=COALESCED)
    return 1 - run.peak(call) / run.peak(small(SHOWN, SHOWN_BATCH))


cpu.texts(missed=_missed)
for _id, _subset in (("", None), ("held_", Peaks.held_out)):
    cpu.values(
        **{
            f"{_id}exact": partial(_peaks, count=Peaks.exact, subset=_subset),
            f"{_id}compared": partial(_peaks, count=Peaks.compared, subset=_subset),
        }
    )
cpu.values(bounds=partial(_peaks, count=Peaks.bounds), fall=_fall)
cpu.values("percent", layout_saved=_layout_saved)
second.values(
    second_exact=partial(_peaks, count=Peaks.exact),
    second_compared=partial(_peaks, count=Peaks.compared),
)


@cpu.claim("Peaks of memory on a CPU are the predicted ones to the byte")
def peaks_exact(run: Run) -> Iterator[Statement]:
    for rest in peaks_of(run).rests(bounded=False):
        yield rest.exactly(0)


@cpu.claim("Where theory gives a bound, no peak on a CPU exceeds it")
def bounds_hold(run: Run) -> Iterator[Statement]:
    for rest in peaks_of(run).rests(bounded=True):
        yield rest > -1


# -------------------------------------------------------------------- limits of address space


def _limits(run: Run, met: bool = False, changed: bool = False) -> Quantity:
    """Count the limits of a run, or those under which the predicted batch ran."""
    rows = limits(run, changed)
    counted = [limit for limit, fits in rows if not met or limit.ran == fits.largest]
    return exact("limits", "1", len(counted), run.file)


def _beyond(run: Run) -> Quantity:
    return to_digits(largest(*beyond(run) or [NO_BYTES]), 2)


limited.values(limits=_limits, limits_met=partial(_limits, met=True))
limited.values("measured", beyond=_beyond)
study.constants(
    room=exact("slack (KiB)", "1", theory.ROOM >> 10),
    mapped=exact("mapping threshold (KiB)", "1", theory.MAPPED >> 10),
)


@limited.claim("Under a real limit of memory the predicted largest batch runs, within the slack")
def limits_within(run: Run) -> Iterator[Statement]:
    yield from _within(run)


def _within(run: Run, changed: bool = False) -> Iterator[Statement]:
    """An image more may run where it exceeds the limit by less than the slack; none less may."""
    for limit, fits in limits(run, changed):
        yield exact("images off", "1", limit.ran - fits.largest, run.file) > -1
    yield from (size < theory.ROOM + 1 for size in beyond(run, changed))


@cpu.table("limits")
def limits_of_memory(run: Run) -> Iterator[Mapping[str, Content]]:
    for limit, fits in limits(run):
        yield {
            "Network": limit.network,
            "Layout": limit.layout.replace("_", " "),
            "Limit (MB)": exact("limit", "B", limit.bytes, run.file),
            "Line": line_batch(run, limit) or Missing("the peak falls from 2 to 4 images"),
            "Ours": fits.largest,
            "Ran": limit.ran,
        }


# ------------------------------------------------------------------- limits of other networks


@study.mapping()
def _rules(p: Paper) -> dict[str, Quantity]:
    return p.rules.numbers()


@study.mapping("percent")
def _rules_on_gpu(p: Paper) -> dict[str, Quantity]:
    return p.rules.shares_on_gpu()


study.constants(rule_side=exact("pixels a side", "1", SIDE))
study.constants(
    "measured",
    rule_room_least=exact("room", "B", ROOM[0]),
    rule_room_middle=exact("room", "B", ROOM[1]),
    rule_room_most=exact("room", "B", ROOM[2]),
    gpu_room_least=exact("room", "B", ROOM_ON_GPU[0]),
    gpu_room_most=exact("room", "B", ROOM_ON_GPU[1]),
    descriptions=exact("descriptions of kernels", "B", DESCRIPTIONS),
)


@study.claim(
    "Under limits of other networks on a CPU our batch runs, or one image less does",
    numbers=("tensors_right",),
)
def rules_ours(p: Paper) -> Iterator[Statement]:
    off = [ran - predicted for _, predicted, ran in p.rules.answers("tensors")]
    if off:
        yield exact("images less", "1", min(off)) > -2
        yield exact("images more", "1", max(off)) < 1
        yield exact("share right", "1", off.count(0) / len(off)) > 1 - _SIXTH


@study.claim(
    "A line through the peaks of 2 and 4 images predicts up to seven times the batch",
    numbers=("line_most", "line_right", "rule_limits", "rule_networks"),
)
def rules_line(p: Paper) -> Iterator[Statement]:
    if ratios := p.rules.ratios("line"):
        yield exact("predicted over run", "1", ratios[-1]).near(7, 1 / 14)


@study.claim(
    "A line through the last doubling that fits is right in most cases, yet can promise double",
    numbers=("doubled_right",),
)
def rules_doubled(p: Paper) -> Iterator[Statement]:
    if ratios := p.rules.ratios("doubled"):
        yield exact("share right", "1", ratios.count(1) / len(ratios)) > _HALF
        yield exact("predicted over run", "1", ratios[-1]) > 2


@study.claim("The sum of torchinfo predicts less than half of the batch that runs, always")
def rules_sum(p: Paper) -> Iterator[Statement]:
    if ratios := p.rules.ratios("sum"):
        yield exact("predicted over run", "1", ratios[-1]) < _HALF


@study.claim("Most batches of the estimator torch-kitsune do not fit")
def rules_estimator(p: Paper) -> Iterator[Statement]:
    if ratios := p.rules.ratios("estimator"):
        yield exact("share too large", "1", sum(r > 1 for r in ratios) / len(ratios)) > _HALF


@study.claim(
    "On a GPU three quarters of the predicted batch run at least, and never more than it",
    numbers=("gpu_share_least",),
)
def rules_gpu(p: Paper) -> Iterator[Statement]:
    shares = sorted([*p.rules.shares("inference"), *p.rules.shares("training")])
    if shares:
        yield exact("least share", "1", shares[0]) > 1 - _QUARTER
        yield exact("most of the prediction", "1", shares[-1]) < 1 + 1e-9


@compared.table("rules", wide=True)
def rules_table(comparison: RuleComparison) -> Iterator[Mapping[str, Content]]:
    for rule, name in RULES.items():
        answers = comparison.answers(rule)
        wrong = {network for network, predicted, ran in answers if predicted != ran}
        if answers:
            yield {
                "Rule": name,
                "Limits": len(answers),
                "Right": sum(predicted == ran for _, predicted, ran in answers),
                "One image off": sum(abs(predicted - ran) == 1 for _, predicted, ran in answers),
                "Does not fit": sum(predicted > ran for _, predicted, ran in answers),
                "Over twice": sum(predicted > 2 * ran for _, predicted, ran in answers),
                "No image": sum(predicted == 0 for _, predicted, ran in answers),
                "Networks always right": len({network for network, *_ in answers} - wrong),
            }


@compared.table("gpu-limits", wide=True)
def limits_on_gpu(comparison: RuleComparison) -> Iterator[Mapping[str, Content]]:
    """The smaller limit of a network and a mode is the first in the table."""
    headings = product(("Inference", "Training"), ("smaller", "larger"))
    empty = {f"{mode}, {size} limit (%)": _NOT_RUN for mode, size in headings}
    rows: dict[str, dict[str, Content]] = {}
    for row in comparison.on_gpu:
        name = row.network.rpartition(":")[2]
        cells = rows.setdefault(name, {"Network": name, **empty})
        heading = f"{row.mode.capitalize()}, smaller limit (%)"
        if cells[heading] is not _NOT_RUN:
            heading = heading.replace("smaller", "larger")
        share = row.ran / row.predicted
        cells[heading] = exact("share", "1", share, f"inference_memory/{GPU_TABLE}")
    yield from rows.values()


# ----------------------------------------------------------------------- one allocation changed


def _frontier(run: Run, change: str, most: bool) -> Quantity:
    """Return the extreme ratio of the largest batch with a change to that without."""
    ratios = frontier_ratios(run, change).values()
    return (largest if most else smallest)(*ratios or [NO_RATIO])


def _lost(run: Run, most: bool) -> Quantity:
    """Return the extreme share of the largest batch that nested stages cost."""
    return 1 - _frontier(run, "nested", not most)


changed.values(
    changes=partial(_limits, changed=True),
    changes_met=partial(_limits, met=True, changed=True),
)
changed.values(
    "percent", nested_least=partial(_lost, most=False), nested_most=partial(_lost, most=True)
)


@changed.claim("With one allocation changed the newly predicted batch runs, within the slack")
def changes_within(run: Run) -> Iterator[Statement]:
    yield from _within(run, changed=True)


@changed.claim("ReLU in place raises the largest batch of AlexNet in channels last")
def in_place_gains(run: Run) -> Iterator[Statement]:
    for limit, ratio in frontier_ratios(run, "in_place").items():
        if _gains(limit):
            yield ratio > 1


@changed.claim("ReLU in place changes no largest batch elsewhere by more than one image")
def in_place_idle(run: Run) -> Iterator[Statement]:
    for limit, ratio in frontier_ratios(run, "in_place").items():
        if not _gains(limit):
            yield (ratio * limit.ran - limit.ran).near(0, 1)


@changed.claim("Nested stages cost a residual network a sixth to a quarter of its largest batch")
def nested_costs(run: Run) -> Iterator[Statement]:
    for ratio in frontier_ratios(run, "nested").values():
        yield 1 - ratio > _SIXTH
        yield 1 - ratio < _QUARTER


def _gains(limit: Limit) -> bool:
    return (limit.network, limit.layout) == ("AlexNet", COALESCED)


@changed.table("changes", wide=True)
def changes_of_networks(run: Run) -> Iterator[Mapping[str, Content]]:
    rows: dict[tuple[str, Layout, int], dict[str, Content]] = {}
    headings = product(("as written", *CHANGES.values()), ("ours", "ran"))
    unlike: Content = Missing("the network has no stages")
    empty = dict.fromkeys(map(", ".join, headings), unlike)
    for limit, fits in (*limits(run), *limits(run, changed=True)):
        words = CHANGES.get(limit.change, "as written")
        named: dict[str, Content] = {
            "Network": limit.network,
            "Layout": limit.layout.replace("_", " "),
            "Limit (MB)": exact("limit", "B", limit.bytes, run.file),
        }
        row = rows.setdefault(limit.setting, {**named, **empty})
        row |= {f"{words}, ours": fits.largest, f"{words}, ran": limit.ran}
    yield from rows.values()


cpu.figure(height=2.2)(figures.peaks)
compared.figure(key=True, height=2.4)(figures.rules)
