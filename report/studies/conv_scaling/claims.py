"""What is claimed of the layer, by the source and by this paper; the template has the words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from report.paper.claims import judge
from report.paper.findings import Claim, Inputs
from report.paper.policies import compared
from report.quantity.expression import Quantity, absent
from report.quantity.fits import slope
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import (
    Range,
    Several,
    Statement,
    all_of,
    any_of,
    equals,
    exactly,
    expect,
)
from report.studies.conv_scaling import policies, theory
from report.studies.conv_scaling.device import epilogue, executed_with_backward
from report.studies.conv_scaling.explained import Group
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.run_values import batch_gain, layout_gain, over_next, ridge
from report.studies.conv_scaling.source import column, reported_batches
from report.studies.conv_scaling.values import (
    MANY,
    NO_RECORD,
    excess,
    fused_share,
    memory_gap,
    source_theory,
)

#: Times that differ by less than this share are no finding: runs of a machine differ by as much.
_MARGIN: Final = 0.1
_SLOWER: Final = expect(f"> {1 + _MARGIN}")


def all_claims(
    inputs: Inputs,
    groups: Mapping[str, Group],
    runs: Sequence[Run],
    primary: Run | None,
    gpu: Run | None,
) -> Iterator[Claim]:
    """Every claim that numbers can decide; those of runs for each run, the primary one first."""
    yield from _of_source(inputs)
    # What the prose calls explained has a residual of 0.
    for name in (name for name in ("work", "variants") if groups[name].found):
        yield judge(f"{name}-explained", Statement(groups[name].residual, exactly(0)))
    if groups["peak"].found:
        both = (groups[name].residual for name in ("peak", "peak_last") if groups[name].found)
        yield judge("peaks-explained", all_of(*(Statement(each, exactly(0)) for each in both)))
    if gpu is not None:
        yield from _of_gpu(groups, gpu)
    for run in sorted(runs, key=lambda run: run is not primary):
        for name, claimed in _OF_RUN.items():
            yield judge(f"{name}-{run.key}", claimed.of(run, inputs), name=name, label=run.label)
    if primary is not None and compared(primary):
        yield judge("policy-pays", policies.pays(primary), label=primary.label)
        yield judge("pages-foreseen", policies.pages_follow(primary), label=primary.label)
    if not runs:
        nothing = Statement(absent("anything", "1", NO_RECORD.reason), exactly(1))
        for name in _OF_RUN:
            yield judge(name, nothing)


def _of_source(inputs: Inputs) -> Iterator[Claim]:
    """What the source says, judged by its own numbers."""
    same = [Statement(each, exactly(1)) for each in source_theory(inputs)]
    yield judge("source-theory", all_of(*same))
    counted = column(inputs, "III", "total_flops", "FLOP")
    images = [each / batch for batch, each in counted.items()]
    yield judge("linear-work", Statement(at_least(*images) / at_most(*images), exactly(1)))
    # What tensor cores do, the counters of fused multiply-adds would lack.
    yield judge("tensor-cores", Statement(at_most(*fused_share(inputs)), expect("< 1")))
    # An overhead of the profiler would not be the same number for each output element.
    each = [more / theory.output_bytes(batch) for batch, more in excess(inputs).items()]
    yield judge("profiler-overhead", Statement(at_least(*each) / at_most(*each), expect("> 1")))
    # Compressed activations would leave a gap that grows with the batch.
    gap = memory_gap(inputs)
    grows = Statement(slope(gap, "B", relative=False), expect("> 0"))
    yield judge("compressed-memory", grows)
    parameters = [Statement(b / theory.PARAMETER_BYTES, exactly(1)) for b in gap.values()]
    yield judge("memory-explained", all_of(*parameters))


def _of_gpu(groups: Mapping[str, Group], gpu: Run) -> Iterator[Claim]:
    work = groups["device_work"].residual
    yield judge("device-work-explained", Statement(work, exactly(0)))
    yield judge("epilogue", all_of(*(Statement(each, exactly(1)) for each in epilogue(gpu))))
    fewest = at_most(*executed_with_backward(gpu))
    yield judge("backward-saves", Statement(fewest, expect("< 1")))
    if odd := [Statement(each, expect("> 1")) for each in over_next(gpu).values()]:
        yield judge("backward-jumps", any_of(*odd), label=gpu.label)


class _Claimed(NamedTuple):
    """That all of some quantities of a run are in a range; ``timed`` ones only where comparable."""

    get: Callable[[Run, Inputs], Sequence[Quantity]]
    range: Range
    timed: bool = True

    def of(self, run: Run, inputs: Inputs) -> Several | Statement:
        """What is judged: times of a processor only where their memory policy is known."""
        if self.timed and not run.names_policy:
            why = "not judged: the record names no memory policy"
            return Statement(absent("time", "1", why), self.range)
        found = [Statement(each, self.range) for each in self.get(run, inputs)]
        return found[0] if len(found) == 1 else all_of(*found)


def _image_times(run: Run, inputs: Inputs) -> Sequence[Quantity]:
    """The time of an image over that at the source's smallest batch size, for larger ones."""
    first = reported_batches(inputs)[0]
    found = [1 / batch_gain(run, first, batch) for batch in run.timed if batch > first]
    return found or (absent("times", "1", f"too few batch sizes were timed on {run.label}"),)


def _peak_share(run: Run, _: Inputs) -> Sequence[Quantity]:
    """The largest ratio of the peak to the source's rule."""
    ratios = [each / theory.memory(b) for b, each in run.over(run.peak).items() if not each.missing]
    return (at_least(*ratios) if ratios else absent("bytes", "1", "no bytes were recorded"),)


#: What is claimed of every run.
_OF_RUN: Final[Mapping[str, _Claimed]] = {
    "peak-bounded": _Claimed(_peak_share, expect("<= 1"), timed=False),
    "better-use": _Claimed(
        lambda run, inputs: (batch_gain(run, *(reported_batches(inputs)[i] for i in (0, -1))),),
        _SLOWER,
    ),
    "linear-time": _Claimed(_image_times, equals(1, within=_MARGIN)),
    "above-ridge": _Claimed(
        lambda run, _: [theory.intensity(batch) / ridge(run) for batch in (1, MANY)],
        expect("> 1"),
        timed=False,
    ),
    "layout-pays": _Claimed(lambda run, _: (layout_gain(run),), _SLOWER),
}
