"""backend_speedup as its paper and its reports print it."""

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
from report.quantity.verdicts import all_of, verdict_of
from report.studies.backend_speedup import figures, runs, subject, theory
from report.studies.backend_speedup.runs import ON_GPU, PRODUCTS, Pair, Run
from report.studies.backend_speedup.source import OPERATIONS, PERFORMANCE, Source
from report.studies.backend_speedup.subject import (
    DIVIDED_CALLS,
    DOUBLED_CALLS,
    FLAT,
    LARGE,
    MANY_CALLS,
    MERGED_CALLS,
    SHARED,
    SMALL,
    SOURCE,
    WIDEST,
)
from report.studies.backend_speedup.theory import CHANGES, LESS_WIDE, ONE_IMAGE

#: Speed-ups and sizes that differ by less than this share are no finding.
MARGIN: Final = 0.1
#: A GPU's time that grows by less than this factor hardly depends on the work.
LEVEL: Final = 1.25
#: Losses that differ by less than this share are those of one training.
ALIKE_LOSS: Final = 1e-3


class Paper:
    """Runs in their roles, and the source."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.source = Source(inputs)
        by_role = inputs.runs(Run)
        self.cpu, self.changed, self.earlier, self.later, gpu = (
            by_role.get(role) for role in ("cpu", "second", "third", "fourth", "gpu")
        )
        if self.cpu:  # its own name, although the runs of JAX have the same
            self.cpu = replace(self.cpu, label=self.cpu.stored.record.environment.label)
        #: Runs with a compiler, each alone, and two of them by name.
        self.compiled: list[Run] = []
        for run in by_role.values():
            apart = [replace(run, stored=replace(one, others=())) for one in run.stored.runs[::-1]]
            self.compiled += [one for one in apart if one.times_around_compiling(SMALL)[1]]
        self.jax = by_role.get("fifth")
        self.calls = by_role.get("ninth")
        self.repeat = self.compiled[1] if len(self.compiled) > 1 else None
        others = tuple(run for run in (self.earlier, self.later) if run)
        self.gpu = replace(gpu, sessions=others) if gpu else None
        #: The CPU and the GPU, and the GPU and the source, where both are there.
        self.both = (self.cpu, self.gpu) if self.cpu and self.gpu else None
        self.beside_source = (self.gpu, self.source) if self.gpu else None

    def audit(self) -> tuple[Check, ...]:
        """Return the checks of the source's numbers."""
        return tuple(self.source.audit())


def _over_numpy(run: Run) -> Quantity:
    return run.time(SOURCE, "numpy") / run.time(SOURCE, "torch")


study: Study[Paper] = Study(
    Paper,
    subject.check_subject,
    MachineComparison(Run, "PyTorch over NumPy", _over_numpy, reference=1.0),
    audits=Paper.audit,
)
findings = study.findings
source: Part[Source] = study.part("source")
cpu: Part[Run] = study.part("cpu")
gpu: Part[Run] = study.part("gpu")
both: Part[Pair] = study.part("both", "pair")
earlier: Part[Run] = study.part("earlier", "pair")
changed: Part[Run] = study.part("changed", "pair")
later: Part[Run] = study.part("later", "pair")
jax: Part[Run] = study.part("jax", "pair")
calls: Part[Run] = study.part("calls", "pair")
beside_source: Part[tuple[Run, Source]] = study.part("beside_source", "pair")
with_source: Part[tuple[Run, Source]] = study.part("beside_source", "gpu")


def _gpu_model(run: Run) -> str:
    model = run.stored.record.environment.gpu
    return model.model if model else ""


def _gpu_name(run: Run) -> str:
    return markdown(_gpu_model(run))


def _host(run: Run) -> str:
    return markdown(run.stored.record.environment.cpu.model)


def _cpu_family(run: Run) -> str:
    """Name the CPU without its vendor."""
    return markdown(run.stored.record.environment.cpu.model.rpartition(" ")[2])


gpu.texts(gpu=_gpu_name, host=_host, host_name=_cpu_family)
cpu.texts(cpu=short_name, cpu_name=_cpu_family)
changed.texts(changed_cpu=short_name)


