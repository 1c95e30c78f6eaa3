"""The replication report: which claims of a paper hold on other machines, with these data alone.

One template prints the reports of all studies; no study writes a sentence for it.
"""

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from figures.panels import Drawing, Grid, Roofline, Scaling
from report.core.missing import Missing
from report.core.records.choice import plan_text
from report.core.records.record import Case, Record
from report.core.statistics.estimates import CONFIDENCE
from report.core.statistics.prediction import next_effect
from report.core.text.format import plain
from report.evidence.runs import Run
from report.instruments import gates
from report.paper.claims import first_few, formula_parts, with_interval
from report.paper.findings import Claim, Figure, Findings
from report.paper.machines import (
    MachineComparison,
    MeasuredMachine,
    drawing_of,
    in_order,
    measure,
    properties,
    setup,
)
from report.paper.plots import interval_ends
from report.paper.replicas import (
    AGREEMENTS,
    DECIDED,
    Replica,
    Row,
    compare,
    main_claims,
    spread,
    summary,
)
from report.paper.tables import Content, Table, table_of
from report.paper.values import Value
from report.quantity.evaluation import number

#: Reasons that are listed one by one for a claim, and findings in an abstract.
_LISTED: Final = 20
_IN_ABSTRACT: Final = 3
#: Machines of the paper that the table of one machine describes.
_IN_TABLE: Final = 3
#: Characters of a machine's name in pictures.
_NAME: Final = 26
#: Characters of a line of a command.
_LINE: Final = 68
#: Characters of a formula that stands for the meaning of a number.
_FORMULA: Final = 80
#: Properties of a machine that may cause a contrary result.
_CAUSES: Final = ("Vector extensions", "C library", "Framework", "Caches", "Cores and threads")
#: Properties in the table of many machines.
_SOFTWARE: Final = ("C library", "Operating system")
#: Fields that are missing in most records and that no result rests on.
_NO_PARTS: Final = ("cpu.governor", "gpu", "name")
_ENDED: Final = "the run was ended before this was measured"
_INSTALL: Final = 'python -m pip install -e ".[experiments]" -c constraints.txt'
#: Least relative difference that an abstract names: half as much again.
_CONTRAST: Final = 1 / 3
#: Begins the ids of the study's tables, so that none has the id of a table of the report.
_OF_PAPER: Final = "tbl-paper-"
#: Tables, figures by id, claims and facts of a report.
_Contents: TypeAlias = tuple[list[Table], dict[str, Drawing], dict[str, Claim], dict[str, Any]]


@dataclass(frozen=True)
class Original:
    """The paper: its findings, the claims of its headline, its machines and its records by file.

    ``machines`` has the first machine of each kind, ``all_machines`` also the others.
    """

    findings: Findings
    headline: Sequence[str]
    machines: Mapping[str, Replica]
    all_machines: Sequence[Replica]
    compared: MachineComparison[Any]
    records: Mapping[str, Record]

    def most_used(self, about: str) -> list[Replica]:
        """The first machine of a kind, and those that most other numbers of the paper are of."""
        used = Counter(chain(*(value.sources for value in self.findings.values.values())))
        first = self.machines.get(about)
        machines = [m for m in self.all_machines if m.about == about and used[m.stored.file]]
        machines.sort(key=lambda m: (m is not first, -used[m.stored.file]))
        return machines[:_IN_TABLE]

    def source(self, files: Iterable[str], usual: str) -> str:
        """Name the machines that ``files`` are of, unless they are the ``usual`` one."""
        used = {*files}
        labels = [machine.label for machine in self.all_machines if used & {*machine.files}]
        return f" on {' and '.join(first_few(labels))}" if labels not in ([], [usual]) else ""


