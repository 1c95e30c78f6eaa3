"""The measuring side: runs a study on this machine and writes one record under ``data/``.

torch is imported lazily, after the thread counts are fixed (see ``experiments.machine.runtime``).
"""
