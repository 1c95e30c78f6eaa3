"""Results of inference_memory: rules compared under limits, and peaks compared by setting."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby, product
from statistics import median
from typing import Final, NamedTuple, TypeAlias, get_args

from report.core.missing import Missing
from report.paper.findings import Inputs
from report.quantity.evaluation import point, to_digits
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.operations import largest, smallest
from report.studies.inference_memory import subject, theory
from report.studies.inference_memory.runs import NO_BYTES, NO_RATIO, Of, Run
from report.studies.inference_memory.subject import (
    AVX2,
    COALESCED,
    GPU_TABLE,
    LAYOUTS,
    PRECISIONS,
    REPEATED_TABLE,
    SHOWN,
    Baseline,
    Call,
    CallMode,
    InferencePrecision,
    Limit,
    LimitOfNetwork,
    OperatorLine,
    TablesOfVectors,
    small,
)  # fmt: skip
from report.studies.inference_memory.theory import RULES, BatchRule
from report.theory.conditions import Layout
from report.theory.network import least

#: A prediction under a limit of tensors.
Answer: TypeAlias = tuple[LimitOfNetwork, int]

#: Effects below this share are no finding.
MARGIN: Final = 0.1
#: The batch whose memory the prose describes.
SHOWN_BATCH: Final = 256
#: Changed settings of a contiguous float32 call, by the ids of their values.
SETTINGS: Final[dict[str, tuple[InferencePrecision, Layout]]] = {
    "last": ("float32", COALESCED),
    "half": (subject.REDUCED, "contiguous"),
    "both": (subject.REDUCED, COALESCED),
}
EXTREMES: Final = {"least": smallest, "most": largest}


def _number(name: str, value: float, known: bool, *tables: str) -> Quantity:
    """Return a number of tables, absent if they are not in the data directory."""
    first, *others = (f"inference_memory/{table}" for table in tables)
    if not known:
        return absent(name, "1", f"{first} is not in the data directory")
    return exact(name.replace("_", " "), "1", value, first, tuple(others))


# ----------------------------------------------------------------- rules under limits of tensors


class FailedLine(NamedTuple):
    """Peaks by batch (B) of a network, a limit, the batch that a line promises, and two operators.

    ``late`` holds the peak at the smallest batch, ``early`` at the largest.
    """

    peaks: dict[int, int]
    row: LimitOfNetwork
    promised: int
    late: OperatorLine
    early: OperatorLine


class RuleComparison:
    """All rules under the limits of an inference, for the networks of others in a table."""

    def __init__(self, inputs: Inputs, tables: TablesOfVectors) -> None:
        self._tables = tables
        limits: Sequence[LimitOfNetwork] = inputs.table(tables.limits, LimitOfNetwork)
        baselines: Sequence[Baseline] = inputs.table(tables.baselines, Baseline)
        self.baselines = {row.network: row for row in baselines}
        self.lines: dict[str, list[OperatorLine]] = {}
        for row in inputs.table(tables.operators, OperatorLine):
            self.lines.setdefault(row.network, []).append(row)
        self.limits = [
            row
            for row in limits
            if row.mode == "inference" and not row.network.startswith(subject.OF_STUDIES)
        ]

    @cached_property
    def _predicted(self) -> list[tuple[LimitOfNetwork, dict[BatchRule, int]]]:
        """Apply every rule to every limit of a network with baselines."""
        predicted = []
        for row in self.limits:
            if baseline := self.baselines.get(row.network):
                lines = self.lines.get(row.network, ())
                batches = theory.batches_by_rule(baseline, lines, row.limit)
                predicted.append((row, {"count": row.predicted, **batches}))
        return predicted

    def answers(self, rule: BatchRule) -> list[Answer]:
        """Return the limits under which a rule has an answer, with the predicted batch."""
        return [(row, batches[rule]) for row, batches in self._predicted if rule in batches]

    def ratios(self, rule: BatchRule) -> list[float]:
        """Sort the batches that a rule predicts over those that ran."""
        return sorted(batch / row.ran for row, batch in self.answers(rule))

    def _explained(self, answers: list[Answer]) -> tuple[list[Answer], list[Answer]]:
        """Select answers whose operators have the peaks of 2 and 4 images exactly.

        The second list is of those where another operator holds the peak at the batch that ran.
        """
        explained, changed = [], []
        for row, batch in answers:
            lines, peaks = self.lines.get(row.network), self.baselines[row.network].peaks
            if lines and all(theory.holder(lines, n).total(n) == peaks[n] for n in (2, 4)):
                explained.append((row, batch))
                if theory.holder(lines, 2) is not theory.holder(lines, row.ran):
                    changed.append((row, batch))
        return explained, changed

    def _counts(self) -> Iterator[tuple[str, float]]:
        """Count limits and networks, and for every rule where it is right and where too high."""
        yield "limits", len(self._predicted)
        yield "networks", len({row.network for row, _ in self._predicted})
        for rule in RULES:
            ratios = self.ratios(rule)
            yield f"{rule}_right", ratios.count(1)
            yield f"{rule}_over", sum(ratio > 1 for ratio in ratios)
            yield f"{rule}_most", max(ratios, default=0)
        by_line = self.answers("line")
        yield "line_doubled", len({row.network for row, batch in by_line if batch > 2 * row.ran})
        explained, changed = self._explained(by_line)
        for name, answers in (("explained", explained), ("changed", changed)):
            yield f"{name}_over", sum(batch > row.ran for row, batch in answers)
            yield f"{name}_right", sum(batch == row.ran for row, batch in answers)
        certain = [row for row, _ in self._predicted if row.verdict == "fits"]
        yield "certain", len(certain)
        yield "certain_over", sum(row.ran < row.predicted for row in certain)
        roomy = [r for r, _ in self._predicted if self.baselines[r.network].peak_of_256 <= r.limit]
        yield "all_fit", len(roomy)

    def numbers(self, prefix: str) -> dict[str, Quantity]:
        """Return the counts as numbers of the paper."""
        numbers = {}
        for name, value in self._counts():
            numbers[f"{prefix}{name}"] = _number(name, value, bool(self._predicted), *self._tables)
        return numbers

    @cached_property
    def failure(self) -> FailedLine | None:
        """The case in which the line through 2 and 4 images promises most."""
        answers = [answer for answer in self.answers("line") if answer[0].network in self.lines]
        if not answers:
            return None
        row, batch = max(answers, key=lambda answer: answer[1] / answer[0].ran)
        lines, peaks = self.lines[row.network], self.baselines[row.network].peaks
        late, early = (theory.holder(lines, extreme(peaks)) for extreme in (min, max))
        return FailedLine(peaks, row, batch, late, early)

    def example(self) -> dict[str, Quantity]:
        """Return the bytes of the two operators of the failure, and its limit."""
        failure, file = self.failure, f"inference_memory/{self._tables.operators}"
        if failure is None:
            return dict.fromkeys(("late_workspace", "late_per_image", "early_per_image"), NO_BYTES)
        sizes = {
            "late_workspace": failure.late.fixed - failure.late.tensors_fixed,
            "late_per_image": failure.late.per_image,
            "early_per_image": failure.early.per_image,
        }
        return {id: to_digits(exact("bytes", "B", size, file), 2) for id, size in sizes.items()}

    def bytes_left(self, extreme: str) -> Quantity:
        """Return the extreme number of bytes that the count left of the limits that it missed."""
        missed = [row for row, batch in self.answers("count") if batch > row.ran and row.left >= 0]
        file = f"inference_memory/{self._tables.limits}"
        sizes: list[Quantity] = [exact("bytes left", "B", row.left, file) for row in missed]
        return to_digits(EXTREMES[extreme](*sizes or [NO_BYTES]), 2)


class OtherLimits:
    """The count under limits of training on a CPU and of both modes on a GPU."""

    def __init__(self, inputs: Inputs) -> None:
        self._on_cpu: Sequence[LimitOfNetwork] = inputs.table(AVX2.limits, LimitOfNetwork)
        self._repeated: Sequence[LimitOfNetwork] = inputs.table(REPEATED_TABLE, LimitOfNetwork)
        on_gpu: Sequence[LimitOfNetwork] = inputs.table(GPU_TABLE, LimitOfNetwork)
        self.rows: dict[str, tuple[str, list[LimitOfNetwork]]] = {}
        for id, table, rows in (("", AVX2.limits, self._on_cpu), ("gpu_", GPU_TABLE, on_gpu)):
            for mode in get_args(CallMode):
                self.rows[f"{id}{mode}"] = table, [row for row in rows if row.mode == mode]

    def shares(self, id: str) -> list[float]:
        """Sort the batches that ran over the predicted ones."""
        return sorted(row.ran / row.predicted for row in self.rows[id][1])

    def numbers(self) -> dict[str, Quantity]:
        """Count limits, networks and right predictions, and the limits that were repeated."""
        same = [row for row in self._repeated if row in self._on_cpu]
        repeated = _number("repeated", len(same), bool(same), REPEATED_TABLE)
        numbers = {"repeated_same": repeated}
        for id, (table, rows) in self.rows.items():
            shares = self.shares(id)
            for name, value in (
                ("limits", len(rows)),
                ("networks", len({row.network for row in rows})),
                ("right", shares.count(1)),
                ("most", 1 / shares[0] if shares else 0),
            ):
                numbers[f"{id}_{name}"] = _number(name, value, bool(rows), table)
        return numbers

    def shares_on_gpu(self) -> dict[str, Quantity]:
        """Return shares of the predicted batch that ran on a GPU, and shares of the limit."""
        numbers = {}
        for id in ("gpu_inference", "gpu_training"):
            table, rows = self.rows[id]
            shares = self.shares(id) or [0.0]
            free = [1 - row.peak / row.limit for row in rows] or [0.0]
            beyond = [(row.peak - row.least) / row.limit for row in rows] or [0.0]
            for name, share in (
                ("least", shares[0]),
                ("median", median(shares)),
                ("beyond", max(beyond)),
                ("free", median(free)),
                ("free_most", max(free)),
            ):
                numbers[f"{id}_{name}"] = _number(f"{name} share", share, bool(rows), table)
        return numbers


# --------------------------------------------------------------- predicted peaks and limits, CPU


def peaks_counted(run: Run, *, held_out: bool = False, met: bool = False) -> Quantity:
    """Count the float32 peaks of a CPU, of all or of held-out networks, or those that were met."""
    rows = [
        r for call, r in run.peaks.items() if not (held_out and call.network in subject.LEARNED)
    ]
    counted = sum(row.residual == 0 for row in rows) if met else len(rows)
    return exact("peaks", "1", counted, run.file)


def alexnet_by_line(run: Run) -> Quantity:
    """Return the batch at which the line through AlexNet's peaks of 2 and 4 images is 384 MiB."""
    two, four = (run.peak(small("AlexNet", batch)) for batch in (2, 4))
    return 2 + 2 * (exact("limit", "B", 384 * 2**20) - two) / (four - two)


