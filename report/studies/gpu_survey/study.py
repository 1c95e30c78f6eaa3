"""Numbers, claims and tables of gpu_survey; the template prints each by its function's name.

- Gain: a network's rate (images/s) after a change of settings divided by its rate before; the ids
  of the changes are in ``subject.COMPARISONS``.
- Switch: timm's option to normalize in float16, not float32, under mixed precision.
- Cost of group normalization (in the paper: price): the time beyond batch normalization, as bytes
  per normalized element.  Three backbones calibrate the cost of float32.
- Twins: a vision transformer with and without a normalization before its first block.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Final, get_args

from report.core.statistics.estimates import CONFIDENCE
from report.paper.study import Content, Part, Study
from report.quantity.expression import Quantity, Statement, exact_number
from report.quantity.operations import largest, smallest
from report.studies.gpu_survey import figures, subject
from report.studies.gpu_survey.results import FIRST_STEP_GAIN, OWN_STEP_GAIN, Survey
from report.studies.gpu_survey.runs import CALIBRATED, RULES, Distribution, Prediction
from report.studies.gpu_survey.subject import BATCH_NORM_CNNS, GROUP_NORM_CNNS, LAYER_OR_RMS_CNNS
from report.studies.gpu_survey.theory import BETWEEN_CONVOLUTIONS, FLOAT16, FLOAT32, Precision

#: The largest relative error of a gain that counts as predicted.
MAX_ERROR: Final = 0.1
#: The largest relative difference of rates of twins that count as equally fast.
EQUAL_TWINS_MARGIN: Final = 0.015

study = Study(Survey)
findings = study.findings
#: All published tables; the study has no records of our own.
survey: Part[Survey] = study.part("", "others")


def _extremes(name: str, *distributions: Distribution) -> dict[str, Quantity]:
    """Return the least and the largest number of all distributions, with ids from ``name``."""
    smallest_numbers = [distribution.smallest for distribution in distributions]
    largest_numbers = [distribution.largest for distribution in distributions]
    return {f"{name}_least": smallest(*smallest_numbers), f"{name}_most": largest(*largest_numbers)}


@survey.mapping()
def counts(data: Survey) -> dict[str, Quantity]:
    """Count tables and networks: all of a kind, slower ones, and those nearer to float32."""
    to_5090 = data.comparisons["4090_to_5090"]
    to_5090_any_batch = data.comparisons["4090_to_5090_any_batch"]
    compiled, networks = data.comparisons["4090_to_5090_compiled"], to_5090.gains(*subject.FAMILIES)
    at_any_batch = to_5090_any_batch.gains(*subject.FAMILIES)
    return {
        "tables": exact_number("tables", "1", len(data.tables)),
        "published": exact_number("published tables", "1", len(data.inputs.imported)),
        # The same CNNs are traced in every step between GPUs.
        "common_count": data.comparisons["3090_to_4090"].rule_errors("Operators").count,
        "networks": networks.count,
        "slower": networks.count_below_one,
        "networks_any_batch": at_any_batch.count,
        "slower_any_batch": at_any_batch.count_below_one,
        "slower_compiled": compiled.gains(*subject.FAMILIES).count_below_one,
        "grouped": to_5090.gains(GROUP_NORM_CNNS).count,
        "grouped_rows": to_5090_any_batch.gains(GROUP_NORM_CNNS, all_sizes=True).count,
        "all_grouped": data.comparisons["pro_to_5090"].gains(GROUP_NORM_CNNS).count,
        "layer": to_5090.switchable_gains(LAYER_OR_RMS_CNNS).count,
        "layer_nearer": to_5090.count_nearer_to_float32(LAYER_OR_RMS_CNNS),
        # CNNs with group normalization other than the backbones that calibrate the cost.
        "others": to_5090.switchable_gains([GROUP_NORM_CNNS], CALIBRATED).count,
        "others_slower": to_5090.switchable_gains([GROUP_NORM_CNNS], CALIBRATED).count_below_one,
        "one_group": to_5090.switchable_gains([subject.ONE_GROUP_NETWORKS]).count,
        "one_group_nearer": to_5090.count_nearer_to_float32([subject.ONE_GROUP_NETWORKS]),
        "later": at_any_batch.select(subject.NEW_TIMM_NAMES).count,
        "twins": data.twin_ratios(subject.ON_5090).count,
        "counted_twins": data.twin_ratios(subject.ON_4090, FLOAT16).count,
        "laid_out": data.comparisons["layout_on_4090"].gains(BATCH_NORM_CNNS).count,
    }


@survey.mapping("measured")
def gains(data: Survey) -> dict[str, Quantity]:
    """Return gains, ratios of twins' rates, the calibration, and slopes of gains."""
    to_5090 = data.comparisons["4090_to_5090"]
    any_batch = data.comparisons["4090_to_5090_any_batch"]
    compiled = data.comparisons["4090_to_5090_compiled"]
    other_torch = data.comparisons["torch_on_4090"]
    cnns, usual_gain = to_5090.gains(*subject.CNNS), to_5090.gains(BATCH_NORM_CNNS).median
    measured = to_5090.switchable_gains([GROUP_NORM_CNNS])
    float32 = to_5090.switchable_gains([GROUP_NORM_CNNS], FLOAT32)
    calibrated = to_5090.switchable_gains([GROUP_NORM_CNNS], CALIBRATED)
    example_with_group_norm = f"{subject.EXAMPLE_NETWORK}_gn"
    slopes = [data.slope_by_layout(id) for id in subject.LAYOUTS_ON_3090]
    older = subject.ON_4090, subject.ON_PRO  # settings of the GPUs other than the RTX 5090
    return {
        **_extremes("grouped", any_batch.gains(GROUP_NORM_CNNS, all_sizes=True)),
        "usual_gain": usual_gain,
        "usual_from_pro": data.comparisons["pro_to_5090"].gains(BATCH_NORM_CNNS).median,
        "evonorm": cnns.of_network(subject.EVONORM_NETWORK),
        **_extremes("compiled", compiled.gains(GROUP_NORM_CNNS)),
        "compiled_usual": compiled.gains(BATCH_NORM_CNNS).median,
        "example_gain": cnns.of_network(subject.EXAMPLE_NETWORK),
        "example_grouped": cnns.of_network(example_with_group_norm),
        "example_predicted": float32.of_network(example_with_group_norm),
        # The factor by which the switch would raise the rate of the example on the newer GPU.
        "example_rise": usual_gain / cnns.of_network(example_with_group_norm),
        **_extremes("unchanged", other_torch.gains(*subject.CNNS)),
        **_extremes("unchanged_grouped", other_torch.gains(GROUP_NORM_CNNS)),
        **_extremes("twins_others", *map(data.twin_ratios, older)),
        **_extremes("twins_new", data.twin_ratios(subject.ON_5090)),
        **_extremes("twins_compiled", *(data.twin_ratios(setting.compiled) for setting in older)),
        **_extremes("twins_half", data.twin_ratios(subject.ON_4090, FLOAT16)),
        **_extremes("laid_out", data.comparisons["layout_on_4090"].gains(BATCH_NORM_CNNS)),
        "calibration": data.calibration,
        "correlation": calibrated.correlation(measured),
        "slope_middle": data.slope_by_layout("4090_to_5090_any_batch"),
        "slope_pro": data.slope_by_layout("pro_to_5090"),
        "slope_layout_least": smallest(*slopes),
        "slope_layout_most": largest(*slopes),
    }


