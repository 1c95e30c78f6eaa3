"""The format of records, which measuring and building share, and its strict reader."""

from typing import Final

#: Suffix of the file names of records.
ENDING: Final = ".json"
#: Folder of imported records inside the folder of a study.
IMPORTED: Final = "imported"
#: File of the data directory with the operators of timm's CNNs.
OPERATORS: Final = "operators-of-timm.jsonl.gz"
#: Files of the project's own data that complete a directory with records alone.
SHARED: Final = ("devices.yaml", "references.bib", OPERATORS, "reported/")
