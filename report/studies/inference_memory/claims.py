"""What is claimed of inference, by the source and by this paper; the template has the words.

A claim about all networks holds only where it does for each of them.  What was published for a GPU
is judged on GPUs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from report.paper.claims import judge
from report.paper.findings import Claim, Inputs
from report.quantity.evaluation import level
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_most, first_within
from report.quantity.verdicts import (
    Range,
    Several,
    Statement,
    all_of,
    any_of,
    equals,
    exactly,
    expect,
    trend,
)
from report.studies.inference_memory import scores
from report.studies.inference_memory.choices import (
    all_tried,
    compared_base,
    settings,
)
from report.studies.inference_memory.gpu import layout_ratio
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.peaks import (
    TOLERANCE,
    held_out,
    judged,
    off,
    reduced,
    rightly_predicted,
)
from report.studies.inference_memory.subject import REDUCED, TILED, Call
from report.studies.inference_memory.sweeps import (
    ENOUGH,
    amp_pairs,
    both_bases,
    ends,
    plain,
    rates,
    resnets,
    sweep,
    tiled_calls,
    with_both,
)
from report.studies.inference_memory.values import NO_RECORD, needed_saved

#: A change of accuracy (share of the images) or of mean loss (nats) that is none for a user.
SAME_SCORE: Final = 0.01
#: «About half» is a half within this.
ABOUT: Final = 0.1
#: What is judged: one comparison, or several.
_Claimed = Statement | Several
_NOTHING: Final = Statement(absent("case", "1", "no such case was measured"), exactly(1))

_ONE_SIDE: Final = Statement(
    absent("wrong predictions", "1", "no limited call ran out of memory, or none ran"), exactly(0)
)


def all_claims(inputs: Inputs, runs: Sequence[Run]) -> Iterator[Claim]:
    """Every claim, judged on each of ``runs``; one that says so where there is none."""
    for run in runs:
        found = {**_of_memory(run), **_of_batches(inputs, run), **_of_precision(inputs, run)}
        found |= {**_of_tiles(run), "no-one-wins": _no_one_wins(run)}
        found |= _of_gpu(run) if run.on_gpu else _of_processor(run)
        for name, claimed in found.items():
            yield judge(f"{name}-{run.key}", claimed, name=name, label=run.label)
    if not runs:
        yield judge("peak-theory", Statement(absent("peak", "B", NO_RECORD.reason), exactly(0)))


def _all(found: Iterable[Quantity], claimed: Range, about: str = "") -> _Claimed:
    """That all of those quantities that were measured are as claimed."""
    known = [each for each in found if not each.missing]
    return all_of(*(Statement(each, claimed, about) for each in known)) if known else _NOTHING


def _any(found: Iterable[Quantity], claimed: Range) -> _Claimed:
    """That any of those is."""
    known = [each for each in found if not each.missing]
    return any_of(*(Statement(each, claimed) for each in known)) if known else _NOTHING


# -------------------------------------------------------------------------------------- memory


def _of_memory(run: Run) -> dict[str, _Claimed]:
    peaks = [
        {call.batch: size for call in sweep(run, network) if not (size := run.peak(call)).missing}
        for network in resnets(run)
    ]
    rising = [trend(found, rising=True) for found in peaks if len(found) > 1]
    return {
        "memory-monotone": all_of(*rising) if rising else _NOTHING,
        "falls-first": _all(_first_steps(run), expect("< 1")),
    }


def _of_processor(run: Run) -> dict[str, _Claimed]:
    """What this paper claims of a processor, whose workspaces it knows."""
    outcomes = rightly_predicted(run)
    wrong = exact("wrong predictions", "1", list(outcomes.values()).count(False), run.file)
    tried = {run.ran_out(call) for call in outcomes} == {True, False}
    return {
        "peak-theory": _all(
            (off(run, this) for this in judged(run).values()), equals(0, within=TOLERANCE)
        ),
        "held-out": _all(
            (off(run, this) for this in held_out(run).values()), equals(0, within=TOLERANCE)
        ),
        "reduced-bound": _all((off(run, this) for this in reduced(run).values()), expect(">= 0")),
        "limit-theory": Statement(wrong, exactly(0)) if wrong.value or tried else _ONE_SIDE,
    }


def _first_steps(run: Run) -> Iterator[Quantity]:
    """The peak of each ResNet at its second batch size over that at its first."""
    for network in resnets(run):
        first, *rest = (run.peak(call) for call in sweep(run, network))
        if rest:
            yield rest[0] / first


# ----------------------------------------------------------------------------- batch sizes


def _of_batches(inputs: Inputs, run: Run) -> dict[str, _Claimed]:
    """Time of a fixed number of images, and so utilisation, over the batch size."""
    best_up_to, low, high, last = (
        int(inputs.reported.value(id_).number)
        for id_ in ("best_up_to", "middle_low", "middle_high", "large_high")
    )

    def change(before: int, after: int) -> list[Quantity]:
        return [_step(run, network, before, after) for network in resnets(run)]

    calls = ends(run)
    slower = (run.image_time_ratio(calls[-1], call) for call in calls[:-1])
    return {
        "time-falls": _all(change(1, best_up_to), expect("< 1")),
        "time-rises": _any(change(best_up_to, low) + change(best_up_to, high), expect("> 1")),
        "time-large": _any(change(high, last), expect("< 1")),
        "use-plateau": _all(_plateaus(run, high), Range(ENOUGH, 1 / ENOUGH, closed=True)),
        "use-depth": _all(_deeper(run), expect("> 1")),
        "largest-slower": _any(slower, expect("> 1")),
    }


def _step(run: Run, network: str, before: int, after: int) -> Quantity:
    """Time of an image at one batch over that at another."""
    by_batch = {call.batch: call for call in sweep(run, network)}
    if before not in by_batch or after not in by_batch:
        return _NOTHING.quantity
    return run.image_time_ratio(by_batch[after], by_batch[before])


def _plateaus(run: Run, middle: int) -> Iterator[Quantity]:
    """Rate at the largest batch over that from which it should hardly change.

    That is the end of the source's middle range, or the knee where it lies behind, but one step
    before the largest batch at least.
    """
    for network in resnets(run):
        found = rates(run, network)
        knee = level(first_within(found, ENOUGH, "1"))
        before = [b for b in found if b <= max(middle, knee) and b != max(found)]
        if before and max(found) > middle:
            yield found[max(found)] / found[max(before)]


def _deeper(run: Run) -> Iterator[Quantity]:
    """Rate of arithmetic of the deepest network over that of the shallowest, by batch size."""
    first, last = ({call.batch: call for call in ends(run, at)} for at in (0, -1))
    if len(resnets(run)) > 1:
        yield from (run.rate(last[b]) / run.rate(first[b]) for b in first if b in last)


# ------------------------------------------------------------------------- precision and layout


def _of_precision(inputs: Inputs, run: Run) -> dict[str, _Claimed]:
    limit = int(inputs.reported.value("best_up_to").number)
    small = [(call, base) for call, base in amp_pairs(run) if call.batch < limit]
    low, high = (inputs.reported.value(f"amc_saving_{end}").number for end in ("low", "high"))
    printed = Range((low - 0.5) / 100, (high + 0.5) / 100, closed=True)
    bases = both_bases(run)
    both = [(with_both(run, base), base) for base in bases]
    return {
        "half-time": _all((run.time_ratio(*pair) for pair in small), expect("> 1")),
        "half-memory": _saves(run),
        "half-grows": _grows(run),
        "accuracy": _all(_changes(run, scores.accuracy_change), expect(f">= -{SAME_SCORE}")),
        "loss": _all(_changes(run, scores.loss_change), expect(f"<= {SAME_SCORE}")),
        "amc-time": _all((run.time_ratio(*pair) for pair in both), expect("> 1")),
        # About half, of which the 45 to 50 % of the source are instances.
        "amc-memory": _all((run.saved(*pair) for pair in both), equals(0.5, within=ABOUT)),
        "amc-theory": _all((needed_saved(run, base) for base in bases), printed),
    }


def _saved(run: Run) -> list[Quantity]:
    """The share of the peak that reduced precision saves, over the batch size."""
    return [share for pair in amp_pairs(run) if not (share := run.saved(*pair)).missing]


def _saves(run: Run) -> _Claimed:
    """At every batch size something, and more at the largest than at the smallest."""
    saved = _saved(run)
    if len(saved) < 2:
        return _NOTHING
    return _all([*saved, saved[-1] - saved[0]], expect("> 0"))


def _grows(run: Run) -> _Claimed:
    """More memory at the smallest batch, less at the largest."""
    saved = _saved(run)
    if len(saved) < 2:
        return _NOTHING
    return all_of(Statement(saved[0], expect("< 0")), Statement(saved[-1], expect("> 0")))


def _changes(run: Run, change: Callable[..., Quantity]) -> list[Quantity]:
    return [change(run, d, precision) for d in scores.datasets(run) for precision in REDUCED]


# ---------------------------------------------------------------------------------- tiles


def _of_tiles(run: Run) -> dict[str, _Claimed]:
    tiles = tiled_calls(run)
    steps = [
        (large, small)
        for form in TILED
        for small, large in pairwise(_by_tile([c for c in tiles if c.execution == form]))
    ]
    ratios = [run.time_ratio(call, plain(call)) for call in tiles]
    return {
        "tile-time": _all((run.time_ratio(*step) for step in steps), expect("< 1")),
        "tile-memory": _all((run.peak(a) / run.peak(b) for a, b in steps), expect("> 1")),
        "tile-pays": _any(ratios, expect("< 1")),
    }


def _by_tile(calls: Iterable[Call]) -> list[Call]:
    return sorted(calls, key=lambda call: call.tile or 0)


# -------------------------------------------------------------------------------- settings


def _no_one_wins(run: Run) -> _Claimed:
    """Every setting is slower than another one for some network.

    Of settings that were not timed nothing is known, so that all kinds must have been.
    """
    bases = [base for network in run.networks() if (base := compared_base(run, network))]
    compared = {base: (base, *settings(run, base)) for base in bases if settings(run, base)}
    if len(compared) < 2 or not all_tried(c for calls in compared.values() for c in calls):
        return _NOTHING
    beaten: dict[str, list[Statement]] = {}
    for calls in compared.values():
        for call in calls:
            rest = at_most(*(run.time(other) for other in calls if other != call))
            slower = Statement(run.time(call) / rest, expect("> 1"))
            beaten.setdefault(call.setting, []).append(slower)
    return all_of(*(any_of(*statements) for statements in beaten.values()))


# --------------------------------------------------------------------------------- GPU


def _of_gpu(run: Run) -> dict[str, _Claimed]:
    """What this paper says of a GPU: a layout that pays on a processor costs time."""
    return {"layout-costs": Statement(layout_ratio(run), expect("> 1"))}
