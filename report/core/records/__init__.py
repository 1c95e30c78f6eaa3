"""The format of records, shared by measuring and building, and a strict reader."""

from typing import Final

#: Suffix of the file names of records.
ENDING: Final = ".json"
#: Folder of imported records inside the folder of a study.
IMPORTED: Final = "imported"
#: File with the records that each paper is about, in the data directory.
EDITIONS: Final = "editions.yaml"
#: File with the operators of timm's CNNs, in the data directory.
OPERATORS: Final = "operators-of-timm.jsonl.gz"
#: Files and folders that are read from the project's data if the user's data directory lacks them.
SHARED: Final = ("devices.yaml", "references.bib", OPERATORS, "reported/")
