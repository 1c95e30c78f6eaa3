"""All measurements that papers need of a GPU, in one command and a given time.

``python -m experiments run --all --device cuda --minutes 14`` measures the parts of ``PARTS``, the
most valuable first, each within its share of the time.  A part whose time is over ends with a
record of the cases measured until then.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from experiments.harness.journal import unfinished_journals
from experiments.harness.progress import Observer
from experiments.harness.request import Request
from experiments.harness.run import close, run
from experiments.harness.study import Device
from report.core.errors import MeasurementError, RidgepointError, UsageError


class StudyShare(NamedTuple):
    """A run of one study: its share of the time, and the time per case and process (s)."""

    weight: float
    budget: float
    request: Request


def _part(weight: float, budget: float, study: str, *settings: str, **asked: Any) -> StudyShare:
    request = Request(study, Path(), "cuda", settings=settings, **{"counters": "none", **asked})
    return StudyShare(weight, budget, request)


PARTS: Final = (
    # Peaks of all networks in three precisions and both layouts until the memory is exhausted.
    _part(6, 0.1, "inference_memory", "sweep=peaks,precision", ceilings="none"),
    # Times by as many processes as there is time for.
    _part(6, 0.4, "training_roofline", ceilings="large"),
    # One network on three libraries, from calls that cost more than their work to a full device.
    _part(7, 0.06, "backend_speedup", ceilings="none"),
    _part(3, 0.2, "conv_scaling", ceilings="small"),
    # Work and bytes of the layer with TF32 off and on: one process, then ncu.
    _part(3, 0.1, "conv_profiling", counters="auto", ceilings="none"),
)
#: Share of a part's time for its timed processes; memory is measured before them.
_ROUNDS: Final = 0.65
#: Time limit after which one process has measured every case, for parts that count work.
_ONE_PROCESS_S: Final = 0.001


def measure_all(device: Device, minutes: float, records: Path, observer: Observer) -> int:
    """Measure every part that the time allows; return 0 if all of them have a record, else 1.

    Later parts share the time that earlier ones do not need.  Raises ``UsageError`` without a GPU.
    """
    if device != "cuda":
        raise UsageError("--all measures what papers need of a GPU; give --device cuda.")
    left, failed = 60 * minutes, 0
    for number, part in enumerate(PARTS):
        seconds = left * part.weight / sum(other.weight for other in PARTS[number:])
        began = time.monotonic()
        try:
            outcome = _measured(request_of(part, seconds, records), seconds, observer)
        except RidgepointError as error:
            failed, outcome = failed + 1, str(error)
        print(f"{part.request.study}: {outcome}", flush=True)
        left -= time.monotonic() - began
    return int(failed > 0)


def request_of(part: StudyShare, seconds: float, records: Path) -> Request:
    """Return the request for a part's run of at most ``seconds``."""
    counts = part.request.counters != "none"
    budget = _ONE_PROCESS_S if counts else seconds * _ROUNDS
    changes = {"case_budget_s": part.budget, "budget_s": budget}
    return replace(part.request, records=records, changes=changes)


def _measured(request: Request, seconds: float, observer: Observer) -> str:
    """Measure a part in at most ``seconds``; return its record's path, and why it ended early."""
    folder, over = request.records / request.study, f"its {seconds:.0f} s were over"
    earlier = [journal.path for journal in unfinished_journals(folder)[0]]
    try:
        with _ended_after(seconds):
            return str(run(request, observer)[1])
    except KeyboardInterrupt as interrupt:
        if interrupt.args != (signal.SIGALRM,):
            raise
    new = [journal for journal in unfinished_journals(folder)[0] if journal.path not in earlier]
    if not any(journal.finished for journal in new):
        raise MeasurementError(f"Nothing was measured: {over}; give more --minutes.")
    *_, (_, path) = close(request.study, request.records, observer, earlier)
    return f"{path} ({over})"


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """Interrupt the block after ``seconds``."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
