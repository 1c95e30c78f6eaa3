"""The figure and the tables of what a GPU executes, from traces that others published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from figures.bars import Bars, BarSeries
from figures.canvas import Drawing
from report.evidence.remembered import known
from report.missing import Missing
from report.paper.declared import Field, table
from report.paper.findings import Figure
from report.paper.tables import Table
from report.quantity.evaluation import point
from report.studies.conv_profiling.published import Published
from report.text.format import quantity_text
from report.theory.gpu_kernels import Method
from report.theory.reconciliation import Reconciliation

_WORDS: Final[Mapping[Method, str]] = {
    "direct": "direct, FP32", "fourier": "Fourier, FP32", "tensor cores": "tensor cores, TF32",
}  # fmt: skip
_MEGA: Final = 1e6
#: Inches.
_HEIGHT: Final = 2.3
#: What is drawn of a layer, by the terms that it is the sum of; the first two are theory's own.
_PARTS: Final = (
    ("Padding", ("Padding",)),
    ("Fourier products and transforms", ("Fourier products", "Transforms")),
    ("Scaling, layout, bias", ("Scaling and sums of parts", "Layout conversion", "Bias")),
)


def tables(found: Published | None) -> Iterator[Table]:
    """A row a layer, and the same term by term; nothing without the traces."""
    if found is not None:
        yield layer_table(found)
        yield term_table(found)


def figures(found: Published | None) -> Iterator[Figure]:
    """What each layer executes; nothing without the traces."""
    if found is not None:
        yield figure(found)


def figure(found: Published) -> Figure:
    """What each layer executes over what its shape says, term by term with the residual."""
    reconciliations = tuple(found.reconciliations.values())
    tensor = tuple(each.kernels.method == "tensor cores" for each in found.forward.layers)

    def share(amounts: Iterable[int]) -> tuple[float | None, ...]:
        return tuple(
            a / r.start.amount or None for a, r in zip(amounts, reconciliations, strict=True)
        )

    direct = [0 if _amount(r, "Fourier products") or t else r.start.amount
              for r, t in zip(reconciliations, tensor, strict=True)]  # fmt: skip
    uncounted = [r.start.amount if t else 0 for r, t in zip(reconciliations, tensor, strict=True)]
    seen = [_two_digits(known(point(found.executed(each)))) for each in found.forward.layers]
    drawn = [
        ("Products of the shape, counted", direct),
        ("On tensor cores, not counted", uncounted),
        *((name, [_part(r, terms) for r in reconciliations]) for name, terms in _PARTS),
        ("Residual", [r.residual if isinstance(r.residual, int) else 0 for r in reconciliations]),
    ]
    bars = Bars(
        tuple(each.layer.name for each in found.forward.layers),
        tuple(
            BarSeries(name, share(a), series=i, hollow=a is uncounted)
            for i, (name, a) in enumerate(drawn)
        ),
        "Operations ÷ theory from the shape",
        stacked=True,
        reference=1.0,
        ends=tuple("" if t else text for t, text in zip(tensor, seen, strict=True)),
        starts=tuple(f"counted {text}" if t else "" for t, text in zip(tensor, seen, strict=True)),
    )
    drawing = Drawing((bars,), wide=True, height=_HEIGHT)
    return Figure("fig-published", "", "", drawing, found.files)


def _two_digits(share: float) -> str:
    """A share as a label: three digits from one on, two below it."""
    return quantity_text(float(f"{share:.3g}" if share >= 1 else f"{share:.2g}"), "1")


def _part(r: Reconciliation, names: Sequence[str]) -> int:
    """The terms of these names; what replaces direct products counts in full."""
    replaced = r.start.amount if _amount(r, "Fourier products") else 0
    return sum(_amount(r, name) for name in names) + (
        replaced if "Fourier products" in names else 0
    )


def _amount(r: Reconciliation, name: str) -> int:
    return next(term.amount for term in r.terms if term.name == name)


def layer_table(found: Published) -> Table:
    """A row a layer: how it was computed, what was counted, how long it took."""
    return table(
        "tbl-published",
        found.forward.layers,
        [
            Field("Layer", "", lambda each: each.layer.name),
            Field("Kernels", "", lambda each: _WORDS[each.kernels.method]),
            Field("Counted ÷ theory", "1", found.executed),
            Field("Residual ÷ theory", "1", lambda e: found.unexplained(e) / found.work(e), "%"),
            Field("Time (µs)", "1", found.microseconds),
            Field("Theory ÷ time (TFLOP/s)", "1", found.teraflops),
        ],
        sources=found.files,
    )


def term_table(found: Published) -> Table:
    """The same reconciled term by term: a row a layer, with the terms that are not zero."""
    reconciliations = found.reconciliations
    first = next(iter(reconciliations.values()))

    def counted(name: str) -> int | Missing:
        measured = reconciliations[name].measured
        return measured if isinstance(measured, Missing) else measured.amount

    return table(
        "tbl-published-terms",
        reconciliations,
        [
            Field("Layer", "", lambda name: name),
            Field("Theory", "FLOP", lambda name: reconciliations[name].start.amount, "MFLOP"),
            Field("Terms (MFLOP)", "", lambda name: _terms(reconciliations[name])),
            Field("Counted", "FLOP", counted, "MFLOP"),
            Field("Residual", "FLOP", lambda name: reconciliations[name].residual, "MFLOP"),
        ],
        notes=tuple(_note(reconciliations.values(), term.name) for term in first.terms),
        sources=found.files,
    )


def _terms(r: Reconciliation) -> str:
    """The terms that are not zero, in MFLOP."""
    shown = [(t.name, quantity_text(t.amount / _MEGA, "1")) for t in r.terms if t.amount]
    return "; ".join(f"{name} {amount}" for name, amount in shown)


def _note(reconciliations: Iterable[Reconciliation], name: str) -> str:
    """How a term is computed, in all layers where it is there."""
    terms = [
        term for each in reconciliations for term in each.terms if term.name == name and term.amount
    ]
    formulas = " or ".join(dict.fromkeys(term.formula for term in terms))
    return f"{name}: {formulas} ({terms[0].evidence})." if terms else f"{name}: none."
