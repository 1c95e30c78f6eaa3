"""Declarations of conv_scaling: templates print a function's result by the function's name."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Final

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE
from report.paper.findings import Inputs
from report.paper.machines import MachineComparison, setup, short_name
from report.paper.study import Content, Part, Study
from report.paper.tables import Table
from report.quantity.evaluation import ENOUGH_RUNS, point, unpaired
from report.quantity.expression import Quantity, Statement, exact, named
from report.quantity.operations import largest, smallest
from report.studies.conv_scaling import figures, results, subject, theory
from report.studies.conv_scaling.results import count
from report.studies.conv_scaling.runs import Calls, Run, calls_of, freed_gain
from report.studies.conv_scaling.source import ITEMS, Source
from report.studies.conv_scaling.subject import LARGE_BATCH, MARGIN
from report.theory import heap
from report.theory.reconciliation import Reconciliation


class Paper:
    """Runs in their roles, their calls by subject, and the source; None for what is missing."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.source = inputs, Source(inputs)
        by_role: dict[str, Run] = {}
        for role, run in inputs.runs(Run).items():
            # Several runs are of one machine, so that labels need not tell them apart.
            by_role[role] = replace(run, label=run.stored.record.environment.label)
        self.runs = tuple(by_role.values())
        roles = ("cpu", "second", "third", "eighth", "gpu")
        self.counted, other, self.third, self.xeon, self.gpu = map(by_role.get, roles)
        #: The first CPU and, beside it, the second, if they timed calls with memory returned.
        self.cpu = self.counted if self.counted and self.counted.compared else None
        self.second = other if self.cpu and other and other.compared else None
        self.both = [run for run in (self.cpu, self.second) if run]
        self.timed_gpu = by_role.get("fifth") or self.gpu
        self.timed = [*self.both, *([self.timed_gpu] if self.timed_gpu else [])]
        #: Calls around predicted batch sizes, with a set threshold.
        self.cliffs = calls_of(self.runs, "cliff") or None
        self.starts = [calls for calls in self.cliffs or () if calls.name != "linear"] or None
        self.processes = calls_of(self.runs, "top") or None
        #: Calls on many batch sizes, with and without a freed tensor.
        self.sweep = calls_of(self.runs, "sweep") or None
        self.settings = [*(self.cliffs or ()), *(self.sweep or ()), *(self.processes or ())] or None
        self.networks = [calls for calls in calls_of(self.runs, "cure") if calls.freed] or None
        # The run in role "tenth" has few processes: the table contains it, but no claim.
        judged = [calls for calls in self.networks or () if calls.run is not by_role.get("tenth")]
        inference = [calls for calls in judged if calls.factors["mode"] == "inference"]
        self.small = next((c for c in inference if c.name == subject.SMALL_NETWORK), None)
        large = [calls for calls in inference if calls.name == subject.LARGE_NETWORK]
        #: ResNet-18 on fewer images than the predicted start, and on more.
        self.fitting = [calls for calls in large if calls.batch < calls.start] or None
        self.fewest = self.fitting[0] if self.fitting else None
        self.most = self.fitting[-1] if self.fitting else None
        self.large = next((calls for calls in large if calls.batch >= calls.start), None)

    def reconciliations(self) -> Iterator[Reconciliation]:
        """Yield comparisons of theory with counts by lackey and by a GPU's counters."""
        if self.counted:
            yield from self.counted.executed()
        if self.gpu:
            yield from self.gpu.device_work()


