"""All that the paper of inference_memory prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final, NamedTuple

from figures.scaling import Scaling
from report.evidence.audit import printed_value
from report.evidence.runs import run_of
from report.missing import Missing
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.machine_comparison import Comparison
from report.paper.study import Content, Study, audit_row
from report.quantity.expression import Quantity, absent, exact, named
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Several, Statement, all_of, any_of, trend
from report.statistics.estimates import CONFIDENCE
from report.studies.inference_memory import figures, reconciled, source, theory
from report.studies.inference_memory.runs import History, Run, runs
from report.studies.inference_memory.subject import (
    COALESCED,
    LAYOUTS,
    LEARNED,
    NETWORKS,
    PRECISIONS,
    REDUCED,
    RESNETS,
    TILED,
    Call,
    Limit,
    Precision,
    check_subject,
)
from report.text.escape import markdown
from report.theory.conditions import Layout
from report.theory.fits import Fits, least
from report.theory.reconciliation import Reconciliation

#: Effects on time and memory below this share are no finding.
MARGIN: Final = 0.1
#: A loss of accuracy below this is none: a percentage point.
ACCURACY_MARGIN: Final = 0.01
#: The network and the batch whose memory the prose describes.
SHOWN: Final = "ResNet-20"
SHOWN_BATCH: Final = 256
#: The networks whose workspaces are drawn: of small maps, and of large ones.
DRAWN: Final = ("ResNet-20", "VGG-16")
#: Those that are timed.
TIMED: Final = (RESNETS[0], RESNETS[-1])
#: The batches of the GPU's table.
TABLED: Final = (64, 128, 256, 512, 1024, 4096, 16_384)
_PERCENT: Final = 100
#: Most workspaces are more than this share of them.
_MOST: Final = 0.5
_NOTHING: Final = absent("bytes", "B", "no such call was measured")
_NO_RATIO: Final = absent("ratio", "1", "no such call was measured")


class Paper:
    """The runs in their roles, and the source."""

    def __init__(self, inputs: Inputs) -> None:
        """Raises ``StudyError`` for a record that does not fit the study."""
        for stored in inputs.records:
            check_subject(stored)
        self.inputs = inputs
        self.file = inputs.files[0] if inputs.files else ""
        self.runs = runs(inputs.records)
        roles = (run_of(inputs.cast.get(r), self.runs) for r in ("cpu", "second", "gpu", "third"))
        cpu, second, gpu, third = roles
        self.cpu = cpu if cpu and not cpu.on_gpu else None
        self.second = second if second and not second.on_gpu else None
        self.gpu = gpu if gpu and gpu.on_gpu else None
        self.gpus = [run for run in (self.gpu, third) if run and run.on_gpu]

    @property
    def clock(self) -> Run | None:
        """The CPU whose times are told: the second, which timed each case, if it timed tiles."""
        return self.second if self.second and _tiled(self.second) else self.cpu

    @cached_property
    def allocated(self) -> dict[Call, Run]:
        """The calls on a GPU whose peak is known, each with the first run that measured it."""
        found: dict[Call, Run] = {}
        for run in self.gpus:
            for call in run.chosen(tile=None):
                if not run.peak(call).missing:
                    found.setdefault(call, run)
        return found

    def on_gpu(
        self, batch: int, precision: Precision = "float32", network: str = SHOWN
    ) -> Quantity:
        """The peak of a call of small images on a GPU."""
        call = small(network, batch, precision)
        return self.allocated[call].peak(call) if call in self.allocated else _NOTHING

    def history(self, batch: int, precision: Precision = "float32") -> History | Missing:
        """What the GPU's allocator was asked for in that call."""
        call = small(SHOWN, batch, precision)
        if call not in self.allocated:
            return Missing("no such call was measured")
        return self.allocated[call].history(call)

    def saved(self, batch: int, precision: Precision = REDUCED, network: str = SHOWN) -> Quantity:
        """The share of the float32 peak that reduced precision saves on a GPU."""
        new, old = (self.on_gpu(batch, p, network) for p in (precision, "float32"))
        return named("saved share", 1 - new / old)


