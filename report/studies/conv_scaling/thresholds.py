"""Calls after glibc's threshold was set, or after a freed tensor raised it.

Layers begin to map pages at a batch size that theory predicts; networks are timed before and after.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Final

from figures.panels import Curve, Points, Scaling
from report.core.missing import Missing
from report.core.records.layers import Convolution, Layer, at_batch
from report.core.records.record import Level, Policy
from report.core.text.format import NO_BREAK
from report.evidence.runs import CaseFactors
from report.paper.study import Content
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, Statement, absent, exact
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.runs import Run, panel
from report.theory import heap
from report.theory.work import output_bytes

#: The networks, and the policies that practitioners use to keep memory.
_SMALL: Final = "MNIST CNN"
_LARGE: Final = "ResNet-18"
_KEEPING: Final[tuple[Policy, ...]] = ("retained", "jemalloc")


# --------------------------------------------------------------------------- set thresholds


@dataclass(frozen=True)
class Series:
    """Calls of a layer under one trimming threshold over batch sizes.

    ``image`` is the layer on one image.  ``start`` and ``end`` are predicted, in images: from where
    a process may map pages, and from where all do.  ``shares`` are the shares of the processes that
    map pages, by batch size in ascending order.
    """

    layer: str
    image: Layer
    start: float
    end: float
    shares: Mapping[int, Quantity]
    file: str

    @property
    def expected(self) -> int:
        """Smallest whole batch size that should map pages."""
        return floor(self.start) + 1

    @property
    def first(self) -> int | None:
        """Smallest measured batch size at which any process maps pages; None if none does."""
        return next((batch for batch, share in self.shares.items() if point(share) != 0), None)

    @property
    def aligned(self) -> Iterator[int]:
        """Yield batch sizes from the start on whose output is aligned, and not mapped by itself."""
        for batch in self.shares:
            size = batch * output_bytes(self.image)
            on_heap = size <= heap.LARGEST_MAPPING
            if batch >= self.expected and on_heap and size % theory.ALIGNMENT == 0:
                yield batch


def measured_series(run: Run) -> Iterator[Series]:
    """Yield the series of a run, by subject, layer and threshold."""
    shares: dict[tuple[str, str, int], dict[int, Quantity]] = {}
    images: dict[str, Layer] = {}
    for factors in (*run.cases_of("cliff"), *run.cases_of("edge")):
        share, case = run.mapping_share(factors, theory.FEW_PAGES), run.case(factors)
        if share.missing or isinstance(case, Missing):
            continue
        layer, batch = str(factors["layer"]), int(factors["batch"])
        setting = (str(factors["subject"]), layer, heap.trimming_threshold(factors))
        shares.setdefault(setting, {})[batch] = share
        images[layer] = at_batch(case.layers, 1)[0]
    for setting in sorted(shares):
        _, layer, trimming = setting
        image, ordered = images[layer], dict(sorted(shares[setting].items()))
        start, end = heap.mapping_start(image, trimming), heap.mapping_end(image, trimming)
        yield Series(layer, image, start, end, ordered, run.file)


def convolutions(series: Sequence[Series]) -> list[Series]:
    """Select the series of convolutions."""
    return [one for one in series if isinstance(one.image, Convolution)]


def start_numbers(series: Sequence[Series]) -> dict[str, Quantity]:
    """Return the numbers of the text about starts of convolutions, each counted once."""
    names = ("starts", "to_the_image", "partly", "start_least", "start_most", "aligned")
    measured = convolutions(series)
    aligned = {batch for one in series if one not in measured for batch in one.aligned}
    first_measured = {(one.layer, one.start): one for one in reversed(measured)}
    chosen = [*first_measured.values()]
    if not chosen:
        return dict.fromkeys(names, absent("starts", "1", "no run set a threshold"))
    expected = [one.expected for one in chosen]
    exactly = partly = 0
    for one in chosen:
        exactly += one.first == one.expected
        partly += one.first is not None and point(one.shares[one.first]) != 1
    numbers = (len(chosen), exactly, partly, min(expected), max(expected), len(aligned))
    quantities = (exact("starts", "1", number, chosen[0].file) for number in numbers)
    return dict(zip(names, quantities, strict=True))


def within_an_image(series: Sequence[Series]) -> Iterator[Statement]:
    """State that each convolution begins at the predicted image or one before."""
    for one in convolutions(series):
        number = one.expected - (one.first or 0)
        early = exact("expected − observed start", "1", number, one.file)
        yield (2 * early).near(1, within=1)


def shares_beyond_predictions(series: Sequence[Series]) -> Iterator[Statement]:
    """State that no process maps pages below the start, and every one beyond a convolution's end.

    An image before the start is left out.
    """
    for one in series:
        for batch, share in one.shares.items():
            if batch < one.expected - 1:
                yield share.exactly(0)
            elif batch > one.end and isinstance(one.image, Convolution):
                yield share.exactly(1)


def aligned_without_pages(series: Sequence[Series]) -> Iterator[Statement]:
    """State that no process of a linear layer maps pages where its output is aligned."""
    for one in series:
        if not isinstance(one.image, Convolution):
            for batch in one.aligned:
                yield one.shares[batch].exactly(0)


def mapping_shares(series: Sequence[Series]) -> Iterator[Scaling]:
    """Draw how many processes map pages, a column of batch sizes for each predicted start."""
    places: dict[str, list[tuple[float, float]]] = {}
    for one in convolutions(series):
        for batch, share in one.shares.items():
            mapping = float(point(share))  # type: ignore[arg-type]
            name = "Some processes" if mapping % 1 else "All processes" if mapping else "No process"
            place = (one.start, (batch - one.start) / (one.end - one.start))
            places.setdefault(name, []).append(place)
    drawn = []
    for number, (name, marks) in enumerate(sorted(places.items())):
        x, y = zip(*marks, strict=True)
        drawn.append(Points(name, x, y, series=number, hollow=True))
    if drawn:
        starts = [one.start for one in convolutions(series)]
        ends = (min(starts), max(starts))
        lines = (Curve("Start", ends, (0.0, 0.0)), Curve("End", ends, (1.0, 1.0), part=True))
        axes = ("Predicted start (images)", "Batch, from start (0) to end (1)")
        ticks = (8.0, 32.0, 128.0, 512.0)
        yield Scaling(*axes, tuple(drawn), lines, x_ticks=ticks, y_scale="linear")


# ------------------------------------------------------------------------- networks at a batch


@dataclass(frozen=True)
class Network:
    """Calls of a network in one mode, by default and after a tensor was freed, in a ``run``."""

    run: Run
    factors: Mapping[str, Level]
    elements: int

    @property
    def after(self) -> Mapping[str, Level]:
        """Factors of the case with the freed tensor."""
        return {**self.factors, "freed": self.elements}

    def pages(self, factors: CaseFactors) -> list[float]:
        """Medians of the pages of each process, in ascending order; empty if not measured."""
        processes = self.run.under("default").by_process("page_faults", factors)
        if isinstance(processes, Missing):
            return []
        return sorted(process.median for process in processes)

    def pages_text(self, factors: CaseFactors) -> Content:
        """Print the smallest and the largest of ``pages``."""
        pages = self.pages(factors)
        if not pages:
            return Missing("no pages were counted")
        ends = dict.fromkeys((f"{pages[0]:,.0f}", f"{pages[-1]:,.0f}"))
        return " to ".join(ends).replace(" ", NO_BREAK)

    def gain(self, policy: Policy | None = None) -> Quantity:
        """Divide the time of a call by that under ``policy``, by default after the freed tensor."""
        return self.series("time") / self.series("time", policy, freed=policy is None)

    def held(self, policy: Policy | None = None) -> Quantity:
        """Memory that the process holds between calls, less that by default (B)."""
        resident = self.series("resident_before", policy, freed=policy is None)
        return resident - self.series("resident_before")

    def series(self, quantity: str, policy: Policy | None = None, freed: bool = False) -> Quantity:
        """A quantity of the calls under ``policy``, or after a tensor was freed."""
        run = self.run.under(policy or "default")
        return run.series(quantity, self.after if freed else self.factors)

    def row(self) -> Mapping[str, Content]:
        """The row of a table."""
        return {
            "Network": str(self.factors["network"]),
            "Mode": str(self.factors["mode"]),
            "Pages": self.pages_text(self.factors),
            "Pages after": self.pages_text(self.after),
            "Tensor freed": self.gain(),
            "Memory kept": self.gain("retained"),
            "jemalloc": self.gain("jemalloc"),
            "More held, freed (MB)": self.held(),
            "More held, kept (MB)": self.held("retained"),
        }


def networks_of(run: Run) -> tuple[Network, ...]:
    """Return the networks of a run that were measured with a freed tensor, in order."""
    networks = []
    for factors in run.cases_of("cure"):
        if "freed" in factors:
            plain = {name: level for name, level in factors.items() if name != "freed"}
            networks.append(Network(run, plain, int(factors["freed"])))
    return tuple(networks)


def _select(networks: Sequence[Network], name: str, mode: str = "inference") -> Network:
    sought = {"network": name, "mode": mode}
    return next(one for one in networks if sought.items() <= one.factors.items())


def network_numbers(networks: Sequence[Network]) -> dict[str, Quantity]:
    """Return the numbers of the text about networks."""
    names = ("small_gain", "small_held", "large_gain", "large_kept", "large_jemalloc")
    if not networks:
        return dict.fromkeys(names, absent("gain", "1", "no run freed a tensor before networks"))
    small, large = _select(networks, _SMALL), _select(networks, _LARGE)
    baselines = [large.gain(policy) for policy in _KEEPING]
    return dict(zip(names, (small.gain(), small.held(), large.gain(), *baselines), strict=True))


def small_network_gains(networks: Sequence[Network], margin: float) -> Iterator[Statement]:
    """State that the small network maps no pages, and its inference gains more than ``margin``."""
    for mode in ("inference", "training"):
        small = _select(networks, _SMALL, mode)
        yield small.series("page_faults", freed=True) < theory.FEW_PAGES
    yield _select(networks, _SMALL).gain() > 1 + margin


def large_network_does_not(networks: Sequence[Network], margin: float) -> Iterator[Statement]:
    """State that the large network gains from usual remedies, but not from a freed tensor."""
    large = _select(networks, _LARGE)
    yield large.series("page_faults", freed=True) > theory.FEW_PAGES
    yield large.gain().near(1, within=margin)
    for policy in _KEEPING:
        yield large.gain(policy) > 1 + margin


# ------------------------------------------------------------------- a freed tensor over batches


@dataclass(frozen=True)
class FreedTensor:
    """The layer and ResNet-18 over batch sizes, with and without a freed tensor, in one ``run``."""

    run: Run

    def cases(self, network: str) -> Iterator[tuple[int, int, Quantity]]:
        """Yield elements of the freed tensor (0: none), batch size, and share of the processes."""
        for factors in self.run.cases_of("sweep", network=network):
            share = self.run.mapping_share(factors, theory.FEW_PAGES)
            yield int(factors.get("freed", 0)), int(factors["batch"]), share

    def of_layer(self, quantity: str, batch: int, elements: int) -> Quantity:
        """A series of the layer's calls."""
        freed: dict[str, Level] = {"freed": elements} if elements else {}
        factors = {"subject": "sweep", "network": "layer", "batch": batch, **freed}
        return self.run.series(quantity, factors)

    def gain(self, batch: int) -> Quantity:
        """Divide the time of the layer's call by that after a tensor was freed."""
        return self.of_layer("time", batch, 0) / self.of_layer("time", batch, theory.FREED)

    def layer_as_predicted(self, margin: float) -> Iterator[Statement]:
        """State where the layer maps pages with and without the tensor, and that calls gain."""
        for elements, batch, share in self.cases("layer"):
            if elements and batch <= theory.LAST_WITHOUT_PAGES:
                yield share.exactly(0)
                if batch > theory.LAST_BY_DEFAULT:
                    yield self.gain(batch) > 1 + margin
            elif batch > (theory.ALL_MAP_BEYOND if elements else theory.LAST_BY_DEFAULT):
                yield share.exactly(1)

    def network_as_predicted(self) -> Iterator[Statement]:
        """State that ResNet-18 maps pages from the predicted batch on, after tensors were freed."""
        for elements, batch, share in self.cases(_LARGE):
            last = theory.network_last_without_pages(elements) if elements else 0
            yield share.exactly(int(batch > last))

    def panels(self) -> Iterator[Scaling]:
        """Draw time and pages of an image of the layer, with and without the freed tensor."""
        batches = sorted({batch for _, batch, _ in self.cases("layer")})
        for quantity, label, unit in (
            ("time", "Time of an image (µs)", "µs"),
            ("page_faults", "Pages an image", "1"),
        ):
            before = {b: self.of_layer(quantity, b, 0) / b for b in batches}
            after = {b: self.of_layer(quantity, b, theory.FREED) / b for b in batches}
            lines = {("No tensor freed", 1): before, ("Tensor freed", 0): after}
            drawn = panel(label, unit, lines, (4.0, 16.0, 64.0, 256.0))
            start = theory.START_AFTER_FREED
            top = max(y for line in drawn.points for y in line.y)
            predicted = Curve(f"Predicted: {start:.1f} images", (start, start), (0.0, top))
            yield replace(drawn, curves=(predicted,), direct=False)


def freed_tensor(run: Run) -> FreedTensor | None:
    """Return the calls over batch sizes with a freed tensor, if a run has them."""
    freed = FreedTensor(run.under("default"))
    return freed if any(freed.cases("layer")) else None
