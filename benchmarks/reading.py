"""How long strict reading of records takes, as a ratio to plain JSON parsing in the same run.

``python -m benchmarks.reading [CASES]`` repeats the cases of the newest committed record until
there are CASES of them (10,000), and reads the text alternately with ``records.filed.parse``,
which checks everything, and with ``json.loads``, which checks nothing.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from itertools import count, cycle, islice
from typing import Any

import msgspec

from report.engine.pipeline import ROOT
from report.records.filed import encode, parse
from report.records.record import Record
from report.records.store import read_study

REPEATS = 7


def text_of(record: Record, cases: int) -> bytes:
    """A record of ``cases`` cases; a running number keeps their factors apart."""
    numbered = zip(count(), islice(cycle(record.cases), cases))
    many = tuple(
        msgspec.structs.replace(case, factors={**case.factors, "copy": number})
        for number, case in numbered
    )
    return encode(msgspec.structs.replace(record, cases=many))


def seconds(call: Callable[[], Any]) -> float:
    """The duration of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main(cases: int) -> None:
    """Print the medians of both and their ratio."""
    newest = read_study("conv_scaling", ROOT / "data")[-1].record
    text = text_of(newest, cases)
    strict, plain = [], []
    for _ in range(REPEATS):
        strict.append(seconds(lambda: parse(text, "benchmark")))
        plain.append(seconds(lambda: json.loads(text)))
    ratio = statistics.median(strict) / statistics.median(plain)
    print(f"{cases:,} cases, {len(text) / 1e6:.1f} MB, medians of {REPEATS} alternating reads")
    print(f"report.records.filed.parse  {statistics.median(strict):.3f} s")
    print(f"json.loads            {statistics.median(plain):.3f} s")
    print(f"ratio                 {ratio:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
