"""Medians, ratios and slopes of samples; pure, and all that the tables print."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from benchmarks.results import Builds, Point, Sample, Timed


def median_wall(samples: Sequence[Sample]) -> float:
    """The median wall time in seconds; raises ``ValueError`` without samples."""
    if not samples:
        raise ValueError("no samples: the median of nothing is not a number")
    return statistics.median(sample.wall_s for sample in samples)


def median_peak(samples: Sequence[Sample]) -> float:
    """The median of the peak memory in bytes; raises ``ValueError`` without samples."""
    if not samples:
        raise ValueError("no samples: the median of nothing is not a number")
    return statistics.median(sample.peak_bytes for sample in samples)


def slope(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The exponent of a power law through the points: least squares of log(value) over log(size).

    1 is linear growth, 0 none.  None where fewer than two sizes differ, or a value is not
    positive.
    """
    if len(set(sizes)) < 2 or min((*sizes, *values)) <= 0:
        return None
    line = statistics.linear_regression([*map(math.log, sizes)], [*map(math.log, values)])
    return line.slope


def last_slope(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The exponent between the two largest sizes, where constant costs weigh least."""
    pairs = sorted(zip(sizes, values, strict=True))[-2:]
    return slope([size for size, _ in pairs], [value for _, value in pairs])


def find_timed(builds: Builds, tool: str, scenario: str) -> Timed | None:
    """What ``tool`` took in ``scenario``, if it was measured."""
    found = (t for t in builds.timed if (t.tool, t.scenario) == (tool, scenario) and t.samples)
    return next(found, None)


def wall_of(builds: Builds, tool: str, scenario: str) -> float | None:
    """The median wall time of ``tool`` in ``scenario`` in seconds, if it was measured."""
    timed = find_timed(builds, tool, scenario)
    return None if timed is None else median_wall(timed.samples)


def points_of(points: Sequence[Point], axis: str) -> tuple[Point, ...]:
    """The points on ``axis``, smallest first."""
    return tuple(sorted((p for p in points if p.axis == axis), key=lambda point: point.size))


def net_peak(point: Point) -> float | None:
    """Bytes at the peak above those of a process that only imports; None if that is unknown."""
    if point.idle_peak_bytes is None:
        return None
    return median_peak(point.samples) - point.idle_peak_bytes
