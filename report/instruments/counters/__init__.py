"""Counters of executed work: readers of the output of counting programs."""
