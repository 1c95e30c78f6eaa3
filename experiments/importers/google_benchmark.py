"""google-benchmark's JSON: repetitions of each benchmark, each the mean of many iterations."""

from __future__ import annotations

from typing import Final

import msgspec

from experiments.importers.imported import Imported, Source, case, environment, utc_of
from report.records.record import Case

_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


class _Context(msgspec.Struct):
    date: str
    library_version: str | None = None


class _Benchmark(msgspec.Struct):
    name: str
    run_type: str
    time_unit: str | None = None
    run_name: str | None = None
    threads: int | None = None
    real_time: float | None = None
    cpu_time: float | None = None
    error_occurred: bool = False
    error_message: str = ""


class _File(msgspec.Struct):
    context: _Context
    benchmarks: list[_Benchmark]


def detects(source: Source) -> bool:
    """Whether it has google-benchmark's context."""
    return source.has_keys("context", "benchmarks")


def read(source: Source) -> Imported:
    """Its repetitions; aggregates are left out, since they can be computed."""
    found = source.as_kind(_File)
    groups: dict[str, list[_Benchmark]] = {}
    for each in found.benchmarks:
        if each.run_type == "iteration":
            groups.setdefault(each.run_name or each.name, []).append(each)
    if not groups:
        raise source.refused("it has aggregates alone; run without --benchmark_report_aggregates")
    threads = {each.threads for group in groups.values() for each in group}
    return Imported(
        instrument="google-benchmark",
        instrument_version=found.context.library_version,
        environment=environment(
            "cpu",
            source.device_or(None),
            threads=threads.pop() if len(threads) == 1 else None,
        ),
        cases=tuple(_case(source, name, group) for name, group in groups.items()),
        unstated="google-benchmark's file does not say it",
        conditions=source.given,
        missing={
            "clock": "google-benchmark writes the nominal clock, not the one while it measured",
            "counters": "counters of a benchmark's own have no unit and are left out",
        },
        started=utc_of(found.context.date),
    )


def _case(source: Source, name: str, group: list[_Benchmark]) -> Case:
    """A benchmark with all that its repetitions took, or why one of them failed."""
    factors = {"benchmark": name}
    if failed := next((each for each in group if each.error_occurred), None):
        return case(factors, {}, failed.error_message or "the benchmark failed")
    for each in group:
        if each.time_unit not in _SECONDS or each.real_time is None or each.cpu_time is None:
            raise source.refused(f"{name}: its times or their unit are missing; fetch it again")
    scales = [_SECONDS[each.time_unit or ""] for each in group]
    measured = {
        "mean_time": [(e.real_time or 0) * scale for e, scale in zip(group, scales, strict=True)],
        "mean_cpu_time": [
            (e.cpu_time or 0) * scale for e, scale in zip(group, scales, strict=True)
        ],
    }
    return case(factors, measured)
