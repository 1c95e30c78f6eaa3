"""What ``build.py`` does beside building: check, compare, verify, watch and serve."""
