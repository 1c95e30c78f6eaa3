"""The tables of backend_speedup that a run fills: performance, operations and scaling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from report.missing import Missing
from report.paper.findings import Claim, Inputs
from report.paper.tables import Cell, Column, Table
from report.quantity.evaluation import estimate, faster, point, slower
from report.quantity.expression import Quantity
from report.studies.backend_speedup.decomposed import (
    Decomposition,
    decompose,
    iteration_bound,
    kind_bound,
)
from report.studies.backend_speedup.measured import (
    NUMPY,
    VARIANTS,
    Run,
    Variant,
    compared_runs,
)
from report.studies.backend_speedup.source import (
    amdahl,
    amdahl_limit,
    count,
)
from report.studies.backend_speedup.subject import (
    HIDDEN,
    KIND_NAMES,
    NETWORK_NAMES,
    Kind,
    Network,
    Setting,
    kinds,
)
from report.studies.backend_speedup.theory_tables import NO_RECORD

FASTER, SLOWER, UNTOLD = "faster", "slower", "not told apart"


def word(quantity: Quantity) -> Cell:
    """What a speed-up is called: faster or slower only where its interval excludes 1."""
    ratio = estimate(quantity)
    if isinstance(ratio, Missing):
        return ratio
    if faster(quantity):
        return FASTER
    return SLOWER if slower(quantity) else UNTOLD


def host_note(run: Run, shown: Sequence[Variant]) -> tuple[str, ...]:
    """Where the libraries of a GPU's run compute that use no GPU."""
    names = [variant.name for variant in shown if not variant.on_gpu]
    if not run.on_gpu or not names:
        return ()
    environment = run.stored.record.environment
    return (
        f"{', '.join(names)}: on {environment.threads} threads of the processor beside the GPU, "
        f"{environment.cpu.model}.",
    )


# -------------------------------------------------------------------------------- performance


def performance(run: Run, network: Network, id: str) -> Table | None:
    """Times of the training with every library, and its speed-up over NumPy."""
    setting = run.training(network)
    if setting is None:
        return None
    shown = [v for v in VARIANTS if _tried(run, setting, v)]
    trained = run.processes("time", setting, NUMPY)
    iterations = 0 if isinstance(trained, Missing) else len(trained[0].samples)
    return Table(
        id,
        f"Training the {NETWORK_NAMES[network]} on {run.label}: {iterations} iterations on "
        f"{setting.samples:,} images in {setting.dtype}. Medians with intervals; speed-ups "
        "are over NumPy.",
        (
            Column("Library"),
            Column("First call", "s", "ms"),
            Column("Iteration", "s", "ms"),
            Column("Training", "s"),
            Column("Speed-up", "1"),
            Column("So it is"),
        ),
        tuple(_performance_row(run, setting, variant) for variant in shown),
        notes=(
            "First call: the first iteration of a fresh process, thrown away. Training: sum of all "
            "iterations; its interval is the span of the processes.",
            *host_note(run, shown),
        ),
        sources=(run.file,),
        wide=True,
    )


def _tried(run: Run, setting: Setting, variant: Variant) -> bool:
    found = run.processes("time", setting, variant)
    return not (isinstance(found, Missing) and found.reason.startswith("not part of"))


def _performance_row(run: Run, setting: Setting, variant: Variant) -> tuple[Cell, ...]:
    ratio = run.speedup("time", setting, variant)
    return (
        variant.name,
        estimate(run.measured("first_call_time", setting, variant)),
        estimate(run.time(setting, variant)),
        estimate(run.totals(setting, variant)),
        1 if variant == NUMPY and not ratio.missing else estimate(ratio),
        "base" if variant == NUMPY else word(ratio),
    )


def passes(run: Run, network: Network, id: str) -> Table | None:
    """Times of the forward and the backward pass with every library, and their speed-ups."""
    setting = run.training(network)
    shown = run.variants(setting, "forward_time")
    if setting is None or not shown:
        return None
    return Table(
        id,
        f"The two passes of an iteration of the {NETWORK_NAMES[network]} on {run.label}, each "
        "timed apart. Speed-ups are over NumPy.",
        (
            Column("Library"),
            Column("Forward", "s", "ms"),
            Column("Speed-up", "1"),
            Column("So it is"),
            Column("Backward", "s", "ms"),
            Column("Speed-up", "1"),
            Column("So it is"),
        ),
        tuple(
            (
                variant.name,
                *_pass_cells(run, setting, "forward_time", variant),
                *_pass_cells(run, setting, "backward_time", variant),
            )
            for variant in shown
        ),
        notes=(
            "A compiled iteration is one program without separate passes.",
            *host_note(run, shown),
        ),
        sources=(run.file,),
        wide=True,
    )