def small(network: str, batch: int, precision: Precision = "float32") -> Call:
    """A call of whole maps, channel by channel, on images of the network's own size."""
    side = 224 if network in ("AlexNet", "VGG-16") else 32
    return Call(network, side, batch, precision=precision)


study = Study(Paper)
findings = study.findings


@study.reconciliations
def _reconciliations(p: Paper) -> Iterator[Reconciliation]:
    for run in (p.cpu, p.second):
        if run:
            yield from reconciled.peaks(run, "float32", REDUCED).values()


# -------------------------------------------------------------------------------------- texts

study.texts(
    {
        "source_device": lambda p: markdown(p.inputs.reported.device),
        "source_software": lambda p: markdown(p.inputs.reported.software),
        "cpu": lambda p: markdown(p.cpu.short) if p.cpu else "",
        "second": lambda p: markdown(p.second.short) if p.second else "",
        "gpu": lambda p: markdown(p.gpu.short) if p.gpu else "",
        "learned": lambda p: ", ".join(LEARNED),
        "tiles": lambda p: _tile_sizes(p.clock),
        "held_out": lambda p: ", ".join(n for n in NETWORKS if n not in LEARNED),
    }
)


# ------------------------------------------------------------------------------- peaks on a CPU


def _at(batch: int) -> Callable[[Paper], Quantity]:
    return lambda p: exact("batch size", "1", batch)


def _whole_number(name: str, value: int, run: Run) -> Quantity:
    return exact(name, "1", value, run.file)


def _peaks(run: Run, *, held_out: bool = False) -> dict[Call, Reconciliation]:
    found = reconciled.peaks(run, "float32")
    return {c: r for c, r in found.items() if not held_out or c.network not in LEARNED}


def _exact(run: Run, *, held_out: bool = False) -> Quantity:
    met = sum(each.residual == 0 for each in _peaks(run, held_out=held_out).values())
    return _whole_number("peaks predicted to the byte", met, run)


def _compared(run: Run, *, held_out: bool = False) -> Quantity:
    return _whole_number("peaks compared", len(_peaks(run, held_out=held_out)), run)


def exact_share(run: Run) -> Quantity:
    """The share of float32 peaks that theory predicts to the byte."""
    found = _compared(run)
    return _exact(run) / found if _peaks(run) else _NO_RATIO


def _missed(run: Run) -> Quantity:
    """The largest share of a float32 peak that theory misses."""
    shares = [r.residual_share for r in _peaks(run).values()]
    known = [exact("share", "1", s, run.file) for s in shares if not isinstance(s, Missing)]
    return named("missed share", at_least(*known)) if known else _NO_RATIO


#: What many machines are compared by.
COMPARED: Final[Comparison[Run]] = Comparison(Run, "Peaks predicted to the byte (%)", exact_share)


def _misses(run: Run) -> dict[Call, Reconciliation]:
    return {call: r for call, r in _peaks(run).items() if r.residual != 0}


def _ratio(run: Run, above: Call, below: Call) -> Quantity:
    return run.peak(above) / run.peak(below)


def _layout_saved(run: Run) -> Quantity:
    base = small(SHOWN, SHOWN_BATCH)
    return run.saved(replace(base, layout=COALESCED), base)


def _workspace(run: Run) -> Quantity:
    """The share of workspace in a predicted peak."""
    found = run.predicted(small(SHOWN, SHOWN_BATCH))
    if isinstance(found, Missing):
        return absent("share of workspace", "1", found.reason)
    return exact("share of workspace", "1", found.workspace / found.total, run.file)


