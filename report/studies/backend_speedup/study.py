"""All that the paper of backend_speedup prints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Final

import msgspec

from figures.dots import Dots
from figures.scaling import Scaling
from report.errors import StudyError
from report.evidence.audit import Check, count_by_verdict
from report.evidence.runs import run_of
from report.instruments import gates
from report.missing import Missing
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.machine_comparison import Comparison
from report.paper.study import Content, Study, audit_row
from report.quantity.evaluation import number, point, to_digits
from report.quantity.expression import Quantity, absent, exact, named, recorded
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Several, Statement, all_of
from report.statistics.estimates import CONFIDENCE, Estimate
from report.studies.backend_speedup import figures, theory
from report.studies.backend_speedup.runs import Run, runs
from report.studies.backend_speedup.source import OPERATIONS, PERFORMANCE, Source
from report.studies.backend_speedup.subject import NAMES, PIXELS, SOURCE, Size, check_subject
from report.text.escape import markdown

#: Speed-ups and sizes that differ by less than this share are no finding.
MARGIN: Final = 0.1
#: Up to this growth over its smallest time a GPU is at its floor.
AT_FLOOR: Final = 1.25
#: Losses that differ by less than this share are those of one training.
ALIKE_LOSS: Final = 1e-3

#: The least work, much work, and the most of all.
SMALL, LARGE, WIDEST = Size(10, 1_000), Size(128, 60_000), Size(2_048, 16_000)
#: About the source's work with many neurons; the images of the widest with few; what both GPUs ran.
LESS_WIDE, NARROW, SHARED = Size(512, 1_438), Size(10, 16_000), Size(10, 1_438)
_PRODUCTS: Final = "matrix_product_time"
#: The operations that the claims compare.
_OPERATIONS: Final = tuple(figures.ROWS)[1:]

#: What many machines are compared by.
COMPARED: Final[Comparison[Run]] = Comparison(
    Run, "PyTorch over NumPy", lambda run: run.speedup(SOURCE, "torch"), 1.0
)


class Paper:
    """The runs in their roles, and the source."""

    def __init__(self, inputs: Inputs) -> None:
        """Raises ``StudyError`` for a record that does not fit the study."""
        for stored in inputs.records:
            check_subject(stored)
        self.inputs = inputs
        self.source = Source(inputs)
        self.runs = runs(inputs.records)
        self.cpu, second, self.gpu = (
            run_of(inputs.cast.get(role), self.runs) for role in ("cpu", "second", "gpu")
        )
        #: The CPU and the GPU, where both are there.
        self.both = (self.cpu, self.gpu) if self.cpu and self.gpu else None
        #: A GPU's run whose ReLU is composed of several kernels, and the one with a native ReLU.
        older = second if second and second.on_gpu else None
        self.programs = (older, self.gpu) if older and self.gpu else None


study: Study[Paper] = Study(Paper)
findings = study.findings


study.texts(
    {
        "gpu": lambda p: markdown(_gpu_name(p.gpu)),
        "host": lambda p: markdown(p.gpu.stored.record.environment.cpu.model) if p.gpu else "",
        "cpu": lambda p: markdown(p.cpu.short) if p.cpu else "",
        "gpu_versions": lambda p: _versions(p, p.gpu),
        "cpu_versions": lambda p: _versions(p, p.cpu),
    }
)


class _Library(msgspec.Struct):
    """What a file beside a record tells of a library."""

    name: str
    version: str


def _versions(p: Paper, run: Run | None) -> str:
    """The libraries of a run with their versions; raises ``StudyError`` for a file of others."""
    found = []
    for name, content in sorted((p.inputs.attachments.get(run.file, {}) if run else {}).items()):
        try:
            told = msgspec.json.decode(content, type=_Library)
        except msgspec.MsgspecError as error:
            where = f"data/{run.file if run else ''}: {name}"
            raise StudyError(f"{where}: {error}; run the experiment again.") from error
        found.append(f"{NAMES.get(told.name, told.name)} {told.version}")
    return markdown(", ".join(found))


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
        "less_wide_neurons": lambda p: exact("neurons", "1", LESS_WIDE.hidden),
        "source_speedup": lambda p: p.source.value("total_speedup"),
        "iterations": lambda p: p.source.value("iterations"),
        "audited": lambda p: exact("audited", "1", len(p.source.audit()), p.source.file),
        "differing": lambda p: exact(
            "that differ", "1", count_by_verdict(p.source.audit())["differs"], p.source.file
        ),
    }
)
study.values({"confidence": lambda p: exact("confidence, chosen", "1", CONFIDENCE)}, "percent")
#: The images in double precision.
_DOUBLES: Final = 2 * theory.array_bytes(PIXELS, SOURCE)
study.values(
    {
        "source_cpu": lambda p: p.source.number("3", "time", "cpu"),
        "source_gpu": lambda p: p.source.number("3", "time", "gpu"),
        "source_work": lambda p: to_digits(theory.work(SOURCE), 2),
        "printed_parameters": lambda p: p.source.number("5", "parameters", "cpu"),
        "source_relu": lambda p: p.source.number("4", "relu_time", "gpu"),
        "source_products": lambda p: p.source.number("4", "matrix_product_time", "gpu"),
        "roof_single": lambda p: theory.roofs(p.inputs, SOURCE, double=False)[_PRODUCTS],
        "roof_double": lambda p: theory.roofs(p.inputs, SOURCE, double=True)[_PRODUCTS],
        "doubles": lambda p: _DOUBLES,
        "copy_rate": lambda p: _DOUBLES / p.source.number("3", "time", "gpu"),
        "source_call": lambda p: p.source.number("3", "time", "gpu") / theory.ALL_CALLS,
    },
    "measured",
)


# ------------------------------------------------------------------------------------- the GPU


def _floor(run: Run) -> Quantity:
    return run.time(SMALL, "cupy")


def _at_floor(run: Run) -> list[Size]:
    """The sizes at which the GPU takes hardly longer than at the smallest."""
    times = {size: point(run.time(size, "cupy") / _floor(run)) for size in run.sizes}
    return [size for size, t in times.items() if not isinstance(t, Missing) and t <= AT_FLOOR]


def _flat(run: Run) -> Quantity:
    """The largest work at the floor."""
    found = _at_floor(run)
    return (
        to_digits(theory.work(found[-1]), 2) if found else absent("work", "FLOP", "no time of CuPy")
    )


def _images_at(run: Run, wanted: float) -> Quantity:
    """The images at which CuPy's speed-up at the source's width is ``wanted``.

    By a straight line between logarithms of neighbours; missing where no two lie on both sides.
    """
    name = f"images at a speed-up of {wanted:g}"
    known = [
        (size.images, value)
        for size in run.sizes
        if size.hidden == SOURCE.hidden
        and not isinstance(value := point(run.speedup(size, "cupy")), Missing)
    ]
    for (few, low), (many, high) in pairwise(known):
        if low < wanted <= high:
            part = math.log(wanted / low) / math.log(high / low)
            return exact(name, "1", float(f"{few * (many / few) ** part:.1e}"), run.file)
    return absent(name, "1", f"the speed-up does not cross it on {run.label}")


def _rate(run: Run, library: str) -> Quantity:
    """The rate of whole iterations at the widest size (FLOP/s)."""
    return theory.work(WIDEST) / run.time(WIDEST, library)


def _gain(run: Run, size: Size, kind: str) -> Quantity:
    return run.speedup(size, "cupy", f"{kind}_time")


study.values(
    {
        "threads": lambda run: exact("threads", "1", run.threads, run.file),
        "small": lambda run: run.bounded(run.speedup(SMALL, "cupy")),
        "at_source": lambda run: run.bounded(run.speedup(SOURCE, "cupy")),
        "large": lambda run: run.bounded(run.speedup(LARGE, "cupy")),
        "widest": lambda run: run.bounded(run.speedup(WIDEST, "cupy")),
        "less_wide": lambda run: run.bounded(run.speedup(LESS_WIDE, "cupy")),
        "floor": _floor,
        "call": lambda run: run.measured("call_time", SMALL, "cupy"),
        "floor_call": lambda run: _floor(run) / theory.ALL_CALLS,
        "torch_floor": lambda run: run.time(SMALL, "torch_cuda"),
        "torch_call": lambda run: run.measured("call_time", SMALL, "torch_cuda"),
        "torch_floor_call": lambda run: run.time(SMALL, "torch_cuda") / theory.ALL_CALLS,
        "full_from": lambda run: _rate(run, "cupy") * _floor(run),
        "gpu_rate": lambda run: _rate(run, "cupy"),
        "narrow_rate": lambda run: run.product_rate(SOURCE, "numpy"),
        "wide_rate": lambda run: run.product_rate(LESS_WIDE, "numpy"),
        "product_at_source": lambda run: _gain(run, SOURCE, "matrix_product"),
        "relu_at_source": lambda run: _gain(run, SOURCE, "relu"),
        "product_widest": lambda run: _gain(run, WIDEST, "matrix_product"),
        "relu_widest": lambda run: _gain(run, WIDEST, "relu"),
        "relu_host": lambda run: _relu_rate(run, "numpy"),
        "relu_gpu": lambda run: _relu_rate(run, "cupy"),
    },
    of=lambda p: p.gpu,
)
study.values(
    {
        "flat": _flat,
        "flat_growth": lambda run: _flat(run) / theory.work(SMALL),
        "crossing": lambda run: _images_at(run, 1.0),
        "spread": lambda run: _spread(run, 0),
        "pairs": lambda run: _spread(run, 1),
        "predicted": lambda run: exact("sizes", "1", len(_errors(run)), run.file),
        "host_least": lambda run: at_most(*_host_rates(run)),
        "host_most": lambda run: at_least(*_host_rates(run)),
    },
    "measured",
    of=lambda p: p.gpu,
)
study.values(
    {
        "model_error": lambda run: recorded(
            "largest error", "1", max(_errors(run), default=Missing("no model")), run.file
        ),
        "spread_rest": lambda run: 1 / (_spread(run, 1) + 1),
        "other_operations": lambda run: (
            1 - run.measured("matrix_product_time", WIDEST, "numpy") / run.time(WIDEST, "numpy")
        ),
    },
    "percent",
    of=lambda p: p.gpu,
)


def _spread(run: Run, place: int) -> Quantity:
    found = run.spread()
    value = Missing("no case has two processes") if found is None else found[place]
    return recorded("pairs of processes" if place else "largest ratio", "1", value, run.file)


def _relu_rate(run: Run, library: str) -> Quantity:
    """The bandwidth (B/s) of ReLU at the widest size, which reads and writes an array."""
    return (
        2 * theory.array_bytes(WIDEST.hidden, WIDEST) / run.measured("relu_time", WIDEST, library)
    )


def _host_rates(run: Run) -> list[Quantity]:
    """The rates of NumPy's iterations at all sizes (FLOP/s)."""
    return [
        theory.work(size) / time
        for size in run.sizes
        if not (time := run.time(size, "numpy")).missing
    ] or [absent("rate of NumPy", "FLOP/s", f"not measured on {run.label}")]


