"""Claims of a paper on other machines, each beside the paper's own verdict.

A record is evaluated by the parts of the study that are about its kind of machine.  Only claims
that read the record count; claims about the source or about pairs of runs are no claims about one
machine.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from statistics import median
from typing import Final

from report.core.missing import Missing
from report.core.records.record import Record
from report.core.records.store import Stored
from report.core.statistics.estimates import Estimate
from report.core.text.format import quantity_text
from report.instruments import gates
from report.paper.claims import first_few
from report.paper.findings import Claim, Findings

#: Letter of a verdict that is compared with the paper's → its meaning, in the order of a summary.
AGREEMENTS: Final[Mapping[str, str]] = {
    "A": "same",
    "C": "contrary",
    "U": "undecided",
    "N": "not measured",
    "D": "undecided in the paper",
    "P": "same in part",
}
#: Letters in the order of tables and reasons: what contradicts the paper comes first.
ORDER: Final = "CUPADN"
DECIDED: Final = ("supported", "refuted")
#: Copied times are equal or scaled: in most series, at least so many, the ratio of two medians is
#: the same within this share.
_FEWEST_SERIES: Final = 5
_SAME_RATIO: Final = 1e-4
_NO_CASES: Final = "the record holds no such cases"
#: Reasons that speak of a data directory → what is true of one record.
_REASONS: Final[Mapping[str, str]] = {
    "no run of the experiment is in the data directory": _NO_CASES,
    "nothing to compare was recorded": _NO_CASES,
}


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

    @cached_property
    def times(self) -> list[dict[object, float]]:
        """The median of each series of times, by case and process, of each shard."""
        shards = []
        for shard in self.shards:
            times: dict[object, float] = {}
            for case in shard.record.cases:
                factors = frozenset(case.factors.items())
                for number, series in enumerate(case.all_series):
                    if middle := median(series.get("time") or (0,)):
                        times[factors, number] = middle
            shards.append(times)
        return shards

    @cached_property
    def claims(self) -> dict[str, Claim]:
        """Claims that read this record, and unmeasured claims; reasons do not name the machine."""
        files, claims = set(self.files), {}
        for id, claim in self.findings.claims.items():
            if claim.verdict == "not measured" or files.intersection(claim.files):
                claims[id] = replace(claim, reasons=(*dict.fromkeys(self._reasons(claim)),))
        return claims

    def _reasons(self, claim: Claim) -> Iterator[str]:
        names = f" on ({re.escape(self.label)}|{re.escape(self.stored.record.environment.label)})"
        for reason in claim.reasons:
            text = re.sub(names, "", reason)
            yield _REASONS.get(text, text).rstrip(".")


@dataclass(frozen=True)
class Row:
    """A claim of the paper, and the same claim on each machine that it is about, by label."""

    paper: Claim
    claims: Mapping[str, Claim]

    @cached_property
    def letters(self) -> dict[str, str]:
        """A letter of ``AGREEMENTS`` for each machine."""
        letters = {}
        for label, claim in self.claims.items():
            letters[label] = _letter(claim, self.paper)
        return letters

    @property
    def claim(self) -> Claim:
        """The claim on the first machine, which is the only one in a report on one machine."""
        return next(iter(self.claims.values()))

    @property
    def outcome(self) -> str:
        """The letter over all machines: A if no machine contradicts the paper and one agrees."""
        if self.paper.verdict not in DECIDED:
            return "D"
        return next(letter for letter in "CAPUN" if letter in self.letters.values())

    @property
    def effects(self) -> list[float]:
        """The number of a claim of one comparison, on each machine that measured it."""
        effects = []
        for claim in self.claims.values():
            if isinstance(claim.effect, float):
                effects.append(claim.effect)
        return effects

    @property
    def estimates(self) -> str:
        """Count the point estimates of an undecided claim in the expected range."""
        numbers = []
        for result, low, high in self.claim.compared:
            value = result.value if isinstance(result, Estimate) else result
            if not isinstance(value, Missing):
                numbers.append(low <= value <= high)
        count = len(numbers)
        if count and not any(numbers):
            return f"all point against: {count} of {count} estimates outside the expected range"
        return f"{sum(numbers)} of {count} point estimates lie in the expected range"

    @property
    def is_decided_here(self) -> bool:
        """True if a machine of the report decides the claim, whatever the paper says."""
        return any(claim.verdict in DECIDED for claim in self.claims.values())

    @property
    def over_all(self) -> Claim:
        """The claim with the verdict of all machines that decide it, undecided if they differ."""
        counts = Counter(claim.verdict for claim in self.claims.values())
        verdicts = {*counts}.intersection(DECIDED) or {*counts}
        words = []
        for verdict, count in sorted(counts.items()):
            words.append(f"{verdict} on {count}")
        common = verdicts.pop() if len(verdicts) == 1 else "undecided"
        return replace(self.claim, verdict=common, because=", ".join(words), compared=())


def spread(effects: Sequence[float], unit: str) -> str:
    """Print the smallest and the largest effect to three digits."""
    low, high = (quantity_text(float(f"{end:.3g}"), unit) for end in (min(effects), max(effects)))
    return low if low == high else f"{low} to {high}"


def _letter(claim: Claim, paper: Claim) -> str:
    if claim.verdict == "undecided":
        return "U"
    if claim.verdict not in DECIDED:
        return "N"
    if paper.verdict not in DECIDED:
        return "D"
    if paper.verdict != claim.verdict:
        return "C"
    return "P" if claim.known < paper.known else "A"


def compare(replicas: Iterable[Replica], paper: Findings) -> dict[str, Row]:
    """Compare each claim with the paper's, on each machine of the kind that it is about."""
    claims: dict[str, dict[str, Claim]] = {}
    for replica in replicas:
        for id, claim in replica.claims.items():
            claims.setdefault(id, {})[replica.label] = claim
    rows = {id: Row(paper.claims[id], by_label) for id, by_label in claims.items()}
    return dict(sorted(rows.items(), key=_place))


