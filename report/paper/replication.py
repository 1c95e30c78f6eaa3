"""The replication report: which claims of a paper hold on other machines, with these data alone.

One template prints the reports of all studies; no study writes a sentence for it.
"""

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from figures.panels import Drawing, Grid, Roofline, Scaling
from report.core.missing import Missing
from report.core.records.record import Record
from report.core.statistics.estimates import CONFIDENCE, Estimate
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
from report.paper.replicas import AGREEMENTS, Replica, Row, compare, main_claims, spread, summary
from report.paper.tables import Content, Table, table_of
from report.paper.values import Value
from report.quantity.evaluation import number

#: Machines of the paper that the table of one machine describes.
_IN_TABLE: Final = 3
#: Characters of a machine's name in pictures, and of a line of a command.
_NAME, _LINE = 26, 66
#: Share of disturbed measurements that an abstract names.
_MANY_DISTURBED: Final = 0.2
#: Stands for the blanks of a quoted word, at which its command must not be broken.
_BLANK: Final = "\x00"
#: Properties of a run that say nothing about its machine.
_OF_RUN: Final = ("Disturbed", "Measured", "Samples a case", "Processes planned")
#: Fields that are missing in most records and that no result rests on.
_NO_PARTS: Final = ("cpu.governor", "gpu", "name")
_INSTALL: Final = 'python -m pip install -e ".[experiments]" -c constraints.txt'
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

    def cited(self, about: str, files: Iterable[str]) -> dict[str, Replica]:
        """Name the paper's machines of a kind P1, P2 …: the first one, then those of ``files``."""
        used, first = {*files}, self.machines.get(about)
        cited = [first] if first else []
        seen = {*first.files} if first else set[str]()
        for machine in self.all_machines:
            if used & {*machine.files} and not seen & {*machine.files}:
                cited.append(machine)
        return {f"P{number}": machine for number, machine in enumerate(cited, start=1)}


