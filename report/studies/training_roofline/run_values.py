"""The numbers of training_roofline's prose that come from the run it speaks of."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

from report.evidence.remembered import known
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.values import Value
from report.quantity.evaluation import point, to_digits
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_least, at_most, furthest_from_zero
from report.studies.training_roofline import ladder
from report.studies.training_roofline.batches import (
    by_doubling,
    sweep,
)
from report.studies.training_roofline.declared import (
    WORDS,
    chosen,
    declared,
    fixed,
    found_in,
    median,
)
from report.studies.training_roofline.measured import NO_RECORD, Run
from report.studies.training_roofline.memory import kept_residuals, peak_ratios, residuals
from report.studies.training_roofline.profiled import (
    NEAR,
    THRESHOLDS,
    LayerTime,
    Profile,
    Side,
    end_of_share,
    main_profiles,
)
from report.studies.training_roofline.subject import HEAVY, LIGHT, NETWORKS, Step
from report.theory.roofline import DEPTHWISE

#: How near some layers of a profile come to a roof, as a share of it.
Near: TypeAlias = Callable[[Profile, Sequence[LayerTime]], Quantity]


def run_values(inputs: Inputs, run: Run | None) -> Iterator[Value]:
    """What one run measured; nothing without one."""
    if run is None:
        return
    yield from _machine(run)
    yield from declared(_disturbances(run))
    yield from _speed(run)
    yield from _layers(run)
    yield from declared(_caches(run))
    yield from _ladders(run)
    yield from declared(by_doubling(run))
    yield from _memory(inputs, run)


def _none(run: Run, what: str) -> Missing:
    return Missing(f"{what} on {run.label}")


def _each(name: str, numbers: Sequence[float], run: Run) -> list[Quantity]:
    return [exact(name, "1", number, run.file) for number in numbers]


def _machine(run: Run) -> Iterator[Value]:
    ceilings: dict[str, Callable[[Run], Quantity]] = {
        "copy": Run.copy,
        "slower_copy": Run.slower_copy,
        "ridge": lambda run: run.peak("float32") / run.copy(),
        "f32_peak": partial(Run.peak, precision="float32"),
        "bf16_peak": partial(Run.peak, precision="bfloat16"),
        "swept_image": swept_image,
    }
    yield from declared(found_in(run, ceilings, NO_RECORD))


def swept_image(run: Run) -> Quantity:
    """The pixels a side at which the batch is varied."""
    found = next((sweep(run, n)[0].image for n in NETWORKS if sweep(run, n)), None)
    none = _none(run, "no batch was varied")
    return fixed("pixels a side, batch varied", none if found is None else found, "1", run.file)


def _caches(run: Run) -> dict[str, Quantity]:
    """The bandwidth of each cache, and what lies above the roofs; nothing in older records."""
    if run is None or not run.cache_roofs():
        return {}
    rates, watched = run.cache_rates(), main_profiles(run)
    shares = [point(run.rate(s) / run.peak(s.precision)) for s in run.timed(run.steps)]
    counts = {
        "steps_above": sum(not isinstance(share, Missing) and share > 1 for share in shares),
        "layers_above": sum(len(p.above_peak()) for p in watched),
        "layers_above_memory": sum(len(p.above_memory()) for p in watched),
        "layers_above_caches": sum(len(p.above_caches()) for p in watched),
    }
    return {
        **{f"bandwidth_{name}": rates[name] for name in run.cache_roofs()},
        **{id_: fixed(id_.replace("_", " "), n, "1", run.file) for id_, n in counts.items()},
    }


def reduced_is_slower(run: Run) -> bool:
    """Whether the ceiling of arithmetic in bfloat16 lies below that in float32."""
    share = point(run.peak("bfloat16") / run.peak("float32"))
    return isinstance(share, float) and share < 1


def _medians(run: Run) -> dict[Step, list[float]]:
    """The medians (s) of the processes of every step that several timed."""
    found = {
        step: [statistics.median(p.samples) for p in known(run.by_process("time", step.factors))]
        for step in run.timed(run.steps)
    }
    return {step: medians for step, medians in found.items() if len(medians) > 1}


def _disturbances(run: Run) -> dict[str, Quantity]:
    """How far processes of one case differ: usually, and at worst."""
    further = tuple(other.file for other in run.stored.others)
    none = _none(run, "no step was timed by several processes")
    apart = [
        exact("slowest process", "s", max(medians), run.file, further)
        / exact("fastest process", "s", min(medians), run.file, further)
        for medians in _medians(run).values()
    ]
    return {
        "processes_apart": to_digits(chosen(at_least, apart, none), 2),
        "processes_usually": to_digits(chosen(median, apart, none), 3),
    }


def _speed(run: Run) -> Iterator[Value]:
    for network in NETWORKS:
        word = WORDS[network]
        getter = {f"{word}_best": partial(best_efficiency, network=network)}
        yield from declared(found_in(run, getter, NO_RECORD), "percent")


def _best(run: Run, network: str) -> Step | None:
    found = {step: point(run.efficiency(step)) for step in sweep(run, network)}
    there = {step: share for step, share in found.items() if isinstance(share, float)}
    return max(there, key=lambda step: there[step], default=None)


def best_efficiency(run: Run, network: str) -> Quantity:
    """The efficiency of a network in float32 at its best batch."""
    step = _best(run, network)
    none = absent("efficiency", "1", f"not timed on {run.label}")
    return none if step is None else run.efficiency(step)


def _layers(run: Run) -> Iterator[Value]:
    found = {p.step.network: p for p in main_profiles(run)} if run else {}
    none = _none(run, "no step was watched layer by layer")
    for network in NETWORKS:
        getters = {f"{WORDS[network]}_{key}": get for key, get in _PROFILED.items()}
        yield from declared(found_in(found.get(network), getters, none), "percent")
    for network, side in _ENDS.items():
        getters = _ends(f"{WORDS[network]}_{side}", side)
        yield from declared(found_in(found.get(network), getters, none), "percent")
    if light := found.get(LIGHT):
        yield from declared(_by_kind(light), "percent")
    first = next(iter(found.values()), None)
    watched: dict[str, Callable[[Profile], Quantity]] = {
        "watched_batch": lambda p: exact(
            "batch of the profiled step", "1", p.step.batch, p.run.file
        ),
        "watched_image": lambda p: exact(
            "image of the profiled step", "1", p.step.image, p.run.file
        ),
    }
    yield from declared(found_in(first, watched, none))
    yield from declared(_watched(run))


def _watched(run: Run) -> dict[str, Quantity]:
    """How many steps of each network were watched in float32, and in how many processes."""
    found, none = main_profiles(run), _none(run, "no step was watched layer by layer")
    steps = _each("profiled steps", [sum(map(len, p.whole)) for p in found], run)
    processes = _each("profiling processes", [len(p.whole) for p in found], run)
    return {
        f"watched_{name}_{end}": chosen(choose, each, none)
        for name, each in (("steps", steps), ("processes", processes))
        for end, choose in (("least", at_most), ("most", at_least))
    }


_PROFILED: Final[dict[str, Callable[[Profile], Quantity]]] = {
    "expected": lambda profile: to_digits(profile.below_ridge(), 2),
    "convolutions": lambda profile: to_digits(profile.convolutions(), 2),
    "inside": lambda profile: to_digits(profile.inside, 2),
    "arithmetic": lambda profile: to_digits(profile.side_share("arithmetic"), 2),
    "traffic_time": lambda profile: to_digits(profile.side_share("traffic"), 2),
}
#: Near which ceiling a network's time is printed, with the ends over the steps.
_ENDS: Final[dict[str, Side]] = {HEAVY: "arithmetic", LIGHT: "neither"}


def _ends(id_: str, side: Side) -> dict[str, Callable[[Profile], Quantity]]:
    return {
        f"{id_}{suffix}_{end}": partial(end_of_share, side=side, choose=choose, least=least)
        for suffix, least in (("", NEAR), ("_wide", THRESHOLDS[0]))
        for end, choose in (("low", min), ("high", max))
    }


def _pointwise(item: LayerTime) -> bool:
    return item.kind == "1 × 1 convolution"


def _depthwise(item: LayerTime) -> bool:
    return item.kind == DEPTHWISE


def _without_products(item: LayerTime) -> bool:
    return not item.load.flops


#: Where the time of the light network goes, and how near each kind of layer comes to its roof.
_KINDS: Final[dict[str, tuple[Callable[[LayerTime], bool], Near]]] = {
    "pointwise": (_pointwise, Profile.arithmetic_share),
    "depthwise": (_depthwise, Profile.bandwidth_share),
    "without": (_without_products, Profile.bandwidth_share),
}


def _by_kind(profile: Profile) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    for name, (of, near) in _KINDS.items():
        items = [item for item in profile.layers if of(item)]
        none = absent(f"layers of the kind {name}", "1", "the network has none")
        found[f"light_{name}"] = to_digits(profile.share(of, f"share of time, {name}"), 2)
        found[f"light_{name}_near"] = to_digits(near(profile, items) if items else none, 2)
    return found


def _ladders(run: Run) -> Iterator[Value]:
    """The gain of every rung over the one below."""
    for network in NETWORKS:
        for rung in ladder.ladder(run, network):
            if rung.below:
                gain = run.speedup(rung.below, rung.step)
                yield from declared({ladder.gain_id(network, rung): gain})


def _memory(inputs: Inputs, run: Run) -> Iterator[Value]:
    none = _none(run, "no memory was measured")
    between, kept, peaks = (
        (residuals(run), kept_residuals(inputs, run), peak_ratios(run)) if run else ((), (), ())
    )
    cases = fixed("steps whose memory was measured", len(between) or none, "1", run.file)
    yield from declared(
        {
            "memory_cases": cases,
            "peak_low": chosen(at_most, peaks, none),
            "peak_high": chosen(at_least, peaks, none),
        }
    )
    furthest = {"residual_between": between, "residual_kept": kept}
    yield from declared(
        {id_: chosen(furthest_from_zero, each, none, "B") for id_, each in furthest.items()},
        "exact",
    )
