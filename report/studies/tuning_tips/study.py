"""All that the paper of tuning_tips prints."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from report.paper.findings import Inputs
from report.paper.machines import setup
from report.paper.study import Part, Study
from report.paper.tables import Table
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, exact
from report.studies.tuning_tips import figures, results, source, subject
from report.studies.tuning_tips.runs import Run
from report.studies.tuning_tips.subject import MEMORY, NETWORKS, Trial

#: Switching gradients off on the network where the policy for memory decides whether it pays.
RETURNED: Final = Trial("no_grad", NETWORKS[-1])
KEPT: Final = RETURNED._replace(memory="kept")
#: The compiled network that gains further by kept memory.
COMPILED: Final = Trial("compiled", NETWORKS[1])
#: Prices of a page (tenths of a microsecond) that show how much rests on the measured price.
OTHER_PRICES: Final = (0, 12, 15, 21, 27)


class Paper:
    """The paper's data: the run that its sentences are about, and an earlier one."""

    def __init__(self, inputs: Inputs) -> None:
        runs = inputs.runs(Run)
        self.runs, chosen = [*runs.values()], runs.get("cpu")
        self.cpu = chosen if chosen and chosen.trials else None
        #: Run on one thread with tips that the newest run leaves out.
        others = (run for run in self.runs if run.threads == 1 and run.of("set_to_none"))
        self.earlier = next(others, None)
        self.both_cores = next((run for run in self.runs if run.threads == 2), None)


study = Study(Paper, subject.check_subject)
findings = study.findings
cpu: Part[Run] = study.part("cpu")
cpu.texts(cpu=results.processor, missed=results.missed, changed=results.changed_named)
earlier: Part[Run] = study.part("earlier", "cpu")
both_cores: Part[Run] = study.part("both_cores", "cpu")
study.constants(batch=exact("batch", "1", subject.BATCH))
study.constants("percent", margin=exact("margin", "1", subject.MARGIN))


# ------------------------------------------------------------------------------------- values


def _declare_extremes(tip: str, memory: str) -> None:
    """Declare the smallest and the largest median of a tip under a policy for freed memory."""
    suffix = "" if memory == "returned" else "_kept"
    for end, choose in (("least", min), ("most", max)):
        value = partial(Run.extreme, choose=choose, tip=tip, memory=memory)
        cpu.values("measured", **{f"{tip}{suffix}_{end}": value})


for _tip in ("control", "allocator", "channels_last", "compiled", "inference_mode"):
    _declare_extremes(_tip, "returned")
for _tip in ("channels_last", "compiled", "bfloat16", "fused"):
    _declare_extremes(_tip, "kept")

for _memory in MEMORY:
    cpu.values(**{f"comparisons_{_memory}": partial(results.compared, memory=_memory)})
    for _word in results.DECIDED:
        _judged = partial(results.compared, memory=_memory, word=_word)
        cpu.values(**{f"{_word}_{_memory}": _judged})
    _deviation = partial(results.control_deviation, memory=_memory)
    cpu.values("percent", **{f"deviation_{_memory}": _deviation})
cpu.values(controls=results.controls, controls_at_one=partial(results.controls, at_one=True))
cpu.values(within_controls=results.within_controls)
cpu.values(predictions=results.predictions, changed_gains=results.changed_counted)
_RULES: Final = (Run.predicted, results.unchanged, results.no_gain)
for _name, _rule in zip(("predictions", "unchanged", "no_gain"), _RULES, strict=True):
    cpu.values(**{f"{_name}_within": partial(results.near, predict=_rule)})
    cpu.values(**{f"{_name}_changed": partial(results.near, predict=_rule, changed=True)})
    cpu.values("percent", **{f"{_name}_error": partial(results.mean_error, predict=_rule)})
cpu.values(page_price=Run.page_price, copy_rate=partial(Run.peak_rate, operation="copy"))
for _tenths in OTHER_PRICES:
    study.constants("measured", **{f"price_{_tenths}": exact("price", "s", _tenths / 10**7)})
    _priced = partial(Run.predicted_where_kept, price=_tenths / 10**7)
    cpu.values(**{f"within_at_{_tenths}": partial(results.near, predict=_priced)})
study.show("earlier", "control_most", "channels_last_least", "channels_last_most")

cpu.values("measured", gradients_returned=partial(Run.speedup, trial=RETURNED))
cpu.values("measured", gradients_kept=partial(Run.speedup, trial=KEPT))
study.show("earlier", "gradients_returned", "gradients_kept")
cpu.values("measured", gradients_predicted=partial(Run.predicted, trial=KEPT))

