"""Whatever stands in a file under ``data/``: one sentence that names it, or a right paper."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml

from figures.characters import visible
from figures.panels import Points, Scaling
from report.commands.check import read_expected
from report.engine.computing import compute, compute_usable
from report.engine.gather import gather
from report.engine.task import write_json
from report.errors import LONGEST, RecordError, RenderError, RidgepointError, StudyError
from report.evidence.devices import read_devices
from report.evidence.reported import read_reported
from report.instruments.counters.logs import unpack
from report.instruments.memory_timeline import highest_bytes
from report.instruments.trace import read_trace
from report.records import files as reading
from report.records.editions import read_editions
from report.records.filed import encode, parse, parse_head
from report.records.record import Record
from report.records.store import (
    list_imports,
    name_of,
    record_name,
    write_record,
)
from report.records.strict import SyntaxFaultError, converted, parse_yaml
from report.render.shell import script_of
from report.render.source import read_source
from report.studies import STUDIES
from tests import factory, fuzz
from tests.small import small

Fault = Callable[[Any], Any]
HUGE, MANY, LONG = 10**309, 10**6, "x" * 10**5
DATA = factory.ROOT / "data"


def at(*path: str | int, do: Callable[[Any, Any], object]) -> Fault:
    """What ``do`` does with the part that holds a path, and its last step."""

    def apply(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        do(document, path[-1])

    return apply


def change(*path: str | int, to: Any) -> Fault:
    """Another value at a path."""
    return at(*path, do=lambda part, last: part.__setitem__(last, to))


def drop(*path: str | int) -> Fault:
    """Nothing at a path."""
    return at(*path, do=lambda part, last: part.__delitem__(last))


def again(*path: str | int) -> Fault:
    """The first member of a list once more at its end."""
    return at(*path, do=lambda part, last: part[last].append(copy.deepcopy(part[last][0])))


CASE = msgspec.structs.replace(
    factory.case(2, subject="example"),
    rounds=(
        factory.round_(1, {"time": (0.5, 0.25)}, policy="default"),
        factory.round_(2, {"time": (0.75,)}),
    ),
)
RECORD = factory.record([*factory.layer_cases(), CASE])
TEXT = encode(RECORD)


class Kind(NamedTuple):
    """A kind of file: a good one, how it is written, where it lies, and how it is read."""

    good: Callable[[], Any]
    write: Callable[[Any], str]
    name: str
    read: Callable[[Path], Any]


KINDS = {
    "record": Kind(
        lambda: json.loads(TEXT), json.dumps, "x.json", lambda p: parse(p.read_bytes(), "data/x")
    ),
    "reported": Kind(
        lambda: json.loads((DATA / "reported" / "conv_scaling.json").read_bytes()),
        json.dumps, "reported/conv_scaling.json", read_reported,
    ),
    "devices": Kind(
        lambda: yaml.safe_load((DATA / "devices.yaml").read_text("utf-8")),
        yaml.safe_dump, "devices.yaml", read_devices,
    ),
    "editions": Kind(
        lambda: {"conv_scaling": {"roles": {"cpu": "a", "gpu": ["conv_scaling/a.json"]}}},
        yaml.safe_dump, "editions.yaml", lambda path: read_editions(path.parent, STUDIES),
    ),
}  # fmt: skip


class Refusal(NamedTuple):
    """What is done to a good file, the place that is named, and a word of what is wrong."""

    kind: str
    fault: Fault
    place: str
    word: str


TIME, BEFORE = ("cases", 0, "series", "time"), ("cases", 0, "series", "allocated_before")
ROUNDS, IN_ROUNDS = ("cases", 8, "rounds"), "cases[8].rounds"
LAYER = ("layers", 0)
FACTORS = json.loads(TEXT)["cases"][1]["factors"]
HEADS = ("study", "protocol", "schema", "started")
FIRST, PEAK = ("tables", 0), ("devices", 0, "peaks", 0)
SHARD = {"number": 1, "of": 2, "sweep": "0" * 64}
LOGS = {"name": "lackey.json.gz", "sha256": "0" * 64, "meaning": "logs"}
REFUSALS: tuple[Refusal, ...] = tuple(Refusal(*row) for row in (
    ("record", change("remark", to=1), "remark", "unknown field"),
    ("record", drop("study"), "study", "missing"),
    ("record", drop("cases", 2, "factors"), "cases[2].factors", "missing"),
    ("record", change("protocol", "seed", to="0"), "protocol.seed", 'found "0"'),
    ("record", change(*TIME, 1, to="1"), "series.time[1]", 'found "1"'),
    ("record", change("cases", to={}), "cases", "found an object"),
    ("record", change(*TIME, 3, to=-1e-3), "series.time[3]", "-0.001"),
    ("record", change(*TIME, 0, to=1e300), "series.time[0]", "float <="),
    ("record", change(*TIME, 0, to=1e-300), "time[0]", "at least 1e-12"),
    ("record", change(*BEFORE, 0, to=-1), "series.allocated_before[0]", "found -1"),
    ("record", change(*BEFORE, 2, to=0.5), "allocated_before[2]", "found 0.5"),
    ("record", change("units", "time", to="ms"), "units.time", "found 'ms'"),
    ("record", change("units", "allocated_before", to="ns"), "units.allocated_before", "'ns'"),
    ("record", change("units", "duration", to="s"), "units.duration", "no quantity"),
    ("record", drop("units", "time"), "units.time", "missing"),
    ("record", change("cases", 3, "factors", to=FACTORS), "cases[3].factors", "cases[1]"),
    ("record", change("cases", 3, "factors", to={**FACTORS, "batch": 4.0}),
     "cases[3].factors", "cases[1]"),
    ("record", change("cases", 0, "factors", "pass", to=LONG), "factors.pass", "<= 200"),
    ("record", change("cases", 0, "factors", LONG, to=1), "cases[0].factors", "200"),
    ("record", change("cases", 0, "reason", to="no"), "cases[0].reason", "found 'no'"),
    ("record", change("cases", 0, "status", to="failed"), "cases[0].reason", "found null"),
    ("record", change("cases", 0, "status", to="fine"), "cases[0].status", "'fine'"),
    ("record", change(*LAYER, "type", to="conv3d"), "layers[0]", "'conv3d'"),
    ("record", change(*LAYER, "input_shape", to=[]), "input_shape", ">= 1"),
    ("record", change(*LAYER, "kernel", to=[MANY, 3]), "layers[0].kernel", "4096"),
    ("record", change("cases", 1, "layers", 0, to=1), "cases[1].layers", "network 1"),
    ("record", change("networks", 0, 0, 1, to=5), "networks[0]", "found layer 5"),
    ("record", change(*LAYER, "input_shape", 0, to=2), "cases[1].layers", "one image"),
    ("record", change(*ROUNDS, 0, "process", to=MANY), f"{IN_ROUNDS}[0].process", "10000"),
    ("record", again(*ROUNDS), IN_ROUNDS, "same process twice"),
    ("record", change(*ROUNDS, 1, "policy", to="lazy"), f"{IN_ROUNDS}[1].policy", "lazy"),
    ("record", change(*ROUNDS, 1, "status", to="failed"), f"{IN_ROUNDS}[1].reason", "null"),
    ("record", drop(*ROUNDS, 0, "policy"), f"{IN_ROUNDS}[0].policy", "missing"),
    ("record", change(*ROUNDS, 0, "disturbance", to=LONG), "[0].disturbance", "2000"),
    ("record", change(*ROUNDS, 0, "series", "time", 1, to=-1), "[0].series.time[1]", "-1"),
    ("record", change("environment", "device", to="cuda"), "environment.gpu", "found null"),
    ("record", change("environment", "memory_bytes", to=HUGE), "memory_bytes", "int <="),
    ("record", change("environment", "cpu", "model", to=LONG), "cpu.model", "<= 200"),
    ("record", change("environment", "load_after", to=-1.0), "load_after", "found -1.0"),
    ("record", change("ceilings", 1, "samples", 0, to=0), "ceilings[1].samples[0]", "0"),
    ("record", change("ceilings", 0, "work", to=HUGE), "ceilings[0].work", "int <="),
    ("record", change("protocol", "processes", to={"retained": MANY}), "processes", "10000"),
    ("record", change("shard", to={**SHARD, "number": 3}), "shard.number", "at most 2"),
    ("record", change("started", to="2026-13-01T00:00:00Z"), "started", "regex"),
    ("record", change("started", to="2026-02-03T00:00:00+01:00"), "started", "regex"),
    ("record", change("finished", to="2026-01-01T00:00:00Z"), "finished", "2026-01-01"),
    *(("record", change("attachments", to=[{**LOGS, "name": name}]), "attachments[0].name", "regex")
      for name in ("../x", ".hidden", "a/b", "")),
    ("record", change("attachments", to=[LOGS, LOGS]), "attachments", "lackey.json.gz twice"),
    ("record", drop("schema"), "schema", "missing"),
    ("record", change("schema", to="1"), "schema", 'found "1"'),
    ("record", change("schema", to=3), "schema", "version 3, older than 4"),
    ("record", change("schema", to=99), "schema", "version 99, newer than 4"),
    ("reported", change("remark", to="x"), "remark", "unknown field"),
    ("reported", change("source", to="Goyal 2024"), "source", "regex"),
    ("reported", change("study", to="conv_profiling"), "study", "'conv_profiling'"),
    ("reported", again("tables"), "tables", "'I' stands twice"),
    ("reported", again("values"), "values", "'kernel_height' stands twice"),
    ("reported", change(*FIRST, "columns", 1, "key", to="batch"), "tables[0].columns", "'batch'"),
    ("reported", change(*FIRST, "columns", 1, "decimals", to=None), "columns[1]", "null"),
    ("reported", change(*FIRST, "rows", 2, to=[64]), "tables[0].rows[2]", "2 cells, found 1"),
    ("reported", change(*FIRST, "rows", 0, 1, to="339,738,624"), "rows[0][1]", "'339,7"),
    ("reported", change("tables", 6, "rows", 0, 0, to=1), "tables[6].rows[0][0]", "text"),
    ("reported", change(*FIRST, "rows", 0, 1, to=None), "tables[0].rows[0][1]", "null"),
    ("reported", change(*FIRST, "rows", 0, 1, to=True), "tables[0].rows[0][1]", "found true"),
    ("reported", change(*FIRST, "rows", 0, 1, to={"missing": ""}), "rows[0][1].missing", "length"),
    ("reported", change(*FIRST, "rows", 0, 1, to=0.5), "rows[0][1]", "found 0.5"),
    ("reported", change("values", 16, "number", to=0.519), "values[16].number", "0.519"),
    ("devices", change("devices", 0, "colour", to="green"), "devices[0]", "unknown field"),
    ("devices", change("devices", 0, "key", to="X 1"), "devices[0].key", "regex"),
    ("devices", change("devices", 0, "matches", to=[3090]), "matches[0]", "found 3090"),
    ("devices", again("devices"), "devices", "twice"),
    ("devices", again("devices", 0, "peaks"), "devices[0].peaks", "stands twice"),
    ("devices", change(*PEAK, "unit", to="GB/s"), "peaks[0].unit", "GB/s"),
    ("devices", change(*PEAK, "value", to=0), "peaks[0].value", "> 0"),
    ("devices", change(*PEAK, "value", to="0o17"), "peaks[0].value", "expected float, found"),
    ("devices", change(*PEAK, "value", to=1e300), "peaks[0].value", "1.0e+300"),
    ("editions", change("conv_scaling", to="a.json"), "line 1: conv_scaling", "expected object"),
    ("editions", change("conv_scaling", "roles", "gpu", to=2026), "conv_scaling.roles.gpu", "2026"),
    ("editions", change("conv_scaling", "roles", "gpus", to="a"), "roles", "'gpus'"),
    ("editions", drop("conv_scaling", "roles", "cpu"), "conv_scaling.roles", "cpu is missing"),
    ("editions", change("conv_scaling", "data", to="2026"), "conv_scaling.data", "unknown field"),
    ("editions", change("conv_scalling", to={"roles": {"cpu": "a"}}), "conv_scalling", "no study"),
))  # fmt: skip


def assert_sentence(error: Exception, begin: str = "") -> str:
    """The message: one line that begins with its file and has a remedy at its end."""
    message = str(error)
    assert message.startswith(begin)
    assert "data/" in message.partition(": ")[0]
    assert "; " in message
    assert len(message) <= LONGEST
    assert message.isprintable()
    return message


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: f"{row.kind} {row.place} {row.word}"[:50])
def test_a_fault_is_named_with_its_place(row: Refusal, tmp_path: Path) -> None:
    kind = KINDS[row.kind]
    path, document = tmp_path / "data" / kind.name, kind.good()
    path.parent.mkdir(parents=True)
    path.write_text(kind.write(document))
    kind.read(path)
    row.fault(document)
    path.write_text(kind.write(document))
    with pytest.raises(RecordError) as caught:
        kind.read(path)
    message = assert_sentence(caught.value)
    assert row.place in message
    assert row.word in message
    # What a list of records reads of each is refused as well, by the types that it has.
    if row.kind == "record" and row.place.partition(".")[0] in HEADS:
        with pytest.raises(RecordError) as caught:
            parse_head(path.read_bytes(), "data/x")
        assert str(caught.value) == message


@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_no_attack_goes_wrong(kind: str, tmp_path: Path) -> None:
    for seed in range(8):
        assert fuzz.wrong(kind, Random(f"{kind} {seed}"), tmp_path / str(seed)) == "", seed


# ------------------------------------------------------------------------ what is no JSON, no YAML

SEED = b'"seed": 0'


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        (SEED, b'"seed": NaN', "not valid JSON"),
        (SEED, b'"seed": 1e400', "out of range"),
        (SEED, b'"seed": ' + b"9" * 5000, "out of range"),
        (SEED, b'"seed": 0, "seed": 7', "the field seed twice"),
        (SEED, rb'"seed": 0, "\u0073eed": 0', "the field seed twice"),
        (b'"batch": 1,', b'"batch": 1, "batch": 1,', "the field batch twice"),
        (b'"schema": 4', b'"schema": ' + b"9" * 5000, "out of range"),
        (b'"study"', b'"\xf6study"', "line 3: found the byte 0xf6, which is not UTF-8"),
        (TEXT, b"", "not valid JSON"),
        (TEXT, TEXT.partition(b'"seed"')[0], "not valid JSON"),
        (TEXT, TEXT + b"\n}", "not valid JSON: trailing"),
        (TEXT, b"\xff\xfe" + TEXT, "line 1: "),
        (TEXT, b"[]", "the top level: expected object, found a list of 0"),
        (TEXT, b"[" * 100_000, "data/x.json"),
    ],
    ids=lambda value: value[:30].decode("latin-1") if isinstance(value, bytes) else value,
)
def test_what_is_no_json_or_contradicts_itself_is_named(old: bytes, new: bytes, word: str) -> None:
    assert old in TEXT
    with pytest.raises(RecordError) as caught:
        parse(TEXT.replace(old, new, 1), "data/x.json")
    assert word in assert_sentence(caught.value, "data/x.json: ")


YAML: tuple[tuple[str, int, str], ...] = (
    ("a: 1\nb:\n  c: 2\n  c: 3", 4, "the key c twice"),
    ("a: 1\nb: &a [x, x]\nc: [*a, *a]", 3, "the alias *a"),
    ("- &a [*a]", 1, "the alias *a"),
    ("a: !!binary aGk=", 1, "the tag tag:yaml.org,2002:binary"),
    ("- !!python/object/apply:os.system [x]", 1, "the tag tag:yaml.org,2002:python"),
    ("a: 1\nb: !!str 5", 2, "the tag tag:yaml.org,2002:str"),
    ("a: ! 5", 1, "the tag !"),
    ("a: 1\n!!str b: 2", 2, "the tag tag:yaml.org,2002:str"),
    ("a:\n\tb: 1", 2, "cannot start any token"),
    ("a: 1\n---\nb: 2", 2, "another document"),
    ("? [a]\n: 1", 1, "a key that is no text"),
    ('a: "\\ud800"', 1, "no character"),
    ('"\\ud800": a', 1, "no character"),
    ('a: "\\Uffffffff"', 1, "no character"),
    ("a: 1\nb: \x07", 2, "the character U+0007"),
    ("[" * 600, 1, "nested without end"),
    ("x" * 300_000, 1, "found 300,000 characters"),
)
YAML_READERS: dict[str, Callable[[Path], Any]] = {
    "editions.yaml": lambda path: read_editions(path.parent),
    "devices.yaml": read_devices,
    "expected.yaml": lambda path: read_expected(path.parent),
    "paper.qmd": lambda path: read_source(path.parent, path.stem),
}


@pytest.mark.parametrize(("text", "line", "word"), YAML, ids=lambda value: str(value)[:30])
def test_yaml_that_can_harm_is_refused(text: str, line: int, word: str, tmp_path: Path) -> None:
    with pytest.raises(SyntaxFaultError) as caught:
        parse_yaml(text)
    assert caught.value.line == line
    assert word in caught.value.what
    for name, reader in YAML_READERS.items():
        (tmp_path / name).write_text(f"---\n{text}\n---\n" if name.endswith("qmd") else text)
        with pytest.raises((RecordError, RenderError)) as error:
            reader(tmp_path / name)
        assert name in str(error.value)
        assert len(str(error.value)) <= LONGEST


TEXTS = (
    "2001-99-99", "2001-01-01", "12:30:00", "1:30", "0o17", "017", "0x1f", "0b1", "yes", "No", "on",
    "OFF", "~", "Null", "TRUE", "False", ".inf", "-.INF", ".nan", "1_000", "+1", ".5", "1.", "1e",
    "1e400", "9" * 5000, "<<",
)  # fmt: skip


def test_what_yaml_alone_takes_for_something_else_is_text() -> None:
    for text in TEXTS:
        assert parse_yaml(f"a: {text}")[0] == {"a": text}
    assert parse_yaml("12: a\ntrue: b\n<<: c")[0] == {"12": "a", "true": "b", "<<": "c"}
    numbers = {"0": 0, "-12": -12, "1.50": 1.5, "1e5": 1e5, "-2.5E-3": -0.0025}
    for text, number in numbers.items():
        assert parse_yaml(f"[{text}, '{text}']")[0] == [number, text]
    content, _ = parse_yaml("\ufeffa:\n  - {b: null, 'c d': [true]}\n  - |\n    two\n    lines\n")
    assert content == {"a": [{"b": None, "c d": [True]}, "two\nlines\n"]}


FAULTS_IN_LINES = {
    b"conv_scaling:\n  roles:\n    cpu: a\n    gpu: 5\n": "line 4: conv_scaling.roles.gpu: ",
    b"conv_scaling:\n  compared: [a,\n    b, 5]\n": "line 3: conv_scaling.compared[2]: ",
    b"a:\n  roles: {cpu: a}\nb:\n  compared: []\n  colour: x\n": "line 5: b.colour: ",
    b"\xef\xbb\xbfa:\n  roles:\n    cpu: \xf6\n": "line 3: found the byte 0xf6",
}


@pytest.mark.parametrize("text", FAULTS_IN_LINES)
def test_a_fault_in_yaml_is_named_by_its_line(text: bytes, tmp_path: Path) -> None:
    tmp_path = tmp_path / "data"
    tmp_path.mkdir()
    (tmp_path / "editions.yaml").write_bytes(text)
    with pytest.raises(RecordError) as caught:
        read_editions(tmp_path)
    assert f"/editions.yaml: {FAULTS_IN_LINES[text]}" in assert_sentence(caught.value)


def test_the_search_for_a_fault_leaves_the_content_as_it_is() -> None:
    content: Any = {"a": {"k": 1}, "b": {"k": 1, "l": "x", "m": 2}, "c": {"k": 3}}
    before = copy.deepcopy(content)
    with pytest.raises(RecordError, match=r'^data/x: b\.l: expected int, found "x"; y\.$'):
        converted(content, dict[str, dict[str, int]], "data/x", "y")
    assert content == before


def test_an_empty_file_names_no_edition(tmp_path: Path) -> None:
    assert read_editions(tmp_path) == {}
    for text in ("", "# nothing named\n"):
        (tmp_path / "editions.yaml").write_text(text)
        assert read_editions(tmp_path) == {}


# ---------------------------------------------------------------------------- what is packed

PACKED: dict[str, Callable[[bytes, str], Any]] = {
    "trace": read_trace,
    "timeline": highest_bytes,
    "logs": lambda content, place: unpack(content, "lackey", place),
}


@pytest.mark.parametrize("name", PACKED)
def test_what_unpacks_to_too_much_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST_UNPACKED", 1000)
    with pytest.raises(RecordError, match=r"x\.gz: .*found more than 1,000 B\); "):
        PACKED[name](gzip.compress(bytes(1001)), "x.gz")


# --------------------------------------------------------------- what no study can compute from


def refiled(record: Record, data: Path, fault: Fault) -> str:
    """Write a changed record under the name that fits its content; the file."""
    document = json.loads(encode(record))
    fault(document)
    text = json.dumps(document).encode()
    path = data / record.study / name_of(text, record)
    path.parent.mkdir(exist_ok=True)
    factory.file_record(path, text)
    return path.relative_to(data).as_posix()


ONE = "conv_scaling"
IMPOSSIBLE: tuple[tuple[str, Fault, str], ...] = (
    (ONE, change(*LAYER, "input_shape", to=[1, 32, HUGE, 26]), "layer conv2"),
    (ONE, change(*LAYER, "output_shape", to=[1, 64]), "layer conv2"),
    (ONE, change(*LAYER, "padding", to=[10**30] * 2), "layer conv2"),
    (ONE, change("cases", 0, "layers", 1, to=HUGE), "layer conv2"),
    *(
        (ONE, change("cases", 0, "factors", "batch", to=level), "batch")
        for level in ("64", True, 1.5, -1, 0, 10**18 * 100)
    ),
    ("backend_speedup", change("cases", 0, "factors", "samples", to=10**20), "samples"),
)  # fmt: skip


@pytest.mark.parametrize(("study", "fault", "word"), IMPOSSIBLE)
def test_a_case_that_no_study_can_compute_from_is_named(
    study: str, fault: Fault, word: str, tmp_path: Path
) -> None:
    data = factory.data_folder(tmp_path)
    file = refiled(small(study), data, fault)
    with pytest.raises(RidgepointError) as caught:
        compute(study, gather(study, data))
    message = assert_sentence(caught.value, f"data/{file}: ")
    assert "cases[" in message
    assert word in message


def swapped(document: Any) -> None:
    """Two cases of inference_memory have each other's factors."""
    one, other = document["cases"][6], document["cases"][1]
    one["factors"], other["factors"] = other["factors"], one["factors"]


