"""Try theory on the networks of timm: ``python -m experiments.theory.survey``.

Captures each network that ``data/networks-of-timm.csv`` does not hold yet (an hour of one core),
measures the peaks of a sample (a quarter of an hour) and writes ``docs/networks-of-timm.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from experiments.harness import memory
from experiments.harness.code import ROOT
from experiments.harness.measure import forward
from experiments.harness.operators import Input, built, capture
from experiments.theory.checked import checked, of_capture
from experiments.theory.counts import COUNTS, Counts, read_counts, write_counts
from experiments.theory.networks import import_timm, network
from report.errors import MeasurementError
from report.theory.conditions import Layout

FORMATS: Final = {"contiguous": {}, "channels_last": {"memory_format": torch.channels_last}}
PAGE: Final = ROOT / "docs" / "networks-of-timm.md"
TEMPLATE: Final = Path(__file__).with_suffix(".md.in")
#: Operators of these were watched while rules of workspaces were written; others are the sample.
LEARNED: Final = """
resnet18 mobilenetv3_small_050 vit_tiny_patch16_224 efficientnet_lite0 convnext_atto
swin_tiny_patch4_window7_224 regnetx_002 densenet121 inception_v3 resnext50_32x4d mixer_s32_224
coatnet_nano_rw_224 xcit_nano_12_p16_224 efficientvit_b0 nf_regnet_b0 poolformer_s12
"""


def counts(name: str) -> Counts:
    """What theory counts of one network on one image of its published size, or why it refuses."""
    named = network(f"timm:{name}")
    family = str(import_timm().model_entrypoint(name).__module__).rpartition(".")[2]
    known = {"network": name, "family": family, "image": "x".join(map(str, named.image))}
    counter = FlopCounterMode(display=False)
    try:
        module = built(named.build)
        module.requires_grad_(False)  # the counter's hooks fail on views of what could be trained
        with counter:
            captured = capture(lambda: module, [Input((1, *named.image))])
        theory = of_capture(captured)
    except MeasurementError as error:
        return Counts(**known, refused=str(error))
    if theory.refused:
        return Counts(**known, refused=f"unknown operators: {', '.join(theory.refused)}")
    numbered = enumerate(zip(captured.network.operators, theory.loads, strict=True))
    work = [(number, operator, load) for number, (operator, load) in numbered if load is not None]
    unseen = [(o, w) for n, o, w in work if w.multiply_adds and n not in captured.flops]
    attention = [(o, w) for _, o, w in work if w.kind == "attention"]
    asked = [(operator.tensor("query"), operator.tensor("key")) for operator, _ in attention]
    products = [o for _, o, w in work if w.kind in ("convolution", "matrix product")]
    return Counts(
        **known,
        parameters=theory.parameters,
        own_parameters=sum(parameter.numel() for parameter in module.parameters()),
        multiply_adds=sum(load.multiply_adds for _, _, load in work),
        torch_multiply_adds=counter.get_total_flops() // 2,
        uncounted_multiply_adds=sum(load.multiply_adds for _, load in unseen),
        uncounted=" ".join(sorted({operator.base for operator, _ in unseen})),
        bytes=sum(load.bytes for _, _, load in work),
        outputs=sum(operator.writes[0].elements for operator in products),
        attention_multiply_adds=sum(load.multiply_adds for _, load in attention),
        attention_outputs=sum(operator.writes[0].elements for operator, _ in attention),
        attention_scores=sum(prod(q.shape[:-1]) * k.shape[-2] for q, k in asked if q and k),
    )


class Peak(NamedTuple):
    """The most bytes of one call, what theory predicts, and whether that holds."""

    network: str
    layout: Layout
    measured: int
    predicted: int
    outcome: Literal["equal", "at least", "wrong"]


def laid_out(module: nn.Module, layout: Layout) -> nn.Module:
    """A module for evaluation, with its parameters in ``layout``."""
    return module.eval().to(**FORMATS[layout])


def peak(name: str, layout: Layout, side: int | None = 64) -> Peak:
    """One call on two images of ``side`` pixels, or of the network's own size."""
    named = network(f"timm:{name}")
    shape = (2, named.image[0], *((side, side) if side else named.image[1:]))
    inputs = [Input(shape, channels_last=layout == "channels_last")]
    try:
        theory = checked(lambda: laid_out(named.build(), layout), inputs)
    except MeasurementError:
        if side is None:
            raise
        return peak(name, layout, None)  # it takes its own size alone
    kept = FORMATS[layout]
    call = memory.profiled(
        lambda: forward(laid_out(named.build(), layout), torch.randn(shape).to(**kept))
    )
    measured, predicted = call.peak, theory.peak.total
    if predicted > measured or (theory.complete and predicted < measured):
        return Peak(name, layout, measured, predicted, "wrong")
    return Peak(name, layout, measured, predicted, "equal" if theory.complete else "at least")


def page(found: Sequence[Counts], peaks: Sequence[Peak], machine: str) -> str:
    """``docs/networks-of-timm.md``."""
    lowest = sorted(peaks, key=lambda each: each.predicted / each.measured)
    shares = Counter(f"| {each.layout} | {each.outcome}" for each in peaks)
    return TEMPLATE.read_text(encoding="utf-8").format(
        networks=len(found),
        refused=sum(bool(each.refused) for each in found),
        exact=sum(each.exact for each in found if not each.refused),
        uncounted=", ".join(sorted({f"`{n}`" for each in found for n in each.uncounted.split()})),
        sample=len({each.network for each in peaks}),
        machine=machine,
        learned=", ".join(f"`{name}`" for name in LEARNED.split()),
        shares="\n".join(f"{row} | {number} |" for row, number in sorted(shares.items())),
        lowest="\n".join(
            f"| `{each.network}` | {each.layout} | {each.predicted:,} | {each.measured:,} |"
            for each in [*(e for e in lowest if e.outcome == "wrong"), *lowest[:8]]
        ),
    )


def main() -> None:
    """Capture, measure and write."""
    table = ROOT / "data" / COUNTS
    found = {each.network: each for each in read_counts(table)}
    for name in set(import_timm().list_models()) - found.keys():
        found[name] = counts(name)
        print(f"{name}: {found[name].refused or 'captured'}")
        write_counts(table, found.values())
    by_size = sorted(found.values(), key=lambda each: (-each.parameters, each.network))
    smallest = {e.family: e.network for e in by_size if e.network not in LEARNED.split()}
    peaks = [peak(name, layout) for layout in get_args(Layout) for name in smallest.values()]
    machine = f"{torch.backends.cpu.get_cpu_capability()}, PyTorch {torch.__version__}"
    PAGE.write_text(page(list(found.values()), peaks, machine), encoding="utf-8")


if __name__ == "__main__":
    main()
