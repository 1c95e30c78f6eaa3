"""Results of inference_memory: rules compared under limits of memory, and peaks per setting."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias

from report.paper.findings import Inputs
from report.quantity.expression import Quantity, Statement, exact_number, missing_number
from report.studies.inference_memory import subject, theory
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import Baseline, Call, OperatorBytes, TableLimit
from report.studies.inference_memory.theory import RULES, SEARCHES, BatchRule, Search

#: Function that reads a table by its file name and the type of its rows (``Inputs.table``).
TableReader: TypeAlias = Callable[[str, type[Any]], tuple[Any, ...]]


class Prediction(NamedTuple):
    """A row of a table of limits, and the batch that a rule predicts for the limit."""

    row: TableLimit
    batch: int


class LimitKind(NamedTuple):
    """Limits on one kind of processor in inference or training, and the rules to compare there."""

    name: str
    tables: subject.LimitTables
    rules: Sequence[BatchRule]
    mode: subject.CallMode = "inference"


#: Prefix of the names of values → kind of limits.
LIMIT_KINDS: Final = {
    "rule": LimitKind("AVX2", subject.AVX2_TABLES, tuple(RULES)),
    "wide": LimitKind("AVX-512", subject.AVX512_TABLES, tuple(RULES)),
    "training": LimitKind("AVX2, training", subject.AVX2_TABLES, ("count",), "training"),
    "gpu": LimitKind("GPU", subject.GPU_TABLES, ("count", "estimator")),
    "gpu_training": LimitKind("GPU, training", subject.GPU_TABLES, ("count",), "training"),
}


def _table_number(name: str, value: float, has_rows: bool, *tables: str) -> Quantity:
    """Return a number that follows from tables; it is missing unless the tables have rows."""
    first, *others = (f"inference_memory/{table}" for table in tables)
    if not has_rows:
        return missing_number(name, "1", f"{first} is not in the data directory")
    return exact_number(name.replace("_", " "), "1", value, first, tuple(others))


class RuleComparison:
    """Predictions of rules and the batches that ran, under the limits of one kind."""

    def __init__(self, read_table: TableReader, kind: LimitKind) -> None:
        """Apply the rules of ``kind`` to its limits, except to limits of our own networks."""
        self._kind, tables = kind, kind.tables
        self.baselines = {row.network: row for row in read_table(tables.baselines, Baseline)}
        self.operators: dict[str, list[OperatorBytes]] = defaultdict(list)
        for operator in read_table(tables.operators, OperatorBytes):
            self.operators[operator.network].append(operator)
        self.predictions: dict[BatchRule, list[Prediction]] = defaultdict(list)
        self.limits_of_our_networks: list[TableLimit] = []
        for row in read_table(tables.limits, TableLimit):
            operators, baseline = self.operators[row.network], self.baselines.get(row.network)
            if row.mode == kind.mode and row.network.startswith(subject.OUR_NETWORKS_PREFIX):
                self.limits_of_our_networks.append(row)
            elif row.mode == kind.mode and baseline:
                limit, counted_batch = row.limit_bytes, row.predicted_batch
                batches = theory.batches_by_rule(baseline, operators, limit, counted_batch)
                for rule in batches.keys() & kind.rules:
                    self.predictions[rule].append(Prediction(row, batches[rule]))
        self.limits = [prediction.row for prediction in self.predictions["count"]]

    def ratios(self, rule: BatchRule) -> list[float]:
        """Divide a rule's batch by the largest batch that ran, for each limit; sorted."""
        return sorted(batch / row.largest_batch for row, batch in self.predictions[rule])

    def excesses(self, rule: BatchRule) -> list[int]:
        """Subtract the largest batch that ran from a rule's batch, for each limit."""
        return [batch - row.largest_batch for row, batch in self.predictions[rule]]

    def test_runs(self) -> dict[Search, list[int]]:
        """Count every search's test runs under each limit; a missing prediction counts as right."""
        runs: dict[Search, list[int]] = {search: [] for search in SEARCHES}
        predictions = {rule: dict(self.predictions[rule]) for rule in theory.LINE_SEARCHES}
        for row in self.limits:
            guesses: dict[str, int] = {}
            for rule, batch_by_row in predictions.items():
                guesses[rule] = batch_by_row.get(row, row.largest_batch)
            largest, counted = row.largest_batch, row.predicted_batch
            counts = theory.runs_of_searches(largest, count=counted, **guesses)
            for search, count in counts.items():
                runs[search].append(count)
        return runs

    def _count_explained_lines(self) -> Counter[str]:
        """Count the lines through 2 and 4 images whose two peaks the bytes at operators explain.

        A line is ``explained`` if the most bytes at an operator equal the measured peak, for 2 and
        for 4 images.  An explained line is ``changed`` if the largest batch that ran has its peak
        at another operator than 2 images.  ``over``: the line predicts too much; else ``right``.
        """
        counts = Counter(explained_over=0, changed_over=0, explained_right=0, changed_right=0)
        for row, batch in self.predictions["line"]:
            operators, peaks = self.operators[row.network], self.baselines[row.network].peaks
            if not operators:
                continue
            at_2, at_4 = (theory.operator_at_peak(operators, batch) for batch in (2, 4))
            if at_2.total(2) == peaks[2] and at_4.total(4) == peaks[4]:
                outcome = "over" if batch > row.largest_batch else "right"
                counts[f"explained_{outcome}"] += 1
                at_largest = theory.operator_at_peak(operators, row.largest_batch)
                counts[f"changed_{outcome}"] += at_2 is not at_largest
        return counts

    def counts(self) -> Iterator[tuple[str, float]]:
        """Yield counts of limits, of right and too high predictions, and of test runs, by name."""
        limits = Counter(row.network for row in self.limits)
        yield "limits", limits.total()
        yield "networks", len(limits)
        for rule in self._kind.rules:
            ratios = self.ratios(rule) or [0]
            yield f"{rule}_right", ratios.count(1)
            yield f"{rule}_over", sum(ratio > 1 for ratio in ratios)
            within_a_tenth = 0
            for row, batch in self.predictions[rule]:
                within_a_tenth += 10 * abs(batch - row.largest_batch) <= row.largest_batch
            yield f"{rule}_within_a_tenth", within_a_tenth
            yield f"{rule}_least", min(ratios)
            yield f"{rule}_median", median(ratios)
            yield f"{rule}_most", max(ratios)
        runs = self.test_runs()
        for search in SEARCHES:
            yield f"runs_{search}_median", median(runs[search] or [0])
            if search in (*self._kind.rules, "bisection"):
                pairs = zip(runs["count"], runs[search], strict=True)
                yield f"{search}_faster", sum(count > other for count, other in pairs)
        if "line" in self._kind.rules:
            yield from self._count_explained_lines().items()
            yield from self._counts_in_groups()
        if self._kind.tables == subject.GPU_TABLES:
            # The number of networks in the table up to the last one with a limit on a GPU.
            yield "first", max(map([*self.baselines].index, limits), default=-1) + 1
            yield "over_reserved", sum(row.reserved_bytes > row.limit_bytes for row in self.limits)
            shares = (row.largest_batch / row.predicted_batch for row in self.limits)
            yield "three_quarters", sum(share > 3 / 4 for share in shares)

    def shares_of_gpu_limits(self) -> dict[str, Quantity]:
        """Return the largest share of a limit in workspaces, and the median share left unused."""
        workspaces, unused = [], []
        for row in self.limits:
            workspaces.append((row.peak_bytes - row.least_bytes) / row.limit_bytes)
            unused.append(1 - row.peak_bytes / row.limit_bytes)
        shares = {"workspace_most": max(workspaces, default=0), "unfilled": median(unused or [0])}
        prefix = f"gpu_{self._kind.mode}"
        return {f"{prefix}_{name}": self.number(name, share) for name, share in shares.items()}

    def _counts_in_groups(self) -> Iterator[tuple[str, float]]:
        """Yield, for groups of limits, the size and under how many limits the count is right."""
        seen = {f"timm:{name}" for name in subject.NETWORKS_SEEN_BEFORE}
        groups = {"unseen": [row for row in self.limits if row.network not in seen]}
        groups["with_own"] = self.limits + self.limits_of_our_networks
        for verdict in ("fits", "undecided"):
            groups[verdict] = [row for row in self.limits if row.verdict == verdict]
        for name, rows in groups.items():
            yield name, len(rows)
            yield f"{name}_right", sum(row.largest_batch == row.predicted_batch for row in rows)

    def share_right(self, rule: BatchRule) -> Quantity:
        """Return the share of limits under which a rule predicts the largest batch that ran."""
        return self.number(f"{rule}_share", self.ratios(rule).count(1) / max(1, len(self.limits)))

    def numbers(self, prefix: str) -> dict[str, Quantity]:
        """Return ``counts`` as values of the paper, with names that begin with ``prefix``."""
        return {f"{prefix}_{name}": self.number(name, value) for name, value in self.counts()}

    def number(self, name: str, value: float) -> Quantity:
        """Return a number from the tables of these limits; it is missing without limits."""
        return _table_number(name, value, bool(self.limits), *self._kind.tables)

    def highest_line_prediction(self) -> Prediction | None:
        """Return the prediction by 2 and 4 images that most exceeds the largest batch that ran."""
        predictions = [p for p in self.predictions["line"] if self.operators[p.row.network]]
        return max(predictions, key=lambda p: p.batch / p.row.largest_batch, default=None)


