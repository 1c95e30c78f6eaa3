"""Declarations of tuning_tips: templates print a function's result by the function's name."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from report.paper.findings import Inputs
from report.paper.machines import setup
from report.paper.study import Part, Study
from report.paper.tables import Table
from report.quantity.expression import Quantity, Statement, exact_number
from report.quantity.operations import largest, range_over, smallest
from report.studies.tuning_tips import figures, results, subject
from report.studies.tuning_tips.runs import Run
from report.studies.tuning_tips.source import TIPS
from report.studies.tuning_tips.subject import NETWORKS, POLICIES, Trial

#: Trials of the tip "no gradients" on MobileNetV2, where it gains only if memory is kept.
NO_GRAD_RETURNED: Final = Trial("no_grad", NETWORKS[-1])
NO_GRAD_KEPT: Final = NO_GRAD_RETURNED._replace(memory="kept")
COMPILED_RESNET: Final = Trial("compiled", "ResNet-20")


class Paper:
    """The main run, an earlier run with more tips, and a run on two threads; None if missing."""

    def __init__(self, inputs: Inputs) -> None:
        by_role = inputs.runs(Run)
        self.runs, main_run = [*by_role.values()], by_role.get("cpu")
        self.cpu = main_run if main_run and main_run.trials else None
        earlier = (run for run in self.runs if run.threads == 1 and run.trials_of("set_to_none"))
        self.earlier = next(earlier, None)
        self.both_cores = next((run for run in self.runs if run.threads == 2), None)


study = Study(Paper, subject.check_subject)
findings = study.findings
# Parts for results from the main run, an earlier run with more tips, and a run on two threads.
cpu: Part[Run] = study.part("cpu")
earlier: Part[Run] = study.part("earlier", kind="cpu")
both_cores: Part[Run] = study.part("both_cores", kind="cpu")
cpu.texts(
    cpu=results.processor_name,
    missed=partial(results.describe_trials, select=results.badly_predicted_trials),
    changed=partial(results.describe_trials, select=results.trials_with_changed_gain),
)
study.values(batch=exact_number("batch", "1", subject.BATCH))


def _declare_count(id: str, select: results.Selection) -> None:
    """Declare the number of trials that ``select`` returns as a value with this id."""
    cpu.values(**{id: partial(results.count_trials, select=select)})


# Smallest and largest gains of all networks, with memory returned and kept.
for _end, _choose in (("least", smallest), ("most", largest)):
    for _tip in ("control", "allocator", "channels_last", "compiled"):
        _gain = partial(results.extreme_gain, tip=_tip, choose=_choose)
        cpu.values("measured", **{f"{_tip}_{_end}": _gain})
    for _tip in ("channels_last", "compiled"):
        _gain = partial(results.extreme_gain, tip=_tip, choose=_choose, memory="kept")
        cpu.values("measured", **{f"{_tip}_kept_{_end}": _gain})

# Numbers of trials per verdict, of controls, and of predictions.
for _memory in POLICIES:
    _select = partial(results.select_trials, memory=(_memory,))
    _declare_count(f"comparisons_{_memory}", _select)
    for _verdict in results.DECIDED:
        _declare_count(f"{_verdict}_{_memory}", partial(_select, verdicts=(_verdict,)))
_CONTROLS: Final = partial(results.select_trials, tips=subject.CONTROLS)
_declare_count("controls", _CONTROLS)
_declare_count("controls_at_one", partial(_CONTROLS, verdicts=results.UNDECIDED))
_declare_count("changed_gains", results.trials_with_changed_gain)
_declare_count("predictions", results.predicted_gains)
_declare_count("predicted_within", results.well_predicted_trials)
_declare_count("closer", results.trials_better_by_equation)
_PREDICTION_IDS: Final = ("predicted", "unchanged_gain", "no_gain")
for _id, _predict in zip(_PREDICTION_IDS, results.PREDICTIONS.values(), strict=True):
    _select = partial(results.well_predicted_trials, predict=_predict)
    _declare_count(f"{_id}_changed", partial(_select, among=results.trials_with_changed_gain))
    cpu.values("percent", **{f"{_id}_error": partial(results.mean_error, predict=_predict)})
cpu.values(page_price=Run.page_mapping_time, copy_rate=partial(Run.peak_rate, operation="copy"))
# The tip "no gradients" on MobileNetV2: gains, times and mapped pages.
cpu.values(
    "measured",
    gradients_returned=partial(Run.speedup, trial=NO_GRAD_RETURNED),
    gradients_kept=partial(Run.speedup, trial=NO_GRAD_KEPT),
    gradients_predicted=partial(Run.predicted_speedup, trial=NO_GRAD_KEPT),
    time_gradients_on=partial(Run.series_of, quantity="baseline_time", trial=NO_GRAD_RETURNED),
    time_gradients_off=partial(Run.series_of, quantity="time", trial=NO_GRAD_RETURNED),
    gradients_pages=partial(Run.series_of, quantity="page_faults", trial=NO_GRAD_RETURNED),
    compiled_pages=partial(Run.series_of, quantity="page_faults", trial=COMPILED_RESNET),
)
study.show("earlier", "control_most", "gradients_returned", "gradients_kept")
study.show("both_cores", "controls", "controls_at_one")


def _claim_gain(tip: str, memory: str) -> None:
    """Declare the claim that a tip speeds up every network under a policy for freed memory."""

    def pays(run: Run) -> list[Statement]:
        return [run.speedup(trial) > 1 for trial in run.trials_of(tip, memory)]

    suffix = "" if memory == "returned" else "_kept"
    pays.__name__ = f"{tip}_pays{suffix}"
    title = f"The tip {TIPS[tip]} speeds up every network"
    title += ", where both sides keep freed memory" if suffix else ""
    numbers = (f"{tip}{suffix}_least", f"{tip}{suffix}_most", "batch")
    cpu.claim(title, numbers=numbers)(pays)


_claim_gain("allocator", "returned")
for _memory in POLICIES:
    for _tip in ("channels_last", "compiled"):
        _claim_gain(_tip, _memory)


def _gain_by_keeping(run: Run, network: str) -> Quantity:
    """Divide a compiled network's time with memory returned by its time with memory kept."""
    trials = (Trial("compiled", network, memory=memory) for memory in POLICIES)
    time_returned, time_kept = (run.series_of("time", trial) for trial in trials)
    return time_returned / time_kept


