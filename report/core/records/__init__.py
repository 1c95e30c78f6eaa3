"""The format of records, read strictly: the one thing that measuring and building share."""

from typing import Final

#: How the names of records end.
ENDING: Final = ".json"
#: The folder in that of a study where records of others lie, apart from its own.
IMPORTED: Final = "imported"
#: The operators of the CNNs of timm, a file of the data directory.
OPERATORS: Final = "operators-of-timm.jsonl.gz"
#: What a directory of records alone takes from the project's own data.
SHARED: Final = ("devices.yaml", "references.bib", OPERATORS, "reported/")
