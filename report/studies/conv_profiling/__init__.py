"""conv_profiling: where the bytes and the operations of a convolution's profile go."""

from typing import Final

#: Names of a record's attachments that the paper reads.
ATTACHMENTS: Final = ("ncu.json.gz", "onednn.json")