study.values(
    {
        "exact": _exact,
        "compared": _compared,
        "held_exact": lambda run: _exact(run, held_out=True),
        "held_compared": lambda run: _compared(run, held_out=True),
        "misses": lambda run: _whole_number("peaks missed", len(_misses(run)), run),
        "shown_batch": lambda run: _whole_number("batch described", SHOWN_BATCH, run),
        "measurements": lambda run: run.rounds(disturbed=False),
        "disturbed": lambda run: run.rounds(disturbed=True),
        "fall": lambda run: _ratio(run, small(SHOWN, 1), small(SHOWN, 2)),
    },
    of=lambda p: p.cpu,
)
study.values(
    {"missed": _missed, "layout_saved": _layout_saved, "workspace": _workspace},
    "percent",
    of=lambda p: p.cpu,
)
study.values({"second_exact": _exact, "second_compared": _compared}, of=lambda p: p.second)
study.values({"confidence": lambda p: exact("confidence, chosen", "1", CONFIDENCE)}, "percent")
study.values({"networks": lambda p: exact("networks", "1", len(NETWORKS))})
study.values({f"at_{n}": _at(n) for n in (64, 128, 256, 512, 1024, 2048, 4096)})


@study.claim("peaks-exact", of=lambda p: p.cpu)
def _peaks_exact(run: Run) -> Several:
    rests: list[Quantity] = [
        exact("residual", "B", r.residual, run.file)
        for call, r in _peaks(run).items()
        if not isinstance(r.residual, Missing) and call not in _bounded(run)
    ]
    return all_of(*(rest.exactly(0) for rest in rests or [_NOTHING]))


def _bounded(run: Run) -> set[Call]:
    """The calls in which a layer has no rule, so that their prediction is a lower bound."""
    found = {call: run.predicted(call) for call in _peaks(run)}
    return {call for call, p in found.items() if not isinstance(p, Missing) and not p.complete}


@study.claim("bounds-hold", of=lambda p: p.cpu)
def _bounds(run: Run) -> Several:
    rests = (r.residual for call, r in _peaks(run).items() if call in _bounded(run))
    known: list[Quantity] = [
        exact("residual", "B", r, run.file) for r in rests if not isinstance(r, Missing)
    ]
    return all_of(*(rest > -1 for rest in known or [_NOTHING]))


# ------------------------------------------------------------------------------- real limits


def _limits(run: Run) -> list[tuple[Limit, Fits]]:
    found = ((limit, theory.fits(limit, run.stored.record.environment)) for limit in run.limits)
    return [(limit, fits) for limit, fits in found if not isinstance(fits, Missing)]


def _beyond(run: Run) -> dict[Limit, int]:
    """By how much what ran exceeds the limit by theory (B), where more ran than was predicted."""
    return {
        limit: least(fits.predicted[limit.ran]) - limit.bytes
        for limit, fits in _limits(run)
        if limit.ran > fits.largest and limit.ran in fits.predicted
    }


def _most_beyond(run: Run) -> Quantity:
    sizes = [exact("excess", "B", size, run.file) for size in _beyond(run).values()]
    return at_least(*sizes) if sizes else absent("excess", "B", "every limit was met")


def _limited(p: Paper) -> Run | None:
    return p.cpu if p.cpu and p.cpu.limits else None


study.values(
    {
        "limits": lambda run: _whole_number("limits", len(_limits(run)), run),
        "limits_met": lambda run: _whole_number(
            "limits met", sum(limit.ran == f.largest for limit, f in _limits(run)), run
        ),
    },
    of=_limited,
)
study.values(
    {
        "beyond": _most_beyond,
        "room": lambda run: exact("room", "B", theory.ROOM, run.file),
    },
    "measured",
    of=_limited,
)


@study.claim("limits-within", of=_limited)
def _limits_within(run: Run) -> Several:
    # An image more may run where it exceeds the limit by less than the room; none less may.
    images = [exact("images off", "1", lim.ran - f.largest, run.file) for lim, f in _limits(run)]
    sizes = [exact("excess", "B", size, run.file) for size in _beyond(run).values()]
    return all_of(*(each > -1 for each in images), *(size < theory.ROOM + 1 for size in sizes))


