"""Printed results: selected trials of tips, gains (speed-ups by a tip), and rows of tables."""

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
from report.quantity.evaluation import point_estimate, printed_number
from report.quantity.expression import Quantity, exact_number, missing_number
from report.studies.tuning_tips.runs import Run
from report.studies.tuning_tips.source import TIPS
from report.studies.tuning_tips.subject import CONTROLS, MEMORY, NETWORKS, Trial

#: Verdicts on trials with a gain or a loss, and on trials that show neither.
DECIDED, UNDECIDED = ("faster", "slower"), ("no difference", "undecided")
#: Verdicts on tips that return right results, or that a network cannot follow.
RIGHT: Final = (*DECIDED, *UNDECIDED, "impossible")
#: Relative error below which a prediction counts as right.
TOLERANCE: Final = 0.1
#: Tips that change something.
COMPARED_TIPS: Final = tuple(tip for tip in TIPS if tip not in CONTROLS)
_TIMED_TIPS: Final = ("in_place", "fused", "channels_last", "compiled", "bfloat16")
#: Setting whose time is printed → tip and quantity.
SETTINGS: Final[Mapping[str, tuple[str, str]]] = {
    "gradients on": ("no_grad", "baseline_time"),
    "no tip": ("control", "time"),
    **{TIPS[tip]: (tip, "time") for tip in _TIMED_TIPS},
}
#: Names of tips, verdicts, or policies for freed memory.
Names: TypeAlias = Collection[str]
#: Trial → predicted gain, and measured gain (low end of the interval, median, high end).
Gains: TypeAlias = dict[Trial, tuple[float, float, float, float]]
Selection: TypeAlias = Callable[[Run], Collection[Trial]]
Extreme: TypeAlias = Callable[..., Quantity]
Prediction: TypeAlias = Callable[[Run, Trial], Quantity]


def processor(run: Run) -> str:
    """Return the name of the processor, without the number of threads."""
    environment = run.stored.record.environment
    return markdown(environment.label.removesuffix(environment.threads_text))


def comparisons(
    run: Run, memory: Names = MEMORY, words: Names = RIGHT, tips: Names = COMPARED_TIPS
) -> list[Trial]:
    """Select trials of ``tips`` with verdicts ``words``, under policies for freed ``memory``."""
    trials = [trial for trial in run.trials if trial.tip in tips and trial.memory in memory]
    return [trial for trial in trials if run.verdict(trial).word in words]


def changed_gains(run: Run) -> list[Trial]:
    """Select trials whose gains with returned and kept memory have disjoint 95 % intervals."""
    changed = []
    for trial in comparisons(run, ("kept",)):
        gains = [run.verdict(trial._replace(memory=memory)).ratio for memory in MEMORY]
        estimates = [gain for gain in gains if gain and gain.confidence >= CONFIDENCE]
        if len(estimates) < len(MEMORY):
            continue
        if max(gain.low for gain in estimates) > min(gain.high for gain in estimates):
            changed.append(trial)
    return changed


def count(run: Run, select: Selection) -> Quantity:
    """Count selected trials; missing if the run has no trials of tips."""
    if not comparisons(run):
        return missing_number("comparisons", "1", f"no comparison was measured on {run.label}")
    return exact_number("comparisons", "1", len(select(run)), run.file)


def names_of(run: Run, select: Selection) -> str:
    """List the tips and networks of selected trials."""
    names = [f"{TIPS[trial.tip]} on {trial.network}" for trial in select(run)]
    return markdown(", ".join(names) or "no comparison")


def unchanged_gain(run: Run, trial: Trial) -> Quantity:
    """Predict that a tip gains as much where memory is kept as where it is returned."""
    return run.speedup(trial._replace(memory="returned"))


def no_gain(run: Run, trial: Trial) -> Quantity:
    """Predict that a tip gains nothing."""
    return exact_number("no gain", "1", 1, run.file)


#: Rules that predict gains where memory is kept.
RULES: Final = {"Equation": Run.predicted, "Unchanged gain": unchanged_gain, "No gain": no_gain}


def predicted_gains(
    run: Run, predict: Prediction = Run.predicted, tips: Names = COMPARED_TIPS
) -> Gains:
    """Return predicted and measured gains of trials with kept memory, if neither is missing."""
    gains = {}
    for trial in comparisons(run, ("kept",), tips=tips):
        predicted, measured = (
            point_estimate(predict(run, trial)),
            printed_number(run.speedup(trial)),
        )
        if not isinstance(predicted, Missing) and not isinstance(measured, Missing):
            gains[trial] = (predicted, *interval_ends(measured, 1))
    return gains


