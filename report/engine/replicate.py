"""Compute a paper, or the replication report of a study."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from report.core.errors import RidgepointError, reason_of
from report.core.records.files import PROJECT
from report.core.records.record import Head
from report.core.records.store import survey
from report.engine.gather import Chosen, choose, compute_usable
from report.engine.steps import is_report, study_of
from report.evidence.runs import labels
from report.paper.findings import Findings, Inputs
from report.paper.judgements import Replica, compare, letters_of
from report.paper.replication import Original, report
from report.paper.study import Study
from report.studies import module_of


def compute_room(room: str, data: Path, requested: Sequence[str] = ()) -> tuple[Chosen, Findings]:
    """Choose the records of the paper or replication report ``room``, and compute its findings.

    Raises ``RidgepointError`` if a requested record, or all records, cannot be used.
    """
    compute = compute_report if is_report(room) else compute_usable
    return compute(room, data, requested)


def compute_report(room: str, data: Path, requested: Sequence[str]) -> tuple[Chosen, Findings]:
    """Report on the ``requested`` records, by default on one of each machine in ``data``.

    Raises ``RidgepointError`` for a requested record that cannot be used.
    """
    study = study_of(room)
    chosen = choose_for_report(study, data, requested)
    original = read_original(study)
    replicas, refused = replicas_of(study, chosen.inputs)
    if refused and requested:
        raise RidgepointError(next(iter(refused.values())))
    listing, notices, left_out = chosen.listing, chosen.notices, list[str]()
    if requested:
        used = {file for replica in replicas for file in replica.files}
        listing = [record for record in listing if record["file"] in used]
        notices = tuple(notice for notice in notices if any(map(notice.__contains__, used)))
    else:
        left_out = [record["why"] for record in listing if record.get("left_out")]
        left_out += refused.values()
    records = tuple(replica.stored for replica in replicas)
    inputs = replace(chosen.inputs, records=records, imported=())
    origin = {**chosen.origin, "asked": [], "imported": (), "records": list(inputs.files)}
    reported = replace(chosen, inputs=inputs, origin=origin, notices=notices, listing=listing)
    return reported, report(original, replicas, left_out)


def atlas_of(study: str, data: Path, paper: Chosen, findings: Findings) -> dict[str, Any]:
    """The verdict on each claim about a machine, on every machine of ``data``.

    ``line`` counts the verdicts on all machines which the paper itself does not describe.
    """
    try:
        chosen = choose_for_report(study, data, earlier=paper)
    except RidgepointError:
        return {}  # without a usable record
    replicas, _ = replicas_of(study, chosen.inputs, claims_only=True)
    in_paper = {item.record.environment.key for item in paper.inputs.record_by_role.values()}
    others = [r for r in replicas if r.stored.record.environment.key not in in_paper and r.claims]
    decided = compare(others, findings)
    letters = Counter(judgement.letter for group in decided.values() for judgement in group)
    counts = {
        "the same as in the paper": letters["A"],
        "contrary": letters["C"],
        "undecided": letters["U"],
        "not measured": letters["N"],
    }
    parts = ", ".join(f"{count:,} {words}" for words, count in counts.items())
    line = f"Replicated on {len(others)} further machine{'s' if others[1:] else ''}. Verdicts on "
    line += f"{len(decided)} claim{'s' if len(decided) > 1 else ''}: {parts}."
    claims = [
        {"title": judgements[0].claim.title, "letters": letters_of(judgements, replicas)}
        for judgements in compare(replicas, findings).values()
    ]
    return {
        "machines": [replica.label for replica in replicas],
        "claims": claims,
        "line": line if others else "",
    }


def choose_for_report(
    study: str, data: Path, requested: Sequence[str] = (), earlier: Chosen | None = None
) -> Chosen:
    """Choose only the ``requested`` records, by default one of each machine, without an edition.

    Files that an ``earlier`` choice has read are not read again.
    """
    others: Mapping[str, str] = MappingProxyType({})
    if requested:
        files = (item.file for item in survey(study, data, Head)[0])
        others = {file: "not asked for" for file in files if file not in requested}
    return choose(study, data, requested, others, editions={}, earlier=earlier)


def read_original(study: str) -> Original:
    """Compute the paper of the project's own records, with its machine of each kind."""
    declared = _declared(study)
    chosen, _ = compute_usable(study, PROJECT)
    findings = declared.findings(chosen.inputs)
    records = {}
    for role, stored in chosen.inputs.record_by_role.items():
        if role in ("cpu", "gpu"):
            records[stored.file] = stored
    replicas, _ = replicas_of(study, replace(chosen.inputs, records=tuple(records.values())))
    commands: dict[str, str] = {}
    for stored in chosen.inputs.records:
        for run in stored.runs:
            commands |= dict.fromkeys(run.files, shlex.join(run.record.command))
    machines = {replica.about: replica for replica in reversed(replicas)}
    return Original(findings, machines, declared.compared, commands)


def replicas_of(
    study: str, inputs: Inputs, *, claims_only: bool = False
) -> tuple[list[Replica], dict[str, str]]:
    """Evaluate each record alone; also return the reasons of those that fail, by file."""
    declared = _declared(study)
    replicas: list[Replica] = []
    refused: dict[str, str] = {}
    for stored, label in zip(inputs.records, labels(inputs.records), strict=True):
        try:
            findings = declared.evaluate(inputs, stored, claims_only=claims_only)
            replicas.append(Replica(stored, label, findings))
        except Exception as error:  # so that one bad record stops no other
            reason = reason_of(error)
            named = stored.file in reason.partition(": ")[0]
            refused[stored.file] = reason if named else f"data/{stored.file}: {reason}"
    return replicas, refused


def _declared(study: str) -> Study[Any]:
    declared: Study[Any] = import_module(module_of(study)).study
    return declared
