"""Where the time of a call goes: by kind of operator from the traces, and waiting on the system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from figures.canvas import Drawing
from figures.scaling import Scaling
from report.instruments.trace import Trace, read_trace
from report.missing import Missing
from report.paper.declared import cells
from report.paper.findings import Download, Figure, Inputs
from report.paper.tables import Cell, Column, Table
from report.studies.inference_memory.batches import resnets, series, sweep, swept, ticks
from report.studies.inference_memory.faults import returned
from report.studies.inference_memory.measured import Run, centre
from report.studies.inference_memory.processor import off_processor
from report.studies.inference_memory.subject import LAYOUT_NAMES, LAYOUTS, Call

#: Kinds of work, and what the names of their outermost operators contain, tried in this order.
KINDS: Final = (
    ("Convolution", ("conv",)),
    ("Batch norm", ("batch_norm",)),
    ("Activation", ("relu", "tanh")),
    ("Pooling", ("pool", "mean")),
    ("Addition", ("add",)),
    ("Linear", ("linear", "matmul", "mm")),
    ("Other", ("",)),
)
#: Additions of the padded shortcut are none: its zeros come from an operator with «pad» in it.
_NO_ADDITION: Final = "pad"
#: The batch sizes of the table of waits beside the largest.
_SHOWN: Final = (1, 64)
_PERCENT: Final = 100


@dataclass(frozen=True)
class Traced:
    """The trace of one warm call."""

    call: Call
    name: str
    content: bytes
    trace: Trace

    def times(self) -> dict[str, int]:
        """Nanoseconds by kind of work, of the operators that no other one encloses."""
        found = dict.fromkeys((kind for kind, _ in KINDS), 0)
        for place in self.trace.top:
            operator = self.trace.operators[place]
            found[kind_of(operator.name)] += operator.duration
        return found


def kind_of(operator: str) -> str:
    """The kind of work of an outermost operator, by its name."""
    name = operator.lower()
    if _NO_ADDITION in name:
        return KINDS[-1][0]
    return next(kind for kind, parts in KINDS if any(part in name for part in parts))


def traces(inputs: Inputs, run: Run) -> tuple[Traced, ...]:
    """The traces beside a record by network and layout; raises ``RecordError`` for a broken one."""
    files = inputs.attachments.get(run.file, {})
    found = []
    for call in (c for y in LAYOUTS for n in run.networks() for c in sweep(run, n, y)):
        name = trace_name(call)
        if name in files:
            place = f"data/{run.file.removesuffix('.json')}/{name}"
            found.append(Traced(call, name, files[name], read_trace(files[name], place)))
    return tuple(found)


def trace_name(call: Call) -> str:
    """The file of a call's trace beside the record."""
    layout = call.layout.replace("_", "-")
    return f"trace.{call.network.lower()}-{call.batch}-{layout}.json.gz"


def operator_table(run: Run, found: Sequence[Traced]) -> Table | None:
    """The share of each kind of work in the time of one call; None without traces."""
    if not found:
        return None
    rows = tuple(_row(traced) for traced in found)
    return Table(
        "tbl-operators",
        f"Time of one call by kind of operator, from traces of {run.label}: the time of all "
        "outermost operators and the share of each kind.",
        (
            Column("Network"),
            Column("Batch", "1"),
            Column("Layout"),
            Column("Operators", "s", "ms"),
            *(Column(kind, "1", "%") for kind, _ in KINDS),
        ),
        rows,
        notes=(
            "One call under the profiler, which takes time itself; no repetition, no interval.",
        ),
        sources=(run.file,),
        wide=True,
    )


def _row(traced: Traced) -> tuple[Cell, ...]:
    times = traced.times()
    total = sum(times.values())
    shares: list[Cell] = [time / total if total else 0 for time in times.values()]
    call = traced.call
    return (call.network, call.batch, LAYOUT_NAMES[call.layout], total / 1e9, *shares)


def downloads(run: Run, found: Sequence[Traced]) -> dict[str, Download]:
    """The traces as they were recorded."""
    return {
        traced.name: Download(
            f"{run.key}.{traced.name}",
            traced.content,
            f"Trace: {traced.call.network}, batch {traced.call.batch}, "
            f"{LAYOUT_NAMES[traced.call.layout]}, {run.label}",
        )
        for traced in found
    }


