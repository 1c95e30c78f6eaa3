"""Compare the claims of a paper with the same claims on other machines.

The record of a machine is evaluated by the parts of the study that are about its kind of machine.
Claims that do not read the record are left out, such as claims about the source or pairs of runs.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Final

from report.core.records.store import Stored
from report.instruments import gates
from report.paper.claims import (
    cases_of,
    comparison_names,
    first_few,
    on_common_cases,
    open_comparisons,
)  # fmt: skip
from report.paper.findings import Claim, Findings

#: Letter of an agreement with the paper's verdict → its meaning, and the beginning of the sentence
#: that lists claims with this letter; {} is their verdict on the machine.
AGREEMENTS: Final[Mapping[str, tuple[str, str]]] = {
    "A": ("same", "{} as in the paper"),
    "C": ("contrary", "Contrary to the paper, {} here"),
    "U": ("undecided", "Undecided here"),
    "N": ("not measured", "Not measured"),
    "D": ("undecided in the paper", "Undecided in the paper, {} here"),
    "P": ("same in part", "{} as in the paper, in those of its comparisons that were measured"),
    "B": ("by construction", "{} by construction, from the record that decides it in the paper"),
}
#: Most comparisons that are named.
_FEW: Final = 3
DECIDED: Final = ("supported", "refuted")
#: Beginnings of reasons that mention the data directory; the reason printed for a single record.
_NO_RUN: Final = ("no run of the experiment is in", "nothing to compare was recorded")
_NO_CASES: Final = "the record holds no such cases"


@dataclass(frozen=True)
class Replica:
    """A machine of a report: its record, its label, and the findings from this record alone."""

    stored: Stored
    label: str
    findings: Findings

    @property
    def about(self) -> str:
        """Kind of the machine, as in ``Claim.about``."""
        return "a GPU" if self.stored.record.environment.gpu else "a CPU"

    @property
    def shards(self) -> list[Stored]:
        """Measured shards of the record and of all records pooled with it."""
        return [shard for run in self.stored.runs for shard in run.shards]

    @property
    def files(self) -> set[str]:
        """Files of all shards."""
        return {shard.file for shard in self.shards}

    @cached_property
    def claims(self) -> dict[str, Claim]:
        """Claims that read this record, and claims that are not measured."""
        claims = {}
        for id, claim in self.findings.claims.items():
            if claim.verdict == "not measured" or self.files.intersection(claim.files):
                claims[id] = claim
        return claims

    def reasons(self, claim: Claim) -> list[str]:
        """Return the reasons why a claim is not supported, without the name of this machine."""
        labels = f"{re.escape(self.label)}|{re.escape(self.stored.record.environment.label)}"
        texts = []
        for reason in claim.reasons:
            text = re.sub(f" on ({labels})", "", reason)
            texts.append(_NO_CASES if text.startswith(_NO_RUN) else text.rstrip("."))
        return [*dict.fromkeys(texts)]


@dataclass(frozen=True)
class Row:
    """A claim of the paper, and the same claim on each machine of its kind, by label.

    ``cases``: common cases of the paper and all these machines, over which means are compared.
    ``cases_of_paper``: cases of the mean that the paper prints.
    """

    paper: Claim
    claims: Mapping[str, Claim]
    cases: str = ""
    cases_of_paper: str = ""

    @cached_property
    def letters(self) -> dict[str, str]:
        """Letter of ``AGREEMENTS`` by the label of a machine."""
        return {label: _letter(claim, self.paper) for label, claim in self.claims.items()}

    @property
    def outcome(self) -> str:
        """Letter for all machines: A if all that decide agree, B if no other one measured."""
        if self.paper.verdict not in DECIDED:
            return "D"
        return next(letter for letter in "CPAUBN" if letter in self.letters.values())

    @property
    def deciding(self) -> int:
        """Number of machines that decide the claim."""
        return sum(claim.verdict in DECIDED for claim in self.claims.values())

    @property
    def effects(self) -> list[float]:
        """Effects of the claim on the machines that measured it, sorted."""
        claims = self.claims.values()
        return sorted(claim.effect for claim in claims if isinstance(claim.effect, float))

    @property
    def over_all(self) -> Claim:
        """Claim with the common verdict of the deciding machines; undecided if they disagree."""
        first, *_ = self.claims.values()
        counts = Counter(claim.verdict for claim in self.claims.values())
        if len(self.claims) == 1:
            return first
        verdicts = {*counts}.intersection(DECIDED) or {*counts}
        common = verdicts.pop() if len(verdicts) == 1 else "undecided"
        words = [f"{verdict} on {count}" for verdict, count in sorted(counts.items())]
        return replace(first, verdict=common, because=", ".join(words), compared=())


def _letter(claim: Claim, paper: Claim) -> str:
    if claim.verdict not in DECIDED:
        return "U" if claim.verdict == "undecided" else "N"
    if paper.verdict not in DECIDED:
        return "D"
    if paper.verdict != claim.verdict:
        return "C"
    if claim.known < paper.known:
        return "P"
    return "B" if paper.files and {*paper.files} == {*claim.files} else "A"


def compare(replicas: Iterable[Replica], paper: Findings) -> dict[str, Row]:
    """Compare the claims of all machines with the paper's; return rows by id, contrary first."""
    claims: dict[str, dict[str, Claim]] = {}
    for replica in replicas:
        for id, claim in replica.claims.items():
            claims.setdefault(id, {})[replica.label] = claim
    rows = [(id, _row(paper.claims[id], by_label)) for id, by_label in claims.items()]
    return dict(sorted(rows, key=lambda item: "CUPABDN".index(item[1].outcome)))


