"""The numbers of backend_speedup's prose: of theory, of the source, of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce
from operator import add
from statistics import median
from typing import Final, TypeAlias

from report.evidence.audit import count_by_verdict
from report.evidence.residuals import residual
from report.missing import Missing
from report.paper.declared import values_of
from report.paper.findings import Inputs
from report.paper.images import DataSet
from report.paper.values import Value, declare
from report.paper.values import exact as value_of
from report.quantity.evaluation import faster, number, point
from report.quantity.expression import Quantity, absent, exact, named, recorded
from report.quantity.operations import at_least, counted_in
from report.statistics.estimates import CONFIDENCE
from report.studies.backend_speedup import memory, theory
from report.studies.backend_speedup.learning import (
    largest_accuracy_difference,
    largest_difference,
    learned,
)
from report.studies.backend_speedup.measured import (
    CUPY,
    NUMPY,
    VARIANTS,
    Run,
    Variant,
)
from report.studies.backend_speedup.model import predictions, price, slowness
from report.studies.backend_speedup.source import (
    SIDES,
    amdahl,
    amdahl_limit,
    audit,
    printed_cell,
    printed_data_set,
    printed_number,
)
from report.studies.backend_speedup.subject import CONVNET_RATE, Kind, Network, Setting, kinds

Getter: TypeAlias = Callable[[Run], Quantity]

NO_RECORD: Final = Missing("no run of this experiment is in the data directory")
_NO_CASE: Final = Missing("no such case was measured")
#: A prediction within this factor of what was measured is a good one.
GOOD: Final = 1.5
#: Images of Kaggle's digit-recognizer that come without a label, by its description
#: (``kaggledigit`` in the bibliography); the others of MNIST are its training file.
_UNLABELLED: Final = exact("images without label (Kaggle)", "1", 28_000)


def all_values(
    inputs: Inputs,
    primary: Run | None,
    pair: tuple[Run, Run] | None,
    gpu: Run | None,
    images: DataSet | None,
) -> Iterator[Value]:
    """Every number of the prose; those of a run are missing without one."""
    rate = "Learning rate of the convolution network"
    yield value_of("convnet_rate", rate, CONVNET_RATE, "1", "chosen")
    yield value_of("confidence", "Confidence", CONFIDENCE, "1", "chosen", (), "percent")
    yield value_of("good", "Factor of a good prediction", GOOD, "1", "chosen")
    yield from (declare(id_, each) for id_, each in theory.VALUES.items())
    yield from _of_source(inputs)
    yield from values_of(primary, RUN_VALUES, NO_RECORD, _SHARES, _ROUNDED)
    yield _loss_difference(primary)
    yield from values_of(images, _OF_IMAGES, NO_RECORD)
    yield from values_of(pair, _OF_THREADS, Missing("one number of threads alone was measured"))
    if gpu is not None:
        yield from values_of(gpu, GPU_VALUES, NO_RECORD)


# -------------------------------------------------------------------------------- the source


def _of_source(inputs: Inputs) -> Iterator[Value]:
    """What the source prints, and what follows from it."""
    exactly = {**_printed(inputs), **_audited(inputs), **_described(inputs)}
    yield from (declare(id_, each, "exact") for id_, each in exactly.items())
    for id_, each in {**_rates(inputs), **_decomposed(inputs)}.items():
        yield declare(id_, each, "percent" if "share" in id_ else "measured")
    yield from _in_printed_units(inputs)


def _printed(inputs: Inputs) -> dict[str, Quantity]:
    numbers = {
        "source_iterations": "iterations",
        "source_rate": "learning_rate",
        "source_speedup": "total_speedup",
    }
    rows = {"3": ("forward", "backward"), "4": ("matrix_product", "relu", "softmax")}
    return {
        **{id_: printed_number(inputs, key) for id_, key in numbers.items()},
        **{
            f"source_{row}": printed_cell(inputs, table, row, "speedup")
            for table, found in rows.items()
            for row in found
        },
    }


def _audited(inputs: Inputs) -> dict[str, Quantity]:
    """How many derived numbers of the source were computed again, by verdict."""
    counts, file = count_by_verdict(audit(inputs.reported)), inputs.reported_file
    agreeing = counts["agrees"] + counts["rounds"]
    return {
        "audited": exact("audited numbers", "1", agreeing + counts["differs"], file),
        "agreeing": exact("audited numbers that agree", "1", agreeing, file),
        "differing": exact("audited numbers that differ", "1", counts["differs"], file),
    }


def _described(inputs: Inputs) -> dict[str, Quantity]:
    """How the source describes its data set."""
    images = printed_data_set(inputs, "training")
    return {
        "printed_images": images,
        "kaggle_images": images + printed_data_set(inputs, "test") - _UNLABELLED,
        "kaggle_columns": theory.D + 1,
    }


def _rates(inputs: Inputs) -> dict[str, Quantity]:
    """How fast the source's machines computed and moved, from its times and from theory."""
    work, traffic = theory.source_work(inputs), theory.source_traffic(inputs)
    times = {side: printed_cell(inputs, "3", "iteration", side) for side in SIDES}
    pixels, images = theory.D, printed_data_set(inputs, "training")
    return {
        "product_intensity": theory.product_intensity(inputs),
        "source_flops_cpu": work / times["cpu"],
        "source_flops_gpu": work / times["gpu"],
        "source_bandwidth_gpu": traffic / times["gpu"],
        "mnist_bytes": counted_in("B", (images + printed_data_set(inputs, "test")) * pixels),
        "parameters_ratio": printed_cell(inputs, "5", "parameters", "cpu") / theory.PARAMETER_BYTES,
        "input_floats": theory.ELEMENT * pixels * images,
        "input_bytes": counted_in("B", pixels * images),
        "input_labelled": counted_in("B", (pixels + 1) * images),
    }


