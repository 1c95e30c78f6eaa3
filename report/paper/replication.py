"""Compute the replication report: which claims of a paper hold on other machines.

One template, ``replication.qmd.j2``, prints the reports of all studies.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeAlias

from figures.panels import Dots, Drawing, Grid, Panel, Roofline, Scaling
from report.core.missing import Missing
from report.core.records.record import Record
from report.core.records.store import Stored
from report.core.statistics.estimates import CONFIDENCE, FEWEST_MACHINES, Estimate, next_effect
from report.core.text.format import printed_parts, scale_for
from report.evidence.ceilings import format_bytes
from report.evidence.runs import Run, hardware_id, machine_id, series_name, with_spaces
from report.paper.claims import Claim, first_few, missing_comparisons
from report.paper.findings import Figure, Findings
from report.paper.machines import (
    MachineComparison,
    MeasuredMachine,
    disturbed_count,
    drawing_of,
    evaluate_machine,
    properties,
    setup,
)
from report.paper.replicas import AGREEMENTS, Replica, Row, compare, summary
from report.paper.study import NO_CASES
from report.paper.tables import Content, Table, table_of
from report.quantity.operations import describe_terms, restrict_to_common_terms

#: Smallest height (inches) of a row of panels; in a lower row, names of axes would be cut.
_LEAST_ROW_HEIGHT: Final = 2.1
#: Properties in the table of many hosts.
_HOST_PROPERTIES: Final = (
    "Identity", "Cores and threads", "Memory", "C library", "Operating system", "Framework"
)  # fmt: skip
#: Fields of an environment whose absence is not reported, since no result depends on them.
_IGNORED_FIELDS: Final = ("cpu.governor", "gpu", "load_after", "name")
#: Group of fields of an environment → phrase for one of its fields, such as "peak rates before".
_GROUP_PHRASES: Final = {"ceilings": "peak rates {} the run", "policies": "memory policy {}"}
#: Tables, drawings by id, and facts of a report.
_Contents: TypeAlias = tuple[list[Table], dict[str, Drawing], dict[str, Any]]
#: Row of a table: heading → cell.
_Cells: TypeAlias = dict[str, Content]


@dataclass(frozen=True)
class Original:
    """The paper with which machines are compared.

    ``headline`` are the ids of its main claims, from title and abstract.  ``machines`` are the
    machines that the paper describes, the main machine first.  ``compared`` is the measure by which
    machines are compared.  ``records`` are all records of the paper by file.
    """

    findings: Findings
    title: str
    headline: Sequence[str]
    machines: Sequence[Replica]
    compared: MachineComparison[Any]
    records: Mapping[str, Stored]


def report(
    original: Original, replicas: Sequence[Replica], left_out: Iterable[str] = ()
) -> Findings:
    """Compute the findings of the report; ``left_out`` says why records are not used.

    A row compares one claim on all machines; its outcome is a letter of ``AGREEMENTS``.
    """
    rows = compare(replicas, original.findings)
    measured_rows = {id: row for id, row in rows.items() if row.outcome != "N"}
    measured = measured_rows.values()
    reason_numbers, reasons = _reasons(original, replicas, measured_rows)
    no_interval = _reason_against_interval(replicas, measured)
    if len(replicas) == 1:
        tables, drawings, facts = _of_one(original, replicas[0], measured)
    else:
        tables, drawings, facts = _of_many(original, replicas, measured, reason_numbers)
    claims = _claims_table(original, measured_rows, predict=not no_interval)
    untestable = {c.about for id, c in original.findings.claims.items() if id not in rows}
    facts |= _abstract(original, replicas, rows) | {
        "cells": str(claims.rows),  # the template explains only words that occur in the cells
        "level": f"{100 * CONFIDENCE:.0f} %",
        "no_interval": no_interval,
        "reasons": reasons,
        "untested": _untested(original, replicas, rows),
        "others": sorted(untestable),
        "missing": _missing_parts(replicas),
        "left_out": list(left_out),
        "commands": _commands(replicas),
    }
    shown_tables = [replace(table, outward=True) for table in (claims, *tables) if table.rows]
    return Findings(
        values={},
        tables={table.id: table for table in shown_tables},
        figures={id: Figure(id, drawing) for id, drawing in drawings.items()},
        claims={id: row.combined_claim for id, row in rows.items()},
        facts=facts,
        key_figure=next(reversed(drawings), ""),  # the first drawing, a map, is too wide for lists
    )


def _abstract(
    original: Original, replicas: Sequence[Replica], rows: Mapping[str, Row]
) -> dict[str, Any]:
    """Return the facts of title and abstract.

    ``against`` says why the report is no replication.  ``examples`` has at most one claim about one
    number, a main claim if possible: its title, the numbers here and in the paper, and its range.
    """
    new = [replica for replica in replicas if replica.stored.file not in original.records]
    main = [rows[id] for id in original.headline if id in rows]
    tested = [row for row in main if row.measured_claims]
    # The letters leave out claims that were tested in part or with the paper's own records.
    quiet = [row for row in tested if row.outcome in "ACUD" and not all(row.disturbances)]
    same_on_one = [r for r in rows.values() if r.outcome == "A" and r.deciding_count == 1]
    environments = [stored.record.environment for stored in original.records.values()]
    machines, hosts = {*map(machine_id, environments)}, {*map(hardware_id, environments)}
    against = []
    if replicas and not new:
        against.append(f"the paper uses {'these records' if replicas[1:] else 'this record'}")
    if replicas and original.headline and not quiet:
        against.append("no main claim was tested in full and undisturbed by other programs")
    if replicas and all(replica.is_busy for replica in replicas):
        against.append("other programs disturbed most measurements")
    examples = []
    for row in sorted(rows.values(), key=lambda row: row not in main):
        if row.effects and row.paper.expected and row.outcome not in "NP":
            names = [m.label for m in original.machines if m.is_read_by(row.paper)]
            paper = f"{row.paper.measured} in the paper on {'; '.join(names) or 'other machines'}"
            examples.append((row.paper.title, row.measured, paper, row.paper.expected))
    return {
        "paper": original.title,
        "summary": summary(rows.values(), replicas),
        "count": str(len(replicas)),
        "of_paper": original.machines[0].label if original.machines else "",
        "used": str(len(replicas) - len(new) or "none"),
        "owned": any(replica.machine in machines for replica in new),
        "hosts": any(hardware_id(r.stored.record.environment) in hosts for r in new),
        "against": ", and ".join(against),
        "days": sorted({s.record.started[:10] for replica in replicas for s in replica.shards}),
        "examples": examples[:1],
        "verdicts": _verdicts(original, replicas, rows),
        "headline": str(len(original.headline) or ""),
        "main": str(len(main) or "none"),
        "kinds": " or ".join(sorted({*map(attrgetter("about"), replicas)})),
        "quiet": str(len(quiet) or "none"),
        "alone": str(len(same_on_one) or ""),
    }


def _verdicts(
    original: Original, replicas: Sequence[Replica], rows: Mapping[str, Row]
) -> list[tuple[str, bool, str]]:
    """Return all measured claims, then the other main claims: title, whether main, and verdict."""
    measured = [id for id, row in rows.items() if row.measured_claims]
    verdicts = []
    for id in dict.fromkeys((*measured, *filter(rows.__contains__, original.headline))):
        row, paper = rows[id], rows[id].paper
        claim = row.combined_claim
        words = f"{claim.verdict} here" if len(replicas) == 1 else claim.because
        words += ", tested only in part" if row.outcome == "P" else ""
        if row.outcome == "C":
            words += f": {row.measured}"
            words += f"; expected is {paper.expected}" if paper.expected else ""
        if row.outcome in "UN" and len(replicas) == 1:
            # Later sections print commits and numbers.
            reason = re.split(r" at commit | \(", _reason(original, replicas[0], row))[0]
            words += f" ({reason.removeprefix('undecided: ')})"
        words += "" if paper.verdict == "supported" else f"; in the paper it is {paper.verdict}"
        verdicts.append((paper.title, id in original.headline, words))
    return verdicts


def _untested(
    original: Original, replicas: Iterable[Replica], rows: Mapping[str, Row]
) -> dict[str, list[str]]:
    """List the claims that no record measured, by the run that would measure them.

    Claims that none of these records can test are listed only if they are main claims.
    """
    untested = dict[str, list[str]]()
    for id, claim in original.findings.claims.items():
        row, main = rows.get(id), " (main)" if id in original.headline else ""
        if row and not row.measured_claims:
            needs = [_need(original, r, row) for r in replicas if r.label in row.claims]
        elif not row and main:
            needs = [f"about {claim.about}, which no record here can test"]
        else:
            continue
        untested.setdefault("; ".join(dict.fromkeys(needs)), []).append(claim.title + main)
    return untested


def _reasons(
    original: Original, replicas: Sequence[Replica], rows: Mapping[str, Row]
) -> tuple[dict[tuple[str, str], str], list[str]]:
    """Explain contrary, undecided, partial and missing verdicts.

    Returns the number of the reason by claim and machine, and the reasons with their claims.
    """
    reason_numbers, claims_by_reason = dict[tuple[str, str], str](), dict[str, dict[str, None]]()
    for claim_number, (id, row) in enumerate(rows.items(), start=1):
        for replica in replicas:
            if reason := _reason(original, replica, row):
                claims_by_reason.setdefault(reason, {})[str(claim_number)] = None
                reason_number = [*claims_by_reason].index(reason) + 1
                reason_numbers[id, replica.label] = str(reason_number)
    texts = []
    for reason_number, (reason, claims) in enumerate(claims_by_reason.items(), start=1):
        where = f"claim{'s' if len(claims) > 1 else ''} {', '.join(claims)}"
        texts.append(f"Reason {reason_number} ({where}): {reason}")
    return reason_numbers, texts


def _reason(original: Original, replica: Replica, row: Row) -> str:
    """Explain the verdict of one machine on a claim; "" for the paper's verdict."""
    match row.letters.get(replica.label, ""):
        case "C" | "U":
            reasons = replica.unnamed(row.claims[replica.label].reasons)
            return "; ".join(first_few(reasons or ["supported"]))
        case "P":
            lacking = missing_comparisons(row.claims[replica.label], row.paper)
            count = row.paper.measured_count
            compared = f"{count - len(lacking)} of the paper's {count} comparisons"
            return f"{compared}; the others: {'; '.join(first_few(lacking))}"
        case "N":
            return _need(original, replica, row)
    return ""


