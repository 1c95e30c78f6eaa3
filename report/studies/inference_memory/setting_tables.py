"""The tables of execution and of the best setting; their captions stand in the template."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from report.missing import Missing
from report.paper.declared import Content, Field, table
from report.paper.findings import Inputs
from report.paper.tables import Table
from report.studies.inference_memory.choices import (
    Best,
    Decision,
    best,
    compared_base,
    decisions,
    published_networks,
    reported_speedups,
    speedup,
)
from report.studies.inference_memory.columns import BATCH, NETWORK
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import LAYOUT_NAMES, Call
from report.studies.inference_memory.sweeps import fused_bases
from report.studies.inference_memory.traces import KINDS, Traced
from report.theory.workspaces import Layout


def operator_table(run: Run, traced: Sequence[Traced]) -> Table:
    """The share of each kind of work in the time of one call."""

    def share(kind: str) -> Field[Traced]:
        return Field(kind, "1", lambda row: row.times()[kind] / row.total if row.total else 0, "%")

    return table(
        "tbl-operators",
        traced,
        [
            Field("Network", "", lambda row: row.call.network),
            Field("Batch", "1", lambda row: row.call.batch),
            Field("Layout", "", lambda row: LAYOUT_NAMES[row.call.layout]),
            Field("Operators", "s", lambda row: row.total / 1e9, "ms"),
            *(share(kind) for kind, _ in KINDS),
        ],
        sources=(run.file,),
        wide=True,
    )


def fusion_table(run: Run) -> Table:
    """Speed-ups by folding, compiling and layout alone, each over the plain call."""

    def as_(execution: str, layout: Layout = "contiguous") -> Callable[[Call], Call]:
        return lambda b: Call(b.network, b.image, b.batch, layout, execution=execution)  # type: ignore[arg-type]

    def gained(name: str, change: Callable[[Call], Call]) -> Field[Call]:
        return Field(name, "1", lambda base: speedup(run, change(base)))

    compiled = as_("compiled")
    return table(
        "tbl-fusion",
        fused_bases(run),
        [
            NETWORK,
            BATCH,
            Field("Plain", "s", run.time, "ms"),
            gained("Channels last", as_("eager", "channels_last")),
            gained("Folded", as_("folded")),
            gained("Folded, channels last", as_("folded", "channels_last")),
            gained("Compiled", compiled),
            Field("First call", "s", lambda base: run.count("first_call_time", compiled(base))),
        ],
        sources=(run.file,),
        wide=True,
    )


def published_table(inputs: Inputs, run: Run) -> Table:
    """Published speed-ups beside those of the best setting here."""
    printed, no_number = reported_speedups(inputs), Missing("no number is printed")

    def base(get: Callable[[Call], Content]) -> Callable[[str], Content]:
        def found(network: str) -> Content:
            call = compared_base(run, network)
            return Missing(f"no call of it was timed on {run.label}") if call is None else get(call)

        return found

    def own(get: Callable[[Best], Content], *, same: bool) -> Callable[[str], Content]:
        def found(network: str) -> Content:
            made = best(run, network, same_precision=same)
            return made if isinstance(made, Missing) else get(made)

        return found

    return table(
        "tbl-published",
        published_networks(inputs, run),
        [
            Field("Network", "", lambda network: network),
            Field("Published", "1", lambda network: printed.get(network, no_number)),
            Field("Batch", "1", base(lambda call: call.batch)),
            Field("Plain", "s", base(run.time), "ms"),
            Field("In float32", "1", own(lambda made: made.gain, same=True)),
            Field("By", "", own(lambda made: made.call.setting, same=True)),
            Field("In any precision", "1", own(lambda made: made.gain, same=False)),
            Field("By ", "", own(lambda made: made.call.setting, same=False)),
        ],
        sources=(inputs.reported_file, run.file),
        wide=True,
    )


def decision_table(run: Run) -> Table:
    """For each network and goal the best setting, what it takes, and what it gains."""

    def of_call(get: Callable[[Call], Content]) -> Callable[[Decision], Content]:
        return lambda made: get(made.call)

    return table(
        "tbl-decisions",
        decisions(run),
        [
            Field("Network", "", of_call(lambda call: call.network)),
            Field("Goal", "", lambda made: made.goal),
            Field("Batch", "1", of_call(lambda call: call.batch)),
            Field("Setting", "", of_call(lambda call: call.setting)),
            Field("Time", "s", of_call(run.time), "ms"),
            Field("Rate", "image/s", of_call(run.image_rate)),
            Field("Peak", "B", of_call(run.peak), "MB"),
            Field("Gain", "1", lambda made: made.gain),
            Field("Clear", "", lambda made: "yes" if made.clear else "no"),
        ],
        notes=("Clear: above one at the level that all settings share; bytes have no interval.",),
        sources=(run.file,),
        wide=True,
    )
