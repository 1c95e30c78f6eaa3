"""The replication report: which claims of a paper hold on other machines, with these data alone.

One template prints the reports of all studies; no study writes a sentence for it.
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from figures.panels import Drawing, Grid, Roofline, Scaling
from report.core.records.record import Record
from report.core.statistics.estimates import CONFIDENCE
from report.core.statistics.prediction import FEWEST_MACHINES, next_effect
from report.core.text.format import plain, quantity_text
from report.evidence.runs import Run, machine_id
from report.instruments import gates
from report.paper.claims import first_few, formula_parts, open_comparisons
from report.paper.findings import Claim, Figure, Findings
from report.paper.machines import MachineComparison, drawing_of, in_order, measure, setup
from report.paper.replicas import AGREEMENTS, Replica, Row, compare, summary
from report.paper.tables import Content, Table, table_of
from report.quantity.operations import over_common_terms, range_of_terms

#: The most comparisons of one claim that a table lists.
_MOST: Final = 24
#: Fields that are missing in most records and that no result rests on.
_NO_PARTS: Final = ("cpu.governor", "gpu", "name")
#: Tables, drawings by id, and facts of a report.
_Contents: TypeAlias = tuple[list[Table], dict[str, Drawing], dict[str, Any]]
_Cells: TypeAlias = dict[str, Content]


@dataclass(frozen=True)
class Original:
    """The paper: its findings, the claims of its headline, its machines and its records by file."""

    findings: Findings
    headline: Sequence[str]
    machines: Sequence[Replica]
    compared: MachineComparison[Any]
    records: Mapping[str, Record]


def report(
    original: Original,
    replicas: Sequence[Replica],
    left_out: Iterable[str],
    copies: Mapping[str, str] = MappingProxyType({}),
) -> Findings:
    """Compute what the report of these machines prints; ``copies`` are explained by label."""
    rows = compare(replicas, original.findings)
    if len(replicas) == 1:
        tables, figures, facts = _of_one(original, replicas[0], rows)
    else:
        tables, figures, facts = _of_many(original, replicas, rows)
    own = [replica.stored.record for replica in replicas]  # a new study's paper has no record
    newest = max(original.records.values() or own, key=attrgetter("started"))
    independent, days = list[str](), list[str]()
    for replica in sorted(replicas, key=attrgetter("stored.record.started")):
        days.append(replica.stored.record.started[:10])
        if not replica.files & original.records.keys():
            independent.append(replica.label)
    facts |= {
        "summary": summary(rows.values(), replicas),
        "single": len(replicas) == 1,
        "records": str(len(replicas) or ""),
        "of_paper": str((len(replicas) - len(independent)) or ""),
        "independent": first_few(independent),
        "level": f"{100 * CONFIDENCE:.0f} %",
        "days": [*dict.fromkeys((*days[:1], *days[-1:]))],
        "commit": (newest.code.commit or "unknown")[:12],
        "claims": sorted(_claims(original, replicas, rows), key=itemgetter("about", "reason")),
        "copies": [f"{label}: {why}" for label, why in copies.items()],
        "missing": _missing_parts(replicas),
        "left_out": list(left_out),
    }
    return Findings(
        values={},
        tables={table.id: table for table in tables if table.rows},
        figures={id: Figure(id, drawing) for id, drawing in figures.items()},
        claims={id: row.over_all for id, row in rows.items()},
        facts=facts,
        key_figure=next(reversed(figures), ""),  # the map is too wide for a list
    )


def _claims(
    original: Original, replicas: Sequence[Replica], rows: Mapping[str, Row]
) -> Iterator[dict[str, Any]]:
    """Describe each claim of the paper; ``outcome`` is empty if no such machine can test it.

    A claim about several runs may begin with the title of a claim about one machine, its
    ``single`` form.
    """
    for id, claim in original.findings.claims.items():
        row = rows.get(id)
        forms = []
        for other in () if row else rows.values():
            if other.deciding and claim.title.startswith(other.paper.title):
                forms.append(f"“{other.paper.title}” ({AGREEMENTS[other.outcome]})")
        yield {
            "title": claim.title,
            "about": claim.about,
            "main": id in original.headline,
            "outcome": row.outcome if row else "",
            "reason": _reason(replicas, row) if row else "",
            "because": claim.because,
            "here": row.over_all.verdict if row else "",
            "single": "; ".join(forms),
        }


def _reason(replicas: Sequence[Replica], row: Row) -> str:
    """Say on which machines a claim is contrary or undecided, and why, or why none measured it."""
    labels: dict[str, list[str]] = {}
    for replica in replicas:
        letter = row.letters.get(replica.label, "")
        if letter in ("C", "U") or letter == row.outcome == "N":
            reasons = first_few(replica.reasons(row.claims[replica.label]))
            labels.setdefault("; ".join(reasons) or "supported", []).append(replica.label)
    return "; ".join(_with_machines(labels, len(row.claims)))


def _with_machines(labels: Mapping[str, Sequence[str]], count: int) -> list[str]:
    """Name the machines behind each text, unless it is true of all ``count`` machines."""
    texts = []
    for text, where in labels.items():
        on_some = f" (on {'; '.join(first_few(where))})"
        texts.append(text if len(where) == count else text + on_some)
    return texts


# ------------------------------------------------------------------------------------ one machine


def _of_one(original: Original, one: Replica, rows: Mapping[str, Row]) -> _Contents:
    """Set the claims, the key figure and the tables of one machine beside the paper's."""
    measured = [row for row in rows.values() if "N" not in row.letters.values()]
    cited = _cited(original, one, measured)
    runs = [Run(one.stored, f"This machine: {one.label}")]
    runs += [Run(machine.stored, f"{name}: {machine.label}") for name, machine in cited.items()]
    of_paper, names = list[Table](), dict[str, str]()
    for id, table in one.findings.tables.items():
        name = id.removeprefix("tbl-")
        of_paper.append(replace(table, id=f"tbl-paper-{name}"))  # reports have tables of this name
        names[f"tbl-paper-{name}"] = name.replace("-", " ")
    figures, figure_facts = _beside(original, one)
    disturbed = gates.disturbed(run.record for run in one.stored.runs)
    facts = {
        "where": one.label,
        "disturbed": "{} of {}".format(*disturbed) if disturbed else "",
        "bimodal": str(sum(any(gates.bimodal_times(c)) for c in one.stored.record.cases) or ""),
        "described": bool(cited),
        "record": re.sub(r"[^/]*-(?=[0-9a-f]{8}\.json$)", "*-", f"data/{one.stored.file}"),
        "tables_of_paper": names,
        **figure_facts,
        **_commands(original, one, rows),
    }
    tables = [_claims_of_one(one, measured, cited), _open_claims(measured), setup(runs)]
    return [*tables, _records([one]), *of_paper], figures, facts


