"""The tables of backend_speedup; their captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from report.missing import Missing
from report.paper.audit_table import audit_table
from report.paper.declared import Content, Field, table
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.images import DataSet
from report.paper.tables import Cell, Table
from report.quantity.expression import Quantity
from report.studies.backend_speedup.learning import libraries
from report.studies.backend_speedup.measured import NUMPY, VARIANTS, Case, Run, Variant, brief
from report.studies.backend_speedup.model import (
    Model,
    model,
    models,
)
from report.studies.backend_speedup.products import product_name, product_table
from report.studies.backend_speedup.source import amdahl, amdahl_limit, audit, printed_number
from report.studies.backend_speedup.source_tables import (
    data_set_table,
    network_table,
    operations_theory_table,
    source_performance_table,
)
from report.studies.backend_speedup.subject import HIDDEN, KIND_NAMES, Kind, Network, Setting, kinds
from report.studies.backend_speedup.theory import least, source_setting
from report.studies.backend_speedup.threads import Pair, thread_table
from report.studies.backend_speedup.values import from_parts, gains_most, most

_DEVICES: Final = {"cpu": "CPU"}


def all_tables(
    inputs: Inputs,
    runs: Sequence[Run],
    primary: Run | None,
    pair: Pair | None,
    gpu: Run | None,
    images: DataSet | None,
) -> Iterator[Table]:
    """Every table that the data have; of a run those without a row are left out."""
    yield network_table()
    yield operations_theory_table(inputs, primary)
    yield source_performance_table(inputs)
    yield audit_table("tbl-audit", "", audit(inputs.reported), (inputs.reported_file,))
    yield data_set_table(inputs, images)
    yield setup(inputs, runs)
    yield _amdahl(inputs, primary)
    found = [] if primary is None else [*_of_run(inputs, primary, "")]
    if gpu is not None and gpu is not primary:
        found += _of_run(inputs, gpu, f"-{gpu.key}")
    for run in runs:
        if run not in (primary, gpu):
            found.append(_performance(run, "perceptron", f"tbl-performance-{run.key}"))
    found.append(product_table(inputs, runs))
    if pair is not None:
        found.append(thread_table(pair))
    yield from (each for each in found if each is not None and each.rows)


def _of_run(inputs: Inputs, run: Run, end: str) -> Iterator[Table | None]:
    """The tables of the run of the prose, or of a GPU's beside it, whose ids have an ``end``."""
    yield _libraries(inputs, run, f"tbl-backends{end}")
    yield _performance(run, "perceptron", f"tbl-performance{end}")
    yield _performance(run, "convnet", f"tbl-performance-convnet{end}")
    yield _operations(run, "perceptron", f"tbl-operations{end}")
    yield _transfers(run, f"tbl-transfers{end}")
    yield _cases(run, f"tbl-cases{end}")
    if not end:
        yield _operations(run, "convnet", "tbl-operations-convnet")
        yield _models(run)


def _host_note(run: Run, shown: Sequence[Variant]) -> tuple[str, ...]:
    """Where the libraries of a GPU's run compute that use no GPU."""
    names = [variant.name for variant in shown if not variant.on_gpu]
    if not run.on_gpu or not names:
        return ()
    environment = run.stored.record.environment
    return (
        f"{', '.join(names)}: on {environment.threads} threads of the processor beside the GPU, "
        f"{environment.cpu.model}.",
    )


# --------------------------------------------------------------------------------- performance


def _libraries(inputs: Inputs, run: Run, id: str) -> Table:
    """The libraries that ran."""
    return table(
        id,
        libraries(inputs, run),
        [
            Field("Library", "", lambda row: Variant(row.name).name),
            Field("Version", "", lambda row: row.version),
            Field("Matrix products by", "", lambda row: product_name(row.matrix_products)),
            Field("Device", "", lambda row: _DEVICES.get(row.device, row.device)),
            Field("Threads", "1", lambda row: row.threads),
        ],
        sources=(run.file,),
        wide=True,
    )


def _performance(run: Run, network: Network, id: str) -> Table | None:
    """Times of the training and of its passes with every library, and speed-ups over NumPy."""
    setting = run.training(network)
    if setting is None:
        return None
    shown = [v for v in VARIANTS if not _elsewhere(run, setting, v)]

    def timed(quantity: str) -> Callable[[Variant], Quantity]:
        return lambda v: brief(run.measured(quantity, setting, v))

    def speedup(v: Variant) -> Content:
        return 1 if v == NUMPY else brief(run.speedup(setting, v))

    return table(
        id,
        shown,
        [
            Field("Library", "", lambda v: v.name),
            Field("Processes", "1", lambda v: run.processes(setting, v)),
            Field("First call", "s", timed("first_call_time"), "ms"),
            Field("Forward", "s", timed("forward_time"), "ms"),
            Field("Backward", "s", timed("backward_time"), "ms"),
            Field("Iteration", "s", timed("time"), "ms"),
            Field("Speed-up", "1", speedup),
        ],
        notes=(
            "First call: the first iteration of a fresh process, thrown away. A time of one "
            "process has no interval.",
            *_host_note(run, shown),
        ),
        sources=(run.file,),
        wide=True,
    )


def _elsewhere(run: Run, setting: Setting, variant: Variant) -> bool:
    """Whether a library is no part of the run, or computes on a device that it does not have."""
    found = run.time(setting, variant).missing
    return found is not None and found.reason.startswith(("not part of", "unavailable"))


