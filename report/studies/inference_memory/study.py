"""Declarations of inference_memory: templates print a function's result by the function's name."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from statistics import median

from report.core.missing import Missing
from report.core.text.escape import markdown
from report.paper.findings import Inputs
from report.paper.machines import setup
from report.paper.study import Content, Part, Study
from report.paper.tables import Table
from report.quantity.expression import Quantity, Statement, exact, named
from report.quantity.operations import largest, smallest
from report.studies.inference_memory import figures, results, source, subject, theory
from report.studies.inference_memory.results import KINDS, MeasuredPeaks, RuleComparison
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import (
    BFLOAT16,
    CHANNELS_LAST,
    CIFAR,
    RESNET_20,
    whole_call,
)
from report.studies.inference_memory.theory import RULES
from report.theory.conditions import Layout


class Paper:
    """Runs in their roles (None if missing), rules under limits, and peaks on GPUs."""

    def __init__(self, inputs: Inputs) -> None:
        by_role = inputs.runs(Run)
        self.inputs, self.runs = inputs, tuple(by_role.values())
        on_cpus = {role: run for role, run in by_role.items() if not run.on_gpu}
        self.cpu, self.second = on_cpus.get("cpu"), on_cpus.get("second")
        self.gpu = next((run for run in self.runs if run.on_gpu), None)
        #: Run on a CPU that combines layouts with precisions, and has tiles.
        self.settings_run = self.second or self.cpu
        #: First run that compares the largest batches with and without nested stages.
        self.limits_run = next((run for run in self.runs if run.batch_ratios("nested")), None)
        self.comparisons = {prefix: RuleComparison(inputs, kind) for prefix, kind in KINDS.items()}
        self.avx2, self.avx512 = self.comparisons["rule"], self.comparisons["wide"]
        self.on_gpus = MeasuredPeaks([run for run in self.runs if run.on_gpu])


study = Study(Paper, subject.check_subject)
findings = study.findings
paper: Part[Paper] = study.part("", "source")
cpu: Part[Run] = study.part("cpu")
settings_run: Part[Run] = study.part("settings_run", "cpu")
limits_run: Part[Run] = study.part("limits_run", "cpu")
avx2: Part[RuleComparison] = study.part("avx2", "tables")
avx512: Part[RuleComparison] = study.part("avx512", "tables")
bounds: Part[dict[str, RuleComparison]] = study.part("comparisons", "tables")
tables: Part[Inputs] = study.part("inputs", "tables")
second: Part[Run] = study.part("second", "pair")
gpu: Part[Run] = study.part("gpu")
on_gpus: Part[MeasuredPeaks] = study.part("on_gpus", "gpu")

study.constants(
    shown_batch=exact("batch size", "1", subject.SHOWN_BATCH),
    rule_side=exact("pixels a side", "1", subject.IMAGE_SIDE),
)
for _size in (*subject.ROOM_FOR_TENSORS, *subject.ROOM_ON_GPU):
    study.constants("measured", **{f"room_{_size // 10**6}": exact("room", "B", _size)})


@paper.text()
def source_setup(p: Paper) -> str:
    return f"{markdown(p.inputs.reported.device)} and {markdown(p.inputs.reported.software)}"


def device(run: Run) -> str:
    """Return the device's name, on a GPU without the key of the machine."""
    return markdown(run.short_label.partition(" (")[0] if run.on_gpu else run.short_label)


cpu.texts(cpu=device)
second.texts(second=device)
limits_run.texts(changed=device)
gpu.texts(gpu=device)
tables.mapping()(results.repeated_same)


@bounds.mapping()
def _numbers(comparisons: dict[str, RuleComparison]) -> dict[str, Quantity]:
    numbers: dict[str, Quantity] = {}
    for prefix, comparison in comparisons.items():
        numbers |= comparison.numbers(prefix)
    for count in ("limits", "over_reserved", "three_quarters"):
        numbers[f"gpu_all_{count}"] = numbers[f"gpu_{count}"] + numbers[f"gpu_training_{count}"]
    return numbers


