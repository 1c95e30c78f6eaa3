"""What the source claims, and what this paper claims, judged by every run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from report.missing import Missing, present
from report.paper.findings import Claim, Inputs
from report.paper.tables import Column, Table
from report.statistics.estimates import Estimate
from report.studies.inference_memory import settings_claims as settings
from report.studies.inference_memory.batches import ENOUGH, knee, rates, resnets, sweep
from report.studies.inference_memory.faults import NEAR, exact, first_large, near, told
from report.studies.inference_memory.limits import foretold, margin
from report.studies.inference_memory.measured import Run, scaled
from report.studies.inference_memory.memory import (
    FROM_BATCH,
    TOLERANCE,
    judged,
    residuals,
)
from report.studies.inference_memory.processor import off_processor
from report.studies.inference_memory.subject import Call
from report.studies.inference_memory.verdicts import (
    NOT_MEASURED,
    UNMEASURED,
    Judged,
    counted,
    if_all,
    inverse,
    listed,
    percent,
    ratios,
    span,
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
        Claim(f"{id_}-{run.key}", f"{sentence}; {run.label}.", found.verdict, found.because)
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
    peaks = {n: present({c.batch: run.peak(c) for c in sweep(run, n)}) for n in resnets(run)}
    falls = {n: steps for n, found in peaks.items() if (steps := _falling(found))}
    right = len(peaks) - len(falls)
    rising = counted(right, len(peaks), "peak memory rises with every step of the batch size")
    steps = sorted({step for found in falls.values() for step in found})
    where = "; it does not from batch " + ", ".join(f"{a} to {b}" for a, b in steps)
    return Judged(rising.verdict, rising.because + (where if steps else ""))


def _falling(peaks: dict[int, int]) -> list[tuple[int, int]]:
    """The steps of the batch size at which the peak does not rise."""
    return [(a, b) for a, b in pairwise(peaks) if peaks[b] <= peaks[a]]


def _falls_to(inputs: Inputs, run: Run) -> Judged:
    limit = _reported(inputs, "best_up_to")
    found = {n: _step(run, n, 1, limit) for n in resnets(run)}
    return ratios(found, f"time of an image at batch {limit} over that at batch 1", below=True)


def _rises_again(inputs: Inputs, run: Run) -> Judged:
    limit = _reported(inputs, "best_up_to")
    middle = [_reported(inputs, id_) for id_ in ("middle_low", "middle_high")]
    found: dict[str, Estimate | Missing] = {}
    for network in resnets(run):
        steps = [s for b in middle if isinstance(s := _step(run, network, limit, b), Estimate)]
        if steps:
            found[network] = max(steps, key=lambda step: step.value)
    what = f"longest time of an image at batch {listed(middle)} over that at batch {limit}"
    return ratios(found, what, below=False, any_is_enough=True)


def _falls_at_large(inputs: Inputs, run: Run) -> Judged:
    middle = _reported(inputs, "middle_high")
    large = _reported(inputs, "large_high")
    found = {n: _step(run, n, middle, large) for n in resnets(run)}
    what = f"time of an image at batch {large:,} over that at batch {middle}"
    return ratios(found, what, below=True, any_is_enough=True)


def _step(run: Run, network: str, before: int, after: int) -> Estimate | Missing:
    """Time of an image at one batch over that at another."""
    by_batch = {call.batch: call for call in sweep(run, network)}
    if before not in by_batch or after not in by_batch:
        return Missing(UNMEASURED)
    return run.image_time_ratio(by_batch[after], by_batch[before])


def _utilisation_by_batch(inputs: Inputs, run: Run) -> Judged:
    limit = _reported(inputs, "best_up_to")
    found = {n: inverse(_step(run, n, 1, limit)) for n in resnets(run)}
    return ratios(found, f"utilisation at batch {limit} over that at batch 1", below=False)


def _plateau(inputs: Inputs, run: Run) -> Judged:
    reached = {n: r for n in resnets(run) if (r := rates(run, n))}
    level = [n for n, found in reached.items() if _stays(found)]
    knees = ", ".join(f"{n} {knee(found):,}" for n, found in reached.items())
    what = "the rate stays within a tenth of its best from the knee to the largest batch"
    judged_ = counted(len(level), len(reached), what)
    return Judged(
        judged_.verdict, f"{judged_.because}; knees: {knees}" if knees else judged_.because
    )


def _stays(found: Mapping[int, Estimate]) -> bool:
    """Whether no rate behind the knee is clearly below a knee's share of the best one."""
    first, enough = knee(found), ENOUGH * max(rate.value for rate in found.values())
    behind = [rate for batch, rate in found.items() if batch > first]
    return bool(behind) and all(rate.high >= enough for rate in behind)


def _utilisation_by_depth(inputs: Inputs, run: Run) -> Judged:
    names = resnets(run)
    if len(names) < 2:
        return NOT_MEASURED
    first, last = names[0], names[-1]
    shared = [b for b in rates(run, first) if b in rates(run, last)]
    found: dict[str, Estimate | Missing] = {}
    for batch in shared:
        calls = {n: next(c for c in sweep(run, n) if c.batch == batch) for n in (first, last)}
        found[f"batch {batch:,}"] = _depth_ratio(run, calls[last], calls[first])
    what = f"utilisation of {last} over that of {first}"
    return ratios(found, what, below=False)


