"""Results that are printed: counts of verdicts and pairs, gains of tips, and rows of tables."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import product
from statistics import fmean
from typing import Final, TypeAlias

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE, Estimate
from report.core.text.escape import markdown
from report.instruments.comparison import VerdictWord
from report.paper.plots import interval_ends
from report.paper.tables import Content
from report.quantity.evaluation import number, point
from report.quantity.expression import Inferred, Quantity, absent, exact
from report.quantity.units import ONE
from report.studies.tuning_tips.runs import Run
from report.studies.tuning_tips.subject import CONTROLS, MEMORY, NETWORKS, TIPS, Trial

#: Verdicts that an effect has.
DECIDED: Final[tuple[VerdictWord, ...]] = ("faster", "slower")
#: Largest error of a prediction that is right.
NEAR: Final = 0.1
#: Settings whose times are printed, by the tip and the quantity of a comparison.
SETTINGS: Final = {
    "gradients on": ("no_grad", "baseline_time"),
    "no tip": ("control", "time"),
    "in-place activation": ("in_place", "time"),
    "fused batch norms": ("fused", "time"),
    "channels last": ("channels_last", "time"),
    "torch.compile": ("compiled", "time"),
    "bfloat16": ("bfloat16", "time"),
}
Prediction: TypeAlias = Callable[[Run, Trial], Quantity]
Choice: TypeAlias = Callable[[list[float]], float]


def processor(run: Run) -> str:
    """Return the name of the processor, without what tells apart its three runs."""
    machine = run.stored.record.environment
    return markdown(machine.label.removesuffix(machine.threads_text))


def comparisons_of(run: Run, memory: Collection[str] = MEMORY) -> list[Trial]:
    """Return the comparisons with right results, without the controls."""
    return [
        trial
        for trial in run.trials
        if trial.tip not in CONTROLS
        and trial.memory in memory
        and run.word(trial) not in ("not measured", "wrong")
    ]


def counted(run: Run, name: str, count: int) -> Quantity:
    """Return a number of comparisons; missing if none was measured."""
    if not comparisons_of(run):
        return absent(name, "1", f"no comparison was measured on {run.label}")
    return exact(name, "1", count, run.file)


def compared(
    run: Run, memory: str = "returned", word: VerdictWord | None = None, tip: str | None = None
) -> Quantity:
    """Count the comparisons under a policy, with a verdict or all, of one tip or of all."""
    trials = [t for t in comparisons_of(run, (memory,)) if tip in (None, t.tip)]
    return counted(run, "comparisons", sum(word in (None, run.word(trial)) for trial in trials))


def controls(run: Run, at_one: bool = False) -> Quantity:
    """Count the comparisons of a network with itself, or those whose interval contains one."""
    words = [run.word(trial) for memory in MEMORY for trial in run.controls(memory)]
    return counted(run, "controls", sum(not at_one or word not in DECIDED for word in words))


def within_controls(run: Run) -> Quantity:
    """Count the decided comparisons whose interval is not beyond the medians of the controls."""
    decided = [trial for trial in comparisons_of(run) if run.word(trial) in DECIDED]
    count = sum(not run.beyond_controls(trial) for trial in decided)
    return counted(run, "comparisons within the controls", count)


def control_deviation(run: Run, memory: str) -> Quantity:
    """Return by how much the medians of the controls under a policy differ from one at most."""
    if not run.medians(run.controls(memory)):
        return absent("deviation of the controls", "1", f"no control on {run.label}")
    low, high = run.control_range(memory)
    return exact("deviation of the controls", "1", max(1 - low, high - 1), run.file)


def unchanged(run: Run, trial: Trial) -> Quantity:
    """Return the speed-up where memory is returned, as the simplest prediction."""
    return run.speedup(trial._replace(memory="returned"))


def no_gain(run: Run, trial: Trial) -> Quantity:
    """Return one, the prediction that a tip gains nothing."""
    return exact("no gain", "1", 1, run.file)


def predicted_gains(
    run: Run, predict: Prediction = Run.predicted
) -> dict[Trial, tuple[float, float, float, float]]:
    """Return the predicted median where memory is kept, and the measured one within its interval.

    The medians are compared, since processes with memory returned and kept are no pairs.
    """
    gains = {}
    for trial in comparisons_of(run, ("kept",)):
        predicted, measured = point(predict(run, trial)), number(run.speedup(trial))
        if not isinstance(predicted, Missing) and not isinstance(measured, Missing):
            gains[trial] = (predicted, *interval_ends(measured, 1))
    return gains


def predictions(run: Run) -> Quantity:
    """Count the predictions where memory is kept; missing without page faults."""
    if gains := predicted_gains(run):
        return counted(run, "predictions", len(gains))
    return absent("predictions", "1", f"no page faults recorded on {run.label}")


def near_gains(run: Run, predict: Prediction = Run.predicted) -> list[Trial]:
    """Return the comparisons where memory is kept whose prediction has a small error."""
    gains = predicted_gains(run, predict).items()
    return [trial for trial, gain in gains if abs(gain[0] / gain[2] - 1) < NEAR]


def near(run: Run, predict: Prediction = Run.predicted, changed: bool = False) -> Quantity:
    """Count the predictions with a small error, of all gains or of those that change."""
    selected = changed_gains(run) if changed else comparisons_of(run, ("kept",))
    return counted(run, "predictions", len({*near_gains(run, predict)}.intersection(selected)))


def mean_error(run: Run, predict: Prediction = Run.predicted) -> Quantity:
    """Return the mean distance of predictions from the measured medians, as a share of these."""
    gains = predicted_gains(run, predict).values()
    if not gains:
        return absent("mean error", "1", f"no prediction on {run.label}")
    return exact("mean error", "1", fmean(abs(g[0] / g[2] - 1) for g in gains), run.file)


def missed(run: Run) -> str:
    """Name the comparisons whose prediction has a large error."""
    near = near_gains(run)
    return _named(trial for trial in predicted_gains(run) if trial not in near)


def changed_gains(run: Run) -> list[Trial]:
    """Return the comparisons whose intervals, of enough pairs, with both policies are disjoint."""
    changed = []
    for trial in comparisons_of(run, ("kept",)):
        one, other = (run.verdict(trial._replace(memory=memory)).ratio for memory in MEMORY)
        if not one or not other or min(one.confidence, other.confidence) < CONFIDENCE:
            continue
        if max(one.low, other.low) > min(one.high, other.high):
            changed.append(trial)
    return changed


def changed_counted(run: Run) -> Quantity:
    """Count the comparisons that gain something else where memory is kept."""
    return counted(run, "changed gains", len(changed_gains(run)))


def possible_changes(run: Run) -> Quantity:
    """Bound the changed gains by disjoint intervals and by all, as overlaps deny no change."""
    least, most = len(changed_gains(run)), len(comparisons_of(run, ("kept",)))

    def bounds(level: float) -> Estimate:
        return Estimate(least, least, most, 0, level)

    name = "gains whose intervals are disjoint"
    return Inferred(ONE, name, run.file, interval=bounds) if most else changed_counted(run)


def changed_named(run: Run) -> str:
    """Name the comparisons that gain something else where memory is kept."""
    return _named(changed_gains(run))


def _named(trials: Iterable[Trial]) -> str:
    names = [f"{TIPS[trial.tip]} on {trial.network}" for trial in trials]
    return markdown(", ".join(names) or "no comparison")


def pages(run: Run, trial: Trial, side: str = "") -> Quantity:
    """Return the pages that a call maps with the tip, or with the ``side`` of the baseline."""
    return run.series_of(f"{side}page_faults", trial)


def call_time(run: Run, setting: str, network: str, memory: str) -> Quantity:
    """Return the time of a call of a network in a setting, under a policy for freed memory."""
    tip, quantity = SETTINGS[setting]
    return run.series_of(quantity, Trial(tip, network, memory=memory))


def total_gain(run: Run, setting: str, choose: Choice) -> Quantity:
    """Divide the time without a tip, memory returned, by that in a setting with memory kept.

    Returns the smallest or largest ratio of medians of all networks.
    """
    gains = []
    for network in NETWORKS:
        default = point(call_time(run, "no tip", network, "returned"))
        changed = point(call_time(run, setting, network, "kept"))
        if not isinstance(default, Missing) and not isinstance(changed, Missing):
            gains.append(default / changed)
    if not gains:
        return absent("gain over the default", "1", f"not measured on {run.label}")
    return exact("gain over the default", "1", choose(gains), run.file)


def time_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield the times of each setting on all networks."""
    for setting, memory in product(SETTINGS, MEMORY):
        times = {f"{name} (ms)": call_time(run, setting, name, memory) for name in NETWORKS}
        yield {"Setting": setting, "Memory": memory, **times}


def number_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield every comparison, as predicted and as measured."""
    order = [*TIPS]
    for trial in sorted(run.trials, key=lambda trial: order.index(trial.tip)):
        yield {
            "Tip": TIPS[trial.tip],
            "Network": trial.network,
            "Memory": trial.memory,
            "Predicted": run.predicted(trial),
            "Measured": run.speedup(trial),
            "Pages without": pages(run, trial, "baseline_"),
            "Pages with": pages(run, trial),
            "Verdict": "" if trial.tip in CONTROLS else run.word(trial),
        }


def speedup_rows(run: Run, tips: Collection[str] = tuple(TIPS)) -> Iterator[Mapping[str, Content]]:
    """Yield the speed-ups of each tip on all networks."""
    for tip, memory, batch in dict.fromkeys((t.tip, t.memory, t.batch) for t in run.trials):
        speedups = {name: run.speedup(Trial(tip, name, batch, memory)) for name in NETWORKS}
        if tip in tips and not all(speedup.missing for speedup in speedups.values()):
            yield {"Tip": TIPS[tip], "Memory": memory, "Batch": batch, **speedups}
