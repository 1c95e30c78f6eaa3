"""All that the paper of inference_memory prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from figures.scaling import Scaling
from report.evidence.runs import run_of
from report.missing import Missing
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.study import Content, Study, audit_row
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Several, Statement, all_of, any_of, trend
from report.statistics.estimates import CONFIDENCE
from report.studies.inference_memory import figures, source, theory
from report.studies.inference_memory.results import (
    NO_BYTES,
    NO_RATIO,
    Allocated,
    beyond,
    halo,
    limits,
    of_tiled,
    over_whole,
    peaks_of,
    reconciled,
    stages,
    tiled,
)
from report.studies.inference_memory.runs import Run, runs
from report.studies.inference_memory.subject import (
    COALESCED,
    LAYOUTS,
    LEARNED,
    NETWORKS,
    PRECISIONS,
    REDUCED,
    RESNETS,
    SHOWN,
    TILED,
    Limit,
    Precision,
    check_subject,
    small,
)
from report.text.escape import markdown
from report.theory.conditions import Layout
from report.theory.fits import Fits, least
from report.theory.reconciliation import Reconciliation

#: Effects on time and memory below this share are no finding.
MARGIN: Final = 0.1
#: The batch whose memory the prose describes.
SHOWN_BATCH: Final = 256
#: The networks whose workspaces are drawn: of small maps, and of large ones.
DRAWN: Final = (SHOWN, "VGG-16")
#: The batches of the GPU's table; the source's lie among the first five.
TABLED: Final = (64, 128, 256, 512, 1024, 4096, 16_384)
#: Most workspaces are more than this share of them.
_MOST: Final = 0.5


class Paper:
    """The runs in their roles, and the source."""

    def __init__(self, inputs: Inputs) -> None:
        """Raises ``StudyError`` for a record that does not fit the study."""
        for stored in inputs.records:
            check_subject(stored)
        self.inputs, self.runs = inputs, runs(inputs.records)
        roles = (run_of(inputs.cast.get(r), self.runs) for r in ("cpu", "second", "gpu", "third"))
        cpu, second, gpu, third = roles
        self.cpu = cpu if cpu and not cpu.on_gpu else None
        self.second = second if second and not second.on_gpu else None
        self.gpu = gpu if gpu and gpu.on_gpu else None
        self.allocated = Allocated([run for run in (self.gpu, third) if run and run.on_gpu])


study = Study(Paper)
findings = study.findings


@study.reconciliations
def _reconciliations(p: Paper) -> Iterator[Reconciliation]:
    for run in (p.cpu, p.second):
        if run:
            yield from reconciled(run, "float32", REDUCED).values()


study.texts(
    {
        "source_device": lambda p: markdown(p.inputs.reported.device),
        "source_software": lambda p: markdown(p.inputs.reported.software),
        "cpu": lambda p: markdown(p.cpu.short) if p.cpu else "",
        "second": lambda p: markdown(p.second.short) if p.second else "",
        # Without the key of the device, which tells two machines with this GPU apart.
        "gpu": lambda p: markdown(p.gpu.short.partition(" (")[0]) if p.gpu else "",
        "learned": lambda p: ", ".join(LEARNED),
        "held_out": lambda p: ", ".join(n for n in NETWORKS if n not in LEARNED),
        "missed": lambda p: _missed_networks(p.cpu),
    }
)


def _missed_networks(run: Run | None) -> str:
    """The networks and layouts whose prediction is a bound that was not met."""
    found = peaks_of(run).misses if run else []
    return " and ".join(sorted({f"{c.network} in {c.layout.replace('_', ' ')}" for c in found}))


# ------------------------------------------------------------------------------- peaks on a CPU


def _at(batch: int) -> Callable[[Paper], Quantity]:
    return lambda p: exact("batch size", "1", batch)


study.values(
    {
        "exact": lambda run: peaks_of(run).exact,
        "compared": lambda run: peaks_of(run).compared,
        "held_exact": lambda run: peaks_of(run).held_out.exact,
        "held_compared": lambda run: peaks_of(run).held_out.compared,
        "vgg_exact": lambda run: peaks_of(run).of("VGG-16").exact,
        "vgg_compared": lambda run: peaks_of(run).of("VGG-16").compared,
        "fall": lambda run: run.peak(small(SHOWN, 1)) / run.peak(small(SHOWN, 2)),
    },
    of=lambda p: p.cpu,
)
study.values(
    {
        "missed": lambda run: peaks_of(run).missed,
        "workspace": lambda run: run.workspace_share(small(SHOWN, SHOWN_BATCH)),
        "layout_saved": lambda run: run.saved(
            small(SHOWN, SHOWN_BATCH, layout=COALESCED), small(SHOWN, SHOWN_BATCH)
        ),
    },
    "percent",
    of=lambda p: p.cpu,
)
study.values(
    {
        "second_exact": lambda run: peaks_of(run).exact,
        "second_compared": lambda run: peaks_of(run).compared,
    },
    of=lambda p: p.second,
)
study.values({"confidence": lambda p: exact("confidence, chosen", "1", CONFIDENCE)}, "percent")
study.values(
    {"shown_batch": _at(SHOWN_BATCH), **{f"at_{n}": _at(n) for n in (64, 128, 256, 512, 1024)}}
)


@study.claim("peaks-exact", of=lambda p: p.cpu)
def _peaks_exact(run: Run) -> Several:
    return all_of(*(rest.exactly(0) for rest in peaks_of(run).rests(bounded=False)))


@study.claim("bounds-hold", of=lambda p: p.cpu)
def _bounds(run: Run) -> Several:
    return all_of(*(rest > -1 for rest in peaks_of(run).rests(bounded=True)))


# -------------------------------------------------------------------------- limits of memory


def _limited(p: Paper) -> Run | None:
    return p.cpu if p.cpu and p.cpu.limits else None


def _limits_met(run: Run) -> Quantity:
    met = sum(limit.ran == fits.largest for limit, fits in limits(run))
    return exact("limits met", "1", met, run.file)


study.values(
    {
        "limits": lambda run: exact("limits", "1", len(limits(run)), run.file),
        "limits_met": _limits_met,
    },
    of=_limited,
)
study.values(
    {"beyond": lambda run: to_digits(at_least(*beyond(run) or [NO_BYTES]), 2)},
    "measured",
    of=_limited,
)
study.values({"room": lambda p: exact("slack (KiB)", "1", theory.ROOM >> 10)})


@study.claim("limits-within", of=_limited)
def _limits_within(run: Run) -> Several:
    # An image more may run where it exceeds the limit by less than the room; none less may.
    images = [exact("images off", "1", lim.ran - f.largest, run.file) for lim, f in limits(run)]
    over = (size < theory.ROOM + 1 for size in beyond(run))
    return all_of(*(each > -1 for each in images), *over)


@study.table(
    "tbl-limits",
    rows=lambda p: limits(p.cpu) if p.cpu else (),
    digits={"Left (MB)": 2, "Next above by (MB)": 2},
)
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


# ----------------------------------------------------------------------------------- on a GPU


def _copy_values(halved: bool, layout: Layout, part: int) -> Callable[[Paper], Quantity]:
    def value(p: Paper) -> Quantity:
        found = p.allocated.copies(halved, layout)
        if not found.convolutions:
            return absent("workspaces", "1", "no history of a GPU's allocator was recorded")
        return exact("workspaces", "1", found[part], p.allocated.file)

    return value


study.values(
    {
        "saved_256": lambda p: p.allocated.saved(256),
        "saved_512": lambda p: p.allocated.saved(512),
        "saved_1024": lambda p: p.allocated.saved(1024),
        "spike_share": lambda p: p.allocated.workspace_share(256),
        "dip_share": lambda p: 1 - p.allocated.peak(512) / p.allocated.peak(256),
    },
    "percent",
)
study.values(
    {
        "workspaces": _copy_values(True, "contiguous", 1),
        "copies": _copy_values(True, "contiguous", 2),
        "last_workspaces": _copy_values(False, COALESCED, 1),
        "last_copies": _copy_values(False, COALESCED, 2),
        "last_peak": lambda p: p.allocated.peak(64, layout=COALESCED) / p.allocated.peak(64),
        "more_128": lambda p: p.allocated.peak(128, REDUCED) / p.allocated.peak(128),
        "most_128": lambda p: p.allocated.peak(128, "float16") / p.allocated.peak(128),
        "spike": lambda p: p.allocated.peak(256) / p.allocated.peak(128),
    }
)
study.values(
    {
        "kept_large": lambda p: exact("workspace of cuBLAS", "1", theory.KEPT[0] >> 20),
        "kept_small": lambda p: exact("workspace of cuBLASLt", "1", theory.KEPT[1] >> 20),
    }
)
study.values(
    {"kept": lambda run: at_most(*(run.kept(small(SHOWN, batch)) for batch in (64, 1024)))},
    "measured",
    of=lambda p: p.gpu,
)


@study.claim("tensors-requested")
def _requested(p: Paper) -> Several:
    """That every history holds the tensors of theory, in order."""
    found: list[Quantity] = [
        exact("found", "1", not isinstance(each, Missing)) for each in p.allocated.histories()
    ]
    return all_of(*(each.exactly(1) for each in found or [NO_RATIO]))


@study.claim("layout-copies")
def _layout_copies(p: Paper) -> Several:
    """Most workspaces are copies where the layout is not the kernels', and none where it is."""
    strange = [p.allocated.copies(*each) for each in ((True, LAYOUTS[0]), (False, COALESCED))]
    plain = p.allocated.copies(False, LAYOUTS[0])
    if not all(each.taken for each in strange) or not plain.convolutions:
        return all_of(NO_RATIO > 0)
    shares = [exact("share of copies", "1", each.copies / each.taken) for each in strange]
    none = exact("copies", "1", plain.copies).exactly(0)
    return all_of(*(share > _MOST for share in shares), none)


