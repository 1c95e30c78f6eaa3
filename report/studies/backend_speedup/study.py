"""backend_speedup as its paper and its reports print it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from report.core.text.escape import markdown
from report.evidence.audit import Check, count_by_verdict
from report.paper.findings import Inputs
from report.paper.machines import MachineComparison, setup, short_name
from report.paper.study import Content, Part, Study, audit_row
from report.paper.tables import Table
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.operations import largest, smallest
from report.studies.backend_speedup import changes, figures, results, theory
from report.studies.backend_speedup.changes import CHANGES, LESS_WIDE, ONE_IMAGE, TOLERANCE
from report.studies.backend_speedup.results import PRODUCTS, Pair
from report.studies.backend_speedup.runs import Run
from report.studies.backend_speedup.source import OPERATIONS, PERFORMANCE, Source
from report.studies.backend_speedup.subject import (
    KAGGLE,
    LARGE,
    NAMES,
    SMALL,
    SOURCE,
    WIDEST,
    Size,
    check_subject,
)

#: Speed-ups and sizes that differ by less than this share are no finding.
MARGIN: Final = 0.1
#: Losses that differ by less than this share are those of one training.
ALIKE_LOSS: Final = 1e-3

#: Two networks with fewer images.
NARROW, FEWER = Size(10, 16_000), Size(128, 16_000)
#: The widest of all with fewer images.
WIDE: Final = Size(2_048, 1_438)


class Paper:
    """Runs in their roles, and the source."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.source = Source(inputs)
        runs = inputs.runs(Run)
        self.cpu, self.gpu, self.earlier = (runs.get(role) for role in ("cpu", "gpu", "third"))
        self.changed = runs.get("second")
        #: The CPU and the GPU, the GPU and the source, and two sessions, where both are there.
        self.both = (self.cpu, self.gpu) if self.cpu and self.gpu else None
        self.beside_source = (self.gpu, self.source) if self.gpu else None
        self.sessions = (self.earlier, self.gpu) if self.earlier and self.gpu else None

    def audit(self) -> tuple[Check, ...]:
        """Return the checks of the source's numbers."""
        return self.source.audit()


def _over_numpy(run: Run) -> Quantity:
    return run.speedup(SOURCE, "torch")


study: Study[Paper] = Study(
    Paper,
    check_subject,
    MachineComparison(Run, "PyTorch over NumPy", _over_numpy, reference=1.0),
    audits=Paper.audit,
)
findings = study.findings
source: Part[Source] = study.part("source")
cpu: Part[Run] = study.part("cpu")
gpu: Part[Run] = study.part("gpu")
both: Part[Pair] = study.part("both", "pair")
sessions: Part[Pair] = study.part("sessions", "pair")
changed: Part[Run] = study.part("changed", "pair")
beside_source: Part[tuple[Run, Source]] = study.part("beside_source", "pair")
drawn: Part[tuple[Run, Source]] = study.part("beside_source", "gpu")


# -------------------------------------------------------------------------------------- texts


def _gpu_name(run: Run) -> str:
    return markdown(results.gpu_name(run))


gpu.texts(gpu=_gpu_name)


@gpu.text()
def host(run: Run) -> str:
    return markdown(run.stored.record.environment.cpu.model)


cpu.texts(cpu=short_name)
gpu.texts(host_name=results.processor_family)
cpu.texts(cpu_name=results.processor_family)


def _versions(p: Paper, run: Run | None) -> str:
    attachments = p.inputs.attachments.get(run.file, {}) if run else {}
    return results.library_versions(run, attachments) if run else ""


@study.text()
def gpu_versions(p: Paper) -> str:
    return _versions(p, p.gpu)


@study.text()
def cpu_versions(p: Paper) -> str:
    return _versions(p, p.cpu)


# ------------------------------------------------------------------------------ theory, source


