"""Quantities: expressions over measurements, with unit, formula, sources and interval."""
