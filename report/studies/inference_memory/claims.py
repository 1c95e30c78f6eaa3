"""What the source claims, and what this paper claims, judged by every run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from report.paper.findings import Claim, Inputs
from report.paper.tables import Column, Table
from report.quantity.expression import Quantity
from report.quantity.expression import exact as count
from report.quantity.verdicts import (
    Range,
    Statement,
    all_of,
    any_of,
    equals,
    exactly,
    expect,
    trend,
)
from report.studies.inference_memory import settings_claims as settings
from report.studies.inference_memory.batches import ENOUGH, knee, rates, resnets, sweep
from report.studies.inference_memory.faults import (
    NEAR,
    exact,
    first_large,
    near,
    returned,
    told,
)
from report.studies.inference_memory.limits import foretold, margin
from report.studies.inference_memory.measured import Run, centre
from report.studies.inference_memory.memory import FROM_BATCH, TOLERANCE, judged, residuals
from report.studies.inference_memory.processor import off_processor
from report.studies.inference_memory.run_values import NO_CASE
from report.studies.inference_memory.verdicts import (
    Judged,
    listed,
    nothing,
    percent,
    ratios,
    span,
    with_interval,
)
from report.text.format import NO_BREAK

_Judge: TypeAlias = Callable[[Inputs, Run], Judged]
#: The id of a claim, its sentence, and what judges it.
_Judging: TypeAlias = tuple[str, str, _Judge]


def all_claims(inputs: Inputs, all_runs: Sequence[Run]) -> tuple[Claim, ...]:
    """Every claim, judged on every run; one that says so where there is none."""
    if not all_runs:
        return (_nothing(),)
    return tuple(
        Claim(
            f"{id_}-{run.key}", f"{sentence}; {run.label}.", found.statement.judge(), found.because
        )
        for run in all_runs
        for id_, sentence, judge in _CLAIMS
        for found in (judge(inputs, run),)
    )


def _nothing() -> Claim:
    return Claim(
        "own-measurement",
        "What the source says of time and memory holds on this study's machines.",
        "not measured",
        "no run of this experiment is in the data directory",
    )


def verdict_tables(run: Run, claims: Sequence[Claim]) -> tuple[Table, Table]:
    """What the numbers of one run say of the claims; all in one table would fill a page."""
    return (
        _verdict_table(f"tbl-claims-{run.key}", "batch size and memory", _OF_BATCHES, run, claims),
        _verdict_table(f"tbl-verdicts-{run.key}", "settings", _OF_SETTINGS, run, claims),
    )


def _verdict_table(
    id_: str, of: str, judges: Sequence[_Judging], run: Run, claims: Sequence[Claim]
) -> Table:
    ending, wanted = f"; {run.label}.", {f"{claim}-{run.key}" for claim, *_ in judges}
    rows = [
        (claim.sentence.removesuffix(ending), claim.verdict, claim.because)
        for claim in claims
        if claim.id in wanted
    ]
    return Table(
        id_,
        f"Claims on {of}, of the source where it says so, and what the numbers of {run.label} say "
        "of them; intervals in brackets.",
        (Column("Claim"), Column("Verdict"), Column("Because")),
        tuple(rows),
        sources=(run.file,),
        wide=True,
    )


# ----------------------------------------------------------------------------- batch sizes


def _monotone_memory(inputs: Inputs, run: Run) -> Judged:
    peaks = {n: {c.batch: p for c in sweep(run, n) if not (p := run.peak(c)).missing}
             for n in resnets(run)}  # fmt: skip
    if not peaks:
        return nothing()
    rising = {n: trend(found, rising=True) for n, found in peaks.items()}
    right = sum(each.judge() == "supported" for each in rising.values())
    falls = sorted({step for found in peaks.values() for step in _falling(found)})
    where = "; it does not from batch " + ", ".join(f"{a} to {b}" for a, b in falls)
    return Judged(
        all_of(*rising.values()),
        f"for {right} of {len(peaks)} networks peak memory rises with every step of the batch size"
        + (where if falls else ""),
    )


def _falling(peaks: Mapping[int, Quantity]) -> list[tuple[int, int]]:
    """The steps of the batch size at which the peak does not rise."""
    return [(a, b) for a, b in pairwise(peaks) if centre(peaks[b]) <= centre(peaks[a])]


def _falls_to(inputs: Inputs, run: Run) -> Judged:
    limit = _reported(inputs, "best_up_to")
    found = {n: _step(run, n, 1, limit) for n in resnets(run)}
    what = (
        f"time of an image at batch {limit} over that at batch 1, of which utilisation is inverse"
    )
    return ratios(found, what, "< 1")


def _rises_again(inputs: Inputs, run: Run) -> Judged:
    limit = _reported(inputs, "best_up_to")
    middle = [_reported(inputs, id_) for id_ in ("middle_low", "middle_high")]
    found = {f"{n}, batch {b}": _step(run, n, limit, b) for n in resnets(run) for b in middle}
    what = f"time of an image at batch {listed(middle)} over that at batch {limit}"
    return ratios(found, what, "> 1", any_of)


def _falls_at_large(inputs: Inputs, run: Run) -> Judged:
    middle = _reported(inputs, "middle_high")
    large = _reported(inputs, "large_high")
    found = {n: _step(run, n, middle, large) for n in resnets(run)}
    what = f"time of an image at batch {large:,} over that at batch {middle}"
    return ratios(found, what, "< 1", any_of)


def _step(run: Run, network: str, before: int, after: int) -> Quantity:
    """Time of an image at one batch over that at another."""
    by_batch = {call.batch: call for call in sweep(run, network)}
    if before not in by_batch or after not in by_batch:
        return NO_CASE
    return run.image_time_ratio(by_batch[after], by_batch[before])


def _plateau(inputs: Inputs, run: Run) -> Judged:
    """From the end of the source's middle range to the largest batch the rate hardly changes.

    Where the knee lies behind that range, from the knee on, but over one step at least.
    """
    middle = _reported(inputs, "middle_high")
    reached = {n: r for n in resnets(run) if (r := rates(run, n))}
    beyond = {n: r for n, r in reached.items() if max(r) > middle}
    ends = {n: (_last_before(r, max(middle, knee(r))), max(r)) for n, r in beyond.items()}
    changes = {n: reached[n][b] / reached[n][a] for n, (a, b) in ends.items() if a}
    if not changes:
        return nothing()
    shown = ", ".join(f"{n} {with_interval(each)}" for n, each in changes.items())
    knees = ", ".join(f"{n} {knee(found):,}" for n, found in reached.items())
    first, last = (listed(sorted({ends[n][at] for n in changes})) for at in (0, 1))
    # The knee's rule, in both directions: the smaller of the two rates is nearly the larger one.
    plateau = Range(ENOUGH, 1 / ENOUGH, closed=True)
    return Judged(
        all_of(*(Statement(each, plateau) for each in changes.values())),
        f"rate at batch {last} over that at batch {first}, which a plateau keeps within a tenth: "
        f"{shown}; knees: {knees}",
    )


def _last_before(found: Mapping[int, Quantity], batch: int) -> int:
    """The largest batch size up to ``batch`` that is not the largest of all; 0 for none."""
    return max((b for b in found if b <= batch and b != max(found)), default=0)


def _utilisation_by_depth(inputs: Inputs, run: Run) -> Judged:
    names = resnets(run)
    if len(names) < 2:
        return nothing()
    first, last = ({c.batch: c for c in run.timed(sweep(run, names[at]))} for at in (0, -1))
    # The ceiling of both is the same.
    found = {
        f"batch {batch:,}": (run.work(last[batch]) / run.time(last[batch]))
        / (run.work(first[batch]) / run.time(first[batch]))
        for batch in first
        if batch in last
    }
    return ratios(found, f"utilisation of {names[-1]} over that of {names[0]}", "> 1")


def _more_waiting(inputs: Inputs, run: Run) -> Judged:
    found = {n: shares for n in resnets(run) if len(shares := _waits(run, n)) > 1}
    if not found:
        return nothing("time off the processor was not recorded")
    more = {n: shares[-1] - shares[0] for n, shares in found.items()}
    changes = ", ".join(f"{n} {with_interval(each, 'percent')}" for n, each in more.items())
    all_shares = span(centre(each[at]) for each in found.values() for at in (0, -1))
    return Judged(
        all_of(*(Statement(each, expect("> 0")) for each in more.values())),
        "share of time off the processor at the largest batch less that at the smallest that has "
        f"one: {changes}; all these shares lie in {all_shares}",
    )


def _waits(run: Run, network: str) -> list[Quantity]:
    """The known shares of time off the processor over the batch sizes."""
    shares = [off_processor(run, call) for call in sweep(run, network)]
    return [share for share in shares if not share.missing]


# --------------------------------------------------------------------------------- own claims


def _theory_agrees(inputs: Inputs, run: Run) -> Judged:
    found = residuals(run, judged(run))
    if not found:
        return nothing("no peak is both predicted and measured on this device")
    shares = [count("residual of the peak", "1", share, run.file) for _, share in found.values()]
    worst = max(abs(share) for _, share in found.values())
    exact = sum(residual == 0 for residual, _ in found.values())
    return Judged(
        all_of(*(Statement(share, equals(0, within=TOLERANCE)) for share in shares)),
        f"over {len(found)} cases from batch {FROM_BATCH} on the residual is at most "
        f"{percent(worst) if worst else f'0{NO_BREAK}%'} of the measured peak, and 0{NO_BREAK}B in "
        f"{exact} of them",
    )


def _theory_foretells(inputs: Inputs, run: Run) -> Judged:
    found = foretold(run)
    if not found:
        return nothing("no call was given a limit of memory on this device")
    wrong = [call for call, right in found.items() if not right]
    names = ", ".join(f"{c.network} at batch {c.batch:,}" for c in wrong)
    off = percent(max((margin(run, call) for call in wrong), default=0.0))
    exceptions = f"; not of {names}, predicted within {off} of the limit" if wrong else ""
    return Judged(
        Statement(count("wrong predictions", "1", len(wrong), run.file), exactly(0)),
        f"the outcome of {len(found) - len(wrong)} of {len(found)} calls under a limit is that of "
        f"the prediction{exceptions}",
    )


def _large_blocks_cost(inputs: Inputs, run: Run) -> Judged:
    steps = {n: step for n in resnets(run) if (step := first_large(run, n))}
    if not steps:
        return nothing("no call asks for blocks of that size")
    seen = returned(run)
    found = {n: seen.image_time_ratio(after, before) for n, (before, after) in steps.items()}
    batches = sorted({(before.batch, after.batch) for before, after in steps.values()})
    what = "time of an image at batch " + " or ".join(f"{b:,} over {a:,}" for a, b in batches)
    # The allocator of a GPU keeps its blocks, so that its times say nothing of the claim.
    judged_ = ratios(found, what, "> 1", about="cpu")
    faults = (
        f"page faults are those of the blocks within {percent(NEAR)} in {len(near(run))} of "
        f"{len(told(run))} calls, to the unit in {exact(run)}"
    )
    if run.on_gpu:
        faults = "the claim is about the C library, and this device's allocator keeps its blocks"
    elif not told(run):
        faults = "page faults were not counted"
    return Judged(judged_.statement, f"{judged_.because}; {faults}")


def _reported(inputs: Inputs, id_: str) -> int:
    """A whole number of the source."""
    return int(inputs.reported.value(id_).number)


_OF_BATCHES: Final[tuple[_Judging, ...]] = (
    ("peak-theory", "Peak memory follows from layer shapes within the rule", _theory_agrees),
    ("large-blocks", "Blocks of 32 MiB and more make a call slow", _large_blocks_cost),
    ("limit-theory", "The prediction tells which batch fits into memory", _theory_foretells),
    ("memory-monotone", "Peak memory grows with every larger batch (source)", _monotone_memory),
    (
        "time-falls",
        "Total time drops, so that utilisation goes up, up to the source's best batch (source)",
        _falls_to,
    ),
    ("time-rises", "In the middle range total time sometimes rises (source)", _rises_again),
    ("time-large", "At very large batches it may drop again (source)", _falls_at_large),
    ("use-plateau", "Utilisation reaches a plateau (source)", _plateau),
    ("use-depth", "Deeper networks use the device better (source)", _utilisation_by_depth),
    ("waits", "Larger batches bring more waiting on the system (source)", _more_waiting),
)

_OF_SETTINGS: Final[tuple[_Judging, ...]] = (
    ("half-time", "Half precision is slower at small batches (source)", settings.half_is_slower),
    ("half-memory", "It saves memory, most at large batches (source)", settings.half_saves),
    ("accuracy", "It does not lower the accuracy (source)", settings.accuracy_kept),
    ("loss", "It does not raise the loss (source)", settings.loss_kept),
    ("amc-time", "AMP with the coalesced layout is slower (source)", settings.both_are_slower),
    ("amc-memory", "It saves about half of the peak memory (source)", settings.both_save),
    ("amc-theory", "Smaller activations alone explain that saving", settings.activations_explain),
    (
        "tile-time",
        "Time falls, so that utilisation grows, with the tile size (source)",
        settings.tiles_time,
    ),
    ("tile-memory", "Memory grows with the tile size (source)", settings.tiles_memory),
    ("tile-pays", "Some tiles are faster than whole maps", settings.tiles_pay),
    (
        "speedup-lenet",
        "The speed-up of LeNet-5 published for a GPU is reached",
        settings.published_speedup("LeNet-5"),
    ),
    (
        "speedup-alexnet",
        "The speed-up of AlexNet published for a GPU is reached",
        settings.published_speedup("AlexNet"),
    ),
    (
        "speedup-zfnet",
        "The speed-up of ZFNet published for a GPU is reached",
        settings.published_speedup("ZFNet"),
    ),
    (
        "speedup-vgg",
        "The speed-up of VGG published for a GPU is reached",
        settings.published_speedup("VGG-16"),
    ),
    ("no-one-wins", "No one setting is best for all networks (source)", settings.no_one_wins),
)

_CLAIMS: Final = (*_OF_BATCHES, *_OF_SETTINGS)
