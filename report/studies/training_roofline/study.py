"""All that the paper of training_roofline prints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

from figures.dots import Dots
from figures.roofline import Roofline
from figures.scaling import Scaling
from report.evidence.audit import Check, count_by_verdict
from report.evidence.runs import run_of
from report.instruments.onednn import parse_log
from report.missing import Missing
from report.paper.declared import Content
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.machine_comparison import Comparison, Measure
from report.paper.study import Study
from report.quantity.evaluation import estimate, point, to_digits
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Several, Statement, all_of
from report.statistics.estimates import CONFIDENCE
from report.studies.training_roofline import figures, theory
from report.studies.training_roofline.audit import audit
from report.studies.training_roofline.runs import WITHOUT, Part, Run, runs
from report.studies.training_roofline.source import (
    GIGA,
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
    Step,
    check_subject,
)
from report.text.escape import markdown
from report.theory.roofline import DEPTHWISE

#: Times that differ by less than this share are no finding: runs of a machine differ by as much.
MARGIN: Final = 0.1
#: A share of the layers' time below this one has no row of its own.
_SMALL_SHARE: Final = 0.05
#: The batch at which precisions differ on a CPU.
VARIED: Final = 32
#: Intervals of printed digits are narrower than this share, those of clocks are wider.
_NARROW: Final = 0.03
#: From so many images on PyTorch lets oneDNN compute convolutions of one tap on one thread.
SWITCH: Final = 16
#: The networks as timm names them.
_TIMM: Final = ("resnet18", "resnet50", "mobilenetv2_100")
#: How the ids of values name the networks.
_WORDS: Final = {SMALL: "small", HEAVY: "heavy", LIGHT: "light"}


#: What many machines are compared by.
COMPARED: Final[Comparison[Run]] = Comparison(
    Run,
    tuple(
        Measure(f"{network}, of ceiling", "1", partial(Run.efficiency, network=network), "%")
        for network in NETWORKS
    ),
)


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

    def copies(self, network: str) -> Quantity:
        """The share of copies in the time of oneDNN's primitives in one step."""
        name, file = f"copies of {network}", self.cpu.file if self.cpu else ""
        attached = self.inputs.attachments.get(file, {})
        found = next((each for each in attached if network.lower() in each), None)
        if found is None:
            return absent(name, "1", "no log of oneDNN lies beside the record")
        log = parse_log(attached[found].decode(errors="replace"), f"data/{file}/{found}")
        parts = [each.seconds for each in log.primitives if each.kind == "reorder"]
        whole = exact("all primitives", "s", sum(each.seconds for each in log.primitives), file)
        return exact(name, "s", sum(parts), file) / whole

    @cached_property
    def corrections(self) -> tuple[Correction, ...]:
        """What is left of the paradox, correction by correction."""
        return self.source.corrections()

    @property
    def published(self) -> dict[str, tuple[Quantity, Quantity]]:
        """The same of another GPU as others measured it, on images in memory."""
        for stored in self.inputs.imported:
            record = stored.record
            if record.conditions.items() >= {"direction": "training", "layout": "nchw"}.items():
                rates = {
                    (name := str(case.factors["network"])): exact(
                        str(case.factors["network"]),
                        "1/s",
                        case.samples("image_rate")[0],
                        stored.file,
                    )
                    for case in record.cases
                    if case.factors.get("network") in _TIMM and case.samples("image_rate")
                }
                if len(rates) == len(_TIMM):
                    small, heavy, light = map(rates.__getitem__, _TIMM)
                    name = record.environment.model.removeprefix("NVIDIA GeForce ")
                    return {f"{name} (timm)": (small / heavy, light / heavy)}
        return {}

    @cached_property
    def ratios(self) -> dict[str, tuple[Quantity, Quantity]]:
        """Images a second of the other networks over those of ResNet-50, by device."""
        found = {}
        for device in GPUS:
            others = (self.source.best(device, network) for network in (SMALL, LIGHT))
            heavy = self.source.best(device, HEAVY)
            small, light = (other / heavy for other in others)
            found[f"{device} (source)"] = small, light
        found |= self.published
        if self.gpu:
            found[self.gpu.short] = _mix(self.gpu, "float32")
            found[f"{self.gpu.short}, TF32"] = _mix(self.gpu, "tfloat32")
        for run in (self.cpu, self.second):
            if run:
                small, heavy, light = map(run.pace, NETWORKS)
                found[run.short] = small / heavy, light / heavy
        return found


