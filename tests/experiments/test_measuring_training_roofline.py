"""The study of training: its plan, photographs from a folder, and the quick plan end to end."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import ROOT, measured

from experiments.datasets import DataSetError
from experiments.datasets.image_folder import identity, photographs
from experiments.harness import sensors
from experiments.harness.listing import listing
from experiments.harness.selection import select
from experiments.harness.study import Factors, Session, UsageError
from experiments.training_layers import layers
from experiments.training_roofline import STUDY, prepare
from report.instruments.trace import read_trace
from report.records.layers import Convolution, Linear
from report.records.record import Case, Record
from report.theory.work import macs, training_macs


def plan(
    *settings: str, quick: bool = False, gpu: bool = False, images: bool = False
) -> list[Factors]:
    study = STUDY.on("cuda" if gpu else "cpu")
    return list(select(study, quick=quick, settings=settings, images=images).cases)


def trained(cases: list[Factors]) -> list[Factors]:
    return [case for case in cases if case["subject"] == "training"]


# ----------------------------------------------------------------------------------------- plan


def test_steps_whole_and_by_layer_are_timed_by_processes_of_their_own() -> None:
    timed = [case for case in plan() if STUDY.is_timed(case)]
    assert timed == [c for c in plan() if c["subject"] in ("training", "profile")]
    assert STUDY.full.protocol.processes["retained"] >= 6


def test_the_plan_holds_what_the_study_asks() -> None:
    cases = trained(plan())
    sizes = {(case["network"], case["image"]) for case in cases}
    assert sizes == {(n, i) for n in ("ResNet-18", "ResNet-50", "MobileNetV2") for i in (64, 224)}
    for network in ("ResNet-18", "ResNet-50", "MobileNetV2"):
        own = [case for case in cases if case["network"] == network]
        ways = {(c["precision"], c["layout"]) for c in own if c["batch"] == 32}
        assert len(ways) == 4
        plain = [c["batch"] for c in own if c["image"] == 64 and c["precision"] == "float32"
                 and c["layout"] == "contiguous" and c["execution"] == "eager"]  # fmt: skip
        assert sorted(plain) == [1, 8, 32]


def test_each_step_of_the_ladder_changes_one_thing() -> None:
    for gpu, steps in ((False, 5), (True, 7)):
        names = ("precision", "layout", "execution", "optimizer")
        ways = [
            tuple(case[name] for name in names) for case in trained(plan("sweep=ladder", gpu=gpu))
        ]
        assert len(ways) == steps
        for before, after in pairwise(ways):
            assert sum(a != b for a, b in zip(before, after, strict=True)) == 1
    networks = {case["network"] for case in plan("sweep=ladder", "network=MobileNetV2")}
    assert networks == {"MobileNetV2"}


def test_ceilings_stand_at_both_ends() -> None:
    cases = plan()
    assert (cases[0]["subject"], cases[0]["moment"]) == ("matrix_product", "before")
    assert (cases[-1]["subject"], cases[-1]["moment"]) == ("matrix_product", "after")
    on_gpu = [c["precision"] for c in plan(gpu=True) if c["subject"] == "matrix_product"]
    assert Counter(on_gpu) == {"tfloat32": 2, "bfloat16": 2}


def test_levels_of_ones_own_make_a_case() -> None:
    (case,) = plan(
        "sweep=precision", "network=ResNet-50", "image=96", "batch=5", "precision=bfloat16",
        "layout=channels_last",
    )  # fmt: skip
    assert (case["image"], case["batch"], case["precision"]) == (96, 5, "bfloat16")
    with pytest.raises(UsageError, match="possible are float32, bfloat16"):
        plan("precision=tfloat32")


def test_photographs_are_trained_on_beside_random_images() -> None:
    cases = trained(plan("network=ResNet-18", "batch=8", images=True))
    assert [case["dataset"] for case in cases] == ["synthetic", "folder"]
    assert "workers" not in cases[0] and cases[1]["workers"] == 1


def test_the_list_tells_of_both_devices() -> None:
    told = listing([STUDY])
    assert "full plan:" in told and "full plan with --device cuda:" in told


def test_the_layers_of_cases() -> None:
    (case, *_) = trained(plan("network=MobileNetV2", "batch=8", "sweep=batch"))
    assert layers(case)[0].input_shape == (8, 3, 64, 64)
    assert isinstance(layers(case)[-1], Linear)
    depthwise = [x for x in layers(case) if isinstance(x, Convolution) and x.groups > 1]
    assert len(depthwise) == 17
    product = {"subject": "matrix_product", "precision": "bfloat16", "side": 64}
    (layer,) = layers(product)
    assert macs(layer) == 64**3 and layer.dtype == "bfloat16"
    assert layers({"subject": "sensor", "sensor": "clock"}) == ()


def test_the_study_is_listed_without_torch() -> None:
    program = (
        "import sys; from experiments import registry; "
        "s = registry.load('training_roofline'); [f.levels for f in s.factors]; "
        "assert 'torch' not in sys.modules and 'psutil' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_what_is_counted() -> None:
    counting = STUDY.counting
    assert counting is not None
    cases = plan()
    assert not any(counting.calls(case, False) for case in cases)
    thorough = [case["network"] for case in cases if counting.calls(case, True)]
    assert thorough == ["ResNet-18", "ResNet-50", "MobileNetV2"]
    on_gpu = [case for case in plan(gpu=True) if counting.calls_on_gpu(case, False)]
    assert [case["batch"] for case in on_gpu] == [32, 32, 32]
    assert {case["precision"] for case in on_gpu} == {"float32"}
    one = {**on_gpu[2], "image": 64, "batch": 1}
    assert counting.multiply_adds(one) == pytest.approx(training_macs(layers(one)), rel=0.05)


def test_a_step_that_is_counted_can_be_called_again() -> None:
    pytest.importorskip("torch")
    counting = STUDY.counting
    assert counting is not None
    workload = counting.workload(counting.warm_up, "cpu")
    for _ in range(2):
        workload.reset()
        workload.call()


# ---------------------------------------------------------------------------------- photographs


def photograph(path: Path, size: tuple[int, int] = (50, 40), colour: str = "red") -> None:
    image = pytest.importorskip("PIL.Image")
    path.parent.mkdir(parents=True, exist_ok=True)
    image.new("RGB", size, colour).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes, JPEG and PNG, as Imagenette lies on a disk."""
    for name, colour in (("n01/a.JPEG", "red"), ("n01/b.png", "blue"), ("n02/c.jpg", "green")):
        photograph(tmp_path / "small/train" / name, colour=colour)
    photograph(tmp_path / "small/val/n01/d.png")
    return tmp_path / "small"


