"""conv_scaling: how one convolution grows in work, memory and time with the batch size."""

from typing import Final

#: The attachments of a record that the paper is computed from.
ATTACHMENTS: Final[tuple[str, ...]] = ()
