"""gpu_survey: how near published CNNs come to the roof of a GPU, from measurements of others."""

from typing import Final

#: The attachments of a record that the paper is computed from.
ATTACHMENTS: Final[tuple[str, ...]] = ()
