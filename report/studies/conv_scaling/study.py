"""All that the paper of conv_scaling prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from report.evidence.allocator_replay import replays
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.machines import Comparison, setup
from report.paper.reconciliations import series_table
from report.paper.study import Content, Study
from report.quantity.evaluation import number, point
from report.quantity.expression import Quantity, absent, exact, named
from report.quantity.operations import at_least, at_most, counted_in
from report.quantity.verdicts import Statement
from report.statistics.estimates import CONFIDENCE, Estimate
from report.studies.conv_scaling import figures, reconciled, theory
from report.studies.conv_scaling.runs import Block, Run
from report.studies.conv_scaling.source import Source
from report.studies.conv_scaling.subject import SHOWN_BATCH, check_subject
from report.text.escape import markdown
from report.theory.reconciliation import Reconciliation, without_idle_terms

#: Times that differ by less than this share are no finding: runs of a machine differ by as much.
MARGIN: Final = 0.1
#: Pages follow theory within this share: the ends of blocks share pages with their neighbours.
PAGES_WITHIN: Final = 0.02
#: A batch size at which the outputs are mapped by themselves and the copy of the input is not.
OUTPUTS_ALONE: Final = 256
#: The size of a page on both CPUs.
PAGE: Final = exact("page", "B", 4096)
#: Where a shell lets the value of a variable go on in the next line of a narrow page.
_AT_COLON: Final = re.compile(r"(?<=:)(?=[a-z])")


def _uncompared(name: str) -> Quantity:
    return absent(name, "1", "no two memory policies were measured")


class Paper:
    """The runs in their roles, the source, and what leads theory to what was counted."""

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
        #: From theory to what was counted: the source, lackey, counters, and the allocator's sums.
        self.work = reconciled.source_work(self.source)
        self.reserved = reconciled.source_reserved(inputs, self.source)
        self.executed = list(reconciled.executed(self.counted)) if self.counted else []
        self.variants = reconciled.variants(self.counted) if self.counted else {}
        self.device_work = list(reconciled.device_work(self.gpu)) if self.gpu else []
        self.replays = list(replays(self.gpu).values()) if self.gpu else []


def _slowdown(run: Run) -> Quantity:
    return run.gain() if run.compares else _uncompared("slowdown")


def _reconciliations(p: Paper) -> Iterator[Reconciliation]:
    yield from p.work.values()
    yield from p.reserved.values()
    yield from p.executed
    yield from p.variants.values()
    yield from p.device_work
    yield from (each for each in p.replays if not each.explained)


study = Study(
    Paper,
    check_subject,
    Comparison(Run, "Slowdown", _slowdown, reference=1.0),
    reconciliations=_reconciliations,
)
findings = study.findings


# -------------------------------------------------------------------------------------- texts

study.texts(
    {
        "source_device": lambda p: markdown(p.inputs.reported.device),
        "source_software": lambda p: markdown(p.inputs.reported.software),
        "gpu": lambda p: markdown(p.gpu.short) if p.gpu else "",
        "cpu": lambda p: markdown(p.counted.short) if p.counted else "",
        "second": lambda p: markdown(p.second.short) if p.second else "",
        "c_library": lambda p: _c_library(p.counted),
        "settings": lambda p: _settings(p.counted),
    }
)


def _c_library(run: Run | None) -> str:
    host = run.stored.record.environment.host if run else None
    return markdown(host.c_library or "") if host else ""


def _settings(run: Run | None) -> dict[str, list[str]]:
    """The variables that set each memory policy, as a shell takes them."""
    return {
        policy.replace("_", " "): [
            _AT_COLON.sub("\\\n", f"{name}={value}") for name, value in variables.items()
        ]
        for policy, variables in (run.stored.record.protocol.variables if run else {}).items()
        if variables and policy != "traced"
    }


# ------------------------------------------------------------------------------ theory, source

study.values(
    {
        "in_channels": lambda p: theory.C_IN,
        "out_channels": lambda p: theory.C_OUT,
        "kernel": lambda p: theory.KERNEL,
        "in_extent": lambda p: theory.H_IN,
        "out_extent": lambda p: theory.H_OUT,
        "macs": lambda p: theory.multiply_adds(1),
        "parameters": lambda p: theory.PARAMETERS,
        "outputs": lambda p: theory.OUTPUTS,
        "element": lambda p: theory.ELEMENT,
        "heap_limit": lambda p: exact("largest block of the heap", "1", theory.HEAP_LIMIT >> 20),
        "source_rows": lambda p: exact("rows", "1", len(p.source.batches), p.source.file),
        "adds": lambda p: p.source.per_output(p.source.column("III", "add", "FLOP")),
        "multiplies": lambda p: p.source.per_output(p.source.column("III", "multiply", "FLOP")),
        "memory_gap": lambda p: at_least(*p.source.gap.values()),
        "page": lambda p: PAGE,
        "replays": lambda p: exact("sums replayed", "1", len(p.replays), *p.inputs.files[:1]),
    }
)


study.values(
    {
        "confidence": lambda p: exact("confidence, chosen", "1", CONFIDENCE),
        "excess_share": lambda p: p.source.excess[SHOWN_BATCH] / theory.work(SHOWN_BATCH),
    },
    "percent",
)


# ---------------------------------------------------------------------------------- measured


def _median(run: Run, name: str, quantities: list[Quantity]) -> list[Quantity]:
    """The medians alone, of which the text names the smallest and the largest."""
    found = [number(each) for each in quantities]
    values = [e.value for e in found if isinstance(e, Estimate)]
    return [exact(name, "1", value, run.file) for value in values] or [_uncompared(name)]


def _explained(run: Run) -> list[Quantity]:
    return _median(run, "explained share", [run.explained(batch) for batch in run.doubled])


def _priced(run: Run) -> list[Quantity]:
    shares = [run.priced(batch) / run.lost(batch) for batch in run.doubled]
    return _median(run, "pages ÷ added time", shares)


def _largest_without(run: Run) -> int:
    """The largest batch size at which no process maps pages, below those at which any does."""
    found = [number(run.mapping_share(batch)) for batch in run.timed]
    first = next((i for i, share in enumerate(found) if share), 1)
    return run.timed[max(first - 1, 0)]


def _from(run: Run) -> Quantity:
    """The batch size from which on outputs, copy and reserve exceed the threshold at the start."""
    arrived = run.threshold(run.timed[0]) - theory.RESERVE
    return named("images", arrived / theory.free(1))


def _always(run: Run) -> Quantity:
    """The batch size from which on outputs and reserve do."""
    arrived = run.threshold(run.timed[0]) - theory.RESERVE
    return named("images", arrived / (2 * theory.output_bytes(1)))


study.values(
    {
        "first": lambda run: exact("first batch that maps pages", "1", run.mapping[0], run.file),
        "smallest_compared": lambda run: exact("compared", "1", run.doubled[0], run.file),
        "largest_compared": lambda run: exact("compared", "1", run.doubled[-1], run.file),
        "gain": lambda run: run.gain(),
        "batch_gain": lambda run: run.time(1) / (run.time(run.doubled[-1]) / run.doubled[-1]),
        "measurements": lambda run: run.measurements(),
        "disturbed": lambda run: run.measurements(disturbed=True),
        "page_price": lambda run: run.page_price,
        "shown": lambda run: exact("batch size shown", "1", SHOWN_BATCH, run.file),
        "alone": lambda run: exact("outputs beyond the heap", "1", OUTPUTS_ALONE, run.file),
        "mmap_alone": lambda run: run.gain("mmap_threshold"),
        "trim_alone": lambda run: run.gain("trim_threshold"),
        "both_raised": lambda run: run.gain("thresholds"),
        "from": _from,
        "always": _always,
        "threshold": lambda run: run.threshold(run.timed[0]),
        "flat_to": lambda run: exact("no process maps pages", "1", _largest_without(run), run.file),
        "unmapping": lambda run: run.returning(SHOWN_BATCH, result=True) / SHOWN_BATCH,
        "added": lambda run: run.lost(SHOWN_BATCH) / SHOWN_BATCH,
    },
    of=lambda p: p.cpu,
)
study.values(
    {
        "share_kept": lambda run: run.share(SHOWN_BATCH),
        "share_returned": lambda run: run.under("default").share(SHOWN_BATCH),
        "explained": lambda run: run.explained(SHOWN_BATCH),
        "explained_least": lambda run: at_most(*_explained(run)),
        "explained_most": lambda run: at_least(*_explained(run)),
    },
    "percent",
    of=lambda p: p.cpu,
)
study.values(
    {
        "second_gain": lambda run: run.gain(),
        "second_jemalloc": lambda run: run.gain("jemalloc"),
        "second_page_price": lambda run: run.page_price,
    },
    of=lambda p: p.second,
)
study.values(
    {
        "second_priced_least": lambda run: at_most(*_priced(run)),
        "second_priced_most": lambda run: at_least(*_priced(run)),
    },
    "percent",
    of=lambda p: p.second,
)


# -------------------------------------------------------------------------------------- claims


def _counted(p: Paper) -> list[Quantity]:
    """The source's counted operations an image."""
    counted = p.source.column("III", "total_flops", "FLOP")
    return [each / batch for batch, each in counted.items()]


