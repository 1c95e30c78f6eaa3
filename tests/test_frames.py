"""Records as frames: one row a sample, nothing lost, nothing made up."""

from __future__ import annotations

import csv
import io

import msgspec

from report.records.frames import sample_frame, write_samples
from tests import factory

ROUNDS = (
    factory.round_(1, {"time": (0.5, 0.25)}),
    factory.round_(2, {"time": (0.75,)}, policy="default"),
)
CASES = (
    msgspec.structs.replace(factory.case(8, memory={"allocated_peak": (7,)}), rounds=ROUNDS),
    factory.case(16, status="out_of_memory", reason="Memory ran out."),
)
STORED = (
    factory.stored(factory.record(factory.layer_cases((1, 4)))),
    factory.stored(factory.record(CASES, factory.environment("other-1t"))),
)


def test_each_row_says_what_where_and_in_which_unit() -> None:
    frame = sample_frame(STORED)
    assert frame.iloc[-1].to_dict() == {
        "batch": 8, "layout": "contiguous", "pass": "forward", "subject": "layer",
        "file": STORED[1].file, "device": "other-1t", "case": 0, "quantity": "time", "unit": "s",
        "process": 2, "policy": "default", "repetition": 0, "value": 0.75,
    }  # fmt: skip
    last = (
        frame[["process", "policy", "repetition", "value"]]
        .iloc[-4:]
        .astype(object)
        .fillna("")
        .values.tolist()
    )
    assert last[:3] == [["", "", 0, 7], [1, "retained", 0, 0.5], [1, "retained", 1, 0.25]]


def test_every_sample_stands_once() -> None:
    cases = [case for stored in STORED for case in stored.record.cases]
    samples = [x for case in cases for s in case.all_series for found in s.values() for x in found]
    assert list(sample_frame(STORED)["value"]) == samples


def test_cells_of_the_csv_are_as_in_the_record() -> None:
    odd = {"batch": 8, "name": 'a "b", c', "flag": True}
    cases = [
        msgspec.structs.replace(factory.case(8, time=(0.5,)), factors=odd),
        factory.case(4, time=(0.25,)),
    ]
    stream = io.StringIO()
    write_samples((factory.stored(factory.record(cases)),), stream)
    first, *rows = csv.DictReader(stream.getvalue().splitlines())
    assert {name: first[name] for name in (*odd, "value", "policy")} == {
        "batch": "8", "name": 'a "b", c', "flag": "True", "value": "0.5", "policy": "",
    }  # fmt: skip
    assert {row["batch"] for row in rows} == {"4"}
