"""What the source claims, judged again by its own numbers, by theory and by the runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from report.missing import Missing
from report.paper.findings import Claim, Inputs
from report.paper.tables import Column, Table
from report.quantity.verdicts import Verdict
from report.statistics.estimates import Estimate
from report.statistics.saturation import Saturation
from report.studies.training_roofline.batches import (
    ENOUGH,
    fit,
    own_batches,
    source_collapse,
    source_fit,
    sweep,
)
from report.studies.training_roofline.corrected import average, corrected
from report.studies.training_roofline.measured import Run, primary_run
from report.studies.training_roofline.memory import source_need
from report.studies.training_roofline.phrases import (
    against,
    percent,
    plain,
    share,
    value,
    with_interval,
)
from report.studies.training_roofline.profiled import Profile, Side, main_profiles
from report.studies.training_roofline.settings import pairs
from report.studies.training_roofline.source import RTX, T4, environment, rows
from report.studies.training_roofline.subject import HEAVY, LIGHT, NETWORKS, Step
from report.studies.training_roofline.theory import (
    SOURCE_BATCH,
    Complexity,
    below,
    known_roof,
)
from report.studies.training_roofline.threads import compared, threads_claim
from report.theory.roofline import at_batch

#: From here on one device uses its peak much better than another.
MUCH: Final = 2.0
_CEILINGS: Final[tuple[Side, Side]] = ("arithmetic", "traffic")
UNMEASURED: Final = "no run of this experiment is in the data directory"


@dataclass(frozen=True)
class Judging:
    """What claims are judged by."""

    inputs: Inputs
    runs: Sequence[Run]
    complexities: dict[str, Complexity]


def all_claims(judging: Judging) -> tuple[Claim, ...]:
    """Every claim of the source that numbers can decide."""
    return (
        _hardware(judging),
        *(_devices(judging)),
        *threads_claim(compared(judging.runs, primary_run(judging.runs))),
        _counted_once(judging),
        _memory_bound_in_theory(judging),
        *(_memory_bound(run) for run in judging.runs),
        _diminishing_reported(judging),
        *(_diminishing(run) for run in judging.runs),
        _paradox(judging),
        _collapse(judging),
        _throttling(judging),
        *(_no_collapse(run) for run in judging.runs),
        *(_shorter_types(run) for run in judging.runs),
        *([] if judging.runs else [_unmeasured()]),
    )


# ---------------------------------------------------------------------------------- hardware


def _hardware(judging: Judging) -> Claim:
    seen = [
        float(r.number_of("speedup").number) for r in rows(judging.inputs.reported, "throughput")
    ]
    slower = sum(speedup < 1 for speedup in seen)
    return Claim(
        "hardware",
        "H1: the device with the higher peak is the faster one (source).",
        "refuted" if slower else "supported",
        f"the {RTX} is slower than the {T4} in {slower} of {len(seen)} printed cases; in the "
        f"others it is {plain(min(s for s in seen if s > 1))} to {plain(max(seen))} times as "
        "fast, where the printed peaks differ by "
        f"{plain(_peak(judging, RTX) / _peak(judging, T4))} times",
    )


def _peak(judging: Judging, name: str) -> float:
    return float(environment(judging.inputs.reported, name).number_of("peak").number)


def _devices(judging: Judging) -> list[Claim]:
    """Our GPU over our CPU, where both trained the same step."""
    gpus = [run for run in judging.runs if run.on_gpu]
    cpus = [run for run in judging.runs if not run.on_gpu]
    found = []
    for gpu in gpus[:1]:
        for cpu in cpus[:1]:
            both = [s for s in cpu.timed(cpu.steps) if s == s.plain and s in gpu.timed(gpu.steps)]
            ratios = [value(gpu.images(s)) / value(cpu.images(s)) for s in both]
            told = (
                f"{plain(min(ratios))} to {plain(max(ratios))} times as many images a second in "
                f"{len(ratios)} steps that both trained"
                if ratios
                else "no step was trained on both"
            )
            found.append(
                Claim(
                    "gpu-over-cpu",
                    f"H1: a GPU trains faster than a processor ({gpu.label}, {cpu.label}).",
                    "supported" if ratios and min(ratios) > 1 else "not measured",
                    told,
                )
            )
    return found


# --------------------------------------------------------------------------------------- work


def _counted_once(judging: Judging) -> Claim:
    printed = rows(judging.inputs.reported, "complexity")
    first = printed[0].number_of("forward").number
    sentence = (
        f"{printed[0].text('network')} takes {first} billion FLOPs an image, and the others "
        "accordingly (source)."
    )
    ratios = [
        2
        * judging.complexities[item.text("network")].macs
        / (float(item.number_of("forward").number) * 1e9)
        for item in printed
    ]
    near = all(abs(ratio - 2) < 0.05 for ratio in ratios)
    return Claim(
        "counted-once",
        sentence,
        "refuted" if near else "undecided",
        f"the shapes give {plain(min(ratios))} to {plain(max(ratios))} times as many operations: "
        "what is printed are multiply-adds, of two operations each",
    )


# -------------------------------------------------------------------------------- memory bound


def _memory_bound_in_theory(judging: Judging) -> Claim:
    sentence = "All networks are compute-bound, MobileNetV2 too (source, against its H2)."
    roof, of = known_roof(judging.inputs, T4), judging.complexities
    if isinstance(roof, Missing):
        return Claim("compute-bound", sentence, "not measured", roof.reason)
    ridge = roof.ridge.value
    shares = {n: below(at_batch(of[n].layers, SOURCE_BATCH), ridge) for n in (HEAVY, LIGHT)}
    light = of[LIGHT].layerwise().intensity
    return Claim(
        "compute-bound",
        sentence,
        "refuted" if light < ridge else "undecided",
        f"layer by layer {LIGHT} has {plain(light)} FLOP/B, below the {T4}'s ridge point of "
        f"{plain(ridge)}; {percent(shares[LIGHT])} of its traffic and {percent(shares[HEAVY])} "
        f"of that of {HEAVY} belong to layers below it",
    )


def _memory_bound(run: Run) -> Claim:
    """By measurement: each network's time in layers near one ceiling or the other."""
    id_ = f"memory-bound-{run.key}"
    sentence = f"H2: {HEAVY} is limited by arithmetic, {LIGHT} by memory ({run.label})."
    found = {p.step.network: p for p in main_profiles(run)}
    if not {HEAVY, LIGHT} <= set(found) or isinstance(found[HEAVY].roof, Missing):
        return Claim(id_, sentence, "not measured", "no step of both was watched layer by layer")
    both = tuple(found[n] for n in (HEAVY, LIGHT))
    told = "; ".join(_near_told(profile) for profile in both)
    better = _bound_verdict(*(_sides(p, Profile.side_share) for p in both))
    slower = _bound_verdict(*(_sides(p, Profile.slower_share) for p in both))
    return Claim(id_, sentence, better if better == slower else "undecided", told)


