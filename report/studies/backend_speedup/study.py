"""All that the paper of backend_speedup prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

import msgspec

from report.evidence.audit import Check, count_by_verdict
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.machines import Comparison, setup
from report.paper.study import Content, audit_row
from report.paper.study import OldStudy as Study
from report.paper.tables import Table
from report.quantity.evaluation import point, to_digits
from report.quantity.expression import Quantity, absent, exact, recorded
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Statement
from report.records.strict import parse_json
from report.studies.backend_speedup import figures, theory
from report.studies.backend_speedup.runs import Run
from report.studies.backend_speedup.source import OPERATIONS, PERFORMANCE, Source
from report.studies.backend_speedup.subject import (
    CALLS,
    KAGGLE,
    LARGE,
    NAMES,
    SMALL,
    SOURCE,
    WIDEST,
    Size,
    check_subject,
)
from report.text.escape import markdown

#: Speed-ups and sizes that differ by less than this share are no finding.
MARGIN: Final = 0.1
#: Losses that differ by less than this share are those of one training.
ALIKE_LOSS: Final = 1e-3

#: About the source's work with many neurons; both networks with fewer images.
LESS_WIDE, NARROW, FEWER = Size(512, 1_438), Size(10, 16_000), Size(128, 16_000)
#: The widest of all with fewer images.
WIDE: Final = Size(2_048, 1_438)
_PRODUCTS: Final = "matrix_product_time"


class Paper:
    """The runs in their roles, and the source."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.source = Source(inputs)
        runs = inputs.runs(Run)
        self.cpu, self.gpu, self.earlier = (runs.get(role) for role in ("cpu", "gpu", "third"))
        #: The CPU and the GPU, where both are there.
        self.both = (self.cpu, self.gpu) if self.cpu and self.gpu else None
        self.sessions = (self.earlier, self.gpu) if self.earlier and self.gpu else None


def _over_numpy(run: Run) -> Quantity:
    return run.speedup(SOURCE, "torch")


study: Study[Paper] = Study(
    Paper,
    check_subject,
    Comparison(Run, "PyTorch over NumPy", _over_numpy, reference=1.0),
    audits=lambda p: p.source.audit(),
)
findings = study.findings


study.texts(
    {
        "gpu": lambda p: markdown(_gpu_name(p.gpu)),
        "host": lambda p: markdown(p.gpu.stored.record.environment.cpu.model) if p.gpu else "",
        "cpu": lambda p: markdown(p.cpu.short) if p.cpu else "",
        "host_name": lambda p: _family(p.gpu),
        "cpu_name": lambda p: _family(p.cpu),
        "gpu_versions": lambda p: _versions(p, p.gpu),
        "cpu_versions": lambda p: _versions(p, p.cpu),
    }
)


class _Library(msgspec.Struct):
    """What a file beside a record tells of a library."""

    name: str
    version: str
    matrix_products: str = ""


def _versions(p: Paper, run: Run | None) -> str:
    """The libraries of a run with their versions; raises ``RecordError`` for a file of others."""
    found = []
    for name, content in sorted((p.inputs.attachments.get(run.file, {}) if run else {}).items()):
        if isinstance(content, Missing):
            found.append(f"unknown, since {content.reason}")
            continue
        where = f"data/{run.file if run else ''}: {name}"
        told = parse_json(content, _Library, where, "run the experiment again")
        blas = f" ({told.matrix_products})" if told.matrix_products else ""
        found.append(f"{NAMES.get(told.name, told.name)} {told.version}{blas}")
    return markdown(", ".join(found))


def _family(run: Run | None) -> str:
    """A CPU without its vendor."""
    return markdown(run.stored.record.environment.cpu.model.rpartition(" ")[2]) if run else ""


def _gpu_name(run: Run | None) -> str:
    gpu = run.stored.record.environment.gpu if run else None
    return gpu.model if gpu else ""


# ------------------------------------------------------------------------------ theory, source

