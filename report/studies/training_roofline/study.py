"""All that the paper of training_roofline prints."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from operator import attrgetter
from typing import Final, TypeAlias

from figures.panels import Band, Dots, Points, Roofline, Scaling
from report.core.missing import Missing
from report.core.statistics.estimates import Estimate
from report.core.text.escape import markdown
from report.evidence.audit import count_by_verdict
from report.paper.findings import Inputs
from report.paper.machines import setup, short_name
from report.paper.plots import GIGA, dot_series, roof_line
from report.paper.study import Content, Part, Study, audit_row
from report.paper.tables import Table
from report.quantity.evaluation import estimate, to_digits
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.verdicts import all_of, verdict_of
from report.studies.training_roofline import theory
from report.studies.training_roofline.runs import DEPTHWISE, Run, Timed
from report.studies.training_roofline.source import (
    CLOCKS,
    GPUS,
    MEGA,
    RTX,
    T4,
    T4_CLOCK,
    Source,
    audit,
    value_of,
)
from report.studies.training_roofline.theory import (
    HEAVY,
    IMAGE,
    LIGHT,
    NETWORKS,
    SMALL,
    SOURCE_BATCH,
    check_subject,
)
from report.theory.work import PASSES

#: The network that waits for its images and those that do not, with the side of the files.
WAITING: Final = (SMALL, "1080")
FED: Final = ((HEAVY, "1080"), (SMALL, "320"))
#: Times that differ by less than this share are no finding: runs of a machine differ by as much.
MARGIN: Final = 0.1
#: Intervals of printed digits are narrower than this share, and intervals of clocks are wider.
_NARROW: Final = 0.03


class Paper:
    """Runs in their roles, and the source with its audit."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.source = inputs, Source(inputs)
        self.runs = inputs.runs(Run)
        self.cpu, self.gpu = self.runs.get("cpu"), self.runs.get("gpu")
        #: Another machine may have measured training on loaded images.
        self.loader = self.runs.get("second", self.cpu)
        self.checks, self.corrections = audit(self.source), self.source.corrections()
        self.beside_source = (self.gpu, self.source) if self.gpu else None


study = Study(Paper, check_subject, audits=attrgetter("checks"))
findings = study.findings
#: The source's printed numbers; they are read from all data of the paper.
printed: Part[Paper] = study.part("", "source")
source: Part[Source] = study.part("source")
cpu: Part[Run] = study.part("cpu")
gpu: Part[Run] = study.part("gpu")
loader: Part[Run] = study.part("loader", "cpu")
beside_source: Part[tuple[Run, Source]] = study.part("beside_source", "pair")


@printed.text()
def source_device(p: Paper) -> str:
    return markdown(p.inputs.reported.device)


gpu.texts(gpu=short_name)
cpu.texts(cpu=short_name)
loader.texts(loader=short_name)


# ---------------------------------------------------------------------------- source and theory


def _of_roof(
    s: Source, device: str, network: str = SMALL, by_print: bool = False, **model: object
) -> Quantity:
    """Compute the share that a network reaches of the roofs of its layers.

    Bounds span the clocks that the printed number allows.  With options of the ``model`` the clock
    is the nominal one, which is the T4's highest.
    """
    clocks = CLOCKS[device][: 1 if model else 3 if by_print or device == RTX else 2]
    return s.of_roof(s.compared(device, network, by_print), *clocks, **model)


def _fixed_time(s: Source, device: str) -> Quantity:
    """Compute the part (s) of a step of ResNet-50 that its two smaller batches share.

    A batch of twice the size takes twice the rest of the time.
    """
    half, whole = (case.batch / case.images for case in s.steady(device, HEAVY)[:2])
    return 2 * half - whole


def _fixed_share(s: Source, device: str) -> Quantity:
    """Divide this part by the step of the smallest batch."""
    smallest = s.steady(device, HEAVY)[0]
    return _fixed_time(s, device) * smallest.images / smallest.batch


