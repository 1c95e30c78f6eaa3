"""Measurements that others published, read into records with their origin."""
