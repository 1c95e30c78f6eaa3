"""All that the paper of training_roofline prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, product
from typing import Final, TypeAlias

from report.core.statistics.estimates import Estimate
from report.core.text.escape import markdown
from report.evidence.audit import Check, count_by_verdict
from report.paper.findings import Inputs
from report.paper.machines import setup, short_name
from report.paper.study import Content, Part, Study, audit_row
from report.paper.tables import Table
from report.quantity.evaluation import estimate, to_digits
from report.quantity.expression import Quantity, Statement, exact
from report.quantity.verdicts import all_of, verdict_of
from report.studies.training_roofline import figures, theory
from report.studies.training_roofline.results import RATE, audit
from report.studies.training_roofline.runs import DEPTHWISE, Run
from report.studies.training_roofline.source import (
    CLOCKS,
    GPUS,
    MEGA,
    RTX,
    T4,
    T4_CLOCK,
    PrintedRate,
    Source,
)
from report.studies.training_roofline.subject import (
    HEAVY,
    IMAGE,
    LIGHT,
    NETWORKS,
    SMALL,
    check_subject,
)

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
        self.audit, self.corrections = audit(self.source), self.source.corrections()
        self.fell = next(filter(self.source.collapsed, self.source.cases))
        self.remainders = self.source.remainders()
        self.checks = tuple(chain.from_iterable(self.audit.values()))
        self.beside_source = (self.gpu, self.source) if self.gpu else None

    def audited(self) -> tuple[Check, ...]:
        """Return the checks of the source's numbers."""
        return self.checks


study = Study(Paper, check_subject, audits=Paper.audited)
findings = study.findings
#: The source's printed numbers; they are read from all data of the paper.
source: Part[Paper] = study.part("", "source")
cpu: Part[Run] = study.part("cpu")
gpu: Part[Run] = study.part("gpu")
loader: Part[Run] = study.part("loader", "cpu")
shares: Part[Source] = study.part("source")
beside_source: Part[tuple[Run, Source]] = study.part("beside_source", "pair")


@source.text()
def source_device(p: Paper) -> str:
    return markdown(p.inputs.reported.device)


gpu.texts(gpu=short_name)
cpu.texts(cpu=short_name)
loader.texts(loader=short_name)


# ---------------------------------------------------------------------------- source and theory


def _factor(p: Paper, before: int, after: int, by_print: bool = False) -> Quantity:
    """Compute the factor by which the corrections between two rows reduce the ratio."""
    ratios = [row.by_print if by_print else row.ratio for row in p.corrections]
    return ratios[before] / ratios[after]


def _gap(p: Paper, case: PrintedRate) -> Quantity:
    """Compute the share by which the printed throughput exceeds the one by the printed rate."""
    return case.images / p.source.by_print(case).images - 1


def _bias(p: Paper, end: str) -> Quantity:
    """Bound how far the mean throughput of the collapsed steps exceeds their mean rate.

    Of all distributions of these moments, one of an ``end`` and one other time is the extreme.
    """
    deviation, extreme = (p.source.value(id, "s", 1e-3) for id in ("collapse_deviation", end))
    mean, variance = p.fell.batch / p.source.by_print(p.fell).images, deviation * deviation
    return variance / (extreme * (mean - variance / (extreme - mean)))


def _of_roof(p: Paper, device: str, network: str, by_print: bool = False) -> Quantity:
    """Compute the share that a network reaches of the roofs of its layers."""
    return p.source.of_roof(p.source.compared(device, network, by_print))


def _fixed_time(p: Paper, device: str) -> Quantity:
    """Compute the part (s) of a step of ResNet-50 that its two smaller batches share.

    A batch of twice the size takes twice the rest of the time.
    """
    half, whole = (case.batch / case.images for case in p.source.steady(device, HEAVY)[:2])
    return 2 * half - whole


def _predicted(p: Paper) -> Quantity:
    """Predict the T4's throughput (1/s) at the source's batch from the two smaller ones."""
    half, whole, _ = (case.batch / case.images for case in _batches(p))
    return theory.SOURCE_BATCH / _doubled(half, whole)