def _flat_sizes(run: Run) -> str:
    """List the sizes beyond the source's work at which CuPy's time hardly grows."""
    sizes = [size for size in run.small_sizes if size.multiply_adds > SOURCE.multiply_adds]
    return ", ".join(f"{size.hidden:,} × {size.images:,}" for size in sizes)


gpu.texts(flat_sizes=_flat_sizes)


def _versions(p: Paper, name: str) -> str:
    run: Run | None = getattr(p, name)
    return runs.library_versions(run, p.inputs.attachments.get(run.file, {})) if run else ""


for _name in "gpu", "cpu", "jax":
    study.texts(**{f"{_name}_versions": partial(_versions, name=_name)})


# -------------------------------------------------------------------------------------- values


@source.mapping()
def _counts(source: Source) -> dict[str, Quantity]:
    checks = tuple(source.audit())
    counts = {
        "second_products": 3,
        "few_images": SMALL.images,
        "many_images": SOURCE.images,
        "most_neurons": WIDEST.hidden,
        "large_neurons": LARGE.hidden,
        "widest_images": WIDEST.images,
        "shared_images": SHARED.images,
        "audited": len(checks),
        "differing": count_by_verdict(checks)["differs"],
    }
    return {
        **{name: exact(name.replace("_", " "), "1", count) for name, count in counts.items()},
        "pixels": subject.D,
        "hidden": subject.H,
        "classes": subject.K,
        "calls": subject.ALL_CALLS,
        "learned": source.value("training"),
        "source_speedup": source.value("total_speedup"),
    }


@source.mapping("measured")
def _printed(source: Source) -> dict[str, Quantity]:
    return {
        "source_cpu": source.number("3", "time", "cpu"),
        "source_gpu": source.number("3", "time", "gpu"),
        "source_work": to_digits(subject.work(SOURCE), 2),
        "flat_work": to_digits(subject.work(FLAT), 2),
        "flat_growth": to_digits(subject.work(FLAT) / subject.work(SOURCE), 2),
        "source_products": source.number("4", PRODUCTS, "cpu"),
        "source_total": source.value("total_time_cpu"),
        "source_gradients": source.number("4", "gradient_time", "gpu"),
        "source_backward": source.number("3", "backward_time", "gpu"),
    }


def _count(run: Run, attribute: str) -> Quantity:
    return exact("sizes", "1", len(getattr(run, attribute)), run.file)


def _threads(run: Run) -> Quantity:
    return exact("threads", "1", run.threads, run.file)


def _gap(run: Run) -> Quantity:
    """Time (s) of CuPy's widest iteration beyond its products."""
    return run.time(WIDEST, "cupy") - run.products_time(WIDEST, "cupy")


_calls: Final = partial(Run.measured, quantity="call_time", size=SMALL)
gpu.values(threads=_threads, small_sizes=partial(_count, attribute="small_sizes"))
for _name, _library in ("", "cupy"), ("_torch", "torch_cuda"):
    gpu.values(
        **{
            f"at_source{_name}": partial(Run.gain, size=SOURCE, library=_library),
            f"here{_name}": partial(Run.gain_in, library=_library),
            f"there{_name}": partial(Run.gain_in, library=_library, session=1),
            f"over_earlier{_name}": partial(Run.over_earlier, library=_library),
        }
    )
    gpu.values(
        "percent",
        **{
            f"idle{_name}": partial(Run.idle, library=_library),
            f"busy{_name}": partial(Run.busy, library=_library),
            f"small_growth{_name}": partial(Run.largest_growth, library=_library),
            f"calls_share{_name}": partial(Run.calls_share, library=_library),
        },
    )
