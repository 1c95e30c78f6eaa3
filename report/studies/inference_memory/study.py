"""All that the paper of inference_memory prints; ``limits`` and ``gpus`` declare parts of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Final

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.paper.machines import setup
from report.paper.study import Content, audit_row
from report.paper.tables import Table
from report.quantity.expression import Quantity, Statement, exact
from report.quantity.operations import largest, smallest
from report.quantity.verdicts import Several, any_of, trend
from report.studies.inference_memory import gpus, limits, source, theory
from report.studies.inference_memory.paper import (
    MARGIN,
    SHOWN_BATCH,
    Paper,
    gpu,
    printed,
    study,
    varied,
)
from report.studies.inference_memory.results import NO_RATIO, Of, over_whole, tiled
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import (
    COALESCED,
    LAYOUTS,
    LEARNED,
    NETWORKS,
    REDUCED,
    RESNETS,
    TILED,
    InferencePrecision,
    small,
)
from report.theory.conditions import Layout
from report.theory.networks import layers_of

__all__ = ["findings", "gpus", "limits", "study"]

findings = study.findings
study.constants("percent", confidence=exact("confidence, chosen", "1", CONFIDENCE))
study.constants(shown_batch=exact("batch size", "1", SHOWN_BATCH))


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


# ------------------------------------------------------------- layout and precision on a CPU

#: The batch at which both settings together were timed.
TIMED_BATCH: Final = 64
#: Changed settings of a contiguous float32 call, by their names in print.
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


def _both_time(run: Run, most: bool) -> Quantity:
    """Return the extreme time of residual networks with both settings over contiguous float32."""
    ratios = []
    for network in RESNETS:
        both = small(network, TIMED_BATCH, REDUCED, COALESCED)
        ratios.append(run.time(both) / run.time(small(network, TIMED_BATCH)))
    return (largest if most else smallest)(*ratios)


varied.values(both_fastest=partial(_both_time, most=False))
varied.values(both_slowest=partial(_both_time, most=True))
study.constants(timed_batch=exact("batch size", "1", TIMED_BATCH))


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
    """Divide a quantity of a tiled call by the same quantity of the whole call."""
    return over_whole(run, of, form, tile)[0]


def _extreme(
    run: Run, of: Of, most: bool, form: str | None = None, saved: bool = False
) -> Quantity:
    """Return the extreme ratio of tiled calls to whole ones, or of the share that they save."""
    ratios = over_whole(run, of, form)
    extreme = largest(*ratios) if most != saved else smallest(*ratios)
    return 1 - extreme if saved else extreme


_layers = partial(_extreme, of=Run.peak, form="tiled_layers", saved=True)
varied.values(
    "percent",
    tile_small_peak=partial(_of_tile, of=Run.peak, tile=8),
    tile_large_peak=partial(_of_tile, of=Run.peak, tile=64),
    layers_least=partial(_layers, most=False),
    layers_most=partial(_layers, most=True),
)
varied.values(
    tile_layer_time=partial(_of_tile, of=Run.time, tile=8, form="tiled_layers"),
    tile_small_time=partial(_of_tile, of=Run.time, tile=8),
    tile_large_time=partial(_of_tile, of=Run.time, tile=64),
)
gpu.values(
    gpu_tile_least=partial(_extreme, of=Run.time, most=False),
    gpu_tile_most=partial(_extreme, of=Run.time, most=True),
)


study.constants(
    tile_side=exact("pixels a side", "1", 224),
    tile_least=exact("tile", "1", 8),
    tile_most=exact("tile", "1", 64),
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
    for call in run.chosen(network=network, layout=COALESCED, precision="float32"):
        plain = replace(call, layout=LAYOUTS[0])
        if plain in run.calls and not (run.time(call).missing or run.time(plain).missing):
            gains.append(run.time(plain) / run.time(call))
    return largest(*gains or [NO_RATIO])


varied.values(
    lenet_gain=partial(_layout_gain, network="LeNet-5"),
    alexnet_gain=partial(_layout_gain, network="AlexNet"),
    zfnet_gain=partial(_layout_gain, network="ZFNet"),
    cifar_gain=partial(_layout_gain, network="CIFAR"),
)
gpu.values(
    gpu_lenet_gain=partial(_layout_gain, network="LeNet-5"),
    gpu_alexnet_gain=partial(_layout_gain, network="AlexNet"),
)


@printed.value()
def source_lenet(p: Paper) -> Quantity:
    first, *_ = p.inputs.reported.table("speedups").column("speedup")
    assert isinstance(first, float)
    return exact("printed speed-up", "1", first, p.inputs.reported_file)


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
            "Multiply-adds": exact("multiply-adds", "MAC", captured.multiply_adds_per_image),
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
    ("Fig. 3, top; time in FP16", "ResNet-20, one process on a GPU", "seldom faster"),
    ("Fig. 3, bottom; average memory in FP16", "peaks on a GPU", "saves or costs, by batch"),
    ("Fig. 4; accuracy in FP16", "inference on digits, ResNet-20", "no loss"),
    ("Fig. 5, top; time with AMP + AMC", "both settings on CPUs", "half on one, not on all"),
    ("Fig. 5, bottom; peak with AMP + AMC", "both settings on a CPU", "save more together"),
    ("Section III-B; Mini-ImageNet", "random images of the size", "bytes need no values"),
    ("Fig. 6; larger tiles are faster", "crops on CPUs and a GPU", "agrees"),
    ("Fig. 6; memory rises with the tile", "crops on CPUs and a GPU", "agrees"),
    ("Fig. 6; tiles are effective", "crops on CPUs and a GPU", "save memory, seldom time"),
    ("Fig. 7; speed-ups by layout, of others", "channels last", "found for two of five, on a CPU"),
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
