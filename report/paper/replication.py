"""The replication report: which claims of a paper hold on other machines.

One template prints the reports of all studies, without sentences of the studies.
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
from report.core.missing import Missing
from report.core.records.record import Environment, Record
from report.core.records.store import Stored
from report.core.statistics.estimates import CONFIDENCE, FEWEST_MACHINES, next_effect
from report.core.text.format import plain, quantity_text
from report.evidence.runs import Run, machine_id
from report.instruments import gates
from report.paper.claims import first_few, formula_parts, open_comparisons
from report.paper.findings import Claim, Figure, Findings
from report.paper.machines import (
    MachineComparison,
    drawing_of,
    in_order,
    measure,
    properties,
    setup,
)
from report.paper.replicas import AGREEMENTS, Replica, Row, answers, compare, summary
from report.paper.tables import Content, Table, table_of
from report.quantity.operations import over_common_terms, range_of_terms

#: Most comparisons of one claim in a table.
_MOST: Final = 24
#: Most comparisons of a claim whose formula is printed, and most characters of this formula.
_FEW: Final = 3
_LONGEST: Final = 300
#: Fields of an environment whose absence is not reported, since no result depends on them.
_NO_PARTS: Final = ("cpu.governor", "gpu", "name")
#: Tables, drawings by id, and facts of a report.
_Contents: TypeAlias = tuple[list[Table], dict[str, Drawing], dict[str, Any]]
_Cells: TypeAlias = dict[str, Content]


@dataclass(frozen=True)
class Original:
    """The paper: findings, ids of headline claims, machines, their comparison, pools by file.

    ``factors``: names that the experiment's option ``--set`` accepts.
    """

    findings: Findings
    headline: Sequence[str]
    machines: Sequence[Replica]
    compared: MachineComparison[Any]
    records: Mapping[str, Stored]
    factors: Sequence[str]


def report(
    original: Original,
    replicas: Sequence[Replica],
    left_out: Iterable[str],
    copies: Mapping[str, str] = MappingProxyType({}),
) -> Findings:
    """Compute the findings of the report; ``copies`` maps labels of copied records to reasons."""
    rows = compare(replicas, original.findings)
    of_paper = [r.label for r in replicas if r.files & original.records.keys()]
    evidence = map(attrgetter("files"), original.findings.claims.values())
    files = {*chain.from_iterable(map(attrgetter("files"), replicas))}
    independent = [replica for replica in replicas if replica.label not in of_paper]
    if len(replicas) == 1:
        tables, figures, facts = _of_one(original, replicas[0], rows)
    else:
        known = {id: row for id, row in rows.items() if row.outcome != "N"}
        tables, figures, facts = _of_many(original.compared, replicas, known, of_paper)
    records = [replica.stored.record for replica in replicas]  # of a new study: its only ones
    of_original = [*map(attrgetter("record"), original.records.values())] or records
    newest = max(of_original, key=attrgetter("started"))
    days = sorted(record.started[:10] for record in records)
    claims = sorted(_claims(original, replicas, rows), key=itemgetter("about", "reason"))
    main = [claim["outcome"] for claim in claims if claim["main"]]
    tested = sum(outcome not in ("", "N", "B") for outcome in main)
    facts |= {
        "summary": summary(rows.values(), replicas, of_paper),
        "single": len(replicas) == 1,
        "records": str(len(replicas) or ""),
        "of_paper": str(len(of_paper) or ""),
        "independent": first_few([f"{r.label}{_notes(r, original)}" for r in independent]),
        "elsewhere": files.isdisjoint(chain.from_iterable(evidence)),
        "notes": "; ".join(_notes(replica, original) for replica in replicas[:1]),
        "answers": answers(rows.values(), independent or replicas),
        "main": f"{tested or 'none'} of {len(main)}" if main else "",
        **_commands(original, replicas, rows),
        "newest": newest.started[:10] if original.records else "",
        "level": f"{100 * CONFIDENCE:.0f} %",
        "days": [*dict.fromkeys((*days[:1], *days[-1:]))],
        "commit": (newest.code.commit or "unknown")[:12],
        "claims": claims,
        "pooled": [*_pooled(original, replicas)],
        "copies": [f"{label}: {why}" for label, why in copies.items()],
        "missing": _missing_parts(replicas),
        "bimodal_series": _bimodal_series(replicas),
        "left_out": list(left_out),
    }
    return Findings(
        values={},
        tables={table.id: table for table in tables if table.rows},
        figures={id: Figure(id, drawing) for id, drawing in figures.items()},
        claims={id: row.over_all for id, row in rows.items()},
        facts=facts,
        key_figure=next(reversed(figures), ""),  # not the map, which is too wide for lists
    )


def _claims(
    original: Original, replicas: Sequence[Replica], rows: Mapping[str, Row]
) -> Iterator[dict[str, Any]]:
    """Describe each claim of the paper; ``outcome`` is empty if no machine here can test the claim.

    ``single`` lists decided claims about one machine whose titles begin the title of this claim;
    ``among`` says that all machines that the paper compares are among these.
    """
    pools = _pools(original, chain.from_iterable(map(attrgetter("files"), replicas)))
    for id, claim in original.findings.claims.items():
        row, compared = rows.get(id), _pools(original, claim.files)
        forms = []
        for other in () if row else rows.values():
            if other.deciding and claim.title.startswith(other.paper.title):
                forms.append(f"“{other.paper.title}” ({AGREEMENTS[other.outcome][0]})")
        yield {
            "title": claim.title,
            "about": claim.about,
            "main": id in original.headline,
            "outcome": row.outcome if row else "",
            "reason": _reason(replicas, row) if row else "",
            "because": claim.because,
            "here": row.over_all.verdict if row else "",
            "single": "; ".join(forms),
            "among": len(compared) > 1 and compared <= pools,
        }


def _notes(replica: Replica, original: Original) -> str:
    """Note in brackets that a record resembles one of the paper, and how much was disturbed."""
    notes, key = list[str](), machine_id(replica.stored.record.environment)
    of_paper = {machine_id(pool.record.environment) for pool in original.records.values()}
    if key in of_paper and not replica.files & original.records.keys():
        notes.append("hardware and threads as in a record of the paper")
    if counts := gates.disturbed(run.record for run in replica.stored.runs):
        notes.append("{} of {} timed measurements disturbed".format(*counts))
    return f" ({', '.join(notes)})" if notes else ""


def _pools(original: Original, files: Iterable[str]) -> set[str]:
    """Return the main files of the pools in which the paper uses ``files``."""
    return {original.records[file].file for file in files if file in original.records}


def _pooled(original: Original, replicas: Iterable[Replica]) -> Iterator[str]:
    """List the records that the paper pools with others, with the number of these others."""
    for replica in replicas:
        pools = _pools(original, replica.files)
        others = {file for file, stored in original.records.items() if stored.file in pools}
        if count := len(others - replica.files):
            yield f"{replica.label} ({count} more)"


def _reason(replicas: Sequence[Replica], row: Row) -> str:
    """Explain why a claim is contrary, undecided or not measured, and name the machines."""
    labels: dict[str, list[str]] = {}
    for replica in replicas:
        letter = row.letters.get(replica.label, "")
        if letter in ("C", "U") or letter == row.outcome == "N":
            reasons = first_few(replica.reasons(row.claims[replica.label]))
            labels.setdefault("; ".join(reasons) or "supported", []).append(replica.label)
    return "; ".join(_with_machines(labels, len(row.claims)))


def _with_machines(labels: Mapping[str, Sequence[str]], count: int) -> list[str]:
    """Add the machines to each text, unless the text is true of all ``count`` machines."""
    texts = []
    for text, where in labels.items():
        on_some = f" (on {'; '.join(first_few(where))})"
        texts.append(text if len(where) == count else text + on_some)
    return texts


def _of_one(original: Original, one: Replica, rows: Mapping[str, Row]) -> _Contents:
    """Compare claims, key figure and tables of one machine with those of the paper."""
    measured = [row for row in rows.values() if "N" not in row.letters.values()]
    cited = _cited(original, one, measured)
    runs = [Run(one.stored, "This machine")]
    runs += [Run(machine.stored, f"{name}: {machine.label}") for name, machine in cited.items()]
    of_paper, captions = list[Table](), dict[str, tuple[str, str]]()
    for id, table in one.findings.tables.items():
        of_paper.append(replace(table, id=id.replace("tbl-", "tbl-paper-", 1)))
        published = original.findings.tables.get(id, table).caption
        caption = re.sub(r"[*`$]| \([^()]*@[^()]*\)", "", published)
        caption = re.sub(r"@[\w-]+", "the paper's formula", caption)
        captions[of_paper[-1].id] = (id.removeprefix("tbl-").replace("-", " "), caption)
    figures, figure_facts = _beside(original, one)
    record = one.stored.record
    facts = {
        "where": one.label,
        "conditions": original.compared.run(one.stored, one.label).conditions,
        "fewer": _fewer_processes(record),
        "budget": f"{record.protocol.budget_s:,.0f} s" if record.protocol.budget_s else "",
        "described": bool(cited),
        "record": re.sub(r"[^/]*-(?=[0-9a-f]{8}\.json$)", "*-", f"data/{one.stored.file}"),
        "tables_of_paper": captions,
        **figure_facts,
        "own_commit": (record.code.commit or "unknown")[:12],
    }
    tables = [_claims_of_one(one, measured, cited), _open_claims(measured)]
    return [*tables, setup(runs), _records([one]), *of_paper], figures, facts


def _bimodal_series(replicas: Sequence[Replica]) -> list[str]:
    """List the series of claims whose processes fall into two groups, with the machines."""
    labels: dict[str, list[str]] = {}
    for replica in replicas:
        statements = chain.from_iterable(claim.statements for claim in replica.claims.values())
        series = chain.from_iterable(statement.sampled for statement in statements)
        for name in dict.fromkeys(s.name for s in series if gates.is_bimodal(s.medians.values())):
            labels.setdefault(name, []).append(replica.label)
    return _with_machines(labels, len(replicas))


def _fewer_processes(record: Record) -> str:
    """Count the cases that fewer processes measured than planned; "" if there are none."""
    planned, count = record.protocol.processes.items(), 0
    for case in record.cases:
        processes = Counter(round_.policy for round_ in case.rounds if round_.status == "ok")
        count += any(0 < processes[policy] < number for policy, number in planned)
    return f"{count} of {len(record.cases)}" if count else ""


def _cited(original: Original, one: Replica, rows: Iterable[Row]) -> dict[str, Replica]:
    """Number the paper's machines that decide the claims of ``rows``: P1, P2 …"""
    used = {file for row in rows for file in row.paper.files} - one.files
    cited: dict[str, Replica] = {}
    for machine in original.machines:
        if machine.files & used:
            used -= machine.files
            cited[f"P{len(cited) + 1}"] = machine
    return cited


