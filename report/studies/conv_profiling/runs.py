"""Records of one run: calls of the layer in their shapes, led back to theory term by term."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from report.core.missing import Missing
from report.core.records.layers import Convolution
from report.core.records.record import Level, Pass
from report.core.records.reported import Reported
from report.core.records.strict import parse_json
from report.evidence import executed as counted_work
from report.evidence import runs as any_study
from report.evidence.runs import CaseFactors
from report.instruments.counters import ncu
from report.instruments.counters.logs import REMEDY, attachment_name, unpack
from report.paper.findings import Inputs
from report.quantity.evaluation import number
from report.quantity.expression import Quantity, absent, exact, named, recorded
from report.quantity.operations import counted_in
from report.studies.conv_profiling import theory
from report.studies.conv_profiling.source import CONVOLUTION, MB, operator_bytes
from report.studies.conv_profiling.subject import BASE, SUBJECTS, Dimensions, dimensions_of
from report.theory.conditions import Workspace, conditions_of
from report.theory.convolution_workspaces import computed_by_pytorch, convolution_workspace
from report.theory.reconciliation import Reconciliation, Term
from report.theory.terms import (
    COUNTED_WIDTH,
    SHAPES,
    Tile,
    as_flops,
    bias_kernel,
    executed_terms,
    for_each_output,
    theory_macs,
    theory_output,
    tile_epilogue,
    tile_padding,
)
from report.theory.work import output_bytes, parameter_bytes

#: The file beside a record that holds what Nsight Compute printed.
ATTACHMENT: Final = attachment_name(ncu.TOOL)

#: The file beside a record that names oneDNN's code for each call, and its kinds of processes.
DISPATCH: Final = "onednn.json"
NATIVE, LIMITED, EMULATED = "native", "native, AVX2 at most", "valgrind"

#: A kernel that names no tile, and the tile by which its grid covers the outputs of two calls:
#: 22 × 2 blocks compute 676 × 64 outputs, and 169 × 2 compute 5,408 × 64.  Its step along the
#: products is 8 or 16, which these calls do not tell apart.
UNNAMED: Final = "implicit_convolve_sgemm"
UNNAMED_TILE: Final[Tile] = (32, 32, 8)
#: Part of the names of kernels that compute gradients of the weights by Winograd's algorithm.
WINOGRAD: Final = "winogradWgrad"
_TILE: Final = re.compile(r"_tilesize(\d+)x(\d+)x(\d+)_")


class ProfiledCall(NamedTuple):
    """A forward call of the layer; ``subject`` tells if its shape was held out or changed."""

    shape: Dimensions
    batch: int
    subject: str

    @property
    def name(self) -> str:
        """The call as a table prints it."""
        return f"{self.shape.name}, {self.batch}"

    @property
    def layer(self) -> Convolution:
        """The convolution that it computes."""
        return self.shape.layer(self.batch)

    def factors(self, pass_: Pass = "forward") -> dict[str, Level]:
        """The case as a record names it."""
        return self.shape.factors(self.batch, pass_, self.subject)


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def calls(self) -> tuple[ProfiledCall, ...]:
        """The forward calls in float32: the example's by batch, then the others as recorded."""
        calls = []
        for case in self.stored.record.cases:
            subject = str(case.factors.get("subject"))
            if subject not in SUBJECTS or "precision" in case.factors:
                continue
            if case.factors["pass"] == "forward":
                batch = int(case.factors["batch"])
                calls.append(ProfiledCall(dimensions_of(case.factors), batch, subject))
        return tuple(
            sorted(calls, key=lambda call: (call.shape != BASE, SUBJECTS.index(call.subject)))
        )

    @property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes of the example's layer."""
        return tuple(call.batch for call in self.calls if call.shape == BASE)

    def peak(self, call: ProfiledCall) -> int | Missing:
        """Peak of a forward call (B), without the bytes allocated before it."""
        return self.grown("allocated_peak", call.factors(), since="allocated_before")

    def dispatched(self, inputs: Inputs, process: str = NATIVE, like: str = NATIVE) -> Quantity:
        """Count calls whose oneDNN code and formats are the same in two kinds of processes."""
        name = f"calls of the same code: {process}, {like}"
        content = inputs.attachments.get(self.file, {}).get(DISPATCH)
        if content is None or isinstance(content, Missing):
            return absent(name, "1", f"oneDNN's code was not recorded on {self.label}")
        place = f"data/{self.file}, {DISPATCH}"
        codes = parse_json(content, dict[str, dict[str, str]], place, REMEDY)
        ours, theirs = codes.get(process, {}), codes.get(like, {})
        return exact(name, "1", len(ours.items() & theirs.items()), self.file)

    def peak_share(self, call: ProfiledCall) -> Quantity:
        """Divide the peak of a forward call by the bytes that it leaves allocated."""
        peak = recorded("bytes", "B", self.peak(call), self.file)
        left = self.grown("allocated_after", call.factors(), since="allocated_before")
        return peak / recorded("bytes", "B", left, self.file)

    def block(self) -> Quantity:
        """Channels that oneDNN keeps together on this processor."""
        width = conditions_of(self.stored.record.environment).block
        return exact("channels of a block", "1", width, self.file)

    # ------------------------------------------------------------------------------- on a GPU

    def shares(self, pass_: Pass) -> list[Quantity]:
        """Operations over theory of the example's call by batch, and forward of all others."""
        calls = [c for c in self.calls if pass_ == "forward" or c.shape == BASE]
        shares = [self.executed(call, pass_) for call in calls]
        nothing = absent("operations", "1", f"nothing was counted on {self.label}")
        return [share for share in shares if not share.missing] or [nothing]

    def extreme_share(self, pass_: Pass, choose: Callable[..., Quantity]) -> Quantity:
        """Return the ``smallest`` or ``largest`` of ``shares``."""
        return choose(*self.shares(pass_))

    def fused(self, call: ProfiledCall, pass_: Pass = "forward") -> Quantity:
        """Fused multiply-adds of the CUDA cores over theory's multiply-adds."""
        counted = self.repeated("ncu_fp32_multiply_adds", call.factors(pass_))
        expected = exact("theory", "MAC", call.shape.multiply_adds(call.batch, pass_))
        return named("fused ÷ theory", counted_in("MAC", counted) / expected)

    def executed(self, call: ProfiledCall, pass_: Pass = "forward") -> Quantity:
        """The source's metric: additions + multiplications + 2 · fused, over theory.

        What tensor cores did counts too.
        """
        factors = call.factors(pass_)
        tensor = self.repeated("ncu_tensor_core_flops", factors)
        expected = exact("theory", "FLOP", 2 * call.shape.multiply_adds(call.batch, pass_))
        return named("operations ÷ theory", (self.on_cuda_cores(factors) + tensor) / expected)

    def on_cuda_cores(self, factors: CaseFactors) -> Quantity:
        """Additions + multiplications + 2 · fused, which tensor cores do not add to."""
        adds = self.repeated("ncu_fp32_additions", factors)
        multiplies = self.repeated("ncu_fp32_multiplications", factors)
        fused = self.repeated("ncu_fp32_multiply_adds", factors)
        return counted_in("FLOP", adds + multiplies + 2 * fused)

    def seen(self, batch: int) -> Quantity:
        """Operations (FLOP) of a forward call with TF32 on that the source's counters see."""
        return named("operations seen", self.on_cuda_cores(_tf32_factors(batch)))

    def seen_share(self, batch: int) -> Quantity:
        """Divide the operations that the source's counters see by theory."""
        return self.seen(batch) / theory.work(batch)

    def tensor_share(self, batch: int) -> Quantity:
        """Divide what tensor cores do in a call with backward pass by theory of a forward call."""
        factors = _tf32_factors(batch, "forward_backward")
        return self.repeated("ncu_tensor_core_flops", factors) / theory.work(batch)

    def tf32(self, quantity: str, batch: int) -> Quantity:
        """Count of a forward call with TF32 on."""
        return self.repeated(quantity, _tf32_factors(batch))

    def workspace(self, batch: int) -> Quantity:
        """Bytes at the peak of a forward call with TF32, without the bytes of its output."""
        peak, after = (
            self.tf32("requested_peak", batch),
            self.tf32("requested_after", batch),
        )
        return named("workspace", peak - after)

    def winograd_blocks(self, inputs: Inputs, by_winograd: bool = True) -> dict[int, Quantity]:
        """Blocks of Winograd's workspace that calls allocate and free, by batch size.

        Of the example's calls with a backward pass, of whose kernels some or none are Winograd's.
        """
        counts: dict[int, Quantity] = {}
        for batch in self.batches:
            factors = BASE.factors(batch, "forward_backward")
            kernels = kernels_of(inputs, self, factors)
            events = self.samples("memory_events", factors)
            if isinstance(kernels, Missing) or isinstance(events, Missing):
                continue
            if kernels and any(WINOGRAD in kernel for kernel in kernels) == by_winograd:
                size = sum(theory.winograd(batch, theory.SQUARE))
                count = min(events.count(size), events.count(-size))
                counts[batch] = exact(f"blocks of {size:,} B", "1", count, self.file)
        return counts