@study.table("tbl-limits", rows=lambda p: _limits(p.cpu) if p.cpu else ())
def _tbl_limits(p: Paper, row: tuple[Limit, Fits]) -> dict[str, Content]:
    assert p.cpu is not None
    (limit, fits), file = row, p.cpu.file
    size = {n: least(at) for n, at in fits.predicted.items()}
    return {
        "Network": limit.network,
        "Layout": limit.layout.replace("_", " "),
        "Limit (MB)": exact("limit", "B", limit.bytes, file),
        "Predicted": fits.largest,
        "Ran": limit.ran,
        "Refused": limit.refused,
        "Left (MB)": exact("left", "B", limit.bytes - size.get(fits.largest, 0), file),
        "Next above by (MB)": exact("above", "B", size[fits.largest + 1] - limit.bytes, file),
    }


# ------------------------------------------------------------------- reduced precision on a CPU


def _settings(run: Run, **change: str) -> list[Quantity]:
    """What a change saves of the peak of each residual network at the batch that is described."""
    bases = [small(network, SHOWN_BATCH) for network in RESNETS]
    return [run.saved(replace(base, **change), base) for base in bases]  # type: ignore[arg-type]


study.values(
    {
        "half_least": lambda run: at_most(*_settings(run, precision=REDUCED)),
        "half_most": lambda run: at_least(*_settings(run, precision=REDUCED)),
        "both_least": lambda run: at_most(*_settings(run, precision=REDUCED, layout=COALESCED)),
        "both_most": lambda run: at_least(*_settings(run, precision=REDUCED, layout=COALESCED)),
    },
    "percent",
    of=lambda p: p.second,
)


@study.claim("amc-memory", of=lambda p: p.second)
def _amc_memory(run: Run) -> Several:
    both = _settings(run, precision=REDUCED, layout=COALESCED)
    return all_of(*(saved > 0.45 for saved in both))


# ----------------------------------------------------------------------------------- on a GPU


def _gpu_split(p: Paper, batch: int, precision: Precision = "float32") -> Quantity:
    """The share of workspace in what a call allocates at its peak."""
    found = p.history(batch, precision)
    if isinstance(found, Missing):
        return absent("share of workspace", "1", found.reason)
    return exact(
        "share of workspace",
        "1",
        found.workspace / (found.tensors + found.workspace),
        p.file,
    )


class Copies(NamedTuple):
    """Convolutions on a GPU, those with a workspace, and those whose workspace is just copies."""

    convolutions: int
    taken: int
    copies: int


def _copies(p: Paper, halved: bool, layout: Layout) -> Copies:
    """Of all calls in float32 or in half precision, in one layout."""
    found = [
        run.copies(call)
        for call, run in p.allocated.items()
        if call.layout == layout and (call.precision != "float32") == halved
    ]
    return Copies(*(sum(column) for column in zip((0, 0, 0), *found, strict=True)))


def _copy_values(halved: bool, layout: Layout, part: int) -> Callable[[Paper], Quantity]:
    def value(p: Paper) -> Quantity:
        found = _copies(p, halved, layout)
        if not found.convolutions:
            return absent("workspaces", "1", "no history of a GPU's allocator was recorded")
        return exact("workspaces", "1", found[part], p.file)

    return value


@study.claim("layout-copies")
def _layout_copies(p: Paper) -> Several:
    """Where the layout is not that of the kernels, most workspaces are copies; else none is."""
    strange = [_copies(p, True, LAYOUTS[0]), _copies(p, False, COALESCED)]
    plain = _copies(p, False, LAYOUTS[0])
    if not all(each.taken for each in strange) or not plain.convolutions:
        return all_of(_NO_RATIO > 0)
    shares = [exact("share of copies", "1", each.copies / each.taken) for each in strange]
    none = exact("copies", "1", plain.copies).exactly(0)
    return all_of(*(share > _MOST for share in shares), none)


