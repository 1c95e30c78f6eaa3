"""Numbers, claims and tables of gpu_survey; the template prints each by its function's name.

- Gain: a network's rate (images/s) in one setting over another; ids are in subject.COMPARISONS.
- Switch: timm's option to normalize in float16, not float32, under mixed precision.
- Price of group normalization: its further time in bytes per element; it calibrates float32.
- Twins: a vision transformer with and without a normalization before its first block.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain, product
from typing import Final, get_args

from report.core.statistics.estimates import CONFIDENCE
from report.paper.study import Content, Part, Study
from report.quantity.expression import Quantity, Statement, exact_number
from report.quantity.operations import largest, smallest
from report.studies.gpu_survey import figures, subject
from report.studies.gpu_survey.results import FIRST_STEP, OWN_STEP, Survey
from report.studies.gpu_survey.runs import RULES, Distribution, Prediction
from report.studies.gpu_survey.subject import BATCH, GROUPED, LAYER_OR_RMS, ON_4090, ON_5090, ON_PRO
from report.studies.gpu_survey.theory import BETWEEN_CONVOLUTIONS, Precision

#: The largest relative error of a gain that counts as predicted.
MAX_ERROR: Final = 0.1
#: The largest relative difference of rates of twins that count as equally fast.
EQUAL_TWINS: Final = 0.015

study = Study(Survey)
findings = study.findings
#: All published tables; the study has no records of our own.
survey: Part[Survey] = study.part("", "others")


def _range(name: str, *distributions: Distribution) -> dict[str, Quantity]:
    """Return the least and the largest number of all distributions, with ids from ``name``."""
    smallest_numbers = [distribution.smallest for distribution in distributions]
    largest_numbers = [distribution.largest for distribution in distributions]
    return {f"{name}_least": smallest(*smallest_numbers), f"{name}_most": largest(*largest_numbers)}


@survey.mapping()
def counts(p: Survey) -> dict[str, Quantity]:
    """Count tables and networks: all of a kind, slower ones, and those nearer to float32."""
    second, any_batch = p.pairs["second"], p.pairs["any_batch"]
    networks, at_any_batch = (pair.gain_in(*subject.FAMILIES) for pair in (second, any_batch))
    return {
        "tables": exact_number("tables", "1", len(p.tables)),
        "published": exact_number("published tables", "1", len(p.inputs.imported)),
        "common_count": p.pairs["first"].error("Operators").count,
        "networks": networks.count,
        "slower": networks.count_below_one,
        "networks_any_batch": at_any_batch.count,
        "slower_any_batch": at_any_batch.count_below_one,
        "slower_compiled": p.pairs["compiled"].gain_in(*subject.FAMILIES).count_below_one,
        "grouped": second.gain_in(GROUPED).count,
        "grouped_rows": any_batch.gain_in(GROUPED, all_sizes=True).count,
        "all_grouped": p.pairs["from_pro"].gain_in(GROUPED).count,
        "layer": second.switched_gain(LAYER_OR_RMS).count,
        "layer_nearer": second.nearer_to_single(LAYER_OR_RMS),
        "others": second.switched_gain([GROUPED], "calibrated").count,
        "others_slower": second.switched_gain([GROUPED], "calibrated").count_below_one,
        "one_group": second.switched_gain([subject.ONE_GROUP]).count,
        "one_group_nearer": second.nearer_to_single([subject.ONE_GROUP]),
        "later": at_any_batch.matching(subject.LATER_NAMES).count,
        "twins": p.twins(ON_5090).count,
        "counted_twins": p.twins(ON_4090, "half").count,
        "laid_out": p.pairs["layout"].gain_in(BATCH).count,
    }


@survey.mapping("measured")
def gains(p: Survey) -> dict[str, Quantity]:
    """Return gains, ratios of twins' rates, the calibration, and slopes of gains."""
    second, calibrated = p.pairs["second"], p.pairs["second"].switched_gain([GROUPED], "calibrated")
    cnns, example_gn = second.gain_in(*subject.CNNS), f"{subject.EXAMPLE}_gn"
    slopes = [p.layout_slope(id) for id in subject.OLD_LAYOUTS]
    return {
        **_range("grouped", p.pairs["any_batch"].gain_in(GROUPED, all_sizes=True)),
        "usual_gain": second.gain_in(BATCH).median,
        "usual_from_pro": p.pairs["from_pro"].gain_in(BATCH).median,
        "evonorm": cnns.number_of(subject.EVONORM),
        **_range("compiled", p.pairs["compiled"].gain_in(GROUPED)),
        "compiled_usual": p.pairs["compiled"].gain_in(BATCH).median,
        "example_gain": cnns.number_of(subject.EXAMPLE),
        "example_grouped": cnns.number_of(example_gn),
        "example_predicted": second.switched_gain([GROUPED], "single").number_of(example_gn),
        "example_rise": second.gain_in(BATCH).median / cnns.number_of(example_gn),
        **_range("unchanged", p.pairs["unchanged"].gain_in(*subject.CNNS)),
        **_range("unchanged_grouped", p.pairs["unchanged"].gain_in(GROUPED)),
        **_range("twins_others", p.twins(ON_4090), p.twins(ON_PRO)),
        **_range("twins_new", p.twins(ON_5090)),
        **_range("twins_compiled", p.twins(ON_4090.compiled), p.twins(ON_PRO.compiled)),
        **_range("twins_half", p.twins(ON_4090, "half")),
        **_range("laid_out", p.pairs["layout"].gain_in(BATCH)),
        "calibration": p.calibration,
        "correlation": calibrated.correlation(second.switched_gain([GROUPED])),
        "slope_middle": p.layout_slope("any_batch"),
        "slope_pro": p.layout_slope("from_pro"),
        "slope_layout_least": smallest(*slopes),
        "slope_layout_most": largest(*slopes),
    }