#: Definition of the slowdown by returned memory, as printed in reports.
_GAIN: Final = "geometric mean of a call's time over that with memory kept, where calls map pages"
study = Study(
    Paper,
    subject.check_subject,
    MachineComparison(Run, "Slowdown", Run.gain, _GAIN, reference=1.0),
    reconciliations=Paper.reconciliations,
)
findings = study.findings
cpu: Part[Run] = study.part("cpu")
counted: Part[Run] = study.part("counted", "cpu")
gpu: Part[Run] = study.part("gpu")
source: Part[Source] = study.part("source")
second: Part[Run] = study.part("second", "pair")
pair: Part[list[Run]] = study.part("both", "pair")
timed: Part[list[Run]] = study.part("timed", "cpu")
third: Part[Run] = study.part("third", "cpu")
xeon: Part[Run] = study.part("xeon", "pair")
cliffs: Part[list[Calls]] = study.part("cliffs", "cpu")
starts: Part[list[Calls]] = study.part("starts", "cpu")
processes: Part[list[Calls]] = study.part("processes", "cpu")
sweep: Part[list[Calls]] = study.part("sweep", "cpu")
settings: Part[list[Calls]] = study.part("settings", "cpu")
networks: Part[list[Calls]] = study.part("networks", "cpu")
small: Part[Calls] = study.part("small", "cpu")
fitting: Part[list[Calls]] = study.part("fitting", "cpu")
fewest: Part[Calls] = study.part("fewest", "cpu")
most: Part[Calls] = study.part("most", "cpu")
large: Part[Calls] = study.part("large", "cpu")
timed_gpu: Part[Run] = study.part("timed_gpu", "gpu")

gpu.texts(gpu=short_name)
counted.texts(cpu=short_name)
second.texts(second=short_name)
third.texts(third=short_name)
xeon.texts(xeon=short_name)
source.texts(source_device=attrgetter("device"), source_software=attrgetter("software"))
study.constants("percent", confidence=exact("confidence, chosen", "1", CONFIDENCE))
study.constants(
    in_channels=theory.C_IN,
    out_channels=theory.C_OUT,
    kernel=theory.KERNEL,
    in_extent=theory.H_IN,
    out_extent=theory.H_OUT,
    macs=theory.IMAGE_MACS,
    parameters=theory.PARAMETERS,
    outputs=theory.OUTPUTS,
    element=theory.ELEMENT,
    output_bytes=theory.output_bytes(1),
    input_bytes=theory.INPUT_BYTES,
    reserve=theory.RESERVE,
    page=theory.PAGE,
    freed=exact("freed tensor, in MiB", "1", round(4 * subject.FREED_ELEMENTS / 2**20, 1)),
    kept_at_most=exact("raised threshold, in MiB", "1", round(subject.RAISED_THRESHOLD / 2**20)),
    reserve_pages=theory.RESERVE / theory.PAGE,
)
_NUMBERS: Final[Mapping[str, int]] = {
    "least_set": subject.LEAST_SET_THRESHOLD >> 20,
    "heap_limit": heap.LARGEST_MAPPING >> 20,
    "start_freed": theory.START_AFTER_FREED,
    "end_freed": theory.END_AFTER_FREED,
    "network_to": theory.mapping_start(subject.LARGE_NETWORK, subject.RAISED_THRESHOLD) - 1,
    "weight_pages": subject.WEIGHT_PAGES,
    "many": subject.MANY_IMAGES,
    "last_by_default": subject.LAST_WITHOUT_PAGES,
    "all_by_default": subject.FIRST_WITH_PAGES,
    "large": LARGE_BATCH,
    "enough_runs": ENOUGH_RUNS,
}
for _id, _number in _NUMBERS.items():
    study.constants(**{_id: exact(_id.replace("_", " "), "1", _number)})
source.values(
    adds=partial(Source.per_output, key="add"),
    multiplies=partial(Source.per_output, key="multiply"),
    memory_gap=attrgetter("largest_gap"),
)

