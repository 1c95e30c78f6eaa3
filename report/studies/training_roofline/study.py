"""All that the paper of training_roofline prints."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from operator import attrgetter
from typing import Final, TypeAlias

from report.core.text.escape import markdown
from report.evidence.audit import count_by_verdict
from report.paper.findings import Inputs
from report.paper.machines import setup, short_name
from report.paper.study import Content, Part, Study, audit_row
from report.paper.tables import Table
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.operations import spanning
from report.quantity.verdicts import all_of, verdict_of
from report.studies.training_roofline import figures, results, subject, theory
from report.studies.training_roofline.results import Vectors, of_roof
from report.studies.training_roofline.runs import Run
from report.studies.training_roofline.source import CLOCKS, GPUS, RTX, T4, T4_CLOCK, Source, audit
from report.studies.training_roofline.subject import (
    FED,
    HEAVY,
    LIGHT,
    MARGIN,
    MEGA,
    NETWORKS,
    SMALL,
    SOURCE_BATCH,
    WAITING,
)


class Paper:
    """Runs in their roles, and the source with its audit."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.source = inputs, Source(inputs)
        self.runs = inputs.runs(Run)
        self.cpu, self.gpu = self.runs.get("cpu"), self.runs.get("gpu")
        self.checks, self.ratios = audit(self.source), results.efficiency_ratios(self.source)
        self.beside_source = (self.gpu, self.source) if self.gpu else None
        narrow, wide = (self.runs.get(role) for role in ("second", "third"))
        self.vectors = Vectors(narrow, wide) if narrow and wide else None


study = Study(Paper, subject.check_subject, audits=attrgetter("checks"))
findings = study.findings
#: The source's printed numbers; they are read from all data of the paper.
printed: Part[Paper] = study.part("", "source")
source: Part[Source] = study.part("source")
cpu: Part[Run] = study.part("cpu")
gpu: Part[Run] = study.part("gpu")
beside_source: Part[tuple[Run, Source]] = study.part("beside_source", "pair")
vectors: Part[Vectors] = study.part("vectors", "pair")


@printed.text()
def source_device(p: Paper) -> str:
    return markdown(p.inputs.reported.device)


gpu.texts(gpu=short_name)
cpu.texts(cpu=short_name)


# ---------------------------------------------------------------------------- source and theory


study.constants(
    None,
    source_batch=exact("batch", "1", SOURCE_BATCH),
    loaded_batch=exact("batch", "1", subject.LOADED_BATCH),
    loaded_image=exact("side of a loaded image", "1", subject.LOADED_IMAGE),
    vector_batch=exact("batch", "1", subject.VECTOR_BATCH),
    vector_image=exact("side of an image", "1", subject.VECTOR_IMAGE),
    image=exact("side of an image", "1", subject.IMAGE),
    winograd=exact("direct over Winograd's multiplications", "1", theory.WINOGRAD),
    t4_top=exact("clock", "1", T4_CLOCK),
    lanes_predicted=exact("predicted ratio", "1", theory.VECTOR_RATIOS[0]),
)
study.constants(
    "percent",
    padding_small=theory.padding(SMALL),
    winograd_small=theory.winograd_share(SMALL),
)
study.constants("measured", heavy_traffic=theory.traffic(HEAVY))


@source.mapping()
def _counts(s: Source) -> dict[str, Quantity]:
    clocks = {f"{name}_clock": s.first_row("cores", name) for name in CLOCKS}
    return clocks | {
        "paradox_printed": s.value("paradox"),
        "half_batch": exact("batch", "1", s.compared(RTX, HEAVY).batch),
        "images": s.first_row("dataset", "images"),
        "laptop_cores": s.first_row("cores", "cores"),
        "t4_low": to_digits(T4_CLOCK * results.needed_clock(s), 3),
        "t4_needed": to_digits(T4_CLOCK * results.needed_clock(s, by_rate=False), 3),
        "t4_always": results.always_below(s, HEAVY),
        "even_small": results.even_clock(s, SMALL),
        "even_heavy": results.even_clock(s, HEAVY),
        "printed_clock": results.printed_clock(s),
        **{id: s.value(id) for id in ("collapse_factor", "iterations", "warmup")},
    }


