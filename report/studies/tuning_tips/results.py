"""Results that are printed: counts of verdicts and pairs, gains of tips, and rows of tables."""

from collections.abc import Callable, Collection, Iterator, Mapping
from statistics import median
from typing import Final

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


def processor(run: Run) -> str:
    """Return the name of the processor, without what tells apart its three runs."""
    machine = run.stored.record.environment
    return markdown(machine.label.removesuffix(machine.threads_text))


def comparisons_of(run: Run, memory: Collection[str] = MEMORY) -> list[Trial]:
    """Return the comparisons that were measured, without the controls."""
    return [
        trial
        for trial in run.trials
        if trial.tip not in CONTROLS
        and trial.memory in memory
        and run.word(trial) != "not measured"
    ]


def counted(run: Run, name: str, number: int) -> Quantity:
    """Return a number of comparisons; missing if none was measured."""
    if not comparisons_of(run):
        return absent(name, "1", f"no comparison was measured on {run.label}")
    return exact(name, "1", number, run.file)


def judged(run: Run, word: Word, memory: str) -> Quantity:
    """Count the comparisons under a policy with this verdict."""
    words = [run.word(trial) for trial in comparisons_of(run, (memory,))]
    return counted(run, f"comparisons judged {word}", words.count(word))


def compared(run: Run, memory: str) -> Quantity:
    """Count the comparisons under a policy."""
    return counted(run, "comparisons", len(comparisons_of(run, (memory,))))


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


def _errors(run: Run, predict: Callable[[Trial], Quantity]) -> dict[Trial, float]:
    """Return the error of each predicted median where memory is kept, as a share of one."""
    errors = {}
    for trial in comparisons_of(run, ("kept",)):
        share = point(run.speedup(trial) / predict(trial))
        if not isinstance(share, Missing):
            errors[trial] = abs(share - 1)
    return errors


def predictions(run: Run, largest: float = float("inf")) -> Quantity:
    """Count the predictions where memory is kept, or those whose error is below ``largest``."""
    errors = _errors(run, run.predicted).values()
    return counted(run, "predictions", sum(error < largest for error in errors))


def missed(run: Run) -> str:
    """Name the comparisons whose prediction is not near."""
    errors = _errors(run, run.predicted)
    names = [f"{TIPS[t.tip]} on {t.network}" for t, error in errors.items() if error >= NEAR]
    return markdown(" and ".join(names) or "no comparison")


def error_predicted(run: Run) -> Quantity:
    """Return the median error of the predictions where memory is kept."""
    return _median_error(run, _errors(run, run.predicted))


def error_unchanged(run: Run) -> Quantity:
    """Return the median error of gains where memory is returned, taken for those with it kept."""

    def unchanged(trial: Trial) -> Quantity:
        return run.speedup(trial._replace(memory="returned"))

    return _median_error(run, _errors(run, unchanged))


def _median_error(run: Run, errors: Mapping[Trial, float]) -> Quantity:
    if not errors:
        return absent("median error", "1", f"no gain was predicted on {run.label}")
    return exact("median error", "1", median(errors.values()), run.file)


def pages(run: Run, trial: Trial, side: str = "") -> Quantity:
    """Return the pages that a call maps with the tip, or with the ``side`` of the baseline."""
    return run.series_of(f"{side}page_faults", trial)


def control_pages(run: Run, choose: Callable[[list[float]], float]) -> Quantity:
    """Return the smallest or largest number of pages that a process of the last network maps."""
    counts = []
    for tip in CONTROLS:
        if case := run.trials.get(Trial(tip, NETWORKS[-1])):
            rounds = case.rounds_under("retained")
            counts += [median(pages) for pair in rounds if (pages := pair.samples("page_faults"))]
    if not counts:
        return absent("pages", "1", f"no page faults recorded on {run.label}")
    return exact("pages", "1", choose(counts), run.file)


def gradient_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield times and pages of calls with and without gradients."""
    for memory in MEMORY:
        for trial in run.of("no_grad", memory):
            yield {
                "Network": trial.network,
                "Memory": trial.memory,
                "With (ms)": run.series_of("baseline_time", trial),
                "Pages with": pages(run, trial, "baseline_"),
                "Without (ms)": run.series_of("time", trial),
                "Pages without": pages(run, trial),
            }


def number_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield every comparison, as predicted and as measured."""
    for trial in sorted(run.trials, key=_place):
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


def _place(trial: Trial) -> int:
    """Return the place of a tip among all."""
    return [*TIPS].index(trial.tip)


def speedup_rows(run: Run) -> Iterator[Mapping[str, Content]]:
    """Yield the speed-ups of each tip on all networks, where freed memory is returned."""
    for tip, batch in dict.fromkeys((trial.tip, trial.batch) for trial in run.trials):
        speedups = {name: run.speedup(Trial(tip, name, batch)) for name in NETWORKS}
        if not all(speedup.missing for speedup in speedups.values()):
            yield {"Tip": TIPS[tip], "Batch": batch, **speedups}