@source.mapping()
def _counts(source: Source) -> dict[str, Quantity]:
    checks = source.audit()
    differing = count_by_verdict(checks)["differs"]
    return {
        "pixels": theory.D,
        "hidden": theory.H,
        "classes": theory.K,
        "parameters": theory.PARAMETERS,
        "calls": theory.ALL_CALLS,
        "second_products": exact("products of the second layer", "1", 3),
        "few_images": exact("images, fewest", "1", SMALL.images),
        "many_images": exact("images, most", "1", SOURCE.images),
        "most_neurons": exact("neurons, most", "1", WIDEST.hidden),
        "large_neurons": exact("neurons", "1", LARGE.hidden),
        "fewer_images": exact("images", "1", NARROW.images),
        "shared_images": exact("images", "1", LESS_WIDE.images),
        "learned": source.value("training"),
        "weights": theory.D * theory.H + theory.H * theory.K,
        "source_speedup": source.value("total_speedup"),
        "audited": exact("audited", "1", len(checks), source.file),
        "differing": exact("that differ", "1", differing, source.file),
    }


@source.mapping("measured")
def _printed(source: Source) -> dict[str, Quantity]:
    framework_on_gpu = source.number("5", "framework", "gpu")
    return {
        "source_cpu": source.number("3", "time", "cpu"),
        "source_gpu": source.number("3", "time", "gpu"),
        "source_work": to_digits(theory.work(SOURCE), 2),
        "kaggle_work": to_digits(theory.work(KAGGLE), 2),
        "source_held": framework_on_gpu / source.number("5", "framework", "cpu"),
        "source_products": source.number("4", PRODUCTS, "cpu"),
        "source_total": source.value("total_time_cpu"),
        "source_gradients": source.number("4", "gradient_time", "gpu"),
        "source_backward": source.number("3", "backward_time", "gpu"),
        "printed_parameters": source.number("5", "parameters", "cpu"),
        "byte_input": to_digits(theory.image_bytes(SOURCE) / 4, 2),
    }


# ------------------------------------------------------------------------------------- the GPU


@gpu.value()
def threads(run: Run) -> Quantity:
    return exact("threads", "1", run.threads, run.file)


gpu.values(
    small=partial(Run.gain, size=SMALL),
    at_source=partial(Run.gain, size=SOURCE),
    large=partial(Run.gain, size=LARGE),
    widest=partial(Run.gain, size=WIDEST),
    less_wide=partial(Run.gain, size=LESS_WIDE),
    wide=partial(Run.gain, size=WIDE),
    floor=Run.floor_time,
)


@gpu.value()
def narrow_gpu_rate(run: Run) -> Quantity:
    return theory.work(SOURCE) / results.products_at_source(run)


gpu.values(products=results.products_at_source, gpu_rate=partial(Run.rate, library="cupy"))
gpu.values("measured", flat=results.flat_work)


@gpu.value("measured")
def flat_growth(run: Run) -> Quantity:
    return results.flat_work(run) / theory.work(SMALL)


gpu.values(
    "measured",
    flat_sizes=partial(Run.number_of, attribute="at_floor"),
    sizes=partial(Run.number_of, attribute="sizes"),
    spread=results.rounded_spread,
    spread_gpu=partial(results.rounded_spread, libraries=["cupy"]),
)
gpu.values("measured", spread_parts=results.spread_of_parts, pairs=results.compared_pairs)


@gpu.value("measured")
def longer_on_cpu(run: Run) -> Quantity:
    return run.time(SOURCE, "numpy") / run.time(LESS_WIDE, "numpy")


gpu.values("measured", products_ahead=results.products_ahead)


@gpu.value("measured")
def scatter_of_gains(run: Run) -> Quantity:
    return results.spread_of_parts(run) * results.spread_of_parts(run)


gpu.values(
    "measured",
    without_faults=partial(results.speedup_at_rate_of, size=LARGE, fewer=FEWER),
    widest_without_faults=partial(results.speedup_at_rate_of, size=WIDEST, fewer=WIDE),
)


