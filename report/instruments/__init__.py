"""Readers of the output of profilers and counters, and rules about what a measurement is worth."""
