"""All that the paper of inference_memory prints."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from statistics import median_low

from report.core.missing import Missing
from report.core.text.escape import markdown
from report.paper.findings import Inputs
from report.paper.machines import setup
from report.paper.study import Content, Part, Study, audit_row
from report.paper.tables import Table
from report.quantity.expression import Quantity, Statement, exact
from report.quantity.operations import largest
from report.quantity.verdicts import trend
from report.studies.inference_memory import figures, results, source, subject
from report.studies.inference_memory.results import EXTREMES, Allocated, OtherLimits, RuleComparison
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import CIFAR, COALESCED, REDUCED, SHOWN, small
from report.studies.inference_memory.theory import RULES
from report.theory.conditions import Layout
from report.theory.reconciliation import Reconciliation

#: The call with the largest tiles through a stage.
TILED_CALL = subject.Call(SHOWN, 224, 2, execution="tiled_stages", tile=64)
#: Networks and settings of the map on a GPU; bfloat16 differs for CIFAR's network alone.
MAPPED_NETWORKS = (SHOWN, "AlexNet", "VGG-16", CIFAR)
MAPPED_SETTINGS = ("channels_last", "float16", "bfloat16")


class Paper:
    """The runs in their roles, the tables of limits, and the source."""

    def __init__(self, inputs: Inputs) -> None:
        runs = inputs.runs(Run)
        self.inputs, self.runs = inputs, tuple(runs.values())
        on_cpus = {role: run for role, run in runs.items() if not run.on_gpu}
        self.cpu, self.second = on_cpus.get("cpu"), on_cpus.get("second")
        gpu = runs.get("gpu")
        self.gpu = gpu if gpu and gpu.on_gpu else None
        #: The CPU on which layouts and tiles were tried.
        self.varied = self.second or self.cpu
        #: The CPU on which networks ran under limits, also with one allocation changed.
        self.changed = next((run for run in self.runs if run.frontier_ratios("nested")), None)
        self.rules = RuleComparison(inputs, subject.AVX2)
        self.wide = RuleComparison(inputs, subject.AVX512)
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
varied: Part[Run] = study.part("varied", "cpu")
changed: Part[Run] = study.part("changed", "cpu")
compared: Part[RuleComparison] = study.part("rules", "others")
wide: Part[RuleComparison] = study.part("wide", "others")
limits: Part[OtherLimits] = study.part("limits", "others")
second: Part[Run] = study.part("second", "pair")
gpu: Part[Run] = study.part("gpu")
allocated: Part[Allocated] = study.part("allocated", "gpu")

study.constants(
    shown_batch=exact("batch size", "1", subject.SHOWN_BATCH),
    rule_side=exact("pixels a side", "1", subject.SIDE),
    tile=exact("pixels a side", "1", TILED_CALL.tile or 0),
    **{f"at_{batch}": exact("batch size", "1", batch) for batch in (128, 1024)},
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
    off = [row.ran - batch for row, batch in comparison.answers["count"]]
    if off:
        yield exact("images less", "1", min(off)) > -2
        yield exact("images more", "1", max(off)) < 1
        yield exact("share right", "1", off.count(0) / len(off)) > 5 / 6


@compared.claim(
    "Doubling and bisecting takes ten runs or more under half of the limits",
    numbers=("rule_runs_median",),
)
def rules_trials(comparison: RuleComparison) -> Iterator[Statement]:
    if runs := comparison.runs_needed("bisected"):
        yield exact("median of runs", "1", median_low(runs)) > 9


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


@wide.claim(
    "With vectors of AVX-512 the count is never too low, but a line near the limit is right more "
    "often",
    numbers=("wide_count_right", "wide_doubled_right", "wide_limits"),
)
def rules_wide(comparison: RuleComparison) -> Iterator[Statement]:
    if ratios := comparison.ratios("count"):
        yield exact("least predicted over run", "1", ratios[0]) > 1 - 1e-9
        more = comparison.ratios("doubled").count(1) - ratios.count(1)
        yield exact("more limits by the line", "1", more) > 0


@limits.claim(
    "On a GPU the counted batch never runs, but over three quarters of it do",
    numbers=("gpu_inference_least", "gpu_inference_limits"),
)
def rules_gpu(tables: OtherLimits) -> Iterator[Statement]:
    for shares in (tables.shares("gpu_inference"), tables.shares("gpu_training")):
        if shares:
            yield exact("least share", "1", shares[0]) > 3 / 4
            yield exact("most of the prediction", "1", shares[-1]) < 1


@limits.claim("On a GPU more of each limit of inference stays free than is used beyond tensors")
def rules_gpu_free(tables: OtherLimits) -> Iterator[Statement]:
    """Test also that a replayed allocator reserves more than the limit for the counted batch."""
    for row in tables.rows["gpu_inference"]:
        free, beyond = row.limit - row.peak, row.peak - row.least
        yield exact("free less beyond tensors", "B", free - beyond) > 0
        yield exact("reserved beyond the limit", "B", row.reserved - row.limit) > 0


@study.table("rules")
def rules_table(p: Paper) -> Iterator[Mapping[str, Content]]:
    missing = Missing("not computed, or no limits with these vectors in the data directory")
    for rule, name in RULES.items():
        ratios, wide_ratios = p.rules.ratios(rule), p.wide.ratios(rule)
        if p.rules.limits and (ratios or wide_ratios):
            yield {
                "Rule": name,
                "Runs needed": median_low(p.rules.runs_needed(rule)),
                "Right": ratios.count(1) if ratios else missing,
                "Too high": sum(ratio > 1 for ratio in ratios) if ratios else missing,
                "Too low": sum(ratio < 1 for ratio in ratios) if ratios else missing,
                "Right, AVX-512": wide_ratios.count(1) if wide_ratios else missing,
            }


compared.figure(key=True, height=2.4)(figures.crossing)
compared.figure(height=2.4)(figures.rules)

# --------------------------------------------------------- predicted peaks and limits on a CPU

cpu.values(
    held_exact=partial(results.held_out_counted, exactly=True),
    held_compared=results.held_out_counted,
    alexnet_line=results.alexnet_by_line,
)
changed.values(limits=results.limits_counted, limits_met=partial(results.limits_counted, met=True))
changed.values("percent", **{
    f"nested_{extreme}": partial(results.lost_by_nesting, extreme=extreme) for extreme in EXTREMES
})  # fmt: skip


@cpu.claim("Peaks on a CPU of networks that gave no rule are the predicted ones to the byte")
def peaks_exact(run: Run) -> Iterator[Statement]:
    for peak in results.held_out(run):
        if not isinstance(peak.residual, Missing):
            network, layout, *_ = peak.subject.removeprefix("Peak memory of ").split(", ")
            call = f"{network.replace(' on ', ' of batch ').removesuffix(' images')} {layout}"
            yield exact(f"residual({call})", "B", peak.residual, run.file).exactly(0)


changed.claim("Limits of address space meet the prediction within the slack")(results.limits_within)


@changed.claim("ReLU in place raises the largest batch of AlexNet in channels last alone")
def in_place(run: Run) -> Iterator[Statement]:
    """Elsewhere the batch moves by an image at most."""
    for limit, ratio in run.frontier_ratios("in_place").items():
        if (limit.network, limit.layout) == ("AlexNet", COALESCED):
            yield ratio > 1
        else:
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
    empty = dict.fromkeys(map(", ".join, headings), Missing("the network has no stages"))
    moved = set()
    for limit, fits in run.limits:
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


# ------------------------------------------------------------------ layout, precision and tiles

for _setting, _extreme in product(("channels_last", "bfloat16", "both"), EXTREMES):
    _share = partial(results.saved_by_resnets, setting=_setting, extreme=_extreme)
    varied.values("percent", **{f"saved_{_setting}_{_extreme}": _share})


@varied.claim("Layout and precision together save over a tenth more than either, of every network")
def both_save(run: Run) -> Iterator[Statement]:
    for network, setting in product(subject.RESNETS, ("channels_last", REDUCED)):
        both, one = (results.saved(run, network, name) for name in ("both", setting))
        yield both / one > 1 + results.MARGIN


@varied.value("percent")
def tile_peak(run: Run) -> Quantity:
    return results.over_plain(run.peak, TILED_CALL)


@varied.value()
def tile_time(run: Run) -> Quantity:
    return results.over_plain(run.time, TILED_CALL)


gpu.values(**{
    f"gpu_tile_{extreme}": partial(results.tile_time, extreme=extreme) for extreme in EXTREMES
})  # fmt: skip


@varied.claim("In all forms of tiling a larger tile is faster")
def larger_tiles(run: Run) -> Iterator[Statement]:
    for form in subject.TILED:
        over = {call.tile: run.time(call) for call in results.tiled(run, form) if call.tile}
        if len(over) > 1:
            yield from trend(over, rising=False)


@varied.claim("The largest tiles through a stage save over a quarter of the peak")
def tiles_save(run: Run) -> Statement:
    return results.over_plain(run.peak, TILED_CALL) < 3 / 4


@allocated.mapping()
def _ratios(a: Allocated) -> dict[str, Quantity]:
    return {
        "last_1024": a.ratio(small(SHOWN, 1024, layout=COALESCED)),
        "last_vgg": a.ratio(small("VGG-16", 2, layout=COALESCED)),
        "weights_alexnet": a.ratio(small("AlexNet", 1, REDUCED)),
        "repeated": exact("peaks measured on two GPUs", "1", len(a.repeated())),
    }


@allocated.claim("On a GPU half precision can cost memory, and float16 thrice that of float32")
def precision_costs(a: Allocated) -> Iterator[Statement]:
    """Test over a tenth more at 128 images, and 1,024 where bfloat16 saves half."""
    for precision in subject.PRECISIONS[1:]:
        yield a.ratio(small(SHOWN, 128, precision)) > 1 + results.MARGIN
    yield a.ratio(small(CIFAR, 1024, "float16")).near(3, results.MARGIN)
    yield a.ratio(small(CIFAR, 1024, REDUCED)).near(1 / 2, results.MARGIN)


@allocated.claim("Channels last more than doubles ResNet-20's peak on a GPU at three batch sizes")
def layout_costs(a: Allocated) -> Iterator[Statement]:
    return (a.ratio(small(SHOWN, batch, layout=COALESCED)) > 2 for batch in (128, 512, 1024))


@allocated.claim("On a GPU ResNet-20 takes more memory for 256 images than for 512")
def spikes(a: Allocated) -> Statement:
    return a.peak(small(SHOWN, 256)) / a.peak(small(SHOWN, 512)) > 1


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


@allocated.table("map", digits={"Most": 2, "Least": 2})
def map_on_gpu(a: Allocated) -> Iterator[Mapping[str, Content]]:
    for network, setting in product(MAPPED_NETWORKS, MAPPED_SETTINGS):
        if ratios := a.ratios(network, *subject.SETTINGS[setting]):
            yield {
                "Network": network,
                "Setting": setting.replace("_", " "),
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
