"""What backend_speedup studies: a small network, and what theory says of one training iteration.

Letters: d pixels of an image, h neurons of the hidden layer, k classes, m images.  Matrices have a
row a feature and a column an image, as in the source's equations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from report.errors import StudyError
from report.evidence.case_checks import Levels, check_factors
from report.records.layers import ELEMENT_BYTES
from report.records.store import Stored
from report.theory.work import Flops, Macs, flops, training_macs

Kind: TypeAlias = Literal["matrix_product", "bias", "relu", "softmax", "gradient", "update"]

#: The networks that records hold; the paper is about the first.
_NETWORKS: Final = ("perceptron", "convnet")

#: Kinds of operations in the order in which an iteration meets them, as a reader calls them.
KIND_NAMES: Final[dict[Kind, str]] = {
    "matrix_product": "Matrix products",
    "bias": "Biases",
    "relu": "ReLU",
    "softmax": "Softmax",
    "gradient": "Gradients",
    "update": "Update",
}

EXTENT: Final = 28
PIXELS: Final = EXTENT**2
CLASSES: Final = 10
HIDDEN: Final = 10
_NONE: Final = Macs(0)


#: The factors that are looked up, of a training and of a sweep alike.
_NEEDED: Final[dict[str, Levels]] = {
    "network": _NETWORKS,
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
    dtype: str
    samples: int
    dataset: str
    hidden: int = HIDDEN

    @property
    def factors(self) -> dict[str, bool | int | float | str]:
        """The factors as a record names them."""
        return {
            "subject": self.subject,
            "network": _NETWORKS[0],
            "dtype": self.dtype,
            "samples": self.samples,
            "dataset": self.dataset,
            "hidden": self.hidden,
        }


@dataclass(frozen=True)
class Step:
    """One operation of an iteration: multiply-adds, other operations, elements that it moves.

    ``elements`` are those of the operands and of the result, each once: what must cross the bus if
    nothing stays in a cache (compare ``report.theory.memory.compulsory_traffic``).  ``calls`` of a
    library make it in ``experiments.backends.operations``.
    """

    kind: Kind
    name: str
    macs: Macs = _NONE
    others: int = 0
    elements: int = 0
    calls: int = 1

    @property
    def flops(self) -> Flops:
        """Every floating-point operation, a multiply-add as two."""
        return Flops(flops(self.macs) + self.others)


def _product(name: str, rows: int, inner: int, columns: int) -> Step:
    """A matrix product: rows · inner · columns multiply-adds, both factors read, one written."""
    moved = rows * inner + inner * columns + rows * columns
    work = Macs(rows * inner * columns)
    return Step("matrix_product", name, work, elements=moved)


def _bias(name: str, rows: int, columns: int) -> Step:
    return Step("bias", name, others=rows * columns, elements=2 * rows * columns + rows)


def _softmax(rows: int, columns: int) -> Step:
    """Maximum, difference, exponential, sum and quotient, each element once (see theory.work)."""
    n = rows * columns
    work = (n - columns) + n + n + (n - columns) + n
    return Step("softmax", "softmax", others=work, elements=2 * n, calls=5)


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
    return Step("gradient", name, others=2 * count, elements=3 * count, calls=3)


def _update(parameters: int) -> Step:
    """Two calls for the weights and the bias of each layer."""
    work, moved = 2 * parameters, 3 * parameters
    return Step("update", "descent", others=work, elements=moved, calls=8)


def iteration(setting: Setting) -> tuple[Step, ...]:
    """The operations of one training iteration, by equations (1) to (10) and the update."""
    d, h, k, m = PIXELS, setting.hidden, CLASSES, setting.samples
    return (
        _product("W1 X", h, d, m),
        _bias("+ b1", h, m),
        Step("relu", "max(0, Z1)", others=h * m, elements=2 * h * m),
        _product("W2 A1", k, h, m),
        _bias("+ b2", k, m),
        _softmax(k, m),
        _error(k, m),
        _product("dZ2 A1ᵀ", k, m, h),
        _product("W2ᵀ dZ2", h, k, m),
        _masked("ReLU′", h * m),
        _product("dZ1 Xᵀ", h, m, d),
        _means(((h, d), (k, h)), m),
        _update(parameter_count(h)),
    )


def kinds() -> tuple[Kind, ...]:
    """The kinds of operations of an iteration."""
    return tuple(KIND_NAMES)


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


def parameter_count(hidden: int = HIDDEN) -> int:
    """Weights and biases of both layers."""
    return (PIXELS + 1) * hidden + (hidden + 1) * CLASSES


def activation_count(setting: Setting) -> int:
    """Elements that the forward pass leaves for the backward pass."""
    return 2 * (setting.hidden + CLASSES) * setting.samples


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
    parameters = parameter_count(setting.hidden) * size
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
        samples, hidden = case.factors.get("samples"), case.factors.get("hidden", HIDDEN)
        if not case.layers or case.factors.get("network") != _NETWORKS[0]:
            continue
        place = f"data/{stored.file}: cases[{index}]"
        if not isinstance(samples, int):
            raise StudyError(
                f"{place}.factors: found {samples!r} images, expected a number of them; run the "
                "experiment of this version again."
            )
        expected = total(Setting("scaling", "float32", samples, "", int(hidden))).macs
        if training_macs(case.layers) != expected:
            raise StudyError(
                f"{place}.layers: an iteration has {training_macs(case.layers):,} multiply-adds, "
                f"expected {expected:,}; run the experiment of this version again."
            )