def _profiler_overhead(p: Paper) -> Statement:
    # An overhead of the profiler would not be the same number for each output element.
    each = [more / theory.output_bytes(batch) for batch, more in p.source.excess.items()]
    return at_least(*each) / at_most(*each) > 1


study.claims(
    {
        "source-theory": lambda p: (ratio.exactly(1) for ratio in p.source.theory_ratios()),
        "linear-work": lambda p: (at_least(*_counted(p)) / at_most(*_counted(p))).exactly(1),
        # What tensor cores do, the counters of fused multiply-adds would lack.
        "tensor-cores": lambda p: (
            at_most(*(n / theory.multiply_adds(b) for b, n in p.source.fused.items())) < 1
        ),
        "profiler-overhead": _profiler_overhead,
        # Compressed activations would leave a gap that grows with the batch.
        "compressed-memory": lambda p: p.source.gap_growth > 0,
        "upper-bound": lambda p: (gap / theory.memory(b) > 0 for b, gap in p.source.gap.items()),
        "gap-is-parameters": lambda p: (
            (gap / theory.PARAMETER_BYTES).exactly(1) for gap in p.source.gap.values()
        ),
    }
)


def _without_residual(found: Iterable[Reconciliation], source: str = "") -> Iterator[Statement]:
    """That the terms of each give what was counted, to the unit."""
    for each in found:
        if not isinstance(each.measured, Missing):
            rest = exact("residual", each.unit, each.measured.amount - each.end, source)
            yield rest.exactly(0)


