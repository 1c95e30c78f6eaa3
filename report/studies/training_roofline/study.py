"""All that the paper of training_roofline prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from figures.dots import Dots
from figures.roofline import Roofline
from figures.scaling import Scaling
from report.evidence.audit import Check, count_by_verdict
from report.evidence.runs import run_of
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.study import Content, Study
from report.paper.tables import Table
from report.quantity.evaluation import estimate, to_digits
from report.quantity.expression import Quantity, exact
from report.quantity.verdicts import Several, all_of
from report.statistics.estimates import Estimate
from report.studies.training_roofline import figures, theory
from report.studies.training_roofline.audit import RATE, audit
from report.studies.training_roofline.runs import Run, runs
from report.studies.training_roofline.source import (
    CLOCKS,
    GPUS,
    RTX,
    T4,
    Case,
    Correction,
    Source,
    value_of,
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
        """Raises ``StudyError`` for a record that does not fit the study."""
        for stored in inputs.records:
            check_subject(stored)
        self.inputs, self.source = inputs, Source(inputs)
        self.gpu = run_of(inputs.cast.get("gpu"), runs(inputs.records))
        self.audit, self.corrections = audit(self.source), self.source.corrections()
        self.checks = tuple(chain.from_iterable(self.audit.values()))


study = Study(Paper)
findings = study.findings


@study.audits
def _audits(p: Paper) -> tuple[Check, ...]:
    return p.checks


study.texts(
    {
        "source_device": lambda p: markdown(p.inputs.reported.device),
        "gpu": lambda p: markdown(p.gpu.short) if p.gpu else "",
    }
)

# ---------------------------------------------------------------------------- source and theory


def _explained(p: Paper, by_print: bool = False, row: int = 3) -> Quantity:
    """How much of the printed ratio's excess over one a peak and a collapsed run take away."""
    ratios = [c.by_print if by_print else c.ratio for c in p.corrections]
    return (ratios[0] - ratios[row]) / (ratios[0] - 1)


def _excess(p: Paper, case: Case) -> float:
    """By what share a printed throughput exceeds what the printed rate implies."""
    return value_of(case.images / p.source.by_print(case).images) - 1


def _spared(p: Paper) -> Quantity:
    """The share of the modeled traffic that must not move for ResNet-18's throughput on the T4."""
    reached = p.source.of_roof(p.source.compared(T4, SMALL), "nominal")
    return (reached - 1) / reached / p.source.memory_share(T4, SMALL)


def _startup(p: Paper) -> Quantity:
    """The time (s) that would make a throughput of the printed steps the printed rate."""
    case = p.source.compared(T4, SMALL)
    images = p.source.value("iterations") * case.batch
    return images / p.source.by_print(case).images - images / case.images


def _fallen(p: Paper) -> Case:
    return next(case for case in p.source.cases if p.source.collapsed(case))


def _scatter_fell(p: Paper) -> Quantity:
    """The printed scatter of the collapsed case's steps over their mean by its printed rate."""
    case = p.source.by_print(_fallen(p))
    return p.source.value("collapse_deviation", "s", 1e-3) * case.images / case.batch


def _scatter(p: Paper, case: Case) -> Quantity:
    """The scatter of steps over their mean that makes a mean of throughputs exceed the rate."""
    return exact("scatter of steps", "1", _excess(p, case) ** 0.5, p.source.file)


def _usual_step(p: Paper) -> Quantity:
    """The time (s) of the collapsed batch at the throughput of half of it."""
    return exact("batch", "1", theory.SOURCE_BATCH) / p.source.compared(RTX, HEAVY).images


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
        "half_batch": lambda p: exact("batch", "1", p.source.compared(RTX, HEAVY).batch),
        "collapse_factor": lambda p: p.source.value("collapse_factor"),
        "iterations": lambda p: p.source.value("iterations"),
        "warmup": lambda p: p.source.value("warmup"),
        "images": _of_table("dataset", "images"),
        "laptop_cores": _of_table("cores", "cores"),
        "bus": _of_table("bus", "width"),
        "lane": _of_table("bus", "rate"),
    }
    | {f"{name}_clock": _of_table("cores", name) for name in CLOCKS[RTX]}
)
study.values(
    {
        "paradox_rates": lambda p: p.corrections[0].ratio,
        "paradox": lambda p: p.corrections[3].ratio,
        "paradox_by_print": lambda p: p.corrections[3].by_print,
        "paradox_heavy": lambda p: p.corrections[4].ratio,
        "paradox_slow": lambda p: p.corrections[5].ratio,
        "startup": _startup,
        "largest_map": lambda p: theory.largest_map(SMALL),
        "t4_memory": lambda p: to_digits(
            exact("memory", "B", p.source.memory(T4), p.source.file), 3
        ),
        "rtx_peak": lambda p: p.source.printed_roof(RTX)[0],
        "laptop_peak": lambda p: to_digits(p.source.peak(RTX), 3),
        "printed_bandwidth": lambda p: p.source.printed_roof(RTX)[1],
        "laptop_bandwidth": lambda p: p.source.bandwidth(RTX),
        "loader_cap": lambda p: p.source.compared(RTX, SMALL).images,
        "lead_small": _lead(SMALL),
        "lead_heavy": _lead(HEAVY),
        "heavy_traffic": lambda p: theory.traffic(HEAVY),
        "alive": lambda p: theory.alive(HEAVY, theory.SOURCE_BATCH),
        "laptop_memory": lambda p: exact("memory", "B", p.source.memory(RTX), p.source.file),
        "fastest_step": lambda p: p.source.value("collapse_fastest", "s", 1e-3),
        "usual_step": _usual_step,
    },
    "measured",
)
study.values(
    {
        "explained": _explained,
        "explained_by_print": lambda p: _explained(p, by_print=True),
        "explained_slow": lambda p: _explained(p, row=5),
        "t4_clock": lambda p: p.source.needed_clock(),
        "t4_small_arithmetic": lambda p: p.source.share(p.source.compared(T4, SMALL)),
        "t4_small_spared": _spared,
        "scatter_small": lambda p: _scatter(p, p.source.compared(T4, SMALL)),
        "scatter_fell": _scatter_fell,
        "scatter_fell_needed": lambda p: _scatter(p, _fallen(p)),
        "t4_small_by_throughput": lambda p: to_digits(_of_roof(T4, SMALL)(p), 3),
        "rtx_small_roof": _of_roof(RTX, SMALL),
        "t4_small_by_print": _of_roof(T4, SMALL, by_print=True),
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


def _reserved(
    network: str = HEAVY, precision: Precision = "tfloat32", batch: int = theory.SOURCE_BATCH
) -> Callable[[Run], Quantity]:
    """What a step of a GPU reserves at most (B)."""
    return lambda run: run.bytes("reserved_peak", Step(network, IMAGE, batch, precision))


_half: Final = _reserved(precision="float32", batch=theory.SOURCE_BATCH // 2)

study.values(
    {
        "reserved": _reserved(),
        "reserved_full": _reserved(precision="float32"),
        "light_reserved": _reserved(LIGHT),
        "small_reserved": lambda run: to_digits(_reserved(SMALL)(run), 3),
        "half_reserved": lambda run: to_digits(_half(run), 3),
    },
    "measured",
    of=lambda p: p.gpu,
)


# -------------------------------------------------------------------------------------- claims


@study.claim("mostly-explained")
def _mostly(p: Paper) -> Several:
    return all_of(_explained(p) > 0.5, _explained(p, by_print=True) > 0.5)


@study.claim("laptop-ahead")
def _laptop_ahead(p: Paper) -> Several:
    readings = (HEAVY, False), (HEAVY, True), (LIGHT, False)
    return all_of(*(_of_roof(RTX, *r)(p) / _of_roof(T4, *r)(p) > 1 + MARGIN for r in readings))


@study.claim("readings-differ")
def _readings(p: Paper) -> Several:
    of = p.source
    by_throughput, by_rate = (
        of.of_roof(of.compared(T4, SMALL, b), "nominal") for b in (False, True)
    )
    return all_of(by_throughput > 1 + MARGIN, by_rate < 1)


@study.claim("hardware")
def _hardware(p: Paper) -> Several:
    slow = {(c.network, c.batch): c.images for c in p.source.steady(T4)}
    steady = p.source.steady(RTX)
    return all_of(*(c.images / slow[c.network, c.batch] > 1 + MARGIN for c in steady))


@study.claim("compute-bound")
def _compute_bound(p: Paper) -> Several:
    ridge = p.source.ridge(T4)
    return all_of(*(theory.intensity(network) / ridge > 1 for network in NETWORKS))


def _memory_shares(p: Paper, network: str) -> list[Quantity]:
    """In which share of the least time memory is the nearer roof, on each GPU at each clock."""
    clocks = ((device, clock) for device in GPUS for clock in CLOCKS[device])
    return [p.source.memory_share(device, network, clock) for device, clock in clocks]


@study.claim("light-memory")
def _light_memory(p: Paper) -> Several:
    return all_of(*(share > 0.5 for share in _memory_shares(p, LIGHT)))


@study.claim("heavy-arithmetic")
def _heavy_arithmetic(p: Paper) -> Several:
    return all_of(*(share < 0.5 for share in _memory_shares(p, HEAVY)))


@study.claim("one-exceeds", of=lambda p: p.gpu and (p.gpu, p.source))
def _one_exceeds(found: tuple[Run, Source]) -> Several:
    run, source = found
    there = exact("memory", "B", source.memory(RTX), source.file)
    others = (_half, _reserved(LIGHT), _reserved(SMALL))
    return all_of(_reserved()(run) / there > 1, *(each(run) / there < 1 for each in others))


# ------------------------------------------------------------------------------------- figures


@study.figure("fig-shares", height=2.1)
def _fig_shares(p: Paper) -> Iterator[Dots]:
    yield figures.shares(p.source)


@study.figure("fig-source-roofline", height=2.4, wide=True, same_axes=True)
def _fig_source(p: Paper) -> Iterator[Roofline]:
    yield from figures.source_roofs(p.source)


@study.figure("fig-memory", height=2.6)
def _fig_memory(p: Paper) -> Iterator[Scaling]:
    return figures.memory(p.gpu, p.source) if p.gpu else iter(())


# -------------------------------------------------------------------------------------- tables


#: Columns of two significant digits.
_ROUNDED: Final = (
    "T4 (%)",
    "Laptop (%)",
    "Ratio",
    "By rates",
    "Layer by layer",
    "Perfect cache",
)


def _short(found: Quantity) -> Quantity:
    """A number of the source without the interval of its digits, where no clock widens it."""
    bounds = estimate(found)
    if not isinstance(bounds, Estimate) or bounds.high > (1 + _NARROW) * bounds.low:
        return found
    return to_digits(found, 4)


@study.table("tbl-paradox", rows=lambda p: p.corrections, digits=dict.fromkeys(_ROUNDED, 2))
def _paradox(p: Paper, step: Correction) -> dict[str, Content]:
    return {
        "Mean efficiency": step.name,
        "Cases": step.cases,
        "T4 (%)": _short(step.t4),
        "Laptop (%)": _short(step.rtx),
        "Ratio": _short(step.ratio),
        "By rates": _short(step.by_print),
    }


@study.table(
    "tbl-readings",
    rows=lambda p: [case for case in p.source.cases if case.row],
    digits={"By rate (1/s)": 3, "Rate ÷ throughput": 2},
)
def _readings_table(p: Paper, case: Case) -> dict[str, Content]:
    printed, implied = to_digits(case.images, 4), p.source.by_print(case).images
    return {
        "Device": "laptop" if case.device == RTX else case.device,
        "Network": case.network,
        "Batch": case.batch,
        "Printed (1/s)": printed,
        "By rate (1/s)": implied,
        "Rate ÷ throughput": implied / printed,
    }


def _intensities(p: Paper) -> Iterator[tuple[str, Quantity]]:
    """What the source prints of each network at the batch of its tables."""
    for row in p.source.rows("bound"):
        yield row.text("network"), p.source.exact(row.printed("intensity"), "FLOP/B")


@study.table("tbl-intensity", rows=_intensities, digits=dict.fromkeys(_ROUNDED, 2))
def _intensity(p: Paper, case: tuple[str, Quantity]) -> dict[str, Content]:
    network, printed = case
    return {
        "Network": network,
        "Printed": printed,
        "Layer by layer": theory.intensity(network),
        "Perfect cache": theory.intensity(network, model="cache"),
        "T4 (%)": p.source.memory_share(T4, network),
        "Laptop (%)": p.source.memory_share(RTX, network),
    }


#: What of our GPU's machine can change the memory of a step; each case names its own arithmetic.
_SETUP: Final = ("Device", "Memory", "Operating system", "Framework", "Driver, CUDA, cuDNN")


def _setup(p: Paper) -> Table:
    table = setup([p.gpu] if p.gpu else [])
    rows = (row for row in table.rows if not p.gpu or row[0] in _SETUP)
    return replace(table, rows=tuple(rows))


study.add_table(_setup)

#: Why printed numbers differ, by their place.
_REASONS: Final = {
    "Section 1.4, Memory speed, T4": "NVIDIA prints both",
    "Section 1.4, Memory speed, RTX 4080": "slower memory than databases list",
    "Section 1.4, Peak, RTX 4080": "peak of the desktop card",
    "Section 3.2": "one epoch holds no more",
    "Section 6.1": "the laptop's mean",
}


def _differing(p: Paper) -> list[Check]:
    """The numbers that differ, but for the rates, which a table of the body shows."""
    return [c for c in p.checks if c.verdict == "differs" and c.formula != RATE]


@study.table("tbl-audit", rows=_differing, wide=True)
def _audit(p: Paper, check: Check) -> dict[str, Content]:
    unit = "" if check.derived.unit == "1" else f" {check.derived.unit}"
    known = check.known.reason if check.known else "unexplained"
    return {
        "Printed where": check.derived.place,
        "Computed from": check.formula,
        "Printed": f"{check.derived.text}{unit}",
        "Recomputed": f"{float(check.recomputed):.3g}{unit}",
        "Reason": _REASONS.get(check.derived.place, known),
    }


#: The items of the source: how each is treated, and by which audit, which claim, or in words.
_ITEMS: Final = (
    ("Sections 1.4, 2.1: peaks, bandwidths, work", "audited", ("environments", "complexity")),
    ("Sections 4.2, 4.3: rates, efficiencies", "audited", ("achieved",)),
    (
        "Sections 3.2, 5: steps, speed-ups, gains",
        "audited",
        ("iterations", "throughput", "batches"),
    ),
    ("Averages, ratios and ranges in the text", "audited", ("text",)),
    ("Sections 2.3, 5.2: all lie right of the T4's ridge", "traffic of layers", _compute_bound),
    ("H1: the GPU with the higher peak is faster", "its throughputs", _hardware),
    ("H2: MobileNetV2 is memory-bound", "nearer roof by time", "consistent, but no bound reached"),
    ("H2: ResNet-50 is compute-bound", "nearer roof by time", "consistent on the T4 alone"),
    ("H3: gains shrink with the batch", "its throughputs", "too small for single runs"),
    ("The collapse: memory or heat", "memory on our GPU", "consistent with memory"),
    ("GPUs beat the CPU 60 to 100 times", "out of reach", "divides by another batch"),
    ("Mixed precision would help", "out of reach", "needs its GPUs"),
)


@study.table("tbl-account", rows=lambda p: _ITEMS, wide=True)
def _account(p: Paper, item: tuple[str, str, Any]) -> dict[str, Content]:
    name, treated, result = item
    if callable(result):
        result = {"supported": "holds", "refuted": "fails"}.get(result(p).judge(), "undecided")
    elif isinstance(result, tuple):
        counts = count_by_verdict([check for kind in result for check in p.audit[kind]])
        result = f"{sum(counts.values())} numbers, {counts['differs']} differ"
    return {"The source's item": name, "Decided by": treated, "Result": result}