@study.claim("precision-costs")
def _precision_costs(p: Paper) -> Several:
    base = p.allocated.peak(128)
    return all_of(
        *(p.allocated.peak(128, each) / base > 1 + MARGIN for each in (REDUCED, "float16"))
    )


@study.claim("memory-monotone")
def _monotone(p: Paper) -> Several:
    return trend({batch: p.allocated.peak(batch) for batch in TABLED[:5]}, rising=True)


@study.table(
    "tbl-copies",
    rows=lambda p: [
        (halved, layout)
        for halved in (False, True)
        for layout in LAYOUTS
        if p.allocated.copies(halved, layout).convolutions
    ],
)
def _tbl_copies(p: Paper, row: tuple[bool, Layout]) -> dict[str, Content]:
    found = p.allocated.copies(*row)
    return {
        "Precision": "half" if row[0] else "float32",
        "Layout": row[1].replace("_", " "),
        "Convolutions": found.convolutions,
        "With workspace": found.taken,
        "Just copies": found.copies,
    }


@study.table("tbl-workspace", rows=lambda p: TABLED if p.allocated.runs else (), wide=True)
def _tbl_workspace(p: Paper, batch: int) -> dict[str, Content]:
    row: dict[str, Content] = {"Batch": batch}
    for precision in PRECISIONS:
        found = p.allocated.history(batch, precision)
        for name in ("tensors", "workspace"):
            row[f"{precision}, {name} (MB)"] = (
                absent(name, "B", found.reason)
                if isinstance(found, Missing)
                else exact(name, "B", getattr(found, name), p.allocated.file)
            )
        if precision != "float32":
            row[f"{precision}, saved (%)"] = p.allocated.saved(batch, precision)
    return row


