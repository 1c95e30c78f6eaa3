"""The study of inference: its plan, its ways to run a network, and what cannot be run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import isclose
from typing import Any

import msgspec
import pytest
from conftest import measured

from experiments import inference_memory as study
from experiments import inference_refusals as refusals
from experiments import inference_scores as scores
from experiments import inference_sweeps as sweeps
from experiments.harness.outcomes import NotStartedError, UnavailableError
from experiments.harness.selection import default_levels, select
from experiments.harness.study import Device, Factors, Session, UsageError
from experiments.harness.sweep import run_case
from report.records.layers import Convolution
from report.records.record import Record
from report.theory.liveness import Conditions, peak, peaks
from report.theory.work import macs

STUDY = study.STUDY
FULL = STUDY.cases(default_levels(STUDY, quick=False))
QUICK = STUDY.cases(default_levels(STUDY, quick=True))


def of(subject: str, cases: tuple[Factors, ...] = FULL, **where: object) -> list[Factors]:
    wanted = {"subject": subject, **where}
    return [case for case in cases if wanted.items() <= case.items()]


def only(name: str, **levels: tuple[object, ...]) -> tuple[Factors, ...]:
    """The cases of one set."""
    chosen = {**default_levels(STUDY, quick=False), "sweep": (name,), **levels}
    return STUDY.cases(chosen)


# ------------------------------------------------------------------------------------- the plan


def test_every_case_is_there_once_and_names_no_set() -> None:
    assert len({frozenset(case.items()) for case in FULL}) == len(FULL)
    assert not any("sweep" in case for case in FULL)
    assert all(STUDY.effort(case) > 0 for case in FULL)
    union = {frozenset(case.items()) for name in sweeps.SWEEPS for case in only(name)}
    assert union == {frozenset(case.items()) for case in FULL}


def test_inference_cases_have_the_same_factors() -> None:
    always = {"subject", "network", "image", "batch", "layout", "precision", "execution"}
    for case in of("inference"):
        assert set(case) - always <= {"tile", "memory_limit"}
        assert always <= set(case)
        assert ("tile" in case) == str(case["execution"]).startswith("tiled")


@pytest.mark.parametrize(
    ("device", "batches"),
    [("cpu", [1, 2, 8, 16, 64, 256]), ("cuda", [2**n for n in range(11)])],
)
def test_batches_grow_in_both_layouts_of_every_residual_network(
    device: Device, batches: list[int]
) -> None:
    study = STUDY.on(device)
    cases = study.cases(default_levels(study, quick=False))
    for network in ("LeNet-5", *sweeps.RESNETS):
        for layout in sweeps.LAYOUTS:
            found = of(
                "inference", cases, network=network, layout=layout, precision="float32",
                execution="eager", image=32,
            )  # fmt: skip
            asked = [case["batch"] for case in found if "memory_limit" not in case]
            assert asked == batches


def test_amp_with_layout_has_all_four_at_the_largest_batches() -> None:
    for network in sweeps.RESNETS:
        found = [case for case in only("amp_layout") if case["network"] == network]
        for batch in (64, 256):
            ways = [(c["precision"], c["layout"]) for c in found if c["batch"] == batch]
            assert ways == [(p, way) for p in ("float32", "bfloat16") for way in sweeps.LAYOUTS]
        assert {case["batch"] for case in found} == {64, 256}


def test_one_case_cannot_be_held_by_the_machine_that_was_planned_for() -> None:
    (large,) = of("inference", batch=640)
    layers = STUDY.layers(large)
    assert refusals.needed_bytes(layers) < 18e9  # so that it is started there
    assert 24.9e9 < peak(layers, Conditions()).total < 26e9


def test_tiling_has_its_untiled_base_and_every_tile_in_every_form() -> None:
    found = only("tiling")
    assert found[0]["execution"] == "eager"
    assert len(found) == 1 + 3 * 4
    assert {case["image"] for case in found} == {224}
    assert {case["batch"] for case in found} == {2}


def test_what_is_compared_stands_together() -> None:
    """Nothing else comes between cases of the same network, image and batch."""
    keys = [(c["network"], c["image"], c.get("memory_limit"), c["batch"]) for c in of("inference")]
    changes = sum(a != b for a, b in pairwise(keys))
    assert changes == len(set(keys)) - 1


def test_training_comes_before_what_it_is_for() -> None:
    subjects = [case["subject"] for case in FULL]
    assert subjects.index("training") < subjects.index("accuracy")
    assert [case["precision"] for case in of("accuracy")] == list(sweeps.PRECISIONS)
    assert {case["network"] for case in (*of("training"), *of("accuracy"))} == {"ResNet-110"}
    assert {case["network"] for case in of("training", QUICK)} == {"ResNet-20"}


def test_settings_choose_levels_and_other_batches() -> None:
    chosen = select(
        STUDY, quick=False, settings=("sweep=batch", "network=AlexNet", "batch=3,4096,512")
    )
    assert {case["batch"] for case in chosen.cases} == {3, 4096}
    with pytest.raises(UsageError, match="no case"):
        select(STUDY, quick=False, settings=("sweep=tiling", "network=AlexNet"))


def test_a_folder_of_images_takes_the_place_of_the_digits() -> None:
    chosen = select(STUDY, quick=False, settings=("sweep=precision",), images=True)
    assert {case["dataset"] for case in of("accuracy", chosen.cases)} == {"cifar10"}


def test_multiply_adds_are_about_those_of_the_layers() -> None:
    pytest.importorskip("torch")
    for network in sweeps.NETWORKS:
        case = sweeps.inference(network, 2)
        exact = sum(macs(layer) for layer in STUDY.layers(case))
        assert isclose(sweeps.gmacs(case) * 1e9, exact, rel_tol=0.05)
    large = sweeps.inference("ResNet-20", 8, image=224)
    exact = sum(macs(layer) for layer in STUDY.layers(large))
    assert isclose(sweeps.gmacs(large) * 1e9, exact, rel_tol=0.05)


# --------------------------------------------------------------------------------- ways to run


@pytest.fixture
def session() -> Session:
    pytest.importorskip("torch")
    protocol = msgspec.structs.replace(
        STUDY.quick.protocol, minimum_samples=2, maximum_samples=2, warmup_calls=0
    )
    return Session("cpu", protocol)


pytestmark = pytest.mark.usefixtures("one_thread")


def output(factors: Factors) -> Any:
    return study.build(factors, "cpu").call()


@pytest.mark.parametrize(
    ("network", "changes"),
    [
        ("ResNet-20", {"execution": "folded"}),
        ("ResNet-110", {"execution": "folded"}),
        ("AlexNet", {"execution": "folded"}),
        ("CIFAR", {"execution": "folded"}),
        ("ResNet-20", {"layout": "channels_last"}),
        *(("ResNet-20", {"execution": form, "image": 64, "tile": 16}) for form in sweeps.TILED),
    ],
)
def test_every_way_to_run_a_network_gives_the_same_scores(
    network: str, changes: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch")
    image = {name: size for name, size in changes.items() if name == "image"}
    plain = output(sweeps.inference(network, 2, **image))
    found = output(sweeps.inference(network, 2, **changes))
    torch.testing.assert_close(found, plain, rtol=1e-3, atol=1e-3 * float(plain.abs().max()))


def test_folding_uses_the_running_statistics() -> None:
    """Statistics of a new network are 0 and 1, which would hide a wrong fold."""
    torch = pytest.importorskip("torch")
    from experiments.networks.cifar_resnet import cifar_resnet
    from experiments.networks.variants import folded

    torch.manual_seed(0)
    network = cifar_resnet(20).train()
    source = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        for _ in range(3):
            network(3 * source + 1)
        network.eval()
        wanted = network(source)
        made = folded(network)
        torch.testing.assert_close(made(source), wanted, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(network(source), wanted)
    kinds = {type(module) for module in made.modules()}
    assert torch.nn.BatchNorm2d not in kinds
    assert all(m.inplace for m in made.modules() if isinstance(m, torch.nn.ReLU))


def test_reduced_precision_is_near_and_leaves_the_weights_alone() -> None:
    torch = pytest.importorskip("torch")
    plain = output(sweeps.inference("ResNet-20", 2))
    reduced = output(sweeps.inference("ResNet-20", 2, precision="bfloat16"))
    assert (plain.dtype, reduced.dtype) == (torch.float32, torch.bfloat16)
    scale = float(plain.abs().max())
    assert float((reduced.float() - plain).abs().max()) < 0.1 * scale
    assert not torch.is_autocast_enabled("cpu")


def test_compiling_gives_the_same_scores() -> None:
    torch = pytest.importorskip("torch")
    from experiments.networks import variants

    if not any(map(variants.shutil.which, variants.COMPILERS)):
        pytest.skip("no C++ compiler")
    compiled = output(sweeps.inference("LeNet-5", 2, execution="compiled"))
    torch.testing.assert_close(compiled, output(sweeps.inference("LeNet-5", 2)))


def test_without_a_compiler_a_compiled_case_is_unavailable(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.networks import variants

    monkeypatch.setattr(variants.shutil, "which", lambda name: None)
    case, _ = run_case(STUDY, sweeps.inference("LeNet-5", 2, execution="compiled"), session)
    assert case.status == "unavailable"
    assert "C++ compiler" in str(case.reason)


# --------------------------------------------------------------------------- what is measured


def test_a_timed_case_has_durations_events_and_bytes(session: Session) -> None:
    case, files = run_case(STUDY, sweeps.inference("LeNet-5", 64), session)
    assert case.status == "ok"
    assert STUDY.is_timed(case.factors)
    times = {one.quantity: one.samples for one in study.time_case(case.factors, session)}
    for quantity in ("time", "cpu_time", "page_faults", "voluntary_switches"):
        assert len(times[quantity]) == 2
    assert len(set(case.samples("allocated_peak"))) == 1
    assert len(case.samples("allocated_peak")) == 3
    assert [file.name for file in files] == ["trace.lenet-5-64-contiguous.json.gz"]


def test_a_long_case_measures_its_bytes_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "_ONCE_FROM", 0.0)
    case, _ = run_case(STUDY, sweeps.inference("LeNet-5", 2), session)
    assert len(case.samples("allocated_peak")) == 1


@pytest.mark.parametrize(
    "large",
    [
        sweeps.inference("ResNet-20", 1, execution="tiled_blocks", tile=16),
        sweeps.inference("ResNet-20", 1, precision="bfloat16"),
    ],
)
def test_events_that_would_fill_megabytes_are_left_out_and_their_peak_is_not(
    session: Session, large: Factors
) -> None:
    case, _ = run_case(STUDY, large, session)
    assert (case.status, case.samples("memory_events")) == ("ok", ())
    assert len(set(case.samples("allocated_peak"))) == 1


def test_where_only_memory_is_wanted_nothing_is_timed(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "is_timed", lambda factors: False)
    case, _ = run_case(STUDY, sweeps.inference("LeNet-5", 2), session)
    assert case.samples("time") == ()
    assert len(case.samples("allocated_peak")) == 3
    monkeypatch.undo()
    assert not sweeps.is_timed(sweeps.inference("VGG-16", 8))
    assert sweeps.is_timed(sweeps.inference("VGG-16", 2))


@pytest.mark.parametrize(
    ("case", "timed"),
    [
        (sweeps.inference("AlexNet", 8), True),
        (sweeps.inference("AlexNet", 16), False),
        (sweeps.inference("ResNet-44", 8), True),
        (sweeps.inference("ResNet-44", 8, "channels_last"), False),
        (sweeps.inference("ResNet-44", 64, "channels_last"), True),
        (sweeps.inference("ResNet-110", 8, "channels_last"), True),
        (sweeps.inference("ResNet-110", 256), False),
        (sweeps.inference("VGG-16", 2, execution="folded"), True),
        (sweeps.inference("VGG-16", 2, execution="compiled"), False),
    ],
)
def test_a_processor_times_what_its_minutes_hold(case: Factors, timed: bool) -> None:
    assert STUDY.is_timed(case) == timed
    assert study.is_timed(case)


def test_float16_without_kernels_is_measured_on_one_image_only(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "has_float16_kernels", lambda: False)
    scored: Factors = {"subject": "accuracy", "network": "ResNet-20", "dataset": "digits"}
    for refused in (
        sweeps.inference("LeNet-5", 2, precision="float16"),
        {**scored, "precision": "float16"},
    ):
        case, _ = run_case(STUDY, refused, session)
        assert case.status == "unavailable"
        assert "no float16 kernels" in str(case.reason)
    case, _ = run_case(STUDY, sweeps.inference("LeNet-5", 1, precision="float16"), session)
    assert case.status == "ok"
    refusals.refuse_float16(refused, "cuda")
    monkeypatch.setattr(refusals, "has_float16_kernels", lambda: True)
    refusals.refuse_float16(refused, "cpu")


@pytest.mark.parametrize("network", sweeps.NETWORKS)
def test_the_lower_bound_is_below_what_theory_needs(network: str) -> None:
    """Else a case that fits might not be started."""
    layers = STUDY.layers(sweeps.inference(network, 64))
    needed = peaks(layers, Conditions(in_place=True))[1].needed
    bound = refusals.needed_bytes(layers)
    assert bound <= needed
    assert bound > max(4 * _elements(layer) for layer in layers if isinstance(layer, Convolution))


def _elements(layer: Convolution) -> int:
    batch, channels, height, width = layer.output_shape
    return batch * channels * height * width


def test_a_case_that_cannot_fit_is_not_started(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "build", lambda *_: pytest.fail("it was started"))
    with pytest.raises(NotStartedError, match="Not started"):
        study.measure_case(sweeps.inference("VGG-16", 10**6), session)


def test_a_limit_is_one_of_a_cpu(session: Session) -> None:
    with pytest.raises(UnavailableError):
        study.measure_case(
            sweeps.inference("LeNet-5", 2, memory_limit=128), replace(session, device="cuda")
        )


# ------------------------------------------------------------------------------ trained scores


@pytest.fixture
def few_images(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sixty-four images to train on and ten to test on, one epoch."""
    pytest.importorskip("sklearn")
    from experiments.datasets import Split, digits

    images = digits(size=32, channels=3)
    few = replace(
        images,
        train=Split(images.train.pixels[:64], images.train.labels[:64]),
        test=Split(images.test.pixels[:10], images.test.labels[:10]),
    )
    monkeypatch.setattr(scores, "_read", lambda dataset, folder: few)
    monkeypatch.setitem(scores.EPOCHS, ("digits", "cpu"), 1)
    scores._trained.cache_clear()
    yield
    scores._trained.cache_clear()


