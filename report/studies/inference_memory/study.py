"""All that the paper of inference_memory prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Final

from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.machines import setup
from report.paper.study import Content, audit_row
from report.paper.study import OldStudy as Study
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Several, Statement, any_of, trend
from report.statistics.estimates import CONFIDENCE
from report.studies.inference_memory import figures, source, theory
from report.studies.inference_memory.results import (
    NO_BYTES,
    NO_RATIO,
    Allocated,
    beyond,
    limits,
    over_whole,
    peaks_of,
    reconciled,
    tiled,
)
from report.studies.inference_memory.runs import Run
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
    Call,
    Limit,
    Precision,
    check_subject,
    small,
)
from report.text.escape import markdown
from report.theory.conditions import Layout
from report.theory.fits import Fits, least
from report.theory.networks import layers_of
from report.theory.reconciliation import Reconciliation

#: Effects on time and memory below this share are no finding.
MARGIN: Final = 0.1
#: The batch whose memory the prose describes.
SHOWN_BATCH: Final = 256
#: The batches of the GPU's table; the source's lie among the first five.
TABLED: Final = (64, 128, 256, 512, 1024, 4096, 16_384)
#: Most workspaces are more than this share of them.
_MOST: Final = 0.5


class Paper:
    """The runs in their roles, and the source."""

    def __init__(self, inputs: Inputs) -> None:
        runs = inputs.runs(Run)
        self.inputs, self.runs = inputs, tuple(runs.values())
        cpu, second, gpu, third = (runs.get(role) for role in ("cpu", "second", "gpu", "third"))
        self.cpu = cpu if cpu and not cpu.on_gpu else None
        self.second = second if second and not second.on_gpu else None
        self.gpu = gpu if gpu and gpu.on_gpu else None
        self.allocated = Allocated([run for run in (self.gpu, third) if run and run.on_gpu])


def _reconciliations(p: Paper) -> Iterator[Reconciliation]:
    for run in (p.cpu, p.second):
        if run:
            yield from reconciled(run, "float32", REDUCED).values()


study = Study(Paper, check_subject, reconciliations=_reconciliations)
findings = study.findings


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
        "source_saved": lambda p: "–".join(
            f"{p.inputs.reported.value(f'amc_saving_{end}').number:g}" for end in ("low", "high")
        ),
        "missed": lambda p: _missed_networks(p.cpu),
    }
)


def _missed_networks(run: Run | None) -> str:
    """The networks, layouts and batches whose prediction is a bound that was not met."""
    batches: dict[str, list[str]] = {}
    for call in peaks_of(run).misses if run else ():
        name = f"{call.network} in {call.layout.replace('_', ' ')}"
        batches.setdefault(name, []).append(str(call.batch))
    return "; ".join(f"{name} (batch {', '.join(of)})" for name, of in batches.items())


# ------------------------------------------------------------------------------- peaks on a CPU


def _at(batch: int) -> Callable[[Paper], Quantity]:
    return lambda p: exact("batch size", "1", batch)


study.values(
    {
        "exact": lambda run: peaks_of(run).exact,
        "compared": lambda run: peaks_of(run).compared,
        "bounds": lambda run: peaks_of(run).bounds,
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
        "layout_saved": lambda run: _settings(run, "float32, channels last")[0],
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
study.values({"shown_batch": _at(SHOWN_BATCH), **{f"at_{n}": _at(n) for n in TABLED}})


study.claims(
    {
        "peaks-exact": lambda run: (rest.exactly(0) for rest in peaks_of(run).rests(bounded=False)),
        "bounds-hold": lambda run: (rest > -1 for rest in peaks_of(run).rests(bounded=True)),
    },
    of=lambda p: p.cpu,
)


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


def _limits_within(run: Run) -> Iterator[Statement]:
    # An image more may run where it exceeds the limit by less than the room; none less may.
    for limit, fits in limits(run):
        yield exact("images off", "1", limit.ran - fits.largest, run.file) > -1
    yield from (size < theory.ROOM + 1 for size in beyond(run))


study.claims({"limits-within": _limits_within}, of=_limited)


@study.table(
    "tbl-limits", limits, of=lambda p: p.cpu, digits={"Left (MB)": 2, "Next above by (MB)": 2}
)
def _tbl_limits(run: Run, row: tuple[Limit, Fits]) -> dict[str, Content]:
    (limit, fits), file = row, run.file
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


def _copy_values(halved: bool, layout: Layout, part: str) -> Callable[[Paper], Quantity]:
    def value(p: Paper) -> Quantity:
        found = p.allocated.copies(halved, layout)
        if not found.convolutions:
            return absent("workspaces", "1", "no history of a GPU's allocator was recorded")
        return exact("workspaces", "1", getattr(found, part), p.allocated.file)

    return value


def _right(precision: Precision) -> Callable[[Run], Quantity]:
    return lambda run: exact("recognized", "1", sum(run.correct(precision)), run.file)


study.values(
    {
        "saved_256": lambda p: p.allocated.saved(256),
        "saved_512": lambda p: p.allocated.saved(512),
        "saved_1024": lambda p: p.allocated.saved(1024),
        "saved_4096": lambda p: p.allocated.saved(4096),
        "saved_16384": lambda p: p.allocated.saved(16_384),
        "saved_vgg": lambda p: p.allocated.saved(2048, network="VGG-16"),
    },
    "percent",
)
study.values(
    {
        "workspaces": _copy_values(True, "contiguous", "taken"),
        "copies": _copy_values(True, "contiguous", "copies"),
        "last_workspaces": _copy_values(False, COALESCED, "taken"),
        "last_copies": _copy_values(False, COALESCED, "copies"),
        "last_peak": lambda p: p.allocated.peak(64, layout=COALESCED) / p.allocated.peak(64),
        "more_128": lambda p: p.allocated.peak(128, REDUCED) / p.allocated.peak(128),
        "most_128": lambda p: p.allocated.peak(128, "float16") / p.allocated.peak(128),
        "spike": lambda p: p.allocated.peak(256) / p.allocated.peak(128),
        "spike_most": lambda p: p.allocated.peak(16_384) / p.allocated.peak(4096),
        "kept_large": lambda p: exact("workspace of cuBLAS", "1", theory.KEPT[0] >> 20),
        "kept_small": lambda p: exact("workspace of cuBLASLt", "1", theory.KEPT[1] >> 20),
        "split": lambda p: exact("calls with a map of more", "1", len(p.allocated.split)),
    }
)
study.values(
    {
        "digits": lambda run: exact("digits", "1", len(run.correct("float32")), run.file),
        **{f"right_{p}": _right(p) for p in PRECISIONS},
    },
    of=lambda p: p.gpu,
)
study.values(
    {"kept": lambda run: at_most(*(run.kept(small(SHOWN, batch)) for batch in (64, 1024)))},
    "measured",
    of=lambda p: p.gpu,
)


def _requested(p: Paper) -> Iterator[Statement]:
    """That every history holds the tensors of theory, in order."""
    for each in p.allocated.histories():
        yield exact("found", "1", not isinstance(each, Missing)).exactly(1)


def _layout_copies(p: Paper) -> Iterator[Statement]:
    """Most workspaces are copies where the layout is not the kernels', and none where it is."""
    strange = [p.allocated.copies(*each) for each in ((True, LAYOUTS[0]), (False, COALESCED))]
    plain = p.allocated.copies(False, LAYOUTS[0])
    if not all(each.taken for each in strange) or not plain.convolutions:
        return
    yield from (exact("share of copies", "1", n.copies / n.taken) > _MOST for n in strange)
    yield exact("copies", "1", plain.copies).exactly(0)


