"""backend_speedup as its paper and its reports print it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
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
from report.studies.backend_speedup.changes import CHANGES, LESS_WIDE, ONE_IMAGE
from report.studies.backend_speedup.results import Pair
from report.studies.backend_speedup.runs import AT_FLOOR, PRODUCTS, Run
from report.studies.backend_speedup.source import MEMORY, OPERATIONS, PERFORMANCE, Source
from report.studies.backend_speedup.subject import (
    CALLS,
    KAGGLE,
    LARGE,
    NAMES,
    SMALL,
    SOURCE,
    WIDER,
    WIDEST,
    check_subject,
)

#: Speed-ups and sizes that differ by less than this share are no finding.
MARGIN: Final = 0.1
#: Losses that differ by less than this share are those of one training.
ALIKE_LOSS: Final = 1e-3


class Paper:
    """Runs in their roles, and the source."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.source = Source(inputs)
        runs = inputs.runs(Run)
        self.cpu, self.changed, self.earlier, self.later, gpu = (
            runs.get(role) for role in ("cpu", "second", "third", "fourth", "gpu")
        )
        others = tuple(run for run in (self.earlier, self.later) if run)
        self.gpu = replace(gpu, sessions=others) if gpu else None
        #: The CPU and the GPU, and the GPU and the source, where both are there.
        self.both = (self.cpu, self.gpu) if self.cpu and self.gpu else None
        self.beside_source = (self.gpu, self.source) if self.gpu else None

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
earlier: Part[Run] = study.part("earlier", "pair")
later: Part[Run] = study.part("later", "pair")
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
changed.texts(changed_cpu=short_name)
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
        "other_calls": theory.ALL_CALLS - CALLS["matrix_product"],
        "wider_neurons": exact("neurons", "1", WIDER.hidden),
        "second_products": exact("products of the second layer", "1", 3),
        "few_images": exact("images, fewest", "1", SMALL.images),
        "many_images": exact("images, most", "1", SOURCE.images),
        "most_neurons": exact("neurons, most", "1", WIDEST.hidden),
        "large_neurons": exact("neurons", "1", LARGE.hidden),
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
    large=partial(Run.gain, size=LARGE),
    widest=partial(Run.gain, size=WIDEST),
    at_source=partial(Run.gain, size=SOURCE),
    at_source_torch=partial(Run.gain, size=SOURCE, library="torch_cuda"),
    less_wide=partial(Run.speedup, size=LESS_WIDE, library="cupy"),
    here=partial(Run.gain_in, library="cupy"),
    here_torch=partial(Run.gain_in, library="torch_cuda"),
    there=partial(Run.gain_in, library="cupy", session=1),
    there_torch=partial(Run.gain_in, library="torch_cuda", session=1),
    between_libraries=Run.between_libraries,
    over_earlier=partial(Run.over_earlier, library="cupy"),
    over_earlier_torch=partial(Run.over_earlier, library="torch_cuda"),
    update_longer=partial(Run.longer_in_earlier, library="cupy", quantity="update_time"),
    update_longer_torch=partial(
        Run.longer_in_earlier, library="torch_cuda", quantity="update_time"
    ),
    update_longer_host=partial(Run.longer_in_earlier, library="numpy", quantity="update_time"),
    floor=Run.floor_time,
    products_growth=partial(Run.growth, quantity=PRODUCTS, library="cupy"),
    growth=partial(Run.growth, quantity="time", library="cupy"),
)
gpu.values(
    "measured",
    flat_sizes=partial(Run.number_of, attribute="at_floor"),
    sizes=partial(Run.number_of, attribute="sizes"),
    iterations=results.iterations,
    faults=partial(results.page_faults, size=LARGE),
)


