"""Published files become records that say where they are from; what is not said is not guessed."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.__main__ import main
from experiments.importers.formats import FORMATS, read_as
from experiments.importers.imported import Source, source_of
from report.errors import RidgepointError
from report.records.imported import ImportedRecord
from report.records.imported_files import list_imports
from report.records.store import read_attachment

HERE = Path(__file__).parent / "imported"
ROOT = HERE.parents[2]
TIMM = HERE / "benchmark-infer-amp-nchw-pt113-cu117-rtx3090.csv"


def run(data: Path, *words: str | Path) -> int:
    """Import into ``data``; origin and licence are those of an example."""
    given = ("--study", "s", "--origin", "Somebody", "--licence", "MIT", "--records", data)
    return main(["import", *map(str, (*words, *given))])


def imported(data: Path, *words: str | Path) -> ImportedRecord:
    assert run(data, *words) == 0
    (stored,) = list_imports("s", data)
    return stored.record


def refusal(
    data: Path, capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 1
) -> str:
    """The one sentence with which an import ends, of which nothing is left."""
    assert run(data, *words) == code
    assert list_imports("s", data) == ()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith(".\n")
    return said


def test_a_table_of_timm(tmp_path: Path) -> None:
    record = imported(tmp_path, TIMM, "--commit", "aa4b585")
    first = record.cases[0]
    assert first.factors == {"network": "tinynet_e", "batch": 1024, "image": 106}
    assert {s.quantity: s.samples for s in first.series} == {
        "mean_time": (0.02077,),
        "image_rate": (49277.65,),
        "multiply_adds": (30_000_000,),
        "activations": (690_000,),
        "parameters": (2_040_000,),
    }
    assert record.conditions == {
        "direction": "inference",
        "precision": "amp",
        "layout": "nchw",
        "compiler": "none",
    }
    machine = record.environment
    assert (machine.model, machine.framework, machine.cuda) == (
        "NVIDIA GeForce RTX 3090",
        "PyTorch 1.13",
        "11.7",
    )
    assert {"clock", "power_limit", "driver", "repetitions"} <= record.missing.keys()
    (stored,) = list_imports("s", tmp_path)
    assert read_attachment(stored, TIMM.name, tmp_path) == TIMM.read_bytes()


def test_a_file_is_imported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(tmp_path, TIMM)
    assert run(tmp_path, TIMM) == 1
    assert "imported already as s/imported/" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "old", "new", "words", "said"),
    [
        ("table.csv", "", "", (), "does not say the precision; give it with --set precision=…"),
        (TIMM.name, "", "", ("--set", "precision=bf16"), "the file's name says amp"),
        (TIMM.name, "", "", ("--set", "weather=fine"), "--set weather: possible are"),
        (TIMM.name.replace("rtx3090", "4090"), "", "", (), "calls the device 4090"),
        (TIMM.name.replace("infer", "train"), "", "", (), "the columns say infer"),
        (TIMM.name, "0.03,0.69", "x,0.69", (), "line 2, infer_gmacs: found 'x'"),
        (TIMM.name, "20.77", "-20.77", (), "line 2, infer_step_time: found '-20.77'"),
        (TIMM.name, "20.77", "0", (), "line 2, infer_step_time: found '0'"),
        (TIMM.name, "20.77", "2.077", (), "line 2: batch, time and rate contradict"),
        (TIMM.name, "1024,106", "10.5,106", (), "line 2, infer_batch_size: found '10.5'"),
        (TIMM.name, "2.04\n", "2.04,7\n", (), "line 2: found another number of columns"),
        (TIMM.name, "mobilenetv3_small_050", "lcnet_035", (), "found the case of line 3 again"),
        (TIMM.name, "infer_macts", "speed", (), "column speed: its unit is not known"),
        (TIMM.name, "infer_img_size", "infer_gmacs", (), "column infer_img_size: not found"),
    ],
)
def test_what_a_table_of_timm_does_not_say_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    old: str,
    new: str,
    words: tuple[str, ...],
    said: str,
) -> None:
    text = TIMM.read_text("utf-8")
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new, 1), "utf-8")
    assert said in refusal(tmp_path / "data", capsys, tmp_path / name, *words)


def test_what_the_name_does_not_say_can_be_given(tmp_path: Path) -> None:
    path = shutil.copyfile(TIMM, tmp_path / "mine.csv")
    conditions = {"precision": "fp32", "layout": "nhwc", "compiler": "none", "torch": "2.9.1"}
    words = [w for name, value in conditions.items() for w in ("--set", f"{name}={value}")]
    given = (*words, "--set", "cuda=none", "--device", "Intel Core i9-10940X")
    record = imported(tmp_path / "data", path, *given)
    assert record.environment.device == "cpu"
    assert record.environment.key == "intel-core-i9-10940x"
    assert record.conditions["layout"] == "nhwc"
    assert record.origin.given["device"] == record.environment.model


# ------------------------------------------------------------------------------ other tools

EPYC, GV100 = ("--device", "AMD EPYC"), ("--device", "Quadro GV100")
#: File → what its user must say of it.
SAMPLES: dict[str, tuple[str, ...]] = {
    TIMM.name: (),
    "pyperf.json": (),
    "pytest_benchmark.json": (),
    "google_benchmark.json": EPYC,
    "asv.json": (),
    "nvbench.json": GV100,
    "ncu.csv": ("--device", "NVIDIA H100 80GB HBM3"),
    "tidy.csv": (*GV100, "--set", "kind=gpu", "--set", "instrument=a script"),
}


def found(record: ImportedRecord) -> dict[str, dict[str, tuple[float, ...]]]:
    """By the levels of each case: its series, or the rounds of each."""
    return {
        " ".join(str(level) for _, level in sorted(case.factors.items())): {
            **{series.quantity: series.samples for series in case.series},
            **{
                f"{series.quantity} of {round_.process}": series.samples
                for round_ in case.rounds
                for series in round_.series
            },
        }
        for case in record.cases
    }


#: File → the levels of a case → a quantity with its first sample, and how many there are.
ORACLES: dict[str, dict[str, tuple[str, float, int]]] = {
    "pyperf.json": {
        "sort a list": ("mean_time of 2", 4.845089843996675e-06, 3),
        "sum a list": ("mean_time of 3", 1.4781660158114107e-06, 3),
    },
    "pytest_benchmark.json": {
        "test_b.py::test_sum[8] 8": ("mean_time", 2.106000010826392e-07, 12),
        "test_b.py::test_sum[64] 64": ("mean_time", 8.267399971373379e-07, 12),
    },
    "google_benchmark.json": {
        "total/8": ("mean_time", 6.1648896474857634e-07, 3),
        "total/64": ("mean_cpu_time", 7.852998244073747e-07, 3),
        "failing": ("", 0, 0),
    },
    "asv.json": {
        "b.Sums.time_sum 8 list": ("mean_time", 9.523399785393849e-07, 6),
        "b.Sums.time_sum 64 tuple": ("", 0, 0),
        "b.peakmem_list": ("resident_peak", 24674304, 1),
        "b.track_things": ("", 0, 0),
    },
    "nvbench.json": {
        "1024 copy": ("mean_time", 0.0010034715849794225, 1),
        "4096 copy": ("", 0, 0),
    },
    "tidy.csv": {
        "1 nchw": ("time", 0.0005, 2),
        "8 nhwc": ("allocated_peak", 16 * 2**20, 1),
    },
}


@pytest.mark.parametrize("name", ORACLES)
def test_what_a_tool_wrote_is_read(tmp_path: Path, name: str) -> None:
    cases = found(imported(tmp_path, HERE / name, *SAMPLES[name]))
    for levels, (quantity, first, count) in ORACLES[name].items():
        samples = cases[levels].get(quantity, ())
        assert len(samples) == count
        assert not samples or samples[0] == pytest.approx(first, rel=1e-15)


def test_launches_of_nsight_compute_are_cases(tmp_path: Path) -> None:
    """The multiply-adds of a product of known work, 8192³ · 2 FLOP at most 1 % less."""
    name = "ncu.csv"
    first, second = found(imported(tmp_path, HERE / name, *SAMPLES[name])).values()
    assert first["ncu_fp32_multiply_adds"] == (120_840_192_000,)
    assert first["ncu_cuda_core_flops"] == (2 * 120_840_192_000 + 58_982_400,)
    assert second["ncu_tensor_core_flops"] == (0,)


def ncu_table(*cells: tuple[str, str, str]) -> str:
    """One launch of Nsight Compute's raw page: metrics with their units and printed values."""
    plain = [("Kernel Name", "", "copy(float)"), ("CC", "", "8.6"), *cells]
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in zip(*plain, strict=True))


READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
SHARE = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
LONG = (
    '"Kernel Name","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    '"copy(float)","8.6","Command line profiler metrics","dram__bytes_read.sum","byte","131,072"\n'
)


@pytest.mark.parametrize(
    "cells",
    [
        ((READ, "byte", "131.072"), (WRITTEN, "byte", "65.536")),
        ((READ, "byte", "131,072"), (WRITTEN, "byte", "65,536")),
        ((READ, "byte", "131072.000000"), (WRITTEN, "byte", "65536")),
        ((READ, "byte", "131.072"), (WRITTEN, "byte", "65.536"), (SHARE, "%", "12,345")),
        ((READ, "byte", "128.000"), (WRITTEN, "byte", "68.608")),
    ],
)
def test_a_sum_of_bytes_is_whole_whatever_separates_its_thousands(
    tmp_path: Path, cells: tuple[tuple[str, str, str], ...]
) -> None:
    (tmp_path / "x.csv").write_text(ncu_table(*cells), "utf-8")
    (case,) = imported(tmp_path, tmp_path / "x.csv", "--device", "NVIDIA A10").cases
    assert case.samples("ncu_dram_bytes") == (196_608,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ncu_table((READ, "byte", "131.5"), (WRITTEN, "byte", "1")), "LC_ALL=C"),
        (ncu_table((READ, "byte", "131.072"), (SHARE, "%", "12.34")), "LC_ALL=C"),
        (ncu_table((READ, "byte", "1.5e-3"), (WRITTEN, "byte", "1")), "LC_ALL=C"),
        (ncu_table((READ, "KiB", "128"), (WRITTEN, "byte", "65,536")), "--print-units base"),
        (ncu_table((READ, "sector", "128"), (WRITTEN, "byte", "65,536")), "--print-units base"),
        (ncu_table((READ, "", "128"), (WRITTEN, "byte", "65,536")), "--print-units base"),
        (LONG, "--page raw"),
        ("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user\n", "ERR_NVGPUCTRPERM"),
        ("==ERROR== Unknown Error on device 0.", "Unknown Error on device 0"),
    ],
)
def test_what_nsight_compute_rounds_or_does_not_count_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    (tmp_path / "x.csv").write_text(text, "utf-8")
    device = ("--device", "NVIDIA A10")
    assert said in refusal(tmp_path / "data", capsys, tmp_path / "x.csv", *device)


