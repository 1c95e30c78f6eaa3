"""The numbers of training_roofline's prose that come from the run it speaks of."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Final

from report.missing import Missing
from report.paper.declared import values_of
from report.paper.findings import Inputs
from report.paper.values import Value, declare
from report.quantity.evaluation import estimate, faster, point, slower
from report.quantity.expression import Quantity, absent
from report.quantity.fits import half_saturation
from report.statistics.estimates import Estimate
from report.statistics.saturation import Saturation
from report.studies.training_roofline import ladder
from report.studies.training_roofline.batches import ENOUGH, fit, own_batches, sweep, times
from report.studies.training_roofline.measured import (
    NO_RECORD,
    Run,
    surest,
)
from report.studies.training_roofline.memory import kept_residuals, sweep_memory
from report.studies.training_roofline.profiled import Profile, main_profiles
from report.studies.training_roofline.settings import pairs
from report.studies.training_roofline.subject import NETWORKS, Precision, Step
from report.studies.training_roofline.threads import Threads
from report.studies.training_roofline.values import Finding, maker

_WORDS = {"ResNet-18": "small", "ResNet-50": "heavy", "MobileNetV2": "light"}


_PRECISIONS: Final[tuple[Precision, ...]] = ("float32", "bfloat16")


def run_values(inputs: Inputs, run: Run | None) -> tuple[Value, ...]:
    """What one run measured; all of it missing without one."""
    return (
        *_machine(run),
        *_speed(run),
        *_layers(run),
        *_curves(run),
        *_anomalies(run),
        *_ladders(run),
        *_memory(inputs, run),
    )


def _none(run: Run | None, what: str) -> Missing:
    return NO_RECORD if run is None else Missing(f"{what} on {run.label}")


def _machine(run: Run | None) -> list[Value]:
    of = maker((run.file,) if run else ())
    steps = run.timed(run.steps) if run else ()
    counts = [estimate(run.time(step)) for step in steps] if run else []
    samples = [c.n for c in counts if isinstance(c, Estimate)]
    processes = [run.processes(step) for step in steps] if run else []
    none = _none(run, "nothing was timed")
    made = [
        of("steps_timed", "Cases timed", len(steps) or none, "1", "count"),
        of("samples_timed", "Steps timed", sum(samples) or none, "1", "count"),
        of("fewest_processes", "Fewest processes", min(processes, default=none), "1", "count"),
        *_confidences(run, steps, of),
        *_disturbances(run, steps, of),
        *of_run(run, {"copy": Run.copy, "slower_copy": Run.slower_copy}),
        of(
            "copy_drift",
            "Change of the copy over the run",
            _two(run.copy_drift() if run else NO_RECORD),
            "1",
            "after / before − 1",
            "percent",
        ),
        *of_run(run, {"ridge": lambda run: run.peak("float32") / run.copy()}),
    ]
    for precision in _PRECISIONS:
        short = precision.replace("float", "f")
        drift = _two(run.drift(precision) if run else NO_RECORD)
        made += [
            *of_run(run, {f"{short}_peak": partial(Run.peak, precision=precision)}),
            of(
                f"{short}_drift",
                f"Change of the product in {precision}",
                drift,
                "1",
                "after / before − 1",
                "percent",
            ),
        ]
    return made


def _confidences(run: Run | None, steps: Sequence[Step], of: Callable[..., Value]) -> list[Value]:
    """What the intervals reach where a process had time for few steps alone."""
    none = _none(run, "nothing was timed")
    found = [run.by_process(step) for step in steps] if run else []
    sizes = [len(part) for parts in found if not isinstance(parts, Missing) for part in parts]
    times = [estimate(run.time(step)) for step in steps] if run else []
    ratios = [estimate(run.speedup(base, new)) for base, new in pairs(run)] if run else []
    least, ratio = (
        min((e.confidence for e in some if isinstance(e, Estimate)), default=none)
        for some in (times, ratios)
    )
    return [
        of("fewest_steps", "Fewest steps of a process", min(sizes, default=none), "1", "count"),
        of("least_confidence", "Least confidence of a time", _two(least), "1", "sum", "percent"),
        of("ratio_confidence", "Least confidence of a ratio", _two(ratio), "1", "sum", "percent"),
    ]


def _disturbances(run: Run | None, steps: Sequence[Step], of: Callable[..., Value]) -> list[Value]:
    """How far processes of one case differ, and how much longer than its process a step took."""
    none = _none(run, "nothing was timed")
    found = [run.by_process(step) for step in steps] if run else []
    there = [parts for parts in found if not isinstance(parts, Missing)]
    medians = [[median(part) for part in parts] for parts in there]
    apart = [max(each) / min(each) for each in medians if len(each) > 1]
    longest = [max(part) / median(part) for parts in there for part in parts]
    return [
        of(
            "processes_apart",
            "Slowest over fastest process of a case, at most",
            _two(max(apart, default=none)),
            "1",
            "median / median",
        ),
        of(
            "processes_usually",
            "Slowest over fastest process of a case, median of cases",
            _three(median(apart) if apart else none),
            "1",
            "median / median",
        ),
        of(
            "longest_step",
            "Longest step over the median of its process, at most",
            _two(max(longest, default=none)),
            "1",
            "longest / median",
        ),
    ]


def _two(number: float | Missing) -> float | Missing:
    """To two digits: what depends on single samples does not bear more."""
    return number if isinstance(number, Missing) else float(f"{number:.2g}")


def _three(number: float | Missing) -> float | Missing:
    """To three digits, as a ratio of medians is told."""
    return number if isinstance(number, Missing) else float(f"{number:.3g}")


def of_run(
    run: Run | None, getters: Mapping[str, Callable[[Run], Quantity]], percent: Container[str] = ()
) -> tuple[Value, ...]:
    """Values that are declared by quantities of a run; missing without one."""
    return values_of(run, getters, NO_RECORD, percent)


def _speed(run: Run | None) -> list[Value]:
    of = maker((run.file,) if run else ())
    made: list[Value] = []
    for network in NETWORKS:
        word = _WORDS[network]
        step = _best(run, network) if run else None
        made += [
            *of_run(
                run, {f"{word}_best": partial(best_efficiency, network=network)}, (f"{word}_best",)
            ),
            of(
                f"{word}_best_batch",
                f"Batch of the best efficiency of {network}",
                step.batch if step else _none(run, "not timed"),
                "1",
                "case",
            ),
        ]
    return made


def _best(run: Run, network: str) -> Step | None:
    found = {step: point(run.efficiency(step)) for step in sweep(run, network)}
    there = {step: share for step, share in found.items() if isinstance(share, float)}
    return max(there, key=lambda step: there[step], default=None)


def best_efficiency(run: Run, network: str) -> Quantity:
    """The efficiency of a network in float32 at its best batch."""
    step = _best(run, network)
    none = absent("efficiency", "1", f"not timed on {run.label}")
    return none if step is None else run.efficiency(step)


def _layers(run: Run | None) -> list[Value]:
    of = maker((run.file,) if run else ())
    found = {p.step.network: p for p in main_profiles(run)} if run else {}
    none = _none(run, "no step was watched layer by layer")
    made: list[Value] = []
    for network in NETWORKS:
        getters = {f"{_WORDS[network]}_{key}": get for key, get in _PROFILED.items()}
        made += values_of(found.get(network), getters, none, getters)
    ratios = {n: at for n, p in found.items() if isinstance(at := point(p.slowdown()), float)}
    most = max(ratios, key=lambda network: ratios[network], default="")
    first = next(iter(found.values()), None)
    return [
        *made,
        *values_of(found.get(most), {"watching": Profile.slowdown}, none),
        of("watched_batch", "Batch of the watched steps", _of(first, "batch", none), "1", "case"),
        of("watched_image", "Image of the watched steps", _of(first, "image", none), "1", "case"),
    ]


_PROFILED: Final[dict[str, Callable[[Profile], Quantity]]] = {
    "arithmetic": lambda profile: profile.side_share("arithmetic"),
    "traffic_time": lambda profile: profile.side_share("traffic"),
    "neither": lambda profile: profile.side_share("neither"),
    "traffic_slower": lambda profile: profile.slower_share("traffic"),
    "expected": Profile.below_ridge,
    "convolutions": Profile.convolutions,
    "inside": lambda profile: profile.inside,
}


def _of(profile: Profile | None, name: str, none: Missing) -> Finding:
    return int(getattr(profile.step, name)) if profile else none


def _half(run: Run, network: str) -> Quantity:
    return half_saturation(times(run, network))


def _curves(run: Run | None) -> list[Value]:
    of = maker((run.file,) if run else ())
    formula = "limit · b / (b + half), fitted"
    made = []
    for network in NETWORKS:
        word = _WORDS[network]
        found = fit(run, network) if run else NO_RECORD
        curve = found if isinstance(found, Saturation) else None
        none = found if isinstance(found, Missing) else NO_RECORD
        reach = curve.batch_for(ENOUGH) if curve else none
        made += [
            *of_run(run, {f"{word}_half": partial(_half, network=network)}),
            of(
                f"{word}_limit", f"Limit of {network}", curve.limit if curve else none, "1", formula
            ),
            of(
                f"{word}_enough",
                f"Batch for most of the limit, {network}",
                reach if isinstance(reach, Missing) else max(1, round(reach)),
                "1",
                formula,
            ),
        ]
    return made


def _anomalies(run: Run | None) -> list[Value]:
    of = maker((run.file,) if run else ())
    found = [b for n in NETWORKS for b in own_batches(run, n)] if run else []
    none = _none(run, "no batch was judged")
    names = (
        ("judged", "Batches judged", len(found)),
        ("anomalous", "Anomalies among them", sum(b.anomalous for b in found)),
        ("falling", "Batches clearly slower than a smaller one", sum(b.falls for b in found)),
        ("unsteady", "Batches with unsteady steps", sum(b.spread.unsteady for b in found)),
    )
    return [of(id_, name, n if found else none, "1", "count") for id_, name, n in names]


def thread_values(found: Threads | None) -> tuple[Value, ...]:
    """What more threads of one processor gain."""
    of = maker((found.few.file, found.many.file) if found else ())
    none = Missing("no two runs on one processor differ in their threads")
    gains = list(found.gains.values()) if found else []
    clear = sum(map(faster, gains))
    return (
        *values_of(found, {"thread_product": Threads.product}, none),
        of("thread_steps", "Steps timed with fewer threads too", len(gains) or none, "1", "count"),
        of("thread_clear", "Clearly faster of them", clear if gains else none, "1", "count"),
        *values_of(surest(gains), {"thread_best": _same}, none),
    )


def _same(quantity: Quantity) -> Quantity:
    return quantity


def _ladders(run: Run | None) -> list[Value]:
    of = maker((run.file,) if run else ())
    made: list[Value] = []
    none = _none(run, "no ladder was climbed")
    for network in NETWORKS:
        word = _WORDS[network]
        top = ladder.top(run, network) if run else None
        start = ladder.base(run, network) if run else None
        found: dict[str, Quantity] = {}
        if run and top:
            found[f"{word}_top"] = ladder.gain_over_base(run, network, top)
            found[f"{word}_used"] = run.efficiency(top.step)
        if run and start:
            found[f"{word}_start"] = run.efficiency(start)
        for id_, percent in ((f"{word}_top", ""), (f"{word}_used", "1"), (f"{word}_start", "1")):
            quantity = found.get(id_, absent("ladder", "1", none.reason))
            made.append(declare(id_, quantity, "percent" if percent else None))
    rungs = [r for n in NETWORKS for r in ladder.ladder(run, n) if r.below] if run else []
    helped = len(ladder.helping(run)) if run else 0
    made += [
        of("rungs", "Rungs above a base", len(rungs) or none, "1", "count"),
        of("rungs_helping", "Clearly faster than the rung below", helped or none, "1", "count"),
    ]
    return [*made, *_shorter(run, of)]


def _shorter(run: Run | None, of: Callable[..., Value]) -> list[Value]:
    """How often bfloat16 is clearly faster, over all steps that were timed in both."""
    none = _none(run, "no step was timed in bfloat16")
    short = [(b, n) for b, n in pairs(run) if n.precision == "bfloat16"] if run else []
    gains = [gain for b, n in short if run and not (gain := run.speedup(b, n)).missing]
    clear, slow = sum(map(faster, gains)), sum(map(slower, gains))
    best = surest([gain for gain in gains if faster(gain)])
    return [
        of("shorter_steps", "Steps timed in bfloat16 too", len(gains) or none, "1", "count"),
        of("shorter_faster", "Clearly faster", clear if gains else none, "1", "count"),
        of("shorter_slower", "Clearly slower", slow if gains else none, "1", "count"),
        *values_of(best, {"shorter_best": _same}, none),
    ]


def _memory(inputs: Inputs, run: Run | None) -> list[Value]:
    of = maker((run.file,) if run else ())
    found = sweep_memory(run) if run else ()
    none = _none(run, "no memory was measured")
    between = [m.residual for m in found if not isinstance(m.residual, Missing)]
    peaks = [m.peak / m.theory.before_backward for m in found if not isinstance(m.peak, Missing)]
    kept = kept_residuals(inputs, (run,)) if run else ()
    return [
        of("memory_cases", "Steps whose memory was measured", len(between) or none, "1", "count"),
        _furthest("residual_between", "between steps", between, none, of),
        _furthest("residual_kept", "of what the forward pass keeps", kept, none, of),
        of("peak_low", "Lowest peak over theory", min(peaks, default=none), "1", "peak / theory"),
        of("peak_high", "Highest peak over theory", max(peaks, default=none), "1", "peak / theory"),
    ]


def _furthest(
    id_: str, what: str, found: Sequence[int], none: Missing, of: Callable[..., Value]
) -> Value:
    number: Finding = max(found, key=abs, default=none)
    name = f"Residual {what} furthest from zero"
    return of(id_, name, number, "B", "measured − theory", "exact")
