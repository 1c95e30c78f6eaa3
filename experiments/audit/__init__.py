"""``python -m experiments audit``: the numbers of a published table, computed again."""
