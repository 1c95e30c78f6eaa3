"""Compile one Typst source in a separate process; ``report.render.typst`` runs this file.

Typst keeps its caches until the process ends: 300 to 400 MB per paper.  The standard input is JSON:
the folder of the package ``typst``, the file to write, and the arguments of ``typst.compile``.  An
error of Typst is printed as JSON.
"""

import json
import sys
from pathlib import Path


def main() -> int:
    """Write the PDF; return 1 if Typst refuses the source."""
    job = json.load(sys.stdin)
    sys.path.insert(0, job["packages"])
    import typst

    try:
        pdf = typst.compile(**job["arguments"])
    except typst.TypstError as error:
        json.dump({"message": str(error), "diagnostic": error.diagnostic}, sys.stdout)
        return 1
    # Typst itself cannot write to a path that is not Unicode.
    Path(job["pdf"]).write_bytes(pdf)
    return 0


if __name__ == "__main__":
    sys.exit(main())
