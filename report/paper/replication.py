"""The replication report: which claims of a paper hold on other machines, with these data alone.

A record is evaluated by the parts of the study that are about its kind of machine.  A report counts
the claims that read its record; what the paper says of its source or of pairs of runs is no claim
about a machine, and is counted in one line.
"""

from __future__ import annotations

import math
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

from figures.panels import Drawing, Grid, Roofline, Scaling
from report.core.missing import Missing
from report.core.records.choice import plan_text
from report.core.records.record import Record
from report.core.records.store import Stored
from report.core.statistics.estimates import Estimate
from report.core.statistics.prediction import FEWEST_MACHINES, next_effect
from report.core.text.format import plain, quantity_text
from report.evidence.runs import Run
from report.instruments import gates
from report.paper.claims import with_interval
from report.paper.comparisons import DetailedClaim, first_few, formula_parts
from report.paper.findings import Claim, Figure, Findings
from report.paper.machines import (
    MachineComparison,
    dots,
    machines,
    measure,
    properties,
    rank,
    setup,
)
from report.paper.tables import Content, Table, table_of
from report.paper.values import Value
from report.quantity.evaluation import number

#: Letters of the map: what the verdict on a machine is, compared with the paper's.
AGREEMENTS: Final[Mapping[str, str]] = {
    "A": "agrees with the paper",
    "C": "contrary to the paper",
    "U": "undecided",
    "N": "not measured",
    "D": "decided here alone",
}
#: Most machines that are named beside their dots; more are numbered as in their table.
_NAMED: Final = 12
#: Machines that are listed one by one below a claim.
_LISTED: Final = 8
#: Characters of a formula beside a name, and in the list of formulas.
_DESCRIPTION: Final = 60
_FORMULA: Final = 200
#: Numbers in the table of those that differ most.
_DIFFERING: Final = 10
_DECIDED: Final = ("supported", "refuted")
#: Reasons that speak of a data directory → what is true of one record.
_REASONS: Final[Mapping[str, str]] = {
    "no run of the experiment is in the data directory": "the record holds no such cases",
    "nothing to compare was recorded": "the record holds no such cases",
}
#: Outcomes of claims that the paper decides, but for those with its verdict, and of others.
_DIFFERENT: Final = ("contrary", "undecided", "not measured")
_NO_VERDICT: Final = ("decided here alone", "without a verdict here and in the paper")
#: Fields that are missing in most records and that no result rests on.
_NO_PARTS: Final = ("cpu.governor", "gpu", "name")
#: Beginnings of a record's missing fields → words.
_PARTS: Final = {"policies.": "memory policy ", "ceilings.": "ceilings "}
_ENDED: Final = "the run was ended before this was measured"
_INSTALL: Final = "python -m pip install -e '.[experiments]' -c constraints.txt"
#: Properties of a machine that change numbers.
_CONDITIONS: Final = (
    "Device",
    "Identity",
    "Caches",
    "C library",
    "Framework",
    "Driver, CUDA, cuDNN",
    "Arithmetic",
)


@dataclass(frozen=True)
class Replica:
    """One machine of a report: its record, its name, and the findings of that record alone."""

    stored: Stored
    label: str
    findings: Findings

    @property
    def about(self) -> str:
        """The kind of machine, as claims name it."""
        return "a GPU" if self.stored.record.environment.gpu else "a CPU"

    @property
    def day(self) -> str:
        """The day of the measurement."""
        return self.stored.record.started[:10]

    @property
    def files(self) -> list[str]:
        """The record and all that are pooled with it."""
        return [file for run in self.stored.runs for file in run.files]

    @property
    def claims(self) -> dict[str, DetailedClaim]:
        """The claims that read this record, and those that it should have had data for."""
        own = set(self.files)
        return {
            id: claim
            for id, claim in self.findings.claims.items()
            if isinstance(claim, DetailedClaim)
            and (claim.verdict == "not measured" or own.intersection(claim.files))
        }


@dataclass(frozen=True)
class Original:
    """The paper: its findings, its own machine of each kind, and the command of each record."""

    findings: Findings
    machines: Mapping[str, Replica]
    compared: MachineComparison[Any]
    commands: Mapping[str, str]