def report(
    original: Original,
    replicas: Sequence[Replica],
    left_out: Iterable[str],
    copies: Mapping[str, str] = MappingProxyType({}),
) -> Findings:
    """All that the report of these machines prints; ``copies`` are explained by label."""
    paper, single = original.findings, len(replicas) == 1
    rows = compare(replicas, paper)
    if single:
        tables, figures, claims, facts = _report_of_one(original, replicas[0], rows)
    else:
        tables, figures, claims, facts = _report_of_many(original, replicas, rows)
    contrary = [row.finding for row in rows.values() if row.outcome == "C"]
    same = [row.finding for row in rows.values() if row.outcome == "A"]
    others: dict[str, list[str]] = {}
    for id, claim in paper.claims.items():
        if id not in rows:
            others.setdefault(claim.about, []).append(claim.title)
    copied: dict[str, list[str]] = {}
    for label, why in copies.items():
        copied.setdefault(why, []).append(label)
    days = sorted(replica.stored.record.started[:10] for replica in replicas)
    facts |= {
        **main_claims(rows, paper, original.headline),
        "contrary": first_few(contrary, _IN_ABSTRACT),
        "same": first_few(same, _IN_ABSTRACT),
        "summary": summary(replicas, paper),
        "single": single,
        "copies": [f"{'; '.join(labels)}: {why}" for why, labels in copied.items()],
        "copied": str(len(copies)),
        "records": str(len(replicas) + len(copies)),
        "decided": f"{sum(row.outcome in 'AC' for row in rows.values())} of {len(rows)}",
        "published": [r.label for r in replicas if {*r.files} & original.records.keys()],
        "level": f"{100 * CONFIDENCE:.0f} %",
        "days": [*dict.fromkeys((*days[:1], *days[-1:]))],
        "others": others,
        "reasons": _reasons(rows, single=single),
        "missing": _missing_parts(replicas),
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


def _report_of_one(original: Original, one: Replica, rows: Mapping[str, Row]) -> _Contents:
    """The claims, figure and tables of one machine beside the paper's."""
    paper = original.machines.get(one.about)
    runs = [Run(one.stored, f"This machine: {one.label}")]
    if paper and paper.stored.file != one.stored.file:
        others = [m for m in original.most_used(one.about) if m.stored.file != one.stored.file]
        runs += [Run(other.stored, f"Paper: {other.label}") for other in others]
    usual = paper.label if paper else ""
    figures, facts = _beside(one, paper)
    machine = setup(runs)
    differing: dict[str, str] = {}
    for name, *cells in machine.rows:
        parts = [str(cell).split(", ") for cell in cells]
        if name not in ("Disturbed", "Measured") and parts[1:] and parts[0] != parts[1]:
            differing[str(name)] = "; ".join(_in_one_only(parts[0], parts[1], most=9))
    cases = []
    for row in rows.values():
        difference = _other_cases(row.paper.formulas, row.claim.formulas)
        if difference and "N" not in row.letters.values():
            cases.append(f"{row.paper.title}: {difference}")
    own_tables, names = list[Table](), dict[str, str]()
    for id, table in one.findings.tables.items():
        name = id.removeprefix("tbl-")
        own_tables.append(replace(table, id=f"{_OF_PAPER}{name}"))
        names[f"{_OF_PAPER}{name}"] = name.replace("-", " ").capitalize()
    numbers, contrast = _numbers(one, original, usual)
    facts |= {
        "where": one.label,
        "usual": usual,
        "contrast": contrast,
        "plan": _plan(one),
        "conditions": [*differing],
        "causes": [f"{name} ({differing[name]})" for name in _CAUSES if name in differing],
        "record": re.sub(r"[^/]*-(?=[0-9a-f]{8}\.json$)", "*-", f"data/{one.stored.file}"),
        "cases": cases,
        "parts": names,
        **_commands(original, one, rows),
    }
    tables = [_claims_of_one(rows, original, usual), machine, numbers, _records([one])]
    return [*tables, *own_tables], figures, one.claims, facts


def _report_of_many(
    original: Original, replicas: Sequence[Replica], rows: Mapping[str, Row]
) -> _Contents:
    """The claims of many machines, or of none."""
    compared = original.compared
    measured = in_order(measure(replica.stored, replica.label, compared) for replica in replicas)
    figures, facts = _map_and_effects(compared, measured, replicas, rows)
    facts["where"] = f"{len(replicas)} machines" if replicas else "no machine"
    facts["install"] = _INSTALL
    newest = max(original.records.values(), key=attrgetter("started"), default=None)
    facts["commit"] = newest.code.commit[:12] if newest and newest.code.commit else ""
    environments = {r.stored.file: r.stored.record.environment for r in replicas}
    cells: list[dict[str, Content]] = [dict(machine.cells) for machine in measured]
    notes = []
    for name in _SOFTWARE:
        column = [properties(environments[machine.file])[name] for machine in measured]
        if len({*column}) > 1:
            cells = [{**row, name: cell} for row, cell in zip(cells, column, strict=True)]
        elif column and isinstance(column[0], str):
            notes.append(f"{name} of all machines: {column[0]}.")
    machines = replace(table_of("tbl-machines", cells, wide=True), notes=tuple(notes))
    tables = [_claims_of_many(replicas, rows), machines]
    return [*tables, _records(replicas)], figures, dict(map(_over_all, rows.items())), facts


def _over_all(item: tuple[str, Row]) -> tuple[str, Claim]:
    """A claim with the verdict of all machines that decide it, undecided if they differ."""
    id, row = item
    counts = Counter(claim.verdict for claim in row.claims.values())
    verdicts = {*counts}.intersection(DECIDED) or {*counts}
    words = ", ".join(f"{verdict} on {n}" for verdict, n in sorted(counts.items()))
    verdict = verdicts.pop() if len(verdicts) == 1 else "undecided"
    return id, replace(row.claim, verdict=verdict, because=words, compared=())


# ---------------------------------------------------------------------------------------- reasons


def _reasons(rows: Mapping[str, Row], *, single: bool) -> list[dict[str, Any]]:
    """Say why claims do not agree on every machine; claims with the same reasons are one group."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows.values():
        labels: dict[str, list[str]] = {}
        for letter, (label, claim) in product("CUN", row.claims.items()):
            if row.letters[label] == letter:
                reasons = claim.reasons or ("the expected range holds here",)
                if single and letter == "U":
                    reasons = (*reasons, row.estimates)
                for reason in reasons if single else ["; ".join(first_few(reasons))]:
                    text = f"{AGREEMENTS[letter].capitalize()}: {reason}"
                    labels.setdefault(text, []).append(label)
        texts = [*labels]
        if not single:
            count = len(row.claims)
            texts = [
                f"{text} (on {len(where)} of {count}: {'; '.join(first_few(where))})"
                for text, where in labels.items()
            ]
        if texts:
            groups.setdefault((*first_few(texts, _LISTED),), []).append(row)
    reasons_of_groups = []
    for shared, group in groups.items():
        contrary = any(row.outcome == "C" for row in group)
        titles = [row.paper.title for row in group]
        reasons_of_groups.append({"titles": titles, "texts": shared, "contrary": contrary})
    return reasons_of_groups


def _other_cases(paper: Sequence[str], own: Sequence[str]) -> str:
    """Describe by formulas how the compared cases differ from the paper's; empty if they agree."""
    own_parts = [part for formula in own for part in formula_parts(formula)]
    paper_parts = [part for formula in paper for part in formula_parts(formula)]
    texts = _in_one_only(own_parts, paper_parts, most=3)
    return "; ".join(texts).replace(" only here", " here").replace(" only in", " in")


def _in_one_only(own: Sequence[str], paper: Sequence[str], most: int) -> list[str]:
    """Name the parts that only this machine has, and those that only the paper has."""
    texts = []
    for where, parts, others in (("here", own, paper), ("in the paper", paper, own)):
        if different := [*dict.fromkeys(part for part in parts if part not in others)]:
            texts.append(f"{', '.join(first_few(different, most))} only {where}")
    return texts


# ----------------------------------------------------------------------------------------- tables


def _claims_of_one(rows: Mapping[str, Row], original: Original, usual: str) -> Table:
    """Each claim with what it expects, what the paper measured, and what this machine measured."""
    cells = []
    for row in rows.values():
        claim, paper = row.claim, row.paper
        (letter,) = row.letters.values()
        agreement, expected = AGREEMENTS[letter], claim.expected or paper.expected
        if letter != "N" and claim.known != paper.known:
            agreement += f", {claim.known} comparisons (paper: {paper.known})"
        if letter == "U" and row.estimates.startswith("all"):
            agreement += f"; {row.estimates}"
        cells.append({
            "Claim": f"{claim.title} (expected: {expected})" if expected else claim.title,
            "Agreement": agreement,
            "This machine": _verdict(claim),
            "Paper": _verdict(paper) + original.source(paper.files, usual),
        })  # fmt: skip
    return table_of("tbl-claims", cells, wide=True)


def _verdict(claim: Claim) -> str:
    text = f"{claim.verdict}: {claim.measured}".removeprefix("not measured: ")
    return _with_level(re.sub(r"^undecided: (\d+ of \d+ undecided)", r"\1", text))


def _with_level(text: str) -> str:
    """Say of a level such as «(at 69 %)» that it is the interval's; print a range once."""
    text = re.sub(r"(\S+) to (\S+)\s\[\1, \2\]", r"\1 to \2", text)
    return re.sub(r"\(at ([^)]+)\)", r"(\1 interval)", text)


def _claims_of_many(replicas: Iterable[Replica], rows: Mapping[str, Row]) -> Table:
    """Each claim with the number of machines by agreement, the range of its effect and the next."""
    table: list[dict[str, Content]] = []
    unlike = _unlike(replicas)
    for n, row in enumerate(rows.values(), start=1):
        counts, unit = Counter(row.letters.values()), row.paper.unit
        cells: dict[str, Content] = {"No.": str(n), "Claim": row.paper.title}
        cells["Paper"] = _verdict(row.paper)
        cells |= {letter: counts[letter] for letter in "ACUN"}
        if any(other.effects for other in rows.values()):
            cells["Range"] = spread(row.effects, unit) if row.effects else ""
        interval = None if unlike or not row.effects else next_effect(row.effects)
        ends = f"[{', '.join(plain(end, 3) for end in interval)}]" if interval else ""
        cells["Next machine"] = f"{ends} {unit}".strip() if ends and unit != "1" else ends
        table.append(cells)
    if not any(cells["Next machine"] for cells in table):
        for cells in table:
            del cells["Next machine"]
    notes = (f"No interval for the next machine: {unlike}.",) if unlike else ()
    return replace(table_of("tbl-claims", table, wide=True), notes=notes)


def _unlike(replicas: Iterable[Replica]) -> str:
    """Say why machines are no sample of one population; empty if they may be."""
    parts: dict[str, set[object]] = {"C library": set(), "allocator": set()}
    for replica in replicas:
        environment = replica.stored.record.environment
        parts["C library"].add(environment.host and environment.host.c_library)
        named = {n for n in environment.variables if "MALLOC" in n or n == "LD_PRELOAD"}
        parts["allocator"].add(tuple((n, environment.variables[n]) for n in sorted(named)))
    if None in parts["C library"]:
        return "the C library of a machine is not recorded"
    differing = [name for name, kinds in parts.items() if len(kinds) > 1]
    return f"the machines differ in their {' and '.join(differing)}" if differing else ""


def _numbers(one: Replica, original: Original, usual: str) -> tuple[Table, str]:
    """The numbers of this machine beside the paper's, and the largest contrast in words.

    Measured numbers that differ most are first.
    """
    rows: list[tuple[tuple[bool, bool, float], dict[str, str]]] = []
    measured, paper = one.findings.values, original.findings.values
    for id, value in measured.items():
        published = paper.get(id)
        if not (published and value.sources) or value.formula == "measurements":
            continue
        meaning = value.description or textwrap.shorten(
            published.formula, _FORMULA, placeholder=" …"
        )
        meaning = re.sub("^return (?=the )", "", meaning)
        known = meaning.lower() in value.name.lower() or meaning.startswith("return ")
        row = {"Number": value.name if known else f"{value.name}: {meaning}"}
        row["This machine"] = _printed(value, measured)
        row["Paper"] = _printed(published, paper) + original.source(published.sources, usual)
        if isinstance(published.number, int) and published.unit == "1":
            row["Paper"] += _same_count(value, published, original)
        note, order = _difference(value, published)
        rows.append((order, row | {"Ratio": note}))
    rows.sort(key=itemgetter(0), reverse=True)
    contrast = ""
    for (sampled, same_cases, difference), row in rows[:_LISTED]:
        if sampled and same_cases and _CONTRAST < difference < 1 and not contrast:
            contrast = f"{row['Number']} ({row['This machine']} here, {row['Paper']} in the paper)"
    return table_of("tbl-numbers", [row for _, row in rows], wide=True), contrast


def _printed(value: Value, values: Mapping[str, Value]) -> str:
    """Print a number with its interval; of a count of hits also how many were compared."""
    text = _with_level(value.interval_plain)
    total = values.get(re.sub("[a-z]+$", "compared", value.id), value)
    if total is value or total.description != value.description or value.unit != "1":
        return text
    return f"{text} of {total.plain}"


def _same_count(value: Value, published: Value, original: Original) -> str:
    """Name machines of the paper with this machine's count, if the paper prints another."""
    texts = []
    for machine in original.all_machines:
        alone = machine.findings.values.get(value.id, published)
        if alone.number == value.number != published.number:
            counted = _printed(alone, machine.findings.values)
            texts.append(f"; {counted}, as here, on {machine.label}")
    return "".join(texts)


def _difference(value: Value, paper: Value) -> tuple[str, tuple[bool, bool, float]]:
    """The ratio of two numbers whose intervals do not overlap, or a note; and their place.

    Counts have no ratio.  Measured numbers come before counts and settings, and numbers of other
    cases and missing ones are last.
    """
    if isinstance(value.number, Missing) or isinstance(paper.number, Missing):
        return "", (False, False, -1.0)
    low, own, high = interval_ends(value.number, 1)
    paper_low, other, paper_high = interval_ends(paper.number, 1)
    sampled = low < high or paper_low < paper_high
    if _other_cases([paper.formula], [value.formula]):
        return "other cases", (sampled, False, 0.0)
    if (low <= paper_high and high >= paper_low) or value.interval_plain == paper.interval_plain:
        return "", (sampled, True, 0.0)
    difference = abs(own - other) / max(abs(own), abs(other))
    count = not sampled and isinstance(value.number, int) and value.unit == "1"
    return plain(own / other, 3) if other and not count else "", (sampled, True, difference)


def _records(replicas: Sequence[Replica]) -> Table:
    """The records, what was disturbed and not measured, and the code that measured them."""
    rows = []
    for replica in replicas:
        for shard in replica.shards:
            record, disturbed = shard.record, gates.disturbed([shard.record])
            measured = sum(case.status == "ok" for case in record.cases)
            changed = "" if record.code.tree_clean else ", changed"
            machine: dict[str, Content] = {}
            if len(replicas) > 1:
                threads = record.environment.threads_text
                machine["Machine"] = replica.label.replace(threads, "", 1)
            row: dict[str, Content] = {
                **machine,
                "Record": shard.file.rpartition("/")[2],
                "Plan": record.protocol.plan,
                "Minutes": str(record.minutes),
                "Cases": f"{measured} of {len(record.cases)}",
                "Disturbed": "{} of {}".format(*disturbed) if disturbed else "not monitored",
                "Commit": (record.code.commit or "unknown")[:12] + changed,
                "Measuring code": record.code.measuring_code[:12],
            }
            rows.append(row)
    return table_of("tbl-records", rows, wide=True)


# ---------------------------------------------------------------------------------------- figures


def _beside(one: Replica, paper: Replica | None) -> tuple[dict[str, Drawing], dict[str, Any]]:
    """The study's key figure, row by row: this machine at the left, the paper's beside it."""
    own = one.findings.shown_figure
    if own is None:
        return {}, {}
    label, label_of_paper = one.label, paper.label if paper else ""
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
    return {"fig-beside": drawing}, {"beside": {"here": label, "paper": label_of_paper}}


def _titled(figure: Figure, title: str) -> list[Any]:
    return [replace(panel, title=title) for panel in figure.drawing.panels]  # type: ignore[type-var]


def _effect(machine: MeasuredMachine) -> str:
    """The compared effect on a machine with its interval; empty if it was not measured."""
    effect = number(machine.measured)
    return "" if isinstance(effect, Missing) else with_interval(effect, str(machine.measured.unit))


def _map_and_effects(
    compared: MachineComparison[Any],
    measured: Sequence[MeasuredMachine],
    replicas: Sequence[Replica],
    rows: Mapping[str, Row],
) -> tuple[dict[str, Drawing], dict[str, Any]]:
    """The map of claims and machines, and the compared effect in order, with their findings."""
    if not rows:
        return {}, {}
    short = _short_names([replica.label for replica in replicas])
    letters: list[tuple[str, ...]] = []
    for name in short:
        letters.append(tuple(row.letters.get(name, "") for row in rows.values()))
    numbers = tuple(str(number) for number in range(1, len(rows) + 1))
    grid = Grid(tuple(short.values()), numbers, tuple(letters), "".join(AGREEMENTS), "Claim")
    place = f"{__name__}._map_and_effects"
    figures = {"fig-map": Drawing((grid,), wide=True, height=grid.height, place=place)}
    outcomes = Counter(row.outcome for row in rows.values())
    facts = {
        "finding": f"{outcomes['A']} of {len(rows)} claims agree on every machine that decides "
        f"them; contrary on at least one: {outcomes['C']}"
    }
    known = [m._replace(name=short[m.name]) for m in measured if _effect(m)]
    if compared.heading and len(known) > 1:
        figures["fig-effects"] = replace(drawing_of(known, (), compared), wide=True)
        most, least = (f"{_effect(machine)} on {machine.name}" for machine in (known[0], known[-1]))
        facts["effects"] = f"{compared.heading} on each machine, from {least} to {most}"
    return figures, facts


def _short_names(labels: Sequence[str]) -> dict[str, str]:
    """Cut long names of machines in pictures, unless two would become equal."""
    short = {label: label if len(label) <= _NAME else f"{label[:_NAME]}…" for label in labels}
    return short if len({*short.values()}) == len(labels) else {label: label for label in labels}


# ------------------------------------------------------------------------------- repeating the run


def _commands(original: Original, one: Replica, rows: Mapping[str, Row]) -> dict[str, Any]:
    """Commands with the paper's program: those of this record, then those for missing claims."""
    own = [run.record for run in one.stored.runs]
    unmeasured = [row.paper.files for row in rows.values() if row.outcome == "N"]
    lacking = [original.records.get(file) for file in chain(*unmeasured)]
    again = {_command(record): f"# {record.minutes} min:" for record in own}
    further = {_command(record): f"# {record.minutes} min:" for record in lacking if record}
    newest = max(original.records.values(), key=attrgetter("started"), default=own[-1])
    older = newest.started > own[-1].started and newest.code != own[-1].code
    commits = [(record.code.commit or "unknown")[:12] for record in (own[-1], newest)]
    return {
        "commits": commits if older else [],
        "again": [f"git checkout {commits[1]}", _INSTALL, *_with_times(again)],
        "further": _with_times({c: time for c, time in further.items() if c not in again}),
    }


def _with_times(minutes: Mapping[str, str]) -> list[str]:
    """Lines of a shell: each command below the time that it takes."""
    return [*chain.from_iterable((time, command) for command, time in minutes.items())]


def _command(record: Record) -> str:
    """The command of a record, in lines that a page can hold and a shell joins again."""
    words = [*record.command]
    if not any(word.startswith("--threads") for word in words):
        words += ["--threads", str(record.environment.threads)]
    lines = [""]
    for word in map(_quoted, words):
        if len(lines[-1]) + len(word) > _LINE:
            lines[-1] += "\\"
            lines.append("  ")
        lines[-1] += f"{word} "
    return "\n".join(lines).rstrip()


def _quoted(word: str) -> str:
    """Quote a word for the shell, in double quotes if possible, since PDFs curve single ones."""
    quoted = shlex.quote(word)
    return quoted if quoted == word or re.search(r"""["$`\\!]""", word) else f'"{word}"'


def _plan(one: Replica) -> dict[str, Any]:
    """Describe the measured share of a run's plan, as far as the record contains it."""
    record, timed = one.stored.record, gates.disturbed(run.record for run in one.stored.runs)
    return {
        "name": plan_text(one.stored),
        "minutes": str(sum(shard.record.minutes for shard in one.shards)),
        "cases": f"{sum(case.status == 'ok' for case in record.cases)} of {len(record.cases)}",
        "timed": f"{timed[1]:,}" if timed else "",
        "ended": _ENDED in record.environment.missing.values(),
    }


def _missing_parts(replicas: Sequence[Replica]) -> list[str]:
    """The parts of each run that its record lacks, each with the reason."""
    texts = []
    for replica in replicas:
        record, reasons = replica.stored.record, dict[str, list[str]]()
        for field, why in record.environment.missing.items():
            if field not in _NO_PARTS:
                name = field.replace("policies.", "memory policy ").replace(".", " ")
                reasons.setdefault(why, []).append(name.replace("_", " "))
        failed: dict[str, list[Case]] = {}
        for case in record.cases:
            if case.status != "ok":
                failed.setdefault(case.status, []).append(case)
        for status, cases in failed.items():
            count = f"{len(cases)} of {len(record.cases)} cases, {status.replace('_', ' ')}"
            names = []
            for case in cases:
                names.append(" ".join(f"{name} {level}" for name, level in case.factors.items()))
            text = f"{count} ({'; '.join(first_few(names))})"
            reasons.setdefault(cases[0].reason or status, []).append(text)
        where = f"{replica.label}: " if len(replicas) > 1 else ""
        for why, names in reasons.items():
            texts.append(f"{where}{', '.join(first_few(names))}: {why.rstrip('.')}")
    return texts