# ------------------------------------------------------------- layout and precision on a CPU

#: What is changed of a contiguous call in float32, in words.
_SETTINGS: Final[dict[str, tuple[Precision, Layout]]] = {
    "float32, channels last": ("float32", COALESCED),
    "bfloat16, contiguous": (REDUCED, "contiguous"),
    "bfloat16, channels last": (REDUCED, COALESCED),
}


def _settings(run: Run, name: str) -> list[Quantity]:
    """What a setting saves of the peak of each residual network at the batch described."""
    calls = [small(network, SHOWN_BATCH, *_SETTINGS[name]) for network in RESNETS]
    return [run.saved(call, small(call.network, SHOWN_BATCH)) for call in calls]


@study.table(
    "tbl-layout",
    rows=lambda p: _SETTINGS if p.second else (),
    digits={"From (%)": 2, "To (%)": 2},
)
def _tbl_layout(p: Paper, name: str) -> dict[str, Content]:
    assert p.second is not None
    saved = _settings(p.second, name)
    return {"Setting": name, "From (%)": at_most(*saved), "To (%)": at_least(*saved)}


@study.claim("both-save", of=lambda p: p.second)
def _both_save(run: Run) -> Several:
    names = list(_SETTINGS)
    both, *others = (_settings(run, name) for name in reversed(names))
    return all_of(
        *(new / old > 1 + MARGIN for other in others for new, old in zip(both, other, strict=True))
    )


