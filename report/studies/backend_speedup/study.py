"""All that the paper of backend_speedup prints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Final

from figures.dots import Dots
from figures.scaling import Scaling
from report.evidence.audit import count_by_verdict
from report.evidence.runs import run_of
from report.missing import Missing
from report.paper.audit_table import audit_table
from report.paper.declared import Content
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.machine_comparison import Comparison, Measure
from report.paper.study import Study
from report.quantity.evaluation import number, point, to_digits
from report.quantity.expression import Quantity, absent, exact, recorded
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Several, Statement, all_of
from report.statistics.estimates import CONFIDENCE, Estimate
from report.studies.backend_speedup import figures, theory
from report.studies.backend_speedup.runs import Run, middle, runs
from report.studies.backend_speedup.source import OPERATIONS, PERFORMANCE, Source
from report.studies.backend_speedup.subject import CALLS, NAMES, SOURCE, Size, check_subject
from report.text.escape import markdown

#: Speed-ups and sizes that differ by less than this share are no finding.
MARGIN: Final = 0.1
#: Up to this growth over its smallest time a GPU is at its floor.
AT_FLOOR: Final = 1.25
#: Losses that differ by less than this share are those of one training.
ALIKE_LOSS: Final = 1e-3

#: The least work, the most that all libraries did, the most of all, and about the source's work
#: with many neurons.
SMALL, LARGE, WIDEST = Size(10, 1_000), Size(128, 60_000), Size(2_048, 16_000)
WIDE, LESS_WIDE = Size(2_048, 1_000), Size(512, 1_438)
#: The operations that the claims compare.
_OPERATIONS: Final = ("matrix_product_time", "relu_time")
#: The size that both records of a GPU have.
SHARED: Final = Size(10, 1_438)

#: What many machines are compared by.
COMPARED: Final[Comparison[Run]] = Comparison(
    Run,
    (Measure("PyTorch over NumPy", "1", lambda run: run.speedup(SOURCE, "torch"), reference=1.0),),
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
        #: A run of a GPU whose ReLU is composed of several operations.
        self.composed = second if second and second.on_gpu else None

    @property
    def both(self) -> tuple[Run, Run] | None:
        """The CPU and the GPU, where both are there."""
        return (self.cpu, self.gpu) if self.cpu and self.gpu else None

    @property
    def programs(self) -> tuple[Run, Run] | None:
        """The GPU with the composed ReLU and with the native one."""
        return (self.composed, self.gpu) if self.composed and self.gpu else None

    def over(self, size: Size, base: Run, library: str) -> Quantity:
        """CuPy's speed-up over a library of another machine."""
        slow = base.time(size, library)
        fast = self.gpu.time(size, "cupy") if self.gpu else absent("time", "s", "no GPU")
        return self.gpu.bounded(slow / fast) if self.gpu else slow / fast


study: Study[Paper] = Study(Paper)
findings = study.findings


study.texts(
    {
        "source_device": lambda p: markdown(p.inputs.reported.device),
        "gpu": lambda p: markdown(_gpu_name(p.gpu)),
        "host": lambda p: markdown(p.gpu.stored.record.environment.cpu.model) if p.gpu else "",
        "cpu": lambda p: markdown(p.cpu.short) if p.cpu else "",
    }
)


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
        "few_images": lambda p: exact("images, fewest", "1", SMALL.images),
        "many_images": lambda p: exact("images, most", "1", SOURCE.images),
        "most_neurons": lambda p: exact("neurons, most", "1", WIDEST.hidden),
        "large_neurons": lambda p: exact("neurons", "1", LARGE.hidden),
        "less_wide_neurons": lambda p: exact("neurons", "1", LESS_WIDE.hidden),
        "source_speedup": lambda p: p.source.value("total_speedup"),
        "iterations": lambda p: p.source.value("iterations"),
        "learning_rate": lambda p: p.source.value("learning_rate"),
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
        "amdahl": lambda p: p.source.amdahl(),
        "source_call": lambda p: p.source.number("3", "time", "gpu") / theory.ALL_CALLS,
    },
    "measured",
)


# ------------------------------------------------------------------------------------- the GPU


def _floor(run: Run) -> Quantity:
    return run.time(SMALL, "cupy")


def _at_floor(run: Run) -> list[Size]:
    """The sizes up to the first one at which the GPU takes clearly longer than at the smallest."""
    least, found = point(_floor(run)), []
    for size in run.sizes:
        time = point(run.time(size, "cupy"))
        if isinstance(least, Missing) or isinstance(time, Missing) or time > AT_FLOOR * least:
            break
        found.append(size)
    return found


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