@study.table(
    "tbl-copies",
    rows=lambda p: [
        (halved, layout)
        for halved in (False, True)
        for layout in LAYOUTS
        if _copies(p, halved, layout).convolutions
    ],
)
def _tbl_copies(p: Paper, row: tuple[bool, Layout]) -> dict[str, Content]:
    found = _copies(p, *row)
    return {
        "Precision": "half" if row[0] else "float32",
        "Layout": row[1].replace("_", " "),
        "Convolutions": found.convolutions,
        "With workspace": found.taken,
        "Just copies": found.copies,
    }


def _cap(p: Paper) -> Quantity:
    """The largest workspace of a convolution in 16 bits."""
    found = [run.history(call) for call, run in p.allocated.items() if call.precision != "float32"]
    sizes = [size for h in found if not isinstance(h, Missing) for _, size in h.workspaces]
    return exact("largest workspace", "B", max(sizes), p.file) if sizes else _NOTHING


def _last_peak(p: Paper) -> Quantity:
    """The float32 peak in channels last over the contiguous one."""
    call = replace(small(SHOWN, 64), layout=COALESCED)
    return p.allocated[call].peak(call) / p.on_gpu(64) if call in p.allocated else _NO_RATIO


def _predicted_saved(p: Paper) -> Quantity:
    """What 16 bits would save of the peak if nothing but tensors were beside what is kept."""
    half, base = (p.history(1024, precision) for precision in (REDUCED, "float32"))
    if isinstance(half, Missing) or isinstance(base, Missing):
        return _NO_RATIO
    less = base.tensors + base.workspace - half.tensors
    return exact("bytes less", "B", less, p.file) / p.on_gpu(1024)


def _predicted_tensors(p: Paper) -> Quantity:
    """The same of what lies beyond the kept blocks."""
    if not p.gpu:
        return _NO_RATIO
    peak = p.on_gpu(1024)
    return _predicted_saved(p) * peak / (peak - p.gpu.kept(small(SHOWN, 1024)))


def _requests(p: Paper) -> list[tuple[int, int, int]]:
    """What the requests of each call add up to, the requested and the allocated growth (B)."""
    found = []
    for call, run in p.allocated.items():
        history = run.history(call)
        sizes = [
            run.grown(f"{kind}_peak", call.factors, since=f"{kind}_before")
            for kind in ("requested", "allocated")
        ]
        if not isinstance(history, Missing) and not any(isinstance(n, Missing) for n in sizes):
            found.append((history.tensors + history.workspace, *sizes))
    return found  # type: ignore[return-value]


def _rounding(p: Paper) -> Quantity:
    """The most that blocks exceed requests."""
    found = [allocated - requested for _, requested, allocated in _requests(p)]
    return exact("rounding", "B", max(found), p.file) if found else _NOTHING


@study.claim("requests-exact")
def _requests_exact(p: Paper) -> Several:
    rests: list[Quantity] = [exact("rest", "B", want - added) for added, want, _ in _requests(p)]
    return all_of(*(rest.exactly(0) for rest in rests or [_NOTHING]))


def _reported(id: str) -> Callable[[Paper], Quantity]:
    return lambda p: printed_value(p.inputs.reported, id).quantity(
        "1", p.inputs.reported_file, 1 / _PERCENT
    )


study.values(
    {
        "reported_low": _reported("amc_saving_low"),
        "reported_high": _reported("amc_saving_high"),
    },
    "percent",
)
study.values(
    {
        "saved_64": lambda p: p.saved(64),
        "saved_256": lambda p: p.saved(256),
        "saved_512": lambda p: p.saved(512),
        "vgg_saved_512": lambda p: p.saved(512, network="VGG-16"),
        "vgg_saved_2048": lambda p: p.saved(2048, network="VGG-16"),
        "spike_share": lambda p: _gpu_split(p, 256),
        "predicted_saved": _predicted_saved,
        "predicted_tensors": _predicted_tensors,
        "dip_share": lambda p: 1 - p.on_gpu(512) / p.on_gpu(256),
    },
    "percent",
)
study.values(
    {
        "workspaces": _copy_values(True, LAYOUTS[0], 1),
        "copies": _copy_values(True, LAYOUTS[0], 2),
        "last_workspaces": _copy_values(False, COALESCED, 1),
        "last_copies": _copy_values(False, COALESCED, 2),
        "last_peak": _last_peak,
        "more_128": lambda p: p.on_gpu(128, REDUCED) / p.on_gpu(128),
        "most_128": lambda p: p.on_gpu(128, "float16") / p.on_gpu(128),
        "spike": lambda p: p.on_gpu(256) / p.on_gpu(128),
    }
)


