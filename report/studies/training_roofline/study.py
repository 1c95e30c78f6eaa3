"""All that the paper of training_roofline prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain, product
from typing import Final

from report.core.statistics.estimates import Estimate
from report.core.text.escape import markdown
from report.evidence.audit import Check, count_by_verdict
from report.paper.findings import Inputs
from report.paper.machines import setup
from report.paper.study import Content, Part, Study, audit_row
from report.paper.tables import Table
from report.quantity.evaluation import estimate, to_digits
from report.quantity.expression import Quantity, exact
from report.quantity.operations import largest, smallest
from report.quantity.verdicts import Statement, all_of
from report.studies.training_roofline import figures, theory
from report.studies.training_roofline.results import RATE, audit
from report.studies.training_roofline.runs import DEPTHWISE, Run
from report.studies.training_roofline.source import (
    CLOCKS,
    GPUS,
    RTX,
    T4,
    T4_CLOCK,
    Case,
    Source,
)
from report.studies.training_roofline.subject import (
    HEAVY,
    IMAGE,
    LIGHT,
    NETWORKS,
    SMALL,
    Precision,
    Step,
    check_subject,
)

#: Times that differ by less than this share are no finding: runs of a machine differ by as much.
MARGIN: Final = 0.1
#: Intervals of printed digits are narrower than this share, those of clocks are wider.
_NARROW: Final = 0.03


class Paper:
    """The runs in their roles, and the source with its audit."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.source = inputs, Source(inputs)
        runs = inputs.runs(Run)
        self.cpu, self.gpu = runs.get("cpu"), runs.get("gpu")
        self.audit, self.corrections = audit(self.source), self.source.corrections()
        self.fell = next(filter(self.source.collapsed, self.source.cases))
        self.remainders = {each.name: each for each in self.source.remainders()}
        self.checks = tuple(chain.from_iterable(self.audit.values()))
        self.beside_source = (self.gpu, self.source) if self.gpu else None

    def audited(self) -> tuple[Check, ...]:
        """The checks of what the source printed."""
        return self.checks


study = Study(Paper, check_subject, audits=Paper.audited)
findings = study.findings
#: What the source printed, as the paper reads it; its first part is all data of the paper.
source: Part[Paper] = study.part("", "source")
cpu: Part[Run] = study.part("cpu")
gpu: Part[Run] = study.part("gpu")
shares: Part[Source] = study.part("source")
beside_source: Part[tuple[Run, Source]] = study.part("beside_source", "pair")


@source.text()
def source_device(p: Paper) -> str:
    return markdown(p.inputs.reported.device)


def _device(run: Run) -> str:
    return markdown(run.short)


gpu.texts(gpu=_device)
cpu.texts(cpu=_device)


# ---------------------------------------------------------------------------- source and theory


def _factor(p: Paper, before: int, after: int, by_print: bool = False) -> Quantity:
    """The factor by which the rows of corrections between two of them reduce the ratio."""
    ratios = [each.by_print if by_print else each.ratio for each in p.corrections]
    return ratios[before] / ratios[after]


def _gap(p: Paper, case: Case) -> Quantity:
    """How far the printed throughput exceeds that of the printed rate."""
    return case.images / p.source.by_print(case).images - 1


def _startup(p: Paper, case: Case) -> Quantity:
    """The time (s) that would make a throughput of the printed steps the printed rate."""
    return p.source.value("iterations") * case.batch * _gap(p, case) / case.images


def _startups(p: Paper) -> list[Quantity]:
    """That of every case of ResNet-50 on the T4."""
    own = (c for c in p.source.cases if (c.device, c.network) == (T4, HEAVY))
    return [_startup(p, case) for case in own]


def _bias(p: Paper, end: str) -> Quantity:
    """A bound of how far the mean throughput of the collapsed steps exceeds their mean rate.

    Of all distributions of these moments, one of an ``end`` and one other time is the extreme.
    """
    deviation, extreme = (p.source.value(id, "s", 1e-3) for id in ("collapse_deviation", end))
    mean, variance = p.fell.batch / p.source.by_print(p.fell).images, deviation * deviation
    return variance / (extreme * (mean - variance / (extreme - mean)))


def _of_table(p: Paper, table: str, name: str) -> Quantity:
    """A number of the first row of a table that the source did not print."""
    return p.source.exact(p.source.rows(table)[0].printed(name), "1")