def test_a_folder_of_classes(folder: Path) -> None:
    found = photographs(folder)
    assert found.classes == ("n01", "n02")
    assert [(image.path.name, image.label) for image in found.images] == [
        ("a.JPEG", 0),
        ("b.png", 0),
        ("c.jpg", 1),
    ]
    assert photographs(folder / "train") == found


def test_which_photographs_they_were(folder: Path) -> None:
    told = json.loads(identity(photographs(folder)))
    assert told["classes"] == {"n01": 2, "n02": 1} and told["images"] == 3
    assert str(folder) not in identity(photographs(folder)).decode()
    photograph(folder / "train/n02/c.jpg", (70, 70))
    assert json.loads(identity(photographs(folder))) != told


def test_a_folder_that_cannot_be_used(folder: Path, tmp_path: Path) -> None:
    def refused(place: Path, words: str) -> None:
        with pytest.raises(DataSetError, match=words) as caught:
            prepare(Session("cpu", STUDY.quick.protocol, place))
        assert "\n" not in str(caught.value) and str(caught.value).endswith(".")

    refused(tmp_path / "nowhere", "nowhere: cannot be read \\(No such file")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "found no folder with images, expected a folder for each class")
    (folder / "train/n03").mkdir()
    refused(folder, "n03: found no image, expected files ending in .jpeg, .jpg, .png")
    (folder / "train/n03/x.png").write_text("a letter")
    refused(
        folder, "x.png: byte 0: found the bytes 61 20 6c 65, expected the head of a JPEG or PNG"
    )
    (folder / "train/n03/x.png").write_bytes(b"")
    refused(folder, "x.png: byte 0: found an empty file")


