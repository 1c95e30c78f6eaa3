"""All that the paper of conv_profiling prints."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from figures.panels import Panel
from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.paper.machines import setup
from report.paper.study import Content, Part, Study
from report.paper.tables import Table
from report.quantity.expression import Quantity, Statement, absent, exact, recorded
from report.quantity.operations import largest, smallest
from report.quantity.verdicts import verdict_of
from report.studies.conv_profiling import figures, results, runs, source, theory
from report.studies.conv_profiling.results import SHOWN, Paper, calls_of, without_residual
from report.studies.conv_profiling.runs import EMULATED, LIMITED, NATIVE, ProfiledCall, Run
from report.studies.conv_profiling.subject import (
    BASE,
    FEW_IMAGES,
    FOURIER,
    INSTRUCTIONS,
    SHOWN_BATCH,
    check_subject,
)
from report.theory.reconciliation import Reconciliation

#: Times that differ by less than this share are taken for equal.
MARGIN: Final = 0.1
#: Predicted before the measurement: time with nine input channels over that with eight, with AVX2.
NINTH: Final = 1.5, 2.0
#: Channels of a block with AVX-512.
WIDE_BLOCK: Final = 16
_NINE_SIXTEEN: Final = results.compared_inputs(9, 16)
#: Batches that a GPU computes on its tensor cores if TF32 is on.
ON_TENSOR_CORES: Final = (SHOWN_BATCH, 512)

study = Study(
    Paper,
    check_subject,
    reconciliations=Paper.reconciliations,
    audits=Paper.audit,
)
findings = study.findings
#: Parts by what they are about; a ``Part[Paper]`` reads all data, a ``Part[Run]`` one run.
printed: Part[Paper] = study.part("", "source")
cpu_calls: Part[Paper] = study.part("", "cpu")
gpu_calls: Part[Paper] = study.part("", "gpu")
pair: Part[Paper] = study.part("", "pair")
cpu: Part[Run] = study.part("cpu")
gpu: Part[Run] = study.part("gpu")
tf32: Part[Run] = study.part("tf32", "gpu")
second: Part[Run] = study.part("second", "pair")
timed: Part[Run] = study.part("timed", "cpu")


# -------------------------------------------------------------------------------------- texts


@printed.text()
def source_device(p: Paper) -> str:
    return markdown(p.reported.device)


@printed.text()
def source_software(p: Paper) -> str:
    return markdown(p.reported.software)


def _device(run: Run) -> str:
    """Return the device's own name, without the key that tells two records of it apart."""
    environment = run.stored.record.environment
    cpu_name = environment.label.removesuffix(environment.threads_text)
    return markdown(environment.gpu.model if environment.gpu else cpu_name)


cpu.texts(cpu=_device)
second.texts(second=_device)
timed.texts(timed=_device)
gpu.texts(gpu=_device)


# ------------------------------------------------------------------------------------- values


def _counts(run: Run | None, numbers: Mapping[str, int | Missing]) -> dict[str, Quantity]:
    """Count things in the record of a run, by the ids of the values."""
    missing, file = Missing("no run is there"), run.file if run else ""
    return {
        id: recorded(id.replace("_", " "), "1", number if run else missing, file)
        for id, number in numbers.items()
    }


@printed.mapping()
def _shapes(p: Paper) -> dict[str, Quantity]:
    return {
        "in_channels": theory.C_IN,
        "out_channels": theory.C_OUT,
        "in_extent": theory.EXTENT,
        "macs": theory.MULTIPLY_ADDS,
        "source_batch": exact("batch", "1", p.reported.count("profiled_batch"), p.file),
        "source_kept": p.printed("size_increase"),
        "table_batch": p.printed("size_increase") / theory.OUTPUT_BYTES,
        "kernels": exact("kernels", "1", p.reported.count("profiled_kernels"), p.file),
        "shown_batch": exact("batch", "1", SHOWN.batch),
        "shown_inputs": exact("channels", "1", SHOWN.shape.inputs),
        "shown_outputs": exact("channels", "1", SHOWN.shape.outputs),
    }


@printed.mapping("measured")
def _memory(p: Paper) -> dict[str, Quantity]:
    numbers = {"source_estimate": "estimated_memory", "source_measured": "measured_memory"}
    sizes: dict[str, Quantity] = {
        id: exact(name, "B", round(source.MB * p.reported.value(name).number), p.file)
        for id, name in numbers.items()
    }
    return sizes | {
        "source_allocated": p.printed("allocation_size"),
        "source_workspace": p.printed("workspace"),
        "square": exact("side of a square", "1", theory.SQUARE),
        "largest_square": exact("largest square tried", "1", theory.LARGEST_SQUARE),
        "largest_batch": exact("largest batch tried", "1", theory.LARGEST_BATCH),
    }


