"""conv_scaling as its paper and its reports print it."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from figures.panels import Scaling
from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.paper.findings import Inputs
from report.paper.machines import MachineComparison, setup
from report.paper.study import Content, Part, Study
from report.paper.tables import Table
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.operations import largest, smallest
from report.studies.conv_scaling import runs as results
from report.studies.conv_scaling import theory, thresholds
from report.studies.conv_scaling.runs import Run
from report.studies.conv_scaling.source import Source, source_work
from report.studies.conv_scaling.theory import SHOWN_BATCH
from report.studies.conv_scaling.thresholds import FreedTensor, Network, Series
from report.theory import heap
from report.theory.reconciliation import Reconciliation

#: Times that differ by less than this share are no finding: runs of a machine differ by as much.
MARGIN: Final = 0.1
#: A batch size whose call no longer fits the cache, and the largest one of a GPU.
LARGE_BATCH: Final = 512
LARGEST_BATCH: Final = 1024
#: Where a shell lets the value of a variable go on in the next line of a narrow page.
_AT_COLON: Final = re.compile(r"(?<=:)(?=[a-z])")
#: Items of the source beside its claims: what they hold, and where they are answered.
ITEMS: Final = (
    ("Tables I, II", "theory", "equal to ours in every row"),
    ("Tables III, V", "counted operations", "exact; the excess is two an output element"),
    ("Tables IV, VI", "allocated bytes", "exact; the gap is the parameters"),
    ("Table IV", "reserved bytes", "left out: segments of the whole network, not of the layer"),
    ("Figures 1, 3", "login, output of one run", "no number beyond the tables"),
    ("Figure 2", "summary of the network", "its parameters are those of our network"),
    ("Figures 4 to 7", "the tables drawn", "lines through the origin, or the parameters"),
    ("Choice of a batch", "balances load and latency", "measured: see the Discussion"),
    ("Memory swapping", "slows down large batches", "not tested: all batches fit the GPU's memory"),
)


class Paper:
    """Runs in their roles, the source, and reconciliations of theory with counts."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.source = inputs, Source(inputs)
        #: Several runs are of one machine, so that labels need not tell them apart.
        runs: dict[str, Run] = {}
        for role, run in inputs.runs(Run).items():
            runs[role] = replace(run, label=run.stored.record.environment.label)
        self.runs = tuple(runs.values())
        self.counted, other, self.gpu = (runs.get(role) for role in ("cpu", "second", "gpu"))
        #: The CPUs that measured what returned memory costs, the second one if both did.
        self.cpu = self.counted if self.counted and self.counted.compares else None
        self.second = other if self.cpu and other and other.compares else None
        if self.cpu and self.second:
            shared = tuple(b for b in self.cpu.compared if b in self.second.compared)
            if shared:
                self.cpu = replace(self.cpu, shared=shared)
                self.second = replace(self.second, shared=shared)
        self.both = [run for run in (self.cpu, self.second) if run]
        #: An earlier run that timed training on the first CPU.
        self.trained = runs.get("seventh")
        #: The GPU's times, of the run with most processes.
        gpus = [run for run in self.runs if run.on_gpu]
        self.timed_gpu = max(gpus, key=lambda run: len(run.timing(1)), default=None)
        self.series: list[Series] = []
        for run in self.runs:
            self.series += thresholds.measured_series(run)
        self.networks = next(filter(None, map(thresholds.networks_of, self.runs)), None)
        self.freed = next(filter(None, map(thresholds.freed_tensor, self.runs)), None)

    def reconciliations(self) -> Iterator[Reconciliation]:
        """Yield the reconciliations of the source, of lackey and of a GPU's counters."""
        yield from source_work(self.source).values()
        if self.counted:
            yield from results.executed(self.counted)
        if self.gpu:
            yield from results.device_work(self.gpu)


def slowdown(run: Run) -> Quantity:
    """Divide the time of a call where freed memory is returned by that where memory stays."""
    if run.compares:
        return run.gain()
    return absent("slowdown", "1", "not timed under two memory policies")


