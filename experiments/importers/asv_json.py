"""asv's results (version 2): a file for each commit and environment, without the units.

asv takes the kind of a benchmark from how its name begins, and with it the unit of ``time_`` and
``peakmem_``.  What ``track_`` and ``mem_`` are of, the file does not say.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Final

import msgspec

from experiments.importers.imported import Imported, Source, case, environment
from report.records.record import Case, Factor, Sample

_TIMED: Final = ("time_", "timeraw_")
_PEAK: Final = "peakmem_"


class _File(msgspec.Struct):
    commit_hash: str
    params: dict[str, str | None]
    python: str
    result_columns: list[str]
    results: dict[str, list[Any]]
    version: int


def detects(source: Source) -> bool:
    """Whether it has asv's columns of results."""
    return source.has_keys("result_columns", "results")


def read(source: Source) -> Imported:
    """Its benchmarks; those without a known unit are cases without a measurement."""
    found = source.as_kind(_File)
    if found.version != 2:
        raise source.refused(f"its version is {found.version}, known is 2; run a newer asv")
    return Imported(
        instrument="asv",
        instrument_version=None,
        environment=environment(
            "cpu",
            source.device_or(found.params.get("cpu")),
            operating_system=found.params.get("os"),
            memory_bytes=_bytes(source, found.params.get("ram")),
            python=found.python,
        ),
        cases=tuple(
            each
            for name, values in found.results.items()
            for each in _cases(source, name, dict(zip(found.result_columns, values, strict=False)))
        ),
        unstated="asv's results do not say it",
        conditions={"measured_commit": found.commit_hash, **source.given},
    )


def _bytes(source: Source, ram: str | None) -> int | None:
    """asv writes kB, and some machines nothing."""
    if not ram:
        return None
    if not ram.isdecimal():
        raise source.refused(f"params.ram: found {ram!r}, which is no number of kB")
    return int(ram) * 1024


def _cases(source: Source, name: str, columns: Mapping[str, Any]) -> list[Case]:
    results, params = columns.get("result"), columns.get("params") or []
    combinations = list(product(*params))
    if results is None:
        results = [None] * len(combinations)
    if not isinstance(results, list) or len(results) != len(combinations):
        raise source.refused(f"results.{name}: results and parameters do not fit; fetch it again")
    samples = columns.get("samples") or [None] * len(results)
    return [
        _case(name, levels, result, taken)
        for levels, result, taken in zip(combinations, results, samples, strict=True)
    ]


def _case(name: str, levels: Sequence[str], result: Any, taken: Any) -> Case:
    factors: dict[str, Factor] = {f"parameter_{n}": _level(t) for n, t in enumerate(levels, 1)}
    factors["benchmark"] = name
    kind = name.rpartition(".")[2]
    if result is None:
        return case(factors, {}, "asv has no result")
    if kind.startswith(_PEAK):
        return case(factors, {"resident_peak": [int(result)]})
    if not kind.startswith(_TIMED):
        return case(factors, {}, "its unit is not in asv's results")
    times: dict[str, list[Sample]] = {"mean_time": taken} if taken else {"median_time": [result]}
    return case(factors, times)


def _level(text: str) -> Factor:
    """A parameter, which asv writes as Python does."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return found if isinstance(found, bool | int | float | str) else text
