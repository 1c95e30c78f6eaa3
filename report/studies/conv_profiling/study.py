"""All that the paper of conv_profiling prints."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from statistics import median
from typing import Final

from figures.panels import Curve, Panel, Points, Scaling
from report.core.missing import Missing
from report.core.text.escape import markdown
from report.evidence.audit import Check
from report.evidence.executed import residual
from report.paper.findings import Inputs
from report.paper.machines import setup, short_name
from report.paper.plots import as_figure
from report.paper.study import Content, Part, Study
from report.paper.tables import Table
from report.quantity.expression import Quantity, Statement, absent, exact, recorded
from report.quantity.operations import largest, smallest
from report.studies.conv_profiling import runs as results
from report.studies.conv_profiling import source, theory
from report.studies.conv_profiling.runs import (
    EMULATED,
    LIMITED,
    NATIVE,
    ProfiledCall,
    Run,
    kernels_of,
    tile_of,
)
from report.studies.conv_profiling.subject import BASE, SHOWN_BATCH, Dimensions, check_subject
from report.theory.convolution_workspaces import MANY_IMAGES, SCRATCHPAD_ALIGNMENT, SMALL_INPUT
from report.theory.reconciliation import Reconciliation
from report.theory.terms import COUNTED_WIDTH, as_flops, theory_macs
from report.theory.work import round_up

#: The call whose operations are shown term by term, and one that runs by Fourier transforms.
SHOWN: Final = ProfiledCall(Dimensions(33, 65, 3, 28), 8, "layer")
FOURIER: Final = ProfiledCall(Dimensions(32, 64, 5, 28), 1, "layer")
#: Changed calls that sentences name; the held-out one has nine and 19 channels.
CHANGES: Final = {
    "one_fits": ProfiledCall(Dimensions(8, 19, 3, 21), 8, "changed"),
    "just_not": ProfiledCall(Dimensions(8, 17, 3, 21), 8, "changed"),
}
#: The network's image in the held-out call whose channels are changed.
_DRAWN_IMAGE: Final = 21
#: Savings below this share of theory are no finding.
MARGIN: Final = 0.1
#: Batches that a GPU computes on its tensor cores if TF32 is on.
ON_TENSOR_CORES: Final = (SHOWN_BATCH, 512)


class Paper:
    """Runs in their roles, the source, and reconciliations of theory with records."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.reported, self.file = inputs, inputs.reported, inputs.reported_file
        runs = inputs.runs(Run)
        self.runs = tuple(runs.values())
        self.cpu, self.second, self.gpu = (runs.get(role) for role in ("cpu", "second", "gpu"))
        #: Run on a GPU with TF32 on, which may be in another record.
        self.tf32 = next((r for r in self.runs if not r.workspace(SHOWN_BATCH).missing), None)
        #: Reconciliations of theory or estimates with records: the source, lackey, peaks, counters.
        self.estimate = results.source_estimate(self.reported)
        self.counts = results.executed(self.cpu) if self.cpu else {}
        self.backward = list(results.backward(self.cpu)) if self.cpu else []
        self.peaks, self.second_peaks = (
            results.peaks(run) if run else {} for run in (self.cpu, self.second)
        )
        self.second_counts = results.executed(self.second) if self.second else {}
        #: Held-out shapes whose channels fill blocks or just do not, and the run that counted them.
        self.changer = self.second or self.cpu
        counts = self.second_counts if self.second else self.counts
        self.changed = results.calls_of("changed", counts)
        self.tiled = results.tiled(inputs, self.gpu) if self.gpu else {}
        #: Calls in shapes that were chosen after the rule of tiles had been written.
        self.held_tiled = (
            results.calls_of("held_out", results.tiled(inputs, self.tf32)) if self.tf32 else {}
        )
        #: Calls of the kernel that names no tile, with the record that counted them.
        self.unnamed = []
        for run, subject in ((self.gpu, "layer"), (self.tf32, "held_out")):
            if run:
                calls = results.calls_of(subject, results.tiled(inputs, run, named=False))
                self.unnamed.append((run, calls))

    def audit(self) -> tuple[Check, ...]:
        """Return the checks of the source's numbers."""
        return tuple(source.audit(self.reported))

    def printed(self, name: str) -> Quantity:
        """Return a size of the source's table (B): of the convolution, or of its ``workspace``."""
        operator = source.WORKSPACE if name == "workspace" else source.CONVOLUTION
        column = "self_allocation_size" if name == "workspace" else name
        size = source.operator_bytes(self.reported, operator, column)
        return exact(f"source: {name.replace('_', ' ')}", "B", size, self.file)


