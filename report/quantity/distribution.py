"""A distribution over networks of which each has one published number, such as a gain.

One number has no interval.  The interval of a median says what the networks tell of networks alike:
it treats them as drawn independently, which variants of one design are not.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from report.quantity.expression import Inferred, Leaf, absent, exact
from report.quantity.units import ONE
from report.statistics.estimates import median_interval

#: Fewer networks make no distribution.
FEW: Final = 10
#: Of the quantiles that are printed and drawn, the ends.
PERCENTS: Final = (5, 25, 75, 95)
_TOO_FEW: Final = f"published for fewer than {FEW} networks"
#: Digits of a number that has no interval to round it by.
_DIGITS: Final = 3


@dataclass(frozen=True)
class Distribution:
    """One number without unit for each network, from ``files``."""

    name: str
    numbers: Mapping[str, float]
    files: tuple[str, ...]

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
        if not self.known:
            return absent(self.name, "1", _TOO_FEW)
        return Inferred(
            ONE,
            f"median of {self.name}",
            self.files[0],
            "cuda",
            further=self.files[1:],
            interval=lambda level: median_interval(self.numbers.values(), level),
        )

    def quantile(self, percent: int) -> Leaf:
        """The quantile below which ``percent`` of the networks lie."""
        return self._exact(f"{percent} % quantile", self.cut(percent))

    def cut(self, percent: int) -> float:
        """The same as a plain number, 0 without networks."""
        return statistics.quantiles(self.numbers.values(), n=100)[percent - 1] if self.known else 0

    def share(self, name: str, holds: Callable[[float], bool]) -> Leaf:
        """The share of the networks for which ``holds`` is true."""
        number = sum(map(holds, self.numbers.values())) / max(1, len(self.numbers))
        return self._exact(f"share of networks {name}", number)

    @property
    def largest(self) -> Leaf:
        """The largest number: one sample of one network."""
        return self._exact("largest", max(self.numbers.values(), default=0))

    @property
    def smallest(self) -> Leaf:
        """The smallest number, of one network too."""
        return self._exact("smallest", min(self.numbers.values(), default=0))

    def extreme(self, choose: Callable[..., str]) -> str:
        """The network with the largest (``max``) or smallest (``min``) number; none is no text."""
        return choose(self.numbers, key=lambda name: (self.numbers[name], name), default="")

    def of(self, network: str) -> Leaf:
        """The number of one network: one sample, without an interval."""
        if network not in self.numbers:
            return absent(self.name, "1", f"{network} is not published")
        return exact(
            f"{self.name}({network})", "1", _rounded(self.numbers[network]), *self._sources
        )

    def _exact(self, what: str, number: float) -> Leaf:
        if not self.known:
            return absent(self.name, "1", _TOO_FEW)
        return exact(f"{what} of {self.name}", "1", _rounded(number), *self._sources)

    @property
    def _sources(self) -> tuple[str, tuple[str, ...]]:
        return self.files[0], self.files[1:]


def _rounded(number: float) -> float:
    return number if isinstance(number, int) else float(f"{number:.{_DIGITS}g}")
