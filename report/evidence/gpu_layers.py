"""The kernels of a network's layers in traces of a GPU: which ones, what they counted, how long.

A network's call is a sequence of kernels.  Those that bring tensors into another layout or
transform them, multiply, and add a bias belong to a layer that multiplies; the bias ends it.  All
others (activations, pooling, dropout) stand between such layers.  Traces with times and traces with
counters are different runs, so that their layers are matched by their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from report.instruments.trace import UNNAMED, CountedKernel, Kernel, Trace
from report.missing import Missing
from report.records.layers import Convolution, Linear
from report.theory.gpu_kernels import Kernels, counter_terms
from report.theory.reconciliation import Reconciliation, Term
from report.theory.terms import as_flops, theory_macs

#: Parts of the names of kernels that belong to a layer that multiplies, and of those that end it.
_WORKS: Final = ("gemm", "scudnn", "fft2d", "nchwToNhwc", "computeOffsets", UNNAMED)
_ENDS: Final = ("CUDAFunctor_add", "epilogue")

Launch = TypeVar("Launch", Kernel, CountedKernel)


@dataclass(frozen=True)
class Call(Generic[Launch]):
    """One forward call: the kernels of each layer that multiplies, and all others."""

    layers: tuple[tuple[Launch, ...], ...]
    others: tuple[Launch, ...]


def calls_of(launches: Iterable[Launch], layers: int) -> tuple[Call[Launch], ...]:
    """The calls of a network of ``layers`` layers that multiply, as far as they are whole."""
    calls: list[Call[Launch]] = []
    groups: list[tuple[Launch, ...]] = []
    own: list[Launch] = []
    others: list[Launch] = []
    for launch in launches:
        ends = is_bias(launch)
        (own if ends or any(part in launch.name for part in _WORKS) else others).append(launch)
        if ends:
            groups.append(tuple(own))
            own = []
        if len(groups) == layers:
            calls.append(Call(tuple(groups), tuple(others)))
            groups, others = [], []
    return tuple(calls)


@dataclass(frozen=True)
class Forward:
    """The forward calls of a network in both traces: its layers, and the kernels between them."""

    layers: tuple[CountedLayer, ...]
    counted: Call[CountedKernel]
    timed: tuple[Call[Kernel], ...]


@dataclass(frozen=True)
class CountedLayer:
    """A layer with its kernels in both traces.

    ``counted`` ran under the counters; ``timed`` are those of each call under the clock.  Into how
    many parts a kernel splits its sums stands in the grid of the timed kernel of the same name.
    """

    layer: Convolution | Linear
    counted: tuple[CountedKernel, ...]
    timed: tuple[tuple[Kernel, ...], ...]

    @property
    def kernels(self) -> Kernels:
        """Names and splits, for theory."""
        names = tuple(kernel.name for kernel in self.counted)
        grids = (k.grid for k in self.timed[-1] if k.grid and "sgemm" in k.name and k.name in names)
        return Kernels(names, max((grid[2] for grid in grids), default=1))

    @property
    def flops(self) -> int:
        """What the float32 counters saw (FLOP)."""
        return sum(map(flops_of, self.counted))

    @property
    def seconds(self) -> tuple[float, ...]:
        """Of each call, the durations of the kernels but for that of the bias, added (s)."""
        return tuple(
            sum(k.duration for k in kernels if not is_bias(k)) / 1e9 for kernels in self.timed
        )

    def reconciliation(self, key: str, subject: str) -> Reconciliation:
        """From the work of the layer to what the float32 counters saw."""
        return Reconciliation(
            f"{key}-{self.layer.name}",
            subject,
            "FLOP",
            as_flops(theory_macs(self.layer)),
            counter_terms(self.layer, self.kernels),
            Term("Counted", self.flops, "fadd + fmul + 2 · ffma", "CUPTI range profiler"),
        )


def is_bias(kernel: Kernel | CountedKernel) -> bool:
    """Whether the kernel adds the bias, which ends a layer."""
    return any(part in kernel.name for part in _ENDS)


def flops_of(kernel: CountedKernel) -> int:
    """Float32 operations of a kernel."""
    return kernel.additions + kernel.multiplications + 2 * kernel.multiply_adds


def forward_calls(
    counted: Trace, timed: Trace, layers: Sequence[Convolution | Linear]
) -> Forward | Missing:
    """Every layer with its kernels in the last counted call and in all timed ones.

    Missing where a trace has no whole call, or where calls disagree about what was counted.
    """
    counts, times = calls_of(counted.counted, len(layers)), calls_of(_launched(timed), len(layers))
    if not counts or not times:
        return Missing("the kernels of the trace are not those of the network's layers")
    totals = {tuple(sum(map(flops_of, group)) for group in call.layers) for call in counts}
    if len(totals) > 1:
        return Missing("the calls of the trace disagree about what was counted")
    clocked = zip(*(call.layers for call in times), strict=True)
    each = zip(layers, counts[-1].layers, clocked, strict=True)
    return Forward(tuple(CountedLayer(*found) for found in each), counts[-1], times)


def _launched(trace: Trace) -> Iterable[Kernel]:
    """Kernels alone, without copies and fills."""
    return (kernel for kernel in trace.kernels if not kernel.transfer)