gpu.values(
    small=partial(Run.gain, size=SMALL),
    large=partial(Run.gain, size=LARGE),
    widest=partial(Run.gain, size=WIDEST),
    less_wide=partial(Run.gain, size=LESS_WIDE),
    between_libraries=Run.between_libraries,
    floor=partial(Run.time, size=SMALL, library="cupy"),
    products_growth=partial(Run.growth, quantity=PRODUCTS, library="cupy"),
    source_growth_torch=partial(Run.growth_to, size=SOURCE, library="torch_cuda"),
    growth=partial(Run.growth, quantity="time", library="cupy"),
    large_growth=partial(Run.growth_to, size=LARGE),
    widest_growth=partial(Run.growth_to, size=WIDEST),
)
gpu.values(
    "measured",
    faults=partial(Run.page_faults, size=LARGE),
    copied=Run.image_copy_time,
    copied_double=partial(Run.image_copy_time, copies=2),
    call=partial(_calls, library="cupy"),
    call_torch=partial(_calls, library="torch_cuda"),
    call_numpy=partial(_calls, library="numpy"),
    idle_time=Run.idle_time,
    gap=_gap,
    host_time=partial(Run.time, size=SOURCE, library="numpy"),
    widest_host=partial(Run.time, size=WIDEST, library="numpy"),
    time_cupy=partial(Run.time, size=SOURCE, library="cupy"),
)
later.values("measured", later_host=partial(Run.time, size=WIDEST, library="numpy"))
earlier.values(
    "measured",
    earlier_time=partial(Run.time, size=SOURCE, library="cupy"),
    earlier_host=partial(Run.time, size=SOURCE, library="numpy"),
    earlier_faults=partial(Run.page_faults, size=SOURCE),
    earlier_growth=partial(Run.growth_to, size=SOURCE, base=SHARED),
)


@cpu.value()
def double(run: Run) -> Quantity:
    return run.time(SOURCE, "numpy", "float64") / run.time(SOURCE, "numpy")


jax.values(
    compiled_few=partial(Run.gain_of_compiling, size=SMALL),
    compiled_many=partial(Run.gain_of_compiling, size=SOURCE),
)
study.part("repeat", "pair").values(
    "measured",
    repeat_eager=partial(Run.time, size=SMALL, library="jax"),
    repeat_compiled=Run.compiled_time,
    repeat_calls=partial(Run.calls_time, library="jax"),
    repeat_products=partial(Run.products_time, size=SMALL, library="jax"),
    repeat_numpy=partial(Run.time, size=SMALL, library="numpy"),
)
both.values(
    least_shift=partial(runs.extreme_shift, choose=smallest),
    most_shift=partial(runs.extreme_shift, choose=largest),
)
changed.values(
    "measured",
    effect_double=partial(theory.effect, size=SOURCE, change=theory.DOUBLE),
    predicted_double=partial(theory.predicted, size=SOURCE, change=theory.DOUBLE),
    product_share=theory.product_share_of_miss,
)
for _name, _size in ("source", SOURCE), ("wide", LESS_WIDE):
    _faults = partial(theory.changed, quantity="page_faults", change=theory.RETURNED)
    study.constants(**{f"shapes_{_name}": exact("pages", "1", theory.mapped_pages(_size))})
    changed.values(**{f"pages_{_name}": partial(_faults, size=_size)})


# -------------------------------------------------------------------------------------- claims


@gpu.claim("With the fewest images the GPU idles for over a third of an iteration")
def host_sets_pace(run: Run) -> Iterator[Statement]:
    for library in ON_GPU:
        yield run.idle(library) > 1 / 3


@gpu.claim("At the source's size products alone keep the GPU busy for over half of PyTorch's time")
def nearly_busy(run: Run) -> Statement:
    return run.busy("torch_cuda") > 0.5


@gpu.claim("Up to five times the source's work CuPy's iteration grows by less than a quarter")
def floor(run: Run) -> Iterator[Statement]:
    for size in run.small_sizes:
        if size != SMALL:
            yield run.growth_to(size) < LEVEL


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


@gpu.claim("With the least work the GPU is more than a tenth slower than the CPU beside it")
def small_slower(run: Run) -> Statement:
    return run.gain(SMALL) < 1 - MARGIN


@jax.claim(
    "JAX's compiler gains half with few images and less than a quarter with many, on one CPU",
    numbers=("compiled_few", "compiled_many"),
)
def compiling_gains(run: Run) -> Iterator[Statement]:
    yield run.gain_of_compiling(SMALL) > 1.5
    yield run.gain_of_compiling(SOURCE) < LEVEL


@beside_source.claim(
    "The GPU's speed-up is that which the source prints, within a tenth",
    numbers=("source_speedup", "here"),
)
def same_speedup(pair: tuple[Run, Source]) -> Statement:
    run, source = pair
    printed = float(source.cell("3", "time", "speedup").number)
    return run.gain(SOURCE).near(printed, within=MARGIN * printed)


