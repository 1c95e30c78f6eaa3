"""The numbers and tables that the five documents print; copied into the project of every peer."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

#: The content of ``data/paper-1.json``.
Data = dict[str, Any]
Table = list[list[str]]


def load(document: str) -> Data:
    """The data of a document; the peers build in the root of their project."""
    data: Data = json.loads(Path("data", f"{document}.json").read_text("utf-8"))
    return data


def numbers(data: Data) -> dict[str, str]:
    """The numbers of the prose, as they are printed."""
    forward = [1e3 * statistics.median(samples) for samples in data["forward_s"]]
    backward = [1e3 * statistics.median(samples) for samples in data["backward_s"]]
    sizes = data["batch"]
    slope = statistics.linear_regression(sizes, forward).slope
    ratios = [b / f for b, f in zip(backward, forward, strict=True)]
    return {
        "largest": f"{sizes[-1]}",
        "samples": f"{sum(map(len, data['forward_s'] + data['backward_s']))}",
        "first": f"{forward[0]:.3f}",
        "last": f"{forward[-1]:.3f}",
        "slope": f"{1e3 * slope:.1f}",
        "ratio": f"{statistics.geometric_mean(ratios):.3f}",
        "rate": f"{1e3 * sizes[-1] / forward[-1]:.0f}",
        "peak": f"{data['peak_bytes'][-1]:,}",
        "growth": f"{data['peak_bytes'][-1] / data['peak_bytes'][0]:.2f}",
    }


def time_table(data: Data) -> Table:
    """Median times for each batch size, with a row of headings."""
    rows = zip(data["batch"], data["forward_s"], data["backward_s"], strict=True)
    return [
        ["Batch", "Forward (ms)", "Backward (ms)", "Samples"],
        *([f"{batch}", _ms(one), _ms(other), f"{len(one)}"] for batch, one, other in rows),
    ]


def memory_table(data: Data) -> Table:
    """Peak bytes for each batch size, with a row of headings."""
    rows = zip(data["batch"], data["peak_bytes"], strict=True)
    return [
        ["Batch", "Peak (B)", "Per image (B)"],
        *([f"{batch}", f"{peak:,}", f"{peak / batch:,.1f}"] for batch, peak in rows),
    ]


def pipe_table(table: Table) -> str:
    """The table in Markdown."""
    rule = ["---:"] * len(table[0])
    return "\n".join("| " + " | ".join(row) + " |" for row in (table[0], rule, *table[1:]))


def _ms(samples: list[float]) -> str:
    return f"{1e3 * statistics.median(samples):.3f}"