def test_a_record_that_a_study_fails_with_is_left_out(tmp_path: Path) -> None:
    study = "inference_memory"
    whole = small(study)
    good = msgspec.structs.replace(
        whole,
        started="2026-10-01T10:00:00Z",
        environment=msgspec.structs.replace(whole.environment, key="another-machine"),
    )
    data = factory.data_folder(tmp_path)
    write_record(good, data)
    expected = compute_usable(study, data)[1].as_json(study, ())
    bad = refiled(whole, data, swapped)
    chosen, findings = compute_usable(study, data)
    (notice,) = (each for each in chosen.notices if each.startswith("left out: "))
    assert notice.startswith(f"left out: data/{bad.removesuffix('.zip')}")
    assert [item.file for item in chosen.inputs.records] == [f"{study}/{record_name(good)}"]
    assert findings.as_json(study, ()) == expected


def test_a_single_record_that_a_study_fails_with_is_named(tmp_path: Path) -> None:
    data = factory.data_folder(tmp_path)
    bad = refiled(small("inference_memory"), data, swapped)
    with pytest.raises(RidgepointError, match=bad) as caught:
        compute_usable("inference_memory", data)
    assert "--debug" not in str(caught.value)


def test_a_cut_import_beside_whole_ones_is_left_out(tmp_path: Path) -> None:
    data, study = factory.data_folder(tmp_path), "gpu_survey"
    (data / study / "imported").mkdir(parents=True)
    for path in sorted((DATA / study / "imported").glob("*.zip"))[:2]:
        (data / study / "imported" / path.name).write_bytes(path.read_bytes())
    first = list_imports(study, data)[0].file
    (data / first).write_bytes((data / first).read_bytes()[:5000])
    chosen, _ = compute_usable(study, data)
    assert any(each.startswith(f"left out: data/{first}: ") for each in chosen.notices)
    assert len(chosen.inputs.imported) == 1


