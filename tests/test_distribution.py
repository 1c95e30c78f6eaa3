"""What installing ridgepoint brings: its dependencies, and no module on anybody's path."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDERS = ("build", "report", "experiments", "figures", "benchmarks", "tests")
#: Prints those of its arguments that can be imported.
_FOUND = (
    "import importlib.util, sys; "
    "print(*(name for name in sys.argv[1:] if importlib.util.find_spec(name)))"
)


def test_an_installation_puts_no_module_on_the_path(tmp_path: Path) -> None:
    """Anywhere but in the checkout; ``build`` belongs to the Python Packaging Authority."""
    found = subprocess.run(
        [sys.executable, "-c", _FOUND, *FOLDERS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == []
