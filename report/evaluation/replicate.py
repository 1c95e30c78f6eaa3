"""Compute a paper, or the replication report of a study.

A paper uses its edition, the records that ``editions.yaml`` chooses.  A replication report tests
the paper's claims on other records, each evaluated alone (a replica).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from report.core.errors import RidgepointError, reason_of
from report.core.records.files import PROJECT_DATA
from report.core.records.store import Stored
from report.evaluation import gather, is_report, study_of
from report.evaluation.gather import Chosen, StudyData
from report.evidence.runs import device_labels
from report.paper.findings import Findings, Inputs
from report.paper.manuscript import front_of
from report.paper.replicas import Replica, compare, summary, without_copies
from report.paper.replication import Original, report
from report.paper.study import Study
from report.studies import module_of


def compute_output(name: str, data: Path, requested: Sequence[str] = ()) -> tuple[Chosen, Findings]:
    """Choose the records of a paper, or of a replication report, and compute its findings.

    ``name`` is the name of the study, followed by ``-replication`` for a report.  A report
    describes the ``requested`` records, by default one record of each machine in ``data``.  Raises
    ``RidgepointError`` if a requested record, or no record at all, can be used.
    """
    if not is_report(name):
        return gather.compute_usable(name, data, requested)
    study = study_of(name)
    chosen = gather.with_gate_notes(study, choose_for_report(study, data, requested))
    replicas, refused = replicas_of(study, chosen.inputs)
    if refused and requested:
        raise RidgepointError(next(iter(refused.values())))
    unique, copies = without_copies(replicas)  # copies: file → reason
    used = set[str]().union(*(replica.files for replica in replicas))
    listing: list[Mapping[str, Any]] = []
    left_out = [*refused.values()]
    for record in chosen.listing:
        file = str(record["file"])
        if file in copies:
            listing.append({**record, "used": False, "why": copies[file]})
            left_out.append(f"{file}: {copies[file]}")
        elif file in used or not requested:
            listing.append(record)
        if record.get("left_out") and not requested:
            left_out.append(record["why"])
    notices: list[str] = []
    for notice in chosen.notices:
        if not requested or any(file in notice for file in used):
            notices.append(notice)
    records = tuple(replica.stored for replica in unique)
    inputs = replace(chosen.inputs, records=records, imported=())
    origin = {**chosen.origin, "asked": [], "imported": (), "records": list(inputs.files)}
    origin["devices"] = [replica.label for replica in unique]
    chosen = replace(chosen, inputs=inputs, origin=origin, listing=listing, notices=(*notices,))
    return chosen, report(read_original(study), unique, left_out)


def atlas_of(study: str, data: Path, paper: Chosen, findings: Findings) -> dict[str, Any]:
    """Evaluate a paper's claims on every machine of ``data``, for the site's page "Atlas".

    Returns {} if no record is usable, else a dictionary:

    - ``machines``: labels of the machines;
    - ``claims``: title of each claim, and a letter of ``replicas.AGREEMENTS`` per machine, empty if
      the claim was not evaluated on the machine;
    - ``line``: words on the machines that the paper does not describe: the outcomes of the claims,
      with "Replicated" if at least half of the claims are supported or refuted on one of these
      machines, and the number of records that measure other cases.
    """
    try:
        chosen = choose_for_report(study, data, study_data=paper.study_data)
    except RidgepointError:
        return {}
    replicas, _ = replicas_of(study, chosen.inputs, claims_only=True)
    replicas = [replica for replica in replicas if replica.claims]
    keys_in_paper = {item.record.environment.key for item in paper.inputs.record_by_role.values()}
    others = [r for r in replicas if r.stored.record.environment.key not in keys_in_paper]
    measuring: list[Replica] = []
    for replica in others:
        if any(claim.measured_count for claim in replica.claims.values()):
            measuring.append(replica)
    line = ""
    if measuring:
        rows = compare(measuring, findings).values()
        decided = sum(row.deciding_count > 0 for row in rows)
        verb = "Replicated" if 2 * decided >= len(rows) else "Measured"
        machines = f"{len(measuring)} further machine{'s' if len(measuring) > 1 else ''}"
        line = f"{verb} on {machines}. {summary(rows, measuring)}. "
    if count := len(others) - len(measuring):
        line += f"{count} further record{'s measure' if count > 1 else ' measures'} other cases."
    labels = [replica.label for replica in replicas]
    claims: list[dict[str, Any]] = []
    for row in compare(replicas, findings).values():
        letters = [row.letters.get(label, "") for label in labels]
        claims.append({"title": row.paper.title, "letters": letters})
    return {"machines": labels, "claims": claims, "line": line.rstrip()}


def choose_for_report(
    study: str, data: Path, requested: Sequence[str] = (), study_data: StudyData | None = None
) -> Chosen:
    """Choose only the ``requested`` records, by default one per machine; ignore the edition.

    ``study_data`` are data that were read before; by default this function reads the data.
    """
    study_data = study_data or gather.read_study_data(study, data)
    files = [item.file for item in study_data.measured if item.file not in requested]
    refused = dict.fromkeys(files, "not asked for") if requested else {}
    return gather.choose_records(
        study, data, requested, refused, editions={}, study_data=study_data
    )


def read_original(study: str) -> Original:
    """Compute the paper from the project's records, and find the records that its text names."""
    chosen, findings = gather.compute_usable(study, PROJECT_DATA)
    machines, _ = replicas_of(study, chosen.inputs.in_roles())
    compared = import_module(module_of(study)).study.compared
    template = PROJECT_DATA.parent / "templates" / "papers" / f"{study}.qmd.j2"
    text, front = template.read_text(encoding="utf-8"), front_of(template)
    records = {i.file: i for i in chosen.study_data.measured if i.short_digest in text}
    for stored in chosen.inputs.records:
        for run in stored.runs:
            records |= dict.fromkeys(run.files, stored)
    title, headline = str(front.get("title", "")), front.get("headline") or ()
    return Original(findings, title, headline, machines, compared, records)


