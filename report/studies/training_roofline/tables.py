"""The tables of training_roofline; their captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Final, TypeAlias

from report.evidence.audit import Check
from report.missing import Missing
from report.paper.audit_table import audit_table
from report.paper.declared import Content, Field, table
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.tables import Cell, Table
from report.quantity.expression import Quantity
from report.statistics.saturation import Saturation
from report.studies.training_roofline import ladder, settings
from report.studies.training_roofline.batches import (
    ENOUGH,
    fit,
    source_fit,
    source_times,
    sweep,
)
from report.studies.training_roofline.corrected import corrected
from report.studies.training_roofline.ladder import Rung
from report.studies.training_roofline.measured import Run, alone_mark, product_mark
from report.studies.training_roofline.paradox import corrections
from report.studies.training_roofline.settings import SENSORS, part, readings
from report.studies.training_roofline.source import T4, source_setup
from report.studies.training_roofline.source_audit import telling
from report.studies.training_roofline.source_tables import (
    anchor_table,
    class_table,
    complexity_table,
    corrected_table,
    intensity_table,
    kept_table,
    paradox_table,
    ridge_table,
)
from report.studies.training_roofline.subject import HEAVY, NETWORKS, Step
from report.studies.training_roofline.theory import Complexity
from report.text.format import NO_BREAK

#: A device, a network, the curve through its times, and the largest batch of them.
_Fitted: TypeAlias = tuple[str, str, Saturation | Missing, int]
_NETWORK: Final[Field[Step]] = Field("Network", "", lambda step: step.network)
_BATCH: Final[Field[Step]] = Field("Batch", "1", lambda step: step.batch)


def all_tables(
    inputs: Inputs,
    runs: Sequence[Run],
    shown: Sequence[Run],
    complexities: dict[str, Complexity],
    by_kind: Mapping[str, Sequence[Check]],
) -> Iterator[Table]:
    """Every table that the data have; ``shown`` are the runs of which each has its own."""
    yield setup(inputs, runs, source_setup(inputs.reported))
    yield complexity_table(inputs, complexities)
    yield intensity_table(inputs, complexities)
    yield class_table(complexities)
    yield ridge_table(inputs, runs)
    checks = tuple(chain.from_iterable(by_kind.values()))
    yield audit_table("tbl-audit", "", checks, (inputs.reported_file,))
    yield _telling(inputs, telling(by_kind))
    cases = corrected(inputs, complexities)
    yield corrected_table(inputs, cases)
    yield paradox_table(corrections(inputs, cases))
    yield _saturation(inputs, runs)
    yield anchor_table(inputs, complexities, runs)
    yield kept_table(complexities)
    found = [_sensors(runs), *(made for run in shown for made in _of_run(run))]
    yield from (made for made in found if made.rows)


def _of_run(run: Run) -> Iterator[Table]:
    yield _batches(run, [step for network in NETWORKS for step in sweep(run, network)])
    yield _ladder(run)
    yield _waits(run)


def _telling(inputs: Inputs, checks: Sequence[Check]) -> Table:
    """The numbers of the source that differ, as printed and computed again."""
    return table(
        "tbl-telling",
        checks,
        [
            Field("Printed where", "", lambda check: check.derived.place),
            Field("Computed from", "", lambda check: check.formula),
            Field("Printed", "", lambda check: f"{check.derived.text} {_unit(check)}".strip()),
            Field("Recomputed", "", lambda check: f"{float(check.recomputed):.3g} {_unit(check)}"),
            Field("Ratio", "", lambda check: f"{check.factor:.2f}" if check.factor else "none"),
        ],
        sources=(inputs.reported_file,),
        wide=True,
    )


def _unit(check: Check) -> str:
    return "" if check.derived.unit == "1" else check.derived.unit


# ------------------------------------------------------------------------------- batch sizes


def _batches(run: Run, steps: Sequence[Step]) -> Table:
    """Time, throughput, gain over the batch before and efficiency."""
    before = {b: a for a, b in pairwise(steps) if a.network == b.network}

    def gain(step: Step) -> Content:
        return run.speedup(before[step], step) if step in before else ""

    return table(
        f"tbl-batches-{run.key}",
        steps,
        [
            _NETWORK,
            _BATCH,
            Field("Processes", "1", run.processes),
            Field("Time of a step", "s", run.time, "ms"),
            Field("Images / s", "image/s", run.images),
            Field("Gain", "1", gain),
            Field("Rate", "FLOP/s", run.rate, "GFLOP/s"),
            Field("Efficiency", "1", run.efficiency, "%"),
        ],
        notes=(*alone_mark(run, steps), *product_mark(run)),
        sources=(run.file,),
        wide=True,
    )


def _saturation(inputs: Inputs, runs: Sequence[Run]) -> Table:
    """Fitted limits and half-saturation batches, the source's and ours."""
    found: list[_Fitted] = [
        (f"{T4}, reported", HEAVY, source_fit(inputs), max(source_times(inputs))),
        *(
            (run.label, n, fit(run, n), max(step.batch for step in steps))
            for run in runs
            for n in NETWORKS
            if (steps := sweep(run, n))
        ),
    ]

    def of(
        get: Callable[[Saturation], Cell],
    ) -> Callable[[_Fitted], Cell]:
        return lambda r: r[2] if isinstance(r[2], Missing) else get(r[2])

    def enough(fitted: _Fitted) -> Cell:
        *_, curve, largest = fitted
        batch = curve if isinstance(curve, Missing) else curve.batch_for(ENOUGH)
        if isinstance(batch, Missing):
            return batch
        whole = max(1, round(batch))
        return f"{whole} (extrapolated)" if whole > largest else whole

    return table(
        "tbl-saturation",
        found,
        [
            Field("Device", "", lambda r: r[0]),
            Field("Network", "", lambda r: r[1]),
            Field("Points", "1", of(lambda curve: curve.n)),
            Field("Limit (images / s)", "1", of(lambda curve: curve.limit)),
            Field("Half", "1", of(lambda curve: curve.half)),
            Field(f"Batch for {100 * ENOUGH:.0f}{NO_BREAK}%", "", enough),
            Field("Scatter", "1", of(lambda curve: curve.residual_std), "%"),
        ],
        sources=(inputs.reported_file, *(run.file for run in runs)),
    )