@printed.mapping("measured")
def _ratios(p: Paper) -> dict[str, Quantity]:
    s, mean = p.source, p.ratios["mean"]
    printed_peak = s.of_device(RTX, "peak").quantity("FLOP/s", s.file, subject.TERA)
    differing = count_by_verdict(p.checks)["differs"]
    low = (s.peak(RTX, "low"),)
    below = results.ratio(s, SMALL, peaks=low) / results.ratio(s, SMALL, peaks=low, by_rate=False)
    return {
        "audited": exact("audited numbers", "1", len(p.checks), s.file),
        "differing": exact("numbers that differ", "1", differing, s.file),
        "peak_factor": spanning(*(printed_peak / s.peak(RTX, clock) for clock in CLOCKS)),
        "run_factor": to_digits(mean["peak"] / mean["steady"], 2),
        "paradox": mean["steady"],
        "small_ratio": p.ratios[SMALL]["steady"],
        "heavy_ratio": p.ratios[HEAVY]["steady"],
        "light_ratio": p.ratios[LIGHT]["throughput"],
        "light_lowest": results.ratio(s, LIGHT, peaks=low, by_rate=False) * below,
    }


@source.mapping("measured")
def _hardware(s: Source) -> dict[str, Quantity]:
    collapsed, usual = results.collapsed_case(s), s.compared(RTX, HEAVY)
    # Heat alone scales the speed with the clock, from at most the highest rated one.
    heat = s.first_row("cores", "high") / usual.images
    return {
        "rtx_peak": s.printed_peak(RTX),
        "laptop_peak": to_digits(s.peak(RTX), 3),
        "laptop_bandwidth": s.bandwidth(RTX),
        "t4_bandwidth": s.bandwidth(T4),
        "t4_ridge": s.peak(T4) / s.bandwidth(T4),
        "rtx_ridge": s.peak(RTX) / s.bandwidth(RTX),
        # A printed gigabyte is taken as a binary one.
        "laptop_memory": to_digits(s.exact(s.of_device(RTX, "memory"), "B", 2**30), 3),
        "fastest_step": s.value("collapse_fastest", "s", 1e-3),
        "usual_step": SOURCE_BATCH / usual.images,
        "heat_mean": heat * collapsed.images,
        "heat_slowest": heat * SOURCE_BATCH / s.value("collapse_slowest", "s", 1e-3),
        "collapse_deviation": s.value("collapse_deviation", "s", 1e-3),
        "collapse_implied": to_digits(collapsed.implied, 2),
        "step_cost": results.fixed_time(s, T4),
        "step_predicted": to_digits(results.last_throughput(s)[0], 3),
    }


@source.mapping("percent")
def _shares(s: Source) -> dict[str, Quantity]:
    weights = of_roof(s, T4, SMALL, winograd=("weight_gradient",))
    collapsed = results.collapsed_case(s)
    return {
        "t4_small_by_throughput": to_digits(of_roof(s, T4, SMALL), 3),
        "t4_small_by_rate": of_roof(s, T4, SMALL, by_rate=True),
        "t4_small_once": to_digits(of_roof(s, T4, SMALL, once=True), 3),
        "t4_small_weights": weights,
        "t4_light_memory": next(results.memory_shares(s, T4, LIGHT)),
        "rtx_heavy_roof": of_roof(s, RTX, HEAVY),
        "rtx_light_roof": of_roof(s, RTX, LIGHT),
        "t4_heavy_roof": of_roof(s, T4, HEAVY),
        "t4_light_roof": of_roof(s, T4, LIGHT),
        "heavy_saved": results.saved_traffic(s, HEAVY),
        "light_saved": results.saved_traffic(s, LIGHT),
        "collapse_excess": collapsed.images / collapsed.implied - 1,
        "t4_fixed": results.fixed_share(s, T4),
        "rtx_fixed": results.fixed_share(s, RTX),
    }


# ------------------------------------------------------------------------------------- measured


def _rounded_peak(run: Run, size: str = "allocated", **factors: object) -> Quantity:
    """Round a peak of memory to three digits."""
    return to_digits(run.peak(size, **factors), 3)  # type: ignore[arg-type]


@gpu.value("measured")
def gpu_clock(run: Run) -> Quantity:
    """Measure our GPU's clock (MHz) while it trains."""
    return run.step(HEAVY, quantity="device_clock") / exact("megahertz", "Hz", MEGA)


gpu.values(
    "measured",
    allocated=_rounded_peak,
    reserved=partial(_rounded_peak, size="reserved"),
    light_allocated=partial(_rounded_peak, network=LIGHT),
    light_reserved=partial(_rounded_peak, size="reserved", network=LIGHT),
)


beside_source.values(
    "percent",
    gpu_product=partial(results.of_sheet, operation="matrix_product"),
    gpu_convolution=partial(results.of_sheet, operation="convolution"),
)


@cpu.value("percent")
def excess(run: Run) -> Quantity:
    return run.overstated(*WAITING)


@cpu.value("percent")
def excess_predicted(run: Run) -> Quantity:
    network, files = WAITING
    return theory.overstated(run.loaded_step(files=files), run.loaded_step(network))