def _batches(p: Paper) -> list[PrintedRate]:
    """List ResNet-50's batches on the T4."""
    return [c for c in p.source.cases if (c.device, c.network) == (T4, HEAVY)]


def _doubled(half: Quantity, whole: Quantity) -> Quantity:
    """Predict the time (s) of a step of twice the batch of ``whole``, itself twice ``half``."""
    return 3 * whole - 2 * half


@source.mapping()
def _counts(p: Paper) -> dict[str, Quantity]:
    differing = count_by_verdict(p.checks)["differs"]
    return {
        "audited": exact("audited numbers", "1", len(p.checks), p.source.file),
        "differing": exact("numbers that differ", "1", differing, p.source.file),
        "paradox_printed": p.source.value("paradox"),
        "source_batch": exact("batch", "1", theory.SOURCE_BATCH),
        "loaded_batch": exact("batch", "1", theory.LOADED_BATCH),
        "loaded_image": exact("side of a loaded image", "1", theory.LOADED_IMAGE),
        "image": exact("side of an image", "1", IMAGE),
        "half_batch": exact("batch", "1", p.source.compared(RTX, HEAVY).batch),
        "collapse_factor": p.source.value("collapse_factor"),
        "iterations": p.source.value("iterations"),
        "warmup": p.source.value("warmup"),
        "winograd": exact("direct over Winograd's multiplications", "1", theory.WINOGRAD),
        "images": p.source.first_row("dataset", "images"),
    }


@source.mapping()
def _clocks(p: Paper) -> dict[str, Quantity]:
    clocks = {name: p.source.first_row("cores", name) for name in CLOCKS[RTX]}
    needed = p.source.share(p.source.compared(T4, SMALL))
    return {
        "t4_top": exact("clock", "1", T4_CLOCK),
        "t4_low": to_digits(T4_CLOCK * p.source.needed_clock, 3),
        "t4_needed": to_digits(T4_CLOCK * needed, 3),
        "t4_always": to_digits(T4_CLOCK * p.source.remainders("low")[HEAVY].ratio, 3),
        "even_clock": to_digits(clocks["nominal"] / p.remainders[SMALL].by_print, 2),
        "even_heavy": to_digits(clocks["nominal"] / p.remainders[HEAVY].ratio, 2),
        "printed_clock": p.source.printed_clock,
        "laptop_cores": p.source.first_row("cores", "cores"),
        **{f"{name}_clock": clock for name, clock in clocks.items()},
    }


@source.mapping("measured")
def _ratios(p: Paper) -> dict[str, Quantity]:
    heavy, least = p.remainders[HEAVY], p.source.remainders("low")
    return {
        "small_least": least[SMALL].ratio,
        "small_by_print_least": least[SMALL].by_print,
        "heavy_slow": heavy.ratio / p.source.needed_clock,
        "inflation": _factor(p, 0, 3),
        "peak_factor": _factor(p, 1, 2),
        "run_factor": to_digits(_factor(p, 2, 3), 2),
        "paradox": p.corrections[3].ratio,
        "heavy_ratio": heavy.ratio,
        "light_ratio": p.remainders[LIGHT].ratio,
    }


@source.mapping("measured")
def _hardware(p: Paper) -> dict[str, Quantity]:
    return {
        "rtx_peak": p.source.printed_peak(RTX),
        "laptop_peak": to_digits(p.source.peak(RTX), 3),
        "laptop_bandwidth": p.source.bandwidth(RTX),
        "t4_bandwidth": p.source.bandwidth(T4),
        "loader_cap": p.source.compared(RTX, SMALL).images,
        "heavy_traffic": theory.traffic(HEAVY),
        "t4_ridge": p.source.ridge(T4),
        "rtx_ridge": p.source.ridge(RTX),
        "laptop_memory": to_digits(p.source.memory(RTX), 3),
        "printed_memory": p.source.memory(RTX) * 1e9 / 2**30,
        "fastest_step": p.source.value("collapse_fastest", "s", 1e-3),
        "step_cost": _fixed_time(p, T4),
        "step_predicted": _predicted(p),
        "usual_step": theory.SOURCE_BATCH / p.source.compared(RTX, HEAVY).images,
    }


