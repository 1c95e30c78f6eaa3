"""What was measured, published and computed, brought together."""