@dataclass(frozen=True)
class ClaimResult:
    """A claim on one machine; ``letter`` is one of ``AGREEMENTS``."""

    replica: Replica
    claim: DetailedClaim
    letter: str

    @property
    def agreement(self) -> str:
        """The agreement in a word or two."""
        words = AGREEMENTS[self.letter].removesuffix(" to the paper")
        return "same" if self.letter == "A" else words

    @property
    def effect(self) -> float | None:
        """The number of a claim of one comparison; None if it was not measured."""
        effect = self.claim.effect
        if isinstance(effect, Missing):
            return None
        return effect.value if isinstance(effect, Estimate) else effect

    @property
    def reasons(self) -> list[str]:
        """Why the claim is not supported, without the name of the machine."""
        texts = self.claim.reasons
        for name in (self.replica.label, self.replica.stored.record.environment.label):
            texts = tuple(text.replace(f" on {name}", "") for text in texts)
        return list(dict.fromkeys(_REASONS.get(text, text).rstrip(".") for text in texts))


def compare(replicas: Iterable[Replica], paper: Findings) -> dict[str, list[ClaimResult]]:
    """Compare each claim with the paper's, on each machine of the kind that it is about."""
    rows: dict[str, list[ClaimResult]] = {}
    for replica in replicas:
        for id, claim in replica.claims.items():
            result = ClaimResult(replica, claim, agreement(paper.claims.get(id), claim))
            rows.setdefault(id, []).append(result)
    return rows


def agreement(paper: Claim | None, claim: Claim) -> str:
    """The letter of ``AGREEMENTS`` for a claim on one machine."""
    if claim.verdict == "undecided":
        return "U"
    if claim.verdict not in _DECIDED:
        return "N"
    if paper is None or paper.verdict not in _DECIDED:
        return "D"
    return "A" if paper.verdict == claim.verdict else "C"


def letters_of(results: Iterable[ClaimResult], replicas: Iterable[Replica]) -> list[str]:
    """A letter for each machine; empty where the claim is about another kind."""
    letters = {result.replica.stored.file: result.letter for result in results}
    return [letters.get(replica.stored.file, "") for replica in replicas]


def contradicted(results: Iterable[ClaimResult]) -> bool:
    """Whether a machine contradicts the paper."""
    return any(result.letter == "C" for result in results)


def confirmed(results: Sequence[ClaimResult]) -> bool:
    """Whether every machine that decides the claim agrees with the paper, and one does."""
    return not contradicted(results) and any(result.letter == "A" for result in results)


# ---------------------------------------------------------------------------------------- summary


def summary(replicas: Sequence[Replica], paper: Findings) -> str:
    """How many claims have the paper's verdict, by kind of machine, and which others do not."""
    lines = []
    for about in dict.fromkeys(replica.about for replica in replicas):
        group = [replica for replica in replicas if replica.about == about]
        titles: dict[str, list[str]] = {}
        for id, results in compare(group, paper).items():
            outcome = _outcome(results, paper.claims.get(id))
            titles.setdefault(outcome, []).append(results[0].claim.title)
        if not titles:
            none = f"0 of 0 claims about {about}: the paper makes none that one run can test"
            lines.append(none)
            continue
        same = len(titles.get("same", ()))
        decided = same + sum(len(titles.get(outcome, ())) for outcome in _DIFFERENT)
        where = group[0].label
        if len(group) > 1:
            where = f"all of {len(group)} machines that decide them"
        line = (
            f"{same} of {decided} claims about {about} that the paper decides were measured and "
            f"have its verdict on {where}"
        )
        for outcome in (*_DIFFERENT, *_NO_VERDICT):
            listed = titles.get(outcome, [])
            if listed:
                line += f"; {len(listed)} {outcome} ({'; '.join(first_few(listed))})"
            elif outcome == "contrary":
                line += "; 0 contrary"
        lines.append(line)
    return "; ".join(lines) or "0 of 0 claims: no record of this study"


def _outcome(results: Sequence[ClaimResult], paper: Claim | None) -> str:
    """The outcome of a claim on all machines, compared with the paper's verdict."""
    letters = {result.letter for result in results}
    if paper is None or paper.verdict not in _DECIDED:
        return _NO_VERDICT["D" not in letters]
    if confirmed(results):
        return "same"
    return _DIFFERENT["CUN".index(next(letter for letter in "CUN" if letter in letters))]


