"""The quick plan of the study, from the command to a record that the building side reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import measured

from report.records.filed import content_hash
from report.records.record import Record


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    # A batch of a thousand million images fits into no machine: 86 TB.
    data = tmp_path_factory.mktemp("quick") / "data"
    stored = measured("conv_scaling", data, "--set", "batch=1,4,1000000000")
    assert Path(stored.file).stem.endswith(content_hash(stored.record))
    return stored.record


def test_cases_and_their_samples(record: Record) -> None:
    good = [case for case in record.cases if case.factors["batch"] != 10**9]
    assert len(record.cases) == 7
    assert {case.status for case in good} == {"ok"}
    for case in good:
        kept = case.rounds_under("retained")
        assert len(case.samples("first_call_time")) == len(kept) >= 1
        assert all(len(r.samples("time")) >= record.protocol.minimum_samples for r in kept)
        assert len(case.samples("cpu_time")) == len(case.samples("time"))
        assert all(sample > 0 for sample in case.samples("time"))
        assert len(set(case.samples("allocated_peak"))) == 1
        assert len(case.samples("allocated_peak")) == 3


def test_what_does_not_fit_is_an_outcome_with_its_layers(record: Record) -> None:
    large = [case for case in record.cases if case.factors["batch"] == 10**9]
    assert [case.status for case in large] == ["out_of_memory", "out_of_memory"]
    for case in large:
        assert "86528000000000 B" in str(case.reason)
        assert case.series == ()
        assert case.layers[0].input_shape == (10**9, 32, 26, 26)


def test_the_network_is_in_the_record(record: Record) -> None:
    (network,) = [case for case in record.cases if case.factors["subject"] == "network"]
    assert len(network.layers) == 12
    assert network.layers[-1].output_shape == (1, 10)


def test_ceilings_stand_before_and_after(record: Record) -> None:
    found = [(ceiling.operation, ceiling.moment) for ceiling in record.ceilings]
    # Some pages of a system may be mapped several at once; their price is no ceiling then.
    for moment in ("before", "after"):
        operations = {operation for operation, at in found if at == moment} - {"page_mapping"}
        assert operations == {"matrix_product", "convolution", "copy", "read", "triad"}


def test_the_record_says_how_it_was_made(record: Record) -> None:
    assert record.command[:5] == ("python", "-m", "experiments", "run", "conv_scaling")
    assert not [word for word in record.command if word.startswith("/")]
    assert record.started <= record.finished
    assert record.environment.precision.default_dtype == "float32"
    assert record.environment.load_after is not None
