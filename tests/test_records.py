"""Reading records: every kind of fault stops with file, field, what was found and what to do."""

from __future__ import annotations

import copy
import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import RecordError
from report.records import filed as records
from report.records.filed import content_hash, encode, file_hash, parse
from report.records.quantities import LARGEST, SHORTEST_S, Quantity
from report.records.record import Case, Record, Round
from report.records.schema import SCHEMA_FILE, record_schema, schema_text
from report.records.store import read_record
from tests import factory

OLD_RECORDS = Path(__file__).parent / "records"


def in_rounds(**change: Any) -> Case:
    """A case that two processes measured; ``change`` is that of the second one's round."""
    case = factory.case(2, subject="example")
    first = factory.round_(1, {"time": (0.5, 0.25)}, policy="default")
    return msgspec.structs.replace(
        case, rounds=(first, factory.round_(2, {"time": (0.75,)}, **change))
    )


RECORD = factory.record([*factory.layer_cases(), in_rounds()])
GOOD: dict[str, Any] = json.loads(encode(RECORD))
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


def found_at(document: dict[str, Any], path: tuple[str | int, ...]) -> tuple[Any, str | int]:
    """The part that holds what ``path`` leads to, and its key there."""
    *above, last = path
    part: Any = document
    for step in above:
        part = part[step]
    return part, last


def change(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def apply(document: dict[str, Any]) -> None:
        part, last = found_at(document, path)
        part[last] = to

    return apply


def drop(*path: str | int) -> Callable[[dict[str, Any]], None]:
    def apply(document: dict[str, Any]) -> None:
        part, last = found_at(document, path)
        del part[last]

    return apply


TIME = ("cases", 0, "series", 0)
BEFORE = ("cases", 0, "series", 1)
ROUNDS = ("cases", len(GOOD["cases"]) - 1, "rounds")
IN_ROUNDS = f"cases[{ROUNDS[1]}].rounds"

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
        change("networks", 0, 0, "type", to="conv3d"),
        "networks[0][0]",
        "'conv3d'",
    ),
    "empty shape": (change("networks", 0, 0, "input_shape", to=[]), "input_shape", ">= 1"),
    "empty network": (change("networks", 0, to=[]), "networks[0]", "found a list of 0"),
    "layers of no network": (
        change("cases", 1, "layers", "network", to=1),
        "cases[1].layers.network",
        "found 1, but the record has 1 networks",
    ),
    "negative network": (change("cases", 1, "layers", "network", to=-1), "network", "found -1"),
    "layers of no images": (change("cases", 1, "layers", "batch", to=0), "layers.batch", "found 0"),
    "images of a network that has its own": (
        change("networks", 0, 0, "input_shape", 0, to=2),
        "cases[1].layers.batch",
        "found 4, but the layers of networks[0] are not those of one image",
    ),
    "negative process": (
        change(*ROUNDS, 0, "process", to=-1),
        f"{IN_ROUNDS}[0].process",
        "found -1",
    ),
    "process twice": (
        lambda d: d["cases"][-1]["rounds"].append(d["cases"][-1]["rounds"][0]),
        IN_ROUNDS,
        "same process twice",
    ),
    "unknown policy": (change(*ROUNDS, 1, "policy", to="lazy"), f"{IN_ROUNDS}[1].policy", "lazy"),
    "round ok with a reason": (
        change(*ROUNDS, 1, "reason", to="no"),
        f"{IN_ROUNDS}[1].reason",
        "found 'no'",
    ),
    "round failed without": (
        change(*ROUNDS, 1, "status", to="failed"),
        f"{IN_ROUNDS}[1].reason",
        "found null",
    ),
    "round without disturbance": (
        drop(*ROUNDS, 0, "disturbance"),
        f"{IN_ROUNDS}[0].disturbance",
        "missing",
    ),
    "long disturbance": (
        change(*ROUNDS, 0, "disturbance", to="x" * 3000),
        f"{IN_ROUNDS}[0].disturbance",
        "found 3000",
    ),
    "negative time of a round": (
        change(*ROUNDS, 0, "series", 0, "samples", 1, to=-1),
        f"{IN_ROUNDS}[0].series[0].samples[1]",
        "found -1",
    ),
    "wrong unit in a round": (
        change(*ROUNDS, 0, "series", 0, "unit", to="ms"),
        f"{IN_ROUNDS}[0].series[0].unit",
        "found 'ms'",
    ),
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
    "version too new": (change("schema", to=99), "schema", "found version 99, newer than 3"),
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
    assert "update ridgepoint" in said(4)
    assert "restore the file with git" in said(None)


