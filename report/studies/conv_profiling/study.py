"""Declarations of conv_profiling: templates print a function's result by the function's name."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Final

from report.core.statistics.estimates import CONFIDENCE
from report.core.text.escape import markdown
from report.evidence.audit import count_by_verdict
from report.instruments import gates
from report.paper.machines import setup, short_name
from report.paper.study import Content, Part, Study
from report.paper.tables import Table
from report.quantity.expression import Quantity, Statement, exact_number, missing_number
from report.quantity.operations import largest, smallest
from report.quantity.verdicts import verdict_of
from report.studies.conv_profiling import figures, results, source, subject, theory
from report.studies.conv_profiling.results import Paper, exact_sums, mean_ratio, select_calls
from report.studies.conv_profiling.runs import EMULATED, LIMITED, NATIVE, ProfiledCall, Run
from report.studies.conv_profiling.subject import check_subject
from report.theory import terms

#: Channels of a block with AVX-512.
WIDE_BLOCK: Final = 16
#: The layer with one more input and output channel, on eight images.
WIDENED_CALL: Final = ProfiledCall(subject.PADDED, subject.FEW_IMAGES, "layer")

study = Study(Paper, check_subject, reconciliations=Paper.reconciliations, audits=Paper.audit)
findings = study.findings
# Parts with all data of the paper: on the source's numbers, calls on a CPU or a GPU, and two CPUs.
source_numbers: Part[Paper] = study.part("", kind="source")
cpu_calls: Part[Paper] = study.part("", kind="cpu")
gpu_calls: Part[Paper] = study.part("", kind="gpu")
cpus: Part[Paper] = study.part("", kind="pair")
# Runs: counts on two CPUs and a GPU, counts on a GPU with TF32 on, and times on a CPU.
cpu: Part[Run] = study.part("cpu")
second: Part[Run] = study.part("second", kind="pair")
gpu: Part[Run] = study.part("gpu")
tf32: Part[Run] = study.part("tf32", kind="gpu")
timed: Part[Run] = study.part("timed", kind="cpu")


def _device(run: Run) -> str:
    """Return the device's name, without the number of threads."""
    environment = run.stored.record.environment
    return markdown(environment.label.removesuffix(environment.threads_text))


source_numbers.texts(source_device=attrgetter("device"))
for _run in cpu, second, timed, gpu:
    _run.texts(**{_run.name: _device})


@timed.text()
def libraries(run: Run) -> str:
    build = run.stored.record.environment.torch.build
    return " and ".join(re.findall(r"(?:Math Kernel Library Version |MKL-DNN v)([\d.]+)", build))


def _counts(run: Run | None, numbers: Mapping[str, int]) -> dict[str, Quantity]:
    """Return numbers (id → number) as quantities of a run's record; absent without a run."""
    names = {id: id.replace("_", " ") for id in numbers}
    if run is None:
        return {id: missing_number(names[id], "1", "no such call was counted") for id in numbers}
    return {id: exact_number(names[id], "1", number, run.file) for id, number in numbers.items()}


@source_numbers.mapping()
def _shapes(p: Paper) -> dict[str, Quantity]:
    return {
        "in_channels": theory.C_IN,
        "out_channels": theory.C_OUT,
        "in_extent": theory.EXTENT,
        "macs": theory.MULTIPLY_ADDS,
        "source_batch": exact_number("batch", "1", p.reported.count("profiled_batch"), p.file),
        "source_kept": p.printed("size_increase"),
        "kernels": exact_number("kernels", "1", p.reported.count("profiled_kernels"), p.file),
        "shown_batch": exact_number("batch", "1", subject.FEW_IMAGES),
        **{id: exact_number(id, "1", p.reported.count(id), p.file) for id in source.TILE},
        "audited": exact_number("audited numbers", "1", len(p.audit()), p.file),
        "differing": exact_number("differing", "1", count_by_verdict(p.audit())["differs"], p.file),
    }


@source_numbers.mapping()
def _legible(p: Paper) -> dict[str, Quantity]:
    """Return what follows from the counters that can be read in the source's picture."""
    counters = p.reported.table("kernels").column("legible")
    _, copy_counter, bias_counter = (cell for cell in counters if isinstance(cell, float))
    weights = p.reported.count("parameters") - p.reported.count("output_channels")
    biased = exact_number("counter of the bias", "1", round(bias_counter), p.file)
    return {
        "copied": exact_number("counter of the weights' copy", "1", copy_counter, p.file),
        "weights": exact_number("weights", "1", weights, p.file),
        "partitions": exact_number("partitions", "1", round(weights / copy_counter), p.file),
        "biased": biased,
        "counted_images": biased / theory.OUTPUTS,
    }


