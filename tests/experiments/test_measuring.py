"""The smallest run of each study, once, from the command to the record: what holds for all of them.

In one process; only conv_scaling measures its ceilings.
"""

from __future__ import annotations

import gzip
import json
import mmap
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from image_files import write_idx

from experiments import conv_profiling, registry
from experiments.conv_profiling import LARGEST_TRACE
from experiments.harness import ceilings, memory
from experiments.harness.measure import layers_of_case
from experiments.harness.record_check import checks_of
from experiments.harness.study import FULL, Factors, Session, Study
from report.errors import MeasurementError
from report.instruments.trace import read_trace
from report.records.filed import encode
from report.records.quantities import QUANTITIES
from report.records.record import Case
from report.records.store import Stored, read_attachments, record_name
from tests.experiments.conftest import ROOT, measured

#: A batch of a thousand million images fits into no machine: 86 TB.
TOO_MANY = 10**9
RUNS: dict[str, tuple[str, ...]] = {
    "conv_scaling": ("subject=layer", "layout=contiguous", f"batch=1,{TOO_MANY}"),
    "conv_profiling": ("batch=64",),
    "inference_memory": ("sweep=peaks", "network=ResNet-20", "batch=1"),
    "training_roofline": ("network=ResNet-18", "image=32", "batch=2", "precision=float32",
                          "layout=contiguous"),
    "backend_speedup": ("backend=numpy", "hidden=10", "samples=1000", "dtype=float32"),
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A study with the only record of a run of it, in the folder of records."""

    study: Study
    stored: Stored
    records: Path

    @property
    def cases(self) -> tuple[Case, ...]:
        return self.stored.record.cases

    def of(self, subject: str) -> list[Case]:
        return [case for case in self.cases if case.factors["subject"] == subject]

    def files(self) -> dict[str, bytes]:
        return read_attachments(self.stored, ("*",), self.records)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The run of a study, which is measured when it is asked for first."""

    @cache
    def of(name: str) -> Run:
        records = tmp_path_factory.mktemp(name)
        words = ["--threads", "1"]
        words += [word for setting in RUNS[name] for word in ("--set", setting)]
        stored = measured(name, records, *words, ceilings=name == "conv_scaling")
        return Run(registry.load(name), stored, records)

    return of


# ------------------------------------------------------------------------------- what all have


@pytest.mark.parametrize("name", RUNS)
def test_a_run_leaves_a_record_that_can_be_handed_in(run: Callable[[str], Run], name: str) -> None:
    found = run(name)
    assert found.cases
    for case in found.cases:
        wanted = "out_of_memory" if case.factors.get("batch") == TOO_MANY else "ok"
        assert (case.status, case.reason is None) == (wanted, wanted == "ok"), case.reason
        assert case.layers == layers_of_case(found.study, case.factors)
        found_series = [each for series in case.all_series for each in series.items()]
        assert all(samples and QUANTITIES[name].admits(samples) for name, samples in found_series)
        assert any(case.all_series) == (wanted == "ok")
        assert len(set(case.samples("allocated_peak"))) <= 1, "memory repeats"
        assert wanted != "ok" or bool(case.rounds) == found.study.is_timed(case.factors)
        for round_ in case.rounds:
            times = round_.samples("time")
            assert round_.status == "ok" and times and min(times) > 0
            assert len(round_.samples("page_faults")) == len(times)
    levels = {check.topic: check.level for check in checks_of(found.stored, found.records)}
    # Beside other tests a ceiling may be slower than what it bounds.
    assert "problem" not in {level for topic, level in levels.items() if topic != "ceilings"}
    record = found.stored.record
    assert Path(found.stored.file).name == record_name(record)
    assert record.command[:5] == ("python", "-m", "experiments", "run", name)
    assert record.started <= record.finished
    assert set(found.files()) == {item.name for item in record.attachments}
    # Nothing names the machine or its user.
    texts = [encode(record)]
    for file, content in found.files().items():
        texts.append(gzip.decompress(content) if file.endswith(".gz") else content)
    words = [str(Path.home()) + "/", str(ROOT), str(found.records.parent)]
    words += [socket.gethostname()] if len(socket.gethostname()) > 4 else []
    assert not [word for word in words for text in texts if word.encode() in text]


# ------------------------------------------------------------------------ what each has besides


def test_ceilings_stand_before_and_after(run: Callable[[str], Run]) -> None:
    found = run("conv_scaling").stored.record
    assert {round_.policy for case in found.cases for round_ in case.rounds} == set(
        found.protocol.processes
    )
    for moment in ("before", "after"):
        operations = {c.operation for c in found.ceilings if c.moment == moment}
        # Some pages of a system may be mapped several at once; their price is no ceiling then.
        assert operations - {"page_mapping"} == {
            "matrix_product", "convolution", "copy", "read", "triad",
        }  # fmt: skip
    work = {(c.operation, c.instrument): c.work for c in found.ceilings}
    assert work["matrix_product", "torch.mm"] == 2 * ceilings.SIDES["cpu", "small"][0] ** 3
    # 8 images of 28 by 28 pixels give 26 by 26 outputs, each of 256 channels by 9 taps of 256.
    assert work["convolution", "torch.nn.Conv2d"] == 2 * 8 * 26 * 26 * 256 * 9 * 256
    pages = {c.work for c in found.ceilings if c.operation == "page_mapping"}
    assert pages <= {64 * 2**20 // mmap.PAGESIZE}
    reason = next(str(c.reason) for c in found.cases if c.factors["batch"] == TOO_MANY)
    assert "86528000000000 B" in reason


def test_a_trace_shows_the_call_and_the_bytes_of_the_record(run: Callable[[str], Run]) -> None:
    found = run("conv_profiling")
    (case,) = (c for c in found.of("layer") if c.factors["pass"] == "forward_backward")
    packed = found.files()["trace.layer-64.json.gz"]
    assert len(packed) < LARGEST_TRACE
    events: list[dict[str, Any]] = json.loads(gzip.decompress(packed))["traceEvents"]
    (call,) = (event for event in events if event["name"] == memory.CALL)
    inside = [
        event["args"]["Bytes"]
        for event in events
        if event["name"] == "[memory]" and call["ts"] <= event["ts"] <= call["ts"] + call["dur"]
    ]
    assert 64 * 64 * 24 * 24 * 4 in inside
    assert inside == list(case.samples("memory_events"))
    read = read_trace(packed, "the trace").memory
    assert [event.change for event in read if event.on_host] == inside


def test_a_trace_without_events_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv_profiling, "_profiled", lambda *given: b'{"traceEvents": []}')
    factors: Factors = {"channels": "32-64", "kernel": 3, "input": 28, "batch": 64}
    factors["pass"] = "forward_backward"
    with pytest.raises(MeasurementError, match="no event"):
        conv_profiling.files(factors, Session("cpu", FULL))


def test_events_are_kept_where_a_paper_replays_them(run: Callable[[str], Run]) -> None:
    for case in run("inference_memory").cases:
        assert "memory_events" not in case.series
    for case in run("conv_profiling").cases:
        assert case.samples("memory_events")


def test_a_profile_times_every_layer_both_ways(run: Callable[[str], Run]) -> None:
    found = run("training_roofline")
    (case,) = found.of("profile")
    for round_ in case.rounds:
        ways = [round_.samples(f"layer_{way}_time") for way in ("forward", "backward")]
        assert [len(way) % len(case.layers) for way in ways] == [0, 0]
        assert 0 < sum(map(sum, ways)) < sum(round_.samples("time"))


def test_training_from_scratch_learns_and_says_what_its_library_is(
    run: Callable[[str], Run],
) -> None:
    found = run("backend_speedup")
    (case,) = found.of("training")
    assert len(case.samples("test_accuracy")) == 501 and case.samples("test_accuracy")[-1] > 0.9
    (timed,) = found.of("scaling")
    assert {"time", "call_time", "product_alone_time"} <= set(timed.rounds[0].series)
    assert set(found.files()) == {"images.json", "backend.numpy.json"}


def test_a_broken_data_set_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    file = write_idx(tmp_path / "broken") / "train-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(MeasurementError, match=file.name) as told:
        measured("backend_speedup", tmp_path / "records", "--data", str(file.parent))
    assert "\n" not in str(told.value)
    assert not (tmp_path / "records").exists()
