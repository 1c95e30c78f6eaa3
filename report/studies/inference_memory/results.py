"""Results of inference_memory: rules compared under limits of memory, and peaks by setting."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Final, NamedTuple, TypeAlias

from report.core.missing import Missing
from report.paper.findings import Inputs
from report.quantity.evaluation import point_estimate
from report.quantity.expression import Quantity, Statement, exact_number, missing_number
from report.studies.inference_memory import subject, theory
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import Baseline, Call, LimitOfNetwork, OperatorBytes
from report.studies.inference_memory.theory import RULES, SEARCHES, BatchRule, Search

#: A limit of memory, and the batch that a rule predicts.
Prediction: TypeAlias = tuple[LimitOfNetwork, int]
#: Tolerance of claims about ratios.
MARGIN: Final = 0.1


class LimitKind(NamedTuple):
    """Limits on one kind of processor and in one mode (inference or training), and their rules."""

    name: str
    tables: subject.LimitTables
    rules: Sequence[BatchRule]
    mode: subject.CallMode = "inference"


#: Prefix of the names of values → kind of limits.
KINDS: Final = {
    "rule": LimitKind("AVX2", subject.AVX2, tuple(RULES)),
    "wide": LimitKind("AVX-512", subject.AVX512, tuple(RULES)),
    "training": LimitKind("AVX2, training", subject.AVX2, ("count",), "training"),
    "gpu": LimitKind("GPU", subject.GPU, ("count", "estimator")),
    "gpu_training": LimitKind("GPU, training", subject.GPU, ("count",), "training"),
}


def _table_number(name: str, value: float, known: bool, *tables: str) -> Quantity:
    """Return a number from tables in the data directory; absent if they are not ``known``."""
    first, *others = (f"inference_memory/{table}" for table in tables)
    if not known:
        return missing_number(name, "1", f"{first} is not in the data directory")
    return exact_number(name.replace("_", " "), "1", value, first, tuple(others))


class RuleComparison:
    """Predictions of rules beside the batches that ran, under the limits of one kind."""

    def __init__(self, inputs: Inputs, kind: LimitKind) -> None:
        """Apply every rule to every limit, but list the limits of our own networks apart."""
        self._kind, tables = kind, kind.tables
        self.baselines = {row.network: row for row in inputs.table(tables.baselines, Baseline)}
        self.operators: dict[str, list[OperatorBytes]] = defaultdict(list)
        for operator in inputs.table(tables.operators, OperatorBytes):
            self.operators[operator.network].append(operator)
        self.predictions: dict[BatchRule, list[Prediction]] = defaultdict(list)
        self.limits_of_our_networks: list[LimitOfNetwork] = []
        for row in inputs.table(tables.limits, LimitOfNetwork):
            operators, baseline = self.operators[row.network], self.baselines.get(row.network)
            if row.mode == kind.mode and row.network.startswith(subject.OUR_NETWORKS_PREFIX):
                self.limits_of_our_networks.append(row)
            elif row.mode == kind.mode and baseline:
                batches = theory.batches_by_rule(baseline, operators, row.limit, row.predicted)
                for rule in batches.keys() & kind.rules:
                    self.predictions[rule].append((row, batches[rule]))
        self.limits = [row for row, _ in self.predictions["count"]]

    def ratios(self, rule: BatchRule) -> list[float]:
        """Return predicted ÷ largest run batch for each limit, sorted."""
        return sorted(batch / row.ran for row, batch in self.predictions[rule])

    def test_runs(self) -> dict[Search, list[int]]:
        """Count every search's test runs under each limit; a missing prediction counts as right."""
        runs: dict[Search, list[int]] = {search: [] for search in SEARCHES}
        predictions = [dict(self.predictions[rule]) for rule in theory.LINE_SEARCHES]
        for row in self.limits:
            batches = [predicted_batch.get(row, row.ran) for predicted_batch in predictions]
            counts = theory.runs_of_searches(row.ran, row.predicted, *batches)
            for search, count in counts.items():
                runs[search].append(count)
        return runs

    def _explain_line(self) -> Counter[str]:
        """Count the lines through 2 and 4 images, by whether they predict too much (``over``).

        ``explained``: sums by operator reproduce both peaks exactly.  ``changed``: among these, the
        largest batch that ran has its peak at another operator than 2 images.
        """
        counts = Counter(explained_over=0, changed_over=0, explained_right=0, changed_right=0)
        for row, batch in self.predictions["line"]:
            operators, peaks = self.operators[row.network], self.baselines[row.network].peaks
            if not operators:
                continue
            of_2, of_4, of_ran = (theory.operator_at_peak(operators, n) for n in (2, 4, row.ran))
            if of_2.total(2) == peaks[2] and of_4.total(4) == peaks[4]:
                outcome = "over" if batch > row.ran else "right"
                counts[f"explained_{outcome}"] += 1
                counts[f"changed_{outcome}"] += of_2 is not of_ran
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
            near = (10 * abs(batch - row.ran) <= row.ran for row, batch in self.predictions[rule])
            yield f"{rule}_within_a_tenth", sum(near)
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
            yield from self._counts_of_line()
        if self._kind.tables == subject.GPU:
            yield "first", max(map([*self.baselines].index, limits), default=-1) + 1
            yield "over_reserved", sum(row.reserved > row.limit for row in self.limits)
            yield "three_quarters", sum(4 * row.ran > 3 * row.predicted for row in self.limits)

    def gaps(self) -> dict[str, Quantity]:
        """Return shares of GPU limits: the largest for workspaces, and the median left unused."""
        workspaces = [(row.peak - row.least) / row.limit for row in self.limits]
        unfilled = [1 - row.peak / row.limit for row in self.limits]
        gaps = {"workspace_most": max(workspaces, default=0), "unfilled": median(unfilled or [0])}
        return {f"gpu_{self._kind.mode}_{key}": self.number(key, gap) for key, gap in gaps.items()}

    def _counts_of_line(self) -> Iterator[tuple[str, float]]:
        """Yield the counts of ``_explain_line``, and right predictions by the count in groups."""
        yield from self._explain_line().items()
        seen = {f"timm:{name}" for name in subject.SURVEYED}
        groups = {"unseen": [row for row in self.limits if row.network not in seen]}
        groups["with_own"] = self.limits + self.limits_of_our_networks
        for verdict in ("fits", "undecided"):
            groups[verdict] = [row for row in self.limits if row.verdict == verdict]
        for name, rows in groups.items():
            yield name, len(rows)
            yield f"{name}_right", sum(row.ran == row.predicted for row in rows)

    def share_right(self, rule: BatchRule) -> Quantity:
        """Return the share of limits under which a rule predicts the largest batch that ran."""
        return self.number(f"{rule}_share", self.ratios(rule).count(1) / max(1, len(self.limits)))

    def numbers(self, prefix: str) -> dict[str, Quantity]:
        """Return ``counts`` as values of the paper, with names that begin with ``prefix``."""
        return {f"{prefix}_{name}": self.number(name, value) for name, value in self.counts()}

    def number(self, name: str, value: float) -> Quantity:
        """Return a number from the tables of these limits; absent without limits."""
        return _table_number(name, value, bool(self.limits), *self._kind.tables)

    def worst_line(self) -> Prediction | None:
        """Return the prediction of the line that most exceeds the batch that ran."""
        predictions = [item for item in self.predictions["line"] if self.operators[item[0].network]]
        return max(predictions, key=lambda item: item[1] / item[0].ran, default=None)


