"""conv_profiling: what the profilers see of one convolution, and whether theory says so before."""

from typing import Final

#: The attachments of a record that the paper is computed from.
ATTACHMENTS: Final = ("trace.*.json.gz", "ncu.json.gz", "onednn.*.txt")
