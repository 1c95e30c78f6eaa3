"""What the source claims, judged again by its own numbers, by theory and by the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from report.evidence.runs import known
from report.missing import Missing
from report.paper.findings import Claim, Inputs
from report.paper.tables import Column, Table
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, exact
from report.quantity.fits import half_saturation
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Statement, all_of, any_of, equals, expect
from report.statistics.estimates import CONFIDENCE
from report.studies.training_roofline.batches import (
    ENOUGH,
    own_batches,
    source_collapse,
    source_fit,
    source_times,
    sweep,
    times,
)
from report.studies.training_roofline.corrected import average, corrected
from report.studies.training_roofline.measured import Repeated, Run, primary_run
from report.studies.training_roofline.memory import source_need
from report.studies.training_roofline.phrases import (
    alone_told,
    counted,
    extremes,
    percent,
    plain,
    share,
    with_interval,
)
from report.studies.training_roofline.profiled import Profile, Side, main_profiles
from report.studies.training_roofline.settings import pairs
from report.studies.training_roofline.source import RTX, T4, environment, rows
from report.studies.training_roofline.subject import HEAVY, LIGHT, NETWORKS, Precision
from report.studies.training_roofline.theory import (
    GIGA,
    SOURCE_BATCH,
    Complexity,
    below,
    known_roof,
)
from report.studies.training_roofline.threads import compared, threads_claim
from report.text.format import NO_BREAK
from report.theory.roofline import at_batch
from report.theory.work import flops

#: Numbers that differ by less than this share are equivalent.
ALIKE: Final = 0.1
_CEILINGS: Final[tuple[Side, Side]] = ("arithmetic", "traffic")
#: What autocast mixes with float32; TF32 rounds the inputs of products and mixes nothing.
_MIXED: Final[tuple[Precision, ...]] = ("bfloat16",)
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
    file = judging.inputs.reported_file
    printed = [r.number_of("speedup") for r in rows(judging.inputs.reported, "throughput")]
    seen = [float(speedup.number) for speedup in printed]
    return Claim(
        "hardware",
        "H1: the device with the higher peak is the faster one (source).",
        all_of(*(Statement(each.quantity("1", file), expect("> 1")) for each in printed)).judge(),
        f"the {RTX} is slower than the {T4} in {sum(speedup < 1 for speedup in seen)} of "
        f"{len(seen)} printed cases; in the "
        f"others it is {plain(min(s for s in seen if s > 1))} to {plain(max(seen))} times as "
        "fast, where the printed peaks differ by "
        f"{plain(_peak(judging, RTX) / _peak(judging, T4))} times",
    )


def _peak(judging: Judging, name: str) -> float:
    return float(environment(judging.inputs.reported, name).number_of("peak").number)


def _devices(judging: Judging) -> list[Claim]:
    """Our GPU over our CPU with the most threads, where both trained the same step."""
    gpu = next((run for run in judging.runs if run.on_gpu), None)
    cpu = primary_run([run for run in judging.runs if not run.on_gpu])
    if gpu is None or cpu is None:
        return []
    both = [s for s in cpu.timed(cpu.steps) if s == s.plain and s in gpu.timed(gpu.steps)]
    gains = {step: gpu.images(step) / cpu.images(step) for step in both}
    return [
        Claim(
            "gpu-over-cpu",
            f"H1: a GPU trains faster than a processor ({gpu.label}, {cpu.label}).",
            all_of(*(Repeated(gain, expect("> 1")) for gain in gains.values())).judge(),
            counted(gains.values()) + extremes(gains) if gains else "no step was trained on both",
        )
    ]


# --------------------------------------------------------------------------------------- work


def _counted_once(judging: Judging) -> Claim:
    printed = rows(judging.inputs.reported, "complexity")
    first = printed[0].number_of("forward").number
    sentence = (
        f"{printed[0].text('network')} takes {first} billion FLOPs an image, and the others "
        "accordingly (source)."
    )
    ratios = [
        exact("forward pass", "FLOP", flops(judging.complexities[item.text("network")].macs))
        / item.number_of("forward").quantity("FLOP", judging.inputs.reported_file, GIGA)
        for item in printed
    ]
    return Claim(
        "counted-once",
        sentence,
        all_of(*(Statement(ratio, equals(1, within=ALIKE)) for ratio in ratios)).judge(),
        f"the shapes give {plain(known(point(at_most(*ratios))))} to "
        f"{plain(known(point(at_least(*ratios))))} times as many operations: "
        "what is printed are multiply-adds, of two operations each",
    )


# -------------------------------------------------------------------------------- memory bound


def _memory_bound_in_theory(judging: Judging) -> Claim:
    sentence = "All networks are compute-bound, MobileNetV2 too (source, against its H2)."
    roof, of = known_roof(judging.inputs, T4), judging.complexities
    if isinstance(roof, Missing):
        return Claim("compute-bound", sentence, "not measured", roof.reason)
    ridge = roof.ridge.value
    heavy, light = (
        known(point(below(at_batch(of[n].layers, SOURCE_BATCH), ridge))) for n in (HEAVY, LIGHT)
    )
    over = [exact(n, "1", of[n].layerwise().intensity / ridge) for n in of]
    return Claim(
        "compute-bound",
        sentence,
        all_of(*(Statement(each, expect("> 1")) for each in over)).judge(),
        f"layer by layer {LIGHT} has {plain(of[LIGHT].layerwise().intensity)} FLOP/B, below the "
        f"{T4}'s ridge point of "
        f"{plain(ridge)}; {percent(light)} of its traffic and {percent(heavy)} "
        f"of that of {HEAVY} belong to layers below it",
    )


def _memory_bound(run: Run) -> Claim:
    """By measurement: each network's time in layers near one ceiling or the other."""
    id_ = f"memory-bound-{run.key}"
    sentence = f"H2: {HEAVY} is limited by arithmetic, {LIGHT} by memory ({run.label})."
    found = {p.step.network: p for p in main_profiles(run)}
    if not {HEAVY, LIGHT} <= set(found) or isinstance(found[HEAVY].roof, Missing):
        return Claim(id_, sentence, "not measured", "no step of both was watched layer by layer")
    slowed = next((p.disturbed for n in (HEAVY, LIGHT) if (p := found[n]).disturbed), None)
    if slowed:
        return Claim(id_, sentence, "not measured", slowed.reason)
    sides: tuple[tuple[str, Side], ...] = ((HEAVY, "arithmetic"), (LIGHT, "traffic"))
    shares = [found[n].possible_shares(s) for n, s in sides]
    return Claim(
        id_,
        sentence,
        all_of(*(Statement(each, expect("> 0.5")) for each in shares)).judge(),
        "; ".join(_near_told(found[n]) for n in (HEAVY, LIGHT)),
    )


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


