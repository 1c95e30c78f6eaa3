"""All that the paper of conv_profiling prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, product
from typing import Final

from figures.panels import Panel
from report.evidence.executed import residual
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.machines import setup
from report.paper.reconciliations import as_figure
from report.paper.study import Content
from report.paper.study import OldStudy as Study
from report.quantity.expression import Quantity, absent, exact, recorded
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Statement
from report.records.record import Pass
from report.studies.conv_profiling import reconciled, source, theory
from report.studies.conv_profiling.runs import Call, Run, kernels_of, tile_of
from report.studies.conv_profiling.subject import BASE, SHOWN_BATCH, Dimensions, check_subject
from report.text.escape import markdown
from report.theory.convolution_workspaces import MANY_IMAGES, SCRATCHPAD_ALIGNMENT, SMALL_INPUT
from report.theory.reconciliation import Reconciliation

#: The call whose operations are shown term by term, and one that runs by Fourier transforms.
SHOWN: Final = Call(Dimensions(33, 65, 3, 28), 8, "layer")
FOURIER: Final = Call(Dimensions(32, 64, 5, 28), 1, "layer")
#: Savings below this share of theory are no finding.
MARGIN: Final = 0.1
#: With TF32 on, batches that a GPU computes on its tensor cores, and others on the ordinary units.
ON_TENSOR_CORES: Final = (SHOWN_BATCH, 512)
ON_CUDA_CORES: Final = (1, 8)


class Paper:
    """The runs in their roles, the source, and what leads theory to what was recorded."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.reported, self.file = inputs, inputs.reported, inputs.reported_file
        runs = inputs.runs(Run)
        self.runs = tuple(runs.values())
        self.cpu, self.second, self.gpu = (runs.get(role) for role in ("cpu", "second", "gpu"))
        #: The GPU with TF32 on, which another record may hold.
        self.fast = next((r for r in self.runs if not r.workspace(SHOWN_BATCH).missing), None)
        #: From theory or an estimate to what was recorded: the source, lackey, peaks, counters.
        self.estimate = reconciled.source_estimate(self.reported)
        self.counts = reconciled.executed(self.cpu) if self.cpu else {}
        self.backward = list(reconciled.backward(self.cpu)) if self.cpu else []
        self.peaks, self.second_peaks = (
            reconciled.peaks(run) if run else {} for run in (self.cpu, self.second)
        )
        self.tiled = reconciled.tiled(inputs, self.gpu) if self.gpu else {}
        #: Calls on the tensor cores of an A100, which others traced.
        self.tensor = source.tensor_calls(inputs)

    def printed(self, name: str) -> Quantity:
        """A size of the source's table (B), of the convolution or, by its name, the workspace."""
        operator = source.WORKSPACE if name == "workspace" else source.CONVOLUTION
        column = "self_allocation_size" if name == "workspace" else name
        size = source.operator_bytes(self.reported, operator, column)
        return exact(f"source: {name.replace('_', ' ')}", "B", size, self.file)

    def legible(self, kernel: int) -> Quantity:
        """The one number that is legible of the counters of a kernel of the source."""
        cell = self.reported.table("kernels", rows=4).column("legible")[kernel]
        number = cell if isinstance(cell, int | float) else Missing("it is not legible")
        return recorded(f"legible number of kernel {kernel + 1}", "1", number, self.file)


def _count(run: Run | None, name: str, number: int | Missing) -> Quantity:
    """A number of things in the record of a run."""
    return recorded(name, "1", number, run.file) if run else absent(name, "1", "no run is there")


def _reconciliations(p: Paper) -> Iterator[Reconciliation]:
    yield p.estimate
    for found in (p.counts, p.peaks, p.second_peaks, p.tiled):
        yield from found.values()
    yield from p.backward


study = Study(
    Paper,
    check_subject,
    reconciliations=_reconciliations,
    audits=lambda p: source.audit(p.reported),
)
findings = study.findings


# -------------------------------------------------------------------------------------- texts

study.texts(
    {
        "source_device": lambda p: markdown(p.reported.device),
        "source_software": lambda p: markdown(p.reported.software),
        "cpu": lambda p: markdown(p.cpu.short) if p.cpu else "",
        "second": lambda p: markdown(p.second.short) if p.second else "",
        "gpu": lambda p: markdown(_model(p.gpu)) if p.gpu else "",
    }
)


