"""backend_speedup: theory against hand-computed numbers, and the paper of made-up runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from report.errors import StudyError
from report.evidence.remembered import known
from report.missing import Missing
from report.paper.findings import Findings, Inputs
from report.quantity.evaluation import estimate, number, point
from report.quantity.expression import exact
from report.records.layers import Activation, Layer, Linear, Softmax
from report.records.record import Case, Record, Round
from report.statistics.estimates import Estimate
from report.studies.backend_speedup import theory
from report.studies.backend_speedup.measured import (
    CUPY,
    NUMPY,
    ON_GPU,
    TORCH_CUDA,
    VARIANTS,
    Run,
    Variant,
    gpu_run,
    primary_run,
    runs,
)
from report.studies.backend_speedup.memory import filling
from report.studies.backend_speedup.model import Prediction, Rule, errors, model, predictions
from report.studies.backend_speedup.source import amdahl, amdahl_limit, audit
from report.studies.backend_speedup.study import findings
from report.studies.backend_speedup.subject import (
    FEATURES,
    NETWORK_NAMES,
    Setting,
    activation_count,
    components,
    forward_macs,
    iteration,
    kinds,
    parameter_count,
    perceptron_arrays,
    total,
)
from report.studies.backend_speedup.theory import least, source_setting
from report.studies.backend_speedup.threads import thread_pair
from report.studies.backend_speedup.values import from_parts
from report.theory.work import forward_macs as macs_of_layers
from report.theory.work import training_macs
from tests import factory
from tests.papers import assert_whole, inputs_of, manuscript, reported, value

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


def times(setting: Setting, variant: Variant, speed: float) -> dict[str, Sequence[float]]:
    """Times of a library that is ``speed`` times as fast as NumPy in every operation."""
    base = 1e-4 + 1e-9 * total(setting).flops
    parts = {f"{kind}_time": base / 8 / speed for kind in kinds(setting.network)}
    parts["matrix_product_time"] = base * 3 / 8 / speed
    phases = {"forward_time": 0.4 * base / speed, "backward_time": 0.6 * base / speed}
    found = {"time": base / speed, **phases, **parts}
    if not variant.eager:
        found = {"time": base / speed}
    if variant.eager and setting.network == "perceptron":
        work = 2 * setting.hidden * 784 * setting.samples
        found |= {"call_time": CALL_S, "product_alone_time": work / PRODUCT_RATE}
    series: dict[str, Sequence[float]] = {
        name: factory.scattered(centre, 0.02, 15) for name, centre in found.items()
    }
    return series | {"first_call_time": [(10 if variant.eager else 100) * base]}


def memory(setting: Setting, variant: Variant) -> dict[str, Sequence[int]]:
    size, held = components(setting), 50_000_000
    blocks = variant.on_gpu and setting.network == "perceptron"
    found = {
        **{
            f"allocated_{name}": getattr(size, name) + (filling(setting, variant, name) * blocks)
            for name in ("parameters", "input", "activations", "gradients")
        },
        "allocated_peak": size.parameters + size.input + size.activations + 123_456,
        "resident_start": 10_000_000,
        "resident_first_use": 10_000_000 + held,
        "resident_before": 10_000_000 + held + 5_000_000,
        "resident_peak": 10_000_000 + held + size.input + 1000,
    }
    return {name: [amount] for name, amount in found.items()}


def courses(offset: float) -> dict[str, Sequence[float]]:
    losses = [2.3 * 0.9**k * (1 + offset) for k in range(31)]
    shares = [min(0.9, 0.1 + 0.05 * k) for k in range(31)]
    return {
        "train_loss": losses,
        "test_loss": [loss + 0.1 for loss in losses],
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
    layers = (
        perceptron_layers(setting.hidden, setting.samples)
        if setting.network == "perceptron"
        else ()
    )
    return Case(
        factors=factors,
        status="ok",
        reason=None,
        layers=layers,
        series=(),
        rounds=(factory.round_(process, series),),
    )


def absent(variant: Variant) -> Case:
    setting = Setting("training", "perceptron", "float32", IMAGES, "digits")
    case = case_of(setting, variant, 1, {})
    reason = f"{variant.backend} computes on a GPU; measure it with --device cuda where one is."
    return msgspec.structs.replace(case, status="unavailable", reason=reason, layers=(), rounds=())


#: Library → how many times as fast as NumPy it is at a setting.
Speeds = dict[Variant, Callable[[Setting], float]]

SPEEDS: Speeds = {
    NUMPY: lambda setting: 1.0,
    TORCH: lambda setting: 2.0 if setting.samples > 1000 else 0.5,
    COMPILED: lambda setting: 3.0,
}


#: So many processes bear a claim on several comparisons at 95 %.
MANY = tuple(range(1, 12))


def cases(speeds: Speeds, processes: Sequence[int] = (1, 2), noise: float = 0.0) -> list[Case]:
    """Each case once for every process; ``record`` makes one case of all rounds of a case.

    ``noise`` makes the processes of every library differ, those of NumPy the other way.
    """
    trained = Setting("training", "perceptron", "float32", IMAGES, "digits")
    settings = [
        trained,
        Setting("training", "convnet", "float32", IMAGES, "digits"),
        *(Setting("scaling", "perceptron", "float32", IMAGES, "digits", h) for h in (10, 64, 512)),
        *(Setting("scaling", "perceptron", "float64", IMAGES, "digits", h) for h in (10, 512)),
        *(Setting("scaling", "perceptron", "float32", m, "digits") for m in (1000, 4000, 60000)),
        *(Setting("scaling", "perceptron", "float32", m, "digits", 128) for m in (1000, 4000)),
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


def remeasured(one: Record, change: Callable[[Case, Round], Round]) -> Record:
    """The record with other rounds."""
    changed = (
        msgspec.structs.replace(case, rounds=tuple(change(case, found) for found in case.rounds))
        for case in one.cases
    )
    return msgspec.structs.replace(one, cases=tuple(changed))


def inputs(*records: Record) -> Inputs:
    identity = {
        "name": "digits",
        "source": "some digits",
        "split": "25 of 125 images are held out",
        "classes": list("0123456789"),
        "train": {"images": IMAGES},
        "test": {"images": 25},
    }
    library = {
        "name": "numpy",
        "version": "2.4.6",
        "matrix_products": "openblas",
        "device": "cpu",
        "threads": 1,
    }
    files = {
        "images.json": json.dumps(identity).encode(),
        "backend.numpy.json": json.dumps(library).encode(),
    }
    return inputs_of(STUDY, *records, files=files)


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
def empty() -> Findings:
    return findings(inputs())


def run_of(one: Record) -> Run:
    (found,) = runs([factory.stored(one)])
    return found


# --------------------------------------------------------------------------------------- theory


@pytest.mark.parametrize(("hidden", "samples"), [(10, 1), (10, 1438), (128, 60_000)])
def test_the_steps_are_the_multiply_adds_of_the_layers(hidden: int, samples: int) -> None:
    setting = Setting("scaling", "perceptron", "float32", samples, "digits", hidden)
    assert total(setting).macs == training_macs(perceptron_layers(hidden, samples))


def test_the_perceptron_in_numbers_typed_by_hand() -> None:
    assert parameter_count("perceptron") == 7_960
    assert forward_macs("perceptron") == 7_940 == macs_of_layers(perceptron_layers(10, 1))
    one = Setting("scaling", "perceptron", "float32", 1, "")
    assert total(one).macs == 2 * 7_840 + 3 * 100
    assert activation_count(one) == 2 * (10 + 10)
    assert components(one).parameters == 31_840
    assert components(one).input == 4 * (784 + 10)


def test_the_convolution_network_in_numbers_typed_by_hand() -> None:
    one = Setting("scaling", "convnet", "float32", 1, "")
    assert parameter_count("convnet") == 80 + 13_530
    assert forward_macs("convnet") == 72 * 676 + 13_520
    assert total(one).macs == 2 * 72 * 676 + 3 * 13_520
    assert activation_count(one) == 9 * 676 + 2 * 8 * 676 + 1_352 + 20


def test_every_step_has_a_kind_that_is_named() -> None:
    for network in ("perceptron", "convnet"):
        setting = Setting("scaling", network, "float32", 7, "")  # type: ignore[arg-type]
        steps = iteration(setting)
        assert sum(total(setting, kind).flops for kind in kinds(setting.network)) == sum(
            step.flops for step in steps
        )


def test_another_network_is_refused() -> None:
    setting = Setting("training", "perceptron", "float32", IMAGES, "digits")
    case = case_of(setting, NUMPY, 1, {"time": [1e-3]})
    wrong = msgspec.structs.replace(case, layers=perceptron_layers(11, IMAGES))
    with pytest.raises(StudyError, match="multiply-adds, expected"):
        findings(inputs(factory.record([wrong], study="backend_speedup")))


# --------------------------------------------------------------------------------------- source


def test_the_two_findings_on_memory_come_out_of_the_audit() -> None:
    reasons = {check.formula: check.finding for check in audit(REPORTED)}
    assert "one byte an element" in reasons["4 B · pixels · images / 10⁶"]
    assert "thousands of float32 elements" in reasons["4 B · parameters / 10⁶"]


def test_times_and_totals_of_the_source_agree() -> None:
    differing = {c.derived.place for c in audit(REPORTED) if c.verdict == "differs"}
    assert differing == {
        "Table 5, Model parameters, cpu",
        "Table 5, Input data, cpu",
        "Table 5, Intermediate activations, cpu",
        "Table 5, Gradient storage, cpu",
    }


def test_quantities_of_theory_are_those_of_the_shapes() -> None:
    one = {n: Setting("scaling", n, "float32", 1, "") for n in NETWORK_NAMES}
    found = inputs_of(STUDY)
    step = total(source_setting(found))
    products = total(source_setting(found), "matrix_product")
    pairs = {
        theory.PARAMETERS: parameter_count("perceptron"),
        theory.PARAMETER_BYTES: components(one["perceptron"]).parameters,
        theory.FORWARD: forward_macs("perceptron"),
        theory.TRAINING: total(one["perceptron"]).macs,
        theory.CONVNET_TRAINING: total(one["convnet"]).macs,
        theory.F: FEATURES,
        theory.source_work(found): step.flops,
        theory.source_traffic(found): 4 * step.elements,
        theory.product_intensity(found): products.flops / (4 * products.elements),
    }
    assert [number(quantity) for quantity in pairs] == list(pairs.values())


def test_the_total_of_the_source_follows_from_its_parts() -> None:
    found = inputs_of(STUDY)
    assert number(amdahl(found)) == pytest.approx(2.806, abs=5e-4)
    assert number(amdahl_limit(found, "matrix_product")) == pytest.approx(2.0)


# ------------------------------------------------------------------------------------- measured


def test_speedups_are_those_that_were_put_in() -> None:
    run = run_of(one_thread())
    setting = run.training()
    assert setting is not None
    ratio = estimate(run.speedup(setting, COMPILED))
    assert isinstance(ratio, Estimate)
    assert ratio.value == pytest.approx(3.0)
    assert ratio.low <= 3.0 <= ratio.high
    assert run.speedup(setting, CUPY).missing


def test_sweeps_are_found_by_what_varies() -> None:
    run = run_of(one_thread())
    assert [s.hidden for s in run.widths()] == [10, 64, 512]
    assert {s.samples for s in run.widths()} == {IMAGES}
    assert [s.samples for s in run.sizes()] == [IMAGES, 1000, 4000, 60000]
    assert [s.samples for s in run.sizes(hidden=128)] == [1000, 4000]
    assert run.wide() == 128


def replaced(found: Record, extensions: list[str]) -> Record:
    """The record of a processor of the same name that can do something else."""
    cpu = msgspec.structs.replace(found.environment.cpu, vector_extensions=extensions)
    environment = msgspec.structs.replace(found.environment, cpu=cpu)
    return msgspec.structs.replace(found, environment=environment)


def test_the_fewest_threads_of_a_cpu_go_first_and_a_gpu_last() -> None:
    one, two = one_thread(), record(started="2026-11-02T10:00:00Z")
    cuda = record({**SPEEDS, CUPY: lambda setting: 5.0}, machine=factory.environment(
        "example-gpu", gpu=factory.GPU))  # fmt: skip
    several = runs([factory.stored(r) for r in (two, one)])
    chosen = primary_run(several)
    assert chosen is not None and chosen.key == "example-1t"
    pair = thread_pair(several)
    assert pair is not None and [run.key for run in pair] == ["example-1t", "example-2t"]
    wider = replaced(two, ["avx512f"])
    assert thread_pair(runs([factory.stored(r) for r in (wider, one)])) is None
    everything = runs([factory.stored(r) for r in (two, one, cuda)])
    assert primary_run(everything) is everything[1]
    assert gpu_run(everything) is everything[2]
    assert primary_run(everything[2:]) is everything[2]
    assert gpu_run(several) is None
    assert primary_run(()) is None


def test_parts_give_the_whole() -> None:
    run = run_of(one_thread())
    setting = run.training()
    assert setting is not None
    assert point(from_parts(run, setting, TORCH)) == pytest.approx(0.5)
    shares = [point(run.share(kind, setting, TORCH)) for kind in kinds("perceptron")]
    assert sum(s for s in shares if isinstance(s, float)) == pytest.approx(1.0)
    compiled = from_parts(run, setting, COMPILED).missing
    assert compiled is not None and "one program" in compiled.reason


def test_the_bound_is_work_or_traffic_over_the_ceilings() -> None:
    run = run_of(one_thread())
    setting = Setting("scaling", "perceptron", "float32", 1000, "digits")
    bound = least(run, setting, NUMPY)
    assert isinstance(bound, float)
    # Traffic at 30 GB/s bounds every operation of so narrow a network.
    assert bound == pytest.approx(4 * total(setting).elements / 3e10, rel=0.02)


# ---------------------------------------------------------------------------------------- model


def modelled() -> Run:
    """A run whose NumPy takes for its calls, products and bytes what they take apart."""
    run = run_of(one_thread())

    def timed(case: Case, found: Round) -> Round:
        if case.factors["backend"] != "numpy" or case.factors["subject"] != "scaling":
            return found
        setting = next(
            s
            for s in (*run.scaled(), *run.scaled(dtype="float64"))
            if s.factors.items() <= case.factors.items()
        )
        products = 2 * training_macs(case.layers) / PRODUCT_RATE
        others = [step.called for step in iteration(setting) if not step.macs]
        took = CALL_S * 31 + products + 4 * sum(others) / 3e10
        exactly = {"time": took, "call_time": CALL_S}
        series = (
            factory.series(s.quantity, [exactly[s.quantity]] * 3) if s.quantity in exactly else s
            for s in found.series
        )
        return msgspec.structs.replace(found, series=tuple(series))

    return run_of(remeasured(one_thread(), timed))


def test_calls_products_and_bytes_measured_apart_predict_every_case() -> None:
    run = modelled()
    made = model(run, NUMPY)
    assert made is not None
    assert point(made.call) == pytest.approx(CALL_S)
    assert point(made.rate(64)) == pytest.approx(PRODUCT_RATE, rel=0.02)
    own = [each for each in predictions(run) if each.variant == NUMPY]
    assert {(each.setting.hidden, each.setting.samples) for each in own} == {
        (10, IMAGES), (64, IMAGES), (512, IMAGES), (10, 1000), (10, 4000), (10, 60000),
        (128, 1000), (128, 4000),
    }  # fmt: skip
    assert all(each.ratio == pytest.approx(1.0, rel=0.03) for each in own)


def test_a_prediction_that_fails_is_counted() -> None:
    setting = Setting("scaling", "perceptron", "float32", 1000, "digits")
    over = exact("measured / predicted", "1", 2.5)
    told: dict[Rule, float] = {"measured": 2e-3, "least": 1e-2}
    one = Prediction(setting, NUMPY, over, measured=5e-3, predicted=told)
    assert (one.ratio, one.error(), one.error("least")) == (2.5, 2.5, 2.0)
    assert (errors([one], "least"), errors([one], "numpy")) == ([2.0], [])
    result = findings(inputs(one_thread()))
    good = value(result, "predicted_well")
    assert 0 <= good <= value(result, "predicted") == len(predictions(run_of(one_thread())))
    assert value(result, "worst_error") >= value(result, "median_error") >= 1


# ---------------------------------------------------------------------------------- whole papers


def test_faster_is_said_only_where_the_interval_excludes_one() -> None:
    text = manuscript(STUDY, findings(inputs(record(processes=MANY))))
    assert "PyTorch is slower, " in text
    assert "JAX compiled is faster, " in text
    alike = {NUMPY: lambda s: 1.0, TORCH: lambda s: 1.001}
    told = findings(inputs(record(alike, noise=0.01)))  # type: ignore[arg-type]
    assert told.facts["fastest"] == ""
    assert "PyTorch runs at" in manuscript(STUDY, told)


def test_the_hypothesis_is_judged_by_how_the_gap_changes(found: Findings) -> None:
    many = verdicts(findings(inputs(record(processes=MANY))), "example-2t")
    assert many["grows-width"] == "refuted"
    # Two processes decide nothing at 95 %.
    assert verdicts(found, "example-1t")["grows-images"] == "undecided"


def test_one_process_has_no_interval_and_decides_nothing() -> None:
    alone = findings(inputs(record(processes=(1,))))
    assert isinstance(alone.values["speedup_torch"].number, float)
    assert isinstance(alone.values["numpy_time"].number, float)
    told = verdicts(alone, "example-2t")
    assert {told[name] for name in ("faster-torch", "grows-width", "grows-images")} == {
        "not measured"
    }
    assert told["predicted"] == "undecided"


def test_a_processor_decides_no_claim_about_a_gpu(found: Findings) -> None:
    assert not [id_ for id_ in found.claims if id_.startswith(("same-speedups", "products-gain"))]
    assert verdicts(found, "example-1t")["overhead"] == "not comparable"


def test_claims_of_the_source_are_judged_where_they_can_be(found: Findings) -> None:
    of_source = {id: claim.verdict for id, claim in found.claims.items()}
    assert of_source["convolution"] == "refuted"
    assert of_source["parameter-memory"] == of_source["input-memory"] == "refuted"
    own = verdicts(found, "example-1t")
    assert own["converge"] == own["same-memory"] == "supported"


def test_a_gpu_decides_the_speedups_of_the_source() -> None:
    speeds: Speeds = {**SPEEDS, CUPY: lambda setting: 2.8}
    machine = factory.environment("example-gpu", gpu=factory.GPU)
    result = findings(inputs(record(speeds, MANY, machine=machine)))
    assert_whole(STUDY, result)
    own = verdicts(result, GPU_KEY)
    assert own["same-speedups"] == "refuted"


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


def test_a_run_on_a_gpu_changes_nothing_that_the_processor_decides(
    found: Findings, both: Findings
) -> None:
    for id_, claim in found.claims.items():
        assert both.claims[id_] == claim, id_
    changed = {id_ for id_, value in found.values.items() if both.values[id_] != value}
    assert {id_ for id_ in changed if not id_.startswith("gpu_")} == set()


def test_a_gpu_has_a_section_of_its_own(found: Findings, both: Findings) -> None:
    text = assert_whole(STUDY, both, latex=True)
    assert [id_ for id_ in (*both.tables, *both.figures) if f"{{#{id_}" not in text] == []
    assert {f"tbl-{name}-{GPU_KEY}" for name in ("performance", "cases", "operations",
            "transfers", "backends")} <= set(both.tables)  # fmt: skip
    assert {f"grows-{sweep}-{GPU_KEY}" for sweep in ("width", "images")} <= set(both.claims)
    assert both.claims[f"converge-{GPU_KEY}"].verdict == "supported"
    assert "{#sec-gpu}" not in manuscript(STUDY, found)


def test_little_and_much_work_are_told(both: Findings) -> None:
    text = manuscript(STUDY, both)
    for id_ in ("gpu_small_torch_cuda", "gpu_wide_torch_cuda", "gpu_many_torch_cuda"):
        assert str(both.values[id_].interval) in text, id_
    assert value(both, "gpu_small_torch_cuda") == pytest.approx(0.5)
    assert value(both, "gpu_wide_torch_cuda") == pytest.approx(40)


def test_a_processor_beside_a_gpu_has_no_least_time(both: Findings) -> None:
    run = run_of(on_gpu())
    assert isinstance(run.rates(NUMPY), Missing)
    assert not isinstance(run.rates(CUPY), Missing)
    rows = both.tables[f"tbl-cases-{GPU_KEY}"].rows
    least_times = {(row[2], isinstance(row[4], Missing)) for row in rows}
    assert least_times == {("NumPy", True), ("PyTorch CUDA", False), ("CuPy", False)}


def test_a_gpu_alone_tells_no_bound_of_a_processor() -> None:
    alone = findings(inputs(on_gpu()))
    text = assert_whole(STUDY, alone)
    assert [id_ for id_ in (*alone.tables, *alone.figures) if f"{{#{id_}" not in text] == []
    assert "The least time by @eq-bound" not in text


def test_arrays_on_a_gpu_take_whole_blocks() -> None:
    setting = Setting("training", "perceptron", "float32", 1438, "digits")
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


def test_blocks_are_no_difference_of_memory_and_other_bytes_are(both: Findings) -> None:
    same = f"same-memory-{GPU_KEY}"
    assert both.claims[same].verdict == "supported"
    assert both.claims["same-memory-example-1t"].verdict == "supported"

    def grown(case: Case, found: Round) -> Round:
        series = (
            factory.series(s.quantity, [s.samples[0] + 512])
            if s.quantity == "allocated_input" and case.factors["backend"] == "cupy"
            else s
            for s in found.series
        )
        return msgspec.structs.replace(found, series=tuple(series))

    claims = findings(inputs(remeasured(on_gpu(), grown), one_thread())).claims
    assert claims[same].verdict == "refuted"


def test_the_processor_beside_a_gpu_is_named(found: Findings, both: Findings) -> None:
    rows = {row[0]: row[1:3] for row in both.tables["tbl-setup"].rows}
    assert rows["Device"] == ("NVIDIA Example 100", "Example Processor")
    assert rows["Host processor"] == ("Example Processor", "Example Processor")
    assert (rows["Memory"], rows["Host memory"]) == (
        ("80.0 GiB", "16.0 GiB"),
        ("16.0 GiB", "16.0 GiB"),
    )
    alone = {row[0]: row[1] for row in found.tables["tbl-setup"].rows}
    assert {name: rows[name][1] for name in alone} == alone
    assert not {"Host processor", "Host memory"} & set(alone)
    note = both.tables[f"tbl-performance-{GPU_KEY}"].notes[-1]
    assert note == "NumPy: on 16 threads of the processor beside the GPU, Example Processor."
    assert not any("beside the GPU" in note for note in found.tables["tbl-performance"].notes)


def test_components_and_overhead_add_up_with_a_residual(found: Findings) -> None:
    told = [r for id, r in found.reconciliations.items() if id.startswith("resident-")]
    assert told
    for one in told:
        assert not isinstance(one.residual, Missing)
        assert not isinstance(one.measured, Missing)
        assert one.end + one.residual == one.measured.amount
    most = max(told, key=lambda one: abs(known(one.residual_share)))
    # As many digits as prose needs.
    assert value(found, "residual_most") == pytest.approx(most.residual, rel=0.005)
    assert value(found, "resident_share") == pytest.approx(known(most.residual_share), rel=0.05)


def test_two_runs_give_a_table_of_threads() -> None:
    one = one_thread()
    two = record({v: (lambda s, f=f: 1.5 * f(s)) for v, f in SPEEDS.items()},
                 started="2026-11-02T10:00:00Z")  # fmt: skip
    result = findings(inputs(two, one))
    assert_whole(STUDY, result)
    ratios = [row[5] for row in result.tables["tbl-threads"].rows]
    assert ratios and all(isinstance(r, Estimate) and r.value == pytest.approx(1.5) for r in ratios)


def test_a_dear_first_call_is_earned_back(found: Findings) -> None:
    """90 times NumPy's iteration more for the first call, two thirds of one less for each other."""
    many = findings(inputs(record(processes=MANY)))
    assert many.values["earned_back"].number in (130, 140)
    # Two processes do not decide that any library is faster.
    assert isinstance(found.values["earned_back"].number, Missing)
    alike = findings(inputs(record({NUMPY: lambda s: 1.0, TORCH: lambda s: 0.5})))
    assert isinstance(alike.values["earned_back"].number, Missing)


def test_shares_in_the_text_are_those_of_the_table(found: Findings) -> None:
    rows = found.tables["tbl-operations"].rows
    shares = {row[0]: row[3] for row in rows if row[1] == "NumPy"}
    assert found.values["matrix_product_share"].number == shares["Matrix products"]


def test_settings_of_one_case_are_its_factors() -> None:
    setting = Setting("scaling", "perceptron", "float32", 5, "digits", 7)
    assert setting.factors["hidden"] == 7
    assert "hidden" not in replace(setting, network="convnet").factors
