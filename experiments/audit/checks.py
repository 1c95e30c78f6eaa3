"""Check a row of a table: recompute the claims, and list changes that explain a difference.

A claim is a printed number that other numbers of the same row determine.  Formulas, units and
possible changes are listed in ``data/audit.yaml``.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from experiments.audit.tables import Cell, Change, knowledge, read_cell
from experiments.machine.code import ROOT
from report.core.errors import RidgepointError, UsageError
from report.core.records.layers import ELEMENT_BYTES
from report.core.records.reported import DataSheet, read_devices
from report.theory.rounding import Rounded, evaluate
from report.theory.transformers import read_transformer

#: Quantities that must be given before a number can be computed; for "a or b", one is enough.
Missing: TypeAlias = tuple[str, ...]
#: Quantity → its number in a row, or the quantities that are missing for it.  Numbers are totals
#: of the row's devices.  The text of a number from a data sheet is the line of the sheet.
Known: TypeAlias = Mapping[str, Cell | Missing]
Verdict: TypeAlias = Literal["consistent", "differs", "impossible", "not enough given"]
#: Prefix of operations with structured sparsity.
_SPARSE: Final = "sparse "


class AuditedRow(NamedTuple):
    """Row of a table: texts by quantity, cells by heading, and known numbers by quantity."""

    texts: Mapping[str, str]
    cells: Mapping[str, str]
    known: Known

    def operations_per_item(self) -> dict[str, float]:
        """Return formula → operations of a forward pass per token or image, if they are known."""
        operations = {}
        for formula in ("2 * parameters", "attention_full", "attention_causal", "2 * macs"):
            result = compute(formula, self.known, [])
            if isinstance(result, Rounded):
                operations[formula] = float(result.value)
        return operations


def compute(formula: str, known: Known, used: list[str]) -> Rounded | Missing:
    """Compute a formula, or return the missing quantities.

    Adds the formulas by which the formula's quantities were computed to ``used``.
    """
    numbers, missing = dict[str, Rounded](), list[str]()
    for name in re.findall(r"[a-z]\w*", formula):
        value = _quantity(name, known, used)
        if isinstance(value, Rounded):
            numbers[name] = value
        else:
            missing += value
    return tuple(dict.fromkeys(missing)) or evaluate(formula, numbers.__getitem__)


def _quantity(name: str, known: Known, used: list[str]) -> Rounded | Missing:
    """Return the known number of a quantity, or compute it by the first formula with known inputs.

    If no formula can be computed, return the shortest list of missing quantities.  If several
    formulas each lack only one quantity, name these quantities as alternatives.
    """
    known_value = known.get(name)
    if isinstance(known_value, Cell):
        return known_value.number
    missing = [known_value] if known_value else []
    quantity = knowledge().quantities.get(name)
    for formula in quantity.formulas if quantity else ():
        value = compute(formula, known, used)
        if isinstance(value, Rounded):
            rating = known.get(formula)  # a formula can be the name of a data sheet's number
            line = rating.text if isinstance(rating, Cell) else ""
            used.insert(0, f"{name} = {line or formula}")
            return value
        missing.append(value)
    if name == "rate" or not missing:
        missing.append((name,))
    fewest = min(missing, key=len)
    if len(fewest) > 1:
        return fewest
    alternatives = [names[0] for names in missing if len(names) == 1]
    return (" or ".join(dict.fromkeys(alternatives)),)


def audited_row(
    texts: Mapping[str, str], headings: Mapping[str, str], cells: Mapping[str, str]
) -> AuditedRow:
    """Collect the numbers that are known about a row.

    Sources are its cells and words, data sheets of devices, the theory of a network, and a
    transformer's configuration file.  ``texts`` and ``headings`` map quantities to texts and
    headings; ``cells`` maps headings to texts.
    """
    known: dict[str, Cell | Missing] = {"devices": _exact(1), "baseline_devices": _exact(1)}
    devices = Fraction(1)
    for name, quantity in knowledge().quantities.items():
        if name in texts and quantity.kind != "text":
            cell = read_cell(name, texts[name], headings.get(name, ""), devices)
            known[name] = cell or (f"{name} ({texts[name]!r} is not understood)",)
            if cell and name == "devices":  # the first number in audit.yaml
                devices = cell.number.value
    passes, precision = _meaning("direction", texts), _meaning("precision", texts)
    # Work in units of a forward pass: 1 for inference, 3 for training.
    known["passes"] = _exact(int(passes)) if isinstance(passes, str) else passes
    if isinstance(precision, str):
        known["item_bytes"] = _exact(ELEMENT_BYTES[precision])
    else:
        known["item_bytes"] = precision
        known["rated_peak"] = precision if "device" in texts else ("device", *precision)
    network = texts.get("network")
    known["macs"] = _multiply_adds(network) if network else ("network",)
    known["image"] = _exact(1) if network else ("network",)
    if "config" in texts:
        path, sequence = Path(texts["config"]), known.get("sequence", ("sequence",))
        for name, causal in (("attention_full", False), ("attention_causal", True)):
            known[name] = _attention(path, sequence, causal)
    for name, operation in _rated_operations(texts).items():
        known[name] = _rated_quantity(texts.get("device"), operation)
    return AuditedRow(texts, cells, known)


def _exact(number: int | Fraction) -> Cell:
    return Cell(Rounded.from_exact(number))


def _meaning(name: str, texts: Mapping[str, str]) -> str | Missing:
    """Return the meaning of a row's word for a quantity, such as ``3`` for ``training``."""
    word, words = texts.get(name, "").casefold(), knowledge().quantities[name].words
    if word in words:
        return words[word]
    return (f"{name} ({word!r} is not one of {', '.join(words)})" if word else name,)