# -------------------------------------------------------------------------------------- tiles


study.values(
    {
        "tile_small_peak": stages(Run.peak, 8),
        "tile_large_peak": stages(Run.peak, 64),
        "layers_least": lambda run: 1 - at_least(*over_whole(Run.peak, "tiled_layers")(run)),
        "layers_most": lambda run: 1 - at_most(*over_whole(Run.peak, "tiled_layers")(run)),
    },
    "percent",
    of=lambda p: p.second,
)
study.values(
    {
        "tile_side": of_tiled("image"),
        "tile_batch": of_tiled("batch"),
        "tile_least": lambda run: exact("tile", "1", 8, run.file),
        "tile_most": lambda run: exact("tile", "1", 64, run.file),
        "tile_small_time": stages(Run.time, 8),
        "tile_large_time": stages(Run.time, 64),
        "halo_small": halo,
    },
    of=lambda p: p.second,
)


@study.claim("tile-time", of=lambda p: p.second)
def _tile_time(run: Run) -> Several:
    """That in all forms of tiling a larger tile is faster."""
    found: list[Statement | Several] = []
    for form in TILED:
        over = {call.tile: run.time(call) for call in tiled(run, form) if call.tile}
        found += [trend(over, rising=False)] * (len(over) > 1)
    return all_of(*(found or [NO_RATIO > 0]))


@study.claim("tile-pays", of=lambda p: p.second)
def _tile_pays(run: Run) -> Several:
    return any_of(*(each < 1 - MARGIN for each in over_whole(Run.time)(run)))


@study.claim("tile-trades", of=lambda p: p.second)
def _tile_trades(run: Run) -> Several:
    return all_of(stages(Run.peak, 8)(run) < 1 - MARGIN, stages(Run.time, 8)(run) > 1 + MARGIN)


# ------------------------------------------------------------------------------------- figures


@study.figure("fig-peaks", height=2.6)
def _fig_peaks(p: Paper) -> Iterator[Scaling]:
    return figures.peaks(p.cpu) if p.cpu else iter(())


@study.figure("fig-workspace", height=2.6, wide=True)
def _fig_workspace(p: Paper) -> Iterator[Scaling]:
    return figures.workspace(p.allocated.by_call, DRAWN)


@study.figure("fig-tiling", height=2.4)
def _fig_tiling(p: Paper) -> Iterator[Scaling]:
    return figures.tiling(p.second) if p.second else iter(())


# ---------------------------------------------------------------------------------- supplement


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


#: Everything that the source shows: what became of it here, and the claim that decides it, if any.
_ACCOUNT: Final = (
    ("Fig. 1, top; total time over batch", "out of reach: prints no values, times its GPUs", None),
    ("Fig. 1, bottom; peak grows with the batch", "another GPU, float32", _monotone),
    ("Fig. 2; time over depth, utilization", "out of reach: prints no values", None),
    ("Fig. 3, top; time in FP16", "out of reach: times its GPUs", None),
    ("Fig. 3, bottom; average memory in FP16", "not tested as stated: peaks, by batch", None),
    ("Fig. 4; accuracy and loss in FP16", "not tested: no training here", None),
    ("Fig. 5, top; time with AMP + AMC", "not measured", None),
    ("Fig. 5, bottom; peak with AMP + AMC", "on a CPU; not measured on a GPU", _both_save),
    ("Fig. 6; larger tiles are faster", "on a CPU", _tile_time),
    ("Fig. 6; tiles are effective", "on a CPU, beside whole maps: faster?", _tile_pays),
    ("Fig. 7; speed-ups of Li et al.", "quoted by the source, four of 30 bars as numbers", None),
    ("Sections I and III-B; printed numbers", "audited", None),
    ("Sections III and V; waits, transfers", "out of reach: prints no values", None),
)


@study.table("tbl-source", rows=lambda p: _ACCOUNT, wide=True)
def _tbl_source(p: Paper, row: tuple[str, str, Any]) -> dict[str, Content]:
    item, here, claim = row
    result = "–"
    if claim:
        run = p if claim is _monotone else p.second
        verdict = claim(run).judge() if run else ""
        result = {"supported": "holds", "refuted": "fails"}.get(verdict, "undecided")
    return {"In the source": item, "Here": here, "Result": result}


study.add_table(lambda p: setup(p.runs))