def _decomposed(inputs: Inputs) -> dict[str, Quantity]:
    def share(row: str, side: str) -> Quantity:
        whole = printed_cell(inputs, "3", "iteration", side)
        return printed_cell(inputs, "4", row, side) / whole

    return {
        "source_amdahl": amdahl(inputs),
        "source_limit": amdahl_limit(inputs, "matrix_product"),
        "product_share_cpu": share("matrix_product", "cpu"),
        "product_share_gpu": share("matrix_product", "gpu"),
        "gradient_share_gpu": share("gradient", "gpu"),
    }


def _in_printed_units(inputs: Inputs) -> Iterator[Value]:
    """What is printed with the prefix of the source's own unit."""
    backward = printed_cell(inputs, "3", "backward", "gpu")
    for id_, unit, size, found in (
        ("printed_size", "MB", 10**6, printed_data_set(inputs, "size")),
        ("printed_parameters", "MB", 10**6, printed_cell(inputs, "5", "parameters", "cpu")),
        ("printed_input", "MB", 10**6, printed_cell(inputs, "5", "input", "cpu")),
        (
            "gradient_beyond",
            "ms",
            Fraction(1, 1000),
            printed_cell(inputs, "4", "gradient", "gpu") - backward,
        ),
    ):
        yield _in_unit(declare(id_, found, "exact"), found, unit, size)


def _in_unit(value: Value, found: Quantity, unit: str, size: int | Fraction) -> Value:
    """``value`` in a unit with a prefix, which is ``size`` of the quantity's own."""
    return replace(value, number=number(found / exact(unit, str(found.unit), size)), unit=unit)


# ------------------------------------------------------------------------------ choices of a run


def fastest(run: Run, setting: Setting | None) -> Variant:
    """The library with the largest speed-up over NumPy that is clear; NumPy without one."""
    clear = {v: r for v, r in speedups(run, setting).items() if faster(r)}
    return _largest(clear) or NUMPY


def speedups(run: Run, setting: Setting | None, quantity: str = "time") -> dict[Variant, Quantity]:
    """The speed-ups over NumPy of all libraries of which a quantity was measured."""
    if setting is None:
        return {}
    found = {v: run.speedup(setting, v) for v in run.others(setting, quantity)}
    return {v: ratio for v, ratio in found.items() if not ratio.missing}


def _largest(ratios: Mapping[Variant, Quantity]) -> Variant | None:
    points = {v: at for v, ratio in ratios.items() if isinstance(at := point(ratio), float)}
    return max(points, key=lambda v: points[v], default=None)


def best_at(run: Run, setting: Setting | None) -> Variant | None:
    """The library with the largest speed-up at a setting, faster than NumPy or not."""
    return _largest(speedups(run, setting))


def eager_best(run: Run) -> Variant | None:
    """The eager library with the largest speed-up in the training, whatever its interval."""
    found = speedups(run, run.training(), "matrix_product_time")
    return _largest({v: ratio for v, ratio in found.items() if v.eager})


# ------------------------------------------------------------------------------------- training


