"""Where the time of a call goes by kind of operator, from the traces beside a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from report.instruments.trace import Trace, read_trace
from report.paper.findings import Download, Inputs
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import LAYOUT_NAMES, LAYOUTS, Call
from report.studies.inference_memory.sweeps import sweep

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

    @property
    def total(self) -> int:
        """Nanoseconds of all outermost operators."""
        return sum(self.times().values())


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


def download(run: Run, traced: Traced) -> Download:
    """A trace as it was recorded."""
    call = traced.call
    what = f"{call.network}, batch {call.batch}, {LAYOUT_NAMES[call.layout]}, {run.label}"
    return Download(f"{run.key}.{traced.name}", traced.content, f"Trace: {what}")
