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
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, exact
from report.quantity.operations import share_of_ceiling
from report.statistics.saturation import Saturation
from report.studies.training_roofline import ladder, memory, settings
from report.studies.training_roofline.batches import (
    ENOUGH,
    Batch,
    fit,
    own_batches,
    source_collapse,
    source_fit,
    sweep,
)
from report.studies.training_roofline.corrected import Corrected, corrected
from report.studies.training_roofline.ladder import Rung
from report.studies.training_roofline.measured import (
    ABOVE,
    Run,
    alone_mark,
    copy_mark,
    product_mark,
)
from report.studies.training_roofline.memory import StepMemory, sweep_memory
from report.studies.training_roofline.profiled import (
    LayerTime,
    Profile,
    Side,
    main_profiles,
    profiles,
)
from report.studies.training_roofline.settings import SENSORS, host_share, pairs, part, readings
from report.studies.training_roofline.source import CPU, RTX, T4, Row, row, rows
from report.studies.training_roofline.subject import (
    HEAVY,
    LAYOUT_NAMES,
    NETWORKS,
    Step,
)
from report.studies.training_roofline.theory import (
    GIGA,
    MEGA,
    SOURCE_BATCH,
    TERA,
    Complexity,
    known_roof,
    own_sheet,
    printed_roof,
)
from report.studies.training_roofline.threads import Threads
from report.text.format import NO_BREAK
from report.theory.roofline import Load, Roof, at_batch, class_loads, operator_class, total
from report.theory.training_memory import Categories, categories
from report.theory.work import flops

#: A device, a network, and the curve through its times.
_Fitted: TypeAlias = tuple[str, str, Saturation | Missing]
#: Classes below this share of the layers' time have no row.
_LEAST_SHARE: Final = 1e-4
_CACHED: Final = "faster than the ceiling: its tensors were still in a cache"
_NOT_PRINTED: Final = Missing("not printed in the source")
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
    yield _complexity(inputs, complexities)
    yield _intensity(inputs, complexities)
    yield _classes(complexities)
    yield _ridges(inputs, runs)
    yield audit_table("tbl-audit", "", checks, (inputs.reported_file,))
    yield _corrected(inputs, corrected(inputs, complexities))
    yield _saturation(inputs, runs)
    yield _anomalies(inputs, runs, shown)
    yield _anchors(inputs, complexities)
    yield _kept_in_theory(complexities)
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
    yield _class_times(run)
    yield _sides(run)
    yield _ladder(run)
    yield _resident(run)
    yield _peaks(run)
    yield _kept(inputs, run)


# ------------------------------------------------------------------------------ theory, source


def _printed(item: Row | None, key: str, factor: float) -> Cell:
    number = item.printed(key) if item else None
    if number is None:
        return _NOT_PRINTED
    whole = number.number * factor
    return round(whole) if factor == MEGA else whole


def _complexity(inputs: Inputs, complexities: dict[str, Complexity]) -> Table:
    """Parameters and operations, by shapes and as printed."""

    def printed(key: str, factor: float) -> Callable[[str], Cell]:
        return lambda n: _printed(row(inputs.reported, "complexity", network=n), key, factor)

    def of(get: Callable[[Complexity], Cell]) -> Callable[[str], Cell]:
        return lambda network: get(complexities[network])

    return table(
        "tbl-complexity",
        complexities,
        [
            Field("Network", "", lambda network: network),
            Field("Parameters", "1", of(lambda c: c.parameters)),
            Field("Parameters, printed", "1", printed("parameters", MEGA)),
            Field("Multiply-adds", "MAC", of(lambda c: c.macs), "GMAC"),
            Field("Forward", "FLOP", of(lambda c: flops(c.macs)), "GFLOP"),
            Field("Forward, printed", "FLOP", printed("forward", GIGA), "GFLOP"),
            Field("Training", "FLOP", of(lambda c: c.training), "GFLOP"),
            Field("Training, printed", "FLOP", printed("training", GIGA), "GFLOP"),
            Field("Training / forward", "1", of(lambda c: c.training / flops(c.macs))),
        ],
        sources=(inputs.reported_file,),
        wide=True,
    )


