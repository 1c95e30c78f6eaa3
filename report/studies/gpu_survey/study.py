"""The paper of gpu_survey: which CNNs a new GPU slows down, from measurements of others alone."""

from collections.abc import Iterator, Mapping
from typing import Final

from figures.panels import Dots, Scaling
from report.core.statistics.estimates import CONFIDENCE
from report.paper.study import Content, Part, Study
from report.quantity.expression import Quantity, Statement, exact
from report.quantity.operations import largest, smallest
from report.studies.gpu_survey import figures
from report.studies.gpu_survey.results import PREDICTORS, Survey
from report.studies.gpu_survey.subject import (
    BATCH,
    BIT,
    BY_LAYER,
    CARDS,
    CHANNELS_LAST,
    EFFICIENT,
    EVONORM,
    EXAMPLE,
    FAMILIES,
    GROUPED,
    HYBRIDS,
    NO_BIT,
    ONE_GROUP,
    OTHERS,
    PAIRS_OF_CARDS,
    PRICED,
    STEPS,
    TRANSFORMERS,
    is_cnn,
)
from report.studies.gpu_survey.theory import BETWEEN_CONVOLUTIONS, Precision

#: The largest error of a gain that counts as predicted, and the least one that does not.
PREDICTED: Final = 0.1
MISSED: Final = 0.5
#: A price agrees with the bytes if it exceeds them by no more than a sixth.
AGREES: Final = 1 / 6
#: Comparisons of a card's two layouts.
_LAYOUTS: Final = "old_layout", "layout"
_PRECISIONS: Final[tuple[Precision, ...]] = ("half", "single")

study = Study(Survey)
findings = study.findings
survey: Part[Survey] = study.part("", "others")


# -------------------------------------------------------------------------------------- values


@survey.mapping()
def counts(p: Survey) -> dict[str, Quantity]:
    second, any_batch = p.pairs["second"], p.pairs["any_batch"]
    return {
        "tables": exact("tables", "1", len(p.tables)),
        "published": exact("published tables", "1", len(p.inputs.imported)),
        "captured": exact("CNNs captured", "1", sum(is_cnn(n) is True for n in p.captured.index)),
        "common_count": p.pairs["first"].known_gain.count,
        "networks": second.all_gains.count,
        "slower": second.all_gains.below_one,
        "networks_any_batch": any_batch.all_gains.count,
        "slower_any_batch": any_batch.all_gains.below_one,
        "slower_compiled": p.pairs["compiled"].all_gains.below_one,
        "grouped": second.gain_in(GROUPED).count,
        "grouped_rows": any_batch.gain_at_sizes(GROUPED).count,
        "all_grouped": p.pairs["from_pro"].gain_in(GROUPED).count,
        "transformers": p.pairs["from_pro"].gain_in(OTHERS).named(TRANSFORMERS).count,
        "bit": second.gain_in(GROUPED).named(BIT).count,
        "hybrids": second.gain_in(HYBRIDS).count,
        "efficient": second.gain_in(EFFICIENT).count,
        "layer": second.precision_error(BY_LAYER, "single").count,
        "layer_nearer": second.nearer_to_single(BY_LAYER),
        "one_group": second.precision_error([ONE_GROUP], "single").count,
        "one_group_nearer": second.nearer_to_single([ONE_GROUP]),
    }


@survey.mapping("measured")
def gains(p: Survey) -> dict[str, Quantity]:
    """Gains of CNNs and families, and how far two versions agree."""
    second, unchanged = p.pairs["second"], p.pairs["unchanged"].gain
    at_sizes = p.pairs["any_batch"].gain_at_sizes(GROUPED)
    pro, rival, bit = p.pairs["from_pro"], p.pairs["rival"], second.gain_in(GROUPED).named(BIT)
    layouts = [p.pairs[id].gain_in(GROUPED).named(BIT) for id in _LAYOUTS]
    return {
        "from_pro_usual": pro.gain_in(BATCH).middle,
        "from_pro_transformers": pro.gain_in(OTHERS).named(TRANSFORMERS).middle,
        "bit_least": bit.smallest,
        "bit_most": bit.largest,
        "rival_usual": rival.gain_in(BATCH).middle,
        "rival_bit": rival.gain_in(GROUPED).named(BIT).largest,
        "rival_others_least": rival.gain_in(GROUPED).named(NO_BIT).smallest,
        "rival_others_most": rival.gain_in(GROUPED).named(NO_BIT).largest,
        "bit_layout_least": smallest(*[gain.smallest for gain in layouts]),
        "bit_layout_most": largest(*[gain.largest for gain in layouts]),
        "pro_gain": p.pairs["pro"].known_gain.median,
        "usual_gain": second.gain_in(BATCH).median,
        "example_gain": second.all_gains.of(EXAMPLE),
        "example_grouped": second.all_gains.of(f"{EXAMPLE}_gn"),
        "example_predicted": second.predicted_gain(f"{EXAMPLE}_gn", "single"),
        "evonorm": second.all_gains.of(EVONORM),
        "grouped_least": at_sizes.smallest,
        "grouped_most": at_sizes.largest,
        "usual_q5": second.gain_in(BATCH).quantile(5),
        "usual_q95": second.gain_in(BATCH).quantile(95),
        "efficient_most": second.gain_in(EFFICIENT).largest,
        "efficient_workstation": p.pairs["workstation"].gain_in(EFFICIENT).largest,
        "efficient_compiled": p.pairs["compiled"].gain_in(EFFICIENT).smallest,
        "second_peak": p.growth("second", "peak"),
        "second_bandwidth": p.growth("second", "bandwidth"),
        "pro_peak": p.growth("pro", "peak"),
        "unchanged_gain": unchanged.median,
        "unchanged_q5": unchanged.quantile(5),
        "unchanged_q95": unchanged.quantile(95),
    }


