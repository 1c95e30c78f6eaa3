"""The numbers of backend_speedup's prose: of theory, of the source, of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from report.missing import Missing
from report.paper.declared import values_of
from report.paper.findings import Inputs
from report.paper.images import DataSet
from report.paper.values import Value, declare
from report.paper.values import exact as value_of
from report.quantity.expression import Quantity, exact, recorded
from report.quantity.operations import at_least
from report.statistics.estimates import CONFIDENCE
from report.studies.backend_speedup import memory, theory
from report.studies.backend_speedup.choices import best_at
from report.studies.backend_speedup.conditions import CONDITIONS, ENOUGH
from report.studies.backend_speedup.getters import (
    NO_CASE,
    NO_RECORD,
    Getter,
    count_of,
    nothing,
    numpy_value,
    of_training,
)
from report.studies.backend_speedup.gpu_values import GPU_VALUES
from report.studies.backend_speedup.learning import (
    largest_accuracy_difference,
    largest_difference,
    learned,
)
from report.studies.backend_speedup.measured import (
    JAX_COMPILED,
    NUMPY,
    VARIANTS,
    Run,
    Variant,
)
from report.studies.backend_speedup.model_values import MODEL_VALUES, swept
from report.studies.backend_speedup.source_values import in_unit, source_values
from report.studies.backend_speedup.subject import Kind, Setting


def all_values(
    inputs: Inputs,
    primary: Run | None,
    gpu: Run | None,
    images: DataSet | None,
) -> Iterator[Value]:
    """Every number of the prose; those of a run are missing without one."""
    yield value_of("confidence", "Confidence", CONFIDENCE, "1", "chosen", (), "percent")
    yield value_of("enough", "Processes that bound a median", ENOUGH, "1", "chosen")
    found = (
        *(declare(id_, each) for id_, each in theory.VALUES.items()),
        *source_values(inputs),
        *values_of(primary, RUN_VALUES, NO_RECORD, _SHARES, _ROUNDED),
        _loss_difference(primary),
        *values_of(images, _OF_IMAGES, NO_RECORD),
        *(values_of(gpu, GPU_VALUES, NO_RECORD) if gpu is not None else ()),
    )
    yield from map(_brief, found)


def _brief(value: Value) -> Value:
    """The value with as many digits as a sentence needs, where it has no interval to tell them."""
    if value.id in _IN_FULL or not isinstance(value.number, float | int):
        return value
    if isinstance(value.number, int) and value.style != "measured":
        return value
    digits = 2 if value.id in _TWO_DIGITS else 3
    return replace(value, number=float(f"{value.number:.{digits - 1}e}"))


# ------------------------------------------------------------------------------------- training


def _speedup(variant: Variant) -> Getter:
    return of_training(lambda run, setting: run.speedup(setting, variant))


def _share(kind: Kind) -> Getter:
    return of_training(lambda run, setting: run.share(kind, setting, NUMPY))


# -------------------------------------------------------------------------------------- scaling


def _end(over: str, place: int, of: Variant | None = None) -> Getter:
    """The speed-up at the smallest or the largest size: of a library, or of the best at the end."""

    def found(run: Run) -> Quantity:
        settings = swept(over)(run)
        shown = of or (best_at(run, settings[-1]) if settings else None)
        if not settings or shown is None:
            return nothing("1")
        return run.speedup(settings[place], shown)

    return found


def growth(run: Run, variant: Variant, over: str) -> Quantity:
    """The speed-up over NumPy at the largest size over that at the smallest."""
    settings = swept(over)(run)
    if len(settings) < 2:
        return nothing("1", Missing("fewer than two sizes were measured"))
    return run.speedup(settings[-1], variant) / run.speedup(settings[0], variant)


def _largest_level(over: str) -> Callable[[Run], int | Missing]:
    def found(run: Run) -> int | Missing:
        settings = swept(over)(run)
        if not settings:
            return NO_CASE
        return settings[-1].hidden if over == "width" else settings[-1].samples

    return found


def _doubled(place: int) -> Callable[[Run], tuple[Setting, Setting] | None]:
    """A width in float32 and in float64, the smallest or the largest that ran in both."""

    def found(run: Run) -> tuple[Setting, Setting] | None:
        double = {s.hidden: s for s in run.widths("float64")}
        pairs = [(s, double[s.hidden]) for s in run.widths() if s.hidden in double]
        return pairs[place] if pairs else None

    return found


def _double(place: int) -> Getter:
    """How many times as long an iteration of NumPy takes in float64 as in float32."""

    def ratio(run: Run) -> Quantity:
        pair = _doubled(place)(run)
        return nothing("1") if pair is None else run.time(pair[1], NUMPY) / run.time(pair[0], NUMPY)

    return ratio


def _double_width(place: int) -> Getter:
    return count_of(
        "width in both types", lambda run: p[0].hidden if (p := _doubled(place)(run)) else NO_CASE
    )


# ------------------------------------------------------------------------------------- learning


def _accuracy(run: Run, setting: Setting) -> Quantity:
    course = run.curve("test_accuracy", setting, NUMPY)
    last = course[-1] if course else Missing("no accuracy was recorded")
    return recorded("last accuracy(NumPy)", "1", last, run.file)


def _spread(run: Run, setting: Setting) -> Quantity:
    found = largest_accuracy_difference(run, setting)
    return recorded("highest less lowest accuracy at any iteration", "1", found, run.file)


def loss_difference(run: Run | None) -> Quantity:
    """The largest difference of a library's losses from NumPy's, as a share of NumPy's."""
    setting = run.training() if run else None
    if run is None or setting is None:
        return nothing("1", NO_RECORD)
    shares = [
        recorded(
            f"difference of losses({v.name})", "1", largest_difference(run, setting, v), run.file
        )
        for v in learned(run, setting)
        if v != NUMPY
    ]
    known = [share for share in shares if not share.missing]
    return at_least(*known) if known else nothing("1")


