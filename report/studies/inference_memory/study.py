"""All that the paper of inference_memory prints."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.paper.findings import Inputs
from report.paper.machines import setup
from report.paper.study import Content, Part, Study, audit_row
from report.paper.tables import Table
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, exact
from report.quantity.operations import largest
from report.quantity.verdicts import Several, trend
from report.studies.inference_memory import figures, results, source, subject
from report.studies.inference_memory.results import EXTREMES, Allocated, OtherLimits, RuleComparison
from report.studies.inference_memory.runs import NO_BYTES, Run
from report.studies.inference_memory.subject import COALESCED, LAYOUTS, REDUCED, SHOWN, small
from report.studies.inference_memory.theory import RULES
from report.theory.conditions import Layout
from report.theory.reconciliation import Reconciliation

#: The batches of sentences about a GPU, and those at which channels last costs most there.
PRINTED = (64, 128, 256, 512, 1024, 16_384)
SWELLING = (128, 512, 1024)
#: Networks of the map on a GPU.
MAPPED_NETWORKS = (SHOWN, "AlexNet", "VGG-16", "CIFAR")


class Paper:
    """The runs in their roles, the tables of limits, and the source."""

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
        self.rules, self.wide = (
            RuleComparison(inputs, subject.AVX2),
            RuleComparison(inputs, subject.AVX512),
        )
        self.limits = OtherLimits(inputs)
        others = [run for role, run in runs.items() if run.on_gpu and role != "gpu"]
        self.allocated = Allocated([self.gpu, *others] if self.gpu else others)

    def reconciliations(self) -> Iterator[Reconciliation]:
        """Yield the peaks of both CPUs."""
        for run in (self.cpu, self.second):
            if run:
                yield from run.reconciled("float32", REDUCED).values()


study = Study(Paper, subject.check_subject, reconciliations=Paper.reconciliations)
findings = study.findings
printed: Part[Paper] = study.part("", "source")
cpu: Part[Run] = study.part("cpu")
limited: Part[Run] = study.part("limited", "cpu")
varied: Part[Run] = study.part("varied", "cpu")
freed: Part[Run] = study.part("freed", "cpu")
changed: Part[Run] = study.part("changed", "cpu")
compared: Part[RuleComparison] = study.part("rules", "others")
wide: Part[RuleComparison] = study.part("wide", "others")
limits: Part[OtherLimits] = study.part("limits", "others")
second: Part[Run] = study.part("second", "pair")
gpu: Part[Run] = study.part("gpu")
allocated: Part[Allocated] = study.part("allocated", "gpu")

study.constants("percent", confidence=exact("confidence, chosen", "1", CONFIDENCE))
study.constants(
    shown_batch=exact("batch size", "1", results.SHOWN_BATCH),
    room=exact("slack (KiB)", "1", subject.ROOM >> 10),
    mapped=exact("mapping threshold (KiB)", "1", subject.MAPPED >> 10),
    rule_side=exact("pixels a side", "1", subject.SIDE),
    **{f"at_{batch}": exact("batch size", "1", batch) for batch in PRINTED},
)
for _size in (*subject.ROOM_FOR_TENSORS, *subject.ROOM_ON_GPU):
    study.constants("measured", **{f"room_{_size // 10**6}": exact("room", "B", _size)})


@printed.text()
def source_device(p: Paper) -> str:
    return markdown(p.inputs.reported.device)


@printed.text()
def source_software(p: Paper) -> str:
    return markdown(p.inputs.reported.software)


def device(run: Run) -> str:
    """Name the device, without the key that tells two machines with one GPU apart."""
    return markdown(run.short.partition(" (")[0] if run.on_gpu else run.short)


cpu.texts(cpu=device)
second.texts(second=device)
changed.texts(changed=device)
gpu.texts(gpu=device)

# -------------------------------------------------------------- rules under limits of tensors

compared.mapping("measured")(RuleComparison.example)
compared.values("measured", **{
    f"left_{extreme}": partial(RuleComparison.bytes_left, extreme=extreme) for extreme in EXTREMES
})  # fmt: skip
limits.mapping()(OtherLimits.numbers)
limits.mapping("percent")(OtherLimits.shares_on_gpu)


@compared.mapping()
def _rule_numbers(comparison: RuleComparison) -> dict[str, Quantity]:
    return comparison.numbers("rule_")


@wide.mapping()
def _wide_numbers(comparison: RuleComparison) -> dict[str, Quantity]:
    return comparison.numbers("wide_")


@compared.claim(
    "Under limits of other networks on a CPU our batch runs, or one image less does",
    numbers=("rule_count_right",),
)
def rules_ours(comparison: RuleComparison) -> Iterator[Statement]:
    off = [row.ran - batch for row, batch in comparison.answers("count")]
    if off:
        yield exact("images less", "1", min(off)) > -2
        yield exact("images more", "1", max(off)) < 1
        yield exact("share right", "1", off.count(0) / len(off)) > 5 / 6


@compared.claim(
    "A line through the peaks of 2 and 4 images predicts up to seven times the batch",
    numbers=("rule_line_most", "rule_line_right", "rule_limits"),
)
def rules_line(comparison: RuleComparison) -> Iterator[Statement]:
    if ratios := comparison.ratios("line"):
        yield exact("predicted over run", "1", ratios[-1]).near(7, 1 / 14)


@compared.claim(
    "A line through the last doubling that fits is right in most cases, yet can promise double",
    numbers=("rule_doubled_right",),
)
def rules_doubled(comparison: RuleComparison) -> Iterator[Statement]:
    if ratios := comparison.ratios("doubled"):
        yield exact("share right", "1", ratios.count(1) / len(ratios)) > 1 / 2
        yield exact("predicted over run", "1", ratios[-1]) > 2


@compared.claim(
    "Tensors without workspaces predict too large a batch under most limits, by up to two fifths",
    numbers=("rule_tensors_right",),
)
def rules_tensors(comparison: RuleComparison) -> Iterator[Statement]:
    if ratios := comparison.ratios("tensors"):
        yield exact("share too high", "1", sum(r > 1 for r in ratios) / len(ratios)) > 1 / 2
        yield exact("predicted over run", "1", ratios[-1]) < 1.4


@wide.claim("With vectors of AVX-512 a line near the limit is right more often than the count")
def rules_wide_line(comparison: RuleComparison) -> Iterator[Statement]:
    if ratios := comparison.ratios("count"):
        more = comparison.ratios("doubled").count(1) - ratios.count(1)
        yield exact("more limits by the line", "1", more) > 0


@wide.claim("With vectors of AVX-512 the count is never too low, and right in most cases")
def rules_wide(comparison: RuleComparison) -> Iterator[Statement]:
    if ratios := comparison.ratios("count"):
        yield exact("least predicted over run", "1", ratios[0]) > 1 - 1e-9
        yield exact("share right", "1", ratios.count(1) / len(ratios)) > 1 / 2


@limits.claim(
    "On a GPU the counted batch never runs, but over three quarters of it do",
    numbers=("gpu_inference_least", "gpu_inference_limits"),
)
def rules_gpu(tables: OtherLimits) -> Iterator[Statement]:
    for shares in (tables.shares("gpu_inference"), tables.shares("gpu_training")):
        if shares:
            yield exact("least share", "1", shares[0]) > 3 / 4
            yield exact("most of the prediction", "1", shares[-1]) < 1


@limits.claim("In inference on a GPU more of each limit stays free than is used beyond tensors")
def rules_gpu_free(tables: OtherLimits) -> Iterator[Statement]:
    for row in tables.rows["gpu_inference"][1]:
        free, beyond = row.limit - row.peak, row.peak - row.least
        yield exact("free less beyond tensors", "B", free - beyond) > 0


@limits.claim("Replayed by itself, an allocator reserves more than the limit for the counted batch")
def rules_gpu_reserved(tables: OtherLimits) -> Iterator[Statement]:
    for row in (*tables.rows["gpu_inference"][1], *tables.rows["gpu_training"][1]):
        yield exact("reserved beyond the limit", "B", row.reserved - row.limit) > 0


@study.table("rules")
def rules_table(p: Paper) -> Iterator[Mapping[str, Content]]:
    for rule, name in RULES.items():
        ratios, wide_ratios = p.rules.ratios(rule), p.wide.ratios(rule)
        not_measured = Missing("no limits with AVX-512 are in the data directory")
        if ratios:
            yield {
                "Rule": name,
                "Right": ratios.count(1),
                "Too high": sum(ratio > 1 for ratio in ratios),
                "Over twice": sum(ratio > 2 for ratio in ratios),
                "Too low": sum(ratio < 1 for ratio in ratios),
                "Right, AVX-512": wide_ratios.count(1) if wide_ratios else not_measured,
            }


compared.figure(key=True, height=2.4)(figures.crossing)
compared.figure(height=2.4)(figures.rules)

# --------------------------------------------------------- predicted peaks and limits on a CPU

cpu.values(
    exact=partial(results.peaks_counted, met=True),
    compared=results.peaks_counted,
    held_exact=partial(results.peaks_counted, held_out=True, met=True),
    held_compared=partial(results.peaks_counted, held_out=True),
    alexnet_line=results.alexnet_by_line,
)


@cpu.claim("Peaks of memory on a CPU are the predicted ones to the byte")
def peaks_exact(run: Run) -> Iterator[Statement]:
    return (rest.exactly(0) for rest in run.rests(bounded=False))


@cpu.claim("Where theory gives a lower bound, no peak on a CPU falls below it")
def bounds_hold(run: Run) -> Iterator[Statement]:
    return (rest > -1 for rest in run.rests(bounded=True))


limited.values(limits=results.limits_counted, limits_met=partial(results.limits_counted, met=True))


@limited.value("measured")
def beyond(run: Run) -> Quantity:
    """Return the most bytes by which a batch that ran exceeds its limit."""
    return to_digits(largest(*results.bytes_beyond(run) or [NO_BYTES]), 2)


@limited.claim("Under a real limit of memory the predicted largest batch runs, within the slack")
def limits_within(run: Run) -> Iterator[Statement]:
    return results.within_slack(run)


changed.values(
    changes=partial(results.limits_counted, changed=True),
    changes_met=partial(results.limits_counted, met=True, changed=True),
)
changed.values("percent", **{
    f"nested_{extreme}": partial(results.lost_by_nesting, extreme=extreme) for extreme in EXTREMES
})  # fmt: skip


@changed.claim("With one allocation changed the newly predicted batch runs, within the slack")
def changes_within(run: Run) -> Iterator[Statement]:
    return results.within_slack(run, changed=True)


@changed.claim("ReLU in place raises the largest batch of AlexNet in channels last")
def in_place_gains(run: Run) -> Iterator[Statement]:
    for limit, ratio in run.frontier_ratios("in_place").items():
        if results.gains_in_place(limit):
            yield ratio > 1


@changed.claim("ReLU in place changes no largest batch elsewhere by more than one image")
def in_place_idle(run: Run) -> Iterator[Statement]:
    for limit, ratio in run.frontier_ratios("in_place").items():
        if not results.gains_in_place(limit):
            yield (ratio * limit.ran - limit.ran).near(0, 1)


@changed.claim("Nested stages cost a residual network a sixth to a quarter of its largest batch")
def nested_costs(run: Run) -> Iterator[Statement]:
    for ratio in run.frontier_ratios("nested").values():
        yield 1 - ratio > 1 / 6
        yield 1 - ratio < 1 / 4


@changed.table("changes", wide=True)
def changes_of_networks(run: Run) -> Iterator[Mapping[str, Content]]:
    """Show the settings in which some change moves the predicted batch."""
    rows: dict[tuple[str, Layout, int], dict[str, Content]] = {}
    headings = product(("flat", *subject.CHANGES.values()), ("count", "ran"))
    unlike: Content = Missing("the network has no stages")
    empty = dict.fromkeys(map(", ".join, headings), unlike)
    moved = set()
    for limit, fits in (*run.limits(), *run.limits(changed=True)):
        words = subject.CHANGES.get(limit.change, "flat")
        named: dict[str, Content] = {
            "Network": limit.network,
            "Layout": limit.layout.replace("_", " "),
            "Limit, MiB": limit.mebibytes,
        }
        row = rows.setdefault(limit.setting, {**named, **empty})
        row |= {f"{words}, count": fits.largest, f"{words}, ran": limit.ran}
        if fits.largest != row["flat, count"]:
            moved.add(limit.setting)
    yield from (row for setting, row in rows.items() if setting in moved)


# ---------------------------------------------------------------- layout, precision and tiles

for _setting, _extreme in product(results.SETTINGS, EXTREMES):
    _share = partial(results.saved_by_resnets, setting=_setting, extreme=_extreme)
    varied.values("percent", **{f"saved_{_setting}_{_extreme}": _share})


@varied.claim("Layout and precision together save over a tenth more than either, of every network")
def both_save(run: Run) -> Iterator[Statement]:
    for network, other in product(subject.RESNETS, ("half", "last")):
        both = results.saved(run, "both", network)
        yield both / results.saved(run, other, network) > 1 + results.MARGIN


varied.values("percent", tile_peak=partial(results.of_tile, of=Run.peak, tile=64))
varied.values(tile_time=partial(results.of_tile, of=Run.time, tile=64))
freed.values(tile_freed_time=partial(results.of_tile, of=Run.time, tile=64))
gpu.values(**{f"gpu_tile_{e}": partial(results.of_tiles, of=Run.time, extreme=e) for e in EXTREMES})
gpu.values(**{f"half_time_{e}": partial(results.time_in_half, extreme=e) for e in EXTREMES})


@gpu.value("percent")
def gpu_stage_saved(run: Run) -> Quantity:
    """Compute the largest share of the peak that tiles through a stage save."""
    return 1 - results.of_tiles(run, Run.peak, "least", "tiled_stages")


@varied.claim("In all forms of tiling a larger tile is faster")
def larger_tiles(run: Run) -> Iterator[Statement | Several]:
    for form in subject.TILED:
        calls = [call for call in run.chosen(network=SHOWN, execution=form) if call.tile]
        over = {call.tile: run.time(call) for call in calls if call.tile}
        if len(over) > 1:
            yield from trend(over, rising=False).statements


@varied.claim("The largest tiles through a stage save over a quarter of the peak")
def tiles_save(run: Run) -> Statement:
    return results.of_tile(run, Run.peak, 64) < 3 / 4


# ------------------------------------------------------------------ requested bytes on a GPU


@allocated.mapping()
def _ratios(a: Allocated) -> dict[str, Quantity]:
    """Compare peaks by layout, by precision, and with the tensors alone."""
    return {
        "last_1024": a.ratio(small(SHOWN, 1024, layout=COALESCED)),
        "last_vgg": a.ratio(small("VGG-16", 2, layout=COALESCED)),
        "weights_alexnet": a.ratio(small("AlexNet", 1, REDUCED)),
        "spike_256": a.over_tensors(small(SHOWN, 256)),
        "spike_16384": a.over_tensors(small(SHOWN, 16_384)),
        "repeated": exact("peaks measured on two GPUs", "1", len(a.repeated())),
    }


@allocated.mapping("measured")
def _peaks(a: Allocated) -> dict[str, Quantity]:
    return {f"peak_{batch}": a.peak(small(SHOWN, batch)) for batch in (256, 512)}


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
    for precision in subject.PRECISIONS[1:]:
        yield a.ratio(small(SHOWN, 128, precision)) > 1 + results.MARGIN


@allocated.claim("float16 can triple the peak on a GPU, where bfloat16 halves it")
def precision_triples(a: Allocated) -> Iterator[Statement]:
    yield a.ratio(small("CIFAR", 1024, "float16")).near(3, results.MARGIN)
    yield a.ratio(small("CIFAR", 1024, REDUCED)).near(1 / 2, results.MARGIN)


@allocated.claim("Channels last more than doubles ResNet-20's peak on a GPU at three batch sizes")
def layout_costs(a: Allocated) -> Iterator[Statement]:
    return (a.ratio(small(SHOWN, batch, layout=COALESCED)) > 2 for batch in SWELLING)


@allocated.claim("A larger batch can take less memory on a GPU, and over twice its tensors")
def spikes(a: Allocated) -> Iterator[Statement]:
    yield a.peak(small(SHOWN, 256)) / a.peak(small(SHOWN, 512)) > 1
    yield a.over_tensors(small(SHOWN, 256)) > 2
    yield a.over_tensors(small(SHOWN, 16_384)) > 2


@allocated.claim("For one image half precision takes a third more memory, for copies of weights")
def weights_cost(a: Allocated) -> Iterator[Statement]:
    """Test that the growth is the parameters' half, within a tenth of it."""
    for network in ("AlexNet", "VGG-16"):
        reduced = small(network, 1, REDUCED)
        grown = a.peak(reduced) - a.peak(small(network, 1))
        yield a.ratio(reduced) > 1 + 1 / 3
        yield (grown / results.half_of_parameters(network)).near(1, results.MARGIN)