def _crossing_work(run: Run) -> Quantity:
    images = _images_at(run, 1.0)
    found = point(images)
    if isinstance(found, Missing):
        return absent("work", "FLOP", found.reason)
    return to_digits(theory.work(Size(SOURCE.hidden, round(found))), 2)


def _rate(run: Run, library: str) -> Quantity:
    """The rate of whole iterations at the widest size (FLOP/s)."""
    return theory.work(WIDEST) / run.time(WIDEST, library)


def _gain(run: Run, size: Size, kind: str) -> Quantity:
    return run.speedup(size, "cupy", f"{kind}_time")


def _waiting_calls(run: Run, library: str) -> Quantity:
    """As many calls as an iteration has, each to its end, over an iteration."""
    call = run.measured("call_time", SMALL, library)
    return theory.ALL_CALLS * call / run.time(SMALL, library)


def _apart(run: Run) -> Quantity:
    """The operations of an iteration of the source's size, each finished before the next."""
    return reduce(add, (run.measured(f"{kind}_time", SOURCE, "cupy") for kind in CALLS))


def _threads(run: Run) -> Quantity:
    return exact("threads", "1", run.threads, run.file)


study.values(
    {
        "threads": _threads,
        "small": lambda run: run.bounded(run.speedup(SMALL, "cupy")),
        "at_source": lambda run: run.bounded(run.speedup(SOURCE, "cupy")),
        "large": lambda run: run.bounded(run.speedup(LARGE, "cupy")),
        "widest": lambda run: run.bounded(run.speedup(WIDEST, "cupy")),
        "less_wide": lambda run: run.bounded(run.speedup(LESS_WIDE, "cupy")),
        "floor": _floor,
        "call": lambda run: run.measured("call_time", SMALL, "cupy"),
        "waiting_calls": lambda run: _waiting_calls(run, "cupy"),
        "torch_waiting_calls": lambda run: _waiting_calls(run, "torch_cuda"),
        "full_from": lambda run: _rate(run, "cupy") * _floor(run),
        "host_rate": lambda run: _rate(run, "numpy"),
        "gpu_rate": lambda run: _rate(run, "cupy"),
        "torch_floor": lambda run: run.time(SMALL, "torch_cuda"),
        "apart": _apart,
        "own_gpu": lambda run: run.time(SOURCE, "cupy"),
        "own_host": lambda run: run.time(SOURCE, "numpy"),
        "product_at_source": lambda run: _gain(run, SOURCE, "matrix_product"),
        "relu_at_source": lambda run: _gain(run, SOURCE, "relu"),
        "product_widest": lambda run: _gain(run, WIDEST, "matrix_product"),
        "relu_widest": lambda run: _gain(run, WIDEST, "relu"),
    },
    of=lambda p: p.gpu,
)
study.values(
    {
        "flat": _flat,
        "flat_growth": lambda run: _flat(run) / theory.work(SMALL),
        "crossing": lambda run: _images_at(run, 1.0),
        "crossing_work": _crossing_work,
        "spread": lambda run: _spread(run, "factor"),
        "pairs": lambda run: _spread(run, "pairs"),
    },
    "measured",
    of=lambda p: p.gpu,
)
study.values(
    {
        "spread_level": lambda run: _spread(run, "pairs") / (_spread(run, "pairs") + 1),
        "other_operations": lambda run: (
            1 - run.measured("matrix_product_time", WIDEST, "numpy") / run.time(WIDEST, "numpy")
        ),
    },
    "percent",
    of=lambda p: p.gpu,
)


def _spread(run: Run, field: str) -> Quantity:
    found = run.spread()
    value = Missing("no case has two processes") if found is None else getattr(found, field)
    return recorded(f"{field} of processes", "1", value, run.file)


# -------------------------------------------------------------------- the source on this curve

study.values(
    {
        "source_slower": lambda p: p.source.number("3", "time", "gpu") / p.gpu.time(SOURCE, "cupy"),
        "source_below": lambda p: p.gpu.speedup(SOURCE, "cupy") / p.source.value("total_speedup"),
        "source_place": lambda p: _images_at(
            p.gpu, float(p.inputs.reported.value("total_speedup").number)
        ),
    },
    "measured",
    of=lambda p: p if p.gpu else None,
)


def _copy_rate(run: Run) -> Quantity:
    """The rate (B/s) of a copy of images and targets to the device."""
    copies = run.series("to_device_time", run.factors(None, "cupy", subject="training"))
    return theory.placed_bytes(SHARED) / copies