def _of_roof(p: Paper, device: str, network: str, by_print: bool = False) -> Quantity:
    """The share that a network reaches of the roofs of its layers."""
    return p.source.of_roof(p.source.compared(device, network, by_print))


def _lead(p: Paper, network: str) -> Quantity:
    """The laptop's images a second over the T4's."""
    return p.source.compared(RTX, network).images / p.source.compared(T4, network).images


@source.value()
def audited(p: Paper) -> Quantity:
    return exact("audited numbers", "1", len(p.checks), p.source.file)


@source.value()
def differing(p: Paper) -> Quantity:
    return exact("numbers that differ", "1", count_by_verdict(p.checks)["differs"], p.source.file)


@source.value()
def paradox_printed(p: Paper) -> Quantity:
    return p.source.value("paradox")


@source.value()
def source_batch(p: Paper) -> Quantity:
    return exact("batch", "1", theory.SOURCE_BATCH)


@source.value()
def image(p: Paper) -> Quantity:
    return exact("side of an image", "1", IMAGE)


@source.value()
def half_batch(p: Paper) -> Quantity:
    return exact("batch", "1", p.source.compared(RTX, HEAVY).batch)


@source.value()
def collapse_factor(p: Paper) -> Quantity:
    return p.source.value("collapse_factor")


@source.value()
def iterations(p: Paper) -> Quantity:
    return p.source.value("iterations")


@source.value()
def warmup(p: Paper) -> Quantity:
    return p.source.value("warmup")


source.values(images=partial(_of_table, table="dataset", name="images"))


@source.value()
def t4_top(p: Paper) -> Quantity:
    return exact("clock", "1", T4_CLOCK)


@source.value()
def t4_low(p: Paper) -> Quantity:
    return to_digits(T4_CLOCK * p.source.needed_clock, 3)


@source.value()
def t4_needed(p: Paper) -> Quantity:
    return to_digits(T4_CLOCK * p.source.share(p.source.compared(T4, SMALL)), 3)


@source.value()
def even_clock(p: Paper) -> Quantity:
    return to_digits(_of_table(p, "cores", "nominal") / p.remainders[SMALL].by_print, 2)


source.values(
    laptop_cores=partial(_of_table, table="cores", name="cores"),
    bus=partial(_of_table, table="bus", name="width"),
    lane=partial(_of_table, table="bus", name="rate"),
)


source.values(
    **{f"{name}_clock": partial(_of_table, table="cores", name=name) for name in CLOCKS[RTX]}
)


@source.value("measured")
def inflation(p: Paper) -> Quantity:
    return _factor(p, 0, 3)


@source.value("measured")
def inflation_by_print(p: Paper) -> Quantity:
    return _factor(p, 0, 3, by_print=True)


@source.value("measured")
def peak_factor(p: Paper) -> Quantity:
    return _factor(p, 1, 2)


@source.value("measured")
def inflation_replaced(p: Paper) -> Quantity:
    return p.corrections[0].ratio / p.source.replaced().ratio


@source.value("measured")
def run_factor(p: Paper) -> Quantity:
    return to_digits(_factor(p, 2, 3), 2)


@source.value("measured")
def between(p: Paper) -> Quantity:
    return to_digits(p.remainders[SMALL].ratio / p.remainders[HEAVY].ratio, 2)


@source.value("measured")
def between_by_print(p: Paper) -> Quantity:
    return to_digits(p.remainders[SMALL].by_print / p.remainders[HEAVY].by_print, 2)


@source.value("measured")
def laptop_between(p: Paper) -> Quantity:
    return p.source.of_other_roof(RTX, SMALL, HEAVY)


@source.value("measured")
def paradox(p: Paper) -> Quantity:
    return p.corrections[3].ratio


@source.value("measured")
def paradox_slow(p: Paper) -> Quantity:
    return p.corrections[4].by_print


@source.value("measured")
def small_ratio(p: Paper) -> Quantity:
    return p.remainders[SMALL].ratio


@source.value("measured")
def small_by_print(p: Paper) -> Quantity:
    return p.remainders[SMALL].by_print


@source.value("measured")
def heavy_ratio(p: Paper) -> Quantity:
    return p.remainders[HEAVY].ratio


