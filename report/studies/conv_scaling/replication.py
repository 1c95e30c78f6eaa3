"""Whether what one run found holds on a second processor, and in further runs of each."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any, Final

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from report.evidence.primitives import logged
from report.evidence.remembered import remembered
from report.evidence.repetition import (
    BY_CHANCE,
    Repeated,
    agreement,
    by_files,
    of_all,
    repetitions,
    shift,
)
from report.instruments.onednn import NATIVE
from report.missing import Missing
from report.paper.claims import judge
from report.paper.findings import Claim, Figure, Inputs
from report.paper.policies import compared, gain
from report.quantity.evaluation import ENOUGH_RUNS, point, to_digits
from report.quantity.expression import Quantity
from report.quantity.verdicts import Statement, all_of, exactly, expect
from report.studies.conv_scaling import instructions
from report.studies.conv_scaling.claims import SLOWER, verdicts_of
from report.studies.conv_scaling.listed_runs import ARITHMETIC, overlapping, spans
from report.studies.conv_scaling.measured import Run, by_evidence
from report.studies.conv_scaling.policies import VALUES
from report.studies.conv_scaling.run_values import RUN_VALUES, layout_gain
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
#: Fewer pairs of times have no tenths.
_FEW: Final = 10
#: The ceiling is drawn lower by a part of a row, since it lies near the median.
_BELOW: Final = 0.3
#: How much higher than usual the rows are, since each has three kinds of marks.
_TALLER: Final = 1.4
#: A time that differs by more from how its runs differ as wholes stands out.
_FAR: Final = 0.25


def second_run(runs: Sequence[Run], primary: Run | None) -> Run | None:
    """The best measured other CPU, where that one and the primary one compare memory policies."""
    ordered = by_evidence(runs)
    others = (run for run in ordered if run is not primary and not run.on_gpu and compared(run))
    return next(others, None) if compared(primary) else None


@remembered
def repeated(run: Run) -> tuple[Repeated, ...]:
    """The times of which two runs of a machine both give an interval."""
    return tuple(each for each in repetitions(run) if each.bounded)


def repeated_runs(runs: Sequence[Run | None]) -> list[Run]:
    """Those of ``runs`` that compare memory policies and are pooled of several."""
    return [run for run in runs if run is not None and compared(run) and run.stored.others]


# ----------------------------------------------------------------------------------- numbers


def replication_values(
    inputs: Inputs, primary: Run | None, second: Run | None
) -> dict[str, Quantity]:
    """The numbers of the second processor, and how far the runs of each machine agree."""
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
    pairs, alone = repeated(run), run.alone()
    verdicts = [verdicts_of(each, inputs) for each in alone]
    every = [{each[id_] for each in verdicts} for id_ in verdicts[0]]
    agreeing = sum(each.agrees for each in pairs)
    numbers = {
        "repeated_share": ("share that agrees", agreeing / max(len(pairs), 1)),
        "repeated_verdicts": ("verdicts in all runs", len(every)),
        "repeated_changed": ("verdicts that differ", sum(len(found) > 1 for found in every)),
        "repeated_contrary": (
            "verdicts that turn into their opposite",
            sum(found >= {"supported", "refuted"} for found in every),
        ),
    }
    found = {
        **agreement(run, pairs),
        **{id_: of_all(run, name, number) for id_, (name, number) in numbers.items()},
        **_moved(run, pairs),
    }
    for end in ("least", "most"):
        found[f"repeated_gain_{end}"] = VALUES[f"policy_gain_{end}"](run)
    for place, name in ((1, "first"), (2, "second")):
        found[f"repeated_made_{name}"] = run.rounds(disturbed=False, number=place)
        found[f"repeated_disturbed_{name}"] = run.rounds(disturbed=True, number=place)
    return found


def _moved(run: Run, pairs: Sequence[Repeated]) -> dict[str, Quantity]:
    """How far runs differ as wholes, and how far from that nine in ten of the times still do."""
    if len(pairs) < _FEW:
        return {}
    whole, rest = differences(pairs)
    return {
        "repeated_whole": to_digits(of_all(run, "slower / faster run, median of calls", whole), 3),
        "repeated_rest": to_digits(of_all(run, "nine in ten lie within, beside that", rest), 2),
    }


def differences(pairs: Sequence[Repeated]) -> tuple[float, float]:
    """The largest ratio of two runs, and what nine in ten times differ from theirs, relatively."""
    rest = [apart for _, apart in _beside_the_whole(pairs)]
    shifts = map(shift, by_files(pairs).values())
    return max(max(each, 1 / each) for each in shifts), statistics.quantiles(rest, n=10)[-1]


def _beside_the_whole(pairs: Sequence[Repeated]) -> Iterator[tuple[Repeated, float]]:
    """How far each time differs from how its two runs differ as wholes, relatively."""
    for found in by_files(pairs).values():
        whole = shift(found)
        yield from ((each, abs(each.ratio / whole - 1)) for each in found)


def far_by_pages(run: Run) -> bool:
    """Whether the times that differ most are of NHWC calls that map pages in some processes."""
    far = [each for each, apart in _beside_the_whole(repeated(run)) if apart > _FAR]
    seen = run.under("default")
    return bool(far) and all(
        each.policy == "default"
        and each.case.factors.get("layout") == "channels_last"
        and not isinstance(pages := seen.by_process("page_faults", each.case.factors), Missing)
        and len({statistics.median(process.samples) for process in pages}) > 1
        for each in far
    )


def moves_as_a_whole(run: Run) -> bool:
    """Whether runs differ by more than single times do beside it, and the ceiling with them."""
    pairs = repeated(run)
    if len(pairs) < _FEW:
        return False
    whole, rest = differences(pairs)
    ceilings = [
        (shift(times), _at_ceiling(run.alone()[0], later)) for later, times in _after_first(run)
    ]
    return whole - 1 > rest and all(at is not None and (at > 1) == (r > 1) for r, at in ceilings)


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
            "runs-agree": Statement(numbers[f"repeated_share_{place}"], expect(f">= {BY_CHANCE}")),
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
        "by_run": [
            markdown(run.label)
            for run in (primary, second)
            if run is not None and len(run.stored.runs) >= ENOUGH_RUNS
        ],
        "repeated": [
            {
                "number": str(place),
                "key": run.key,
                "label": markdown(run.label),
                "spans": spans(run),
                "overlapping": overlapping(run),
                "moved": moves_as_a_whole(run),
                "far_by_pages": far_by_pages(run),
                "first_fastest": all(shift(found) > 1 for _, found in _after_first(run)),
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


def runs_figure(runs: Sequence[Run]) -> Figure:
    """Times of each further run over those of the first, and what moves with them: the ceiling."""
    rows = {
        f"{run.short}, run {number} of {len(run.stored.runs)}": (run.alone()[0], later, times)
        for run in runs
        for number, (later, times) in enumerate(_after_first(run), start=2)
    }
    calls = [times for *_, times in rows.values()]
    panel = Dots(
        tuple(rows),
        (
            DotSeries(
                "Time of a call",
                tuple(tuple(e.ratio for e in times) for times in calls),
                0,
                muted=True,
            ),
            DotSeries("Median of calls", tuple(map(shift, calls)), 0),
            DotSeries(
                "Time at the ceiling",
                tuple(_at_ceiling(*row[:2]) for row in rows.values()),
                1,
                shift=_BELOW,
            ),
        ),
        "Time / time in the first run",
        1.0,
    )
    files = tuple(alone.file for run in runs for alone in run.alone())
    return Figure("fig-runs", "", "", Drawing((panel,), height=_TALLER * panel.height), files)


def _after_first(run: Run) -> list[tuple[Run, list[Repeated]]]:
    """Each further run of a machine with the times that the first has as well."""
    first, *later = run.alone()
    found = by_files(repeated(run))
    pairs = ((each, found.get((first.file, each.file), [])) for each in later)
    return [(each, times) for each, times in pairs if times]


def _at_ceiling(first: Run, later: Run) -> float | None:
    """How many times as long work at the ceiling of arithmetic takes in the later run."""
    found = point(first.peak_rate(ARITHMETIC) / later.peak_rate(ARITHMETIC))
    return None if isinstance(found, Missing) else found
