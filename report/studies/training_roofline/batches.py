"""Over the batch sizes: throughput, a saturation curve, and whether a batch is an anomaly."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from report.errors import StudyError
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.tables import Cell, Column, Table
from report.statistics.anomaly import Spread, spread
from report.statistics.estimates import Estimate
from report.statistics.saturation import Saturation, saturation_fit
from report.studies.training_roofline.measured import EACH, Run, product_mark
from report.studies.training_roofline.source import RTX, T4, rows, throughput
from report.studies.training_roofline.subject import HEAVY, NETWORKS, Step
from report.text.format import NO_BREAK

#: A rate this much below that of a smaller batch is a fall.
FALL: Final = 0.1
#: The share of the limit from which a larger batch is called not worth its memory.
ENOUGH: Final = 0.9


def sweep(run: Run, network: str, dataset: str = "synthetic") -> tuple[Step, ...]:
    """The plain steps of a network over its batch sizes, at the image size that has most of them.

    Plain is what PyTorch does by default: float32, contiguous, eager.
    """
    plain = [s for s in run.chosen(network=network) if _plain(s) and s.dataset == dataset]
    sizes = {step.image for step in plain}
    most = max(sizes, key=lambda size: (sum(s.image == size for s in plain), size), default=0)
    return tuple(step for step in plain if step.image == most)


def _plain(step: Step) -> bool:
    return (step.precision, step.layout, step.execution, step.optimizer) == (
        "float32",
        "contiguous",
        "eager",
        "default",
    )


def fit(run: Run, network: str) -> Saturation | Missing:
    """The saturation curve through the medians of all processes of a network's sweep."""
    batches: list[float] = []
    times: list[float] = []
    for step in sweep(run, network):
        found = run.by_process(step)
        if not isinstance(found, Missing):
            medians = [statistics.median(samples) for samples in found]
            batches += [step.batch] * len(medians)
            times += medians
    return fitted(batches, times, run.label)


def fitted(batches: Sequence[float], times: Sequence[float], where: str) -> Saturation | Missing:
    """A saturation curve, or why there is none."""
    if len(set(batches)) < 3:
        return Missing(f"fewer than three batch sizes were measured on {where}")
    try:
        return saturation_fit(batches, times)
    except StudyError as error:
        return Missing(str(error).rstrip("."))


def slow_singles(run: Run) -> tuple[str, ...]:
    """The networks whose step at the smallest batch clearly takes longer than at the next one."""
    found = []
    for network in NETWORKS:
        times = [t for s in sweep(run, network) if isinstance(t := run.time(s, EACH), Estimate)]
        if len(times) > 1 and times[0].low > times[1].high:
            found.append(network)
    return tuple(found)


def source_fit(inputs: Inputs) -> Saturation | Missing:
    """The saturation curve through the source's throughputs of ResNet-50 on the T4."""
    table = rows(inputs.reported, "batches")
    batches = [float(item.number_of("batch").number) for item in table]
    images = [float(item.number_of("throughput").number) for item in table]
    times = [b / i for b, i in zip(batches, images, strict=True)]
    return fitted(batches, times, T4)


# -------------------------------------------------------------------------------------- tables


def batch_table(run: Run) -> Table:
    """Time, throughput, gain over the batch before and efficiency."""
    made = tuple(row for network in NETWORKS for row in _batch_rows(run, network))
    image = next((step.image for n in NETWORKS for step in sweep(run, n)), 0)
    return Table(
        f"tbl-batches-{run.key}",
        f"Training steps over the batch size on {run.label}: images of {image} pixels, float32, "
        "contiguous, eager. The gain is that in images a second over the row before; the "
        "efficiency is the achieved rate over the measured matrix product.",
        (
            Column("Network"),
            Column("Batch", "1"),
            Column("Processes", "1"),
            Column("Time of a step", "s", "ms"),
            Column("Images / s", "1"),
            Column("Gain", "1"),
            Column("Rate", "FLOP/s", "GFLOP/s"),
            Column("Efficiency", "1", "%"),
        ),
        made,
        notes=(
            "Gains are ratios; 1 is no gain. Intervals hold the medians of all processes.",
            *product_mark(run),
        ),
        sources=(run.file,),
        wide=True,
    )


def _batch_rows(run: Run, network: str) -> list[tuple[Cell, ...]]:
    steps = sweep(run, network)
    before: dict[Step, Step] = dict(zip(steps[1:], steps, strict=False))
    return [
        (
            *(network, step.batch, run.processes(step), run.time(step), run.images(step)),
            run.speedup(before[step], step) if step in before else "",
            *(run.rate(step), run.efficiency(step)),
        )
        for step in steps
    ]


