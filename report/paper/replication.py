"""The replication report: which claims of a paper hold on other machines.

One template prints the reports of all studies, without sentences of the studies.
"""

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Final, TypeAlias

from figures.panels import Drawing, Grid, Roofline, Scaling
from report.core.missing import Missing
from report.core.records.pooling import without_option
from report.core.records.quantities import QUANTITIES
from report.core.records.record import ENDED
from report.core.records.store import Stored
from report.core.statistics.estimates import CONFIDENCE, FEWEST_MACHINES, Estimate, next_effect
from report.core.text.format import NO_BREAK, printed, scale_for
from report.evidence.ceilings import in_binary
from report.evidence.runs import Run, described, hardware, machine_id, words
from report.paper.claims import disturbance, first_few, uncompared
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
from report.paper.tables import Content, Table, TableCell, table_of
from report.quantity.operations import over_common_terms, range_of_terms

#: Characters of a command that fit into a line of a PDF.
_WIDTH: Final = 66
#: Fields of an environment whose absence is not reported, since no result depends on them.
_NO_PARTS: Final = ("cpu.governor", "gpu", "name")
#: Endings of names: the paper uses the record, or another record of the machine.
_USED, _OWNED = " *", " †"
#: Most reasons that are printed for one verdict.
_REASONS: Final = 8
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

    @property
    def owned(self) -> set[str]:
        """The machines of all records of the paper."""
        return {machine_id(stored.record.environment) for stored in self.records.values()}


def report(
    original: Original, replicas: Sequence[Replica], left_out: Iterable[str] = ()
) -> Findings:
    """Compute the findings of the report; ``left_out`` says why records are not used."""
    rows = compare(replicas, original.findings)
    measured = {id: row for id, row in rows.items() if row.outcome != "N"}
    no_interval = _reason_against_interval(replicas, measured.values())
    if len(replicas) == 1:
        machines, drawings, facts = _of_one(original, replicas[0], measured.values())
    else:
        machines, drawings, facts = _of_many(original, replicas, measured.values())
    claims = _claims_table(original, measured, predict=not no_interval)
    records = [shard.record for replica in replicas for shard in replica.shards]
    others = [replica for replica in replicas if replica.stored.file not in original.records]
    of_paper = [stored.record for stored in original.records.values()]
    hosts = {hardware(record.environment) for record in records}
    own = (record.environment for record in of_paper if hardware(record.environment) in hosts)
    newest = max([*of_paper, *records], key=attrgetter("started")).code
    tested = [id for id in original.headline if id in measured and measured[id].outcome != "B"]
    facts |= {
        "paper": original.title,
        "summary": summary(rows.values(), replicas),
        "count": str(len(replicas)),
        "used": str(len(replicas) - len(others) or "none"),
        "owned": any(replica.machine in original.owned for replica in others),
        "threads_in_paper": " and ".join(sorted({machine.threads_text[2:] for machine in own})),
        "cells": str(claims.rows),
        "days": sorted({record.started[:10] for record in records}),
        "level": f"{100 * CONFIDENCE:.0f} %",
        "claims": _claims(original, replicas, rows),
        "headline": str(len(original.headline) or ""),
        "tested": str(len(tested) or "none"),
        "alone": str(sum(r.outcome == "A" and r.deciding == 1 for r in measured.values()) or ""),
        "no_interval": no_interval,
        "missing": _missing_parts(replicas),
        "left_out": list(left_out),
        "commands": _commands(original, replicas),
        "newest": (newest.commit or "unknown")[:12],
        "same_code": all(r.code.measuring_code == newest.measuring_code for r in records),
    }
    tables = [claims, *machines, _records(replicas)]
    return Findings(
        values={},
        tables={table.id: replace(table, outward=True) for table in tables if table.rows},
        figures={id: Figure(id, drawing) for id, drawing in drawings.items()},
        claims={id: row.over_all for id, row in rows.items()},
        facts=facts,
        key_figure=next(reversed(drawings), ""),  # not the map, which is too wide for lists
    )


def _claims(
    original: Original, replicas: Sequence[Replica], rows: Mapping[str, Row]
) -> list[dict[str, Any]]:
    """Describe each claim of the paper; ``outcome`` is empty if no machine here can test it.

    ``remedy``: options by which the paper's run chose the claim's cases; empty for a full run.
    """
    claims: list[dict[str, Any]] = []
    for id, claim in original.findings.claims.items():
        row, remedy = rows.get(id), ""
        for file in {*claim.files}.intersection(original.records):
            command = "\0".join(original.records[file].record.command)
            levels = re.findall("--set[\0=]([^\0]*)", command)
            remedy = max(remedy, " ".join(f"--set {level}" for level in levels), key=len)
        claims.append({
            "title": claim.title,
            "about": claim.about,
            "main": id in original.headline,
            "outcome": row.outcome if row else "",
            "measured": row.measured if row else "",
            "effect": bool(row and row.effects),
            "cases": row.cases if row else "",
            "paper": row.paper.measured if row else "",
            "reasons": _reasons(replicas, row, remedy) if row else [],
            "remedy": remedy,
        })  # fmt: skip
    return sorted(claims, key=itemgetter("about", "reasons"))


