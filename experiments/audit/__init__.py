"""``python -m experiments audit``: recompute the numbers of a published table."""
