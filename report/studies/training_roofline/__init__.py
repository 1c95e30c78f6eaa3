"""training_roofline: how near training comes to the machine's roof, and what keeps it away."""

from typing import Final

#: The attachments of a record that the paper is computed from.
ATTACHMENTS: Final = ("trace.*.json.gz", "*.raw.gz", "lifetimes.json.gz")
