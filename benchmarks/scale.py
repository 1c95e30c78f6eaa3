"""The part ``scale``: growth of time and memory with records, cases, samples and machines.

The inputs are synthetic and only in scratch folders.  They are copies of a committed record under
other times, with more cases or on other machines; none of their numbers is a result.  Reading is
timed inside a fresh process (``python -m benchmarks.scale DATA``), so that imports do not count.
"""

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from benchmarks.project import ROOT, Sample, copy_project, run_python
from report.core.records.file_format import encode
from report.core.records.layers import at_batch
from report.core.records.record import Case, Record
from report.core.records.store import read_records, record_name
from report.evaluation.gather import choose_records

STUDY: Final = "conv_scaling"
#: Samples of each measurement.
REPEATS: Final = 3
#: Start of the first synthetic record; after all committed records, since a paper uses the newest.
_FIRST_START: Final = datetime(2040, 1, 1, tzinfo=UTC)
#: Smallest batch of synthetic cases, beyond all batches that were measured.
_FIRST_BATCH: Final = 10_000
#: Command that builds the page of the study's paper.
_PAGE: Final = ("build.py", STUDY, "--html")

#: Name of a measurement, its size, and a sample, as in ``results.csv``.
Measurement: TypeAlias = tuple[str, str, Sample]


def measure() -> Iterator[Measurement]:
    """Measure how time and memory grow along every axis, at three sizes each."""
    for time_axis, sizes in (
        (_time_reading, (10_000, 100_000, 1_000_000)),
        (_time_cases, (500, 1_600, 5_000)),
        (_time_samples, (130_000, 410_000, 1_300_000)),
        (_time_records, (2, 20, 200)),
        (_time_machines, (10, 32, 100)),
    ):
        for size in sizes:
            print(f"scale: {time_axis.__name__.removeprefix('_time_')}, {size:,}", file=sys.stderr)
            with tempfile.TemporaryDirectory(prefix="benchmarks-") as scratch:
                yield from time_axis(Path(scratch), size)