def _operations(run: Run, network: Network, id: str) -> Table | None:
    """Time, share and speed-up of each kind of operation with every library."""
    setting = run.training(network)
    if setting is None:
        return None
    shown = [v for v in run.variants(setting, "matrix_product_time") if v.eager]
    rows = [(kind, variant) for kind in kinds(network) for variant in shown]

    def speedup(row: tuple[Kind, Variant]) -> Content:
        return 1 if row[1] == NUMPY else brief(run.speedup(setting, row[1], f"{row[0]}_time"))

    return table(
        id,
        rows,
        [
            Field("Operations", "", lambda row: KIND_NAMES[row[0]]),
            Field("Library", "", lambda row: row[1].name),
            Field("Time", "s", lambda row: brief(run.operation(row[0], setting, row[1])), "µs"),
            Field("Share", "1", lambda row: run.share(row[0], setting, row[1]), "%"),
            Field("Least time", "s", lambda row: least(run, setting, row[1], row[0]), "µs"),
            Field("Speed-up", "1", speedup),
        ],
        notes=("Share: of the sum of all operations of the library.", *_host_note(run, shown)),
        sources=(run.file,),
        wide=True,
    )


def _transfers(run: Run, id: str) -> Table | None:
    """Copies to a GPU and back, beside the training that they serve."""
    setting = run.training()
    if setting is None:
        return None

    def copied(way: str) -> Callable[[Variant], Quantity]:
        return lambda v: run.measured(f"{way}_device_time", setting, v)

    return table(
        id,
        [v for v in run.variants(setting) if v.on_gpu],
        [
            Field("Library", "", lambda v: v.name),
            Field("Input to the GPU", "s", copied("to"), "ms"),
            Field("Result back", "s", copied("from"), "ms"),
            Field("Iteration", "s", lambda v: run.time(setting, v), "ms"),
        ],
        sources=(run.file,),
    )


def _cases(run: Run, id: str) -> Table:
    """Every case of the sweeps in float32: its time beside the model's, and its speed-up."""
    settings = (*run.scaled(), *run.scaled("convnet"))
    rows = [(setting, variant) for setting in settings for variant in run.variants(setting)]

    def width(row: Case) -> Cell:
        return row[0].hidden if row[0].network == "perceptron" else "conv."

    def predicted(row: Case) -> Content:
        made = model(run, row[1])
        if made is None:
            return Missing("no model of this library")
        return brief(made.predicted(row[0]))

    def speedup(row: Case) -> Content:
        return 1 if row[1] == NUMPY else brief(run.speedup(*row))

    return table(
        id,
        rows,
        [
            Field("Width", "1", width),
            Field("Images", "1", lambda row: row[0].samples),
            Field("Library", "", lambda row: row[1].name),
            Field("Processes", "1", lambda row: run.processes(*row)),
            Field("Least time", "s", lambda row: least(run, *row), "ms"),
            # The parts were timed on processors only.
            *(() if run.on_gpu else (Field("Predicted", "s", predicted, "ms"),)),
            Field("Iteration", "s", lambda row: brief(run.time(*row)), "ms"),
            Field("Speed-up", "1", speedup),
        ],
        notes=_host_note(run, tuple(dict.fromkeys(variant for _, variant in rows))),
        sources=(run.file,),
        wide=True,
    )


def _models(run: Run) -> Table:
    """What a call and a product alone cost with each library."""

    def rate(place: int) -> Callable[[Model], Quantity]:
        return lambda made: brief(made.rate(made.widths[place].hidden))

    return table(
        "tbl-models",
        models(run),
        [
            Field("Library", "", lambda made: made.variant.name),
            Field("A call", "s", lambda made: brief(made.call), "µs"),
            Field("Narrowest product", "FLOP/s", rate(0), "GFLOP/s"),
            Field("Widest product", "FLOP/s", rate(-1), "GFLOP/s"),
        ],
        sources=(run.file,),
    )


# --------------------------------------------------------------------- operations and the whole


def _amdahl(inputs: Inputs, run: Run | None) -> Table:
    """Total speed-ups from those of the operations, against the ones that were measured."""
    settings = [] if run is None else [run.training()]
    own = [
        (setting, variant)
        for setting in dict.fromkeys(s for s in settings if s is not None)
        for variant in (run.others(setting, "matrix_product_time") if run else ())
        if variant.eager
    ]
    rows: list[Case | None] = [None, *own]

    def either(
        source: Content, get: Callable[[Run, Setting, Variant], Content]
    ) -> Callable[[Case | None], Content]:
        return lambda row: source if row is None or run is None else get(run, *row)

    def gains(run: Run, setting: Setting, variant: Variant) -> Content:
        kind = gains_most(run, setting, variant)
        return KIND_NAMES[kind] if kind else Missing("operations were not timed")

    images = source_setting(inputs).samples
    total_ = printed_number(inputs, "total_speedup")
    limit = amdahl_limit(inputs, "matrix_product")
    return table(
        "tbl-amdahl",
        rows,
        [
            Field("Library", "", either("Source, CuPy", lambda run, s, v: v.name)),
            Field("Width", "1", either(HIDDEN, lambda run, s, v: s.hidden)),
            Field("Images", "1", either(images, lambda run, s, v: s.samples)),
            Field("From the parts", "1", either(amdahl(inputs), from_parts)),
            Field("Measured", "1", either(total_, Run.speedup)),
            Field("Gains most", "", either(KIND_NAMES["matrix_product"], gains)),
            Field("Limit", "1", either(limit, lambda run, s, v: most(run, s))),
        ],
        sources=(inputs.reported_file, *((run.file,) if run else ())),
        wide=True,
    )
