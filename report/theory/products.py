"""Which kernel computes a linear layer on a CPU while it is counted, where that was seen; pure.

What a library's kernels execute stands in no document, so that it holds for the version and the
shapes that it was read off, and no further.  It was read off MKL 2024.2 in PyTorch 2.13.0 under
valgrind 3.19, which shows every machine that has AVX2 the same processor (an Intel Core i7-4910MQ),
so that MKL chooses the same kernels wherever the counter runs:

- One row is a product of matrix and vector, ``mkl_blas_avx2_xsgemv_t``.  Its vectors run along the
  inputs, the last one filled up (``vfmadd231ps``); one more scalar multiply-add an output adds the
  sum, scaled, to the output (``vfmadd213ss``), with a bias and without.
- From two rows on it is ``mkl_blas_avx2_sgemm_kernel_nocopy_TN``: the form ``_b1``, which adds to
  the output, and without a bias the form ``_b0`` for the first inputs.  Its vectors run along the
  outputs.  It takes rows by the six; three to five that are left over it multiplies and adds in
  fused instructions too (``vfmadd231ps``), one or two in separate ones (a ``vmulps`` and a
  ``vaddps`` of its result).

callgrind counted every instruction of these kernels (``--dump-instr=yes``, read with objdump) for
72 shapes, among them 784 to 10 at batch 1, 2, 8 and 64: the lanes of both kinds are those of the
rule, to the unit.  lackey's count is the rule's, plus two conversions, for all 130 shapes of one
row that were tried and for all 463 of more rows inside the bounds below: 230 of them were drawn at
random after the rule was written down, the others form a grid.  Beyond these bounds it is not
always: other kernels take over, or rows are split otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from report.records.layers import Layer, Linear
from report.theory.reconciliation import Term
from report.theory.terms import added_sums, padded_inputs, unfused_rows

#: How PyTorch's build names the library that was read.
LIBRARY: Final = "Math Kernel Library Version 2024.2"
MATRIX_VECTOR: Final = "mkl_blas_avx2_xsgemv_t"
MATRIX_MATRIX: Final = "mkl_blas_avx2_sgemm_kernel_nocopy_TN"

#: Rows that the matrix kernel takes at once, and left-over rows that it does not fuse.
ROWS_AT_ONCE: Final = 6
UNFUSED_ROWS: Final = frozenset({1, 2})

_VECTOR_INPUTS: Final = range(1, 2049)
_VECTOR_OUTPUTS: Final = range(1, 1001)
_ROWS: Final = range(2, 129)
_INPUTS: Final = range(2, 2049)
_OUTPUTS: Final = range(4, 49)


def product_kernel(layer: Layer, build: str) -> str | None:
    """The kernel of a float32 linear layer; None where none was seen for its shape and library.

    ``build`` is what ``torch.__config__`` says.
    """
    if not isinstance(layer, Linear) or layer.dtype != "float32" or LIBRARY not in build:
        return None
    rows, inputs = layer.input_shape if len(layer.input_shape) == 2 else (0, 0)
    outputs = layer.output_shape[-1]
    if rows == 1 and inputs in _VECTOR_INPUTS and outputs in _VECTOR_OUTPUTS:
        return MATRIX_VECTOR
    if rows in _ROWS and inputs in _INPUTS and outputs in _OUTPUTS:
        return MATRIX_MATRIX
    return None


def product_terms(layer: Layer, kernel: str | None, width: int) -> tuple[Term, ...]:
    """What ``kernel`` executes beyond theory and hides from a counter, beside padded outputs (MAC).

    Always the same terms, 0 where the kernel has none of the kind, as where it is None; vectors
    hold ``width`` elements.
    """
    vector, matrix = kernel == MATRIX_VECTOR, kernel == MATRIX_MATRIX
    separate = _seen("vmulps and vaddps", kernel)
    return (
        _only(vector, padded_inputs(layer, width, _seen("vfmadd231ps", kernel))),
        _only(vector, added_sums(layer, _seen("vfmadd213ss", kernel))),
        _only(matrix, unfused_rows(layer, ROWS_AT_ONCE, UNFUSED_ROWS, width, separate)),
    )


def _seen(instructions: str, kernel: str | None) -> str:
    return f"callgrind: {instructions} in kernel {kernel}"


def _only(applies: bool, term: Term) -> Term:
    return term if applies else replace(term, amount=0, evidence="")