def _model(run: Run, size: Size) -> float:
    """CuPy's time (s) by its floor and its rate at the largest work; 0 where one is missing."""
    floor, rate = point(_floor(run)), point(_rate(run, "cupy"))
    if isinstance(floor, Missing) or isinstance(rate, Missing):
        return 0.0
    return max(floor, 2 * size.multiply_adds / rate)


def _errors(run: Run) -> list[float]:
    """By how much of it CuPy's time is off the model, at the sizes that do not set the model."""
    times = {size: point(run.time(size, "cupy")) for size in run.sizes if _model(run, size)}
    return [
        abs(time / _model(run, size) - 1)
        for size, time in times.items()
        if not isinstance(time, Missing) and size not in (SMALL, WIDEST)
    ]


# -------------------------------------------------------------------- the source on this curve

study.values(
    {
        "source_slower": lambda p: p.source.number("3", "time", "gpu") / p.gpu.time(SOURCE, "cupy"),
        "source_relu_slower": lambda p: (
            p.source.number("4", "relu_time", "gpu") / p.gpu.measured("relu_time", SOURCE, "cupy")
        ),
        "source_place": lambda p: _images_at(
            p.gpu, float(p.inputs.reported.value("total_speedup").number)
        ),
    },
    "measured",
    of=lambda p: p if p.gpu else None,
)