@pytest.mark.parametrize(
    ("study", "table", "rows"),
    [(ONE, "III", "5"), ("training_roofline", "cores", "2")],
)
def test_a_row_of_the_source_that_is_gone_is_named(
    study: str, table: str, rows: str, tmp_path: Path
) -> None:
    path = factory.data_folder(tmp_path) / "reported" / f"{study}.json"
    document = json.loads(path.read_bytes())
    del next(t for t in document["tables"] if t["id"] == table)["rows"][-1]
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(StudyError, match=rf"^data/reported/{study}\.json: .*{rows} rows"):
        compute(study, gather(study, tmp_path / "data"))


# ---------------------------------------------------------------------------------- what is shown

HIDDEN = "a\u202eb\x1b[31m\x07"


def test_every_character_of_data_can_be_seen(tmp_path: Path) -> None:
    content = {HIDDEN: [HIDDEN, (HIDDEN, 1, None)]}
    write_json(content, tmp_path / "x.json")
    for text in (script_of("x", content), (tmp_path / "x.json").read_text("utf-8")):
        assert visible(text) == text
        assert "\\u001b" not in text
        assert text.count("‹U+202E›") == 3


@pytest.mark.parametrize("text", [LONG * 100, HIDDEN, "a\ud800b", "a\nb\r\tc", "\u202e" * 10**6])
def test_a_message_is_one_short_printable_line(text: str) -> None:
    message = assert_sentence(RecordError(f"data/x.json: found {text}; restore it."), "data/x.json")
    assert message.endswith("; restore it.")
    lines = str(RenderError("\n".join(["one", "y" * 500, *"abc"] * 30))).splitlines()
    assert (max(map(len, lines)), len(lines)) == (LONGEST, 20)


def test_of_thousands_of_levels_a_few_are_named_on_an_axis() -> None:
    from matplotlib.figure import Figure as Canvas

    points = Points("all", tuple(map(float, range(1, 5001))), (1.0,) * 5000)
    axes = Canvas().subplots()
    Scaling("x", "y", (points,), x_ticks=points.x).draw(axes)
    assert 10 < len(axes.get_xticks()) <= 25
