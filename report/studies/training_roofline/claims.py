"""What is claimed of training, by the source and by this paper; the template has the words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from report.missing import Missing
from report.paper.claims import judge
from report.paper.findings import Claim, Inputs
from report.quantity.expression import Quantity, absent, exact
from report.quantity.verdicts import (
    Several,
    Statement,
    all_of,
    equals,
    exactly,
    expect,
)
from report.studies.training_roofline.batches import (
    source_collapse,
    source_times,
    sweep,
    times,
)
from report.studies.training_roofline.corrected import Corrected, collapsed, corrected
from report.studies.training_roofline.measured import NO_RECORD, Run
from report.studies.training_roofline.paradox import corrections
from report.studies.training_roofline.profiled import Side, main_profiles
from report.studies.training_roofline.settings import pairs
from report.studies.training_roofline.source import CPU, RTX, T4, rows
from report.studies.training_roofline.subject import HEAVY, LIGHT, NETWORKS, Precision
from report.studies.training_roofline.theory import GIGA, Complexity, known_roof
from report.theory.roofline import Load
from report.theory.work import flops

_Claimed: TypeAlias = Statement | Several
#: Numbers that differ by less than this share are equivalent.
ALIKE: Final = 0.1
#: What autocast mixes with float32; TF32 rounds the inputs of products and mixes nothing.
_MIXED: Final[tuple[Precision, ...]] = ("bfloat16",)
_NOTHING: Final = Statement(absent("case", "1", "no such case was measured"), exactly(1))


def all_claims(
    inputs: Inputs,
    runs: Sequence[Run],
    shown: Sequence[Run],
    complexities: dict[str, Complexity],
) -> Iterator[Claim]:
    """Every claim that numbers can decide; those of runs are judged on each of ``shown``."""
    of_source = {**_of_source(inputs, complexities), **_of_devices(shown)}
    yield from (judge(name, claimed) for name, claimed in of_source.items())
    for run in shown:
        for name, claimed in _of_run(run).items():
            yield judge(f"{name}-{run.key}", claimed, name=name, label=run.label)
    if not runs:
        yield judge("memory-bound", Statement(absent("step", "1", NO_RECORD.reason), exactly(1)))


def _all(found: Iterable[Quantity], claimed: str) -> _Claimed:
    """That all of those quantities that were measured are as claimed."""
    known = [each for each in found if not each.missing]
    return all_of(*(Statement(each, expect(claimed)) for each in known)) if known else _NOTHING


# -------------------------------------------------------------------------------- the source


def _of_source(inputs: Inputs, complexities: dict[str, Complexity]) -> dict[str, _Claimed]:
    """Those that the source's own numbers and theory decide."""
    file, reported = inputs.reported_file, inputs.reported
    cases = corrected(inputs, complexities)
    work = [
        exact("forward pass", "FLOP", flops(complexities[item.text("network")].macs))
        / item.number_of("forward").quantity("FLOP", file, GIGA)
        for item in rows(reported, "complexity")
    ]
    collapse = source_collapse(inputs)
    return {
        "hardware": _every(_gpu_gains(cases), "> 1"),
        "counted-once": all_of(*(Statement(each, equals(1, within=ALIKE)) for each in work)),
        "compute-bound": _compute_bound(inputs, complexities, Complexity.layerwise),
        "compute-bound-cached": _compute_bound(inputs, complexities, Complexity.cached),
        "light-memory": _every(_toward_memory(cases, LIGHT), "> 1"),
        "heavy-arithmetic": _every(_toward_memory(cases, HEAVY), "< 1"),
        "diminishing-source": _diminishing([source_times(inputs)]),
        **_paradox(inputs, cases),
        "collapse-source": collapse.claimed if collapse else _NOTHING,
        "throttling": Statement(absent("clock", "1/s", "no clock was printed"), exactly(0)),
    }


def _compute_bound(
    inputs: Inputs, complexities: dict[str, Complexity], load: Callable[[Complexity], Load]
) -> _Claimed:
    """Intensity by a model of traffic over the ridge point of the weaker GPU, for each network."""
    roof = known_roof(inputs, T4)
    if isinstance(roof, Missing):
        return Statement(absent("ridge point", "1", roof.reason), expect("> 1"))
    ridge = roof.ridge.value
    over = [exact(n, "1", load(of).intensity / ridge) for n, of in complexities.items()]
    return all_of(*(Statement(each, expect("> 1")) for each in over))


