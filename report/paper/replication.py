"""The replication report: which claims of a paper hold on other machines.

One template prints the reports of all studies, without sentences of the studies.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeAlias

from figures.panels import Drawing, Grid, Roofline, Scaling
from report.core.missing import Missing
from report.core.records.store import Stored
from report.core.statistics.estimates import CONFIDENCE, FEWEST_MACHINES, Estimate, next_effect
from report.core.text.format import printed, scale_for
from report.evidence.ceilings import in_binary
from report.evidence.runs import Run, described, hardware, machine_id, words
from report.paper.claims import first_few, uncompared
from report.paper.findings import Claim, Figure, Findings
from report.paper.machines import (
    MachineComparison,
    MeasuredMachine,
    disturbed_of,
    drawing_of,
    measure,
    properties,
    setup,
)
from report.paper.replicas import AGREEMENTS, Replica, Row, compare, summary
from report.paper.study import NO_CASES
from report.paper.tables import Content, Table, table_of
from report.quantity.operations import over_common_terms, range_of_terms

#: Height (inches) of a row of panels in which an axis fits its name.
_LEAST_HEIGHT: Final = 2.1
#: Properties in the table of many hosts.
_OF_HOSTS: Final = (
    "Identity", "Cores and threads", "Memory", "C library", "Operating system", "Framework"
)  # fmt: skip
#: Fields of an environment whose absence is not reported, since no result depends on them.
_NO_PARTS: Final = ("cpu.governor", "gpu", "load_after", "name")
#: Group of such fields → words for a field of it.
_GROUPS: Final = {"ceilings": "peak rates {} the run", "policies": "memory policy {}"}
#: Tables, drawings by id, and facts of a report.
_Contents: TypeAlias = tuple[list[Table], dict[str, Drawing], dict[str, Any]]
_Cells: TypeAlias = dict[str, Content]


@dataclass(frozen=True)
class Original:
    """The paper: findings, title, machines in its roles, their comparison, and records by file.

    ``headline``: ids of the claims that are its title and abstract.
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
    """Compute the findings of the report; ``left_out`` says why records are not used."""
    rows = compare(replicas, original.findings)
    measured = {id: row for id, row in rows.items() if row.outcome != "N"}
    marks, reasons = _reasons(original, replicas, measured)
    no_interval = _reason_against_interval(replicas, measured.values())
    if len(replicas) == 1:
        machines, drawings, facts = _of_one(original, replicas[0], measured.values())
    else:
        machines, drawings, facts = _of_many(original, replicas, measured.values(), marks)
    claims = _claims_table(original, measured, predict=not no_interval)
    others = [replica for replica in replicas if replica.stored.file not in original.records]
    main = [rows[id] for id in original.headline if id in rows]
    tested = [row for row in main if row.known]
    quiet = [row for row in tested if row.outcome in "ACUD" and not all(row.disturbed)]
    untested = "no main claim of the paper was tested in full on a quiet machine"
    against = {
        f"the paper uses {'these records' if replicas[1:] else 'this record'}": not others,
        untested: original.headline and not quiet,
        "other programs disturbed most measurements": all(r.busy for r in replicas),
    }
    environments = [stored.record.environment for stored in original.records.values()]
    machines_of_paper, hosts = {*map(machine_id, environments)}, {*map(hardware, environments)}
    others_about = {c.about for id, c in original.findings.claims.items() if id not in rows}
    facts |= {
        "paper": original.title,
        "summary": summary(rows.values(), replicas),
        "count": str(len(replicas)),
        "of_paper": original.machines[0].label if original.machines else "",
        "used": str(len(replicas) - len(others) or "none"),
        "owned": any(replica.machine in machines_of_paper for replica in others),
        "hosts": any(hardware(r.stored.record.environment) in hosts for r in others),
        "against": [text for text, is_true in against.items() if is_true and replicas],
        "cells": str(claims.rows),
        "days": sorted({s.record.started[:10] for replica in replicas for s in replica.shards}),
        "level": f"{100 * CONFIDENCE:.0f} %",
        "measured": [  # for the abstract
            (row.paper.title, _verdict(row.over_all) + _behind(row), _in_paper(original, row))
            for row in sorted(measured.values(), key=lambda r: (r not in main, -len(r.effects)))
            if (row in main or row.paper.expected) and row.outcome != "P"
        ][:2],
        "headline": str(len(original.headline) or ""),
        "main": str(len(main) or "none"),
        "tested": str(len(tested) or "none"),
        "quiet": str(len(quiet) or "none"),
        "alone": str(sum(r.outcome == "A" and r.deciding == 1 for r in measured.values()) or ""),
        "no_interval": no_interval,
        "reasons": reasons,
        "untested": _untested(original, replicas, rows),
        "others": sorted(others_about),
        "missing": _missing_parts(replicas),
        "left_out": list(left_out),
        "commands": _commands(replicas),
    }
    return Findings(
        values={},
        tables={
            table.id: replace(table, outward=True) for table in (claims, *machines) if table.rows
        },
        figures={id: Figure(id, drawing) for id, drawing in drawings.items()},
        claims={id: row.over_all for id, row in rows.items()},
        facts=facts,
        key_figure=next(reversed(drawings), ""),  # not the map, which is too wide for lists
    )


