"""Formulas of claims, single changes that explain a difference, and the numbers of one row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from experiments.audit.quantities import AuditedCell
from report.core.errors import RidgepointError, UsageError
from report.core.records.devices import DataSheet, RatedPeak
from report.core.records.operations import ITEM_BYTES
from report.theory.rounding import Interval, Rounded
from report.theory.transformers import read_transformer

#: Quantity → its formulas; the first one holds whose numbers a row has.
FORMULAS: Final = {
    "mfu": ("flops / devices / peak",),
    "bandwidth_use": ("bandwidth / devices / memory_peak",),
    "speedup": ("baseline_time / time", "rate / baseline_rate"),
    "efficiency": ("speedup * baseline_devices / devices",),
    "weights": ("parameters * item_bytes",),
    "energy": ("power * time",),
    "flops": ("passes * operations * rate",),
    "operations": ("2 * macs", "2 * parameters", "attention_full"),
    "rate": ("tokens / time", "batch * sequence / time", "batch * image / time"),
    "bandwidth": (),
    "memory": (),
}
#: Most that is possible.
LIMITS: Final = {
    "mfu": "1",
    "bandwidth_use": "1",
    "flops": "devices * peak",
    "bandwidth": "devices * memory_peak",
    "memory": "devices * capacity",
}
#: Claims that are inputs too, and no claims where nothing gives or limits their value.
INPUTS: Final = ("flops", "operations", "rate", "bandwidth")
_COUNTED: Final = ("mfu", "flops", "operations")
_BYTES: Final = ("bandwidth_use", "weights")
_ALL: Final = tuple(FORMULAS)


class Change(NamedTuple):
    """A change of one quantity to a formula, or of the claims ``of`` by a factor."""

    text: str
    formula: str
    quantity: str = ""
    of: tuple[str, ...] = ()


#: The likeliest first; that of another device stands between these.
LIKELY: Final = (
    Change("the peak with sparsity", "sparse_peak", "peak"),
    Change("a multiply-add counted as one operation", "1 / 2", of=_COUNTED),
    Change("attention counted, full", "attention_full", "operations"),
    Change("attention counted, causal", "attention_causal", "operations"),
    Change("6 N, without attention", "2 * parameters", "operations"),
    Change("the forward pass alone", "1", "passes"),
    Change("training, not the forward pass", "3", "passes"),
    Change("training, not the forward pass", "3", of=("operations",)),
    Change("activations computed again, 8 N for 6 N", "4 * passes / 3", "passes"),
    Change("not divided by the number of devices", "1", "devices"),
    Change("divided by the number of devices twice", "devices * devices", "devices"),
    Change("by one device, not by the baseline's", "1", "baseline_devices"),
    Change("the peak at base clock", "peak * base_clock / boost_clock", "peak"),
    Change("the peak at boost clock", "peak * boost_clock / base_clock", "peak"),
    *(Change(f"the peak in {op}", f"{op}_peak", "peak") for op in ITEM_BYTES),
    Change("the peak in tfloat32", "tfloat32_peak", "peak"),
    *(Change(f"{size} B a parameter", str(size), "item_bytes") for size in (4, 2, 1)),
    Change("with gradients and Adam's state, 16 B a parameter", "16", "item_bytes"),
    *(
        Change(f"{letter}iB for {letter}B, or the inverse", f"{one} / {other}", of=_BYTES)
        for power, letter in enumerate("MGT", start=2)
        for one, other in ((1000**power, 1024**power), (1024**power, 1000**power))
    ),
    Change("Wh for J", "1 / 3600", of=("energy",)),
    Change("J for Wh", "3600", of=("energy",)),
)
UNLIKELY: Final = (
    Change("the dense peak, halved as if it were with sparsity", "peak / 2", "peak"),
    Change("operations counted twice", "2", of=_COUNTED),
    Change("a ratio for per cent", "1 / 100", of=_ALL),
    Change("per cent for a ratio", "100", of=_ALL),
    Change("a prefix of 1,000 left out", "1 / 1000", of=_ALL),
    Change("a prefix of 1,000 too many", "1000", of=_ALL),
)

_PRECISIONS: Final = {
    "fp32": "float32", "tf32": "tfloat32", "bf16": "bfloat16", "fp16": "float16", "half": "float16",
}  # fmt: skip
_PASSES: Final = {"training": 3, "train": 3, "forward": 1, "inference": 1}


class NotEnoughError(Exception):
    """A row lacks what its check needs."""


@cache
def _macs_of(name: str) -> int:
    """Return the forward multiply-adds of one image by theory; no code that a table names runs."""
    from experiments.theory import theory_of
    from experiments.theory.networks import network, users_code

    if ".py" in name:
        raise NotEnoughError(f"network ({name!r} is a file of code, which no table may run)")
    try:
        with users_code(name):
            named = network(name)
            macs = theory_of(named.build, (1, *named.image)).multiply_adds
    except RidgepointError as error:
        raise NotEnoughError(f"network ({error})") from None
    if macs is None:
        raise NotEnoughError(f"network ({name} has operators that are not known)")
    return macs


@dataclass(frozen=True)
class AuditedRow:
    """Numbers, those of all devices together, and texts of a row; changed by ``swapped`` formulas.

    ``folder`` is that of configuration files, ``unread`` has cells without a number and unit;
    ``used`` lists the formulas of the last value.
    """

    numbers: Mapping[str, AuditedCell]
    texts: Mapping[str, str]
    devices: Sequence[DataSheet]
    folder: Path = field(default_factory=Path)
    unread: Mapping[str, str] = field(default_factory=dict)
    swapped: Mapping[str, str] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)

    def claimed(self, claim: str) -> Rounded:
        """Compute a claim from the row's other numbers; raise ``NotEnoughError`` without them."""
        if claim in self.swapped:
            return self._value(claim, claim)
        return self._first(claim, claim)

    def _first(self, name: str, claim: str) -> Rounded:
        lacks = []
        for formula in FORMULAS[name]:
            try:
                value = self.evaluate(formula, claim)
            except NotEnoughError as lack:
                lacks.append(str(lack))
                continue
            self.used.append(f"{name} = {formula}")
            return value
        raise NotEnoughError(" or ".join(dict.fromkeys(lacks)) or "what it consists of")

    def evaluate(self, formula: str, claim: str = "") -> Rounded:
        """Compute products and quotients of quantities, the claim not among them."""
        result = Rounded.exact(1)
        for sign, term in re.findall(r"([*/]?) ?([\w:.-]+)", formula):
            factor = Rounded.exact(int(term)) if term.isdigit() else self._value(term, claim)
            result = result / factor if sign == "/" else result * factor
        return result

    def _value(self, name: str, claim: str) -> Rounded:
        if name in self.swapped:
            return replace(self, swapped={}).evaluate(self.swapped[name], claim)
        if name in self.numbers and name != claim:
            return self.numbers[name].number
        if name in FORMULAS and name != claim:
            return self._first(name, claim)
        if name in ("devices", "baseline_devices"):
            return Rounded.exact(1)
        operation, _, key = name.partition(":")
        if operation.endswith("peak") or operation == "capacity":
            return self._peak(operation, key)
        lookups = {
            "passes": self._passes, "macs": self._macs, "item_bytes": self._item_bytes,
            "image": self._image, "attention_full": self._attention,
            "attention_causal": self._causal,
        }  # fmt: skip
        if name not in lookups:
            text = f" ({self.unread[name]!r} is not understood)" if name in self.unread else ""
            raise NotEnoughError(f"{name}{text}")
        return lookups[name]()

    def _text(self, name: str) -> str:
        """Return a text; raise ``NotEnoughError`` without it."""
        if name not in self.texts:
            raise NotEnoughError(name)
        return self.texts[name]

    def _precision(self) -> str:
        word = self._text("precision").casefold()
        if word not in _PRECISIONS and word not in _PRECISIONS.values():
            raise NotEnoughError(f"precision ({word!r} is none of {', '.join(_PRECISIONS)})")
        return _PRECISIONS.get(word, word)

    def _passes(self) -> Rounded:
        word = self._text("direction").casefold()
        if word not in _PASSES:
            raise NotEnoughError(f"direction ({word!r} is none of {', '.join(_PASSES)})")
        return Rounded.exact(_PASSES[word])

    def _item_bytes(self) -> Rounded:
        return Rounded.exact({**ITEM_BYTES, "tfloat32": 4}[self._precision()])

    def _macs(self) -> Rounded:
        return Rounded.exact(_macs_of(self._text("network")))

    def _image(self) -> Rounded:
        """Return one, where a sample of the batch is an image."""
        self._text("network")
        return Rounded.exact(1)

    def _causal(self) -> Rounded:
        return self._attention(causal=True)

    def _attention(self, *, causal: bool = False) -> Rounded:
        """Return forward operations per token with attention, by configuration or by 6 N."""
        sequence = self._value("sequence", "").value
        if "config" in self.texts:
            try:
                model = read_transformer(self.folder / self.texts["config"])
            except UsageError as error:
                raise NotEnoughError(f"config ({error})") from None
            macs = model.matrix_macs + model.attention_macs(sequence, causal)
            return Rounded.exact(2 * macs)
        scores = self.evaluate(f"{2 if causal else 4} * layers * hidden * sequence")
        matrices = self.evaluate("2 * parameters")
        low, high = (a + b for a, b in zip(matrices.interval, scores.interval, strict=True))
        return Rounded(matrices.value + scores.value, Interval(low, high))

    def _peak(self, name: str, key: str) -> Rounded:
        """Return a peak of the row's device, or of the one with a ``key``."""
        sparse = name == "sparse_peak"
        operation = name.removesuffix("_peak")
        if name in ("peak", "sparse_peak"):
            operation = self._precision()
        devices = [d for d in self.devices if d.key == key] if key else self._named()
        peaks: dict[float, tuple[DataSheet, RatedPeak]] = {}
        lacking = []
        for device in devices:
            peak = peak_of(device, operation)
            number = (peak.sparse if sparse else peak.value) if peak else None
            if peak and number:
                peaks.setdefault(number, (device, peak))
            else:
                lacking.append(device.key)
        # A card whose data sheet lacks the number may be the one that is meant.
        if len(peaks) > 1 or (peaks and lacking):
            which = ", ".join([device.key for device, _ in peaks.values()] + lacking)
            raise NotEnoughError(f"which device: {which}")
        for number, (device, peak) in peaks.items():
            doubt = "" if peak.verified else ", which nobody has verified"
            self.used.append(f"{name} = {number:,g} {peak.unit} ({device.name}{doubt})")
            unit = Fraction(peak.rate) / Fraction(peak.value)
            # Vendors print the capacity of memory in GiB as GB.
            unit *= Fraction(1024, 1000) ** 3 if name == "capacity" else 1
            return Rounded.printed(f"{number:.12g}").scaled(unit)
        raise NotEnoughError(f"data sheet of {self._text('device')} with {operation}")

    def _named(self) -> list[DataSheet]:
        """Return the devices that the row's name fits: one by its own name, or by first words."""
        name = self._text("device")
        key = "-".join(name.casefold().removeprefix("nvidia ").split())
        named = [d for d in self.devices if d.is_named(name) or d.is_named(f"NVIDIA {name}")]
        return named or [d for d in self.devices if f"{d.key}-".startswith(f"{key}-")]

    def readings(self, claim: str) -> Iterator[tuple[str, Rounded]]:
        """Yield the values of a claim by single changes, the likeliest first."""
        base = self.claimed(claim)
        swaps = self._peaks_of_others(claim)
        for change in (*LIKELY, *swaps, *UNLIKELY):
            try:
                if claim in change.of:
                    value = base * self.evaluate(change.formula)
                elif change.quantity:
                    value = self._changed(change).claimed(claim)
                else:
                    continue
            except NotEnoughError:
                continue
            if value.value != base.value:
                yield change.text, value
        if claim == "speedup" and base.interval.low > 1:
            gain = Rounded(base.value - 1, Interval(*(end - 1 for end in base.interval)))
            yield "the gain, a speed-up less 1", gain
            yield "the inverse", Rounded.exact(1) / base

    def operations_per_item(self) -> dict[str, Rounded]:
        """Return the forward operations of a token or image by each way to count them."""
        counted = {}
        for name in ("2 * parameters", "attention_full", "attention_causal", "2 * macs"):
            with suppress(NotEnoughError):
                counted[name] = self.evaluate(name)
        return counted

    def _changed(self, change: Change) -> AuditedRow:
        """Return the row with one quantity changed."""
        return replace(self, swapped={change.quantity: change.formula}, used=[])

    def _peaks_of_others(self, claim: str) -> Iterator[Change]:
        """Yield a change for each peak of other devices that is not the own device's."""
        quantity = {"mfu": "peak", "bandwidth_use": "memory_peak"}.get(claim)
        if quantity is None:
            return
        operation = self._precision() if quantity == "peak" else "memory"
        known = {peak.value for d in self._named() if (peak := peak_of(d, operation))}
        for device in self.devices:
            peak = peak_of(device, operation)
            if peak and peak.value not in known:
                known.add(peak.value)
                text = f"the peak of {device.name}, {peak.value:,g} {peak.unit}"
                yield Change(text, f"{quantity}:{device.key}", quantity)


def peak_of(device: DataSheet, operation: str) -> RatedPeak | None:
    """Return a peak, verified or not.

    NVIDIA's matrix units compute float16 as fast as bfloat16, which some documents give alone.
    """
    peaks = {str(peak.operation): peak for peak in device.peaks}
    alone = operation == "float16" and device.name.startswith("NVIDIA")
    return peaks.get(operation) or (peaks.get("bfloat16") if alone else None)