def _nothing(unit: str, why: Missing = _NO_CASE) -> Quantity:
    return absent("case", unit, why.reason)


def _trained(
    get: Callable[[Run, Setting], Quantity], unit: str = "1", network: Network = "perceptron"
) -> Getter:
    """What ``get`` makes of a run's training."""

    def found(run: Run) -> Quantity:
        setting = run.training(network)
        return _nothing(unit) if setting is None else get(run, setting)

    return found


def _count(name: str, get: Callable[[Run], int | Missing]) -> Getter:
    return lambda run: recorded(name, "1", get(run), run.file)


def _bound_share(run: Run, setting: Setting, variant: Variant) -> Quantity:
    return theory.least_time(run, setting, variant) / run.time(setting, variant)


def _earned_back(run: Run) -> int | Missing:
    """Iterations until a library that is faster but dear to start has overtaken NumPy.

    From medians, to two digits: (first call − NumPy's) / (NumPy's iteration − its own).
    """
    setting = run.training()
    best = fastest(run, setting)
    if setting is None or best == NUMPY:
        return Missing("no library is clearly faster than NumPy")
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
    return _trained(
        lambda run, setting: run.measured(quantity, setting, fastest(run, setting)), "s"
    )


def _numpy(quantity: str, network: Network = "perceptron") -> Getter:
    return _trained(lambda run, setting: run.measured(quantity, setting, NUMPY), "s", network)


def _speedup(variant: Variant, network: Network = "perceptron") -> Getter:
    return _trained(lambda run, setting: run.speedup(setting, variant), "1", network)


def _share(kind: Kind, network: Network = "perceptron") -> Getter:
    return _trained(lambda run, setting: run.share(kind, setting, NUMPY), "1", network)


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
        return _nothing("1") if variant is None else get(run, setting, variant)

    return _trained(found)


# -------------------------------------------------------------------------------------- scaling


def _swept(over: str) -> Callable[[Run], tuple[Setting, ...]]:
    return Run.widths if over == "width" else Run.sizes


def _end(over: str, place: int) -> Getter:
    """The speed-up at the smallest or the largest size, of the library that is best there."""

    def found(run: Run) -> Quantity:
        settings = _swept(over)(run)
        best = best_at(run, settings[-1]) if settings else None
        return _nothing("1") if best is None else run.speedup(settings[place], best)

    return found


def growth(run: Run, variant: Variant, over: str) -> Quantity:
    """The speed-up over NumPy at the largest size over that at the smallest."""
    settings = _swept(over)(run)
    if len(settings) < 2:
        return _nothing("1", Missing("fewer than two sizes were measured"))
    return run.speedup(settings[-1], variant) / run.speedup(settings[0], variant)


def _largest_level(over: str) -> Callable[[Run], int | Missing]:
    def found(run: Run) -> int | Missing:
        settings = _swept(over)(run)
        if not settings:
            return _NO_CASE
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
        return (
            _nothing("1") if pair is None else run.time(pair[1], NUMPY) / run.time(pair[0], NUMPY)
        )

    return ratio


def _double_width(place: int) -> Getter:
    return _count(
        "width in both types", lambda run: p[0].hidden if (p := _doubled(place)(run)) else _NO_CASE
    )


# ---------------------------------------------------------------------------------------- model


def _error(choose: Callable[[list[float]], float]) -> Getter:
    """Of the factors by which predictions are off, in either direction."""

    def found(run: Run) -> Quantity:
        factors = [max(p.ratio, 1 / p.ratio) for p in predictions(run) if p.ratio > 0]
        return recorded(
            "measured / predicted or its inverse",
            "1",
            choose(factors) if factors else Missing("no case was predicted"),
            run.file,
        )

    return found


# --------------------------------------------------------------------------------------- memory


def _most_framework(run: Run, setting: Setting) -> Quantity:
    others = [memory.framework(run, setting, v) for v in run.others(setting)]
    known = [size for size in others if not size.missing]
    return at_least(*known) if known else _nothing("B")


def _left(run: Run, setting: Setting, variant: Variant) -> Quantity:
    """Resident bytes that neither the framework nor a component explains."""
    sizes = (exact(name, "B", memory.theory(setting, name)) for name in memory.COMPONENTS)
    whole = memory.resident(run, setting, variant) - memory.framework(run, setting, variant)
    return named(f"residual({variant.name})", whole - reduce(add, sizes))