@cache
def _multiply_adds(name: str) -> Cell | Missing:
    """Compute the multiply-adds of a network for one image.

    For the name of a Python file returns the reason why they are missing, because auditing a table
    must not run code that the table names.
    """
    from experiments.theory import theory_of
    from experiments.theory.networks import find_network, users_code

    try:
        if ".py" in name:
            raise UsageError(f"{name!r} is a file of code, which no table may run")
        with users_code(name):
            build, image = find_network(name)
            count = theory_of(build, (1, *image)).multiply_adds
        if count is None:
            raise UsageError(f"{name} has operators that are not known")
    except RidgepointError as error:
        return (f"network ({error})",)
    return _exact(count)


def _attention(path: Path, sequence: Cell | Missing, causal: bool) -> Cell | Missing:
    """Compute a transformer's forward operations per token from its configuration file."""
    if not isinstance(sequence, Cell):
        return sequence
    try:
        model = read_transformer(path)
    except UsageError as error:
        return (f"config ({error})",)
    attention = model.attention_macs(sequence.number.value, causal)
    return _exact(2 * (model.matrix_macs + attention))


@cache
def _known_devices() -> tuple[DataSheet, ...]:
    return read_devices(ROOT / "data" / "devices.yaml").devices


def _named_devices(name: str) -> list[DataSheet]:
    """Return the devices whose full name, or else model, or else first words match a name."""
    short, sheets = name.casefold().removeprefix("nvidia "), _known_devices()
    full, key = f"nvidia {short}", "-".join(short.split())
    by_name = [sheet for sheet in sheets if sheet.name.casefold() in (short, full)]
    by_model = [sheet for sheet in sheets if sheet.is_named(name) or sheet.is_named(full)]
    by_first_words = [sheet for sheet in sheets if f"{sheet.key}-".startswith(f"{key}-")]
    return by_name or by_model or by_first_words


