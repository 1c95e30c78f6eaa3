"""Results of gpu_survey: costs of a normalization, and errors of predictors of a gain."""

import math
import re
from collections.abc import Hashable, Mapping
from functools import cache, reduce
from typing import Final

import pandas as pd

from report.core.missing import Missing
from report.core.records import OPERATORS
from report.evidence.cached import cached
from report.paper.findings import Inputs
from report.quantity.evaluation import point_estimate
from report.quantity.expression import Leaf, Quantity, exact_number, missing_number
from report.studies.gpu_survey import subject
from report.studies.gpu_survey.runs import Distribution, TableComparison, rounded
from report.studies.gpu_survey.source import PublishedTable, Setting, read_tables
from report.studies.gpu_survey.theory import FLOAT32, Networks, Precision, find_data_sheets

#: Largest relative difference of the parameters of twins, whose classifiers may differ.
_LARGEST_PARAMETER_DIFFERENCE: Final = 0.005
#: The end of the name of a variant with group normalization.
_GROUP_NORM_SUFFIX: Final = "_s?gn$"
#: Rules that predict one gain for all CNNs: the median gain of the first or of the same step.
FIRST_STEP_GAIN: Final = "First step's gain"
OWN_STEP_GAIN: Final = "Own step's gain"


class Survey:
    """Published tables in the compared settings, comparisons of two tables, and data sheets."""

    def __init__(self, inputs: Inputs) -> None:
        """Raise ``StudyError`` for a record without the conditions or factors of the study."""
        self.inputs = inputs
        tables = read_tables(inputs.imported)
        settings = {*subject.EAGER_SETTINGS, *subject.CONTROL_SETTINGS.values()}
        for change in subject.COMPARISONS.values():
            settings |= {change.before, change.after}
        self.tables = {setting: tables[setting] for setting in settings if setting in tables}
        self.data_sheets = find_data_sheets(inputs.devices, subject.GPU_NAMES)
        networks = Networks(inputs.networks())
        self._traced = networks.traced.set_index("network")
        calibration = point_estimate(self.calibration)
        factor = math.nan if isinstance(calibration, Missing) else calibration
        self.comparisons = {
            id: TableComparison(change, self.tables, networks, self.data_sheets, factor)
            for id, change in subject.COMPARISONS.items()
        }
        # All rules are tested on the same networks in all steps.
        steps = [self.comparisons[id] for id in subject.STEPS]
        indices = [step.traced_cnns.index for step in steps]
        common_networks: pd.Index[str] = reduce(pd.Index.intersection, indices)
        for step in steps:
            step.traced_cnns = step.traced_cnns[step.traced_cnns.index.isin(common_networks)].copy()
            step.traced_cnns[FIRST_STEP_GAIN] = steps[0].traced_cnns["gain"].median()
            step.traced_cnns[OWN_STEP_GAIN] = step.traced_cnns["gain"].median()

    def group_norm_costs(self, setting: Setting) -> list[Leaf]:
        """Return the cost of group norm for each of ``BACKBONES``, from published rates.

        The cost is the time that group norm takes beyond batch norm, as the bytes that the GPU
        moves in this time by its data sheet, divided by the number of normalized elements (B).
        """
        table = self.tables.get(setting, PublishedTable())
        sheet = self.data_sheets.get(setting.device)
        bytes_of_time = (sheet.bandwidth / self._rates(setting)).to_dict() if sheet else {}
        return self._costs(setting.device, bytes_of_time, table.file, OPERATORS, "devices.yaml")

    def counted_costs(self, precision: Precision) -> list[Leaf]:
        """Return the costs of group norm in a precision from the bytes that are counted in code."""
        counted_bytes = self._traced[f"{precision}_bytes"].to_dict()
        return self._costs(f"{precision} bytes", counted_bytes, OPERATORS)

    def _costs(self, name: str, moved_bytes: Mapping[Hashable, float], *files: str) -> list[Leaf]:
        """Compute costs from the bytes that each network moves for an image."""
        elements = self._traced["group_norm_elements"].to_dict()
        costs: list[Leaf] = []
        for network in subject.BACKBONES.values():
            variant, label = f"{network}_gn", f"price({name}, {network})"
            if {variant, network} <= moved_bytes.keys() & elements.keys():
                added_bytes = moved_bytes[variant] - moved_bytes[network]
                cost = rounded(added_bytes / elements[variant])
                costs.append(exact_number(label, "B", cost, files[0], files[1:]))
            else:
                costs.append(missing_number(label, "B", "not published or not captured"))
        return costs

    @property
    def calibration(self) -> Quantity:
        """The mean ratio of costs on the RTX 5090 to the counted bytes of float32."""
        costs, counted = self.group_norm_costs(subject.ON_5090), self.counted_costs(FLOAT32)
        ratios = [cost / counted_cost for cost, counted_cost in zip(costs, counted, strict=True)]
        return sum(ratios[1:], ratios[0]) / len(ratios)

    def group_norm_rate_ratios(self, setting: Setting) -> Distribution:
        """Divide the rates of backbones with group norm by their rates with batch norm."""
        table = self.tables.get(setting, PublishedTable())
        rates, backbones = self._rates(setting), subject.BACKBONES | subject.OTHER_BACKBONES
        group_norm_rates = rates.filter(regex=_GROUP_NORM_SUFFIX).rename(_backbone)
        ratios = (group_norm_rates / rates).reindex(list(backbones.values())).dropna()
        return Distribution(f"grouped rate({setting.device})", ratios, (table.file, OPERATORS))

    @cached
    def _rates(self, setting: Setting) -> "pd.Series[float]":
        """Return rates of backbones at the image size at which their group norm was traced."""
        sizes = self._traced["traced_image"].filter(regex=_GROUP_NORM_SUFFIX).rename(_backbone)
        rows = self.tables.get(setting, PublishedTable()).rows
        rows = rows[rows["image"] == rows["network"].map(_backbone).map(sizes)]
        return rows.drop_duplicates("network").set_index("network")["rate"]

    @cached
    def twin_ratios(self, setting: Setting, precision: Precision | None = None) -> Distribution:
        """Divide rates of transformers by rates of twins without the first normalization.

        Twins have equal image and batch sizes; their parameters may differ by a classifier.  With a
        ``precision`` the ratio is predicted from the twin's published rate and the bytes that the
        normalization adds.
        """
        table = self.tables.get(setting, PublishedTable())
        sheet, pattern = self.data_sheets.get(setting.device), subject.PRE_NORMALIZED_NAMES
        normalized = table.rows[table.rows["network"].str.match(pattern)]
        twins = normalized["network"].str.replace(pattern, r"\1\2", regex=True)
        normalized = normalized.assign(normalized=normalized["network"], network=twins)
        keys = ["network", "image", "batch"]
        twin_rows = table.rows[table.rows["network"].isin(twins)]
        pairs = twin_rows.merge(normalized, on=keys, suffixes=("_twin", "")).set_index("network")
        difference = (pairs["parameters"] / pairs["parameters_twin"] - 1).abs()
        pairs = pairs[difference < _LARGEST_PARAMETER_DIFFERENCE]
        ratios = pairs["rate"] / pairs["rate_twin"]
        if precision and sheet:
            bytes_of = self._traced[f"{precision}_bytes"].reindex
            added = bytes_of(pairs["normalized"]).to_numpy() - bytes_of(pairs.index).to_numpy()
            ratios = (1 / (1 + pairs["rate_twin"] * added / sheet.bandwidth)).dropna()
        name = f"rate over twin's({setting.device}, {setting.compiler}, {precision or 'published'})"
        return Distribution(name, ratios, (table.file, OPERATORS, "devices.yaml"))

    def slope_by_layout(self, id: str) -> Leaf:
        """Fit gains of CNNs with batch norm against their gains from channels-last on an RTX 4090.

        Returns the slope on logarithmic axes.
        """
        layout_gains = self.comparisons["layout_on_4090"].gains(subject.BATCH_NORM_CNNS)
        return self.comparisons[id].gains(subject.BATCH_NORM_CNNS).slope(layout_gains)

    def mean_rule_error(self, rule: str) -> Quantity:
        """Return the mean, over the steps between GPUs, of a rule's median error."""
        steps = [self.comparisons[id] for id in subject.STEPS]
        medians: list[Quantity] = [step.rule_errors(rule).median for step in steps]
        return sum(medians[1:], medians[0]) / len(medians)


@cache
def _backbone(network: str) -> str:
    """Return the name of a network's variant with batch normalization."""
    return re.sub(_GROUP_NORM_SUFFIX, "", network)
