"""Try theory on the networks of timm: ``python -m experiments.theory.survey``.

Captures each network that ``data/networks-of-timm.csv`` does not hold yet (an hour of one core),
measures the peaks of a sample (a quarter of an hour) and writes ``docs/networks-of-timm.md``.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
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
from experiments.theory.networks import import_timm, network
from report.errors import MeasurementError
from report.theory.conditions import Layout

FORMATS: Final = {"contiguous": {}, "channels_last": {"memory_format": torch.channels_last}}
PAGE: Final = ROOT / "docs" / "networks-of-timm.md"
TABLE: Final = ROOT / "data" / "networks-of-timm.csv"
TEMPLATE: Final = Path(__file__).with_suffix(".md.in")
#: Operators of these were watched while rules of workspaces were written; others are the sample.
LEARNED: Final = """
resnet18 mobilenetv3_small_050 vit_tiny_patch16_224 efficientnet_lite0 convnext_atto
swin_tiny_patch4_window7_224 regnetx_002 densenet121 inception_v3 resnext50_32x4d mixer_s32_224
coatnet_nano_rw_224 xcit_nano_12_p16_224 efficientvit_b0 nf_regnet_b0 poolformer_s12
"""


class Counts(NamedTuple):
    """What theory counts of one network on one image of its published size, or why it ``refused``.

    ``own_parameters`` are those of the module, ``torch_multiply_adds`` half of what torch's
    ``FlopCounterMode`` says of the same call.  It does not know some operators (``uncounted``),
    whose multiply-adds are ``uncounted_multiply_adds``.
    """

    network: str
    family: str
    refused: str = ""
    parameters: int = 0
    own_parameters: int = 0
    multiply_adds: int = 0
    torch_multiply_adds: int = 0
    uncounted_multiply_adds: int = 0
    uncounted: str = ""

    @property
    def exact(self) -> bool:
        """Whether parameters and multiply-adds are those of the module and of torch's counter."""
        counted = self.multiply_adds - self.uncounted_multiply_adds
        return self.parameters == self.own_parameters and counted == self.torch_multiply_adds


def counts(name: str) -> Counts:
    """Capture one network, and count it by torch's own counter in the same call."""
    named = network(f"timm:{name}")
    family = str(import_timm().model_entrypoint(name).__module__).rpartition(".")[2]
    counter = FlopCounterMode(display=False)
    try:
        module = built(named.build)
        module.requires_grad_(False)  # the counter's hooks fail on views of what could be trained
        with counter:
            captured = capture(lambda: module, [Input((1, *named.image))])
        theory = of_capture(captured)
    except MeasurementError as error:
        return Counts(name, family, str(error))
    if theory.multiply_adds is None:
        return Counts(name, family, f"unknown operators: {', '.join(theory.refused)}")
    numbered = enumerate(zip(captured.network.operators, theory.loads, strict=True))
    work = [(n, o, load.multiply_adds) for n, (o, load) in numbered if load and load.multiply_adds]
    unseen = [(operator, macs) for n, operator, macs in work if n not in captured.flops]
    return Counts(
        name,
        family,
        parameters=theory.parameters,
        own_parameters=sum(parameter.numel() for parameter in module.parameters()),
        multiply_adds=theory.multiply_adds,
        torch_multiply_adds=counter.get_total_flops() // 2,
        uncounted_multiply_adds=sum(macs for _, macs in unseen),
        uncounted=" ".join(sorted({operator.base for operator, _ in unseen})),
    )


def read_counts() -> list[Counts]:
    """One row a network, as ``write_counts`` wrote it."""
    with TABLE.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))[1:]
    return [Counts(*r[:3], *map(int, r[3:8]), r[8]) for r in rows]  # type: ignore[call-arg]


def write_counts(found: Iterable[Counts]) -> None:
    """One row a network, in the order of their names."""
    with TABLE.open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(Counts._fields)
        rows.writerows(sorted(found))


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
    found = {each.network: each for each in read_counts()}
    for name in set(import_timm().list_models()) - found.keys():
        found[name] = counts(name)
        print(f"{name}: {found[name].refused or 'captured'}")
        write_counts(found.values())
    by_size = sorted(found.values(), key=lambda each: (-each.parameters, each.network))
    smallest = {e.family: e.network for e in by_size if e.network not in LEARNED.split()}
    peaks = [peak(name, layout) for layout in get_args(Layout) for name in smallest.values()]
    machine = f"{torch.backends.cpu.get_cpu_capability()}, PyTorch {torch.__version__}"
    PAGE.write_text(page(list(found.values()), peaks, machine), encoding="utf-8")


if __name__ == "__main__":
    main()
