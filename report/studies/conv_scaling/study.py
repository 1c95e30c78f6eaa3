"""All that the paper of conv_scaling prints."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from report.evidence.ceilings import won
from report.evidence.primitives import Logged, instruction_sets, logged
from report.missing import Missing
from report.paper.findings import Findings, Inputs
from report.paper.machine_comparison import Comparison, Measure
from report.paper.policies import compared, measured_gain
from report.paper.values import declare
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent
from report.studies.conv_scaling.claims import all_claims, some_nonlinear
from report.studies.conv_scaling.explained import Group, all_groups, listed
from report.studies.conv_scaling.figures import all_figures
from report.studies.conv_scaling.listed_runs import left_runs
from report.studies.conv_scaling.measured import Run, gpu_run, primary_run, runs
from report.studies.conv_scaling.replication import (
    replication_claims,
    replication_facts,
    replication_values,
    second_run,
)
from report.studies.conv_scaling.run_values import RUN_VALUES, layout_gain, under_roof
from report.studies.conv_scaling.source import reported_batches
from report.studies.conv_scaling.subject import check_subject
from report.studies.conv_scaling.tables import alike, all_tables
from report.studies.conv_scaling.values import PERCENT, all_values, unnamed
from report.text.escape import markdown

#: Where a shell lets the value of a variable go on in the next line of a narrow page.
_AT_COLON: Final = re.compile(r"(?<=:)(?=[a-z])")
#: The model of Intel's Rocket Lake in family 6, which has no AMX.
_WITHOUT_TILES: Final = 167


def _best(id_: str, unit: str, run: Run) -> Quantity:
    """A value of the batch size of the highest rate, where any was timed."""
    nothing = absent(id_, unit, "no forward call was timed")
    return RUN_VALUES[id_](run) if run.timed else nothing


#: What many machines are compared by.
COMPARED: Final[Comparison[Run]] = Comparison(
    Run,
    (
        Measure("Slowdown, memory returned", "1", measured_gain, reference=1.0),
        Measure("Best rate", "FLOP/s", partial(_best, "best_rate", "FLOP/s"), "GFLOP/s"),
        Measure("Share of ceiling", "1", partial(_best, "best_share", "1"), "%"),
    ),
)


def findings(inputs: Inputs) -> Findings:
    """Everything that the paper prints; raises ``StudyError`` for records that do not fit it."""
    for item in inputs.records:
        check_subject(item)
    measured = runs(inputs.records)
    primary, gpu = primary_run(measured), gpu_run(measured)
    groups, same_memory = all_groups(inputs, primary, gpu), alike(measured)
    logs = logged(inputs.attachments, primary)
    left = [each.run for each in left_runs(inputs, measured)]
    second = second_run(measured, primary)
    replicated = replication_values(inputs, primary, second)
    return Findings(
        values={
            value.id: value
            for value in (
                *all_values(inputs, groups, logs, left, primary, gpu),
                *(
                    declare(id_, q, "percent" if id_ in PERCENT else None)
                    for id_, q in replicated.items()
                ),
            )
        },
        tables={
            table.id: table
            for table in all_tables(
                inputs, groups, logs, measured, same_memory, primary, second, gpu
            )
        },
        figures={figure.id: figure for figure in all_figures(inputs, primary, second)},
        claims={
            claim.id: claim
            for claim in (
                *all_claims(inputs, groups, measured, same_memory, primary, gpu),
                *replication_claims(replicated, primary, second),
            )
        },
        reconciliations=listed(groups),
        facts={
            **_facts(inputs, groups, logs, measured, same_memory, primary, gpu),
            **replication_facts(inputs, primary, second, same_memory),
            "unnamed": bool(unnamed((*measured, *left))),
            "masked": [markdown(run.label) for run in measured if _masked(run)],
        },
    )


def _facts(
    inputs: Inputs,
    groups: Mapping[str, Group],
    logs: Sequence[Logged],
    measured: tuple[Run, ...],
    same_memory: Sequence[Sequence[Run]],
    primary: Run | None,
    gpu: Run | None,
) -> dict[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    return {
        "measured": primary is not None and bool(primary.timed),
        "executed_exact": bool(groups["executed"].found) and not _residual(groups["executed"]),
        "has": _has(inputs, primary),
        "policies": compared(primary),
        "pooled": primary is not None and bool(primary.stored.others),
        "some_nonlinear": primary is not None and some_nonlinear(primary, inputs),
        "virtual": _virtual(primary),
        "under_roof": primary is not None and under_roof(primary),
        "caches": list(primary.cache_roofs()) if primary else [],
        "settings": _settings(primary),
        "c_library": _c_library(primary),
        "primary": markdown(primary.label) if primary else "",
        "gpu": markdown(gpu.label) if gpu else "",
        "gpu_key": gpu.key if gpu else "",
        "gpu_counted": bool(gpu and groups["device_work"].found),
        "gpu_bounded": gpu is not None and any(group[0] is gpu for group in same_memory),
        "gpu_timed": gpu is not None and bool(gpu.timed),
        "gpu_many": gpu is not None and bool(gpu.timed) and gpu.timed[0] > 1,
        "devices": [markdown(run.label) for run in measured],
        "memory_tables": [
            (f"tbl-memory-{group[0].key}", markdown(_listed([run.label for run in group])))
            for group in same_memory
        ],
        "time_tables": [(f"tbl-time-{r.key}", markdown(r.label), not r.on_gpu) for r in measured],
        "reported_device": markdown(inputs.reported.device),
        "reported_software": markdown(inputs.reported.software),
        "files": list(inputs.files),
        "instructions": {k: markdown(name) for k, name in instruction_sets(logs).items()},
        "best_arithmetic": markdown(won(primary, "matrix_product")),
        "best_bandwidth": markdown(won(primary, "copy")),
    }


def _residual(group: Group) -> float:
    """The residual that is furthest from 0; infinite where none is known."""
    found = point(group.residual)
    return math.inf if isinstance(found, Missing) else found


def _has(inputs: Inputs, run: Run | None) -> list[str]:
    """What only some records hold: both layouts, the source's batch sizes, ones beyond the best."""
    if run is None:
        return []
    source = all(batch in run.timed for batch in reported_batches(inputs))
    later = bool(run.timed) and not RUN_VALUES["fall"](run).missing
    layout = not layout_gain(run).missing
    return ["layout"] * layout + ["source"] * source + ["fall"] * later


def _settings(run: Run | None) -> dict[str, list[str]]:
    """The variables that set each memory policy, as a shell takes them."""
    if run is None:
        return {}
    return {
        policy: [_AT_COLON.sub("\\\n", f"{name}={value}") for name, value in found.items()]
        for policy, found in run.stored.record.protocol.variables.items()
        if found
    }


def _c_library(run: Run | None) -> str:
    host = run.stored.record.environment.host if run is not None else None
    return markdown(host.c_library or "") if host is not None else ""


def _virtual(run: Run | None) -> bool:
    host = run.stored.record.environment.host if run is not None else None
    return host is not None and bool(host.virtualisation)


def _masked(run: Run | None) -> bool:
    """Whether the guest's processor has matrix tiles that its number of a model rules out."""
    host = run.stored.record.environment.host if run is not None else None
    return host is not None and host.model == _WITHOUT_TILES and "amx_tile" in host.flags


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