study.values(
    {
        "pixels": lambda p: theory.D,
        "hidden": lambda p: theory.H,
        "classes": lambda p: theory.K,
        "parameters": lambda p: theory.PARAMETERS,
        "calls": lambda p: theory.ALL_CALLS,
        "second_products": lambda p: exact("products of the second layer", "1", 3),
        "few_images": lambda p: exact("images, fewest", "1", SMALL.images),
        "many_images": lambda p: exact("images, most", "1", SOURCE.images),
        "most_neurons": lambda p: exact("neurons, most", "1", WIDEST.hidden),
        "large_neurons": lambda p: exact("neurons", "1", LARGE.hidden),
        "fewer_images": lambda p: exact("images", "1", NARROW.images),
        "shared_images": lambda p: exact("images", "1", LESS_WIDE.images),
        "learned": lambda p: p.source.value("training"),
        "weights": lambda p: theory.D * theory.H + theory.H * theory.K,
        "source_speedup": lambda p: p.source.value("total_speedup"),
        "audited": lambda p: exact("audited", "1", len(p.source.audit()), p.source.file),
        "differing": lambda p: exact(
            "that differ", "1", count_by_verdict(p.source.audit())["differs"], p.source.file
        ),
    }
)
study.values(
    {
        "source_cpu": lambda p: p.source.number("3", "time", "cpu"),
        "source_gpu": lambda p: p.source.number("3", "time", "gpu"),
        "source_work": lambda p: to_digits(theory.work(SOURCE), 2),
        "kaggle_work": lambda p: to_digits(theory.work(KAGGLE), 2),
        "source_held": lambda p: (
            p.source.number("5", "framework", "gpu") / p.source.number("5", "framework", "cpu")
        ),
        "source_products": lambda p: p.source.number("4", _PRODUCTS, "cpu"),
        "source_total": lambda p: p.source.value("total_time_cpu"),
        "source_gradients": lambda p: p.source.number("4", "gradient_time", "gpu"),
        "source_backward": lambda p: p.source.number("3", "backward_time", "gpu"),
        "printed_parameters": lambda p: p.source.number("5", "parameters", "cpu"),
        "byte_input": lambda p: to_digits(theory.image_bytes(SOURCE) / 4, 2),
    },
    "measured",
)


# ------------------------------------------------------------------------------------- the GPU


def _flat(run: Run) -> Quantity:
    """The largest work at the floor."""
    if not run.at_floor:
        return absent("work", "FLOP", "no time of CuPy")
    return to_digits(theory.work([*run.at_floor][-1]), 2)


def _products_at_source(run: Run) -> Quantity:
    """CuPy's time in its products, less a call of each: what launching and waiting take."""
    calls = CALLS["matrix_product"] * run.measured("call_time", SMALL, "cupy")
    return run.measured(_PRODUCTS, SOURCE, "cupy") - calls


def _product_share(run: Run) -> Quantity:
    return _products_at_source(run) / run.time(SOURCE, "cupy")


def _calls_share(library: str) -> Callable[[Run], Quantity]:
    """The calls of an iteration, each waited for, over the smallest iteration."""
    return lambda run: (
        theory.ALL_CALLS * run.measured("call_time", SMALL, library) / run.time(SMALL, library)
    )


def _share_at_most_work(library: str) -> Callable[[Run], Quantity]:
    """The share of an iteration in its products at the largest work."""
    return lambda run: run.measured(_PRODUCTS, WIDEST, library) / run.time(WIDEST, library)


def _at_rate_of(size: Size, fewer: Size) -> Callable[[Run], Quantity]:
    """The speed-up if NumPy kept the rate of the same width with fewer images."""

    def speedup(run: Run) -> Quantity:
        time = run.time(fewer, "numpy") * theory.work(size) / theory.work(fewer)
        return to_digits(time / run.time(size, "cupy"), 1)

    return speedup


def _spread_of_parts(run: Run) -> Quantity:
    return _spread(run, 0, quantities=[f"{kind}_time" for kind in CALLS])