def _rating(device: DataSheet, operation: str) -> Cell | None:
    """Return a device's peak rate of an operation, or None if its data sheet states none.

    The prefix ``_SPARSE`` selects the rate with structured sparsity.  If a data sheet of NVIDIA
    lacks float16, bfloat16's rate is returned, because NVIDIA's matrix units compute both equally
    fast.  A memory capacity printed in GB is read in GiB, because vendors mean GiB.
    """
    name = operation.removeprefix(_SPARSE)
    peaks = {str(peak.operation): peak for peak in device.peaks}
    peak = peaks.get(name)
    if name == "float16" and device.name.startswith("NVIDIA"):
        peak = peak or peaks.get("bfloat16")
    number = peak and (peak.value if name == operation else peak.sparse)
    if peak is None or number is None:
        return None
    unit = Fraction(peak.rate) / Fraction(peak.value)
    if name == "capacity":
        unit *= Fraction(1024, 1000) ** 3
    doubt = "" if peak.verified else ", which nobody has verified"
    value = Rounded.parse(f"{number:.12g}").scaled(unit)
    return Cell(value, unit, f"{number:,g} {peak.unit}{doubt}")


def _rated_operations(texts: Mapping[str, str]) -> dict[str, str]:
    """Return quantity ``rated_…`` → operation whose peak rate the quantity is, for a row."""
    words = knowledge().quantities["precision"].words
    operations = {f"rated_{name}": name for name in ("memory", "capacity", *words.values())}
    if isinstance(precision := _meaning("precision", texts), str):
        operations |= {"rated_peak": precision, "rated_sparse": _SPARSE + precision}
    return operations


def _ratings(
    sheets: Iterable[DataSheet], operation: str
) -> dict[str, tuple[DataSheet, Cell | None]]:
    """Return line of a data sheet ("" without a peak) → its first device, and the peak."""
    ratings: dict[str, tuple[DataSheet, Cell | None]] = {}
    for sheet in sheets:
        rating = _rating(sheet, operation)
        ratings.setdefault(rating.text if rating else "", (sheet, rating))
    return ratings


def _rated_quantity(device: str | None, operation: str) -> Cell | Missing:
    """Return a peak of a named device with the data sheet's line, or the missing quantity.

    The result is missing for an ambiguous name, which matches devices with different peaks, or
    devices of which only some state a peak.
    """
    if device is None:
        return ("device",)
    ratings = _ratings(_named_devices(device), operation).values()
    if len(ratings) > 1:
        return (f"which device: {', '.join(sheet.key for sheet, _ in ratings)}",)
    for sheet, rating in ratings:
        if rating:
            return rating._replace(text=f"{rating.text} ({sheet.name})")
    return (f"data sheet of {device} with {operation.removeprefix(_SPARSE)}",)


class ClaimCheck(NamedTuple):
    """Printed claim with the recomputed value and its interval, in units without prefix.

    ``scale`` is the printed unit's factor (1000 for kB), ``limit`` the largest possible value, and
    ``factor`` the printed value divided by the recomputed value.  ``missing`` names the quantities
    that must be given before a value can be recomputed.
    """

    claim: str
    printed: str
    scale: float
    verdict: Verdict
    limit: float | None
    missing: str = ""
    recomputed: float | None = None
    interval: tuple[float, ...] = ()
    factor: float | None = None
    formulas: tuple[str, ...] = ()
    explanations: tuple[str, ...] = ()

    def as_text(self) -> str:
        """Describe the check: verdict, formulas, and changes that explain a difference."""
        text = f"{self.claim} {self.printed}: {self.verdict}"
        if self.recomputed is None and self.limit and self.verdict == "impossible":
            return f"{text}, at most {self.limit / self.scale:.4g} is possible"
        if self.recomputed is None:
            return f"{text}, missing: {self.missing}"
        value, low, high = (number / self.scale for number in (self.recomputed, *self.interval))
        text += f", recomputed {value:.4g} ({low:.4g} to {high:.4g})"
        if self.verdict == "consistent":
            return f"{text}\n  {'; '.join(self.formulas)}"
        text += f", the printed number is {self.factor:.4g} times as large"
        text += f"\n  {'; '.join(self.formulas)}\n  "
        if not self.explanations:
            return f"{text}no single change explains it"
        return f"{text}each of these would explain it alone: {'; '.join(self.explanations)}"


