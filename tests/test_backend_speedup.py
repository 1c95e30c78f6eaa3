"""backend_speedup: work, intervals and figures by hand, and both verdicts of every claim."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest

from report.core.records.record import Case, Record
from report.core.statistics.estimates import Estimate
from report.paper.findings import Inputs
from report.quantity.evaluation import estimate
from report.studies.backend_speedup import results, subject
from report.studies.backend_speedup.runs import Run
from report.studies.backend_speedup.study import study
from report.studies.backend_speedup.subject import SOURCE_SIZE, Size
from report.studies.backend_speedup.theory import work
from tests import factory, papers
from tests.degraded import altered_inputs, on_every_case

STUDY = "backend_speedup"
SMALL_SIZE, LARGE_SIZE = Size(10, 1_000), Size(128, 60_000)


def test_the_work_of_an_iteration_by_hand() -> None:
    """784 pixels, 10 neurons and 10 classes, forward and backward, for 60,000 images."""
    assert papers.value_of(work(SOURCE_SIZE)) == 2 * 60_000 * (2 * 784 * 10 + 3 * 10 * 10)


#: Library → size of network and data → time of an iteration (s) in three processes.
LATER = {"numpy": {SMALL_SIZE: (2.0, 2.0, 2.1), SOURCE_SIZE: (60.0, 61.0, 63.0)},
        "cupy": {SMALL_SIZE: (1.0, 1.0, 1.0), SOURCE_SIZE: (2.0, 2.0, 2.1)}}  # fmt: skip
#: Times of an earlier session, which timed only the size that the source printed.
EARLIER = {"numpy": {SOURCE_SIZE: (90.0, 90.0, 90.0)}, "cupy": {SOURCE_SIZE: (5.0, 4.5, 4.0)}}


def session(times: Mapping[str, Mapping[Size, Sequence[float]]], day: int) -> Record:
    """Return a record of a session on a GPU, with one time per process."""
    cases = []
    for library, by_size in times.items():
        for size, seconds in by_size.items():
            factors = {
                "subject": "scaling", "dataset": "digits", "dtype": "float32", "backend": library,
                "hidden": size.hidden, "samples": size.images,
            }  # fmt: skip
            rounds = factory.rounds([time] for time in seconds)
            cases.append(Case(factors=factors, rounds=rounds))
    machine = factory.environment(f"example-{day}", gpu=factory.GPU)
    started = f"2026-11-0{day}T10:00:00Z"
    return factory.record(cases, machine, study=STUDY, started=started)


def test_ranges_of_speedups_span_the_processes_of_sessions() -> None:
    """The low end divides the fastest process of NumPy by the slowest of CuPy.

    The value divides their medians; the high end divides the slowest by the fastest.
    """
    earlier = Run(factory.stored(session(EARLIER, day=1)), "a")
    later = Run(factory.stored(session(LATER, day=2)), "b")
    in_earlier, in_later = (earlier, "time", SOURCE_SIZE), (later, "time", SOURCE_SIZE)
    for quantity, expected in (
        (results.gain(later, "cupy"), (60 / 2.1, 61 / 2, 63 / 2)),
        (results.gain(earlier, "cupy"), (90 / 5, 90 / 4.5, 90 / 4)),
        (results.ratio_of_gains(in_earlier, in_later, "cupy"),
         (18 / 31.5, 20 / (61 / 2), 22.5 / (60 / 2.1))),
        (results.gain(later, "cupy", SMALL_SIZE), (2, 2, 2.1)),
        (results.ratio_of_gains(in_later, (later, "time", SMALL_SIZE), "cupy"),
         (60 / 2.1 / 2.1, 61 / 4, 31.5 / 2)),
        (results.growth_to(later, SOURCE_SIZE), (2, 2, 2.1)),
    ):  # fmt: skip
        result = estimate(quantity)
        assert isinstance(result, Estimate)
        assert (result.low, result.value, result.high) == pytest.approx(expected)
    assert results.gain(earlier, "cupy", SMALL_SIZE).missing


def scaled(
    factor: float, name: str = "time", roles: Sequence[str] = ("gpu",), **factors: Any
) -> Inputs:
    """Multiply the series ``name`` of published cases by ``factor``.

    ``roles``: roles of records in the paper; ``factors``: factor levels of the altered cases.
    """
    return altered_inputs(STUDY, name, lambda sample: factor * sample, roles=roles, **factors)


def cupy(factor: float, size: Size) -> Inputs:
    """Multiply CuPy's published times at one size by ``factor``."""
    return scaled(factor, backend="cupy", hidden=size.hidden, samples=size.images)