def _pass_cells(run: Run, setting: Setting, quantity: str, variant: Variant) -> tuple[Cell, ...]:
    time = estimate(run.measured(quantity, setting, variant))
    if variant == NUMPY:
        return time, 1, "base"
    ratio = run.speedup(quantity, setting, variant)
    return time, estimate(ratio), word(ratio)


def threads(few: Run, many: Run) -> Table:
    """What more threads of the same processor gain, at the smallest and the largest sizes."""
    settings = [*few.sizes()[:1], *few.sizes()[-1:], *few.widths()[-1:]]
    rows = [
        (s.hidden, s.samples, v.name, *map(estimate, (few.time(s, v), many.time(s, v), r)), word(r))
        for s in dict.fromkeys(settings)
        for v in few.variants(s)
        if not (r := compared_runs(s, v, few, many)).missing
    ]  # fmt: skip
    return Table(
        "tbl-threads",
        f"What threads gain: time of an iteration on {few.label} and on {many.label}.",
        (
            Column("Width", "1"),
            Column("Images", "1"),
            Column("Library"),
            Column("Fewer threads", "s", "ms"),
            Column("More threads", "s", "ms"),
            Column("Speed-up", "1"),
            Column("So they are"),
        ),
        tuple(rows),
        sources=(few.file, many.file),
        wide=True,
    )


def transfers(run: Run, id: str) -> Table | None:
    """Copies to a GPU and back, beside the training that they serve."""
    setting = run.training()
    moved = [v for v in run.variants(setting) if v.on_gpu]
    if setting is None or not moved:
        return None
    return Table(
        id,
        f"Copies between host and GPU on {run.label}, apart from the training and with it.",
        (
            Column("Library"),
            Column("Input to the GPU", "s", "ms"),
            Column("Result back", "s", "ms"),
            Column("Training", "s", "ms"),
            Column("With copies", "s", "ms"),
        ),
        tuple(_transfer_row(run, setting, variant) for variant in moved),
        sources=(run.file,),
    )


def _transfer_row(run: Run, setting: Setting, variant: Variant) -> tuple[Cell, ...]:
    there, back = (run.measured(f"{way}_device_time", setting, variant) for way in ("to", "from"))
    alone = run.totals(setting, variant)
    return variant.name, *map(estimate, (there, back, alone, there + back + alone))


# --------------------------------------------------------------------------------- operations


def operations(run: Run, network: Network, id: str) -> Table | None:
    """Time, share and speed-up of each kind of operation with every library."""
    setting = run.training(network)
    shown = [v for v in run.variants(setting, "matrix_product_time") if v.eager]
    if setting is None or not shown:
        return None
    return Table(
        id,
        f"Where the time of an iteration of the {NETWORK_NAMES[network]} goes on {run.label}, at "
        f"{setting.samples:,} images: every operation timed apart, those of a kind added up. "
        "Speed-ups are over NumPy.",
        (
            Column("Operations"),
            Column("Library"),
            Column("Time", "s", "µs"),
            Column("Share", "1", "%"),
            Column("Least time", "s", "µs"),
            Column("Speed-up", "1"),
            Column("So it is"),
        ),
        tuple(
            _operation_row(run, setting, kind, variant)
            for kind in kinds(setting.network)
            for variant in shown
        ),
        notes=("Share: of the sum of all operations of the library.", *host_note(run, shown)),
        sources=(run.file,),
        wide=True,
    )


def share_of(run: Run, setting: Setting, kind: Kind, variant: Variant) -> Quantity:
    """The share of a kind of operation in the sum of all operations of a library."""
    return run.operation(kind, setting, variant) / run.operations_sum(setting, variant)