def _intensity(inputs: Inputs, complexities: dict[str, Complexity]) -> Table:
    """Intensity of a whole step under both models of traffic, beside the printed one."""

    def image(load: Callable[[Complexity], Load]) -> Callable[[str], Cell]:
        return lambda network: load(complexities[network]).bytes / SOURCE_BATCH

    def intensity(load: Callable[[Complexity], Load]) -> Callable[[str], Cell]:
        return lambda network: load(complexities[network]).intensity

    def printed(network: str) -> Cell:
        return _printed(row(inputs.reported, "bound", network=network), "intensity", 1)

    return table(
        "tbl-intensity",
        complexities,
        [
            Field("Network", "", lambda network: network),
            Field("Layer by layer", "B", image(Complexity.layerwise), "MB"),
            Field("Intensity", "FLOP/B", intensity(Complexity.layerwise)),
            Field("Perfect cache", "B", image(Complexity.cached), "MB"),
            Field("Its intensity", "FLOP/B", intensity(Complexity.cached)),
            Field("Printed", "FLOP/B", printed),
        ],
        sources=(inputs.reported_file,),
    )


def _classes(complexities: dict[str, Complexity]) -> Table:
    """Where the work and the traffic of a step are, by operator class."""
    found: list[tuple[str, str, int, Load, Load]] = []
    for name, of in complexities.items():
        layers = at_batch(of.layers, SOURCE_BATCH)
        kinds = [operator_class(layer) for layer in layers]
        loads = class_loads(layers)
        whole = total(loads.values())
        found += [
            (name, kind, kinds.count(kind), load, whole)
            for kind, load in loads.items()
            if load.bytes
        ]
    return table(
        "tbl-classes",
        found,
        [
            Field("Network", "", lambda r: r[0]),
            Field("Class", "", lambda r: r[1]),
            Field("Layers", "1", lambda r: r[2]),
            Field("Operations", "1", lambda r: r[3].flops / r[4].flops or "none", "%"),
            Field("Traffic", "1", lambda r: r[3].bytes / r[4].bytes, "%"),
            Field("Intensity", "FLOP/B", lambda r: r[3].intensity if r[3].flops else "none"),
        ],
    )


def _ridges(inputs: Inputs, runs: Sequence[Run]) -> Table:
    """Peaks, bandwidths and ridge points: printed, of data sheets, measured."""
    sheets = [(name, "printed", printed_roof(inputs, name)) for name in (RTX, T4, CPU)]
    known = ((RTX, "cores and clock"), (T4, "data sheet"))
    sheets += [(n, o, r) for n, o in known if isinstance(r := known_roof(inputs, n), Roof)]
    sheets += [
        (run.label, "data sheet", sheet)
        for run in runs
        if isinstance(sheet := own_sheet(inputs, run), Roof)
    ]
    rows_: list[tuple[str, str, Content, Content, Content]] = [
        (name, origin, roof.peak.value, roof.bandwidth.value, roof.ridge.value)
        for name, origin, roof in sheets
    ]
    for run in runs:
        for precision in run.precisions:
            peak, copy = run.peak(precision), run.copy()
            rows_.append((run.label, f"measured, {precision}", peak, copy, peak / copy))
    return table(
        "tbl-ridges",
        rows_,
        [
            Field("Device", "", lambda r: r[0]),
            Field("Origin", "", lambda r: r[1]),
            Field("Arithmetic", "FLOP/s", lambda r: r[2], "GFLOP/s"),
            Field("Bandwidth", "B/s", lambda r: r[3], "GB/s"),
            Field("Ridge", "FLOP/B", lambda r: r[4]),
        ],
        notes=tuple(
            f"{run.label}: {note}"
            for run in runs
            for note in copy_mark(run)
            if not isinstance(run.roof(), Missing)
        ),
        sources=(inputs.reported_file, *(run.file for run in runs)),
    )


