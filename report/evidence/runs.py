"""What one run measured, case by case; a number that is not there is missing with its reason.

A study looks a case up by its factors.  Every study's own run builds on ``Run``, so that outcomes,
medians, intervals and ceilings are taken in one way in all papers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import Final, Self, TypeAlias, TypeVar

from report.core.missing import Missing
from report.core.records.quantities import FIXED, quantity_of
from report.core.records.record import Case, Environment, Factor, Head, Policy, Round, Sample
from report.core.records.store import Filed, Stored
from report.core.statistics.estimates import identical
from report.evidence.cached import cached
from report.evidence.ceilings import MeasuredDevice
from report.instruments import gates
from report.quantity.expression import Leaf, Quantity, absent, exact
from report.quantity.intervals import Process
from report.theory.work import flops, forward_macs

AnyRun = TypeVar("AnyRun", bound="Run")
#: The factors of a case with their levels, as a record names them.
Factors: TypeAlias = Mapping[str, Factor]


@dataclass(frozen=True)
class Run(MeasuredDevice):
    """One record, of whose times those under ``policy`` are meant.

    Series are those of all runs that are pooled with the record; all else is the record's own.
    """

    policy: Policy = field(default="retained", kw_only=True)

    @property
    def key(self) -> str:
        """The device's key, as in the record's file name."""
        return self.stored.record.environment.key

    @property
    def file(self) -> str:
        """The record's file, the source of everything below but of pooled runs."""
        return self.stored.file

    @property
    def on_gpu(self) -> bool:
        """Whether the cases ran on a GPU."""
        return self.stored.record.environment.device == "cuda"

    @property
    def short(self) -> str:
        """The name of the device, without the number of its threads."""
        return self.label.removesuffix(self.stored.record.environment.threads_text)

    @property
    def threads(self) -> int:
        """How many threads computed."""
        return self.stored.record.environment.threads

    @cached_property
    def _seen(self) -> dict[Policy, Self]:
        return {self.policy: self}

    def under(self, policy: Policy) -> Self:
        """The same run with the times under another memory policy; it is made once."""
        if policy not in self._seen:
            self._seen[policy] = replace(self, policy=policy)
        return self._seen[policy]

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        """The memory policies that were measured, that of the studies first; none of old ones."""
        there = {r.policy for case in self.stored.record.cases for r in case.rounds if r.policy}
        return tuple(sorted(there, key=lambda policy: (policy != "retained", policy)))

    def measurements(self, *, disturbed: bool = False) -> Quantity:
        """How many measurements of a case were watched in all processes, or disturbed."""
        runs = sorted(self.stored.runs, key=lambda stored: stored.record.started)
        found = gates.disturbed(stored.record for stored in runs)
        if found is None:
            return absent("measurements", "1", f"not monitored on {self.label}")
        further = tuple(stored.file for stored in runs if stored.file != self.file)
        return exact("measurements", "1", found[0 if disturbed else 1], self.file, further)

    def as_measured(self) -> Self:
        """The same run under the first memory policy that was measured."""
        return self.under(self.policies[0]) if self.policies else self

    @cached_property
    def _cases(self) -> tuple[tuple[str, dict[frozenset[tuple[str, Factor]], Case]], ...]:
        """The cases by their factors, of the record and of each run that is pooled with it."""
        return tuple(
            (stored.file, {frozenset(case.factors.items()): case for case in stored.record.cases})
            for stored in (self.stored, *self.stored.others)
        )

    @cached
    def levels(self, /, factor: str, **where: Factor) -> tuple[Factor, ...]:
        """The levels of a factor among the cases of ``where``, ascending, also of failed cases."""
        found = {
            case.factors[factor]
            for case in self.stored.record.cases
            if factor in case.factors and where.items() <= case.factors.items()
        }
        return tuple(sorted(found))

    def case(self, factors: Factors) -> Case | Missing:
        """The case with exactly these factors if it ended well, else why there is none.

        What a case recorded before it failed is no measurement of it.
        """
        (_, cases), *_ = self._cases
        case = cases.get(frozenset(factors.items()))
        if case is None:
            return Missing(f"not part of the run on {self.label}")
        if case.status != "ok":
            return Missing(f"{_words(case.status)} on {self.label}: {case.reason}")
        return case

    def forward_work(self, factors: Factors) -> Quantity:
        """Work (FLOP) of a forward call, from the shapes of the layers that ran in a case."""
        case = self.case(factors)
        if isinstance(case, Missing):
            return absent("work", "FLOP", case.reason)
        if not case.layers:
            return absent("work", "FLOP", f"layers without a description on {self.label}")
        work = flops(forward_macs(case.layers))
        return exact(described("work", factors), "FLOP", work, self.file)

    def samples(self, quantity: str, factors: Factors) -> tuple[Sample, ...] | Missing:
        """The raw samples of a quantity in the record, or why there are none."""
        quantity_of(quantity)
        case = self.case(factors)
        if isinstance(case, Missing):
            return case
        found = case.samples(quantity, self.policy)
        if not found:
            reason = self.stored.record.environment.missing.get(quantity, "")
            words = f"no {_words(quantity)} recorded on {self.label}"
            return Missing(f"{words}: {reason}" if reason else words)
        return self._too_short(quantity, found) or found

    def _too_short(self, quantity: str, samples: Sequence[Sample]) -> Missing | None:
        device = self.stored.record.environment.device
        if quantity == "time" and median(samples) < gates.RESOLUTION_S[device]:
            return Missing(f"below timer resolution on {self.label}")
        return None

    def series(self, quantity: str, factors: Factors) -> Leaf:
        """A measured series as a quantity, process by process.

        Absent, with the reason, where no process recorded it.
        """
        return self._series(quantity, tuple(factors.items()))

    @cached
    def _series(self, quantity: str, levels: tuple[tuple[str, Factor], ...]) -> Leaf:
        factors = dict(levels)
        name, unit = self._described(quantity, factors), quantity_of(quantity).unit
        found = self.by_process(quantity, factors)
        if isinstance(found, Missing):
            return absent(name, unit, found.reason)
        return self.of_processes(name, unit, found)

    def _described(self, quantity: str, factors: Factors) -> str:
        """The name of a series, with the memory policy where it is not the one that is meant.

        The subject is named where a case of another one has the same factors else.
        """
        shown = dict(factors)
        if "subject" in factors and any(
            frozenset({**factors, "subject": s}.items()) in self._cases[0][1]
            for s in self._subjects
            if s != factors.get("subject")
        ):
            shown["of"] = shown.pop("subject")
        if self.policy in self.policies[1:]:
            shown["memory"] = f"{self.policy} memory"
        return described(quantity, shown)

    @cached_property
    def _subjects(self) -> frozenset[Factor]:
        cases = self.stored.record.cases
        return frozenset(c.factors["subject"] for c in cases if "subject" in c.factors)

    def by_process(self, quantity: str, factors: Factors) -> tuple[Process, ...] | Missing:
        """The samples of a quantity, process by process and run by run, or why there are none.

        What is the same in every run comes from the record alone.  Runs that disagree in their
        times are no one population: those stand that agree with ``_leading``.
        """
        found = self.samples(quantity, factors)
        if isinstance(found, Missing):
            return found
        each = {
            file: tuple(processes_of(case, quantity, self.policy, file))
            for file, case in self.in_each_run(factors)
        }
        runs = list(each.values())[:1] if quantity in FIXED else list(filter(None, each.values()))
        if quantity == "time" and len(runs) > 1:
            leading = [p.median for p in each.get(self._leading) or runs[0]]
            runs = [run for run in runs if gates.agree(leading, (p.median for p in run))]
        processes = tuple(process for run in runs for process in run)
        samples = [sample for process in processes for sample in process.samples]
        return self._too_short(quantity, samples) or processes

    @cached_property
    def _leading(self) -> str:
        """The run of most processes, the newest of equals: one for all series, so that those which
        are compared come from one state of the machine.
        """

        def processes(stored: Stored) -> int:
            planned = sum(stored.record.protocol.processes.values())
            return sum(min(len(case.rounds), planned) for case in stored.record.cases)

        return max(self.stored.runs, key=processes).file

    def in_each_run(self, factors: Factors) -> Iterator[tuple[str, Case]]:
        """The case in each run in which it ended well, the record's own first, by the file."""
        for file, cases in self._cases:
            case = cases.get(frozenset(factors.items()))
            if case is not None and case.status == "ok":
                yield file, case

    def repeated(self, quantity: str, factors: Factors) -> Leaf:
        """A deterministic quantity, the same in every repetition, as an exact one."""
        name, unit = described(quantity, factors), quantity_of(quantity).unit
        found = self.fixed(quantity, factors)
        if isinstance(found, Missing):
            return absent(name, unit, found.reason)
        return exact(name, unit, found, self.file)

    def fixed(self, quantity: str, factors: Factors) -> int | Missing:
        """A quantity that must be the same in every repetition, such as allocated bytes."""
        found = self.samples(quantity, factors)
        if isinstance(found, Missing):
            return found
        value = identical(found)
        if value is None:
            return Missing(f"{_words(quantity)} differed between repetitions on {self.label}")
        return int(value)

    def grown(self, quantity: str, factors: Factors, since: str) -> int | Missing:
        """A fixed quantity beyond another one, such as the peak beyond what was there before."""
        after, before = self.fixed(quantity, factors), self.fixed(since, factors)
        if isinstance(after, Missing):
            return after
        return before if isinstance(before, Missing) else after - before


