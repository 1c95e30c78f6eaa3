"""One record of the study: its calls, their counts, bytes, times and kernels."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final, NamedTuple, Self

import msgspec

from report.core.missing import Missing
from report.core.records.record import Level
from report.core.records.store import Stored, start_and_file
from report.core.records.strict import parse_json
from report.evidence import runs as any_study
from report.evidence.runs import CaseFactors
from report.instruments.counters import ncu
from report.instruments.counters.logs import REMEDY, attachment_name, unpack
from report.paper.findings import Inputs
from report.quantity.expression import Quantity, absent, exact, named
from report.quantity.operations import counted_in
from report.studies.conv_profiling import subject, theory
from report.studies.conv_profiling.subject import Dimensions, dimensions_of
from report.theory.conditions import conditions_of
from report.theory.terms import COUNTED_WIDTH, Tile

#: The file beside a record that holds what Nsight Compute printed.
ATTACHMENT: Final = attachment_name(ncu.TOOL)
#: The file beside a record that names oneDNN's code for each call, and its kinds of processes.
DISPATCH: Final = "onednn.json"
NATIVE, LIMITED, EMULATED = "native", "native, AVX2 at most", "valgrind"
_TILE: Final = re.compile(r"_tilesize(\d+)x(\d+)x(\d+)_")


class ProfiledCall(NamedTuple):
    """A forward call of the layer; ``subject`` is one of ``SUBJECTS``, the kind of its shape."""

    shape: Dimensions
    batch: int
    subject: str

    @property
    def name(self) -> str:
        """The call as a table prints it."""
        return f"{self.shape.name}, {self.batch}"

    def factors(self) -> dict[str, Level]:
        """The case as a record names it."""
        return self.shape.factors(self.batch, subject=self.subject)


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def calls(self) -> tuple[ProfiledCall, ...]:
        """The forward calls in float32: the example's by batch, then the others as recorded."""
        calls = []
        for case in self.stored.record.cases:
            kind = str(case.factors.get("subject"))
            own = kind in subject.SUBJECTS and "precision" not in case.factors
            if own and case.factors["pass"] == "forward":
                batch = int(case.factors["batch"])
                calls.append(ProfiledCall(dimensions_of(case.factors), batch, kind))
        rank = subject.SUBJECTS.index
        calls.sort(key=lambda call: (call.shape != subject.BASE, rank(call.subject)))
        return tuple(calls)

    def block(self, instructions: str = NATIVE) -> int:
        """Channels that oneDNN keeps together on this processor, or with AVX2 at most."""
        native = conditions_of(self.stored.record.environment).block
        return native if instructions == NATIVE else COUNTED_WIDTH

    def native_block(self) -> Quantity:
        """Channels of a block on this processor, as a number of the text."""
        return exact("channels of a block", "1", self.block(), self.file)

    def dispatched(self, inputs: Inputs, process: str = NATIVE, like: str = NATIVE) -> Quantity:
        """Count calls whose oneDNN code and formats are the same in two kinds of processes."""
        name = f"calls of the same code: {process}, {like}"
        no_code = Missing(f"oneDNN's code was not recorded on {self.label}")
        content = inputs.attachments.get(self.file, {}).get(DISPATCH, no_code)
        if isinstance(content, Missing):
            return absent(name, "1", content.reason)
        place = f"data/{self.file}, {DISPATCH}"
        codes = parse_json(content, dict[str, dict[str, str]], place, REMEDY)
        ours, theirs = codes.get(process, {}), codes.get(like, {})
        return exact(name, "1", len(ours.items() & theirs.items()), self.file)

    @property
    def single_runs(self) -> list[Self]:
        """The pooled runs one by one, the oldest first."""
        runs = sorted(self.stored.runs, key=start_and_file)
        return [replace(self, stored=replace(run, others=())) for run in runs]

    @property
    def with_disturbed(self) -> Self:
        """The pooled runs, with the processes that other programs disturbed."""
        stored, *others = map(_with_disturbed, self.stored.runs)
        return replace(self, stored=replace(stored, others=tuple(others)))

    def time(self, shape: Dimensions, instructions: str) -> Quantity:
        """Time of a forward call of eight images with these instructions."""
        factors = shape.factors(subject.FEW_IMAGES, subject=subject.TIMED)
        return self.series("time", {**factors, "instructions": instructions})

    def counted(self, factors: CaseFactors) -> Quantity:
        """Operations on CUDA cores: additions + multiplications + 2 · fused, in float32."""
        adds = self.fixed_quantity("ncu_fp32_additions", factors)
        multiplies = self.fixed_quantity("ncu_fp32_multiplications", factors)
        fused = self.fixed_quantity("ncu_fp32_multiply_adds", factors)
        return counted_in("FLOP", adds + multiplies + 2 * fused)

    def seen(self, batch: int) -> Quantity:
        """Operations (FLOP) of a forward call with TF32 on that the source's counters see."""
        return named("operations seen", self.counted(tf32_factors(batch)))

    def on_tensor_cores(self, batch: int) -> Quantity:
        """Divide operations on tensor cores, of a forward call with TF32 on, by theory."""
        flops = self.fixed_quantity("ncu_tensor_core_flops", tf32_factors(batch))
        return flops / theory.work(batch)

    def over_estimate(self, batch: int) -> Quantity:
        """Divide what the source's counters see by its estimate, which lacks output channels."""
        return self.seen(batch) / named("estimate", theory.work(batch) / theory.C_OUT)


def _with_disturbed(stored: Stored) -> Stored:
    """Copy a record as if nothing had disturbed its processes, so that none is left out."""
    cases = []
    for case in stored.record.cases:
        rounds = tuple(msgspec.structs.replace(one, disturbance=None) for one in case.rounds)
        cases.append(msgspec.structs.replace(case, rounds=rounds))
    return replace(stored, record=msgspec.structs.replace(stored.record, cases=tuple(cases)))


def tf32_factors(batch: int) -> CaseFactors:
    """The example's forward call with TF32 on."""
    return {**subject.BASE.factors(batch), "precision": "tfloat32"}


def tile_of(inputs: Inputs, run: Run, call: ProfiledCall) -> Tile | None:
    """Return the tile that a kernel of a call names, as in ``…_tilesize128x32x8_stage3_…``.

    None if no kernel or several kernels name a tile, or if the record has no trusted log.
    """
    content = inputs.attachments.get(run.file, {}).get(ATTACHMENT, b"")
    place = f"data/{run.file}, {ATTACHMENT}"
    logs = _logs(content, place) if content and not isinstance(content, Missing) else {}
    for index, case in enumerate(run.stored.record.cases):
        if case.factors == call.factors() and index in logs:
            log = ncu.read_log(logs[index], f"{place}, case {index}")
            names = {row.kernel for row in log.calls[0] if "cuda_core" not in log.distrusted}
            tiles = [tuple(map(int, tile.groups())) for tile in map(_TILE.search, names) if tile]
            return tiles[0] if len(tiles) == 1 else None  # type: ignore[return-value]
    return None


@lru_cache(maxsize=2)
def _logs(content: bytes, place: str) -> Mapping[int, Mapping[str, str]]:
    """Unpack the logs of each case; a paper asks for one after the other."""
    return {item.case: item.logs for item in unpack(content, ncu.TOOL, place)}