@survey.mapping()
def costs(data: Survey) -> dict[str, Quantity]:
    """Return the least and largest costs: counted, on the RTX 5090, and on other GPUs."""
    values: dict[str, Quantity] = {}
    counted = {precision: data.counted_costs(precision) for precision in get_args(Precision)}
    groups = {**counted, "new": data.group_norm_costs(subject.ON_5090)}
    groups["others"] = [*chain(*map(data.group_norm_costs, subject.OTHER_GPU_SETTINGS))]
    for id, group in groups.items():
        values |= {f"price_{id}_least": smallest(*group), f"price_{id}_most": largest(*group)}
    return values | {"price_excess": values["price_others_most"] / values["price_half_most"]}


@survey.mapping("percent")
def errors_of_gains(data: Survey) -> dict[str, Quantity]:
    """Return errors of predicted gains of CNNs with group normalization."""
    to_5090 = data.comparisons["4090_to_5090"]
    float32_errors = to_5090.prediction_errors([GROUP_NORM_CNNS], FLOAT32)
    values: dict[str, Quantity] = {"single_grouped_most": float32_errors.largest}
    for prefix, id in zip(("others", "others_from_pro"), subject.TO_5090, strict=True):
        errors = data.comparisons[id].prediction_errors([GROUP_NORM_CNNS], CALIBRATED)
        values[f"{prefix}_middle"] = errors.median_number
        # Not rounded yet, so that the template can round it up.
        values[f"{prefix}_most"] = errors.exact_quantity("largest", errors.numbers.max())
    for prefix, id in ("any_batch", "4090_to_5090_any_batch"), ("from_pro", "pro_to_5090"):
        comparison = data.comparisons[id]
        errors_of = partial(comparison.prediction_errors, [GROUP_NORM_CNNS], all_sizes=True)
        values[f"{prefix}_single_most"] = errors_of(FLOAT32).largest
        values[f"{prefix}_half_least"] = errors_of(FLOAT16).smallest
    return values