study = Study(
    Paper,
    theory.check_subject,
    MachineComparison(Run, "Slowdown", slowdown, reference=1.0),
    reconciliations=Paper.reconciliations,
)
findings = study.findings
cpu: Part[Run] = study.part("cpu")
counted: Part[Run] = study.part("counted", "cpu")
gpu: Part[Run] = study.part("gpu")
source: Part[Source] = study.part("source")
second: Part[Run] = study.part("second", "pair")
both: Part[list[Run]] = study.part("both", "cpu")
pair: Part[list[Run]] = study.part("both", "pair")
trained: Part[Run] = study.part("trained", "pair")
series: Part[list[Series]] = study.part("series", "cpu")
networks: Part[tuple[Network, ...]] = study.part("networks", "cpu")
freed: Part[FreedTensor] = study.part("freed", "cpu")
timed_gpu: Part[Run] = study.part("timed_gpu", "gpu")


# -------------------------------------------------------------------------------------- texts


def device(run: Run) -> str:
    """Name the device of a run; several runs may have the same one."""
    environment = run.stored.record.environment
    return markdown(environment.label.removesuffix(environment.threads_text))


def _source_device(p: Paper) -> str:
    return markdown(p.inputs.reported.device)


def _source_software(p: Paper) -> str:
    return markdown(p.inputs.reported.software)


def _device_with(p: Paper, subject: str) -> str:
    """Name the device of the first run with cases of a subject."""
    return next((device(run) for run in p.runs if any(run.cases_of(subject))), "")


def _c_library(run: Run) -> str:
    host = run.stored.record.environment.host
    return markdown(host.c_library or "") if host else ""


gpu.texts(gpu=device)
counted.texts(cpu=device, c_library=_c_library)
second.texts(second=device)
study.texts(
    source_device=_source_device,
    source_software=_source_software,
    threshold_cpu=partial(_device_with, subject="cliff"),
    network_cpu=partial(_device_with, subject="cure"),
)


@study.text()
def settings(p: Paper) -> dict[str, list[str]]:
    """The variables that set each memory policy, in shell syntax."""
    shown: dict[str, list[str]] = {}
    policies = p.counted.stored.record.protocol.variables if p.counted else {}
    for policy, variables in policies.items():
        if variables and policy != "traced":
            lines = [f"{name}={value}" for name, value in variables.items()]
            shown[policy] = [_AT_COLON.sub("\\\n", line) for line in lines]
    return shown


# ------------------------------------------------------------------------------ theory, source

study.constants("percent", confidence=exact("confidence, chosen", "1", CONFIDENCE))
study.constants(
    in_channels=theory.C_IN,
    out_channels=theory.C_OUT,
    kernel=theory.KERNEL,
    in_extent=theory.H_IN,
    out_extent=theory.H_OUT,
    macs=theory.multiply_adds(1),
    parameters=theory.PARAMETERS,
    outputs=theory.OUTPUTS,
    element=theory.ELEMENT,
    page=theory.PAGE,
    raised=theory.RAISED,
    reserve_pages=theory.RESERVE / theory.PAGE,
)
_CHOSEN: Final[Mapping[str, int]] = {
    "alignment": theory.ALIGNMENT,
    "least_set": 2,
    "heap_limit": heap.LARGEST_MAPPING >> 20,
    "last_without_pages": theory.LAST_WITHOUT_PAGES,
    "freed": 4 * theory.FREED // 10**6,
    "reserve": heap.RESERVE >> 10,
    "network_to": theory.network_last_without_pages(theory.FREED),
    "weight_pages": theory.WEIGHT_PAGES,
    "many": results.MANY_IMAGES,
    "last_by_default": theory.LAST_BY_DEFAULT,
    "all_by_default": theory.ALL_BY_DEFAULT,
    "shown": SHOWN_BATCH,
    "large": LARGE_BATCH,
    "gpu_largest": LARGEST_BATCH,
}
for _id, _number in _CHOSEN.items():
    study.constants(**{_id: exact(_id.replace("_", " "), "1", _number)})


@source.mapping()
def _counted_by_source(source: Source) -> dict[str, Quantity]:
    return {
        "adds": source.per_output("add"),
        "multiplies": source.per_output("multiply"),
        "memory_gap": largest(*source.gap.values()),
    }


# ---------------------------------------------------------------------------------- measured


