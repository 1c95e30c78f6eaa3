"""All that the paper of training_roofline prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, product
from typing import Any, Final

from report.evidence.audit import Check, count_by_verdict
from report.paper.findings import Inputs
from report.paper.machines import setup
from report.paper.study import Content, audit_row
from report.paper.study import OldStudy as Study
from report.quantity.evaluation import estimate, to_digits
from report.quantity.expression import Quantity, exact
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Statement, all_of
from report.statistics.estimates import Estimate
from report.studies.training_roofline import figures, theory
from report.studies.training_roofline.audit import RATE, audit
from report.studies.training_roofline.runs import DEPTHWISE, Run
from report.studies.training_roofline.source import (
    CLOCKS,
    GPUS,
    RTX,
    T4,
    T4_CLOCK,
    Case,
    Correction,
    Row,
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
from report.text.escape import markdown

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


study = Study(Paper, check_subject, audits=lambda p: p.checks)
findings = study.findings


study.texts(
    {
        "source_device": lambda p: markdown(p.inputs.reported.device),
        "gpu": lambda p: markdown(p.gpu.short) if p.gpu else "",
        "cpu": lambda p: markdown(p.cpu.short) if p.cpu else "",
    }
)

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


def _of_table(table: str, name: str) -> Callable[[Paper], Quantity]:
    """A number of the first row of a table that the source did not print."""
    return lambda p: p.source.exact(p.source.rows(table)[0].printed(name), "1")


def _of_roof(device: str, network: str, by_print: bool = False) -> Callable[[Paper], Quantity]:
    """What a network reaches of the roofs of its layers."""
    return lambda p: p.source.of_roof(p.source.compared(device, network, by_print))


def _lead(network: str) -> Callable[[Paper], Quantity]:
    """How many times as many images a second the laptop trains."""
    return lambda p: p.source.compared(RTX, network).images / p.source.compared(T4, network).images


study.values(
    {
        "audited": lambda p: exact("audited numbers", "1", len(p.checks), p.source.file),
        "differing": lambda p: exact(
            "numbers that differ", "1", count_by_verdict(p.checks)["differs"], p.source.file
        ),
        "paradox_printed": lambda p: p.source.value("paradox"),
        "source_batch": lambda p: exact("batch", "1", theory.SOURCE_BATCH),
        "image": lambda p: exact("side of an image", "1", IMAGE),
        "half_batch": lambda p: exact("batch", "1", p.source.compared(RTX, HEAVY).batch),
        "collapse_factor": lambda p: p.source.value("collapse_factor"),
        "iterations": lambda p: p.source.value("iterations"),
        "warmup": lambda p: p.source.value("warmup"),
        "images": _of_table("dataset", "images"),
        "t4_top": lambda p: exact("clock", "1", T4_CLOCK),
        "t4_low": lambda p: to_digits(T4_CLOCK * p.source.needed_clock, 3),
        "t4_needed": lambda p: to_digits(
            T4_CLOCK * p.source.share(p.source.compared(T4, SMALL)), 3
        ),
        "even_clock": lambda p: to_digits(
            _of_table("cores", "nominal")(p) / p.remainders[SMALL].by_print, 2
        ),
        "laptop_cores": _of_table("cores", "cores"),
        "bus": _of_table("bus", "width"),
        "lane": _of_table("bus", "rate"),
    }
    | {f"{name}_clock": _of_table("cores", name) for name in CLOCKS[RTX]}
)
study.values(
    {
        "inflation": lambda p: _factor(p, 0, 3),
        "inflation_by_print": lambda p: _factor(p, 0, 3, by_print=True),
        "peak_factor": lambda p: _factor(p, 1, 2),
        "inflation_replaced": lambda p: p.corrections[0].ratio / p.source.replaced().ratio,
        "run_factor": lambda p: to_digits(_factor(p, 2, 3), 2),
        "between": lambda p: to_digits(p.remainders[SMALL].ratio / p.remainders[HEAVY].ratio, 2),
        "between_by_print": lambda p: to_digits(
            p.remainders[SMALL].by_print / p.remainders[HEAVY].by_print, 2
        ),
        "laptop_between": lambda p: p.source.of_other_roof(RTX, SMALL, HEAVY),
        "paradox": lambda p: p.corrections[3].ratio,
        "paradox_slow": lambda p: p.corrections[4].by_print,
        "small_ratio": lambda p: p.remainders[SMALL].ratio,
        "small_by_print": lambda p: p.remainders[SMALL].by_print,
        "heavy_ratio": lambda p: p.remainders[HEAVY].ratio,
        "startup_least": lambda p: at_most(*_startups(p)),
        "startup_most": lambda p: at_least(*_startups(p)),
        "rtx_peak": lambda p: p.source.printed_peak(RTX),
        "laptop_peak": lambda p: to_digits(p.source.peak(RTX), 3),
        "laptop_bandwidth": lambda p: p.source.bandwidth(RTX),
        "t4_bandwidth": lambda p: p.source.bandwidth(T4),
        "loader_cap": lambda p: p.source.compared(RTX, SMALL).images,
        "lead_small": _lead(SMALL),
        "lead_heavy": _lead(HEAVY),
        "heavy_traffic": lambda p: theory.traffic(HEAVY),
        "t4_ridge": lambda p: p.source.ridge(T4),
        "rtx_ridge": lambda p: p.source.ridge(RTX),
        "laptop_memory": lambda p: to_digits(p.source.memory(RTX), 3),
        "printed_memory": lambda p: p.source.memory(RTX) * 1e9 / 2**30,
        "fastest_step": lambda p: p.source.value("collapse_fastest", "s", 1e-3),
        "usual_step": lambda p: theory.SOURCE_BATCH / p.source.compared(RTX, HEAVY).images,
    },
    "measured",
)
study.values(
    {
        "bias_least": lambda p: to_digits(_bias(p, "collapse_slowest"), 2),
        "bias_most": lambda p: to_digits(_bias(p, "collapse_fastest"), 2),
        "bias_needed": lambda p: to_digits(_gap(p, p.fell), 2),
        "bias_small": lambda p: to_digits(_gap(p, p.source.compared(T4, SMALL)), 2),
        "t4_small_arithmetic": lambda p: p.source.share(p.source.compared(T4, SMALL)),
        "t4_small_by_throughput": lambda p: to_digits(_of_roof(T4, SMALL)(p), 3),
        "t4_small_by_print": _of_roof(T4, SMALL, by_print=True),
        "t4_small_slow": lambda p: to_digits(
            p.source.of_roof(p.source.compared(T4, SMALL, True), "low"), 3
        ),
        "t4_light_arithmetic": lambda p: p.source.share(p.source.compared(T4, LIGHT)),
        "t4_light_bandwidth": lambda p: p.source.of_bandwidth(p.source.compared(T4, LIGHT)),
        "t4_light_memory": lambda p: p.source.memory_share(T4, LIGHT),
        "rtx_light_arithmetic": lambda p: p.source.share(p.source.compared(RTX, LIGHT), "nominal"),
        "rtx_light_bandwidth": lambda p: p.source.of_bandwidth(p.source.compared(RTX, LIGHT)),
    }
    | {
        f"{name}_{word}_roof": _of_roof(device, network)
        for name, device in (("rtx", RTX), ("t4", T4))
        for word, network in (("heavy", HEAVY), ("light", LIGHT))
    },
    "percent",
)

# ------------------------------------------------------------------------------------- measured


def _peak(
    size: str,
    network: str = HEAVY,
    batch: int = theory.SOURCE_BATCH,
    precision: Precision = "tfloat32",
) -> Callable[[Run], Quantity]:
    """What a step of a GPU allocates or reserves at most (B)."""
    step = Step(network, IMAGE, batch, precision)
    return lambda run: run.bytes(f"{size}_peak", step)


_half: Final = _peak("allocated", batch=theory.SOURCE_BATCH // 2, precision="float32")

study.values(
    {
        "allocated": lambda run: to_digits(_peak("allocated")(run), 2),
        "allocated_full": lambda run: to_digits(_peak("allocated", precision="float32")(run), 2),
        "reserved": lambda run: to_digits(_peak("reserved")(run), 2),
        "light_allocated": lambda run: to_digits(_peak("allocated", LIGHT)(run), 2),
        "half_allocated": lambda run: to_digits(_half(run), 2),
    },
    "measured",
    of=lambda p: p.gpu,
)


study.values(
    {
        "heavy_narrow": lambda run: run.gained(HEAVY),
        "light_narrow": lambda run: 1 / run.gained(LIGHT),
        "layers_batch": lambda run: run.of_profiles("batch"),
        "layers_image": lambda run: run.of_profiles("image"),
    },
    of=lambda p: p.cpu,
)
study.values(
    {
        "dense_share": lambda run: run.share(HEAVY, "3 × 3"),
        "pointwise_share": lambda run: run.share(HEAVY, "1 × 1"),
        "depthwise_share": lambda run: run.share(LIGHT, DEPTHWISE, of_memory=True),
    },
    "percent",
    of=lambda p: p.cpu,
)


# -------------------------------------------------------------------------------------- claims


def _compute_bound(p: Paper) -> Iterator[Statement]:
    return (theory.intensity(name) / p.source.ridge(T4) > 1 for name in NETWORKS)


def _faster(p: Paper) -> Iterator[Statement]:
    """That the laptop trains faster wherever neither GPU collapsed."""
    slow = {(c.network, c.batch): c.images for c in p.source.steady(T4)}
    steady = p.source.steady(RTX)
    return (c.images / slow[c.network, c.batch] > 1 + MARGIN for c in steady)


def _laptop_ahead(p: Paper) -> Iterator[Statement]:
    for reading in (HEAVY, False), (HEAVY, True), (LIGHT, False):
        yield _of_roof(RTX, *reading)(p) / _of_roof(T4, *reading)(p) > 1 + MARGIN


def _readings_differ(p: Paper) -> tuple[Statement, Statement]:
    cases = (p.source.compared(T4, SMALL, by_print) for by_print in (False, True))
    by_throughput, by_rate = (p.source.of_roof(case, "nominal") for case in cases)
    return by_throughput > 1 + MARGIN, by_rate < 1


def _memory_shares(p: Paper, network: str) -> Iterator[Quantity]:
    """In which share of the least time memory is the nearer roof, on each GPU at each clock."""
    clocks = ((device, clock) for device in GPUS for clock in CLOCKS[device])
    return (p.source.memory_share(device, network, clock) for device, clock in clocks)


def _needs_most(run: Run) -> Iterator[Statement]:
    for size, network in product(("allocated", "reserved"), (LIGHT, SMALL)):
        yield _peak(size)(run) / _peak(size, network)(run) > 1 + MARGIN
    yield _peak("allocated")(run) / _half(run) > 1 + MARGIN


study.claims(
    {
        "inflated": lambda p: (
            *(_factor(p, 0, 3, by_print) > 1.5 for by_print in (False, True)),
            _factor(p, 1, 2) > 1 + MARGIN,
        ),
        "small-remains": lambda p: (
            left > 1 + MARGIN for left in (p.remainders[SMALL].ratio, p.remainders[SMALL].by_print)
        ),
        "laptop-ahead": _laptop_ahead,
        "readings-differ": _readings_differ,
        "hardware": _faster,
        "compute-bound": _compute_bound,
        "light-memory": lambda p: (share > 0.5 for share in _memory_shares(p, LIGHT)),
        "heavy-arithmetic": lambda p: (share < 0.5 for share in _memory_shares(p, HEAVY)),
    }
)
study.claims({"needs-most": _needs_most}, of=lambda p: p.gpu)


# ------------------------------------------------------------------------------------- figures

study.figure("fig-shares", of=lambda p: p.source, height=2.1)(figures.shares)
study.figure("fig-memory", of=lambda p: (p.gpu, p.source) if p.gpu else None, height=3.2)(
    figures.memory
)
study.figure("fig-layers", of=lambda p: p.cpu, height=2.0, wide=True, same_axes=True)(
    figures.layers
)


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


@study.table("tbl-paradox", rows=lambda p: p.corrections, digits=_TWO)
def _paradox(p: Paper, step: Correction) -> dict[str, Content]:
    return {
        "Mean efficiency": step.name,
        "T4 (%)": _short(step.t4),
        "Laptop (%)": _short(step.rtx),
        "By throughputs": _short(step.ratio),
        "By rates": _short(step.by_print),
    }


@study.table("tbl-networks", rows=lambda p: p.remainders.values(), digits=_TWO)
def _networks(p: Paper, found: Correction) -> dict[str, Content]:
    return {
        "Network": found.name,
        "By throughputs": _short(found.ratio),
        "By rates": _short(found.by_print),
        "At the lower clock": _short(found.by_print / p.source.needed_clock),
    }


@study.table(
    "tbl-readings",
    rows=lambda p: [case for case in p.source.cases if case.row],
    digits={"By rate (1/s)": 3, "Rate ÷ throughput": 2, "Start-up (s)": 2},
    wide=True,
)
def _readings_table(p: Paper, case: Case) -> dict[str, Content]:
    printed, implied = to_digits(case.images, 4), p.source.by_print(case).images
    return {
        "Device": "laptop" if case.device == RTX else case.device,
        "Network": case.network,
        "Batch": case.batch,
        "Printed (1/s)": printed,
        "By rate (1/s)": to_digits(implied, 3),
        "Rate ÷ throughput": to_digits(implied / printed, 2),
        "Start-up (s)": to_digits(_startup(p, case), 2),
    }


@study.table("tbl-intensity", rows=lambda p: p.source.rows("bound"), digits=_TWO)
def _intensity(p: Paper, row: Row) -> dict[str, Content]:
    network = row.text("network")
    return {
        "Network": network,
        "Printed": p.source.exact(row.printed("intensity"), "FLOP/B"),
        "Layer by layer": theory.intensity(network),
        "Perfect cache": theory.intensity(network, cached=True),
        "T4 (%)": p.source.memory_share(T4, network),
        "Laptop (%)": p.source.memory_share(RTX, network),
    }


study.add_table(lambda p: setup([run for run in (p.cpu, p.gpu) if run]))

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
@study.table(
    "tbl-audit",
    rows=lambda p: [c for c in p.checks if c.verdict == "differs" and c.formula != RATE],
    wide=True,
    digits={"Printed ÷ recomputed": 2},
)
def _audit_table(p: Paper, item: Check) -> dict[str, Content]:
    reasons = [why for words, why in _REASONS.items() if item.formula.startswith(words)]
    return audit_row(p, item) | ({"Finding": reasons[0]} if reasons else {})


#: The items of the source: how each is treated, and by which audit, which claim, or in words.
_ITEMS: Final = (
    ("Sections 1.4, 2.1: peaks, bandwidths, work", "audited", ("environments", "complexity")),
    ("Sections 4.2, 4.3: rates, efficiencies", "audited", ("achieved",)),
    ("Sections 3.2, 5: steps, gains", "audited", ("iterations", "throughput", "batches")),
    ("Averages, ratios and ranges in the text", "audited", ("text",)),
    ("Sections 2.3, 5.2: all lie right of both ridges", "traffic layer by layer", _compute_bound),
    ("H1: the laptop is faster, but for the collapse", "its throughputs", _faster),
    ("H2: MobileNetV2 is memory-bound", "nearer roof by time", "consistent; T4 reaches no roof"),
    ("H2: ResNet-50 is compute-bound", "nearer roof by time", "consistent on the T4 alone"),
    ("H3: gains shrink with the batch", "its throughputs", "too small for single runs"),
    ("The collapse: memory or heat", "memory on our GPU", "consistent with memory"),
    ("GPUs beat the CPU 60 to 100 times", "out of reach", "compares different batches"),
    ("Mixed precision would help", "out of reach", "needs its GPUs"),
)


@study.table("tbl-account", rows=lambda p: _ITEMS, wide=True)
def _account(p: Paper, item: tuple[str, str, Any]) -> dict[str, Content]:
    name, treated, result = item
    if isinstance(result, tuple):
        counts = count_by_verdict([check for kind in result for check in p.audit[kind]])
        differ = "differs" if counts["differs"] == 1 else "differ"
        result = f"{sum(counts.values())} numbers, {counts['differs']} {differ}"
    elif callable(result):
        verdict = all_of(*result(p)).judge()
        result = {"supported": "holds", "refuted": "fails"}.get(verdict, "undecided")
    return {"The source's item": name, "Decided by": treated, "Result": result}
