"""The numbers of training_roofline's prose that come from the source and from theory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from report.evidence.audit import count_by_verdict, printed_value
from report.evidence.remembered import known
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.values import Value
from report.quantity.evaluation import point, to_digits
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_least, at_most, flops
from report.statistics.estimates import CONFIDENCE
from report.studies.training_roofline.batches import (
    half,
    source_collapse,
    source_fit,
    source_times,
)
from report.studies.training_roofline.corrected import (
    Corrected,
    collapsed,
    corrected,
    rate_ratios,
)
from report.studies.training_roofline.declared import (
    WORDS,
    chosen,
    declared,
    setting,
)
from report.studies.training_roofline.memory import source_need
from report.studies.training_roofline.paradox import corrections
from report.studies.training_roofline.profiled import NEAR, THRESHOLDS
from report.studies.training_roofline.source import (
    CPU,
    RTX,
    T4,
    as_printed,
    core_peak,
    environment,
    row,
    rows,
)
from report.studies.training_roofline.source_audit import OUTSIDE, audit_by_kind, efficiencies
from report.studies.training_roofline.subject import HEAVY, LIGHT, NETWORKS, SMALL
from report.studies.training_roofline.theory import (
    GIGA,
    SOURCE_BATCH,
    TERA,
    Complexity,
    below,
    cpu_peaks,
    known_roof,
    laptop_bandwidth,
    laptop_peak,
    traffic_of_source,
)
from report.theory.roofline import Load, Roof, at_batch, class_loads, total
from report.theory.work import training_macs


def source_values(inputs: Inputs, found: dict[str, Complexity]) -> Iterator[Value]:
    """What the source prints, what theory says of it, and what follows."""
    yield from _settings()
    yield from declared(_complexities(inputs, found))
    yield from _intensities(inputs, found)
    yield from declared(_peaks(inputs))
    yield from _audited(inputs, found)
    yield from _efficiencies(inputs, found)
    yield from _collapse(inputs, found)
    yield from _saturation(inputs)


def _settings() -> Iterator[Value]:
    yield setting("confidence", "Confidence of intervals", CONFIDENCE)
    yield setting("near", "Share of a ceiling from which a layer is near it", NEAR)
    yield setting("near_wide", "A smaller such share, to compare", THRESHOLDS[0])
    yield setting(
        "source_batch", "Batch size of the compared intensities", SOURCE_BATCH, "measured"
    )


def _printed(inputs: Inputs, id_: str, factor: float = 1.0) -> Quantity:
    return as_printed(printed_value(inputs.reported, id_), "1", inputs.reported_file, factor)


def _complexities(inputs: Inputs, found: dict[str, Complexity]) -> dict[str, Quantity]:
    made: dict[str, Quantity] = {}
    for item in rows(inputs.reported, "complexity"):
        network = item.text("network")
        word, of = WORDS[network], found[network]
        forward = flops(exact("multiply-adds of a forward pass", "MAC", of.macs))
        training = flops(exact("multiply-adds of a step", "MAC", training_macs(of.layers)))
        printed = as_printed(item.number_of("forward"), "FLOP", inputs.reported_file, GIGA)
        made |= {
            f"{word}_ratio": to_digits(forward / printed, 3),
            f"{word}_times": to_digits(training / forward, 3),
        }
    return made


def _intensities(inputs: Inputs, found: dict[str, Complexity]) -> Iterator[Value]:
    roof = known_roof(inputs, T4)
    yield from declared(
        {"t4_ridge": to_digits(_ridge(roof), 2), "source_traffic": traffic_of_source(inputs)}
    )
    for network in NETWORKS:
        word, of = WORDS[network], found[network]
        whole = _bytes(of.layerwise(), "traffic layer by layer")
        cached = _bytes(of.cached(), "traffic of a perfect cache")
        yield from declared(
            {
                f"{word}_intensity": to_digits(_work(of.layerwise()) / whole, 2),
                f"{word}_cached": to_digits(_work(of.cached()) / cached, 2),
                f"{word}_traffic": to_digits(whole / exact("batch", "1", SOURCE_BATCH), 3),
                f"{word}_told": _told_intensity(inputs, network),
            }
        )
        shares = {f"{word}_below": _below(of, roof), f"{word}_wide": _three_by_three(of)}
        yield from declared({id_: to_digits(each, 2) for id_, each in shares.items()}, "percent")


def _ridge(roof: Roof | Missing) -> Quantity:
    if isinstance(roof, Missing):
        return absent("ridge point", "FLOP/B", roof.reason)
    bandwidth = exact("bandwidth of the data sheet", "B/s", roof.bandwidth.value)
    return exact("peak of the data sheet", "FLOP/s", roof.peak.value) / bandwidth


def _below(of: Complexity, roof: Roof | Missing) -> Quantity:
    if isinstance(roof, Missing):
        return absent("traffic of layers below the ridge", "1", roof.reason)
    return below(at_batch(of.layers, SOURCE_BATCH), roof.ridge.value)


def _three_by_three(of: Complexity) -> Quantity:
    """The share of a step's work in convolutions of 3 × 3, which Winograd's algorithm shortens."""
    loads = class_loads(at_batch(of.layers, SOURCE_BATCH))
    work = exact("work of 3 × 3 convolutions", "FLOP", loads["3 × 3 convolution"].flops)
    return work / _work(total(loads.values()))


def _work(load: Load) -> Quantity:
    return exact("work", "FLOP", load.flops)


def _bytes(load: Load, name: str) -> Quantity:
    return exact(name, "B", load.bytes)


def _told_intensity(inputs: Inputs, network: str) -> Quantity:
    item = row(inputs.reported, "bound", network=network)
    printed = item.printed("intensity") if item else None
    if printed is None:
        return absent("intensity", "FLOP/B", "not printed in the source")
    return as_printed(printed, "FLOP/B", inputs.reported_file)


def _peaks(inputs: Inputs) -> dict[str, Quantity]:
    reported, file = inputs.reported, inputs.reported_file
    printed = environment(reported, RTX).number_of("peak")
    performance, efficient = cpu_peaks(inputs)
    return {
        "laptop_bandwidth": laptop_bandwidth(inputs),
        "rtx_bandwidth": as_printed(
            environment(reported, RTX).number_of("bandwidth"), "B/s", file, GIGA
        ),
        "rtx_peak": as_printed(printed, "FLOP/s", file, TERA),
        "laptop_low": to_digits(laptop_peak(inputs, "low"), 3),
        "laptop_peak": to_digits(laptop_peak(inputs, "nominal"), 3),
        "laptop_high": to_digits(laptop_peak(inputs, "high"), 3),
        "desktop_peak": to_digits(core_peak(rows(reported, "cores")[1], "nominal", file), 3),
        "cpu_printed_peak": as_printed(
            environment(reported, CPU).number_of("peak"), "FLOP/s", file, TERA
        ),
        "cpu_performance_peak": to_digits(performance, 3),
        "cpu_peak": to_digits(performance + efficient, 2),
    }


def _audited(inputs: Inputs, found: dict[str, Complexity]) -> Iterator[Value]:
    layers, file = {name: item.layers for name, item in found.items()}, inputs.reported_file
    by_kind = audit_by_kind(inputs.reported, layers, inputs.devices)
    checks = tuple(chain.from_iterable(by_kind.values()))
    outside = count_by_verdict(tuple(chain.from_iterable(by_kind[kind] for kind in OUTSIDE)))
    counts = {
        verdict: exact(f"numbers with the verdict {verdict}", "1", number, file)
        for verdict, number in count_by_verdict(checks).items()
    }
    agreeing = counts["agrees"] + counts["rounds"]
    by_factor = sum(check.known is not None for check in checks)
    yield from declared(
        {
            "audited": agreeing + counts["differs"],
            "agreeing": agreeing,
            "beside": counts["differs"] - outside["differs"],
            "outside": exact("numbers that contradict shapes or sheets", "1", outside["differs"]),
            "factored": exact("numbers off by a known factor", "1", by_factor, file),
            "cpu_images": _printed(inputs, "cpu_throughput"),
            "over_cpu": _printed(inputs, "rtx_over_cpu"),
        }
    )
    lowest = at_most(*(_tabled(inputs, name) for name in (RTX, T4)))
    low = {"lowest_printed": _printed(inputs, "efficiency_low", 0.01), "lowest_tabled": lowest}
    yield from declared(low, "percent")
    ratios = rate_ratios(inputs)
    ends = {"rate_lowest": at_most(*ratios), "rate_highest": at_least(*ratios)}
    yield from declared({id_: to_digits(each, 3) for id_, each in ends.items()}, "percent")


def _tabled(inputs: Inputs, device: str) -> Quantity:
    """The lowest efficiency that the source's table prints of a device."""
    printed = efficiencies(inputs.reported, device)
    return at_most(*(as_printed(each, "1", inputs.reported_file, 0.01) for each in printed))


