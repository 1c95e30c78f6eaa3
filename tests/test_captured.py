"""The captured networks: published sizes, peaks by hand, and what a training step keeps."""

from __future__ import annotations

from itertools import product

import pytest

from report.missing import Missing
from report.records.layers import BatchNorm
from report.theory import peaks
from report.theory.conditions import Conditions, Layout
from report.theory.networks import Captured, Way, captured, layers_of
from report.theory.shapes import parameter_count
from report.theory.work import forward_macs

PLAIN = Way()
#: The networks of papers with the pixels of their images.
KNOWN = {"LeNet-5": 32, "ResNet-20": 32, "ResNet-110": 32, "AlexNet": 224, "VGG-16": 224}


def network(name: str, way: Way = PLAIN) -> Captured:
    found = captured(name, KNOWN[name], way)
    assert isinstance(found, Captured)
    return found


@pytest.mark.parametrize("name", KNOWN)
def test_layers_and_operators_have_the_same_parameters_and_work(name: str) -> None:
    layers, call = layers_of(name, KNOWN[name], 3), network(name)
    assert sum(map(parameter_count, layers)) == call.network.parameter_count
    assert forward_macs(layers) == 3 * call.per_image


def test_other_layers_than_were_captured_have_no_prediction() -> None:
    ran = layers_of("ResNet-20", 32, 8)
    assert isinstance(captured("ResNet-20", 32, Way(), like=ran), Captured)
    assert isinstance(captured("ResNet-20", 32, Way(), like=layers_of("ResNet-32", 32)), Missing)
    assert isinstance(captured("ResNet-21", 32, Way()), Missing)


# -------------------------------------------------------------------------------------- peaks


def test_a_residual_network_by_hand() -> None:
    """The first block's sum: both of its terms and the result, while the next ones wait."""
    at = peaks.peak(network("ResNet-20", Way("channels_last")), 64, Conditions())
    tensor, parameters = 64 * 16 * 32 * 32 * 4, 269_722 * 4
    channels = sum(
        layer.input_shape[1] for layer in layers_of("ResNet-20", 32) if isinstance(layer, BatchNorm)
    )
    statistics = 2 * 4 * channels + 8 * 19
    names = (peaks.PARAMETERS, peaks.STATISTICS, peaks.INPUT)
    assert [at.amount(name) for name in names] == [parameters, statistics, 64 * 3 * 32 * 32 * 4]
    assert (at.total - at.before - at.workspace, at.complete) == (3 * tensor, True)


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("name", KNOWN)
def test_peaks_are_at_least_what_is_needed_and_grow(name: str, layout: Layout) -> None:
    for precision, block in product(("float32", "bfloat16", "float16"), (8, 16)):
        each = network(name, Way(layout, precision))
        found = {n: peaks.peak(each, n, Conditions(block=block)) for n in (2, 8, 64)}
        totals = [at.total for at in found.values()]
        assert totals == sorted(totals)
        for batch, at in found.items():
            assert at.before == peaks.before(each, batch)
            assert all(t.amount >= 0 or t.name == "Output not yet allocated" for t in at.terms)
        assert block == 16 or found[8].total >= peaks.needed(each, 8)
