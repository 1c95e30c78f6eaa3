"""Check a row of a table: recompute its claims, and list the readings that explain a difference."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from experiments.audit import quantities
from experiments.audit.quantities import FORMULAS, PRECISIONS, Change
from experiments.audit.tables import Cell, read_cell
from experiments.machine.code import ROOT
from report.core.errors import RidgepointError, UsageError
from report.core.records.reported import DataSheet, read_devices
from report.theory.rounding import Interval, Rounded, evaluate
from report.theory.transformers import read_transformer

#: Quantity → its number, or the reason why it is missing.
Known: TypeAlias = dict[str, Rounded | str]
#: Prefix of operations with structured sparsity.
_SPARSE: Final = "sparse "


class NotEnoughError(Exception):
    """A row lacks numbers that its check needs; each argument lists alternatives of one."""


@dataclass(frozen=True)
class AuditedRow:
    """Cells and texts of a row, and all numbers ``known`` of it, as totals over its devices.

    ``sources`` are the lines of data sheets behind the rated quantities; ``precision`` is the type
    of the elements, or empty.  ``unread`` are cells whose headings name no quantity.
    """

    cells: Mapping[str, Cell]
    texts: Mapping[str, str]
    known: Mapping[str, Rounded | str]
    sources: Mapping[str, str]
    precision: str
    unread: Mapping[str, str]

    def evaluate(self, formula: str, used: list[str] | None = None) -> Rounded:
        """Compute sums of products and quotients of quantities; list their formulas in ``used``.

        Raises ``NotEnoughError`` with all missing quantities.
        """
        missing = dict[str, None]()

        def value_of(name: str) -> Rounded:
            try:
                return self._value(name, used)
            except NotEnoughError as error:
                missing.update(dict.fromkeys(error.args))
                return Rounded.exact(1)  # goes on, to collect what else is missing

        result = evaluate(formula, value_of)
        if missing:
            raise NotEnoughError(*missing)
        return result

    def _value(self, name: str, used: list[str] | None) -> Rounded:
        value = self.known.get(name)
        if isinstance(value, Rounded):
            return value
        missing = [tuple(value.splitlines())] if value else []
        for formula in FORMULAS.get(name, ()):
            try:
                result = self.evaluate(formula, used)
            except NotEnoughError as error:
                missing.append(error.args)
                continue
            if used is not None:
                used.insert(0, f"{name} = {self.sources.get(formula, formula)}")
            return result
        if name == "rate" or not missing:
            missing.append((f"a formula of {name}" if FORMULAS.get(name) == () else name,))
        fewest = min(map(len, missing))
        if fewest > 1:
            raise NotEnoughError(*min(missing, key=len))
        single = (names[0] for names in missing if len(names) == 1)
        raise NotEnoughError(" or ".join(dict.fromkeys(single)))

    def remedy(self, missing: str) -> str:
        """Name the missing quantities, each with the options that supply it."""
        options = []
        for name in missing.split(" or "):
            for heading, text in self.unread.items() if name == "parameters" else ():
                if (cell := read_cell(name, text, "")) and cell.scale > 1:
                    options.append(shlex.join(["--column", f"{name}={heading}"]))
            if name in quantities.QUANTITIES:
                options.append(f"--given {name}={quantities.EXAMPLES.get(name, 'NUMBER')}")
        return f"{missing} ({' or '.join(options)})" if options else missing

    def with_value(self, name: str, value: Rounded) -> AuditedRow:
        """Return the row with another value of a quantity."""
        return replace(self, known={**self.known, name: value})

    def operations_per_item(self) -> dict[str, float]:
        """Return the forward operations per token or image, by each way of counting."""
        counts = {}
        for formula in ("2 * parameters", "attention_full", "attention_causal", "2 * macs"):
            with suppress(NotEnoughError):
                counts[formula] = float(self.evaluate(formula).value)
        return counts


def audited_row(
    cells: Mapping[str, Cell], texts: Mapping[str, str], unread: Mapping[str, str]
) -> AuditedRow:
    """Collect all that is known of a row: cells, words, data sheets, theory and configuration."""
    known: Known = {"devices": Rounded.exact(1), "baseline_devices": Rounded.exact(1)}
    for name, (column, meanings) in quantities.WORDS.items():
        word = texts.get(column, "").casefold()
        unknown = f"{column} ({word!r} is none of {', '.join(meanings)})" if word else column
        known[name] = Rounded.exact(meanings[word]) if word in meanings else unknown
    operations = {f"rated_{name}": name for name in (*PRECISIONS.values(), "memory", "capacity")}
    precision = PRECISIONS.get(texts.get("precision", "").casefold(), "")
    if precision:
        operations |= {"rated_peak": precision, "rated_sparse": _SPARSE + precision}
    else:
        known["rated_peak"] = ("" if "device" in texts else "device\n") + str(known["item_bytes"])
    sources = {}
    for name, operation in operations.items():
        known[name], sources[name] = _rated_quantity(texts.get("device", ""), operation)
    known["macs"] = _multiply_adds(texts["network"]) if "network" in texts else "network"
    known["image"] = Rounded.exact(1) if "network" in texts else "network"
    for name, text in texts.items():
        if name in cells:
            known[name] = cells[name].number
        elif quantities.QUANTITIES[name][0] != "text":
            known[name] = f"{name} ({text!r} is not understood)"
    if "config" in texts:
        known |= _attention(Path(texts["config"]), known.get("sequence", "sequence"))
    return AuditedRow(cells, texts, known, sources, precision, unread)


@cache
def _multiply_adds(name: str) -> Rounded | str:
    """Return the forward multiply-adds of one image by theory; no code that a table names runs."""
    from experiments.theory import theory_of
    from experiments.theory.networks import network, users_code

    if ".py" in name:
        return f"network ({name!r} is a file of code, which no table may run)"
    try:
        with users_code(name):
            named = network(name)
            count = theory_of(named.build, (1, *named.image)).multiply_adds
    except RidgepointError as error:
        return f"network ({error})"
    unknown = f"network ({name} has operators that are not known)"
    return unknown if count is None else Rounded.exact(count)


def _attention(path: Path, sequence: Rounded | str) -> Known:
    """Return forward operations per token of a transformer's configuration, with attention."""
    if isinstance(sequence, str):
        return dict.fromkeys(("attention_full", "attention_causal"), sequence)
    try:
        model = read_transformer(path)
    except UsageError as error:
        return dict.fromkeys(("attention_full", "attention_causal"), f"config ({error})")
    operations: Known = {}
    for name, causal in (("attention_full", False), ("attention_causal", True)):
        attention = model.attention_macs(sequence.value, causal)
        operations[name] = Rounded.exact(2 * (model.matrix_macs + attention))
    return operations