cpu.values(
    gain=Run.gain,
    gain_unpaired=partial(unpaired, Run.gain),
    batch_unpaired=partial(unpaired, partial(Run.throughput_ratio, batch=LARGE_BATCH, base=1)),
    batch_gain=partial(Run.throughput_ratio, batch=LARGE_BATCH, base=1),
    measurements=Run.count_measurements,
    processes=Run.timed_processes,
    disturbed=partial(Run.count_measurements, disturbed=True),
    threshold=Run.first_threshold,
    mmap_alone=partial(Run.gain, policy="mmap_threshold"),
    trim_alone=partial(Run.gain, policy="trim_threshold"),
    both_raised=partial(Run.gain, policy="thresholds"),
    start_top=Run.predicted_top,
    top_before=partial(Run.predicted_top, fewer=1),
    **{"from": Run.start, "always": Run.end},
)
study.show("second", "gain", "gain_unpaired", "processes")
second.values(
    second_jemalloc=partial(Run.gain, policy="jemalloc"),
    second_kept=partial(Run.throughput_ratio, batch=subject.MANY_IMAGES, base=LARGE_BATCH),
    second_trained=partial(Run.slowdown, batch=subject.FIRST_WITH_PAGES, pass_="forward_backward"),
    second_trained_large=partial(Run.slowdown, batch=LARGE_BATCH, pass_="forward_backward"),
)
cliffs.values(settings=results.settings, settings_at_start=partial(results.settings, early=0))
starts.values(least_missing=results.least_missing, convolution_settings=results.settings)
starts.values(convolutions_at_start=partial(results.settings, early=0))
processes.values(mixed_least=results.least_slowdown, process_calls=results.process_calls)
small.values(small_gain=Calls.gain)
_BEYOND_GAIN: Final = partial(freed_gain, first=theory.END_AFTER_FREED, last=subject.LARGEST_BATCH)
_FIRST: Final = subject.FIRST_WITH_PAGES
sweep.values(
    freed_first=partial(freed_gain, first=_FIRST, last=_FIRST),
    freed_gain=partial(freed_gain, first=_FIRST, last=theory.START_AFTER_FREED - 1),
    beyond_gain=_BEYOND_GAIN,
    beyond_unpaired=partial(unpaired, _BEYOND_GAIN),
)
_KEPT_GAIN: Final = partial(Calls.gain, policy="retained")
_JEMALLOC_GAIN: Final = partial(Calls.gain, policy="jemalloc")
large.values(large_gain=Calls.gain, large_kept=_KEPT_GAIN, large_jemalloc=_JEMALLOC_GAIN)
timed_gpu.values(gpu_best=Run.best_batch, gpu_processes=Run.timed_processes)
timed_gpu.values(gpu_gain=partial(Run.throughput_ratio, batch=subject.LARGEST_BATCH, base=1))
fewest.values(fewer_gain=Calls.gain)
most.values(more_gain=Calls.gain)


@cpu.claim("No process maps pages before the predicted start, and most do from the end on")
def cliff_predicted(run: Run) -> Iterator[Statement]:
    start, end = point(run.start()), point(run.end())
    if isinstance(start, Missing) or isinstance(end, Missing):
        yield run.start() > 0  # reports why the start is missing
        return
    for batch in run.timed:
        share = Calls(run, run.factors(batch)).share
        if batch < start:
            yield share.exactly(0)
        if batch >= end:
            yield share > 0.5


@cpu.claim("A call maps the pages of its blocks less the reserve, to within a page")
def pages_follow(run: Run) -> Iterator[Statement]:
    for batch in run.compared:
        if batch >= subject.MANY_IMAGES:
            yield run.excess_pages(batch).near(0, within=1)


@starts.claim(
    "Some processes of three convolutions map pages from the predicted start on, none where the "
    "blocks lack a page or more to the threshold, and all from the predicted end on",
    numbers=("start_freed", "convolution_settings", "convolutions_at_start"),
)
def start_predicted(starts: list[Calls]) -> Iterator[Statement]:
    for calls in starts:
        yield from calls.as_predicted()


@cliffs.claim(
    "Pages of three convolutions and a linear layer begin at the predicted image or one before",
    numbers=("settings", "settings_at_start"),
)
def starts_within_an_image(cliffs: list[Calls]) -> Iterator[Statement]:
    within = results.settings(cliffs, early=0) + results.settings(cliffs, early=1)
    yield named("share of settings", within / results.settings(cliffs)).exactly(1)


@processes.claim(
    "In each process a call maps the pages that the free top of its heap announces",
    numbers=("process_calls",),
)
def pages_announced(processes: list[Calls]) -> Iterator[Statement]:
    for case in processes:
        for pages in case.excess_pages():
            yield count("pages − predicted pages", pages, processes).near(0, within=1)


