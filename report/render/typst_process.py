"""Compiles one Typst source in a process of its own; ``report.render.typst`` runs this file.

Typst keeps what it has computed for as long as its process lives: 300 to 400 MB a paper.  The job
is JSON on the standard input: where the package ``typst`` lies, the file to write, and the
arguments of ``typst.compile``.  What Typst refuses is JSON on the standard output.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> int:
    """Write the PDF; 1 if Typst refuses the source."""
    job = json.load(sys.stdin)
    sys.path.insert(0, job["packages"])
    import typst

    try:
        pdf = typst.compile(**job["arguments"])
    except typst.TypstError as error:
        json.dump({"message": str(error), "diagnostic": error.diagnostic}, sys.stdout)
        return 1
    # Typst itself cannot write to a place whose name is no Unicode.
    Path(job["pdf"]).write_bytes(pdf)
    return 0


if __name__ == "__main__":
    sys.exit(main())