@survey.mapping()
def prices(p: Survey) -> dict[str, Quantity]:
    """Return the least and largest prices: predicted, on the newest card, and on others."""
    values: dict[str, Quantity] = {}
    *other_prices, new_prices = map(p.prices, subject.PRICED_SETTINGS)
    predicted = {precision: p.predicted_prices(precision) for precision in get_args(Precision)}
    groups = {**predicted, "new": new_prices, "others": [*chain(*other_prices)]}
    for id, group in groups.items():
        values |= {f"price_{id}_least": smallest(*group), f"price_{id}_most": largest(*group)}
    return values | {"price_excess": values["price_others_most"] / values["price_half_most"]}


@survey.mapping("percent")
def errors_of_gains(p: Survey) -> dict[str, Quantity]:
    """Return errors of predicted gains of CNNs with group normalization."""
    single = p.pairs["second"].precision_error([GROUPED], "single")
    values: dict[str, Quantity] = {"single_grouped_most": single.largest}
    for name, id in ("others", "second"), ("others_from_pro", "from_pro"):
        error = p.pairs[id].precision_error([GROUPED], "calibrated")
        values[f"{name}_middle"] = error.plain_median
        # Not rounded yet, so that the template can round it up.
        values[f"{name}_most"] = error.without_interval("largest", error.numbers.max())
    for id in "any_batch", "from_pro":
        error_of = partial(p.pairs[id].precision_error, [GROUPED], all_sizes=True)
        values[f"{id}_single_most"] = error_of("single").largest
        values[f"{id}_half_least"] = error_of("half").smallest
    return values


study.values(
    "percent",
    confidence=exact_number("confidence, chosen", "1", CONFIDENCE),
    equal_twins=exact_number("largest difference of equal twins, chosen", "1", EQUAL_TWINS),
)


