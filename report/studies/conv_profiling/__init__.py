"""conv_profiling: where the bytes and the operations of a convolution's profile go."""

from typing import Final

#: Names of the attachments of a record that the paper reads.
ATTACHMENTS: Final = ("ncu.json.gz", "onednn.json")
