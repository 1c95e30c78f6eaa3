"""Claims on layout, precision, tiling and published speed-ups, judged on one run."""

from __future__ import annotations

from collections.abc import Callable

from report.missing import Missing
from report.paper.findings import Inputs
from report.quantity.verdicts import Verdict
from report.statistics.estimates import Estimate
from report.studies.inference_memory.choices import best, best_speedup, reported_speedups
from report.studies.inference_memory.layouts import (
    AMP,
    BOTH,
    alternative,
    base_calls,
    needed_saved,
)
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.precision import (
    accuracy_change,
    datasets,
    loss_change,
    natural_pairs,
    scored_network,
)
from report.studies.inference_memory.subject import REDUCED, TILED, Call
from report.studies.inference_memory.tilings import tiled_calls
from report.studies.inference_memory.verdicts import (
    NOT_MEASURED,
    UNMEASURED,
    Judged,
    if_all,
    listed,
    percent,
    ratios,
    span,
    with_interval,
)
from report.text.format import NO_BREAK, Style, quantity_text

# ------------------------------------------------------------------------------- precision


def half_is_slower(inputs: Inputs, run: Run) -> Judged:
    limit = int(inputs.reported.value("best_up_to").number)
    found = {
        f"{call.precision}, batch {call.batch:,}": run.time_ratio(call, base)
        for call, base in natural_pairs(run)
        if call.batch < limit
    }
    return ratios(found, "time over that of float32", below=False)


def half_saves(inputs: Inputs, run: Run) -> Judged:
    saved = {call: run.saved(call, base) for call, base in natural_pairs(run)}
    known = {c: s for c, s in saved.items() if not isinstance(s, Missing)}
    if len(known) < 2:
        return NOT_MEASURED
    calls = sorted(known, key=lambda call: call.batch)
    small, large = known[calls[0]], known[calls[-1]]
    verdict: Verdict = "supported" if large > 0 and large > small else "refuted"
    return Judged(
        verdict,
        f"the peak of {calls[0].network} changes by {percent(-small)} at batch "
        f"{calls[0].batch:,} and by {percent(-large)} at batch {calls[-1].batch:,}",
    )


def accuracy_kept(inputs: Inputs, run: Run) -> Judged:
    return _kept(run, accuracy_change, "accuracy", worse=-1, style="percent")


def loss_kept(inputs: Inputs, run: Run) -> Judged:
    return _kept(run, loss_change, "loss", worse=1, style="measured")


def _kept(
    run: Run, change: Callable[..., Estimate | Missing], what: str, *, worse: int, style: Style
) -> Judged:
    found = {
        f"{scored_network(run)} on {dataset} in {precision}": e
        for dataset in datasets(run)
        for precision in REDUCED
        if isinstance(e := change(run, dataset, precision), Estimate)
    }
    if not found:
        return Judged("not measured", "no trained network was scored in two precisions")
    lost = [n for n, e in found.items() if (e.high < 0 if worse < 0 else e.low > 0)]
    told = "; ".join(
        f"{name}: the {what} changes by {with_interval(e, style)}" for name, e in found.items()
    )
    return Judged("refuted" if lost else "supported", told)


# --------------------------------------------------------------------------- AMP and layout


def both_are_slower(inputs: Inputs, run: Run) -> Judged:
    found = {
        f"{b.network}, batch {b.batch:,}": run.time_ratio(alternative(run, b, BOTH), b)
        for b in base_calls(run)
    }
    return ratios(found, "time over that of contiguous float32", below=False)


def both_save(inputs: Inputs, run: Run) -> Judged:
    low, high = (inputs.reported.value(f"amc_saving_{end}") for end in ("low", "high"))
    bounds = (low.number - 0.5, high.number + 0.5)
    found = [run.saved(alternative(run, b, BOTH), b) for b in base_calls(run)]
    saved = [100 * s for s in found if not isinstance(s, Missing)]
    if not saved:
        return NOT_MEASURED
    inside = [s for s in saved if bounds[0] <= s <= bounds[1]]
    return Judged(
        "supported" if len(inside) == len(saved) else "refuted",
        f"the peak falls by {span([s / 100 for s in saved])}, for {len(inside)} of "
        f"{len(saved)} networks within {low.number} to {high.number}{NO_BREAK}%, at batch "
        f"{_batches(run)}",
    )


