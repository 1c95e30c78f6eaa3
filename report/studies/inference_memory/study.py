"""All that the paper of inference_memory prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from statistics import median
from typing import Final

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.paper.findings import Inputs
from report.paper.machines import setup
from report.paper.study import Content, Part, Study, audit_row
from report.paper.tables import Table
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, absent, exact, recorded
from report.quantity.operations import largest, smallest
from report.quantity.verdicts import Several, any_of, trend
from report.studies.inference_memory import figures, source, theory
from report.studies.inference_memory.results import (
    NO_BYTES,
    NO_RATIO,
    Allocated,
    Of,
    Peaks,
    beyond,
    frontier_ratios,
    limits,
    line_batch,
    over_whole,
    peaks_of,
    reconciled,
    summed_batch,
    tiled,
)
from report.studies.inference_memory.rules import (
    DESCRIPTIONS,
    GPU_TABLE,
    ROOM,
    ROOM_ON_GPU,
    SIDE,
    RuleComparison,
)
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import (
    CHANGES,
    COALESCED,
    LAYOUTS,
    LEARNED,
    NETWORKS,
    PRECISIONS,
    REDUCED,
    RESNETS,
    SHOWN,
    TILED,
    InferencePrecision,
    Limit,
    check_subject,
    small,
)
from report.theory.conditions import Layout
from report.theory.fits import least
from report.theory.networks import layers_of
from report.theory.reconciliation import Reconciliation

#: Effects on time and memory below this share are no finding.
MARGIN: Final = 0.1
#: The batch whose memory the prose describes.
SHOWN_BATCH: Final = 256
#: The batches at which channels last takes most on the GPU.
SWELLING: Final = (128, 512, 1024)
#: The batches of the GPU's table; the source's lie among the first five.
TABLED: Final = (64, 128, 256, 512, 1024, 4096, 16_384)
#: Columns of the GPU's limits, and numbers of the worked line.
_SHARES: Final = ("Least (%)", "Median (%)", "Most (%)")
_WORKED: Final = ("line_limit", "line_batch", "line_counted", "line_ran")
#: AlexNet's largest batches with ReLU in place and before, under the tighter and the wider limit.
_MOVED: Final = (
    "in_place_tight", "in_place_tight_before", "in_place_wide", "in_place_wide_before",
)  # fmt: skip
#: Most are more than this share; the ends of claims in words.
_MOST, _QUARTER, _SIXTH = 0.5, 0.25, 1 / 6


class Paper:
    """The runs in their roles, and the source."""

    def __init__(self, inputs: Inputs) -> None:
        runs = inputs.runs(Run)
        self.inputs, self.runs = inputs, tuple(runs.values())
        cpu, second, gpu = (runs.get(role) for role in ("cpu", "second", "gpu"))
        self.cpu = cpu if cpu and not cpu.on_gpu else None
        self.second = second if second and not second.on_gpu else None
        self.gpu = gpu if gpu and gpu.on_gpu else None
        #: The CPU whose limits were measured, and the one on which layouts and tiles were tried.
        self.limited = self.cpu if self.cpu and self.cpu.limits else None
        self.varied = self.second or self.cpu
        #: The CPU on which networks with one allocation changed ran under limits.
        self.changed = next(filter(Run.has_changes, self.runs), None)
        self.rules = RuleComparison(inputs)
        on_gpus = [run for role, run in runs.items() if run.on_gpu and role != "gpu"]
        self.allocated = Allocated([self.gpu, *on_gpus] if self.gpu else on_gpus)

    def reconciliations(self) -> Iterator[Reconciliation]:
        """The peaks of both CPUs."""
        for run in (self.cpu, self.second):
            if run:
                yield from reconciled(run, "float32", REDUCED).values()


study = Study(Paper, check_subject, reconciliations=Paper.reconciliations)
findings = study.findings
printed: Part[Paper] = study.part("", "source")
on_gpu: Part[Paper] = study.part("", "gpu")
cpu: Part[Run] = study.part("cpu")
limited: Part[Run] = study.part("limited", "cpu")
varied: Part[Run] = study.part("varied", "cpu")
changed: Part[Run] = study.part("changed", "cpu")
compared: Part[RuleComparison] = study.part("rules", "others")
second: Part[Run] = study.part("second", "pair")
gpu: Part[Run] = study.part("gpu")
allocated: Part[Allocated] = study.part("allocated", "gpu")


def _device(run: Run) -> str:
    """Name the device, without the key that tells two machines with one GPU apart."""
    return markdown(run.short.partition(" (")[0] if run.on_gpu else run.short)


def _missed(run: Run) -> str:
    """List the networks, layouts and batches whose peak exceeds its bound."""
    batches: dict[str, list[str]] = {}
    for call in peaks_of(run).misses:
        name = f"{call.network} in {call.layout.replace('_', ' ')}"
        batches.setdefault(name, []).append(str(call.batch))
    return "; ".join(f"{name} (batch {', '.join(own)})" for name, own in batches.items())


@study.text()
def learned(p: Paper) -> str:
    return ", ".join(LEARNED)


@study.text()
def held_out(p: Paper) -> str:
    return ", ".join(n for n in NETWORKS if n not in LEARNED)


@printed.text()
def source_device(p: Paper) -> str:
    return markdown(p.inputs.reported.device)


@printed.text()
def source_software(p: Paper) -> str:
    return markdown(p.inputs.reported.software)


@printed.text()
def source_saved(p: Paper) -> str:
    low, high = (p.inputs.reported.value(f"amc_saving_{end}").number for end in ("low", "high"))
    return f"{low:g}–{high:g}"


cpu.texts(cpu=_device, missed=_missed)
second.texts(second=_device)
gpu.texts(gpu=_device)


# ------------------------------------------------------------------------------- peaks on a CPU


def _peaks(
    run: Run, count: Callable[[Peaks], Quantity], subset: Callable[[Peaks], Peaks] | None = None
) -> Quantity:
    """Count float32 peaks of a CPU, or those of a subset of networks."""
    peaks = peaks_of(run)
    return count(subset(peaks) if subset else peaks)


def _fall(run: Run) -> Quantity:
    """Divide the peak of one image by that of two."""
    return run.peak(small(SHOWN, 1)) / run.peak(small(SHOWN, 2))


def _layout_saved(run: Run) -> Quantity:
    return _settings(run, "float32, channels last")[0]


cpu.values(
    exact=partial(_peaks, count=Peaks.exact),
    compared=partial(_peaks, count=Peaks.compared),
    bounds=partial(_peaks, count=Peaks.bounds),
    held_exact=partial(_peaks, count=Peaks.exact, subset=Peaks.held_out),
    held_compared=partial(_peaks, count=Peaks.compared, subset=Peaks.held_out),
    vgg_exact=partial(_peaks, count=Peaks.exact, subset=Peaks.of_vgg),
    vgg_compared=partial(_peaks, count=Peaks.compared, subset=Peaks.of_vgg),
    fall=_fall,
)
cpu.values("percent", layout_saved=_layout_saved)
second.values(
    second_exact=partial(_peaks, count=Peaks.exact),
    second_compared=partial(_peaks, count=Peaks.compared),
)
study.constants("percent", confidence=exact("confidence, chosen", "1", CONFIDENCE))
study.constants(
    shown_batch=exact("batch size", "1", SHOWN_BATCH),
    **{f"at_{batch}": exact("batch size", "1", batch) for batch in TABLED},
)


@cpu.claim("Peaks of memory on a CPU are the predicted ones to the byte")
def peaks_exact(run: Run) -> Iterator[Statement]:
    for rest in peaks_of(run).rests(bounded=False):
        yield rest.exactly(0)


@cpu.claim("Where theory gives a bound, no peak on a CPU exceeds it")
def bounds_hold(run: Run) -> Iterator[Statement]:
    for rest in peaks_of(run).rests(bounded=True):
        yield rest > -1


# -------------------------------------------------------------------------- limits of memory


def _limits(run: Run) -> Quantity:
    return exact("limits", "1", len(limits(run)), run.file)


def _limits_met(run: Run) -> Quantity:
    met = sum(limit.ran == fits.largest for limit, fits in limits(run))
    return exact("limits met", "1", met, run.file)


def _beyond(run: Run) -> Quantity:
    return to_digits(largest(*beyond(run) or [NO_BYTES]), 2)


limited.values(limits=_limits, limits_met=_limits_met)
limited.values("measured", beyond=_beyond)
study.constants(
    room=exact("slack (KiB)", "1", theory.ROOM >> 10),
    mapped=exact("mapping threshold (KiB)", "1", theory.MAPPED >> 10),
)


@limited.claim("Under a real limit of memory the predicted largest batch runs, within the slack")
def limits_within(run: Run) -> Iterator[Statement]:
    yield from _within(run)


def _within(run: Run, changed: bool = False) -> Iterator[Statement]:
    """An image more may run where it exceeds the limit by less than the slack; none less may."""
    for limit, fits in limits(run, changed):
        yield exact("images off", "1", limit.ran - fits.largest, run.file) > -1
    yield from (size < theory.ROOM + 1 for size in beyond(run, changed))


@cpu.table("limits", wide=True, digits={"Left (MB)": 2, "Next above by (MB)": 2})
def limits_of_memory(run: Run) -> Iterator[Mapping[str, Content]]:
    for row in limits(run):
        (limit, fits), file = row, run.file
        size = {n: least(at) for n, at in fits.predicted.items()}
        yield {
            "Network": limit.network,
            "Layout": limit.layout.replace("_", " "),
            "Limit (MB)": exact("limit", "B", limit.bytes, file),
            "torchinfo": summed_batch(limit),
            "Line": line_batch(run, limit) or Missing("the peak falls from 2 to 4 images"),
            "Ours": fits.largest,
            "Ran": limit.ran,
            "Left (MB)": exact("left", "B", limit.bytes - size.get(fits.largest, 0), file),
            "Next above by (MB)": exact("above", "B", size[fits.largest + 1] - limit.bytes, file),
        }


# ------------------------------------------------------------------------- rules of other people


@study.mapping()
def _rules(p: Paper) -> dict[str, Quantity]:
    return p.rules.numbers()


study.constants(rule_side=exact("pixels a side", "1", SIDE))
study.constants(
    "measured",
    rule_room_least=exact("room", "B", ROOM[0]),
    rule_room_middle=exact("room", "B", ROOM[1]),
    rule_room_most=exact("room", "B", ROOM[2]),
    gpu_room_least=exact("room", "B", ROOM_ON_GPU[0]),
    gpu_room_most=exact("room", "B", ROOM_ON_GPU[1]),
    descriptions=exact("descriptions of kernels", "B", DESCRIPTIONS),
)


@study.mapping("percent")
def _rules_on_gpu(p: Paper) -> dict[str, Quantity]:
    return p.rules.shares_on_gpu()


@compared.table("gpu-limits", wide=True, digits=dict.fromkeys(_SHARES, 2))
def limits_on_gpu(comparison: RuleComparison) -> Iterator[Mapping[str, Content]]:
    for network, rows in comparison.by_network().items():
        shares = [100 * row.ran / row.predicted for row in rows]
        row: dict[str, Content] = {
            "Network": network,
            "Limits": len(rows),
            "Of training": sum(limit.mode == "training" for limit in rows),
        }
        for name, share in zip(_SHARES, (min(shares), median(shares), max(shares)), strict=True):
            row[name] = exact("share", "1", share / 100, f"inference_memory/{GPU_TABLE}")
        yield row


def _worked_line(run: Run) -> dict[str, Quantity]:
    """Compute the line of AlexNet under its larger limit, step by step."""
    own = [(limit, fits) for limit, fits in limits(run) if limit.network == "AlexNet"]
    own = [item for item in own if item[0].layout == "contiguous"]
    few, more = (run.peak(small("AlexNet", batch)) for batch in (2, 4))
    values = {"line_few": few, "line_more": more}
    if not own:
        none = absent("limit", "1", "AlexNet has no limit")
        return values | dict.fromkeys(_WORKED, none)
    limit, fits = max(own, key=_bytes_of_limit)
    met = line_batch(run, limit)
    numbers = limit.bytes, met or Missing("the line falls"), fits.largest, limit.ran
    for id, number in zip(_WORKED, numbers, strict=True):
        unit = "B" if id == "line_limit" else "1"
        values[id] = recorded(id.replace("_", " "), unit, number, run.file)
    return values


def _bytes_of_limit(item: tuple[Limit, object]) -> int:
    return item[0].bytes


def _of_line(run: Run, id: str) -> Quantity:
    return _worked_line(run)[id]


limited.values("measured", **{id: partial(_of_line, id=id) for id in ("line_few", "line_more")})
limited.values("measured", line_limit=partial(_of_line, id="line_limit"))
limited.values(**{id: partial(_of_line, id=id) for id in _WORKED[1:]})


@study.claim("Under limits of other networks on a CPU our batch runs, or one image less does")
def rules_ours(p: Paper) -> Iterator[Statement]:
    off = [row.ran - row.predicted["tensors"] for row in p.rules.outcomes]
    if off:
        yield exact("images less", "1", min(off)) > -2
        yield exact("images more", "1", max(off)) < 1


@study.claim("A line through the peaks of 2 and 4 images errs by more than a factor of two")
def rules_line(p: Paper) -> Iterator[Statement]:
    if ratios := p.rules.ratios("line"):
        yield exact("predicted over run", "1", ratios[-1]) > 2


@study.claim("The sum of torchinfo predicts less than half of the batch that runs, always")
def rules_sum(p: Paper) -> Iterator[Statement]:
    if ratios := p.rules.ratios("sum"):
        yield exact("predicted over run", "1", ratios[-1]) < _MOST


@study.claim("Most batches of the estimator torch-kitsune do not fit")
def rules_estimator(p: Paper) -> Iterator[Statement]:
    if ratios := p.rules.ratios("estimator"):
        yield exact("share too large", "1", sum(r > 1 for r in ratios) / len(ratios)) > _MOST


@study.claim("On a GPU three quarters of the predicted batch run at least, and never more than it")
def rules_gpu(p: Paper) -> Iterator[Statement]:
    if shares := p.rules.shares():
        yield exact("least share", "1", shares[0]) > 1 - _QUARTER
        yield exact("most of the prediction", "1", shares[-1]) < 1 + 1e-9


# ----------------------------------------------------------------------- one allocation changed


def _changes(run: Run, met: bool = False) -> Quantity:
    """Count the limits of changed networks, or those under which the predicted batch ran."""
    rows = limits(run, changed=True)
    counted = [limit for limit, fits in rows if not met or limit.ran == fits.largest]
    return exact("limits", "1", len(counted), run.file)


def _frontier(run: Run, change: str, most: bool) -> Quantity:
    """Return the extreme ratio of the largest batch with a change to that without."""
    ratios = frontier_ratios(run, change).values()
    return (largest if most else smallest)(*ratios or [NO_RATIO])


def _lost(run: Run, most: bool) -> Quantity:
    """Return the extreme share of the largest batch that nested stages cost."""
    return 1 - _frontier(run, "nested", not most)


def _moved(run: Run) -> Quantity:
    """Count the limits under which ReLU in place moves the largest batch."""
    plain = {limit.setting: limit.ran for limit, fits in limits(run)}
    count = 0
    for limit, _ in limits(run, changed=True):
        count += limit.change == "in_place" and plain.get(limit.setting) != limit.ran
    return exact("limits", "1", count, run.file)


def _in_place(run: Run) -> dict[str, Quantity]:
    """Return AlexNet's largest batches with and without ReLU in place, by limit."""
    batches: dict[str, Quantity] = {}
    for name, choose in (("tight", min), ("wide", max)):
        for suffix, rows in (("", limits(run, changed=True)), ("_before", limits(run))):
            own = [limit for limit, fits in rows if _gains(limit)]
            ran = choose((limit.ran for limit in own), default=0)
            id = f"in_place_{name}{suffix}"
            batches[id] = exact("largest batch", "1", ran, run.file)
    return batches


