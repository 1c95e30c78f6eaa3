"""The tables of conv_scaling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from report.layers import Layer
from report.missing import Missing
from report.paper import Inputs
from report.records import Environment, Record
from report.reported import Reported
from report.shapes import parameter_count
from report.statistics import LinearFit
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.subject import (
    PASS_NAMES,
    PASSES,
    footprint,
    multiply_adds,
    operations,
)
from report.tables import Cell, Column, Table

NO_RECORD: Final = Missing("no run of this experiment is in the data directory")
NOT_COUNTED: Final = Missing("no record holds a count of executed operations")
NOT_PUBLISHED: Final = Missing("not given in the source")

BATCH: Final = Column("Batch", "1")


def network(inputs: Inputs) -> Table:
    """The network that holds the layer: output shapes and parameters, own and reported."""
    printed = inputs.reported.table("summary")
    reported: list[tuple[object, object]] = list(
        zip(printed.column("layer"), printed.column("parameters"), strict=True)
    )
    rows: list[tuple[Cell, ...]] = [
        (*_described(layer), parameter_count(layer), _reported_count(layer, reported))
        for layer in network_layers(inputs)
    ]
    if not rows:
        rows = [(str(name), NO_RECORD, NO_RECORD, _cell(count)) for name, count in reported]
    return Table(
        "tbl-network",
        "The network around the layer: output shape for one image and number of parameters, "
        "computed from the shapes that ran and as the source prints them.",
        (
            Column("Layer"),
            Column("Output shape"),
            Column("Parameters", "1"),
            Column("Reported", "1"),
        ),
        tuple(rows),
        notes=("The source's summary lists only modules, so functions have no reported count.",)
        if inputs.records
        else (),
        sources=(inputs.reported_file, *_files(inputs)[:1]),
    )


def network_layers(inputs: Inputs) -> tuple[Layer, ...]:
    """The layers of the whole network from the newest record that holds them, else none."""
    for item in inputs.records:
        for case in item.record.cases:
            if case.factors.get("subject") == "network" and case.layers:
                return case.layers
    return ()


def _described(layer: Layer) -> tuple[str, str]:
    return layer.name, " × ".join(str(extent) for extent in layer.output_shape[1:])


def _reported_count(layer: Layer, reported: list[tuple[object, object]]) -> Cell:
    """The next unused reported row of the same kind of layer, in network order."""
    kind = {"conv2d": "Conv2d", "linear": "Linear", "dropout": "Dropout"}.get(_kind(layer), "-")
    for index, (name, count) in enumerate(reported):
        if str(name).startswith(kind):
            del reported[index]
            return _cell(count)
    return NOT_PUBLISHED


def _kind(layer: Layer) -> str:
    return str(type(layer).__struct_config__.tag)


def theory_work(inputs: Inputs) -> Table:
    """Theoretical work over the source's batch sizes: the source's Table I, computed."""
    printed = inputs.reported.table("I")
    rows = tuple(
        (batch, multiply_adds(batch), operations(batch), _cell(reported))
        for batch, reported in zip(
            reported_batches(inputs.reported), printed.column("theoretical_flops"), strict=True
        )
    )
    return Table(
        "tbl-work-theory",
        "Theoretical work of one forward call, and the source's Table I.",
        (
            BATCH,
            Column("Multiply-adds", "MAC"),
            Column("Work", "FLOP"),
            Column("Reported", "FLOP"),
        ),
        rows,
        sources=(inputs.reported_file,),
    )


def theory_memory(inputs: Inputs) -> Table:
    """Theoretical memory in its two parts: the source's Table II, computed."""
    printed = inputs.reported.table("II")
    rows = []
    for batch, reported in zip(
        reported_batches(inputs.reported), printed.column("theoretical_memory"), strict=True
    ):
        size = footprint(batch)
        rows.append(
            (batch, size.parameters, size.output, size.parameters_and_output, _cell(reported))
        )
    return Table(
        "tbl-memory-theory",
        "Theoretical memory of the layer by the source's rule, parameters and output feature map.",
        (
            BATCH,
            Column("Parameters", "B"),
            Column("Output", "B"),
            Column("Sum", "B"),
            Column("Reported", "B"),
        ),
        tuple(rows),
        sources=(inputs.reported_file,),
    )


def compared_work(inputs: Inputs) -> Table:
    """Theory, own measurement and reported counters side by side, with the difference."""
    total = inputs.reported.table("III").column("total_flops")
    rows = []
    for batch, reported in zip(reported_batches(inputs.reported), total, strict=True):
        theory, difference = operations(batch), _minus(reported, operations(batch))
        rows.append((batch, theory, NOT_COUNTED, _cell(reported), difference))
    return Table(
        "tbl-work",
        "Work of one forward call: theory, this study's machines, and the source's counters.",
        (
            BATCH,
            Column("Theory", "FLOP"),
            Column("Own", "FLOP"),
            Column("Reported", "FLOP"),
            Column("Reported − theory", "FLOP"),
        ),
        tuple(rows),
        sources=(inputs.reported_file,),
    )


