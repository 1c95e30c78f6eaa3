"""Results of inference_memory: rules compared under limits, and peaks compared by setting."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import correlation, median
from typing import Final, TypeAlias

from report.paper.findings import Inputs
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.operations import largest, smallest
from report.studies.inference_memory import subject, theory
from report.studies.inference_memory.runs import NO_BYTES, Run
from report.studies.inference_memory.subject import (
    Baseline,
    Call,
    LimitOfNetwork,
    OperatorLine,
    whole_call,
)
from report.studies.inference_memory.theory import RULES, BatchRule
from report.theory.reconciliation import Reconciliation

#: A prediction under a limit of tensors.
Answer: TypeAlias = tuple[LimitOfNetwork, int]

#: Effects below this share are no finding.
MARGIN: Final = 0.1
#: Kind of limits → their table, and the mode of its rows.
_LIMITS_BY_KIND: Final[dict[str, tuple[str, subject.CallMode]]] = {
    "inference": (subject.AVX2.limits, "inference"),
    "training": (subject.AVX2.limits, "training"),
    "avx512": (subject.AVX512.limits, "inference"),
    "gpu_inference": (subject.GPU_TABLE, "inference"),
    "gpu_training": (subject.GPU_TABLE, "training"),
}


def _number(name: str, value: float, known: bool, *tables: str) -> Quantity:
    """Return a number of tables, absent if they are not in the data directory."""
    first, *others = (f"inference_memory/{table}" for table in tables)
    if not known:
        return absent(name, "1", f"{first} is not in the data directory")
    return exact(name.replace("_", " "), "1", value, first, tuple(others))


# ----------------------------------------------------------------- rules under limits of tensors


def _lines_by_network(inputs: Inputs, table: str) -> dict[str, list[OperatorLine]]:
    """Read the bytes by operator of every network."""
    lines: dict[str, list[OperatorLine]] = {}
    for row in inputs.table(table, OperatorLine):
        lines.setdefault(row.network, []).append(row)
    return lines


class RuleComparison:
    """All rules under the limits of an inference, for the networks of others in a table."""

    def __init__(self, inputs: Inputs, tables: subject.TablesOfVectors) -> None:
        """Apply every rule to every limit; ``answers`` holds limits and predicted batches."""
        self._tables = tables
        limits: Sequence[LimitOfNetwork] = inputs.table(tables.limits, LimitOfNetwork)
        baselines: Sequence[Baseline] = inputs.table(tables.baselines, Baseline)
        self.baselines = {row.network: row for row in baselines}
        self.lines = _lines_by_network(inputs, tables.operators)
        lines_avx2 = _lines_by_network(inputs, subject.AVX2.operators)
        self.answers: dict[BatchRule, list[Answer]] = {rule: [] for rule in RULES}
        for limit in limits:
            name, baseline = limit.network, self.baselines.get(limit.network)
            if baseline and limit.mode == "inference" and not name.startswith(subject.STUDY_PREFIX):
                # Bisection is right by construction.
                batches: dict[BatchRule, int] = {"count": limit.predicted, "bisected": limit.ran}
                batches |= theory.batches_by_rule(baseline, self.lines.get(name, ()), limit.limit)
                if tables is subject.AVX512:
                    lines = lines_avx2.get(name, ())
                    batches |= theory.counts_of_avx2(lines, limit.limit, limit.predicted)
                for rule, batch in batches.items():
                    self.answers[rule].append((limit, batch))
        self.limits = [limit for limit, _ in self.answers["count"]]

    def ratios(self, rule: BatchRule) -> list[float]:
        """Sort the batches that a rule predicts over those that ran."""
        return sorted(batch / row.ran for row, batch in self.answers[rule])

    def runs_needed(self, rule: BatchRule) -> list[int]:
        """Sort the runs of a network that a rule needs under each limit."""
        return sorted(theory.runs_needed(rule, row.ran) for row in self.limits)

    def _explained(self) -> Counter[tuple[bool, bool]]:
        """Count answers of a line whose operators have the peaks of 2 and 4 images exactly.

        By two properties: too high a batch, and another operator that holds the peak at the batch
        that ran.
        """
        counts = Counter[tuple[bool, bool]]()
        for row, batch in self.answers["line"]:
            lines, peaks = self.lines.get(row.network), self.baselines[row.network].peaks
            if lines and all(theory.holder(lines, n).total(n) == peaks[n] for n in (2, 4)):
                is_other = theory.holder(lines, 2) is not theory.holder(lines, row.ran)
                counts[batch > row.ran, is_other] += 1
        return counts

    def _counts(self) -> Iterator[tuple[str, float]]:
        """Count limits and networks, and for every rule where it is right and where too high."""
        yield "limits", len(self.limits)
        yield "networks", len({row.network for row in self.limits})
        for rule in RULES:
            ratios = self.ratios(rule)
            yield f"{rule}_right", ratios.count(1)
            yield f"{rule}_over", sum(ratio > 1 for ratio in ratios)
            yield f"{rule}_most", max(ratios, default=0)
        yield "line_doubled", len({r.network for r, n in self.answers["line"] if n > 2 * r.ran})
        explained = self._explained()
        yield "explained", explained.total()
        for name, is_over in (("over", True), ("right", False)):
            yield f"explained_{name}", explained[is_over, False] + explained[is_over, True]
            yield f"changed_{name}", explained[is_over, True]
        for verdict in ("fits", "undecided"):
            rows = [row for row in self.limits if row.verdict == verdict]
            yield verdict, len(rows)
            yield f"{verdict}_right", sum(row.ran == row.predicted for row in rows)
        surveyed = [r for r in self.limits if r.network.removeprefix("timm:") in subject.SURVEYED]
        yield "surveyed", len(surveyed)
        yield "surveyed_right", sum(row.ran == row.predicted for row in surveyed)
        yield "all_fit", sum(self.baselines[r.network].peak_of_256 <= r.limit for r in self.limits)
        runs = self.runs_needed("bisected") or [0]
        yield from (("runs_least", runs[0]), ("runs_most", runs[-1]))
        yield "runs_median", median(runs)

    def numbers(self, prefix: str) -> dict[str, Quantity]:
        """Return the counts as numbers of the paper."""
        numbers = {}
        for name, value in self._counts():
            numbers[f"{prefix}{name}"] = _number(name, value, bool(self.limits), *self._tables)
        return numbers

    def worst_line(self) -> Answer | None:
        """Return the limit under which the line through 2 and 4 images promises most."""
        answers = [answer for answer in self.answers["line"] if answer[0].network in self.lines]
        return max(answers, key=lambda answer: answer[1] / answer[0].ran, default=None)


class UpperBounds:
    """The count under limits by kind of limit, mostly where rules of workspaces are missing."""

    def __init__(self, inputs: Inputs) -> None:
        """Read the limits of each kind, and the estimates of torch-kitsune on the GPU."""
        self.rows: dict[str, list[LimitOfNetwork]] = {}
        for kind, (table, mode) in _LIMITS_BY_KIND.items():
            rows: Sequence[LimitOfNetwork] = inputs.table(table, LimitOfNetwork)
            self.rows[kind] = [row for row in rows if row.mode == mode]
        on_cpu = [*self.rows["inference"], *self.rows["training"]]
        repeated: Sequence[LimitOfNetwork] = inputs.table(subject.REPEATED_TABLE, LimitOfNetwork)
        self._repeated = [row for row in repeated if row in on_cpu]
        baselines: dict[str, Baseline] = {}
        for baseline in inputs.table(subject.AVX2.baselines, Baseline):
            baselines[baseline.network] = baseline
        self._estimates: list[float] = []
        for row in self.rows["gpu_inference"]:
            estimate = theory.estimated(baselines.get(row.network), row.limit)
            if estimate is not None:
                self._estimates.append(estimate / row.ran)

    def runs(self, kind: str) -> list[tuple[int, int]]:
        """Count the runs of two searches under each limit: from the count, and by doubling."""
        runs = []
        for row in self.rows[kind]:
            from_count = theory.runs_from_count(row.predicted, row.ran)
            runs.append((from_count, theory.runs_needed("bisected", row.ran)))
        return runs

    def shares(self, kind: str) -> list[float]:
        """Sort the batches that ran over the predicted ones."""
        return sorted(row.ran / row.predicted for row in self.rows[kind])

    def correlation(self, kind: str) -> float:
        """Correlate simulated bytes over the limit with the counted batch over that which ran."""
        simulated = [row.reserved / row.limit for row in self.rows[kind]]
        errors = [row.predicted / row.ran for row in self.rows[kind]]
        varies = len(set(simulated)) > 1 and len(set(errors)) > 1
        return correlation(simulated, errors) if varies else 0.0

    def counts(self, kind: str) -> dict[str, float]:
        """Count limits, networks, right predictions, and the runs of both searches."""
        rows, shares = self.rows[kind], self.shares(kind) or [1.0]
        from_count, doubling = zip(*(self.runs(kind) or [(0, 0)]), strict=True)
        return {
            "limits": len(rows),
            "networks": len({row.network for row in rows}),
            "right": shares.count(1),
            "most": 1 / shares[0],
            "runs": median(from_count),
            "runs_most": max(from_count),
            "doubling": median(doubling),
        }

    def numbers(self) -> dict[str, Quantity]:
        """Return the counts of every kind, the repeated limits, and ratios on the GPU."""
        numbers = {}
        for kind, (table, _) in _LIMITS_BY_KIND.items():
            for name, value in self.counts(kind).items():
                numbers[f"{kind}_{name}"] = _number(name, value, bool(self.rows[kind]), table)
        repeated, ratios = self._repeated, self._estimates
        numbers["repeated_same"] = _number(
            "repeated", len(repeated), bool(repeated), subject.REPEATED_TABLE
        )
        tables = subject.GPU_TABLE, subject.AVX2.baselines
        for name, of in (("least", min), ("median", median), ("most", max)):
            value = of(ratios or [0.0])
            numbers[f"gpu_estimator_{name}"] = _number(name, value, bool(ratios), *tables)
        return numbers

    def shares_on_gpu(self) -> dict[str, Quantity]:
        """Return shares of the predicted batch that ran in inference, and shares of the limit."""
        rows, shares = self.rows["gpu_inference"], self.shares("gpu_inference") or [0.0]
        sizes = {
            "least": shares[0],
            "median": median(shares),
            "beyond": max(((row.peak - row.least) / row.limit for row in rows), default=0),
            "free": median([1 - row.peak / row.limit for row in rows] or [0]),
        }
        numbers = {}
        for name, share in sizes.items():
            number = _number(f"{name} share", share, bool(rows), subject.GPU_TABLE)
            numbers[f"gpu_inference_{name}"] = number
        return numbers


# --------------------------------------------------------------- predicted peaks and limits, CPU


def held_out(run: Run) -> list[Reconciliation]:
    """Return the predicted float32 peaks of networks on which no rule was inferred."""
    peaks = run.reconciled("float32").items()
    return [peak for call, peak in peaks if call.network not in subject.RULE_NETWORKS]


def held_out_counted(run: Run) -> Quantity:
    """Count the held-out peaks that are predicted to the byte."""
    exactly = sum(peak.residual == 0 for peak in held_out(run))
    return exact("peaks", "1", exactly, run.file)


def alexnet_by_line(run: Run) -> Quantity:
    """Return the batch at which the line through AlexNet's peaks of 2 and 4 images is 384 MiB."""
    two, four = (run.peak(whole_call("AlexNet", batch)) for batch in (2, 4))
    return 2 + 2 * (exact("limit", "B", 384 * 2**20) - two) / (four - two)