def _half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _other_json(content: bytes) -> bytes:
    return b'{"benchmarks": [{"runs": 7}], "version": 1, "context": 0, "devices": 0, "results": 0}'


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut off": _half,
    "other JSON": _other_json,
    "emptied": lambda content: b"",
    "binary": lambda content: bytes(range(256)) * 8,
    "header alone": lambda content: content[: min(content.find(b"\n"), len(content) - 9)] + b"\n",
    "without numbers": lambda content: re.sub(rb"\d", b"x", content),
    "broken gzip": lambda content: gzip.compress(content)[:-9],
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_one_sentence_and_no_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, damage: str
) -> None:
    path = tmp_path / name
    path.write_bytes(DAMAGES[damage]((HERE / name).read_bytes()))
    said = refusal(tmp_path / "data", capsys, path, *SAMPLES[name])
    assert said.startswith(name)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_file_of_another_tool_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], format_: str
) -> None:
    others = [
        name for name in SAMPLES if read_as(source_of(HERE / name, *_said(name)))[0] != format_
    ]
    for name in others:
        said = refusal(tmp_path, capsys, HERE / name, *SAMPLES[name], "--format", format_)
        assert format_ in said


def _said(name: str) -> tuple[str | None, dict[str, str]]:
    """What the user says of a sample, as ``source_of`` takes it."""
    words = SAMPLES[name]
    pairs = dict(zip(words[::2], words[1::2], strict=True))
    given = [word.partition("=") for word in words if "=" in word]
    return pairs.get("--device"), {key: value for key, _, value in given}


def test_a_format_that_was_never_tried_on_a_gpu_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    imported(tmp_path, HERE / "nvbench.json", *GV100)
    assert "nvbench.json: reading nvbench is experimental" in capsys.readouterr().err


def test_one_unusable_file_leaves_nothing_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.json").write_text("{}", "utf-8")
    said = refusal(tmp_path / "data", capsys, HERE / "pyperf.json", tmp_path / "x.json")
    assert "x.json: found no file of a format that can be imported" in said


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("pyperf.json", '"unit":"second"', '"unit":"integer"', "its unit is integer"),
        ("pyperf.json", '"AMD EPYC"', "7", "give it with --device"),
        ("google_benchmark.json", '"ns"', '"parsec"', "times or their unit are missing"),
        ("nvbench.json", '"1.0.0"', '"2.0.0"', "its format is 2.0.0"),
        ("nvbench.json", "0.0010034715849794225", "fast", "'fast', which is no number"),
        ("asv.json", '"version": 2', '"version": 1', "its version is 1"),
        ("asv.json", '"8000000"', '"8 GB"', "params.ram: found '8 GB'"),
        ("ncu.csv", ".sum", ".avg", "no launch has a sum that is known here"),
        ("tidy.csv", "time [ms]", "time [B]", "time is measured in s"),
        ("tidy.csv", "time [ms]", "speed [ms]", "speed is no quantity"),
        ("tidy.csv", "0.75", "n/a", "line 3, time [ms]: found 'n/a'"),
        ("tidy.csv", ",nhwc", "", "line 4: found 3 cells of 4"),
    ],
)
def test_what_would_be_guessed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, said: str
) -> None:
    text = (HERE / name).read_text("utf-8")
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new), "utf-8")
    assert said in refusal(tmp_path / "data", capsys, tmp_path / name, *SAMPLES[name])


