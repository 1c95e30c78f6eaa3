"""The replication report: which claims of a paper hold on other machines, with these data alone.

A record is evaluated by the parts of the study that are about its kind of machine.  A report counts
the claims that read its record; what the paper says of its source or of pairs of runs is no claim
about a machine, and is counted in one line.
"""

from __future__ import annotations

import math
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from figures.panels import Dots, Drawing, Grid, Roofline, Scaling
from report.core.missing import Missing
from report.core.records.choice import plan_text
from report.core.records.store import Stored
from report.core.statistics.estimates import Estimate
from report.core.statistics.prediction import FEWEST_MACHINES, next_effect
from report.core.text.format import plain, quantity_text
from report.evidence.runs import Run
from report.instruments import gates
from report.paper.comparisons import DetailedClaim
from report.paper.findings import Claim, Figure, Findings
from report.paper.machines import MachineComparison, machines, setup
from report.paper.plots import dot_series
from report.paper.tables import Content, Table, table_of
from report.paper.values import Value
from report.quantity.evaluation import point

#: Letters of the map: what the verdict on a machine is, compared with the paper's.
AGREEMENTS: Final[Mapping[str, str]] = {
    "A": "agrees with the paper",
    "C": "contrary to the paper",
    "U": "undecided",
    "N": "not measured",
    "D": "decided here alone",
}
#: So many machines are named beside their dots; more are numbered as in the table of machines.
_NAMED: Final = 12
#: Machines that are listed one by one below a claim.
_LISTED: Final = 8
#: Characters of a number's name and formula in a table.
_WORDS: Final = 90
#: Characters of a reason in the first line.
_REASON: Final = 60
_DECIDED: Final = ("supported", "refuted")
#: Reasons that speak of a data directory → what is true of one record.
_REASONS: Final[Mapping[str, str]] = {
    "no run of the experiment is in the data directory": "this plan does not measure it",
    "nothing to compare was recorded": "this plan does not measure it",
}
_COUNTERS: Final = ("ncu", "lackey", "counted")


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
    def claims(self) -> dict[str, DetailedClaim]:
        """The claims that read this record, and those that it should have had data for."""
        own = {file for run in self.stored.runs for file in run.files}
        return {
            id: claim
            for id, claim in self.findings.claims.items()
            if isinstance(claim, DetailedClaim)
            and (claim.verdict == "not measured" or own.intersection(claim.files))
        }

    def reasons(self, id: str) -> tuple[str, ...]:
        """Why a claim is not supported here, without the name of the machine."""
        texts = self.claims[id].reasons
        for name in (self.label, self.stored.record.environment.label):
            texts = tuple(text.replace(f" on {name}", "") for text in texts)
        return tuple(dict.fromkeys(_REASONS.get(text, text).rstrip(".") for text in texts))


@dataclass(frozen=True)
class Original:
    """The paper: its findings, and its own machine of each kind."""

    findings: Findings
    machines: Mapping[str, Replica]
    compared: MachineComparison[Any]


def agreement(paper: Claim | None, claim: Claim) -> str:
    """The letter of ``AGREEMENTS`` for a claim on one machine."""
    if claim.verdict == "undecided":
        return "U"
    if claim.verdict not in _DECIDED:
        return "N"
    if paper is None or paper.verdict not in _DECIDED:
        return "D"
    return "A" if paper.verdict == claim.verdict else "C"


def letters_of(replicas: Sequence[Replica], paper: Findings) -> dict[str, list[str]]:
    """A letter for each claim and machine; empty where the claim is about another kind."""
    ids = dict.fromkeys(id for replica in replicas for id in replica.claims)
    rows: dict[str, list[str]] = {}
    for id in ids:
        original = paper.claims.get(id)
        results = (replica.claims.get(id) for replica in replicas)
        rows[id] = [agreement(original, claim) if claim else "" for claim in results]
    return rows


# ---------------------------------------------------------------------------------------- summary