def _tf32_factors(batch: int, pass_: Pass = "forward") -> CaseFactors:
    """The example's call with TF32 on."""
    return {**BASE.factors(batch, pass_), "precision": "tfloat32"}


def weight_gradient(inputs: Inputs, run: Run, batch: int) -> Quantity:
    """Divide what tensor cores do for the gradient of the weights, with TF32 on, by theory."""
    log = _log_of(inputs, run, _tf32_factors(batch, "forward_backward"))
    count: int | Missing = Missing("no kernel was logged")
    if isinstance(log, ncu.CaseLog):
        rows = [row for row in log.calls[0] if "wgrad" in row.kernel]
        count = ncu.quantities(rows, log.plan).get("ncu_tensor_core_flops", count)
    return recorded("gradient of the weights", "FLOP", count, run.file) / theory.work(batch)


def kernels_of(inputs: Inputs, run: Run, factors: CaseFactors) -> tuple[str, ...] | Missing:
    """The names of the kernels of one call of the case with these factors, by their first launch.

    Empty where the run has no table of the case, or one that is not to be trusted.
    """
    log = _log_of(inputs, run, factors)
    if log is None or isinstance(log, Missing):
        return log or ()
    return tuple(dict.fromkeys(row.kernel for row in log.calls[0]))


def _log_of(inputs: Inputs, run: Run, factors: CaseFactors) -> ncu.CaseLog | Missing | None:
    """Read the log of the case with these factors; None without one that is to be trusted."""
    content = inputs.attachments.get(run.file, {}).get(ATTACHMENT, b"")
    if isinstance(content, Missing):
        return content
    cases = enumerate(run.stored.record.cases)
    index = next((index for index, case in cases if case.factors == factors), None)
    place = f"data/{run.file}, {ATTACHMENT}"
    logs = _logs(content, place) if content else {}
    if index is None or index not in logs:
        return None
    log = ncu.read_log(logs[index], f"{place}, case {index}")
    return None if "cuda_core" in log.distrusted else log