def _corrected(inputs: Inputs, cases: Sequence[Corrected]) -> Table:
    """Printed and corrected rates and efficiencies side by side."""
    return table(
        "tbl-corrected",
        cases,
        [
            Field("Device", "", lambda case: case.device),
            Field("Network", "", lambda case: case.network),
            Field("Batch", "1", lambda case: case.batch),
            # Without digits that the source does not print.
            Field("Images / s", "1", lambda c: int(c.images) if c.images % 1 == 0 else c.images),
            Field("Printed", "FLOP/s", lambda c: f"{c.printed_rate / TERA:g}", "TFLOP/s"),
            Field("Efficiency", "1", lambda c: f"{100 * c.printed_efficiency:g}", "%"),
            Field("Corrected", "FLOP/s", lambda case: case.rate, "TFLOP/s"),
            Field("Of printed peak", "1", lambda case: case.of_printed, "%"),
            Field("Of known peak", "1", lambda case: case.of_known, "%"),
        ],
        sources=(inputs.reported_file,),
        wide=True,
    )


def _anchors(inputs: Inputs, complexities: dict[str, Complexity]) -> Table:
    """What NVIDIA publishes of ResNet-50, with the utilisation that it means."""
    work = complexities[HEAVY].training

    def rate(item: Row) -> float:
        return work * float(item.number_of("throughput").number)

    def peak(item: Row) -> float:
        return float(item.number_of("peak").number) * TERA

    return table(
        "tbl-anchors",
        rows(inputs.reported, "anchors"),
        [
            Field("Device", "", lambda item: item.text("device")),
            Field("Precision", "", lambda item: item.text("precision")),
            Field("Images / s", "1", lambda item: float(item.number_of("throughput").number)),
            Field("Peak", "FLOP/s", peak, "TFLOP/s"),
            Field("Rate", "FLOP/s", rate, "TFLOP/s"),
            Field("Utilisation", "1", lambda item: rate(item) / peak(item), "%"),
        ],
        sources=(inputs.reported_file,),
    )


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


# -------------------------------------------------------------------------------------- layers


def _class_times(run: Run) -> Table:
    """Time, work, rate and nearness to both ceilings by operator class."""
    found: list[tuple[Profile, str, tuple[LayerTime, ...]]] = [
        (profile, kind, items)
        for profile in main_profiles(run)
        for kind, items in profile.by_class().items()
        if not _is_trace(profile, kind)
    ]

    def load(items: Sequence[LayerTime]) -> Load:
        return total(item.load for item in items)

    def of_arithmetic(r: tuple[Profile, str, tuple[LayerTime, ...]]) -> Content:
        peak = run.peak(r[0].step.precision)
        return share_of_ceiling(r[0].rate(r[2]) / peak, ABOVE) if load(r[2]).flops else "none"

    def of_bandwidth(r: tuple[Profile, str, tuple[LayerTime, ...]]) -> Content:
        moved = load(r[2]).bytes
        traffic = exact("least traffic", "B", moved) / r[0].layer_seconds(r[2]) / run.copy()
        return share_of_ceiling(traffic, _CACHED) if moved else "none"

    return table(
        f"tbl-class-times-{run.key}",
        found,
        [
            Field("Network", "", lambda r: r[0].step.network),
            Field("Class", "", lambda r: r[1]),
            Field("Time", "1", lambda r: _time_share(r[0], r[1]), "%"),
            Field("Intensity", "FLOP/B", lambda r: load(r[2]).intensity or "none"),
            Field("Rate", "FLOP/s", lambda r: r[0].rate(r[2]) if load(r[2]).flops else "none",
                  "GFLOP/s"),
            Field("Of arithmetic", "1", of_arithmetic, "%"),
            Field("Of bandwidth", "1", of_bandwidth, "%"),
        ],
        notes=copy_mark(run),
        sources=(run.file,),
        wide=True,
    )  # fmt: skip


def _time_share(profile: Profile, kind: str) -> Quantity:
    return profile.share(lambda item: item.kind == kind, "share of time")