def _depth_ratio(run: Run, deep: Call, shallow: Call) -> Estimate | Missing:
    """Ratio of the rates of work of two networks; their ceiling is the same."""
    ratio, new, old = run.time_ratio(shallow, deep), run.work(deep), run.work(shallow)
    if isinstance(ratio, Missing):
        return ratio
    if isinstance(new, Missing) or isinstance(old, Missing) or not old:
        return Missing(UNMEASURED)
    return scaled(ratio, new / old)


def _more_waiting(inputs: Inputs, run: Run) -> Judged:
    found = {n: ends for n in resnets(run) if (ends := _waits_at_ends(run, n))}
    if not found:
        return Judged("not measured", "time off the processor was not recorded")
    more = [n for n, (few, many) in found.items() if many.low > few.high]
    what = "the share of time off the processor is clearly larger at the largest batch"
    judged_ = counted(len(more), len(found), what)
    shares = span(share.value for ends in found.values() for share in ends)
    return Judged(
        judged_.verdict,
        f"{judged_.because} than at the smallest that has one; all these shares lie in {shares}",
    )


def _waits_at_ends(run: Run, network: str) -> tuple[Estimate, Estimate] | None:
    """Share of time off the processor at the smallest and the largest batch that have one."""
    shares = present({c.batch: off_processor(run, c) for c in sweep(run, network)})
    if len(shares) < 2:
        return None
    first, *_, last = shares.values()
    return first, last


# --------------------------------------------------------------------------------- own claims


def _theory_agrees(inputs: Inputs, run: Run) -> Judged:
    found = residuals(run, judged(run))
    if not found:
        return Judged("not measured", "no peak is both predicted and measured on this device")
    worst = max(abs(share) for _, share in found.values())
    exact = sum(residual == 0 for residual, _ in found.values())
    return Judged(
        "supported" if worst <= TOLERANCE else "refuted",
        f"over {len(found)} cases from batch {FROM_BATCH} on the residual is at most "
        f"{percent(worst) if worst else f'0{NO_BREAK}%'} of the measured peak, and 0{NO_BREAK}B in "
        f"{exact} of them",
    )


def _theory_foretells(inputs: Inputs, run: Run) -> Judged:
    found = foretold(run)
    if not found:
        return Judged("not measured", "no call was given a limit of memory on this device")
    wrong = [call for call, right in found.items() if not right]
    names = ", ".join(f"{c.network} at batch {c.batch:,}" for c in wrong)
    off = percent(max((margin(run, call) for call in wrong), default=0.0))
    exceptions = f"; not of {names}, predicted within {off} of the limit" if wrong else ""
    return Judged(
        if_all(len(found) - len(wrong), len(found)),
        f"the outcome of {len(found) - len(wrong)} of {len(found)} calls under a limit is that of "
        f"the prediction{exceptions}",
    )


def _large_blocks_cost(inputs: Inputs, run: Run) -> Judged:
    steps = {n: step for n in resnets(run) if (step := first_large(run, n))}
    found = {n: run.image_time_ratio(after, before) for n, (before, after) in steps.items()}
    batches = sorted({(before.batch, after.batch) for before, after in steps.values()})
    what = "time of an image at batch " + " or ".join(f"{b:,} over {a:,}" for a, b in batches)
    judged_ = ratios(found, what, below=False)
    if judged_ == NOT_MEASURED:
        return Judged("not measured", "no call asks for blocks of that size")
    return Judged(
        judged_.verdict,
        f"{judged_.because}; page faults are those of the blocks within {percent(NEAR)} in "
        f"{len(near(run))} of {len(told(run))} calls, to the unit in {exact(run)}",
    )


def _reported(inputs: Inputs, id_: str) -> int:
    """A whole number of the source."""
    return int(inputs.reported.value(id_).number)


_OF_BATCHES: Final[tuple[_Judging, ...]] = (
    ("peak-theory", "Peak memory follows from layer shapes within the rule", _theory_agrees),
    ("large-blocks", "Blocks of 32 MiB and more make a call slow", _large_blocks_cost),
    ("limit-theory", "The prediction tells which batch fits into memory", _theory_foretells),
    ("memory-monotone", "Peak memory grows with every larger batch (source)", _monotone_memory),
    ("time-falls", "Total time drops up to the source's best batch (source)", _falls_to),
    ("time-rises", "In the middle range total time sometimes rises (source)", _rises_again),
    ("time-large", "At very large batches it may drop again (source)", _falls_at_large),
    ("use-batch", "Utilisation goes up with the batch size (source)", _utilisation_by_batch),
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
    ("tile-time", "Time falls with the tile size (source)", settings.tiles_time),
    ("tile-use", "Utilisation grows with the tile size (source)", settings.tiles_utilisation),
    ("tile-memory", "Memory grows with the tile size (source)", settings.tiles_memory),
    ("tile-pays", "Tiles are faster than whole maps", settings.tiles_pay),
    (
        "speedup-lenet",
        "The published speed-up of LeNet-5 is reached",
        settings.published_speedup("LeNet-5"),
    ),
    (
        "speedup-alexnet",
        "The published speed-up of AlexNet is reached",
        settings.published_speedup("AlexNet"),
    ),
    (
        "speedup-zfnet",
        "The published speed-up of ZFNet is reached",
        settings.published_speedup("ZFNet"),
    ),
    (
        "speedup-vgg",
        "The published speed-up of VGG is reached",
        settings.published_speedup("VGG-16"),
    ),
    ("no-one-wins", "No one setting is best for all networks (source)", settings.no_one_wins),
)

_CLAIMS: Final = (*_OF_BATCHES, *_OF_SETTINGS)
