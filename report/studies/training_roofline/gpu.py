"""The numbers of the section on a GPU, whose records tell what a processor's do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.values import Value
from report.quantity.evaluation import point, to_digits
from report.quantity.expression import Quantity
from report.quantity.operations import constant
from report.studies.training_roofline.batches import sweep
from report.studies.training_roofline.declared import (
    chosen,
    declared,
    fixed,
    found_in,
    setting,
)
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.memory import residuals
from report.studies.training_roofline.profiled import (
    LayerTime,
    Profile,
    end_of_share,
    main_profiles,
)
from report.studies.training_roofline.settings import HOST_BOUND, host_bound
from report.studies.training_roofline.subject import HEAVY, NETWORKS, Step
from report.studies.training_roofline.theory import own_sheet
from report.text.escape import markdown
from report.theory.roofline import Roof

#: The ends of the time near neither ceiling over the profiled steps.
_NEITHER: Final = {
    f"gpu_neither_{end}": partial(end_of_share, side="neither", choose=choose)
    for end, choose in (("low", min), ("high", max))
}


def network_of(run: Run) -> str:
    """The network of which the section speaks: the heavy one, or the first that was timed."""
    timed = {step.network for step in run.timed(run.steps)}
    return HEAVY if HEAVY in timed else next(n for n in NETWORKS if n in timed)


def fastest(run: Run, steps: Sequence[Step]) -> Step | None:
    """The step with the most images a second."""
    rates = {s: rate for s in steps if isinstance(rate := point(run.images(s)), float)}
    return max(rates, key=lambda step: rates[step], default=None)


def gpu_values(inputs: Inputs, run: Run | None) -> Iterator[Value]:
    """What the section prints; nothing without a run on a GPU."""
    if run is None:
        return
    yield from _speeds(run)
    yield setting("host_bound", "Wait of a host that is waited for", HOST_BOUND)
    yield from declared({**_counts(run), **_above(inputs, run)})
    yield from _memory(run)
    profile = next(iter(main_profiles(run)), None)
    none = _none(run, "no step was profiled")
    yield from declared(found_in(profile, _NEITHER, none), "percent")


def _none(run: Run, what: str) -> Missing:
    return Missing(f"{what} on {run.label}")


def _plain(run: Run) -> Step | None:
    return fastest(run, sweep(run, network_of(run)))


def _tuned(run: Run) -> Step | None:
    """The fastest step of the network in any setting, on images of one size."""
    plain = _plain(run)
    every = run.chosen(network=network_of(run), dataset="synthetic")
    return fastest(run, [s for s in every if plain and s.image == plain.image])


def _speeds(run: Run) -> Iterator[Value]:
    none = _none(run, "nothing was timed")
    for word, find in (("plain", _plain), ("tuned", _tuned)):
        step = find(run)
        found = (run, step) if step else None
        yield from declared(found_in(found, {f"gpu_{word}_share": _efficiency}, none), "percent")
        getters = {f"gpu_{word}_images": _images}
        yield from declared(found_in(found, getters, none))


def _images(found: tuple[Run, Step]) -> Quantity:
    return to_digits(found[0].images(found[1]), 3)


def _efficiency(found: tuple[Run, Step]) -> Quantity:
    return to_digits(found[0].efficiency(found[1]), 2)


def _counts(run: Run) -> dict[str, Quantity]:
    steps = len(run.timed(run.steps))
    counts: dict[str, tuple[str, int | Missing]] = {
        "gpu_steps": ("timed kinds of step", steps or _none(run, "none")),
        "gpu_hosted": ("steps that waited for the host", len(host_bound(run))),
    }
    file = run.file
    return {id_: fixed(name, number, "1", file) for id_, (name, number) in counts.items()}


def _above(inputs: Inputs, run: Run) -> dict[str, Quantity]:
    watched = [p for p in main_profiles(run) if p.disturbed is None]
    none = _none(run, "no step was watched undisturbed")
    over = [(p, layer) for p in watched for layer in p.above_peak()]
    best = max(over, key=lambda found: found[1].rate, default=None)
    sheet = own_sheet(inputs, run)
    peak = sheet.peak.value if isinstance(sheet, Roof) else sheet
    number, file = len(over) if watched else none, run.file
    return {
        "gpu_above": fixed("layers above the peak", number, "1", file),
        **found_in(best, {"gpu_above_rate": _layer_rate}, _none(run, "no layer is above it")),
        "gpu_sheet_peak": fixed("peak of the data sheet", peak, "FLOP/s"),
    }


def _layer_rate(found: tuple[Profile, LayerTime]) -> Quantity:
    profile, layer = found
    return profile.rate([layer])


def _memory(run: Run) -> Iterator[Value]:
    found, none = residuals(run), _none(run, "no memory was measured")
    between = chosen(constant, found, none, "B")
    yield from declared({"gpu_residual": between}, "exact")
    name, file = "batches whose memory was measured", run.file
    yield from declared({"gpu_residual_cases": fixed(name, len(found) or none, "1", file)})


def gpu_facts(inputs: Inputs, run: Run | None) -> dict[str, Any]:
    """Words and switches of the section; nothing without a run on a GPU."""
    if run is None:
        return {}
    plain, tuned = _plain(run), _tuned(run)
    sheet = own_sheet(inputs, run)
    above = [layer for p in main_profiles(run) for layer in p.above_peak()]
    return {
        "key": run.key,
        "label": markdown(run.label),
        "network": network_of(run),
        "tuned": tuned.setting if tuned and tuned != plain else "",
        "hosted": [f"{s.network} at a batch of {s.batch} in {s.setting}" for s in host_bound(run)],
        "above_sheet": isinstance(sheet, Roof)
        and any(layer.rate > sheet.peak.value for layer in above),
    }