def _mix(run: Run, precision: Any) -> tuple[Quantity, Quantity]:
    """Images a second of the other networks over those of ResNet-50, at the source's batch."""
    small, heavy, light = (
        run.images(Step(network, IMAGE, theory.SOURCE_BATCH, precision)) for network in NETWORKS
    )
    return small / heavy, light / heavy


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


def _differing(p: Paper) -> int:
    return count_by_verdict(p.checks)["differs"]


def _corrected(place: int) -> Any:
    return lambda p: p.corrections[place].ratio


def _explained(p: Paper) -> Quantity:
    """How much of the printed ratio's excess over one the corrections take away."""
    printed = p.source.value("paradox")
    return (printed - p.corrections[4].ratio) / (printed - 1)


def _work_bound(p: Paper) -> Quantity:
    return theory.work(HEAVY) / theory.work(SMALL)


def _traffic_bound(p: Paper) -> Quantity:
    return theory.traffic(HEAVY) / theory.traffic(SMALL)


study.values(
    {
        "audited": lambda p: _count("audited numbers", len(p.checks), p),
        "differing": lambda p: _count("numbers that differ", _differing(p), p),
        "paradox_printed": lambda p: p.source.value("paradox"),
        "source_batch": lambda p: exact("batch", "1", theory.SOURCE_BATCH),
        "fits": lambda p: theory.largest_batch(HEAVY, p.source.memory(RTX)),
        "collapse_factor": lambda p: p.source.value("collapse_factor"),
        "iterations": lambda p: p.source.value("iterations"),
        "warmup": lambda p: p.source.value("warmup"),
    }
)
study.values(
    {
        "paradox_rates": _corrected(1),
        "paradox_chip": _corrected(3),
        "paradox": _corrected(4),
        "paradox_nearest": _corrected(5),
        "paradox_heavy": _corrected(6),
        "paradox_light": _corrected(7),
        "paradox_small": _corrected(8),
        "rtx_peak": lambda p: p.source.printed_roof(RTX)[0],
        "laptop_peak": lambda p: p.source.peak(RTX),
        "laptop_low": lambda p: p.source.peak(RTX, "low"),
        "laptop_high": lambda p: p.source.peak(RTX, "high"),
        "work_ratio": lambda p: (
            theory.work(SMALL)
            / p.source.exact(
                p.source.one("complexity", network=SMALL).printed("training"), "FLOP", GIGA
            )
        ),
        "work_bound": _work_bound,
        "traffic_bound": _traffic_bound,
        "laptop_mix": lambda p: p.ratios[f"{RTX} (source)"][0],
        "t4_mix": lambda p: p.ratios[f"{T4} (source)"][0],
        "loader_cap": lambda p: p.source.best(RTX, SMALL),
        "lead_small": lambda p: p.source.best(RTX, SMALL) / p.source.best(T4, SMALL),
        "lead_heavy": lambda p: (
            p.source.case(RTX, HEAVY, 64).images / p.source.case(T4, HEAVY, 64).images
        ),
        "source_traffic": lambda p: p.source.traffic,
        "heavy_traffic": lambda p: theory.traffic(HEAVY),
        "heavy_intensity": lambda p: theory.intensity(HEAVY),
        "light_intensity": lambda p: theory.intensity(LIGHT),
        "t4_ridge": lambda p: p.source.ridge(T4),
        "laptop_ridge": lambda p: p.source.ridge(RTX),
        "alive": lambda p: theory.alive(HEAVY, theory.SOURCE_BATCH),
        "light_alive": lambda p: theory.alive(LIGHT, theory.SOURCE_BATCH),
        "laptop_memory": lambda p: exact("memory", "B", p.source.memory(RTX), p.source.file),
    },
    "measured",
)