for _name, _side in (("on", "baseline_"), ("off", "")):
    _time = partial(Run.series_of, quantity=f"{_side}time", trial=RETURNED)
    cpu.values("measured", **{f"time_gradients_{_name}": _time})


@cpu.value("measured")
def gradients_pages(run: Run) -> Quantity:
    return to_digits(results.pages(run, RETURNED), 2)


@cpu.value("measured")
def gradients_pages_time(run: Run) -> Quantity:
    return to_digits(results.pages(run, RETURNED) * run.page_price(), 2)


for _tip in ("channels_last", "compiled"):
    for _end, _choose in (("least", min), ("most", max)):
        _gain = partial(results.total_gain, setting=subject.TIPS[_tip], choose=_choose)
        cpu.values("measured", **{f"{_tip}_total_{_end}": _gain})

for _tip, _word in zip(("threads", "workers"), results.DECIDED, strict=True):
    both_cores.values(**{f"{_tip}_compared": partial(results.compared, tip=_tip)})
    both_cores.values(**{f"{_tip}_{_word}": partial(results.compared, tip=_tip, word=_word)})
study.show("both_cores", "controls", "controls_at_one")


# ------------------------------------------------------------------------------------- claims


def _claim_that_pays(tip: str, memory: str) -> None:
    """Declare the claim that a tip pays on every network under a policy for freed memory."""

    def pays(run: Run) -> Iterator[Statement]:
        for trial in run.of(tip, memory):
            yield run.speedup(trial) > 1

    suffix = "" if memory == "returned" else "_kept"
    pays.__name__ = f"{tip}_pays{suffix}"
    title = f"The tip {subject.TIPS[tip]} speeds up every network"
    title += ", where both sides keep freed memory" if suffix else ""
    numbers = (f"{tip}{suffix}_least", f"{tip}{suffix}_most", "batch")
    cpu.claim(title, numbers=numbers)(pays)


_claim_that_pays("allocator", "returned")
for _memory in MEMORY:
    for _tip in ("channels_last", "compiled"):
        _claim_that_pays(_tip, _memory)


@cpu.value("measured")
def compiled_further(run: Run) -> Quantity:
    kept = run.series_of("time", COMPILED._replace(memory="kept"))
    return run.series_of("time", COMPILED) / kept


@cpu.claim(
    "Compiled ResNet-20 is faster still where freed memory is kept", numbers=("compiled_further",)
)
def compiled_gains_by_keeping(run: Run) -> Statement:
    return compiled_further(run) > 1


@cpu.claim(
    "On MobileNetV2 switching gradients off gains only where freed memory is kept",
    numbers=("gradients_returned", "gradients_kept"),
)
def reversal(run: Run) -> Iterator[Statement]:
    yield run.speedup(KEPT) > 1
    yield run.speedup(RETURNED) < 1


@cpu.claim("On MobileNetV2 a call without gradients maps more pages where memory is returned")
def more_pages_without_gradients(run: Run) -> Statement:
    return results.pages(run, RETURNED) - results.pages(run, RETURNED, "baseline_") > 0


@cpu.claim(
    "Some tips gain something else where memory is kept: both intervals are disjoint",
    numbers=("changed_gains", "predictions"),
)
def gains_change(run: Run) -> Statement:
    return results.possible_changes(run) > 1


@cpu.claim(
    "Page faults predict over three quarters of gains with memory kept; unchanged gains fewer",
    numbers=("predictions", "predictions_within"),
)
def gains_as_predicted(run: Run) -> Iterator[Statement]:
    predictions, near = results.predictions(run), results.near(run)
    yield near / predictions > 3 / 4
    yield (near - results.near(run, results.unchanged)) / predictions > 0


@cpu.claim("In bfloat16 every network returns right results")
def right_in_bfloat16(run: Run) -> Statement:
    words = [*map(run.word, run.of("bfloat16"))]
    return results.counted(run, "wrong comparisons in bfloat16", words.count("wrong")).exactly(0)


# ------------------------------------------------------------------------- figures and tables


cpu.figure(key=True, height=2.4)(figures.times)
cpu.figure(height=3.0, same_axes=True)(figures.speedups)
cpu.figure(height=2.2, same_axes=True)(figures.predictions)
study.table("tips")(source.advice)
cpu.table("times", wide=True)(results.time_rows)
cpu.table("numbers", wide=True)(results.number_rows)
earlier.table("earlier", wide=True)(results.speedup_rows)
both_cores.table("both-cores", wide=True)(
    partial(results.speedup_rows, tips=("control", "allocator", "threads", "workers"))
)


@study.shared_table()
def machines(p: Paper) -> Table:
    return setup(p.runs)
