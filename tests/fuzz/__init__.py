"""Seeded attacks on the build: ``python -m tests.fuzz``."""