def _need(original: Original, replica: Replica, row: Row) -> str:
    """Name the run that would measure a claim that ``replica`` did not measure.

    This is the run of the paper with its options, or a full run.  If neither would measure the
    claim, the text is the reason why ``replica`` did not.
    """
    runs = [original.records[file] for file in row.paper.files if file in original.records]
    run = max(runs, key=lambda stored: len(_options(stored)), default=None)
    if run and _options(run):
        commit = (run.record.code.commit or "unknown")[:12]
        return f"needs a run with {_options(run)} at commit {commit}"
    if replica.stored.record.protocol.plan == "quick":
        return "needs a run without --quick"
    if own_options := _options(replica.stored):
        return f"the run's options {own_options} leave the claim's cases out"
    reasons = "; ".join(replica.unnamed(row.claims[replica.label].comparisons_by_reason))
    return reasons.replace(NO_CASES, "the record lacks cases or counts that the claim needs")


def _options(stored: Stored) -> str:
    """Return the options --set and --pairs of a run, which select its cases and processes."""
    # Arguments may contain spaces, but no null character.
    options = re.findall("(--(?:set|pairs))[\0=]([^\0]*)", "\0".join(stored.record.command))
    return " ".join(chain.from_iterable(options))


def _missing_parts(replicas: Sequence[Replica]) -> list[str]:
    """List what records lack, grouped by reason; name the records if there are several."""
    digests: dict[str, list[str]] = {}
    for replica in replicas:
        for reason, names in _missing_by_reason(replica.stored.record).items():
            with_sizes = re.sub(r"(\d{4,}) B\b", lambda size: format_bytes(int(size[1])), reason)
            text = f"{', '.join(first_few([*names]))}: {with_sizes.rstrip('.')}"
            digests.setdefault(text, []).append(replica.stored.short_digest)
    if len(replicas) == 1:
        return [*digests]
    return [f"{text} ({', '.join(records)})" for text, records in digests.items()]


