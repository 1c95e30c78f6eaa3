"""Records as frames: one row a sample, nothing lost, nothing made up."""

from __future__ import annotations

import csv
import io

import msgspec

from report.records.frames import sample_frame, write_samples
from tests import factory

FIRST = factory.stored(factory.record(factory.layer_cases((1, 4))))
SECOND = factory.stored(
    factory.record(
        [
            factory.case(8, time=(0.5, 0.25)),
            factory.case(16, status="out_of_memory", reason="Memory ran out."),
        ],
        factory.environment("other-1t"),
    )
)


def test_each_row_says_what_where_and_in_which_unit() -> None:
    row = sample_frame((SECOND,)).iloc[1].dropna().to_dict()
    assert row == {
        "batch": 8,
        "layout": "contiguous",
        "pass": "forward",
        "subject": "layer",
        "file": SECOND.file,
        "device": "other-1t",
        "case": 0,
        "quantity": "time",
        "unit": "s",
        "repetition": 1,
        "value": 0.25,
    }


def test_samples_of_rounds_name_their_process_and_policy() -> None:
    rounds = (
        factory.round_(1, {"time": (0.5, 0.25)}),
        factory.round_(2, {"time": (0.75,)}, policy="default"),
    )
    case = msgspec.structs.replace(factory.case(8), rounds=rounds)
    frame = sample_frame((factory.stored(factory.record([case])),))
    assert frame[["process", "policy", "value"]].values.tolist() == [
        [1, "retained", 0.5],
        [1, "retained", 0.25],
        [2, "default", 0.75],
    ]


def test_every_sample_stands_once() -> None:
    frame = sample_frame((FIRST, SECOND))
    records = (FIRST.record, SECOND.record)
    series = [each for record in records for case in record.cases for each in case.all_series]
    assert list(frame["value"]) == [sample for _, samples in series for sample in samples]


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