def summary(replicas: Sequence[Replica], paper: Findings) -> str:
    """The first line of a report: how many claims have the paper's verdict, by kind of machine."""
    by_kind: dict[str, list[Replica]] = {}
    for replica in replicas:
        by_kind.setdefault(replica.about, []).append(replica)
    lines = (_of_kind(group, paper) for group in by_kind.values())
    return "; ".join(lines) or "0 of 0 claims: no record of this study"


def _of_kind(replicas: Sequence[Replica], paper: Findings) -> str:
    rows, about = letters_of(replicas, paper), replicas[0].about
    total = Counter(letter for row in rows.values() for letter in row)
    decided_alone = f"; {total['D']} decided here alone" if total["D"] else ""
    if len(replicas) == 1:
        lacking = f" ({_lacking(replicas[0])})" if total["N"] else ""
        return (
            f"{total['A']} of {len(rows)} claims about {about}: same verdict as the paper; "
            f"{total['C']} contrary; {total['U']} undecided; {total['N']} not measured here"
            f"{lacking}{decided_alone}"
        )
    return (
        f"{len(agreeing(rows))} of {len(rows)} claims about {about}: same verdict as the paper on "
        f"all of {len(replicas)} machines that decide them; of {sum(total.values())} verdicts "
        f"{total['A']} same, {total['C']} contrary, {total['U']} undecided, "
        f"{total['N']} not measured{decided_alone}"
    )


def agreeing(rows: Mapping[str, Sequence[str]]) -> list[str]:
    """The claims that agree on every machine that decides them, and on one at least."""
    return [id for id, row in rows.items() if "A" in row and "C" not in row]


def _lacking(replica: Replica) -> str:
    """Why claims are not measured, in a few words each."""
    reasons: dict[str, None] = {}
    for id, claim in replica.claims.items():
        if claim.verdict not in (*_DECIDED, "undecided"):
            first = next(iter(replica.reasons(id)), "not recorded")
            counted = any(word in first for word in _COUNTERS)
            short = textwrap.shorten(first, _REASON, placeholder=" …")
            reasons["no counters" if counted else short] = None
    return "; ".join(reasons)


# ----------------------------------------------------------------------------------------- report


def report(original: Original, replicas: Sequence[Replica], left_out: Iterable[str]) -> Findings:
    """All that the report of these machines prints."""
    paper, one = original.findings, replicas[0] if len(replicas) == 1 else None
    tables = {
        "tbl-claims": _claims_of_one(one, paper) if one else _claims_of_many(original, replicas)
    }
    figures = _figures_of_one(original, one) if one else _figures_of_many(original, replicas)
    if one:
        tables["tbl-numbers"] = _numbers(one, paper)
        tables["tbl-setup"] = setup([Run(one.stored, one.label)])
        tables |= one.findings.tables
    elif replicas:
        tables |= {"tbl-machines": _machines(replicas), "tbl-records": _records(replicas)}
    claims = _claims(replicas, paper)
    others = Counter(c.about for id, c in paper.claims.items() if id not in claims)
    kind = f"{len(replicas)} machines" if replicas else "no machine"
    return Findings(
        values={},
        tables={id: table for id, table in tables.items() if table.rows},
        figures={figure.id: figure for figure in figures},
        claims=claims,
        facts={
            "measured": bool(replicas),
            "summary": summary(replicas, paper),
            "where": one.label if one else kind,
            "single": one is not None,
            "others": "; ".join(f"{n} about {about}" for about, n in others.items()),
            "reasons": [{"claim": title, "texts": texts} for title, texts in _why(replicas, paper)],
            "parts": _parts(one) if one else [],
            "beside": _beside_texts(original, one) if one else {},
            "effect": original.compared.heading,
            "letters": [f"{letter} {words}" for letter, words in AGREEMENTS.items()],
            "numbered": len(replicas) > _NAMED,
            "left_out": list(left_out),
            "runs": [_run(replica) for replica in replicas],
        },
        key_figure=figures[0].id if figures else "",
    )  # fmt: skip


