"""Whether the processes of a case agree: another program may slow one and not the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from report.missing import Missing
from report.paper.values import Value, exact
from report.studies.backend_speedup.measured import Run, Variant
from report.studies.backend_speedup.memory_values import declared, of_run
from report.studies.backend_speedup.subject import Setting
from report.studies.backend_speedup.theory_tables import NO_RECORD

#: Medians of one case further apart than this factor are called unsteady.
APART: Final = 2.0
_SWITCHES: Final = "involuntary_switches"


@dataclass(frozen=True)
class Spread:
    """The slowest over the fastest process of one case, by the medians of their iterations."""

    setting: Setting
    variant: Variant
    slowest: float
    fastest: float

    @property
    def ratio(self) -> float:
        """The slowest over the fastest."""
        return self.slowest / self.fastest


def spreads(run: Run) -> tuple[Spread, ...]:
    """Of every case of the perceptron's sweeps in float32 that several processes measured."""
    settings = dict.fromkeys((*run.widths(), *run.sizes(), *run.sizes_of_all_widths()))
    return tuple(_spreads(run, tuple(settings)))


def _spreads(run: Run, settings: tuple[Setting, ...]) -> Iterator[Spread]:
    for setting in settings:
        for variant in run.variants(setting):
            medians = _medians(run, "time", setting, variant)
            if len(medians) > 1 and min(medians) > 0:
                yield Spread(setting, variant, max(medians), min(medians))


def _medians(run: Run, quantity: str, setting: Setting, variant: Variant) -> tuple[float, ...]:
    """The median of every process, in their order."""
    found = run.processes(quantity, setting, variant)
    return () if isinstance(found, Missing) else tuple(median(one.samples) for one in found)


def worst(run: Run | None) -> Spread | None:
    """The case whose processes differ most, if they differ by more than ``APART``."""
    found = max(spreads(run), key=lambda one: one.ratio, default=None) if run else None
    return found if found and found.ratio > APART else None


def steady_values(run: Run | None) -> tuple[Value, ...]:
    """How many cases have processes that disagree, and the worst of them."""
    found, most = spreads(run) if run else (), worst(run)
    none = NO_RECORD if run is None else Missing("the processes of every case agree")
    slow, fast = _switches(run, most) if run and most else (none, none)
    unsteady = sum(one.ratio > APART for one in found) if found else NO_RECORD
    slowest, fastest = (most.slowest, most.fastest) if most else (none, none)
    counts = {
        "cases_timed": of_run(run, "cases of the perceptron's sweeps", len(found) or NO_RECORD),
        "cases_unsteady": of_run(run, f"cases with medians further apart than {APART:g}", unsteady),
        "unsteady_width": of_run(
            run, "width of the worst case", most.setting.hidden if most else none
        ),
        "unsteady_images": of_run(
            run, "samples of the worst case", most.setting.samples if most else none
        ),
    }
    measured = {
        "process_spread": of_run(run, "median of the slowest process", slowest, "s")
        / of_run(run, "median of the fastest process", fastest, "s"),
        "switches_slow": of_run(run, "median of switches, slowest process", slow),
        "switches_fast": of_run(run, "median of switches, fastest process", fast),
    }
    apart = "Factor beyond which medians of one case are unsteady"
    return (
        exact("apart", apart, int(APART), "1", "chosen"),
        *declared(counts, "exact"),
        *declared(measured),
    )


def disturbed(run: Run | None) -> bool | None:
    """Whether the system took the processor away more often from the slowest process.

    None where nothing was told of both processes, or there is no such case.
    """
    most = worst(run)
    if run is None or most is None:
        return None
    slow, fast = _switches(run, most)
    if isinstance(slow, Missing) or isinstance(fast, Missing):
        return None
    return slow > fast


def _switches(run: Run, most: Spread) -> tuple[float | Missing, float | Missing]:
    times = _medians(run, "time", most.setting, most.variant)
    switches = _medians(run, _SWITCHES, most.setting, most.variant)
    if len(switches) != len(times):
        absent = Missing("how often the processor was taken away was not recorded")
        return absent, absent
    return switches[times.index(max(times))], switches[times.index(min(times))]
