"""The kernels that a GPU ran in one call, by name, from what Nsight Compute printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from report.evidence.runs import Factors, Run
from report.instruments.counters import ncu_logs
from report.instruments.counters.logs import attachment_name, unpack
from report.paper.findings import Inputs
from report.theory.terms import Tile

#: The file beside a record that holds what Nsight Compute printed.
ATTACHMENT: Final = attachment_name(ncu_logs.TOOL)

_TILE: Final = re.compile(r"_tilesize(\d+)x(\d+)x(\d+)_")


def kernels_of(inputs: Inputs, run: Run, factors: Factors) -> tuple[str, ...]:
    """The names of the kernels of one call of the case with these factors, by their first launch.

    None where the run has no table of them, or one that is not to be trusted.
    """
    content = inputs.attachments.get(run.file, {}).get(ATTACHMENT)
    cases = enumerate(run.stored.record.cases)
    index = next((index for index, case in cases if case.factors == factors), None)
    place = f"data/{run.file}, {ATTACHMENT}"
    logs = {} if content is None else _logs(content, place)
    if index is None or index not in logs:
        return ()
    log = ncu_logs.read_log(logs[index], f"{place}, case {index}")
    if "cuda_core" in log.distrusted:
        return ()
    return tuple(dict.fromkeys(row.kernel for row in log.calls[0]))


@lru_cache(maxsize=2)
def _logs(content: bytes, place: str) -> Mapping[int, Mapping[str, str]]:
    """What was kept of each case; a paper asks for one after the other."""
    return {item.case: item.logs for item in unpack(content, ncu_logs.TOOL, place)}


def tile_of(kernel: str) -> Tile | None:
    """The tile that the name of a kernel tells, as in ``…_tilesize128x32x8_stage3_…``."""
    found = _TILE.search(kernel)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))