# ---------------------------------------------------------------------------------- saturation


def _diminishing_reported(judging: Judging) -> Claim:
    found, half = source_fit(judging.inputs), half_saturation(source_times(judging.inputs))
    sentence = f"H3: larger batches help, with diminishing returns ({HEAVY} on the {T4}, source)."
    told = f"the fitted curve has half of its limit at batch {with_interval(half)}"
    if not isinstance(found, Missing):
        told += f", {percent(found.share(64))} of it at batch 64"
        reach = found.batch_for(ENOUGH)
        if not isinstance(reach, Missing):
            told += f", and {percent(ENOUGH)} at batch {max(1, round(reach))}"
    return Claim("diminishing-source", sentence, Statement(half, expect("> 0")).judge(), told)


def _diminishing(run: Run) -> Claim:
    """A curve whose half is above 0 rises, and ever less."""
    every = {n: half_saturation(times(run, n)) for n in NETWORKS if sweep(run, n)}
    halves = {network: half for network, half in every.items() if not half.missing}
    reasons = [half.missing.reason for half in every.values() if half.missing]
    return Claim(
        f"diminishing-{run.key}",
        f"H3: larger batches help, with diminishing returns ({run.label}).",
        all_of(*(Repeated(half, expect("> 0")) for half in halves.values())).judge(),
        "; ".join(f"{n}: half of its limit at batch {with_interval(h)}" for n, h in halves.items())
        + alone_told(halves.values())
        or next(iter(reasons), "no batch sizes were measured"),
    )


