"""All that the paper of inference_memory prints."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Final

from figures.panels import Curve, Points, Scaling
from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.evidence.audit import Check, check, printed_value, total
from report.evidence.audit import exact as exactly
from report.paper.findings import Inputs
from report.paper.machines import setup
from report.paper.plots import points
from report.paper.study import Content, Part, Study, audit_row
from report.paper.tables import Table
from report.quantity.evaluation import point, to_digits
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.operations import largest, smallest
from report.quantity.verdicts import Several, any_of, trend
from report.studies.inference_memory import rules, subject
from report.studies.inference_memory.rules import RULES, RuleComparison
from report.studies.inference_memory.runs import NO_BYTES, NO_RATIO, Allocated, Of, Run
from report.studies.inference_memory.subject import (
    CHANGES,
    COALESCED,
    LAYOUTS,
    LEARNED,
    PRECISIONS,
    REDUCED,
    RESNETS,
    SHOWN,
    TILED,
    InferencePrecision,
    Limit,
    check_subject,
    small,
)
from report.theory.conditions import Layout
from report.theory.network import least
from report.theory.reconciliation import Reconciliation

#: Effects on time and memory below this share are no finding.
MARGIN: Final = 0.1
#: The batch whose memory the prose describes, and the one at which two settings were timed.
SHOWN_BATCH: Final = 256
TIMED_BATCH: Final = 64
#: The batches at which channels last takes most on the GPU.
SWELLING: Final = (128, 512, 1024)
#: The batches of sentences; the source's lie among the first five.
PRINTED: Final = (64, 128, 256, 512, 1024, 16_384, 65_536, 262_144)
#: Changed settings of a contiguous float32 call, by the ids of their values.
_SETTINGS: Final[dict[str, tuple[InferencePrecision, Layout]]] = {
    "last": ("float32", COALESCED),
    "half": (REDUCED, "contiguous"),
    "both": (REDUCED, COALESCED),
}
_EXTREMES: Final = {"least": smallest, "most": largest}


class Paper:
    """The runs in their roles, and the source."""

    def __init__(self, inputs: Inputs) -> None:
        runs = inputs.runs(Run)
        self.inputs, self.runs = inputs, tuple(runs.values())
        on_cpus = {role: run for role, run in runs.items() if not run.on_gpu}
        self.cpu, self.second = on_cpus.get("cpu"), on_cpus.get("second")
        gpu = runs.get("gpu")
        self.gpu = gpu if gpu and gpu.on_gpu else None
        #: The CPU whose limits were measured, and the one on which layouts and tiles were tried.
        self.limited = self.cpu if self.cpu and self.cpu.has_limits() else None
        self.varied = self.second or self.cpu
        #: The same CPU where the C library returns freed memory.
        self.freed = self.varied and self.varied.under("default")
        #: The CPU on which networks with one allocation changed ran under limits.
        self.changed = next((run for run in self.runs if run.has_limits(changed=True)), None)
        self.rules = RuleComparison(inputs)
        others = [run for role, run in runs.items() if run.on_gpu and role != "gpu"]
        self.allocated = Allocated([self.gpu, *others] if self.gpu else others)

    def reconciliations(self) -> Iterator[Reconciliation]:
        """The peaks of both CPUs."""
        for run in (self.cpu, self.second):
            if run:
                yield from run.reconciled("float32", REDUCED).values()


study = Study(Paper, check_subject, reconciliations=Paper.reconciliations)
findings = study.findings
printed: Part[Paper] = study.part("", "source")
cpu: Part[Run] = study.part("cpu")
limited: Part[Run] = study.part("limited", "cpu")
varied: Part[Run] = study.part("varied", "cpu")
freed: Part[Run] = study.part("freed", "cpu")
changed: Part[Run] = study.part("changed", "cpu")
compared: Part[RuleComparison] = study.part("rules", "others")
second: Part[Run] = study.part("second", "pair")
gpu: Part[Run] = study.part("gpu")
allocated: Part[Allocated] = study.part("allocated", "gpu")

study.constants("percent", confidence=exact("confidence, chosen", "1", CONFIDENCE))
study.constants(
    shown_batch=exact("batch size", "1", SHOWN_BATCH),
    timed_batch=exact("batch size", "1", TIMED_BATCH),
    room=exact("slack (KiB)", "1", subject.ROOM >> 10),
    mapped=exact("mapping threshold (KiB)", "1", subject.MAPPED >> 10),
    rule_side=exact("pixels a side", "1", rules.SIDE),
    tile_side=exact("pixels a side", "1", 224),
    tile_least=exact("tile", "1", 8),
    tile_most=exact("tile", "1", 64),
    **{f"at_{batch}": exact("batch size", "1", batch) for batch in PRINTED},
)
study.constants(
    "measured",
    rule_room_least=exact("room", "B", rules.ROOM[0]),
    rule_room_middle=exact("room", "B", rules.ROOM[1]),
    rule_room_most=exact("room", "B", rules.ROOM[2]),
    gpu_room_least=exact("room", "B", rules.ROOM_ON_GPU[0]),
    gpu_room_most=exact("room", "B", rules.ROOM_ON_GPU[1]),
    descriptions=exact("descriptions of kernels", "B", rules.DESCRIPTIONS),
)


def _of_source(p: Paper, name: str) -> str:
    """Return a text of the source's description."""
    return markdown(getattr(p.inputs.reported, name))


