"""Published files become records that say where they are from; what is not said is not guessed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from experiments.__main__ import main
from report.records.imported import ImportedRecord
from report.records.imported_files import list_imports
from report.records.store import read_attachment

HERE = Path(__file__).parent / "imported"
TIMM = HERE / "timm" / "benchmark-infer-amp-nchw-pt113-cu117-rtx3090.csv"


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
