"""inference_memory: what CNN inference takes in time and memory, and what saves it."""

from typing import Final

#: The attachments of a record that the paper is computed from.
ATTACHMENTS: Final[tuple[str, ...]] = ()
