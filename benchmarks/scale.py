"""The part ``scale``: how time and memory grow with records, cases and studies.

Reading is timed inside a fresh process, so that imports do not count; its peak is compared with
that of a process that imports the same and reads nothing.  Builds are timed from outside.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import synthetic
from benchmarks.environment import begin, finish
from benchmarks.peers.install import cores
from benchmarks.progress import Tell
from benchmarks.project import ROOT, build_command, copy_project, package_versions
from benchmarks.results import Point, Sample, Scale
from benchmarks.timing import Command, plain_environment, run

#: Cases of one record where the axis is the number of cases, and where it is that of records.
MANY_CASES: Final = 1_000
FEW_CASES: Final = 10

RECORDS: Final = (10, 100, 1_000, 10_000)
CASES: Final = (1_000, 10_000, 100_000, 1_000_000)
STUDIES: Final = (5, 50, 500)
#: The number of cases at which reading is compared with pandas.
COMPARED: Final = 100_000
REPEATS: Final = 3

#: What each axis grows, in words for the tables.
AXES: Final[Mapping[str, str]] = {
    "cases_read": "cases read and checked (`report.records.store.read_study`)",
    "cases_pandas": "the same files by `pandas.json_normalize`, a row a case with all it holds",
    "cases_series": "the same files by `pandas.json_normalize`, a row a series with few fields",
    "records_newest": "records of a study, listed, and read for a paper (`report.records.store`)",
    "records_cold": "records of a study, its page built from nothing",
    "records_noop": "records of a study, nothing to do",
    "studies_cold": "studies, all pages built from nothing",
    "studies_noop": "studies, nothing to do",
    "studies_record": "studies, one record of one study changed",
}


def measure(tell: Tell, largest: int | None = None) -> Scale:
    """Measure every axis; ``largest`` leaves larger sizes out."""
    start = begin()
    points: list[Point] = []
    steps = [step for step in _steps() if largest is None or step[1] <= largest]
    for index, (words, size, take) in enumerate(steps):
        tell(f"{words}: {size:,}", index / len(steps))
        with tempfile.TemporaryDirectory(prefix="benchmarks-") as scratch:
            points += take(Path(scratch), size)
    tell("done", 1.0)
    versions = package_versions(("pandas", "msgspec"))
    return Scale(environment=finish(start, versions), points=tuple(points))


def _steps() -> list[tuple[str, int, Callable[[Path, int], Sequence[Point]]]]:
    return [
        *(("cases", size, _cases) for size in CASES),
        *(("records", size, _records) for size in RECORDS),
        *(("studies", size, _studies) for size in STUDIES),
    ]


def _cases(scratch: Path, size: int) -> list[Point]:
    """Reading with all checks, and beside it pandas up to the size that is compared."""
    written = synthetic.write_records(scratch, size // MANY_CASES, MANY_CASES)
    pandas = {"cases_pandas": "pandas", "cases_series": "pandas_series"}
    how = {"cases_read": "strict", **(pandas if size <= COMPARED else {})}
    return _read_points(scratch, size, how, REPEATS, written)


def _read_points(
    data: Path, size: int, how: Mapping[str, str], repeats: int, written: int
) -> list[Point]:
    """The axes in ``how`` take turns."""
    samples: dict[str, list[Sample]] = {axis: [] for axis in how}
    idle = {axis: _reading(way, data / "nothing").peak_bytes for axis, way in how.items()}
    for _ in range(repeats):
        for axis, way in how.items():
            samples[axis].append(_reading(way, data))
    return [
        Point(axis=axis, size=size, samples=tuple(samples[axis]), input_bytes=written,
              idle_peak_bytes=idle[axis])
        for axis in how
    ]  # fmt: skip


def _reading(way: str, data: Path) -> Sample:
    """One process that reads, which tells the seconds of reading alone and its own peak."""
    command = (sys.executable, "-m", "benchmarks.scale", way, str(data))
    outer, output = run(Command(command, ROOT, plain_environment()))
    seconds, peak = output.strip().split("\n")[-1].split()
    return Sample(wall_s=float(seconds), cpu_s=outer.cpu_s, peak_bytes=int(peak))


def _records(scratch: Path, size: int) -> list[Point]:
    """A long history of a study: choosing what its paper uses, building it, and finding nothing."""
    project = scratch / "project"
    copy_project(project)
    data = project / "data"
    written = synthetic.write_records(data, size, FEW_CASES)
    how = {"records_newest": "newest"}
    build = (synthetic.STUDY, "--html")
    return [
        *_read_points(data, size, how, REPEATS, written),
        _built("records_cold", size, project, build, lambda turn: _remove(project / "out")),
        _built("records_noop", size, project, build, lambda turn: None),
    ]


def _studies(scratch: Path, size: int) -> list[Point]:
    project = scratch / "project"
    synthetic.write_project(project, size)
    change = synthetic.change_one
    return [
        _built("studies_cold", size, project, ("--html",), lambda turn: None, repeats=1),
        _built("studies_noop", size, project, ("--html",), lambda turn: None),
        _built("studies_record", size, project, ("--html",), lambda turn: change(project, turn)),
    ]


def _built(
    axis: str,
    size: int,
    project: Path,
    arguments: Sequence[str],
    before: Callable[[int], None],
    repeats: int = REPEATS,
) -> Point:
    """Builds, each after a change."""
    samples = []
    for turn in range(repeats):
        before(turn)
        samples.append(run(build_command(project, *arguments, "--jobs", f"{cores()}"))[0])
    return Point(
        axis=axis, size=size, samples=tuple(samples), input_bytes=None, idle_peak_bytes=None
    )


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def read_strictly(data: Path) -> int:
    """All records with all checks; returns the number of cases."""
    from report.records.store import read_study

    return sum(len(stored.record.cases) for stored in read_study(synthetic.STUDY, data))


def read_newest(data: Path) -> int:
    """The record of each device that a paper uses; returns the number of cases."""
    from report.records.choice import choose_records
    from report.records.store import list_records, read_record

    used = [choice.primary for choice in choose_records(list_records(synthetic.STUDY, data))]
    return sum(len(read_record(data / item.file, data).record.cases) for item in used)


def read_by_pandas(data: Path) -> int:
    """A row for each case with all that it holds, unchecked; returns their number."""
    import pandas as pd

    frames = [pd.json_normalize(_content(path), "cases") for path in _files(data)]
    return sum(map(len, frames))


def read_series_by_pandas(data: Path) -> int:
    """A row for each series with the factors of its case and little else; returns their number."""
    import pandas as pd

    kept: list[str | list[str]] = ["study", "started", ["cases", "status"], ["cases", "factors"]]
    frames = [pd.json_normalize(_content(path), ["cases", "series"], kept) for path in _files(data)]
    return sum(map(len, frames))


def _content(path: Path) -> Any:
    return json.loads(path.read_bytes())


def _files(data: Path) -> Iterator[Path]:
    return iter(sorted((data / synthetic.STUDY).glob("*.json")))


WAYS: Final[Mapping[str, Callable[[Path], int]]] = {
    "strict": read_strictly,
    "newest": read_newest,
    "pandas": read_by_pandas,
    "pandas_series": read_series_by_pandas,
}


def main(way: str, data: Path) -> None:
    """Read ``data`` in one of the ``WAYS``; print the seconds without imports, and peak bytes."""
    read = WAYS[way]
    read(ROOT / "nothing")  # imports what it needs
    start = time.perf_counter()
    read(data)
    print(time.perf_counter() - start, peak_bytes())


def peak_bytes() -> int:
    """The largest resident memory of this process since it was started.

    From the kernel's own line, because ``getrusage`` gives at least what the process had that
    started this one.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    line = next(line for line in status.read_text("utf-8").split("\n") if "VmHWM" in line)
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
