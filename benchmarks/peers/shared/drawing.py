"""The four figures of every document; copied into the project of every peer.

Times and random ids are kept out of the files, so that only a changed figure has changed bytes.
"""

from __future__ import annotations

import io
import statistics
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

mpl.rcParams["svg.hashsalt"] = "figure"

#: The content of ``data/paper-1.json``.
Data = dict[str, Any]


def lines(axes: Axes, data: Data) -> None:
    """Median times over the batch size."""
    for name, marker in (("forward_s", "o"), ("backward_s", "s")):
        medians = [1e3 * statistics.median(samples) for samples in data[name]]
        axes.plot(data["batch"], medians, marker=marker, label=name.removesuffix("_s"))
    axes.set(xscale="log", yscale="log", xlabel="batch size", ylabel="time (ms)")
    axes.legend(frameon=False)


def bars(axes: Axes, data: Data) -> None:
    """Peak memory for each batch size."""
    axes.barh([f"{batch}" for batch in data["batch"]], data["peak_bytes"], color="#0072b2")
    axes.set(xscale="log", xlabel="peak (B)", ylabel="batch size")


def dots(axes: Axes, data: Data) -> None:
    """Every sample of the forward pass."""
    for batch, samples in zip(data["batch"], data["forward_s"], strict=True):
        axes.plot([batch] * len(samples), [1e6 * s / batch for s in samples], "k.", markersize=3)
    axes.set(xscale="log", xlabel="batch size", ylabel="time an image (µs)")


def histogram(axes: Axes, data: Data) -> None:
    """How the samples of the largest batch scatter."""
    axes.hist([1e3 * sample for sample in data["forward_s"][-1]], bins=8)
    axes.set(xlabel="time (ms)", ylabel="samples")


#: In the order in which a document shows them.
FIGURES: dict[str, Callable[[Axes, Data], None]] = {
    "lines": lines,
    "bars": bars,
    "dots": dots,
    "histogram": histogram,
}


def draw(name: str, data: Data, kind: str) -> bytes:
    """The figure ``name`` as ``svg`` or ``pdf``."""
    figure = Figure(figsize=(3.5, 2.3), layout="constrained")
    FIGURES[name](figure.subplots(), data)
    stream = io.BytesIO()
    date = {"svg": "Date", "pdf": "CreationDate"}[kind]
    figure.savefig(stream, format=kind, metadata={date: None})
    return stream.getvalue()


def svg(name: str, data: Data) -> str:
    """The figure ``name`` for a page."""
    return draw(name, data, "svg").decode("utf-8")
