"""Estimates with intervals from samples."""
