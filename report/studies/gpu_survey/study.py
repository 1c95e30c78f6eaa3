"""The paper of gpu_survey: which CNNs a new GPU slows down, from measurements of others alone."""

from collections.abc import Iterator, Mapping
from typing import Final

from report.core.statistics.estimates import CONFIDENCE
from report.paper.study import Content, Part, Study
from report.quantity.expression import Quantity, Statement, exact
from report.quantity.operations import largest, smallest
from report.studies.gpu_survey import figures, subject
from report.studies.gpu_survey.results import PREDICTORS, Survey
from report.studies.gpu_survey.subject import BATCH, BIT, BY_LAYER, GROUPED
from report.studies.gpu_survey.theory import BETWEEN_CONVOLUTIONS, Precision

#: The largest error of a gain that counts as predicted, and the least one that does not.
PREDICTED: Final = 0.1
MISSED: Final = 0.5
#: A price agrees with the bytes if it exceeds them by no more than a sixth.
AGREES: Final = 1 / 6
#: Comparisons of a card's two layouts.
_LAYOUTS: Final = "old_layout", "layout"
#: Plain vision transformers.
TRANSFORMERS: Final = (subject.VIT,)
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
        "captured": exact(
            "CNNs captured", "1", sum(map(bool, map(subject.is_cnn, p.captured.index)))
        ),
        "common_count": p.pairs["first"].known_gain.count,
        "networks": second.all_gains.count,
        "slower": second.all_gains.below_one,
        "networks_any_batch": any_batch.all_gains.count,
        "slower_any_batch": any_batch.all_gains.below_one,
        "slower_compiled": p.pairs["compiled"].all_gains.below_one,
        "grouped": second.gain_in(GROUPED).count,
        "grouped_rows": any_batch.gain_in(GROUPED, all_sizes=True).count,
        "all_grouped": p.pairs["from_pro"].gain_in(GROUPED).count,
        "bit": second.gain_in(GROUPED).named(BIT).count,
        "hybrids": second.gain_in(subject.HYBRIDS).count,
        "layer": second.precision_error(BY_LAYER, "single").count,
        "layer_nearer": second.nearer_to_single(BY_LAYER),
        "transformers": second.switched_gain(TRANSFORMERS).count,
        "transformers_nearer": second.nearer_to_single(TRANSFORMERS),
        "twins": p.twins(subject.EAGER[0]).count,
    }


@survey.mapping("measured")
def gains(p: Survey) -> dict[str, Quantity]:
    """Gains of CNNs and families, and how far two versions agree."""
    second, unchanged = p.pairs["second"], p.pairs["unchanged"].gain
    at_sizes = p.pairs["any_batch"].gain_in(GROUPED, all_sizes=True)
    bit = second.gain_in(GROUPED).named(BIT)
    layouts = [p.pairs[id].gain_in(GROUPED).named(BIT) for id in _LAYOUTS]
    return {
        "bit_least": bit.smallest,
        "bit_most": bit.largest,
        "bit_layout_least": smallest(*[gain.smallest for gain in layouts]),
        "bit_layout_most": largest(*[gain.largest for gain in layouts]),
        "pro_gain": p.pairs["pro"].known_gain.median,
        "usual_gain": second.gain_in(BATCH).median,
        "example_gain": second.all_gains.of(subject.EXAMPLE),
        "example_grouped": second.all_gains.of(f"{subject.EXAMPLE}_gn"),
        "example_predicted": second.predicted_gain([GROUPED], "single").of(f"{subject.EXAMPLE}_gn"),
        "evonorm": second.all_gains.of(subject.EVONORM),
        "grouped_least": at_sizes.smallest,
        "grouped_most": at_sizes.largest,
        "usual_q5": second.gain_in(BATCH).quantile(5),
        "usual_q95": second.gain_in(BATCH).quantile(95),
        "second_peak": p.growth("second", "peak"),
        "second_bandwidth": p.growth("second", "bandwidth"),
        "pro_peak": p.growth("pro", "peak"),
        "unchanged_gain": unchanged.median,
        "unchanged_q5": unchanged.quantile(5),
        "unchanged_q95": unchanged.quantile(95),
    }


