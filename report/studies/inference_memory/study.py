"""Numbers, claims and tables of inference_memory; the template prints each by its function's name.

- Rule: a way to predict the largest batch under a limit; the rules are in ``theory.RULES``.
- Count: our rule.  It predicts the peak as the most tensors and workspaces at one operator.
- Line: a rule that extrapolates two peaks to the limit.  The line near the limit uses the peaks of
  the last two batches that fit.
- Slack: bytes by which a call may exceed a limit of address space, which counts whole pages.
- Nested stages: as in torchvision, the call of a stage holds the stage's input until it ends.
- Tiles: parts into which maps are cut, so that only one part is in memory at a time.
- Ids of values begin with ``rule`` for AVX2, ``wide`` for AVX-512, ``gpu`` or ``training``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from statistics import median
from typing import Final

from report.core.missing import Missing
from report.core.text.escape import markdown
from report.paper.findings import Inputs
from report.paper.machines import setup
from report.paper.study import Content, Part, Study
from report.paper.tables import Table
from report.quantity.evaluation import point_estimate
from report.quantity.expression import Quantity, Statement, exact_number, named
from report.quantity.operations import largest, smallest
from report.studies.inference_memory import figures, results, source, subject, theory
from report.studies.inference_memory.results import LIMIT_KINDS, MeasuredPeaks, RuleComparison
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import BFLOAT16, CHANNELS_LAST, RESNET_20, untiled_call
from report.theory.conditions import Layout

#: Margin of claims about ratios, in units of the ratio.
RATIO_MARGIN: Final = 0.1


class Paper:
    """Records that the paper shows (None if missing), rules under limits, and peaks on GPUs."""

    def __init__(self, inputs: Inputs) -> None:
        by_role = inputs.runs(Run)
        self.inputs, self.runs = inputs, tuple(by_role.values())
        on_cpus = {role: run for role, run in by_role.items() if not run.on_gpu}
        self.cpu, self.second_cpu = on_cpus.get("cpu"), on_cpus.get("second")
        self.first_gpu = next((run for run in self.runs if run.on_gpu), None)
        #: Run on a CPU whose calls combine layouts with precisions, or compute in tiles.
        self.run_of_settings = self.second_cpu or self.cpu
        #: First run that compares the largest batches with and without nested stages.
        self.run_of_changes = next((run for run in self.runs if run.batch_ratios("nested")), None)
        self.comparisons = results.compare_rules(inputs.table)
        self.avx2, self.avx512 = self.comparisons["rule"], self.comparisons["wide"]
        self.gpu_peaks = MeasuredPeaks([run for run in self.runs if run.on_gpu])


study = Study(Paper, subject.check_subject)
findings = study.findings
paper: Part[Paper] = study.part("", "source")
cpu: Part[Run] = study.part("cpu")
run_of_settings: Part[Run] = study.part("run_of_settings", "cpu")
run_of_changes: Part[Run] = study.part("run_of_changes", "cpu")
#: Rules under limits on tensor bytes: with AVX2, with AVX-512, and of all kinds.
avx2: Part[RuleComparison] = study.part("avx2", "tables")
avx512: Part[RuleComparison] = study.part("avx512", "tables")
comparisons: Part[dict[str, RuleComparison]] = study.part("comparisons", "tables")
tables: Part[Inputs] = study.part("inputs", "tables")
second_cpu: Part[Run] = study.part("second_cpu", "pair")
first_gpu: Part[Run] = study.part("first_gpu", "gpu")
#: The peaks of all records of GPUs.
gpu_peaks: Part[MeasuredPeaks] = study.part("gpu_peaks", "gpu")

study.values(
    shown_batch=exact_number("batch size", "1", subject.SHOWN_BATCH),
    rule_side=exact_number("pixels a side", "1", subject.IMAGE_SIDE),
)
for _size in (*subject.ROOM_FOR_TENSORS, *subject.ROOM_ON_GPU):
    study.values("measured", **{f"room_{_size // 10**6}": exact_number("room", "B", _size)})


@paper.text()
def source_setup(data: Paper) -> str:
    return f"{markdown(data.inputs.reported.device)} and {markdown(data.inputs.reported.software)}"


def device(run: Run) -> str:
    """Return the name of the device; for a GPU, leave out the machine's id in brackets."""
    return markdown(run.short_label.partition(" (")[0] if run.on_gpu else run.short_label)


cpu.texts(cpu=device)
second_cpu.texts(second=device)
run_of_changes.texts(changed=device)
first_gpu.texts(gpu=device)
tables.mapping()(results.count_repeated_outcomes)


