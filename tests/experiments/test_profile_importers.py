"""Profiles of others become records; a damaged, foreign or hostile one becomes none."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.__main__ import main
from report.evidence.allocator_replay import replayed
from report.missing import Missing
from report.records.imported import ImportedRecord
from report.records.imported_files import list_imports

DATA = Path(__file__).parents[2] / "data"
(COUNTED,) = DATA.glob("conv_profiling/imported/*/*_924719_*.json.gz")
(TIMELINE,) = DATA.glob("training_roofline/imported/*/*.raw.gz")
SETTINGS = {"network": "none of a study", "batch": "2", "precision": "float32"}
MARK = "ridgepoint-code-of-a-pickle-ran"

#: Two allocations of which the first ends, as PyTorch 2.1 and later pickle them.
SNAPSHOT: dict[str, Any] = {
    "segments": [
        {"device": 0, "address": 4096, "total_size": 2**21, "allocated_size": 1024,
         "requested_size": 700, "blocks": [], "segment_type": "small"},
    ],
    "device_traces": [
        [
            {"action": "segment_alloc", "addr": 4096, "size": 2**21, "stream": 0},
            {"action": "alloc", "addr": 4096, "size": 100, "stream": 0, "frames": []},
            {"action": "alloc", "addr": 4608, "size": 700, "stream": 0, "frames": []},
            {"action": "free_requested", "addr": 4096, "size": 100, "stream": 0},
            {"action": "free_completed", "addr": 4096, "size": 100, "stream": 0},
        ],
        [],
    ],
}  # fmt: skip


class Hostile:
    """Pickled, this asks its reader to leave a file behind."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.place,)


def run(path: Path, data: Path, *words: str, **settings: str) -> int:
    given = [w for pair in {**SETTINGS, **settings}.items() for w in ("--set", "=".join(pair))]
    origin = ("--study", "s", "--origin", "Somebody", "--licence", "MIT", "--records", str(data))
    return main(["import", str(path), *origin, *given, *words])


def imported(path: Path, data: Path, *words: str, **settings: str) -> ImportedRecord:
    assert run(path, data, *words, **settings) == 0
    (stored,) = list_imports("s", data)
    return stored.record


def written(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def test_a_trace_with_counters(tmp_path: Path) -> None:
    record = imported(COUNTED, tmp_path, direction="inference")
    assert record.environment.model == "NVIDIA A100-PG509-200"
    assert {"clock", "power_limit", "driver"} <= set(record.missing)
    (case,) = record.cases
    assert set(case.samples("cupti_fp32_multiply_adds")) >= {128 * 64 * 368 * 3025}
    assert len(case.samples("cupti_fp32_multiply_adds")) == 77
    assert not case.samples("kernel_time")


def traced(device: str, *events: dict[str, Any]) -> bytes:
    """A trace of one GPU; each event is an operator on the host unless it says otherwise."""
    plain = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "tid": 1, "ts": 10.0, "dur": 9.0}
    gpus = [{"id": 0, "name": device}]
    return json.dumps(
        {"deviceProperties": gpus, "traceEvents": [plain, *({**plain, **e} for e in events)]}
    ).encode()


@pytest.mark.parametrize(
    ("device", "events", "times"),
    [
        # AMD's kernels have no grid (pytorch/kineto#983), and copies are no kernels.
        (
            "AMD Radeon Graphics",
            [
                {"cat": "kernel", "name": "k0", "dur": 6.88, "args": {"kind": "Dispatch Kernel"}},
                {"cat": "kernel", "name": "k1", "ts": 30.0, "dur": 3.12},
                {"cat": "gpu_memcpy", "name": "copy", "dur": 99.0, "args": {"External id": 2}},
            ],
            (6.88e-6, 3.12e-6),
        ),
        # Arguments of events that are not used may be anything (pytorch/pytorch#145573).
        (
            "NVIDIA A100-PG509-200",
            [
                {"name": "triton", "args": {"External id": 3, "grid": "grid(100,)", "Bytes": "2"}},
                {"ph": "i", "cat": "python_function", "args": {"External id": "none"}},
                {"cat": "kernel", "dur": 1.76, "args": {"External id": 3, "grid": [1, 1, 1]}},
            ],
            (1.76e-6,),
        ),
    ],
)
def test_kernels_of_any_maker_and_of_compiled_code(
    tmp_path: Path, device: str, events: list[dict[str, Any]], times: tuple[float, ...]
) -> None:
    path = written(tmp_path, "trace.json", traced(device, *events))
    record = imported(path, tmp_path / "data", direction="inference")
    assert record.environment.model == device
    assert record.cases[0].samples("kernel_time") == times


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"cat": "kernel", "args": {"grid": "grid(100,)"}}, "traceEvents[1].args.grid"),
        ({"cat": "kernel", "args": {"grid": [1, -1, 1]}}, "traceEvents[1].args.grid"),
        ({"cat": "kernel", "args": {"External id": "x"}}, "traceEvents[1].args.External id"),
        ({"cat": "kernel", "dur": 1e30}, "samples"),
        ({"name": "[memory]", "args": {"Bytes": True}}, "traceEvents[1].args.Bytes"),
        ({"name": "[memory]", "args": {"Bytes": 1, "Device Type": "x"}}, "args.Device Type"),
    ],
)
def test_what_an_import_refuses_ends_with_what_to_do_about_an_import(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], event: dict[str, Any], said: str
) -> None:
    path, data = written(tmp_path, "trace.json", traced("some GPU", event)), tmp_path / "data"
    assert run(path, data, direction="inference") == 1
    printed = capsys.readouterr().err
    assert said in printed
    assert "fetch the published file again" in printed and "git" not in printed
    assert list_imports("s", data) == ()


