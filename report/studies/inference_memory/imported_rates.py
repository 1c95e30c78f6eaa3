"""What layout and compilation gain on GPUs by tables of others: distributions over their CNNs.

All rates are under AMP, without a base in ``float32`` and without memory, so that they tell of
layout and compilation alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from report.evidence.published_gains import Comparison, gains
from report.evidence.published_rates import Setting, published, timm_tables
from report.paper.claims import judge
from report.paper.declared import Field, quantile_fields, table
from report.paper.findings import Claim, Inputs
from report.paper.tables import Table
from report.paper.values import Value, declare
from report.quantity.distribution import Distribution
from report.quantity.expression import absent
from report.quantity.verdicts import Several, Statement, all_of, equals, expect
from report.studies.inference_memory.claims import ABOUT
from report.text.escape import markdown

#: Of the source's claims, which speak of AMP with the layout against plain ``float32``.
_AGAINST_FLOAT32: Final = "cuda against float32"
_OLD: Final = Setting("NVIDIA GeForce RTX 3090", "1.13")
_LATER: Final = replace(_OLD, torch="2.4.0")
_NEW: Final = Setting("NVIDIA GeForce RTX 4090", "2.9.1")


def _last(setting: Setting) -> Setting:
    return replace(setting, layout="nhwc")


#: What the table shows, each within one version of the library.
COMPARISONS: Final = {
    "last_old": Comparison("Channels last, RTX 3090, PyTorch 1.13", _OLD, _last(_OLD)),
    "last_later": Comparison("Channels last, RTX 3090, PyTorch 2.4", _LATER, _last(_LATER)),
    "compiled": Comparison(
        "Compile, RTX 4090, PyTorch 2.9", _NEW, replace(_NEW, compiler="dynamo")
    ),
}
#: Between the versions, of which one network tells why its gains differ.
_VERSIONS: Final = {
    "version_plain": Comparison("PyTorch 1.13 to 2.4, contiguous", _OLD, _LATER),
    "version_last": Comparison("PyTorch 1.13 to 2.4, channels last", _last(_OLD), _last(_LATER)),
}
#: VGG-16 is a network of this study; the others are of the family of its residual networks.
_NAMED: Final = {"vgg16": "VGG-16", "resnet18": "ResNet-18", "resnet50": "ResNet-50"}


@dataclass(frozen=True)
class Rates:
    """Gains by the id of their comparison, and who measured, as the records say it."""

    gains: Mapping[str, Distribution]
    author: str
    files: tuple[str, ...]


def imported_rates(inputs: Inputs) -> Rates | None:
    """The gains of the imported tables; None without one."""
    stored = timm_tables(inputs.imported)
    if not stored:
        return None
    tables = published(stored)
    found = {id: gains(each, tables) for id, each in {**COMPARISONS, **_VERSIONS}.items()}
    return Rates(found, stored[0].record.origin.author, tuple(each.file for each in stored))


def values(rates: Rates | None) -> Iterator[Value]:
    """Medians over CNNs, and what one network gains; nothing without tables."""
    if rates is None:
        return
    for id in COMPARISONS:
        yield declare(f"rates_{id}", rates.gains[id].median, "measured")
        yield declare(f"rates_{id}_count", rates.gains[id].count)
    for id, found in rates.gains.items():
        yield declare(f"rates_{id}_vgg", found.of("vgg16"), "measured")


def rate_table(rates: Rates) -> Table:
    """Quantiles over CNNs, and single networks beside them."""

    def of(network: str) -> Field[str]:
        return Field(_NAMED[network], "1", lambda id: rates.gains[id].of(network))

    return table(
        "tbl-rates",
        tuple(COMPARISONS),
        [
            Field("Change", "", lambda id: COMPARISONS[id].name),
            Field("CNNs", "1", lambda id: rates.gains[id].count),
            *quantile_fields(lambda id: rates.gains[id]),
            *map(of, _NAMED),
        ],
        sources=rates.files,
        wide=True,
    )


def claims(rates: Rates | None) -> Iterator[Claim]:
    """What the tables decide, and which claims of the source they do not; nothing without them."""
    if rates is None:
        return
    layouts = [rates.gains[id].median for id in ("last_old", "last_later")]
    more = expect("> 1")
    faster = all_of(*(Statement(gain, more, "cuda") for gain in layouts))
    against = all_of(*(Statement(1 / gain, more, _AGAINST_FLOAT32) for gain in layouts))
    compiled = Statement(rates.gains["compiled"].median, more, "cuda")
    no_base = absent("time ratio", "1", "the tables of others hold no rates in float32")
    no_memory = absent("memory saved", "1", "the tables of others hold no memory")
    found: dict[str, tuple[Setting, Statement | Several]] = {
        "last-pays": (_OLD, faster),
        "compiled-pays": (_NEW, compiled),
        "half-time": (_OLD, Statement(no_base, more)),
        "amc-time": (_OLD, against),
        "amc-memory": (_OLD, Statement(no_memory, equals(0.5, within=ABOUT))),
    }
    for name, (setting, statement) in found.items():
        label = f"{setting.device}, measured by {rates.author}"
        yield judge(f"{name}-imported", statement, name=name, label=label)


def facts(rates: Rates | None) -> dict[str, Any]:
    """The cards and who measured, where medians are known."""
    known = rates is not None and all(rates.gains[id].known for id in COMPARISONS)
    return {
        "rates_by": markdown(rates.author) if rates and known else "",
        "rates_card": markdown(_OLD.device),
        "rates_compiled_card": markdown(_NEW.device),
    }