def _claims_of_one(one: Replica, rows: Iterable[Row], cited: Mapping[str, Replica]) -> Table:
    """Tabulate the claims of this machine beside the paper's numbers and machines."""
    legend = "; ".join(f"{name}: {machine.label}" for name, machine in cited.items())
    cells, notes = list[_Cells](), [f"Machines of the paper: {legend}."] if legend else []
    for row in rows:
        (claim,), paper, expected = row.claims.values(), row.paper, row.paper.expected
        machines = {**cited, "this machine": one}.items()
        names = [name for name, machine in machines if machine.files & {*paper.files}]
        cells.append({
            "Claim": f"{claim.title} (expected: {expected})" if expected else claim.title,
            "Agreement": AGREEMENTS[row.letters[one.label]][0] + _difference(row, claim),
            "This machine": _verdict(claim),
            "Paper": f"{_verdict(paper)}{' on ' if names else ''}{', '.join(names)}",
        })  # fmt: skip
        formula, count = claim.formulas[0], len(claim.formulas)
        labels = [*map(attrgetter("label"), (one, *cited.values()))]
        texts = {"only here": _only_in(claim, paper, labels)}
        texts["only in the paper"] = _only_in(paper, claim, labels)
        if " / " in formula and len(formula) <= _LONGEST and count <= _FEW:
            texts[f"first of {count} ratios" if count > 1 else "ratio"] = formula
        for heading, text in texts.items():
            if text and not row.cases:
                notes.append(f"“{claim.title}”, {heading}: {text}.")
    return replace(table_of("tbl-claims", cells, wide=True), notes=tuple(notes))


