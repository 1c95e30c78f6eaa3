"""Readers of the output of profilers and counters, and checks that measurements must pass."""
