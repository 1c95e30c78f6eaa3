"""What the C library's memory policy does to the time of a call, for every study that varies it.

A study's view of a run gives time and faults by batch size; ``Timed`` says what is needed of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, Self

from figures.scaling import Points, Scaling
from report.missing import Missing
from report.paper.plots import points
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, named
from report.quantity.operations import geometric_mean
from report.records.record import Policy

#: The policies of which a ratio is printed, that of the studies first.
COMPARED: Final[tuple[Policy, ...]] = ("retained", "default")
_NAMES: Final[Mapping[Policy, str]] = {
    "retained": "Memory kept",
    "default": "Memory returned",
    "jemalloc": "jemalloc",
}
_X: Final = "Batch size (images)"
#: How far apart the policies' points of one batch size stand, as a share of it.
_APART: Final = 0.13


class Timed(Protocol):
    """What one run measured of a call, seen under one memory policy, by batch size."""

    @property
    def label(self) -> str:
        """The device as a reader names it."""

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies that were measured."""

    @property
    def timed(self) -> tuple[int, ...]:
        """The batch sizes that were timed."""

    def under(self, policy: Policy) -> Self:
        """The same run under another policy."""

    def time(self, batch: int) -> Quantity:
        """Duration of a forward call (s)."""

    def faults(self, batch: int) -> Quantity:
        """Pages that a forward call maps anew."""

    def peak_rate(self, operation: str) -> Quantity:
        """A measured ceiling."""


def compared(run: Timed | None) -> bool:
    """Whether the run measured more than one memory policy."""
    return run is not None and bool(run.timed) and set(COMPARED) <= set(run.policies)


def mapping_batches(run: Timed) -> tuple[int, ...]:
    """The batch sizes whose calls map pages where freed memory is returned."""
    found = {batch: point(run.under("default").faults(batch)) for batch in run.timed}
    return tuple(b for b, n in found.items() if not isinstance(n, Missing) and n > 0)


def gain(run: Timed, policy: Policy = "default") -> Quantity:
    """How many times as long an image takes under a policy as where the C library keeps memory.

    The geometric mean over the batch sizes whose calls map pages.
    """
    batches = mapping_batches(run)
    if not batches:
        return absent("slowdown", "1", f"no call mapped pages on {run.label}")
    other, kept = run.under(policy), run.under("retained")
    ratios = (other.time(batch) / kept.time(batch) for batch in batches)
    return named("slowdown", geometric_mean(*ratios))


def measured_gain(run: Timed) -> Quantity:
    """``gain`` of a run that measured both policies; of others nothing is known."""
    nothing = absent("slowdown", "1", "no two memory policies were measured")
    return gain(run) if compared(run) else nothing


def lost(run: Timed, batch: int) -> Quantity:
    """How much longer a call takes where freed memory is returned (s)."""
    return run.under("default").time(batch) - run.under("retained").time(batch)


def fault_price(run: Timed) -> Quantity:
    """The time that mapping one page takes on this machine (s)."""
    return named("price of a page", 1 / run.peak_rate("page_mapping"))


def mapping_time(run: Timed, batch: int) -> Quantity:
    """The pages that a call maps under the policy of ``run``, at their price (s)."""
    return named("page mapping", run.faults(batch) / run.peak_rate("page_mapping"))


def mapping_share(run: Timed, batch: int) -> Quantity:
    """The pages that a call maps where freed memory is returned, at their price, over ``lost``."""
    return mapping_time(run.under("default"), batch) / lost(run, batch)


def by_policy(run: Timed, ticks: Sequence[int], shown: str = "µs") -> tuple[Scaling, Scaling]:
    """Time (left) and newly mapped pages (right) of an image over the batch size, by policy.

    Points of a batch size stand beside each other, so that no interval covers another.  A policy
    under which no image needs a new page has no line at the right, unless none does.
    """

    def drawn(get: Callable[[Timed, int], Quantity], unit: str) -> tuple[Points, ...]:
        return tuple(
            _beside(each, index)
            for index, policy in enumerate(run.policies)
            for each in points(
                _NAMES[policy],
                {batch: get(run.under(policy), batch) / batch for batch in run.timed},
                unit,
                series=index,
                hollow=policy == "default",
                joined=True,
            )
        )

    times = drawn(lambda seen, batch: seen.time(batch), shown)
    faults = drawn(lambda seen, batch: seen.faults(batch), "1")
    x_ticks = tuple(map(float, ticks))

    def panel(name: str, lines: tuple[Points, ...]) -> Scaling:
        return Scaling(
            _X, name, lines, x_ticks=x_ticks, y_scale="linear", y_from_zero=True, direct=True
        )

    left = panel(f"Time of an image ({shown})", times)
    mapping = tuple(each for each in faults if max(each.y) >= 1)
    return left, panel("Pages mapped for an image", mapping or faults)


def _beside(drawn: Points, index: int) -> Points:
    return replace(drawn, x=tuple(x * (1 + _APART * (index - 1)) for x in drawn.x))