def _operation_row(run: Run, setting: Setting, kind: Kind, variant: Variant) -> tuple[Cell, ...]:
    ratio = run.speedup(f"{kind}_time", setting, variant)
    return (
        KIND_NAMES[kind],
        variant.name,
        estimate(run.operation(kind, setting, variant)),
        estimate(share_of(run, setting, kind, variant)),
        kind_bound(run, setting, kind, variant),
        1 if variant == NUMPY else estimate(ratio),
        "base" if variant == NUMPY else word(ratio),
    )


def decompositions(run: Run) -> tuple[tuple[Setting, Decomposition], ...]:
    """Amdahl's decomposition of every library against NumPy, smallest and largest size first."""
    settings = [run.training(), *run.sizes()[-1:], *run.widths()[-1:]]
    found = []
    for setting in dict.fromkeys(s for s in settings if s is not None):
        for variant in run.variants(setting):
            if variant == NUMPY or not variant.eager:
                continue
            parts = decompose(run, setting, variant)
            if isinstance(parts, Decomposition):
                found.append((setting, parts))
    return tuple(found)


def amdahl_table(inputs: Inputs, run: Run | None) -> Table:
    """Total speed-ups from those of the operations, against the ones that were measured."""
    reported = inputs.reported
    rows: list[tuple[Cell, ...]] = [
        (
            "Source, CuPy",
            HIDDEN,
            count(reported, "training"),
            point(amdahl(inputs)),
            reported.value("total_speedup").number,
            KIND_NAMES["matrix_product"],
            point(amdahl_limit(inputs, "matrix_product")),
        )
    ]
    for setting, parts in decompositions(run) if run else ():
        rows.append(
            (
                parts.variant.name,
                setting.hidden,
                setting.samples,
                parts.predicted,
                estimate(parts.measured),
                KIND_NAMES[parts.most],
                1 / (1 - parts.parts["matrix_product"][0]),
            )
        )
    return Table(
        "tbl-amdahl",
        "Total speed-ups over NumPy by Amdahl's decomposition from those of the operations, beside "
        "the measured ones. The last column is the most that faster matrix products alone could "
        "give.",
        (
            Column("Library"),
            Column("Width", "1"),
            Column("Images", "1"),
            Column("From the parts", "1"),
            Column("Measured", "1"),
            Column("Gains most"),
            Column("Limit", "1"),
        ),
        tuple(rows),
        notes=() if run else (f"Own libraries: {NO_RECORD.reason}.",),
        sources=(inputs.reported_file, *((run.file,) if run else ())),
        wide=True,
    )


# ------------------------------------------------------------------------------------ scaling


def scaling(run: Run, settings: Sequence[Setting], id: str, what: str) -> Table | None:
    """Time and speed-up over a sweep, a row a level and library."""
    rows = tuple(_scaling_rows(run, settings))
    if not rows:
        return None
    wide = settings[0].network == "perceptron"
    return Table(
        id,
        f"Time of an iteration on {run.label} over {what}. Speed-ups are over NumPy.",
        (
            *((Column("Width", "1"),) if wide else ()),
            Column("Images", "1"),
            Column("Library"),
            Column("Iteration", "s", "ms"),
            Column("Least time", "s", "ms"),
            Column("Speed-up", "1"),
            Column("So it is"),
        ),
        rows,
        notes=host_note(run, [v for v in VARIANTS if any(v in run.variants(s) for s in settings)]),
        sources=(run.file,),
        wide=True,
    )


def images_at(width: int) -> str:
    """What varies in a sweep over the number of images at one width."""
    return f"the number of images, at a width of {width}"


def _scaling_rows(run: Run, settings: Sequence[Setting]) -> Iterator[tuple[Cell, ...]]:
    for setting in settings:
        for variant in run.variants(setting):
            ratio = run.speedup("time", setting, variant)
            yield (
                *((setting.hidden,) if setting.network == "perceptron" else ()),
                setting.samples,
                variant.name,
                estimate(run.time(setting, variant)),
                iteration_bound(run, setting, variant),
                1 if variant == NUMPY else estimate(ratio),
                "base" if variant == NUMPY else word(ratio),
            )


def verdicts(judged: Sequence[Claim]) -> Table:
    """Every claim with what the numbers say of it."""
    return Table(
        "tbl-claims",
        "Claims and what the numbers say of them.",
        (Column("Claim"), Column("Verdict"), Column("Because")),
        tuple((claim.sentence, claim.verdict, claim.because) for claim in judged),
        wide=True,
    )