@source.mapping("percent")
def _biases(p: Paper) -> dict[str, Quantity]:
    return {
        "bias_least": to_digits(_bias(p, "collapse_slowest"), 2),
        "bias_most": to_digits(_bias(p, "collapse_fastest"), 2),
        "bias_needed": to_digits(_gap(p, p.fell), 2),
    }


@source.mapping("percent")
def _shares(p: Paper) -> dict[str, Quantity]:
    light_t4, light_rtx = (p.source.compared(device, LIGHT) for device in (T4, RTX))
    small, heavy = (p.source.compared(T4, network) for network in (SMALL, HEAVY))
    return {
        "t4_small_arithmetic": p.source.share(p.source.compared(T4, SMALL)),
        "t4_small_by_throughput": to_digits(_of_roof(p, T4, SMALL), 3),
        "t4_small_by_print": _of_roof(p, T4, SMALL, by_print=True),
        "t4_small_once": p.source.of_roof(small, "nominal", once=True),
        "t4_small_winograd": p.source.of_roof(small, "nominal", winograd=True),
        "t4_heavy_winograd": p.source.of_roof(heavy, "nominal", winograd=True),
        "winograd_small": theory.winograd_share(SMALL),
        "winograd_heavy": theory.winograd_share(HEAVY),
        "t4_light_bandwidth": p.source.of_bandwidth(light_t4),
        "t4_light_memory": p.source.memory_share(T4, LIGHT),
        "rtx_light_bandwidth": p.source.of_bandwidth(light_rtx),
        "rtx_small_roof": _of_roof(p, RTX, SMALL),
        "rtx_heavy_roof": _of_roof(p, RTX, HEAVY),
        "rtx_light_roof": _of_roof(p, RTX, LIGHT),
        "t4_heavy_roof": _of_roof(p, T4, HEAVY),
        "t4_light_roof": _of_roof(p, T4, LIGHT),
        "t4_fixed": to_digits(_fixed_time(p, T4) * p.source.steady(T4, HEAVY)[0].images / 32, 2),
        "rtx_fixed": to_digits(_fixed_time(p, RTX) * p.source.steady(RTX, HEAVY)[0].images / 32, 2),
    }


# ------------------------------------------------------------------------------------- measured


gpu.values(
    "measured",
    allocated=partial(Run.brief_peak, size="allocated"),
    allocated_full=partial(Run.brief_peak, size="allocated", precision="float32"),
    reserved=partial(Run.brief_peak, size="reserved"),
    light_allocated=partial(Run.brief_peak, size="allocated", network=LIGHT),
    half_allocated=partial(
        Run.brief_peak, size="allocated", batch=theory.SOURCE_BATCH // 2, precision="float32"
    ),
)


def _predicted_step(run: Run) -> Quantity:
    """Predict our GPU's time (s) at the source's batch from the two smaller ones."""
    return _doubled(run.step(HEAVY, 32), run.step(HEAVY, 64))


def _clock(run: Run) -> Quantity:
    """Measure our GPU's clock (MHz) while it trains."""
    return run.step(HEAVY, quantity="device_clock") / exact("megahertz", "Hz", MEGA)


gpu.values(
    "measured",
    gpu_clock=_clock,
    gpu_step=partial(Run.step, network=HEAVY),
    gpu_step_predicted=_predicted_step,
    narrow_small=partial(Run.narrow_gain, network=SMALL),
    narrow_heavy=partial(Run.narrow_gain, network=HEAVY),
    narrow_light=partial(Run.narrow_gain, network=LIGHT),
)


def _of_sheet(pair: tuple[Run, Source], operation: str) -> Quantity:
    """Divide a measured ceiling of our GPU in float32 by the peak of its data sheet."""
    run, source = pair
    return run.peak_rate(operation) / source.peak(run.model)


def _of_our_roof(pair: tuple[Run, Source], network: str) -> Quantity:
    """Compute the share that our GPU reaches of the roofs of a network's layers."""
    run, source = pair
    peak = source.peak(run.model)
    least = peak if peak.missing else source.least(run.model, network, theory.SOURCE_BATCH)[0]
    return least / run.step(network)


