"""Records: what is written is read again, of every version; what may stand in one is published."""

from __future__ import annotations

import copy
import gc
import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import RecordError
from report.records.filed import content_hash, encode, file_hash, parse
from report.records.quantities import LARGEST, SHORTEST_S, Quantity
from report.records.record import SCHEMA_VERSION, Case, Record, Round, Shard
from report.records.schema import SCHEMA_FILE, record_schema, schema_text
from tests import factory
from tests.test_refusals import CASE, RECORD, change

OLD_RECORDS = sorted((Path(__file__).parent / "records").glob("v*/*.json"))
PLACE = "data/conv_scaling/x.json"


def in_rounds(**change: Any) -> Case:
    """A case that two processes measured; ``change`` is that of the second one's round."""
    first, second = CASE.rounds
    return msgspec.structs.replace(CASE, rounds=(first, msgspec.structs.replace(second, **change)))


GOOD: dict[str, Any] = json.loads(encode(RECORD))


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


@given(
    st.lists(st.tuples(LAYERS.map(tuple), OUTCOMES, rounds()), max_size=5),
    st.sampled_from([None, Shard(number=2, of=4, sweep="a" * 64)]),
)
def test_a_record_survives_writing_and_reading(parts: list[Any], shard: Shard | None) -> None:
    cases = [
        msgspec.structs.replace(
            factory.case(number, status=status, reason=reason, layers=layers), rounds=measured
        )
        for number, (layers, (status, reason), measured) in enumerate(parts, start=1)
    ]
    record = msgspec.structs.replace(factory.record(cases), shard=shard)
    again = parse(encode(record), PLACE)
    assert again == record
    assert content_hash(again) == content_hash(record)
    # Cases of the same layers share them.
    assert len({id(case.layers) for case in again.cases}) == len({c.layers for c in again.cases})


def test_a_series_a_layer_and_a_ceiling_stand_in_one_line_each() -> None:
    found = [line.strip().rstrip(",") for line in encode(RECORD).decode().splitlines()]
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


def test_samples_of_a_case_are_those_of_its_rounds_under_the_policy() -> None:
    """Those of the only policy stand for any; failed and disturbed rounds give way to others."""
    case = in_rounds()
    assert [case.samples("time", p) for p in ("retained", "default", "jemalloc")] == [
        (0.75,), (0.5, 0.25), (),
    ]  # fmt: skip
    assert in_rounds(policy="default").samples("time", "jemalloc") == (0.5, 0.25, 0.75)
    for fault in ({"status": "failed", "reason": "It broke."}, {"disturbance": "Another ran."}):
        found = in_rounds(policy="default", **fault)
        assert found.samples("time", "default") == (0.5, 0.25)
    assert in_rounds(disturbance="Another program ran.").samples("time") == (0.75,)
    assert factory.case(1, time=(1.0, 2.0)).samples("cpu_time") == ()


# ----------------------------------------------------------------------------------- migration


def test_the_old_record_of_every_version_is_the_same_one() -> None:
    first, *others = (parse(path.read_bytes(), path.name) for path in OLD_RECORDS)
    assert all(other == first for other in others)
    assert len(OLD_RECORDS) == SCHEMA_VERSION
    assert any(case.status == "ok" for case in first.cases)


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
        (change("cases", to=None), "schema version 1"),
    ],
)
def test_a_record_of_version_1_is_read_as_strictly(fault: Any, found: str) -> None:
    document = version_1("ok", "ok")
    fault(document)
    with pytest.raises(RecordError, match="; restore the file") as caught:
        read(document)
    assert str(caught.value).startswith(PLACE)
    assert found in str(caught.value)


# ------------------------------------------------------------------------------ hash and schema


def test_the_hash_changes_with_any_value_and_not_with_the_layout() -> None:
    again = parse(json.dumps(GOOD, indent=7, sort_keys=True).encode(), PLACE)
    assert content_hash(again) == content_hash(RECORD)
    text = encode(RECORD)
    assert file_hash(text + b"\n") == file_hash(text) == content_hash(RECORD)
    document = copy.deepcopy(GOOD)
    document["cases"][0]["series"][0]["samples"][0] *= 1.000001
    assert content_hash(parse(json.dumps(document).encode(), PLACE)) != content_hash(RECORD)


def test_the_published_schema_is_that_of_the_code_and_accepts_what_is_written() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), (
        "run: python -m report.records.schema"
    )
    jsonschema.Draft202012Validator.check_schema(record_schema())
    assert all("description" in part for part in record_schema()["$defs"].values())
    validator = jsonschema.Draft202012Validator(record_schema())
    gpu = factory.record(machine=factory.environment(gpu=factory.GPU))
    lost = factory.record([factory.case(1, status="failed", reason="It broke.")])
    texts = [encode(record) for record in (RECORD, gpu, lost)]
    for text in (*texts, OLD_RECORDS[-1].read_bytes()):
        assert list(validator.iter_errors(json.loads(text))) == []


def test_no_part_of_a_record_is_searched_for_cycles() -> None:
    """Else the search goes through all cases again and again while they are read."""
    case, other = RECORD.cases[0], RECORD.cases[-1]
    for part in (RECORD, RECORD.environment, case, case.series[0], case.layers[0], other.rounds[0]):
        assert not gc.is_tracked(part)


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
