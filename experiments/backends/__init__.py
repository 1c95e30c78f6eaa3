"""A perceptron from scratch, written once and run by every array library.

The functions use what the Python array API standard (2024.12, data-apis.org/array-api) names, so
that the same lines run on NumPy, PyTorch and CuPy.  ``case`` is one case in a process that imports
one library only; ``times`` measures it.
"""
