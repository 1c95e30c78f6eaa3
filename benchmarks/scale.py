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
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from benchmarks.project import ROOT, Sample, copy_project, run_python
from report.core.records.file_format import encode
from report.core.records.layers import at_batch
from report.core.records.record import Record
from report.core.records.store import read_records, record_name
from report.evaluation.gather import choose_records

STUDY: Final = "conv_scaling"
#: Samples of each measurement.
REPEATS: Final = 3
#: Start of the first synthetic record; after all committed records, since a paper uses the newest.
_FIRST_START: Final = datetime(2040, 1, 1, tzinfo=UTC)
#: Smallest batch of synthetic cases, beyond all batches that were measured.
_FIRST_BATCH: Final = 10_000
#: Options that build a replication report, as page and PDF.
_REPORT: Final = ("--replicate", "--pdf", "--engine", "typst")

#: Name of a measurement, its size, and a sample, as in ``results.csv``.
Measurement: TypeAlias = tuple[str, str, Sample]


def measure() -> Iterator[Measurement]:
    """Measure how time and memory grow along every axis, at three sizes each."""
    base = choose_records(STUDY, ROOT / "data").inputs.record_by_role["cpu"].record
    for size in (10_000, 100_000, 1_000_000):
        yield from _time_reading(base, size)
    for size in (500, 1_600, 5_000):
        records = [_extended(base, cases=size, samples=10)]
        yield from _time_builds("Cases of one record, its page built from nothing", size, records)
    for size in (130_000, 410_000, 1_300_000):
        records = [_extended(base, cases=1_000, samples=size // 1_000)]
        yield from _time_builds("Samples of one record, its page built from nothing", size, records)
    for size in (2, 20, 200):
        name = "Whole records of a study, its page built from nothing"
        yield from _time_builds(name, size, [base] * size)
        name = "Whole records of a study, nothing to do"
        yield from _time_builds(name, size, [base] * size, nothing_to_do=True)
    for size in (10, 32, 100):
        records = [_on_other_machine(base, number) for number in range(size)]
        name = "Machines of a replication report, from nothing"
        yield from _time_builds(name, size, records, _REPORT)


def _time_reading(base: Record, size: int) -> Iterator[Measurement]:
    """Time the reading of ``size`` cases with all checks, in fresh processes (see ``main``)."""
    further = _extended(base, cases=1_000, samples=10).cases[len(base.cases) :]
    record = msgspec.structs.replace(base, cases=further)
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        for number in range(size // 1_000):
            _write(Path(folder), number, record)
        for _ in range(REPEATS):
            _, output = run_python(ROOT, "-m", "benchmarks.scale", folder)
            seconds, peak = output.strip().split("\n")[-1].split()
            name = "Cases read and checked (`report.core.records.store.read_records`)"
            yield name, str(size), Sample(float(seconds), int(peak))


def _time_builds(
    name: str,
    size: int,
    records: Sequence[Record],
    options: Sequence[str] = (),
    *,
    nothing_to_do: bool = False,
) -> Iterator[Measurement]:
    """Time builds of a copy of the project whose data also have ``records``.

    ``name`` and ``size`` describe the builds in the table.  Every build begins from nothing, or
    with ``nothing_to_do`` after an untimed build.  With ``options`` (of a replication report) the
    data are ``records`` alone.
    """
    print(f"scale: {name}, {size:,}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as scratch:
        project, data = Path(scratch) / "project", Path(scratch) / "data"
        copy_project(project)
        for number, record in enumerate(records):
            _write(data if options else project / "data", number, record)
        command = ("build.py", STUDY, "--html", *options)
        if options:
            command = (*command, "--data", str(data))
        if nothing_to_do:
            run_python(project, *command)
        for _ in range(REPEATS):
            if not nothing_to_do:
                shutil.rmtree(project / "out", ignore_errors=True)
            sample, _ = run_python(project, *command)
            yield name, str(size), sample


def _extended(base: Record, cases: int, samples: int) -> Record:
    """Add ``cases`` cases of the layer at further batches to a record, each with ``samples`` times.

    Times are proportional to the batch, since a record with impossible rates is left out.
    """
    one_image = base.cases[0]
    process = one_image.rounds[0]
    extended = [*base.cases]
    for batch in range(_FIRST_BATCH, _FIRST_BATCH + cases):
        times = [batch * sample for sample in process.series["time"]]
        series = {"time": tuple(islice(cycle(times), samples))}
        case = msgspec.structs.replace(
            one_image,
            factors={**one_image.factors, "batch": batch},
            layers=at_batch(one_image.layers, batch),
            series={},
            rounds=(msgspec.structs.replace(process, series=series),),
        )
        extended.append(case)
    return msgspec.structs.replace(base, cases=tuple(extended))


def _on_other_machine(base: Record, number: int) -> Record:
    """Return a record of another machine, by its number.

    All times and ceilings differ by up to 10 %, since reports leave out copies.
    """
    generator = random.Random(number)
    cases, ceilings = [], []
    for case in base.cases:
        rounds = []
        for round_ in case.rounds:
            factor = generator.uniform(0.9, 1.1)
            times = tuple(factor * sample for sample in round_.series.get("time", ()))
            series = {**round_.series, "time": times} if times else round_.series
            rounds.append(msgspec.structs.replace(round_, series=series))
        cases.append(msgspec.structs.replace(case, rounds=tuple(rounds)))
    for ceiling in base.ceilings:
        samples = tuple(generator.uniform(0.9, 1.1) * sample for sample in ceiling.samples)
        ceilings.append(msgspec.structs.replace(ceiling, samples=samples))
    cpu = msgspec.structs.replace(base.environment.cpu, model=f"CPU {number}")
    key = f"cpu-{number}-{base.environment.key}"
    machine = msgspec.structs.replace(base.environment, cpu=cpu, key=key)
    return msgspec.structs.replace(
        base, environment=machine, cases=tuple(cases), ceilings=tuple(ceilings)
    )


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
