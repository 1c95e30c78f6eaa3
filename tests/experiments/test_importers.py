"""Import of published files into records: origin, samples, and facts that a file or user names."""

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
from experiments.importers.imported import ImportSource
from report.core.errors import RidgepointError
from report.core.records.record import ImportedRecord
from report.core.records.store import read_attachments, read_records
from tests import factory
from tests.test_documents import code_blocks

FOLDER = Path(__file__).parent / "imported"
ROOT = FOLDER.parents[2]
TIMM = "benchmark-infer-amp-nchw-pt113-cu117-rtx3090.csv"
#: A published trace with counters of kernels instead of times.
COUNTED = factory.imported_attachment("conv_profiling", "*_924719_*.json.gz")


def trace_of(*events: dict[str, Any], gpus: tuple[str, ...] = ("some GPU",)) -> bytes:
    """Return a trace; the default event is an operator on the host."""
    default = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "tid": 1, "ts": 10.0, "dur": 9.0}
    devices = [{"id": number, "name": name} for number, name in enumerate(gpus)]
    all_events = [default, *({**default, **event} for event in events)]
    return json.dumps({"deviceProperties": devices, "traceEvents": all_events}).encode()


KERNEL = {"cat": "kernel", "name": "k0", "dur": 6.88, "args": {"kind": "Dispatch Kernel"}}
#: A second kernel, and events that are ignored.
MORE_EVENTS: tuple[dict[str, Any], ...] = (
    {"cat": "kernel", "name": "k1", "ts": 30.0, "dur": 3.12},
    {"cat": "gpu_memcpy", "name": "copy", "dur": 99.0, "args": {"External id": 2}},
    # Arguments of events other than kernels may be anything (pytorch/pytorch#145573).
    {"name": "triton", "args": {"External id": 3, "grid": "grid(100,)", "Bytes": "2"}},
    {"ph": "i", "cat": "python_function", "args": {"External id": "none"}},
)
#: Options for facts that a file does not state: the device; those of a profile; of a tidy table.
GPU = ("--device", "Quadro GV100")
PROFILE = ("--set", "network=none of a study", "--set", "batch=2", "--set", "precision=float32",
           "--set", "direction=training")  # fmt: skip
TIDY = (*GPU, "--set", "kind=gpu", "--set", "instrument=a script")
#: File → content, and the options that the importer needs.
FILES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    TIMM: ((FOLDER / TIMM).read_bytes(), ()),
    "ncu.csv": ((FOLDER / "ncu.csv").read_bytes(), GPU),
    "tidy.csv": ((FOLDER / "tidy.csv").read_bytes(), TIDY),
    "trace.json": (trace_of(KERNEL, *MORE_EVENTS), PROFILE),
    "counted.json": (COUNTED, PROFILE),
    # Time (ns), action, bytes, category of the tensor.
    "timeline.json": (b"[[-1, 1, 512, 0], [5, 2, 1024, 4]]", (*GPU, *PROFILE)),
}
#: (file, number of the case, quantity) → (one of the samples, number of samples).
SAMPLES = {
    # A product of 3840 × 3840 × 8192, and 0.02 % of other operations.
    ("ncu.csv", 0, "ncu_fp32_multiply_adds"): (120_840_192_000, 1),
    ("ncu.csv", 0, "ncu_cuda_core_flops"): (2 * 120_840_192_000 + 58_982_400, 1),
    ("ncu.csv", 1, "ncu_tensor_core_flops"): (0, 1),
    ("tidy.csv", 0, "time"): (0.0005, 2),
    ("tidy.csv", 1, "allocated_peak"): (16 * 2**20, 1),
    ("trace.json", 0, "kernel_time"): (6.88e-6, 2),
    ("counted.json", 0, "cupti_fp32_multiply_adds"): (128 * 64 * 368 * 3025, 77),
    ("timeline.json", 0, "allocated_peak"): (512, 1),
    ("timeline.json", 4, "allocated_peak"): (1024, 1),
    (TIMM, 0, "mean_time"): (0.02077, 1),
    (TIMM, 0, "image_rate"): (49277.65, 1),
    (TIMM, 0, "multiply_adds"): (30_000_000, 1),
    (TIMM, 0, "activations"): (690_000, 1),
    (TIMM, 0, "parameters"): (2_040_000, 1),
}