printed.texts(**{f"source_{n}": partial(_of_source, name=n) for n in ("device", "software")})


def device(run: Run) -> str:
    """Name the device, without the key that tells two machines with one GPU apart."""
    return markdown(run.short.partition(" (")[0] if run.on_gpu else run.short)


cpu.texts(cpu=device)
second.texts(second=device)
changed.texts(changed=device)
gpu.texts(gpu=device)


# -------------------------------------------------------------- rules under limits of tensors

compared.mapping()(RuleComparison.numbers)
compared.mapping()(RuleComparison.numbers_on_gpu)
compared.mapping("percent")(RuleComparison.shares_on_gpu)


@study.claim(
    "Under limits of other networks on a CPU our batch runs, or one image less does",
    numbers=("tensors_right",),
)
def rules_ours(p: Paper) -> Iterator[Statement]:
    off = [ran - predicted for _, predicted, ran in p.rules.answers("tensors")]
    if off:
        yield exact("images less", "1", min(off)) > -2
        yield exact("images more", "1", max(off)) < 1
        yield exact("share right", "1", off.count(0) / len(off)) > 5 / 6


@study.claim(
    "A line through the peaks of 2 and 4 images predicts up to seven times the batch",
    numbers=("line_most", "line_right", "rule_limits"),
)
def rules_line(p: Paper) -> Iterator[Statement]:
    if ratios := p.rules.ratios("line"):
        yield exact("predicted over run", "1", ratios[-1]).near(7, 1 / 14)


@study.claim(
    "A line through the last doubling that fits is right in most cases, yet can promise double",
    numbers=("doubled_right",),
)
def rules_doubled(p: Paper) -> Iterator[Statement]:
    if ratios := p.rules.ratios("doubled"):
        yield exact("share right", "1", ratios.count(1) / len(ratios)) > 1 / 2
        yield exact("predicted over run", "1", ratios[-1]) > 2


@study.claim(
    "On a GPU three quarters of the predicted batch run at least, and never more than it",
    numbers=("gpu_share_least",),
)
def rules_gpu(p: Paper) -> Iterator[Statement]:
    if shares := p.rules.shares("inference", "training"):
        yield exact("least share", "1", shares[0]) > 3 / 4
        yield exact("most of the prediction", "1", shares[-1]) < 1 + 1e-9


@compared.table("rules", wide=True)
def rules_table(comparison: RuleComparison) -> Iterator[Mapping[str, Content]]:
    for rule, name in RULES.items():
        answers = comparison.answers(rule)
        if answers:
            yield {
                "Rule": name,
                "Limits": len(answers),
                "Right": sum(predicted == ran for _, predicted, ran in answers),
                "One image off": sum(abs(predicted - ran) == 1 for _, predicted, ran in answers),
                "Does not fit": sum(predicted > ran for _, predicted, ran in answers),
                "Over twice": sum(predicted > 2 * ran for _, predicted, ran in answers),
                "No image": sum(predicted == 0 for _, predicted, ran in answers),
            }