def saved(run: Run, setting: str, network: str = SHOWN) -> Quantity:
    """Compute the share of a network's peak that a setting saves."""
    call = small(network, SHOWN_BATCH, *SETTINGS[setting])
    return 1 - run.peak(call) / run.peak(small(network, SHOWN_BATCH))


def saved_by_resnets(run: Run, setting: str, extreme: str) -> Quantity:
    """Return the extreme share of the residual networks' peaks that a setting saves."""
    return EXTREMES[extreme](*(saved(run, setting, network) for network in subject.RESNETS))


def limits_counted(run: Run, met: bool = False, changed: bool = False) -> Quantity:
    """Count the limits of a run, or those under which the predicted batch ran."""
    rows = run.limits(changed=changed)
    counted = [limit for limit, fits in rows if not met or limit.ran == fits.largest]
    return exact("limits", "1", len(counted), run.file)


def bytes_beyond(run: Run, changed: bool = False) -> list[Quantity]:
    """Return the predicted bytes above the limit where a larger batch than predicted ran."""
    excess: list[Quantity] = []
    for limit, fits in run.limits(changed=changed):
        if limit.ran > fits.largest and limit.ran in fits.predicted:
            above = least(fits.predicted[limit.ran]) - (limit.mebibytes << 20)
            excess.append(exact("excess", "B", above, run.file))
    return excess


