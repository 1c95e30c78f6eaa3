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
    Verdict,
    all_of,
    equals,
    exactly,
    expect,
)
from report.studies.conv_scaling import policies, theory
from report.studies.conv_scaling.device import (
    all_gradients,
    conversion_peaks,
    conversions,
    epilogue,
)
from report.studies.conv_scaling.explained import Group
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.run_values import batch_gain, layout_gain, ridge
from report.studies.conv_scaling.source import column, reported_batches
from report.studies.conv_scaling.subject import Layout
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
#: Bytes of an allocator agree with the tensors' within this share: it rounds, and keeps rests.
_CONVERTED_WITHIN: Final = 0.02
SLOWER: Final = expect(f"> {1 + _MARGIN}")


def all_claims(
    inputs: Inputs,
    groups: Mapping[str, Group],
    runs: Sequence[Run],
    same_memory: Sequence[Sequence[Run]],
    primary: Run | None,
    gpu: Run | None,
) -> Iterator[Claim]:
    """Every claim that numbers can decide; those of runs for each run, the primary one first.

    Those of memory are judged once for ``same_memory``, runs whose allocators did the same.
    """
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
            if run is primary or run.names_policy or not claimed.timed:
                yield judge(
                    f"{name}-{run.key}", claimed.of(run, inputs), name=name, label=run.label
                )
        for name, get in policies.CLAIMS.items() if compared(run) else ():
            yield judge(f"{name}-{run.key}", get(run), name=name, label=run.label)
    for first, *others in same_memory:
        label = ", ".join(run.label for run in (first, *others))
        for name, layout in _BOUNDED.items():
            statement = _peak_bounded([r.in_layout(layout) for r in (first, *others)])
            yield judge(f"{name}-{first.key}", statement, name=name, label=label)
    if not runs:
        nothing = Statement(absent("anything", "1", NO_RECORD.reason), exactly(1))
        for name in (*_OF_RUN, *_BOUNDED):
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
    most = at_least(*all_gradients(gpu))
    yield judge("backward-saves", Statement(most, expect("< 1")))
    if counts := conversions(gpu):
        yield judge("layout-converted", all_of(*(Statement(each, exactly(0)) for each in counts)))
    if peaks := conversion_peaks(gpu):
        near = equals(1, within=_CONVERTED_WITHIN)
        yield judge("layout-peaks", all_of(*(Statement(each, near) for each in peaks)))


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


def verdicts_of(run: Run, inputs: Inputs) -> dict[str, Verdict]:
    """The verdicts on all claims that rest on times of one run."""
    timed = {id_: each.of(run, inputs) for id_, each in _OF_RUN.items() if each.timed}
    of_policies = {id_: get(run) for id_, get in policies.CLAIMS.items()}
    return {id_: statement.judge() for id_, statement in {**timed, **of_policies}.items()}


def some_nonlinear(run: Run, inputs: Inputs) -> bool:
    """Whether the time of an image is beyond a tenth of the first one's at any batch size."""
    parts = (Statement(each, equals(1, within=_MARGIN)) for each in _image_times(run, inputs))
    return any(part.judge() == "refuted" for part in parts)


def _image_times(run: Run, inputs: Inputs) -> Sequence[Quantity]:
    """The time of an image over that at the source's smallest batch size, for larger ones."""
    first = reported_batches(inputs)[0]
    found = [1 / batch_gain(run, first, batch) for batch in run.timed if batch > first]
    return found or (absent("times", "1", f"too few batch sizes were timed on {run.label}"),)


def _peak_bounded(runs: Sequence[Run]) -> Statement:
    """The largest ratio of parameters and peak to the source's rule, which has both."""
    ratios = [
        (theory.PARAMETER_BYTES + peak) / theory.memory(batch)
        for run in runs
        for batch, peak in run.over(run.peak).items()
        if not peak.missing
    ]
    largest = at_least(*ratios) if ratios else absent("bytes", "1", "no bytes were recorded")
    return Statement(largest, expect("<= 1"))


#: The claim that theory bounds memory, by the layout in which it is judged.
_BOUNDED: Final[Mapping[str, Layout]] = {
    "peak-bounded": "contiguous",
    "peak-bounded-nhwc": "channels_last",
}
#: What is claimed of every run.
_OF_RUN: Final[Mapping[str, _Claimed]] = {
    "better-use": _Claimed(
        lambda run, inputs: (batch_gain(run, *(reported_batches(inputs)[i] for i in (0, -1))),),
        SLOWER,
    ),
    "linear-time": _Claimed(_image_times, equals(1, within=_MARGIN)),
    "above-ridge": _Claimed(
        lambda run, _: [theory.intensity(batch) / ridge(run) for batch in (1, MANY)],
        expect("> 1"),
        timed=False,
    ),
    "layout-pays": _Claimed(lambda run, _: (layout_gain(run),), SLOWER),
}