def repeated(inputs: Inputs) -> Inputs:
    """Repeat each process five times, so that most cases have ten or more."""

    def with_more_rounds(_: int, case: Case) -> Case:
        numbered = enumerate(5 * case.rounds, start=1)
        rounds = tuple(msgspec.structs.replace(round_, process=n) for n, round_ in numbered)
        return msgspec.structs.replace(case, rounds=rounds)

    return on_every_case(with_more_rounds)(inputs)


def test_changed_records_change_the_verdict_of_each_claim() -> None:
    """Two or three processes of the GPU leave claims undecided that more processes decide."""
    no, yes, open_ = "refuted", "supported", "undecided"
    products = "matrix_product_time"
    # Iterations of a changed program on one core of the CPU.
    changed = partial(scaled, roles=("cpu",), subject="change", samples=60_000)
    one_image = partial(scaled, roles=("cpu",), subject="change", samples=1)
    # If the program with other calls took 1,000 s, the original program would be much faster.
    other_calls = altered_inputs(STUDY, "time", lambda _: 1e3, roles=("third",), subject="calls")
    papers.assert_other_verdicts(
        STUDY,
        (yes, repeated(scaled(1)), "baseline-decides", "library-matters", "session-matters",
         "gap-grows-images", "gap-grows-neurons", "products-benefit-most", "floor"),
        (no, repeated(scaled(1)), "same-speedup"),
        (open_, repeated(cupy(7.3, SOURCE_SIZE)), "same-speedup"),
        (no, repeated(scaled(0.1, products, hidden=10, samples=60_000)), "host-sets-pace"),
        (no, repeated(changed(0.5, change=subject.UNCHANGED)), "baseline-decides"),
        (no, repeated(cupy(0.5, SOURCE_SIZE)), "library-matters"),
        (no, repeated(scaled(0.5, roles=("second",), backend="numpy")), "session-matters"),
        (no, repeated(cupy(1e4, SOURCE_SIZE)), "gap-grows-images"),
        (no, repeated(cupy(1e4, LARGE_SIZE)), "gap-grows-neurons"),
        (no, repeated(scaled(4, products, backend="cupy", hidden=10)), "products-benefit-most"),
        (no, repeated(cupy(3, SOURCE_SIZE)), "floor"),
        (no, scaled(0.99, "test_accuracy", backend="cupy"), "same-accuracy"),
        (no, scaled(1.0011, "train_loss", backend="cupy"), "alike"),
        (no, changed(0.5, change=subject.DOUBLE_PRECISION), "settings-matter"),
        (no, changed(1.1, change=subject.SECOND_THREAD), "thread-as-predicted"),
        (no, changed(0.7, change=subject.MEMORY_RETURNED), "returned-as-predicted"),
        (no, changed(1.3, change=subject.FUSED_RELU), "fused-as-predicted"),
        (no, one_image(1.3, change=subject.FUSED_RELU), "calls-shield"),
        (yes, changed(1.43, change=subject.DOUBLE_PRECISION), "double-as-predicted"),
        (yes, other_calls, "calls-carry-over"),
    )  # fmt: skip


def test_a_report_on_a_cpu_tests_only_claims_about_its_cases() -> None:
    published = scaled(1)
    record = published.record_by_role["cpu"]
    claims = study.evaluate(published, record, claims_only=True).claims.values()
    measured = {claim.id for claim in claims if claim.verdict != "not measured"}
    predicted = {f"{change}-as-predicted" for change in ("thread", "returned", "double", "fused")}
    assert measured == {"settings-matter", "calls-shield"} | predicted
