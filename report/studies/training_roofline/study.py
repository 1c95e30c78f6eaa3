"""All that the paper of training_roofline prints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from itertools import chain
from typing import Any, Final, NamedTuple

from figures.dots import Dots
from figures.roofline import Roofline
from figures.scaling import Scaling
from report.evidence.audit import Check, count_by_verdict
from report.evidence.runs import run_of
from report.missing import Missing
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.study import Content, Study
from report.quantity.evaluation import estimate, point
from report.quantity.expression import Quantity, absent, exact
from report.quantity.verdicts import Several, Statement, all_of
from report.statistics.estimates import CONFIDENCE, Estimate
from report.studies.training_roofline import figures, theory
from report.studies.training_roofline.audit import audit
from report.studies.training_roofline.runs import WITHOUT, Part, Run, runs
from report.studies.training_roofline.source import (
    CLOCKS,
    GIGA,
    GPUS,
    LAPTOP,
    RTX,
    T4,
    Correction,
    Source,
)
from report.studies.training_roofline.subject import (
    HEAVY,
    IMAGE,
    LIGHT,
    NETWORKS,
    SMALL,
    Step,
    check_subject,
)
from report.text.escape import markdown
from report.theory.roofline import DEPTHWISE

#: Times that differ by less than this share are no finding: runs of a machine differ by as much.
MARGIN: Final = 0.1
#: A share of the layers' time below this one has no row of its own.
_SMALL_SHARE: Final = 0.05
#: Intervals of printed digits are narrower than this share, those of clocks are wider.
_NARROW: Final = 0.03
#: The batch at which precisions differ on a CPU.
VARIED: Final = 32
#: From so many images on PyTorch lets oneDNN compute convolutions of one tap on one thread.
SWITCH: Final = 16
#: How the ids of values name the networks.
_WORDS: Final = {SMALL: "small", HEAVY: "heavy", LIGHT: "light"}
_NO_WORK: Final = absent("rate", "1", "no multiply-adds")


class Paper:
    """The runs in their roles, and the source with its audit."""

    def __init__(self, inputs: Inputs) -> None:
        """Raises ``StudyError`` for a record that does not fit the study."""
        for stored in inputs.records:
            check_subject(stored)
        self.inputs, self.source = inputs, Source(inputs)
        self.runs = runs(inputs.records)
        self.cpu, self.second, self.gpu = (
            run_of(inputs.cast.get(role), self.runs) for role in ("cpu", "second", "gpu")
        )
        self.audit = audit(self.source)

    @property
    def checks(self) -> tuple[Check, ...]:
        """All checks of the audit."""
        return tuple(chain.from_iterable(self.audit.values()))

    @cached_property
    def corrections(self) -> tuple[Correction, ...]:
        """What is left of the paradox, correction by correction."""
        return self.source.corrections()

    @cached_property
    def shares(self) -> dict[str, dict[str, Quantity]]:
        """What each device reaches of the roofs of a network's layers, by device and network."""
        found = {
            name: {n: self.source.of_roof(self.source.best(device, n)) for n in NETWORKS}
            for name, device in (("laptop (source)", RTX), ("T4 (source)", T4))
        }
        if self.gpu:
            found["our GPU"] = {network: self.of_sheet(self.gpu, network) for network in NETWORKS}
        if self.cpu:
            found["our CPU"] = {network: self.cpu.of_roof(network) for network in NETWORKS}
        return found

    def of_sheet(self, run: Run, network: str) -> Quantity:
        """What a GPU reaches of the roofs of its data sheet at the source's batch."""
        gpu, batch = run.stored.record.environment.gpu, theory.SOURCE_BATCH
        sheet = self.inputs.devices.find(gpu.model) if gpu else None
        peak, memory = (sheet.peak("float32"), sheet.peak("memory")) if sheet else (None, None)
        if peak is None or memory is None:
            return absent("roof", "1", f"no data sheet of {run.label} is known")
        least = theory.least_time(network, batch, peak.rate, memory.rate)
        return least / run.time(Step(network, IMAGE, batch))


study = Study(Paper)
findings = study.findings


@study.audits
def _audits(p: Paper) -> tuple[Check, ...]:
    return p.checks