@comparisons.mapping()
def _numbers(comparisons: dict[str, RuleComparison]) -> dict[str, Quantity]:
    numbers: dict[str, Quantity] = {}
    for prefix, comparison in comparisons.items():
        numbers |= comparison.numbers(prefix)
    for count in ("limits", "over_reserved", "three_quarters"):
        numbers[f"gpu_all_{count}"] = numbers[f"gpu_{count}"] + numbers[f"gpu_training_{count}"]
    return numbers


@comparisons.mapping("percent")
def _shares(comparisons: dict[str, RuleComparison]) -> dict[str, Quantity]:
    shares: dict[str, Quantity] = {}
    for prefix, rule in product(("rule", "wide"), theory.RULES):
        shares[f"{prefix}_{rule}_share"] = comparisons[prefix].share_right(rule)
    for prefix in ("gpu", "gpu_training"):
        shares |= comparisons[prefix].shares_of_gpu_limits()
    return shares


@avx2.claim(
    "Under limits of other networks on a CPU the counted batch runs, or one image less does",
    numbers=("rule_count_right", "rule_count_share"),
)
def rules_ours(comparison: RuleComparison) -> Iterator[Statement]:
    if excesses := comparison.excesses("count"):
        yield exact_number("images less", "1", -max(excesses)) > -2
        yield exact_number("images more", "1", -min(excesses)) < 1
        yield exact_number("share right", "1", excesses.count(0) / len(excesses)) > 5 / 6


@avx2.claim(
    "A line through the peaks of 2 and 4 images predicts up to seven times the batch",
    numbers=("rule_line_most", "rule_line_right", "rule_line_share", "rule_limits"),
)
def rules_line(comparison: RuleComparison) -> Iterator[Statement]:
    if ratios := comparison.ratios("line"):
        # The margin is about 1 % of 7.
        yield exact_number("predicted over run", "1", ratios[-1]).near(7, within=1 / 14)


@avx512.claim(
    "With AVX-512 the count is never too low, but a line near the limit is right more often",
    numbers=("wide_count_share", "wide_doubled_share", "wide_limits"),
)
def rules_wide(comparison: RuleComparison) -> Iterator[Statement]:
    if ratios := comparison.ratios("count"):
        yield exact_number("least predicted over run", "1", ratios[0]) > 1 - 1e-9
        further_right = comparison.ratios("doubled").count(1) - ratios.count(1)
        yield exact_number("more limits by the line", "1", further_right) > 0


@avx512.claim(
    "With AVX-512 the smaller of count and near line is right under over nine tenths (post hoc)",
    numbers=("wide_smaller_share", "wide_smaller_right", "wide_limits"),
)
def rules_smaller(comparison: RuleComparison) -> Iterator[Statement]:
    if excesses := comparison.excesses("smaller"):
        yield exact_number("share right", "1", excesses.count(0) / len(excesses)) > 0.9
        yield exact_number("images less", "1", min(excesses)) > -1
        yield exact_number("images more", "1", max(excesses)) < 2


@comparisons.claim(
    "On a GPU the counted batch never runs, but over three quarters of it do, nine tenths in most",
    numbers=("gpu_all_limits", "gpu_all_three_quarters", "gpu_count_most", "gpu_count_median"),
)
def rules_gpu(comparisons: dict[str, RuleComparison]) -> Iterator[Statement]:
    for prefix in ("gpu", "gpu_training"):
        if shares := [1 / ratio for ratio in comparisons[prefix].ratios("count")]:
            yield exact_number("least share", "1", min(shares)) > 3 / 4
            yield exact_number("median share", "1", median(shares)) > 0.9
            yield exact_number("most of the prediction", "1", max(shares)) < 1


@comparisons.claim(
    "In inference a search from the count takes fewer runs than doubling, on a CPU also than lines",
    numbers=("wide_runs_count_median", "wide_runs_later_median"),
)
def rules_search(comparisons: dict[str, RuleComparison]) -> Iterator[Statement]:
    for prefix in ("rule", "wide", "gpu"):
        runs = comparisons[prefix].test_runs()
        for count, bisection in zip(runs["count"], runs["bisection"], strict=True):
            yield exact_number("runs more by bisection", "1", bisection - count) > 0
        if prefix != "gpu" and runs["count"]:
            best_line = min(median(runs[rule]) for rule in theory.LINE_SEARCHES)
            yield exact_number("runs more by a line", "1", best_line - median(runs["count"])) > 0


@comparisons.table("bounds", wide=True, digits={"Count ÷ run, most": 3})
def bounds_table(comparisons: dict[str, RuleComparison]) -> Iterator[Mapping[str, Content]]:
    missing = Missing("memory of small batches was not measured")
    for key, kind in LIMIT_KINDS.items():
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
                "Count ÷ run, most": exact_number("ratio", "1", counts["count_most"]),
            }