def run(folder: Path, name: str, content: bytes, *words: str) -> int:
    """Import a file into ``folder/data`` with the options ``words``; return the exit code."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    origin = ("--study", "s", "--origin", "Somebody", "--licence", "MIT")
    return main(["import", str(folder / name), *origin, *words, "--records", str(folder / "data")])


def imported(folder: Path, name: str, content: bytes, *words: str) -> ImportedRecord:
    """Import a file; return the only record in the folder."""
    assert run(folder, name, content, *words) == 0
    (stored,) = read_records("s", folder / "data", ImportedRecord)
    return stored.record


@pytest.mark.parametrize("name", FILES)
def test_published_files_become_records(tmp_path: Path, name: str) -> None:
    content, words = FILES[name]
    record = imported(tmp_path, name, content, *words)
    for (file, number, quantity), (sample, count) in SAMPLES.items():
        if file == name:
            samples = record.cases[number].samples(quantity)
            assert sample in samples and len(samples) == count, quantity
    assert {"clock", "power_limit", "driver"} <= record.missing.keys()
    (stored,) = read_records("s", tmp_path / "data", ImportedRecord)
    attachments = read_attachments(stored, ("*",), tmp_path / "data")
    assert list(attachments.values()) == [content]
    content = ImportSource(name, content).content
    assert sum(bool(re.match(pattern.encode(), content)) for pattern, _ in FORMATS.values()) == 1


#: The tidy table with an empty line after each line.
WITH_EMPTY_LINES = FILES["tidy.csv"][0].replace(b"\n", b"\n\n")


def test_names_and_levels_of_a_table_are_unchanged(tmp_path: Path) -> None:
    """The origin has the file's own name; the attachment has a name that is safe in a path."""
    for name, safe in (("Table (1).CSV", "table-1.csv"), ("_a--b__c-.v2é.csv", "a-b_c.v2.csv")):
        record = imported(tmp_path / safe, name, WITH_EMPTY_LINES, *TIDY)
        assert (record.origin.file, [file.name for file in record.attachments]) == (name, [safe])
    table = replace_in("tidy.csv", "1,nchw,0.75", "1,,0.75").replace(b"8,nhwc", b"12.0,nhwc")
    cases = imported(tmp_path, "tidy.csv", table.replace(b"batch", b" version "), *TIDY).cases
    # 12.0 stays text, as a version does.
    levels = [(case.factors["version"], case.factors["layout"]) for case in cases]
    assert levels == [(1, "nchw"), (1, ""), ("12.0", "nhwc")]


def test_conditions_of_a_timm_table_are_read_from_its_name_or_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = imported(tmp_path / "named", TIMM, TABLE)
    assert record.cases[0].factors == {"network": "tinynet_e", "batch": 1024, "image": 106}
    assert record.conditions == {
        "direction": "inference", "precision": "amp", "layout": "nchw", "compiler": "none",
    }  # fmt: skip
    assert (record.environment.framework, record.environment.cuda) == ("PyTorch 1.13", "11.7")
    (path,) = (tmp_path / "named" / "data" / "s" / "imported").glob("*.json")
    path.with_name("cut.json").write_bytes(b"{")  # a damaged record does not stop an import
    assert run(tmp_path / "named", TIMM, TABLE) == 1
    assert "imported already as s/imported/" in capsys.readouterr().err
    options = ["--device", "Intel Core i9-10940X"]
    for setting in ("precision=fp32", "layout=nhwc", "compiler=none", "torch=2.9.1", "cuda=none"):
        options += ["--set", setting]
    with_decimals = replace_in(TIMM, "1024,106", "1024.0,106.0")  # as in older tables
    record = imported(tmp_path / "options", "table.csv", with_decimals, *options)
    assert record.cases[0].factors == {"network": "tinynet_e", "batch": 1024, "image": 106}
    assert (record.environment.device, record.conditions["layout"]) == ("cpu", "nhwc")
    assert record.environment.key == "intel-core-i9-10940x"