def _cited(original: Original, one: Replica, rows: Iterable[Row]) -> dict[str, Replica]:
    """Name the machines P1, P2 … on which the paper decides claims, except this machine."""
    used = {file for row in rows for file in row.paper.files} - one.files
    cited: dict[str, Replica] = {}
    for machine in original.machines:
        if machine.files & used:
            used -= machine.files
            cited[f"P{len(cited) + 1}"] = machine
    return cited


def _claims_of_one(one: Replica, rows: Iterable[Row], cited: Mapping[str, Replica]) -> Table:
    """List the claims that this machine measured, beside the paper's numbers and machines."""
    cells: list[_Cells] = []
    for row in rows:
        (claim,), paper, expected = row.claims.values(), row.paper, row.paper.expected
        names = [name for name, machine in cited.items() if machine.files & {*paper.files}]
        if one.files & {*paper.files}:
            names.append("this machine")
        cells.append({
            "Claim": f"{claim.title} (expected: {expected})" if expected else claim.title,
            "Agreement": AGREEMENTS[row.letters[one.label]] + _difference(row, claim),
            "This machine": _verdict(claim),
            "Paper": f"{_verdict(paper)}{' on ' if names else ''}{', '.join(names)}",
        })  # fmt: skip
    legend = "; ".join(f"{name}: {machine.label}" for name, machine in cited.items())
    notes = (f"Machines of the paper: {legend}.",) if legend else ()
    return replace(table_of("tbl-claims", cells, wide=True), notes=notes)


