"""One record of inference_memory: peaks, their predictions, and batches that ran under limits."""

from dataclasses import dataclass
from functools import cached_property

from report.core.missing import Missing
from report.core.records.layers import Layer
from report.evidence import runs as any_study
from report.evidence.cached import cached
from report.quantity.expression import Quantity, exact_number, missing_number
from report.studies.inference_memory import subject, theory
from report.studies.inference_memory.subject import NETWORKS, Call, LimitOutcome
from report.theory.conditions import Layout, conditions_of
from report.theory.network import SearchResult
from report.theory.networks import Variant, load_capture
from report.theory.peaks import peak_bytes


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def calls(self) -> dict[Call, tuple[Layer, ...]]:
        """Call → layers, sorted by network and batch; the calls include failed ones."""
        layers: dict[Call, tuple[Layer, ...]] = {}
        for case in self.stored.record.cases:
            if call := subject.call_of(case):
                layers[call] = case.layers
        calls = sorted(layers, key=lambda call: (NETWORKS.index(call.network), call.batch))
        return {call: layers[call] for call in calls}

    def time(self, call: Call) -> Quantity:
        """Return the duration of a call (s)."""
        return self.series("time", call.factors)

    def peak(self, call: Call) -> Quantity:
        """Return the peak of a call (B); on a GPU, of requested bytes minus the workspace."""
        if self.on_gpu:
            requested = self.deterministic_quantity("requested_peak", call.factors)
            return requested - self.library_workspace(call)
        return self.deterministic_quantity("allocated_peak", call.factors)

    def library_workspace(self, call: Call) -> Quantity:
        """Return the bytes that cuBLAS requests in the first call on a GPU and keeps."""
        series = ("memory_events_before", "memory_events")
        first_events, second_call = (self.samples(name, call.factors) for name in series)
        if not (isinstance(first_events, Missing) or isinstance(second_call, Missing)):
            # Events come from building network and images, then from the first call.  This call
            # begins like the second call and frees all its tensors, so that its sum is the
            # workspace.
            for start in range(len(first_events)):
                if first_events[start : start + 2] == second_call[:2]:
                    size = sum(first_events[start:])
                    return exact_number("library workspace", "B", size, self.file)
        return missing_number("library workspace", "B", f"no requests recorded on {self.label}")

    @cached
    def residual(self, call: Call) -> Quantity:
        """Return the measured minus the predicted peak of a call (B); missing on a GPU."""
        variant = Variant(call.layout, call.precision)
        network = load_capture(call.network, call.image, variant, like=self.calls[call])
        if self.on_gpu or call.tile is not None or isinstance(network, Missing):
            reason = "workspaces are known for whole maps on a CPU only"
            return missing_number("residual", "B", reason)
        conditions = conditions_of(self.stored.record.environment)
        predicted = peak_bytes(network, call.batch, conditions=conditions)
        return self.peak(call) - exact_number("predicted peak", "B", predicted)

    @cached_property
    def limits(self) -> list[tuple[LimitOutcome, SearchResult]]:
        """The outcomes under limits with predictions; outcomes of unchanged networks first."""

        def order(row: tuple[LimitOutcome, SearchResult]) -> tuple[bool, int, Layout, int]:
            limit, _ = row
            return limit.change != "", NETWORKS.index(limit.network), limit.layout, limit.mebibytes

        conditions, rows = conditions_of(self.stored.record.environment), []
        for limit in filter(None, map(subject.limit_outcome_of, self.stored.record.cases)):
            predicted = theory.predict_batch(limit, conditions)
            # Other networks than the paper's have no stored capture, so that none is predicted.
            if not isinstance(predicted, Missing):
                rows.append((limit, predicted))
        return sorted(rows, key=order)

    def batch_ratios(self, change: str) -> dict[LimitOutcome, Quantity]:
        """Divide the largest batch with a change by the largest batch without it, per limit."""
        batches, unchanged, ratios = {}, {}, {}
        for limit, _ in self.limits:
            batches[limit] = exact_number("largest batch", "1", limit.largest_batch, self.file)
            if not limit.change:
                unchanged[limit.setting] = batches[limit]
        for limit, batch in batches.items():
            if limit.change == change and limit.largest_batch and limit.setting in unchanged:
                ratios[limit] = batch / unchanged[limit.setting]
        return ratios