def _first_call(p: Paper) -> Quantity:
    """The first call of a process that has to compile its kernels, spread over a training (s)."""
    if p.composed is None:
        return absent("first call", "s", "no run compiled its kernels")
    factors = p.composed.factors(None, "cupy", subject="training")
    found = p.composed.by_process("first_call_time", factors)
    if isinstance(found, Missing):
        return absent("first call", "s", found.reason)
    longest = max(process.median for process in found)
    first = exact("longest first call", "s", longest, p.composed.file)
    return first / p.source.value("iterations")


def _explanations(p: Paper) -> list[tuple[str, Quantity]]:
    """What could take the source's GPU its time (s) in each iteration."""
    arithmetic, memory = theory.peak(p.inputs, "float32"), theory.peak(p.inputs, "memory")
    found = [
        ("Products in float32 at the peak of a T4", theory.work(SOURCE) / arithmetic),
        ("Images read twice at the bandwidth of a T4", 2 * theory.image_bytes(SOURCE) / memory),
    ]
    if p.gpu:
        copied = theory.placed_bytes(SOURCE) / _copy_rate(p.gpu)
        found += [
            ("All calls, as on our GPU", _floor(p.gpu)),
            ("Kernels compiled once, over all iterations", _first_call(p)),
            ("Images copied each time, float32", copied),
            ("Images copied each time, float64", 2 * copied),
        ]
    return found


# ----------------------------------------------------------------------------- base and program


def _torch_gains(run: Run) -> list[Quantity]:
    """PyTorch's speed-ups over NumPy in medians, at all sizes that enough processes timed."""
    found: list[Quantity] = []
    for size in run.sizes:
        gain = number(run.speedup(size, "torch"))
        if isinstance(gain, Estimate) and gain.confidence >= CONFIDENCE:
            found.append(exact(f"PyTorch over NumPy, {size}", "1", gain.value, run.file))
    return found or [absent("PyTorch over NumPy", "1", f"not measured on {run.label}")]


def _composed(both: tuple[Run, Run], quantity: str) -> Quantity:
    return both[0].measured(quantity, SHARED, "cupy")


study.values(
    {
        "composed_time": lambda both: _composed(both, "time"),
        "composed_relu": lambda both: _composed(both, "relu_time"),
        "composed": lambda both: both[0].speedup(SHARED, "cupy"),
        "native_time": lambda both: both[1].time(SHARED, "cupy"),
        "native_relu": lambda both: both[1].measured("relu_time", SHARED, "cupy"),
        "native": lambda both: both[1].speedup(SHARED, "cupy"),
        "shared_images": lambda both: exact("images", "1", SHARED.images, both[1].file),
    },
    of=lambda p: p.programs,
)
study.values(
    {
        "double": lambda run: run.time(SOURCE, "numpy", "float64") / run.time(SOURCE, "numpy"),
        "narrow_rate": lambda run: run.product_rate(SOURCE, "numpy"),
        "wide_rate": lambda run: run.product_rate(WIDE, "numpy"),
        "torch_least": lambda run: at_most(*_torch_gains(run)),
        "torch_most": lambda run: at_least(*_torch_gains(run)),
    },
    of=lambda p: p.cpu,
)
study.values(
    {
        "over_cpu": lambda p: p.over(SOURCE, p.cpu, "numpy"),
        "over_torch": lambda p: p.over(SOURCE, p.cpu, "torch"),
        "large_over_cpu": lambda p: p.over(LARGE, p.cpu, "numpy"),
        "large_over_torch": lambda p: p.over(LARGE, p.cpu, "torch"),
    },
    of=lambda p: p if p.both else None,
)


# -------------------------------------------------------------------------------------- memory


def _held(run: Run, library: str) -> Quantity:
    """What a library holds after its first operation, beyond an empty process (B)."""
    name, ends = f"memory held by {NAMES[library]}", ("resident_first_use", "resident_start")
    after, before = (run.of_training(quantity, library) for quantity in ends)
    if not after or not before:
        return absent(name, "B", f"not recorded on {run.label}")
    return exact(name, "B", int(middle(after) - middle(before)), run.file)


study.values(
    {
        "held_numpy": lambda run: _held(run, "numpy"),
        "held_cupy": lambda run: _held(run, "cupy"),
    },
    "measured",
    of=lambda p: p.gpu,
)


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
    ratio = _composed(both, "relu_time") / both[1].measured("relu_time", SHARED, "cupy")
    return both[1].bounded(ratio, _OPERATIONS) > 1 + MARGIN