def _reasons(replicas: Iterable[Replica], row: Row, remedy: str) -> list[str]:
    """Explain why a claim is contrary, undecided, measured in part or not at all, by machine."""
    labels: dict[str, list[str]] = {}
    for replica in (replica for replica in replicas if replica.label in row.claims):
        letter, claim, reasons = row.letters[replica.label], row.claims[replica.label], list[str]()
        if letter in ("C", "U"):
            reasons = first_few(replica.reasons(claim) or ["supported"], _REASONS)
        elif letter == "P":
            names = "; ".join(first_few(uncompared(claim, row.paper), _REASONS))
            counts = f"{claim.known} comparisons, {row.paper.known} in the paper"
            reasons = [f"{counts}; not compared: {names}" if names else counts]
        elif letter == "N":
            reasons = _why_not_measured(replica, row, remedy)
        for reason in reasons:
            labels.setdefault(reason, []).append(replica.label)
    return [*_with_machines(labels, len(row.claims))]


def _why_not_measured(replica: Replica, row: Row, remedy: str) -> list[str]:
    """Say why a record decides nothing: unrecorded quantities, its plan, or its cases."""
    record, own, needed = replica.stored.record, row.claims[replica.label], set[str]()
    for statement in row.paper.statements:
        needed.update(leaf.name.partition("(")[0] for leaf in statement.quantity.leaves)
    held = {name for case in record.cases for series in case.all_series for name in series}
    if lacking := needed.intersection(map(words, QUANTITIES.keys() - held)):
        return [f"no {' and no '.join(sorted(lacking))} recorded"]
    if record.protocol.plan == "quick" and not remedy:
        return ["the quick run had no such processes or counts; a full run has"]
    return ["the run had no such cases, or not all"] if remedy else replica.reasons(own)


def _with_machines(labels: Mapping[str, Sequence[str]], count: int) -> Iterator[str]:
    """Add the machines to each text, unless the text is true of all ``count`` machines."""
    for text, where in labels.items():
        yield text if len(where) == count else f"{text} (on {'; '.join(first_few(where))})"


def _missing_parts(replicas: Sequence[Replica]) -> list[str]:
    """List the missing parts of records, grouped by reason, with the machines."""
    labels: dict[str, list[str]] = {}
    for replica in replicas:
        record, reasons = replica.stored.record, dict[str, list[str]]()
        for field, why in record.environment.missing.items():
            if field not in _NO_PARTS:
                name = re.sub("[._]", " ", field.replace("policies.", "memory policy "))
                if held := sum(field in chain(*case.all_series) for case in record.cases):
                    name += f" in all but {held:,} cases"
                reasons.setdefault(why, []).append(name)
        for case in record.cases:
            if case.status != "ok":
                # The name of a series leaves out the factor subject.
                factors = {name.replace("subject", "of"): n for name, n in case.factors.items()}
                names = reasons.setdefault(case.reason or case.status, [])
                names.append(described("case ", factors))
        for why, names in reasons.items():
            reason = re.sub(r"(\d{4,}) B\b", lambda size: in_binary(int(size[1])), why)
            reason = re.sub("perf: (.*) <not supported>", r"perf cannot count \1", reason)
            text = f"{', '.join(first_few(names))}: {reason.rstrip('.')}"
            labels.setdefault(text, []).append(replica.label)
    return [*_with_machines(labels, len(replicas))]


def _records(replicas: Iterable[Replica]) -> Table:
    """Tabulate the records: plan, measured cases, disturbances, and the measuring code."""
    rows: list[_Cells] = []
    for replica in replicas:
        for shard in replica.shards:
            record = shard.record
            ended = ", ended early" if ENDED in record.environment.missing.values() else ""
            processes = Counter[object]()
            for case in record.cases:
                processes |= Counter(round_.policy for round_ in case.rounds)
            rows.append({
                "Machine": replica.label,
                "Record": shard.file[-13:-5],
                "Plan": f"{record.protocol.plan}{ended}",
                "Minutes": str(record.minutes),
                "Cases": f"{sum(c.status == 'ok' for c in record.cases)} of {len(record.cases)}",
                "Processes": str(max(processes.values(), default=1)),
                "Disturbed": disturbed_of([record]),
                "Code hash": record.code.measuring_code[:8],
            })  # fmt: skip
    return table_of("tbl-records", rows, wide=True)


