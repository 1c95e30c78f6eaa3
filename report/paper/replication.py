"""The replication report: which claims of a paper hold on other machines.

One template prints the reports of all studies, without sentences of the studies.
"""

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeAlias

from figures.panels import Drawing, Grid, Roofline, Scaling
from report.core.missing import Missing
from report.core.records.record import Record
from report.core.records.store import Stored
from report.core.statistics.estimates import CONFIDENCE, FEWEST_MACHINES, Estimate, next_effect
from report.core.text.format import NO_BREAK, printed, quantity_text, scale_for
from report.evidence.runs import Run, described, machine_id
from report.paper.claims import first_few
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
from report.paper.tables import Content, Table, table_of
from report.quantity.operations import over_common_terms, range_of_terms

#: Characters of a command that fit into a line of a PDF.
_WIDTH: Final = 66
#: Fields of an environment whose absence is not reported, since no result depends on them.
_NO_PARTS: Final = ("cpu.governor", "gpu", "name")
#: Ending of the names of records that the paper uses, too.
_STAR: Final = " *"
#: Tables, drawings by id, and facts of a report.
_Contents: TypeAlias = tuple[list[Table], dict[str, Drawing], dict[str, Any]]
_Cells: TypeAlias = dict[str, Content]


@dataclass(frozen=True)
class Original:
    """The paper: findings, machines in its roles, their comparison, and its records by file.

    ``headline``: ids of the claims that are its title and abstract.
    """

    findings: Findings
    headline: Sequence[str]
    machines: Sequence[Replica]
    compared: MachineComparison[Any]
    records: Mapping[str, Stored]


def report(
    original: Original, replicas: Sequence[Replica], left_out: Iterable[str] = (), folder: str = ""
) -> Findings:
    """Compute the findings of the report.

    ``left_out``: reasons why records are not used.  ``folder``: name of the records' folder in
    commands, if it is not the project's.
    """
    rows = compare(replicas, original.findings)
    measured = {id: row for id, row in rows.items() if row.outcome != "N"}
    if len(replicas) == 1:
        tables, drawings, facts = _of_one(original, replicas[0], measured.values())
    else:
        tables, drawings, facts = _of_many(original, replicas, measured)
    records = [replica.stored.record for replica in replicas]
    of_original = [stored.record for stored in original.records.values()]
    newest = max(of_original or records, key=attrgetter("started"))
    headline = [row for id, row in measured.items() if id in original.headline]
    tested = sum(row.outcome != "B" for row in headline)
    days = sorted(record.started[:10] for record in records)
    claims = chain.from_iterable(row.claims.values() for row in rows.values())
    facts |= {
        "summary": summary(rows.values(), replicas),
        "records": str(len(replicas) or ""),
        "of_paper": str(sum(_is_used(replica, original) for replica in replicas) or ""),
        "days": [*dict.fromkeys((*days[:1], *days[-1:]))],
        "level": f"{100 * CONFIDENCE:.0f} %",
        "claims": _claims(original, replicas, rows),
        "headline": str(len(original.headline) or ""),
        "tested": str(tested or "none"),
        "disturbed": str(sum(_disturbance(claim) != "" for claim in claims) or ""),
        "folder": folder,
        "missing": _missing_parts(replicas),
        "left_out": list(left_out),
        "commit": (newest.code.commit or "unknown")[:12],
    }
    return Findings(
        values={},
        tables={table.id: replace(table, outward=True) for table in tables if table.rows},
        figures={id: Figure(id, drawing) for id, drawing in drawings.items()},
        claims={id: row.over_all for id, row in rows.items()},
        facts=facts,
        key_figure=next(reversed(drawings), ""),  # not the map, which is too wide for lists
    )


def _disturbance(claim: Claim) -> str:
    """Say that all processes of a claim's series, or of some series, were disturbed; else ""."""
    all_disturbed = list[bool]()
    for statement in claim.statements:
        for series in statement.sampled:
            all_disturbed.append(all(process.disturbed for process in series.processes))
    if not claim.known or not any(all_disturbed):
        return ""
    where = "" if all(all_disturbed) else " of some cases"
    return f"all processes{where} were disturbed"


