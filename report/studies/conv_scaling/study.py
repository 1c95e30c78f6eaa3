"""conv_scaling as its paper and its reports print it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.evidence import allocator_replay
from report.paper.findings import Inputs
from report.paper.machines import MachineComparison, setup
from report.paper.reconciliations import series_table
from report.paper.study import Content, Part, Study
from report.paper.tables import Table
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.operations import largest, smallest
from report.studies.conv_scaling import cure, figures, moved, results, theory
from report.studies.conv_scaling.cure import Cure, Sweep
from report.studies.conv_scaling.moved import Start
from report.studies.conv_scaling.runs import Run
from report.studies.conv_scaling.source import Source
from report.studies.conv_scaling.subject import SHOWN_BATCH, check_subject
from report.theory import heap
from report.theory.reconciliation import Reconciliation, without_idle_terms

#: Times that differ by less than this share are no finding: runs of a machine differ by as much.
MARGIN: Final = 0.1
#: A batch size whose call no longer fits the cache; the prose also describes a smaller one.
LARGE_BATCH: Final = 512
#: The largest batch size of a GPU.
LARGEST_BATCH: Final = 1024
#: A batch size at which the outputs have their own mapping and the copy of the input has not.
OUTPUTS_ALONE: Final = 256
#: Where a shell lets the value of a variable go on in the next line of a narrow page.
_AT_COLON: Final = re.compile(r"(?<=:)(?=[a-z])")

#: Items of the source beside its claims: what they hold, and where they are answered.
ITEMS: Final = (
    ("Tables I, II", "theory", "equal to ours in every row"),
    ("Tables III, V", "counted operations", "exact; the excess is two an output element"),
    ("Tables IV, VI", "bytes of the allocator", "exact; the gap is the parameters"),
    ("Figure 1", "login to the cluster", "no result"),
    ("Figure 2", "summary of the network", "its parameters are those of our network"),
    ("Figure 3", "output of one run", "no number beyond the tables"),
    ("Figures 4 to 7", "the tables drawn", "lines through the origin, or the parameters"),
    ("Choice of a batch", "balances load and latency", "measured: see the Discussion"),
    ("Memory swapping", "slows down large batches", "no: a GPU's time of an image falls"),
)


class Paper:
    """Runs in their roles, the source, and reconciliations of theory with counts."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.source = Source(inputs)
        runs = inputs.runs(Run)
        self.runs = tuple(runs.values())
        self.counted, other, self.gpu = (runs.get(role) for role in ("cpu", "second", "gpu"))
        #: The CPUs that measured what returned memory costs, the second one if both did.
        self.cpu = self.counted if self.counted and self.counted.compares else None
        self.second = other if self.cpu and other and other.compares else None
        if self.cpu and self.second:
            shared = tuple(b for b in self.cpu.doubled if b in self.second.doubled)
            if shared:
                self.cpu = replace(self.cpu, shared=shared)
                self.second = replace(self.second, shared=shared)
        self.both = [run for run in (self.cpu, self.second) if run]
        #: The GPU's times, of the run with most processes.
        gpus = [run for run in self.runs if run.on_gpu]
        self.timed_gpu = max(gpus, key=lambda run: len(run.timing(1)), default=None)
        self.moved = moved.starts(self.runs, "cliff") or None
        self.edges = moved.starts(self.runs, "edge")
        self.cured = next(filter(None, map(cure.cures, self.runs)), None)
        self.swept = next(filter(None, map(cure.sweep, self.runs)), None)
        self.work = results.source_work(self.source)
        self.reserved = results.source_reserved(inputs, self.source)
        self.replays = list(allocator_replay.replays(self.gpu).values()) if self.gpu else []

    def reconciliations(self) -> Iterator[Reconciliation]:
        """Yield the reconciliations of the source, lackey, counters and the allocator's sums."""
        yield from self.work.values()
        yield from self.reserved.values()
        if self.counted:
            yield from results.executed(self.counted)
        if self.gpu:
            yield from results.device_work(self.gpu)
        for replay in self.replays:
            if not replay.explained:
                yield replay


