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
from report.missing import Missing
from report.paper.declared import Content
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.machine_comparison import Comparison, Measure
from report.paper.study import Study
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, exact, named
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Several, Statement, all_of
from report.statistics.estimates import CONFIDENCE
from report.studies.training_roofline import figures, theory
from report.studies.training_roofline.audit import audit
from report.studies.training_roofline.runs import Profile, Run, runs
from report.studies.training_roofline.source import (
    CPU,
    GIGA,
    GPUS,
    RTX,
    T4,
    TERA,
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

#: Times that differ by less than this share are no finding: runs of a machine differ by as much.
MARGIN: Final = 0.1
#: A share of the layers' time below this one has no row of its own.
_SMALL_SHARE: Final = 0.01
#: The batch at which a CPU trains on the largest images, and that at which precisions differ.
WATCHED, VARIED = 8, 32
#: How the ids of values name the networks.
_WORDS: Final = {SMALL: "small", HEAVY: "heavy", LIGHT: "light"}


def _whole(network: str) -> Step:
    return Step(network, IMAGE, WATCHED)


#: What many machines are compared by.
COMPARED: Final[Comparison[Run]] = Comparison(
    Run,
    tuple(
        Measure(f"{n}, of ceiling", "1", lambda run, n=n: run.efficiency(_whole(n)), "%")
        for n in NETWORKS
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

    @cached_property
    def corrections(self) -> tuple[Correction, ...]:
        """What is left of the paradox, correction by correction."""
        return self.source.corrections()

    @cached_property
    def ratios(self) -> dict[str, tuple[Quantity, Quantity]]:
        """Images a second of the other networks over those of ResNet-50, by device."""
        found = {}
        for device in GPUS:
            others = (self.source.best(device, network) for network in (SMALL, LIGHT))
            heavy = self.source.best(device, HEAVY)
            small, light = (other / heavy for other in others)
            found[f"{device} (source)"] = small, light
        for run, precision, batch in (
            (self.gpu, "float32", theory.SOURCE_BATCH),
            (self.gpu, "tfloat32", theory.SOURCE_BATCH),
            (self.cpu, "float32", WATCHED),
            (self.second, "float32", WATCHED),
        ):
            if run:
                small, heavy, light = (
                    run.images(Step(network, IMAGE, batch, precision))  # type: ignore[arg-type]
                    for network in NETWORKS
                )
                words = ", TF32" if precision == "tfloat32" else ""
                found[f"{run.short}{words}"] = small / heavy, light / heavy
        return found


study = Study(Paper)
findings = study.findings

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
        "paradox_rates": _corrected(1),
        "paradox_chip": _corrected(3),
        "paradox": _corrected(4),
        "paradox_heavy": _corrected(5),
        "paradox_light": _corrected(6),
        "paradox_small": _corrected(7),
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
        "t4_small_images": lambda p: p.source.best(T4, SMALL) * exact("image", "1", 1),
        "loader_cap": lambda p: p.source.best(RTX, SMALL),
        "lead_small": lambda p: p.source.best(RTX, SMALL) / p.source.best(T4, SMALL),
        "lead_heavy": lambda p: (
            p.source.case(RTX, HEAVY, 64).images / p.source.case(T4, HEAVY, 64).images
        ),
        "source_batch": lambda p: exact("batch", "1", theory.SOURCE_BATCH),
        "source_traffic": lambda p: p.source.traffic,
        "heavy_traffic": lambda p: theory.traffic(HEAVY),
        "heavy_intensity": lambda p: theory.intensity(HEAVY),
        "light_intensity": lambda p: theory.intensity(LIGHT),
        "t4_ridge": lambda p: p.source.ridge(T4),
        "laptop_ridge": lambda p: p.source.ridge(RTX),
        "alive": lambda p: theory.alive(HEAVY, theory.SOURCE_BATCH),
        "light_alive": lambda p: theory.alive(LIGHT, theory.SOURCE_BATCH),
        "laptop_memory": lambda p: exact("memory", "B", p.source.memory(RTX), p.source.file),
        "fits": lambda p: theory.largest_batch(HEAVY, p.source.memory(RTX)),
        "collapse_factor": lambda p: p.source.value("collapse_factor"),
        "first_gain": lambda p: p.source.gains[0] - 1,
        "last_gain": lambda p: p.source.gains[-1] - 1,
    }
)
study.values(
    {
        "confidence": lambda p: exact("confidence, chosen", "1", CONFIDENCE),
        "explained": _explained,
        "rtx_average": lambda p: p.corrections[4].rtx,
        "t4_average": lambda p: p.corrections[4].t4,
        "t4_small": lambda p: p.corrections[7].t4,
        "t4_heavy": lambda p: p.corrections[5].t4,
        "rtx_heavy": lambda p: p.corrections[5].rtx,
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
        "gpu_mix": lambda run: _mix(run, "float32"),
        "gpu_mix_fast": lambda run: _mix(run, "tfloat32"),
        "reserved": lambda run: _reserved(run, HEAVY, theory.SOURCE_BATCH),
        "reserved_fast": lambda run: _reserved(run, HEAVY, theory.SOURCE_BATCH, "tfloat32"),
        "light_reserved": lambda run: _reserved(run, LIGHT, theory.SOURCE_BATCH),
        "half_reserved": lambda run: _reserved(run, HEAVY, theory.SOURCE_BATCH // 2),
    },
    of=lambda p: p.gpu,
)


def _mix(run: Run, precision: Any) -> Quantity:
    small, heavy = (
        run.images(Step(network, IMAGE, theory.SOURCE_BATCH, precision))
        for network in (SMALL, HEAVY)
    )
    return small / heavy


study.values(
    {
        "ceiling": Run.peak,
        "copy": lambda run: run.peak_rate("copy"),
        "ridge": lambda run: run.peak() / run.peak_rate("copy"),
        "watched_batch": lambda run: exact("batch", "1", WATCHED, run.file),
    },
    of=lambda p: p.cpu,
)
study.values(
    {
        f"{_WORDS[network]}_efficiency": partial(
            lambda run, network: run.efficiency(_whole(network)), network=network
        )
        for network in NETWORKS
    },
    "percent",
    of=lambda p: p.cpu,
)
study.values(
    {
        f"reduced_{_WORDS[network]}": partial(
            lambda run, network: _reduced(run, network), network=network
        )
        for network in NETWORKS
    }
    | {"reduced_peak": lambda run: run.peak("bfloat16") / run.peak()},
    of=lambda p: p.second,
)


def _reduced(run: Run, network: str) -> Quantity:
    """How many times as many images a second bfloat16 gives."""
    image = run.smallest_image(network)
    full, half = (
        run.images(Step(network, image, VARIED, precision))  # type: ignore[arg-type]
        for precision in ("float32", "bfloat16")
    )
    return half / full


class Part(NamedTuple):
    """Some layers of a profiled step; ``name`` is their operator class."""

    profile: Profile
    name: str

    @property
    def time(self) -> Quantity:
        """Their share of the layers' time."""
        return self.profile.share(self.profile.of_class(self.name), "share of time")

    @property
    def of_arithmetic(self) -> Quantity:
        """Their rate over the ceiling of arithmetic."""
        return self.profile.of_arithmetic(self.profile.of_class(self.name))

    @property
    def of_memory(self) -> Quantity:
        """Their least traffic a second over the memory ceiling."""
        return self.profile.of_memory(self.profile.of_class(self.name))


def _parts(p: Paper) -> Iterator[Part]:
    """The operator classes of each profiled network that take time worth a row."""
    for profile in p.cpu.profiles.values() if p.cpu else ():
        for name in profile.classes():
            part = Part(profile, name)
            share = point(part.time)
            if isinstance(share, float) and share >= _SMALL_SHARE:
                yield part


# -------------------------------------------------------------------------------------- claims


@study.claim("mostly-arithmetic")
def _mostly(p: Paper) -> Statement:
    return _explained(p) > 0.5


@study.claim("small-ahead")
def _small_ahead(p: Paper) -> Statement:
    return p.corrections[7].ratio > 1 + MARGIN


@study.claim("heavy-ahead")
def _heavy_ahead(p: Paper) -> Statement:
    return p.corrections[5].ratio > 1


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


@study.figure("fig-source-roofline", height=2.7, wide=True)
def _fig_source(p: Paper) -> Iterator[Roofline]:
    yield from figures.source_roofs(p.source)


@study.figure("fig-mix", height=2.1)
def _fig_mix(p: Paper) -> Iterator[Dots]:
    bounds = {"work": value_of(_work_bound(p)), "traffic": value_of(_traffic_bound(p))}
    yield figures.ratios(p.ratios, bounds)


@study.figure("fig-memory", height=2.6)
def _fig_memory(p: Paper) -> Iterator[Scaling]:
    return figures.memory(p.gpu, p.source) if p.gpu else iter(())


@study.figure("fig-layers", height=2.9, wide=True)
def _fig_layers(p: Paper) -> Iterator[Roofline]:
    yield from figures.layers(p.cpu) if p.cpu else ()


# -------------------------------------------------------------------------------------- tables


@study.table("tbl-paradox", rows=lambda p: p.corrections, digits={"Cases": 1})
def _paradox(p: Paper, step: Correction) -> dict[str, Content]:
    return {
        "Efficiencies": step.name,
        "Cases": step.cases,
        "T4 (%)": step.t4,
        f"{RTX} (%)": step.rtx,
        "Ratio": step.ratio,
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
        "Time (%)": part.time,
        "Of arithmetic (%)": part.of_arithmetic,
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
