"""What every study shares: timing, memory, ceilings, environment, sweep and journal."""
