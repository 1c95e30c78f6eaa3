"""nvbench's JSON, version 1: the mean time of isolated kernel executions on one GPU.

Experimental: written after nvbench's own printer and published example; no file of a run was found.
"""

from __future__ import annotations

from typing import Final

import msgspec

from experiments.importers.imported import Imported, Source, case, environment
from report.records.record import Case, Factor

_TIME: Final = "nv/cold/time/gpu/mean"


class _Datum(msgspec.Struct):
    name: str
    value: str | int | float


class _Axis(msgspec.Struct):
    name: str
    value: str | int | float


class _Summary(msgspec.Struct):
    tag: str
    data: list[_Datum]


class _State(msgspec.Struct):
    device: int
    axis_values: list[_Axis] | None = None
    summaries: list[_Summary] | None = None
    is_skipped: bool = False
    skip_reason: str = ""


class _Benchmark(msgspec.Struct):
    name: str
    states: list[_State] | None = None


class _Device(msgspec.Struct):
    id: int
    name: str
    global_memory_size: int | None = None


class _Version(msgspec.Struct):
    string: str


class _Versions(msgspec.Struct):
    json: _Version
    nvbench: _Version


class _Meta(msgspec.Struct):
    version: _Versions


class _File(msgspec.Struct):
    meta: _Meta
    devices: list[_Device]
    benchmarks: list[_Benchmark]


def detects(source: Source) -> bool:
    """Whether it has nvbench's devices."""
    return source.has_keys("devices", "benchmarks")


def read(source: Source) -> Imported:
    """The states of the only device, or of the one that the user names."""
    found = source.as_kind(_File)
    if not found.meta.version.json.string.startswith("1."):
        raise source.refused(f"its format is {found.meta.version.json.string}, known is 1")
    device = _device(source, found.devices)
    return Imported(
        instrument="nvbench",
        instrument_version=found.meta.version.nvbench.string,
        environment=environment("cuda", device.name, memory_bytes=device.global_memory_size),
        cases=tuple(
            _case(source, each.name, state)
            for each in found.benchmarks
            for state in each.states or []
            if state.device == device.id
        ),
        unstated="nvbench's file does not say it",
        conditions=source.given,
        missing={"clock": "nvbench's file has the default clock, not the one while it measured"},
    )


def _device(source: Source, devices: list[_Device]) -> _Device:
    wanted = [each for each in devices if source.device in (None, each.name)]
    if len(wanted) != 1:
        names = ", ".join(each.name for each in devices) or "none"
        raise source.refused(f"its devices are {names}; name one of them with --device")
    return wanted[0]


def _case(source: Source, name: str, state: _State) -> Case:
    axes: dict[str, Factor] = {axis.name: axis.value for axis in state.axis_values or []}
    factors = {**axes, "benchmark": name}
    if state.is_skipped:
        return case(factors, {}, state.skip_reason or "nvbench skipped it")
    times = [
        datum.value
        for summary in state.summaries or []
        for datum in summary.data
        if (summary.tag, datum.name) == (_TIME, "value")
    ]
    try:
        return case(factors, {"mean_time": [float(time) for time in times]})
    except ValueError:
        raise source.refused(f"{name}: its time is {times[0]!r}, which is no number") from None
