"""The numbers of the prose about calls, and about what compiling them away gains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from report.quantity.expression import Quantity
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
from report.studies.backend_speedup.model import model
from report.studies.backend_speedup.subject import Setting, calls


def swept(over: str) -> Callable[[Run], tuple[Setting, ...]]:
    """The sweep over the width or over the number of images."""
    return Run.widths if over == "width" else Run.sizes


def _compiled_gain(place: int, eager: Variant, compiled: Variant) -> Getter:
    """How many times as fast a library is at an end of the widths once it is compiled."""

    def found(run: Run) -> Quantity:
        settings = run.widths()
        if len(settings) < 2:
            return nothing("1")
        return run.time(settings[place], eager) / run.time(settings[place], compiled)

    return found


def _call(variant: Variant) -> Getter:
    """What a call costs (s)."""

    def found(run: Run) -> Quantity:
        made = model(run, variant)
        return made.call if made else nothing("s")

    return found


MODEL_VALUES: Final[dict[str, Getter]] = {
    "compiled_narrow_jax": _compiled_gain(0, JAX, JAX_COMPILED),
    "compiled_wide_jax": _compiled_gain(-1, JAX, JAX_COMPILED),
    "compiled_narrow_torch": _compiled_gain(0, TORCH, TORCH_COMPILED),
    **{f"call_{v.key}": _call(v) for v in (NUMPY, TORCH, JAX)},
    "iteration_calls": count_of(
        "calls", lambda run: calls(run.widths()[0]) if run.widths() else NO_CASE
    ),
}
