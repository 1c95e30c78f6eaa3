"""The numbers of training_roofline's prose that come from the run it speaks of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from report.missing import Missing
from report.paper import Inputs
from report.saturation import Saturation
from report.statistics import Estimate
from report.studies.training_roofline import ladder
from report.studies.training_roofline.batches import ENOUGH, fit, sweep
from report.studies.training_roofline.measured import NO_RECORD, Run
from report.studies.training_roofline.memory import kept_residuals, sweep_memory
from report.studies.training_roofline.profiled import ALL_OTHERS, Profile, Side, main_profiles
from report.studies.training_roofline.settings import pairs
from report.studies.training_roofline.subject import NETWORKS, Precision, Step
from report.studies.training_roofline.values import Finding, maker
from report.values import Value

_WORDS = {"ResNet-18": "small", "ResNet-50": "heavy", "MobileNetV2": "light"}


_PRECISIONS: Final[tuple[Precision, ...]] = ("float32", "bfloat16")


def run_values(inputs: Inputs, run: Run | None) -> tuple[Value, ...]:
    """What one run measured; all of it missing without one."""
    return (
        *_machine(run),
        *_speed(run),
        *_layers(run),
        *_curves(run),
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
        of("steps_timed", "Steps timed", len(steps) or none, "1", "count"),
        of("fewest_samples", "Fewest samples of a step", min(samples, default=none), "1", "count"),
        of("fewest_processes", "Fewest processes", min(processes, default=none), "1", "count"),
        of("copy", "Measured copy", run.ceiling("copy") if run else NO_RECORD, "B/s", ceiling),
        of(
            "copy_drift",
            "Change of the copy over the run",
            run.copy_drift() if run else NO_RECORD,
            "1",
            "after / before − 1",
            "percent",
        ),
        of("ridge", "Measured ridge point, float32", _ridge(run), "FLOP/B", "product / copy"),
    ]
    for precision in _PRECISIONS:
        short = precision.replace("float", "f")
        peak = run.peak(precision) if run else NO_RECORD
        drift = run.drift(precision) if run else NO_RECORD
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


def _layers(run: Run | None) -> list[Value]:
    of = maker((run.file,) if run else ())
    found: dict[str, Profile] = {}
    if run is not None:
        found = {p.step.network: p for p in main_profiles(run)}
    made = []
    none = _none(run, "no step was watched layer by layer")
    for network in NETWORKS:
        word, profile = _WORDS[network], found.get(network)
        shares = profile.drawn_shares() if profile else {}
        convolutions = sum(s for kind, s in shares.items() if kind.endswith("convolution"))
        values: tuple[tuple[str, str, Finding], ...] = (
            ("arithmetic", "near the ceiling of arithmetic", _side(profile, "arithmetic", none)),
            ("traffic_time", "near the ceiling of copying", _side(profile, "traffic", none)),
            ("neither", "near none", _side(profile, "neither", none)),
            ("expected", "below the ridge", profile.below_ridge() if profile else none),
            ("convolutions", "in convolutions", convolutions if profile else none),
            ("rest", "in classes drawn as others", shares.get(ALL_OTHERS, none)),
            ("inside", "in layers, of the watched step", profile.inside if profile else none),
        )
        made += [
            of(
                f"{word}_{key}",
                f"Time of {network} {what}",
                number,
                "1",
                "sum of medians",
                "percent",
            )
            for key, what, number in values
        ]
    overheads = [o for p in found.values() if not isinstance(o := p.overhead(), Missing)]
    first = next(iter(found.values()), None)
    return [
        *made,
        of(
            "watching",
            "Most that watching slows a step down",
            max(overheads, default=none),
            "1",
            "watched / unwatched − 1",
            "percent",
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


def _ladders(inputs: Inputs, run: Run | None) -> list[Value]:
    of = maker((run.file,) if run else ())
    made = []
    none = _none(run, "no ladder was climbed")
    for network in NETWORKS:
        word = _WORDS[network]
        top = ladder.top(run, network) if run else None
        gain: Finding = none
        used: Finding = none
        if run and top:
            gain = ladder.gain_over_base(run, network, top)
            used = ladder.utilisation(inputs, run, top.step)
        made += [
            of(f"{word}_top", f"Best rung of {network} over its base", gain, "1", "ratio"),
            of(
                f"{word}_used",
                f"Utilisation on that rung, {network}",
                used,
                "1",
                "rate / peak",
                "percent",
            ),
        ]
    gains = _shorter(run)
    return [
        *made,
        of("shorter_low", "Least speed-up by bfloat16", min(gains, default=none), "1", "ratio"),
        of("shorter_high", "Largest speed-up by bfloat16", max(gains, default=none), "1", "ratio"),
    ]


def _shorter(run: Run | None) -> list[float]:
    """The speed-ups by bfloat16, of all steps that were timed in both."""
    if run is None:
        return []
    gains = (run.speedup(base, new) for base, new in pairs(run) if new.precision == "bfloat16")
    return [gain.value for gain in gains if isinstance(gain, Estimate)]


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
