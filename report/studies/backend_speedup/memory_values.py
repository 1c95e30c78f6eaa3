"""The numbers of backend_speedup's prose on memory, and how a measured value is made."""

from __future__ import annotations

from collections.abc import Iterable

from report.format import Style
from report.missing import Missing
from report.reconciliation import Reconciliation
from report.residuals import residual
from report.studies.backend_speedup.measured import NUMPY, Run
from report.studies.backend_speedup.memory import framework
from report.studies.backend_speedup.memory_tables import peaks, wholes
from report.studies.backend_speedup.theory_tables import NO_RECORD
from report.values import Finding, Value, exact


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
        residual("peak", "of the peaks", peak, "B", origin),
        exact("peaks_exact", "Peaks that are explained to the byte",
              sum(r.explained for r in peak) if peak else NO_RECORD, "1", "count", origin),
        exact("peaks_told", "Peaks", len(list(peak)) or NO_RECORD, "1", "count", origin),
    )  # fmt: skip
