"""Counters of executed work, each read in processes of their own and never while timing."""
