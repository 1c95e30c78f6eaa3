"""YAML as people write it: what looks like something else is text, what can harm is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from report.commands.check import read_expected
from report.engine.gather import read_pins
from report.errors import RecordError, RenderError
from report.evidence.devices import read_devices
from report.records.strict_yaml import YamlError, parse_yaml
from report.render.source import front_matter

TEXTS = (
    "2001-99-99", "2001-01-01", "12:30:00", "1:30", "0o17", "017", "0x1f", "0b1", "yes", "No", "on",
    "OFF", "~", "Null", "TRUE", "False", ".inf", "-.INF", ".nan", "1_000", "+1", ".5", "1.", "1e",
    "2026-11-22T10:00:00Z",
)  # fmt: skip
NUMBERS = {"0": 0, "-12": -12, "1.50": 1.5, "1e5": 1e5, "-2.5E-3": -0.0025, "9" * 18: 10**18 - 1}
BOMB = "a: &a [x, x]\n" + "".join(
    f"{two}: &{two} [{', '.join([f'*{one}'] * 9)}]\n"
    for one, two in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize("text", TEXTS)
def test_what_only_yaml_takes_for_something_else_is_text(text: str) -> None:
    assert parse_yaml(f"a: {text}\n{text}: b").content == {"a": text, text: "b"}


def test_numbers_are_those_of_json() -> None:
    for text, number in NUMBERS.items():
        assert parse_yaml(f"[{text}, '{text}']").content == [number, text]
    assert parse_yaml("[null, true, false]").content == [None, True, False]


def test_lists_mappings_and_blocks_are_read() -> None:
    document = parse_yaml("\ufeffa:\n  - {b: 1, 'c d': [2]}\n  - |\n    two\n    lines\n# end\n")
    assert document.content == {"a": [{"b": 1, "c d": [2]}, "two\nlines\n"]}
    assert document.lines[("a", "[1]")] == 3
    assert [parse_yaml(text).content for text in ("", "# nothing", "\n")] == [None] * 3


@pytest.mark.parametrize(
    ("text", "line", "path", "found"),
    [
        ("a: 1\nb:\n  c: 2\n  c: 3", 4, ("b", "c"), "this key twice"),
        ("a: &x 1\nb: *x", 1, ("a",), "the anchor &x"),
        ("a: 1\nb: *x", 2, ("b",), "the alias *x"),
        (BOMB, 1, ("a",), "the anchor &a"),
        ("a:\n  <<: {b: 1}", 2, ("a",), "a merge key <<"),
        ("a: !!binary aGk=", 1, ("a",), "the tag tag:yaml.org,2002:binary"),
        ("- !!python/object/apply:os.system [x]", 1, ("[0]",), "the tag tag:yaml.org,2002:python"),
        ("!!timestamp x: 1", 1, (), "the tag tag:yaml.org,2002:timestamp"),
        (f"a: {'9' * 5000}", 1, ("a",), "a number of 5000 digits"),
        ("a: 1e400", 1, ("a",), "a number out of range"),
        ("a:\n\tb: 1", 2, (), "found character '\\t' that cannot start any token"),
        ("a: 1\n---\nb: 2", 2, (), "a second document"),
        ("? [a]\n: 1", 1, (), "a key that is no text"),
        ('a: "\\ud800"', 1, ("a",), "half of a character"),
        ('a: "\\Uffffffff"', 1, (), "an escape or a version out of range"),
        ("a: 1\nb: \x07", 2, (), "the character U+0007"),
        ("[" * 100_000, 1, ("[0]",) * 3, "more than 16 levels"),
        ("- " * 100_000, 1, ("[0]",) * 3, "more than 16 levels"),
        ("{a: " * 60_000, 1, ("a",) * 3, "more than 16 levels"),
        ("x" * 300_000, 1, (), "found 300,000 characters"),
    ],
)  # fmt: skip
def test_what_can_harm_is_refused(text: str, line: int, path: tuple[str, ...], found: str) -> None:
    with pytest.raises(YamlError) as caught:
        parse_yaml(text)
    assert (caught.value.line, caught.value.path) == (line, path)
    assert found in caught.value.what


#: Each file that is YAML, with how it is read.
READERS = {
    "pins.yaml": lambda path: read_pins(path.parent),
    "devices.yaml": read_devices,
    "expected.yaml": lambda path: read_expected(path.parent),
    "paper.qmd": front_matter,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "content",
    [
        f"k: {'[' * 9000}".encode(), BOMB.encode(), b"conv_scaling: 1\nconv_scaling: 2",
        "k: ä".encode("utf-16"), b"k: !!binary x", b"<<: {a: 1}", b"k: \xff", b"\tk: 1",
    ],
)  # fmt: skip
def test_every_file_is_read_so(name: str, content: bytes, tmp_path: Path) -> None:
    text = b"---\n" + content + b"\n---\n" if name.endswith(".qmd") else content
    (tmp_path / name).write_bytes(text)
    with pytest.raises((RecordError, RenderError)) as caught:
        READERS[name](tmp_path / name)
    message = str(caught.value)
    assert re.search(
        rf"{re.escape(name)}:(\d+: .*| line \d+, .*| cannot be read| has no front matter)", message
    )
    assert len(message) <= 300
    assert "\n" not in message


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (
            "value: 15.7",
            "value: 0o17",
            "line 11, devices[0].peaks[0].value: expected float, found",
        ),
        ("value: 15.7", "value: .inf", 'value: expected float, found ".inf"'),
        ("value: 15.7", "value: 1e300", "devices[0].peaks[0].value: found 1e+300, which no device"),
        ("verified: true", "verified: yes", 'verified: expected bool, found "yes"'),
        ("key: v100-sxm2", "key: 2001-99-AB", "key: expected str matching"),
        ("matches: [V100-SXM2]", "matches: [3090]", "matches[0]: expected str, found 3090"),
    ],
)
def test_a_wrong_value_is_named_with_its_line(
    old: str, new: str, found: str, tmp_path: Path
) -> None:
    text = (Path(__file__).parents[1] / "data" / "devices.yaml").read_text("utf-8")
    assert old in text
    path = tmp_path / "devices.yaml"
    path.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(RecordError) as caught:
        read_devices(path)
    assert found in str(caught.value)