def _gpu_wide(p: Paper) -> Quantity:
    """The best arithmetic of our GPU in float32, by direct work, over that of its data sheet."""
    gpu = p.gpu.stored.record.environment.gpu if p.gpu else None
    sheet = p.inputs.devices.find(gpu.model) if gpu else None
    peak = sheet.peak("float32") if sheet else None
    if p.gpu is None or peak is None:
        return absent("peak of the data sheet", "1", "no data sheet of our GPU is known")
    return p.gpu.peak() / exact("peak of the data sheet", "FLOP/s", peak.rate)


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
        "confidence": lambda p: exact("confidence, chosen", "1", CONFIDENCE),
        "explained": _explained,
        "rtx_average": lambda p: p.corrections[4].rtx,
        "t4_average": lambda p: p.corrections[4].t4,
        "t4_small": lambda p: p.corrections[8].t4,
        "t4_heavy": lambda p: p.corrections[6].t4,
        "rtx_heavy": lambda p: p.corrections[6].rtx,
        "rtx_light": lambda p: p.corrections[7].rtx,
        "heavy_below": lambda p: theory.below(HEAVY, value_of(p.source.ridge(T4))),
        "light_below": lambda p: theory.below(LIGHT, value_of(p.source.ridge(T4))),
        "rtx_light_arithmetic": lambda p: p.source.share(_light(p, RTX), "nominal"),
        "rtx_light_bandwidth": lambda p: p.source.of_bandwidth(_light(p, RTX)),
        "t4_light_arithmetic": lambda p: p.source.share(_light(p, T4)),
        "t4_light_bandwidth": lambda p: p.source.of_bandwidth(_light(p, T4)),
        "first_gain": lambda p: p.source.gains[0] - 1,
        "last_gain": lambda p: p.source.gains[-1] - 1,
    },
    "percent",
)


def _light(p: Paper, device: str) -> Case:
    return p.source.case(device, LIGHT, theory.SOURCE_BATCH)


# ------------------------------------------------------------------------------------- measured


def _reserved(run: Run, network: str, batch: int, precision: Any = "float32") -> Quantity:
    return run.bytes("reserved_peak", Step(network, IMAGE, batch, precision))