def _count(run: Run | None, name: str, number: int | Missing) -> Quantity:
    """Count things in the record of a run."""
    return recorded(name, "1", number, run.file) if run else absent(name, "1", "no run is there")


def _counts(run: Run | None, numbers: Mapping[str, int | Missing]) -> dict[str, Quantity]:
    """Count things in the record of a run, by the ids of the values."""
    return {id: _count(run, id.replace("_", " "), number) for id, number in numbers.items()}


def _reconciliations(p: Paper) -> Iterator[Reconciliation]:
    yield p.estimate
    counted = p.counts, p.second_counts, p.peaks, p.second_peaks, p.tiled, p.held_tiled
    for by_call in (*counted, *(calls for _, calls in p.unnamed)):
        yield from by_call.values()
    yield from p.backward


study = Study(Paper, check_subject, reconciliations=_reconciliations, audits=Paper.audit)
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


# -------------------------------------------------------------------------------------- texts


@printed.text()
def source_device(p: Paper) -> str:
    return markdown(p.reported.device)


@printed.text()
def source_software(p: Paper) -> str:
    return markdown(p.reported.software)


def _model(run: Run) -> str:
    """Return the GPU's own name, since two of our records are of one model."""
    gpu = run.stored.record.environment.gpu
    return markdown(gpu.model if gpu else run.short)


def _folder(run: Run) -> str:
    """Return the folder of the attachments of a run."""
    return f"data/{run.file.removesuffix('.json')}"


cpu.texts(cpu=short_name)
second.texts(second=short_name)
gpu.texts(gpu=_model, trace_folder=_folder)


# ------------------------------------------------------------------------------ theory, source


def _retained_outputs(p: Paper) -> Quantity:
    """Compute how many images' outputs the source's call retains."""
    return p.printed("size_increase") / theory.OUTPUT_BYTES


@printed.mapping()
def _shapes(p: Paper) -> dict[str, Quantity]:
    return {
        "in_channels": theory.C_IN,
        "out_channels": theory.C_OUT,
        "in_extent": theory.EXTENT,
        "macs": theory.MULTIPLY_ADDS,
        "parameters": theory.PARAMETERS,
        "outputs": theory.OUTPUTS,
        "source_batch": exact("batch", "1", p.reported.count("profiled_batch"), p.file),
        "source_kept": p.printed("size_increase"),
        "table_batch": _retained_outputs(p),
        "kernels": exact("kernels", "1", p.reported.count("profiled_kernels"), p.file),
        "alignment": exact("alignment", "B", SCRATCHPAD_ALIGNMENT),
        "small_input": exact("largest unfolded input", "1", SMALL_INPUT),
        "many_images": exact("images that go to oneDNN", "1", MANY_IMAGES),
    }


@printed.mapping("measured")
def _memory(p: Paper) -> dict[str, Quantity]:
    measured = round(source.MB * p.reported.value("measured_memory").number)
    return {
        "source_estimate": exact("estimate", "B", p.estimate.start.amount, p.file),
        "source_allocated": p.printed("allocation_size"),
        "source_workspace": p.printed("workspace"),
        "square": exact("side of a square", "1", theory.SQUARE),
        "largest_square": exact("largest square tried", "1", theory.LARGEST_SQUARE),
        "largest_batch": exact("largest batch tried", "1", theory.LARGEST_BATCH),
        "source_measured": exact("source: measured memory", "B", measured, p.file),
    }


# ---------------------------------------------------------------------------------- operations


def _tile_channels(p: Paper) -> Quantity:
    """Count the output channels in the tile of the call that is shown."""
    kernels = kernels_of(p.inputs, p.gpu, SHOWN.factors()) if p.gpu else ()
    if isinstance(kernels, Missing):
        return _count(p.gpu, "tile", kernels)
    tiles = [tile for tile in map(tile_of, kernels) if tile]
    return _count(p.gpu, "tile", tiles[0][1] if tiles else Missing("no tile was named"))


def _shown_count(p: Paper) -> Quantity:
    """Return the counted operations of the call that is shown."""
    if p.gpu is None or SHOWN not in p.tiled:
        return absent("operations", "FLOP", "the call is not counted, or its kernel has no tile")
    return results.recorded_in(p.gpu, p.tiled[SHOWN])


