"""What is claimed of the layer, by the source and by this paper; the template has the words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from report.paper.claims import judge
from report.paper.findings import Claim, Inputs
from report.paper.policies import compared, gain
from report.quantity.expression import Quantity, absent
from report.quantity.fits import slope
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import (
    Range,
    Several,
    Statement,
    all_of,
    equals,
    exactly,
    expect,
)
from report.studies.conv_scaling import policies, theory
from report.studies.conv_scaling.device import (
    all_gradients,
    epilogue,
)
from report.studies.conv_scaling.explained import Group
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.run_values import batch_gain
from report.studies.conv_scaling.source import column, reported_batches
from report.studies.conv_scaling.values import (
    NO_RECORD,
    excess,
    fused_share,
    memory_gap,
    source_theory,
)

#: Times that differ by less than this share are no finding: runs of a machine differ by as much.
_MARGIN: Final = 0.1
SLOWER: Final = expect(f"> {1 + _MARGIN}")


def all_claims(
    inputs: Inputs,
    groups: Mapping[str, Group],
    runs: Sequence[Run],
    primary: Run | None,
    gpu: Run | None,
) -> Iterator[Claim]:
    """Every claim that numbers can decide; those of runs for each of ``runs``.

    They are those that the prose speaks of: the primary, a second processor's, a GPU's.
    """
    yield from _of_source(inputs)
    # What the prose calls explained has a residual of 0.
    for name in (name for name in ("work", "variants") if groups[name].found):
        yield judge(f"{name}-explained", Statement(groups[name].residual, exactly(0)))
    if groups["peak"].found:
        yield judge("peaks-explained", Statement(groups["peak"].residual, exactly(0)))
    if gpu is not None:
        yield from _of_gpu(groups, gpu)
    for run in runs:
        for name, claimed in _OF_RUN.items():
            if run is primary or not claimed.timed or (run.names_policy and not run.on_gpu):
                yield judge(
                    f"{name}-{run.key}", claimed.of(run, inputs), name=name, label=run.label
                )
        for name, get in policies.CLAIMS.items() if compared(run) else ():
            yield judge(f"{name}-{run.key}", get(run), name=name, label=run.label)
    cpus = [run for run in runs if compared(run)]
    if len(cpus) > 1:
        yield judge("both-pay", all_of(*(Statement(gain(run), SLOWER) for run in cpus)))
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
    most = at_least(*all_gradients(gpu))
    yield judge("backward-saves", Statement(most, expect("< 1")))


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


def _peak_bounded(run: Run) -> Quantity:
    """The largest ratio of parameters and peak to the source's rule, which has both."""
    ratios = [
        (theory.PARAMETER_BYTES + peak) / theory.memory(batch)
        for batch, peak in run.over(run.peak).items()
        if not peak.missing
    ]
    return at_least(*ratios) if ratios else absent("bytes", "1", "no bytes were recorded")


#: What is claimed of every run.
_OF_RUN: Final[Mapping[str, _Claimed]] = {
    "better-use": _Claimed(
        lambda run, inputs: (batch_gain(run, *(reported_batches(inputs)[i] for i in (0, -1))),),
        SLOWER,
    ),
    "linear-time": _Claimed(_image_times, equals(1, within=_MARGIN)),
    "peak-bounded": _Claimed(lambda run, _: (_peak_bounded(run),), expect("<= 1"), timed=False),
}
