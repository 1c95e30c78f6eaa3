"""What the source claims, judged again by its own numbers, by theory and by the runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from report.evidence.audit import Printed
from report.missing import Missing
from report.paper.findings import Claim, Inputs
from report.quantity.verdicts import Verdict
from report.statistics.estimates import Estimate
from report.studies.backend_speedup.decomposed import Decomposition, decompose
from report.studies.backend_speedup.learning import (
    ALIKE,
    largest_accuracy_difference,
    largest_difference,
    learned,
)
from report.studies.backend_speedup.measured import NUMPY, Run, Variant, over
from report.studies.backend_speedup.memory import COMPONENTS, component, framework
from report.studies.backend_speedup.source import (
    audit,
    cell,
    gradient_beyond_backward,
)
from report.studies.backend_speedup.subject import KIND_NAMES, Kind, Setting, parameter_count
from report.text.format import NO_BREAK, interval_text, quantity_text, scale_for

CUPY: Final = Variant("cupy")
_UNMEASURED: Final = "no run of this experiment is in the data directory"

#: The source's speed-ups: table, row, quantity of a record, and what is sped up.
_SPEEDUPS: Final = (
    ("3", "iteration", "time", "a whole iteration"),
    ("3", "forward", "forward_time", "the forward pass"),
    ("3", "backward", "backward_time", "the backward pass"),
    ("4", "matrix_product", "matrix_product_time", "matrix products"),
    ("4", "relu", "relu_time", "ReLU"),
    ("4", "softmax", "softmax_time", "softmax"),
    ("4", "gradient", "gradient_time", "gradient computation"),
)


def all_claims(inputs: Inputs, primary: Run | None, all_runs: Sequence[Run]) -> tuple[Claim, ...]:
    """Every claim of the source that numbers can decide."""
    gpu = next((run for run in all_runs if run.on_gpu), None)
    return (
        *_hypothesis(primary),
        *(_speedup(inputs, primary, gpu, *one) for one in _SPEEDUPS),
        _products_gain_most(primary),
        _converge(primary),
        _convolution(),
        *_audited(inputs),
        _same_partition(inputs),
        _same_memory(primary),
        _overhead(primary, gpu),
    )


# --------------------------------------------------------------------------------- hypothesis


def _hypothesis(run: Run | None) -> Iterator[Claim]:
    """The gap grows with the work: one claim a library and sweep."""
    sweeps = (("width", "width"), ("images", "number of images"))
    for key, what in sweeps:
        settings = () if run is None else run.widths() if key == "width" else run.sizes()
        others = [] if run is None or not settings else [
            v for v in run.variants(settings[-1]) if v != NUMPY
        ]  # fmt: skip
        if run is None or not others:
            sentence = f"The lead over NumPy grows with the {what} (hypothesis)."
            yield Claim(f"grows-{key}", sentence, "not measured", _UNMEASURED)
        else:
            yield from (_grows(run, v, settings, key, what) for v in others)


def growth(run: Run, variant: Variant, settings: Sequence[Setting]) -> Estimate | Missing:
    """The speed-up over NumPy at the largest size over that at the smallest."""
    if len(settings) < 2:
        return Missing("fewer than two sizes were measured")
    return over(
        run.speedup("time", settings[-1], variant), run.speedup("time", settings[0], variant)
    )


def _grows(run: Run, v: Variant, settings: Sequence[Setting], key: str, what: str) -> Claim:
    sentence = f"The lead of {v.name} over NumPy grows with the {what} (hypothesis)."
    ratio, end = growth(run, v, settings), run.speedup("time", settings[-1], v)
    if isinstance(ratio, Missing) or isinstance(end, Missing):
        why = ratio.reason if isinstance(ratio, Missing) else "no speed-up was measured"
        return Claim(f"grows-{key}-{v.key}", sentence, "not measured", why)
    verdict: Verdict = "undecided"
    if ratio.low > 1 and end.low > 1:
        verdict = "supported"
    elif ratio.high < 1 or end.high < 1:
        verdict = "refuted"
    first, last = (getattr(settings[i], "hidden" if key == "width" else "samples") for i in (0, -1))
    return Claim(
        f"grows-{key}-{v.key}",
        sentence,
        verdict,
        f"the speed-up at {last:,} is {told(ratio)} times the one at {first:,}, and is "
        f"{told(end)} there",
    )


# ---------------------------------------------------------------------------------- speed-ups


def _speedup(
    inputs: Inputs,
    primary: Run | None,
    gpu: Run | None,
    table: str,
    row: str,
    quantity: str,
    what: str,
) -> Claim:
    printed = cell(inputs.reported, table, row, "speedup")
    sentence = f"CuPy on a GPU speeds {what} up {printed.number} times (source)."
    id = f"speedup-{row.replace('_', '-')}"
    setting = gpu.sizes()[-1] if gpu and gpu.sizes() else None
    if gpu is None or setting is None:
        return Claim(id, sentence, "not measured", _without_gpu(primary, quantity))
    ratio = gpu.speedup(quantity, setting, CUPY)
    if isinstance(ratio, Missing):
        return Claim(id, sentence, "not measured", ratio.reason)
    return Claim(
        id,
        sentence,
        "supported" if _meets(printed, ratio) else "refuted",
        f"with {setting.samples:,} images on {gpu.label} it is {told(ratio)} times",
    )


def _meets(printed: Printed, ratio: Estimate) -> bool:
    """Whether some number that is printed like this lies in the interval."""
    low, high = float(printed.interval.low), float(printed.interval.high)
    return ratio.low <= high and low <= ratio.high


def _without_gpu(run: Run | None, quantity: str) -> str:
    """What other libraries do on the processor, where there is no GPU to judge by."""
    if run is None or not run.sizes():
        return _UNMEASURED
    setting = run.sizes()[-1]
    found = {
        v: r
        for v in run.variants(setting, quantity)
        if v != NUMPY and isinstance(r := run.speedup(quantity, setting, v), Estimate)
    }
    if not found:
        return "no GPU is among the runs"
    parts = (f"{v.name} {told(ratio)} times" for v, ratio in found.items())
    return (
        f"no GPU is among the runs; on the processor, with {setting.samples:,} images: "
        f"{', '.join(parts)}"
    )


def _products_gain_most(run: Run | None) -> Claim:
    id, sentence = "products-gain-most", "Matrix products gain most of all operations (source)."
    if run is None or not run.sizes():
        return Claim(id, sentence, "not measured", _UNMEASURED)
    setting = run.sizes()[-1]
    parts = [decompose(run, setting, v) for v in run.variants(setting) if v != NUMPY and v.eager]
    found = [part for part in parts if isinstance(part, Decomposition)]
    if not found:
        return Claim(id, sentence, "not measured", "operations were not timed one by one")
    gaining = [_first(run, setting, part) for part in found if part.predicted > 1]
    verdict: Verdict = "undecided"
    if gaining and None not in gaining:
        verdict = "supported" if all(gaining) else "refuted"
    words = "; ".join(f"{part.variant.name}: {_gains(run, setting, part)}" for part in found)
    return Claim(id, sentence, verdict, f"with {setting.samples:,} images, {words}")


def _first(run: Run, setting: Setting, part: Decomposition) -> bool | None:
    """Whether products gain most, None where intervals overlap those of what does."""
    if part.most == "matrix_product":
        return True
    products, most = (
        run.speedup(f"{kind}_time", setting, part.variant) for kind in ("matrix_product", part.most)
    )
    if isinstance(products, Missing) or isinstance(most, Missing):
        return None
    return False if most.low > products.high else None


def _gains(run: Run, setting: Setting, part: Decomposition) -> str:
    """How much products gain, and what gains more."""
    products = _gain(run, setting, part.variant, "matrix_product")
    if part.most == "matrix_product":
        return f"products {products} times, more than all others"
    name = "ReLU" if part.most == "relu" else KIND_NAMES[part.most].lower()
    return f"products {products} times, {name} {_gain(run, setting, part.variant, part.most)} times"


def _gain(run: Run, setting: Setting, variant: Variant, kind: Kind) -> str:
    ratio = run.speedup(f"{kind}_time", setting, variant)
    return told(ratio) if isinstance(ratio, Estimate) else ratio.reason


# --------------------------------------------------------------------------------- everything else


def _converge(run: Run | None) -> Claim:
    id, sentence = "converge", "All implementations converge alike (source)."
    setting = run.training() if run else None
    if run is None or setting is None or len(learned(run, setting)) < 2:
        return Claim(id, sentence, "not measured", "no course of two libraries was recorded")
    found = [largest_difference(run, setting, v) for v in learned(run, setting) if v != NUMPY]
    losses = [share for share in found if not isinstance(share, Missing)]
    spread = largest_accuracy_difference(run, setting)
    if not losses or isinstance(spread, Missing):
        return Claim(id, sentence, "not measured", "NumPy recorded no course")
    return Claim(
        id,
        sentence,
        "supported" if max(losses) < ALIKE else "refuted",
        f"at no iteration does a loss differ from NumPy's by more than "
        f"{quantity_text(1e6 * max(losses), 'ppm')}, "
        + (
            f"nor accuracies by more than {quantity_text(spread, '1', 'percent')}"
            if spread
            else "and accuracies never differ"
        ),
    )


def _convolution() -> Claim:
    return Claim(
        "convolution",
        "The network is a convolutional one (source).",
        "refuted",
        f"its two layers are fully connected, with {parameter_count('perceptron'):,} parameters "
        "and no kernel",
    )


def _audited(inputs: Inputs) -> Iterator[Claim]:
    """The two claims on memory that the audit refutes."""
    subjects = {
        "4 B · parameters / 10⁶": ("parameter-memory", "The parameters take"),
        "4 B · pixels · images / 10⁶": ("input-memory", "The input, as floats, takes"),
    }
    for check in audit(inputs.reported):
        if check.formula in subjects:
            id, words = subjects[check.formula]
            sentence = f"{words} {check.derived.number} MB (source)."
            recomputed = quantity_text(float(check.recomputed) * 1e6, "B")
            yield Claim(
                id,
                sentence,
                "refuted" if check.verdict == "differs" else "supported",
                f"shapes give {recomputed} in float32; the printed number {check.finding}",
            )


def _same_partition(inputs: Inputs) -> Claim:
    beyond = gradient_beyond_backward(inputs.reported, "gpu")
    rounding = 2 * 0.05
    return Claim(
        "same-iteration",
        "The times by pass and the times by operation describe the same iterations (source).",
        "refuted" if beyond > rounding else "undecided",
        f"on the GPU gradient computation takes {round(beyond, 1)} ms longer than the whole "
        "backward pass, which rounding does not explain"
        if beyond > rounding
        else "gradient computation fits into the backward pass",
    )


def _same_memory(run: Run | None) -> Claim:
    id = "same-memory"
    sentence = "Parameters, input, activations and gradients take the same memory in every library."
    setting = run.training() if run else None
    if run is None or setting is None:
        return Claim(id, sentence, "not measured", _UNMEASURED)
    found = {
        name: {
            size
            for v in run.variants(setting)
            if v.eager and not isinstance(size := component(run, setting, v, name), Missing)
        }
        for name in COMPONENTS
    }
    if not all(found.values()):
        return Claim(id, sentence, "not measured", "components were not recorded")
    different = [COMPONENTS[name].lower() for name, sizes in found.items() if len(sizes) > 1]
    return Claim(
        id,
        sentence,
        "refuted" if different else "supported",
        f"{', '.join(different)} differ between libraries"
        if different
        else "to the byte, in all libraries that run operation by operation",
    )


def _overhead(primary: Run | None, gpu: Run | None) -> Claim:
    id, sentence = "overhead", "A GPU library has more framework overhead than NumPy (source)."
    run = gpu or primary
    setting = run.training() if run else None
    if run is None or setting is None:
        return Claim(id, sentence, "not measured", _UNMEASURED)
    base = framework(run, setting, NUMPY)
    others = {v: framework(run, setting, v) for v in run.variants(setting) if v != NUMPY}
    known = {v: size for v, size in others.items() if not isinstance(size, Missing)}
    if isinstance(base, Missing) or not known:
        return Claim(id, sentence, "not measured", "the overhead was not recorded")
    words = ", ".join(f"{v.name} {quantity_text(size, 'B')}" for v, size in known.items())
    on_gpu = [size for v, size in known.items() if v.on_gpu]
    verdict: Verdict = "not measured"
    if on_gpu:
        verdict = "supported" if min(on_gpu) > base else "refuted"
    start = "" if on_gpu else "no GPU is among the runs; on the processor "
    return Claim(id, sentence, verdict, f"{start}NumPy takes {quantity_text(base, 'B')}, {words}")


def told(estimate: Estimate) -> str:
    """A ratio with its interval, kept together."""
    scale = scale_for(estimate, "1")
    text = f"{quantity_text(estimate, '1')} {interval_text(estimate, scale)}"
    return text.replace(" [", f"{NO_BREAK}[")