@survey.mapping()
def prices(p: Survey) -> dict[str, Quantity]:
    """Bytes that a normalized element moves more than with batch normalization."""
    values: dict[str, Quantity] = {}
    others = [price for setting in PRICED[:-1] for price in p.prices(setting)]
    layouts = [price for setting in CHANNELS_LAST for price in p.prices(setting)]
    groups = {"new": p.prices(PRICED[-1]), "others": others, "layout": layouts}
    for precision in _PRECISIONS:
        groups[precision] = p.predicted_prices(precision)
    for name, group in groups.items():
        values |= {f"price_{name}_least": smallest(*group), f"price_{name}_most": largest(*group)}
    return values


@survey.mapping("percent")
def errors_of_gains(p: Survey) -> dict[str, Quantity]:
    """Errors of gains by bytes, and those of predictors from the data sheet."""
    second = p.pairs["second"]
    values: dict[str, Quantity] = {}
    for precision in _PRECISIONS:
        values |= {
            f"{precision}_layer": second.precision_error(BY_LAYER, precision).middle,
            f"{precision}_one_group": second.precision_error([ONE_GROUP], precision).middle,
        }
    for way in ("operators", "smaller", "constant"):
        values[f"mean_{way}"] = p.mean(way)
        values[f"pro_{way}"] = largest(*(p.error(id, way).median for id in PAIRS_OF_CARDS[-1]))
    single = second.precision_error([GROUPED], "single")
    pro = p.pairs["from_pro"]
    return values | {
        "from_pro_single": pro.precision_error([GROUPED], "single").largest,
        "from_pro_half": pro.precision_error([GROUPED], "half").unrounded_smallest,
        "single_grouped": single.middle,
        "single_grouped_most": single.largest,
        "half_grouped_least": second.precision_error([GROUPED], "half").unrounded_smallest,
    }


study.constants(hybrid_groups=exact("groups, by timm's source", "1", 32))
study.constants("percent", confidence=exact("confidence, chosen", "1", CONFIDENCE))


# -------------------------------------------------------------------------------------- claims


@survey.claim(
    "Networks with group normalization of several groups are slower on an RTX 5090 than on an RTX "
    "4090 in eager PyTorch, though CNNs with batch normalization gain a third or more",
    numbers=("grouped", "usual_gain"),
)
def group_normalization_slows(p: Survey) -> Iterator[Statement]:
    """None is slower compiled, on another card of its generation, or with evonorm."""
    second = p.pairs["second"]
    yield second.gain_in(BATCH).median > 4 / 3
    yield second.all_gains.of(EVONORM) > 4 / 3
    yield p.pairs["any_batch"].gain_at_sizes(GROUPED).largest < 1
    for family in GROUPED, HYBRIDS:
        yield second.gain_in(family).largest < 1
        for id in ("compiled", "workstation"):
            yield p.pairs[id].gain_in(family).smallest > 1


@survey.claim(
    "Bytes counted in float32 predict the gain of each CNN with group normalization within a "
    "tenth, from the rates of either of two other cards; float16 misses each by more than a half",
    numbers=("single_grouped_most", "half_grouped_least"),
)
def float32_predicts(p: Survey) -> Iterator[Statement]:
    yield p.pairs["second"].precision_ratio([GROUPED], "single").smallest > 1
    for id in ("second", "from_pro"):
        yield p.pairs[id].precision_error([GROUPED], "single").largest < PREDICTED
        yield p.pairs[id].precision_error([GROUPED], "half").smallest > MISSED


@survey.claim(
    "A normalized element costs at most a sixth more than the bytes of float32 on the RTX 5090, "
    "and less than a fifth of them on three other cards in the same layout"
)
def price_is_of_float32(p: Survey) -> Iterator[Statement]:
    counted = p.predicted_prices("single")
    for new, single in zip(p.prices(PRICED[-1]), counted, strict=True):
        yield new / single > 1
        yield new / single < 1 + AGREES
    for setting in PRICED[:-1]:
        yield largest(*p.prices(setting)) / smallest(*counted) < 1 / 5


