"""Counters of executed work: readers of their tools' output; pure."""
