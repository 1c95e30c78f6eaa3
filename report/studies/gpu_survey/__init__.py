"""gpu_survey: what published CNNs gain from a new GPU, and how near they come to its roof."""
