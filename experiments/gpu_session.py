"""All measurements on a GPU that papers need, in one command and a given time.

``python -m experiments run --all --device cuda --minutes 14`` measures ``PARTS`` (runs of studies),
the most valuable part first, each within its share of the time.  If the time of a part is over, its
record contains the cases measured so far.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from experiments.harness.journal import unfinished_journals
from experiments.harness.progress import Observer
from experiments.harness.request import Request
from experiments.harness.run import close, run
from experiments.harness.study import Device
from report.core.errors import MeasurementError, RidgepointError, UsageError


class Part(NamedTuple):
    """Run of one study.

    Its share of the time is proportional to ``weight``; ``case_budget_s``: per case and process.
    """

    weight: float
    case_budget_s: float
    request: Request


_GPU_RUN: Final = Request("", Path(), "cuda", counters="none", ceilings="none")
PARTS: Final = (
    # Peak memory of all networks in three precisions and two layouts, until memory is exhausted.
    Part(6, 0.1, replace(_GPU_RUN, study="inference_memory", settings=("sweep=peaks,precision",))),
    # Times of as many processes as the time allows.
    Part(6, 0.4, replace(_GPU_RUN, study="training_roofline", ceilings="large")),
    # One network on three libraries, from sizes where calls dominate to sizes that fill the device.
    Part(7, 0.06, replace(_GPU_RUN, study="backend_speedup")),
    Part(3, 0.2, replace(_GPU_RUN, study="conv_scaling", ceilings="small")),
    # Work and bytes of the layer with TF32 off and on: one timed process, then ncu.
    Part(3, 0.1, replace(_GPU_RUN, study="conv_profiling", counters="auto")),
)
#: Share of a part's time for processes that time cases; memory is measured before.
_TIMED_SHARE: Final = 0.65
#: Time (s) for timed processes of parts that count work; it is so short that only one process runs.
_ONE_PROCESS_S: Final = 0.001


def measure_all(device: Device, minutes: float, records: Path, observer: Observer) -> int:
    """Measure every part that the time allows; return 0 if all parts have a record, else 1.

    Later parts share the time that earlier parts do not need.  Raises ``UsageError`` for a CPU.
    """
    if device != "cuda":
        raise UsageError("--all measures what papers need of a GPU; give --device cuda.")
    remaining, failed = 60 * minutes, 0
    for number, part in enumerate(PARTS):
        seconds = remaining * part.weight / sum(later.weight for later in PARTS[number:])
        start = time.monotonic()
        try:
            outcome = _measure_part(request_of(part, seconds, records), seconds, observer)
        except RidgepointError as error:
            failed, outcome = failed + 1, str(error)
        print(f"{part.request.study}: {outcome}", flush=True)
        remaining -= time.monotonic() - start
    return int(failed > 0)


def request_of(part: Part, seconds: float, records: Path) -> Request:
    """Return the request of a part that has ``seconds``, with the time for its timed processes."""
    # A part that counts work has one timed process, and ncu uses the rest of the part's time.
    counts_work = part.request.counters != "none"
    timed_s = _ONE_PROCESS_S if counts_work else seconds * _TIMED_SHARE
    changes = {"case_budget_s": part.case_budget_s, "budget_s": timed_s}
    return replace(part.request, records=records, changes=changes)


def _measure_part(request: Request, seconds: float, observer: Observer) -> str:
    """Measure a part in at most ``seconds``; return the record's path, and why it is incomplete.

    Raises ``MeasurementError`` if no case was finished in time.
    """
    folder, reason = request.records / request.study, f"its {seconds:.0f} s were over"
    earlier_journals, _ = unfinished_journals(folder)
    earlier_paths = [journal.path for journal in earlier_journals]
    try:
        with _interrupt_after(seconds):
            _, path = run(request, observer)
            return str(path)
    except KeyboardInterrupt as interrupt:
        if interrupt.args != (signal.SIGALRM,):
            raise
    journals, _ = unfinished_journals(folder)
    if not any(journal.finished_cases for journal in journals if journal.path not in earlier_paths):
        raise MeasurementError(f"Nothing was measured: {reason}; give more --minutes.")
    _, path = close(request.study, request.records, observer, excluded=earlier_paths)[-1]
    return f"{path} ({reason})"


@contextmanager
def _interrupt_after(seconds: float) -> Iterator[None]:
    """Raise ``KeyboardInterrupt(SIGALRM)`` after ``seconds`` inside the context."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    earlier_handler = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier_handler)