def _kept(run: Run) -> Quantity:
    calls = [small(SHOWN, b) for b in (64, 1024)]
    return at_most(*(run.kept(call) for call in calls))


study.values({"kept": _kept}, "measured", of=lambda p: p.gpu)
study.values(
    {
        "kept_large": lambda p: exact("workspace of cuBLAS", "1", theory.KEPT[0] >> 20),
        "kept_small": lambda p: exact("workspace of cuBLASLt", "1", theory.KEPT[1] >> 20),
    }
)
study.values(
    {"cap": _cap, "rounding": _rounding, "vgg_4096": lambda p: p.on_gpu(4096, REDUCED, "VGG-16")},
    "measured",
)


@study.claim("half-fits")
def _half_fits(p: Paper) -> Several:
    """VGG-16 on the largest batch runs in 16 bits and not in float32."""
    found = [
        run.case(small("VGG-16", 4096, precision).factors)
        for run in p.gpus
        for precision in (REDUCED, "float32")
        if small("VGG-16", 4096, precision) in run.calls
    ]
    ran: list[Quantity] = [exact("ran", "1", not isinstance(each, Missing)) for each in found] or [
        _NO_RATIO
    ] * 2
    return all_of(ran[0].exactly(1), ran[1].exactly(0))


@study.claim("half-memory")
def _half_memory(p: Paper) -> Several:
    """Of the source: saves memory at every batch."""
    return all_of(*(p.saved(batch) > 0 for batch in TABLED[:5]))


@study.claim("precision-costs")
def _precision_costs(p: Paper) -> Several:
    return all_of(
        *(p.on_gpu(128, each) / p.on_gpu(128) > 1 + MARGIN for each in (REDUCED, "float16"))
    )


@study.claim("memory-monotone")
def _monotone(p: Paper) -> Several:
    over = {b: p.on_gpu(b) for b in TABLED[:5]}
    return trend(over, rising=True)


@study.table("tbl-workspace", rows=lambda p: TABLED if p.gpus else (), wide=True)
def _tbl_workspace(p: Paper, batch: int) -> dict[str, Content]:
    row: dict[str, Content] = {"Batch": batch}
    for precision in PRECISIONS:
        found = p.history(batch, precision)
        for name in ("tensors", "workspace"):
            row[f"{precision}, {name} (MB)"] = (
                absent(name, "B", found.reason)
                if isinstance(found, Missing)
                else exact(name, "B", getattr(found, name), p.file)
            )
        row[f"{precision}, saved (%)"] = p.saved(batch, precision)
    del row["float32, saved (%)"]
    return row


# -------------------------------------------------------------------------------------- tiles


def _tiled(run: Run, form: str | None = None, tile: int | None = None) -> list[Call]:
    return [
        call
        for call in run.chosen(network=SHOWN)
        if call.tile and form in (None, call.execution) and tile in (None, call.tile)
    ]


def _tile_sizes(run: Run | None) -> str:
    """The sizes of the tiles that ``run`` drew."""
    sizes = [str(tile) for tile in sorted({c.tile for c in _tiled(run) if c.tile})] if run else []
    return " and ".join(filter(None, (", ".join(sizes[:-1]), *sizes[-1:])))


def _whole(call: Call) -> Call:
    return replace(call, execution="eager", tile=None)