@cache
def _known_devices() -> tuple[DataSheet, ...]:
    return read_devices(ROOT / "data" / "devices.yaml").devices


def _named_devices(name: str) -> list[DataSheet]:
    """Return the devices of a name: the full one, else one of its model, else its first words."""
    short, sheets = name.casefold().removeprefix("nvidia "), _known_devices()
    full, key = f"nvidia {short}", "-".join(short.split())
    exact = [d for d in sheets if d.name.casefold() in (short, full)]
    models = [d for d in sheets if d.is_named(name) or d.is_named(full)]
    return exact or models or [d for d in sheets if f"{d.key}-".startswith(f"{key}-")]


def _rating(device: DataSheet, operation: str) -> tuple[str, Rounded | None]:
    """Return a peak of an operation, which may begin with ``_SPARSE``, as printed and as a number.

    NVIDIA's matrix units compute float16 as fast as bfloat16, which some documents give alone.
    Vendors print the capacity of memory in GiB as GB.
    """
    name = operation.removeprefix(_SPARSE)
    peaks = {str(peak.operation): peak for peak in device.peaks}
    peak = peaks.get(name)
    if name == "float16" and device.name.startswith("NVIDIA"):
        peak = peak or peaks.get("bfloat16")
    number = peak and (peak.value if name == operation else peak.sparse)
    if peak is None or number is None:
        return "", None
    unit = Fraction(peak.rate) / Fraction(peak.value)
    unit *= Fraction(1024, 1000) ** 3 if name == "capacity" else 1
    doubt = "" if peak.verified else ", which nobody has verified"
    return f"{number:,g} {peak.unit}{doubt}", Rounded.printed(f"{number:.12g}").scaled(unit)


def _rated_quantity(device: str, operation: str) -> tuple[Rounded | str, str]:
    """Return a peak of a named device, or why it is missing, and the line of its data sheet."""
    if not device:
        return "device", ""
    ratings: dict[str, tuple[DataSheet, Rounded | None]] = {}
    for sheet in _named_devices(device):
        text, value = _rating(sheet, operation)
        ratings.setdefault(text, (sheet, value))
    # The named card may be one whose data sheet lacks the number.
    if len(ratings) > 1:
        return f"which device: {', '.join(sheet.key for sheet, _ in ratings.values())}", ""
    for text, (sheet, value) in ratings.items():
        if value is not None:
            return value, f"{text} ({sheet.name})"
    return f"data sheet of {device} with {operation.removeprefix(_SPARSE)}", ""


