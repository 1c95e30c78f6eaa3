"""The numbers of inference_memory's prose: of the source, of the run it speaks of, of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from report.missing import Missing
from report.paper import policies as by_policy
from report.paper.declared import values_of
from report.paper.findings import Inputs
from report.paper.values import Value, exact
from report.quantity.expression import Quantity, absent, recorded
from report.quantity.operations import (
    at_least,
    at_most,
    first_within,
    furthest_from_zero,
    geometric_mean,
    level_of_largest,
)
from report.statistics.estimates import CONFIDENCE
from report.studies.inference_memory import faults, scores
from report.studies.inference_memory.choices import (
    best_speedup,
    decisions,
    reported_speedups,
    speedup,
)
from report.studies.inference_memory.gpu import GPU_VALUES
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.peaks import (
    FROM_BATCH,
    TOLERANCE,
    exact_peaks,
    held_out,
    judged,
    off,
    reconciled,
)
from report.studies.inference_memory.policies import Sweep, deepest
from report.studies.inference_memory.subject import Call
from report.studies.inference_memory.sweeps import (
    ENOUGH,
    amp_pairs,
    amp_precision,
    best_call,
    both_bases,
    ends,
    fastest_tiles,
    fused_bases,
    plain,
    rates,
    resnets,
    sweep,
    tiled_calls,
    with_amp,
    with_both,
)
from report.studies.inference_memory.tilings import call_cost
from report.theory.reconciliation import Reconciliation
from report.theory.workspaces import Layout

Getter: TypeAlias = Callable[[Run], Quantity]

NO_RECORD: Final = Missing("no run of this experiment is in the data directory")
NO_CASE: Final = absent("case", "1", "no such case was measured")

#: Whole numbers of the source that the prose repeats.
_REPORTED: Final = (
    "amc_batch", "best_up_to", "middle_low", "middle_high", "large_low", "large_high",
    "tile_smallest", "tile_largest", "tile_image", "cifar_side",
)  # fmt: skip


def all_values(inputs: Inputs, primary: Run | None, gpu: Run | None) -> Iterator[Value]:
    """Every number of the prose; those of a run are missing without one."""
    yield from _chosen()
    yield from _reported(inputs)
    own: dict[str, Getter] = {**RUN_VALUES, "best_mean": lambda run: _best_mean(inputs, run)}
    yield from values_of(primary, own, NO_RECORD, _SHARES, _ROUNDED)
    compared = deepest(primary)
    if compared is not None:
        yield from values_of(compared, OF_POLICIES, NO_RECORD)
    if gpu is not None:
        yield from values_of(gpu, GPU_VALUES, NO_RECORD, _SHARES, _ROUNDED)


def _chosen() -> Iterator[Value]:
    """Rules of this paper."""
    for id_, name, number, unit in (
        ("confidence", "Confidence of the intervals", CONFIDENCE, "1"),
        ("enough", "Share of the best rate at a knee", ENOUGH, "1"),
        ("enough_rest", "What is left to gain beyond a knee", round(1 - ENOUGH, 12), "1"),
        ("tolerance", "Rule of agreement", TOLERANCE, "1"),
        ("near", "Rule of agreement of page faults", faults.NEAR, "1"),
    ):
        yield exact(id_, name, number, unit, "chosen", (), "percent")
    yield exact("from_batch", "First batch of the rule of agreement", FROM_BATCH, "1", "chosen")
    limit = "largest threshold of the C library"
    yield exact("threshold", "Blocks that are returned", faults.THRESHOLD // 2**20, "MiB", limit)


def _reported(inputs: Inputs) -> Iterator[Value]:
    """What the source prints."""
    origin = (inputs.reported_file,)
    for id_ in _REPORTED:
        found = inputs.reported.value(id_)
        yield exact(f"reported_{id_}", found.name, found.number, "1", found.place, origin)
    for end in ("low", "high"):
        found = inputs.reported.value(f"amc_saving_{end}")
        yield exact(f"saving_{end}", found.name, found.number, "%", found.place, origin)
    for id_, network in (("speedup_lenet", "LeNet-5"), ("speedup_larger", "AlexNet")):
        name, number = f"Published, {network}", reported_speedups(inputs)[network]
        yield exact(id_, name, number, "1", "Section IV-E", origin)


# ------------------------------------------------------------------------------------- getters


def count(name: str, get: Callable[[Run], float]) -> Getter:
    """How many of something a run has; absent where it has none."""

    def found(run: Run) -> Quantity:
        return recorded(name, "1", number, run.file) if (number := get(run)) else NO_CASE

    return found


def over(choose: Callable[..., Quantity], get: Callable[[Run], Iterable[Quantity]]) -> Getter:
    """What ``choose`` makes of those quantities of a run that were measured."""

    def found(run: Run) -> Quantity:
        known = [each for each in get(run) if not each.missing]
        return choose(*known) if known else NO_CASE

    return found


def of_deepest(
    get: Callable[[Run, tuple[Call, ...]], Quantity],
    which: int = -1,
    layout: Layout = "contiguous",
) -> Getter:
    """What ``get`` makes of the timed calls of the deepest (or the first) ResNet, if it has any."""
    return lambda run: get(run, calls) if (calls := ends(run, which, layout)) else NO_CASE


def _knees(run: Run) -> list[Quantity]:
    found = (rates(run, network) for network in resnets(run))
    return [first_within(each, ENOUGH, "1") for each in found if each]


def _over_best(place: int) -> Getter:
    """Time of an image at the smallest or the largest batch over that at the best one."""
    return of_deepest(
        lambda run, calls: run.image_time_ratio(calls[place], best_call(run, calls[0].network))
    )


def _exactly(get: Callable[[Run], dict[Call, Reconciliation]], *, all_: bool) -> Getter:
    """How many peaks were reconciled, or how many of them without a residual."""

    def found(run: Run) -> Quantity:
        peaks = get(run).values()
        number = len(peaks) if all_ else exact_peaks(peaks)
        return recorded("reconciled peaks", "1", number, run.file) if peaks else NO_CASE

    return found


def _residual(run: Run) -> Quantity:
    """The residual of the peaks furthest from zero, as a share of the measured peak."""
    each = [off(run, this) for this in judged(run).values()]
    worst = furthest_from_zero(*each) if each else NO_CASE
    return at_least(worst, 0 - worst) if each else NO_CASE


def _over_needed(run: Run, calls: tuple[Call, ...]) -> Quantity:
    return run.peak(calls[-1]) / run.needed(calls[-1]) - 1


def _block_batch(run: Run, calls: tuple[Call, ...]) -> Quantity:
    step = faults.first_large(run, calls[0].network)
    batch = step[1].batch if step else Missing("no call asks for blocks of that size")
    return recorded("sizes of the allocator's events", "1", batch, run.file)


def _pair(place: int, get: Callable[[Run, Call, Call], Quantity]) -> Getter:
    """What ``get`` makes of the first or the last timed pair of precisions."""

    def found(run: Run) -> Quantity:
        pairs = [pair for pair in amp_pairs(run) if run.timed(pair) == pair]
        return get(run, *pairs[place]) if pairs else NO_CASE

    return found


def _scored(get: Callable[[Run, str], Quantity]) -> Getter:
    """What ``get`` makes of the first set of images on which a trained network was scored."""
    return lambda run: get(run, names[0]) if (names := scores.datasets(run)) else NO_CASE


def _test_images(run: Run, dataset: str) -> Quantity:
    found = scores.score(run, dataset, "float32", "image_correct")
    return recorded("images", "1", found if isinstance(found, Missing) else len(found), run.file)


def _both(choose: Callable[..., Quantity], get: Callable[[Run, Call, Call], Quantity]) -> Getter:
    """Of the networks with AMP and channels last at once."""
    return over(choose, lambda run: [get(run, with_both(run, b), b) for b in both_bases(run)])


def needed_saved(run: Run, base: Call) -> Quantity:
    """The share of the memory that must be held which lower precision saves, by theory alone."""
    return 1 - run.needed(with_amp(run, base)) / run.needed(base)


def _needed_saved(choose: Callable[..., Quantity]) -> Getter:
    return over(choose, lambda run: [needed_saved(run, base) for base in both_bases(run)])


def _tiles(choose: Callable[..., Quantity], get: Callable[[Run, Call], Quantity]) -> Getter:
    return over(choose, lambda run: [get(run, call) for call in tiled_calls(run)])


def _fastest_tiles(get: Callable[[Run, Call], Quantity]) -> Getter:
    return lambda run: get(run, call) if (call := fastest_tiles(run)) else NO_CASE


def _halo(run: Run, call: Call) -> Quantity:
    cost = call_cost(run, call)
    work = cost if isinstance(cost, Missing) else cost.work
    return recorded("work with tiles / work without", "1", work, run.file)


def _fused(choose: Callable[..., Quantity], execution: str) -> Getter:
    """Of the speed-ups over the plain call in float32 and the contiguous layout."""

    def found(run: Run) -> list[Quantity]:
        calls = run.chosen(execution=execution, layout="contiguous", precision="float32")
        return [speedup(run, call) for call in calls if plain(call) in fused_bases(run)]

    return over(choose, found)


def _compiled_first(run: Run) -> list[Quantity]:
    calls = run.chosen(execution="compiled", precision="float32")
    return [run.count("first_call_time", call) for call in calls]


def _best_mean(inputs: Inputs, run: Run) -> Quantity:
    """The geometric mean of the best speed-ups of the published networks."""
    names = reported_speedups(inputs)
    return over(geometric_mean, lambda run: (best_speedup(run, n) for n in names))(run)


#: Of the run that the prose speaks of.
RUN_VALUES: Final[dict[str, Getter]] = {
    "cases": count("calls of the record", lambda run: len(run.calls)),
    "ceiling": lambda run: run.ceiling_of("float32"),
    "ceiling_reduced": lambda run: run.ceiling_of(amp_precision(run)),
    # Memory.
    "compared": _exactly(judged, all_=True),
    "exact_peaks": _exactly(judged, all_=False),
    "compared_all": _exactly(reconciled, all_=True),
    "exact_all": _exactly(reconciled, all_=False),
    "compared_held_out": _exactly(held_out, all_=True),
    "exact_held_out": _exactly(held_out, all_=False),
    "residual_share": _residual,
    "deep_contiguous": of_deepest(_over_needed),
    "deep_channels_last": of_deepest(_over_needed, layout="channels_last"),
    "deep_peak": of_deepest(lambda run, calls: run.peak(calls[-1])),
    "shallow_peak": of_deepest(lambda run, calls: run.peak(calls[-1]), 0),
    # Batch sizes.
    "smallest": of_deepest(lambda run, c: recorded("smallest batch", "1", c[0].batch, run.file)),
    "largest": of_deepest(lambda run, c: recorded("largest batch", "1", c[-1].batch, run.file)),
    "deep_first": of_deepest(lambda run, calls: run.time(calls[0])),
    "deep_last": of_deepest(lambda run, calls: run.time(calls[-1])),
    "deep_best": of_deepest(lambda run, c: level_of_largest(rates(run, c[0].network), "1")),
    "deep_best_gain": _over_best(0),
    "deep_left": _over_best(-1),
    "knee_least": over(at_most, _knees),
    "knee_most": over(at_least, _knees),
    "best_share": over(
        at_least, lambda run: (run.utilisation(c) for n in resnets(run) for c in sweep(run, n))
    ),
    # Page faults.
    "block_batch": of_deepest(_block_batch),
    "fault_calls": count("calls with large blocks", lambda run: len(faults.told(run))),
    "fault_near": count("calls near the sizes of blocks", lambda run: len(faults.near(run))),
    "page_cost": of_deepest(lambda run, calls: faults.fault_cost(run, calls[0].network)),
    # Precision and layout.
    "half_first": _pair(0, Run.time_ratio),
    "half_last": _pair(-1, Run.time_ratio),
    "half_grown_first": _pair(0, lambda run, call, base: run.peak(call) / run.peak(base) - 1),
    "half_saved_first": _pair(0, Run.saved),
    "half_saved_last": _pair(-1, Run.saved),
    "test_images": _scored(_test_images),
    "accuracy": _scored(lambda run, d: scores.mean_score(run, d, "float32", "image_correct")),
    "accuracy_change": _scored(lambda run, d: scores.accuracy_change(run, d, amp_precision(run))),
    "loss_change": _scored(lambda run, d: scores.loss_change(run, d, amp_precision(run))),
    "both_batch": count(
        "largest batch of both", lambda run: max((b.batch for b in both_bases(run)), default=0)
    ),
    "both_saved_least": _both(at_most, Run.saved),
    "both_saved_most": _both(at_least, Run.saved),
    "both_fastest": _both(at_most, Run.time_ratio),
    "both_slowest": _both(at_least, Run.time_ratio),
    "needed_saved_least": _needed_saved(at_most),
    "needed_saved_most": _needed_saved(at_least),
    # Tiles.
    "untiled_time": _fastest_tiles(lambda run, call: run.time(plain(call))),
    "tile_best": _tiles(at_most, lambda run, call: run.time_ratio(call, plain(call))),
    "tile_worst": _tiles(at_least, lambda run, call: run.time_ratio(call, plain(call))),
    "tile_least_peak": _tiles(at_most, lambda run, c: run.peak(c) / run.peak(plain(c))),
    "halo_most": _tiles(at_least, _halo),
    # Settings.
    "folded_best": _fused(at_least, "folded"),
    "compiled_best": _fused(at_least, "compiled"),
    "compiled_worst": _fused(at_most, "compiled"),
    "compiled_first": over(at_least, _compiled_first),
    "best_lenet": lambda run: best_speedup(run, "LeNet-5"),
    "decisions": count("networks · goals", lambda run: len(decisions(run))),
    "clear": lambda run: recorded(
        "clear choices", "1", sum(made.clear for made in decisions(run)), run.file
    ),
    "clear_most": over(at_least, lambda run: (d.gain for d in decisions(run) if d.clear)),
}

#: Of the deepest network, where more than one memory policy was measured.
OF_POLICIES: Final[dict[str, Callable[[Sweep], Quantity]]] = {
    "policy_gain": by_policy.gain,
    "policy_batch": lambda found: recorded(
        "largest timed batch", "1", found.timed[-1], found.run.file
    ),
    "policy_lost": lambda found: by_policy.lost(found, found.timed[-1]),
    "mapping_time": lambda found: by_policy.mapping_time(found.under("default"), found.timed[-1]),
}

_SHARES: Final = frozenset(
    {
        "best_share", "residual_share", "deep_contiguous", "deep_channels_last",
        "half_grown_first", "half_saved_first", "half_saved_last", "accuracy", "accuracy_change",
        "both_saved_least", "both_saved_most", "needed_saved_least", "needed_saved_most",
        "gpu_first_wait", "gpu_last_wait",
    }
)  # fmt: skip
_ROUNDED: Final = frozenset(
    {
        "deep_peak", "shallow_peak", "gpu_kept_peak", "gpu_kept", "gpu_layout_peak",
        "gpu_layout_base_peak",
    }
)  # fmt: skip