def _is_used(replica: Replica, original: Original) -> bool:
    return not replica.files.isdisjoint(original.records)


def _claims(
    original: Original, replicas: Sequence[Replica], rows: Mapping[str, Row]
) -> list[dict[str, Any]]:
    """Describe each claim of the paper; ``outcome`` is empty if no machine here can test it."""
    claims: list[dict[str, Any]] = []
    for id, claim in original.findings.claims.items():
        row = rows.get(id)
        claims.append({
            "title": claim.title,
            "about": claim.about,
            "main": id in original.headline,
            "outcome": row.outcome if row else "",
            "reasons": _reasons(replicas, row) if row else [],
            "remedy": _remedy(original, claim),
        })  # fmt: skip
    return sorted(claims, key=itemgetter("about", "reasons"))


def _remedy(original: Original, claim: Claim) -> str:
    """Name the run that measures what the paper's claim reads."""
    records = [original.records[file].record for file in claim.files if file in original.records]
    options = max(map(_case_options, records), key=len, default="")
    return options or "a full run of the newest program"


def _case_options(record: Record) -> str:
    """Return the options that chose the cases of a run, such as ``--set batch=64``."""
    levels = re.findall("--set[\0=]([^\0]*)", "\0".join(record.command))
    return " ".join(f"--set {level}" for level in levels)


def _reasons(replicas: Iterable[Replica], row: Row) -> list[str]:
    """Explain why a claim is contrary, undecided or not measured, and name the machines."""
    labels: dict[str, list[str]] = {}
    for replica in replicas:
        letter = row.letters.get(replica.label, "")
        if letter in ("C", "U") or letter == row.outcome == "N":
            for reason in first_few(replica.reasons(row.claims[replica.label])) or ["supported"]:
                labels.setdefault(reason, []).append(replica.label)
    return _with_machines(labels, len(row.claims))


def _with_machines(labels: Mapping[str, Sequence[str]], count: int) -> list[str]:
    """Add the machines to each text, unless the text is true of all ``count`` machines."""
    texts = []
    for text, where in labels.items():
        on_some = f" (on {'; '.join(first_few(where))})"
        texts.append(text if len(where) == count else text + on_some)
    return texts


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
                # The name of a series leaves out the factor subject.
                factors = {name.replace("subject", "of"): n for name, n in case.factors.items()}
                name = described("case ", factors)
                reasons.setdefault(case.reason or case.status, []).append(name)
        for why, names in reasons.items():
            reason = re.sub(r"(\d{4,}) B\b", lambda n: quantity_text(int(n[1]), "B"), why)
            text = f"{', '.join(first_few(names))}: {reason.rstrip('.')}"
            labels.setdefault(text, []).append(replica.label)
    return _with_machines(labels, len(replicas))


def _records(original: Original, replicas: Iterable[Replica]) -> Table:
    """Tabulate the records: plan, measured cases, disturbances, and the measuring code."""
    rows: list[_Cells] = []
    # A changed file does not matter if a run of the paper measured with the same code.
    codes = [stored.record.code for stored in original.records.values()]
    clean = {code.measuring_code for code in codes if code.tree_clean}
    for replica in replicas:
        for shard in replica.shards:
            record, disturbed = shard.record, disturbed_of([shard.record])
            measured = sum(case.status == "ok" for case in record.cases)
            committed = record.code.tree_clean or record.code.measuring_code in clean
            commit = (record.code.commit or "unknown")[:8]
            rows.append({
                "Machine": replica.label,
                "Record": shard.file[-13:-5],
                "Plan": record.protocol.plan,
                "Minutes": str(record.minutes),
                "Cases": f"{measured} of {len(record.cases)}",
                "Disturbed": disturbed,
                "Commit": commit if committed else f"{commit}, changed",
                "Code hash": record.code.measuring_code[:8],
            })  # fmt: skip
    return table_of("tbl-records", rows, wide=True)