@compared.figure("rules", key=True, height=2.4)
def rules_figure(comparison: RuleComparison) -> Iterator[Scaling]:
    """Draw predicted over run batch under the limits of a table, sorted, by rule."""
    lines = []
    for series, (rule, name) in enumerate(RULES.items()):
        ratios = comparison.ratios(rule)
        # A batch of 0 has no place on the axis.
        drawn = {100 * (n + 0.5) / len(ratios): r for n, r in enumerate(ratios) if r}
        if drawn:
            shares, above = tuple(drawn), tuple(drawn.values())
            lines.append(Points(name, shares, above, series=series, joined=True, many=True))
    if lines:
        yield Scaling(
            "Limits, sorted by each rule (%)", "Predicted ÷ run batch",
            tuple(lines), x_scale="linear", direct=True, y_bottom=0.1, y_top=10.0,
            regions=(("does not fit", 2.0, 1.25),),
        )  # fmt: skip


# ------------------------------------------------------------------- predicted peaks on a CPU


def _exact(run: Run, *, held_out: bool = False, met: bool = False) -> Quantity:
    """Count the float32 peaks of a CPU, of all or of held-out networks, or those that were met."""
    rows = [r for call, r in run.peaks.items() if not (held_out and call.network in LEARNED)]
    counted = sum(row.residual == 0 for row in rows) if met else len(rows)
    return exact("peaks", "1", counted, run.file)


def _bounds(run: Run) -> Quantity:
    """Count the predictions that are lower bounds."""
    return exact("bounds", "1", sum(map(run.is_bound, run.peaks)), run.file)


def _missed(run: Run) -> str:
    """List the networks, layouts and batches whose peak exceeds its bound."""
    batches: dict[str, list[str]] = {}
    for call, row in run.peaks.items():
        if row.residual != 0:
            name = f"{call.network} in {call.layout.replace('_', ' ')}"
            batches.setdefault(name, []).append(str(call.batch))
    return "; ".join(f"{name} (batch {', '.join(sizes)})" for name, sizes in batches.items())


def _alexnet_line(run: Run) -> Quantity:
    """Return the batch at which the line through AlexNet's peaks of 2 and 4 images is 384 MiB."""
    two, four = (run.peak(small("AlexNet", batch)) for batch in (2, 4))
    return 2 + 2 * (exact("limit", "B", 384 * 2**20) - two) / (four - two)


def _fall(run: Run) -> Quantity:
    """Divide the peak of one image by the peak of two images."""
    return run.peak(small(SHOWN, 1)) / run.peak(small(SHOWN, 2))


def _saved(run: Run, setting: str, network: str = SHOWN) -> Quantity:
    """Compute the share of a network's peak that a setting saves."""
    call = small(network, SHOWN_BATCH, *_SETTINGS[setting])
    return 1 - run.peak(call) / run.peak(small(network, SHOWN_BATCH))


cpu.texts(missed=_missed)
cpu.values(
    exact=partial(_exact, met=True),
    compared=_exact,
    held_exact=partial(_exact, held_out=True, met=True),
    held_compared=partial(_exact, held_out=True),
    bounds=_bounds,
    alexnet_line=_alexnet_line,
    fall=_fall,
)
cpu.values("percent", layout_saved=partial(_saved, setting="last"))
second.values(second_exact=partial(_exact, met=True), second_compared=_exact)


@cpu.claim("Peaks of memory on a CPU are the predicted ones to the byte")
def peaks_exact(run: Run) -> Iterator[Statement]:
    return (rest.exactly(0) for rest in run.rests(bounded=False))


@cpu.claim("Where theory gives a lower bound, no peak on a CPU falls below it")
def bounds_hold(run: Run) -> Iterator[Statement]:
    return (rest > -1 for rest in run.rests(bounded=True))