@processes.claim("After small blocks were freed every process maps pages from the start on")
def small_blocks_join(processes: list[Calls]) -> Iterator[Statement]:
    for calls in processes:
        if "small_blocks" in calls.factors:
            yield from calls.as_predicted()


@sweep.claim(
    "One freed tensor ends the layer's pages up to the predicted batch, and speeds it up",
    numbers=("start_freed", "freed_gain"),
)
def layer_keeps_memory(sweep: list[Calls]) -> Iterator[Statement]:
    for calls in sweep:
        if calls.name == "layer" and calls.freed:
            yield from calls.as_predicted()
            if subject.LAST_WITHOUT_PAGES < calls.batch < calls.start:
                yield calls.without_freed.share.exactly(1)
                yield calls.gain() > 1 + MARGIN


@sweep.claim(
    "After a freed tensor ResNet-18 maps pages from the predicted batch on", numbers=("network_to",)
)
def network_predicted(sweep: list[Calls]) -> Iterator[Statement]:
    for calls in sweep:
        if calls.name == subject.LARGE_NETWORK and calls.freed:
            yield from calls.as_predicted()


@small.claim("One freed tensor ends the pages of the MNIST CNN's inference and speeds it up")
def small_network_gains(network: Calls) -> Iterator[Statement]:
    return network.keeps_memory()


@fitting.claim(
    "Up to the predicted batch a freed tensor ends ResNet-18's pages in inference and speeds it up",
    numbers=("network_to", "fewer_gain", "more_gain"),
)
def fitting_network_gains(fitting: list[Calls]) -> Iterator[Statement]:
    for network in fitting:
        yield from network.keeps_memory()


@large.claim("Kept memory and jemalloc speed up ResNet-18's inference; one freed tensor does not")
def large_network_does_not(network: Calls) -> Iterator[Statement]:
    yield network.series("page_faults") > subject.FEW_PAGES
    yield network.gain().near(1, within=MARGIN)
    for policy in ("retained", "jemalloc"):
        yield network.gain(policy) > 1 + MARGIN


@source.claim("The source's theoretical work and memory follow from the shapes")
def source_theory(source: Source) -> Iterator[Statement]:
    for batch, work in source.column("I", "theoretical_flops", "FLOP").items():
        yield (work / theory.forward_work(batch)).exactly(1)
    for batch, memory in source.column("II", "theoretical_memory", "B").items():
        yield (memory / theory.memory(batch)).exactly(1)


@source.claim("The source's counted work grows in proportion to the batch size")
def linear_work(source: Source) -> Statement:
    per_image = [count / batch for batch, count in source.operations.items()]
    return (largest(*per_image) / smallest(*per_image)).exactly(1)


@source.claim("Tensor cores take multiply-adds out of the source's count")
def tensor_cores(source: Source) -> Statement:
    # Counters of fused multiply-adds do not count the work of tensor cores.
    shares = [count / theory.multiply_adds(batch) for batch, count in source.fused.items()]
    return smallest(*shares) < 1


@source.claim("The source's counts above theory come from profiling overhead or rounding")
def profiler_overhead(source: Source) -> Statement:
    # An overhead of the profiler would not be the same number for each output element.
    ratios = [excess / theory.output_bytes(batch) for batch, excess in source.excess.items()]
    return largest(*ratios) / smallest(*ratios) > 1


@source.claim("The source's memory below theory comes from compression or reduced precision")
def compressed_memory(source: Source) -> Statement:
    # Compressed activations would leave a gap that grows with the batch.
    return source.gap[max(source.gap)] - source.gap[min(source.gap)] > 0


@source.claim("Theory is an upper bound of the memory that the source's allocator reports")
def upper_bound(source: Source) -> Iterator[Statement]:
    for batch, gap in source.gap.items():
        yield gap / theory.memory(batch) > 0


@source.claim("The bytes that the source misses are exactly the parameters")
def gap_is_parameters(source: Source) -> Iterator[Statement]:
    for gap in source.gap.values():
        yield (gap / theory.PARAMETER_BYTES).exactly(1)


