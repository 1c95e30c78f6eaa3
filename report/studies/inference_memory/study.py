"""All that the paper of inference_memory prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Final

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.paper.findings import Inputs
from report.paper.machines import setup
from report.paper.study import Content, Part, Study, audit_row
from report.paper.tables import Table
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.operations import largest, smallest
from report.quantity.verdicts import Several, any_of, trend
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
    Precision,
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
        #: The CPU whose limits were measured, and the one on which layouts and tiles were tried.
        self.limited = self.cpu if self.cpu and self.cpu.limits else None
        self.varied = self.second or self.cpu
        self.allocated = Allocated([run for run in (self.gpu, third) if run and run.on_gpu])

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
second: Part[Run] = study.part("second", "pair")
gpu: Part[Run] = study.part("gpu")
allocated: Part[Allocated] = study.part("allocated", "gpu")


@printed.text()
def source_device(p: Paper) -> str:
    return markdown(p.inputs.reported.device)


@printed.text()
def source_software(p: Paper) -> str:
    return markdown(p.inputs.reported.software)


@study.text()
def learned(p: Paper) -> str:
    return ", ".join(LEARNED)


@study.text()
def held_out(p: Paper) -> str:
    return ", ".join(n for n in NETWORKS if n not in LEARNED)


@printed.text()
def source_saved(p: Paper) -> str:
    return "–".join(
        f"{p.inputs.reported.value(f'amc_saving_{end}').number:g}" for end in ("low", "high")
    )


def _device(run: Run) -> str:
    # Without the key of the device, which tells two machines with one GPU apart.
    return markdown(run.short.partition(" (")[0] if run.on_gpu else run.short)


cpu.texts(cpu=_device)
second.texts(second=_device)
gpu.texts(gpu=_device)


@cpu.text()
def missed(run: Run) -> str:
    """The networks, layouts and batches whose prediction is a bound that was not met."""
    batches: dict[str, list[str]] = {}
    for call in peaks_of(run).misses:
        name = f"{call.network} in {call.layout.replace('_', ' ')}"
        batches.setdefault(name, []).append(str(call.batch))
    return "; ".join(f"{name} (batch {', '.join(of)})" for name, of in batches.items())


# ------------------------------------------------------------------------------- peaks on a CPU


def _at(batch: int) -> Quantity:
    return exact("batch size", "1", batch)


def _exact_peaks(run: Run) -> Quantity:
    return peaks_of(run).exact


cpu.values(exact=_exact_peaks)


@cpu.value()
def compared(run: Run) -> Quantity:
    return peaks_of(run).compared


@cpu.value()
def bounds(run: Run) -> Quantity:
    return peaks_of(run).bounds


@cpu.value()
def held_exact(run: Run) -> Quantity:
    return peaks_of(run).held_out.exact


@cpu.value()
def held_compared(run: Run) -> Quantity:
    return peaks_of(run).held_out.compared


@cpu.value()
def vgg_exact(run: Run) -> Quantity:
    return peaks_of(run).of("VGG-16").exact


@cpu.value()
def vgg_compared(run: Run) -> Quantity:
    return peaks_of(run).of("VGG-16").compared


@cpu.value()
def fall(run: Run) -> Quantity:
    return run.peak(small(SHOWN, 1)) / run.peak(small(SHOWN, 2))


@cpu.value("percent")
def layout_saved(run: Run) -> Quantity:
    return _settings(run, "float32, channels last")[0]


@second.value()
def second_exact(run: Run) -> Quantity:
    return peaks_of(run).exact


@second.value()
def second_compared(run: Run) -> Quantity:
    return peaks_of(run).compared


study.constants("percent", confidence=exact("confidence, chosen", "1", CONFIDENCE))


study.constants(shown_batch=_at(SHOWN_BATCH))


study.constants(**{f"at_{n}": _at(n) for n in TABLED})


@cpu.claim("Peaks of memory on a CPU are the predicted ones to the byte")
def peaks_exact(run: Run) -> Iterator[Statement]:
    for rest in peaks_of(run).rests(bounded=False):
        yield rest.exactly(0)


@cpu.claim("Where theory gives a bound, no peak on a CPU exceeds it")
def bounds_hold(run: Run) -> Iterator[Statement]:
    for rest in peaks_of(run).rests(bounded=True):
        yield rest > -1


# -------------------------------------------------------------------------- limits of memory


def _limits_met(run: Run) -> Quantity:
    met = sum(limit.ran == fits.largest for limit, fits in limits(run))
    return exact("limits met", "1", met, run.file)


def _limits(run: Run) -> Quantity:
    return exact("limits", "1", len(limits(run)), run.file)


limited.values(limits=_limits)


limited.values(limits_met=_limits_met)


def _beyond(run: Run) -> Quantity:
    return to_digits(largest(*beyond(run) or [NO_BYTES]), 2)


limited.values("measured", beyond=_beyond)


study.constants(room=exact("slack (KiB)", "1", theory.ROOM >> 10))


@limited.claim("Under a real limit of memory the predicted largest batch runs, within the slack")
def limits_within(run: Run) -> Iterator[Statement]:
    # An image more may run where it exceeds the limit by less than the room; none less may.
    for limit, fits in limits(run):
        yield exact("images off", "1", limit.ran - fits.largest, run.file) > -1
    yield from (size < theory.ROOM + 1 for size in beyond(run))


@cpu.table("limits", digits={"Left (MB)": 2, "Next above by (MB)": 2})
def limits_of_memory(run: Run) -> Iterator[Mapping[str, Content]]:
    for row in limits(run):
        (limit, fits), file = row, run.file
        size = {n: least(at) for n, at in fits.predicted.items()}
        yield {
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


def _copies(p: Paper, halved: bool, layout: Layout, part: str) -> Quantity:
    copies = p.allocated.copies(halved, layout)
    if not copies.convolutions:
        return absent("workspaces", "1", "no history of a GPU's allocator was recorded")
    return exact("workspaces", "1", getattr(copies, part), p.allocated.file)


def _right(run: Run, precision: Precision) -> Quantity:
    return exact("recognized", "1", sum(run.correct(precision)), run.file)


allocated.values(
    "percent",
    saved_256=partial(Allocated.saved, batch=256),
    saved_512=partial(Allocated.saved, batch=512),
    saved_1024=partial(Allocated.saved, batch=1024),
    saved_4096=partial(Allocated.saved, batch=4096),
    saved_16384=partial(Allocated.saved, batch=16_384),
    saved_vgg=partial(Allocated.saved, batch=2048, network="VGG-16"),
)


on_gpu.values(
    workspaces=partial(_copies, halved=True, layout="contiguous", part="taken"),
    copies=partial(_copies, halved=True, layout="contiguous", part="copies"),
    last_workspaces=partial(_copies, halved=False, layout=COALESCED, part="taken"),
    last_copies=partial(_copies, halved=False, layout=COALESCED, part="copies"),
)


@on_gpu.value()
def last_peak(p: Paper) -> Quantity:
    return p.allocated.peak(64, layout=COALESCED) / p.allocated.peak(64)


@on_gpu.value()
def more_128(p: Paper) -> Quantity:
    return p.allocated.peak(128, REDUCED) / p.allocated.peak(128)


@on_gpu.value()
def most_128(p: Paper) -> Quantity:
    return p.allocated.peak(128, "float16") / p.allocated.peak(128)


@on_gpu.value()
def spike(p: Paper) -> Quantity:
    return p.allocated.peak(256) / p.allocated.peak(128)


@on_gpu.value()
def spike_most(p: Paper) -> Quantity:
    return p.allocated.peak(16_384) / p.allocated.peak(4096)


study.constants(kept_large=exact("workspace of cuBLAS", "1", theory.KEPT[0] >> 20))


study.constants(kept_small=exact("workspace of cuBLASLt", "1", theory.KEPT[1] >> 20))


@on_gpu.value()
def split(p: Paper) -> Quantity:
    return exact("calls with a map of more", "1", len(p.allocated.split))


@gpu.value()
def digits(run: Run) -> Quantity:
    return exact("digits", "1", len(run.correct("float32")), run.file)


gpu.values(**{f"right_{p}": partial(_right, precision=p) for p in PRECISIONS})


@gpu.value("measured")
def kept(run: Run) -> Quantity:
    return smallest(*(run.kept(small(SHOWN, batch)) for batch in (64, 1024)))


@on_gpu.claim("Every allocator history of a GPU holds the tensors of theory, in order")
def tensors_requested(p: Paper) -> Iterator[Statement]:
    """That every history holds the tensors of theory, in order."""
    for each in p.allocated.histories():
        yield exact("found", "1", not isinstance(each, Missing)).exactly(1)


@on_gpu.claim(
    "Most workspaces of a GPU copy tensors into its layout, and none do where they lie so"
)
def layout_copies(p: Paper) -> Iterator[Statement]:
    """Most workspaces are copies where the layout is not the kernels', and none where it is."""
    strange = [p.allocated.copies(*each) for each in ((True, LAYOUTS[0]), (False, COALESCED))]
    plain = p.allocated.copies(False, LAYOUTS[0])
    if not all(each.taken for each in strange) or not plain.convolutions:
        return
    yield from (exact("share of copies", "1", n.copies / n.taken) > _MOST for n in strange)
    yield exact("copies", "1", plain.copies).exactly(0)


