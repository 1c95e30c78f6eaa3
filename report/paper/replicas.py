"""Compare the claims of a paper with the same claims on other machines.

For each machine, only claims about its kind (CPU or GPU) are evaluated, and only from its own
record.  Claims that do not read the record, such as claims about pairs of runs, are left out.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Final

from report.core.records.store import Stored
from report.evidence.runs import machine_id
from report.instruments import gates
from report.paper.claims import (
    Claim,
    cases_of,
    disturbance,
    measured_text,
    missing_comparisons,
    on_common_cases,
)
from report.paper.findings import Findings

#: Letter of an agreement with the paper's verdict → its name in tables, and what a sentence says of
#: such a claim.
AGREEMENTS: Final[Mapping[str, tuple[str, str]]] = {
    "A": ("same", "has the same verdict as in the paper"),
    "C": ("contrary", "has the opposite verdict"),
    "U": ("undecided", "is undecided"),
    "N": ("not measured", "was not measured"),
    "D": ("undecided in the paper", "is undecided in the paper, but decided here"),
    "P": ("same in part", "has the paper's verdict in the part that was measured"),
    "B": ("by construction", "is decided in the paper from this same record, so cannot differ"),
}
_PLURAL_VERBS: Final[Mapping[str, str]] = {"has": "have", "is": "are", "was": "were"}
#: Letters of ``AGREEMENTS`` by precedence.  The outcome of a claim on many machines is the first of
#: these letters that any machine has.
_OUTCOMES: Final = "CPADUBN"
#: Order of claims in reports by their outcome: claims that readers should look at come first.
_ORDER_OF_CLAIMS: Final = "CUPDABN"
#: Order of counts in summaries: agreement, disagreement, then letters that decide nothing.
_ORDER_OF_COUNTS: Final = "ABPCUND"
#: Letters whose counts are printed even if they are 0.
_ALWAYS_COUNTED: Final = "ACUN"
_DECIDED: Final = ("supported", "refuted")


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
        """Shards of the record (measured files), and shards of the records pooled with it."""
        return [shard for run in self.stored.runs for shard in run.shards]

    @property
    def files(self) -> set[str]:
        """Files of all shards."""
        return {shard.file for shard in self.shards}

    @property
    def machine(self) -> str:
        """Identity of the machine (host and number of threads), which several records may share."""
        return machine_id(self.stored.record.environment)

    @cached_property
    def claims(self) -> dict[str, Claim]:
        """Claims that read this record, and claims whose verdict is "not measured"."""
        claims = self.findings.claims.items()
        return {id: c for id, c in claims if c.verdict == "not measured" or self.is_read_by(c)}

    @property
    def is_busy(self) -> bool:
        """True if other programs disturbed most of the record's measurements."""
        rounds = [r for shard in self.shards for case in shard.record.cases for r in case.rounds]
        return 2 * sum(round_.disturbance is not None for round_ in rounds) > len(rounds)

    def is_read_by(self, claim: Claim) -> bool:
        """Return whether a claim reads this record."""
        return not self.files.isdisjoint(claim.files)

    def unnamed(self, reasons: Iterable[str]) -> list[str]:
        """Return the different ``reasons`` of a claim without the name of this machine."""
        labels = f"{re.escape(self.label)}|{re.escape(self.stored.record.environment.label)}"
        texts = [re.sub(f" on ({labels})", "", reason).rstrip(".") for reason in reasons]
        return [*dict.fromkeys(texts)]


@dataclass(frozen=True)
class Row:
    """A claim of the paper, and the same claim on other machines, by label of the machine.

    ``cases``: in words, the cases over which means are compared, as the paper and all machines have
    these cases; may be empty.  ``busy``: labels of machines on which other programs disturbed most
    measurements.
    """

    paper: Claim
    claims: Mapping[str, Claim]
    cases: str = ""
    busy: Collection[str] = ()

    @cached_property
    def letters(self) -> dict[str, str]:
        """Letter of ``AGREEMENTS`` by the label of a machine."""
        return {label: _letter(claim, self.paper) for label, claim in self.claims.items()}

    @property
    def outcome(self) -> str:
        """Letter for all machines together (see ``_OUTCOMES``)."""
        return next(letter for letter in _OUTCOMES if letter in self.letters.values())

    @property
    def deciding_count(self) -> int:
        """Number of machines that decide the claim."""
        return sum(claim.verdict in _DECIDED for claim in self.claims.values())

    @property
    def measured_claims(self) -> list[Claim]:
        """The claim on the machines that measured it."""
        return [claim for claim in self.claims.values() if claim.measured_count]

    @property
    def disturbances(self) -> list[str]:
        """For each machine that measured the claim: its disturbance in words, or ""."""
        texts = []
        for label, claim in self.claims.items():
            if claim.measured_count:
                texts.append("on a busy machine" if label in self.busy else disturbance(claim))
        return texts

    @property
    def effects(self) -> list[tuple[float, str]]:
        """Effects of the claim as (number, text) on the machines that measured it, sorted."""
        return sorted(
            (c.effect, c.measured) for c in self.measured_claims if isinstance(c.effect, float)
        )

    @cached_property
    def measured(self) -> str:
        """Numbers of the claim on all machines, in words.

        Equal numbers are printed once.  Otherwise the text gives the range of the effects or, for a
        claim of several comparisons, the range of their numbers.
        """
        texts = {claim.measured for claim in self.measured_claims}
        if len(texts) == 1:
            return texts.pop()
        if self.effects:
            return f"{self.effects[0][1]} to {self.effects[-1][1]}"
        statements = chain.from_iterable(claim.statements for claim in self.measured_claims)
        return measured_text([*statements]) if texts else ""

    @property
    def combined_claim(self) -> Claim:
        """The claim with the common verdict of the machines that decide it (of all, if none does).

        If these machines disagree, the verdict is ``undecided``.
        """
        first, *others = self.claims.values()
        if not others:
            return first
        counts = Counter(claim.verdict for claim in self.claims.values())
        verdicts = {*counts}.intersection(_DECIDED) or {*counts}
        common = verdicts.pop() if len(verdicts) == 1 else "undecided"
        texts = []
        for verdict, count in sorted(counts.items(), key=lambda item: item[0] == "not measured"):
            texts.append(f"{verdict} on {count} machine{'s' if count > 1 else ''}")
        return replace(first, verdict=common, because=", ".join(texts), compared=())


