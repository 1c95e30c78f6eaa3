"""Whether what one run found holds on a second processor, and in a second run of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from report.evidence.primitives import logged
from report.evidence.repetition import AGREEING, Repeated, agreement, of_both, repetitions
from report.instruments.onednn import NATIVE
from report.paper.claims import judge
from report.paper.declared import Field, table
from report.paper.findings import Claim, Inputs
from report.paper.policies import compared, gain
from report.paper.tables import Table
from report.quantity.expression import Quantity
from report.quantity.verdicts import Statement, all_of, exactly, expect
from report.records.passes import PASS_NAMES, Pass
from report.records.record import Case
from report.studies.conv_scaling import instructions
from report.studies.conv_scaling.claims import SLOWER, verdicts_of
from report.studies.conv_scaling.listed_runs import overlapping, spans
from report.studies.conv_scaling.measured import Run, by_evidence
from report.studies.conv_scaling.policies import VALUES
from report.studies.conv_scaling.run_values import RUN_VALUES, layout_gain
from report.studies.conv_scaling.subject import LAYOUT_NAMES
from report.studies.conv_scaling.values import source_gain
from report.text.escape import markdown

#: What is printed of the second processor, as ``second_…``, beside its gain over the source's
#: batches.
_OF_POLICIES: Final = (
    *("policy_gain", "policy_gain_planned", "mapping_first", "pages_most", "kept_image"),
    *("fault_price", "priced_least", "priced_most", "unpriced_positive", "training_gain"),
    *("runs", "measurements", "disturbed"),
)
_OF_RUN: Final = ("layout_gain", "batch_gain", "ceiling", "copy")


def second_run(runs: Sequence[Run], primary: Run | None) -> Run | None:
    """The best measured other CPU, where that one and the primary one compare memory policies."""
    ordered = by_evidence(runs)
    others = (run for run in ordered if run is not primary and not run.on_gpu and compared(run))
    return next(others, None) if compared(primary) else None


def repeated(run: Run) -> list[Repeated]:
    """The times of which both of the first two runs of a machine give an interval."""
    return [each for each in repetitions(run) if each.bounded]


def repeated_runs(runs: Sequence[Run | None]) -> list[Run]:
    """Those of ``runs`` that compare memory policies and are pooled of several."""
    return [run for run in runs if run is not None and compared(run) and run.stored.others]


# ----------------------------------------------------------------------------------- numbers


def replication_values(
    inputs: Inputs, primary: Run | None, second: Run | None
) -> dict[str, Quantity]:
    """The numbers of the second processor, and how far two runs of each machine agree."""
    found: dict[str, Quantity] = {}
    if second is not None:
        getters = {id_: VALUES[id_] for id_ in _OF_POLICIES}
        getters |= {id_: RUN_VALUES[id_] for id_ in _OF_RUN}
        getters["source_gain"] = source_gain(inputs)
        found |= {f"second_{id_}": get(second) for id_, get in getters.items()}
        if logs := logged(inputs.attachments, second):
            found["second_uneven_native"] = instructions.VALUES["uneven_native"](logs)
    for place, run in enumerate(repeated_runs((primary, second)), start=1):
        found |= {f"{id_}_{place}": each for id_, each in _agreement(inputs, run).items()}
    return found


def _agreement(inputs: Inputs, run: Run) -> dict[str, Quantity]:
    cases, (first, second, *_) = repeated(run), run.alone()
    one, other = (verdicts_of(each, inputs) for each in (first, second))
    changed = [(one[id_], other[id_]) for id_ in one if one[id_] != other[id_]]

    agreeing = sum(each.agrees for each in cases)
    numbers = {
        "repeated_share": ("share that agrees", agreeing / max(len(cases), 1)),
        "repeated_verdicts": ("verdicts in both runs", len(one)),
        "repeated_changed": ("verdicts that differ", len(changed)),
        "repeated_contrary": (
            "verdicts that differ, none of them undecided",
            sum("undecided" not in pair for pair in changed),
        ),
    }
    found = {
        **agreement(run, cases),
        **{id_: of_both(run, name, number) for id_, (name, number) in numbers.items()},
    }
    for end in ("least", "most"):
        found[f"repeated_gain_{end}"] = VALUES[f"policy_gain_{end}"](run)
    for place, name in ((1, "first"), (2, "second")):
        found[f"repeated_made_{name}"] = run.rounds(disturbed=False, number=place)
        found[f"repeated_disturbed_{name}"] = run.rounds(disturbed=True, number=place)
    return found


def replication_claims(
    numbers: dict[str, Quantity], primary: Run | None, second: Run | None
) -> Iterator[Claim]:
    """That the finding holds on both processors, how these differ, and that runs of each agree."""
    if primary is not None and second is not None:
        yield judge(
            "both-pay", all_of(*(Statement(gain(run), SLOWER) for run in (primary, second)))
        )
        yield judge("first-pays-more", Statement(gain(primary) / gain(second), expect("> 1")))
        layouts = layout_gain(second) / layout_gain(primary)
        yield judge("second-layout-pays-more", Statement(layouts, expect("> 1")))
    for place, run in enumerate(repeated_runs((primary, second)), start=1):
        agreement = {
            "runs-agree": Statement(numbers[f"repeated_share_{place}"], expect(AGREEING)),
            "verdicts-agree": Statement(numbers[f"repeated_contrary_{place}"], exactly(0)),
        }
        for name, statement in agreement.items():
            yield judge(f"{name}-{run.key}", statement, name=name, label=run.label)


def replication_facts(
    inputs: Inputs, primary: Run | None, second: Run | None, same_memory: Sequence[Sequence[Run]]
) -> dict[str, Any]:
    """Names of both processors, when each was measured, and whether their bytes are equal."""
    return {
        "codes": [_nhwc_code(inputs, run) for run in (primary, second) if run is not None],
        "second": markdown(second.label) if second else "",
        "second_key": second.key if second else "",
        "names": [markdown(each.short) for each in (primary, second) if each is not None],
        "repeated": [
            {
                "number": str(place),
                "key": run.key,
                "label": markdown(run.label),
                "spans": spans(run),
                "overlapping": overlapping(run),
            }
            for place, run in enumerate(repeated_runs((primary, second)), start=1)
        ],
        "same_library": primary is not None
        and second is not None
        and _same_library(primary, second),
        "same_bytes": any(primary in group and second in group for group in same_memory),
    }


def _same_library(run: Run, other: Run) -> bool:
    one, two = (each.stored.record.environment.host for each in (run, other))
    return one is not None and two is not None and one.c_library == two.c_library


def _nhwc_code(inputs: Inputs, run: Run) -> str:
    """Which code of oneDNN computes a call with channels last; nothing where it was not logged."""
    found = logged(inputs.attachments, run)
    codes = (e.code(NATIVE) for e in found if e.case.factors.get("layout") == "channels_last")
    return next(codes, "")


def repeated_table(runs: Sequence[Run]) -> Table:
    """The series of two runs of a machine that do not agree, with both times."""
    rows = [(run, each) for run in runs for each in repeated(run) if not each.agrees]
    level: dict[str, Callable[[tuple[Run, Repeated]], str]] = {
        "Machine": lambda row: row[0].short,
        "Case": lambda row: _case(row[1].case),
        "Memory": lambda row: _POLICIES[row[1].policy],
    }
    return table(
        "tbl-repeated",
        rows,
        [
            *(Field(name, "", get) for name, get in level.items()),
            Field("Batch", "1", lambda row: int(row[1].case.factors.get("batch", 1))),
            Field("First run", "s", lambda row: row[1].times[0], "ms"),
            Field("Second run", "s", lambda row: row[1].times[1], "ms"),
        ],
        sources=tuple(each.file for run in runs for each in run.alone()[:2]),
    )


_POLICIES: Final = {"retained": "kept", "default": "returned", "jemalloc": "jemalloc"}


def _case(case: Case) -> str:
    """What of a case tells it from others, but for its batch size."""
    factors = case.factors
    pass_: Pass = factors.get("pass", "forward")  # type: ignore[assignment]
    layout = LAYOUT_NAMES.get(factors.get("layout"), "")  # type: ignore[call-overload]
    subject = {"layer": "", "avx2": "AVX2"}.get(str(factors["subject"]), str(factors["subject"]))
    return ", ".join(filter(None, (subject, PASS_NAMES[pass_], layout)))
