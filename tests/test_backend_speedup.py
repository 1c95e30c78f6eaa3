"""The study on made-up records of closed forms: values, verdicts, and theory by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from report.paper.findings import Findings, Inputs
from report.records.layers import Activation, Layer, Linear, Softmax
from report.records.record import Case, Record
from report.studies.backend_speedup.measured import (
    CUPY,
    NUMPY,
    ON_GPU,
    TORCH_CUDA,
    VARIANTS,
    Run,
    Variant,
    runs,
)
from report.studies.backend_speedup.memory import filling
from report.studies.backend_speedup.model import models
from report.studies.backend_speedup.study import findings
from report.studies.backend_speedup.subject import (
    Setting,
    activation_count,
    components,
    iteration,
    kinds,
    parameter_count,
    perceptron_arrays,
    total,
)
from report.studies.backend_speedup.theory import least
from report.theory.work import training_macs
from tests import factory
from tests.papers import assert_whole, inputs_of, manuscript, reported, value, value_of

STUDY = "backend_speedup"
REPORTED = reported(STUDY)
IMAGES = 100
TORCH, JAX, COMPILED = VARIANTS[1:4]


# ------------------------------------------------------------------------------ made-up records


def perceptron_layers(hidden: int, samples: int) -> tuple[Layer, ...]:
    source, middle, scores = (samples, 784), (samples, hidden), (samples, 10)
    return (
        Linear(name="a", input_shape=source, output_shape=middle, dtype="float32", bias=True),
        Activation(
            name="r", input_shape=middle, output_shape=middle, dtype="float32", function="relu"
        ),
        Linear(name="b", input_shape=middle, output_shape=scores, dtype="float32", bias=True),
        Softmax(name="s", input_shape=scores, output_shape=scores, dtype="float32", log=False),
    )


#: What a call of every library costs (s), and what its products reach alone (FLOP/s).
CALL_S, PRODUCT_RATE = 2e-6, 1e11


def base(setting: Setting) -> float:
    """The time (s) of an iteration with NumPy."""
    return 1e-4 + 1e-9 * total(setting).flops


def times(setting: Setting, variant: Variant, speed: float) -> dict[str, Sequence[float]]:
    """Times of a library that is ``speed`` times as fast as NumPy in every operation."""
    whole = base(setting) / speed
    found = {"time": whole}
    if variant.eager:
        work = 2 * setting.hidden * 784 * setting.samples
        found |= {f"{kind}_time": whole / 8 for kind in kinds()}
        found |= {
            "matrix_product_time": whole * 3 / 8, "forward_time": 0.4 * whole,
            "backward_time": 0.6 * whole, "call_time": CALL_S,
            "product_alone_time": work / PRODUCT_RATE,
        }  # fmt: skip
    series: dict[str, Sequence[float]] = {
        name: factory.scattered(centre, 0.02, 15) for name, centre in found.items()
    }
    return series | {"first_call_time": [(10 if variant.eager else 100) * base(setting)]}


def memory(setting: Setting, variant: Variant) -> dict[str, Sequence[int]]:
    size = components(setting)
    found = {
        f"allocated_{name}": getattr(size, name) + filling(setting, variant, name)
        for name in ("parameters", "input", "activations", "gradients")
    }
    found |= {"resident_start": 10_000_000, "resident_first_use": 60_000_000}
    return {name: [amount] for name, amount in found.items()}


def courses(offset: float) -> dict[str, Sequence[float]]:
    shares = [min(0.9, 0.1 + 0.05 * k) for k in range(31)]
    return {
        "train_loss": [2.3 * 0.9**k * (1 + offset) for k in range(31)],
        "train_accuracy": shares,
        "test_accuracy": shares,
    }


def case_of(
    setting: Setting, variant: Variant, process: int, series: dict[str, Sequence[Any]]
) -> Case:
    factors = {
        **setting.factors,
        "backend": variant.backend,
        "execution": variant.execution,
    }
    layers = perceptron_layers(setting.hidden, setting.samples)
    return Case(
        factors=factors,
        status="ok",
        reason=None,
        layers=layers,
        series=(),
        rounds=(factory.round_(process, series),),
    )


TRAINED = Setting("training", "float32", IMAGES, "digits")


def absent(variant: Variant) -> Case:
    case = case_of(TRAINED, variant, 1, {})
    reason = f"{variant.backend} computes on a GPU; measure it with --device cuda where one is."
    return msgspec.structs.replace(case, status="unavailable", reason=reason, layers=(), rounds=())


#: Library → how many times as fast as NumPy it is at a setting.
Speeds = dict[Variant, Callable[[Setting], float]]

SPEEDS: Speeds = {
    NUMPY: lambda setting: 1.0,
    TORCH: lambda setting: 2.0 if setting.samples > 1000 else 0.5,
    JAX: lambda setting: 3.0,
    COMPILED: lambda setting: 4.0,
}


#: So many processes bear a claim on several comparisons at 95 %.
MANY = tuple(range(1, 12))


def cases(speeds: Speeds, processes: Sequence[int] = (1, 2), noise: float = 0.0) -> list[Case]:
    """Each case once for every process; ``record`` makes one case of all rounds of a case.

    ``noise`` makes the processes of every library differ, those of NumPy the other way.
    """
    settings = [
        TRAINED,
        *(Setting("scaling", "float32", IMAGES, "digits", h) for h in (10, 64, 512)),
        *(Setting("scaling", "float64", IMAGES, "digits", h) for h in (10, 512)),
        *(Setting("scaling", "float32", m, "digits") for m in (1000, 4000, 60000)),
    ]
    return [
        case_of(
            setting,
            variant,
            process,
            _series(setting, variant, process, speed(setting) * _drift(process, variant, noise)),
        )
        for setting in settings
        for variant, speed in speeds.items()
        for process in processes
    ]


def _drift(process: int, variant: Variant, noise: float) -> float:
    """Odd processes of a library are faster and even ones slower, those of NumPy reversed."""
    return float((1 + noise) ** (-1 if (process % 2 == 0) != (variant == NUMPY) else 1))


def _series(
    setting: Setting, variant: Variant, process: int, speed: float
) -> dict[str, Sequence[Any]]:
    found: dict[str, Sequence[Any]] = dict(times(setting, variant, speed))
    if process == 1:
        found |= memory(setting, variant)
        if setting.subject == "training":
            found |= courses(0.0 if variant == NUMPY else 1e-7)
    return found


def record(
    speeds: Speeds = SPEEDS,
    processes: Sequence[int] = (1, 2),
    noise: float = 0.0,
    **change: Any,
) -> Record:
    lacking = (absent(v) for v in ON_GPU if v not in speeds)
    made = [*factory.merged(cases(speeds, processes, noise)), *lacking]
    return factory.record(made, study="backend_speedup", **change)


def inputs(*records: Record) -> Inputs:
    identity = {
        "name": "digits",
        "source": "some digits",
        "split": "25 of 125 images are held out",
        "classes": list("0123456789"),
        "train": {"images": IMAGES},
        "test": {"images": 25},
    }
    return inputs_of(STUDY, *records, files={"images.json": json.dumps(identity).encode()})


def verdicts(found: Findings, key: str) -> dict[str, str]:
    """The verdicts on one machine, by the names of the claims."""
    ending = f"-{key}"
    return {
        id_.removesuffix(ending): claim.verdict
        for id_, claim in found.claims.items()
        if id_.endswith(ending)
    }


def one_thread() -> Record:
    machine = factory.environment("example-1t", threads=1)
    return record(machine=machine)


@pytest.fixture(scope="module")
def found() -> Findings:
    return findings(inputs(one_thread()))


@pytest.fixture(scope="module")
def many() -> Findings:
    return findings(inputs(record(processes=MANY)))


def run_of(one: Record) -> Run:
    (found,) = runs([factory.stored(one)])
    return found


# --------------------------------------------------------------------------- theory and source


@pytest.mark.parametrize(("hidden", "samples"), [(10, 1), (10, 1438), (128, 60_000)])
def test_the_steps_are_the_multiply_adds_of_the_layers(hidden: int, samples: int) -> None:
    setting = Setting("scaling", "float32", samples, "digits", hidden)
    assert total(setting).macs == training_macs(perceptron_layers(hidden, samples))
    steps = sum(step.flops for step in iteration(setting))
    assert sum(total(setting, kind).flops for kind in kinds()) == steps


def test_the_network_in_numbers_typed_by_hand() -> None:
    one = Setting("scaling", "float32", 1, "")
    assert parameter_count() == 7_960
    assert total(one).macs == 2 * 7_840 + 3 * 100
    assert activation_count(one) == 2 * (10 + 10)
    assert (components(one).parameters, components(one).input) == (31_840, 4 * (784 + 10))


# ---------------------------------------------------------------------------------- the record


def test_values_of_a_record_are_what_was_put_in(found: Findings) -> None:
    expected = {
        "source_speedup": 2.8, "audited": 21, "differing": 4, "hidden": 10, "parameters": 7_960,
        "train_images": IMAGES, "run_iterations": 30, "processes": 2, "timed_cases": 28,
        "few_processes": 28, "fewest_processes": 2, "rounds": 72, "rounds_disturbed": 0,
        "numpy_time": base(TRAINED), "speedup_torch": 0.5, "speedup_jax": 3.0,
        "matrix_product_share": 3 / 8, "softmax_share": 1 / 8, "widest": 512,
        "large_samples": 60_000, "first_width": 4.0, "last_images": 4.0, "double_narrow": 1.0,
        "double_wide_width": 512, "call_numpy": CALL_S, "call_torch": CALL_S,
        "iteration_calls": 31, "framework_numpy": 50_000_000, "framework_most": 50_000_000,
        "accuracy": 0.9, "accuracy_spread": 0, "loss_difference": 0.1, "test_images": 25,
    }  # fmt: skip
    assert {id_: value(found, id_) for id_ in expected} == {
        id_: pytest.approx(each, rel=0.03, abs=1e-12) for id_, each in expected.items()
    }
    run = run_of(one_thread())
    assert [made.variant for made in models(run)] == [NUMPY, TORCH, JAX]
    rates = [value_of(made.rate(h)) for made in models(run) for h in (10, 64, 512)]
    assert rates == [pytest.approx(PRODUCT_RATE, rel=0.02)] * 9


VERDICTS = {
    "converge": "supported", "same-memory": "supported", "overhead": "not comparable",
    "faster-torch": "undecided", "faster-jax": "undecided", "faster-jax_compiled": "undecided",
    "grows-width": "undecided",
    "grows-images": "undecided",
}  # fmt: skip


def test_few_processes_decide_no_time_and_a_processor_no_claim_about_a_gpu(
    found: Findings, many: Findings
) -> None:
    assert verdicts(found, "example-1t") == VERDICTS
    assert verdicts(many, "example-2t") == VERDICTS | {
        "faster-torch": "refuted", "faster-jax": "supported", "faster-jax_compiled": "supported",
        "grows-width": "refuted",
        "grows-images": "refuted",
    }  # fmt: skip
    of_source = {"convolution", "parameter-memory", "input-memory", "same-iteration"}
    assert {found.claims[id_].verdict for id_ in of_source} == {"refuted"}
    assert_whole(STUDY, found)


def test_the_bound_is_work_or_traffic_over_the_ceilings() -> None:
    setting = Setting("scaling", "float32", 1000, "digits")
    bound = least(run_of(one_thread()), setting, NUMPY)
    # Traffic at 30 GB/s bounds every operation of so narrow a network.
    assert bound == pytest.approx(4 * total(setting).elements / 3e10, rel=0.02)


# ----------------------------------------------------------------------------------- beside a GPU

GPU_KEY = "example-gpu"


def on_gpu(processes: Sequence[int] = (1, 2)) -> Record:
    """A GPU's run: CuPy is slower than NumPy where there is little work."""
    speeds: Speeds = {
        NUMPY: lambda setting: 1.0,
        TORCH_CUDA: lambda setting: 0.5 if setting.samples * setting.hidden < 5000 else 40.0,
        CUPY: lambda setting: 0.4 if setting.samples * setting.hidden < 5000 else 20.0,
    }
    machine = factory.environment(GPU_KEY, gpu=factory.GPU, threads=16)
    return record(speeds, processes, machine=machine, started="2026-11-03T10:00:00Z")