cpu.values(
    first=partial(Run.batch_at, sizes="mapping", place=0),
    smallest_compared=partial(Run.batch_at, sizes="compared", place=0),
    largest_compared=partial(Run.batch_at, sizes="compared", place=-1),
    gain=Run.gain,
    batch_gain=Run.batch_gain,
    measurements=Run.measurements,
    disturbed=partial(Run.measurements, disturbed=True),
    page_price=Run.page_price,
    threshold=Run.first_threshold,
    flat_to=results.largest_without_pages,
    mmap_alone=partial(Run.gain, policy="mmap_threshold"),
    trim_alone=partial(Run.gain, policy="trim_threshold"),
    both_raised=partial(Run.gain, policy="thresholds"),
    **{"from": results.first_mapping_batch, "always": results.all_mapping_batch},
)
cpu.values(
    "percent",
    share_kept=partial(Run.peak_share, batch=SHOWN_BATCH),
    share_returned=partial(Run.peak_share, batch=SHOWN_BATCH, policy="default"),
    priced_least=partial(Run.extreme_priced_share, choose=smallest),
    priced_most=partial(Run.extreme_priced_share, choose=largest),
)
study.show("second", "gain", "page_price", "priced_least", "priced_most")
second.values(
    second_jemalloc=partial(Run.gain, policy="jemalloc"),
    second_trained=partial(Run.trained, batch=theory.ALL_BY_DEFAULT),
    second_trained_large=partial(Run.trained, batch=LARGE_BATCH),
)
trained.values(
    earlier_trained=partial(Run.trained, batch=theory.ALL_BY_DEFAULT),
    earlier_trained_shown=partial(Run.trained, batch=SHOWN_BATCH),
    earlier_trained_large=partial(Run.trained, batch=LARGE_BATCH),
)
gpu.values(gpu_earlier=partial(Run.image_time, batch=1))
timed_gpu.values(
    gpu_single=partial(Run.image_time, batch=1),
    gpu_call=partial(Run.batch_cost, largest=LARGEST_BATCH),
    gpu_gain=partial(Run.batch_gain, largest=LARGEST_BATCH),
)


@study.mapping()
def _after_thresholds(p: Paper) -> dict[str, Quantity]:
    networks = thresholds.network_numbers(p.networks or ())
    return {**thresholds.start_numbers(p.series), **networks}


# -------------------------------------------------------------------------------------- claims


@series.claim(
    "The cliff of three convolutions begins at the predicted image or one before",
    numbers=("start_most", "start_least"),
)
def start_predicted(measured: list[Series]) -> Iterator[Statement]:
    return thresholds.within_an_image(measured)


@series.claim(
    "No process maps pages below the predicted start, and every one beyond a convolution's end"
)
def between_predictions(measured: list[Series]) -> Iterator[Statement]:
    return thresholds.shares_beyond_predictions(measured)


@series.claim("A linear layer maps no pages where its output on the heap is a multiple of 64 bytes")
def aligned_linear(measured: list[Series]) -> Iterator[Statement]:
    return thresholds.aligned_without_pages(measured)


@freed.claim(
    "One freed tensor ends the layer's pages up to the predicted batch, and speeds it up",
    numbers=("last_without_pages",),
)
def layer_keeps_memory(freed: FreedTensor) -> Iterator[Statement]:
    return freed.layer_as_predicted(MARGIN)


@freed.claim("After a freed tensor ResNet-18 maps pages from the predicted batch on")
def network_predicted(freed: FreedTensor) -> Iterator[Statement]:
    return freed.network_as_predicted()


@networks.claim("One freed tensor ends the pages of the MNIST CNN and speeds up its inference")
def small_network_gains(networks: tuple[Network, ...]) -> Iterator[Statement]:
    return thresholds.small_network_gains(networks, MARGIN)


@networks.claim(
    "Kept memory and jemalloc speed up ResNet-18's inference, and one freed tensor does not"
)
def large_network_does_not(networks: tuple[Network, ...]) -> Iterator[Statement]:
    return thresholds.large_network_does_not(networks, MARGIN)


@source.claim("The source's theoretical work and memory follow from the shapes")
def source_theory(source: Source) -> Iterator[Statement]:
    for ratio in source.theory_ratios():
        yield ratio.exactly(1)


@source.claim("The source's counted work grows in proportion to the batch size")
def linear_work(source: Source) -> Statement:
    per_image = [count / batch for batch, count in source.operations.items()]
    return (largest(*per_image) / smallest(*per_image)).exactly(1)