gpu.values(
    "measured",
    iterations=results.iterations,
    faults=partial(results.page_faults, size=LARGE),
    faults_widest=partial(results.page_faults, size=WIDEST),
)
gpu.values(
    "percent",
    floor_error=results.floor_excess,
    rate_error=partial(results.model_error, size=LARGE),
    cupy_calls=partial(results.calls_share, library="cupy"),
    torch_calls=partial(results.calls_share, library="torch_cuda"),
    numpy_products=partial(results.products_at_most_work, library="numpy"),
    cupy_products=partial(results.products_at_most_work, library="cupy"),
)


@gpu.value("percent")
def product_share(run: Run) -> Quantity:
    return to_digits(results.product_share(run), 1)


@gpu.value("percent")
def product_share_least(run: Run) -> Quantity:
    return to_digits(results.product_share(run) / results.spread_of_parts(run), 1)


# ---------------------------------------------------------------- the source and other baselines


@study.value("measured")
def image_time(p: Paper) -> Quantity:
    name = results.gpu_name(p.gpu) if p.gpu else ""
    return results.image_time(name, p.inputs.devices)


def _source_slower(pair: tuple[Run, Source], side: str, library: str) -> Quantity:
    """Divide the source's time of an iteration by ours."""
    run, source = pair
    return source.number("3", "time", side) / run.time(SOURCE, library)


beside_source.values(
    "measured",
    source_slower=partial(_source_slower, side="gpu", library="cupy"),
    source_cpu_slower=partial(_source_slower, side="cpu", library="numpy"),
)


@cpu.value()
def double(run: Run) -> Quantity:
    return run.time(SOURCE, "numpy", "float64") / run.time(SOURCE, "numpy")


cpu.values(measurements=Run.measurements, disturbed=partial(Run.measurements, disturbed=True))


@both.value()
def small_over_cpu(pair: Pair) -> Quantity:
    cpu, gpu = pair
    return gpu.gain_over(cpu, SMALL)


both.values(
    least_shift=partial(results.extreme_shift, choose=smallest),
    most_shift=partial(results.extreme_shift, choose=largest),
)


@both.value()
def least_allowed(pair: Pair) -> Quantity:
    return results.extreme_shift(pair, smallest) / results.largest_spread(pair[1])


@both.value()
def most_allowed(pair: Pair) -> Quantity:
    return results.extreme_shift(pair, largest) * results.largest_spread(pair[1])


sessions.values(
    "measured",
    earlier_least=partial(results.products_over_later, end=min),
    earlier_most=partial(results.products_over_later, end=max),
)


@sessions.value("measured")
def small_by_sessions(pair: Pair) -> Quantity:
    """Scale the speed-up at the smallest size by the slower session."""
    return pair[1].speedup(SMALL, "cupy") * results.products_over_later(pair, max)


@sessions.value("measured")
def neurons_by_sessions(pair: Pair) -> Quantity:
    """Scale the growth with the neurons by the slower session, once for each of two speed-ups."""
    slower = results.products_over_later(pair, max)
    return results.gain_growth(pair[1], LARGE, SOURCE) / slower / slower


# -------------------------------------------------------------------------------------- claims


@gpu.claim("With the least work the GPU is more than a tenth slower than the CPU beside it")
def small_slower(run: Run) -> Statement:
    return run.gain(SMALL) < 1 - MARGIN


@gpu.claim("With much work the GPU is more than a tenth faster than the CPU beside it")
def large_faster(run: Run) -> Iterator[Statement]:
    for size in (LARGE, WIDEST):
        yield run.gain(size) > 1 + MARGIN


@gpu.claim("Over two orders of magnitude of work the GPU's iteration takes less than twice as long")
def floor(run: Run) -> Statement:
    last = [SMALL, *run.at_floor][-1]
    return run.bounded(run.time(last, "cupy") / run.floor_time()) < 2


@gpu.claim("On the source's network the GPU is more than a tenth faster than the CPU beside it")
def gpu_faster(run: Run) -> Statement:
    return run.gain(SOURCE) > 1 + MARGIN


