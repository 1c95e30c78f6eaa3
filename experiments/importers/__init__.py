"""Import of published measurements into records with their origin."""
