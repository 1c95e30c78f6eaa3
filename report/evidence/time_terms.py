"""Where the time of a call goes: named terms, each a quantity, and the rest that none explains.

No term is fitted to the time that it should explain.  Each is an amount that was counted or follows
from shapes, over a rate that was measured apart from the call; so their sum may exceed the time,
where the call hides one behind another, and the rest is then below 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from report.quantity.expression import Quantity, named


@dataclass(frozen=True)
class TimeTerms:
    """The time of one call and what it is made of; all in s.

    ``arithmetic`` is its work at the ceiling, ``copies`` are bytes that are moved besides the
    arithmetic at the rate of memory, ``mapping`` the pages that it maps at their measured price,
    ``overhead`` what a call costs however small it is.
    """

    whole: Quantity
    arithmetic: Quantity
    copies: Quantity
    mapping: Quantity
    overhead: Quantity

    @property
    def explained(self) -> Quantity:
        """The sum of the terms."""
        return named("terms", self.arithmetic + self.copies + self.mapping + self.overhead)

    @property
    def rest(self) -> Quantity:
        """What no term explains."""
        return named("rest", self.whole - self.explained)
