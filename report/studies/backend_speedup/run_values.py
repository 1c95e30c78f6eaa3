"""The numbers of backend_speedup's prose that come from runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from report.missing import Missing
from report.paper.images import DataSet
from report.paper.values import Finding, Value, exact
from report.statistics.estimates import Estimate
from report.studies.backend_speedup.claims import growth
from report.studies.backend_speedup.crossovers import Comparison, agreeing
from report.studies.backend_speedup.decomposed import (
    Decomposition,
    decompose,
    iteration_bound,
)
from report.studies.backend_speedup.learning import (
    largest_accuracy_difference,
    largest_difference,
    learned,
)
from report.studies.backend_speedup.measured import (
    NUMPY,
    VARIANTS,
    Run,
    Variant,
    compared_runs,
)
from report.studies.backend_speedup.memory_values import memory_values, own
from report.studies.backend_speedup.prices import price_values
from report.studies.backend_speedup.steady import steady_values
from report.studies.backend_speedup.subject import HIDDEN, Kind, Setting
from report.studies.backend_speedup.tables import share_of
from report.studies.backend_speedup.theory_tables import NO_RECORD

_OVER: Final = "median of NumPy / median of the library"


def fastest(run: Run | None, setting: Setting | None) -> Variant:
    """The library with the largest speed-up whose interval excludes 1; NumPy without one."""
    if run is None or setting is None:
        return NUMPY
    ratios = {v: run.speedup("time", setting, v) for v in run.variants(setting) if v != NUMPY}
    faster = {v: r.value for v, r in ratios.items() if isinstance(r, Estimate) and r.low > 1}
    return max(faster, key=lambda v: faster[v], default=NUMPY)


def run_values(
    run: Run | None,
    pair: tuple[Run, Run] | None,
    compared: Sequence[Comparison],
    images: DataSet | None,
) -> tuple[Value, ...]:
    """Everything that the prose says of the runs; missing without them."""
    return (
        *_data(run, images),
        *_performance(run),
        *_operations(run),
        *_learning(run),
        *_scaling(run, compared),
        *_threads(pair),
        *price_values(run, fastest(run, run.training() if run else None)),
        *steady_values(run),
        *memory_values(run),
    )


def _data(run: Run | None, images: DataSet | None) -> tuple[Value, ...]:
    origin = (run.file,) if run else ()
    setting = run.training() if run else None
    trained = run.groups("time", setting, NUMPY) if run and setting else NO_RECORD
    large = run.sizes()[-1].samples if run and run.sizes() else NO_RECORD
    known = images is not None
    return (
        exact(
            "train_images",
            "Training images",
            setting.samples if setting else NO_RECORD,
            "1",
            "record",
            origin,
        ),
        exact(
            "test_images",
            "Held-out images",
            images.test if known and images else NO_RECORD,
            "1",
            "record",
            origin,
        ),
        exact(
            "run_iterations",
            "Training iterations",
            trained if isinstance(trained, Missing) else len(trained[0]),
            "1",
            "samples of time",
            origin,
        ),
        exact(
            "processes",
            "Processes of a case",
            trained if isinstance(trained, Missing) else len(trained),
            "1",
            "record",
            origin,
        ),
        exact(
            "large_samples", "Largest number of images", large, "1", "cases of the record", origin
        ),
    )


def _performance(run: Run | None) -> tuple[Value, ...]:
    setting = run.training() if run else None
    second = run.training("convnet") if run else None
    best, origin = fastest(run, setting), (run.file,) if run else ()
    found = [
        own("numpy_time", "Iteration with NumPy", _time(run, setting, NUMPY), "s", "median",
               origin),
        own("best_time", "Iteration with the fastest library", _time(run, setting, best), "s",
               "median", origin),
        own("best_speedup", "Speed-up of the fastest library",
               _speedup(run, setting, best), "1", _OVER, origin),
        own("bound_share", "Least time of an iteration over NumPy's time",
               _bound_share(run, setting, NUMPY), "1", "sum of bounds / median", origin, True),
        own("copy_rate", "Measured rate of copies", run.ceiling("copy") if run else NO_RECORD,
               "B/s", "the better of before and after", origin),
        own("product_rate", "Measured rate of matrix products",
               run.ceiling("matrix_product") if run else NO_RECORD, "FLOP/s",
               "the better of before and after", origin),
        own("convnet_numpy_time", "Iteration of the convolution network with NumPy",
               _time(run, second, NUMPY), "s", "median", origin),
        own("convnet_speedup", "Speed-up of the library that is fastest there",
               _speedup(run, second, fastest(run, second)), "1", _OVER, origin),
        own("convnet_time_ratio", "Iteration of the convolution network over the perceptron's",
               _networks_ratio(run), "1", "median / median, NumPy", origin),
    ]  # fmt: skip
    for variant in VARIANTS[1:]:
        found.append(
            own(f"speedup_{variant.key}", f"Speed-up of {variant.name}",
                   _speedup(run, setting, variant), "1", _OVER, origin)
        )  # fmt: skip
    return tuple(found)


def _time(run: Run | None, setting: Setting | None, variant: Variant) -> Estimate | Missing:
    if run is None or setting is None:
        return NO_RECORD
    return run.estimate("time", setting, variant)


def _speedup(run: Run | None, setting: Setting | None, variant: Variant) -> Estimate | Missing:
    if run is None or setting is None:
        return NO_RECORD
    if variant == NUMPY:
        return Missing(f"no library is faster than NumPy there on {run.label}")
    return run.speedup("time", setting, variant)


def _networks_ratio(run: Run | None) -> Finding:
    first = run.training() if run else None
    second = run.training("convnet") if run else None
    if run is None or first is None or second is None:
        return NO_RECORD
    above, below = (run.estimate("time", s, NUMPY) for s in (second, first))
    if isinstance(above, Missing) or isinstance(below, Missing):
        return above if isinstance(above, Missing) else below
    return above.value / below.value


def _bound_share(run: Run | None, setting: Setting | None, variant: Variant) -> Finding:
    time = _time(run, setting, variant)
    if isinstance(time, Missing) or run is None or setting is None:
        return time if isinstance(time, Missing) else NO_RECORD
    bound = iteration_bound(run, setting, variant)
    return bound if isinstance(bound, Missing) else bound / time.value


# --------------------------------------------------------------------------------- operations


def _operations(run: Run | None) -> tuple[Value, ...]:
    setting, origin = run.training() if run else None, (run.file,) if run else ()
    part = _decomposition(run, setting)
    found = [
        own(f"{kind}_share", f"Share of {name} in NumPy's operations",
               _share(run, setting, kind), "1",
               "time / sum of all operations", origin, True)
        for kind, name in _told_kinds()
    ]  # fmt: skip
    missing = part if isinstance(part, Missing) else None
    second = run.training("convnet") if run else None
    eager = eager_best(run, setting) if run and setting else None
    return (
        *found,
        own("convnet_product_share",
               "Share of products in NumPy's operations, convolution network",
               _share(run, second, "matrix_product"), "1",
               "time / sum of all operations", origin, True),
        own("own_amdahl", "Total speed-up from the operations",
               missing or _known(part).predicted, "1", "1 / Σ (share / speed-up)", origin),
        own("own_total", "Total speed-up, measured", missing or _known(part).measured, "1",
               _OVER, origin),
        own("own_limit", "Total speed-up if products took no time",
               missing or 1 / (1 - _known(part).parts["matrix_product"][0]), "1",
               "1 / (1 − share of products)", origin),
        own("synchronising", "Sum of all operations over an iteration, NumPy",
               synchronising(run, setting, NUMPY), "1",
               "sum of operations timed apart / median of an iteration", origin),
        own("own_synchronising", "The same with the library that is put together",
               synchronising(run, setting, eager or NUMPY), "1",
               "sum of operations timed apart / median of an iteration", origin),
    )  # fmt: skip


def _share(run: Run | None, setting: Setting | None, kind: Kind) -> Finding:
    return NO_RECORD if run is None or setting is None else share_of(run, setting, kind, NUMPY)


def _told_kinds() -> tuple[tuple[Kind, str], ...]:
    return (("matrix_product", "products"), ("gradient", "gradients"), ("softmax", "softmax"))


def eager_best(run: Run, setting: Setting) -> Variant | None:
    """The eager library with the largest speed-up over NumPy, whatever its interval."""
    ratios = {
        v: r.value
        for v in run.variants(setting, "matrix_product_time")
        if v != NUMPY and v.eager and isinstance(r := run.speedup("time", setting, v), Estimate)
    }
    return max(ratios, key=lambda v: ratios[v], default=None)


def _decomposition(run: Run | None, setting: Setting | None) -> Decomposition | Missing:
    if run is None or setting is None:
        return NO_RECORD
    variant = eager_best(run, setting)
    if variant is None:
        return Missing("no second library was timed operation by operation")
    return decompose(run, setting, variant)


def _known(part: Decomposition | Missing) -> Decomposition:
    assert isinstance(part, Decomposition)
    return part


def synchronising(run: Run | None, setting: Setting | None, variant: Variant) -> float | Missing:
    """What all operations timed one by one add up to, over the time of an iteration."""
    time = _time(run, setting, variant)
    if isinstance(time, Missing) or run is None or setting is None:
        return time if isinstance(time, Missing) else NO_RECORD
    whole = run.operations_sum(setting, variant)
    return whole if isinstance(whole, Missing) else whole.value / time.value


# ----------------------------------------------------------------------------------- learning


def _learning(run: Run | None) -> tuple[Value, ...]:
    setting, origin = run.training() if run else None, (run.file,) if run else ()
    if run is None or setting is None:
        accuracy: Finding = NO_RECORD
        loss: Finding = NO_RECORD
        spread: Finding = NO_RECORD
    else:
        course = run.curve("test_accuracy", setting, NUMPY)
        accuracy = course[-1] if course else Missing("no accuracy was recorded")
        found = [largest_difference(run, setting, v) for v in learned(run, setting) if v != NUMPY]
        shares = [share for share in found if not isinstance(share, Missing)]
        loss = max(shares) if shares else Missing("one library alone recorded its losses")
        spread = largest_accuracy_difference(run, setting)
    return (
        own("accuracy", "Accuracy on the held-out images, NumPy", accuracy, "1",
               "after the last iteration", origin, True),
        own("loss_difference", "Largest difference of losses from NumPy's", _ppm(loss), "ppm",
               "10⁶ · |loss − loss of NumPy| / loss of NumPy, over all iterations and libraries",
               origin),
        own("accuracy_spread", "Largest difference of accuracies", spread, "1",
               "highest − lowest at any iteration", origin, True),
    )  # fmt: skip


def _ppm(share: Finding) -> Finding:
    """A share in parts per million, which prints without a row of zeros."""
    return share if isinstance(share, Missing | Estimate) else 1e6 * share


# ------------------------------------------------------------------------------------ scaling


def _scaling(run: Run | None, compared: Sequence[Comparison]) -> tuple[Value, ...]:
    origin = (run.file,) if run else ()
    widths, sizes = (run.widths(), run.sizes()) if run else ((), ())
    met, judged = agreeing(compared)
    others = [s.hidden for s in run.sizes_of_all_widths() if s.hidden != HIDDEN] if run else []
    wide = max(others) if others else Missing("one width alone was measured")
    none = Missing("no comparison could be judged")
    return (
        exact("sampled_width", "Larger width at which the number of images was varied", wide, "1",
              "cases of the record", origin),
        exact("widest", "Largest width", widths[-1].hidden if widths else NO_RECORD, "1",
              "cases of the record", origin),
        *_growths(run, widths, "width", "over the widths"),
        *_growths(run, sizes, "images", "over the numbers of images"),
        *_reached(run, widths, "width", "at the largest width"),
        *_reached(run, sizes, "images", "at the largest number of images"),
        exact("crossings_met", "Predictions that meet what was found",
              met if judged else none, "1", "count", origin),
        exact("crossings_judged", "Predictions that could be judged", judged or none, "1", "count",
              origin),
    )  # fmt: skip


def _growths(
    run: Run | None, settings: Sequence[Setting], key: str, what: str
) -> tuple[Value, ...]:
    """The speed-ups at both ends of a sweep and their ratio, of the library that is fastest."""
    origin = (run.file,) if run else ()
    last = settings[-1] if settings else None
    best = _best_there(run, last)
    ratio: Finding = NO_RECORD
    if run is not None and last is not None:
        ratio = growth(run, best, settings) if best != NUMPY else Missing("NumPy stands alone")
    return (
        own(f"first_{key}", f"Speed-up at the smallest size {what}",
               _speedup(run, settings[0] if settings else None, best), "1", _OVER, origin),
        own(f"last_{key}", f"Speed-up at the largest size {what}", _speedup(run, last, best),
               "1", _OVER, origin),
        own(f"growth_{key}", f"Speed-up at the largest over that at the smallest size {what}",
               ratio, "1", "speed-up / speed-up", origin),
    )  # fmt: skip


def _reached(
    run: Run | None, settings: Sequence[Setting], key: str, where: str
) -> tuple[Value, ...]:
    """How near NumPy and the library that is fastest come to the least time."""
    origin, last = (run.file,) if run else (), settings[-1] if settings else None
    sides = (("", "NumPy's time", NUMPY), ("_best", "the fastest one's", _best_there(run, last)))
    return tuple(
        own(f"{key}{end}_bound_share", f"Least time over {name} {where}",
            _bound_share(run, last, variant), "1", "sum of bounds / median", origin, True)
        for end, name, variant in sides
    )  # fmt: skip


def _best_there(run: Run | None, setting: Setting | None) -> Variant:
    """The library with the largest speed-up at a setting, faster than NumPy or not."""
    if run is None or setting is None:
        return NUMPY
    ratios = {
        v: r.value
        for v in run.variants(setting)
        if v != NUMPY and isinstance(r := run.speedup("time", setting, v), Estimate)
    }
    return max(ratios, key=lambda v: ratios[v], default=NUMPY)


def best_name(run: Run | None, settings: Sequence[Setting]) -> str:
    """The name of the library whose growth the prose tells."""
    return _best_there(run, settings[-1] if settings else None).name


def _threads(pair: tuple[Run, Run] | None) -> tuple[Value, ...]:
    origin = tuple(run.file for run in pair) if pair else ()
    alone = Missing("one number of threads alone was measured")
    few, many = pair or (None, None)
    found: list[Value] = []
    for key, name in (("small", "smallest"), ("large", "largest")):
        settings = few.sizes() if few else ()
        ratio: Finding = alone
        if few and many and settings:
            ratio = compared_runs("time", settings[0 if key == "small" else -1], NUMPY, few, many)
        found.append(
            own(f"threads_{key}", f"Speed-up of NumPy by threads at the {name} number of images",
                   ratio, "1", "median with fewer / median with more threads", origin)
        )  # fmt: skip
    ratio = alone
    if few and many and few.widths():
        ratio = compared_runs("time", few.widths()[-1], NUMPY, few, many)
    found.append(
        own("threads_wide", "Speed-up of NumPy by threads at the largest width", ratio, "1",
               "median with fewer / median with more threads", origin)
    )  # fmt: skip
    return tuple(found)