@study.value("measured")
def compiled(p: Paper) -> Quantity:
    """The first call of a process that has to compile its kernels, spread over a training (s)."""
    found: object = None
    if p.programs:
        older = p.programs[0]
        factors = older.factors(None, "cupy", subject="training")
        found = older.by_process("first_call_time", factors)
    if not isinstance(found, tuple):
        return absent("first call", "s", "no run compiled its kernels")
    first = max(process.median for process in found)
    return exact("longest first call", "s", first, older.file) / p.source.value("iterations")


# ----------------------------------------------------------------------------- base and program


def _torch_gains(run: Run) -> list[Quantity]:
    """PyTorch's speed-ups over NumPy in medians, at all sizes that enough processes timed."""
    found: list[Quantity] = []
    for size in run.sizes:
        gain = number(run.speedup(size, "torch"))
        if isinstance(gain, Estimate) and gain.confidence >= CONFIDENCE:
            found.append(exact(f"PyTorch over NumPy, {size}", "1", gain.value, run.file))
    return found or [absent("PyTorch over NumPy", "1", f"not measured on {run.label}")]


def _relu_share(run: Run) -> Quantity:
    """The share of an iteration that CuPy's ReLU takes, at a size that both programs have."""
    relu = run.measured("relu_time", SHARED, "cupy")
    return named("share of ReLU", relu / run.time(SHARED, "cupy"))