@cpu.figure(height=2.2)
def peaks(run: Run) -> Iterator[Scaling]:
    """Draw measured peaks of a CPU over the predicted ones, exact ones and lower bounds."""
    drawn = []
    for series, name in enumerate(("exact", "lower bound")):
        calls = [call for call, row in run.peaks.items() if bool(row.residual) == bool(series)]
        sizes = [(point(run.predicted_peak(call)), point(run.peak(call))) for call in calls]
        if sizes:
            predicted, measured = zip(*sizes, strict=True)
            x = tuple(float(number) / 1e6 for number in predicted)
            y = tuple(float(number) / 1e6 for number in measured)
            drawn.append(Points(name, x, y, series=series, hollow=bool(series), many=not series))
    if drawn:
        ends = (0.1, 1000.0)
        yield Scaling(
            "Predicted peak (MB)", "Measured peak (MB)", tuple(drawn), (Curve("", ends, ends),),
            x_ticks=(0.1, 1.0, 10.0, 100.0, 1000.0),
        )  # fmt: skip


# -------------------------------------------------------------------- limits of address space


def _limits(run: Run, met: bool = False, changed: bool = False) -> Quantity:
    """Count the limits of a run, or those under which the predicted batch ran."""
    rows = run.limits(changed=changed)
    counted = [limit for limit, fits in rows if not met or limit.ran == fits.largest]
    return exact("limits", "1", len(counted), run.file)


def _beyond(run: Run, changed: bool = False) -> list[Quantity]:
    """Return the predicted bytes above the limit where a larger batch than predicted ran."""
    excess: list[Quantity] = []
    for limit, fits in run.limits(changed=changed):
        if limit.ran > fits.largest and limit.ran in fits.predicted:
            above = least(fits.predicted[limit.ran]) - (limit.mebibytes << 20)
            excess.append(exact("excess", "B", above, run.file))
    return excess


def _within(run: Run, changed: bool = False) -> Iterator[Statement]:
    """An image more may run where it exceeds the limit by less than the slack; none less may."""
    for limit, fits in run.limits(changed=changed):
        yield exact("images off", "1", limit.ran - fits.largest, run.file) > -1
    yield from (size < subject.ROOM + 1 for size in _beyond(run, changed))


def _most_beyond(run: Run) -> Quantity:
    return to_digits(largest(*_beyond(run) or [NO_BYTES]), 2)


def _lost(run: Run, extreme: str) -> Quantity:
    """Return the extreme share of the largest batch that nested stages cost."""
    ratios = run.frontier_ratios("nested").values()
    return _EXTREMES[extreme](*(1 - ratio for ratio in ratios) if ratios else [NO_RATIO])


limited.values(limits=_limits, limits_met=partial(_limits, met=True))
limited.values("measured", beyond=_most_beyond)
changed.values(
    changes=partial(_limits, changed=True), changes_met=partial(_limits, met=True, changed=True)
)
changed.values("percent", **{f"nested_{e}": partial(_lost, extreme=e) for e in _EXTREMES})


@limited.claim("Under a real limit of memory the predicted largest batch runs, within the slack")
def limits_within(run: Run) -> Iterator[Statement]:
    return _within(run)


@changed.claim("With one allocation changed the newly predicted batch runs, within the slack")
def changes_within(run: Run) -> Iterator[Statement]:
    return _within(run, changed=True)


def _gains(limit: Limit) -> bool:
    return (limit.network, limit.layout) == ("AlexNet", COALESCED)


@changed.claim("ReLU in place raises the largest batch of AlexNet in channels last")
def in_place_gains(run: Run) -> Iterator[Statement]:
    return (r > 1 for limit, r in run.frontier_ratios("in_place").items() if _gains(limit))


@changed.claim("ReLU in place changes no largest batch elsewhere by more than one image")
def in_place_idle(run: Run) -> Iterator[Statement]:
    for limit, ratio in run.frontier_ratios("in_place").items():
        if not _gains(limit):
            yield (ratio * limit.ran - limit.ran).near(0, 1)