@source_numbers.mapping("measured")
def _memory(p: Paper) -> dict[str, Quantity]:
    sizes: dict[str, Quantity] = {
        "source_allocated": p.printed("allocation_size"),
        "source_workspace": p.workspace,
    }
    for name in "estimated_memory", "measured_memory", "memory_mb":
        size = round(source.MB * p.reported.value(name).number)
        sizes[f"source_{name}"] = exact_number(name.replace("_", " "), "B", size, p.file)
    return sizes


@cpu_calls.mapping()
def _predictions(p: Paper) -> dict[str, Quantity]:
    held_out = select_calls("held_out", p.cpu_counts)
    counts = {
        "known_shapes": len({call.shape for call in select_calls("layer", p.cpu_counts)}),
        "held_shapes": len({call.shape for call in held_out}),
        "held_calls": len(held_out),
        "least_inputs": min((call.shape.inputs for call in p.second_counts), default=0),
    }
    changed = _counts(p.second, {"changed_calls": len(p.changed_counts)})
    return {**_counts(p.cpu if held_out else None, counts), **changed}


@cpu_calls.mapping("measured")
def _ratios(p: Paper) -> dict[str, Quantity]:
    none: Quantity = missing_number("counted ÷ theory", "1", "nothing was counted")
    ratios = [results.over_theory(p.cpu, counts) for counts in p.cpu_counts.values() if p.cpu]
    ends = ratios or [none]
    widened = p.gpu_counts.get(WIDENED_CALL)
    shown_ratio = results.over_theory(p.gpu, widened) if p.gpu and widened else none
    return {"ratio_least": smallest(*ends), "ratio_most": largest(*ends), "shown_over": shown_ratio}


cpu.values(block=Run.native_block)
second.values(second_block=Run.native_block)
for _suffix, _instructions in ("", subject.INSTRUCTIONS[0]), ("_native", NATIVE):
    for _name, (_, _pairs) in results.COMPARED.items():
        _ratio = partial(mean_ratio, pairs=_pairs, instructions=_instructions)
        timed.values(**{f"{_name}{_suffix}": _ratio})
    timed.values(**{f"spread{_suffix}": partial(results.pooled_ratio, instructions=_instructions)})
    timed.values(**{f"off_line{_suffix}": partial(results.line_error, instructions=_instructions)})
timed.values(fixed_native=partial(results.fixed_share, instructions=NATIVE))
timed.values(wider_work=lambda run: theory.work_ratio(*results.WIDENED_EXAMPLE[0], WIDE_BLOCK))
for _name, _pair in zip(("eight", "nine", "sixteen"), results.TWENTY_FIFTH, strict=True):
    timed.values(**{f"step_{_name}": partial(results.step_over_native, pair=_pair)})


@cpu_calls.mapping()
def _answers(p: Paper) -> dict[str, Quantity]:
    """Count pairs of calls that fill the same blocks, and those whose times are equal."""
    ratios = results.ratios_in_same_blocks(p.timed) if p.timed else ()
    verdicts = [verdict_of(ratio.near(1, results.MARGIN)) for ratio in ratios]
    counts = {"same_pairs": len(ratios), "same_decided": verdicts.count("supported")}
    return _counts(p.timed, counts)


study.values("percent", confidence=exact_number("confidence, chosen", "1", CONFIDENCE))
study.values(gap=exact_number("least ratio of two groups, chosen", "1", gates.BIMODAL_RATIO))


# Runs that timed the widened example: on a newer CPU with one and two threads, and on an older one.
for _name in "newer", "older", "threaded":
    _part: Part[Run] = study.part(_name, kind="pair")
    _part.texts(**{_name: short_name})
    _part.values(**{f"wider_{_name}": results.widened_ratio})
    for _policy in "default", "jemalloc":
        _part.values(**{f"wider_{_name}_{_policy}": partial(results.widened_ratio, policy=_policy)})


@gpu_calls.mapping()
def _tiles(p: Paper) -> dict[str, Quantity]:
    calls = len(p.gpu.calls) if p.gpu else 0
    held_out = sum(call.subject == "held_out" for call in p.tf32.calls) if p.tf32 else 0
    return {
        **_counts(p.gpu, {"tiled_cases": len(p.gpu_counts), "own_calls": calls}),
        **_counts(p.tf32, {"held_on_gpu": held_out, "held_tiled": len(p.tf32_counts)}),
    }


tf32.values(large_seen=partial(Run.over_estimate, batch=subject.SHOWN_BATCH))
tf32.values(small_seen=partial(Run.over_estimate, batch=1))