@cpu_calls.mapping()
def _predictions(p: Paper) -> dict[str, Quantity]:
    held = calls_of("held_out", p.counts)
    none = None if held else Missing("no shape was held out")
    counts: dict[str, int | Missing] = {
        "known_shapes": len({call.shape for call in calls_of("layer", p.counts)}),
        "held_shapes": none or len({call.shape for call in held}),
        "held_calls": none or len(held),
    }
    return _counts(p.cpu, counts)


@cpu_calls.mapping("measured")
def _ratios(p: Paper) -> dict[str, Quantity]:
    counts = results.ratios(p.cpu, p.counts)
    of_changed = results.ratios(p.changer, p.changed)
    return {
        "ratio_least": smallest(*counts),
        "ratio_most": largest(*counts),
        "formula_worst": largest(*counts, *of_changed),
    }


cpu.values(block=Run.native_block)
second.values(second_block=Run.native_block)


@pair.mapping()
def _second(p: Paper) -> dict[str, Quantity]:
    no_code = absent("dispatched", "1", "no second CPU is there")
    dispatched = p.second.dispatched(p.inputs) if p.second else no_code
    return {**_counts(p.second, {"changed_calls": len(p.changed)}), "dispatched": dispatched}


timed.values(
    nine_sixteen=partial(results.mean_ratio, pairs=_NINE_SIXTEEN),
    nine_sixteen_native=partial(results.mean_ratio, pairs=_NINE_SIXTEEN, instructions=NATIVE),
)
timed.values(
    "measured",
    same_least=partial(results.extreme, results.all_same_blocks, min),
    same_most=partial(results.extreme, results.all_same_blocks, max),
    ninth_least=partial(results.extreme, results.ninth_channel, min),
)


study.constants(
    "measured",
    ninth_low=exact("predicted", "1", NINTH[0]),
    ninth_high=exact("predicted", "1", NINTH[1]),
)
study.constants("percent", confidence=exact("confidence, chosen", "1", CONFIDENCE))


@gpu_calls.mapping()
def _tiles(p: Paper) -> dict[str, Quantity]:
    held = len([c for c in p.tf32.counted_calls if c.subject == "held_out"]) if p.tf32 else 0
    of_gpu = {
        "tiled_cases": len(p.tiled),
        "example_batches": sum(call.shape == BASE for call in p.tiled),
        "gpu_calls": (len(p.gpu.calls) if p.gpu else 0) + held,
        "gpu_ruled": len(p.tiled) + len(p.held_tiled),
    }
    of_fast = {"held_on_gpu": held, "held_tiled": len(p.held_tiled)}
    return {**_counts(p.gpu, of_gpu), **_counts(p.tf32, of_fast)}


_EXAMPLE: Final = ProfiledCall(BASE, FEW_IMAGES, "layer")
for _part, _subject, _prefix in ((gpu, "layer", ""), (tf32, "held_out", "held_")):
    _call = ProfiledCall(FOURIER[_subject], 1, _subject)
    _part.values(
        "measured",
        **{
            f"{_prefix}fourier_fused": partial(Run.fused, call=_call),
            f"{_prefix}fourier_executed": partial(Run.executed, call=_call),
        },
    )
gpu.values(
    shown_count=partial(Run.counted, call=SHOWN),
    neighbour=partial(Run.executed, call=_EXAMPLE),
)
gpu.values(
    "measured",
    shown_over=partial(Run.executed, call=SHOWN),
    wider_on_gpu=partial(results.ratio_on_gpu, over=SHOWN, under=_EXAMPLE),
)
tf32.values(
    "measured",
    tf32_peak=partial(Run.peak, factors=runs.tf32_factors(SHOWN_BATCH)),
    fourier_peak=partial(Run.peak, factors=ProfiledCall(FOURIER["layer"], 1, "layer").factors()),
)
tf32.values("percent", own_seen=partial(Run.seen_share, batch=SHOWN_BATCH))
tf32.values(small_seen=partial(Run.seen_share, batch=1))


# -------------------------------------------------------------------------------------- claims


