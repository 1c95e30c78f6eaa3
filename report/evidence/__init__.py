"""Comparisons of measurements, published values and theory."""
