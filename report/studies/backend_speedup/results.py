"""Results of backend_speedup: gains, shares and scatter of iterations, computed from its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Final, TypeAlias

import msgspec

from report.core.missing import Missing
from report.core.records.devices import Devices
from report.core.records.strict import parse_json
from report.core.text.escape import markdown
from report.quantity.evaluation import point, to_digits
from report.quantity.expression import Quantity, absent, exact, recorded
from report.quantity.operations import largest
from report.studies.backend_speedup import theory
from report.studies.backend_speedup.runs import Run
from report.studies.backend_speedup.source import OPERATIONS
from report.studies.backend_speedup.subject import CALLS, NAMES, SMALL, SOURCE, WIDEST, Size

#: The time of the matrix products of an iteration, as records name it.
PRODUCTS: Final = "matrix_product_time"

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


def products_at_source(run: Run) -> Quantity:
    """CuPy's time (s) in its products at the source's size, less a call of each.

    A call of each is the time that launching them and waiting for them takes.
    """
    calls = CALLS["matrix_product"] * run.measured("call_time", SMALL, "cupy")
    return run.measured(PRODUCTS, SOURCE, "cupy") - calls


def product_share(run: Run) -> Quantity:
    """The share of CuPy's iteration in its products, at the source's size."""
    return products_at_source(run) / run.time(SOURCE, "cupy")


def calls_share(run: Run, library: str) -> Quantity:
    """The calls of an iteration, each waited for, over the smallest iteration."""
    calls = theory.ALL_CALLS * run.measured("call_time", SMALL, library)
    return calls / run.time(SMALL, library)


def products_at_most_work(run: Run, library: str) -> Quantity:
    """The share of an iteration in its products at the largest work."""
    return run.measured(PRODUCTS, WIDEST, library) / run.time(WIDEST, library)


def speedup_at_rate_of(run: Run, size: Size, fewer: Size) -> Quantity:
    """The speed-up if NumPy kept the rate of the same width with fewer images."""
    time = run.time(fewer, "numpy") * theory.work(size) / theory.work(fewer)
    return to_digits(time / run.time(size, "cupy"), 1)


def largest_spread(run: Run, **of: Sequence[str]) -> Quantity:
    """The largest ratio of two processes of one case."""
    return _spread(run, 0, "largest ratio", **of)


def rounded_spread(run: Run, **of: Sequence[str]) -> Quantity:
    """The largest ratio of two processes of one case, to three digits."""
    return to_digits(largest_spread(run, **of), 3)


def compared_pairs(run: Run) -> Quantity:
    """The number of pairs of processes of one case."""
    return _spread(run, 1, "pairs of processes")


def _spread(run: Run, place: int, name: str, **of: Sequence[str]) -> Quantity:
    spread = run.spread(**of)
    value = Missing("no case has two processes") if spread is None else spread[place]
    return recorded(name, "1", value, run.file)


def spread_of_parts(run: Run) -> Quantity:
    """The largest ratio of two processes in the parts of an iteration."""
    return largest_spread(run, quantities=[f"{kind}_time" for kind in CALLS])


def products_ahead(run: Run) -> Quantity:
    """The gain of the products over the largest gain of the other operations that are printed."""
    others = [run.speedup(SOURCE, "cupy", name) for name in OPERATIONS if name != PRODUCTS]
    return run.speedup(SOURCE, "cupy", PRODUCTS) / largest(*others)


def page_faults(run: Run, size: Size) -> Quantity:
    """The page faults of NumPy in an iteration, to two digits."""
    return to_digits(run.measured("page_faults", size, "numpy"), 2)


def floor_excess(run: Run) -> Quantity:
    """The share by which the floor's longest time exceeds that of the least work."""
    longest = max(run.at_floor.values()) - 1 if run.at_floor else Missing("no time of CuPy")
    return recorded("largest excess", "1", longest, run.file)


def model_error(run: Run, size: Size) -> Quantity:
    """The share of the modeled time by which CuPy's time exceeds it."""
    time = point(run.time(size, "cupy"))
    if isinstance(time, Missing) or run.model is None:
        return absent("error", "1", "no model")
    floor, rate = run.model
    error = time / max(floor, 2 * size.multiply_adds / rate) - 1
    return recorded("error", "1", error, run.file)


def iterations(run: Run) -> Quantity:
    """The iterations of the training; its first loss stands before them."""
    count = max(len(run.of_training("train_loss", "cupy")) - 1, 0)
    return exact("iterations", "1", count, run.file)


def gain_growth(run: Run, size: Size, base: Size) -> Quantity:
    """CuPy's speed-up at a size over that at another one."""
    return run.speedup(size, "cupy") / run.speedup(base, "cupy")


def largest_loss_difference(run: Run) -> Quantity:
    """The largest share by which losses of CuPy's training differ from NumPy's."""
    name = "largest difference of losses"
    cupy, numpy = (run.of_training("train_loss", library) for library in ("cupy", "numpy"))
    if not cupy or len(cupy) != len(numpy):
        return absent(name, "1", f"not recorded on {run.label}")
    apart = max(abs(a - b) / b for a, b in zip(cupy, numpy, strict=True))
    return to_digits(exact(name, "1", apart, run.file), 2)


def image_time(gpu: str, devices: Devices) -> Quantity:
    """The time (s) in which a GPU can read the source's images twice, by its data sheet."""
    device = devices.find(gpu)
    peak = device.peak("memory") if device else None
    if device is None or peak is None:
        return absent("time of reading", "s", f"no data sheet of {gpu}")
    bandwidth = exact(f"bandwidth of {device.name}", "B/s", peak.rate, "devices.yaml")
    return 2 * theory.image_bytes(SOURCE) / bandwidth


# --------------------------------------------------------------------------------------- two runs


def products_over_later(pair: Pair, end: Callable[[Iterable[float]], float]) -> Quantity:
    """NumPy's time in products at the source's size over the later session's.

    ``end`` chooses among the ratios of all pairs of processes.
    """
    earlier, later = (run.by_process(PRODUCTS, run.factors(SOURCE, "numpy")) for run in pair)
    ratio: float | Missing = Missing("not timed in both sessions")
    if not isinstance(earlier, Missing) and not isinstance(later, Missing):
        ratio = end(a.median / b.median for a, b in product(earlier, later))
    return recorded("products of an earlier session over ours", "1", ratio, pair[0].file)


def host_shifts(pair: Pair) -> list[Quantity]:
    """NumPy's time on the CPU over that on the GPU's host, at each size that both timed."""
    cpu, gpu = pair
    shifts: list[Quantity] = []
    for size in gpu.sizes:
        if size in cpu.sizes:
            shifts.append(gpu.bounded(cpu.time(size, "numpy") / gpu.time(size, "numpy")))
    return shifts or [absent("time over the host's", "1", "no size was timed on both CPUs")]


def extreme_shift(pair: Pair, choose: Callable[..., Quantity]) -> Quantity:
    """The ``smallest`` or ``largest`` of ``host_shifts``."""
    return choose(*host_shifts(pair))
