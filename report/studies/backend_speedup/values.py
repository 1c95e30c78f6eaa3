"""The numbers of backend_speedup's prose that follow from theory and from the source."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from report.evidence.audit import count_by_verdict
from report.paper.findings import Inputs
from report.paper.values import Value, exact
from report.quantity.expression import Quantity
from report.quantity.expression import exact as count
from report.quantity.operations import counted_in
from report.statistics.estimates import CONFIDENCE
from report.studies.backend_speedup import theory
from report.studies.backend_speedup.memory_values import declared, declared_in
from report.studies.backend_speedup.source import (
    amdahl,
    amdahl_limit,
    audit,
    printed_cell,
    printed_data_set,
    printed_number,
)
from report.studies.backend_speedup.subject import CONVNET_RATE

#: Images of Kaggle's digit-recognizer that come without a label, by its description
#: (``kaggledigit`` in the bibliography); the others of MNIST are its training file.
_UNLABELLED: Final = count("images without label (Kaggle)", "1", 28_000)


def theory_values() -> tuple[Value, ...]:
    """What follows from the shapes of both networks, and what was chosen."""
    found = {
        "extent": theory.EXTENT,
        "pixels": theory.D,
        "classes": theory.K,
        "hidden": theory.H,
        "parameters": theory.PARAMETERS,
        "parameter_bytes": theory.PARAMETER_BYTES,
        "forward_macs": theory.FORWARD,
        "training_macs": theory.TRAINING,
        "training_ratio": theory.TRAINING / theory.FORWARD,
        "convnet_parameters": theory.CONVNET_PARAMETERS,
        "convnet_macs": theory.CONVNET_TRAINING,
        "convnet_work_ratio": theory.CONVNET_TRAINING / theory.TRAINING,
        "channels": theory.C,
        "kernel": theory.KERNEL,
        "features": theory.F,
    }
    return (
        *declared(found, None),
        exact("convnet_rate", "Learning rate of the convolution network", CONVNET_RATE, "1",
              "chosen"),
        Value("confidence", "Confidence of the intervals", CONFIDENCE, "1", "chosen", (),
              "percent"),
    )  # fmt: skip


def source_values(inputs: Inputs) -> tuple[Value, ...]:
    """What the source prints, and what follows from it."""
    return (
        *declared({**_printed(inputs), **_audited(inputs)}, "exact"),
        *declared({**_rates(inputs), **_decomposed(inputs), **_memory(inputs)}),
        *_in_printed_units(inputs),
    )


def _printed(inputs: Inputs) -> dict[str, Quantity]:
    images = printed_data_set(inputs, "training")
    numbers = {
        "source_iterations": "iterations",
        "source_rate": "learning_rate",
        "source_images": "training",
        "source_held_out": "validation",
        "source_total_cpu": "total_time_cpu",
        "source_total_gpu": "total_time_gpu",
        "source_speedup": "total_speedup",
    }
    rows = {"3": ("forward", "backward"), "4": ("matrix_product", "relu", "softmax", "gradient")}
    return {
        **{id_: printed_number(inputs, key) for id_, key in numbers.items()},
        "printed_images": images,
        "kaggle_images": images + printed_data_set(inputs, "test") - _UNLABELLED,
        "kaggle_columns": theory.D + 1,
        **{
            f"source_{row}": printed_cell(inputs, table, row, "speedup")
            for table, found in rows.items()
            for row in found
        },
    }


def _audited(inputs: Inputs) -> dict[str, Quantity]:
    """How many derived numbers of the source were computed again, by verdict."""
    counts = count_by_verdict(audit(inputs.reported))
    agrees, rounds, differs = (
        count(f"audited numbers({verdict})", "1", found, inputs.reported_file)
        for verdict, found in counts.items()
    )
    agreeing = agrees + rounds
    return {"audited": agreeing + differs, "agreeing": agreeing, "differing": differs}


def _rates(inputs: Inputs) -> dict[str, Quantity]:
    """How fast the source's machines computed and moved, from its times and from theory."""
    work, traffic = theory.source_work(inputs), theory.source_traffic(inputs)
    times = {side: printed_cell(inputs, "3", "iteration", side) for side in ("cpu", "gpu")}
    return {
        "product_intensity": theory.product_intensity(inputs),
        "source_work": work,
        "source_traffic": traffic,
        **{f"source_flops_{side}": work / time for side, time in times.items()},
        **{f"source_bandwidth_{side}": traffic / time for side, time in times.items()},
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


def _memory(inputs: Inputs) -> dict[str, Quantity]:
    pixels, images = theory.D, printed_data_set(inputs, "training")
    overhead, whole = (printed_cell(inputs, "5", row, "gpu") for row in ("framework", "total"))
    printed = printed_cell(inputs, "5", "parameters", "cpu")
    return {
        "mnist_bytes": counted_in("B", (images + printed_data_set(inputs, "test")) * pixels),
        "parameters_ratio": printed / theory.PARAMETER_BYTES,
        "input_floats": theory.ELEMENT * pixels * images,
        "input_bytes": counted_in("B", pixels * images),
        "input_labelled": counted_in("B", (pixels + 1) * images),
        "overhead_share": overhead / whole,
    }


def _in_printed_units(inputs: Inputs) -> Iterator[Value]:
    """What is printed with the prefix of the source's own unit."""
    sizes = {
        "printed_size": printed_data_set(inputs, "size"),
        "printed_parameters": printed_cell(inputs, "5", "parameters", "cpu"),
        "printed_input": printed_cell(inputs, "5", "input", "cpu"),
    }
    for id_, size in sizes.items():
        yield declared_in("MB", 10**6, id_, size)
    backward = printed_cell(inputs, "3", "backward", "gpu")
    beyond = printed_cell(inputs, "4", "gradient", "gpu") - backward
    yield declared_in("ms", Fraction(1, 1000), "gradient_beyond", beyond)