def _tile_peaks(run: Run, **which: object) -> list[Quantity]:
    return [run.peak(c) / run.peak(_whole(c)) for c in _tiled(run, **which)]  # type: ignore[arg-type]


def _tile_times(run: Run, **which: object) -> list[Quantity]:
    return [run.time(c) / run.time(_whole(c)) for c in _tiled(run, **which)]  # type: ignore[arg-type]


def _tile_side(run: Run) -> Quantity:
    calls = _tiled(run)
    return _whole_number("pixels a side", calls[0].image, run) if calls else _NO_RATIO


def _one(found: list[Quantity]) -> Quantity:
    return found[0] if found else _NO_RATIO


def _extreme(found: list[Quantity], *, largest: bool) -> Quantity:
    return (at_least if largest else at_most)(*found) if found else _NO_RATIO


study.values(
    {
        "tile_small_peak": lambda run: _one(_tile_peaks(run, form="tiled_stages", tile=8)),
        "tile_large_peak": lambda run: _one(_tile_peaks(run, form="tiled_stages", tile=64)),
        "layers_peak": lambda run: _one(_tile_peaks(run, form="tiled_layers", tile=8)),
    },
    "percent",
    of=lambda p: p.clock,
)
study.values(
    {
        "tile_side": _tile_side,
        "tile_least": lambda run: _whole_number("tile", 8, run),
        "tile_small_time": lambda run: _one(_tile_times(run, form="tiled_stages", tile=8)),
        "tile_large_time": lambda run: _one(_tile_times(run, form="tiled_stages", tile=64)),
        "halo_small": lambda run: _halo(run, 8),
        "halo_large": lambda run: _halo(run, 64),
    },
    of=lambda p: p.clock,
)
study.values(
    {
        "gpu_tile_least": lambda run: _extreme(_tile_times(run), largest=False),
        "gpu_tile_most": lambda run: _extreme(_tile_times(run), largest=True),
    },
    of=lambda p: p.gpu,
)


def _halo(run: Run, tile: int) -> Quantity:
    calls = _tiled(run, "tiled_stages", tile)
    return exact("work with tiles", "1", theory.halo(calls[0]), run.file) if calls else _NO_RATIO


def _over_tiles(get: Mapping[Call, Quantity]) -> dict[str, dict[int, Quantity]]:
    return {
        form: {c.tile: q for c, q in get.items() if c.execution == form and c.tile}
        for form in TILED
    }


def _trends(get: Mapping[Call, Quantity], *, rising: bool) -> Several:
    """That all forms of tiling go one way over the tiles."""
    over = (each for each in _over_tiles(get).values() if len(each) > 1)
    found: list[Statement | Several] = [trend(each, rising=rising) for each in over]
    return all_of(*(found or [_NO_RATIO > 0]))


@study.claim("tile-memory", of=lambda p: p.clock)
def _tile_memory(run: Run) -> Several:
    return _trends({c: run.peak(c) for c in _tiled(run)}, rising=True)


@study.claim("tile-time", of=lambda p: p.clock)
def _tile_time(run: Run) -> Several:
    return _trends({c: run.time(c) for c in _tiled(run)}, rising=False)


@study.claim("tile-pays", of=lambda p: p.clock)
def _tile_pays(run: Run) -> Several:
    return any_of(*(each < 1 - MARGIN for each in _tile_times(run) or [_NO_RATIO]))


@study.claim("tile-trades", of=lambda p: p.clock)
def _tile_trades(run: Run) -> Several:
    return all_of(
        _one(_tile_peaks(run, form="tiled_stages", tile=8)) < 1 - MARGIN,
        _one(_tile_times(run, form="tiled_stages", tile=8)) > 1 + MARGIN,
    )


# --------------------------------------------------------------------------------------- time


def _image_times(run: Run, network: str) -> dict[int, Quantity]:
    return run.timed(network=network, image=32, layout="contiguous", precision="float32", tile=None)