# ----------------------------------------------------------------------------------- settings


def _waits(run: Run) -> Table:
    """How long training waited for its images, where they came from a folder."""

    def waiting(step: Step) -> Quantity:
        wait = part(run, step, "loader_wait_time")
        return wait / (run.time(step) + wait)

    return table(
        f"tbl-waits-{run.key}",
        run.chosen(dataset="folder"),
        [
            _NETWORK,
            _BATCH,
            Field("Workers", "1", lambda step: step.workers or 0),
            Field("Step", "s", run.time, "ms"),
            Field("Wait", "s", lambda step: part(run, step, "loader_wait_time"), "ms"),
            Field("Waiting", "1", waiting, "%"),
        ],
        sources=(run.file,),
    )


def _ladder(run: Run) -> Table:
    """Every rung with its absolute time, gains and efficiency."""
    rungs = [(network, rung) for network in NETWORKS for rung in ladder.ladder(run, network)]

    def below(found: tuple[str, Rung]) -> Content:
        rung = found[1]
        return "" if rung.below is None else run.speedup(rung.below, rung.step)

    def over_base(found: tuple[str, Rung]) -> Content:
        return "" if found[1].below is None else ladder.gain_over_base(run, *found)

    return table(
        f"tbl-ladder-{run.key}",
        rungs,
        [
            Field("Network", "", lambda found: found[0]),
            Field("Rung", "", lambda found: found[1].name),
            Field("Time of a step", "s", lambda found: run.time(found[1].step), "ms"),
            Field("Images / s", "image/s", lambda found: run.images(found[1].step)),
            Field("Gain", "1", below),
            Field("Over the base", "1", over_base),
            Field("Efficiency", "1", lambda found: run.efficiency(found[1].step), "%"),
        ],
        notes=(*alone_mark(run, (rung.step for _, rung in rungs)), *product_mark(run)),
        sources=(run.file,),
        wide=True,
    )


def _sensors(runs: Sequence[Run]) -> Table:
    """What each device tells of temperature, clock, power and throttling."""
    found = [
        (run, sensor)
        for run in runs
        if any(settings.sensed(run, each) for each in SENSORS)
        for sensor in SENSORS
    ]
    return table(
        "tbl-sensors",
        found,
        [
            Field("Device", "", lambda r: r[0].label),
            Field("Sensor", "", lambda r: r[1].replace("_", " ")),
            Field("Lowest", "", lambda r: readings(*r)[0]),
            Field("Highest", "", lambda r: readings(*r)[1]),
        ],
        sources=tuple(run.file for run in runs),
    )
