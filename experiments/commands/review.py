"""A record in Markdown, for the reviewer of a pull request that adds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from experiments.harness.progress import outcome_text, shown
from experiments.machine.text import factors_text
from report.instruments import gates
from report.records.quantities import QUANTITIES
from report.records.record import Case, Policy, Record
from report.statistics.estimates import CONFIDENCE, median_interval

#: What a case is shown by, the first that it has.
_SHOWN: Final = ("time", "allocated_peak", "requested_peak", "resident_peak")
#: Forges take no comment of more than 65,536 characters.
_MOST_CASES: Final = 250


def review(record: Record) -> Iterator[str]:
    """The lines that say what measured a record, how, and what it found in each case."""
    machine, code, protocol = record.environment, record.code, record.protocol
    processes = ", ".join(f"{number} {policy}" for policy, number in protocol.processes.items())
    commit = "not under git" if code.commit is None else code.commit[:12]
    changed = "" if code.tree_clean else ", with uncommitted changes"
    part = f", shard {record.shard.number} of {record.shard.of}" if record.shard else ""
    plan = f"{protocol.plan}{part}, {len(record.cases)} cases"
    facts = {
        "Study": f"{record.study}, {record.started} to {record.finished}",
        "Machine": f"{machine.label}; {machine.operating_system}; torch {machine.torch.version}",
        "Plan": f"{plan}; processes: {processes or 'one'}",
        "Code": f"{commit}{changed}",
    }
    yield from _table(("", ""), ((name, _code(text)) for name, text in facts.items()))
    yield ""
    head = ("Case", "Quantity", "Median", "95 % interval", "n")
    yield from _table(head, (_row(case) for case in record.cases[:_MOST_CASES]))
    if more := record.cases[_MOST_CASES:]:
        yield f"\nand {len(more)} more cases"


def _row(case: Case) -> tuple[str, ...]:
    """The cells of a case: the median over processes under the studies' memory policy."""
    name = _code(factors_text(case.factors))
    if case.status != "ok":
        return name, _code(outcome_text(case)), "–", "–", "0"
    policy: Policy = (*(p for p in gates.policies(case) if p == "retained"), "default")[0]
    quantity = next((name for name in _SHOWN if case.samples(name, policy)), None)
    if quantity is None:
        return name, "–", "–", "–", "0"
    unit, processes = QUANTITIES[quantity].unit, gates.medians(case, quantity, policy)
    if len(processes) < 2:
        samples = case.samples(quantity, policy)
        middle = shown(median_interval(samples).value, unit)
        return name, quantity, middle, "one process", f"{len(samples)} calls"
    estimate = median_interval(processes)
    level = "" if estimate.confidence >= CONFIDENCE else f" ({100 * estimate.confidence:.0f} %)"
    interval = f"{shown(estimate.low, unit)} to {shown(estimate.high, unit)}{level}"
    return name, quantity, shown(estimate.value, unit), interval, f"{estimate.n} processes"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    cells = tuple(head)
    for row in (cells, ("---",) * len(cells), *rows):
        yield f"| {' | '.join(row)} |"


def _code(text: str) -> str:
    """Text that no forge takes for markup, an address or a person's name."""
    return f"`{' '.join(text.split()).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def finding(topic: str, text: str, level: str) -> str:
    """A line of a list that says what is wrong with a record."""
    return f"- **{level}**, {topic}: {_code(text)}"