study.values(
    {
        "composed_share": lambda both: _relu_share(both[0]),
        "native_share": lambda both: _relu_share(both[1]),
    },
    "percent",
    of=lambda p: p.programs,
)
study.values(
    {
        "double": lambda run: run.time(SOURCE, "numpy", "float64") / run.time(SOURCE, "numpy"),
        "torch_least": lambda run: at_most(*_torch_gains(run)),
        "torch_most": lambda run: at_least(*_torch_gains(run)),
        "cpu_time": lambda run: run.time(SOURCE, "numpy"),
        "measurements": lambda run: _watched(run, 1),
        "disturbed": lambda run: _watched(run, 0),
    },
    of=lambda p: p.cpu,
)
study.values(
    {
        "over_cpu": lambda both: _over(both, SOURCE, "numpy"),
        "large_over_cpu": lambda both: _over(both, LARGE, "numpy"),
    },
    of=lambda p: p.both,
)


def _over(both: tuple[Run, Run], size: Size, library: str) -> Quantity:
    """CuPy's speed-up over a library on the CPU, which is another machine."""
    cpu, gpu = both
    return gpu.bounded(cpu.time(size, library) / gpu.time(size, "cupy"))


def _watched(run: Run, place: int) -> Quantity:
    """How many measurements of a case were disturbed (0), or watched (1)."""
    found = gates.disturbed(stored.record for stored in run.stored.runs)
    if found is None:
        return absent("measurements", "1", f"not monitored on {run.label}")
    return exact("measurements", "1", found[place], run.file)


# -------------------------------------------------------------------------------------- claims


@study.claim("small-slower", of=lambda p: p.gpu)
def _small_slower(run: Run) -> Statement:
    return run.bounded(run.speedup(SMALL, "cupy")) < 1 - MARGIN


@study.claim("large-faster", of=lambda p: p.gpu)
def _large_faster(run: Run) -> Several:
    return all_of(*(run.bounded(run.speedup(s, "cupy")) > 1 + MARGIN for s in (LARGE, WIDEST)))


@study.claim("floor", of=lambda p: p.gpu)
def _is_floor(run: Run) -> Statement:
    # Up to there the work grows by two orders of magnitude.
    found = _at_floor(run)
    last = found[-1] if found else SMALL
    return run.bounded(run.time(last, "cupy") / _floor(run)) < 2


@study.claim("gpu-faster", of=lambda p: p.gpu)
def _gpu_faster(run: Run) -> Statement:
    return run.bounded(run.speedup(SOURCE, "cupy")) > 1 + MARGIN


