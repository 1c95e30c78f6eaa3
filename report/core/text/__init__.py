"""Numbers and plain text as each output prints them."""
