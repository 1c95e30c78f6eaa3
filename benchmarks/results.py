"""What a run of the benchmarks leaves behind: raw samples, and where and with what they were taken.

A part (``builds``, ``scale``, ``filter``, ``checks``) is measured in one run and carries its own
environment, because ratios are only formed within one part.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

SCHEMA = 1


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a command; ``peak_bytes`` is the resident memory of its largest process."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Where and when a part was measured; ``versions`` are those of the tools that took part."""

    started: str
    finished: str
    commit: str | None
    tree_clean: bool | None
    processor: str
    cores: int
    memory_bytes: int
    operating_system: str
    python: str
    load_before: float
    load_after: float
    versions: dict[str, str]


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured in one run."""

    environment: Environment


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One of the tools that stand side by side, or the reason why it is not there."""

    name: str
    title: str
    makes: str
    caching: str
    missing: str | None


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """All samples of one tool in one scenario, and what was wrong with its outputs afterwards."""

    tool: str
    scenario: str
    samples: tuple[Sample, ...]
    faults: tuple[str, ...]


class EngineTask(msgspec.Struct, frozen=True, kw_only=True):
    """The time of one call of an engine or of matplotlib inside a bare pool of workers."""

    engine: str
    scenario: str
    kind: str
    name: str
    seconds: tuple[float, ...]


class Computing(msgspec.Struct, frozen=True, kw_only=True):
    """What a study takes on one core before anything is drawn or rendered."""

    study: str
    seconds: tuple[float, ...]


class Builds(_Part, frozen=True, kw_only=True):
    """The part in which all tools and the bare engines take turns."""

    tools: tuple[Tool, ...]
    timed: tuple[Timed, ...]
    engine_tasks: tuple[EngineTask, ...]
    computing: tuple[Computing, ...]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One size on one axis of the scale; ``input_bytes`` is what was read, where that is known.

    ``idle_peak_bytes`` is the peak of a process that imports the same and reads nothing.
    """

    axis: str
    size: int
    samples: tuple[Sample, ...]
    input_bytes: int | None
    idle_peak_bytes: int | None


class Scale(_Part, frozen=True, kw_only=True):
    """The part that grows records, cases and studies."""

    points: tuple[Point, ...]


class Filtered(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of pandoc for the page of one paper, with the Lua filter and without."""

    study: str
    with_filter: tuple[float, ...]
    without: tuple[float, ...]


class Filtering(_Part, frozen=True, kw_only=True):
    """The part that tells what the Lua filter costs."""

    papers: tuple[Filtered, ...]


class Checks(_Part, frozen=True, kw_only=True):
    """The part that runs the project's checks in a fresh clone; ``passed`` counts tests."""

    install: Sample
    check: Sample
    passed: int


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in ``results.json``; a part that was never measured is null."""

    schema: int = SCHEMA
    builds: Builds | None = None
    scale: Scale | None = None
    filtering: Filtering | None = None
    checks: Checks | None = None


def read(path: Path) -> Results:
    """The results in ``path``, or none at all if there is no such file."""
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else Results()


def write(results: Results, path: Path) -> None:
    """Write ``results`` as JSON, a value a line."""
    text = msgspec.json.format(msgspec.json.encode(results), indent=1)
    path.write_bytes(text + b"\n")
