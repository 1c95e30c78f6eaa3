"""``python -m experiments theory``: tables, JSON and figures of any network.

All commands of ``docs/theory-of-a-network.md`` are run.
"""

import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.theory import capture_cache, operators
from report.theory.network import LARGEST_BATCH
from tests.experiments.conftest import Ask
from tests.test_documents import code_blocks

#: Functions that build networks, most of them faulty.
NETWORKS = """
import os
import sys

import torch
from torch import nn

def build():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 5))

def transformed():
    class Transformed(nn.Module):
        def forward(self, x):
            return torch.fft.rfft(x).real
    return Transformed()

empty = nn.Sequential

def broken():
    raise RuntimeError("no network here")

class Silent(Exception):
    def __str__(self):
        raise ValueError

def silent():
    raise Silent

def ends():
    sys.exit(0)

def ends_at_once():
    os._exit(0)

def without_attributes():
    class WithoutAttributes(nn.Linear):
        def __getattr__(self, name):
            raise BaseException(name)
    return WithoutAttributes(3, 3)

def closes_output():
    print("printed by the network's own code")
    sys.stdout.close()
    return build()
"""


INPUT = ("--input", "2,3,8,8")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my_networks.py"
    path.write_text(NETWORKS)
    return path


@pytest.fixture(autouse=True)
def captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of cached captures, which is empty at first."""
    folder = tmp_path / "cache" / "captures"
    monkeypatch.setattr(capture_cache, "_cache_folder", lambda: folder)
    return folder


@pytest.fixture
def run(file: Path, ask: Ask) -> Ask:
    """Run the command ``theory``; ``{file}`` in the network's name is the path of ``file``."""
    return lambda network, *words: ask("theory", network.format(file=file), *words)


def test_json_output_equals_values_by_hand(run: Ask) -> None:
    code, out, _ = run("{file}:build", *INPUT, "--json")
    result = json.loads(out)
    assert code == 0
    assert result["parameters"] == 8 * 27 + 8 + 8 * 36 * 5 + 5
    assert result["multiply_adds"] == 2 * (36 * 8 * 27 + 8 * 36 * 5)
    assert (result["refused"], result["complete"], result["may_take_more"]) == ([], True, [])
    assert result["inputs"] == [{"dtype": "float32", "shape": [2, 3, 8, 8]}]
    assert [row["class"] for row in result["modules"]] == ["Conv2d", "ReLU", "Flatten", "Linear"]
    # A convolution reads the images, its weights and its bias, and writes the result.
    kinds = {row["name"]: row for row in result["kinds"]}
    assert kinds["convolution"]["bytes"] == 4 * (2 * 3 * 64 + 8 * 27 + 8 + 2 * 8 * 36)
    # At the peak: parameters, the images, and the results of convolution and activation.
    assert result["peak_bytes"] >= 4 * (result["parameters"] + 2 * 3 * 64 + 2 * 2 * 8 * 36)


def test_operators_without_theory_are_named(run: Ask) -> None:
    code, out, err = run("{file}:transformed", "--input", "2,16", "--json")
    result = json.loads(out)
    assert code == 1 and result["refused"] == ["_fft_r2c.default(2×16)"] and "_fft_r2c" in err
    assert result["multiply_adds"] is None and result["peak_bytes"]


BUILD = ("{file}:build",)
WITH_INPUT, WITH_IMAGE = (*BUILD, *INPUT), (*BUILD, "--image", "8")


@pytest.mark.parametrize(("words", "sentence"), [
    (("nothing",), "There is no network 'nothing'"),
    (("study:ResNet-21",), "ResNet-21"),
    (("missing.py:build",), "there is no such file"),
    (("{file}:other",), "has no function 'other'; it has "),
    (("{file}:broken", *INPUT), "no network here"),
    (("{file}:silent", *INPUT), "cannot be built: Silent"),
    (("{file}:ends", *INPUT), ":ends: its code ended in SystemExit: 0."),
    (("{file}:ends_at_once", *INPUT), "_at_once: its code ended in SystemExit: os._exit(0)."),
    (("{file}:without_attributes", *INPUT), "_attributes: its code ended in BaseException: "),
    (BUILD, "is unknown; give it, such as --input N,3,224,224"),
    ((*WITH_IMAGE, "--batch", "9" * 20), "size of a tensor exceeds 64 bits"),
    ((*WITH_IMAGE, "--batch", "-5"), "'-5' is not a whole number of 1 or more"),
    ((*WITH_INPUT, "--accumulate", "0"), "from 1 to 1000"),
    ((*BUILD, "--input", "2x3"), "'2x3' is not possible"),
    ((*BUILD, "--input", "fp16:2,8"), "float16"),
    ((*BUILD, "--input", "tensor:2,8"), "float16"),
    ((*BUILD, "--input", "2,3,8,9"), "cannot be captured"),
    (("{file}:empty", *INPUT, "--fits", "8GB"), "it runs no operator"),
    ((*WITH_INPUT, "--device-peaks", "A99"), "its peaks in float32; give one"),
    ((*WITH_INPUT, "--device-peaks", "a.json"), "no such file"),
    ((*WITH_INPUT, "--allocator", ""), "add --device cuda"),
    ((*BUILD, "--fits", "A99"), "states its memory; give a size"),
    ((*BUILD, "--fits", "8 parsecs"), "16GB"),
    ((*BUILD, "--fits", "record:none.json"), "no such file"),
    ((*WITH_INPUT, "--optimizer", "adafactor", "--update", "fused"), "Adafactor"),
    ((*WITH_IMAGE, "--train", "--checkpoint", "layer9"), "layer9"),
    ((*WITH_IMAGE, "--fits", "T4", "--autocast", "bfloat16"), "--dtype"),
])  # fmt: skip
def test_refused_requests_print_a_sentence(words: tuple[str, ...], sentence: str, run: Ask) -> None:
    code, out, err = run(*words)
    assert code in (1, 2) and not out
    assert sentence in err and err.count("\n") == 1