def _every(quantities: Iterable[Quantity], claimed: str) -> _Claimed:
    """That all of those quantities are as claimed."""
    return all_of(*(Statement(each, expect(claimed)) for each in quantities))


def _gpu_gains(cases: Sequence[Corrected]) -> list[Quantity]:
    """Images a second of the laptop's GPU over those of the T4, without collapsed cases."""
    steady = [case for case in cases if not collapsed(case, cases)]
    slow = {(c.network, c.batch): c for c in steady if c.device == T4}
    fast = [c for c in steady if c.device == RTX and (c.network, c.batch) in slow]
    return [case.images / slow[case.network, case.batch].images for case in fast]


def _toward_memory(cases: Sequence[Corrected], network: str) -> list[Quantity]:
    """How much nearer the roof of memory is, on GPUs at the batches that collapsed on neither."""
    own = [c for c in cases if c.device != CPU and c.network == network]
    fell = {case.batch for case in own if collapsed(case, cases)}
    return [case.toward_memory for case in own if case.batch not in fell]


def _paradox(inputs: Inputs, cases: Sequence[Corrected]) -> dict[str, _Claimed]:
    """The efficiency of the weaker GPU over that of the other, beside the printed ratio."""
    printed = float(inputs.reported.value("paradox").number)
    *_, matched, heavy, small, light = corrections(inputs, cases)
    return {
        "paradox": Statement(matched.ratio, equals(printed, within=ALIKE * printed)),
        "paradox-left": Statement(heavy.ratio, expect("> 1")),
        "paradox-others": all_of(*(Statement(o.ratio, expect("> 1")) for o in (small, light))),
    }


# ------------------------------------------------------------------------------------- the runs


def _of_devices(runs: Sequence[Run]) -> dict[str, _Claimed]:
    """Our GPU over the processor of the prose, where both trained the same step."""
    gpu = next((run for run in runs if run.on_gpu), None)
    cpu = next((run for run in runs if not run.on_gpu), None)
    if gpu is None or cpu is None:
        return {}
    both = [s for s in cpu.timed(cpu.steps) if s == s.plain and s in gpu.timed(gpu.steps)]
    return {"gpu-over-cpu": _all((gpu.images(s) / cpu.images(s) for s in both), "> 1")}


def _of_run(run: Run) -> dict[str, _Claimed]:
    """What the source says, asked of a device of our own."""
    sweeps = [times(run, network) for network in NETWORKS if sweep(run, network)]
    mixed = (run.speedup(base, new) for base, new in pairs(run) if new.precision in _MIXED)
    return {
        "memory-bound": _memory_bound(run),
        "diminishing": _diminishing(sweeps),
        "shorter": _all(mixed, "> 1"),
    }


def _diminishing(sweeps: Iterable[Mapping[int, Quantity]]) -> _Claimed:
    """That every larger batch trains more images a second, and an image more adds ever less.

    ``sweeps`` are times of a step (s) over batch sizes; those of fewer than three say nothing.
    """
    gains: list[Quantity] = []
    for each in sweeps:
        rates = [(batch, batch / time) for batch, time in each.items() if not time.missing]
        if len(rates) < 3:
            continue
        # Where the last of falling gains is above zero, all are.
        added = [(new - old) / (b - a) for (a, old), (b, new) in pairwise(rates)]
        gains += [added[-1], *(first - second for first, second in pairwise(added))]
    return all_of(*(Statement(gain, expect("> 0")) for gain in gains)) if gains else _NOTHING


def _memory_bound(run: Run) -> _Claimed:
    """Each network's time in layers near one ceiling or the other."""
    found = {p.step.network: p for p in main_profiles(run)}
    if not {HEAVY, LIGHT} <= set(found) or isinstance(found[HEAVY].roof, Missing):
        return _NOTHING
    slowed = next((p.disturbed for n in (HEAVY, LIGHT) if (p := found[n]).disturbed), None)
    if slowed:
        return Statement(absent("time of the layers", "1", slowed.reason), expect("> 0.5"))
    sides: tuple[tuple[str, Side], ...] = ((HEAVY, "arithmetic"), (LIGHT, "traffic"))
    shares = [found[n].possible_shares(side) for n, side in sides]
    return all_of(*(Statement(each, expect("> 0.5")) for each in shares))