def checks(row: AuditedRow) -> list[ClaimCheck]:
    """Check the claims of a row.

    Some quantities may be claims or inputs of other claims (``quantity.input``).  If such a
    quantity cannot be recomputed, it is omitted, unless the row has no other claim.
    """
    results, claims = [], []
    for name, quantity in knowledge().quantities.items():
        cell = row.known.get(name)
        if name in row.texts and isinstance(cell, Cell) and (quantity.formulas or quantity.limit):
            result = _check(row, name, cell)
            results.append(result)
            if result.verdict != "not enough given" or not quantity.input:
                claims.append(result)
    return claims or results


def _check(row: AuditedRow, claim: str, cell: Cell) -> ClaimCheck:
    """Compare a claim with its limit, and with its value from the other numbers of the row."""
    quantity, printed = knowledge().quantities[claim], cell.number
    limit = compute(quantity.limit, row.known, []) if quantity.limit else ()
    check = ClaimCheck(claim, cell.text, float(cell.scale), "not enough given", limit=None)
    if isinstance(limit, Rounded):
        check = check._replace(limit=float(limit.value))
        if printed.interval.low > limit.interval.high:
            check = check._replace(verdict="impossible")
    without_claim = row._replace(known={**row.known, claim: ()})  # a claim must not prove itself
    formulas = list[str]()
    value: Rounded | Missing = (f"a formula of {claim}",)
    if quantity.formulas:
        value = compute(claim, without_claim.known, formulas)
    if not isinstance(value, Rounded):
        return check._replace(missing="; ".join(_remedy(name, row.cells) for name in value))
    agrees = printed.overlaps(value)
    explanations = () if agrees else _explanations(without_claim, claim, printed, value)
    if check.verdict != "impossible":
        check = check._replace(verdict="consistent" if agrees else "differs")
    return check._replace(
        recomputed=float(value.value),
        interval=tuple(map(float, value.interval)),
        factor=float(printed.value / value.value),
        formulas=tuple(dict.fromkeys(formulas)),
        explanations=tuple(dict.fromkeys(explanations)),
    )


def _remedy(missing: str, cells: Mapping[str, str]) -> str:
    """Name a missing quantity, or alternatives, with the command-line options that supply it."""
    options = []
    for name in missing.split(" or "):
        # Names of models such as LLaMA-7B often contain the number of parameters.
        for heading, text in cells.items() if name == "parameters" else ():
            if (cell := read_cell(name, text, "")) and cell.scale > 1:
                options.append(shlex.join(["--column", f"{name}={heading}"]))
        if quantity := knowledge().quantities.get(name):
            options.append(f"--given {name}={quantity.example}")
    return f"{missing} ({' or '.join(options)})" if options else missing


def _explanations(
    row: AuditedRow, claim: str, printed: Rounded, recomputed: Rounded
) -> Iterator[str]:
    """Yield the single changes that reproduce the printed claim, beginning with the likeliest.

    A change, such as "the forward pass alone", applies to all claims, or only to ``change.claims``.
    It replaces one quantity or, if it names none, the claim itself.
    """
    for change in knowledge().changes:
        if claim not in (change.claims or (claim,)):
            continue
        for text, number in _changed_numbers(row, change, recomputed):
            with_change = {**row.known, change.quantity or claim: Cell(number)}
            result = compute(claim, with_change, [])
            if not isinstance(result, Rounded) or result.value == recomputed.value:
                continue
            if printed.overlaps(result):
                yield text


def _changed_numbers(
    row: AuditedRow, change: Change, recomputed: Rounded
) -> Iterator[tuple[str, Rounded]]:
    """Yield the numbers with which a change replaces its quantity, each with a description."""
    if change.of_other_devices:
        operation = _rated_operations(row.texts).get(change.formula, "")
        for line, (sheet, rating) in _ratings(_known_devices(), operation).items():
            if rating:
                yield f"the peak of {sheet.name}, {line}", rating.number
        return
    number = compute(change.formula, {**row.known, "claim": Cell(recomputed)}, [])
    if isinstance(number, Rounded):
        yield change.text, number
