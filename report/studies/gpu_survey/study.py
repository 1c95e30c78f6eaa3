"""All that the paper of gpu_survey prints, from measurements of others alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from report.evidence.published_rates import TRANSFERS, Setting
from report.paper.claims import judge
from report.paper.findings import Claim, Findings, Inputs
from report.paper.values import declare
from report.quantity.distribution import PERCENTS, Distribution
from report.quantity.expression import Quantity, exact
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Range, Several, Statement, all_of, equals, expect
from report.statistics.estimates import CONFIDENCE
from report.studies.gpu_survey.figures import all_figures, by_class, classes
from report.studies.gpu_survey.settings import (
    CHANNELS_LAST,
    COMPARISONS,
    COMPILING,
    MIDDLE,
    NEW,
    OLD,
    PRO,
    SHORT,
    WITHIN,
    compiled,
    eager,
)
from report.studies.gpu_survey.survey import Survey, survey_of
from report.studies.gpu_survey.tables import all_tables
from report.text.escape import markdown

#: Convolution, normalisation and activation each write their maps, and the next one reads them.
UNFUSED: Final = 6
_BEFORE, _AFTER = COMPARISONS["torch_210"].before, COMPARISONS["torch_210"].after
_STEPS: Final = {"card_4090": (OLD, MIDDLE), "card_5090": (MIDDLE, NEW)}
_SHARES: Final = {
    "old": eager(OLD),
    "middle": eager(MIDDLE),
    "new": eager(NEW),
    "middle_compiled": compiled(MIDDLE),
    "new_compiled": compiled(NEW),
}


def findings(inputs: Inputs) -> Findings:
    """Everything that the paper prints; raises ``StudyError`` for records that do not fit it."""
    survey = survey_of(inputs)
    counts = {id: declare(id, quantity) for id, quantity in _counts(survey).items()}
    ratios = {id: declare(id, quantity, "measured") for id, quantity in _ratios(survey).items()}
    shares = {id: declare(id, quantity, "percent") for id, quantity in _percents(survey).items()}
    return Findings(
        values={**counts, **ratios, **shares},
        tables={table.id: table for table in all_tables(survey)} if survey.measured else {},
        figures={each.id: each for each in all_figures(survey)} if survey.measured else {},
        claims={claim.id: claim for claim in _claims(survey)},
        facts=_facts(inputs, survey),
    )


def _counts(survey: Survey) -> dict[str, Quantity]:
    """What is printed in full."""
    return {
        "tables": exact("tables", "1", len(survey.tables)),
        "networks": exact("networks with a time", "1", survey.networks(cnns=False)),
        "cnns": exact("CNNs with a time", "1", survey.networks(cnns=True)),
        "counted_cnns": survey.share(eager(NEW)).count,
        "transfers": exact("transfers of an activation", "1", TRANSFERS),
        "unfused": exact("transfers without fusion", "1", UNFUSED),
        **{f"{id}_count": survey.gain(id).count for id in ("instead", "compiled_last")},
    }


def _ratios(survey: Survey) -> dict[str, Quantity]:
    """What is printed as it would be if it were measured: gains, and rates of one network."""
    medians = (*WITHIN, *_STEPS, "compiled_last", "instead", "torch_210", "torch_291")
    found: dict[str, Quantity] = {f"{id}_gain": survey.gain(id).median for id in medians}
    for id, percent in (
        ("last_113", 5),
        ("last_training", 5),
        ("torch_210", 5),
        ("torch_210", 95),
        ("torch_291", 95),
    ):
        found[f"{id}_q{percent}"] = survey.gain(id).quantile(percent)
    for id, cards in _STEPS.items():
        found |= {f"{id}_{what}": gain for what, gain in survey.sheet_gains(*cards).items()}
    return found | {
        "alone_q5": survey.alone.quantile(PERCENTS[0]),
        "resnet_before": survey.rate(_BEFORE, "resnet50", 224),
        "resnet_after": survey.rate(_AFTER, "resnet50", 224),
        "resnet_larger": survey.rate(_AFTER, "resnet50", 288),
        "vgg_change": survey.gain("torch_210").of("vgg16"),
        "slowest_gain": survey.gain("compiled_4090").smallest,
        "falls_gain": survey.gain("torch_210").smallest,
        "rises_gain": survey.gain("torch_210").largest,
    }


def _percents(survey: Survey) -> dict[str, Quantity]:
    """What is printed as a share."""
    found: dict[str, Quantity] = {
        "confidence": exact("confidence, chosen", "1", CONFIDENCE),
        "most": exact("between the outer quantiles", "1", (PERCENTS[-1] - PERCENTS[0]) / 100),
    }
    for id, setting in _SHARES.items():
        found[f"{id}_share"] = survey.share(setting).median
    for id in ("middle_compiled", "new_compiled"):
        found[f"{id}_q95"] = survey.share(_SHARES[id]).quantile(95)
    for id in ("old", "middle", "new"):
        found[f"{id}_unfused"] = survey.share(_SHARES[id], UNFUSED).median
    for id in ("instead", "compiled_4090"):
        found[f"{id}_faster"] = survey.gain(id).share("that gain", lambda gain: gain > 1)
    before, larger = (
        survey.rate(setting, "resnet50", image)
        for setting, image in ((_BEFORE, 224), (_AFTER, 288))
    )
    low, high = _ends(survey, compiled(NEW))
    return found | {
        "resnet_less": 1 - larger / before,
        "new_largest": survey.share(compiled(NEW)).largest,
        "exceeding": _unfused(survey).share("above one", lambda share: share > 1),
        "low_class": low.median,
        "high_class": high.median,
    }


def _ends(survey: Survey, setting: Setting) -> tuple[Distribution, Distribution]:
    """The shares of the CNNs in the lowest and in the highest class of intensity."""
    table, roof = survey.tables.get(setting), survey.roofs.get(setting.device)
    low, high = (by_class(table, roof, *classes()[place]) for place in (0, -1))
    return low, high


def _claims(survey: Survey) -> Iterator[Claim]:
    """Every claim that distributions can decide."""

    def median(id: str, expected: Range) -> Statement:
        return Statement(survey.gain(id).median, expected, "cuda")

    def below_half(names: Sequence[str]) -> Several:
        medians = (survey.share(_SHARES[name]).median for name in names)
        return all_of(*(Statement(each, expect("< 0.5"), "cuda") for each in medians))

    more = expect("> 1")
    yield judge("compiler-beats-card", median("instead", more))
    yield judge("compile-pays", all_of(*(median(id, more) for id in COMPILING)))
    yield judge("last-pays", all_of(*(median(id, more) for id in CHANNELS_LAST)))
    yield judge("bf16-is-even", median("bf16", equals(1, within=0.02)))
    yield judge("eager-below-half", below_half(("old", "middle", "new")))
    yield judge("compiled-below-half", below_half(("middle_compiled", "new_compiled")))
    yield judge("between-peak-and-bandwidth", all_of(*_between(survey)))
    low, high = _ends(survey, compiled(NEW))
    yield judge("intensity-pays", Statement(high.median / low.median, more, "cuda"))
    yield judge("same-at-equal-size", median("torch_210", equals(1, within=0.05)))
    # A quarter of the compiled networks would run above a roof with that much traffic.
    yield judge("compiler-fuses", Statement(_unfused(survey).quantile(PERCENTS[2]), more))


def _unfused(survey: Survey) -> Distribution:
    return survey.share(compiled(MIDDLE), UNFUSED)


def _between(survey: Survey) -> Iterator[Statement]:
    """That a card's step gains the median CNN more than one of its peaks grows, and less than both.

    Which of the two is the smaller one is known, since data sheets have no intervals.
    """
    for id, cards in _STEPS.items():
        gain, sheet = survey.gain(id).median, tuple(survey.sheet_gains(*cards).values())
        yield Statement(gain / at_most(*sheet), expect("> 1"), "cuda")
        yield Statement(gain / at_least(*sheet), expect("< 1"), "cuda")


def _facts(inputs: Inputs, survey: Survey) -> dict[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    nearest, slowest = survey.share(compiled(NEW)), survey.gain("compiled_4090")
    itself = survey.gain("torch_210")
    return {
        "measured": survey.measured,
        **{name: SHORT[card] for name, card in (("old", OLD), ("middle", MIDDLE), ("new", NEW))},
        "pro": SHORT[PRO],
        "nearest": markdown(nearest.extreme(max)) if nearest.known else "",
        "slowest": markdown(slowest.extreme(min)) if slowest.known else "",
        "falls": markdown(itself.extreme(min)) if itself.known else "",
        "rises": markdown(itself.extreme(max)) if itself.known else "",
        "authors": _authors(inputs),
        "files": list(survey.files),
    }


def _authors(inputs: Inputs) -> list[str]:
    found = (stored.record.origin.attribution for stored in inputs.imported)
    return [markdown(each) for each in dict.fromkeys(found)]