@bounds.mapping("percent")
def _shares(comparisons: dict[str, RuleComparison]) -> dict[str, Quantity]:
    shares: dict[str, Quantity] = {}
    for prefix, rule in product(("rule", "wide"), RULES):
        shares[f"{prefix}_{rule}_share"] = comparisons[prefix].share_right(rule)
    return shares | comparisons["gpu"].gaps() | comparisons["gpu_training"].gaps()


@avx2.claim(
    "Under limits of other networks on a CPU the counted batch runs, or one image less does",
    numbers=("rule_count_right", "rule_count_share"),
)
def rules_ours(comparison: RuleComparison) -> Iterator[Statement]:
    if differences := [row.ran - batch for row, batch in comparison.predictions["count"]]:
        yield exact("images less", "1", min(differences)) > -2
        yield exact("images more", "1", max(differences)) < 1
        yield exact("share right", "1", differences.count(0) / len(differences)) > 5 / 6


@avx2.claim(
    "A line through the peaks of 2 and 4 images predicts up to seven times the batch",
    numbers=("rule_line_most", "rule_line_right", "rule_line_share", "rule_limits"),
)
def rules_line(comparison: RuleComparison) -> Iterator[Statement]:
    if ratios := comparison.ratios("line"):
        yield exact("predicted over run", "1", ratios[-1]).near(7, 1 / 14)


@avx512.claim(
    "With AVX-512 the count is never too low, but a line near the limit is right more often",
    numbers=("wide_count_share", "wide_doubled_share", "wide_limits"),
)
def rules_wide(comparison: RuleComparison) -> Iterator[Statement]:
    if ratios := comparison.ratios("count"):
        yield exact("least predicted over run", "1", ratios[0]) > 1 - 1e-9
        more = comparison.ratios("doubled").count(1) - ratios.count(1)
        yield exact("more limits by the line", "1", more) > 0


@avx512.claim(
    "With AVX-512 the smaller of count and near line is right under over nine tenths (post hoc)",
    numbers=("wide_smaller_share", "wide_smaller_right", "wide_limits"),
)
def rules_smaller(comparison: RuleComparison) -> Iterator[Statement]:
    if differences := [batch - row.ran for row, batch in comparison.predictions["smaller"]]:
        yield exact("share right", "1", differences.count(0) / len(differences)) > 0.9
        yield exact("images less", "1", min(differences)) > -1
        yield exact("images more", "1", max(differences)) < 2


@bounds.claim(
    "On a GPU the counted batch never runs, but over three quarters of it do, nine tenths in most",
    numbers=("gpu_all_limits", "gpu_all_three_quarters", "gpu_count_most", "gpu_count_median"),
)
def rules_gpu(comparisons: dict[str, RuleComparison]) -> Iterator[Statement]:
    for kind in ("gpu", "gpu_training"):
        if shares := [1 / ratio for ratio in comparisons[kind].ratios("count")]:
            yield exact("least share", "1", min(shares)) > 3 / 4
            yield exact("median share", "1", median(shares)) > 0.9
            yield exact("most of the prediction", "1", max(shares)) < 1


@bounds.claim(
    "In inference a search from the count takes fewer runs than doubling, on a CPU than lines too",
    numbers=("wide_runs_count_median", "wide_runs_later_median"),
)
def rules_search(comparisons: dict[str, RuleComparison]) -> Iterator[Statement]:
    for kind in ("rule", "wide", "gpu"):
        runs = comparisons[kind].test_runs()
        for count, bisection in zip(runs["count"], runs["bisection"], strict=True):
            yield exact("runs more by bisection", "1", bisection - count) > 0
        if kind != "gpu" and runs["count"]:
            best_line = min(median(runs[rule]) for rule in theory.LINE_SEARCHES)
            yield exact("runs more by a line", "1", best_line - median(runs["count"])) > 0


@bounds.table("bounds", wide=True, digits={"Count ÷ run, most": 3})
def bounds_table(comparisons: dict[str, RuleComparison]) -> Iterator[Mapping[str, Content]]:
    missing = Missing("memory of small batches was not measured")
    for key, kind in KINDS.items():
        counts, has_line = dict(comparisons[key].counts()), "line" in kind.rules
        if counts["limits"]:
            yield {
                "Limits on": kind.name,
                "Count": counts["runs_count_median"],
                "Line 2, 4": counts["runs_line_median"] if has_line else missing,
                "Line 8, 16": counts["runs_later_median"] if has_line else missing,
                "Line near limit": counts["runs_doubled_median"] if has_line else missing,
                "Doubling": counts["runs_bisection_median"],
                "Limits": counts["limits"],
                "Count right": counts["count_right"],
                "Count ÷ run, most": exact("ratio", "1", counts["count_most"]),
            }


