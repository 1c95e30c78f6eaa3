"""Declarations of backend_speedup: templates print a function's result by the function's name."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Final

from figures.panels import Dots
from report.core.text.escape import markdown
from report.evidence.audit import count_by_verdict
from report.paper.findings import Inputs
from report.paper.machines import MachineComparison, properties, setup, short_name
from report.paper.study import Content, Part, Study
from report.paper.tables import Table
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, exact_number
from report.studies.backend_speedup import figures, results, runs, subject, theory
from report.studies.backend_speedup.runs import PRODUCT_TIME, Run
from report.studies.backend_speedup.source import OPERATIONS, Source
from report.studies.backend_speedup.subject import LARGE_SIZE, SMALL_SIZE, SOURCE_SIZE, UNCHANGED

#: Relative difference of times or speed-ups below which a claim calls them equal.
MARGIN: Final = 0.1
#: Growth up to which a GPU's time is called nearly constant.
NEARLY_CONSTANT: Final = 1.25
#: Relative difference below which losses are called equal.
LOSS_TOLERANCE: Final = 1e-3


class Paper:
    """The source study's numbers, and all runs; a named run is None without its record."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.source = Source(inputs)
        self.by_role = inputs.runs(Run)  # role of a record in the paper → run
        self.cpu, self.gpu = self.by_role.get("cpu"), self.by_role.get("gpu")
        self.earlier, self.calls = self.by_role.get("second"), self.by_role.get("third")
        self.zen3, self.first_run = self.by_role.get("eighth"), self.by_role.get("tenth")
        self.gpu_and_source = (self.gpu, self.source) if self.gpu else None
        self.two_sessions = (self.gpu, self.earlier) if self.gpu and self.earlier else None
        self.gpu_and_cpu = (self.gpu, self.cpu) if self.gpu and self.cpu else None


def _over_numpy(run: Run) -> Quantity:
    """Divide NumPy's time of an iteration by PyTorch's, at the source's size."""
    return run.measured("time", SOURCE_SIZE, "numpy") / run.measured("time", SOURCE_SIZE, "torch")


#: Definition of this speed-up, as printed in reports.
_OVER_NUMPY: Final = "time of NumPy's iteration divided by that of PyTorch's, at the source's size"
study: Study[Paper] = Study(
    Paper,
    subject.check_subject,
    MachineComparison(Run, "PyTorch over NumPy", _over_numpy, _OVER_NUMPY, reference=1.0),
    audits=lambda paper: paper.source.audit(),
)
findings = study.findings
source: Part[Source] = study.part("source")
# Runs on CPUs.  ``cpu`` measured changes to NumPy's iteration, ``calls`` other numbers of library
# calls, ``zen3`` double precision, and ``first_run`` page faults of the first version.
cpu: Part[Run] = study.part("cpu")
calls: Part[Run] = study.part("calls", kind="cpu")
zen3: Part[Run] = study.part("zen3", kind="cpu")
first_run: Part[Run] = study.part("first_run", kind="cpu")
# The main session on a GPU, alone and compared with the source, an earlier session and ``cpu``.
gpu: Part[Run] = study.part("gpu")
gpu_and_source: Part[tuple[Run, Source]] = study.part("gpu_and_source", kind="gpu")
two_sessions: Part[tuple[Run, Run]] = study.part("two_sessions", kind="pair")
gpu_and_cpu: Part[tuple[Run, Run]] = study.part("gpu_and_cpu", kind="pair")


@gpu.text()
def gpu_and_host(run: Run) -> str:
    return markdown(str(properties(run.stored.record.environment)["Device"]))


@cpu.text()
def commit(run: Run) -> str:
    code = run.stored.record.code
    return f"`{(code.commit or 'unknown')[:12]}`{'' if code.tree_clean else ', changed'}"


cpu.texts(cpu=short_name)


@study.text()
def gpu_versions(paper: Paper) -> str:
    run, attachments = paper.gpu, paper.inputs.attachments
    return runs.library_versions(run, attachments.get(run.file, {})) if run else ""


