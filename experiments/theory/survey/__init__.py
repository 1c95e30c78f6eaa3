"""The theory of a network tried on all of timm's: counts of each, and peaks of some, measured."""