gpu.values(
    "measured",
    copied=results.image_copy_time,
    copied_double=partial(results.image_copy_time, doubled=True),
    longer_on_cpu=results.narrow_over_wide,
    flat_growth=results.flat_growth,
    relu_here=partial(Run.measured, quantity="relu_time", size=SOURCE, library="cupy"),
    widest_time=partial(Run.time, size=WIDEST, library="numpy"),
    host_time=partial(Run.time, size=SOURCE, library="numpy"),
    time_cupy=partial(Run.time, size=SOURCE, library="cupy"),
    spread=partial(results.largest_ratio, libraries=["numpy"]),
    spread_gpu=partial(results.largest_ratio, libraries=["cupy"]),
    spread_of_gains=results.ratio_of_gains,
)
gpu.values(
    "percent",
    idle=partial(Run.idle, library="cupy"),
    idle_torch=partial(Run.idle, library="torch_cuda"),
    floor_error=results.floor_excess,
    busy=partial(Run.busy, library="cupy"),
    busy_torch=partial(Run.busy, library="torch_cuda"),
    busy_most=partial(Run.busy_most, library="cupy"),
    busy_most_torch=partial(Run.busy_most, library="torch_cuda"),
    relu_share=results.relu_share,
    train_accuracy=partial(results.accuracy, kind="train"),
    test_accuracy=partial(results.accuracy, kind="test"),
)


# ---------------------------------------------------------------- other sessions, source, baseline


earlier.values(
    "measured",
    earlier_time=partial(Run.time, size=SOURCE, library="cupy"),
    earlier_relu=partial(Run.measured, quantity="relu_time", size=SOURCE, library="cupy"),
    earlier_host=partial(Run.time, size=SOURCE, library="numpy"),
    earlier_faults=partial(results.page_faults, size=SOURCE),
    wider=partial(Run.speedup, size=WIDER, library="cupy"),
    wider_torch=partial(Run.speedup, size=WIDER, library="torch_cuda"),
    pool=partial(results.allocated, row="total", library="cupy"),
    parameters_on_gpu=partial(results.allocated, row="parameters", library="cupy"),
)
later.values("measured", later_widest=partial(Run.time, size=WIDEST, library="numpy"))


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
    return cpu.time(SMALL, "numpy") / gpu.time(SMALL, "cupy")


both.values(
    least_shift=partial(results.extreme_shift, choose=smallest),
    most_shift=partial(results.extreme_shift, choose=largest),
    earlier_shift=partial(results.other_shift, session=0, size=SOURCE),
    later_shift=partial(results.other_shift, session=1, size=WIDEST),
)


# -------------------------------------------------------------------------------------- claims


@gpu.claim("With the fewest images the GPU idles for over a third of an iteration")
def host_sets_pace(run: Run) -> Iterator[Statement]:
    for library in results.ON_GPU:
        yield run.idle(library) > 1 / 3


@gpu.claim("At the source's size products alone keep the GPU busy for over half of PyTorch's time")
def nearly_busy(run: Run) -> Statement:
    return run.busy("torch_cuda") > 0.5


@gpu.claim(
    "In one session CuPy takes a tenth longer than PyTorch at the source's size",
    numbers=("here_torch", "here"),
)
def library_matters(run: Run) -> Statement:
    return run.between_libraries() > 1 + MARGIN


@gpu.claim(
    "PyTorch's speed-up at the source's size is a tenth larger in the earlier session",
    numbers=("there_torch", "here_torch"),
)
def session_matters(run: Run) -> Statement:
    return run.over_earlier("torch_cuda") > 1 + MARGIN


@gpu.claim(
    "CuPy's speed-up at the source's size is a tenth smaller in the earlier session",
    numbers=("there", "here"),
)
def session_matters_in_cupy(run: Run) -> Statement:
    return run.over_earlier("cupy") < 1 - MARGIN


@gpu.claim("The older ReLU explains more than a third of CuPy's slowdown in the earlier session")
def relu_slows(run: Run) -> Statement:
    return results.relu_share(run) > 1 / 3


@gpu.claim("With the least work the GPU is more than a tenth slower than the CPU beside it")
def small_slower(run: Run) -> Statement:
    return run.gain(SMALL) < 1 - MARGIN


@gpu.claim("With much work the GPU is more than a tenth faster than the CPU beside it")
def large_faster(run: Run) -> Iterator[Statement]:
    for size in (LARGE, WIDEST):
        yield run.gain(size) > 1 + MARGIN


