"""Compute a paper, or the replication report of a study."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from report.core.errors import RidgepointError, reason_of
from report.core.records.files import PROJECT_DATA
from report.core.records.store import Stored
from report.evaluation import is_report, study_of
from report.evaluation.gather import (
    Chosen,
    StudyData,
    choose_records,
    compute_usable,
    read_study_data,
    with_gate_notes,
)
from report.evidence.runs import device_labels
from report.paper.findings import Findings, Inputs
from report.paper.manuscript import front_of
from report.paper.replicas import Replica, compare, summary, without_copies
from report.paper.replication import Original, report
from report.paper.study import Study
from report.studies import module_of


def compute_output(name: str, data: Path, requested: Sequence[str] = ()) -> tuple[Chosen, Findings]:
    """Choose the records of a paper, or of a replication report, and compute its findings.

    ``name`` is a study's, or its report's, which ends with ``-replication``.  A report is on the
    ``requested`` records, by default on one of each machine in ``data``.  Raises
    ``RidgepointError`` if a requested record, or all records, cannot be used.
    """
    if not is_report(name):
        return compute_usable(name, data, requested)
    study = study_of(name)
    chosen = with_gate_notes(study, choose_for_report(study, data, requested))
    replicas, refused = replicas_of(study, chosen.inputs)
    if refused and requested:
        raise RidgepointError(next(iter(refused.values())))
    unique, copies = without_copies(replicas)
    used = {file for replica in replicas for file in replica.files}
    listing, left_out = list[Mapping[str, Any]](), [*refused.values()]
    for record in chosen.listing:
        file = str(record["file"])
        if file in copies:
            listing.append({**record, "used": False, "why": copies[file]})
            left_out.append(f"{file}: {copies[file]}")
        elif file in used or not requested:
            listing.append(record)
        if record.get("left_out") and not requested:
            left_out.append(record["why"])
    notices = [n for n in chosen.notices if not requested or any(map(n.__contains__, used))]
    inputs = replace(chosen.inputs, records=tuple(r.stored for r in unique), imported=())
    origin = {**chosen.origin, "asked": [], "imported": (), "records": list(inputs.files)}
    origin["devices"] = [replica.label for replica in unique]
    chosen = replace(chosen, inputs=inputs, origin=origin, listing=listing, notices=(*notices,))
    return chosen, report(read_original(study), unique, left_out)


def atlas_of(study: str, data: Path, paper: Chosen, findings: Findings) -> dict[str, Any]:
    """The verdict on each claim about a machine, on every machine of ``data``.

    ``line`` counts claims by their outcome on all machines that the paper does not describe and
    whose records measure cases of its claims; it counts the other records.  The paper counts as
    replicated if these machines decide half of the claims that they can test.
    """
    try:
        chosen = choose_for_report(study, data, folder=paper.folder)
    except RidgepointError:
        return {}  # without a usable record
    replicas, _ = replicas_of(study, chosen.inputs, claims_only=True)
    replicas = [replica for replica in replicas if replica.claims]
    in_paper = {item.record.environment.key for item in paper.inputs.record_by_role.values()}
    others = [r for r in replicas if r.stored.record.environment.key not in in_paper]
    measuring = [r for r in others if any(map(attrgetter("known"), r.claims.values()))]
    claims, line = list[dict[str, Any]](), ""
    rows = compare(measuring, findings).values()
    if measuring:
        verb = (
            "Replicated" if 2 * sum(row.deciding > 0 for row in rows) >= len(rows) else "Measured"
        )
        machines = f"{len(measuring)} further machine{'s' if measuring[1:] else ''}"
        line = f"{verb} on {machines}. {summary(rows, measuring)}. "
    if count := len(others) - len(measuring):
        line += f"{count} further record{'s measure' if count > 1 else ' measures'} other cases."
    labels = [replica.label for replica in replicas]
    for row in compare(replicas, findings).values():
        letters = [row.letters.get(label, "") for label in labels]
        claims.append({"title": row.paper.title, "letters": letters})
    return {"machines": labels, "claims": claims, "line": line.rstrip()}


def choose_for_report(
    study: str, data: Path, requested: Sequence[str] = (), folder: StudyData | None = None
) -> Chosen:
    """Choose only the ``requested`` records, by default one of each machine, without an edition.

    Without a ``folder`` of data, that of the study in ``data`` is read.
    """
    folder = folder or read_study_data(study, data)
    files = [item.file for item in folder.measured if requested and item.file not in requested]
    others = dict.fromkeys(files, "not asked for")
    return choose_records(study, data, requested, others, editions={}, folder=folder)


def read_original(study: str) -> Original:
    """Compute the paper of the project's records; records that its template names are used, too."""
    chosen, findings = compute_usable(study, PROJECT_DATA)
    machines, _ = replicas_of(study, chosen.inputs.in_roles())
    compared = import_module(module_of(study)).study.compared
    template = PROJECT_DATA.parent / "templates" / "papers" / f"{study}.qmd.j2"
    text, front = template.read_text(encoding="utf-8"), front_of(template)
    records = {item.file: item for item in chosen.folder.measured if item.short_digest in text}
    records |= {file: s for s in chosen.inputs.records for r in s.runs for file in r.files}
    title, headline = str(front.get("title", "")), front.get("headline") or ()
    return Original(findings, title, headline, machines, compared, records)


def replicas_of(
    study: str, inputs: Inputs, *, claims_only: bool = False
) -> tuple[list[Replica], dict[str, str]]:
    """Evaluate each record alone; also return the reasons of those that fail, by file."""
    declared: Study[Any] = import_module(module_of(study)).study
    replicas: list[Replica] = []
    refused: dict[str, str] = {}
    for stored, name in zip(inputs.records, distinct_labels(inputs.records), strict=True):
        try:
            findings = declared.evaluate(inputs, stored, claims_only=claims_only)
            threads = stored.record.environment.threads_text
            conditions = declared.compared.run(stored, name).conditions
            label = name.replace(threads, f", {conditions}") if conditions else name
            replicas.append(Replica(stored, label, findings))
        except Exception as error:  # so that one bad record stops no other
            reason = reason_of(error)
            named = stored.file in reason.partition(": ")[0]
            refused[stored.file] = reason if named else f"data/{stored.file}: {reason}"
    return replicas, refused


def distinct_labels(records: Sequence[Stored]) -> list[str]:
    """Label each record's device; tell equal labels apart by the digest in the record's name.

    Different processors of one name get the number of their model.
    """
    names, environments = list[str](), [stored.record.environment for stored in records]
    for stored, own, label in zip(records, environments, device_labels(records), strict=True):
        short, host = own.label.removesuffix(own.threads_text), own.host
        same = (e.host for e in environments if e.host and e.label == f"{short}{e.threads_text}")
        models = {(other.family, other.model) for other in same}
        number = f" (model {host.model})" if host and not own.gpu and len(models) > 1 else ""
        name = label.replace(short, f"{short}{number}", 1)
        names.append(name.replace(f" ({own.key})", f", record {stored.short_digest}"))
    return names
