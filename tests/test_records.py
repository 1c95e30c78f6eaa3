"""Records: what is written is read again."""

from __future__ import annotations

import copy
import json
import re
from typing import Any, get_args

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from report.records.filed import encode, parse
from report.records.layers import ELEMENT_BYTES, DType
from report.records.quantities import FIXED, QUANTITIES
from report.records.record import Case, Round, Shard
from tests import factory
from tests.test_refusals import CASE, RECORD

PLACE = "data/conv_scaling/x.json"
GOOD: dict[str, Any] = json.loads(encode(RECORD))


def in_rounds(**change: Any) -> Case:
    """A case that two processes measured; ``change`` is that of the second one's round."""
    first, second = CASE.rounds
    return msgspec.structs.replace(CASE, rounds=(first, msgspec.structs.replace(second, **change)))


#: Layers of one network at several batches, of several networks, and of different batches in one.
LAYERS = st.lists(st.builds(factory.layer, st.integers(1, 3), st.sampled_from("ab")), max_size=3)
OUTCOMES = st.sampled_from([("ok", None), ("failed", "It broke."), ("unavailable", "No GPU.")])
TIMES = st.lists(st.floats(1e-9, 1e9) | st.integers(1, 10**12).map(lambda n: n / 1e9), max_size=3)
POLICIES = st.sampled_from([None, "default", "retained", "jemalloc"])


@st.composite
def rounds(draw: st.DrawFn) -> tuple[Round, ...]:
    keys = st.lists(st.tuples(st.integers(1, 3), POLICIES), max_size=3, unique=True)
    found = []
    for process, policy in draw(keys):
        status, reason = draw(OUTCOMES)
        noise = draw(st.sampled_from([None, "Another program ran."]))
        outcome = {"status": status, "reason": reason, "disturbance": noise}
        found.append(factory.round_(process, {"time": draw(TIMES)}, policy=policy, **outcome))
    return tuple(found)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(LAYERS.map(tuple), OUTCOMES, rounds()), max_size=4),
    st.sampled_from([None, Shard(number=2, of=4, sweep="a" * 64)]),
    st.text(max_size=4) | st.sampled_from(['a "name"', "a\\b", "a\nb"]),
)
def test_a_record_survives_writing_and_reading(
    parts: list[Any], shard: Shard | None, name: str
) -> None:
    cases = [
        msgspec.structs.replace(
            factory.case(number, status=status, reason=reason, layers=layers),
            rounds=measured,
            factors={"batch": number, name: "x"},
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


def test_whole_nanoseconds_are_read_as_the_nearest_seconds() -> None:
    """In cases, rounds and ceilings of earlier files; other quantities stay what they are."""
    document = copy.deepcopy(GOOD)
    document["units"]["time"] = document["ceilings"][0]["unit"] = "ns"
    document["ceilings"][0]["samples"] = [3008995, 1]
    document["cases"][0]["series"] = {"time": [0, 1, 3008995, 2**53], "allocated_peak": [7]}
    document["cases"][8]["rounds"][0]["series"] = {"time": [5 * 10**8]}
    document["cases"] = [document["cases"][0], document["cases"][8]]
    record = parse(json.dumps(document).encode(), PLACE)
    assert record.ceilings[0].samples == (0.003008995, 1e-9)
    first, second = record.cases
    assert first.series == {"time": (0, 1e-9, 0.003008995, 2**53 / 1e9), "allocated_peak": (7,)}
    assert second.rounds[0].series == {"time": (0.5,)}
    again = json.loads(encode(record))
    assert again["units"]["time"] == "s"
    assert parse(encode(record), PLACE) == record


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


# ------------------------------------------------------------------------------------- quantities

#: A number → the quantities among four that admit it: a duration, a share, a count, a difference.
ADMITTED: dict[float, str] = {
    0: "time train_accuracy page_faults memory_events",
    1: "time train_accuracy page_faults memory_events",
    2**63 - 1: "time train_accuracy page_faults memory_events",
    0.5: "time train_accuracy",
    1e-12: "time train_accuracy",
    0.99e-12: "train_accuracy",
    -1: "memory_events",
    -0.5: "",
}


def test_what_a_quantity_admits() -> None:
    for number, admitting in ADMITTED.items():
        names = ["time", "train_accuracy", "page_faults", "memory_events"]
        alone = [name for name in names if QUANTITIES[name].admits((number,))]
        among = [name for name in names if QUANTITIES[name].admits((1, number, 2))]
        assert alone == among == admitting.split(), number
    assert all(quantity.admits(()) for quantity in QUANTITIES.values())
    assert not QUANTITIES["page_faults"].admits((True,))
    assert not QUANTITIES["page_faults"].admits((1.0,))


def test_the_table_of_quantities_says_unit_sign_and_kind() -> None:
    expected = {
        "time": ("s", False, False), "page_faults": ("1", False, True),
        "memory_events": ("B", True, True), "device_temperature": ("°C", True, False),
        "lackey_multiply_adds": ("MAC", False, True), "ncu_cuda_core_flops": ("FLOP", False, True),
        "image_rate": ("1/s", False, False), "device_clock": ("Hz", False, False),
    }  # fmt: skip
    found = {name: QUANTITIES[name] for name in expected}
    assert {n: (q.unit, q.signed, q.whole) for n, q in found.items()} == expected
    assert not any(quantity.meaning.startswith("whole") for quantity in QUANTITIES.values())
    assert QUANTITIES["block_bytes"].meaning.endswith("in order, then that of its result")
    assert {"allocated_peak", "requested_after", "ncu_fp32_additions"} < FIXED < QUANTITIES.keys()
    assert not FIXED & {"reserved_peak", "time", "ncu_dram_bytes", "lackey_multiply_adds_base"}


def test_elements_have_the_bytes_of_their_type() -> None:
    bits = {name: int(re.sub(r"\D", "", name)) for name in get_args(DType)}
    assert {name: 8 * ELEMENT_BYTES[name] for name in bits} == bits