def saturation_table(inputs: Inputs, all_runs: Sequence[Run]) -> Table:
    """Fitted limits and half-saturation batches, the source's and ours."""
    made: list[tuple[Cell, ...]] = [(f"{T4}, reported", HEAVY, *_fit_cells(source_fit(inputs)))]
    made += [
        (run.label, network, *_fit_cells(fit(run, network)))
        for run in all_runs
        for network in NETWORKS
        if sweep(run, network)
    ]
    return Table(
        "tbl-saturation",
        "The curve rate(b) = limit · b / (b + half) fitted to the throughput over the batch size: "
        "the limit, the batch at which half of it is reached, and the scatter around the curve.",
        (
            Column("Device"),
            Column("Network"),
            Column("Points", "1"),
            Column("Limit (images / s)", "1"),
            Column("Half", "1"),
            Column(f"Batch for {100 * ENOUGH:.0f}{NO_BREAK}%", "1"),
            Column("Scatter", "1", "%"),
        ),
        tuple(made),
        sources=(inputs.reported_file, *(run.file for run in all_runs)),
    )


def _fit_cells(found: Saturation | Missing) -> tuple[Cell, ...]:
    if isinstance(found, Missing):
        return ("", *(found,) * 4)
    return (
        *(found.n, found.limit, found.half, _rounded(found.batch_for(ENOUGH))),
        found.residual_std,
    )


def _rounded(number: float | Missing) -> Cell:
    return number if isinstance(number, Missing) else max(1, round(number))


# ----------------------------------------------------------------------------------- anomalies


@dataclass(frozen=True)
class Batch:
    """One batch size: durations of its steps, and its rate over the best of smaller batches."""

    device: str
    network: str
    batch: int
    spread: Spread
    against_smaller: float | Missing
    predicted: float | Missing

    @property
    def falls(self) -> bool:
        """Whether a smaller batch was clearly faster, image by image."""
        found = self.against_smaller
        return not isinstance(found, Missing) and found < 1 - FALL

    @property
    def anomalous(self) -> bool:
        """A fall together with durations that are no single narrow distribution."""
        return self.falls and self.spread.unsteady

    @property
    def fastest_over_predicted(self) -> float | Missing:
        """The fastest step over what the line through smaller batches gives."""
        if isinstance(self.predicted, Missing):
            return self.predicted
        return self.spread.smallest / self.predicted

    @property
    def verdict(self) -> str:
        """In words."""
        if self.anomalous:
            return "anomaly"
        parts = ["slower than a smaller batch"] * self.falls
        parts += ["unsteady"] * self.spread.unsteady
        return ", ".join(parts) or "steady"


def source_collapse(inputs: Inputs) -> Batch | None:
    """ResNet-50 at batch 128 on the RTX 4080, from what the source prints of its iterations."""
    reported = inputs.reported
    small, middle, large = (throughput(reported, RTX, HEAVY, b) for b in (32, 64, 128))
    if small is None or middle is None or large is None:
        return None
    ids = ("collapse_deviation", "collapse_fastest", "collapse_slowest")
    deviation, fastest, slowest = (reported.value(id_).number / 1e3 for id_ in ids)
    unknown = Missing("the source prints no single iterations")
    durations = [32 / float(small.number), 64 / float(middle.number)]
    predicted = durations[1] + (128 - 64) * (durations[1] - durations[0]) / (64 - 32)
    return Batch(
        f"{RTX}, reported",
        HEAVY,
        128,
        Spread(128 / float(large.number), deviation, fastest, slowest, unknown),
        float(large.number) / max(float(small.number), float(middle.number)),
        predicted,
    )


def own_batches(run: Run, network: str) -> tuple[Batch, ...]:
    """The batches of a sweep, judged by the widest of their processes."""
    made: list[Batch] = []
    best: list[float] = []
    for step in run.timed(sweep(run, network)):
        found = run.by_process(step)
        if isinstance(found, Missing) or min(map(len, found)) < 2:
            continue
        widest = max(map(spread, found), key=lambda s: s.relative)
        rate = step.batch / _median(run.time(step))
        against = rate / max(best) if best else Missing("no smaller batch was timed")
        none = Missing("not asked for")
        made.append(Batch(run.label, network, step.batch, widest, against, none))
        best.append(rate)
    return tuple(made)


def _median(time: Estimate | Missing) -> float:
    if isinstance(time, Missing):
        raise StudyError(f"A time that must be there is missing: {time.reason}.")
    return time.value


def anomaly_table(inputs: Inputs, all_runs: Sequence[Run], shown: Sequence[Run]) -> Table:
    """The rule applied to the source's collapse and to our batches; other runs where one falls."""
    source = source_collapse(inputs)
    found = [
        *([source] if source else []),
        *(
            batch
            for run in all_runs
            for n in NETWORKS
            for batch in own_batches(run, n)
            if run in shown or batch.falls
        ),
    ]
    return Table(
        "tbl-anomalies",
        "Is a batch an anomaly? Relative standard deviation and bimodality of the steps in the "
        "process in which they scatter most, and images a second over the best of the smaller "
        "batches. Of runs that have no tables of their own only batches that fall stand here.",
        (
            Column("Device"),
            Column("Network"),
            Column("Batch", "1"),
            Column("Deviation", "1", "%"),
            Column("Bimodality", "1"),
            Column("Over smaller", "1"),
            Column("Verdict"),
        ),
        tuple(
            (
                *(b.device, b.network, b.batch, b.spread.relative, b.spread.bimodality),
                *(b.against_smaller, b.verdict),
            )
            for b in found
        ),
        sources=(inputs.reported_file, *(run.file for run in all_runs)),
        wide=True,
    )
