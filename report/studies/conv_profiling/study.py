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
from report.studies.conv_profiling import figures, results, runs, source, subject, theory
from report.studies.conv_profiling.results import Paper, mean_ratio, select_calls, sums_are_exact
from report.studies.conv_profiling.runs import NATIVE, ProfiledCall, Run
from report.studies.conv_profiling.subject import check_subject
from report.theory import terms

#: Channels of a block with AVX-512.
WIDE_BLOCK: Final = 16
#: The layer with one more input and output channel, on eight images.
WIDENED_CALL: Final = ProfiledCall(subject.WIDENED_SHAPE, subject.TIMED_BATCH, "layer")

study = Study(Paper, check_subject, reconciliations=Paper.reconciliations, audits=Paper.audit)
findings = study.findings
# Parts that read all data of the paper, for results about the source's numbers, about calls on a
# CPU or a GPU, and about two CPUs.
source_numbers: Part[Paper] = study.part("", kind="source")
cpu_calls: Part[Paper] = study.part("", kind="cpu")
gpu_calls: Part[Paper] = study.part("", kind="gpu")
cpus: Part[Paper] = study.part("", kind="pair")
# Parts that read one run: counts on two CPUs (``cpu``, ``second``), counts on a GPU in float32 and
# with TF32 on, and times on a CPU.
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
    """Return numbers (id → number) as quantities of a run's record; missing without a run."""
    names = {id: id.replace("_", " ") for id in numbers}
    if run is None:
        return {id: missing_number(names[id], "1", "no such call was counted") for id in numbers}
    return {id: exact_number(names[id], "1", number, run.file) for id, number in numbers.items()}


@source_numbers.mapping()
def _shapes(paper: Paper) -> dict[str, Quantity]:
    count, differing_count = paper.reported.count, count_by_verdict(paper.audit())["differs"]
    return {
        "in_channels": theory.C_IN,
        "out_channels": theory.C_OUT,
        "in_extent": theory.EXTENT,
        "macs": theory.MULTIPLY_ADDS,
        "source_batch": exact_number("batch", "1", count("profiled_batch"), paper.file),
        "source_kept": paper.printed("size_increase"),
        "kernels": exact_number("kernels", "1", count("profiled_kernels"), paper.file),
        "shown_batch": exact_number("batch", "1", subject.TIMED_BATCH),
        **{id: exact_number(id, "1", count(id), paper.file) for id in source.TILE_IDS},
        "audited": exact_number("audited numbers", "1", len(paper.audit()), paper.file),
        "differing": exact_number("differing", "1", differing_count, paper.file),
    }


@source_numbers.mapping()
def _legible(paper: Paper) -> dict[str, Quantity]:
    """Return numbers that follow from the two legible counters in the source's picture."""
    counters = paper.reported.table("kernels").column("legible")
    _, copy_counter, bias_counter = (cell for cell in counters if isinstance(cell, float))
    weights = paper.reported.count("parameters") - paper.reported.count("output_channels")
    biased = exact_number("counter of the bias", "1", round(bias_counter), paper.file)
    return {
        "copied": exact_number("counter of copied weights", "1", copy_counter, paper.file),
        "weights": exact_number("weights", "1", weights, paper.file),
        "partitions": exact_number("partitions", "1", round(weights / copy_counter), paper.file),
        "biased": biased,
        "counted_images": biased / theory.OUTPUTS,
    }


@source_numbers.mapping("measured")
def _memory(paper: Paper) -> dict[str, Quantity]:
    sizes: dict[str, Quantity] = {
        "source_allocated": paper.printed("allocation_size"),
        "source_workspace": paper.workspace,
    }
    for name in "estimated_memory", "measured_memory", "memory_mb":
        size = round(source.MB * paper.reported.value(name).number)
        sizes[f"source_{name}"] = exact_number(name.replace("_", " "), "B", size, paper.file)
    return sizes


@cpu_calls.mapping()
def _predictions(paper: Paper) -> dict[str, Quantity]:
    held_out = select_calls("held_out", paper.cpu_counts)
    counts = {
        "known_shapes": len({call.shape for call in select_calls("layer", paper.cpu_counts)}),
        "held_shapes": len({call.shape for call in held_out}),
        "held_calls": len(held_out),
        "least_inputs": min((call.shape.inputs for call in paper.second_counts), default=0),
    }
    changed = _counts(paper.second, {"changed_calls": len(paper.changed_counts)})
    return {**_counts(paper.cpu if held_out else None, counts), **changed}


@cpu_calls.mapping("measured")
def _ratios(paper: Paper) -> dict[str, Quantity]:
    none: Quantity = missing_number("counted ÷ theory", "1", "nothing was counted")
    cpu, reconciled = paper.cpu, paper.cpu_counts.values()
    ratios = [results.ratio_to_theory(cpu, counts) for counts in reconciled if cpu]
    ends = ratios or [none]
    widened = paper.gpu_counts.get(WIDENED_CALL)
    shown_ratio = results.ratio_to_theory(paper.gpu, widened) if paper.gpu and widened else none
    return {"ratio_least": smallest(*ends), "ratio_most": largest(*ends), "shown_over": shown_ratio}