def _of_in_place(run: Run, id: str) -> Quantity:
    return _in_place(run)[id]


changed.texts(changed=_device)
changed.values(**{id: partial(_of_in_place, id=id) for id in _MOVED})
changed.values(
    changes=_changes,
    changes_met=partial(_changes, met=True),
    in_place_limits=_moved,
)
changed.values(
    "percent", nested_least=partial(_lost, most=False), nested_most=partial(_lost, most=True)
)


@changed.claim("With one allocation changed the newly predicted batch runs, within the slack")
def changes_within(run: Run) -> Iterator[Statement]:
    yield from _within(run, changed=True)


@changed.claim("ReLU in place raises the largest batch of AlexNet in channels last")
def in_place_gains(run: Run) -> Iterator[Statement]:
    for limit, ratio in frontier_ratios(run, "in_place").items():
        if _gains(limit):
            yield ratio > 1


@changed.claim("ReLU in place changes no largest batch elsewhere by more than one image")
def in_place_idle(run: Run) -> Iterator[Statement]:
    for limit, ratio in frontier_ratios(run, "in_place").items():
        if not _gains(limit):
            yield (ratio * limit.ran - limit.ran).near(0, 1)


@changed.claim("Nested stages cost a residual network a sixth to a quarter of its largest batch")
def nested_costs(run: Run) -> Iterator[Statement]:
    for ratio in frontier_ratios(run, "nested").values():
        yield 1 - ratio > _SIXTH
        yield 1 - ratio < _QUARTER


