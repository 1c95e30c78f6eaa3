"""Commands that look at records and at the machine without measuring."""
