"""Records: what is written is read again."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.records.filed import encode, parse
from report.records.quantities import LARGEST, SHORTEST_S, Quantity
from report.records.record import Case, Round, Shard
from tests import factory
from tests.test_refusals import CASE, RECORD

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
        times = st.one_of(st.floats(1e-9, 1e9), st.integers(1, 10**12).map(lambda n: n / 1e9))
        measured = {"time": draw(st.lists(times, max_size=3)), "cpu_time": draw(st.lists(times))}
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
    assert encode(again) == encode(record)
    # Cases of the same layers share them.
    assert len({id(case.layers) for case in again.cases}) == len({c.layers for c in again.cases})


def test_a_round_a_layer_and_a_ceiling_stand_in_one_line_each() -> None:
    lines = [line.strip().rstrip(",") for line in encode(RECORD).decode().splitlines()]
    alone = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    rounds = GOOD["cases"][-1]["rounds"]
    for part in (*rounds, *GOOD["cases"][:-1], *GOOD["layers"], *GOOD["ceilings"]):
        assert part in alone, part


def test_layers_stand_once_whatever_the_batch() -> None:
    assert GOOD["networks"] == [[["conv2", 0]]]
    (only,) = GOOD["layers"]
    assert (only["input_shape"][0], only["output_shape"][0]) == (1, 1)
    assert [case["layers"] for case in GOOD["cases"]] == [
        [0, batch] for batch in (1, 4, 16, 64, 1, 4, 16, 64, 2)
    ]


@pytest.mark.parametrize(
    ("samples", "unit", "written"),
    [
        ((0.003008995, 1e-9, 0), "ns", [3008995, 1, 0]),
        ((0.1 + 0.2,), "s", [0.1 + 0.2]),
        ((1e-9, 1.5e-9), "s", [1e-9, 1.5e-9]),
        ((1e9,), "s", [1e9]),
    ],
)
def test_whole_nanoseconds_are_written_so_where_not_a_bit_is_lost(
    samples: tuple[float, ...], unit: str, written: list[float]
) -> None:
    record = factory.record([factory.case(1, time=samples)])
    document = json.loads(encode(record))
    assert (document["units"]["time"], document["cases"][0]["series"]["time"]) == (unit, written)
    assert parse(encode(record), PLACE).cases[0].samples("time") == samples


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
