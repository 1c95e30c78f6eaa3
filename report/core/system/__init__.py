"""Processes, signals, streams and files of the operating system."""