def _verdict(claim: Claim) -> str:
    repeated = claim.verdict in claim.measured
    return claim.measured if repeated else f"{claim.verdict}: {claim.measured}"


def _difference(row: Row, claim: Claim) -> str:
    """Describe how the compared cases differ from the paper's, and the cases of means."""
    paper = row.paper
    if claim.known < paper.known:
        return f": {claim.known} of the paper's {paper.known} comparisons"
    if claim.known > paper.known:
        return f", by {claim.known} comparisons (paper: {paper.known})"
    if row.cases:
        printed = "" if row.cases == row.cases_of_paper else f"; the paper: {row.cases_of_paper}"
        return f" (means of both over {row.cases}{printed})"
    parts = dict.fromkeys(chain.from_iterable(map(formula_parts, claim.formulas)))
    of_paper = dict.fromkeys(chain.from_iterable(map(formula_parts, paper.formulas)))
    texts = []
    for where, own, other in (("here", parts, of_paper), ("in the paper", of_paper, parts)):
        if different := [part for part in own if part not in other]:
            texts.append(f"{', '.join(first_few(different))} {where}")
    return f", by partly other cases ({'; '.join(texts)})" if texts else ""


def _open_claims(rows: Iterable[Row]) -> Table:
    """List the comparisons by which claims are contrary or undecided on one machine."""
    cells: list[_Cells] = []
    for row in rows:
        (claim,), (letter,) = row.claims.values(), row.letters.values()
        comparisons = open_comparisons(claim.statements)
        for n, comparison in enumerate(islice(comparisons, _MOST if letter in "CU" else 0)):
            cells.append({"Claim": "" if n else claim.title, **comparison})
    return table_of("tbl-open", cells, wide=True)


def _beside(original: Original, one: Replica) -> tuple[dict[str, Drawing], dict[str, Any]]:
    """Draw the study's key figure row by row: this machine at the left, the paper's beside it."""
    figure = one.findings.shown_figure
    if figure is None:
        return {}, {}
    titled = [[replace(panel, title=one.label) for panel in figure.drawing.panels]]  # type: ignore[type-var]
    name, label = figure.name.replace("-", " "), ""
    paper = next((machine for machine in original.machines if machine.about == one.about), one)
    published = paper.findings.figures.get(figure.id)
    if published and paper.stored.file != one.stored.file:
        other = published.drawing.panels
        if len(other) == len(figure.drawing.panels):
            label = f"{paper.label}, paper"
            titled.append([replace(panel, title=label) for panel in other])  # type: ignore[type-var]
    panels = [*chain.from_iterable(zip(*titled, strict=True))]
    drawing = replace(
        figure.drawing,
        panels=tuple(panels),
        rows=len(titled[0]),
        wide=True,
        height=len(titled[0]) * figure.drawing.height / figure.drawing.rows,
        same_axes=all(isinstance(panel, Scaling | Roofline) for panel in panels),
    )
    return {"fig-beside": drawing}, {"beside": {"name": name, "paper": label}}


def _commands(original: Original, one: Replica, rows: Mapping[str, Row]) -> dict[str, Any]:
    """List commands with the paper's program: those of this record, then of unmeasured claims."""
    again = dict.fromkeys(_command(run.record) for run in one.stored.runs)
    further = dict[str, None]()
    for row in rows.values():
        for record in filter(None, map(original.records.get, row.paper.files)):
            if row.outcome == "N" and _command(record) not in again:
                further[_command(record)] = None
    own = (one.stored.record.code.commit or "unknown")[:12]
    return {"own_commit": own, "again": [*again], "further": [*further]}