def _epilogue(run: Run) -> Iterator[Statement]:
    # Without a bias, additions cannot come from it.
    variant = {"subject": "variant", "variant": "no bias", "pass": "forward"}
    for batch in run.levels("batch", **variant):
        for kind in ("additions", "multiplications"):
            case = {**variant, "layout": "contiguous", "batch": batch}
            count = run.repeated(f"ncu_fp32_{kind}", case)
            yield (count / (theory.OUTPUTS * int(batch))).exactly(1)


study.claims(
    {
        "work-explained": lambda p: _without_residual(p.work.values(), p.source.file),
        "device-work-explained": lambda p: _without_residual(p.device_work, *p.inputs.files[:1]),
    }
)
study.claims({"epilogue": _epilogue}, of=lambda p: p.gpu)
study.claims(
    {
        "replays-exact": lambda p: _without_residual(p.replays, *p.inputs.files[:1]),
        "executed-exactly": lambda p: _without_residual(p.executed, *p.inputs.files[:1]),
        "both-slower": lambda p: (run.gain() > 1 + MARGIN for run in p.both),
    }
)


def _cliff_predicted(run: Run) -> Iterator[Statement]:
    """That no process maps pages below the predicted start, and every one does above its end."""
    low, high = point(_from(run)), point(_always(run))
    if isinstance(low, Missing) or isinstance(high, Missing):
        yield _from(run) > 0
        return
    for batch in run.timed:
        if batch < low or batch > high:
            yield run.mapping_share(batch).exactly(batch > high)