@survey.mapping("measured")
def traces(p: Survey) -> dict[str, Quantity]:
    """Further traces of the switch: rates of twins, and gains of other normalizations."""
    old, pro, _ = subject.EAGER
    twins = {
        "others": [p.twins(old), p.twins(pro)],
        "compiled": [p.twins(old.compiled), p.twins(pro.compiled)],
        "half": [p.twins(old, "half")],
    }
    values: dict[str, Quantity] = {}
    for name, ratios in twins.items():
        values[f"twins_{name}_least"] = smallest(*[ratio.smallest for ratio in ratios])
        values[f"twins_{name}_most"] = largest(*[ratio.largest for ratio in ratios])
    second, (predicted, measured) = p.pairs["second"], p.kept_gains(BY_LAYER)
    for name, gain in (
        ("predicted", second.predicted_gain(TRANSFORMERS, "single")),
        ("measured", second.switched_gain(TRANSFORMERS)),
    ):
        values |= {f"transformers_{name}_least": gain.smallest}
        values |= {f"transformers_{name}_most": gain.largest}
    grouped = second.predicted_gain([GROUPED], "single")
    return values | {
        "kept": measured.middle,
        "kept_predicted": predicted.middle,
        "kept_correlation": predicted.correlation(measured),
        "grouped_correlation": grouped.correlation(second.switched_gain([GROUPED])),
    }


@survey.mapping()
def prices(p: Survey) -> dict[str, Quantity]:
    """Bytes that a normalized element moves more than with batch normalization."""
    values: dict[str, Quantity] = {}
    others = [price for setting in subject.PRICED[:-1] for price in p.prices(setting)]
    layouts = [price for setting in subject.CHANNELS_LAST for price in p.prices(setting)]
    groups = {"new": p.prices(subject.PRICED[-1]), "others": others, "layout": layouts}
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
            f"{precision}_transformers": second.precision_error(TRANSFORMERS, precision).middle,
        }
    for way in ("operators", "smaller", "constant"):
        values[f"mean_{way}"] = p.mean(way)
    single, pro = second.precision_error([GROUPED], "single"), p.pairs["from_pro"]
    constant = second.switched_gain([GROUPED]).errors_of_median
    return values | {
        "from_pro_single": pro.precision_error([GROUPED], "single").largest,
        "from_pro_half": pro.precision_error([GROUPED], "half").unrounded_smallest,
        "single_layer_most": second.precision_error(BY_LAYER, "single").largest,
        "single_mambaout": second.precision_error(BY_LAYER, "single").of("mambaout_base"),
        "constant_grouped": constant.middle,
        "constant_grouped_most": constant.largest,
        "single_grouped": single.middle,
        "single_grouped_most": single.largest,
        "half_grouped_least": second.precision_error([GROUPED], "half").unrounded_smallest,
    }


study.constants("percent", confidence=exact("confidence, chosen", "1", CONFIDENCE))


# -------------------------------------------------------------------------------------- claims


@survey.claim(
    "Networks with group normalization of several groups are slower on an RTX 5090 than on an RTX "
    "4090 in eager PyTorch, though CNNs with batch normalization gain over a third in the median",
    numbers=("grouped", "usual_gain"),
)
def group_normalization_slows(p: Survey) -> Iterator[Statement]:
    """None is slower compiled, on another card of its generation, or with evonorm."""
    second = p.pairs["second"]
    yield second.gain_in(BATCH).median > 4 / 3
    yield second.all_gains.of(subject.EVONORM) > 4 / 3
    yield p.pairs["any_batch"].gain_in(GROUPED, all_sizes=True).largest < 1
    for family in GROUPED, subject.HYBRIDS:
        yield second.gain_in(family).largest < 1
        for id in ("compiled", "workstation"):
            yield p.pairs[id].gain_in(family).smallest > 1


@survey.claim(
    "Bytes counted in float32 predict the gain of each CNN with group normalization within a "
    "tenth, from the rates of either of two other cards; float16 misses each by more than a half",
    numbers=("single_grouped_most", "half_grouped_least"),
)
def float32_predicts(p: Survey) -> Iterator[Statement]:
    for id in ("second", "from_pro"):
        yield p.pairs[id].precision_error([GROUPED], "single").largest < PREDICTED
        yield p.pairs[id].precision_error([GROUPED], "half").smallest > MISSED


@survey.claim(
    "A normalized element costs at most a sixth more than the bytes of float32 on the RTX 5090, "
    "and less than a fifth of them on three other cards in the same layout"
)
def price_is_of_float32(p: Survey) -> Iterator[Statement]:
    counted = p.predicted_prices("single")
    for new, single in zip(p.prices(subject.PRICED[-1]), counted, strict=True):
        yield new / single > 1
        yield new / single < 1 + AGREES
    for setting in subject.PRICED[:-1]:
        yield largest(*p.prices(setting)) / smallest(*counted) < 1 / 5


@survey.claim(
    "Channels-last group normalization costs over four fifths of the bytes of float32 on two older "
    "cards, but slows no BiT network by a tenth, while each BiT network is slower on the RTX 5090"
)
def layout_spares_bit(p: Survey) -> Iterator[Statement]:
    counted = p.predicted_prices("single")
    for setting in subject.CHANNELS_LAST:
        yield smallest(*p.prices(setting)) / largest(*counted) > 4 / 5
    for id in _LAYOUTS:
        yield p.pairs[id].gain_in(GROUPED).named(BIT).smallest > 1 - PREDICTED
    yield p.pairs["second"].gain_in(GROUPED).named(BIT).largest < 1


