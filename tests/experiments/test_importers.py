"""Published files become records with their origin; what is not said is not guessed."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.__main__ import main
from experiments.importers.command import FORMATS, read_any
from experiments.importers.imported import Source
from report.errors import RidgepointError
from report.records.imported import ImportedRecord
from report.records.store import list_imports, read_attachments
from tests import factory

HERE = Path(__file__).parent / "imported"
ROOT = HERE.parents[2]
TIMM = "benchmark-infer-amp-nchw-pt113-cu117-rtx3090.csv"
COUNTED = factory.published("conv_profiling", "*_924719_*.json.gz")


def traced(device: str, *events: dict[str, Any]) -> bytes:
    """A trace of one GPU; each event is an operator on the host unless it says otherwise."""
    plain = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "tid": 1, "ts": 10.0, "dur": 9.0}
    gpus = [{"id": 0, "name": device}]
    return json.dumps(
        {"deviceProperties": gpus, "traceEvents": [plain, *({**plain, **e} for e in events)]}
    ).encode()


KERNEL = {"cat": "kernel", "name": "k0", "dur": 6.88, "args": {"kind": "Dispatch Kernel"}}
GPU = ("--device", "Quadro GV100")
PROFILE = tuple(
    word
    for pair in ("network=none of a study", "batch=2", "precision=float32", "direction=training")
    for word in ("--set", pair)
)
TIDY = (*GPU, "--set", "kind=gpu", "--set", "instrument=a script")
#: File → its content and what its user must say of it.
FILES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    TIMM: ((HERE / TIMM).read_bytes(), ()),
    "ncu.csv": ((HERE / "ncu.csv").read_bytes(), GPU),
    "tidy.csv": ((HERE / "tidy.csv").read_bytes(), TIDY),
    "trace.json": (traced("some GPU", KERNEL), PROFILE),
    "timeline.json": (b"[[-1, 1, 512, 0], [5, 2, 1024, 4]]", (*GPU, *PROFILE)),
}


def run(folder: Path, name: str, content: bytes, *words: str) -> int:
    """Import a file of this content into ``folder/data``; ``words`` may repeat an option."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    given = ("--study", "s", "--origin", "Somebody", "--licence", "MIT")
    records = ("--records", str(folder / "data"))
    return main(["import", str(folder / name), *given, *words, *records])


def imported(folder: Path, name: str, content: bytes | None = None, *words: str) -> ImportedRecord:
    plain, said = FILES.get(name, (b"", ()))
    assert run(folder, name, plain if content is None else content, *(words or said)) == 0
    (stored,) = list_imports("s", folder / "data")
    return stored.record


# ------------------------------------------------------------------------------- what is read

COPY = {"cat": "gpu_memcpy", "name": "copy", "dur": 99.0, "args": {"External id": 2}}
#: Arguments of events other than kernels may be anything (pytorch/pytorch#145573).
ODD: list[dict[str, Any]] = [
    {"name": "triton", "args": {"External id": 3, "grid": "grid(100,)", "Bytes": "2"}},
    {"ph": "i", "cat": "python_function", "args": {"External id": "none"}},
]
SECOND = {"cat": "kernel", "name": "k1", "ts": 30.0, "dur": 3.12}
MULTIPLY_ADDS = 120_840_192_000


#: The first sample of a case by its number and quantity, and how many there are.
READ_BACK = {
    # A product of 3840 × 3840 × 8192, with 0.1 % of multiply-adds beside.
    ("ncu.csv", 0, "ncu_fp32_multiply_adds"): (MULTIPLY_ADDS, 1),
    ("ncu.csv", 0, "ncu_cuda_core_flops"): (2 * MULTIPLY_ADDS + 58_982_400, 1),
    ("ncu.csv", 1, "ncu_tensor_core_flops"): (0, 1),
    ("tidy.csv", 0, "time"): (0.0005, 2),
    ("tidy.csv", 1, "allocated_peak"): (16 * 2**20, 1),
    ("trace.json", 0, "kernel_time"): (6.88e-6, 2),
    ("timeline.json", 0, "allocated_peak"): (512, 1),
    ("timeline.json", 4, "allocated_peak"): (1024, 1),
    (TIMM, 0, "mean_time"): (0.02077, 1),
    (TIMM, 0, "image_rate"): (49277.65, 1),
    (TIMM, 0, "multiply_adds"): (30_000_000, 1),
    (TIMM, 0, "activations"): (690_000, 1),
    (TIMM, 0, "parameters"): (2_040_000, 1),
}


