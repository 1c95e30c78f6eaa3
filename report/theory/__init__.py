"""Work, bytes, peak memory and time, computed from shapes."""