def compared_memory(inputs: Inputs, primary: Run | None) -> Table:
    """Theory, own measurement and reported allocation side by side, with the difference."""
    allocated = inputs.reported.table("IV").column("allocated_memory")
    rows = []
    for batch, reported in zip(reported_batches(inputs.reported), allocated, strict=True):
        theory = footprint(batch).parameters_and_output
        rows.append(
            (
                batch,
                theory,
                primary.held(batch) if primary else NO_RECORD,
                _cell(reported),
                _minus(reported, theory),
            )
        )
    return Table(
        "tbl-memory",
        "Memory of one forward call: theory by the source's rule, the bytes that the call "
        "leaves allocated here, and the source's allocated bytes.",
        (
            BATCH,
            Column("Theory", "B"),
            Column("Own", "B"),
            Column("Reported", "B"),
            Column("Reported − theory", "B"),
        ),
        tuple(rows),
        notes=(f"Own: {primary.label}.",) if primary else (),
        sources=(inputs.reported_file, *((primary.file,) if primary else ())),
    )


def reported_memory(inputs: Inputs) -> Table:
    """The source's allocated and reserved bytes, as printed."""
    printed = inputs.reported.table("IV")
    columns = zip(
        reported_batches(inputs.reported),
        printed.column("allocated_memory"),
        printed.column("reserved_memory"),
        strict=True,
    )
    return Table(
        "tbl-memory-reported",
        "What the source reports from the allocator of its GPU, before against after the call.",
        (BATCH, Column("Allocated", "B"), Column("Reserved", "B")),
        tuple((batch, _cell(allocated), _cell(reserved)) for batch, allocated, reserved in columns),
        sources=(inputs.reported_file,),
    )


def measured_memory(alike: Sequence[Run]) -> Table:
    """What the allocator did in the runs ``alike``, which measured the same bytes."""
    run = alike[0]
    cuda = run.stored.record.environment.device == "cuda"
    columns = [
        BATCH,
        Column("Output", "B", "MB"),
        Column("Held", "B", "MB"),
        Column("Peak", "B", "MB"),
        Column("Peak ÷ output", "1"),
        Column("F+B peak", "B", "MB"),
    ]
    rows = []
    for batch in run.batches:
        output, peak = footprint(batch).output, run.peak(batch)
        row: list[Cell] = [
            batch,
            output,
            run.held(batch),
            peak,
            peak if isinstance(peak, Missing) else peak / output,
            run.peak(batch, "forward_backward"),
        ]
        rows.append((*row, run.reserved(batch)) if cuda else tuple(row))
    if cuda:
        columns.append(Column("Reserved", "B", "MB"))
    return Table(
        f"tbl-memory-{run.key}",
        f"Memory measured on {_listed([r.label for r in alike])}: the output's size, the bytes "
        "that the forward call leaves allocated, its peak beyond what was allocated before, and "
        "the peak of forward and backward together.",
        tuple(columns),
        tuple(rows),
        sources=tuple(r.file for r in alike),
    )


def measured_time(run: Run) -> Table:
    """Time, rate and efficiency of every case of a run, with intervals."""
    rows = [
        (
            batch,
            *(
                cell
                for pass_ in PASSES
                for cell in (
                    run.time(batch, pass_),
                    run.rate(batch, pass_),
                    run.efficiency(batch, pass_),
                )
            ),
        )
        for batch in run.batches
    ]
    samples = [len(found) for b in run.batches for p in PASSES if (found := _times(run, b, p))]
    least = f"{min(samples)} to {max(samples)} samples a case" if samples else "no samples"
    return Table(
        f"tbl-time-{run.key}",
        f"Time of one call, achieved rate and share of the measured ceiling on {run.label}, "
        f"forward (F) and forward with backward (F+B): medians, {least}, with 95 % intervals.",
        (
            BATCH,
            *(
                column
                for short in ("F", "F+B")
                for column in (
                    Column(f"{short} time", "s", "ms"),
                    Column(f"{short} rate", "FLOP/s", "GFLOP/s"),
                    Column(f"{short} share", "1", "%"),
                )
            ),
        ),
        tuple(rows),
        sources=(run.file,),
        wide=True,
    )


def _times(run: Run, batch: int, pass_: str) -> tuple[float, ...]:
    found = run.raw("time", batch, "forward" if pass_ == "forward" else "forward_backward")
    return () if isinstance(found, Missing) else found


