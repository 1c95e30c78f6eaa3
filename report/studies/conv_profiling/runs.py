"""One record of the study: its calls, their counted operations, times and kernels.

Words of the paper:
- example: the second convolution of PyTorch's MNIST example, with 32 → 64 channels;
- block: the 8 (AVX2) or 16 (AVX-512) channels that oneDNN computes together;
- tile: the positions × channels × products that a GPU kernel computes together;
- rule: formula for the operations that a library executes in a call;
- held-out shape: a shape that was counted after the rules had predicted its count;
- changed shape: a held-out shape with other numbers of channels.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final, NamedTuple, Self

import msgspec

from report.core.missing import Missing
from report.core.records.record import Level
from report.core.records.store import Stored, start_and_file
from report.core.records.strict import parse_json
from report.evidence import runs as any_study
from report.instruments.counters import ncu
from report.instruments.counters.logs import REMEDY, attachment_name, unpack
from report.instruments.counters.ncu_metrics import CUDA_CORE
from report.paper.findings import Inputs
from report.quantity.expression import Quantity, exact_number, missing_number, named
from report.quantity.operations import counted_in
from report.studies.conv_profiling import subject, theory
from report.studies.conv_profiling.subject import Dimensions, dimensions_of
from report.theory.conditions import conditions_of
from report.theory.terms import COUNTED_WIDTH, Tile

#: Attachment of a record with the output of Nsight Compute.
NCU_ATTACHMENT: Final = attachment_name(ncu.TOOL)
#: Attachment of a record that maps kind of process → call → oneDNN's code and formats.
ONEDNN_ATTACHMENT: Final = "onednn.json"
#: Kinds of processes: with all instructions, without instructions newer than AVX2, under Valgrind.
NATIVE, LIMITED_TO_AVX2, UNDER_VALGRIND = "native", "native, AVX2 at most", "valgrind"
_TILE: Final = re.compile(r"_tilesize(\d+)x(\d+)x(\d+)_")


class ProfiledCall(NamedTuple):
    """A forward call on a shape; ``subject`` is ``layer``, ``held_out`` or ``changed``."""

    shape: Dimensions
    batch: int
    subject: str

    @property
    def name(self) -> str:
        """The call as a table prints it."""
        return f"{self.shape.name}, {self.batch}"

    def factors(self) -> dict[str, Level]:
        """Return the factors of the case in records."""
        return self.shape.factors(self.batch, subject=self.subject)


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def calls(self) -> tuple[ProfiledCall, ...]:
        """The forward calls in float32: the example's first, then in the order of ``SUBJECTS``."""
        calls = []
        for case in self.stored.record.cases:
            factors = case.factors
            in_float32 = factors.get("subject") in subject.SUBJECTS and "precision" not in factors
            if in_float32 and factors["pass"] == "forward":
                shape, batch = dimensions_of(factors), int(factors["batch"])
                calls.append(ProfiledCall(shape, batch, str(factors["subject"])))
        rank_of = subject.SUBJECTS.index
        calls.sort(key=lambda call: (call.shape != subject.EXAMPLE_SHAPE, rank_of(call.subject)))
        return tuple(calls)

    def block(self, instructions: str = NATIVE) -> int:
        """Return oneDNN's channels per block, with all instructions (``NATIVE``) or with AVX2."""
        native = conditions_of(self.stored.record.environment).channels_per_block
        return native if instructions == NATIVE else COUNTED_WIDTH  # Valgrind counts with AVX2

    def native_block(self) -> Quantity:
        """Return the channels of a block with all instructions, for printing in the paper."""
        return exact_number("channels of a block", "1", self.block(), self.file)

    def calls_with_same_code(
        self, inputs: Inputs, kind: str = NATIVE, other_kind: str = NATIVE
    ) -> Quantity:
        """Count calls for which oneDNN has the same code and formats in two kinds of processes."""
        name = f"calls of the same code: {kind}, {other_kind}"
        no_code = Missing(f"oneDNN's code was not recorded on {self.label}")
        content = inputs.attachments.get(self.file, {}).get(ONEDNN_ATTACHMENT, no_code)
        if isinstance(content, Missing):
            return missing_number(name, "1", content.reason)
        place = f"data/{self.file}, {ONEDNN_ATTACHMENT}"
        codes = parse_json(content, dict[str, dict[str, str]], place, REMEDY)
        code, other_code = codes.get(kind, {}), codes.get(other_kind, {})
        return exact_number(name, "1", len(code.items() & other_code.items()), self.file)

    @cached_property
    def single_runs(self) -> tuple[Self, ...]:
        """The pooled runs one by one, the oldest first."""
        runs = sorted(self.stored.runs, key=start_and_file)
        return tuple(replace(self, stored=replace(run, others=())) for run in runs)

    @property
    def with_disturbed(self) -> Self:
        """The pooled runs, including the processes that other programs disturbed."""
        stored, *others = map(_without_disturbances, self.stored.runs)
        return replace(self, stored=replace(stored, others=tuple(others)))

    def time(self, shape: Dimensions, instructions: str) -> Quantity:
        """Return the time (s) of a forward call on eight images with these instructions."""
        factors = shape.factors(subject.TIMED_BATCH, subject=subject.TIMED)
        return self.series("time", {**factors, "instructions": instructions})

    def cuda_core_operations(self, factors: any_study.CaseFactors) -> Quantity:
        """Sum the float32 operations (FLOP) of CUDA cores; a fused multiply-add counts twice."""
        adds = self.deterministic_quantity("ncu_fp32_additions", factors)
        multiplies = self.deterministic_quantity("ncu_fp32_multiplications", factors)
        fused = self.deterministic_quantity("ncu_fp32_multiply_adds", factors)
        return counted_in("FLOP", adds + multiplies + 2 * fused)

    def seen_operations(self, batch: int) -> Quantity:
        """Return the operations (FLOP) that counters of CUDA cores show for a call with TF32 on."""
        return named("operations seen", self.cuda_core_operations(tf32_factors(batch)))

    def tensor_core_share(self, batch: int) -> Quantity:
        """Divide the operations of tensor cores in a call with TF32 on by the work of theory."""
        flops = self.deterministic_quantity("ncu_tensor_core_flops", tf32_factors(batch))
        return flops / theory.work(batch)

    def ratio_to_estimate(self, batch: int) -> Quantity:
        """Divide seen operations by the source's estimate, which is theory ÷ output channels."""
        return self.seen_operations(batch) / named("estimate", theory.work(batch) / theory.C_OUT)


