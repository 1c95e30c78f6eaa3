"""The numbers of the prose about the model, its baselines, products and calls."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from statistics import median
from typing import Final, get_args

from report.missing import Missing
from report.quantity.expression import Quantity, recorded
from report.studies.backend_speedup import theory
from report.studies.backend_speedup.getters import NO_CASE, Getter, count_of, nothing, of_training
from report.studies.backend_speedup.measured import (
    JAX,
    JAX_COMPILED,
    NUMPY,
    TORCH,
    TORCH_COMPILED,
    Run,
    Variant,
)
from report.studies.backend_speedup.model import (
    GOOD,
    Group,
    Rule,
    errors,
    predictions,
    right_winners,
)
from report.studies.backend_speedup.products import compiled_gain
from report.studies.backend_speedup.subject import Setting


def swept(over: str) -> Callable[[Run], tuple[Setting, ...]]:
    """The sweep over the width or over the number of images."""
    return Run.widths if over == "width" else Run.sizes


def _over_least(run: Run, setting: Setting, variant: Variant) -> Quantity:
    return run.time(setting, variant) / theory.least_time(run, setting, variant)


def _at_end(over: str, place: int, variant: Variant) -> Getter:
    """Time over least time of a library at the smallest or the largest size of a sweep."""

    def found(run: Run) -> Quantity:
        settings = swept(over)(run)
        return _over_least(run, settings[place], variant) if settings else nothing("1")

    return found


def _slowest_process(choose: Callable[[tuple[float, ...]], float]) -> Getter:
    """The median time of a process of PyTorch at the second largest width."""

    def found(run: Run) -> Quantity:
        times = run.medians(run.widths()[-2], TORCH) if len(run.widths()) > 1 else ()
        what = "median of a process with PyTorch"
        return recorded(what, "s", choose(times) if times else NO_CASE, run.file)

    return found


def _error(choose: Callable[[list[float]], float], rule: Rule = "own") -> Getter:
    """Of the factors by which predictions are off, in either direction."""

    def found(run: Run) -> Quantity:
        factors = errors(predictions(run), rule)
        value = choose(factors) if factors else inf
        told = NO_CASE if value == inf else value
        return recorded("measured / predicted or its inverse", "1", told, run.file)

    return found


def _well(rule: Rule, of: Rule = "own") -> Getter:
    """The cases that a rule predicts well, among those of which another one says something."""

    def count(run: Run) -> int | Missing:
        cases = [each for each in predictions(run) if of in each.predicted]
        return sum(error <= GOOD for error in errors(cases, rule)) if cases else NO_CASE

    return count_of("cases within the factor of a good prediction", count)


def _cases(group: Group | None, *, failed: bool, short: bool = False) -> Getter:
    """How many cases a group has, of them the failures, and of these the ones predicted short."""

    def count(run: Run) -> int | Missing:
        found = [each for each in predictions(run) if group in (None, each.group)]
        bad = [each for each in found if each.error() > GOOD and (each.ratio > 1 or not short)]
        return len(bad if failed else found) if predictions(run) else NO_CASE

    return count_of("cases", count)


def _winners(place: int) -> Getter:
    return count_of("winners", lambda run: right_winners(run)[place] or NO_CASE)


def _update(variant: Variant) -> Getter:
    """The time (s) of the update, which is little more than its calls."""
    return of_training(lambda run, setting: run.operation("update", setting, variant), "s")


MODEL_VALUES: Final[dict[str, Getter]] = {
    "over_least": of_training(lambda run, setting: _over_least(run, setting, NUMPY)),
    "over_least_wide": _at_end("width", -1, NUMPY),
    "over_least_many": _at_end("images", -1, NUMPY),
    "compiled_over_narrow": _at_end("width", 0, JAX_COMPILED),
    "compiled_over_wide": _at_end("width", -1, JAX_COMPILED),
    "process_low": _slowest_process(min),
    "process_high": _slowest_process(max),
    "predicted": count_of("cases predicted", lambda run: len(predictions(run)) or NO_CASE),
    "predicted_well": _well("own"),
    "common_well": _well("common"),
    "numpy_cases": count_of("cases", lambda run: len(errors(predictions(run), "numpy")) or NO_CASE),
    "numpy_well": _well("numpy", "numpy"),
    "own_well": _well("own", "numpy"),
    "winners_right": _winners(0),
    "winners": _winners(1),
    "failed": _cases(None, failed=True),
    "failed_short": _cases(None, failed=True, short=True),
    **{f"cases_{group}": _cases(group, failed=False) for group in get_args(Group)},
    **{f"failed_{group}": _cases(group, failed=True) for group in get_args(Group)},
    "median_error": _error(median),
    "common_error": _error(median, "common"),
    "worst_error": _error(max),
    **{
        f"compiled_{end}_{eager.key}": compiled_gain(place, eager, compiled)
        for end, place in (("narrow", 0), ("wide", -1))
        for eager, compiled in ((JAX, JAX_COMPILED), (TORCH, TORCH_COMPILED))
    },
    **{f"update_{v.key}": _update(v) for v in (NUMPY, TORCH, JAX)},
}
