"""Results of conv_profiling: records led back to theory term by term, and ratios of times."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Final

from report.core.missing import Missing
from report.core.records.record import Policy
from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.evidence import executed as counted_work
from report.evidence.audit import Check
from report.evidence.executed import residual
from report.paper.findings import Inputs
from report.quantity.evaluation import estimate, number, point
from report.quantity.expression import Quantity, Statement, exact, recorded
from report.quantity.operations import geometric_mean, spanning
from report.quantity.verdicts import verdict_of
from report.studies.conv_profiling import subject, theory
from report.studies.conv_profiling.runs import NATIVE, ProfiledCall, Run, tile_of
from report.studies.conv_profiling.source import CONVOLUTION, KIB, WORKSPACE, audit, operator_cell
from report.studies.conv_profiling.subject import Dimensions, small
from report.theory import terms
from report.theory.reconciliation import Reconciliation, Term

#: Times that differ by less than this share are taken for equal.
MARGIN: Final = 0.1
#: Calls that were reconciled with theory.
Reconciled = Mapping[ProfiledCall, Reconciliation]
#: Pairs of calls whose times are compared.
Pairs = tuple[tuple[Dimensions, Dimensions], ...]


class Paper:
    """Runs in their roles, the source, and reconciliations of theory with records."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.reported, self.file = inputs, inputs.reported, inputs.reported_file
        self.device = markdown(inputs.reported.device)
        #: Bytes that the source's convolution allocates beside its output.
        self.workspace = self.printed("self_allocation_size", WORKSPACE)
        runs = inputs.runs(Run)
        self.runs = tuple(runs.values())
        self.cpu, self.second, self.gpu, self.newer, self.older, self.threaded = (
            runs.get(role) for role in ("cpu", "second", "gpu", "fifth", "sixth", "seventh")
        )
        #: Run on a GPU with TF32 on, and one with times, which may be in other records.
        self.tf32 = next((r for r in self.runs if not r.seen(subject.SHOWN_BATCH).missing), None)
        self.timed = next((r for r in self.runs if not r.time(subject.BASE, "AVX2").missing), None)
        self.counts = executed(self.cpu) if self.cpu else {}
        #: The run that counted shapes with changed channels.
        self.changed_run = self.second or self.cpu
        self.second_counts = executed(self.second) if self.second else self.counts
        self.changed = calls_of("changed", self.second_counts)
        self.tiled = tiled(inputs, self.gpu) if self.gpu else {}
        self.held_tiled = calls_of("held_out", tiled(inputs, self.tf32)) if self.tf32 else {}

    def printed(self, column: str, operator: str = CONVOLUTION) -> Quantity:
        """Return a size of the source's operator table (B)."""
        size = KIB * operator_cell(self.reported, operator, column)
        return exact(f"source: {column.replace('_', ' ')}", "B", size, self.file)

    def audit(self) -> tuple[Check, ...]:
        """Return the checks of the source's numbers."""
        return tuple(audit(self.reported))

    def reconciliations(self) -> Iterator[Reconciliation]:
        """Yield all reconciliations of the paper."""
        for calls in (self.counts, self.second_counts, self.tiled, self.held_tiled):
            yield from calls.values()


def executed(run: Run) -> dict[ProfiledCall, Reconciliation]:
    """Reconcile the multiply-adds that lackey counted on one thread with rules, by forward call."""
    build = run.stored.record.environment.torch.build
    calls = {call.name: call for call in run.calls}
    counted = counted_work.count_by_level(
        run, {name: call.factors() for name, call in calls.items()}
    )
    results: dict[ProfiledCall, Reconciliation] = {}
    for name, count in counted.items():
        call = calls[name]
        results[call] = counted_work.reconcile_executed(
            f"executed-{run.key}-{call.shape.key}-{call.batch}",
            f"Executed multiply-adds of {name} on {run.label}",
            terms.theory_macs(call.shape.layer(call.batch)),
            *count,
            *terms.executed_terms(call.shape.layer(call.batch), 1, build, terms.COUNTED_WIDTH),
        )
    return results