@allocated.claim("Three GPUs of one model request the same peaks, to the byte")
def peaks_repeat(a: Allocated) -> Iterator[Statement]:
    return (difference.exactly(0) for difference in a.repeated())


allocated.figure("gpu", height=2.4)(figures.peaks_on_gpu)


@allocated.table("map", digits={"Most": 2, "Least": 2})
def map_on_gpu(a: Allocated) -> Iterator[Mapping[str, Content]]:
    for network, (name, setting) in product(MAPPED_NETWORKS, results.MAPPED_SETTINGS.items()):
        ratios = a.ratios(network, *setting)
        if ratios:
            yield {
                "Network": network,
                "Setting": name,
                "Costs at": results.costly_batches(ratios),
                "Most": largest(*ratios.values()),
                "Least": EXTREMES["least"](*ratios.values()),
            }


# ---------------------------------------------------------------------------------- supplement


@study.table(wide=True)
def audit(p: Paper) -> Iterator[Mapping[str, Content]]:
    return (audit_row(p, row) for row in source.checks(p.inputs.reported))


@study.table("source", wide=True)
def account(p: Paper) -> Iterator[Mapping[str, Content]]:
    headings = ("In the source", "Here", "Result")
    return (dict(zip(headings, row, strict=True)) for row in source.ACCOUNT)


@study.shared_table()
def machines(p: Paper) -> Table:
    return setup([run for run in p.runs if not run.on_gpu] or p.runs)


@study.shared_table()
def machines_with_gpu(p: Paper) -> Table | None:
    on_gpus = [run for run in p.runs if run.on_gpu]
    return replace(setup(on_gpus), id="tbl-gpus") if 0 < len(on_gpus) < len(p.runs) else None
