"""The pins, which people write by hand, and what messages say of the content of any data file."""

from __future__ import annotations

from pathlib import Path

import pytest

from report.engine.gather import read_pins
from report.errors import RecordError
from report.records.strict import read_strictly


def pins(folder: Path, text: str) -> Path:
    (folder / "pins.yaml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("text", ["", "# nothing pinned\n", "conv_scaling: []\n"])
def test_no_pins(text: str, tmp_path: Path) -> None:
    assert read_pins(pins(tmp_path, text)).get("conv_scaling", ()) == ()


def test_without_the_file_nothing_is_pinned(tmp_path: Path) -> None:
    assert read_pins(tmp_path) == {}


def test_pins_are_read(tmp_path: Path) -> None:
    found = read_pins(pins(tmp_path, "conv_scaling: [conv_scaling/a.json, conv_scaling/b.json]"))
    assert found == {"conv_scaling": ("conv_scaling/a.json", "conv_scaling/b.json")}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("conv_scaling: a.json", "line 1, conv_scaling: expected array, found"),
        ("conv_scaling: []\nconv_profiling:\n- 2026", "line 3, conv_profiling[0]: expected str"),
        ("- conv_scaling", "line 1, the top level: expected object"),
        ("conv_scaling: [1]", "expected str"),
        ("conv_scaling: [a.json\n", "not valid YAML"),
        ("conv_scalling: [a.json]", "conv_scalling: found a name that is no study"),
    ],
)
def test_bad_pins_are_refused(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(RecordError) as caught:
        read_pins(pins(tmp_path, text))
    message = str(caught.value)
    assert "pins.yaml: " in message
    assert words in message
    assert "\n" not in message
    assert "conv_scaling" in message.rpartition("; ")[2]


def test_a_file_that_is_not_there_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"x\.json: cannot be read \(No such file.*\); mend it\."):
        read_strictly(tmp_path / "x.json", int, "JSON", "mend it", tmp_path)


def test_long_values_are_shortened_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a": "' + "q" * 500 + '"}', encoding="utf-8")
    with pytest.raises(RecordError) as caught:
        read_strictly(path, dict[str, int], "JSON", "mend it", tmp_path)
    assert len(str(caught.value)) < 200
