"""The tables of training_roofline; their captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
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
    Batch,
    fit,
    own_batches,
    source_collapse,
    source_fit,
    sweep,
)
from report.studies.training_roofline.corrected import corrected
from report.studies.training_roofline.ladder import Rung
from report.studies.training_roofline.layer_tables import class_time_table, side_table
from report.studies.training_roofline.measured import Run, alone_mark, product_mark
from report.studies.training_roofline.memory_tables import (
    kept_in_theory_table,
    kept_table,
    peak_table,
    resident_table,
)
from report.studies.training_roofline.paradox import corrections
from report.studies.training_roofline.settings import SENSORS, host_share, pairs, part, readings
from report.studies.training_roofline.source import T4
from report.studies.training_roofline.source_tables import (
    anchor_table,
    class_table,
    complexity_table,
    corrected_table,
    intensity_table,
    paradox_table,
    ridge_table,
)
from report.studies.training_roofline.subject import HEAVY, LAYOUT_NAMES, NETWORKS, Step
from report.studies.training_roofline.theory import Complexity
from report.studies.training_roofline.threads import Threads
from report.text.format import NO_BREAK

#: A device, a network, and the curve through its times.
_Fitted: TypeAlias = tuple[str, str, Saturation | Missing]
_NETWORK: Final[Field[Step]] = Field("Network", "", lambda step: step.network)
_IMAGE: Final[Field[Step]] = Field("Image", "1", lambda step: step.image)
_BATCH: Final[Field[Step]] = Field("Batch", "1", lambda step: step.batch)


def all_tables(
    inputs: Inputs,
    runs: Sequence[Run],
    shown: Sequence[Run],
    complexities: dict[str, Complexity],
    checks: Sequence[Check],
    threads: Threads | None,
) -> Iterator[Table]:
    """Every table that the data have; ``shown`` are the runs of which each has its own."""
    yield setup(inputs, runs)
    yield complexity_table(inputs, complexities)
    yield intensity_table(inputs, complexities)
    yield class_table(complexities)
    yield ridge_table(inputs, runs)
    yield audit_table("tbl-audit", "", checks, (inputs.reported_file,))
    cases = corrected(inputs, complexities)
    yield corrected_table(inputs, cases)
    yield paradox_table(corrections(inputs, cases))
    yield _saturation(inputs, runs)
    yield _anomalies(inputs, runs, shown)
    yield anchor_table(inputs, complexities)
    yield kept_in_theory_table(complexities)
    found = [_sensors(runs), *(made for run in shown for made in _of_run(inputs, run))]
    if threads is not None:
        found.append(_threads(threads))
    yield from (made for made in found if made.rows)


def _of_run(inputs: Inputs, run: Run) -> Iterator[Table]:
    plain = [step for network in NETWORKS for step in sweep(run, network)]
    yield _batches(run, plain)
    yield _phases(run, run.timed(plain))
    yield _speedups(run)
    yield _images(run)
    yield _waits(run)
    yield _host(run)
    yield class_time_table(run)
    yield side_table(run)
    yield _ladder(run)
    yield resident_table(run)
    yield peak_table(run)
    yield kept_table(inputs, run)


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
        (f"{T4}, reported", HEAVY, source_fit(inputs)),
        *((run.label, n, fit(run, n)) for run in runs for n in NETWORKS if sweep(run, n)),
    ]

    def of(
        get: Callable[[Saturation], Cell],
    ) -> Callable[[_Fitted], Cell]:
        return lambda r: r[2] if isinstance(r[2], Missing) else get(r[2])

    def enough(curve: Saturation) -> Cell:
        batch = curve.batch_for(ENOUGH)
        return batch if isinstance(batch, Missing) else max(1, round(batch))

    return table(
        "tbl-saturation",
        found,
        [
            Field("Device", "", lambda r: r[0]),
            Field("Network", "", lambda r: r[1]),
            Field("Points", "1", of(lambda curve: curve.n)),
            Field("Limit (images / s)", "1", of(lambda curve: curve.limit)),
            Field("Half", "1", of(lambda curve: curve.half)),
            Field(f"Batch for {100 * ENOUGH:.0f}{NO_BREAK}%", "1", of(enough)),
            Field("Scatter", "1", of(lambda curve: curve.residual_std), "%"),
        ],
        sources=(inputs.reported_file, *(run.file for run in runs)),
    )


def _anomalies(inputs: Inputs, runs: Sequence[Run], shown: Sequence[Run]) -> Table:
    """The rule applied to the source's collapse and to our batches; other runs where one falls."""
    source = source_collapse(inputs)
    own = [
        batch
        for run in runs
        for network in NETWORKS
        for batch in own_batches(run, network)
        if run in shown or batch.falls
    ]
    found: list[Batch] = [*([source] if source else []), *own]
    return table(
        "tbl-anomalies",
        found,
        [
            Field("Device", "", lambda batch: batch.device),
            Field("Network", "", lambda batch: batch.network),
            Field("Batch", "1", lambda batch: batch.batch),
            Field("Deviation", "1", lambda batch: batch.spread.relative, "%"),
            Field("Bimodality", "1", lambda batch: batch.spread.bimodality),
            Field("Over smaller", "1", lambda batch: batch.against_smaller),
            Field("Verdict", "", lambda batch: batch.verdict),
        ],
        sources=(inputs.reported_file, *(run.file for run in runs)),
        wide=True,
    )