def _model(run: Run) -> str:
    """The GPU as it names itself, since two of our records are of one model."""
    gpu = run.stored.record.environment.gpu
    return gpu.model if gpu else run.short


# ------------------------------------------------------------------------------ theory, source


def _kept(p: Paper) -> Quantity:
    """The outputs of an image that the source's call keeps."""
    return p.printed("size_increase") / theory.OUTPUT_BYTES


study.values(
    {
        "in_channels": lambda p: theory.C_IN,
        "out_channels": lambda p: theory.C_OUT,
        "in_extent": lambda p: theory.EXTENT,
        "macs": lambda p: theory.MULTIPLY_ADDS,
        "parameters": lambda p: theory.PARAMETERS,
        "outputs": lambda p: theory.OUTPUTS,
        "source_batch": lambda p: exact("batch", "1", p.reported.count("profiled_batch"), p.file),
        "source_kept": lambda p: p.printed("size_increase"),
        "table_batch": _kept,
        "weights": lambda p: theory.WEIGHTS,
        "weight_average": lambda p: p.legible(1),
        "partitions": lambda p: theory.WEIGHTS / p.legible(1),
        "bias_images": lambda p: p.legible(3) / theory.OUTPUTS,
        "bias_share": lambda p: p.legible(3) / (SHOWN_BATCH * theory.OUTPUTS),
        "kernels": lambda p: exact("kernels", "1", p.reported.count("profiled_kernels"), p.file),
        "alignment": lambda p: exact("alignment", "B", SCRATCHPAD_ALIGNMENT),
        "small_input": lambda p: exact("largest unfolded input", "1", SMALL_INPUT),
        "ordinary_batch": lambda p: exact("batch on ordinary units", "1", max(ON_CUDA_CORES)),
        "many_images": lambda p: exact("images that go to oneDNN", "1", MANY_IMAGES),
    }
)
study.values(
    {
        "source_estimate": lambda p: exact("estimate", "B", p.estimate.start.amount, p.file),
        "source_allocated": lambda p: p.printed("allocation_size"),
        "source_workspace": lambda p: p.printed("workspace"),
        "copies": lambda p: theory.copies(SHOWN_BATCH),
        "square": lambda p: exact("side of a square", "1", theory.SQUARE),
        "largest_square": lambda p: exact("largest square tried", "1", theory.LARGEST_SQUARE),
        "largest_batch": lambda p: exact("largest batch tried", "1", theory.LARGEST_BATCH),
        "source_measured": lambda p: exact(
            "source: measured memory",
            "B",
            round(source.MB * p.reported.value("measured_memory").number),
            p.file,
        ),
    },
    "measured",
)


# ---------------------------------------------------------------------------------- operations


def _tile_side(p: Paper, side: int) -> Quantity:
    """A side of the tile of the call that is shown."""
    kernels = kernels_of(p.inputs, p.gpu, SHOWN.factors) if p.gpu else ()
    if isinstance(kernels, Missing):
        return _count(p.gpu, "tile", kernels)
    tile = next((found for each in kernels if (found := tile_of(each))), None)
    return _count(p.gpu, "tile", Missing("no tile was named") if tile is None else tile[side])


def _calls(run: Run | None) -> tuple[Call, ...]:
    return run.calls if run else ()


study.values(
    {
        "shown_batch": lambda p: exact("batch", "1", SHOWN.batch),
        "shown_inputs": lambda p: exact("channels", "1", SHOWN.shape.inputs),
        "shown_outputs": lambda p: exact("channels", "1", SHOWN.shape.outputs),
        "tile_channels": lambda p: _tile_side(p, 1),
        "tiled_cases": lambda p: _count(p.gpu, "calls with a tile", len(p.tiled)),
        "tiled_shapes": lambda p: _count(p.gpu, "shapes", len({c.shape for c in p.tiled})),
        "padded_cases": lambda p: _count(
            p.gpu, "calls with padded tiles", sum(r.terms[0].amount > 0 for r in p.tiled.values())
        ),
        "forward_cases": lambda p: _count(p.gpu, "forward calls", len(_calls(p.gpu))),
        "untiled_cases": lambda p: _count(p.gpu, "other calls", len(_calls(p.gpu)) - len(p.tiled)),
        "tensor_layers": lambda p: exact("layers on tensor cores", "1", len(theory.ALEXNET)),
    }
)