def completeness(replica: Replica) -> str:
    """How much of its plan a run measured, as far as its record tells."""
    record = replica.stored.record
    ended = _ENDED in record.environment.missing.values()
    measured = sum(case.status == "ok" for case in record.cases)
    text = (
        f"The {plan_text(replica.stored)} was {'ended' if ended else 'finished'} after "
        f"{_minutes(replica)} minutes, with {measured} of {len(record.cases)} cases"
    )
    timed = gates.disturbed(run.record for run in replica.stored.runs)
    if timed:
        text += f" and {timed[1]:,} timed measurements"
    missing = record.environment.missing.items()
    lacking = [_part_name(name) for name, why in missing if why == _ENDED]
    return f"{text}; parts were not reached: {', '.join(first_few(lacking))}" if lacking else text


def _minutes(replica: Replica) -> int:
    """The minutes of all runs of a machine."""
    shards = (shard for run in replica.stored.runs for shard in run.shards)
    return sum(_minutes_of(shard.record) for shard in shards)


def _minutes_of(record: Record) -> int:
    began, ended = map(datetime.fromisoformat, (record.started, record.finished))
    return math.ceil((ended - began).total_seconds() / 60)


def measured_on(replicas: Iterable[Replica]) -> str:
    """The days of the measurements."""
    days = sorted(replica.day for replica in replicas)
    if days[0] == days[-1]:
        return f"measured on {days[0]}"
    return f"measured from {days[0]} to {days[-1]}"


# ----------------------------------------------------------------------------------------- report


def report(original: Original, replicas: Sequence[Replica], left_out: Iterable[str]) -> Findings:
    """All that the report of these machines prints."""
    paper, one = original.findings, replicas[0] if len(replicas) == 1 else None
    rows = compare(replicas, paper)
    own_facts: dict[str, Any]
    if one:
        claims: dict[str, Claim] = dict(one.claims)
        figures, own_facts = _beside(original, one, rows)
        own_facts |= _compared_with_paper(original, one, rows)
        tables = [_claims_of_one(one, rows, paper), _setup(original, one)]
        tables += [_differing(one, paper), _numbers(one, paper)]
        tables += [*one.findings.tables.values(), _records(replicas)]
    else:
        claims = {id: _verdict_of_all(results) for id, results in rows.items()}
        figures, own_facts = _figures(original, replicas, rows)
        tables = [_claims_of_many(replicas, rows, paper), _machines(replicas), _records(replicas)]
    several = f"{len(replicas)} machines" if replicas else "no machine"
    return Findings(
        values={},
        tables={table.id: table for table in tables if table.rows},
        figures={figure.id: figure for figure in figures},
        claims=claims,
        facts={
            "summary": summary(replicas, paper),
            "completeness": completeness(one) if one else "",
            "where": one.label if one else several,
            "single": one is not None,
            "others": _not_counted(paper, claims),
            "reasons": _grouped_reasons(original, rows, len(replicas)),
            "letters": [f"{letter} {words}" for letter, words in AGREEMENTS.items()],
            "left_out": list(left_out),
            "measured_on": measured_on(replicas).capitalize() if replicas else "",
            "commands": _commands(replicas),
            "missing": _missing(replicas),
        }
        | own_facts,
        key_figure=figures[0].id if figures else "",
    )


def _grouped_reasons(
    original: Original, rows: Mapping[str, Sequence[ClaimResult]], machines: int
) -> list[dict[str, Any]]:
    """Claims with the same reasons, and the commands that measured them for the paper if any."""
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for id, results in rows.items():
        texts = tuple(_reasons(results, machines))
        paper = original.findings.claims[id]
        commands: dict[str, None] = {}
        if machines == 1 and results[0].letter == "N" and isinstance(paper, DetailedClaim):
            files = (file for file in paper.files if file in original.commands)
            commands = dict.fromkeys(original.commands[file] for file in files)
        if texts:
            groups.setdefault((texts, tuple(commands)), []).append(results[0].claim.title)
    return [
        {"claims": titles, "texts": texts, "commands": commands}
        for (texts, commands), titles in groups.items()
    ]


