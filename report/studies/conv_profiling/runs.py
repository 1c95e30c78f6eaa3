"""Records of one run: calls of the layer in their shapes, counts, bytes and kernels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from report.core.missing import Missing
from report.core.records.layers import Convolution
from report.core.records.record import Level, Pass
from report.core.records.strict import parse_json
from report.evidence import runs as any_study
from report.evidence.runs import CaseFactors
from report.instruments.counters import ncu
from report.instruments.counters.logs import REMEDY, attachment_name, unpack
from report.paper.findings import Inputs
from report.quantity.expression import Quantity, absent, exact, named, recorded
from report.quantity.operations import counted_in
from report.studies.conv_profiling import theory
from report.studies.conv_profiling.subject import BASE, SUBJECTS, Dimensions, dimensions_of
from report.theory.conditions import conditions_of
from report.theory.terms import Tile

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
        return named("operations seen", self.on_cuda_cores(_fast(batch)))

    def seen_share(self, batch: int) -> Quantity:
        """Divide the operations that the source's counters see by theory."""
        return self.seen(batch) / theory.work(batch)

    def fast(self, quantity: str, batch: int) -> Quantity:
        """Count of a forward call with TF32 on."""
        return self.repeated(quantity, _fast(batch))

    def workspace(self, batch: int) -> Quantity:
        """Bytes at the peak of a forward call with TF32, without the bytes of its output."""
        peak, after = self.fast("requested_peak", batch), self.fast("requested_after", batch)
        return named("workspace", peak - after)

    def winograd_blocks(self, inputs: Inputs) -> dict[int, Quantity]:
        """Blocks of Winograd's workspace that calls allocate and free, by batch size.

        Of the example's calls with a backward pass whose kernels are named after Winograd's.
        """
        counts: dict[int, Quantity] = {}
        for batch in self.batches:
            factors = BASE.factors(batch, "forward_backward")
            kernels = kernels_of(inputs, self, factors)
            events = self.samples("memory_events", factors)
            if isinstance(kernels, Missing) or isinstance(events, Missing):
                continue
            if any(WINOGRAD in kernel for kernel in kernels):
                size = sum(theory.winograd(batch, theory.SQUARE))
                count = min(events.count(size), events.count(-size))
                counts[batch] = exact(f"blocks of {size:,} B", "1", count, self.file)
        return counts


def _fast(batch: int) -> CaseFactors:
    """The example's forward call with TF32 on."""
    return {**BASE.factors(batch), "precision": "tfloat32"}


def kernels_of(inputs: Inputs, run: Run, factors: CaseFactors) -> tuple[str, ...] | Missing:
    """The names of the kernels of one call of the case with these factors, by their first launch.

    Empty where the run has no table of the case, or one that is not to be trusted.
    """
    content = inputs.attachments.get(run.file, {}).get(ATTACHMENT, b"")
    if isinstance(content, Missing):
        return content
    cases = enumerate(run.stored.record.cases)
    index = next((index for index, case in cases if case.factors == factors), None)
    place = f"data/{run.file}, {ATTACHMENT}"
    logs = _logs(content, place) if content else {}
    if index is None or index not in logs:
        return ()
    log = ncu.read_log(logs[index], f"{place}, case {index}")
    if "cuda_core" in log.distrusted:
        return ()
    return tuple(dict.fromkeys(row.kernel for row in log.calls[0]))


@lru_cache(maxsize=2)
def _logs(content: bytes, place: str) -> Mapping[int, Mapping[str, str]]:
    """Unpack the logs of each case; a paper asks for one after the other."""
    return {item.case: item.logs for item in unpack(content, ncu.TOOL, place)}


def tile_of(kernel: str) -> Tile | None:
    """The tile that the name of a kernel tells, as in ``…_tilesize128x32x8_stage3_…``."""
    match = _TILE.search(kernel)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))
