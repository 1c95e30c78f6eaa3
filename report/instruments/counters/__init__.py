"""Counters of executed work: what their tools print, and what it means; pure."""