def processes_of(case: Case, quantity: str, policy: Policy, file: str) -> Iterator[Process]:
    """What each process of one run measured, or the run's own process."""
    rounds = [r for r in case.rounds_under(policy) if r.samples(quantity)]
    for slot, round_ in _slots(rounds).items():
        samples = tuple(map(float, round_.samples(quantity)))
        yield Process(file, str(slot), samples, round_.disturbance is not None)
    if not rounds and (own := case.samples(quantity, policy)):
        yield Process(file, "", tuple(map(float, own)))


def _slots(rounds: Sequence[Round]) -> dict[int, Round]:
    """The rounds by the processes that they stand for, of which there are as many.

    A further process stands for the first one that was disturbed, so that cases are compared
    process by process although some of them were measured again.
    """
    numbers = range(1, len(rounds) + 1)
    free = iter(sorted(set(numbers) - {r.process for r in rounds}))
    return {r.process if r.process in numbers else next(free): r for r in rounds}


def described(quantity: str, factors: Factors) -> str:
    """A series in a formula, such as ``time(batch 64, forward)``.

    Numbers are named by their factor; levels that are words speak for themselves.
    """
    levels = (
        _words(level) if isinstance(level, str) else f"{_words(factor)} {level:,}"
        for factor, level in factors.items()
        if factor != "subject"
    )
    return f"{_words(quantity)}({', '.join(levels)})"