@survey.claim(
    "Vision transformers with a normalization before the first block are faster than their twins "
    "by a twelfth to an eighth on an RTX 4090 and a PRO 6000, and as fast on an RTX 5090",
    numbers=("twins_others_least", "twins_others_most"),
)
def twins_show_the_switch(p: Survey) -> Iterator[Statement]:
    """Nor do they differ where the switch cannot change the type of their features."""
    old, pro, new = subject.EAGER
    for ratio in p.twins(old), p.twins(pro), p.twins(old, "half"):
        yield ratio.smallest > 1 + 1 / 12
        yield ratio.largest < 1 + 1 / 8
    equal = [(p.twins(setting), 0.02) for setting in subject.NO_SWITCH]
    for ratio, tolerance in (p.twins(new), 0.01), (p.twins(old, "single"), 0.01), *equal:
        yield ratio.smallest > 1 - tolerance
        yield ratio.largest < 1 + tolerance


@survey.claim(
    "Bytes counted in float32 predict more than two thirds of the CNNs with layer normalization, "
    "and of plain vision transformers, better than bytes counted in float16"
)
def other_normalizations_agree(p: Survey) -> Iterator[Statement]:
    for families in BY_LAYER, TRANSFORMERS:
        all_networks = p.pairs["second"].switched_gain(families).count
        yield p.pairs["second"].nearer_to_single(families) / all_networks > 2 / 3


@survey.claim(
    "The roofline of operators errs less than every rule of the data sheet on average over three "
    "pairs of cards, and no predictor errs least on each pair",
    numbers=("mean_operators", "mean_smaller"),
)
def operators_err_least(p: Survey) -> Iterator[Statement]:
    operators = p.mean("operators")
    for way in PREDICTORS.values():
        if way != "operators":
            yield operators / p.mean(way) < 1
        if way != "half":
            yield p.mean(way, ["4090 to 5090"]) / p.mean("half", ["4090 to 5090"]) > 1
    for way in ("operators", "half"):
        yield p.mean(way, ["5090 to PRO 6000"]) / p.mean("smaller", ["5090 to PRO 6000"]) > 2


# ------------------------------------------------------------------------- figures and tables

survey.figure("predicted", key=True, height=2.9)(figures.gains)
survey.figure("price", height=2.4)(figures.prices)
survey.figure("twins", height=2.4)(figures.twins)
survey.figure("leaderboard", height=1.9)(figures.leaderboard)

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


#: Candidate causes of the loss, and the results to expect of each; × marks those not observed.
CAUSES: Final = (
    ("Chip", "lose", "any", "lose ×", "any", "lose", "faster ×"),
    ("Kernel", "lose", "gain", "lose ×", "any", "lose", "faster ×"),
    ("Layout", "lose", "gain", "gain", "float32", "gain ×", "faster ×"),
    ("Machine", "any", "any", "gain", "any", "any", "faster ×"),
    ("Switch", "lose", "gain", "gain", "float32", "lose", "equal"),
    ("Observed", "lose", "gain", "gain", "float32", "lose", "equal"),
)
_RESULTS: Final = ("Group", "Compiled", "PRO", "Price", "BiT", "Twins")


@survey.table()
def causes(p: Survey) -> Iterator[Mapping[str, Content]]:
    for cause, *results in () if p.pairs["layout"].gain.absent else CAUSES:
        yield {"Cause": cause, **dict(zip(_RESULTS, results, strict=True))}


@survey.table("cards")
def data_sheets(p: Survey) -> Iterator[Mapping[str, Content]]:
    for card in p.cards.values():
        yield {
            "Card": subject.CARDS[card.device],
            "Peak (TFLOP/s)": card.quantity("peak"),
            "Bandwidth (GB/s)": card.quantity("bandwidth"),
        }


_GAINS: Final = ("Least", "Median", "Compiled", "PRO")


@survey.table(digits=dict.fromkeys(_GAINS, 3))
def families(p: Survey) -> Iterator[Mapping[str, Content]]:
    """Gains by family of networks."""
    pairs = [p.pairs[id] for id in ("second", "compiled", "workstation")]
    for family in () if pairs[0].gain.absent else subject.FAMILIES:
        eager, compiled, workstation = (pair.gain_in(family) for pair in pairs)
        cells = eager.smallest, eager.middle, compiled.middle, workstation.middle
        yield {
            "Networks": family,
            "All": eager.count,
            "Slower": eager.below_one,
            **dict(zip(_GAINS, cells, strict=True)),
        }
