"""Claims on layout, precision, tiling and published speed-ups, about one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from report.missing import Missing
from report.paper.findings import Inputs
from report.quantity.expression import Quantity
from report.quantity.operations import at_most
from report.quantity.verdicts import (
    Range,
    Several,
    Statement,
    all_of,
    any_of,
    equals,
    expect,
)
from report.studies.inference_memory.choices import (
    best,
    compared_base,
    reported_speedups,
    settings,
    untried,
)
from report.studies.inference_memory.layouts import (
    AMP,
    BOTH,
    alternative,
    base_calls,
    needed_saved,
)
from report.studies.inference_memory.measured import Run, centre
from report.studies.inference_memory.precision import (
    accuracy_change,
    datasets,
    loss_change,
    natural_pairs,
    scored_network,
)
from report.studies.inference_memory.subject import REDUCED, TILED, Call
from report.studies.inference_memory.tilings import tiled_calls, untiled
from report.studies.inference_memory.verdicts import (
    Judged,
    listed,
    listed_words,
    nothing,
    percent,
    ratios,
    span,
    with_interval,
)
from report.text.format import NO_BREAK, Style, quantity_text

#: A change of accuracy (share of the images) or of mean loss (nats) that is none for a user.
SAME_SCORE: Final = 0.01
#: «About half» is a half within this.
ABOUT: Final = 0.1

# ------------------------------------------------------------------------------- precision


def half_is_slower(inputs: Inputs, run: Run) -> Judged:
    limit = int(inputs.reported.value("best_up_to").number)
    found = {
        f"{call.precision}, batch {call.batch:,}": run.time_ratio(call, base)
        for call, base in natural_pairs(run)
        if call.batch < limit
    }
    return ratios(found, "time over that of float32", "> 1")


def half_saves(inputs: Inputs, run: Run) -> Judged:
    """At every batch size something, and more at the largest than at the smallest."""
    saved = {c: s for c, base in natural_pairs(run) if not (s := run.saved(c, base)).missing}
    if len(saved) < 2:
        return nothing()
    calls = sorted(saved, key=lambda call: call.batch)
    first, last = calls[0], calls[-1]
    more = Statement(saved[last] - saved[first], expect("> 0"))
    changes = " and by ".join(
        f"{percent(-centre(saved[call]))} at batch {call.batch:,}" for call in (first, last)
    )
    return Judged(
        all_of(more, *(Statement(each, expect("> 0")) for each in saved.values())),
        f"the peak of {first.network} changes by {changes}",
    )


def accuracy_kept(inputs: Inputs, run: Run) -> Judged:
    return _kept(run, accuracy_change, "accuracy", f">= -{SAME_SCORE}", "percent")


def loss_kept(inputs: Inputs, run: Run) -> Judged:
    return _kept(run, loss_change, "loss", f"<= {SAME_SCORE}", "measured")


def _kept(
    run: Run, change: Callable[..., Quantity], what: str, claimed: str, style: Style
) -> Judged:
    found = {
        f"{scored_network(run)} on {dataset} in {precision}": each
        for dataset in datasets(run)
        for precision in REDUCED
        if not (each := change(run, dataset, precision)).missing
    }
    if not found:
        return nothing("no trained network was scored in two precisions")
    changes = "; ".join(
        f"{name}: the {what} changes by {with_interval(each, style)}"
        for name, each in found.items()
    )
    margin = quantity_text(SAME_SCORE, "1", style)
    return Judged(
        all_of(*(Statement(each, expect(claimed)) for each in found.values())),
        f"{changes}; less than {margin} is no change",
    )


# --------------------------------------------------------------------------- AMP and layout


def both_are_slower(inputs: Inputs, run: Run) -> Judged:
    found = {
        f"{b.network}, batch {b.batch:,}": run.time_ratio(alternative(run, b, BOTH), b)
        for b in base_calls(run)
    }
    return ratios(found, "time over that of contiguous float32", "> 1")


def both_save(inputs: Inputs, run: Run) -> Judged:
    """About half, of which the 45 to 50 % of the source are instances."""
    saved = _saved(run, Run.saved, BOTH)
    about = equals(0.5, within=ABOUT)
    return _all_saved(
        saved,
        about,
        lambda shares, right: (
            f"the peak falls by {span(shares)}, for {right} of {len(shares)} "
            f"networks within {100 * about.low:g} to {100 * about.high:g}{NO_BREAK}%, at batch "
            f"{_batches(run)}"
        ),
    )


def activations_explain(inputs: Inputs, run: Run) -> Judged:
    low, high = (inputs.reported.value(f"amc_saving_{end}").number for end in ("low", "high"))
    printed = Range((low - 0.5) / 100, (high + 0.5) / 100, closed=True)
    return _all_saved(
        _saved(run, needed_saved, AMP),
        printed,
        lambda shares, _: (
            f"by the shapes alone lower precision saves {span(shares)} of what must "
            f"be in memory at batch {_batches(run)}, whatever the layout"
        ),
    )


def _saved(run: Run, share: Callable[..., Quantity], name: str) -> list[Quantity]:
    found = [share(run, alternative(run, b, name), b) for b in base_calls(run)]
    return [each for each in found if not each.missing]


def _all_saved(
    saved: list[Quantity], claimed: Range, words: Callable[[list[float], int], str]
) -> Judged:
    if not saved:
        return nothing()
    parts = [Statement(each, claimed) for each in saved]
    right = sum(part.judge() == "supported" for part in parts)
    return Judged(all_of(*parts), words(list(map(centre, saved)), right))


def _batches(run: Run) -> str:
    return listed(sorted({base.batch for base in base_calls(run)}))


# ---------------------------------------------------------------------------------- tiling


def tiles_time(inputs: Inputs, run: Run) -> Judged:
    found = {
        f"{_form(large)}, tile {large.tile} over {small.tile}": run.time_ratio(large, small)
        for small, large in _tile_ends(run)
    }
    what = "time with the larger tile over that with the smaller, of which utilisation is inverse"
    return ratios(found, what, "< 1")


def tiles_memory(inputs: Inputs, run: Run) -> Judged:
    found = {_form(small): run.peak(large) / run.peak(small) for small, large in _tile_ends(run)}
    return ratios(found, "peak with the largest tile over that with the smallest", "> 1")


def tiles_pay(inputs: Inputs, run: Run) -> Judged:
    found = {
        f"{_form(call)}, tile {call.tile}": run.time_ratio(call, untiled(call))
        for call in tiled_calls(run)
    }
    return ratios(found, "time over that of the call without tiles", "< 1", any_of)


def _form(call: Call) -> str:
    return call.execution.removeprefix("tiled_")


def _tile_ends(run: Run) -> list[tuple[Call, Call]]:
    """The smallest and the largest tile of each form."""
    forms = (
        sorted((c for c in tiled_calls(run) if c.execution == form), key=lambda c: c.tile or 0)
        for form in TILED
    )
    return [(calls[0], calls[-1]) for calls in forms if len(calls) > 1]


# --------------------------------------------------------------------- published speed-ups


def published_speedup(network: str) -> Callable[[Inputs, Run], Judged]:
    """Whether a speed-up that was published for a GPU is reached on one."""

    def judge(inputs: Inputs, run: Run) -> Judged:
        made = best(run, network, same_precision=False)
        if isinstance(made, Missing):
            return nothing(made.reason)
        printed = reported_speedups(inputs)[network]
        reached = Statement(made.gain, expect(f">= {printed}"), about="cuda")
        found = (
            f"the best of {made.choices} setting{'s' * (made.choices != 1)} at batch "
            f"{made.base.batch:,} ({made.call.setting}) is {with_interval(made.gain)} times as "
            "fast as the plain call"
        )
        left = untried(settings(run, made.base))
        # A speed-up that one setting reaches is reached; that none does, only all of them can say.
        if left and reached.judge() in ("refuted", "undecided"):
            return nothing(f"{found}; no call of it {listed_words(left)} was timed")
        return Judged(reached, found)

    return judge


def no_one_wins(inputs: Inputs, run: Run) -> Judged:
    """Every setting is slower than another one for some network.

    Of settings that were not timed nothing is known, so that all kinds must have been.
    """
    bases = [base for network in run.networks() if (base := compared_base(run, network))]
    left = untried([call for base in bases for call in settings(run, base)])
    if left and len(bases) > 1:
        return nothing(f"no call {listed_words(left)} was timed beside a plain one")
    by_setting: dict[str, list[Statement]] = {}
    fastest = {}
    for base in bases:
        calls = (base, *settings(run, base))
        if len(calls) < 2:
            continue
        fastest[base.network] = min(calls, key=run.seconds).setting
        for call in calls:
            rest = at_most(*(run.time(other) for other in calls if other != call))
            slower = Statement(run.time(call) / rest, expect("> 1"))
            by_setting.setdefault(call.setting, []).append(slower)
    if len(fastest) < 2:
        return nothing()
    beaten: list[Several] = [any_of(*statements) for statements in by_setting.values()]
    sure = sum(each.judge() == "supported" for each in beaten)
    return Judged(
        all_of(*beaten),
        f"among {len(fastest)} networks {len(set(fastest.values()))} different settings have the "
        f"shortest median; {sure} of {len(beaten)} settings are clearly not the fastest somewhere",
    )