@study.claim("same-speedup", of=lambda p: (p.gpu, p.source) if p.gpu else None)
def _same_speedup(both: tuple[Run, Source]) -> Statement:
    run, source = both
    ratio = run.speedup(SOURCE, "cupy") / source.value("total_speedup")
    return run.bounded(ratio).near(1, within=MARGIN)


@study.claim("gap-grows", of=lambda p: p.gpu)
def _gap_grows(run: Run) -> Several:
    sizes = (SMALL, SOURCE, LARGE)
    steps = [run.speedup(b, "cupy") / run.speedup(a, "cupy") for a, b in pairwise(sizes)]
    return all_of(*(run.bounded(step) > 1 + MARGIN for step in steps))


@study.claim("products-most", of=lambda p: p.gpu)
def _products_most(run: Run) -> Statement:
    lead = _gain(run, WIDEST, "matrix_product") / _gain(run, WIDEST, "relu")
    return run.bounded(lead, _OPERATIONS) > 1


@study.claim("composed-slower", of=lambda p: p.programs)
def _composed_slower(both: tuple[Run, Run]) -> Statement:
    shares = _relu_share(both[0]) / _relu_share(both[1])
    return both[1].bounded(shares, _OPERATIONS) > 1 + MARGIN


@study.claim("alike", of=lambda p: p.gpu)
def _alike(run: Run) -> Statement:
    theirs, ours = (run.of_training("train_loss", name) for name in ("cupy", "numpy"))
    name = "largest difference of losses"
    if not theirs or len(theirs) != len(ours):
        return absent(name, "1", f"not recorded on {run.label}") < ALIKE_LOSS
    apart = max(abs(a - b) / b for a, b in zip(theirs, ours, strict=True))
    return exact(name, "1", apart, run.file) < ALIKE_LOSS


def _held(run: Run, library: str) -> Quantity:
    """What a library holds after its first operation, beyond an empty process (B)."""
    name, ends = f"memory held by {NAMES[library]}", ("resident_first_use", "resident_start")
    after, before = (run.of_training(quantity, library) for quantity in ends)
    if not after or not before:
        return absent(name, "B", f"not recorded on {run.label}")
    return exact(name, "B", int(median(after) - median(before)), run.file)


@study.claim("more-held", of=lambda p: p.gpu)
def _more_held(run: Run) -> Statement:
    return _held(run, "cupy") / _held(run, "numpy") > 1 + MARGIN


@study.claim("parameter-bytes")
def _parameter_bytes(p: Paper) -> Statement:
    shapes = theory.ELEMENT * theory.PARAMETERS
    return (p.source.number("5", "parameters", "cpu") / shapes).near(1, within=MARGIN)


@study.claim("input-bytes")
def _input_bytes(p: Paper) -> Statement:
    shapes = theory.array_bytes(PIXELS, SOURCE)
    return (p.source.number("5", "input", "cpu") / shapes).near(1, within=MARGIN)


@study.claim("same-iteration")
def _same_iteration(p: Paper) -> Statement:
    gradient = p.source.number("4", "gradient_time", "gpu")
    return gradient / p.source.number("3", "backward_time", "gpu") < 1


# ------------------------------------------------------------------------------------- figures


@study.figure("fig-curve", height=2.4, wide=True)
def _fig_curve(p: Paper) -> Iterator[Scaling]:
    run = p.gpu
    return figures.curve(run, p.source, partial(_model, run)) if run else iter(())


@study.figure("fig-bases")
def _fig_bases(p: Paper) -> Iterator[Dots]:
    both = p.both
    if both is None:
        return
    cpu, gpu = both
    sizes = [size for size in gpu.sizes if size in cpu.sizes]
    here, there = (
        f"{each.cpu.model}{each.threads_text}"
        for each in (run.stored.record.environment for run in (gpu, cpu))
    )
    bases: Mapping[str, Mapping[Size, Quantity]] = {
        f"NumPy, {here}": {s: gpu.bounded(gpu.speedup(s, "cupy")) for s in sizes},
        **{
            f"{NAMES[name]}, {there}": {s: _over(both, s, name) for s in sizes}
            for name in ("numpy", "torch")
        },
    }
    yield from figures.bases(bases)


