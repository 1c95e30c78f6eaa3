"""One row of a table, and the quantities that formulas and data sheets derive from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

from experiments.audit.definitions import FORMULAS, WORDS
from experiments.audit.quantities import AuditedCell
from experiments.machine.code import ROOT
from report.core.errors import RidgepointError, UsageError
from report.core.records.devices import DataSheet, RatedPeak, read_devices
from report.core.records.operations import ITEM_BYTES
from report.theory.rounding import Interval, Rounded
from report.theory.transformers import read_transformer


class NotEnoughError(Exception):
    """A row lacks what its check needs."""


@cache
def known_devices() -> tuple[DataSheet, ...]:
    """Return all devices whose data sheets are known."""
    return read_devices(ROOT / "data" / "devices.yaml").devices


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
    """Numbers of a row, which are totals over its devices, and its texts.

    ``swapped`` quantities are computed by other formulas; ``used`` lists the formulas of the last
    value.  A quantity that has a text and no number could not be read.
    """

    numbers: Mapping[str, AuditedCell]
    texts: Mapping[str, str]
    swapped: Mapping[str, str] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)

    def without(self, claim: str) -> AuditedRow:
        """Return the row without the number of a claim, which is then computed from the others."""
        others = {name: cell for name, cell in self.numbers.items() if name != claim}
        return replace(self, numbers=others, used=[])

    def evaluate(self, formula: str) -> Rounded:
        """Compute products and quotients of quantities; raise ``NotEnoughError`` without them."""
        result = Rounded.exact(1)
        for sign, term in re.findall(r"([*/]?) ?([\w:.-]+)", formula):
            factor = Rounded.exact(int(term)) if term.isdigit() else self._value(term)
            result = result / factor if sign == "/" else result * factor
        return result

    def operations_per_item(self) -> dict[str, float]:
        """Return the forward operations per token or image, by each way of counting."""
        counted = {}
        for name in ("2 * parameters", "attention_full", "attention_causal", "2 * macs"):
            with suppress(NotEnoughError):
                counted[name] = float(self.evaluate(name).value)
        return counted

    def named_devices(self) -> list[DataSheet]:
        """Return the devices that the row names: by the full name, else by its first words."""
        name = self.text("device")
        key = "-".join(name.casefold().removeprefix("nvidia ").split())
        named = [d for d in known_devices() if d.is_named(name) or d.is_named(f"NVIDIA {name}")]
        return named or [d for d in known_devices() if f"{d.key}-".startswith(f"{key}-")]

    def _first(self, name: str) -> Rounded:
        lacks = []
        for formula in FORMULAS[name]:
            try:
                value = self.evaluate(formula)
            except NotEnoughError as lack:
                lacks.append(str(lack))
                continue
            self.used.append(f"{name} = {formula}")
            return value
        raise NotEnoughError(" or ".join(dict.fromkeys(lacks)) or "what it consists of")

    def _value(self, name: str) -> Rounded:
        if name in self.swapped:
            return replace(self, swapped={}).evaluate(self.swapped[name])
        if name in self.numbers:
            return self.numbers[name].number
        if name in FORMULAS:
            return self._first(name)
        operation, _, key = name.partition(":")
        if operation.endswith("peak") or operation == "capacity":
            return self._peak(operation, key)
        if name.startswith("attention_"):
            return self._attention(causal=name == "attention_causal")
        return Rounded.exact(self._exact(name))

    def _exact(self, name: str) -> int:
        """Return a number that tables do not print, or the default of one that is left out."""
        match name:
            case "devices" | "baseline_devices":
                return 1
            case "passes":
                return int(self.text("direction"))
            case "item_bytes":
                return {**ITEM_BYTES, "tfloat32": 4}[self.text("precision")]
            case "macs":
                return _macs_of(self.text("network"))
            case "image" if "network" in self.texts:
                return 1
        text = f" ({self.texts[name]!r} is not understood)" if name in self.texts else ""
        raise NotEnoughError(f"{name if name != 'image' else 'network'}{text}")

    def text(self, name: str) -> str:
        """Return a text, or what it means; raise ``NotEnoughError`` for none or an unknown one."""
        if name not in self.texts:
            raise NotEnoughError(name)
        if name not in WORDS:
            return self.texts[name]
        word = self.texts[name].casefold()
        if word not in WORDS[name]:
            raise NotEnoughError(f"{name} ({word!r} is none of {', '.join(WORDS[name])})")
        return WORDS[name][word]

    def _attention(self, *, causal: bool) -> Rounded:
        """Return forward operations per token with attention, by configuration or by 6 N."""
        sequence = self._value("sequence").value
        if "config" in self.texts:
            try:
                model = read_transformer(Path(self.texts["config"]))
            except UsageError as error:
                raise NotEnoughError(f"config ({error})") from None
            return Rounded.exact(2 * (model.matrix_macs + model.attention_macs(sequence, causal)))
        scores = self.evaluate(f"{2 if causal else 4} * layers * hidden * sequence")
        matrices = self.evaluate("2 * parameters")
        low, high = (a + b for a, b in zip(matrices.interval, scores.interval, strict=True))
        return Rounded(matrices.value + scores.value, Interval(low, high))

    def _peak(self, name: str, key: str) -> Rounded:
        """Return a peak of the row's device, or of the one with a ``key``."""
        operation = name.removesuffix("_peak")
        if name in ("peak", "sparse_peak"):
            operation = self.text("precision")
        devices = [d for d in known_devices() if d.key == key] if key else self.named_devices()
        peaks: dict[float, tuple[DataSheet, RatedPeak]] = {}
        lacking = []
        for device in devices:
            peak = peak_of(device, operation)
            number = (peak.sparse if name == "sparse_peak" else peak.value) if peak else None
            if peak and number:
                peaks.setdefault(number, (device, peak))
            else:
                lacking.append(device.key)
        # The named card may be one whose data sheet lacks the number.
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
        raise NotEnoughError(f"data sheet of {self.text('device')} with {operation}")


def peak_of(device: DataSheet, operation: str) -> RatedPeak | None:
    """Return a peak, verified or not.

    NVIDIA's matrix units compute float16 as fast as bfloat16, which some documents give alone.
    """
    peaks = {str(peak.operation): peak for peak in device.peaks}
    alone = operation == "float16" and device.name.startswith("NVIDIA")
    return peaks.get(operation) or (peaks.get("bfloat16") if alone else None)