@printed.claim("The source's memory of a batch is that of one image times its size")
def parameters_per_image(p: Paper) -> Statement:
    without = p.printed("allocation_size") - p.printed("workspace")
    return (without / theory.for_every_image(p.reported.count("profiled_batch"))).exactly(1)


@printed.claim("Of Winograd's workspaces one has the size of the source's, to the byte")
def workspace_is_winograd(p: Paper) -> Iterator[Statement]:
    size = source.operator_bytes(p.reported, source.WORKSPACE, "self_allocation_size")
    workspace = theory.winograd(p.reported.count("profiled_batch"), theory.SQUARE)
    yield (p.printed("workspace") / exact("Winograd", "B", sum(workspace))).exactly(1)
    yield exact("choices that fit", "1", theory.winograds_of(size)).exactly(1)


@printed.claim("The source's printed product is the work of one image times its batch size")
def batch_in_product(p: Paper) -> Statement:
    work = exact("printed result", "FLOP", p.reported.count("flops"), p.file)
    return (work / theory.work(1)).exactly(p.reported.count("printed_batch"))


@printed.claim("The source's operator table is of one image")
def table_of_one_image(p: Paper) -> Statement:
    return (p.printed("size_increase") / theory.OUTPUT_BYTES).exactly(1)


@printed.claim("One output and Winograd's workspace have the size of the source's memory")
def temporary_storage(p: Paper) -> Statement:
    batch = p.reported.count("profiled_batch")
    workspace = exact("Winograd", "B", sum(theory.winograd(batch, theory.SQUARE)))
    return (p.printed("allocation_size") - batch * theory.OUTPUT_BYTES - workspace).exactly(0)


@tf32.claim("With TF32 both kinds of counters show to the unit what they can see")
def seen_as_predicted(run: Run) -> Iterator[Statement]:
    """CUDA cores copy, scale by one addition and one multiplication, and add the bias."""
    for b in ON_TENSOR_CORES:
        yield (run.seen(b) / theory.seen(b)).exactly(1)
        for kind in ("additions", "multiply_adds"):
            yield (run.tf32(f"ncu_fp32_{kind}", b) / (b * theory.OUTPUTS)).exactly(1)
        yield (run.tf32("ncu_tensor_core_flops", b) / theory.work(b)).exactly(1)


@gpu_calls.claim(
    "The rule of tiles gives to the unit what each call executes that names its tile",
    numbers=("held_tiled", "held_on_gpu"),
)
def tiles_predict(p: Paper) -> Iterator[Statement]:
    yield from without_residual(p.gpu, p.tiled.values())
    yield from without_residual(p.tf32, p.held_tiled.values())


@cpu_calls.claim(
    "Rules written beforehand give the counts of held-out shapes to the unit",
    numbers=("held_calls",),
)
def predicted(p: Paper) -> Iterator[Statement]:
    return without_residual(p.cpu, calls_of("held_out", p.counts).values())


@cpu_calls.claim("Changed channels change the executed operations as blocks of eight predict")
def changed_as_predicted(p: Paper) -> Iterator[Statement]:
    return without_residual(p.changer, p.changed.values())


@cpu_calls.claim("Rules of the library explain the counts from which they were derived")
def rules_explain(p: Paper) -> Iterator[Statement]:
    return without_residual(p.cpu, calls_of("layer", p.counts).values())


@pair.claim(
    "Valgrind runs the code of a processor limited to AVX2, and no call that of a wider one"
)
def valgrind_as_limited(p: Paper) -> Iterator[Statement]:
    if p.second is None:
        return
    limited = p.second.dispatched(p.inputs, LIMITED, EMULATED)
    yield (p.second.dispatched(p.inputs) - limited).exactly(0)
    yield p.second.dispatched(p.inputs, NATIVE, EMULATED).exactly(0)


@timed.claim(
    "With AVX2, nine input channels take as long as sixteen, within a tenth",
    numbers=("nine_sixteen",),
)
def nine_as_sixteen(run: Run) -> Statement:
    return results.mean_ratio(run, _NINE_SIXTEEN).near(1, MARGIN)


@timed.claim("Each call takes as long as another one that fills the same blocks, within a tenth")
def same_blocks_same_time(run: Run) -> Iterator[Statement]:
    for ratio in results.all_same_blocks(run):
        yield ratio.near(1, MARGIN)