def _gains(limit: Limit) -> bool:
    return (limit.network, limit.layout) == ("AlexNet", COALESCED)


@changed.table("changes", wide=True)
def changes_of_networks(run: Run) -> Iterator[Mapping[str, Content]]:
    rows: dict[tuple[str, Layout, int], dict[str, Content]] = {}
    headings = product(("as written", *CHANGES.values()), ("ours", "ran"))
    empty = dict.fromkeys(map(", ".join, headings), Missing("the network has no stages"))
    for limit, fits in (*limits(run), *limits(run, changed=True)):
        words = CHANGES.get(limit.change, "as written")
        row = rows.setdefault(
            limit.setting,
            {
                "Network": limit.network,
                "Layout": limit.layout.replace("_", " "),
                "Limit (MB)": exact("limit", "B", limit.bytes, run.file),
                **empty,
            },
        )
        row |= {f"{words}, ours": fits.largest, f"{words}, ran": limit.ran}
    yield from rows.values()


# ----------------------------------------------------------------------------------- on a GPU


@on_gpu.mapping("percent")
def _saved(p: Paper) -> dict[str, Quantity]:
    saved = {f"saved_{batch}": p.allocated.saved(batch) for batch in TABLED if batch >= SHOWN_BATCH}
    return saved | {"saved_vgg": p.allocated.saved(2048, network="VGG-16")}