def _not_counted(paper: Findings, counted: Mapping[str, Claim]) -> list[dict[str, Any]]:
    """The claims of the paper that the report does not count, by what they are about."""
    titles: dict[str, list[str]] = {}
    for id, claim in paper.claims.items():
        if id not in counted:
            titles.setdefault(claim.about, []).append(claim.title)
    return [{"about": about, "titles": group} for about, group in titles.items()]


def _compared_with_paper(
    original: Original, replica: Replica, rows: Mapping[str, Sequence[ClaimResult]]
) -> dict[str, Any]:
    """How the conditions and the cases of one record differ from the paper's."""
    paper, cases = original.machines.get(replica.about), []
    for id, (result,) in rows.items():
        original_claim = original.findings.claims[id]
        assert isinstance(original_claim, DetailedClaim)
        if result.letter != "N":
            difference = other_cases(original_claim.formulas, result.claim.formulas)
            if difference:
                cases.append({"claim": result.claim.title, "text": difference})
    return {
        "conditions": _conditions(replica, paper) if paper else [],
        "same_system": _same_system(replica, paper) if paper else "",
        "other_numbers": _numbers_of_other_cases(replica, original.findings),
        "formulas": _formulas(replica, original.findings),
        "record": f"data/{replica.stored.file}",
        "cases": cases,
        "parts": [
            {"id": id, "name": _in_words(id.removeprefix("tbl-"))} for id in replica.findings.tables
        ],
    }


def _plain(cell: Any) -> str:
    return cell.reason if isinstance(cell, Missing) else str(cell)


def _conditions(replica: Replica, paper: Replica) -> list[str]:
    """The conditions of a machine that differ from those of the paper's machine."""
    own, others = (_conditions_of(item) for item in (replica, paper))
    texts = []
    for name, text in own.items():
        if text != others[name]:
            texts.append(f"{name}: {text} here; {others[name]} in the paper")
    policies = ([*item.stored.record.protocol.processes] for item in (replica, paper))
    texts += [f"Memory policies: {text}" for text in _in_one_only(*policies)]
    if own["Threads"] != others["Threads"] and own["Device"] != others["Device"]:
        texts.append("Threads and machine changed together, so that their effects are not separate")
    return texts


def _conditions_of(replica: Replica) -> dict[str, str]:
    """The conditions of a run by name."""
    record = replica.stored.record
    environment, facts = record.environment, properties(record.environment)
    batches = (case.factors.get("batch") for case in record.cases if case.status == "ok")
    largest = max((batch for batch in batches if isinstance(batch, int)), default=0)
    timed = gates.disturbed(run.record for run in replica.stored.runs)
    return {name: _plain(facts[name]) for name in _CONDITIONS} | {
        "Threads": str(environment.threads),
        "Vector instructions of PyTorch": environment.torch.cpu_capability,
        "Timed measurements": f"{timed[1]:,}" if timed else "not recorded",
        "Plan": f"{plan_text(replica.stored)}, {_minutes(replica)} minutes",
        "Largest batch": f"{largest:,}" if largest else "none",
    }


def _same_system(replica: Replica, paper: Replica) -> str:
    """The system that two virtual machines share; empty if they differ."""
    own, other = (item.stored.record.environment for item in (replica, paper))
    for host in (own.host, other.host):
        if host is None or host.virtualisation in (None, "none"):
            return ""
    return own.operating_system if own.operating_system == other.operating_system else ""


def other_cases(paper: Sequence[str], own: Sequence[str]) -> str:
    """How the compared cases differ from the paper's, by their formulas; empty if they do not."""
    texts = []
    if len(paper) != len(own):
        texts.append(f"{len(own)} comparisons here, {len(paper)} in the paper")
    return "; ".join([*texts, *_in_one_only(_all_parts(own), _all_parts(paper))])


def _in_one_only(own: Sequence[str], paper: Sequence[str]) -> list[str]:
    """Name what only this machine has, and what only the paper has."""
    texts = []
    for where, parts, others in (("here", own, paper), ("in the paper", paper, own)):
        if different := [part for part in parts if part not in others]:
            texts.append(f"{', '.join(first_few(different))} only {where}")
    return texts


def _all_parts(formulas: Iterable[str]) -> list[str]:
    parts: dict[str, None] = {}
    for formula in formulas:
        parts |= dict.fromkeys(formula_parts(formula))
    return list(parts)