@study.figure("fig-operations")
def _fig_operations(p: Paper) -> Iterator[Dots]:
    sizes = {f"{s.hidden:,} neurons, {s.images:,} images": s for s in (NARROW, WIDEST)}
    return figures.operations(p.gpu, p.source, sizes) if p.gpu else iter(())


# -------------------------------------------------------------------------------------- tables


_MARKS: Final = (
    "A call (µs)", "Least iteration (ms)", "Product (TFLOP/s)", "Iteration (TFLOP/s)",
)  # fmt: skip


@study.table(
    "tbl-marks", rows=lambda p: p.gpu.libraries if p.gpu else (), digits=dict.fromkeys(_MARKS, 2)
)
def _marks(p: Paper, library: str) -> dict[str, Content]:
    run = p.gpu
    assert run is not None
    cells = (
        run.measured("call_time", SMALL, library),
        run.time(SMALL, library),
        run.product_rate(WIDEST, library),
        _rate(run, library),
    )
    brief = (to_digits(cell, 2) for cell in cells)
    return {"Library": NAMES[library], **dict(zip(_MARKS, brief, strict=True))}


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
        p.source.cell("3" if row in PERFORMANCE else "4", row, column).text
        for column in ("cpu", "gpu", "speedup")
    )
    cells: dict[str, Content] = {"Part": "Iteration" if row == "time" else names[row]}
    cells |= {"Source: CPU (ms)": cpu, "Source: GPU (ms)": gpu, "Source: gain": gain}
    if p.gpu:
        ours = (
            p.gpu.measured(row, SOURCE, "numpy"),
            p.gpu.measured(row, SOURCE, "cupy"),
            p.gpu.speedup(SOURCE, "cupy", row),
        )
        cells |= zip(_OURS, (to_digits(cell, 2) for cell in ours), strict=True)
    return cells


_ROOFS: Final = ("T4, float32 (ms)", "T4, float64 (ms)", "Ours (ms)")


@study.table(
    "tbl-roofs",
    rows=lambda p: list(theory.roofs(p.inputs, SOURCE, double=False)) if p.gpu else (),
    digits=dict.fromkeys(_ROOFS, 2),
)
def _roofs(p: Paper, row: str) -> dict[str, Content]:
    assert p.gpu is not None
    single, double = (theory.roofs(p.inputs, SOURCE, double=wide)[row] for wide in (False, True))
    ours = p.gpu.measured(row, SOURCE, "cupy")
    cells = dict(zip(_ROOFS, (to_digits(each, 2) for each in (single, double, ours)), strict=True))
    return {"Part": OPERATIONS[row], "Source (ms)": p.source.cell("4", row, "gpu").text, **cells}


#: Every table and figure of the source, what became of it, and what we find.
_ACCOUNT: Final = (
    ("Table 1, literature", "out of reach", "four of five citations have no entry"),
    ("Table 2, data set", "audited", "the number of images differs from that of Kaggle's file"),
    ("Table 3, times", "measured again", "with another result: the gain is larger"),
    ("Table 4, operations", "measured again", "which gains most depends on the work"),
    ("Table 5, memory", "audited", "no component follows from shapes"),
    ("Figure 1, designs", "out of reach", "a drawing"),
    ("Figure 3, convergence", "reproduced", "both libraries learn alike"),
    ("Figure 2, Algorithm 1, equations", "reproduced", "the program that we print"),
    ("Hypothesis: the gap grows", "reproduced", "it does, until the GPU saturates"),
)


@study.table("tbl-account", rows=lambda p: _ACCOUNT)
def _account(p: Paper, row: tuple[str, str, str]) -> dict[str, Content]:
    return dict(zip(("Item", "Result", "Finding"), row, strict=True))


study.table(
    "tbl-audit", rows=lambda p: [c for c in p.source.audit() if c.verdict == "differs"], wide=True
)(audit_row)
study.add_table(lambda p: setup(_described(p)))


def _described(p: Paper) -> list[Run]:
    """The runs that sentences are about; of a GPU its model is name enough."""
    gpu = replace(p.gpu, label=_gpu_name(p.gpu)) if p.gpu else None
    return [run for run in (p.cpu, gpu) if run]


@study.audits
def _audits(p: Paper) -> tuple[Check, ...]:
    return p.source.audit()
