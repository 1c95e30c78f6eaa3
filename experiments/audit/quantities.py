"""Quantities of a table: which heading is which, and the number, digits and unit of each cell."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from experiments.audit.tables import TextTable
from report.core.errors import UsageError
from report.theory.rounding import Rounded

#: Name of a quantity → its kind, and headings that mean it.
QUANTITIES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "device": ("text", ("device", "gpu", "accelerator", "hardware", "chip")),
    "precision": ("text", ("precision", "dtype", "data type")),
    "direction": ("text", ("direction", "mode", "pass")),
    "network": ("text", ("network",)),
    "config": ("text", ("config", "configuration")),
    "devices": ("count", ("devices", "gpus", "number of gpus", "chips", "accelerators")),
    "parameters": ("count", ("parameters", "params", "model size", "size")),
    "tokens": ("count", ("tokens", "tokens per step", "tokens step")),
    "batch": ("count", ("batch", "batch size", "global batch size")),
    "sequence": ("count", ("sequence", "sequence length", "seq length", "context length")),
    "layers": ("count", ("layers", "number of layers")),
    "hidden": ("count", ("hidden", "hidden size", "model dimension")),
    "time": ("time", ("time", "step time", "time per step", "latency", "iteration time")),
    "rate": (
        "rate",
        ("rate", "throughput", "tokens s", "tokens per second", "images s", "samples s"),
    ),
    "flops": ("flops", ("flops", "flop s", "tflop s", "tflops", "gflops", "throughput")),
    "operations": ("operations", ("operations", "flops", "tflops", "gflops", "macs", "gmacs")),
    "bandwidth": ("bandwidth", ("bandwidth", "memory bandwidth", "achieved bandwidth")),
    "memory": ("bytes", ("memory", "peak memory", "memory used")),
    "weights": ("bytes", ("weights", "weight memory", "model memory")),
    "power": ("power", ("power", "average power")),
    "energy": ("energy", ("energy",)),
    "mfu": ("share", ("mfu", "model flops utilization", "utilization", "utilisation")),
    "bandwidth_use": ("share", ("mbu", "bandwidth utilization", "bandwidth utilisation")),
    "speedup": ("share", ("speedup", "speed up")),
    "efficiency": ("share", ("efficiency", "scaling efficiency", "parallel efficiency")),
    "baseline_time": ("time", ("baseline time",)),
    "baseline_rate": ("rate", ("baseline rate", "baseline throughput")),
    "baseline_devices": ("count", ("baseline devices", "baseline gpus")),
    "base_clock": ("clock", ("base clock",)),
    "boost_clock": ("clock", ("boost clock",)),
}
#: Kind → its units without prefix, and what a number without a unit is in; None: not known.
_UNITS: Final[dict[str, tuple[str, int | None]]] = {
    "count": ("|params|parameters|tokens?|tok|GPUs?|chips?|samples|images", 1),
    "time": ("s|sec|seconds", 1),
    "rate": (r"(?:(?:tok|tokens?|samples?|images?|img|seqs?|it)(?:/| per )|)(?:s|sec|second)", 1),
    "flops": (r"(?i:flops?(?:/s|/sec| per second)?)", None),
    "operations": (r"(?i:flops?)|(?i:macs?)", None),
    "bandwidth": (r"(?:B|bytes)(?:/s|ps| per second)", None),
    "bytes": ("B|bytes?", None),
    "power": ("W", 1),
    "energy": ("J|Wh", 1),
    "clock": ("Hz", None),
    "share": ("", 1),
}
_PREFIXES: Final = {
    "": Fraction(1),
    "k": Fraction(1000),
    **{prefix: Fraction(1000) ** power for power, prefix in enumerate("KMGTPE", start=1)},
    **{prefix + "i": Fraction(1024) ** power for power, prefix in enumerate("KMGTPE", start=1)},
}
_SMALL: Final = {"m": Fraction(1, 1000), "µ": Fraction(1, 10**6), "u": Fraction(1, 10**6)}
#: Units that take no prefix, by kind.
_WHOLE: Final = {
    "share": {"%": Fraction(1, 100), "x": Fraction(1), "×": Fraction(1)},
    "time": {"min": Fraction(60), "h": Fraction(3600), "hours": Fraction(3600)},
    "count": {"B": Fraction(10**9), "T": Fraction(10**12)},
}
_NUMBER: Final = re.compile(
    r"[~≈]?\s*((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)"
    r"(?:\s*(?:e|[×x]\s*10\^?)\s*([+-]?\d{1,2}))?\s*([^\d.,].*|)",
    re.IGNORECASE,
)
_PER_DEVICE: Final = re.compile(r"(?:/|per[ -])\s*(?:gpu|device|chip|card|accelerator)s?", re.I)


class AuditedCell(NamedTuple):
    """A number in units without prefix; the unit of the print is ``scale`` of them."""

    number: Rounded
    scale: Fraction
    text: str
    per_device: bool = False


class QuantityColumn(NamedTuple):
    """A column that holds a quantity."""

    position: int
    heading: str


def columns(table: TextTable, named: Mapping[str, str]) -> dict[str, QuantityColumn]:
    """Return the column of each quantity; ``named`` maps quantities to headings.

    Raises ``UsageError`` for a heading with two meanings, or two headings with one.
    """
    result: dict[str, QuantityColumn] = {}
    for name, heading in named.items():
        if name not in QUANTITIES:
            raise UsageError(f"--column {name}: no such quantity; {_nearest(name, [*QUANTITIES])}.")
        if heading not in table.headings:
            raise UsageError(
                f"--column {name}: no such heading; {_nearest(heading, table.headings)}."
            )
        result[name] = QuantityColumn(table.headings.index(heading), heading)
    for index, heading in enumerate(table.headings):
        if heading in named.values():
            continue
        meanings = [name for name in _meanings(heading) if name not in named]
        if len(meanings) > 1:
            options = " or ".join(f'--column {name}="{heading}"' for name in meanings)
            raise UsageError(f"The heading {heading!r} has several meanings; give {options}.")
        for name in meanings:
            if name in result:
                raise UsageError(
                    f"The headings {result[name].heading!r} and {heading!r} both mean {name}; "
                    f'give --column {name}="{heading}" or the other one.'
                )
            result[name] = QuantityColumn(index, heading)
    return result


def _meanings(heading: str) -> list[str]:
    """Return the quantities that a heading names, by its words outside brackets."""
    bare = _PER_DEVICE.sub("", re.sub(r"\(.*?\)|\[.*?\]|%", "", heading))
    words = " ".join(re.findall(r"[a-z]+", bare.casefold()))
    names = [name for name, (_, headings) in QUANTITIES.items() if words in headings]
    if len(names) < 2:
        return names
    by_unit = [name for name in names if _unit_of_heading(heading, QUANTITIES[name][0])]
    return by_unit if len(by_unit) == 1 else names


def _nearest(word: str, known: Sequence[str]) -> str:
    """Name the known words that are most like ``word``, or all."""
    near = difflib.get_close_matches(word, known, cutoff=0.5) or known
    return f"possible are {', '.join(near)}"


def read_cell(name: str, text: str, heading: str = "") -> AuditedCell | None:
    """Read a number with its unit, from the heading if the cell has none; None without either."""
    matched = _NUMBER.fullmatch(text.strip())
    if matched is None:
        return None
    digits, exponent, unit = matched.groups()
    kind = QUANTITIES[name][0]
    number = Rounded.printed(digits.replace(",", ""))
    own = _PER_DEVICE.sub("", unit).strip()
    scale = _scale(own, kind) if own else _unit_of_heading(heading, kind)
    default = _UNITS[kind][1]
    if scale is None and not own and default is not None:
        is_percent = name in ("mfu", "bandwidth_use") and number.value > 2
        scale = Fraction(default, 100 if is_percent else 1)
    if scale is None or not number.value:
        return None
    if kind == "count" and not own and scale == 1 and number.value.denominator == 1:
        number = Rounded.exact(number.value)
    factor = scale * Fraction(10) ** int(exponent or 0)
    return AuditedCell(number.scaled(factor), scale, text, bool(_PER_DEVICE.search(heading + unit)))


def _unit_of_heading(heading: str, kind: str) -> Fraction | None:
    """Return the unit that a heading names in brackets, or as a word unless it is of counts."""
    bracketed = re.findall(r"[(\[](.*?)[)\]]", heading)
    words = [] if kind == "count" else [heading, *heading.split()]
    for text in (*bracketed, *words):
        unit = _PER_DEVICE.sub("", text).strip()
        scale = _scale(unit, kind) if unit else None
        if scale is not None:
            return scale
    return None


def _scale(unit: str, kind: str) -> Fraction | None:
    """Return how many units without prefix a unit is; None if it is not of this kind."""
    whole = _WHOLE.get(kind, {})
    if unit in whole or kind == "share":
        return whole.get(unit)
    small = _SMALL if kind in ("time", "power", "energy") else {}
    for prefix, factor in {**_PREFIXES, **small}.items():
        base = unit.removeprefix(prefix).strip()
        if unit.startswith(prefix) and re.fullmatch(_UNITS[kind][0], base):
            return factor * {"mac": 2, "macs": 2, "wh": 3600}.get(base.casefold(), 1)
    return None
