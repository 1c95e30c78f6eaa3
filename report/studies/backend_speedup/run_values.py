"""The numbers of backend_speedup's prose that come from runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Final

from report.evidence.runs import known
from report.missing import Missing
from report.paper.images import DataSet
from report.paper.values import Value, declare
from report.quantity.evaluation import faster, point
from report.quantity.expression import Quantity, absent
from report.quantity.expression import exact as quantity_of
from report.quantity.operations import at_least
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
from report.studies.backend_speedup.memory_values import (
    declared,
    declared_in,
    memory_values,
    of_run,
)
from report.studies.backend_speedup.prices import price_values
from report.studies.backend_speedup.steady import steady_values
from report.studies.backend_speedup.subject import HIDDEN, Kind, Setting
from report.studies.backend_speedup.tables import share_of
from report.studies.backend_speedup.theory_tables import NO_RECORD


def fastest(run: Run | None, setting: Setting | None) -> Variant:
    """The library with the largest speed-up whose interval excludes 1; NumPy without one."""
    if run is None or setting is None:
        return NUMPY
    clear = {v: ratio for v, ratio in _ratios(run, setting).items() if faster(ratio)}
    return _largest(clear) or NUMPY


def _ratios(run: Run, setting: Setting, quantity: str = "time") -> dict[Variant, Quantity]:
    """The speed-ups over NumPy of all libraries of which a quantity was measured."""
    others = (v for v in run.variants(setting, quantity) if v != NUMPY)
    found = {v: run.speedup("time", setting, v) for v in others}
    return {v: ratio for v, ratio in found.items() if not ratio.missing}


def _largest(ratios: Mapping[Variant, Quantity]) -> Variant | None:
    values = {v: known(point(ratio)) for v, ratio in ratios.items()}
    return max(values, key=lambda v: values[v], default=None)


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
    setting = run.training() if run else None
    trained = run.processes("time", setting, NUMPY) if run and setting else NO_RECORD
    none = trained if isinstance(trained, Missing) else None
    processes = () if isinstance(trained, Missing) else trained
    large = run.sizes()[-1].samples if run and run.sizes() else NO_RECORD
    numbers = {
        "train_images": ("training images", setting.samples if setting else NO_RECORD),
        "test_images": ("held-out images", images.test if images else NO_RECORD),
        "run_iterations": ("samples of time", none or len(processes[0].samples)),
        "processes": ("processes of a case", none or len(processes)),
        "large_samples": ("largest number of images", large),
    }
    return _counted(run, numbers)


def _counted(
    run: Run | None, numbers: Mapping[str, tuple[str, int | Missing]]
) -> tuple[Value, ...]:
    """Whole numbers that a run gives, with their names in formulas."""
    return declared({id_: of_run(run, *number) for id_, number in numbers.items()}, "exact")


def _performance(run: Run | None) -> tuple[Value, ...]:
    setting = run.training() if run else None
    second = run.training("convnet") if run else None
    best = fastest(run, setting)
    quantities = {
        "numpy_time": _time(run, setting, NUMPY),
        "best_time": _time(run, setting, best),
        "best_speedup": _speedup(run, setting, best),
        "bound_share": _bound_share(run, setting, NUMPY),
        "copy_rate": run.peak_rate("copy") if run else _nothing("B/s"),
        "product_rate": run.peak_rate("matrix_product") if run else _nothing("FLOP/s"),
        "convnet_numpy_time": _time(run, second, NUMPY),
        "convnet_speedup": _speedup(run, second, fastest(run, second)),
        "convnet_time_ratio": _time(run, second, NUMPY) / _time(run, setting, NUMPY),
        **{f"speedup_{v.key}": _speedup(run, setting, v) for v in VARIANTS[1:]},
    }
    return declared(quantities)


def _nothing(unit: str) -> Quantity:
    return absent("a run", unit, NO_RECORD.reason)


def _time(run: Run | None, setting: Setting | None, variant: Variant) -> Quantity:
    if run is None or setting is None:
        return _nothing("s")
    return run.time(setting, variant)


def _speedup(run: Run | None, setting: Setting | None, variant: Variant) -> Quantity:
    if run is None or setting is None:
        return _nothing("1")
    if variant == NUMPY:
        return absent("speed-up", "1", f"no library is faster than NumPy there on {run.label}")
    return run.speedup("time", setting, variant)


def _bound_share(run: Run | None, setting: Setting | None, variant: Variant) -> Quantity:
    if run is None or setting is None:
        return _nothing("1")
    bound = iteration_bound(run, setting, variant)
    if isinstance(bound, Missing):
        return absent("least time", "1", bound.reason)
    return quantity_of("least time", "s", bound) / run.time(setting, variant)


# --------------------------------------------------------------------------------- operations


def _operations(run: Run | None) -> tuple[Value, ...]:
    setting = run.training() if run else None
    part = _decomposition(run, setting)
    second = run.training("convnet") if run else None
    eager = eager_best(run, setting) if run and setting else None
    shares = {f"{kind}_share": _share(run, setting, kind) for kind in _SHARED}
    missing = part if isinstance(part, Missing) else None
    products = shares["matrix_product_share"]
    none = absent("decomposition", "1", missing.reason) if missing else None
    return (
        *declared(shares),
        *declared({"convnet_product_share": _share(run, second, "matrix_product")}),
        *declared({
            "own_amdahl": none or _predicted(run, _known(part)),
            "own_total": none or _known(part).measured,
            "own_limit": none or 1 / (1 - products),
            "synchronising": synchronising(run, setting, NUMPY),
            "own_synchronising": synchronising(run, setting, eager or NUMPY),
        }),
    )  # fmt: skip


def _predicted(run: Run | None, part: Decomposition) -> Quantity:
    """The total speed-up that the operations give, from their medians."""
    return 1 / reduce(
        add,
        (
            of_run(run, f"share({kind.replace('_', ' ')})", share)
            / of_run(run, f"speed-up({kind.replace('_', ' ')})", speedup)
            for kind, (share, speedup) in part.parts.items()
        ),
    )


#: The operations of which the prose tells the share.
_SHARED: Final[tuple[Kind, ...]] = ("matrix_product", "gradient", "softmax")


def _share(run: Run | None, setting: Setting | None, kind: Kind) -> Quantity:
    return _nothing("1") if run is None or setting is None else share_of(run, setting, kind, NUMPY)


def eager_best(run: Run, setting: Setting) -> Variant | None:
    """The eager library with the largest speed-up over NumPy, whatever its interval."""
    ratios = _ratios(run, setting, "matrix_product_time")
    return _largest({v: ratio for v, ratio in ratios.items() if v.eager})


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


def synchronising(run: Run | None, setting: Setting | None, variant: Variant) -> Quantity:
    """What all operations timed one by one add up to, over the time of an iteration."""
    if run is None or setting is None:
        return _nothing("1")
    return run.operations_sum(setting, variant) / run.time(setting, variant)


# ----------------------------------------------------------------------------------- learning


def _learning(run: Run | None) -> tuple[Value, ...]:
    """NumPy's accuracy, and how far the libraries' losses and accuracies ever were apart."""
    setting = run.training() if run else None
    accuracy: float | Missing = NO_RECORD
    spread: float | Missing = NO_RECORD
    losses: Quantity = absent("difference of losses", "1", NO_RECORD.reason)
    if run is not None and setting is not None:
        course = run.curve("test_accuracy", setting, NUMPY)
        accuracy = course[-1] if course else Missing("no accuracy was recorded")
        spread = largest_accuracy_difference(run, setting)
        losses = _loss_difference(run, setting)
    return (
        declare("accuracy", of_run(run, "last accuracy(NumPy)", accuracy), "percent"),
        declared_in("ppm", Fraction(1, 10**6), "loss_difference", losses, "measured"),
        declare(
            "accuracy_spread",
            of_run(run, "highest less lowest accuracy at any iteration", spread),
            "percent",
        ),
    )


def _loss_difference(run: Run, setting: Setting) -> Quantity:
    """The largest difference of a library's losses from NumPy's, as a share of NumPy's."""
    shares = [
        of_run(
            run,
            f"|loss({v.name}) − loss(NumPy)| / loss(NumPy) at any iteration",
            largest_difference(run, setting, v),
        )
        for v in learned(run, setting)
        if v != NUMPY
    ]
    known = [share for share in shares if not share.missing]
    alone = absent("difference of losses", "1", "one library alone recorded its losses")
    return at_least(*known) if known else alone


