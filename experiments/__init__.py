"""Measuring side: run a study on this machine and write one record under ``data/``.

torch is imported only after its number of threads is fixed (see ``experiments.machine.runtime``).
"""