def _products_ahead(run: Run) -> Quantity:
    """The gain of the products over the largest gain of the other operations that are printed."""
    others = (name for name in OPERATIONS if name != _PRODUCTS)
    largest = at_least(*(run.speedup(SOURCE, "cupy", name) for name in others))
    return run.speedup(SOURCE, "cupy", _PRODUCTS) / largest


def _gain(size: Size) -> Callable[[Run], Quantity]:
    return lambda run: run.gain(size)


study.values(
    {
        "threads": lambda run: exact("threads", "1", run.threads, run.file),
        "small": _gain(SMALL),
        "at_source": _gain(SOURCE),
        "large": _gain(LARGE),
        "widest": _gain(WIDEST),
        "less_wide": _gain(LESS_WIDE),
        "wide": _gain(WIDE),
        "floor": lambda run: run.floor,
        "narrow_gpu_rate": lambda run: theory.work(SOURCE) / _products_at_source(run),
        "products": _products_at_source,
        "gpu_rate": lambda run: run.rate("cupy"),
    },
    of=lambda p: p.gpu,
)
study.values(
    {
        "flat": _flat,
        "flat_growth": lambda run: _flat(run) / theory.work(SMALL),
        "flat_sizes": lambda run: exact("sizes", "1", len(run.at_floor), run.file),
        "sizes": lambda run: exact("sizes", "1", len(run.sizes), run.file),
        "spread": lambda run: to_digits(_spread(run, 0), 3),
        "spread_gpu": lambda run: to_digits(_spread(run, 0, libraries=["cupy"]), 3),
        "spread_parts": _spread_of_parts,
        "pairs": lambda run: _spread(run, 1),
        "longer_on_cpu": lambda run: run.time(SOURCE, "numpy") / run.time(LESS_WIDE, "numpy"),
        "products_ahead": _products_ahead,
        "scatter_of_gains": lambda run: _spread_of_parts(run) * _spread_of_parts(run),
        "without_faults": _at_rate_of(LARGE, FEWER),
        "widest_without_faults": _at_rate_of(WIDEST, WIDE),
        # The first loss of a training stands before its iterations.
        "iterations": lambda run: exact(
            "iterations", "1", max(len(run.of_training("train_loss", "cupy")) - 1, 0), run.file
        ),
        "faults": lambda run: _faults(run, LARGE),
        "faults_widest": lambda run: _faults(run, WIDEST),
    },
    "measured",
    of=lambda p: p.gpu,
)
study.values(
    {
        "floor_error": lambda run: recorded("largest excess", "1", _excess(run), run.file),
        "rate_error": lambda run: recorded("error", "1", _error(run, LARGE), run.file),
        "cupy_calls": _calls_share("cupy"),
        "torch_calls": _calls_share("torch_cuda"),
        "numpy_products": _share_at_most_work("numpy"),
        "cupy_products": _share_at_most_work("cupy"),
        "product_share": lambda run: to_digits(_product_share(run), 1),
        "product_share_least": lambda run: to_digits(
            _product_share(run) / _spread_of_parts(run), 1
        ),
    },
    "percent",
    of=lambda p: p.gpu,
)


def _spread(run: Run, place: int, **of: Sequence[str]) -> Quantity:
    found = run.spread(**of)
    value = Missing("no case has two processes") if found is None else found[place]
    return recorded("pairs of processes" if place else "largest ratio", "1", value, run.file)


def _faults(run: Run, size: Size) -> Quantity:
    """The page faults of NumPy in an iteration, to two digits."""
    return to_digits(run.measured("page_faults", size, "numpy"), 2)


def _excess(run: Run) -> float | Missing:
    """By what share the floor's longest time exceeds that of the least work."""
    return max(run.at_floor.values()) - 1 if run.at_floor else Missing("no time of CuPy")


