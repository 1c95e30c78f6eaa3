"""Cluster jobs that measure one shard of a run each."""
