"""Jobs of a cluster, each of which measures a shard of a run."""