def _is_trace(profile: Profile, kind: str) -> bool:
    """Whether a class takes next to no time."""
    share = point(_time_share(profile, kind))
    return not isinstance(share, Missing) and share < _LEAST_SHARE


def _sides(run: Run) -> Table:
    """The share of time near each ceiling, and what theory expects by the ridge point."""

    def near(side: Side) -> Callable[[Profile], Quantity]:
        return lambda profile: profile.side_share(side)

    return table(
        f"tbl-sides-{run.key}",
        profiles(run) if main_profiles(run) else (),
        [
            Field("Network", "", lambda profile: profile.step.network),
            Field("Setting", "", lambda profile: profile.step.setting),
            Field("Watched step", "s", lambda profile: profile.seconds, "ms"),
            Field("In layers", "1", lambda profile: profile.inside, "%"),
            Field("Near arithmetic", "1", near("arithmetic"), "%"),
            Field("Near copying", "1", near("traffic"), "%"),
            Field("Near neither", "1", near("neither"), "%"),
            Field("Below the ridge", "1", Profile.below_ridge, "%"),
        ],
        notes=copy_mark(run),
        sources=(run.file,),
        wide=True,
    )


# -------------------------------------------------------------------------------------- memory


def _kept_in_theory(complexities: dict[str, Complexity]) -> Table:
    """The categories of every network at the source's image and largest batch, by shapes."""

    def of(get: Callable[[Categories], float]) -> Callable[[str], Cell]:
        def found(network: str) -> Cell:
            layers = at_batch(complexities[network].layers, SOURCE_BATCH)
            return get(categories(layers, on_host=False))

        return found

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


def _resident(run: Run) -> Table:
    """What is alive between steps, by category."""
    return table(
        f"tbl-resident-{run.key}",
        sweep_memory(run),
        [
            Field("Network", "", lambda m: m.step.network),
            Field("Batch", "1", lambda m: m.step.batch),
            Field("Parameters", "B", lambda m: m.theory.parameters, "MB"),
            Field("Gradients", "B", lambda m: m.theory.gradients, "MB"),
            Field("Momentum", "B", lambda m: m.theory.momentum, "MB"),
            Field("Statistics", "B", lambda m: m.theory.statistics, "kB"),
            Field("Images", "B", lambda m: m.theory.batch, "MB"),
            Field("Sum", "B", lambda m: m.theory.between_steps),
            Field("Measured", "B", lambda m: m.before),
            Field("Residual", "B", lambda m: m.residual),
        ],
        sources=(run.file,),
        wide=True,
    )


def _peaks(run: Run) -> Table:
    """What the forward pass keeps, and the peak of the step."""

    def over(m: StepMemory) -> Cell:
        return m.peak if isinstance(m.peak, Missing) else m.peak / m.theory.before_backward

    return table(
        f"tbl-peak-{run.key}",
        sweep_memory(run),
        [
            Field("Network", "", lambda m: m.step.network),
            Field("Batch", "1", lambda m: m.step.batch),
            Field("Kept", "B", lambda m: m.theory.kept, "MB"),
            Field("Kept an image", "B", lambda m: m.theory.kept / m.step.batch, "MB"),
            Field("End of forward", "B", lambda m: m.theory.before_backward, "MB"),
            Field("Peak", "B", lambda m: m.peak, "MB"),
            Field("Beyond theory", "B", lambda m: m.beyond, "MB"),
            Field("Peak / theory", "1", over),
        ],
        sources=(run.file,),
        wide=True,
    )


def _kept(inputs: Inputs, run: Run) -> Table:
    """Kept bytes by shapes beside those of the trace."""
    return table(
        f"tbl-kept-{run.key}",
        memory.kept(inputs, run),
        [
            Field("Network", "", lambda found: found.step.network),
            Field("Image", "1", lambda found: found.step.image),
            Field("Batch", "1", lambda found: found.step.batch),
            Field("By shapes", "B", lambda found: found.theory),
            Field("By the trace", "B", lambda found: found.traced),
            Field("Residual", "B", lambda found: found.residual),
        ],
        sources=(run.file,),
    )
