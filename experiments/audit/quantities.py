"""Quantities, units, formulas and limits of the audit, and changes that explain a difference."""

from fractions import Fraction
from typing import Final, NamedTuple

from report.core.records.operations import ITEM_BYTES
from report.theory.rounding import Rounded

#: Name of a quantity → its kind, and further headings that mean it.
QUANTITIES: Final[dict[str, tuple[str, str]]] = {
    "device": ("text", "gpu, accelerator, hardware, chip"),
    "precision": ("text", "dtype, data type"),
    "direction": ("text", "mode, pass"),
    "network": ("text", ""),
    "config": ("text", "configuration"),
    "devices": ("count", "gpus, number of gpus, chips, accelerators"),
    "parameters": ("count", "params, model size, size"),
    "tokens": ("count", "tokens per step, tokens step"),
    "batch": ("length", "batch size, global batch size"),
    "sequence": ("length", "sequence length, seq length, context length"),
    "layers": ("count", "number of layers"),
    "hidden": ("count", "hidden size, model dimension"),
    "time": ("time", "step time, time per step, latency, iteration time"),
    "rate": ("rate", "throughput, tokens s, tokens sec, tokens per second, images s, samples s"),
    "flops": ("flops", "flop s, tflop s, tflop sec, model tflop sec, tflops, gflops, throughput"),
    "operations": ("operations", "flops, tflops, gflops, macs, gmacs"),
    "bandwidth": ("bandwidth", "memory bandwidth, achieved bandwidth"),
    "memory": ("bytes", "peak memory, memory used"),
    "weights": ("bytes", "weight memory, model memory"),
    "power": ("power", "average power"),
    "energy": ("energy", ""),
    "mfu": ("share", "model flops utilization, utilization, utilisation"),
    "bandwidth_use": ("share", "mbu, bandwidth utilization, bandwidth utilisation"),
    "speedup": ("share", "speed up"),
    "efficiency": ("share", "scaling efficiency, parallel efficiency"),
    "baseline_time": ("time", ""),
    "baseline_rate": ("rate", "baseline throughput"),
    "baseline_devices": ("count", "baseline gpus"),
    "cores": ("count", "number of cores"),
    "width": ("count", "flop per cycle, flop cycle core"),
    "clock": ("clock", "frequency"),
    "base_clock": ("clock", ""),
    "boost_clock": ("clock", ""),
}
#: Kind → pattern of its units without prefix → their factor.
UNITS: Final[dict[str, dict[str, int | Fraction]]] = {
    "count": {"|params|parameters|tokens?|tok|GPUs?|chips?|samples|images": 1},
    "length": {"|T|S|tokens?|samples?|images?": 1},
    "time": {"s|secs?|seconds?": 1, "mins?|minutes?": 60, "h|hrs?|hours?": 3600},
    "rate": {r"((T|S|(?i:tok|tokens?|samples?|images?|img|seqs?|it))(/| per ))?(s|sec|second)": 1},
    "flops": {"(?i:flops?(/s|/sec| per second)?)": 1},
    "operations": {"(?i:flops?)": 1, "(?i:macs?)": 2},
    "bandwidth": {"(B|bytes)(/s|ps| per second)": 1},
    "bytes": {"B|bytes?": 1},
    "power": {"W": 1},
    "energy": {"J": 1, "Wh": 3600},
    "clock": {"Hz": 1},
    "share": {"%": Fraction(1, 100), "x|×": 1},
    "text": {},
}
#: Kinds of whole numbers.  T after a count is a trillion, but after a length it means tokens.
COUNTS: Final = ("count", "length")
#: Kinds of numbers that may stand without a unit, which then have the factor 1.
UNITLESS: Final = (*COUNTS, "time", "rate", "power", "energy", "share")
PREFIXES: Final = {
    "": Fraction(1),
    "k": Fraction(1000),
    **{prefix: Fraction(1000) ** power for power, prefix in enumerate("KMGTPE", start=1)},
    **{prefix + "i": Fraction(1024) ** power for power, prefix in enumerate("KMGTPE", start=1)},
}
_SMALL: Final = {"m": Fraction(1, 1000), "µ": Fraction(1, 10**6), "u": Fraction(1, 10**6)}
#: Kind → further prefixes of its units.
FURTHER_PREFIXES: Final = {
    "count": {"B": Fraction(10**9)},
    **dict.fromkeys(("time", "power", "energy"), _SMALL),
}
#: Precision as a table names it → type of the elements.
PRECISIONS: Final = {
    "fp32": "float32", "tf32": "tfloat32", "bf16": "bfloat16", "fp16": "float16", "half": "float16",
    "float32": "float32", "tfloat32": "tfloat32", "bfloat16": "bfloat16", "float16": "float16",
    "amp_bf16": "bfloat16", "amp_fp16": "float16",
}  # fmt: skip
_ITEM_BYTES: Final = {**ITEM_BYTES, "tfloat32": 4}
#: Quantity → column of words that say it, and the number that each word means.
WORDS: Final[dict[str, tuple[str, dict[str, int]]]] = {
    "passes": ("direction", {"training": 3, "train": 3, "forward": 1, "inference": 1}),
    "item_bytes": ("precision", {word: _ITEM_BYTES[name] for word, name in PRECISIONS.items()}),
}