@on_gpu.mapping()
def _copy_counts(p: Paper) -> dict[str, Quantity]:
    """Count workspaces, and how many have the size of copies to a layout that kernels need."""
    counts: dict[str, Quantity] = {}
    for prefix, halved, layout in (("", True, LAYOUTS[0]), ("last_", False, COALESCED)):
        copies = p.allocated.copies(halved, layout)
        for id, count in (("workspaces", copies.taken), ("copies", copies.copies)):
            counts[f"{prefix}{id}"] = (
                exact("workspaces", "1", count, p.allocated.file)
                if copies.convolutions
                else absent("workspaces", "1", "no history of a GPU's allocator was recorded")
            )
    return counts


@on_gpu.mapping()
def _ratios(p: Paper) -> dict[str, Quantity]:
    """Compare peaks of ResNet-20: by layout, by precision, and from batch to batch."""
    peak, ratio = p.allocated.peak, p.allocated.ratio
    return {
        "last_peak": ratio(64, layout=COALESCED),
        **{f"last_{batch}": ratio(batch, layout=COALESCED) for batch in SWELLING},
        "last_most": largest(*p.allocated.ratios("float32", COALESCED) or [NO_BYTES]),
        "more_128": ratio(128, REDUCED),
        "most_128": ratio(128, "float16"),
        "weights_alexnet": ratio(1, REDUCED, network="AlexNet"),
        "weights_alexnet_16": ratio(16, REDUCED, network="AlexNet"),
        "weights_vgg": ratio(1, REDUCED, network="VGG-16"),
        "spike": peak(256) / peak(128),
        "spike_most": peak(16_384) / peak(4096),
    }


