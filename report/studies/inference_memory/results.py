"""Results of inference_memory: rules compared under limits, and peaks compared by setting."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Final, NamedTuple, TypeAlias

from report.core.missing import Missing
from report.paper.findings import Inputs
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, Statement, absent, exact
from report.studies.inference_memory import subject, theory
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import Baseline, Call, LimitOfNetwork, OperatorLine
from report.studies.inference_memory.theory import RULES, SEARCHES, BatchRule, Search

#: A prediction under a limit of tensors.
Answer: TypeAlias = tuple[LimitOfNetwork, int]

#: Effects below this share are no finding.
MARGIN: Final = 0.1


class Kind(NamedTuple):
    """Kind of limits: name, tables, the rules that apply, and the mode of calls."""

    name: str
    tables: subject.LimitTables
    rules: Sequence[BatchRule]
    mode: subject.CallMode = "inference"


#: Kinds of limits by the prefix of their numbers.
KINDS: Final = {
    "rule": Kind("AVX2", subject.AVX2, tuple(RULES)),
    "wide": Kind("AVX-512", subject.AVX512, tuple(RULES)),
    "training": Kind("AVX2, training", subject.AVX2, ("count",), "training"),
    "gpu": Kind("GPU", subject.GPU, ("count", "estimator")),
    "gpu_training": Kind("GPU, training", subject.GPU, ("count",), "training"),
}


def _number(name: str, value: float, known: bool, *tables: str) -> Quantity:
    """Return a number of tables, absent if they are not in the data directory."""
    first, *others = (f"inference_memory/{table}" for table in tables)
    if not known:
        return absent(name, "1", f"{first} is not in the data directory")
    return exact(name.replace("_", " "), "1", value, first, tuple(others))


# ----------------------------------------------------------------- rules under limits of tensors


class RuleComparison:
    """Rules under the limits of one kind, for networks that are in no study."""

    def __init__(self, inputs: Inputs, kind: Kind) -> None:
        """Apply every rule to every limit, but to none of our ``own`` networks."""
        self._kind, tables = kind, kind.tables
        self.baselines = {row.network: row for row in inputs.table(tables.baselines, Baseline)}
        self.lines: dict[str, list[OperatorLine]] = defaultdict(list)
        for line in inputs.table(tables.operators, OperatorLine):
            self.lines[line.network].append(line)
        self.answers: dict[BatchRule, list[Answer]] = defaultdict(list)
        self.own: list[LimitOfNetwork] = []
        for row in inputs.table(tables.limits, LimitOfNetwork):
            lines, baseline = self.lines[row.network], self.baselines.get(row.network)
            if row.mode == kind.mode and row.network.startswith(subject.STUDY_PREFIX):
                self.own.append(row)
            elif row.mode == kind.mode and baseline:
                batches = theory.batches_by_rule(baseline, lines, row.limit, row.predicted)
                for rule in batches.keys() & kind.rules:
                    self.answers[rule].append((row, batches[rule]))
        self.limits = [row for row, _ in self.answers["count"]]

    def ratios(self, rule: BatchRule) -> list[float]:
        """Sort the batches that a rule predicts over those that ran."""
        return sorted(batch / row.ran for row, batch in self.answers[rule])

    def runs(self) -> dict[Search, list[int]]:
        """Count the runs of every search under each limit; a line not measured is right."""
        runs: dict[Search, list[int]] = {search: [] for search in SEARCHES}
        lines = [dict(self.answers[rule]) for rule in theory.LINES]
        for row in self.limits:
            promised = [line.get(row, row.ran) for line in lines]
            counted = theory.runs_of_searches(row.ran, row.predicted, *promised)
            for search, number in counted.items():
                runs[search].append(number)
        return runs

    def _explained(self) -> Counter[str]:
        """Count answers of a line, also with another operator at the peak of the run batch."""
        counts = Counter(explained_over=0, changed_over=0, explained_right=0, changed_right=0)
        for row, batch in self.answers["line"]:
            lines, peaks = self.lines[row.network], self.baselines[row.network].peaks
            if lines and all(theory.holder(lines, n).total(n) == peaks[n] for n in (2, 4)):
                answer = "over" if batch > row.ran else "right"
                is_other = theory.holder(lines, 2) is not theory.holder(lines, row.ran)
                counts[f"explained_{answer}"] += 1
                counts[f"changed_{answer}"] += is_other
        return counts

    def counts(self) -> Iterator[tuple[str, float]]:
        """Count limits, networks, right and too high answers, and runs of searches."""
        limits = Counter(row.network for row in self.limits)
        yield "limits", limits.total()
        yield "networks", len(limits)
        for rule in self._kind.rules:
            ratios = self.ratios(rule) or [0]
            yield f"{rule}_right", ratios.count(1)
            yield f"{rule}_over", sum(ratio > 1 for ratio in ratios)
            near = (10 * abs(batch - row.ran) <= row.ran for row, batch in self.answers[rule])
            yield f"{rule}_within_a_tenth", sum(near)
            yield f"{rule}_least", min(ratios)
            yield f"{rule}_median", median(ratios)
            yield f"{rule}_most", max(ratios)
        runs = self.runs()
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
        """Return shares of limits on a GPU, at the batch that ran: workspaces, bytes unfilled."""
        workspaces = [(row.peak - row.least) / row.limit for row in self.limits]
        unfilled = [1 - row.peak / row.limit for row in self.limits]
        gaps = {"workspace_most": max(workspaces, default=0), "unfilled": median(unfilled or [0])}
        return {f"gpu_{self._kind.mode}_{key}": self.number(key, gap) for key, gap in gaps.items()}

    def _counts_of_line(self) -> Iterator[tuple[str, float]]:
        """Count limits by what explains a wrong line, of unseen networks, and by verdict."""
        yield from self._explained().items()
        seen = {f"timm:{name}" for name in subject.SURVEYED}
        parts = {"unseen": [row for row in self.limits if row.network not in seen]}
        parts["with_own"] = self.limits + self.own
        for verdict in ("fits", "undecided"):
            parts[verdict] = [row for row in self.limits if row.verdict == verdict]
        for name, rows in parts.items():
            yield name, len(rows)
            yield f"{name}_right", sum(row.ran == row.predicted for row in rows)

    def share_right(self, rule: BatchRule) -> Quantity:
        """Return the share of limits under which the batch of a rule ran and the next did not."""
        share = self.ratios(rule).count(1) / max(1, len(self.limits))
        return self.number(f"{rule}_share", share)

    def numbers(self, prefix: str) -> dict[str, Quantity]:
        """Return the counts as numbers of the paper."""
        return {f"{prefix}_{name}": self.number(name, value) for name, value in self.counts()}

    def number(self, name: str, value: float) -> Quantity:
        return _number(name, value, bool(self.limits), *self._kind.tables)

    def worst_line(self) -> Answer | None:
        """Return the limit under which the line through 2 and 4 images promises most."""
        answers = [answer for answer in self.answers["line"] if self.lines[answer[0].network]]
        return max(answers, key=lambda answer: answer[1] / answer[0].ran, default=None)


def repeated_same(inputs: Inputs) -> dict[str, Quantity]:
    """Count the limits on a CPU that had an equal outcome on another machine."""
    limits: Sequence[LimitOfNetwork] = inputs.table(subject.AVX2.limits, LimitOfNetwork)
    same = sum(row in limits for row in inputs.table(subject.REPEATED_TABLE, LimitOfNetwork))
    return {"repeated_same": _number("repeated", same, same > 0, subject.REPEATED_TABLE)}


# --------------------------------------------------------------- predicted peaks and limits, CPU


def held_out(run: Run) -> list[Quantity]:
    """Subtract predicted float32 peaks from those of networks on which no rule was inferred."""
    calls = (call for call in run.calls if call.network not in subject.RULE_NETWORKS)
    residuals = [run.residual(call) for call in calls if call.precision == "float32"]
    return [residual for residual in residuals if not residual.missing]


def held_out_counted(run: Run) -> Quantity:
    """Count the held-out peaks."""
    return exact("peaks", "1", len(held_out(run)), run.file)


def alexnet_by_line(run: Run) -> Quantity:
    """Return the batch at which the line through AlexNet's peaks of 2 and 4 images is 384 MiB."""
    two, four = (run.peak(subject.whole_call("AlexNet", batch)) for batch in (2, 4))
    return 2 + 2 * (exact("limit", "B", 384 * 2**20) - two) / (four - two)


def limits_counted(run: Run, more: int | None = None) -> Quantity:
    """Count the limits of a run, or those under which so many more images ran than predicted."""
    beyond = [limit.ran - fits.largest for limit, fits in run.limits]
    return exact("limits", "1", len(beyond) if more is None else beyond.count(more), run.file)


def limits_within(run: Run) -> Iterator[Statement]:
    """Test that no batch is too low, and that one more image exceeds a limit within the slack."""
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


def exceeds_one(ratio: Quantity) -> bool:
    value = point(ratio)
    return not isinstance(value, Missing) and value > 1


class Allocated:
    """Peaks of calls of whole maps, each as measured by one or more of the runs."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.peaks: dict[Call, list[Quantity]] = {}
        for run in runs:
            for call in run.calls:
                peak = run.peak(call)
                if call.tile is None and not peak.missing:
                    self.peaks.setdefault(call, []).append(peak)

    def peak(self, call: Call) -> Quantity:
        """Return the peak of a call (B) in the first run that measured it."""
        return self.peaks.get(call, [absent("bytes", "B", "no such call was measured")])[0]

    def ratio(self, call: Call) -> Quantity:
        """Divide the peak of a call by the peak of the contiguous call in float32."""
        return over_plain(self.peak, call)
