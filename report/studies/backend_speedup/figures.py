"""The figures of backend_speedup; captions stand in its template."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from statistics import median
from typing import Final

from figures.panels import Curve, Points, Scaling
from report.paper.plots import points
from report.studies.backend_speedup import results, subject, theory
from report.studies.backend_speedup.runs import PRODUCTS, Run
from report.studies.backend_speedup.source import Source
from report.studies.backend_speedup.subject import FLAT, LARGE, ON_GPU, SMALL, SOURCE, WIDEST, Size

#: Lines of the figures, whose colours do not depend on what was measured.
_LINES: Final = {
    "numpy": Points("NumPy", (), (), series=2),
    "cupy": Points("CuPy", (), (), series=0),
    "torch_cuda": Points("PyTorch", (), (), series=1),
}
_WORK_TICKS: Final = (0.1, 1.0, 10.0, 100.0)
#: Sizes at which both times grow, with their names as neurons × images and the places of the names.
_KNEE: Final = {LARGE: ("128 × 60,000", 0.7, 0.05), WIDEST: ("2,048 × 16,000", 0.1, 2.65)}


def curve(both: tuple[Run, Source]) -> Iterator[Scaling]:
    """Draw the time of an iteration (ms) over its work, and the GPU's times at the least work."""
    run, source = both
    works = [2e-9 * size.multiply_adds for size in run.sizes]
    lines: list[Points] = []
    least: list[Curve] = []
    for library, line in _LINES.items():
        times = [run.medians("time", size, library) for size in run.sizes]
        for marks in _in_ms(line, works, times):
            lines.append(marks)
            if library in ON_GPU:
                ends, level = (marks.x[0], _WORK_TICKS[-1]), (marks.y[0],) * 2
                label = f"{line.label} at the least work"
                least.append(Curve(label, ends, level, part=library != "cupy"))
    if lines:
        work = 2e-9 * SOURCE.multiply_adds
        printed = [float(source.cell("3", "time", side).number) for side in ("cpu", "gpu")]
        lines.append(Points("The source", (work,) * 2, tuple(printed), series=4, hollow=True))
        names = zip(("source's CPU", "source's GPU"), printed, strict=True)
        regions = tuple((f"the {name}", work / 36, time) for name, time in names)
        axes = "Work of an iteration (GFLOP)", "Time (ms)"
        panel = Scaling(*axes, tuple(lines), tuple(least), x_ticks=_WORK_TICKS, direct=True)
        yield replace(panel, regions=regions)


def _in_ms(line: Points, x: Iterable[float], times: Iterable[Sequence[float]]) -> Iterator[Points]:
    """Fill a line with the medians and ranges of times (s), in ms, where some are known."""
    marks = []
    for place, known in zip(x, times, strict=True):
        if known:
            marks.append((place, 1e3 * median(known), 1e3 * min(known), 1e3 * max(known)))
    if marks:
        places, values, low, high = zip(*marks, strict=True)
        yield replace(line, x=places, y=values, low=low, high=high)


def pace(run: Run) -> Iterator[Scaling]:
    """Draw how iterations grow with their products since the least work: small sizes, then all."""
    small = tuple(size for size in run.small_sizes if size != SMALL)
    limit = f"Up to {2e-9 * FLAT.multiply_adds:.2g} GFLOP"
    for title, sizes in (limit, small), ("All sizes", (*small, *_KNEE)):
        lines: list[Points] = []
        for library in ON_GPU:
            known = [size for size in sizes if _added(run, PRODUCTS, size, library)]
            products = [1e3 * median(_added(run, PRODUCTS, size, library)) for size in known]
            times = [_added(run, "time", size, library) for size in known]
            lines += _in_ms(_LINES[library], products, times)
        if lines:
            ends = 0.0, max(x for line in lines for x in line.x)
            diagonal = Curve("GPU busy throughout", ends, ends, part=True)
            axes = "Added to products (ms)", "Added to iteration (ms)"
            yield Scaling(*axes, tuple(lines), (diagonal,), x_scale="linear", y_scale="linear",
                          title=title, direct=sizes is not small, legend=False,
                          regions=() if sizes is small else tuple(_KNEE.values()))  # fmt: skip


def calls(run: Run) -> Iterator[Scaling]:
    """Draw the time (µs) that other numbers of calls add to PyTorch's iteration, or save."""
    lines: list[Points] = []
    for size in (subject.ONE_IMAGE, SMALL, SOURCE):
        added = {n: results.added_by_calls(run, size, n) for n in subject.OTHER_CALLS}
        name = f"{size.images:,} images" if size != subject.ONE_IMAGE else "one image"
        lines += points(name, added, "µs", series=len(lines))
    equal = {n: theory.added_by_equal_calls(run, n) for n in subject.OTHER_CALLS}
    predicted = points("one image, calls of equal cost", equal, "µs")
    curves = tuple(Curve(line.label, line.x, line.y) for line in predicted)
    axes = "Library calls of an iteration", "Added time (µs)"
    yield Scaling(*axes, tuple(lines), curves, x_ticks=subject.OTHER_CALLS, y_scale="linear",
                  direct=True, legend=False)  # fmt: skip


def _added(run: Run, quantity: str, size: Size, library: str) -> list[float]:
    """Subtract a time at the least work from that at a size, for all pairs of processes."""
    pairs = product(run.medians(quantity, size, library), run.medians(quantity, SMALL, library))
    return [more - less for more, less in pairs]