def _precision_costs(p: Paper) -> Iterator[Statement]:
    base = p.allocated.peak(128)
    return (p.allocated.peak(128, each) / base > 1 + MARGIN for each in (REDUCED, "float16"))


study.claims(
    {
        "tensors-requested": _requested,
        "layout-copies": _layout_copies,
        # A large batch takes copies of as many images as an index names, within a thousandth.
        "batch-split": lambda p: (
            exact("over a part", "1", size / part).near(1, 1e-3) for size, part in p.allocated.split
        ),
        "precision-costs": _precision_costs,
        "memory-monotone": lambda p: trend(
            {batch: p.allocated.peak(batch) for batch in TABLED[:5]}, rising=True
        ),
    }
)


@study.table(
    "tbl-copies",
    rows=lambda p: [
        (network, *each)
        for network in NETWORKS
        for each in product((False, True), LAYOUTS)
        if p.allocated.copies(*each, network).convolutions
    ],
)
def _tbl_copies(p: Paper, row: tuple[str, bool, Layout]) -> dict[str, Content]:
    network, halved, layout = row
    found = p.allocated.copies(halved, layout, network)
    return {
        "Network": network,
        "Precision": "half" if halved else "float32",
        "Layout": layout.replace("_", " "),
        "Calls": found.calls,
        "Convolutions": found.convolutions,
        "Workspace": found.taken,
        "Copies": found.copies,
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


def _settings(run: Run, name: str, predicted: bool = False) -> list[Quantity]:
    """What a setting saves of the peak of each residual network at the batch described."""
    of = run.predicted_peak if predicted else run.peak
    calls = [small(network, SHOWN_BATCH, *_SETTINGS[name]) for network in RESNETS]
    return [1 - of(call) / of(small(call.network, SHOWN_BATCH)) for call in calls]


@study.table(
    "tbl-layout",
    lambda run: _SETTINGS,
    of=lambda p: p.second,
    digits={f"{what} {end} (%)": 2 for what in ("Predicted", "Measured") for end in ("from", "to")},
)
def _tbl_layout(run: Run, name: str) -> dict[str, Content]:
    row: dict[str, Content] = {"Setting": name}
    for what, predicted in (("Predicted", True), ("Measured", False)):
        saved = _settings(run, name, predicted)
        row |= {f"{what} from (%)": at_most(*saved), f"{what} to (%)": at_least(*saved)}
    return row


def _layout_predicted(run: Run) -> Iterator[Statement]:
    """That every peak behind the table is the predicted one, to the byte."""
    for network, how in product(RESNETS, _SETTINGS.values()):
        call = small(network, SHOWN_BATCH, *how)
        yield (run.peak(call) - run.predicted_peak(call)).exactly(0)


def _both_save(run: Run) -> Iterator[Statement]:
    """That layout and precision together save more than either, of every network."""
    *others, both = (_settings(run, name) for name in _SETTINGS)
    for other in reversed(others):
        yield from (new / old > 1 + MARGIN for new, old in zip(both, other, strict=True))


study.claims(
    {"layout-predicted": _layout_predicted, "both-save": _both_save}, of=lambda p: p.second
)


# -------------------------------------------------------------------------------------- tiles


def _of_tile(
    of: Callable[[Run, Call], Quantity], tile: int, form: str = "tiled_stages"
) -> Callable[[Run], Quantity]:
    """The same of tiles of one size, through a whole stage where no other form is named."""
    return lambda run: over_whole(run, of, form, tile)[0]


def _of_tiled(run: Run, name: str) -> Quantity:
    """What all tiled calls have in common."""
    calls = tiled(run)
    return exact(name, "1", getattr(calls[0], name), run.file) if calls else NO_RATIO


study.values(
    {
        "tile_small_peak": _of_tile(Run.peak, 8),
        "tile_large_peak": _of_tile(Run.peak, 64),
        "layers_least": lambda run: 1 - at_least(*over_whole(run, Run.peak, "tiled_layers")),
        "layers_most": lambda run: 1 - at_most(*over_whole(run, Run.peak, "tiled_layers")),
    },
    "percent",
    of=lambda p: p.second,
)
study.values(
    {
        "tile_side": lambda run: _of_tiled(run, "image"),
        "tile_batch": lambda run: _of_tiled(run, "batch"),
        "tile_least": lambda run: exact("tile", "1", 8, run.file),
        "tile_most": lambda run: exact("tile", "1", 64, run.file),
        "tile_layer_time": _of_tile(Run.time, 8, "tiled_layers"),
        "tile_small_time": _of_tile(Run.time, 8),
        "tile_large_time": _of_tile(Run.time, 64),
    },
    of=lambda p: p.second,
)


def _tile_time(run: Run) -> Iterator[Statement | Several]:
    """That in all forms of tiling a larger tile is faster."""
    for form in TILED:
        over = {call.tile: run.time(call) for call in tiled(run, form) if call.tile}
        if len(over) > 1:
            yield from trend(over, rising=False).statements


study.claims(
    {
        "tile-time": _tile_time,
        "tile-pays": lambda run: any_of(*(t < 1 - MARGIN for t in over_whole(run, Run.time))),
        "tile-trades": lambda run: (
            _of_tile(Run.peak, 8)(run) < 1 - MARGIN,
            _of_tile(Run.time, 8)(run) > 1 + MARGIN,
        ),
    },
    of=lambda p: p.second,
)


# ------------------------------------------------------------------------------------- figures

study.figure("fig-peaks", of=lambda p: p.cpu, height=1.9)(figures.peaks)
study.figure("fig-workspace", of=lambda p: p.allocated, height=2.2, wide=True)(figures.workspace)
study.figure("fig-tiling", of=lambda p: p.second, height=2.0)(figures.tiling)


# ---------------------------------------------------------------------------------- supplement


@study.table("tbl-networks", rows=lambda p: NETWORKS, wide=True)
def _tbl_networks(p: Paper, name: str) -> dict[str, Content]:
    found = theory.network(small(name, 1))
    assert not isinstance(found, Missing)
    return {
        "Network": name,
        "Image (pixels a side)": small(name, 1).image,
        "Channels": layers_of(name, small(name, 1).image)[0].input_shape[1],
        "Parameters": found.network.parameter_count,
        "Multiply-adds": exact("multiply-adds", "MAC", found.per_image),
        "Rules found on it": "yes" if name in LEARNED else "no, held out",
    }


study.table("tbl-audit", rows=lambda p: source.checks(p.inputs.reported), wide=True)(audit_row)


#: Everything that the source shows, what we did with it, and what we found.
_ACCOUNT: Final = (
    ("Fig. 1, top; total time over batch", "prints no values, times its GPUs", "out of reach"),
    ("Fig. 1, bottom; peak grows with the batch", "another GPU and cuDNN", "not general"),
    ("Fig. 2; time over depth, utilization", "prints no values", "out of reach"),
    ("Fig. 3, top; time in FP16", "times its GPUs", "out of reach"),
    ("Fig. 3, bottom; average memory in FP16", "we predict peaks", "not tested"),
    ("Fig. 4; accuracy and loss in FP16", "digits for its images, no training", "not tested"),
    ("Fig. 5, top; time with AMP + AMC", "AMC is undefined", "not tested"),
    ("Fig. 5, bottom; peak with AMP + AMC", "AMC is undefined; layouts on a CPU", "not tested"),
    ("Fig. 6; larger tiles are faster", "crops on a CPU, another batch", "agrees"),
    ("Fig. 6; memory rises with the tile", "crops on a CPU, another batch", "agrees"),
    ("Fig. 6; tiles are effective", "no tile on a GPU; our form does not pay", "not tested"),
    ("Fig. 7, Sections III, V; others' bars, waits", "few values are printed", "out of reach"),
)


@study.table("tbl-source", rows=lambda p: _ACCOUNT, wide=True)
def _tbl_source(p: Paper, row: tuple[str, str, str]) -> dict[str, Content]:
    return dict(zip(("In the source", "Here", "Result"), row, strict=True))


study.add_table(lambda p: setup(p.runs))