# ----------------------------------------------------------------------------------- settings


def _phases(run: Run, steps: Sequence[Step]) -> Table:
    """How a step divides into forward pass, backward pass and update."""

    def share(name: str) -> Callable[[Step], Content]:
        return lambda step: part(run, step, name) / run.time(step)

    names = {name: f"{name.lower()}_time" for name in ("Forward", "Backward", "Update")}
    return table(
        f"tbl-phases-{run.key}",
        steps,
        [
            _NETWORK,
            _BATCH,
            Field("Step", "s", run.time, "ms"),
            *(Field(name, "1", share(quantity), "%") for name, quantity in names.items()),
        ],
        sources=(run.file,),
        wide=True,
    )


def _speedups(run: Run) -> Table:
    """Speed-up over float32, contiguous, with the absolute time of that base."""
    steps = [new for _, new in pairs(run)]
    return table(
        f"tbl-speedups-{run.key}",
        steps,
        [
            _NETWORK,
            _IMAGE,
            _BATCH,
            Field("Precision", "", lambda step: step.precision),
            Field("Layout", "", lambda step: LAYOUT_NAMES[step.layout]),
            Field("Base", "s", lambda step: run.time(step.plain), "ms"),
            Field("Time", "s", run.time, "ms"),
            Field("Speed-up", "1", lambda step: run.speedup(step.plain, step)),
            Field("Efficiency", "1", run.efficiency, "%"),
        ],
        notes=(*alone_mark(run, (s for p in pairs(run) for s in p)), *product_mark(run)),
        sources=(run.file,),
        wide=True,
    )


def _images(run: Run) -> Table:
    """Time and rate over the image size at one batch; no rows where no network had two sizes."""
    every = [settings.image_steps(run, network) for network in NETWORKS]
    steps = [step for found in every for step in found if len(found) > 1]
    return table(
        f"tbl-images-{run.key}",
        steps,
        [
            _NETWORK,
            _IMAGE,
            _BATCH,
            Field("Work", "FLOP", run.work, "GFLOP"),
            Field("Time of a step", "s", run.time, "ms"),
            Field("Images / s", "image/s", run.images),
            Field("Rate", "FLOP/s", run.rate, "GFLOP/s"),
            Field("Efficiency", "1", run.efficiency, "%"),
        ],
        notes=(*alone_mark(run, steps), *product_mark(run)),
        sources=(run.file,),
        wide=True,
    )


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


def _host(run: Run) -> Table:
    """How long the host waited for a GPU at the end of each step; no rows on a processor."""
    steps = run.timed(run.steps) if run.on_gpu else ()
    return table(
        f"tbl-host-{run.key}",
        steps,
        [
            _NETWORK,
            _IMAGE,
            _BATCH,
            Field("Setting", "", lambda step: step.setting),
            Field("Step", "s", run.time, "ms"),
            Field("Host waits", "s", lambda step: part(run, step, "wait_time"), "ms"),
            Field("Of the step", "1", lambda step: host_share(run, step), "%"),
        ],
        notes=alone_mark(run, steps),
        sources=(run.file,),
        wide=True,
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


def _threads(found: Threads) -> Table:
    """Plain steps with fewer and with more threads, with absolute times."""

    def time(run: Run) -> Field[Step]:
        number = run.stored.record.environment.threads
        return Field(f"{number} thread{'s' if number > 1 else ''}", "s", run.time, "ms")

    return table(
        "tbl-threads",
        found.steps,
        [
            _NETWORK,
            _IMAGE,
            _BATCH,
            time(found.few),
            time(found.many),
            Field("Speed-up", "1", found.gain),
        ],
        sources=(found.few.file, found.many.file),
    )


def _sensors(runs: Sequence[Run]) -> Table:
    """What each device tells of temperature, clock, power and throttling."""
    found = [
        (run, sensor)
        for run in runs
        if any(settings.told(run, each) for each in SENSORS)
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
