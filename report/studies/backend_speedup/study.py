"""All that the paper of backend_speedup prints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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
from report.quantity.evaluation import point, to_digits
from report.quantity.expression import Quantity, absent, exact, recorded
from report.quantity.verdicts import Several, Statement, all_of
from report.statistics.estimates import CONFIDENCE
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
#: About the source's work with many neurons; much work with fewer images; few neurons with those.
LESS_WIDE, FEWER = Size(512, 1_438), Size(128, 16_000)
SHARED, NARROW = Size(10, 1_438), Size(10, 16_000)
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
        self.cpu, self.gpu = (run_of(inputs.cast.get(role), self.runs) for role in ("cpu", "gpu"))
        #: The CPU and the GPU, where both are there.
        self.both = (self.cpu, self.gpu) if self.cpu and self.gpu else None


study: Study[Paper] = Study(Paper)
findings = study.findings


study.texts(
    {
        "gpu": lambda p: markdown(_gpu_name(p.gpu)),
        "host": lambda p: markdown(p.gpu.stored.record.environment.cpu.model) if p.gpu else "",
        "cpu": lambda p: markdown(p.cpu.short) if p.cpu else "",
        "host_name": lambda p: _family(p.gpu),
        "cpu_name": lambda p: _family(p.cpu),
        "sizes": lambda p: _sizes(p.gpu) if p.gpu else "",
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
    """The libraries of a run with their versions; raises ``StudyError`` for a file of others."""
    found = []
    for name, content in sorted((p.inputs.attachments.get(run.file, {}) if run else {}).items()):
        try:
            told = msgspec.json.decode(content, type=_Library)
        except msgspec.MsgspecError as error:
            where = f"data/{run.file if run else ''}: {name}"
            raise StudyError(f"{where}: {error}; run the experiment again.") from error
        blas = f" ({told.matrix_products})" if told.matrix_products else ""
        found.append(f"{NAMES.get(told.name, told.name)} {told.version}{blas}")
    return markdown(", ".join(found))


def _family(run: Run | None) -> str:
    """A CPU without its vendor."""
    return markdown(run.stored.record.environment.cpu.model.rpartition(" ")[2]) if run else ""


def _sizes(run: Run) -> str:
    """The numbers of images of each width."""
    images: dict[int, list[str]] = {}
    for size in sorted(run.sizes):
        images.setdefault(size.hidden, []).append(f"{size.images:,}")
    return "; ".join(f"{h:,} neurons with {', '.join(few)} images" for h, few in images.items())


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
        "fewer_images": lambda p: exact("images", "1", FEWER.images),
        "shared_images": lambda p: exact("images", "1", LESS_WIDE.images),
        "learned": lambda p: p.source.value("training"),
        "weights": lambda p: theory.D * theory.H + theory.H * theory.K,
        "double_slower": lambda p: 1 / theory.DOUBLE_RATE,
        "source_speedup": lambda p: p.source.value("total_speedup"),
        "audited": lambda p: exact("audited", "1", len(p.source.audit()), p.source.file),
        "differing": lambda p: exact(
            "that differ", "1", count_by_verdict(p.source.audit())["differs"], p.source.file
        ),
    }
)
study.values({"confidence": lambda p: exact("confidence, chosen", "1", CONFIDENCE)}, "percent")


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
        "byte_input": lambda p: theory.array_bytes(PIXELS, SOURCE) / 4,
        "t4_rate": lambda p: theory.peak(p.inputs, "float32"),
        "t4_memory": lambda p: theory.peak(p.inputs, "memory"),
        "copy_rate": lambda p: theory.COPY_RATE,
        "copy_single": lambda p: theory.copy_time(p.source.value("training")),
        "copy_double": lambda p: 2 * theory.copy_time(p.source.value("training")),
        "source_call": lambda p: p.source.number("3", "time", "gpu") / theory.ALL_CALLS,
    },
    "measured",
)


# ------------------------------------------------------------------------------------- the GPU


def _floor(run: Run) -> Quantity:
    return run.time(SMALL, "cupy")


def _at_floor(run: Run) -> list[Size]:
    """The sizes at which the GPU takes hardly longer than at the smallest.

    Without the source's: there the products alone would take most of the time.
    """
    sizes = [size for size in run.sizes if size != SOURCE]
    times = {size: point(run.time(size, "cupy") / _floor(run)) for size in sizes}
    return [size for size, t in times.items() if not isinstance(t, Missing) and t <= AT_FLOOR]


def _flat(run: Run) -> Quantity:
    """The largest work at the floor."""
    found = _at_floor(run)
    return (
        to_digits(theory.work(found[-1]), 2) if found else absent("work", "FLOP", "no time of CuPy")
    )


def _torch_counts(run: Run) -> tuple[int, int]:
    """The sizes on CuPy's floor that PyTorch was timed at on the same GPU, and where it wins."""
    found = [point(run.time(s, "cupy") / run.time(s, "torch_cuda")) for s in _at_floor(run)]
    ratios = [ratio for ratio in found if not isinstance(ratio, Missing)]
    return len(ratios), sum(ratio > 1 for ratio in ratios)


def _torch_chance(run: Run) -> Quantity:
    """The chance that one of two equal libraries is faster at least so often (sign test)."""
    n, wins = _torch_counts(run)
    if not n:
        return absent("chance of a sign test", "1", f"no time of both libraries on {run.label}")
    chance = sum(math.comb(n, k) for k in range(wins, n + 1)) / 2**n
    return exact("chance of a sign test", "1", chance, run.file)


