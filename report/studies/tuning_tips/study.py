"""All that the paper of tuning_tips prints."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, NamedTuple, get_args

from figures.panels import Dots, DotSeries
from report.core.errors import StudyError
from report.core.missing import Missing
from report.core.records.layers import Activation, Addition, BatchNorm, Convolution, Layer
from report.core.records.record import Case
from report.core.records.store import Stored
from report.evidence import runs as any_study
from report.evidence.case_checks import check_factors
from report.instruments.comparison import Word, decide, ratio
from report.paper.findings import Inputs
from report.paper.machines import setup, short_name
from report.paper.plots import dot_series
from report.paper.study import Content, Part, Study
from report.paper.tables import Table
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.verdicts import Several, any_of
from report.theory import heap, work
from report.theory.roofline import load, sheet_roof

#: Speed-ups that differ from one by less than this share are no difference.
MARGIN: Final = 0.02
#: Names of tips in tables, and the subjects of their claims.
TIPS: Final = {
    "control": ("nothing (control)", ""),
    "exchanged": ("nothing, roles exchanged", ""),
    "no_grad": ("no gradients", "Switching gradients off"),
    "inference_mode": ("inference mode", "Inference mode instead of no_grad"),
    "channels_last": ("channels last", "Storing channels last"),
    "allocator": ("kept memory", "Keeping freed memory"),
    "threads": ("second thread", "A second thread"),
    "fused": ("fused batch norms", "Fusing batch norms into convolutions"),
    "compiled": ("torch.compile", "Compiling with torch.compile"),
    "bfloat16": ("bfloat16", "Computing in bfloat16"),
    "set_to_none": ("dropped gradients", "Dropping gradients instead of zeroing them"),
    "in_place": ("in-place activations", "Overwriting the inputs of activations"),
    "preallocated": ("preallocated buffer", "Normalising images in a preallocated buffer"),
    "workers": ("loader worker", "A worker that loads images"),
    "flush_denormal": ("flushed denormals", "Flushing denormals"),
}
#: Tips that change nothing.
CONTROLS: Final = ("control", "exchanged")
#: Tips that save allocations.
MEMORY_TIPS: Final = ("no_grad", "set_to_none", "in_place", "preallocated")
NETWORKS: Final = ("MNIST CNN", "ResNet-20", "MobileNetV2")
LEVELS: Final = {"tip": TIPS, "network": NETWORKS, "memory": ("returned", "kept")}


def reordered(layers: Iterable[Layer]) -> int:
    """Return the bytes of copies into and out of blocks of channels (B), without channels last.

    The images are copied once with the tip, too.
    """
    saved = 0
    for place, layer in enumerate(layers):
        if isinstance(layer, Convolution):
            saved += 2 * (work.input_bytes(layer) * (place > 0) + work.output_bytes(layer))
    return saved


def of_batch_norms(layers: Iterable[Layer]) -> int:
    """Return the traffic of batch norms (B)."""
    return sum(work.compulsory_traffic(layer) for layer in layers if isinstance(layer, BatchNorm))


def of_chains(layers: Iterable[Layer]) -> int:
    """Return the traffic between batch norms, activations and additions in a row (B)."""
    saved, in_a_row = 0, 0
    for layer in layers:
        elementwise = isinstance(layer, BatchNorm | Activation | Addition)
        in_a_row = in_a_row + 1 if elementwise else 0
        saved += 2 * work.input_bytes(layer) * (in_a_row > 1)
    return saved


def of_gradients(layers: Iterable[Layer]) -> int:
    """Return the traffic of zeroed gradients (B): zeros, two tensors read, their sum written."""
    return 4 * sum(map(work.parameter_bytes, layers))


def returned_pages(layers: tuple[Layer, ...]) -> int:
    """Return the pages that glibc returns and maps again in each call.

    The largest output sets the trimming threshold; a layer that frees more at once is returned.
    """
    trimming = heap.raised_trimming(max(map(work.output_bytes, layers)) // 4)
    freed = map(heap.freed_blocks, layers)
    return sum(size // heap.PAGE for size in freed if not heap.keeps_freed(size, trimming))


#: Amounts that a tip saves or hides, and the ceiling that prices them; other tips save nothing.
SAVED: Final[Mapping[str, tuple[str, str, Callable[[tuple[Layer, ...]], int]]]] = {
    "channels_last": ("B", "copy", reordered),
    "allocator": ("1", "page_mapping", returned_pages),
    "fused": ("B", "copy", of_batch_norms),
    "compiled": ("B", "copy", of_chains),
    "set_to_none": ("B", "copy", of_gradients),
}


class Trial(NamedTuple):
    """A tip on a network and a batch size."""

    tip: str
    network: str
    batch: int
    memory: str = "returned"


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def trials(self) -> dict[Trial, Case]:
        """The cases of the record."""
        cases = {}
        for case in self.stored.record.cases:
            tip, network, batch, memory = (case.factors[name] for name in Trial._fields)
            cases[Trial(str(tip), str(network), int(batch), str(memory))] = case
        return cases

    def of(self, tip: str, memory: str = "returned") -> list[Trial]:
        """Return the comparisons of a tip."""
        return [trial for trial in self.trials if (trial.tip, trial.memory) == (tip, memory)]

    def speedup(self, trial: Trial) -> Quantity:
        """Divide the time without the tip by the time with it, pair by pair."""
        factors = trial._asdict()
        return self.series("baseline_time", factors) / self.series("time", factors)

    def word(self, trial: Trial) -> Word:
        """Return the verdict; a tip is faster or slower only beyond the control's range."""
        if trial not in self.trials:
            return "not measured"
        verdict = decide(self.stored.record, self.trials[trial], MARGIN)
        low, high = self.control_range(trial.memory)
        if trial.tip in CONTROLS or not verdict.ratio or verdict.word == "no difference":
            return verdict.word
        overlaps = verdict.ratio.low <= high and low <= verdict.ratio.high
        return "undecided" if overlaps else verdict.word

    def control_range(self, memory: str) -> tuple[float, float]:
        """Return the least and largest median of the controls under a policy, or one."""
        medians = [1.0]
        for tip in CONTROLS:
            medians += self.medians(tip, memory)
        return min(medians), max(medians)

    def medians(self, tip: str, memory: str = "returned") -> list[float]:
        """Return the measured median speed-ups of a tip."""
        medians = [point(self.speedup(trial)) for trial in self.of(tip, memory)]
        return [median for median in medians if not isinstance(median, Missing)]

    def predicted(self, trial: Trial) -> Quantity:
        """Predict the speed-up from theory, the machine's ceilings and the time without the tip."""
        base = self.series("baseline_time", trial._asdict())
        if trial not in self.trials:
            return base / base
        if trial.memory == "kept":
            return self.predicted_where_kept(trial)
        layers = self.trials[trial].layers
        if trial.tip == "bfloat16":
            return self._at_both_roofs(layers)
        if trial.tip not in SAVED:
            return exact("theory", "1", 2 if trial.tip == "threads" else 1, self.file)
        unit, ceiling, amount = SAVED[trial.tip]
        saved = exact("saved by theory", unit, amount(layers), self.file) / self.peak_rate(ceiling)
        part = point(saved / base)
        if not isinstance(part, Missing) and part >= 1:
            return absent("prediction", "1", "theory saves more than the call takes")
        return base / (base - saved)

    def predicted_where_kept(self, trial: Trial) -> Quantity:
        """Predict a speed-up where memory is kept: both times less those of their page faults.

        Times and faults are those where freed memory is returned; a page costs the measured price.
        """
        factors, price = trial._replace(memory="returned")._asdict(), self.peak_rate("page_mapping")
        without, tip = (
            self.series(f"{side}time", factors) - self.series(f"{side}page_faults", factors) / price
            for side in ("baseline_", "")
        )
        return without / tip

    def _at_both_roofs(self, layers: Iterable[Layer]) -> Quantity:
        """Divide the least time of layers in float32, twice as wide, by that in bfloat16."""
        bandwidth, loads, times = self.best_rate("copy"), [*map(load, layers)], list[float]()
        for dtype, factor in (("float32", 2), ("bfloat16", 1)):
            peak = self.best_rate("matrix_product", dtype)
            if isinstance(peak, Missing) or isinstance(bandwidth, Missing):
                return absent("prediction", "1", f"no ceilings in {dtype} on {self.label}")
            roof = sheet_roof(peak, bandwidth)
            times.append(sum(roof.least(item.flops, factor * item.bytes) for item in loads))
        return exact("theory", "1", times[0] / times[1], self.file)

    def predicted_word(self, trial: Trial) -> Word:
        """Return the verdict that theory predicts."""
        speedup = point(self.predicted(trial))
        if isinstance(speedup, Missing):
            return "not measured"
        return "faster" if speedup > 1 + MARGIN else "no difference"

    def extreme(self, tip: str, choose: Callable[[list[float]], float]) -> Quantity:
        """Return the smallest or largest median speed-up of a tip."""
        if medians := self.medians(tip):
            return exact("median speed-up", "1", choose(medians), self.file)
        return absent("speed-up", "1", f"not measured on {self.label}")


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` for a case with other factors, or with layers of another batch."""
    check_factors(stored, {"": {**LEVELS, "batch": int}}, closed={""})
    for index, case in enumerate(stored.record.cases):
        if {layer.input_shape[0] for layer in case.layers} != {case.factors["batch"]}:
            raise StudyError(
                f"data/{stored.file}: cases[{index}].layers: another batch than the case's; run "
                "the experiment of this version again."
            )


class Paper:
    """The paper's data: all runs, the one that its sentences are about, and one on two threads."""

    def __init__(self, inputs: Inputs) -> None:
        runs = inputs.runs(Run)
        self.runs, chosen = [*runs.values()], runs.get("cpu")
        self.cpu = chosen if chosen and chosen.trials else None
        on_two = (run for run in self.runs if run.trials and run.threads > 1)
        self.two_threads = next(on_two, None)


study = Study(Paper, check_subject)
findings = study.findings
cpu: Part[Run] = study.part("cpu")
cpu.texts(cpu=short_name)
#: A second thread, and a worker beside the computing thread, need two processors.
two_threads: Part[Run] = study.part("two_threads", "cpu")
PART_OF: Final = {"threads": two_threads, "workers": two_threads}


for _tip in TIPS:
    for _end, _choose in (("least", min), ("most", max)):
        _value = {f"{_tip}_{_end}": partial(Run.extreme, tip=_tip, choose=_choose)}
        PART_OF.get(_tip, cpu).values("measured", **_value)


def _of_tips(run: Run) -> list[Trial]:
    """Return the comparisons that were measured, without the control."""
    trials = [trial for tip in TIPS if tip not in CONTROLS for trial in run.of(tip)]
    return [trial for trial in trials if run.word(trial) != "not measured"]


def _counted(run: Run, name: str, number: int) -> Quantity:
    """Return a number of comparisons; missing if none was measured."""
    if not _of_tips(run):
        return absent(name, "1", f"no comparison was measured on {run.label}")
    return exact(name, "1", number, run.file)


def _judged(run: Run, word: Word) -> Quantity:
    number = [*map(run.word, _of_tips(run))].count(word)
    return _counted(run, f"comparisons judged {word}", number)


cpu.values(faster=partial(_judged, word="faster"), undecided=partial(_judged, word="undecided"))


@cpu.value()
def comparisons(run: Run) -> Quantity:
    return _counted(run, "comparisons", len(_of_tips(run)))


def _promised(run: Run, measured: Collection[str]) -> Quantity:
    words = [run.predicted_word(trial) for trial in _of_tips(run) if run.word(trial) in measured]
    return _counted(run, "gains that theory promises", words.count("faster"))


cpu.values(promised=partial(_promised, measured=get_args(Word)))
cpu.values(foreseen=partial(_promised, measured=("faster",)))


def _pairs(run: Run, tip: str, least: float = 0.0) -> Quantity:
    """Count the pairs of processes whose ratio exceeds ``least``."""
    rounds = [r for trial in run.of(tip) for r in run.trials[trial].rounds_under("retained")]
    timed = [r for r in rounds if min(r.samples("time"), default=0) > 0]
    return _counted(run, f"pairs of {tip}", sum(ratio(pair) > least for pair in timed))


for _tip, _name in (("control", "pairs"), ("flush_denormal", "flush_pairs")):
    _above = {f"{_name}_above": partial(_pairs, tip=_tip, least=1.0)}
    cpu.values(**{_name: partial(_pairs, tip=_tip)}, **_above)


@cpu.claim(
    "On at least one network the control seems faster than itself",
    numbers=("control_least", "control_most"),
)
def control_is_biased(run: Run) -> Statement | Several:
    speedups = map(run.speedup, run.of("control"))
    return any_of(*(speedup > 1 for speedup in speedups))


RETURNED: Final = Trial("no_grad", NETWORKS[-1], 32)
KEPT: Final = RETURNED._replace(memory="kept")
cpu.values("measured", gradients_returned=partial(Run.speedup, trial=RETURNED))
cpu.values("measured", gradients_kept=partial(Run.speedup, trial=KEPT))
_SHOWN: Final = ("control_least", "control_most", "gradients_returned", "gradients_kept", "faster")
study.show("two_threads", *_SHOWN)


@cpu.claim(
    "On MobileNetV2 no gradients gain over a tenth where freed memory is kept, and less where not"
)
def reversal(run: Run) -> Iterator[Statement]:
    yield run.speedup(KEPT) > 1.1
    yield run.speedup(KEPT) / run.speedup(RETURNED) > 1


@cpu.table("gradients", digits={"With (ms)": 3, "Without (ms)": 3})
def gradient_times(run: Run) -> Iterator[Mapping[str, Content]]:
    for trial in (*run.of("no_grad"), *run.of("no_grad", "kept")):
        factors = trial._asdict()
        yield {
            "Network": trial.network,
            "Freed memory": trial.memory,
            "With (ms)": run.series("baseline_time", factors),
            "Without (ms)": run.series("time", factors),
        }


study.constants(batch=exact("batch", "1", RETURNED.batch))
study.constants("percent", margin=exact("margin", "1", MARGIN))


def _claim_that_pays(tip: str, subject: str) -> None:
    def pays(run: Run) -> Iterator[Statement]:
        for trial in run.of(tip):
            gain = run.speedup(trial) / run.speedup(trial._replace(tip="control"))
            yield (exact("wrong", "1", 0) if run.word(trial) == "wrong" else gain) > 1

    pays.__name__ = f"{tip}_pays"
    title = f"{subject} speeds up every compared network more than the control does"
    PART_OF.get(tip, cpu).claim(title, numbers=(f"{tip}_least", f"{tip}_most", "batch"))(pays)


for _tip, (_, _subject) in TIPS.items():
    if _subject:
        _claim_that_pays(_tip, _subject)


@cpu.claim("Where freed memory is kept, tips that save allocations gain less than a twentieth")
def kept_memory_suffices(run: Run) -> Iterator[Statement]:
    for tip in MEMORY_TIPS:
        for trial in run.of(tip, "kept"):
            yield run.speedup(trial) < 1 + 1 / 20


@cpu.claim("In bfloat16 every network returns right results")
def right_in_bfloat16(run: Run) -> Statement:
    words = [*map(run.word, run.of("bfloat16"))]
    return _counted(run, "wrong comparisons in bfloat16", words.count("wrong")).exactly(0)


@cpu.figure(key=True, wide=True, height=5.2, same_axes=True)
def speedups(run: Run) -> Iterator[Dots]:
    known = (trial for trial in run.trials if run.word(trial) != "not measured")
    rows = [*dict.fromkeys((trial.tip, trial.batch) for trial in known)]
    one_batch = len({batch for _, batch in rows}) == 1
    names = tuple(TIPS[tip][0] + f", {batch}" * (not one_batch) for tip, batch in rows)
    nothing = absent("speed-up", "1", "judged otherwise")
    words = {run.word(t) for t in run.trials if not run.speedup(t).missing}
    for network in NETWORKS:
        first = network == NETWORKS[0]  # which has the legend of all panels
        trials = [Trial(tip, network, batch) for tip, batch in rows]
        places = [*map(point, map(run.predicted, trials))]
        values = tuple(None if isinstance(place, Missing) else place for place in places)
        series = [DotSeries("predicted" * first, values, 6, hollow=True, shift=-0.2)]
        for place, word in enumerate(get_args(Word)):
            if word in words:
                drawn = [run.speedup(t) if run.word(t) == word else nothing for t in trials]
                series.append(dot_series(word * first, drawn, "1", series=place, shift=0.15))
        yield Dots(names, tuple(series), f"Speed-up, {network}", 1.0, log=True, named=first)


@cpu.table("numbers", wide=True)
def all_numbers(run: Run) -> Iterator[Mapping[str, Content]]:
    for trial in run.trials:
        yield {
            "Tip": TIPS[trial.tip][0],
            "Network": trial.network,
            "Batch": trial.batch,
            "Freed memory": trial.memory,
            "Predicted": run.predicted(trial),
            "Measured": run.speedup(trial),
            "Verdict": run.word(trial),
        }


@two_threads.table("two-threads", wide=True)
def numbers_of_two_threads(run: Run) -> Iterator[Mapping[str, Content]]:
    for tip, batch, memory in dict.fromkeys((t.tip, t.batch, t.memory) for t in run.trials):
        row: dict[str, Content] = {"Tip": TIPS[tip][0], "Batch": batch, "Freed memory": memory}
        yield row | {name: run.speedup(Trial(tip, name, batch, memory)) for name in NETWORKS}


@study.shared_table()
def machines(p: Paper) -> Table:
    return setup(p.runs)
