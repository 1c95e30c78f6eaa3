"""Comparison of functions: a judge times them in turn, and checks every result."""
