"""A finished run in a few words: for the closing table and the progress lines; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

from report.instruments import gates
from report.records.record import Case, Factor

if TYPE_CHECKING:
    from rich.table import Table

#: Factors that have a column of their own each; with more, no column is wide enough to be read.
_MOST_COLUMNS: Final = 8
#: So many unstable results are named.
_NAMED: Final = 5


def factors_text(factors: dict[str, Factor]) -> str:
    """``batch=16, pass=forward``."""
    return ", ".join(f"{name}={value}" for name, value in factors.items())


def outcome_text(case: Case) -> str:
    """The median time of a case that is ok, else its status with the reason."""
    if case.status != "ok":
        return f"{case.status}: {case.reason}"
    times = case.samples("time")
    return f"{duration_text(median(times))} ({len(times)} samples)" if times else "ok"


def instability(cases: Iterable[Case], named: int = _NAMED) -> str | None:
    """Which results may be unstable and why, in one sentence; None if none is.

    Those whose processes fall into two groups, and those that were disturbed in every process;
    ``named`` of them by name.
    """
    cases = tuple(cases)
    reasons = [(factors_text(case.factors), _unstable(case)) for case in cases]
    found = [f"{name} ({why})" for name, why in reasons if why]
    if not found:
        return None
    more = f" and {len(found) - named} more" if len(found) > named else ""
    return (
        f"{len(found)} of {len(cases)} results may be unstable: {'; '.join(found[:named])}{more}; "
        "end other programs and run again with --wait-quiet 10."
    )


def _unstable(case: Case) -> str | None:
    for policy in gates.policies(case):
        rounds = case.rounds_under(policy)
        if all(r.disturbance for r in rounds):
            return f"{rounds[0].disturbance}, memory {policy}"
    for policy, low, high in gates.bimodal_times(case):
        groups = f"{duration_text(low)} to {duration_text(high)}"
        return f"processes in two groups, {groups}, memory {policy}"
    return None


def duration_text(seconds: float) -> str:
    """Three significant digits in the unit that fits: µs, ms or s."""
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if seconds * factor < 999.5:  # what would be rounded to 1000 takes the next unit
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def bytes_text(count: float) -> str:
    """Bytes with a decimal prefix."""
    for factor, unit in ((1, "B"), (1e3, "kB"), (1e6, "MB")):
        if count / factor < 1000:
            return f"{count / factor:.4g} {unit}"
    return f"{count / 1e9:.4g} GB"


def table(cases: Sequence[Case]) -> Table:
    """One row a case: factors, median time, samples, allocated peak, outcome; 80 columns.

    More factors than a line has room for stand in one column.
    """
    from rich.box import SIMPLE
    from rich.markup import escape
    from rich.table import Table

    made = Table(box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    names = tuple(dict.fromkeys(name for case in cases for name in case.factors))
    if len(names) > _MOST_COLUMNS:
        names = ()
        made.add_column("case", overflow="fold")
    for name in names:
        made.add_column(name, no_wrap=len(names) < 4, overflow="fold")
    for name in ("median time", "samples", "peak memory"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("outcome", overflow="fold", min_width=8)
    for case in cases:
        shown = [str(case.factors.get(name, "–")) for name in names]
        cells = (*(shown or [factors_text(case.factors)]), *_cells(case))
        made.add_row(*map(escape, cells))  # «.[jax]» is no style
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
