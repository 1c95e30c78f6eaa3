"""The numbers of training_roofline's prose that come from the source and from theory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from report.evidence.audit import count_by_verdict
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.values import Value
from report.quantity.evaluation import point
from report.quantity.expression import Quantity
from report.statistics.estimates import CONFIDENCE, Estimate
from report.studies.training_roofline.batches import (
    ENOUGH,
    source_collapse,
    source_fit,
    source_line,
)
from report.studies.training_roofline.corrected import average, corrected, rate_ratios
from report.studies.training_roofline.measured import (
    MOVED,
)
from report.studies.training_roofline.memory import source_need
from report.studies.training_roofline.profiled import NEAR
from report.studies.training_roofline.source import (
    RTX,
    T4,
    audit,
    core_peak,
    environment,
    rows,
)
from report.studies.training_roofline.subject import HEAVY, NETWORKS
from report.studies.training_roofline.theory import (
    GIGA,
    SOURCE_BATCH,
    Complexity,
    below,
    known_roof,
    laptop_peak,
    printed_intensity,
    printed_roof,
    traffic_of_source,
)
from report.text.format import Number, Style
from report.theory.roofline import at_batch
from report.theory.work import flops

Finding: TypeAlias = Number | Estimate | Missing


def as_printed(number: float | Quantity | Missing) -> float | Missing:
    """To three digits, which is what the source prints its throughputs with at best."""
    number = point(number) if isinstance(number, Quantity) else number
    return number if isinstance(number, Missing) else float(f"{number:.3g}")


_NO_PEAK = Missing("no peak of this device is known")
_WORDS = {"ResNet-18": "small", "ResNet-50": "heavy", "MobileNetV2": "light"}


def source_values(inputs: Inputs, found: dict[str, Complexity]) -> tuple[Value, ...]:
    """What the source prints, what theory says of it, and what follows."""
    return (
        *_settings(),
        *_complexities(inputs, found),
        *_intensities(inputs, found),
        *_peaks(inputs),
        *_audited(inputs, found),
        *_efficiencies(inputs, found),
        *_collapse(inputs, found),
        *_saturation(inputs),
    )


def maker(origin: tuple[str, ...]) -> Callable[..., Value]:
    """A short way to make values of one origin."""

    def make(
        id_: str,
        name: str,
        number: Finding,
        unit: str,
        formula: str,
        style: Style = "measured",
    ) -> Value:
        return Value(id_, name, number, unit, formula, origin, style)

    return make


def _settings() -> tuple[Value, ...]:
    of, setting = maker(()), "setting of this study"
    return (
        of("confidence", "Confidence of intervals", CONFIDENCE, "1", setting, "percent"),
        of(
            "near",
            "Share of a ceiling from which a layer is near it",
            NEAR,
            "1",
            setting,
            "percent",
        ),
        of("moved", "Change of a ceiling that is marked", MOVED, "1", setting, "percent"),
        of("enough", "Share of the limit that is enough", ENOUGH, "1", setting, "percent"),
        of("source_batch", "Batch size of the compared intensities", SOURCE_BATCH, "1", setting),
    )


def _complexities(inputs: Inputs, found: dict[str, Complexity]) -> list[Value]:
    of = maker((inputs.reported_file,))
    made = []
    for item in rows(inputs.reported, "complexity"):
        network = item.text("network")
        word, known = _WORDS[network], found[network]
        printed = float(item.number_of("forward").number) * GIGA
        forward, training = flops(known.macs), known.training
        ratio, times = forward / printed, training / forward
        made += [
            of(f"{word}_forward", f"Forward pass of {network}", forward, "FLOP", "2 · MACs"),
            of(f"{word}_printed", f"Operations of {network}, printed", printed, "FLOP", "source"),
            of(f"{word}_ratio", f"Shapes over print, {network}", ratio, "1", "forward / printed"),
            of(f"{word}_training", f"Training step of {network}", training, "FLOP", "2 · MACs"),
            of(
                f"{word}_times",
                f"Training over forward, {network}",
                times,
                "1",
                "training / forward",
            ),
        ]
    return made


def _intensities(inputs: Inputs, found: dict[str, Complexity]) -> list[Value]:
    of = maker((inputs.reported_file,))
    roof = known_roof(inputs, T4)
    ridge = roof if isinstance(roof, Missing) else roof.ridge.value
    made = [
        of("t4_ridge", "Ridge point of the T4, data sheet", ridge, "FLOP/B", "peak / bandwidth"),
        of(
            "source_traffic",
            "Traffic an image that the printed intensities share",
            traffic_of_source(inputs),
            "B",
            "work / intensity − parameters / batch",
        ),
    ]
    for network in NETWORKS:
        word, known = _WORDS[network], found[network]
        whole = known.layerwise()
        part: Finding = (
            ridge
            if isinstance(ridge, Missing)
            else below(at_batch(known.layers, SOURCE_BATCH), ridge)
        )
        printed = printed_intensity(inputs, network)
        told = Missing("not printed") if isinstance(printed, str) else printed
        made += [
            of(
                f"{word}_intensity",
                f"Intensity of {network}, layer by layer",
                whole.intensity,
                "FLOP/B",
                "work / traffic",
            ),
            of(
                f"{word}_cached",
                f"Intensity of {network}, perfect cache",
                known.cached().intensity,
                "FLOP/B",
                "work / traffic",
            ),
            of(
                f"{word}_traffic",
                f"Traffic of {network} for an image",
                whole.bytes / SOURCE_BATCH,
                "B",
                "layer by layer / batch",
            ),
            of(f"{word}_told", f"Intensity of {network}, printed", told, "FLOP/B", "source"),
            of(
                f"{word}_below",
                f"Traffic of {network} below the T4's ridge",
                part,
                "1",
                "traffic of layers below / traffic",
                "percent",
            ),
        ]
    return made


def _peaks(inputs: Inputs) -> list[Value]:
    of = maker((inputs.reported_file,))
    printed = printed_roof(inputs, RTX)
    desktop = core_peak(rows(inputs.reported, "cores")[1], "nominal")
    cores = "2 · cores · clock"
    return [
        of("rtx_peak", "Printed peak of the RTX 4080", printed.peak.value, "FLOP/s", "source"),
        of("laptop_low", "Laptop at its lowest clock", laptop_peak(inputs, "low"), "FLOP/s", cores),
        of(
            "laptop_peak",
            "Laptop at its nominal clock",
            laptop_peak(inputs, "nominal"),
            "FLOP/s",
            cores,
        ),
        of(
            "laptop_high",
            "Laptop at its highest clock",
            laptop_peak(inputs, "high"),
            "FLOP/s",
            cores,
        ),
        of("desktop_peak", "Desktop card of that name", desktop, "FLOP/s", cores),
    ]


def _audited(inputs: Inputs, found: dict[str, Complexity]) -> list[Value]:
    of = maker((inputs.reported_file,))
    layers = {name: item.layers for name, item in found.items()}
    checks = audit(inputs.reported, layers, inputs.devices)
    counts, ratios = count_by_verdict(checks), rate_ratios(inputs)
    quotient = "printed rate / (images/s · printed work)"
    return [
        of("audited", "Derived numbers audited", len(checks), "1", "count"),
        of("agreeing", "Numbers that agree", counts["agrees"] + counts["rounds"], "1", "count"),
        of("differing", "Numbers that differ", counts["differs"], "1", "count"),
        of(
            "factored",
            "Numbers that differ by a known factor",
            sum(c.known is not None for c in checks),
            "1",
            "count",
        ),
        of(
            "rate_lowest",
            "Lowest rate over what follows",
            as_printed(min(ratios)),
            "1",
            quotient,
            "percent",
        ),
        of(
            "rate_highest",
            "Highest rate over what follows",
            as_printed(max(ratios)),
            "1",
            quotient,
            "percent",
        ),
        of(
            "cpu_images",
            "Images a second of the source's processor",
            inputs.reported.value("cpu_throughput").number,
            "1",
            "source",
        ),
        of(
            "over_cpu",
            "Printed speed-up over the processor",
            inputs.reported.value("rtx_over_cpu").number,
            "1",
            "source",
        ),
    ]


def _efficiencies(inputs: Inputs, found: dict[str, Complexity]) -> list[Value]:
    of = maker((inputs.reported_file,))
    cases = corrected(inputs, found)
    formula = "mean over cases of rate / known peak, without collapsed ones"
    made = []
    for name, word in ((RTX, "rtx"), (T4, "t4")):
        printed = inputs.reported.value(f"{word}_efficiency").number / 100
        made += [
            of(
                f"{word}_average",
                f"Efficiency of the {name}",
                as_printed(average(cases, name)),
                "1",
                formula,
                "percent",
            ),
            of(
                f"{word}_average_printed",
                f"Efficiency of the {name}, printed",
                printed,
                "1",
                "source",
                "percent",
            ),
        ]
    for network, word in (("ResNet-18", "small"), (HEAVY, "heavy")):
        seen = [c.of_known for c in cases if (c.device, c.network) == (T4, network)]
        shares = [share for share in seen if not isinstance(share, Missing)]
        made.append(
            of(
                f"t4_{word}",
                f"Best corrected efficiency of {network} on the T4",
                as_printed(max(shares, default=_NO_PEAK)),
                "1",
                "rate / known peak",
                "percent",
            )
        )
    printed = inputs.reported.value("paradox").number
    return [
        *made,
        of(
            "paradox",
            "Efficiency of the T4 over that of the RTX 4080",
            as_printed(average(cases, T4) / average(cases, RTX)),
            "1",
            "ratio",
        ),
        of("paradox_printed", "The same as printed", printed, "1", "source"),
    ]


def _collapse(inputs: Inputs, found: dict[str, Complexity]) -> list[Value]:
    of = maker((inputs.reported_file,))
    seen = source_collapse(inputs)
    none = Missing("the source prints no throughputs")
    fastest = as_printed(seen.overrun) if seen else none
    need = source_need(found[HEAVY], SOURCE_BATCH)
    memory = float(environment(inputs.reported, RTX).number_of("memory").number) * GIGA
    return [
        of(
            "collapse_share",
            "Throughput at batch 128 over that of a smaller batch",
            as_printed(seen.against_smaller) if seen else none,
            "1",
            "images/s / images/s",
            "percent",
        ),
        of(
            "collapse_scatter",
            "Deviation of an iteration at batch 128",
            as_printed(seen.spread.relative) if seen else none,
            "1",
            "deviation / mean",
            "percent",
        ),
        of(
            "collapse_fastest",
            "Fastest iteration over the line through smaller batches",
            fastest,
            "1",
            "fastest / predicted",
        ),
        of(
            "collapse_predicted",
            "Iteration by the line through smaller batches",
            point(source_line(inputs)),
            "s",
            "linear in the batch size",
        ),
        of("collapse_need", "Tensors of ResNet-50 at batch 128", need, "B", "kept + parameters …"),
        of("rtx_memory", "Memory of the RTX 4080", memory, "B", "source"),
    ]


def _saturation(inputs: Inputs) -> list[Value]:
    of = maker((inputs.reported_file,))
    found = source_fit(inputs)
    lost = found if isinstance(found, Missing) else None
    curve = None if isinstance(found, Missing) else found
    formula = "limit · b / (b + half), fitted"
    none = lost or Missing("no curve was fitted")
    return [
        of(
            "t4_limit", "Limit of ResNet-50 on the T4", curve.limit if curve else none, "1", formula
        ),
        of("t4_half", "Batch for half of it", curve.half if curve else none, "1", formula),
        of(
            "t4_at_smallest",
            "Share of the limit at batch 32",
            as_printed(curve.share(32)) if curve else none,
            "1",
            formula,
            "percent",
        ),
        of(
            "t4_at_largest",
            "Share of the limit at batch 128",
            as_printed(curve.share(128)) if curve else none,
            "1",
            formula,
            "percent",
        ),
    ]