@source.claim("Two operations for each output element explain the source's counts to the unit")
def work_explained(source: Source) -> Iterator[Statement]:
    for batch, excess in source.excess.items():
        yield (excess / (batch * theory.OUTPUTS)).exactly(2)
    for column in ("add", "multiply"):
        yield source.per_output(column).exactly(1)


@gpu.claim("Two operations for each output element explain the counts of a GPU to the unit")
def device_work_explained(run: Run) -> Iterator[Statement]:
    return results.without_residual(run.device_work(), run.file)


@counted.claim("A CPU executes exactly the multiply-adds of theory, forward and backward")
def executed_exactly(run: Run) -> Iterator[Statement]:
    return results.without_residual(run.executed(), run.file)


@pair.claim(
    "Returning freed memory slows a call by more than a tenth, on both CPUs",
    numbers=("gain", "second_gain", "all_by_default", "large"),
)
def both_slower(cpus: list[Run]) -> Iterator[Statement]:
    for run in cpus:
        yield run.gain() > 1 + MARGIN


@cpu.claim("Returning freed memory slows a call by more than a tenth")
def slower(run: Run) -> Statement:
    return run.gain() > 1 + MARGIN


@pair.claim("Where memory is returned, four images have a higher throughput than larger batches")
def four_are_best(cpus: list[Run]) -> Iterator[Statement]:
    for run in cpus:
        for batch in run.compared:
            yield (
                run.under_policy("default").throughput_ratio(subject.LAST_WITHOUT_PAGES, batch) > 1
            )


@cpu.claim("Raising one of glibc's thresholds alone still slows a call by more than a tenth")
def one_threshold_fails(run: Run) -> Iterator[Statement]:
    for policy in ("mmap_threshold", "trim_threshold"):
        yield run.gain(policy) > 1 + MARGIN


timed.figure("cliff", height=1.55, wide=True)(figures.throughput)
settings.figure("effect", key=True, height=3.0, rows=2)(figures.moved_cliffs)
cpu.figure("rule", height=1.5)(figures.rule)
cliffs.table("starts")(results.start_rows)
processes.figure("processes", height=2.1, rows=2)(figures.top_and_time)


@networks.table("networks", wide=True)
def network_rows(networks: list[Calls]) -> Iterator[Mapping[str, Content]]:
    """Tabulate the speed-up of each network by each remedy against returned memory."""
    gains: dict[str, Callable[[Calls], Quantity]] = {"Tensor freed": Calls.gain}
    gains |= {"Memory kept": _KEPT_GAIN, "jemalloc": _JEMALLOC_GAIN}
    for network in networks:
        default = network.without_freed
        processes = len(default.medians("time"))
        times = network.medians("time"), default.medians("time", "jemalloc")
        yield {
            "CPU": network.run.short_label.removeprefix("AMD EPYC ")
            .removeprefix("Intel ")
            .strip("()"),
            "Network": network.name,
            "Images, mode": f"{network.batch}, {network.factors['mode']}",
            "1k pages before": results.thousands(default.medians("page_faults")),
            "1k pages after": results.thousands(network.medians("page_faults")),
            "Pairs": ", ".join(str(min(len(series), processes)) for series in times),
            **{remedy: gain(network) for remedy, gain in gains.items()},
            "Unpaired": results.decimals(unpaired(gain, network) for gain in gains.values()),
        }


@study.table("items")
def source_items(p: Paper) -> Iterator[Mapping[str, Content]]:
    for item, content, answer in ITEMS:
        yield {"Item": item, "Content": content, "Answered": answer}


#: Properties of machines that the paper does not print.
_OMITTED: Final = ("Device", "Identity", "Cores and threads", "Vector extensions", "Memory",
                   "Processes planned", "Samples a case", "Arithmetic")  # fmt: skip


@study.shared_table()
def machines(p: Paper) -> Table:
    """Describe a run on each machine of the main text."""
    table = setup([run for run in (p.counted, p.second, p.third, p.xeon, p.gpu) if run])
    return replace(table, rows=tuple(row for row in table.rows if row[0] not in _OMITTED))
