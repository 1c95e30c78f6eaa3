"""A record in Markdown, for the reviewer of a pull request that adds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from experiments.harness.progress import measured_text, outcome_text
from experiments.machine.text import factors_text
from report.core.records.quantities import QUANTITIES
from report.core.records.record import Case, Policy, Record
from report.core.statistics.estimates import CONFIDENCE, median_interval
from report.instruments import gates

#: Quantities of the table, in order of preference.
_SHOWN: Final = ("time", "allocated_peak", "requested_peak", "resident_peak")
#: Rows of the table: a comment on a forge has at most 65,536 characters.
_MOST_CASES: Final = 250


def review(record: Record) -> Iterator[str]:
    """Yield the lines of a review: machine, plan and code, and a table of all cases."""
    machine, code, protocol = record.environment, record.code, record.protocol
    processes = ", ".join(f"{number} {policy}" for policy, number in protocol.processes.items())
    commit = "not under git" if code.commit is None else code.commit[:12]
    changed = "" if code.tree_clean else ", with uncommitted changes"
    part = f", shard {record.shard.number} of {record.shard.of}" if record.shard else ""
    plan = f"{protocol.plan}{part}, {len(record.cases)} cases"
    software = f"{machine.operating_system}; torch {machine.torch.version}"
    rows = (
        ("Study", _code(f"{record.study}, {record.started} to {record.finished}")),
        ("Machine", _code(f"{machine.label}; {software}")),
        ("Plan", _code(f"{plan}; processes: {processes or 'one'}")),
        ("Code", _code(f"{commit}{changed}")),
    )
    yield from _table(("", ""), rows)
    yield ""
    head = ("Case", "Quantity", "Median", "95 % interval", "n")
    yield from _table(head, map(_row, record.cases[:_MOST_CASES]))
    if more := record.cases[_MOST_CASES:]:
        yield f"\nand {len(more)} more cases"


def _row(case: Case) -> tuple[str, ...]:
    """Cells of a case: the median over processes, with freed memory kept if possible."""
    name = _code(factors_text(case.factors))
    if case.status != "ok":
        return name, _code(outcome_text(case)), "–", "–", "0"
    policy: Policy = "retained" if "retained" in gates.policies(case) else "default"
    quantity = next((name for name in _SHOWN if case.samples(name, policy)), None)
    if quantity is None:
        return name, "–", "–", "–", "0"
    unit, processes = QUANTITIES[quantity].unit, gates.medians(case, quantity, policy)
    if len(processes) < 2:
        samples = case.samples(quantity, policy)
        middle = measured_text(median_interval(samples).value, unit)
        return name, quantity, middle, "one process", f"{len(samples)} calls"
    estimate = median_interval(processes)
    level = "" if estimate.confidence >= CONFIDENCE else f" ({100 * estimate.confidence:.0f} %)"
    interval = f"{measured_text(estimate.low, unit)} to {measured_text(estimate.high, unit)}{level}"
    return name, quantity, measured_text(estimate.value, unit), interval, f"{estimate.n} processes"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    cells = tuple(head)
    for row in (cells, ("---",) * len(cells), *rows):
        yield f"| {' | '.join(row)} |"


def _code(text: str) -> str:
    """Format text as code, so that a forge sees no markup, address or person's name in it."""
    return f"`{' '.join(text.split()).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def finding(topic: str, text: str, level: str) -> str:
    """Format a fault of a record as an item of a list."""
    return f"- **{level}**, {topic}: {_code(text)}"