def test_the_commands_of_the_guide_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (ROOT / "docs" / "record-format.md").read_text("utf-8").partition("## Importing")[2]
    (block,) = code_blocks(guide, "sh")
    commands = [shlex.split(line)[3:] for line in block.splitlines()]
    monkeypatch.chdir(ROOT)
    for words in commands:
        assert main([*words, "--records", str(tmp_path)]) == 0
    assert len(read_records("my_study", tmp_path, ImportedRecord)) == len(commands) > 1
    assert all(f"`{name}`" in guide for name in FORMATS)


def replace_in(name: str, old: str, new: str, count: int = 1) -> bytes:
    """Return the content of a file in which the first ``count`` ``old`` are replaced by ``new``."""
    text = FILES[name][0].decode()
    assert old in text
    return text.replace(old, new, count).encode()


TABLE, TIMELINE = FILES[TIMM][0], FILES["timeline.json"][0]
RATE, TIME = "infer_samples_per_sec", "infer_step_time"
ON_GPU_0, ON_GPU_1 = ({**KERNEL, "args": {"device": number}} for number in (0, 1))
TRACE, TIMELINE_FACTS = trace_of(KERNEL), (*GPU, *PROFILE)


@pytest.mark.parametrize(("name", "content", "words", "reason"), [
    # Facts that would have to be guessed.
    ("table.csv", TABLE, (), "does not say the precision; give it with --set precision=…"),
    (TIMM, TABLE, ("--set", "precision=bf16"), "precision=bf16: the file says amp"),
    (TIMM, TABLE, ("--set", "weather=fine"), "--set weather: possible are"),
    (TIMM.replace("rtx3090", "4090"), TABLE, (), "calls the device 4090"),
    (TIMM.replace("infer", "train"), TABLE, (), "the columns say infer"),
    (TIMM, replace_in(TIMM, "0.03,0.69", "x,0.69"), (), "line 2, infer_gmacs: found 'x'"),
    (TIMM, replace_in(TIMM, "20.77", "0"), (), "line 2, infer_step_time: found '0'"),
    (TIMM, replace_in(TIMM, f"{RATE},{TIME}", f"{TIME},{RATE}"), (), "times stand under rates"),
    (TIMM, replace_in(TIMM, "20.77", "18.6"), (), "tinynet_e: batch, time and rate contradict"),
    (TIMM, replace_in(TIMM, "2.04\r", "2.04,7\r"), (), "line 2: found 9 cells of 8"),
    (TIMM, replace_in(TIMM, "mobilenetv3_small_050", "lcnet_035"), (), "lcnet_035: two rows are"),
    (TIMM, replace_in(TIMM, "1024,106", "10x,106"), (), "line 2, infer_batch_size: found '10x'"),
    (TIMM, replace_in(TIMM, "1024,106", "1024,big"), (), "line 2, infer_img_size: found 'big'"),
    (TIMM, replace_in(TIMM, "tinynet_e", ""), (), "line 2, model: found no network"),
    (TIMM, replace_in(TIMM, "infer_macts", "speed"), (), "column speed: its unit is not known"),
    ("ncu.csv", replace_in("ncu.csv", ".sum", ".avg", -1), GPU, "no launch has a sum that"),
    ("tidy.csv", replace_in("tidy.csv", "time [ms]", "time [B]"), TIDY, "time is measured in s"),
    ("tidy.csv", replace_in("tidy.csv", "time [ms]", "time(ms)"), TIDY, "column time(ms): no qu"),
    ("tidy.csv", replace_in("tidy.csv", "allocated_peak [MiB]", "time [s] "), TIDY, "hold time"),
    ("tidy.csv", replace_in("tidy.csv", "batch", "speed"), TIDY, "column speed: its unit is not"),
    ("tidy.csv", replace_in("tidy.csv", "layout", "gpu"), TIDY, "line 2, gpu: found nchw"),
    ("tidy.csv", replace_in("tidy.csv", "0.5", "0.0"), TIDY, "line 2, time [ms]: found '0.0'"),
    ("tidy.csv", replace_in("tidy.csv", "0.5", f"1e{'9' * 9}"), TIDY, "found '1e999999999'"),
    ("tidy.csv", replace_in("tidy.csv", "time [ms]", "test_accuracy [1]"), TIDY, "found '2.25'"),
    ("tidy.csv", b"batch,time [ms]\n1,\n", TIDY, "no row has a measured number"),
    ("tidy.csv", WITH_EMPTY_LINES.replace(b"0.75", b"n/a"), TIDY, "line 5, time [ms]: found 'n/a'"),
    ("tidy.csv", replace_in("tidy.csv", ",nhwc", ""), TIDY, "line 4: found 3 cells of 4"),
    ("таблица", WITH_EMPTY_LINES, TIDY, "no letter from a to z and no number; rename the file"),
    ("trace.json", TRACE, PROFILE[:6], "does not say the direction"),
    ("trace.json", TRACE, (*PROFILE, "--set", "batch=0"), "a whole number of 1 or more"),
    ("trace.json", TRACE, (*PROFILE, *GPU), "the file says some GPU; drop the option"),
    ("timeline.json", TIMELINE, PROFILE, "give it with --device"),
    # Damaged files and unknown formats.
    ("ncu.csv", b"==ERROR== ERR_NVGPUCTRPERM - The user\n", GPU, "ERR_NVGPUCTRPERM"),
    ("trace.json", trace_of(), PROFILE, "found no kernel"),
    ("trace.json", trace_of({**KERNEL, "dur": 0}), PROFILE, "a kernel took 0 µs"),
    ("trace.json", TRACE.replace(b"6.88", b"1e999999999"), PROFILE, "Number out of range"),
    ("trace.json", trace_of(ON_GPU_0, ON_GPU_1), PROFILE, "work of the GPUs 0, 1; import"),
    ("trace.json", trace_of(KERNEL, gpus=("one", "other")), PROFILE, "2 kinds of GPU"),
    ("timeline.json", b"[[5, 2, 512, 9]]", TIMELINE_FACTS, "from 0 to 7, found 9"),
    ("timeline.json", b"[[5, 4, -512, 0]]", TIMELINE_FACTS, "5: found -512 B of parameter"),
    ("timeline.json", b"[[5, 2, %d, 4]]" % 2**64, TIMELINE_FACTS, f"{2**64} B of activation"),
    ("tidy.csv", FILES["tidy.csv"][0][:30], TIDY, "in the middle of a line"),
    ("tidy.csv", b"", TIDY, "the file is empty"),
    (TIMM, bytes(range(256)) * 8, GPU, "found no file of a format"),
], ids=lambda value: value[:24] if isinstance(value, str) else "")  # fmt: skip
def test_a_refused_import_prints_one_sentence_and_writes_no_record(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes,
    words: tuple[str, ...],
    reason: str,
) -> None:
    assert run(tmp_path, name, content, *words) == 1
    assert read_records("s", tmp_path / "data", ImportedRecord) == ()
    sentence = capsys.readouterr().err
    assert reason in sentence and "git" not in sentence
    assert sentence.startswith(name) and sentence.endswith(".\n") and sentence.count("\n") == 1