def _verdict(claim: Claim) -> str:
    repeated = claim.verdict in ("undecided", "not measured") and claim.verdict in claim.measured
    return claim.measured if repeated else f"{claim.verdict}: {claim.measured}"


def _difference(row: Row, claim: Claim) -> str:
    """Compare the number of comparisons with the paper's, or name the cases of means."""
    if claim.known != row.paper.known:
        return f": {claim.known} comparisons, {row.paper.known} in the paper"
    printed = "" if row.cases == row.cases_of_paper else f"; the paper: {row.cases_of_paper}"
    return f" (means of both over {row.cases}{printed})" if row.cases else ""


def _only_in(claim: Claim, other: Claim, machines: Iterable[str]) -> str:
    """Name compared cases, without machines, that the same claim on other data lacks."""
    names = dict.fromkeys(chain.from_iterable(map(formula_parts, claim.formulas)))
    others = {*chain.from_iterable(map(formula_parts, (*other.formulas, *machines)))}
    return ", ".join(first_few([name for name in names if name not in others]))


def _open_claims(rows: Iterable[Row]) -> Table:
    """Tabulate the comparisons that make claims contrary or undecided on one machine."""
    cells: list[_Cells] = []
    for row in rows:
        (claim,), (letter,) = row.claims.values(), row.letters.values()
        comparisons = sorted(open_comparisons(claim.statements), key=itemgetter("Verdict"))
        verdict = ""
        for n, comparison in enumerate(islice(comparisons, _MOST if letter in "CU" else 0)):
            cells.append({"Claim": "" if n else claim.title, **comparison})
            if comparison["Verdict"] == verdict:
                cells[-1]["Verdict"] = "as above"
            verdict = comparison["Verdict"]
    return table_of("tbl-open", cells, wide=True)


