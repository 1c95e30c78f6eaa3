"""All that the paper of conv_scaling prints."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from report.evidence.ceilings import won
from report.evidence.runs import run_of
from report.missing import Missing
from report.paper.findings import Findings, Inputs
from report.paper.machine_comparison import Comparison, Measure
from report.paper.policies import compared, measured_gain
from report.quantity.evaluation import ENOUGH_RUNS, point
from report.quantity.expression import Quantity, absent
from report.studies.conv_scaling.claims import all_claims
from report.studies.conv_scaling.explained import Group, all_groups, listed
from report.studies.conv_scaling.figures import all_figures
from report.studies.conv_scaling.measured import Run, runs
from report.studies.conv_scaling.run_values import RUN_VALUES, layout_gain
from report.studies.conv_scaling.source import reported_batches
from report.studies.conv_scaling.subject import check_subject
from report.studies.conv_scaling.tables import all_tables
from report.studies.conv_scaling.values import all_values, repeated_runs
from report.text.escape import markdown

#: Where a shell lets the value of a variable go on in the next line of a narrow page.
_AT_COLON: Final = re.compile(r"(?<=:)(?=[a-z])")


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
    primary, second, gpu = (run_of(inputs.cast.get(r), measured) for r in ("cpu", "second", "gpu"))
    # The second CPU's part is the comparison of memory policies.
    second = second if compared(primary) and compared(second) else None
    groups = all_groups(inputs, primary, gpu)
    three = (primary, second, None if gpu is primary else gpu)
    chosen = [run for run in three if run is not None]
    values = all_values(inputs, groups, primary, second, gpu)
    tables = all_tables(inputs, groups, measured, primary, gpu)
    return Findings(
        values={value.id: value for value in values},
        tables={table.id: table for table in tables},
        figures={figure.id: figure for figure in all_figures(inputs, primary, second)},
        claims={claim.id: claim for claim in all_claims(inputs, groups, chosen, primary, gpu)},
        reconciliations=listed(groups),
        facts={
            **_facts(inputs, groups, primary, second, gpu),
            "devices": [markdown(run.label) for run in measured],
        },
    )


def _facts(
    inputs: Inputs,
    groups: Mapping[str, Group],
    primary: Run | None,
    second: Run | None,
    gpu: Run | None,
) -> dict[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    both = [run for run in (primary, second) if run is not None]
    return {
        "measured": primary is not None and bool(primary.timed),
        "executed": bool(groups["executed"].found),
        "executed_exact": bool(groups["executed"].found) and not _residual(groups["executed"]),
        "has": _has(inputs, primary),
        "policies": compared(primary),
        "pooled": primary is not None and bool(primary.stored.others),
        "virtual": _virtual(primary),
        "settings": _settings(primary),
        "c_library": _c_library(primary),
        "primary": markdown(primary.label) if primary else "",
        "second": markdown(second.label) if second else "",
        "second_key": second.key if second else "",
        "names": [markdown(each.short) for each in both],
        "by_run": [markdown(r.label) for r in both if len(r.stored.runs) >= ENOUGH_RUNS],
        "repeated": [
            {"number": str(place), "label": markdown(run.label)}
            for place, run in enumerate(repeated_runs(both), start=1)
        ],
        "gpu": markdown(gpu.label) if gpu else "",
        "gpu_key": gpu.key if gpu else "",
        "gpu_counted": bool(gpu and groups["device_work"].found),
        "reported_device": markdown(inputs.reported.device),
        "reported_software": markdown(inputs.reported.software),
        "files": list(inputs.files),
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