def within_slack(run: Run, changed: bool = False) -> Iterator[Statement]:
    """An image more may run where it exceeds the limit by less than the slack; none less may."""
    for limit, fits in run.limits(changed=changed):
        yield exact("images off", "1", limit.ran - fits.largest, run.file) > -1
    yield from (size < subject.ROOM + 1 for size in bytes_beyond(run, changed))


def lost_by_nesting(run: Run, extreme: str) -> Quantity:
    """Return the extreme share of the largest batch that nested stages cost."""
    ratios = run.frontier_ratios("nested").values()
    return EXTREMES[extreme](*(1 - ratio for ratio in ratios) if ratios else [NO_RATIO])


def gains_in_place(limit: Limit) -> bool:
    """Tell if ReLU in place was predicted to raise the largest batch."""
    return (limit.network, limit.layout) == ("AlexNet", COALESCED)


# ------------------------------------------------------------------------- tiles and times


def of_tile(run: Run, of: Of, tile: int) -> Quantity:
    """Divide a quantity of a call with tiles through a stage by that of the whole call."""
    return run.over_whole(of, "tiled_stages", tile)[0]


def of_tiles(run: Run, of: Of, extreme: str, form: str | None = None) -> Quantity:
    """Return the extreme ratio of tiled calls to whole ones."""
    return EXTREMES[extreme](*run.over_whole(of, form))


def time_in_half(run: Run, extreme: str) -> Quantity:
    """Return the extreme time of ResNet-20 in half precision over float32, over the batch."""
    times = []
    for exponent, precision in product(range(11), PRECISIONS[1:]):
        half, single = small(SHOWN, 2**exponent, precision), small(SHOWN, 2**exponent)
        times.append(run.time(half) / run.time(single))
    return EXTREMES[extreme](*times)