def _counted_held_out(run: Run | None) -> int:
    """Count the forward calls in held-out shapes of which the GPU's operations were counted."""
    calls = [call for call in run.calls if call.subject == "held_out"] if run else []
    return sum(not run.on_cuda_cores(call.factors()).missing for call in calls if run)


study.constants(
    shown_batch=exact("batch", "1", SHOWN.batch),
    shown_outputs=exact("channels", "1", SHOWN.shape.outputs),
    largest_on_tensor=exact("batch", "1", ON_TENSOR_CORES[-1]),
)


@gpu_calls.mapping()
def _tiles(p: Paper) -> dict[str, Quantity]:
    by_grid = [call for _, calls in p.unnamed for call in calls]
    held_by_grid = sum(call.subject == "held_out" for call in by_grid)
    held, all_tiled = _counted_held_out(p.tf32), len(p.tiled) + len(p.held_tiled)
    of_gpu = {
        "tiled_cases": len(p.tiled),
        "tiled_shapes": len({call.shape for call in p.tiled}),
        "padded_cases": sum(map(results.pads_tiles, p.tiled.values())),
        "unnamed": len(by_grid),
        "gpu_calls": (len(p.gpu.calls) if p.gpu else 0) + held,
        "gpu_ruled": all_tiled + len(by_grid),
    }
    of_fast = {
        "held_on_gpu": held,
        "held_tiled": len(p.held_tiled),
        "held_ruled": len(p.held_tiled) + held_by_grid,
        "held_padded": sum(map(results.pads_tiles, p.held_tiled.values())),
    }
    return {
        "tile_channels": _tile_channels(p),
        "shown_count": _shown_count(p),
        **_counts(p.gpu, of_gpu),
        **_counts(p.tf32, of_fast),
    }


@gpu_calls.mapping()
def _winograd(p: Paper) -> dict[str, Quantity]:
    batches = [*p.gpu.winograd_blocks(p.inputs)] if p.gpu else []
    largest_batch = max(batches, default=Missing("no kernel of Winograd's was named"))
    return _counts(p.gpu, {"winograd_calls": len(batches), "winograd_to": largest_batch})


@gpu_calls.value()
def weight_gradient(p: Paper) -> Quantity:
    if p.tf32 is None:
        return absent("weight gradient", "1", "no run has TF32 on")
    return results.weight_gradient(p.inputs, p.tf32, SHOWN.batch)


@gpu_calls.mapping("measured")
def _tiled_ratios(p: Paper) -> dict[str, Quantity]:
    theory_flops = exact("theory", "FLOP", as_flops(theory_macs(SHOWN.layer)).amount)
    return {
        "held_most": largest(*results.ratios(p.tf32, p.held_tiled)),
        "shown_over": _shown_count(p) / theory_flops,
    }


tf32.values("measured", copies=partial(Run.workspace, batch=SHOWN_BATCH))
tf32.values("percent", own_seen=partial(Run.seen_share, batch=SHOWN_BATCH))
tf32.values(
    small_seen=partial(Run.seen_share, batch=1),
    tensor_eight=partial(Run.tensor_share, batch=SHOWN.batch),
    tensor_source=partial(Run.tensor_share, batch=SHOWN_BATCH),
    tensor_largest=partial(Run.tensor_share, batch=ON_TENSOR_CORES[-1]),
)
gpu.values(neighbour=partial(Run.executed, call=ProfiledCall(BASE, SHOWN.batch, "layer")))
gpu.values(
    "measured",
    fourier_fused=partial(Run.fused, call=FOURIER),
    fourier_executed=partial(Run.executed, call=FOURIER),
    fourier_peak=partial(Run.peak_share, call=FOURIER),
    forward_most=partial(Run.extreme_share, pass_="forward", choose=largest),
    plain_peak=partial(Run.peak_share, call=ProfiledCall(BASE, SHOWN_BATCH, "layer")),
    backward_least=partial(Run.extreme_share, pass_="forward_backward", choose=smallest),
    backward_most=partial(Run.extreme_share, pass_="forward_backward", choose=largest),
)


# --------------------------------------------------------------------------------- the CPUs


@cpu_calls.mapping()
def _predictions(p: Paper) -> dict[str, Quantity]:
    known = {call.shape for call in results.calls_of("layer", p.counts)}
    held = [*results.calls_of("held_out", p.counts)]
    none = None if held else Missing("no shape was held out")
    tests = sum(results.differs_from_theory(p.counts[call]) for call in held)
    counts: dict[str, int | Missing] = {
        "known_shapes": len(known),
        "held_shapes": none or len({call.shape for call in held}),
        "held_calls": none or len(held),
        "held_tests": none or tests,
        "all_calls": len(p.peaks),
    }
    return _counts(p.cpu, counts)


