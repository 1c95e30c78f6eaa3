"""The replication report: which claims of a paper hold on other machines, with these data alone.

One template prints the reports of all studies; no study writes a sentence for it.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final, TypeAlias

from figures.panels import Drawing, Grid, Roofline, Scaling
from report.core.missing import Missing
from report.core.records.store import Stored
from report.core.statistics.prediction import FEWEST_MACHINES, next_effect
from report.core.text.format import plain, quantity_text
from report.evidence.runs import Run
from report.instruments import gates
from report.paper.claims import first_few, formula_parts, with_interval
from report.paper.findings import Claim, Figure, Findings
from report.paper.judgements import (
    AGREEMENTS,
    DECIDED,
    Judgement,
    Judgements,
    Replica,
    compare,
    completeness,
    letters_of,
    minutes_of,
    missing_parts,
    outcome,
    summary,
)
from report.paper.machines import (
    MachineComparison,
    MeasuredMachine,
    drawing_of,
    in_order,
    measure,
    setup,
)
from report.paper.plots import interval_ends
from report.paper.tables import Content, Table, table_of
from report.paper.values import Value
from report.quantity.evaluation import number
from report.quantity.verdicts import Verdict

#: Letters of ``AGREEMENTS`` in the order of tables and reasons.
_ORDER: Final = "CUADN"
#: Reasons that are listed one by one for a claim.
_LISTED: Final = 8
#: Characters of a formula beside a name, and in the list of formulas.
_DESCRIPTION: Final = 60
_FORMULA: Final = 200
#: Tables, figures by id, claims and facts of a report.
_Contents: TypeAlias = tuple[list[Table], dict[str, Drawing], dict[str, Claim], dict[str, Any]]
_INSTALL: Final = "python -m pip install -e '.[experiments]' -c constraints.txt"


@dataclass(frozen=True)
class Original:
    """The paper: its findings, its own machine of each kind, and the command of each record."""

    findings: Findings
    machines: Mapping[str, Replica]
    compared: MachineComparison[Any]
    commands: Mapping[str, str]


# ----------------------------------------------------------------------------------------- report


def report(original: Original, replicas: Sequence[Replica], left_out: Iterable[str]) -> Findings:
    """All that the report of these machines prints."""
    paper, single = original.findings, len(replicas) == 1
    compared = compare(replicas, paper).items()
    rows = dict(sorted(compared, key=lambda item: _ORDER.index(outcome(item[1]))))
    if single:
        tables, figures, claims, facts = _report_of_one(original, replicas[0], rows)
    else:
        tables, figures, claims, facts = _report_of_many(original, replicas, rows)
    others: dict[str, list[str]] = {}
    for id, claim in paper.claims.items():
        if id not in rows:
            others.setdefault(claim.about, []).append(claim.title)
    published = [r.label for r in replicas if not original.commands.keys().isdisjoint(r.files)]
    days = sorted(replica.stored.record.started[:10] for replica in replicas)
    facts |= {
        "summary": summary(replicas, paper),
        "single": single,
        "published": published,
        "days": list(dict.fromkeys((*days[:1], *days[-1:]))),
        "others": others,
        "reasons": _grouped_reasons(original, rows, single=single),
        "missing": missing_parts(replicas),
        "left_out": list(left_out),
    }
    return Findings(
        values={},
        tables={table.id: table for table in tables if table.rows},
        figures={id: Figure(id, drawing) for id, drawing in figures.items()},
        claims=claims,
        facts=facts,
        key_figure=next(reversed(figures), ""),  # the map is too wide for a list
    )


def _report_of_one(original: Original, one: Replica, rows: Judgements) -> _Contents:
    """The claims, figure and tables of one machine beside the paper's."""
    paper = original.machines.get(one.about)
    runs = [Run(one.stored, f"This machine: {one.label}")]
    if paper and paper.stored.file != one.stored.file:
        runs.append(Run(paper.stored, f"Paper: {paper.label}"))
    numbers, formulas = _numbers(one, original.findings)
    figures, facts = _beside(original, one, rows)
    cases = []
    for (judgement,) in rows.values():
        difference = _other_cases(judgement.paper.formulas, judgement.claim.formulas)
        if judgement.letter != "N" and difference:
            cases.append({"claim": judgement.claim.title, "text": difference})
    machine = setup(runs)
    conditions = [name for name, own, *other in machine.rows if other not in ([], [own])]
    facts |= {
        "where": one.label,
        "completeness": completeness(one),
        "conditions": conditions,
        "virtual": all(_is_virtual(run.stored) for run in runs),
        "formulas": formulas,
        "record": f"data/{one.stored.file}",
        "commands": _commands(one),
        "cases": cases,
        "parts": {id: _in_words(id.removeprefix("tbl-")) for id in one.findings.tables},
    }
    tables = [_claims_of_one(one, rows), machine, numbers, *one.findings.tables.values()]
    return [*tables, _records([one])], figures, one.claims, facts