study.texts(
    {
        "source_device": lambda p: markdown(p.inputs.reported.device),
        "cpu": lambda p: markdown(p.cpu.short) if p.cpu else "",
        "second": lambda p: markdown(p.second.short) if p.second else "",
        "gpu": lambda p: markdown(p.gpu.short) if p.gpu else "",
    }
)

# ---------------------------------------------------------------------------- source and theory


def _count(name: str, number: int, p: Paper) -> Quantity:
    return exact(name, "1", number, p.source.file)


def _ratio(place: int) -> Any:
    return lambda p: p.corrections[place].ratio


def _explained(p: Paper) -> Quantity:
    """How much of the printed ratio's excess over one the corrections take away."""
    printed = p.source.value("paradox")
    return (printed - p.corrections[4].ratio) / (printed - 1)


def _usual_step(p: Paper) -> Quantity:
    """The time (s) of the collapsed batch at the throughput of half of it."""
    half = p.source.case(RTX, HEAVY, theory.SOURCE_BATCH // 2)
    return exact("batch", "1", theory.SOURCE_BATCH) / half.images


def _clock(p: Paper, name: str) -> Quantity:
    return p.source.exact(p.source.rows("cores")[0].printed(name), "1")


def _of_roof(p: Paper, device: str, network: str) -> Quantity:
    return p.source.of_roof(p.source.best(device, network))


study.values(
    {
        "audited": lambda p: _count("audited numbers", len(p.checks), p),
        "differing": lambda p: _count(
            "numbers that differ", count_by_verdict(p.checks)["differs"], p
        ),
        "paradox_printed": lambda p: p.source.value("paradox"),
        "source_batch": lambda p: exact("batch", "1", theory.SOURCE_BATCH),
        "fits": lambda p: theory.largest_batch(HEAVY, p.source.memory(RTX)),
        "collapse_factor": lambda p: p.source.value("collapse_factor"),
        "iterations": lambda p: p.source.value("iterations"),
        "warmup": lambda p: p.source.value("warmup"),
        "laptop_cores": lambda p: p.source.exact(p.source.rows("cores")[0].printed("cores"), "1"),
        "bus": lambda p: p.source.exact(p.source.rows("bus")[0].printed("width"), "1"),
        "lane": lambda p: p.source.exact(p.source.rows("bus")[0].printed("rate"), "1"),
    }
    | {f"{name}_clock": partial(_clock, name=name) for name in CLOCKS}
)
study.values(
    {
        "paradox_rates": _ratio(1),
        "paradox_chip": _ratio(3),
        "paradox": _ratio(4),
        "rtx_peak": lambda p: p.source.printed_roof(RTX)[0],
        "laptop_peak": lambda p: p.source.peak(RTX),
        "printed_bandwidth": lambda p: p.source.printed_roof(RTX)[1],
        "laptop_bandwidth": lambda p: p.source.bandwidth(RTX),
        "work_ratio": lambda p: (
            theory.work(SMALL)
            / p.source.exact(
                p.source.one("complexity", network=SMALL).printed("training"), "FLOP", GIGA
            )
        ),
        "loader_cap": lambda p: p.source.best(RTX, SMALL).images,
        "lead_small": lambda p: p.source.best(RTX, SMALL).images / p.source.best(T4, SMALL).images,
        "lead_heavy": lambda p: (
            p.source.case(RTX, HEAVY, 64).images / p.source.case(T4, HEAVY, 64).images
        ),
        "heavy_traffic": lambda p: theory.traffic(HEAVY),
        "light_intensity": lambda p: theory.intensity(LIGHT),
        "t4_ridge": lambda p: p.source.ridge(T4),
        "alive": lambda p: theory.alive(HEAVY, theory.SOURCE_BATCH),
        "laptop_memory": lambda p: exact("memory", "B", p.source.memory(RTX), p.source.file),
        "fastest_step": lambda p: p.source.value("collapse_fastest", "s", 1e-3),
        "usual_step": _usual_step,
    },
    "measured",
)
study.values(
    {
        "confidence": lambda p: exact("confidence, chosen", "1", CONFIDENCE),
        "explained": _explained,
        "t4_light_arithmetic": lambda p: p.source.share(p.source.best(T4, LIGHT)),
        "t4_light_bandwidth": lambda p: p.source.of_bandwidth(p.source.best(T4, LIGHT)),
        "rtx_light_arithmetic": lambda p: p.source.share(p.source.best(RTX, LIGHT), "nominal"),
        "rtx_light_bandwidth": lambda p: p.source.of_bandwidth(p.source.best(RTX, LIGHT)),
        "first_gain": lambda p: p.source.gains[0] - 1,
        "last_gain": lambda p: p.source.gains[-1] - 1,
    },
    "percent",
)


def _by_printed_rate(p: Paper) -> Quantity:
    """The T4's share of the roofs of ResNet-18, by the efficiency that the source prints."""
    case = p.source.best(T4, SMALL)
    assert case.row is not None
    rate = p.source.exact(case.row.printed("efficiency"), "1", 0.01) * p.source.printed_roof(T4)[0]
    work = p.source.one("complexity", network=SMALL).printed("training")
    images = rate / p.source.exact(work, "FLOP", GIGA)
    return p.source.of_roof(case._replace(images=images))


study.values({"t4_small_rate": _by_printed_rate}, "percent")
study.values(
    {
        f"{name}_{_WORDS[network]}_roof": partial(_of_roof, device=device, network=network)
        for name, device in (("rtx", RTX), ("t4", T4))
        for network in NETWORKS
    },
    "percent",
)

# ------------------------------------------------------------------------------------- measured


def _bytes(run: Run, quantity: str, network: str, batch: int, precision: Any) -> Quantity:
    return run.bytes(quantity, Step(network, IMAGE, batch, precision))


def _collapsed(quantity: str, network: str = HEAVY, precision: str = "tfloat32") -> Any:
    batch = theory.SOURCE_BATCH
    return lambda run: _bytes(run, quantity, network, batch, precision)


study.values(
    {
        "reserved": _collapsed("reserved_peak"),
        "reserved_full": _collapsed("reserved_peak", precision="float32"),
        "allocated": _collapsed("allocated_peak"),
        "light_reserved": _collapsed("reserved_peak", LIGHT),
        "small_reserved": _collapsed("reserved_peak", SMALL),
        "half_reserved": lambda run: _bytes(run, "reserved_peak", HEAVY, 64, "float32"),
    },
    "measured",
    of=lambda p: p.gpu,
)


def _watched(run: Run) -> Quantity:
    profile = next(iter(run.profiles.values()), None)
    if profile is None:
        return absent("batch", "1", f"no step was profiled on {run.label}")
    return exact("batch of the profiled step", "1", profile.step.batch, run.file)


def _paces(run: Run, network: str, **change: Any) -> Quantity:
    """How many times as many images a second a step in another setting gives."""
    plain = Step(network, run.smallest_image(network), VARIED)
    return run.images(plain._replace(**change)) / run.images(plain)


def _doubling(run: Run, batch: int) -> Quantity:
    """How many times as many images a second twice the batch gives."""
    step = Step(HEAVY, run.smallest_image(HEAVY), batch)
    return run.images(step._replace(batch=2 * batch)) / run.images(step)


study.values(
    {
        "ceiling": Run.peak,
        "copy": lambda run: run.peak_rate("copy"),
        "watched_batch": _watched,
        "switch": lambda run: exact("images from which oneDNN is used", "1", SWITCH, run.file),
        "gain_before": partial(_doubling, batch=SWITCH // 4),
        "gain_jump": partial(_doubling, batch=SWITCH // 2),
        "gain_after": partial(_doubling, batch=SWITCH),
    },
    of=lambda p: p.cpu,
)
study.values(
    {
        "heavy_wide": lambda run: run.profile(HEAVY).part("3 × 3 convolution").of_arithmetic,
        "heavy_narrow": lambda run: run.profile(HEAVY).part("1 × 1 convolution").of_arithmetic,
        "depthwise_memory": lambda run: run.profile(LIGHT).part(DEPTHWISE).of_memory,
        "without_products": lambda run: run.profile(LIGHT).part(WITHOUT).share,
        "cpu_heavy_roof": partial(Run.of_roof, network=HEAVY),
        "cpu_light_roof": partial(Run.of_roof, network=LIGHT),
    },
    "percent",
    of=lambda p: p.cpu,
)
study.values(
    {
        f"reduced_{_WORDS[network]}": partial(_paces, network=network, precision="bfloat16")
        for network in NETWORKS
    }
    | {
        f"last_{_WORDS[network]}": partial(_paces, network=network, layout="channels_last")
        for network in (HEAVY, LIGHT)
    }
    | {"reduced_peak": lambda run: run.peak("bfloat16") / run.peak()},
    of=lambda p: p.second,
)


# -------------------------------------------------------------------------------------- claims


@study.claim("mostly-explained")
def _mostly(p: Paper) -> Statement:
    return _explained(p) > 0.5


@study.claim("laptop-ahead")
def _laptop_ahead(p: Paper) -> Several:
    heavy, light = p.corrections[5:7]
    return all_of(heavy.ratio < 1 - MARGIN, light.ratio < 1 - MARGIN)


@study.claim("above-roof")
def _above_roof(p: Paper) -> Statement:
    return _of_roof(p, T4, SMALL) > 1 + MARGIN


@study.claim("hardware")
def _hardware(p: Paper) -> Several:
    slow = {(c.network, c.batch): c.images for c in p.source.steady(T4)}
    steady = p.source.steady(RTX)
    return all_of(*(c.images / slow[c.network, c.batch] > 1 + MARGIN for c in steady))


@study.claim("compute-bound")
def _compute_bound(p: Paper) -> Several:
    ridge = p.source.ridge(T4)
    return all_of(*(theory.intensity(network) / ridge > 1 for network in NETWORKS))


@study.claim("compute-bound-cached")
def _compute_bound_cached(p: Paper) -> Several:
    ridge, batch = p.source.ridge(T4), theory.SOURCE_BATCH
    return all_of(*(theory.intensity(n, batch, "cache") / ridge > 1 for n in NETWORKS))


@study.claim("light-memory")
def _light_memory(p: Paper) -> Several:
    return all_of(*(p.source.ridge(gpu) / theory.intensity(LIGHT) > 1 for gpu in GPUS))


@study.claim("heavy-arithmetic")
def _heavy_arithmetic(p: Paper) -> Several:
    return all_of(*(theory.intensity(HEAVY) / p.source.ridge(gpu) > 1 for gpu in GPUS))


@study.claim("one-exceeds")
def _one_exceeds(p: Paper) -> Several:
    if p.gpu is None:
        return all_of(absent("memory", "1", "no run on a GPU") > 0)
    there = exact("memory", "B", p.source.memory(RTX), p.source.file)
    heavy, light, small = (
        _collapsed("reserved_peak", network)(p.gpu) / there for network in (HEAVY, LIGHT, SMALL)
    )
    half = _bytes(p.gpu, "reserved_peak", HEAVY, theory.SOURCE_BATCH // 2, "float32") / there
    return all_of(heavy > 1, light < 1, small < 1, half < 1)


# ------------------------------------------------------------------------------------- figures


@study.figure("fig-shares", height=1.9)
def _fig_shares(p: Paper) -> Iterator[Dots]:
    yield figures.shares(p.shares)


@study.figure("fig-source-roofline", height=2.0, wide=True, same_axes=True)
def _fig_source(p: Paper) -> Iterator[Roofline]:
    yield from figures.source_roofs(p.source)


@study.figure("fig-memory", height=2.2)
def _fig_memory(p: Paper) -> Iterator[Scaling]:
    return figures.memory(p.gpu, p.source) if p.gpu else iter(())


@study.figure("fig-layers", height=2.1, wide=True, same_axes=True)
def _fig_layers(p: Paper) -> Iterator[Roofline]:
    yield from figures.layers(p.cpu) if p.cpu else ()


# -------------------------------------------------------------------------------------- tables


def _short(found: Quantity) -> Quantity:
    """A number of the source without the interval of its digits, where no clock widens it."""
    bounds = estimate(found)
    if not isinstance(bounds, Estimate) or bounds.high > (1 + _NARROW) * bounds.low:
        return found
    file, *further = found.sources or ("",)
    return exact(found.formula, str(found.unit), bounds.value, file, tuple(further))


@study.table(
    "tbl-paradox",
    rows=lambda p: p.corrections,
    digits={"T4 (%)": 3, f"{LAPTOP} (%)": 2, "Ratio": 2},
)
def _paradox(p: Paper, step: Correction) -> dict[str, Content]:
    return {
        "Efficiency": step.name,
        "Cases": step.cases,
        "T4 (%)": _short(step.t4),
        f"{LAPTOP} (%)": _short(step.rtx),
        "Ratio": _short(step.ratio),
    }


def _intensities(p: Paper) -> Iterator[tuple[str, int, Quantity]]:
    """Wherever the source prints one."""
    for row in p.source.rows("bound"):
        if row.text("network") != HEAVY:
            printed = p.source.exact(row.printed("intensity"), "FLOP/B")
            yield row.text("network"), theory.SOURCE_BATCH, printed
    for row in p.source.rows("intensity"):
        yield HEAVY, row.batch, p.source.exact(row.printed("intensity"), "FLOP/B")


@study.table(
    "tbl-intensity",
    rows=_intensities,
    digits=dict.fromkeys(("Traffic (MB)", "Layer by layer", "Perfect cache"), 2),
)
def _intensity(p: Paper, case: tuple[str, int, Quantity]) -> dict[str, Content]:
    network, batch, printed = case
    return {
        "Network": network,
        "Batch": batch,
        "Printed": printed,
        "Traffic (MB)": theory.traffic(network, batch),
        "Layer by layer": theory.intensity(network, batch),
        "Perfect cache": theory.intensity(network, batch, "cache"),
    }


def _parts(p: Paper) -> Iterator[Part]:
    """The operator classes of each profiled network that take time worth a row."""
    for profile in p.cpu.profiles.values() if p.cpu else ():
        for part in profile.parts:
            share = point(part.share)
            if not isinstance(share, Missing) and share >= _SMALL_SHARE:
                yield part


@study.table("tbl-layers", rows=_parts)
def _layers(p: Paper, part: Part) -> dict[str, Content]:
    return {
        "Network": part.profile.step.network,
        "Layers": part.name,
        "Time (%)": part.share,
        "Of arithmetic (%)": part.of_arithmetic if part.load.flops else _NO_WORK,
        "Of memory (%)": part.of_memory,
    }


study.add_table(lambda p: setup(p.runs))


def _reason(check: Check) -> str:
    """Why a number differs, as far as that is known."""
    if check.formula.endswith(LAPTOP):
        return "peak of the desktop card"
    return check.known.reason if check.known else "unexplained"


@study.table("tbl-audit", rows=lambda p: [c for c in p.checks if c.verdict == "differs"], wide=True)
def _audit(p: Paper, check: Check) -> dict[str, Content]:
    unit = "" if check.derived.unit == "1" else f" {check.derived.unit}"
    return {
        "Printed where": check.derived.place,
        "Computed from": check.formula,
        "Printed": f"{check.derived.text}{unit}",
        "Recomputed": f"{float(check.recomputed):.3g}{unit}",
        "Reason": _reason(check),
    }


class Item(NamedTuple):
    """An item of the source: how it is treated, and by which audit, which claim, or in words."""

    name: str
    treated: str
    by: Any


_ITEMS: Final = (
    Item("Sections 1.4, 2.1: peaks, bandwidths, work", "audited", ("environments", "complexity")),
    Item("Sections 4.2, 4.3: rates, efficiencies", "audited", ("achieved",)),
    Item("Sections 5.1, 5.3: speed-ups, gains", "audited", ("throughput", "batches")),
    Item("Averages, ratios and ranges in the text", "audited", ("text",)),
    Item("Sections 2.3, 5.2: all lie right of the T4's ridge", "traffic of layers", _compute_bound),
    Item("H1: the GPU with the higher peak is faster", "its throughputs", _hardware),
    Item("H2: memory is the nearer roof of MobileNetV2", "traffic of layers", _light_memory),
    Item("H2: arithmetic is that of ResNet-50", "traffic of layers", _heavy_arithmetic),
    Item("H3: gains shrink with the batch", "its throughputs", "too small for single runs"),
    Item("The collapse: memory or heat", "memory on our GPU", "consistent with memory"),
    Item("GPUs beat the CPU 60 to 100 times", "out of reach", "one digit, at another batch"),
    Item("Mixed precision would help", "a CPU of ours", "for two networks of three"),
)


@study.table("tbl-account", rows=lambda p: _ITEMS, wide=True)
def _account(p: Paper, item: Item) -> dict[str, Content]:
    result = item.by
    if callable(item.by):
        result = {"supported": "holds", "refuted": "fails"}.get(item.by(p).judge(), "undecided")
    elif isinstance(item.by, tuple):
        counts = count_by_verdict([check for name in item.by for check in p.audit[name]])
        result = f"{sum(counts.values())} numbers, {counts['differs']} differ"
    return {"The source's item": item.name, "Decided by": item.treated, "Result": result}