def report(
    original: Original,
    replicas: Sequence[Replica],
    left_out: Iterable[str],
    copies: Mapping[str, str] = MappingProxyType({}),
) -> Findings:
    """Compute what the report of these machines prints; ``copies`` are explained by label."""
    paper, single = original.findings, len(replicas) == 1
    rows = compare(replicas, paper)
    if single:
        tables, figures, claims, facts = _report_of_one(original, replicas[0], rows)
    else:
        tables, figures, claims, facts = _report_of_many(original, replicas, rows)
    others: dict[str, list[str]] = {}
    for id, claim in paper.claims.items():
        if id not in rows:
            others.setdefault(claim.about, []).append(claim.title)
    copied: dict[str, list[str]] = {}
    for label, why in copies.items():
        copied.setdefault(why, []).append(label)
    published, days = list[str](), list[str]()
    for replica in replicas:
        days.append(replica.stored.record.started[:10])
        if {*replica.files} & original.records.keys():
            published.append(replica.label)
    days.sort()
    facts |= {
        **main_claims(rows, paper, original.headline),
        "summary": summary(replicas, paper),
        "single": single,
        "copies": [f"{'; '.join(labels)}: {why}" for why, labels in copied.items()],
        "copied": str(len(copies)),
        "published": first_few(published),
        "of_paper": str(len(published)),
        "own": len(published) == len(replicas) > 0,
        "level": f"{100 * CONFIDENCE:.0f} %",
        "days": [*dict.fromkeys((*days[:1], *days[-1:]))],
        "others": others,
        "reasons": [*_reasons(rows, "CU")],
        "unmeasured": [*_reasons(rows, "N")],
        "missing": [*_missing_parts(replicas)],
        "left_out": list(left_out),
        "install": _INSTALL,
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
    """Set the claims, the key figure and the tables of one machine beside the paper's."""
    files = chain(*(row.paper.files for row in rows.values()))
    cited = original.cited(one.about, files)
    runs = [Run(one.stored, f"This machine: {one.label}")]
    for name, machine in [*cited.items()][:_IN_TABLE]:
        if machine.stored.file != one.stored.file:
            runs.append(Run(machine.stored, f"{name}: {machine.label}"))
    machines, differing = setup(runs), []
    for fact, own, *others in machines.rows:
        if others and own != others[0] and fact not in _OF_RUN:
            differing.append(str(fact))
    own_tables, names = list[Table](), dict[str, str]()
    for id, table in one.findings.tables.items():
        name = id.removeprefix("tbl-")
        own_tables.append(replace(table, id=f"{_OF_PAPER}{name}"))
        names[f"{_OF_PAPER}{name}"] = name.replace("-", " ")
    numbers, number_facts = _numbers(one, original)
    figures, figure_facts = _beside(one, original.machines.get(one.about))
    disturbed = gates.disturbed(run.record for run in one.stored.runs)
    bimodal = sum(any(gates.bimodal_times(case)) for case in one.stored.record.cases)
    facts = {
        "where": one.label,
        "disturbed": "{} of {}".format(*disturbed) if disturbed and _is_large(*disturbed) else "",
        "bimodal": str(bimodal) if bimodal else "",
        "differing": differing,
        "described": len(runs) > 1,
        "record": re.sub(r"[^/]*-(?=[0-9a-f]{8}\.json$)", "*-", f"data/{one.stored.file}"),
        "parts": names,
        **number_facts,
        **figure_facts,
        **_commands(original, one, rows),
    }
    tables = [_claims_of_one(rows, cited), numbers, machines, _records([one])]
    return [*tables, *own_tables], figures, one.claims, facts


def _is_large(disturbed: int, measured: int) -> bool:
    """Tell whether so many measurements were disturbed that a reader should know at once."""
    return disturbed > _MANY_DISTURBED * measured


def _report_of_many(
    original: Original, replicas: Sequence[Replica], rows: Mapping[str, Row]
) -> _Contents:
    """Count the claims of many machines, or of none."""
    compared = original.compared
    measured = in_order(measure(replica.stored, replica.label, compared) for replica in replicas)
    names = _short_names(replicas, original.records)
    figures, facts = _map_and_effects(compared, measured, names, rows)
    newest = max(original.records.values(), key=attrgetter("started"), default=None)
    facts |= {
        "where": _count(replicas),
        "commit": newest.code.commit[:12] if newest and newest.code.commit else "",
    }
    environments = {r.stored.file: r.stored.record.environment for r in replicas}
    cells: list[dict[str, Content]] = []
    for machine in measured:
        library = properties(environments[machine.file])["C library"]
        cells.append({**machine.cells, "C library": library})
    machines = table_of("tbl-machines", cells, wide=True)
    claims = {id: row.over_all for id, row in rows.items()}
    verdicts = _claims_of_many(replicas, rows)
    facts["predicts"] = any(column.name == "Next machine" for column in verdicts.columns)
    return [verdicts, machines, _records(replicas)], figures, claims, facts


def _count(replicas: Sequence[Replica]) -> str:
    """Count machines, and their records if a machine has several."""
    machines = len({replica.stored.record.environment.key for replica in replicas})
    records = f", {len(replicas)} records" if len(replicas) > machines else ""
    return f"{machines} machine{'s' if machines > 1 else ''}{records}" if replicas else "no machine"


# ---------------------------------------------------------------------------------------- reasons


def _reasons(rows: Mapping[str, Row], letters: str) -> Iterator[dict[str, Any]]:
    """Say why verdicts have these letters; claims with the same reasons are one group."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in rows.values():
        count = len(row.claims)
        if letters == "N" != row.outcome:
            continue  # another machine measured it
        labels: dict[str, list[str]] = {}
        for label, claim in row.claims.items():
            if (letter := row.letters[label]) in letters:
                reasons = [*claim.reasons] or ["the expected range holds here"]
                if letter == "U" and count == 1:
                    reasons.append(row.estimates)
                text = f"{AGREEMENTS[letter].capitalize()}: {'; '.join(first_few(reasons))}"
                labels.setdefault(text, []).append(label)
        texts = []
        for text, where in labels.items():
            on_some = f" (on {len(where)} of {count}: {'; '.join(first_few(where))})"
            texts.append(text + on_some if len(where) < count else text)
        if texts:
            groups.setdefault(tuple(texts), []).append(row.paper.title)
    for shared, titles in groups.items():
        yield {"titles": titles, "texts": shared}


def _other_cases(paper: Sequence[str], own: Sequence[str]) -> str:
    """Describe by formulas how the compared cases differ from the paper's; empty if they agree."""
    own_parts = dict.fromkeys(chain.from_iterable(map(formula_parts, own)))
    paper_parts = dict.fromkeys(chain.from_iterable(map(formula_parts, paper)))
    texts = []
    for where, parts, others in (
        ("here", own_parts, paper_parts),
        ("there", paper_parts, own_parts),
    ):
        if different := [part for part in parts if part not in others]:
            texts.append(f"{', '.join(first_few(different))} {where}")
    return "; ".join(texts)


# ----------------------------------------------------------------------------------------- tables


def _claims_of_one(rows: Mapping[str, Row], cited: Mapping[str, Replica]) -> Table:
    """List the claims that this machine measured, beside the paper's numbers and machines."""
    cells: list[dict[str, Content]] = []
    labels = dict[str, str]()
    for row in rows.values():
        claim, paper, (letter,) = row.claim, row.paper, row.letters.values()
        if letter == "N":
            continue
        agreement, expected = AGREEMENTS[letter], claim.expected or paper.expected
        if claim.known < paper.known:
            agreement += f": {claim.known} of the paper's {paper.known} comparisons"
        elif claim.known > paper.known:
            agreement += f", by {claim.known} comparisons (paper: {paper.known})"
        elif cases := _other_cases(paper.formulas, claim.formulas):
            agreement += f", by partly other cases ({cases})"
        names = []
        for name, machine in cited.items():
            if {*machine.files} & {*paper.files}:
                names.append(name)
                labels[name] = machine.label
        cells.append({
            "Claim": f"{claim.title} (expected: {expected})" if expected else claim.title,
            "Agreement": agreement,
            "This machine": _verdict(claim),
            "Paper": f"{_verdict(paper)}{' on ' if names else ''}{', '.join(names)}",
        })  # fmt: skip
    legend = "; ".join(f"{name}: {label}" for name, label in sorted(labels.items()))
    notes = (f"Machines of the paper: {legend}.",) if legend else ()
    return replace(table_of("tbl-claims", cells, wide=True), notes=notes)


def _verdict(claim: Claim) -> str:
    text = f"{claim.verdict}: {claim.measured}".removeprefix("not measured: ")
    return re.sub(r"^undecided: (\d+ of \d+ undecided)", r"\1", text)


def _claims_of_many(replicas: Iterable[Replica], rows: Mapping[str, Row]) -> Table:
    """Count machines by agreement; give the range of the effect and the next one's interval."""
    table: list[dict[str, Content]] = []
    unlike = _unlike(replicas)
    for n, row in enumerate(rows.values(), start=1):
        counts, unit = Counter(row.letters.values()), row.paper.unit
        cells: dict[str, Content] = {"No.": str(n), "Claim": row.paper.title}
        cells["Paper"] = _verdict(row.paper)
        for letter in "APCUN":
            cells[letter] = counts[letter]
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
    libraries, allocators = set[object](), set[object]()
    for replica in replicas:
        environment = replica.stored.record.environment
        libraries.add(environment.host and environment.host.c_library)
        allocator = []
        for name, value in sorted(environment.variables.items()):
            if "MALLOC" in name or name == "LD_PRELOAD":
                allocator.append((name, value))
        allocators.add(tuple(allocator))
    if None in libraries:
        return "the C library of a machine is not recorded"
    differing = []
    if len(libraries) > 1:
        differing.append("C library")
    if len(allocators) > 1:
        differing.append("allocator")
    return f"the machines differ in their {' and '.join(differing)}" if differing else ""


def _numbers(one: Replica, original: Original) -> tuple[Table, dict[str, Any]]:
    """List the measured numbers whose intervals do not overlap the paper's, and count the others.

    Numbers that the paper computes from other cases are not compared.
    """
    rows: list[tuple[float, dict[str, Content]]] = []
    overlapping, reversed_numbers = 0, list[str]()
    for id, value in one.findings.values.items():
        published = original.findings.values.get(id)
        own, other = value.number, published and published.number
        if not (published and isinstance(own, Estimate) and isinstance(other, Estimate)):
            continue
        if not value.sources or _other_cases([published.formula], [value.formula]):
            continue
        if own.low <= other.high and other.low <= own.high:
            overlapping += 1
            continue
        name = _number_name(value)
        certain = min(own.confidence, other.confidence) > CONFIDENCE - 0.005
        apart = own.high < 1 < other.low or other.high < 1 < own.low
        if value.unit == "1" and certain and apart:
            reversed_numbers.append(
                f"{name} ({value.interval_plain} here, {published.interval_plain} in the paper)"
            )
        in_groups = own.bimodal or other.bimodal  # no sample lies near their medians
        ratio = own.value / other.value if other.value and not in_groups else 0.0
        cells: dict[str, Content] = {
            "Number": name,
            "This machine": value.interval_plain,
            "Paper": published.interval_plain,
            "Ratio": plain(ratio, 3) if ratio else "",
        }
        rows.append((max(ratio, 1 / ratio) if ratio > 0 else 0.0, cells))
    rows.sort(key=itemgetter(0), reverse=True)
    facts = {"overlapping": str(overlapping), "different": str(len(rows))}
    table = table_of("tbl-numbers", [cells for _, cells in rows], wide=True)
    return table, {**facts, "reversed": reversed_numbers}


def _number_name(value: Value) -> str:
    """Name a number, with the first line of its function's documentation."""
    meaning = re.sub(r"^return (?=the )| \(\S+\)$", "", value.description)
    known = not meaning or meaning.lower() in value.name.lower()
    return value.name if known else f"{value.name}: {meaning}"


def _records(replicas: Sequence[Replica]) -> Table:
    """List the records, what was disturbed and not measured, and the code that measured them."""
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
                "Record": _file_name(shard.file, short=len(replicas) > 1),
                "Plan": record.protocol.plan,
                "Minutes": str(record.minutes),
                "Cases": f"{measured} of {len(record.cases)}",
                "Disturbed": "{} of {}".format(*disturbed) if disturbed else "not monitored",
                "Commit": (record.code.commit or "unknown")[:12] + changed,
                "Measuring code": record.code.measuring_code[:12],
            }
            rows.append(row)
    return table_of("tbl-records", rows, wide=True)


