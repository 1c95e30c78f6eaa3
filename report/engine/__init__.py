"""The build engine: find the stale steps and run them.

``steps`` describes the steps and their dependencies, ``cache`` remembers the results of earlier
builds, ``plan`` compares the two, ``build`` and ``run`` run the stale steps, ``actions`` does their
work, ``writing`` renders the document, and ``place`` puts finished papers into ``out/``.
"""
