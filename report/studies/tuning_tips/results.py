"""Results that are printed: selections of comparisons, gains of tips, and rows of tables."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import product
from statistics import fmean
from typing import Final, TypeAlias

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.paper.plots import interval_ends
from report.paper.tables import Content
from report.quantity.evaluation import number, point
from report.quantity.expression import Quantity, absent, exact
from report.studies.tuning_tips.runs import Run
from report.studies.tuning_tips.source import TIPS
from report.studies.tuning_tips.subject import CONTROLS, MEMORY, NETWORKS, Trial

#: Verdicts of an effect, of none, and of all right results.
DECIDED, UNDECIDED = ("faster", "slower"), ("no difference", "undecided")
RIGHT: Final = (*DECIDED, *UNDECIDED, "impossible")
#: Largest error of a prediction that is right.
NEAR: Final = 0.1
#: Tips that change something.
COMPARED_TIPS: Final = tuple(tip for tip in TIPS if tip not in CONTROLS)
_TIMED_TIPS: Final = ("in_place", "fused", "channels_last", "compiled", "bfloat16")
#: Settings whose times are printed, by the tip and the quantity of a comparison.
SETTINGS: Final[Mapping[str, tuple[str, str]]] = {
    "gradients on": ("no_grad", "baseline_time"),
    "no tip": ("control", "time"),
    **{TIPS[tip]: (tip, "time") for tip in _TIMED_TIPS},
}
Names: TypeAlias = Collection[str]
Gains: TypeAlias = dict[Trial, tuple[float, float, float, float]]
Selection: TypeAlias = Callable[[Run], Collection[Trial]]
Choice: TypeAlias = Callable[..., Quantity]
Prediction: TypeAlias = Callable[[Run, Trial], Quantity]


def processor(run: Run) -> str:
    """Return the name of the processor, which all three runs share."""
    environment = run.stored.record.environment
    return markdown(environment.label.removesuffix(environment.threads_text))


def comparisons(
    run: Run, memory: Names = MEMORY, words: Names = RIGHT, tips: Names = COMPARED_TIPS
) -> list[Trial]:
    """Select the comparisons of tips under policies for freed memory, with one of the verdicts."""
    trials = [trial for trial in run.trials if trial.tip in tips and trial.memory in memory]
    return [trial for trial in trials if run.verdict(trial).word in words]


def changed_gains(run: Run) -> list[Trial]:
    """Select the comparisons whose intervals, of enough pairs, with both policies are disjoint."""
    changed = []
    for trial in comparisons(run, ("kept",)):
        one, other = (run.verdict(trial._replace(memory=memory)).ratio for memory in MEMORY)
        if not one or not other or min(one.confidence, other.confidence) < CONFIDENCE:
            continue
        if max(one.low, other.low) > min(one.high, other.high):
            changed.append(trial)
    return changed


def count(run: Run, select: Selection) -> Quantity:
    """Count selected comparisons; missing if no comparison was measured."""
    if not comparisons(run):
        return absent("comparisons", "1", f"no comparison was measured on {run.label}")
    return exact("comparisons", "1", len(select(run)), run.file)


def names_of(run: Run, select: Selection) -> str:
    """Name selected comparisons."""
    names = [f"{TIPS[trial.tip]} on {trial.network}" for trial in select(run)]
    return markdown(", ".join(names) or "no comparison")


def unchanged_gain(run: Run, trial: Trial) -> Quantity:
    """Return the speed-up where memory is returned, as the simplest prediction."""
    return run.speedup(trial._replace(memory="returned"))


def no_gain(run: Run, trial: Trial) -> Quantity:
    """Return one, the prediction that a tip gains nothing."""
    return exact("no gain", "1", 1, run.file)


#: Rules that predict gains where memory is kept.
RULES: Final = {"Equation": Run.predicted, "Unchanged gain": unchanged_gain, "No gain": no_gain}


def predicted_gains(
    run: Run, predict: Prediction = Run.predicted, tips: Names = COMPARED_TIPS
) -> Gains:
    """Return the predicted median where memory is kept, and the measured one within its interval.

    The medians are compared, since processes with memory returned and kept are no pairs.
    """
    gains = {}
    for trial in comparisons(run, ("kept",), tips=tips):
        predicted, measured = point(predict(run, trial)), number(run.speedup(trial))
        if not isinstance(predicted, Missing) and not isinstance(measured, Missing):
            gains[trial] = (predicted, *interval_ends(measured, 1))
    return gains


def errors(run: Run, predict: Prediction, tips: Names = COMPARED_TIPS) -> dict[Trial, float]:
    """Return the distances of predictions from the measured medians, as shares of these."""
    gains = predicted_gains(run, predict, tips).items()
    return {trial: abs(predicted / median - 1) for trial, (predicted, _, median, _) in gains}


def near_gains(
    run: Run, predict: Prediction = Run.predicted, among: Selection = comparisons
) -> list[Trial]:
    """Select the comparisons, ``among`` all or others, whose prediction has a small error."""
    known_errors = errors(run, predict, tuple(TIPS))
    return [trial for trial in among(run) if known_errors.get(trial, NEAR) < NEAR]


def missed_gains(run: Run) -> list[Trial]:
    """Select the comparisons whose prediction has a large error."""
    return [trial for trial, error in errors(run, Run.predicted).items() if error >= NEAR]


def closer_gains(run: Run) -> list[Trial]:
    """Select the comparisons whose prediction is closer than the gain with memory returned."""
    predicted, unchanged = errors(run, Run.predicted), errors(run, unchanged_gain)
    return [trial for trial in predicted if predicted[trial] < unchanged.get(trial, 0.0)]


def mean_error(run: Run, predict: Prediction, tips: Names = COMPARED_TIPS) -> Quantity:
    """Return the mean error of predictions where memory is kept."""
    if not (all_errors := errors(run, predict, tips)):
        return absent("mean error", "1", f"no prediction on {run.label}")
    return exact("mean error", "1", fmean(all_errors.values()), run.file)


def extreme_gain(run: Run, tip: str, choose: Choice, memory: str = "returned") -> Quantity:
    """Return the smallest or largest median speed-up by a tip under a policy for freed memory."""
    trials = (Trial(tip, network, memory=memory) for network in NETWORKS)
    return choose(*(run.median(run.speedup(trial)) for trial in trials))


def call_time(run: Run, setting: str, network: str, memory: str) -> Quantity:
    """Return a call's time in a setting, under a policy for freed memory or as predicted."""
    tip, name = SETTINGS[setting]
    trial = Trial(tip, network, memory=memory)
    return run.series_of(name, trial) if memory in MEMORY else run.time_where_kept(trial, name)