def least_explained(run: Run) -> Variant | None:
    """The library of whose resident memory the largest share stays unexplained."""
    shares = {
        v: abs(share)
        for v, told in memory.wholes(run).items()
        if not isinstance(share := told.residual_share, Missing)
    }
    return max(shares, key=lambda v: shares[v], default=None)


def _unexplained(*, share: bool) -> Getter:
    def found(run: Run, setting: Setting) -> Quantity:
        variant = least_explained(run)
        if variant is None:
            return _nothing("1" if share else "B")
        left = _left(run, setting, variant)
        return left / memory.resident(run, setting, variant) if share else left

    return _trained(found, "1" if share else "B")


def _grown_before(run: Run, setting: Setting) -> Quantity:
    """Bytes that the least explained library took before the iteration, beyond its arrays."""
    variant = least_explained(run)
    if variant is None:
        return _nothing("B")
    known = sum(memory.theory(setting, name) for name in ("input", "parameters"))
    return memory.grown(run, setting, variant) - exact("input and parameters", "B", known)


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
        return _nothing("1", NO_RECORD)
    shares = [
        recorded(
            f"difference of losses({v.name})", "1", largest_difference(run, setting, v), run.file
        )
        for v in learned(run, setting)
        if v != NUMPY
    ]
    known = [share for share in shares if not share.missing]
    return at_least(*known) if known else _nothing("1")


def _loss_difference(run: Run | None) -> Value:
    found = loss_difference(run)
    return _in_unit(declare("loss_difference", found), found, "ppm", Fraction(1, 10**6))


# --------------------------------------------------------------------------------- declarations


#: Of the run that the prose speaks of.
RUN_VALUES: Final[dict[str, Getter]] = {
    "train_images": _trained(
        lambda run, setting: recorded("training images", "1", setting.samples, run.file)
    ),
    "run_iterations": _count(
        "iterations", lambda run: len(run.curve("train_loss", run.training(), NUMPY)) - 1
    ),
    "processes": _trained(
        lambda run, setting: recorded(
            "processes of a case", "1", run.processes(setting, NUMPY), run.file
        )
    ),
    "copy_rate": lambda run: run.peak_rate("copy"),
    "numpy_time": _numpy("time"),
    "bound_share": _trained(lambda run, setting: _bound_share(run, setting, NUMPY)),
    "best_speedup": _trained(lambda run, setting: run.speedup(setting, fastest(run, setting))),
    "first_numpy": _numpy("first_call_time"),
    "first_best": _of_best("first_call_time"),
    "earned_back": _count("(first call − NumPy's) / (NumPy's iteration − its own)", _earned_back),
    **{f"speedup_{v.key}": _speedup(v) for v in VARIANTS[1:]},
    # Operations.
    "matrix_product_share": _share("matrix_product"),
    "gradient_share": _share("gradient"),
    "softmax_share": _share("softmax"),
    "synchronising": _trained(lambda run, setting: _synchronising(run, setting, NUMPY)),
    "own_synchronising": _of_eager(_synchronising),
    "own_amdahl": _of_eager(from_parts),
    "own_total": _of_eager(Run.speedup),
    "own_limit": _trained(most),
    # Larger networks and more images.
    "widest": _count("largest width", _largest_level("width")),
    "large_samples": _count("largest number of images", _largest_level("images")),
    **{
        f"{name}_{over}": _end(over, place)
        for over in ("width", "images")
        for name, place in (("first", 0), ("last", -1))
    },
    **{f"double_{name}": _double(place) for name, place in (("narrow", 0), ("wide", -1))},
    **{f"double_{n}_width": _double_width(place) for n, place in (("narrow", 0), ("wide", -1))},
    # The model.
    **{f"cost_{v.key}": partial(price, variant=v) for v in VARIANTS},
    **{f"slowness_{v.key}": partial(slowness, variant=v) for v in VARIANTS},
    "predicted": _count("cases predicted", lambda run: len(predictions(run)) or _NO_CASE),
    "predicted_well": _count(
        "cases within the factor of a good prediction",
        lambda run: sum(1 / GOOD <= p.ratio <= GOOD for p in predictions(run)),
    ),
    "median_error": _error(median),
    "worst_error": _error(max),
    # The convolution network.
    "convnet_numpy_time": _numpy("time", "convnet"),
    "convnet_time_ratio": lambda run: _numpy("time", "convnet")(run) / _numpy("time")(run),
    "convnet_product_share": _share("matrix_product", "convnet"),
    **{f"convnet_{v.key}": _speedup(v, "convnet") for v in VARIANTS[1:]},
    # Memory.
    "framework_numpy": _trained(lambda run, s: memory.framework(run, s, NUMPY), "B"),
    "framework_most": _trained(_most_framework, "B"),
    "peaks_told": _count("peaks", lambda run: len(memory.peaks(run)) or _NO_CASE),
    "peaks_exact": _count(
        "peaks explained to the byte",
        lambda run: sum(told.explained for told in memory.peaks(run).values()),
    ),
    "residual_peak": lambda run: residual(memory.peaks(run).values(), "B", run.file),
    "resident_share": _unexplained(share=True),
    "residual_most": _unexplained(share=False),
    "residual_before": _trained(_grown_before, "B"),
    # Learning.
    "accuracy": _trained(_accuracy),
    "accuracy_spread": _trained(_spread),
}  # fmt: skip

