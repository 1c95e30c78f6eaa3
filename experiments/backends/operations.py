"""What an iteration is made of: each operation under its own name, for any array library.

The networks call nothing but these, so that wrapping them times every operation of an iteration
where it stands (``timed``), by the kinds of the source's table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final, TypeAlias

#: An array of any library; the array API standard has no type that checkers know.
Array: TypeAlias = Any
#: A namespace of the array API standard.
Namespace: TypeAlias = Any


@dataclass(frozen=True)
class Operations:
    """The operations as one array library does them; matrices have a column a sample.

    - ``unfold(images, kernel)``: the windows of ``(H, W, N)`` as columns, ``(kernel², H'·W'·N)``
      (im2col);
    - ``reshape(array, shape)``: which copies in a library that has no views;
    - ``product(left, right)``: left · right; ``product_transposed`` left · rightᵀ;
      ``transposed_product`` leftᵀ · right;
    - ``add_bias(sums, bias)``: one number a row;
    - ``relu(sums)``, ``softmax(sums)``: the latter over each column;
    - ``pool(maps)``: the maximum of windows of 2×2, ``(C, H, W, N)`` to half the extent;
    - ``error(probabilities, targets)``, ``mean(product, samples)``, ``mean_error(error, samples)``,
      ``through_relu(gradient, sums)``, ``unpool(gradient, pooled, maps)``: the parts of a gradient
      that are no product;
    - ``descend(parameter, gradient, rate)``: one step of gradient descent.
    """

    unfold: Callable[[Array, int], Array]
    reshape: Callable[[Array, tuple[int, ...]], Array]
    product: Callable[[Array, Array], Array]
    product_transposed: Callable[[Array, Array], Array]
    transposed_product: Callable[[Array, Array], Array]
    add_bias: Callable[[Array, Array], Array]
    relu: Callable[[Array], Array]
    pool: Callable[[Array], Array]
    softmax: Callable[[Array], Array]
    error: Callable[[Array, Array], Array]
    mean: Callable[[Array, int], Array]
    mean_error: Callable[[Array, int], Array]
    through_relu: Callable[[Array, Array], Array]
    unpool: Callable[[Array, Array, Array], Array]
    descend: Callable[[Array, Array, float], Array]


#: Operation -> the quantity that its time adds to.
QUANTITY_OF: Final = {
    "unfold": "unfold_time",
    "reshape": "unfold_time",
    "product": "matrix_product_time",
    "product_transposed": "matrix_product_time",
    "transposed_product": "matrix_product_time",
    "add_bias": "bias_time",
    "relu": "relu_time",
    "pool": "pooling_time",
    "softmax": "softmax_time",
    "error": "gradient_time",
    "mean": "gradient_time",
    "mean_error": "gradient_time",
    "through_relu": "gradient_time",
    "unpool": "gradient_time",
    "descend": "update_time",
}


def operations(xp: Namespace) -> Operations:
    """The operations of the library whose namespace is ``xp``."""
    return Operations(
        unfold=partial(unfold, xp),
        reshape=xp.reshape,
        product=xp.matmul,
        # Not matmul with a transposed view: JAX has no views, so that transposing copies there.
        product_transposed=partial(xp.tensordot, axes=((1,), (1,))),
        transposed_product=partial(xp.tensordot, axes=((0,), (0,))),
        add_bias=xp.add,
        relu=partial(relu, xp),
        pool=partial(pool, xp),
        softmax=partial(softmax, xp),
        error=xp.subtract,
        mean=mean,
        mean_error=partial(mean_error, xp),
        through_relu=partial(through_relu, xp),
        unpool=partial(unpool, xp),
        descend=descend,
    )


def unfold(xp: Namespace, images: Array, kernel: int) -> Array:
    """Every window of ``kernel``² pixels as a column: ``(H, W, N)`` to ``(kernel², H'·W'·N)``."""
    height, width = (extent - kernel + 1 for extent in images.shape[:2])
    windows = [
        images[row : row + height, column : column + width, :]
        for row in range(kernel)
        for column in range(kernel)
    ]
    return xp.reshape(xp.stack(windows), (kernel * kernel, -1))


def relu(xp: Namespace, sums: Array) -> Array:
    """``max(0, sums)``, element by element, by the library's own operation.

    Not by the standard's ``clip``, which array-api-compat composes of several for CuPy and PyTorch.
    """
    own = getattr(xp, "relu", None)
    return own(sums) if own else xp.maximum(sums, 0)


def softmax(xp: Namespace, sums: Array) -> Array:
    """Exponentials over their sum, a column a sample; less its maximum, so that none overflows."""
    powers = xp.exp(sums - xp.max(sums, axis=0, keepdims=True))
    return powers / xp.sum(powers, axis=0, keepdims=True)


def pool(xp: Namespace, maps: Array) -> Array:
    """The maximum of each window of 2×2: ``(C, H, W, N)`` to ``(C, H/2, W/2, N)``."""
    first, second, third, fourth = _corners(maps)
    return xp.maximum(xp.maximum(first, second), xp.maximum(third, fourth))


def unpool(xp: Namespace, gradient: Array, pooled: Array, maps: Array) -> Array:
    """The gradient at ``maps``: each window's goes to its maximum, the first where several are."""
    corners, taken = [], xp.zeros_like(pooled, dtype=xp.bool)
    for corner in _corners(maps):
        chosen = xp.logical_and(corner == pooled, xp.logical_not(taken))
        taken = xp.logical_or(taken, chosen)
        corners.append(gradient * xp.astype(chosen, gradient.dtype))
    rows = (xp.stack(corners[:2], axis=3), xp.stack(corners[2:], axis=3))
    return xp.reshape(xp.stack(rows, axis=2), maps.shape)


def _corners(maps: Array) -> tuple[Array, Array, Array, Array]:
    """The four pixels of every window, row by row."""
    return (
        maps[:, 0::2, 0::2, :],
        maps[:, 0::2, 1::2, :],
        maps[:, 1::2, 0::2, :],
        maps[:, 1::2, 1::2, :],
    )


def mean(product: Array, samples: int) -> Array:
    """A sum over the samples as their mean."""
    return product * (1 / samples)


def mean_error(xp: Namespace, error: Array, samples: int) -> Array:
    """The mean of each row over the samples, ``(rows, 1)``."""
    return xp.sum(error, axis=1, keepdims=True) * (1 / samples)


def through_relu(xp: Namespace, gradient: Array, sums: Array) -> Array:
    """The gradient where the sums are above 0, else 0."""
    return gradient * xp.astype(sums > 0, gradient.dtype)


def descend(parameter: Array, gradient: Array, rate: float) -> Array:
    """A parameter after a step against its gradient."""
    return parameter - rate * gradient


def timed(
    plain: Operations,
    wait: Callable[[Array], object],
    now: Callable[[], float],
    tell: Callable[[str, float], None],
) -> Operations:
    """The same operations, each finished before the next; ``tell`` gets its quantity and its time.

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

    names = (field.name for field in fields(plain))
    return Operations(**{name: watched(QUANTITY_OF[name], getattr(plain, name)) for name in names})
