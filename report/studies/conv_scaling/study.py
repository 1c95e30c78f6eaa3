"""Declarations of conv_scaling: templates print a function's result by the function's name.

glibc returns free memory (policy ``default``) once as many bytes as a threshold lie at the heap's
top; the next call maps pages anew.  Memory is kept with the policy ``retained``.  Words:
- start: predicted first batch size at which some processes map pages;
- end: predicted first batch size at which all processes map pages;
- setting: a layer and a trimming threshold, with calls on batch sizes around start and end;
- freed tensor: a tensor freed before the calls, which raises the threshold;
- gain: time with memory returned divided by time with a remedy, such as memory kept.
"""

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
from report.quantity.evaluation import ENOUGH_RUNS, point_estimate, unpaired_ratio
from report.quantity.expression import Quantity, Statement, exact_number, named
from report.quantity.operations import largest, smallest
from report.studies.conv_scaling import figures, results, subject, theory
from report.studies.conv_scaling.runs import Calls, Run, calls_of, gain_by_freed_tensor
from report.studies.conv_scaling.source import ITEMS, Source
from report.studies.conv_scaling.subject import LARGE_BATCH, MARGIN
from report.theory import heap
from report.theory.reconciliation import Reconciliation


class Paper:
    """Runs in their roles, their calls per subject, and the source; missing data are None."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.source = inputs, Source(inputs)
        by_role: dict[str, Run] = {}
        for role, run in inputs.runs(Run).items():
            # Labels name machines only, because sentences do not distinguish a machine's runs.
            by_role[role] = replace(run, label=run.stored.record.environment.label)
        self.runs = tuple(by_role.values())
        roles = ("cpu", "second", "third", "eighth", "gpu")
        self.counted, second, self.zen4, self.xeon, self.gpu = map(by_role.get, roles)
        #: The first CPU's run, and the second CPU's if the first is there; both must have timed
        #: calls with memory returned.
        self.cpu = self.counted if self.counted and self.counted.compared_batches else None
        self.second = second if self.cpu and second and second.compared_batches else None
        self.cpus = [run for run in (self.cpu, self.second) if run]
        self.timed_gpu = by_role.get("fifth") or self.gpu
        self.timed_runs = [*self.cpus, *([self.timed_gpu] if self.timed_gpu else [])]
        #: Calls around predicted batch sizes, with a set threshold.
        self.cliffs = calls_of(self.runs, "cliff") or None
        self.convolution_cliffs = [c for c in self.cliffs or () if c.name != "linear"] or None
        #: Calls whose processes read the free bytes at the top of the heap.
        self.heap_tops = calls_of(self.runs, "top") or None
        #: Calls on many batch sizes, with and without a freed tensor.
        self.sweep = calls_of(self.runs, "sweep") or None
        drawn = self.cliffs, self.sweep, self.heap_tops
        self.drawn_calls = [calls for group in drawn for calls in group or ()] or None
        self.networks = [c for c in calls_of(self.runs, "cure") if c.frees_tensor] or None
        # The run in role "tenth" has few processes: the table contains it, but no claim.
        judged = [calls for calls in self.networks or () if calls.run is not by_role.get("tenth")]
        inference = [calls for calls in judged if calls.factors["mode"] == "inference"]
        self.mnist_cnn = next((c for c in inference if c.name == subject.SMALL_NETWORK), None)
        resnets = [calls for calls in inference if calls.name == subject.LARGE_NETWORK]
        #: ResNet-18 on fewer images than the predicted start, in ascending order, and on more.
        self.resnets_below_start = [c for c in resnets if c.batch < c.predicted_start] or None
        self.resnet_above_start = next((c for c in resnets if c.batch >= c.predicted_start), None)

    def reconciliations(self) -> Iterator[Reconciliation]:
        """Yield comparisons of theory with counts by Valgrind's Lackey and by a GPU's counters."""
        if self.counted:
            yield from self.counted.reconcile_executed_work()
        if self.gpu:
            yield from self.gpu.reconcile_device_work()


#: Definition of the slowdown by returned memory, as printed in reports.
_GAIN: Final = "geometric mean of times with memory returned ÷ kept, over calls that map pages"
_SLOWDOWNS: Final = MachineComparison(Run, "Slowdown", Run.mean_slowdown, _GAIN, reference=1.0)
study = Study(Paper, subject.check_subject, _SLOWDOWNS, reconciliations=Paper.reconciliations)
findings = study.findings
# A report on a single record evaluates only the parts whose kind, cpu or gpu, the record has.
source: Part[Source] = study.part("source")
# Runs on the first CPU (``counted``, which is also ``cpu`` if it timed calls), and on the second.
cpu: Part[Run] = study.part("cpu")
counted: Part[Run] = study.part("counted", kind="cpu")
second: Part[Run] = study.part("second", kind="pair")
cpus: Part[list[Run]] = study.part("cpus", kind="pair")
# Further runs: calls with set thresholds on a Zen 4, networks on a Xeon, counts and times on a GPU.
zen4: Part[Run] = study.part("zen4", kind="cpu")
xeon: Part[Run] = study.part("xeon", kind="pair")
gpu: Part[Run] = study.part("gpu")
timed_gpu: Part[Run] = study.part("timed_gpu", kind="gpu")
timed_runs: Part[list[Run]] = study.part("timed_runs", kind="cpu")
# Calls of layers around starts and ends; the figure ``effect`` draws ``drawn_calls``.
cliffs: Part[list[Calls]] = study.part("cliffs", kind="cpu")
convolution_cliffs: Part[list[Calls]] = study.part("convolution_cliffs", kind="cpu")
heap_tops: Part[list[Calls]] = study.part("heap_tops", kind="cpu")
sweep: Part[list[Calls]] = study.part("sweep", kind="cpu")
drawn_calls: Part[list[Calls]] = study.part("drawn_calls", kind="cpu")
# Calls of whole networks after a tensor was freed; the last three select networks in inference.
networks: Part[list[Calls]] = study.part("networks", kind="cpu")
mnist_cnn: Part[Calls] = study.part("mnist_cnn", kind="cpu")
resnets_below_start: Part[list[Calls]] = study.part("resnets_below_start", kind="cpu")
resnet_above_start: Part[Calls] = study.part("resnet_above_start", kind="cpu")

for _run, _text_id in (counted, "cpu"), (zen4, "third"), (second, "second"), (xeon, "xeon"):
    _run.texts(**{_text_id: short_name})
gpu.texts(gpu=short_name)
source.texts(source_device=attrgetter("device"), source_software=attrgetter("software"))
study.values("percent", confidence=exact_number("confidence, chosen", "1", CONFIDENCE))
_RAISED_MIB: Final = round(subject.RAISED_THRESHOLD / 2**20)
study.values(
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
    freed=exact_number("freed tensor, in MiB", "1", round(4 * subject.FREED_ELEMENTS / 2**20, 1)),
    kept_at_most=exact_number("raised threshold, in MiB", "1", _RAISED_MIB),
    reserve_pages=theory.RESERVE / theory.PAGE,
)
_NUMBERS: Final[Mapping[str, int]] = {
    "least_set": subject.SMALLEST_SET_THRESHOLD >> 20,
    "heap_limit": heap.LARGEST_MAPPING_BYTES >> 20,
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
    study.values(**{_id: exact_number(_id.replace("_", " "), "1", _number)})
source.values(
    adds=partial(Source.per_output, key="add"),
    multiplies=partial(Source.per_output, key="multiply"),
    memory_gap=lambda source: largest(*source.gap.values()),
)

_BATCH_GAIN: Final = partial(Run.throughput_ratio, batch=LARGE_BATCH, base=1)
cpu.values(
    gain=Run.mean_slowdown,
    gain_unpaired=partial(unpaired_ratio, Run.mean_slowdown),
    batch_unpaired=partial(unpaired_ratio, _BATCH_GAIN),
    batch_gain=_BATCH_GAIN,
    measurements=Run.count_measurements,
    processes=Run.timed_processes,
    disturbed=partial(Run.count_measurements, disturbed=True),
    threshold=Run.first_threshold,
    mmap_alone=partial(Run.mean_slowdown, policy="mmap_threshold"),
    trim_alone=partial(Run.mean_slowdown, policy="trim_threshold"),
    both_raised=partial(Run.mean_slowdown, policy="thresholds"),
    start_top=Run.predicted_top,
    top_before=partial(Run.predicted_top, fewer=1),
    **{"from": Run.predicted_start, "always": Run.predicted_end},
)
study.show("second", "gain", "gain_unpaired", "processes")
second.values(
    second_jemalloc=partial(Run.mean_slowdown, policy="jemalloc"),
    second_kept=partial(Run.throughput_ratio, batch=subject.MANY_IMAGES, base=LARGE_BATCH),
    second_trained=partial(Run.slowdown, batch=subject.FIRST_WITH_PAGES, pass_="forward_backward"),
    second_trained_large=partial(Run.slowdown, batch=LARGE_BATCH, pass_="forward_backward"),
)
_AT_START: Final = partial(results.count_settings, early=0)
cliffs.values(settings=results.count_settings, settings_at_start=_AT_START)
convolution_cliffs.values(least_missing=results.fewest_missing_bytes)
convolution_cliffs.values(convolution_settings=results.count_settings)
convolution_cliffs.values(convolutions_at_start=_AT_START)
heap_tops.values(mixed_least=results.smallest_slowdown, process_calls=results.count_processes)
mnist_cnn.values(small_gain=Calls.gain)
_END, _LAST = theory.END_AFTER_FREED, subject.LARGEST_BATCH
_GAIN_BEYOND: Final = partial(gain_by_freed_tensor, first=_END, last=_LAST)
_FIRST: Final = subject.FIRST_WITH_PAGES
sweep.values(
    freed_first=partial(gain_by_freed_tensor, first=_FIRST, last=_FIRST),
    freed_gain=partial(gain_by_freed_tensor, first=_FIRST, last=theory.START_AFTER_FREED - 1),
    beyond_gain=_GAIN_BEYOND,
    beyond_unpaired=partial(unpaired_ratio, _GAIN_BEYOND),
)
_KEPT_GAIN: Final = partial(Calls.gain, policy="retained")
_JEMALLOC_GAIN: Final = partial(Calls.gain, policy="jemalloc")
resnet_above_start.values(large_gain=Calls.gain, large_kept=_KEPT_GAIN)
resnet_above_start.values(large_jemalloc=_JEMALLOC_GAIN)
timed_gpu.values(gpu_best=Run.best_batch, gpu_processes=Run.timed_processes)
timed_gpu.values(gpu_gain=partial(Run.throughput_ratio, batch=subject.LARGEST_BATCH, base=1))
resnets_below_start.values(fewer_gain=lambda resnets: resnets[0].gain())
resnets_below_start.values(more_gain=lambda resnets: resnets[-1].gain())


@cpu.claim("No process maps pages before the predicted start, and most do from the end on")
def cliff_predicted(run: Run) -> Iterator[Statement]:
    start, end = point_estimate(run.predicted_start()), point_estimate(run.predicted_end())
    if isinstance(start, Missing) or isinstance(end, Missing):
        yield run.predicted_start() > 0  # so that the claim reports why the start is missing
        return
    for batch in run.timed_batches:
        share = Calls(run, run.factors(batch)).mapping_share
        if batch < start:
            yield share.exactly(0)
        if batch >= end:
            yield share > 0.5


@cpu.claim("A call maps the pages of its blocks less the reserve, to within a page")
def pages_follow(run: Run) -> Iterator[Statement]:
    for batch in run.compared_batches:
        if batch >= subject.MANY_IMAGES:
            yield run.excess_pages(batch).near(0, within=1)


@convolution_cliffs.claim(
    "Some processes of three convolutions map pages from the predicted start on, none where the "
    "blocks lack a page or more to the threshold, and all from the predicted end on",
    numbers=("start_freed", "convolution_settings", "convolutions_at_start"),
)
def start_predicted(cliffs: list[Calls]) -> Iterator[Statement]:
    for calls in cliffs:
        yield from calls.as_predicted()


@cliffs.claim(
    "Pages of three convolutions and a linear layer begin at the predicted image or one before",
    numbers=("settings", "settings_at_start"),
)
def starts_within_an_image(cliffs: list[Calls]) -> Iterator[Statement]:
    within_an_image = _AT_START(cliffs) + results.count_settings(cliffs, early=1)
    yield named("share of settings", within_an_image / results.count_settings(cliffs)).exactly(1)


@heap_tops.claim(
    "In each process a call maps the pages that the free top of its heap announces",
    numbers=("process_calls",),
)
def pages_announced(heap_tops: list[Calls]) -> Iterator[Statement]:
    for calls in heap_tops:
        for pages in calls.excess_pages():
            excess = results.quantity_of("pages − predicted pages", pages, heap_tops)
            yield excess.near(0, within=1)


@heap_tops.claim("After small blocks were freed every process maps pages from the start on")
def small_blocks_join(heap_tops: list[Calls]) -> Iterator[Statement]:
    for calls in heap_tops:
        if "small_blocks" in calls.factors:
            yield from calls.as_predicted()


@sweep.claim(
    "One freed tensor ends the layer's pages up to the predicted batch, and speeds it up",
    numbers=("start_freed", "freed_gain"),
)
def layer_keeps_memory(sweep: list[Calls]) -> Iterator[Statement]:
    for calls in sweep:
        if calls.name == "layer" and calls.frees_tensor:
            yield from calls.as_predicted()
            if subject.LAST_WITHOUT_PAGES < calls.batch < calls.predicted_start:
                yield calls.without_freed_tensor.mapping_share.exactly(1)
                yield calls.gain() > 1 + MARGIN


@sweep.claim(
    "After a freed tensor ResNet-18 maps pages from the predicted batch on", numbers=("network_to",)
)
def network_predicted(sweep: list[Calls]) -> Iterator[Statement]:
    for calls in sweep:
        if calls.name == subject.LARGE_NETWORK and calls.frees_tensor:
            yield from calls.as_predicted()


@mnist_cnn.claim("One freed tensor ends the pages of the MNIST CNN's inference and speeds it up")
def small_network_gains(mnist_cnn: Calls) -> Iterator[Statement]:
    return mnist_cnn.keeps_memory()


@resnets_below_start.claim(
    "Up to the predicted batch a freed tensor ends ResNet-18's pages in inference and speeds it up",
    numbers=("network_to", "fewer_gain", "more_gain"),
)
def fitting_network_gains(resnets: list[Calls]) -> Iterator[Statement]:
    for resnet in resnets:
        yield from resnet.keeps_memory()


@resnet_above_start.claim(
    "Kept memory and jemalloc speed up ResNet-18's inference; one freed tensor does not"
)
def large_network_does_not(resnet: Calls) -> Iterator[Statement]:
    yield resnet.series("page_faults") > subject.FEW_PAGES
    yield resnet.gain().near(1, within=MARGIN)
    for policy in ("retained", "jemalloc"):
        yield resnet.gain(policy) > 1 + MARGIN


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
    return results.sums_are_exact(run.reconcile_device_work(), run.file)


@counted.claim("A CPU executes exactly the multiply-adds of theory, forward and backward")
def executed_exactly(run: Run) -> Iterator[Statement]:
    return results.sums_are_exact(run.reconcile_executed_work(), run.file)


@cpus.claim(
    "Returning freed memory slows a call by more than a tenth, on both CPUs",
    numbers=("gain", "second_gain", "all_by_default", "large"),
)
def both_slower(cpus: list[Run]) -> Iterator[Statement]:
    for run in cpus:
        yield run.mean_slowdown() > 1 + MARGIN


@cpu.claim("Returning freed memory slows a call by more than a tenth")
def slower(run: Run) -> Statement:
    return run.mean_slowdown() > 1 + MARGIN


@cpus.claim("Where memory is returned, four images have a higher throughput than larger batches")
def four_are_best(cpus: list[Run]) -> Iterator[Statement]:
    for run in cpus:
        returned = run.under_policy("default")
        for batch in run.compared_batches:
            yield returned.throughput_ratio(subject.LAST_WITHOUT_PAGES, batch) > 1


@cpu.claim("Raising one of glibc's thresholds alone still slows a call by more than a tenth")
def one_threshold_fails(run: Run) -> Iterator[Statement]:
    for policy in ("mmap_threshold", "trim_threshold"):
        yield run.mean_slowdown(policy) > 1 + MARGIN


timed_runs.figure("cliff", height=1.55, wide=True)(figures.throughput)
drawn_calls.figure("effect", key=True, height=3.0, rows=2)(figures.moved_cliffs)
cpu.figure("rule", height=1.5)(figures.free_at_heap_top)
cliffs.table("starts")(results.start_rows)
heap_tops.figure("processes", height=2.1, rows=2)(figures.top_and_time)


@networks.table("networks", wide=True)
def network_rows(networks: list[Calls]) -> Iterator[Mapping[str, Content]]:
    """Tabulate the gain of each network by each remedy, compared with returned memory."""
    gains: dict[str, Callable[[Calls], Quantity]] = {"Tensor freed": Calls.gain}
    gains |= {"Memory kept": _KEPT_GAIN, "jemalloc": _JEMALLOC_GAIN}
    for network in networks:
        default = network.without_freed_tensor
        cpu_name = network.run.short_label.removeprefix("AMD EPYC ").removeprefix("Intel ")
        default_processes = len(default.medians("time"))
        times = network.medians("time"), default.medians("time", "jemalloc")
        unpaired_gains = [unpaired_ratio(gain, network) for gain in gains.values()]
        yield {
            "CPU": cpu_name.strip("()"),
            "Network": network.name,
            "Images, mode": f"{network.batch}, {network.factors['mode']}",
            "1k pages before": results.format_thousands(default.medians("page_faults")),
            "1k pages after": results.format_thousands(network.medians("page_faults")),
            "Pairs": ", ".join(str(min(len(series), default_processes)) for series in times),
            **{remedy: gain(network) for remedy, gain in gains.items()},
            "Unpaired": results.format_ratios(unpaired_gains),
        }


@study.table("items")
def source_items(paper: Paper) -> Iterator[Mapping[str, Content]]:
    for item, content, answer in ITEMS:
        yield {"Item": item, "Content": content, "Answered": answer}


#: Rows that the table of machines omits.
_OMITTED: Final = ("Device", "Identity", "Cores and threads", "Vector extensions", "Memory",
                   "Processes planned", "Samples a case", "Arithmetic")  # fmt: skip


@study.table()
def machines(paper: Paper) -> Table:
    """Tabulate the machines of the main text, with a run on each machine."""
    machine_runs = paper.counted, paper.second, paper.zen4, paper.xeon, paper.gpu
    table = setup([run for run in machine_runs if run])
    return replace(table, rows=tuple(row for row in table.rows if row[0] not in _OMITTED))
