"""What arithmetic on shapes says of work, bytes, peak memory and time."""
