"""Printed results: selected trials of tips, gains (speed-ups by a tip), and rows of tables."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import product
from statistics import fmean
from typing import Final, NamedTuple, TypeAlias

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.paper.plots import interval_ends
from report.paper.tables import Content
from report.quantity.evaluation import point_estimate, printed_number
from report.quantity.expression import Quantity, exact_number, missing_number
from report.studies.tuning_tips.runs import Run
from report.studies.tuning_tips.source import TIPS
from report.studies.tuning_tips.subject import CONTROLS, NETWORKS, POLICIES, Trial

#: Verdicts on trials with a gain or a loss, and on trials that show neither.
DECIDED, UNDECIDED = ("faster", "slower"), ("no difference", "undecided")
#: Verdicts on trials whose results are right, and on tips that a network cannot follow.
WITHOUT_WRONG: Final = (*DECIDED, *UNDECIDED, "impossible")
#: Relative error below which a prediction counts as right.
TOLERANCE: Final = 0.1
#: Tips without the two controls, which change nothing.
COMPARED_TIPS: Final = tuple(tip for tip in TIPS if tip not in CONTROLS)
#: Tips whose times are printed.
_TIMED_TIPS: Final = ("in_place", "fused", "channels_last", "compiled", "bfloat16")
#: Setting whose time is printed → tip and quantity.
SETTINGS: Final[Mapping[str, tuple[str, str]]] = {
    "gradients on": ("no_grad", "baseline_time"),
    "no tip": ("control", "time"),
    **{TIPS[tip]: (tip, "time") for tip in _TIMED_TIPS},
}
#: Tips, verdicts, or policies for freed memory, by name.
Names: TypeAlias = Collection[str]
#: Function that selects trials of a run.
Selection: TypeAlias = Callable[[Run], Collection[Trial]]
#: Function that predicts a trial's gain where memory is kept.
Prediction: TypeAlias = Callable[[Run, Trial], Quantity]


class Gain(NamedTuple):
    """Predicted gain of a trial; low end, median and high end of the measured gain's interval."""

    predicted: float
    low: float
    median: float
    high: float


def processor_name(run: Run) -> str:
    """Return the name of the processor, without the number of threads."""
    environment = run.stored.record.environment
    return markdown(environment.label.removesuffix(environment.threads_text))


def select_trials(
    run: Run, memory: Names = POLICIES, verdicts: Names = WITHOUT_WRONG, tips: Names = COMPARED_TIPS
) -> list[Trial]:
    """Select trials of ``tips`` with one of ``verdicts``, under the policies ``memory``."""
    trials = [trial for trial in run.trials if trial.tip in tips and trial.memory in memory]
    return [trial for trial in trials if run.verdict(trial).word in verdicts]


def trials_with_changed_gain(run: Run) -> list[Trial]:
    """Select trials whose gains with returned and kept memory have disjoint 95 % intervals."""
    trials = []
    for trial in select_trials(run, ("kept",)):
        gains = [run.verdict(trial._replace(memory=memory)).ratio for memory in POLICIES]
        estimates = [gain for gain in gains if gain and gain.confidence >= CONFIDENCE]
        if len(estimates) < len(POLICIES):
            continue
        if max(gain.low for gain in estimates) > min(gain.high for gain in estimates):
            trials.append(trial)
    return trials


def count_trials(run: Run, select: Selection) -> Quantity:
    """Count the trials that ``select`` returns; missing if the run compared no tips."""
    if not select_trials(run):
        return missing_number("comparisons", "1", f"no comparison was measured on {run.label}")
    return exact_number("comparisons", "1", len(select(run)), run.file)


def describe_trials(run: Run, select: Selection) -> str:
    """List the tips and networks of the trials that ``select`` returns."""
    names = [f"{TIPS[trial.tip]} on {trial.network}" for trial in select(run)]
    *others, last = names or ["no comparison"]
    return markdown(f"{', '.join(others)} and {last}" if others else last)


def unchanged_gain(run: Run, trial: Trial) -> Quantity:
    """Predict that a tip gains as much with memory kept as with memory returned."""
    return run.speedup(trial._replace(memory="returned"))


def no_gain(run: Run, trial: Trial) -> Quantity:
    """Predict that a tip gains nothing."""
    return exact_number("no gain", "1", 1, run.file)


#: Name in print → function that predicts gains where memory is kept.
PREDICTIONS: Final[Mapping[str, Prediction]] = {
    "Equation": Run.predicted_speedup, "Unchanged gain": unchanged_gain, "No gain": no_gain,
}  # fmt: skip


def predicted_gains(
    run: Run, predict: Prediction = Run.predicted_speedup, tips: Names = COMPARED_TIPS
) -> dict[Trial, Gain]:
    """Return predicted and measured gains of trials with kept memory, if neither is missing."""
    gains = {}
    for trial in select_trials(run, ("kept",), tips=tips):
        predicted = point_estimate(predict(run, trial))
        measured = printed_number(run.speedup(trial))
        if not isinstance(predicted, Missing) and not isinstance(measured, Missing):
            gains[trial] = Gain(predicted, *interval_ends(measured, factor=1))
    return gains


def errors_of(run: Run, predict: Prediction, tips: Names = COMPARED_TIPS) -> dict[Trial, float]:
    """Return trial → relative difference between predicted gain and median measured gain."""
    gains = predicted_gains(run, predict, tips)
    return {trial: abs(gain.predicted / gain.median - 1) for trial, gain in gains.items()}


def well_predicted_trials(
    run: Run, predict: Prediction = Run.predicted_speedup, among: Selection = select_trials
) -> list[Trial]:
    """Select the trials of ``among`` that are predicted with an error below ``TOLERANCE``."""
    errors = errors_of(run, predict, tuple(TIPS))
    return [trial for trial in among(run) if errors.get(trial, TOLERANCE) < TOLERANCE]


