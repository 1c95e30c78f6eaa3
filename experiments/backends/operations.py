"""What an iteration is made of: each operation under its own name, for any array library.

The network calls nothing but these, so that wrapping them times every operation of an iteration
where it stands (``timed``), by the kinds of the source's table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

#: An array of any library; the array API standard has no type that checkers know.
Array: TypeAlias = Any
#: A namespace of the array API standard.
Namespace: TypeAlias = Any

#: Operation -> the quantity that its time adds to.
QUANTITY_OF: Final = {
    "product": "matrix_product_time",
    "product_transposed": "matrix_product_time",
    "transposed_product": "matrix_product_time",
    "add_bias": "bias_time",
    "relu": "relu_time",
    "softmax": "softmax_time",
    "error": "gradient_time",
    "mean": "gradient_time",
    "mean_error": "gradient_time",
    "through_relu": "gradient_time",
    "descend": "update_time",
}


class Operations:
    """The operations as one array library does them; matrices have a column a sample."""

    def __init__(self, xp: Namespace) -> None:
        """Those of the library whose namespace is ``xp``."""
        self.xp = xp
        self.product = xp.matmul
        self.add_bias = xp.add
        self.error = xp.subtract

    def product_transposed(self, left: Array, right: Array) -> Array:
        """left · rightᵀ."""
        return self.xp.tensordot(left, right, axes=((1,), (1,)))

    def transposed_product(self, left: Array, right: Array) -> Array:
        """leftᵀ · right."""
        return self.xp.tensordot(left, right, axes=((0,), (0,)))

    def relu(self, sums: Array) -> Array:
        """``max(0, sums)``, element by element, by the library's own operation.

        Not by the standard's ``clip``, which array-api-compat composes of several for CuPy and
        PyTorch.
        """
        own = getattr(self.xp, "relu", None)
        return own(sums) if own else self.xp.maximum(sums, 0)

    def softmax(self, sums: Array) -> Array:
        """Exponentials over their sum, a column a sample; less its maximum: none overflows."""
        powers = self.xp.exp(sums - self.xp.max(sums, axis=0, keepdims=True))
        return powers / self.xp.sum(powers, axis=0, keepdims=True)

    def mean(self, product: Array, samples: int) -> Array:
        """A sum over the samples as their mean."""
        return product * (1 / samples)

    def mean_error(self, error: Array, samples: int) -> Array:
        """The mean of each row over the samples, ``(rows, 1)``."""
        return self.xp.sum(error, axis=1, keepdims=True) * (1 / samples)

    def through_relu(self, gradient: Array, sums: Array) -> Array:
        """The gradient where the sums are above 0, else 0."""
        return gradient * self.xp.astype(sums > 0, gradient.dtype)

    def descend(self, parameter: Array, gradient: Array, rate: float) -> Array:
        """A parameter after a step against its gradient."""
        return parameter - rate * gradient


def timed(
    xp: Namespace,
    wait: Callable[[Array], object],
    now: Callable[[], float],
    tell: Callable[[str, float], None],
) -> Operations:
    """The operations, each finished before the next; ``tell`` gets its quantity and its time.

    ``wait`` returns once an array is computed; the time is in the unit of ``now``.
    """

    def watched(quantity: str, operation: Callable[..., Array]) -> Callable[..., Array]:
        def call(*arguments: Any) -> Array:
            start = now()
            result = operation(*arguments)
            wait(result)
            tell(quantity, now() - start)
            return result

        return call

    ops = Operations(xp)
    for name, quantity in QUANTITY_OF.items():
        setattr(ops, name, watched(quantity, getattr(ops, name)))
    return ops