@study.table("rules", wide=True)
def rules_table(p: Paper) -> Iterator[Mapping[str, Content]]:
    avx2, avx512 = dict(p.avx2.counts()), dict(p.avx512.counts())
    for rule, name in RULES.items():
        if ratios := p.avx2.ratios(rule):
            yield {
                "Rule": name,
                "Runs": median(theory.runs_before(rule, row.ran) for row in p.avx2.limits),
                "Right": avx2[f"{rule}_right"],
                "Within a tenth": avx2[f"{rule}_within_a_tenth"],
                "Too high": avx2[f"{rule}_over"],
                "Too low": sum(ratio < 1 for ratio in ratios),
                "AVX-512: right": avx512[f"{rule}_right"],
                "AVX-512: within": avx512[f"{rule}_within_a_tenth"],
            }


avx2.figure(key=True, height=3.4, rows=2)(figures.rules)
avx2.figure(height=2.1)(figures.crossing)
cpu.values(held_exact=results.count_held_out, alexnet_line=results.alexnet_by_line)
limits_run.values(
    limits=results.count_limits,
    limits_met=partial(results.count_limits, more=0),
    limits_more=partial(results.count_limits, more=1),
)


@cpu.claim("Peaks on a CPU of networks that gave no rule are the predicted ones to the byte")
def peaks_exact(run: Run) -> Iterator[Statement]:
    return (residual.exactly(0) for residual in results.held_out_residuals(run))


limits_run.claim(
    "Limits of address space meet the prediction within the slack", numbers=("limits_met", "limits")
)(results.limits_within)


@limits_run.claim("ReLU in place raises the largest batch of AlexNet in channels last alone")
def in_place(run: Run) -> Iterator[Statement]:
    for limit, ratio in run.batch_ratios("in_place").items():
        if (limit.network, limit.layout) == ("AlexNet", CHANNELS_LAST):
            yield ratio > 1
        else:
            yield (ratio * limit.ran - limit.ran).near(0, 1)


@limits_run.claim("Nested stages cost a residual network a sixth to a quarter of its largest batch")
def nested_costs(run: Run) -> Iterator[Statement]:
    for ratio in run.batch_ratios("nested").values():
        yield 1 - ratio > 1 / 6
        yield 1 - ratio < 1 / 4


@limits_run.table("changes", wide=True)
def changes_of_networks(run: Run) -> Iterator[Mapping[str, Content]]:
    """Tabulate predicted and largest batches under each limit, by change of the network."""
    rows: dict[tuple[str, Layout, int], dict[str, Content]] = {}
    headings = product(("flat", *subject.CHANGES.values()), ("count", "ran"))
    empty = dict.fromkeys(map(", ".join, headings), Missing("the network has no stages"))
    for limit, predicted in run.limits:
        words = subject.CHANGES.get(limit.change, "flat")
        names: dict[str, Content] = {
            "Network": limit.network,
            "Layout": limit.layout.replace("_", " "),
            "Limit, MiB": limit.mebibytes,
        }
        row = rows.setdefault(limit.setting, {**names, **empty})
        row |= {f"{words}, count": predicted.largest, f"{words}, ran": limit.ran}
    yield from rows.values()


def saved(
    run: Run, network: str, precision: subject.InferencePrecision, layout: Layout = "contiguous"
) -> Quantity:
    """Return the share of a network's peak that a precision and a layout save."""
    call = whole_call(network, subject.SHOWN_BATCH, precision, layout)
    return 1 - results.over_plain(run.peak, call)


@settings_run.value("percent")
def saved_by_both(run: Run) -> Quantity:
    return saved(run, RESNET_20, BFLOAT16, CHANNELS_LAST)


@settings_run.value("percent")
def bfloat16_cost(run: Run) -> Quantity:
    return results.over_plain(run.peak, whole_call("AlexNet", 8, BFLOAT16)) - 1


