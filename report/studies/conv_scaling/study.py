"""conv_scaling as its paper and its reports print it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.evidence import allocator_replay
from report.paper.findings import Inputs
from report.paper.machines import MachineComparison, setup, short_name
from report.paper.reconciliations import series_table
from report.paper.study import Content, Part, Study
from report.paper.tables import Table
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.operations import counted_in, largest, smallest
from report.studies.conv_scaling import figures, results, theory
from report.studies.conv_scaling.runs import Run
from report.studies.conv_scaling.source import Source
from report.studies.conv_scaling.subject import SHOWN_BATCH, check_subject
from report.theory.reconciliation import Reconciliation, without_idle_terms

#: Times that differ by less than this share are no finding: runs of a machine differ by as much.
MARGIN: Final = 0.1
#: Where a shell lets the value of a variable go on in the next line of a narrow page.
_AT_COLON: Final = re.compile(r"(?<=:)(?=[a-z])")


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
        self.both = [run for run in (self.cpu, self.second) if run]
        self.work = results.source_work(self.source)
        self.reserved = results.source_reserved(inputs, self.source)
        self.variants = results.variants(self.counted) if self.counted else {}
        self.replays = list(allocator_replay.replays(self.gpu).values()) if self.gpu else []

    def reconciliations(self) -> Iterator[Reconciliation]:
        """Yield those of the source, of lackey, of counters and of the allocator's sums."""
        yield from self.work.values()
        yield from self.reserved.values()
        if self.counted:
            yield from results.executed(self.counted)
        yield from self.variants.values()
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
pair: Part[list[Run]] = study.part("both", "pair")


# -------------------------------------------------------------------------------------- texts


@study.text()
def source_device(p: Paper) -> str:
    return markdown(p.inputs.reported.device)


@study.text()
def source_software(p: Paper) -> str:
    return markdown(p.inputs.reported.software)


gpu.texts(gpu=short_name)
counted.texts(cpu=short_name)
second.texts(second=short_name)


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
        "heap_limit": exact("largest block of the heap", "1", theory.HEAP_LIMIT >> 20),
        "source_rows": exact("rows", "1", len(source.batches), source.file),
        "adds": source.per_output(source.column("III", "add", "FLOP")),
        "multiplies": source.per_output(source.column("III", "multiply", "FLOP")),
        "memory_gap": largest(*source.gap.values()),
        "page": results.PAGE,
        "cured_to": theory.last_without_pages(theory.FREED),
        "cured_from": theory.first_with_pages(theory.FREED),
    }


@study.value()
def replays(p: Paper) -> Quantity:
    return exact("sums replayed", "1", len(p.replays), "".join(p.inputs.files[:1]))


