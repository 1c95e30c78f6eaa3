"""Results of conv_profiling: counts explained term by term, and ratios of times."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Final

from report.core.missing import Missing
from report.core.records.record import Policy
from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.evidence import executed
from report.evidence.audit import Check
from report.paper.findings import Inputs
from report.quantity.evaluation import estimate, point_estimate, printed_number
from report.quantity.expression import Quantity, Statement, exact_number
from report.quantity.operations import geometric_mean, range_over
from report.quantity.verdicts import verdict_of
from report.studies.conv_profiling import subject, theory
from report.studies.conv_profiling.runs import NATIVE, ProfiledCall, Run, tile_of
from report.studies.conv_profiling.source import CONVOLUTION, KIB, WORKSPACE, audit, operator_cell
from report.studies.conv_profiling.subject import INPUTS, OUTPUTS, Dimensions, small_shape
from report.theory import terms
from report.theory.reconciliation import Reconciliation, Term

#: Relative difference up to which times count as equal.
MARGIN: Final = 0.1
#: Call → its reconciliation: counted operations as a sum of theory's operations and further terms.
Reconciled = Mapping[ProfiledCall, Reconciliation]
#: Pairs of shapes whose times are compared.
Pairs = tuple[tuple[Dimensions, Dimensions], ...]


class Paper:
    """Runs in their roles (None if missing), the source's numbers, and reconciled counts."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.reported, self.file = inputs, inputs.reported, inputs.reported_file
        self.device = markdown(inputs.reported.device)
        #: Bytes that the source's convolution allocates besides its output.
        self.workspace = self.printed("self_allocation_size", WORKSPACE)
        by_role = inputs.runs(Run)
        self.runs = tuple(by_role.values())
        self.cpu, self.second, self.gpu, self.newer, self.older, self.threaded = (
            by_role.get(role) for role in ("cpu", "second", "gpu", "fifth", "sixth", "seventh")
        )
        batch = subject.SOURCE_BATCH
        #: The first run that counted a GPU's operations with TF32 on.
        self.tf32 = next((r for r in self.runs if not r.seen_operations(batch).missing), None)
        #: The first run that timed calls.
        timed_runs = (r for r in self.runs if not r.time(subject.EXAMPLE_SHAPE, "AVX2").missing)
        self.timed = next(timed_runs, None)
        #: Counted operations per call; on a GPU only for calls whose kernel names its tile.
        self.cpu_counts = reconcile_cpu(self.cpu) if self.cpu else {}
        self.second_counts = reconcile_cpu(self.second) if self.second else self.cpu_counts
        self.changed_counts = select_calls("changed", self.second_counts)
        self.gpu_counts = reconcile_gpu(inputs, self.gpu) if self.gpu else {}
        counts_with_tf32 = reconcile_gpu(inputs, self.tf32) if self.tf32 else {}
        self.tf32_counts = select_calls("held_out", counts_with_tf32)

    def printed(self, column: str, operator: str = CONVOLUTION) -> Quantity:
        """Return a size of the source's operator table (B)."""
        size = KIB * operator_cell(self.reported, operator, column)
        return exact_number(f"source: {column.replace('_', ' ')}", "B", size, self.file)

    def audit(self) -> tuple[Check, ...]:
        """Return the checks of the source's numbers."""
        return tuple(audit(self.reported))

    def reconciliations(self) -> Iterator[Reconciliation]:
        """Yield all reconciliations of the paper."""
        for counts in (self.cpu_counts, self.second_counts, self.gpu_counts, self.tf32_counts):
            yield from counts.values()


def reconcile_cpu(run: Run) -> dict[ProfiledCall, Reconciliation]:
    """Reconcile the multiply-adds of each call, counted by Valgrind's Lackey on one thread."""
    build = run.stored.record.environment.torch.build
    calls = {call.name: call for call in run.calls}
    factors = {name: call.factors() for name, call in calls.items()}
    results: dict[ProfiledCall, Reconciliation] = {}
    for name, count in executed.count_by_level(run, factors).items():
        call = calls[name]
        layer = call.shape.layer(call.batch)
        id = f"executed-{run.key}-{call.shape.key}-{call.batch}"
        title, theory = f"Executed multiply-adds of {name} on {run.label}", terms.theory_macs(layer)
        further = terms.executed_terms(layer, build)
        results[call] = executed.reconcile_executed(id, title, theory, *count, *further)
    return results


