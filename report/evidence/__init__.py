"""Measurements, published values and theory, brought together."""
