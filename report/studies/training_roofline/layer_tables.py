"""The tables of a profile: time by class of layer, and the ceilings near which it passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from report.missing import Missing
from report.paper.declared import Content, Field, table
from report.paper.tables import Table
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, exact
from report.quantity.operations import share_of_ceiling
from report.studies.training_roofline.measured import ABOVE, Run, copy_mark
from report.studies.training_roofline.profiled import (
    LayerTime,
    Profile,
    Side,
    main_profiles,
    profiles,
)
from report.theory.roofline import Load, total

#: Classes below this share of the layers' time have no row.
_LEAST_SHARE: Final = 1e-4
_CACHED: Final = "faster than the ceiling: its tensors were still in a cache"


def class_time_table(run: Run) -> Table:
    """Time, work, rate and nearness to both ceilings by operator class."""
    found: list[tuple[Profile, str, tuple[LayerTime, ...]]] = [
        (profile, kind, items)
        for profile in main_profiles(run)
        for kind, items in profile.by_class().items()
        if not _is_trace(profile, kind)
    ]

    def load(items: Sequence[LayerTime]) -> Load:
        return total(item.load for item in items)

    def of_arithmetic(r: tuple[Profile, str, tuple[LayerTime, ...]]) -> Content:
        peak = run.peak(r[0].step.precision)
        return share_of_ceiling(r[0].rate(r[2]) / peak, ABOVE) if load(r[2]).flops else "none"

    def of_bandwidth(r: tuple[Profile, str, tuple[LayerTime, ...]]) -> Content:
        moved = load(r[2]).bytes
        traffic = exact("least traffic", "B", moved) / r[0].layer_seconds(r[2]) / run.copy()
        return share_of_ceiling(traffic, _CACHED) if moved else "none"

    return table(
        f"tbl-class-times-{run.key}",
        found,
        [
            Field("Network", "", lambda r: r[0].step.network),
            Field("Class", "", lambda r: r[1]),
            Field("Time", "1", lambda r: _time_share(r[0], r[1]), "%"),
            Field("Intensity", "FLOP/B", lambda r: load(r[2]).intensity or "none"),
            Field("Rate", "FLOP/s", lambda r: r[0].rate(r[2]) if load(r[2]).flops else "none",
                  "GFLOP/s"),
            Field("Of arithmetic", "1", of_arithmetic, "%"),
            Field("Of bandwidth", "1", of_bandwidth, "%"),
        ],
        notes=copy_mark(run),
        sources=(run.file,),
        wide=True,
    )  # fmt: skip


def _time_share(profile: Profile, kind: str) -> Quantity:
    return profile.share(lambda item: item.kind == kind, "share of time")


def _is_trace(profile: Profile, kind: str) -> bool:
    """Whether a class takes next to no time."""
    share = point(_time_share(profile, kind))
    return not isinstance(share, Missing) and share < _LEAST_SHARE


def side_table(run: Run) -> Table:
    """The share of time near each ceiling, and what theory expects by the ridge point."""

    def near(side: Side) -> Callable[[Profile], Quantity]:
        return lambda profile: profile.side_share(side)

    return table(
        f"tbl-sides-{run.key}",
        profiles(run) if main_profiles(run) else (),
        [
            Field("Network", "", lambda profile: profile.step.network),
            Field("Setting", "", lambda profile: profile.step.setting),
            Field("Watched step", "s", lambda profile: profile.seconds, "ms"),
            Field("In layers", "1", lambda profile: profile.inside, "%"),
            Field("Near arithmetic", "1", near("arithmetic"), "%"),
            Field("Near copying", "1", near("traffic"), "%"),
            Field("Near neither", "1", near("neither"), "%"),
            Field("Below the ridge", "1", Profile.below_ridge, "%"),
        ],
        notes=copy_mark(run),
        sources=(run.file,),
        wide=True,
    )