@changed.claim("Nested stages cost a residual network a sixth to a quarter of its largest batch")
def nested_costs(run: Run) -> Iterator[Statement]:
    for ratio in run.frontier_ratios("nested").values():
        yield 1 - ratio > 1 / 6
        yield 1 - ratio < 1 / 4


@changed.table("changes", wide=True)
def changes_of_networks(run: Run) -> Iterator[Mapping[str, Content]]:
    rows: dict[tuple[str, Layout, int], dict[str, Content]] = {}
    headings = product(("flat", *CHANGES.values()), ("count", "ran"))
    unlike: Content = Missing("the network has no stages")
    empty = dict.fromkeys(map(", ".join, headings), unlike)
    for limit, fits in (*run.limits(), *run.limits(changed=True)):
        words = CHANGES.get(limit.change, "flat")
        named: dict[str, Content] = {
            "Network": limit.network,
            "Layout": limit.layout.replace("_", " "),
            "Limit, MiB": limit.mebibytes,
        }
        row = rows.setdefault(limit.setting, {**named, **empty})
        row |= {f"{words}, count": fits.largest, f"{words}, ran": limit.ran}
    yield from rows.values()


# ------------------------------------------------------------- layout and precision on a CPU


def _extreme_saved(run: Run, setting: str, extreme: str) -> Quantity:
    """Return the extreme share of the residual networks' peaks that a setting saves."""
    return _EXTREMES[extreme](*(_saved(run, setting, network) for network in RESNETS))


def _both_time(run: Run, extreme: str) -> Quantity:
    """Return the extreme time of residual networks with both settings over contiguous float32."""
    ratios = []
    for network in RESNETS:
        both = small(network, TIMED_BATCH, *_SETTINGS["both"])
        ratios.append(run.time(both) / run.time(small(network, TIMED_BATCH)))
    return _EXTREMES[extreme](*ratios)


def _layout_gain(run: Run, network: str) -> Quantity:
    """Return the largest speed-up of a network by channels last over the batch."""
    gains = []
    for call in run.chosen(network=network, layout=COALESCED, precision="float32"):
        gain = run.time(replace(call, layout=LAYOUTS[0])) / run.time(call)
        if not gain.missing:
            gains.append(gain)
    return largest(*gains or [NO_RATIO])


for _name, _extreme in product(_SETTINGS, _EXTREMES):
    _shares = partial(_extreme_saved, setting=_name, extreme=_extreme)
    varied.values("percent", **{f"saved_{_name}_{_extreme}": _shares})
varied.values(**{f"both_time_{e}": partial(_both_time, extreme=e) for e in _EXTREMES})
for _id, _name in (("lenet", "LeNet-5"), ("alexnet", "AlexNet")):
    gpu.values(**{f"gpu_{_id}_gain": partial(_layout_gain, network=_name)})
for _name in ("LeNet-5", "AlexNet", "ZFNet", "CIFAR"):
    _id = _name.lower().partition("-")[0]
    varied.values(**{f"{_id}_gain": partial(_layout_gain, network=_name)})


@varied.claim("Peaks of every layout and precision on a CPU are the predicted ones to the byte")
def layout_predicted(run: Run) -> Iterator[Statement]:
    for network, how in product(RESNETS, _SETTINGS.values()):
        call = small(network, SHOWN_BATCH, *how)
        yield (run.peak(call) - run.predicted_peak(call)).exactly(0)


@varied.claim("Layout and precision together save over a tenth more than either, of every network")
def both_save(run: Run) -> Iterator[Statement]:
    for network, other in product(RESNETS, ("half", "last")):
        yield _saved(run, "both", network) / _saved(run, other, network) > 1 + MARGIN


# -------------------------------------------------------------------------------------- tiles


def _of_tile(run: Run, of: Of, tile: int, form: str = "tiled_stages") -> Quantity:
    """Divide a quantity of a tiled call by the same quantity of the whole call."""
    return run.over_whole(of, form, tile)[0]