# ------------------------------------------------------------------------------------ scaling


def _scaling(run: Run | None, compared: Sequence[Comparison]) -> tuple[Value, ...]:
    widths, sizes = (run.widths(), run.sizes()) if run else ((), ())
    met, judged = agreeing(compared)
    others = [s.hidden for s in run.sizes_of_all_widths() if s.hidden != HIDDEN] if run else []
    none = Missing("no comparison could be judged")
    alone = Missing("one width alone was measured")
    numbers = {
        "sampled_width": ("largest width of several sizes", max(others) if others else alone),
        "widest": ("largest width", widths[-1].hidden if widths else NO_RECORD),
        "crossings_met": ("predictions that meet what was found", met if judged else none),
        "crossings_judged": ("predictions that could be judged", judged or none),
    }
    return (
        *_counted(run, numbers),
        *_growths(run, widths, "width"),
        *_growths(run, sizes, "images"),
    )


def _growths(run: Run | None, settings: Sequence[Setting], key: str) -> tuple[Value, ...]:
    """The speed-ups at both ends of a sweep and their ratio, of the library that is fastest.

    Then how near NumPy and that library come to the least time at the largest size.
    """
    first, last = (settings[0], settings[-1]) if settings else (None, None)
    best = _best_there(run, last)
    ratio = _nothing("1")
    if run is not None and last is not None:
        ratio = growth(run, best, settings)
        ratio = ratio if best != NUMPY else absent("growth", "1", "NumPy stands alone")
    return declared(
        {
            f"first_{key}": _speedup(run, first, best),
            f"last_{key}": _speedup(run, last, best),
            f"growth_{key}": ratio,
            f"{key}_bound_share": _bound_share(run, last, NUMPY),
            f"{key}_best_bound_share": _bound_share(run, last, best),
        }
    )


def _best_there(run: Run | None, setting: Setting | None) -> Variant:
    """The library with the largest speed-up at a setting, faster than NumPy or not."""
    if run is None or setting is None:
        return NUMPY
    return _largest(_ratios(run, setting)) or NUMPY


def best_name(run: Run | None, settings: Sequence[Setting]) -> str:
    """The name of the library whose growth the prose tells."""
    return _best_there(run, settings[-1] if settings else None).name


_ALONE: Final = "one number of threads alone was measured"


def _threads(pair: tuple[Run, Run] | None) -> tuple[Value, ...]:
    """What NumPy gains by threads at the smallest and largest number of images and width."""
    found: dict[str, Quantity] = {
        f"threads_{key}": absent("speed-up by threads", "1", _ALONE)
        for key in ("small", "large", "wide")
    }
    if pair:
        few, many = pair
        places = (few.sizes()[:1], few.sizes()[-1:], few.widths()[-1:])
        for id_, settings in zip(tuple(found), places, strict=True):
            for setting in settings:
                found[id_] = compared_runs(setting, NUMPY, few, many)
    return declared(found)
