"""backend_speedup as its paper and its reports print it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Final

from report.core.text.escape import markdown
from report.evidence.audit import Check, count_by_verdict
from report.paper.findings import Inputs
from report.paper.machines import MachineComparison, setup, short_name
from report.paper.study import Content, Part, Study
from report.paper.tables import Table
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.verdicts import all_of, verdict_of
from report.studies.backend_speedup import figures, results, runs, subject, theory
from report.studies.backend_speedup.runs import PRODUCTS, Run
from report.studies.backend_speedup.source import OPERATIONS, PERFORMANCE, Source
from report.studies.backend_speedup.subject import (
    DIVIDED_CALLS,
    DOUBLED_CALLS,
    FLAT,
    LARGE,
    LESS_WIDE,
    MANY_CALLS,
    MERGED_CALLS,
    MIDDLE,
    ON_CPU,
    ON_GPU,
    ONE_IMAGE,
    SHARED,
    SMALL,
    SOURCE,
    WIDEST,
)
from report.studies.backend_speedup.theory import Comparison

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
        self.cpu, self.changed, self.earlier, self.later, self.calls, gpu = (
            by_role.get(role) for role in ("cpu", "second", "third", "fourth", "fifth", "gpu")
        )
        if self.cpu:  # a report on one CPU, whose record has no further role
            self.changed = self.changed or self.cpu.with_subject("change")
            self.calls = self.calls or self.cpu.with_subject("calls")
        others = tuple(run for run in (self.earlier, self.later) if run)
        self.gpu = replace(gpu, sessions=others) if gpu else None
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
earlier: Part[Run] = study.part("earlier", "pair")
changed: Part[Run] = study.part("changed", "cpu")
later: Part[Run] = study.part("later", "pair")
calls: Part[Run] = study.part("calls", "cpu")
beside_source: Part[tuple[Run, Source]] = study.part("beside_source", "pair")
with_source: Part[tuple[Run, Source]] = study.part("beside_source", "gpu")


def _gpu_model(run: Run) -> str:
    model = run.stored.record.environment.gpu
    return model.model if model else ""


def _gpu_name(run: Run) -> str:
    return markdown(_gpu_model(run))


def _cpu_model(run: Run) -> str:
    return markdown(run.stored.record.environment.cpu.model)


gpu.texts(gpu=_gpu_name, host=_cpu_model)
cpu.texts(cpu=short_name)
changed.texts(changed_cpu=short_name)


def _versions(p: Paper, name: str) -> str:
    run: Run | None = getattr(p, name)
    return runs.library_versions(run, p.inputs.attachments.get(run.file, {})) if run else ""


for _name in "gpu", "cpu":
    study.texts(**{f"{_name}_versions": partial(_versions, name=_name)})


# -------------------------------------------------------------------------------------- values


@source.mapping()
def _counts(source: Source) -> dict[str, Quantity]:
    checks = tuple(source.audit())
    counts = {
        "second_products": 3,
        "few_images": SMALL.images,
        "middle_images": MIDDLE.images,
        "many_images": SOURCE.images,
        "most_neurons": WIDEST.hidden,
        "large_neurons": LARGE.hidden,
        "wide_neurons": LESS_WIDE.hidden,
        "shared_images": SHARED.images,
        "calls": subject.ALL_CALLS,
        "divided_calls": DIVIDED_CALLS,
        "merged_calls": MERGED_CALLS,
        "doubled_calls": DOUBLED_CALLS,
        "many_calls": MANY_CALLS,
        "audited": len(checks),
        "differing": count_by_verdict(checks)["differs"],
    }
    return {
        **{name: exact(name.replace("_", " "), "1", count) for name, count in counts.items()},
        "pixels": theory.D,
        "hidden": theory.H,
        "classes": theory.K,
        "learned": source.value("training"),
        "source_speedup": source.value("total_speedup"),
    }


@source.mapping("measured")
def _printed(source: Source) -> dict[str, Quantity]:
    return {
        "source_cpu": source.number("3", "time", "cpu"),
        "source_gpu": source.number("3", "time", "gpu"),
        "source_work": to_digits(theory.work(SOURCE), 2),
        "flat_work": to_digits(theory.work(FLAT), 2),
        "flat_growth": to_digits(theory.work(FLAT) / theory.work(SOURCE), 2),
    }


source.values("percent", gradient_share=Source.gradient_share)


def _small_sizes(run: Run) -> Quantity:
    return exact("sizes", "1", len(run.small_sizes), run.file)


def _threads(run: Run) -> Quantity:
    return exact("threads", "1", run.threads, run.file)


gpu.values(threads=_threads, small_sizes=_small_sizes)
for _name, _library in ("", "cupy"), ("_torch", "torch_cuda"):
    gpu.values(
        **{
            f"here{_name}": partial(results.gain, library=_library),
            f"there{_name}": partial(results.gain, library=_library, session=1),
            f"growth_to_source{_name}": partial(results.growth_to, size=SOURCE, library=_library),
            f"over_earlier{_name}": partial(results.over_earlier, library=_library),
            f"earlier_growth{_name}": partial(
                results.growth_to, size=SOURCE, base=SHARED, library=_library, session=1
            ),
        }
    )
    gpu.values(
        "percent",
        **{
            f"idle{_name}": partial(results.idle, library=_library),
            f"busy{_name}": partial(results.busy, library=_library),
            f"small_growth{_name}": partial(results.largest_growth, library=_library),
        },
    )
    gpu.values(
        "measured",
        **{
            f"floor{_name}": partial(Run.time, size=SMALL, library=_library),
            f"least_products{_name}": partial(
                Run.measured, quantity=PRODUCTS, size=SMALL, library=_library
            ),
            f"call_time{_name}": partial(
                Run.measured, quantity="call_time", size=SMALL, library=_library
            ),
            f"per_call{_name}": partial(results.time_per_call, library=_library),
        },
    )
gpu.values(
    small=partial(results.gain, library="cupy", size=SMALL),
    large=partial(results.gain, library="cupy", size=LARGE),
    widest=partial(results.gain, library="cupy", size=WIDEST),
    between_libraries=results.between_libraries,
    large_growth=partial(results.growth_to, size=LARGE),
    widest_growth=partial(results.growth_to, size=WIDEST),
)
gpu.values(
    "measured",
    products_growth=partial(results.growth, quantity=PRODUCTS, library="cupy"),
    growth=partial(results.growth, quantity="time", library="cupy"),
    time_torch=partial(Run.time, size=SOURCE, library="torch_cuda"),
    faults=partial(Run.page_faults, size=LARGE),
    widest_faults=partial(Run.page_faults, size=WIDEST),
    host_time=partial(Run.time, size=SOURCE, library="numpy"),
    middle_host=partial(Run.time, size=MIDDLE, library="numpy"),
    widest_host=partial(Run.time, size=WIDEST, library="numpy"),
)
later.values(
    "measured",
    later_host=partial(Run.time, size=WIDEST, library="numpy"),
    later_middle_host=partial(Run.time, size=MIDDLE, library="numpy"),
    later_faults=partial(Run.page_faults, size=WIDEST),
)
earlier.values(
    "measured",
    earlier_host=partial(Run.time, size=SOURCE, library="numpy"),
    earlier_time_torch=partial(Run.time, size=SOURCE, library="torch_cuda"),
    earlier_faults=partial(Run.page_faults, size=SOURCE),
)


def _effects(
    name: str, compare: Callable[[Run], Comparison]
) -> dict[str, Callable[[Run], Quantity]]:
    """Name the effect of a change, as measured and as predicted."""

    def measured(run: Run) -> Quantity:
        return compare(run).effect

    def predicted(run: Run) -> Quantity:
        return compare(run).predicted_effect

    return {name: measured, f"predicted_{name}": predicted}


_double: Final = partial(theory.of_change, size=SOURCE, change=subject.DOUBLE)
_fused: Final = partial(theory.of_change, size=LESS_WIDE, change=subject.FUSED)
changed.values("measured", **_effects("double", _double), **_effects("fused", _fused))
for _name, _size in ("one", ONE_IMAGE), ("few", SMALL), ("many", SOURCE):
    calls.values(**_effects(f"merged_{_name}", partial(results.merging, size=_size)))
calls.values(
    "measured",
    price_numpy=partial(theory.call_price, library="numpy"),
    price_torch=partial(theory.call_price, library="torch"),
)


# -------------------------------------------------------------------------------------- claims


@gpu.claim("With the fewest images the GPU idles for over a third of an iteration")
def host_sets_pace(run: Run) -> Iterator[Statement]:
    for library in ON_GPU:
        yield results.idle(run, library) > 1 / 3


@gpu.claim("At the source's size products alone keep the GPU busy for over half of PyTorch's time")
def nearly_busy(run: Run) -> Statement:
    return results.busy(run, "torch_cuda") > 0.5


@gpu.claim("Up to five times the source's work CuPy's iteration grows by less than a quarter")
def floor(run: Run) -> Iterator[Statement]:
    for size in run.small_sizes:
        if size != SMALL:
            yield results.growth_to(run, size) < LEVEL


@gpu.claim(
    "In one session CuPy takes a tenth longer than PyTorch at the source's size",
    numbers=("here_torch", "here"),
)
def library_matters(run: Run) -> Statement:
    return results.between_libraries(run) > 1 + MARGIN


@gpu.claim(
    "PyTorch's speed-up at the source's size is a tenth larger in the earlier session",
    numbers=("there_torch", "here_torch"),
)
def session_matters(run: Run) -> Statement:
    return results.over_earlier(run, "torch_cuda") > 1 + MARGIN


@gpu.claim(
    "CuPy's speed-up at the source's size is a tenth smaller in the earlier session",
    numbers=("there", "here"),
)
def session_matters_in_cupy(run: Run) -> Statement:
    return results.over_earlier(run, "cupy") < 1 - MARGIN


@beside_source.claim(
    "In each session CuPy's speed-up is that which the source prints, within a tenth",
    numbers=("source_speedup", "here"),
)
def same_speedup(pair: tuple[Run, Source]) -> Iterator[Statement]:
    run, source = pair
    printed = float(source.cell("3", "time", "speedup").number)
    for session in range(len(run.sessions[:1]) + 1):
        yield results.gain(run, "cupy", session=session).near(printed, within=MARGIN * printed)


@gpu.claim("In one session CuPy's speed-up grows by more than a tenth with the images")
def gap_grows_images(run: Run) -> Statement:
    return results.growth_of_gain(run, SOURCE, SMALL) > 1 + MARGIN


@gpu.claim("In one session CuPy's speed-up grows by more than a tenth with the neurons")
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


@changed.claim("Double precision adds the baseline's work once more, within a fifth of that")
def double_as_predicted(run: Run) -> Iterator[Statement]:
    return results.as_predicted(run, subject.DOUBLE)


@calls.claim("Added calls cost as much with a thousand images as with one, within a fifth")
def calls_have_a_price(run: Run) -> Iterator[Statement]:
    for library in ON_CPU:
        yield theory.of_calls(run, library, DOUBLED_CALLS, ONE_IMAGE).as_predicted
        yield theory.of_calls(run, library, MANY_CALLS, SMALL).as_predicted


@calls.claim("At the source's size as many calls again add less than a fiftieth")
def calls_vanish(run: Run) -> Iterator[Statement]:
    for library in ON_CPU:
        yield theory.of_calls(run, library, DOUBLED_CALLS, SOURCE).effect < 1.02


@calls.claim(
    "On one image merged calls save their share of PyTorch's iteration, within a fifth",
    numbers=("merged_one", "predicted_merged_one"),
)
def merging_saves_calls(run: Run) -> Statement:
    return results.merging(run, ONE_IMAGE).as_predicted


@calls.claim("With a thousand images merged calls save what they save with one, within a fifth")
def merging_keeps_its_gain(run: Run) -> Statement:
    return results.merging(run, SMALL).as_predicted


@calls.claim("At the source's size merged calls save less than a tenth", numbers=("merged_many",))
def merging_vanishes(run: Run) -> Statement:
    return results.merging(run, SOURCE).effect > 1 - MARGIN


# -------------------------------------------------------------------------- figures and tables

with_source.figure(key=True, height=2.6)(figures.curve)
gpu.figure(height=2.0)(figures.pace)

_TIMES: Final = ("NumPy (ms)", "CuPy (ms)", "PyTorch (ms)", "CPU A (ms)")


@gpu.table()
def sessions(run: Run) -> Iterator[Mapping[str, Content]]:
    """Tabulate both times and their ratio by session and library."""
    names = ("main", "earlier")[: len(run.sessions) + 1]
    for (session, name), (library, label) in product(enumerate(names), ON_GPU.items()):
        yield {
            "Session": name,
            "Library": label,
            "NumPy (ms)": run.spread(session, "numpy"),
            "GPU (ms)": run.spread(session, library),
            "Speed-up": results.gain(run, library, session=session),
        }


@study.table(wide=True, digits={"Work (GFLOP)": 2, **dict.fromkeys(_TIMES, 2)})
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
            "Work (GFLOP)": to_digits(theory.work(size), 2),
            **dict(zip(_TIMES, brief, strict=True)),
            "Page faults": run.page_faults(size),
        }


@changed.table("changes", wide=True)
def _by_change(run: Run) -> Iterator[Mapping[str, Content]]:
    for change in subject.CHANGES[:-1]:  # a fused ReLU changes too little to test
        row: dict[str, Content] = {"Change": change}
        for name, size in ("narrow", SOURCE), ("wide", LESS_WIDE):
            compared = theory.of_change(run, size, change)
            row[f"Predicted, {name}"] = to_digits(compared.predicted_effect, 3)
            row[f"Measured, {name}"] = compared.effect
        yield {**row, "Both as predicted": verdict_of(all_of(*results.as_predicted(run, change)))}


@calls.table("calls", wide=True)
def _by_calls(run: Run) -> Iterator[Mapping[str, Content]]:
    """Tabulate the effect of other numbers of calls."""
    numbers = (MERGED_CALLS, DIVIDED_CALLS, DOUBLED_CALLS, MANY_CALLS)
    for library, number in product(ON_CPU, numbers):
        if (library, number) == ("numpy", MERGED_CALLS):
            continue
        row: dict[str, Content] = {"Library": subject.NAMES[library], "Calls": number}
        for name, size in ("1", ONE_IMAGE), ("1,000", SMALL), ("60,000", SOURCE):
            compared = theory.of_calls(run, library, number, size)
            predicted = to_digits(compared.predicted_effect, 3)
            if (number, size) == (MANY_CALLS, ONE_IMAGE):
                predicted = absent("predicted effect", "1", "the price of a call is fitted to it")
            row[f"Predicted, {name}"] = predicted
            row[f"Measured, {name}"] = compared.effect
        yield row


@beside_source.table("parts", digits={"Source (ms)": 3, "CuPy (ms)": 2, "Ratio": 2})
def _by_part(both: tuple[Run, Source]) -> Iterator[Mapping[str, Content]]:
    """Tabulate the source's times on its GPU beside CuPy's, in its order of operations first."""
    run, source = both
    for table, rows in (("4", OPERATIONS), ("3", PERFORMANCE)):
        for quantity, part in rows.items():
            printed = source.number(table, quantity, "gpu")
            time = to_digits(run.measured(quantity, SOURCE, "cupy"), 2)
            ratio = to_digits(printed / time, 2)
            yield {"Part": part, "Source (ms)": printed, "CuPy (ms)": time, "Ratio": ratio}


#: Rows omitted from the set-up table for its length; the records hold them.
_OMITTED_ROWS: Final = (
    "Memory",
    "C library",
    "Vector extensions",
    "Arithmetic",
    "Device",
    "Caches",
)


@study.shared_table()
def machines(p: Paper) -> Table:
    """Tabulate the runs of the sentences; the model names a GPU."""
    gpu = replace(p.gpu, label=_gpu_model(p.gpu)) if p.gpu else None
    table = setup([run for run in (p.cpu, p.changed, p.calls, gpu) if run])
    return replace(table, rows=tuple(row for row in table.rows if row[0] not in _OMITTED_ROWS))