def slowdown(run: Run) -> Quantity:
    """Divide the time of a call where freed memory is returned by that where memory stays."""
    if run.compares:
        return run.gain()
    return absent("slowdown", "1", "no two memory policies were measured")


study = Study(
    Paper,
    check_subject,
    MachineComparison(Run, "Slowdown", slowdown, reference=1.0),
    reconciliations=Paper.reconciliations,
)
findings = study.findings
cpu: Part[Run] = study.part("cpu")
counted: Part[Run] = study.part("counted", "cpu")
gpu: Part[Run] = study.part("gpu")
source: Part[Source] = study.part("source")
second: Part[Run] = study.part("second", "pair")
drawn: Part[list[Run]] = study.part("both", "cpu")
starts: Part[tuple[Start, ...]] = study.part("moved", "cpu")
cured: Part[tuple[Cure, ...]] = study.part("cured", "cpu")
swept: Part[Sweep] = study.part("swept", "cpu")
timed_gpu: Part[Run] = study.part("timed_gpu", "gpu")
pair: Part[list[Run]] = study.part("both", "pair")


# -------------------------------------------------------------------------------------- texts


@study.text()
def source_device(p: Paper) -> str:
    return markdown(p.inputs.reported.device)


@study.text()
def source_software(p: Paper) -> str:
    return markdown(p.inputs.reported.software)


def device(run: Run) -> str:
    """Name the device of a run, which further runs of the paper may share."""
    environment = run.stored.record.environment
    return markdown(environment.label.removesuffix(environment.threads_text))


gpu.texts(gpu=device)
counted.texts(cpu=device)
second.texts(second=device)


@study.text()
def moved_on(p: Paper) -> str:
    """Name the CPU on which the cliff was moved."""
    return next((device(run) for run in p.runs if run.levels("threshold", subject="cliff")), "")


@study.text()
def cured_on(p: Paper) -> str:
    """Name the CPU on which a tensor was freed before networks."""
    return next((device(run) for run in p.runs if cure.cures(run)), "")


@counted.text()
def c_library(run: Run) -> str:
    host = run.stored.record.environment.host
    return markdown(host.c_library or "") if host else ""


@study.text()
def settings(p: Paper) -> dict[str, list[str]]:
    """The variables that set each memory policy, as a shell takes them."""
    shown = {}
    policies = p.counted.stored.record.protocol.variables if p.counted else {}
    for policy, variables in policies.items():
        if variables and policy != "traced":
            lines = [f"{name}={value}" for name, value in variables.items()]
            shown[policy.replace("_", " ")] = [_AT_COLON.sub("\\\n", line) for line in lines]
    return shown


# ------------------------------------------------------------------------------ theory, source


