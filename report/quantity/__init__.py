"""Quantities: expressions over measurements that know their unit, formula, sources and interval."""
