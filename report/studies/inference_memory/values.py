"""The numbers of inference_memory's prose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.values import Value
from report.statistics.estimates import CONFIDENCE, Estimate
from report.studies.inference_memory import run_values, setting_values
from report.studies.inference_memory.batches import ENOUGH
from report.studies.inference_memory.choices import reported_speedups
from report.studies.inference_memory.faults import NEAR, THRESHOLD
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.memory import FROM_BATCH, TOLERANCE
from report.studies.inference_memory.processor import COARSE
from report.text.format import Number, Style

Finding: TypeAlias = Number | Estimate | Missing
NO_RECORD: Final = Missing("no run of this experiment is in the data directory")

#: What the prose says of the source: id, name.
_REPORTED: Final = (
    ("amc_batch", "Batch of AMP with AMC"),
    ("best_up_to", "Batch up to which the source's time drops"),
    ("middle_low", "First batch of the source's middle range"),
    ("middle_high", "Last batch of the source's middle range"),
    ("large_low", "First of the source's very large batches"),
    ("large_high", "Last of the source's very large batches"),
    ("tile_smallest", "The source's smallest tile"),
    ("tile_largest", "The source's largest tile"),
    ("tile_image", "Side of the source's tiled image"),
    ("tile_batch", "Batch of the source's tiling"),
    ("cifar_side", "Side of a CIFAR-10 image as printed"),
)


def all_values(inputs: Inputs, run: Run | None) -> tuple[Value, ...]:
    """Every number of the prose; those of a run are missing without one."""
    return (*_chosen(), *_reported(inputs), *_of_run(inputs, run))


def _chosen() -> tuple[Value, ...]:
    """Rules of this paper."""
    return (
        Value(
            "confidence", "Confidence of the intervals", CONFIDENCE, "1", "chosen", (), "percent"
        ),
        Value("enough", "Share of the best rate at a knee", ENOUGH, "1", "chosen", (), "percent"),
        Value(
            "enough_rest",
            "What is left to gain beyond a knee",
            round(1 - ENOUGH, 12),
            "1",
            "1 − share of the best rate at a knee",
            (),
            "percent",
        ),
        Value("tolerance", "Rule of agreement", TOLERANCE, "1", "chosen", (), "percent"),
        Value(
            "threshold",
            "Blocks that are given back to the system",
            THRESHOLD // 2**20,
            "MiB",
            "largest threshold of the C library",
            (),
            "exact",
        ),
        Value("near", "Rule of agreement of page faults", NEAR, "1", "chosen", (), "percent"),
        Value("coarse", "Largest step of a clock that tells", COARSE, "1", "chosen", (), "percent"),
        Value("from_batch", "First batch of that rule", FROM_BATCH, "1", "chosen", (), "exact"),
    )


def _reported(inputs: Inputs) -> tuple[Value, ...]:
    origin = (inputs.reported_file,)
    found = {id_: inputs.reported.value(id_) for id_, _ in _REPORTED}
    low, high = (inputs.reported.value(f"amc_saving_{end}") for end in ("low", "high"))
    speedups = reported_speedups(inputs)
    return (
        *(
            Value(
                f"reported_{id_}", name, found[id_].number, "1", found[id_].place, origin, "exact"
            )
            for id_, name in _REPORTED
        ),
        Value("saving_low", low.name, low.number, "%", low.place, origin),
        Value("saving_high", high.name, high.number, "%", high.place, origin),
        Value(
            "speedup_lenet", "Published, LeNet", speedups["LeNet-5"], "1", "Section IV-E", origin
        ),
        Value(
            "speedup_larger",
            "Published, AlexNet",
            int(speedups["AlexNet"]),
            "1",
            "Section IV-E",
            origin,
        ),
    )


def _of_run(inputs: Inputs, run: Run | None) -> tuple[Value, ...]:
    origin = () if run is None else (run.file,)
    return tuple(
        Value(
            id_, name, NO_RECORD if run is None else find(inputs, run), unit, formula, origin, style
        )
        for id_, name, unit, formula, style, find in _RUN
    )


_Find: TypeAlias = Callable[[Inputs, Run], Finding]
_MEDIAN: Final = "median of the samples"
_RATIO: Final = "ratio of medians"

#: What the prose says of the run: id, name, unit, formula, style, function.
_RUN: Final[Sequence[tuple[str, str, str, str, Style, _Find]]] = (
    ("fewest_samples", "Fewest samples of a timed call", "1", "count", "exact",
     run_values.fewest_samples),
    ("cases", "Calls in the record", "1", "count", "exact", run_values.cases),
    ("ceiling", "Ceiling of the matrix product in float32", "FLOP/s", "work / median time",
     "measured", run_values.ceiling),
    ("ceiling_reduced", "Ceiling in reduced precision", "FLOP/s", "work / median time",
     "measured", run_values.ceiling_reduced),
    ("smallest", "Smallest batch of the ResNets", "1", "cases of the record", "exact",
     run_values.smallest),
    ("largest", "Largest batch of the ResNets", "1", "cases of the record", "exact",
     run_values.largest),
    ("deep_first", "Time of a call of the deepest network, smallest batch", "s", _MEDIAN,
     "measured", run_values.deep_first),
    ("deep_last", "The same, largest batch", "s", _MEDIAN, "measured", run_values.deep_last),
    ("deep_gain", "Gain in images a second from the smallest to the largest batch", "1", _RATIO,
     "measured", run_values.deep_gain),
    ("deep_best", "Batch of the best rate of the deepest network", "1", "largest median rate",
     "exact", run_values.deep_best),
    ("deep_best_gain", "Gain in images a second from the smallest to that batch", "1", _RATIO,
     "measured", run_values.deep_best_gain),
    ("deep_left", "Time of an image at the largest batch over that at the best", "1", _RATIO,
     "measured", run_values.deep_left),
    ("block_batch", "First batch with large blocks, deepest network", "1", "sizes of the "
     "allocator's events", "exact", run_values.block_batch),
    ("fault_calls", "Calls with large blocks", "1", "count", "exact", run_values.fault_calls),
    ("fault_exact", "Those whose page faults follow from the blocks to the unit", "1", "count",
     "exact", run_values.fault_exact),
    ("fault_near", "Those whose page faults follow from the blocks within that share", "1", "count",
     "exact", run_values.fault_near),
    ("fault_off", "Page faults by which these are off, at most", "1", "|counted − predicted|",
     "exact", run_values.fault_off),
    ("page_cost", "Time of a page fault", "s", "(time − images · time of an image at the best "
     "batch) / faults", "measured", run_values.page_cost),
    ("untiled_faults", "Page faults without tiles", "1", _MEDIAN, "measured",
     setting_values.untiled_faults),
    ("tiled_faults", "Page faults of the fastest tiled call", "1", _MEDIAN, "measured",
     setting_values.tiled_faults),
    ("deep_peak", "Peak of the deepest network, largest batch", "B", "allocator", "measured",
     run_values.deep_peak),
    ("shallow_peak", "Peak of the shallowest network, largest batch", "B", "allocator", "measured",
     run_values.shallow_peak),
    ("best_share", "Best utilisation of the ResNets", "1", "achieved rate / ceiling", "percent",
     run_values.best_share),
    ("knee_least", "Smallest knee of the ResNets", "1", "rule of the knee", "exact",
     run_values.knee_least),
    ("knee_most", "Largest knee of the ResNets", "1", "rule of the knee", "exact",
     run_values.knee_most),
    ("compared", "Peaks that were predicted and measured", "1", "count", "exact",
     run_values.compared),
    ("exact_peaks", "Those predicted to the byte", "1", "count", "exact", run_values.exact_peaks),
    ("compared_all", "Peaks of all batches that were predicted and measured", "1", "count",
     "exact", run_values.compared_all),
    ("exact_all", "Those predicted to the byte", "1", "count", "exact", run_values.exact_all),
    ("residual_peak", "Residual furthest from zero", "B", "measured − predicted", "exact",
     run_values.residual_peak),
    ("residual_share", "The same over the measured peak", "1", "|measured − predicted| / measured",
     "percent", run_values.residual_share),
    ("deep_contiguous", "Peak of the deepest network, contiguous, beyond what is needed", "1",
     "peak / needed − 1, largest batch", "percent", run_values.deep_contiguous),
    ("deep_channels_last", "The same, channels last", "1", "peak / needed − 1, largest batch",
     "percent", run_values.deep_channels_last),
    ("half_first", "Time in reduced precision over float32, smallest batch", "1", _RATIO,
     "measured", setting_values.half_first),
    ("half_last", "The same, largest batch", "1", _RATIO, "measured", setting_values.half_last),
    ("half_saved_first", "Peak saved in reduced precision, smallest batch", "1",
     "1 − peak / peak in float32", "percent", setting_values.half_saved_first),
    ("half_grown_first", "Growth of the peak in reduced precision, smallest batch", "1",
     "peak / peak in float32 − 1", "percent", setting_values.half_grown_first),
    ("half_saved_last", "The same, largest batch", "1", "1 − peak / peak in float32", "percent",
     setting_values.half_saved_last),
    ("test_images", "Test images", "1", "count", "exact", setting_values.test_images),
    ("accuracy", "Accuracy in float32", "1", "mean over the test images", "percent",
     setting_values.accuracy),
    ("accuracy_change", "Change of accuracy", "1", "paired difference", "percent",
     setting_values.accuracy_changed),
    ("loss_change", "Change of loss", "1", "mean paired difference", "measured",
     setting_values.loss_changed),
    ("amp_batch", "Batch of AMP with channels last", "1", "largest that ran", "exact",
     setting_values.amp_batch),
    ("both_saved_least", "Least peak saved by both", "1", "1 − peak / base peak", "percent",
     setting_values.both_saved_least),
    ("both_saved_most", "Most peak saved by both", "1", "1 − peak / base peak", "percent",
     setting_values.both_saved_most),
    ("both_fastest", "Time with both over the base, least", "1", _RATIO, "measured",
     setting_values.both_fastest),
    ("both_slowest", "Time with both over the base, most", "1", _RATIO, "measured",
     setting_values.both_slowest),
    ("needed_saved_least", "Least saving by theory", "1", "1 − needed / needed in float32",
     "percent", setting_values.needed_saved_least),
    ("needed_saved_most", "Most saving by theory", "1", "1 − needed / needed in float32",
     "percent", setting_values.needed_saved_most),
    ("untiled_time", "Time without tiles", "s", _MEDIAN, "measured", setting_values.untiled_time),
    ("tile_worst", "Largest time with tiles over that without", "1", _RATIO, "measured",
     setting_values.tile_worst),
    ("tile_best", "Smallest time with tiles over that without", "1", _RATIO, "measured",
     setting_values.tile_best),
    ("tile_least_peak", "Least peak with tiles over that without", "1", "ratio of bytes",
     "measured", setting_values.tile_least_peak),
    ("halo_most", "Most work by halos", "1", "work / work without tiles", "measured",
     setting_values.halo_most),
    ("clock_step", "Step of the clock of processor time", "s", "max(CPU time − threads · time, 0)",
     "measured", setting_values.step_of_clock),
    ("off_first", "Time off the processor, deepest network, smallest batch", "1", "1 − Σ CPU time "
     "/ Σ (threads · time)", "percent", setting_values.off_first),
    ("off_last", "The same, largest batch", "1", "1 − Σ CPU time / Σ (threads · time)", "percent",
     setting_values.off_last),
    ("faults_last", "Page faults of a call, deepest network, largest batch", "1", _MEDIAN,
     "measured", setting_values.faults_last),
    ("folded_best", "Best speed-up by folding", "1", _RATIO, "measured",
     setting_values.folded_best),
    ("compiled_best", "Best speed-up by compiling", "1", _RATIO, "measured",
     setting_values.compiled_best),
    ("compiled_worst", "Worst speed-up by compiling", "1", _RATIO, "measured",
     setting_values.compiled_worst),
    ("compiled_first", "Longest first call of a compiled network", "s", "one sample", "measured",
     setting_values.compiled_first),
    ("best_lenet", "Speed-up of the best setting, LeNet-5", "1", _RATIO, "measured",
     setting_values.best_lenet),
    ("best_mean", "Geometric mean of the speed-ups of the published networks", "1",
     "geometric mean of ratios", "measured", setting_values.best_mean),
    ("clear", "Choices that gain clearly", "1", "count", "exact", setting_values.clear),
    ("clear_least", "Smallest of these gains", "1", "ratio of medians, or of bytes", "measured",
     setting_values.clear_least),
    ("clear_most", "Largest of these gains", "1", "ratio of medians, or of bytes", "measured",
     setting_values.clear_most),
    ("decisions", "Choices", "1", "networks · goals", "exact", setting_values.decisions),
)  # fmt: skip