# --------------------------------------------------------------------------------------- waits


def wait_table(run: Run) -> Table:
    """Time off the processor, switches and page faults, or the waits for a device."""
    calls = [call for network in swept(run) for call in _shown(sweep(run, network))]
    rows = tuple(_device_row(run, c) if run.on_gpu else _wait_row(run, c) for c in calls)
    return Table(
        f"tbl-waits-{run.key}",
        _DEVICE_CAPTION.format(run.label) if run.on_gpu else _CAPTION.format(run.label),
        (
            Column("Network"),
            Column("Batch", "1"),
            Column("Time", "s", "ms"),
            *(_DEVICE_COLUMNS if run.on_gpu else _COLUMNS),
        ),
        rows,
        notes=_BELOW_ZERO if any(_below_zero(run, call) for call in calls) else (),
        sources=(run.file,),
        wide=True,
    )


_BELOW_ZERO: Final = (
    "A share below zero is none, as its interval says: the clock of processor time is coarse.",
)


def _below_zero(run: Run, call: Call) -> bool:
    return not run.on_gpu and centre(off_processor(run, call)) < 0


_CAPTION: Final = (
    "What the system does during a call on {}, float32, contiguous: the share of the threads' "
    "time in all samples in which they do not run; and medians of how often a thread waits by "
    "itself, how often its core is taken away, and pages that are mapped anew; with 95 % intervals."
)
_DEVICE_CAPTION: Final = (
    "Waiting for {}, float32, contiguous: how long the host waits for the device after a call, "
    "and the copies of a call's input to it and of its scores back; medians with 95 % intervals."
)
_COLUMNS: Final = (
    Column("Off the processor", "1", "%"),
    Column("Waits", "1"),
    Column("Taken away", "1"),
    Column("Page faults", "1"),
)
_DEVICE_COLUMNS: Final = (
    Column("Host waits", "s", "ms"),
    Column("Input there", "s", "ms"),
    Column("Scores back", "s", "ms"),
)


def _shown(calls: Sequence[Call]) -> list[Call]:
    return [call for call in calls if call.batch in _SHOWN or call == calls[-1]]


def _wait_row(run: Run, call: Call) -> tuple[Cell, ...]:
    counts = ("voluntary_switches", "involuntary_switches", "page_faults")
    found = (run.count(quantity, call) for quantity in counts)
    return cells(call.network, call.batch, run.time(call), off_processor(run, call), *found)


def _device_row(run: Run, call: Call) -> tuple[Cell, ...]:
    quantities = ("wait_time", "to_device_time", "from_device_time")
    found = (run.count(quantity, call) for quantity in quantities)
    return cells(call.network, call.batch, run.time(call), *found)


def wait_figure(run: Run) -> Figure:
    """The share of the threads' time off the processor, and page faults, over the batch size."""
    names = resnets(run)
    waits = [
        p
        for i, n in enumerate(names)
        for p in series(n, sweep(run, n), lambda c: off_processor(run, c), _PERCENT, i)
    ]
    faults = [
        p
        for i, n in enumerate(names)
        for p in series(n, sweep(run, n), lambda c: _each(run, c), 1, i)
    ]
    batches = ticks(sorted({call.batch for n in names for call in sweep(run, n)}))
    panels = (
        Scaling("Batch size (images)", "Threads off the processor (%)", tuple(waits), (), (),
                batches, y_scale="linear"),
        Scaling("Batch size (images)", "Page faults for each image", tuple(faults), (), (),
                batches, y_scale="linear", y_from_zero=True),
    )  # fmt: skip
    told = [
        f"{p.label}: {p.y[0]:.3g} per cent off the processor at batch {p.x[0]:g}, {p.y[-1]:.3g} at "
        f"batch {p.x[-1]:g}."
        for p in waits
    ]
    return Figure(
        "fig-waits",
        f"The system's part of a call over the batch size on {run.label}: the share of the "
        "threads' time in all samples in which they do not run, where clock resolution suffices "
        "(left), and pages mapped anew for each image where freed memory is returned, medians "
        "(right); with 95 % intervals.",
        "Two panels over batch size. " + " ".join(told),
        Drawing(panels, wide=True, height=2.4),
        (run.file,),
    )


def _each(run: Run, call: Call) -> float | Missing:
    found = returned(run).count("page_faults", call)
    return found.missing or centre(found) / call.batch