def _missing_by_reason(record: Record) -> dict[str, dict[str, None]]:
    """Return the names of a record's missing fields and cases, in order, by reason."""
    missing: dict[str, dict[str, None]] = {}
    for field, why in record.environment.missing.items():
        if field in _IGNORED_FIELDS:
            continue
        group, _, part = field.rpartition(".")
        name = with_spaces(_GROUP_PHRASES.get(group, "{}").format(part))
        if part.startswith(("lackey_", "ncu_", "perf_")):
            name = f"counts of executed work ({part.partition('_')[0]})"
        reason = "the system shows no such counters" if why.startswith("perf: ") else why
        missing.setdefault(reason, {})[name] = None
    for case in record.cases:
        if case.status != "ok":
            # ``series_name`` leaves out the factor ``subject``, so the factor is renamed.
            factors = {name.replace("subject", "of"): n for name, n in case.factors.items()}
            names = missing.setdefault(case.reason or case.status, {})
            names[series_name("case ", factors)] = None
    return missing


def _records(original: Original, replica: Replica) -> str:
    """Describe a machine's records: digest, plan, cases, local changes, and use in the paper."""
    texts = []
    for shard in replica.shards:
        record = shard.record
        cases = f"{sum(case.status == 'ok' for case in record.cases)} of {len(record.cases)} cases"
        changes = ", local changes" if record.code.tree_clean is False else ""
        used = ", in the paper" if shard.file in original.records else ""
        texts.append(f"{shard.short_digest}, {record.protocol.plan}, {cases}{changes}{used}")
    return "; ".join(texts)


