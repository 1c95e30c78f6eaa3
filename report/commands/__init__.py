"""The commands of ``build.py``: build, check, compare, verify, serve, and start a study."""
