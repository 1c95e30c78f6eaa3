"""A class of made-up machines, cut from one committed record; for tests only."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

import msgspec

from report.engine.pipeline import ROOT
from report.records.filed import encode
from report.records.quantities import QUANTITIES
from report.records.record import Case, Measured, Record
from report.records.store import read_study, record_name
from tests import factory

_changed = msgspec.structs.replace


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
    slow = 2 ** random.uniform(0.5, 3)

    def timed(series: Measured, factor: float) -> Measured:
        return {
            name: tuple(x * factor for x in samples) if QUANTITIES[name].unit == "s" else samples
            for name, samples in series.items()
        }

    def of_case(case: Case) -> Case:
        # No two machines are slower by the same factor in all that they do.
        factor = slow * 2 ** random.gauss(0, 0.1)
        rounds = tuple(_changed(r, series=timed(r.series, factor)) for r in case.rounds)
        return _changed(case, series=timed(case.series, factor), rounds=rounds)

    host = base.environment.host
    assert host is not None, "the newest records know their host"
    environment = _changed(
        base.environment,
        key=f"classroom-laptop-{number}",
        name=f"classroom laptop {number}",
        host=_changed(host, machine=f"{number:012x}"),
        missing={k: why for k, why in base.environment.missing.items() if k != "name"},
    )
    return _changed(
        base,
        started=f"2026-12-01T{number // 60:02}:{number % 60:02}:00Z",
        finished="2026-12-31T00:00:00Z",
        environment=environment,
        cases=tuple(map(of_case, base.cases)),
        ceilings=tuple(
            _changed(c, samples=tuple(x * slow for x in c.samples)) for c in base.ceilings
        ),
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