def _command(record: Record) -> str:
    """Return the command that measured a record, with a comment on the minutes that it took."""
    # A repetition needs no label, whose quotation marks a PDF would print curved.
    words = re.sub("\0--label[\0=][^\0]*", "", "\0".join(record.command)).split("\0")
    # Lines break before options only.
    text = re.sub(" (?!--)", NO_BREAK, shlex.join(words))
    lines = textwrap.wrap(
        text, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return f"# {record.minutes} min:\n" + " \\\n".join(lines).replace(NO_BREAK, " ")


# ------------------------------------------------------------------------------------ one machine


def _of_one(original: Original, one: Replica, rows: Iterable[Row]) -> _Contents:
    """Compare claims, key figure and tables of one machine with those of the paper."""
    paper = next((machine for machine in original.machines if machine.about == one.about), one)
    runs = [Run(one.stored, "This machine")]
    if paper.stored.file != one.stored.file:
        runs.append(Run(paper.stored, f"The paper's {paper.label}"))
    of_paper, names = list[Table](), dict[str, str]()
    for id, table in one.findings.tables.items():
        own_id = id.replace("tbl-", "tbl-paper-", 1)  # the report has tables of some of these names
        of_paper.append(replace(table, id=own_id))
        names[own_id] = id.removeprefix("tbl-").replace("-", " ")
    figures, beside = _beside(one, paper)
    facts = {
        "single": True,
        "where": one.label,
        "beside": beside,
        "commands": [*dict.fromkeys(_command(shard.record) for shard in one.shards)],
        "record": one.stored.file[-13:-5],
        "tables_of_paper": names,
    }
    tables = [_claims_of_one(original, one, rows), setup(runs), _records(original, [one])]
    return [*tables, *of_paper], figures, facts


def _claims_of_one(original: Original, one: Replica, rows: Iterable[Row]) -> Table:
    """Tabulate the claims that this machine measured beside the paper's numbers."""
    cells: list[_Cells] = []
    for row in rows:
        (claim,), (letter,) = row.claims.values(), row.letters.values()
        agreement, expected = AGREEMENTS[letter], row.paper.expected
        if letter == "P":
            agreement += f": {claim.known} comparisons, {row.paper.known} in the paper"
        elif row.cases:
            agreement += f" (means of both over {row.cases})"
        files = {*row.paper.files}
        names = [machine.label for machine in original.machines if files & machine.files]
        cells.append({
            "Claim": f"{claim.title} (expected: {expected})" if expected else claim.title,
            "Agreement": agreement,
            "This machine": "; ".join(filter(None, (_verdict(claim), _disturbance(claim)))),
            "Paper": _verdict(row.paper) + (f" on {'; '.join(first_few(names))}" if names else ""),
        })  # fmt: skip
    return table_of("tbl-claims", cells, wide=True)


def _verdict(claim: Claim) -> str:
    repeated = claim.verdict in ("undecided", "not measured") and claim.verdict in claim.measured
    return claim.measured if repeated else f"{claim.verdict}: {claim.measured}"


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
    name = figure.name.replace("-", " ")
    facts = {"name": name, "paper": label if label in columns else ""}
    return {"fig-beside": drawing}, facts


# --------------------------------------------------------------------------- many machines, or none


def _of_many(original: Original, replicas: Sequence[Replica], rows: Mapping[str, Row]) -> _Contents:
    """Compare the claims, the measure and the records of many machines, or of none."""
    compared, (machines, cases) = original.compared, _machines(original, replicas)
    figures: dict[str, Drawing] = {}
    if rows:
        letters = []
        for machine in machines:
            label = machine.name.removesuffix(_STAR)
            letters.append(tuple(row.letters.get(label, "") for row in rows.values()))
        names = tuple(machine.name for machine in machines)
        numbers, place = tuple(map(str, range(1, len(rows) + 1))), f"{__name__}._of_many"
        grid = Grid(names, numbers, tuple(letters), "".join(AGREEMENTS), "Claim")
        figures["fig-map"] = Drawing((grid,), wide=True, height=grid.height, place=place)
    known = [machine for machine in machines if not machine.measured.missing]
    if compared.heading and len(known) > 1:
        figures["fig-effects"] = replace(drawing_of(known, (), compared), wide=True)
    no_interval = _reason_against_interval(replicas, rows.values())
    commands = dict[str, None]()
    for replica in replicas:
        record = replica.stored.record
        command = f"python -m experiments run {record.study} {_case_options(record)}".rstrip()
        commands[command] = None
    facts = {
        "single": False,
        "commands": list(commands),
        "where": _count(replicas),
        "no_interval": no_interval,
        "compared": compared.heading,
        "meaning": compared.meaning,
        "cases": cases,
    }
    claims = _claims_of_many(rows.values(), predict=not no_interval)
    table = table_of("tbl-machines", [machine.cells for machine in machines], wide=True)
    return [claims, table, _records(original, replicas)], figures, facts


def _machines(original: Original, replicas: Iterable[Replica]) -> tuple[list[MeasuredMachine], str]:
    """Return the machines by the compared measure, and the common cases of its means."""
    known, unknown = list[MeasuredMachine](), list[MeasuredMachine]()
    for replica in replicas:
        name = replica.label + (_STAR if _is_used(replica, original) else "")
        machine = measure(replica.stored, name, original.compared)
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


def _count(replicas: Sequence[Replica]) -> str:
    """Count the machines, and also the records if a machine has several records."""
    count = len({machine_id(replica.stored.record.environment) for replica in replicas})
    machines = f"{count or 'no'} machine{'s' if count > 1 else ''}"
    return machines if len(replicas) == count else f"{len(replicas)} records of {machines}"


def _claims_of_many(rows: Iterable[Row], *, predict: bool) -> Table:
    """Count the machines by agreement; with ``predict``, predict the next machine's effect."""
    cells, notes = list[_Cells](), dict[str, list[str]]()
    for n, row in enumerate(rows, start=1):
        counts, unit = Counter(row.letters.values()), row.paper.unit
        texts = [f"{counts[letter]} {letter}" for letter in AGREEMENTS if counts[letter]]
        if disturbed := sum(_disturbance(claim) != "" for claim in row.claims.values()):
            texts[-1] += f" ({disturbed} from disturbed processes)"
        ends = [quantity_text(float(f"{end:.3g}"), unit) for end in row.effects]
        cells.append({
            "Claim": f"{n}. {row.paper.title}",
            "Paper": _verdict(row.paper),
            "Machines": ", ".join(texts),
            "Range": " to ".join(dict.fromkeys((*ends[:1], *ends[-1:]))),
        })  # fmt: skip
        if predict:
            cells[-1]["Next machine"] = _next_machine(row.effects, unit)
        if row.cases:
            notes.setdefault(row.cases, []).append(str(n))
    texts = [f"No. {', '.join(numbers)}: means over {cases}." for cases, numbers in notes.items()]
    return replace(table_of("tbl-claims", cells, wide=True), notes=tuple(texts))


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
    libraries = {properties(environment)["C library"] for environment in environments}
    allocators = set()
    for environment in environments:
        variables = environment.variables.items()
        allocators.add(frozenset(v for v in variables if re.search("MALLOC|^LD_PRELOAD$", v[0])))
    if max((len(row.effects) for row in rows), default=0) < FEWEST_MACHINES:
        return f"fewer than {FEWEST_MACHINES} of them measured a claim of one comparison"
    if len({*map(machine_id, environments)}) < len(environments):
        return "several records are of one machine"
    if any(isinstance(library, Missing) for library in libraries):
        return "the C library of some is not recorded"
    if len(libraries) > 1 or len(allocators) > 1:
        return "the machines differ in their C library or allocator"
    return ""