study.values(
    "percent",
    confidence=exact_number("confidence, chosen", "1", CONFIDENCE),
    equal_twins=exact_number("largest difference of equal twins, chosen", "1", EQUAL_TWINS_MARGIN),
)


@survey.claim(
    "Networks with group normalization of several groups are slower on an RTX 5090 than on an RTX "
    "4090 in eager PyTorch, though CNNs with batch normalization gain over a third in the median",
    numbers=("grouped", "usual_gain"),
)
def group_normalization_slows(data: Survey) -> Iterator[Statement]:
    to_5090 = data.comparisons["4090_to_5090"]
    any_batch = data.comparisons["4090_to_5090_any_batch"]
    yield to_5090.gains(BATCH_NORM_CNNS).median > 4 / 3
    yield to_5090.gains(*subject.FAMILIES).of_network(subject.EVONORM_NETWORK) > 4 / 3
    yield any_batch.gains(GROUP_NORM_CNNS, all_sizes=True).largest < 1
    for family in GROUP_NORM_CNNS, subject.GROUP_NORM_HYBRIDS:
        yield to_5090.gains(family).largest < 1
        for id in ("4090_to_5090_compiled", "4090_to_pro"):
            yield data.comparisons[id].gains(family).smallest > 1


@survey.claim(
    "Bytes counted in float32 predict the gain of each CNN with group normalization within a "
    "tenth at the traced image size, from the rates of either of two other cards; float16 misses "
    "each by more than a half",
    numbers=("single_grouped_most",),
)
def float32_predicts(data: Survey) -> Iterator[Statement]:
    """The errors are below 10 % with float32 and above 50 % with float16, from either older GPU."""
    for id in subject.TO_5090:
        errors_of = partial(data.comparisons[id].prediction_errors, [GROUP_NORM_CNNS])
        yield errors_of(FLOAT32).largest < MAX_ERROR
        yield errors_of(FLOAT16).smallest > 1 / 2


@survey.claim(
    "Float32's price on three backbones predicts the gain of each other CNN with group "
    "normalization within a tenth from two cards, with less than half of a constant's median error",
    numbers=("others_most", "others_from_pro_most"),
)
def calibrated_float32_predicts_others(data: Survey) -> Iterator[Statement]:
    """Calibrated on three backbones, float32 predicts the gains of all other CNNs to within 10 %.

    The median error is below half the error of predicting the median gain for every CNN.
    """
    for id in subject.TO_5090:
        comparison = data.comparisons[id]
        gains = comparison.switchable_gains([GROUP_NORM_CNNS]).select(subject.HELD_OUT_NAMES)
        errors = comparison.prediction_errors([GROUP_NORM_CNNS], CALIBRATED)
        yield errors.largest < MAX_ERROR
        yield errors.median_number / gains.errors_of_constant.median_number < 1 / 2
        predicted_gains = comparison.switchable_gains([GROUP_NORM_CNNS], CALIBRATED)
        yield predicted_gains.correlation(gains) > 0.9


@survey.claim(
    "A normalized element costs at most a sixth more than the bytes of float32 on the RTX 5090, "
    "and less than a fifth of them on three other cards in the same layout"
)
def price_is_of_float32(data: Survey) -> Iterator[Statement]:
    costs, counted_costs = data.group_norm_costs(subject.ON_5090), data.counted_costs(FLOAT32)
    for cost, counted_cost in zip(costs, counted_costs, strict=True):
        yield cost / counted_cost > 1
        yield cost / counted_cost < 1 + 1 / 6
    yield data.group_norm_rate_ratios(subject.ON_5090).largest < 0.55
    for setting in subject.OTHER_GPU_SETTINGS:
        yield data.group_norm_rate_ratios(setting).smallest > 4 / 5
        yield largest(*data.group_norm_costs(setting)) / smallest(*counted_costs) < 1 / 5