def _of_tiles(run: Run, of: Of, extreme: str, form: str | None = None) -> Quantity:
    """Return the extreme ratio of tiled calls to whole ones."""
    return _EXTREMES[extreme](*run.over_whole(of, form))


varied.values(
    "percent",
    tile_small_peak=partial(_of_tile, of=Run.peak, tile=8),
    tile_large_peak=partial(_of_tile, of=Run.peak, tile=64),
    layers_peak=partial(_of_tiles, of=Run.peak, extreme="least", form="tiled_layers"),
)
varied.values(
    tile_layer_time=partial(_of_tile, of=Run.time, tile=8, form="tiled_layers"),
    tile_small_time=partial(_of_tile, of=Run.time, tile=8),
    tile_large_time=partial(_of_tile, of=Run.time, tile=64),
)
freed.values(tile_freed_time=partial(_of_tile, of=Run.time, tile=64))
freed.values("percent", tile_freed_pages=partial(_of_tile, of=Run.pages, tile=64))
gpu.values(**{f"gpu_tile_{e}": partial(_of_tiles, of=Run.time, extreme=e) for e in _EXTREMES})
gpu.values(
    "percent", gpu_stage_peak=partial(_of_tiles, of=Run.peak, extreme="least", form="tiled_stages")
)


@varied.claim("In all forms of tiling a larger tile is faster")
def tile_time(run: Run) -> Iterator[Statement | Several]:
    for form in TILED:
        tiled = [call for call in run.chosen(network=SHOWN, execution=form) if call.tile]
        over = {call.tile: run.time(call) for call in tiled if call.tile}
        if len(over) > 1:
            yield from trend(over, rising=False).statements


@varied.claim("With freed memory kept some form of tiling saves over a tenth of the time")
def tile_pays(run: Run) -> Several:
    return any_of(*(ratio < 1 - MARGIN for ratio in run.over_whole(Run.time)))


@varied.claim("Small tiles save over a tenth of the peak and cost over a tenth of the time")
def tile_trades(run: Run) -> Iterator[Statement]:
    yield _of_tile(run, Run.peak, 8) < 1 - MARGIN
    yield _of_tile(run, Run.time, 8) > 1 + MARGIN


# ------------------------------------------------------------------ requested bytes on a GPU


@allocated.mapping()
def _ratios(a: Allocated) -> dict[str, Quantity]:
    """Compare peaks by layout, by precision, and from batch to batch; count workspaces."""
    in_half, channels_last = a.copies(True, LAYOUTS[0]), a.copies(False, COALESCED)
    return {
        "last_peak": a.ratio(small(SHOWN, 64, layout=COALESCED)),
        "last_1024": a.ratio(small(SHOWN, 1024, layout=COALESCED)),
        "last_most": a.most("float32", COALESCED),
        "half_most": a.most("float16", LAYOUTS[0]),
        "most_128": a.ratio(small(SHOWN, 128, "float16")),
        "weights_alexnet": a.ratio(small("AlexNet", 1, REDUCED)),
        "weights_vgg": a.ratio(small("VGG-16", 1, REDUCED)),
        "spike": a.peak(small(SHOWN, 256)) / a.peak(small(SHOWN, 128)),
        "spike_most": a.peak(small(SHOWN, 16_384)) / a.peak(small(SHOWN, 4096)),
        "repeated": exact("peaks measured on two GPUs", "1", len(a.repeated())),
        **dict(zip(("workspaces", "copies"), in_half, strict=True)),
        **dict(zip(("last_workspaces", "last_copies"), channels_last, strict=True)),
    }


@allocated.mapping("percent")
def _saved_on_gpu(a: Allocated) -> dict[str, Quantity]:
    calls = [small(SHOWN, batch, REDUCED) for batch in (512, 16_384, 65_536, 262_144)]
    return {f"saved_{call.batch}": 1 - a.ratio(call) for call in calls}


@allocated.claim("Every allocator history of a GPU holds the tensors of theory, in order")
def tensors_requested(a: Allocated) -> Iterator[Statement]:
    return (lacking.exactly(0) for lacking in a.lacks_tensors())