def byte_fits(inputs: Inputs, all_runs: Sequence[Run], reported: LinearFit | Missing) -> Table:
    """Slope and intercept of memory over the batch size, against theory."""
    size = footprint(1)
    rows: list[tuple[Cell, ...]] = [
        ("Theory, parameters and output", size.output, size.parameters),
        ("Theory, output alone", size.output, 0),
        ("Reported, allocated", *_line(reported)),
    ]
    for run in all_runs:
        rows.append((f"Held, {run.label}", *_line(run.held_fit())))
        rows.append((f"Peak, {run.label}", *_line(run.peak_fit())))
    return Table(
        "tbl-fit-memory",
        "Memory of the forward call as a line over the batch size, least squares with 95 % "
        "intervals.",
        (Column("Memory"), Column("Slope per image", "B"), Column("Intercept", "B")),
        tuple(rows),
        sources=(inputs.reported_file, *(run.file for run in all_runs)),
    )


def time_fits(all_runs: Sequence[Run]) -> Table:
    """Slope and intercept of time over the batch size, against the ceiling's bound."""
    rows: list[tuple[Cell, ...]] = []
    for run in all_runs:
        for pass_ in PASSES:
            ceiling = run.ceiling("matrix_product")
            bound = (
                ceiling if isinstance(ceiling, Missing) else operations(1, pass_) / ceiling.value
            )
            name = f"{run.label}, {PASS_NAMES[pass_]}"
            rows.append((name, *_line(run.time_fit(pass_)), bound))
    return Table(
        "tbl-fit-time",
        "Time as a line over the batch size, weighted for a constant relative error, with 95 % "
        "intervals; the bound is the theoretical work of an image at the measured ceiling.",
        (
            Column("Run"),
            Column("Slope per image", "s", "µs"),
            Column("Intercept", "s", "µs"),
            Column("Bound per image", "s", "µs"),
        ),
        tuple(rows) or (("none", NO_RECORD, NO_RECORD, NO_RECORD),),
        sources=tuple(run.file for run in all_runs),
    )


def _line(fit: LinearFit | Missing) -> tuple[Cell, Cell]:
    return (fit, fit) if isinstance(fit, Missing) else (fit.slope, fit.intercept)


def setup(inputs: Inputs, all_runs: Sequence[Run]) -> Table:
    """The environments of the records, and what the source tells of its own."""
    source = inputs.reported
    own = [_environment_rows(run.stored.record) for run in all_runs]
    printed = {"Device": source.device, "Framework": source.software}
    names = list(own[0]) if own else list(printed)
    rows = tuple((name, *(rows[name] for rows in own), printed.get(name, "—")) for name in names)
    return Table(
        "tbl-setup",
        "The environments: as the records hold them, and as the source reports its own.",
        (Column("Property"), *(Column(run.label) for run in all_runs), Column("Source")),
        rows,
        sources=(inputs.reported_file, *(run.file for run in all_runs)),
        wide=True,
    )


def _environment_rows(record: Record) -> dict[str, str]:
    environment = record.environment
    memory = environment.gpu.memory_bytes if environment.gpu else environment.memory_bytes
    return {
        "Device": environment.gpu.model if environment.gpu else environment.cpu.model,
        "Cores and threads": f"{environment.cpu.cores_available} cores available, "
        f"{environment.threads} used",
        "Memory": f"{memory / 2**30:.1f} GiB",
        "Vector extensions": ", ".join(environment.cpu.vector_extensions) or "—",
        "Frequency governor": environment.cpu.governor or "not exposed",
        "Load average": _load(environment),
        "Operating system": environment.operating_system,
        "Framework": f"PyTorch {environment.torch.version}, Python {environment.python}",
        "Driver, CUDA, cuDNN": _cuda(environment),
        "Arithmetic": _arithmetic(environment),
        "Samples a case": f"{record.protocol.minimum_samples} to "
        f"{record.protocol.maximum_samples}, after {record.protocol.warmup_calls} warm-up calls",
        "Measured": f"{record.started[:10]}, {record.protocol.plan} plan",
    }


def _load(environment: Environment) -> str:
    values = (environment.load_before, environment.load_after)
    return " before, ".join("—" if v is None else f"{v:.2f}" for v in values) + " after"


def _cuda(environment: Environment) -> str:
    gpu = environment.gpu
    return f"{gpu.driver or '—'}, {gpu.cuda}, {gpu.cudnn or '—'}" if gpu else "—"


def _arithmetic(environment: Environment) -> str:
    precision = environment.precision
    tf32 = "TF32 allowed" if environment.gpu and precision.cudnn_tf32 else "no TF32"
    return f"{precision.default_dtype}, {tf32}"


def reported_batches(reported: Reported) -> tuple[int, ...]:
    """The batch sizes that the source measured."""
    return tuple(int(str(batch)) for batch in reported.table("I").column("batch"))


def _cell(value: object) -> Cell:
    return value if isinstance(value, int | float | str) else NOT_PUBLISHED


def _minus(value: object, theory: int) -> Cell:
    return value - theory if isinstance(value, int | float) else NOT_PUBLISHED


def _files(inputs: Inputs) -> tuple[str, ...]:
    return tuple(item.file for item in inputs.records)


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
