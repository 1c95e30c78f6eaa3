"""What the C library's memory policy does to the time of the layer, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from figures.canvas import Drawing
from figures.scaling import Scaling, alike
from report.missing import Missing
from report.paper.findings import Figure
from report.paper.plots import every_other, points, theory_line
from report.paper.policies import (
    by_policy,
    fault_price,
    gain,
    lost,
    mapping_batches,
    mapping_share,
    mapping_time,
)
from report.quantity.evaluation import estimate, point
from report.quantity.expression import Quantity, absent, exact, named
from report.quantity.operations import at_least, at_most, geometric_mean
from report.quantity.verdicts import Several, Statement, all_of, any_of, equals, expect
from report.records.passes import Pass
from report.records.record import Policy
from report.statistics.estimates import Estimate
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.run_values import middle
from report.studies.conv_scaling.subject import SHOWN_BATCH

#: The largest block that glibc puts on its heap by itself, DEFAULT_MMAP_THRESHOLD_MAX (B).
_HEAP_LIMIT: Final = 32 * 2**20
#: Pages are foreseen within this share: the ends of blocks share pages with their neighbours.
_PAGES_WITHIN: Final = 0.02
_BACKWARD: Final[Pass] = "forward_backward"
#: At this batch size glibc maps the outputs by themselves and keeps the input's copy on its heap.
_OUTPUTS_ALONE: Final = 256


# ------------------------------------------------------------------------------------- pages


def _page(run: Run) -> Quantity:
    """Bytes of the pages that were mapped alone."""
    for ceiling in run.stored.record.ceilings:
        if ceiling.operation == "page_mapping" and ceiling.working_set:
            return exact("page", "B", ceiling.working_set // ceiling.work, run.file)
    return absent("page", "B", f"the size of a page was not recorded on {run.label}")


def _only_outputs(batch: int) -> bool:
    """Whether the outputs are too large for glibc's heap and the copy of the input is not."""
    found = (point(theory.input_bytes(batch)), point(theory.output_bytes(batch)))
    return found[0] <= _HEAP_LIMIT < found[1]  # type: ignore[operator]


def foreseen(run: Run, batch: int) -> Quantity:
    """Pages of the blocks that glibc returns after each call and the next one maps again.

    A block over its limit is mapped by itself.  Smaller ones lie on the heap, of which glibc
    returns the top where more is free than twice the largest block (mallopt(3)): the two outputs
    and the copy of the input together are more, the copy alone is not.
    """
    outputs = 2 * theory.output_bytes(batch)
    blocks = outputs if _only_outputs(batch) else outputs + theory.input_bytes(batch)
    return named("pages of the returned blocks", blocks / _page(run))


def _returned(run: Run) -> Run:
    return run.under("default")


def settled(run: Run) -> tuple[int, ...]:
    """The batch sizes that map pages, but the first one, where free memory of the heap serves."""
    return mapping_batches(run)[1:]


def pages_follow(run: Run) -> Several:
    """That calls map the pages which the sizes of their blocks foresee."""
    margin = equals(1, within=_PAGES_WITHIN)
    shares = [_returned(run).faults(batch) / foreseen(run, batch) for batch in settled(run)]
    shares = shares or [absent("pages", "1", f"too few calls map pages on {run.label}")]
    return all_of(*(Statement(share, margin) for share in shares))


# -------------------------------------------------------------------------------------- time


def _unpriced(run: Run, batch: int) -> Quantity:
    """The slowdown less the pages at their price."""
    return named("left", lost(run, batch) - mapping_time(_returned(run), batch))


def _priced(run: Run) -> list[Quantity]:
    """The median share of the slowdown that the pages have, at each batch size that maps any."""
    shares = (mapping_share(run, batch) for batch in mapping_batches(run))
    known = (found for share in shares if not isinstance(found := point(share), Missing))
    name = "priced pages ÷ slowdown, of medians"
    return [exact(name, "1", round(each, 2), run.file) for each in known]


def _remainders(run: Run, holds: Callable[[Estimate], bool]) -> Quantity:
    """At how many batch sizes what the price of pages leaves of the slowdown is such a one."""
    found = (estimate(_unpriced(run, batch)) for batch in mapping_batches(run))
    number = sum(isinstance(each, Estimate) and holds(each) for each in found)
    return exact("batch sizes", "1", number, run.file)


