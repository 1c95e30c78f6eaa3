"""All that the papers need of a GPU, in one command and a time that is given beforehand.

``python -m experiments run --all --device cuda --minutes 25`` measures the parts of ``PARTS``, the
most valuable first, each within its share of the time.  A part whose time is over ends with a
record of what it measured until then.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from experiments.harness.progress import Observer
from experiments.harness.request import Request
from experiments.harness.run import StoppedError, close, run
from experiments.harness.study import CeilingSize, CounterChoice, Device
from report.errors import MeasurementError, RidgepointError, UsageError


class Part(NamedTuple):
    """A run of one study.

    ``weight`` is its share of the time, ``budget`` the time of a case in a process (s).
    """

    study: str
    weight: float
    settings: tuple[str, ...]
    counters: CounterChoice
    budget: float
    ceilings: CeilingSize


PARTS: Final = (
    # Peaks of all networks in three precisions until the memory is exhausted, and their times.
    Part("inference_memory", 6, ("sweep=peaks",), "none", 0.1, "none"),
    # Work and bytes of the layer with TF32 off and on: one process, then ncu.
    Part("conv_profiling", 3, (), "auto", 0.1, "none"),
    # Times by as many processes as there is time for.
    Part("training_roofline", 6, (), "none", 0.4, "large"),
    Part("conv_scaling", 3, (), "none", 0.2, "small"),
    # One network on three libraries, from calls that cost more than their work to a full device.
    Part("backend_speedup", 7, ("dtype=float32",), "none", 0.06, "none"),
)
#: The share of a part's time for its timed processes; before them memory is measured, and where
#: work is counted, which comes last, one process is enough.
_ROUNDS: Final = 0.65
#: So little time that each case is measured by one process, which every case is.
_ONE_PROCESS_S: Final = 0.001


def measure_all(device: Device, minutes: float, records: Path, observer: Observer) -> int:
    """Measure every part that the time allows; the exit code: 0 if all of them left a record.

    What a part leaves of its time falls to those after it.  Raises ``UsageError`` without a GPU.
    """
    if device != "cuda":
        raise UsageError("--all measures what papers need of a GPU; give --device cuda.")
    left, failed = 60 * minutes, 0
    for number, part in enumerate(PARTS):
        share = part.weight / sum(other.weight for other in PARTS[number:])
        began = time.monotonic()
        try:
            said = _measured(part, device, left * share, records, observer)
        except RidgepointError as error:
            failed, said = failed + 1, str(error)
        print(f"{part.study}: {said}", flush=True)
        left -= time.monotonic() - began
    return int(failed > 0)


def request_of(part: Part, device: Device, seconds: float, records: Path) -> Request:
    """The run of a part that may take so long."""
    return Request(
        study=part.study,
        records=records,
        device=device,
        settings=part.settings,
        ceilings=part.ceilings,
        counters=part.counters,
        changes={
            "case_budget_s": part.budget,
            "budget_s": seconds * _ROUNDS if part.counters == "none" else _ONE_PROCESS_S,
        },
    )


def _measured(part: Part, device: Device, seconds: float, records: Path, observer: Observer) -> str:
    """The record of a part, as a sentence."""
    over = f"its {seconds:.0f} s were over"
    try:
        with _ended_after(seconds):
            return str(run(request_of(part, device, seconds, records), observer)[1])
    except StoppedError:
        return f"{close(part.study, records, observer)[-1][1]} ({over})"
    except KeyboardInterrupt as interrupt:
        if interrupt.args != (signal.SIGALRM,):
            raise
        raise MeasurementError(f"Nothing was measured: {over}; give more --minutes.") from None


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """Interrupt what is inside once ``seconds`` are over."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