@gpu.claim("Over two orders of magnitude of work CuPy's iteration grows by less than a quarter")
def floor(run: Run) -> Iterator[Statement]:
    yield results.flat_growth(run) > 100
    for size in run.at_floor:
        pairs = product(run.medians("time", size, "cupy"), run.medians("time", SMALL, "cupy"))
        growth = run.time(size, "cupy") / run.floor_time()
        yield run.spanning(growth, [a / b for a, b in pairs]) < AT_FLOOR


@gpu.claim("On the source's network the GPU is more than a tenth faster than the CPU beside it")
def gpu_faster(run: Run) -> Statement:
    return run.gain(SOURCE) > 1 + MARGIN


@beside_source.claim(
    "The GPU's speed-up is that which the source prints, within a tenth",
    numbers=("source_speedup", "here"),
)
def same_speedup(pair: tuple[Run, Source]) -> Statement:
    run, source = pair
    printed = source.speedup()
    return run.gain(SOURCE).near(printed, within=MARGIN * printed)


@both.claim("NumPy on one thread of another CPU is more than a tenth slower at every size")
def baseline_matters(pair: Pair) -> Iterator[Statement]:
    for shift in results.host_shifts(pair):
        yield shift > 1 + MARGIN


@gpu.claim("The GPU's speed-up grows by more than a tenth with the images")
def gap_grows_images(run: Run) -> Statement:
    return results.growth_of_gain(run, SOURCE, SMALL) > 1 + MARGIN


@gpu.claim("The GPU's speed-up grows by more than a tenth with the neurons")
def gap_grows_neurons(run: Run) -> Statement:
    return results.growth_of_gain(run, LARGE, SOURCE) > 1 + MARGIN


@gpu.claim("Losses of the GPU's training differ from NumPy's by less than a thousandth")
def alike(run: Run) -> Iterator[Statement]:
    for kind in ("train", "test"):
        yield results.largest_difference(run, f"{kind}_loss") < ALIKE_LOSS


@gpu.claim("After each iteration the GPU's network classifies as many images right as NumPy's")
def same_accuracy(run: Run) -> Iterator[Statement]:
    for kind in ("train", "test"):
        yield results.largest_difference(run, f"{kind}_accuracy").exactly(0)


@source.claim("The source's parameters take the memory that it prints, within a tenth")
def parameter_bytes(source: Source) -> Statement:
    shapes = theory.ELEMENT * theory.PARAMETERS
    printed = source.number("5", "parameters", "cpu")
    return to_digits(printed / shapes, 2).near(1, within=MARGIN)


@source.claim("The source's images in single precision take the memory that it prints")
def input_bytes(source: Source) -> Statement:
    printed = source.number("5", "input", "cpu")
    return to_digits(printed / theory.image_bytes(SOURCE), 2).near(1, within=MARGIN)


changed.values(
    "measured",
    thread_source=partial(changes.effect, size=SOURCE, change=changes.THREAD),
    thread_wide=partial(changes.effect, size=LESS_WIDE, change=changes.THREAD),
    effect_returned=partial(changes.effect, size=SOURCE, change=changes.RETURNED),
    effect_double=partial(changes.effect, size=SOURCE, change=changes.DOUBLE),
    predicted_double=partial(changes.predicted, size=SOURCE, change=changes.DOUBLE),
)
for _name, _size in ("source", SOURCE), ("wide", LESS_WIDE):
    _pages = exact("pages by shapes", "1", changes.mapped_pages(_size))
    study.constants(**{f"shapes_{_name}": _pages})
    _product = partial(changes.product_effect, size=_size)
    _faults = partial(changes.changed, quantity="page_faults", size=_size)
    changed.values(
        **{
            f"rate_{_name}": partial(changes.product_rate, size=_size),
            f"product_thread_{_name}": partial(_product, change=changes.THREAD),
            f"product_double_{_name}": partial(_product, change=changes.DOUBLE),
            f"pages_{_name}": partial(_faults, change=changes.RETURNED),
            f"added_{_name}": partial(
                changes.added_over_predicted, size=_size, change=changes.RETURNED
            ),
        }
    )


@changed.claim("A second thread saves half of the time of the products, within a fifth of that")
def thread_as_predicted(run: Run) -> Iterator[Statement]:
    return changes.as_predicted(run, changes.THREAD)