def _verdict_of_all(results: Sequence[ClaimResult]) -> Claim:
    """A claim with the verdict of all machines that decide it, undecided if they differ."""
    counts = Counter(result.claim.verdict for result in results)
    decided = [verdict for verdict in counts if verdict in _DECIDED]
    words = ", ".join(f"{verdict} on {n}" for verdict, n in sorted(counts.items()))
    verdict = decided[0] if len(decided) == 1 else "undecided"
    return replace(results[0].claim, verdict=verdict, because=words, compared=())


def _claims_of_one(
    replica: Replica, rows: Mapping[str, Sequence[ClaimResult]], paper: Findings
) -> Table:
    """Each claim with what it expects, what the paper measured, and what this machine measured."""
    cells = []
    for id, (result,) in rows.items():
        original = paper.claims[id]
        assert isinstance(original, DetailedClaim)
        expected = result.claim.expected or original.expected
        range = f" (expected: {expected})" if expected else ""
        cells.append({
            "Claim": f"{result.claim.title}{range}",
            "Agreement": _on_comparisons(result, original),
            "This machine": _with_verdict(result.claim),
            "Paper": _with_verdict(original),
        })  # fmt: skip
    return replace(table_of("tbl-claims", cells, wide=True), sources=replica.stored.files)


def _on_comparisons(result: ClaimResult, paper: DetailedClaim) -> str:
    """The agreement, and on how many comparisons it rests if the paper measured more."""
    own, others = result.claim.known, paper.known
    if result.letter == "N" or own >= others:
        return result.agreement
    return f"{result.agreement}, on {own} of {others} comparisons"


def _with_verdict(claim: DetailedClaim) -> str:
    if claim.measured == "not measured":
        return claim.measured
    return f"{claim.verdict}: {claim.measured}"


def _claims_of_many(
    replicas: Iterable[Replica], rows: Mapping[str, Sequence[ClaimResult]], paper: Findings
) -> Table:
    """Each claim with the number of machines by agreement, the range of its effect and the next."""
    table: list[dict[str, Content]] = []
    for n, (id, results) in enumerate(rows.items(), start=1):
        claim, counts = results[0].claim, Counter(result.letter for result in results)
        measured = [result for result in results if result.effect is not None]
        none = Missing("several comparisons, or none was measured")
        cells: dict[str, Content] = {"No.": str(n), "Claim": claim.title}
        cells["Paper"] = paper.claims[id].verdict
        cells |= {letter: counts[letter] for letter in "ACUN"}
        cells["Range"] = _range(measured, claim.unit) if measured else none
        cells["Next machine"] = _prediction(measured, claim.unit) if measured else none
        table.append(cells)
    files = tuple(file for replica in replicas for file in replica.stored.files)
    return replace(table_of("tbl-claims", table, wide=True), sources=files)


def _effects(results: Iterable[ClaimResult]) -> list[float]:
    return [result.effect for result in results if result.effect is not None]


def _range(measured: Iterable[ClaimResult], unit: str) -> str:
    effects = _effects(measured)
    ends = [quantity_text(float(f"{end:.3g}"), unit) for end in (min(effects), max(effects))]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _prediction(measured: Sequence[ClaimResult], unit: str) -> Content:
    """The interval in which the effect on the next machine is expected, or why there is none."""
    if len(measured) < FEWEST_MACHINES:
        return Missing(f"fewer than {FEWEST_MACHINES} machines measured it")
    if why := _unlike(measured):
        return Missing(why)
    interval = next_effect(_effects(measured))
    if interval is None:
        return Missing("an effect is not positive, so that it has no logarithm")
    low, high = (plain(end, 3) for end in interval)
    return f"[{low}, {high}]{'' if unit == '1' else f' {unit}'}"


def _unlike(measured: Iterable[ClaimResult]) -> str:
    """Why machines are no sample of one population; empty if they may be."""
    libraries, allocators = set(), set()
    for result in measured:
        environment = result.replica.stored.record.environment
        libraries.add(environment.host.c_library if environment.host else None)
        named = (n for n in environment.variables if "MALLOC" in n or n == "LD_PRELOAD")
        allocators.add(tuple((name, environment.variables[name]) for name in sorted(named)))
    if None in libraries:
        return "the C library of a machine is not recorded"
    if len(libraries) > 1:
        return "the machines differ in their C library"
    return "the machines differ in their allocator" if len(allocators) > 1 else ""