def tiled(inputs: Inputs, run: Run) -> dict[ProfiledCall, Reconciliation]:
    """Reconcile the operations of forward calls on a GPU whose kernel names its tile."""
    results: dict[ProfiledCall, Reconciliation] = {}
    evidence = "the tile in the kernel's name"
    for call in run.calls:
        tile, layer = tile_of(inputs, run, call), call.shape.layer(call.batch)
        counted = number(run.counted(call.factors()))
        if tile is None or not isinstance(counted, int):
            continue
        results[call] = Reconciliation(
            f"tiled-{run.key}-{call.shape.key}-{call.batch}",
            f"Operations of {call.name} on {run.label}",
            "FLOP",
            terms.as_flops(terms.theory_macs(layer)),
            (
                terms.as_flops(terms.tile_padding(layer, tile, evidence)),
                terms.tile_epilogue(layer, tile, evidence),
                terms.bias_kernel(layer, "the kernel that adds the bias"),
            ),
            Term("Counted", counted, "additions + multiplications + 2 · fused", "Nsight Compute"),
        )
    return results


def calls_of(kind: str, calls: Reconciled) -> dict[ProfiledCall, Reconciliation]:
    """Select the calls of one kind of shape: ``layer``, ``held_out`` or ``changed``."""
    return {call: result for call, result in calls.items() if call.subject == kind}


def over_theory(run: Run, r: Reconciliation) -> Quantity:
    """Divide the count that a run recorded by theory."""
    return recorded_in(run, r) / exact("theory", r.unit, r.start.amount)


def recorded_in(run: Run, r: Reconciliation) -> Quantity:
    """Return the count that a run recorded, as in its reconciliation ``r``."""
    amount = r.measured if isinstance(r.measured, Missing) else r.measured.amount
    return recorded("recorded", r.unit, amount, run.file)


def without_residual(run: Run | None, items: Iterable[Reconciliation]) -> Iterator[Statement]:
    """State that the terms of each reconciliation add up to the recorded number, to the unit."""
    for item in items:
        yield residual(item, run.file if run else "").exactly(0)


def ratio_of_times(
    run: Run, over: Dimensions, under: Dimensions, instructions: str = "AVX2"
) -> Quantity:
    """Divide the times of two calls, process by process."""
    return run.time(over, instructions) / run.time(under, instructions)


def mean_ratio(run: Run, pairs: Pairs, instructions: str = "AVX2") -> Quantity:
    """Geometric mean of the ratios of times of pairs of calls."""
    return geometric_mean(*(ratio_of_times(run, *pair, instructions) for pair in pairs))


def spread(run: Run, instructions: str = "AVX2") -> Quantity:
    """Ratio of seventeen to sixteen outputs, with the bounds of the intervals of all runs."""
    runs = (run, *run.single_runs)
    return spanning(*(mean_ratio(one, SEVENTEEN_SIXTEEN, instructions) for one in runs))


def step_over_native(run: Run, pair: tuple[Dimensions, Dimensions]) -> Quantity:
    """Divide a ratio of times with AVX2 by the same ratio with all instructions."""
    return ratio_of_times(run, *pair) / ratio_of_times(run, *pair, NATIVE)


def wider(run: Run, policy: Policy = "retained") -> Quantity:
    """Time with one channel more on both sides of the example, over the example's time."""
    over, under = (shape.factors(subject.FEW_IMAGES) for shape in WIDER[0])
    run = run.under_policy(policy)
    return run.series("time", over) / run.series("time", under)


