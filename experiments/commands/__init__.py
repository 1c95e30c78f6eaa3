"""Commands that examine records and the machine without measuring."""
