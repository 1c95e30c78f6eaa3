"""The numbers of the prose about the model, its rivals, products and calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Final

from report.missing import Missing
from report.quantity.expression import Quantity, recorded
from report.studies.backend_speedup.getters import NO_CASE, Getter, count_of, nothing
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
    Prediction,
    Rule,
    Winners,
    errors,
    model,
    parts,
    predictions,
    winners,
)
from report.studies.backend_speedup.products import compiled_gain
from report.studies.backend_speedup.subject import NETWORK_NAMES, Network, Setting, calls


def swept(over: str) -> Callable[[Run], tuple[Setting, ...]]:
    """The sweep over the width or over the number of images."""
    return Run.widths if over == "width" else Run.sizes


def _width(run: Run, place: int) -> Setting | None:
    """An end of the widths, None where there is one width or none."""
    settings = run.widths()
    return settings[place] if len(settings) > 1 else None


def _slowest_process(choose: Callable[[tuple[float, ...]], float]) -> Getter:
    """The median time of a process of PyTorch at the second largest width."""

    def found(run: Run) -> Quantity:
        times = run.medians(run.widths()[-2], TORCH) if len(run.widths()) > 1 else ()
        what = "median of a process with PyTorch"
        return recorded(what, "s", choose(times) if times else NO_CASE, run.file)

    return found


def _error(
    choose: Callable[[list[float]], float], rule: Rule = "measured", of: Rule = "measured"
) -> Getter:
    """Of the factors by which a rule is off, in the cases of which another one says something."""

    def found(run: Run) -> Quantity:
        factors = errors([each for each in predictions(run) if of in each.predicted], rule)
        chosen = choose(factors) if factors else NO_CASE
        return recorded("measured / predicted or its inverse", "1", chosen, run.file)

    return found


def _predicted(run: Run, of: Rule, network: Network | None) -> list[Prediction]:
    """The cases of a network, or of both, of which a rule says something."""
    alike = (each for each in predictions(run) if network in (None, each.setting.network))
    return [each for each in alike if of in each.predicted]


def _well(rule: Rule, of: Rule = "measured", network: Network | None = None) -> Getter:
    """The cases that a rule predicts well, among those of which another one says something."""

    def count(run: Run) -> int | Missing:
        cases = _predicted(run, of, network)
        return sum(error <= GOOD for error in errors(cases, rule)) if cases else NO_CASE

    return count_of("cases within the factor of a good prediction", count)


def _others(network: Network) -> Getter:
    """How many cases of libraries other than NumPy there are."""
    return count_of("cases", lambda run: len(_predicted(run, "numpy", network)) or NO_CASE)


def _cases(network: Network | None, *, failed: bool, short: bool = False) -> Getter:
    """How many cases a network has, of them the failures, and of these the ones predicted short."""

    def count(run: Run) -> int | Missing:
        found = [each for each in predictions(run) if network in (None, each.setting.network)]
        bad = [each for each in found if each.error() > GOOD and (each.ratio > 1 or not short)]
        return len(bad if failed else found) if predictions(run) else NO_CASE

    return count_of("cases", count)


def _winners(which: Callable[[Winners], int]) -> Getter:
    def count(run: Run) -> int | Missing:
        found = winners(run)
        return which(found) if found.cases else NO_CASE

    return count_of("winners", count)


def _call(variant: Variant) -> Getter:
    """What a call costs (s)."""

    def found(run: Run) -> Quantity:
        made = model(run, variant)
        return made.call if made else nothing("s")

    return found


def _without_calls(variant: Variant) -> Getter:
    """How many times as fast the smallest width would be if calls cost nothing (Amdahl 1967)."""

    def found(run: Run) -> Quantity:
        return 1 / (1 - _share("calls", 0, variant)(run))

    return found


def _share(part: str, place: int, variant: Variant) -> Getter:
    """The share of a predicted iteration that calls or products have, at an end of the widths."""

    def found(run: Run) -> Quantity:
        shares = parts(run, run.widths()[place], variant) if run.widths() else {}
        return shares.get(part, nothing("1"))

    return found


MODEL_VALUES: Final[dict[str, Getter]] = {
    "process_low": _slowest_process(min),
    "process_high": _slowest_process(max),
    "predicted": count_of("cases predicted", lambda run: len(predictions(run)) or NO_CASE),
    "predicted_well": _well("measured"),
    **{f"least_{network}": _well("least", network=network) for network in NETWORK_NAMES},
    **{f"well_{network}": _well("measured", network=network) for network in NETWORK_NAMES},
    **{f"numpy_cases_{network}": _others(network) for network in NETWORK_NAMES},
    **{f"numpy_well_{network}": _well("numpy", "numpy", network) for network in NETWORK_NAMES},
    **{f"own_well_{network}": _well("measured", "numpy", network) for network in NETWORK_NAMES},
    "winners_right": _winners(lambda found: found.right),
    "winners_numpy": _winners(lambda found: found.numpy),
    "winners": _winners(lambda found: found.resolved),
    "winners_asked": _winners(lambda found: found.cases),
    "numpy_error": _error(median, "numpy"),
    "own_error": _error(median, of="numpy"),
    "failed": _cases(None, failed=True),
    "failed_short": _cases(None, failed=True, short=True),
    **{f"cases_{network}": _cases(network, failed=False) for network in NETWORK_NAMES},
    **{f"failed_{network}": _cases(network, failed=True) for network in NETWORK_NAMES},
    "median_error": _error(median),
    "least_error": _error(median, "least"),
    "worst_error": _error(max),
    "compiled_narrow_jax": compiled_gain(partial(_width, place=0), JAX, JAX_COMPILED),
    "compiled_wide_jax": compiled_gain(partial(_width, place=-1), JAX, JAX_COMPILED),
    "compiled_narrow_torch": compiled_gain(partial(_width, place=0), TORCH, TORCH_COMPILED),
    "compiled_convnet_jax": compiled_gain(
        partial(Run.training, network="convnet"), JAX, JAX_COMPILED
    ),
    **{f"call_{v.key}": _call(v) for v in (NUMPY, TORCH, JAX)},
    **{f"calls_narrow_{v.key}": _share("calls", 0, v) for v in (NUMPY, TORCH, JAX)},
    "without_calls_jax": _without_calls(JAX),
    "products_narrow_numpy": _share("products", 0, NUMPY),
    "products_wide_numpy": _share("products", -1, NUMPY),
    "iteration_calls": count_of(
        "calls", lambda run: calls(run.widths()[0]) if run.widths() else NO_CASE
    ),
}