def _doubled(half: Quantity, whole: Quantity) -> Quantity:
    """Predict the time (s) of a step of twice the batch of ``whole``, itself twice ``half``."""
    return 3 * whole - 2 * half


def _predicted(s: Source) -> tuple[Quantity, Quantity]:
    """Predict the T4's throughput (1/s) at the source's batch, and return the printed one."""
    half, whole, last = (c for c in s.cases if (c.device, c.network) == (T4, HEAVY))
    step = _doubled(half.batch / half.images, whole.batch / whole.images)
    return SOURCE_BATCH / step, last.images


@source.mapping()
def _counts(s: Source) -> dict[str, Quantity]:
    return {
        "paradox_printed": s.value("paradox"),
        "source_batch": exact("batch", "1", SOURCE_BATCH),
        "half_batch": exact("batch", "1", s.compared(RTX, HEAVY).batch),
        "loaded_batch": exact("batch", "1", theory.LOADED_BATCH),
        "loaded_image": exact("side of a loaded image", "1", theory.LOADED_IMAGE),
        "image": exact("side of an image", "1", IMAGE),
        "winograd": exact("direct over Winograd's multiplications", "1", theory.WINOGRAD),
        "images": s.first_row("dataset", "images"),
        **{id: s.value(id) for id in ("collapse_factor", "iterations", "warmup")},
    }


@source.mapping()
def _clocks(s: Source) -> dict[str, Quantity]:
    clocks, rest = {name: s.first_row("cores", name) for name in CLOCKS[RTX]}, s.remainders()
    return {
        "t4_top": exact("clock", "1", T4_CLOCK),
        "t4_low": to_digits(T4_CLOCK * s.needed_clock(), 3),
        "t4_needed": to_digits(T4_CLOCK * s.needed_clock(by_print=False), 3),
        "t4_always": to_digits(T4_CLOCK * s.remainders("low")[HEAVY].by_print, 3),
        "even_clock": to_digits(clocks["nominal"] / rest[SMALL].by_print, 3),
        "even_heavy": to_digits(clocks["nominal"] / rest[HEAVY].by_print, 3),
        "printed_clock": s.printed_clock,
        "laptop_cores": s.first_row("cores", "cores"),
        **{f"{name}_clock": clock for name, clock in clocks.items()},
    }


@printed.mapping("measured")
def _ratios(p: Paper) -> dict[str, Quantity]:
    least, rest = p.source.remainders("low"), p.source.remainders()
    differing = count_by_verdict(p.checks)["differs"]
    return {
        "audited": exact("audited numbers", "1", len(p.checks), p.source.file),
        "differing": exact("numbers that differ", "1", differing, p.source.file),
        "small_least": least[SMALL].ratio,
        "small_by_print_least": least[SMALL].by_print,
        "heavy_slow": rest[HEAVY].by_print / p.source.needed_clock(),
        "heavy_ratio": rest[HEAVY].by_print,
        "light_ratio": rest[LIGHT].ratio,
        "peak_factor": p.source.peak_factor(),
        "run_factor": to_digits(p.corrections[2].by_print / p.corrections[3].by_print, 2),
        "paradox": p.corrections[3].by_print,
        "paradox_slow": p.corrections[4].by_print,
    }


@source.mapping("measured")
def _hardware(s: Source) -> dict[str, Quantity]:
    return {
        "rtx_peak": s.printed_peak(RTX),
        "laptop_peak": to_digits(s.peak(RTX), 3),
        "laptop_bandwidth": s.bandwidth(RTX),
        "t4_bandwidth": s.bandwidth(T4),
        "heavy_traffic": theory.traffic(HEAVY),
        "t4_ridge": s.ridge(T4),
        "rtx_ridge": s.ridge(RTX),
        "laptop_memory": to_digits(s.memory(RTX), 3),
        "fastest_step": s.value("collapse_fastest", "s", 1e-3),
        "usual_step": SOURCE_BATCH / s.compared(RTX, HEAVY).images,
        "step_cost": _fixed_time(s, T4),
        "step_predicted": to_digits(_predicted(s)[0], 3),
    }


