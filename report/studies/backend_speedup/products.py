"""Which matrix product each library calls, what it reaches, and what calls cost beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from figures.canvas import Drawing
from figures.scaling import Scaling, alike
from report.evidence.remembered import known
from report.missing import Missing
from report.paper.declared import Field, table
from report.paper.findings import Inputs
from report.paper.plots import points
from report.paper.tables import Cell, Table
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, recorded
from report.records.pooling import same_processor
from report.studies.backend_speedup.getters import NO_CASE, Getter, nothing
from report.studies.backend_speedup.learning import libraries
from report.studies.backend_speedup.measured import NUMPY, VARIANTS, Run, Variant, brief
from report.studies.backend_speedup.subject import Setting

#: What names the library of a product in a record, and what this study calls it.
_PRODUCTS: Final = {"Math Kernel Library": "MKL", "openblas": "OpenBLAS"}
#: The size of the bare products that every record of a CPU holds.
_SQUARE: Final = "2048x2048x2048"
_GIGA: Final = "GFLOP/s"
#: Kernels of OpenBLAS with AVX2.
_NARROW: Final = ("Haswell", "Zen")


def product_name(text: str) -> str:
    """The library of a product with the kernel that it chose, without version and build."""
    for found, name in _PRODUCTS.items():
        if found in text:
            kernel = text.split()[2:] if name == "OpenBLAS" else []
            return ", ".join((name, *kernel))
    return text


def narrow_kernel(inputs: Inputs, run: Run) -> str:
    """The kernel of 256-bit vectors that OpenBLAS took on a processor with wider ones, or nothing.

    Kernels are named after processors (``kernel/x86_64`` of OpenBLAS).
    """
    own = (each for each in libraries(inputs, run) if each.name == NUMPY.backend)
    kernel = next((product_name(each.matrix_products).partition(", ")[2] for each in own), "")
    wide = "avx512f" in run.stored.record.environment.cpu.vector_extensions
    return kernel if wide and kernel in _NARROW else ""


def on_cpus(runs: Sequence[Run]) -> tuple[Run, ...]:
    """One run a CPU, that with the fewest threads, of those that timed operations at two widths."""
    timed = [run for run in runs if not run.on_gpu and len(_widths(run)) > 1]

    def fewest(run: Run) -> int:
        own = run.stored.record.environment
        same = (o for o in timed if same_processor(own, o.stored.record.environment))
        return min(other.threads for other in same)

    return tuple(run for run in timed if run.threads == fewest(run))


def _widths(run: Run) -> tuple[Setting, ...]:
    return tuple(s for s in run.widths() if run.variants(s, "matrix_product_time"))


def _eager(run: Run) -> tuple[Variant, ...]:
    shown = run.variants(_widths(run)[-1], "matrix_product_time")
    return tuple(v for v in shown if v.eager)


def product_table(inputs: Inputs, runs: Sequence[Run]) -> Table:
    """Product, rate and speed-up of each library at the ends of the widths, machine by machine."""
    rows = [(run, variant) for run in on_cpus(runs) for variant in _eager(run)]

    def product(row: tuple[Run, Variant]) -> Cell:
        named = (n for n in libraries(inputs, row[0]) if n.name == row[1].backend)
        found = next(named, None)
        return product_name(found.matrix_products) if found else Missing("it was not recorded")

    def rate(row: tuple[Run, Variant], place: int) -> Quantity:
        return brief(row[0].product_rate(_widths(row[0])[place], row[1]))

    def speedup(row: tuple[Run, Variant]) -> Quantity | int:
        run, v = row
        return 1 if v == NUMPY else brief(run.speedup(_widths(run)[-1], v))

    return table(
        "tbl-products",
        rows,
        [
            Field("Machine", "", lambda row: row[0].label),
            Field("Library", "", lambda row: row[1].name),
            Field("Product by", "", product),
            Field("Narrowest", "FLOP/s", lambda row: rate(row, 0), _GIGA, digits=3),
            Field("Widest", "FLOP/s", lambda row: rate(row, -1), _GIGA, digits=3),
            Field("Processes", "1", lambda row: row[0].processes(_widths(row[0])[-1], row[1])),
            Field("Speed-up", "1", speedup, digits=3),
        ],
        notes=("Processes and speed-up over NumPy: at the largest width.",),
        sources=tuple(run.file for run in on_cpus(runs)),
        wide=True,
    )


def product_figure(runs: Sequence[Run]) -> Drawing | None:
    """The rate of all products of an iteration over the width, a panel a CPU."""
    panels = tuple(_panel(run) for run in on_cpus(runs))
    return Drawing(alike(panels), wide=True, height=2.2) if panels else None


def _panel(run: Run) -> Scaling:
    drawn = tuple(
        each
        for v in _eager(run)
        for each in points(
            v.name,
            {s.hidden: run.product_rate(s, v) for s in _widths(run)},
            _GIGA,
            series=VARIANTS.index(v),
            joined=True,
        )
    )
    ticks = tuple(float(s.hidden) for s in _widths(run))[::2]
    return Scaling(
        "Neurons of the hidden layer",
        f"Products ({_GIGA})",
        drawn,
        x_ticks=ticks,
        title=run.label,
        direct=True,
    )


def bare_rate(moment: str, *, onednn: bool) -> Getter:
    """What one large square product reaches (FLOP/s), through oneDNN or PyTorch's own choice."""

    def found(run: Run) -> Quantity:
        rates = [
            c.work / median(c.samples)
            for c in run.stored.record.ceilings
            if (c.operation, c.moment, c.dtype) == ("matrix_product", moment, "float32")
            and c.size.startswith(_SQUARE)
            and ("oneDNN" in f"{c.size} {c.instrument}") == onednn
        ]
        name = f"2048 by 2048 product {'by oneDNN' if onednn else 'of PyTorch'}, {moment}"
        return recorded(name, "FLOP/s", rates[0] if rates else NO_CASE, run.file)

    return found


def bare_ratio(run: Run) -> Quantity:
    """How many times as fast the product by oneDNN is as PyTorch's own, before the run."""
    return bare_rate("before", onednn=True)(run) / bare_rate("before", onednn=False)(run)


def ranking(run: Run) -> tuple[Variant, ...] | None:
    """The libraries by the rate of their products at the largest width, fastest first.

    None where the times of their iterations tell another order.
    """
    widest = _widths(run)[-1]
    times = {
        v: (point(run.operation("matrix_product", widest, v)), point(run.time(widest, v)))
        for v in _eager(run)
    }
    both = {v: at for v, at in times.items() if not any(isinstance(t, Missing) for t in at)}
    orders = {tuple(sorted(both, key=lambda v: known(both[v][place]))) for place in (0, 1)}
    return orders.pop() if len(orders) == 1 and len(both) > 1 else None


def compiled_gain(
    place: Callable[[Run], Setting | None], eager: Variant, compiled: Variant
) -> Getter:
    """How many times as fast a library is once an iteration is compiled into one program."""

    def found(run: Run) -> Quantity:
        setting = place(run)
        if setting is None:
            return nothing("1")
        return run.time(setting, eager) / run.time(setting, compiled)

    return found