def _without_disturbances(stored: Stored) -> Stored:
    """Copy a record without its marks of disturbed processes, so that all processes are used."""
    cases = []
    for case in stored.record.cases:
        rounds = tuple(msgspec.structs.replace(item, disturbance=None) for item in case.rounds)
        cases.append(msgspec.structs.replace(case, rounds=rounds))
    return replace(stored, record=msgspec.structs.replace(stored.record, cases=tuple(cases)))


def tf32_factors(batch: int) -> any_study.CaseFactors:
    """Return the factors of the example's forward call with TF32 on."""
    return {**subject.EXAMPLE_SHAPE.factors(batch), "precision": "tfloat32"}


def tile_of(inputs: Inputs, run: Run, call: ProfiledCall) -> Tile | None:
    """Return the tile in the name of a call's kernel, such as ``…_tilesize128x32x8_stage3_…``.

    None if no kernel or several kernels name a tile, or if the record has no trusted log.
    """
    content = inputs.attachments.get(run.file, {}).get(NCU_ATTACHMENT, b"")
    for index, case in enumerate(run.stored.record.cases):
        if case.factors == call.factors() and content and not isinstance(content, Missing):
            names = _kernels(content, index, f"data/{run.file}, {NCU_ATTACHMENT}")
            tiles = [tuple(map(int, tile.groups())) for tile in map(_TILE.search, names) if tile]
            return tiles[0] if len(tiles) == 1 else None  # type: ignore[return-value]
    return None


@lru_cache(maxsize=256)  # the tables of several records; the logs stay in memory
def _kernels(content: bytes, case: int, place: str) -> Collection[str]:
    """Return the kernels of a case's first call, by an attachment; () without a trusted log."""
    logs = _unpack_logs(content, place)
    if case not in logs:
        return ()
    log = ncu.read_log(logs[case], f"{place}, case {case}")
    return {row.kernel for row in log.calls[0] if CUDA_CORE not in log.untrusted}


@lru_cache(maxsize=2)
def _unpack_logs(content: bytes, place: str) -> Mapping[int, Mapping[str, str]]:
    """Unpack an attachment: index of a case → name of a log → text."""
    return {item.case: item.logs for item in unpack(content, ncu.TOOL, place)}