def _command(record: Record) -> str:
    """Write the minutes and the command of a record, in lines that a shell joins again."""
    words = [*record.command]
    if not any(word.startswith("--threads") for word in words):
        words += ["--threads", str(record.environment.threads)]
    lines = [""]
    for word in words:
        quoted = shlex.quote(word)
        if quoted != word and not re.search(r"""["$`\\!]""", word):
            quoted = f'"{word}"'  # since PDFs curve single quotes
        if len(lines[-1]) + len(quoted) > 66:  # characters that fit into a line
            lines.append("  ")
        lines[-1] += f"{quoted} "
    return f"# {record.minutes} min:\n" + "\\\n".join(lines).rstrip()


# ---------------------------------------------------------------------------------- many machines


def _of_many(original: Original, replicas: Sequence[Replica], rows: Mapping[str, Row]) -> _Contents:
    """Count the claims of many machines, or of none."""
    compared, machines = original.compared, []
    names = dict[str, str]()
    for replica in replicas:
        star = " *" if replica.files & original.records.keys() else ""
        names[replica.label] = f"{replica.label}{star}"
        machine = measure(replica.stored, replica.label, compared)
        machine.cells["C library"] = _library(replica) or "not recorded"
        machines.append(machine)
    known = [machine for machine in machines if not machine.measured.missing]
    means = over_common_terms([machine.measured for machine in known])
    for machine, mean in zip(known, means, strict=True):
        machine.cells[compared.heading] = mean
        machines[machines.index(machine)] = machine._replace(measured=mean)
    machines = in_order(machines)
    figures: dict[str, Drawing] = {}
    if rows:
        numbers, place = tuple(map(str, range(1, len(rows) + 1))), f"{__name__}._of_many"
        letters = []
        for label in names:
            letters.append(tuple(row.letters.get(label, "") for row in rows.values()))
        grid = Grid(tuple(names.values()), numbers, tuple(letters), "".join(AGREEMENTS), "Claim")
        figures["fig-map"] = Drawing((grid,), wide=True, height=grid.height, place=place)
    if compared.heading and len(known) > 1:
        drawn = [m._replace(name=names[m.name]) for m in machines if not m.measured.missing]
        figures["fig-effects"] = replace(drawing_of(drawn, (), compared), wide=True)
    claims, no_interval = _claims_of_many(replicas, rows)
    outcomes = Counter(row.outcome for row in rows.values())
    facts = {
        "where": _count(replicas),
        "no_interval": no_interval,
        "counts": {letter: str(outcomes[letter]) for letter in AGREEMENTS},
        "compared": compared.heading,
        "meaning": compared.meaning,
        "cases": range_of_terms(means[0]) if means else "",
    }
    table = table_of("tbl-machines", [machine.cells for machine in machines], wide=True)
    return [claims, table, _records(replicas)], figures, facts


def _count(replicas: Sequence[Replica]) -> str:
    """Count machines, and their records if a machine has several."""
    count = len({machine_id(replica.stored.record.environment) for replica in replicas})
    machines = f"{count or 'no'} machine{'s' if count > 1 else ''}"
    return f"{len(replicas)} records of {machines}" if len(replicas) > count else machines