def _price_medians(run: Run) -> Quantity:
    """How many times the price of a page was measured."""
    found = sum(
        ceiling.operation == "page_mapping"
        for stored in run.stored.runs
        for ceiling in stored.record.ceilings
    )
    return exact("measurements of the price", "1", found, run.file)


def shown_batch(run: Run) -> int:
    """The batch size that is described: the planned one, or the largest that was measured."""
    return SHOWN_BATCH if SHOWN_BATCH in run.timed else run.timed[-1]


def _slowdown(run: Run, batch: int, pass_: Pass = "forward") -> Quantity:
    return _returned(run).time(batch, pass_) / run.time(batch, pass_)


def _below(run: Run) -> int:
    """The largest batch size that maps no pages although larger ones do, or the smallest of all."""
    mapping = mapping_batches(run)
    return max((b for b in run.timed if mapping and b < mapping[0]), default=run.timed[0])


def _slowdowns(run: Run) -> list[Quantity]:
    """The median slowdown at each batch size that maps pages."""
    return [middle(_slowdown(run, batch), 2) for batch in mapping_batches(run)]


def _jemalloc_gain(run: Run) -> Quantity:
    """How many times as long an image takes with jemalloc as where the C library keeps memory."""
    if "jemalloc" not in run.policies:
        return absent("time with jemalloc", "1", f"jemalloc was not measured on {run.label}")
    return middle(named("time with jemalloc / kept", gain(run, "jemalloc")), 2)


def _training_gain(run: Run) -> Quantity:
    ratios = [_slowdown(run, b, _BACKWARD) for b in mapping_batches(run)]
    known = [ratio for ratio in ratios if not ratio.missing]
    if not known:
        return absent("slowdown", "1", f"no call with its backward pass was timed on {run.label}")
    return named("slowdown with backward", geometric_mean(*known))


# ----------------------------------------------------------------------------------- figures


def figures(runs: Sequence[Run]) -> Iterator[Figure]:
    """Time by policy over pages, and the slowdown beside priced pages, a panel for each run."""
    files = tuple(run.file for run in runs)
    times = [
        replace(by_policy(run, every_other(run.timed))[0], title=_title(run, runs)) for run in runs
    ]
    panels = (*alike(times), *alike(list(map(_pages_panel, runs))))
    rows = len(runs)
    height = 2.5 if rows == 1 else 3.6
    yield Figure("fig-policies", "", "", Drawing(panels, True, height, rows=rows), files)
    priced = [replace(_priced_panel(r), title=_title(r, runs)) for r in runs if mapping_batches(r)]
    if priced:
        drawing = Drawing(alike(priced), wide=len(priced) > 1, height=2.0)
        yield Figure("fig-priced", "", "", drawing, files)


def _title(run: Run, runs: Sequence[Run]) -> str:
    """The name of a run over its panel, where there are several."""
    return run.label if len(runs) > 1 else ""


def _pages_panel(run: Run) -> Scaling:
    """Pages of an image by policy beside those that the blocks foresee."""
    pages = by_policy(run, every_other(run.timed))[1]
    over = {batch: foreseen(run, batch) / batch for batch in run.timed}
    curves = (theory_line("Foreseen", over, "1"),) if points("", over, "1") else ()
    # Without a line between them, points do not hide that of theory.
    drawn = tuple(replace(each, joined=False) for each in pages.points)
    return replace(pages, points=drawn, curves=curves)


def _priced_panel(run: Run) -> Scaling:
    batches = mapping_batches(run)
    measured = {batch: lost(run, batch) / batch for batch in batches}
    pages = {batch: mapping_time(_returned(run), batch) / batch for batch in batches}
    return Scaling(
        "Batch size (images)",
        "Time of an image (µs)",
        (
            *points("Slowdown", measured, "µs", series=1, hollow=True, joined=True),
            *points("Pages, priced", pages, "µs", series=0, joined=True),
        ),
        x_ticks=every_other(batches[::-1])[::-1],
        y_scale="linear",
        y_from_zero=True,
        direct=True,
    )


# ----------------------------------------------------------------------------------- numbers


def _processes(policy: Policy) -> Callable[[Run], Quantity]:
    """The fewest processes that measured a forward call of the layer under a policy."""

    def fewest(run: Run) -> Quantity:
        if policy not in run.policies:
            return absent("processes", "1", f"{policy} was not measured on {run.label}")
        found = min(run.under(policy).processes_of(batch) for batch in run.timed)
        return exact("processes of a case", "1", found, run.file)

    return fewest


def _shown(get: Callable[[Run, int], Quantity]) -> Callable[[Run], Quantity]:
    return lambda run: get(run, shown_batch(run))