#: Quantity → its formulas; a check uses the first for which the row has all numbers.  Data sheets
#: tell the ``rated`` ones, theory ``macs``, the forward multiply-adds of one image.
FORMULAS: Final[dict[str, tuple[str, ...]]] = {
    "mfu": ("flops / devices / peak",),
    "bandwidth_use": ("bandwidth / devices / memory_peak",),
    "speedup": ("baseline_time / time", "rate / baseline_rate"),
    "efficiency": ("speedup * baseline_devices / devices",),
    "weights": ("parameters * item_bytes",),
    "energy": ("power * time",),
    "flops": ("passes * operations * rate",),
    "operations": ("2 * macs", "2 * parameters", "attention_full"),
    "attention_full": ("2 * parameters + 4 * layers * hidden * sequence",),
    "attention_causal": ("2 * parameters + 2 * layers * hidden * sequence",),
    "peak": ("rated_peak", "cores * clock * width"),
    "memory_peak": ("rated_memory",),
    "capacity": ("rated_capacity",),
    "rate": ("tokens / time", "batch * sequence / time", "batch * image / time"),
    "bandwidth": (),
    "memory": (),
}
#: Quantity → an example of its value, for messages; others are numbers.
EXAMPLES: Final = {
    "device": "H100-SXM", "precision": "bf16", "direction": "training", "parameters": "7B",
    "network": "study:ResNet-50",
}  # fmt: skip
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


class Change(NamedTuple):
    """A change that may explain a difference, tried for ``claims`` (empty: for all).

    ``quantity``, or the claim itself, has another value: a number, or that of a ``formula``, in
    which ``claim`` is the recomputed value of the claim.
    """

    text: str
    formula: str | Rounded
    quantity: str = ""
    claims: tuple[str, ...] = ()


#: Likely changes, the likeliest first; peaks of other devices come next, then ``UNLIKELY``.
LIKELY: Final = (
    Change("the peak with sparsity", "rated_sparse", "peak"),
    Change("a multiply-add counted as one operation", "claim / 2", claims=_COUNTED),
    Change("attention counted, full", "attention_full", "operations"),
    Change("attention counted, causal", "attention_causal", "operations"),
    Change("6 N, without attention", "2 * parameters", "operations"),
    Change("the forward pass alone", "1", "passes"),
    Change("training, not the forward pass", "3", "passes"),
    Change("training, not the forward pass", "3 * claim", claims=("operations",)),
    Change("activations computed again, 8 N for 6 N", "4 * passes / 3", "passes"),
    Change("not divided by the number of devices", "1", "devices"),
    Change("divided by the number of devices twice", "devices * devices", "devices"),
    Change("by one device, not by the baseline's", "1", "baseline_devices"),
    Change("the peak at base clock", "peak * base_clock / boost_clock", "peak"),
    Change("the peak at boost clock", "peak * boost_clock / base_clock", "peak"),
    *(Change(f"the peak in {name}", f"rated_{name}", "peak") for name in PRECISIONS.values()),
    *(Change(f"{size} B a parameter", str(size), "item_bytes") for size in (4, 2, 1)),
    Change("with gradients and Adam's state, 16 B a parameter", "16", "item_bytes"),
    *(
        Change(f"{letter}iB for {letter}B, or the inverse", f"claim * {one} / {other}", "", _BYTES)
        for power, letter in enumerate("MGT", start=2)
        for one, other in ((1000**power, 1024**power), (1024**power, 1000**power))
    ),
    Change("Wh for J", "claim / 3600", claims=("energy",)),
    Change("J for Wh", "3600 * claim", claims=("energy",)),
    Change("the dense peak, halved as if it were with sparsity", "peak / 2", "peak"),
    Change("operations counted twice", "2 * claim", claims=_COUNTED),
)
UNLIKELY: Final = (
    Change("a ratio for per cent", "claim / 100"),
    Change("per cent for a ratio", "100 * claim"),
    Change("a prefix of 1,000 left out", "claim / 1000"),
    Change("a prefix of 1,000 too many", "1000 * claim"),
)