@dataclass(frozen=True)
class ClaimCheck:
    """A printed claim beside its recomputed value, or the quantities ``missing`` for it."""

    claim: str
    printed: Cell
    limit: Rounded | None = None
    recomputed: Rounded | None = None
    formulas: tuple[str, ...] = ()
    missing: str = ""
    explanations: tuple[str, ...] = ()

    @property
    def verdict(self) -> Literal["consistent", "differs", "impossible", "not enough given"]:
        """Compare the interval of the printed digits with that of the recomputed value."""
        interval = self.printed.number.interval
        if self.limit and interval.low > self.limit.interval.high:
            return "impossible"
        if self.recomputed is None:
            return "not enough given"
        return "consistent" if interval.meets(self.recomputed.interval) else "differs"

    @property
    def factor(self) -> float | None:
        """The printed number over the recomputed one."""
        number = self.recomputed
        return float(self.printed.number.value / number.value) if number else None

    def as_json(self) -> dict[str, Any]:
        """Return the check as a JSON object; its numbers are in units without prefix."""
        number = self.recomputed
        return {
            "claim": self.claim,
            "printed": self.printed.text,
            "verdict": self.verdict,
            "recomputed": float(number.value) if number else None,
            "interval": [float(end) for end in number.interval] if number else None,
            "factor": self.factor,
            "formulas": self.formulas,
            "missing": self.missing,
            "explanations": self.explanations,
        }

    def as_text(self) -> str:
        """Describe the check: its verdict, its formulas, and readings that explain a difference."""
        scale, number = self.printed.scale, self.recomputed
        text = f"{self.claim} {self.printed.text}: {self.verdict}"
        if number is None and self.limit and self.verdict == "impossible":
            return f"{text}, at most {float(self.limit.value / scale):.4g} is possible"
        if number is None:
            return f"{text}, missing: {self.missing}"
        value, low, high = (float(end / scale) for end in (number.value, *number.interval))
        text += f", recomputed {value:.4g} ({low:.4g} to {high:.4g})"
        formulas = "; ".join(self.formulas)
        if self.verdict == "consistent":
            return f"{text}\n  {formulas}"
        text += f", the printed number is {self.factor:.4g} times as large\n  {formulas}"
        if not self.explanations:
            return f"{text}\n  no single change explains it"
        return f"{text}\n  each of these would explain it alone: {'; '.join(self.explanations)}"


def checks(row: AuditedRow) -> list[ClaimCheck]:
    """Check the claims of a row; leave out inputs that can be neither recomputed nor limited."""
    results = [_check(row, claim) for claim in FORMULAS if claim in row.cells]
    claims = [
        r for r in results if r.claim not in quantities.INPUTS or r.verdict != "not enough given"
    ]
    return claims or results


def _check(row: AuditedRow, claim: str) -> ClaimCheck:
    cell, limit, formulas = row.cells[claim], None, list[str]()
    with suppress(NotEnoughError):
        limit = row.evaluate(quantities.LIMITS[claim]) if claim in quantities.LIMITS else None
    others = replace(row, known={n: value for n, value in row.known.items() if n != claim})
    try:
        value = others.evaluate(claim, formulas)
    except NotEnoughError as error:
        missing = "; ".join(map(row.remedy, error.args))
        return ClaimCheck(claim, cell, limit, missing=missing)
    check = ClaimCheck(claim, cell, limit, value, formulas=tuple(dict.fromkeys(formulas)))
    explanations: dict[str, None] = {}
    if not cell.number.interval.meets(value.interval):
        for text, changed in _readings(others, claim, value):
            if cell.number.interval.meets(changed.interval):
                explanations[text] = None
    return replace(check, explanations=tuple(explanations))


def _readings(row: AuditedRow, claim: str, base: Rounded) -> Iterator[tuple[str, Rounded]]:
    """Yield each single change and the value of the claim after it, the likeliest first."""
    with_claim = row.with_value("claim", base)
    for change in (*quantities.LIKELY, *_peaks_of_others(row, claim), *quantities.UNLIKELY):
        if change.claims and claim not in change.claims:
            continue
        with suppress(NotEnoughError):
            formula = change.formula
            value = formula if isinstance(formula, Rounded) else with_claim.evaluate(formula)
            changed = row.with_value(change.quantity or claim, value).evaluate(claim)
            if changed.value != base.value:
                yield change.text, changed
    if claim == "speedup" and base.interval.low > 1:
        gain = Rounded(base.value - 1, Interval(*(end - 1 for end in base.interval)))
        yield "the gain, a speed-up less 1", gain


def _peaks_of_others(row: AuditedRow, claim: str) -> Iterator[Change]:
    """Yield a change for each peak that other devices have and the row's device has not."""
    peaks = {"mfu": ("peak", row.precision), "bandwidth_use": ("memory_peak", "memory")}
    quantity, operation = peaks.get(claim, ("", ""))
    if not operation or "device" not in row.texts:
        return
    known = {_rating(sheet, operation)[0] for sheet in _named_devices(row.texts["device"])}
    for sheet in _known_devices():
        text, value = _rating(sheet, operation)
        if value and text not in known:
            known.add(text)
            yield Change(f"the peak of {sheet.name}, {text}", value, quantity)
