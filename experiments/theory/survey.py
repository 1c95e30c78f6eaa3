"""Every network of timm, captured at its published image size: what theory says, what it refuses.

``python -m experiments.theory.survey docs/theory-of-timm.md [--published FILE.csv ...]``

The page names each network with its parameters, multiply-adds, bytes and published figures.  Needs
``pip install -e '.[experiments,validation]'``; takes a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final

import msgspec

from experiments.harness.text import period_text
from report.errors import MeasurementError

#: Kinds of operators whose outputs the published counts of activations take in.
_ACTIVE: Final = frozenset({"convolution", "matrix product", "attention"})
#: Figures are published in millions with two digits.
_MILLION: Final = 1e6
_ROUNDED: Final = 0.0051


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one network at one image size, or why nothing.

    ``counted`` are the multiply-adds that torch's counter knows, ``uncounted`` the names of the
    operators that it does not; ``own_parameters`` are counted by identity on the module itself.
    """

    name: str
    shape: tuple[int, int, int]
    refused: str | None = None
    parameters: int = 0
    own_parameters: int = 0
    multiply_adds: int = 0
    counted: int = 0
    uncounted: tuple[str, ...] = ()
    bytes: int = 0
    activations: int = 0


def names() -> list[str]:
    """Every network that timm can build."""
    from experiments.theory.networks import import_timm

    return list(import_timm().list_models())


def surveyed(name: str) -> Result:
    """One network on one image of its published size."""
    from experiments.harness.operators import Input, capture
    from experiments.theory.checked import of_capture
    from experiments.theory.networks import network

    named = network(f"timm:{name}")
    try:
        captured = capture(named.build, [Input((1, *named.image))])
        found = of_capture(captured)
    except MeasurementError as error:
        return Result(name=name, shape=named.image, refused=str(error))
    if found.refused:
        unknown = ", ".join(found.refused)
        return Result(name=name, shape=named.image, refused=f"unknown operators: {unknown}")
    pairs = [
        (operator, each)
        for operator, each in zip(captured.network.operators, found.loads, strict=True)
        if each is not None
    ]
    counted = set(captured.flops)
    unseen = {
        operator.base
        for number, (operator, each) in enumerate(pairs)
        if each.multiply_adds and number not in counted
    }
    import torch

    with torch.device("meta"):
        own = sum(p.numel() for p in named.build().parameters())
    return Result(
        name=name,
        shape=named.image,
        parameters=found.parameters,
        own_parameters=own,
        multiply_adds=found.multiply_adds or 0,
        counted=sum(e.multiply_adds for n, (_, e) in enumerate(pairs) if n in counted),
        uncounted=tuple(sorted(unseen)),
        bytes=found.bytes or 0,
        activations=sum(o.writes[0].elements for o, each in pairs if each.kind in _ACTIVE),
    )


def survey(wanted: Sequence[str], workers: int) -> Iterator[Result]:
    """The results as they come, each network in one of several processes."""
    with ProcessPoolExecutor(workers) as pool:
        jobs = {pool.submit(surveyed, name): name for name in wanted}
        for job in as_completed(jobs):
            yield job.result()


# ------------------------------------------------------------------------------------- published


class Published(msgspec.Struct, frozen=True):
    """What timm's table says of a network: millions of multiply-adds, of outputs, of parameters."""

    image: int
    multiply_adds: float
    activations: float
    parameters: float


def read_published(paths: Iterable[Path]) -> dict[tuple[str, int], Published]:
    """The rows of timm's tables by network and pixels a side; the first of several."""
    found: dict[tuple[str, int], Published] = {}
    for path in paths:
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                image = int(row["infer_img_size"])
                published = Published(
                    image,
                    1e3 * float(row["infer_gmacs"]),
                    float(row["infer_macts"]),
                    float(row["param_count"]),
                )
                found.setdefault((row["model"], image), published)
    return found