def _report_of_many(original: Original, replicas: Sequence[Replica], rows: Judgements) -> _Contents:
    """The claims of many machines, or of none."""
    compared = original.compared
    measured = in_order(measure(replica.stored, replica.label, compared) for replica in replicas)
    figures, facts = _figures(compared, measured, replicas, rows)
    facts["where"] = f"{len(replicas)} machines" if replicas else "no machine"
    claims = {id: _verdict_of_all(judgements) for id, judgements in rows.items()}
    machines = table_of("tbl-machines", [machine.cells for machine in measured], wide=True)
    tables = [_claims_of_many(replicas, rows), machines, _records(replicas)]
    return tables, figures, claims, facts


def _grouped_reasons(original: Original, rows: Judgements, *, single: bool) -> list[dict[str, Any]]:
    """Claims with the same reasons, and the commands that measured them for the paper if any."""
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for judgements in rows.values():
        texts, first = _reasons(judgements, single=single), judgements[0]
        commands: dict[str, None] = {}
        if single and first.letter == "N":
            files = (file for file in first.paper.files if file in original.commands)
            commands = dict.fromkeys(original.commands[file] for file in files)
        if texts:
            groups.setdefault((tuple(texts), tuple(commands)), []).append(first.claim.title)
    reasons = []
    for (shared, recipe), titles in groups.items():
        # Several claims are listed below the reason that they share.
        lists = (shared, titles) if titles[1:] and not shared[1:] else (titles, shared)
        reasons.append({"heads": lists[0], "texts": lists[1], "commands": recipe})
    return reasons


def _reasons(judgements: Sequence[Judgement], *, single: bool) -> list[str]:
    """Say why a claim does not agree on every machine, contrary machines first."""
    labels: dict[tuple[str, str], list[str]] = {}
    for judgement in sorted(judgements, key=lambda item: _ORDER.index(item.letter)):
        if judgement.letter in "CUN":
            reasons = judgement.reasons
            for reason in reasons if single else ["; ".join(first_few(reasons))]:
                key = judgement.agreement.capitalize(), reason
                labels.setdefault(key, []).append(judgement.replica.label)
    texts = []
    for (agreement, reason), where in labels.items():
        on = "" if single else f" on {'; '.join(first_few(where))}"
        texts.append(f"{agreement}{on}: {reason}")
    return first_few(texts, _LISTED)


def _is_virtual(stored: Stored) -> bool:
    host = stored.record.environment.host
    return host is not None and host.virtualisation not in (None, "none")


def _other_cases(paper: Sequence[str], own: Sequence[str]) -> str:
    """Describe by formulas how the compared cases differ from the paper's; empty if they agree."""
    texts = []
    if len(paper) != len(own):
        texts.append(f"{len(own)} comparisons here, {len(paper)} in the paper")
    parts = []
    for formulas in (own, paper):
        parts.append([part for formula in formulas for part in formula_parts(formula)])
    return "; ".join([*texts, *_in_one_only(*parts)])