def score_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield the mean errors of each rule, and of the equation at other prices of a page."""
    rules: dict[str, Prediction] = dict(RULES)
    for tenths in (12, 15, 21, 27):  # of a microsecond, below and above the measured price
        price = exact("price", "s", tenths / 10**7)
        rules[f"Equation, {tenths / 10} µs"] = partial(Run.predicted_where_kept, price=price)
    controls = partial(comparisons, tips=CONTROLS)
    for rule, predict in rules.items():
        yield {
            "Prediction": rule,
            "Tips (%)": mean_error(run, predict),
            "Controls (%)": mean_error(run, predict, CONTROLS),
            "All (%)": mean_error(run, predict, tuple(TIPS)),
            "Tips within": count(run, partial(near_gains, predict=predict)),
            "Controls within": count(run, partial(near_gains, predict=predict, among=controls)),
        }


def page_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield what kept memory gains on each network, as predicted, as priced and as measured."""
    for trial in run.trials_of("allocator"):
        base, saved = run.series_of("baseline_time", trial), run.saved_pages(trial)
        yield {
            "Network": trial.network,
            "Saved pages": run.median(saved),
            "Committed prediction": run.predicted(trial),
            "Measured": run.speedup(trial),
            "Price × pages": base / (base - saved * run.page_price()),
            "Implied price (µs)": run.implied_price(trial),
        }


def _networks(run: Run, tip: str, memory: str, word: str) -> str:
    """Name the networks on which a tip has a verdict under a policy for freed memory."""
    if not (measured := comparisons(run, (memory,), (*RIGHT, "wrong"), (tip,))):
        return "not measured"
    names = [trial.network for trial in measured if run.verdict(trial).word == word]
    return "all" if len(names) == len(measured) else ", ".join(names) or "none"


def advice_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield where each tip pays."""
    for tip in dict.fromkeys(trial.tip for trial in comparisons(run)):
        yield {
            "Tip": TIPS[tip],
            "Faster, memory kept": _networks(run, tip, "kept", "faster"),
            "Faster, returned": _networks(run, tip, "returned", "faster"),
            "Slower, returned": _networks(run, tip, "returned", "slower"),
        }


def time_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield the times of each setting on all networks."""
    for setting, memory in product(SETTINGS, (*MEMORY, "kept, predicted")):
        times = {f"{name} (ms)": call_time(run, setting, name, memory) for name in NETWORKS}
        yield {"Setting": setting, "Memory": memory, **times}


def number_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield every comparison, as predicted and as measured."""
    for trial in sorted(run.trials, key=lambda trial: [*TIPS].index(trial.tip)):
        yield {
            "Tip": TIPS[trial.tip],
            "Network": trial.network,
            "Memory": trial.memory,
            "Predicted": run.predicted(trial),
            "Measured": run.speedup(trial),
            "Pages without": run.series_of("baseline_page_faults", trial),
            "Pages with": run.series_of("page_faults", trial),
            "Verdict": "" if trial.tip in CONTROLS else run.verdict(trial).word,
        }


def speedup_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield the speed-ups of each tip on all networks."""
    for tip, memory, batch in dict.fromkeys((t.tip, t.memory, t.batch) for t in run.trials):
        speedups = {name: run.speedup(Trial(tip, name, batch, memory)) for name in NETWORKS}
        if not all(speedup.missing for speedup in speedups.values()):
            yield {"Tip": TIPS[tip], "Memory": memory, "Batch": batch, **speedups}
