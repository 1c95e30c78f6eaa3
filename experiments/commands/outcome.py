"""Outcome of a run for people: a table of all cases, and results that may be unstable."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from experiments.harness.progress import measured_text, outcome_text
from experiments.machine.text import factors_text
from report.core.missing import Missing
from report.core.records.record import Case, Record
from report.instruments import case_operators, gates


def print_outcome(record: Record, files: Mapping[str, bytes | Missing]) -> bool:
    """Print all cases, theory from ``files`` and warnings; return whether any was measured."""
    print(case_table(record.cases))
    for line in theory_lines(record, files):
        print(line)
    measured = any(case.status == "ok" for case in record.cases)
    failure = None if measured else "No case could be measured; the record says why."
    for warning in (instability(record.cases), failure):
        if warning:
            print(warning, file=sys.stderr)
    return measured


def theory_lines(record: Record, files: Mapping[str, bytes | Missing]) -> Iterator[str]:
    """Yield the theory of each case whose layers have no description, from its operators."""
    for name, content in files.items():
        if isinstance(content, Missing):
            continue
        operators = case_operators.unpack(content, name)
        theory, case = operators.theory(record.environment), factors_text(operators.factors)
        if theory is None or theory.multiply_adds is None or theory.bytes is None:
            refused = ", ".join(theory.refused) if theory else ""
            yield f"theory of {case}: missing, {operators.reason or f'no theory of {refused}'}"
            continue
        bound = "" if theory.complete else "at least "
        peak = f"{bound}{measured_text(theory.peak.total, 'B')}" if theory.peak else "–"
        yield (
            f"theory of {case}: {theory.multiply_adds:,} multiply-adds, "
            f"{measured_text(theory.bytes, 'B')} of traffic, peak memory {peak}"
        )


def instability(cases: Sequence[Case], named: int = 5) -> str | None:
    """Describe the results that may be unstable in one sentence; None if there are none.

    A result may be unstable if its processes fall into two groups, or if all were disturbed.  The
    sentence names up to ``named`` cases.
    """
    unstable = []
    for case in cases:
        if reason := _instability_of_case(case):
            unstable.append(f"{factors_text(case.factors)} ({reason})")
    if not unstable:
        return None
    more = f" and {len(unstable) - named} more" if len(unstable) > named else ""
    return (
        f"{len(unstable)} of {len(cases)} results may be unstable: "
        f"{'; '.join(unstable[:named])}{more}; "
        "end other programs and run again with --wait-quiet 10."
    )


def _instability_of_case(case: Case) -> str | None:
    for policy in gates.policies(case):
        rounds = case.rounds_under(policy)
        if rounds and all(round_.disturbance for round_ in rounds):
            return f"{rounds[0].disturbance}, memory {policy}"
    for policy, low, high in gates.bimodal_times(case):
        groups = f"{measured_text(low, 's')} to {measured_text(high, 's')}"
        return f"processes in two groups, {groups}, memory {policy}"
    return None


def case_table(cases: Sequence[Case]) -> str:
    """Format a row per case: factors, median time, samples, allocated peak and outcome."""
    import pandas as pd

    rows = []
    for case in cases:
        times, peaks = case.samples("time"), case.samples("allocated_peak")
        measured = {
            "median time": measured_text(median(times), "s") if times else "–",
            "timings": len(times) or "–",
            "peak memory": measured_text(max(peaks), "B") if peaks else "–",
        }
        rows.append({**case.factors, **measured})
    lines = pd.DataFrame(rows, dtype=object).to_string(index=False, na_rep="–").splitlines()
    # Outside the frame, where the longest reason would widen every row.
    ends = ("outcome", *map(outcome_text, cases))
    return "\n".join(f"{line}  {end}" for line, end in zip(lines, ends, strict=True))