# --------------------------------------------------------------------------------- efficiency


def _paradox(judging: Judging) -> Claim:
    times_ = float(judging.inputs.reported.value("paradox").number)
    cases = corrected(judging.inputs, judging.complexities)
    t4, rtx = (average(cases, name) for name in (T4, RTX))
    ratio, margin = t4 / rtx, ALIKE * times_
    because = (
        "a peak is not known"
        if ratio.missing
        else f"over the known peaks and without the collapsed case it is {_percent(t4)} against "
        f"{_percent(rtx)}, {plain(known(point(ratio)))} times as much"
    )
    return Claim(
        "paradox",
        f"The {T4} uses its peak {plain(times_)} times as well as the {RTX} (source).",
        Statement(ratio, equals(times_, within=margin)).judge(),
        because,
    )


def _percent(quantity: Quantity) -> str:
    return percent(known(point(quantity)))


def _collapse(judging: Judging) -> Claim:
    found = source_collapse(judging.inputs)
    sentence = f"{HEAVY} at batch 128 on the {RTX} is an anomaly (source)."
    if found is None:
        return Claim("collapse", sentence, "not measured", "the source prints no throughputs")
    return Claim(
        "collapse",
        sentence,
        found.collapse.judge(),
        f"images a second fall to {_percent(found.against_smaller)} of those at a smaller batch, "
        f"and an iteration scatters by {percent(found.spread.relative)} of the mean",
    )


def _throttling(judging: Judging) -> Claim:
    """Throttling up and down would leave some iterations at full speed; no clock was printed."""
    found = source_collapse(judging.inputs)
    sentence = "The collapse comes from thermal throttling up and down (source)."
    if found is None:
        return Claim("throttling", sentence, "not measured", "not printed")
    need = known(point(source_need(judging.complexities[HEAVY], SOURCE_BATCH))) / 1e9
    memory = environment(judging.inputs.reported, RTX).number_of("memory").number
    return Claim(
        "throttling",
        sentence,
        "not measured",
        "no clock was printed; even the fastest iteration takes "
        f"{plain(known(point(found.overrun)))} times as long as "
        "the line through the "
        "smaller batches gives, so that none ran at full speed; tensors alone "
        f"need {plain(need)} GB of the {memory} GB, before any workspace, so that a lack of "
        "memory is the likelier cause",
    )


def _no_collapse(run: Run) -> Claim:
    found = [batch for n in NETWORKS for batch in own_batches(run, n)]
    compared = [batch for batch in found if not batch.against_smaller.missing]
    falls, unsteady = sum(b.falls for b in found), sum(b.spread.unsteady for b in found)
    level = min((b.level for b in compared), default=CONFIDENCE)
    return Claim(
        f"collapse-{run.key}",
        f"A large batch collapses as the source's did ({run.label}).",
        any_of(*(batch.collapse for batch in compared)).judge(),
        f"of {len(found)} batches {falls} are slower, image by image, than a smaller batch, the "
        f"steps of {unsteady} are unsteady, and {sum(b.anomalous for b in found)} are both (each "
        f"at {100 * level:.0f}{NO_BREAK}%)" + alone_told(b.against_smaller for b in compared)
        if compared
        else "no two batch sizes of a network were timed",
    )


def _shorter_types(run: Run) -> Claim:
    gains = {
        new: gain
        for base, new in pairs(run)
        if new.precision in _MIXED and not (gain := run.speedup(base, new)).missing
    }
    return Claim(
        f"shorter-{run.key}",
        f"Mixed precision makes every step faster ({run.label}; the source left it untested).",
        all_of(*(Repeated(gain, expect("> 1")) for gain in gains.values())).judge(),
        counted(gains.values()) + extremes(gains) if gains else "no shorter type was timed",
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
