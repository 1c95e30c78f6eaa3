"""The study conv_profiling: its plan, and runs of it in processes of their own."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, measured, of, run_study
from image_files import write_idx

from experiments.conv_profiling import (
    BASE,
    LOGGED_BATCH,
    STUDY,
    build,
    calls,
    layers,
    multiply_adds,
)
from experiments.harness import memory
from experiments.harness.counters import lackey
from experiments.harness.counters.plan import Job
from experiments.harness.counters.tools import TOOLS
from experiments.harness.profiling import LIMIT, chrome_trace
from experiments.harness.selection import select
from experiments.harness.study import Factors
from report.errors import MeasurementError
from report.instruments.onednn import AVX2, NATIVE, log_file
from report.instruments.trace import read_trace
from report.records.layers import Convolution
from report.records.record import Case, Record
from report.records.store import Stored, read_study

LIMIT_S = 300
FULL = select(STUDY, quick=False).cases
QUICK = select(STUDY, quick=True).cases
TRACES = {"trace.layer-1.json.gz", "trace.layer-64.json.gz", "trace.network-64.json.gz"}
IMAGES = {"images.json", "sample.json"}
CURVES = {"step_loss", "train_loss", "train_accuracy", "test_loss", "test_accuracy"}


# ------------------------------------------------------------------------------------ plan


def test_the_base_has_every_batch_in_both_passes() -> None:
    base = of(FULL, subject="layer", **BASE)
    batches = [2**n for n in range(10)]
    assert [case["batch"] for case in base] == 2 * batches
    assert [case["pass"] for case in base] == ["forward"] * 10 + ["forward_backward"] * 10


def test_other_dimensions_are_varied_one_at_a_time() -> None:
    others = [c for c in of(FULL, subject="layer") if not BASE.items() <= c.items()]
    assert {case["pass"] for case in others} == {"forward"}
    found = Counter((case["channels"], case["kernel"], case["input"]) for case in others)
    assert found == {
        **{(channels, 3, 28): 2 for channels in ("20-40", "16-32", "8-24", "33-65", "64-128")},
        **{("32-64", kernel, 28): 2 for kernel in (1, 5)},
        **{("32-64", 3, size): 2 for size in (16, 20, 32)},
    }
    assert {case["batch"] for case in others} == {1, 8}


def test_what_is_traced_and_trained() -> None:
    traced = [(case["scope"], case["batch"]) for case in of(FULL, subject="trace")]
    assert traced == [("layer", 1), ("layer", 64), ("network", 64)]
    assert of(FULL, subject="training") == [
        {"subject": "training", "dataset": "digits", "channels": "32-64"},
        {"subject": "training", "dataset": "digits", "channels": "20-40"},
    ]


def test_the_quick_plan_is_part_of_the_full_one() -> None:
    assert all(case in FULL for case in QUICK)
    assert {case["subject"] for case in QUICK} == {"layer", "trace", "training"}
    assert len(of(QUICK, subject="training")) == 1


def test_a_folder_takes_the_place_of_the_digits() -> None:
    found = select(STUDY, quick=False, images=True).cases
    assert {case["dataset"] for case in of(found, subject="training")} == {"mnist"}


def test_counting_fits_into_minutes_unless_all_is_asked_for() -> None:
    def seconds(thorough: bool) -> float:
        jobs = [
            Job(case=n, factors=case, calls=number, multiply_adds=multiply_adds(case))
            for n, case in enumerate(FULL)
            if (number := calls(case, thorough))
        ]
        assert all(multiply_adds(case) >= 0 for case in FULL)  # the harness asks for every case
        return lackey.START_S + sum(map(lackey.seconds, jobs)) / 2

    pytest.importorskip("torch")
    assert seconds(thorough=False) < 360 < seconds(thorough=True)
    counted = [case for case in FULL if calls(case, False)]
    assert {case["subject"] for case in counted} == {"layer"}
    assert [c["batch"] for c in of(tuple(counted), **BASE, **{"pass": "forward"})] == [
        2**n for n in range(5)
    ]
    assert all(c in counted for c in FULL if c.get("batch") in (1, 8) and c["subject"] == "layer")


def test_on_a_gpu_every_case_of_the_layer_is_counted_and_no_other() -> None:
    (tool,) = (tool for tool in TOOLS if tool.device == "cuda")
    assert STUDY.counting is not None
    for case in FULL:
        wanted = 2 if case["subject"] == "layer" else 0
        assert tool.calls(STUDY.counting, case, False) == wanted
    assert set(tool.quantities) <= set(STUDY.measures)


# -------------------------------------------------------------------------------- geometry


@pytest.mark.parametrize("factors", of(FULL, subject="layer"), ids=str)
def test_the_layer_has_the_dimensions_of_its_case(factors: Factors) -> None:
    torch = pytest.importorskip("torch")
    (layer,) = layers(factors)
    assert isinstance(layer, Convolution)
    into, out = map(int, str(factors["channels"]).split("-"))
    kernel, extent, batch = (int(factors[name]) for name in ("kernel", "input", "batch"))
    inside = extent - 2 - kernel + 1
    assert layer.input_shape == (batch, into, extent - 2, extent - 2)
    assert layer.output_shape == (batch, out, inside, inside)
    taps = math.prod(layer.output_shape) * into * kernel**2
    assert multiply_adds(factors) == taps * (3 if factors["pass"] == "forward_backward" else 1)
    result: Any = build(factors, "meta").call()  # type: ignore[arg-type]
    assert result.device.type == "meta"
    assert tuple(result.shape) == layer.output_shape
    assert result.dtype == torch.float32


def test_networks_are_those_that_were_trained_before() -> None:
    pytest.importorskip("torch")
    first, second = (layers(case) for case in of(FULL, subject="training"))
    assert len(first) == len(second) == 12
    assert first[7].input_shape == (1, 9216)
    assert second[7].input_shape == (1, 5760)
    (traced,) = of(FULL, subject="trace", scope="network")
    assert layers(traced)[0].input_shape == (64, 1, 28, 28)
    assert build(traced, "meta").call().device.type == "meta"  # type: ignore[arg-type,attr-defined]


# ----------------------------------------------------------------------------------- trace


def test_a_trace_keeps_its_events_and_nothing_about_the_machine() -> None:
    events = [{"ph": "X", "name": "aten::conv2d", "ts": 4396312985611.692, "dur": 0.25, "args": {}}]
    written = {"schemaVersion": 1, "host_name": "h", "traceName": "/home/u/t", "trace_id": "7"}
    made = chrome_trace(json.dumps({**written, "traceEvents": events}).encode())
    assert json.loads(gzip.decompress(made)) == {"schemaVersion": 1, "traceEvents": events}
    assert made == chrome_trace(json.dumps({**written, "traceEvents": events}).encode())


@pytest.mark.parametrize(
    ("events", "said"),
    [([], "a trace without events"), ([os.urandom(LIMIT).hex()], "more than the 1,000,000 B")],
    ids=["empty", "large"],
)
def test_a_trace_that_cannot_be_kept_is_refused(events: list[str], said: str) -> None:
    with pytest.raises(MeasurementError, match=said):
        chrome_trace(json.dumps({"traceEvents": events}).encode())


# ------------------------------------------------------------------------------------ runs


@dataclass(frozen=True)
class Run:
    """A finished run with the files beside its record."""

    record: Record
    files: dict[str, bytes]

    def case(self, **levels: object) -> Case:
        (found,) = (c for c in self.record.cases if levels.items() <= c.factors.items())
        return found


def started(tree: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "experiments", "run", "conv_profiling", "--threads", "1", *words],
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def copied(folder: Path) -> Path:
    """The code in a place of its own: a run cannot be resumed with code that changed meanwhile."""
    for room in ("experiments", "report"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, folder / room, ignore=ignored)
    return folder


def finished(records: Path, stored: Stored) -> Run:
    folder = (records / stored.file).with_suffix("")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(files) == {attachment.name for attachment in stored.record.attachments}
    return Run(stored.record, files)


@pytest.fixture(scope="module")
def mnist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise in the form of MNIST, small enough to train on at once."""
    return write_idx(tmp_path_factory.mktemp("images"), train=200, test=40)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, mnist: Path) -> Run:
    records = tmp_path_factory.mktemp("records")
    words = ("--threads", "1", "--budget", "0.05", "--data", str(mnist))
    return finished(records, measured("conv_profiling", records, *words))


