"""The images beside a record: which they are, a sample drawn, and files that are broken."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from report.errors import RecordError
from report.evidence.runs import Run
from report.paper.images import data_set, sample
from tests import factory, papers

ENTRIES = [{"label": n // 2, "pixels": (bytes([12 * n]) * 4).hex()} for n in range(20)]


def described(**files: bytes) -> tuple[object, object]:
    """Both descriptions of a record beside which these files lie."""
    inputs = papers.inputs_of("conv_scaling", factory.record())
    run = Run(inputs.records[0], "example")
    names = {name.replace("_", "."): content for name, content in files.items()}
    inputs = replace(inputs, attachments={run.file: names})
    return data_set(inputs, run), sample(inputs, run)


def sampled(images: object, extent: int = 2) -> bytes:
    classes = [str(n) for n in range(10)]
    found = {"classes": classes, "shape": [1, extent, extent], "images": images}
    return json.dumps(found).encode()


def test_a_sample_is_drawn_and_none_is_none() -> None:
    _, figure = described(sample_json=sampled(ENTRIES))
    assert figure is not None
    assert described() == (None, None)


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("images_json", b"{}", "/images.json: .*this field is missing"),
        ("sample_json", b"squares", "/sample.json: .*not valid JSON"),
        ("sample_json", sampled([]), "found none"),
        ("sample_json", sampled([{"label": 0, "pixels": "00"}]), r"images\[0\]: found 1 values"),
        ("sample_json", sampled([{"label": 0, "pixels": "zz"}], 1), "found non-hexadecimal"),
        ("sample_json", sampled([{"label": 30, "pixels": "00"}], 1), r"images\[0\]: found"),
    ],
)
def test_a_broken_file_is_one_sentence(file: str, content: bytes, words: str) -> None:
    with pytest.raises(RecordError, match=words) as caught:
        described(**{file: content})
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("restore the file with git, or run the experiment again.")