for _name, _network in zip(("cnn", "compiled", "mobilenet"), NETWORKS, strict=True):
    _gain = partial(_gain_by_keeping, network=_network)
    cpu.values("measured", **{f"{_name}_further": _gain})


@cpu.claim(
    "Compiled ResNet-20 is faster still where freed memory is kept", numbers=("compiled_further",)
)
def compiled_gains_by_keeping(run: Run) -> Statement:
    return _gain_by_keeping(run, "ResNet-20") > 1


@cpu.claim(
    "On MobileNetV2 switching gradients off gains only where freed memory is kept",
    numbers=("gradients_returned", "gradients_kept"),
)
def reversal(run: Run) -> Iterator[Statement]:
    yield run.speedup(NO_GRAD_KEPT) > 1
    yield run.speedup(NO_GRAD_RETURNED) < 1


@cpu.claim("On MobileNetV2 a call without gradients maps more pages where memory is returned")
def more_pages_without_gradients(run: Run) -> Statement:
    return run.saved_pages(NO_GRAD_RETURNED) < 0


@cpu.claim(
    "Some tips gain something else where memory is kept: both intervals are disjoint",
    numbers=("changed_gains", "comparisons_kept"),
)
def gains_change(run: Run) -> Statement:
    changed = results.count_trials(run, results.trials_with_changed_gain)
    all_trials = results.count_trials(run, partial(results.select_trials, memory=("kept",)))
    # Gains with overlapping intervals may have changed too, so that at most all trials changed.
    return range_over(changed, all_trials) > 1


@cpu.claim(
    "Page faults predict over three quarters of gains with memory kept; unchanged gains fewer",
    numbers=("predictions", "predicted_within", "predicted_error", "unchanged_gain_error"),
)
def gains_as_predicted(run: Run) -> Iterator[Statement]:
    predictions = results.count_trials(run, results.predicted_gains)
    by_equation = results.count_trials(run, results.well_predicted_trials)
    by_unchanged_gain = partial(results.well_predicted_trials, predict=results.unchanged_gain)
    yield by_equation / predictions > 3 / 4
    yield (by_equation - results.count_trials(run, by_unchanged_gain)) / predictions > 0


@cpu.claim("On the MNIST CNN kept memory saves more time than the measured price of its pages")
def more_than_pages(run: Run) -> Statement:
    return run.saved_time_per_page(Trial("allocator", NETWORKS[0])) / run.page_mapping_time() > 1


@cpu.claim("In bfloat16 every network returns right results")
def right_in_bfloat16(run: Run) -> Statement:
    wrong_trials = partial(results.select_trials, verdicts=("wrong",), tips=("bfloat16",))
    return results.count_trials(run, wrong_trials).exactly(0)


cpu.figure(key=True, height=2.4)(figures.times)
cpu.figure(height=3.0, same_axes=True)(figures.speedups)
cpu.figure(height=2.8, same_axes=True, wide=True)(figures.predictions)
cpu.table("times", wide=True, digits={f"{name} (ms)": 3 for name in NETWORKS})(results.time_rows)
cpu.table("scores", digits={"Tips (%)": 2, "Controls (%)": 2, "All (%)": 2})(results.score_rows)
cpu.table("pages", digits={"Saved pages": 2})(results.page_rows)
cpu.table("advice")(results.advice_rows)
cpu.table("numbers", wide=True)(results.number_rows)
earlier.table("earlier", wide=True)(results.speedup_rows)
both_cores.table("both-cores", wide=True)(results.speedup_rows)


@study.table()
def machines(paper: Paper) -> Table:
    return setup(paper.runs)