def _file_name(file: str, *, short: bool) -> str:
    """Name the file of a record without its folder; in ``short`` the beginning of its hash."""
    name = file.rpartition("/")[2]
    return name[-13:-5] if short else name


# ---------------------------------------------------------------------------------------- figures


def _beside(one: Replica, paper: Replica | None) -> tuple[dict[str, Drawing], dict[str, Any]]:
    """Draw the study's key figure row by row: this machine at the left, the paper's beside it."""
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
    beside = {"here": label, "paper": label_of_paper, "name": own.name.replace("-", " ")}
    return {"fig-beside": drawing}, {"beside": beside}


def _titled(figure: Figure, title: str) -> list[Any]:
    return [replace(panel, title=title) for panel in figure.drawing.panels]  # type: ignore[type-var]


def _effect(machine: MeasuredMachine) -> str:
    """Print the compared effect on a machine with its interval; empty if it was not measured."""
    effect = number(machine.measured)
    return "" if isinstance(effect, Missing) else with_interval(effect, str(machine.measured.unit))


def _map_and_effects(
    compared: MachineComparison[Any],
    measured: Sequence[MeasuredMachine],
    short: Mapping[str, str],
    rows: Mapping[str, Row],
) -> tuple[dict[str, Drawing], dict[str, Any]]:
    """Draw the map of claims and machines, and the compared effect in order; name the findings."""
    if not rows:
        return {}, {}
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


