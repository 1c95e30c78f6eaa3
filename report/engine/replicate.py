"""Compute a paper, or the replication report of a study."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from report.core.errors import RidgepointError, reason_of
from report.core.records.files import PROJECT
from report.core.records.store import Stored
from report.engine.gather import Chosen, Folder, choose, compute_usable, read_folder
from report.engine.steps import ROOT, is_report, study_of
from report.evidence.runs import labels
from report.paper.findings import Findings, Inputs
from report.paper.replicas import Replica, compare, without_copies
from report.paper.replication import Original, report
from report.paper.study import Study
from report.studies import module_of

#: Claims that are the title and the abstract of a paper, in its template.
_HEADLINE: Final = re.compile(r"^headline: *\[(.*?)\]", re.MULTILINE | re.DOTALL)


def compute_output(name: str, data: Path, requested: Sequence[str] = ()) -> tuple[Chosen, Findings]:
    """Choose the records of a paper, or of a replication report, and compute its findings.

    ``name`` is a study's, or its report's, which ends with ``-replication``.  Raises
    ``RidgepointError`` if a requested record, or all records, cannot be used.
    """
    compute = compute_report if is_report(name) else compute_usable
    return compute(name, data, requested)


def compute_report(name: str, data: Path, requested: Sequence[str]) -> tuple[Chosen, Findings]:
    """Report on the ``requested`` records, by default on one of each machine in ``data``.

    Raises ``RidgepointError`` for a requested record that cannot be used.
    """
    study = study_of(name)
    chosen = choose_for_report(study, data, requested)
    original = read_original(study)
    replicas, refused = replicas_of(study, chosen.inputs)
    if refused and requested:
        raise RidgepointError(next(iter(refused.values())))
    unique, copies = without_copies(replicas)
    listing, notices, left_out = [*chosen.listing], chosen.notices, list[str]()
    if requested:
        used = {file for replica in replicas for file in replica.files}
        listing = [record for record in listing if record["file"] in used]
        notices = tuple(notice for notice in notices if any(map(notice.__contains__, used)))
    else:
        left_out = [record["why"] for record in listing if record.get("left_out")]
        left_out += refused.values()
    copied = {f: copies[r.label] for r in replicas if r.label in copies for f in r.files}
    for number, record in enumerate(listing):
        if why := copied.get(str(record["file"])):
            listing[number] = {**record, "used": False, "why": f"not counted: {why}"}
    records = tuple(replica.stored for replica in unique)
    inputs = replace(chosen.inputs, records=records, imported=())
    origin = {**chosen.origin, "asked": [], "imported": (), "records": list(inputs.files)}
    origin["devices"] = [replica.label for replica in unique]
    reported = replace(chosen, inputs=inputs, origin=origin, notices=notices, listing=listing)
    return reported, report(original, unique, left_out, copies)


def atlas_of(study: str, data: Path, paper: Chosen, findings: Findings) -> dict[str, Any]:
    """The verdict on each claim about a machine, on every machine of ``data``.

    ``line`` counts claims by their outcome on all machines that the paper does not describe.
    """
    try:
        chosen = choose_for_report(study, data, folder=paper.folder)
    except RidgepointError:
        return {}  # without a usable record
    replicas, _ = replicas_of(study, chosen.inputs, claims_only=True)
    in_paper = {item.record.environment.key for item in paper.inputs.record_by_role.values()}
    others = [r for r in replicas if r.stored.record.environment.key not in in_paper and r.claims]
    rows = compare(others, findings).values()
    letters = Counter(row.outcome for row in rows)
    counts = {
        "the same as in the paper": letters["A"],
        "the same in part": letters["P"],
        "contrary": letters["C"],
        "undecided": letters["U"] + letters["D"],
        "not measured": letters["N"],
    }
    parts = ", ".join(f"{count:,} {words}" for words, count in counts.items())
    line = f"Replicated on {len(others)} further machine{'s' if others[1:] else ''}. Verdicts on "
    line += f"{len(rows)} claim{'s' if len(rows) > 1 else ''}: {parts}."
    labels = [replica.label for replica in replicas if replica.claims]
    claims = []
    for row in compare(replicas, findings).values():
        by_machine = [row.letters.get(label, "") for label in labels]
        claims.append({"title": row.paper.title, "letters": by_machine})
    return {"machines": labels, "claims": claims, "line": line if others else ""}


def choose_for_report(
    study: str, data: Path, requested: Sequence[str] = (), folder: Folder | None = None
) -> Chosen:
    """Choose only the ``requested`` records, by default one of each machine, without an edition.

    Without a ``folder`` of data, that of the study in ``data`` is read.
    """
    folder, others = folder or read_folder(study, data), dict[str, str]()
    if requested:
        files = (item.file for item in folder.measured)
        others = {file: "not asked for" for file in files if file not in requested}
    return choose(study, data, requested, others, editions={}, folder=folder)


def read_original(study: str) -> Original:
    """Compute the paper of the project's own records, with its machine of each kind."""
    declared = _declared(study)
    chosen, _ = compute_usable(study, PROJECT)
    findings = declared.findings(chosen.inputs)
    replicas, _ = replicas_of(study, chosen.inputs.in_roles())
    measured = {file: r.record for s in chosen.inputs.records for r in s.runs for file in r.files}
    machines = {replica.about: replica for replica in reversed(replicas)}
    template = (ROOT / "templates" / "papers" / f"{study}.qmd.j2").read_text("utf-8")
    headline = _HEADLINE.search(template)
    ids = [
        id for id in re.findall(r"[\w-]+", headline[1] if headline else "") if id in findings.claims
    ]
    return Original(findings, ids, machines, replicas, declared.compared, measured)


def replicas_of(
    study: str, inputs: Inputs, *, claims_only: bool = False
) -> tuple[list[Replica], dict[str, str]]:
    """Evaluate each record alone; also return the reasons of those that fail, by file."""
    declared = _declared(study)
    replicas: list[Replica] = []
    refused: dict[str, str] = {}
    for stored, label in zip(inputs.records, labels_by_day(inputs.records), strict=True):
        try:
            findings = declared.evaluate(inputs, stored, claims_only=claims_only)
            replicas.append(Replica(stored, label, findings))
        except Exception as error:  # so that one bad record stops no other
            reason = reason_of(error)
            named = stored.file in reason.partition(": ")[0]
            refused[stored.file] = reason if named else f"data/{stored.file}: {reason}"
    return replicas, refused


def labels_by_day(records: Sequence[Stored]) -> list[str]:
    """Label each record's device; tell equal labels apart by day, and by time on the same day."""
    days, times = list[str](), list[str]()
    for stored, name in zip(records, labels(records), strict=True):
        key, started = stored.record.environment.key, datetime.fromisoformat(stored.record.started)
        days.append(name.replace(f" ({key})", f", {started:%-d %b %Y}"))
        times.append(name.replace(f" ({key})", f", {started:%-d %b %Y, %H:%M:%S} UTC"))
    return [time if days.count(day) > 1 else day for day, time in zip(days, times, strict=True)]


def _declared(study: str) -> Study[Any]:
    declared: Study[Any] = import_module(module_of(study)).study
    return declared