@pytest.mark.parametrize("name", FILES)
def test_what_a_published_file_says_and_does_not(tmp_path: Path, name: str) -> None:
    content = traced("G", KERNEL, SECOND, COPY, *ODD) if name == "trace.json" else None
    record = imported(tmp_path, name, content)
    for (file, number, quantity), (first, count) in READ_BACK.items():
        if file == name:
            samples = record.cases[number].samples(quantity)
            assert (samples[0], len(samples)) == (first, count), quantity
    assert {"clock", "power_limit", "driver"} <= record.missing.keys()
    (stored,) = list_imports("s", tmp_path / "data")
    kept = read_attachments(stored, ("*",), tmp_path / "data")
    assert list(kept.values()) == [FILES[name][0] if content is None else content]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("Table (1).CSV", "table-1.csv"),
        ("_a--b__c-.v2é.csv", "a-b_c.v2.csv"),
        ("été.csv", "t.csv"),
    ],
)
def test_a_file_of_any_name_is_kept(tmp_path: Path, name: str, kept: str) -> None:
    record = imported(tmp_path, name, BLANK, *TIDY)
    assert (record.origin.file, [each.name for each in record.attachments]) == (name, [kept])
    assert record.cases == imported(tmp_path / "plain", "tidy.csv").cases


def test_counters_of_a_published_study(tmp_path: Path) -> None:
    record = imported(tmp_path, "trace.json", COUNTED)
    assert record.environment.model == "NVIDIA A100-PG509-200"
    multiply_adds = record.cases[0].samples("cupti_fp32_multiply_adds")
    assert 128 * 64 * 368 * 3025 in multiply_adds and len(multiply_adds) == 77


def test_the_name_of_a_table_of_timm_or_its_user_tells_the_conditions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = imported(tmp_path / "named", TIMM)
    assert record.cases[0].factors == {"network": "tinynet_e", "batch": 1024, "image": 106}
    assert record.conditions == {
        "direction": "inference", "precision": "amp", "layout": "nchw", "compiler": "none",
    }  # fmt: skip
    assert (record.environment.framework, record.environment.cuda) == ("PyTorch 1.13", "11.7")
    assert run(tmp_path / "named", TIMM, FILES[TIMM][0]) == 1
    assert "imported already as s/imported/" in capsys.readouterr().err
    said = {"precision": "fp32", "layout": "nhwc", "compiler": "none", "torch": "2.9.1"}
    words = [w for pair in {**said, "cuda": "none"}.items() for w in ("--set", "=".join(pair))]
    given = (*words, "--device", "Intel Core i9-10940X")
    record = imported(tmp_path / "told", "mine.csv", FILES[TIMM][0], *given)
    assert (record.environment.device, record.conditions["layout"]) == ("cpu", "nhwc")
    assert record.environment.key == "intel-core-i9-10940x"