def reconcile_gpu(inputs: Inputs, run: Run) -> dict[ProfiledCall, Reconciliation]:
    """Reconcile the operations of each call on a GPU whose kernel has a tile in its name."""
    results: dict[ProfiledCall, Reconciliation] = {}
    evidence = "the tile in the kernel's name"
    for call in run.calls:
        counted = printed_number(run.cuda_core_operations(call.factors()))
        if not isinstance(counted, int) or (tile := tile_of(inputs, run, call)) is None:
            continue
        layer = call.shape.layer(call.batch)
        id = f"tiled-{run.key}-{call.shape.key}-{call.batch}"
        title = f"Operations of {call.name} on {run.label}"
        further = (
            terms.as_flops(terms.tile_padding(layer, tile, evidence)),
            terms.tile_epilogue(layer, tile, evidence),
            terms.bias_kernel(layer, "the kernel that adds the bias"),
        )
        formula = "additions + multiplications + 2 · fused"
        measured = Term("Counted", counted, formula, "Nsight Compute")
        theory = terms.as_flops(terms.theory_macs(layer))
        results[call] = Reconciliation(id, title, "FLOP", theory, further, measured)
    return results


def select_calls(subject: str, counts: Reconciled) -> dict[ProfiledCall, Reconciliation]:
    """Select the calls with a subject: ``layer``, ``held_out`` or ``changed``."""
    return {call: count for call, count in counts.items() if call.subject == subject}


def ratio_to_theory(run: Run, counts: Reconciliation) -> Quantity:
    """Divide the operations that a run counted by the operations of theory."""
    theory_operations = exact_number("theory", counts.unit, counts.start.amount)
    return counted_operations(run, counts) / theory_operations


def counted_operations(run: Run, counts: Reconciliation) -> Quantity:
    """Return the operations that a run counted, from their reconciliation with theory."""
    return exact_number("recorded", counts.unit, counts.measured.amount, run.file)


def sums_are_exact(run: Run | None, counts: Iterable[Reconciliation]) -> Iterator[Statement]:
    """State for each reconciliation that its terms add up exactly to the counted number."""
    for count in counts:
        yield executed.residual(count, run.file if run else "").exactly(0)


def ratio_of_times(
    run: Run, shape: Dimensions, reference: Dimensions, instructions: str = "AVX2"
) -> Quantity:
    """Divide the time of a call on one shape by the time on a ``reference`` shape."""
    return run.time(shape, instructions) / run.time(reference, instructions)


def mean_ratio(run: Run, pairs: Pairs, instructions: str = "AVX2") -> Quantity:
    """Return the geometric mean of the ratios of times of several pairs of shapes."""
    return geometric_mean(*(ratio_of_times(run, *pair, instructions) for pair in pairs))


def pooled_ratio(run: Run, instructions: str = "AVX2") -> Quantity:
    """Divide times with 17 output channels by times with 16; bounds span pooled and single runs."""
    runs = (run, *run.single_runs)
    return range_over(*(mean_ratio(item, SEVENTEEN_SIXTEEN, instructions) for item in runs))


def avx2_step_to_native(run: Run, pair: tuple[Dimensions, Dimensions]) -> Quantity:
    """Divide the ratio of a pair's times with AVX2 by their ratio with all instructions."""
    return ratio_of_times(run, *pair) / ratio_of_times(run, *pair, NATIVE)


def widened_ratio(run: Run, policy: Policy = "retained") -> Quantity:
    """Divide the time of the example with one more input and output channel by its own time."""
    widened, example = (shape.factors(subject.TIMED_BATCH) for shape in WIDENED_PAIR[0])
    run = run.under_policy(policy)
    return run.series("time", widened) / run.series("time", example)