def _time_reading(scratch: Path, size: int) -> Iterator[Measurement]:
    """Time the reading of ``size`` cases with all checks, in fresh processes (see ``main``)."""
    base = _base_record()
    record = msgspec.structs.replace(base, cases=_synthetic_cases(base, count=1_000, samples=10))
    for number in range(size // 1_000):
        _write(scratch, number, record)
    for _ in range(REPEATS):
        _, output = run_python(ROOT, "-m", "benchmarks.scale", str(scratch))
        seconds, peak = output.strip().split("\n")[-1].split()
        name = "Cases read and checked (`report.core.records.store.read_records`)"
        yield name, str(size), Sample(float(seconds), int(peak))


def _time_cases(scratch: Path, size: int) -> Iterator[Measurement]:
    """Time builds of a paper that uses a record with ``size`` further cases of 10 samples."""
    base = _base_record()
    cases = (*base.cases, *_synthetic_cases(base, count=size, samples=10))
    project = _copy_with_records(scratch, (msgspec.structs.replace(base, cases=cases),))
    yield from _time_builds("Cases of one record, its page built from nothing", size, project)


def _time_samples(scratch: Path, size: int) -> Iterator[Measurement]:
    """Time builds of a paper that uses a record with ``size`` further samples in 1,000 cases."""
    base = _base_record()
    cases = (*base.cases, *_synthetic_cases(base, count=1_000, samples=size // 1_000))
    project = _copy_with_records(scratch, (msgspec.structs.replace(base, cases=cases),))
    yield from _time_builds("Samples of one record, its page built from nothing", size, project)


def _time_records(scratch: Path, size: int) -> Iterator[Measurement]:
    """Time builds with ``size`` further whole records: from nothing, and with nothing to do."""
    project = _copy_with_records(scratch, (_base_record(),) * size)
    yield from _time_builds("Whole records of a study, its page built from nothing", size, project)
    for _ in range(REPEATS):
        sample, _ = run_python(project, *_PAGE)
        yield "Whole records of a study, nothing to do", str(size), sample


def _time_machines(scratch: Path, size: int) -> Iterator[Measurement]:
    """Time replication reports, page and PDF, of ``size`` machines with a whole record each."""
    base = _base_record()
    project, data = _copy_with_records(scratch, ()), scratch / "data"
    for number in range(size):
        cpu = msgspec.structs.replace(base.environment.cpu, model=f"CPU {number}")
        key = f"cpu-{number}-{base.environment.key}"
        machine = msgspec.structs.replace(base.environment, cpu=cpu, key=key)
        record = msgspec.structs.replace(base, environment=machine)
        _write(data, number, _scatter(record, random.Random(number)))
    formats = ("--pdf", "--html", "--engine", "typst")
    options = ("--replicate", "--data", str(data), *formats)
    name = "Machines of a replication report, from nothing"
    yield from _time_builds(name, size, project, options)


def _time_builds(
    name: str, size: int, project: Path, options: tuple[str, ...] = ()
) -> Iterator[Measurement]:
    """Time builds from nothing; ``name`` and ``size`` describe them in the table."""
    for _ in range(REPEATS):
        shutil.rmtree(project / "out", ignore_errors=True)
        sample, _ = run_python(project, *_PAGE, *options)
        yield name, str(size), sample


def _base_record() -> Record:
    """Return the record that the paper uses for its first CPU."""
    return choose_records(STUDY, ROOT / "data").inputs.record_by_role["cpu"].record


def _copy_with_records(scratch: Path, records: tuple[Record, ...]) -> Path:
    """Copy the project, add ``records`` to its data, and return the copy's folder."""
    project = scratch / "project"
    copy_project(project)
    for number, record in enumerate(records):
        _write(project / "data", number, record)
    return project


def _synthetic_cases(base: Record, count: int, samples: int) -> tuple[Case, ...]:
    """Return ``count`` cases of the layer at further batches, each timed ``samples`` times.

    Times are proportional to the batch, since a record with impossible rates is left out.
    """
    one_image = base.cases[0]
    process = one_image.rounds[0]
    cases: list[Case] = []
    for batch in range(_FIRST_BATCH, _FIRST_BATCH + count):
        times = [batch * sample for sample in process.series["time"]]
        series = {"time": tuple(islice(cycle(times), samples))}
        case = msgspec.structs.replace(
            one_image,
            factors={**one_image.factors, "batch": batch},
            layers=at_batch(one_image.layers, batch),
            series={},
            rounds=(msgspec.structs.replace(process, series=series),),
        )
        cases.append(case)
    return tuple(cases)


def _scatter(record: Record, generator: random.Random) -> Record:
    """Change all times and ceilings of a record by up to 10 %, since reports leave out copies."""
    cases, ceilings = [], []
    for case in record.cases:
        rounds = []
        for round_ in case.rounds:
            factor = generator.uniform(0.9, 1.1)
            times = tuple(factor * sample for sample in round_.series.get("time", ()))
            series = {**round_.series, "time": times} if times else round_.series
            rounds.append(msgspec.structs.replace(round_, series=series))
        cases.append(msgspec.structs.replace(case, rounds=tuple(rounds)))
    for ceiling in record.ceilings:
        samples = tuple(generator.uniform(0.9, 1.1) * sample for sample in ceiling.samples)
        ceilings.append(msgspec.structs.replace(ceiling, samples=samples))
    return msgspec.structs.replace(record, cases=tuple(cases), ceilings=tuple(ceilings))


def _write(data: Path, number: int, record: Record) -> None:
    """Write ``record`` as if it was measured ``number`` minutes after the first.

    The file is written without fsync, since it need not survive a crash.
    """
    start = _FIRST_START + timedelta(minutes=number)
    end = start + timedelta(days=300)  # a run must not be shorter than its samples together
    started, finished = (moment.strftime("%Y-%m-%dT%H:%M:%SZ") for moment in (start, end))
    record = msgspec.structs.replace(record, started=started, finished=finished, attachments=())
    (data / STUDY).mkdir(parents=True, exist_ok=True)
    (data / STUDY / record_name(record)).write_bytes(encode(record))


def main(data: Path) -> None:
    """Read all records below ``data``; print the time (s) without imports, and the peak (B)."""
    read_records(STUDY, ROOT / "nothing")  # reads no record, but imports modules
    start = time.perf_counter()
    read_records(STUDY, data)
    seconds = time.perf_counter() - start
    # ``getrusage`` would return at least the peak of the parent process.
    status = Path("/proc/self/status").read_text("utf-8").split("\n")
    peak_kib = next(line.split()[1] for line in status if "VmHWM" in line)
    print(seconds, int(peak_kib) * 1024)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