def _claims(replicas: Sequence[Replica], paper: Findings) -> dict[str, Claim]:
    """The claims of a report; on many machines each with the verdict of all that decide it."""
    claims: dict[str, Claim] = {}
    for id in letters_of(replicas, paper):
        results = [replica.claims[id] for replica in replicas if id in replica.claims]
        counts = Counter(claim.verdict for claim in results)
        verdicts = {claim.verdict for claim in results if claim.verdict in _DECIDED}
        claims[id] = results[0]
        if len(replicas) > 1:
            words = ", ".join(f"{verdict} on {n}" for verdict, n in sorted(counts.items()))
            shared = verdicts.pop() if len(verdicts) == 1 else "undecided"
            claims[id] = replace(results[0], verdict=shared, because=words, compared=())
    return claims


def _claims_of_one(replica: Replica, paper: Findings) -> Table:
    """Each claim with what it expects, what the paper measured, and what this machine measured."""
    rows = []
    for id, claim in replica.claims.items():
        letter = agreement(paper.claims.get(id), claim)
        rows.append({
            "Claim": claim.title,
            "Expected": claim.expected or _of_paper(paper.claims[id]).expected,
            "Paper": _with_verdict(_of_paper(paper.claims[id])),
            "This machine": _with_verdict(claim),
            "Agreement": _short(letter),
        })  # fmt: skip
    return replace(table_of("tbl-claims", rows, wide=True), sources=replica.stored.files)


def _short(letter: str) -> str:
    """An agreement in a word or two."""
    return "same" if letter == "A" else AGREEMENTS[letter].removesuffix(" to the paper")


def _of_paper(claim: Claim) -> DetailedClaim:
    assert isinstance(claim, DetailedClaim)
    return claim


def _with_verdict(claim: DetailedClaim) -> str:
    if claim.measured == "not measured":
        return claim.measured
    return f"{claim.verdict}: {claim.measured}"


def _claims_of_many(original: Original, replicas: Sequence[Replica]) -> Table:
    """Each claim with the number of machines by agreement, the range of its effect and the next."""
    rows: list[Mapping[str, Content]] = []
    for number, (id, row) in enumerate(letters_of(replicas, original.findings).items(), start=1):
        counts, effects = Counter(row), _effects(id, replicas)
        claim = next(r.claims[id] for r in replicas if id in r.claims)
        cells: dict[str, Content] = {"No.": str(number), "Claim": claim.title}
        cells["Paper"] = original.findings.claims[id].verdict
        cells |= {letter: counts[letter] for letter in "ACUN"}
        cells["Range"] = _range([effect for _, effect in effects], claim.unit)
        cells["Next machine"] = _prediction(effects, claim.unit)
        rows.append(cells)
    files = tuple(file for replica in replicas for file in replica.stored.files)
    return replace(table_of("tbl-claims", rows, wide=True), sources=files)


def _effects(id: str, replicas: Sequence[Replica]) -> list[tuple[Replica, float]]:
    """The number that a claim of one comparison has on each machine, where it was measured."""
    effects = []
    for replica in replicas:
        effect = replica.claims[id].effect if id in replica.claims else None
        if effect is not None and not isinstance(effect, Missing):
            effects.append((replica, effect.value if isinstance(effect, Estimate) else effect))
    return effects


def _range(effects: Sequence[float], unit: str) -> Content:
    if not effects:
        return Missing("several comparisons, or none was measured")
    ends = [quantity_text(float(f"{end:.3g}"), unit) for end in (min(effects), max(effects))]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _prediction(effects: Sequence[tuple[Replica, float]], unit: str) -> Content:
    """The interval in which the effect on the next machine is expected, or why there is none."""
    if not effects:
        return Missing("several comparisons, or none was measured")
    if len(effects) < FEWEST_MACHINES:
        return Missing(f"fewer than {FEWEST_MACHINES} machines measured it")
    if why := _unlike([replica for replica, _ in effects]):
        return Missing(why)
    interval = next_effect([effect for _, effect in effects])
    if interval is None:
        return Missing("an effect is not positive, so that it has no logarithm")
    low, high = (plain(end, 3) for end in interval)
    return f"[{low}, {high}]{'' if unit == '1' else f' {unit}'}"