def test_a_report_of_nsight_compute_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(b"NVR\0 and nothing that follows")
    assert "x.ncu-rep: " in refusal(tmp_path, capsys, path)


class StandIn:
    """A report as NVIDIA's package gives it: a range with one launch, whose metrics are these.

    Reports of real runs hold many metrics as rates alone, which tell nothing of one launch.
    """

    def __init__(self, metrics: dict[str, object]) -> None:
        self.metrics = metrics

    def num_ranges(self) -> int:
        """One."""
        return 1

    num_actions = num_ranges

    def range_by_idx(self, index: int) -> StandIn:
        """The range, and the launch in it."""
        return self

    action_by_idx = range_by_idx

    def name(self) -> str:
        """The kernel."""
        return "kernel"

    def metric_names(self) -> tuple[str, ...]:
        """Those that ``metric_by_name`` knows."""
        return tuple(self.metrics)

    def metric_by_name(self, name: str) -> SimpleNamespace | None:
        """A metric by its name."""
        value = self.metrics.get(name)
        return None if value is None else SimpleNamespace(value=lambda: value)


PARTS: dict[str, object] = {
    "device__attribute_display_name": "GeForce RTX 3080",
    "device__attribute_compute_capability_major": 8,
    "device__attribute_compute_capability_minor": 6,
    "dram__bytes.sum.per_second": 7e11,
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": 2.5,
}
BYTES: dict[str, object] = {"dram__bytes_read.sum": 2e9, "dram__bytes_write.sum": 1e9}


def test_a_report_of_nsight_compute_tells_its_sums_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(b"NVR\0 stands in")
    package = SimpleNamespace(load_report=lambda _: StandIn(PARTS))
    monkeypatch.setitem(sys.modules, "ncu_report", package)
    assert "no launch has a sum" in refusal(tmp_path / "data", capsys, path)
    package.load_report = lambda _: StandIn({**PARTS, **BYTES})
    record = imported(tmp_path / "data", path)
    assert record.environment.model == "GeForce RTX 3080"
    assert found(record) == {"kernel 1": {"ncu_dram_bytes": (3_000_000_000,)}}


def test_the_commands_of_the_guide_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (ROOT / "docs" / "importing.md").read_text("utf-8")
    (block,) = re.findall(r"^```sh\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    commands = [shlex.split(line)[3:] for line in block.splitlines()]
    monkeypatch.chdir(ROOT)
    for words in commands:
        assert main([*words, "--records", str(tmp_path)]) == 0
    assert len(list_imports("my_study", tmp_path)) == len(commands) == 3
    assert all(f"`{name}`" in guide for name in FORMATS)


@given(st.sampled_from(list(SAMPLES)), st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4))))
@settings(deadline=None, max_examples=150)
def test_whatever_is_in_a_file_is_a_record_or_one_sentence(
    name: str, changes: list[tuple[float, bytes]]
) -> None:
    """Bytes of a tool's file are replaced by others at any places."""
    content = bytearray((HERE / name).read_bytes())
    for place, new in changes:
        start = int(place * len(content))
        content[start : start + len(new)] = new
    device, said = _said(name)
    try:
        format_, found = read_as(Source(name, bytes(content), device, said))
    except RidgepointError as error:
        assert str(error).startswith(name)
    else:
        assert format_ in FORMATS
        assert found.cases


def test_a_folder_and_a_wrong_name_are_no_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "found a folder where a file belongs" in refusal(tmp_path, capsys, tmp_path)
    assert "cannot be read" in refusal(tmp_path, capsys, tmp_path / "none.csv")


def test_a_long_single_line_is_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "long.json"
    path.write_text(f'{{"x": "{"y" * 200_000}"}}', "utf-8")
    assert "found no file of a format" in refusal(tmp_path, capsys, path)


@pytest.mark.parametrize(
    "words",
    [
        ("--address", "javascript:alert(1)"),
        ("--address", "https://example.org/>[x](y)"),
        ("--commit", "main"),
        ("--licence", "as you like!"),
        ("--study", "../elsewhere"),
        ("--set", "precision"),
    ],
)
def test_an_origin_that_cannot_be_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, str]
) -> None:
    given = {"--study": "s", "--origin": "Somebody", "--licence": "MIT", words[0]: words[1]}
    options = [word for pair in given.items() for word in pair]
    assert main(["import", str(TIMM), *options, "--records", str(tmp_path)]) == 2
    assert words[0] in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
