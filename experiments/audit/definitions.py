"""Quantities, units, formulas and limits of the audit, and changes that explain a difference."""

from __future__ import annotations

from fractions import Fraction
from typing import Final, NamedTuple

from report.core.records.operations import ITEM_BYTES

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
    "cores": ("count", ("cores", "number of cores")),
    "width": ("count", ("width", "flop per cycle", "flop cycle core")),
    "clock": ("clock", ("clock", "frequency")),
    "base_clock": ("clock", ("base clock",)),
    "boost_clock": ("clock", ("boost clock",)),
}
#: Quantities that are words.
TEXTS: Final = {name for name, (kind, _) in QUANTITIES.items() if kind == "text"}
#: Kind → its units without prefix, and the factor of a number without a unit (None: unknown).
UNITS: Final[dict[str, tuple[str, int | None]]] = {
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
PREFIXES: Final = {
    "": Fraction(1),
    "k": Fraction(1000),
    **{prefix: Fraction(1000) ** power for power, prefix in enumerate("KMGTPE", start=1)},
    **{prefix + "i": Fraction(1024) ** power for power, prefix in enumerate("KMGTPE", start=1)},
}
SMALL_PREFIXES: Final = {"m": Fraction(1, 1000), "µ": Fraction(1, 10**6), "u": Fraction(1, 10**6)}
#: Units that take no prefix, by kind.
WHOLE_UNITS: Final = {
    "share": {"%": Fraction(1, 100), "x": Fraction(1), "×": Fraction(1)},
    "time": {"min": Fraction(60), "h": Fraction(3600), "hours": Fraction(3600)},
    "count": {"B": Fraction(10**9), "T": Fraction(10**12)},
}
#: Quantity → word in a table → its meaning.
WORDS: Final[dict[str, dict[str, str]]] = {
    "precision": {
        "fp32": "float32", "tf32": "tfloat32", "bf16": "bfloat16", "fp16": "float16",
        "float32": "float32", "tfloat32": "tfloat32", "bfloat16": "bfloat16",
        "float16": "float16", "half": "float16",
    },
    "direction": {"training": "3", "train": "3", "forward": "1", "inference": "1"},
}  # fmt: skip

#: Quantity → its formulas; a check uses the first for which the row has all numbers.
FORMULAS: Final = {
    "mfu": ("flops / devices / peak",),
    "bandwidth_use": ("bandwidth / devices / memory_peak",),
    "speedup": ("baseline_time / time", "rate / baseline_rate"),
    "efficiency": ("speedup * baseline_devices / devices",),
    "weights": ("parameters * item_bytes",),
    "energy": ("power * time",),
    "flops": ("passes * operations * rate",),
    "operations": ("2 * macs", "2 * parameters", "attention_full"),
    "peak": ("device_peak", "cores * clock * width"),
    "rate": ("tokens / time", "batch * sequence / time", "batch * image / time"),
    "bandwidth": (),
    "memory": (),
}
#: Quantity → formula of its upper limit.
LIMITS: Final = {
    "mfu": "1",
    "bandwidth_use": "1",
    "flops": "devices * peak",
    "bandwidth": "devices * memory_peak",
    "memory": "devices * capacity",
}
#: Claims that are also inputs of others; checked only if they can be recomputed or limited.
INPUTS: Final = ("flops", "operations", "rate", "bandwidth")
_COUNTED: Final = ("mfu", "flops", "operations")
_BYTES: Final = ("bandwidth_use", "weights")
_ALL: Final = tuple(FORMULAS)


class Change(NamedTuple):
    """A change that may explain a difference: one quantity by another formula, or a factor."""

    text: str
    formula: str
    quantity: str = ""
    of: tuple[str, ...] = ()


#: Likely changes, the likeliest first; peaks of other devices come next, then ``UNLIKELY``.
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