@lru_cache(maxsize=2)
def _logs(content: bytes, place: str) -> Mapping[int, Mapping[str, str]]:
    """Unpack the logs of each case; a paper asks for one after the other."""
    return {item.case: item.logs for item in unpack(content, ncu.TOOL, place)}


def tile_of(kernel: str) -> Tile | None:
    """The tile that the name of a kernel tells, as in ``…_tilesize128x32x8_stage3_…``."""
    match = _TILE.search(kernel)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


# ---------------------------------------------------------------------------- reconciliations

#: lackey serialises all threads, so that the counted process has one.
_COUNTED_THREADS = 1
#: The term of a call that is not padded: one conversion an image.
_CONVERTED = "Factors converted"
#: Arrays that Winograd's algorithm keeps between its steps.
_TRANSFORMED = ("input", "weights", "output")
_FORMULAS = ("4 · (m + k − 1)² · B · T · C_in", "4 · (m + k − 1)² · C_in · C_out",
             "4 · (m + k − 1)² · B · T · C_out")  # fmt: skip

# -------------------------------------------------------------------------------- the source


def source_estimate(reported: Reported) -> Reconciliation:
    """From the source's estimate for its batch to the bytes that its profiler saw allocated.

    All terms follow from shapes; the size of the workspace reveals the algorithm of its terms.
    """
    batch = reported.count("profiled_batch")
    layer = BASE.layer(1)
    parameters, workspace = parameter_bytes(layer), theory.winograd(batch, theory.SQUARE)
    estimate, image = reported.value("estimated_memory"), reported.value("memory_mb")
    printed = Fraction(str(estimate.number)) * MB
    return Reconciliation(
        "reported-estimate",
        f"Memory of the source's call at batch {batch}",
        "B",
        Term("Estimate, printed", int(printed), f"batch · {image.number} MB", estimate.place),
        (
            Term(
                "Rounding of the factor",
                batch * (parameters + output_bytes(layer)) - int(printed),
                f"batch · (bytes of an image − {image.number} MB)",
                "the same product with the exact bytes",
            ),
            Term(
                "Parameters counted once",
                -(batch - 1) * parameters,
                "−(batch − 1) · parameters",
                SHAPES,
            ),
            Term(
                "Parameters not allocated by the call",
                -parameters,
                "−parameters",
                "they are there before the call",
            ),
            *(
                Term(f"Winograd's {name}", amount, formula, "the workspace by Winograd's algorithm")
                for name, formula, amount in zip(_TRANSFORMED, _FORMULAS, workspace, strict=True)
            ),
        ),
        Term(
            "Allocated, printed",
            operator_bytes(reported, CONVOLUTION, "allocation_size"),
            "allocation size · 1,024",
            f"row {CONVOLUTION}",
        ),
    )


