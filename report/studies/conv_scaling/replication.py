"""Whether what one run found holds on a second processor, and in a second run of the same one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from report.evidence.primitives import logged
from report.instruments.onednn import NATIVE
from report.paper.claims import judge
from report.paper.declared import Field, table
from report.paper.findings import Claim, Inputs
from report.paper.policies import compared, gain
from report.paper.tables import Table
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity, exact
from report.quantity.verdicts import Statement, all_of, exactly, expect
from report.records.passes import PASS_NAMES, Pass
from report.records.record import Case, Policy
from report.statistics.estimates import Estimate
from report.studies.conv_scaling import instructions
from report.studies.conv_scaling.claims import SLOWER, verdicts_of
from report.studies.conv_scaling.listed_runs import overlapping, spans
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.policies import VALUES
from report.studies.conv_scaling.run_values import RUN_VALUES, layout_gain
from report.studies.conv_scaling.subject import LAYOUT_NAMES
from report.studies.conv_scaling.values import source_gain
from report.text.escape import markdown
from report.text.format import is_range

#: Two runs agree if in so large a share of cases the median of each is in the other's interval.
_AGREEING: Final = ">= 0.9"
#: What is told of the second processor, as ``second_…``, beside its gain over the source's batches.
_OF_POLICIES: Final = (
    *("policy_gain", "mapping_first", "pages_most"),
    *("fault_price", "priced_least", "priced_most", "unpriced_positive", "training_gain"),
    *("runs", "measurements", "disturbed"),
)
_OF_RUN: Final = ("layout_gain", "batch_gain", "ceiling", "copy")


def second_run(runs: Sequence[Run], primary: Run | None) -> Run | None:
    """The newest run on another CPU, where that one and the primary one compare memory policies."""
    others = (run for run in runs if run is not primary and not run.on_gpu and compared(run))
    return next(others, None) if compared(primary) else None


class Repeated(NamedTuple):
    """The time of a call in a case (s), under one policy, in two runs of a machine."""

    case: Case
    policy: Policy
    times: tuple[Quantity, Quantity]
    first: Estimate
    second: Estimate

    @property
    def agrees(self) -> bool:
        """Whether the median of each run lies in the interval of the other."""
        one, other = self.first, self.second
        return one.low <= other.value <= one.high and other.low <= one.value <= other.high

    @property
    def overlaps(self) -> bool:
        """Whether the intervals have a time in common."""
        return self.first.low <= self.second.high and self.second.low <= self.first.high


def series_of(run: Run) -> Iterator[Repeated]:
    """Every time that the first two runs pooled in ``run`` both measured, policy by policy."""
    first, second, *_ = run.alone()
    for case in first.stored.record.cases:
        for policy in first.policies:
            times = (
                first.under(policy).series("time", case.factors),
                second.under(policy).series("time", case.factors),
            )
            one, other = map(estimate, times)
            if isinstance(one, Estimate) and isinstance(other, Estimate):
                yield Repeated(case, policy, times, one, other)


def repeated(run: Run) -> list[Repeated]:
    """Those of ``series_of`` of which both runs have enough processes for an interval."""
    return [s for s in series_of(run) if not is_range(s.first) and not is_range(s.second)]


def repeated_run(runs: Sequence[Run | None]) -> Run | None:
    """The first of ``runs`` that is pooled of several."""
    return next((run for run in runs if run is not None and run.stored.others), None)


# ----------------------------------------------------------------------------------- numbers


def replication_values(
    inputs: Inputs, primary: Run | None, second: Run | None
) -> dict[str, Quantity]:
    """The numbers of the second processor, and how far two runs of one machine agree."""
    found: dict[str, Quantity] = {}
    if second is not None:
        getters = {id_: VALUES[id_] for id_ in _OF_POLICIES}
        getters |= {id_: RUN_VALUES[id_] for id_ in _OF_RUN}
        getters["source_gain"] = source_gain(inputs)
        found |= {f"second_{id_}": get(second) for id_, get in getters.items()}
        if logs := logged(inputs.attachments, second):
            found["second_uneven_native"] = instructions.VALUES["uneven_native"](logs)
    if (run := repeated_run((primary, second))) is not None and compared(run):
        found |= _agreement(inputs, run)
    return found


def _agreement(inputs: Inputs, run: Run) -> dict[str, Quantity]:
    cases, (first, second, *_) = repeated(run), run.alone()
    one, other = (verdicts_of(each, inputs) for each in (first, second))
    changed = [(one[id_], other[id_]) for id_ in one if one[id_] != other[id_]]

    def number(name: str, amount: float) -> Quantity:
        return exact(name, "1", amount, first.file, (second.file,))

    agreeing = sum(each.agrees for each in cases)
    found = {
        "repeated": number("series with intervals in both runs", len(cases)),
        "repeated_without": number("series without", len(list(series_of(run))) - len(cases)),
        "repeated_agree": number("series that agree", agreeing),
        "repeated_share": number("share that agrees", agreeing / max(len(cases), 1)),
        "repeated_overlap": number("series that overlap", sum(each.overlaps for each in cases)),
        "repeated_verdicts": number("verdicts in both runs", len(one)),
        "repeated_changed": number("verdicts that differ", len(changed)),
        "repeated_contrary": number(
            "verdicts that differ, none of them undecided",
            sum("undecided" not in pair for pair in changed),
        ),
    }
    for end in ("least", "most"):
        found[f"repeated_gain_{end}"] = VALUES[f"policy_gain_{end}"](run)
    for place in (1, 2):
        found[f"repeated_made_{place}"] = run.rounds(disturbed=False, number=place)
        found[f"repeated_disturbed_{place}"] = run.rounds(disturbed=True, number=place)
    return found


def replication_claims(
    numbers: dict[str, Quantity], primary: Run | None, second: Run | None
) -> Iterator[Claim]:
    """That the finding holds on both processors, how these differ, and that two runs agree."""
    if primary is not None and second is not None:
        yield judge(
            "both-pay", all_of(*(Statement(gain(run), SLOWER) for run in (primary, second)))
        )
        yield judge("first-pays-more", Statement(gain(primary) / gain(second), expect("> 1")))
        layouts = layout_gain(second) / layout_gain(primary)
        yield judge("second-layout-pays-more", Statement(layouts, expect("> 1")))
    if "repeated_share" in numbers:
        yield judge("runs-agree", Statement(numbers["repeated_share"], expect(_AGREEING)))
        yield judge("verdicts-agree", Statement(numbers["repeated_contrary"], exactly(0)))


def replication_facts(
    inputs: Inputs, primary: Run | None, second: Run | None, same_memory: Sequence[Sequence[Run]]
) -> dict[str, Any]:
    """Names of both processors, when the repeated one was measured, and whether bytes are equal."""
    run = repeated_run((primary, second))
    return {
        "codes": [_nhwc_code(inputs, run) for run in (primary, second) if run is not None],
        "second": markdown(second.label) if second else "",
        "second_key": second.key if second else "",
        "names": [markdown(each.short) for each in (primary, second) if each is not None],
        "repeated": markdown(run.label) if run else "",
        "spans": spans(run) if run else [],
        "overlapping": run is not None and overlapping(run),
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


def repeated_table(run: Run) -> Table:
    """The series of two runs that do not agree, with both times."""
    level: dict[str, Callable[[Repeated], str]] = {
        "Case": lambda each: _case(each.case),
        "Memory": lambda each: _POLICIES[each.policy],
    }
    return table(
        "tbl-repeated",
        [each for each in repeated(run) if not each.agrees],
        [
            *(Field(name, "", get) for name, get in level.items()),
            Field("Batch", "1", lambda each: int(each.case.factors.get("batch", 1))),
            Field("First run", "s", lambda each: each.times[0], "ms"),
            Field("Second run", "s", lambda each: each.times[1], "ms"),
        ],
        sources=tuple(each.file for each in run.alone()[:2]),
    )


_POLICIES: Final = {"retained": "kept", "default": "returned", "jemalloc": "jemalloc"}


def _case(case: Case) -> str:
    """What of a case tells it from others, but for its batch size."""
    factors = case.factors
    pass_: Pass = factors.get("pass", "forward")  # type: ignore[assignment]
    layout = LAYOUT_NAMES.get(factors.get("layout"), "")  # type: ignore[call-overload]
    subject = {"layer": "", "avx2": "AVX2"}.get(str(factors["subject"]), str(factors["subject"]))
    return ", ".join(filter(None, (subject, PASS_NAMES[pass_], layout)))