def test_the_commands_of_the_guide_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (ROOT / "docs" / "record-format.md").read_text("utf-8").partition("## Importing")[2]
    (block,) = re.findall(r"^```sh\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    commands = [shlex.split(line)[3:] for line in block.splitlines()]
    monkeypatch.chdir(ROOT)
    for words in commands:
        assert main([*words, "--records", str(tmp_path)]) == 0
    assert len(list_imports("my_study", tmp_path)) == len(commands) > 1
    assert all(f"`{name}`" in guide for name in FORMATS)


# ------------------------------------------------------------------------- what is refused


def edited(name: str, old: str, new: str, count: int = 1) -> bytes:
    """A good file with something replaced in it."""
    text = FILES[name][0].decode()
    assert old in text
    return text.replace(old, new, count).encode()


def ncu_table(*cells: tuple[str, str, str]) -> bytes:
    """One launch of Nsight Compute's raw page: metrics with their units and printed values."""
    plain = [("Kernel Name", "", "copy(float)"), ("CC", "", "8.6"), *cells]
    rows = (",".join(f'"{cell}"' for cell in row) for row in zip(*plain, strict=True))
    return "".join(f"{row}\n" for row in rows).encode()


READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
SHARE = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
LONG = (
    b'"Kernel Name","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    b'"copy(float)","8.6","Command line profiler metrics","dram__bytes_read.sum","byte","131,072"\n'
)
#: With an empty line behind each.
BLANK = FILES["tidy.csv"][0].replace(b"\n", b"\n\n")
TABLE, TRACE = FILES[TIMM][0], FILES["trace.json"][0]
TWO_GPUS = traced("one GPU", KERNEL).replace(b"[{", b'[{"name": "another"}, {', 1)


def test_a_sum_of_bytes_is_whole(tmp_path: Path) -> None:
    cells = (READ, "byte", "131,072"), (WRITTEN, "byte", "65536"), (SHARE, "%", "12,345.6")
    (case,) = imported(tmp_path, "x.csv", ncu_table(*cells), *GPU).cases
    assert case.samples("ncu_dram_bytes") == (196_608,)


@pytest.mark.parametrize(
    ("name", "content", "words", "said"),
    [
        # What would be guessed.
        ("table.csv", TABLE, (), "does not say the precision; give it with --set precision=…"),
        (TIMM, TABLE, ("--set", "precision=bf16"), "precision=bf16: the file says amp"),
        (TIMM, TABLE, ("--set", "weather=fine"), "--set weather: possible are"),
        (TIMM.replace("rtx3090", "4090"), TABLE, (), "calls the device 4090"),
        (TIMM.replace("infer", "train"), TABLE, (), "the columns say infer"),
        (TIMM, edited(TIMM, "0.03,0.69", "x,0.69"), (), "line 2, infer_gmacs: found 'x'"),
        (TIMM, edited(TIMM, "20.77", "0"), (), "line 2, infer_step_time: found '0'"),
        (TIMM, edited(TIMM, "20.77", "2.077"), (), "line 2: batch, time and rate contradict"),
        (TIMM, edited(TIMM, "2.04\r", "2.04,7\r"), (), "line 2: found 9 cells of 8"),
        (TIMM, edited(TIMM, "mobilenetv3_small_050", "lcnet_035"), (), "the case of line 3 again"),
        (TIMM, edited(TIMM, "infer_macts", "speed"), (), "column speed: its unit is not known"),
        ("ncu.csv", edited("ncu.csv", ".sum", ".avg", -1), GPU, "no launch has a sum that"),
        ("tidy.csv", edited("tidy.csv", "time [ms]", "time [B]"), TIDY, "time is measured in s"),
        ("tidy.csv", edited("tidy.csv", "0.75", "n/a"), TIDY, "line 3, time [ms]: found 'n/a'"),
        ("tidy.csv", edited("tidy.csv", ",nhwc", ""), TIDY, "line 4: found 3 cells of 4"),
        ("tidy.csv", BLANK.replace(b"0.75", b"x"), TIDY, "line 5, time [ms]: found 'x'"),
        ("таблица", BLANK, TIDY, "no letter from a to z and no number; rename the file"),
        ("trace.json", TRACE, PROFILE[:6], "does not say the direction"),
        ("trace.json", TRACE, (*PROFILE, "--set", "batch=0"), "a whole number from 1 on"),
        ("trace.json", TRACE, (*PROFILE, *GPU), "the file says some GPU; drop the option"),
        ("timeline.json", FILES["timeline.json"][0], PROFILE, "give it with --device"),
        # What is damaged, foreign or rounded.
        ("ncu.csv", ncu_table((READ, "byte", "131.5"), (WRITTEN, "byte", "1")), GPU, "LC_ALL=C"),
        ("ncu.csv", ncu_table((READ, "byte", "131.072"), (SHARE, "%", "12.34")), GPU, "LC_ALL=C"),
        ("ncu.csv", ncu_table((READ, "KiB", "8"), (WRITTEN, "byte", "1")), GPU, "--print-units"),
        ("ncu.csv", LONG, GPU, "--page raw"),
        ("ncu.csv", b"==ERROR== ERR_NVGPUCTRPERM - The user\n", GPU, "ERR_NVGPUCTRPERM"),
        ("trace.json", gzip.decompress(COUNTED)[:-40], PROFILE, "not valid JSON"),
        ("trace.json.gz", COUNTED[:-40], PROFILE, "cannot be unpacked"),
        ("trace.json", b'{"traceEvents": []}', PROFILE, "expected operators of torch.profiler"),
        ("trace.json", traced("some GPU"), PROFILE, "found no kernel"),
        ("trace.json", TWO_GPUS, PROFILE, "2 kinds of GPU"),
        ("trace.json", traced("G", {**KERNEL, "dur": 1e30}), PROFILE, "fetch the published file"),
        ("timeline.json", b"[[5, 2, 512, 9]]", (*GPU, *PROFILE), "from 0 to 7, found 9"),
        ("timeline.json", b"[[5, 2, -512, 4]]", (*GPU, *PROFILE), "-512 B, which action 2 cannot"),
        ("timeline.json", b"[[5, 2, 5, 4], [4, 2, 5, 4]]", (*GPU, *PROFILE), "before the event"),
        ("x.json", b"{}", GPU, "found no file of a format"),
        ("tidy.csv", FILES["tidy.csv"][0][:30], TIDY, "in the middle of a line"),
        ("tidy.csv", b"", TIDY, "the file is empty"),
        (TIMM, bytes(range(256)) * 8, GPU, "found no file of a format"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)  # fmt: skip
def test_what_cannot_be_imported_is_one_sentence_and_no_record(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes,
    words: tuple[str, ...],
    said: str,
) -> None:
    assert run(tmp_path, name, content, *words) == 1
    assert list_imports("s", tmp_path / "data") == ()
    sentence = capsys.readouterr().err
    assert said in sentence and "git" not in sentence
    assert sentence.startswith(name) and sentence.endswith(".\n") and sentence.count("\n") == 1


@given(st.sampled_from(list(FILES)), st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4))))
@settings(deadline=None, max_examples=60)
def test_whatever_is_in_a_file_is_read_or_one_sentence(
    name: str, changes: list[tuple[float, bytes]]
) -> None:
    """Bytes of a tool's file are replaced by others at any places."""
    content = bytearray(FILES[name][0])
    for place, new in changes:
        start = int(place * len(content))
        content[start : start + len(new)] = new
    words = dict(word.split("=") for word in FILES[name][1] if "=" in word)
    try:
        read_any(Source(name, bytes(content), {"device": "some GPU", **words}))
    except RidgepointError as error:
        assert str(error).startswith(name) and "\n" not in str(error)


@pytest.mark.parametrize("name", FILES)
def test_no_file_is_taken_for_one_of_another_format(name: str) -> None:
    source = Source(name, FILES[name][0])
    assert sum(detects(source) for detects, _ in FORMATS.values()) == 1


def test_one_unusable_file_leaves_nothing_of_all(tmp_path: Path) -> None:
    for name, content in {TIMM: TABLE, "x.json": b"{}"}.items():
        (tmp_path / name).write_bytes(content)
    files = [str(tmp_path / name) for name in (TIMM, "x.json")]
    given = ("--study", "s", "--origin", "X", "--licence", "MIT", "--records", str(tmp_path))
    assert main(["import", *files, *given]) == 1
    assert list_imports("s", tmp_path) == ()


@pytest.mark.parametrize(
    "words",
    [
        ("--address", "javascript:alert(1)"),
        ("--commit", "main"),
        ("--licence", "as you like!"),
        ("--study", "../elsewhere"),
        ("--set", "precision"),
    ],
)
def test_an_origin_that_cannot_be_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, str]
) -> None:
    assert run(tmp_path, TIMM, TABLE, *words) == 2
    assert words[0] in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