@survey.claim(
    "Networks with group normalization of several groups are slower on an RTX 5090 than on an RTX "
    "4090 in eager PyTorch, though CNNs with batch normalization gain over a third in the median",
    numbers=("grouped", "usual_gain"),
)
def group_normalization_slows(p: Survey) -> Iterator[Statement]:
    second = p.pairs["second"]
    yield second.gain_in(BATCH).median > 4 / 3
    yield second.gain_in(*subject.FAMILIES).number_of(subject.EVONORM) > 4 / 3
    yield p.pairs["any_batch"].gain_in(GROUPED, all_sizes=True).largest < 1
    for family in GROUPED, subject.HYBRIDS:
        yield second.gain_in(family).largest < 1
        for id in ("compiled", "workstation"):
            yield p.pairs[id].gain_in(family).smallest > 1


@survey.claim(
    "Bytes counted in float32 predict the gain of each CNN with group normalization within a "
    "tenth at the traced image size, from the rates of either of two other cards; float16 misses "
    "each by more than a half",
    numbers=("single_grouped_most",),
)
def float32_predicts(p: Survey) -> Iterator[Statement]:
    for id in ("second", "from_pro"):
        yield p.pairs[id].precision_error([GROUPED], "single").largest < MAX_ERROR
        yield p.pairs[id].precision_error([GROUPED], "half").smallest > 1 / 2


@survey.claim(
    "Float32's price on three backbones predicts the gain of each other CNN with group "
    "normalization within a tenth from two cards, with less than half of a constant's median error",
    numbers=("others_most", "others_from_pro_most"),
)
def calibrated_float32_predicts_others(p: Survey) -> Iterator[Statement]:
    for id in ("second", "from_pro"):
        gains = p.pairs[id].switched_gain([GROUPED]).matching(subject.HELD_OUT_NAMES)
        error = p.pairs[id].precision_error([GROUPED], "calibrated")
        yield error.largest < MAX_ERROR
        yield error.plain_median / gains.errors_of_median.plain_median < 1 / 2
        yield p.pairs[id].switched_gain([GROUPED], "calibrated").correlation(gains) > 0.9


@survey.claim(
    "A normalized element costs at most a sixth more than the bytes of float32 on the RTX 5090, "
    "and less than a fifth of them on three other cards in the same layout"
)
def price_is_of_float32(p: Survey) -> Iterator[Statement]:
    counted = p.predicted_prices("single")
    for new, single in zip(p.prices(ON_5090), counted, strict=True):
        yield new / single > 1
        yield new / single < 1 + 1 / 6
    yield p.grouped_rates(ON_5090).largest < 0.55
    for setting in subject.PRICED_SETTINGS[:-1]:
        yield p.grouped_rates(setting).smallest > 4 / 5
        yield largest(*p.prices(setting)) / smallest(*counted) < 1 / 5


@survey.claim(
    "Channels-last group normalization costs over four fifths of the bytes of float32 on two older "
    "cards, but slows no BiT network by a tenth, while each BiT network is slower on the RTX 5090"
)
def layout_spares_bit(p: Survey) -> Iterator[Statement]:
    counted = p.predicted_prices("single")
    for setting in subject.CHANNELS_LAST:
        yield smallest(*p.prices(setting)) / largest(*counted) > 4 / 5
    steps = "any_batch", "old_layout", "layout"
    newer, *layouts = (p.pairs[id].gain_in(GROUPED, all_sizes=True) for id in steps)
    for layout in layouts:
        yield layout.matching(subject.BIT_NAMES).smallest > 1 - MAX_ERROR
    yield newer.matching(subject.BIT_NAMES).largest < 1


@survey.claim(
    "Gains of CNNs with batch normalization do not follow those from channels-last on the RTX 5090 "
    "(slope of logarithms below a tenth), but do where this layout is used (over three quarters)",
    numbers=("slope_middle", "slope_pro"),
)
def gains_ignore_the_layout(p: Survey) -> Iterator[Statement]:
    for id in ("any_batch", "from_pro"):
        yield p.layout_slope(id) > -1 / 10
        yield p.layout_slope(id) < 1 / 10
    for id in subject.OLD_LAYOUTS:
        yield p.layout_slope(id) > 3 / 4


