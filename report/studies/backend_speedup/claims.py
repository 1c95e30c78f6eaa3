"""What the source claims, judged again by its own numbers, by theory and by the runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from report.evidence.runs import known
from report.missing import Missing
from report.paper.claims import found_text
from report.paper.findings import Claim, Inputs
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Statement, all_of, any_of, equals, exactly, expect
from report.studies.backend_speedup.learning import (
    ALIKE,
    largest_accuracy_difference,
    largest_difference,
    learned,
)
from report.studies.backend_speedup.measured import (
    NUMPY,
    Run,
    Variant,
)
from report.studies.backend_speedup.memory import BLOCK, COMPONENTS, component, filling, framework
from report.studies.backend_speedup.source import audit, cell
from report.studies.backend_speedup.subject import (
    KIND_NAMES,
    Kind,
    Setting,
    kinds,
    parameter_count,
)
from report.text.format import (
    quantity_text,
)

CUPY: Final = Variant("cupy")
#: Speed-ups, and sizes, that differ by less than this share are equivalent.
ALIKE_SPEED: Final = 0.1
ALIKE_SIZE: Final = 0.05
_UNMEASURED: Final = "no run of this experiment is in the data directory"

#: The sweeps over which a lead may grow: key, and what varies.
_SWEEPS: Final = (("width", "width"), ("images", "number of images"))

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
        *(_of_gpu(gpu) if gpu and gpu is not primary else ()),
        *(_speedup(inputs, primary, gpu, *one) for one in _SPEEDUPS),
        _products_gain_most(gpu or primary),
        _converge(primary),
        _convolution(),
        *_audited(inputs),
        _same_partition(inputs),
        _same_memory(primary),
        _overhead(primary, gpu),
    )


def _of_gpu(run: Run) -> Iterator[Claim]:
    """What a GPU's run decides beside a processor's, with the device in the ids."""
    for key, what in _SWEEPS:
        settings = run.widths() if key == "width" else run.sizes()
        for v in run.variants(settings[-1]) if settings else ():
            if v.on_gpu:
                yield _on(run, _grows(run, v, settings, key, what))
    yield _on(run, _converge(run))
    yield _on(run, _same_memory(run))


def _on(run: Run, claim: Claim) -> Claim:
    because = (
        claim.because if claim.verdict == "not measured" else f"on {run.label} {claim.because}"
    )
    return replace(claim, id=f"{claim.id}-{run.key}", because=because)


# --------------------------------------------------------------------------------- hypothesis


def _hypothesis(run: Run | None) -> Iterator[Claim]:
    """The gap grows with the work: one claim a library and sweep."""
    for key, what in _SWEEPS:
        settings = () if run is None else run.widths() if key == "width" else run.sizes()
        others = [] if run is None or not settings else [
            v for v in run.variants(settings[-1]) if v != NUMPY
        ]  # fmt: skip
        if run is None or not others:
            sentence = f"The lead over NumPy grows with the {what} (hypothesis)."
            yield Claim(f"grows-{key}", sentence, "not measured", _UNMEASURED)
        else:
            yield from (_grows(run, v, settings, key, what) for v in others)


def growth(run: Run, variant: Variant, settings: Sequence[Setting]) -> Quantity:
    """The speed-up over NumPy at the largest size over that at the smallest."""
    if len(settings) < 2:
        return absent("growth", "1", "fewer than two sizes were measured")
    return run.speedup("time", settings[-1], variant) / run.speedup("time", settings[0], variant)


def _grows(run: Run, v: Variant, settings: Sequence[Setting], key: str, what: str) -> Claim:
    """A lead that grows is one at the largest size."""
    ratio, end = growth(run, v, settings), run.speedup("time", settings[-1], v)
    first, last = (getattr(settings[i], "hidden" if key == "width" else "samples") for i in (0, -1))
    return Claim(
        f"grows-{key}-{v.key}",
        f"The lead of {v.name} over NumPy grows with the {what} (hypothesis).",
        all_of(*(Statement(each, expect("> 1")) for each in (ratio, end))).judge(),
        f"the speed-up at {last:,} is {found_text(ratio)} times the one at {first:,}, and is "
        f"{found_text(end)} there",
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
    """Judged by CuPy on a GPU; what libraries gain on a processor is not comparable with it."""
    printed = float(cell(inputs.reported, table, row, "speedup").number)
    run = gpu or primary
    setting = run.sizes()[-1] if run and run.sizes() else None
    ratios: dict[Variant, Quantity] = {}
    if run is not None and setting is not None:
        others = [v for v in run.variants(setting, quantity) if v != NUMPY]
        shown = [CUPY] if gpu else others
        ratios = {v: run.speedup(quantity, setting, v) for v in shown}
    claimed = equals(printed, within=ALIKE_SPEED * printed)
    words = ", ".join(f"{v.name} {found_text(ratio)} times" for v, ratio in ratios.items())
    return Claim(
        f"speedup-{row.replace('_', '-')}",
        f"CuPy on a GPU speeds {what} up {printed:g} times (source).",
        any_of(*(Statement(ratio, claimed, about="cuda") for ratio in ratios.values())).judge(),
        _where(run, setting, words),
    )


def _where(run: Run | None, setting: Setting | None, words: str) -> str:
    """What was found in a run, and that it was on a processor if it was."""
    if run is None or setting is None:
        return _UNMEASURED
    if run.on_gpu:
        return f"with {setting.samples:,} images on {run.label}: {words}"
    if not words:
        return "no GPU is among the runs"
    return f"no GPU is among the runs; on the processor, with {setting.samples:,} images: {words}"


def _products_gain_most(run: Run | None) -> Claim:
    """The source says it of a GPU: products gain more than every other operation there."""
    id, sentence = "products-gain-most", "Matrix products gain most of all operations (source)."
    if run is None or not run.sizes():
        return Claim(id, sentence, "not measured", _UNMEASURED)
    setting = run.sizes()[-1]
    timed = [v for v in run.variants(setting, "matrix_product_time") if v != NUMPY and v.eager]
    shown = [v for v in timed if v.on_gpu == run.on_gpu]
    gains = {
        v: {kind: run.speedup(f"{kind}_time", setting, v) for kind in kinds(setting.network)}
        for v in shown
    }
    leads = [
        Statement(gain["matrix_product"] / other, expect("> 1"), about="cuda")
        for gain in gains.values()
        for kind, other in gain.items()
        if kind != "matrix_product"
    ]
    words = "; ".join(f"{v.name}: {_gains(gain)}" for v, gain in gains.items())
    because = _where(run, setting, words) if gains else "operations were not timed one by one"
    return Claim(id, sentence, all_of(*leads).judge(), because)


def _gains(gains: Mapping[Kind, Quantity]) -> str:
    """How much products gain, and what gains more."""
    points = {kind: at for kind, gain in gains.items() if isinstance(at := point(gain), float)}
    most: Kind = max(points, key=lambda kind: points[kind], default="matrix_product")
    products = f"products {found_text(gains['matrix_product'])} times"
    if most == "matrix_product":
        return f"{products}, more than all others"
    name = "ReLU" if most == "relu" else KIND_NAMES[most].lower()
    return f"{products}, {name} {found_text(gains[most])} times"


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
    alike = equals(0, within=ALIKE)
    differences = [exact("difference of losses", "1", share, run.file) for share in losses]
    return Claim(
        id,
        sentence,
        all_of(*(Statement(each, alike) for each in differences)).judge(),
        f"at no iteration does a loss differ from NumPy's by more than "
        f"{quantity_text(1e6 * max(losses), 'ppm')}, "
        + (
            f"nor accuracies by more than {quantity_text(spread, '1', 'percent')}"
            if spread
            else "and accuracies never differ"
        ),
    )


def _convolution() -> Claim:
    """No layer of the network has a kernel."""
    kernels = exact("convolutions of the perceptron", "1", 0)
    return Claim(
        "convolution",
        "The network is a convolutional one (source).",
        Statement(kernels, expect(">= 1")).judge(),
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
            size = exact(check.formula, "B", float(check.recomputed) * 1e6)
            ratio = check.derived.quantity("B", inputs.reported_file, 1e6) / size
            yield Claim(
                id,
                f"{words} {check.derived.number} MB (source).",
                Statement(ratio, equals(1, within=ALIKE_SIZE)).judge(),
                f"shapes give {quantity_text(float(check.recomputed) * 1e6, 'B')} in float32; the "
                f"printed number {check.finding}",
            )


def _same_partition(inputs: Inputs) -> Claim:
    """Gradient computation is a part of the backward pass, and cannot take longer."""
    gradient, backward = (
        cell(inputs.reported, table, row, "gpu").quantity("s", inputs.reported_file, 1e-3)
        for table, row in (("4", "gradient"), ("3", "backward"))
    )
    verdict = Statement(gradient - backward, expect("<= 0")).judge()
    beyond = 1e3 * known(point(gradient - backward))
    return Claim(
        "same-iteration",
        "The times by pass and the times by operation describe the same iterations (source).",
        verdict,
        f"on the GPU gradient computation takes {round(beyond, 1)} ms longer than the whole "
        "backward pass, which rounding does not explain"
        if verdict == "refuted"
        else "gradient computation fits into the backward pass, as printed",
    )


def _same_memory(run: Run | None) -> Claim:
    id = "same-memory"
    sentence = "Parameters, input, activations and gradients take the same memory in every library."
    setting = run.training() if run else None
    if run is None or setting is None:
        return Claim(id, sentence, "not measured", _UNMEASURED)
    eager = [v for v in run.variants(setting) if v.eager]
    sizes = {
        name: [
            exact(name, "B", size - filling(setting, v, name), run.file)
            for v in eager
            if not isinstance(size := component(run, setting, v, name), Missing)
        ]
        for name in COMPONENTS
    }
    if not all(sizes.values()):
        return Claim(id, sentence, "not measured", "components were not recorded")
    same = {n: Statement(at_least(*q) / at_most(*q), exactly(1)) for n, q in sizes.items()}
    different = [COMPONENTS[n].lower() for n, each in same.items() if each.judge() == "refuted"]
    return Claim(
        id,
        sentence,
        all_of(*same.values()).judge(),
        f"{', '.join(different)} differ between libraries"
        if different
        else "to the byte, in all libraries that run operation by operation"
        + (f", less what fills up blocks of {BLOCK} B on the GPU" if run.on_gpu else ""),
    )


def _overhead(primary: Run | None, gpu: Run | None) -> Claim:
    """Judged by what libraries on a GPU take; those on a processor are not comparable."""
    id, sentence = "overhead", "A GPU library has more framework overhead than NumPy (source)."
    run = gpu or primary
    setting = run.training() if run else None
    if run is None or setting is None:
        return Claim(id, sentence, "not measured", _UNMEASURED)
    sizes = {v: _overhead_of(run, setting, v) for v in run.variants(setting)}
    known_ = {v: size for v, size in sizes.items() if not size.missing}
    others = {v: size for v, size in known_.items() if v != NUMPY}
    if NUMPY not in known_ or not others:
        return Claim(id, sentence, "not measured", "the overhead was not recorded")
    judged = [
        Statement(size - known_[NUMPY], expect("> 0"), about="cuda")
        for v, size in others.items()
        if v.on_gpu == run.on_gpu
    ]
    words = ", ".join(
        f"{v.name} {quantity_text(known(point(framework(run, setting, v))), 'B')}" for v in others
    )
    base = quantity_text(known(point(framework(run, setting, NUMPY))), "B")
    start = f"on {run.label} " if run.on_gpu else "no GPU is among the runs; on the processor "
    return Claim(id, sentence, all_of(*judged).judge(), f"{start}NumPy takes {base}, {words}")


def _overhead_of(run: Run, setting: Setting, variant: Variant) -> Quantity:
    """The framework's overhead (B) of all processes."""
    first, start = (
        run.measured(f"resident_{moment}", setting, variant) for moment in ("first_use", "start")
    )
    return first - start
