"""training_roofline: bounds of the collapsed run by hand, and both verdicts of every claim.

The source compares a T4 with a laptop's RTX GPU, by throughput (images a second) and by efficiency
(the printed share of peak).  One run of the laptop's GPU collapsed.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import cache, partial
from itertools import combinations

import msgspec
from pytest import approx

from report.core.records.reported import Devices
from report.core.statistics.estimates import Estimate
from report.engine.steps import ROOT
from report.paper.findings import Findings, Inputs
from report.studies.training_roofline import theory
from report.studies.training_roofline.study import findings
from report.studies.training_roofline.subject import NETWORKS
from report.theory.networks import layers_of
from report.theory.work import parameter_count
from tests import papers
from tests.degraded import altered_inputs, committed_inputs

STUDY = "training_roofline"
SMALL, HEAVY, LIGHT = NETWORKS
#: The peak of the laptop's chip at its nominal clock, and its bandwidth.
CHIP, BUS = 2 * 7424 * 1.665e9, 432e9


@cache
def committed_findings() -> Findings:
    """Return the findings of the committed records."""
    return findings(committed_inputs(STUDY))


#: The collapsed run's mean step (s) by its printed efficiency of 0.61 %.
MEAN_STEP = 128 * 12.27e9 / (0.0061 * 48.7e12)


def test_the_bounds_of_the_excess_are_those_of_all_distributions_of_three_lengths() -> None:
    """The excess is the mean throughput of steps over the throughput of the mean step.

    An extreme distribution with two given moments has at most three lengths of steps; all sets of
    three out of 61 lengths are tried.
    """
    deviation, fastest, slowest = 1.731, 0.914, 8.561
    count, excesses = 60, []
    lengths = [fastest + (slowest - fastest) * number / count for number in range(count + 1)]
    for x, y, z in combinations(lengths, 3):
        weights = []
        for own, first, second in ((x, y, z), (y, x, z), (z, x, y)):
            spread = deviation**2 + (MEAN_STEP - first) * (MEAN_STEP - second)
            weights.append(spread / ((own - first) * (own - second)))
        if min(weights) >= 0:
            throughput = weights[0] / x + weights[1] / y + weights[2] / z
            excesses.append(MEAN_STEP * throughput - 1)
    bounds = committed_findings().values["excess_any"].number
    assert isinstance(bounds, Estimate)
    assert min(excesses) == approx(bounds.low, abs=0.002)
    assert max(excesses) == approx(bounds.high, abs=0.006)
    assert bounds.low <= min(excesses) < max(excesses) <= bounds.high


def on(t4_bandwidth: int = 320, **source: float) -> Inputs:
    """Return committed inputs with other numbers in the source and in the data sheet of the T4.

    ``_752=450`` or ``**{"15.5": 25}`` replaces a number of the source by another.
    """
    inputs = replace(committed_inputs(STUDY), reported=papers.reported_with(STUDY, **source))
    text = msgspec.json.encode(inputs.devices).decode()
    text = text.replace('"memory","value":320.0', f'"memory","value":{t4_bandwidth}')
    return replace(inputs, devices=msgspec.json.decode(text, type=Devices))


def averaged(samples: tuple[float, ...]) -> tuple[float, ...]:
    return (sum(samples) / len(samples),) * len(samples)


def test_changed_inputs_change_the_verdict_of_each_claim() -> None:
    no, loading = "refuted", partial(altered_inputs, STUDY, "time", subject="loading")
    papers.assert_other_verdicts(
        STUDY,
        (no, on(t4_bandwidth=3_200), "nearer-roof"),
        (no, on(**{"48.7": 10}), "inflated"),
        (no, on(_752=450), "laptop-ahead"),
        (no, on(**{"15.5": 25, "16.1": 25}), "clock-decides"),
        (no, on(_650=480), "mean-ties", "small-leads"),
        (no, on(_752=850), "light-ties"),
        (no, on(_31=40), "averaging-fits"),
        (no, on(_1107=700), "hardware"),
        (no, altered_inputs(STUDY, "allocated_peak", lambda size: 10 * size, network=LIGHT),
         "needs-most"),
        (no, loading(whole=averaged), "averages-overstate", "bunches-predict"),
    )  # fmt: skip


def test_the_page_explores_the_layers_devices_and_throughputs_of_the_paper() -> None:
    """The page's script contains the loads of layers, the data of GPUs, and printed throughputs."""
    text = (ROOT / "templates/html/assets/layers.js").read_text("utf-8")
    content = json.loads(text.partition(" = ")[2].rstrip(";\n"))
    for network in NETWORKS:
        layers = layers_of(network, 224, content["batch"])
        update = 5 * 4 * sum(map(parameter_count, layers))
        counts = Counter((load.flops, load.bytes) for load in theory.layer_loads(layers))
        counts += Counter([(0, update)])
        rows = sorted((*load, count) for load, count in counts.items() if load != (0, 0))
        assert [*map(tuple, content["networks"][network])] == rows
    # Peak (TFLOP/s), bandwidth (GB/s) and nominal clock (MHz).
    laptop, t4 = content["devices"].pop("RTX 4080 Laptop"), content["devices"]["T4"]
    assert laptop == [approx(CHIP / 1e12), BUS / 1e9, 1665]
    assert t4[2] == committed_findings().values["t4_top"].number
    sheets = papers.inputs_of(STUDY).devices
    for name, (peak, bandwidth, _) in content["devices"].items():
        sheet = sheets.find(f"NVIDIA {name}") or sheets.find(f"NVIDIA GeForce {name}")
        rates = [sheet.peak(operation) for operation in ("float32", "memory")]
        assert [rate and rate.value for rate in rates] == [peak, bandwidth], name
    assert "#tbl-by-network" in (ROOT / "templates/html/assets/roofline.js").read_text("utf-8")
    assert "tbl-by-network" in committed_findings().tables
    throughputs = content["throughput"]
    assert throughputs["RTX 4080 Laptop"][SMALL] == 1107
    assert throughputs["T4"] == {SMALL: 650, HEAVY: 117, LIGHT: 308}
