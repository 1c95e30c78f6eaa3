"""Seeded attacks on what a build reads."""