@survey.claim(
    "Channels-last group normalization costs over four fifths of the bytes of float32 on two older "
    "cards, but slows no BiT network by a tenth, while each BiT network is slower on the RTX 5090"
)
def layout_spares_bit(data: Survey) -> Iterator[Statement]:
    """BiT networks have group norm.  Channels-last does not slow them down; the RTX 5090 does."""
    counted_costs = data.counted_costs(FLOAT32)
    for setting in subject.CHANNELS_LAST:
        yield smallest(*data.group_norm_costs(setting)) / largest(*counted_costs) > 4 / 5
    bit_gains = {}
    for id in "layout_on_3090", "layout_on_4090", "4090_to_5090_any_batch":
        gains = data.comparisons[id].gains(GROUP_NORM_CNNS, all_sizes=True)
        bit_gains[id] = gains.select(subject.BIT_NAMES)
    yield bit_gains["layout_on_3090"].smallest > 1 - MAX_ERROR
    yield bit_gains["layout_on_4090"].smallest > 1 - MAX_ERROR
    yield bit_gains["4090_to_5090_any_batch"].largest < 1


@survey.claim(
    "Gains of CNNs with batch normalization do not follow those from channels-last on the RTX 5090 "
    "(slope of logarithms below a tenth), but do where this layout is used (over three quarters)",
    numbers=("slope_middle", "slope_pro"),
)
def gains_ignore_the_layout(data: Survey) -> Iterator[Statement]:
    """If the RTX 5090 had run in channels-last, its gains would follow those of this layout."""
    for id in ("4090_to_5090_any_batch", "pro_to_5090"):
        yield data.slope_by_layout(id) > -1 / 10
        yield data.slope_by_layout(id) < 1 / 10
    for id in subject.LAYOUTS_ON_3090:
        yield data.slope_by_layout(id) > 3 / 4


@survey.claim(
    "Vision transformers with a normalization before the first block are faster than their twins "
    "by a twentieth to an eighth on an RTX 4090 and a PRO 6000, and within 1.5 % on an RTX 5090",
    numbers=("twins_others_least", "twins_others_most", "twins_new_least", "twins_new_most"),
)
def twins_show_the_switch(data: Survey) -> Iterator[Statement]:
    """Twins differ in rate where normalizing in float16 saves bytes, and are equal elsewhere."""
    on_4090, on_pro, on_5090 = map(data.twin_ratios, subject.EAGER_SETTINGS)
    mixed_bfloat16, bfloat16, *old_torch = map(data.twin_ratios, subject.CONTROL_SETTINGS.values())
    float16 = data.twin_ratios(subject.ON_4090, FLOAT16)
    float32 = data.twin_ratios(subject.ON_4090, FLOAT32)
    for ratios in on_4090, on_pro, float16:
        yield ratios.smallest > 1 + 1 / 20
        yield ratios.largest < 1 + 1 / 8
    margins = {on_5090: EQUAL_TWINS_MARGIN, float32: 0.01, bfloat16: 0.01}
    for ratios, margin in (margins | dict.fromkeys(old_torch, 0.02)).items():
        yield ratios.smallest > 1 - margin
        yield ratios.largest < 1 + margin
    yield data.twin_ratios(subject.ON_PRO.compiled).smallest > 1.01
    yield mixed_bfloat16.smallest > 1.01


@survey.claim(
    "Bytes counted in float32 predict more than two thirds of the CNNs with layer normalization "
    "better than bytes counted in float16, and err less than a constant in the median"
)
def other_normalizations_agree(data: Survey) -> Iterator[Statement]:
    to_5090 = data.comparisons["4090_to_5090"]
    gains = to_5090.switchable_gains(LAYER_OR_RMS_CNNS)
    errors = to_5090.prediction_errors(LAYER_OR_RMS_CNNS, FLOAT32)
    yield to_5090.count_nearer_to_float32(LAYER_OR_RMS_CNNS) / gains.count > 2 / 3
    yield errors.median_number / gains.errors_of_constant.median_number < 1


@survey.claim(
    "The roofline of operators errs less than every rule of the data sheet on average over three "
    "steps between cards, but over twice as much as the growth of the bandwidth in one step"
)
def operators_err_least(data: Survey) -> Iterator[Statement]:
    """Compare median errors of rules.  "Operators" is the rule by a roofline of each operator."""
    for rule in (*RULES[1:], FIRST_STEP_GAIN):
        yield data.mean_rule_error("Operators") / data.mean_rule_error(rule) < 1
    errors_of = data.comparisons["5090_to_pro_compiled"].rule_errors
    yield errors_of("Operators").median / errors_of("Bandwidth").median > 2


survey.figure("predicted", key=True, height=2.9)(figures.gains)
survey.figure("backbones", height=2.6)(figures.backbones)
survey.figure("twins", height=2.4)(figures.twins)

_BYTES_HEADINGS: Final = "Batch, float16 (B)", "Group, float16 (B)", "Group, float32 (B)"