def test_a_network_may_print_and_close_output(run: Ask) -> None:
    assert run("{file}:closes_output", *INPUT, "--json") == run(*WITH_INPUT, "--json")


def test_a_missing_package_is_reported_at_once(run: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torchvision", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    code, out, err = run("torchvision:resnet50")
    assert code == 1 and not out and err.startswith("torchvision is not installed")


#: A network whose code reads three other files.  The layer has 3 · 2 weights and 2 biases.
SOURCES = {
    "my_network.py": "from helper import layer as build\n",
    "helper.py": """
from pathlib import Path
from torch import nn
from widths import WIDTH
def layer():
    return nn.Linear(3, WIDTH * int(Path(__file__).with_name("factor.txt").read_text()))
""",
    "widths.py": "WIDTH = 2\n",
    "factor.txt": "1",
}


def test_a_cached_capture_is_valid_until_its_files_change(
    tmp_path: Path, captures: Path, run: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    capture, calls = operators.capture, []

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return capture(*args, **options)

    monkeypatch.setattr(operators, "capture", counted)

    def captures_and_parameters(*words: str) -> tuple[int, int]:
        """Run the command as in a new process; return the numbers of captures and parameters."""
        calls.clear()
        for name in ("helper", "widths"):
            sys.modules.pop(name, None)
        _, out, _ = run(f"{tmp_path}/my_network.py:build", "--input", "1,3", "--json", *words)
        return len(calls), json.loads(out)["parameters"]

    def assert_captured_once(parameters: int) -> None:
        """Run the command twice: the second run must use the capture of the first."""
        assert captures_and_parameters() == (1, parameters)
        assert captures_and_parameters() == (0, parameters)

    # Captures of files that changed since the program's start are not stored.
    assert captures_and_parameters() == captures_and_parameters() == (1, 8)
    assert not captures.exists()
    monkeypatch.setattr(capture_cache, "_START_TIME", float("inf"))  # all changes are earlier
    assert_captured_once(parameters=8)
    (tmp_path / "widths.py").write_text("WIDTH = 5\n")
    assert_captured_once(parameters=20)
    (tmp_path / "factor.txt").write_text("2")
    assert_captured_once(parameters=40)
    (entry,) = captures.iterdir()
    content = bytearray(entry.read_bytes())
    altered = content.copy()
    altered[40] ^= 1  # a constant could equal the old byte
    for damaged in (content[:-9], altered, b""):
        entry.write_bytes(damaged)
        assert_captured_once(parameters=40)
    # Training has its own capture; the capture without training stays valid.
    counts = [captures_and_parameters(*words) for words in (("--train",), ("--train",), ())]
    assert counts == [(1, 40), (0, 40), (0, 40)]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # captures depend on variables of PyTorch
    assert captures_and_parameters() == (1, 40)
    # Names are SHA-256 digests; a half-written file would have another name.
    assert {len(path.name) for path in captures.iterdir()} == {64}


@pytest.mark.parametrize("torch", ["raise RuntimeError", "def f(:", "raise SystemExit(0)", ""])
@pytest.mark.parametrize("command", ["doctor", "theory study:LeNet-5", "run conv_scaling --quick"])
def test_a_broken_torch_is_reported_in_one_sentence(
    command: str, torch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    (tmp_path / "torch.py").write_text(torch)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch")
    code, *output = ask(*command.split())
    assert code == 1 and "".join(output).count("PyTorch cannot be imported (") == 1


H100 = "data/conv_scaling/20261122T102337Z-nvidia-h100-80gb-hbm3-1de971c8.json"


@pytest.mark.parametrize("peaks", ["H100", H100])
def test_the_roof_comes_from_a_data_sheet_or_a_record(peaks: str, run: Ask) -> None:
    code, out, _ = run("{file}:build", *INPUT, "--json", "--device-peaks", peaks)
    result = json.loads(out)
    roof = result["roof"]
    assert code == 0 and "H100" in roof["device"]
    assert roof["source"] == ("data sheet" if peaks == "H100" else "measured")
    # The measured rates are lower than those of the data sheet, 67 TFLOP/s and 3.35 TB/s.
    assert 3e13 < roof["flops_per_s"] <= 6.7e13 and 2e12 < roof["bytes_per_s"] <= 3.35e12
    assert result["least_time_s"] == pytest.approx(sum(row["seconds"] for row in result["modules"]))


def test_a_gpus_peak_comes_from_its_allocator(run: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("{file}:build", *INPUT, "--device", "cuda")
    code, out, _ = run(*words, "--json")
    result = json.loads(out)
    assert code == 0 and result["complete"] is False
    assert result["may_take_more"] == ["convolution.default", "addmm.default"]
    # Both layers' weights and biases, the images, and two results, in blocks of 512 B.
    parameter_bytes = 1024 + 512 + 6144 + 512
    assert result["peak_bytes"] == parameter_bytes + 1536 + 2560 + 2560
    assert result["allocator"]["allocated_bytes"] == result["peak_bytes"]
    assert result["allocator"]["reserved_bytes"] == 2 * 2**20
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "large_segment_size_mb:40")
    code, out, err = run(*words)
    assert code == 1 and not out and "large_segment_size_mb: it is not modelled" in err
    code, out, _ = run(*words, "--allocator", "expandable_segments:True")
    assert code == 0 and "Reserved, without workspaces: 2,097,152 B" in out


@pytest.mark.parametrize(
    ("limit", "size"), [("1MB", 10**6), ("T4", 16 * 10**9), (f"record:{H100}", 85_017_493_504)]
)
def test_the_largest_batch_that_fits_is_printed(limit: str, size: int, run: Ask) -> None:
    code, out, _ = run("{file}:build", *INPUT, "--fits", limit, "--json")
    result = json.loads(out)
    first, *larger = result["batches"]
    assert code == 0 and result["limit_bytes"] == size
    assert first["batch"] == result["largest_batch"] and first["peak_bytes"] <= size
    assert first["verdict"] in ("fits", "undecided") and first["peak_categories"]["parameters"]
    assert ("allocator" in first) == (limit != "1MB")
    certain = first["batch"] if first["verdict"] == "fits" else 0
    assert result["largest_certain_batch"] == certain
    # The search tries no batch above LARGEST_BATCH; after a smaller result comes one too large.
    verdicts_above = [] if first["batch"] == LARGEST_BATCH else ["does not fit"]
    assert [batch["verdict"] for batch in larger] == verdicts_above


TEXT = (Path(__file__).parents[2] / "docs" / "theory-of-a-network.md").read_text(encoding="utf-8")
BLOCKS = code_blocks(TEXT, "sh")


@pytest.mark.parametrize(
    "command", [*BLOCKS[0].splitlines(), *BLOCKS[1].splitlines()], ids=lambda line: line[28:]
)
def test_the_commands_of_the_page_run(
    command: str, file: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    if importlib.util.find_spec("torchvision") is None:
        command = command.replace("torchvision:resnet50", "study:ResNet-20")
    monkeypatch.chdir(file.parent)
    command = re.sub(r"study:ResNet-\d+", "study:ResNet-20", command)  # a small network
    command = command.replace("2,3,64,64", "2,3,8,8 --device-peaks A100")
    code, out, _ = ask(*shlex.split(command.removeprefix("python -m experiments")))
    assert code == 0 and ("undecided" if "--fits" in command else "peak") in out.lower()
    drawn = {path.stem for path in file.parent.glob("figures-of-mine/*.svg")}
    figures = {"fits"} if "--fits" in command else {"memory", "roofline"}
    assert drawn == (figures if "--figures" in command else set())
    if "A100" in command:
        assert "Roof: NVIDIA A100 40 GB (data sheet), 19.5 TFLOP/s and 1555 GB/s" in out
        assert "Least time on this roof: " in out


def test_the_example_for_notebooks_runs() -> None:
    (code,) = code_blocks(TEXT, "python")
    names: dict[str, Any] = {}
    exec(compile(code, "theory-of-a-network.md", "exec"), names)
    theory, gpu = names["found"], names["gpu"]
    assert theory.parameters == 64 * 27 + 64 + 64 * 900 * 10 + 10
    assert "<th>Least time (µs)</th>" in theory._repr_html_()
    assert names["frontier"].verdict(names["frontier"].largest) == "undecided"
    assert gpu.peak.total <= gpu.cuda["allocated"] <= gpu.cuda["reserved"]