def _products_at_source(run: Run) -> Quantity:
    return run.measured(_PRODUCTS, SOURCE, "cupy")


def _step(run: Run) -> Quantity:
    """By how much NumPy's time grows with the images at much work."""
    return run.time(LARGE, "numpy") / run.time(FEWER, "numpy")


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
        "few_more": lambda run: run.bounded(run.speedup(SHARED, "cupy")),
        "between": lambda run: run.bounded(run.speedup(NARROW, "cupy")),
        "less_wide": lambda run: run.bounded(run.speedup(LESS_WIDE, "cupy")),
        "floor": _floor,
        "floor_call": lambda run: _floor(run) / theory.ALL_CALLS,
        "torch_floor": lambda run: run.time(SMALL, "torch_cuda"),
        "torch_floor_call": lambda run: run.time(SMALL, "torch_cuda") / theory.ALL_CALLS,
        "narrow_gpu_rate": lambda run: theory.work(SOURCE) / _products_at_source(run),
        "step_time": _step,
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
        "step_work": lambda run: theory.work(LARGE) / theory.work(FEWER),
        "floor_sizes": lambda run: exact("sizes", "1", _torch_counts(run)[0], run.file),
        "torch_wins": lambda run: exact("sizes", "1", _torch_counts(run)[1], run.file),
        "spread": lambda run: _spread(run, 0),
        "spread_parts": lambda run: _spread(run, 0, _OPERATIONS),
        "pairs": lambda run: _spread(run, 1),
        "predicted": lambda run: exact("sizes", "1", len(_floor_errors(run)), run.file),
    },
    "measured",
    of=lambda p: p.gpu,
)
study.values(
    {
        "floor_error": lambda run: recorded(
            "largest error", "1", max(_floor_errors(run), default=Missing("no model")), run.file
        ),
        "rate_error": lambda run: recorded("error", "1", _error(run, LARGE), run.file),
        "product_share": lambda run: _products_at_source(run) / run.time(SOURCE, "cupy"),
        "torch_chance": _torch_chance,
        "spread_rest": lambda run: 1 / (_spread(run, 1) + 1),
        "other_operations": lambda run: (
            1 - run.measured("matrix_product_time", WIDEST, "numpy") / run.time(WIDEST, "numpy")
        ),
    },
    "percent",
    of=lambda p: p.gpu,
)


def _spread(run: Run, place: int, of: Sequence[str] = ("time",)) -> Quantity:
    found = run.spread(of)
    value = Missing("no case has two processes") if found is None else found[place]
    return recorded("pairs of processes" if place else "largest ratio", "1", value, run.file)


def _relu_rate(run: Run, library: str) -> Quantity:
    """The bandwidth (B/s) of ReLU at the widest size, which reads and writes an array."""
    return (
        2 * theory.array_bytes(WIDEST.hidden, WIDEST) / run.measured("relu_time", WIDEST, library)
    )


def _model(run: Run, size: Size) -> float:
    """CuPy's time (s) by its floor and its rate at the largest work; 0 where one is missing."""
    floor, rate = point(_floor(run)), point(_rate(run, "cupy"))
    if isinstance(floor, Missing) or isinstance(rate, Missing):
        return 0.0
    return max(floor, 2 * size.multiply_adds / rate)


def _error(run: Run, size: Size) -> float | Missing:
    """By how much of it CuPy's time exceeds the model."""
    time, model = point(run.time(size, "cupy")), _model(run, size)
    if isinstance(time, Missing) or not model:
        return Missing("no model")
    return time / model - 1


def _floor_errors(run: Run) -> list[float]:
    """By how much CuPy's time is off the model at the sizes on the floor but the smallest."""
    errors = [_error(run, size) for size in _at_floor(run) if size != SMALL]
    return [abs(error) for error in errors if not isinstance(error, Missing)]


# -------------------------------------------------------------------- the source on this curve

study.values(
    {
        "source_slower": lambda p: p.source.number("3", "time", "gpu") / p.gpu.time(SOURCE, "cupy"),
        "source_cpu_slower": lambda p: (
            p.source.number("3", "time", "cpu") / p.gpu.time(SOURCE, "numpy")
        ),
        "source_relu_slower": lambda p: (
            p.source.number("4", "relu_time", "gpu") / p.gpu.measured("relu_time", SOURCE, "cupy")
        ),
    },
    "measured",
    of=lambda p: p if p.gpu else None,
)


# ----------------------------------------------------------------------------- baseline


study.values(
    {
        "double": lambda run: run.time(SOURCE, "numpy", "float64") / run.time(SOURCE, "numpy"),
        "cpu_step": _step,
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


@study.figure("fig-curve", height=2.2, wide=True)
def _fig_curve(p: Paper) -> Iterator[Scaling]:
    run = p.gpu
    return figures.curve(run, p.source, partial(_model, run)) if run else iter(())


@study.figure("fig-bases", height=1.9)
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


@study.figure("fig-operations", height=1.8)
def _fig_operations(p: Paper) -> Iterator[Dots]:
    sizes = {f"{s.hidden:,} neurons, {s.images:,} images": s for s in (SOURCE, WIDEST)}
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
    ("Table 4, operations", "measured again", "at the largest work ReLU gains more than products"),
    ("Table 5, memory", "audited", "no component follows from shapes"),
    ("Figure 1, designs", "out of reach", "a drawing"),
    ("Figure 3, convergence", "reproduced", "both libraries learn alike"),
    ("Figure 2, Algorithm 1, equations", "reproduced", "the program that we print"),
    ("Hypothesis: the gap grows", "reproduced", "it grows with images and with neurons"),
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
