"""The machine and its state: processor, memory, limits, noise, and the code that measures."""