def _near_told(profile: Profile) -> str:
    arithmetic, traffic = (profile.side_share(side) for side in _CEILINGS)
    told = (
        f"{profile.step.network}: {share(arithmetic)} of the layers' time near the ceiling of "
        f"arithmetic, {share(traffic)} near that of copying"
    )
    slower = profile.slower_share("traffic")
    return told + (
        f" ({share(slower)} by the slower of both copies)" if profile.run.copy_moved() else ""
    )


def _bound_verdict(heavy: tuple[float, float], light: tuple[float, float]) -> Verdict:
    """Supported where each network spends most of its time near the ceiling that H2 names."""
    first, second = heavy[0] > 0.5, light[1] > 0.5
    if first and second:
        return "supported"
    # The order may be right where neither comes near its ceiling for most of its time.
    ordered = heavy[0] > light[0] and light[1] > heavy[1]
    return "undecided" if ordered else "refuted"


def _sides(
    profile: Profile, near: Callable[[Profile, Side], Estimate | Missing]
) -> tuple[float, float]:
    arithmetic, traffic = (near(profile, side) for side in _CEILINGS)
    if isinstance(arithmetic, Missing) or isinstance(traffic, Missing):
        return (0.0, 0.0)
    return arithmetic.value, traffic.value


# ---------------------------------------------------------------------------------- saturation


