"""What profilers and counters print, read strictly."""