def replicas_of(
    study: str, inputs: Inputs, *, claims_only: bool = False
) -> tuple[list[Replica], dict[str, str]]:
    """Evaluate the study on each record alone.

    Also returns, as file → reason, the records on which the study's code fails.  ``claims_only``
    omits figures, tables and values.
    """
    declared: Study[Any] = import_module(module_of(study)).study
    replicas: list[Replica] = []
    refused: dict[str, str] = {}
    for stored, name in zip(inputs.records, distinct_labels(inputs.records), strict=True):
        try:
            findings = declared.evaluate(inputs, stored, claims_only=claims_only)
            threads = stored.record.environment.threads_text
            # Threads and arithmetic of the cases, such as "1 or 2 threads", replace ", 4 threads".
            conditions = declared.compared.run(stored, name).conditions
            label = name.replace(threads, f", {conditions}") if conditions else name
            replicas.append(Replica(stored, label, findings))
        except Exception as error:  # one bad record must not stop the evaluation of other records
            reason = reason_of(error)
            if stored.file not in reason.partition(": ")[0]:
                reason = f"data/{stored.file}: {reason}"
            refused[stored.file] = reason
    return replicas, refused


def distinct_labels(records: Sequence[Stored]) -> list[str]:
    """Label each record's device, such as ``Intel Xeon (model 85), 4 threads, record 1a2b3c``.

    The model number is added if processors of different models have the same name.  If two devices
    still have the same label (see ``device_labels``), the digest in the record's name is added.
    """
    environments = [stored.record.environment for stored in records]
    distinct: list[str] = []
    for stored, own, label in zip(records, environments, device_labels(records), strict=True):
        name = own.label.removesuffix(own.threads_text)
        models = set[tuple[int | None, int | None]]()  # of all processors with this name
        for other in environments:
            if other.host and other.label == f"{name}{other.threads_text}":
                models.add((other.host.family, other.host.model))
        needs_number = own.host and not own.gpu and len(models) > 1
        number = f" (model {own.host.model})" if own.host and needs_number else ""
        with_number = label.replace(name, f"{name}{number}", 1)
        distinct.append(with_number.replace(f" ({own.key})", f", record {stored.short_digest}"))
    return distinct
