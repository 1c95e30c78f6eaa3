"""A finished run in a few words: for the closing table and the progress lines; pure."""

from __future__ import annotations

from statistics import median

from rich.box import SIMPLE
from rich.table import Table

from report.records import Case, Factor, Record


def factors_text(factors: dict[str, Factor]) -> str:
    """``batch=16, pass=forward``, factors of the value only where they name themselves."""
    return ", ".join(f"{name}={value}" for name, value in factors.items())


def outcome_text(case: Case) -> str:
    """The median time of a case that is ok, else its status with the reason."""
    if case.status != "ok":
        return f"{case.status}: {case.reason}"
    times = case.samples("time")
    return f"{duration_text(median(times))} ({len(times)} samples)" if times else "ok"


def duration_text(seconds: float) -> str:
    """Three significant digits in the unit that fits: µs, ms or s."""
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def bytes_text(count: float) -> str:
    """Bytes with a decimal prefix."""
    for factor, unit in ((1, "B"), (1e3, "kB"), (1e6, "MB")):
        if count / factor < 1000:
            return f"{count / factor:.4g} {unit}"
    return f"{count / 1e9:.4g} GB"


def table(record: Record) -> Table:
    """One row a case: factors, median time, samples, allocated peak, outcome."""
    made = Table(box=SIMPLE)
    for name in record.cases[0].factors:
        made.add_column(name, no_wrap=True)
    for name in ("median time", "samples", "peak bytes"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("outcome", overflow="fold")
    for case in record.cases:
        made.add_row(*map(str, case.factors.values()), *_cells(case))
    return made


def _cells(case: Case) -> tuple[str, str, str, str]:
    times = case.samples("time")
    peaks = case.samples("allocated_peak")
    outcome = case.status if case.reason is None else f"{case.status}: {case.reason}"
    return (
        duration_text(median(times)) if times else "–",
        str(len(times)) if times else "–",
        bytes_text(max(peaks)) if peaks else "–",
        outcome,
    )
