"""The part ``scale``: growth of time and memory with the number of records and cases.

The inputs are synthetic and only in scratch folders.  They are cut from a committed record, so that
all fields are complete; none of their numbers is a result.  Reading is timed inside a fresh process
(``python -m benchmarks.scale DATA``), so that imports do not count.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice, product
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.project import ROOT, Sample, copy_project, run_python
from report.core.records.file_format import encode
from report.core.records.store import read_records, record_name

STUDY: Final = "conv_scaling"
CASES: Final = (1_000, 10_000, 100_000, 1_000_000)
RECORDS: Final = (10, 100, 1_000, 10_000)
REPEATS: Final = 3
_FIRST: Final = datetime(2001, 1, 1, tzinfo=UTC)


def measure() -> Iterator[tuple[str, str, Sample]]:
    """Yield name, size and sample of every measurement."""
    for measure_axis, sizes in ((_cases, CASES), (_records, RECORDS)):
        for size in sizes:
            print(f"scale: {measure_axis.__name__.strip('_')}, {size:,}", file=sys.stderr)
            with tempfile.TemporaryDirectory(prefix="benchmarks-") as scratch:
                yield from measure_axis(Path(scratch), size)


def _cases(scratch: Path, size: int) -> Iterator[tuple[str, str, Sample]]:
    """Time the reading of ``size`` cases with all checks, in fresh processes (see ``main``)."""
    write_records(scratch, size // 1_000, 1_000)
    for _ in range(REPEATS):
        output = run_python(ROOT, "-m", "benchmarks.scale", str(scratch))[1]
        seconds, peak = output.strip().split("\n")[-1].split()
        axis = "Cases read and checked (`report.core.records.store.read_records`)"
        yield axis, str(size), Sample(float(seconds), int(peak))


def _records(scratch: Path, size: int) -> Iterator[tuple[str, str, Sample]]:
    """Time builds of a study with ``size`` records: from nothing, and with nothing to do."""
    project = scratch / "project"
    copy_project(project)
    write_records(project / "data", size, cases=10)
    for kind, _ in product(("its page built from nothing", "nothing to do"), range(REPEATS)):
        if kind != "nothing to do":
            shutil.rmtree(project / "out", ignore_errors=True)
        sample, _ = run_python(project, "build.py", STUDY, "--html")
        yield f"Records of a study, {kind}", str(size), sample


def write_records(data: Path, records: int, cases: int) -> None:
    """Write ``records`` records with ``cases`` cases per record, started a minute apart.

    A case has one short series of times, and no two cases have equal factors.
    """
    base = read_records(STUDY, ROOT / "data")[-1].record
    timed = [case for case in base.cases if case.samples("time")]
    synthetic_cases = tuple(
        msgspec.structs.replace(
            case,
            factors={**case.factors, "copy": index},
            series={"time": case.samples("time")[:10]},
            rounds=(),
            layers=case.layers[:1],
        )
        for index, case in enumerate(islice(cycle(timed), cases))
    )
    (data / STUDY).mkdir(parents=True, exist_ok=True)
    for number in range(records):
        start = _FIRST + timedelta(minutes=number)
        # No run may be shorter than its samples.
        started, finished = (
            moment.strftime("%Y-%m-%dT%H:%M:%SZ") for moment in (start, start + timedelta(days=1))
        )
        record = msgspec.structs.replace(
            base, cases=synthetic_cases, started=started, finished=finished, attachments=()
        )
        # Written without fsync, since these files need not survive a crash.
        (data / STUDY / record_name(record)).write_bytes(encode(record))


def main(data: Path) -> None:
    """Read all records; print the seconds without imports, and the peak in bytes."""
    read_records(STUDY, ROOT / "nothing")  # for its imports
    start = time.perf_counter()
    read_records(STUDY, data)
    seconds = time.perf_counter() - start
    # ``getrusage`` would return at least the peak of the parent process.
    status = Path("/proc/self/status").read_text("utf-8").split("\n")
    peak = next(line.split()[1] for line in status if "VmHWM" in line)
    print(seconds, int(peak) * 1024)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
