"""backend_speedup on made-up records whose times are closed forms of work and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from report.errors import StudyError
from report.missing import Missing
from report.paper.findings import Findings
from report.quantity.verdicts import Statement
from report.records.editions import Role
from report.records.layers import Activation, Layer, Linear, Softmax
from report.records.record import Case, Factor, Policy, Record
from report.studies.backend_speedup import theory
from report.studies.backend_speedup.runs import Run, runs
from report.studies.backend_speedup.study import findings
from report.studies.backend_speedup.subject import SOURCE, Size
from tests import factory
from tests.papers import assert_whole, inputs_of, number, value, value_of

STUDY = "backend_speedup"
SMALL, WIDEST, SHARED = Size(10, 1_000), Size(2_048, 16_000), Size(10, 1_438)
SIZES = [Size(h, m) for h in (10, 128, 2_048) for m in (1_000, 16_000, 60_000)]
SIZES = [*filter(lambda size: size <= WIDEST, SIZES), SHARED, Size(512, 1_438), Size(2_048, 1_438)]
#: Of each library: what an iteration costs at least (s), the rate of its work (FLOP/s), a call (s).
LIBRARIES: Mapping[str, tuple[float, float, float]] = {
    "numpy": (2e-5, 2e11, 4e-7),
    "torch": (6e-5, 4e11, 2e-6),
    "cupy": (6e-4, 2e13, 1.5e-5),
    "torch_cuda": (4e-4, 2e13, 1.3e-5),
}
#: The share of an iteration that each kind of operation takes; NumPy's ReLU is slow.
SHARES = {
    "matrix_product": 0.5, "bias": 0.1, "relu": 0.01, "softmax": 0.1, "gradient": 0.2,
    "update": 0.1,
}  # fmt: skip
NUMPY_RELU = 0.2
HELD = {"numpy": 30_000_000, "cupy": 400_000_000}


def time_of(library: str, size: Size) -> float:
    """On a GPU calls hide the work, on a CPU they add to it."""
    least, rate, _ = LIBRARIES[library]
    work = 2 * size.images * (2 * 784 * size.hidden + 30 * size.hidden) / rate
    return max(least, work) if library in ("cupy", "torch_cuda") else least + work


def layers(size: Size) -> tuple[Layer, ...]:
    source, middle, scores = ((size.images, n) for n in (784, size.hidden, 10))
    return (
        Linear(name="a", input_shape=source, output_shape=middle, dtype="float32", bias=True),
        Activation(
            name="r", input_shape=middle, output_shape=middle, dtype="float32", function="relu"
        ),
        Linear(name="b", input_shape=middle, output_shape=scores, dtype="float32", bias=True),
        Softmax(name="s", input_shape=scores, output_shape=scores, dtype="float32", log=False),
    )


def timed(library: str, size: Size, scale: float) -> dict[str, Sequence[float]]:
    whole, (_, rate, call) = time_of(library, size) * scale, LIBRARIES[library]
    shares = {**SHARES, "relu": NUMPY_RELU} if library == "numpy" else SHARES
    found = {
        "time": whole, "call_time": call * scale, "forward_time": 0.4 * whole,
        "backward_time": 0.5 * whole,
        "product_alone_time": 2 * 784 * size.hidden * size.images / rate * scale,
        **{f"{kind}_time": share * whole for kind, share in shares.items()},
    }  # fmt: skip
    return {name: factory.scattered(centre, 1e-4) for name, centre in found.items()}


def case(
    library: str, size: Size, rounds: Iterable[Any], subject: str = "scaling", **more: Any
) -> Case:
    factors: dict[str, Factor] = {
        "subject": subject, "dataset": "digits", "dtype": "float32", "backend": library,
        "hidden": size.hidden, "samples": size.images, **more.pop("factors", {}),
    }  # fmt: skip
    series = factory.measured(more)
    return Case(
        factors=factors, status="ok", reason=None, layers=layers(size), series=series,
        rounds=tuple(rounds),
    )  # fmt: skip


def cases(
    libraries: Iterable[str], processes: int, policy: Policy | None, apart: float
) -> Iterable[Case]:
    """Every size with each library; processes differ by ``apart`` from each other."""
    for library in libraries:
        for size in SIZES:
            yield case(
                library,
                size,
                (
                    factory.round_(
                        k, timed(library, size, 1 + apart * (k - (1 + processes) / 2)),
                        policy=policy,
                    )
                    for k in range(1, processes + 1)
                ),
            )  # fmt: skip


def training(library: str, *, off: float = 0.0) -> Case:
    return case(
        library,
        SHARED,
        [factory.round_(1, {"first_call_time": [3.0]}, policy="default")],
        "training",
        train_loss=[2.3 * 0.9**k * (1 + off) for k in range(31)],
        resident_start=[10_000_000],
        resident_first_use=[10_000_000 + HELD.get(library, 0)],
    )


def on_cpu(**change: Any) -> Record:
    double = factory.round_(1, {"time": [3 * time_of("numpy", SOURCE)] * 9})
    rounds = [msgspec.structs.replace(double, process=k) for k in range(1, 10)]
    more = case("numpy", SOURCE, rounds, factors={"dtype": "float64"})
    made = [*cases(("numpy", "torch"), 9, "retained", 1e-4), more]
    machine = change.pop("machine", factory.environment("example-1t", threads=1))
    return factory.record(made, machine, study=STUDY, **change)


def on_gpu(apart: float = 1e-3, off: float = 1e-7, key: str = "example-gpu", **how: Any) -> Record:
    libraries = how.pop("libraries", ("numpy", "cupy", "torch_cuda"))
    made = [
        *cases(libraries, how.pop("processes", 2), "default", apart),
        training("numpy"),
        training("cupy", off=off),
    ]
    machine = factory.environment(key, gpu=factory.GPU, threads=16)
    return factory.record(made, machine, study=STUDY, started="2026-11-03T10:00:00Z", **how)


def record() -> Record:
    """What other tests take for a record of this study."""
    return on_cpu()


def found(*records: Record) -> Findings:
    """The paper of a CPU and a GPU, in this order, as far as they are."""
    names: tuple[Role, ...] = ("cpu", "gpu")
    roles = {role: factory.stored(each).file for role, each in zip(names, records, strict=False)}
    return findings(replace(inputs_of(STUDY, *records), roles=roles))


@pytest.fixture(scope="module")
def full() -> Findings:
    return found(on_cpu(), on_gpu())


def gain(size: Size, base: str = "numpy") -> float:
    return time_of(base, size) / time_of("cupy", size)


W = {size: 2 * size.images * (1568 * size.hidden + 30 * size.hidden) for size in SIZES}
VALUES: Mapping[str, float] = {
    "source_speedup": 2.8,
    "audited": 21,
    "differing": 4,
    "hidden": 10,
    "parameters": 7_960,
    "calls": 31,
    "source_work": 1.9e9,
    "source_call": 30.2e-3 / 31,
    "small": gain(SMALL),
    "at_source": gain(SOURCE),
    "large": gain(Size(128, 60_000)),
    "widest": gain(WIDEST),
    "less_wide": gain(Size(512, 1_438)),
    "floor": 6e-4,
    "flat": 9.4e9,
    "flat_growth": 9.4e9 / W[SMALL],
    "torch_floor": 4e-4,
    "floor_call": 6e-4 / 31,
    "narrow_rate": 2e11,
    "predicted": 7,
    "roof_single": 2 * 4 * 784 * 60_000 / 320e9,
    "roof_double": W[SOURCE] / (8.1e12 / 32),
    "relu_gpu": 2 * 4 * 2_048 * 16_000 / (0.01 * time_of("cupy", WIDEST)),
    "cpu_time": time_of("numpy", SOURCE),
    "measurements": 9 * 23,
    "disturbed": 0,
    "gpu_rate": 2e13,
    "spread": 1.001,
    "pairs": 33,
    "relu_widest": 20 * gain(WIDEST),
    "product_widest": gain(WIDEST),
    "other_operations": 0.5,
    "source_slower": 30.2e-3 / time_of("cupy", SOURCE),
    "double": 3,
    "over_cpu": gain(SOURCE),
    "few_more": gain(SHARED),
    "between": gain(Size(10, 16_000)),
    "copy_rate": 12e9,
    "copy_single": 4 * 784 * 59_000 / 12e9,
    "copy_double": 8 * 784 * 59_000 / 12e9,
    "weights": 7_940,
    "byte_input": 784 * 60_000,
    "double_slower": 32,
    "t4_rate": 8.1e12,
    "t4_memory": 320e9,
    "narrow_gpu_rate": W[SOURCE] / (0.5 * time_of("cupy", SOURCE)),
    "product_share": 0.5,
    "step_work": 3.75,
    "step_time": time_of("numpy", Size(128, 60_000)) / time_of("numpy", Size(128, 16_000)),
    "cpu_step": time_of("numpy", Size(128, 60_000)) / time_of("numpy", Size(128, 16_000)),
    "floor_sizes": 8,
    "torch_wins": 8,
    "torch_chance": 1 / 2**8,
    "source_cpu_slower": 84.6e-3 / time_of("numpy", SOURCE),
    "spread_parts": 1.001,
}


def test_values_are_those_of_closed_forms(full: Findings) -> None:
    assert {id_: value(full, id_) for id_ in VALUES} == pytest.approx(VALUES, rel=6e-3)
    # The times follow the model of two numbers.
    assert [value(full, id_) for id_ in ("floor_error", "rate_error")] == pytest.approx(
        [0, 0], abs=1e-3
    )


VERDICTS: Mapping[str, str] = {
    "small-slower": "supported",
    "large-faster": "supported",
    "floor": "supported",
    "gpu-faster": "supported",
    "same-speedup": "refuted",
    "gap-grows": "supported",
    "products-most": "refuted",
    "alike": "supported",
    "more-held": "supported",
    "parameter-bytes": "refuted",
    "input-bytes": "refuted",
    "same-iteration": "refuted",
}
#: What the source's numbers and shapes alone decide.
OF_SOURCE = ("parameter-bytes", "input-bytes", "same-iteration")


def test_verdicts(full: Findings) -> None:
    assert {id_: claim.verdict for id_, claim in full.claims.items()} == VERDICTS


def test_full_records_give_a_whole_paper(full: Findings) -> None:
    text = assert_whole(STUDY, full, latex=True)
    assert set(full.figures) == {"fig-curve", "fig-bases", "fig-operations"}
    assert [id_ for id_ in (*full.tables, *full.figures) if f"{{#{id_}" not in text] == []


#: What is made up, and what becomes of claims.
OTHER: Mapping[str, tuple[Callable[[], Record], Mapping[str, str]]] = {
    "processes that differ": (
        lambda: on_gpu(apart=1.8), {"gpu-faster": "undecided", "gap-grows": "undecided"},
    ),
    "one process": (
        lambda: on_gpu(processes=1), {"gpu-faster": "not measured", "floor": "not measured"},
    ),
    "no CuPy": (
        lambda: on_gpu(libraries=("numpy", "torch_cuda")), {"small-slower": "not measured"},
    ),
    "other losses": (lambda: on_gpu(off=0.1), {"alike": "refuted"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHER)
def test_verdicts_follow_the_data(kind: str) -> None:
    make, expected = OTHER[kind]
    result = found(on_cpu(), make())
    assert_whole(STUDY, result)
    assert {id_: result.claims[id_].verdict for id_ in expected} == expected


def test_a_cpu_alone_decides_no_claim_about_a_gpu() -> None:
    result = found(on_cpu())
    assert_whole(STUDY, result)
    decided = {id_ for id_, claim in result.claims.items() if claim.verdict != "not measured"}
    assert decided == {*OF_SOURCE}
    content = number(result, "at_source")
    assert isinstance(content, Missing) and content.reason
    assert value(result, "cpu_time") == pytest.approx(time_of("numpy", SOURCE), rel=1e-3)


def gpu_run(processes: int = 2, apart: float = 1e-3) -> Run:
    (run,) = runs([factory.stored(on_gpu(apart=apart, processes=processes))])
    return run


def test_few_processes_bound_a_ratio_by_all_pairs() -> None:
    run = gpu_run(apart=0.1)
    spread = run.spread()
    assert spread is not None and spread[0] == pytest.approx(1.05 / 0.95)
    ratio = run.bounded(run.speedup(SOURCE, "cupy"))
    assert value_of(ratio) == pytest.approx(gain(SOURCE), rel=0.01)
    edge = gain(SOURCE) / spread[0]
    assert Statement.judge(ratio > 0.98 * edge) == "supported"
    assert Statement.judge(ratio > 1.02 * edge) == "undecided"


def test_the_work_is_that_of_the_products_by_hand() -> None:
    assert Size(10, 1).multiply_adds == 2 * 7_840 + 3 * 100
    assert value_of(theory.work(SOURCE)) == 2 * 60_000 * 15_980


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"dtype": "float16"}, "factors.dtype"),
        ({"execution": "lazy"}, "factors.execution"),
        ({"hidden": 11}, "layers"),
        ({"samples": 0}, "factors.samples"),
    ],
)
def test_a_case_of_another_network_is_refused_by_its_place(
    change: dict[str, Factor], place: str
) -> None:
    strange = case("numpy", SMALL, [], factors=change)
    with pytest.raises(StudyError, match=rf"^data/.*cases\[0\]\.{place}"):
        found(factory.record([strange], study=STUDY))
