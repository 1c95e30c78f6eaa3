"""The tables of theory and of the source; their captions stand in the template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from report.evidence.remembered import known
from report.missing import Missing
from report.paper.declared import Field, table
from report.paper.findings import Inputs
from report.paper.tables import Cell, Table
from report.quantity.evaluation import point
from report.studies.training_roofline.corrected import Corrected
from report.studies.training_roofline.paradox import Correction
from report.studies.training_roofline.source import RTX, T4, Row, row, rows
from report.studies.training_roofline.subject import HEAVY, NETWORKS
from report.studies.training_roofline.theory import (
    SOURCE_BATCH,
    Complexity,
)
from report.theory.roofline import Load
from report.theory.training_memory import Categories
from report.theory.work import flops

_NOT_PRINTED: Final = Missing("not printed in the source")


def _printed(item: Row | None, key: str) -> Cell:
    number = item.printed(key) if item else None
    return _NOT_PRINTED if number is None else number.number


def complexity_table(inputs: Inputs, complexities: dict[str, Complexity]) -> Table:
    """Parameters and operations, by shapes and as printed."""

    def printed(key: str) -> Callable[[str], Cell]:
        return lambda n: (
            item.number_of(key).text
            if (item := row(inputs.reported, "complexity", network=n))
            else _NOT_PRINTED
        )

    def of(get: Callable[[Complexity], Cell]) -> Callable[[str], Cell]:
        return lambda network: get(complexities[network])

    return table(
        "tbl-complexity",
        complexities,
        [
            Field("Network", "", lambda network: network),
            Field("Parameters", "1", of(lambda c: c.parameters)),
            Field("Multiply-adds", "MAC", of(lambda c: c.macs), "GMAC"),
            Field("Forward", "FLOP", of(lambda c: flops(c.macs)), "GFLOP"),
            Field("Forward, printed", "FLOP", printed("forward"), "GFLOP"),
            Field("Training", "FLOP", of(lambda c: c.training), "GFLOP"),
            Field("Training, printed", "FLOP", printed("training"), "GFLOP"),
        ],
        sources=(inputs.reported_file,),
        wide=True,
    )


def intensity_table(inputs: Inputs, complexities: dict[str, Complexity]) -> Table:
    """Intensity of a step under both models of traffic, wherever the source prints one."""
    heavy = [(HEAVY, int(r.number_of("batch").number)) for r in rows(inputs.reported, "intensity")]
    others = [(network, SOURCE_BATCH) for network in complexities if network != HEAVY]

    def printed(case: tuple[str, int]) -> Cell:
        item = row(inputs.reported, "intensity", network=case[0], batch=case[1])
        return _printed(item or row(inputs.reported, "bound", network=case[0]), "intensity")

    def of(case: tuple[str, int]) -> tuple[Load, Load]:
        return complexities[case[0]].layerwise(case[1]), complexities[case[0]].cached(case[1])

    return table(
        "tbl-intensity",
        sorted((*heavy, *others), key=lambda case: NETWORKS.index(case[0])),
        [
            Field("Network", "", lambda case: case[0]),
            Field("Batch", "1", lambda case: case[1]),
            Field("Layer by layer", "B", lambda case: of(case)[0].bytes / case[1], "MB"),
            Field("Intensity", "FLOP/B", lambda case: of(case)[0].intensity),
            Field("Perfect cache", "B", lambda case: of(case)[1].bytes / case[1], "MB"),
            Field("Its intensity", "FLOP/B", lambda case: of(case)[1].intensity),
            Field("Printed", "FLOP/B", printed),
        ],
        sources=(inputs.reported_file,),
    )


def corrected_table(inputs: Inputs, cases: Sequence[Corrected]) -> Table:
    """Printed and corrected rates and efficiencies side by side."""

    def printed(key: str) -> Callable[[Corrected], Cell]:
        return lambda case: case.achieved.number_of(key).text if case.achieved else _NOT_PRINTED

    return table(
        "tbl-corrected",
        cases,
        [
            Field("Device", "", lambda case: case.device),
            Field("Network", "", lambda case: case.network),
            Field("Batch", "1", lambda case: case.batch),
            Field("Images / s", "1", lambda case: int(known(point(case.images)))),
            Field("Printed", "FLOP/s", printed("rate"), "TFLOP/s"),
            Field("Efficiency", "1", printed("efficiency"), "%"),
            Field("Corrected", "FLOP/s", lambda case: point(case.rate), "TFLOP/s"),
            Field("Of arithmetic", "1", lambda case: point(case.of_arithmetic), "%"),
            Field("Of bandwidth", "1", lambda case: point(case.of_bandwidth), "%"),
        ],
        sources=(inputs.reported_file,),
        wide=True,
    )


def paradox_table(steps: Sequence[Correction]) -> Table:
    """What is left of the ratio of mean efficiencies, correction by correction."""
    return table(
        "tbl-paradox",
        steps,
        [
            Field("Efficiencies", "", lambda step: step.name),
            Field("Cases", "1", lambda step: step.cases),
            Field(T4, "1", lambda s: s.printed[0] if s.printed else point(s.t4), "%"),
            Field(RTX, "1", lambda s: s.printed[1] if s.printed else s.rtx, "%"),
            Field("Ratio", "1", lambda s: s.printed[2] if s.printed else s.ratio),
        ],
    )


def kept_table(complexities: dict[str, Complexity]) -> Table:
    """The categories of every network at the source's image and largest batch, by shapes."""

    def of(get: Callable[[Categories], float]) -> Callable[[str], Cell]:
        return lambda network: get(complexities[network].memory(SOURCE_BATCH))

    return table(
        "tbl-kept",
        complexities,
        [
            Field("Network", "", lambda network: network),
            Field("Parameters", "B", of(lambda c: c.parameters), "MB"),
            Field("Gradients", "B", of(lambda c: c.gradients), "MB"),
            Field("Momentum", "B", of(lambda c: c.momentum), "MB"),
            Field("Images", "B", of(lambda c: c.batch), "MB"),
            Field("Kept an image", "B", of(lambda c: c.kept / SOURCE_BATCH), "MB"),
            Field("Kept", "B", of(lambda c: c.kept), "GB"),
            Field("End of forward", "B", of(lambda c: c.before_backward), "GB"),
        ],
        wide=True,
    )