@source.value("measured")
def startup_least(p: Paper) -> Quantity:
    return smallest(*_startups(p))


@source.value("measured")
def startup_most(p: Paper) -> Quantity:
    return largest(*_startups(p))


@source.value("measured")
def rtx_peak(p: Paper) -> Quantity:
    return p.source.printed_peak(RTX)


@source.value("measured")
def laptop_peak(p: Paper) -> Quantity:
    return to_digits(p.source.peak(RTX), 3)


@source.value("measured")
def laptop_bandwidth(p: Paper) -> Quantity:
    return p.source.bandwidth(RTX)


@source.value("measured")
def t4_bandwidth(p: Paper) -> Quantity:
    return p.source.bandwidth(T4)


@source.value("measured")
def loader_cap(p: Paper) -> Quantity:
    return p.source.compared(RTX, SMALL).images


source.values(
    "measured", lead_small=partial(_lead, network=SMALL), lead_heavy=partial(_lead, network=HEAVY)
)


@source.value("measured")
def heavy_traffic(p: Paper) -> Quantity:
    return theory.traffic(HEAVY)


@source.value("measured")
def t4_ridge(p: Paper) -> Quantity:
    return p.source.ridge(T4)


@source.value("measured")
def rtx_ridge(p: Paper) -> Quantity:
    return p.source.ridge(RTX)


@source.value("measured")
def laptop_memory(p: Paper) -> Quantity:
    return to_digits(p.source.memory(RTX), 3)


@source.value("measured")
def printed_memory(p: Paper) -> Quantity:
    return p.source.memory(RTX) * 1e9 / 2**30


@source.value("measured")
def fastest_step(p: Paper) -> Quantity:
    return p.source.value("collapse_fastest", "s", 1e-3)


@source.value("measured")
def usual_step(p: Paper) -> Quantity:
    return theory.SOURCE_BATCH / p.source.compared(RTX, HEAVY).images


@source.value("percent")
def bias_least(p: Paper) -> Quantity:
    return to_digits(_bias(p, "collapse_slowest"), 2)


@source.value("percent")
def bias_most(p: Paper) -> Quantity:
    return to_digits(_bias(p, "collapse_fastest"), 2)


@source.value("percent")
def bias_needed(p: Paper) -> Quantity:
    return to_digits(_gap(p, p.fell), 2)


@source.value("percent")
def bias_small(p: Paper) -> Quantity:
    return to_digits(_gap(p, p.source.compared(T4, SMALL)), 2)


@source.value("percent")
def t4_small_arithmetic(p: Paper) -> Quantity:
    return p.source.share(p.source.compared(T4, SMALL))


@source.value("percent")
def t4_small_by_throughput(p: Paper) -> Quantity:
    return to_digits(_of_roof(p, T4, SMALL), 3)


source.values(
    "percent", t4_small_by_print=partial(_of_roof, device=T4, network=SMALL, by_print=True)
)


@source.value("percent")
def t4_small_slow(p: Paper) -> Quantity:
    return to_digits(p.source.of_roof(p.source.compared(T4, SMALL, True), "low"), 3)


@source.value("percent")
def t4_light_arithmetic(p: Paper) -> Quantity:
    return p.source.share(p.source.compared(T4, LIGHT))


@source.value("percent")
def t4_light_bandwidth(p: Paper) -> Quantity:
    return p.source.of_bandwidth(p.source.compared(T4, LIGHT))


@source.value("percent")
def t4_light_memory(p: Paper) -> Quantity:
    return p.source.memory_share(T4, LIGHT)


@source.value("percent")
def rtx_light_arithmetic(p: Paper) -> Quantity:
    return p.source.share(p.source.compared(RTX, LIGHT), "nominal")


@source.value("percent")
def rtx_light_bandwidth(p: Paper) -> Quantity:
    return p.source.of_bandwidth(p.source.compared(RTX, LIGHT))


source.values(
    "percent",
    **{
        f"{name}_{word}_roof": partial(_of_roof, device=device, network=network)
        for name, device in (("rtx", RTX), ("t4", T4))
        for word, network in (("heavy", HEAVY), ("light", LIGHT))
    },
)


# ------------------------------------------------------------------------------------- measured