@both.claim("NumPy on one thread of another CPU is more than a tenth slower at every size")
def baseline_matters(pair: Pair) -> Iterator[Statement]:
    for shift in runs.host_shifts(pair):
        yield shift > 1 + MARGIN


@gpu.claim("The GPU's speed-up grows by more than a tenth with the images")
def gap_grows_images(run: Run) -> Statement:
    return run.growth_of_gain(SOURCE, SMALL) > 1 + MARGIN


@gpu.claim("The GPU's speed-up grows by more than a tenth with the neurons")
def gap_grows_neurons(run: Run) -> Statement:
    return run.growth_of_gain(LARGE, SOURCE) > 1 + MARGIN


@gpu.claim("Losses of the GPU's training differ from NumPy's by less than a thousandth")
def alike(run: Run) -> Iterator[Statement]:
    for kind in ("train", "test"):
        yield run.largest_difference(f"{kind}_loss") < ALIKE_LOSS


@gpu.claim("After each iteration the GPU's network classifies as many images right as NumPy's")
def same_accuracy(run: Run) -> Iterator[Statement]:
    for kind in ("train", "test"):
        yield run.largest_difference(f"{kind}_accuracy").exactly(0)


@changed.claim("A second thread saves half of the time of the products, within a fifth of that")
def thread_as_predicted(run: Run) -> Iterator[Statement]:
    return theory.as_predicted(run, theory.THREAD)


@changed.claim("Returning freed memory adds its pages at their price, within a fifth of that")
def returned_as_predicted(run: Run) -> Iterator[Statement]:
    return theory.as_predicted(run, theory.RETURNED)


@changed.claim("Double precision adds the baseline's work once more, within a fifth of that")
def double_as_predicted(run: Run) -> Iterator[Statement]:
    return theory.as_predicted(run, theory.DOUBLE)


@changed.claim("On one image none of the four changes moves the baseline by more than a tenth")
def calls_shield(run: Run) -> Iterator[Statement]:
    for change in CHANGES:
        yield theory.effect(run, ONE_IMAGE, change).near(1, within=MARGIN)


#: Libraries whose calls were changed on a CPU.
_ON_CPU: Final = ("numpy", "torch")


@calls.claim("Added calls cost as much with a thousand images as with one, within a fifth")
def calls_have_a_price(run: Run) -> Iterator[Statement]:
    for library in _ON_CPU:
        yield theory.confirms_calls(run, library, DOUBLED_CALLS, ONE_IMAGE.images)
        yield theory.confirms_calls(run, library, MANY_CALLS, SMALL.images)


@calls.claim("At the source's size as many calls again add less than a fiftieth")
def calls_vanish(run: Run) -> Iterator[Statement]:
    for library in _ON_CPU:
        yield theory.effect_of_calls(run, library, DOUBLED_CALLS, SOURCE.images) < 1.02


@calls.claim("On one image merged calls save their share of PyTorch's iteration, within a fifth")
def merging_saves_calls(run: Run) -> Statement:
    return theory.confirms_calls(run, "torch", MERGED_CALLS, ONE_IMAGE.images)


@calls.claim("With a thousand images merged calls save what they save with one, within a fifth")
def merging_keeps_its_gain(run: Run) -> Statement:
    return theory.confirms_calls(run, "torch", MERGED_CALLS, SMALL.images)


@calls.claim("At the source's size merged calls save less than a tenth")
def merging_vanishes(run: Run) -> Statement:
    return theory.effect_of_calls(run, "torch", MERGED_CALLS, SOURCE.images) > 1 - MARGIN


# -------------------------------------------------------------------------- figures and tables

with_source.figure(key=True, height=2.9)(figures.curve)
gpu.figure(height=2.5)(figures.pace)

_SIZES: Final = ("Host (ms)", "CuPy (ms)", "PyTorch (ms)", "Other CPU (ms)")
_MEASURED: Final = ("Ours: CPU (ms)", "Ours: GPU (ms)", "Ours: gain")