@source.mapping()
def _layer(source: Source) -> dict[str, Quantity]:
    return {
        "in_channels": theory.C_IN,
        "out_channels": theory.C_OUT,
        "kernel": theory.KERNEL,
        "in_extent": theory.H_IN,
        "out_extent": theory.H_OUT,
        "macs": theory.multiply_adds(1),
        "parameters": theory.PARAMETERS,
        "outputs": theory.OUTPUTS,
        "element": theory.ELEMENT,
        "alignment": exact("alignment, B", "1", moved.ALIGNMENT),
        "least_set": exact("least threshold that is set, MiB", "1", 2),
        "heap_limit": exact("largest block of the heap", "1", heap.LARGEST_MAPPING >> 20),
        "adds": source.per_output(source.column("III", "add", "FLOP")),
        "multiplies": source.per_output(source.column("III", "multiply", "FLOP")),
        "memory_gap": largest(*source.gap.values()),
        "page": theory.PAGE,
        "cured_to": theory.CURED_TO,
        "raised": theory.RAISED,
        "freed": exact("freed tensor, MB", "1", 4 * theory.FREED // 10**6),
        "reserve": exact("reserve", "1", heap.RESERVE // 2**10),
        "reserve_pages": theory.RESERVE / theory.PAGE,
        "network_to": exact("images of ResNet-18", "1", theory.network_start(theory.FREED)),
        "weight_pages": exact("pages of the weights", "1", theory.WEIGHT_PAGES),
        "many": exact("images", "1", results.MANY),
        "large": exact("images", "1", LARGE_BATCH),
    }


@study.value()
def replays(p: Paper) -> Quantity:
    return exact("sums replayed", "1", len(p.replays), "".join(p.inputs.files[:1]))


@source.mapping("percent")
def _shares(source: Source) -> dict[str, Quantity]:
    return {
        "confidence": exact("confidence, chosen", "1", CONFIDENCE),
    }


# ---------------------------------------------------------------------------------- measured


@cpu.value()
def first(run: Run) -> Quantity:
    return exact("first batch that maps pages", "1", run.mapping[0], run.file)


@cpu.value()
def smallest_compared(run: Run) -> Quantity:
    return exact("compared", "1", run.doubled[0], run.file)


@cpu.value()
def largest_compared(run: Run) -> Quantity:
    return exact("compared", "1", run.doubled[-1], run.file)


cpu.values(gain=Run.gain, batch_gain=Run.batch_gain)


cpu.values(
    measurements=Run.measurements,
    disturbed=partial(Run.measurements, disturbed=True),
    page_price=Run.page_price,
    shown=partial(Run.chosen, name="batch size shown", number=SHOWN_BATCH),
    alone=partial(Run.chosen, name="outputs beyond the heap", number=OUTPUTS_ALONE),
    mmap_alone=partial(Run.gain, policy="mmap_threshold"),
    trim_alone=partial(Run.gain, policy="trim_threshold"),
    both_raised=partial(Run.gain, policy="thresholds"),
    **{"from": results.first_mapping_batch, "always": results.all_mapping_batch},
)


@cpu.value()
def threshold(run: Run) -> Quantity:
    return run.threshold(run.timed[0])


@cpu.value()
def flat_to(run: Run) -> Quantity:
    return exact("no process maps pages", "1", results.largest_without_pages(run), run.file)


cpu.values(
    "percent",
    share_kept=partial(Run.share, batch=SHOWN_BATCH),
    share_returned=partial(Run.share, batch=SHOWN_BATCH, policy="default"),
    priced=partial(Run.priced_share, batch=SHOWN_BATCH),
    priced_least=partial(results.priced_share, choose=smallest),
    priced_most=partial(results.priced_share, choose=largest),
)
cpu.values(
    jemalloc=partial(Run.gain, policy="jemalloc"),
    slows=Run.slows,
    late_gain=Run.late_gain,
    trained=partial(Run.trained, batch=SHOWN_BATCH),
    trained_large=partial(Run.trained, batch=LARGE_BATCH),
)
study.show("second", "trained", "trained_large", "slows", "late_gain")
study.show("second", "gain", "jemalloc", "page_price", "priced_least", "priced_most")


gpu.values(
    gpu_earlier=partial(Run.image_time, batch=1),
    back_least=partial(Run.trained_counts, choose=smallest),
    back_most=partial(Run.trained_counts, choose=largest),
)
timed_gpu.values(
    gpu_single=partial(Run.image_time, batch=1),
    gpu_image=partial(Run.image_time, batch=LARGEST_BATCH),
    gpu_processes=lambda run: run.chosen("processes", len(run.timing(1))),
    gpu_largest=partial(Run.chosen, name="largest batch", number=LARGEST_BATCH),
    gpu_gain=partial(Run.batch_gain, largest=LARGEST_BATCH),
)


@study.mapping()
def _moved(p: Paper) -> dict[str, Quantity]:
    return moved.values(p.moved or (), p.edges) | cure.values(p.cured or ())


# -------------------------------------------------------------------------------------- claims


@starts.claim(
    "The cliff of three convolutions begins at the predicted image or one before",
    numbers=("start_most", "start_least"),
)
def start_predicted(moved_starts: tuple[Start, ...]) -> Iterator[Statement]:
    return moved.within_an_image(moved_starts)


@starts.claim("No process maps pages at the measured batches further below the predicted start")
def none_below(moved_starts: tuple[Start, ...]) -> Iterator[Statement]:
    return moved.below(moved_starts)


@study.claim("A linear layer maps no pages where its output is a multiple of 64 bytes")
def aligned_linear(p: Paper) -> Iterator[Statement]:
    return moved.without_pages((*(p.moved or ()), *p.edges))


@swept.claim(
    "One freed tensor ends the layer's pages up to the predicted batch, and speeds it up",
    numbers=("cured_to",),
)
def layer_cured(sweep: Sweep) -> Iterator[Statement]:
    return cure.layer_as_predicted(sweep, MARGIN)


@swept.claim("After a freed tensor ResNet-18 maps pages from the predicted batch on")
def network_predicted(sweep: Sweep) -> Iterator[Statement]:
    return cure.network_as_predicted(sweep)


@cured.claim("One freed tensor ends the pages of the MNIST CNN and speeds up its inference")
def cured_small(networks: tuple[Cure, ...]) -> Iterator[Statement]:
    return cure.cured_small(networks, MARGIN)


@cured.claim(
    "Kept memory and jemalloc speed up ResNet-18's inference, and one freed tensor does not"
)
def uncured_large(networks: tuple[Cure, ...]) -> Iterator[Statement]:
    return cure.uncured_large(networks, MARGIN)


@source.claim("The source's theoretical work and memory follow from the shapes")
def source_theory(source: Source) -> Iterator[Statement]:
    for ratio in source.theory_ratios():
        yield ratio.exactly(1)


@source.claim("The source's counted work grows in proportion to the batch size")
def linear_work(source: Source) -> Statement:
    per_image = []
    for batch, operations in source.column("III", "total_flops", "FLOP").items():
        per_image.append(operations / batch)
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
    return source.gap_growth > 0


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
    return results.without_residual(results.source_work(source).values(), source.file)


@gpu.claim("Two operations for each output element explain the counts of a GPU to the unit")
def device_work_explained(run: Run) -> Iterator[Statement]:
    return results.without_residual(results.device_work(run), run.file)


@gpu.claim("A GPU adds and multiplies once for each output element without a bias, too")
def epilogue(run: Run) -> Iterator[Statement]:
    variant = {"subject": "variant", "variant": "no bias", "pass": "forward"}
    for batch in run.levels("batch", **variant):
        for kind in ("additions", "multiplications"):
            case = {**variant, "layout": "contiguous", "batch": batch}
            count = run.repeated(f"ncu_fp32_{kind}", case)
            yield (count / (theory.OUTPUTS * int(batch))).exactly(1)


@gpu.claim("A model of PyTorch's allocator reproduces the reserved bytes of a GPU exactly")
def replays_exact(run: Run) -> Iterator[Statement]:
    return results.without_residual(allocator_replay.replays(run).values(), run.file)


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


# ------------------------------------------------------------------------------------- figures

starts.figure(height=2.6)(moved.diagonal)
swept.figure(key=True, height=3.6, rows=2)(cure.effect)
drawn.figure(height=3.4, rows=2, wide=True, same_axes=True)(figures.cliff)
cpu.figure(height=2.0, wide=True)(figures.thresholds)


# -------------------------------------------------------------------------------------- tables


@cpu.table(digits={"Block (MB)": 3, "Change (MB)": 3})
def blocks(run: Run) -> Iterator[Mapping[str, Content]]:
    for event, block in results.events(run, SHOWN_BATCH):
        yield {
            "Event": event,
            "Block (MB)": exact("block", "B", block.bytes, run.file),
            "Change (MB)": exact("change", "B", block.change, run.file),
        }


@cured.table("cure", wide=True)
def networks(cures: tuple[Cure, ...]) -> Iterator[Mapping[str, Content]]:
    for network in cures:
        yield network.row()


@study.table("items")
def source_items(p: Paper) -> Iterator[Mapping[str, Content]]:
    for item, content, answer in ITEMS:
        yield {"Item": item, "Content": content, "Answered": answer}


@study.shared_table()
def machines(p: Paper) -> Table:
    """Describe the first run of each machine."""
    first_runs = {run.stored.record.environment.label: run for run in reversed(p.runs)}
    return setup([run for run in p.runs if run in first_runs.values()])


@study.shared_table()
def explained_reserved(p: Paper) -> Table | None:
    reserved = without_idle_terms(p.reserved)
    return series_table("tbl-explained-reserved", reserved, p.source.file)
