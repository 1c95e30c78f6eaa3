"""The rules of workspaces as they apply: every block that a layer of a run takes, with its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from report.missing import Missing
from report.paper.declared import Field, table
from report.paper.tables import Table
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.peaks import reconciled
from report.studies.inference_memory.subject import LAYOUT_NAMES, Call
from report.theory.reconciliation import Term
from report.theory.workspaces import moments


@dataclass(frozen=True)
class _Block:
    """A block beside the maps of one layer, whether the layer's output is there with it."""

    call: Call
    layer: str
    term: Term
    with_output: bool

    @property
    def rule(self) -> tuple[str, str, str]:
        """What makes a row of its own."""
        return self.call.layout, self.term.name, self.term.formula


def rule_table(run: Run) -> Table:
    """Each rule once: what is taken, by which formula, when, and the largest block that it gave."""
    largest: dict[tuple[str, str, str], _Block] = {}
    for block in _blocks(run):
        known = largest.get(block.rule)
        if known is None or block.term.amount > known.term.amount:
            largest[block.rule] = block
    return table(
        "tbl-rules",
        sorted(largest.values(), key=lambda block: (block.call.layout != "contiguous", block.rule)),
        [
            Field("Layout", "", lambda row: LAYOUT_NAMES[row.call.layout]),
            Field("Block", "", lambda row: row.term.name),
            Field("Bytes by rule", "", lambda row: row.term.formula),
            Field("Output is there", "", lambda row: "yes" if row.with_output else "not yet"),
            Field("Largest in", "", lambda row: row.call.network),
            Field("Batch", "1", lambda row: row.call.batch),
            Field("Layer", "", lambda row: row.layer),
            Field("Size", "B", lambda row: row.term.amount, "kB"),
        ],
        sources=(run.file,),
        wide=True,
    )


def _blocks(run: Run) -> Iterator[_Block]:
    """The blocks of all calls in float32 whose peaks are compared."""
    for call in reconciled(run):
        layers, conditions = run.layers(call.factors), run.conditions(call)
        for layer in () if isinstance(layers, Missing) else layers:
            # A block that is there at two moments is named by the first.
            terms: dict[str, _Block] = {}
            for moment in moments(layer, conditions):
                for term in moment.terms:
                    terms.setdefault(term.name, _Block(call, layer.name, term, moment.with_output))
            yield from (block for block in terms.values() if block.term.amount)
