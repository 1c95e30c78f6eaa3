"""inference_memory: the batch of an inference that fits into memory, and ways to fit more."""
