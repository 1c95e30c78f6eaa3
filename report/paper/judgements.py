"""The claims of a paper on other machines: the verdict on each, compared with the paper's.

A record is evaluated by the parts of the study that are about its kind of machine.  Only claims
that read the record count; what the paper says of its source or of pairs of runs is no claim about
a machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from report.core.records.choice import plan_text
from report.core.records.record import Record
from report.core.records.store import Stored
from report.instruments import gates
from report.paper.claims import first_few
from report.paper.findings import Claim, Findings

#: Letters of the map, in the order of a summary, and the verdict compared with the paper's.
AGREEMENTS: Final[Mapping[str, str]] = {
    "A": "same",
    "C": "contrary",
    "U": "undecided",
    "N": "not measured",
    "D": "without a verdict in the paper",
}
DECIDED: Final = ("supported", "refuted")
#: Reasons that speak of a data directory → what is true of one record.
_REASONS: Final[Mapping[str, str]] = {
    "no run of the experiment is in the data directory": "the record holds no such cases",
    "nothing to compare was recorded": "the record holds no such cases",
}
#: Fields that are missing in most records and that no result rests on.
_NO_PARTS: Final = ("cpu.governor", "gpu", "name")
#: Beginnings of a record's missing fields → words.
_PARTS: Final = {"policies.": "memory policy ", "ceilings.": "ceilings "}
_ENDED: Final = "the run was ended before this was measured"


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
    def shards(self) -> list[Stored]:
        """The record and all that are pooled with it, in the shards that were measured."""
        return [shard for run in self.stored.runs for shard in run.shards]

    @property
    def files(self) -> list[str]:
        """The files of all shards."""
        return [shard.file for shard in self.shards]

    @property
    def minutes(self) -> int:
        """The minutes that the runs took together."""
        return sum(minutes_of(shard.record) for shard in self.shards)

    @property
    def disturbed(self) -> tuple[int, int] | None:
        """Disturbed and monitored measurements; None if none was monitored."""
        return gates.disturbed(run.record for run in self.stored.runs)

    @property
    def claims(self) -> dict[str, Claim]:
        """Claims that read this record, and unmeasured claims."""
        files, claims = set(self.files), {}
        for id, claim in self.findings.claims.items():
            if claim.verdict == "not measured" or files.intersection(claim.files):
                claims[id] = claim
        return claims


@dataclass(frozen=True)
class Judgement:
    """A claim on one machine, beside the same claim of the paper."""

    replica: Replica
    claim: Claim
    paper: Claim

    @property
    def letter(self) -> str:
        """One of ``AGREEMENTS``."""
        if self.claim.verdict == "undecided":
            return "U"
        if self.claim.verdict not in DECIDED:
            return "N"
        if self.paper.verdict not in DECIDED:
            return "D"
        return "A" if self.paper.verdict == self.claim.verdict else "C"

    @property
    def agreement(self) -> str:
        """The agreement in a word or two."""
        return AGREEMENTS[self.letter]

    @property
    def reasons(self) -> list[str]:
        """Reasons why the claim is not supported, without the name of the machine."""
        texts = self.claim.reasons
        for name in (self.replica.label, self.replica.stored.record.environment.label):
            texts = tuple(text.replace(f" on {name}", "") for text in texts)
        return list(dict.fromkeys(_REASONS.get(text, text).rstrip(".") for text in texts))


#: The judgements on each claim, by its id.
Judgements: TypeAlias = Mapping[str, Sequence[Judgement]]


def compare(replicas: Iterable[Replica], paper: Findings) -> Judgements:
    """Compare each claim with the paper's, on each machine of the kind that it is about."""
    judgements: dict[str, list[Judgement]] = {}
    for replica in replicas:
        for id, claim in replica.claims.items():
            judgement = Judgement(replica, claim, paper.claims[id])
            judgements.setdefault(id, []).append(judgement)
    return judgements


