"""The numbers of the prose that are computed from the source alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from report.evidence.audit import count_by_verdict
from report.paper.findings import Inputs
from report.paper.values import Value, declare
from report.quantity.evaluation import number
from report.quantity.expression import Quantity, absent, exact
from report.studies.backend_speedup import theory
from report.studies.backend_speedup.source import (
    SIDES,
    amdahl,
    amdahl_limit,
    audit,
    printed_cell,
    printed_data_set,
    printed_number,
)

#: A GPU of the class that free notebooks had in the year of the source, which names none.
_CLASS: Final = "NVIDIA T4"
#: Images of Kaggle's digit-recognizer that come without a label, by its description
#: (``kaggledigit`` in the bibliography); the others of MNIST are its training file.
_UNLABELLED: Final = exact("images without label (Kaggle)", "1", 28_000)


def source_values(inputs: Inputs) -> Iterator[Value]:
    """What the source prints, and what follows from it."""
    exactly = {**_printed(inputs), **_audited(inputs), **_described(inputs)}
    yield from (declare(id_, each, "exact") for id_, each in exactly.items())
    for id_, each in {**_rates(inputs), **_decomposed(inputs)}.items():
        yield declare(id_, each, "percent" if "share" in id_ else "measured")
    yield from _in_printed_units(inputs)


def _printed(inputs: Inputs) -> dict[str, Quantity]:
    numbers = {
        "source_iterations": "iterations",
        "source_rate": "learning_rate",
        "source_speedup": "total_speedup",
    }
    rows = {"3": ("forward", "backward"), "4": ("matrix_product", "relu", "softmax")}
    return {
        **{id_: printed_number(inputs, key) for id_, key in numbers.items()},
        **{
            f"source_{row}": printed_cell(inputs, table, row, "speedup")
            for table, found in rows.items()
            for row in found
        },
    }


def _audited(inputs: Inputs) -> dict[str, Quantity]:
    """How many derived numbers of the source were computed again, by verdict."""
    counts, file = count_by_verdict(audit(inputs.reported)), inputs.reported_file
    agreeing = counts["agrees"] + counts["rounds"]
    return {
        "audited": exact("audited numbers", "1", agreeing + counts["differs"], file),
        "agreeing": exact("audited numbers that agree", "1", agreeing, file),
        "differing": exact("audited numbers that differ", "1", counts["differs"], file),
    }


def _described(inputs: Inputs) -> dict[str, Quantity]:
    """How the source describes its data set."""
    images = printed_data_set(inputs, "training")
    return {
        "printed_images": images,
        "kaggle_images": images + printed_data_set(inputs, "test") - _UNLABELLED,
    }


def _rates(inputs: Inputs) -> dict[str, Quantity]:
    """How fast the source's machines computed and moved, from its times and from theory."""
    times = {side: printed_cell(inputs, "3", "iteration", side) for side in SIDES}
    pixels, images = theory.D, printed_data_set(inputs, "training")
    return {
        "product_intensity": theory.product_intensity(inputs),
        **_on_roof(inputs, times["gpu"]),
        "input_floats": theory.ELEMENT * pixels * images,
    }


def _on_roof(inputs: Inputs, time: Quantity) -> dict[str, Quantity]:
    """The least time of an iteration by the data sheet of a GPU of the source's class."""
    device = inputs.devices.find(_CLASS)
    peaks = [device.peak(each) if device else None for each in ("float32", "memory")]
    work, traffic = (
        absent("peak", unit, f"no data sheet of {_CLASS}")
        if peak is None
        else exact(f"{name} peak of {_CLASS}", unit, peak.rate, "devices.yaml")
        for peak, name, unit in zip(peaks, ("arithmetic", "memory"), ("FLOP/s", "B/s"), strict=True)
    )
    bound = theory.source_traffic(inputs) / traffic
    return {
        "roof_work": theory.source_work(inputs) / work,
        "roof_traffic": bound,
        "roof_times": time / bound,
    }


def _decomposed(inputs: Inputs) -> dict[str, Quantity]:
    def share(row: str, side: str) -> Quantity:
        whole = printed_cell(inputs, "3", "iteration", side)
        return printed_cell(inputs, "4", row, side) / whole

    return {
        "source_amdahl": amdahl(inputs),
        "source_limit": amdahl_limit(inputs, "matrix_product"),
        "product_share_cpu": share("matrix_product", "cpu"),
        "product_share_gpu": share("matrix_product", "gpu"),
        "gradient_share_gpu": share("gradient", "gpu"),
    }


def _in_printed_units(inputs: Inputs) -> Iterator[Value]:
    """What is printed with the prefix of the source's own unit."""
    backward = printed_cell(inputs, "3", "backward", "gpu")
    for id_, unit, size, found in (
        ("printed_parameters", "MB", 10**6, printed_cell(inputs, "5", "parameters", "cpu")),
        ("printed_input", "MB", 10**6, printed_cell(inputs, "5", "input", "cpu")),
        (
            "gradient_beyond",
            "ms",
            Fraction(1, 1000),
            printed_cell(inputs, "4", "gradient", "gpu") - backward,
        ),
    ):
        yield in_unit(declare(id_, found, "exact"), found, unit, size)


def in_unit(value: Value, found: Quantity, unit: str, size: int | Fraction) -> Value:
    """``value`` in a unit with a prefix, which is ``size`` of the quantity's own."""
    return replace(value, number=number(found / exact(unit, str(found.unit), size)), unit=unit)
