"""training_roofline: how much of a paradox of efficiencies is arithmetic, and what is left."""