def _seen_of(p: Paper, choose: Callable[..., Quantity]) -> Quantity:
    """What the counters of CUDA cores would see of the source's call, over theory."""
    nothing = absent("operations", "1", source.no_trace(p.inputs))
    scaling = choose(*(call.scaling() for call in p.tensor)) if p.tensor else nothing
    return theory.seen(SHOWN_BATCH, scaling) / theory.work(SHOWN_BATCH)


study.values(
    {
        "winograd_products": lambda p: theory.WINOGRAD_PRODUCTS,
        "seen_least": lambda p: _seen_of(p, at_most),
        "seen_most": lambda p: _seen_of(p, at_least),
        "printed_least": lambda p: theory.C_OUT * _seen_of(p, at_most),
        "printed_most": lambda p: theory.C_OUT * _seen_of(p, at_least),
    },
    "percent",
)
study.values(
    {"own_seen": lambda fast: fast.seen(SHOWN_BATCH) / theory.work(SHOWN_BATCH)},
    "percent",
    of=lambda p: p.fast,
)
study.values(
    {
        "fourier_fused": lambda run: run.fused(FOURIER.shape, FOURIER.batch),
        "fourier_executed": lambda run: run.executed(FOURIER.shape, FOURIER.batch),
        "fourier_peak": lambda run: run.peak_share(FOURIER),
        "forward_most": lambda run: at_least(*run.shares("forward")),
        "backward_least": lambda run: at_most(*run.shares("forward_backward")),
        "backward_most": lambda run: at_least(*run.shares("forward_backward")),
    },
    "measured",
    of=lambda p: p.gpu,
)
study.values({"bias_number": lambda p: p.legible(3)}, "exact")
study.values(
    {"beside_copies": lambda fast: fast.workspace(SHOWN_BATCH) - theory.copies(SHOWN_BATCH)},
    "exact",
    of=lambda p: p.fast,
)


# --------------------------------------------------------------------------------- the CPUs


def _held(p: Paper, name: str, number: Callable[[list[Call]], int]) -> Quantity:
    """A number of what was held out; missing where nothing was."""
    held = [call for call in p.counts if call.held_out]
    return _count(p.cpu, name, number(held) if held else Missing("no shape was held out"))


study.values(
    {
        "known_shapes": lambda p: _count(
            p.cpu, "shapes", len({call.shape for call in p.counts if not call.held_out})
        ),
        "held_shapes": lambda p: _held(
            p, "shapes held out", lambda held: len({call.shape for call in held})
        ),
        "held_calls": lambda p: _held(p, "calls held out", len),
        "held_tests": lambda p: _held(
            p, "beside theory", lambda held: sum(reconciled.says_more(p.counts[c]) for c in held)
        ),
        "all_calls": lambda p: _count(p.cpu, "calls with a peak", len(p.peaks)),
        "second_calls": lambda p: _count(p.second, "calls with a peak", len(p.second_peaks)),
    }
)
study.values(
    {
        "ratio_least": lambda p: at_most(*reconciled.ratios(p.cpu, p.counts)),
        "ratio_most": lambda p: at_least(*reconciled.ratios(p.cpu, p.counts)),
        "peak_most": lambda p: at_least(*reconciled.ratios(p.cpu, p.peaks)),
    },
    "measured",
)
study.values({"block": Run.block}, of=lambda p: p.cpu)
study.values(
    {"listed_peak": lambda run: recorded("peak", "B", run.peak(SHOWN), run.file)},
    "exact",
    of=lambda p: p.cpu,
)
study.values({"second_block": Run.block}, of=lambda p: p.second)


# -------------------------------------------------------------------------------------- claims


def _without_residual(run: Run | None, found: Iterable[Reconciliation]) -> Iterator[Statement]:
    """That the terms of each give what was recorded, to the unit."""
    return (residual([each], each.unit, run.file).exactly(0) for each in found if run)


def _not_per_image(p: Paper) -> Statement:
    """That the bytes without the workspace are those of an image for every image."""
    without = p.printed("allocation_size") - p.printed("workspace")
    return (without / theory.for_every_image(p.reported.count("profiled_batch"))).exactly(1)