@pair.mapping()
def _second(p: Paper) -> dict[str, Quantity]:
    """Count what the second CPU adds: peaks, changed calls, and calls that oneDNN computes."""
    no_code = absent("dispatched", "1", "no second CPU is there")
    counts = {
        "second_calls": len(p.second_peaks),
        "changed_calls": len(p.changed),
        "counted_twice": len(p.counts.keys() & p.second_counts.keys()),
        "changed_pure": sum(call.shape.image == _DRAWN_IMAGE for call in p.changed),
        "changed_drawn": sum(map(_is_drawn, p.changed)),
    }
    dispatched = p.second.dispatched(p.inputs) if p.second else no_code
    return {**_counts(p.second, counts), "dispatched": dispatched}


@pair.mapping("measured")
def _changed_ratios(p: Paper) -> dict[str, Quantity]:
    """Divide counts of changed calls by theory."""
    shares = {}
    for id, call in CHANGES.items():
        counted = {call: p.changed[call]} if call in p.changed else {}
        (shares[id],) = results.ratios(p.second, counted)
    return shares


@cpu_calls.mapping("measured")
def _ratios(p: Paper) -> dict[str, Quantity]:
    counts, peaks = results.ratios(p.cpu, p.counts), results.ratios(p.cpu, p.peaks)
    if p.second:
        peaks += results.ratios(p.second, p.second_peaks)
    return {
        "ratio_least": smallest(*counts),
        "ratio_most": largest(*counts),
        "peak_most": largest(*peaks),
    }


@cpu_calls.mapping()
def _formula(p: Paper) -> dict[str, Quantity]:
    """Count how far the usual formula misses the forward calls that either CPU counted."""
    calls = {**p.changed, **p.counts}.items()
    pairs = [(call.batch, pair[1]) for call, work in calls if (pair := _over_theory(work))]
    counted = [ratio for _, ratio in pairs]
    of_eight = [ratio for batch, ratio in pairs if batch == SHOWN.batch]
    numbers = {
        "calls": len(counted),
        "exact": counted.count(1.0),
        "median": median(of_eight) if of_eight else Missing("nothing was counted"),
        "worst": max(of_eight, default=Missing("nothing was counted")),
    }
    file = p.cpu.file if p.cpu else ""
    return {
        f"formula_{id}": recorded(f"{id}, usual formula", "1", number, file)
        for id, number in numbers.items()
    }


@cpu_calls.value("percent")
def ratio_missed(p: Paper) -> Quantity:
    return 1 - smallest(*results.ratios(p.cpu, p.counts))


cpu.values(block=Run.block)


@cpu.value("exact")
def listed_peak(run: Run) -> Quantity:
    return recorded("peak", "B", run.peak(SHOWN), run.file)


second.values(second_block=Run.block)
study.show("second", "listed_peak")


# -------------------------------------------------------------------------------------- claims


def _without_residual(
    run: Run | None, reconciliations: Iterable[Reconciliation]
) -> Iterator[Statement]:
    """State that the terms of each reconciliation add up to the recorded number, to the unit."""
    if run is None:
        return
    for item in reconciliations:
        yield residual([item], item.unit, run.file).exactly(0)


@printed.claim("The source's memory of a batch is that of one image times its size")
def parameters_per_image(p: Paper) -> Statement:
    without = p.printed("allocation_size") - p.printed("workspace")
    return (without / theory.for_every_image(p.reported.count("profiled_batch"))).exactly(1)


@printed.claim("Of Winograd's workspaces one has the size of the source's, to the byte")
def workspace_is_winograd(p: Paper) -> Iterator[Statement]:
    size = source.operator_bytes(p.reported, source.WORKSPACE, "self_allocation_size")
    batch = p.reported.count("profiled_batch")
    between = exact("kept between the steps", "B", sum(theory.winograd(batch, theory.SQUARE)))
    yield (p.printed("workspace") / between).exactly(1)
    yield exact("choices that fit", "1", theory.winograds_of(size)).exactly(1)


@gpu_calls.claim("Gradients by Winograd's kernels take a block of the predicted size, others none")
def winograd_seen(p: Paper) -> Iterator[Statement]:
    if p.gpu is None:
        return
    for count in p.gpu.winograd_blocks(p.inputs).values():
        yield count.exactly(1)
    for count in p.gpu.winograd_blocks(p.inputs, by_winograd=False).values():
        yield count.exactly(0)


