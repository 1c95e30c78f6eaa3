"""Machine and its state: processor, memory, limits, noise, version of the measuring code."""