study.constants(
    kept_large=exact("workspace of cuBLAS", "1", theory.PERSISTENT[0] >> 20),
    kept_small=exact("workspace of cuBLASLt", "1", theory.PERSISTENT[1] >> 20),
)


def _split(p: Paper, met: bool = False) -> Quantity:
    count = p.allocated.split_met if met else len(p.allocated.split)
    return exact("calls with a map of more", "1", count)


def _right(run: Run, precision: InferencePrecision) -> Quantity:
    return _scored("recognized", run, sum(run.correct(precision)))


def _digits(run: Run) -> Quantity:
    return _scored("digits", run, len(run.correct("float32")))


def _scored(name: str, run: Run, count: int) -> Quantity:
    """Count digits; absent for a run that scored none."""
    if not run.correct("float32"):
        return absent(name, "1", "no digits were scored")
    return exact(name, "1", count, run.file)


def _persistent(run: Run) -> Quantity:
    return smallest(*(run.persistent(small(SHOWN, batch)) for batch in (64, 1024)))


def _repeated(p: Paper) -> Quantity:
    return exact("peaks measured on two GPUs", "1", len(p.allocated.repeated()))


def _half_time(run: Run, most: bool) -> Quantity:
    """Return the extreme ratio of the time of a call in half precision to that in float32."""
    times = []
    for exponent, precision in product(range(11), PRECISIONS[1:]):
        batch = 2**exponent
        half, single = small(SHOWN, batch, precision), small(SHOWN, batch)
        times.append(run.time(half) / run.time(single))
    return (largest if most else smallest)(*times)


on_gpu.values(split=_split, split_met=partial(_split, met=True), repeated=_repeated)
gpu.values(half_least=partial(_half_time, most=False), half_most=partial(_half_time, most=True))
gpu.values(digits=_digits, **{f"right_{p}": partial(_right, precision=p) for p in PRECISIONS})
gpu.values("measured", kept=_persistent)


@on_gpu.claim("Every allocator history of a GPU holds the tensors of theory, in order")
def tensors_requested(p: Paper) -> Iterator[Statement]:
    for history in p.allocated.histories():
        holds = not isinstance(history, Missing)
        yield exact("history of tensors", "1", holds, p.allocated.file).exactly(1)


