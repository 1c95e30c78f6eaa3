"""Measure the numbers from which other tools' rules predict the largest batch that fits.

``python -m benchmarks.baselines`` writes ``data/inference_memory/baselines-avx2.csv``, or the table
of another vector extension.  From the table a paper computes what these rules predict under the
limits of ``benchmarks.fits``.  Takes ten minutes.  ``--sample`` measures a third of the networks in
three minutes, into a separate table.  Needs torchinfo and torch-kitsune.
"""

import sys
from functools import partial
from typing import Any, Final

import torch

from benchmarks.fits import CAPABILITY, DATA, line_through, origin, write_table
from experiments.harness.memory import measure_cpu
from experiments.harness.timing import Workload
from experiments.theory.networks import find_network
from report.studies.inference_memory.subject import IMAGE_SIDE

_SUFFIX: Final = "-sample" if "--sample" in sys.argv else ""
TABLE: Final = DATA / f"baselines-{CAPABILITY}{_SUFFIX}.csv"
#: Batches whose peak memory is measured.
BATCHES: Final = tuple(2**n for n in range(1, 9))
COLUMNS: Final = (
    "network", *(f"peak_of_{batch}" for batch in BATCHES), "summed_fixed", "summed_per_image",
    "estimated_fixed", "estimated_per_image", "machine", "torch", "commit",
)  # fmt: skip


def rows_of(name: str) -> list[tuple[Any, ...]]:
    """Return a network's row: its peaks (B), and per tool the line through two estimates."""
    from kitsune.predict.estimator import predict_memory  # type: ignore[import-not-found]
    from torchinfo import summary  # type: ignore[import-not-found]

    named = find_network(name)
    module, shape = named.build().eval(), (named.image[0], IMAGE_SIDE, IMAGE_SIDE)
    tensors = (*module.parameters(), *module.buffers())
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}

    def call(batch: int) -> Any:
        with torch.no_grad():
            return module(torch.randn(batch, *shape))

    def peak(batch: int) -> int:
        call(batch)
        series = measure_cpu(partial(Workload, partial(call, batch)), 1)
        return sum(storages.values()) + int(series["allocated_peak"][0])

    def torchinfo_sum(batch: int) -> int:
        total = summary(module, input_size=(batch, *shape), verbose=0, device="cpu")
        return int(total.total_input + total.total_output_bytes + total.total_param_bytes)

    def kitsune_estimate(batch: int) -> int:
        estimate = predict_memory(module, shape, batch_size=batch, training=False)
        return int(estimate.total_bytes)

    sums = line_through((1, 3), (torchinfo_sum(1), torchinfo_sum(3)))
    estimates = line_through((1, 3), (kitsune_estimate(1), kitsune_estimate(3)))
    return [(name, *map(peak, BATCHES), *sums, *estimates, *origin())]


if __name__ == "__main__":
    write_table(TABLE, COLUMNS, rows_of)
