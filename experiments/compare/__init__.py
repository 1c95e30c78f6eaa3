"""Compare functions: a separate process times the functions alternately and checks every result."""