# -------------------------------------------------------------------------------- on a CPU


def executed(run: Run) -> dict[ProfiledCall, Reconciliation]:
    """The forward calls whose multiply-adds lackey counted, by the rules of its processor."""
    build = run.stored.record.environment.torch.build
    calls = {call.name: call for call in run.calls}
    counted = counted_work.counts(run, {name: call.factors() for name, call in calls.items()})
    results: dict[ProfiledCall, Reconciliation] = {}
    for name, count in counted.items():
        call = calls[name]
        results[call] = counted_work.executed(
            f"executed-{run.key}-{call.shape.key}-{call.batch}",
            f"Executed multiply-adds of {name} on {run.label}",
            theory_macs(call.layer),
            *count,
            *executed_terms(call.layer, _COUNTED_THREADS, build, COUNTED_WIDTH),
        )
    return results


def backward(run: Run) -> Iterator[Reconciliation]:
    """Reconcile the example's calls with backward pass; theory alone predicts their counts."""
    cases = {batch: BASE.factors(batch, "forward_backward") for batch in run.batches}
    for batch, count in counted_work.counts(run, cases).items():
        theory = theory_macs(BASE.layer(batch))
        yield counted_work.executed(
            f"executed-{run.key}-backward-{batch}",
            f"Executed multiply-adds with the backward pass on {run.label} at batch {batch}",
            replace(theory, amount=BASE.multiply_adds(batch, "forward_backward")),
            *count,
        )