def _commands(original: Original, replicas: Iterable[Replica]) -> list[str]:
    """Return the commands that measured the records, each below its records and their digests."""
    # A changed file does not matter if a run of the paper measured with the same code.
    codes = [stored.record.code for stored in original.records.values()]
    clean = {code.measuring_code for code in codes if code.tree_clean}
    blocks: dict[str, list[str]] = {}
    for shard in chain.from_iterable(replica.shards for replica in replicas):
        record, code = shard.record, shard.record.code
        # A repetition needs no label, whose quotation marks would be curved; options begin lines.
        text = re.sub(" (?!--)", NO_BREAK, shlex.join(without_option(record.command, "--label")))
        lines = textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
        command = " \\\n".join(lines).replace(NO_BREAK, " ")
        known = code.tree_clean or code.measuring_code in clean
        changes = "" if known else "  # and changes that no commit has"
        block = blocks.setdefault(f"git checkout {code.commit}{changes}\n{command}", [])
        block += (f"# {Path(shard.file).name}, {record.minutes} min", f"# {shard.sha256}")
    return ["\n".join((*files, command)) for command, files in blocks.items()]


def _claims_table(original: Original, rows: Mapping[str, Row], *, predict: bool) -> Table:
    """Tabulate the measured claims beside the paper's; predict the next machine if asked to."""
    cells = list[_Cells]()
    for n, (id, row) in enumerate(rows.items(), start=1):
        notes = [f"expected: {row.paper.expected}"] if row.paper.expected else []
        notes += ["title or abstract"] if id in original.headline else []
        names = [machine.label for machine in original.machines if machine.decides(row.paper)]
        part = f" in {row.over_all.known} of {row.paper.known} comparisons"
        cells.append({
            "Claim": f"{n}. {row.paper.title}" + (f" ({'; '.join(notes)})" if notes else ""),
            "Agreement": _agreement(row),
            "Measured": _verdict(row.over_all, part if [*row.letters.values()] == ["P"] else ""),
            "Paper": _verdict(row.paper) + (f" on {'; '.join(first_few(names))}" if names else ""),
        })  # fmt: skip
        if predict:
            effects = [effect for effect, _ in row.effects]
            cells[-1]["Next machine"] = _next_machine(effects, row.paper.unit)
    return table_of("tbl-claims", cells, wide=True)


def _agreement(row: Row) -> str:
    """Name the agreement of one machine with the paper, or count machines by its letter."""
    counts, disturbed = Counter(row.letters.values()), [*filter(None, map(disturbance, row.known))]
    if len(row.claims) == 1:
        texts = [AGREEMENTS[row.outcome], *disturbed]
    else:
        texts = [f"{counts[letter]} {letter}" for letter in AGREEMENTS if counts[letter]]
        texts += [f"{len(disturbed)} on a busy machine"] if disturbed else []
    return ", ".join(texts) + (f" (means over {row.cases})" if row.cases else "")


def _verdict(claim: Claim, part: str = "") -> str:
    """Print a verdict with its numbers; ``part`` says of how many comparisons it is."""
    repeated = claim.verdict in ("undecided", "not measured") and claim.verdict in claim.measured
    return claim.measured if repeated else f"{claim.verdict}{part}: {claim.measured}".rstrip(": ")


def _of_one(original: Original, one: Replica, rows: Iterable[Row]) -> _Contents:
    """Draw the key figure, describe the machines, and take over the tables of the paper."""
    paper = next((machine for machine in original.machines if machine.about == one.about), one)
    figures, beside = _beside(one, paper)
    tables = one.findings.tables.values()  # the report has tables of some of these names
    of_paper = [replace(t, id=t.id.replace("tbl-", "tbl-paper-", 1)) for t in tables]
    facts = {
        "single": True,
        "where": one.label,
        "beside": beside,
        "tables_of_paper": {t.id: t.id[len("tbl-paper-") :].replace("-", " ") for t in of_paper},
    }
    runs = [Run(one.stored, "This machine")]
    for machine in original.machines:
        is_compared = machine is paper or any(machine.decides(row.paper) for row in rows)
        if is_compared and machine.stored.file != one.stored.file:
            runs.append(Run(machine.stored, f"The paper's {machine.label}"))
    table, cells = setup(runs), list[tuple[TableCell, ...]]()
    for name, *texts in table.rows:
        if name == "Samples a case":  # papers print the plural after 1, too
            texts[:] = [str(text).replace(" 1 warm-up calls", " 1 warm-up call") for text in texts]
        cells.append((name, *texts))
    return [replace(table, rows=tuple(cells)), *of_paper], figures, facts


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
        height=rows * figure.drawing.height / figure.drawing.rows,
        same_axes=all(isinstance(panel, Scaling | Roofline) for panel in panels),
    )
    facts = {"name": figure.name.replace("-", " "), "paper": label if label in columns else ""}
    return {"fig-beside": drawing}, facts