def _untested(
    original: Original, replicas: Iterable[Replica], rows: Mapping[str, Row]
) -> dict[str, list[str]]:
    """List claims that no record measures, and main claims that none can, by what they need."""
    untested = dict[str, list[str]]()
    for id, claim in original.findings.claims.items():
        note, row = " (main)" if id in original.headline else "", rows.get(id)
        needs = [f"about {claim.about}, which no single record tests"] if note else []
        if row:
            needs = [_need(original, r, row) for r in replicas if r.label in row.claims]
        if needs and not (row and row.known):
            titles = untested.setdefault("; ".join(dict.fromkeys(needs)), [])
            titles.append(f"{claim.title}{note}")
    return untested


def _reasons(
    original: Original, replicas: Sequence[Replica], rows: Mapping[str, Row]
) -> tuple[dict[tuple[str, str], str], list[str]]:
    """Explain contrary, undecided, partial and missing verdicts.

    Returns the number of the reason by claim and machine, and the reasons with their claims.
    """
    marks, claims = dict[tuple[str, str], str](), dict[str, list[str]]()
    for (n, (id, row)), replica in product(enumerate(rows.items(), start=1), replicas):
        letter, reason = row.letters.get(replica.label, ""), ""
        if letter in ("C", "U"):
            own = replica.reasons(row.claims[replica.label])
            reason = "; ".join(first_few(own or ["supported"]))
        elif letter == "P":
            claim = row.claims[replica.label]
            lacking, count = uncompared(claim, row.paper), row.paper.known
            reason = f"{count - len(lacking)} of the paper's {count} comparisons; the others: "
            reason += "; ".join(first_few(lacking))
        elif letter == "N":
            reason = _need(original, replica, row)
        if reason:
            claims.setdefault(reason, []).append(str(n))
            marks[id, replica.label] = str([*claims].index(reason) + 1)
    texts = []
    for n, (reason, names) in enumerate(claims.items(), start=1):
        where = f"claim{'s' if len({*names}) > 1 else ''} {', '.join(dict.fromkeys(names))}"
        texts.append(f"Reason {n} ({where}): {reason}")
    return marks, texts


def _need(original: Original, replica: Replica, row: Row) -> str:
    """Say what would measure a claim: options of the paper's run, a full run, or another reason."""
    runs = [original.records[file] for file in row.paper.files if file in original.records]
    run = max(runs, key=lambda stored: len(_options(stored)), default=None)
    if run and _options(run):
        return f"needs {_options(run)} at commit {(run.record.code.commit or 'unknown')[:12]}"
    if replica.stored.record.protocol.plan == "quick":
        return "needs a full run, without --quick"
    if own := _options(replica.stored):
        return f"measured with {own}, which leaves the claim's cases out"
    reasons = "; ".join(replica.reasons(row.claims[replica.label]))
    return reasons.replace(NO_CASES, "the record lacks cases or counts that the claim needs")


def _options(stored: Stored) -> str:
    """Return the options of a run that select its cases and its pairs of processes."""
    options = re.findall("(--(?:set|pairs))[\0=]([^\0]*)", "\0".join(stored.record.command))
    return " ".join(chain.from_iterable(options))


