"""backend_speedup: work, intervals and figures by hand, and both verdicts of every claim."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from report.studies.backend_speedup.subject import SOURCE, Size
from report.studies.backend_speedup.theory import work
from tests import factory, papers
from tests.degraded import altered_inputs, on_every_case

STUDY = "backend_speedup"
SMALL, LARGE = Size(10, 1_000), Size(128, 60_000)


def test_the_work_of_an_iteration_by_hand() -> None:
    """784 pixels, 10 neurons and 10 classes, forward and backward, for 60,000 images."""
    assert papers.value_of(work(SOURCE)) == 2 * 60_000 * (2 * 784 * 10 + 3 * 10 * 10)


# ------------------------------------------------------------------------------------- sessions

#: Library → size of network and data → time of an iteration (s) in three processes.
LATER = {"numpy": {SMALL: (2.0, 2.0, 2.1), SOURCE: (60.0, 61.0, 63.0)},
        "cupy": {SMALL: (1.0, 1.0, 1.0), SOURCE: (2.0, 2.0, 2.1)}}  # fmt: skip
#: Times of an earlier session, which timed only the size that the source printed.
EARLIER = {"numpy": {SOURCE: (90.0, 90.0, 90.0)}, "cupy": {SOURCE: (5.0, 4.5, 4.0)}}


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
    in_earlier, in_later = (earlier, "time", SOURCE), (later, "time", SOURCE)
    for quantity, expected in (
        (results.gain(later, "cupy"), (60 / 2.1, 61 / 2, 63 / 2)),
        (results.gain(earlier, "cupy"), (90 / 5, 90 / 4.5, 90 / 4)),
        (results.ratio_of_gains(in_earlier, in_later, "cupy"),
         (18 / 31.5, 20 / (61 / 2), 22.5 / (60 / 2.1))),
        (results.gain(later, "cupy", SMALL), (2, 2, 2.1)),
        (results.ratio_of_gains(in_later, (later, "time", SMALL), "cupy"),
         (60 / 2.1 / 2.1, 61 / 4, 31.5 / 2)),
        (results.growth_to(later, SOURCE), (2, 2, 2.1)),
    ):  # fmt: skip
        result = estimate(quantity)
        assert isinstance(result, Estimate)
        assert (result.low, result.value, result.high) == pytest.approx(expected)
    assert results.gain(earlier, "cupy", SMALL).missing


# --------------------------------------------------------------------------------------- claims


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


def with_processes_repeated(inputs: Inputs) -> Inputs:
    """Repeat each process of both GPU sessions five times, so that most cases have ten or more."""

    def repeated(_: int, case: Case) -> Case:
        numbered = enumerate(5 * case.rounds, start=1)
        rounds = tuple(msgspec.structs.replace(round_, process=n) for n, round_ in numbered)
        return msgspec.structs.replace(case, rounds=rounds)

    by_role = on_every_case(repeated)(inputs).record_by_role
    sessions = {by_role[role].file: by_role[role] for role in ("gpu", "second")}
    return replace(inputs, records=tuple(sessions.get(r.file, r) for r in inputs.records))


#: Claims about times of the GPU, which two or three processes cannot decide.
ABOUT_THE_GPU = (
    "host-sets-pace", "baseline-decides", "library-matters", "session-matters", "same-speedup",
    "gap-grows-images", "gap-grows-neurons", "products-benefit-most", "floor",
)  # fmt: skip


def test_claims_about_the_gpu_are_decided_only_with_more_processes() -> None:
    """The same times in ten or more processes support all claims but two."""
    published = scaled(1)
    assert set(papers.verdicts(STUDY, published, *ABOUT_THE_GPU).values()) == {"undecided"}
    verdicts = papers.verdicts(STUDY, with_processes_repeated(published), *ABOUT_THE_GPU)
    exceptions = {"host-sets-pace": "undecided", "same-speedup": "refuted"}
    assert verdicts == dict.fromkeys(ABOUT_THE_GPU, "supported") | exceptions


def test_changed_records_change_the_verdict_of_each_claim() -> None:
    """The verdicts on the published records are pinned; these are other verdicts.

    Claims about the GPU's times are tested on records with its processes repeated.
    """
    products = "matrix_product_time"
    # Iterations of a changed program on one core of the CPU.
    changed = partial(scaled, roles=("cpu",), subject="change", samples=60_000)
    one_image = partial(scaled, roles=("cpu",), subject="change", samples=1)
    # If the program with other calls took 1,000 s, the original program would be much faster.
    other_calls = altered_inputs(STUDY, "time", lambda _: 1e3, roles=("third",), subject="calls")
    cases = (
        ("host-sets-pace", scaled(0.1, products, hidden=10, samples=60_000), "refuted"),
        ("baseline-decides", changed(0.5, change=subject.UNCHANGED), "refuted"),
        ("library-matters", cupy(0.5, SOURCE), "refuted"),
        ("session-matters", scaled(0.5, roles=("second",), backend="numpy"), "refuted"),
        ("same-speedup", cupy(7.3, SOURCE), "undecided"),
        ("gap-grows-images", cupy(1e4, SOURCE), "refuted"),
        ("gap-grows-neurons", cupy(1e4, LARGE), "refuted"),
        ("products-benefit-most", scaled(4, products, backend="cupy", hidden=10), "refuted"),
        ("floor", cupy(3, SOURCE), "refuted"),
        ("same-accuracy", scaled(0.99, "test_accuracy", backend="cupy"), "refuted"),
        ("alike", scaled(1.0011, "train_loss", backend="cupy"), "refuted"),
        ("alike", scaled(1.0009, "train_loss", backend="cupy"), "supported"),
        ("settings-matter", changed(0.5, change=subject.DOUBLE), "refuted"),
        ("thread-as-predicted", changed(0.9, change=subject.THREAD), "undecided"),
        ("thread-as-predicted", changed(1.1, change=subject.THREAD), "refuted"),
        ("returned-as-predicted", changed(0.7, change=subject.RETURNED), "refuted"),
        ("fused-as-predicted", changed(1.3, change=subject.FUSED), "refuted"),
        ("calls-shield", one_image(1.3, change=subject.FUSED), "refuted"),
        ("double-as-predicted", changed(1.43, change=subject.DOUBLE), "supported"),
        ("calls-carry-over", other_calls, "supported"),
    )
    for claim, inputs, verdict in cases:
        tested = with_processes_repeated(inputs) if claim in ABOUT_THE_GPU else inputs
        assert papers.verdicts(STUDY, tested, claim) == {claim: verdict}


def test_values_of_the_published_records_by_hand() -> None:
    """Times are medians of processes: NumPy takes 69.2 ms on one thread, CuPy 0.641 ms."""
    expected = {
        "one_thread": 69.2e-3 / 0.641e-3, "saved_one": 39.9e-6,
        "thread_factor": 1 / 0.596, "double_share": 0.365,
        "session_cupy": 1.9309 / 0.6411, "session_torch": 731.8 / 475.9,
        "returned": 6_711, "faults": 4_275, "zen3_few": 2.7472 / 1.4631,
        "zen3_fewer": 41.899 / 24.248, "zen3_many": 152.10 / 85.688,
    }  # fmt: skip
    papers.assert_values(study.findings(scaled(1)), expected, rel=0.03)


def test_a_report_on_a_cpu_tests_only_claims_about_its_cases() -> None:
    published = scaled(1)
    record = published.record_by_role["cpu"]
    claims = study.evaluate(published, record, claims_only=True).claims.values()
    measured = {claim.id for claim in claims if claim.verdict != "not measured"}
    predicted = {f"{change}-as-predicted" for change in ("thread", "returned", "double", "fused")}
    assert measured == {"settings-matter", "calls-shield"} | predicted
