"""pytest-benchmark's JSON: rounds of each test in s, each the mean of its iterations."""

from __future__ import annotations

from typing import Any

import msgspec

from experiments.importers.imported import Imported, Source, case, environment, utc_of
from report.records.record import Case


class _Cpu(msgspec.Struct, frozen=True):
    brand_raw: str | None = None


class _Machine(msgspec.Struct):
    cpu: _Cpu = _Cpu()
    system: str | None = None
    release: str | None = None
    python_version: str | None = None


class _Stats(msgspec.Struct):
    mean: float
    data: list[float] = []


class _Benchmark(msgspec.Struct):
    fullname: str
    stats: _Stats
    params: dict[str, Any] | None = None


class _File(msgspec.Struct):
    benchmarks: list[_Benchmark]
    machine_info: _Machine
    version: str
    datetime: str


def detects(source: Source) -> bool:
    """Whether it has pytest-benchmark's machine."""
    return source.has_keys("machine_info", "benchmarks")


def read(source: Source) -> Imported:
    """Its tests with the rounds of each, or with their mean where the rounds were not saved."""
    found = source.as_kind(_File)
    machine = found.machine_info
    system = " ".join(filter(None, (machine.system, machine.release)))
    return Imported(
        instrument="pytest-benchmark",
        instrument_version=found.version,
        environment=environment(
            "cpu",
            source.device_or(machine.cpu.brand_raw),
            operating_system=system or None,
            python=machine.python_version,
        ),
        cases=tuple(_case(each) for each in found.benchmarks),
        unstated="pytest-benchmark's file does not say it",
        conditions=source.given,
        started=utc_of(found.datetime),
    )


def _case(benchmark: _Benchmark) -> Case:
    params = (benchmark.params or {}).items()
    plain = {name: level for name, level in params if isinstance(level, bool | int | float | str)}
    times = benchmark.stats.data or [benchmark.stats.mean]
    return case({**plain, "benchmark": benchmark.fullname}, {"mean_time": times})