def _letter(claim: Claim, paper: Claim) -> str:
    """Return the letter of ``AGREEMENTS`` for a machine's ``claim``, against the paper's claim."""
    if claim.verdict not in _DECIDED:
        return "U" if claim.verdict == "undecided" else "N"
    if paper.verdict not in _DECIDED:
        return "D"
    if paper.verdict != claim.verdict:
        return "C"
    if missing_comparisons(claim, paper):
        return "P"
    return "B" if paper.files and {*paper.files} == {*claim.files} else "A"


def compare(replicas: Iterable[Replica], paper: Findings) -> dict[str, Row]:
    """Compare machines' claims with the paper's; return rows by id, in ``_ORDER_OF_CLAIMS``."""
    claims, busy = dict[str, dict[str, Claim]](), list[str]()
    for replica in replicas:
        busy += [replica.label] if replica.is_busy else []
        for id, claim in replica.claims.items():
            claims.setdefault(id, {})[replica.label] = claim
    rows = [(id, _row(paper.claims[id], by_label, busy)) for id, by_label in claims.items()]
    return dict(sorted(rows, key=lambda item: _ORDER_OF_CLAIMS.index(item[1].outcome)))


def _row(paper: Claim, claims: Mapping[str, Claim], busy: Collection[str]) -> Row:
    """Make the row of a claim, with means over the cases that the paper and all machines have."""
    measured = {label: claim for label, claim in claims.items() if claim.measured_count}
    new_paper, *new_claims = on_common_cases([paper, *measured.values()])
    by_label = dict(zip(measured, new_claims, strict=True))
    have_same_cases = len({*map(cases_of, (new_paper, *new_claims))}) == 1
    cases = cases_of(new_paper) if have_same_cases else ""
    return Row(new_paper, {**claims, **by_label}, cases, busy)


def summary(rows: Collection[Row], replicas: Sequence[Replica]) -> str:
    """Count claims by agreement for each kind of machine, and name the contrary claims."""
    sentences = []
    for about in dict.fromkeys(replica.about for replica in replicas):
        labels = [replica.label for replica in replicas if replica.about == about]
        rows_of_kind = [row for row in rows if row.paper.about == about]
        together = f"{len(labels)} records together, each claim judged by those that decide it"
        where = together if labels[1:] else labels[0]
        counts = []
        for letter in _ORDER_OF_COUNTS:
            counted = [row for row in rows_of_kind if row.outcome == letter]
            notes = [row.paper.title for row in counted if letter == "C"]
            disturbed = [row for row in counted if row.measured_claims and all(row.disturbances)]
            notes += [f"{len(disturbed)} on a busy machine"] if disturbed else []
            if counted or letter in _ALWAYS_COUNTED:
                note = f" ({'; '.join(notes)})" if notes else ""
                verb, words = AGREEMENTS[letter][1].split(" ", 1)
                verb = _PLURAL_VERBS[verb] if counted[1:] else verb
                counts.append(f"{len(counted) or 'none'} {verb} {words}{note}")
        verb = "is" if len(rows_of_kind) == 1 else "are"
        sentences.append(f"{len(rows_of_kind)} of the paper's claims {verb} about {about}")
        sentences.append(f"On {where}: {'; '.join(counts)}")
    return ". ".join(sentences) or "No claim was tested, since no record can be counted"


def without_copies(replicas: Iterable[Replica]) -> tuple[list[Replica], dict[str, str]]:
    """Drop replicas that copy other records; also return why, by file of a dropped replica."""
    unique, copies, detector = list[Replica](), dict[str, str](), gates.CopyDetector()
    for replica in replicas:
        reasons = [detector.reason(replica.label, shard.record) for shard in replica.shards]
        if reason := next(filter(None, reasons), ""):
            copies |= dict.fromkeys(replica.files, f"{replica.label} is not counted: it {reason}")
        else:
            unique.append(replica)
    return unique, copies