@study.table(wide=True, digits={"Work (GFLOP)": 2, **dict.fromkeys(_SIZES, 2)})
def sizes(p: Paper) -> Iterator[Mapping[str, Content]]:
    if not (run := p.gpu):
        return
    missing = absent("time", "s", "no other CPU ran")
    for size in run.sizes:
        times = [run.time(size, library) for library in ("numpy", *ON_GPU)]
        times.append(p.cpu.time(size, "numpy") if p.cpu else missing)
        brief = [to_digits(time, 2) for time in times]
        yield {
            "Neurons": size.hidden,
            "Images": size.images,
            "Work (GFLOP)": to_digits(subject.work(size), 2),
            **dict(zip(_SIZES, brief, strict=True)),
            "Page faults": run.page_faults(size),
        }


@study.table(wide=True, digits=dict.fromkeys(_MEASURED, 2))
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
            ours = [p.gpu.measured(row, SOURCE, library) for library in ("numpy", "cupy")]
            ours.append(p.gpu.gain_in("cupy", SOURCE, row))
            brief = [to_digits(cell, 2) for cell in ours]
            cells |= zip(_MEASURED, brief, strict=True)
        yield cells


@changed.table("changes", wide=True)
def _by_change(run: Run) -> Iterator[Mapping[str, Content]]:
    for change in CHANGES:
        row: dict[str, Content] = {"Change": change}
        for size in SOURCE, LESS_WIDE:
            name = f"{size.hidden} × {size.images:,}"
            row[f"{name}: predicted"] = to_digits(theory.predicted(run, size, change), 3)
            row[f"{name}: measured"] = theory.effect(run, size, change)
            row[f"{name}: verdict"] = verdict_of(theory.confirms(run, size, change))
        yield {**row, "10 × 1: measured": theory.effect(run, ONE_IMAGE, change)}


@calls.table("calls", wide=True)
def _by_calls(run: Run) -> Iterator[Mapping[str, Content]]:
    """Tabulate the effect of other numbers of calls; the price is taken from one of the cells."""
    numbers = (MERGED_CALLS, DIVIDED_CALLS, DOUBLED_CALLS, MANY_CALLS)
    for library, number in product(_ON_CPU, numbers):
        if (library, number) == ("numpy", MERGED_CALLS):
            continue
        row: dict[str, Content] = {"Library": subject.NAMES[library], "Calls": number}
        for images in ONE_IMAGE.images, SMALL.images, SOURCE.images:
            case = run, library, number, images
            predicted = to_digits(theory.predicted_effect_of_calls(*case), 3)
            if number == MANY_CALLS and images == ONE_IMAGE.images:
                predicted = absent("predicted effect", "1", "its measurement sets the price")
            row[f"{images:,}: predicted"] = predicted
            row[f"{images:,}: measured"] = theory.effect_of_calls(*case)
        yield row


@study.table("compiling", wide=True)
def _by_run(p: Paper) -> Iterator[Mapping[str, Content]]:
    for run in p.compiled:
        row: dict[str, Content] = {"CPU": _cpu_family(run), "Threads": run.threads}
        for size in SMALL, SOURCE:
            name = f"JAX, {size.hidden} × {size.images:,}"
            eager, compiled = run.times_around_compiling(size)
            row[name] = run.gain_of_compiling(size)
            row[f"Processes, {size.images:,}"] = f"{len(eager)} and {len(compiled)}"
        row["Verdict"] = verdict_of(all_of(*compiling_gains(run)))
        for size in SHARED, FLAT:
            name = f"PyTorch, {size.hidden:,} × {size.images:,}"
            row[name] = run.gain_of_compiling(size, "torch")
        yield row


@study.table(wide=True, digits={"Printed ÷ recomputed": 3})
def audit(p: Paper) -> Iterator[Mapping[str, Content]]:
    for item in p.audit():
        if item.verdict == "differs":
            row = audit_row(p, item)
            yield row if item.known else {**row, "Finding": "no formula found"}


#: Rows omitted from the set-up table: no measured number depends on them.
_OMITTED_ROWS: Final = ("Memory", "C library", "Vector extensions", "Arithmetic")


@study.shared_table()
def machines(p: Paper) -> Table:
    """Tabulate the runs of the sentences; the model names a GPU."""
    gpu = replace(p.gpu, label=_gpu_model(p.gpu)) if p.gpu else None
    table = setup([run for run in (p.cpu, p.changed, gpu) if run])
    return replace(table, rows=tuple(row for row in table.rows if row[0] not in _OMITTED_ROWS))