def _words(name: str) -> str:
    return name.replace("_", " ")


#: Properties in words, the clearest first; None where a device has none.
_PROPERTIES: Final[tuple[Callable[[Environment], str | None], ...]] = (
    lambda one: one.gpu.model if one.gpu and one.name else None,
    lambda one: one.cpu.model if one.name else None,
    lambda one: f"{round(one.gpu.memory_bytes / 2**30)} GiB" if one.gpu else None,
    lambda one: f"beside {one.cpu.model}" if one.gpu else None,
    lambda one: f"{round(one.memory_bytes / 2**30)} GiB of memory",
    lambda one: f"{one.cpu.cores_available} cores available",
    lambda one: one.key,
)


def labels(records: Sequence[Filed[Head]]) -> tuple[str, ...]:
    """The label of each record's device; equal ones with the first property that differs for all.

    The key stands where no other does.
    """
    machines = [item.record.environment for item in records]
    plain = [machine.label for machine in machines]
    return tuple(
        label
        if plain.count(label) == 1
        else f"{label} ({_own(one, [e for e in machines if e.label == label])})"
        for one, label in zip(machines, plain, strict=True)
    )


def _own(one: Environment, others: Sequence[Environment]) -> str:
    """What only ``one`` of ``others``, which include it, has."""
    for words in _PROPERTIES:
        known = [words(each) for each in others]
        if None not in known and len(set(known)) == len(known):
            return str(words(one))
    return one.key