@on_gpu.claim("Half precision costs more than a tenth of memory at batch 128 on a GPU")
def precision_costs(p: Paper) -> Iterator[Statement]:
    base = p.allocated.peak(128)
    return (p.allocated.peak(128, each) / base > 1 + MARGIN for each in (REDUCED, "float16"))


@on_gpu.claim("A large batch copies as many images as an index can name, within a thousandth")
def batch_split(p: Paper) -> Iterator[Statement]:
    for size, part in p.allocated.split:
        yield exact("over a part", "1", size / part).near(1, 1e-3)


@on_gpu.claim("A GPU's peak of memory grows with every batch size of the source")
def memory_monotone(p: Paper) -> Several:
    return trend({batch: p.allocated.peak(batch) for batch in TABLED[:5]}, rising=True)


@on_gpu.table()
def copies(p: Paper) -> Iterator[Mapping[str, Content]]:
    for row in [
        (network, *each)
        for network in NETWORKS
        for each in product((False, True), LAYOUTS)
        if p.allocated.copies(*each, network).convolutions
    ]:
        network, halved, layout = row
        found = p.allocated.copies(halved, layout, network)
        yield {
            "Network": network,
            "Precision": "half" if halved else "float32",
            "Layout": layout.replace("_", " "),
            "Calls": found.calls,
            "Convolutions": found.convolutions,
            "Workspace": found.taken,
            "Copies": found.copies,
        }