def errors(run: Run, predict: Prediction, tips: Names = COMPARED_TIPS) -> dict[Trial, float]:
    """Return the relative errors of predictions against measured medians."""
    gains = predicted_gains(run, predict, tips).items()
    return {trial: abs(predicted / median - 1) for trial, (predicted, _, median, _) in gains}


def well_predicted(
    run: Run, predict: Prediction = Run.predicted, among: Selection = comparisons
) -> list[Trial]:
    """Select the trials, of those that ``among`` selects, whose error is below ``TOLERANCE``."""
    error_of_trial = errors(run, predict, tuple(TIPS))
    return [trial for trial in among(run) if error_of_trial.get(trial, TOLERANCE) < TOLERANCE]


def badly_predicted(run: Run) -> list[Trial]:
    """Select the trials for which the equation has an error of ``TOLERANCE`` or more."""
    return [trial for trial, error in errors(run, Run.predicted).items() if error >= TOLERANCE]


def better_by_equation(run: Run) -> list[Trial]:
    """Select the trials that the equation predicts better than the gain with memory returned."""
    predicted, unchanged = errors(run, Run.predicted), errors(run, unchanged_gain)
    return [trial for trial in predicted if predicted[trial] < unchanged.get(trial, 0.0)]


def mean_error(run: Run, predict: Prediction, tips: Names = COMPARED_TIPS) -> Quantity:
    """Return the mean relative error of predictions where memory is kept."""
    if not (error_of_trial := errors(run, predict, tips)):
        return missing_number("mean error", "1", f"no prediction on {run.label}")
    return exact_number("mean error", "1", fmean(error_of_trial.values()), run.file)


def extreme_gain(run: Run, tip: str, choose: Extreme, memory: str = "returned") -> Quantity:
    """Return the smallest or largest (``choose``) of a tip's median gains on all networks."""
    trials = (Trial(tip, network, memory=memory) for network in NETWORKS)
    return choose(*(run.median(run.speedup(trial)) for trial in trials))


def call_time(run: Run, setting: str, network: str, memory: str) -> Quantity:
    """Return a call's time (s), measured with memory returned or kept, or predicted otherwise."""
    tip, quantity = SETTINGS[setting]
    trial = Trial(tip, network, memory=memory)
    measured = memory in MEMORY
    return run.series_of(quantity, trial) if measured else run.time_where_kept(trial, quantity)


def score_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield mean errors and counts of right predictions by each rule, and by other page prices."""
    rules: dict[str, Prediction] = dict(RULES)
    # Prices of a page (tenths of a microsecond) below and above the measured price.
    for tenths in (12, 15, 21, 27):
        price = exact_number("price", "s", tenths / 10**7)
        rules[f"Equation, {tenths / 10} µs"] = partial(Run.predicted_where_kept, price=price)
    controls = partial(comparisons, tips=CONTROLS)
    for rule, predict in rules.items():
        yield {
            "Prediction": rule,
            "Tips (%)": mean_error(run, predict),
            "Controls (%)": mean_error(run, predict, CONTROLS),
            "All (%)": mean_error(run, predict, tuple(TIPS)),
            "Tips within": count(run, partial(well_predicted, predict=predict)),
            "Controls within": count(run, partial(well_predicted, predict=predict, among=controls)),
        }


def page_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield the gain by kept memory on each network: predicted, measured, and from its pages."""
    for trial in run.trials_of("allocator"):
        time, saved_pages = run.series_of("baseline_time", trial), run.saved_pages(trial)
        yield {
            "Network": trial.network,
            "Saved pages": run.median(saved_pages),
            "Committed prediction": run.predicted(trial),
            "Measured": run.speedup(trial),
            "Price × pages": time / (time - saved_pages * run.page_price()),
            "Implied price (µs)": run.implied_price(trial),
        }


def _networks(run: Run, tip: str, memory: str, word: str) -> str:
    """List the networks on which a tip has the verdict ``word`` under a policy for memory."""
    if not (measured := comparisons(run, (memory,), (*RIGHT, "wrong"), (tip,))):
        return "not measured"
    names = [trial.network for trial in measured if run.verdict(trial).word == word]
    return "all" if len(names) == len(measured) else ", ".join(names) or "none"


def advice_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield the networks on which each tip speeds up or slows down calls."""
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
    """Yield every trial with its predicted and its measured gain."""
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
    """Yield the speed-ups of each tip on all networks, without rows of missing numbers."""
    for tip, memory, batch in dict.fromkeys((t.tip, t.memory, t.batch) for t in run.trials):
        speedups = {name: run.speedup(Trial(tip, name, batch, memory)) for name in NETWORKS}
        if not all(speedup.missing for speedup in speedups.values()):
            yield {"Tip": TIPS[tip], "Memory": memory, "Batch": batch, **speedups}