@survey.claim(
    "Channels-last group normalization costs over four fifths of the bytes of float32 on two older "
    "cards, but slows no BiT network by a tenth, while each BiT network is slower on the RTX 5090"
)
def layout_spares_bit(p: Survey) -> Iterator[Statement]:
    counted = p.predicted_prices("single")
    for setting in CHANNELS_LAST:
        yield smallest(*p.prices(setting)) / largest(*counted) > 4 / 5
    for id in _LAYOUTS:
        yield p.pairs[id].gain_in(GROUPED).named(BIT).smallest > 1 - PREDICTED
    yield p.pairs["second"].gain_in(GROUPED).named(BIT).largest < 1
    rival = p.pairs["rival"]
    yield rival.gain_in(BATCH).middle / rival.gain_in(GROUPED).named(BIT).largest > 6 / 5


@survey.claim(
    "Bytes counted in float32 predict more than two thirds of the CNNs with layer normalization, "
    "and of the networks with one group, better than bytes counted in float16"
)
def other_normalizations_agree(p: Survey) -> Iterator[Statement]:
    second = p.pairs["second"]
    for families in BY_LAYER, (ONE_GROUP,):
        all_networks = second.precision_error(families, "single").count
        yield second.nearer_to_single(families) / all_networks > 2 / 3


@survey.claim(
    "Averaged over three pairs of cards, the roofline of operators errs less than every rule of "
    "the data sheet, and from the RTX 5090 to the PRO 6000 Max-Q over twice as much as the "
    "smaller growth",
)
def operators_err_least(p: Survey) -> Iterator[Statement]:
    operators = p.mean("operators")
    for way in PREDICTORS.values():
        if way != "operators":
            yield operators / p.mean(way) < 1
    for id in PAIRS_OF_CARDS[-1]:
        yield p.error(id, "operators").median / p.error(id, "smaller").median > 2


# ------------------------------------------------------------------------------------- figures


@survey.figure(key=True, height=2.9)
def predicted(p: Survey) -> Iterator[Scaling]:
    """Draw measured and predicted gains of networks whose normalizations can be switched."""
    yield from figures.gains(p)


@survey.figure(height=2.4)
def price(p: Survey) -> Iterator[Dots]:
    """Draw the bytes that group normalization costs on each card, and those that are counted."""
    yield from figures.prices(p)


# -------------------------------------------------------------------------------------- tables


_MOVED: Final = "Batch, float16 (B)", "Group, float16 (B)", "Group, float32 (B)"


@survey.table()
def moved(p: Survey) -> Iterator[Mapping[str, Content]]:
    """Bytes that an element moves between two convolutions, by normalization and precision."""
    sums = [sum(numbers) for numbers in zip(*BETWEEN_CONVOLUTIONS.values(), strict=True)]
    for step, numbers in [*BETWEEN_CONVOLUTIONS.items(), ("Sum", sums)]:
        cells: dict[str, Content] = {"Step": step}
        for head, number in zip(_MOVED, numbers, strict=True):
            cells[head] = exact(f"{head}, {step}", "B", number)
        yield cells


@survey.table("cards")
def data_sheets(p: Survey) -> Iterator[Mapping[str, Content]]:
    for card in p.cards.values():
        yield {
            "Card": CARDS[card.device],
            "Peak (TFLOP/s)": card.quantity("peak"),
            "Bandwidth (GB/s)": card.quantity("bandwidth"),
        }


_BRIEF: Final = {f"{step.brief} (%)": id for id, step in STEPS.items()}


@survey.table(wide=True, digits=dict.fromkeys(_BRIEF, 3))
def predictors(p: Survey) -> Iterator[Mapping[str, Content]]:
    """Median errors of all predictors in all steps."""
    for label, way in () if p.pairs["first"].known.empty else PREDICTORS.items():
        errors = {head: p.error(id, way).quantile(50) for head, id in _BRIEF.items()}
        yield {"Predictor": label, **errors, "Mean of pairs (%)": p.mean(way)}


_GAINS: Final = ("Least", "Median", "Compiled", "PRO")
_FAMILY_STEPS: Final = ("second", "compiled", "workstation")


@survey.table(digits=dict.fromkeys(_GAINS, 3))
def families(p: Survey) -> Iterator[Mapping[str, Content]]:
    """Gains by family of networks."""
    pairs = [p.pairs[id] for id in _FAMILY_STEPS]
    for family in () if pairs[0].gain.absent else FAMILIES:
        eager, compiled, workstation = (pair.gain_in(family) for pair in pairs)
        cells = eager.smallest, eager.middle, compiled.middle, workstation.middle
        yield {
            "Networks": family,
            "All": eager.count,
            "Slower": eager.below_one,
            **dict(zip(_GAINS, cells, strict=True)),
        }