def _of_many(original: Original, replicas: Sequence[Replica], rows: Collection[Row]) -> _Contents:
    """Compare the measure of many machines, or of none, and map their agreement on the claims."""
    compared, (machines, cases) = original.compared, _machines(original, replicas)
    figures: dict[str, Drawing] = {}
    if rows:
        cells = []
        for machine in machines:
            label = machine.name.removesuffix(_USED).removesuffix(_OWNED)
            cells.append(tuple(row.letters.get(label, "") for row in rows))
        names, place = tuple(machine.name for machine in machines), f"{__name__}._of_many"
        numbers = map(str, range(1, len(rows) + 1))
        grid = Grid(names, (*numbers,), (*cells,), "".join(AGREEMENTS), "Claim")
        figures["fig-map"] = Drawing((grid,), wide=True, height=grid.height, place=place)
    known = [machine for machine in machines if not machine.measured.missing]
    if compared.heading and len(known) > 1:
        figures["fig-effects"] = replace(drawing_of(known, (), compared), wide=True)
    facts = {
        "single": False,
        "where": _count(original, replicas),
        "letters": [*dict.fromkeys(chain.from_iterable(row.letters.values() for row in rows))],
        "compared": compared.heading,
        "meaning": compared.meaning,
        "cases": cases,
    }
    table = table_of("tbl-machines", [machine.cells for machine in machines], wide=True)
    return [table], figures, facts


def _machines(original: Original, replicas: Iterable[Replica]) -> tuple[list[MeasuredMachine], str]:
    """Return the machines by the compared measure, and the common cases of its means."""
    known, unknown = list[MeasuredMachine](), list[MeasuredMachine]()
    for replica in replicas:
        mark = _OWNED if replica.machine in original.owned else ""
        mark = _USED if replica.stored.file in original.records else mark
        machine = measure(replica.stored, replica.label + mark, original.compared)
        facts = properties(replica.stored.record.environment)
        machine.cells["C library"] = facts["C library"]
        if isinstance(facts["Identity"], str):
            number = facts["Identity"].partition(", stepping")[0]
            machine.cells["Processor or GPU"] = f"{facts['Device']} ({number})"
        (unknown if machine.measured.missing else known).append(machine)
    means = over_common_terms([machine.measured for machine in known])
    machines = []
    for machine, mean in zip(known, means, strict=True):
        machine.cells[original.compared.heading] = mean
        machines.append(machine._replace(measured=mean))
    machines.sort(key=attrgetter("sort_key"), reverse=True)
    return [*machines, *unknown], range_of_terms(means[0]) if means else ""


def _count(original: Original, replicas: Sequence[Replica]) -> str:
    """Count machines, the paper's own ones, and records if a machine has several."""
    machines = {replica.machine for replica in replicas}
    count, own = len(machines), len(machines & original.owned)
    text = f"{len(replicas)} records of " if len(replicas) > count else ""
    text += f"{count or 'no'} machine{'s' if count > 1 else ''}"
    return f"{text}, {'all' if own == count else own} of them the paper's own" if own else text


def _next_machine(effects: Sequence[float], unit: str) -> str:
    """Print the interval in which the effect on one more machine is expected."""
    ends = next_effect(effects)
    if not ends:
        return ""
    estimate = Estimate(ends[0], *ends, len(effects), CONFIDENCE)
    parts = printed(estimate, scale_for(estimate, unit), outward=True)
    return f"{parts.bounds}{parts.after}"


def _reason_against_interval(replicas: Sequence[Replica], rows: Iterable[Row]) -> str:
    """Say why the effect on a further machine cannot be predicted; "" if it can be."""
    environments = [replica.stored.record.environment for replica in replicas]
    libraries, allocators = set[Content](), set[frozenset[tuple[str, str]]]()
    for environment in environments:
        libraries.add(properties(environment)["C library"])
        variables = environment.variables.items()
        allocators.add(frozenset(v for v in variables if re.search("MALLOC|^LD_PRELOAD$", v[0])))
    if max((len(row.effects) for row in rows), default=0) < FEWEST_MACHINES:
        return f"fewer than {FEWEST_MACHINES} of them measured a claim of one comparison"
    if len({*map(hardware, environments)}) < len(replicas):
        return "several records are of one host"
    several = Missing in map(type, libraries) or len(libraries) > 1 or len(allocators) > 1
    return "the machines differ, or may, in their C library or allocator" if several else ""