@survey.table()
def moved(data: Survey) -> Iterator[Mapping[str, Content]]:
    """Tabulate the bytes that an element moves in each step, by normalization and precision."""
    sums = [sum(numbers) for numbers in zip(*BETWEEN_CONVOLUTIONS.values(), strict=True)]
    for step, numbers in [*BETWEEN_CONVOLUTIONS.items(), ("Sum", sums)]:
        cells: dict[str, Content] = {"Step": step}
        for heading, number in zip(_BYTES_HEADINGS, numbers, strict=True):
            cells[heading] = exact_number(f"{heading}, {step}", "B", number)
        yield cells


_ERROR_HEADINGS: Final = "Float16 (%)", "Float32 (%)", "Calibrated (%)", "Constant (%)"


@survey.table(wide=True, digits=dict.fromkeys(_ERROR_HEADINGS, 2))
def errors(data: Survey) -> Iterator[Mapping[str, Content]]:
    """Tabulate median errors of predicted gains, grouped by families and by the older GPU."""
    if data.comparisons["4090_to_5090"].switchable_networks.empty:
        return
    for label, families in subject.SWITCHABLE_FAMILIES.items():
        for id, older_gpu in subject.TO_5090.items():
            comparison = data.comparisons[id]
            gains = comparison.switchable_gains(families).select(subject.HELD_OUT_NAMES)
            errors = [comparison.prediction_errors(families, p) for p in get_args(Prediction)]
            medians = [error.select(subject.HELD_OUT_NAMES).median_number for error in errors]
            medians.append(gains.errors_of_constant.median_number)
            cells = zip(_ERROR_HEADINGS, medians, strict=True)
            yield {"Networks": f"{label}, {older_gpu}", "All": gains.count, **dict(cells)}


#: Rows of a table: a cause and the result that it implies in each of ``_RESULT_HEADINGS``.  × marks
#: an implied result that was not observed; with "any" a cause fits every result.
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
_RESULT_HEADINGS: Final = ("Group", "PRO", "Price", "BiT", "Twins", "Slope")


@survey.table()
def causes(data: Survey) -> Iterator[Mapping[str, Content]]:
    for cause, *results in () if data.comparisons["layout_on_4090"].all_sizes.empty else CAUSES:
        yield {"Cause": cause, **dict(zip(_RESULT_HEADINGS, results, strict=True))}


#: Headings of columns for the steps between GPUs, in the order of ``subject.STEPS``.
_STEP_HEADINGS: Final = "To 4090 (%)", "To 5090 (%)", "To PRO (%)"


@survey.table(digits=dict.fromkeys(("Mean (%)", *_STEP_HEADINGS), 2))
def predictors(data: Survey) -> Iterator[Mapping[str, Content]]:
    """Tabulate the median error of each rule in each step between GPUs, and the mean error."""
    if data.comparisons["3090_to_4090"].traced_cnns.empty:
        return
    for rule in (*RULES, FIRST_STEP_GAIN, OWN_STEP_GAIN):
        cells: dict[str, Content] = {"Rule": rule}
        for heading, id in zip(_STEP_HEADINGS, subject.STEPS, strict=True):
            cells[heading] = data.comparisons[id].rule_errors(rule).median
        yield {**cells, "Mean (%)": data.mean_rule_error(rule)}


@survey.table("cards")
def data_sheets(data: Survey) -> Iterator[Mapping[str, Content]]:
    for sheet in data.data_sheets.values():
        yield {
            "Card": subject.GPU_NAMES[sheet.device],
            "Peak (TFLOP/s)": sheet.quantity("peak"),
            "Bandwidth (GB/s)": sheet.quantity("bandwidth"),
        }


_GAIN_HEADINGS: Final = ("Least", "Median", "Compiled", "PRO")


@survey.table(digits=dict.fromkeys(_GAIN_HEADINGS, 3))
def families(data: Survey) -> Iterator[Mapping[str, Content]]:
    """Tabulate gains of each family of networks from an RTX 4090 to newer GPUs."""
    ids = "4090_to_5090", "4090_to_5090_compiled", "4090_to_pro"
    for family in () if data.comparisons[ids[0]].all_sizes.empty else subject.FAMILIES:
        eager, compiled, to_pro = (data.comparisons[id].gains(family) for id in ids)
        medians = (gains.median_number for gains in (eager, compiled, to_pro))
        cells = eager.smallest, *medians
        counts = {"All": eager.count, "Slower": eager.count_below_one}
        yield {"Networks": family, **counts, **dict(zip(_GAIN_HEADINGS, cells, strict=True))}