def _missing_parts(replicas: Sequence[Replica]) -> list[str]:
    """List the missing parts of records, grouped by reason; of many records, also where."""
    where: dict[str, list[str]] = {}
    for replica in replicas:
        record, reasons = replica.stored.record, dict[str, dict[str, None]]()
        for field, why in record.environment.missing.items():
            group, _, part = field.rpartition(".")
            name = words(_GROUPS.get(group, "{}").format(part))
            if part.startswith(("lackey_", "ncu_", "perf_")):
                name = f"counts of executed work ({part.partition('_')[0]})"
            reason = "the system shows no such counters" if why.startswith("perf: ") else why
            if field not in _NO_PARTS:
                reasons.setdefault(reason, {})[name] = None
        for case in record.cases:
            if case.status != "ok":
                # The name of a series leaves out the factor subject.
                factors = {name.replace("subject", "of"): n for name, n in case.factors.items()}
                names = reasons.setdefault(case.reason or case.status, {})
                names[described("case ", factors)] = None
        for why, names in reasons.items():
            reason = re.sub(r"(\d{4,}) B\b", lambda size: in_binary(int(size[1])), why)
            text = f"{', '.join(first_few([*names]))}: {reason.rstrip('.')}"
            where.setdefault(text, []).append(replica.stored.short_digest)
    many = len(replicas) > 1
    return [f"{text} ({', '.join(own)})" if many else text for text, own in where.items()]


def _records(original: Original, replica: Replica) -> str:
    """Describe the records of a machine: plan, measured cases, local changes, use in the paper."""
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
    blocks: dict[str, list[str]] = {}
    for shard in chain.from_iterable(replica.shards for replica in replicas):
        record, code = shard.record, shard.record.code
        # Backslashes quote, since quotation marks would be curved.
        command = " ".join(re.sub(r"([^\w@%+=:,./-])", r"\\\1", part) for part in record.command)
        command = re.sub(" --(?!device|threads)", " \\\\\n  --", command)
        changes = "# with local changes\n" if code.tree_clean is False else ""
        block = blocks.setdefault(f"{changes}git checkout {code.commit}\n{command}", [])
        block += (f"# {Path(shard.file).name}, {record.minutes} min", f"# {shard.sha256}")
    return ["\n".join((*files, command)) for command, files in blocks.items()]


def _claims_table(original: Original, rows: Mapping[str, Row], *, predict: bool) -> Table:
    """Tabulate the measured claims beside the paper's; predict the next machine if asked to."""
    cells = list[_Cells]()
    for n, (id, row) in enumerate(rows.items(), start=1):
        notes = [f"expected: {row.paper.expected}"] if row.paper.expected else []
        notes += ["main"] if id in original.headline else []
        cells.append({
            "Claim": f"{n}. {row.paper.title}" + (f" ({'; '.join(notes)})" if notes else ""),
            "Agreement": _agreement(row),
            "Measured": _verdict(row.over_all) + _behind(row),
            "Paper": _in_paper(original, row),
        })  # fmt: skip
        if predict:
            cells[-1]["Next machine"] = _next_machine(row)
    return table_of("tbl-claims", cells, wide=True)


def _behind(row: Row) -> str:
    """Name the cases of a mean, count the processes of each case, and mark disturbed machines."""
    cases = f" over {row.cases}" if row.cases else ""
    disturbed = [*filter(None, row.disturbed)]
    count = f"{len(disturbed)} of {len(row.known)} " if len(row.known) > 1 else ""
    busy = f", {count}{disturbed[0]}" if disturbed else ""
    return f"{cases}{_processes(row.known)}{busy}"


def _processes(claims: Iterable[Claim]) -> str:
    """Count the processes that measured a case of the claims."""
    statements = chain.from_iterable(claim.statements for claim in claims)
    series = chain.from_iterable(statement.sampled for statement in statements)
    counts = sorted({len(leaf.processes) for leaf in series})
    ends = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else ""
    return f", {ends} process{'es' if ends != '1' else ''} a case" if ends else ""


