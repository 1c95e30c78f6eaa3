"""gpu_survey: what published CNNs gain from a new GPU, and how near they come to its roof."""

from typing import Final

#: The attachments of a record that the paper is computed from.
ATTACHMENTS: Final[tuple[str, ...]] = ()
