"""The plans of all studies, on both devices, without measuring: what holds for every case."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from experiments import registry
from experiments.backends.libraries import ON_CPU, ON_GPU
from experiments.conv_profiling import HELD_OUT, KNOWN
from experiments.harness import counting, measure
from experiments.harness.journal import Journal
from experiments.harness.request import Request
from experiments.harness.study import Device, Factors, Session
from report.errors import UsageError
from report.records.record import Case, Policy
from tests.experiments.conftest import make_environment, make_header

STUDIES = {name: registry.load(name) for name in registry.STUDIES}


def plan(
    name: str, device: Device = "cpu", *settings: str, quick: bool = False, images: bool = False
) -> tuple[Factors, ...]:
    folder = Path() if images else None
    request = Request(name, Path(), device, quick=quick, settings=settings, images=folder)
    return request.selected()[2]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", STUDIES)
def test_every_case_stands_once_and_what_is_counted_fits_into_minutes(
    name: str, device: Device
) -> None:
    pytest.importorskip("torch")
    study, full = STUDIES[name].on(device), plan(name, device)
    assert len({frozenset(case.items()) for case in full}) == len(full)
    assert len(plan(name, device, quick=True)) < len(full)
    for each in (study.full, study.quick):
        assert set(each.processes) <= set(get_args(Policy))
        assert 1 <= each.minimum_samples <= each.maximum_samples
    machine = make_environment(device=device)
    header = make_header(study, cases=full, counters="auto", environment=machine)
    journal = Journal(Path(), header)
    for index, case in enumerate(full):
        journal.finished[index] = Case(factors=case)
    task = counting.to_count(study, Session(device, study.full), journal)
    work = [counting.multiply_adds(study, factors) for _, factors in task.cases]
    # Of two processes under lackey each executes 18 million multiply-adds a second, a case twice.
    assert device == "cuda" or 2 * sum(work) < 600 * 2 * 18e6
    assert work == sorted(work, reverse=True)
    assert bool(work) == (name in {"conv_scaling", "conv_profiling"})


# --------------------------------------------------------------------------- what each compares


@pytest.mark.parametrize("name", ["conv_profiling", "conv_scaling"])
def test_every_call_gives_what_its_last_layer_does(name: str) -> None:
    pytest.importorskip("torch")
    meta: Any = "meta"  # tensors without memory
    for case in plan(name, "cuda"):
        workload = measure.build(STUDIES[name], case, meta)
        workload.once()
        result: Any = workload.call()
        last = measure.layers_of_case(STUDIES[name], case)[-1]
        assert tuple(result.shape) == tuple(last.output_shape), case


def test_conv_profiling_measures_the_shapes_that_it_names() -> None:
    pytest.importorskip("torch")
    for case in plan("conv_profiling"):
        into, out = map(int, str(case["channels"]).split("-"))
        kernel, extent, batch = (int(case[name]) for name in ("kernel", "input", "batch"))
        (layer,) = measure.layers_of_case(STUDIES["conv_profiling"], case)
        assert layer.input_shape == (batch, into, extent - 2, extent - 2)
        taps = batch * out * (extent - 1 - kernel) ** 2 * into * kernel**2
        passes = 3 if case["pass"] == "forward_backward" else 1
        assert counting.multiply_adds(STUDIES["conv_profiling"], case) == passes * taps
    assert not set(KNOWN) & set(HELD_OUT), "what rules were read off is not held out"


@pytest.mark.parametrize(("device", "libraries"), [("cpu", ON_CPU), ("cuda", ("numpy", *ON_GPU))])
def test_every_library_goes_through_the_same_sizes(
    device: Device, libraries: tuple[str, ...]
) -> None:
    sizes: dict[object, list[Factors]] = {library: [] for library in libraries}
    for case in plan("backend_speedup", device):
        if case["dtype"] == "float32":
            sizes[case["backend"]].append({**case, "backend": ""})
    assert all(each == sizes["numpy"] != [] for each in sizes.values())


def test_settings_choose_levels_and_other_batches() -> None:
    found = plan("inference_memory", "cpu", "sweep=peaks", "network=AlexNet", "batch=3,65,64")
    assert {case["batch"] for case in found} == {3, 64}
    with pytest.raises(UsageError, match="no case"):
        plan("inference_memory", "cpu", "sweep=tiling", "network=AlexNet")
    with pytest.raises(UsageError, match="possible are float32, bfloat16"):
        plan("training_roofline", "cpu", "precision=tfloat32")
    # A folder of images takes the place of the study's own.
    cases = plan("backend_speedup", images=True)
    assert {case["dataset"] for case in cases if "dataset" in case} == {"mnist"}