def _in_paper(original: Original, row: Row) -> str:
    """Print the paper's numbers, or that they are the same, with the machines behind them."""
    names = [machine.label for machine in original.machines if machine.decides(row.paper)]
    text = "the same" if row.measured == row.paper.measured else _verdict(row.paper)
    own = original.machines and names == [original.machines[0].label]
    where = f" on {'; '.join(names)}" if names and not own else ""
    return f"{text}{where}{_processes([row.paper])}"


def _agreement(row: Row) -> str:
    """Name the agreement of one machine with the paper, or count machines by its letter."""
    if len(row.claims) == 1:
        return AGREEMENTS[row.outcome]
    counts = Counter(row.letters.values())
    return ", ".join(f"{counts[letter]} {letter}" for letter in AGREEMENTS if counts[letter])


def _verdict(claim: Claim) -> str:
    """Print a verdict with its numbers."""
    repeated = claim.verdict in ("undecided", "not measured") and claim.verdict in claim.measured
    return claim.measured if repeated else f"{claim.verdict}: {claim.measured}".rstrip(": ")


def _of_one(original: Original, one: Replica, rows: Iterable[Row]) -> _Contents:
    """Draw the key figure, describe the machines, and take over the tables of the paper."""
    paper = next((machine for machine in original.machines if machine.about == one.about), one)
    figures, beside = _beside(one, paper)
    tables = one.findings.tables.values()  # the report has tables of some of these names
    of_paper = [replace(t, id=t.id.replace("tbl-", "tbl-paper-", 1)) for t in tables]
    facts: dict[str, Any] = {
        "single": True,
        "where": one.label,
        "beside": beside,
        "vectors": [],
        "tables_of_paper": {t.id: t.id[len("tbl-paper-") :].replace("-", " ") for t in of_paper},
    }
    compared = {"This machine": one}
    for machine in original.machines:
        is_compared = machine is paper or any(machine.decides(row.paper) for row in rows)
        if is_compared and machine.stored.file != one.stored.file:
            compared[f"The paper's {machine.label}"] = machine
    table = setup([Run(machine.stored, label) for label, machine in compared.items()])
    unshown = ("Processes planned", "Samples a case")
    cells = [row for row in table.rows if row[0] not in unshown]
    texts = ["Record"]
    for machine in compared.values():
        capability = machine.stored.record.environment.torch.cpu_capability
        facts["vectors"].append(f"{capability} on {machine.label}")
        texts.append(_records(original, machine))
    return [replace(table, rows=(*cells, tuple(texts))), *of_paper], figures, facts


def _beside(one: Replica, paper: Replica) -> tuple[dict[str, Drawing], dict[str, str]]:
    """Draw the key figure in two columns: this machine on the left, the paper's on the right."""
    figure = one.findings.shown_figure
    if figure is None:
        return {}, {}
    published, columns = paper.findings.figures.get(figure.id), {one.label: figure.drawing.panels}
    other = published.drawing.panels if published else ()
    label = f"{paper.label}, paper"
    if paper.stored.file != one.stored.file and len(other) == len(figure.drawing.panels):
        columns[label] = other
    panels = []
    for drawn in zip(*columns.values(), strict=True):
        for title, panel in zip(columns, drawn, strict=True):
            panels.append(replace(panel, title=title))
            if isinstance(panel, Scaling):  # only the paper explains points without a name
                named = tuple(filter(attrgetter("label"), panel.points))
                panels[-1] = replace(panel, title=title, points=named)
    rows = len(figure.drawing.panels)
    drawing = replace(
        figure.drawing,
        panels=tuple(panels),
        rows=rows,
        wide=True,
        height=rows * max(figure.drawing.height / figure.drawing.rows, _LEAST_HEIGHT),
        same_axes=all(isinstance(panel, Scaling | Roofline) for panel in panels),
    )
    facts = {"name": figure.name.replace("-", " "), "paper": label if label in columns else ""}
    return {"fig-beside": drawing}, facts