def _claims_of_many(replicas: Sequence[Replica], rows: Mapping[str, Row]) -> tuple[Table, str]:
    """Count machines by agreement; predict the next effect, or return why that is not possible."""
    effects = [row.effects for row in rows.values()]
    no_interval = _not_alike(replicas)
    if max(map(len, effects), default=0) < FEWEST_MACHINES:
        no_interval = f"fewer than {FEWEST_MACHINES} of them measured a claim of one comparison"
    table, notes = list[_Cells](), list[str]()
    for n, row in enumerate(rows.values(), start=1):
        counts, unit = Counter(row.letters.values()), row.paper.unit
        cells: _Cells = {"No.": str(n), "Claim": row.paper.title, "Paper": _verdict(row.paper)}
        for letter in "APCUN":
            cells[letter] = counts[letter]
        if any(effects):
            ends = [quantity_text(float(f"{end:.3g}"), unit) for end in sorted(row.effects)]
            cells["Range"] = " to ".join(dict.fromkeys((*ends[:1], *ends[-1:])))
        if not no_interval:
            interval = next_effect(row.effects) if row.effects else None
            bounds = ", ".join(plain(end, 3) for end in interval or ())
            cells["Next machine"] = f"[{bounds}] {unit}".removesuffix(" 1") if bounds else ""
        if row.cases:
            notes.append(f"No. {n}: means over {row.cases}.")
        table.append(cells)
    return replace(table_of("tbl-claims", table, wide=True), notes=tuple(notes)), no_interval


def _not_alike(replicas: Sequence[Replica]) -> str:
    """Say why machines are no sample of one population; empty if they may be."""
    if _count(replicas).startswith(f"{len(replicas)} records"):
        return "several records are of one machine"
    libraries: dict[str, str] = {}
    allocators: set[object] = set()
    for replica in replicas:
        environment = replica.stored.record.environment
        libraries.setdefault(_library(replica), replica.label)
        variables = sorted(environment.variables.items())
        allocators.add(tuple(v for v in variables if re.search("MALLOC|^LD_PRELOAD$", v[0])))
    if "" in libraries:
        return f"the C library of {libraries['']} is not recorded"
    differing = {"C library": libraries, "allocator": allocators}
    names = [name for name, values in differing.items() if len(values) > 1]
    return f"the machines differ in their {' and '.join(names)}" if names else ""


def _library(replica: Replica) -> str:
    host = replica.stored.record.environment.host
    return (host and host.c_library) or ""


# ---------------------------------------------------------------------------------------- records


def _records(replicas: Sequence[Replica]) -> Table:
    """List the records, what was disturbed and not measured, and the code that measured them."""
    rows: list[_Cells] = []
    for replica in replicas:
        for shard in replica.shards:
            record, disturbed = shard.record, gates.disturbed([shard.record])
            measured = sum(case.status == "ok" for case in record.cases)
            changed = "" if record.code.tree_clean else ", changed"
            rows.append({
                "Machine": replica.label,
                "Record": shard.file[-13:-5],
                "Plan": record.protocol.plan,
                "Minutes": str(record.minutes),
                "Cases": f"{measured} of {len(record.cases)}",
                "Disturbed": "{} of {}".format(*disturbed) if disturbed else "not monitored",
                "Commit": (record.code.commit or "unknown")[:8] + changed,
                "Code hash": record.code.measuring_code[:8],
            })  # fmt: skip
    return table_of("tbl-records", rows, wide=True)


def _missing_parts(replicas: Sequence[Replica]) -> list[str]:
    """Name the parts that records lack, those with one reason together."""
    labels: dict[str, list[str]] = {}
    for replica in replicas:
        record, reasons = replica.stored.record, dict[str, list[str]]()
        for field, why in record.environment.missing.items():
            if field not in _NO_PARTS:
                name = re.sub("[._]", " ", field.replace("policies.", "memory policy "))
                reasons.setdefault(why, []).append(name)
        for case in record.cases:
            if case.status != "ok":
                levels = " ".join(f"{name} {level}" for name, level in case.factors.items())
                reasons.setdefault(case.reason or case.status, []).append(levels)
        for why, names in reasons.items():
            text = f"{', '.join(first_few(names))}: {why.rstrip('.')}"
            labels.setdefault(text, []).append(replica.label)
    return _with_machines(labels, len(replicas))