@source.mapping()
def _counts(source: Source) -> dict[str, Quantity]:
    checks = tuple(source.audit())
    counts = {
        "second_products": 3,
        "few_images": SMALL_SIZE.images,
        "fewer_images": subject.MIDDLE_SIZE.images,
        "many_images": SOURCE_SIZE.images,
        "most_neurons": subject.WIDEST_SIZE.hidden,
        "large_neurons": LARGE_SIZE.hidden,
        "wide_neurons": subject.WIDE_SIZE.hidden,
        "shared_images": subject.DIGITS_IMAGES,
        "calls": subject.ALL_CALLS,
        "merged_calls": subject.MERGED_CALLS,
        "most_calls": subject.OTHER_CALLS[-1],
        "audited": len(checks),
        "differing": count_by_verdict(checks)["differs"],
    }
    return {
        **{id: exact_number(id.replace("_", " "), "1", count) for id, count in counts.items()},
        "pixels": theory.D,
        "hidden": theory.H,
        "classes": theory.K,
        "learned": source.value("training"),
        "source_speedup": source.value("total_speedup"),
    }


@source.mapping("measured")
def _times_and_work(source: Source) -> dict[str, Quantity]:
    return {
        "source_cpu": source.number("3", "time", "cpu"),
        "source_gpu": source.number("3", "time", "gpu"),
        "flat_work": to_digits(theory.work(subject.LARGEST_FLAT_SIZE), 2),
    }


@gpu.value()
def threads(run: Run) -> Quantity:
    return exact_number("threads", "1", run.threads, run.file)


_faults = partial(Run.measured, quantity="page_faults", library="numpy")
_smallest_time = partial(Run.measured, quantity="time", size=SMALL_SIZE, library="cupy")
gpu.values("percent", idle=results.idle_share)
first_run.values(faults=partial(_faults, size=SOURCE_SIZE))
gpu.values(  # speed-ups over NumPy on the GPU's host ("here")
    here=partial(results.gain, library="cupy"),
    here_torch=partial(results.gain, library="torch_cuda"),
    small=partial(results.gain, library="cupy", size=SMALL_SIZE),
    large=partial(results.gain, library="cupy", size=LARGE_SIZE),
    host_faults=partial(_faults, size=LARGE_SIZE),
)
gpu.values("measured", floor=_smallest_time)  # CuPy's time hardly falls below this time
# Times that fewer library calls save and that more calls add, on one, few and many images.
for _name, _size in ("one", subject.ONE_IMAGE), ("few", SMALL_SIZE), ("many", SOURCE_SIZE):
    _saved = partial(results.time_saved_by_merging, size=_size)
    _added = partial(results.time_added_by_calls, size=_size, calls=subject.OTHER_CALLS[-1])
    calls.values("measured", **{f"saved_{_name}": _saved, f"added_{_name}": _added})
_effect = partial(results.effect, size=SOURCE_SIZE)
_over_predicted = partial(results.effect_over_predicted, size=SOURCE_SIZE)
_faults_with = partial(Run.numpy_with, quantity="page_faults", size=SOURCE_SIZE)
cpu.values(
    thread_factor=partial(_effect, change=UNCHANGED, reference=subject.SECOND_THREAD),
    memory_factor=partial(_effect, change=subject.MEMORY_RETURNED),
    double_factor=partial(_effect, change=subject.DOUBLE_PRECISION),
    memory_over=partial(_over_predicted, change=subject.MEMORY_RETURNED),
    double_over=partial(_over_predicted, change=subject.DOUBLE_PRECISION),
    returned=partial(_faults_with, change=subject.MEMORY_RETURNED),
)
for _name, _change in (
    ("thread", subject.SECOND_THREAD),
    ("memory", subject.MEMORY_RETURNED),
    ("double", subject.DOUBLE_PRECISION),
):
    cpu.values(**{f"{_name}_share": partial(results.share_of_predicted, change=_change)})
for _name, _size in ("few", SMALL_SIZE), ("fewer", subject.MIDDLE_SIZE), ("many", SOURCE_SIZE):
    zen3.values(**{f"zen3_{_name}": partial(results.float64_factor, size=_size)})
cpu.values("measured", page_price=theory.page_mapping_time)
for _name, _library in ("cupy", "cupy"), ("torch", "torch_cuda"), ("numpy", "numpy"):
    two_sessions.values(**{f"session_{_name}": partial(results.session_effect, library=_library)})
gpu_and_cpu.values(one_thread=results.gain_over)


@gpu.claim("With the fewest images the GPU idles for over a third of CuPy's iteration")
def host_sets_pace(run: Run) -> Iterator[Statement]:
    for size in SMALL_SIZE, subject.DIGITS_SIZE:
        yield results.idle_share(run, size) > 1 / 3