@source.mapping("percent")
def _shares(s: Source) -> dict[str, Quantity]:
    return {
        "t4_small_by_throughput": to_digits(_of_roof(s, T4, SMALL), 3),
        "t4_small_by_print": _of_roof(s, T4, SMALL, by_print=True),
        "t4_small_once": _of_roof(s, T4, once=True),
        "t4_small_winograd": _of_roof(s, T4, winograd=PASSES),
        "t4_small_weights": to_digits(_of_roof(s, T4, winograd=("weight_gradient",)), 3),
        "winograd_small": theory.winograd_share(SMALL),
        "winograd_heavy": theory.winograd_share(HEAVY),
        "t4_light_memory": s.memory_share(T4, LIGHT),
        "rtx_heavy_roof": _of_roof(s, RTX, HEAVY),
        "rtx_light_roof": _of_roof(s, RTX, LIGHT),
        "t4_heavy_roof": _of_roof(s, T4, HEAVY),
        "t4_light_roof": _of_roof(s, T4, LIGHT),
        "heavy_saved": s.saved_traffic(HEAVY),
        "light_saved": s.saved_traffic(LIGHT),
        "t4_fixed": _fixed_share(s, T4),
        "rtx_fixed": _fixed_share(s, RTX),
    }


# ------------------------------------------------------------------------------------- measured


def _rounded_peak(run: Run, size: str = "allocated", **factors: object) -> Quantity:
    """Round a peak of memory to three digits."""
    return to_digits(run.peak(size, **factors), 3)  # type: ignore[arg-type]


def _predicted_step(run: Run, network: str) -> Quantity:
    """Predict a step at the source's batch from two smaller ones, over its measured time."""
    return to_digits(_doubled(run.step(network, 32), run.step(network, 64)) / run.step(network), 3)


def _clock(run: Run) -> Quantity:
    """Measure our GPU's clock (MHz) while it trains."""
    return run.step(HEAVY, quantity="device_clock") / exact("megahertz", "Hz", MEGA)


gpu.values(
    "measured",
    allocated=_rounded_peak,
    reserved=partial(_rounded_peak, size="reserved"),
    light_allocated=partial(_rounded_peak, network=LIGHT),
    light_reserved=partial(_rounded_peak, size="reserved", network=LIGHT),
    gpu_clock=_clock,
    light_step=partial(Run.step, network=LIGHT, batch=32),
)


def _of_sheet(pair: tuple[Run, Source], operation: str) -> Quantity:
    """Divide a measured ceiling of our GPU in float32 by the peak of its data sheet."""
    run, source = pair
    return run.peak_rate(operation) / source.peak(run.model)


def _of_our_roof(pair: tuple[Run, Source], network: str) -> Quantity:
    """Compute the share that our GPU reaches of the roofs of a network's layers."""
    run, source = pair
    peak = source.peak(run.model)
    least = peak if peak.missing else source.least(run.model, network, SOURCE_BATCH)[0]
    return least / run.step(network)


beside_source.values(
    "percent",
    gpu_product=partial(_of_sheet, operation="matrix_product"),
    gpu_convolution=partial(_of_sheet, operation="convolution"),
)
for size, name in zip(("small", "heavy", "light"), NETWORKS, strict=True):
    for precision in ("float32", "tfloat32"):
        gain = partial(Run.narrow_gain, network=name, precision=precision)
        gpu.values("measured", **{f"{precision}_{size}": gain})
    if name != LIGHT:
        gpu.values("percent", **{f"gpu_{size}_predicted": partial(_predicted_step, network=name)})
    beside_source.values("percent", **{f"gpu_{size}_roof": partial(_of_our_roof, network=name)})


