"""The numbers of the prose about memory."""

from __future__ import annotations

from functools import reduce
from operator import add

from report.missing import Missing
from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import at_least
from report.studies.backend_speedup import memory
from report.studies.backend_speedup.getters import Getter, nothing, of_training
from report.studies.backend_speedup.measured import Run, Variant
from report.studies.backend_speedup.subject import Setting


def most_framework(run: Run, setting: Setting) -> Quantity:
    others = [memory.framework(run, setting, v) for v in run.others(setting)]
    known = [size for size in others if not size.missing]
    return at_least(*known) if known else nothing("B")


def _left(run: Run, setting: Setting, variant: Variant) -> Quantity:
    """Resident bytes that neither the framework nor a component explains."""
    sizes = (exact(name, "B", memory.theory(setting, name)) for name in memory.COMPONENTS)
    whole = memory.resident(run, setting, variant) - memory.framework(run, setting, variant)
    return named(f"residual({variant.name})", whole - reduce(add, sizes))


def least_explained(run: Run) -> Variant | None:
    """The library of whose resident memory the largest share stays unexplained."""
    shares = {
        v: abs(share)
        for v, r in memory.wholes(run).items()
        if not isinstance(share := r.residual_share, Missing)
    }
    return max(shares, key=lambda v: shares[v], default=None)


def unexplained(*, share: bool) -> Getter:
    def found(run: Run, setting: Setting) -> Quantity:
        variant = least_explained(run)
        if variant is None:
            return nothing("1" if share else "B")
        left = _left(run, setting, variant)
        return left / memory.resident(run, setting, variant) if share else left

    return of_training(found, "1" if share else "B")


def grown_before(run: Run, setting: Setting, variant: Variant) -> Quantity:
    """Bytes that a library took before the iteration, beyond its arrays."""
    known = sum(memory.theory(setting, name) for name in ("input", "parameters"))
    return memory.grown(run, setting, variant) - exact("input and parameters", "B", known)