beside_source.values(
    "percent",
    gpu_product=partial(_of_sheet, operation="matrix_product"),
    gpu_convolution=partial(_of_sheet, operation="convolution"),
    gpu_small_roof=partial(_of_our_roof, network=SMALL),
    gpu_heavy_roof=partial(_of_our_roof, network=HEAVY),
    gpu_light_roof=partial(_of_our_roof, network=LIGHT),
)
cpu.values(
    cpu_narrow_heavy=partial(Run.narrow_gain, network=HEAVY, image=64, batch=32),
    cpu_narrow_light=partial(Run.narrow_gain, network=LIGHT, image=64, batch=32),
    layers_batch=partial(Run.of_profiles, factor="batch"),
    layers_image=partial(Run.of_profiles, factor="image"),
)
cpu.values(
    "percent",
    dense_share=partial(Run.share, network=HEAVY, kind="3 × 3"),
    pointwise_share=partial(Run.share, network=HEAVY, kind="1 × 1"),
    depthwise_share=partial(Run.share, network=LIGHT, kind=DEPTHWISE, of_memory=True),
)


loader.values(loader_four=Run.four_loaders)


# -------------------------------------------------------------------------------------- claims


@source.claim("All three networks lie right of the T4's ridge")
def compute_bound(p: Paper) -> Iterator[Statement]:
    return (theory.intensity(name) / p.source.ridge(T4) > 1 for name in NETWORKS)


@source.claim("The laptop trains more than a tenth faster where neither GPU collapsed")
def hardware(p: Paper) -> Iterator[Statement]:
    slow = {(c.network, c.batch): c.images for c in p.source.steady(T4)}
    steady = p.source.steady(RTX)
    return (c.images / slow[c.network, c.batch] > 1 + MARGIN for c in steady)


@source.claim("The laptop reaches a tenth more of its layers' roofs than the T4")
def laptop_ahead(p: Paper) -> Iterator[Statement]:
    for reading in (HEAVY, False), (HEAVY, True), (LIGHT, False):
        yield _of_roof(p, RTX, *reading) / _of_roof(p, T4, *reading) > 1 + MARGIN


@source.claim(
    "With the T4 at its highest clock its ResNet-18 exceeds the sum of its layers' roofs by its "
    "throughput and not by its rate"
)
def readings_differ(p: Paper) -> Iterator[Statement]:
    cases = [p.source.compared(T4, SMALL, by_print) for by_print in (False, True)]
    for once in (False, True):
        by_throughput, by_rate = (p.source.of_roof(c, "nominal", once=once) for c in cases)
        yield by_throughput > 1
        yield by_rate < 1


@source.claim("With Winograd's smallest tile the T4's ResNet-18 stays below its layers' roofs")
def winograd_suffices(p: Paper) -> Statement:
    case = p.source.compared(T4, SMALL)
    return p.source.of_roof(case, "nominal", winograd=True) < 1


@beside_source.claim(
    "On our GPU a float32 convolution exceeds the data sheet's peak by a tenth, a product does not"
)
def library_multiplies_less(pair: tuple[Run, Source]) -> Iterator[Statement]:
    yield _of_sheet(pair, "convolution") > 1 + MARGIN
    yield _of_sheet(pair, "matrix_product") < 1


def _memory_shares(p: Paper, network: str) -> Iterator[Quantity]:
    """Yield the share of the least time near the memory roof, per GPU and clock."""
    clocks = ((device, clock) for device in GPUS for clock in CLOCKS[device])
    return (p.source.memory_share(device, network, clock) for device, clock in clocks)


@loader.claim("An average of step throughputs is a tenth too high if the loader is the slower part")
def averages_overstate(run: Run) -> Statement:
    return run.overstated(*WAITING) > MARGIN


