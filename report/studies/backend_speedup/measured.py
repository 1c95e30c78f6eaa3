"""What one run measured, by array library: times, ratios of them, bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median, median_low
from typing import Final, TypeAlias

from report.evidence import runs as any_study
from report.evidence.remembered import remembered
from report.evidence.runs import labels
from report.missing import Missing
from report.quantity.evaluation import point
from report.quantity.expression import Exact, Leaf, Quantity, Sampled, absent, exact
from report.quantity.process import Process
from report.records.record import Factor
from report.records.store import Stored
from report.studies.backend_speedup.subject import HIDDEN, Kind, Setting, kinds

#: The end of the name of a time of one process, of which there is no interval.
_SINGLE: Final = ", one process"
_COMPILED: Final = "compiled as one program"


@dataclass(frozen=True)
class Variant:
    """An array library and how it executes: operation by operation, or compiled as a whole."""

    backend: str
    execution: str = "eager"

    @property
    def key(self) -> str:
        """Its name in the ids of values and tables."""
        return self.backend if self.execution == "eager" else f"{self.backend}_{self.execution}"

    @property
    def name(self) -> str:
        """Its name for a reader."""
        return _NAMES[self.key]

    @property
    def on_gpu(self) -> bool:
        """Whether it computes on a GPU."""
        return self in ON_GPU

    @property
    def eager(self) -> bool:
        """Whether its operations can be timed one by one."""
        return self.execution == "eager"


_NAMES: Final = {
    "numpy": "NumPy",
    "torch": "PyTorch",
    "jax": "JAX",
    "jax_compiled": "JAX compiled",
    "torch_inductor": "PyTorch compiled",
    "torch_cuda": "PyTorch CUDA",
    "cupy": "CuPy",
}
#: The library that every other one is compared with.
NUMPY: Final = Variant("numpy")
TORCH: Final = Variant("torch")
JAX: Final = Variant("jax")
JAX_COMPILED: Final = Variant("jax", "compiled")
TORCH_COMPILED: Final = Variant("torch", "inductor")
TORCH_CUDA: Final = Variant("torch_cuda")
CUPY: Final = Variant("cupy")
ON_GPU: Final = (TORCH_CUDA, CUPY)
VARIANTS: Final = (NUMPY, TORCH, JAX, JAX_COMPILED, *ON_GPU, TORCH_COMPILED)
#: A library at a setting.
Case: TypeAlias = tuple[Setting, Variant]


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @remembered
    def training(self) -> Setting | None:
        """What was trained, None where nothing was."""
        where: dict[str, Factor] = {
            "subject": "training",
            "network": "perceptron",
            "dtype": "float32",
        }
        samples = self.levels("samples", **where)
        datasets = self.levels("dataset", **where)
        if not samples or not datasets:
            return None
        return Setting("training", "float32", int(samples[-1]), str(datasets[0]))

    def widths(self, dtype: str = "float32") -> tuple[Setting, ...]:
        """The sweep over the width of the hidden layer, at the number of images it shares."""
        found = self.scaled(dtype)
        counts = [setting.samples for setting in found if setting.hidden != HIDDEN]
        shared = max(counts, key=counts.count, default=None)
        return tuple(s for s in found if s.samples == shared)

    def sizes(self, hidden: int = HIDDEN) -> tuple[Setting, ...]:
        """The sweep over the number of images at one width."""
        return tuple(s for s in self.scaled() if s.hidden == hidden)

    @remembered
    def scaled(self, dtype: str = "float32") -> tuple[Setting, ...]:
        """Every case of the sweeps, by width and number of images."""
        where = {"subject": "scaling", "network": "perceptron", "dtype": dtype}
        found = {
            Setting(
                "scaling",
                dtype,
                int(case.factors["samples"]),
                str(case.factors["dataset"]),
                int(case.factors.get("hidden", HIDDEN)),
            )
            for case in self.stored.record.cases
            if where.items() <= case.factors.items()
        }
        return tuple(sorted(found, key=lambda s: (s.hidden, s.samples, s.dataset)))

    def variants(self, setting: Setting | None, quantity: str = "time") -> tuple[Variant, ...]:
        """The libraries whose cases of a setting hold a quantity."""
        if setting is None:
            return ()
        return tuple(v for v in VARIANTS if not self.measured(quantity, setting, v).missing)

    def others(self, setting: Setting | None, quantity: str = "time") -> tuple[Variant, ...]:
        """Those of them that are compared with NumPy."""
        return tuple(v for v in self.variants(setting, quantity) if v != NUMPY)

    @remembered
    def measured(self, quantity: str, setting: Setting, variant: Variant) -> Quantity:
        """A quantity of a case over all processes, in the quantity's unit.

        A time of one process is a number without an interval: its iterations say nothing of what
        another process would have taken.
        """
        found = self.series(quantity, factors_of(setting, variant))
        if not quantity.endswith("time"):
            return found
        if isinstance(found, Sampled) and _instant(found):
            return absent(found.name, "s", "shorter than the clock can tell")
        if found.missing and not variant.eager and quantity in ("forward_time", "backward_time"):
            return absent(found.name, "s", _COMPILED)
        return _without_interval(found) if len(_processes(found)) == 1 else found

    def processes(self, setting: Setting, variant: Variant) -> int:
        """How many processes timed a case."""
        return len(_processes(self.series("time", factors_of(setting, variant))))

    def time(self, setting: Setting, variant: Variant) -> Quantity:
        """The time (s) of an iteration."""
        return self.measured("time", setting, variant)

    @remembered
    def speedup(self, setting: Setting, variant: Variant, quantity: str = "time") -> Quantity:
        """How many times as fast as NumPy, process by process."""
        slow, fast = (self.measured(quantity, setting, v) for v in (NUMPY, variant))
        return of_single(slow / fast)

    def operation(self, kind: Kind, setting: Setting, variant: Variant) -> Quantity:
        """The time (s) of all operations of a kind in one iteration, each timed apart."""
        if not variant.eager:
            return absent(f"{kind} time", "s", _COMPILED)
        return self.measured(f"{kind}_time", setting, variant)

    @remembered
    def operations_sum(self, setting: Setting, variant: Variant) -> Quantity:
        """The time (s) of all operations of one iteration, added up."""
        first, *others = (self.operation(k, setting, variant) for k in kinds())
        return sum(others, first)

    def share(self, kind: Kind, setting: Setting, variant: Variant) -> Quantity:
        """The share of a kind of operation in the sum of all operations of a library."""
        return self.operation(kind, setting, variant) / self.operations_sum(setting, variant)

    def bytes_of(self, quantity: str, setting: Setting, variant: Variant) -> int | Missing:
        """A number of bytes: the lower median, which is the one that all processes agree on."""
        found = self.samples(quantity, factors_of(setting, variant))
        return found if isinstance(found, Missing) else int(median_low(found))

    def first_of(self, quantity: str, setting: Setting, variant: Variant) -> int | Missing:
        """A number of bytes of the first process, whose iteration was watched.

        Levels of other processes differ by some hundred kB, which must not enter a difference.
        """
        found = self.by_process(quantity, factors_of(setting, variant))
        return found if isinstance(found, Missing) else int(found[0].samples[0])

    def curve(self, quantity: str, setting: Setting | None, variant: Variant) -> tuple[float, ...]:
        """A quantity of a process after 0, 1, 2 … iterations, empty where none recorded it."""
        if setting is None:
            return ()
        found = self.by_process(quantity, factors_of(setting, variant))
        return () if isinstance(found, Missing) else found[0].samples

    @remembered
    def rates(self, variant: Variant) -> tuple[float, float] | Missing:
        """What bounds a library: FLOP/s of products and B/s of copies.

        They are the record's ceilings, which hold for the device of the run.  A library on the
        processor beside a GPU has none.
        """
        if variant.on_gpu != self.on_gpu:
            return Missing(f"no ceiling of the host's processor was measured on {self.label}")
        product, copy = point(self.peak_rate("matrix_product")), point(self.peak_rate("copy"))
        if isinstance(product, Missing):
            return product
        return copy if isinstance(copy, Missing) else (product, copy)


def factors_of(setting: Setting, variant: Variant) -> dict[str, Factor]:
    """The case of a setting and a library, as a record names it."""
    return {**setting.factors, "backend": variant.backend, "execution": variant.execution}


def _processes(found: Quantity) -> tuple[Process, ...]:
    return found.processes if isinstance(found, Sampled) else ()


def _without_interval(found: Quantity) -> Quantity:
    assert isinstance(found, Sampled)
    (process,) = found.processes
    name = f"{found.name}{_SINGLE}"
    return exact(name, str(found.unit), median(process.samples), found.source)


def is_single(found: Quantity) -> bool:
    """Whether any time in a quantity is that of one process."""
    return any(leaf.name.endswith(_SINGLE) for leaf in found.leaves)


def of_single(found: Quantity) -> Quantity:
    """A quantity without an interval where any time in it is that of one process.

    The spread of its other times alone would make an interval that is too narrow.
    """
    value = point(found)
    if isinstance(value, Missing) or not is_single(found) or isinstance(found, Leaf):
        return found
    return exact(f"{found.formula}{_SINGLE}", str(found.unit), value, found.sources[0])


def brief(found: Quantity) -> Quantity:
    """A number of one process with as many digits as a table needs."""
    if not isinstance(found, Exact) or not is_single(found):
        return found
    return replace(found, value=float(f"{found.value:.2e}"))


def _instant(found: Sampled) -> bool:
    return min(min(process.samples) for process in found.processes) <= 0


def runs(records: Sequence[Stored]) -> tuple[Run, ...]:
    """The runs of this study, newest first."""
    return tuple(map(Run, records, labels(records)))


def timed_on_gpu(run: Run) -> bool:
    """Whether a library was timed on the GPU of the run."""
    settings = (run.training(), *run.scaled())
    return any(variant.on_gpu for setting in settings for variant in run.variants(setting))