@pytest.mark.usefixtures("few_images")
def test_every_precision_scores_the_same_weights_image_by_image(session: Session) -> None:
    named = {"network": "ResNet-20", "dataset": "digits"}
    course, files = run_case(STUDY, {"subject": "training", **named}, session)
    assert course.status == "ok"
    assert (len(course.samples("step_loss")), len(course.samples("test_accuracy"))) == (1, 1)
    assert [file.name for file in files] == ["images.json"]
    weights = set()
    for precision in ("float32", "bfloat16"):
        factors = {"subject": "accuracy", **named, "precision": precision}
        case, (file,) = run_case(STUDY, factors, session)
        assert len(case.samples("image_loss")) == len(case.samples("image_correct")) == 10
        assert set(case.samples("image_correct")) <= {0, 1}
        assert file.name == f"weights.resnet-20-{precision}.json"
        weights.add(file.content)
        if precision == "float32":
            loss = sum(case.samples("image_loss")) / 10
            assert isclose(loss, course.samples("test_loss")[-1], rel_tol=1e-5)
            share = sum(case.samples("image_correct")) / 10
            assert isclose(share, course.samples("test_accuracy")[-1])
    assert len(weights) == 1


@pytest.mark.usefixtures("few_images")
def test_the_same_seed_trains_the_same_weights(session: Session) -> None:
    """So that a run that is continued scores the network that it began with."""
    factors = {"network": "ResNet-20", "dataset": "digits"}
    first = scores.weights_digest(scores.trained(factors, session)[0])
    scores._trained.cache_clear()
    assert scores.weights_digest(scores.trained(factors, session)[0]) == first


