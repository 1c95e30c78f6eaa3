"""The build engine: which steps are stale and why, and how the stale ones are run.

``steps`` says what steps there are and what they depend on, ``cache`` what the last build found,
``pipeline`` compares the two, ``run`` runs what is stale, ``actions`` does a step's work, and
``place`` puts a whole paper in place.  What ``pipeline`` needs is imported on the way to «nothing
to do», so those modules import little: tuples with names instead of dataclasses, strings instead
of paths.
"""
