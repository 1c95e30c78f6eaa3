"""training_roofline: how much of a paradox of efficiencies is arithmetic, and what is left."""

from typing import Final

#: The attachments of a record that the paper is computed from.
ATTACHMENTS: Final[tuple[str, ...]] = ()