def _in_one_only(own: Sequence[str], paper: Sequence[str]) -> list[str]:
    """Name the formula parts that only this machine has, and those that only the paper has."""
    texts = []
    for where, parts, others in (("here", own, paper), ("in the paper", paper, own)):
        if different := [*dict.fromkeys(part for part in parts if part not in others)]:
            texts.append(f"{', '.join(first_few(different))} only {where}")
    return texts


# ------------------------------------------------------------------------------- tables of claims


def _verdict_of_all(judgements: Sequence[Judgement]) -> Claim:
    """A claim with the verdict of all machines that decide it, undecided if they differ."""
    counts = Counter(judgement.claim.verdict for judgement in judgements)
    verdicts: list[Verdict] = [verdict for verdict in counts if verdict in DECIDED]
    verdicts = verdicts or list(counts)
    words = ", ".join(f"{verdict} on {n}" for verdict, n in sorted(counts.items()))
    verdict = verdicts[0] if len(verdicts) == 1 else "undecided"
    return replace(judgements[0].claim, verdict=verdict, because=words, compared=())


def _claims_of_one(replica: Replica, rows: Judgements) -> Table:
    """Each claim with what it expects, what the paper measured, and what this machine measured."""
    cells = []
    for (judgement,) in rows.values():
        claim, paper, agreement = judgement.claim, judgement.paper, judgement.agreement
        expected = claim.expected or paper.expected
        if judgement.letter != "N" and claim.known < paper.known:
            agreement += f", on {claim.known} of {paper.known} comparisons"
        cells.append({
            "Claim": f"{claim.title} (expected: {expected})" if expected else claim.title,
            "Agreement": agreement,
            "This machine": f"{claim.verdict}: {claim.measured}".removeprefix("not measured: "),
            "Paper": f"{paper.verdict}: {paper.measured}".removeprefix("not measured: "),
        })  # fmt: skip
    return replace(table_of("tbl-claims", cells, wide=True), sources=replica.stored.files)


def _claims_of_many(replicas: Iterable[Replica], rows: Judgements) -> Table:
    """Each claim with the number of machines by agreement, the range of its effect and the next."""
    table: list[dict[str, Content]] = []
    none = Missing("several comparisons, or none was measured")
    for n, judgements in enumerate(rows.values(), start=1):
        claim, counts = judgements[0].claim, Counter(item.letter for item in judgements)
        measured = [item for item in judgements if isinstance(item.claim.effect, float)]
        effects = [item.claim.effect for item in measured if isinstance(item.claim.effect, float)]
        cells: dict[str, Content] = {"No.": str(n), "Claim": claim.title}
        cells["Paper"] = judgements[0].paper.verdict
        cells |= {letter: counts[letter] for letter in "ACUN"}
        cells["Range"] = _range(effects, claim.unit) if effects else none
        cells["Next machine"] = _prediction(measured, effects, claim.unit) if effects else none
        table.append(cells)
    files = tuple(file for replica in replicas for file in replica.stored.files)
    return replace(table_of("tbl-claims", table, wide=True), sources=files)


def _range(effects: Sequence[float], unit: str) -> str:
    low, high = (quantity_text(float(f"{end:.3g}"), unit) for end in (min(effects), max(effects)))
    return low if low == high else f"{low} to {high}"


def _prediction(measured: Iterable[Judgement], effects: Sequence[float], unit: str) -> Content:
    """The interval in which the effect on the next machine is expected, or why there is none."""
    if len(effects) < FEWEST_MACHINES:
        return Missing(f"fewer than {FEWEST_MACHINES} machines measured it")
    if why := _unlike(judgement.replica for judgement in measured):
        return Missing(why)
    interval = next_effect(effects)
    if interval is None:
        return Missing("an effect is not positive, so that it has no logarithm")
    low, high = (plain(end, 3) for end in interval)
    return f"[{low}, {high}]{'' if unit == '1' else f' {unit}'}"