@gpu.claim("Up to five times the source's work CuPy's iteration grows by less than a quarter")
def floor(run: Run) -> Iterator[Statement]:
    for size in run.sizes[1:]:
        if size.multiply_adds <= subject.LARGEST_FLAT_SIZE.multiply_adds:
            yield results.growth_to(run, size) < NEARLY_CONSTANT


@cpu.claim(
    "On one CPU a second thread, returned memory and double precision each change a GPU's speed-up "
    "by more than a tenth",
    numbers=("thread_factor", "memory_factor", "double_factor"),
)
def settings_matter(run: Run) -> Iterator[Statement]:
    yield results.effect(run, SOURCE_SIZE, UNCHANGED, reference=subject.SECOND_THREAD) > 1 + MARGIN
    for change in subject.MEMORY_RETURNED, subject.DOUBLE_PRECISION:
        yield results.effect(run, SOURCE_SIZE, change) > 1 + MARGIN


@gpu_and_cpu.claim(
    "Beside one thread of another CPU CuPy's speed-up is over four times that beside the host",
    numbers=("one_thread", "here"),
)
def baseline_decides(pair: tuple[Run, Run]) -> Statement:
    return results.gain_over(pair, library="numpy") > 4


@gpu.claim(
    "In one session CuPy takes a tenth longer than PyTorch at the source's size",
    numbers=("here_torch", "here"),
)
def library_matters(run: Run) -> Statement:
    return results.gain(run, "torch_cuda", reference="cupy") > 1 + MARGIN


@two_sessions.claim(
    "PyTorch's speed-up and CuPy's time are a tenth larger in the earlier session",
    numbers=("session_torch", "session_numpy", "session_cupy"),
)
def session_matters(pair: tuple[Run, Run]) -> Iterator[Statement]:
    main, earlier = ((run, "time", SOURCE_SIZE) for run in pair)
    yield results.ratio_of_gains(earlier, main, "torch_cuda") > 1 + MARGIN
    yield results.session_effect(pair, "cupy") > 1 + MARGIN


@gpu_and_source.claim(
    "CuPy's speed-up is within a tenth of the source's", numbers=("source_speedup", "here")
)
def same_speedup(pair: tuple[Run, Source]) -> Statement:
    run, source = pair
    printed = float(source.cell("3", "time", "speedup").number)
    return results.gain(run, "cupy").near(printed, within=MARGIN * printed)


@gpu.claim("In one session CuPy's speed-up grows by more than a tenth with the images")
def gap_grows_images(run: Run) -> Statement:
    many_images, few_images = (run, "time", SOURCE_SIZE), (run, "time", SMALL_SIZE)
    return results.ratio_of_gains(many_images, few_images, "cupy") > 1 + MARGIN


@gpu.claim("In one session CuPy's speed-up grows by more than a tenth with the neurons")
def gap_grows_neurons(run: Run) -> Statement:
    many_neurons, few_neurons = (run, "time", LARGE_SIZE), (run, "time", SOURCE_SIZE)
    return results.ratio_of_gains(many_neurons, few_neurons, "cupy") > 1 + MARGIN


@gpu.claim("At the source's size CuPy speeds up products more than each other operation")
def products_benefit_most(run: Run) -> Iterator[Statement]:
    for operation in OPERATIONS:
        if operation != PRODUCT_TIME:
            gains = (run, PRODUCT_TIME, SOURCE_SIZE), (run, operation, SOURCE_SIZE)
            yield results.ratio_of_gains(*gains, "cupy") > 1


@gpu.claim("Losses of the GPU's training differ from NumPy's by less than a thousandth")
def alike(run: Run) -> Iterator[Statement]:
    for quantity in ("train_loss", "test_loss"):
        yield results.largest_difference(run, quantity) < LOSS_TOLERANCE


@gpu.claim("After each iteration the GPU's network classifies as many images right as NumPy's")
def same_accuracy(run: Run) -> Iterator[Statement]:
    for quantity in ("train_accuracy", "test_accuracy"):
        yield results.largest_difference(run, quantity).exactly(0)


@cpu.claim("With a second thread NumPy's time is within a fifth of the predicted time")
def thread_as_predicted(run: Run) -> Iterator[Statement]:
    return results.as_predicted(run, subject.SECOND_THREAD)


@cpu.claim(
    "With freed memory returned NumPy's time is within a fifth of the predicted time",
    numbers=("memory_over", "memory_share"),
)
def returned_as_predicted(run: Run) -> Iterator[Statement]:
    return results.as_predicted(run, subject.MEMORY_RETURNED)