@allocated.claim(
    "Most workspaces of a GPU copy tensors into its layout, and none do where they lie so"
)
def layout_copies(a: Allocated) -> Iterator[Statement]:
    for workspaces, copies in (a.copies(True, LAYOUTS[0]), a.copies(False, COALESCED)):
        yield copies / workspaces > 1 / 2
    yield a.copies(False, LAYOUTS[0])[1].exactly(0)


@allocated.claim("Half precision costs more than a tenth of memory at batch 128 on a GPU")
def precision_costs(a: Allocated) -> Iterator[Statement]:
    return (a.ratio(small(SHOWN, 128, precision)) > 1 + MARGIN for precision in PRECISIONS[1:])


@allocated.claim("Half precision can triple the peak on a GPU")
def precision_triples(a: Allocated) -> Statement:
    return a.most("float16", LAYOUTS[0]).near(3, MARGIN)


@allocated.claim(
    "Channels last more than doubles ResNet-20's peak on a GPU at three batch sizes",
    numbers=("last_most",),
)
def layout_costs(a: Allocated) -> Iterator[Statement]:
    return (a.ratio(small(SHOWN, batch, layout=COALESCED)) > 2 for batch in SWELLING)


@allocated.claim("For one image half precision takes a third more memory, for copies of weights")
def weights_cost(a: Allocated) -> Iterator[Statement]:
    """The growth is the parameters' half, within a tenth of it."""
    for network in ("AlexNet", "VGG-16"):
        operators = subject.operators(small(network, 1))
        assert not isinstance(operators, Missing)
        halves = exact("half of the parameters", "B", 2 * operators.network.parameter_count)
        reduced = small(network, 1, REDUCED)
        grown = a.peak(reduced) - a.peak(small(network, 1))
        yield a.ratio(reduced) > 1 + 1 / 3
        yield (grown / halves).near(1, MARGIN)


@allocated.claim("Three GPUs of one model request the same peaks, to the byte")
def peaks_repeat(a: Allocated) -> Iterator[Statement]:
    return (difference.exactly(0) for difference in a.repeated())


@allocated.claim("A GPU's peak of memory grows with every batch size of the source")
def memory_monotone(a: Allocated) -> Several:
    return trend({batch: a.peak(small(SHOWN, batch)) for batch in PRINTED[:5]}, rising=True)


@allocated.figure(height=2.2, wide=True, same_axes=True)
def cost(a: Allocated) -> Iterator[Scaling]:
    """Draw the peak on a GPU over that of the contiguous call in float32, by network."""
    for network in (SHOWN, "AlexNet", "VGG-16"):
        drawn: tuple[Points, ...] = ()
        for series, (name, precision, layout) in enumerate((
            ("channels last", "float32", COALESCED), ("bfloat16", "bfloat16", LAYOUTS[0]),
            ("float16", "float16", LAYOUTS[0]),
        )):  # fmt: skip
            calls = [small(network, 2**n, precision, layout) for n in range(19)]  # type: ignore[arg-type]
            over = {call.batch: a.ratio(call) for call in calls if not a.ratio(call).missing}
            # The half precisions lie on each other; one shows as a ring around the other.
            drawn += points(name, over, "1", series=series, hollow=name == "bfloat16", joined=True)
        if drawn:
            even = (Curve("", (1.0, 2.0**18), (1.0, 1.0)),)
            yield Scaling(
                "Batch size (images)", "Peak over float32, contiguous", drawn, even,
                title=network, x_ticks=(1.0, 2.0**9, 2.0**18), y_bottom=0.2, y_top=8.0,
            )  # fmt: skip


# ------------------------------------------------------------------ time and accuracy on a GPU


def _half_times(run: Run) -> list[Quantity]:
    """Divide times of ResNet-20 in half precision by those in float32, over the batch."""
    times = []
    for exponent, precision in product(range(11), PRECISIONS[1:]):
        half, single = small(SHOWN, 2**exponent, precision), small(SHOWN, 2**exponent)
        times.append(run.time(half) / run.time(single))
    return times