@given(st.sampled_from(list(FILES)), st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4))))
@settings(deadline=None, max_examples=60)
def test_damaged_files_are_read_or_refused(name: str, changes: list[tuple[float, bytes]]) -> None:
    """Replace bytes of a valid file at random places."""
    content = bytearray(FILES[name][0])
    for position, new in changes:
        start = int(position * len(content))
        content[start : start + len(new)] = new
    words = dict(word.split("=") for word in FILES[name][1] if "=" in word)
    try:
        read_any(ImportSource(name, bytes(content), {"device": "some GPU", **words}))
    except RidgepointError as error:
        assert str(error).startswith(name) and "\n" not in str(error)


def test_invalid_options_or_one_unusable_file_write_no_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ("--address", "javascript:alert(1)"),
        ("--commit", "main"),
        ("--licence", "as you like!"),
        ("--study", "../elsewhere"),
        ("--set", "precision"),
    ):
        assert run(tmp_path, TIMM, TABLE, *words) == 2
        assert words[0] in capsys.readouterr().err
    (tmp_path / "x.json").write_bytes(b"{}")
    files = (str(tmp_path / TIMM), str(tmp_path / "x.json"))
    options = ("--study", "s", "--origin", "X", "--licence", "MIT")
    assert main(["import", *files, *options, "--records", str(tmp_path / "data")]) == 1
    assert not (tmp_path / "data").exists()