@cpu.claim(
    "In double precision NumPy's time is within a fifth of the predicted time",
    numbers=("double_over", "double_share"),
)
def double_as_predicted(run: Run) -> Iterator[Statement]:
    return results.as_predicted(run, subject.DOUBLE_PRECISION)


@cpu.claim("With a fused ReLU NumPy's time is within a fifth of the predicted time")
def fused_as_predicted(run: Run) -> Iterator[Statement]:
    return results.as_predicted(run, subject.FUSED_RELU)


@cpu.claim("On one image none of four changes moves NumPy's time by more than a fifth")
def calls_shield(run: Run) -> Iterator[Statement]:
    for change in subject.CHANGES:
        yield results.effect(run, subject.ONE_IMAGE, change).near(1, within=results.TOLERANCE)


@calls.claim(
    "Other numbers of library calls add to PyTorch's iteration, or save, as much with 1,000 and "
    "60,000 images as on one, to a tenth"
)
def calls_carry_over(run: Run) -> Iterator[Statement]:
    for size, number in product((SMALL_SIZE, SOURCE_SIZE), subject.OTHER_CALLS):
        added = results.time_added_by_calls(run, size, number)
        added_on_one_image = results.time_added_by_calls(run, subject.ONE_IMAGE, number)
        yield (added / added_on_one_image).near(1, within=MARGIN)


gpu.figure(height=1.9, wide=True)(figures.curve)
cpu.figure(key=True)(figures.effects)


@study.figure(height=2.3, wide=True)
def sessions(paper: Paper) -> Iterator[Dots]:
    """Draw NumPy's time, the GPU's time and their ratio at the source's size, per baseline."""
    if not (paper.gpu and paper.cpu):
        return
    rows: dict[str, tuple[Quantity, Quantity, Quantity]] = {}  # name → NumPy, GPU, ratio
    cupy_time = paper.gpu.measured("time", SOURCE_SIZE, "cupy")
    for change in (UNCHANGED, *subject.CHANGES):
        if change != subject.FUSED_RELU:
            name = "other CPU" if change == UNCHANGED else f"+ {change}"
            numpy_time = paper.cpu.numpy_with("time", SOURCE_SIZE, change)
            speedup = results.gain_over((paper.gpu, paper.cpu), change)
            rows[f"{name}; CuPy"] = numpy_time, cupy_time, speedup
    hosts = {"host": paper.gpu} | ({"host, earlier": paper.earlier} if paper.earlier else {})
    for name, run in hosts.items():
        numpy_time = run.measured("time", SOURCE_SIZE, "numpy")
        for library, label in subject.GPU_LIBRARIES.items():
            gpu_time = run.measured("time", SOURCE_SIZE, library)
            rows[f"{name}; {label}"] = numpy_time, gpu_time, results.gain(run, library)
    times = paper.source.number("3", "time", "cpu"), paper.source.number("3", "time", "gpu")
    rows["the source's; CuPy"] = *times, paper.source.value("total_speedup")
    yield from figures.times_and_ratios(rows)


@study.table()
def cpus(paper: Paper) -> Iterator[Mapping[str, Content]]:
    """Tabulate NumPy's times and page faults in all runs, with freed memory kept and returned."""
    for run, change in product(paper.by_role.values(), (UNCHANGED, subject.MEMORY_RETURNED)):
        case = run.numpy_factors(SOURCE_SIZE, change)
        processes = len(run.process_medians("time", case))
        if processes and (change == UNCHANGED or run.has_changes):
            keeps_memory = run.policies == ("retained",)  # the allocator keeps freed memory
            policy = "kept" if keeps_memory else "default"
            yield {
                **_identify(run),
                "Memory": policy if change == UNCHANGED else "returned",
                "Faults": to_digits(run.series("page_faults", case), 4),
                "Processes": processes,
                "Time (ms)": to_digits(run.series("time", case), 3),
            }


def _identify(run: Run) -> Mapping[str, Content]:
    """Return the cells that identify a run: machine, start in November 2026, threads."""
    return {
        "NumPy on": "host" if run.on_gpu else run.label.partition(",")[0],
        "November": run.stored.record.started[8:16].replace("T", ", "),
        "Threads": 1 if run.has_changes else run.threads,
    }