@on_gpu.claim(
    "Most workspaces of a GPU copy tensors into its layout, and none do where they lie so"
)
def layout_copies(p: Paper) -> Iterator[Statement]:
    copied = (p.allocated.copies(True, LAYOUTS[0]), p.allocated.copies(False, COALESCED))
    plain = p.allocated.copies(False, LAYOUTS[0])
    if not plain.convolutions or not all(copies.taken for copies in copied):
        return
    for copies in copied:
        share = copies.copies / copies.taken
        yield exact("share of copies", "1", share, p.allocated.file) > _MOST
    yield exact("copies", "1", plain.copies, p.allocated.file).exactly(0)


@on_gpu.claim("Half precision costs more than a tenth of memory at batch 128 on a GPU")
def precision_costs(p: Paper) -> Iterator[Statement]:
    for precision in (REDUCED, "float16"):
        yield p.allocated.ratio(128, precision) > 1 + MARGIN


@on_gpu.claim("Channels last more than doubles ResNet-20's peak on a GPU at three batch sizes")
def layout_costs(p: Paper) -> Iterator[Statement]:
    for batch in SWELLING:
        yield p.allocated.ratio(batch, layout=COALESCED) > 2


@on_gpu.claim("For one image half precision takes a third more memory, for copies of weights")
def weights_cost(p: Paper) -> Iterator[Statement]:
    """The growth is the parameters' half, within a tenth of it."""
    for network in ("AlexNet", "VGG-16"):
        captured = theory.network(small(network, 1))
        assert not isinstance(captured, Missing)
        halves = exact("half of the parameters", "B", 2 * captured.network.parameter_count)
        grown = p.allocated.peak(1, REDUCED, network) - p.allocated.peak(1, network=network)
        yield p.allocated.ratio(1, REDUCED, network=network) > 1 + 1 / 3
        yield (grown / halves).near(1, MARGIN)


@on_gpu.claim("Three GPUs of one model request the same peaks, to the byte")
def peaks_repeat(p: Paper) -> Iterator[Statement]:
    for difference in p.allocated.repeated():
        yield difference.exactly(0)


@on_gpu.claim("Most large batches copy as many images as an index can name, within a thousandth")
def batch_split(p: Paper) -> Iterator[Statement]:
    if p.allocated.split:
        share = p.allocated.split_met / len(p.allocated.split)
        yield exact("share of calls", "1", share, p.allocated.file) > _MOST


@on_gpu.claim("A GPU's peak of memory grows with every batch size of the source")
def memory_monotone(p: Paper) -> Several:
    return trend({batch: p.allocated.peak(batch) for batch in TABLED[:5]}, rising=True)


@on_gpu.table()
def copies(p: Paper) -> Iterator[Mapping[str, Content]]:
    for network, halved, layout in product(NETWORKS, (False, True), LAYOUTS):
        copies = p.allocated.copies(halved, layout, network)
        if copies.convolutions:
            yield {
                "Network": network,
                "Precision": "half" if halved else "float32",
                "Layout": layout.replace("_", " "),
                "Calls": copies.calls,
                "Convolutions": copies.convolutions,
                "Workspace": copies.taken,
                "Copies": copies.copies,
            }


@on_gpu.table(wide=True, digits={"Channels last": 3, "bfloat16": 3, "float16": 3})
def cost(p: Paper) -> Iterator[Mapping[str, Content]]:
    for network, batch in product(figures.MAPPED, (2**n for n in range(15))):
        if not p.allocated.peak(batch, network=network).missing:
            yield {
                "Network": network,
                "Batch": batch,
                "float32 (MB)": p.allocated.peak(batch, network=network),
                "Channels last": p.allocated.ratio(batch, layout=COALESCED, network=network),
                "bfloat16": p.allocated.ratio(batch, REDUCED, network=network),
                "float16": p.allocated.ratio(batch, "float16", network=network),
            }


@on_gpu.table(wide=True)
def workspace(p: Paper) -> Iterator[Mapping[str, Content]]:
    for batch in TABLED if p.allocated.runs else ():
        row: dict[str, Content] = {"Batch": batch}
        for precision in PRECISIONS:
            history = p.allocated.history(batch, precision)
            for name in ("tensors", "workspace"):
                row[f"{precision}, {name} (MB)"] = (
                    absent(name, "B", history.reason)
                    if isinstance(history, Missing)
                    else exact(name, "B", getattr(history, name), p.allocated.file)
                )
            if precision != "float32":
                row[f"{precision}, saved (%)"] = p.allocated.saved(batch, precision)
        yield row


# ------------------------------------------------------------- layout and precision on a CPU