for name, network in zip(("small", "heavy", "light"), NETWORKS, strict=True):
    beside_source.values(
        "percent", **{f"gpu_{name}_roof": partial(results.of_our_roof, network=network)}
    )
    gpu.values("measured", **{f"narrow_{name}": partial(results.narrow_gain, network=network)})
    vectors.values(
        "measured",
        **{
            f"lanes_{name}": partial(results.by_lanes, network=network),
            f"measured_{name}": partial(results.by_measured_peak, network=network),
        },
    )
vectors.values(
    "measured",
    narrow_peak=partial(results.measured_peak, width="narrow"),
    wide_peak=partial(results.measured_peak, width="wide"),
)


# -------------------------------------------------------------------------------------- claims


@source.claim("All three networks lie right of the T4's ridge")
def compute_bound(s: Source) -> Iterator[Statement]:
    ridge = s.peak(T4) / s.bandwidth(T4)
    return (theory.intensity(name) / ridge > 1 for name in NETWORKS)


@source.claim("The laptop trains more than a tenth faster where neither GPU collapsed")
def hardware(s: Source) -> Iterator[Statement]:
    for network in NETWORKS:
        for laptop, t4 in zip(*(s.steady(device, network) for device in GPUS), strict=True):
            yield laptop.images / t4.images > 1 + MARGIN


@source.claim(
    "If no cache keeps a tensor, the laptop reaches a tenth more of its layers' roofs than the T4 "
    "on ResNet-50 and MobileNetV2"
)
def laptop_ahead(s: Source) -> Iterator[Statement]:
    for network, by_rate in (HEAVY, False), (HEAVY, True), (LIGHT, False):
        laptop, t4 = (of_roof(s, device, network, by_rate=by_rate) for device in GPUS)
        yield laptop / t4 > 1 + MARGIN


@source.claim(
    "With the T4 at its highest clock its ResNet-18 exceeds the sum of its layers' roofs by its "
    "throughput and not by its rate"
)
def readings_differ(s: Source) -> Iterator[Statement]:
    for once in (False, True):
        yield of_roof(s, T4, SMALL, slow=False, once=once) > 1
        yield of_roof(s, T4, SMALL, by_rate=True, slow=False, once=once) < 1


@source.claim(
    "With Winograd's smallest tile in the weight gradient alone the throughput of the T4's "
    "ResNet-18 stays below its layers' roofs, and the T4 reaches over a third less of its roofs on "
    "the two other networks"
)
def fewer_products(s: Source) -> Iterator[Statement]:
    weights = of_roof(s, T4, SMALL, winograd=("weight_gradient",))
    yield weights < 1
    for network in (HEAVY, LIGHT):
        yield of_roof(s, T4, network, slow=False) / weights < 2 / 3


@beside_source.claim(
    "On our GPU a float32 convolution exceeds the data sheet's peak by a tenth, a product does not"
)
def library_multiplies_less(pair: tuple[Run, Source]) -> Iterator[Statement]:
    yield results.of_sheet(pair, "convolution") > 1 + MARGIN
    yield results.of_sheet(pair, "matrix_product") < 1


@cpu.claim("An average of step throughputs is a tenth too high only behind a slower loader")
def averages_overstate(run: Run) -> Iterator[Statement]:
    yield run.overstated(*WAITING) > MARGIN
    for case in FED:
        yield run.overstated(*case) < MARGIN


@vectors.claim(
    "On one core vectors of 256 bits seem twice as efficient as ones of 512 by the peak that their "
    "lanes suggest, and equally efficient by measured peaks, both to a tenth on three networks"
)
def lanes_mislead(runs: Vectors) -> Iterator[Statement]:
    lanes, peak = theory.VECTOR_RATIOS
    for network in NETWORKS:
        yield (results.by_lanes(runs, network) / lanes).near(1, theory.VECTOR_MARGIN)
        yield (results.by_measured_peak(runs, network) / peak).near(1, theory.VECTOR_MARGIN)


