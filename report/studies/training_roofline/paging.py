"""Page faults of profiled steps: what a step takes with them and, memory retained, without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from report.missing import Missing
from report.paper.findings import Figure
from report.paper.values import Value
from report.quantity.evaluation import point, to_digits
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_least, at_most
from report.records.record import Policy
from report.studies.training_roofline.declared import (
    WORDS,
    chosen,
    declared,
    fixed,
    median,
    setting,
    without_interval,
)
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.profiled import Profile, main_profiles
from report.studies.training_roofline.subject import NETWORKS

#: How many machines have a panel.
_SHOWN: Final = 3
#: A step with fewer faults maps little memory: it has tens of thousands where it maps much.
FEW: Final = 15_000
_POLICIES: Final[tuple[Policy, Policy]] = ("default", "retained")
_NONE: Final = Missing("no step was profiled with freed memory both kept and returned")


def retaining(runs: Sequence[Run]) -> tuple[Run, ...]:
    """The runs that profiled their steps with freed memory kept and with it returned."""
    return tuple(run for run in runs if _both(run))


def _both(run: Run) -> dict[str, tuple[Profile, Profile]]:
    """The profiles under the default policy and with memory retained, by network.

    Those without a count of page faults are left out.
    """
    if not {"default", "retained"} <= set(run.policies):
        return {}
    default, retained = (
        {p.step.network: p for p in main_profiles(run.under(policy)) if _steps(p)}
        for policy in _POLICIES
    )
    return {name: (default[name], retained[name]) for name in default if name in retained}


def paging_values(kept: Run | None) -> Iterator[Value]:
    """What steps take with freed memory kept and with it returned."""
    yield setting("few_faults", "Page faults of a step that hardly maps memory", FEW, "measured")
    both = _both(kept) if kept else {}
    for network in NETWORKS:
        yield from declared(_by_policy(WORDS[network], both.get(network)))
        yield from declared(_near_neither(WORDS[network], both.get(network)), "percent")
    price: Quantity = absent("price of a fault", "s", _NONE.reason)
    if kept and both:
        price = exact("page", "1", 1) / kept.peak_rate("page_mapping")
    yield from declared({"fault_price": to_digits(price, 2), **_over_steps(kept)})


def _over_steps(run: Run | None) -> dict[str, Quantity]:
    """Unprofiled steps: the time with memory returned over that with it kept."""
    if run is None:
        return {}
    default, kept = run.under("default"), run.under("retained")
    both = [step for step in kept.timed(kept.steps) if not default.time(step).missing]
    ratios = [default.time(step) / kept.time(step) for step in both]
    none = Missing("no step was timed under both policies")
    found = {"low": at_most, "middle": median, "high": at_least}
    return {
        **{
            f"policy_{id_}": to_digits(chosen(choose, ratios, none), 2)
            for id_, choose in found.items()
        },
        "policy_steps": fixed("steps under both policies", len(both), "1", run.file),
    }


def _steps(profile: Profile) -> list[tuple[float, float]]:
    """The time (s) and the faults of every step; empty where no faults were counted."""
    return [
        pair
        for times, faults in zip(profile.whole, profile.faults, strict=True)
        if len(times) == len(faults)
        for pair in zip(times, faults, strict=True)
    ]


def _by_policy(word: str, both: tuple[Profile, Profile] | None) -> dict[str, Quantity]:
    """Median time and median faults of a profiled step by policy, and what mapping accounts for."""
    if both is None:
        ends = [f"{policy}{what}" for policy in _POLICIES for what in ("", "_faults")]
        missing = absent("step", "s", _NONE.reason)
        return {f"{word}_{end}": missing for end in (*ends, "mapped", "lost")}
    default, retained = both
    made = {}
    for name, profile in (("default", default), ("retained", retained)):
        made[f"{word}_{name}"] = to_digits(profile.seconds, 3)
        made[f"{word}_{name}_faults"] = to_digits(without_interval(_faults(profile)), 3)
    # A few steps of one process each: the numbers alone, since an interval would say too much.
    faults, times = (
        [without_interval(each) for each in found]
        for found in ((_faults(default), _faults(retained)), (default.seconds, retained.seconds))
    )
    mapped = (faults[0] - faults[1]) / without_interval(default.run.peak_rate("page_mapping"))
    lost = times[0] - times[1]
    return {**made, f"{word}_mapped": to_digits(mapped, 3), f"{word}_lost": to_digits(lost, 3)}


def _near_neither(word: str, both: tuple[Profile, Profile] | None) -> dict[str, Quantity]:
    """The share of the layers' time near neither ceiling, by policy."""
    nothing = absent("share of time near neither ceiling", "1", _NONE.reason)
    shares = [p.side_share("neither") for p in both] if both else [nothing, nothing]
    return {
        f"{word}_{policy}_neither": to_digits(without_interval(share), 2)
        for policy, share in zip(_POLICIES, shares, strict=True)
    }


def _faults(profile: Profile) -> Quantity:
    return profile.watched("page faults of a profiled step", "1", profile.faults)


def paging_figure(kept: Sequence[Run], first: Run | None) -> Iterator[Figure]:
    """The time of every profiled step over its network's fastest, a panel for each machine.

    ``first`` is the machine that the prose speaks of; there is room for few others, which have as
    many threads.
    """
    ordered = sorted(kept, key=lambda run: run is not first)
    shown = [run for run in ordered if run.threads == ordered[0].threads][:_SHOWN]
    panels = tuple(map(_panel, shown))
    if panels:
        rows = panels[0].names
        panels = (panels[0], *(replace(p, named=p.names != rows) for p in panels[1:]))
        drawing = Drawing(panels, wide=True, height=panels[0].height, same_axes=True)
        yield Figure("fig-paging", "", "", drawing, tuple(run.file for run in shown))


def _panel(run: Run) -> Dots:
    """The steps of each network, with memory returned and kept; many and few faults apart."""
    both = _both(run)
    fastest = {
        network: min(time for profile in pair for time, _ in _steps(profile))
        for network, pair in both.items()
    }
    rows = [
        (f"{network}, {name}", profile, fastest[network])
        for network, pair in both.items()
        for name, profile in zip(("returned", "kept"), pair, strict=True)
    ]

    def of(few: bool) -> tuple[tuple[float, ...], ...]:
        return tuple(
            tuple(t / least for t, n in _steps(profile) if (n < FEW) == few)
            for _, profile, least in rows
        )

    return Dots(
        tuple(name for name, *_ in rows),
        (
            DotSeries("", of(False), 1),
            DotSeries("", of(True), 0, hollow=True),
        ),
        "Time over the fastest",
        reference=1.0,
        title=run.short,
    )


def steps_panel(profiles: Sequence[Profile], thresholds: Sequence[float]) -> Dots | None:
    """The share of the layers' time near each ceiling or neither in every step, by threshold."""
    rows = [(p, least) for p in profiles for least in thresholds if not _missing(p)]
    if not rows:
        return None

    def of(side: str) -> tuple[tuple[float, ...], ...]:
        return tuple(
            tuple(
                100 * share
                for process in p.side_share(side, least).leaves[0].processes  # type: ignore
                for share in process.samples
            )
            for p, least in rows
        )

    return Dots(
        tuple(f"{p.step.network}, {least:.0%}" for p, least in rows),
        (
            DotSeries("arithmetic", of("arithmetic"), 0),
            DotSeries("memory", of("traffic"), 1),
            DotSeries("neither", of("neither"), 2, hollow=True),
        ),
        "Share of the layers' time (%)",
    )


def _missing(profile: Profile) -> bool:
    return isinstance(point(profile.side_share("neither")), Missing)