def _gain(run: Run, below: int, above: int, network: str = SHOWN) -> Quantity:
    """Time of an image at one batch over that at another."""
    over = _image_times(run, network)
    return over[below] / over[above] if {below, above} <= over.keys() else _NO_RATIO


@study.claim("time-falls", of=lambda p: p.clock)
def _time_falls(run: Run) -> Several:
    return all_of(*(_gain(run, 1, 64, network) > 1 + MARGIN for network in TIMED))


@study.claim("time-rises", of=lambda p: p.cpu)
def _time_rises(run: Run) -> Several:
    return any_of(*(_gain(run, batch, 64) > 1 + MARGIN for batch in (128, 256)))


@study.claim("time-large", of=lambda p: p.cpu)
def _time_large(run: Run) -> Several:
    return any_of(*(_gain(run, 256, batch) > 1 + MARGIN for batch in (512, 1024)))


@study.claim("half-time", of=lambda p: p.gpu)
def _half_time(run: Run) -> Several:
    pairs = [(small(SHOWN, b, "float16"), small(SHOWN, b)) for b in (1, 8)]
    return all_of(*(run.time(new) / run.time(old) > 1 for new, old in pairs))


# ----------------------------------------------------------------------------------- accuracy


@study.claim("accuracy", of=lambda p: p.gpu)
def _accuracy(run: Run) -> Several:
    return all_of(*(run.changed(each) > -ACCURACY_MARGIN for each in PRECISIONS[1:]))


def _scored(run: Run, *, right: bool) -> Quantity:
    found = run.scores("float32")
    if isinstance(found, Missing):
        return absent("test images", "1", found.reason)
    return _whole_number("test images", int(sum(found)) if right else len(found), run)


study.values({"test_images": lambda run: _scored(run, right=False)}, of=lambda p: p.gpu)
study.values(
    {"change_most": lambda run: at_least(*(run.changed(p) for p in PRECISIONS[1:]))},
    "percent",
    of=lambda p: p.gpu,
)


# ------------------------------------------------------------------------------------- figures


@study.figure("fig-peaks", height=2.6)
def _fig_peaks(p: Paper) -> Iterator[Scaling]:
    return figures.peaks(p.cpu) if p.cpu else iter(())


@study.figure("fig-workspace", height=2.6, wide=True)
def _fig_workspace(p: Paper) -> Iterator[Scaling]:
    calls = {
        name: [
            (run, call)
            for call, run in sorted(p.allocated.items(), key=lambda item: item[0].batch)
            if (call.network, call.layout) == (name, LAYOUTS[0]) and call.batch >= 64
            and call.image == small(name, 1).image
        ]
        for name in DRAWN
    }  # fmt: skip
    return figures.workspace({name: each for name, each in calls.items() if each})


@study.figure("fig-tiling", height=2.4, wide=True, same_axes=True)
def _fig_tiling(p: Paper) -> Iterator[Scaling]:
    return figures.tiling([run for run in (p.clock, p.gpu) if run])


# ---------------------------------------------------------------------------------- supplement


@study.table("tbl-source", rows=lambda p: source.ACCOUNT, wide=True)
def _tbl_source(p: Paper, row: tuple[str, str]) -> dict[str, Content]:
    return dict(zip(("In the source", "Here"), row, strict=True))


@study.table("tbl-networks", rows=lambda p: NETWORKS, wide=True)
def _tbl_networks(p: Paper, name: str) -> dict[str, Content]:
    found = theory.network(small(name, 1))
    assert not isinstance(found, Missing)
    return {
        "Network": name,
        "Image (pixels a side)": small(name, 1).image,
        "Parameters": found.network.parameter_count,
        "Multiply-adds": exact("multiply-adds", "MAC", found.per_image),
        "Rules found on it": "yes" if name in LEARNED else "no, held out",
    }


study.table("tbl-audit", rows=lambda p: source.checks(p.inputs.reported), wide=True)(audit_row)
study.add_table(lambda p: setup(p.runs))