def _efficiencies(inputs: Inputs, found: dict[str, Complexity]) -> Iterator[Value]:
    cases = corrected(inputs, found)
    by_print, by_images, _, chip, matched, heavy, small, alone = corrections(inputs, cases)
    steady = [c for c in cases if c.device != CPU and not collapsed(c, cases)]
    none = Missing("no case was printed for both GPUs")
    light = {c.device: c for c in steady if c.network == LIGHT}
    heaviest = max(
        (c for c in steady if (c.device, c.network) == (RTX, HEAVY)),
        key=lambda c: known(point(c.of_bandwidth)),
    )
    shares = {
        "rtx_average": matched.rtx,
        "t4_average": matched.t4,
        "rtx_average_printed": by_print.rtx,
        "t4_average_printed": by_print.t4,
        "nearest_least": chosen(at_most, [case.nearest for case in steady], none),
        "rtx_heavy_bandwidth": _largest(steady, RTX, HEAVY, "of_bandwidth"),
        "rtx_heavy_arithmetic": _largest(steady, RTX, HEAVY, "of_arithmetic"),
        "t4_small": _largest(steady, T4, SMALL, "of_arithmetic"),
        "t4_heavy": _largest(steady, T4, HEAVY, "of_arithmetic"),
        "rtx_light_bandwidth": light[RTX].of_bandwidth,
        "rtx_light_arithmetic": light[RTX].of_arithmetic,
        "rtx_light_wider": _wider(inputs, light[RTX]),
        "rtx_heavy_wider": _wider(inputs, heaviest),
        "t4_light_bandwidth": light[T4].of_bandwidth,
        "t4_light_arithmetic": light[T4].of_arithmetic,
    }
    yield from declared({id_: to_digits(each, 2) for id_, each in shares.items()}, "percent")
    yield from declared(
        {
            "paradox": matched.ratio,
            "paradox_rates": by_images.ratio,
            "paradox_chip": chip.ratio,
            "paradox_heavy": heavy.ratio,
            "paradox_small": small.ratio,
            "paradox_light": alone.ratio,
            "paradox_printed": _printed(inputs, "paradox"),
        }
    )