@printed.claim("The source's printed product is the work of one image times its batch size")
def batch_in_product(p: Paper) -> Statement:
    work = exact("printed result", "FLOP", p.reported.count("flops"), p.file)
    return (work / theory.work(1)).exactly(p.reported.count("printed_batch"))


@printed.claim("The source's operator table is of one image")
def table_of_one_image(p: Paper) -> Statement:
    return _retained_outputs(p).exactly(1)


@printed.claim(
    "Shapes and Winograd's workspace explain the source's memory to the byte",
    numbers=("source_measured", "source_estimate"),
)
def temporary_storage(p: Paper) -> Statement:
    return residual([p.estimate], "B", p.file).exactly(0)


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
    yield from _without_residual(p.gpu, p.tiled.values())
    yield from _without_residual(p.tf32, p.held_tiled.values())


@gpu_calls.claim("A tile that a kernel's grid shows gives to the unit what its calls execute")
def grid_predicts(p: Paper) -> Iterator[Statement]:
    for run, calls in p.unnamed:
        yield from _without_residual(run, calls.values())


@gpu.claim(
    "With TF32 off a GPU saves over a tenth in calls with a backward pass, nothing in a forward one"
)
def saved_backward(run: Run) -> Iterator[Statement]:
    for share in run.shares("forward"):
        yield share > 1
    for share in run.shares("forward_backward"):
        yield share < 1 - MARGIN


@cpu_calls.claim(
    "Rules written beforehand give counts and peaks of held-out shapes to the unit",
    numbers=("held_calls",),
)
def predicted(p: Paper) -> Iterator[Statement]:
    for by_call in (p.counts, p.peaks):
        yield from _without_residual(p.cpu, results.calls_of("held_out", by_call).values())


@cpu_calls.claim("Changed channels change the executed operations as blocks of eight predict")
def changed_as_predicted(p: Paper) -> Iterator[Statement]:
    return _without_residual(p.changer, p.changed.values())


@pair.claim(
    "Valgrind runs the code of a processor limited to AVX2, and no call that of a wider one"
)
def valgrind_as_limited(p: Paper) -> Iterator[Statement]:
    if p.second is None:
        return
    limited = p.second.dispatched(p.inputs, LIMITED, EMULATED)
    yield (p.second.dispatched(p.inputs) - limited).exactly(0)
    yield p.second.dispatched(p.inputs, NATIVE, EMULATED).exactly(0)


@pair.claim("Calls counted on both CPUs have the same count")
def counted_alike(p: Paper) -> Iterator[Statement]:
    if p.cpu is None or p.second is None:
        return
    for call in sorted(p.counts.keys() & p.second_counts.keys()):
        ours, theirs = p.counts[call], p.second_counts[call]
        yield (results.recorded_in(p.second, theirs) - results.recorded_in(p.cpu, ours)).exactly(0)


@cpu_calls.claim(
    "Rules of the library explain all known counts and all peaks to the unit",
    numbers=("formula_worst", "formula_median"),
)
def rules_explain(p: Paper) -> Iterator[Statement]:
    return chain(
        _without_residual(p.cpu, results.calls_of("layer", p.counts).values()),
        _without_residual(p.cpu, p.backward),
        _without_residual(p.cpu, p.peaks.values()),
        _without_residual(p.second, p.second_peaks.values()),
    )


# ------------------------------------------------------------------------------------- figures

_LINEAR: Final = partial(Scaling, x_scale="linear", y_scale="linear")


@gpu_calls.figure(key=True, height=2.3, same_axes=True)
def diagonal(p: Paper) -> Iterator[Panel]:
    """Draw counted over predicted operations, both over theory, for calls that have a rule."""
    by_grid = {call: result for _, calls in p.unnamed for call, result in calls.items()}
    groups = (
        ("CPU", "derived", results.calls_of("layer", p.counts), 0),
        ("CPU", "held out", results.calls_of("held_out", p.counts), 0),
        ("CPU", "changed", p.changed, 2),
        ("GPU", "derived", results.calls_of("layer", p.tiled), 1),
        ("GPU", "held out", p.held_tiled, 1),
        ("GPU", "grid", by_grid, 3),
    )
    ends = 0.9, 2.4
    curves = Curve("equal", ends, ends), Curve("formula", (1.0, 1.0), ends, part=True)
    for device in ("CPU", "GPU"):
        drawn = []
        for of, label, calls, colour in groups:
            known = [pair for pair in map(_over_theory, calls.values()) if pair and of == device]
            if known:
                x, y = zip(*known, strict=True)
                hollow = label in ("derived", "grid")
                drawn.append(Points(label, x, y, series=colour, hollow=hollow))
        if drawn:
            axes = "Predicted ÷ theory", "Counted ÷ theory"
            yield _LINEAR(*axes, tuple(drawn), curves, title=device, y_bottom=0.9, y_top=2.4)