def _place(item: tuple[str, Row]) -> int:
    return ORDER.index(item[1].outcome)


def main_claims(
    rows: Mapping[str, Row], paper: Findings, headline: Iterable[str]
) -> dict[str, list[str]]:
    """Divide the claims of the paper's ``headline``: decided, not decided, and not testable."""
    titles: dict[str, list[str]] = {"tested": [], "undecided": [], "untestable": []}
    for id in headline:
        kind = "untestable"
        if id in rows:
            kind = "tested" if rows[id].outcome in "ACP" else "undecided"
        titles[kind].append(f"“{paper.claims[id].title}”")
    return titles


def summary(replicas: Sequence[Replica], paper: Findings) -> str:
    """Count the claims with the paper's verdict by kind of machine; list contradicting ones."""
    lines = []
    for about in dict.fromkeys(replica.about for replica in replicas):
        group = [replica for replica in replicas if replica.about == about]
        rows = compare(group, paper).values()
        counts = Counter(row.outcome for row in rows)
        if len(rows) == counts["D"]:
            decided = 0
            for row in rows:
                decided += row.is_decided_here
            line = f"The paper decides no claim about {about} that one run can test"
            lines.append(f"{line}; {decided} of {len(rows)} decided here" if rows else line)
            continue
        line = f"{counts['A']} of {len(rows)} claims about {about} have the paper's verdict on "
        line += _where([row for row in rows if row.outcome == "A"], group)
        for letter in "PCUND":
            if letter in "CUN" or counts[letter]:
                line += f"; {counts[letter]} {AGREEMENTS[letter]}"
            if letter == "C" and counts[letter]:
                titles = [row.paper.title for row in rows if row.outcome == "C"]
                line += f" ({'; '.join(first_few(titles))})"
        lines.append(line)
    return ". ".join(lines) or "0 of 0 claims are decided, without a record"


def _where(rows: Sequence[Row], group: Sequence[Replica]) -> str:
    """Name the only machine, or say how many machines decide the claims."""
    if len(group) == 1:
        return group[0].label
    deciding = []
    for row in rows:
        counts = Counter(row.letters.values())
        deciding.append(counts["A"] + counts["C"] + counts["P"])
    numbers = " to ".join(map(str, sorted({min(deciding), max(deciding)}))) if rows else "0"
    return f"every machine that decides them ({numbers} of {len(group)})"


def without_copies(replicas: Iterable[Replica]) -> tuple[list[Replica], dict[str, str]]:
    """Drop records that no machine of their own measured; also explain each by its label.

    Two machines share no samples, ceilings or end of a run, their times are not proportional, and
    no program has a hash of zeros.
    """
    first: dict[tuple[str, bytes], str] = {}
    unique, copies = list[Replica](), dict[str, str]()
    for replica in replicas:
        records = [shard.record for shard in replica.shards]
        if any(map(_is_of_no_program, records)):
            copies[replica.label] = "its commit or code hash is zeros, which no program has"
            continue
        marks = [*gates.fingerprints(records)]
        shared = {mark[0]: first[mark] for mark in marks if mark in first}
        if "samples" not in shared:
            for other in unique:
                if any(_proportional(*pair) for pair in product(replica.times, other.times)):
                    shared["times but for one factor"] = other.label
                    break
        if shared:
            label = next(iter(shared.values()))
            copies[replica.label] = f"the same {' and '.join(shared)} as {label}"
        else:
            unique.append(replica)
            first |= dict.fromkeys(marks, replica.label)
    return unique, copies


def _is_of_no_program(record: Record) -> bool:
    """True if a hash of the record's program is zero; a commit may be unknown, without git."""
    hashes = (record.code.commit, record.code.measuring_code)
    return any(hash and not hash.strip("0") for hash in hashes)


def _proportional(one: Mapping[object, float], other: Mapping[object, float]) -> bool:
    """True if most medians of both records have one ratio."""
    ratios = [other[key] / time for key, time in one.items() if key in other]
    if len(ratios) < _FEWEST_SERIES:
        return False
    middle = median(ratios)
    same = sum(abs(ratio - middle) <= _SAME_RATIO * middle for ratio in ratios)
    return 2 * same > len(ratios)