def _short_names(replicas: Sequence[Replica], of_paper: Mapping[str, Record]) -> dict[str, str]:
    """Name machines in pictures: cut long names that stay distinct, mark the paper's records."""
    cut = [replica.label[:_NAME] for replica in replicas]
    names = {}
    for replica, short in zip(replicas, cut, strict=True):
        name = replica.label
        if len(name) > _NAME and cut.count(short) == 1:
            name = f"{short}…"
        names[replica.label] = f"{name} *" if of_paper.keys() & {*replica.files} else name
    return names


# ------------------------------------------------------------------------------- repeating the run


def _commands(original: Original, one: Replica, rows: Mapping[str, Row]) -> dict[str, Any]:
    """List commands with the paper's program: those of this record, then of unmeasured claims."""
    own = [run.record for run in one.stored.runs]
    again = {_command(record): record.minutes for record in own}
    further = dict[str, int]()
    for row in rows.values():
        for record in filter(None, map(original.records.get, row.paper.files)):
            if row.outcome == "N" and _command(record) not in again:
                further[_command(record)] = record.minutes
    newest = max(original.records.values(), key=attrgetter("started"), default=own[-1])
    older = newest.started > own[-1].started and newest.code != own[-1].code
    commits = [(record.code.commit or "unknown")[:12] for record in (own[-1], newest)]
    return {
        "commits": commits if older else [],
        "again": [f"git checkout {commits[1]}", _INSTALL, *_with_minutes(again)],
        "further": _with_minutes(further),
    }


