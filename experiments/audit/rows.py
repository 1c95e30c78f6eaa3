"""A row of a table: the number, digits and unit of each cell, and values computed from them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from experiments.audit.definitions import (
    FORMULAS,
    PREFIXES,
    QUANTITIES,
    SMALL_PREFIXES,
    TEXTS,
    UNITS,
    WHOLE_UNITS,
    WORDS,
)
from experiments.audit.tables import TextTable
from experiments.machine.code import ROOT
from report.core.errors import RidgepointError, UsageError
from report.core.records.devices import DataSheet, RatedPeak, read_devices
from report.core.records.operations import ITEM_BYTES
from report.theory.rounding import Interval, Rounded
from report.theory.transformers import read_transformer

_NUMBER: Final = re.compile(
    r"[~≈]?\s*((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)"
    r"(?:\s*(?:e|[×x]\s*10\s*\^?)\s*([+-]?\d{1,2}))?\s*([^\d.,].*|)",
    re.IGNORECASE,
)
_PER_DEVICE: Final = re.compile(r"(?:/|per[ -])\s*(?:gpu|device|chip|card|accelerator)s?", re.I)


class AuditedCell(NamedTuple):
    """A number in units without prefix; ``scale`` is the printed unit in such units."""

    number: Rounded
    scale: Fraction
    text: str


def columns(table: TextTable, named: Mapping[str, str]) -> dict[str, int]:
    """Return the position of each quantity's column; ``named`` maps quantities to headings.

    Raises ``UsageError`` for a heading with two meanings, or two headings with one.
    """
    headings = table.headings
    for name, heading in named.items():
        require_known(name, "--column", name, "quantity", tuple(QUANTITIES))
        require_known(heading, "--column", name, "heading", headings)
    result = {name: headings.index(heading) for name, heading in named.items()}
    for index, heading in enumerate(headings):
        others = [] if heading in named.values() else _meanings(heading)
        meanings = [name for name in others if name not in named]
        if len(meanings) > 1 or result.keys() & set(meanings):
            options = " or ".join(f'--column {name}="{heading}"' for name in meanings)
            remedy = f"give {options}, or --column with another heading"
            raise UsageError(f"The heading {heading!r} does not say what it is alone; {remedy}.")
        result |= dict.fromkeys(meanings, index)
    return result


def require_known(word: str, option: str, name: str, kind: str, known: tuple[str, ...]) -> None:
    """Raise ``UsageError`` with the nearest known words if ``word`` is none of them."""
    if word not in known:
        near = difflib.get_close_matches(word, known, cutoff=0.5) or known
        raise UsageError(f"{option} {name}: no such {kind}; possible are {', '.join(near)}.")


def _meanings(heading: str) -> list[str]:
    """Return the quantities that a heading names, by its words outside brackets."""
    bare = _PER_DEVICE.sub("", re.sub(r"\(.*?\)|\[.*?\]|%", "", heading))
    words = " ".join(re.findall(r"[a-z]+", bare.casefold()))
    names = [name for name, (_, headings) in QUANTITIES.items() if words in headings]
    if len(names) < 2:
        return names
    by_unit = [name for name in names if _unit_of_heading(heading, QUANTITIES[name][0])]
    return by_unit if len(by_unit) == 1 else names


def read_cell(
    name: str, text: str, heading: str = "", devices: Fraction = Fraction(1)
) -> AuditedCell | None:
    """Read a number with its unit, from the heading if the cell has none; None without either.

    A number per device is multiplied by the number of ``devices``.
    """
    kind, matched = QUANTITIES[name][0], _NUMBER.fullmatch(text.strip())
    if matched is None or name in TEXTS:
        return None
    digits, exponent, unit = matched.groups()
    number = Rounded.printed(digits.replace(",", ""))
    own = _PER_DEVICE.sub("", unit).strip()
    scale = _scale(own, kind) if own else _unit_of_heading(heading, kind)
    default = UNITS[kind][1]
    if scale is None and not own and default is not None:
        is_percent = name in ("mfu", "bandwidth_use") and number.value > 2
        scale = Fraction(default, 100 if is_percent else 1)
    if scale is None or not number.value:
        return None
    if kind == "count" and not own and scale == 1 and number.value.denominator == 1:
        number = Rounded.exact(number.value)
    if _PER_DEVICE.search(heading + unit):
        scale *= devices
    return AuditedCell(number.scaled(scale * Fraction(10) ** int(exponent or 0)), scale, text)


def _unit_of_heading(heading: str, kind: str) -> Fraction | None:
    """Return the scale of a heading's unit: in brackets or, except for counts, as a word."""
    words = [] if kind == "count" else [heading, *heading.split()]
    for text in (*re.findall(r"[(\[](.*?)[)\]]", heading), *words):
        scale = _scale(_PER_DEVICE.sub("", text).strip(), kind)
        if scale is not None:
            return scale
    return None


def _scale(unit: str, kind: str) -> Fraction | None:
    """Return the scale of a unit in units without prefix; None for a unit of another kind."""
    whole = WHOLE_UNITS.get(kind, {})
    if not unit or unit in whole or kind == "share":
        return whole.get(unit)
    small = SMALL_PREFIXES if kind in ("time", "power", "energy") else {}
    for prefix, factor in {**PREFIXES, **small}.items():
        base = unit.removeprefix(prefix).strip()
        if unit.startswith(prefix) and re.fullmatch(UNITS[kind][0], base):
            return factor * {"mac": 2, "macs": 2, "wh": 3600}.get(base.casefold(), 1)
    return None


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

    def _value(self, name: str) -> Rounded:
        if name in self.swapped:
            return replace(self, swapped={}).evaluate(self.swapped[name])
        if name in self.numbers:
            return self.numbers[name].number
        lacks: dict[str, None] = {}
        for formula in FORMULAS.get(name, ()):
            try:
                value = self.evaluate(formula)
            except NotEnoughError as lack:
                lacks[str(lack)] = None
                continue
            if formula != "device_peak":
                self.used.append(f"{name} = {formula}")
            return value
        if name in FORMULAS:
            raise NotEnoughError(" or ".join(lacks) or "what it consists of")
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
        if operation in ("peak", "device", "sparse"):
            operation = self.text("precision")
        devices = [d for d in known_devices() if d.key == key] if key else self.named_devices()
        peaks: dict[float | None, tuple[DataSheet, RatedPeak | None]] = {}
        for device in devices:
            peak = peak_of(device, operation)
            number = (peak.sparse if name == "sparse_peak" else peak.value) if peak else None
            peaks.setdefault(number, (device, peak))
        # The named card may be one whose data sheet lacks the number.
        if len(peaks) > 1:
            which = ", ".join(device.key for device, _ in peaks.values())
            raise NotEnoughError(f"which device: {which}")
        for number, (device, peak) in peaks.items():
            if number is None or peak is None:
                continue
            doubt = "" if peak.verified else ", which nobody has verified"
            shown = f"{number:,g} {peak.unit} ({device.name}{doubt})"
            self.used.append(f"{name.removeprefix('device_')} = {shown}")
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
