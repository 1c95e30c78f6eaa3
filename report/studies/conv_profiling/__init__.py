"""conv_profiling: where the bytes and the operations of a convolution's profile go."""

from typing import Final

#: The attachments of a record that the paper is computed from.
ATTACHMENTS: Final = ("ncu.json.gz", "onednn.json")
