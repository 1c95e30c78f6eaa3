"""The build engine: which steps are stale and why, and how the stale ones are run.

``graph`` says what steps there are, ``contents``, ``code`` and ``packages`` what they depend on,
``manifest`` what the last build found, ``plan`` compares the two, ``actions`` does a step's work
and ``run`` puts it in place.  What ``plan`` needs is imported on the way to «nothing to do», so
those modules import little: tuples with names instead of dataclasses, strings instead of paths.
"""