def _commands(replicas: Iterable[Replica]) -> list[str]:
    """Return the commands that measured the records, each below its records and their digests."""
    comments: dict[str, list[str]] = {}
    for shard in chain.from_iterable(replica.shards for replica in replicas):
        record, code = shard.record, shard.record.code
        # Backslashes quote special characters, since pandoc would curve quotation marks.
        command = " ".join(re.sub(r"([^\w@%+=:,./-])", r"\\\1", part) for part in record.command)
        command = re.sub(" --(?!device|threads)", " \\\\\n  --", command)
        changes = "# with local changes\n" if code.tree_clean is False else ""
        own = comments.setdefault(f"{changes}git checkout {code.commit}\n{command}", [])
        own += (f"# {Path(shard.file).name}, {record.minutes} min", f"# {shard.sha256}")
    return ["\n".join((*lines, command)) for command, lines in comments.items()]


def _claims_table(original: Original, rows: Mapping[str, Row], *, predict: bool) -> Table:
    """Tabulate machines' and paper's verdicts; ``predict`` adds effects on one more machine."""
    cells = list[_Cells]()
    for number, (id, row) in enumerate(rows.items(), start=1):
        notes = [f"expected: {row.paper.expected}"] if row.paper.expected else []
        notes += ["main"] if id in original.headline else []
        next_machine = _next_machine(row) if predict else ""
        measured = _verdict(row.combined_claim, row.measured)
        cells.append({
            "Claim": f"{number}. {row.paper.title}" + (f" ({'; '.join(notes)})" if notes else ""),
            "Agreement": _agreement(row),
            "Measured": f"{measured}{_conditions(row)}{next_machine}",
            "Paper": _in_paper(original, row),
        })  # fmt: skip
    return table_of("tbl-claims", cells, wide=True)


def _conditions(row: Row) -> str:
    """Describe the cases of a mean, the processes per case, and how many machines were busy."""
    text = (f" over {row.cases}" if row.cases else "") + _processes(row.measured_claims)
    disturbances = [*filter(None, row.disturbances)]
    if not disturbances:
        return text
    machines = len(row.measured_claims)
    count = f"{len(disturbances)} of {machines} " if machines > 1 else ""
    return f"{text}, {count}{disturbances[0]}"


def _processes(claims: Iterable[Claim]) -> str:
    """Describe how many processes measured a case of the claims; "" for claims without samples."""
    statements = chain.from_iterable(claim.statements for claim in claims)
    series = chain.from_iterable(statement.measured_series for statement in statements)
    counts = sorted({len(leaf.processes) for leaf in series})
    if not counts:
        return ""
    if len(counts) > 1:
        return f", {counts[0]} to {counts[-1]} processes a case"
    return f", {counts[0]} process{'es' if counts[0] != 1 else ''} a case"


def _in_paper(original: Original, row: Row) -> str:
    """Return the paper's verdict or "the same", with its machines unless it is the main machine."""
    names = [machine.label for machine in original.machines if machine.is_read_by(row.paper)]
    same = row.measured == row.paper.measured
    text = "the same" if same else _verdict(row.paper, row.paper.measured)
    only_main = original.machines and names == [original.machines[0].label]
    where = f" on {'; '.join(names)}" if names and not only_main else ""
    return f"{text}{where}{_processes([row.paper])}"


def _agreement(row: Row) -> str:
    """Return the agreement of one machine with the paper, or the number of machines per letter."""
    if len(row.claims) == 1:
        return AGREEMENTS[row.outcome][0]
    counts = Counter(row.letters.values())
    return ", ".join(f"{counts[letter]} {letter}" for letter in AGREEMENTS if counts[letter])