@source_numbers.claim("The source's memory of a batch is that of one image times its size")
def parameters_per_image(p: Paper) -> Statement:
    kept_bytes = p.printed("allocation_size") - p.workspace
    return (kept_bytes / theory.source_memory(p.reported.count("profiled_batch"))).exactly(1)


@source_numbers.claim("The source's printed product is the work of one image times its batch size")
def batch_in_product(p: Paper) -> Statement:
    work = exact_number("printed result", "FLOP", p.reported.count("flops"), p.file)
    return (work / theory.work(1)).exactly(p.reported.count("printed_batch"))


@source_numbers.claim("The source's operator table is of one image")
def table_of_one_image(p: Paper) -> Statement:
    return (p.printed("size_increase") / theory.OUTPUT_BYTES).exactly(1)


@source_numbers.claim("The source's memory beyond its output is freed within the call")
def temporary_storage(p: Paper) -> Statement:
    output_bytes = p.reported.count("profiled_batch") * theory.OUTPUT_BYTES
    return (p.printed("allocation_size") - output_bytes - p.workspace).exactly(0)


@source_numbers.claim("The source's layer fills the tiles that its log names")
def source_tile_fits(p: Paper) -> Statement:
    layer = subject.BASE.layer(p.reported.count("profiled_batch"))
    positions, channels, products = map(p.reported.count, source.TILE)
    padding = terms.tile_padding(layer, (positions, channels, products), "the source's log")
    return exact_number(padding.name, "MAC", padding.amount, p.file).exactly(0)


@tf32.claim("With TF32 both kinds of counters show to the unit what they can see")
def seen_as_predicted(run: Run) -> Iterator[Statement]:
    for batch in subject.LARGE_BATCHES:
        yield (run.seen_operations(batch) / theory.seen_operations(batch)).exactly(1)
        yield run.tensor_core_share(batch).exactly(1)


@tf32.claim(
    "With TF32 the source's counters show half of its estimate of a batch of 64 or 512, and 64 "
    "times its estimate of a batch of one or eight, within a tenth",
    numbers=("large_seen", "small_seen"),
)
def both_trends(run: Run) -> Iterator[Statement]:
    for batches, share in (subject.LARGE_BATCHES, 1 / 2), (subject.SMALL_BATCHES, 64):
        for batch in batches:
            yield (run.over_estimate(batch) / share).near(1, results.MARGIN)


@gpu_calls.claim(
    "The rule of tiles gives to the unit what each call executes that names its tile",
    numbers=("held_tiled", "held_on_gpu"),
)
def tiles_predict(p: Paper) -> Iterator[Statement]:
    yield from exact_sums(p.gpu, p.gpu_counts.values())
    yield from exact_sums(p.tf32, p.tf32_counts.values())


@cpu_calls.claim(
    "Rules written beforehand give the counts of held-out shapes to the unit",
    numbers=("held_calls",),
)
def predicted(p: Paper) -> Iterator[Statement]:
    return exact_sums(p.cpu, select_calls("held_out", p.cpu_counts).values())


@cpu_calls.claim("Changed channels change the executed operations as blocks of eight predict")
def changed_as_predicted(p: Paper) -> Iterator[Statement]:
    return exact_sums(p.second or p.cpu, p.changed_counts.values())


@cpus.claim("Valgrind runs the code of a CPU limited to AVX2, and in no call that of a wider one")
def valgrind_as_limited(p: Paper) -> Iterator[Statement]:
    if p.second:
        limited = p.second.same_code(p.inputs, LIMITED, EMULATED)
        yield (p.second.same_code(p.inputs) - limited).exactly(0)
        yield p.second.same_code(p.inputs, NATIVE, EMULATED).exactly(0)


@timed.claim(
    "With AVX2, nine input channels take as long as sixteen, within a tenth",
    numbers=("nine_sixteen",),
)
def nine_as_sixteen(run: Run) -> Statement:
    return mean_ratio(run, results.NINE_SIXTEEN).near(1, results.MARGIN)


@timed.claim(
    "With AVX2, nine input channels take one and a half to twice the time of eight",
    numbers=("nine_eight",),
)
def nine_over_eight(run: Run) -> Statement:
    return mean_ratio(run, results.NINE_EIGHT).near(1.75, within=0.25)


@timed.claim("Calls that fill the same blocks take equally long, within a tenth")
def same_blocks_same_time(run: Run) -> list[Statement]:
    return [ratio.near(1, results.MARGIN) for ratio in results.ratios_in_same_blocks(run)]


