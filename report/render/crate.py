"""The site as a research object: RO-Crate 1.1 (https://w3id.org/ro/crate/1.1)."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from report.render.settings import Settings

if TYPE_CHECKING:
    from report.render.site import Paper

#: The file that describes a crate, in its root.
CRATE: Final = "ro-crate-metadata.json"

Entity: TypeAlias = dict[str, Any]

_CONTEXT: Final = "https://w3id.org/ro/crate/1.1/context"
_PROFILE: Final = "https://w3id.org/ro/crate/1.1"
_LICENCE: Final = "#licence"
_NO_LICENCE: Final = "No licence is stated: ask the authors before reuse."


def crate(papers: Sequence[Paper], settings: Settings) -> Entity | None:
    """What the site holds, paper by paper; None before anything was measured.

    A crate needs a day of publication, for which stands that of the newest record.
    """
    days = [paper.entry.measured for paper in papers if paper.entry.measured]
    if not days:
        return None
    parts = [entity for paper in papers for entity in _of_paper(paper)]
    folders = [entity for entity in parts if entity["@type"] == "Dataset"]
    people = [_person(author.name, author.affiliation) for author in settings.authors]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": settings.title,
        "description": settings.lead,
        "datePublished": max(days),
        "license": {"@id": _LICENCE},
        "hasPart": _references(folders),
        **({"author": _references(people)} if people else {}),
    }
    licence = {
        "@id": _LICENCE,
        "@type": "CreativeWork",
        "name": settings.licence or _NO_LICENCE,
        "description": settings.licence or _NO_LICENCE,
    }
    return {"@context": _CONTEXT, "@graph": [_descriptor(), root, licence, *people, *parts]}


def _descriptor() -> Entity:
    return {
        "@id": CRATE,
        "@type": "CreativeWork",
        "conformsTo": {"@id": _PROFILE},
        "about": {"@id": "./"},
    }


def _of_paper(paper: Paper) -> Iterator[Entity]:
    """The folder of a paper, then its files."""
    study = paper.entry.study
    files = [_file(name, words) for name, words in _files(paper).items()]
    yield {
        "@id": f"{study}/",
        "@type": "Dataset",
        "name": paper.entry.title,
        "description": paper.entry.abstract or paper.entry.title,
        **({"datePublished": paper.entry.measured} if paper.entry.measured else {}),
        "license": {"@id": _LICENCE},
        "hasPart": _references(files),
    }
    yield from files


def _files(paper: Paper) -> dict[str, str]:
    """The files of a paper by their places on the site, with what each is."""
    entry = paper.entry
    used = [PurePosixPath(record["file"]).name for record in paper.records if record["used"]]
    return {
        **dict.fromkeys(paper.pages or (entry.page,), f"Page: {entry.title}"),
        **({entry.pdf: f"PDF: {entry.title}"} if entry.pdf else {}),
        f"{entry.study}/values.json": "Every number, table and claim of the paper",
        **({f"{entry.study}/samples.csv.gz": "Every sample, one a row"} if used else {}),
        **{f"{entry.study}/records/{name}.gz": f"Record {name}" for name in used},
    }


def _file(name: str, words: str) -> Entity:
    kind, packed = mimetypes.guess_type(name)
    return {
        "@id": name,
        "@type": "File",
        "name": words,
        "encodingFormat": "application/gzip" if packed else kind or "application/octet-stream",
    }


def _person(name: str, affiliation: str | None) -> Entity:
    own = f"#{'-'.join(name.split())}"
    return {"@id": own, "@type": "Person", "name": name} | (
        {"affiliation": affiliation} if affiliation else {}
    )


def _references(entities: Iterable[Mapping[str, Any]]) -> list[Entity]:
    return [{"@id": entity["@id"]} for entity in entities]
