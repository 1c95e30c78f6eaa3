"""Describe a record after a run (results, warnings, use by papers), or for a review."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from experiments.harness.progress import measured_text, outcome_text
from experiments.machine.code import ROOT
from experiments.machine.text import factors_text
from report.core.errors import RidgepointError
from report.core.missing import Missing
from report.core.records import ENDING
from report.core.records.record import Case, Policy, Record
from report.core.records.store import Stored, read_attachments
from report.core.statistics.estimates import CONFIDENCE, median_interval
from report.instruments import case_operators, comparison, gates
from report.instruments.judgement import judge

#: Exit code of a run whose record no paper can use.
NOTHING_USABLE: Final = 3


def print_record(record: Record, path: Path, records: Path) -> int:
    """Print a record's results, theory, warnings, path and use; return the run's exit code."""
    stored = Stored(record, f"{record.study}/{path.name}")
    print(case_table(record.cases))
    files = read_attachments(stored, (case_operators.FILE_PATTERN,), records)
    for line in theory_lines(record, files):
        print(line)
    measured = any(case.status == "ok" for case in record.cases)
    if unstable := instability(record.cases):
        print(unstable, file=sys.stderr)
    if not measured:
        print("No case could be measured; the record says why.", file=sys.stderr)
    print(f"Record: {path}")
    usable, lines = use_of_record(record, path, records)
    print(*lines, sep="\n")
    return int(not measured) if usable else NOTHING_USABLE


def use_of_record(record: Record, path: Path, records: Path) -> tuple[bool, tuple[str, ...]]:
    """Return whether papers can use a record, and lines with the reason and the next command."""
    file = f"{record.study}/{path.name}"
    try:
        judgement = judge(record.study, file, records)
    except RidgepointError as error:
        return True, (str(error),)  # the fault is in the folder, not in this record
    if not judgement.usable:
        command = shlex.join((*record.command, "--wait-quiet", "10"))
        return False, (f"No paper can use this record: {judgement.explanation}", f"Next: {command}")
    words = f"{judgement.explanation[:1].upper()}{judgement.explanation[1:]}"
    agreement = agreement_with_paper(record.study, path, records)
    build = shlex.join(build_command(record.study, path, records, used=judgement.used))
    return True, (f"{words}.", *agreement, f"Next: {build}")


def build_command(study: str, path: Path, records: Path, *, used: bool) -> tuple[str, ...]:
    """Return the command that builds the comparison or the paper, or the record's own report."""
    if study == comparison.RECORD_NAME:
        return ("python", "build.py", "--comparison", os.fspath(path))
    # File names begin with the time, so the largest name is the newest record.
    newest = max(path.parent.glob(f"[0-9]*{ENDING}")).name == path.name
    replicate = ("--replicate",) if newest else ("--replicate", f"{study}/{path.name}")
    command = ("python", "build.py", study)
    if records.resolve() != Path("data").resolve():
        return (*command, *replicate, "--data", os.fspath(records))
    return command if used else (*command, *replicate)


def agreement_with_paper(study: str, path: Path, records: Path) -> list[str]:
    """Ask the builder which claims of the paper a record confirms; no lines without a paper."""
    if not (ROOT / "report" / "studies" / study / "study.py").is_file():
        return []
    command: list[str | Path] = [sys.executable, ROOT / "build.py", study, "--list"]
    command += ["--replicate", path.resolve(), "--data", records.resolve()]
    build = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return (build.stdout or build.stderr).splitlines()


def theory_lines(record: Record, files: Mapping[str, bytes | Missing]) -> Iterator[str]:
    """Yield a line of theory (work, traffic, peak) per case; ``files`` maps names to operators."""
    for name, content in files.items():
        if isinstance(content, Missing):
            continue
        operators = case_operators.unpack(content, name)
        case = factors_text(operators.factors)
        theory = operators.theory(record.environment)
        if theory is None or theory.multiply_adds is None or theory.bytes is None:
            refused = ", ".join(theory.unknown_operators) if theory else ""
            yield f"theory of {case}: missing, {operators.reason or f'no theory of {refused}'}"
            continue
        at_least = "" if theory.complete else "at least "
        peak = f"{at_least}{measured_text(theory.peak.total, 'B')}" if theory.peak else "–"
        yield (
            f"theory of {case}: {theory.multiply_adds:,} multiply-adds, "
            f"{measured_text(theory.bytes, 'B')} of traffic, peak memory {peak}"
        )