# ------------------------------------------------------------------------------------------ page


def page(results: Sequence[Result], published: Mapping[tuple[str, int], Published]) -> str:
    """The page in Markdown."""
    well = [result for result in results if result.refused is None]
    refused = [result for result in results if result.refused is not None]
    exact = [r for r in well if r.parameters == r.own_parameters]
    unseen = Counter(name for r in well for name in r.uncounted)
    lines = [
        "# The theory of every network of timm",
        "",
        "Made by `python -m experiments.theory.survey`; do not edit. Each network is captured on",
        "one image of its published size, on tensors without memory.",
        "",
        f"- Captured: {len(well):,} of {len(results):,} networks "
        f"({100 * len(well) / max(1, len(results)):.1f} %).",
        f"- Parameters equal to those of the module, each counted once: {len(exact):,}.",
        "- Multiply-adds equal to those of torch's `FlopCounterMode` in every operator that it "
        f"knows: {len(well):,} (a difference would be a refusal).",
        f"- Operators with multiply-adds that it does not know: {_listed(unseen)}.",
        f"- {_agreement(well, published)}",
        "",
        "| Network | Image | Parameters | Multiply-adds | Published (M) | Traffic (B) | Outputs | "
        "Published (M) |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(_row(r, published.get((r.name, r.shape[-1]))) for r in well),
        "",
        "## Refused",
        "",
        *([f"- `{r.name}`: {r.refused}" for r in refused] or ["None."]),
        "",
    ]
    return "\n".join(lines)


def _listed(counts: Mapping[str, int]) -> str:
    if not counts:
        return "none"
    return ", ".join(f"`{name}` in {n:,} networks" for name, n in sorted(counts.items()))


def _agreement(results: Sequence[Result], published: Mapping[tuple[str, int], Published]) -> str:
    """How many published figures are met, within their rounding."""
    pairs = [(r, p) for r in results if (p := published.get((r.name, r.shape[-1])))]
    macs = sum(_met(r.multiply_adds, p.multiply_adds, 10) for r, p in pairs)
    counted = sum(_met(r.counted, p.multiply_adds, 10) for r, p in pairs)
    made = sum(_met(r.activations, p.activations, 1) for r, p in pairs)
    return (
        f"Of {len(pairs):,} networks with published figures at this size, {macs:,} meet those for "
        f"multiply-adds within their rounding, {counted:,} without the operators that torch's "
        f"counter does not know, and {made:,} those for outputs."
    )


def _met(number: int, millions: float, unit: float) -> bool:
    """Whether a number is what was published with two digits after ``unit`` millions."""
    return abs(number / _MILLION - millions) <= _ROUNDED * unit


def _row(result: Result, published: Published | None) -> str:
    macs = f"{published.multiply_adds:,.0f}" if published else "–"
    made = f"{published.activations:,.2f}" if published else "–"
    return (
        f"| `{result.name}` | {result.shape[-1]} | {result.parameters:,} | "
        f"{result.multiply_adds:,} | {macs} | {result.bytes:,} | {result.activations:,} | {made} |"
    )


def main(arguments: Sequence[str]) -> int:
    """Survey, show progress, write the page."""
    made = argparse.ArgumentParser(prog="python -m experiments.theory.survey")
    made.add_argument("page", type=Path)
    made.add_argument("--published", type=Path, nargs="*", default=[])
    made.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th network")
    made.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = made.parse_args(arguments)
    wanted, began = names()[:: options.every], time.monotonic()
    results = []
    for result in survey(wanted, options.workers):
        results.append(result)
        left = (time.monotonic() - began) / len(results) * (len(wanted) - len(results))
        print(
            f"[{100 * len(results) // len(wanted)}%, {period_text(left)} left] {result.name}: "
            f"{result.refused or 'captured'}",
            file=sys.stderr,
        )
    results.sort(key=lambda result: result.name)
    text = page(results, read_published(options.published))
    options.page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