#: What is changed of a contiguous call in float32, in words.
_SETTINGS: Final[dict[str, tuple[InferencePrecision, Layout]]] = {
    "float32, channels last": ("float32", COALESCED),
    "bfloat16, contiguous": (REDUCED, "contiguous"),
    "bfloat16, channels last": (REDUCED, COALESCED),
}


def _settings(run: Run, name: str) -> list[Quantity]:
    """Compute the share of each residual network's peak that a setting saves."""
    calls = [small(network, SHOWN_BATCH, *_SETTINGS[name]) for network in RESNETS]
    return [1 - run.peak(call) / run.peak(small(call.network, SHOWN_BATCH)) for call in calls]


def _saved_by(run: Run, name: str, most: bool) -> Quantity:
    """Return the extreme share of the residual networks' peaks that a setting saves."""
    return (largest if most else smallest)(*_settings(run, name))


for _id, _name in zip(("last", "half", "both"), _SETTINGS, strict=True):
    varied.values(
        "percent",
        **{
            f"saved_{_id}_least": partial(_saved_by, name=_name, most=False),
            f"saved_{_id}_most": partial(_saved_by, name=_name, most=True),
        },
    )


@varied.claim("Peaks of every layout and precision on a CPU are the predicted ones to the byte")
def layout_predicted(run: Run) -> Iterator[Statement]:
    for network, how in product(RESNETS, _SETTINGS.values()):
        call = small(network, SHOWN_BATCH, *how)
        yield (run.peak(call) - run.predicted_peak(call)).exactly(0)


@varied.claim("Layout and precision together save over a tenth more than either, of every network")
def both_save(run: Run) -> Iterator[Statement]:
    *others, both = (_settings(run, name) for name in _SETTINGS)
    for other in reversed(others):
        yield from (new / old > 1 + MARGIN for new, old in zip(both, other, strict=True))


# -------------------------------------------------------------------------------------- tiles


def _of_tile(run: Run, of: Of, tile: int, form: str = "tiled_stages") -> Quantity:
    """Divide a number of a tiled call by that of the whole one."""
    return over_whole(run, of, form, tile)[0]


def _of_tiled(run: Run, name: str) -> Quantity:
    """Return an attribute that all tiled calls share."""
    calls = tiled(run)
    return exact(name, "1", getattr(calls[0], name), run.file) if calls else NO_RATIO


def _tile(run: Run, side: int) -> Quantity:
    return exact("tile", "1", side, run.file)


def _extreme(
    run: Run, of: Of, most: bool, form: str | None = None, saved: bool = False
) -> Quantity:
    """Return the extreme ratio of tiled calls to whole ones, or of the share that they save."""
    ratios = over_whole(run, of, form)
    extreme = largest(*ratios) if most != saved else smallest(*ratios)
    return 1 - extreme if saved else extreme


_layers = partial(_extreme, of=Run.peak, form="tiled_layers", saved=True)
_stages = partial(_extreme, of=Run.peak, form="tiled_stages", saved=True)
varied.values(
    "percent",
    tile_small_peak=partial(_of_tile, of=Run.peak, tile=8),
    tile_large_peak=partial(_of_tile, of=Run.peak, tile=64),
    layers_least=partial(_layers, most=False),
    layers_most=partial(_layers, most=True),
)
varied.values(
    tile_side=partial(_of_tiled, name="image"),
    tile_batch=partial(_of_tiled, name="batch"),
    tile_least=partial(_tile, side=8),
    tile_most=partial(_tile, side=64),
    tile_layer_time=partial(_of_tile, of=Run.time, tile=8, form="tiled_layers"),
    tile_small_time=partial(_of_tile, of=Run.time, tile=8),
    tile_large_time=partial(_of_tile, of=Run.time, tile=64),
)
gpu.values(
    gpu_tile_least=partial(_extreme, of=Run.time, most=False),
    gpu_tile_most=partial(_extreme, of=Run.time, most=True),
    gpu_tile_batch=partial(_of_tiled, name="batch"),
)
gpu.values(
    "percent",
    gpu_stages_least=partial(_stages, most=False),
    gpu_stages_most=partial(_stages, most=True),
)


@varied.claim("In all forms of tiling a larger tile is faster")
def tile_time(run: Run) -> Iterator[Statement | Several]:
    for form in TILED:
        over = {call.tile: run.time(call) for call in tiled(run, form) if call.tile}
        if len(over) > 1:
            yield from trend(over, rising=False).statements


@varied.claim("Some form of tiling saves more than a tenth of the time")
def tile_pays(run: Run) -> Several:
    return any_of(*(t < 1 - MARGIN for t in over_whole(run, Run.time)))


