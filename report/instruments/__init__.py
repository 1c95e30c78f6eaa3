"""Readers of the output of profilers and counters, and rules that measurements must satisfy."""
