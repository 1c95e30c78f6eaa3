"""Theory led to the measured peak of every call of whole maps on a processor, term by term."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from report.missing import Missing
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import Call, Precision
from report.theory.reconciliation import Reconciliation, Term


def peaks(run: Run, *precisions: Precision) -> dict[Call, Reconciliation]:
    """The calls in these precisions whose peak is both predicted and measured."""
    return dict(_peaks(run, precisions))


def _peaks(run: Run, precisions: Iterable[Precision]) -> Iterator[tuple[Call, Reconciliation]]:
    for call in run.calls:
        size = run.fixed("allocated_peak", call.factors)
        if call.precision not in precisions or isinstance(size, Missing):
            continue
        predicted = run.predicted(call)
        if isinstance(predicted, Missing):
            continue
        start, *terms = predicted.terms
        words = f"{call.image}-{call.batch}-{call.layout}-{call.precision}"
        yield (
            call,
            Reconciliation(
                f"peak-{run.key}-{call.network}-{words}",
                f"Peak memory of {call.network} on {call.batch:,} images, {call.layout}, "
                f"{call.precision}, {run.label}",
                "B",
                start,
                tuple(terms),
                Term("Measured", size, "most bytes in live blocks", "the allocator's events"),
            ),
        )
