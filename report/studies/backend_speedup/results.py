"""Results of backend_speedup: gains, shares and scatter of iterations, computed from its runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, product
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
from report.studies.backend_speedup.subject import NAMES, SHARED, SMALL, SOURCE, Size

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


def floor_excess(run: Run) -> Quantity:
    """Relative excess of the longest time at the floor over the time of the least work."""
    longest = max(run.at_floor.values()) - 1 if run.at_floor else Missing("no time of CuPy")
    return recorded("largest excess", "1", longest, run.file)


def flat_growth(run: Run) -> Quantity:
    """Divide the largest work whose time is still at the floor by the least work."""
    if not run.at_floor:
        return absent("work", "1", "no time of CuPy")
    return theory.work([*run.at_floor][-1]) / theory.work(SMALL)


def narrow_over_wide(run: Run) -> Quantity:
    """Ratio of NumPy's times: the source's size over a wide network with about as much work."""
    return run.time(SOURCE, "numpy") / run.time(LESS_WIDE, "numpy")


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


def page_faults(run: Run, size: Size) -> Quantity:
    """The page faults of NumPy in an iteration, to two digits."""
    return to_digits(run.measured("page_faults", size, "numpy"), 2)


def iterations(run: Run) -> Quantity:
    """Number of training iterations; the first recorded loss precedes the first iteration."""
    count = max(len(run.of_training("train_loss", "cupy")) - 1, 0)
    return exact("iterations", "1", count, run.file)


def accuracy(run: Run, kind: str) -> Quantity:
    """The share of images that CuPy's trained network classifies right."""
    samples = run.of_training(f"{kind}_accuracy", "cupy")
    return recorded("accuracy", "1", samples[-1] if samples else Missing("no training"), run.file)


def growth_of_gain(run: Run, size: Size, base: Size) -> Quantity:
    """Ratio of CuPy's speed-ups at two sizes; both may vary between sessions."""
    ratio = run.speedup(size, "cupy") / run.speedup(base, "cupy")
    return run.bounded(ratio, run.spread_of_gains, power=2)


def largest_difference(run: Run, quantity: str) -> Quantity:
    """Largest relative difference between CuPy's and NumPy's training in any iteration."""
    name = f"largest difference of {quantity}"
    cupy, numpy = (run.of_training(quantity, library) for library in ("cupy", "numpy"))
    if not cupy or len(cupy) != len(numpy):
        return absent(name, "1", f"not recorded on {run.label}")
    largest = max(abs(a - b) / b for a, b in zip(cupy, numpy, strict=True))
    return to_digits(exact(name, "1", largest, run.file), 2)


def relu_share(run: Run) -> Quantity:
    """The share of CuPy's slowdown in the earlier session that its ReLU explains.

    Every process of the earlier session is compared with the medians of this run.
    """
    if not run.sessions:
        return absent("share of ReLU", "1", "no other session is in the data")
    times, relus = (run.sessions[0].medians(q, SOURCE, "cupy") for q in ("time", "relu_time"))
    medians = [run.medians(quantity, SOURCE, "cupy") for quantity in ("time", "relu_time")]
    if not (times and relus and all(medians)):
        return absent("share of ReLU", "1", "CuPy's ReLU was not timed in both sessions")
    time, relu = map(median, medians)
    shares = [(b - relu) / (a - time) for a, b in zip(times, relus, strict=True)]
    return run.spanning(recorded("share of ReLU", "1", median(shares), run.file), shares)


def image_copy_time(run: Run, doubled: bool = False) -> Quantity:
    """Predict the time (s) to copy the source's images to the GPU, at our training's copy rate."""
    factors = run.factors(None, "cupy", subject="training")
    images = theory.image_bytes(SOURCE) / theory.image_bytes(SHARED)
    return (2 if doubled else 1) * images * run.series("to_device_time", factors)


# --------------------------------------------------------------------------------------- two CPUs


def host_shifts(pair: Pair) -> list[Quantity]:
    """NumPy's time on the CPU over that on the GPU's host, at each size that both timed.

    The interval is that of ``Run.gain``.
    """
    cpu, gpu = pair
    spread = gpu.spread()
    shifts: list[Quantity] = []
    for size in gpu.sizes:
        if size not in cpu.sizes:
            continue
        ratio = cpu.time(size, "numpy") / gpu.time(size, "numpy")
        timed = [session.medians("time", size, "numpy") for session in (gpu, *gpu.sessions)]
        pairs = [a / b for a, b in product(cpu.medians("time", size, "numpy"), chain(*timed))]
        several = sum(map(bool, timed)) > 1
        shifts.append(gpu.spanning(ratio, pairs) if several else gpu.bounded(ratio, spread))
    return shifts or [absent("time over the host's", "1", "no size was timed on both CPUs")]


def other_shift(pair: Pair, session: int, size: Size) -> Quantity:
    """NumPy's time on the CPU over that on the GPU's host in another session."""
    cpu, gpu = pair
    if len(gpu.sessions) <= session:
        return absent("time over the host's", "1", "no other session is in the data")
    return cpu.time(size, "numpy") / gpu.sessions[session].time(size, "numpy")


def extreme_shift(pair: Pair, choose: Callable[..., Quantity]) -> Quantity:
    """The ``smallest`` or ``largest`` of ``host_shifts``."""
    return choose(*host_shifts(pair))