def _reasons(results: Sequence[ClaimResult], machines: int) -> list[str]:
    """Why a claim does not agree on every machine, contrary machines first."""
    texts: list[str] = []
    for letter in "CUDN":
        group = [result for result in results if result.letter == letter]
        if letter == "N" and group and machines > 1:
            reasons = first_few([*dict.fromkeys(text for r in group for text in r.reasons)])
            texts.append(
                f"{len(group)} of {len(results)} machines: not measured: {'; '.join(reasons)}"
            )
            continue
        lines = []
        for result in group:
            if machines > 1:
                reasons = first_few(result.reasons)
                lines.append(f"{result.replica.label}: {result.agreement}: {'; '.join(reasons)}")
            else:
                lines += [f"{result.agreement}: {reason}" for reason in result.reasons]
        texts += first_few(lines, _LISTED)
    return texts


# ---------------------------------------------------------------------------------------- figures


def _beside(
    original: Original, replica: Replica, rows: Mapping[str, Sequence[ClaimResult]]
) -> tuple[list[Figure], dict[str, Any]]:
    """The study's key figure, row by row: the paper's machine at the left, this one beside it.

    Also returns the name of the figure, its finding, and the paper's machine if it is drawn.
    """
    own, paper = replica.findings.shown_figure, original.machines.get(replica.about)
    if own is None:
        return [], {}
    label, label_of_paper = replica.label, paper.label if paper else ""
    if label == label_of_paper:
        label, label_of_paper = f"{label} (this record)", f"{label} (paper)"
    panels = _titled(own, label)
    other = paper.findings.figures.get(own.id) if paper else None
    if other and len(other.drawing.panels) == len(panels):
        left = _titled(other, label_of_paper)
        panels = [panel for pair in zip(left, panels, strict=True) for panel in pair]
    else:
        other = None
    count = len(own.drawing.panels)
    drawing = replace(
        own.drawing,
        panels=tuple(panels),
        rows=count,
        wide=True,
        height=count * own.drawing.height / own.drawing.rows,
        same_axes=all(isinstance(panel, Scaling | Roofline) for panel in panels),
    )
    agreeing = sum(results[0].letter == "A" for results in rows.values())
    finding = f"{agreeing} of {len(rows)} claims have the paper's verdict on {replica.label}"
    compared = [item for item in (replica, paper) if item]
    measures = [measure(item.stored, item.label, original.compared) for item in compared]
    if original.compared.heading and len(rank(measures)) == len(compared) > 1:
        effects = [with_interval(number(m.measured), str(m.measured.unit)) for m in measures]
        finding = f"{original.compared.heading}: {effects[0]} on {label}, {effects[1]} in the paper"
    name = _in_words(own.name)
    facts = {
        "paper": label_of_paper if other else "",
        "here": label,
        "name": name,
        "finding": finding,
    }
    return [Figure("fig-beside", drawing)], {"beside": facts}


def _in_words(id: str) -> str:
    return id.replace("-", " ").capitalize()


def _titled(figure: Figure, title: str) -> list[Any]:
    return [replace(panel, title=title) for panel in figure.drawing.panels]  # type: ignore[type-var]