def _loss_difference(run: Run | None) -> Value:
    found = loss_difference(run)
    return in_unit(declare("loss_difference", found), found, "ppm", Fraction(1, 10**6))


# --------------------------------------------------------------------------------- declarations


#: Of the run that the prose speaks of.
RUN_VALUES: Final[dict[str, Getter]] = {
    "train_images": of_training(
        lambda run, setting: recorded("training images", "1", setting.samples, run.file)
    ),
    "run_iterations": count_of(
        "iterations", lambda run: len(run.curve("train_loss", run.training(), NUMPY)) - 1
    ),
    "processes": of_training(
        lambda run, setting: recorded(
            "processes of a case", "1", run.processes(setting, NUMPY), run.file
        )
    ),
    "numpy_time": numpy_value("time"),
    "narrow_numpy": lambda run: (
        run.time(run.widths()[0], NUMPY) if run.widths() else nothing("s")
    ),
    **CONDITIONS,
    **{f"speedup_{v.key}": _speedup(v) for v in VARIANTS[1:]},
    # Operations.
    "matrix_product_share": _share("matrix_product"),
    "gradient_share": _share("gradient"),
    "softmax_share": _share("softmax"),
    # Larger networks and more images.
    "widest": count_of("largest width", _largest_level("width")),
    "large_samples": count_of("largest number of images", _largest_level("images")),
    **{
        f"{kind}{name}_{over}": _end(over, place, of)
        for kind, of in (("", None), ("compiled_", JAX_COMPILED))
        for over in ("width", "images")
        for name, place in (("first", 0), ("last", -1))
    },
    **{f"double_{name}": _double(place) for name, place in (("narrow", 0), ("wide", -1))},
    **{f"double_{n}_width": _double_width(place) for n, place in (("narrow", 0), ("wide", -1))},
    **MODEL_VALUES,
    # Memory.
    "framework_numpy": of_training(lambda run, s: memory.framework(run, s, NUMPY), "B"),
    "framework_most": of_training(memory.most_framework, "B"),
    # Learning.
    "accuracy": of_training(_accuracy),
    "accuracy_spread": of_training(_spread),
}  # fmt: skip


_OF_IMAGES: Final[dict[str, Callable[[DataSet], Quantity]]] = {
    "test_images": lambda images: exact("images.json", "1", images.test),
}


_SHARES: Final = frozenset(
    {
        "matrix_product_share", "gradient_share", "softmax_share", "accuracy", "accuracy_spread",
    }
)  # fmt: skip
#: Values with two digits, and those that a reader counts with.
_TWO_DIGITS: Final = frozenset(
    {
        "gpu_images_ratio", "roof_times", "matrix_product_share", "gradient_share",
        "softmax_share", "roof_traffic", "roof_work", "gradient_share_gpu",
    }
)  # fmt: skip
_IN_FULL: Final = frozenset({"source_amdahl", "product_intensity", "printed_input"})
_ROUNDED: Final = frozenset({"framework_numpy", "framework_most"})
