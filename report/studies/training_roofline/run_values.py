"""The numbers of training_roofline's prose that come from the run it speaks of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.values import Value
from report.statistics.estimates import Estimate
from report.statistics.saturation import Saturation
from report.studies.training_roofline import ladder
from report.studies.training_roofline.batches import ENOUGH, fit, own_batches, sweep
from report.studies.training_roofline.measured import NO_RECORD, Run
from report.studies.training_roofline.memory import kept_residuals, sweep_memory
from report.studies.training_roofline.profiled import Profile, Side, main_profiles
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
        *_ladders(inputs, run),
        *_memory(inputs, run),
    )


def _none(run: Run | None, what: str) -> Missing:
    return NO_RECORD if run is None else Missing(f"{what} on {run.label}")


def _machine(run: Run | None) -> list[Value]:
    of = maker((run.file,) if run else ())
    steps = run.timed(run.steps) if run else ()
    counts = [run.time(step) for step in steps] if run else []
    samples = [c.n for c in counts if isinstance(c, Estimate)]
    processes = [run.processes(step) for step in steps] if run else []
    none = _none(run, "nothing was timed")
    ceiling = "work / median time"
    made = [
        of("steps_timed", "Cases timed", len(steps) or none, "1", "count"),
        of("samples_timed", "Steps timed", sum(samples) or none, "1", "count"),
        of("fewest_processes", "Fewest processes", min(processes, default=none), "1", "count"),
        *_confidences(run, steps, of),
        *_disturbances(run, steps, of),
        of("copy", "Measured copy", run.ceiling("copy") if run else NO_RECORD, "B/s", ceiling),
        of(
            "slower_copy",
            "The slower of both copies",
            run.slower_copy() if run else NO_RECORD,
            "B/s",
            ceiling,
        ),
        of(
            "copy_drift",
            "Change of the copy over the run",
            _two(run.copy_drift() if run else NO_RECORD),
            "1",
            "after / before − 1",
            "percent",
        ),
        of("ridge", "Measured ridge point, float32", _ridge(run), "FLOP/B", "product / copy"),
    ]
    for precision in _PRECISIONS:
        short = precision.replace("float", "f")
        peak = run.peak(precision) if run else NO_RECORD
        drift = _two(run.drift(precision) if run else NO_RECORD)
        made += [
            of(f"{short}_peak", f"Matrix product in {precision}", peak, "FLOP/s", ceiling),
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
    times = [run.time(step) for step in steps] if run else []
    ratios = [run.speedup(base, new) for base, new in pairs(run)] if run else []
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
    apart = [max(each) / min(each) for each in medians]
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


def _ridge(run: Run | None) -> Finding:
    roof = run.roof() if run else NO_RECORD
    return roof if isinstance(roof, Missing) else roof.ridge


def _speed(run: Run | None) -> list[Value]:
    of = maker((run.file,) if run else ())
    made = []
    for network in NETWORKS:
        word = _WORDS[network]
        step = _best(run, network) if run else None
        made += [
            of(
                f"{word}_best",
                f"Best efficiency of {network} in float32",
                run.efficiency(step) if run and step else _none(run, "not timed"),
                "1",
                "rate / matrix product",
                "percent",
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
    found = {s: e for s in sweep(run, network) if isinstance(e := run.efficiency(s), Estimate)}
    return max(found, key=lambda step: found[step].value, default=None)


def best_efficiency(run: Run, network: str) -> Estimate | None:
    """The efficiency of a network in float32 at its best batch, if it was timed."""
    step = _best(run, network)
    found = run.efficiency(step) if step else None
    return found if isinstance(found, Estimate) else None


def _layers(run: Run | None) -> list[Value]:
    of = maker((run.file,) if run else ())
    found: dict[str, Profile] = {}
    if run is not None:
        found = {p.step.network: p for p in main_profiles(run)}
    made = []
    none = _none(run, "no step was watched layer by layer")
    for network in NETWORKS:
        word, profile = _WORDS[network], found.get(network)
        values: tuple[tuple[str, str, Finding], ...] = (
            ("arithmetic", "near the ceiling of arithmetic", _side(profile, "arithmetic", none)),
            ("traffic_time", "near the ceiling of copying", _side(profile, "traffic", none)),
            ("neither", "near neither", _side(profile, "neither", none)),
            (
                "traffic_slower",
                "near the slower of both copies",
                profile.slower_share("traffic") if profile else none,
            ),
            ("expected", "below the ridge", profile.below_ridge() if profile else none),
            ("convolutions", "in convolutions", profile.convolutions() if profile else none),
            ("inside", "in layers, of the watched step", profile.inside if profile else none),
        )
        made += [
            of(
                f"{word}_{key}",
                f"Time of {network} {what}",
                number,
                "1",
                "median over the watched steps",
                "percent",
            )
            for key, what, number in values
        ]
    slower = [o for p in found.values() if not isinstance(o := p.slowdown(), Missing)]
    first = next(iter(found.values()), None)
    return [
        *made,
        of(
            "watching",
            "Most that a watched step takes of an unwatched one",
            max(slower, key=lambda found: found.value, default=none),
            "1",
            "watched / unwatched",
        ),
        of("watched_batch", "Batch of the watched steps", _of(first, "batch", none), "1", "case"),
        of("watched_image", "Image of the watched steps", _of(first, "image", none), "1", "case"),
    ]


def _of(profile: Profile | None, name: str, none: Missing) -> Finding:
    return int(getattr(profile.step, name)) if profile else none


def _side(profile: Profile | None, side: Side, none: Missing) -> Finding:
    return profile.side_share(side) if profile else none


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
            of(
                f"{word}_half",
                f"Batch for half of the limit, {network}",
                curve.half if curve else none,
                "1",
                formula,
            ),
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
    clear = sum(gain.low > 1 for gain in gains)
    best = max(gains, key=lambda gain: gain.low, default=none)
    product = found.product() if found else none
    return (
        of("thread_product", "Matrix product over that of fewer threads", product, "1", "ratio"),
        of("thread_steps", "Steps timed with fewer threads too", len(gains) or none, "1", "count"),
        of("thread_clear", "Clearly faster of them", clear if gains else none, "1", "count"),
        of("thread_best", "Gain by threads with the highest lower end", best, "1", "ratio"),
    )


def _ladders(inputs: Inputs, run: Run | None) -> list[Value]:
    of = maker((run.file,) if run else ())
    made = []
    none = _none(run, "no ladder was climbed")
    for network in NETWORKS:
        word = _WORDS[network]
        top = ladder.top(run, network) if run else None
        start = ladder.base(run, network) if run else None
        gain: Finding = none
        used: Finding = none
        first: Finding = none
        if run and start:
            first = ladder.utilisation(inputs, run, start)
        if run and top:
            gain = ladder.gain_over_base(run, network, top)
            used = ladder.utilisation(inputs, run, top.step)
        utilisation = "rate / peak"
        made += [
            of(f"{word}_top", f"Best clear rung of {network} over its base", gain, "1", "ratio"),
            of(f"{word}_used", f"Utilisation there, {network}", used, "1", utilisation, "percent"),
            of(f"{word}_start", f"Its base, {network}", first, "1", utilisation, "percent"),
        ]
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
    found = [run.speedup(base, new) for base, new in short] if run else []
    gains = [gain for gain in found if isinstance(gain, Estimate)]
    faster = [gain for gain in gains if gain.low > 1]
    slower = sum(gain.high < 1 for gain in gains)
    best = max(faster, key=lambda gain: gain.low, default=none)
    return [
        of("shorter_steps", "Steps timed in bfloat16 too", len(gains) or none, "1", "count"),
        of("shorter_faster", "Clearly faster", len(faster) if gains else none, "1", "count"),
        of("shorter_slower", "Clearly slower", slower if gains else none, "1", "count"),
        of("shorter_best", "Speed-up by bfloat16 with the highest lower end", best, "1", "ratio"),
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