def badly_predicted_trials(run: Run) -> list[Trial]:
    """Select the trials for which the equation has an error of ``TOLERANCE`` or more."""
    errors = errors_of(run, Run.predicted_speedup)
    return [trial for trial, error in errors.items() if error >= TOLERANCE]


def trials_better_by_equation(run: Run) -> list[Trial]:
    """Select the trials that the equation predicts better than the gain with memory returned."""
    errors = errors_of(run, Run.predicted_speedup)
    errors_of_unchanged = errors_of(run, unchanged_gain)
    return [trial for trial in errors if errors[trial] < errors_of_unchanged.get(trial, 0.0)]


def mean_error(run: Run, predict: Prediction, tips: Names = COMPARED_TIPS) -> Quantity:
    """Return the mean relative error of predictions with memory kept."""
    if not (errors := errors_of(run, predict, tips)):
        return missing_number("mean error", "1", f"no prediction on {run.label}")
    return exact_number("mean error", "1", fmean(errors.values()), run.file)


def extreme_gain(
    run: Run, tip: str, choose: Callable[..., Quantity], memory: str = "returned"
) -> Quantity:
    """Return the median gain that ``choose`` (smallest or largest) selects among all networks."""
    trials = (Trial(tip, network, memory=memory) for network in NETWORKS)
    return choose(*(run.median(run.speedup(trial)) for trial in trials))


def call_time(run: Run, setting: str, network: str, memory: str) -> Quantity:
    """Return a call's time (s), measured if ``memory`` is a policy, else predicted for "kept"."""
    tip, quantity = SETTINGS[setting]
    trial = Trial(tip, network, memory=memory)
    is_measured = memory in POLICIES
    return run.series_of(quantity, trial) if is_measured else run.time_kept(trial, quantity)


def score_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Tabulate mean errors and numbers of right predictions per kind of prediction."""
    predictions = dict(PREDICTIONS)
    # Times of a page (tenths of a microsecond) below and above the measured time.
    for tenths in (12, 15, 21, 27):
        page_time = exact_number("price", "s", tenths / 10**7)
        predict_kept = partial(Run.predicted_where_kept, page_time=page_time)
        predictions[f"Equation, {tenths / 10} µs"] = predict_kept
    controls = partial(select_trials, tips=CONTROLS)
    for name, predict in predictions.items():
        right = partial(well_predicted_trials, predict=predict)
        yield {
            "Prediction": name,
            "Tips (%)": mean_error(run, predict),
            "Controls (%)": mean_error(run, predict, CONTROLS),
            "All (%)": mean_error(run, predict, tuple(TIPS)),
            "Tips within": count_trials(run, right),
            "Controls within": count_trials(run, partial(right, among=controls)),
        }


def page_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Tabulate the gain by kept memory per network: predicted, measured, and from its pages."""
    for trial in run.trials_of("allocator"):
        time, saved_pages = run.series_of("baseline_time", trial), run.saved_pages(trial)
        yield {
            "Network": trial.network,
            "Saved pages": run.median(saved_pages),
            "Committed prediction": run.predicted_speedup(trial),
            "Measured": run.speedup(trial),
            "Price × pages": time / (time - saved_pages * run.page_mapping_time()),
            "Implied price (µs)": run.saved_time_per_page(trial),
        }


def _networks(run: Run, tip: str, memory: str, verdict: str) -> str:
    """List the networks on which a tip has a verdict under a policy for freed memory."""
    if not (trials := select_trials(run, (memory,), (*WITHOUT_WRONG, "wrong"), (tip,))):
        return "not measured"
    names = [trial.network for trial in trials if run.verdict(trial).word == verdict]
    return "all" if len(names) == len(trials) else ", ".join(names) or "none"


def advice_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Tabulate the networks on which each tip speeds up or slows down calls."""
    for tip in dict.fromkeys(trial.tip for trial in select_trials(run)):
        yield {
            "Tip": TIPS[tip],
            "Faster, memory kept": _networks(run, tip, "kept", "faster"),
            "Faster, returned": _networks(run, tip, "returned", "faster"),
            "Slower, returned": _networks(run, tip, "returned", "slower"),
        }


def time_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Tabulate the times of each setting on all networks."""
    for setting, memory in product(SETTINGS, (*POLICIES, "kept, predicted")):
        times = {f"{name} (ms)": call_time(run, setting, name, memory) for name in NETWORKS}
        yield {"Setting": setting, "Memory": memory, **times}


def number_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Tabulate every trial with its predicted and its measured gain."""
    for trial in sorted(run.trials, key=lambda trial: [*TIPS].index(trial.tip)):
        yield {
            "Tip": TIPS[trial.tip],
            "Network": trial.network,
            "Memory": trial.memory,
            "Predicted": run.predicted_speedup(trial),
            "Measured": run.speedup(trial),
            "Pages without": run.series_of("baseline_page_faults", trial),
            "Pages with": run.series_of("page_faults", trial),
            "Verdict": "" if trial.tip in CONTROLS else run.verdict(trial).word,
        }


def speedup_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Tabulate the speed-ups of each tip on all networks, without rows of missing numbers."""
    for tip, memory, batch in dict.fromkeys((t.tip, t.memory, t.batch) for t in run.trials):
        speedups = {name: run.speedup(Trial(tip, name, batch, memory)) for name in NETWORKS}
        if not all(speedup.missing for speedup in speedups.values()):
            yield {"Tip": TIPS[tip], "Memory": memory, "Batch": batch, **speedups}