def _verdict(claim: Claim, measured: str) -> str:
    """Return a verdict with the ``measured`` numbers."""
    repeated = claim.verdict in ("undecided", "not measured") and claim.verdict in measured
    return measured if repeated else f"{claim.verdict}: {measured}".rstrip(": ")


def _of_one(original: Original, replica: Replica, rows: Iterable[Row]) -> _Contents:
    """Return the contents of a report on one machine.

    These are the key figure, the description of the machines, and the tables of the paper with the
    numbers of this machine.
    """
    # The paper's first machine of the same kind, CPU or GPU.
    paper = next((m for m in original.machines if m.about == replica.about), replica)
    figures, beside = _key_figure_beside_paper(replica, paper)
    by_heading = {"This machine": replica}
    for machine in original.machines:
        is_compared = machine is paper or any(machine.is_read_by(row.paper) for row in rows)
        if is_compared and machine.stored.file != replica.stored.file:
            by_heading[f"The paper's {machine.label}"] = machine
    table = setup([Run(machine.stored, heading) for heading, machine in by_heading.items()])
    omitted = ("Processes planned", "Samples a case")
    table_rows = [cells for cells in table.rows if cells[0] not in omitted]
    environments = [machine.stored.record.environment for machine in by_heading.values()]
    table_rows.append(("PyTorch's vectors", *(e.torch.cpu_capability for e in environments)))
    table_rows.append(("Record", *(_records(original, m) for m in by_heading.values())))
    tables, tables_of_paper = [replace(table, rows=tuple(table_rows))], {}
    for own in replica.findings.tables.values():
        name = own.id.removeprefix("tbl-")
        # The report has tables of its own with some of the paper's ids.
        tables.append(replace(own, id=f"tbl-paper-{name}"))
        tables_of_paper[f"tbl-paper-{name}"] = name.replace("-", " ")
    facts = {
        "single": True,
        "where": replica.label,
        "beside": beside,
        "tables_of_paper": tables_of_paper,
    }
    return tables, figures, facts


def _key_figure_beside_paper(
    replica: Replica, paper: Replica
) -> tuple[dict[str, Drawing], dict[str, str]]:
    """Draw the key figure in two columns: this machine left, and the paper's machine right.

    Returns the drawing by id, and its facts: the name of the figure and the title on the right.
    Both are empty without a key figure; the title is empty if the right column is left out.
    """
    figure = replica.findings.shown_figure
    if figure is None:
        return {}, {}
    drawing, title = figure.drawing, ""
    columns, rows = {replica.label: drawing.panels}, len(drawing.panels)
    of_paper = paper.findings.figures.get(figure.id)
    is_other = paper.stored.file != replica.stored.file
    if of_paper and is_other and len(of_paper.drawing.panels) == rows:
        title = f"{paper.label}, paper"
        columns[title] = of_paper.drawing.panels
    panels: list[Panel] = []
    for panels_of_row in zip(*columns.values(), strict=True):
        for column, panel in zip(columns, panels_of_row, strict=True):
            title_of_row = f"{panel.title}: " if rows > 1 and panel.title else ""
            titled = replace(panel, title=f"{title_of_row}{column}")
            if isinstance(titled, Dots):  # the paper draws these panels side by side
                titled = replace(titled, show_names=True, legend=not panels)
            if isinstance(titled, Scaling):  # points without a label need the paper
                titled = replace(titled, points=(*filter(attrgetter("label"), titled.points),))
            panels.append(titled)
    drawing = replace(
        drawing,
        panels=tuple(panels),
        rows=rows,
        wide=True,
        height=rows * max(drawing.height / drawing.rows, _LEAST_ROW_HEIGHT),
        same_axes=all(isinstance(panel, Scaling | Roofline) for panel in panels),
    )
    return {"fig-beside": drawing}, {"name": figure.name.replace("-", " "), "paper": title}