def _winograd(p: Paper) -> Iterator[Statement]:
    """That the printed workspace is what Winograd's algorithm keeps, and by one choice alone."""
    size = source.operator_bytes(p.reported, source.WORKSPACE, "self_allocation_size")
    batch = p.reported.count("profiled_batch")
    kept = exact("kept between the steps", "B", sum(theory.winograd(batch, theory.SQUARE)))
    yield (p.printed("workspace") / kept).exactly(1)
    yield exact("choices that fit", "1", theory.winograds_of(size)).exactly(1)


def _batch_in_product(p: Paper) -> Statement:
    work = exact("printed result", "FLOP", p.reported.count("flops"), p.file)
    return (work / theory.work(1)).exactly(p.reported.count("printed_batch"))


_COPIES: Final = ("input_copy", "multiplications"), ("weight_copy", "multiplications")


def _tensor(p: Paper, number: int, *counts: tuple[str, str]) -> Iterator[Statement]:
    """That kernels of calls on tensor cores count so many operations of each element they write."""
    for call, (kernel, what) in product(p.tensor, counts):
        count = exact(f"{what} of {kernel}", "1", getattr(getattr(call, kernel), what))
        yield (count / call.written(kernel)).exactly(number)


study.claims(
    {
        "batch-in-product": _batch_in_product,
        "table-of-one-image": lambda p: _kept(p).exactly(1),
        "parameters-per-image": _not_per_image,
        "temporary-storage": lambda p: residual([p.estimate], "B", p.file).exactly(0),
        "workspace-is-winograd": _winograd,
        "keeps-its-output": lambda p: (_kept(p) / SHOWN_BATCH).exactly(1),
        "counters-blind": lambda p: _tensor(p, 0, ("product", "multiply_adds")),
        "copies-multiply": lambda p: _tensor(p, 1, *_COPIES, ("bias", "multiply_adds")),
    }
)
study.claims(
    {
        "seen-as-predicted": lambda run: (
            (run.seen(b) / theory.seen(b, 2)).exactly(1) for b in ON_TENSOR_CORES
        ),
        "scaled-otherwise": lambda run: (
            (run.fast(f"ncu_fp32_{kind}", b) / (b * theory.OUTPUTS)).exactly(1)
            for b, kind in product(ON_TENSOR_CORES, ("additions", "multiply_adds"))
        ),
        "tensor-cores-are-theory": lambda run: (
            (run.fast("ncu_tensor_core_flops", b) / theory.work(b)).exactly(1)
            for b in ON_TENSOR_CORES
        ),
        "small-batches-seen": lambda run: (run.seen(b) / theory.work(b) > 1 for b in ON_CUDA_CORES),
        "workspace-is-copies": lambda run: (
            run.workspace(SHOWN_BATCH) / theory.copies(SHOWN_BATCH)
        ).near(1, within=1e-4),
    },
    of=lambda p: p.fast,
)
study.claims({"tiles-explain": lambda p: _without_residual(p.gpu, p.tiled.values())})
study.claims(
    {
        "nothing-saved-forward": lambda run: (each > 1 for each in run.shares("forward")),
        "saved-backward": lambda run: (
            each < 1 - MARGIN for each in run.shares("forward_backward")
        ),
        "only-output": lambda run: (
            run.peak_share(call).exactly(1) for call in run.calls if call.shape == BASE
        ),
    },
    of=lambda p: p.gpu,
)


def _counts(p: Paper, counted: Callable[[Call], bool]) -> list[Reconciliation]:
    return [found for call, found in p.counts.items() if counted(call)]


def _predicted(p: Paper) -> Iterator[Statement]:
    held = [r for found in (p.counts, p.peaks) for call, r in found.items() if call.held_out]
    return _without_residual(p.cpu, held)


study.claims(
    {
        "example-is-theory": lambda p: _without_residual(
            p.cpu, [*_counts(p, lambda call: call.shape == BASE), *p.backward]
        ),
        "counts-explained": lambda p: _without_residual(
            p.cpu, _counts(p, lambda call: not call.held_out)
        ),
        "predicted": _predicted,
        "peaks-explained": lambda p: chain(
            _without_residual(p.cpu, p.peaks.values()),
            _without_residual(p.second, p.second_peaks.values()),
        ),
    }
)


# ------------------------------------------------------------------------------------- figures


@study.figure("fig-bytes", height=2.6)
def _fig_bytes(p: Paper) -> Iterator[Panel]:
    yield replace(as_figure(p.estimate), x_label="Memory (MB)", residual="")


