"""The measurements of one run, case by case; a missing number has a reason.

A run is stored in one record.  A case is one combination of factors, such as a batch size and a
layer.  In each round a new process measures the cases.  Repeated runs of one measurement are
pooled: their samples form one series.  Studies look up cases by their factors and extend ``Run``,
so that all papers compute medians, intervals and ceilings (measured peak rates) in the same way.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain
from statistics import median
from typing import Final, Self, TypeAlias, TypeVar

from report.core.missing import Missing
from report.core.records.quantities import FIXED, quantity_of
from report.core.records.record import (
    Case,
    Environment,
    Level,
    Policy,
    Round,
    Sample,
    Samples,
    packed,
)
from report.core.records.store import Stored
from report.evidence.cached import cached
from report.evidence.ceilings import MeasuredDevice
from report.instruments import gates
from report.quantity.expression import Leaf, Quantity, exact_number, missing_number
from report.quantity.intervals import Process
from report.theory.work import flops, forward_macs

AnyRun = TypeVar("AnyRun", bound="Run")
#: Factor of a case, with its name in records → level.
CaseFactors: TypeAlias = Mapping[str, Level]
#: Factors and levels of a case, as the key of a dictionary.
_Levels: TypeAlias = frozenset[tuple[str, Level]]
#: The end of a device key: a hash of the hardware.
_DIGEST: Final = re.compile("[0-9a-f]{6}")


@dataclass(frozen=True)
class Run(MeasuredDevice):
    """A run with times under one memory ``policy`` (setting of the C library's allocator).

    Series, ceilings and the number of measurements include the runs that are pooled with this run.
    Everything else is from the run's own record.  Under ``retained`` the allocator keeps freed
    memory.  Under ``default`` it may return freed memory to the system.
    """

    policy: Policy = field(default="retained", kw_only=True)

    @property
    def key(self) -> str:
        """The device's key, as in the record's file name."""
        return self.stored.record.environment.key

    @property
    def file(self) -> str:
        """The record's file in the data directory: the source of numbers that are not pooled."""
        return self.stored.file

    @property
    def on_gpu(self) -> bool:
        """True if the cases ran on a GPU."""
        return self.stored.record.environment.device == "cuda"

    @property
    def short_label(self) -> str:
        """The label of the device, without the number of threads."""
        return self.label.removesuffix(self.stored.record.environment.threads_text)

    @property
    def threads(self) -> int:
        """Number of computing threads."""
        return self.stored.record.environment.threads

    @property
    def conditions(self) -> str:
        """Text on threads and arithmetic of the cases, or "" if the environment states them.

        Studies whose cases differ from the environment override this property.
        """
        return ""

    @cached
    def under_policy(self, policy: Policy) -> Self:
        """Return this run with times under the memory policy ``policy``."""
        return self if policy == self.policy else replace(self, policy=policy)

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        """Measured memory policies, ``retained`` first; empty for old records, which state none."""
        measured = set[Policy]()
        for case in self.stored.record.cases:
            measured.update(round_.policy for round_ in case.rounds if round_.policy)
        return tuple(sorted(measured, key=lambda policy: (policy != "retained", policy)))

    def count_measurements(self, *, disturbed: bool = False) -> Quantity:
        """Count the measurements that were monitored, or only those that were ``disturbed``."""
        runs = sorted(self.stored.runs, key=lambda stored: stored.record.started)
        counts = gates.count_disturbed(stored.record for stored in runs)
        if counts is None:
            return missing_number("measurements", "1", f"not monitored on {self.label}")
        disturbed_count, monitored_count = counts
        count = disturbed_count if disturbed else monitored_count
        further = tuple(stored.file for stored in runs if stored.file != self.file)
        return exact_number("measurements", "1", count, self.file, further)

    def under_main_policy(self) -> Self:
        """Return this run under the first of its ``policies``, or unchanged if it states none."""
        return self.under_policy(self.policies[0]) if self.policies else self

    @cached
    def levels(self, /, factor: str, **where: Level) -> tuple[Level, ...]:
        """Return the sorted levels of a factor in cases with levels ``where``, even if failed."""
        levels = set[Level]()
        for case in self.stored.record.cases:
            if factor in case.factors and where.items() <= case.factors.items():
                levels.add(case.factors[factor])
        return tuple(sorted(levels))

    def case(self, factors: CaseFactors) -> Case | Missing:
        """Return the successful case with exactly these factors, or the reason why it is missing.

        A failed case counts as not measured, even if it has samples.
        """
        case = _cases_by_factors(self.stored).get(frozenset(factors.items()))
        if case is None:
            return Missing(f"not part of the run on {self.label}")
        if case.status != "ok":
            return Missing(f"{with_spaces(case.status)} on {self.label}: {case.reason}")
        return case

    def forward_work(self, factors: CaseFactors) -> Quantity:
        """Compute the work (FLOP) of a forward call from the shapes of the layers that ran."""
        case = self.case(factors)
        if isinstance(case, Missing):
            return missing_number("work", "FLOP", case.reason)
        if not case.layers:
            return missing_number("work", "FLOP", f"layers without a description on {self.label}")
        work = flops(forward_macs(case.layers))
        return exact_number(series_name("work", factors), "FLOP", work, self.file)

    def samples(self, quantity: str, factors: CaseFactors) -> Samples | Missing:
        """Return the raw samples of a quantity in the record, or the reason for their absence."""
        quantity_of(quantity)  # raises for a name that is no quantity
        case = self.case(factors)
        if isinstance(case, Missing):
            return case
        samples = case.samples(quantity, self.policy)
        if not samples:
            reason = self.stored.record.environment.missing.get(quantity, "")
            is_policy_missing = self.policies and self.policy not in self.policies
            policy = f" under memory policy {with_spaces(self.policy)}" if is_policy_missing else ""
            sentence = f"no {with_spaces(quantity)} recorded{policy} on {self.label}"
            return Missing(f"{sentence}: {reason}" if reason else sentence)
        return self._missing_if_short(quantity, samples) or samples

    def _missing_if_short(self, quantity: str, samples: Sequence[Sample]) -> Missing | None:
        """Return a reason if the median of times is below the timer's resolution, else None."""
        device = self.stored.record.environment.device
        if quantity == "time" and median(samples) < gates.RESOLUTION_S[device]:
            return Missing(f"below timer resolution on {self.label}")
        return None

    def series(self, quantity: str, factors: CaseFactors) -> Leaf:
        """Return a measured series, or a missing number if no process recorded the series."""
        return self._series(quantity, tuple(factors.items()))

    @cached
    def _series(self, quantity: str, levels: tuple[tuple[str, Level], ...]) -> Leaf:
        """Compute ``series``; levels are hashable, so that results can be cached."""
        factors = dict(levels)
        name = self._series_name(quantity, factors)
        unit = quantity_of(quantity).unit
        processes = self.by_process(quantity, factors)
        if isinstance(processes, Missing):
            return missing_number(name, unit, processes.reason)
        return self.series_from(name, unit, processes)

    def _series_name(self, quantity: str, factors: CaseFactors) -> str:
        """Name a series; add the memory policy if it is not the main policy.

        The subject is added if a case of another subject has otherwise equal factors.
        """
        factors_in_name = dict(factors)
        if "subject" in factors and self._has_other_subject(factors):
            factors_in_name["of"] = factors_in_name.pop("subject")
        if self.policy in self.policies[1:]:
            factors_in_name["memory"] = f"{self.policy} memory"
        return series_name(quantity, factors_in_name)

    def _has_other_subject(self, factors: CaseFactors) -> bool:
        """Tell whether a case of another subject has otherwise equal factors."""
        cases = _cases_by_factors(self.stored)
        for subject in self.levels("subject"):
            other_factors = {**factors, "subject": subject}
            if other_factors != factors and frozenset(other_factors.items()) in cases:
                return True
        return False

    def by_process(self, quantity: str, factors: CaseFactors) -> tuple[Process, ...] | Missing:
        """Return the samples of a quantity per process and run, or the reason for their absence.

        Deterministic quantities are read from the run's own record.  Times of a pooled run are left
        out if they disagree with the run with most processes, since such runs are not comparable.
        """
        recorded = self.samples(quantity, factors)
        if isinstance(recorded, Missing):
            return recorded
        processes_by_file: dict[str, tuple[Process, ...]] = {}
        levels = frozenset(factors.items())
        for stored in self.stored.runs:
            case = _cases_by_factors(stored).get(levels)
            if case is not None and case.status == "ok":
                processes_by_file[stored.file] = _processes_of(
                    stored, levels, quantity, self.policy
                )
        runs = list(processes_by_file.values())
        if quantity in FIXED:
            runs = runs[:1]
        runs = [processes for processes in runs if processes]
        if quantity == "time" and len(runs) > 1:
            reference = _process_medians(processes_by_file.get(self._reference_file) or runs[0])
            runs = [run for run in runs if gates.runs_agree(reference, _process_medians(run))]
        all_processes = tuple(chain.from_iterable(runs))
        samples = [*chain.from_iterable(process.samples for process in all_processes)]
        return self._missing_if_short(quantity, samples) or all_processes

    @cached_property
    def _reference_file(self) -> str:
        """File of the run with most processes; among equals, the newest run.

        All series use the same run, so that compared series are from one state of the machine.
        """

        def count_processes(run: Stored) -> int:
            planned = sum(run.record.protocol.processes.values())
            return sum(min(len(case.rounds), planned) for case in run.record.cases)

        return max(self.stored.runs, key=count_processes).file

    def deterministic_quantity(self, quantity: str, factors: CaseFactors) -> Leaf:
        """Return ``deterministic_value`` as an exact number, or as a missing number."""
        name, unit = series_name(quantity, factors), quantity_of(quantity).unit
        value = self.deterministic_value(quantity, factors)
        if isinstance(value, Missing):
            return missing_number(name, unit, value.reason)
        return exact_number(name, unit, value, self.file)

    def deterministic_value(self, quantity: str, factors: CaseFactors) -> int | Missing:
        """Return the common value of all repetitions, such as allocated bytes, or a reason."""
        samples = self.samples(quantity, factors)
        if isinstance(samples, Missing):
            return samples
        values = set(samples)
        if len(values) > 1:
            return Missing(f"{with_spaces(quantity)} differed between repetitions on {self.label}")
        return int(values.pop())


def _process_medians(processes: Iterable[Process]) -> list[float]:
    return [process.median for process in processes]


@cached
def _cases_by_factors(stored: Stored) -> dict[_Levels, Case]:
    """Map factors to the case of a record; all runs that use the record share the result."""
    return {frozenset(case.factors.items()): case for case in stored.record.cases}


@cached
def _processes_of(
    stored: Stored, levels: _Levels, quantity: str, policy: Policy
) -> tuple[Process, ...]:
    """Return the samples of each process; all runs that use the record share the result.

    Samples that the record assigns to no process count as one process without a number.
    """
    case, file = _cases_by_factors(stored)[levels], stored.file
    rounds = [round_ for round_ in case.rounds_under(policy) if round_.samples(quantity)]
    processes: list[Process] = []
    for number, round_ in _rounds_by_number(rounds).items():
        samples = _as_floats(round_.samples(quantity))
        processes.append(Process(file, str(number), samples, round_.disturbance is not None))
    if not rounds and (samples := _as_floats(case.samples(quantity, policy))):
        processes.append(Process(file, "", samples))
    return tuple(processes)


def _as_floats(samples: Samples) -> Sequence[float]:
    """Convert samples to floats; samples that are floats stay the same object, to save memory."""
    if {*map(type, samples)} == {float}:
        return samples
    return packed(tuple(map(_shared_float, samples)))


#: Converts a count to a float, the same object for equal counts, since many counts are equal.
_shared_float: Final = lru_cache(maxsize=2**16)(float)


def _rounds_by_number(rounds: Sequence[Round]) -> dict[int, Round]:
    """Number the rounds from 1 by process.

    A repeated process gets the number of the first disturbed process that it replaces, so that
    cases can be compared process by process.
    """
    numbers = range(1, len(rounds) + 1)
    free_numbers = sorted(set(numbers) - {round_.process for round_ in rounds})
    rounds_by_number: dict[int, Round] = {}
    for round_ in rounds:
        number = round_.process if round_.process in numbers else free_numbers.pop(0)
        rounds_by_number[number] = round_
    return rounds_by_number


def series_name(quantity: str, factors: CaseFactors) -> str:
    """Name a series in a formula, such as ``time(batch 64, forward)``.

    A number is printed after the name of its factor, and a text alone.  The subject is omitted.
    """
    levels: list[str] = []
    for factor, level in factors.items():
        if factor == "subject":
            continue
        if isinstance(level, str):
            levels.append(with_spaces(level))
        else:
            levels.append(f"{with_spaces(factor)} {level:,}")
    return f"{with_spaces(quantity)}({', '.join(levels)})"


def with_spaces(name: str) -> str:
    """Write a name with blanks instead of underscores."""
    return name.replace("_", " ")


def machine_id(environment: Environment) -> str:
    """Identify a machine by its label and the hardware digest at the end of the key.

    The rest of a key may change with the processor's name.  An old key, which has no digest, is
    returned whole.
    """
    _, _, digest = environment.key.rpartition("-")
    return f"{environment.label} {digest}" if _DIGEST.fullmatch(digest) else environment.key


def hardware_id(environment: Environment) -> str:
    """Return ``machine_id`` without the number of threads."""
    return machine_id(environment).replace(environment.threads_text, "")


def device_labels(records: Sequence[Stored]) -> tuple[str, ...]:
    """Label the device of each record; add a property to equal labels.

    The property is the first property in which all devices with this label differ, or else the key.
    """
    machines = [item.record.environment for item in records]
    labels = []
    for machine in machines:
        label = machine.label
        same_label = [other for other in machines if other.label == label]
        if len(same_label) > 1:
            label += f" ({_distinguishing_property(machine, same_label)})"
        labels.append(label)
    return tuple(labels)


def _distinguishing_property(machine: Environment, machines: Sequence[Environment]) -> str:
    """Return the machine's first property in which all ``machines`` differ, else its key."""
    properties_of_all = [_properties(other) for other in machines]
    for index, value in enumerate(_properties(machine)):
        values = [properties[index] for properties in properties_of_all]
        if value is not None and None not in values and len(set(values)) == len(values):
            return value
    return machine.key


def _properties(machine: Environment) -> tuple[str | None, ...]:
    """List properties that may tell machines apart, the clearest first; None if not applicable."""
    gpu, cpu = machine.gpu, machine.cpu
    return (
        gpu.model if gpu and machine.name else None,
        cpu.model if machine.name else None,
        f"{round(gpu.memory_bytes / 2**30)} GiB" if gpu else None,
        f"beside {cpu.model}" if gpu else None,
        f"{round(machine.memory_bytes / 2**30)} GiB of memory",
        f"{cpu.cores_available} cores available",
        machine.key,
    )
