"""Results that are printed: counts of verdicts and pairs, gains of tips, and rows of tables."""

from collections.abc import Callable, Collection, Iterator, Mapping
from statistics import median
from typing import Final, TypeAlias

from report.core.missing import Missing
from report.core.text.escape import markdown
from report.instruments.comparison import Word
from report.paper.tables import Content
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, exact
from report.studies.tuning_tips.runs import Run
from report.studies.tuning_tips.subject import CONTROLS, MARGIN, MEMORY, NETWORKS, TIPS, Trial

#: Verdicts that an effect has.
DECIDED: Final[tuple[Word, ...]] = ("faster", "slower")
#: Largest error of a prediction that is right.
NEAR: Final = 0.1
Prediction: TypeAlias = Callable[[Run, Trial], Quantity]


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


def counted(run: Run, name: str, number: int) -> Quantity:
    """Return a number of comparisons; missing if none was measured."""
    if not comparisons_of(run):
        return absent(name, "1", f"no comparison was measured on {run.label}")
    return exact(name, "1", number, run.file)


def compared(run: Run, memory: str, word: Word | None = None) -> Quantity:
    """Count the comparisons under a policy, those with a verdict or all."""
    words = [run.word(trial) for trial in comparisons_of(run, (memory,))]
    return counted(run, "comparisons", words.count(word) if word else len(words))


def control_pairs(run: Run, memory: str, least: float = 0.0) -> Quantity:
    """Count the pairs of the controls under a policy whose ratio exceeds ``least``."""
    ratios = [ratio for trial in run.controls(memory) for ratio in run.ratios(trial)]
    return counted(run, "pairs of the controls", sum(ratio > least for ratio in ratios))


def controls(run: Run) -> Quantity:
    """Count the comparisons of a network with itself."""
    return counted(run, "controls", sum(len(run.controls(memory)) for memory in MEMORY))


def controls_at_one(run: Run) -> Quantity:
    """Count the controls whose interval contains one."""
    words = [run.word(trial) for memory in MEMORY for trial in run.controls(memory)]
    return counted(run, "controls", sum(word not in DECIDED for word in words))


def within_controls(run: Run) -> Quantity:
    """Count the decided comparisons whose interval is not beyond the medians of the controls."""
    decided = [trial for trial in comparisons_of(run) if run.word(trial) in DECIDED]
    count = sum(not run.beyond_controls(trial) for trial in decided)
    return counted(run, "comparisons within the controls", count)


def control_deviation(run: Run, memory: str) -> Quantity:
    """Return by how much the medians of the controls under a policy differ from one at most."""
    deviations = [abs(median - 1) for median in run.medians(run.controls(memory))]
    if not deviations:
        return absent("deviation of the controls", "1", f"no control on {run.label}")
    return exact("deviation of the controls", "1", max(deviations), run.file)


def promised(run: Run, among: Word | None = None) -> Quantity:
    """Count the gains that theory promises where memory is returned, ``among`` a verdict or all."""
    count = 0
    for trial in comparisons_of(run, ("returned",)):
        gain = point(run.predicted(trial))
        if not isinstance(gain, Missing) and among in (None, run.word(trial)):
            count += gain > 1 + MARGIN
    return counted(run, "gains that theory promises", count)


def unchanged(run: Run, trial: Trial) -> Quantity:
    """Return the speed-up where memory is returned, as the simplest prediction."""
    return run.speedup(trial._replace(memory="returned"))


def no_gain(run: Run, trial: Trial) -> Quantity:
    """Return one, the prediction that a tip gains nothing."""
    return exact("no gain", "1", 1, run.file)


def _errors(run: Run, predict: Prediction = Run.predicted) -> dict[Trial, float]:
    """Return the error of each predicted median where memory is kept, as a share of the measured.

    The medians are compared, since processes with memory returned and kept are no pairs.
    """
    errors = {}
    for trial in comparisons_of(run, ("kept",)):
        predicted, measured = point(predict(run, trial)), point(run.speedup(trial))
        if not isinstance(predicted, Missing) and not isinstance(measured, Missing):
            errors[trial] = abs(predicted / measured - 1)
    return errors


def predictions(
    run: Run, predict: Prediction = Run.predicted, largest: float = float("inf")
) -> Quantity:
    """Count the predictions where memory is kept, or those whose error is below ``largest``."""
    errors = _errors(run, predict).values()
    return counted(run, "predictions", sum(error < largest for error in errors))


def missed(run: Run) -> str:
    """Name the comparisons whose prediction is not near."""
    names = [f"{TIPS[t.tip]} on {t.network}" for t, error in _errors(run).items() if error >= NEAR]
    return markdown(" and ".join(names) or "no comparison")


def median_error(run: Run, predict: Prediction = Run.predicted) -> Quantity:
    """Return the median error of the predictions where memory is kept."""
    errors = _errors(run, predict)
    if not errors:
        return absent("median error", "1", f"no gain was predicted on {run.label}")
    return exact("median error", "1", median(errors.values()), run.file)


def time_of_a_page(run: Run, choose: Callable[[list[float]], float]) -> Quantity:
    """Return the smallest or largest median time that kept memory saves for a page less (s)."""
    medians = []
    for trial in run.of("allocator"):
        saved = run.series_of("baseline_time", trial) - run.series_of("time", trial)
        time = point(saved / (pages(run, trial, "baseline_") - pages(run, trial)))
        if not isinstance(time, Missing):
            medians.append(time)
    if not medians:
        return absent("time of a page", "s", f"no page faults recorded on {run.label}")
    return exact("time of a page", "s", choose(medians), run.file)


def keeping_once_compiled(run: Run, network: str) -> Quantity:
    """Divide the median time of a compiled network with memory returned by that with it kept.

    Processes with memory returned and kept are no pairs, so that the ratio has no interval.
    """
    trials = [Trial("compiled", network, memory=memory) for memory in MEMORY]
    with_returned, with_kept = (point(run.series_of("time", trial)) for trial in trials)
    if isinstance(with_returned, Missing) or isinstance(with_kept, Missing):
        return absent("gain of keeping", "1", f"{network} was not compiled on {run.label}")
    return exact("gain of keeping", "1", with_returned / with_kept, run.file)


def pages(run: Run, trial: Trial, side: str = "") -> Quantity:
    """Return the pages that a call maps with the tip, or with the ``side`` of the baseline."""
    return run.series_of(f"{side}page_faults", trial)


def gradient_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield the pages of calls with and without gradients, where memory is returned."""
    for trial in run.of("no_grad"):
        rounds = run.trials[trial].rounds_under("retained")
        pairs = [
            (pair.samples("baseline_page_faults"), pair.samples("page_faults")) for pair in rounds
        ]
        counts = [(median(baseline), median(tip)) for baseline, tip in pairs if baseline and tip]
        yield {
            "Network": trial.network,
            "Gradients on": pages(run, trial, "baseline_"),
            "Gradients off": pages(run, trial),
            "More off": f"{sum(tip > baseline for baseline, tip in counts)} of {len(counts)}",
        }


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


def speedup_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield the speed-ups of each tip on all networks."""
    for tip, memory, batch in dict.fromkeys((t.tip, t.memory, t.batch) for t in run.trials):
        speedups = {name: run.speedup(Trial(tip, name, batch, memory)) for name in NETWORKS}
        if not all(speedup.missing for speedup in speedups.values()):
            yield {"Tip": TIPS[tip], "Memory": memory, "Batch": batch, **speedups}