@source.mapping("percent")
def _shares(source: Source) -> dict[str, Quantity]:
    return {
        "confidence": exact("confidence, chosen", "1", CONFIDENCE),
        "excess_share": source.excess[SHOWN_BATCH] / theory.work(SHOWN_BATCH),
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


cpu.values(gain=Run.gain)


@cpu.value()
def batch_gain(run: Run) -> Quantity:
    largest = run.doubled[-1]
    return run.time(1) / (run.time(largest) / largest)


cpu.values(
    measurements=Run.measurements,
    disturbed=partial(Run.measurements, disturbed=True),
    page_price=Run.page_price,
    shown=partial(Run.chosen, name="batch size shown", number=SHOWN_BATCH),
    alone=partial(Run.chosen, name="outputs beyond the heap", number=results.OUTPUTS_ALONE),
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


@cpu.value()
def unmapping(run: Run) -> Quantity:
    return run.returning(SHOWN_BATCH, result=True) / SHOWN_BATCH


@cpu.value()
def added(run: Run) -> Quantity:
    return run.lost(SHOWN_BATCH) / SHOWN_BATCH


cpu.values(
    "percent",
    share_kept=partial(Run.share, batch=SHOWN_BATCH),
    share_returned=partial(Run.share, batch=SHOWN_BATCH, policy="default"),
    explained=partial(Run.explained, batch=SHOWN_BATCH),
    explained_least=partial(results.explained_share, choose=smallest),
    explained_most=partial(results.explained_share, choose=largest),
)
cpu.values(jemalloc=partial(Run.gain, policy="jemalloc"))
cpu.values(
    "percent",
    priced_least=partial(results.priced_share, choose=smallest),
    priced_most=partial(results.priced_share, choose=largest),
)
study.show("second", "gain", "jemalloc", "page_price", "priced_least", "priced_most")


# -------------------------------------------------------------------------------------- claims


@source.claim("The source's theoretical work and memory follow from the shapes")
def source_theory(source: Source) -> Iterator[Statement]:
    for ratio in source.theory_ratios():
        yield ratio.exactly(1)


@source.claim("The source's counted work grows in proportion to the batch size")
def linear_work(source: Source) -> Statement:
    per_image = [
        operations / batch
        for batch, operations in source.column("III", "total_flops", "FLOP").items()
    ]
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


@pair.claim("Returning freed memory slows a call by more than a tenth, on both CPUs")
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


@cpu.claim("The cliff begins at the batch size that one threshold and the blocks predict")
def cliff_predicted(run: Run) -> Iterator[Statement]:
    return results.starts_as_predicted(run)


@cpu.claim("A call maps the pages of two outputs and a copy of the input, within 2 %")
def pages_follow(run: Run) -> Iterator[Statement]:
    return results.pages_as_predicted(run)


# ------------------------------------------------------------------------------------- figures

drawn.figure(key=True, height=3.4, rows=2, wide=True, same_axes=True)(figures.cliff)
cpu.figure(height=2.0, wide=True)(figures.thresholds)
cpu.figure(height=2.0)(figures.start)
cpu.figure(height=2.0)(figures.cost)


# -------------------------------------------------------------------------------------- tables


@study.table(wide=True)
def work(p: Paper) -> Iterator[Mapping[str, Content]]:
    for batch in p.source.batches:
        row: dict[str, Content] = {
            "Batch": batch,
            "Theory": theory.multiply_adds(batch),
            "Source, fused": p.source.fused[batch],
            "Source, excess": p.source.excess[batch],
        }
        if p.gpu:
            factors = p.gpu.factors(batch)
            fused = p.gpu.repeated("ncu_fp32_multiply_adds", factors)
            row["Own, fused"] = counted_in("MAC", fused)
            row["Own, additions"] = p.gpu.repeated("ncu_fp32_additions", factors)
            row["Own, multiplications"] = p.gpu.repeated("ncu_fp32_multiplications", factors)
        yield row


@cpu.table(digits={"Block (MB)": 3, "Change (MB)": 3})
def blocks(run: Run) -> Iterator[Mapping[str, Content]]:
    for event, block in results.events(run, SHOWN_BATCH):
        yield {
            "Event": event,
            "Block (MB)": exact("block", "B", block.bytes, run.file),
            "Change (MB)": exact("change", "B", block.change, run.file),
        }


@study.table(digits={"Tensor (MB)": 3, "Threshold (MB)": 3})
def cure(p: Paper) -> Iterator[Mapping[str, Content]]:
    """The batch sizes at which processes begin to map pages, by the tensor that is freed before."""
    for elements in (theory.FREED // 8, theory.FREED // 4, theory.FREED // 2, theory.FREED):
        yield {
            "Tensor (MB)": exact("freed tensor", "B", 4 * elements),
            "Threshold (MB)": theory.raised_threshold(elements),
            "No process up to": theory.last_without_pages(elements),
            "Every process from": theory.first_with_pages(elements),
        }


@study.table(wide=True)
def memory(p: Paper) -> Iterator[Mapping[str, Content]]:
    reserved = p.source.column("IV", "reserved_memory", "B")
    for batch, allocated in p.source.allocated.items():
        own = p.counted.retained(batch) if p.counted else absent("bytes", "B", "no run")
        yield {
            "Batch": batch,
            "Theory": theory.memory(batch),
            "Own": own,
            "Allocated": allocated,
            "Allocated − theory": allocated - theory.memory(batch),
            "Reserved": reserved[batch],
        }


@study.shared_table()
def machines(p: Paper) -> Table:
    return setup(p.runs)


@study.shared_table()
def explained_reserved(p: Paper) -> Table | None:
    reserved = without_idle_terms(p.reserved)
    return series_table("tbl-explained-reserved", reserved, p.source.file)


@study.shared_table()
def variants(p: Paper) -> Table | None:
    reconciled = without_idle_terms(p.variants)
    return series_table("tbl-variants", reconciled, *p.inputs.files[:1], factor="Variant")
