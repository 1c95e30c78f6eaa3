"""What is left of the source's paradox, one correction after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from report.evidence.audit import printed_value
from report.paper.findings import Inputs
from report.quantity.expression import Quantity, absent
from report.quantity.operations import spanning
from report.studies.training_roofline.corrected import Corrected, collapsed, matched
from report.studies.training_roofline.source import RTX, T4, as_printed, row
from report.studies.training_roofline.subject import HEAVY, LIGHT, SMALL
from report.studies.training_roofline.theory import GIGA, laptop_peak


@dataclass(frozen=True)
class Correction:
    """The mean efficiencies of both GPUs after a correction, over ``cases`` cases each.

    ``printed`` are the digits of the source for the three numbers, where it prints them.
    """

    name: str
    t4: Quantity
    rtx: Quantity
    cases: int
    printed: tuple[str, str, str] | None = None

    @property
    def ratio(self) -> Quantity:
        """How many times as efficient the T4 seems."""
        return self.t4 / self.rtx


def corrections(inputs: Inputs, cases: Sequence[Corrected]) -> tuple[Correction, ...]:
    """From the printed ratio on, each with all corrections before it; then network by network.

    The peak of the laptop's chip has the bounds of its range of clocks.  The source prints no
    efficiency of MobileNetV2, so that it is in no mean and stands by itself.
    """
    averaged = [case for case in cases if case.achieved is not None]
    both = [[c for c in averaged if c.device == device] for device in (T4, RTX)]
    pairs = matched(cases)
    steady = [list(found) for found in zip(*pairs, strict=True)] if pairs else [[], []]

    def by_print(case: Corrected) -> Quantity:
        return case.images * _printed_work(inputs, case) / case.printed_peak

    def step(
        name: str, found: Sequence[Sequence[Corrected]], share: Callable[[Corrected], Quantity]
    ) -> Correction:
        t4, rtx = (_mean([share(case) for case in each]) for each in found)
        return Correction(name, t4, rtx, len(found[0]))

    def known(case: Corrected) -> Quantity:
        return case.of_arithmetic if case.device == T4 else _over_clocks(inputs, case)

    return (
        _as_printed(inputs, len(both[0])),
        step("rates from images a second", both, by_print),
        step("two operations a multiply-add", both, lambda case: case.of_printed),
        step("the peak of the laptop's chip", both, known),
        step("without the collapsed batch", steady, known),
        *(
            step(f"{network} alone", _steady(cases, network), known)
            for network in (HEAVY, SMALL, LIGHT)
        ),
    )


def _steady(cases: Sequence[Corrected], network: str) -> tuple[list[Corrected], ...]:
    """The cases of a network on both GPUs at the batches that collapsed on neither."""
    own = [case for case in cases if case.network == network]
    fell = {case.batch for case in own if collapsed(case, cases)}
    return tuple([c for c in own if c.device == d and c.batch not in fell] for d in (T4, RTX))


def _as_printed(inputs: Inputs, cases: int) -> Correction:
    names = ("t4_efficiency", "rtx_efficiency", "paradox")
    t4, rtx, ratio = (printed_value(inputs.reported, name) for name in names)
    shares = [as_printed(each, "1", inputs.reported_file, 0.01) for each in (t4, rtx)]
    digits = (t4.text, rtx.text, ratio.text)
    return Correction("as printed", shares[0], shares[1], cases, digits)


def _printed_work(inputs: Inputs, case: Corrected) -> Quantity:
    item = row(inputs.reported, "complexity", network=case.network)
    if item is None:
        return absent("printed work", "FLOP", "not printed in the source")
    return as_printed(item.number_of("training"), "FLOP", inputs.reported_file, GIGA)


def _over_clocks(inputs: Inputs, case: Corrected) -> Quantity:
    """The rate over the peak of the laptop's GPU, at the nominal clock and over their range."""
    clocks = ("nominal", "low", "high")
    return spanning(*(case.rate / laptop_peak(inputs, clock) for clock in clocks))


def _mean(shares: Sequence[Quantity]) -> Quantity:
    if not shares:
        return absent("mean efficiency", "1", "no case was printed for both GPUs")
    return sum(shares[1:], shares[0]) / len(shares)