def _beside(original: Original, one: Replica) -> tuple[dict[str, Drawing], dict[str, Any]]:
    """Draw the key figure in two columns: this machine on the left, the paper's on the right."""
    figure = one.findings.shown_figure
    if figure is None:
        return {}, {}
    paper = next((machine for machine in original.machines if machine.about == one.about), one)
    published, columns = paper.findings.figures.get(figure.id), {one.label: figure.drawing.panels}
    other = published.drawing.panels if published else ()
    if paper.stored.file != one.stored.file and len(other) == len(figure.drawing.panels):
        columns[f"{paper.label}, paper"] = other
    panels = []
    for drawn in zip(*columns.values(), strict=True):
        for label, panel in zip(columns, drawn, strict=True):
            panels.append(replace(panel, title=label))
            if isinstance(panel, Scaling):  # only the paper explains points without a name
                named = tuple(filter(attrgetter("label"), panel.points))
                panels[-1] = replace(panel, title=label, points=named)
    drawing = replace(
        figure.drawing,
        panels=tuple(panels),
        rows=len(figure.drawing.panels),
        wide=True,
        height=len(figure.drawing.panels) * figure.drawing.height / figure.drawing.rows,
        same_axes=all(isinstance(panel, Scaling | Roofline) for panel in panels),
    )
    intervals = any(row[6] is not None for panel in panels for row in panel.rows())
    label = ", ".join([*columns][1:])
    facts = {"name": figure.name.replace("-", " "), "paper": label, "intervals": intervals}
    return {"fig-beside": drawing}, {"beside": facts}


def _commands(
    original: Original, replicas: Sequence[Replica], rows: Mapping[str, Row]
) -> dict[str, Any]:
    """List commands that repeat one record (``again``) or measure ``further`` claims or cases."""
    one = replicas[0].stored if len(replicas) == 1 else None
    threads = one.record.environment.threads if one else None
    again = dict.fromkeys(_command(run.record, threads) for run in (one.runs if one else ()))
    further = dict[str, None]()
    for row in rows.values():
        for pool in filter(None, map(original.records.get, row.paper.files)):
            if {"N", "P"}.intersection(row.letters.values()):
                further[_command(pool.record, threads)] = None
        for replica in replicas:
            if row.letters.get(replica.label) == "U":
                settings = _settings(replica, row.claims[replica.label], original.factors)
                further[_command(replica.stored.record, threads, [*settings])] = None
    return {"again": [*again], "further": [text for text in further if text not in again]}