def _unlike(replicas: Iterable[Replica]) -> str:
    """Say why machines are no sample of one population; empty if they may be."""
    libraries, allocators = set(), set()
    for replica in replicas:
        environment = replica.stored.record.environment
        libraries.add(environment.host.c_library if environment.host else None)
        named = (n for n in environment.variables if "MALLOC" in n or n == "LD_PRELOAD")
        allocators.add(tuple((name, environment.variables[name]) for name in sorted(named)))
    if None in libraries:
        return "the C library of a machine is not recorded"
    if len(libraries) > 1:
        return "the machines differ in their C library"
    return "the machines differ in their allocator" if len(allocators) > 1 else ""


# ---------------------------------------------------------------------------------------- figures


def _beside(
    original: Original, replica: Replica, rows: Judgements
) -> tuple[dict[str, Drawing], dict[str, Any]]:
    """The study's key figure, row by row: this machine at the left, the paper's beside it.

    Also returns the finding, and the names of both machines, the paper's only if it is drawn.
    """
    own, paper = replica.findings.shown_figure, original.machines.get(replica.about)
    if own is None:
        return {}, {}
    label, label_of_paper = replica.label, paper.label if paper else ""
    if label == label_of_paper:
        label, label_of_paper = f"{label} (this record)", f"{label} (paper)"
    panels, count = _titled(own, label), len(own.drawing.panels)
    other = paper.findings.figures.get(own.id) if paper else None
    if other and len(other.drawing.panels) == count:
        right = _titled(other, label_of_paper)
        panels = [panel for pair in zip(panels, right, strict=True) for panel in pair]
    else:
        label_of_paper = ""
    drawing = replace(
        own.drawing,
        panels=tuple(panels),
        rows=count,
        wide=True,
        height=count * own.drawing.height / own.drawing.rows,
        same_axes=all(isinstance(panel, Scaling | Roofline) for panel in panels),
    )
    agreeing = sum(judgements[0].letter == "A" for judgements in rows.values())
    finding = f"{agreeing} of {len(rows)} claims have the paper's verdict on {label}"
    compared = original.compared
    effects = [_effect(measure(item.stored, "", compared)) for item in (replica, paper) if item]
    if compared.heading and all(effects) and effects[1:]:
        finding = f"{compared.heading}: {effects[0]} on {label}, {effects[1]} in the paper"
    facts = {"paper": label_of_paper, "here": label, "finding": finding}
    return {"fig-beside": drawing}, {"beside": facts}


def _in_words(id: str) -> str:
    return id.replace("-", " ").capitalize()


def _titled(figure: Figure, title: str) -> list[Any]:
    return [replace(panel, title=title) for panel in figure.drawing.panels]  # type: ignore[type-var]


def _effect(machine: MeasuredMachine) -> str:
    """The compared effect on a machine with its interval; empty if it was not measured."""
    effect = number(machine.measured)
    return "" if isinstance(effect, Missing) else with_interval(effect, str(machine.measured.unit))


def _figures(
    compared: MachineComparison[Any],
    measured: Sequence[MeasuredMachine],
    replicas: Sequence[Replica],
    rows: Judgements,
) -> tuple[dict[str, Drawing], dict[str, Any]]:
    """The map of claims and machines, and the compared effect in order, with their findings."""
    if not rows:
        return {}, {}
    letters = [letters_of(judgements, replicas) for judgements in rows.values()]
    claims = tuple(str(number) for number in range(1, len(rows) + 1))
    names = tuple(replica.label for replica in replicas)
    grid = Grid(names, claims, tuple(zip(*letters, strict=True)), "".join(AGREEMENTS), "Claim")
    place = f"{__name__}._figures"
    figures = {"fig-map": Drawing((grid,), wide=True, height=grid.height, place=place)}
    outcomes = Counter(outcome(judgements) for judgements in rows.values())
    facts = {
        "finding": f"{outcomes['A']} of {len(rows)} claims agree on every machine that decides "
        f"them, {outcomes['C']} are contrary on some"
    }
    known = [machine for machine in measured if _effect(machine)]
    if compared.heading and len(known) > 1:
        figures["fig-effects"] = replace(drawing_of(known, (), compared), wide=True)
        most, least = (f"{_effect(machine)} on {machine.name}" for machine in (known[0], known[-1]))
        facts["effects"] = f"{compared.heading} on each machine, from {least} to {most}"
    return figures, facts