def _diminishing_reported(judging: Judging) -> Claim:
    found = source_fit(judging.inputs)
    sentence = f"H3: larger batches help, with diminishing returns ({HEAVY} on the {T4}, source)."
    return _saturating("diminishing-source", sentence, found, 64)


def _diminishing(run: Run) -> Claim:
    fits = {n: fit(run, n) for n in NETWORKS if sweep(run, n)}
    sentence = f"H3: larger batches help, with diminishing returns ({run.label})."
    there = {n: f for n, f in fits.items() if isinstance(f, Saturation)}
    if not there:
        reasons = [f.reason for f in fits.values() if isinstance(f, Missing)]
        why = reasons[0] if reasons else "no batch sizes were measured"
        return Claim(f"diminishing-{run.key}", sentence, "not measured", why)
    rising = [n for n, f in there.items() if _rises(f)]
    told = "; ".join(f"{n}: half of its limit at batch {_half(f)}" for n, f in there.items())
    verdict: Verdict = "undecided"
    if len(rising) == len(there):
        verdict = "supported"
    elif any(isinstance(f.half, Estimate) and f.half.high <= 0 for f in there.values()):
        verdict = "refuted"
    return Claim(f"diminishing-{run.key}", sentence, verdict, told)


def _saturating(id_: str, sentence: str, found: Saturation | Missing, batch: int) -> Claim:
    if isinstance(found, Missing):
        return Claim(id_, sentence, "not measured", found.reason)
    reach = found.batch_for(ENOUGH)
    told = (
        f"the fitted curve has half of its limit at batch {_half(found)}, "
        f"{percent(found.share(batch))} of it at batch {batch}"
    )
    if not isinstance(reach, Missing):
        told += f", and {percent(ENOUGH)} at batch {max(1, round(reach))}"
    return Claim(id_, sentence, "supported" if _rises(found) else "undecided", told)


def _rises(found: Saturation) -> bool:
    return isinstance(found.half, Estimate) and found.half.low > 0


def _half(found: Saturation) -> str:
    return "unknown" if isinstance(found.half, Missing) else with_interval(found.half)


# --------------------------------------------------------------------------------- efficiency


def _paradox(judging: Judging) -> Claim:
    times = plain(judging.inputs.reported.value("paradox").number)
    sentence = f"The {T4} uses its peak {times} times as well as the {RTX} (source)."
    cases = corrected(judging.inputs, judging.complexities)
    t4, rtx = (average(cases, name, working=True) for name in (T4, RTX))
    if isinstance(t4, Missing) or isinstance(rtx, Missing):
        return Claim("paradox", sentence, "not measured", "a peak is not known")
    ratio = t4 / rtx
    return Claim(
        "paradox",
        sentence,
        "supported" if ratio > MUCH else "refuted",
        f"over the known peaks and without the collapsed case it is {percent(t4)} against "
        f"{percent(rtx)}, {plain(ratio)} times as much",
    )


def _collapse(judging: Judging) -> Claim:
    found = source_collapse(judging.inputs)
    sentence = f"{HEAVY} at batch 128 on the {RTX} is an anomaly (source)."
    if found is None:
        return Claim("collapse", sentence, "not measured", "the source prints no throughputs")
    return Claim(
        "collapse",
        sentence,
        "supported" if found.anomalous else "refuted",
        f"images a second fall to {against(found.against_smaller)} of those at a smaller batch, "
        f"and an iteration scatters by {percent(found.spread.relative)} of the mean",
    )


