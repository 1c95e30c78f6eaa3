"""A perceptron from scratch, written once against the array API standard (2024.12)."""