def lines(text: bytes) -> list[bytes]:
    return text.splitlines(keepends=True)


TEXT = encode(RECORD)
SEED_LINE = next(i for i, line in enumerate(lines(TEXT), start=1) if b'"seed"' in line)


@pytest.mark.parametrize(
    ("text", "line", "field", "found"),
    [
        (TEXT.replace(b'"seed": 0', b'"seed": NaN'), SEED_LINE, "protocol.seed", "NaN"),
        (TEXT.replace(b'"seed": 0', b'"seed": -Infinity'), SEED_LINE, "protocol.seed", "-Infinity"),
        (TEXT.replace(b'"seed": 0', b'"seed": Infinity'), SEED_LINE, "protocol.seed", "Infinity"),
        (TEXT.replace(b'"seed": 0', b'"seed": '), SEED_LINE, "protocol.seed", "found ,"),
        (TEXT.partition(b'"seed"')[0], SEED_LINE, "protocol", "the end of the file"),
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


#: Layers of one network at several batches, of several networks, and of different batches in one.
LAYERS = st.lists(st.builds(factory.layer, st.integers(1, 3), st.sampled_from("ab")), max_size=3)
OUTCOMES = st.sampled_from([("ok", None), ("failed", "It broke."), ("unavailable", "No GPU.")])


@st.composite
def rounds(draw: st.DrawFn) -> tuple[Round, ...]:
    policies = st.sampled_from([None, "default", "retained", "jemalloc"])
    keys = st.lists(st.tuples(st.integers(1, 3), policies), max_size=3, unique=True)
    found = []
    for process, policy in draw(keys):
        status, reason = draw(OUTCOMES)
        measured = {"time": draw(st.lists(st.floats(1e-9, 1e9), max_size=3))}
        noise = draw(st.sampled_from([None, "Another program ran."]))
        outcome = {"status": status, "reason": reason, "disturbance": noise}
        found.append(factory.round_(process, measured, policy=policy, **outcome))
    return tuple(found)


@given(st.lists(st.tuples(LAYERS.map(tuple), OUTCOMES, rounds()), max_size=5))
def test_a_record_survives_writing_and_reading(parts: list[Any]) -> None:
    cases = [
        msgspec.structs.replace(
            factory.case(number, status=status, reason=reason, layers=layers), rounds=measured
        )
        for number, (layers, (status, reason), measured) in enumerate(parts, start=1)
    ]
    record = factory.record(cases)
    again = parse(encode(record), PLACE)
    assert again == record
    assert content_hash(again) == content_hash(record)
    # Cases of the same layers share them.
    assert len({id(case.layers) for case in again.cases}) == len({c.layers for c in again.cases})


def test_a_series_a_layer_and_a_ceiling_stand_in_one_line_each() -> None:
    found = [line.decode().strip().rstrip(",") for line in lines(TEXT)]
    alone = [json.loads(line) for line in found if line.startswith("{") and line.endswith("}")]
    series = [s for case in GOOD["cases"] for s in case["series"]]
    series += [s for one in GOOD["cases"][-1]["rounds"] for s in one["series"]]
    parts = [*series, *(layer for network in GOOD["networks"] for layer in network)]
    for part in (*parts, *GOOD["ceilings"]):
        assert part in alone, part


def test_layers_stand_once_whatever_the_batch() -> None:
    (network,) = GOOD["networks"]
    (only,) = network
    assert (only["input_shape"][0], only["output_shape"][0]) == (1, 1)
    assert [case["layers"]["batch"] for case in GOOD["cases"]] == [1, 4, 16, 64] * 2 + [2]


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


def test_samples_of_a_case_are_those_of_its_rounds_under_the_policy() -> None:
    case = in_rounds()
    assert case.samples("time") == (0.75,)
    assert case.samples("time", "default") == (0.5, 0.25)
    assert case.samples("time", "jemalloc") == ()


def test_samples_under_the_only_policy_stand_for_those_under_any() -> None:
    assert in_rounds(policy="default").samples("time", "jemalloc") == (0.5, 0.25, 0.75)


@pytest.mark.parametrize(
    "change",
    [{"status": "failed", "reason": "It broke."}, {"disturbance": "Another program ran."}],
)
def test_a_failed_or_disturbed_round_is_left_out_where_there_are_others(
    change: dict[str, Any],
) -> None:
    assert in_rounds(policy="default", **change).samples("time", "default") == (0.5, 0.25)


def test_disturbed_rounds_are_taken_where_there_are_no_others() -> None:
    assert in_rounds(disturbance="Another program ran.").samples("time") == (0.75,)


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


def test_the_old_record_of_every_version_is_the_same_one() -> None:
    first, *others = (
        parse(path.read_bytes(), path.name) for path in sorted(OLD_RECORDS.glob("v*/*.json"))
    )
    assert all(other == first for other in others)


def old_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two older versions: 0 had no timer, 1 called the study «experiment»."""

    def from_zero(data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "protocol": {**data["protocol"], "timer": "not recorded"}}

    def from_one(data: dict[str, Any]) -> dict[str, Any]:
        renamed = {**data, "schema": 2, "study": data["experiment"]}
        del renamed["experiment"]
        return renamed

    monkeypatch.setattr(records, "MIGRATIONS", {**records.MIGRATIONS, 0: from_zero, 1: from_one})


def old_document(version: int) -> dict[str, Any]:
    document = {**copy.deepcopy(GOOD), "schema": version, "experiment": GOOD["study"]}
    del document["study"]
    if version == 0:
        del document["protocol"]["timer"]
    return document


@pytest.mark.parametrize(("version", "timer"), [(1, "a clock"), (0, "not recorded")])
def test_older_records_climb_the_ladder(
    version: int, timer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_ladder(monkeypatch)
    record = parse(json.dumps(old_document(version)).encode(), PLACE)
    assert (record.schema, record.study, record.protocol.timer) == (3, "conv_scaling", timer)


def test_below_the_ladder_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    old_ladder(monkeypatch)
    message = messages(json.dumps({**GOOD, "schema": -1}).encode())
    assert "found version -1, older than 0" in message


def test_a_damaged_old_record_is_refused_while_it_climbs(monkeypatch: pytest.MonkeyPatch) -> None:
    old_ladder(monkeypatch)
    document = old_document(1)
    del document["experiment"]
    message = messages(json.dumps(document).encode())
    assert_sentence(message)
    assert "'experiment'" in message
    assert "schema version 1" in message


def test_a_migrated_record_is_checked_like_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    old_ladder(monkeypatch)
    document = old_document(1)
    document["cases"][0]["series"][0]["samples"][0] = -1
    assert "cases[0].series[0].samples[0]" in messages(json.dumps(document).encode())
    document = old_document(1)
    document["protocol"]["seed"] = None
    assert "protocol.seed: expected int, found null" in messages(json.dumps(document).encode())


def version_1(*statuses: str) -> dict[str, Any]:
    """A case of version 1 for each process with its outcome, and one that names no process."""

    def case(factors: dict[str, Any], status: str) -> dict[str, Any]:
        ok, series = status == "ok", factory.series("time", [0.5 + len(factors)] * 2)
        return {
            "factors": {"subject": "layer", **factors},
            "status": status,
            "reason": None if ok else "It broke.",
            "layers": [msgspec.to_builtins(factory.layer(4))] if ok else [],
            "series": [msgspec.to_builtins(series)] if ok else [],
        }

    parts = [case({"batch": 4, "process": i}, status) for i, status in enumerate(statuses, 1)]
    document = {**copy.deepcopy(GOOD), "schema": 1, "cases": [case({}, "ok"), *parts]}
    del document["networks"]
    return document


def read(document: dict[str, Any]) -> Record:
    return parse(json.dumps(document).encode(), PLACE)


def test_processes_of_version_1_become_rounds_with_the_same_samples() -> None:
    document = version_1("ok", "ok", "ok")
    for number, case in enumerate(document["cases"]):
        case["series"][0]["samples"] = [0.5 + number, 0.25]
    single, case = read(document).cases
    assert (single.samples("time"), single.rounds) == ((0.5, 0.25), ())
    assert (case.factors, case.series) == ({"subject": "layer", "batch": 4}, ())
    assert [(r.process, r.policy, r.samples("time")) for r in case.rounds] == [
        (1, None, (1.5, 0.25)),
        (2, None, (2.5, 0.25)),
        (3, None, (3.5, 0.25)),
    ]
    assert case.samples("time") == (1.5, 0.25, 2.5, 0.25, 3.5, 0.25)
    assert case.layers == single.layers == (factory.layer(4),)


@pytest.mark.parametrize("statuses", [("failed", "ok"), ("ok", "failed")])
def test_a_case_of_version_1_is_ok_if_one_of_its_processes_was(statuses: tuple[str, ...]) -> None:
    case = read(version_1(*statuses)).cases[1]
    assert (case.status, case.reason, case.layers) == ("ok", None, (factory.layer(4),))
    assert tuple(found.status for found in case.rounds) == statuses
    assert len(case.samples("time")) == 2


def test_a_case_of_version_1_of_which_no_process_went_well_says_why() -> None:
    case = read(version_1("failed", "unavailable")).cases[1]
    assert (case.status, case.reason, case.layers) == ("failed", "It broke.", ())


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (change("cases", 1, "factors", "process", to=0), "cases[1].rounds[0].process"),
        (change("cases", 2, "factors", "process", to=1), "cases[1].rounds: found the same process"),
        (change("cases", 2, "layers", 0, "groups", to=2), "processes of a case ran other layers"),
        (change("cases", 2, "remark", to=1), "cases[1].rounds[1].remark: found an unknown field"),
        (change("cases", 0, "layers", 0, "input_shape", to=[]), "schema version 1"),
        (drop("cases", 2, "status"), "'status'"),
        (change("cases", to=None), "schema version 1"),
    ],
)
def test_a_record_of_version_1_is_read_as_strictly(
    fault: Callable[[dict[str, Any]], None], found: str
) -> None:
    document = version_1("ok", "ok")
    fault(document)
    message = messages(json.dumps(document).encode())
    assert_sentence(message)
    assert found in message


# ---------------------------------------------------------------------------------------- hash


def test_the_hash_changes_with_any_value_and_not_with_the_layout() -> None:
    again = parse(json.dumps(GOOD, indent=7, sort_keys=True).encode(), PLACE)
    assert content_hash(again) == content_hash(RECORD)
    document = copy.deepcopy(GOOD)
    document["cases"][0]["series"][0]["samples"][0] *= 1.000001
    assert content_hash(parse(json.dumps(document).encode(), PLACE)) != content_hash(RECORD)


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
    for record in (RECORD, gpu, lost):
        assert list(VALIDATOR.iter_errors(json.loads(encode(record)))) == []


#: What one part cannot say of another.
BEYOND_A_SCHEMA = {
    "quantity twice",
    "layers of no network",
    "images of a network that has its own",
    "process twice",
    "long disturbance",
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
    case, other = RECORD.cases[0], RECORD.cases[-1]
    for part in (RECORD, RECORD.environment, case, case.series[0], case.layers[0], other.rounds[0]):
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