# -------------------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    words = ["--threads", "1", "--set", "sweep=batch,limit"]
    words += ["--set", "network=LeNet-5,ResNet-20", "--set", "batch=1,64,1024"]
    words += ["--set", "layout=contiguous", "--set", "memory_limit=150"]
    return measured("inference_memory", tmp_path_factory.mktemp("inference"), *words).record


def test_the_command_measures_what_was_chosen(record: Record) -> None:
    free = [case for case in record.cases if "memory_limit" not in case.factors]
    assert [(case.factors["network"], case.factors["batch"]) for case in free] == [
        (network, batch) for network in ("LeNet-5", "ResNet-20") for batch in (1, 64, 1024)
    ]
    assert {case.status for case in free} == {"ok"}
    timed = {case.factors["batch"]: len(case.samples("time")) >= 3 for case in free}
    assert timed == {1: True, 64: True, 1024: False}  # on a processor, of 1,024 images memory only


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits need Linux")
def test_a_small_machine_runs_out_of_memory_at_the_large_batch(record: Record) -> None:
    limited = {c.factors["batch"]: c for c in record.cases if "memory_limit" in c.factors}
    assert (limited[64].status, limited[1024].status) == ("ok", "out_of_memory")
    assert limited[1024].reason == "Memory ran out when 67108864 B more were asked for."
    assert limited[1024].layers[0].output_shape == (1024, 16, 32, 32)