@varied.claim("Small tiles save over a tenth of the peak and cost over a tenth of the time")
def tile_trades(run: Run) -> Iterator[Statement]:
    yield _of_tile(run, Run.peak, 8) < 1 - MARGIN
    yield _of_tile(run, Run.time, 8) > 1 + MARGIN


# ------------------------------------------------------------------------- speed-up by layout


def _layout_gain(run: Run, network: str) -> Quantity:
    """Return the largest speed-up of a network by channels last over the batch."""
    gains = []
    for batch in (2**n for n in range(11)):
        plain, last = (small(network, batch, layout=layout) for layout in LAYOUTS)
        if {plain, last} <= {*run.calls} and not run.time(last).missing:
            gains.append(run.time(plain) / run.time(last))
    return largest(*gains or [NO_RATIO])


varied.values(
    lenet_gain=partial(_layout_gain, network="LeNet-5"),
    alexnet_gain=partial(_layout_gain, network="AlexNet"),
)
gpu.values(gpu_lenet_gain=partial(_layout_gain, network="LeNet-5"))


@printed.value()
def source_lenet(p: Paper) -> Quantity:
    first, *_ = p.inputs.reported.table("speedups").column("speedup")
    assert isinstance(first, float)
    return exact("printed speed-up", "1", first, p.inputs.reported_file)


# ------------------------------------------------------------------------------------- figures


cpu.figure(height=1.9)(figures.peaks)
compared.figure(key=True, height=2.2)(figures.rules)
allocated.figure(height=2.2, wide=True)(figures.cost)
varied.figure(height=2.0)(figures.tiling)


# ---------------------------------------------------------------------------------- supplement


@study.table(wide=True)
def networks(p: Paper) -> Iterator[Mapping[str, Content]]:
    for name in NETWORKS:
        captured = theory.network(small(name, 1))
        assert not isinstance(captured, Missing)
        yield {
            "Network": name,
            "Image (pixels a side)": small(name, 1).image,
            "Channels": layers_of(name, small(name, 1).image)[0].input_shape[1],
            "Parameters": captured.network.parameter_count,
            "Multiply-adds": exact("multiply-adds", "MAC", captured.per_image),
            "Rules found on it": "yes" if name in LEARNED else "no, held out",
        }


@study.table(wide=True)
def audit(p: Paper) -> Iterator[Mapping[str, Content]]:
    for row in source.checks(p.inputs.reported):
        yield audit_row(p, row)


#: Everything that the source shows, what we did with it, and the result.
_ACCOUNT: Final = (
    ("Fig. 1, top; total time over batch", "prints no values, times its GPUs", "out of reach"),
    ("Fig. 1, bottom; peak grows with the batch", "another GPU and cuDNN", "not general"),
    ("Fig. 2; time over depth, utilization", "prints no values", "out of reach"),
    (
        "Fig. 3, top; time in FP16",
        "ResNet-20, one process on a GPU",
        "bfloat16 faster at one batch",
    ),
    ("Fig. 3, bottom; average memory in FP16", "peaks on a GPU", "saves or costs, by batch"),
    ("Fig. 4; accuracy in FP16", "inference on digits, ResNet-20", "no loss"),
    ("Fig. 5, top; time with AMP + AMC", "AMC is undefined", "not tested"),
    ("Fig. 5, bottom; peak with AMP + AMC", "both settings on a CPU alone", "save more together"),
    ("Section III-B; Mini-ImageNet", "random images of the size", "bytes need no values"),
    ("Fig. 6; larger tiles are faster", "crops on a CPU, another batch", "agrees"),
    ("Fig. 6; memory rises with the tile", "crops on a CPU, another batch", "agrees"),
    ("Fig. 6; tiles are effective", "crops on a CPU and a GPU", "saves memory, never time"),
    ("Fig. 7; speed-ups by layout, of others", "channels last on a CPU and a GPU", "not found"),
    ("Sections III, V; waits", "few values are printed", "out of reach"),
)


@study.table("source", wide=True)
def account(p: Paper) -> Iterator[Mapping[str, Content]]:
    for row in _ACCOUNT:
        yield dict(zip(("In the source", "Here", "Result"), row, strict=True))


@study.shared_table()
def machines(p: Paper) -> Table:
    return setup([run for run in p.runs if not run.on_gpu] or p.runs)


@study.shared_table()
def machines_with_gpu(p: Paper) -> Table | None:
    on_gpus = [run for run in p.runs if run.on_gpu]
    return replace(setup(on_gpus), id="tbl-gpus") if 0 < len(on_gpus) < len(p.runs) else None
