"""Compare functions: a separate process times them in turn and checks every result."""
