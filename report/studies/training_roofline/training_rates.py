"""Published training rates of CNNs under the roof of one card, in both memory layouts.

Tables of training hold no counts; an inference table of the card has them for one image.  A step is
taken as three forward passes: outputs, gradients of inputs and gradients of weights each take the
same multiply-adds, and each reads and writes tensors of the same sizes.  Work and traffic triple,
and the intensity stays.  That counts the first layer's input gradient, which no step computes, and
leaves out normalisations, activations and the optimiser's update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from figures.canvas import Drawing
from figures.roofline import Roofline
from report.evidence.published_gains import Comparison, Roof, counted, gains, roof_of, shares
from report.evidence.published_rates import Published, Row, Setting, Work, published, timm_tables
from report.paper.claims import judge
from report.paper.findings import Claim, Figure, Inputs
from report.paper.published_roofs import row_marks, sheet_panel
from report.paper.values import Value, declare
from report.quantity.distribution import Distribution
from report.quantity.evaluation import to_digits
from report.quantity.expression import Quantity, exact
from report.quantity.verdicts import Statement, all_of, expect
from report.studies.training_roofline.declared import declared
from report.text.escape import markdown

_CARD: Final = "NVIDIA GeForce RTX 3090"
_CONTIGUOUS: Final = Setting(_CARD, "1.12", direction="training")
_LAST: Final = replace(_CONTIGUOUS, layout="nhwc")
_COUNTS: Final = Setting(_CARD, "1.13")
_LAYOUTS: Final = {"contiguous": _CONTIGUOUS, "last": _LAST}
_TITLES: Final = {"contiguous": "Contiguous (NCHW)", "last": "Channels last (NHWC)"}
#: Networks of this study as timm calls them, with the beginnings of their values' ids.
_NAMED: Final = {"resnet18": "small", "resnet50": "heavy", "mobilenetv2_100": "light"}
_LABELS: Final = {
    "resnet18": "ResNet-18", "resnet50": "ResNet-50", "mobilenetv2_100": "MobileNetV2",
}  # fmt: skip
#: Forward passes whose multiply-adds a step takes, nearly.
_PASSES: Final = 3
#: Digits that published counts with two decimals of a giga allow.
_DIGITS: Final = 2


@dataclass(frozen=True)
class Trained:
    """The tables by layout with the counts of a step in every row, and what follows from them."""

    tables: dict[str, Published]
    counts: Published
    roof: Roof
    gain: Distribution

    @property
    def files(self) -> tuple[str, ...]:
        """The records of the tables and the file of the data sheet."""
        tables = (*self.tables.values(), self.counts)
        return (*(table.file for table in tables), "devices.yaml")

    def arithmetic(self, layout: str) -> Distribution:
        """The achieved rates of CNNs over the peak of arithmetic."""
        return self._over("peak of arithmetic", layout, lambda row: row.work / self.roof.peak)

    def bandwidth(self, layout: str) -> Distribution:
        """The least traffic of CNNs a second over the peak of memory."""
        return self._over(
            "bandwidth", layout, lambda row: row.work / row.intensity() / self.roof.bandwidth
        )

    def share(self, layout: str) -> Distribution:
        """The shares of CNNs of what the roof allows at their intensities."""
        found = shares(self.tables[layout], self.roof, about=f", training, {layout}")
        return replace(found, files=self._files(layout))

    def _over(self, what: str, layout: str, share: Callable[[Row], float]) -> Distribution:
        numbers = {row.network: share(row) for row in counted(self.tables[layout])}
        return Distribution(f"share of {what} in training, {layout}", numbers, self._files(layout))

    def _files(self, layout: str) -> tuple[str, ...]:
        return self.tables[layout].file, self.counts.file, "devices.yaml"


def trained(inputs: Inputs) -> Trained | None:
    """The tables of the card; None unless both have the networks of this study, with counts."""
    tables = published(timm_tables(inputs.imported))
    counts, roof = tables.get(_COUNTS), roof_of(_CARD, inputs.devices)
    if counts is None or roof is None or any(s not in tables for s in _LAYOUTS.values()):
        return None
    found = Trained(
        {name: _with_counts(tables[setting], counts) for name, setting in _LAYOUTS.items()},
        counts,
        roof,
        gains(Comparison("channels last, training", _CONTIGUOUS, _LAST), tables),
    )
    known = (found.gain, *(found.share(layout) for layout in _LAYOUTS))
    whole = all(each.known and each.numbers.keys() >= _NAMED.keys() for each in known)
    return found if whole else None


def _with_counts(table: Published, counts: Published) -> Published:
    """The rows whose network has counts at the same image extent, with the counts of a step."""
    known = {(row.network, row.image): row for row in counts.rows if row.counted}
    return replace(
        table,
        rows=tuple(
            replace(row, printed=_step(same.printed))
            for row in table.rows
            if (same := known.get((row.network, row.image)))
        ),
    )


def _step(image: Work) -> Work:
    """The counts of a step from those of a forward pass."""
    counts = (image.multiply_adds, image.outputs, image.parameters)
    return Work(*(_PASSES * each for each in counts))


def values(found: Trained | None) -> Iterator[Value]:
    """What the paragraph and the caption print; nothing without tables."""
    if found is None:
        return
    yield declare("trained_networks", found.share("last").count)
    yield declare("trained_pairs", found.gain.count)
    yield from _grouped(found.gain)
    yield declare("trained_passes", exact("forward passes a step is taken as", "1", _PASSES))
    yield from declared(
        {f"trained_{id_}_gain": found.gain.of(name) for name, id_ in _NAMED.items()}
        | {"trained_gain": found.gain.median}
    )
    yield from declared(_shares(found), "percent")


def _grouped(gain: Distribution) -> Iterator[Value]:
    """How many of the RegNets, whose convolutions are grouped, lose in channels last."""
    known = [each for name, each in gain.numbers.items() if name.startswith("regnet")]
    slower = sum(each < 1 for each in known)
    sources = gain.files[0], gain.files[1:]
    yield declare("trained_regnets", exact("RegNets", "1", len(known), *sources))
    yield declare("trained_regnets_slower", exact("RegNets that lose", "1", slower, *sources))


def _shares(found: Trained) -> dict[str, Quantity]:
    """Medians of the shares of the roof, and how near each network comes to either peak."""
    medians = {f"trained_{layout}_share": found.share(layout).median for layout in _LAYOUTS}
    peaks = {"arithmetic": found.arithmetic("last"), "bandwidth": found.bandwidth("last")}
    slower = found.gain.share("that lose", lambda gain: gain < 1)
    return (
        {"trained_slower": slower}
        | medians
        | {
            f"trained_{id_}_{peak}": to_digits(reached.of(name), _DIGITS)
            for peak, reached in peaks.items()
            for name, id_ in _NAMED.items()
        }
    )


def claims(found: Trained | None) -> Iterator[Claim]:
    """What distributions over CNNs decide; nothing without tables."""
    if found is None:
        return
    yield judge("last-trains-faster", Statement(found.gain.median, expect("> 1"), "cuda"))
    medians = (found.share(layout).median for layout in _LAYOUTS)
    yield judge(
        "training-below-half", all_of(*(Statement(m, expect("< 0.5"), "cuda") for m in medians))
    )


def figures(found: Trained | None) -> Iterator[Figure]:
    """Every CNN under the roof of the card, a panel a layout; nothing without tables."""
    if found is None:
        return
    panels = tuple(_panel(found, layout) for layout in _LAYOUTS)
    drawing = Drawing(panels, wide=True, height=2.9, same_axes=True)
    yield Figure("fig-trained", "", "", drawing, found.files)


def _panel(found: Trained, layout: str) -> Roofline:
    rows = counted(found.tables[layout])
    own = [row for row in rows if row.network in _NAMED]
    drawn = (
        row_marks("other CNNs", [row for row in rows if row not in own], 0, many=True),
        row_marks("", own, 1, [_LABELS[row.network] for row in own]),
    )
    return sheet_panel(_TITLES[layout], found.roof, drawn)


def facts(found: Trained | None) -> dict[str, Any]:
    """Words and switches of the paragraph."""
    if found is None:
        return {"trained": {}}
    return {"trained": {"card": markdown(_CARD.removeprefix("NVIDIA GeForce "))}}