def _of_many(
    original: Original,
    replicas: Sequence[Replica],
    rows: Collection[Row],
    marks: Mapping[tuple[str, str], str],
) -> _Contents:
    """Compare the measure of many machines, or of none, and map their agreement on the claims.

    ``marks``: number of the reason for a letter of the map, by claim and machine.
    """
    compared, (machines, cases) = original.compared, _machines(original, replicas)
    count = len({replica.machine for replica in replicas})
    figures: dict[str, Drawing] = {}
    if rows:
        names, cells = tuple(machine.name for machine in machines), []
        for name in names:
            letters = [(row.letters.get(name, ""), (row.paper.id, name)) for row in rows]
            cells.append(tuple(letter + marks.get(key, "") for letter, key in letters))
        numbers, place = map(str, range(1, len(rows) + 1)), f"{__name__}._of_many"
        grid = Grid(names, (*numbers,), (*cells,), "".join(AGREEMENTS), "Claim")
        figures["fig-map"] = Drawing((grid,), wide=True, height=grid.height, place=place)
    known = [machine for machine in machines if not machine.measured.missing]
    if compared.heading and len(known) > 1:
        figures["fig-effects"] = replace(drawing_of(known, (), compared), wide=True)
    environments = {replica.label: replica.stored.record.environment for replica in replicas}
    hosts = list[_Cells]()
    for machine in machines:
        known_of = properties(environments[machine.name])
        hosts.append({"Machine": machine.name, **{name: known_of[name] for name in _OF_HOSTS}})
    facts = {
        "single": False,
        "vectors": [],
        "where": f"{len(replicas)} records of {count or 'no'} machine{'s' if count > 1 else ''}",
        "letters": [*dict.fromkeys(chain.from_iterable(row.letters.values() for row in rows))],
        "compared": compared.heading,
        "meaning": compared.meaning,
        "cases": cases,
        "ends": [machine.name for machine in (*known[:1], *known[-1:])],
        "unidentified": any(isinstance(host["Identity"], Missing) for host in hosts),
    }
    table = table_of("tbl-machines", [machine.cells for machine in machines], wide=True)
    return [table, table_of("tbl-hosts", hosts, wide=True)], figures, facts


def _machines(original: Original, replicas: Sequence[Replica]) -> tuple[list[MeasuredMachine], str]:
    """Return the machines by the compared measure, and the common cases of its means."""
    known, unknown = list[MeasuredMachine](), list[MeasuredMachine]()
    for replica in replicas:
        machine = measure(replica.stored, replica.label, original.compared)
        del machine.cells["Processor or GPU"], machine.cells["Threads"]
        machine.cells["Machine"] = replica.label  # which has both
        machine.cells["Record"] = _records(original, replica)
        machine.cells["Disturbed"] = disturbed_of([shard.record for shard in replica.shards])
        (unknown if machine.measured.missing else known).append(machine)
    means = over_common_terms([machine.measured for machine in known])
    machines = []
    for machine, mean in zip(known, means, strict=True):
        machine.cells[original.compared.heading] = mean
        machines.append(machine._replace(measured=mean))
    machines.sort(key=attrgetter("sort_key"), reverse=True)
    return [*machines, *unknown], range_of_terms(means[0]) if means else ""


def _next_machine(row: Row) -> str:
    """Print the interval in which the effect on one more machine is expected."""
    ends = next_effect([effect for effect, _ in row.effects])
    if not ends:
        return ""
    estimate = Estimate(ends[0], *ends, len(row.effects), CONFIDENCE)
    parts = printed(estimate, scale_for(estimate, row.paper.unit), outward=True)
    return f"{parts.bounds}{parts.after}"


def _reason_against_interval(replicas: Sequence[Replica], rows: Iterable[Row]) -> str:
    """Say why the effect on a further machine cannot be predicted; "" if it can be."""
    environments = [replica.stored.record.environment for replica in replicas]
    libraries = {properties(environment)["C library"] for environment in environments}
    allocators = set[frozenset[tuple[str, str]]]()
    for environment in environments:
        variables = environment.variables.items()
        allocators.add(frozenset(v for v in variables if re.search("MALLOC|^LD_PRELOAD$", v[0])))
    if max((len(row.effects) for row in rows), default=0) < FEWEST_MACHINES:
        return f"fewer than {FEWEST_MACHINES} of them measured a claim of one comparison"
    if len({*map(hardware, environments)}) < len(replicas):
        return "several records are of one host"
    several = Missing in map(type, libraries) or len(libraries) > 1 or len(allocators) > 1
    return "the machines differ, or may, in their C library or allocator" if several else ""
