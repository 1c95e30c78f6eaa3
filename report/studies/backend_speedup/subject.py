"""What backend_speedup studies: two small networks, and what theory says of one training iteration.

Letters: d pixels of an image, h neurons of the hidden layer, k classes, m images; the convolution
has c maps of n positions and kernels of q elements, its pooled maps make f features.  Matrices have
a row a feature and a column an image, as in the source's equations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from report.errors import StudyError
from report.evidence.case_checks import Levels, check_factors
from report.records.layers import ELEMENT_BYTES
from report.records.store import Stored
from report.theory.work import Flops, Macs, flops, training_macs

Network: TypeAlias = Literal["perceptron", "convnet"]
Kind: TypeAlias = Literal[
    "matrix_product", "unfold", "bias", "relu", "pooling", "softmax", "gradient", "update"
]

NETWORK_NAMES: Final[dict[Network, str]] = {
    "perceptron": "perceptron",
    "convnet": "convolution network",
}

#: Kinds of operations in the order in which an iteration meets them, as a reader calls them.
KIND_NAMES: Final[dict[Kind, str]] = {
    "matrix_product": "Matrix products",
    "unfold": "Unfolding",
    "bias": "Biases",
    "relu": "ReLU",
    "pooling": "Pooling",
    "softmax": "Softmax",
    "gradient": "Gradients",
    "update": "Update",
}

EXTENT: Final = 28
PIXELS: Final = EXTENT**2
CLASSES: Final = 10
HIDDEN: Final = 10
ITERATIONS: Final = 500

CHANNELS: Final = 8
KERNEL: Final = 3
MAP: Final = EXTENT - KERNEL + 1
POOLED: Final = MAP // 2
FEATURES: Final = CHANNELS * POOLED**2

_NONE: Final = Macs(0)


#: The factors that are looked up, of a training and of a sweep alike.
_NEEDED: Final[dict[str, Levels]] = {
    "network": tuple(NETWORK_NAMES),
    "dtype": ("float32", "float64"),
    "samples": int,
    "dataset": str,
    "backend": str,
    "execution": ("eager", "compiled", "inductor"),
}


@dataclass(frozen=True)
class Setting:
    """What is computed: all factors of a case but the library and its execution."""

    subject: Literal["training", "scaling"]
    network: Network
    dtype: str
    samples: int
    dataset: str
    hidden: int = HIDDEN

    @property
    def factors(self) -> dict[str, bool | int | float | str]:
        """The factors as a record names them; the convolution network has no hidden layer."""
        found: dict[str, bool | int | float | str] = {
            "subject": self.subject,
            "network": self.network,
            "dtype": self.dtype,
            "samples": self.samples,
            "dataset": self.dataset,
        }
        return found | ({"hidden": self.hidden} if self.network == "perceptron" else {})


@dataclass(frozen=True)
class Step:
    """One operation of an iteration: multiply-adds, other operations, elements that it moves.

    ``elements`` are those of the operands and of the result, each once: what must cross the bus if
    nothing stays in a cache (compare ``report.theory.memory.compulsory_traffic``).  ``calls`` of a
    library make it in ``experiments.backends.operations``, which read and write ``touched``
    elements, those between them too, by default the same; a mask's are a quarter of one.  ``rows``
    are those of the left matrix of a product.
    """

    kind: Kind
    name: str
    macs: Macs = _NONE
    others: int = 0
    elements: int = 0
    calls: int = 1
    touched: int = 0
    rows: int = 0

    @property
    def called(self) -> int:
        """The elements that its calls read and write."""
        return self.touched or self.elements

    @property
    def flops(self) -> Flops:
        """Every floating-point operation, a multiply-add as two."""
        return Flops(flops(self.macs) + self.others)


def _product(name: str, rows: int, inner: int, columns: int) -> Step:
    """A matrix product: rows · inner · columns multiply-adds, both factors read, one written."""
    moved = rows * inner + inner * columns + rows * columns
    work = Macs(rows * inner * columns)
    return Step("matrix_product", name, work, elements=moved, rows=rows)


def _bias(name: str, rows: int, columns: int) -> Step:
    return Step("bias", name, others=rows * columns, elements=2 * rows * columns + rows)


def _softmax(rows: int, columns: int) -> Step:
    """Maximum, difference, exponential, sum and quotient, each element once (see theory.work)."""
    n = rows * columns
    work = (n - columns) + n + n + (n - columns) + n
    return Step("softmax", "softmax", others=work, elements=2 * n, calls=5, touched=8 * n)


def _error(rows: int, columns: int) -> Step:
    n = rows * columns
    return Step("gradient", "A − Y", others=n, elements=3 * n)


def _means(shapes: tuple[tuple[int, int], ...], columns: int) -> Step:
    """The sum over the images of each bias, and the factor 1/m of all gradients."""
    weights = sum(rows * inputs for rows, inputs in shapes)
    rows = sum(rows for rows, _ in shapes)
    return Step(
        "gradient",
        "sums and means",
        others=weights + rows * columns,
        elements=2 * weights + rows * columns + rows,
        calls=6,
    )


def _masked(name: str, count: int) -> Step:
    touched = 11 * count // 2  # compared, made a number, multiplied
    return Step("gradient", name, others=2 * count, elements=3 * count, calls=3, touched=touched)


def _update(parameters: int) -> Step:
    """Two calls for the weights and the bias of each layer."""
    work, moved = 2 * parameters, 3 * parameters
    return Step("update", "descent", others=work, elements=moved, calls=8, touched=5 * parameters)


def iteration(setting: Setting) -> tuple[Step, ...]:
    """The operations of one training iteration, by equations (1) to (10) and the update."""
    if setting.network == "perceptron":
        return _perceptron(setting.hidden, setting.samples)
    return _convnet(setting.samples)


def _perceptron(h: int, m: int) -> tuple[Step, ...]:
    d, k = PIXELS, CLASSES
    return (
        _product("W1 X", h, d, m),
        _bias("+ b1", h, m),
        Step("relu", "max(0, Z1)", others=h * m, elements=2 * h * m),
        *_output_layer(h, m),
        _masked("ReLU′", h * m),
        _product("dZ1 Xᵀ", h, m, d),
        _means(((h, d), (k, h)), m),
        _update(parameter_count("perceptron", h)),
    )


def _convnet(m: int) -> tuple[Step, ...]:
    c, q, n, f, k = CHANNELS, KERNEL**2, MAP**2, FEATURES, CLASSES
    return (
        Step(
            "unfold",
            "windows",
            elements=PIXELS * m + q * n * m,
            calls=q + 8,  # the windows, their stack, and changes of shape
            touched=2 * q * n * m,
        ),
        _product("W1 columns", c, q, n * m),
        _bias("+ b1", c, n * m),
        Step("relu", "max(0, Z1)", others=c * n * m, elements=2 * c * n * m),
        Step(
            "pooling",
            "maximum",
            others=3 * f * m,
            elements=c * n * m + f * m,
            calls=7,
            touched=9 * f * m,
        ),
        *_output_layer(f, m),
        Step(
            "gradient",
            "unpooling",
            others=c * n * m,
            elements=2 * c * n * m + 2 * f * m,
            calls=33,
            touched=50 * f * m,
        ),
        _masked("ReLU′", c * n * m),
        _product("dZ1 columnsᵀ", c, n * m, q),
        _means(((c, q), (k, f)), m),
        _update(parameter_count("convnet")),
    )


def _output_layer(inputs: int, m: int) -> tuple[Step, ...]:
    """The last layer of either network forwards, and backwards to the gradient of its input."""
    k = CLASSES
    return (
        _product("W2 A1", k, inputs, m),
        _bias("+ b2", k, m),
        _softmax(k, m),
        _error(k, m),
        _product("dZ2 A1ᵀ", k, m, inputs),
        _product("W2ᵀ dZ2", inputs, k, m),
    )


def kinds(network: Network) -> tuple[Kind, ...]:
    """The kinds of operations that an iteration of the network has."""
    found = {step.kind for step in iteration(Setting("scaling", network, "float32", 1, ""))}
    return tuple(kind for kind in KIND_NAMES if kind in found)


def total(setting: Setting, kind: Kind | None = None) -> Step:
    """All operations of an iteration, or those of one kind, as one."""
    steps = [step for step in iteration(setting) if kind in (None, step.kind)]
    return Step(
        kind or "matrix_product",
        KIND_NAMES[kind] if kind else "Iteration",
        Macs(sum(step.macs for step in steps)),
        sum(step.others for step in steps),
        sum(step.elements for step in steps),
    )


def calls(setting: Setting) -> int:
    """How many calls of the library an iteration makes."""
    return sum(step.calls for step in iteration(setting))


def parameter_count(network: Network, hidden: int = HIDDEN) -> int:
    """Weights and biases of both layers."""
    if network == "perceptron":
        return (PIXELS + 1) * hidden + (hidden + 1) * CLASSES
    return (KERNEL**2 + 1) * CHANNELS + (FEATURES + 1) * CLASSES


def forward_macs(network: Network) -> Macs:
    """Multiply-adds of the forward pass of one image."""
    if network == "perceptron":
        return Macs(PIXELS * HIDDEN + HIDDEN * CLASSES)
    return Macs(CHANNELS * KERNEL**2 * MAP**2 + FEATURES * CLASSES)


def activation_count(setting: Setting) -> int:
    """Elements that the forward pass leaves for the backward pass."""
    if setting.network == "perceptron":
        return 2 * (setting.hidden + CLASSES) * setting.samples
    maps, columns = CHANNELS * MAP**2, KERNEL**2 * MAP**2
    return (columns + 2 * maps + FEATURES + 2 * CLASSES) * setting.samples


def perceptron_arrays(setting: Setting) -> dict[str, tuple[int, ...]]:
    """The elements of every array of the perceptron, by the component that it belongs to."""
    h, m = setting.hidden, setting.samples
    parameters = (h * PIXELS, h, CLASSES * h, CLASSES)
    return {
        "parameters": parameters,
        "input": (PIXELS * m, CLASSES * m),
        "activations": (h * m, h * m, CLASSES * m, CLASSES * m),
        "gradients": parameters,
    }


@dataclass(frozen=True)
class Components:
    """Bytes that an iteration must hold, by what they are for."""

    parameters: int
    input: int
    activations: int
    gradients: int


def components(setting: Setting) -> Components:
    """The components from shapes: the input with its one-hot targets, the parameters' gradients."""
    size = ELEMENT_BYTES[setting.dtype]
    parameters = parameter_count(setting.network, setting.hidden) * size
    return Components(
        parameters,
        (PIXELS + CLASSES) * setting.samples * size,
        activation_count(setting) * size,
        parameters,
    )


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` if a case trained another network than the ones of this study."""
    check_factors(stored, {"training": _NEEDED, "scaling": _NEEDED}, optional={"hidden": int})
    for index, case in enumerate(stored.record.cases):
        network, samples = case.factors.get("network"), case.factors.get("samples")
        if not case.layers:
            continue
        place = f"data/{stored.file}: cases[{index}]"
        if network not in NETWORK_NAMES or not isinstance(samples, int):
            raise StudyError(
                f"{place}.factors: found the network {network!r} on {samples!r} images, expected "
                f"{' or '.join(NETWORK_NAMES)} on a number of them; run the experiment of this "
                "version again."
            )
        hidden = case.factors.get("hidden", HIDDEN)
        expected = total(
            Setting("scaling", _network(network), "float32", samples, "", int(hidden))
        ).macs
        if training_macs(case.layers) != expected:
            raise StudyError(
                f"{place}.layers: an iteration has {training_macs(case.layers):,} multiply-adds, "
                f"expected {expected:,}; run the experiment of this version again."
            )


def _network(name: object) -> Network:
    return "perceptron" if name == "perceptron" else "convnet"