def _mapping(place: int) -> Callable[[Run], Quantity]:
    def batch(run: Run) -> Quantity:
        found = mapping_batches(run)
        if not found:
            return absent("batch that maps pages", "1", f"no call mapped pages on {run.label}")
        return exact("batch that maps pages", "1", found[place], run.file)

    return batch


def _pages_alone(run: Run) -> Quantity:
    return 2 * theory.output_bytes(1) / _page(run)


def _over(
    choose: Callable[..., Quantity], get: Callable[[Run], list[Quantity]]
) -> Callable[[Run], Quantity]:
    """The smallest or the largest of quantities, missing where there is none."""

    def found(run: Run) -> Quantity:
        parts = get(run)
        return choose(*parts) if parts else absent("range", "1", f"nothing maps on {run.label}")

    return found


def _each_run(run: Run) -> list[Quantity]:
    return [gain(alone) for alone in run.alone()]


#: The numbers of the prose.
VALUES: Final[dict[str, Callable[[Run], Quantity]]] = {
    "processes_kept": _processes("retained"),
    "processes_returned": _processes("default"),
    "processes_jemalloc": _processes("jemalloc"),
    "runs": lambda run: exact("runs of the device", "1", len(run.stored.runs), run.file),
    "measurements": lambda run: run.rounds(disturbed=False),
    "disturbed": lambda run: run.rounds(disturbed=True),
    "policy_batch": lambda run: exact("batch size shown", "1", shown_batch(run), run.file),
    "policy_gain": gain,
    "policy_batches": lambda run: exact("batch sizes", "1", len(mapping_batches(run)), run.file),
    "slowdown_least": _over(at_most, _slowdowns),
    "slowdown_most": _over(at_least, _slowdowns),
    "jemalloc_gain": _jemalloc_gain,
    "gain_below": lambda run: _slowdown(run, _below(run)),
    "below_batch": lambda run: exact("batch below the first", "1", _below(run), run.file),
    "policy_share": lambda run: run.share(shown_batch(run)),
    "policy_default_share": lambda run: _returned(run).share(shown_batch(run)),
    "mapping_first": _mapping(0),
    "page": _page,
    "heap_limit": lambda run: exact("largest block of the heap in MiB", "1", _HEAP_LIMIT >> 20),
    "pages_foreseen": lambda run: _pages_alone(run) + theory.input_bytes(1) / _page(run),
    "pages_outputs": _pages_alone,
    "pages_least": _over(at_most, lambda run: [_returned(run).faults(b) / b for b in settled(run)]),
    "pages_most": _over(at_least, lambda run: [_returned(run).faults(b) / b for b in settled(run)]),
    "fault_price": fault_price,
    "mapping_time": _shown(lambda run, batch: mapping_time(_returned(run), batch)),
    "policy_lost": _shown(lost),
    "price_runs": _price_medians,
    "priced_last": lambda run: (_priced(run) or [absent("share", "1", "nothing maps")])[-1],
    "priced_least": _over(at_most, _priced),
    "priced_most": _over(at_least, _priced),
    "unpriced_positive": lambda run: _remainders(run, lambda each: each.value > 0),
    "unpriced_above": lambda run: _remainders(run, lambda each: each.low > 0),
    "unpriced": lambda run: _unpriced(run, run.timed[-1]),
    "training_gain": _training_gain,
    "training_batch": lambda run: exact(
        "batch whose outputs alone are mapped", "1", _OUTPUTS_ALONE
    ),
}


#: The ends of what each run of a machine finds by itself.
OF_EACH_RUN: Final[dict[str, Callable[[Run], Quantity]]] = {
    "least": _over(at_most, _each_run),
    "most": _over(at_least, _each_run),
}


def _more_than_pages(run: Run) -> Several:
    """That at some batch size more is lost than the price of the pages."""
    rests = [_unpriced(run, batch) for batch in mapping_batches(run)]
    rests = rests or [absent("slowdown", "s", f"no call maps pages on {run.label}")]
    return any_of(*(Statement(rest, expect("> 0")) for rest in rests))


#: What is claimed of the memory policy: that returning memory costs a tenth of the time and more,
#: and that pages explain it.
CLAIMS: Final[dict[str, Callable[[Run], Statement | Several]]] = {
    "policy-pays": lambda run: Statement(gain(run), expect("> 1.1")),
    "pages-foreseen": pages_follow,
    "more-than-pages": _more_than_pages,
}
