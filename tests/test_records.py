"""Reading records: every kind of fault stops with file, field, what was found and what to do."""

from __future__ import annotations

import copy
import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import RecordError
from report.records import filed as records
from report.records.filed import content_hash, encode, file_hash, parse
from report.records.quantities import LARGEST, SHORTEST_S, Quantity
from report.records.record import Case, Record
from report.records.schema import SCHEMA_FILE, record_schema, schema_text
from report.records.store import read_record
from tests import factory

OLD_RECORDS = Path(__file__).parent / "records"
GOOD: dict[str, Any] = json.loads(encode(factory.record()))
PLACE = "data/conv_scaling/x.json"


def messages(text: bytes) -> str:
    with pytest.raises(RecordError) as caught:
        parse(text, PLACE)
    return str(caught.value)


def assert_sentence(message: str) -> None:
    """File first, one sentence, a remedy at its end."""
    assert message.startswith(f"{PLACE}: ")
    assert "\n" not in message
    assert message.endswith(".")
    assert ". " not in message
    assert "; " in message
    remedy = message.rpartition("; ")[2]
    assert any(word in remedy for word in ("restore", "run the experiment", "update ridgepoint"))


def change(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def apply(document: dict[str, Any]) -> None:
        *above, last = path
        part: Any = document
        for step in above:
            part = part[step]
        part[last] = to

    return apply


def drop(*path: str | int) -> Callable[[dict[str, Any]], None]:
    def apply(document: dict[str, Any]) -> None:
        *above, last = path
        part: Any = document
        for step in above:
            part = part[step]
        del part[last]

    return apply


TIME = ("cases", 0, "series", 0)
BEFORE = ("cases", 0, "series", 1)

#: name: (what is done to a good record, the field named, what the message says was found)
FAULTS: dict[str, tuple[Callable[[dict[str, Any]], None], str, str]] = {
    "unknown field": (change("remark", to=1), "remark", "unknown field"),
    "unknown field inside": (change("code", "tool", to=1), "code.tool", "unknown field"),
    "missing field": (drop("study"), "study", "missing"),
    "missing field inside": (drop("cases", 2, "status"), "cases[2].status", "missing"),
    "wrong type": (change("protocol", "seed", to="0"), "protocol.seed", 'found "0"'),
    "null where none is": (change("study", to=None), "study", "found null"),
    "text for samples": (change(*TIME, "samples", 1, to="1"), "samples[1]", 'found "1"'),
    "object for a list": (change("cases", to={}), "cases", "found an object"),
    "negative time": (change(*TIME, "samples", 3, to=-1e-3), "series[0].samples[3]", "-0.001"),
    "negative bytes": (change(*BEFORE, "samples", 0, to=-1), "series[1].samples[0]", "found -1"),
    "half a byte": (change(*BEFORE, "samples", 2, to=0.5), "series[1].samples[2]", "found 0.5"),
    "wrong unit": (change(*TIME, "unit", to="ms"), "cases[0].series[0].unit", "found 'ms'"),
    "unknown quantity": (
        change(*TIME, "quantity", to="duration"),
        "cases[0].series[0].quantity",
        "found 'duration'",
    ),
    "quantity twice": (
        lambda d: d["cases"][1]["series"].append(d["cases"][1]["series"][0]),
        "cases[1].series",
        "quantity time twice",
    ),
    "factors twice": (
        change("cases", 3, "factors", to=GOOD["cases"][1]["factors"]),
        "cases[3].factors",
        "same combination as in cases[1]",
    ),
    "factors twice, as a float": (
        change("cases", 3, "factors", to={**GOOD["cases"][1]["factors"], "batch": 4.0}),
        "cases[3].factors",
        "same combination as in cases[1]",
    ),
    "ok with a reason": (change("cases", 0, "reason", to="no"), "cases[0].reason", "found 'no'"),
    "failed without": (change("cases", 0, "status", to="failed"), "cases[0].reason", "found null"),
    "unknown status": (change("cases", 0, "status", to="fine"), "cases[0].status", "'fine'"),
    "unknown layer": (
        change("cases", 0, "layers", 0, "type", to="conv3d"),
        "cases[0].layers[0]",
        "'conv3d'",
    ),
    "empty shape": (change("cases", 0, "layers", 0, "input_shape", to=[]), "input_shape", ">= 1"),
    "cuda without gpu": (
        change("environment", "device", to="cuda"),
        "environment.gpu",
        "found null, which does not fit device 'cuda'",
    ),
    "no threads": (change("environment", "threads", to=0), "environment.threads", "found 0"),
    "negative load": (
        change("environment", "load_after", to=-1.0),
        "environment.load_after",
        "found -1.0",
    ),
    "ceiling of no time": (
        change("ceilings", 1, "samples", 0, to=0),
        "ceilings[1].samples[0]",
        "found 0",
    ),
    "no such day": (change("started", to="2026-02-30T00:00:00Z"), "started", "2026-02-30"),
    "local time": (change("started", to="2026-02-03T00:00:00+01:00"), "started", "+01:00"),
    "ends before it begins": (
        change("finished", to="2026-01-01T00:00:00Z"),
        "finished",
        "found 2026-01-01",
    ),
    "version missing": (drop("schema"), "schema", "version is unknown"),
    "version as text": (change("schema", to="1"), "schema", 'found "1"'),
    "version as truth": (change("schema", to=True), "schema", "found true"),
    "version too old": (change("schema", to=0), "schema", "found version 0, older than 1"),
    "version too new": (change("schema", to=99), "schema", "found version 99, newer than 1"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_told_in_one_sentence(name: str) -> None:
    fault, field, found = FAULTS[name]
    document = copy.deepcopy(GOOD)
    fault(document)
    message = messages(json.dumps(document).encode())
    assert_sentence(message)
    assert field in message
    assert found in message.removeprefix(PLACE)


def test_the_three_version_faults_say_what_to_do() -> None:
    def said(schema: Any) -> str:
        document = {**GOOD, "schema": schema}
        return messages(json.dumps({k: v for k, v in document.items() if v is not None}).encode())

    assert "run the experiment again" in said(0)
    assert "update ridgepoint" in said(2)
    assert "restore the file with git" in said(None)


def lines(text: bytes) -> list[bytes]:
    return text.splitlines(keepends=True)


TEXT = encode(factory.record())
SEED_LINE = next(i for i, line in enumerate(lines(TEXT), start=1) if b'"seed"' in line)


@pytest.mark.parametrize(
    ("text", "line", "field", "found"),
    [
        (TEXT.replace(b'"seed": 0', b'"seed": NaN'), SEED_LINE, "protocol.seed", "NaN"),
        (TEXT.replace(b'"seed": 0', b'"seed": -Infinity'), SEED_LINE, "protocol.seed", "-Infinity"),
        (TEXT.replace(b'"seed": 0', b'"seed": Infinity'), SEED_LINE, "protocol.seed", "Infinity"),
        (TEXT.replace(b'"seed": 0', b'"seed": '), SEED_LINE, "protocol.seed", "found ,"),
        (b"".join(lines(TEXT)[: SEED_LINE - 1]), SEED_LINE, "protocol", "the end of the file"),
        (b"", 1, "the top level", "the end of the file"),
        (b"\n", 2, "the top level", "the end of the file"),
        (b"<html>", 1, "the top level", "<html>"),
        (b"\xff\xfe" + TEXT, 1, "the top level", "0xff, which is not UTF-8"),
        (TEXT.replace(b"a clock", b"a cl\xf6ck"), None, "protocol.timer", "0xf6"),
        (TEXT + b"\n}", TEXT.count(b"\n") + 2, "the top level", "found }"),
        (b'{"schema": 1, "study": "a\nb"}', 1, "study", "the byte 0x0a"),
    ],
)
def test_what_is_not_json_is_told_with_its_line(
    text: bytes, line: int | None, field: str, found: str
) -> None:
    message = messages(text)
    assert_sentence(message)
    assert f"{field}: not valid JSON: " in message
    assert found in message
    if line is not None:
        assert f"line {line}, " in message


def test_nan_deep_in_a_case_is_told_with_its_whole_path() -> None:
    document = copy.deepcopy(GOOD)
    document["cases"][2]["series"][1]["samples"][2] = float("nan")
    message = messages(json.dumps(document, indent=1).encode())
    assert "cases[2].series[1].samples[2]: not valid JSON: found NaN" in message


def test_braces_and_escapes_in_text_do_not_mislead() -> None:
    text = TEXT.replace(b'"a clock"', rb'"a \" { [ , : clock"').replace(
        b'"cases": [', b'"cases": ?'
    )
    assert "cases: not valid JSON: found ?" in messages(text)


def test_other_json_is_refused() -> None:
    assert "the top level: expected object, found a list of 0" in messages(b"[]")
    assert "the top level: expected object, found null" in messages(b"null")


@given(start=st.integers(0, len(TEXT) - 1), cut=st.integers(0, 40), junk=st.binary(max_size=6))
def test_no_damage_escapes_as_an_internal_error(start: int, cut: int, junk: bytes) -> None:
    damaged = TEXT[:start] + junk + TEXT[start + cut :]
    try:
        record = parse(damaged, PLACE)
    except RecordError as error:
        assert_sentence(str(error))
    else:
        assert parse(encode(record), PLACE) == record


@given(
    json_text=st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
    ).map(json.dumps)
)
def test_other_json_never_escapes_either(json_text: str) -> None:
    assert_sentence(messages(json_text.encode()))


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"schema":' * 100_000])
def test_endless_nesting_is_refused(text: bytes) -> None:
    message = messages(text)
    assert_sentence(message)
    assert "the top level" in message


def test_a_number_beyond_the_range_is_refused() -> None:
    message = messages(TEXT.replace(b'"load_before": 0.1', b'"load_before": 1e999'))
    assert "environment.load_before: number out of range" in message


def test_a_record_survives_writing_and_reading() -> None:
    record = factory.record()
    assert parse(encode(record), PLACE) == record


def test_every_status_but_ok_may_have_no_samples() -> None:
    cases = [
        factory.case(1, status="out_of_memory", reason="Memory ran out."),
        factory.case(2, status="unavailable", reason="No GPU."),
        factory.case(4, status="failed", reason="It broke."),
    ]
    record = factory.record(cases)
    assert parse(encode(record), PLACE).cases == tuple(cases)


def test_samples_of_a_case() -> None:
    case = factory.case(1, time=(1.0, 2.0))
    assert case.samples("time") == (1.0, 2.0)
    assert case.samples("cpu_time") == ()


# ----------------------------------------------------------------------------------- migration


@pytest.mark.parametrize("path", sorted(OLD_RECORDS.glob("v*/*.json")), ids=lambda p: p.parent.name)
def test_records_of_every_version_stay_readable(path: Path) -> None:
    record = parse(path.read_bytes(), path.name)
    assert isinstance(record, Record)
    assert record.study == "conv_scaling"
    assert any(case.status == "ok" for case in record.cases)


def test_there_is_an_old_record_of_every_version() -> None:
    versions = {int(path.parent.name[1:]) for path in OLD_RECORDS.glob("v*/*.json")}
    assert versions == set(range(1, records.SCHEMA_VERSION + 1))


def old_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two older versions: -1 had no timer, 0 called the study «experiment»."""

    def from_minus_one(data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "protocol": {**data["protocol"], "timer": "not recorded"}}

    def from_zero(data: dict[str, Any]) -> dict[str, Any]:
        renamed = {**data, "schema": 1, "study": data["experiment"]}
        del renamed["experiment"]
        return renamed

    monkeypatch.setattr(records, "MIGRATIONS", {-1: from_minus_one, 0: from_zero})


def old_document(version: int) -> dict[str, Any]:
    document = {**copy.deepcopy(GOOD), "schema": version, "experiment": GOOD["study"]}
    del document["study"]
    if version == -1:
        del document["protocol"]["timer"]
    return document


@pytest.mark.parametrize(("version", "timer"), [(0, "a clock"), (-1, "not recorded")])
def test_older_records_climb_the_ladder(
    version: int, timer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_ladder(monkeypatch)
    record = parse(json.dumps(old_document(version)).encode(), PLACE)
    assert (record.schema, record.study, record.protocol.timer) == (1, "conv_scaling", timer)


def test_below_the_ladder_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    old_ladder(monkeypatch)
    message = messages(json.dumps({**GOOD, "schema": -2}).encode())
    assert "found version -2, older than -1" in message


def test_a_damaged_old_record_is_refused_while_it_climbs(monkeypatch: pytest.MonkeyPatch) -> None:
    old_ladder(monkeypatch)
    document = old_document(0)
    del document["experiment"]
    message = messages(json.dumps(document).encode())
    assert_sentence(message)
    assert "'experiment'" in message
    assert "schema version 0" in message


def test_a_migrated_record_is_checked_like_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    old_ladder(monkeypatch)
    document = old_document(0)
    document["cases"][0]["series"][0]["samples"][0] = -1
    assert "cases[0].series[0].samples[0]" in messages(json.dumps(document).encode())
    document = old_document(0)
    document["protocol"]["seed"] = None
    assert "protocol.seed: expected int, found null" in messages(json.dumps(document).encode())


# ---------------------------------------------------------------------------------------- hash


def test_the_hash_changes_with_any_value_and_not_with_the_layout() -> None:
    record = factory.record()
    again = parse(json.dumps(GOOD, indent=7, sort_keys=True).encode(), PLACE)
    assert content_hash(again) == content_hash(record)
    document = copy.deepcopy(GOOD)
    document["cases"][0]["series"][0]["samples"][0] *= 1.000001
    assert content_hash(parse(json.dumps(document).encode(), PLACE)) != content_hash(record)


# -------------------------------------------------------------------------------------- schema


def test_the_published_schema_is_that_of_the_code() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), (
        "run: python -m report.records.schema"
    )


VALIDATOR = jsonschema.Draft202012Validator(record_schema())


def test_the_published_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(record_schema())
    assert all("description" in part for part in record_schema()["$defs"].values())


@pytest.mark.parametrize("path", sorted(OLD_RECORDS.glob(f"v{records.SCHEMA_VERSION}/*.json")))
def test_the_schema_accepts_real_records(path: Path) -> None:
    assert list(VALIDATOR.iter_errors(json.loads(path.read_bytes()))) == []


def test_the_schema_accepts_what_the_reader_accepts() -> None:
    gpu = factory.record(machine=factory.environment(gpu=factory.GPU))
    lost = factory.record([factory.case(1, status="failed", reason="It broke.")])
    for record in (factory.record(), gpu, lost):
        assert list(VALIDATOR.iter_errors(json.loads(encode(record)))) == []


#: What one part cannot say of another.
BEYOND_A_SCHEMA = {
    "quantity twice",
    "factors twice",
    "factors twice, as a float",
    "ceiling of no time",
    "negative load",
    "no such day",
    "ends before it begins",
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_schema_refuses_what_the_reader_refuses(name: str) -> None:
    document = copy.deepcopy(GOOD)
    FAULTS[name][0](document)
    assert (name in BEYOND_A_SCHEMA) == VALIDATOR.is_valid(document)


# ----------------------------------------------------------------------------- name and folder


def test_a_record_in_the_wrong_folder_is_refused(tmp_path: Path) -> None:
    record = factory.record()
    folder = tmp_path / "data" / "roofline"
    folder.mkdir(parents=True)
    path = folder / f"20261101T100000Z-example-2t-{content_hash(record)}.json"
    path.write_bytes(encode(record))
    with pytest.raises(RecordError) as caught:
        read_record(path, tmp_path / "data")
    message = str(caught.value)
    assert message.startswith(f"data/roofline/{path.name}: study: found 'conv_scaling'")
    assert "move the file to the folder of its study" in message


@pytest.mark.parametrize("name", ["x.json", "20261101T100000Z-a.json", "notes.json"])
def test_a_bad_file_name_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "data" / "conv_scaling" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(encode(factory.record()))
    with pytest.raises(RecordError) as caught:
        read_record(path, tmp_path / "data")
    message = str(caught.value)
    assert message.startswith(f"data/conv_scaling/{name}: found a name")
    assert "give the file its name back" in message


def test_parts_are_immutable() -> None:
    case: Case = factory.case(1)
    with pytest.raises(AttributeError):
        case.status = "failed"  # type: ignore[misc]


# ---------------------------------------------------------------------------------- reading fast


def test_no_part_of_a_record_is_searched_for_cycles() -> None:
    """Else the search goes through all cases again and again while they are read."""
    record = factory.record()
    case = record.cases[0]
    for part in (record, record.environment, case, case.series[0], case.layers[0]):
        assert not gc.is_tracked(part)


def test_the_hash_of_a_file_is_that_of_its_content() -> None:
    record = factory.record()
    assert file_hash(encode(record) + b"\n") == file_hash(encode(record)) == content_hash(record)
    compact = json.dumps(json.loads(encode(record)), separators=(",", ":")).encode()
    assert file_hash(compact.replace(b'"seed":0', b'"seed":1')) != content_hash(record)


@given(st.lists(st.one_of(st.integers(-5, 5), st.floats()), max_size=6), st.booleans())
def test_admitted_are_finite_numbers_of_the_range(samples: list[float], signed: bool) -> None:
    quantity = Quantity("s", "a duration", signed=signed)
    sound = -LARGEST <= sum(samples) <= LARGEST and all(
        -LARGEST <= s <= LARGEST and (signed or s == 0 or s >= SHORTEST_S) for s in samples
    )
    assert quantity.admits(tuple(samples)) == sound


@given(st.lists(st.one_of(st.integers(-5, 5), st.just(1.0)), max_size=4))
def test_whole_numbers_are_integers(samples: list[int]) -> None:
    quantity = Quantity("B", "bytes", whole=True)
    sound = all(type(sample) is int and sample >= 0 for sample in samples)
    assert quantity.admits(tuple(samples)) == sound