def instability(cases: Sequence[Case], listed: int = 5) -> str | None:
    """Describe in one sentence the results that may be unstable; None if all are stable.

    A result may be unstable if the times of its processes fall into two groups, or if all processes
    were disturbed.  The sentence lists up to ``listed`` cases.
    """
    unstable = []
    for case in cases:
        if reason := _instability_of_case(case):
            unstable.append(f"{factors_text(case.factors)} ({reason})")
    if not unstable:
        return None
    first = "; ".join(unstable[:listed])
    more = f" and {len(unstable) - listed} more" if len(unstable) > listed else ""
    remedy = "end other programs and run again with --wait-quiet 10"
    return f"{len(unstable)} of {len(cases)} results may be unstable: {first}{more}; {remedy}."


def _instability_of_case(case: Case) -> str | None:
    """Describe the first sign that a case's times are unstable, under any memory policy."""
    for policy in gates.policies(case):
        rounds = case.rounds_under(policy)
        disturbances = [round_.disturbance for round_ in rounds if round_.disturbance]
        if rounds and len(disturbances) == len(rounds):
            return f"{disturbances[0]}, memory {policy}"
    for policy, low, high in gates.bimodal_times(case):
        groups = f"{measured_text(low, 's')} to {measured_text(high, 's')}"
        return f"processes in two groups, {groups}, memory {policy}"
    return None


def case_results(case: Case) -> dict[str, str]:
    """Format the results of a case by column, for the memory policy ``retained`` if measured.

    Median and interval are computed from processes' medians, for a single process from its calls.
    """
    columns = ("median time", "95 % interval", "measured by", "peak memory", "outcome")
    results = dict.fromkeys(columns, "–")
    results["outcome"] = outcome_text(case)
    policy: Policy = "retained" if "retained" in gates.policies(case) else "default"
    times = case.samples("time", policy)
    if times:
        processes = gates.process_medians(case, "time", policy)
        estimate = median_interval(processes if len(processes) > 1 else times)
        results["median time"] = measured_text(estimate.value, "s")
        results["measured by"] = f"{len(times)} calls"
        if len(processes) > 1:
            confidence = estimate.confidence
            lower_confidence = "" if confidence >= CONFIDENCE else f" ({100 * confidence:.0f} %)"
            low, high = measured_text(estimate.low, "s"), measured_text(estimate.high, "s")
            results["95 % interval"] = f"{low} to {high}{lower_confidence}"
            results["measured by"] = f"{len(processes)} processes"
    for quantity in ("allocated_peak", "requested_peak", "resident_peak"):  # most exact first
        peaks = case.samples(quantity, policy)
        if peaks:
            results["peak memory"] = measured_text(max(peaks), "B")
            break
    return results


def case_table(cases: Sequence[Case]) -> str:
    """Format a table with a row per case: factors and results."""
    import pandas as pd

    rows = [{**case.factors, **case_results(case)} for case in cases]
    frame = pd.DataFrame(rows, dtype=object)
    # Outcomes are appended outside the frame, so that the longest reason does not widen every row.
    outcomes = ("outcome", *frame.pop("outcome"))
    lines = frame.to_string(index=False, na_rep="–").splitlines()
    return "\n".join(f"{line}  {outcome}" for line, outcome in zip(lines, outcomes, strict=True))


#: Largest number of rows of a table; comments on forges have at most 65,536 characters.
_ROW_LIMIT: Final = 250


def review(record: Record) -> Iterator[str]:
    """Yield Markdown that describes a record: its machine, plan and code, and a block of cases."""
    machine, code, protocol = record.environment, record.code, record.protocol
    processes = ", ".join(f"{number} {policy}" for policy, number in protocol.processes.items())
    commit = "not under git" if code.commit is None else code.commit[:12]
    changes = "" if code.tree_clean else ", with uncommitted changes"
    shard = f", shard {record.shard.number} of {record.shard.of}" if record.shard else ""
    plan = f"{protocol.plan}{shard}, {len(record.cases)} cases"
    software = f"{machine.operating_system}; torch {machine.torch.version}"
    facts = {
        "Study": f"{record.study}, {record.started} to {record.finished}",
        "Machine": f"{machine.label}; {software}",
        "Plan": f"{plan}; processes: {processes or 'one'}",
        "Code": f"{commit}{changes}",
    }
    for name, text in facts.items():
        yield f"- {name}: {code_text(text)}"
    # A backtick in the table could end the block of code.
    table = case_table(record.cases[:_ROW_LIMIT]).replace("`", "'")
    yield f"\n```\n{table}\n```"
    if len(record.cases) > _ROW_LIMIT:
        yield f"\nand {len(record.cases) - _ROW_LIMIT} more cases"


def code_text(text: str) -> str:
    """Format text as code in Markdown, so that a forge renders no markup, link or mention in it."""
    line = " ".join(text.split())
    return "`" + line.replace("`", "'") + "`"
