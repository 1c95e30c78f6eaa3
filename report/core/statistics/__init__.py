"""From samples to estimates with intervals."""