# ------------------------------------------------------------------ requested bytes on GPUs


class Allocated:
    """Calls on GPUs whose peak is known, with the first run that measured them."""

    def __init__(self, runs: Sequence[Run]) -> None:
        """Set the runs; of a call in several of them the first one's peak is used."""
        self.runs, self.by_call = runs, dict[Call, Run]()
        self.file = runs[0].file if runs else ""
        for run in runs:
            for call in run.chosen(tile=None):
                if not run.peak(call).missing:
                    self.by_call.setdefault(call, run)

    def peak(self, call: Call) -> Quantity:
        """Return the peak of a call (B)."""
        return self.by_call[call].peak(call) if call in self.by_call else NO_BYTES

    def ratio(self, call: Call) -> Quantity:
        """Divide the peak of a call by the peak of the contiguous call in float32."""
        return self.peak(call) / self.peak(small(call.network, call.batch))

    def over_tensors(self, call: Call) -> Quantity:
        """Divide the peak of a call by the bytes of its tensors alone."""
        return self.peak(call) / exact("tensors", "B", tensors_of(call))

    def ratios(
        self, network: str, precision: InferencePrecision, layout: Layout
    ) -> dict[int, Quantity]:
        """Return the ratio to float32, contiguous, by batch, where both were measured."""
        ratios = {}
        for call in self.by_call:
            if call == small(network, call.batch, precision, layout):
                ratio = self.ratio(call)
                if not ratio.missing:
                    ratios[call.batch] = ratio
        return dict(sorted(ratios.items()))

    def lacks_tensors(self) -> list[Quantity]:
        """Return 1 for each call whose history lacks a captured tensor, else 0."""
        lacking: list[Quantity] = []
        for call, run in self.by_call.items():
            if call.network in subject.NETWORKS:
                lacks = isinstance(run.copies(call), Missing)
                lacking.append(exact("history without tensors", "1", lacks, run.file))
        return lacking

    def copies(self, halved: bool, layout: Layout) -> tuple[Quantity, Quantity]:
        """Count workspaces of convolutions, and those of just copies; in one layout.

        ``halved`` selects the calls in reduced precision.
        """
        counts = []
        for call, run in self.by_call.items():
            counted = run.copies(call)
            chosen = call.layout == layout and (call.precision != "float32") == halved
            if chosen and not isinstance(counted, Missing):
                counts.append(counted)
        if not counts:
            none = absent("workspaces", "1", "no history of a GPU's allocator was recorded")
            return none, none
        totals = map(sum, zip(*counts, strict=True))
        workspaces, copies = (exact("workspaces", "1", total, self.file) for total in totals)
        return workspaces, copies

    def repeated(self) -> list[Quantity]:
        """Compare each peak that several GPUs measured: the largest less the smallest."""
        differences: list[Quantity] = []
        for call in self.by_call:
            known = [peak for run in self.runs if not (peak := run.peak(call)).missing]
            if len(known) > 1:
                differences.append(largest(*known) - smallest(*known))
        return differences


def tensors_of(call: Call) -> int:
    """Return the most bytes of live tensors in a call, without workspaces (B)."""
    network = theory.operators(call)
    assert not isinstance(network, Missing)
    return max(fixed + per_image * call.batch for fixed, per_image in network.live_bytes)


def half_of_parameters(network: str) -> Quantity:
    """Return the bytes of a copy of all parameters in half precision."""
    operators = theory.operators(small(network, 1))
    assert not isinstance(operators, Missing)
    return exact("half of the parameters", "B", 2 * operators.network.parameter_count)


def costly_batches(ratios: dict[int, Quantity]) -> str:
    """List the batches at which a setting costs over a tenth of memory, as ranges."""

    def costs(batch: int) -> bool:
        value = point(ratios[batch])
        return not isinstance(value, Missing) and value > 1 + MARGIN

    ranges = [[*batches] for costly, batches in groupby(ratios, key=costs) if costly]
    texts = []
    for batches in ranges:
        first, last = f"{batches[0]:,}", f"{batches[-1]:,}"
        texts.append(first if first == last else f"{first} to {last}")
    return ", ".join(texts) or "none"


#: The settings of the map on a GPU, by their names; bfloat16 differs for the CIFAR network alone.
MAPPED_SETTINGS: Final[dict[str, tuple[InferencePrecision, Layout]]] = {
    "channels last": ("float32", COALESCED),
    "float16": ("float16", LAYOUTS[0]),
    "bfloat16": ("bfloat16", LAYOUTS[0]),
}
