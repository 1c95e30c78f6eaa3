"""The numbers of training_roofline's prose that come from the run it speaks of."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from report.evidence.remembered import known
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.values import Value
from report.quantity.evaluation import estimate, point, to_digits
from report.quantity.expression import Quantity, absent, exact, named
from report.quantity.fits import half_saturation
from report.quantity.operations import at_least, at_most, furthest_from_zero
from report.quantity.verdicts import faster, slower
from report.statistics.estimates import Estimate
from report.studies.training_roofline import ladder
from report.studies.training_roofline.batches import ENOUGH, fit, limit, own_batches, sweep, times
from report.studies.training_roofline.declared import (
    WORDS,
    chosen,
    declared,
    fixed,
    found_in,
    how_many,
    median,
    whole,
)
from report.studies.training_roofline.measured import NO_RECORD, Run, surest
from report.studies.training_roofline.memory import kept_residuals, peak_ratios, residuals
from report.studies.training_roofline.profiled import LOOSE, STRICT, Profile, main_profiles
from report.studies.training_roofline.settings import pairs
from report.studies.training_roofline.subject import NETWORKS, Step
from report.studies.training_roofline.threads import Threads


def run_values(inputs: Inputs, run: Run | None) -> Iterator[Value]:
    """What one run measured; all of it missing without one."""
    yield from _machine(run)
    yield from declared(_disturbances(run))
    yield from _speed(run)
    yield from _layers(run)
    yield from declared(_caches(run))
    yield from declared(_curves(run))
    yield from declared(_anomalies(run))
    yield from _ladders(run)
    yield from declared(_shorter(run))
    yield from _memory(inputs, run)


def _none(run: Run | None, what: str) -> Missing:
    return NO_RECORD if run is None else Missing(f"{what} on {run.label}")


def _file(run: Run | None) -> str:
    return run.file if run else ""


def _each(name: str, numbers: Sequence[float], run: Run | None) -> list[Quantity]:
    return [exact(name, "1", number, _file(run)) for number in numbers]


def _machine(run: Run | None) -> Iterator[Value]:
    steps = run.timed(run.steps) if run else ()
    found = [estimate(run.time(step)) for step in steps] if run else []
    samples = sum(each.n for each in found if isinstance(each, Estimate))
    none = _none(run, "nothing was timed")
    processes = [run.processes(step) for step in steps] if run else []
    sizes = [len(part) for parts in _samples(run) for part in parts]
    ratios = [estimate(run.speedup(base, new)) for base, new in pairs(run)] if run else []
    ceilings: dict[str, Callable[[Run], Quantity]] = {
        "copy": Run.copy,
        "slower_copy": Run.slower_copy,
        "ridge": lambda run: run.peak("float32") / run.copy(),
        "f32_peak": partial(Run.peak, precision="float32"),
        "bf16_peak": partial(Run.peak, precision="bfloat16"),
    }
    yield from declared(
        {
            "steps_timed": fixed("timed kinds of step", len(steps) or none, "1", _file(run)),
            "samples_timed": fixed("timed steps", samples or none, "1", _file(run)),
            "fewest_processes": chosen(at_most, _each("processes", processes, run), none),
            "fewest_steps": chosen(at_most, _each("steps of a process", sizes, run), none),
            **found_in(run, ceilings, NO_RECORD),
        }
    )
    rough = {
        "least_confidence": _least_confidence("time", found, run),
        "ratio_confidence": _least_confidence("ratio", ratios, run),
        **found_in(run, _DRIFTS, NO_RECORD),
    }
    yield from declared({id_: to_digits(each, 2) for id_, each in rough.items()}, "percent")


_DRIFTS: Final[dict[str, Callable[[Run], Quantity]]] = {
    "copy_drift": Run.copy_drift,
    "f32_drift": partial(Run.drift, precision="float32"),
    "bf16_drift": partial(Run.drift, precision="bfloat16"),
}


def _caches(run: Run | None) -> dict[str, Quantity]:
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


def _least_confidence(what: str, found: Sequence[Estimate | Missing], run: Run | None) -> Quantity:
    """What the intervals reach where a process had time for few steps alone."""
    levels = [each.confidence for each in found if isinstance(each, Estimate)]
    parts = _each(f"confidence of a {what}", levels, run)
    return chosen(at_most, parts, _none(run, "nothing was timed"))


def _samples(run: Run | None) -> list[list[tuple[float, ...]]]:
    """The samples of every timed step, process by process."""
    if run is None:
        return []
    found = [known(run.by_process("time", step.factors)) for step in run.timed(run.steps)]
    return [[process.samples for process in processes] for processes in found]


def _disturbances(run: Run | None) -> dict[str, Quantity]:
    """How far processes of one case differ, and how much longer than its process a step took."""

    def over(above: str, most: float, below: str, least: float) -> Quantity:
        further = tuple(other.file for other in run.stored.others) if run else ()
        slow = exact(above, "s", most, _file(run), further)
        return slow / exact(below, "s", least, _file(run), further)

    none, there = _none(run, "nothing was timed"), _samples(run)
    medians = [[statistics.median(part) for part in parts] for parts in there]
    apart = [
        over("slowest process", max(m), "fastest process", min(m)) for m in medians if len(m) > 1
    ]
    longest = [
        over("longest step", max(part), "median of its process", statistics.median(part))
        for parts in there
        for part in parts
    ]
    return {
        "processes_apart": to_digits(chosen(at_least, apart, none), 2),
        "processes_usually": to_digits(chosen(median, apart, none), 3),
        "longest_step": to_digits(chosen(at_least, longest, none), 2),
    }


def _speed(run: Run | None) -> Iterator[Value]:
    for network in NETWORKS:
        word = WORDS[network]
        getter = {f"{word}_best": partial(best_efficiency, network=network)}
        yield from declared(found_in(run, getter, NO_RECORD), "percent")
        step = _best(run, network) if run else None
        batch = step.batch if step else _none(run, "not timed")
        name = f"batch of the best efficiency of {network}"
        yield from declared({f"{word}_best_batch": fixed(name, batch, "1", _file(run))})


def _best(run: Run, network: str) -> Step | None:
    found = {step: point(run.efficiency(step)) for step in sweep(run, network)}
    there = {step: share for step, share in found.items() if isinstance(share, float)}
    return max(there, key=lambda step: there[step], default=None)


def best_efficiency(run: Run, network: str) -> Quantity:
    """The efficiency of a network in float32 at its best batch."""
    step = _best(run, network)
    none = absent("efficiency", "1", f"not timed on {run.label}")
    return none if step is None else run.efficiency(step)


def _layers(run: Run | None) -> Iterator[Value]:
    found = {p.step.network: p for p in main_profiles(run)} if run else {}
    none = _none(run, "no step was watched layer by layer")
    for network in NETWORKS:
        getters = {f"{WORDS[network]}_{key}": get for key, get in _PROFILED.items()}
        yield from declared(found_in(found.get(network), getters, none), "percent")
    ratios = {n: at for n, p in found.items() if isinstance(at := point(p.slowdown()), float)}
    most = max(ratios, key=lambda network: ratios[network], default="")
    first = next(iter(found.values()), None)
    watched: dict[str, Callable[[Profile], Quantity]] = {
        "watched_batch": lambda p: exact(
            "batch of the watched step", "1", p.step.batch, p.run.file
        ),
        "watched_image": lambda p: exact(
            "image of the watched step", "1", p.step.image, p.run.file
        ),
    }
    yield from declared(found_in(found.get(most), {"watching": Profile.slowdown}, none))
    yield from declared(found_in(first, watched, none))


_PROFILED: Final[dict[str, Callable[[Profile], Quantity]]] = {
    "arithmetic": lambda profile: profile.side_share("arithmetic"),
    "traffic_time": lambda profile: profile.side_share("traffic"),
    "neither": lambda profile: profile.side_share("neither"),
    "near_loose": lambda profile: profile.near_share(LOOSE),
    "near_strict": lambda profile: profile.near_share(STRICT),
    "traffic_slower": lambda profile: profile.slower_share("traffic"),
    "expected": Profile.below_ridge,
    "convolutions": Profile.convolutions,
    "inside": lambda profile: profile.inside,
}


def _curves(run: Run | None) -> dict[str, Quantity]:
    made: dict[str, Quantity] = {}
    for network in NETWORKS:
        getters = {
            f"{WORDS[network]}_{key}": partial(get, network=network)
            for key, get in (("half", _half), ("limit", _limit), ("enough", _enough))
        }
        made |= found_in(run, getters, NO_RECORD)
    return made


def _half(run: Run, network: str) -> Quantity:
    return half_saturation(times(run, network))


def _limit(run: Run, network: str) -> Quantity:
    return limit(times(run, network), partial(fit, run, network))


def _enough(run: Run, network: str) -> Quantity:
    """The batch size from which the fitted curve gives most of its limit."""
    curve = fit(run, network)
    at_half = curve if isinstance(curve, Missing) else curve.batch_for(0.5)
    fitted = fixed("fitted batch for half the limit", at_half, "1", run.file)
    return whole(fitted * ENOUGH / (1 - exact(f"{ENOUGH:g}", "1", ENOUGH)))


def _anomalies(run: Run | None) -> dict[str, Quantity]:
    found = [b for n in NETWORKS for b in own_batches(run, n)] if run else []
    none = _none(run, "no batch was judged")
    counts = {
        "judged": ("batches judged", len(found)),
        "anomalous": ("anomalies among them", sum(b.anomalous for b in found)),
        "falling": ("batches clearly slower than a smaller one", sum(b.falls for b in found)),
        "unsteady": ("batches with unsteady steps", sum(b.spread.unsteady for b in found)),
    }
    return {
        id_: fixed(name, number if found else none, "1", _file(run))
        for id_, (name, number) in counts.items()
    }


def thread_values(found: Threads | None) -> Iterator[Value]:
    """What more threads of one processor gain."""
    none = Missing("no two runs on one processor differ in their threads")
    name = "speed-up by more threads"
    gains = [named(name, gain) for gain in found.gains.values()] if found else []
    yield from declared(
        {
            **found_in(found, {"thread_product": Threads.product}, none),
            "thread_steps": how_many(gains, _there, "were timed", none),
            "thread_clear": how_many(gains, faster, "are supported to be above 1", none),
            **found_in(surest(gains), {"thread_best": _same}, none),
        }
    )


def _there(quantity: Quantity) -> bool:
    return not quantity.missing


def _same(quantity: Quantity) -> Quantity:
    return quantity


def _ladders(run: Run | None) -> Iterator[Value]:
    none = _none(run, "no ladder was climbed")
    for network in NETWORKS:
        word = WORDS[network]
        top = ladder.top(run, network) if run else None
        start = ladder.base(run, network) if run else None
        climbed = run is not None and bool(ladder.ladder(run, network))
        why = _none(run, f"no rung of {network} is faster than its base") if climbed else none
        gain: Quantity = absent("ladder", "1", why.reason)
        shares = {f"{word}_used": gain, f"{word}_start": gain}
        if run and top:
            gain = ladder.gain_over_base(run, network, top)
            shares[f"{word}_used"] = run.efficiency(top.step)
        if run and start:
            shares[f"{word}_start"] = run.efficiency(start)
        yield from declared({f"{word}_top": gain})
        yield from declared(shares, "percent")
    all_rungs = [(n, r) for n in NETWORKS for r in ladder.ladder(run, n)] if run else []
    rungs = [(n, r, r.below) for n, r in all_rungs if r.below]
    if run:
        yield from declared(
            {ladder.gain_id(n, r): run.speedup(below, r.step) for n, r, below in rungs}
        )
    helped = len(ladder.helping(run)) if run else 0
    counts = {
        "rungs": fixed("rungs above a base", len(rungs) or none, "1", _file(run)),
        "rungs_helping": fixed("rungs that help", helped if rungs else none, "1", _file(run)),
    }
    yield from declared(counts)


def _shorter(run: Run | None) -> dict[str, Quantity]:
    """How often bfloat16 is faster, over all steps that were timed in both."""
    none = _none(run, "no step was timed in bfloat16")
    short = [(b, n) for b, n in pairs(run) if n.precision == "bfloat16"] if run else []
    every = [named("speed-up by bfloat16", run.speedup(b, n)) for b, n in short] if run else []
    gains = list(filter(_there, every))
    best, slow = (
        surest([g for g in gains if faster(g)]),
        _none(run, "no step is faster in bfloat16"),
    )
    return {
        "shorter_steps": how_many(gains, _there, "were timed", none),
        "shorter_faster": how_many(gains, faster, "are supported to be above 1", none),
        "shorter_slower": how_many(gains, slower, "are supported to be below 1", none),
        **found_in(best, {"shorter_best": _same}, slow if gains else none),
    }


def _memory(inputs: Inputs, run: Run | None) -> Iterator[Value]:
    none = _none(run, "no memory was measured")
    between, kept, peaks = (
        (residuals(run), kept_residuals(inputs, run), peak_ratios(run)) if run else ((), (), ())
    )
    cases = fixed("steps whose memory was measured", len(between) or none, "1", _file(run))
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