def limits_counted(run: Run, met: bool = False) -> Quantity:
    """Count the limits of a run, or those under which the predicted batch was the largest."""
    counted = [limit for limit, fits in run.limits if not met or limit.ran == fits.largest]
    return exact("limits", "1", len(counted), run.file)


def limits_within(run: Run) -> Iterator[Statement]:
    """An image more may run where it exceeds the limit by less than the slack; none less may."""
    for limit, fits in run.limits:
        yield exact("images off", "1", limit.ran - fits.largest, run.file) > -1
        if limit.ran > fits.largest and limit.ran in fits.sizes:
            excess = fits.sizes[limit.ran] - (limit.mebibytes << 20)
            yield exact("excess", "B", excess, run.file) < subject.SLACK + 1


# ------------------------------------------------------------------ settings, on CPUs and GPUs


def over_plain(of: Callable[[Call], Quantity], call: Call) -> Quantity:
    """Divide a number of a call by that of whole contiguous maps in float32."""
    plain = replace(call, execution="eager", tile=None, layout="contiguous", precision="float32")
    return of(call) / of(plain)


class Allocated:
    """Peaks of calls on GPUs, each as measured by one or more of the runs."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.peaks: dict[Call, list[Quantity]] = {}
        for run in runs:
            for call in run.calls:
                peak = run.peak(call)
                if call.tile is None and not peak.missing:
                    self.peaks.setdefault(call, []).append(peak)

    def peak(self, call: Call) -> Quantity:
        """Return the peak of a call (B) in the first run that measured it."""
        return self.peaks.get(call, [NO_BYTES])[0]

    def ratio(self, call: Call) -> Quantity:
        """Divide the peak of a call by the peak of the contiguous call in float32."""
        return over_plain(self.peak, call)

    def repeated(self) -> list[Quantity]:
        """Compare each peak that several GPUs measured: the largest less the smallest."""
        several = [peaks for peaks in self.peaks.values() if len(peaks) > 1]
        return [largest(*peaks) - smallest(*peaks) for peaks in several]