@timed.claim("With AVX2, nine input channels take 1.5 to 2 times as long as eight, in each pair")
def ninth_takes_longer(run: Run) -> Iterator[Statement]:
    low, high = NINTH
    for ratio in results.ninth_channel(run):
        yield ratio > low
        yield ratio < high


def _comparisons(
    claim: Callable[[Run], Iterator[Statement]], run: Run, decided: bool = False
) -> Quantity:
    """Count the comparisons of a claim, or only those that hold by themselves."""
    verdicts = [verdict_of(statement) for statement in claim(run)]
    return exact("comparisons", "1", verdicts.count("supported") if decided else len(verdicts))


timed.values(
    same_pairs=partial(_comparisons, same_blocks_same_time),
    same_decided=partial(_comparisons, same_blocks_same_time, decided=True),
    ninth_pairs=partial(_comparisons, ninth_takes_longer),
    ninth_decided=partial(_comparisons, ninth_takes_longer, decided=True),
)


@timed.claim(
    "With AVX-512 a ninth input channel takes what the formula says, so that nine take a tenth "
    "less than sixteen or better; a 17th output channel takes more than the formula says",
    numbers=("nine_sixteen_native",),
)
def wide_blocks_of_outputs(run: Run) -> Iterator[Statement]:
    if run.block() == WIDE_BLOCK:
        ninth = results.mean_ratio(run, results.compared_inputs(9, 8), NATIVE)
        yield (ninth / (9 / 8)).near(1, MARGIN)
        yield results.mean_ratio(run, _NINE_SIXTEEN, NATIVE) < 1 - MARGIN
        yield results.mean_ratio(run, results.compared_outputs(17, 16), NATIVE) > 17 / 16


# ------------------------------------------------------------------------- figures and tables


@gpu_calls.figure(key=True, height=2.1, same_axes=True)
def diagonal(p: Paper) -> Iterator[Panel]:
    return figures.diagonal(p)


@pair.figure("changed", height=3.5, same_axes=True, rows=2)
def changed_channels(p: Paper) -> Iterator[Panel]:
    yield from figures.changed_channels(p)
    if p.timed:
        yield from figures.times_by_outputs(p.timed)


@cpu_calls.table(wide=True)
def rules(p: Paper) -> Iterator[Mapping[str, Content]]:
    for when, rule, shape, batch, product in theory.RULES:
        call = ProfiledCall(shape, batch, "held_out")
        none = absent("recorded", "MAC", "not counted")
        work = p.counts.get(call)
        yield {
            "Calls": when,
            "Multiply-adds that Lackey counts": rule,
            "Example": f"{call.name}: {product}",
            "Counted": results.recorded_in(p.cpu, work) if p.cpu and work else none,
        }


@timed.table("times")
def times_and_work(run: Run) -> Iterator[Mapping[str, Content]]:
    for instructions in INSTRUCTIONS:
        block = run.block(instructions)
        for name, pairs in results.COMPARED.items():
            yield {
                "Compared": name,
                "Block": str(block),
                "Formula": theory.work_ratio(*pairs[0], 1),
                "Blocks": theory.work_ratio(*pairs[0], block),
                "Time": results.mean_ratio(run, pairs, instructions),
            }


@pair.table("predicted")
def predictions(p: Paper) -> Iterator[Mapping[str, Content]]:
    yield from _predicted_rows(p.cpu, calls_of("held_out", p.counts))
    yield from _predicted_rows(p.second, p.changed)


def _predicted_rows(
    run: Run | None, counts: Mapping[ProfiledCall, Reconciliation]
) -> Iterator[Mapping[str, Content]]:
    """Yield a row per call with its predicted and its recorded count."""
    for call, work in counts.items() if run else ():
        assert run is not None
        yield {
            "Shape, batch": call.name,
            "Theory (MAC)": exact("theory", "MAC", work.start.amount),
            "Predicted": exact("predicted", "MAC", work.end),
            "Counted": results.recorded_in(run, work),
        }


@printed.table(wide=True)
def account(p: Paper) -> Iterator[Mapping[str, Content]]:
    for name, outcome, audited in source.account(p.reported):
        yield {"Part of the source": name, "What became of it": outcome, "Its numbers": audited}


@study.shared_table()
def machines(p: Paper) -> Table:
    """Tell the sessions on one device apart by their times."""
    labelled = []
    for run in p.runs:
        start = f"(run of {run.stored.record.started[:16].replace('T', ' ')})"
        labelled.append(replace(run, label=run.label.replace(f"({run.key})", start)))
    return setup(labelled)
