"""A broken file of what was learned from is one sentence, and none is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from report.errors import RecordError
from report.evidence.runs import Run
from report.paper.images import DataSet, data_set
from tests import factory, papers


def described(**files: bytes) -> DataSet | None:
    """What is said of a record beside which these files lie."""
    inputs = papers.inputs_of("conv_scaling", factory.record())
    run = Run(inputs.records[0], "example")
    names = {name.replace("_", "."): content for name, content in files.items()}
    return data_set(replace(inputs, attachments={run.file: names}), run)


def test_a_broken_file_is_one_sentence() -> None:
    assert described() is None
    with pytest.raises(RecordError, match=r"/images\.json: .*this field is missing") as caught:
        described(images_json=b"{}")
    assert "\n" not in str(caught.value)