@beside_source.claim("The GPU's speed-up is that which the source prints, within a tenth")
def same_speedup(pair: tuple[Run, Source]) -> Statement:
    run, source = pair
    ratio = run.speedup(SOURCE, "cupy") / source.value("total_speedup")
    return run.bounded(ratio).near(1, within=MARGIN)


@both.claim("NumPy on one thread of another CPU is more than a tenth slower at every size")
def baseline_matters(pair: Pair) -> Iterator[Statement]:
    for shift in results.host_shifts(pair):
        yield shift > 1 + MARGIN


@gpu.claim("The GPU's speed-up grows by more than a tenth with the images")
def gap_grows_images(run: Run) -> Statement:
    return run.bounded(results.gain_growth(run, SOURCE, SMALL)) > 1 + MARGIN


@gpu.claim("The GPU's speed-up grows by more than a tenth with the neurons")
def gap_grows_neurons(run: Run) -> Statement:
    return run.bounded(results.gain_growth(run, LARGE, SOURCE)) > 1 + MARGIN


@gpu.claim("Losses of the GPU's training differ from NumPy's by less than a thousandth")
def alike(run: Run) -> Statement:
    return results.largest_loss_difference(run) < ALIKE_LOSS


@source.claim("The source's parameters take the memory that it prints, within a tenth")
def parameter_bytes(source: Source) -> Statement:
    shapes = theory.ELEMENT * theory.PARAMETERS
    printed = source.number("5", "parameters", "cpu")
    return to_digits(printed / shapes, 2).near(1, within=MARGIN)


@source.claim("The source's images in single precision take the memory that it prints")
def input_bytes(source: Source) -> Statement:
    printed = source.number("5", "input", "cpu")
    return to_digits(printed / theory.image_bytes(SOURCE), 2).near(1, within=MARGIN)


@changed.claim("A second thread halves the baseline's products and nothing else, within a fifth")
def thread_as_predicted(run: Run) -> Iterator[Statement]:
    return changes.as_predicted(run, changes.THREAD)


@changed.claim("Returning freed memory costs the baseline its pages at their price, within a fifth")
def returned_as_predicted(run: Run) -> Iterator[Statement]:
    return changes.as_predicted(run, changes.RETURNED)


@changed.claim("Double precision doubles the baseline's work but not its calls, within a fifth")
def double_as_predicted(run: Run) -> Iterator[Statement]:
    return changes.as_predicted(run, changes.DOUBLE)


@changed.claim("A fused ReLU saves the baseline half of its passes over the sums, within a fifth")
def fused_as_predicted(run: Run) -> Iterator[Statement]:
    return changes.as_predicted(run, changes.FUSED)


@changed.claim("On one image none of the four changes moves the baseline by more than a fifth")
def calls_shield(run: Run) -> Iterator[Statement]:
    for change in CHANGES:
        yield changes.effect(run, ONE_IMAGE, change).near(1, within=TOLERANCE)


# ------------------------------------------------------------------------------------- figures

drawn.figure(key=True, height=2.3, wide=True)(figures.curve)


# -------------------------------------------------------------------------------------- tables

_MARKS: Final = (
    "A call (µs)", "Smallest iteration (ms)", "Product (TFLOP/s)", "Iteration (TFLOP/s)",
)  # fmt: skip
_SIZES: Final = ("Host (ms)", "CuPy (ms)", "Speed-up", "Other CPU (ms)")
_OURS: Final = ("Ours: CPU (ms)", "Ours: GPU (ms)", "Ours: gain")


@gpu.table(digits=dict.fromkeys(_MARKS, 2))
def marks(run: Run) -> Iterator[Mapping[str, Content]]:
    for library in run.libraries:
        cells = (
            run.measured("call_time", SMALL, library),
            run.time(SMALL, library),
            run.product_rate(WIDEST, library),
            run.rate(library),
        )
        brief = [to_digits(cell, 2) for cell in cells]
        yield {"Library": NAMES[library], **dict(zip(_MARKS, brief, strict=True))}