@changed.claim("Returning freed memory adds its pages at their price, within a fifth of that")
def returned_as_predicted(run: Run) -> Iterator[Statement]:
    return changes.as_predicted(run, changes.RETURNED)


@changed.claim("Double precision adds the baseline's work once more, within a fifth of that")
def double_as_predicted(run: Run) -> Iterator[Statement]:
    return changes.as_predicted(run, changes.DOUBLE)


@changed.claim("A fused ReLU changes the baseline by less than a twentieth")
def fused_is_small(run: Run) -> Iterator[Statement]:
    for size in changes.CHANGED_SIZES[1:]:
        yield changes.effect(run, size, changes.FUSED).near(1, within=changes.SMALL_EFFECT)


@changed.claim("On one image none of the four changes moves the baseline by more than a tenth")
def calls_shield(run: Run) -> Iterator[Statement]:
    for change in CHANGES:
        yield changes.effect(run, ONE_IMAGE, change).near(1, within=MARGIN)


# ------------------------------------------------------------------------------------- figures

gpu.figure(key=True, height=2.5)(figures.pace)
drawn.figure(height=2.5)(figures.busy)
drawn.figure(height=2.6)(figures.curve)


# -------------------------------------------------------------------------------------- tables

_SIZES: Final = ("Host (ms)", "CuPy (ms)", "Speed-up", "Other CPU (ms)")
_OURS: Final = ("Ours: CPU (ms)", "Ours: GPU (ms)", "Ours: gain")


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


@changed.table("changes", wide=True)
def _by_change(run: Run) -> Iterator[Mapping[str, Content]]:
    for change in CHANGES:
        row: dict[str, Content] = {"Change": change}
        for name, size in _CHANGED.items():
            row[f"{name}: predicted"] = to_digits(changes.predicted(run, size, change), 3)
            row[f"{name}: measured"] = changes.effect(run, size, change)
        yield {**row, "One image: measured": changes.effect(run, ONE_IMAGE, change)}


@study.table("memory", wide=True, digits={"CuPy (MB)": 3, "NumPy (MB)": 3})
def _memory(p: Paper) -> Iterator[Mapping[str, Content]]:
    for row, name in MEMORY.items():
        cells: dict[str, Content] = {
            "Component": name,
            "Source: CPU (MB)": p.source.number("5", row, "cpu"),
            "Source: GPU (MB)": p.source.number("5", row, "gpu"),
        }
        for library in ("cupy", "numpy"):
            missing = absent("bytes", "B", "no session recorded memory at this size")
            own = results.allocated(p.earlier, row, library) if p.earlier else missing
            cells[f"{NAMES[library]} (MB)"] = own
        yield cells


#: Tables and figures of the source, with result and finding.
_ACCOUNT: Final = (
    ("Table 1, literature", "out of reach", "four of five citations are unresolved ([?])"),
    ("Table 2, data set", "audited", "59,000 images to train on; Kaggle's file leaves 41,000"),
    ("Table 3, times", "measured again", "with another result: the gain is larger"),
    ("Table 4, operations", "measured again", "products gain most in both"),
    (
        "Table 5, memory",
        "measured again",
        "no component agrees; the GPU's repeat the CPU's",
    ),
    ("Figure 1, designs", "out of reach", "a drawing"),
    ("Figure 3, convergence", "reproduced", "same accuracy in both, on a smaller data set"),
    ("Figure 2, Algorithm 1, equations", "reproduced", "except for one-hot encoding"),
    ("Hypothesis: the gap grows", "reproduced", "with images; with neurons in one session"),
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


#: Rows omitted from the set-up table: no measured number depends on them.
_LEFT_OUT: Final = ("Memory", "C library", "Vector extensions", "Arithmetic")


@study.shared_table()
def machines(p: Paper) -> Table:
    """Tabulate the runs of the sentences; the model names a GPU."""
    gpu = replace(p.gpu, label=results.gpu_name(p.gpu)) if p.gpu else None
    table = setup([run for run in (p.cpu, p.changed, gpu) if run])
    return replace(table, rows=tuple(row for row in table.rows if row[0] not in _LEFT_OUT))
