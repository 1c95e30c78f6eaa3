"""Readers of the output of programs, such as Nsight Compute, that count executed operations."""