def _over_theory(item: Reconciliation) -> tuple[float, float] | None:
    """Divide both the sum of the terms and the count by theory."""
    if isinstance(item.measured, Missing):
        return None
    return item.end / item.start.amount, item.measured.amount / item.start.amount


@printed.figure("bytes", height=2.6)
def bytes_of_the_source(p: Paper) -> Iterator[Panel]:
    yield replace(as_figure(p.estimate), x_label="Memory (MB)", residual="")


def _is_drawn(call: ProfiledCall) -> bool:
    """Return True if the figure of changed channels shows the call."""
    return call.shape.image == _DRAWN_IMAGE and call.shape.inputs in (8, 9) and call.batch == 8


@pair.figure("changed", height=2.2, same_axes=True)
def changed_channels(p: Paper) -> Iterator[Panel]:
    """Draw counted work by output channels, for eight and for nine input channels."""
    counted = {**p.changed, **results.calls_of("held_out", p.second_counts)}
    outputs = tuple(map(float, range(15, 27)))
    for inputs in (8, 9):
        x, y = [], []
        for call, work in sorted(counted.items()):
            drawn = _is_drawn(call) and call.shape.inputs == inputs
            if drawn and not isinstance(work.measured, Missing):
                x.append(float(call.shape.outputs))
                y.append(work.measured.amount / 1e6)
        lines = []
        for name, width in (("blocks", COUNTED_WIDTH), ("usual formula", 1)):
            predicted = tuple(_millions(inputs, int(n), width) for n in outputs)
            lines.append(Curve(name, outputs, predicted, part=width == 1))
        if x:
            axes = "Output channels", "Multiply-adds (millions)"
            title, points = f"{inputs} input channels", (Points("counted", tuple(x), tuple(y)),)
            legend = inputs == 8  # the panel beside it has the same lines
            yield _LINEAR(*axes, points, tuple(lines), y_from_zero=True, title=title, legend=legend)


def _millions(inputs: int, outputs: int, width: int) -> float:
    """Multiply-adds of the drawn calls with channels in whole blocks of ``width``, in millions."""
    shape = Dimensions(round_up(inputs, width), round_up(outputs, width), 3, _DRAWN_IMAGE)
    return shape.multiply_adds(8) / 1e6


# -------------------------------------------------------------------------------------- tables


@pair.table("predicted", wide=True)
def predictions(p: Paper) -> Iterator[Mapping[str, Content]]:
    yield from _predicted_rows(p.cpu, results.calls_of("held_out", p.counts), p.peaks)
    yield from _predicted_rows(p.second, p.changed, p.second_peaks)


def _predicted_rows(
    run: Run | None,
    counts: Mapping[ProfiledCall, Reconciliation],
    peaks: Mapping[ProfiledCall, Reconciliation],
) -> Iterator[Mapping[str, Content]]:
    """Yield a row per call with its predicted and its recorded count and peak."""
    for call, work in counts.items() if run else ():
        assert run is not None
        peak = peaks.get(call)
        unknown = absent("peak", "B", "no peak was recorded, or no rule gives it")
        yield {
            "Shape, batch": call.name,
            "Theory (MAC)": exact("theory", "MAC", work.start.amount),
            "Predicted": exact("predicted", "MAC", work.end),
            "Counted": results.recorded_in(run, work),
            "Output (B)": exact("output", "B", peak.start.amount) if peak else unknown,
            "Peak, predicted": exact("predicted", "B", peak.end) if peak else unknown,
            "Peak, recorded": results.recorded_in(run, peak) if peak else unknown,
        }


@printed.table(wide=True)
def account(p: Paper) -> Iterator[Mapping[str, Content]]:
    for name, outcome, audited in source.account(p.reported):
        yield {"Part of the source": name, "What became of it": outcome, "Its numbers": audited}


@study.shared_table()
def machines(p: Paper) -> Table:
    """Tell the sessions on one model of GPU apart by their days."""
    runs = []
    for run in p.runs:
        day = f"(run of {run.stored.record.started[:10]})"
        runs.append(replace(run, label=run.label.replace(f"({run.key})", day)))
    return setup(runs)