@lru_cache(maxsize=1)
def compare_rules(read_table: TableReader) -> dict[str, RuleComparison]:
    """Apply the rules of each of ``LIMIT_KINDS`` once, since the tables belong to no record."""
    return {key: RuleComparison(read_table, kind) for key, kind in LIMIT_KINDS.items()}


def count_repeated_outcomes(inputs: Inputs) -> dict[str, Quantity]:
    """Count the limits on a CPU that had an equal outcome on another machine."""
    limits: Sequence[TableLimit] = inputs.table(subject.AVX2_TABLES.limits, TableLimit)
    equal = sum(row in limits for row in inputs.table(subject.REPEATED_LIMITS, TableLimit))
    return {"repeated_same": _table_number("repeated", equal, equal > 0, subject.REPEATED_LIMITS)}


def held_out_residuals(run: Run) -> list[Quantity]:
    """Return residuals (B) in float32 of networks from which no rule of workspaces was inferred."""
    if run.on_gpu:
        return []  # no workspaces are known on a GPU
    calls = (call for call in run.calls if call.network not in subject.RULE_NETWORKS)
    residuals = [run.residual(call) for call in calls if call.precision == "float32"]
    return [residual for residual in residuals if not residual.missing]


def count_held_out(run: Run) -> Quantity:
    """Count the peaks of ``held_out_residuals``."""
    return exact_number("peaks", "1", len(held_out_residuals(run)), run.file)