def _settings(replica: Replica, claim: Claim, factors: Iterable[str]) -> Iterator[str]:
    """Yield the options that select the measured cases of a claim, by the given factors."""
    series = chain.from_iterable(statement.sampled for statement in claim.statements)
    samples = {process.samples for one in series for process in one.processes}
    levels: dict[str, dict[str, None]] = {}
    for case in chain.from_iterable(run.record.cases for run in replica.stored.runs):
        recorded = chain.from_iterable(map(dict.values, case.all_series))
        if not samples.isdisjoint(map(tuple, recorded)):
            for factor in case.factors.keys() & {*factors}:
                levels.setdefault(factor, {})[str(case.factors[factor])] = None
    for factor in sorted(levels):
        yield from ("--set", f"{factor}={','.join(levels[factor])}")


def _command(record: Record, threads: int | None, settings: Sequence[str] = ()) -> str:
    """Return the command of a record, or of cases selected by ``settings``, below its minutes."""
    # Label and threads describe a machine of the paper, not the machine of the reader.
    replaced = f"label|threads{'|set' if settings else ''}"
    command = re.sub(f"\0--({replaced})[\0=][^\0]*", "", "\0".join(record.command))
    words = [*command.split("\0"), *settings, *(("--threads", str(threads)) if threads else ())]
    lines = [""]
    for word in words:
        quoted = shlex.quote(word)
        if quoted != word and not re.search(r"""["$`\\!]""", word):
            quoted = f'"{word}"'  # PDFs would print curved single quotes
        if len(lines[-1]) + len(quoted) > 66:  # characters that fit into a line
            lines.append("  ")
        lines[-1] += f"{quoted} "
    comment = "cases of an undecided claim" if settings else f"{_minutes(record)} min"
    return f"# {comment}:\n" + "\\\n".join(lines).rstrip()


def _of_many(
    compared: MachineComparison[Any],
    replicas: Sequence[Replica],
    rows: Mapping[str, Row],
    of_paper: Sequence[str],
) -> _Contents:
    """Compare the claims, the measure and the records of many machines, or of none."""
    machines, names = [], dict[str, str]()
    for replica in replicas:
        names[replica.label] = f"{replica.label}{' *' if replica.label in of_paper else ''}"
        machine = measure(replica.stored, replica.label, compared)
        environment = replica.stored.record.environment
        conditions = compared.run(replica.stored, replica.label).conditions
        machine.cells["Processor or GPU"] = _hardware(environment)
        machine.cells["Threads"] = conditions or str(environment.threads)
        machine.cells["C library"] = properties(environment)["C library"]
        machines.append(machine)
    known = [machine for machine in machines if not machine.measured.missing]
    means = over_common_terms([machine.measured for machine in known])
    for machine, mean in zip(known, means, strict=True):
        machine.cells[compared.heading] = mean
        machines[machines.index(machine)] = machine._replace(measured=mean)
    machines = in_order(machines)
    names = {machine.name: names[machine.name] for machine in machines}
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
    claims, no_interval = _claims_of_many(replicas, rows, of_paper)
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
    """Count the machines, and also the records if a machine has several records."""
    environments = [replica.stored.record.environment for replica in replicas]
    count = len({*map(machine_id, environments)})
    machines = f"{count or 'no'} machine{'s' if count > 1 else ''}"
    if len(replicas) == count:
        return machines
    known = all(environment.gpu or environment.host for environment in environments)
    return f"{len(replicas)} records of {machines if known else f'{count} kinds of machine'}"


def _hardware(environment: Environment) -> str:
    """Name a GPU, or a CPU with family, model and last cache, since CPUs share names."""
    facts, name = properties(environment), environment.cpu.model
    if environment.gpu or isinstance(facts["Identity"], Missing):
        return environment.gpu.model if environment.gpu else f"{name}, model not recorded"
    identity = str(facts["Identity"]).partition(", stepping")[0]
    return f"{name}, {identity}, {str(facts['Caches']).rpartition(', ')[2]}"


