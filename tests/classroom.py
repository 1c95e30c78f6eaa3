"""A class of made-up machines, cut from one committed record; for tests only."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import msgspec

from experiments.harness.identity import device_key
from report.engine.pipeline import ROOT
from report.records.filed import encode
from report.records.record import Cache, Case, Environment, Record, Round, Series
from report.records.store import read_study, record_name
from tests import factory

_changed = msgspec.structs.replace
_PROCESSORS: Final = (
    "AMD Ryzen 5 5500U with Radeon Graphics",
    "AMD Ryzen 7 7840U w/ Radeon 780M Graphics",
    "Apple M2",
    "Intel(R) Core(TM) i5-1135G7",
    "Intel(R) Core(TM) i5-8250U",
    "Intel(R) Core(TM) i7-1260P",
    "Intel(R) Core(TM) Ultra 7 155H",
)
Samples: TypeAlias = tuple[int | float, ...]
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


@cache
def base_record(study: str, cases: int | None = None) -> Record:
    """The newest committed record of a CPU, without the files beside it.

    Of its ``cases`` about so many stay, those of each subject among them.
    """
    found = [stored.record for stored in read_study(study, ROOT / "data")]
    newest = next(r for r in reversed(found) if r.environment.device == "cpu")
    every = max(1, len(newest.cases) // (cases or len(newest.cases)))
    first = {case.factors["subject"]: i for i, case in reversed(list(enumerate(newest.cases)))}
    few = (c for i, c in enumerate(newest.cases) if i % every == 0 or i in first.values())
    return _changed(newest, attachments=(), cases=tuple(few))


def machine(base: Record, number: int) -> Record:
    """The record of «classroom laptop ``number``»: another identity, and all times scaled."""
    random = Random(number)
    slow = 2 ** random.uniform(-1.5, 1.5)
    # No two machines are slower by the same factor in all that they do.
    own = {policy: 2 ** random.gauss(0, 0.2) for policy in ("retained", "default", "jemalloc")}

    def scaled(samples: Samples, factor: float) -> Samples:
        return tuple(sample * factor for sample in samples)

    def timed(series: tuple[Series, ...], factor: float) -> tuple[Series, ...]:
        return tuple(
            _changed(s, samples=scaled(s.samples, factor)) if s.unit == "s" else s for s in series
        )

    def of_case(case: Case) -> Case:
        factor = slow * 2 ** random.gauss(0, 0.1)
        rounds: tuple[Round, ...] = tuple(
            _changed(each, series=timed(each.series, factor * own.get(str(each.policy), 1.0)))
            for each in case.rounds
        )
        return _changed(case, series=timed(case.series, factor), rounds=rounds)

    started, finished = (
        (datetime.strptime(moment, _TIME) + timedelta(days=1, minutes=number)).strftime(_TIME)
        for moment in (base.started, base.finished)
    )
    return _changed(
        base,
        started=started,
        finished=finished,
        environment=_owned(base.environment, number, random),
        cases=tuple(map(of_case, base.cases)),
        ceilings=tuple(_changed(c, samples=scaled(c.samples, slow)) for c in base.ceilings),
    )


def _owned(environment: Environment, number: int, random: Random) -> Environment:
    host = environment.host
    assert host is not None, "the newest records know their host"
    name, model = f"classroom laptop {number}", random.choice(_PROCESSORS)
    threads, memory = random.choice((4, 8, 12, 16)), random.choice((8, 16, 32)) * 2**30
    caches = (
        Cache(level=1, kind="data", size_bytes=32 * 2**10, cores=1),
        Cache(level=2, kind="unified", size_bytes=512 * 2**10, cores=1),
        Cache(
            level=3, kind="unified", size_bytes=random.choice((8, 12, 16)) * 2**20, cores=threads
        ),
    )
    host = _changed(host, machine=f"{random.getrandbits(48):012x}", caches=caches)
    return _changed(
        environment,
        key=device_key(model, threads, host, memory, name=name),
        name=name,
        cpu=_changed(environment.cpu, model=model, cores_available=threads),
        host=host,
        threads=threads,
        memory_bytes=memory,
        missing={key: why for key, why in environment.missing.items() if key != "name"},
    )


def the_class(study: str, machines: int, cases: int | None = None) -> Iterator[Record]:
    """The records of a class of so many machines, whole or of about so many cases each."""
    base = base_record(study, cases)
    return (machine(base, number) for number in range(1, machines + 1))


def write_class(
    study: str, data: Path, machines: int = 30, cases: int | None = None
) -> tuple[Path, Path]:
    """Add a class to ``data``, the last record cut off, and a foreign file; returns these two."""
    folder = data / study
    folder.mkdir(parents=True, exist_ok=True)
    path = folder
    for record in the_class(study, machines, cases):
        path = folder / record_name(record)
        factory.file_record(path, encode(record))
    text = path.read_bytes()
    path.write_bytes(text[: len(text) // 2])
    foreign = folder / "20261123T120000Z-a-laptop-0123abcd.zip"
    factory.file_record(foreign, b'{"context": {"date": "2026-11-23"}, "benchmarks": []}')
    return path, foreign