_OF_IMAGES: Final[dict[str, Callable[[DataSet], Quantity]]] = {
    "test_images": lambda images: exact("images.json", "1", images.test),
}


def _threads(
    place: Callable[[Run], tuple[Setting, ...]], which: int
) -> Callable[[tuple[Run, Run]], Quantity]:
    """What NumPy gains by threads at one size."""

    def found(pair: tuple[Run, Run]) -> Quantity:
        few, many = pair
        settings = place(few)
        if not settings:
            return _nothing("1")
        return few.time(settings[which], NUMPY) / many.time(settings[which], NUMPY)

    return found


_OF_THREADS: Final[dict[str, Callable[[tuple[Run, Run]], Quantity]]] = {
    "threads_small": _threads(Run.sizes, 0),
    "threads_large": _threads(Run.sizes, -1),
    "threads_wide": _threads(Run.widths, -1),
}


def _at(place: str) -> Callable[[Run], Setting | None]:
    """The training, the largest width, or the largest number of images."""
    sweeps: dict[str, Callable[[Run], tuple[Setting, ...]]] = {
        "wide": Run.widths,
        "many": Run.sizes,
    }

    def found(run: Run) -> Setting | None:
        if place == "small":
            return run.training()
        settings = sweeps[place](run)
        return settings[-1] if len(settings) > 1 else None

    return found


def on_gpu(run: Run, place: str) -> tuple[Variant, ...]:
    """The libraries on the GPU whose speed-up over NumPy is known at a place."""
    return tuple(v for v in speedups(run, _at(place)(run)) if v.on_gpu)


def _gpu_speedup(place: str, variant: Variant) -> Getter:
    def found(run: Run) -> Quantity:
        setting = _at(place)(run)
        return _nothing("1") if setting is None else run.speedup(setting, variant)

    return found


def _gpu_level(place: str, of: str) -> Getter:
    def level(run: Run) -> int | Missing:
        setting = _at(place)(run)
        return _NO_CASE if setting is None else int(getattr(setting, of))

    return _count(of, level)


def _first_call(run: Run, setting: Setting, variant: Variant) -> Quantity:
    return run.measured("first_call_time", setting, variant)


#: Of a run on a GPU.
GPU_VALUES: Final[dict[str, Getter]] = {
    "gpu_threads": _count("threads", lambda run: run.stored.record.environment.threads),
    "gpu_time_numpy": _numpy("time"),
    "gpu_block": lambda run: exact("documented by the libraries", "B", memory.BLOCK),
    **{
        f"gpu_first_{v.key}": _trained(partial(_first_call, variant=v), "s")
        for v in (NUMPY, *VARIANTS[4:])
    },
    **{
        f"gpu_{p}_{v.key}": _gpu_speedup(p, v)
        for p in ("small", "wide", "many")
        for v in VARIANTS[4:]
    },
    **{
        f"gpu_{p}_{name}": _gpu_level(p, of)
        for p in ("small", "wide", "many")
        for name, of in (("width", "hidden"), ("images", "samples"))
    },
    "gpu_relu_cupy": _trained(lambda run, s: run.operation("relu", s, CUPY), "s"),
    "gpu_relu_ratio": _trained(
        lambda run, s: run.operation("relu", s, CUPY) / run.operation("relu", s, VARIANTS[4])
    ),
}  # fmt: skip

_SHARES: Final = frozenset(
    {
        "bound_share", "matrix_product_share", "gradient_share", "softmax_share",
        "convnet_product_share", "resident_share", "accuracy", "accuracy_spread",
    }
)  # fmt: skip
_ROUNDED: Final = frozenset(
    {"framework_numpy", "framework_most", "residual_most", "residual_before"}
)