def _claims_of_many(
    replicas: Sequence[Replica], rows: Mapping[str, Row], of_paper: Sequence[str]
) -> tuple[Table, str]:
    """Count machines by agreement, and predict the next effect or return a reason against it."""
    columns = {"Machines": {replica.label for replica in replicas}}
    if 0 < len(of_paper) < len(replicas):
        others = columns["Machines"].difference(of_paper)
        columns = {"Other records": others, "Paper's records": {*of_paper}}
    effects = [row.effects for row in rows.values()]
    no_interval = _machines_differ(replicas)
    if max(map(len, effects), default=0) < FEWEST_MACHINES:
        no_interval = f"fewer than {FEWEST_MACHINES} of them measured a claim of one comparison"
    table, numbers = list[_Cells](), dict[str, list[str]]()
    for n, row in enumerate(rows.values(), start=1):
        unit = row.paper.unit
        cells: _Cells = {"No.": str(n), "Claim": row.paper.title, "Paper": _verdict(row.paper)}
        for label, letter in row.letters.items():
            if letter == "B":
                note = f"decided in the paper from {label}, alone"
                numbers.setdefault(note, []).append(str(n))
        if row.cases:
            numbers.setdefault(f"means over {row.cases}", []).append(str(n))
        for heading, labels in columns.items():
            counts = Counter(map(row.letters.get, labels))
            texts = [f"{counts[letter]} {letter}" for letter in "ABPCUND" if counts[letter]]
            cells[heading] = ", ".join(texts)
        if any(effects):
            ends = [quantity_text(float(f"{end:.3g}"), unit) for end in sorted(row.effects)]
            cells["Range"] = " to ".join(dict.fromkeys((*ends[:1], *ends[-1:])))
        if not no_interval:
            interval = next_effect(row.effects) if row.effects else None
            bounds = ", ".join(plain(end, 3) for end in interval or ())
            cells["Next machine"] = f"[{bounds}] {unit}".removesuffix(" 1") if bounds else ""
        table.append(cells)
    texts = [f"No. {', '.join(group)}: {note}." for note, group in numbers.items()]
    return replace(table_of("tbl-claims", table, wide=True), notes=tuple(texts)), no_interval


def _machines_differ(replicas: Sequence[Replica]) -> str:
    """Return the reason why machines are not a sample of one population, or ""."""
    if _count(replicas).startswith(f"{len(replicas)} records"):
        return "several records are of one machine"
    differing: dict[str, set[object]] = {"C library": set(), "allocator": set()}
    for replica in replicas:
        environment = replica.stored.record.environment
        library, variables = properties(environment)["C library"], environment.variables.items()
        if isinstance(library, Missing):
            return f"the C library of {replica.label} is not recorded"
        differing["C library"].add(library)
        allocator = {item for item in variables if re.search("MALLOC|^LD_PRELOAD$", item[0])}
        differing["allocator"].add(frozenset(allocator))
    names = [name for name, values in differing.items() if len(values) > 1]
    return f"the machines differ in their {' and '.join(names)}" if names else ""


def _records(replicas: Sequence[Replica]) -> Table:
    """Tabulate the records: plan, measured cases, disturbances, and the measuring code."""
    rows: list[_Cells] = []
    for replica in replicas:
        for shard in replica.shards:
            record, disturbed = shard.record, gates.disturbed([shard.record])
            measured = sum(case.status == "ok" for case in record.cases)
            timed = sum(bool(case.samples("time")) for case in record.cases)
            bimodal = sum(any(gates.bimodal_times(case)) for case in record.cases)
            changed = "" if record.code.tree_clean else ", changed"
            rows.append({
                "Machine": replica.label,
                "Record": shard.file[-13:-5],
                "Plan": record.protocol.plan,
                "Minutes": _minutes(record),
                "Cases": f"{measured} of {len(record.cases)}",
                "Two groups": f"{bimodal} of {timed}" if timed else "",
                "Disturbed": "{} of {}".format(*disturbed) if disturbed else "not monitored",
                "Commit": (record.code.commit or "unknown")[:8] + changed,
                "Code hash": record.code.measuring_code[:8],
            })  # fmt: skip
    return table_of("tbl-records", rows, wide=True)


def _minutes(record: Record) -> str:
    """Print the minutes of a run; of a run that was ended early, say that it takes longer."""
    ended_early = "the run was ended" in "; ".join(record.environment.missing.values())
    return f"{'over ' if ended_early else ''}{record.minutes}"


def _missing_parts(replicas: Sequence[Replica]) -> list[str]:
    """List the missing parts of records, grouped by reason, with the machines."""
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