@study.figure("fig-operations", height=2.6)
def _fig_operations(p: Paper) -> Iterator[Panel]:
    if SHOWN in p.tiled:
        drawn = as_figure(p.tiled[SHOWN])
        yield replace(drawn, x_label=drawn.x_label.replace("From zero", "Operations"))


# -------------------------------------------------------------------------------------- tables

#: What the source's kernels do by their names, and the same in an A100's trace.
_KERNELS: Final = (
    ("nchwToNhwcKernel", "copies the input", "input_copy"),
    ("nchwToNhwcKernel", "copies the weights", "weight_copy"),
    ("gemm::kernel, hmma_tf32", "multiplies", "product"),
    ("elementwise_kernel, add", "adds the bias", "bias"),
)


@study.table("tbl-kernels", rows=lambda p: _KERNELS if p.tensor else ())
def _kernels(p: Paper, kernel: tuple[str, str, str]) -> dict[str, Content]:
    name, task, field = kernel

    def each(what: str) -> str:
        """Operations of an element that the kernel writes, or what they lie between."""
        found = {getattr(getattr(c, field), what) / c.written(field) for c in p.tensor}
        low, high = f"{min(found):g}", f"{max(found):g}"
        return low if low == high else f"{low} to {high}"

    return {
        "Kernel": name,
        "Task": task,
        "Add": each("additions"),
        "Multiply": each("multiplications"),
        "Fused": each("multiply_adds"),
    }


def _algorithms(p: Paper) -> list[tuple[Dimensions, int, Pass]]:
    """Calls whose kernels say which algorithm ran: direct, and by Fourier or Winograd."""
    if p.gpu is None:
        return []
    found: list[tuple[Dimensions, int, Pass]] = [
        (BASE, SHOWN_BATCH, "forward"),
        (FOURIER.shape, FOURIER.batch, "forward"),
        *((BASE, batch, "forward_backward") for batch in p.gpu.batches if batch in _SHOWN_BOTH),
    ]
    return [call for call in found if not p.gpu.executed(*call).missing]


#: The batch sizes whose backward pass is shown.
_SHOWN_BOTH: Final = (1, 8, 32, 64, 512)
_WORDS: Final = {"fft": "Fourier", "winograd": "Winograd", "dgrad": "direct", "gemm": "product"}


@study.table("tbl-algorithms", rows=_algorithms, digits={"Fused": 3, "Whole sum": 3})
def _algorithm_rows(p: Paper, call: tuple[Dimensions, int, Pass]) -> dict[str, Content]:
    assert p.gpu is not None
    shape, batch, pass_ = call
    names = kernels_of(p.inputs, p.gpu, shape.factors(batch, pass_))
    missing = names if isinstance(names, Missing) else Missing("no kernel was kept")
    kernels = () if isinstance(names, Missing) else names
    special = {word for name in kernels for part, word in _WORDS.items() if part in name}
    return {
        "Kernel size": f"{shape.kernel}×{shape.kernel}",
        "Batch": batch,
        "Pass": "forward" if pass_ == "forward" else "both",
        "Kernels": ", ".join(sorted(special)) or missing,
        "Fused": p.gpu.fused(*call),
        "Whole sum": p.gpu.executed(*call),
    }


@study.table("tbl-predicted", rows=lambda p: [c for c in p.counts if c.held_out], wide=True)
def _predicted_rows(p: Paper, call: Call) -> dict[str, Content]:
    work, peak, run = p.counts[call], p.peaks.get(call), p.cpu
    assert run is not None
    unknown = absent("peak", "B", "no peak was recorded, or no rule gives it")
    return {
        "Shape, batch": call.name,
        "Theory (MAC)": exact("theory", "MAC", work.start.amount),
        "Predicted": exact("predicted", "MAC", work.end),
        "Counted": reconciled.recorded_in(run, work),
        "Output (B)": exact("output", "B", peak.start.amount) if peak else unknown,
        "Peak, predicted": exact("predicted", "B", peak.end) if peak else unknown,
        "Peak, recorded": reconciled.recorded_in(run, peak) if peak else unknown,
    }


@study.table("tbl-account", rows=lambda p: source.account(p.reported), wide=True)
def _account(p: Paper, row: tuple[str, str, str]) -> dict[str, Content]:
    name, outcome, audited = row
    return {"Part of the source": name, "What became of it": outcome, "Its numbers": audited}


study.add_table(lambda p: setup(p.runs))
