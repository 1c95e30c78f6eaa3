"""The numbers of inference_memory's prose: of the source, of the run it speaks of, of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from report.missing import Missing
from report.paper.declared import values_of
from report.paper.findings import Inputs
from report.paper.values import Value, exact
from report.quantity.expression import Quantity, recorded
from report.quantity.operations import at_least, at_most
from report.statistics.estimates import CONFIDENCE
from report.studies.inference_memory import scores
from report.studies.inference_memory.choices import reported_speedups
from report.studies.inference_memory.getters import (
    NO_CASE,
    Getter,
    both,
    count,
    exactly,
    largest,
    of_deepest,
    over,
    pair,
    residual,
    scored,
    tiles,
    workspace,
)
from report.studies.inference_memory.gpu import GPU_VALUES, tile_times
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.peaks import (
    FROM_BATCH,
    TOLERANCE,
    held_out,
    judged,
    limit,
    other_reduced,
    predicted_growth,
    predicted_peak,
    reconciled,
    reduced,
    rightly_predicted,
    wrong,
)
from report.studies.inference_memory.subject import RESNETS, Call
from report.studies.inference_memory.sweeps import (
    amp_precision,
    both_bases,
    failed_calls,
    limited_calls,
    other_precision,
    pairs,
    plain,
    resnets,
    sweep,
    with_amp,
)
from report.studies.inference_memory.tilings import tiled_work
from report.studies.inference_memory.timing import TIME_VALUES
from report.theory.reconciliation import Reconciliation

NO_RECORD: Final = Missing("no run of this experiment is in the data directory")

#: Whole numbers of the source that the prose repeats.
_REPORTED: Final = (
    "amc_batch", "best_up_to", "middle_low", "middle_high", "large_low", "large_high",
    "tile_smallest", "tile_largest", "tile_image", "cifar_side",
)  # fmt: skip


def all_values(
    inputs: Inputs, primary: Run | None, other: Run | None, gpu: Run | None
) -> Iterator[Value]:
    """Every number of the prose; those of a run are missing without one."""
    yield from _chosen()
    yield from _reported(inputs)
    yield from values_of(primary, RUN_VALUES, NO_RECORD, _SHARES, _ROUNDED)
    if other is not None:
        yield from _prefixed(other, "other", _OF_OTHER)
    if gpu is not None:
        yield from values_of(gpu, GPU_VALUES, NO_RECORD, _SHARES, _ROUNDED)
        yield from _prefixed(gpu, "gpu", _OF_GPU)


def _prefixed(run: Run, prefix: str, ids: Iterable[str]) -> Iterator[Value]:
    """Some values of a run that is not the one which the prose is about."""
    getters = {f"{prefix}_{id_}": RUN_VALUES[id_] for id_ in ids}
    shares = frozenset(f"{prefix}_{id_}" for id_ in ids if id_ in _SHARES)
    yield from values_of(run, getters, NO_RECORD, shares)


def _chosen() -> Iterator[Value]:
    """Rules of this paper."""
    for id_, name, number, unit in (
        ("confidence", "Confidence of the intervals", CONFIDENCE, "1"),
        ("tolerance", "Rule of agreement", TOLERANCE, "1"),
    ):
        yield exact(id_, name, number, unit, "chosen", (), "percent")
    yield exact("from_batch", "First batch of the rule of agreement", FROM_BATCH, "1", "chosen")


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


# ---------------------------------------------------------------------------------- of a run


def _new_kinds(run: Run) -> dict[Call, Reconciliation]:
    """Those held out that are no deeper or shallower relative of a network that taught rules."""
    return {call: this for call, this in held_out(run).items() if call.network not in RESNETS}


def _limit(run: Run) -> Quantity:
    calls = limited_calls(run)
    return recorded("limit", "B", limit(calls[0]), run.file) if calls else NO_CASE


def _over_needed(run: Run, call: Call) -> Quantity:
    return run.peak(call) / run.needed(call) - 1


def _batch(run: Run, call: Call, _: Call) -> Quantity:
    return recorded("batch", "1", call.batch, run.file)


def _other_precision_ratio(run: Run) -> Quantity:
    """Time in the other reduced precision over that in float32, at its smallest batch."""
    found = [each for each in pairs(run) if each[0].precision == other_precision(run)]
    return run.time_ratio(*found[0]) if found else NO_CASE


def _test_images(run: Run, dataset: str) -> Quantity:
    found = scores.score(run, dataset, "float32", "image_correct")
    return recorded("images", "1", found if isinstance(found, Missing) else len(found), run.file)


def needed_saved(run: Run, base: Call) -> Quantity:
    """The share of the memory that must be held which lower precision saves, by theory alone."""
    return 1 - run.needed(with_amp(run, base)) / run.needed(base)


def _needed_saved(choose: Callable[..., Quantity]) -> Getter:
    return over(choose, lambda run: [needed_saved(run, base) for base in both_bases(run)])


#: Of the run that the prose speaks of.
RUN_VALUES: Final[dict[str, Getter]] = {
    "cases": count("calls of the record", lambda run: len(run.calls)),
    "ceiling": lambda run: run.ceiling_of("float32"),
    "ceiling_reduced": lambda run: run.ceiling_of(amp_precision(run)),
    # Memory.
    "compared": exactly(judged, all_=True),
    "exact_peaks": exactly(judged, all_=False),
    "compared_all": exactly(reconciled, all_=True),
    "exact_all": exactly(reconciled, all_=False),
    "compared_held_out": exactly(held_out, all_=True),
    "exact_held_out": exactly(held_out, all_=False),
    "compared_new": exactly(_new_kinds, all_=True),
    "exact_new": exactly(_new_kinds, all_=False),
    "compared_reduced": exactly(reduced, all_=True),
    "exact_reduced": exactly(reduced, all_=False),
    "residual_share": residual(judged),
    "residual_all": residual(reconciled),
    "residual_reduced": residual(reduced),
    "residual_reduced_last": residual(reduced, "channels_last"),
    "residual_other": residual(other_reduced),
    "deep_contiguous": largest(_over_needed),
    "deep_channels_last": largest(_over_needed, "channels_last"),
    "deep_batch": largest(lambda run, c: recorded("largest batch", "1", c.batch, run.file)),
    "deep_peak": largest(Run.peak),
    "shallow_peak": largest(lambda run, c: run.peak(replace(c, network=resnets(run)[0]))),
    "workspace_first": workspace(0),
    "workspace_second": workspace(1),
    # Limited memory.
    "limit": _limit,
    "limited": count("limited calls", lambda run: len(rightly_predicted(run))),
    "limited_out": count(
        "limited calls that ran out", lambda run: sum(map(run.ran_out, rightly_predicted(run)))
    ),
    "limited_wrong": count("wrong predictions", lambda run: len(wrong(run))),
    "limited_excess": over(
        at_least,
        lambda run: (
            recorded("predicted growth − limit", "B", predicted_growth(run, call), run.file)
            - recorded("limit", "B", limit(call), run.file)
            for call in wrong(run)
        ),
    ),
    "failed_peak": over(
        at_most,
        lambda run: (
            recorded("predicted peak", "B", predicted_peak(run, c), run.file)
            for c in failed_calls(run)
        ),
    ),
    "machine_memory": lambda run: recorded("memory", "B", run.machine_memory, run.file),
    # Time.
    "smallest": of_deepest(lambda run, c: recorded("smallest batch", "1", c[0].batch, run.file)),
    "largest": of_deepest(lambda run, c: recorded("largest batch", "1", c[-1].batch, run.file)),
    "deep_first": of_deepest(lambda run, calls: run.time(calls[0])),
    "deep_last": of_deepest(lambda run, calls: run.time(calls[-1])),
    "best_share": over(
        at_least, lambda run: (run.utilisation(c) for n in resnets(run) for c in sweep(run, n))
    ),
    **TIME_VALUES,
    # Precision and layout.
    "half_batch_first": pair(0, _batch),
    "half_batch_last": pair(-1, _batch),
    "half_grown_first": pair(0, lambda run, call, base: run.peak(call) / run.peak(base) - 1),
    "half_saved_first": pair(0, Run.saved),
    "half_saved_last": pair(-1, Run.saved),
    "half_needed_last": pair(-1, lambda run, call, base: needed_saved(run, base)),
    "other_reduced_slower": _other_precision_ratio,
    "test_images": scored(_test_images),
    "accuracy": scored(lambda run, d: scores.mean_score(run, d, "float32", "image_correct")),
    "accuracy_change": scored(lambda run, d: scores.accuracy_change(run, d, amp_precision(run))),
    "loss_change": scored(lambda run, d: scores.loss_change(run, d, amp_precision(run))),
    "both_batch": count(
        "largest batch of both", lambda run: max((b.batch for b in both_bases(run)), default=0)
    ),
    "both_saved_least": both(at_most, Run.saved),
    "both_saved_most": both(at_least, Run.saved),
    "both_time_least": both(at_most, Run.time_ratio),
    "both_time_most": both(at_least, Run.time_ratio),
    "needed_saved_least": _needed_saved(at_most),
    "needed_saved_most": _needed_saved(at_least),
    # Tiles.
    "tile_best": tile_times(at_most),
    "tile_worst": tile_times(at_least),
    "tile_least_peak": tiles(at_most, lambda run, c: run.peak(c) / run.peak(plain(c))),
    "tile_most_peak": tiles(at_least, lambda run, c: run.peak(c) / run.peak(plain(c))),
    "halo_most": tiles(at_least, tiled_work),
}

#: What the prose says of a second processor.
_OF_OTHER: Final = (
    "compared_all", "exact_all", "compared_held_out", "exact_held_out", "compared_reduced",
    "exact_reduced", "residual_reduced", "limited", "limited_out", "limited_wrong",
    "limited_excess", "both_batch", "both_saved_least", "both_saved_most", "needed_saved_least",
    "needed_saved_most",
)  # fmt: skip

#: What it says of a GPU beside what is peculiar to it.
_OF_GPU: Final = ("half_batch_last", "half_saved_last", "half_needed_last")

_SHARES: Final = frozenset(
    {
        "best_share", "residual_share", "residual_reduced", "residual_reduced_last",
        "residual_other",
        "residual_all",
        "deep_contiguous", "deep_channels_last", "tile_least_peak",
        "tile_most_peak", "half_grown_first", "half_saved_first", "half_saved_last",
        "half_needed_last", "accuracy", "accuracy_change", "both_saved_least", "both_saved_most",
        "needed_saved_least", "needed_saved_most", "gpu_first_wait", "gpu_last_wait",
    }
)  # fmt: skip
_ROUNDED: Final = frozenset(
    {
        "deep_peak", "shallow_peak", "workspace_first", "workspace_second", "limit",
        "failed_peak", "machine_memory", "gpu_kept_peak", "gpu_kept", "gpu_layout_peak",
        "gpu_layout_base_peak",
    }
)  # fmt: skip
