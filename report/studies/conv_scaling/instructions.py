"""Which code executes the layer, and with which instructions it was counted and timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from report.evidence.primitives import Logged
from report.evidence.runs import Factors
from report.instruments.onednn import AVX2, NATIVE
from report.missing import Missing
from report.paper.declared import Field
from report.paper.primitives import primitives_table
from report.paper.tables import Table
from report.quantity.expression import Quantity, absent, exact, named
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.subject import SHOWN_BATCH

#: The variant whose channels do not fill the blocks.
UNEVEN: Final = "33 channels"


def _name(logged: Logged) -> str:
    return str(logged.case.factors.get("variant", "the layer"))


def primitives(found: Sequence[Logged]) -> Table:
    """The code of each case by instructions, with what it executes beside what was counted."""
    return primitives_table(found, Field("Case", "", _name))


def _uneven(get: Callable[[Logged], Quantity]) -> Callable[[Sequence[Logged]], Quantity]:
    def value(found: Sequence[Logged]) -> Quantity:
        case = next((each for each in found if _name(each) == UNEVEN), None)
        return get(case) if case else absent(UNEVEN, "1", "it was not logged")

    return value


#: The numbers of the prose that rest on the logs.
VALUES: Final[dict[str, Callable[[Sequence[Logged]], Quantity]]] = {
    "uneven_channels": _uneven(
        lambda case: exact("C_out", "1", case.case.layers[0].output_shape[1])
    ),
    "uneven_native": _uneven(lambda case: case.executed(NATIVE)),
    "uneven_avx2": _uneven(lambda case: case.executed(AVX2)),
    "uneven_counted": _uneven(Logged.counted),
}


def slowdown(run: Run) -> Quantity:
    """How many times as long a forward call takes with AVX2 as with all instructions."""
    narrow = run.series("time", _narrow(run))
    return named("slowdown with AVX2", narrow / run.time(SHOWN_BATCH))


def was_timed(run: Run | None) -> bool:
    """Whether the layer was timed with AVX2 alone too."""
    return run is not None and not isinstance(run.samples("time", _narrow(run)), Missing)


def _narrow(run: Run) -> Factors:
    """The case of the layer that was timed with AVX2 alone."""
    return {**run.factors(SHOWN_BATCH, "forward"), "subject": "avx2"}