cpu.values(block=Run.native_block)
second.values(second_block=Run.native_block)
for _suffix, _instructions in ("", subject.INSTRUCTIONS[0]), ("_native", NATIVE):
    for _name, (_, _pairs) in results.COMPARED.items():
        _ratio = partial(mean_ratio, pairs=_pairs, instructions=_instructions)
        timed.values(**{f"{_name}{_suffix}": _ratio})
    timed.values(**{f"spread{_suffix}": partial(results.pooled_ratio, instructions=_instructions)})
    _factor = partial(results.largest_factor_from_line, instructions=_instructions)
    timed.values(**{f"off_line{_suffix}": _factor})
timed.values(fixed_native=partial(results.fixed_share, instructions=NATIVE))
timed.values(wider_work=lambda run: theory.work_ratio(*results.WIDENED_PAIR[0], WIDE_BLOCK))
for _name, _pair in zip(("eight", "nine", "sixteen"), results.TWENTY_FIFTH, strict=True):
    timed.values(**{f"step_{_name}": partial(results.avx2_step_to_native, pair=_pair)})


@cpu_calls.mapping()
def _answers(paper: Paper) -> dict[str, Quantity]:
    """Count pairs of calls that fill the same blocks, and such pairs with equal times."""
    ratios = results.ratios_in_same_blocks(paper.timed) if paper.timed else ()
    verdicts = [verdict_of(ratio.near(1, results.MARGIN)) for ratio in ratios]
    counts = {"same_pairs": len(ratios), "same_decided": verdicts.count("supported")}
    return _counts(paper.timed, counts)


study.values("percent", confidence=exact_number("confidence, chosen", "1", CONFIDENCE))
study.values(gap=exact_number("least ratio of two groups, chosen", "1", gates.BIMODAL_RATIO))


# Runs that timed the widened example: on a newer CPU (``threaded`` with two threads), and on an
# older CPU.  Each gives the ratio of times for each policy of the allocator.
for _name in "newer", "older", "threaded":
    _part: Part[Run] = study.part(_name, kind="pair")
    _part.texts(**{_name: short_name})
    _part.values(**{f"wider_{_name}": results.widened_ratio})
    for _policy in "default", "jemalloc":
        _part.values(**{f"wider_{_name}_{_policy}": partial(results.widened_ratio, policy=_policy)})


@gpu_calls.mapping()
def _tiles(paper: Paper) -> dict[str, Quantity]:
    calls = len(paper.gpu.calls) if paper.gpu else 0
    held_out = sum(call.subject == "held_out" for call in paper.tf32.calls) if paper.tf32 else 0
    return {
        **_counts(paper.gpu, {"tiled_cases": len(paper.gpu_counts), "own_calls": calls}),
        **_counts(paper.tf32, {"held_on_gpu": held_out, "held_tiled": len(paper.tf32_counts)}),
    }


tf32.values(large_seen=partial(Run.ratio_to_estimate, batch=subject.SOURCE_BATCH))
tf32.values(small_seen=partial(Run.ratio_to_estimate, batch=1))


@source_numbers.claim("The source's memory of a batch is that of one image times its size")
def parameters_per_image(paper: Paper) -> Statement:
    kept_bytes = paper.printed("allocation_size") - paper.workspace
    return (kept_bytes / theory.source_memory(paper.reported.count("profiled_batch"))).exactly(1)


@source_numbers.claim("The source's printed product is the work of one image times its batch size")
def batch_in_product(paper: Paper) -> Statement:
    work = exact_number("printed result", "FLOP", paper.reported.count("flops"), paper.file)
    return (work / theory.work(1)).exactly(paper.reported.count("printed_batch"))


@source_numbers.claim("The source's operator table is of one image")
def table_of_one_image(paper: Paper) -> Statement:
    return (paper.printed("size_increase") / theory.OUTPUT_BYTES).exactly(1)


@source_numbers.claim("The source's memory beyond its output is freed within the call")
def temporary_storage(paper: Paper) -> Statement:
    output_bytes = paper.reported.count("profiled_batch") * theory.OUTPUT_BYTES
    return (paper.printed("allocation_size") - output_bytes - paper.workspace).exactly(0)


@source_numbers.claim("The source's layer fills the tiles that its log names")
def source_tile_fits(paper: Paper) -> Statement:
    layer = subject.EXAMPLE_SHAPE.layer(paper.reported.count("profiled_batch"))
    positions, channels, products = map(paper.reported.count, source.TILE_IDS)
    padding = terms.tile_padding(layer, (positions, channels, products), "the source's log")
    return exact_number(padding.name, "MAC", padding.amount, paper.file).exactly(0)


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
            yield (run.ratio_to_estimate(batch) / share).near(1, results.MARGIN)


