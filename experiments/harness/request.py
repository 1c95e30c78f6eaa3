"""Request of a run: options of the command line, which select the plan, cases and shard.

A shard is one part of a run that is divided; the shards of one run together are a sweep.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from experiments import registry
from experiments.harness import policies
from experiments.harness.study import CeilingSize, CounterChoice, Device, Experiment, Levels
from report.core.errors import UsageError
from report.core.records.pooling import SHARD_OPTION
from report.core.records.record import Factors, Level, Policy, Protocol, Shard
from report.core.records.store import digest


@dataclass(frozen=True)
class Request:
    """Options of the command line; None stands for the default.

    ``records`` is the folder of records, ``images`` the folder of the user's own data set.
    ``settings`` are texts of --set.  ``label`` is the user's name of this machine.  ``wait_quiet``
    is the time to wait for a quiet machine (min).  ``shard`` is (i, n) for the i-th of n parts;
    with ``if_missing`` a measured shard is not measured again, and an unfinished shard is resumed.
    ``pairs`` is the smallest number of processes under each memory policy that a paper's claims
    compare (default: the plan's number).  ``changes`` replace fields of the plan's protocol,
    ``levels`` replace levels of the study.  ``words`` replace ``run STUDY`` at the beginning of the
    command.  ``typed_words`` maps words of ``command`` to the words that the user typed.
    """

    study: str
    records: Path
    device: Device = "cpu"
    threads: int | None = None
    quick: bool = False
    settings: tuple[str, ...] = ()
    resume: bool = False
    if_missing: bool = False
    counters: CounterChoice | None = None
    images: Path | None = None
    label: str | None = None
    shard: tuple[int, int] | None = None
    wait_quiet: float | None = None
    ceilings: CeilingSize | None = None
    pairs: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    levels: Levels = field(default_factory=dict)
    words: tuple[str, ...] = ()
    typed_words: Mapping[str, str] = field(default_factory=dict)

    @property
    def counter_choice(self) -> CounterChoice:
        """The user's choice of cases to count; by default ``none`` if ``quick``, else ``auto``."""
        return self.counters or ("none" if self.quick else "auto")

    @property
    def folder_options(self) -> tuple[str, ...]:
        """Options with the user's folders; after ``command``, they replace its ``--data``."""
        images = () if self.images is None else ("--data", str(self.images))
        return images if self.records == Path("data") else (*images, "--records", str(self.records))

    def command(self, threads: int | None) -> tuple[str, ...]:
        """Return the command that repeats this run, without paths of this machine."""
        options = {
            "--device": self.device,
            "--threads": threads,
            "--quick": "" if self.quick else None,
            "--counters": self.counters,
            SHARD_OPTION: self.shard and f"{self.shard[0]}/{self.shard[1]}",
            "--label": self.label,
            "--pairs": self.pairs,
            "--wait-quiet": self.wait_quiet and f"{self.wait_quiet:g}",
            "--data": self.images and self.images.resolve().name,
        }
        words = []
        for option, value in options.items():
            if value is None:  # the option is not given
                continue
            words += [option, str(value)] if value else [option]  # empty: the option has no value
        for setting in self.settings:
            words += ["--set", setting]
        return ("python", "-m", "experiments", *(self.words or ("run", self.study)), *words)

    def select(self) -> tuple[Experiment, Protocol, tuple[Factors, ...]]:
        """Return the study with this run's ceilings, the protocol, and the cases.

        With ``--set`` or ``changes``, the protocol's plan is ``custom``.  Raises ``UsageError`` for
        options that do not fit the study.
        """
        study = registry.load(self.study).on(self.device)
        plan = study.plan
        if self.images and plan.images is None:
            raise UsageError(f"--data: {self.study} reads no images; drop the option.")
        settings = _parse_settings(study, self.settings)
        protocol = plan.quick if self.quick else plan.full
        if settings or self.changes:
            protocol = msgspec.structs.replace(protocol, plan="custom", **self.changes)
        data: Levels = {"dataset": (plan.images,)} if self.images and plan.images else {}
        cases = study.cases({**study.levels(quick=self.quick), **data, **settings, **self.levels})
        if not cases:
            raise UsageError(
                f"--set: {self.study} has no case with this combination of levels; python -m "
                f"experiments list {self.study} lists all factors."
            )
        size: CeilingSize = "small" if self.quick and plan.ceilings == "large" else plan.ceilings
        plan = replace(plan, ceilings=self.ceilings or size)
        return replace(study, plan=plan), protocol, cases

    def select_shard(self) -> Shard | None:
        """Return the shard with the hash of its sweep; None for a run of the whole plan.

        All shards of a sweep have the same plan, cases and counters.  Raises ``UsageError`` for too
        many shards, or if ``pairs`` is given.
        """
        if self.shard is None:
            return None
        if self.pairs is not None:
            raise UsageError("--pairs: shards have the plan's processes; drop the option.")
        number, shards = self.shard
        study, protocol, cases = self.select()
        processes = available_policies(protocol, self.device)[0].processes
        largest = max(processes.values(), default=1) if study.has_times else len(cases)
        if shards > largest:
            unit = "processes" if study.has_times else "cases"
            raise UsageError(
                f"{shards} shards are too many: the run has {largest} {unit}; "
                f"give {largest} or less."
            )
        sweep = (self.study, self.device, protocol, cases, self.counter_choice)
        sweep_hash = digest(msgspec.json.encode(sweep, order="sorted"))
        return Shard(number=number, of=shards, sweep=sweep_hash)


def _parse_settings(study: Experiment, settings: Iterable[str]) -> dict[str, tuple[Level, ...]]:
    """Parse ``factor=level,level`` into the levels of each factor."""
    factors = {factor.name: factor for factor in study.factors}
    levels_of: dict[str, tuple[Level, ...]] = {}
    for setting in settings:
        name, _, values = setting.partition("=")
        if name not in factors:
            raise UsageError(
                f"--set {setting}: {study.name} has no factor {name!r}; its factors are "
                f"{', '.join(factors)}."
            )
        if not values:
            raise UsageError(f"--set {setting}: expected {name}=LEVEL or {name}=LEVEL,LEVEL.")
        if name in levels_of:
            raise UsageError(f"--set {name} is repeated; give all levels in one, with commas.")
        levels = {factors[name].parse(value) for value in values.split(",")}
        # Levels are sorted, numbers before words, because the typed order must not matter.
        levels_of[name] = tuple(sorted(levels, key=lambda level: (isinstance(level, str), level)))
    return levels_of


def available_policies(planned: Protocol, device: Device) -> tuple[Protocol, dict[str, str]]:
    """Reduce a protocol to the memory policies available here; also return why others are missing.

    If at most one policy is available, it (or ``default``) gets the largest number of processes.
    """
    processes: dict[Policy, int] = {}
    missing = {}
    for policy, number in planned.processes.items():
        reason = policies.unavailable(policy, device)
        if reason is None:
            processes[policy] = number
        else:
            missing[f"policies.{policy}"] = reason
    if planned.processes and len(processes) <= 1:
        only_policy: Policy = next(iter(processes), "default")
        processes = {only_policy: max(planned.processes.values())}
    variables: dict[Policy, dict[str, str]] = {policy: {} for policy in processes}
    for policy in processes:
        for name, value in policies.variables(policy).items():
            variables[policy][name] = value.rpartition("/")[2]  # without folders of this machine
    available = msgspec.structs.replace(planned, processes=processes, variables=variables)
    return available, missing
