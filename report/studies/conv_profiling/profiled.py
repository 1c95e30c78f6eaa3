"""What the traces tell: operators with memory and time, timelines, and files to take along."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from figures.canvas import Drawing
from figures.timeline import Lane, Level, Span, Timeline
from report.instruments.operators import OperatorRow, operator_rows
from report.instruments.trace import Operator, Trace, read_trace
from report.missing import Missing
from report.paper.findings import Download, Figure, Inputs
from report.paper.operators import operator_table
from report.paper.tables import to_csv
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.subject import SHOWN_BATCH

#: The batch size at which the layer's operators are listed, that of the source's table.
#: The share of a call from which on an operator is wide enough to be seen.
_SEEN: Final = 0.005
_MILLI, _MEGA = 1e6, 1e6  # ns in a ms, B in a MB

_ENGINE: Final = "autograd::engine::evaluate_function: "
#: Kinds of work: the word of the legend, and what the names of its operators contain.
_KINDS: Final = (
    ("Convolution", ("conv",)),
    ("Pooling", ("pool",)),
    ("Linear layer", ("linear", "addmm", "tbackward")),
    ("Dropout", ("dropout", "mulbackward")),
    ("Activation", ("relu",)),
    ("Other", ("",)),
)


@dataclass(frozen=True)
class Traced:
    """A trace of a run: of the ``layer`` or of the ``network``, at a batch size."""

    run: Run
    scope: str
    batch: int
    name: str
    content: bytes
    trace: Trace

    @property
    def rows(self) -> tuple[OperatorRow, ...]:
        """The operators without the marks that the measuring program set."""
        marks = {o.name for o in self.trace.operators if o.mark}
        rows = operator_rows(self.trace, on_host=not self.run.on_gpu)
        return tuple(row for row in rows if row.name not in marks)

    @property
    def key(self) -> str:
        """The trace as part of an id."""
        return f"{self.scope}-{self.batch}"

    def row(self, name: str) -> OperatorRow | Missing:
        """The operator of this name, or why there is none."""
        found = (row for row in self.rows if row.name == name)
        return next(found, Missing(f"{name} is not in the trace of {self.run.label}"))

    @property
    def length(self) -> int:
        """Nanoseconds from the beginning of the first operator to the end of the last one."""
        inside = [self.trace.operators[place] for place in self.trace.top]
        return max(o.end for o in inside) - min(o.start for o in inside)


def traces(inputs: Inputs, run: Run) -> tuple[Traced, ...]:
    """The traces beside a record, the layer's first; raises ``RecordError`` for a broken one."""
    files = inputs.attachments.get(run.file, {})
    found = []
    for case in run.stored.record.cases:
        if case.factors.get("subject") != "trace":
            continue
        scope, batch = str(case.factors["scope"]), int(case.factors["batch"])
        name = f"trace.{scope}-{batch}.json.gz"
        if name in files:
            place = f"data/{run.file}/{name}"
            trace = read_trace(files[name], place)
            found.append(Traced(run, scope, batch, name, files[name], trace))
    return tuple(sorted(found, key=lambda traced: (traced.scope, traced.batch)))


def find(found: Iterable[Traced], scope: str, batch: int = SHOWN_BATCH) -> Traced | None:
    """The trace of ``scope`` at ``batch``, or else at the largest batch there is."""
    fitting = [traced for traced in found if traced.scope == scope]
    return max(fitting, key=lambda t: (t.batch == batch, t.batch), default=None)


def short(name: str) -> str:
    """An operator's name as it fits into a cell; a step of the engine keeps what it evaluates."""
    inside = name.removeprefix(_ENGINE)
    shown = inside.removeprefix("torch::autograd::")
    return f"engine: {shown}" if inside != name else shown


# ------------------------------------------------------------------------------------ tables


# ---------------------------------------------------------------------------------- timelines


def timeline(traced: Traced) -> Figure:
    """What ran when, and the memory that was live."""
    trace = traced.trace
    lanes = _nested_lanes(trace, _SEEN * traced.length)
    live = trace.live(on_host=not traced.run.on_gpu)
    level = Level(
        "Live (MB)",
        tuple(moment / _MILLI for moment, _ in live),
        tuple(size / _MEGA for _, size in live),
    )
    drawn = Timeline(
        lanes,
        tuple(word for word, _ in _KINDS),
        "Time since the call began (ms)",
        level if live else None,
    )
    return Figure(
        f"fig-timeline-{traced.scope}",
        "",
        "",
        Drawing((drawn,), wide=True, height=drawn.height),
        (traced.run.file,),
    )


def _nested_lanes(trace: Trace, least: float) -> tuple[Lane, ...]:
    """A lane a level of nesting: what an operator calls stands below it.

    Levels whose operators all take less than ``least`` (ns) would seem empty and are left out.
    """
    marks = sum(o.mark for o in trace.operators)
    levels: dict[int, list[Operator]] = {}
    for operator in trace.operators:
        if not operator.mark:
            above = sum(trace.operators[place].mark for place in trace.ancestors(operator))
            levels.setdefault(operator.depth - min(above, marks), []).append(operator)
    return tuple(
        Lane(f"Level {level + 1}", tuple(map(_span, operators)))
        for level, operators in sorted(levels.items())
        if max(operator.duration for operator in operators) >= least
    )


def _span(operator: Operator) -> Span:
    label = short(operator.name).removeprefix("engine: ").removeprefix("aten::")
    return Span(operator.start / _MILLI, operator.end / _MILLI, _kind(operator.name), label)


def _kind(name: str) -> int:
    lower = name.lower()
    return next(i for i, (_, parts) in enumerate(_KINDS) if any(part in lower for part in parts))


# ---------------------------------------------------------------------------------- downloads


def downloads(found: Iterable[Traced]) -> dict[str, Download]:
    """Each trace as it was recorded, and its whole table of operators as CSV."""
    return {item.name: item for traced in found for item in _downloads(traced)}


def _downloads(traced: Traced) -> Iterator[Download]:
    what = f"{traced.scope}, batch {traced.batch}, {traced.run.label}"
    start = f"{traced.run.key}.{traced.key}"
    yield Download(f"{start}.trace.json.gz", traced.content, f"Trace: {what}")
    table = operator_table(traced.rows, "tbl-all-operators", what)
    yield Download(f"{start}.operators.csv", to_csv(table).encode(), f"Operators: {what}")