def test_every_case_of_the_quick_plan_is_measured(run: Run) -> None:
    assert {(case.status, case.reason) for case in run.record.cases} == {("ok", None)}
    assert [case.factors["subject"] for case in run.record.cases] == [c["subject"] for c in QUICK]
    logs = {name for name in run.files if name.startswith("onednn.")}
    assert set(run.files) == TRACES | IMAGES | logs
    logged = [c for c in QUICK if c["subject"] == "layer" and c["batch"] == LOGGED_BATCH]
    assert logs == {log_file(c, kind) for c in logged for kind in (NATIVE, AVX2)}
    assert str(ROOT) not in " ".join(run.record.command)


def test_the_layer_has_times_and_memory_that_repeats(run: Run) -> None:
    for case in run.record.cases:
        if case.factors["subject"] == "training":
            continue
        assert bool(case.samples("time")) == (case.factors["subject"] == "layer")
        assert case.samples("memory_events")
        assert len(case.samples("allocated_peak")) == memory.REPEATS
        assert len(set(case.samples("allocated_peak"))) == 1


def test_equal_calls_have_equal_memory(run: Run) -> None:
    for batch in (1, 64):
        shared = {"batch": batch, "pass": "forward_backward"}
        layer = run.case(subject="layer", **shared)
        traced = run.case(subject="trace", scope="layer", **shared)
        for quantity in ("memory_events", "allocated_before", "allocated_after", "allocated_peak"):
            assert layer.samples(quantity) == traced.samples(quantity)