@pytest.fixture(scope="module")
def both() -> Findings:
    return findings(inputs(on_gpu(), one_thread()))


def test_a_gpu_has_a_section_that_changes_nothing_of_the_processor(
    found: Findings, both: Findings
) -> None:
    for id_, claim in found.claims.items():
        assert both.claims[id_] == claim, id_
    changed = {id_ for id_, value in found.values.items() if both.values[id_] != value}
    assert {id_ for id_ in changed if not id_.startswith("gpu_")} == set()
    text = assert_whole(STUDY, both, latex=True)
    assert [id_ for id_ in (*both.tables, *both.figures) if f"{{#{id_}" not in text] == []
    assert f"tbl-performance-{GPU_KEY}" in both.tables
    assert "{#sec-gpu}" not in manuscript(STUDY, found)
    expected = {
        "gpu_small_torch_cuda": 0.5, "gpu_small_cupy": 0.4, "gpu_wide_torch_cuda": 40,
        "gpu_wide_cupy": 20, "gpu_many_cupy": 20, "gpu_threads": 16, "gpu_wide_width": 512,
        "gpu_many_images": 60_000, "gpu_images_ratio": 600, "gpu_many_matrix_product": 20,
        "gpu_relu_ratio": 1.25,
    }  # fmt: skip
    assert {id_: value(both, id_) for id_ in expected} == {
        id_: pytest.approx(each, rel=0.03) for id_, each in expected.items()
    }


def test_arrays_on_a_gpu_take_whole_blocks() -> None:
    setting = Setting("training", "float32", 1438, "digits")
    taken = {
        name: getattr(components(setting), name) + filling(setting, CUPY, name)
        for name in ("parameters", "input", "activations", "gradients")
    }
    # As PyTorch and CuPy told them on a GPU.
    assert taken == {
        "parameters": 33_280,
        "input": 4_567_552,
        "activations": 231_424,
        "gradients": 33_280,
    }
    assert filling(setting, NUMPY, "parameters") == 0
    arrays = perceptron_arrays(setting)
    assert 4 * sum(arrays["activations"]) == components(setting).activations