@study.table("rules", wide=True)
def rules_table(data: Paper) -> Iterator[Mapping[str, Content]]:
    avx2, avx512, limits = dict(data.avx2.counts()), dict(data.avx512.counts()), data.avx2.limits
    for rule, name in theory.RULES.items():
        if ratios := data.avx2.ratios(rule):
            yield {
                "Rule": name,
                "Runs": median(theory.runs_before(rule, row.largest_batch) for row in limits),
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
run_of_changes.values(
    limits=results.count_limits,
    limits_met=partial(results.count_limits, extra_images=0),
    limits_more=partial(results.count_limits, extra_images=1),
)


@cpu.claim("Peaks on a CPU are predicted to the byte for networks from which no rule was inferred")
def peaks_exact(run: Run) -> Iterator[Statement]:
    return (residual.exactly(0) for residual in results.held_out_residuals(run))


run_of_changes.claim(
    "Under limits of address space predicted batches run, larger ones only by a slack of 128 KiB",
    numbers=("limits_met", "limits"),
)(results.limits_within)


@run_of_changes.claim("ReLU in place raises the largest batch only of AlexNet in channels last")
def in_place(run: Run) -> Iterator[Statement]:
    for limit, ratio in run.batch_ratios("in_place").items():
        if (limit.network, limit.layout) == ("AlexNet", CHANNELS_LAST):
            yield ratio > 1
        else:
            yield (ratio * limit.largest_batch - limit.largest_batch).near(0, 1)


@run_of_changes.claim(
    "Nested stages cost a residual network a sixth to a quarter of its largest batch"
)
def nested_costs(run: Run) -> Iterator[Statement]:
    for ratio in run.batch_ratios("nested").values():
        yield 1 - ratio > 1 / 6
        yield 1 - ratio < 1 / 4


@run_of_changes.table("changes", wide=True)
def changes_of_networks(run: Run) -> Iterator[Mapping[str, Content]]:
    """Tabulate predicted and largest batches, a row per limit, two columns per change."""
    rows: dict[tuple[str, Layout, int], dict[str, Content]] = {}
    headings = product(("flat", *subject.CHANGE_LABELS.values()), ("count", "ran"))
    empty = dict.fromkeys(map(", ".join, headings), Missing("the network has no stages"))
    for limit, predicted in run.limits:
        change = subject.CHANGE_LABELS.get(limit.change, "flat")
        setting: dict[str, Content] = {
            "Network": limit.network,
            "Layout": limit.layout.replace("_", " "),
            "Limit, MiB": limit.mebibytes,
        }
        row = rows.setdefault(limit.setting, {**setting, **empty})
        row |= {f"{change}, count": predicted.largest, f"{change}, ran": limit.largest_batch}
    yield from rows.values()


def saved_share(
    run: Run, network: str, precision: subject.InferencePrecision, layout: Layout = "contiguous"
) -> Quantity:
    """Return the share of a network's peak that a precision and a layout save."""
    call = untiled_call(network, subject.SHOWN_BATCH, precision, layout)
    return 1 - results.relative_to_plain(run.peak, call)


@run_of_settings.value("percent")
def saved_by_both(run: Run) -> Quantity:
    return saved_share(run, RESNET_20, BFLOAT16, CHANNELS_LAST)


@run_of_settings.value("percent")
def bfloat16_cost(run: Run) -> Quantity:
    return results.relative_to_plain(run.peak, untiled_call("AlexNet", 8, BFLOAT16)) - 1


@run_of_settings.claim(
    "On every residual network, layout and precision save over a tenth more together than alone"
)
def both_save(run: Run) -> Iterator[Statement]:
    for network in subject.RESNETS:
        name = f"{network} at {subject.SHOWN_BATCH} images: share saved by both"
        by_both = named(name, saved_share(run, network, BFLOAT16, CHANNELS_LAST))
        share = saved_share(run, network, "float32", CHANNELS_LAST)
        by_layout = named("share saved by layout", share)
        by_precision = named("share saved by precision", saved_share(run, network, BFLOAT16))
        yield by_both / by_layout > 1 + RATIO_MARGIN
        yield by_both / by_precision > 1 + RATIO_MARGIN


def time_of_tiles(run: Run, tile: int) -> Quantity:
    return results.relative_to_plain(run.time, replace(subject.TILED_CALL, tile=tile))


run_of_settings.values(**{f"tiles_{tile}": partial(time_of_tiles, tile=tile) for tile in (8, 64)})


@run_of_settings.claim(
    "Tiles through a stage save over a third of the peak, smaller ones more, and cost more time"
)
def tiles_save(run: Run) -> Iterator[Statement]:
    """The largest tiles save over a third; the smallest save more and take longer than these."""
    large_tiles, small_tiles = subject.TILED_CALL, replace(subject.TILED_CALL, tile=8)
    yield results.relative_to_plain(run.peak, large_tiles) < 2 / 3
    yield results.relative_to_plain(run.time, large_tiles) > 1
    yield run.peak(small_tiles) / run.peak(large_tiles) < 1
    yield run.time(small_tiles) / run.time(large_tiles) > 1


def cifar_ratio(peaks: MeasuredPeaks, precision: subject.InferencePrecision) -> Quantity:
    """Divide the peak of the network "CIFAR" at 1,024 images in a precision by that in float32."""
    return peaks.ratio_to_plain(untiled_call(subject.CIFAR_NETWORK, 1024, precision))


gpu_peaks.values(cifar_float16=partial(cifar_ratio, precision="float16"))


@gpu_peaks.claim("On a GPU half precision can cost memory")
def precision_costs(peaks: MeasuredPeaks) -> Iterator[Statement]:
    calls = (untiled_call(RESNET_20, 128, precision) for precision in subject.PRECISIONS[1:])
    return (peaks.ratio_to_plain(call) > 1 + RATIO_MARGIN for call in calls)


@gpu_peaks.claim("On a GPU float16 triples the peak of CIFAR at 1,024 images, bfloat16 halves it")
def float16_triples(peaks: MeasuredPeaks) -> Iterator[Statement]:
    """Compare with bounds that were chosen for peaks that contain the workspace of cuBLAS.

    Peaks without this workspace refute the claim; the bounds stay, as they came before the data.
    """
    yield cifar_ratio(peaks, "float16").near(3, RATIO_MARGIN)
    yield cifar_ratio(peaks, BFLOAT16).near(1 / 2, RATIO_MARGIN)


@gpu_peaks.claim("On a GPU channels last can more than double ResNet-20's peak, and halve it")
def layout_costs(peaks: MeasuredPeaks) -> Iterator[Statement]:
    """Channels last more than doubles the peak at small batches, and halves it at the largest."""
    for batch in (128, 512, 1024):
        yield peaks.ratio_to_plain(untiled_call(RESNET_20, batch, layout=CHANNELS_LAST)) > 2
    yield 1 / peaks.ratio_to_plain(untiled_call(RESNET_20, 16_384, layout=CHANNELS_LAST)) > 2


@gpu_peaks.claim("On a GPU ResNet-20 takes more memory for 256 images than for 512")
def spikes(peaks: MeasuredPeaks) -> Statement:
    return peaks.peak(untiled_call(RESNET_20, 256)) / peaks.peak(untiled_call(RESNET_20, 512)) > 1


@gpu_peaks.claim("Three GPUs of one model request the same peaks, to the byte")
def peaks_repeat(peaks: MeasuredPeaks) -> Iterator[Statement]:
    for repeated in peaks.peaks.values():
        if len(repeated) > 1:
            yield (largest(*repeated) - smallest(*repeated)).exactly(0)


@study.table(digits=dict.fromkeys(subject.COMPARED_SETTINGS, 3))
def settings(data: Paper) -> Iterator[Mapping[str, Content]]:
    on_cpu = MeasuredPeaks([data.run_of_settings] if data.run_of_settings else [])
    for device, measured in (("CPU", on_cpu), ("GPU", data.gpu_peaks)):
        for network, batch in sorted({(call.network, call.batch) for call in measured.peaks}):
            ratios = {}
            for name, levels in subject.COMPARED_SETTINGS.items():
                ratios[name] = measured.ratio_to_plain(untiled_call(network, batch, *levels))
            numbers = map(point_estimate, ratios.values())
            costs_memory = any(n > 1 for n in numbers if not isinstance(n, Missing))
            if (device == "CPU" and costs_memory) or (network, batch) in subject.COMPARED_CALLS:
                yield {"On": device, "Network": network, "Images": batch, **ratios}


@study.table("source", wide=True)
def account(data: Paper) -> Iterator[Mapping[str, Content]]:
    headings = ("In the source", "Here", "Result")
    return (dict(zip(headings, row, strict=True)) for row in source.ACCOUNT)


@study.table()
def machines(data: Paper) -> Table:
    return setup([run for run in data.runs if not run.on_gpu] or data.runs)


@study.table()
def machines_with_gpu(data: Paper) -> Table | None:
    on_gpus = [run for run in data.runs if run.on_gpu]
    return replace(setup(on_gpus), id="tbl-gpus") if 0 < len(on_gpus) < len(data.runs) else None