def _with_minutes(minutes: Mapping[str, int]) -> list[str]:
    """Write lines of a shell: each command below the minutes that it takes."""
    return [*chain.from_iterable((f"# {time} min:", line) for line, time in minutes.items())]


def _command(record: Record) -> str:
    """Write the command of a record in lines that a page can hold and a shell joins again."""
    words = [*record.command]
    if not any(word.startswith("--threads") for word in words):
        words += ["--threads", str(record.environment.threads)]
    text = " ".join(_quoted(word).replace(" ", _BLANK) for word in words)
    lines = textwrap.wrap(text, _LINE, break_long_words=False, break_on_hyphens=False)
    return " \\\n  ".join(lines).replace(_BLANK, " ")


def _quoted(word: str) -> str:
    """Quote a word for the shell, in double quotes if possible, since PDFs curve single ones."""
    quoted = shlex.quote(word)
    return quoted if quoted == word or re.search(r"""["$`\\!]""", word) else f'"{word}"'


def _missing_parts(replicas: Sequence[Replica]) -> Iterator[str]:
    """Name the parts of each run that its record lacks, those with one reason together."""
    for replica in replicas:
        record, reasons = replica.stored.record, dict[str, list[str]]()
        for field, why in record.environment.missing.items():
            if field not in _NO_PARTS:
                name = field.replace("policies.", "memory policy ").replace(".", " ")
                reasons.setdefault(why, []).append(name.replace("_", " "))
        for case in record.cases:
            if case.status != "ok":
                levels = " ".join(f"{name} {level}" for name, level in case.factors.items())
                reasons.setdefault(case.reason or case.status, []).append(levels)
        where = f"{replica.label}: " if len(replicas) > 1 else ""
        for why, names in reasons.items():
            yield f"{where}{', '.join(first_few(names))}: {why.rstrip('.')}"
