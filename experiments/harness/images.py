"""The images of a run: the folder that the user gave, or digits that need none; read once."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.study import CaseFile, Factors, Session

if TYPE_CHECKING:
    from experiments.datasets import Images
    from experiments.datasets.image_folder import Photographs


def check(dataset: str | None, folder: Path) -> None:
    """Look through the user's own images before anything is measured; raises ``DataSetError``.

    ``dataset`` is what a study reads of ``folder``: ``mnist``, or photographs.
    """
    if dataset == "mnist":
        _read(folder)
    else:
        photographs_in(folder)


@lru_cache(maxsize=1)
def photographs_in(folder: Path) -> Photographs:
    """The photographs of a folder; kept between cases."""
    from experiments.datasets.image_folder import photographs, require_pillow

    require_pillow()
    return photographs(folder)


def images_of(factors: Factors, session: Session) -> Images:
    """The images that a case names as its ``dataset``: the user's ``mnist``, else ``digits``."""
    return _read(session.images if factors["dataset"] == "mnist" else None)


@lru_cache(maxsize=1)
def _read(folder: Path | None) -> Images:
    """Kept between cases: a whole MNIST takes seconds."""
    from experiments.datasets import handwritten

    return handwritten(folder)


def image_files(images: Images) -> tuple[CaseFile, ...]:
    """Beside the record: which images they were, and two of each class for a figure."""
    from experiments.datasets import identity, sample

    return (
        CaseFile("images.json", "which images were trained and tested on", identity(images)),
        CaseFile(
            "sample.json",
            "two test images of each class, their pixels in hexadecimal",
            sample(images, each=2),
        ),
    )