@on_gpu.table(wide=True)
def workspace(p: Paper) -> Iterator[Mapping[str, Content]]:
    for batch in TABLED if p.allocated.runs else ():
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
        yield row


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


@varied.table(
    digits={f"{what} {end} (%)": 2 for what in ("Predicted", "Measured") for end in ("from", "to")}
)
def layout(run: Run) -> Iterator[Mapping[str, Content]]:
    for name in _SETTINGS:
        row: dict[str, Content] = {"Setting": name}
        for what, predicted in (("Predicted", True), ("Measured", False)):
            saved = _settings(run, name, predicted)
            row |= {f"{what} from (%)": smallest(*saved), f"{what} to (%)": largest(*saved)}
        yield row


@varied.claim("Peaks of every layout and precision on a CPU are the predicted ones to the byte")
def layout_predicted(run: Run) -> Iterator[Statement]:
    """That every peak behind the table is the predicted one, to the byte."""
    for network, how in product(RESNETS, _SETTINGS.values()):
        call = small(network, SHOWN_BATCH, *how)
        yield (run.peak(call) - run.predicted_peak(call)).exactly(0)


@varied.claim("Layout and precision together save over a tenth more than either, of every network")
def both_save(run: Run) -> Iterator[Statement]:
    """That layout and precision together save more than either, of every network."""
    *others, both = (_settings(run, name) for name in _SETTINGS)
    for other in reversed(others):
        yield from (new / old > 1 + MARGIN for new, old in zip(both, other, strict=True))


# -------------------------------------------------------------------------------------- tiles


def _of_tile(
    run: Run, of: Callable[[Run, Call], Quantity], tile: int, form: str = "tiled_stages"
) -> Quantity:
    """A tiled call over the whole one, through a whole stage where no other form is named."""
    return over_whole(run, of, form, tile)[0]