def _figures(
    original: Original, replicas: Sequence[Replica], rows: Mapping[str, Sequence[ClaimResult]]
) -> tuple[list[Figure], dict[str, Any]]:
    """The map of claims and machines, and the compared effect in order, with their findings."""
    if not rows:
        return [], {}
    names = tuple(f"{replica.label}  {n}" for n, replica in enumerate(replicas, start=1))
    letters = [letters_of(results, replicas) for results in rows.values()]
    claims = tuple(str(number) for number in range(1, len(rows) + 1))
    grid = Grid(names, claims, tuple(zip(*letters, strict=True)), "".join(AGREEMENTS), "Claim")
    place, compared = f"{__name__}._figures", original.compared
    figures = [Figure("fig-map", Drawing((grid,), wide=True, height=grid.height, place=place))]
    facts: dict[str, Any] = {"effect": compared.heading, "numbered": len(replicas) > _NAMED}
    facts["finding"] = (
        f"{sum(map(confirmed, rows.values()))} of {len(rows)} claims agree on every machine that "
        f"decides them, {sum(map(contradicted, rows.values()))} are contrary on some"
    )
    measured = []
    for n, replica in enumerate(replicas, start=1):
        name = str(n) if facts["numbered"] else replica.label
        measured.append(measure(replica.stored, name, compared))
    known = rank(measured)
    if compared.heading and len(known) > 1:
        panel = dots(known, compared, str(known[0].measured.unit))
        drawing = Drawing((panel,), wide=True, height=panel.height, place=place)
        figures.append(Figure("fig-effects", drawing))
        ends = (known[0], known[-1])
        low, high = (
            with_interval(number(m.measured), str(m.measured.unit)) for m in reversed(ends)
        )
        facts["ends"] = f"from {low} on {ends[1].name} to {high} on {ends[0].name}"
    return figures, facts


# ----------------------------------------------------------------------------------------- tables


def _setup(original: Original, replica: Replica) -> Table:
    """Table of this machine and the paper's."""
    runs = [Run(replica.stored, f"This machine: {replica.label}")]
    paper = original.machines.get(replica.about)
    if paper and paper.stored.file != replica.stored.file:
        runs.insert(0, Run(paper.stored, f"Paper: {paper.label}"))
    return setup(runs)


def _pairs(replica: Replica, paper: Findings) -> list[tuple[Value, Value]]:
    """The numbers of this record with those of the paper."""
    pairs = []
    for id, value in replica.findings.values.items():
        original = paper.values.get(id)
        if original and value.sources:
            pairs.append((value, original))
    return pairs


def _numbers(replica: Replica, paper: Findings) -> Table:
    """The numbers of the paper about such a machine, from the paper and from this record."""
    rows = []
    for value, original in _pairs(replica, paper):
        texts = {"This machine": _with_interval(value), "Paper": _with_interval(original)}
        rows.append({"Number": _described(value), **texts})
    return table_of("tbl-numbers", rows, wide=True)


def _numbers_of_other_cases(replica: Replica, paper: Findings) -> list[dict[str, Any]]:
    """The numbers that compare other cases than the paper's, grouped by the difference."""
    names: dict[str, list[str]] = {}
    for value, original in _pairs(replica, paper):
        difference = other_cases([original.formula], [value.formula])
        if difference and not isinstance(value.number, Missing):
            names.setdefault(difference, []).append(value.name)
    return [{"names": group, "text": text} for text, group in names.items()]


def _differing(replica: Replica, paper: Findings) -> Table:
    """The numbers whose intervals do not overlap with the paper's, most different first."""
    rows: list[tuple[float, dict[str, Content]]] = []
    for value, original in _pairs(replica, paper):
        own, other = _ends(value), _ends(original)
        apart = own and other and (own[0] > other[2] or own[2] < other[0])
        texts = [_with_interval(value), _with_interval(original)]
        if value.formula == "measurements" or not apart or texts[0] == texts[1]:
            continue
        assert own and other
        difference = abs(own[1] - other[1]) / max(abs(own[1]), abs(other[1]))
        ratio = plain(own[1] / other[1], 3) if other[1] else Missing("the paper's number is 0")
        row: dict[str, Content] = {"Number": _described(value)}
        row |= {"This machine": texts[0], "Paper": texts[1], "Ratio": ratio}
        rows.append((difference, row))
    rows.sort(key=itemgetter(0), reverse=True)
    return table_of("tbl-differing", [row for _, row in rows[:_DIFFERING]], wide=True)


def _ends(value: Value) -> tuple[float, float, float] | None:
    """The lower end, the number and the upper end; None if it was not measured."""
    result = value.number
    if isinstance(result, Missing):
        return None
    if isinstance(result, Estimate):
        return result.low, result.value, result.high
    return result, result, result


def _in_plain_words(value: Value) -> bool:
    """Tell whether the formula describes the number in a few words."""
    return len(value.formula) <= _DESCRIPTION and not re.search("[/·−,=]", value.formula)


def _described(value: Value) -> str:
    """The name of a number, with its formula if that is a description."""
    known = value.formula in value.name.lower() or not _in_plain_words(value)
    return value.name if known else f"{value.name} ({value.formula})"