@study.claim("alike", of=lambda p: p.gpu)
def _alike(run: Run) -> Statement:
    theirs, ours = (run.of_training("train_loss", name) for name in ("cupy", "numpy"))
    name = "largest difference of losses"
    if not theirs or len(theirs) != len(ours):
        return absent(name, "1", f"not recorded on {run.label}") < ALIKE_LOSS
    apart = max(abs(a - b) / b for a, b in zip(theirs, ours, strict=True))
    return exact(name, "1", apart, run.file) < ALIKE_LOSS


@study.claim("more-held", of=lambda p: p.gpu)
def _more_held(run: Run) -> Statement:
    return _held(run, "cupy") / _held(run, "numpy") > 1 + MARGIN


def _printed_over(p: Paper, row: str, shapes: Quantity) -> Statement:
    return (p.source.number("5", row, "cpu") / shapes).near(1, within=MARGIN)


@study.claim("parameter-bytes")
def _parameter_bytes(p: Paper) -> Statement:
    return _printed_over(p, "parameters", theory.ELEMENT * theory.PARAMETERS)


@study.claim("input-bytes")
def _input_bytes(p: Paper) -> Statement:
    return _printed_over(p, "input", theory.image_bytes(SOURCE))


@study.claim("convolution")
def _convolution(p: Paper) -> Statement:
    return exact("convolutions of the network", "1", 0, p.source.file) > 0


@study.claim("same-iteration")
def _same_iteration(p: Paper) -> Statement:
    gradient = p.source.number("4", "gradient_time", "gpu")
    return gradient / p.source.number("3", "backward_time", "gpu") < 1


# ------------------------------------------------------------------------------------- figures


@study.figure("fig-curve", height=2.4, wide=True)
def _fig_curve(p: Paper) -> Iterator[Scaling]:
    return figures.curve(p.gpu, p.source) if p.gpu else iter(())


@study.figure("fig-bases")
def _fig_bases(p: Paper) -> Iterator[Dots]:
    if not p.both:
        return
    cpu, gpu = p.both
    one = "thread" if cpu.threads == 1 else "threads"
    bases: Mapping[str, Mapping[Size, Quantity]] = {
        f"NumPy, {gpu.threads} threads": {s: gpu.speedup(s, "cupy") for s in gpu.sizes},
        **{
            f"{NAMES[name]}, {cpu.threads} {one}": {s: p.over(s, cpu, name) for s in gpu.sizes}
            for name in ("numpy", "torch")
        },
    }
    yield from figures.bases(bases)


@study.figure("fig-operations")
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


_OURS: Final = ("Ours: NumPy (ms)", "CuPy (ms)", "Our gain")


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
    cells: dict[str, Content] = {"Part": names[row].removesuffix(" per iteration")}
    cells |= {"Source: CPU, ms": cpu, "GPU, ms": gpu, "Gain": gain}
    if p.gpu:
        ours = (
            p.gpu.measured(row, SOURCE, "numpy"),
            p.gpu.measured(row, SOURCE, "cupy"),
            p.gpu.speedup(SOURCE, "cupy", row),
        )
        cells |= zip(_OURS, (to_digits(cell, 2) for cell in ours), strict=True)
    return cells


@study.table("tbl-explanations", rows=_explanations, digits={"Time (ms)": 2})
def _explanations_table(p: Paper, row: tuple[str, Quantity]) -> dict[str, Content]:
    return {"What it could be": row[0], "Time (ms)": to_digits(row[1], 2)}


#: Every table and figure of the source, what became of it, and what we find.
_ACCOUNT: Final = (
    ("Table 1, literature", "out of reach", "four of five citations have no entry"),
    ("Table 2, data set", "audited", "the file it names holds another number of images"),
    ("Table 3, times", "reproduced", "the gain is larger at its own size"),
    ("Table 4, operations", "reproduced", "which gains most depends on the work"),
    ("Table 5, memory", "audited", "no component follows from shapes"),
    ("Figure 1, designs", "out of reach", "a drawing"),
    ("Figure 2, network", "reproduced", "the program that we print"),
    ("Figure 3, convergence", "reproduced", "both libraries learn alike"),
    ("Algorithm 1", "reproduced", "the program that we print"),
    ("Equations 1 to 10", "reproduced", "gradients equal those of PyTorch"),
    ("Hypothesis: the gap grows", "reproduced", "it does, until the GPU is full"),
)


@study.table("tbl-account", rows=lambda p: _ACCOUNT)
def _account(p: Paper, row: tuple[str, str, str]) -> dict[str, Content]:
    return dict(zip(("Item", "Result", "Finding"), row, strict=True))


study.add_table(lambda p: audit_table("tbl-audit", "", p.source.audit(), (p.inputs.reported_file,)))
study.add_table(lambda p: setup(p.inputs, p.runs, source=False))