def _of_tiled(run: Run, name: str) -> Quantity:
    """What all tiled calls have in common."""
    calls = tiled(run)
    return exact(name, "1", getattr(calls[0], name), run.file) if calls else NO_RATIO


varied.values(
    "percent",
    tile_small_peak=partial(_of_tile, of=Run.peak, tile=8),
    tile_large_peak=partial(_of_tile, of=Run.peak, tile=64),
)


@varied.value("percent")
def layers_least(run: Run) -> Quantity:
    return 1 - largest(*over_whole(run, Run.peak, "tiled_layers"))


@varied.value("percent")
def layers_most(run: Run) -> Quantity:
    return 1 - smallest(*over_whole(run, Run.peak, "tiled_layers"))


@varied.value()
def tile_side(run: Run) -> Quantity:
    return _of_tiled(run, "image")


@varied.value()
def tile_batch(run: Run) -> Quantity:
    return _of_tiled(run, "batch")


@varied.value()
def tile_least(run: Run) -> Quantity:
    return exact("tile", "1", 8, run.file)


@varied.value()
def tile_most(run: Run) -> Quantity:
    return exact("tile", "1", 64, run.file)


varied.values(
    tile_layer_time=partial(_of_tile, of=Run.time, tile=8, form="tiled_layers"),
    tile_small_time=partial(_of_tile, of=Run.time, tile=8),
    tile_large_time=partial(_of_tile, of=Run.time, tile=64),
)


def _gpu_tile_times(run: Run) -> list[Quantity]:
    return over_whole(run, Run.time)


def _gpu_stage_peaks(run: Run) -> list[Quantity]:
    return over_whole(run, Run.peak, "tiled_stages")


@gpu.value()
def gpu_tile_least(run: Run) -> Quantity:
    return smallest(*_gpu_tile_times(run))


@gpu.value()
def gpu_tile_most(run: Run) -> Quantity:
    return largest(*_gpu_tile_times(run))


@gpu.value()
def gpu_tile_batch(run: Run) -> Quantity:
    return _of_tiled(run, "batch")


@gpu.value("percent")
def gpu_stages_least(run: Run) -> Quantity:
    return 1 - largest(*_gpu_stage_peaks(run))


@gpu.value("percent")
def gpu_stages_most(run: Run) -> Quantity:
    return 1 - smallest(*_gpu_stage_peaks(run))


@varied.claim("In all forms of tiling a larger tile is faster")
def tile_time(run: Run) -> Iterator[Statement | Several]:
    """That in all forms of tiling a larger tile is faster."""
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


# ------------------------------------------------------------------------------------- figures


cpu.figure(height=1.9)(figures.peaks)


allocated.figure(key=True, height=2.2, wide=True)(figures.workspace)


varied.figure(height=2.0)(figures.tiling)


# ---------------------------------------------------------------------------------- supplement


@study.table(wide=True)
def networks(p: Paper) -> Iterator[Mapping[str, Content]]:
    for name in NETWORKS:
        found = theory.network(small(name, 1))
        assert not isinstance(found, Missing)
        yield {
            "Network": name,
            "Image (pixels a side)": small(name, 1).image,
            "Channels": layers_of(name, small(name, 1).image)[0].input_shape[1],
            "Parameters": found.network.parameter_count,
            "Multiply-adds": exact("multiply-adds", "MAC", found.per_image),
            "Rules found on it": "yes" if name in LEARNED else "no, held out",
        }


@study.table(wide=True)
def audit(p: Paper) -> Iterator[Mapping[str, Content]]:
    for row in source.checks(p.inputs.reported):
        yield audit_row(p, row)


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
    ("Fig. 6; tiles are effective", "crops on a CPU and a GPU", "saves memory, never time"),
    ("Fig. 7, Sections III, V; others' bars, waits", "few values are printed", "out of reach"),
)


@study.table("source", wide=True)
def account(p: Paper) -> Iterator[Mapping[str, Content]]:
    for row in _ACCOUNT:
        yield dict(zip(("In the source", "Here", "Result"), row, strict=True))


@study.shared_table()
def machines(p: Paper) -> Table:
    return setup(p.runs)