def _error(run: Run, size: Size) -> float | Missing:
    """By how much of it CuPy's time exceeds the model."""
    time = point(run.time(size, "cupy"))
    if isinstance(time, Missing) or run.model is None:
        return Missing("no model")
    floor, rate = run.model
    return time / max(floor, 2 * size.multiply_adds / rate) - 1


def _image_time(p: Paper) -> Quantity:
    """The time (s) in which our GPU can read the source's images twice, by its data sheet."""
    device = p.inputs.devices.find(_gpu_name(p.gpu))
    peak = device.peak("memory") if device else None
    if device is None or peak is None:
        return absent("time of reading", "s", f"no data sheet of {_gpu_name(p.gpu)}")
    bandwidth = exact(f"bandwidth of {device.name}", "B/s", peak.rate, "devices.yaml")
    return 2 * theory.image_bytes(SOURCE) / bandwidth


# ---------------------------------------------------------------- the source and other baselines


def _beside_source(p: Paper) -> tuple[Run, Source] | None:
    """The GPU and the source, where both are there."""
    return (p.gpu, p.source) if p.gpu else None


def _slower_than_ours(side: str, library: str) -> Callable[[tuple[Run, Source]], Quantity]:
    """How many times as long the source's iteration takes."""
    return lambda both: both[1].number("3", "time", side) / both[0].time(SOURCE, library)


study.values({"image_time": _image_time}, "measured")
study.values(
    {
        "source_slower": _slower_than_ours("gpu", "cupy"),
        "source_cpu_slower": _slower_than_ours("cpu", "numpy"),
    },
    "measured",
    of=_beside_source,
)
study.values(
    {
        "double": lambda run: run.time(SOURCE, "numpy", "float64") / run.time(SOURCE, "numpy"),
        "measurements": lambda run: run.measurements(),
        "disturbed": lambda run: run.measurements(disturbed=True),
    },
    of=lambda p: p.cpu,
)
study.values(
    {
        "small_over_cpu": lambda both: both[1].gain_over(both[0], SMALL),
        "least_shift": lambda both: at_most(*_shifts(both)),
        "most_shift": lambda both: at_least(*_shifts(both)),
        "least_allowed": lambda both: at_most(*_shifts(both)) / _spread(both[1], 0),
        "most_allowed": lambda both: at_least(*_shifts(both)) * _spread(both[1], 0),
    },
    of=lambda p: p.both,
)
study.values(
    {
        "earlier_least": lambda both: _slower(both, min),
        "earlier_most": lambda both: _slower(both, max),
        # What the slower session would leave of two statements; a growth has two speed-ups.
        "small_by_sessions": lambda both: both[1].speedup(SMALL, "cupy") * _slower(both, max),
        "neurons_by_sessions": lambda both: (
            _gain_growth(both[1], LARGE, SOURCE) / _slower(both, max) / _slower(both, max)
        ),
    },
    "measured",
    of=lambda p: p.sessions,
)


def _slower(both: tuple[Run, Run], end: Callable[[Iterator[float]], float]) -> Quantity:
    """NumPy's time in products at the source's size over the later session's, of all pairs."""
    first, second = (run.by_process(_PRODUCTS, run.factors(SOURCE, "numpy")) for run in both)
    ratio: float | Missing = Missing("not timed in both sessions")
    if not isinstance(first, Missing) and not isinstance(second, Missing):
        ratio = end(a.median / b.median for a, b in product(first, second))
    return recorded("products of an earlier session over ours", "1", ratio, both[0].file)


def _gain_growth(run: Run, size: Size, base: Size) -> Quantity:
    return run.speedup(size, "cupy") / run.speedup(base, "cupy")


def _shifts(both: tuple[Run, Run]) -> list[Quantity]:
    """NumPy's time on the CPU over that on the GPU's host, at each size that both timed."""
    cpu, gpu = both
    shared = [size for size in gpu.sizes if size in cpu.sizes]
    found = [gpu.bounded(cpu.time(s, "numpy") / gpu.time(s, "numpy")) for s in shared]
    return found or [absent("time over the host's", "1", "no size was timed on both CPUs")]


