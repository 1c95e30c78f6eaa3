"""The numbers of backend_speedup's prose on memory, and how a measured value is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from report.evidence.runs import difference
from report.missing import Missing
from report.paper.residuals import residual
from report.paper.values import Finding, Value, declare, exact
from report.quantity.expression import Quantity
from report.studies.backend_speedup.measured import NUMPY, Run, Variant
from report.studies.backend_speedup.memory import framework, grown, theory
from report.studies.backend_speedup.memory_tables import peaks, wholes
from report.studies.backend_speedup.subject import Setting
from report.studies.backend_speedup.theory_tables import NO_RECORD
from report.text.format import Style
from report.theory.reconciliation import Reconciliation


def own(
    id_: str,
    name: str,
    found: Finding,
    unit: str,
    formula: str,
    origin: tuple[str, ...],
    percent: bool = False,
) -> Value:
    style: Style = "percent" if percent else "measured"
    return Value(id_, name, found, unit, formula, origin, style)


def declared(
    quantities: Mapping[str, Quantity], style: Style | None = "measured"
) -> tuple[Value, ...]:
    """The values of quantities, under their ids; shares are printed in per cent."""
    return tuple(
        declare(id_, quantity, "percent" if "share" in id_ else style)
        for id_, quantity in quantities.items()
    )


def least_explained(run: Run | None) -> Variant | None:
    """The library of whose resident memory the largest share stays unexplained."""
    shares = {
        v: abs(share)
        for v, told in (wholes(run) if run else {}).items()
        if not isinstance(share := told.residual_share, Missing)
    }
    return max(shares, key=lambda v: shares[v], default=None)


def _least_explained(run: Run | None, setting: Setting | None) -> tuple[Value, ...]:
    """Its residual, and how much of it was there before the iteration began."""
    variant = least_explained(run)
    rest: int | Missing = NO_RECORD
    before: int | Missing = NO_RECORD
    if run is not None and setting is not None and variant is not None:
        rest = wholes(run)[variant].residual
        before = difference(
            grown(run, setting, variant), theory(setting, "input") + theory(setting, "parameters")
        )
    origin = (run.file,) if run else ()
    return (
        Value("residual_most", "Residual of the library that is explained least", rest, "B",
              "measured − theory", origin),
        Value("residual_before", "What of it was there before the iteration", before, "B",
              "before − first use − input − parameters", origin),
    )  # fmt: skip


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
    setting, origin = run.training() if run else None, (run.file,) if run else ()
    if run is None or setting is None:
        base: Finding = NO_RECORD
        most: Finding = NO_RECORD
        told: Iterable[Reconciliation] = ()
        shares: list[float] = []
    else:
        base = framework(run, setting, NUMPY)
        sizes = [framework(run, setting, v) for v in run.variants(setting) if v != NUMPY]
        known = [size for size in sizes if not isinstance(size, Missing)]
        most = max(known) if known else Missing("one library alone was measured")
        told = wholes(run).values()
        shares = [abs(s) for r in told if not isinstance(s := r.residual_share, Missing)]
    peak = peaks(run).values() if run else ()
    return (
        Value("framework_numpy", "Framework overhead of NumPy", base, "B", "first use − start",
              origin),
        Value("framework_most", "Largest framework overhead", most, "B", "first use − start",
              origin),
        residual("resident", "of the resident memory", told, "B", origin),
        own("resident_share", "Largest share of the resident memory that stays unexplained",
               max(shares) if shares else NO_RECORD, "1", "|residual| / measured", origin, True),
        *_least_explained(run, setting),
        residual("peak", "of the peaks", peak, "B", origin),
        exact("peaks_exact", "Peaks that are explained to the byte",
              sum(r.explained for r in peak) if peak else NO_RECORD, "1", "count", origin),
        exact("peaks_told", "Peaks", len(list(peak)) or NO_RECORD, "1", "count", origin),
    )  # fmt: skip