def _profiled_batch(run: Run) -> Quantity:
    """Return the batch of all steps that were timed layer by layer, if it is one."""
    first, *others = run.levels("batch", subject="profile") or (0,)
    if first and not others:
        return exact("batch", "1", int(first), run.file)
    return absent("batch", "1", f"no one batch of all layers on {run.label}")


cpu.values(layers_batch=_profiled_batch)
cpu.values(
    "percent",
    dense_share=partial(Run.share, network=HEAVY, kind="3 × 3"),
    pointwise_share=partial(Run.share, network=HEAVY, kind="1 × 1"),
    depthwise_share=partial(Run.share, network=LIGHT, kind=DEPTHWISE, of_memory=True),
)


# -------------------------------------------------------------------------------------- claims


@source.claim("All three networks lie right of the T4's ridge")
def compute_bound(s: Source) -> Iterator[Statement]:
    return (theory.intensity(name) / s.ridge(T4) > 1 for name in NETWORKS)


@source.claim("The laptop trains more than a tenth faster where neither GPU collapsed")
def hardware(s: Source) -> Iterator[Statement]:
    slow = {(c.network, c.batch): c.images for c in s.steady(T4)}
    return (c.images / slow[c.network, c.batch] > 1 + MARGIN for c in s.steady(RTX))


@source.claim(
    "If no cache keeps a tensor, the laptop reaches a tenth more of its layers' roofs than the T4 "
    "on ResNet-50 and MobileNetV2"
)
def laptop_ahead(s: Source) -> Iterator[Statement]:
    for reading in (HEAVY, False), (HEAVY, True), (LIGHT, False):
        yield _of_roof(s, RTX, *reading) / _of_roof(s, T4, *reading) > 1 + MARGIN


@source.claim(
    "With the T4 at its highest clock its ResNet-18 exceeds the sum of its layers' roofs by its "
    "throughput and not by its rate"
)
def readings_differ(s: Source) -> Iterator[Statement]:
    for once in (False, True):
        yield _of_roof(s, T4, once=once) > 1
        yield _of_roof(s, T4, by_print=True, once=once) < 1


@source.claim(
    "With Winograd's smallest tile in every pass the T4's ResNet-18 stays below its layers' "
    "roofs, with this tile in the weight gradient alone it reaches them within a hundredth"
)
def winograd_suffices(s: Source) -> Iterator[Statement]:
    yield _of_roof(s, T4, winograd=PASSES) < 1
    yield _of_roof(s, T4, winograd=("weight_gradient",)).near(1, 0.01)


@beside_source.claim(
    "On our GPU a float32 convolution exceeds the data sheet's peak by a tenth, a product does not"
)
def library_multiplies_less(pair: tuple[Run, Source]) -> Iterator[Statement]:
    yield _of_sheet(pair, "convolution") > 1 + MARGIN
    yield _of_sheet(pair, "matrix_product") < 1


def _memory_shares(s: Source, network: str) -> Iterator[Quantity]:
    """Yield the share of the least time near the memory roof, per GPU and clock."""
    return (s.memory_share(gpu, network, clock) for gpu in GPUS for clock in CLOCKS[gpu])


@loader.claim("An average of step throughputs is a tenth too high only behind a slower loader")
def averages_overstate(run: Run) -> Iterator[Statement]:
    yield run.overstated(*WAITING) > MARGIN
    for case in FED:
        yield run.overstated(*case) < MARGIN


@loader.claim("Workers that finish together predict steps to a tenth and excess to ten points")
def bunches_predict(run: Run) -> Iterator[Statement]:
    for case in (WAITING, *FED):
        seconds, overstated = run.bunched(*case)
        yield (run.loaded_step(*case) / seconds).near(1, MARGIN)
        yield (run.overstated(*case) - overstated).near(0, MARGIN)