# ----------------------------------------------------------------------------------- other tables


def _numbers(one: Replica, paper: Findings) -> tuple[Table, list[str]]:
    """The numbers of this machine beside the paper's, first those that differ most.

    Also returns the formulas of those whose names do not describe them.
    """
    rows: list[tuple[float, dict[str, str]]] = []
    formulas = []
    for id, value in one.findings.values.items():
        original = paper.values.get(id)
        if not (original and value.sources) or value.formula == "measurements":
            continue
        described = len(value.formula) <= _DESCRIPTION and not re.search("[/·−,=]", value.formula)
        known = value.formula in value.name.lower() or not described
        if not described:
            formula = textwrap.shorten(value.formula, _FORMULA, placeholder=" …")
            formulas.append(f"{value.name}: {formula}")
        difference, ratio = _difference(value, original)
        row = {"Number": value.name if known else f"{value.name} ({value.formula})"}
        row |= {"This machine": value.interval_plain, "Paper": original.interval_plain}
        rows.append((difference, row | {"Ratio": ratio}))
    rows.sort(key=itemgetter(0), reverse=True)
    return table_of("tbl-numbers", [row for _, row in rows], wide=True), formulas


def _difference(value: Value, paper: Value) -> tuple[float, str]:
    """The relative difference and the ratio of two numbers whose intervals do not overlap.

    The difference of others is 0, and of those that are not measured below 0.
    """
    if isinstance(value.number, Missing) or isinstance(paper.number, Missing):
        return -1.0, ""
    low, own, high = interval_ends(value.number, 1)
    paper_low, other, paper_high = interval_ends(paper.number, 1)
    if (low <= paper_high and high >= paper_low) or value.interval_plain == paper.interval_plain:
        return 0.0, ""
    if _other_cases([paper.formula], [value.formula]):
        return 0.0, "other cases"
    difference = abs(own - other) / max(abs(own), abs(other))
    return difference, plain(own / other, 3) if other else ""


def _records(replicas: Iterable[Replica]) -> Table:
    """The records, what was disturbed and not measured, and the code that measured them."""
    rows = []
    for replica in replicas:
        for shard in replica.shards:
            record, disturbed = shard.record, gates.disturbed([shard.record])
            measured = sum(case.status == "ok" for case in record.cases)
            changed = "" if record.code.tree_clean else ", changed"
            row: dict[str, Content] = {
                "Record": shard.file.rpartition("/")[2],
                "Plan": record.protocol.plan,
                "Minutes": str(minutes_of(record)),
                "Cases": f"{measured} of {len(record.cases)}",
                "Disturbed": "{} of {}".format(*disturbed) if disturbed else "not monitored",
                "Commit": (record.code.commit or "unknown")[:12] + changed,
                "Measuring code": record.code.measuring_code[:12],
            }
            rows.append(row)
    return table_of("tbl-records", rows, wide=True)


def _commands(one: Replica) -> list[str]:
    """The commands that made the records, for whoever repeats them, with commits and minutes."""
    commands: dict[str, None] = {}
    for run in one.stored.runs:
        record, command = run.record, shlex.join(run.record.command)
        if record.code.commit:
            commands |= {f"git checkout {record.code.commit[:12]}": None, _INSTALL: None}
        if "--threads" not in command:
            command += f" --threads {record.environment.threads}"
        commands[f"{command}  # {minutes_of(record)} minutes"] = None
    return list(commands)
