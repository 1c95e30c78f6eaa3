"""One record of inference_memory: peaks beside theory, and the batches that ran under limits."""

from dataclasses import dataclass
from functools import cached_property

from report.core.missing import Missing
from report.core.records.layers import Layer
from report.evidence import runs as any_study
from report.evidence.cached import cached
from report.quantity.expression import Quantity, absent, exact
from report.studies.inference_memory import theory
from report.studies.inference_memory.subject import NETWORKS, Call, Limit, call_of, limit_of
from report.theory.conditions import conditions_of
from report.theory.network import SearchResult
from report.theory.networks import Variant, load_capture
from report.theory.peaks import peak_bytes


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def calls(self) -> dict[Call, tuple[Layer, ...]]:
        """The layers of every call with any outcome, by network, then by batch."""
        calls = {call: case.layers for case in self.stored.record.cases if (call := call_of(case))}
        order = NETWORKS.index
        return dict(sorted(calls.items(), key=lambda item: (order(item[0].network), item[0].batch)))

    def time(self, call: Call) -> Quantity:
        """Duration of a call (s)."""
        return self.series("time", call.factors)

    def peak(self, call: Call) -> Quantity:
        """Peak of a call (B); on a GPU of the requests, which its allocator rounds up."""
        if self.on_gpu:
            requested = self.fixed_quantity("requested_peak", call.factors)
            return requested - self.library_workspace(call)
        return self.fixed_quantity("allocated_peak", call.factors)

    def library_workspace(self, call: Call) -> Quantity:
        """Bytes that cuBLAS requests in the first call on a GPU and keeps for all later calls."""
        series = ("memory_events_before", "memory_events")
        before, second_call = (self.samples(name, call.factors) for name in series)
        if not (isinstance(before, Missing) or isinstance(second_call, Missing)):
            # The network and images are built first; the first call frees its tensors.
            for start in range(len(before)):
                if before[start : start + 2] == second_call[:2]:
                    return exact("library workspace", "B", sum(before[start:]), self.file)
        return absent("library workspace", "B", f"no requests recorded on {self.label}")

    @cached
    def residual(self, call: Call) -> Quantity:
        """Subtract the predicted peak of a call from the measured one (B)."""
        variant = Variant(call.layout, call.precision)
        network = load_capture(call.network, call.image, variant, like=self.calls[call])
        if self.on_gpu or call.tile is not None or isinstance(network, Missing):
            return absent("residual", "B", "workspaces are known for whole maps on a CPU only")
        conditions = conditions_of(self.stored.record.environment)
        predicted = peak_bytes(network, call.batch, conditions=conditions)
        return self.peak(call) - exact("predicted peak", "B", predicted)

    @cached_property
    def limits(self) -> list[tuple[Limit, SearchResult]]:
        """The outcomes under limits with the predictions of ``--fits``, unchanged ones first."""
        conditions, rows = conditions_of(self.stored.record.environment), []
        for limit in filter(None, map(limit_of, self.stored.record.cases)):
            fits = theory.fits(limit, conditions)
            if not isinstance(fits, Missing):
                rows.append((limit, fits))
        rows.sort(key=lambda row: (NETWORKS.index(row[0].network), row[0].layout, row[0].mebibytes))
        return sorted(rows, key=lambda row: row[0].change != "")

    def frontier_ratios(self, change: str) -> dict[Limit, Quantity]:
        """Divide the largest batch that ran with a change by that without, under each limit."""
        ran = {limit: exact("largest batch", "1", limit.ran, self.file) for limit, _ in self.limits}
        plain = {limit.setting: batch for limit, batch in ran.items() if not limit.change}
        ratios = {}
        for limit, batch in ran.items():
            if limit.change == change and limit.ran and limit.setting in plain:
                ratios[limit] = batch / plain[limit.setting]
        return ratios