# -------------------------------------------------------------------------------------- claims


def _at_one_level(run: Run) -> Statement:
    """That the GPU takes less than twice as long up to the largest work at its floor."""
    # Up to there the work grows by two orders of magnitude.
    last = [SMALL, *run.at_floor][-1]
    return run.bounded(run.time(last, "cupy") / run.floor) < 2


def _growth(run: Run, size: Size, base: Size) -> Statement:
    return run.bounded(_gain_growth(run, size, base)) > 1 + MARGIN


def _alike(run: Run) -> Statement:
    theirs, ours = (run.of_training("train_loss", name) for name in ("cupy", "numpy"))
    name = "largest difference of losses"
    if not theirs or len(theirs) != len(ours):
        return absent(name, "1", f"not recorded on {run.label}") < ALIKE_LOSS
    apart = max(abs(a - b) / b for a, b in zip(theirs, ours, strict=True))
    return to_digits(exact(name, "1", apart, run.file), 2) < ALIKE_LOSS


def _printed_bytes(p: Paper, row: str, shapes: Quantity) -> Statement:
    """The memory that the source prints over that of shapes."""
    return to_digits(p.source.number("5", row, "cpu") / shapes, 2).near(1, within=MARGIN)


def _same_speedup(both: tuple[Run, Source]) -> Statement:
    run, source = both
    ratio = run.speedup(SOURCE, "cupy") / source.value("total_speedup")
    return run.bounded(ratio).near(1, within=MARGIN)


study.claims(
    {
        "small-slower": lambda run: run.gain(SMALL) < 1 - MARGIN,
        "large-faster": lambda run: (run.gain(size) > 1 + MARGIN for size in (LARGE, WIDEST)),
        "floor": _at_one_level,
        "gpu-faster": lambda run: run.gain(SOURCE) > 1 + MARGIN,
    },
    of=lambda p: p.gpu,
)
study.claims({"same-speedup": _same_speedup}, of=_beside_source)
study.claims(
    {"baseline-matters": lambda both: (shift > 1 + MARGIN for shift in _shifts(both))},
    of=lambda p: p.both,
)
study.claims(
    {
        "gap-grows-images": lambda run: _growth(run, SOURCE, SMALL),
        "gap-grows-neurons": lambda run: _growth(run, LARGE, SOURCE),
        "alike": _alike,
    },
    of=lambda p: p.gpu,
)
study.claims(
    {
        "parameter-bytes": lambda p: _printed_bytes(
            p, "parameters", theory.ELEMENT * theory.PARAMETERS
        ),
        "input-bytes": lambda p: _printed_bytes(p, "input", theory.image_bytes(SOURCE)),
    }
)


# ------------------------------------------------------------------------------------- figures


study.figure("fig-curve", of=_beside_source, height=2.3, wide=True)(figures.curve)


# -------------------------------------------------------------------------------------- tables


_MARKS: Final = (
    "A call (µs)", "Smallest iteration (ms)", "Product (TFLOP/s)", "Iteration (TFLOP/s)",
)  # fmt: skip


@study.table(
    "tbl-marks", lambda run: run.libraries, of=lambda p: p.gpu, digits=dict.fromkeys(_MARKS, 2)
)
def _marks(run: Run, library: str) -> dict[str, Content]:
    cells = (
        run.measured("call_time", SMALL, library),
        run.time(SMALL, library),
        run.product_rate(WIDEST, library),
        run.rate(library),
    )
    brief = (to_digits(cell, 2) for cell in cells)
    return {"Library": NAMES[library], **dict(zip(_MARKS, brief, strict=True))}


_SIZES: Final = ("Host (ms)", "CuPy (ms)", "Speed-up", "Other CPU (ms)")


