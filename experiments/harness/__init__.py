"""Measuring code shared by all studies: request, processes, times, memory, peaks and journal."""