def _half_time(run: Run, extreme: str) -> Quantity:
    """Return the extreme ratio of times."""
    return _EXTREMES[extreme](*_half_times(run))


def _faster(run: Run) -> Quantity:
    """Count the calls in half precision that are faster by more than a tenth."""
    ratios = [ratio for ratio in map(point, _half_times(run)) if not isinstance(ratio, Missing)]
    return exact("faster calls", "1", sum(ratio < 1 - MARGIN for ratio in ratios), run.file)


def _right(run: Run, precision: InferencePrecision) -> Quantity:
    """Count the digits that ResNet-20 recognizes; absent for a run that scored none."""
    scores = run.correct(precision)
    counted = exact("recognized", "1", sum(scores), run.file)
    return counted if scores else absent("recognized", "1", "no digits were scored")


gpu.values(half_faster=_faster, **{f"right_{p}": partial(_right, precision=p) for p in PRECISIONS})
gpu.values(**{f"half_time_{e}": partial(_half_time, extreme=e) for e in _EXTREMES})


# ---------------------------------------------------------------------------------- supplement


def _checks(p: Paper) -> Iterator[Check]:
    """Recompute every number of the source that other numbers determine."""
    of = partial(printed_value, p.inputs.reported)
    images = [of(f"cifar_{which}") for which in ("training", "test")]
    yield check(of("cifar_images"), "training and test images", total, *images)
    side = exactly(32, "1", "description of the data set")
    yield check(of("cifar_side"), "side of its images", total, side)
    for which in ("low", "high"):
        rate = of(f"frame_rate_{which}")
        yield check(of("frame_budget"), f"a frame at the {which} rate", _period, rate)


def _period(rate: Fraction) -> Fraction:
    """Return the milliseconds of a frame."""
    return 1000 / rate


@study.table(wide=True)
def audit(p: Paper) -> Iterator[Mapping[str, Content]]:
    return (audit_row(p, row) for row in _checks(p))


#: Everything that the source shows, what we did with it, and the result.
_ACCOUNT: Final = (
    ("Fig. 1, top; total time over batch", "prints no values, times its GPUs", "out of reach"),
    ("Fig. 1, bottom; peak grows with the batch", "another GPU and cuDNN", "not general"),
    ("Fig. 2; time over depth, utilization", "prints no values", "out of reach"),
    ("Fig. 3, top; time in FP16", "ResNet-20, one process on a GPU", "seldom faster"),
    ("Fig. 3, bottom; average memory in FP16", "peaks on a GPU", "saves or costs, by batch"),
    ("Fig. 4; accuracy in FP16", "inference on digits, ResNet-20", "no loss"),
    ("Fig. 5, top; time with AMP + AMC", "both settings on CPUs", "half on one, not on all"),
    ("Fig. 5, bottom; peak with AMP + AMC", "both settings on a CPU", "save more together"),
    ("Section III-B; Mini-ImageNet", "random images of the size", "bytes need no values"),
    ("Fig. 6; larger tiles are faster", "crops on CPUs and a GPU", "agrees"),
    ("Fig. 6; memory rises with the tile", "crops on CPUs and a GPU", "agrees"),
    ("Fig. 6; tiles are effective", "crops on CPUs and a GPU", "save memory, seldom time"),
    ("Fig. 7; speed-ups by layout, of others", "channels last", "found for two of five, on a CPU"),
    ("Sections III, V; waits", "few values are printed", "out of reach"),
)


@study.table("source", wide=True)
def account(p: Paper) -> Iterator[Mapping[str, Content]]:
    return (dict(zip(("In the source", "Here", "Result"), row, strict=True)) for row in _ACCOUNT)


@study.shared_table()
def machines(p: Paper) -> Table:
    return setup([run for run in p.runs if not run.on_gpu] or p.runs)


@study.shared_table()
def machines_with_gpu(p: Paper) -> Table | None:
    on_gpus = [run for run in p.runs if run.on_gpu]
    return replace(setup(on_gpus), id="tbl-gpus") if 0 < len(on_gpus) < len(p.runs) else None
