"""The numbers of backend_speedup's prose on memory, and how values of runs are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import sub

from report.evidence.residuals import residual
from report.missing import Missing
from report.paper.values import Value, declare
from report.quantity.evaluation import number
from report.quantity.expression import Quantity, absent, exact, named
from report.quantity.operations import at_least
from report.studies.backend_speedup.measured import NUMPY, Run, Variant
from report.studies.backend_speedup.memory import COMPONENTS, framework, grown, resident, theory
from report.studies.backend_speedup.memory_tables import peaks, wholes
from report.studies.backend_speedup.theory_tables import NO_RECORD
from report.text.format import Number, Style


def declared(
    quantities: Mapping[str, Quantity], style: Style | None = "measured"
) -> tuple[Value, ...]:
    """The values of quantities, under their ids; shares are printed in per cent."""
    return tuple(
        declare(id_, quantity, "percent" if "share" in id_ else style)
        for id_, quantity in quantities.items()
    )


def declared_in(
    unit: str, size: Number | Fraction, id_: str, quantity: Quantity, style: Style = "exact"
) -> Value:
    """A value in a unit with a prefix, which is ``size`` of the quantity's own."""
    one = exact(unit, str(quantity.unit), size)
    return replace(declare(id_, quantity, style), number=number(quantity / one), unit=unit)


def of_run(run: Run | None, name: str, found: Number | Missing, unit: str = "1") -> Quantity:
    """A number without uncertainty that a run gives; absent where it or the run is missing."""
    if run is None or isinstance(found, Missing):
        reason = found if isinstance(found, Missing) else NO_RECORD
        return absent(name, unit, reason.reason)
    return exact(name, unit, found, run.file)


def least_explained(run: Run | None) -> Variant | None:
    """The library of whose resident memory the largest share stays unexplained."""
    shares = {
        v: abs(share)
        for v, told in (wholes(run) if run else {}).items()
        if not isinstance(share := told.residual_share, Missing)
    }
    return max(shares, key=lambda v: shares[v], default=None)


def constant_offset(run: Run | None) -> bool:
    """Whether NumPy alone leaves a residual at the peaks, and the same one at every size."""
    told = peaks(run) if run else {}
    rests = {variant: set[int | None]() for _, variant in told}
    for (_, variant), one in told.items():
        rests[variant].add(None if isinstance(one.residual, Missing) else one.residual)
    others = set().union(*(found for v, found in rests.items() if v != NUMPY))
    own_rests = rests.get(NUMPY, set())
    return others <= {0} and len(own_rests) == 1 and not own_rests & {0, None}


def memory_values(run: Run | None) -> tuple[Value, ...]:
    """Framework overhead, and what is left unexplained."""
    told = wholes(run).values() if run else ()
    peak = tuple(peaks(run).values()) if run else ()
    sources = (run.file,) if run else ()
    explained = sum(one.explained for one in peak) if peak else NO_RECORD
    exactly = {
        "residual_resident": residual(told, "B", *sources),
        "residual_peak": residual(peak, "B", *sources),
        "peaks_exact": of_run(run, "peaks explained to the byte", explained),
        "peaks_told": of_run(run, "peaks", len(peak) or NO_RECORD),
    }
    return (*declared({**_frameworks(run), **_residuals(run)}), *declared(exactly, "exact"))


def _frameworks(run: Run | None) -> dict[str, Quantity]:
    """The framework overhead of NumPy, and the largest of the others."""
    setting = run.training() if run else None
    base: Quantity = absent("framework overhead", "B", NO_RECORD.reason)
    most = base
    if run and setting:
        base = framework(run, setting, NUMPY)
        others = [framework(run, setting, v) for v in run.variants(setting) if v != NUMPY]
        known = [size for size in others if not size.missing]
        alone = absent("framework overhead", "B", "one library alone was measured")
        most = at_least(*known) if known else alone
    return {"framework_numpy": base, "framework_most": most}


def _residuals(run: Run | None) -> dict[str, Quantity]:
    """The largest share of the resident memory without explanation, and that library's bytes."""
    setting, variant = run.training() if run else None, least_explained(run)
    if run is None or setting is None or variant is None:
        units = {"resident_share": "1", "residual_most": "B", "residual_before": "B"}
        return {id_: absent("residual", unit, NO_RECORD.reason) for id_, unit in units.items()}
    size = {name: exact(name, "B", theory(setting, name)) for name in COMPONENTS}
    left, shares = {}, []
    for v, told in wholes(run).items():
        whole = resident(run, setting, v)
        rest = reduce(sub, size.values(), whole - framework(run, setting, v))
        left[v] = named(f"residual({v.name})", rest)
        if not isinstance(told.residual_share, Missing):
            positive = named(f"|residual({v.name})|", at_least(left[v], 0 * left[v] - left[v]))
            shares.append(positive / whole)
    return {
        "resident_share": at_least(*shares),
        "residual_most": left[variant],
        "residual_before": grown(run, setting, variant) - size["input"] - size["parameters"],
    }