def _throttling(judging: Judging) -> Claim:
    """Throttling up and down would leave some iterations at full speed."""
    found = source_collapse(judging.inputs)
    sentence = "The collapse comes from thermal throttling up and down (source)."
    over = found.fastest_over_predicted if found else Missing("not printed")
    if isinstance(over, Missing):
        return Claim("throttling", sentence, "not measured", over.reason)
    need = source_need(judging.complexities[HEAVY], SOURCE_BATCH) / 1e9
    memory = environment(judging.inputs.reported, RTX).number_of("memory").number
    told = (
        f"even the fastest iteration takes {plain(over)} times as long as the line through the "
        "smaller batches gives, so that none ran at full speed; tensors alone "
        f"need {plain(need)} GB of the {memory} GB, before any workspace, so that a lack of "
        "memory is the likelier cause"
    )
    return Claim("throttling", sentence, "undecided" if over > 1 else "supported", told)


def _no_collapse(run: Run) -> Claim:
    found = [batch for n in NETWORKS for batch in own_batches(run, n)]
    sentence = f"A large batch collapses as the source's did ({run.label})."
    if all(isinstance(batch.against_smaller, Missing) for batch in found):
        why = "no two batch sizes of a network were timed"
        return Claim(f"collapse-{run.key}", sentence, "not measured", why)
    bad = [b for b in found if b.anomalous]
    falls, unsteady = sum(b.falls for b in found), sum(b.spread.unsteady for b in found)
    told = (
        "; ".join(f"{b.network} at batch {b.batch}" for b in bad)
        if bad
        else f"none of {len(found)} batches both falls and scatters: {falls} are clearly slower, "
        f"image by image, than a smaller batch, and the steps of {unsteady} are unsteady"
    )
    return Claim(f"collapse-{run.key}", sentence, "supported" if bad else "refuted", told)


def _shorter_types(run: Run) -> Claim:
    gains = {
        new: gain
        for base, new in pairs(run)
        if new.precision != "float32" and isinstance(gain := run.speedup(base, new), Estimate)
    }
    sentence = (
        f"Mixed precision makes every step faster ({run.label}; the source left it untested)."
    )
    if not gains:
        return Claim(f"shorter-{run.key}", sentence, "not measured", "no shorter type was timed")
    faster = {step: gain for step, gain in gains.items() if gain.low > 1}
    slower = {step: gain for step, gain in gains.items() if gain.high < 1}
    verdict: Verdict = "undecided"
    if len(faster) == len(gains):
        verdict = "supported"
    elif slower:
        verdict = "refuted"
    told = f"clearly faster in {len(faster)} of {len(gains)} steps"
    told += f", most surely {_surest(faster, 1)}" if faster else ""
    told += f"; clearly slower in {len(slower)}"
    told += f", most surely {_surest(slower, -1)}" if slower else ""
    return Claim(f"shorter-{run.key}", sentence, verdict, told)


def _surest(gains: dict[Step, Estimate], sign: int) -> str:
    """The gain whose interval lies furthest above 1, or below 1 for a negative ``sign``."""
    step = max(gains, key=lambda s: gains[s].low if sign > 0 else -gains[s].high)
    return (
        f"{with_interval(gains[step])} times ({step.network}, {step.image} pixels, {step.setting})"
    )


def _unmeasured() -> Claim:
    return Claim(
        "own-measurement",
        "What the source says of training holds on this study's machines.",
        "not measured",
        UNMEASURED,
    )


def verdict_table(claims: Sequence[Claim]) -> Table:
    """All claims with their verdicts."""
    return Table(
        "tbl-claims",
        "Claims, verdicts, and the numbers that they rest on.",
        (Column("Claim"), Column("Verdict"), Column("Because")),
        tuple((claim.sentence, claim.verdict, claim.because) for claim in claims),
        wide=True,
    )
