"""The CNNs as torch modules; importing a module of this package imports torch."""