def _unlike(replicas: Sequence[Replica]) -> str:
    """Why machines are no sample of one population; empty if they may be."""
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


def _why(replicas: Sequence[Replica], paper: Findings) -> Iterator[tuple[str, list[str]]]:
    """Each claim that does not agree everywhere, with the reasons, contrary machines first."""
    for id, row in letters_of(replicas, paper).items():
        of_letter: dict[str, list[str]] = {letter: [] for letter in "CUDN"}
        lacking: dict[str, None] = {}
        for replica, letter in zip(replicas, row, strict=True):
            if letter not in ("", "A"):
                where = f"{replica.label}: " if replicas[1:] else ""
                reasons = "; ".join(_first_few(replica.reasons(id)))
                of_letter[letter].append(f"{where}{_short(letter)}: {reasons}")
                lacking |= dict.fromkeys(replica.reasons(id)) if letter == "N" else {}
        if replicas[1:] and (count := len(of_letter["N"])):
            reasons = "; ".join(_first_few([*lacking]))
            of_letter["N"] = [f"{count} of {len(replicas)} machines: not measured: {reasons}"]
        texts = [text for results in of_letter.values() for text in _first_few(results, _LISTED)]
        if texts:
            yield next(r.claims[id].title for r in replicas if id in r.claims), texts


def _first_few(texts: Sequence[str], most: int = 3) -> list[str]:
    more = [f"and {len(texts) - most} more"] if len(texts) > most else []
    return [*texts[:most], *more]


# ---------------------------------------------------------------------------------------- figures


def _figures_of_one(original: Original, replica: Replica) -> list[Figure]:
    """The study's key figure, row by row: the paper's machine at the left, this one beside it."""
    paper = original.machines.get(replica.about)
    shown = _key_figure(replica)
    if shown is None:
        return []
    own = shown.drawing
    original_figure = paper and paper.findings.figures.get(shown.id)
    panels = [replace(panel, title=replica.label) for panel in own.panels]  # type: ignore[type-var]
    if original_figure and paper and len(original_figure.drawing.panels) == len(panels):
        left = [replace(p, title=paper.label) for p in original_figure.drawing.panels]  # type: ignore[type-var]
        panels = [panel for pair in zip(left, panels, strict=True) for panel in pair]
    rows = len(own.panels)
    drawing = replace(
        own,
        panels=tuple(panels),
        rows=rows,
        wide=True,
        height=rows * own.height / own.rows,
        same_axes=all(isinstance(panel, Scaling | Roofline) for panel in panels),
    )
    return [Figure("fig-beside", drawing)]


def _key_figure(replica: Replica) -> Figure | None:
    """The key figure of the study, or the first one that these data draw."""
    figures = replica.findings.figures
    return figures.get(replica.findings.key_figure) or next(iter(figures.values()), None)


def _beside_texts(original: Original, replica: Replica) -> dict[str, str]:
    paper, figure = original.machines.get(replica.about), _key_figure(replica)
    has_left = paper and figure and figure.id in paper.findings.figures
    name = figure.name.replace("-", " ") if figure else ""
    return {"paper": paper.label if paper and has_left else "", "name": name.capitalize()}


def _figures_of_many(original: Original, replicas: Sequence[Replica]) -> list[Figure]:
    """The map of claims and machines, and the compared effect in order."""
    rows = letters_of(replicas, original.findings)
    if not rows:
        return []
    numbers = range(1, len(replicas) + 1)
    names = tuple(f"{r.label}  {n}" for n, r in zip(numbers, replicas, strict=True))
    cells = tuple(zip(*rows.values(), strict=True))
    claims = tuple(str(number) for number in range(1, len(rows) + 1))
    grid = Grid(names, claims, cells, "".join(AGREEMENTS), "Claim")
    place = f"{__name__}._figures_of_many"
    figures = [Figure("fig-map", Drawing((grid,), wide=True, height=grid.height, place=place))]
    dots = _effect_dots(original, replicas)
    return [*figures, Figure("fig-effects", dots)] if dots else figures