def letters_of(judgements: Iterable[Judgement], replicas: Iterable[Replica]) -> list[str]:
    """A letter for each machine; empty where the claim is about another kind."""
    letters = {judgement.replica.stored.file: judgement.letter for judgement in judgements}
    return [letters.get(replica.stored.file, "") for replica in replicas]


def outcome(judgements: Sequence[Judgement]) -> str:
    """The letter of a claim on all machines: A if all that decide it agree with the paper."""
    if judgements[0].paper.verdict not in DECIDED:
        return "D"
    letters = {judgement.letter for judgement in judgements}
    if "A" in letters and "C" not in letters:
        return "A"
    return next(letter for letter in "CUN" if letter in letters)


def summary(replicas: Sequence[Replica], paper: Findings) -> str:
    """Count the claims with the paper's verdict by kind of machine; list contradicting ones."""
    lines = []
    for about in dict.fromkeys(replica.about for replica in replicas):
        group = [replica for replica in replicas if replica.about == about]
        titles: dict[str, list[str]] = {}
        for judgements in compare(group, paper).values():
            titles.setdefault(outcome(judgements), []).append(judgements[0].claim.title)
        counts = {letter: len(titles.get(letter, ())) for letter in AGREEMENTS}
        decided = sum(counts.values()) - counts["D"]
        if not decided:
            lines.append(f"The paper decides no claim about {about} that one run can test")
            continue
        where = (
            f"every one of {len(group)} machines that decides them" if group[1:] else group[0].label
        )
        line = (
            f"{counts['A']} of {decided} claims about {about} have the paper's verdict on {where}"
        )
        for letter in "CUND":
            if letter != "D" or counts[letter]:
                line += f"; {counts[letter]} {AGREEMENTS[letter]}"
            if letter == "C" and counts[letter]:
                line += f" ({'; '.join(first_few(titles[letter]))})"
        lines.append(line)
    return ". ".join(lines) or "0 of 0 claims: no record of this study"


def completeness(replica: Replica) -> str:
    """Describe the measured share of a run's plan, as far as the record contains it."""
    record, timed = replica.stored.record, replica.disturbed
    lacking = [
        _part_name(name) for name, why in record.environment.missing.items() if why == _ENDED
    ]
    measured = sum(case.status == "ok" for case in record.cases)
    text = (
        f"The {plan_text(replica.stored)} was {'ended' if lacking else 'finished'} after "
        f"{replica.minutes} minute{'s' * (replica.minutes > 1)}, with {measured} of "
        f"{len(record.cases)} cases"
    )
    text += f" and {timed[1]:,} timed measurements" if timed else ""
    return f"{text}; not reached: {', '.join(first_few(lacking))}" if lacking else text


def minutes_of(record: Record) -> int:
    """The minutes that a run took, rounded up."""
    began, ended = map(datetime.fromisoformat, (record.started, record.finished))
    return math.ceil((ended - began).total_seconds() / 60)


def missing_parts(replicas: Sequence[Replica]) -> list[str]:
    """The parts of each run that its record lacks, each with the reason."""
    texts = []
    for replica in replicas:
        record, reasons = replica.stored.record, dict[str, list[str]]()
        for name, why in record.environment.missing.items():
            if name not in _NO_PARTS:
                reasons.setdefault(why, []).append(_part_name(name))
        failed = {case.status: case for case in reversed(record.cases) if case.status != "ok"}
        for status, case in failed.items():
            count = sum(other.status == status for other in record.cases)
            cases = f"{count} of {len(record.cases)} cases, {status.replace('_', ' ')}"
            reasons.setdefault(case.reason or status, []).append(cases)
        where = f"{replica.label}: " if len(replicas) > 1 else ""
        for why, names in reasons.items():
            texts.append(f"{where}{', '.join(first_few(names))}: {why.rstrip('.')}")
    return texts


def _part_name(field: str) -> str:
    """The words for a missing field of a record."""
    prefix = field[: field.find(".") + 1]
    return _PARTS.get(prefix, prefix) + field.removeprefix(prefix).replace("_", " ")