def _row(paper: Claim, claims: Mapping[str, Claim]) -> Row:
    """Make the row of a claim; means are taken over the common cases of paper and machines."""
    measured = {label: claim for label, claim in claims.items() if claim.known}
    common, *others = on_common_cases([paper, *measured.values()])
    compared = dict(zip(measured, others, strict=True))
    cases = cases_of(common) if len({*map(cases_of, (common, *others))}) == 1 else ""
    return Row(common, {**claims, **compared}, cases, cases_of(paper))


def answers(rows: Iterable[Row], replicas: Sequence[Replica]) -> list[str]:
    """Return a sentence per outcome on these machines: it lists or counts the claims."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        claims = {r.label: row.claims[r.label] for r in replicas if r.label in row.claims}
        if claims:
            row_here = replace(row, claims=claims)
            sentence = AGREEMENTS[row_here.outcome][1].format(row_here.over_all.verdict)
            sentence = sentence.removesuffix(", undecided here")  # the machines disagree
            first, *others = claims.values()
            notes = [row_here.over_all.because] if others else []
            if row_here.outcome == "P" and not others:
                known = [s.quantity.formula for s in first.statements if not s.quantity.missing]
                names = f": {'; '.join(comparison_names(known))}" if len(known) <= _FEW else ""
                notes.append(f"{first.known} of {row.paper.known}{names}")
            inside = [*map(itemgetter("Inside"), open_comparisons(first.statements))]
            if row_here.outcome == "U" and inside and not others:
                count = f"{inside.count('yes')} of {len(inside)}"
                notes.append(f"{count} estimates in the expected range")
            text = f"“{row.paper.title}” ({'; '.join(notes)})".removesuffix(" ()")
            groups.setdefault(sentence, []).append(text)
    if unmeasured := groups.pop("Not measured", []):
        groups["Not measured"] = [f"{len(unmeasured)} claim{'s' if unmeasured[1:] else ''}"]
    return [f"{text[0].upper()}{text[1:]}: {'; '.join(few)}." for text, few in groups.items()]


def summary(rows: Iterable[Row], replicas: Sequence[Replica], of_paper: Sequence[str] = ()) -> str:
    """Count claims by agreement for each kind of machine, with the paper's records by label."""
    lines = []
    for about in dict.fromkeys(replica.about for replica in replicas):
        labels = [replica.label for replica in replicas if replica.about == about]
        of_kind = [row for row in rows if row.paper.about == about]
        outcomes = Counter(row.outcome for row in of_kind)
        where = "every machine that decides them" if labels[1:] else labels[0]
        contrary = first_few([row.paper.title for row in of_kind if row.outcome == "C"])
        decided = sum(row.outcome == "D" and row.deciding > 0 for row in of_kind)
        details = {"C": "; ".join(contrary), "D": f"{decided} decided here"}
        details["B"] = "from the paper's own evidence"
        counts = [f"{outcomes['A']} of {len(of_kind)} claims about {about}: same verdict"]
        counts[0] += f" as the paper on {where}"
        agreeing = Counter[str]()
        for row in of_kind if labels[1:] and of_paper else ():
            records = {label for label, letter in row.letters.items() if letter == "A"}
            outside = len(records.difference(of_paper)) or "none"
            text = f"{len(records)} record{'s' * (len(records) > 1)}, {outside} outside the paper"
            agreeing[text] += row.outcome == "A"
        if texts := [f"{count} on {text}" for text, count in agreeing.items() if count]:
            counts[0] += f" (besides the paper's own evidence: {'; '.join(texts)})"
        for letter in "BPCUND":
            if letter in "CUN" or outcomes[letter]:
                detail = f" ({details[letter]})" if details.get(letter) else ""
                counts.append(f"{outcomes[letter]} {AGREEMENTS[letter][0]}{detail}")
        lines.append("; ".join(counts))
    return ". ".join(lines) or "0 of 0 claims are decided, without a record"


def without_copies(replicas: Iterable[Replica]) -> tuple[list[Replica], dict[str, str]]:
    """Return the replicas without copies of other records, and reasons by label of a copy."""
    unique, copies, detector = list[Replica](), dict[str, str](), gates.CopyDetector()
    for replica in replicas:
        reasons = [detector.reason(replica.label, shard.record) for shard in replica.shards]
        if reason := next(filter(None, reasons), ""):
            copies[replica.label] = reason
        else:
            unique.append(replica)
    return unique, copies
