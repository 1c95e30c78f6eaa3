"""The numbers of backend_speedup's prose: of theory, of the source, of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Final

from report.evidence.residuals import residual
from report.missing import Missing
from report.paper.declared import values_of
from report.paper.findings import Inputs
from report.paper.images import DataSet
from report.paper.values import Value, declare
from report.paper.values import exact as value_of
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, exact, recorded
from report.quantity.operations import at_least
from report.statistics.estimates import CONFIDENCE
from report.studies.backend_speedup import memory, theory
from report.studies.backend_speedup.choices import best_at, eager_best, fastest
from report.studies.backend_speedup.conditions import CONDITIONS, ENOUGH, disturbed_values
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
    JAX,
    JAX_COMPILED,
    NUMPY,
    VARIANTS,
    Run,
    Variant,
)
from report.studies.backend_speedup.memory_values import (
    grown_before,
    least_explained,
    most_framework,
    unexplained,
)
from report.studies.backend_speedup.model import GOOD
from report.studies.backend_speedup.model_values import MODEL_VALUES, swept
from report.studies.backend_speedup.products import bare_rate
from report.studies.backend_speedup.source_values import in_unit, source_values
from report.studies.backend_speedup.subject import Kind, Network, Setting, kinds
from report.studies.backend_speedup.threads import THREAD_VALUES, Pair


def all_values(
    inputs: Inputs,
    primary: Run | None,
    pair: Pair | None,
    gpu: Run | None,
    images: DataSet | None,
    second: Run | None,
    others: Sequence[Run],
) -> Iterator[Value]:
    """Every number of the prose; those of a run are missing without one.

    ``others`` are the disturbed runs beside the one of the prose.
    """
    yield value_of("confidence", "Confidence", CONFIDENCE, "1", "chosen", (), "percent")
    yield value_of("enough", "Processes that bound a median", ENOUGH, "1", "chosen")
    yield value_of("good", "Factor of a good prediction", GOOD, "1", "chosen")
    found = (
        *(declare(id_, each) for id_, each in theory.VALUES.items()),
        *source_values(inputs),
        *values_of(primary, RUN_VALUES, NO_RECORD, _SHARES, _ROUNDED),
        _loss_difference(primary),
        *values_of(images, _OF_IMAGES, NO_RECORD),
        *values_of(pair, THREAD_VALUES, Missing("one number of threads alone was measured")),
        *values_of(second, _OF_SECOND, NO_RECORD, (), _ROUNDED),
        *(values_of(gpu, GPU_VALUES, NO_RECORD) if gpu is not None else ()),
        *disturbed_values(others),
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


def _earned_back(run: Run) -> int | Missing:
    """Iterations until a library that is faster but dear to start has overtaken NumPy.

    From medians, to two digits: (first call − NumPy's) / (NumPy's iteration − its own).
    """
    setting = run.training()
    best = fastest(run, setting)
    if setting is None or best == NUMPY:
        return Missing("no library is faster than NumPy by its interval")
    names = ("first_call_time", "time")
    times = [point(run.measured(name, setting, v)) for v in (NUMPY, best) for name in names]
    known = [time for time in times if not isinstance(time, Missing)]
    if len(known) < len(times):
        return Missing("a first call was not recorded")
    first_base, base, first, own = known
    if first <= first_base or own >= base:
        return Missing("nothing has to be earned back")
    exactly = math.ceil((first - first_base) / (base - own))
    return int(float(f"{exactly:.1e}"))


def _of_best(quantity: str) -> Getter:
    return of_training(
        lambda run, setting: run.measured(quantity, setting, fastest(run, setting)), "s"
    )


def _speedup(variant: Variant, network: Network = "perceptron") -> Getter:
    return of_training(lambda run, setting: run.speedup(setting, variant), "1", network)


def _share(kind: Kind, network: Network = "perceptron") -> Getter:
    return of_training(lambda run, setting: run.share(kind, setting, NUMPY), "1", network)


# ------------------------------------------------------------------------------------ operations


def _synchronising(run: Run, setting: Setting, variant: Variant) -> Quantity:
    """What all operations timed one by one add up to, over the time of an iteration."""
    return run.operations_sum(setting, variant) / run.time(setting, variant)


def from_parts(run: Run, setting: Setting, variant: Variant) -> Quantity:
    """The total speed-up that those of the operations give, 1 / Σ (fᵢ / sᵢ) (Amdahl 1967)."""
    return run.operations_sum(setting, NUMPY) / run.operations_sum(setting, variant)


def most(run: Run, setting: Setting) -> Quantity:
    """The total speed-up if matrix products took no time and all else stayed as with NumPy."""
    return 1 / (1 - run.share("matrix_product", setting, NUMPY))


def gains_most(run: Run, setting: Setting, variant: Variant) -> Kind | None:
    """The kind of operation that gains most."""
    gains = {k: point(run.speedup(setting, variant, f"{k}_time")) for k in kinds(setting.network)}
    known = {kind: gain for kind, gain in gains.items() if not isinstance(gain, Missing)}
    return max(known, key=lambda kind: known[kind], default=None)


def _of_eager(get: Callable[[Run, Setting, Variant], Quantity]) -> Getter:
    """What ``get`` makes of the training with the eager library that is set against NumPy."""

    def found(run: Run, setting: Setting) -> Quantity:
        variant = eager_best(run)
        return nothing("1") if variant is None else get(run, setting, variant)

    return of_training(found)


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


def _knee(run: Run) -> int | Missing:
    """The iteration of the largest fall of the loss after the first tenth."""
    course = run.curve("train_loss", run.training(), NUMPY)
    falls = {at: course[at - 1] - course[at] for at in range(len(course) // 10 + 1, len(course))}
    return max(falls, key=lambda at: falls[at], default=NO_CASE)


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
    "first_numpy": numpy_value("first_call_time"),
    "first_best": _of_best("first_call_time"),
    "earned_back": count_of("(first call − NumPy's) / (NumPy's iteration − its own)", _earned_back),
    **{f"speedup_{v.key}": _speedup(v) for v in VARIANTS[1:]},
    # Operations.
    "matrix_product_share": _share("matrix_product"),
    "gradient_share": _share("gradient"),
    "softmax_share": _share("softmax"),
    "own_synchronising": _of_eager(_synchronising),
    "own_amdahl": _of_eager(from_parts),
    "own_total": _of_eager(Run.speedup),
    "jax_amdahl": of_training(lambda run, s: from_parts(run, s, JAX)),
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
    # The convolution network.
    "convnet_numpy_time": numpy_value("time", "convnet"),
    "convnet_time_ratio": lambda run: (
        numpy_value("time", "convnet")(run) / numpy_value("time")(run)
    ),
    "convnet_product_share": _share("matrix_product", "convnet"),
    "convnet_gradient_share": _share("gradient", "convnet"),
    **{f"convnet_{v.key}": _speedup(v, "convnet") for v in VARIANTS[1:]},
    # Memory.
    "framework_numpy": of_training(lambda run, s: memory.framework(run, s, NUMPY), "B"),
    "framework_most": of_training(most_framework, "B"),
    "peaks_told": count_of("peaks", lambda run: len(memory.peaks(run)) or NO_CASE),
    "peaks_exact": count_of(
        "peaks explained to the byte",
        lambda run: sum(r.explained for r in memory.peaks(run).values()),
    ),
    "residual_peak": lambda run: residual(memory.peaks(run).values(), "B", run.file),
    "resident_share": unexplained(share=True),
    "residual_most": unexplained(share=False),
    "residual_before": of_training(
        lambda run, s: grown_before(run, s, least_explained(run) or NUMPY), "B"
    ),
    # Learning.
    "accuracy": of_training(_accuracy),
    "accuracy_spread": of_training(_spread),
    "knee": count_of("iteration of the largest fall of the loss", _knee),
}  # fmt: skip


def _scatter(run: Run) -> Quantity:
    """The largest ratio of the medians of two processes of a case of the sweeps."""
    medians = [run.medians(s, v) for s in run.scaled() for v in run.variants(s)]
    ratios = [max(each) / min(each) for each in medians if each]
    name = "slowest over fastest process of a case"
    return recorded(name, "1", max(ratios) if ratios else NO_CASE, run.file)


#: Of another CPU's run, whose record holds two products on one machine.
_OF_SECOND: Final[dict[str, Getter]] = {
    f"bare_{name}_{moment}": bare_rate(moment, onednn=name == "onednn")
    for name in ("torch", "onednn")
    for moment in ("before", "after")
} | {
    "second_before": of_training(partial(grown_before, variant=JAX), "B"),
    "second_scatter": _scatter,
}

_OF_IMAGES: Final[dict[str, Callable[[DataSet], Quantity]]] = {
    "test_images": lambda images: exact("images.json", "1", images.test),
}


_SHARES: Final = frozenset(
    {
        "matrix_product_share", "gradient_share", "softmax_share", "pages_share",
        *(name for name in MODEL_VALUES if name.startswith(("calls_", "products_"))),
        "convnet_product_share", "convnet_gradient_share", "resident_share", "accuracy",
        "accuracy_spread",
    }
)  # fmt: skip
#: Values with two digits, and those that a reader counts with.
_TWO_DIGITS: Final = frozenset(
    {
        "gpu_images_ratio", "roof_times", "worst_error", "pages_share",
        "second_scatter", "convnet_time_ratio", "convnet_gradient_share", "convnet_product_share",
        "matrix_product_share", "gradient_share", "softmax_share", "roof_traffic", "roof_work",
        "process_low", "process_high", "resident_share", "gradient_share_gpu",
    }
)  # fmt: skip
_IN_FULL: Final = frozenset(
    {"source_amdahl", "convnet_work_ratio", "product_intensity", "printed_input"}
)
_ROUNDED: Final = frozenset(
    {"second_before", "framework_numpy", "framework_most", "residual_most", "residual_before"}
)