def traces(run: Run) -> Iterator[tuple[Case, Any, bytes]]:
    for case in run.record.cases:
        if case.factors["subject"] == "trace":
            name = f"trace.{case.factors['scope']}-{case.factors['batch']}.json.gz"
            packed = run.files[name]
            yield case, json.loads(gzip.decompress(packed)), packed


def test_a_trace_opens_and_holds_the_convolution_with_its_bytes(run: Run) -> None:
    for case, content, packed in traces(run):
        assert len(packed) < LIMIT
        batch = int(case.factors["batch"])
        wanted = [[batch, 32, 26, 26], [64, 32, 3, 3], [64]]
        (convolution,) = (
            event
            for event in content["traceEvents"]
            if event["name"] == "aten::conv2d" and event["args"]["Input Dims"][:3] == wanted
        )
        begin, end = convolution["ts"], convolution["ts"] + convolution["dur"]
        moved = [
            event["args"]["Bytes"]
            for event in content["traceEvents"]
            if event["name"] == "[memory]" and begin <= event["ts"] <= end
        ]
        assert batch * 64 * 24 * 24 * 4 in moved


def test_the_memory_in_a_trace_is_that_of_the_record(run: Run) -> None:
    for case, content, packed in traces(run):
        (call,) = (e for e in content["traceEvents"] if e["name"] == memory.CALL)
        inside = [
            event["args"]["Bytes"]
            for event in content["traceEvents"]
            if event["name"] == "[memory]" and call["ts"] <= event["ts"] <= call["ts"] + call["dur"]
        ]
        assert inside == list(case.samples("memory_events"))
        read = read_trace(packed, "the trace")
        assert [event.change for event in read.memory if event.on_host] == inside


def test_a_trace_names_neither_host_nor_user(run: Run, tmp_path: Path) -> None:
    for _, content, _ in traces(run):
        assert set(content) >= {"schemaVersion", "traceEvents"}
        words = set(re.findall(r'"([^"]*)"', json.dumps(content)))
        assert not words & {socket.gethostname(), "host_name", "traceName", "trace_id"}
        for place in (str(Path.home()), str(ROOT), str(tmp_path.parent), "/tmp"):
            assert not [word for word in words if place in word]


def test_the_training_has_a_loss_a_step_and_scores_an_epoch(run: Run) -> None:
    case = run.case(subject="training")
    assert len(case.samples("step_loss")) == 4 * math.ceil(200 / 64)
    for quantity in (*CURVES - {"step_loss"}, "epoch_time"):
        assert len(case.samples(quantity)) == 4
    for quantity in ("train_accuracy", "test_accuracy"):
        assert all(0 <= sample <= 1 for sample in case.samples(quantity))
    assert case.layers[0].input_shape == (1, 1, 28, 28)


def test_the_images_are_named_and_some_are_kept(run: Run) -> None:
    told = json.loads(run.files["images.json"])
    assert (told["name"], told["train"]["images"], told["test"]["images"]) == ("mnist", 200, 40)
    kept = json.loads(run.files["sample.json"])
    assert [image["label"] for image in kept["images"]] == [n // 2 for n in range(20)]
    assert {len(bytes.fromhex(image["pixels"])) for image in kept["images"]} == {784}


def test_a_stopped_run_keeps_its_files_and_trains_the_same(
    run: Run, tmp_path: Path, mnist: Path
) -> None:
    tree, records = copied(tmp_path / "tree"), tmp_path / "records"
    words = ("--quick", "--set", "subject=trace,training", "--data", str(mnist))
    words += ("--records", str(records))
    process = started(tree, *words)
    deadline = time.monotonic() + LIMIT_S
    # Two, since a signal in the moment in which the first one is written leaves nothing.
    while sum(path.read_text().count('"kind":"finish"') for path in records.rglob(".*.jsonl")) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no case was ever finished"
        time.sleep(0.02)
    # Not Ctrl-C's signal, which the children of a shell's background jobs ignore.
    process.send_signal(signal.SIGTERM)
    _, messages = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 143, messages
    (journal,) = records.rglob(".*.jsonl")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    before = {line["name"]: line["content"] for line in lines if line["kind"] == "keep"}
    assert "trace.layer-1.json.gz" in before
    process = started(tree, *words, "--resume")
    _, messages = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, messages
    (stored,) = read_study("conv_profiling", records)
    again = finished(records, stored)
    assert set(again.files) == TRACES | IMAGES
    held = {name: b64encode(again.files[name]).decode() for name in before}
    assert held == before
    assert {name: again.files[name] for name in IMAGES} == {n: run.files[n] for n in IMAGES}
    for quantity in sorted(CURVES):
        case = again.case(subject="training")
        assert case.samples(quantity) == run.case(subject="training").samples(quantity)


def test_a_broken_data_set_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = write_idx(tmp_path / "broken")
    file = folder / "train-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:-1])
    records = tmp_path / "records"
    done = run_study("conv_profiling", records, "--data", str(folder))
    assert done.returncode == 1
    (sentence,) = done.stderr.strip().splitlines()
    assert file.name in sentence
    assert "expected" in sentence
    assert not records.exists()