@timed.claim(
    "A seventeenth output channel, and one channel more on both sides of the example, take longer "
    "than the formula says, the first less than blocks predict, with AVX2 and all instructions",
    numbers=("seventeen", "seventeen_native"),
)
def padding_takes_time(run: Run) -> Iterator[Statement]:
    for instructions in subject.INSTRUCTIONS:
        for pairs in results.SEVENTEEN_SIXTEEN, results.WIDENED_EXAMPLE:
            yield results.above_formula(run, pairs, instructions)
        predicted = theory.work_ratio(*results.SEVENTEEN_SIXTEEN[0], run.block(instructions))
        yield mean_ratio(run, results.SEVENTEEN_SIXTEEN, instructions) / predicted < 1


@timed.claim(
    "With AVX2, where it opens a block, a twenty-fifth output channel lengthens a call more than "
    "with AVX-512, with which it takes as long as twenty-four, within a tenth",
    numbers=("twenty_fifth",),
)
def step_moves(run: Run) -> Iterator[Statement]:
    if run.block() == WIDE_BLOCK:
        for pair in results.TWENTY_FIFTH:
            yield results.step_over_native(run, pair) > 1
        yield mean_ratio(run, results.TWENTY_FIFTH, NATIVE).near(1, results.MARGIN)


@timed.claim(
    "With AVX-512 nine input channels take at least a tenth less than sixteen, and one channel "
    "more on both sides of the example takes what blocks say, within a tenth",
    numbers=("nine_sixteen_native",),
)
def wide_blocks_of_outputs(run: Run) -> Iterator[Statement]:
    if run.block() == WIDE_BLOCK:
        yield mean_ratio(run, results.NINE_SIXTEEN, NATIVE) < 1 - results.MARGIN
        yield results.as_blocks(run, results.WIDENED_EXAMPLE, NATIVE)


@tf32.table("seen")
def seen_by_counters(run: Run) -> Iterator[Mapping[str, Content]]:
    for batch in (*subject.SMALL_BATCHES, *subject.LARGE_BATCHES):
        yield {
            "Images": str(batch),
            "Tensor cores ÷ theory": run.tensor_core_share(batch),
            "Counters ÷ theory": run.seen_operations(batch) / theory.work(batch),
            "Counters ÷ estimate": run.over_estimate(batch),
        }


gpu_calls.figure(height=1.95, same_axes=True)(figures.diagonal)
timed.figure("changed", key=True, height=2.6)(figures.one_channel_more)


@cpu_calls.table(wide=True)
def rules(p: Paper) -> Iterator[Mapping[str, Content]]:
    for when, rule, shape, batch, product in theory.RULES:
        call = ProfiledCall(shape, batch, "held_out")
        counts = p.cpu_counts.get(call)
        none = missing_number("recorded", "MAC", "not counted")
        yield {
            "Calls": when,
            "Multiply-adds that Lackey counts": rule,
            "Example": f"{call.name}: {product}",
            "Counted": results.counted(p.cpu, counts) if p.cpu and counts else none,
        }


@timed.table("times", wide=True)
def times_and_work(run: Run) -> Iterator[Mapping[str, Content]]:
    for name, pairs, instructions in results.table_rows():
        compared = run, pairs, instructions
        yield {
            "Channels": name,
            "Block": str(run.block(instructions)),
            "Work by formula": theory.work_ratio(*pairs[0], 1),
            "Work in blocks": theory.work_ratio(*pairs[0], run.block(instructions)),
            "Time": mean_ratio(*compared),
            "As work in blocks?": results.answer(results.as_blocks(*compared)),
            "More than the formula?": results.answer(results.above_formula(*compared)),
        }


@timed.table("runs", wide=True)
def times_in_each_run(run: Run) -> Iterator[Mapping[str, Content]]:
    columns = {"Pooled": run}
    columns |= {f"Run {number}": single for number, single in enumerate(run.single_runs, 1)}
    columns["With disturbed"] = run.with_disturbed
    for name, pairs, instructions in results.table_rows():
        ratios = {head: mean_ratio(item, pairs, instructions) for head, item in columns.items()}
        yield {"Channels": name, "Block": str(run.block(instructions)), **ratios}


#: Rows that the table of machines lacks to remain narrow; the records hold them.
_OMITTED_ROWS: Final = ("Device", "Identity", "Vector extensions", "Memory", "Caches", "Arithmetic")


@study.table()
def machines(p: Paper) -> Table:
    """Tabulate the machines; the label of a run has the time when it began instead of a key."""
    labelled_runs = []
    for run in p.runs:
        if run not in (p.newer, p.older, p.threaded):
            start = f"(run of {run.stored.record.started[:16].replace('T', ' ')})"
            mark = "(timed)" if run is p.timed else start
            labelled_runs.append(replace(run, label=run.label.replace(f"({run.key})", mark)))
    table = setup(labelled_runs)
    return replace(table, rows=tuple(row for row in table.rows if row[0] not in _OMITTED_ROWS))