def test_a_memory_timeline(tmp_path: Path) -> None:
    record = imported(TIMELINE, tmp_path, "--device", "some GPU", direction="training")
    highest = {case.factors["category"]: case.samples("allocated_peak")[0] for case in record.cases}
    assert highest["optimizer state"] == 4 * 25_557_032
    assert highest["parameter"] == 102_440_608
    assert highest["input"] == 19_395_584
    assert highest["activation"] == 2_746_497_024
    assert "lifetimes.json.gz" in record.missing


def test_a_snapshot_is_replayed_as_our_own_are(tmp_path: Path) -> None:
    path = written(tmp_path, "snapshot.pickle", pickle.dumps(SNAPSHOT))
    record = imported(path, tmp_path / "data", "--device", "some GPU", direction="inference")
    (case,) = record.cases
    call = replayed(case)
    assert not isinstance(call, Missing)
    assert call.after.allocated == case.samples("allocated_after")[0]
    assert call.after.reserved == case.samples("reserved_after")[0]


def test_a_snapshot_whose_history_begins_late_tells_only_its_requests(tmp_path: Path) -> None:
    late = {**SNAPSHOT, "device_traces": [SNAPSHOT["device_traces"][0][3:]]}
    path = written(tmp_path, "snapshot.pickle", pickle.dumps(late))
    record = imported(path, tmp_path / "data", "--device", "some GPU", direction="inference")
    assert isinstance(replayed(record.cases[0]), Missing)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_nothing_that_a_pickle_names_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], protocol: int
) -> None:
    ran = tmp_path / MARK
    hostile = pickle.dumps({**SNAPSHOT, "more": Hostile(ran)}, protocol)
    path = written(tmp_path, "snapshot.pickle", hostile)
    assert run(path, tmp_path / "data", "--device", "some GPU", direction="inference") == 1
    assert "nothing of it was run" in capsys.readouterr().err
    assert not ran.exists()


def cut(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())[:-40]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("trace.json", cut(COUNTED), "not valid JSON"),
        ("trace.json.gz", COUNTED.read_bytes()[:-40], "not a whole gzip file"),
        ("trace.json", b'{"traceEvents": []}', "expected operators of torch.profiler"),
        ("trace.json", b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, '
         b'"dur": 1}]}', "found no kernel"),
        ("timeline.json", cut(TIMELINE), "not valid JSON"),
        ("timeline.json", b"[[5, 2, 512, 9]]", "expected a category from 0 to 7, found 9"),
        ("timeline.json", b"[[5, 2, -512, 4]]", "found -512 B, which action 2 cannot do"),
        ("timeline.json", b"[[5, 2, 512, 4], [4, 2, 512, 4]]", "before the event above it"),
        ("timeline.json", b"[[-1, 1, 512, 4]]", "expected events with a time"),
        ("snapshot.pickle", pickle.dumps(SNAPSHOT)[:-40], "no whole pickle"),
        ("snapshot.pickle", pickle.dumps([1]), "expected an object"),
        ("snapshot.pickle", pickle.dumps({"segments": []}), "device_traces: this field is missing"),
        ("snapshot.pickle", pickle.dumps({"segments": [], "device_traces": [[]]}), "0 devices"),
    ],
)  # fmt: skip
def test_a_damaged_or_foreign_file_gives_one_sentence_and_no_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, said: str
) -> None:
    path, data = written(tmp_path, name, content), tmp_path / "data"
    assert run(path, data, "--device", "some GPU", direction="training") == 1
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert said in printed
    assert list_imports("s", data) == ()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "does not say the direction"),
        ({"direction": "inference", "batch": "many"}, "expected a whole number from 1 on"),
        ({"direction": "inference", "weather": "fine"}, "--set weather: possible are"),
    ],
)
def test_what_a_profile_does_not_say_is_not_guessed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: dict[str, str], said: str
) -> None:
    assert run(COUNTED, tmp_path, **settings) == 1
    assert said in capsys.readouterr().err


def test_kernels_of_two_kinds_of_gpu_are_not_mixed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = json.loads(gzip.decompress(COUNTED.read_bytes()))
    trace["deviceProperties"][1]["name"] = "another"
    path = written(tmp_path, "trace.json", json.dumps(trace).encode())
    assert run(path, tmp_path / "data", direction="inference") == 1
    assert "2 kinds of GPU" in capsys.readouterr().err