@settings_run.claim(
    "Layout and precision together save over a tenth more than either, of every residual network"
)
def both_save(run: Run) -> Iterator[Statement]:
    for network in subject.RESNETS:
        name = f"{network} at {subject.SHOWN_BATCH} images: bytes saved by both"
        both = named(name, saved(run, network, BFLOAT16, CHANNELS_LAST))
        layout = named("those by layout", saved(run, network, "float32", CHANNELS_LAST))
        precision = named("those by precision", saved(run, network, BFLOAT16))
        yield both / layout > 1 + results.MARGIN
        yield both / precision > 1 + results.MARGIN


def time_of_tiles(run: Run, side: int) -> Quantity:
    return results.over_plain(run.time, replace(subject.TILED_CALL, tile=side))


settings_run.values(**{f"tiles_{side}": partial(time_of_tiles, side=side) for side in (8, 64)})


@settings_run.claim(
    "Tiles through a stage save over a third of the peak, smaller ones more, and cost more time"
)
def tiles_save(run: Run) -> Iterator[Statement]:
    call = subject.TILED_CALL
    yield results.over_plain(run.peak, call) < 2 / 3
    yield results.over_plain(run.time, call) > 1
    yield run.peak(replace(call, tile=8)) / run.peak(call) < 1
    yield run.time(replace(call, tile=8)) / run.time(call) > 1


on_gpus.values(cifar_float16=partial(MeasuredPeaks.ratio, call=whole_call(CIFAR, 1024, "float16")))


@on_gpus.claim("On a GPU half precision can cost memory")
def precision_costs(peaks: MeasuredPeaks) -> Iterator[Statement]:
    calls = (whole_call(RESNET_20, 128, precision) for precision in subject.PRECISIONS[1:])
    return (peaks.ratio(call) > 1 + results.MARGIN for call in calls)


@on_gpus.claim("On a GPU float16 triples the peak of CIFAR at 1,024 images, bfloat16 halves it")
def float16_triples(peaks: MeasuredPeaks) -> Iterator[Statement]:
    """Test the bounds that were set when the workspace that cuBLAS keeps was counted, too."""
    yield peaks.ratio(whole_call(CIFAR, 1024, "float16")).near(3, results.MARGIN)
    yield peaks.ratio(whole_call(CIFAR, 1024, BFLOAT16)).near(1 / 2, results.MARGIN)


@on_gpus.claim("On a GPU channels last can more than double ResNet-20's peak, and halve it")
def layout_costs(peaks: MeasuredPeaks) -> Iterator[Statement]:
    calls = (
        whole_call(RESNET_20, batch, layout=CHANNELS_LAST) for batch in (128, 512, 1024, 16_384)
    )
    *doubled, halved = map(peaks.ratio, calls)
    return (ratio > 2 for ratio in (*doubled, 1 / halved))


@on_gpus.claim("On a GPU ResNet-20 takes more memory for 256 images than for 512")
def spikes(peaks: MeasuredPeaks) -> Statement:
    return peaks.peak(whole_call(RESNET_20, 256)) / peaks.peak(whole_call(RESNET_20, 512)) > 1


@on_gpus.claim("Three GPUs of one model request the same peaks, to the byte")
def peaks_repeat(peaks: MeasuredPeaks) -> Iterator[Statement]:
    for repeated in peaks.peaks.values():
        if len(repeated) > 1:
            yield (largest(*repeated) - smallest(*repeated)).exactly(0)


@study.table(digits=dict.fromkeys(subject.SETTINGS, 3))
def settings(p: Paper) -> Iterator[Mapping[str, Content]]:
    on_cpu = MeasuredPeaks([p.settings_run] if p.settings_run else [])
    for device, measured in (("CPU", on_cpu), ("GPU", p.on_gpus)):
        for shown in sorted({(call.network, call.batch) for call in measured.peaks}):
            calls = {name: whole_call(*shown, *levels) for name, levels in subject.SETTINGS.items()}
            ratios = {name: measured.ratio(call) for name, call in calls.items()}
            costs = device == "CPU" and any(map(results.exceeds_one, ratios.values()))
            if costs or shown in subject.COMPARED_CALLS:
                yield {"On": device, "Network": shown[0], "Images": shown[1], **ratios}


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