def test_batches_of_photographs(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    from experiments.harness.loading import DEVIATION, MEAN, batches

    def take(workers: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return list(
            batches(photographs(folder), 4, 24, count=2, workers=workers, seed=3, pinned=False)
        )

    first, again = take(0), take(0)
    assert len(first) == 2
    for (images, _), (others, _) in zip(first, again, strict=True):
        assert images.shape == (4, 3, 24, 24) and images.dtype == torch.float32
        assert torch.equal(images, others)
    # Every photograph has one colour, which is known before and tells its class.
    colours = {(255, 0, 0): 0, (0, 0, 255): 0, (0, 128, 0): 1}
    for images, labels in (*first, *take(1)):
        for image, label in zip(images, labels.tolist(), strict=True):
            plain = image.flatten(1).T * torch.tensor(DEVIATION) + torch.tensor(MEAN)
            seen = (255 * plain).mean(0)
            nearest = min(colours, key=lambda c: float((seen - torch.tensor(c)).abs().sum()))
            assert (seen - torch.tensor(nearest)).abs().max() < 4
            assert colours[nearest] == label


def test_a_crop_lies_inside_its_image() -> None:
    pytest.importorskip("torch")
    import random

    from experiments.harness.loading import crop

    drawn = random.Random(5).random
    for width, height in ((50, 40), (500, 20), (20, 500), (7, 7)):
        for _ in range(200):
            left, upper, right, lower = crop(width, height, drawn)
            assert 0 <= left < right <= width + 1e-9 and 0 <= upper < lower <= height + 1e-9
            share = (right - left) * (lower - upper) / (width * height)
            assert 0.02 < share <= 1 + 1e-9
    # Where nothing fits: the square in the middle.
    assert crop(1000, 10, lambda: 0.999) == (495.0, 0.0, 505.0, 10.0)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_photograph_ends_in_one_sentence(folder: Path, workers: int) -> None:
    pytest.importorskip("torch")
    from experiments.harness.loading import batches

    for path in (folder / "train").rglob("*.*"):
        path.write_bytes(path.read_bytes()[:200])
    found = batches(photographs(folder), 4, 24, count=1, workers=workers, seed=0, pinned=False)
    with pytest.raises(DataSetError, match=r"cannot be decoded \(.*\); leave it out\.$") as caught:
        next(found)
    assert "\n" not in str(caught.value)


# ----------------------------------------------------------------------------------- end to end


def settings(*words: str) -> tuple[str, ...]:
    return tuple(word for setting in words for word in ("--set", setting))


SMALL = ("network=ResNet-18", "image=32", "batch=2")


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> tuple[Record, Path]:
    data = tmp_path_factory.mktemp("quick")
    words = settings(*SMALL, "layout=contiguous", "side=64", "sweep=batch,profile,sensor,ceiling")
    stored = measured("training_roofline", data, "--threads", "1", *words)
    return stored.record, data / Path(stored.file).with_suffix("")


def of(record: Record, subject: str) -> list[Case]:
    return [case for case in record.cases if case.factors["subject"] == subject]


def test_processes_of_a_case_did_the_same_work(record: tuple[Record, Path]) -> None:
    (case,) = of(record[0], "training")
    assert case.status == "ok"
    assert {round_.status for round_ in case.rounds} == {"ok"} and len(case.rounds) >= 2
    shorter = min(len(round_.samples("step_loss")) for round_ in case.rounds)
    first, *others = (round_.samples("step_loss")[:shorter] for round_ in case.rounds)
    assert all(losses == pytest.approx(first, rel=1e-3) for losses in others)
    for round_ in case.rounds:
        steps = len(round_.samples("time"))
        assert 3 <= steps <= 10
        for quantity in ("forward_time", "backward_time", "update_time", "cpu_time"):
            assert len(round_.samples(quantity)) == steps
        assert len(round_.samples("first_call_time")) == 1
        assert len(round_.samples("warmup_time")) >= 2


def test_memory_is_that_of_parameters_and_their_gradients(record: tuple[Record, Path]) -> None:
    (case,) = of(record[0], "training")
    first, second = case.samples("allocated_before")
    # Parameters, gradients and momentum, then buffers and the batch.
    assert 3 * 4 * 11_689_512 < first == second < 3 * 4 * 11_689_512 + 200_000
    assert case.samples("memory_events")
    assert len(set(case.samples("allocated_peak"))) == 1


def test_layers_of_the_profile(record: tuple[Record, Path]) -> None:
    (case,) = [c for c in of(record[0], "profile") if c.factors["precision"] == "float32"]
    assert len(case.rounds) >= 2
    for round_ in case.rounds:
        directions = ("layer_forward_time", "layer_backward_time")
        for quantity in directions:
            assert len(round_.samples(quantity)) == 3 * len(case.layers)
        whole = sum(sum(round_.samples(quantity)) for quantity in directions)
        assert whole < sum(round_.samples("time"))


def test_the_trace_beside_the_record(record: tuple[Record, Path]) -> None:
    (case,) = [c for c in of(record[0], "profile") if c.factors["precision"] == "float32"]
    (file,) = record[0].attachments
    assert file.name == "trace.resnet-18-32-2-float32-contiguous.json.gz"
    content = (record[1] / file.name).read_bytes()
    assert len(content) < 1_000_000 and b"/home" not in gzip.decompress(content)
    marks = {o.name for o in read_trace(content, file.name).operators if o.mark}
    assert {f"forward {layer.name}" for layer in case.layers} <= marks
    assert {f"backward {layer.name}" for layer in case.layers} <= marks


def test_ceilings_and_sensors(record: tuple[Record, Path]) -> None:
    products = of(record[0], "matrix_product")
    assert [case.factors["moment"] for case in products] == ["before", "after"]
    for case in products:  # of bfloat16, which a processor that emulates it is not asked for
        assert (case.status == "ok") == bool(case.samples("time"))
        assert case.status == "ok" or "emulates bfloat16" in str(case.reason)
    for case in of(record[0], "sensor"):
        quantity = sensors.SENSORS[str(case.factors["sensor"])]
        assert (case.status == "ok") == bool(case.samples(quantity))
        assert case.status in ("ok", "unavailable")


def test_training_on_photographs(folder: Path, tmp_path: Path) -> None:
    words = ("--threads", "1", *settings(*SMALL, "sweep=batch"), "--data", str(folder))
    stored = measured("training_roofline", tmp_path / "data", *words)
    plain, real = stored.record.cases
    assert plain.samples("loader_wait_time") == ()
    assert len(real.samples("loader_wait_time")) == len(real.samples("time"))
    assert [file.name for file in stored.record.attachments] == ["images.json"]
    assert "small" in stored.record.command and str(folder) not in stored.record.command