def _effect_dots(original: Original, replicas: Sequence[Replica]) -> Drawing | None:
    """Draw the effect that the study compares, largest first, the paper's machine as a ring."""
    compared = original.compared
    rows = []
    for number, replica in enumerate(replicas, start=1):
        measure = compared.measure(compared.run(replica.stored, replica.label))
        name = str(number) if len(replicas) > _NAMED else replica.label
        height = point(measure)
        if not isinstance(height, Missing):
            rows.append((height, name, measure))
    if not compared.heading or len(rows) < 2:
        return None
    rows.sort(key=lambda row: -row[0])
    heights, names, measures = zip(*rows, strict=True)
    unit = str(measures[0].unit)
    panel = Dots(
        names,
        (dot_series("", measures, unit),),
        compared.heading,
        reference=compared.reference,
        log=min(heights) > 0,
    )
    place = f"{__name__}._effect_dots"
    return Drawing((panel,), wide=True, height=panel.height, place=place)


# ----------------------------------------------------------------------------------------- tables


def _numbers(replica: Replica, paper: Findings) -> Table:
    """The numbers of the paper about such a machine, from the paper and from this record."""
    rows = []
    for id, value in replica.findings.values.items():
        original = paper.values.get(id)
        if original and value.sources:
            words = textwrap.shorten(f"{value.name}: {value.formula}", _WORDS, placeholder=" …")
            measured = _with_interval(value)
            row = {"Number": words, "Paper": _with_interval(original), "This machine": measured}
            rows.append(row)
    return table_of("tbl-numbers", rows, wide=True)


def _with_interval(value: Value) -> str:
    return f"{value.parts.number} {value.parts.bounds}".rstrip() + value.parts.after


def _parts(replica: Replica) -> list[dict[str, str]]:
    """The tables that the study declares of such a machine, with names for their captions."""
    names = {id: id.removeprefix("tbl-").replace("-", " ") for id in replica.findings.tables}
    return [{"id": id, "name": name.capitalize()} for id, name in names.items()]


def _machines(replicas: Sequence[Replica]) -> Table:
    """Each machine with its ceilings, and what was disturbed or is missing."""
    rows = []
    listed = machines(replica.stored for replica in replicas)
    for number, (replica, known) in enumerate(zip(replicas, listed, strict=True), start=1):
        record = replica.stored.record
        disturbed = gates.disturbed(run.record for run in replica.stored.runs)
        failed = sum(case.status != "ok" for case in record.cases)
        library = record.environment.host and record.environment.host.c_library
        row: dict[str, Content] = {"No.": str(number), "Machine": replica.label}
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
    for number, replica in enumerate(replicas, start=1):
        run = _run(replica)
        for file in run["files"]:
            row = {"No.": str(number), "Record": file, "Minutes": run["minutes"]}
            rows.append(row | {"Commit": run["commit"], "Measuring code": run["code"]})
    return table_of("tbl-records", rows, wide=True)


def _run(replica: Replica) -> dict[str, Any]:
    """How a record was made, for whoever repeats it."""
    record = replica.stored.record
    began, ended = (datetime.fromisoformat(day) for day in (record.started, record.finished))
    failed = [case for case in record.cases if case.status != "ok"]
    reason = f", such as: {failed[0].reason}" if failed else ""
    missing = f"{len(failed)} of {len(record.cases)} cases were not measured{reason}"
    changed = "" if record.code.tree_clean else ", changed"
    return {
        "label": replica.label,
        "files": [file.rpartition("/")[2] for run in replica.stored.runs for file in run.files],
        "command": shlex.join(record.command),
        "commit": (record.code.commit or "unknown")[:12] + changed,
        "code": record.code.measuring_code[:12],
        "minutes": str(math.ceil((ended - began).total_seconds() / 60)),
        "missing": missing if failed else "",
    }
