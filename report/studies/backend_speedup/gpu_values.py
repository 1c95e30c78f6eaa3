"""The numbers of the prose about a GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from report.missing import Missing
from report.quantity.expression import Quantity, exact, recorded
from report.studies.backend_speedup.choices import speedups
from report.studies.backend_speedup.getters import (
    NO_CASE,
    Getter,
    count_of,
    nothing,
    numpy_value,
    of_training,
)
from report.studies.backend_speedup.measured import CUPY, NUMPY, ON_GPU, TORCH_CUDA, Run, Variant
from report.studies.backend_speedup.subject import Kind, Setting


def _at(place: str) -> Callable[[Run], Setting | None]:
    """The training, an end of the widths, or the largest number of images."""
    sweeps: dict[str, tuple[Callable[[Run], tuple[Setting, ...]], int]] = {
        "narrow": (Run.widths, 0),
        "wide": (Run.widths, -1),
        "many": (Run.sizes, -1),
    }

    def found(run: Run) -> Setting | None:
        if place == "small":
            return run.training()
        sweep, end = sweeps[place]
        settings = sweep(run)
        return settings[end] if len(settings) > 1 else None

    return found


def on_gpu(run: Run, place: str) -> tuple[Variant, ...]:
    """The libraries on the GPU whose speed-up over NumPy is known at a place."""
    return tuple(v for v in speedups(run, _at(place)(run)) if v.on_gpu)


def _gpu_speedup(place: str, variant: Variant) -> Getter:
    def found(run: Run) -> Quantity:
        setting = _at(place)(run)
        return nothing("1") if setting is None else run.speedup(setting, variant)

    return found


def _gpu_level(place: str, of: str) -> Getter:
    def level(run: Run) -> int | Missing:
        setting = _at(place)(run)
        return NO_CASE if setting is None else int(getattr(setting, of))

    return count_of(of, level)


def _ends(run: Run) -> tuple[Setting, Setting] | None:
    """The smallest and the largest number of images at the width of the source."""
    sizes = run.sizes()
    return (sizes[0], sizes[-1]) if len(sizes) > 1 else None


def _longer(run: Run, variant: Variant) -> Quantity:
    """How many times as long an iteration takes with the most images as with the fewest."""
    ends = _ends(run)
    return nothing("1") if ends is None else run.time(ends[1], variant) / run.time(ends[0], variant)


def _image_ratio(run: Run) -> Quantity:
    ends = _ends(run)
    counts = (exact("images", "1", each.samples) for each in ends or ())
    return nothing("1") if ends is None else 1 / (next(counts) / next(counts))


def _many_time(run: Run) -> Quantity:
    ends = _ends(run)
    return nothing("s") if ends is None else run.time(ends[1], CUPY)


def _of_kind(run: Run, kind: Kind, variant: Variant = CUPY) -> Quantity:
    """The speed-up of a library in a kind of operation, with the most images."""
    ends = _ends(run)
    return nothing("1") if ends is None else run.speedup(ends[1], variant, f"{kind}_time")


_SOURCE_KINDS: Final[tuple[Kind, ...]] = ("matrix_product", "relu", "softmax", "gradient")

#: Of a run on a GPU.
GPU_VALUES: Final[dict[str, Getter]] = {
    "gpu_threads": count_of("threads", lambda run: run.threads),
    "gpu_time_numpy": numpy_value("time"),
    **{
        f"gpu_{p}_{v.key}": _gpu_speedup(p, v)
        for p in ("small", "narrow", "wide", "many")
        for v in ON_GPU
    },
    **{
        f"gpu_{p}_{name}": _gpu_level(p, of)
        for p in ("small", "wide", "many")
        for name, of in (("width", "hidden"), ("images", "samples"))
    },
    "gpu_images_cupy": lambda run: _longer(run, CUPY),
    "gpu_images_numpy": lambda run: _longer(run, NUMPY),
    "gpu_images_ratio": _image_ratio,
    "gpu_many_time": _many_time,
    **{f"gpu_many_{kind}": partial(_of_kind, kind=kind) for kind in _SOURCE_KINDS},
    "gpu_many_relu_torch": partial(_of_kind, kind="relu", variant=TORCH_CUDA),
    "gpu_processes": of_training(
        lambda run, s: recorded("processes", "1", run.processes(s, CUPY), run.file)
    ),
    "gpu_relu_cupy": of_training(lambda run, s: run.operation("relu", s, CUPY), "s"),
    "gpu_relu_ratio": of_training(
        lambda run, s: run.operation("relu", s, CUPY) / run.operation("relu", s, TORCH_CUDA)
    ),
}  # fmt: skip