def repeated_same(inputs: Inputs) -> dict[str, Quantity]:
    """Count the limits on a CPU that had an equal outcome on another machine."""
    limits: Sequence[LimitOfNetwork] = inputs.table(subject.AVX2.limits, LimitOfNetwork)
    same = sum(row in limits for row in inputs.table(subject.REPEATED_TABLE, LimitOfNetwork))
    return {"repeated_same": _table_number("repeated", same, same > 0, subject.REPEATED_TABLE)}


def held_out_residuals(run: Run) -> list[Quantity]:
    """Return measured − predicted peaks (B) of float32 networks from which no rule was inferred."""
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
    peak_of_2, peak_of_4 = (run.peak(subject.whole_call("AlexNet", batch)) for batch in (2, 4))
    return 2 + 2 * (exact_number("limit", "B", 384 * 2**20) - peak_of_2) / (peak_of_4 - peak_of_2)


def count_limits(run: Run, extra_images: int | None = None) -> Quantity:
    """Count limits under which ``extra_images`` more ran than predicted, or all limits for None."""
    count = sum(extra_images in (None, limit.ran - batch.largest) for limit, batch in run.limits)
    return exact_number("limits", "1", count, run.file)


def limits_within(run: Run) -> Iterator[Statement]:
    """State that predicted batches ran, and that larger ones need at most ``SLACK_BYTES`` more."""
    for limit, predicted in run.limits:
        yield exact_number("images off", "1", limit.ran - predicted.largest, run.file) > -1
        if limit.ran > predicted.largest and limit.ran in predicted.sizes:
            excess = predicted.sizes[limit.ran] - (limit.mebibytes << 20)
            yield exact_number("excess", "B", excess, run.file) < subject.SLACK_BYTES + 1


def relative_to_plain(quantity_of: Callable[[Call], Quantity], call: Call) -> Quantity:
    """Divide a quantity of a call by that of the plain call: whole contiguous maps in float32."""
    plain = replace(call, execution="eager", tile=None, layout="contiguous", precision="float32")
    return quantity_of(call) / quantity_of(plain)


def exceeds_one(ratio: Quantity) -> bool:
    value = point_estimate(ratio)
    return not isinstance(value, Missing) and value > 1


class MeasuredPeaks:
    """Call on whole maps → its peaks (B) in the runs that measured it."""

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

    def ratio(self, call: Call) -> Quantity:
        """Divide the peak of a call by the peak of the contiguous call in float32."""
        return relative_to_plain(self.peak, call)