def _pages_follow(run: Run) -> Iterator[Statement]:
    for batch in run.doubled[1:]:
        if batch != OUTPUTS_ALONE:
            pages = run.under("default").faults(batch) * PAGE
            yield (pages / theory.free(batch)).near(1, within=PAGES_WITHIN)


study.claims(
    {
        "one-threshold-fails": lambda run: (
            run.gain(policy) > 1 + MARGIN for policy in ("mmap_threshold", "trim_threshold")
        ),
        "cliff-predicted": _cliff_predicted,
        "pages-follow": _pages_follow,
    },
    of=lambda p: p.cpu,
)


# ------------------------------------------------------------------------------------- figures

study.figure("fig-cliff", of=lambda p: p.both, height=3.4, rows=2, wide=True, same_axes=True)(
    figures.cliff
)
study.figure("fig-thresholds", of=lambda p: p.cpu, height=2.0, wide=True)(figures.thresholds)
study.figure("fig-start", of=lambda p: p.cpu, height=2.0)(figures.start)
study.figure("fig-cost", of=lambda p: p.cpu, height=2.0)(figures.cost)


# -------------------------------------------------------------------------------------- tables


@study.table("tbl-work", rows=lambda p: p.source.batches, wide=True)
def _work(p: Paper, batch: int) -> dict[str, Content]:
    row: dict[str, Content] = {
        "Batch": batch,
        "Theory": theory.multiply_adds(batch),
        "Source, fused": p.source.fused[batch],
        "Source, excess": p.source.excess[batch],
    }
    if not p.gpu:
        return row
    fused, adds, multiplies = (
        p.gpu.repeated(f"ncu_fp32_{kind}", p.gpu.factors(batch))
        for kind in ("multiply_adds", "additions", "multiplications")
    )
    return row | {
        "Own, fused": counted_in("MAC", fused),
        "Own, additions": adds,
        "Own, multiplications": multiplies,
    }


#: What a call takes and frees, in this order.
EVENTS: Final = (
    "take the copy of the input",
    "take the copy of the weights",
    "take the output in blocks",
    "free the copy of the weights",
    "free the copy of the input",
    "take the output",
    "free the output in blocks",
    "free the output, after the call",
)


def _events(run: Run) -> list[tuple[str, Block]]:
    """The events of a call, unless another library makes others."""
    blocks = run.blocks(SHOWN_BATCH)
    return list(zip(EVENTS, blocks, strict=True)) if len(blocks) == len(EVENTS) else []


@study.table("tbl-blocks", _events, of=lambda p: p.cpu, digits={"Block (MB)": 3, "Change (MB)": 3})
def _blocks(run: Run, event: tuple[str, Block]) -> dict[str, Content]:
    what, block = event
    return {
        "Event": what,
        "Block (MB)": exact("block", "B", block.bytes, run.file),
        "Change (MB)": exact("change", "B", block.change, run.file),
    }


@study.table("tbl-memory", rows=lambda p: p.source.batches, wide=True)
def _memory(p: Paper, batch: int) -> dict[str, Content]:
    allocated = p.source.allocated[batch]
    own = p.counted.retained(batch) if p.counted else absent("bytes", "B", "no run")
    return {
        "Batch": batch,
        "Theory": theory.memory(batch),
        "Own": own,
        "Allocated": allocated,
        "Allocated − theory": allocated - theory.memory(batch),
        "Reserved": p.source.column("IV", "reserved_memory", "B")[batch],
    }


study.add_table(lambda p: setup(p.runs))
study.add_table(
    lambda p: series_table("tbl-explained-reserved", without_idle_terms(p.reserved), p.source.file)
)
study.add_table(
    lambda p: series_table(
        "tbl-variants", without_idle_terms(p.variants), *p.inputs.files[:1], factor="Variant"
    )
)
