"""What a first call and numbers of twice the length cost."""

from __future__ import annotations

import math

from report.evidence.runs import known
from report.missing import Missing
from report.paper.tables import Column, Table
from report.paper.values import Value, declare, exact
from report.quantity.evaluation import estimate, point
from report.quantity.expression import Quantity, absent
from report.studies.backend_speedup.crossovers import round_to_two
from report.studies.backend_speedup.measured import (
    NUMPY,
    Run,
    Variant,
)
from report.studies.backend_speedup.memory_values import declared, of_run
from report.studies.backend_speedup.subject import Setting
from report.studies.backend_speedup.theory_tables import NO_RECORD


def price_values(run: Run | None, best: Variant) -> tuple[Value, ...]:
    """First calls, when that of ``best`` is earned back, and what float64 costs."""
    return (*_first_calls(run, best), *_doubles(run))


def _first_calls(run: Run | None, best: Variant) -> tuple[Value, ...]:
    origin = (run.file,) if run else ()
    return (
        declare("first_numpy", _first(run, NUMPY)),
        declare("first_best", _first(run, best)),
        exact("earned_back", "Iterations after which its first call is earned back",
              earned_back(run, best), "1",
              "difference of first calls / difference of iterations, two digits", origin),
    )  # fmt: skip


def _first(run: Run | None, variant: Variant) -> Quantity:
    return _timed(run, "first_call_time", variant)


def _timed(run: Run | None, quantity: str, variant: Variant) -> Quantity:
    setting = run.training() if run else None
    if run is None or setting is None:
        return absent(quantity, "s", NO_RECORD.reason)
    return run.measured(quantity, setting, variant)


def earned_back(run: Run | None, variant: Variant) -> int | Missing:
    """Iterations until a library that is faster but dear to start has overtaken NumPy.

    From medians, to two digits: (first call − NumPy's) / (NumPy's iteration − its own).
    """
    if run is None or run.training() is None:
        return NO_RECORD
    times = [_timed(run, "time", v) for v in (NUMPY, variant)]
    firsts = [_first(run, v) for v in (NUMPY, variant)]
    if any(each.missing for each in (*firsts, *times)):
        return Missing("a first call was not recorded")
    first_base, first, base, own_time = (known(point(each)) for each in (*firsts, *times))
    if first <= first_base or own_time >= base:
        return Missing("nothing has to be earned back")
    return round_to_two(math.ceil((first - first_base) / (base - own_time)))


def precisions(run: Run) -> tuple[tuple[Setting, Setting], ...]:
    """The smallest and the largest width that ran in float32 and in float64, in both types."""
    double = {(s.hidden, s.samples): s for s in run.widths("float64")}
    pairs = [
        (s, double[s.hidden, s.samples])
        for s in run.widths("float32")
        if (s.hidden, s.samples) in double
    ]
    return tuple(dict.fromkeys((pairs[0], pairs[-1]))) if pairs else ()


def precision(run: Run) -> Table | None:
    """float64 against float32 for every library."""
    pairs = precisions(run)
    if not pairs:
        return None
    rows = tuple(
        (short.hidden, v.name, *map(estimate, (run.time(short, v), run.time(long, v), ratio)))
        for short, long in pairs
        for v in run.variants(long)
        if not (ratio := precision_ratio(run, short, long, v)).missing
    )
    return Table(
        "tbl-precision",
        f"Time of an iteration in float32 and in float64 on {run.label}, at the smallest and the "
        "largest width that ran in both.",
        (
            Column("Width", "1"),
            Column("Library"),
            Column("float32", "s", "ms"),
            Column("float64", "s", "ms"),
            Column("float64 ÷ float32", "1"),
        ),
        rows,
        sources=(run.file,),
    )


def precision_ratio(run: Run, short: Setting, long: Setting, v: Variant) -> Quantity:
    """How many times as long an iteration takes in float64 as in float32."""
    return run.time(long, v) / run.time(short, v)


def _doubles(run: Run | None) -> tuple[Value, ...]:
    pairs = precisions(run) if run else ()
    found: dict[str, Quantity] = {}
    for key, name, index in (("narrow", "smallest", 0), ("wide", "largest", -1)):
        ratio: Quantity = absent("float64 over float32", "1", NO_RECORD.reason)
        width: int | Missing = NO_RECORD
        if run and pairs:
            short, long = pairs[index]
            ratio, width = precision_ratio(run, short, long, NUMPY), short.hidden
        found[f"double_{key}"] = ratio
        found[f"double_{key}_width"] = of_run(run, f"{name} width in both types", width)
    return declared(found, None)
