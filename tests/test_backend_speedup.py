"""backend_speedup: both verdicts of every claim, and claims that a report on a CPU tests."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from report.core.records.record import Case
from report.paper.findings import Inputs
from report.studies.backend_speedup import subject
from report.studies.backend_speedup.study import study
from report.studies.backend_speedup.subject import SOURCE_SIZE, Size
from tests import papers
from tests.degraded import altered_inputs, on_every_case

STUDY = "backend_speedup"
LARGE_SIZE = Size(128, 60_000)


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