def alexnet_by_line(run: Run) -> Quantity:
    """Return the batch at which the line through AlexNet's peaks of 2 and 4 images is 384 MiB."""
    peak_of_2, peak_of_4 = (run.peak(subject.untiled_call("AlexNet", batch)) for batch in (2, 4))
    return 2 + 2 * (exact_number("limit", "B", 384 * 2**20) - peak_of_2) / (peak_of_4 - peak_of_2)


def count_limits(run: Run, extra_images: int | None = None) -> Quantity:
    """Count limits under which ``extra_images`` more ran than predicted, or all limits for None."""
    count = 0
    for limit, predicted in run.limits:
        count += extra_images in (None, limit.largest_batch - predicted.largest)
    return exact_number("limits", "1", count, run.file)


def limits_within(run: Run) -> Iterator[Statement]:
    """State that predicted batches ran, and larger batches only within ``SLACK_BYTES``."""
    for limit, predicted in run.limits:
        ran = limit.largest_batch
        yield exact_number("images off", "1", ran - predicted.largest, run.file) > -1
        if ran > predicted.largest and ran in predicted.sizes:
            excess = predicted.sizes[ran] - (limit.mebibytes << 20)
            yield exact_number("excess", "B", excess, run.file) < subject.SLACK_BYTES + 1


def relative_to_plain(quantity_of: Callable[[Call], Quantity], call: Call) -> Quantity:
    """Divide a call's quantity by the plain call's: whole maps, contiguous, in float32."""
    plain = replace(call, execution="eager", tile=None, layout="contiguous", precision="float32")
    return quantity_of(call) / quantity_of(plain)


class MeasuredPeaks:
    """``peaks``: call on whole maps → its peaks (B), in each run that measured the call."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.peaks: dict[Call, list[Quantity]] = {}
        for run in runs:
            for call in run.calls:
                peak = run.peak(call)
                if call.tile is None and not peak.missing:
                    self.peaks.setdefault(call, []).append(peak)

    def peak(self, call: Call) -> Quantity:
        """Return the peak of a call (B) in the first run that measured it."""
        return self.peaks.get(call, [missing_number("bytes", "B", "no such call was measured")])[0]

    def ratio_to_plain(self, call: Call) -> Quantity:
        """Divide the peak of a call by the peak of the contiguous call in float32."""
        return relative_to_plain(self.peak, call)