def _by_size(p: Paper) -> Iterator[Mapping[str, Content]]:
    for size in p.gpu.sizes if p.gpu else ():
        assert p.gpu is not None
        other = p.cpu.time(size, "numpy") if p.cpu else absent("time", "s", "no other CPU ran")
        host, cupy = p.gpu.time(size, "numpy"), p.gpu.time(size, "cupy")
        cells = (host, cupy, p.gpu.speedup(size, "cupy"), other)
        brief = [to_digits(cell, 2) for cell in cells]
        yield {
            "Neurons": size.hidden,
            "Images": size.images,
            "Work (GFLOP)": to_digits(theory.work(size), 2),
            **dict(zip(_SIZES, brief, strict=True)),
            "Page faults": results.page_faults(p.gpu, size),
        }


study.table("sizes", digits={"Work (GFLOP)": 2, **dict.fromkeys(_SIZES, 2)}, wide=True)(_by_size)


@study.table(wide=True, digits=dict.fromkeys(_OURS, 2))
def times(p: Paper) -> Iterator[Mapping[str, Content]]:
    names = PERFORMANCE | OPERATIONS
    for row in names:
        table = "3" if row in PERFORMANCE else "4"
        cells: dict[str, Content] = {
            "Part": "Iteration" if row == "time" else names[row].removesuffix(" time"),
            "Source: CPU (ms)": p.source.number(table, row, "cpu"),
            "Source: GPU (ms)": p.source.number(table, row, "gpu"),
            "Source: gain": p.source.number(table, row, "speedup"),
        }
        if p.gpu:
            ours = (
                p.gpu.measured(row, SOURCE, "numpy"),
                p.gpu.measured(row, SOURCE, "cupy"),
                p.gpu.speedup(SOURCE, "cupy", row),
            )
            brief = [to_digits(cell, 2) for cell in ours]
            cells |= zip(_OURS, brief, strict=True)
        yield cells


_CHANGED: Final = {"Source's size": SOURCE, "Wide": LESS_WIDE}


@study.table("changes", wide=True)
def _by_change(p: Paper) -> Iterator[Mapping[str, Content]]:
    for change in CHANGES:
        row: dict[str, Content] = {"Change": change}
        for name, size in _CHANGED.items():
            row |= {
                f"{name}: predicted": _of_changes(p, partial(changes.predicted, size=size), change),
                f"{name}: measured": _of_changes(p, partial(changes.effect, size=size), change),
            }
        alone = partial(changes.effect, size=ONE_IMAGE)
        yield {**row, "One image: measured": _of_changes(p, alone, change)}


def _of_changes(p: Paper, get: Callable[..., Quantity], change: str) -> Quantity:
    if p.changed is None:
        return absent("effect", "1", "no machine has measured the changes")
    return get(p.changed, change=change)


#: Tables and figures of the source, with result and finding.
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


@study.table()
def account(p: Paper) -> Iterator[Mapping[str, Content]]:
    for row in _ACCOUNT:
        yield dict(zip(("Item", "Result", "Finding"), row, strict=True))


@study.table(wide=True, digits={"Printed ÷ recomputed": 3})
def audit(p: Paper) -> Iterator[Mapping[str, Content]]:
    for item in p.audit():
        if item.verdict == "differs":
            row = audit_row(p, item)
            yield row if item.known else {**row, "Finding": "no formula found"}


#: What is left out of the set-up: nothing that we measure depends on it.
_LEFT_OUT: Final = ("Memory", "C library", "Vector extensions", "Arithmetic")


@study.shared_table()
def machines(p: Paper) -> Table:
    """Tabulate the runs of the sentences; the model names a GPU."""
    gpu = replace(p.gpu, label=results.gpu_name(p.gpu)) if p.gpu else None
    table = setup([run for run in (p.cpu, gpu) if run])
    return replace(table, rows=tuple(row for row in table.rows if row[0] not in _LEFT_OUT))
