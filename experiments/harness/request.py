"""What a run is asked for: from the command line's words to its plan, cases and shard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from experiments import registry
from experiments.harness import policies
from experiments.harness.study import CeilingSize, CounterChoice, Device, Factors, Levels, Study
from report.errors import UsageError
from report.records.pooling import OPTION
from report.records.record import Factor as Level
from report.records.record import Protocol, Shard
from report.records.store import digest


@dataclass(frozen=True)
class Request:
    """What the command line asks for; what is None is left to us.

    ``records`` is where the record goes, ``images`` the folder of a data set of the user's own.
    ``label`` is what people call this machine; ``wait_quiet`` says for how many minutes at most to
    wait until the machine does nothing else.  Executed work is counted (``auto``) in a full plan
    and else not.  ``shard`` is (i, n) for the i-th of n shards, from 1; with ``if_missing`` one
    that is measured is left as it is, and an unfinished one is continued.  ``changes`` are those
    of the plan's protocol.
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
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def counter_choice(self) -> CounterChoice:
        """What to count."""
        return self.counters or ("none" if self.quick else "auto")

    @property
    def places(self) -> tuple[str, ...]:
        """The folders that the user gave, as given; of a repeated option the last counts."""
        images = () if self.images is None else ("--data", str(self.images))
        return images if self.records == Path("data") else (*images, "--records", str(self.records))

    def command(self, threads: int | None) -> tuple[str, ...]:
        """The command that repeats this run, with no more of this machine than threads and label.

        Without ``threads`` they are left to the machine.  Of the folder of images only its own name
        stands there.
        """
        given = {
            "--device": self.device,
            "--threads": threads,
            "--quick": "" if self.quick else None,
            "--counters": self.counters,
            OPTION: self.shard and "{}/{}".format(*self.shard),
            "--label": self.label,
            "--wait-quiet": self.wait_quiet and f"{self.wait_quiet:g}",
            "--data": self.images and self.images.resolve().name,
        }
        words = [str(w) for n, value in given.items() if value is not None for w in (n, value) if w]
        settings = (word for setting in self.settings for word in ("--set", setting))
        return ("python", "-m", "experiments", "run", self.study, *words, *settings)

    def selected(self) -> tuple[Study, Protocol, tuple[Factors, ...]]:
        """The study with the ceilings to measure, the protocol and the cases.

        A run with settings or with changes of the protocol is a ``custom`` plan.  A folder of
        images takes the place of the study's own.  Raises ``UsageError``.
        """
        study = registry.load(self.study).on(self.device)
        if self.images and study.images is None:
            raise UsageError(f"--data: {self.study} reads no images; leave it out.")
        chosen = _parsed(study, self.settings)
        protocol = study.quick if self.quick else study.full
        if chosen or self.changes:
            protocol = msgspec.structs.replace(protocol, plan="custom", **self.changes)
        given: Levels = {"dataset": (study.images,)} if self.images and study.images else {}
        cases = study.cases({**study.levels(quick=self.quick), **given, **chosen})
        if not cases:
            raise UsageError(
                f"--set leaves no case of {self.study}: these levels do not go together; python -m "
                f"experiments list {self.study} shows what there is."
            )
        usual: CeilingSize = "small" if self.quick and study.ceilings == "large" else study.ceilings
        return replace(study, ceilings=self.ceilings or usual), protocol, cases

    def part(self) -> Shard | None:
        """Which part of which sweep is measured; raises ``UsageError`` for more than there can be.

        A sweep is the plan, the cases and what is counted, the same in all of its shards.
        """
        if self.shard is None:
            return None
        (number, of), (study, protocol, cases) = self.shard, self.selected()
        processes = possible(protocol, self.device)[0].processes
        most = max(processes.values(), default=1) if study.has_times else len(cases)
        if of > most:
            what = "processes" if study.has_times else "cases"
            there = f"there are {most} {what}; give {most} or less"
            raise UsageError(f"{of} shards are too many: {there}.")
        parts = (self.study, self.device, protocol, cases, self.counter_choice)
        return Shard(number=number, of=of, sweep=digest(msgspec.json.encode(parts, order="sorted")))


def _parsed(study: Study, settings: Iterable[str]) -> dict[str, tuple[Level, ...]]:
    """The levels that ``factor=level,level`` chooses of each factor."""
    factors = {factor.name: factor for factor in study.factors}
    chosen: dict[str, tuple[Level, ...]] = {}
    for setting in settings:
        name, _, values = setting.partition("=")
        if name not in factors:
            raise UsageError(
                f"--set {setting}: {study.name} has no factor {name!r}; possible are "
                f"{', '.join(factors)}."
            )
        if not values:
            raise UsageError(f"--set {setting}: expected {name}=LEVEL or {name}=LEVEL,LEVEL.")
        if name in chosen:
            raise UsageError(f"--set {name} stands twice; give all levels in one, with commas.")
        levels = {factors[name].parse(value) for value in values.split(",")}
        # Numbers by size, words by alphabet: the order must not depend on how they were typed.
        chosen[name] = tuple(sorted(levels, key=lambda level: (isinstance(level, str), level)))
    return chosen


def possible(planned: Protocol, device: Device) -> tuple[Protocol, dict[str, str]]:
    """The protocol with the memory policies that there are here.

    Where only the default is there, it takes the most processes that are planned.  Beside it the
    reason for each policy that is not there.
    """
    reasons = {policy: policies.unavailable(policy, device) for policy in planned.processes}
    there = {policy: n for policy, n in planned.processes.items() if reasons[policy] is None}
    if planned.processes and len(there) <= 1:
        there = dict.fromkeys(there or ("default",), max(planned.processes.values()))
    return msgspec.structs.replace(
        planned,
        processes=there,
        variables={  # without the folders of this machine
            policy: {n: value.rpartition("/")[2] for n, value in policies.variables(policy).items()}
            for policy in there
        },
    ), {f"policies.{policy}": reason for policy, reason in reasons.items() if reason}