@survey.claim(
    "Vision transformers with a normalization before the first block are faster than their twins "
    "by a twentieth to an eighth on an RTX 4090 and a PRO 6000, and within 1.5 % on an RTX 5090",
    numbers=("twins_others_least", "twins_others_most", "twins_new_least", "twins_new_most"),
)
def twins_show_the_switch(p: Survey) -> Iterator[Statement]:
    mixed, pure, *with_old_pytorch = map(p.twins, subject.CONTROL_SETTINGS.values())
    for ratios in p.twins(ON_4090), p.twins(ON_PRO), p.twins(ON_4090, "half"):
        yield ratios.smallest > 1 + 1 / 20
        yield ratios.largest < 1 + 1 / 8
    tolerances = [(p.twins(ON_5090), EQUAL_TWINS), (p.twins(ON_4090, "single"), 0.01), (pure, 0.01)]
    tolerances += [(ratios, 0.02) for ratios in with_old_pytorch]
    for ratios, tolerance in tolerances:
        yield ratios.smallest > 1 - tolerance
        yield ratios.largest < 1 + tolerance
    yield p.twins(ON_PRO.compiled).smallest > 1.01
    yield mixed.smallest > 1.01


@survey.claim(
    "Bytes counted in float32 predict more than two thirds of the CNNs with layer normalization "
    "better than bytes counted in float16, and err less than a constant in the median"
)
def other_normalizations_agree(p: Survey) -> Iterator[Statement]:
    second = p.pairs["second"]
    measured = second.switched_gain(LAYER_OR_RMS)
    error = second.precision_error(LAYER_OR_RMS, "single")
    yield second.nearer_to_single(LAYER_OR_RMS) / measured.count > 2 / 3
    yield error.plain_median / measured.errors_of_median.plain_median < 1


@survey.claim(
    "The roofline of operators errs less than every rule of the data sheet on average over three "
    "steps between cards, but over twice as much as the growth of the bandwidth in one step"
)
def operators_err_least(p: Survey) -> Iterator[Statement]:
    for rule in (*RULES[1:], FIRST_STEP):
        yield p.mean_error(RULES[0]) / p.mean_error(rule) < 1
    yield p.pairs["pro"].error("Operators").median / p.pairs["pro"].error("Bandwidth").median > 2


survey.figure("predicted", key=True, height=2.9)(figures.gains)
survey.figure("backbones", height=2.6)(figures.backbones)
survey.figure("twins", height=2.4)(figures.twins)

_BYTES_HEADS: Final = "Batch, float16 (B)", "Group, float16 (B)", "Group, float32 (B)"


@survey.table()
def moved(p: Survey) -> Iterator[Mapping[str, Content]]:
    """Tabulate the bytes that an element moves in each step, by normalization and precision."""
    sums = [sum(numbers) for numbers in zip(*BETWEEN_CONVOLUTIONS.values(), strict=True)]
    for step, numbers in [*BETWEEN_CONVOLUTIONS.items(), ("Sum", sums)]:
        cells: dict[str, Content] = {"Step": step}
        for head, number in zip(_BYTES_HEADS, numbers, strict=True):
            cells[head] = exact_number(f"{head}, {step}", "B", number)
        yield cells


_ERROR_HEADS: Final = "Float16 (%)", "Float32 (%)", "Calibrated (%)", "Constant (%)"