def _batches(run: Run) -> str:
    return listed(sorted({base.batch for base in base_calls(run)}))


def activations_explain(inputs: Inputs, run: Run) -> Judged:
    low, high = (inputs.reported.value(f"amc_saving_{end}").number for end in ("low", "high"))
    found = [needed_saved(run, alternative(run, b, AMP), b) for b in base_calls(run)]
    saved = [s for s in found if not isinstance(s, Missing)]
    if not saved:
        return NOT_MEASURED
    inside = all(low - 0.5 <= 100 * s <= high + 0.5 for s in saved)
    return Judged(
        "supported" if inside else "refuted",
        f"by the shapes alone lower precision saves {span(saved)} of what must be "
        f"in memory at batch {_batches(run)}, whatever the layout",
    )


# ---------------------------------------------------------------------------------- tiling


def tiles_time(inputs: Inputs, run: Run) -> Judged:
    found = {
        f"{form.removeprefix('tiled_')}, tile {large.tile} over {small.tile}": run.time_ratio(
            large, small
        )
        for form, small, large in _tile_ends(run)
    }
    return ratios(found, "time with the larger tile over that with the smaller", below=True)


def tiles_utilisation(inputs: Inputs, run: Run) -> Judged:
    found = {
        f"{form.removeprefix('tiled_')}": run.time_ratio(small, large)
        for form, small, large in _tile_ends(run)
    }
    what = "utilisation with the largest tile over that with the smallest"
    return ratios(found, what, below=False)


def tiles_memory(inputs: Inputs, run: Run) -> Judged:
    pairs_ = [
        (form, a, b)
        for form, small, large in _tile_ends(run)
        if not isinstance(a := run.peak(small), Missing)
        and not isinstance(b := run.peak(large), Missing)
    ]
    if not pairs_:
        return NOT_MEASURED
    told = ", ".join(
        f"{form.removeprefix('tiled_')} {quantity_text(b / a, '1')} times" for form, a, b in pairs_
    )
    more = [form for form, a, b in pairs_ if b > a]
    return Judged(
        if_all(len(more), len(pairs_)),
        f"peak with the largest tile over that with the smallest: {told}",
    )


def tiles_pay(inputs: Inputs, run: Run) -> Judged:
    found = {
        f"{call.execution.removeprefix('tiled_')}, tile {call.tile}": run.time_ratio(
            call, Call(call.network, call.image, call.batch)
        )
        for call in tiled_calls(run)
    }
    what = "time over that of the call without tiles"
    return ratios(found, what, below=True, any_is_enough=True)


def _tile_ends(run: Run) -> list[tuple[str, Call, Call]]:
    """The smallest and the largest tile of each form."""
    found: list[tuple[str, Call, Call]] = []
    for form in TILED:
        calls = sorted(
            (call for call in tiled_calls(run) if call.execution == form),
            key=lambda call: call.tile or 0,
        )
        if len(calls) > 1:
            found.append((form, calls[0], calls[-1]))
    return found


# --------------------------------------------------------------------- published speed-ups


def published_speedup(network: str) -> Callable[[Inputs, Run], Judged]:
    def judge(inputs: Inputs, run: Run) -> Judged:
        printed = reported_speedups(inputs)[network]
        found = best_speedup(run, network, same_precision=False)
        made = best(run, network, same_precision=False)
        if isinstance(found, Missing) or isinstance(made, Missing):
            why = found.reason if isinstance(found, Missing) else UNMEASURED
            return Judged("not measured", why)
        verdict: Verdict = "undecided"
        if found.low >= printed:
            verdict = "supported"
        elif found.high < printed:
            verdict = "refuted"
        return Judged(
            verdict,
            f"the best of {made.choices} settings at batch {made.base.batch:,} "
            f"({made.call.setting}) is {with_interval(found)} times as fast as the plain call",
        )

    return judge


def no_one_wins(inputs: Inputs, run: Run) -> Judged:
    found = {
        n: made.call.setting
        for n in run.networks()
        if not isinstance(made := best(run, n, same_precision=False), Missing)
    }
    if len(found) < 2:
        return NOT_MEASURED
    different = len(set(found.values()))
    return Judged(
        "supported" if different > 1 else "refuted",
        f"among {len(found)} networks {different} different settings are the fastest"
        if different > 1
        else f"{next(iter(found.values()))} is the fastest for all {len(found)} networks",
    )