def _peak(
    run: Run,
    size: str,
    network: str = HEAVY,
    batch: int = theory.SOURCE_BATCH,
    precision: Precision = "tfloat32",
) -> Quantity:
    """The largest size (B) that a step of a GPU allocates or reserves."""
    return run.bytes(f"{size}_peak", Step(network, IMAGE, batch, precision))


def _half(run: Run) -> Quantity:
    return _peak(run, "allocated", batch=theory.SOURCE_BATCH // 2, precision="float32")


@gpu.value("measured")
def allocated(run: Run) -> Quantity:
    return to_digits(_peak(run, "allocated"), 2)


@gpu.value("measured")
def allocated_full(run: Run) -> Quantity:
    return to_digits(_peak(run, "allocated", precision="float32"), 2)


@gpu.value("measured")
def reserved(run: Run) -> Quantity:
    return to_digits(_peak(run, "reserved"), 2)


@gpu.value("measured")
def light_allocated(run: Run) -> Quantity:
    return to_digits(_peak(run, "allocated", LIGHT), 2)


@gpu.value("measured")
def half_allocated(run: Run) -> Quantity:
    return to_digits(_half(run), 2)


@cpu.value()
def heavy_narrow(run: Run) -> Quantity:
    return run.gained(HEAVY)


@cpu.value()
def light_narrow(run: Run) -> Quantity:
    return 1 / run.gained(LIGHT)


@cpu.value()
def layers_batch(run: Run) -> Quantity:
    return run.of_profiles("batch")


@cpu.value()
def layers_image(run: Run) -> Quantity:
    return run.of_profiles("image")


@cpu.value("percent")
def dense_share(run: Run) -> Quantity:
    return run.share(HEAVY, "3 × 3")


@cpu.value("percent")
def pointwise_share(run: Run) -> Quantity:
    return run.share(HEAVY, "1 × 1")


@cpu.value("percent")
def depthwise_share(run: Run) -> Quantity:
    return run.share(LIGHT, DEPTHWISE, of_memory=True)


# -------------------------------------------------------------------------------------- claims


@source.claim("All three networks lie right of the T4's ridge")
def compute_bound(p: Paper) -> Iterator[Statement]:
    return (theory.intensity(name) / p.source.ridge(T4) > 1 for name in NETWORKS)


@source.claim("The laptop trains more than a tenth faster where neither GPU collapsed")
def hardware(p: Paper) -> Iterator[Statement]:
    """That the laptop trains faster wherever neither GPU collapsed."""
    slow = {(c.network, c.batch): c.images for c in p.source.steady(T4)}
    steady = p.source.steady(RTX)
    return (c.images / slow[c.network, c.batch] > 1 + MARGIN for c in steady)


@source.claim("The laptop reaches a tenth more of its layers' roofs than the T4")
def laptop_ahead(p: Paper) -> Iterator[Statement]:
    for reading in (HEAVY, False), (HEAVY, True), (LIGHT, False):
        yield _of_roof(p, RTX, *reading) / _of_roof(p, T4, *reading) > 1 + MARGIN


@source.claim("The T4's ResNet-18 exceeds its roof by its throughput and not by its rate")
def readings_differ(p: Paper) -> tuple[Statement, Statement]:
    cases = (p.source.compared(T4, SMALL, by_print) for by_print in (False, True))
    by_throughput, by_rate = (p.source.of_roof(case, "nominal") for case in cases)
    return by_throughput > 1 + MARGIN, by_rate < 1


def _memory_shares(p: Paper, network: str) -> Iterator[Quantity]:
    """In which share of the least time memory is the nearer roof, on each GPU at each clock."""
    clocks = ((device, clock) for device in GPUS for clock in CLOCKS[device])
    return (p.source.memory_share(device, network, clock) for device, clock in clocks)


@gpu.claim("ResNet-50 at batch 128 needs a tenth more memory than smaller steps")
def needs_most(run: Run) -> Iterator[Statement]:
    for size, network in product(("allocated", "reserved"), (LIGHT, SMALL)):
        yield _peak(run, size) / _peak(run, size, network) > 1 + MARGIN
    yield _peak(run, "allocated") / _half(run) > 1 + MARGIN


@source.claim("A wrong peak and a collapsed run raise the source's ratio 1.5 times")
def inflated(p: Paper) -> Iterator[Statement]:
    for by_print in (False, True):
        yield _factor(p, 0, 3, by_print) > 1.5
    yield _factor(p, 1, 2) > 1 + MARGIN


@source.claim("After correction the T4 is still more than a tenth more efficient on ResNet-18")
def small_remains(p: Paper) -> Iterator[Statement]:
    for left in (p.remainders[SMALL].ratio, p.remainders[SMALL].by_print):
        yield left > 1 + MARGIN


@source.claim("Memory is the nearer roof in over half of MobileNetV2's least time on both GPUs")
def light_memory(p: Paper) -> Iterator[Statement]:
    for share in _memory_shares(p, LIGHT):
        yield share > 0.5


@source.claim("Arithmetic is the nearer roof in over half of ResNet-50's least time on both GPUs")
def heavy_arithmetic(p: Paper) -> Iterator[Statement]:
    for share in _memory_shares(p, HEAVY):
        yield share < 0.5


# ------------------------------------------------------------------------------------- figures


shares.figure(key=True, height=2.1)(figures.shares)


beside_source.figure(height=3.2)(figures.memory)


cpu.figure(height=2.0, wide=True, same_axes=True)(figures.layers)


# -------------------------------------------------------------------------------------- tables


#: Columns of two significant digits.
_TWO: Final = dict.fromkeys(("T4 (%)", "Laptop (%)", "Layer by layer", "Perfect cache"), 2) | (
    dict.fromkeys(("By throughputs", "By rates", "At the lower clock"), 2)
)


def _short(found: Quantity) -> Quantity:
    """A number of the source without the interval of its digits, where no clock widens it."""
    bounds = estimate(found)
    if not isinstance(bounds, Estimate) or bounds.high > (1 + _NARROW) * bounds.low:
        return found
    return to_digits(found, 4)


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


@source.table(digits=_TWO)
def networks(p: Paper) -> Iterator[Mapping[str, Content]]:
    for found in p.remainders.values():
        yield {
            "Network": found.name,
            "By throughputs": _short(found.ratio),
            "By rates": _short(found.by_print),
            "At the lower clock": _short(found.by_print / p.source.needed_clock),
        }


@source.table(digits={"By rate (1/s)": 3, "Rate ÷ throughput": 2, "Start-up (s)": 2}, wide=True)
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
            "Start-up (s)": to_digits(_startup(p, case), 2),
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


@study.shared_table()
def machines(p: Paper) -> Table:
    return setup([run for run in (p.cpu, p.gpu) if run])


#: Why printed numbers differ from what a formula gives, by the formula's first words.
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


#: The items of the source: how each is treated, and by which audit, which claim, or in words.
_ITEMS: Final = (
    ("Sections 1.4, 2.1: peaks, bandwidths, work", "audited", ("environments", "complexity")),
    ("Sections 4.2, 4.3: rates, efficiencies", "audited", ("achieved",)),
    ("Sections 3.2, 5: steps, gains", "audited", ("iterations", "throughput", "batches")),
    ("Averages, ratios and ranges in the text", "audited", ("text",)),
    ("Sections 2.3, 5.2: all lie right of both ridges", "traffic layer by layer", compute_bound),
    ("H1: the laptop is faster, but for the collapse", "its throughputs", hardware),
    ("H2: MobileNetV2 is memory-bound", "nearer roof by time", "consistent; T4 reaches no roof"),
    ("H2: ResNet-50 is compute-bound", "nearer roof by time", "consistent on the T4 alone"),
    ("H3: gains shrink with the batch", "its throughputs", "too small for single runs"),
    ("The collapse: memory or heat", "memory on our GPU", "consistent with memory"),
    ("GPUs beat the CPU 60 to 100 times", "out of reach", "compares different batches"),
    ("Mixed precision would help", "out of reach", "needs its GPUs"),
)


@source.table(wide=True)
def account(p: Paper) -> Iterator[Mapping[str, Content]]:
    for item in _ITEMS:
        name, treated, result = item
        if isinstance(result, tuple):
            counts = count_by_verdict([check for kind in result for check in p.audit[kind]])
            differ = "differs" if counts["differs"] == 1 else "differ"
            result = f"{sum(counts.values())} numbers, {counts['differs']} {differ}"
        elif callable(result):
            verdict = all_of(*result(p)).judge()
            result = {"supported": "holds", "refuted": "fails"}.get(verdict, "undecided")
        yield {"The source's item": name, "Decided by": treated, "Result": result}
