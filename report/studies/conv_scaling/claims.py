"""What the source claims, judged again by its own numbers and by the runs."""

from __future__ import annotations

from collections.abc import Sequence

from report.evidence.runs import known
from report.missing import Missing
from report.paper.findings import Claim, Inputs, Verdict
from report.paper.values import Value
from report.statistics.estimates import Estimate, growth_exponent
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.run_values import rate_gain
from report.studies.conv_scaling.source import reported_batches, work_fit
from report.studies.conv_scaling.subject import footprint, operations
from report.text.format import NO_BREAK, interval_text, quantity_text, scale_for


def all_claims(inputs: Inputs, runs: Sequence[Run], values: dict[str, Value]) -> tuple[Claim, ...]:
    """Every claim of the source that numbers can decide."""
    return (
        _linear_work(inputs),
        _profiler_overhead(values),
        _compressed_memory(values),
        *(_linear_memory(run) for run in runs),
        *(_upper_bound(run) for run in runs),
        *(_better_use(run, inputs) for run in runs),
        *(_linear_time(run) for run in runs),
        *([] if runs else [_unmeasured()]),
    )


def _linear_work(inputs: Inputs) -> Claim:
    fit = work_fit(inputs)
    straight = fit.residual_std == 0 and fit.intercept.value == 0
    return Claim(
        "linear-work",
        "Work grows in proportion to the batch size (source).",
        "supported" if straight else "refuted",
        "the reported counts lie on a line through the origin without residual"
        if straight
        else "the reported counts do not lie on a line through the origin",
        ("reported_work_slope", "reported_work_intercept"),
    )


def _profiler_overhead(values: dict[str, Value]) -> Claim:
    excess = values["excess_per_output"]
    exact = not isinstance(excess.number, Missing)
    return Claim(
        "profiler-overhead",
        "Counts above theory come from profiling overhead or round-off (source).",
        "refuted" if exact else "undecided",
        f"the excess is exactly {excess.plain} operations for each output element at every "
        "batch size"
        if exact
        else "the excess is not a constant number of operations an output element",
        ("excess_per_output",),
    )


def _compressed_memory(values: dict[str, Value]) -> Claim:
    gap, parameters = values["memory_gap"], values["parameter_bytes"]
    exact = gap.number == parameters.number
    return Claim(
        "compressed-memory",
        "Memory below theory comes from compression or lower precision (source).",
        "refuted" if exact else "undecided",
        f"the gap is {gap.plain} at every batch size, the bytes of the parameters"
        if exact
        else "the gap differs from the bytes of the parameters",
        ("memory_gap", "parameter_bytes"),
    )


def _linear_memory(run: Run) -> Claim:
    fit = run.held_fit()
    claim = f"Memory grows linearly with the batch size ({run.label})."
    if isinstance(fit, Missing):
        return Claim(f"linear-memory-{run.key}", claim, "not measured", fit.reason)
    straight = fit.residual_std == 0
    growth = quantity_text(fit.slope, "B", "exact")
    output = quantity_text(footprint(1).output, "B", "exact")
    return Claim(
        f"linear-memory-{run.key}",
        claim,
        "supported" if straight else "refuted",
        f"held bytes grow by exactly {growth} an image, where its output has {output}"
        if straight
        else f"held bytes grow by {growth} an image, but not on a line",
    )


def _upper_bound(run: Run) -> Claim:
    name = f"Theoretical memory is an upper bound ({run.label})."
    peaks = {b: p for b in run.batches if not isinstance(p := run.peak(b), Missing)}
    if not peaks:
        return Claim(f"upper-bound-{run.key}", name, "not measured", "no peak was recorded")
    above = [b for b, peak in peaks.items() if peak > footprint(b).parameters_and_output]
    last = max(peaks)
    times = quantity_text(peaks[last] / footprint(last).parameters_and_output, "1")
    return Claim(
        f"upper-bound-{run.key}",
        name,
        "refuted" if above else "supported",
        f"the call's peak exceeds it at {len(above)} of {len(peaks)} batch sizes, and is {times} "
        f"times as large at batch {last:,}"
        if above
        else f"the call's peak is below it at all {len(peaks)} batch sizes",
    )


def _better_use(run: Run, inputs: Inputs) -> Claim:
    batches = reported_batches(inputs.reported)
    small, large = batches[0], batches[-1]
    gain = rate_gain(run, small, large)
    claim = f"Larger batches use the hardware better ({run.label})."
    if isinstance(gain, Missing):
        return Claim(f"better-use-{run.key}", claim, "not measured", gain.reason)
    verdict: Verdict = "undecided"
    if gain.low > 1:
        verdict = "supported"
    elif gain.high < 1:
        verdict = "refuted"
    return Claim(
        f"better-use-{run.key}",
        claim,
        verdict,
        f"the rate at batch {large} is {_with_interval(gain, '1')} times that at batch {small}",
    )


def _linear_time(run: Run) -> Claim:
    claim = f"Time grows in proportion to the work ({run.label})."
    batches = run.measured_batches("forward")
    if len(batches) < 3:
        return Claim(
            f"linear-time-{run.key}", claim, "not measured", "fewer than three batch sizes"
        )
    times = [known(run.time(batch, "forward")).value for batch in batches]
    exponent = growth_exponent([operations(b) for b in batches], times)
    return Claim(
        f"linear-time-{run.key}",
        claim,
        "supported" if exponent.low <= 1 <= exponent.high else "refuted",
        f"over the whole range time grows with the power {_with_interval(exponent, '1')} of work",
    )


def _unmeasured() -> Claim:
    return Claim(
        "own-measurement",
        "What the source says of memory and speed holds on this study's machines.",
        "not measured",
        "no run of this experiment is in the data directory",
    )


def _with_interval(estimate: Estimate, unit: str) -> str:
    scale = scale_for(estimate, unit)
    text = f"{quantity_text(estimate, unit)} {interval_text(estimate, scale)}"
    return text.replace(" [", f"{NO_BREAK}[")
