"""Results of backend_speedup: gains, shares and scatter of iterations, computed from its runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Final, TypeAlias

import msgspec

from report.core.missing import Missing
from report.core.records.strict import parse_json
from report.core.text.escape import markdown
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, absent, exact, recorded
from report.studies.backend_speedup import theory
from report.studies.backend_speedup.changes import LESS_WIDE
from report.studies.backend_speedup.runs import Run, Spread
from report.studies.backend_speedup.subject import LARGE, NAMES, SMALL, SOURCE, WIDEST, Size

#: Libraries that compute on a GPU.
ON_GPU: Final = ("cupy", "torch_cuda")
#: Component of the source's memory table → what records call it.
_ALLOCATED: Final = {
    "parameters": "allocated_parameters",
    "input": "allocated_input",
    "activations": "allocated_activations",
    "gradients": "allocated_gradients",
    "total": "allocated_peak",
}
#: Two runs that are compared.
Pair: TypeAlias = tuple[Run, Run]


class _Library(msgspec.Struct):
    """A library as the file beside a record describes it."""

    name: str
    version: str
    matrix_products: str = ""


# ------------------------------------------------------------------------------ names of machines


def gpu_name(run: Run) -> str:
    """The model of the run's GPU; empty for a CPU."""
    gpu = run.stored.record.environment.gpu
    return gpu.model if gpu else ""


def processor_family(run: Run) -> str:
    """The CPU without its vendor."""
    return markdown(run.stored.record.environment.cpu.model.rpartition(" ")[2])


def library_versions(run: Run, attachments: Mapping[str, bytes | Missing]) -> str:
    """The libraries of a run with their versions; raises ``RecordError`` for a file of others."""
    versions = []
    for name, content in sorted(attachments.items()):
        if isinstance(content, Missing):
            versions.append(f"unknown, since {content.reason}")
            continue
        place = f"data/{run.file}: {name}"
        library = parse_json(content, _Library, place, "run the experiment again")
        blas = f" ({library.matrix_products})" if library.matrix_products else ""
        versions.append(f"{NAMES.get(library.name, library.name)} {library.version}{blas}")
    return markdown(", ".join(versions))


# ------------------------------------------------------------------------------------- one GPU


def flat_work(run: Run) -> Quantity:
    """The largest work (FLOP) at which CuPy's iteration is at its floor."""
    if not run.at_floor:
        return absent("work", "FLOP", "no time of CuPy")
    return to_digits(theory.work([*run.at_floor][-1]), 2)


def floor_excess(run: Run) -> Quantity:
    """The share by which the floor's longest time exceeds that of the least work."""
    longest = max(run.at_floor.values()) - 1 if run.at_floor else Missing("no time of CuPy")
    return recorded("largest excess", "1", longest, run.file)


def flat_growth(run: Run) -> Quantity:
    """How many times the least work the largest work on the floor is."""
    return flat_work(run) / theory.work(SMALL)


def narrow_over_wide(run: Run) -> Quantity:
    """NumPy's time at the source's size over that of a wide network with about as much work."""
    return run.time(SOURCE, "numpy") / run.time(LESS_WIDE, "numpy")


def range_of(run: Run, choose: Callable[..., float], of: tuple[str, Size, str]) -> Quantity:
    """Choose among the medians of the processes of a case: quantity, size, library."""
    medians = run.medians(*of)
    chosen = choose(medians) if medians else Missing("not timed in this session")
    return recorded(f"{choose.__name__} of {of[0]}", "s", chosen, run.file)


def largest_ratio(run: Run, libraries: Sequence[str]) -> Quantity:
    """The largest ratio of two processes of one case, over all sessions."""
    return _factor(run, run.spread(libraries=libraries))


def ratio_of_gains(run: Run) -> Quantity:
    """The largest ratio of two speed-ups of one case, over all sessions."""
    return _factor(run, run.spread_of_gains)


def _factor(run: Run, spread: Spread | None) -> Quantity:
    factor = spread.factor if spread else Missing("no case has two processes")
    return recorded("largest ratio", "1", factor, run.file)


def allocated(run: Run, row: str, library: str) -> Quantity:
    """Bytes of a component of the source's memory table, at its size.

    The framework's are those by which the process grows in host memory until its first product.
    """
    if row in _ALLOCATED:
        return run.repeated(_ALLOCATED[row], run.factors(SOURCE, library))
    after, before = (run.measured(f"resident_{m}", SOURCE, library) for m in ("first_use", "start"))
    return to_digits(after - before, 2)


def memory_bound_images(run: Run, library: str) -> Quantity:
    """Images from which the source's network outlasts its calls, by measured rates."""
    images = SOURCE.images * run.floor_time(library) / run.shortest_time(SOURCE)
    return to_digits(images, 2)