study.values(
    {
        "gpu_mix": lambda run: _mix(run, "float32")[0],
        "gpu_mix_fast": lambda run: _mix(run, "tfloat32")[0],
        "reserved": lambda run: _reserved(run, HEAVY, theory.SOURCE_BATCH),
        "reserved_fast": lambda run: _reserved(run, HEAVY, theory.SOURCE_BATCH, "tfloat32"),
        "light_reserved": lambda run: _reserved(run, LIGHT, theory.SOURCE_BATCH),
        "half_reserved": lambda run: _reserved(run, HEAVY, theory.SOURCE_BATCH // 2),
    },
    "measured",
    of=lambda p: p.gpu,
)


study.values({"gpu_wide": _gpu_wide})
study.values(
    {
        "ceiling": Run.peak,
        "copy": lambda run: run.peak_rate("copy"),
        "ridge": lambda run: run.peak() / run.peak_rate("copy"),
        "watched_batch": _watched,
    },
    of=lambda p: p.cpu,
)
study.values(
    {
        "switch": lambda run: exact("images from which oneDNN is used", "1", SWITCH, run.file),
        "gain_before": partial(_doubling, batch=SWITCH // 4),
        "gain_jump": partial(_doubling, batch=SWITCH // 2),
        "gain_after": partial(_doubling, batch=SWITCH),
        "light_last": lambda run: _paces(run, LIGHT, layout="channels_last"),
    },
    of=lambda p: p.cpu,
)
study.values(
    {
        f"{_WORDS[network]}_efficiency": partial(Run.efficiency, network=network)
        for network in NETWORKS
    }
    | {
        "heavy_wide": lambda run: run.profile(HEAVY).part("3 × 3 convolution").of_arithmetic,
        "heavy_narrow": lambda run: run.profile(HEAVY).part("1 × 1 convolution").of_arithmetic,
        "depthwise_memory": lambda run: run.profile(LIGHT).part(DEPTHWISE).of_memory,
        "depthwise_arithmetic": lambda run: run.profile(LIGHT).part(DEPTHWISE).of_arithmetic,
        "without_products": lambda run: run.profile(LIGHT).part(WITHOUT).share,
    },
    "percent",
    of=lambda p: p.cpu,
)
study.values(
    {
        f"{_WORDS[network]}_copies": partial(lambda p, network: p.copies(network), network=network)
        for network in NETWORKS
    },
    "percent",
)
study.values(
    {
        f"reduced_{_WORDS[network]}": partial(_paces, network=network, precision="bfloat16")
        for network in NETWORKS
    }
    | {"reduced_peak": lambda run: run.peak("bfloat16") / run.peak()},
    of=lambda p: p.second,
)


_NO_WORK: Final = absent("rate", "1", "no multiply-adds")


def _parts(p: Paper) -> Iterator[Part]:
    """The operator classes of each profiled network that take time worth a row."""
    for profile in p.cpu.profiles.values() if p.cpu else ():
        for part in profile.parts:
            share = point(part.share)
            if isinstance(share, float) and share >= _SMALL_SHARE:
                yield part


# -------------------------------------------------------------------------------------- claims


@study.claim("mostly-arithmetic")
def _mostly(p: Paper) -> Statement:
    return _explained(p) > 0.5


@study.claim("small-ahead")
def _small_ahead(p: Paper) -> Statement:
    return p.corrections[8].ratio > 1 + MARGIN


@study.claim("laptop-ahead")
def _laptop_ahead(p: Paper) -> Several:
    return all_of(*(each.ratio < 1 - MARGIN for each in p.corrections[6:8]))


@study.claim("outside-roofline")
def _outside(p: Paper) -> Statement:
    mix = p.ratios[f"{T4} (source)"][0]
    return mix / at_least(_work_bound(p), _traffic_bound(p)) > 1 + MARGIN


@study.claim("inside-roofline")
def _inside(p: Paper) -> Several:
    mix, bounds = p.ratios[f"{RTX} (source)"][0], (_work_bound(p), _traffic_bound(p))
    return all_of(mix / at_most(*bounds) > 1, mix / at_least(*bounds) < 1)


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


@study.claim("diminishing")
def _diminishing(p: Paper) -> Several:
    return all_of(*(old / new > 1 for old, new in pairwise(p.source.gains)))


@study.claim("collapse-is-memory")
def _collapse(p: Paper) -> Several:
    if p.gpu is None:
        return all_of(absent("memory", "B", "no run on a GPU") / 1 > 0)
    there, batch = exact("memory", "B", p.source.memory(RTX), p.source.file), theory.SOURCE_BATCH
    return all_of(
        _reserved(p.gpu, HEAVY, batch, "tfloat32") / there > 1,
        _reserved(p.gpu, HEAVY, batch // 2) / there < 1,
        _reserved(p.gpu, LIGHT, batch) / there < 1,
    )


# ------------------------------------------------------------------------------------- figures


@study.figure("fig-source-roofline", height=2.2, wide=True)
def _fig_source(p: Paper) -> Iterator[Roofline]:
    yield from figures.source_roofs(p.source)


@study.figure("fig-mix", height=2.3)
def _fig_mix(p: Paper) -> Iterator[Dots]:
    bounds = {"work": value_of(_work_bound(p)), "traffic": value_of(_traffic_bound(p))}
    yield figures.ratios(p.ratios, bounds)


@study.figure("fig-memory", height=2.3)
def _fig_memory(p: Paper) -> Iterator[Scaling]:
    return figures.memory(p.gpu, p.source) if p.gpu else iter(())


@study.figure("fig-layers", height=2.2, wide=True)
def _fig_layers(p: Paper) -> Iterator[Roofline]:
    yield from figures.layers(p.cpu) if p.cpu else ()


# -------------------------------------------------------------------------------------- tables


def _short(found: Quantity) -> Quantity:
    """A number of the source without the interval of its digits, where no clock widens it."""
    bounds = estimate(found)
    narrow = not isinstance(bounds, Missing) and bounds.high < (1 + _NARROW) * bounds.low
    return to_digits(found, 3) if narrow else found


@study.table("tbl-paradox", rows=lambda p: p.corrections, digits={"Cases": 1})
def _paradox(p: Paper, step: Correction) -> dict[str, Content]:
    return {
        "Efficiencies": step.name,
        "Cases": step.cases,
        "T4 (%)": _short(step.t4),
        f"{RTX} (%)": _short(step.rtx),
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
    digits=dict.fromkeys(("Traffic (MB)", "Layer by layer", "Perfect cache"), 3),
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


@study.table("tbl-layers", rows=_parts)
def _layers(p: Paper, part: Part) -> dict[str, Content]:
    return {
        "Network": part.profile.step.network,
        "Layers": part.name,
        "Time (%)": part.share,
        "Of arithmetic (%)": part.of_arithmetic if part.load.flops else _NO_WORK,
        "Of memory (%)": part.of_memory,
    }


study.add_table(lambda p: setup(p.inputs, p.runs, source=False))


@study.table("tbl-audit", rows=lambda p: [c for c in p.checks if c.verdict == "differs"], wide=True)
def _audit(p: Paper, check: Check) -> dict[str, Content]:
    unit = "" if check.derived.unit == "1" else f" {check.derived.unit}"
    return {
        "Printed where": check.derived.place,
        "Computed from": check.formula,
        "Printed": f"{check.derived.text}{unit}",
        "Recomputed": f"{float(check.recomputed):.3g}{unit}",
        "Reason, where known": check.known.reason if check.known else "–",
    }


class Item(NamedTuple):
    """An item of the source: how it is treated, and by which part of the audit or which claim."""

    name: str
    treated: str
    by: Any = ""


_ITEMS: Final = (
    Item("Section 1.4: peaks, bandwidths", "audited", "environments"),
    Item("Section 2.1: parameters and operations", "audited", "complexity"),
    Item("Section 2.3: intensities of ResNet-50", "recomputed by two models of traffic"),
    Item("Sections 4.2 and 4.3: rates, efficiencies", "audited", "achieved"),
    Item("Section 5.1: speed-ups of the GPUs", "audited", "throughput"),
    Item("Section 5.3: gains of the batch", "audited", "batches"),
    Item("Averages, ratios and ranges in the text", "audited", "text"),
    Item("H1: the GPU with the higher peak is faster", "decided by its throughputs", _hardware),
    Item("Section 5.2: every network is compute-bound", "decided by theory", _compute_bound),
    Item("H2: MobileNetV2 is memory-bound", "decided by theory", _light_memory),
    Item("H2: ResNet-50 is compute-bound", "decided by theory", _heavy_arithmetic),
    Item("H3: gains shrink with the batch", "decided by its throughputs", _diminishing),
    Item("The collapse has a limit of memory", "reproduced on our GPU", _collapse),
    Item("The collapse is thermal throttling", "out of reach: no clock is printed"),
    Item("GPUs beat the CPU 60 to 100 times", "out of reach: one digit, at another batch"),
    Item("Mixed precision would help", "reproduced on a CPU"),
)


@study.table("tbl-account", rows=lambda p: _ITEMS, wide=True)
def _account(p: Paper, item: Item) -> dict[str, Content]:
    result = "see text"
    if callable(item.by):
        result = {"supported": "holds", "refuted": "fails"}.get(item.by(p).judge(), "undecided")
    elif item.by:
        counts = count_by_verdict(p.audit[item.by])
        result = f"{sum(counts.values())} numbers, {counts['differs']} differ"
    return {"The source's item": item.name, "Here": item.treated, "Result": result}