@survey.table(wide=True, digits=dict.fromkeys(_ERROR_HEADS, 2))
def errors(p: Survey) -> Iterator[Mapping[str, Content]]:
    """Tabulate median errors of predicted gains, by families and by the older card."""
    older_cards, predictions = (("4090", "second"), ("PRO", "from_pro")), get_args(Prediction)
    switched = {} if p.pairs["second"].switched.empty else subject.SWITCHED
    for (label, families), (card, id) in product(switched.items(), older_cards):
        pair = p.pairs[id]
        gains = pair.switched_gain(families).matching(subject.HELD_OUT_NAMES)
        errors = [pair.precision_error(families, prediction) for prediction in predictions]
        medians = [error.matching(subject.HELD_OUT_NAMES).plain_median for error in errors]
        medians.append(gains.errors_of_median.plain_median)
        cells = zip(_ERROR_HEADS, medians, strict=True)
        yield {"Networks": f"{label}, {card}", "All": gains.count, **dict(cells)}


#: Possible causes with the results that each implies; × marks a result that was not observed.
CAUSES: Final = (
    ("Chip", "lose", "lose ×", "any", "lose", "any", "any"),
    ("Kernel", "lose", "lose ×", "any", "lose", "faster ×", "near 0"),
    ("Layout", "lose", "gain", "float32", "gain ×", "faster ×", "near 1 ×"),
    ("Slow memory", "lose", "gain", "any", "lose", "faster ×", "any"),
    ("Slow arithmetic", "gain ×", "gain", "float16 ×", "gain ×", "any", "any"),
    ("Joined table", "gain ×", "gain", "float16 ×", "gain ×", "equal", "near 0"),
    ("Switch", "lose", "gain", "float32", "lose", "equal", "near 0"),
    ("Observed", "lose", "gain", "float32", "lose", "equal", "near 0"),
)
_RESULT_HEADS: Final = ("Group", "PRO", "Price", "BiT", "Twins", "Slope")


@survey.table()
def causes(p: Survey) -> Iterator[Mapping[str, Content]]:
    for cause, *results in () if p.pairs["layout"].all_sizes.empty else CAUSES:
        yield {"Cause": cause, **dict(zip(_RESULT_HEADS, results, strict=True))}


#: Id of a step between cards → head of a column.
_STEP_HEADS: Final = {"first": "To 4090 (%)", "compiled": "To 5090 (%)", "pro": "To PRO (%)"}


@survey.table(digits=dict.fromkeys(("Mean (%)", *_STEP_HEADS.values()), 2))
def predictors(p: Survey) -> Iterator[Mapping[str, Content]]:
    """Tabulate the median error of each rule in each step between cards, and the mean error."""
    for rule in () if p.pairs["first"].known.empty else (*RULES, FIRST_STEP, OWN_STEP):
        cells = {head: p.pairs[id].error(rule).median for id, head in _STEP_HEADS.items()}
        yield {"Rule": rule, **cells, "Mean (%)": p.mean_error(rule)}


@survey.table("cards")
def data_sheets(p: Survey) -> Iterator[Mapping[str, Content]]:
    for card in p.cards.values():
        yield {
            "Card": subject.CARDS[card.device],
            "Peak (TFLOP/s)": card.quantity("peak"),
            "Bandwidth (GB/s)": card.quantity("bandwidth"),
        }


_GAIN_HEADS: Final = ("Least", "Median", "Compiled", "PRO")


@survey.table(digits=dict.fromkeys(_GAIN_HEADS, 3))
def families(p: Survey) -> Iterator[Mapping[str, Content]]:
    """Tabulate gains of each family of networks from an RTX 4090 to newer cards."""
    pairs = [p.pairs[id] for id in ("second", "compiled", "workstation")]
    for family in () if pairs[0].all_sizes.empty else subject.FAMILIES:
        eager, compiled, workstation = (pair.gain_in(family) for pair in pairs)
        cells = eager.smallest, eager.plain_median, compiled.plain_median, workstation.plain_median
        counts = {"All": eager.count, "Slower": eager.count_below_one}
        yield {"Networks": family, **counts, **dict(zip(_GAIN_HEADS, cells, strict=True))}