@study.table(wide=True)
def double(paper: Paper) -> Iterator[Mapping[str, Content]]:
    """Tabulate the slowdown by double precision in all runs that measured it, per image count."""
    for run in paper.by_role.values():
        for size in run.sizes:
            factors: dict[str, Quantity] = {}
            for hidden in (SOURCE_SIZE.hidden, LARGE_SIZE.hidden, subject.WIDEST_SIZE.hidden):
                factor = results.float64_factor(run, size._replace(hidden=hidden))
                factors[f"{hidden:,} neurons"] = factor
            in_training = results.float64_factor(run, size, "training")
            if size.hidden == SOURCE_SIZE.hidden and not factors[f"{size.hidden} neurons"].missing:
                row = {**_identify(run), "Images": size.images}
                yield {**row, **factors, "In training": in_training}


@study.table()
def ceilings(paper: Paper) -> Iterator[Mapping[str, Content]]:
    """Tabulate shares of peak rates, and effects of double precision on the first product.

    ``run`` timed the network, and ``peaks`` is the run with the peak rates of the same CPU.
    """
    for network, size, run, peaks in (
        ("narrow", SOURCE_SIZE, paper.cpu, paper.calls),
        ("wide", subject.WIDE_SIZE, paper.cpu, paper.calls),
        ("narrow, Zen 3", SOURCE_SIZE, paper.zen3, paper.zen3),
    ):
        if run and peaks:
            arithmetic, memory = results.shares_of_ceilings(run, peaks, size)
            product_factor, rest_factor = results.float64_factors_by_part(run, size)
            yield {
                "Network": network,
                "Arithmetic (%)": to_digits(arithmetic, 2),
                "Memory (%)": to_digits(memory, 2),
                "Product": product_factor,
                "Rest": rest_factor,
            }


@cpu.table("changes")
def _rows_by_change(run: Run) -> Iterator[Mapping[str, Content]]:
    """Tabulate predicted and measured effects of each change on both networks."""
    for (name, size), change in product(subject.NETWORKS.items(), subject.CHANGES):
        yield {
            "Network": name,
            "Change": change,
            "Predicted": to_digits(results.predicted_effect(run, size, change), 3),
            "Measured": results.effect(run, size, change),
            "Over prediction": results.effect_over_predicted(run, size, change),
        }


@cpu.table("inputs")
def _rows_by_input(run: Run) -> Iterator[Mapping[str, Content]]:
    """Tabulate the measured times (ms) from which the effects of changes were predicted."""
    # Letter in the paper's formula of the prediction → measured time.
    symbols = {"t": "time", "p": PRODUCT_TIME, "b": "bias_time", "r": "relu_time"}
    for case, size in {**subject.NETWORKS, "one image": subject.ONE_IMAGE}.items():
        row: dict[str, Content] = {"Case": case}
        for symbol, quantity in symbols.items():
            row[f"{symbol} (ms)"] = to_digits(run.numpy_with(quantity, size), 4)
        yield {**row, "Pages n": theory.mapped_pages(size)}


@gpu_and_source.table("parts", digits={"Source (ms)": 3, "CuPy (ms)": 2})
def _rows_by_part(pair: tuple[Run, Source]) -> Iterator[Mapping[str, Content]]:
    """Tabulate times of an iteration and its operations on the source's and our GPU."""
    run, source = pair
    for quantity, part in {**OPERATIONS, "time": "Iteration"}.items():
        table = "4" if quantity in OPERATIONS else "3"
        yield {
            "Part": part.removesuffix(" activation"),
            "Source (ms)": source.number(table, quantity, "gpu"),
            "CuPy (ms)": to_digits(run.measured(quantity, SOURCE_SIZE, "cupy"), 2),
            "Source's gain": source.number(table, quantity, "speedup"),
            "CuPy's gain": to_digits(results.gain(run, "cupy", quantity=quantity), 2),
            "PyTorch's gain": to_digits(results.gain(run, "torch_cuda", quantity=quantity), 2),
        }


#: Rows that the table of machines omits to remain short; the records contain them.
_OMITTED: Final = ("Memory", "C library", "Vector extensions", "Arithmetic", "Device", "Caches",
                   "Identity")  # fmt: skip


@study.table()
def machines(paper: Paper) -> Table:
    """Tabulate the machines of ``cpu`` and ``calls``, and of both sessions on the GPU."""
    sessions = {"main": paper.gpu, "earlier": paper.earlier}
    on_gpu = [replace(run, label=f"GPU, {name} session") for name, run in sessions.items() if run]
    table = setup([*(run for run in (paper.cpu, paper.calls) if run), *on_gpu])
    return replace(table, rows=tuple(row for row in table.rows if row[0] not in _OMITTED))