#: Calls that differ by one block of outputs, through whose times a line is drawn.
ON_LINE: Final = small(8, 17), small(8, 16)
NINE_SIXTEEN: Final = tuple((small(9, n), small(16, n)) for n in subject.OUTPUTS)
SEVENTEEN_SIXTEEN: Final = tuple((small(n, 17), small(n, 16)) for n in subject.INPUTS)
TWENTY_FIFTH: Final = tuple((small(n, 25), small(n, 24)) for n in subject.INPUTS)
WIDER: Final = ((subject.PADDED, subject.BASE),)
#: Value of the text → words in a table, and pairs of calls whose times are compared.
COMPARED: Final[dict[str, tuple[str, Pairs]]] = {
    "seventeen": ("outputs, 17 ÷ 16", SEVENTEEN_SIXTEEN),
    "twenty_fifth": ("outputs, 25 ÷ 24", TWENTY_FIFTH),
    "wider": ("33→65 ÷ 32→64", WIDER),
    "filled": ("33→65 ÷ 40→72", ((subject.PADDED, subject.FULL_EIGHT),)),
    "filled_sixteen": ("33→65 ÷ 48→80", ((subject.PADDED, subject.FULL_SIXTEEN),)),
    "full": ("40→72 ÷ 32→64", ((subject.FULL_EIGHT, subject.BASE),)),
    "nine_eight": ("inputs, 9 ÷ 8", tuple((small(9, n), small(8, n)) for n in subject.OUTPUTS)),
    "nine_sixteen": ("inputs, 9 ÷ 16", NINE_SIXTEEN),
}


def table_rows() -> Iterator[tuple[str, Pairs, str]]:
    """Yield the name, the pairs of calls and the instructions of each row of the table of times."""
    for name, pairs in COMPARED.values():
        for instructions in subject.INSTRUCTIONS:
            yield name, pairs, instructions


def as_blocks(run: Run, pairs: Pairs, instructions: str) -> Statement:
    """State that times differ as the work in blocks does, within a tenth."""
    blocks = theory.work_ratio(*pairs[0], run.block(instructions))
    return (mean_ratio(run, pairs, instructions) / blocks).near(1, MARGIN)


def above_formula(run: Run, pairs: Pairs, instructions: str) -> Statement:
    """State that times differ by a larger factor than the usual formula says."""
    return mean_ratio(run, pairs, instructions) / theory.work_ratio(*pairs[0], 1) > 1


def answer(statement: Statement) -> str:
    """Answer a question by the whole interval, to four digits, with its level if that is low."""
    result = estimate(statement.quantity)
    if isinstance(result, Missing) or statement.from_one_process:
        return verdict_of(statement)
    low, high = (float(f"{end:.4g}") for end in (result.low, result.high))
    result = replace(result, low=low, high=high)
    level = f" ({100 * result.confidence:.0f} %)" if result.confidence < CONFIDENCE else ""
    if statement.range.holds(result):
        return f"yes{level}"
    return f"no{level}" if statement.range.excludes(result) else "undecided"


def fixed_share(run: Run, instructions: str) -> Quantity:
    """Share of the time of 8→16 that remains without work, by the line through it and 8→17."""
    work = theory.work_ratio(*ON_LINE, run.block(instructions))
    return 1 - (ratio_of_times(run, *ON_LINE, instructions) - 1) / (work - 1)


def off_line(run: Run, instructions: str) -> Quantity:
    """Largest factor between the median time of a small call and the line's, either way."""
    fixed, factors = fixed_share(run, instructions), [1.0]
    for shape in subject.CHANNELS:
        work = theory.work_ratio(shape, ON_LINE[1], run.block(instructions))
        time = ratio_of_times(run, shape, ON_LINE[1], instructions)
        factor = point(time / (fixed + work * (1 - fixed)))
        if not isinstance(factor, Missing):
            factors += factor, 1 / factor
    return exact("furthest from the line", "1", max(factors), run.file)


def all_same_blocks(run: Run) -> list[Quantity]:
    """Ratios of times of any two calls that fill the same blocks, for both widths of vectors."""
    quotients = []
    for instructions in subject.INSTRUCTIONS:
        block = run.block(instructions)
        for under, over in combinations((*subject.CHANNELS, *subject.WIDENED), 2):
            if theory.in_blocks(over, block) == theory.in_blocks(under, block):
                quotients.append(ratio_of_times(run, over, under, instructions))
    return quotients