#: Shapes that differ by one block of output channels; a line through their times predicts the time
#: of every small shape from its work.
SHAPES_OF_LINE: Final = small_shape(8, 17), small_shape(8, 16)
#: Pairs of shapes that differ in their input or in their output channels.
NINE_SIXTEEN: Final = tuple((small_shape(9, n), small_shape(16, n)) for n in OUTPUTS)
NINE_EIGHT: Final = tuple((small_shape(9, n), small_shape(8, n)) for n in OUTPUTS)
SEVENTEEN_SIXTEEN: Final = tuple((small_shape(n, 17), small_shape(n, 16)) for n in INPUTS)
TWENTY_FIFTH: Final = tuple((small_shape(n, 25), small_shape(n, 24)) for n in INPUTS)
WIDENED_PAIR: Final = ((subject.WIDENED_SHAPE, subject.EXAMPLE_SHAPE),)
#: Name of a value → words in a table, and pairs of shapes whose times are compared.
COMPARED: Final[dict[str, tuple[str, Pairs]]] = {
    "seventeen": ("outputs, 17 ÷ 16", SEVENTEEN_SIXTEEN),
    "twenty_fifth": ("outputs, 25 ÷ 24", TWENTY_FIFTH),
    "wider": ("33→65 ÷ 32→64", WIDENED_PAIR),
    "filled": ("33→65 ÷ 40→72", ((subject.WIDENED_SHAPE, subject.FULL_BLOCKS_OF_8),)),
    "filled_sixteen": ("33→65 ÷ 48→80", ((subject.WIDENED_SHAPE, subject.FULL_BLOCKS_OF_16),)),
    "full": ("40→72 ÷ 32→64", ((subject.FULL_BLOCKS_OF_8, subject.EXAMPLE_SHAPE),)),
    "nine_eight": ("inputs, 9 ÷ 8", NINE_EIGHT),
    "nine_sixteen": ("inputs, 9 ÷ 16", NINE_SIXTEEN),
}


def table_rows() -> Iterator[tuple[str, Pairs, str]]:
    """Yield the words, the pairs of shapes and the instructions of each row of a table of times."""
    for name, pairs in COMPARED.values():
        for instructions in subject.INSTRUCTIONS:
            yield name, pairs, instructions


def equals_work_in_blocks(run: Run, pairs: Pairs, instructions: str) -> Statement:
    """State that the ratio of times equals the ratio of work in blocks to within 10 %."""
    work_ratio = theory.work_ratio(*pairs[0], run.block(instructions))
    return (mean_ratio(run, pairs, instructions) / work_ratio).near(1, MARGIN)


def exceeds_formula(run: Run, pairs: Pairs, instructions: str) -> Statement:
    """State that the ratio of times is larger than the ratio of work by the usual formula."""
    return mean_ratio(run, pairs, instructions) / theory.work_ratio(*pairs[0], 1) > 1


def answer_text(statement: Statement) -> str:
    """Return whether the statement holds: yes or no, with a confidence level below 95 %.

    The whole interval, rounded to four digits, must agree; otherwise the answer is undecided.
    With a missing quantity, or values from one process only, returns the statement's verdict.
    """
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
    """Return the share of the time of 8→16 that a call without work would take.

    A line through the times of 8→16 and 8→17 against their work in blocks gives this time.
    """
    work = theory.work_ratio(*SHAPES_OF_LINE, run.block(instructions))
    return 1 - (ratio_of_times(run, *SHAPES_OF_LINE, instructions) - 1) / (work - 1)


def largest_factor_from_line(run: Run, instructions: str) -> Quantity:
    """Return the largest factor (at least 1) between a small shape's time and the fitted line."""
    fixed, factors = fixed_share(run, instructions), [1.0]
    for shape in subject.SMALL_SHAPES:
        work = theory.work_ratio(shape, SHAPES_OF_LINE[1], run.block(instructions))
        time = ratio_of_times(run, shape, SHAPES_OF_LINE[1], instructions)
        factor = point_estimate(time / (fixed + work * (1 - fixed)))
        if not isinstance(factor, Missing):
            factors += factor, 1 / factor
    return exact_number("furthest from the line", "1", max(factors), run.file)


def ratios_in_same_blocks(run: Run) -> list[Quantity]:
    """Return the ratio of times of each two shapes that fill the same blocks, per instructions."""
    ratios = []
    for instructions in subject.INSTRUCTIONS:
        block = run.block(instructions)
        for reference, shape in combinations((*subject.SMALL_SHAPES, *subject.EXAMPLE_SHAPES), 2):
            if theory.in_blocks(shape, block) == theory.in_blocks(reference, block):
                ratios.append(ratio_of_times(run, shape, reference, instructions))
    return ratios
