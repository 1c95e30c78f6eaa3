"""backend_speedup: both sides of its claims on published records, and an allowance by hand."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from report.core.records.choice import Role
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
from tests.degraded import altered

STUDY = "backend_speedup"
SMALL, LARGE = Size(10, 1_000), Size(128, 60_000)


def test_the_work_of_an_iteration_by_hand() -> None:
    """784 pixels to 10 neurons to 10 classes, forward and backward, of 60,000 images."""
    assert papers.value_of(work(SOURCE)) == 2 * 60_000 * (2 * 784 * 10 + 3 * 10 * 10)


# ------------------------------------------------------------------------------------- sessions

#: Seconds of an iteration by three processes of NumPy and of CuPy, at two sizes.
OURS = {"numpy": {SMALL: (2.0, 2.0, 2.1), SOURCE: (60.0, 61.0, 63.0)},
        "cupy": {SMALL: (1.0, 1.0, 1.0), SOURCE: (2.0, 2.0, 2.1)}}  # fmt: skip
#: The same in an earlier session, in which only the source's size was timed.
EARLIER = {"numpy": {SOURCE: (90.0, 90.0, 90.0)}, "cupy": {SOURCE: (5.0, 4.5, 4.0)}}


def session(times: Mapping[str, Mapping[Size, Sequence[float]]], day: int) -> Record:
    """A session on a GPU with an iteration of each process."""
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


def test_a_range_spans_the_pairs_of_processes_of_its_sessions() -> None:
    """Speed-ups of ours are 28.6 to 31.5, of the earlier session 18 to 22.5."""
    other = Run(factory.stored(session(EARLIER, 1)), "a")
    run = Run(factory.stored(session(OURS, 2)), "b", sessions=(other,))
    for quantity, expected in (
        (results.gain(run, "cupy"), (60 / 2.1, 61 / 2, 31.5)),
        (results.gain(run, "cupy", session=1), (18, 20, 22.5)),
        (results.over_earlier(run, "cupy"), (18 / 31.5, 20 / (61 / 2), 22.5 / (60 / 2.1))),
        (results.gain(run, "cupy", SMALL), (2, 2, 2.1)),
        (results.growth_of_gain(run, SOURCE, SMALL), (60 / 2.1 / 2.1, 61 / 4, 31.5 / 2)),
        (results.growth_to(run, SOURCE), (2, 2, 2.1)),
    ):
        result = estimate(quantity)
        assert isinstance(result, Estimate)
        assert (result.low, result.value, result.high) == pytest.approx(expected)
    assert results.gain(run, "cupy", session=2).missing


# --------------------------------------------------------------------------------------- claims


GPUS = ("gpu", "third", "fourth")


def scaled(
    factor: float, name: str = "time", roles: Sequence[str] = GPUS, **factors: Any
) -> Inputs:
    """Published records of some roles, with another series of the cases with ``factors``."""
    return altered(STUDY, name, lambda sample: factor * sample, roles=roles, **factors)


def cupy(factor: float, size: Size) -> Inputs:
    """Published records with another time of CuPy at one size."""
    return scaled(factor, backend="cupy", hidden=size.hidden, samples=size.images)


def test_each_claim_has_two_sides() -> None:
    """Beside verdicts of published records, which are pinned."""
    idle = scaled(0.1, "matrix_product_time", hidden=10, samples=60_000)
    earlier = partial(scaled, roles=("third",), backend="numpy")
    changed = partial(scaled, roles=("second",), subject="change")
    torch = partial(scaled, roles=("fifth",), backend="torch")
    for claim, inputs, verdict in (
        ("host-sets-pace", idle, "refuted"),
        ("nearly-busy", idle, "refuted"),
        ("library-matters", cupy(0.5, SOURCE), "refuted"),
        ("session-matters", earlier(0.5), "refuted"),
        ("session-matters-in-cupy", earlier(0.5), "supported"),
        ("session-matters-in-cupy", earlier(4), "refuted"),
        ("same-speedup", cupy(1e3, SOURCE), "refuted"),
        ("gap-grows-images", cupy(1e4, SOURCE), "refuted"),
        ("gap-grows-neurons", cupy(1e4, LARGE), "refuted"),
        ("floor", cupy(3, SOURCE), "undecided"),
        ("same-accuracy", scaled(0.99, "test_accuracy", backend="cupy"), "refuted"),
        ("alike", scaled(1.0011, "train_loss", backend="cupy"), "refuted"),
        ("alike", scaled(1.0009, "train_loss", backend="cupy"), "supported"),
        ("double-as-predicted", changed(1.43, change=subject.DOUBLE, samples=60_000),
         "supported"),
        ("calls-have-a-price", torch(1.5, calls=341, samples=1_000), "refuted"),
        ("calls-vanish", torch(1.05, calls=62, samples=60_000), "refuted"),
        ("merging-saves-calls", torch(0.77, calls=17, samples=1), "supported"),
        ("merging-keeps-its-gain", torch(1.04, calls=17, samples=1_000), "supported"),
        ("merging-vanishes", torch(0.9, calls=17, samples=60_000), "refuted"),
    ):  # fmt: skip
        assert papers.verdicts(STUDY, inputs, claim) == {claim: verdict}


@pytest.mark.parametrize(("role", "measured"), [
    ("second", {"double-as-predicted"}),
    ("fifth", {"calls-have-a-price", "calls-vanish", "merging-saves-calls",
               "merging-keeps-its-gain", "merging-vanishes"}),
])  # fmt: skip
def test_a_report_on_one_cpu_tests_the_claims_of_its_cases(role: Role, measured: set[str]) -> None:
    published = scaled(1)
    (record,) = (r for r in published.records if r.file == published.roles[role])
    claims = study.evaluate(published, record, claims_only=True).claims.values()
    assert {claim.id for claim in claims if claim.verdict != "not measured"} == measured
