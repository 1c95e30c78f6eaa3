"""The only way a file of the data directory is opened: regular files inside it and nothing else."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from report.errors import RecordError

PROJECT: Final = Path(__file__).resolve().parents[2] / "data"


def shared(name: str, data: Path) -> Path:
    """The file ``name`` of ``data``, or the project's own where that directory has none.

    So a directory of records alone has published values, data sheets and literature too.
    """
    return data / name if os.path.lexists(data / name) else PROJECT / name


def read_file(path: Path, place: str, remedy: str, data: Path | None = None) -> bytes:
    """The content of the regular file ``path``, which messages call ``place``.

    ``data`` is the directory that the file must lie in once all links are followed: a paper must
    not depend on what is committed elsewhere or nowhere.  Raises ``RecordError`` that ends with
    ``remedy``, also for a pipe or a device, which reading would wait for without end.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise RecordError(f"{place}: found no regular file; move it elsewhere.")
        if data is not None and not path.resolve().is_relative_to(data.resolve()):
            raise RecordError(
                f"{place}: is a link that leads out of the data directory; put the file itself in "
                "its place."
            )
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RecordError(f"{place}: cannot be read ({reason}); {remedy}.") from error
