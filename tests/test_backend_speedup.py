"""backend_speedup: both sides of its claims on published records, and an allowance by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from report.core.records.record import Case, Record
from report.core.statistics.estimates import Estimate
from report.paper.findings import Inputs
from report.quantity.evaluation import estimate
from report.studies.backend_speedup import changes, theory
from report.studies.backend_speedup.runs import Run
from report.studies.backend_speedup.subject import SOURCE, Size
from tests import factory, papers
from tests.degraded import altered
from tests.papers import inputs_of

STUDY = "backend_speedup"
SMALL, LARGE = Size(10, 1_000), Size(128, 60_000)


def test_the_work_of_an_iteration_by_hand() -> None:
    """784 pixels to 10 neurons to 10 classes, forward and backward, of 60,000 images."""
    work = estimate(theory.work(SOURCE))
    assert isinstance(work, Estimate)
    assert work.value == 2 * 60_000 * (2 * 784 * 10 + 3 * 10 * 10)


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


def test_an_allowance_spans_the_pairs_of_all_sessions() -> None:
    """Speed-ups of ours are 28.6 to 31.5, of the earlier session 18 to 22.5."""
    other = Run(factory.stored(session(EARLIER, 1)), "a")
    run = Run(factory.stored(session(OURS, 2)), "b", sessions=(other,))
    allowed = estimate(run.gain(SOURCE))
    assert isinstance(allowed, Estimate)
    assert (allowed.low, allowed.value, allowed.high) == (18, 30, 31.5)
    # A size of one session gets the largest change that sessions made at another one.
    small, factor = estimate(run.gain(SMALL)), 31.5 / 18
    assert isinstance(small, Estimate)
    assert (small.low, small.value, small.high) == pytest.approx((2 / factor, 2, 2 * factor))
    assert run.spread(libraries=["cupy"]) == (5 / 2, 2)
    # Alone, a session allows for the scatter of its own processes.
    alone = estimate(Run(factory.stored(session(OURS, 2)), "b").gain(SOURCE))
    assert isinstance(alone, Estimate)
    assert alone.high / alone.value == pytest.approx(63 / 60 * 2.1 / 2)


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


def earlier(factor: float, name: str = "time", backend: str = "numpy") -> Inputs:
    """Published records with another time of a library in the earlier session."""
    return scaled(factor, name, roles=("third",), backend=backend)


def changed(factor: float, **factors: Any) -> Inputs:
    """Published records with another time of an iteration with a change."""
    return scaled(factor, roles=("second",), subject="change", **factors)


#: What 7,960 parameters and 60,000 images of 28² pixels take in single precision, in MB.
MEGABYTES = {"7.9": 4 * 7_960 / 1e6, "47.1": 4 * 784 * 60_000 / 1e6}


def test_each_claim_has_two_sides() -> None:
    """Beside verdicts of published records, which are pinned."""
    printed = inputs_of(STUDY, source=papers.printing(STUDY, **MEGABYTES))
    idle = scaled(0.1, "matrix_product_time", hidden=10, samples=60_000)
    for claim, inputs, verdict in (
        ("parameter-bytes", printed, "supported"),
        ("input-bytes", printed, "supported"),
        ("host-sets-pace", idle, "refuted"),
        ("nearly-busy", idle, "refuted"),
        ("library-matters", cupy(0.5, SOURCE), "refuted"),
        ("session-matters", earlier(0.5), "refuted"),
        ("session-matters-in-cupy", earlier(0.5), "supported"),
        ("session-matters-in-cupy", earlier(4), "refuted"),
        ("relu-slows", earlier(0.3, "relu_time", "cupy"), "refuted"),
        ("small-slower", cupy(10, SMALL), "supported"),
        ("small-slower", cupy(0.01, SMALL), "refuted"),
        ("large-faster", scaled(1e4, backend="cupy"), "refuted"),
        ("gpu-faster", cupy(1e3, SOURCE), "refuted"),
        ("same-speedup", cupy(1e3, SOURCE), "refuted"),
        ("baseline-matters", scaled(0.01, roles=("cpu",), backend="numpy"), "refuted"),
        ("gap-grows-images", cupy(1e4, SOURCE), "refuted"),
        ("gap-grows-neurons", cupy(1e4, LARGE), "refuted"),
        ("gap-grows-neurons", cupy(0.01, LARGE), "supported"),
        ("same-accuracy", scaled(0.99, "test_accuracy", backend="cupy"), "refuted"),
        ("alike", scaled(1.0011, "train_loss", backend="cupy"), "refuted"),
        ("alike", scaled(1.0009, "train_loss", backend="cupy"), "supported"),
        ("thread-as-predicted", changed(1.5, change=changes.THREAD), "refuted"),
        ("thread-as-predicted", changed(0.96, change=changes.THREAD), "supported"),
        ("double-as-predicted", changed(1.43, change=changes.DOUBLE, samples=60_000),
         "supported"),
        ("returned-as-predicted", changed(2, change=changes.RETURNED), "refuted"),
        ("fused-is-small", changed(1.1, change=changes.FUSED), "refuted"),
        ("calls-shield", changed(1.5, change=changes.FUSED, samples=1), "refuted"),
    ):  # fmt: skip
        assert papers.verdicts(STUDY, inputs, claim) == {claim: verdict}