def _of_many(
    original: Original,
    replicas: Sequence[Replica],
    rows: Collection[Row],
    reason_numbers: Mapping[tuple[str, str], str],
) -> _Contents:
    """Return the contents of a report on several machines, or on none.

    These are a map of their agreement with the paper, the compared measure, and tables of machines
    and hosts.  ``reason_numbers``: number of the reason for a letter, by claim and machine.
    """
    compared, (machines, cases) = original.compared, _machines(original, replicas)
    machine_count = len({replica.machine for replica in replicas})
    names = tuple(machine.name for machine in machines)
    figures: dict[str, Drawing] = {}
    if rows:
        cells = []
        for name in names:
            texts = []
            for row in rows:
                number = reason_numbers.get((row.paper.id, name), "")
                texts.append(row.letters.get(name, "") + number)
            cells.append(tuple(texts))
        numbers = tuple(map(str, range(1, len(rows) + 1)))
        grid = Grid(names, numbers, tuple(cells), "".join(AGREEMENTS), "Claim")
        place = f"{__name__}._of_many"
        figures["fig-map"] = Drawing((grid,), wide=True, height=grid.height, place=place)
    known = [machine for machine in machines if not machine.measured.missing]
    if compared.heading and len(known) > 1:
        figures["fig-effects"] = replace(drawing_of(known, (), compared), wide=True)
    environments = {replica.label: replica.stored.record.environment for replica in replicas}
    hosts = list[_Cells]()
    for name in names:
        host = properties(environments[name])
        hosts.append({"Machine": name, **{key: host[key] for key in _HOST_PROPERTIES}})
    letters = {*chain.from_iterable(row.letters.values() for row in rows)}
    machines_text = f"{machine_count or 'no'} machine{'s' if machine_count > 1 else ''}"
    facts = {
        "single": False,
        "where": f"{len(replicas)} records of {machines_text}",
        "letters": {key: AGREEMENTS[key][1] for key in AGREEMENTS if key in letters},
        "compared": compared.heading,
        "meaning": compared.meaning,
        "cases": cases,
        "unidentified": any(isinstance(host["Identity"], Missing) for host in hosts),
        "ends": [machine.name for machine in (*known[:1], *known[-1:])],
    }
    table = table_of("tbl-machines", [machine.cells for machine in machines], wide=True)
    return [table, table_of("tbl-hosts", hosts, wide=True)], figures, facts


def _machines(original: Original, replicas: Sequence[Replica]) -> tuple[list[MeasuredMachine], str]:
    """Return the machines, sorted by the compared measure, and the cases that all means share."""
    known, unknown = list[MeasuredMachine](), list[MeasuredMachine]()
    for replica in replicas:
        machine = evaluate_machine(replica.stored, replica.label, original.compared)
        del machine.cells["Processor or GPU"], machine.cells["Threads"]
        machine.cells["Machine"] = replica.label  # names processor and threads
        machine.cells["Record"] = _records(original, replica)
        machine.cells["Disturbed"] = disturbed_count([shard.record for shard in replica.shards])
        (unknown if machine.measured.missing else known).append(machine)
    means = restrict_to_common_terms([machine.measured for machine in known])
    machines = []
    for machine, mean in zip(known, means, strict=True):
        machine.cells[original.compared.heading] = mean
        machines.append(machine._replace(measured=mean))
    machines.sort(key=attrgetter("sort_key"), reverse=True)
    return [*machines, *unknown], describe_terms(means[0]) if means else ""


def _next_machine(row: Row) -> str:
    """Format the interval in which the effect on one more machine is expected; "" if unknown."""
    ends = next_effect([effect for effect, _ in row.effects])
    if not ends:
        return ""
    estimate = Estimate(ends[0], *ends, len(row.effects), CONFIDENCE)
    unit = str(row.paper.statements[0].quantity.unit)
    parts = printed_parts(estimate, scale_for(estimate, unit), outward=True)
    return f"; next machine {parts.bounds}{parts.after}"


def _reason_against_interval(replicas: Sequence[Replica], rows: Iterable[Row]) -> str:
    """Explain why the effect on one more machine cannot be predicted; "" if it can."""
    environments = [replica.stored.record.environment for replica in replicas]
    if max((len(row.effects) for row in rows), default=0) < FEWEST_MACHINES:
        return f"fewer than {FEWEST_MACHINES} of them measured a claim of one comparison"
    if len({*map(hardware_id, environments)}) < len(replicas):
        return "several records are of one host"
    libraries, allocators = set[Content](), set[frozenset[tuple[str, str]]]()
    for environment in environments:
        libraries.add(properties(environment)["C library"])
        variables = environment.variables.items()
        allocators.add(frozenset(v for v in variables if re.search("MALLOC|^LD_PRELOAD$", v[0])))
    unknown = any(isinstance(library, Missing) for library in libraries)
    if unknown or len(libraries) > 1 or len(allocators) > 1:
        return "the machines differ, or may, in their C library or allocator"
    return ""
