"""inference_memory: what CNN inference takes in time and memory, and what saves it."""