@gpu_calls.claim(
    "The rule of tiles gives to the unit what each call executes that names its tile",
    numbers=("held_tiled", "held_on_gpu"),
)
def tiles_predict(paper: Paper) -> Iterator[Statement]:
    yield from sums_are_exact(paper.gpu, paper.gpu_counts.values())
    yield from sums_are_exact(paper.tf32, paper.tf32_counts.values())


@cpu_calls.claim(
    "Rules written beforehand give the counts of held-out shapes to the unit",
    numbers=("held_calls",),
)
def predicted(paper: Paper) -> Iterator[Statement]:
    return sums_are_exact(paper.cpu, select_calls("held_out", paper.cpu_counts).values())


@cpu_calls.claim("Changed channels change the executed operations as blocks of eight predict")
def changed_as_predicted(paper: Paper) -> Iterator[Statement]:
    return sums_are_exact(paper.second or paper.cpu, paper.changed_counts.values())


@cpus.claim("Valgrind runs the code of a CPU limited to AVX2, and in no call that of a wider one")
def valgrind_as_limited(paper: Paper) -> Iterator[Statement]:
    if paper.second:
        count_same = partial(paper.second.calls_with_same_code, paper.inputs)
        limited_count = count_same(runs.LIMITED_TO_AVX2, runs.UNDER_VALGRIND)
        yield (count_same() - limited_count).exactly(0)
        yield count_same(NATIVE, runs.UNDER_VALGRIND).exactly(0)


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
        for pairs in results.SEVENTEEN_SIXTEEN, results.WIDENED_PAIR:
            yield results.exceeds_formula(run, pairs, instructions)
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
            yield results.avx2_step_to_native(run, pair) > 1
        yield mean_ratio(run, results.TWENTY_FIFTH, NATIVE).near(1, results.MARGIN)


@timed.claim(
    "With AVX-512 nine input channels take at least a tenth less than sixteen, and one channel "
    "more on both sides of the example takes what blocks say, within a tenth",
    numbers=("nine_sixteen_native",),
)
def wide_blocks_of_outputs(run: Run) -> Iterator[Statement]:
    if run.block() == WIDE_BLOCK:
        yield mean_ratio(run, results.NINE_SIXTEEN, NATIVE) < 1 - results.MARGIN
        yield results.equals_work_in_blocks(run, results.WIDENED_PAIR, NATIVE)


@tf32.table("seen")
def seen_by_counters(run: Run) -> Iterator[Mapping[str, Content]]:
    for batch in (*subject.SMALL_BATCHES, *subject.LARGE_BATCHES):
        yield {
            "Images": str(batch),
            "Tensor cores ÷ theory": run.tensor_core_share(batch),
            "Counters ÷ theory": run.seen_operations(batch) / theory.work(batch),
            "Counters ÷ estimate": run.ratio_to_estimate(batch),
        }


gpu_calls.figure(height=1.95, same_axes=True)(figures.diagonal)
timed.figure("changed", key=True, height=2.6)(figures.one_channel_more)


@cpu_calls.table(wide=True)
def rules(paper: Paper) -> Iterator[Mapping[str, Content]]:
    for when, rule, shape, batch, product in theory.RULES:
        call = ProfiledCall(shape, batch, "held_out")
        counts = paper.cpu_counts.get(call)
        none = missing_number("recorded", "MAC", "not counted")
        yield {
            "Calls": when,
            "Multiply-adds that Lackey counts": rule,
            "Example": f"{call.name}: {product}",
            "Counted": results.counted_operations(paper.cpu, counts)
            if paper.cpu and counts
            else none,
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
            "As work in blocks?": results.answer_text(results.equals_work_in_blocks(*compared)),
            "More than the formula?": results.answer_text(results.exceeds_formula(*compared)),
        }


@timed.table("runs", wide=True)
def times_in_each_run(run: Run) -> Iterator[Mapping[str, Content]]:
    columns = {"Pooled": run}
    columns |= {f"Run {number}": single for number, single in enumerate(run.single_runs, 1)}
    columns["With disturbed"] = run.with_disturbed
    for name, pairs, instructions in results.table_rows():
        ratios = {head: mean_ratio(item, pairs, instructions) for head, item in columns.items()}
        yield {"Channels": name, "Block": str(run.block(instructions)), **ratios}


#: Rows omitted from the table of machines to keep it small; the records contain them.
_OMITTED_ROWS: Final = ("Device", "Identity", "Vector extensions", "Memory", "Caches", "Arithmetic")


@study.table()
def machines(paper: Paper) -> Table:
    """Tabulate the machines; labels have the start of a run, or "timed", instead of its key."""
    labelled_runs = []
    for run in paper.runs:
        if run not in (paper.newer, paper.older, paper.threaded):
            start = f"(run of {run.stored.record.started[:16].replace('T', ' ')})"
            mark = "(timed)" if run is paper.timed else start
            labelled_runs.append(replace(run, label=run.label.replace(f"({run.key})", mark)))
    table = setup(labelled_runs)
    return replace(table, rows=tuple(row for row in table.rows if row[0] not in _OMITTED_ROWS))
