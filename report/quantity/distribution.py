"""A distribution over networks of which each has one published number, such as a gain.

One number has no interval.  The interval of a median says what the networks tell of networks alike:
it treats them as drawn independently, which variants of one design are not.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from report.quantity.expression import Inferred, Leaf, absent, exact
from report.quantity.units import ONE
from report.statistics.estimates import Estimate, median_interval, proportion_interval

#: Fewer networks make no distribution.
FEW: Final = 10
#: Of the quantiles that are printed and drawn, the ends.
PERCENTS: Final = (5, 25, 75, 95)
_TOO_FEW: Final = f"published for fewer than {FEW} networks"
NO_TABLE: Final = "no such table is published"
#: Digits of a number that has no interval to round it by.
DIGITS: Final = 3


@dataclass(frozen=True)
class Distribution:
    """One number without unit for each network, from ``files``.

    ``reason`` says why there is none where there are too few.
    """

    name: str
    numbers: Mapping[str, float]
    files: tuple[str, ...]
    reason: str = _TOO_FEW

    @property
    def known(self) -> bool:
        """Whether there are networks enough."""
        return len(self.numbers) >= FEW

    @property
    def count(self) -> Leaf:
        """How many networks there are."""
        return self._exact("number of networks", len(self.numbers))

    @property
    def median(self) -> Leaf:
        """The median with its interval over networks."""
        numbers = self.numbers.values()
        return self._inferred("median", lambda level: median_interval(numbers, level))

    def quantile(self, percent: int) -> Leaf:
        """The quantile below which ``percent`` of the networks lie."""
        return self._exact(f"{percent} % quantile", self.cut(percent))

    def cut(self, percent: int) -> float:
        """The same as a plain number, 0 without networks."""
        return statistics.quantiles(self.numbers.values(), n=100)[percent - 1] if self.known else 0

    def share(self, name: str, holds: Callable[[float], bool]) -> Leaf:
        """The share of the networks for which ``holds`` is true, with its interval."""
        number, n = len(self.those(holds)), len(self.numbers)
        return self._inferred(
            f"share of networks {name}", lambda level: proportion_interval(number, n, level)
        )

    def number(self, name: str, holds: Callable[[float], bool]) -> Leaf:
        """How many networks there are for which ``holds`` is true."""
        return self._exact(f"number of networks {name}", len(self.those(holds)))

    def those(self, holds: Callable[[float], bool]) -> tuple[str, ...]:
        """The networks for which ``holds`` is true, smallest number first."""
        chosen = [name for name, number in self.numbers.items() if holds(number)]
        return tuple(sorted(chosen, key=lambda name: (self.numbers[name], name)))

    def only(self, names: Collection[str], about: str) -> Distribution:
        """Of the networks ``names``, in words ``about``."""
        chosen = {name: number for name, number in self.numbers.items() if name in names}
        return replace(self, name=f"{self.name}, {about}", numbers=chosen)

    def of(self, network: str, digits: int = DIGITS) -> Leaf:
        """The number of one network: one sample, without an interval."""
        if network not in self.numbers:
            return absent(self.name, "1", f"{network} is not published")
        return exact(
            f"{self.name}({network})", "1", _rounded(self.numbers[network], digits), *self._sources
        )

    def _exact(self, what: str, number: float) -> Leaf:
        if not self.known:
            return absent(self.name, "1", self.reason)
        return exact(f"{what} of {self.name}", "1", _rounded(number), *self._sources)

    def _inferred(self, what: str, interval: Callable[[float], Estimate]) -> Leaf:
        if not self.known:
            return absent(self.name, "1", self.reason)
        name, (file, *further) = f"{what} of {self.name}", self.files
        return Inferred(ONE, name, file, "cuda", further=tuple(further), interval=interval)

    @property
    def _sources(self) -> tuple[str, tuple[str, ...]]:
        return self.files[0], self.files[1:]


def _rounded(number: float, digits: int = DIGITS) -> float:
    """A number without an interval, to so many significant digits; whole ones stay as they are."""
    return number if isinstance(number, int) else float(f"{number:.{digits}g}")
