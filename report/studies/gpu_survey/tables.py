"""The tables of gpu_survey; captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator

from report.evidence.network_families import CNNS, Family
from report.evidence.published_gains import gains
from report.evidence.published_rates import Published, Setting
from report.missing import Missing
from report.paper.declared import Content, Field, quantile_fields, table
from report.paper.tables import Table
from report.quantity.expression import absent, exact
from report.studies.gpu_survey.settings import (
    CARDS,
    COMPARISONS,
    MIDDLE,
    NAMED,
    NEW,
    SHORT,
    compiled,
    eager,
)
from report.studies.gpu_survey.survey import Survey

_ATTENTION: tuple[Family, ...] = ("attention",)
_NO_SHEET = "no document of the vendor with its peaks was compared"


def all_tables(survey: Survey) -> Iterator[Table]:
    """Every table; what a table of others lacks is missing in its cell."""
    yield _cards(survey)
    yield _named(survey)
    yield _comparisons(survey)
    yield _published(survey)


def _cards(survey: Survey) -> Table:
    def sheet(card: str, what: str) -> Content:
        roof = survey.roofs.get(card)
        if roof is None:
            return Missing(_NO_SHEET)
        return roof.arithmetic if what == "peak" else roof.memory

    def share(setting: Setting) -> Content:
        if setting.device not in survey.roofs:
            return Missing(_NO_SHEET)
        return survey.share(setting).median

    return table(
        "tbl-cards",
        CARDS,
        [
            Field("Card", "", lambda card: SHORT[card]),
            Field("Peak", "FLOP/s", lambda card: sheet(card, "peak"), "TFLOP/s"),
            Field("Bandwidth", "B/s", lambda card: sheet(card, "memory"), "GB/s"),
            Field("Eager", "1", lambda card: share(eager(card)), "%"),
            Field("Compiled", "1", lambda card: share(compiled(card)), "%"),
        ],
        sources=("devices.yaml", *survey.files),
    )


def _named(survey: Survey) -> Table:
    """The networks of the other studies, at 224 pixels as far as they are published there."""

    def share(network: str, setting: Setting) -> Content:
        return survey.share(setting).of(network)

    def intensity(network: str) -> Content:
        row = survey.row(eager(MIDDLE), network, 224)
        if row is None or not row.counted:
            return absent("intensity", "FLOP/B", f"counts of {network} are not published")
        return exact(f"intensity({network})", "FLOP/B", row.intensity())

    return table(
        "tbl-named",
        tuple(NAMED),
        [
            Field("Network", "", lambda network: NAMED[network]),
            Field("Intensity", "FLOP/B", intensity),
            Field("4090 eager", "1", lambda network: share(network, eager(MIDDLE)), "%"),
            Field("4090 compiled", "1", lambda network: share(network, compiled(MIDDLE)), "%"),
            Field("5090 eager", "1", lambda network: share(network, eager(NEW)), "%"),
            Field("5090 compiled", "1", lambda network: share(network, compiled(NEW)), "%"),
        ],
        sources=survey.files,
    )


def _comparisons(survey: Survey) -> Table:
    """Every comparison for CNNs and for networks with attention."""
    rows = [
        (f"{each.name}, {name}", gains(each, survey.tables, families))
        for each in COMPARISONS.values()
        for name, families in (("CNNs", CNNS), ("attention", _ATTENTION))
    ]
    return table(
        "tbl-comparisons",
        rows,
        [
            Field("Comparison", "", lambda row: row[0]),
            Field("Networks", "1", lambda row: row[1].count),
            Field("Faster", "1", lambda row: row[1].share("that gain", _faster), "%"),
            *quantile_fields(lambda row: row[1]),
        ],
        sources=survey.files,
        wide=True,
    )


def _faster(gain: float) -> bool:
    return gain > 1


def _published(survey: Survey) -> Table:
    """The tables that were imported."""

    def of(name: str, of_setting: bool = True):  # type: ignore[no-untyped-def]
        return lambda each: str(getattr(each.setting if of_setting else each, name))

    def model(each: Published) -> Content:
        return SHORT.get(each.setting.device, each.setting.device)

    return table(
        "tbl-published",
        tuple(survey.tables.values()),
        [
            Field("Device", "", model),
            Field("PyTorch", "", of("torch")),
            Field("CUDA", "", of("cuda", False)),
            Field("Direction", "", of("direction")),
            Field("Precision", "", of("precision")),
            Field("Layout", "", of("layout")),
            Field("Compiler", "", of("compiler")),
            Field("Cases", "1", lambda each: each.cases),
            Field("Timed", "1", lambda each: len(each.rows)),
        ],
        sources=survey.files,
        wide=True,
    )
