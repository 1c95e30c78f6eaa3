"""Records as frames: one row a sample, nothing lost, nothing made up."""

from __future__ import annotations

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
ODD = msgspec.structs.replace(
    factory.case(8, time=(0.5, 1)), factors={"batch": 8, "name": 'a "b", c', "flag": True}
)
STORED = (
    factory.stored(factory.record(CASES, factory.environment("other-1t"))),
    factory.stored(factory.record([ODD])),
)
ONE, OTHER = (stored.file for stored in STORED)
SAMPLES = f"""\
batch,layout,pass,subject,file,device,case,process,policy,quantity,unit,name,flag,repetition,value
8,contiguous,forward,layer,{ONE},other-1t,0,,,allocated_peak,B,,,0,7
8,contiguous,forward,layer,{ONE},other-1t,0,1,retained,time,s,,,0,0.5
8,contiguous,forward,layer,{ONE},other-1t,0,1,retained,time,s,,,1,0.25
8,contiguous,forward,layer,{ONE},other-1t,0,2,default,time,s,,,0,0.75
8,,,,{OTHER},example-2t,0,,,time,s,"a ""b"", c",True,0,0.5
8,,,,{OTHER},example-2t,0,,,time,s,"a ""b"", c",True,1,1
"""


def test_each_row_says_what_where_and_in_which_unit() -> None:
    stream = io.StringIO()
    write_samples(STORED, stream)
    assert stream.getvalue() == SAMPLES
    frame = sample_frame(STORED)
    assert list(frame["value"]) == [7, 0.5, 0.25, 0.75, 0.5, 1]
    assert list(frame["batch"]) == [8] * 6
