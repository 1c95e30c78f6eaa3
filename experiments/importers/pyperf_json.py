"""pyperf's JSON: every process of a benchmark with its values, each the mean of many calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from experiments.importers.imported import Imported, Source, case, environment, round_
from report.records.record import Case


class _Run(msgspec.Struct):
    values: list[float] = []


class _Benchmark(msgspec.Struct):
    runs: list[_Run]
    metadata: dict[str, Any] = {}


class _Suite(msgspec.Struct):
    benchmarks: list[_Benchmark]
    version: str
    metadata: dict[str, Any] = {}


def detects(source: Source) -> bool:
    """Whether it has benchmarks with runs."""
    if not source.has_keys("benchmarks", "version"):
        return False
    found = source.json["benchmarks"]
    return isinstance(found, list) and any(isinstance(b, dict) and "runs" in b for b in found)


def read(source: Source) -> Imported:
    """Its benchmarks, each process a round; refuses values in other units than seconds."""
    suite = source.as_kind(_Suite)
    common = suite.metadata
    return Imported(
        instrument="pyperf",
        instrument_version=_text(common, "perf_version"),
        environment=environment(
            "cpu",
            source.device_or(_text(common, "cpu_model_name")),
            operating_system=_text(common, "platform"),
            python=_text(common, "python_version"),
        ),
        cases=tuple(_case(source, each, {**common, **each.metadata}) for each in suite.benchmarks),
        unstated="pyperf's file does not say it",
        conditions=source.given,
        missing={"started": "pyperf writes local times without their zone"},
    )


def _case(source: Source, benchmark: _Benchmark, metadata: Mapping[str, Any]) -> Case:
    name = _text(metadata, "name")
    if name is None:
        raise source.refused("a benchmark has no name; write the file with pyperf's runner")
    if (unit := metadata.get("unit", "second")) != "second":
        raise source.refused(f"{name}: its unit is {unit}, which says nothing of what it is of")
    values = [run.values for run in benchmark.runs if run.values]
    rounds = [round_(number, {"mean_time": each}) for number, each in enumerate(values, start=1)]
    return case({"benchmark": name}, {}, None if rounds else "the file has no values", rounds)


def _text(metadata: Mapping[str, Any], name: str) -> str | None:
    found = metadata.get(name)
    return found if isinstance(found, str) and found else None