@gpu.claim("ResNet-50 at batch 128 needs a tenth more memory than smaller steps")
def needs_most(run: Run) -> Iterator[Statement]:
    for size, network in product(("allocated", "reserved"), (LIGHT, SMALL)):
        yield run.peak(size) / run.peak(size, network) > 1 + MARGIN
    yield run.peak() / run.peak(batch=SOURCE_BATCH // 2, precision="float32") > 1 + MARGIN


@printed.claim(
    "A wrong peak and a collapsed run inflate the source's ratio at least 1.7 times at every rated "
    "clock of the laptop; with the T4 at its highest clock they make over half of the ratio's "
    "excess over one, with a T4 so slow that direct convolution needs its whole peak the T4 leads",
    numbers=("paradox_printed", "printed_clock", "paradox"),
)
def inflated(p: Paper) -> Iterator[Statement]:
    mean = p.ratios["mean"]
    yield (mean["steady"] - 1) / (mean["printed"] - 1) < 0.5
    yield mean["printed"] / mean["steady"] > 1.7
    yield mean["slow"] > 1


@source.claim(
    "With the T4 at its highest clock the laptop's rated clocks reach from a tenth below parity "
    "to a tenth above it on ResNet-50, and stay a tenth above it on ResNet-18, by rates and by "
    "throughputs",
    numbers=("even_heavy", "heavy_ratio", "small_ratio"),
)
def clock_decides(s: Source) -> Iterator[Statement]:
    low, high = ((s.peak(RTX, clock),) for clock in ("low", "high"))
    for by_rate in (True, False):
        yield results.ratio(s, HEAVY, peaks=low, by_rate=by_rate) < 1 - MARGIN
        yield results.ratio(s, HEAVY, peaks=high, by_rate=by_rate) > 1 + MARGIN
        yield results.ratio(s, SMALL, peaks=low, by_rate=by_rate) > 1 + MARGIN


@source.claim("A fixed time a step predicts the T4's throughput at its largest batch to 2 %")
def step_cost(s: Source) -> Statement:
    predicted, last = results.last_throughput(s)
    return (predicted / last).near(1, 0.02)


@source.claim("Memory is the nearer roof in over half of MobileNetV2's least time on both GPUs")
def light_memory(s: Source) -> Iterator[Statement]:
    return (share > 0.5 for device in GPUS for share in results.memory_shares(s, device, LIGHT))


@source.claim("Arithmetic is the nearer roof in over half of ResNet-50's least time on both GPUs")
def heavy_arithmetic(s: Source) -> Iterator[Statement]:
    return (share < 0.5 for device in GPUS for share in results.memory_shares(s, device, HEAVY))


# --------------------------------------------------------------------------- figures and tables

source.figure(key=True, height=2.6)(figures.clocks)
source.figure(height=2.1)(figures.shares)

#: Headings of the columns of ratios, and names of its rows.
_COLUMNS: Final = {"Mean": "mean"} | {network: network for network in NETWORKS}
_WAYS: Final = {
    "as printed": "printed",
    "chip's peak": "peak",
    "no collapse": "steady",
    "slow T4": "slow",
    "by throughput": "throughput",
    "roofs reached": "roofs",
    "images/s": "speed",
}


@printed.table("paradox", wide=True, digits=dict.fromkeys(_COLUMNS, 2))
def ratios(p: Paper) -> Iterator[Mapping[str, Content]]:
    no_mean = absent("mean", "1", "the source averages efficiencies alone")
    for name, way in _WAYS.items():
        row = {"T4 / laptop": name}
        yield row | {head: p.ratios[of].get(way, no_mean) for head, of in _COLUMNS.items()}


@source.table(digits=dict.fromkeys(("Layer by layer", "T4 (%)", "Laptop (%)"), 2))
def intensity(s: Source) -> Iterator[Mapping[str, Content]]:
    for row in s.rows("bound"):
        network = row.cell("network")
        yield {
            "Network": network,
            "Printed": s.exact(row.printed("intensity"), "FLOP/B"),
            "Layer by layer": theory.intensity(network),
            "T4 (%)": next(results.memory_shares(s, T4, network)),
            "Laptop (%)": next(results.memory_shares(s, RTX, network)),
        }


@study.shared_table()
def machines(p: Paper) -> Table:
    return setup(tuple(run for run in (p.cpu, p.gpu) if run))


#: Reasons why printed numbers differ from a formula's result, by the formula's first words.
_REASONS: Final = {
    "images ·": "rate below throughput",
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
    ("H3: gains shrink with the batch", "its throughputs", "as printed, on the T4"),
    ("H3: parallelism, bandwidth, heat, synchronization", "a fixed time a step", "cause open"),
    ("The paradox: heat, cooling in the cloud", "clocks", "needs clocks below the rating"),
    ("The paradox: overhead of the framework", "a fixed time a step", "larger on the T4"),
    ("The paradox: memory pressure", "memory on our GPU", "at most for the collapse"),
    ("The collapse: memory or heat", "memory on our GPU", "consistent with memory"),
    ("GPUs beat the CPU 107 and 63 times", "audited", "compares different batches"),
    ("Mixed precision would help", "bfloat16 on our GPU", "at most a fifth beside TF32"),
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