@source.claim("Tensor cores take multiply-adds out of the source's count")
def tensor_cores(source: Source) -> Statement:
    # The counters of fused multiply-adds do not see what tensor cores do.
    shares = [n / theory.multiply_adds(batch) for batch, n in source.fused.items()]
    return smallest(*shares) < 1


@source.claim("The source's counts above theory come from profiling overhead or rounding")
def profiler_overhead(source: Source) -> Statement:
    # An overhead of the profiler would not be the same number for each output element.
    excess = [more / theory.output_bytes(batch) for batch, more in source.excess.items()]
    return largest(*excess) / smallest(*excess) > 1


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
    return results.without_residual(source_work(source).values(), source.file)


@gpu.claim("Two operations for each output element explain the counts of a GPU to the unit")
def device_work_explained(run: Run) -> Iterator[Statement]:
    return results.without_residual(results.device_work(run), run.file)


@counted.claim("A CPU executes exactly the multiply-adds of theory, forward and backward")
def executed_exactly(run: Run) -> Iterator[Statement]:
    return results.without_residual(results.executed(run), run.file)


@pair.claim(
    "Returning freed memory slows a call by more than a tenth, on both CPUs",
    numbers=("gain", "second_gain"),
)
def both_slower(runs: list[Run]) -> Iterator[Statement]:
    for run in runs:
        yield run.gain() > 1 + MARGIN


@second.claim("Training maps pages from the batch of forward calls on, and slows down less")
def training_slows_less(run: Run) -> Iterator[Statement]:
    return run.training_starts_alike(MARGIN)


@cpu.claim("Returning freed memory slows a call by more than a tenth")
def slower(run: Run) -> Statement:
    return run.gain() > 1 + MARGIN


@cpu.claim("Raising one of glibc's thresholds alone still slows a call by more than a tenth")
def one_threshold_fails(run: Run) -> Iterator[Statement]:
    for policy in ("mmap_threshold", "trim_threshold"):
        yield run.gain(policy) > 1 + MARGIN


@cpu.claim("No process maps pages before the predicted batch, and most do beyond its end")
def cliff_predicted(run: Run) -> Iterator[Statement]:
    return results.starts_as_predicted(run)


@cpu.claim("A call maps the pages of its blocks less the reserve, to within a page")
def pages_follow(run: Run) -> Iterator[Statement]:
    return results.pages_as_predicted(run)


# ------------------------------------------------------------------------- figures and tables


def _lines(run: Run, of: Callable[[Run, int], Quantity]) -> results.Lines:
    """Divide a quantity by the batch size, with memory kept and returned."""
    retained, returned = run.under("retained"), run.under("default")
    return {
        ("Memory kept", 0): {b: of(retained, b) / b for b in run.powers},
        ("Memory returned", 1): {b: of(returned, b) / b for b in run.powers},
    }


@both.figure(height=3.4, rows=2, wide=True, same_axes=True)
def cliff(runs: list[Run]) -> Iterator[Scaling]:
    """Draw time of an image over pages that it maps, a column for each run."""
    ticks = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)
    for run in runs:
        lines = _lines(run, Run.time)
        yield replace(results.panel("Time of an image (µs)", "µs", lines, ticks), title=run.short)
    for run in runs:
        yield results.panel("Pages an image", "1", _lines(run, Run.faults), ticks)


freed.figure("effect", key=True, height=3.6, rows=2)(FreedTensor.panels)
cpu.figure("heap", height=2.0)(results.heap_states)


series.figure("starts", height=2.6)(thresholds.mapping_shares)


@networks.table("networks", wide=True)
def network_rows(networks: tuple[Network, ...]) -> Iterator[Mapping[str, Content]]:
    for network in networks:
        yield network.row()


@study.table("items")
def source_items(p: Paper) -> Iterator[Mapping[str, Content]]:
    for item, content, answer in ITEMS:
        yield {"Item": item, "Content": content, "Answered": answer}


@study.shared_table()
def machines(p: Paper) -> Table:
    """Describe the first run of each machine."""
    first_runs: dict[str, Run] = {}
    for run in p.runs:
        first_runs.setdefault(run.label, run)
    return setup([*first_runs.values()])