def peaks(run: Run) -> dict[ProfiledCall, Reconciliation]:
    """The forward calls whose peak a CPU recorded and whose code has a rule for its workspace."""
    conditions = conditions_of(run.stored.record.environment)
    results: dict[ProfiledCall, Reconciliation] = {}
    for call in () if run.on_gpu else run.calls:
        peak, taken = run.peak(call), convolution_workspace(call.layer, False, conditions)
        unfolded = computed_by_pytorch(call.layer, conditions)
        if unfolded and call.shape.kernel == 1:  # its input is the matrix already
            taken = Workspace(())
        if taken.complete and not isinstance(peak, Missing):
            results[call] = Reconciliation(
                f"peak-{run.key}-{call.shape.key}-{call.batch}",
                f"Peak memory of one forward call of {call.name} on {run.label}",
                "B",
                theory_output(call.layer),
                taken.terms,
                Term("Peak", peak, "highest − before", "the profiler's memory events"),
            )
    return results


# -------------------------------------------------------------------------------- on a GPU


def tiled(inputs: Inputs, run: Run, named: bool = True) -> dict[ProfiledCall, Reconciliation]:
    """The forward calls whose kernel names its tile, or those of the one kernel that names none.

    The grid in which that kernel is launched shows its tile; it scales an output by one operation,
    and does not scale the padding.
    """
    results: dict[ProfiledCall, Reconciliation] = {}
    for call in run.calls:
        kernels = kernels_of(inputs, run, call.factors())
        if isinstance(kernels, Missing):
            continue
        tiles = [tile for kernel in kernels if (tile := tile_of(kernel))]
        if not named:
            unnamed = not tiles and any(UNNAMED in kernel for kernel in kernels)
            tiles = [UNNAMED_TILE] if unnamed else []
        counted = number(run.on_cuda_cores(call.factors()))
        if len(tiles) != 1 or isinstance(counted, Missing):
            continue
        layer = call.layer
        evidence = "the tile in the kernel's name" if named else "the grid of the launch"
        scaling = tile_epilogue(layer, tiles[0], evidence)
        results[call] = Reconciliation(
            f"tiled-{run.key}-{call.shape.key}-{call.batch}",
            f"Operations of {call.name} on {run.label}",
            "FLOP",
            as_flops(theory_macs(layer)),
            (
                as_flops(tile_padding(layer, tiles[0], evidence)),
                scaling if named else for_each_output("scaling", layer),
                bias_kernel(layer, "the kernel that adds the bias"),
            ),
            Term(
                "Counted",
                int(counted),  # type: ignore[arg-type]
                "additions + multiplications + 2 · fused",
                "Nsight Compute",
            ),
        )
    return results


def calls_of(
    subject: str, calls: Mapping[ProfiledCall, Reconciliation]
) -> dict[ProfiledCall, Reconciliation]:
    """Select the calls in shapes of a subject: ``layer``, ``held_out`` or ``changed``."""
    return {call: result for call, result in calls.items() if call.subject == subject}


def pads_tiles(r: Reconciliation) -> bool:
    """Return True if the first term of a call by tiles, their padding, is not zero."""
    return r.terms[0].amount > 0


def differs_from_theory(r: Reconciliation) -> bool:
    """Return True if terms other than theory and a conversion per image are not zero."""
    return any(term.amount for term in r.terms if term.name != _CONVERTED)


def recorded_in(run: Run, r: Reconciliation) -> Quantity:
    """Count or peak that a run recorded for a reconciliation."""
    amount = r.measured if isinstance(r.measured, Missing) else r.measured.amount
    return recorded("recorded", r.unit, amount, run.file)


def ratios(run: Run | None, calls: Mapping[ProfiledCall, Reconciliation]) -> list[Quantity]:
    """Divide what was recorded by theory's start, call by call."""
    shares: list[Quantity] = [
        recorded_in(run, r) / exact("theory", r.unit, r.start.amount) for r in calls.values() if run
    ]
    return shares or [absent("recorded ÷ theory", "1", "nothing was counted")]