def _formulas(replica: Replica, paper: Findings) -> list[str]:
    """How the numbers are computed whose names do not tell."""
    texts = []
    for value, _ in _pairs(replica, paper):
        if not _in_plain_words(value):
            formula = textwrap.shorten(value.formula, _FORMULA, placeholder=" …")
            texts.append(f"{value.name}: {formula}")
    return texts


def _with_interval(value: Value) -> str:
    parts = value.parts
    return f"{parts.number} {parts.bounds}".rstrip() + parts.after + parts.level


def _machines(replicas: Sequence[Replica]) -> Table:
    """Each machine with its ceilings, and what was disturbed or is missing."""
    rows = []
    listed = machines(replica.stored for replica in replicas)
    for n, (replica, known) in enumerate(zip(replicas, listed, strict=True), start=1):
        record = replica.stored.record
        disturbed = gates.disturbed(run.record for run in replica.stored.runs)
        failed = sum(case.status != "ok" for case in record.cases)
        library = record.environment.host and record.environment.host.c_library
        row: dict[str, Content] = {"No.": str(n), "Machine": replica.label, "Day": replica.day}
        row |= {name: rate or Missing("not measured") for name, rate in known["ceilings"].items()}
        row["C library"] = library or Missing("not recorded")
        row["Plan"] = plan_text(replica.stored).removesuffix(" plan")
        row["Disturbed"] = "{} of {}".format(*disturbed) if disturbed else Missing("not monitored")
        row["Cases not measured"] = f"{failed} of {len(record.cases)}"
        rows.append(row)
    return table_of("tbl-machines", rows, wide=True)


def _records(replicas: Sequence[Replica]) -> Table:
    """The records of each machine, with the code that measured them and the time that it took."""
    rows = []
    for n, replica in enumerate(replicas, start=1):
        for run in replica.stored.runs:
            for shard in run.shards:
                record, number = shard.record, {"No.": str(n)} if len(replicas) > 1 else {}
                changed = "" if record.code.tree_clean else ", changed"
                row = {
                    "Record": shard.file.rpartition("/")[2],
                    "Minutes": str(_minutes_of(record)),
                    "Commit": (record.code.commit or "unknown")[:12] + changed,
                    "Measuring code": record.code.measuring_code[:12],
                }
                rows.append(number | row)
    return table_of("tbl-records", rows, wide=True)


def _commands(replicas: Sequence[Replica]) -> list[str]:
    """The commands that made the records, for whoever repeats them, with commits and minutes."""
    commands: dict[str, None] = {}
    for replica in replicas:
        for run in replica.stored.runs:
            if run.record.code.commit:
                commands[f"git checkout {run.record.code.commit[:12]}"] = None
                commands[_INSTALL] = None
            command = shlex.join(run.record.command)
            if "--threads" not in command:
                command += f" --threads {run.record.environment.threads}"
            commands[f"{command}  # {_minutes_of(run.record)} minutes"] = None
    return list(commands)


def _missing(replicas: Sequence[Replica]) -> list[str]:
    """The parts of each run that its record lacks, each with the reason."""
    texts = []
    for replica in replicas:
        record, reasons = replica.stored.record, dict[str, list[str]]()
        for name, why in record.environment.missing.items():
            if name not in _NO_PARTS:
                reasons.setdefault(why, []).append(_part_name(name))
        failed = [case for case in record.cases if case.status != "ok"]
        for status in dict.fromkeys(case.status for case in failed):
            whys = [case.reason or status for case in failed if case.status == status]
            first = (
                whys[0] if len(set(whys)) == 1 else f"{whys[0].rstrip('.')}, and similar reasons"
            )
            reasons.setdefault(first, []).append(f"{len(whys)} of {len(record.cases)} cases")
        where = f"{replica.label}: " if len(replicas) > 1 else ""
        for why, names in reasons.items():
            texts.append(f"{where}{', '.join(first_few(names))}: {why.rstrip('.')}")
    return texts


def _part_name(field: str) -> str:
    """The words for a missing field of a record."""
    prefix = field[: field.find(".") + 1]
    return _PARTS.get(prefix, prefix) + field.removeprefix(prefix).replace("_", " ")