@loader.claim(
    "An average of step throughputs is less than a tenth too high if the network is slower"
)
def averages_agree(run: Run) -> Iterator[Statement]:
    return (run.overstated(*case) < MARGIN for case in FED)


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
    half = run.peak("allocated", batch=theory.SOURCE_BATCH // 2, precision="float32")
    yield run.peak("allocated") / half > 1 + MARGIN


@source.claim(
    "A wrong peak alone raises the source's ratio at least 1.4 times, with a collapsed run 1.5",
    numbers=("paradox_printed", "printed_clock", "peak_factor"),
)
def inflated(p: Paper) -> Iterator[Statement]:
    for by_print in (False, True):
        yield _factor(p, 0, 3, by_print) > 1.5
    yield _factor(p, 1, 2) > 1.4


@source.claim("After correction the T4 is still more than a tenth more efficient on ResNet-18")
def small_remains(p: Paper) -> Iterator[Statement]:
    for ratio in (p.remainders[SMALL].ratio, p.remainders[SMALL].by_print):
        yield ratio > 1 + MARGIN


@source.claim(
    "With the T4 at its highest clock the laptop's rated clocks reach from a tenth below parity "
    "to a tenth above it on ResNet-50, and nowhere below it on the two other networks",
    numbers=("even_heavy",),
)
def clock_decides(p: Paper) -> Iterator[Statement]:
    low, high = p.source.remainders("low"), p.source.remainders("high")
    yield low[HEAVY].ratio < 1 - MARGIN
    yield high[HEAVY].ratio > 1 + MARGIN
    for least in (low[LIGHT].ratio, low[SMALL].ratio, low[SMALL].by_print):
        yield least > 1


@source.claim(
    "With the T4 at the lowest clock of its rates it leads on ResNet-50 at every rated clock"
)
def t4_clock_decides(p: Paper) -> Statement:
    return p.source.remainders("low")[HEAVY].ratio / p.source.needed_clock > 1


@source.claim("A fixed time a step predicts the T4's gains of larger batches to two hundredths")
def step_cost(p: Paper) -> Iterator[Statement]:
    yield (_predicted(p) / _batches(p)[-1].images).near(1, 0.02)


@source.claim("Memory is the nearer roof in over half of MobileNetV2's least time on both GPUs")
def light_memory(p: Paper) -> Iterator[Statement]:
    for share in _memory_shares(p, LIGHT):
        yield share > 0.5


@source.claim("Arithmetic is the nearer roof in over half of ResNet-50's least time on both GPUs")
def heavy_arithmetic(p: Paper) -> Iterator[Statement]:
    for share in _memory_shares(p, HEAVY):
        yield share < 0.5


# ------------------------------------------------------------------------------------- figures


shares.figure(key=True, height=2.6)(figures.clocks)
shares.figure(height=2.1)(figures.shares)
beside_source.figure(height=3.2)(figures.memory)
cpu.figure(height=2.3, wide=True, same_axes=True)(figures.layers)


# -------------------------------------------------------------------------------------- tables


#: Columns of two significant digits.
_TWO: Final = dict.fromkeys(("T4 (%)", "Laptop (%)", "Layer by layer", "Perfect cache"), 2) | (
    dict.fromkeys(("By throughputs", "By rates"), 2)
)


def _short(quantity: Quantity) -> Quantity:
    """Drop the interval of the source's printed digits where no clock widens it."""
    bounds = estimate(quantity)
    if not isinstance(bounds, Estimate) or bounds.high > (1 + _NARROW) * bounds.low:
        return quantity
    return to_digits(quantity, 4)


@source.table("paradox", digits=_TWO)
def corrections(p: Paper) -> Iterator[Mapping[str, Content]]:
    for step in p.corrections:
        yield {
            "Mean efficiency": step.name,
            "T4 (%)": _short(step.t4),
            "Laptop (%)": _short(step.rtx),
            "By throughputs": _short(step.ratio),
            "By rates": _short(step.by_print),
        }


@source.table(digits={"By rate (1/s)": 3, "Rate ÷ throughput": 2}, wide=True)
def readings(p: Paper) -> Iterator[Mapping[str, Content]]:
    for case in [case for case in p.source.cases if case.row]:
        printed, implied = to_digits(case.images, 4), p.source.by_print(case).images
        yield {
            "Device": "laptop" if case.device == RTX else case.device,
            "Network": case.network,
            "Batch": case.batch,
            "Printed (1/s)": printed,
            "By rate (1/s)": to_digits(implied, 3),
            "Rate ÷ throughput": to_digits(implied / printed, 2),
        }


@source.table(digits=_TWO)
def intensity(p: Paper) -> Iterator[Mapping[str, Content]]:
    for row in p.source.rows("bound"):
        network = row.text("network")
        yield {
            "Network": network,
            "Printed": p.source.exact(row.printed("intensity"), "FLOP/B"),
            "Layer by layer": theory.intensity(network),
            "Perfect cache": theory.intensity(network, cached=True),
            "T4 (%)": p.source.memory_share(T4, network),
            "Laptop (%)": p.source.memory_share(RTX, network),
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
    "the same on": "no error: NVIDIA prints both",
    "2 · cores": "the peak of the desktop card",
    "width of": "perhaps that of a slower memory",
    "images of": "an epoch holds fewer steps",
    "smallest": "no table has one so small",
    "largest": "a table has a larger one",
    "lowest": "the laptop's mean",
}


# The rates have a table of their own.


@source.table("audit", wide=True, digits={"Printed ÷ recomputed": 2})
def audit_table(p: Paper) -> Iterator[Mapping[str, Content]]:
    for item in [c for c in p.checks if c.verdict == "differs" and c.formula != RATE]:
        reasons = [why for words, why in _REASONS.items() if item.formula.startswith(words)]
        yield audit_row(p, item) | ({"Finding": reasons[0]} if reasons else {})


#: Decision on an item: by rules of the audit, by a claim, or in words.
_Decision: TypeAlias = tuple[str, ...] | Callable[[Paper], Iterator[Statement]] | str
#: Items of the source, with how they are treated and decided.
_ITEMS: Final[tuple[tuple[str, str, _Decision], ...]] = (
    ("Sections 1.4, 2.1: peaks, bandwidths, work", "audited", ("environments", "complexity")),
    ("Sections 4.2, 4.3: rates, efficiencies", "audited", ("achieved",)),
    ("Sections 3.2, 5: steps, gains", "audited", ("iterations", "throughput", "batches")),
    ("Averages, ratios and ranges in the text", "audited", ("text",)),
    ("Sections 2.3, 5.2: all lie right of both ridges", "traffic layer by layer", compute_bound),
    ("H1: the laptop is faster, but for the collapse", "its throughputs", hardware),
    ("H2: MobileNetV2 is memory-bound", "nearer roof by time", "consistent; T4 reaches no roof"),
    ("H2: ResNet-50 is compute-bound", "nearer roof by time", "consistent on the T4 alone"),
    ("H3: gains shrink with the batch", "a fixed time a step", step_cost),
    ("H3: parallelism, bandwidth, heat, synchronization", "the same", "not needed on the T4"),
    ("The paradox: heat, cooling in the cloud", "clocks", "needs clocks below the rating"),
    ("The paradox: overhead of the framework", "a fixed time a step", "larger on the T4"),
    ("The paradox: memory pressure", "memory on our GPU", "at most for the collapse"),
    ("The collapse: memory or heat", "memory on our GPU", "consistent with memory"),
    ("GPUs beat the CPU 107 and 63 times", "audited", "compares different batches"),
    ("Mixed precision would help", "our GPU (supplement)", "much on ResNets, hardly on the other"),
)


@source.table(wide=True)
def account(p: Paper) -> Iterator[Mapping[str, Content]]:
    for name, treated, decision in _ITEMS:
        yield {"The source's item": name, "Decided by": treated, "Result": _outcome(p, decision)}


def _outcome(p: Paper, decision: _Decision) -> str:
    """Put in words how an item of the source was decided."""
    if isinstance(decision, str):
        return decision
    if isinstance(decision, tuple):
        counts = count_by_verdict([check for kind in decision for check in p.audit[kind]])
        differ = "differs" if counts["differs"] == 1 else "differ"
        return f"{sum(counts.values())} numbers, {counts['differs']} {differ}"
    verdict = verdict_of(all_of(*decision(p)))
    return {"supported": "holds", "refuted": "fails"}.get(verdict, "undecided")