@gpu.claim("ResNet-50 at batch 128 needs a tenth more memory than smaller steps")
def needs_most(run: Run) -> Iterator[Statement]:
    for size, network in product(("allocated", "reserved"), (LIGHT, SMALL)):
        yield run.peak(size) / run.peak(size, network) > 1 + MARGIN
    yield run.peak() / run.peak(batch=SOURCE_BATCH // 2, precision="float32") > 1 + MARGIN


@printed.claim(
    "A wrong peak and a collapsed run inflate the source's ratio at least 1.7 times at every rated "
    "clock of the laptop; with the T4 at its highest clock they make over half of the ratio's "
    "excess over one, with the T4 at its lowest the T4 is the more efficient GPU",
    numbers=("paradox_printed", "printed_clock", "paradox", "paradox_slow"),
)
def inflated(p: Paper) -> Iterator[Statement]:
    first, *_, last, slow = p.corrections
    yield (last.ratio - 1) / (first.ratio - 1) < 0.5
    yield (last.by_print - 1) / (first.by_print - 1) < 0.5
    yield first.by_print / last.by_print > 1.7
    yield slow.by_print > 1


@source.claim(
    "With the T4 at its highest clock the laptop's rated clocks reach from a tenth below parity "
    "to a tenth above it on ResNet-50, and nowhere below it on the two other networks; with the "
    "T4 at the lowest clock of its rates the T4 leads at all of them",
    numbers=("even_heavy",),
)
def clock_decides(s: Source) -> Iterator[Statement]:
    low, high = s.remainders("low"), s.remainders("high")
    for reading in attrgetter("by_print"), attrgetter("ratio"):
        yield reading(low[HEAVY]) < 1 - MARGIN
        yield reading(high[HEAVY]) > 1 + MARGIN
    slow = low[HEAVY].by_print / s.needed_clock()
    for least in (low[LIGHT].ratio, low[SMALL].ratio, low[SMALL].by_print, slow):
        yield least > 1


@source.claim("A fixed time a step predicts the T4's gains of larger batches to two hundredths")
def step_cost(s: Source) -> Statement:
    predicted, printed = _predicted(s)
    return (predicted / printed).near(1, 0.02)


@source.claim("Memory is the nearer roof in over half of MobileNetV2's least time on both GPUs")
def light_memory(s: Source) -> Iterator[Statement]:
    return (share > 0.5 for share in _memory_shares(s, LIGHT))


@source.claim("Arithmetic is the nearer roof in over half of ResNet-50's least time on both GPUs")
def heavy_arithmetic(s: Source) -> Iterator[Statement]:
    return (share < 0.5 for share in _memory_shares(s, HEAVY))


# ------------------------------------------------------------------------------------- figures


@source.figure(key=True, height=2.6)
def clocks(source: Source) -> Iterator[Scaling]:
    """Draw the laptop's clock at which both GPUs are as efficient, over the T4's clock.

    Each line begins at the lowest clock at which arithmetic allows its numbers.
    """
    remainders = source.remainders()
    nominal, low, high = (value_of(source.first_row("cores", name)) for name in CLOCKS[RTX])
    lines, starts = [], [T4_CLOCK * value_of(source.needed_clock(rate)) for rate in (True, False)]
    networks = ((SMALL, False), (SMALL, True), (LIGHT, False), (HEAVY, True))
    for series, (network, by_rate) in enumerate(networks):
        row, share = remainders[network], value_of(source.needed_clock(by_rate))
        even = nominal / value_of(row.by_print if by_rate else row.ratio)
        x, y = (share * T4_CLOCK, T4_CLOCK), (share * even, even)
        label = f"{network}{', throughput' * (not by_rate)}"
        lines.append(Points(label, x, y, series=series, hollow=not by_rate, joined=True))
    claim = value_of(source.printed_clock)
    yield Scaling(
        "The T4's clock (MHz)",
        "The laptop's clock (MHz)",
        tuple(lines),
        bands=(Band("nominal", low, nominal, high, 6), Band("as printed", claim, claim, claim, 6)),
        x_ticks=(*(round(start, -1) for start in starts), T4_CLOCK),
        x_scale="linear",
        y_scale="linear",
        y_bottom=0,
        y_top=1.1 * claim,
        direct=True,
        regions=(("rated clocks", starts[0], 1.02 * high),),
    )


@source.figure(height=2.1)
def shares(source: Source) -> Iterator[Dots]:
    """Draw the share that devices reach of the roofs of a network's layers (%), a row a network.

    Filled marks are from printed throughputs, hollow ones from printed efficiencies.
    """
    series = []
    for (place, device), by_print in product(enumerate(GPUS), (False, True)):
        drawn = dot_series(
            f"{'laptop' if device == RTX else device}, by {'rate' if by_print else 'throughput'}",
            [_of_roof(source, device, network, by_print) for network in NETWORKS],
            "%",
            series=place,
            hollow=by_print,
            shift=0.3 * place + 0.15 * by_print - 0.2,
        )
        series.append(drawn)
    yield Dots(NETWORKS, tuple(series), "Share of the roofs reached (%)", 100.0, x_top=135.0)


@cpu.figure(height=2.0, wide=True, same_axes=True)
def layers(run: Run) -> Iterator[Roofline]:
    """Draw every layer with multiply-adds under the measured roof, a panel a network."""
    if isinstance(run.roof, Missing):
        return
    roof = roof_line(run.roof, "", GIGA)
    for network, timed in run.profiles.items():
        axes = "Intensity (FLOP/B)", "Rate (GFLOP/s)"
        kinds = ("3 × 3", "1 × 1", DEPTHWISE, "7 × 7", "linear")
        marks = [_marks(timed, kind, series) for series, kind in enumerate(kinds)]
        yield Roofline(*axes, (roof,), tuple(marks), network)


def _marks(timed: tuple[Timed, ...], kind: str, series: int) -> Points:
    """Draw the layers of one kind; name one of several, at an end, where few other marks are."""
    shown = [layer for layer in timed if layer.kind == kind and layer.load.flops]
    x = tuple(layer.load.intensity for layer in shown)
    y = tuple(layer.load.flops / layer.time / GIGA for layer in shown)
    named = x.index(max(x)) if kind == "3 × 3" and x else y.index(min(y)) if y else 0
    names = tuple(kind * (place == named and len(y) > 1) for place in range(len(y)))
    return Points("", x, y, series=series, names=names)


# -------------------------------------------------------------------------------------- tables


#: Columns of two significant digits.
_TWO: Final = dict.fromkeys(
    ("T4 (%)", "Laptop (%)", "Layer by layer", "Perfect cache", "By throughputs", "By rates"), 2
)


def _short(quantity: Quantity) -> Quantity:
    """Drop the interval of the source's printed digits where no clock widens it."""
    bounds = estimate(quantity)
    if not isinstance(bounds, Estimate) or bounds.high > (1 + _NARROW) * bounds.low:
        return quantity
    return to_digits(quantity, 4)


@printed.table("paradox", digits=_TWO)
def corrections(p: Paper) -> Iterator[Mapping[str, Content]]:
    for step in p.corrections:
        yield {
            "Mean efficiency": step.name,
            "T4 (%)": _short(step.t4),
            "Laptop (%)": _short(step.rtx),
            "By rates": _short(step.by_print),
            "By throughputs": _short(step.ratio),
        }


@source.table(digits=_TWO)
def intensity(s: Source) -> Iterator[Mapping[str, Content]]:
    for row in s.rows("bound"):
        network = row.cell("network")
        yield {
            "Network": network,
            "Printed": s.exact(row.printed("intensity"), "FLOP/B"),
            "Layer by layer": theory.intensity(network),
            "Perfect cache": theory.intensity(network, cached=True),
            "T4 (%)": s.memory_share(T4, network),
            "Laptop (%)": s.memory_share(RTX, network),
        }


@loader.table(wide=True)
def loading(run: Run) -> Iterator[Mapping[str, Content]]:
    for network, files in (WAITING, *FED) if run.levels("files") else ():
        seconds, overstated = run.bunched(network, files)
        yield {
            "Network": network,
            "Files (px)": files,
            "Loader alone (ms)": run.loaded_step(files=files),
            "Network alone (ms)": run.loaded_step(network),
            "Predicted step (ms)": seconds,
            "Step (ms)": run.loaded_step(network, files),
            "Predicted excess (%)": overstated,
            "Excess (%)": run.overstated(network, files),
        }


@study.shared_table()
def machines(p: Paper) -> Table:
    return setup(tuple(p.runs.values()))


#: Reasons why printed numbers differ from a formula's result, by the formula's first words.
_REASONS: Final = {
    "images/s ·": "rate below throughput",
    "data sheet": "NVIDIA prints both",
    "2 · cores": "the desktop card's peak",
    "work by": "counts multiply-adds",
    "bus width": "perhaps a slower memory",
    "images / ": "an epoch holds fewer steps",
    "least": "no table has one so small",
    "largest": "a table has a larger one",
    "lowest": "the laptop's mean",
}


@printed.table("audit", wide=True, digits={"Printed ÷ recomputed": 2})
def audit_table(p: Paper) -> Iterator[Mapping[str, Content]]:
    for item in [item for item in p.checks if item.verdict == "differs"]:
        reasons = [why for words, why in _REASONS.items() if item.formula.startswith(words)]
        row = audit_row(p, item) | ({"Finding": reasons[0]} if reasons else {})
        yield row | {"Printed where": item.derived.place.replace(", Achieved", "")}


#: Items of the source, with how they are treated and decided: by a claim, or in words.
_Decision: TypeAlias = Callable[[Source], Iterator[Statement] | Statement] | str
_ITEMS: Final[tuple[tuple[str, str, _Decision], ...]] = (
    ("Peaks, rates, averages, speed-ups", "audited", "nearly a third differ"),
    ("Sections 2.3, 5.2: all lie right of both ridges", "traffic layer by layer", compute_bound),
    ("H1: the laptop is faster, but for the collapse", "its throughputs", hardware),
    ("H2: MobileNetV2 is memory-bound", "nearer roof by time", "consistent without a cache"),
    ("H2: ResNet-50 is compute-bound", "nearer roof by time", "consistent on the T4 alone"),
    ("H3: gains shrink with the batch", "a fixed time a step", step_cost),
    ("H3: parallelism, bandwidth, heat, synchronization", "the same", "not needed on the T4"),
    ("The paradox: heat, cooling in the cloud", "clocks", "needs clocks below the rating"),
    ("The paradox: overhead of the framework", "a fixed time a step", "larger on the T4"),
    ("The paradox: memory pressure", "memory on our GPU", "at most for the collapse"),
    ("The collapse: memory or heat", "memory on our GPU", "consistent with memory"),
    ("GPUs beat the CPU 107 and 63 times", "audited", "compares different batches"),
    ("Mixed precision would help", "our GPU (supplement)", "at most a fifth beside TF32"),
)


@source.table(wide=True)
def account(s: Source) -> Iterator[Mapping[str, Content]]:
    for name, treated, decision in _ITEMS:
        result = decision if isinstance(decision, str) else _verdict(decision(s))
        yield {"The source's item": name, "Decided by": treated, "Result": result}


def _verdict(statements: Iterator[Statement] | Statement) -> str:
    """Put the verdict of a claim in words."""
    several = (statements,) if isinstance(statements, Statement) else statements
    verdict = verdict_of(all_of(*several))
    return {"supported": "holds", "refuted": "fails"}.get(verdict, "undecided")