def _wider(inputs: Inputs, case: Corrected) -> Quantity:
    """The share of the laptop's bandwidth by its bus, which is wider than the printed one."""
    printed = environment(inputs.reported, RTX).number_of("bandwidth")
    bandwidth = as_printed(printed, "B/s", inputs.reported_file, GIGA)
    return case.of_bandwidth * bandwidth / laptop_bandwidth(inputs)


def _largest(cases: Sequence[Corrected], device: str, network: str, what: str) -> Quantity:
    """The largest share of a roof over the cases of a network on a device."""
    own = [
        getattr(case, what) for case in cases if (case.device, case.network) == (device, network)
    ]
    return chosen(at_least, own, Missing("no such case was printed"))


def _collapse(inputs: Inputs, found: dict[str, Complexity]) -> Iterator[Value]:
    seen = source_collapse(inputs)
    none = absent("collapse", "1", "the source prints no throughputs")
    shares = {
        "collapse_share": seen.against_smaller if seen else none,
        "collapse_scatter": seen.scatter if seen else none,
    }
    yield from declared({id_: to_digits(each, 3) for id_, each in shares.items()}, "percent")
    memory = environment(inputs.reported, RTX).number_of("memory")
    yield from declared(
        {
            "collapse_fastest": to_digits(seen.overrun if seen else none, 3),
            "collapse_need": source_need(found[HEAVY], SOURCE_BATCH),
            "rtx_memory": as_printed(memory, "B", inputs.reported_file, GIGA),
        }
    )


def _saturation(inputs: Inputs) -> Iterator[Value]:
    times, curve = source_times(inputs), partial(source_fit, inputs)
    at_half = half(times, curve)
    yield from declared({"t4_half": at_half})
    ends = {"t4_at_smallest": 32 / (32 + at_half)}
    yield from declared({id_: to_digits(each, 3) for id_, each in ends.items()}, "percent")