@study.table(
    "tbl-sizes",
    rows=lambda p: p.gpu.sizes if p.gpu else (),
    digits={"Work (GFLOP)": 2, **dict.fromkeys(_SIZES, 2)},
    wide=True,
)
def _sizes(p: Paper, size: Size) -> dict[str, Content]:
    run = p.gpu
    assert run is not None
    other = p.cpu.time(size, "numpy") if p.cpu else absent("time", "s", "no other CPU ran")
    cells = (run.time(size, "numpy"), run.time(size, "cupy"), run.speedup(size, "cupy"), other)
    brief = (to_digits(cell, 2) for cell in cells)
    return {
        "Neurons": size.hidden,
        "Images": size.images,
        "Work (GFLOP)": to_digits(theory.work(size), 2),
        **dict(zip(_SIZES, brief, strict=True)),
        "Page faults": _faults(run, size),
    }


_OURS: Final = ("Ours: CPU (ms)", "Ours: GPU (ms)", "Ours: gain")


@study.table(
    "tbl-times",
    rows=lambda p: [*PERFORMANCE, *OPERATIONS],
    wide=True,
    digits=dict.fromkeys(_OURS, 2),
)
def _times_table(p: Paper, row: str) -> dict[str, Content]:
    names = PERFORMANCE | OPERATIONS
    cpu, gpu, gain = (
        p.source.number("3" if row in PERFORMANCE else "4", row, column)
        for column in ("cpu", "gpu", "speedup")
    )
    part = "Iteration" if row == "time" else names[row].removesuffix(" time")
    cells: dict[str, Content] = {"Part": part}
    cells |= {"Source: CPU (ms)": cpu, "Source: GPU (ms)": gpu, "Source: gain": gain}
    if p.gpu:
        ours = (
            p.gpu.measured(row, SOURCE, "numpy"),
            p.gpu.measured(row, SOURCE, "cupy"),
            p.gpu.speedup(SOURCE, "cupy", row),
        )
        cells |= zip(_OURS, (to_digits(cell, 2) for cell in ours), strict=True)
    return cells


#: Every table and figure of the source, what became of it, and what we find.
_ACCOUNT: Final = (
    ("Table 1, literature", "out of reach", "four of five citations are unresolved ([?])"),
    ("Table 2, data set", "audited", "59,000 images to train on; Kaggle's file leaves 41,000"),
    ("Table 3, times", "measured again", "with another result: the gain is larger"),
    ("Table 4, operations", "measured again", "which gains most is within our error"),
    ("Table 5, memory", "audited", "no component follows from shapes; the GPU's is not tested"),
    ("Figure 1, designs", "out of reach", "a drawing"),
    ("Figure 3, convergence", "checked in part", "losses agree, on a smaller data set"),
    ("Figure 2, Algorithm 1, equations", "reproduced", "except for one-hot encoding"),
    ("Hypothesis: the gap grows", "reproduced", "with images; in our session with neurons"),
    ("Objective: several sizes", "not in the source", "promised in Section 5, one size reported"),
)


@study.table("tbl-account", rows=lambda p: _ACCOUNT)
def _account(p: Paper, row: tuple[str, str, str]) -> dict[str, Content]:
    return dict(zip(("Item", "Result", "Finding"), row, strict=True))


@study.table(
    "tbl-audit",
    rows=lambda p: [c for c in p.source.audit() if c.verdict == "differs"],
    wide=True,
    digits={"Printed ÷ recomputed": 3},
)
def _audit_table(p: Paper, item: Check) -> dict[str, Content]:
    return audit_row(p, item) | ({} if item.known else {"Finding": "no formula found"})


#: What is left out of the set-up: nothing that we measure depends on it.
_LEFT_OUT: Final = ("Memory", "C library", "Vector extensions", "Arithmetic")


def _setup(p: Paper) -> Table:
    """The runs that sentences are about; of a GPU its model is name enough."""
    gpu = replace(p.gpu, label=_gpu_name(p.gpu)) if p.gpu else None
    table = setup([run for run in (p.cpu, gpu) if run])
    return replace(table, rows=tuple(row for row in table.rows if row[0] not in _LEFT_OUT))


study.add_table(_setup)
