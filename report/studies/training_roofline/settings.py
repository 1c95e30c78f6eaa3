"""Precision, layout and image size: what each does to time, with absolute base times."""

from __future__ import annotations

from typing import Final

from report.quantity.evaluation import point
from report.quantity.expression import Quantity
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.subject import NETWORKS, Step

#: A host that waits less than this share of a step for its device is what the device waited for.
HOST_BOUND: Final = 0.01


def pairs(run: Run) -> tuple[tuple[Step, Step], ...]:
    """Steps in another precision or layout, each beside the plain step that was timed too."""
    return tuple(
        (step.plain, step)
        for network in NETWORKS
        for step in run.chosen(network=network, execution="eager", optimizer="default")
        if step != step.plain and step.plain in run.steps and step.dataset == "synthetic"
    )


def host_bound(run: Run) -> tuple[Step, ...]:
    """The steps after whose last operation was issued the host hardly waited for the device.

    The device is then done with nearly all of the step and waited for the host instead.
    """
    shares = {step: point(host_share(run, step)) for step in run.timed(run.steps)}
    return tuple(
        step for step, share in shares.items() if isinstance(share, float) and share < HOST_BOUND
    )


def host_share(run: Run, step: Step) -> Quantity:
    """The share of a step that the host waited for its device after it had issued the step."""
    return run.series("wait_time", step.factors) / run.time(step)