def model_error(run: Run, library: str) -> Quantity:
    """The share by which an iteration takes longer than its work at the widest size's rate."""
    modeled = theory.work(LARGE) / run.rate(library)
    return to_digits(run.time(LARGE, library) / modeled - 1, 2)


def products_in_error(run: Run, library: str) -> Quantity:
    """The share of the model's error that products account for, by their own times."""
    shrunk = theory.work(LARGE) / theory.work(WIDEST)
    products = run.products_time(LARGE, library) - shrunk * run.products_time(WIDEST, library)
    missed = run.time(LARGE, library) - shrunk * run.time(WIDEST, library)
    return to_digits(products / missed, 2)


def rate_of_products(run: Run, size: Size, library: str) -> Quantity:
    """FLOP/s of the products of an iteration, less a call of each."""
    return theory.work(size) / run.products_time(size, library)


def read_rate(run: Run) -> Quantity:
    """Share of the memory bandwidth at which CuPy's first product reads the source's images."""
    time = run.measured("product_alone_time", SOURCE, "cupy") - run.measured(
        "call_time", SMALL, "cupy"
    )
    return theory.image_bytes(SOURCE) / time / run.limit(1)


def speedup_at_rate_of(run: Run, size: Size, fewer: Size) -> Quantity:
    """The speed-up if NumPy kept the rate of the same width with fewer images."""
    time = run.time(fewer, "numpy") * theory.work(size) / theory.work(fewer)
    return to_digits(time / run.time(size, "cupy"), 1)


def page_faults(run: Run, size: Size) -> Quantity:
    """The page faults of NumPy in an iteration, to two digits."""
    return to_digits(run.measured("page_faults", size, "numpy"), 2)


def iterations(run: Run) -> Quantity:
    """The iterations of the training; its first loss stands before them."""
    count = max(len(run.of_training("train_loss", "cupy")) - 1, 0)
    return exact("iterations", "1", count, run.file)


def accuracy(run: Run, kind: str) -> Quantity:
    """The share of images that CuPy's trained network classifies right."""
    samples = run.of_training(f"{kind}_accuracy", "cupy")
    return recorded("accuracy", "1", samples[-1] if samples else Missing("no training"), run.file)


def growth_of_gain(run: Run, size: Size, base: Size) -> Quantity:
    """CuPy's speed-up at a size over that at another one; sessions may change both."""
    ratio = run.speedup(size, "cupy") / run.speedup(base, "cupy")
    return run.bounded(ratio, run.spread_of_gains, power=2)


def largest_difference(run: Run, quantity: str) -> Quantity:
    """The largest share by which CuPy's training differs from NumPy's in an iteration."""
    name = f"largest difference of {quantity}"
    cupy, numpy = (run.of_training(quantity, library) for library in ("cupy", "numpy"))
    if not cupy or len(cupy) != len(numpy):
        return absent(name, "1", f"not recorded on {run.label}")
    apart = max(abs(a - b) / b for a, b in zip(cupy, numpy, strict=True))
    return to_digits(exact(name, "1", apart, run.file), 2)


def gain_there(run: Run, library: str) -> Quantity:
    """A library's speed-up at the source's size in the earlier session."""
    if not run.sessions:
        return absent("speed-up", "1", "no other session is in the data")
    return run.gain_in(run.sessions[0], library)


def library_and_session(run: Run) -> Quantity:
    """Largest over smallest speed-up at the source's size, by library and session."""
    name = "largest over smallest speed-up"
    sessions = (run, *run.sessions)
    gains = [*filter(None, (s.gains(SOURCE, name) for s in sessions for name in ON_GPU))]
    if not gains:
        return absent(name, "1", f"no speed-up on {run.label}")
    low, high = min(gains, key=median), max(gains, key=median)
    ratio = recorded(name, "1", median(high) / median(low), run.file)
    return run.spanning(ratio, (min(high) / max(low), max(high) / min(low)))


# --------------------------------------------------------------------------------------- two CPUs


def host_shifts(pair: Pair) -> list[Quantity]:
    """NumPy's time on the CPU over that on the GPU's host, at each size that both timed."""
    cpu, gpu = pair
    spread = gpu.spread()
    shifts: list[Quantity] = []
    for size in gpu.sizes:
        if size in cpu.sizes:
            shifts.append(gpu.bounded(cpu.time(size, "numpy") / gpu.time(size, "numpy"), spread))
    return shifts or [absent("time over the host's", "1", "no size was timed on both CPUs")]


def extreme_shift(pair: Pair, choose: Callable[..., Quantity]) -> Quantity:
    """The ``smallest`` or ``largest`` of ``host_shifts``."""
    return choose(*host_shifts(pair))
